"""Autoregression and reservoirs in closed loop, and the decomposition of a series into level, season and covariate effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from pesn._support.arguments import flag, number
from pesn._support.jit import INLINE, jit
from pesn._support.records import check_array, check_type
from pesn._support.types import AnyArray, Array
from pesn.series.members import dynamics, seasonality, smoothing, weights
from pesn.series.members.dynamics import Dynamics
from pesn.series.members.inputs import Effects
from pesn.series.members.smoothing import Path

__all__ = [
    "FAR_BETTER",
    "FEWER",
    "ROWS",
    "SEEDS",
    "SIZE",
    "Changes",
    "ClosedLoop",
    "Course",
    "Loops",
    "Units",
    "adjusted",
    "ahead",
    "course",
    "drawn",
    "drive",
    "error",
    "fit",
    "forecast",
    "learn",
    "moving_average",
    "no_units",
    "prepare",
    "readout_size",
    "season_of",
    "with_dynamics",
]


@jit(**INLINE)
def _move(change: Any, gap: Any, inputs: Any, columns: Any, weights: Any, leak: Any, old: Any, new: Any) -> None:
    """One step of the units: ``inputs`` (N, 3) bias, change, gap; ``columns``, ``weights`` (N, k) of the units that they hear."""
    for i in range(np.uint64(len(old))):
        drive = inputs[i, 0] + inputs[i, 1] * change + inputs[i, 2] * gap
        for k in range(np.uint64(columns.shape[1])):
            drive += weights[i, k] * old[columns[i, k]]
        new[i] = old[i] + leak[i] * (np.tanh(drive) - old[i])


@jit()
def moving_average(values: Any, pace: Any, out: Any) -> None:
    """``out`` (n,): exponential, from the first row on."""
    average = values[0]
    for t in range(np.uint64(len(values))):
        average += pace * (values[t] - average)
        out[t] = average


@jit()
def drive(changes: Any, gaps: Any, inputs: Any, columns: Any, weights: Any, leak: Any, states: Any) -> None:
    """``states`` (n, N) after each row; ``changes`` and ``gaps`` (n,) in units of their deviations."""
    old = np.zeros(states.shape[1])
    for t in range(np.uint64(len(changes))):
        _move(changes[t], gaps[t], inputs, columns, weights, leak, old, states[t])
        old[:] = states[t]


@jit()
def ahead(
    changes: Any, averages: Any, values: Any, states: Any, inputs: Any, columns: Any, weights: Any, leak: Any, origins: Any,
    block: Any, readouts: Any, lags: Any, season: Any, pace: Any, fade: Any, largest: Any, bounds: Any, gap_unit: Any, out: Any,
) -> None:  # fmt: skip
    """Closed loops from all origins: ``out`` (O, H), the series itself at each lead, in units of the changes' deviation.

    Parameters
    ----------
    changes, averages, values : (n,), clipped changes, moving average and the series. states : (n, N).
    origins : (O,). block : (O,), which of ``readouts`` (B, p + 1) holds for an origin: 1, features, and the drift that fades.
    lags, season : numbers of lags; period, 0 without. pace : of the moving average. fade : of the drift, a step.
    largest : change in a step. bounds : (2,), of the series. gap_unit : gaps are in units of it.
    """
    units = np.uint64(states.shape[1])
    horizon = out.shape[1]
    old, new = np.zeros(states.shape[1]), np.zeros(states.shape[1])
    recent = np.zeros(max(lags, season) + horizon + 1)
    keep = max(lags, season)
    for o in range(np.uint64(len(origins))):
        t = origins[o]
        readout = readouts[block[o]]
        for k in range(keep):
            recent[k] = changes[t - keep + 1 + k] if t - keep + 1 + k >= 0 else 0.0
        average, value, drift = averages[t], values[t], readout[len(readout) - 1]
        old[:] = states[t]
        for j in range(horizon):
            last = keep + j - 1  # position of the change to row t + j
            gap = (value - average) / gap_unit
            if j > 0 and units > 0:
                _move(recent[last], gap, inputs, columns, weights, leak, old, new)
                old[:] = new
            change = readout[0] + drift
            for k in range(lags):
                change += readout[1 + k] * recent[last - k]
            change += readout[1 + lags] * gap
            at = 2 + lags
            if season > 0:
                change += readout[at] * recent[last + 1 - season]
                at += 1
            for i in range(units):
                change += readout[np.uint64(at) + i] * old[i]
            change = min(max(change, -largest), largest)
            moved = min(max(value + change, bounds[0]), bounds[1])
            recent[last + 1] = moved - value
            value = moved
            average += pace * (value - average)
            drift *= fade
            out[o, j] = value


LAGS = 5
PACE = 0.2  # of the moving average
FADE = 0.95  # of the mean change, a step
FOLDS = 4
CLIP = 4.0  # deviations of a change
RIDGES = np.geomspace(1e-4, 1e3, 15)
UNIT_PENALTY = 10.0  # of units over lags


@dataclass(frozen=True, eq=False)
class Units:
    """A small reservoir: ``inputs`` (N, 3), ``columns`` and ``weights`` (N, k) of the units that each hears, ``leak`` (N,)."""

    inputs: Array
    columns: AnyArray
    weights: Array
    leak: Array


@dataclass(frozen=True, eq=False)
class Changes:
    """A series ``values`` (n,) in units of its changes' deviation, clipped changes, moving average, bounds, unit of the gaps."""

    values: Array
    changes: Array
    averages: Array
    bounds: Array
    gap_unit: float
    unit: float
    season: int


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """A readout (p + 1,) of lags, gap, season, units; the last number is the drift. ``origins_ahead`` (O, H) judged it."""

    readout: Array
    origins_ahead: Array


