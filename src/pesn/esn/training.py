"""How a network learns in the one pass of ``fit``.

It takes a ``drive``: the reservoir over a block of rows, the true outputs fed back (teacher forcing). It is all in which the
passes of the two networks differ.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from pesn._support.progress import Advance, Steps, nothing
from pesn._support.types import RandomState, Ridge, RidgeValue, Rng
from pesn.activations import get
from pesn.esn.validation import SequenceRows, TrainingRows
from pesn.evaluation.calibration import find_washout, search_open_loop
from pesn.readout.features import Features
from pesn.readout.groups import Patches
from pesn.readout.ridge import Readout, Sums, choose_ridge, least_squares, solve
from pesn.reservoir.drive import State, read
from pesn.reservoir.initial_state import MOST_FEATURES, MOST_LAGS, LocalStart, Start
from pesn.reservoir.open_loop import OpenLoop
from pesn.reservoir.sequences import Array, blocks, check_longer_than_washout
from pesn.reservoir.weights import Reservoir, draw_layers, repeat, without_units
from pesn.statespace.cell import ActivationMoments

if TYPE_CHECKING:
    from pesn.esn.base import ReservoirEstimator
    from pesn.esn.classifier import ReservoirClassifier
    from pesn.esn.probabilistic import ProbabilisticESN


T = TypeVar("T")


class Mapping(Protocol):
    """What goes over all sequences in parts."""

    def __call__(self, work: Callable[[int, Iterable[SequenceRows], Advance], T], advance: Advance) -> Iterator[T]:
        """``work(first, sequences, advance)`` of each part, in order, ``first`` being the place of its first sequence."""


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """Sequences that come one by one; :class:`pesn.esn.validation.TrainingRows` are the same in memory.

    Parameters
    ----------
    mapping
        Goes over all of them in parts.
    reading
        Goes over all of them in order.
    sizes
        The rows of each, (k,).
    n_inputs, n_outputs
        d and m.
    """

    mapping: Mapping
    reading: Callable[[], Iterator[SequenceRows]]
    sizes: npt.NDArray[np.intp]
    n_inputs: int
    n_outputs: int
    flat: bool = False

    @property
    def n_rows(self) -> int:
        """Of all sequences."""
        return int(self.sizes.sum())

    @property
    def shortest(self) -> int:
        """Rows of the shortest of the sequences."""
        return int(self.sizes.min())

    @property
    def sequences(self) -> list[slice]:
        """Where each sequence would be if all were stacked."""
        ends = np.cumsum(self.sizes).tolist()
        return [slice(end - size, end) for end, size in zip(ends, self.sizes.tolist(), strict=True)]

    def of_longest(self, most: int | None = None) -> tuple[Array, Array]:
        """Inputs and targets of the longest of the sequences, of its first ``most`` rows: all before it are read."""
        wanted = int(np.argmax(self.sizes))
        rows, targets = next(one for i, one in enumerate(self.reading()) if i == wanted)
        part = slice(0, len(targets) if most is None else most)
        return rows.take(part)[0], targets[part]

    def map(self, work: Callable[[int, Iterable[SequenceRows], Advance], T], advance: Advance = nothing) -> Iterator[T]:
        """``work(first, sequences, advance)`` of each part, in order."""
        return self.mapping(work, advance)


Drive = Callable[[Array, Array | None, State, Array], tuple[Array, State]]
"""(inputs (n, d), their variances or None, state, true outputs (n, m)) → (features (n, p), state after them)."""

_FOLDS = 5  # of the rows, where a ridge is chosen by them
_TRIAL = 2000  # rows from which washout="auto" is found
_ROWS = 6  # kept for each column of the start's regression
_PIECE = 64  # rows of a long series that are kept together
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)


def deterministic(reservoir: Reservoir, features: Features, noise: float = 0.0, rng: Rng = None) -> Drive:
    """A network of certain states; ``rng`` draws the ``noise`` that is added to them."""

    def drive(z: Array, _: Array | None, state: State, targets: Array) -> tuple[Array, State]:
        rows, states, _, state = read(features, reservoir, z, state, feedback=targets, noise=noise, rng=rng)
        return np.hstack([np.ones((len(z), 1)), rows, states]), state

    return drive


def in_threads(
    drive: Callable[[slice, State], State], starts: Iterable[tuple[slice, State]], parallel: bool = True
) -> list[State]:
    """Drive each sequence from its state, several in parallel: the kernels hold no lock. Where each has stopped, in order."""
    starts = list(starts)
    if len(starts) == 1 or not parallel:
        return [drive(*start) for start in starts]
    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as pool:
        return list(pool.map(drive, *zip(*starts, strict=True)))


def generator(random_state: RandomState) -> np.random.Generator:
    """What a call draws from; an integer always gives the same numbers, a RandomState is moved on."""
    try:
        whole = isinstance(random_state, Integral)
        return np.random.default_rng(random_state if whole else check_random_state(random_state).randint(2**31 - 1))
    except (TypeError, ValueError):
        expected = "None, a whole number, 0 or more, or a RandomState"
        raise ValueError(f"random_state must be {expected}, got {random_state!r}") from None


def draw_reservoir(
    esn: ReservoirEstimator | ReservoirClassifier, n_inputs: int, n_outputs: int, rng: np.random.Generator,
    local: Patches | None = None,
) -> Reservoir:  # fmt: skip
    """The reservoir that a network's parameters ask for; one of no units where the readout does not see them."""
    if local is not None:
        local.check_field(n_inputs, n_outputs)
    if not esn.features.states:
        return without_units(n_inputs, n_outputs)
    sizes = n_inputs, n_outputs
    if local is not None:  # of a patch
        sizes = int(local.windows(n_outputs, n_inputs).shape[1]), local.size
    reservoir = draw_layers(
        esn.layers,
        *sizes,
        memory=esn.memory,
        n_units=esn.n_units,
        spectral_radius=esn.spectral_radius,
        leak_rate=esn.leak_rate,
        density=esn.density,
        input_scaling=esn.input_scaling,
        feedback_scaling=esn.feedback_scaling,
        bias_scaling=esn.bias_scaling,
        topology=esn.topology,
        activation=esn.activation,
        rng=rng,
    )
    return reservoir if local is None else repeat(reservoir, local, n_inputs, n_outputs)


