"""Topologies of reservoirs: by name, by a user's function, or a given matrix.

>>> W = connect("ring", 5, spectral_radius=0.8, density=0.1, rng=np.random.default_rng(0))
>>> W.toarray().round(1)[:2]
array([[0. , 0. , 0. , 0. , 0.8],
       [0.8, 0. , 0. , 0. , 0. ]])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = npt.NDArray[Any]
Topology = str | Callable[[int, np.random.Generator], Any] | Any  # a name, a function (n, rng) -> W, or W itself
NAMES = ("random", "ring", "orthogonal", "none")
_DENSE = 200  # largest size for the dense eigenvalue solver, as fast as ARPACK there
_KEPT, _KINDS = 100_000, (np.int32, np.int32, np.float64)  # largest number of weights for the cache; dtypes of compressed rows


def draw_random(n: int, density: float, rng: np.random.Generator) -> csr_array:
    """Draw W (n, n) with ``density`` · n² weights, uniform on [−1, 1], as many in each row, a cycle through all units among them.

    Raises
    ------
    ValueError
        If there are too few weights for the cycle.
    """
    n_weights = round(density * n * n)
    if n_weights < n:
        raise ValueError(
            f"density {density} leaves W nilpotent or disconnected: a cycle through its {n} units needs {n} weights, it has "
            f"{n_weights}; raise density to {math.ceil(1e6 / n) / 1e6:g}"
            + (f" or n_units to {math.ceil(1.0 / density)}" if density > 1e-6 else "")
        )
    # sorting what rng.random gives makes the permutations and the subsets
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
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return sparse_rows(indptr, np.concatenate(columns), 2.0 * rng.random(n_weights) - 1.0)


def orthogonal(n: int, rng: np.random.Generator) -> Array:
    """Draw an orthogonal matrix (n, n) from the Haar distribution: Q of normal numbers, signs from the diagonal of R.

    >>> Q = orthogonal(4, np.random.default_rng(0))
    >>> bool(np.allclose(Q @ Q.T, np.eye(4)))
    True
    """
    normal = import_module("scipy.special").ndtri(1.0 - rng.random((n, n)))  # in (0, 1]: 1 − u is never 0
    normal[np.isinf(normal)] = 0.0  # u = 1 has probability 2⁻⁵³
    Q, R = np.linalg.qr(normal)
    return np.asarray(Q * np.where(np.diagonal(R) < 0.0, -1.0, 1.0))


def sparse_rows(indptr: Array, indices: Array, data: Array) -> csr_array:
    """Return a square SciPy array from its compressed rows."""
    n = len(indptr) - 1
    return import_module("scipy.sparse").csr_array((data, indices.astype(np.int32), indptr.astype(np.int32)), shape=(n, n))


def connect(topology: Topology, n: int, *, spectral_radius: float, density: float, rng: np.random.Generator) -> csr_array:
    """Return W (n, n), a SciPy array in compressed rows.

    Parameters
    ----------
    topology : {"random", "ring", "orthogonal", "none"}, callable or array-like of shape (n, n)
        ``"random"``: see :func:`draw_random`. ``"ring"``: each unit enters the next one, all with one weight (simple cycle
        reservoir, Rodan and Tiňo 2011). ``"orthogonal"``: a random orthogonal matrix. A function (n, rng) gives a matrix, dense
        or sparse. All of these are scaled to ``spectral_radius``; a matrix is taken as it is. ``"none"``: no weights, so that
        units without a leak are functions of the current row (random features).
    n : int
        Number of units.
    spectral_radius : float
        max|λ|.
    density : float
        Share of non-zero weights of ``"random"``.
    rng : numpy.random.Generator
        Random number generator.

    Returns
    -------
    scipy.sparse.csr_array
    """
    if not isinstance(topology, str) and not callable(topology):
        return _check_matrix(topology, n, "topology must be")
    if isinstance(topology, str) and topology == "none":
        return sparse_rows(np.zeros(n + 1), np.zeros(0), np.zeros(0))
    W, radius = _draw(topology, n, density, rng)
    if not radius > 1e-12 * np.abs(W.data).max(initial=0.0):
        remedy = "topology must give a matrix with a cycle, to be scaled to spectral_radius, got one that is nilpotent"
        raise ValueError(f"{remedy}: all its eigenvalues are 0; a matrix itself is taken as it is")  # as of a chain
    with np.errstate(over="ignore"):
        W.data = W.data * (spectral_radius / radius)
    if not np.isfinite(W.data).all():
        raise ValueError(
            f"spectral_radius must leave the weights finite, got {spectral_radius!r} for a W whose own is {radius:.3g}"
        )
    return W


def _draw(topology: Topology, n: int, density: float, rng: np.random.Generator) -> tuple[csr_array, float]:
    """Draw W before it is scaled, and return its spectral radius."""
    if isinstance(topology, type):
        raise TypeError(f"topology must be a name, a function or a matrix, got the class {topology.__name__}; call it")
    if callable(topology):
        W = _check_matrix(topology(n, rng), n, "topology must give")
        return W, _largest_eigenvalue(W)
    if topology == "random":
        W = draw_random(n, density, rng)
        return W, _largest_eigenvalue(W)
    if topology == "ring":
        return sparse_rows(np.arange(n + 1), np.roll(np.arange(n), 1), np.ones(n)), 1.0
    if topology == "orthogonal":
        return import_module("scipy.sparse").csr_array(orthogonal(n, rng)), 1.0
    raise ValueError(f"topology must be one of {', '.join(map(repr, NAMES))}, a function or a matrix, got {topology!r}")


def _check_matrix(matrix: npt.ArrayLike | csr_array, n: int, must: str) -> csr_array:
    """Convert a user's matrix to compressed rows with sorted columns; raise a ValueError if its shape is wrong."""
    sparse = import_module("scipy.sparse")
    if sparse.issparse(matrix):
        W = sparse.csr_array(matrix, copy=True)
        W.data = as_real("topology", W.data).astype(np.float64)
        W.sum_duplicates()
    else:
        values = as_real("topology", matrix)
        W = sparse.csr_array(values.astype(np.float64)) if values.ndim == 2 else values
    if W.shape != (n, n):
        raise ValueError(f"{must} a matrix of shape {(n, n)} for {n} units, got {W.shape}")
    return W


