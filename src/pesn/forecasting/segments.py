"""Segments to learn from: a list in memory, or a stream that cuts and scales each run anew in every pass.

What is a sum over rows goes over all segments; what is compared or calibrated looks at a *sample* of them, which is all of them
up to 50,000 steps. It depends on the segments' sizes alone: rows in memory and the same rows in a stream have the same one.

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
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pesn._support.progress import Advance, nothing
from pesn._support.types import Array
from pesn.esn.training import StreamedRows
from pesn.esn.validation import SequenceRows
from pesn.forecasting.dataset import Scale, Segment, rows_of, segments_of, unwrapped
from pesn.forecasting.runs import Run, Runs
from pesn.forecasting.spread import Spread, spread_of_whole
from pesn.reservoir.closed_loop import Dynamics
from pesn.reservoir.sequences import Rows

__all__ = [
    "MOST_SAMPLED", "Cut", "SegmentStream", "Segments", "in_units_of", "map_segments", "sample_of", "sizes_of", "streamed_rows",
    "target_spread",
]  # fmt: skip

T = TypeVar("T")
Sizes = npt.NDArray[np.intp]

MOST_SAMPLED = 50_000  # steps by which designs, noise and calibration are chosen, however many there are to learn from
_PIECE = 5_000  # steps of a long segment that are taken together, where there are more
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)


@dataclass(frozen=True, eq=False)
class Cut:
    """How a run becomes segments: angles unwrapped, columns scaled, cut at gaps, without those of fewer steps than ``shortest``.

    ``output_std`` (m,): targets are in units of it.
    """

    angles: Sizes
    scale: Scale
    learned: Sizes
    change: bool
    shortest: int
    output_std: Array

    def scaled(self, run: Run) -> Run:
        """The run as the network sees it, with its gaps."""
        y = unwrapped(run.y, self.angles) if len(self.angles) else run.y
        return Run(*self.scale.apply(y, run.known), run.time)

    def __call__(self, run: Run) -> list[Segment]:
        """Its segments, in order."""
        y, known, _ = self.scaled(run)
        found = segments_of(y, known, [slice(0, len(y))], self.learned, self.change)
        return [s._replace(targets=s.targets / self.output_std) for s in found if len(s.z) >= self.shortest]

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
        return replace(self, cut=replace(self.cut, output_std=std))


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

    n_known = len(segments.cut.scale.x_mean)
    n_inputs = dynamics.encoding.size(dynamics.n_columns) + n_known
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
