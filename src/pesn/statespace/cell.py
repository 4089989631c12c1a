"""The units with what enters them, and the noise that is added to them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pesn.activations import get
from pesn.linalg import orthonormal, outer
from pesn.moments import MomentMethod

__all__ = ["TANH", "Coupling", "Noise"]

Array = npt.NDArray[np.float64]
TANH = get("tanh")


class Coupling:
    """The units with what enters them: a = C c + W h + offset. ``outputs`` (m, N): how the readout sees the units.

    ``rank`` and ``products`` are of :class:`LowRank`: the columns of its factor, and how many of them are multiplied with each
    other for tanh's second order. ``method`` and ``mesh`` say how moments pass tanh.
    """

    def __init__(
        self,
        reservoir: Any,
        C: Array,
        outputs: Array | None = None,
        *,
        rank: int = 40,
        products: int = 4,
        method: str = "surface",
        mesh: Any = None,
        rng: Any = None,
    ) -> None:
        self.leak, self.bias = float(reservoir.leak_rate), np.asarray(reservoir.bias, float)
        self.W, self.C = reservoir.W, np.ascontiguousarray(C)
        self.rank, self.products = rank, products
        self.outputs = np.zeros((0, reservoir.n_units)) if outputs is None else outputs
        self.basis = orthonormal(self.outputs.T)  # of what the readout sees
        self._method = MomentMethod(TANH, method, mesh=mesh, rng=rng)
        self._entering = _unsigned(sparse.hstack([sparse.csr_array(self.C), self.W], format="csr"))
        self._rows, self._columns = _unsigned(self.W), _unsigned(self.W.T.tocsr())
        self.squares, self.diagonal = self.W.power(2), self.W.diagonal()
        self.exact = method in ("surface", "exact")  # else a method may see less variance than there is

    def enter(self, *x: Array) -> Array:
        """C c + W h for the columns of x (p + N, s), or of several side by side."""
        return self.enter_padded(*x)[:, : sum(part.shape[1] for part in x)]

    def enter_padded(self, *x: Array) -> Array:
        """The same with columns of zeros up to a multiple of 8, contiguous: numba compiles once for each layout."""
        return _product(self._entering, x)

    def times(self, x: Array) -> Array:
        """W x for the columns of x (N, s)."""
        return _product(self._rows, (x,))[:, : x.shape[1]]

    def times_transposed(self, x: Array) -> Array:
        """Wᵀ x."""
        return _product(self._columns, (x,))[:, : x.shape[1]]

    def moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        """Mean and variance of tanh of the pre-activations."""
        if not var.any():
            return np.tanh(mean), var
        unit, unit_var = self._method(mean, var)
        return unit, unit_var

    def gain(self, mean: Array, var: Array) -> Array:
        """E[tanh′] of the pre-activations."""
        g: Array = self._method.gain(mean, var)
        return g


@dataclass(frozen=True, eq=False)
class Noise:
    """A covariance between the units, added at each step: ``root`` (r, N) with Q = rootᵀ root, and ``diagonal`` (N,)."""

    root: Array
    diagonal: Array

    def cov(self) -> Array:
        """Q as a matrix (N, N)."""
        return outer(self.root.T) + np.diag(self.diagonal)  # type: ignore[no-any-return]

    def variances(self) -> Array:
        """The diagonal of Q."""
        result: Array = np.sum(np.square(self.root), axis=0) + self.diagonal
        return result


def _unsigned(W: Any) -> tuple[Array, Array, Array]:
    return W.indptr.astype(np.uint32), W.indices.astype(np.uint32), np.ascontiguousarray(W.data, float)


def _product(rows: tuple[Array, Array, Array], parts: tuple[Array, ...]) -> Array:
    """W x, the columns of x given in parts, and zeros behind them: each row on a line of the cache and of whole vectors."""
    width = sum(part.shape[1] for part in parts)
    x, out = (_lines(n, -8 * (-width // 8)) for n in (len(parts[0]), len(rows[0]) - 1))
    np.concatenate(parts, axis=1, out=x[:, :width])
    x[:, width:] = 0.0
    import_module("pesn.statespace.kernels").sparse_times(*rows, x, out)
    return out


def _lines(n: int, width: int) -> Array:
    """An empty array (n, width) that begins on a line of the cache."""
    room = np.empty(n * width + 7)
    skip = -(room.ctypes.data // 8) % 8
    return room[skip : skip + n * width].reshape(n, width)
