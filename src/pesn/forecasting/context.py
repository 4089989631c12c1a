"""Contexts of a forecast: recent rows, checked and filtered to the initial state of the forecast.

>>> import numpy as np, pesn
>>> model = pesn.Forecaster(pesn.ProbabilisticESN(10, random_state=0)).fit(np.tile([8.0, 12.0], 20)).model_
>>> model.columns.read_context([12.0, np.nan, 8.0], None)[0].y.ravel()
array([ 1., nan, -1.])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import flag, whole_number
from pesn._support.records import check_array, check_arrays, check_field_types, check_names
from pesn._support.types import Array, TableLike
from pesn.forecasting.alignment import align, match_future_inputs, read_index
from pesn.forecasting.dataset import Scale, as_gaussian_rows, as_matrix, check_within_reach, read_column_names, unwrap_angles
from pesn.forecasting.time_index import TimeIndex
from pesn.gaussian import Gaussian
from pesn.linalg import condition_root, factor_covariance
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, Encoding
from pesn.reservoir.drive import State, run
from pesn.reservoir.initial_state import LocalStart, Start
from pesn.reservoir.sequences import BLOCK
from pesn.statespace.model import Bounds, rollout
from pesn.statespace.state import GaussianState, stack

if TYPE_CHECKING:
    import pandas as pd

_JOINT = 4_000  # largest default size, steps times columns, of a joint covariance: 128 MB
_MOST_JOINT = 20_000  # on request: 3.2 GB, a few times
_MOST_NUMBERS = 10_000_000  # entries of the covariances within rows


class Run(NamedTuple):
    """Successive rows, or a batch of such, NaN where steps are missing.

    Parameters
    ----------
    y : array of shape (..., T, d)
        Rows of y.
    known : array of shape (..., T, u) or (..., T - 1, u)
        Known inputs.
    time : TimeIndex or None
        Rule of their labels, at the last row.
    """

    y: Array
    known: Array
    time: TimeIndex | None


Places = npt.NDArray[np.intp]
GivenContext: TypeAlias = "TableLike | Gaussian | tuple[TableLike | Gaussian, TableLike | Gaussian] | None"


class Columns(NamedTuple):
    """Columns of y (d) and X (u) in training: names, scales, ranges, and the role of each in the dynamics.

    Parameters
    ----------
    names : list of str or None
        Names of the columns of y.
    known_names : list of str or None
        Names of the columns of X.
    scale : Scale
        Units in which the network works. All fields below are in these units.
    prior : Scale
        Mean and standard deviation of y and X in training.
    range : tuple of array
        Lowest and highest y (d,) in training.
    learned : array of int
        Columns that the network predicts.
    kinematic : array of int
        Columns that follow from the kinematics.
    angles : array of int
        Columns that the network sees by sine and cosine.
    ignorable : array of int
        Columns on which the dynamics does not depend; the network does not see them.
    kinematics : tuple of array
        A (r, d), B (r, m) and c (r,) of the kinematic columns.
    output_std : array of shape (m,)
        Standard deviation of each output of the network.
    target : {"change", "level"}
        Meaning of the outputs.
    """

    names: list[str] | None
    known_names: list[str] | None
    scale: Scale
    prior: Scale
    range: tuple[Array, Array]
    learned: Places
    kinematic: Places
    angles: Places
    ignorable: Places
    kinematics: tuple[Array, Array, Array]
    output_std: Array
    target: str

    @property
    def n_columns(self) -> int:
        """Number of columns of y, d."""
        return len(self.scale.y_mean)

    @property
    def n_known(self) -> int:
        """Number of columns of X, u."""
        return len(self.scale.x_mean)

    @property
    def encoding(self) -> Encoding:
        """Entries of the network's inputs that are computed from y."""
        angles, scale = self.angles, self.scale
        return Encoding(angles, self.ignorable, scale.y_mean[angles], scale.y_std[angles])

    @property
    def n_inputs(self) -> int:
        """Number of inputs of the network."""
        return self.encoding.size(self.n_columns) + self.n_known

    @property
    def dynamics(self) -> Dynamics:
        """Meaning of the network's outputs."""
        change = self.target == "change"
        return Dynamics(self.learned, self.kinematic, self.kinematics, self.output_std, change, self.encoding)

    def bounds(self, widen: bool) -> Bounds:
        """Return the bounds of forecasts; angles and ignorable columns have none."""
        each = np.arange(self.n_columns)
        free = np.isin(each, np.concatenate([self.angles, self.ignorable]))
        kinematic = np.isin(each, self.kinematic)
        return Bounds(self.prior.y_mean, self.prior.y_std, *self.range, kinematic, widen, free if free.any() else None)

    def check(self, name: str) -> None:
        """Raise a ValueError unless all parts have the same columns.

        Parameters
        ----------
        name : str
            Name of the record in messages.
        """
        check_field_types(name, self)
        d, u, m = np.size(self.scale.y_mean), np.size(self.scale.x_mean), self.learned.size
        _check_roles(f"{name}: learned and kinematic", self.learned, self.kinematic, d)
        _check_roles(f"{name}: angles and ignorable", self.angles, self.ignorable, d)
        if m + self.kinematic.size != d:
            raise ValueError(f"{name}: learned and kinematic are not all of the {d} columns")
        for part, scale in (("scale", self.scale), ("prior", self.prior)):
            scale.check(f"{name}.{part}", d, u)
        if len(self.kinematics) != 3 or len(self.range) != 2 or self.target not in ("change", "level"):
            found = f"{len(self.kinematics)} parts of kinematics, {len(self.range)} of range and the target {self.target!r}"
            raise ValueError(f"{name} has {found}")
        (A, B, c), r, (low, high) = self.kinematics, d - m, self.range
        check_arrays(f"{name}.kinematics", {"A": (A, (r, d)), "B": (B, (r, m)), "c": (c, (r,))})
        check_arrays(f"{name}.range", {"low": (low, (d,)), "high": (high, (d,))})
        if (low > high).any():
            raise ValueError(f"{name}.range is not from low to high")
        check_array(f"{name}.output_std", self.output_std, (m,), low=np.finfo(float).tiny)
        check_names(f"{name}.names", self.names, d)
        check_names(f"{name}.known_names", self.known_names, u)

    def read_rows(self, y: TableLike, X: TableLike | None, time: TimeIndex | None) -> tuple[Run, pd.Index | None]:
        """Read rows with X (T, u) and their labels (T,), which must keep the rule of training; None if there are none."""
        rows = self.read_new_rows(y, X, None, known_rule=time)
        labels = read_index(y, "y")
        return rows, None if rows.time is None or labels is None else rows.time.with_last(labels[0]).onwards(len(rows.y))

    def read_new_rows(
        self, y: TableLike, X: TableLike | None, after: TimeIndex | None, *, known_rule: TimeIndex | None = None,
        seen: Array | None = None,
    ) -> Run:  # fmt: skip
        """Read rows with X (T, u).

        Parameters
        ----------
        y : array-like of shape (T, d)
            Rows of y.
        X : array-like of shape (T, u), optional
            Known inputs.
        after : TimeIndex or None
            Label of the row before them; None: they may be anywhere.
        known_rule : TimeIndex, optional
            Rule of training that the labels must keep.
        seen : array of shape (n, d), optional
            Scaled rows before them, from which angles are unwrapped.
        """
        self.check_names("y", y)
        self.check_names("X", X, "X")
        rows = self.unwrap_angles(as_matrix("y", y, None, len(self.scale.y_mean)), seen)
        if X is None and self.n_known:
            raise ValueError(f"X must be given, with {self.n_known} columns as in fit, got None")
        layout = align(y, X, [slice(0, len(rows))], after=after, known_rule=known_rule)
        known = np.zeros((len(rows), 0)) if X is None else as_matrix("X", X, layout.n_inputs, self.n_known)
        rows, known = self.scale_rows("y", rows, "X", known)
        return Run(layout.place(rows), layout.place_inputs(known), layout.time)

    def read_context(self, context: GivenContext, time: TimeIndex | None) -> tuple[Run, Uncertainty]:
        """Read a context y or (y, X), with X (T − 1, u); each may be a Gaussian for each row, by position.

        Parameters
        ----------
        context : array-like, Gaussian or tuple
            Recent rows.
        time : TimeIndex or None
            Rule of the labels of training.
        """
        given = context if isinstance(context, tuple) else (context, None)
        if len(given) != 2:
            raise ValueError(f"context must be y or (y, X), got a tuple of {len(given)}")
        self.check_names("context", given[0])
        d = len(self.scale.y_mean)
        mean, cov = as_gaussian_rows("context", given[0], None, d)
        y = self.unwrap_angles(as_matrix("context", mean, None, d))
        layout = align(mean, given[1], [slice(0, len(y))], known_rule=time, is_context=True)
        if given[1] is None:
            if self.n_known and len(y) > 1:
                raise ValueError(f"context must be (y, X) with X of shape {(len(y) - 1, self.n_known)}, got y alone")
            known, known_cov = np.zeros((len(y) - 1, self.n_known)), None
        else:
            self.check_names("X of context", given[1], "X")
            mean, known_cov = as_gaussian_rows("X of context", given[1], layout.n_inputs, self.n_known)
            known = as_matrix("X of context", mean, layout.n_inputs, self.n_known)
        y, known = self.scale_rows("context", y, "X of context", known)
        y_cov = self._uncertainty("context", cov, y, self.scale.y_std, self.prior.y_std)
        known_var = layout.place_inputs(self._variances("X of context", known_cov, known))
        known_var = np.vstack([known_var, np.zeros((1, self.n_known))])  # the last input is not known yet
        y_cov = layout.place(y_cov.reshape(len(y), d * d)).reshape(-1, d, d)
        rows = Run(layout.place(y), layout.place_inputs(known), layout.time)
        return rows, Uncertainty(np.nan_to_num(y_cov), np.nan_to_num(known_var))  # missing values have no noise

    def read_future_inputs(self, X: TableLike | Gaussian | None, horizon: int, time: TimeIndex | None) -> tuple[Array, Array]:
        """Return scaled X (horizon, u) after a row at ``time``, NaN where missing, and its variances, 0 where it is known."""
        if X is None:
            if self.n_known:
                expected = f"of shape {(horizon, self.n_known)}, as X was in fit; NaN where it is not known"
                raise ValueError(f"X must be given, {expected}")
            return np.zeros((horizon, 0)), np.zeros((horizon, 0))
        self.check_names("X", X, "X")
        rows = match_future_inputs(X, time, horizon)
        mean, cov = as_gaussian_rows("X", X, horizon, self.n_known)
        known = as_matrix("X", mean, horizon if rows is None else None, self.n_known)
        known = ((known if rows is None else known[rows]) - self.scale.x_mean) / self.scale.x_std
        check_within_reach("X", known, self.prior.x_mean, self.prior.x_std)
        return known, self._variances("X", cov, known)

    def _variances(self, name: str, cov: Array | None, known: Array) -> Array:
        """Return scaled variances of X, whose columns must be independent within a row."""
        scaled = self._uncertainty(name, cov, known, self.scale.x_std, self.prior.x_std)
        var = np.diagonal(scaled, axis1=-2, axis2=-1)
        if np.any(scaled != var[..., None] * np.eye(known.shape[1])):
            raise ValueError(f"{name} must be a Gaussian with variances alone, var=, got covariances between its columns")
        return var

    def _uncertainty(self, name: str, cov: Array | None, rows: Array, scale: Array, prior_std: Array) -> Array:
        """Return scaled covariances of ``rows`` (n, d), 0 for None; refuse those whose squares overflow."""
        if cov is None:
            return np.zeros((*rows.shape, rows.shape[1]))
        scaled = cov / scale[:, None] / scale
        check_within_reach(f"std of {name}", np.sqrt(np.diagonal(scaled, axis1=-2, axis2=-1)), np.zeros(rows.shape[1]), prior_std)
        return scaled

    def unwrap_angles(self, rows: Array, seen: Array | None = None) -> Array:
        """Unwrap the angles of rows (n, d), continuing the last of the scaled rows ``seen`` (k, d)."""
        if not len(self.angles):
            return rows
        last = None
        if seen is not None:
            there = len(seen) - 1 - np.argmax(~np.isnan(seen[::-1]), axis=0)  # the last observation of each column
            last = self.scale.undo(seen[there, np.arange(seen.shape[1])])
        return unwrap_angles(rows, self.angles, last)

    def scale_rows(self, of_y: str, y: Array, of_x: str, known: Array) -> tuple[Array, Array]:
        """Scale rows; refuse those too far from the training data."""
        y, known = self.scale.apply(y, known)
        check_within_reach(of_y, y, self.prior.y_mean, self.prior.y_std)
        check_within_reach(of_x, known, self.prior.x_mean, self.prior.x_std)
        return y, known

    def check_names(self, argument: str, values: TableLike, of: str = "y") -> None:
        """Raise a ValueError if ``values`` have other column names than y, or X, in training."""
        found, expected = read_column_names(values), self.names if of == "y" else self.known_names
        if found is not None and expected is not None and found != expected:
            raise ValueError(f"{argument} must have the columns {expected}, as {of} had in fit, got {found}")


