"""A fitted forecaster as a model of dynamics to plan with: starts, roll-outs by the thousand, single steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pesn._support.arguments import as_real
from pesn._support.checks import whole_number
from pesn._support.threads import one_blas_thread
from pesn._support.types import Array, TableLike
from pesn.forecasting.arguments import Rows
from pesn.forecasting.batched import COVARIANCES, Rolled, in_form, loop_for, roll_out
from pesn.forecasting.context import Begun, Uncertainty
from pesn.forecasting.dataset import check_within_reach
from pesn.forecasting.filtered import FilteredContext
from pesn.forecasting.fitted import FittedForecaster
from pesn.forecasting.futures import calibration_factors, share_of
from pesn.forecasting.linearized import linear_step
from pesn.forecasting.rollout import Rollout
from pesn.gaussian import Gaussian

__all__ = ["DynamicsModel"]


class DynamicsModel(FittedForecaster):
    """What planning asks of a forecaster: known inputs X are its controls, y the states."""

    def start(
        self, context: TableLike | Gaussian | tuple[TableLike | Gaussian, TableLike | Gaussian] | None = None
    ) -> FilteredContext:
        """The state after ``context``, filtered once, for many calls of :meth:`rollout` and ``forecast``.

        Parameters
        ----------
        context
            As in ``forecast``: recent y (n, d), or (y, X) with X (n − 1, m); one row is enough. None: after the last row that
            ``fit`` or ``update`` has seen. Or arrays of B contexts of one length, y (B, n, d) and X (B, n − 1, m), without gaps.

        Returns
        -------
        FilteredContext
            It serves until the next ``fit`` or ``update``.

        Examples
        --------
        >>> import pesn
        >>> runs = pesn.systems.cart_pole.simulate(runs=4, steps=300, rng=0)
        >>> network = pesn.ProbabilisticESN(30, washout="auto", random_state=0)
        >>> model = pesn.Forecaster(network).fit(runs.states, runs.inputs, lengths=runs.lengths)
        >>> hanging = model.start([[0.0, 3.14, 0.0, 0.0]])
        >>> model.rollout(np.zeros((100, 20, 1)), hanging).mean.shape
        (100, 20, 4)
        """
        check_is_fitted(self, "esn_")
        columns, given = self._columns, context if isinstance(context, tuple) else (context, None)
        if context is None:
            rows = Rows(self._recent, self._recent_known[:-1], self._time)
            return self._filtered(rows, Uncertainty.none(rows.y, self._recent_known), seen=True)
        if len(given) == 2 and not isinstance(given[0], Gaussian) and _axes(given[0]) == 3:
            return self._filtered(*self._batch_of(*given))
        rows, uncertainty = columns.context(context, self._time)
        last = np.zeros((1, self.n_known_))  # of the input that is not known yet
        return self._filtered(rows, Uncertainty(uncertainty.y_cov, np.vstack([uncertainty.u_var, last])))

    def _batch_of(self, y: Any, X: Any = None) -> tuple[Rows, Uncertainty]:
        """Contexts (B, n, d) with X (B, n − 1, m)."""
        y, m = np.asarray(as_real("context", y), np.float64), self.n_known_
        if y.shape[2] != self.n_columns_ or 0 in y.shape:
            raise ValueError(f"context must have shape (contexts, rows, {self.n_columns_}), got {y.shape}")
        if X is None and m and y.shape[1] > 1:
            raise ValueError(f"context must be (y, X) with X of shape {(len(y), y.shape[1] - 1, m)}, got y alone")
        known: Array = np.zeros((len(y), y.shape[1] - 1, m)) if X is None else as_real("X of context", X).astype(np.float64)
        if known.shape != (len(y), y.shape[1] - 1, m):
            raise ValueError(f"X of context must have shape {(len(y), y.shape[1] - 1, m)}, got {known.shape}")
        y, known = self.scaled(np.stack([self._columns.unwrapped(one) for one in y]), known)
        prior = self.prior_scale_
        check_within_reach("context", y, prior.y_mean, prior.y_std)
        check_within_reach("X of context", known, prior.x_mean, prior.x_std)
        none = Uncertainty.none(y, np.zeros((*y.shape[:-1], m)))
        return Rows(y, known, None), none

    def _filtered(self, rows: Rows, given: Uncertainty, seen: bool = False) -> FilteredContext:
        """``seen``: these are the last rows seen, of which the state is kept.

        While they are few, the regression of the start may want the last row, and its input, with the others.
        """
        loop, context = self.loop(), self._context_filter()
        begun = Begun(self._state) if seen and not context.few(len(rows.y)) else context.begin(loop, rows.y, rows.known, given)
        plain = None
        if given.exists:
            plain = context.begin(loop, rows.y, rows.known, Uncertainty.none(rows.y, given.u_var))
        return FilteredContext(rows, given, begun, plain, self._made_by)

    @property
    def _made_by(self) -> Array:
        """Weights, and the scale: rows in other units may lead to the same weights."""
        return np.concatenate([np.ravel(part) for part in (self.esn_.readout_.weights, *self.scale_)])

    def _started(self, start: FilteredContext | None) -> FilteredContext:
        if start is None:
            return self.start()
        if not isinstance(start, FilteredContext):
            raise TypeError(f"start must be what start(context) gave, or None, got {type(start).__name__}")
        start.check("start", self._made_by)
        return start

    def rollout(
        self, controls: Any, start: FilteredContext | None = None, covariance: str = "low-rank", *, rank: int = 20
    ) -> Rollout:
        """What B sequences of controls lead to, all at once and in closed form.

        The same model as ``forecast``'s, to the end in closed form: no members take over where the loop is far from linear.

        Parameters
        ----------
        controls
            (B, H, m), or (H, m), one sequence; the first row acts on the last row of the context.
        start
            What :meth:`start` gave, for one context or for B of them; None: after the last row seen.
        covariance
            "none": means alone, which take a fiftieth of the time; "low-rank": every covariance, to first order in what is
            uncertain, of columns as ``rank`` says; "full": with the second order, for a few sequences; "diagonal": entries of the
            network's state taken as independent, which is the cheapest and often far too narrow or too wide.
        rank
            Columns that "low-rank" keeps beside those of the rows and of what is read out.

        Returns
        -------
        Rollout
            ``mean`` (B, H, d), ``std``, ``cov``, and what planning asks of them, in the units of y.
        """
        check_is_fitted(self, "esn_")
        if covariance not in tuple(COVARIANCES):
            raise ValueError(f"covariance must be one of {', '.join(map(repr, COVARIANCES))}, got {covariance!r}")
        whole_number("rank", rank, 1)
        given, u = self._controls(controls)
        begun = self._started(start)
        if begun.batch and len(u) not in (1, *begun.batch):
            raise ValueError(f"controls must be as many as start has contexts, {begun.batch[0]}, or one for all, got {len(u)}")
        if begun.batch and len(u) == 1:
            given, u = (np.broadcast_to(part, (*begun.batch, *part.shape[1:])) for part in (given, u))
        with one_blas_thread():
            loop = loop_for(own := self.loop(), covariance, int(rank))
            rolled, plain = roll_out(loop, self._context_filter(), in_form(begun.begun, own, loop), u), None
            if begun.plain is not None and rolled.cov is not None:
                plain = roll_out(loop, self._context_filter(), in_form(begun.plain, own, loop), u)
        return self._in_units(rolled, plain, given)

    def _controls(self, controls: Any) -> tuple[Array, Array]:
        """(B, H, m) as they were given, and scaled."""
        self._columns.check_names("controls", controls, "X")
        given, m = np.asarray(as_real("controls", controls), np.float64), self.n_known_
        if given.ndim == 2:
            given = given[None]
        if given.ndim != 3 or given.shape[2] != m or 0 in given.shape[:2]:
            raise ValueError(f"controls must have shape (sequences, steps, {m}) or (steps, {m}), got {np.shape(controls)}")
        u = (given - self.scale_.x_mean) / self.scale_.x_std
        check_within_reach("controls", u, self.prior_scale_.x_mean, self.prior_scale_.x_std)
        return given, u

    def _in_units(self, rolled: Rolled, plain: Rolled | None, controls: Array) -> Rollout:
        """Calibrated, in the units of y; where the start is uncertain, what is ``plain`` without it is calibrated alone."""
        mean, names = self.scale_.undo(rolled.mean), None if self.names_ is None else tuple(self.names_)
        if rolled.cov is None:
            return Rollout(mean, controls, names=names)
        std, share = np.sqrt(np.maximum(np.diagonal(rolled.cov, axis1=-2, axis2=-1), 0.0)), None
        if plain is not None and plain.cov is not None:
            share = share_of(plain.cov, std)
        factor = calibration_factors(std, self.calibration_, self.prior_scale_.y_std, share) * self.scale_.y_std
        cov = rolled.cov * factor[..., :, None] * factor[..., None, :]
        lagged = None if rolled.lagged is None else rolled.lagged * factor[:, 1:, :, None] * factor[:, :-1, None, :]
        return Rollout(mean, controls, cov, lagged, names)

    def step(self, states: Any, controls: Any) -> Array:
        """The next states on average, each from one state alone: for packages that bring their own loop.

        Each state is a context of one row. A network with memory knows more in a :meth:`rollout`, which carries its units on.

        Parameters
        ----------
        states, controls
            (K, d) and (K, m).

        Returns
        -------
        array
            (K, d), in the units of y.
        """
        rows, u = self._pairs(states, controls)
        return self.rollout(u[:, None], self.start(rows[:, None]), "none").mean[:, 0]

    def linearize(self, state: Any, control: Any) -> tuple[Array, Array]:
        """How the next state changes with a state and a control: the derivatives of :meth:`step`, for LQR and iLQR.

        In closed form, by the chain rule: step(y + δ, u + ε) ≈ step(y, u) + A δ + B ε.

        Parameters
        ----------
        state, control
            (d,) and (m,), or many of them, (K, d) and (K, m).

        Returns
        -------
        A, B
            (d, d) and (d, m), or (K, d, d) and (K, d, m), in the units of y and X.

        Examples
        --------
        >>> import pesn
        >>> runs = pesn.systems.cart_pole.simulate(runs=4, steps=300, rng=0)
        >>> network = pesn.ProbabilisticESN(30, washout="auto", random_state=0)
        >>> model = pesn.Forecaster(network).fit(runs.states, runs.inputs, lengths=runs.lengths)
        >>> A, B = model.linearize([0.0, 3.14, 0.0, 0.0], [0.0])
        >>> A.shape, B.shape, A[0, 2].round(2)                            # x′ = x + 0.02 v
        ((4, 4), (4, 1), np.float64(0.02))
        """
        check_is_fitted(self, "esn_")
        one = _axes(state) == 1
        if one:
            state, control = _one_row("state", state, self.n_columns_), _one_row("control", control, self.n_known_)
        rows, u = self._pairs(state, control, ("state", "control"))
        y, known = self.scaled(rows, u)
        prior = self.prior_scale_
        check_within_reach("state", y, prior.y_mean, prior.y_std)
        check_within_reach("control", known, prior.x_mean, prior.x_std)
        by_state, by_control = linear_step(self.loop().certain, self._context_filter(), y, known)
        scale = self.scale_
        A = scale.y_std[:, None] * by_state / scale.y_std
        B = scale.y_std[:, None] * by_control / scale.x_std
        return (A[0], B[0]) if one else (A, B)

    def _pairs(self, states: Any, controls: Any, names: tuple[str, str] = ("states", "controls")) -> tuple[Array, Array]:
        """States (K, d) with controls (K, m)."""
        check_is_fitted(self, "esn_")
        self._columns.check_names(names[0], states)
        self._columns.check_names(names[1], controls, "X")
        rows = as_real(names[0], states)
        if rows.ndim != 2 or rows.shape[1] != self.n_columns_ or not len(rows):
            raise ValueError(f"{names[0]} must have shape (states, {self.n_columns_}), got {rows.shape}")
        u = as_real(names[1], controls)
        if u.shape != (len(rows), self.n_known_):
            expected = f"{(len(rows), self.n_known_)}, a row for each of the states"
            raise ValueError(f"{names[1]} must have shape {expected}, got {u.shape}")
        return rows.astype(np.float64), u.astype(np.float64)


def _axes(values: Any) -> int:
    """How many; 0 of what is ragged, which is refused by name where it is read."""
    try:
        return np.ndim(values)
    except ValueError:
        return 0


def _one_row(name: str, values: Any, size: int) -> Any:
    """Numbers (size,) as a row (1, size): of a pandas Series a frame, as its labels are the names of columns."""
    if np.shape(as_real(name, values)) != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {np.shape(values)}")
    return values.to_frame().T if hasattr(values, "to_frame") else np.asarray(values)[None]
