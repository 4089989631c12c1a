"""Reservoir topologies: named rules, user functions and given matrices.

>>> CycleJumps(jump=2, weight=0.5)(6, np.random.default_rng(0)).toarray()[:3]
array([[0. , 0. , 0.5, 0. , 0.5, 1. ],
       [1. , 0. , 0. , 0. , 0. , 0. ],
       [0.5, 1. , 0. , 0. , 0.5, 0. ]])

>>> W = connect("ring", 5, spectral_radius=0.8, density=0.1, rng=np.random.default_rng(0))
>>> W.toarray().round(1)[:2]
array([[0. , 0. , 0. , 0. , 0.8],
       [0.8, 0. , 0. , 0. , 0. ]])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, number, whole_number
from pesn._support.records import check_remade

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Connections:
    """A rule: called with (n, rng) it gives W (n, n), a SciPy array in compressed rows."""

    radius: ClassVar[float | None] = None  # what is scaled to spectral_radius, where it is known; None: max|λ|

    def __call__(self, n: int, rng: np.random.Generator) -> csr_array:
        """W (n, n), not scaled yet.

        Parameters
        ----------
        n
            Units.
        rng
            What is drawn from.

        Returns
        -------
        scipy.sparse.csr_array
        """
        raise NotImplementedError

    def check(self, name: str) -> None:
        """A ValueError unless it is whole: one that came from a file was not made by its constructor."""
        check_remade(name, self)


@dataclass(frozen=True)
class Random(Connections):
    """``density`` · n² weights, uniform on both sides of 0, as many in each row; a random cycle through all units among them."""

    density: float = 0.1

    def __post_init__(self) -> None:
        _check_density(self)

    def __call__(self, n: int, rng: np.random.Generator) -> csr_array:  # noqa: D102
        density, n_weights = self.density, round(self.density * n * n)
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
        return _weighted(columns, rng)


@dataclass(frozen=True)
class ErdosRenyi(Connections):
    """Each of the n² weights is there with probability ``density``, uniform on both sides of 0.

    Some units may have no input from others, or none that leads back to them; at n · density well below 1 no cycle is left,
    which is refused where W is scaled.
    """

    density: float = 0.1

    def __post_init__(self) -> None:
        _check_density(self)

    def __call__(self, n: int, rng: np.random.Generator) -> csr_array:  # noqa: D102
        return _weighted([np.flatnonzero(rng.random(n) < self.density) for _ in range(n)], rng)


@dataclass(frozen=True)
class SmallWorld(Connections):
    """Neighbours on a ring, with shortcuts (Watts and Strogatz 1998): clustered, and a few steps from any unit to any other.

    Weights are uniform on both sides of 0, each way its own.

    Parameters
    ----------
    density
        The share of weights that are there: each unit takes in its nearest neighbours on both sides, as many on each, one at
        least.
    rewiring
        The probability with which each of these connections is moved, to a unit at random that is not there yet.
    """

    density: float = 0.1
    rewiring: float = 0.1

    def __post_init__(self) -> None:
        _check_density(self)
        number("rewiring", self.rewiring, 0.0, 1.0, "[]")
        object.__setattr__(self, "rewiring", float(self.rewiring))

    def __call__(self, n: int, rng: np.random.Generator) -> csr_array:  # noqa: D102
        half = max(1, round(0.5 * self.density * n))
        places = np.r_[-half:0, 1 : half + 1] if 2 * half < n else np.arange(1, n)
        columns = []
        for unit in range(n):
            taken = (unit + places) % n
            keys = rng.random(n)
            keys[taken], keys[unit] = 2.0, 3.0  # what is there already comes last, the unit itself at the very end
            free = np.argsort(keys)[: n - 1 - len(taken)]
            moved = np.flatnonzero(rng.random(len(taken)) < self.rewiring)[: len(free)]
            taken[moved] = free[: len(moved)]
            columns.append(np.sort(taken))
        return _weighted(columns, rng)


@dataclass(frozen=True)
class Ring(Connections):
    """Each unit enters the next one, all with one weight: the simple cycle reservoir (Rodan and Tiňo 2011)."""

    radius: ClassVar[float | None] = 1.0

    def __call__(self, n: int, rng: np.random.Generator) -> csr_array:  # noqa: D102
        return sparse_rows(np.arange(n + 1), np.roll(np.arange(n), 1), np.ones(n))


@dataclass(frozen=True)
class CycleJumps(Connections):
    """A ring with jumps both ways between every few units: one weight on the cycle, one on the jumps (Rodan and Tiňo 2012).

    Parameters
    ----------
    jump
        How many units further each leads, 2 or more; where it does not divide n, none spans the rest.
    weight
        Of a jump, as a share of the cycle's, above 0.
    """

    jump: int = 5
    weight: float = 0.5

    def __post_init__(self) -> None:
        whole_number("jump", self.jump, 2)
        number("weight", self.weight, 0.0, math.inf, "()")
        object.__setattr__(self, "jump", int(self.jump))
        object.__setattr__(self, "weight", float(self.weight))

    def __call__(self, n: int, rng: np.random.Generator) -> csr_array:  # noqa: D102
        if self.jump >= n:
            raise ValueError(f"jump must be smaller than the number of units, got jump={self.jump} and {n} units")
        units = np.arange(n)
        ends = np.append(units[:: self.jump], units[: n % self.jump == 0])  # back to the first one, where it divides n
        cycle = np.roll(units, -1) * n + units  # places in W, row by row
        jumps = np.concatenate([ends[1:] * n + ends[:-1], ends[:-1] * n + ends[1:]])
        jumps = np.setdiff1d(jumps, cycle)
        rows, columns = np.divmod(np.concatenate([cycle, jumps]), n)
        weights = np.concatenate([np.ones(n), np.full(len(jumps), self.weight)])
        order = np.lexsort((columns, rows))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
        return sparse_rows(indptr, columns[order], weights[order])


@dataclass(frozen=True)
class DelayLine(Connections):
    """A chain: each unit enters the next one, none the first. It forgets all that is more than n steps ago.

    All eigenvalues are 0: by convention (Rodan and Tiňo 2011) ``spectral_radius`` is the weight itself.
    """

    radius: ClassVar[float | None] = 1.0

    def __call__(self, n: int, rng: np.random.Generator) -> csr_array:  # noqa: D102
        return sparse_rows(np.maximum(np.arange(n + 1) - 1, 0), np.arange(n - 1), np.ones(n - 1))


@dataclass(frozen=True)
class Orthogonal(Connections):
    """A random orthogonal matrix: all eigenvalues are as large. Every weight is there; no density is asked."""

    radius: ClassVar[float | None] = 1.0

    def __call__(self, n: int, rng: np.random.Generator) -> csr_array:  # noqa: D102
        return import_module("scipy.sparse").csr_array(orthogonal(n, rng))


def orthogonal(n: int, rng: np.random.Generator) -> Array:
    """A random orthogonal matrix (n, n), all as likely (Haar): Q of normal numbers, its signs by those of R's diagonal.

    >>> Q = orthogonal(4, np.random.default_rng(0))
    >>> bool(np.allclose(Q @ Q.T, np.eye(4)))
    True
    """
    normal = import_module("scipy.special").ndtri(1.0 - rng.random((n, n)))  # in (0, 1]: 1 − u is never 0
    normal[np.isinf(normal)] = 0.0  # of 1, which comes once in 2⁵³
    Q, R = np.linalg.qr(normal)
    return np.asarray(Q * np.where(np.diagonal(R) < 0.0, -1.0, 1.0))


def sparse_rows(indptr: Array, indices: Array, data: Array, n_columns: int | None = None) -> csr_array:
    """A SciPy array from its compressed rows, square unless ``n_columns`` are given."""
    n = len(indptr) - 1
    shape = n, n if n_columns is None else n_columns
    return import_module("scipy.sparse").csr_array((data, indices.astype(np.int32), indptr.astype(np.int32)), shape=shape)


def _weighted(columns: list[Array], rng: np.random.Generator) -> csr_array:
    """W with uniform weights on both sides of 0 in these columns of each row."""
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in columns])])
    return sparse_rows(indptr, np.concatenate(columns), 2.0 * rng.random(indptr[-1]) - 1.0)


def _check_density(rule: Random | ErdosRenyi | SmallWorld) -> None:
    number("density", rule.density, 0.0, 1.0, "(]")
    object.__setattr__(rule, "density", float(rule.density))


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


def connect(topology: Topology, n: int, *, spectral_radius: float, density: float, rng: np.random.Generator) -> csr_array:
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


def _rule(topology: Topology, density: float) -> Callable[[int, np.random.Generator], csr_array]:
    """What gives W: the rule of a name, or the function itself."""
    if isinstance(topology, type):
        raise TypeError(f"topology must be a name, a rule, a function or a matrix, got the class {topology.__name__}; call it")
    if not isinstance(topology, str):
        return topology
    if topology not in _RULES:
        known = ", ".join(map(repr, NAMES))
        raise ValueError(f"topology must be one of {known}, a rule, a function or a matrix, got {topology!r}")
    return _RULES[topology](density)


def _checked(matrix: npt.ArrayLike | csr_array, n: int, must: str) -> csr_array:
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


def _largest_modulus(W: csr_array) -> float:
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


def _of_one_block(W: csr_array) -> float:
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


def _perron(W: csr_array) -> float:
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