def _check_roles(names: str, one: Places, other: Places, d: int) -> None:
    """Raise a ValueError unless both are different columns of d."""
    both = np.concatenate([np.ravel(one), np.ravel(other)]).tolist()
    flat = all(part.dtype == np.intp and part.ndim == 1 for part in (one, other))
    if not flat or not set(both) <= set(range(d)) or len(set(both)) < len(both):
        raise ValueError(f"{names} are not different ones of the {d} columns")


def check_size(horizon: int, joint: bool | None, d: int) -> bool:
    """Return whether the covariance of all rows is kept.

    Parameters
    ----------
    horizon : int
        Number of steps.
    joint : bool or None
        Whether it was requested; None: up to 4,000 numbers.
    d : int
        Number of columns.

    Raises
    ------
    ValueError
        If the forecast would be too large.
    """
    whole_number("horizon", horizon, 1)
    if joint is not None:
        flag("joint", joint)
    most = _MOST_JOINT // d if joint else _MOST_NUMBERS // d**2
    if horizon > max(most, 1):
        kept = " and joint=True" if joint else ""
        raise ValueError(f"horizon must be {most} or less with {d} columns of y{kept}, got {horizon!r}")
    return bool(horizon * d <= _JOINT if joint is None else joint)


FILTERED = 20  # rows at the end of a long context that are filtered; earlier rows only drive the units


