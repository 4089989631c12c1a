"""How the units of a reservoir are connected: W by a name, by a function of one's own, or as a matrix.

>>> W = connect("ring", 5, spectral_radius=0.8, density=0.1, rng=np.random.default_rng(0))
>>> W.toarray().round(1)[:2]
array([[0. , 0. , 0. , 0. , 0.8],
       [0.8, 0. , 0. , 0. , 0. ]])
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from pesn._support.arguments import as_real
from pesn.reservoir.generators import (
    Connections,
    CycleJumps,
    DelayLine,
    ErdosRenyi,
    Orthogonal,
    Random,
    Ring,
    SmallWorld,
    sparse_rows,
)

__all__ = [
    "NAMES",
    "Connections",
    "CycleJumps",
    "DelayLine",
    "ErdosRenyi",
    "Orthogonal",
    "Random",
    "Ring",
    "SmallWorld",
    "Topology",
    "connect",
    "sparse_rows",
]

Topology = str | Callable[[int, np.random.Generator], Any] | Any  # a name, a function (n, rng) -> W, or W itself
_RULES: dict[str, Callable[[float], Connections]] = {  # by name, each of a density
    "random": Random,
    "ring": lambda _: Ring(),
    "cycle-jumps": lambda _: CycleJumps(),
    "delay-line": lambda _: DelayLine(),
    "small-world": SmallWorld,
    "erdos-renyi": ErdosRenyi,
    "orthogonal": lambda _: Orthogonal(),
}
NAMES = tuple(_RULES)
_DENSE = 200  # units up to which all eigenvalues are found: as fast as ARPACK there
_FEW = 8  # weights a row up to which a factor of W is sparse
_KEPT, _KINDS = 100_000, (np.int32, np.int32, np.float64)  # weights of a matrix whose eigenvalue is kept; of compressed rows


def connect(topology: Topology, n: int, *, spectral_radius: float, density: float, rng: np.random.Generator) -> Any:
    """W (n, n), a SciPy array in compressed rows.

    Parameters
    ----------
    topology
        A name: ``"random"``, ``"ring"``, ``"cycle-jumps"``, ``"delay-line"``, ``"small-world"``, ``"erdos-renyi"`` or
        ``"orthogonal"``; a rule with parameters (:class:`SmallWorld` and others of this module), which a name is with its
        defaults; or a function (n, rng) that gives a matrix, dense or sparse. These are scaled to ``spectral_radius``, a delay
        line so that it is the weight. A matrix is taken as it is.
    n
        Units.
    spectral_radius
        max|λ|.
    density
        The share of weights that are there, of "random", "small-world" and "erdos-renyi"; the others do not ask.
    rng
        What is drawn from.

    Returns
    -------
    scipy.sparse.csr_array
    """
    if not isinstance(topology, str) and not callable(topology):
        return _checked(topology, n, "topology must be")
    rule = _rule(topology, density)
    ours = isinstance(rule, Connections)
    W = rule(n, rng) if ours else _checked(rule(n, rng), n, "topology must give")
    radius = rule.radius if isinstance(rule, Connections) and rule.radius is not None else _largest_modulus(W)
    if not radius > 1e-12 * np.abs(W.data).max(initial=0.0):
        if ours:
            sparse = getattr(rule, "density", density)
            raise ValueError(f"density {sparse} leaves W nilpotent: all its eigenvalues are 0; raise density or n_units")
        remedy = "topology must give a matrix with a cycle, to be scaled to spectral_radius, got one that is nilpotent"
        raise ValueError(f"{remedy}: all its eigenvalues are 0; a matrix itself is taken as it is")  # as a chain's are
    with np.errstate(over="ignore"):
        W.data = W.data * (spectral_radius / radius)
    if not np.isfinite(W.data).all():
        raise ValueError(
            f"spectral_radius must leave the weights finite, got {spectral_radius!r} for a W whose own is {radius:.3g}"
        )
    return W


def _rule(topology: Any, density: float) -> Callable[[int, np.random.Generator], Any]:
    """What gives W: the rule of a name, or the function itself."""
    if isinstance(topology, type):
        raise TypeError(f"topology must be a name, a rule, a function or a matrix, got the class {topology.__name__}; call it")
    if not isinstance(topology, str):
        return topology
    if topology not in _RULES:
        known = ", ".join(map(repr, NAMES))
        raise ValueError(f"topology must be one of {known}, a rule, a function or a matrix, got {topology!r}")
    return _RULES[topology](density)


def _checked(matrix: Any, n: int, must: str) -> Any:
    """A user's matrix as compressed rows, each with its columns in order."""
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


def _largest_modulus(W: Any) -> float:
    """max|λ|; of the last few matrices it is known: reservoirs of one seed and size differ in their scalings alone."""
    rows = (np.asarray(part, kind).tobytes() for part, kind in zip((W.indptr, W.indices, W.data), _KINDS, strict=True))
    return float((_modulus if W.nnz <= _KEPT else _modulus.__wrapped__)(W.shape[0], *rows))


@lru_cache(maxsize=8)
def _modulus(n: int, *rows: bytes) -> float:
    """Block by block: ordered by its strongly connected components W is block triangular, and has their eigenvalues.

    What lies between the blocks is no part of them, but would cost a solver its digits: a chain's zeros become 1e-2.
    """
    indptr, indices, data = (np.frombuffer(part, kind) for part, kind in zip(rows, _KINDS, strict=True))
    W = sparse_rows(indptr, indices, data)
    count, label = import_module("scipy.sparse.csgraph").connected_components(W, connection="strong")
    if count == 1:
        return _of_one_block(W)
    sizes = np.bincount(label)
    alone = np.abs(W.diagonal()[sizes[label] == 1]).max(initial=0.0)
    blocks = [np.flatnonzero(label == one) for one in np.flatnonzero(sizes > 1)]
    return float(max([alone, *(_of_one_block(W[units][:, units]) for units in blocks)]))


def _of_one_block(W: Any) -> float:
    """ARPACK from a fixed start, its answer checked; all eigenvalues where W is small or ARPACK does not converge."""
    n = W.shape[0]
    if W.nnz == n:  # one cycle alone, a circle of eigenvalues too ill-conditioned for any solver: in closed form
        return float(np.exp(np.mean(np.log(np.abs(W.data)))))
    if n > _DENSE and W.nnz <= _FEW * n and W.data.min() > 0.0 and not np.isnan(value := _perron(W)):
        return value
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


def _perron(W: Any) -> float:
    """The largest eigenvalue of a block of positive weights, between bounds that close on it (Noda 1971); NaN where they do not.

    Cycles with jumps have many eigenvalues of nearly the same modulus, among which ARPACK finds none.
    """
    linalg, n = import_module("scipy.sparse.linalg"), W.shape[0]
    identity = import_module("scipy.sparse").eye_array(n, format="csc")
    vector, columns = np.ones(n), W.tocsc()
    for _ in range(60):
        bounds = (W @ vector) / vector  # min ≤ max|λ| ≤ max, of any positive vector (Collatz and Wielandt)
        if np.ptp(bounds) <= 1e-12 * bounds.max():
            return float(bounds.max())
        vector = linalg.spsolve(bounds.max() * identity - columns, vector)
        vector /= vector.max()
        if not vector.min() > np.finfo(float).tiny:  # weights so unequal that the vector underflows
            break
    return float("nan")
