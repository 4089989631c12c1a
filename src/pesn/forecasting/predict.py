"""Multi-step prediction in closed loop, for single contexts and batches, with a switch to an ensemble.

>>> import numpy as np, pesn
>>> y = np.sin(0.2 * np.arange(300.0)) + 0.05 * np.random.default_rng(0).normal(size=300)
>>> ahead = pesn.Forecaster(calibrate=False).fit(y).forecast(30, joint=False)    # covariances within time steps only
>>> ahead.cov.shape, ahead.sample(5, rng=0).shape
((30, 1, 1), (5, 30, 1))
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.evaluation.backtest import Normal
from pesn.evaluation.calibration import calibration_factors
from pesn.forecasting.context import Columns, ContextFilter, Places, StartingPoint
from pesn.forecasting.forecast import Forecast
from pesn.linalg import factor_covariance
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.statespace.ensemble import Draws, Ensemble, MirroredDraws
from pesn.statespace.low_rank import FirstOrder
from pesn.statespace.model import Path, concatenate, rollout
from pesn.statespace.state import Certain, Dense, Diagonal, GaussianState, Layout

if TYPE_CHECKING:
    import pandas as pd

S = TypeVar("S", bound=np.generic)


def _common_entries(own: Layout, other: Layout) -> tuple[Places, Places]:
    """Return the positions, in each layout, of the entries that both share: all but those that every move recomputes."""

    def size(layout: Layout, name: str) -> int:
        return layout[name].stop - layout[name].start

    names = [name for name in own.blocks if name != "squares" and size(own, name) == size(other, name)]
    here, there = (np.concatenate([np.arange(at.size)[at[name]] for name in names]) for at in (own, other))
    return here, there


_APART = 0.2  # largest distance between the predicted mean and the deterministic trajectory, in standard deviations
_WIDE = 0.1  # largest effect of weight errors, in standard deviations of the training data
_FEWER, _MORE, _LONG = 8, 2, 100  # divisor of the number of pairs in a batch; factor for at most _LONG steps
_MOST_NUMBERS, _LEAST_PAIRS = 2**18, 32  # largest number of entries of an ensemble, and least number of pairs
_CARRIED = 100  # number of carried entries above which a batch uses an ensemble from the start
_CHECKED = 50  # number of steps between accuracy checks
_AT_ONCE = 1000  # number of steps whose features are held in memory


def predict_path(
    loop: ClosedLoop, state: GaussianState, inputs: Array, input_var: Array | None = None, *, joint: bool = False
) -> Path:
    """Predict the mean and covariance of the next time steps from a state whose cells have moved.

    The closed form is used as long as it is accurate. From the first step at which it is not, an ensemble replaces it if the
    loop allows that.

    Parameters
    ----------
    loop : ClosedLoop
        The closed loop; ``switches_to_ensemble`` allows the switch to an ensemble.
    state : GaussianState
        One state, or a batch.
    inputs : array of shape (..., T, m)
        Future inputs.
    input_var : array of shape (..., T, m), optional
        Variances of the future inputs.
    joint : bool, default=False
        Whether to compute covariances between all time steps.

    Returns
    -------
    Path
    """
    if loop.form == "diagonal":
        return rollout(loop.model, state, inputs, input_var, moved=True, joint=joint)
    mean, along = follow_mean(loop, state, inputs)
    if not loop.switches_to_ensemble or loop.form == "ensemble":
        return rollout(loop.forecast_model, state, inputs, input_var, moved=True, joint=joint, along=along)
    if loop.form == "low-rank" and loop.carried > _CARRIED and state.mean.ndim > 1:
        return _predict_ensemble(loop, state, inputs, input_var, joint, along)
    path, beyond = _predict_closed_form(loop, state, inputs, input_var, joint, mean, along)
    which = np.asarray(beyond.any(axis=-1))
    if not which.any():
        return path
    return _splice(path, _predict_ensemble(loop, state, inputs, input_var, joint, along, which), beyond, which)


def follow_mean(loop: ClosedLoop, state: GaussianState, inputs: Array) -> tuple[Array, Array | None]:
    """Return the deterministic trajectory (…, T, d) of the mean and its coordinates (…, T, r) along weight directions, if any."""
    certain, weights = loop.certain, "weights" in loop.parts
    if loop.reduced:
        return _follow_rows(loop, state, inputs)
    model = certain.model
    if weights:
        model = replace(model, fast=None, probe=lambda now: {"features": loop.moves.means(now.mean)})
    start = loop.as_certain(state).mean
    now: GaussianState = Certain(start, state.carried, np.zeros((*start.shape, 0)))
    means, features = [], []
    for first in range(0, inputs.shape[-2], _AT_ONCE):
        path = rollout(model, now, inputs[..., first : first + _AT_ONCE, :], moved=not first)
        now = path.state
        means.append(path.mean)
        if weights:
            features.append(path.probed["features"])
    mean = np.concatenate(means, axis=-2)
    return mean, loop.weight_errors.project(np.concatenate(features, axis=-2)) if weights else None


def _follow_rows(loop: ClosedLoop, state: GaussianState, inputs: Array) -> tuple[Array, Array | None]:
    """Return the same of a reduced state: the features are those of the rows on the way."""
    start = rearrange_state(state, loop, loop.certain)
    mean = rollout(loop.certain.model, start, inputs).mean
    if "weights" not in loop.parts:
        return mean, None
    at, dyn, r = loop.layout, loop.dynamics, loop.reservoir
    y = np.concatenate([state.mean[..., None, at["y"]], mean[..., :-1, :]], axis=-2)
    rows = dyn.network_rows(np.concatenate([y, np.broadcast_to(inputs, (*y.shape[:-1], inputs.shape[-1]))], axis=-1))
    earlier = state.mean[..., at["earlier"]].reshape(*y.shape[:-2], loop.features.lags, r.n_inputs)[..., ::-1, :]
    units = loop.units.activation(rows @ np.asarray(r.W_in, float).T + r.bias)
    return mean, loop.weight_errors.project(loop.features(rows, units, earlier))


def _predict_closed_form(
    loop: ClosedLoop, state: GaussianState, inputs: Array, input_var: Array | None, joint: bool, mean: Array, along: Array | None
) -> tuple[Path, npt.NDArray[np.bool_]]:
    """Predict in closed form; also return a mask (…, T) of inaccurate steps. Stop once all states are inaccurate."""
    steps, batch = inputs.shape[-2], state.mean.shape[:-1]
    size = steps if joint else _CHECKED
    paths, beyond, now = [], np.zeros((*batch, steps), bool), state
    for first in range(0, steps, size):
        rows = slice(first, first + size)
        u, var, part = (None if a is None else a[..., rows, :] for a in (inputs, input_var, along))
        assert u is not None
        path = rollout(loop.forecast_model, now, u, var, moved=not first, joint=joint, along=part)
        paths.append(path)
        now = path.state
        beyond[..., rows] = _is_inaccurate(loop, path, mean[..., rows, :]) | beyond[..., max(first - 1, 0), None]
        if beyond[..., rows][..., -1].all() and rows.stop < steps:
            beyond[..., rows.stop :] = True
            paths.append(_blank(path, steps - rows.stop))
            break
    return concatenate(paths), beyond


def _blank(path: Path, steps: int) -> Path:
    """Return a path of ``steps`` steps filled with zeros."""
    time = path.mean.ndim - 2

    def blank(a: npt.NDArray[S]) -> npt.NDArray[S]:
        return np.zeros((*a.shape[:time], steps, *a.shape[time + 1 :]), a.dtype)

    parts = {name: blank(part) for name, part in path.parts.items()}
    return path._replace(mean=blank(path.mean), cov=blank(path.cov), parts=parts, left=blank(path.left))


def _is_inaccurate(loop: ClosedLoop, path: Path, mean: Array) -> npt.NDArray[np.bool_]:
    """Return a mask (…, T) that is True from the first step on at which the closed form is inaccurate."""
    std = np.sqrt(np.maximum(np.diagonal(path.cov, axis1=-2, axis2=-1), np.finfo(float).tiny))
    apart = (np.abs(path.mean - mean) > _APART * std).any(axis=-1)
    wide = (np.sqrt(path.parts["weights"]) > _WIDE * loop.guard.width).any(axis=-1) if loop.guard is not None else False
    return np.asarray(np.logical_or.accumulate(apart | wide, axis=-1))


def _predict_ensemble(
    loop: ClosedLoop, state: GaussianState, inputs: Array, input_var: Array | None,
    joint: bool, along: Array | None, which: npt.NDArray[np.bool_] | slice = slice(None),
) -> Path:  # fmt: skip
    """Predict with an ensemble of antithetic pairs, for the states ``which`` of a batch."""
    batch = state.mean.shape[:-1]
    times = 1.0 / _FEWER if batch else 0.5 if inputs.shape[-2] > _LONG else 1.0 if loop.reduced else _MORE
    pairs = max(min(int(times * loop.n_members), max(_MOST_NUMBERS // (2 * loop.whole.size), _LEAST_PAIRS)), 1)
    away = state.sample(pairs, np.random.default_rng(0)) - state.mean[..., None, :]
    members = state.mean[..., None, :] + np.concatenate([away, -away], axis=-2)
    given: list[Any] = [inputs, input_var, along]
    if batch:
        members = members[which]
        given = [None if a is None else np.broadcast_to(a, (*batch, *a.shape[-2:]))[which] for a in given]
    start = Ensemble(members, state.carried, MirroredDraws(0, sobol=True))
    return rollout(loop.forecast_model, start, given[0], given[1], moved=True, joint=joint, along=given[2])


def _splice(path: Path, other: Path, beyond: npt.NDArray[np.bool_], which: npt.NDArray[np.bool_]) -> Path:
    """Replace the steps ``beyond`` of ``path`` by those of the ensemble ``other``, for the states ``which`` of a batch."""
    batch = which.shape
    here = beyond[which] if batch else beyond

    def splice(own: npt.NDArray[S], theirs: npt.NDArray[S]) -> npt.NDArray[S]:
        result, places = own.copy(), here.reshape(*here.shape, *(1,) * (theirs.ndim - here.ndim))
        if batch:
            result[which] = np.where(places, theirs, own[which])
            return result
        return np.where(places, theirs, own)

    cov = splice(path.cov, other.cov)
    parts = {name: splice(part, other.parts[name]) for name, part in path.parts.items()}
    found = path._replace(mean=splice(path.mean, other.mean), cov=cov, parts=parts, left=splice(path.left, other.left))
    if other.joint is None:
        return found
    assert not batch
    # combine the correlations between time steps of the ensemble with the standard deviations of each step
    std, theirs = (np.sqrt(np.einsum("kii->ki", one)) for one in (cov, other.cov))
    ratio = np.divide(std, theirs, out=np.zeros_like(std), where=theirs > 0.0)
    between = other.joint * ratio[:, :, None, None] * ratio
    certain = ~np.einsum("kiki->ki", between).astype(bool)  # also by underflow
    between[certain] = 0.0
    between[:, :, certain] = 0.0
    return found._replace(joint=between)


class Known(NamedTuple):
    """Scaled data of one forecast.

    Parameters
    ----------
    y : array of shape (T, d)
        Observations of the context.
    u : array of shape (T, m)
        Inputs of the context. The last one acts on the last observation and equals the first future input.
    ahead : array of shape (horizon, m)
        Future inputs.
    """

    y: Array
    u: Array
    ahead: Array


def forecast_all(loop: ClosedLoop, context: ContextFilter, known: Sequence[Known]) -> Normal:
    """Forecast one horizon from many origins; return scaled, uncalibrated marginals (origins, horizon, d)."""
    shape = len(known), len(known[0].ahead), loop.dynamics.n_columns
    mean, std = np.empty(shape), np.empty(shape)
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, one in enumerate(known):
        alone = context.few(len(one.y)) or any(np.isnan(part).any() for part in one)  # not batched
        groups[len(one.y), i if alone else -1].append(i)
    for (_, alone_at), members in groups.items():
        parts = known[alone_at] if alone_at >= 0 else [np.stack(part) for part in zip(*(known[i] for i in members), strict=True)]
        y, u, ahead = parts
        ahead, var = context.impute_inputs(ahead)
        path = predict_path(loop, context.advance(loop, y, u), ahead, var if var.any() else None)
        mean[members] = path.mean
        std[members] = np.sqrt(np.maximum(np.diagonal(path.cov, axis1=-2, axis2=-1), 0.0))
    return Normal(mean, std)


_FEWEST = 100  # least number of sample paths from which mean and standard deviation are estimated
_NUMBERS_AT_ONCE = 4_000_000  # numbers of all states simulated at once: a few times 32 MB
_MOST_SIMULATED = 400_000_000  # numbers of all sample paths: a few times 3.2 GB


def variance_share(own: Array, std: Array) -> Array:
    """Compute the ratio (…, d) of the diagonal of ``own`` (…, d, d) to ``std``²; 1 where ``std`` is 0."""
    return np.divide(np.diagonal(own, axis1=-2, axis2=-1), np.square(std), out=np.ones_like(std), where=std > 0.0)


@dataclass(frozen=True, eq=False)
class Futures:
    """State and inputs from which the future is predicted or sampled.

    Parameters
    ----------
    loop : ClosedLoop
        The closed loop.
    state : GaussianState
        State whose cells have moved.
    inputs : array of shape (h, u)
        Future inputs.
    input_var : array of shape (h, u)
        Variances of the future inputs.
    columns : Columns
        Names and units of the columns of y.
    own : array of shape (h, d, d), optional
        Covariances of the forecast without user-supplied uncertainty, if there is any.
    """

    loop: ClosedLoop
    state: GaussianState
    inputs: Array
    input_var: Array
    columns: Columns
    own: Array | None = None

    def own_share(self, std: Array) -> Array | None:
        """Return the fraction (h, d) of the variances ``std``² not due to user-supplied uncertainty; None if there is none."""
        return None if self.own is None else variance_share(self.own, std)

    def simulate(self, n: int, rng: np.random.Generator) -> Array:
        """Simulate ``n`` scaled sample paths (n, h, d) with noise, in batches that fit into memory."""
        loop, state = self.loop, self.state
        self._check_count(n)
        count = max(_NUMBERS_AT_ONCE // loop.whole.size, _FEWEST)
        along = follow_mean(loop, state, self.inputs)[1]
        parts = []
        for size in np.diff(np.unique([*range(0, n, count), n])):
            start = Ensemble(state.sample(int(size), rng), state.carried, Draws(int(rng.integers(2**63))))
            path = rollout(loop.forecast_model, start, self.inputs, self.input_var, moved=True, members=True, along=along)
            assert path.members is not None
            futures = np.swapaxes(path.members, 0, 1)
            if (S := loop.model.measurement_cov) is not None:
                futures = futures + rng.standard_normal(futures.shape) @ factor_covariance(S).T
            parts.append(futures)
        return np.concatenate(parts)

    def _check_count(self, n: int) -> None:
        """Raise a ValueError if the sample paths would not fit into memory."""
        steps, columns = len(self.inputs), self.loop.dynamics.n_columns
        most = _MOST_SIMULATED // (steps * columns)
        if n > most:
            of = f"futures of {steps} steps and {columns} columns"
            raise ValueError(f"n must be {most} or less for {of}, got {n}; draw some at a time")

    def dynamics(self, n: int, rng: np.random.Generator) -> Array:
        """Simulate ``n`` scaled noise-free paths (n, h, d) from samples of the initial state."""
        self._check_count(n)
        loop, own = self.loop.certain, self.loop
        drawn = own.without_errors(self.state).sample(n, rng)
        x = np.zeros((n, loop.layout.size))
        here, there = _common_entries(own.layout, loop.layout)
        x[:, there] = drawn[:, here]
        d = loop.dynamics.n_columns
        count, parts = max(_NUMBERS_AT_ONCE // max(len(self.inputs) * d * d, loop.layout.size), 1), []
        for first in range(0, n, count):
            some = x[first : first + count]
            start = loop.as_certain(Certain(some, loop.carried, np.zeros((*some.shape, 0))))
            parts.append(rollout(loop.model, start, self.inputs, moved=not own.reduced).mean)
        return np.concatenate(parts)

    def sample_paths(self, n: int, calibration: Array | None, rng: np.random.Generator, noise: bool = True) -> Array:
        """Sample ``n`` paths (n, h, d) in the units of y.

        With noise and a ``calibration``, deviations from the mean are calibrated as in a forecast. Mean and standard deviation
        are then estimated from at least 100 paths.
        """
        if not noise or calibration is None:
            return np.asarray(self.columns.scale.undo(self.simulate(n, rng) if noise else self.dynamics(n, rng)))
        paths, center, std = self.simulate_enough(n, rng)
        factor = calibration_factors(std, calibration, self.columns.prior.y_std, self.own_share(std))
        return np.asarray(self.columns.scale.undo(center + (paths - center) * factor))

    def simulate_enough(self, n: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Simulate ``n`` paths; also return the mean and standard deviation (h, d) of at least 100 paths."""
        paths = self.simulate(max(n, _FEWEST), rng)
        return paths[:n], paths.mean(axis=0), paths.std(axis=0)

    def sample_around(self, mean: Array, std: Array, n: int, rng: np.random.Generator) -> Array:
        """Sample ``n`` paths (n, h, d) with the means and standard deviations (h, d) of a forecast, in the units of y.

        Each time step is shifted and scaled to them: they include bounds and calibration. The dependence between time steps and
        columns is that of at least 100 simulated paths.
        """
        paths, center, spread = self.simulate_enough(n, rng)
        return mean + (paths - center) * np.divide(std, spread, out=np.zeros_like(spread), where=spread > 0.0)


