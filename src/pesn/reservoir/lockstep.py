"""Many short sequences: sixteen at a time through the compiled loops, which read W once for all of them.

>>> import numpy as np
>>> from pesn.reservoir.weights import draw
>>> reservoir = draw(50, n_inputs=1, n_outputs=1, rng=0)
>>> series = np.sin(0.1 * np.arange(600.0))[:, None]
>>> sequences = [slice(start, start + 20) for start in range(0, 600, 20)]
>>> in_lockstep(reservoir, sequences)
True
>>> states, _, ends = run_stacked(reservoir, series, sequences, [State(np.zeros(50))] * 30)
>>> states.shape, len(ends), bool((ends[1].mean == states[39]).all())
((600, 50), 30, True)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.threads import n_threads
from pesn._support.types import Array, FloatArray
from pesn.activations import get
from pesn.reservoir.drive import State, frozen, kernel_weights
from pesn.reservoir.initial_state import Start
from pesn.reservoir.local import LocalStart
from pesn.reservoir.open_loop import OpenLoop
from pesn.reservoir.reading import widened
from pesn.reservoir.weights import Reservoir

__all__ = ["Stack", "can_stack", "chunks", "in_lockstep", "predict_stacked", "run_gaussian_stacked", "run_stacked"]

_LANES = 16  # of the kernel
_GAIN = 3.0  # times as fast as one after the other, all lanes taken
_NOTHING = frozen(np.empty((0, 0)))


def in_lockstep(reservoir: Reservoir, sequences: Sequence[slice]) -> bool:
    """Whether such sequences are driven together: there are many, of lengths that are not too different."""
    if reservoir.activation != "tanh" or not reservoir.n_units or len(sequences) < _LANES // 3:
        return False
    lengths = np.sort([rows.stop - rows.start for rows in sequences])[::-1]
    return bool(_LANES * lengths[::_LANES].sum() <= _GAIN * lengths.sum())  # a group takes as long as its longest


def chunks(sequences: Sequence[slice], rows: int) -> Iterator[tuple[slice, slice]]:
    """Which sequences, and the rows of X that they take: ``rows`` or some more at a time, in whole groups."""
    first = 0
    for place, sequence in enumerate(sequences):
        full = sequence.stop - sequences[first].start >= rows and (place + 1 - first) % _LANES == 0
        if full or place == len(sequences) - 1:
            yield slice(first, place + 1), slice(sequences[first].start, sequence.stop)
            first = place + 1


class _Groups(NamedTuple):
    """Sequences in the order in which the kernel takes them, long ones first: places in the list, first rows, lengths."""

    order: npt.NDArray[np.intp]
    starts: Array
    lengths: Array

    @classmethod
    def of(cls, sequences: Sequence[slice]) -> _Groups:
        begins, lengths = np.array([(rows.start, rows.stop - rows.start) for rows in sequences], np.int64).reshape(-1, 2).T
        order = np.argsort(-lengths, kind="stable")
        return cls(order, frozen(begins[order], np.int64), frozen(lengths[order], np.int64))

    def parts(self) -> list[slice]:
        """For each thread as many whole groups as for every other."""
        n, count = len(self.order), n_threads()
        size = _LANES * max(1, -(-n // (_LANES * count)))
        return [slice(start, start + size) for start in range(0, n, size)]


def run_stacked(
    reservoir: Reservoir,
    inputs: Array,
    sequences: Sequence[slice],
    states: Sequence[State],
    *,
    readout: FloatArray | None = None,
    into: Array | None = None,
) -> tuple[Array, Array, list[State]]:
    """:func:`pesn.reservoir.drive.run` on sequences that stand one after the other in ``inputs`` (T, d).

    States are the same to the bit, unless outputs are fed back; outputs within 1e-12 of their size.

    Parameters
    ----------
    reservoir, inputs, sequences
        Of tanh; rows; which of them each sequence has.
    states
        Where each starts.
    readout
        W_out (m, 1 + d + N); None: nothing is read out.
    into
        Where states are to stand (T, N), or an empty array (0, 0) where they are not wanted; None: in a new array.

    Returns
    -------
    states
        (T, N), or empty.
    outputs
        (T, m); empty where nothing is read out.
    ends
        The state after each sequence.
    """
    from pesn.reservoir import batch_kernel, kernels  # here, not above: they bring numba

    groups, m = _Groups.of(sequences), reservoir.n_outputs
    h, y = _stacked(states, groups, ("mean", "output"), (reservoir.n_units, m))
    kept = np.empty((len(inputs), reservoir.n_units)) if into is None else into
    outputs = np.empty((0, 0) if readout is None else (len(inputs), m))
    net, weights = kernels.Weights(*kernel_weights(reservoir)), _NOTHING if readout is None else frozen(readout)
    fed = kernels.NOTHING if readout is None else kernels.OWN
    rows = frozen(inputs)

    def drive(part: slice) -> None:
        batch_kernel.drive_batch(
            net, rows, groups.starts[part], groups.lengths[part], fed, weights, h[part], y[part], kept, outputs
        )

    _in_parallel(drive, groups)
    back = np.argsort(groups.order)
    return kept, outputs, [State(h[i].copy(), None, y[i].copy(), None) for i in back]


def run_gaussian_stacked(
    reservoir: Reservoir,
    inputs: Array,
    input_var: Array,
    sequences: Sequence[slice],
    states: Sequence[State],
    *,
    readout: Array,
    noise: float = 0.0,
    into: tuple[Array, Array] | None = None,
) -> tuple[Array, Array, list[State]]:
    """:func:`pesn.reservoir.drive.run_gaussian` on sequences one after the other.

    Parameters
    ----------
    reservoir, inputs, input_var, sequences, states, readout
        As in :func:`run_stacked`, with variances (T, d).
    noise
        M_e.
    into
        The arrays to fill; None: new ones.

    Returns
    -------
    states, outputs, ends
        Means and variances: (2, T, N), (2, T, m), and in the state after each sequence.
    """
    from pesn.moments import tables
    from pesn.reservoir import batch_kernel, kernels
    from pesn.reservoir.moments_kernel import rules

    groups, m, N = _Groups.of(sequences), reservoir.n_outputs, reservoir.n_units
    h, v, y, y_var = _stacked(states, groups, ("mean", "var", "output", "output_var"), (N, N, m, m))
    H, Y = np.stack([h, v]), np.stack([y, y_var])
    kept, outputs = (np.empty((2, len(inputs), N)), np.empty((2, len(inputs), m))) if into is None else into
    net, given, surface = (
        kernels.Weights(*kernel_weights(reservoir)),
        (frozen(inputs), frozen(input_var)),
        tables.load(get("tanh")),
    )

    def drive(part: slice) -> None:
        which = groups.starts[part], groups.lengths[part], kernels.OWN, frozen(readout), noise
        own, output = H[:, part].copy(), Y[:, part].copy()  # the kernel is compiled for contiguous ones
        batch_kernel.drive_gaussian_batch(surface, rules(), net, *given, *which, own, output, kept, outputs)
        H[:, part], Y[:, part] = own, output

    _in_parallel(drive, groups)
    back = np.argsort(groups.order)
    return kept, outputs, [State(*(part[i].copy() for part in (H[0], H[1], Y[0], Y[1]))) for i in back]


class Stack(NamedTuple):
    """What is found for stacked rows: outputs (T, m) with covariances (T, m, m), features (T, p), tr(A⁻¹ Cov b), units (T, N)."""

    mean: Array
    cov: Array
    features: Array
    leverage: Array
    units: Array
    ends: list[State]


def can_stack(
    loop: OpenLoop, certain: bool, sequences: Sequence[slice], states: Sequence[State], start: Start | LocalStart | None
) -> bool:  # fmt: skip
    """Whether :func:`predict_stacked` serves: variances alone, and sequences that all go on, or all begin by a learned start."""
    if loop.form != "diagonal" or loop.moments != "surface" or loop.features.lags or not loop.noise_is_plain:
        return False
    if not in_lockstep(loop.reservoir, sequences):
        return False
    if all(state.rows is None for state in states):
        return True
    begun = all(state.rows is not None and not len(state.rows) for state in states)
    return begun and certain and isinstance(start, Start) and bool(start.given_variances(start.center[None])[1].any())


def predict_stacked(
    loop: OpenLoop, z: Array, var: Array | None, sequences: Sequence[slice], states: Sequence[State],
    start: Start | LocalStart | None,
) -> Stack:  # fmt: skip
    """:func:`pesn.reservoir.open_loop.predict_rows` for many sequences that stand one after the other in z (T, d).

    Parameters
    ----------
    loop, z, var, start
        As there, of all sequences.
    sequences, states
        The rows of each, in this or in a longer array, and where it starts: :func:`can_stack` says whether it may.

    Returns
    -------
    Stack
        The same numbers within 1e-12 of their size.
    """
    offset, reservoir, f = sequences[0].start, widened(loop.features, loop.reservoir), loop.features
    rows, rows_var = f.row_moments(z, np.zeros_like(z) if var is None else var, None, None)
    units, outputs = np.empty((2, len(z), reservoir.n_units)), np.empty((2, len(z), len(loop.weights)))
    left = [slice(rows.start - offset, rows.stop - offset) for rows in sequences]
    ends = list(states)
    if isinstance(start, Start) and states[0].rows is not None:
        _begin(loop, z, rows, left, start, units, outputs, ends)
        n_rows = max(start.lags, 1)
        left = [slice(min(rows.start + n_rows, rows.stop), rows.stop) for rows in left]
    going = [i for i, rows in enumerate(left) if rows.stop > rows.start]
    if going:
        options: Any = {"readout": loop.weights, "noise": loop.unit_noise, "into": (units, outputs)}
        found = run_gaussian_stacked(reservoir, rows, rows_var, [left[i] for i in going], [ends[i] for i in going], **options)
        for i, end in zip(going, found[2], strict=True):
            ends[i] = end
    cov, leverage = loop.spread(rows_var, units[1])
    features = np.hstack([np.ones((len(z), 1)), rows, units[0]])
    return Stack(outputs[0], cov, features, leverage, units[0], [_as_kept(loop, end) for end in ends])


def _begin(
    loop: OpenLoop, z: Array, rows: Array, sequences: list[slice], start: Start, units: Array, outputs: Array, ends: list[State]
) -> None:  # fmt: skip
    """The first rows of each sequence, whose units a regression on the rows so far says; ``ends`` are then after these rows."""
    firsts, lengths = np.array([(rows.start, rows.stop - rows.start) for rows in sequences]).T
    squares = np.square(loop.weights)
    width = rows.shape[1]
    for k in range(max(start.lags, 1)):
        which = np.flatnonzero(lengths > k)
        at = firsts[which] + k
        units[:, at] = start.given_variances(z[firsts[which, None] + np.arange(k + 1)])
        outputs[0, at] = (
            loop.weights[:, 0] + rows[at] @ loop.weights[:, 1 : 1 + width].T + units[0, at] @ loop.weights[:, 1 + width :].T
        )
        outputs[1, at] = units[1, at] @ squares[:, 1 + width :].T
    for i, (first, length) in enumerate(zip(firsts, lengths, strict=True)):
        count = min(length, max(start.lags, 1))
        last = first + count - 1
        seen = z[first : first + count] if count < max(start.lags, 1) else None
        (mean, var), (output, output_var) = units[:, last].copy(), outputs[:, last].copy()
        ends[i] = State(mean, var, output, output_var, rows=seen)


def _as_kept(loop: OpenLoop, state: State) -> State:
    """A state that nothing is uncertain of has no variances."""
    var = (state.var, state.output_var)
    if loop.process_noise is None and not any(part is not None and part.any() for part in var):
        return State(state.mean, None, state.output, None)
    return state


def _stacked(states: Sequence[State], groups: _Groups, names: Sequence[str], sizes: Sequence[int]) -> list[Array]:
    """A part of all states (S, n) each, in the order of the kernel; 0 where it is None."""
    found = []
    for name, size in zip(names, sizes, strict=True):
        rows = np.zeros((len(states), size))
        for row, i in zip(rows, groups.order, strict=True):
            if (part := getattr(states[i], name)) is not None:
                row[:] = part
        found.append(rows)
    return found


def _in_parallel(drive: Any, groups: _Groups) -> None:
    parts = groups.parts()
    if len(parts) == 1:
        drive(parts[0])
        return
    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(drive, parts))
