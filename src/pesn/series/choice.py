"""Seasons, members, shares and widths of one series, all by its own rolling origins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pesn._support.arguments import number
from pesn._support.records import check_type
from pesn._support.types import AnyArray, Array
from pesn.series.members import closed_loops, dynamics, inputs, seasonality, smoothing, weights
from pesn.series.members import smoothing_kernel as kernel
from pesn.series.members.closed_loops import Course, season_of

__all__ = ["Chosen", "Member", "choose", "describe_change", "plain"]

FEWEST = 8  # observed rows for rolling origins
POSITIVE = 1e-100  # of the largest number: what is smaller counts as zero
EXPONENTIAL = 0.25  # of the others' error, for trends of the logarithm to be taken: they are as often far too steep
WORSE = 0.5  # of the error without: shares that win at short leads alone, and lose far more at long ones, are not taken
INPUTS_GAIN = 0.99  # of the error without, for inputs to be kept


@dataclass(frozen=True, eq=False)
class Member:
    """One line of the summary.

    Attributes
    ----------
    kind : "SES", "theta", "damped", "Holt", "momentum", "naive", "AR", "reservoir" or "dynamics".
    detail : its parameters, in words.
    weight : share of the forecast; all add up to 1.
    score : rolling-origin error over the best member's.
    """

    kind: str
    detail: str
    weight: float
    score: float

    def check(self, name: str) -> None:
        """Raise a ValueError unless it is a line of texts and numbers."""
        check_type(f"{name}.kind", self.kind, str)
        check_type(f"{name}.detail", self.detail, str)
        number(f"{name}.weight", self.weight, 0.0, np.inf, "[)")
        number(f"{name}.score", self.score, 0.0, np.inf, "[]")


@dataclass(frozen=True, eq=False)
class Chosen:
    """What `choose` found; see `pesn.series.univariate.UnivariateModel`."""

    seasons: tuple[int, ...]
    strengths: tuple[float, ...]
    members: tuple[Member, ...]
    shares: Mapping[str, float]
    notes: tuple[str, ...]
    stack: smoothing.Grid
    weight: Array
    first: Array
    loops: closed_loops.Loops | None
    effects: inputs.Effects
    widths: weights.Widths


@dataclass(frozen=True, eq=False)
class _Judged:
    """The smoothers on one series: scores (K,) of all, and which are kept with what weight.

    ``errors`` (M, J) and ``counts`` (J,) are what scores are made of, those of smoothers that were left out included.
    """

    everyone: smoothing.Grid
    score: Array
    kept: AnyArray
    weight: Array
    errors: Array
    counts: AnyArray
    positive: bool


@dataclass(frozen=True, eq=False)
class _Beside:
    """Components beside the smoothers.

    Attributes
    ----------
    loops : autoregression and reservoirs, None where there are none.
    ahead : (O, J), forecasts of the origins by all components. begin : the first origin that judged all of them.
    alone : forecasts (O, J) of each component by itself, by its name. notes : why, a sentence each.
    """

    loops: closed_loops.Loops | None
    ahead: Array
    begin: int = 0
    alone: Mapping[str, Array] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def choose(
    values: Array, x: Array, horizon: int, candidates: Sequence[int], *, tested: bool, positive: bool, parts: Sequence[str]
) -> Chosen:
    """For ``values`` (n,) in units of their scale; see `pesn.series.univariate.fit`."""
    n = int(np.sum(~np.isnan(values)))
    if n < FEWEST:
        return _short(values, x.shape[1], positive)
    found = seasonality.find(values, candidates, log=positive, tested=tested)
    leads, origins = weights.steps(horizon), weights.origins(len(values), found.periods)
    effects, notes = _effects(values, x, found.periods, origins, leads, positive)
    base = effects.off(values, x)
    if effects.any:
        found = seasonality.find(base, candidates, log=positive, tested=tested)
    rows = smoothing.prepare(base, found.periods, positive=positive)
    season = season_of(rows.first[kernel.LOG if positive else kernel.ADDITIVE], found.periods, len(values))
    clean = seasonality.cleaned(base, log=positive, season=season)
    if clean is not base:
        notes += (f"spikes: {int(np.sum(clean != base) - np.sum(np.isnan(base)))} rows put back to their neighbours",)
        rows = smoothing.prepare(clean, found.periods, positive=positive)
    judged = _judge(rows, origins, leads, n, seasonal=bool(found.periods), positive=positive)
    stack = judged.everyone.taken(judged.kept)
    path = smoothing.path(rows, stack, judged.weight, origins, leads, 1)
    truth = _truth(clean, origins, leads)
    lag = found.periods[0] if found.periods else 0
    beside = _loops(path, clean, truth, origins, leads, lag, n, positive=positive, parts=parts)
    shares, used = _shares(beside.loops), _used(stack, judged.weight, found.periods)
    begin = beside.begin
    width = weights.learn(beside.ahead[begin:], truth[begin:], leads, n, used, positive=positive, least=_least(clean))
    own = _own_scores(rows, judged, beside, truth, origins, leads)
    return Chosen(
        found.periods, found.strengths, _members(judged, stack, found.periods, shares, beside.loops, own), shares,
        notes + beside.notes, stack, judged.weight, rows.first, beside.loops, effects, width,
    )  # fmt: skip


def _truth(values: Array, origins: AnyArray, leads: AnyArray) -> Array:
    """What came after each origin, (O, J)."""
    at = origins[:, None] + leads
    return np.where(at < len(values), values[np.minimum(at, len(values) - 1)], np.nan)


def _judge(rows: smoothing.Rows, origins: AnyArray, leads: AnyArray, n: int, *, seasonal: bool, positive: bool) -> _Judged:
    everyone = smoothing.grid(seasonal, positive)
    errors, counts = smoothing.rolling_errors(rows, everyone, origins, leads)
    score = weights.scores(errors, counts, leads)
    logs = everyone.kinds[:, 1] == kernel.LOG
    if logs.any() and score[logs].min() > EXPONENTIAL * score[~logs].min():
        everyone, score = everyone.taken(np.flatnonzero(~logs)), score[~logs]
    kept, weight = weights.stacked(score, everyone.prior, n)
    return _Judged(everyone, score, kept, weight, errors, counts, positive)


def _effects(
    values: Array, x: Array, periods: Sequence[int], origins: AnyArray, leads: AnyArray, positive: bool
) -> tuple[inputs.Effects, tuple[str, ...]]:
    """Inputs, if forecasts are better with what the first half of the rows says of them."""
    nothing = inputs.none(x.shape[1])
    if x.shape[1] == 0:
        return nothing, ()
    half = len(values) // 2
    later = origins[origins >= half]
    plain = smoothing.prepare(values, periods, positive=positive)
    season = season_of(plain.first[kernel.LOG if positive else kernel.ADDITIVE], periods, len(values))
    early = inputs.learn(values[: half + 1], x[: half + 1], season[: half + 1], log=positive)
    if not early.any:
        return nothing, (f"inputs: not used, no effect was found in the first {half} rows",)
    if len(later) < 3:
        return nothing, (f"inputs: not used, {len(later)} rolling origins are too few to judge them by",)
    truth = _truth(values, later, leads)

    def error(effects: inputs.Effects) -> float:
        rows = smoothing.prepare(effects.off(values, x), periods, positive=positive)
        n = int(np.sum(~np.isnan(values)))
        judged = _judge(rows, later, leads, n, seasonal=bool(periods), positive=positive)
        ahead = smoothing.path(rows, judged.everyone.taken(judged.kept), judged.weight, later, leads, 1).ahead
        at = np.minimum(later[:, None] + leads, len(values) - 1)
        off = np.abs(truth - effects.on(ahead.ravel(), x[at.ravel()]).reshape(ahead.shape))
        return float(np.nanmean(off[:, 0]) + np.nanmean(off))

    ratio = error(early) / max(error(nothing), 1e-300)
    if ratio > INPUTS_GAIN:
        return nothing, (f"inputs: not used, rolling-origin error {describe_change(ratio - 1.0)} with them",)
    return inputs.learn(values, x, season, log=positive), (
        f"inputs: kept, rolling-origin error {describe_change(ratio - 1.0)} with them",
    )


def _loops(
    path: smoothing.Path,
    values: Array,
    truth: Array,
    origins: AnyArray,
    leads: AnyArray,
    season: int,
    n: int,
    *,
    positive: bool,
    parts: Sequence[str],
) -> _Beside:
    """Learn the components beside the smoothers, and which of them are taken."""
    ahead = path.ahead
    if "AR" not in parts:
        return _Beside(None, ahead)
    if n < closed_loops.FEWER:
        return _Beside(None, ahead, notes=(f"AR and reservoir: not tried below {closed_loops.FEWER} numbers",))
    many = n >= closed_loops.ROWS
    loops, mixed, nonlinear, alone = closed_loops.learn(
        path, values, truth, origins, leads, season, log=positive, n=n, reservoirs=many and "reservoir" in parts
    )
    change = _change(mixed, ahead, truth)
    if not many and change > closed_loops.FAR_BETTER - 1.0:
        bar = f"below {closed_loops.ROWS} numbers it has to be {100.0 * (1.0 - closed_loops.FAR_BETTER):.0f} % lower"
        return _Beside(None, ahead, notes=(f"AR: not taken, rolling-origin error {describe_change(change)} with it; {bar}",))
    name = " and ".join(alone)
    if "dynamics" in parts and (n < dynamics.ROWS or nonlinear > dynamics.GAIN) and change > WORSE:
        return _Beside(None, ahead, notes=(f"{name}: not taken, rolling-origin error {describe_change(change)} with it",))
    notes = (_why_taken(name, loops, change),)
    if "dynamics" not in parts:
        return _Beside(loops, mixed, 0, alone, notes)
    if n < dynamics.ROWS or nonlinear > dynamics.GAIN:
        reason = f" below {dynamics.ROWS} numbers" if n < dynamics.ROWS else ", reservoirs are not far better than AR"
        return _Beside(loops, mixed, 0, alone, (*notes, f"dynamics: not tried{reason}"))
    loops, ahead, begin, own = closed_loops.with_dynamics(loops, path, values, mixed, truth, origins, leads, n)
    if own is None:
        return _Beside(loops, ahead, begin, alone, (*notes, "dynamics: tried, but no network was found"))
    change = _change(ahead[begin:], mixed[begin:], truth[begin:])
    why = f"dynamics: tried, as reservoirs are far better than AR; rolling-origin error {describe_change(change)} with it"
    return _Beside(loops, ahead, begin, {**alone, "dynamics": own}, (*notes, why))


def _why_taken(name: str, loops: closed_loops.Loops, change: float) -> str:
    """Say what weight components have. It is a posterior mean: the prior counts where errors differ by little."""
    first = weights.expected_share(closed_loops.AR_PRIOR)
    second = weights.expected_share(closed_loops.RESERVOIR_PRIOR) if "reservoir" in name else 0.0
    prior, weight = 1.0 - (1.0 - first) * (1.0 - second), sum(loops.shares)
    beside = f"{100.0 * weight:.0f} % beside the smoothers, a priori {100.0 * prior:.0f} %"
    return f"{name}: {beside}; rolling-origin error {describe_change(change)} than without"


def _change(ahead: Array, before: Array, truth: Array) -> float:
    """Of the mean absolute error, as a share of what it was."""
    return closed_loops.error(ahead, truth) / max(closed_loops.error(before, truth), 1e-300) - 1.0


def describe_change(change: float) -> str:
    """Return a relative change of an error in words.

    >>> [describe_change(change) for change in (0.03, -0.25, -0.9999, 0.001, 0.0)]
    ['3 % higher', '25 % lower', 'more than 99 % lower', 'less than 1 % higher', 'no higher']
    """
    if change == 0.0:
        return "no higher"
    size = 100.0 * abs(change)
    text = "less than 1" if size < 0.5 else "more than 99" if change < -0.99 else f"{size:.0f}"
    return f"{text} % {'higher' if change > 0.0 else 'lower'}"


def _shares(loops: closed_loops.Loops | None) -> dict[str, float]:
    """Of each part in the forecast."""
    if loops is None:
        return {"statistical": 1.0}
    d = 0.0 if loops.dynamics is None else loops.dynamics.share
    a, r = loops.shares
    shares = {"statistical": (1.0 - d) * (1.0 - a - r), "AR": (1.0 - d) * a, "reservoir": (1.0 - d) * r}
    return shares if loops.dynamics is None else {**shares, "dynamics": d}


def _own_scores(
    rows: smoothing.Rows, judged: _Judged, beside: _Beside, truth: Array, origins: AnyArray, leads: AnyArray
) -> dict[str, float]:
    """Score each component by itself, as smoothers are scored; dynamics over the origins that it is judged by."""
    scored = {}
    for kind, ahead in beside.alone.items():
        begin = beside.begin if kind == "dynamics" else 0
        errors, counts = judged.errors, judged.counts
        if begin:
            every = smoothing.grid(bool(rows.periods), judged.positive)
            errors, counts = smoothing.rolling_errors(rows, every, origins[begin:], leads)
        own = np.nansum(np.abs(truth[begin:] - ahead[begin:]), axis=0) / np.maximum(counts, 1)
        scored[kind] = float(weights.scores(own[None], counts, leads, errors)[0])
    return scored


def _members(
    judged: _Judged,
    stack: smoothing.Grid,
    periods: Sequence[int],
    shares: Mapping[str, float],
    loops: closed_loops.Loops | None,
    own: Mapping[str, float],
) -> tuple[Member, ...]:
    best = max(min(float(judged.score.min()), *(own[kind] for kind in own if shares.get(kind, 0.0) > 0.0), np.inf), 1e-300)
    out = [
        Member(
            name,
            stack.detail(k, periods),
            float(judged.weight[k]) * shares["statistical"],
            float(judged.score[judged.kept[k]]) / best,
        )
        for k, name in enumerate(stack.names)
    ]
    details = {"AR": "5 lags, gap to a moving average", "reservoir": "3 of 50 units", "dynamics": ""}
    if loops is not None and loops.dynamics is not None:
        details["dynamics"] = loops.dynamics.detail
    out += [
        Member(kind, details[kind], share, own[kind] / best) for kind, share in shares.items() if kind in details and share > 0.0
    ]
    return tuple(sorted(out, key=lambda member: -member.weight))


def _least(values: Array) -> float:
    """A width below which no interval goes: a millionth of the usual number, as no series is exact for ever."""
    return 1e-6 * float(np.nanmean(np.abs(values))) or 1e-6


def _used(stack: smoothing.Grid, weight: Array, periods: Sequence[int]) -> float:
    """Degrees of freedom: parameters of the members, and the phases of the seasons."""
    trend = float(weight @ (stack.kinds[:, 0] > 0))
    return 1.0 + 1.5 * trend + 0.5 * sum(min(m - 1, 8) for m in periods)


def _naive() -> smoothing.Grid:
    return smoothing.Grid(np.array([[1.0, 0.0, 1.0, 0.0]]), np.zeros((1, 2), dtype=np.int64), ("naive",), np.ones(1))


def plain(values: Array, horizon: int) -> Course:
    """The last number goes on."""
    rows = smoothing.prepare(values, (), positive=False)
    none = np.zeros(0, dtype=np.int64)
    path = smoothing.path(rows, _naive(), np.ones(1), none, none, horizon)
    level = np.concatenate([path.level, path.plain])
    return Course(level, 0.0 * level, 0.0 * level, path.forecast)


def _short(values: Array, u: int, positive: bool) -> Chosen:
    """Fewer rows than can be judged: the last number goes on, with wide intervals."""
    seen = values[~np.isnan(values)]
    changes = np.diff(seen)
    usual = float(np.mean(np.abs(seen))) or 1.0
    # as if two more changes of a fifth of the level had been seen
    spread = np.sqrt((np.sum(changes**2) + 2.0 * (0.2 * usual) ** 2) / (len(changes) + 2.0))
    width = weights.Widths(np.array([1]), np.array([spread / usual if positive else spread]), 0.5, 4.0, positive)
    note = f"below {FEWEST} numbers the last one goes on"
    return Chosen(
        (), (), (Member("naive", "the last number", 1.0, 1.0),), {"statistical": 1.0}, (note,), _naive(), np.ones(1),
        np.zeros((3, 0)), None, inputs.none(u), width,
    )  # fmt: skip
