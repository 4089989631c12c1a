"""Training of the networks in one pass over the rows.

A ``Drive`` runs the reservoir over a block of rows with the true outputs fed back (teacher forcing). It is the only difference
between the passes of the two networks.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from pesn._support.progress import Advance, Steps, ignore_progress
from pesn._support.types import RandomState, Ridge, RidgeValue, Rng
from pesn.activations import get
from pesn.esn.validation import SequenceRows, Sequences, TrainingRows
from pesn.evaluation.calibration import find_washout, search_open_loop
from pesn.readout.features import Features
from pesn.readout.groups import Patches
from pesn.readout.ridge import Readout, Sums, choose_ridge, least_squares, solve
from pesn.reservoir.drive import State, read
from pesn.reservoir.initial_state import MOST_FEATURES, MOST_LAGS, LocalStart, Start
from pesn.reservoir.open_loop import OpenLoop
from pesn.reservoir.sequences import BLOCK, Array, blocks, check_longer_than_washout
from pesn.reservoir.weights import Reservoir, draw_layers, repeat, without_units
from pesn.statespace.cell import ActivationMoments

if TYPE_CHECKING:
    from pesn.esn.base import ReservoirEstimator
    from pesn.esn.classifier import ReservoirClassifier
    from pesn.esn.probabilistic import ProbabilisticESN


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class StreamedRows(Sequences):
    """Sequences that are read one by one.

    Parameters
    ----------
    mapping : callable
        ``map`` of :class:`pesn.esn.validation.Sequences`.
    reading : callable
        Returns an iterator over all sequences.
    sequences : list of slice
        Rows of each sequence, as if all were stacked.
    n_inputs : int
        d.
    n_outputs : int
        m.
    """

    mapping: Callable[[Callable[[int, Iterable[SequenceRows], Advance], Any], Advance], Iterator[Any]]
    reading: Callable[[], Iterator[SequenceRows]]
    sequences: list[slice]
    n_inputs: int
    n_outputs: int
    flat: bool = False

    def __iter__(self) -> Iterator[SequenceRows]:
        return self.reading()

    def map(self, work: Callable[[int, Iterable[SequenceRows], Advance], T], advance: Advance = ignore_progress) -> Iterator[T]:  # noqa: D102
        return self.mapping(work, advance)


Starts: TypeAlias = list[tuple[slice, State]]  # sequences, each with the state that it starts from
Drive = Callable[[Array, Array | None, State, Array], tuple[Array, State]]
"""(inputs (n, d), their variances or None, state, true outputs (n, m)) → (features (n, p), state after them)."""

_DRAWN = (  # parameters of a network by which a reservoir is drawn
    *("n_units", "spectral_radius", "leak_rate", "density", "input_scaling", "feedback_scaling", "bias_scaling"),
    *("topology", "activation", "memory"),
)
_FOLDS = 5  # of the cross-validation of the ridge
_TRIAL = 2000  # rows used to find washout="auto"
_ROWS = 6  # rows kept per feature of the regression of the initial state
_PIECE = 64  # rows of a segment of a long series
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)


def certain_drive(reservoir: Reservoir, features: Features, noise: float = 0.0, rng: Rng = None) -> Drive:
    """Return a drive of states without variance; ``rng`` draws the ``noise`` that is added to them."""

    def drive(z: Array, _: Array | None, state: State, targets: Array) -> tuple[Array, State]:
        rows, states, _, state = read(features, reservoir, z, state, feedback=targets, noise=noise, rng=rng)
        b, first = np.empty((len(z), 1 + rows.shape[1] + states.shape[1])), 1 + rows.shape[1]
        b[:, 0], b[:, 1:first], b[:, first:] = 1.0, rows, states
        return b, state

    return drive


def drive_sequences(
    step: Callable[[slice, State], State], starts: Starts, size: int = BLOCK, parallel: bool = True
) -> list[State]:  # fmt: skip
    """Drive each sequence from its initial state, block by block; return the final states.

    Several run in parallel threads: the kernels release the GIL.
    """

    def drive(sequence: slice, state: State) -> State:
        for block in blocks(sequence, size):
            state = step(block, state)
        return state

    if len(starts) == 1 or not parallel:
        return [drive(*start) for start in starts]
    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as pool:
        return list(pool.map(drive, *zip(*starts, strict=True)))


def generator(random_state: RandomState) -> np.random.Generator:
    """Return the generator of a call; an integer always gives the same numbers, a RandomState advances."""
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
    """Draw the reservoir by a network's parameters; without units if the readout does not use them."""
    if local is not None:
        local.check_field(n_inputs, n_outputs)
    if not esn.features.states:
        return without_units(n_inputs, n_outputs)
    sizes = n_inputs, n_outputs
    if local is not None:  # sizes of a patch
        sizes = int(local.windows(n_outputs, n_inputs).shape[1]), local.size
    reservoir = draw_layers(esn.layers, *sizes, rng=rng, **{name: getattr(esn, name) for name in _DRAWN})
    return reservoir if local is None else repeat(reservoir, local, n_inputs, n_outputs)


