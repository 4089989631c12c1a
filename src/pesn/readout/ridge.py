"""The readout y = W b: ridge regression in one pass over the data, with the uncertainty of its weights.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> features = np.column_stack([np.ones(500), rng.normal(size=(500, 2))])
>>> targets = features @ [[0.5], [1.0], [-2.0]] + 0.1 * rng.normal(size=(500, 1))
>>> readout = solve(least_squares(3, 1, 1e-6).add(features[:300], targets[:300]).add(features[300:], targets[300:]), ridge=1e-6)
>>> readout.weights.round(1)
array([[ 0.5,  1. , -2. ]])
>>> noise, weights = readout.residual_cov[0], readout.residual_cov[0] * readout.leverage(features[:1])[0]
>>> np.sqrt([noise, weights]).round(3).tolist()  # standard deviations
[[0.101], [0.005]]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack, solve_triangular
from scipy.linalg.blas import dsyrk

from pesn._support.arguments import as_covariance, as_rows
from pesn._support.records import check_arrays, check_counts
from pesn._support.types import FloatArray
from pesn.linalg import outer, symmetric
from pesn.readout.groups import Groups, Part

_CHUNK = 4096  # rows per block: dsyrk reaches full speed, temporaries stay small
_WORST = 1e-13  # reciprocal condition number below which a Cholesky factor is inaccurate
_PILOT = 1e-10  # ridge of the pilot, relative to the sum of squares of each feature
_FAINT = 1e-20  # the same, relative to the largest: features 1e-10 times smaller than others have no pilot


class _Rows:
    """Sizes of the rows of a regression, and the number of rows that were added."""

    def __init__(self, n_features: int, n_targets: int) -> None:
        for name, value in (("n_features", n_features), ("n_targets", n_targets)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.n_features, self.n_targets, self.n_samples = int(n_features), int(n_targets), 0

    def _check_rows(self, features: npt.ArrayLike, targets: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return features (n, p) and targets (n, m), checked."""
        b, y = as_rows("features", features, self.n_features), as_rows("targets", targets, self.n_targets)
        if len(b) != len(y):
            raise ValueError(f"features and targets must have as many rows, got {len(b)} and {len(y)}")
        return b, y

    def _check_same(self, other: _Rows) -> None:
        """Raise a ValueError if another sum has other sizes."""
        sizes = (self.n_features, self.n_targets), (other.n_features, other.n_targets)
        if sizes[0] != sizes[1]:
            raise ValueError(f"what is merged must have the same numbers of features and targets, got {sizes[0]} and {sizes[1]}")