class Uncertainty(NamedTuple):
    """Uncertainty of the rows of a context, 0 where they are known.

    Parameters
    ----------
    y_cov : array of shape (T, d, d)
        Covariances of y.
    u_var : array of shape (T, m)
        Variances of u.
    """

    y_cov: Array
    u_var: Array

    @classmethod
    def none(cls, y: Array, u: Array) -> Uncertainty:
        """Return the uncertainty of known rows."""
        d = y.shape[-1]
        return cls(np.broadcast_to(0.0, (y.shape[-2], d, d)), np.broadcast_to(0.0, u.shape[-2:]))

    def rows(self, which: slice) -> Uncertainty:
        """Return the uncertainty of some rows."""
        return Uncertainty(self.y_cov[which], self.u_var[which])

    @property
    def exists(self) -> bool:
        """Whether any row is uncertain."""
        return bool(self.y_cov.any() or self.u_var.any())

    def noise(self, measurement_cov: Array | None) -> Array | None:
        """Return the noise of measured rows (T, d, d): as given, else that of the model; None if only that of the model."""
        given = self.y_cov.any(axis=(-2, -1), keepdims=True)
        if not given.any():
            return None
        return self.y_cov if measurement_cov is None else np.where(given, self.y_cov, measurement_cov)


def as_units(units: Gaussian | State, n_units: int) -> Gaussian:
    """Return the distribution of the units of a state, or the given one.

    Parameters
    ----------
    units : Gaussian or State
        Distribution of the units.
    n_units : int
        Expected number of units.
    """
    if not isinstance(units, Gaussian | State):
        raise TypeError(f"units must be a pesn.Gaussian or the state of a network, got {type(units).__name__}")
    mean = np.asarray(units.mean, float)
    if mean.shape != (n_units,):
        raise ValueError(f"units must have {n_units} entries, got shape {mean.shape}")
    if isinstance(units, Gaussian):
        return units
    if units.cov is None:
        return Gaussian(mean, var=np.zeros(n_units) if units.var is None else units.var)
    cov = np.asarray(units.cov)[-n_units:]
    return Gaussian(mean, cov=cov[:, -n_units:]) if units.own is None else Gaussian(mean, factor=cov, var=units.own)


