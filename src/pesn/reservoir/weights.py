"""Drawing a reservoir: sparse random weights with an exact spectral radius, the same on every platform.

>>> reservoir = draw(100, n_inputs=1, n_outputs=1, rng=0)
>>> reservoir.W.nnz
1000
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real
from pesn._support.checks import number, whole_number
from pesn.activations import Activation, get, names
from pesn.reservoir.topology import Topology, connect, sparse_rows

__all__ = ["Reservoir", "Seed", "draw", "without_units"]

Array = npt.NDArray[Any]
Seed = int | Sequence[int] | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None

_NOTHING = 1e-6  # what the last state may add to a unit that has no memory


class Reservoir(NamedTuple):
    """The fixed weights: W (N, N) in compressed rows, W_in (N, d), W_fb (N, m), bias (N,), the leak rate L; the activation."""

    indptr: Array
    indices: Array
    data: Array
    W_in: Array
    W_fb: Array
    bias: Array
    leak_rate: float
    activation: str | Activation = "tanh"

    @property
    def n_units(self) -> int:
        """N."""
        return len(self.bias)

    @property
    def n_inputs(self) -> int:
        """d."""
        return int(self.W_in.shape[1])

    @property
    def n_outputs(self) -> int:
        """m, the outputs that are fed back."""
        return int(self.W_fb.shape[1])

    @property
    def W(self) -> Any:
        """W as a SciPy sparse array."""
        return sparse_rows(self.indptr, self.indices, self.data)

    @property
    def is_static(self) -> bool:
        """Whether there are units and all are a function of the row alone: nothing that came before it adds to them."""
        ends = self.indptr.astype(np.intp)
        row = np.repeat(np.arange(self.n_units), ends[1:] - ends[:-1])
        largest = np.bincount(row, weights=np.abs(self.data), minlength=1).max()
        return bool(self.n_units and self.leak_rate == 1.0 and largest <= _NOTHING and not np.any(self.W_fb))

    def beside(self, C: Array) -> Any:
        """[C, W] for C (N, c), as a SciPy sparse array; its own ``hstack`` takes as long as several steps of a loop."""
        own, places = np.nonzero(C)
        indptr = self.indptr.astype(np.intp)
        rows = np.concatenate([own, np.repeat(np.arange(self.n_units), indptr[1:] - indptr[:-1])])
        order = np.argsort(rows, kind="stable")
        columns = np.concatenate([places, self.indices.astype(np.intp) + C.shape[1]])[order]
        data = np.concatenate([C[own, places], self.data])[order]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.n_units))])
        return sparse_rows(indptr, columns, data, C.shape[1] + self.n_units)

    def check(self) -> None:
        """A ValueError unless the arrays fit together: the kernels look nothing up twice, so ask it of what was not drawn."""
        for name in ("indptr", "indices", "data", "bias"):
            if np.ndim(getattr(self, name)) != 1:
                raise ValueError(f"{name} must have one axis, got shape {np.shape(getattr(self, name))}")
        n = len(self.bias)
        indptr, indices, data = (np.asarray(a) for a in self[:3])
        if indptr.dtype != np.uint32 or indices.dtype != np.uint32:
            raise ValueError(f"indptr and indices must be uint32, got {indptr.dtype} and {indices.dtype}")
        steps = np.diff(indptr.astype(np.int64))
        if indptr.shape != (n + 1,) or indptr[0] != 0 or (steps < 0).any() or not len(indices) == len(data) == indptr[-1]:
            raise ValueError(
                f"indptr, indices and data must describe {n} rows, got {len(indptr)}, {len(indices)}, {len(data)} entries"
            )
        if (indices >= n).any():
            raise ValueError(f"indices must be below n_units = {n}, got {indices.max()}")
        for name in ("data", "W_in", "W_fb", "bias"):
            as_real(name, getattr(self, name))
        for name in ("W_in", "W_fb"):
            if np.ndim(getattr(self, name)) != 2 or len(getattr(self, name)) != n:
                raise ValueError(f"{name} must have shape ({n}, …), got {np.shape(getattr(self, name))}")
        number("leak_rate", self.leak_rate, 0.0, 1.0, "(]")
        get(self.activation)


def draw(
    n_units: int,
    n_inputs: int,
    n_outputs: int,
    *,
    spectral_radius: float = 0.9,
    leak_rate: float = 0.5,
    density: float = 0.1,
    input_scaling: float = 0.5,
    feedback_scaling: float = 0.0,
    bias_scaling: float = 0.2,
    topology: Topology = "random",
    activation: str | Activation = "tanh",
    rng: Seed = None,
) -> Reservoir:
    """A random reservoir, or one whose units are connected as ``topology`` says (:func:`pesn.reservoir.topology.connect`).

    W has exactly round(density · N²) non-zero weights, uniform on both sides of 0, shared evenly among the rows. One
    random cycle through all units is among them, so that every unit reaches every other. W is scaled by r / max|λ|, which
    makes its spectral radius ``spectral_radius`` to 1e-10. W_fb and bias are uniform on ± their scaling, W_in on
    ± input_scaling/√n_inputs: what inputs of variance 1 add to a unit does not grow with their number. The same ``rng`` gives
    the same random numbers whatever the scalings, on every platform.

    >>> W = draw(300, 1, 1, spectral_radius=0.95, density=0.05, rng=0).W
    >>> W.nnz, round(float(abs(np.linalg.eigvals(W.toarray())).max()), 10)
    (4500, 0.95)
    """
    for size, name, least in ((n_units, "n_units", 1), (n_inputs, "n_inputs", 0), (n_outputs, "n_outputs", 0)):
        whole_number(name, size, least)
    number("spectral_radius", spectral_radius, 0.0, math.inf, "()")
    number("leak_rate", leak_rate, 0.0, 1.0, "(]")
    number("density", density, 0.0, 1.0, "(]")
    number("input_scaling", input_scaling, 0.0, math.inf, "[)")
    number("feedback_scaling", feedback_scaling, 0.0, math.inf, "[)")
    number("bias_scaling", bias_scaling, 0.0, math.inf, "[)")
    generator = np.random.default_rng(rng)

    def uniform(*shape: int) -> Array:
        return 2.0 * generator.random(shape) - 1.0

    W_in = input_scaling / math.sqrt(max(n_inputs, 1)) * uniform(n_units, n_inputs)
    W_fb = feedback_scaling * uniform(n_units, n_outputs)
    bias = bias_scaling * uniform(n_units)
    W = connect(topology, int(n_units), spectral_radius=spectral_radius, density=float(density), rng=generator)
    rows = W.indptr.astype(np.uint32), W.indices.astype(np.uint32), np.asarray(W.data, np.float64)
    return Reservoir(*rows, W_in, W_fb, bias, float(leak_rate), kept_activation(activation))


def without_units(n_inputs: int, n_outputs: int) -> Reservoir:
    """A reservoir of no units, for readouts that see rows alone.

    >>> without_units(3, 2).n_units
    0
    """
    nothing = np.empty(0, np.uint32)
    W_in, W_fb = np.empty((0, n_inputs)), np.empty((0, n_outputs))
    return Reservoir(np.zeros(1, np.uint32), nothing, np.empty(0), W_in, W_fb, np.empty(0), 1.0)


def kept_activation(activation: str | Activation) -> str | Activation:
    """A shipped activation by its name, which a file can hold; one's own as it is."""
    record = get(activation)
    return record.name if record.name in names() and get(record.name) is record else record