def washout_rows(esn: ReservoirEstimator, given: TrainingRows | StreamedRows | None, steps: Steps) -> int:
    """The number of rows; "auto" finds it on the first rows of the longest sequence, never more than half of the shortest.

    Rows without a past, as many as the features have lags, are always among them.
    """
    reservoir, features = esn.reservoir_, esn.features
    if esn.washout != "auto":
        return max(int(esn.washout), features.lags)
    if given is None:
        raise ValueError("washout must be a number where there are no rows yet, got 'auto'; or call fit or partial_fit first")
    with steps.step("finding the washout"):
        units = ActivationMoments(get(reservoir.activation))
        penalty = features.penalty(plain_ridge(esn.ridge), reservoir.n_inputs, reservoir.n_units)
        found = find_washout(reservoir, units, *given.of_longest(_TRIAL), penalty, features=features, groups=esn.groups)
    return max(int(min(found, given.shortest // 2)), features.lags)


# ---------------------------------------------------------------- in one pass


def fit_readout(
    esn: ReservoirEstimator, drive: Drive, given: TrainingRows | StreamedRows, steps: Steps, kept: RowsForStart | None = None
) -> tuple[Readout, State, RidgeValue]:  # fmt: skip
    """The ridge regression of the targets on what the readout sees, the state after the last row, and the ridge.

    Parameters
    ----------
    esn : ReservoirEstimator
        The network, whose reservoir and washout are known. A ridge "auto" is the one that predicts each fifth of the rows best
        from the others.
    drive : callable
        How blocks of rows are driven.
    given : TrainingRows or StreamedRows
        The rows. Sums of parts that were gone through apart, by workers of a cluster, are merged.
    steps : Steps
        Where "driving the reservoir" and "least squares" are announced.
    kept : RowsForStart, optional
        Picks rows for the start's regression on the way.
    """
    reservoir, features, ridge, groups = esn.reservoir_, esn.features, esn.ridge, esn.groups
    check_longer_than_washout(given.sequences, esn.washout_, features.lags)
    penalty = 0.0 if isinstance(ridge, str) else features.penalty(ridge, reservoir.n_inputs, reservoir.n_units)
    size = features.size(reservoir.n_inputs, reservoir.n_units), reservoir.n_outputs

    def empty() -> Sums:
        return least_squares(*size, penalty, groups)

    work = _Pass(drive, empty, _FOLDS if isinstance(ridge, str) else 1, esn.initial(), esn.washout_, given.sizes, kept)
    total: _Part | None = None
    with steps.step("driving the reservoir", given.n_rows, "rows") as advance:
        for part in given.map(work, advance):
            total = part if total is None else total.merge(part)
    assert total is not None and total.state is not None  # noqa: PT018  # there is a row at least
    if kept is not None:
        kept.pieces += total.pieces
    with steps.step("least squares"):
        sums = total.sums[0]
        if isinstance(ridge, str):
            ridge = penalty = choose_ridge([fold for fold in total.sums if fold.n_samples])  # type: ignore[misc]  # factors, as a penalty of 0 asks for
            sums = least_squares(*size, 0.0, groups)
            for fold in total.sums:
                sums.merge(fold)  # type: ignore[arg-type]  # of one kind
        return solve(sums, penalty), total.state, plain_ridge(ridge)


@dataclass(frozen=True, eq=False)
class _Pass:
    """One pass over a part of the sequences, each of which begins at ``start``."""

    drive: Drive
    empty: Callable[[], Sums]
    folds: int
    start: State
    washout: int
    sizes: npt.NDArray[np.intp]
    kept: RowsForStart | None

    def __call__(self, first: int, some: Iterable[SequenceRows], advance: Advance) -> _Part:
        sums, state = [self.empty() for _ in range(self.folds)], None
        firsts = np.cumsum(self.sizes) - self.sizes
        picked = None if self.kept is None else self.kept.after(self.sizes[:first], self.washout)
        for i, (rows, targets) in enumerate(some, first):
            state = self.start
            for block in blocks(slice(0, len(targets))):
                b, state = self.drive(*rows.take(block), state, targets[block])
                washed = max(self.washout - block.start, 0)
                place = slice(int(firsts[i]) + block.start, int(firsts[i]) + block.stop)
                for into, part in _by_fold(sums, place, int(self.sizes.sum())):
                    learnt = slice(max(part.start, washed), part.stop)
                    into.add(b[learnt], targets[block][learnt])
                if picked is not None:
                    picked(b, washed)
                advance(block.stop - block.start)
        return _Part(sums, state, [] if picked is None else picked.pieces)


class _Part(NamedTuple):
    """What a part of the rows adds: sums, of each fold where a ridge is chosen; the state after it; rows for the start."""

    sums: list[Sums]
    state: State | None
    pieces: list[tuple[Array, Array, int]]

    def merge(self, other: _Part) -> _Part:
        """With the part after it."""
        if other.state is None:  # a part without rows
            return self
        for into, more in zip(self.sums, other.sums, strict=True):
            into.merge(more)  # type: ignore[arg-type]  # of one kind
        return _Part(self.sums, other.state, self.pieces + other.pieces)


def plain_ridge(ridge: Ridge) -> RidgeValue:
    """A number or a pair of them, as Python's own; 1e-6 where it is "auto" and there are no rows to choose it by."""
    if isinstance(ridge, str):
        return 1e-6
    return (float(ridge[0]), float(ridge[1])) if isinstance(ridge, tuple) else float(ridge)


def _by_fold(folds: list[Sums], block: slice, n_rows: int) -> Iterator[tuple[Sums, slice]]:
    """The rows of a block that each of the contiguous folds of all rows takes."""
    edges = [-(-k * n_rows // len(folds)) for k in range(len(folds) + 1)]
    for fold, first, last in zip(folds, edges, edges[1:], strict=False):
        if max(first, block.start) < min(last, block.stop):
            yield fold, slice(max(first - block.start, 0), min(last, block.stop) - block.start)


class RowsForStart:
    """Rows for the start's regression, picked on the way: all, or pieces spread over a long series, as many as it needs."""

    def __init__(self, esn: ReservoirEstimator, n_rows: int) -> None:
        self.features, self.n_inputs = esn.features, esn.reservoir_.n_inputs
        needed = esn.features.n_earlier(self.n_inputs) + esn.reservoir_.n_units
        if esn.groups is not None:  # each row is one of every patch
            needed, n_rows = esn.groups.n_features, n_rows * esn.groups.n_groups
        self.share = _ROWS * (MOST_FEATURES + needed) / n_rows
        self.pieces: list[tuple[Array, Array, int]] = []  # as :func:`pesn.reservoir.initial_state.learn` takes them
        self.seen = 0

    def after(self, sizes: npt.NDArray[np.intp], washout: int) -> RowsForStart:
        """One that has picked nothing yet and goes on as if it had seen sequences of these ``sizes`` (k,)."""
        found = copy.copy(self)
        found.pieces, found.seen = [], 0
        if self.share < 1.0:  # else all are picked, whatever their number
            for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
                left = (max(block.stop - max(washout, block.start), 0) for block in blocks(slice(0, int(size))))
                found.seen += int(count) * sum(-(-rows // _PIECE) for rows in left)
        return found

    def __call__(self, b: Array, washed: int) -> None:
        """Look at the features (n, p) of a block whose first rows are ``washed`` out."""
        d = self.n_inputs
        for piece in blocks(slice(washed, len(b)), len(b) if self.share >= 1.0 else _PIECE):
            # a fixed stride would see a period, or short sequences, at one place only
            if self.seen * _GOLDEN % 1.0 < self.share:
                first = max(piece.start - MOST_LAGS + 1, 0)  # what the rows may look back on
                part = b[first : piece.stop]
                z, h = part[:, 1 : 1 + d], self.features.remembered(part, d)
                self.pieces.append((z.copy(), h.copy(), piece.start - first))
            self.seen += 1


def process_noise_scale(
    esn: ProbabilisticESN, loop: OpenLoop, start: Start | LocalStart, rows: TrainingRows | StreamedRows, steps: Steps
) -> float:  # fmt: skip
    """The share that was given; "auto" looks for it where outputs are fed back, in the longest sequence, and else is 0."""
    if esn.process_noise != "auto":
        return float(esn.process_noise)
    if not np.any(loop.reservoir.W_fb) or esn.feedback == "own":
        return 0.0
    z, targets = rows.of_longest()
    with steps.step("choosing process noise"):
        penalty = loop.features.penalty(esn.ridge_, loop.reservoir.n_inputs, loop.reservoir.n_units)
        return search_open_loop(loop, start, esn.noise, z, targets, penalty, esn.washout_, esn.groups)
