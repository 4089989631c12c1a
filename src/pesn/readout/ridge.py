"""The readout y = W b: ridge regression in one pass over the data, and what its answer does not know.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> features = np.column_stack([np.ones(500), rng.normal(size=(500, 2))])
>>> targets = features @ [[0.5], [1.0], [-2.0]] + 0.1 * rng.normal(size=(500, 1))
>>> readout = solve(least_squares(3, 1, 1e-6).add(features[:300], targets[:300]).add(features[300:], targets[300:]), ridge=1e-6)
>>> readout.weights.round(1)
array([[ 0.5,  1. , -2. ]])
>>> parts = predictive_variance(readout, features[:1])
>>> {name: float(np.sqrt(part[0, 0]).round(3)) for name, part in parts.items()}
{'state': 0.0, 'noise': 0.101, 'weights': 0.005}
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack, solve_triangular
from scipy.linalg.blas import dsyrk

from pesn._support.arguments import as_covariance, as_real, as_rows, check_not_negative
from pesn._support.records import check_arrays, check_counts
from pesn._support.types import FloatArray
from pesn.linalg import outer, symmetric
from pesn.readout.groups import Groups, Part

_CHUNK = 4096  # rows at a time: dsyrk is at its full speed, temporaries stay small
_WORST = 1e-13  # the reciprocal condition below which a Cholesky factor is not trusted
_PILOT = 1e-10  # the pilot's ridge, as a share of each feature's own square sum
_FAINT = 1e-20  # the same, as a share of the largest square sum: features 1e-10 times smaller than others have no pilot


class Gram:
    """Σ b bᵀ, Σ b rᵀ, Σ r rᵀ and n, added up block by block in memory O(p²), whatever the number of rows.

    r = y − V b, where V is a *pilot*: the least-squares weights of the first 2p rows, which are held back until they are
    complete. Any V gives the same readout in exact arithmetic. With V = 0 the residual sum of squares of an accurate readout
    is a small difference of large numbers (at an error of 1e-6 nothing is left of it); with the pilot nothing large is
    ever summed, and the final solution is one step of iterative refinement.
    """

    def __init__(self, n_features: int, n_targets: int) -> None:
        for name, value in (("n_features", n_features), ("n_targets", n_targets)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        p, m = int(n_features), int(n_targets)
        self.n_samples = 0
        self.pilot: FloatArray | None = None
        self._held_features, self._held_targets = np.empty((2 * p, p)), np.empty((2 * p, m))
        self._square: FloatArray = np.zeros((p, p), order="F")  # its lower triangle, where dsyrk adds in place
        self._cross: FloatArray = np.zeros((p, m))
        self._residual: FloatArray = np.zeros((m, m))

    @property
    def n_features(self) -> int:
        """p, the length of a feature vector b."""
        return int(self._cross.shape[0])

    @property
    def n_targets(self) -> int:
        """m, the length of a target y."""
        return int(self._cross.shape[1])

    def add(self, features: npt.ArrayLike, targets: npt.ArrayLike) -> Gram:
        """``features`` (n, p) and ``targets`` (n, m); returns itself. Refused data leave it as it was."""
        b, y = as_rows("features", features, self.n_features), as_rows("targets", targets, self.n_targets)
        if len(b) != len(y):
            raise ValueError(f"features and targets must have as many rows, got {len(b)} and {len(y)}")
        start = 0
        if self.pilot is None:
            size, held = len(self._held_features), self.n_samples
            start = min(size - held, len(b))
            self._held_features[held : held + start], self._held_targets[held : held + start] = b[:start], y[:start]
            self.n_samples += start
            if self.n_samples == size:
                self._settle()
        for i in range(start, len(b), _CHUNK):
            self._accumulate(b[i : i + _CHUNK], y[i : i + _CHUNK])
            self.n_samples += len(b[i : i + _CHUNK])
        return self

    def merge(self, other: Gram) -> Gram:
        """Add what ``other`` has seen; returns itself. ``other`` is left as it is."""
        if (self.n_features, self.n_targets) != (other.n_features, other.n_targets):
            sizes = f"{(self.n_features, self.n_targets)} and {(other.n_features, other.n_targets)}"
            raise ValueError(f"merged Grams must have the same numbers of features and targets, got {sizes}")
        if other.pilot is None:
            return self.add(other._held_features[: other.n_samples], other._held_targets[: other.n_samples])
        pilot, square, cross, residual = other.statistics()
        if self.pilot is None:
            held = self._held_features[: self.n_samples], self._held_targets[: self.n_samples]
            self.pilot, self._square, self._cross, self._residual = pilot, np.asfortranarray(square), cross, residual
            self.n_samples = other.n_samples
            self._let_go()
            return self.add(*held)
        # The other's residuals to this pilot: y − V b = (y − V'b) − D b with D = V − V', small as both are good pilots.
        shift = self.pilot - pilot
        self._residual += residual - shift @ cross - (shift @ cross).T + symmetric(shift @ square @ shift.T)
        self._cross += cross - square @ shift.T
        self._square += square
        self.n_samples += other.n_samples
        return self

    def statistics(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The pilot V (m, p), Σ b bᵀ (p, p), Σ b rᵀ (p, m) and Σ r rᵀ (m, m) with r = y − V b; copies."""
        if self.pilot is None:
            settled = Gram(self.n_features, self.n_targets)
            settled.n_samples = self.n_samples
            settled._held_features, settled._held_targets = self._held_features, self._held_targets
            settled._settle()
            return settled.statistics()
        lower = np.tril(self._square)
        return self.pilot.copy(), lower + np.tril(lower, -1).T, self._cross.copy(), symmetric(self._residual)

    def _settle(self) -> None:
        """Choose the pilot from the rows held back, and add them."""
        b, y = self._held_features[: self.n_samples], self._held_targets[: self.n_samples]
        square = b.T @ b
        own = np.diagonal(square)
        # Units that are all but dead in these samples would get huge pilot weights, which no later sum could cancel.
        self.pilot = _Inverse(square + np.diag(_PILOT * own + _FAINT * own.max())).apply(b.T @ y).T
        self._accumulate(b, y)
        self._let_go()

    def _let_go(self) -> None:
        self._held_features, self._held_targets = self._held_features[:0].copy(), self._held_targets[:0].copy()

    def _accumulate(self, b: FloatArray, y: FloatArray) -> None:
        assert self.pilot is not None
        b = np.ascontiguousarray(b, np.float64)
        r = y - b @ self.pilot.T
        # Seen by Fortran, C-ordered b is bᵀ: dsyrk reads it and adds to the sum in place, without a copy of either.
        self._square = dsyrk(1.0, b.T, beta=1.0, c=self._square, lower=1, overwrite_c=1)
        self._cross += b.T @ r
        self._residual += r.T @ r

    def solve(self, penalty: FloatArray) -> Solution:
        """The W that minimises Σ|y − W b|² + Σ_k penalty_k |W_k|², for a penalty (p,) on each feature."""
        pilot, square, cross, residual = self.statistics()
        inverse = _Inverse(square + np.diag(penalty))
        # W = V + C with A Cᵀ = Σ b rᵀ − penalty Vᵀ: the normal equations A Wᵀ = Σ b yᵀ, from which A Vᵀ was taken on both sides.
        weights = (inverse.project(pilot.T) + inverse.apply(cross - penalty[:, None] * pilot.T)).T
        change = weights - pilot
        # Σ|y − W b|² = Σ|r − C b|²; no term is larger than the pilot's own residuals.
        squares = residual - change @ cross - (change @ cross).T + symmetric(change @ square @ change.T)
        raw = pilot @ cross
        targets = residual + raw + raw.T + symmetric(pilot @ square @ pilot.T)  # Σ y yᵀ
        return Solution(weights, inverse.root, squares, targets, inverse.rank, np.diagonal(square).copy())