def washout_length(esn: ReservoirEstimator, given: TrainingRows | StreamedRows | None, steps: Steps) -> int:
    """Return the length of the washout; "auto" finds it on the longest sequence, at most half of the shortest.

    It is at least the number of lags, because the first rows have no earlier ones.
    """
    reservoir, features = esn.reservoir_, esn.features
    if esn.washout != "auto":
        return max(int(esn.washout), features.lags)
    if given is None:
        raise ValueError("washout must be a number where there are no rows yet, got 'auto'; or call fit or partial_fit first")
    with steps.step("finding the washout"):
        units = ActivationMoments(get(reservoir.activation))
        penalty = features.penalty(ridge_value(esn.ridge), reservoir.n_inputs, reservoir.n_units)
        found = find_washout(reservoir, units, *given.read_longest(_TRIAL), penalty, features=features, groups=esn.groups)
    return max(int(min(found, given.sizes.min() // 2)), features.lags)


# ---------------------------------------------------------------- in one pass


def fit_readout(
    esn: ReservoirEstimator, drive: Drive, given: TrainingRows | StreamedRows, steps: Steps, kept: StartRows | None = None
) -> tuple[Readout, State, RidgeValue]:  # fmt: skip
    """Fit the readout by ridge regression of the targets on the features.

    Parameters
    ----------
    esn : ReservoirEstimator
        Network with a reservoir and a washout. A ridge "auto" is selected by cross-validation with 5 contiguous folds.
    drive : callable
        Drive of blocks of rows.
    given : TrainingRows or StreamedRows
        Rows. Sums of parts that were computed apart, by workers of a cluster, are merged.
    steps : Steps
        Progress: "driving the reservoir" and "least squares".
    kept : StartRows, optional
        Collects rows for the regression of the initial state.

    Returns
    -------
    tuple of (Readout, State, float)
        The readout, the state after the last row, and the ridge.
    """
    reservoir, features, ridge, groups = esn.reservoir_, esn.features, esn.ridge, esn.groups
    check_longer_than_washout(given.sequences, esn.washout_, features.lags)
    penalty = 0.0 if isinstance(ridge, str) else features.penalty(ridge, reservoir.n_inputs, reservoir.n_units)
    size = features.size(reservoir.n_inputs, reservoir.n_units), reservoir.n_outputs
    folds, start, washout, sizes = _FOLDS if isinstance(ridge, str) else 1, esn.initial(), esn.washout_, given.sizes

    def of_part(first: int, some: Iterable[SequenceRows], advance: Advance) -> _Part:
        sums, state = [least_squares(*size, penalty, groups) for _ in range(folds)], None
        firsts = np.cumsum(sizes) - sizes
        picked = None if kept is None else kept.resume(sizes[:first], washout)
        for i, (rows, targets) in enumerate(some, first):
            state = start
            for block in blocks(slice(0, len(targets))):
                b, state = drive(*rows.take(block), state, targets[block])
                washed = max(washout - block.start, 0)
                place = slice(int(firsts[i]) + block.start, int(firsts[i]) + block.stop)
                for into, part in _split_by_fold(sums, place, int(sizes.sum())):
                    learned = slice(max(part.start, washed), part.stop)
                    into.add(b[learned], targets[block][learned])
                if picked is not None:
                    picked(b, washed)
                advance(block.stop - block.start)
        return _Part(sums, state, [] if picked is None else picked.pieces)

    with steps.step("driving the reservoir", given.n_rows, "rows") as advance:
        total = reduce(_Part.merge, given.map(of_part, advance))
    assert total.state is not None  # there is at least one row
    if kept is not None:
        kept.pieces += total.pieces
    with steps.step("least squares"):
        sums = total.sums[0]
        if isinstance(ridge, str):
            ridge = penalty = choose_ridge([fold for fold in total.sums if fold.n_samples])  # type: ignore[misc]  # factors, as a penalty of 0 asks for
            sums = least_squares(*size, 0.0, groups)
            for fold in total.sums:
                sums.merge(fold)  # type: ignore[arg-type]  # of one kind
        return solve(sums, penalty), total.state, ridge_value(ridge)


class _Part(NamedTuple):
    """Sums over a part of the rows, one per fold if a ridge is selected; the final state; rows for the initial state."""

    sums: list[Sums]
    state: State | None
    pieces: list[tuple[Array, Array, int]]

    def merge(self, other: _Part) -> _Part:
        """Return the sum of this part and the next."""
        if other.state is None:  # no rows
            return self
        for into, more in zip(self.sums, other.sums, strict=True):
            into.merge(more)  # type: ignore[arg-type]  # of one kind
        return _Part(self.sums, other.state, self.pieces + other.pieces)


def ridge_value(ridge: Ridge) -> RidgeValue:
    """Return a ridge as Python numbers; 1e-6 for "auto" without rows to select it by."""
    if isinstance(ridge, str):
        return 1e-6
    return (float(ridge[0]), float(ridge[1])) if isinstance(ridge, tuple) else float(ridge)


def _split_by_fold(folds: list[Sums], block: slice, n_rows: int) -> Iterator[tuple[Sums, slice]]:
    """Yield the rows of a block that belong to each of the contiguous folds."""
    edges = [-(-k * n_rows // len(folds)) for k in range(len(folds) + 1)]
    for fold, first, last in zip(folds, edges, edges[1:], strict=False):
        if max(first, block.start) < min(last, block.stop):
            yield fold, slice(max(first - block.start, 0), min(last, block.stop) - block.start)


class StartRows:
    """Sample of rows for the regression of the initial state: all, or segments spread over a long series."""

    def __init__(self, esn: ReservoirEstimator, n_rows: int) -> None:
        self.features, self.n_inputs = esn.features, esn.reservoir_.n_inputs
        needed = esn.features.n_earlier(self.n_inputs) + esn.reservoir_.n_units
        if esn.groups is not None:  # a row gives one sample per patch
            needed, n_rows = esn.groups.n_features, n_rows * esn.groups.n_groups
        self.share = _ROWS * (MOST_FEATURES + needed) / n_rows
        self.pieces: list[tuple[Array, Array, int]] = []  # inputs, states and number of leading rows to skip
        self.seen = 0

    def resume(self, sizes: npt.NDArray[np.intp], washout: int) -> StartRows:
        """Return an empty sample that continues as after sequences of these ``sizes`` (k,)."""
        found = copy.copy(self)
        found.pieces, found.seen = [], 0
        if self.share < 1.0:  # otherwise all rows are taken
            for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
                left = (max(block.stop - max(washout, block.start), 0) for block in blocks(slice(0, int(size))))
                found.seen += int(count) * sum(-(-rows // _PIECE) for rows in left)
        return found

    def __call__(self, b: Array, washed: int) -> None:
        """Take a sample of the features (n, p) of a block whose first rows are ``washed`` out."""
        d = self.n_inputs
        for piece in blocks(slice(washed, len(b)), len(b) if self.share >= 1.0 else _PIECE):
            # a fixed stride would alias with a period, or with the length of short sequences
            if self.seen * _GOLDEN % 1.0 < self.share:
                first = max(piece.start - MOST_LAGS + 1, 0)  # with earlier rows for lags
                part = b[first : piece.stop]
                z, h = part[:, 1 : 1 + d], self.features.memory_features(part, d)
                self.pieces.append((z.copy(), h.copy(), piece.start - first))
            self.seen += 1


def process_noise_scale(
    esn: ProbabilisticESN, loop: OpenLoop, start: Start | LocalStart, rows: TrainingRows | StreamedRows, steps: Steps
) -> float:  # fmt: skip
    """Return the process noise; "auto" searches for it on the longest sequence if outputs are fed back, and else is 0."""
    if esn.process_noise != "auto":
        return float(esn.process_noise)
    if not np.any(loop.reservoir.W_fb) or esn.feedback == "own":
        return 0.0
    z, targets = rows.read_longest()
    with steps.step("choosing process noise"):
        penalty = loop.features.penalty(esn.ridge_, loop.reservoir.n_inputs, loop.reservoir.n_units)
        return search_open_loop(loop, start, esn.noise, z, targets, penalty, esn.washout_, esn.groups)