_log = logging.getLogger("pesn.forecasting")


def make_forecast(futures: Futures, calibration: Array, joint: bool, index: pd.Index | None, history: Array) -> Forecast:
    """Predict the next time steps as a :class:`pesn.Forecast`.

    Parameters
    ----------
    futures : Futures
        State of the loop and future inputs.
    calibration : array of shape (50,)
        Factors of the standard deviations by lead.
    joint : bool
        Whether to compute covariances between all time steps; otherwise sample paths are simulated by the loop.
    index : pandas.Index or None
        Labels of the forecast steps.
    history : array of shape (k, d)
        Observations before the forecast.
    """
    u, columns = futures.inputs, futures.columns
    path = predict_path(futures.loop, futures.state, u, futures.input_var, joint=joint)
    if path.left.any():
        step, column = np.argwhere(path.left)[0]
        name = f"y{column}" if columns.names is None else columns.names[column]
        _log.warning("the forecast of %s left the range of training at step %d of %d: held there", name, step + 1, len(u))
    std = np.sqrt(np.einsum("kii->ki", path.cov))
    factor = calibration_factors(std, calibration, columns.prior.y_std, futures.own_share(std))
    mean, scale = columns.scale.undo(path.mean), columns.scale.y_std
    parts = {name: part * np.square(factor) for name, part in path.parts.items()}
    about = (columns.names, index, history)
    if path.joint is None:
        paths = partial(futures.sample_around, mean, std * factor * scale)
        cov = path.cov * factor[:, :, None] * factor[:, None]
        return Forecast(mean, None, parts, *about, cov=cov, paths=paths, scale=scale)
    joint_factor, over_time = factor.ravel(), path.joint.reshape(factor.size, factor.size)
    over_time *= joint_factor[:, None]  # in place, as this is the largest array
    over_time *= joint_factor
    certain = std.ravel() == 0.0  # also by underflow
    over_time[certain] = 0.0
    over_time[:, certain] = 0.0
    return Forecast(mean, over_time, parts, *about, scale=scale)