class Gram(_Rows):
    """Sums Σ b bᵀ, Σ b rᵀ, Σ r rᵀ and n, added up block by block in memory O(p²), independent of the number of rows.

    r = y − V b, where V is a *pilot*: the least-squares weights of the first 2p rows, which are stored until they are complete.
    Any V gives the same readout in exact arithmetic. With V = 0 the residual sum of squares of an accurate readout is a small
    difference of large numbers (at an error of 1e-6 no digit is left); with the pilot nothing large is ever summed, and the final
    solution is one step of iterative refinement.

    Parameters
    ----------
    n_features : int
        Number of features, p.
    n_targets : int
        Number of targets, m.
    """

    def __init__(self, n_features: int, n_targets: int) -> None:
        super().__init__(n_features, n_targets)
        p, m = self.n_features, self.n_targets
        self.pilot: FloatArray | None = None
        self._held_features, self._held_targets = np.empty((2 * p, p)), np.empty((2 * p, m))
        self._square: FloatArray = np.zeros((p, p), order="F")  # lower triangle, which dsyrk updates in place
        self._cross: FloatArray = np.zeros((p, m))
        self._residual: FloatArray = np.zeros((m, m))

    def add(self, features: npt.ArrayLike, targets: npt.ArrayLike) -> Gram:
        """Add ``features`` (n, p) and ``targets`` (n, m); return itself. Data that are refused change nothing."""
        b, y = self._check_rows(features, targets)
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
        """Add the rows of ``other``, which does not change; return itself."""
        self._check_same(other)
        if other.pilot is None:
            return self.add(other._held_features[: other.n_samples], other._held_targets[: other.n_samples])
        pilot, square, cross, residual = other.statistics()
        if self.pilot is None:
            held = self._held_features[: self.n_samples], self._held_targets[: self.n_samples]
            self.pilot, self._square, self._cross, self._residual = pilot, np.asfortranarray(square), cross, residual
            self.n_samples = other.n_samples
            self._release_rows()
            return self.add(*held)
        # Residuals of the other with this pilot: y − V b = (y − V'b) − D b with D = V − V', small as both are good pilots.
        shift = self.pilot - pilot
        self._residual += residual - shift @ cross - (shift @ cross).T + symmetric(shift @ square @ shift.T)
        self._cross += cross - square @ shift.T
        self._square += square
        self.n_samples += other.n_samples
        return self

    def statistics(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return copies of the pilot V (m, p), Σ b bᵀ (p, p), Σ b rᵀ (p, m) and Σ r rᵀ (m, m) with r = y − V b."""
        if self.pilot is None:
            settled = Gram(self.n_features, self.n_targets)
            settled.n_samples = self.n_samples
            settled._held_features, settled._held_targets = self._held_features, self._held_targets
            settled._settle()
            return settled.statistics()
        lower = np.tril(self._square)
        return self.pilot.copy(), lower + np.tril(lower, -1).T, self._cross.copy(), symmetric(self._residual)

    def _settle(self) -> None:
        """Compute the pilot from the stored rows, and add them."""
        b, y = self._held_features[: self.n_samples], self._held_targets[: self.n_samples]
        square = b.T @ b
        own = np.diagonal(square)
        # Units that are nearly zero in these rows would get huge pilot weights, which no later sum could cancel.
        self.pilot = _Inverse(square + np.diag(_PILOT * own + _FAINT * own.max())).apply(b.T @ y).T
        self._accumulate(b, y)
        self._release_rows()

    def _release_rows(self) -> None:
        """Free the stored rows."""
        self._held_features, self._held_targets = self._held_features[:0].copy(), self._held_targets[:0].copy()

    def _accumulate(self, b: FloatArray, y: FloatArray) -> None:
        """Add rows to the sums."""
        assert self.pilot is not None
        b = np.ascontiguousarray(b, np.float64)
        r = y - b @ self.pilot.T
        # In Fortran order, C-ordered b is bᵀ: dsyrk updates the sum in place, without a copy of either.
        self._square = dsyrk(1.0, b.T, beta=1.0, c=self._square, lower=1, overwrite_c=1)
        self._cross += b.T @ r
        self._residual += r.T @ r

    def solve(self, penalty: FloatArray) -> Solution:
        """Find the W that minimizes Σ|y − W b|² + Σ_k penalty_k |W_k|², for a penalty (p,) on each feature."""
        pilot, square, cross, residual = self.statistics()
        inverse = _Inverse(square + np.diag(penalty))
        # W = V + C with A Cᵀ = Σ b rᵀ − penalty Vᵀ: the normal equations A Wᵀ = Σ b yᵀ minus A Vᵀ on both sides.
        weights = (inverse.project(pilot.T) + inverse.apply(cross - penalty[:, None] * pilot.T)).T
        change = weights - pilot
        # Σ|y − W b|² = Σ|r − C b|²; no term is larger than the residuals of the pilot.
        squares = residual - change @ cross - (change @ cross).T + symmetric(change @ square @ change.T)
        raw = pilot @ cross
        targets = residual + raw + raw.T + symmetric(pilot @ square @ pilot.T)  # Σ y yᵀ
        return Solution(weights, inverse.root, squares, targets, inverse.rank, np.diagonal(square).copy())


class _Inverse:
    """A⁻¹ of a positive semi-definite A, scaled to a unit diagonal first, so that the units of a feature do not matter.

    A Cholesky factor if it is accurate, eigenvectors otherwise. Directions in which A is zero to rounding then have no weight
    (the least-norm solution) but, as nothing is known about them, a large variance: the rounding error of their eigenvalue takes
    its place.
    """

    def __init__(self, a: FloatArray) -> None:
        diagonal = np.diagonal(a)
        self.scale = 1.0 / np.sqrt(np.where(diagonal > DEAD**2, diagonal, 1.0))
        scaled = a * self.scale[:, None] * self.scale
        self.rank, p = len(a), len(a)
        self.vectors = None
        self.factor, failed = lapack.dpotrf(scaled, lower=1, clean=1)
        # A feature that is always 0 has a zero row: dpotrf fails.
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
        """Compute A⁻¹ x, the least-norm solution if A is singular."""
        x = self.scale[:, None] * x
        if self.vectors is None:
            solution, _ = lapack.dpotrs(self.factor, x, lower=1)
        else:
            kept = self.vectors[:, self.live]
            solution = kept @ ((kept.T @ x) / self.values[self.live, None])
        result: FloatArray = self.scale[:, None] * solution
        return result

    def project(self, x: FloatArray) -> FloatArray:
        """Remove from ``x`` the null space of A."""
        if self.vectors is None:
            return x
        kept = self.vectors[:, self.live]
        result: FloatArray = self.scale[:, None] * (kept @ (kept.T @ (x / self.scale[:, None])))
        return result


DEAD = 1e-60  # norm below which a feature counts as zero
_BLOCK = 256  # least number of rows of a factorization


class Solution(NamedTuple):
    """Least-squares solution.

    ``weights`` (m, p); ``root`` (p, p) with root rootᵀ = A⁻¹, A = Σ b bᵀ + penalty; ``squares`` (m, m) and ``targets`` (m, m),
    the sums of squares of residuals and of targets; ``rank``, that of the features; ``sizes`` (p,), their sums of squares.
    """

    weights: FloatArray
    root: FloatArray
    squares: FloatArray
    targets: FloatArray
    rank: int
    sizes: FloatArray


class Factor(_Rows):
    """Triangular factor R (p + m, p + m) with Rᵀ R = Σ [b, y] [b, y]ᵀ over all rows.

    Parameters
    ----------
    n_features : int
        Number of features, p.
    n_targets : int
        Number of targets, m.
    """

    def __init__(self, n_features: int, n_targets: int) -> None:
        super().__init__(n_features, n_targets)
        self._R: FloatArray | None = None  # no rows yet
        self._waiting: list[FloatArray] = []  # rows to be added

    def add(self, features: npt.ArrayLike, targets: npt.ArrayLike) -> Factor:
        """Add rows; data that are refused change nothing.

        Parameters
        ----------
        features : array-like of shape (n, p)
            Features.
        targets : array-like of shape (n, m)
            Targets.

        Returns
        -------
        Factor
            Itself.
        """
        rows = np.hstack(self._check_rows(features, targets))
        self._take(rows)
        self.n_samples += len(rows)
        return self

    def add_covariance(self, features: npt.ArrayLike, targets: npt.ArrayLike) -> Factor:
        """Add the covariance of uncertain rows, as rows δ with Σ δ δᵀ = Σ Cov [b, y]: they add to the sums and are not samples.

        With ``add`` of the means this gives E[b bᵀ] = b̄ b̄ᵀ + Cov b.

        Parameters
        ----------
        features : array-like of shape (k, p)
            Features.
        targets : array-like of shape (k, m)
            Targets.

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
        """Add the rows of ``other``, which does not change; return itself."""
        self._check_same(other)
        if (theirs := other._factorize()) is not None:
            mine = self._factorize()
            self._R = theirs if mine is None else _stack_triangle(mine, theirs, triangular=True)
        self.n_samples += other.n_samples
        return self

    def copy(self) -> Factor:
        """Return a factor of the same rows."""
        return Factor(self.n_features, self.n_targets).merge(self)

    def triangle(self) -> FloatArray:
        """Return R (p + m, p + m)."""
        q, R = self.n_features + self.n_targets, self._factorize()
        return np.zeros((q, q)) if R is None else R.copy()

    def only(self, features: npt.NDArray[np.intp]) -> Factor:
        """Return the factor of the same rows with some of their features, in this order."""
        if len(features) == self.n_features and (features == np.arange(self.n_features)).all():
            return self.copy()
        columns = np.concatenate([features, np.arange(self.n_features, self.n_features + self.n_targets)])
        part = Factor(len(features), self.n_targets)
        part._take(self.triangle()[:, columns])
        part.n_samples = self.n_samples
        return part

    def solve(self, penalty: FloatArray) -> Solution:
        """Find the W that minimizes Σ|y − W b|² + Σ_k penalty_k |W_k|², for a penalty (p,) on each feature.

        Directions without data and penalty have no weight (the least-norm solution) but a large variance.
        """
        R, p = self.triangle(), self.n_features
        T = _with_penalty(R, penalty)
        size = np.linalg.norm(T[:p, :p], axis=0)
        scale = 1.0 / np.where(size > DEAD, size, 1.0)
        A, right, rank = T[:p, :p] * scale, T[:p, p:], p
        smallest = p * np.finfo(float).eps
        inverse, failed = lapack.dtrtri(A)
        failed = failed or not np.isfinite(inverse).all()
        if failed or np.abs(inverse).sum(axis=0).max() * np.abs(A).sum(axis=0).max() > 1.0 / smallest:
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
        """Add rows in blocks that are large enough for an efficient factorization."""
        q = self.n_features + self.n_targets
        at_once, first = max(2 * q, _BLOCK), 0
        while first < len(rows):
            room = at_once - sum(map(len, self._waiting))
            self._waiting.append(rows[first : first + room])
            first += room
            if first <= len(rows):
                self._factorize()

    def _factorize(self) -> FloatArray | None:
        """Return R of all rows, which is never written to again; None without rows."""
        if self._waiting:
            rows = np.asfortranarray(np.concatenate(self._waiting))
            self._R = triangular(rows) if self._R is None else _stack_triangle(self._R, rows)
            self._waiting = []
        return self._R


def triangular(rows: FloatArray) -> FloatArray:
    """Compute R (q, q) of rows (n, q)."""
    n, q = rows.shape
    factor, *_ = lapack.dgeqrf(rows, lwork=64 * q)
    return np.triu(np.vstack([factor[:q], np.zeros((max(q - n, 0), q))]))


def _stack_triangle(R: FloatArray, rows: FloatArray, triangular: bool = False) -> FloatArray:
    """Compute the triangular factor of R (q, q) above ``rows`` (n, q), by a QR that uses that R is triangular, and the rows too.

    A triangle under a triangle takes a fifth of the work of 2q dense rows.
    """
    q = len(R)
    upper, lower = np.asfortranarray(R), np.asfortranarray(rows)
    return np.asarray(lapack.dtpqrt(len(rows) if triangular else 0, min(32, q), upper, lower)[0])


def _with_penalty(R: FloatArray, penalty: FloatArray) -> FloatArray:
    """Add rows √penalty_k e_k to R (q, q), for a penalty (p,)."""
    p = len(penalty)
    rows = np.zeros((p, len(R)), order="F")
    rows[np.arange(p), np.arange(p)] = np.sqrt(penalty)
    return _stack_triangle(R, rows, triangular=True)


def exclude_folds(folds: Sequence[Factor], held: Sequence[int]) -> dict[int, Factor]:
    """Return, for each of the folds that are ``held`` out, the factor of all others.

    >>> rows = np.arange(8.0).reshape(4, 2) ** 2
    >>> others = exclude_folds([Factor(1, 1).add(row[:1, None], row[1:, None]) for row in rows], [0, 3])
    >>> [(fold, factor.n_samples, round(factor.triangle()[0, 0] ** 2)) for fold, factor in others.items()]  # 4² + 16² + 36², …
    [(0, 3, 1568), (3, 3, 272)]
    """
    found = {i: Factor(folds[0].n_features, folds[0].n_targets) for i in held}
    for i, others in found.items():
        for j, fold in enumerate(folds):
            if j != i and fold.n_samples:
                others.merge(fold)
    return found


def ridge_path(factor: Factor, penalties: FloatArray) -> FloatArray:
    """Compute the weights for many penalties, from one factor of the rows.

    A penalty is rows √penalty_k e_k under the factor: they are added by a QR of two triangles, which for p = 340 takes a twelfth
    of the time of an SVD.

    Parameters
    ----------
    factor : Factor
        Factor of the rows.
    penalties : ndarray of shape (k, p)
        Penalties on the square of each weight, in units of the sum over the rows; 0 for none.

    Returns
    -------
    ndarray of shape (k, m, p)
        Weights.
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
    """Sums of grouped outputs: a :class:`Gram` or a :class:`Factor` for each regression.

    Parameters
    ----------
    groups : Groups
        Groups of features and outputs.
    n_features : int
        Number of all features, p.
    kind : type
        Gram or Factor.
    """

    def __init__(self, groups: Groups, n_features: int, kind: type[Gram] | type[Factor]) -> None:
        self.groups, self.n_features = groups, int(n_features)
        count = 1 if groups.shared else groups.n_groups
        self.parts: list[Gram | Factor] = [kind(groups.n_features, groups.n_outputs) for _ in range(count)]

    @property
    def n_samples(self) -> int:
        """Number of rows of a regression: for a shared one, one per group for each row of y."""
        return self.parts[0].n_samples

    def add(self, features: FloatArray, targets: FloatArray) -> GroupedSums:
        """Add ``features`` (n, p) and ``targets`` (n, m); return itself."""
        for part, rows in zip(self.parts, self.groups.rows(features, targets), strict=True):
            part.add(*rows)
        return self

    def merge(self, other: GroupedSums) -> GroupedSums:
        """Add the rows of ``other``; return itself."""
        for part, theirs in zip(self.parts, other.parts, strict=True):
            part.merge(theirs)  # type: ignore[arg-type]  # of one kind
        return self


Penalty = float | FloatArray  # for all features, or for each, (p,)
Sums = Gram | Factor | GroupedSums  # sums over rows
GRID = tuple(10.0**k for k in range(-15, 1, 2))  # candidate ridges

# Parts of the covariance of a prediction: W Σ_b Wᵀ, with Σ_b the covariance of the features; R, the residual covariance; and
# R times the leverage bᵀ A⁻¹ b + tr(A⁻¹ Σ_b), of the weights, which are estimated from finitely many rows.
PARTS = ("state", "noise", "weights")
_COLUMNS = 192  # columns of a triangular root per block: zeros below them are skipped
_MANY = 32  # rows from which skipping zeros pays
_PRECISE = 1e-9  # ridge below which a Gram matrix loses digits


class Readout(NamedTuple):
    """Weights of a readout and their uncertainty: Cov(W_ik, W_jl) = R_ij (A⁻¹)_kl, A = Σ b bᵀ + ridge n I.

    ``weights`` (m, p); ``residual_cov`` R (m, m); ``covariance_root`` S (p, p) with S Sᵀ = A⁻¹; ``n_samples``.

    ``groups``: for outputs that see some of the features only; S is then (q, q), of the features of a group, or (G, q, q) if each
    group has its own weights, and groups count as independent.
    """

    weights: FloatArray
    residual_cov: FloatArray
    covariance_root: FloatArray
    n_samples: int
    groups: Groups | None = None

    def parts(self, root: FloatArray | None = None) -> list[Part]:
        """Return the outputs, all or by groups, with their features and a root of A⁻¹: S, or another ``root`` of its shape."""
        # in one memory layout: products are then equal to the bit after saving and loading
        S = np.ascontiguousarray(self.covariance_root if root is None else root, float)
        return [Part(slice(None), slice(None), S)] if self.groups is None else self.groups.parts(S)

    def leverage(self, features: FloatArray) -> FloatArray:
        """Return bᵀ A⁻¹ b of each output, (n, m), for rows of features (n, p)."""
        result = np.empty((len(features), len(self.weights)))
        for part in self.parts():
            result[:, part.outputs] = leverages(part.root, features[:, part.features])[:, None]
        return result

    @property
    def own(self) -> list[Readout]:
        """Readouts that were fitted: itself, the one that all groups share, or one per group."""
        groups = self.groups
        if groups is None:
            return [self]
        both = groups.own_weights(self.weights), groups.own_cov(self.residual_cov)
        if groups.shared:
            return [Readout(*both, self.covariance_root, self.n_samples)]
        return [Readout(*one, self.n_samples) for one in zip(*both, self.covariance_root, strict=True)]

    def check(self, name: str, n_features: int, n_targets: int, least: int = 1) -> None:
        """Raise a ValueError unless this is a readout of these sizes, fitted to at least ``least`` rows."""
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
    """Return an empty sum for rows: a Gram matrix, or a triangular factor for a ridge too small for a Gram matrix.

    Parameters
    ----------
    n_features : int
        Number of features, p.
    n_targets : int
        Number of targets, m.
    ridge : float or ndarray of shape (p,)
        Penalty that :func:`solve` will be given.
    groups : Groups, optional
        Features that each output sees; None: all of them.

    Returns
    -------
    Gram, Factor or GroupedSums
        Empty; ``add(features, targets)`` adds rows.
    """
    kind: type[Gram] | type[Factor] = Gram if float(np.min(ridge)) >= _PRECISE else Factor
    return kind(n_features, n_targets) if groups is None else GroupedSums(groups, n_features, kind)


def choose_ridge(folds: Sequence[Factor | GroupedSums]) -> float:
    """Select the ridge with the least one-step squared error in cross-validation.

    Parameters
    ----------
    folds : list of Factor or GroupedSums
        Factors of contiguous blocks of rows, as neighbors in time are nearly equal.

    Returns
    -------
    float
        One of ``GRID``.
    """
    if len(folds) < 2:  # no validation data
        return GRID[len(GRID) // 2]
    wrong = np.zeros(len(GRID))
    for regression in zip(*([fold] if isinstance(fold, Factor) else fold.parts for fold in folds), strict=True):
        factors = [part for part in regression if isinstance(part, Factor)]
        for i, others in exclude_folds(factors, range(len(factors))).items():
            R, p = factors[i].triangle(), others.n_features
            penalties = np.stack([others.n_samples * feature_penalties(ridge, p) for ridge in GRID])
            for k, weights in enumerate(ridge_path(others, penalties)):
                wrong[k] += np.sum(np.square(R[:, p:] - R[:, :p] @ weights.T))
    near = np.flatnonzero(wrong <= 1.02 * wrong.min())
    return GRID[near[-1]]  # of two with equal errors the larger


def solve(sums: Sums, ridge: Penalty = 0.0) -> Readout:
    """Find the W that minimizes Σ|y − W b|² + ridge·n·|W|², without a penalty on the intercept (feature 0).

    Fewer rows than features are enough for ``ridge`` > 0; without, and if features are linearly dependent, the least-norm
    solution is taken. The same rows in the same blocks give the same weights to the bit.

    R is the residual sum of squares over n − k, with k = tr(A⁻¹ Σ b bᵀ) the effective number of parameters. The residuals of a
    fit through its data say nothing about the noise, but its weights do: the ridge is the prior Cov(W) = R/(ridge n), under which
    ridge n W Wᵀ/(n − 1) is an estimate of R too. It is added with the weight k/n, which vanishes with the number of rows. If n −
    k < 1, the R is added as well with which weights of this prior give targets of the observed mean square, or of 1 if they are 0
    (without a ridge: that mean square itself): away from the data the standard deviation is then about as large as the targets,
    and never 0.

    Parameters
    ----------
    sums : Gram, Factor or GroupedSums
        Sums over the rows.
    ridge : float or ndarray of shape (p,), default=0.0
        Penalty on all features, or on each.

    Returns
    -------
    Readout
        Weights and their uncertainty.
    """
    if isinstance(sums, GroupedSums):
        groups = sums.groups
        each = [solve(part, groups.own_penalty(ridge)) for part in sums.parts]
        weights, cov, root = ([getattr(one, name) for one in each] for name in ("weights", "residual_cov", "covariance_root"))
        S = root[0] if groups.shared else np.stack(root)
        return Readout(groups.expand(weights, sums.n_features), groups.expand_cov(cov), S, each[0].n_samples, groups)
    penalty = feature_penalties(ridge, sums.n_features)
    n = sums.n_samples
    if n < 1:
        raise ValueError("solve needs at least one row of features and targets, got none; call add first")
    found = sums.solve(penalty * n)
    return Readout(found.weights, _residual_cov(found, penalty * n, n), found.root, n)


def feature_penalties(ridge: Penalty, n_features: int) -> FloatArray:
    """Return the penalty per row on each feature (p,), 0 for the intercept."""
    if not (np.isfinite(ridge).all() and np.min(ridge) >= 0.0):
        raise ValueError(f"ridge must be finite and not negative, got {ridge}")
    penalty = np.zeros(n_features)
    penalty[:] = ridge
    penalty[0] = 0.0
    return penalty


def effective_parameters(readout: Readout, ridge: Penalty) -> float:
    """Compute the effective number of parameters k = tr(A⁻¹ Σ b bᵀ) of a fit with this ridge; for groups, the mean of theirs."""
    if readout.groups is not None:
        ridge = readout.groups.own_penalty(ridge)
        return float(np.mean([effective_parameters(one, ridge) for one in readout.own]))
    n_features = readout.weights.shape[1]
    return _parameters(n_features, readout.n_samples * feature_penalties(ridge, n_features), readout.covariance_root)


def _parameters(rank: int, penalty: FloatArray, root: FloatArray) -> float:
    """Compute tr(A⁻¹ Σ b bᵀ) for features of this rank, with root rootᵀ = A⁻¹."""
    return max(rank - float(np.sum(penalty[:, None] * root**2)), 0.0)


def _residual_cov(found: Solution, penalty: FloatArray, n: int) -> FloatArray:
    """Estimate R (m, m), as in :func:`solve`."""
    # The fit uses tr(A⁻¹ Σ b bᵀ) degrees of freedom; the others estimate the noise.
    known = _parameters(found.rank, penalty, found.root)
    left, targets = n - known, found.targets
    shrunk, most = symmetric((found.weights * penalty) @ found.weights.T), float(np.trace(targets))
    if np.trace(shrunk) > most:  # larger than the loss without weights: rounding with a huge ridge
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
    """Compute W b for every row of ``features`` (n, p): (n, m)."""
    result: FloatArray = as_rows("features", features, readout.weights.shape[1]) @ readout.weights.T
    return result


def weights_cov(residual_cov: FloatArray, leverage: FloatArray) -> FloatArray:
    """Compute R_ij √(l_i l_j) (…, m, m): the covariance of outputs due to the weights, for leverages (…, m).

    The leverage is the same for all outputs, or for those of a group, outside of which R is 0.
    """
    root = np.sqrt(leverage)
    return np.asarray(residual_cov * (root[..., :, None] * root[..., None, :]))


def leverages(root: FloatArray, features: FloatArray) -> FloatArray:
    """Compute the leverage bᵀ A⁻¹ b = |Sᵀ b|² of every row of ``features`` (n, p) for a root S (p, …) of A⁻¹: (n,).

    A triangular root, as :func:`solve` finds it unless A is singular, takes half the time.

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
    """Raise a ValueError if ``parts`` are not parts of a variance."""
    if not isinstance(parts, (tuple, list, set, frozenset)) or not all(isinstance(p, str) and p in PARTS for p in parts):
        raise ValueError(f"parts must be some of {', '.join(PARTS)}, in a tuple or list, got {parts!r}")