class StartingPoint(NamedTuple):
    """A filtered context before the input that acts on its last row is known.

    Parameters
    ----------
    state : GaussianState or None
        State that has seen all rows, its units all but the last. None if the regression of the initial state takes the last row
        and its input together with the others: then the fields below are its arguments.
    y : array of shape (..., T, d), optional
        Rows.
    u : array of shape (..., T - 1, m), optional
        Inputs.
    uncertainty : Uncertainty, optional
        Uncertainty of both.
    """

    state: GaussianState | None
    y: Array | None = None
    u: Array | None = None
    uncertainty: Uncertainty | None = None

    @property
    def waiting(self) -> tuple[Array, Array, Uncertainty]:
        """Rows that wait for the last input, if there is no state."""
        assert self.y is not None
        assert self.u is not None
        assert self.uncertainty is not None
        return self.y, self.u, self.uncertainty


class ContextFilter(NamedTuple):
    """Filter of contexts.

    Parameters
    ----------
    given : Start or LocalStart
        What was learned about initial states.
    initial_state : str or Gaussian
        Kind of initial state.
    washout : int
        Number of rows that the units remember.
    prior : Scale
        Means and standard deviations of y and the known inputs in training, used where they are missing.
    """

    given: Start | LocalStart
    initial_state: Any
    washout: int
    prior: Scale

    def advance(self, loop: ClosedLoop, y: Array, u: Array) -> GaussianState:
        """Filter rows y (…, T, d) with u (…, T, m), and move the units by the last of them."""
        return self.with_input(loop, self.begin(loop, y, u[..., :-1, :], Uncertainty.none(y, u)), u[..., -1, :])

    def begin(self, loop: ClosedLoop, y: Array, u: Array, uncertainty: Uncertainty) -> StartingPoint:
        """Filter rows y (…, T, d) with u (…, T − 1, m), before the input that acts on the last of them is known.

        While rows are few, two initial states compete: from the first row, corrected by all others, and from the regression on
        as many rows as it takes at once. The one with the smaller state variance of the next y is taken. The first of uncertain
        rows is as uncertain as given; later ones are measurements with noise of their covariance.

        Parameters
        ----------
        loop : ClosedLoop
            The closed loop.
        y : array of shape (..., T, d)
            Rows.
        u : array of shape (..., T - 1, m)
            Inputs.
        uncertainty : Uncertainty
            Uncertainty of T rows.
        """
        rows = y.shape[-2]
        if not self.few(rows):
            return StartingPoint(self.filter_rows(loop, y, u, uncertainty))
        complete = not (np.isnan(y).any() or np.isnan(u).any() or uncertainty.exists)
        at_once = min(rows, self.given.lags) if complete else 1
        starts = [self._start_candidate(n, loop, y, u, uncertainty) for n in sorted({1, max(at_once, 1)})]
        if len(starts) == 1:
            return starts[0]
        usual = np.broadcast_to(self.prior.x_mean, (*y.shape[:-2], len(self.prior.x_mean)))
        return min(starts, key=lambda start: _state_variance(loop, self.with_input(loop, start, usual)))

    def begin_at(self, loop: ClosedLoop, y: Array, uncertainty: Uncertainty, units: Gaussian) -> StartingPoint:
        """Return the state of one row y (1, d) with given ``units``, before the input that acts on the row is known."""
        known = np.zeros((1, len(self.prior.x_mean)))
        return StartingPoint(self._replace(initial_state=units).initial_units(loop, y, known, uncertainty))

    def _start_candidate(self, n: int, loop: ClosedLoop, y: Array, u: Array, uncertainty: Uncertainty) -> StartingPoint:
        """Return the state after regression on the first ``n`` rows, corrected by the others."""
        if n == y.shape[-2]:
            return StartingPoint(None, y, u, uncertainty)
        first = self._first(loop, y[..., :n, :], u[..., :n, :], uncertainty.rows(slice(0, n)))
        mean, var = self.impute_inputs(u[..., n - 1 :, :], uncertainty.u_var[n - 1 : y.shape[-2] - 1])
        noise = uncertainty.rows(slice(n, None)).noise(loop.measurement_cov)
        path = rollout(loop.model, first, mean, var, observations=y[..., n:, :], observation_cov=noise, moved=True)
        return StartingPoint(path.state)

    def with_input(self, loop: ClosedLoop, begun: StartingPoint, u: Array, u_var: Array | float = 0.0) -> GaussianState:
        """Move the units by the last row together with u (…, m) of variances ``u_var``.

        Inputs (B, m) of one context make a batch of states.
        """
        if begun.state is not None:
            state, batch = begun.state, u.shape[:-1]
            return self.move(loop, state if state.mean.shape[:-1] == batch else state.broadcast(batch), u, u_var)
        y, before, uncertain = begun.waiting
        batch, last = u.shape[:-1], uncertain.u_var.copy()
        last[-1] = u_var
        own = batch and (np.isnan(y).any() or np.isnan(before).any() or uncertain.exists)  # each has its own initial state
        y, before = np.broadcast_to(y, (*batch, *y.shape[-2:])), np.broadcast_to(before, (*batch, *before.shape[-2:]))
        if own:
            each = zip(y, before, u, strict=True)
            return stack([self.with_input(loop, StartingPoint(None, rows, inputs, uncertain), one) for rows, inputs, one in each])
        return self._first(loop, y, np.concatenate([before, u[..., None, :]], axis=-2), uncertain._replace(u_var=last))

    def filter_rows(self, loop: ClosedLoop, y: Array, u: Array, uncertainty: Uncertainty | None = None) -> GaussianState:
        """Return the state with the last row of y (…, T, d) known and the units before it; u (…, T − 1, m).

        Rows before the last 20 only drive the units, up to the last of them that has as many complete and certain rows before it
        as the units remember. A batch must have no missing values.
        """
        model, rows = loop.model, y.shape[-2]
        if rows == 1:  # the stationary distribution of y and units
            mean, root = self.given.joint()
            # the newest of the earlier rows is the row before this one, with its units
            E, n, nothing = loop.features.n_earlier(loop.reservoir.n_inputs), loop.reservoir.n_units, np.zeros(u.shape[-1])
            before = np.concatenate([np.arange(E), np.arange(len(mean) - n, len(mean))])
            mean, root = mean[before], root[:, before]
            return model.update(loop.init(mean, root, self.prior.y_mean, nothing, y_root=np.diag(self.prior.y_std)), y[0])
        if self.few(rows):
            state = self.advance(loop, y[:-1], u)
            return model.update(model.emit(state, observed=True)[0], y[-1])
        uncertain = Uncertainty.none(y, u) if uncertainty is None else uncertainty
        complete = ~(np.isnan(y[..., :-1, :]).any(axis=-1) | np.isnan(u).any(axis=-1))
        complete &= ~(uncertain.y_cov[: rows - 1].any(axis=(-2, -1)) | uncertain.u_var[: rows - 1].any(axis=-1))
        first, last = self._find_settled_rows(np.asarray(complete.reshape(-1, rows - 1).all(axis=0))[: max(rows - FILTERED, 0)])
        if last > first:
            state = self._drive(loop, y[..., first : last + 1, :], u[..., first : last + 1, :])
        else:
            state = self._first(loop, y[..., :1, :], u[..., :1, :], uncertain.rows(slice(0, 1)))
        mean, var = self.impute_inputs(u[..., last:, :], uncertain.u_var[last : rows - 1])
        noise = uncertain.rows(slice(last + 1, None)).noise(loop.measurement_cov)
        return rollout(model, state, mean, var, observations=y[..., last + 1 :, :], observation_cov=noise, moved=True).state

    def few(self, n_rows: int) -> bool:
        """Return whether so few rows are known that the regression of the initial state may take all of them at once."""
        return n_rows <= max(2 * self.given.lags, 1)

    def move(self, loop: ClosedLoop, state: GaussianState, u: Array, u_var: Array | float = 0.0) -> GaussianState:
        """Move the units by the row of y that ``state`` knows, together with u (…, m) of variances ``u_var``."""
        return loop.model.move(loop.model.set_inputs(state, *self.impute_inputs(u, u_var)))

    def impute_inputs(self, u: Array, u_var: Array | float = 0.0) -> tuple[Array, Array]:
        """Return scaled known inputs and their variances; missing ones have the distribution of training."""
        missing = np.isnan(u)
        return np.where(missing, self.prior.x_mean, u), np.where(missing, np.square(self.prior.x_std), u_var)

    # ---------------------------------------------------------------- starts

    def _first(self, loop: ClosedLoop, y: Array, u: Array, uncertainty: Uncertainty) -> GaussianState:
        """Return the state with units moved by the first rows y (…, l, d) with u (…, l, m); a batch has no missing values.

        Only one row may be uncertain.
        """
        y, uncertainty = self._impute_angles(loop, y, uncertainty)
        y_now, y_cov = y[..., -1, :], uncertainty.y_cov[-1]
        u_now, u_var = self.impute_inputs(u[..., -1, :], uncertainty.u_var[-1])
        rows = loop.dynamics.network_rows(np.concatenate([y, u], axis=-1))
        if self.regresses:
            if uncertainty.exists:
                row, root, seen = self._uncertain_row(loop, y_now, u[-1], y_cov, uncertainty.u_var[-1])
                units, both = self.given.predict_gaussian(row[seen], root[seen])
                all_of = np.pad(root, ((0, 0), (0, both.shape[1] - root.shape[1])))
                state = loop.init_row(np.concatenate([row, units]), np.vstack([all_of, both[len(seen) :]]))
            elif np.isnan(rows).any():
                state = loop.init_joint(*self.given.joint(), y_now, u_now, u_var)
            else:
                mean, root = loop.features.set_known_rows(*self.given.predict(rows), rows)
                state = loop.init(mean, root, y_now, u_now, moved=True)
            # units without memory are a function of the row
            return loop.model.move(state) if loop.reservoir.is_static else state
        return loop.model.move(self.initial_units(loop, y, u, uncertainty))

    def initial_units(self, loop: ClosedLoop, y: Array, u: Array, uncertainty: Uncertainty) -> GaussianState:
        """Return the state before the units move by the last of the first rows, by the kind of ``initial_state``."""
        y_now, y_cov = y[..., -1, :], uncertainty.y_cov[-1]
        u_now, u_var = self.impute_inputs(u[..., -1, :], uncertainty.u_var[-1])
        batch, kind, n = y.shape[:-2], self.initial_state, loop.reservoir.n_units
        rows = loop.dynamics.network_rows(np.concatenate([y, u], axis=-1))
        mean, root = self.given.stationary()
        if kind != "stationary" or not isinstance(kind, str):  # only earlier rows
            E, (known, own) = len(mean) - n, (np.zeros(n), np.zeros((0, n)))
            if isinstance(kind, Gaussian):
                known, own = np.asarray(kind.mean, float), factor_covariance(np.asarray(kind.cov, float)).T
            earlier = np.asarray(np.linalg.qr(root[:, :E], mode="r"))
            mean = np.concatenate([mean[:E], known])
            root = np.vstack([np.pad(earlier, ((0, 0), (0, n))), np.pad(own, ((0, 0), (E, 0)))])
        mean, root = loop.features.set_known_rows(np.broadcast_to(mean, (*batch, len(mean))), root, rows)
        missing = np.isnan(y_now)
        y_root = np.diag(np.where(missing, self.prior.y_std, 0.0)) if missing.any() else None
        if y_cov.any():
            y_root = factor_covariance(y_cov) if y_root is None else factor_covariance(y_cov + np.square(y_root))
        known = np.where(missing, self.prior.y_mean, y_now)
        return loop.init(mean, root, known, u_now, y_root=y_root, u_var=u_var if u_var.any() else None)

    @property
    def regresses(self) -> bool:
        """Whether the units are regressed on the first rows; else ``initial_state`` gives them."""
        return isinstance(self.initial_state, str) and self.initial_state == "learned"

    def _impute_angles(self, loop: ClosedLoop, y: Array, uncertainty: Uncertainty) -> tuple[Array, Uncertainty]:
        """Impute missing angles and ignorable columns of the last row by their distribution in training.

        No regression on the network's inputs predicts them.
        """
        encoding, missing = loop.dynamics.encoding, np.isnan(y[..., -1, :])
        missing = missing & ~np.isin(np.arange(missing.shape[-1]), encoding.plain_columns(missing.shape[-1]))
        if not missing.any():
            return y, uncertainty
        filled, y_cov = y.copy(), np.array(uncertainty.y_cov)
        filled[..., -1, :] = np.where(missing, self.prior.y_mean, y[..., -1, :])
        y_cov[-1, missing], y_cov[-1, :, missing] = 0.0, 0.0
        y_cov[-1, missing, missing] = np.square(self.prior.y_std[missing])
        return filled, uncertainty._replace(y_cov=y_cov)

    def _uncertain_row(
        self, loop: ClosedLoop, y: Array, u: Array, y_cov: Array, u_var: Array
    ) -> tuple[Array, Array, Places]:  # fmt: skip
        """Return mean and root of [y, sines and cosines, u], and which entries the network sees.

        Missing entries are regressed on the others.
        """
        encoding, d, n = loop.dynamics.encoding, len(y), loop.reservoir.n_inputs
        row, row_cov = encoding.encode_gaussian(y, y_cov)
        a = len(row)
        row, cov = np.concatenate([row, u]), np.zeros((a + len(u), a + len(u)))
        cov[:a, :a], cov[a:, a:] = row_cov, np.diag(u_var)
        seen = np.concatenate([encoding.plain_columns(d), np.arange(d, len(row))])
        missing = np.isnan(row)
        if not missing.any():
            return row, factor_covariance(cov), seen
        mean, prior_root = (part[..., :n] for part in self.given.joint())
        here = ~missing[seen]
        gain, left = condition_root(prior_root.T[here], prior_root.T[~here])
        own = factor_covariance(cov[np.ix_(~missing, ~missing)])
        root = np.zeros(cov.shape)
        root[~missing, : len(own)] = own
        root[missing, : len(own)] = gain @ root[seen[here], : len(own)]
        root[missing, len(own) :] = factor_covariance(left @ left.T)
        row[missing] = mean[~here] + gain @ (row[seen] - mean)[here]
        return row, root, seen

    def _drive(self, loop: ClosedLoop, y: Array, u: Array) -> GaussianState:
        """Return the state after complete rows, more than the units remember, without filtering: certain, and much faster."""
        batch, lags = y.shape[:-2], loop.features.lags
        units = [self._last_units(loop, y[one], u[one]) for one in np.ndindex(batch)]
        earlier = np.concatenate([y, u], axis=-1)[..., -1 - lags : -1, :][..., ::-1, :]
        rows = loop.dynamics.network_rows(earlier).reshape(*batch, -1)
        mean = np.concatenate([rows, np.reshape(units, (*batch, loop.reservoir.n_units))], axis=-1)
        root = _measurement_root(loop, earlier, mean.shape[-1])
        return loop.init(mean, root, y[..., -1, :], u[..., -1, :], moved=True)

    def _last_units(self, loop: ClosedLoop, y: Array, u: Array) -> Array:
        """Drive the reservoir by rows; return the last units."""
        z, targets = loop.dynamics.network_rows(np.hstack([y, u])), loop.dynamics.targets(y)
        n = loop.reservoir.n_units
        state = State(self.given.predict(z[:1])[0][self.given.n_states - n :], None, targets[0])
        fed = np.vstack([targets[1:], targets[-1:]])  # the target that led to each row
        for first in range(1, len(z), BLOCK):
            _, _, state = run(loop.reservoir, z[first : first + BLOCK], state, feedback=fed[first - 1 : first - 1 + BLOCK])
        return np.asarray(state.mean)

    def _find_settled_rows(self, complete: npt.NDArray[np.bool_]) -> tuple[int, int]:
        """Return first and last row of the last complete segment longer than the washout; (0, 0) if there is none."""
        gaps = np.flatnonzero(np.concatenate([[True], ~complete, [True]])) - 1
        lengths = np.diff(gaps) - 1
        (enough,) = np.nonzero(lengths > max(self.washout, 1))
        if not len(enough):
            return 0, 0
        return int(gaps[enough[-1]] + 1), int(gaps[enough[-1] + 1] - 1)


