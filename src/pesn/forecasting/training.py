"""What is learnt for a drawn reservoir from segments of rows: its readout, how it errs in one step, where a sequence starts.

>>> import numpy as np
>>> sample_of(np.array([400, 300]))                               # all of both
{0: [slice(0, 400, None)], 1: [slice(0, 300, None)]}
>>> found = sample_of(np.full(10_000, 1_000))                     # fifty whole runs, spread evenly
>>> len(found), found[0]
(50, [slice(0, 1000, None)])
>>> found = sample_of(np.array([10_000_000]))                     # pieces of one
>>> [part.stop - part.start for part in found[0]]
[5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pesn._support.progress import Advance, nothing
from pesn._support.types import Array, FloatArray, RidgeValue, Washout
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.esn.training import StreamedRows
from pesn.esn.validation import SequenceRows
from pesn.evaluation.backtest import rolling_origins
from pesn.evaluation.error_model import ErrorSums, errors_from, of_process, weight_inflation
from pesn.forecasting.context import Columns
from pesn.forecasting.dataset import Segment, Spread, rows_of, segments_of, shortest_kept, spread_of_whole
from pesn.forecasting.runs import Run, Runs
from pesn.linalg import symmetric
from pesn.readout.groups import Groups
from pesn.readout.ridge import Factor, Penalty, Readout, Sums, least_squares, parameters_used, penalties_of, solve
from pesn.reservoir.closed_loop import Dynamics, ErrorModel
from pesn.reservoir.drive import run
from pesn.reservoir.initial_state import LocalStart, Start, learn_start
from pesn.reservoir.readout_uncertainty import posterior_root
from pesn.reservoir.sequences import Rows, blocks

T = TypeVar("T")
Sizes = npt.NDArray[np.intp]

MOST_SAMPLED = 50_000  # steps by which designs, noise and calibration are chosen, however many there are to learn from
_PIECE = 5_000  # steps of a long segment that are taken together, where there are more
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)


@dataclass(frozen=True, eq=False)
class Cut:
    """Cut runs into segments without gaps: scaled, angles unwrapped, each of ``shortest`` steps at least."""

    columns: Columns
    shortest: int

    def scaled(self, run: Run) -> Run:
        """The run as the network sees it, with its gaps."""
        return Run(*self.columns.scale.apply(self.columns.unwrapped(run.y), run.known), run.time)

    def __call__(self, run: Run) -> list[Segment]:
        """Its segments, in order."""
        columns, (y, known, _) = self.columns, self.scaled(run)
        found = segments_of(y, known, [slice(0, len(y))], columns.learned, columns.target == "change")
        return [s._replace(targets=s.targets / columns.output_std) for s in found if len(s.z) >= self.shortest]

    def all_of(self, runs: Runs, sizes: list[Sizes]) -> Segments:
        """The segments of all runs, whose ``sizes`` (k,) are known by part: a list of rows in memory, else a stream."""
        if not runs.streamed:
            return [s for run in runs for s in self(run)]
        kept = [part[part >= self.shortest] for part in sizes]
        firsts = np.cumsum([0, *map(len, kept)]).tolist()
        return SegmentStream(runs, self, np.concatenate(kept), firsts)


@dataclass(frozen=True, eq=False)
class SegmentStream:
    """Segments that are cut from runs in every pass anew.

    Parameters
    ----------
    runs, cut
        Where they come from.
    sizes
        The steps of each.
    firsts
        The place of the first segment of each part of the runs.
    then
        What is done to each segment; None: nothing.
    """

    runs: Runs
    cut: Cut
    sizes: Sizes
    firsts: list[int]
    then: Callable[[Segment], Segment] | None = None

    def map(self, work: Callable[[int, Iterable[Segment], Advance], T], advance: Advance = nothing) -> Iterator[T]:
        """``work(first, segments, advance)`` of each part, ``first`` being the place of its first segment among all."""
        cut, firsts, then = self.cut, self.firsts, self.then  # a worker is sent these, and no runs

        def of_part(part: int, runs: Iterable[Run], advance: Advance) -> T:
            some = (s if then is None else then(s) for run in runs for s in cut(run))
            return work(firsts[part], _as_many(some, firsts[part + 1] - firsts[part]), advance)

        return self.runs.map(of_part, advance)

    def __iter__(self) -> Iterator[Segment]:
        return (s if self.then is None else self.then(s) for run in self.runs for s in self.cut(run))

    def with_outputs(self, std: Array) -> SegmentStream:
        """With targets in units of ``std`` (m,)."""
        return replace(self, cut=replace(self.cut, columns=self.cut.columns._replace(output_std=std)))


def _as_many(segments: Iterator[Segment], count: int) -> Iterator[Segment]:
    """The segments; a ValueError where there are more or fewer than in the first pass."""
    found = 0
    for segment in segments:
        yield segment
        found += 1
    if found != count:
        raise ValueError(
            f"y must give the same runs in every pass, got {count} segments without a gap at first and {found} later; "
            "an iterator, iter(…), is asked once"
        )


Segments = list[Segment] | SegmentStream


def in_units_of(std: Array, segments: Segments, sample: list[Segment]) -> tuple[Segments, list[Segment]]:
    """All segments and the sample of them with targets in units of ``std`` (m,)."""
    few = [s._replace(targets=s.targets / std) for s in sample]
    if isinstance(segments, SegmentStream):
        return segments.with_outputs(std), few
    whole = len(few) == len(segments) and all(len(one.z) == len(s.z) for one, s in zip(few, segments, strict=True))
    return few if whole else [s._replace(targets=s.targets / std) for s in segments], few


def sizes_of(segments: Segments) -> Sizes:
    """The steps of each."""
    return segments.sizes if isinstance(segments, SegmentStream) else np.array([len(s.z) for s in segments], np.intp)


def map_segments(
    segments: Segments, work: Callable[[int, Iterable[Segment], Advance], T], advance: Advance = nothing
) -> Iterator[T]:
    """``work(first, segments, advance)`` of each part; a list is one."""
    if isinstance(segments, SegmentStream):
        yield from segments.map(work, advance)
    else:
        yield work(0, segments, advance)


def streamed_rows(segments: SegmentStream, dynamics: Dynamics) -> StreamedRows:
    """The segments as a network takes them: what it sees of rows, and targets."""

    def of(segment: Segment) -> SequenceRows:
        return Rows(dynamics.network_rows(segment.z)), segment.targets

    def mapping(work: Callable[[int, Iterable[SequenceRows], Advance], T], advance: Advance) -> Iterator[T]:
        def of_part(first: int, some: Iterable[Segment], advance: Advance) -> T:
            return work(first, map(of, some), advance)

        return segments.map(of_part, advance)

    n_inputs = segments.cut.columns.n_inputs
    return StreamedRows(mapping, lambda: map(of, segments), segments.sizes, n_inputs, len(dynamics.learned))


def sample_of(sizes: Sizes) -> dict[int, list[slice]]:
    """Which rows of which segments are looked at where not all can be: at most :data:`MOST_SAMPLED` steps, spread over all.

    Whole segments, and pieces of 5,000 steps of long ones.
    """
    if sizes.sum() <= MOST_SAMPLED:
        return {i: [slice(0, int(size))] for i, size in enumerate(sizes)}
    counts = np.maximum(-(-sizes // _PIECE), 1)
    ends = np.cumsum(counts)
    owners = np.repeat(np.arange(len(sizes)), counts)
    places = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    first, last = (((places + k) * sizes[owners]) // counts[owners] for k in (0, 1))
    order = np.argsort((np.arange(len(owners)) * _GOLDEN) % 1.0, kind="stable")  # any part of it is spread evenly
    few = order[: max(int(np.searchsorted(np.cumsum((last - first)[order]), MOST_SAMPLED, side="right")), 1)]
    found: dict[int, list[slice]] = {}
    for k in np.sort(few):
        found.setdefault(int(owners[k]), []).append(slice(int(first[k]), int(last[k])))
    return found


class _Seen(NamedTuple):
    """Of targets how wide they are; of segments those that are looked at, each with its place."""

    spread: Spread
    sample: list[Segment]


def target_spread(segments: Segments, advance: Advance = nothing) -> tuple[Spread, list[Segment]]:
    """How wide targets are, in one pass over all segments, and the sample of them.

    Parameters
    ----------
    segments
        One at least.
    advance
        Told of the steps of each.

    Returns
    -------
    spread
        Of the targets of all segments.
    sample
        What :func:`sample_of` says, in order.
    """
    wanted = sample_of(sizes_of(segments))

    def of_part(first: int, some: Iterable[Segment], advance: Advance) -> _Seen | None:
        found, sample = None, []
        for i, s in enumerate(some, first):
            one = spread_of_whole(s.targets)
            found = one if found is None else found.merge(one)
            for rows in wanted.get(i, ()):
                whole = rows.stop - rows.start == len(s.z)
                # a copy, so that a piece does not hold all rows of its run
                sample.append(s if whole else Segment(*(part.copy() for part in rows_of(s, rows.start, rows.stop))))
            advance(len(s.z))
        return None if found is None else _Seen(found, sample)

    parts = [part for part in map_segments(segments, of_part, advance) if part is not None]
    spread = parts[0].spread
    for part in parts[1:]:
        spread = spread.merge(part.spread)
    return spread, [s for part in parts for s in part.sample]


_LEFT_OUT, _LONGEST = 5, 400  # blocks of rows, and rows of each, by which it is seen how far weights are to be trusted
_ROUNDING = 1e-12  # of y's deviation: targets that vary by less are constant


class Trained(NamedTuple):
    """What is learnt for one reservoir: the readout, how it errs, where a sequence starts, how y is measured (None: exactly).

    ``ridge``: the readout's; None: the network's own.
    """

    readout: Readout
    errors: ErrorModel
    start: Start | LocalStart
    measurement_cov: Array | None = None
    ridge: RidgeValue | None = None

    def measured_with(self, var: Array) -> Trained:
        """With errors that are the process's own, beside noise of the measurement of variances (d,)."""
        return self._replace(errors=of_process(self.errors, var), measurement_cov=np.diag(var) if var.any() else None)


