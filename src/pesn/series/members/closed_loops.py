"""Autoregression and small reservoirs in closed loop: components of the ensemble beside the smoothers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from pesn._support.arguments import flag, number
from pesn._support.jit import INLINE, jit
from pesn._support.records import check_array, check_type
from pesn._support.types import AnyArray, Array
from pesn.series.members import dynamics, weights
from pesn.series.members.dynamics import Dynamics
from pesn.series.members.smoothing import Path
from pesn.series.members.weights import Trial

LAGS = 5
PACE = 0.2  # of the moving average
FADE = 0.95  # of the mean change, a step
FOLDS = 4
CLIP = 4.0  # largest change, in standard deviations
RIDGES = np.geomspace(1e-4, 1e3, 15)
UNIT_PENALTY = 10.0  # of units over lags

SEEDS = (0, 1, 2)
SIZE = 50
HEARD = 5  # inputs of each unit from other units
RADIUS = 1.1
LEAKS = (0.4, 1.0)


# ---------------------------------------------------------------- compiled


class Units(NamedTuple):
    """A small reservoir: ``inputs`` (N, 3) of bias, change and gap; ``columns``, ``weights`` (N, k) of other units; ``leak``."""

    inputs: Array
    columns: AnyArray
    weights: Array
    leak: Array


class Changes(NamedTuple):
    """A series ``values`` (n,) in standard deviations of its changes, clipped changes, moving average, bounds, unit of gaps."""

    values: Array
    changes: Array
    averages: Array
    bounds: Array
    gap_unit: float
    unit: float
    season: int  # period of the seasonal lag, 0 without


@jit(**INLINE)
def _move(change: float, gap: float, units: Units, old: Array, new: Array) -> None:
    """Move the units by one step."""
    inputs, columns, weights, leak = units.inputs, units.columns, units.weights, units.leak
    for i in range(np.uint64(len(old))):
        drive = inputs[i, 0] + inputs[i, 1] * change + inputs[i, 2] * gap
        for k in range(np.uint64(columns.shape[1])):
            drive += weights[i, k] * old[columns[i, k]]
        new[i] = old[i] + leak[i] * (np.tanh(drive) - old[i])


@jit()
def _drive(rows: Changes, units: Units, states: Array) -> None:
    """Set ``states`` (n + 1, N) to those after each row; the first are those before row 0."""
    changes, values, averages = rows.changes, rows.values, rows.averages
    for t in range(np.uint64(len(values))):
        _move(changes[t], (values[t] - averages[t]) / rows.gap_unit, units, states[t], states[t + np.uint64(1)])


@jit()
def _forecast_origins(
    rows: Changes, units: Units, states: Array, origins: AnyArray, block: AnyArray, readouts: Array, out: Array
) -> None:
    """Run closed loops from all origins: ``out`` (O, H), the series at each lead, in standard deviations of its changes.

    ``block`` (O,) is which of ``readouts`` (B, p + 1) holds for an origin: 1, features, and the drift that fades.
    """
    values, changes, averages, low, high = rows.values, rows.changes, rows.averages, rows.bounds[0], rows.bounds[1]
    n_units, season, horizon = np.uint64(states.shape[1]), rows.season, out.shape[1]
    old, new = np.empty(states.shape[1]), np.empty(states.shape[1])
    keep = season if season > LAGS else LAGS
    recent = np.empty(keep + horizon + 1)
    for o in range(np.uint64(len(origins))):
        t, at = origins[o], block[o]
        for k in range(keep):
            recent[k] = changes[t - keep + 1 + k] if t - keep + 1 + k >= 0 else 0.0
        average, value, drift = averages[t], values[t], readouts[at, readouts.shape[1] - 1]
        for i in range(n_units):
            old[i] = states[t, i]
        for j in range(horizon):
            last = keep + j - 1  # position of the change to row t + j
            gap = (value - average) / rows.gap_unit
            if j > 0 and n_units > 0:
                _move(recent[last], gap, units, old, new)
                old, new = new, old
            change = readouts[at, 0] + drift + readouts[at, 1 + LAGS] * gap
            for k in range(LAGS):
                change += readouts[at, 1 + k] * recent[last - k]
            if season > 0:
                change += readouts[at, 2 + LAGS] * recent[last + 1 - season]
            for i in range(n_units):
                change += readouts[at, 2 + LAGS + (season > 0) + i] * old[i]
            change = min(max(change, -CLIP), CLIP)
            moved = min(max(value + change, low), high)
            recent[last + 1] = moved - value
            value = moved
            average += PACE * (value - average)
            drift *= FADE
            out[o, j] = value


# ---------------------------------------------------------------- one loop


def no_units() -> Units:
    """Return the units of an autoregression: none."""
    return Units(np.zeros((0, 3)), np.zeros((0, 1), dtype=np.uint64), np.zeros((0, 1)), np.zeros(0))


@cache
def draw_units(seed: int) -> Units:
    """Return reservoir number ``seed``: the same on every machine."""
    rng = np.random.default_rng([19, seed])
    columns = np.argsort(rng.random((SIZE, SIZE)), axis=1)[:, :HEARD]
    weights = rng.normal(size=(SIZE, HEARD))
    matrix = np.zeros((SIZE, SIZE))
    np.put_along_axis(matrix, columns, weights, axis=1)
    weights *= RADIUS / float(np.abs(np.linalg.eigvals(matrix)).max())
    inputs = rng.uniform(-1.0, 1.0, size=(SIZE, 3)) * np.array([0.5, 0.7, 0.7])
    return Units(inputs, columns.astype(np.uint64), weights, np.resize(LEAKS, SIZE).astype(float))


def prepare(values: Array, season: int, unit: tuple[float, float] | None = None) -> Changes:
    """Return the changes of ``values`` (n,), NaN where missing, interpolated; ``unit`` of changes and gaps, found if None."""
    values = _interpolate(values)
    raw = np.diff(values, prepend=values[0])
    averages = np.array(list(accumulate(values.tolist(), lambda average, value: average + PACE * (value - average))))
    if unit is None:
        middle = float(np.mean(np.abs(raw)))
        clipped = np.clip(raw, -CLIP * 1.25 * middle, CLIP * 1.25 * middle)
        unit = float(np.std(clipped)) or 1.0, float(np.std(values - averages)) or 1.0
    low, high = values.min() / unit[0], values.max() / unit[0]
    bounds = np.array([low - 0.5 * (high - low), high + 0.5 * (high - low)])
    changes = np.clip(raw / unit[0], -CLIP, CLIP)
    return Changes(values / unit[0], changes, averages / unit[0], bounds, unit[1] / unit[0], unit[0], season)


def _interpolate(values: Array) -> Array:
    seen = np.flatnonzero(~np.isnan(values))
    return np.interp(np.arange(len(values)), seen, values[seen])


def _states(rows: Changes, units: Units) -> Array:
    """Return the states (n, N) of the units after each row."""
    states = np.zeros((len(rows.values) + 1, len(units.leak)))
    if len(units.leak):
        _drive(rows, units, states)
    return states[1:]


def _features(rows: Changes, states: Array) -> Array:
    """Return the features (n, p) of row t for the change to row t + 1, without the 1."""
    n = len(rows.values)
    lags = [*range(LAGS), *([rows.season - 1] if rows.season else [])]
    changes = [np.concatenate([np.zeros(k), rows.changes[: n - k]]) for k in lags]
    changes.insert(LAGS, (rows.values - rows.averages) / rows.gap_unit)
    return np.column_stack([*changes, states])


def _ridge(features: Array, target: Array, penalty: Array) -> Array:
    """Return the readout (p + 2,) with the best leave-one-out error: constant, coefficients, drift."""
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


def fit(rows: Changes, units: Units, origins: AnyArray, horizon: int) -> tuple[Array, Array]:
    """Return the readout of all rows, and forecasts (O, horizon) from ``origins`` by readouts of the rows before them."""
    states = _states(rows, units)
    features = _features(rows, states)
    penalty = np.ones(features.shape[1])
    penalty[features.shape[1] - states.shape[1] :] = UNIT_PENALTY
    begin = max(LAGS, rows.season) + 1
    target, features = rows.changes[begin + 1 :], features[begin:-1]
    block = np.minimum(np.arange(len(origins)) * FOLDS // max(len(origins), 1), FOLDS - 1)
    first = [int(origins[np.flatnonzero(block == fold)[0]]) for fold in range(FOLDS)]
    stops = [max(origin - begin, 10) for origin in first]  # changes up to the first origin of the fold
    readouts = np.array([_ridge(features[:stop], target[:stop], penalty) for stop in stops])
    return _ridge(features, target, penalty), _run_loops(rows, units, states, origins, block, readouts, horizon)


def forecast(rows: Changes, units: Units, readout: Array, horizon: int) -> Array:
    """Return the forecast (horizon,) from the last row."""
    last = np.array([len(rows.values) - 1])
    return _run_loops(rows, units, _states(rows, units), last, np.zeros(1, dtype=np.int64), readout[None], horizon)[0]


def _run_loops(
    rows: Changes, units: Units, states: Array, origins: AnyArray, block: AnyArray, readouts: Array, horizon: int
) -> Array:
    out = np.zeros((len(origins), horizon))
    _forecast_origins(rows, units, states, origins, block, readouts, out)
    return out * rows.unit


# ---------------------------------------------------------------- autoregression of levels


LEVEL_LAGS = 8
LEVELS_BETTER = 0.85  # error relative to those of the autoregression of changes and of the smoothers, at most


def _recent_levels(values: Array, places: AnyArray) -> Array:
    """Return the last 8 of ``values`` (n,) at each place, the latest first, (O, 8); the first value stands before row 0."""
    return np.asarray(values[np.maximum(places[:, None] - np.arange(LEVEL_LAGS), 0)])


def _run_levels(values: Array, places: AnyArray, readouts: Array, horizon: int) -> Array:
    """Return forecasts (O, horizon) of an autoregression of levels from ``places`` (O,), by ``readouts`` (O, 10) or (1, 10)."""
    low, high = float(values.min()), float(values.max())
    reach = 0.5 * (high - low)
    recent, out = _recent_levels(values, places), np.empty((len(places), horizon))
    for j in range(horizon):
        ahead = readouts[:, 0] + readouts[:, -1] + np.sum(readouts[:, 1:-1] * recent, axis=1)
        out[:, j] = np.clip(ahead, low - reach, high + reach)
        recent = np.column_stack([out[:, j], recent[:, :-1]])
    return out


def fit_levels(values: Array, origins: AnyArray, horizon: int) -> tuple[Array, Array]:
    """Fit an autoregression of levels, for cycles of any period: the readout of all rows, and forecasts (O, horizon).

    Forecasts are by readouts of the rows before them, as in `fit`.
    """
    features, target = _recent_levels(values, np.arange(LEVEL_LAGS - 1, len(values) - 1)), values[LEVEL_LAGS:]
    penalty = np.ones(LEVEL_LAGS)
    block = np.arange(len(origins)) * FOLDS // max(len(origins), 1)
    stops = [max(int(origins[np.argmax(block == fold)]) + 1 - LEVEL_LAGS, 10) for fold in range(FOLDS)]
    readouts = np.array([_ridge(features[:stop], target[:stop], penalty) for stop in stops])
    return _ridge(features, target, penalty), _run_levels(values, origins, readouts[block], horizon)


# ---------------------------------------------------------------- all loops beside the smoothers


ROWS = 100
FEWER = 50  # observations from which an autoregression alone is tried, and used where it is far better
FAR_BETTER = 0.85  # error relative to that without
AR_PRIOR = (0.3, 0.3)
LEVELS_PRIOR = (0.8, 0.4)
RESERVOIR_PRIOR = (0.3, 0.3)
DYNAMICS_PRIOR = (0.3, 0.4)


@dataclass(frozen=True, eq=False)
class Loops:
    """Readouts of the autoregression (p,) and of the reservoirs (seeds, p + N), with their shares of the forecast.

    ``unit`` is that of changes and gaps, ``season`` the period of the seasonal lag, ``log`` whether logarithms were used,
    ``levels`` whether the autoregression is one of levels with their season.
    """

    unit: tuple[float, float]
    season: int
    log: bool
    autoregression: Array
    reservoirs: Array
    shares: tuple[float, float]
    dynamics: Dynamics | None = None
    levels: bool = False

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
        _check_pair(f"{name}.unit", self.unit, 1e-300, 1e300)
        _check_pair(f"{name}.shares", self.shares, 0.0, 1.0)
        if sum(self.shares) > 1.0 + 1e-9:
            raise ValueError(f"{name}.shares must not add up to more than 1, got {self.shares}")
        if type(self.season) is not int or self.season != season:
            raise ValueError(f"{name}.season must be {season}, as the series has it, got {self.season!r}")
        flag(f"{name}.log", self.log)
        if self.log and not positive:
            raise ValueError(f"{name}.log must be False of a series that is not positive")
        size = LAGS + 3 + (season > 0)  # constant, lags, gap, the seasonal lag where there is one, drift
        flag(f"{name}.levels", self.levels)
        check_array(f"{name}.autoregression", self.autoregression, (LEVEL_LAGS + 2 if self.levels else size,))
        if np.shape(self.reservoirs) != (0, 0) or self.shares[1] > 0.0:
            check_array(f"{name}.reservoirs", self.reservoirs, (len(SEEDS), size + SIZE))
        if self.dynamics is not None:
            check_type(f"{name}.dynamics", self.dynamics, Dynamics)
            self.dynamics.check(f"{name}.dynamics")

    @property
    def all_shares(self) -> dict[str, float]:
        """Share of each part in the forecast, by its name; they add up to 1."""
        d = 0.0 if self.dynamics is None else self.dynamics.share
        a, r = self.shares
        shares = {"statistical": (1.0 - d) * max(1.0 - a - r, 0.0), "AR": (1.0 - d) * a, "reservoir": (1.0 - d) * r}
        return shares if self.dynamics is None else {**shares, "dynamics": d}

    def mix(self, path: Path, values: Array, horizon: int) -> tuple[Array, Array]:
        """Return forecasts (horizon,) with and without season, of the smoothers, these and learned dynamics."""
        view = _View(path, self.log)
        rows = prepare(view.transform(values), self.season, self.unit)
        first, second = self.shares
        plain = (1.0 - first - second) * path.plain
        if self.levels:
            levels = _interpolate(view.scale(values)) / self.unit[0]
            ahead = _run_levels(levels, np.array([len(levels) - 1]), self.autoregression[None], horizon)[0] * self.unit[0]
            plain = plain + first * view.remove_season(view.invert(ahead), path.forecast, path.plain)
        else:
            plain = plain + first * view.invert(forecast(rows, no_units(), self.autoregression, horizon))
        if second > 0.0:
            each = [forecast(rows, draw_units(seed), one, horizon) for seed, one in zip(SEEDS, self.reservoirs, strict=True)]
            plain = plain + second * view.invert(np.mean(each, axis=0))
        if self.dynamics is not None:
            learned = self.dynamics.forecast(_interpolate(view.adjust(values)), horizon)
            plain = plain + self.dynamics.share * (view.limit(learned, path.plain) - plain)
        return view.add_season(plain, path.forecast, path.plain), plain

    def mix_past(self, path: Path, values: Array) -> Array:
        """Return forecasts (n - 1,) of row 1 and later rows from those before each, by the readouts of all rows.

        ``path`` has forecasts one step ahead from each row. Learned dynamics is left out.
        """
        view, origins = _View(path, self.log), np.arange(len(values) - 1)
        rows, block = prepare(view.transform(values), self.season, self.unit), np.zeros(len(values) - 1, dtype=np.int64)
        smoothers, (first, second) = path.ahead[:, 0], self.shares

        def run(units: Units, readout: Array) -> Array:
            return _run_loops(rows, units, _states(rows, units), origins, block, readout[None], 1)

        if self.levels:
            levels = _interpolate(view.scale(values)) / self.unit[0]
            ahead = view.invert(_run_levels(levels, origins, self.autoregression[None], 1) * self.unit[0])
        else:
            ahead = view.add_season_at_origins(view.invert(run(no_units(), self.autoregression)))
        mixed = (1.0 - first - second) * smoothers + first * ahead[:, 0]
        if second > 0.0:
            each = [run(draw_units(seed), one) for seed, one in zip(SEEDS, self.reservoirs, strict=True)]
            mixed = mixed + second * view.add_season_at_origins(view.invert(np.mean(each, axis=0)))[:, 0]
        return np.asarray(mixed)


def _check_pair(name: str, pair: tuple[float, float], low: float, high: float) -> None:
    check_type(name, pair, tuple)
    if len(pair) != 2:
        raise ValueError(f"{name} must be two numbers, got {len(pair)}")
    for one in pair:
        number(name, one, low, high, "[]")


class _View(NamedTuple):
    """Transform of a series for closed loops: without the season of the smoothers, as logarithms if ``log``."""

    path: Path
    log: bool

    def adjust(self, values: Array) -> Array:
        """Return ``values`` (n,) without season."""
        return values * (self.path.level / self.path.fitted) if self.log else values - (self.path.fitted - self.path.level)

    def scale(self, values: Array) -> Array:
        """Return ``values`` (n,), or their logarithms."""
        return np.log(values) if self.log else values

    def transform(self, values: Array) -> Array:
        """Return ``values`` (n,) without season, or their logarithms."""
        return self.scale(self.adjust(values))

    def invert(self, ahead: Array) -> Array:
        """Return forecasts as levels."""
        return np.exp(ahead) if self.log else ahead

    def limit(self, ahead: Array, others: Array) -> Array:
        """Return forecasts that are at least a tenth of others, where logarithms are taken."""
        return np.maximum(ahead, 0.1 * others) if self.log else ahead

    def add_season(self, plain: Array, whole: Array, smoothers: Array) -> Array:
        """Return ``plain`` with the season of the smoothers' forecasts, which are given with and without it."""
        return plain * (whole / smoothers) if self.log else plain + (whole - smoothers)

    def remove_season(self, whole: Array, smoothers_whole: Array, smoothers: Array) -> Array:
        """Return forecasts without the season of the smoothers, as `add_season` adds it."""
        return whole * (smoothers / smoothers_whole) if self.log else whole - (smoothers_whole - smoothers)

    def add_season_at_origins(self, plain: Array) -> Array:
        """Return forecasts (O, J) of the origins with their season."""
        return self.add_season(plain, self.path.ahead, self.path.ahead_plain)