class _Inverse:
    """A⁻¹ for a positive semi-definite A, scaled to a unit diagonal first: the units of a feature must not decide.

    Cholesky's factor where it can be trusted, eigenvectors otherwise. Directions in which A is zero to rounding then carry
    no weight (the least-norm solution) but, as nothing is known about them, a large variance: their eigenvalue's rounding error
    stands in for it.
    """

    def __init__(self, a: FloatArray) -> None:
        diagonal = np.diagonal(a)
        self.scale = 1.0 / np.sqrt(np.where(diagonal > DEAD**2, diagonal, 1.0))
        scaled = a * self.scale[:, None] * self.scale
        self.rank, p = len(a), len(a)
        self.vectors = None
        self.factor, failed = lapack.dpotrf(scaled, lower=1, clean=1)
        # A feature that is always 0 has a zero row: no Cholesky factor, and dpotrf says so.
        if not failed:
            reciprocal, failed = lapack.dpocon(self.factor, np.abs(scaled).sum(axis=0).max(), uplo="L")
        if not failed and reciprocal > _WORST:
            root, _ = lapack.dtrtri(self.factor, lower=1)
            self.root = self.scale[:, None] * root.T  # A⁻¹ = D L⁻ᵀ L⁻¹ D
            return
        values, self.vectors = np.linalg.eigh(scaled)
        floor = max(p * np.finfo(float).eps * values[-1], np.finfo(float).tiny)
        self.live = values > floor
        self.values = np.maximum(values, floor)
        self.rank = int(np.count_nonzero(self.live))
        self.root = self.scale[:, None] * self.vectors / np.sqrt(self.values)

    def apply(self, x: FloatArray) -> FloatArray:
        """A⁻¹ x, the least-norm solution where A is singular."""
        x = self.scale[:, None] * x
        if self.vectors is None:
            solution, _ = lapack.dpotrs(self.factor, x, lower=1)
        else:
            kept = self.vectors[:, self.live]
            solution = kept @ ((kept.T @ x) / self.values[self.live, None])
        result: FloatArray = self.scale[:, None] * solution
        return result

    def project(self, x: FloatArray) -> FloatArray:
        """``x`` without the directions that A does not see."""
        if self.vectors is None:
            return x
        kept = self.vectors[:, self.live]
        result: FloatArray = self.scale[:, None] * (kept @ (kept.T @ (x / self.scale[:, None])))
        return result


