"""A fitted forecaster as a model of dynamics: closed loop, starts, roll-outs, single steps, linearization, updates."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pesn._support.arguments import as_real, check_not_negative, whole_number
from pesn._support.records import check_arrays, check_counts, check_names
from pesn._support.threads import one_blas_thread
from pesn._support.types import Array, TableLike
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.evaluation.calibration import LEADS
from pesn.evaluation.error_model import share_of_process, update_errors
from pesn.evaluation.process_noise import form_of, process_noise
from pesn.forecasting.context import Begun, Columns, ContextFilter, FilteredContext, Rows, Uncertainty
from pesn.forecasting.dataset import Scale, check_within_reach
from pesn.forecasting.design import Design
from pesn.forecasting.predict import COVARIANCES, Rolled, calibration_factors, in_form, loop_for, roll_out, share_of
from pesn.forecasting.rollout import Rollout
from pesn.forecasting.time_index import TimeIndex
from pesn.forecasting.training import Trained
from pesn.gaussian import Gaussian
from pesn.readout.ridge import PARTS, penalties_of
from pesn.readout.rls import RLSState, start_from_batch, update
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, Encoding, ErrorModel
from pesn.reservoir.initial_state import LocalStart, Start
from pesn.statespace import Cell, GaussianState, tangent
from pesn.statespace.model import Bounds

__all__ = ["DynamicsModel", "FittedForecaster", "OnlineLearner", "linear_step"]


class OnlineLearner:
    """A loop whose readout learns by recursive least squares, from the batch solution or from an earlier ``rls``."""

    def __init__(
        self, loop: ClosedLoop, context: ContextFilter, rls: RLSState | None, delta: float | None, forgetting: float
    ) -> None:
        readout, self.rls = (loop.readout, rls) if rls else start_from_batch(loop.readout, delta)
        self.loop = loop if readout is loop.readout else loop.with_readout(readout, loop.errors)
        self.context, self.forgetting = context, forgetting

    def learn(self, state: GaussianState, last: tuple[Array, Array], rows: Array, inputs: Array) -> GaussianState:
        """The state after rows (n, d) with inputs (n, u), from one that knows the ``last`` row and its input."""
        for row, u in zip(rows, inputs, strict=True):
            state = self.context.move(self.loop, state, last[1])
            loop = self._loop_after(state, last, row)
            # the row was predicted by the loop as it was; what it taught is for the next one
            state = self.loop.model.update(self.loop.model.emit(state, observed=True)[0], row)
            self.loop, last = loop, (row, u)
        return state

    def _loop_after(self, state: GaussianState, last: tuple[Array, Array], row: Array) -> ClosedLoop:
        """The loop after one more row; as it was where anything is missing."""
        loop, at = self.loop, self.loop.layout
        if np.isnan(row).any() or np.isnan(last[0]).any() or np.isnan(last[1]).any():
            return loop
        both = np.array([state.mean[at["y"]], row])  # from where the state is: the last row, unless it was measured with noise
        target = loop.dynamics.targets(both)
        b = loop.moves.means(state.mean)
        predicted, readout, self.rls = update(loop.readout, self.rls, b[None], target, self.forgetting)
        wrong = loop.dynamics.errors(target - predicted, both)[0]
        wrong *= np.sqrt(share_of_process(loop.errors, loop.measurement_cov))
        weight = max(1.0 - self.forgetting, 1.0 / (1.0 + readout.n_samples))
        return loop.with_readout(readout, update_errors(loop.errors, wrong, state.mean[at["error"]], weight))


def linear_step(loop: ClosedLoop, context: ContextFilter, y: Array, u: Array) -> tuple[Array, Array]:
    """The derivatives (K, d, d) by y and (K, d, m) by u of the next y, from rows y (K, d) alone with inputs u (K, m), scaled.

    Parameters
    ----------
    loop
        Without uncertainty.
    context
        What one row says of the units.
    """
    at, (d, m) = loop.layout, (y.shape[1], u.shape[1])
    none = Uncertainty.none(y[:, None], u[:, None])
    slopes = np.zeros((len(y), at.size, d + m))  # of x by [y, u]
    slopes[:, np.r_[at["y"], at["inputs"]], np.arange(d + m)] = 1.0
    if context.regresses:
        x = context.with_input(loop, Begun(None, y[:, None], u[:, None][:, :0], none), u).mean
        row, encoding = loop.dynamics.network_rows(np.concatenate([y, u], axis=1)), loop.dynamics.encoding
        by_row, seen = np.zeros((len(y), row.shape[1], d + m)), encoding.size(d)
        by_row[:, :seen, :d], by_row[:, seen:, d:] = np.swapaxes(encoding.tangent(y, np.eye(d)), -1, -2), np.eye(m)
        slopes[:, np.r_[at["earlier"], at["units"]]] = context.given.slope(row) @ by_row
        cells: tuple[Cell, ...] = loop.cells if loop.reservoir.is_static else (*loop.encoders, *loop.squares)
    else:
        x = context.unmoved(loop, y[:, None], u[:, None], none).mean
        cells = loop.cells
    for cell in cells:
        slopes = tangent(cell, x, slopes)
        x = cell(x)
    K, k, _ = loop.step
    after, result = x @ K[:d].T + k[:d], K[:d] @ slopes
    if loop.guard is not None:
        least, most, _, _, step = loop.guard.edges_of_means()
        left = (after < np.minimum(least, y)) | (after > np.maximum(most, y))
        result[left] = 0.0  # brought back to where it may be
        stays = ~left & (np.abs(after - y) > step)
        result[stays] = np.eye(d, d + m)[np.nonzero(stays)[1]]
    return result[..., :d], result[..., d:]


class FittedForecaster(BaseEstimator):  # type: ignore[misc]
    """The attributes of a fitted :class:`pesn.Forecaster`, the model that follows from them, and its files."""

    esn: ProbabilisticESN | Literal["auto"] | None
    esn_: ProbabilisticESN
    design_: Design | None
    errors_: ErrorModel
    measurement_var_: Array  # of noise on y as the network sees it, (d,)
    scale_: Scale
    prior_scale_: Scale  # of y and X as the network sees them
    range_: tuple[Array, Array]  # of y as the network sees it, lowest and highest
    kinematics_: tuple[Array, Array, Array]
    names_: list[str] | None
    known_names_: list[str] | None
    target_: str
    n_columns_: int
    n_known_: int
    learned_columns_: npt.NDArray[np.intp]
    kinematic_columns_: npt.NDArray[np.intp]
    angle_columns_: npt.NDArray[np.intp]
    unseen_columns_: npt.NDArray[np.intp]
    output_std_: Array
    calibration_: Array
    _time: TimeIndex | None  # at the last row seen
    _state: GaussianState  # after the last row seen: y known, the units before it
    _recent: Array  # the last rows of y, scaled, NaN among them
    _recent_known: Array  # X of these rows

    stored_at_times: ClassVar[dict[str, type]] = {}

    # ---------------------------------------------------------------- the model that follows from it

    def loop(self, parts: Collection[str] = PARTS) -> ClosedLoop:
        """The closed loop that forecasts are made with, in scaled units (:class:`pesn.reservoir.closed_loop.ClosedLoop`)."""
        return self._loop(parts=tuple(parts))

    def _loop(self, model: Trained | None = None, noise_scale: float | None = None, parts: tuple[str, ...] = PARTS) -> ClosedLoop:
        esn = self.esn_
        model = Trained(esn.readout_, self.errors_, self._start, self._measurement) if model is None else model
        n_inputs, n_units = esn.reservoir_.n_inputs, esn.reservoir_.n_units
        penalty = esn.features.penalty(esn.ridge_ if model.ridge is None else model.ridge, n_inputs, n_units)
        return ClosedLoop(
            esn.reservoir_,
            model.readout,
            model.errors,
            self._dynamics,
            esn.unit_moments(),
            form_of(esn.covariance, n_units + esn.features.n_squares(n_inputs), esn.rank),
            esn.rank,
            process_noise(model.start, esn.process_noise_ if noise_scale is None else noise_scale, esn.noise, n_units),
            parts,
            self._bounds(widen="state" in parts),
            esn.features,
            esn.n_members,
            esn.member_draws(),
            model.measurement_cov,
            members_ahead=self.design_ is not None and esn.covariance == "auto",
            penalty=np.asarray(model.readout.n_samples * penalties_of(penalty, model.readout.weights.shape[-1]), float),
        )

    @property
    def _measurement(self) -> Array | None:
        return np.diag(self.measurement_var_) if self.measurement_var_.any() else None

    @property
    def measurement_std_(self) -> Array:
        """Deviations (d,) of the noise that the columns of y were found to be measured with, in their units; 0: none."""
        return np.sqrt(self.measurement_var_) * self.scale_.y_std

    def _bounds(self, widen: bool) -> Bounds:
        prior, kinematic = self.prior_scale_, np.isin(np.arange(self.n_columns_), self.kinematic_columns_)
        free = np.isin(np.arange(self.n_columns_), np.concatenate([self.angle_columns_, self.unseen_columns_]))
        return Bounds(prior.y_mean, prior.y_std, *self.range_, kinematic, widen, free if free.any() else None)

    @property
    def _encoding(self) -> Encoding:
        angles, scale = self.angle_columns_, self.scale_
        return Encoding(angles, self.unseen_columns_, scale.y_mean[angles], scale.y_std[angles])

    @property
    def _n_inputs(self) -> int:
        """Of the network."""
        return self._encoding.size(self.n_columns_) + self.n_known_

    @property
    def _dynamics(self) -> Dynamics:
        return Dynamics(
            self.learned_columns_, self.kinematic_columns_, self.kinematics_, self.output_std_, self.target_ == "change",
            self._encoding,
        )  # fmt: skip

    def scaled(self, rows: Array, known: Array) -> tuple[Array, Array]:
        """y and X in the units that the network works in.

        Parameters
        ----------
        rows, known
            (n, d) and (n, u).

        Returns
        -------
        rows, known
            Less their means, over their deviations, where ``scale`` is set.
        """
        return self.scale_.apply(rows, known)

    @property
    def _columns(self) -> Columns:
        return Columns(self.names_, self.known_names_, self.scale_, self.prior_scale_, self.angle_columns_)

    def _context_filter(self, start: Start | LocalStart | None = None) -> ContextFilter:
        """How contexts are filtered; ``start`` takes the place of what all training rows say about starts."""
        return ContextFilter(start or self._start, self.esn_.initial_state, self.esn_.washout_, self.prior_scale_)

    @property
    def _start(self) -> Start | LocalStart:
        given = self.esn_.start_
        assert given is not None  # it is learnt in fit
        return given

    # ---------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the forecaster to a file that ``pesn.load`` reads; no code is stored, and an old file is replaced whole."""
        from pesn.persistence import save  # here, not above: it knows every estimator

        save(self, path)

    def check_stored(self) -> None:
        """A ValueError where what was learnt is damaged or does not fit together: asked of a forecaster that came from a file."""
        d, u, m, esn = self.n_columns_, self.n_known_, self.learned_columns_.size, self.esn_
        check_counts("", {"n_columns_": (d, 1), "n_known_": (u, 0)})
        columns = self.learned_columns_, self.kinematic_columns_
        flat = all(part.dtype == np.intp and part.ndim == 1 for part in columns)
        if not flat or sum(map(len, columns)) != d or sorted(np.concatenate(columns)) != list(range(d)):
            raise ValueError(f"learned_columns_ and kinematic_columns_ are not the {d} columns")
        encoded = self.angle_columns_, self.unseen_columns_
        if any(part.dtype != np.intp or part.ndim != 1 for part in encoded):
            raise ValueError("angle_columns_ and unseen_columns_ are not columns")
        both = np.concatenate(encoded)
        if len(set(both.tolist())) < len(both) or not np.isin(both, np.arange(d)).all():
            raise ValueError(f"angle_columns_ and unseen_columns_ are not different ones of the {d} columns")
        self.scale_.check("scale_", d, u)
        of = self._n_inputs, m
        if not esn.__sklearn_is_fitted__() or esn.start_ is None or (esn.n_features_in_, esn.n_outputs_) != of:
            raise ValueError("esn_ is not a network of these columns")
        if len(self.kinematics_) != 3 or self.target_ not in ("change", "level"):
            raise ValueError(f"kinematics_ has {len(self.kinematics_)} parts and target_ is {self.target_!r}")
        (A, B, c), r = self.kinematics_, d - m
        check_arrays("kinematics_", {"A": (A, (r, d)), "B": (B, (r, m)), "c": (c, (r,))})
        self._check_range(d)
        self._check_recent(d, u)
        check_arrays("", {"output_std_": (self.output_std_, (m,)), "calibration_": (self.calibration_, (LEADS,))})
        check_arrays("", {"measurement_var_": (self.measurement_var_, (d,))})
        check_not_negative("measurement_var_", self.measurement_var_)
        for name, part in (("output_std_", self.output_std_), ("calibration_", self.calibration_)):
            if (part <= 0.0).any():
                raise ValueError(f"{name} is not positive")
        if self.design_ is not None:
            self.design_.check("design_")
        self.prior_scale_.check("prior_scale_", d, u)
        self.errors_.check("errors_", d)
        check_names("names_", self.names_, d)
        check_names("known_names_", self.known_names_, u)
        if self._time is not None:
            self._time.check("_time")
        loop = self.loop()
        self._state.check("_state", loop.carried, loop.layout.size - loop.carried)
        self._check_forecast()

    def _check_range(self, d: int) -> None:
        if len(self.range_) != 2:
            raise ValueError(f"range_ has {len(self.range_)} parts")
        low, high = self.range_
        check_arrays("range_", {"low": (low, (d,)), "high": (high, (d,))})
        if (low > high).any():
            raise ValueError("range_ is not from low to high")

    def _check_recent(self, d: int, u: int) -> None:
        if not self._recent.size:
            raise ValueError("_recent is empty")
        rows = len(np.atleast_1d(self._recent))
        parts = {"_recent": (_filled(self._recent), (rows, d)), "_recent_known": (_filled(self._recent_known), (rows, u))}
        check_arrays("", parts)

    def _check_forecast(self) -> None:
        """A first call, after the last row seen and after a context: what parameters and arrays do to each other."""
        trial: Any = copy.copy(self)
        trial.esn_ = copy.copy(self.esn_)
        trial.esn_.random_state = 0  # a RandomState would be moved on
        ahead = np.zeros((1, self.n_known_)) if self.n_known_ else None
        for context in (None, np.zeros((1, self.n_columns_))):
            forecast = trial.forecast(1, context, ahead)
            if not (np.isfinite(forecast.mean).all() and np.isfinite(forecast.std).all()):
                raise ValueError("a trial forecast is not finite")


def _filled(values: Any) -> Any:
    """Without the gaps, which may be there."""
    return np.where(np.isnan(values), 0.0, values) if values.dtype == np.float64 else values


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