def _measurement_root(loop: ClosedLoop, earlier: Array, size: int) -> Array:
    """Return a root (…, r, size) of the measurement noise in [earlier rows, units], of earlier rows [y, u] (…, lags, d + m)."""
    *batch, lags, _ = earlier.shape
    if loop.measurement_cov is None or not lags:
        return np.zeros((0, size))
    own, (d, encoding) = factor_covariance(loop.measurement_cov).T, (loop.dynamics.n_columns, loop.dynamics.encoding)
    batch = [] if encoding.is_plain else batch  # the same for all rows
    n, root = loop.reservoir.n_inputs, np.zeros((*batch, lags, len(own), size))
    for k in range(lags):
        root[..., k, :, k * n : k * n + encoding.size(d)] = encoding.tangent(earlier[..., k, :d], own)
    return root.reshape(*batch, lags * len(own), size)


def _state_variance(loop: ClosedLoop, state: GaussianState) -> float:
    """Compute the state variance of the next y, in units of the one-step errors."""
    one_step = np.maximum(np.diagonal(loop.errors.cov), np.finfo(float).tiny)
    return float(np.sum(loop.model.emit(state, observed=True)[1].parts["state"] / one_step))


@dataclass(frozen=True, eq=False)
class FilteredContext:
    """A filtered context, as returned by :meth:`pesn.Forecaster.start`.

    Parameters
    ----------
    rows : Run
        The scaled context: y (…, n, d) and X (…, n − 1, u); leading axes are a batch.
    begun : StartingPoint
        State before the input that acts on the last row is known.
    plain : StartingPoint or None
        The state as if the rows were certain, if they are not: given uncertainty is not calibrated.
    fingerprint : array
        Identifies the model that has filtered the context.
    """

    rows: Run
    begun: StartingPoint
    plain: StartingPoint | None
    fingerprint: Array

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the batch: (), or (B,)."""
        return self.rows.y.shape[:-2]
