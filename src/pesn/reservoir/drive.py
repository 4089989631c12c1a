"""Drive a reservoir over a sequence, with certain or uncertain inputs, and evaluate its readout features.

>>> import numpy as np
>>> from pesn.reservoir.weights import draw
>>> reservoir = draw(100, n_inputs=1, n_outputs=1, rng=0)
>>> inputs = np.sin(0.1 * np.arange(300))[:, None]
>>> states, _, last = run(reservoir, inputs)
>>> states.shape, bool((last.mean == states[-1]).all())
((300, 100), True)
>>> means, variances, _, last = run_gaussian(reservoir, inputs, np.full((300, 1), 0.01))
>>> bool((variances > 0.0).all())
True

>>> reservoir = draw(50, n_inputs=1, n_outputs=1, rng=0)
>>> series = np.sin(0.1 * np.arange(600.0))[:, None]
>>> sequences = [slice(start, start + 20) for start in range(0, 600, 20)]
>>> in_lockstep(reservoir, sequences)
True
>>> states, _, ends = run_many(reservoir, series, sequences, [State(np.zeros(50))] * 30)
>>> states.shape, len(ends), bool((ends[1].mean == states[39]).all())
((600, 50), 30, True)
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, check_not_negative, kernel_array, number
from pesn._support.records import check_arrays, check_covariance
from pesn._support.threads import n_threads
from pesn._support.types import AnyArray as Array
from pesn._support.types import FloatArray, MomentName
from pesn.activations import get
from pesn.moments import Mesh, MomentMethod, UnitMethod, parse_method
from pesn.readout.features import Features
from pesn.reservoir.weights import Reservoir, Seed

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Units = Callable[..., tuple[Array, ...]]  # f of the input, or of its mean and variance


class State(NamedTuple):
    """State at the end of a run: hidden state and last output, with variances, None for a deterministic run.

    Parameters
    ----------
    mean : array of shape (N,)
        Units.
    var : array of shape (N,), default=None
        Their variances.
    output : array of shape (m,), default=None
        Last output.
    output_var : array of shape (m,), default=None
        Its variances.
    cov : array of shape (m + E + N, m + E + N), default=None
        Covariance of [output, past, units]; or, with ``own``, a factor F (m + E + N, k) of it: F Fᵀ + diag(0, own). For an
        ensemble of M members F holds their deviations ÷ √(M − 1).
    own : array of shape (N,), default=None
        Variances of single units beside the factor.
    rows : array of shape (k, d), default=None
        The rows of a sequence so far, while they are fewer than a learned initial state uses.
    past : array of shape (E,), default=None
        The rows before, newest first, as many as the readout uses; None: not known, or not used.
    past_var : array of shape (E,), default=None
        Their variances.
    """

    mean: Array
    var: Array | None = None
    output: Array | None = None
    output_var: Array | None = None
    cov: Array | None = None
    own: Array | None = None
    rows: Array | None = None
    past: Array | None = None
    past_var: Array | None = None

    @property
    def is_certain(self) -> bool:
        """Whether it has no variance."""
        variances = self.var, self.output_var, self.past_var, self.cov, self.own
        return not any(part is not None and np.any(part) for part in variances)

    def check(self, name: str, shapes: Mapping[str, tuple[object, tuple[int, ...]]]) -> None:
        """Raise a ValueError unless its arrays have these ``shapes`` and no variance is negative."""
        check_arrays(name, shapes)
        for part in ("var", "output_var", "own", "past_var"):
            if getattr(self, part) is not None:
                check_not_negative(f"{name}.{part}", getattr(self, part))
        if self.cov is not None and self.own is None:
            check_covariance(f"{name}.cov", self.cov)


def run(
    reservoir: Reservoir,
    inputs: npt.ArrayLike,
    state: State | None = None,
    *,
    feedback: npt.ArrayLike | None = None,
    readout: npt.ArrayLike | None = None,
    noise: float = 0.0,
    rng: Seed = None,
    outputs: Array | None = None,
) -> tuple[Array, Array | None, State]:
    """Drive a reservoir over ``inputs``.

    Parameters
    ----------
    reservoir : Reservoir
        The reservoir.
    inputs : array-like of shape (T, d)
        Inputs.
    state : State, default=None
        Initial state, None: 0. A run split in two gives the same numbers. Variances are ignored.
    feedback : array-like of shape (T, m), default=None
        Outputs of a teacher: row k is used at step k + 1, the first step uses ``state.output``.
    readout : array-like of shape (m, 1 + d + N), default=None
        W_out: outputs are computed, and fed back if ``feedback`` is None. With neither, nothing is fed back.
    noise : float, default=0.0
        M_e, standard deviation of the noise added to every unit at every step.
    rng : int or numpy.random.Generator, default=None
        Random number generator of the noise.
    outputs : array of shape (T, m), default=None
        Array for the outputs of a reservoir of tanh units; None: a new one. ``rows[1:]``, with ``rows[:-1]`` as inputs, closes
        the loop: each output is the next input.

    Returns
    -------
    states : array of shape (T, N)
    outputs : array of shape (T, m) or None
    last : State
    """
    job = _Job(reservoir, inputs, state, feedback, readout, noise)
    seeded = None if rng is None and not noise else np.random.default_rng(rng)  # seeding takes longer than a row
    assert outputs is None or (is_compiled(reservoir) and outputs.shape == job.output_shape)
    states, found = job.run_certain(seeded, outputs)
    return states, None if readout is None else found, State(job.h[0], None, job.y[0], None)


def run_gaussian(
    reservoir: Reservoir,
    mean: npt.ArrayLike,
    var: npt.ArrayLike | None,
    state: State | None = None,
    *,
    feedback: npt.ArrayLike | None = None,
    readout: npt.ArrayLike | None = None,
    noise: float = 0.0,
    moments: UnitMethod = "surface",
    rng: Seed = None,
) -> tuple[Array, Array, tuple[Array, Array] | None, State]:
    """Drive a reservoir over Gaussian inputs by the paper's diagonal PESN.

    Units are treated as independent: v_a = (W_in∘W_in) v_z + (W_fb∘W_fb) v_y + (W∘W) v_h, then
    v_h ← (1 − L)² v_h + L² Var[tanh a] + M_e².

    Parameters
    ----------
    reservoir : Reservoir
        The reservoir.
    mean : array-like of shape (T, d)
        Means of the inputs.
    var : array-like of shape (T, d) or None
        Variances of the inputs; None: certain.
    state : State, default=None
        Initial state, None: 0.
    feedback : array-like of shape (T, m), default=None
        Outputs of a teacher, without variance.
    readout : array-like of shape (m, 1 + d + N), default=None
        W_out.
    noise : float, default=0.0
        M_e, standard deviation of the noise of the units.
    moments : str or tuple, default="surface"
        ``"surface"``: inside the compiled loop, within 1e-8 of :func:`pesn.moments`. Any other method of that function, or
        ``("spline", pesn.Mesh(...))``: step by step, slowly.
    rng : int or numpy.random.Generator, default=None
        Random number generator of ``"monte-carlo"``.

    Returns
    -------
    mean : array of shape (T, N)
    var : array of shape (T, N)
    outputs : tuple of arrays of shape (T, m) or None
        Means and variances.
    last : State
    """
    method, mesh = parse_method("moments", moments)
    job = _Job(reservoir, _rows("mean", mean, reservoir.n_inputs), state, feedback, readout, noise)
    v = np.zeros_like(job.inputs) if var is None else _rows("var", var, reservoir.n_inputs, len(job.inputs))
    for name, values in (("var", v), ("state.var", job.h[1]), ("state.output_var", job.y[1])):
        check_not_negative(name, values)
    if not reservoir.n_units:
        states, outputs = job.read_rows(v)
    elif method == "surface" and is_compiled(reservoir):
        states, outputs = job.run_uncertain(v)
    else:
        states, outputs = job.step_through(v, _unit_moments(reservoir, method, mesh, rng))
    return states[0], states[1], None if job.readout is None else (outputs[0], outputs[1]), State(*job.h, *job.y)


class _Job:
    """A sequence, validated and prepared for the kernels; ``h`` (2, N) and ``y`` (2, m) change as it is driven."""

    def __init__(
        self,
        reservoir: Reservoir,
        inputs: npt.ArrayLike,
        state: State | None,
        feedback: npt.ArrayLike | None,
        readout: npt.ArrayLike | None,
        noise: float,
    ) -> None:
        n, d, m = reservoir.n_units, reservoir.n_inputs, reservoir.n_outputs
        if noise != 0.0 or type(noise) is not float:
            number("noise", noise, 0.0, math.inf, "[)")
        if state is not None and not isinstance(state, State):
            raise TypeError(f"state must be a pesn.reservoir.drive.State, got {type(state).__name__}")
        self.reservoir, self.noise = reservoir, float(noise)
        self.inputs = _rows("inputs", inputs, d)
        self.h, self.y = np.zeros((2, n)), np.zeros((2, m))
        if state is not None:
            for name, into in (("mean", self.h[0]), ("var", self.h[1]), ("output", self.y[0]), ("output_var", self.y[1])):
                _fill(f"state.{name}", getattr(state, name), into)
        self.teacher = _no_rows(m) if feedback is None else _rows("feedback", feedback, m, len(self.inputs))
        self.readout = None if readout is None else _rows("readout", readout, 1 + d + n, m)

    @property
    def output_shape(self) -> tuple[int, int]:
        """Shape of the outputs, (0, 0) without a readout."""
        return (0, 0) if self.readout is None else (len(self.inputs), self.reservoir.n_outputs)

    @property
    def is_fed(self) -> bool:
        """Whether outputs are fed back."""
        return bool(len(self.teacher)) or self.readout is not None

    def read_rows(self, var: Array) -> tuple[Array, Array]:
        """Return states and outputs of a reservoir without units: a readout of the inputs."""
        states, outputs = np.empty((2, len(self.inputs), 0)), np.empty((2, *self.output_shape))
        if self.readout is not None:
            outputs[0] = self.readout[:, 0] + np.einsum("td,md->tm", self.inputs, self.readout[:, 1:])
            outputs[1] = np.einsum("td,md->tm", var, np.square(self.readout[:, 1:]))
        if len(self.inputs):
            self._feed_back(outputs[:, -1:], len(self.inputs) - 1)
        return states, outputs

    def _feed_back(self, outputs: Array, row: int) -> None:
        """Set what is fed to the step after a row, whose outputs are the last of ``outputs`` (2, ·, m)."""
        if len(self.teacher):
            self.y[0], self.y[1] = self.teacher[row], 0.0
        elif self.readout is not None:
            self.y[: len(outputs)] = outputs[:, -1]

    def drive(self, inputs: Array, rows: slice, states: Array, outputs: Array) -> None:
        """Compute ``states`` and ``outputs`` of rows by a kernel; ``inputs`` (T, d), or means and variances (2, T, d)."""
        from pesn.reservoir import kernels  # lazy import: numba is slow to import

        net, turn = kernels.Weights(*kernel_weights(self.reservoir)), kernel_rotation(self.reservoir)
        fed = kernels.TEACHER if len(self.teacher) else kernels.NOTHING if self.readout is None else kernels.OWN
        loop = kernels.Feedback(fed, self.teacher[rows], _NOTHING if self.readout is None else self.readout, self.noise)
        if inputs.ndim == 2:
            kernels.drive(net, turn, inputs, loop, kernels.Course(self.h[0], self.y[0], states, outputs))
        else:
            course = kernels.Course(self.h, self.y, states, outputs)
            kernels.drive_gaussian(kernels.tanh_moments(), net, turn, inputs, loop, course)

    def run_certain(self, rng: np.random.Generator | None, outputs: Array | None) -> tuple[Array, Array]:
        """Return states (T, N) and outputs (T, m) without variances."""
        if not self.reservoir.n_units:
            states, found = self.read_rows(np.zeros_like(self.inputs))
            return states[0], found[0]
        if not is_compiled(self.reservoir):
            f = get(self.reservoir.activation)
            states, found = self.step_through(None, lambda a: (np.asarray(f(a)),), rng)
            return states[0], found[0]
        shape = len(self.inputs), self.reservoir.n_units
        states = rng.standard_normal(shape) if self.noise and rng is not None else np.empty(shape)
        outputs = np.empty(self.output_shape) if outputs is None else outputs
        self.drive(self.inputs, slice(None), states, outputs)
        return states, outputs

    def run_uncertain(self, var: Array) -> tuple[Array, Array]:
        """Return states and outputs of inputs with variances (T, d); the leading rows without variance go by the faster kernel.

        At variance 0 both kernels give the same means to the bit, so that splitting a run changes nothing.
        """
        n_rows, uncertain = len(self.inputs), self.noise > 0.0 or self.h[1].any() or self.y[1].any()
        first = 0 if uncertain else count_certain(var, n_rows)
        states, outputs = np.zeros((2, n_rows, self.reservoir.n_units)), np.zeros((2, *self.output_shape))
        if first:
            before = slice(0, first)
            self.drive(self.inputs[before], before, states[0, before], outputs[0, before])
        if first < n_rows:
            rest = slice(first, None)
            # copies unless these are all rows: the kernels need contiguous arrays
            new, out = (part if first == 0 else part[:, rest].copy() for part in (states, outputs))
            self.drive(np.stack([self.inputs[rest], var[rest]]), rest, new, out)
            states[:, rest], outputs[:, rest] = new, out
        return states, outputs

    def _move(self, layers: list[_Layer], entering: list[Array], units: Units) -> None:
        """Move all units by one step, layer after layer, with their variances if these enter."""
        h, parts = self.h, range(len(entering))
        for rows, W, leak, turn in layers:  # h already has the new state of the layers before
            new = units(*(entering[p][rows] + W[p] @ h[p] for p in parts))
            for p, value in zip(parts, new, strict=True):
                kept = h[p, rows] if turn is None else turn[p] @ h[p, rows]
                h[p, rows] = (1.0 - leak) ** (p + 1) * kept + leak ** (p + 1) * value

    def step_through(self, var: Array | None, units: Units, rng: np.random.Generator | None = None) -> tuple[Array, Array]:
        """Return states (P, T, N) and outputs (P, T, m) of any reservoir, row by row; P is 1 without ``var``.

        ``units`` gives f(a), or mean and variance of f(a) for those of a. Variances pass the squares of all factors.
        """
        r, given = self.reservoir, [self.inputs] if var is None else [self.inputs, var]
        readout = np.zeros((0, 1 + r.n_inputs + r.n_units)) if self.readout is None else self.readout
        W_in, W_fb, W_out = ([W, np.square(W)] for W in (r.W_in, r.W_fb, readout))
        states, outputs = (np.empty((len(given), len(self.inputs), size)) for size in (r.n_units, len(readout)))
        entering = [z @ W.T for z, W in zip(given, W_in, strict=False)]
        entering[0] += r.bias
        layers = _layers(r)
        for k in range(len(self.inputs)):
            now = [a[k] for a in entering]
            if self.is_fed:
                now = [a + W @ y for a, W, y in zip(now, W_fb, self.y, strict=False)]
            self._move(layers, now, units)
            if var is not None:
                self.h[1] += self.noise**2
            elif self.noise and rng is not None:
                self.h[0] += self.noise * rng.standard_normal(r.n_units)
            for p, z in enumerate(given):
                states[p, k] = self.h[p]
                if self.readout is not None:
                    outputs[p, k] = W_out[p] @ np.concatenate([[1.0 - p], z[k], self.h[p]])
            self._feed_back(outputs[:, : k + 1], k)
        return states, outputs


class _Layer(NamedTuple):
    """Units of a layer: their rows of W, leak rates and rotation; matrices with their elementwise squares."""

    rows: slice
    W: list[csr_array]
    leak: Array
    rotation: list[Array] | None


def _layers(r: Reservoir) -> list[_Layer]:
    """Return the layers of a reservoir."""
    leak, found = np.broadcast_to(r.leak_rate, r.n_units), []
    for rows in r.layer_rows:
        W, turn = r.W[rows], None if r.rotation is None else r.rotation[rows, rows]
        found.append(_Layer(rows, [W, W.power(2)], leak[rows], None if turn is None else [turn, np.square(turn)]))
    return found


def _unit_moments(reservoir: Reservoir, method: MomentName, mesh: Mesh | None, rng: Seed) -> Units:
    """Return a function of mean and variance of the inputs of units to those of their outputs."""
    moments = MomentMethod(get(reservoir.activation), method, mesh=mesh, rng=np.random.default_rng(rng))

    def units(mean: Array, var: Array) -> tuple[Array, Array]:
        mean, var = moments(mean, var)
        return mean, np.maximum(var, 0.0)  # "spline-raw" can be negative

    return units


def count_certain(var: Array | None, n_rows: int) -> int:
    """Count the leading rows without variance in ``var`` (T, d); None: all rows."""
    if var is None or not var.any():
        return n_rows
    return int(np.argmax(var.any(axis=1)))


def is_compiled(reservoir: Reservoir) -> bool:
    """Whether the compiled loops know such a reservoir."""
    return reservoir.activation == "tanh"


_LANES = 4  # rows in a group of the kernels
_MOST_SHORT = 1 << 16  # units up to which columns have 16 bits


class _Packing(NamedTuple):
    """W of a reservoir in groups of rows and the ends of its layers, with the arrays that it was made of."""

    owner: weakref.ref[Array]
    indptr: Array
    indices: Array
    data: Array
    layers: tuple[int, ...]
    rows: tuple[Array, Array, Array]
    ends: Array

    def belongs_to(self, r: Reservoir) -> bool:
        """Whether this is W of a reservoir, the weights of which may have been changed in place."""
        same = self.owner() is r.data and self.indptr is r.indptr and self.indices is r.indices and self.layers == r.layers
        return same and bool((self.data == r.data).all())


_packings: dict[int, _Packing] = {}  # by the identity of the weights; an entry ends with them


def kernel_weights(r: Reservoir) -> tuple[Array, ...]:
    """Return the fields of ``kernels.Weights``; W_in and W_fb by columns, over which the kernels vectorize."""
    packing, leak = _packings.get(id(r.data)), np.full(r.n_units, r.leak_rate)
    if packing is None or not packing.belongs_to(r):
        packing = _pack(r)
    return *packing.rows, kernel_array(r.W_in.T), kernel_array(r.W_fb.T), kernel_array(r.bias), 1.0 - leak, leak, packing.ends


def kernel_rotation(r: Reservoir) -> Array | None:
    """Return O transposed."""
    return None if r.rotation is None else kernel_array(r.rotation.T)


def _pack(r: Reservoir) -> _Packing:
    """Pack W of a reservoir, and keep the result for the next run."""
    key, ends = id(r.data), _layer_ends(r)
    rows = pack_rows(r.indptr, r.indices, r.data, ends)
    owner = weakref.ref(r.data, lambda _: _packings.pop(key, None))
    _packings[key] = packing = _Packing(owner, r.indptr, r.indices, r.data.copy(), r.layers, rows, ends)
    return packing


def _layer_ends(r: Reservoir) -> Array:
    return np.cumsum(r.layers or (r.n_units,), dtype=np.uint64)


def pack_rows(indptr: Array, indices: Array, data: Array, ends: Array) -> tuple[Array, Array, Array]:
    """Pack the rows of layers, which end at ``ends``, in groups of four; return starts of groups, columns and weights."""
    rows, n, stops = indptr.astype(np.int64), len(indptr) - 1, ends.astype(np.int64).tolist()
    lengths = rows[1:] - rows[:-1]
    first = np.concatenate([np.arange(*layer, _LANES) for layer in zip([0, *stops[:-1]], stops, strict=True)])
    starts = np.concatenate([[0], np.cumsum(_LANES * np.maximum.reduceat(lengths, first))])
    sizes = np.concatenate([first[1:], [n]]) - first
    begin = np.repeat(starts[:-1] - first, sizes) + np.arange(n) - _LANES * rows[:-1]
    places = np.repeat(begin, lengths) + _LANES * np.arange(len(data))
    columns, weights = np.zeros(starts[-1], np.uint16 if n <= _MOST_SHORT else np.uint32), np.zeros(starts[-1])
    columns[places], weights[places] = indices, data
    return starts, columns, weights


@lru_cache(maxsize=64)
def _no_rows(width: int) -> Array:
    return np.empty((0, width))


_NOTHING = np.empty((0, 0))


def _rows(argument: str, value: npt.ArrayLike, width: int, length: int | None = None) -> Array:
    """Validate an argument of shape (length, width)."""
    array = as_real(argument, value)
    if array.ndim != 2 or array.shape[1] != width or (length is not None and len(array) != length):
        raise ValueError(f"{argument} must have shape ({'T' if length is None else length}, {width}), got {array.shape}")
    return kernel_array(array)


def _fill(argument: str, value: npt.ArrayLike | None, into: Array) -> None:
    """Write a vector of the right size; None: leave 0."""
    if value is None:
        return
    array = as_real(argument, value)
    if array.shape != into.shape:
        raise ValueError(f"{argument} must have shape {into.shape}, got {array.shape}")
    into[:] = array


def read(
    features: Features,
    reservoir: Reservoir,
    z: Array,
    state: State | None = None,
    *,
    readout: FloatArray | None = None,
    **options: Any,
) -> tuple[Array, Array, Array | None, State]:
    """Run :func:`run` with ``readout`` (m, p) over all features; return features of rows, states, outputs, the last state.

    ``state.past`` are the rows before z (T, d); if it is None, the first row is repeated. Other options are those of :func:`run`.
    """
    before = None if state is None or state.past is None else past_rows(features, state.past, z.shape[1])
    rows = features.rows(z, before)
    if readout is None:
        states, _, end = run(reservoir, z, state, **options)
        return rows, states, None, end._replace(past=as_past(features, z, before))
    states, outputs, end = run(widen_inputs(features, reservoir), rows, state, readout=readout, **options)
    return rows, states, outputs, end._replace(past=as_past(features, z, before))


def widen_inputs(features: Features, reservoir: Reservoir) -> Reservoir:
    """Return a reservoir that takes all features of rows as inputs; only the row itself enters its units."""
    d = reservoir.n_inputs
    more = features.size(d, 0) - 1 - d
    return reservoir._replace(W_in=np.pad(reservoir.W_in, ((0, 0), (0, more)))) if more else reservoir


def past_rows(features: Features, past: Array, n_inputs: int) -> Array:
    """Return ``past`` (E,), newest row first, as rows (lags, d) in the order of time."""
    return past.reshape(features.lags, n_inputs)[::-1]


def as_past(features: Features, z: Array, before: Array | None) -> Array | None:
    """Return :attr:`State.past` after rows z (T, d); None if no earlier rows are used, or known."""
    if not features.lags or (before is None and not len(z)):
        return None
    return features.newest_rows(z, before)[::-1].ravel()


# ---------------------------------------------------------------- many sequences in lockstep

_SEQUENCES = 16  # of the kernel
_GAIN = 3.0  # speed-up if all lanes are used


def in_lockstep(reservoir: Reservoir, sequences: Sequence[slice]) -> bool:
    """Whether such sequences are driven together: many, of similar lengths."""
    if reservoir.activation != "tanh" or not reservoir.n_units or len(sequences) < _SEQUENCES // 3:
        return False
    lengths = np.sort([rows.stop - rows.start for rows in sequences])[::-1]
    return bool(_SEQUENCES * lengths[::_SEQUENCES].sum() <= _GAIN * lengths.sum())  # a group takes as long as its longest


def chunks(sequences: Sequence[slice], rows: int) -> Iterator[tuple[slice, slice]]:
    """Yield slices of sequences and of their rows in X, about ``rows`` rows at a time, in whole groups."""
    first = 0
    for place, sequence in enumerate(sequences):
        full = sequence.stop - sequences[first].start >= rows and (place + 1 - first) % _SEQUENCES == 0
        if full or place == len(sequences) - 1:
            yield slice(first, place + 1), slice(sequences[first].start, sequence.stop)
            first = place + 1


def run_many(
    reservoir: Reservoir,
    rows: Array,
    sequences: Sequence[slice],
    states: Sequence[State],
    *,
    readout: FloatArray | None = None,
    noise: float = 0.0,
    into: tuple[Array | None, Array | None] = (None, None),
) -> tuple[Array, Array, list[State]]:
    """Run :func:`run`, or :func:`run_gaussian`, on sequences that are concatenated in ``rows``, many at a time.

    States are the same to the bit, unless outputs are fed back or rows are uncertain; the rest within 1e-12 relative.

    Parameters
    ----------
    reservoir : Reservoir
        Reservoir of tanh units.
    rows : array of shape (T, d) or (2, T, d)
        Certain rows, or means and variances. The results have the same leading axis.
    sequences : sequence of slice
        Rows of each sequence.
    states : sequence of State
        Initial state of each sequence.
    readout : array of shape (m, 1 + d + N), default=None
        W_out; None: no outputs.
    noise : float, default=0.0
        M_e, for uncertain rows.
    into : tuple of arrays, default=(None, None)
        Arrays for states and outputs; None: new arrays. Empty arrays: not computed.

    Returns
    -------
    states : array of shape (…, T, N)
    outputs : array of shape (…, T, m)
        Empty without a readout.
    ends : list of State
        State after each sequence.
    """
    from pesn.reservoir import kernels  # lazy import: numba is slow to import

    inputs = kernel_array(rows if rows.ndim == 3 else rows[None])
    (parts, n_rows, _), N, m = inputs.shape, reservoir.n_units, reservoir.n_outputs
    starts, lengths = np.array([(rows.start, rows.stop - rows.start) for rows in sequences], np.int64).reshape(-1, 2).T
    order = np.argsort(-lengths, kind="stable")  # long ones first
    starts, lengths = starts[order], lengths[order]
    h, y = _stack_states(states, order, parts, N, m)
    shapes = (parts, n_rows, N), (parts, *((0, 0) if readout is None else (n_rows, m)))
    kept, outputs = (
        np.empty(shape) if given is None else given.reshape(parts, *given.shape[-2:])
        for given, shape in zip(into, shapes, strict=True)
    )
    net, turn = kernels.Weights(*_lockstep_weights(reservoir, parts)), kernel_rotation(reservoir)
    turn = None if turn is None else _with_squares(turn, parts)
    tables = None if parts == 1 else kernels.tanh_moments()
    fed, W_out = (kernels.NOTHING, _NOTHING) if readout is None else (kernels.OWN, np.asarray(readout))
    W_out = _with_squares(W_out, parts)
    W_out[1:, :, :1] = 0.0  # a constant has no variance
    loop = kernels.Feedback(fed, _no_rows(m), W_out, float(noise))

    def drive(part: slice) -> None:
        own, output = h[:, part].copy(), y[:, part].copy()  # the kernel needs contiguous arrays
        which = kernels.Sequences(inputs, starts[part], lengths[part])
        kernels.drive_lockstep(tables, net, turn, which, loop, kernels.Course(own, output, kept, outputs))
        h[:, part], y[:, part] = own, output

    count = n_threads()
    size = _SEQUENCES * max(1, -(-len(order) // (_SEQUENCES * count)))  # whole groups, as many for each thread
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(drive, [slice(start, start + size) for start in range(0, len(order), size)]))
    ends = [State(*_unstack(h, i), *_unstack(y, i)) for i in np.argsort(order)]
    return (kept, outputs, ends) if rows.ndim == 3 else (kept[0], outputs[0], ends)


def _lockstep_weights(r: Reservoir, parts: int) -> tuple[Array, ...]:
    """Return the fields of ``kernels.Weights`` for sequences in lockstep."""
    leak, bias = np.full(r.n_units, r.leak_rate), np.stack([r.bias, np.zeros(r.n_units)])[:parts]
    rows = r.indptr.astype(np.int64), kernel_array(r.indices, np.uint32), _with_squares(r.data, parts)
    factors = (_with_squares(a, parts) for a in (r.W_in.T, r.W_fb.T))
    return *rows, *factors, bias, _with_squares(1.0 - leak, parts), _with_squares(leak, parts), _layer_ends(r)


def _with_squares(values: Array, parts: int) -> Array:
    """Return the factors of means, and those of variances if there are two parts."""
    return kernel_array(np.stack([values, np.square(values)][:parts]))


def _unstack(values: Array, place: int) -> tuple[Array, Array | None]:
    """Return mean, and variance if there is one, of one sequence."""
    return values[0, place].copy(), values[1, place].copy() if len(values) == 2 else None


def _stack_states(states: Sequence[State], order: Array, parts: int, n_units: int, n_outputs: int) -> tuple[Array, Array]:
    """Return units (P, S, N) and outputs (P, S, m) of all states, in this order; 0 for parts that are None."""
    h, y = np.zeros((parts, len(states), n_units)), np.zeros((parts, len(states), n_outputs))
    for place, i in enumerate(order):
        for into, names in ((h, ("mean", "var")), (y, ("output", "output_var"))):
            for part, name in zip(into, names, strict=False):
                if (value := getattr(states[i], name)) is not None:
                    part[place] = value
    return h, y