COVARIANCES = {"none": "none", "diagonal": "diagonal", "low-rank": "first-order", "full": "full"}
_SIDE_BY_SIDE = 2**18  # number of entries of covariances that fit into the cache
Rolled: TypeAlias = tuple[Array, Array | None, Array | None]  # scaled means (B, T, d), covariances and Cov(y_{k+1}, y_k)


def rollout_loop(loop: ClosedLoop, covariance: str, rank: int) -> ClosedLoop:
    """Return the loop for roll-outs with a given form of covariance; weight errors persist over the steps."""
    form = COVARIANCES[covariance]
    if form == "none":
        return loop.certain
    return replace(loop, form=form, rank=rank, reduced=loop.reduced and form != "diagonal")


def simulate_rollouts(loop: ClosedLoop, context: ContextFilter, begun: StartingPoint, inputs: Array) -> Rolled:
    """Roll out inputs from one context, or from B of them.

    Parameters
    ----------
    loop : ClosedLoop
        Loop of :func:`rollout_loop`.
    context : ContextFilter
        Filter of contexts.
    begun : StartingPoint
        Initial state; one, or a batch of B.
    inputs : array of shape (B, T, m)
        Scaled inputs without missing values.
    """
    if loop.form == "none":
        state, moved = _initial_means(loop, context, begun, inputs)
        return rollout(loop.model, state, inputs, moved=moved).mean, None, None
    size, parts, correlated = max(_SIDE_BY_SIDE // _covariance_size(loop), 1), [], loop.form != "diagonal"
    for i in range(0, len(inputs), size):  # batches that fit into the cache
        rows = slice(i, i + size)
        state = context.with_input(loop, _slice_batch(begun, rows), inputs[rows, 0])
        along = follow_mean(loop, state, inputs[rows])[1] if correlated else None
        parts.append(rollout(loop.forecast_model, state, inputs[rows], moved=True, along=along, lagged=correlated))
    lagged = np.concatenate([path.lagged for path in parts]) if correlated else None
    return np.concatenate([path.mean for path in parts]), np.concatenate([path.cov for path in parts]), lagged


def _covariance_size(loop: ClosedLoop) -> int:
    """Return the number of entries of the covariance of one state."""
    n = loop.layout.size
    if loop.reduced:
        return max(n * n, loop.reservoir.n_units)
    return n if loop.form == "diagonal" else n * n if loop.form == "full" else n * min(2 * (loop.carried + loop.rank), n)


def _initial_means(loop: ClosedLoop, context: ContextFilter, begun: StartingPoint, inputs: Array) -> tuple[GaussianState, bool]:
    """Return the initial state without covariance, and whether the first inputs have moved it."""
    if begun.state is None:
        return context.with_input(loop, begun, inputs[:, 0]), True
    mean = np.broadcast_to(begun.state.mean, (len(inputs), loop.layout.size))
    return Certain(mean, loop.carried, np.zeros((*mean.shape, 0))), False


def convert_start(begun: StartingPoint, loop: ClosedLoop, other: ClosedLoop) -> StartingPoint:
    """Return the initial state of ``loop`` in the form of ``other``, a loop of the same network."""
    state = begun.state
    if state is None or other.form == loop.form or (other.reduced and loop.reduced):
        return begun
    alike = other.layout.size == loop.layout.size
    if alike and other.form == "none":
        return begun
    if not alike or other.form != "first-order":
        state = rearrange_state(state, loop, other)
    if other.form == "first-order":
        assert other.compression is not None
        state = FirstOrder.from_state(state, other.compression)
    return begun._replace(state=state)


def rearrange_state(state: GaussianState, loop: ClosedLoop, other: ClosedLoop) -> GaussianState:
    """Return a state of ``loop`` in the layout and form of ``other``; forms other than "none" and "diagonal" become dense.

    Squares are not copied, since every move recomputes them; the diagonal form has more of them.
    """
    mean = np.zeros((*state.mean.shape[:-1], other.layout.size))
    here, there = _common_entries(loop.layout, other.layout)
    mean[..., there] = state.mean[..., here]
    none = np.zeros((*mean.shape, 0))
    if other.form == "none":
        return Certain(mean, other.carried, none)
    if other.form == "diagonal":
        var = np.zeros(mean.shape)
        var[..., there] = state.variances()[..., here]
        return Diagonal(mean, other.carried, none, var)
    cov = np.zeros((*mean.shape, other.layout.size))
    whole = slice(0, loop.layout.size)
    cov[..., there[:, None], there] = state.cross_covariance(whole)[..., here[:, None], here]
    return Dense(mean, other.carried, none, cov)


def _slice_batch(begun: StartingPoint, which: slice) -> StartingPoint:
    """Return part of a batch; a single state is returned as is."""

    def some(part: Array | None, axes: int) -> Array | None:
        return part if part is None or part.ndim == axes else part[which]

    state = begun.state
    if state is not None and state.mean.ndim > 1:
        state = state.part(which)
    return begun._replace(state=state, y=some(begun.y, 2), u=some(begun.u, 2))