def least_steps(sizes: Sizes, washout: Washout, lags: int = 0) -> int:
    """How many steps a segment must have to be learnt from, after the ``washout`` and ``lags`` rows before; ``sizes`` of all."""
    counted = isinstance(washout, Integral)
    washed = max(int(washout) if counted else 0, lags)
    shortest = shortest_kept(sizes, washed + 1 if counted else washed + 2)
    if (sizes[sizes >= shortest] - washed).sum() < 4:  # fewer leave no errors to learn from
        before = f"the {lags} lags of its features" if lags and washed == lags else f"the washout of {washout!r}"
        raise ValueError(
            f"y must have at least 5 rows in a row without gaps (with those of X) to learn from, after {before}, got fewer"
        )
    return shortest


def output_scale(targets: Spread, width: Array, one_scale: bool = False) -> Array:
    """The deviations (m,) of targets, by which they are divided; ``one_scale``: one for all of them.

    ``width`` (m,) is the deviation of the columns of y that the targets are of.
    """
    # changes of a straight line differ by rounding alone, and in units of that no weights would be finite for long
    std = np.where(targets.std > _ROUNDING * width, targets.std, 1.0)
    return np.full_like(std, np.sqrt(np.mean(np.square(std)))) if one_scale else std


class UncertainRows(NamedTuple):
    """What noise on inputs does to features and targets: means (n, p) of the features, and rows δ with Σ δ δᵀ = Σ Cov [b, y]."""

    features: Array
    features_away: Array
    targets_away: Array