def no_units() -> Units:
    """An autoregression alone."""
    return Units(np.zeros((0, 3)), np.zeros((0, 1), dtype=np.uint64), np.zeros((0, 1)), np.zeros(0))


def readout_size(season: int) -> int:
    """Return the number of weights without units: constant, lags, gap, the seasonal lag where there is one, drift."""
    return LAGS + 3 + (season > 0)


def prepare(values: Array, season: int, unit: tuple[float, float] | None = None) -> Changes:
    """``values`` (n,), NaN where missing, interpolated; ``unit`` of changes and gaps, found if None."""
    seen = np.flatnonzero(~np.isnan(values))
    values = np.interp(np.arange(len(values)), seen, values[seen])
    raw = np.diff(values, prepend=values[0])
    averages = _moving_average(values)
    gaps = values - averages
    if unit is None:
        middle = float(np.mean(np.abs(raw)))
        clipped = np.clip(raw, -CLIP * 1.25 * middle, CLIP * 1.25 * middle)
        unit = float(np.std(clipped)) or 1.0, float(np.std(gaps)) or 1.0
    low, high = values.min() / unit[0], values.max() / unit[0]
    margin = 0.5 * (high - low)
    return Changes(
        values / unit[0], np.clip(raw / unit[0], -CLIP, CLIP), averages / unit[0], np.array([low - margin, high + margin]),
        unit[1] / unit[0], unit[0], season,
    )  # fmt: skip


def _moving_average(values: Array) -> Array:
    out = np.empty(len(values))
    moving_average(values, PACE, out)
    return out


def _states(rows: Changes, units: Units) -> Array:
    states = np.zeros((len(rows.values), len(units.leak)))
    if len(units.leak):
        gaps = (rows.values - rows.averages) / rows.gap_unit
        drive(rows.changes, gaps, units.inputs, units.columns, units.weights, units.leak, states)
    return states


def _features(rows: Changes, states: Array) -> Array:
    """(n, p) without the 1: of row t, for the change to row t + 1."""
    n = len(rows.values)
    columns = [np.concatenate([np.zeros(k), rows.changes[: n - k]]) for k in range(LAGS)]
    columns.append((rows.values - rows.averages) / rows.gap_unit)
    if rows.season:
        back = rows.season - 1
        columns.append(np.concatenate([np.zeros(back), rows.changes[: n - back]]))
    return np.column_stack([*columns, states])


