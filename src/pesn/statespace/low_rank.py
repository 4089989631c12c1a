"""Gaussian states with a factored covariance: low rank plus diagonal, and first-order factors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import check_not_negative
from pesn._support.types import Array
from pesn.linalg import QuadraticForm, condition_root, factor_covariance, inverse_root, multiply_rows, outer, symmetric, transpose
from pesn.statespace import kernels
from pesn.statespace.cell import Cell, Compression, Noise
from pesn.statespace.state import GaussianState, Observation, Parts, flat, move_columns, observe

_FAR = 1e50  # entries are clipped here, so that products of columns stay finite in diverging loops
_SKETCH = 8  # number of directions of the Nyström sketch
_BLOCK = 256  # number of rows per block of a large matrix product
_DEPENDENT = 1e-10  # relative tolerance below which a row counts as linearly dependent


@dataclass(frozen=True, eq=False)
class _Factored(GaussianState):
    """Gaussian state with ``factor`` F (…, n, k), whose columns are independent sources of uncertainty."""

    factor: Array

    def cross_covariance(self, rows: slice) -> Array:
        return np.asarray(self.factor @ transpose(self.factor[..., rows, :]))

    def block_covariance(self, rows: slice) -> Array:
        return outer(self.factor[..., rows, :])

    def project_covariance(self, K: Array) -> Array:
        return outer(K @ self.factor)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        sources = rng.standard_normal((*self.mean.shape[:-1], n, self.factor.shape[-1]))
        return np.asarray(self.mean[..., None, :] + sources @ transpose(self.factor))

    def _affine_parts(self, rows: slice, K: Array, k: Array, noise_root: Array | None) -> Parts:
        """Return the mean, ``cross`` and F after the update x[rows] ← K x + k + noise."""
        F, own = self.factor, multiply_rows(K, self.factor)
        fresh = np.zeros((own.shape[-2], 0)) if noise_root is None else noise_root
        moved = np.concatenate([own, np.broadcast_to(fresh, (*own.shape[:-1], fresh.shape[-1]))], axis=-1)
        with np.errstate(over="ignore"):  # standard deviations of diverging loops are scaled back to 1e100
            scale = np.minimum(1.0, kernels.FARTHEST / np.maximum(np.sqrt(np.vecdot(moved, moved)), 1.0))
        new = _append(F, rows, np.zeros((*own.shape[:-1], fresh.shape[-1])))
        new[..., rows, :] = scale[..., None] * moved
        return {**self._affine_mean_and_cross(rows, K, k, scale), "factor": new}

    def _assign_factor(self, rows: slice, var: Array | None) -> Array:
        """Return F after assigning values with variances ``var`` (…, r) to x[rows]."""
        F = self.factor.copy()
        F[..., rows, :] = 0.0
        return F if var is None or not np.any(var) else _append(F, rows, _diagonal(np.sqrt(var)))


def _append(F: Array, rows: slice | npt.NDArray[np.intp], columns: Array) -> Array:
    """Append ``columns`` (…, r, q) to F (…, n, k), zero outside ``rows``."""
    k = F.shape[-1]
    new = np.zeros((*F.shape[:-1], k + columns.shape[-1]))
    new[..., :k], new[..., rows, k:] = F, columns
    return new


def _condition(F: Array, told: Observation) -> tuple[Array, Array]:
    """Return the Kalman gain (…, n, s) of an observation and the posterior factor."""
    here = told.here[..., None]
    seen = np.where(here, F[..., told.seen, :], 0.0)
    if told.noise is not None:  # columns of the noise, independent of x
        noise = told.noise_root()
        seen = np.concatenate([seen, np.broadcast_to(noise, (*seen.shape[:-1], noise.shape[-1]))], axis=-1)
        F = np.concatenate([F, np.zeros((*F.shape[:-1], noise.shape[-1]))], axis=-1)
    gain, factor = condition_root(seen, F)
    factor = np.ascontiguousarray(factor)
    factor[..., told.seen, :] = np.where(told.exact[..., None], 0.0, factor[..., told.seen, :])
    return gain, factor


@dataclass(frozen=True, eq=False)
class LowRank(_Factored):
    """Gaussian state with low-rank plus diagonal covariance, Cov(x) = F Fᵀ + diag(0, D), for x = [c, h].

    ``factor`` is F (…, n, k). ``own`` is D (…, N), independent variances of the entries of h.

    A move maps F Fᵀ to T F Fᵀ Tᵀ + M. Here T is the linearized transition, and M is the sum of T D Tᵀ, the covariance of the
    activations beyond first order, and noise. M is never formed: only its products with a few directions V are computed, which
    include the directions that are read out. The Nyström approximation G Gᵀ = M V (Vᵀ M V)⁻¹ Vᵀ M is bounded by M and exact
    on V. G is appended to F, and the remaining diagonal is the new D. The second-order term of the activations (Mehler's series)
    is computed from products of two columns of F.

    F is then rotated and truncated to the columns of largest norm. Truncation preserves all variances, and all covariances of c
    and of the directions that are read out. D therefore does not contribute to the outputs. In :meth:`affine`, each row of K
    over h must lie in the basis of the cell's ``compression``. A cell moves entries of h only; the cost is one sparse product
    with k columns and O(N k²).
    """

    own: Array

    def check(self, name: str, carried: int, n_units: int) -> None:  # noqa: D102
        columns = np.shape(np.atleast_1d(self.factor))[-1]
        self._check_parts(name, carried, n_units, factor=(carried + n_units, columns), own=(n_units,))
        check_not_negative(f"{name}.own", self.own)

    def variances(self) -> Array:  # noqa: D102
        var: Array = np.einsum("...ij,...ij->...i", self.factor, self.factor)
        var[..., self.carried :] += self.own
        return var

    def cross_covariance(self, rows: slice) -> Array:  # noqa: D102
        result, inside = super().cross_covariance(rows), np.arange(max(rows.start, self.carried), rows.stop)
        result[..., inside, inside - rows.start] += self.own[..., inside - self.carried]
        return result

    def block_covariance(self, rows: slice) -> Array:  # noqa: D102
        result, inside = super().block_covariance(rows), np.arange(max(rows.start, self.carried), rows.stop)
        result[..., inside - rows.start, inside - rows.start] += self.own[..., inside - self.carried]
        return result

    def sample(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        result = super().sample(n, rng)
        fresh = rng.standard_normal((*result.shape[:-1], self.own.shape[-1]))
        result[..., self.carried :] += fresh * np.sqrt(self.own)[..., None, :]
        return result

    def trace(self, A: QuadraticForm) -> Array:  # noqa: D102
        F, total, n = self.factor, self.own @ A.diagonal[self.carried :], len(A.matrix)
        near = A.near_identity if F.size > n * n else None  # an eigendecomposition costs as much as n columns
        if near is not None:
            w, apart, V = near
            along = V @ F
            total = total + w * np.einsum("...ij,...ij->...", F, F)
            total = total + np.einsum("...ij,...ij->...i", along, along) @ apart
            return np.asarray(np.maximum(total, 0.0))
        for start in range(0, n, _BLOCK):  # A is symmetric: blocks above the diagonal count twice
            stop = start + _BLOCK
            here = F[..., start:stop, :]
            beside = A.matrix[start:stop, start:stop] @ here
            if stop < n:
                beside += 2.0 * (A.matrix[start:stop, stop:] @ F[..., stop:, :])
            total = total + np.einsum("...ij,...ij->...", beside, here)
        return np.asarray(np.maximum(total, 0.0))

    def only(self, places: npt.NDArray[np.intp]) -> LowRank:  # noqa: D102
        own = self.own[..., places[places >= self.carried] - self.carried]
        return self._only(places, factor=self.factor[..., places, :], own=own)

    def _move_parts(self, cell: Cell, noise: Noise | None) -> tuple[Array, Array, Parts]:
        p, L, F, D, rows, compression = self.carried, cell.leaks, self.factor, self.own, cell.rows, cell.compression
        assert compression is not None  # set for all cells that move entries of h only
        into = cell.enter @ np.concatenate([F, self.mean[..., None]], axis=-1)
        mean, into = into[..., -1] + cell.bias, into[..., :-1]
        A, transposed, squares = cell.slice_columns(p)
        spread = (squares @ D[..., None])[..., 0]
        var = np.einsum("...ij,...ij->...i", into, into) + spread
        unit, unit_var = cell.units.moments(mean, var)
        g, curvature = cell.units.slopes(mean, var)
        # for small variances the difference suffers from cancellation: use its leading term (f″ v)²/2,
        # unless f has a kink, where the difference is of order v
        rest = np.where((var < 1e-8) & cell.units.smooth, 0.5 * np.square(curvature * var), unit_var - g * g * var)
        rest = total = L * L * np.maximum(rest, 0.0)
        second = None
        if cell.whole:
            *_, all_of_it = cell.units.linearize(mean, outer(into) + _diagonal(spread))
            second, rest = L[:, None] * factor_covariance(all_of_it), np.zeros_like(rest)
        else:
            wide = self._second_order_columns(into, compression, total.sum(axis=-1) > 1e-4 * np.sum(L * L * unit_var, axis=-1))
            if wide is not None:
                second, rest = _second_order(wide, rest, L * curvature)
        slope = (L * g)[..., None]
        into, keep = slope * into, 1.0 - L[:, None]
        if keep.any():
            into += keep * cell.rotate(F[..., rows, :])
        mine = slice(rows.start - p, rows.stop - p)
        # the diagonal of T D Tᵀ, T = (1 − L) O + L g A
        tied = 2.0 * (1.0 - L) * L * g * cell.memory_input_covariances(D[..., mine])
        own = (L * g) ** 2 * spread + tied + (1.0 - L) ** 2 * cell.memory_variances(D[..., mine])
        own = np.maximum(own, 0.0) + total + (0.0 if noise is None else noise.variances)

        def times(V: Array) -> Array:
            """Return M V (…, N, s) for directions V (…, r, s) over the rows that move; D couples them to other rows."""
            product, result = np.zeros((*D.shape, V.shape[-1])), rest[..., None] * V
            if second is not None:
                result += second @ (transpose(second) @ V)
            if D.any():
                back = transposed @ (slope * V)
                back[..., mine, :] += cell.rotate_back(keep * V)
                back *= D[..., None]
                result += keep * cell.rotate(back[..., mine, :]) + slope * (A @ back)
                product[...] = back
            if noise is not None:
                result += noise.times(V)
            product[..., mine, :] = result
            return product

        left, moved = D.copy(), F.copy()
        left[..., mine], moved[..., rows, :] = own, into
        if own.any():
            V = _sketch_directions(into, compression, p, mine)
            moved, left = _append_nystrom(moved, left, p, V, times(V), mine)
        factor, left = truncate(moved, left, p, compression)
        return unit, g, {"factor": factor, "own": left}

    def _second_order_columns(self, into: Array, compression: Compression, large: npt.NDArray[np.bool_]) -> Array | None:
        """Return the columns (…, r, w) whose products form the second-order term, or None if it is omitted.

        ``large`` (…) marks the states for which the term is not negligible.
        """
        if len(compression.squared) and self.factor.shape[-1]:
            return _rotate_columns(into, self.factor[..., compression.squared, :], compression.products)
        if compression.products and large.any():
            return _widest(into, compression.products) * large[..., None, None]
        return None

    def add(self, noise: Noise, compression: Compression | None = None) -> LowRank:  # noqa: D102
        assert compression is not None
        p, n = self.carried, self.mean.shape[-1]
        mine = slice(noise.rows(n).start - p, n - p)
        V = _sketch_directions(self.factor[..., noise.rows(n), :], compression, p, mine)
        Y, own = np.zeros((*self.own.shape, V.shape[-1])), self.own.copy()
        Y[..., mine, :] = noise.times(V)
        own[..., mine] += noise.variances
        factor, own = truncate(*_append_nystrom(self.factor, own, p, V, Y, mine), p, compression)
        return self.with_arrays(factor=factor, own=own)

    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> LowRank:  # noqa: D102
        parts = self._affine_parts(rows, K, k, noise_root)
        return self.with_arrays(**{**parts, "factor": _pack(parts["factor"]), "own": self._without_own(rows)})

    def assign(self, rows: slice, values: Array, var: Array | None = None) -> LowRank:  # noqa: D102
        factor, parts = _pack(self._assign_factor(rows, var)), self._assign_mean_and_cross(rows, values)
        return self.with_arrays(factor=factor, own=self._without_own(rows), **parts)

    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> LowRank:  # noqa: D102
        # group states by their missing entries: the rotation of a state must not depend on its batch
        batch, r = self.mean.shape[:-1], values.shape[-1]
        values = np.broadcast_to(values, (*batch, r))
        patterns, which = np.unique(np.isnan(values).reshape(-1, r), axis=0, return_inverse=True)
        if not batch or len(patterns) <= 1:
            return self._condition_together(rows, values, noise_cov)
        noise = None if noise_cov is None else np.broadcast_to(noise_cov, (*batch, r, r))
        groups = [which.reshape(batch) == i for i in range(len(patterns))]
        done = [self.part(here).condition(rows, values[here], None if noise is None else noise[here]) for here in groups]
        factor = np.zeros((*self.mean.shape, max(one.factor.shape[-1] for one in done)))
        mean, cross, own = (np.empty_like(part) for part in (self.mean, self.cross, self.own))
        for here, one in zip(groups, done, strict=True):
            mean[here], cross[here], own[here] = one.mean, one.cross, one.own
            factor[here, :, : one.factor.shape[-1]] = one.factor
        return self.with_arrays(mean=mean, cross=cross, own=own, factor=factor)

    def _condition_together(self, rows: slice, values: Array, noise_cov: Array | None) -> LowRank:
        """Condition a batch of states with the same missing entries."""
        told = observe(rows, values, noise_cov)
        F, own, p = self.factor, self.own, self.carried
        inside = told.seen[told.seen >= p]
        if own[..., inside - p].any():  # the diagonal variances of observed entries become columns
            F, own = _append(F, inside, _diagonal(np.sqrt(own[..., inside - p]))), own.copy()
            own[..., inside - p] = 0.0
        gain, factor = _condition(F, told)
        return self.with_arrays(factor=_pack(factor), own=own, **self._condition_mean_and_cross(told, gain))

    def _without_own(self, rows: slice) -> Array:
        """Return ``own`` with zeros at x[rows], whose variance is entirely in the factor."""
        own, first, last = self.own.copy(), *(max(place - self.carried, 0) for place in (rows.start, rows.stop))
        own[..., first:last] = 0.0
        return own


def _diagonal(values: Array) -> Array:
    """Return diagonal matrices (…, n, n) with diagonals ``values`` (…, n)."""
    return values[..., None] * np.eye(values.shape[-1])


def _pack(F: Array) -> Array:
    """Remove zero columns from F (…, n, k); a batch keeps the largest number of nonzero columns of its states."""
    live = F.any(axis=-2)
    if live.all():
        return F
    order = np.argsort(~live, axis=-1, kind="stable")[..., : live.sum(axis=-1).max(initial=0)]
    return np.take_along_axis(F, order[..., None, :], axis=-1)


def truncate(F: Array, own: Array, p: int, compression: Compression) -> tuple[Array, Array]:
    """Rotate F and truncate it to the columns of largest norm; add the lost variance to ``own``.

    The covariances of the p entries of c and of the projections on the basis are preserved. To amortize its cost, truncation is
    delayed until F has half the rank more columns than it keeps.
    """
    rank = compression.rank
    width = max(rank, p + rank // 2)
    F = _pack(F)
    count = F.any(axis=-2).sum(axis=-1)
    full = count > width + rank // 2
    if not full.any():
        return F, own
    if not full.all():  # truncate only the states that need it
        cut, left = truncate(F[full], own[full], p, compression)
        F, own = F[..., : max(cut.shape[-1], count[~full].max())].copy(), own.copy()
        F[full], own[full] = 0.0, left
        F[full, :, : cut.shape[-1]] = cut
        return F, own
    h = F[..., p:, :]
    first = _span(np.concatenate([F[..., :p, :], compression.basis.T @ h], axis=-2))
    room = np.maximum(width - first.any(axis=-2).sum(axis=-1), 0)  # number of other columns of each state
    # first the directions that c and the basis depend on, then the others by norm
    if first.any(axis=-2).all():
        apart = h @ np.linalg.qr(first, mode="complete")[0][..., first.shape[-1] :]
        _, vectors = np.linalg.eigh(transpose(apart) @ apart)
        kept = apart @ vectors[..., ::-1][..., : room.max(initial=0)]
        turned = np.zeros((*F.shape[:-1], first.shape[-1] + kept.shape[-1]))
        turned[..., : first.shape[-1]], turned[..., p:, first.shape[-1] :] = F @ first, kept
        lost = np.einsum("...ij,...ij->...i", apart, apart) - np.einsum("...ij,...ij->...i", kept, kept)
    else:  # some states have fewer directions: make the eigenvalues of ``first`` negative, so that they come last
        gram = transpose(h) @ h
        apart = gram - first @ (transpose(first) @ gram)
        apart -= (apart @ first + np.trace(gram, axis1=-2, axis2=-1)[..., None, None] * first) @ transpose(first)
        _, vectors = np.linalg.eigh(symmetric(apart))
        vectors = vectors[..., ::-1][..., : room.max()] * (np.arange(room.max()) < room[..., None])[..., None, :]
        turned = F @ np.concatenate([first, vectors], axis=-1)
        lost = np.einsum("...ij,...ij->...i", h, h) - np.einsum("...ij,...ij->...i", turned[..., p:, :], turned[..., p:, :])
    return _pack(turned), own + np.maximum(lost, 0.0)


def _span(rows: Array) -> Array:
    """Return an orthonormal basis (…, k, s) of the span of ``rows`` (…, s, k), in the order of the rows.

    A row that is linearly dependent on earlier ones adds no direction: QR would return rounding errors for it. States of a batch
    with fewer directions are padded with zero columns.
    """
    directions, triangle = np.linalg.qr(transpose(rows))
    live = np.abs(triangle.diagonal(0, -2, -1)) > _DEPENDENT * np.sqrt(np.vecdot(rows, rows)[..., : triangle.shape[-2]])
    if live.all() or rows.shape[-2] >= rows.shape[-1]:
        return directions
    count = live.sum(axis=-1)
    order = np.argsort(~live, axis=-1, kind="stable")[..., : count.max(initial=0)]
    there = np.arange(order.shape[-1]) < count[..., None]
    rows = np.take_along_axis(rows, order[..., None], axis=-2) * there[..., None]
    return np.linalg.qr(transpose(rows))[0] * there[..., None, :]


def _append_nystrom(F: Array, own: Array, p: int, V: Array, Y: Array, mine: slice) -> tuple[Array, Array]:
    """Append the Nyström factor G of M, given Y = M V, to F (…, n, k); return F and the remaining diagonal (…, N) of ``own``."""
    G = Y @ inverse_root(transpose(V) @ Y[..., mine, :])  # G Gᵀ = Y (Vᵀ Y)⁻¹ Yᵀ
    return _append(F, slice(p, None), G), np.maximum(own - np.einsum("...ij,...ij->...i", G, G), 0.0)


def _sketch_directions(moved: Array, compression: Compression, p: int, mine: slice) -> Array:
    """Return directions V (…, r, s): the basis and the leading columns of ``moved``, or the identity if the rank allows it."""
    n = moved.shape[-2]
    if compression.rank >= n + p:
        return np.broadcast_to(np.eye(n), (*moved.shape[:-2], n, n))
    basis = compression.basis[mine]
    basis = basis[:, basis.any(axis=0)]  # columns for other cells are zero in these rows
    widest = moved[..., p : p + max(_SKETCH - basis.shape[1], 0)]
    return np.concatenate([np.broadcast_to(basis, (*moved.shape[:-2], *basis.shape)), widest], axis=-1)


def _widest(into: Array, count: int) -> Array:
    """Return the ``count`` columns of largest norm."""
    size = np.einsum("...ij,...ij->...j", into, into)
    widest = np.argsort(-size, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(into, widest[..., None, :], axis=-1)


def _rotate_columns(into: Array, first: Array, count: int) -> Array:
    """Rotate columns onto the span of the rows ``first`` (…, s, k), and append the ``count`` largest residual columns."""
    turn = np.linalg.qr(transpose(first))[0]
    wide = into @ turn
    # squared norms of the columns of into − wide turnᵀ, expanded: only the selected columns are computed
    along = transpose(into) @ wide
    size = np.einsum("...ij,...ij->...j", into, into) + np.vecdot(turn @ (transpose(wide) @ wide) - 2.0 * along, turn)
    widest = np.argsort(-size, axis=-1, kind="stable")[..., :count]
    others = np.take_along_axis(into, widest[..., None, :], axis=-1)
    others -= wide @ transpose(np.take_along_axis(turn, widest[..., :, None], axis=-2))
    return np.concatenate([wide, others], axis=-1)


def _second_order(wide: Array, rest: Array, curvature: Array) -> tuple[Array, Array]:
    """Return a factor E of the second-order term of Mehler's series, and the remaining variances (…, N) of ``rest``.

    E Eᵀ = ½ diag(curvature) (wide wideᵀ)² diag(curvature), with an elementwise square. The variances of E do not exceed ``rest``.
    """
    wide = np.clip(wide, -_FAR, _FAR)
    # the squared products of any two entries of a row, halved for squares, add up to its half square
    size = np.vecdot(wide, wide)
    variance = 0.5 * np.square(curvature * size)
    kept = np.minimum(variance, rest)
    factor = curvature * np.sqrt(np.divide(kept, variance, out=np.ones_like(variance), where=variance > rest))
    i, j = np.triu_indices(wide.shape[-1])
    columns = factor[..., None] * wide[..., i] * wide[..., j]
    columns[..., i == j] *= np.sqrt(0.5)
    return columns, rest - kept


_GROWTH = 32  # number of additional columns at which the factor is reduced


@dataclass(frozen=True, eq=False)
class FirstOrder(_Factored):
    """Gaussian state with Cov(x) = F Fᵀ: ``factor`` F (…, n, k), a column for each independent source of uncertainty.

    A move computes E[f(a)] and E[f′(a)] from the mean and variance of the preactivations a, and multiplies each column by
    E[f′(a)]. The remainder of Cov f(a), of second order in Cov(a), is dropped. If there are many columns, they are replaced by a
    pivoted Cholesky factor, which preserves the covariances of c, of the directions that are read out, and of the other entries
    with the largest variances.
    """

    @classmethod
    def from_state(cls, state: GaussianState, compression: Compression) -> FirstOrder:
        """Convert a state of another representation."""
        if isinstance(state, LowRank):
            own = _diagonal(np.sqrt(state.own))[..., state.own.any(axis=tuple(range(state.own.ndim - 1)))]
            factor = _append(state.factor, slice(state.carried, None), own)
        else:
            factor = factor_covariance(state.cross_covariance(slice(0, state.mean.shape[-1])))
        factor = factor[..., factor.any(axis=tuple(range(factor.ndim - 1)))]  # remove columns of zeros
        return cls(state.mean, state.carried, state.cross, fewer(factor, state.carried, compression))

    def variances(self) -> Array:  # noqa: D102
        return np.asarray(np.vecdot(self.factor, self.factor))

    def trace(self, A: QuadraticForm) -> Array:  # noqa: D102
        return np.maximum(np.einsum("...ij,...ij->...", A.matrix @ self.factor, self.factor), 0.0)

    def only(self, places: npt.NDArray[np.intp]) -> FirstOrder:  # noqa: D102
        return self._only(places, factor=self.factor[..., places, :])

    def _move_parts(self, cell: Cell, noise: Noise | None) -> tuple[Array, Array, Parts]:
        mean, into = cell.enter_mean(self.mean), cell.enter @ self.factor
        var = np.vecdot(into, into)
        unit, _ = cell.units.moments(mean, var)
        gain = cell.units.gain(mean, var)
        fresh = np.zeros((len(cell.bias), 0)) if noise is None else noise.columns
        new = move_columns(self.factor, into, gain, cell, fresh.shape[1])
        new[..., cell.rows, self.factor.shape[-1] :] = fresh
        if cell.compression is not None:
            new = fewer(new, self.carried, cell.compression)
        return unit, gain, {"factor": new}

    def add(self, noise: Noise, compression: Compression | None = None) -> FirstOrder:  # noqa: D102
        new = _append(self.factor, noise.rows(self.mean.shape[-1]), noise.columns)
        return self.with_arrays(factor=new if compression is None else fewer(new, self.carried, compression))

    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> FirstOrder:  # noqa: D102
        return self.with_arrays(**self._affine_parts(rows, K, k, noise_root))

    def assign(self, rows: slice, values: Array, var: Array | None = None) -> FirstOrder:  # noqa: D102
        return self.with_arrays(factor=self._assign_factor(rows, var), **self._assign_mean_and_cross(rows, values))

    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> FirstOrder:  # noqa: D102
        told = observe(rows, values, noise_cov)
        gain, factor = _condition(self.factor, told)
        return self.with_arrays(factor=factor, **self._condition_mean_and_cross(told, gain))


def fewer(F: Array, p: int, compression: Compression) -> Array:
    """Replace F (…, n, k) by a pivoted Cholesky factor of F Fᵀ if it has many more columns than the rank.

    The covariances of the p entries of c, of the directions that are read out (the basis of ``compression``), and of ``rank``
    other entries, selected by their variance, are preserved.
    """
    if not are_many(F.shape[-1], p, compression):
        return F
    rows = np.concatenate([F[..., :p, :], compression.basis.T @ F[..., p:, :], F[..., p:, :]], axis=-2)
    factor, _ = select_entries(rows, p, compression)
    return np.concatenate([factor[..., :p, :], factor[..., p + compression.basis.shape[-1] :, :]], axis=-2)


def are_many(columns: int, p: int, compression: Compression) -> bool:
    """Return whether a factor with ``columns`` columns has to be reduced."""
    return columns > p + compression.basis.shape[-1] + compression.rank + _GROWTH


def select_entries(rows: Array, p: int, compression: Compression) -> tuple[Array, npt.NDArray[np.intp]]:
    """Compute a pivoted Cholesky factor (…, e, r) of the Gram matrix of ``rows`` (…, e, k), those of [c, basis, h].

    Also return its pivots (…, r), padded with −1.
    """
    first = p + compression.basis.shape[-1]
    size = min(first + compression.rank, rows.shape[-2])
    factor, pivots = np.zeros((*rows.shape[:-1], size)), np.full((*rows.shape[:-2], size), -1, np.intp)
    kernels.pivot_cholesky(flat(rows), first, flat(factor), flat(pivots, 1))
    return factor, pivots