def with_noise(
    features_of: Callable[[Array], Array], z: Array, dynamics: Dynamics, noise: float, rng: np.random.Generator
) -> UncertainRows:
    """Rows z (n, d + u) whose columns of y are uncertain by ``noise`` deviations, while targets lead to the rows that are there.

    A readout that knows this does not trust what small errors of its own would change: E[b bᵀ] = b̄ b̄ᵀ + Cov b. Both are of one
    draw of the noise and its mirror image, (b₊ ± b₋)/2: nothing is left between the mean and the noise, which is most of what
    one draw alone would add, and over all rows one pair is as good as many.
    """
    above, below, back = _both_sides(z, dynamics, noise, rng)
    return _of_sides(features_of(above), features_of(below), back)


def _both_sides(z: Array, dynamics: Dynamics, noise: float, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Rows moved by a draw of the noise, and by its mirror image; what it does to targets."""
    d = dynamics.n_columns
    away = noise * rng.standard_normal((len(z), d))
    above, below = (np.hstack([z[:, :d] + side * away, z[:, d:]]) for side in (1.0, -1.0))
    back = -away[:, dynamics.learned] / dynamics.scale
    return above, below, back if dynamics.change else np.zeros_like(back)


def _of_sides(above: Array, below: Array, back: Array) -> UncertainRows:
    return UncertainRows(0.5 * (above + below), 0.5 * (above - below), back)


class Driven(NamedTuple):
    """A reservoir driven by segments of rows: least squares ready for any ridge, features, and what is known of starts."""

    segments: list[Segment]
    features: list[Array]
    sums: Sums
    start: Start | LocalStart
    input_noise: float


def drive(esn: ProbabilisticESN, dynamics: Dynamics, segments: list[Segment], input_noise: float = 0.0) -> Driven:
    """A fitted network's reservoir, driven by these rows alone; its readout takes y in the inputs for uncertain by the noise."""
    reservoir, d, rng = esn.reservoir_, esn.reservoir_.n_inputs, np.random.default_rng(0)
    size = esn.features.size(d, reservoir.n_units), len(dynamics.learned)
    penalty = esn.features.penalty(esn.ridge_, d, reservoir.n_units)
    sums = Factor(*size) if input_noise else least_squares(*size, penalty, esn.readout_.groups)
    kept: list[tuple[Array, Array, int]] = []
    rows = []
    for segment in segments:

        def features_of(z: Array, targets: Array = segment.targets) -> Array:
            z = dynamics.network_rows(z)
            return esn.features(z, run(reservoir, z, feedback=targets)[0])

        b = features_of(segment.z)
        washed = max(min(esn.washout_, len(b) // 2), esn.features.lags)
        learnt = slice(washed, None)
        if washed < len(b) and isinstance(sums, Factor) and input_noise:
            mean, *away = with_noise(features_of, segment.z, dynamics, input_noise, rng)
            sums.add(mean[learnt], segment.targets[learnt]).add_covariance(*(part[learnt] for part in away))
        elif washed < len(b):
            sums.add(b[learnt], segment.targets[learnt])
        kept.append((dynamics.network_rows(segment.z), esn.features.remembered(b, d), washed))
        rows.append(b)
    start = learn_start(kept, esn.local, esn.features, size[1])
    return Driven(segments, rows, sums, start, input_noise)


def train(esn: ProbabilisticESN, dynamics: Dynamics, driven: Driven, ridge: RidgeValue) -> Trained:
    """Readout, errors and start of a fitted network's reservoir, from the rows that drove it alone."""
    penalty = esn.features.penalty(ridge, esn.reservoir_.n_inputs, esn.reservoir_.n_units)
    readout = solve(driven.sums, penalty)
    judged = _Judged(dynamics.n_columns, _left_out(sizes_of(driven.segments), esn, readout.groups))
    for i, (segment, b) in enumerate(zip(driven.segments, driven.features, strict=True)):
        e = _without_washout(esn, _errors(readout.weights, dynamics, segment, b, slice(0, len(b))))
        judged.take(i, b[len(b) - len(e) :], e, 0)
    readout, errors = judged.learn(readout, penalty, dynamics, bool(driven.input_noise))
    return Trained(readout, errors, driven.start, ridge=ridge)


def one_step_errors(
    esn: ProbabilisticESN, readout: Readout, dynamics: Dynamics, segments: Segments, advance: Advance = nothing,
    noisy: bool = False,
) -> tuple[Readout, ErrorModel]:  # fmt: skip
    """From one-step residuals of y, kinematics included; a fit leaves smaller ones than it will meet.

    ``noisy``: the readout was learnt from rows that were taken for uncertain, and its residual covariance is to be that of the
    rows as they are.
    """
    reservoir, features, washout = esn.reservoir_, esn.features, esn.washout_  # what workers are sent, and nothing larger
    weights, places = readout.weights, _left_out(sizes_of(segments), esn, readout.groups)

    def of_part(first: int, some: Iterable[Segment], advance: Advance) -> _Judged:
        judged = _Judged(dynamics.n_columns, places)
        for i, segment in enumerate(some, first):
            state, before, last = None, None, None
            washed = _washed(washout, features.lags, len(segment.z))
            for block in blocks(slice(0, len(segment.z))):
                z = dynamics.network_rows(segment.z[block])
                states, _, state = run(reservoir, z, state, feedback=segment.targets[block])
                b = features(z, states, before)
                skip = max(washed - block.start, 0)
                e = _errors(weights, dynamics, segment, b, block)[skip:]
                judged.take(i, b[skip:], e, max(block.start - washed, 0), last)
                before, last = features.after(z, before), e[-1] if len(e) else last
                advance(block.stop - block.start)
        return judged

    judged = _Judged(dynamics.n_columns, places)
    for part in map_segments(segments, of_part, advance):
        judged.merge(part)
    penalty = esn.features.penalty(esn.ridge_, reservoir.n_inputs, reservoir.n_units)
    return judged.learn(readout, penalty, dynamics, noisy)


def noise_aware(
    esn: ProbabilisticESN, dynamics: Dynamics, segments: Segments, input_noise: float, advance: Advance = nothing
) -> Readout:  # fmt: skip
    """The readout of a fitted network that takes y in its inputs for uncertain by the noise, from all rows, block by block."""
    reservoir, d, rng = esn.reservoir_, esn.reservoir_.n_inputs, np.random.default_rng(0)
    sums = Factor(esn.features.size(d, reservoir.n_units), len(dynamics.learned))
    for segment in segments:  # one after the other: each draw of the noise follows the one before it
        carried: list[tuple[Any, Any]] = [(None, None), (None, None)]  # state and earlier rows on both sides
        washed = max(min(esn.washout_, len(segment.z) // 2), esn.features.lags)
        for block in blocks(slice(0, len(segment.z))):
            *sides, back = _both_sides(segment.z[block], dynamics, input_noise, rng)
            features = []
            for side, z in enumerate(map(dynamics.network_rows, sides)):
                state, before = carried[side]
                states, _, state = run(reservoir, z, state, feedback=segment.targets[block])
                features.append(esn.features(z, states, before))
                carried[side] = state, esn.features.after(z, before)
            mean, *away = _of_sides(features[0], features[1], back)
            learnt = slice(max(washed - block.start, 0), None)
            if len(mean[learnt]):
                sums.add(mean[learnt], segment.targets[block][learnt]).add_covariance(*(part[learnt] for part in away))
        advance(len(segment.z))
    return solve(sums, esn.features.penalty(esn.ridge_, d, reservoir.n_units))


class _Place(NamedTuple):
    """Rows of a segment, without its washout, that are left out."""

    segment: int
    rows: slice


def _left_out(sizes: Sizes, esn: ProbabilisticESN, groups: Groups | None) -> list[_Place]:
    """Blocks of rows that are left out to see what weights do without them: five of all rows, each of 400 at most.

    ``sizes`` (k,) of all segments. Of ``groups`` that share their weights a row is as many as there are groups. At least one of
    each segment, and of all ten at most.
    """
    longest = _LONGEST if groups is None or not groups.shared else max(_LONGEST // groups.n_groups, 1)
    rows = np.maximum(sizes - np.maximum(np.minimum(esn.washout_, sizes - 1), esn.features.lags), 0)
    counts = np.minimum(np.maximum(np.round(_LEFT_OUT * rows / rows.sum()).astype(np.intp), 1), rows)
    ends, found = np.cumsum(counts), []
    for k in rolling_origins(0, int(ends[-1]) - 1, 2 * _LEFT_OUT):
        i = int(np.searchsorted(ends, k, side="right"))
        part = np.array_split(np.arange(rows[i]), counts[i])[k - (ends[i] - counts[i])]
        spare = max(len(part) - longest, 0) // 2
        found.append(_Place(i, slice(int(part[0]) + spare, int(part[-1]) + 1 - spare)))
    return found


class _Judged:
    """What residuals say, added up over all rows, with features and residuals of the rows that are left out."""

    def __init__(self, n_columns: int, places: list[_Place]) -> None:
        self.sums, self.places = ErrorSums(n_columns), places
        self.kept: list[list[tuple[Array, Array]]] = [[] for _ in places]

    def take(self, segment: int, features: Array, e: Array, first: int, before: Array | None = None) -> None:
        """Features and residuals of rows of a segment from ``first`` on, which ``before`` (d,) is the residual before."""
        self.sums.add(e, before)
        for (i, rows), into in zip(self.places, self.kept, strict=True):
            part = slice(max(rows.start - first, 0), max(rows.stop - first, 0))
            if i == segment and len(e[part]):
                into.append((features[part].copy(), e[part]))

    def merge(self, other: _Judged) -> None:
        """Add what was seen in another part."""
        self.sums.merge(other.sums)
        for into, more in zip(self.kept, other.kept, strict=True):
            into += more

    def learn(self, readout: Readout, penalty: Penalty, dynamics: Dynamics, noisy: bool) -> tuple[Readout, ErrorModel]:
        """The readout, and how it errs, with what the left-out rows say about its weights."""
        learned, scale, sums = dynamics.learned, dynamics.scale, self.sums
        if noisy:  # R is of the rows as they are
            used = min(parameters_used(readout, penalty), 0.9 * readout.n_samples)
            left = sums.count * (1.0 - used / readout.n_samples)
            wrong = sums.square[np.ix_(learned, learned)] / (scale[:, None] * scale)
            readout = readout._replace(residual_cov=symmetric(wrong) / left)
        errors = _learn(readout, dynamics, sums)
        found = [
            (np.concatenate([b for b, _ in parts]), np.concatenate([e for _, e in parts])[:, learned] / scale)
            for parts in self.kept
        ]
        var = np.diagonal(errors.cov)[learned] / np.square(scale)
        whole = np.asarray(readout.n_samples * penalties_of(penalty, readout.weights.shape[1]), float)
        weights = np.ones(len(errors.cov))
        weights[learned] = _weight_inflation(found, readout, posterior_root(readout, whole, var), var)
        return readout, errors._replace(weights=weights)


def _weight_inflation(blocks: list[tuple[Array, Array]], readout: Readout, posterior: Array, var: Array) -> Array:
    """By how much more errors of the weights vary (m,) than R A⁻¹ says; of groups, in each regression by itself."""
    groups, S = readout.groups, np.asarray(readout.covariance_root, float)
    if groups is None:
        return weight_inflation(blocks, S, posterior, var)
    found, count = np.ones(len(var)), 1 if groups.shared else groups.n_groups
    rows = [groups.rows(*block) for block in blocks]
    roots, posteriors = (root.reshape(count, *root.shape[-2:]) for root in (S, posterior))
    each = groups.own_values(var).reshape(count, -1)
    for g in range(count):
        own = weight_inflation([one[g] for one in rows], roots[g], posteriors[g], each[g])
        found[groups.outputs if groups.shared else groups.outputs[g]] = own
    return found


def _errors(weights: FloatArray, dynamics: Dynamics, segment: Segment, b: Array, block: slice) -> Array:
    """Errors of one step (n, d) in a block of a segment's rows, from the features (n, p) there."""
    wrong = segment.targets[block] - b @ weights.T
    return dynamics.errors(wrong, segment.y[block.start : block.stop + 1])


def _learn(readout: Readout, dynamics: Dynamics, sums: ErrorSums) -> ErrorModel:
    """From sums over the residuals of segments, without their washout."""
    inside = sums.var[dynamics.learned]
    outside = np.diagonal(readout.residual_cov) * dynamics.scale**2
    ratio = np.divide(outside, inside, out=np.ones_like(inside), where=inside > _ROUNDING**2)  # rounding has no ratio
    # of two columns the lower: one that is an exact function of others has residuals of rounding, and their ratio says nothing
    return errors_from(sums, float(max(np.quantile(ratio, 0.5, method="lower"), 1.0)))


def _without_washout(esn: ProbabilisticESN, e: Array) -> Array:
    """Errors (n, d) of a segment without those before its units have settled."""
    return e[_washed(esn.washout_, esn.features.lags, len(e)) :]


def _washed(washout: int, lags: int, size: int) -> int:
    """Rows of a segment before its units have settled."""
    return max(min(washout, size - 1), lags)