class Learned(NamedTuple):
    """Fitted loops and forecasts (O, J) of the origins by all parts, and by each part alone.

    ``gain`` is the error with reservoirs relative to that without; ``begin`` the first origin at which all parts are evaluated.
    """

    loops: Loops
    ahead: Array
    alone: dict[str, Array]
    gain: float = 1.0
    begin: int = 0


def learn(path: Path, values: Array, trial: Trial, season: int, *, log: bool, reservoirs: bool = True) -> Learned:
    """Fit readouts and their weights; ``log`` requires a positive level."""
    log = log and bool(path.level.min() > 0.0 and path.fitted.min() > 0.0 and path.ahead_plain.min() > 0.0)
    view = _View(path, log)
    rows = prepare(view.transform(values), season)
    unit = rows.unit, rows.gap_unit * rows.unit

    def fit_to_origins(units: Units) -> tuple[Array, Array]:
        readout, ahead = fit(rows, units, trial.origins, int(trial.leads[-1]))
        return readout, ahead[:, trial.leads - 1]

    readout, ahead = fit_to_origins(no_units())
    alone = {"AR": view.add_season_at_origins(view.invert(ahead))}
    raw = _interpolate(view.scale(values)) / unit[0]
    level_readout, ahead = fit_levels(raw, trial.origins, int(trial.leads[-1]))
    direct = view.invert(ahead[:, trial.leads - 1] * unit[0])
    begin = len(trial.origins) // 2  # 8 lags of levels need some rows
    later = trial.select(slice(begin, None))
    others = [weights.mean_error(one[begin:], later) for one in (alone["AR"], path.ahead)]
    levels = weights.mean_error(direct[begin:], later) < LEVELS_BETTER * min(others)
    if levels:
        alone["AR"], readout = direct, level_readout
    else:
        begin, later = 0, trial
    a = weights.share(path.ahead[begin:], alone["AR"][begin:], later, LEVELS_PRIOR if levels else AR_PRIOR)
    linear = path.ahead + a * (alone["AR"] - path.ahead)
    if not reservoirs:
        return Learned(Loops(unit, season, log, readout, np.zeros((0, 0)), (a, 0.0), None, levels), linear, alone, begin=begin)
    readouts, each = zip(*(fit_to_origins(draw_units(seed)) for seed in SEEDS), strict=True)
    alone["reservoir"] = view.add_season_at_origins(view.invert(np.mean(each, axis=0)))
    r = weights.share(linear[begin:], alone["reservoir"][begin:], later, RESERVOIR_PRIOR)
    mixed = linear + r * (alone["reservoir"] - linear)
    gain = weights.mean_error(mixed[begin:], later) / max(weights.mean_error(linear[begin:], later), 1e-300)
    loops = Loops(unit, season, log, readout, np.array(readouts), (a * (1.0 - r), r), None, levels)
    return Learned(loops, mixed, alone, gain, begin)


def learn_dynamics(found: Learned, path: Path, values: Array, trial: Trial) -> Learned | None:
    """Add learned dynamics, weighted by the later half of the origins; None where no design was found."""
    view = _View(path, found.loops.log)
    learned = dynamics.learn(_interpolate(view.adjust(values)), trial.origins, int(trial.leads[-1]))
    if learned is None:
        return None
    member, ahead, first = learned
    alone = view.add_season_at_origins(view.limit(ahead[:, trial.leads - 1], path.ahead_plain))
    later = trial.select(slice(first, None))._replace(n=trial.n // 2)
    d = weights.share(found.ahead[first:], alone[first:], later, DYNAMICS_PRIOR)
    out = found.ahead.copy()
    out[first:] += d * (alone[first:] - out[first:])
    loops = replace(found.loops, dynamics=replace(member, share=d))
    return found._replace(loops=loops, ahead=out, alone={**found.alone, "dynamics": alone}, begin=first)
