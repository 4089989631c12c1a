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
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, check_not_negative, number
from pesn._support.records import check_arrays, check_covariance
from pesn._support.types import AnyArray as Array
from pesn._support.types import MomentName
from pesn.activations import get
from pesn.moments import MomentMethod, UnitMethod, named_method
from pesn.moments.spline import Mesh
from pesn.readout.features import Features
from pesn.reservoir.weights import Reservoir, Seed


class State(NamedTuple):
    """Where a run stopped: hidden state and last output, each with its variance, which is None for a deterministic run.

    ``past`` (E,): the rows just before, the newest first, as many as a readout looks back on, with variances ``past_var``; None:
    none are known, or wanted. ``cov``, where covariances are kept: of [output, past, units], (m + E + N, m + E + N); or, with
    ``own`` (N,), its factor F (m + E + N, k): the covariance is then F Fᵀ + diag(0, own). Of an ensemble of M members F holds
    their deviations ÷ √(M − 1). ``rows`` (k, d): the rows of a sequence so far, while they are fewer than a learned start looks
    back on.
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

    def check(self, name: str, shapes: Mapping[str, tuple[Any, tuple[int, ...]]]) -> None:
        """A ValueError unless its parts are of these ``shapes`` (``kept_states.state_shapes``) and no variance is negative."""
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
    """Drive a reservoir over ``inputs`` (T, d): states (T, N), outputs (T, m) or None, and where it stopped.

    Parameters
    ----------
    state
        Where to start; None is 0. A run cut in two gives the same numbers as the whole. Variances in it are not used.
    feedback
        The outputs that a teacher feeds back, (T, m): row k is used at step k + 1, the first step uses ``state.output``.
    readout
        W_out (m, 1 + d + N): the outputs are computed, and fed back where ``feedback`` is None. With neither, nothing is.
    noise
        M_e, the standard deviation of what is added to every unit at every step, drawn from ``rng``.
    outputs
        Where the outputs (T, m) are to be written, of a reservoir of tanh units; None: into an array of their own. ``rows[1:]``,
        with ``rows[:-1]`` for the inputs, closes the loop: each output is the next input.
    """
    job = _Job(reservoir, inputs, state, feedback, readout, noise)
    seeded = None if rng is None and not noise else np.random.default_rng(rng)  # a fresh seed takes longer than a row
    return job.run(seeded, outputs)


def run_batch(
    reservoir: Reservoir,
    sequences: Sequence[npt.ArrayLike],
    states: Sequence[State | None] | None = None,
    *,
    feedback: Sequence[npt.ArrayLike] | None = None,
    readout: npt.ArrayLike | None = None,
    noise: float = 0.0,
    rng: Seed = None,
    n_jobs: int | None = None,
) -> list[tuple[Array, Array | None, State]]:
    """:func:`run` on independent sequences, in parallel threads; all are checked before the first one starts.

    With noise, sequence i draws from ``np.random.default_rng(rng).spawn(n)[i]``, whichever thread it runs in.
    """
    n = len(sequences)
    for name, values in (("states", states), ("feedback", feedback)):
        if values is not None and len(values) != n:
            raise ValueError(f"{name} must have one entry for each of the {n} sequences, got {len(values)}")
    jobs = []
    for i, inputs in enumerate(sequences):
        try:
            jobs.append(
                _Job(reservoir, inputs, states[i] if states else None, None if feedback is None else feedback[i], readout, noise)
            )
        except (TypeError, ValueError) as error:
            raise type(error)(f"sequence {i}: {error}") from error
    generators = np.random.default_rng(rng).spawn(n)
    with ThreadPoolExecutor(n_jobs or os.cpu_count() or 1) as pool:
        return list(pool.map(_Job.run, jobs, generators))


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
    """The paper's diagonal PESN: state means and variances (T, N), the outputs' or None, and where it stopped.

    Inputs are Gaussian with mean and variance (T, d), None for certain ones. Units are taken as independent:
    v_a = (W_in∘W_in) v_z + (W_fb∘W_fb) v_y + (W∘W) v_h, then v_h ← (1 − L)² v_h + L² Var[tanh a] + M_e².

    Parameters
    ----------
    moments
        ``"surface"``: inside the compiled loop, within 1e-8 of :func:`pesn.moments`. Any other method of that function,
        or ``("spline", pesn.Mesh(...))``: step by step, slowly; ``rng`` is for ``"monte-carlo"``.

    The other parameters are those of :func:`run`; a teacher's outputs are certain.
    """
    method, mesh = named_method("moments", moments)
    job = _Job(reservoir, mean, state, feedback, readout, noise, name="mean")
    v = np.zeros_like(job.inputs) if var is None else _rows("var", var, reservoir.n_inputs, len(job.inputs))
    check_not_negative("var", v)
    return job.run_gaussian(v, method, mesh, np.random.default_rng(rng))


class _Job:
    """One sequence, checked and laid out for the kernels."""

    def __init__(
        self,
        reservoir: Reservoir,
        inputs: npt.ArrayLike,
        state: State | None,
        feedback: npt.ArrayLike | None,
        readout: npt.ArrayLike | None,
        noise: float,
        name: str = "inputs",
    ) -> None:
        n, d, m = reservoir.n_units, reservoir.n_inputs, reservoir.n_outputs
        if noise != 0.0 or type(noise) is not float:
            number("noise", noise, 0.0, math.inf, "[)")
        if state is not None and not isinstance(state, State):
            raise TypeError(f"state must be a pesn.reservoir.drive.State, got {type(state).__name__}")
        given = State(np.zeros(n)) if state is None else state
        self.reservoir, self.noise = reservoir, float(noise)
        self.inputs = _rows(name, inputs, d)
        self.h, self.h_var = _vector("state.mean", given.mean, n), _vector("state.var", given.var, n)
        self.y, self.y_var = _vector("state.output", given.output, m), _vector("state.output_var", given.output_var, m)
        self.teacher = frozen(np.empty((0, m))) if feedback is None else _rows("feedback", feedback, m, len(self.inputs))
        self.readout = None if readout is None else _rows("readout", readout, 1 + d + n, m)

    @property
    def _shape(self) -> tuple[int, int]:
        """Of the outputs."""
        return (0, 0) if self.readout is None else (len(self.inputs), self.reservoir.n_outputs)

    @property
    def _is_compiled(self) -> bool:
        return is_compiled(self.reservoir)

    def _loop(self, kernels: Any) -> tuple[Any, ...]:
        """What both kernels are told after the inputs: what is fed back, and the weights that read out."""
        fed = kernels.OWN if self.readout is not None else kernels.NOTHING
        fed = kernels.TEACHER if len(self.teacher) else fed
        return fed, self.teacher, _NOTHING if self.readout is None else self.readout, self.noise

    def _weights(self, kernels: Any) -> Any:
        return kernels.Weights(*kernel_weights(self.reservoir))

    def _without_units(self, var: Array) -> tuple[Array, Array, Array, Array]:
        """Where there are none: the inputs read out, row by row the same numbers however a run is cut."""
        states, outputs = np.empty((2, len(self.inputs), 0)), np.empty((2, *self._shape))
        y = np.stack([self.y, self.y_var])
        if self.readout is not None:
            outputs[0] = self.readout[:, 0] + np.einsum("td,md->tm", self.inputs, self.readout[:, 1:])
            outputs[1] = np.einsum("td,md->tm", var, np.square(self.readout[:, 1:]))
        if len(self.inputs) and len(self.teacher):
            y = np.stack([self.teacher[-1], 0.0 * self.y])
        elif len(self.inputs) and self.readout is not None:
            y = outputs[:, -1].copy()
        return states, outputs, np.empty((2, 0)), y

    def run(self, rng: np.random.Generator | None, outputs: Array | None = None) -> tuple[Array, Array | None, State]:
        assert outputs is None or (self._is_compiled and outputs.shape == self._shape)
        if not self.reservoir.n_units:
            states, found, h, y = self._without_units(np.zeros_like(self.inputs))
            return states[0], None if self.readout is None else found[0], State(h[0], None, y[0], None)
        if not self._is_compiled:
            return self._row_by_row(rng)
        from pesn.reservoir import kernels  # here, not above: it brings numba

        shape = len(self.inputs), self.reservoir.n_units
        states = rng.standard_normal(shape) if self.noise and rng is not None else np.empty(shape)
        outputs, h, y = np.empty(self._shape) if outputs is None else outputs, self.h.copy(), self.y.copy()
        kernels.drive(self._weights(kernels), self.inputs, *self._loop(kernels), h, y, states, outputs)
        return states, None if self.readout is None else outputs, State(h, None, y, None)

    def _row_by_row(self, rng: np.random.Generator | None) -> tuple[Array, Array | None, State]:
        """The same for every reservoir: the equations as they are written."""
        r, f, h, y = self.reservoir, get(self.reservoir.activation), self.h.copy(), self.y
        states, outputs = np.empty((len(self.inputs), r.n_units)), np.empty(self._shape)
        entering, layers = self.inputs @ r.W_in.T + r.bias, _layers(r)
        fed = bool(len(self.teacher)) or self.readout is not None
        for k, a in enumerate(entering):
            a = a + r.W_fb @ y if fed else a
            for rows, W, L, turn in layers:  # h holds the layers before as they are now
                kept = h[rows] if turn is None else turn @ h[rows]
                h[rows] = (1.0 - L) * kept + L * np.asarray(f(a[rows] + W @ h))
            if self.noise and rng is not None:
                h += self.noise * rng.standard_normal(len(h))
            states[k] = h
            if self.readout is not None:
                y = outputs[k] = self.readout @ np.concatenate([[1.0], self.inputs[k], h])
            if len(self.teacher):
                y = self.teacher[k]
        return states, None if self.readout is None else outputs, State(h, None, y.copy(), None)

    def run_gaussian(
        self, var: Array, method: MomentName, mesh: Mesh | None, rng: np.random.Generator
    ) -> tuple[Array, Array, tuple[Array, Array] | None, State]:
        check_not_negative("state.var", self.h_var)
        check_not_negative("state.output_var", self.y_var)
        if not self.reservoir.n_units:
            states, outputs, h, y = self._without_units(var)
        elif method != "surface" or not self._is_compiled:
            states, outputs, h, y = self._step_by_step(var, method, mesh, rng)
        else:
            states, outputs, h, y = self._in_turn(var)
        return states[0], states[1], None if self.readout is None else (outputs[0], outputs[1]), State(h[0], h[1], y[0], y[1])

    def _in_turn(self, var: Array) -> tuple[Array, Array, Array, Array]:
        """Rows that nothing makes uncertain by the deterministic kernel, to the bit, the others by the probabilistic one.

        Which of the two a row gets depends on the state before it and its own variance alone: not on how a run was cut.
        """
        from pesn.moments import tables
        from pesn.reservoir import kernels
        from pesn.reservoir.kernels import rules

        net, (fed, _, readout, noise) = self._weights(kernels), self._loop(kernels)
        n_rows = len(self.inputs)
        var, blurred = frozen(var), np.asarray(var.any(axis=1))
        states, outputs = np.empty((2, n_rows, len(self.h))), np.empty((2, *self._shape))
        h, y = np.stack([self.h, self.h_var]), np.stack([self.y, self.y_var])
        row = 0
        while row < n_rows:
            rest = slice(row, n_rows)
            if noise > 0.0 or h[1].any() or y[1].any() or blurred[row]:
                surface = tables.load(get("tanh"))
                # arrays of their own unless these are all rows: the kernels are compiled for contiguous ones
                new, out = (a if row == 0 else np.empty((2, *a[0, rest].shape)) for a in (states, outputs))
                both, given = h.T.copy(), (self.inputs[rest], var[rest], fed, self.teacher[rest], readout, noise)
                kernels.drive_gaussian(surface, rules(), net, *given, both, y, new, out)
                if row > 0:
                    states[:, rest], outputs[:, rest] = new, out
                h = both.T.copy()
                row, after = n_rows, row
                for r in after + np.flatnonzero(states[1, after : n_rows - 1, 0] == 0.0):  # has all variance died away?
                    left = outputs[1, r] if fed == kernels.OWN else y[1]
                    if not (noise > 0.0 or blurred[r + 1] or states[1, r].any() or left.any()):
                        h, row = states[:, r].copy(), int(r) + 1
                        y[0] = self.teacher[r] if fed == kernels.TEACHER else outputs[0, r] if fed == kernels.OWN else y[0]
                        y[1] = 0.0
                        break
            else:
                stop = row + int(np.argmax(blurred[rest])) if blurred[rest].any() else n_rows
                part = slice(row, stop)
                loop = self.inputs[part], fed, self.teacher[part], readout, noise
                kernels.drive(net, *loop, h[0], y[0], states[0, part], outputs[0, part])
                states[1, part], outputs[1, part], row = 0.0, 0.0, stop
        return states, outputs, h, y

    def _step_by_step(
        self, var: Array, method: MomentName, mesh: Mesh | None, rng: np.random.Generator
    ) -> tuple[Any, Any, Any, Any]:
        """The same by any method of :func:`pesn.moments`, for every reservoir: the formulas as they are written."""
        r, readout = self.reservoir, self.readout
        readout = np.zeros((r.n_outputs, 1 + r.n_inputs + r.n_units)) if readout is None else readout
        states, outputs = np.empty((2, len(self.inputs), r.n_units)), np.empty((2, len(self.inputs), r.n_outputs))
        h, v, y, y_var = self.h.copy(), self.h_var.copy(), self.y, self.y_var
        fed = bool(len(self.teacher)) or self.readout is not None
        moments = MomentMethod(get(r.activation), method, mesh=mesh, rng=rng)
        layers = [(*layer, layer[1].power(2)) for layer in _layers(r)]
        for k, (z, z_var) in enumerate(zip(self.inputs, var, strict=True)):
            a, a_var = r.W_in @ z + r.bias, r.W_in**2 @ z_var
            if fed:
                a, a_var = a + r.W_fb @ y, a_var + r.W_fb**2 @ y_var
            for rows, W, L, turn, squares in layers:
                unit, unit_var = moments(a[rows] + W @ h, a_var[rows] + squares @ v)
                kept, kept_var = (h[rows], v[rows]) if turn is None else (turn @ h[rows], np.square(turn) @ v[rows])
                # "spline-raw" can fall below 0, where no next step could start
                v[rows] = (1 - L) ** 2 * kept_var + L**2 * np.maximum(unit_var, 0.0)
                h[rows] = (1 - L) * kept + L * unit
            v += self.noise**2
            states[:, k] = h, v
            outputs[:, k] = readout @ np.concatenate([[1.0], z, h]), readout**2 @ np.concatenate([[0.0], z_var, v])
            if len(self.teacher):
                y, y_var = self.teacher[k], np.zeros_like(y)
            elif fed:
                y, y_var = outputs[0, k], outputs[1, k]
        return states, outputs, (h, v), (y.copy(), y_var.copy())


def _layers(r: Reservoir) -> list[tuple[slice, Any, Any, Array | None]]:
    """Of each layer its rows, what they have of W, their leak rates and their rotation."""
    leak: Any = np.broadcast_to(r.leak_rate, r.n_units)
    return [(rows, r.W[rows], leak[rows], None if r.rotation is None else r.rotation[rows, rows]) for rows in r.layer_rows]


def is_compiled(reservoir: Reservoir) -> bool:
    """Whether the compiled loops know such a reservoir."""
    return reservoir.activation == "tanh"


def kernel_weights(r: Reservoir) -> tuple[Array, ...]:
    """The parts of ``kernels.Weights``: W_in and W_fb by columns, over which the kernels vectorise."""
    rows = frozen(r.indptr, _UNSIGNED), frozen(r.indices, _UNSIGNED), frozen(r.data)
    leak, ends = np.full(r.n_units, r.leak_rate), np.array([layer.stop for layer in r.layer_rows])
    turn = _NOTHING if r.rotation is None else frozen(r.rotation.T)
    units = frozen(r.bias), frozen(leak), frozen(ends, _INDEX), turn
    return *rows, frozen(r.W_in.T), frozen(r.W_fb.T), *units


_DOUBLE, _UNSIGNED, _INDEX = np.dtype(np.float64), np.dtype(np.uint32), np.dtype(np.int64)


def frozen(values: Array, dtype: npt.DTypeLike = _DOUBLE) -> Array:
    """Contiguous and read-only, whatever was given: numba compiles once for each kind of array."""
    array = np.ascontiguousarray(values, dtype).view()
    array.setflags(write=False)
    return array


_NOTHING = frozen(np.empty((0, 0)))


def _rows(argument: str, value: npt.ArrayLike, width: int, length: int | None = None) -> Array:
    try:
        array = as_real(argument, value)
    except (TypeError, ValueError):
        _check_finite(argument, value)
        raise  # not numbers: as_real says what they are instead
    if array.ndim != 2 or array.shape[1] != width or (length is not None and len(array) != length):
        raise ValueError(f"{argument} must have shape ({'T' if length is None else length}, {width}), got {array.shape}")
    return frozen(array)


def _check_finite(argument: str, value: Any) -> None:
    """A ValueError with the row and the column of the first NaN or infinity, where there is one."""
    try:
        infinite = ~np.isfinite(np.asarray(value, dtype=float))
    except (TypeError, ValueError):
        return
    if infinite.ndim == 2 and infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise ValueError(
            f"{argument} must be finite, got {np.asarray(value)[row, column]} in row {row}, column {column}"
        ) from None


def _vector(argument: str, value: npt.ArrayLike | None, size: int) -> Array:
    if value is None:
        return np.zeros(size)
    array = as_real(argument, value)
    if array.shape != (size,):
        raise ValueError(f"{argument} must have shape ({size},), got {array.shape}")
    return np.ascontiguousarray(array, _DOUBLE)


def read(
    features: Features, reservoir: Reservoir, z: Array, state: State | None = None, *, readout: Any = None, **options: Any
) -> tuple[Array, Array, Array | None, State]:
    """:func:`pesn.reservoir.drive.run` with ``readout`` (m, p) over all features: those of rows, states, outputs, the last state.

    ``state.past`` are the rows before z (T, d); where it is None, the first row stands for them. The other options are run's.
    """
    before = None if state is None or state.past is None else rows_before(features, state.past, z.shape[1])
    rows = features.rows(z, before)
    if readout is None:
        states, _, end = run(reservoir, z, state, **options)
        return rows, states, None, end._replace(past=as_past(features, z, before))
    states, outputs, end = run(widened(features, reservoir), rows, state, readout=readout, **options)
    return rows, states, outputs, end._replace(past=as_past(features, z, before))


def widened(features: Features, reservoir: Reservoir) -> Reservoir:
    """The reservoir that takes all features of rows for inputs, though none but the row itself enters its units."""
    d = reservoir.n_inputs
    more = features.size(d, 0) - 1 - d
    return reservoir._replace(W_in=np.pad(reservoir.W_in, ((0, 0), (0, more)))) if more else reservoir


def rows_before(features: Features, past: Array, n_inputs: int) -> Array:
    """``past`` (E,), the newest row first, as rows (lags, d) in the order of time."""
    return past.reshape(features.lags, n_inputs)[::-1]


def as_past(features: Features, z: Array, before: Array | None) -> Array | None:
    """What :attr:`State.past` is after rows z (T, d); None where no earlier rows are wanted, or known."""
    if not features.lags or (before is None and not len(z)):
        return None
    return features.after(z, before)[::-1].ravel()