def _largest_eigenvalue(W: csr_array) -> float:
    """Return max|λ|, cached: reservoirs of one seed and size often differ in their scalings only."""
    rows = (np.asarray(part, kind).tobytes() for part, kind in zip((W.indptr, W.indices, W.data), _KINDS, strict=True))
    return float((_spectral_radius if W.nnz <= _KEPT else _spectral_radius.__wrapped__)(W.shape[0], *rows))


@lru_cache(maxsize=8)
def _spectral_radius(n: int, *rows: bytes) -> float:
    """Return max|λ| block by block: ordered by its strongly connected components W is block triangular.

    Weights between the blocks do not change eigenvalues, but would cost a solver its digits: the zeros of a chain become 1e-2.
    """
    indptr, indices, data = (np.frombuffer(part, kind) for part, kind in zip(rows, _KINDS, strict=True))
    W = sparse_rows(indptr, indices, data)
    count, label = import_module("scipy.sparse.csgraph").connected_components(W, connection="strong")
    if count == 1:
        return _block_radius(W)
    sizes = np.bincount(label)
    alone = np.abs(W.diagonal()[sizes[label] == 1]).max(initial=0.0)
    blocks = [np.flatnonzero(label == one) for one in np.flatnonzero(sizes > 1)]
    return float(max([alone, *(_block_radius(W[units][:, units]) for units in blocks)]))


def _block_radius(W: csr_array) -> float:
    """Return max|λ| of a connected block by ARPACK from a fixed start, verified; by a dense solver if small or not converged."""
    n = W.shape[0]
    if W.nnz == n:  # a single cycle: closed form, since its eigenvalues are ill-conditioned
        return float(np.exp(np.mean(np.log(np.abs(W.data)))))
    if n > _DENSE:
        linalg = import_module("scipy.sparse.linalg")
        start = np.random.default_rng(0).random(n) - 0.5
        try:
            # several at a time: the largest eigenvalues often have nearly equal modulus
            values, vectors = linalg.eigs(W, k=6, which="LM", v0=start, ncv=60, maxiter=150, tol=0)
        except linalg.ArpackError:
            pass
        else:
            top = np.argmax(np.abs(values))
            value, vector = values[top], vectors[:, top]
            if np.linalg.norm(W @ vector - value * vector) <= 1e-12 * abs(value):
                return float(abs(value))
    return float(np.abs(np.linalg.eigvals(W.toarray())).max())