DEAD = 1e-60  # the norm below which a feature counts as zero
_BLOCK = 256  # rows that a factorisation takes in at least


class Solution(NamedTuple):
    """A least-squares solution.

    ``weights`` (m, p); ``root`` (p, p) with root rootᵀ = A⁻¹, A = Σ b bᵀ + penalty; ``squares`` (m, m) and ``targets`` (m, m),
    the sums of squares of residuals and of targets; ``rank``, how many features say something new; ``sizes`` (p,), of features.
    """

    weights: FloatArray
    root: FloatArray
    squares: FloatArray
    targets: FloatArray
    rank: int
    sizes: FloatArray


class Factor:
    """R with Rᵀ R = Σ [b, y] [b, y]ᵀ over all rows seen, (p + m, p + m) upper triangular.

    Parameters
    ----------
    n_features, n_targets
        p and m, the lengths of a feature vector b and of a target y.
    """

    def __init__(self, n_features: int, n_targets: int) -> None:
        for name, value in (("n_features", n_features), ("n_targets", n_targets)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.n_features, self.n_targets, self.n_samples = int(n_features), int(n_targets), 0
        self._R: FloatArray | None = None  # nothing seen so far
        self._waiting: list[FloatArray] = []  # rows that are not in it yet

    def add(self, features: npt.ArrayLike, targets: npt.ArrayLike) -> Factor:
        """Take in rows; refused data leave the factor as it was.

        Parameters
        ----------
        features, targets
            (n, p) and (n, m).

        Returns
        -------
        Factor
            Itself.
        """
        b, y = as_rows("features", features, self.n_features), as_rows("targets", targets, self.n_targets)
        if len(b) != len(y):
            raise ValueError(f"features and targets must have as many rows, got {len(b)} and {len(y)}")
        self._take(np.hstack([b, y]))
        self.n_samples += len(b)
        return self

    def add_covariance(self, features: npt.ArrayLike, targets: npt.ArrayLike) -> Factor:
        """Take in what rows leave open, as rows δ with Σ δ δᵀ = Σ Cov [b, y]: they add to the sums and are no samples.

        With ``add`` of the means this is E[b bᵀ] = b̄ b̄ᵀ + Cov b of rows that are uncertain.

        Parameters
        ----------
        features, targets
            (k, p) and (k, m).

        Returns
        -------
        Factor
            Itself.
        """
        n_samples = self.n_samples
        self.add(features, targets)
        self.n_samples = n_samples
        return self

    def merge(self, other: Factor) -> Factor:
        """Add what ``other`` has seen; returns itself. ``other`` is left as it is."""
        if (self.n_features, self.n_targets) != (other.n_features, other.n_targets):
            sizes = f"{(self.n_features, self.n_targets)} and {(other.n_features, other.n_targets)}"
            raise ValueError(f"merged factors must have the same numbers of features and targets, got {sizes}")
        if (theirs := other._factorised()) is not None:
            mine = self._factorised()
            self._R = theirs if mine is None else _stacked(mine, theirs, triangular=True)
        self.n_samples += other.n_samples
        return self

    def copy(self) -> Factor:
        """One that has seen the same rows."""
        return Factor(self.n_features, self.n_targets).merge(self)

    def triangle(self) -> FloatArray:
        """R (p + m, p + m)."""
        q, R = self.n_features + self.n_targets, self._factorised()
        return np.zeros((q, q)) if R is None else R.copy()

    def only(self, features: npt.NDArray[np.intp]) -> Factor:
        """The factor of the same rows with these of their features, in this order."""
        if len(features) == self.n_features and (features == np.arange(self.n_features)).all():
            return self.copy()
        columns = np.concatenate([features, np.arange(self.n_features, self.n_features + self.n_targets)])
        part = Factor(len(features), self.n_targets)
        part._take(self.triangle()[:, columns])
        part.n_samples = self.n_samples
        return part

    def solve(self, penalty: FloatArray) -> Solution:
        """The W that minimises Σ|y − W b|² + Σ_k penalty_k |W_k|², for a penalty (p,) on each feature.

        Directions that no row and no penalty sees carry no weight (the least-norm solution) but a large variance.
        """
        R, p = self.triangle(), self.n_features
        T = _with_penalty(R, penalty)
        size = np.linalg.norm(T[:p, :p], axis=0)
        scale = 1.0 / np.where(size > DEAD, size, 1.0)
        A, right, rank = T[:p, :p] * scale, T[:p, p:], p
        smallest = p * np.finfo(float).eps
        inverse, failed = lapack.dtrtri(A)
        if (
            failed
            or not np.isfinite(inverse).all()
            or np.abs(inverse).sum(axis=0).max() * np.abs(A).sum(axis=0).max() > 1.0 / smallest
        ):
            U, values, Vt = np.linalg.svd(A)
            floor = max(smallest * values[0], np.finfo(float).tiny)
            live, rank = values > floor, int(np.count_nonzero(values > floor))
            weights = Vt[live].T @ ((U[:, live].T @ right) / values[live, None])
            root = Vt.T / np.maximum(values, floor)
        else:
            weights, root = solve_triangular(A, right), np.triu(inverse)
        weights, root = scale[:, None] * weights, scale[:, None] * root
        wrong = R[:, p:] - R[:, :p] @ weights
        return Solution(weights.T, root, wrong.T @ wrong, R[:, p:].T @ R[:, p:], rank, np.sum(np.square(R[:, :p]), axis=0))

    def _take(self, rows: FloatArray) -> None:
        q = self.n_features + self.n_targets
        at_once, first = max(2 * q, _BLOCK), 0
        while first < len(rows):
            room = at_once - sum(map(len, self._waiting))
            self._waiting.append(rows[first : first + room])
            first += room
            if first <= len(rows):
                self._factorised()

    def _factorised(self) -> FloatArray | None:
        """R of all rows seen, never written to again; None where there are none."""
        if self._waiting:
            rows = np.asfortranarray(np.concatenate(self._waiting))
            self._R = triangular(rows) if self._R is None else _stacked(self._R, rows)
            self._waiting = []
        return self._R


def triangular(rows: FloatArray) -> FloatArray:
    """R (q, q) of rows (n, q)."""
    n, q = rows.shape
    factor, *_ = lapack.dgeqrf(rows, lwork=64 * q)
    return np.triu(np.vstack([factor[:q], np.zeros((max(q - n, 0), q))]))


def _stacked(R: FloatArray, rows: FloatArray, triangular: bool = False) -> FloatArray:
    """The triangle of R (q, q) above ``rows`` (n, q), by a QR that knows R is one, and the rows too where they are.

    A triangle under a triangle takes a fifth of the work of 2q rows that are not known to be.
    """
    q = len(R)
    upper, lower = np.asfortranarray(R), np.asfortranarray(rows)
    return np.asarray(lapack.dtpqrt(len(rows) if triangular else 0, min(32, q), upper, lower)[0])


def _with_penalty(R: FloatArray, penalty: FloatArray) -> FloatArray:
    """R (q, q) with rows √penalty_k e_k taken in, (p,)."""
    p = len(penalty)
    rows = np.zeros((p, len(R)), order="F")
    rows[np.arange(p), np.arange(p)] = np.sqrt(penalty)
    return _stacked(R, rows, triangular=True)


def leave_out(folds: Sequence[Factor], held: Sequence[int]) -> dict[int, Factor]:
    """For each of the folds that are ``held`` out, the factor of all others.

    Folds are halved until one is left, with all others in one factor: what several of the answers share is merged once.

    >>> rows = np.arange(8.0).reshape(4, 2) ** 2
    >>> others = leave_out([Factor(1, 1).add(row[:1, None], row[1:, None]) for row in rows], [0, 3])
    >>> [(fold, factor.n_samples, round(factor.triangle()[0, 0] ** 2)) for fold, factor in others.items()]  # 4² + 16² + 36², …
    [(0, 3, 1568), (3, 3, 272)]
    """
    common = Factor(folds[0].n_features, folds[0].n_targets)
    for i, fold in enumerate(folds):
        if i not in held and fold.n_samples:
            common.merge(fold)
    return dict(_halved(folds, list(held), common))


def _halved(folds: Sequence[Factor], held: list[int], common: Factor) -> Iterator[tuple[int, Factor]]:
    if len(held) <= 1:
        yield from ((i, common) for i in held)
        return
    halves = held[: len(held) // 2], held[len(held) // 2 :]
    for here, there in (halves, halves[::-1]):
        others = common.copy()
        for i in there:
            if folds[i].n_samples:
                others.merge(folds[i])
        yield from _halved(folds, here, others)


def ridge_path(factor: Factor, penalties: FloatArray) -> FloatArray:
    """The weights of many penalties, from one factor of the rows.

    A penalty is rows √penalty_k e_k under the factor: their triangle is taken in by a QR that knows both are triangular, which
    for p = 340 takes a twelfth of an SVD's time.

    Parameters
    ----------
    factor
        Of the rows.
    penalties
        (k, p): on the square of each weight, in units of the sum over the rows; 0 for none.

    Returns
    -------
    FloatArray
        Weights, (k, m, p).
    """
    R, p = np.asfortranarray(factor.triangle()), factor.n_features
    weights = np.empty((len(penalties), factor.n_targets, p))
    for w, penalty in zip(weights, penalties, strict=True):
        T = _with_penalty(R, penalty)
        diagonal = np.abs(np.diagonal(T)[:p])
        if diagonal.min() > p * np.finfo(float).eps * diagonal.max():
            w[:] = solve_triangular(T[:p, :p], T[:p, p:], check_finite=False).T
        else:
            w[:] = np.linalg.lstsq(np.triu(T[:p, :p]), T[:p, p:], rcond=None)[0].T
    return weights


class GroupedSums:
    """Least squares of grouped outputs: rows are added as to a :class:`Gram` or a :class:`Factor` of each regression.

    Parameters
    ----------
    groups
        Of features and outputs.
    n_features
        p, of all.
    kind
        Gram or Factor.
    """

    def __init__(self, groups: Groups, n_features: int, kind: type[Gram] | type[Factor]) -> None:
        self.groups, self.n_features = groups, int(n_features)
        count = 1 if groups.shared else groups.n_groups
        self.parts: list[Gram | Factor] = [kind(groups.n_features, groups.n_outputs) for _ in range(count)]

    @property
    def n_samples(self) -> int:
        """Rows of a regression: of a shared one, as many as groups for each row of y."""
        return self.parts[0].n_samples

    def add(self, features: FloatArray, targets: FloatArray) -> GroupedSums:
        """``features`` (n, p) and ``targets`` (n, m); returns itself."""
        for part, rows in zip(self.parts, self.groups.rows(features, targets), strict=True):
            part.add(*rows)
        return self

    def merge(self, other: GroupedSums) -> GroupedSums:
        """Add what ``other`` has seen; returns itself."""
        for part, theirs in zip(self.parts, other.parts, strict=True):
            part.merge(theirs)  # type: ignore[arg-type]  # of one kind
        return self


Traces = Callable[[Part], FloatArray]
Penalty = float | FloatArray  # one for all features, or one for each, (p,)
Sums = Gram | Factor | GroupedSums  # what rows are added to
GRID = tuple(10.0**k for k in range(-15, 1, 2))  # the ridges that are tried where one is to be chosen

PARTS = ("state", "noise", "weights")  # of the variance of a prediction: :func:`predictive_variance`
_COLUMNS = 192  # of a triangular root at a time: what is zero below them is not multiplied out
_MANY = 32  # rows, for which it is worth while to look for zeros
_PRECISE = 1e-9  # the ridge below which a Gram matrix loses digits that the rows have


class Readout(NamedTuple):
    """Weights with what is needed to say how sure they are: Cov(W_ik, W_jl) = R_ij (A⁻¹)_kl, A = Σ b bᵀ + ridge n I.

    ``weights`` (m, p); ``residual_cov`` R (m, m); ``covariance_root`` S (p, p) with S Sᵀ = A⁻¹; ``n_samples``.

    ``groups``: where outputs see some of the features alone; S is then (q, q), of the features of a group, or (G, q, q) where
    each group has weights of its own, and outputs of two groups pass for independent.
    """

    weights: FloatArray
    residual_cov: FloatArray
    covariance_root: FloatArray
    n_samples: int
    groups: Groups | None = None

    def parts(self, root: FloatArray | None = None) -> list[Part]:
        """The outputs, all or by groups, with what they see and a root of A⁻¹ there: S, or another ``root`` of its shape."""
        # in one layout, whatever it was learnt in: products are then the same to the bit after it was in a file
        S = np.ascontiguousarray(self.covariance_root if root is None else root, float)
        return [Part(slice(None), slice(None), S)] if self.groups is None else self.groups.parts(S)

    @property
    def own(self) -> list[Readout]:
        """The readouts that were learnt: itself, the one that all groups share, or one for each of them."""
        groups = self.groups
        if groups is None:
            return [self]
        both = groups.own_weights(self.weights), groups.own_cov(self.residual_cov)
        if groups.shared:
            return [Readout(*both, self.covariance_root, self.n_samples)]
        return [Readout(*one, self.n_samples) for one in zip(*both, self.covariance_root, strict=True)]

    def check(self, name: str, n_features: int, n_targets: int, least: int = 1) -> None:
        """A ValueError unless it is a readout of such sizes, taught by ``least`` rows or more."""
        p, m = n_features, n_targets
        shapes: dict[str, tuple[int, ...]] = {"weights": (m, p), "residual_cov": (m, m), "covariance_root": (p, p)}
        if self.groups is not None:
            self.groups.check(f"{name}.groups", p, m)
            q = self.groups.n_features
            shapes["covariance_root"] = (q, q) if self.groups.shared else (self.groups.n_groups, q, q)
        check_arrays(name, {part: (getattr(self, part), shape) for part, shape in shapes.items()})
        check_counts(name, {"n_samples": (self.n_samples, least)})
        as_covariance(f"{name}.residual_cov", self.residual_cov, (m,))


def least_squares(n_features: int, n_targets: int, ridge: Penalty, groups: Groups | None = None) -> Sums:
    """What rows are added to: a Gram matrix, or, where the ridge is so small that it would lose digits, a triangular factor.

    Parameters
    ----------
    n_features, n_targets
        p and m.
    ridge
        That :func:`solve` will be given.
    groups
        Which features each output sees; None: all of them.

    Returns
    -------
    Gram | Factor | GroupedSums
        Empty; ``add(features, targets)`` takes rows in.
    """
    kind: type[Gram] | type[Factor] = Gram if float(np.min(ridge)) >= _PRECISE else Factor
    return kind(n_features, n_targets) if groups is None else GroupedSums(groups, n_features, kind)


def choose_ridge(folds: Sequence[Factor | GroupedSums], grid: Sequence[float] = GRID) -> float:
    """The ridge of least squared error in one step, each fold of the rows predicted from all others.

    Parameters
    ----------
    folds
        The factors of contiguous blocks of rows: rows that are neighbours in time say nearly the same.
    grid
        The ridges that are tried; of two that err alike, the larger.

    Returns
    -------
    float
        One of the grid.
    """
    if len(folds) < 2:  # nothing to predict
        return float(grid[len(grid) // 2])
    wrong = np.zeros(len(grid))
    for regression in zip(*([fold] if isinstance(fold, Factor) else fold.parts for fold in folds), strict=True):
        factors = [part for part in regression if isinstance(part, Factor)]
        for i, others in leave_out(factors, range(len(factors))).items():
            R, p = factors[i].triangle(), others.n_features
            penalties = np.stack([others.n_samples * penalties_of(ridge, p) for ridge in grid])
            for k, weights in enumerate(ridge_path(others, penalties)):
                wrong[k] += np.sum(np.square(R[:, p:] - R[:, :p] @ weights.T))
    near = np.flatnonzero(wrong <= 1.02 * wrong.min())
    return float(grid[near[-1]])


def solve(sums: Sums, ridge: Penalty = 0.0) -> Readout:
    """The W that minimises Σ|y − W b|² + ridge·n·|W|², the intercept (feature 0) without penalty.

    Fewer rows than features are enough where ``ridge`` > 0; without, and where features repeat each other, the least-norm
    solution is taken. The same rows in the same blocks give the same weights to the bit.

    R is the residuals' sum of squares over n − k, with k = tr(A⁻¹ Σ b bᵀ) the parameters' worth of rows that the fit has used.
    A fit that runs through its data tells nothing of the noise by its residuals, but it does by its weights: the ridge is
    the prior Cov(W) = R/(ridge n), under which ridge n W Wᵀ/(n − 1) estimates R too. It is added with the share k/n, which
    vanishes as rows come in. Where n − k < 1, the R is added as well that lets weights of this prior make targets of
    the mean square that they have, or of 1 where they are 0 (without a ridge: that mean square itself): away from the data
    the deviation is then about as large as the targets, and never 0.

    Parameters
    ----------
    sums
        Of the rows.
    ridge
        The penalty on all features, or one for each, (p,).

    Returns
    -------
    Readout
        W and how sure it is.
    """
    if isinstance(sums, GroupedSums):
        return _solve_groups(sums, ridge)
    penalty = penalties_of(ridge, sums.n_features)
    n = sums.n_samples
    if n < 1:
        raise ValueError("solve needs at least one row of features and targets, got none; call add first")
    found = sums.solve(penalty * n)
    return Readout(found.weights, _residual_cov(found, penalty * n, n), found.root, n)


def _solve_groups(sums: GroupedSums, ridge: Penalty) -> Readout:
    """The same of outputs that see some of the features alone."""
    groups = sums.groups
    found = [solve(part, groups.own_penalty(ridge)) for part in sums.parts]
    weights, cov, root = ([getattr(one, name) for one in found] for name in ("weights", "residual_cov", "covariance_root"))
    S = root[0] if groups.shared else np.stack(root)
    return Readout(groups.expand(weights, sums.n_features), groups.expand_cov(cov), S, found[0].n_samples, groups)


def penalties_of(ridge: Penalty, n_features: int) -> FloatArray:
    """The penalty a row on each feature (p,), 0 for the intercept."""
    if not (np.isfinite(ridge).all() and np.min(ridge) >= 0.0):
        raise ValueError(f"ridge must be finite and not negative, got {ridge}")
    penalty = np.zeros(n_features)
    penalty[:] = ridge
    penalty[0] = 0.0
    return penalty


def parameters_used(readout: Readout, ridge: Penalty) -> float:
    """k = tr(A⁻¹ Σ b bᵀ), the parameters' worth of rows that a fit with this ridge has used; of groups, the mean of theirs."""
    if readout.groups is not None:
        ridge = readout.groups.own_penalty(ridge)
        return float(np.mean([parameters_used(one, ridge) for one in readout.own]))
    n_features = readout.weights.shape[1]
    return _parameters(n_features, readout.n_samples * penalties_of(ridge, n_features), readout.covariance_root)


def _parameters(rank: int, penalty: FloatArray, root: FloatArray) -> float:
    """tr(A⁻¹ Σ b bᵀ) of so many features that say something new, root rootᵀ = A⁻¹."""
    return max(rank - float(np.sum(penalty[:, None] * root**2)), 0.0)


def _residual_cov(found: Solution, penalty: FloatArray, n: int) -> FloatArray:
    """R (m, m), as :func:`solve` says."""
    # tr(A⁻¹ Σ b bᵀ) parameters' worth of the data went into the fit; what is left of the rows tells of the noise.
    known = _parameters(found.rank, penalty, found.root)
    left, targets = n - known, found.targets
    shrunk, most = symmetric((found.weights * penalty) @ found.weights.T), float(np.trace(targets))
    if np.trace(shrunk) > most:  # beyond the loss without weights: rounding under an enormous ridge
        shrunk *= max(most, 0.0) / np.trace(shrunk)
    spread = found.squares / max(left, 1.0) + min(known / n, 1.0) * shrunk / max(n - 1, 1)
    if left < 1.0:
        targets = targets + np.diag(np.where(np.diagonal(targets) > 0.0, 0.0, float(n)))
        size = float(found.sizes[1:].sum())
        share = min(float(penalty.max()) * n / size, 1.0) if penalty.max() > 0.0 and size > 0.0 else 1.0
        spread = spread + (1.0 - max(left, 0.0)) * share * targets / n
    values, vectors = np.linalg.eigh(symmetric(spread))
    return outer(vectors * np.sqrt(np.maximum(values, 0.0)))


def predict(readout: Readout, features: npt.ArrayLike) -> FloatArray:
    """W b for every row of ``features`` (n, p): (n, m)."""
    result: FloatArray = as_rows("features", features, readout.weights.shape[1]) @ readout.weights.T
    return result


def predictive_variance(
    readout: Readout,
    features: npt.ArrayLike,
    feature_var: npt.ArrayLike | None = None,
    feature_cov: npt.ArrayLike | None = None,
    full: bool = False,
) -> dict[str, FloatArray]:
    """The variance of y for every row of ``features``, in three parts whose sum it is.

    ``feature_var`` (n, p) or ``feature_cov`` (n, p, p) say how uncertain the features themselves are. The parts,
    (n, m) each, or (n, m, m) with ``full``:

    - ``state``: W Σ_b Wᵀ, from the features;
    - ``noise``: R, from what the readout left unexplained in training;
    - ``weights``: R (bᵀ A⁻¹ b + tr(A⁻¹ Σ_b)), from the weights, which finitely many rows have taught.
    """
    weights, noise = readout.weights, readout.residual_cov
    m, p = weights.shape
    b = as_rows("features", features, p)
    n = len(b)
    if feature_var is not None and feature_cov is not None:
        raise ValueError("feature_var and feature_cov exclude each other, got both")
    state: FloatArray = np.zeros((n, m, m) if full else (n, m))
    traces: Traces = lambda part: np.zeros(n)  # noqa: E731
    if feature_var is not None:
        state, traces = _spread_of_variances(weights, n, feature_var, full)
    elif feature_cov is not None:
        state, traces = _spread_of_covariances(weights, n, feature_cov, full)
    leverage = np.empty((n, m))
    for part in readout.parts():
        leverage[:, part.outputs] = (leverages(part.root, b[:, part.features]) + traces(part))[:, None]
    noise = noise if full else np.diagonal(noise)
    by_weights = weights_cov(noise, leverage) if full else leverage * noise
    return {"state": state, "noise": np.broadcast_to(noise, state.shape).copy(), "weights": by_weights}


def _spread_of_variances(weights: FloatArray, n: int, feature_var: npt.ArrayLike, full: bool) -> tuple[FloatArray, Traces]:
    """W Σ_b Wᵀ of n rows of features with these variances (n, p), and tr(A⁻¹ Σ_b) of a part of the readout."""
    var = as_rows("feature_var", feature_var, weights.shape[1])
    if len(var) != n:
        raise ValueError(f"feature_var must have a row for each row of features, {n}, got {len(var)}")
    check_not_negative("feature_var", var)
    state = np.einsum("ip,np,jp->nij", weights, var, weights, optimize=True) if full else var @ np.square(weights).T
    return state, lambda part: var[:, part.features] @ np.sum(np.square(part.root), axis=1)


def _spread_of_covariances(weights: FloatArray, n: int, feature_cov: npt.ArrayLike, full: bool) -> tuple[FloatArray, Traces]:
    """The same of covariances (n, p, p)."""
    cov, p = as_real("feature_cov", feature_cov), weights.shape[1]
    if cov.shape != (n, p, p):
        raise ValueError(f"feature_cov must have shape {(n, p, p)}, got {cov.shape}")
    moved = weights @ cov
    state = symmetric(moved @ weights.T) if full else np.maximum(np.einsum("nip,ip->ni", moved, weights), 0.0)

    def traces(part: Part) -> FloatArray:
        inside = cov[:, part.features][:, :, part.features]
        return np.maximum(np.einsum("npq,pq->n", inside, outer(part.root)), 0.0)

    return state, traces


def weights_cov(residual_cov: FloatArray, leverage: FloatArray) -> FloatArray:
    """R_ij √(l_i l_j) (…, m, m): what weights leave open in outputs whose features have a leverage (…, m).

    One of all outputs, or one for each group of them, outside of which R is 0.
    """
    root = np.sqrt(leverage)
    return np.asarray(residual_cov * (root[..., :, None] * root[..., None, :]))


def leverages(root: FloatArray, features: FloatArray) -> FloatArray:
    """bᵀ A⁻¹ b = |Sᵀ b|² for every row of ``features`` (n, p) and a root S (p, …) of A⁻¹: (n,).

    A root that is triangular, as :func:`solve` finds it unless A is singular, takes half the time.

    >>> leverages(np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])).tolist()
    [5.0, 26.0]
    """
    (n, p), found = features.shape, np.zeros(len(features))
    if n < _MANY:
        return np.asarray(np.sum(np.square(features @ root), axis=1))
    for first in range(0, root.shape[1], _COLUMNS):
        columns = slice(first, first + _COLUMNS)
        rows = slice(0, p if root[columns.stop :, columns].any() else columns.stop)
        for i in range(0, n, _CHUNK):
            along = features[i : i + _CHUNK, rows] @ root[rows, columns]
            found[i : i + _CHUNK] += np.einsum("ij,ij->i", along, along)
    return found


def check_parts(parts: Collection[str]) -> None:
    """A ValueError where ``parts`` are not some of those that a variance has."""
    if not isinstance(parts, (tuple, list, set, frozenset)) or not all(isinstance(p, str) and p in PARTS for p in parts):
        raise ValueError(f"parts must be some of {', '.join(PARTS)}, in a tuple or list, got {parts!r}")
