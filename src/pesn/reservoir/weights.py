"""Drawing a reservoir: sparse random weights with an exact spectral radius, the same on every platform.

>>> reservoir = draw(100, n_inputs=1, n_outputs=1, rng=0)
>>> reservoir.W.nnz
1000
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real
from pesn._support.checks import number, whole_number

__all__ = ["Reservoir", "Seed", "check", "draw"]

Array = npt.NDArray[Any]
Seed = int | Sequence[int] | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None

_DENSE = 200  # units up to which all eigenvalues are found: as fast as ARPACK there


class Reservoir(NamedTuple):
    """The fixed weights: W (N, N) in compressed rows, W_in (N, d), W_fb (N, m), bias (N,), the leak rate L."""

    indptr: Array
    indices: Array
    data: Array
    W_in: Array
    W_fb: Array
    bias: Array
    leak_rate: float

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
        return _sparse(self.indptr, self.indices, self.data)


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
    rng: Seed = None,
) -> Reservoir:
    """A random reservoir.

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
    indptr, indices = _pattern(int(n_units), float(density), generator)
    data = uniform(len(indices))
    radius = _largest_modulus(_sparse(indptr, indices, data))
    if not radius > 1e-12:
        raise ValueError(f"density {density} leaves W nilpotent: all its eigenvalues are 0; raise density or n_units")
    return Reservoir(indptr, indices, data * (spectral_radius / radius), W_in, W_fb, bias, float(leak_rate))


def _pattern(n: int, density: float, rng: np.random.Generator) -> tuple[Array, Array]:
    n_weights = round(density * n * n)
    if n_weights < n:
        raise ValueError(
            f"density {density} leaves W nilpotent or disconnected: a cycle through its {n} units needs {n} weights, it has "
            f"{n_weights}; raise density to {math.ceil(1e6 / n) / 1e6:g}"
            + (f" or n_units to {math.ceil(1.0 / density)}" if density > 1e-6 else "")
        )
    # Only rng.random, whose stream is the same everywhere; sorting it gives the permutations and the subsets.
    cycle = np.argsort(rng.random(n))
    after = np.empty(n, np.int64)
    after[cycle] = np.roll(cycle, 1)
    counts = np.full(n, n_weights // n)
    counts[np.argsort(rng.random(n))[: n_weights % n]] += 1
    columns = []
    for unit, count in enumerate(counts):
        keys = rng.random(n)
        keys[after[unit]] = -1.0
        columns.append(np.sort(np.argpartition(keys, count - 1)[:count]))
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32), np.concatenate(columns).astype(np.uint32)


def _sparse(indptr: Array, indices: Array, data: Array) -> Any:
    n = len(indptr) - 1
    return import_module("scipy.sparse").csr_array((data, indices.astype(np.int32), indptr.astype(np.int32)), shape=(n, n))


def _largest_modulus(W: Any) -> float:
    """max|λ|: ARPACK from a fixed start, its answer checked; all eigenvalues where W is small or ARPACK does not converge."""
    n = W.shape[0]
    if W.nnz == n:  # the cycle alone, a circle of eigenvalues too ill-conditioned for any solver: in closed form
        return float(np.exp(np.mean(np.log(np.abs(W.data)))))
    if n > _DENSE:
        linalg = import_module("scipy.sparse.linalg")
        start = np.random.default_rng(0).random(n) - 0.5
        try:
            # several at a time: the largest are often pairs of nearly the same modulus, and one alone could be the wrong one
            values, vectors = linalg.eigs(W, k=6, which="LM", v0=start, ncv=60, maxiter=150, tol=0)
        except linalg.ArpackError:
            pass
        else:
            top = np.argmax(np.abs(values))
            value, vector = values[top], vectors[:, top]
            if np.linalg.norm(W @ vector - value * vector) <= 1e-12 * abs(value):
                return float(abs(value))
    return float(np.abs(np.linalg.eigvals(W.toarray())).max())


def check(reservoir: Reservoir) -> None:
    """A ValueError unless the arrays fit together: the kernels look nothing up twice, so call this on what was not drawn."""
    for name in ("indptr", "indices", "data", "bias"):
        if np.ndim(getattr(reservoir, name)) != 1:
            raise ValueError(f"{name} must have one axis, got shape {np.shape(getattr(reservoir, name))}")
    n = len(reservoir.bias)
    if n < 1:
        raise ValueError("bias must have an entry for each unit, got none")
    indptr, indices, data = (np.asarray(a) for a in reservoir[:3])
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
        as_real(name, getattr(reservoir, name))
    for name in ("W_in", "W_fb"):
        if np.ndim(getattr(reservoir, name)) != 2 or len(getattr(reservoir, name)) != n:
            raise ValueError(f"{name} must have shape ({n}, …), got {np.shape(getattr(reservoir, name))}")
    number("leak_rate", reservoir.leak_rate, 0.0, 1.0, "(]")