def _ridge(features: Array, target: Array, penalty: Array) -> Array:
    """Readout (p + 2,) with the best leave-one-out error: constant, coefficients, drift."""
    scale = 1.0 / np.sqrt(penalty)
    middle, drift = features.mean(axis=0), float(target.mean())
    x, y = (features - middle) * scale, target - drift
    values, vectors = np.linalg.eigh(x.T @ x)
    values = np.maximum(values, 0.0)
    z, n = x @ vectors, len(y)
    project, squares = z.T @ y, z**2
    best, found = np.inf, np.zeros(x.shape[1])
    for ridge in RIDGES * n:
        inverse = 1.0 / (values + ridge)
        leverage = np.minimum(squares @ inverse + 1.0 / n, 0.99)
        error = float(np.mean(((y - z @ (inverse * project)) / (1.0 - leverage)) ** 2))
        if error < best:
            best, found = error, vectors @ (inverse * project)
    coefficients = found * scale
    return np.concatenate([[-float(coefficients @ middle)], coefficients, [drift]])


def fit(rows: Changes, units: Units, origins: AnyArray, horizon: int) -> ClosedLoop:
    """Learn the readout of all rows, and forecast from ``origins`` by readouts of the rows before them."""
    states = _states(rows, units)
    features = _features(rows, states)
    penalty = np.ones(features.shape[1])
    penalty[features.shape[1] - states.shape[1] :] = UNIT_PENALTY
    begin = max(LAGS, rows.season) + 1
    target = rows.changes[begin + 1 :]
    features = features[begin:-1]
    block = np.minimum(np.arange(len(origins)) * FOLDS // max(len(origins), 1), FOLDS - 1)
    readouts = []
    for fold in range(FOLDS):
        last = int(origins[np.flatnonzero(block == fold)[0]]) - begin  # changes up to the first origin of the fold
        last = max(last, 10)
        readouts.append(_ridge(features[:last], target[:last], penalty))
    judged = _closed(rows, units, states, origins, block, np.array(readouts), horizon)
    return ClosedLoop(_ridge(features, target, penalty), judged)


def forecast(rows: Changes, units: Units, readout: Array, horizon: int) -> Array:
    """(horizon,) from the last row."""
    states = _states(rows, units)
    last = np.array([len(rows.values) - 1])
    return _closed(rows, units, states, last, np.zeros(1, dtype=np.int64), readout[None], horizon)[0]


def _closed(
    rows: Changes, units: Units, states: Array, origins: AnyArray, block: AnyArray, readouts: Array, horizon: int
) -> Array:
    out = np.zeros((len(origins), horizon))
    ahead(
        rows.changes, rows.averages, rows.values, states, units.inputs, units.columns, units.weights, units.leak, origins, block,
        readouts, LAGS, rows.season, PACE, FADE, CLIP, rows.bounds, rows.gap_unit, out,
    )  # fmt: skip
    return out * rows.unit


SEEDS = (0, 1, 2)
SIZE = 50
HEARD = 5  # units that each hears
RADIUS = 1.1
LEAKS = (0.4, 1.0)


@cache
def drawn(seed: int) -> Units:
    """Reservoir number ``seed``: the same on every machine."""
    rng = np.random.default_rng([19, seed])
    columns = np.argsort(rng.random((SIZE, SIZE)), axis=1)[:, :HEARD]
    weights = rng.normal(size=(SIZE, HEARD))
    matrix = np.zeros((SIZE, SIZE))
    np.put_along_axis(matrix, columns, weights, axis=1)
    weights *= RADIUS / float(np.abs(np.linalg.eigvals(matrix)).max())
    inputs = rng.uniform(-1.0, 1.0, size=(SIZE, 3)) * np.array([0.5, 0.7, 0.7])
    return Units(inputs, columns.astype(np.uint64), weights, np.resize(LEAKS, SIZE).astype(float))


ROWS = 100
FEWER = 50  # rows from which an autoregression alone is tried, to be kept where it is far better
FAR_BETTER = 0.85  # of the error without
AR_PRIOR = (0.3, 0.3)
RESERVOIR_PRIOR = (0.3, 0.3)
DYNAMICS_PRIOR = (0.3, 0.4)


@dataclass(frozen=True, eq=False)
class Loops:
    """Readouts of the autoregression (p,) and of the reservoirs (seeds, p + N), with their shares of the forecast.

    ``unit`` is that of changes and gaps, ``season`` the period of the seasonal lag, ``log`` whether logarithms were learnt from.
    """

    unit: tuple[float, float]
    season: int
    log: bool
    autoregression: Array
    reservoirs: Array
    shares: tuple[float, float]
    dynamics: Dynamics | None = None

    def check(self, name: str, season: int, positive: bool) -> None:
        """Raise a ValueError unless its readouts fit the lags and units that the kernels index into.

        Parameters
        ----------
        name : str
            Name of the record, for the message.
        season : int
            Period of the seasonal lag; 0 for none.
        positive : bool
            Whether the series is positive; only then logarithms can be taken.
        """
        for part, pair, high in (("unit", self.unit, 1e300), ("shares", self.shares, 1.0)):
            check_type(f"{name}.{part}", pair, tuple)
            if len(pair) != 2:
                raise ValueError(f"{name}.{part} must be two numbers, got {len(pair)}")
            for one in pair:
                number(f"{name}.{part}", one, 1e-300 if part == "unit" else 0.0, high, "[]")
        if type(self.season) is not int or self.season != season:
            raise ValueError(f"{name}.season must be {season}, as the series has it, got {self.season!r}")
        flag(f"{name}.log", self.log)
        if self.log and not positive:
            raise ValueError(f"{name}.log must be False of a series that is not positive")
        size = readout_size(season)
        check_array(f"{name}.autoregression", self.autoregression, (size,))
        if np.shape(self.reservoirs) != (0, 0) or self.shares[1] > 0.0:
            check_array(f"{name}.reservoirs", self.reservoirs, (len(SEEDS), size + SIZE))
        if sum(self.shares) > 1.0 + 1e-9:
            raise ValueError(f"{name}.shares must not add up to more than 1, got {self.shares}")
        if self.dynamics is not None:
            check_type(f"{name}.dynamics", self.dynamics, Dynamics)
            self.dynamics.check(f"{name}.dynamics")

    def mixed(self, path: Path, values: Array, horizon: int) -> tuple[Array, Array]:
        """Forecasts (horizon,) with and without season, of the smoothers, these and learnt dynamics."""
        rows = prepare(_scaled(adjusted(path, values, self.log), self.log), self.season, self.unit)
        parts = [forecast(rows, no_units(), self.autoregression, horizon)]
        parts += [forecast(rows, drawn(seed), readout, horizon) for seed, readout in zip(SEEDS, self.reservoirs, strict=False)]
        first, second = self.shares
        plain = (1.0 - first - second) * path.plain + first * _levels(parts[0], self.log)
        if second > 0.0:
            plain = plain + second * _levels(np.mean(parts[1:], axis=0), self.log)
        if self.dynamics is not None:
            course = self.dynamics.forecast(_filled(adjusted(path, values, self.log)), horizon)
            plain = plain + self.dynamics.share * (_above(course, path.plain, self.log) - plain)
        return _seasonal(plain, path.forecast, path.plain, self.log), plain


def adjusted(path: Path, values: Array, log: bool) -> Array:
    """Without season, of which the smoothers say what they knew before each row."""
    return values * (path.level / path.fitted) if log else values - (path.fitted - path.level)


def _scaled(values: Array, log: bool) -> Array:
    return np.log(values) if log else values


def _filled(values: Array) -> Array:
    seen = np.flatnonzero(~np.isnan(values))
    return np.interp(np.arange(len(values)), seen, values[seen])


def _above(ahead: Array, others: Array, log: bool) -> Array:
    """Where logarithms are taken, a tenth of what others say is the least."""
    return np.maximum(ahead, 0.1 * others) if log else ahead


def _levels(values: Array, log: bool) -> Array:
    return np.exp(values) if log else values


def _seasonal(plain: Array, whole: Array, smoothers: Array, log: bool) -> Array:
    """``plain`` with the season of the smoothers' forecasts, with and without it."""
    return plain * (whole / smoothers) if log else plain + (whole - smoothers)


def error(ahead: Array, truth: Array) -> float:
    """Mean absolute error of forecasts, over what came."""
    return float(np.nanmean(np.abs(truth - ahead)))


def learn(
    path: Path,
    values: Array,
    truth: Array,
    origins: AnyArray,
    leads: AnyArray,
    season: int,
    *,
    log: bool,
    n: int,
    reservoirs: bool = True,
) -> tuple[Loops, Array, float, dict[str, Array]]:
    """The readouts, their shares, mixed forecasts (O, J) of the rolling origins, and their error over that without reservoirs.

    The last result are the forecasts (O, J) of each part by itself.
    ``log`` needs a level above zero all along. ``n`` are the rows that shares are judged to be worth.
    """
    log = log and bool(path.level.min() > 0.0 and path.fitted.min() > 0.0 and path.ahead_plain.min() > 0.0)
    rows = prepare(_scaled(adjusted(path, values, log), log), season)
    unit, horizon = (rows.unit, rows.gap_unit * rows.unit), int(leads[-1])
    first = fit(rows, no_units(), origins, horizon)

    def seasonal(ahead: Array) -> Array:
        return _seasonal(_levels(ahead[:, leads - 1], log), path.ahead, path.ahead_plain, log)

    alone = seasonal(first.origins_ahead)
    parts = {"AR": alone}
    a = weights.share(path.ahead, alone, truth, leads, n, AR_PRIOR)
    linear = path.ahead + a * (alone - path.ahead)
    if not reservoirs:
        return Loops(unit, season, log, first.readout, np.zeros((0, 0)), (a, 0.0)), linear, 1.0, parts
    loops = [fit(rows, drawn(seed), origins, horizon) for seed in SEEDS]
    alone = seasonal(np.mean([loop.origins_ahead for loop in loops], axis=0))
    parts["reservoir"] = alone
    r = weights.share(linear, alone, truth, leads, n, RESERVOIR_PRIOR)
    mixed = linear + r * (alone - linear)
    gain = error(mixed, truth) / max(error(linear, truth), 1e-300)
    readouts = np.array([loop.readout for loop in loops])
    return Loops(unit, season, log, first.readout, readouts, (a * (1.0 - r), r)), mixed, gain, parts


def with_dynamics(
    loops: Loops, path: Path, values: Array, mixed: Array, truth: Array, origins: AnyArray, leads: AnyArray, n: int
) -> tuple[Loops, Array, int, Array | None]:
    """The automatic design beside them: its forecasts mixed into those (O, J) of the origins, from the first it is judged by.

    The last result are its forecasts (O, J) by itself; None where no design was found.
    """
    found = dynamics.learn(_filled(adjusted(path, values, loops.log)), origins, int(leads[-1]))
    if found is None:
        return loops, mixed, 0, None
    member, ahead, first = found
    plain = _above(ahead[:, leads - 1], path.ahead_plain, loops.log)
    alone = _seasonal(plain, path.ahead, path.ahead_plain, loops.log)
    d = weights.share(mixed[first:], alone[first:], truth[first:], leads, n // 2, DYNAMICS_PRIOR)
    out = mixed.copy()
    out[first:] += d * (alone[first:] - out[first:])
    return replace(loops, dynamics=replace(member, share=d)), out, first, alone


_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Course:
    """``level``, ``season`` and ``inputs`` (n + horizon,), and the forecast (horizon,), all in units of the series' scale."""

    level: Array
    season: Array
    inputs: Array
    forecast: Array


def season_of(first: Array, periods: Sequence[int], rows: int, phase: int = 0) -> Array:
    """What starting factors (Σm,) add to each of ``rows`` rows."""
    total, begin = np.zeros(rows), 0
    for period in periods:
        total += first[begin + (np.arange(rows) + phase) % period]
        begin += period
    return total


def course(
    values: Array,
    x: Array,
    periods: Sequence[int],
    stack: smoothing.Grid,
    weight: Array,
    first: Array,
    loops: Loops | None,
    effects: Effects,
    *,
    positive: bool,
    phase: int,
    horizon: int,
) -> Course:
    """``values`` (n,) in units of the series' scale, x (n + horizon, u)."""
    n = len(values)
    base = effects.off(values, x[:n])
    season = season_of(first[2 if positive else 0], periods, n, phase)
    base = seasonality.cleaned(base, log=positive, season=season)
    rows = smoothing.prepare(base, periods, positive=positive, first=first, phase=phase)
    path = smoothing.path(rows, stack, weight, _NONE, _NONE, horizon)
    whole, plain = (path.forecast, path.plain) if loops is None else loops.mixed(path, base, horizon)
    level = np.concatenate([path.level, plain])
    seasonal = np.concatenate([path.fitted, whole])
    total = effects.on(seasonal, x)
    return Course(level, seasonal - level, total - seasonal, total[n:])
