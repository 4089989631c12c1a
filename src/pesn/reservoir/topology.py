"""How the units of a reservoir are connected: W by a name, by a function of one's own, or as a matrix.

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
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real

__all__ = ["NAMES", "Topology", "connect", "sparse_rows"]

Array = npt.NDArray[Any]
Topology = str | Callable[[int, np.random.Generator], Any] | Any  # a name, a function (n, rng) -> W, or W itself
NAMES = ("random", "ring")
_DENSE = 200  # units up to which all eigenvalues are found: as fast as ARPACK there
_KEPT, _KINDS = 100_000, (np.int32, np.int32, np.float64)  # weights of a matrix whose eigenvalue is kept; of compressed rows


def connect(topology: Topology, n: int, *, spectral_radius: float, density: float, rng: np.random.Generator) -> Any:
    """W (n, n), a SciPy array in compressed rows.

    Parameters
    ----------
    topology
        ``"random"``: ``density`` · n² weights, uniform on both sides of 0, one random cycle through all units among them.
        ``"ring"``: each unit enters the next one, all with one weight. A function (n, rng) that gives a matrix, dense or
        sparse. These are scaled to ``spectral_radius``. A matrix is taken as it is.
    """
    if isinstance(topology, str):
        if topology not in NAMES:
            raise ValueError(f"topology must be one of {', '.join(map(repr, NAMES))}, a function or a matrix, got {topology!r}")
        if topology == "ring":
            W = sparse_rows(np.arange(n + 1), np.roll(np.arange(n), 1), np.ones(n))
        else:
            indptr, indices = _pattern(n, density, rng)
            W = sparse_rows(indptr, indices, 2.0 * rng.random(len(indices)) - 1.0)
    elif callable(topology):
        W = _checked(topology(n, rng), n, "topology must give")
    else:
        return _checked(topology, n, "topology must be")
    radius = _largest_modulus(W)
    if not radius > 1e-12:
        if callable(topology):  # as are all of a feed-forward chain
            remedy = "topology must give a matrix with a cycle, to be scaled to spectral_radius, got one that is nilpotent"
            raise ValueError(f"{remedy}: all its eigenvalues are 0; a matrix itself is taken as it is")
        raise ValueError(f"density {density} leaves W nilpotent: all its eigenvalues are 0; raise density or n_units")
    W.data = W.data * (spectral_radius / radius)
    return W


def _checked(matrix: Any, n: int, must: str) -> Any:
    """A user's matrix as compressed rows, each with its columns in order."""
    sparse = import_module("scipy.sparse")
    if sparse.issparse(matrix):
        W = sparse.csr_array(matrix, dtype=np.float64, copy=True)
        W.sum_duplicates()
        as_real("topology", W.data)
    else:
        values = as_real("topology", matrix)
        W = sparse.csr_array(values.astype(np.float64)) if values.ndim == 2 else values
    if W.shape != (n, n):
        raise ValueError(f"{must} a matrix of shape {(n, n)} for {n} units, got {W.shape}")
    return W


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


def sparse_rows(indptr: Array, indices: Array, data: Array, n_columns: int | None = None) -> Any:
    """A SciPy array from its compressed rows, square unless ``n_columns`` are given."""
    n = len(indptr) - 1
    shape = n, n if n_columns is None else n_columns
    return import_module("scipy.sparse").csr_array((data, indices.astype(np.int32), indptr.astype(np.int32)), shape=shape)


def _largest_modulus(W: Any) -> float:
    """max|λ|; of the last few matrices it is known: reservoirs of one seed and size differ in their scalings alone."""
    rows = (np.asarray(part, kind).tobytes() for part, kind in zip((W.indptr, W.indices, W.data), _KINDS, strict=True))
    return float((_modulus if W.nnz <= _KEPT else _modulus.__wrapped__)(W.shape[0], *rows))


@lru_cache(maxsize=8)
def _modulus(n: int, *rows: bytes) -> float:
    """ARPACK from a fixed start, its answer checked; all eigenvalues where W is small or ARPACK does not converge."""
    indptr, indices, data = (np.frombuffer(part, kind) for part, kind in zip(rows, _KINDS, strict=True))
    W = sparse_rows(indptr, indices, data)
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
