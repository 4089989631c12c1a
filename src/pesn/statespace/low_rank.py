"""Beliefs with the covariances that a factor of few columns can hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn.linalg import explain, inverse_root, outer, symmetric
from pesn.statespace.cell import Coupling, Noise
from pesn.statespace.state import Belief

__all__ = ["LowRank", "cut"]

Array = npt.NDArray[np.float64]
_SKETCH = 8  # directions in which what the units have to themselves is followed


@dataclass(frozen=True, eq=False)
class LowRank(Belief):
    """With Cov(x) = F Fᵀ + diag(0, D): ``factor`` F (p + N, k) and ``own`` D (N,), what each unit has to itself.

    A step makes F Fᵀ ← T F Fᵀ Tᵀ + M, where M = T D Tᵀ + tanh's rest + noise is known by its products with a few directions V,
    the readout's among them. Nyström's formula G Gᵀ = M V (Vᵀ M V)⁻¹ Vᵀ M never exceeds M and agrees with it on V: G is appended
    to F, what its diagonal lacks is the new D. Of tanh's rest, Mehler's second order is F's own: ρ² is made of the products of
    two columns. F is then turned and cut to its widest columns; of c and of the readout's rows nothing is cut, and
    every unit keeps its variance. So D has no share in what the readout sees, and in :meth:`carry` a row of K over the
    units must be one that the readout's rows make up. A step costs one sparse product with k columns and O(N k²).
    """

    factor: Array
    own: Array

    def variances(self) -> Array:  # noqa: D102
        var: Array = np.einsum("ij,ij->i", self.factor, self.factor)
        var[self.units] += self.own
        return var

    def cov_carried(self) -> Array:  # noqa: D102
        return outer(self.factor[: self.carried])  # type: ignore[no-any-return]

    def cov_of(self, K: Array) -> Array:  # noqa: D102
        return outer(K @ self.factor)  # type: ignore[no-any-return]

    def draw(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        result: Array = self.mean + rng.standard_normal((n, self.factor.shape[1])) @ self.factor.T
        result[:, self.units] += rng.standard_normal((n, len(self.own))) * np.sqrt(self.own)
        return result

    def with_carried(self, rows: slice) -> Array:  # noqa: D102
        return self.factor @ self.factor[: self.carried][rows].T

    def trace(self, A: Array) -> float:  # noqa: D102
        return max(float(np.vdot(A @ self.factor, self.factor) + np.diagonal(A)[self.units] @ self.own), 0.0)

    def _through(self, coupling: Coupling, offset: Array, noise: Noise | None) -> tuple[Array, Array, dict[str, Any]]:
        p, L, F, D = self.carried, coupling.leak, self.factor, self.own
        into = coupling.enter(F, self.mean[:, None])
        a, into = into[:, -1] + offset, into[:, :-1]
        spread = coupling.squares @ D
        var = np.einsum("ij,ij->i", into, into) + spread
        unit, unit_var = coupling.moments(a, var)
        g = coupling.gain(a, var)
        # where the variance is small its difference has no digits left, and its leading term, (tanh″ v)²/2, is all there is
        rest = np.where(var < 1e-8, 2.0 * np.square(unit * g * var), unit_var - g * g * var)
        rest = total = L * L * np.maximum(rest, 0.0)
        second = None
        if coupling.products and total.sum() > 1e-4 * L * L * unit_var.sum():
            second = _second_order(into, rest, L * _curvature(coupling, a, var, g), coupling.products)
            rest = np.maximum(total - np.einsum("ij,ij->i", second, second), 0.0)
        slope = (L * g)[:, None]
        into *= slope
        if L < 1.0:
            into += (1.0 - L) * F[p:]
        # the diagonal of T D Tᵀ, T = (1 − L) I + L g W
        own = (L * g) ** 2 * spread + (2.0 * (1.0 - L) * L * g * coupling.diagonal + (1.0 - L) ** 2) * D
        own = np.maximum(own, 0.0) + total + (0.0 if noise is None else noise.variances())

        def times(V: Array) -> Array:
            result: Array = rest[:, None] * V
            if second is not None:
                result += second @ (second.T @ V)
            if D.any():
                back = D[:, None] * ((1.0 - L) * V + coupling.times_transposed(slope * V))
                result += (1.0 - L) * back + slope * coupling.times(back)
            if noise is not None:
                result += noise.root.T @ (noise.root @ V) + noise.diagonal[:, None] * V
            return result

        columns = [into]
        if own.any():
            V = _directions(into, coupling, p)
            G, own = _nystroem(times(V), V, own)
            columns.append(G)
        factor = np.empty((len(F), sum(part.shape[1] for part in columns)))
        factor[:p, : F.shape[1]], factor[:p, F.shape[1] :] = F[:p], 0.0
        np.concatenate(columns, axis=1, out=factor[p:])
        factor, own = cut(factor, own, p, coupling)
        return unit, g, {"factor": factor, "own": own}

    def carry(self, K: Array, k: Array, noise_root: Array | None = None) -> LowRank:  # noqa: D102
        h, q, width = self.units, len(k), self.factor.shape[1]
        fresh = np.zeros((q, 0)) if noise_root is None else noise_root[:, noise_root.any(axis=0)]
        F = np.empty((q + len(self.own), width + fresh.shape[1]))
        F[:q, :width], F[:q, width:], F[q:, :width], F[q:, width:] = K @ self.factor, fresh, self.factor[h], 0.0
        parts = self._carried(K, k, np.sqrt(np.einsum("ij,ij->i", F[:q], F[:q])))
        F[:q] *= parts.pop("held")[:, None]
        return replace(self, factor=F, **parts)

    def observe(self, values: Array) -> LowRank:  # noqa: D102
        (seen,) = np.nonzero(~np.isnan(values))
        gain, factor = explain(self.factor[seen], self.factor)
        mean = self.mean + gain @ (values[seen] - self.mean[seen])
        factor = np.ascontiguousarray(factor)
        mean[seen], factor[seen] = values[seen], 0.0
        return replace(self, mean=mean, factor=factor, cross=self._cross_given(seen, gain))


def cut(F: Array, own: Array, p: int, coupling: Coupling, exact: Array | None = None) -> tuple[Array, Array]:
    """F turned and cut to its widest columns, what is cut off in ``own``; c and the outputs lose nothing.

    As many are left as the rank says, but not before there are half as many again: to cut costs as much as to have them.
    """
    rank = coupling.rank
    width = max(rank, p + rank // 2)
    if F.shape[1] <= width + rank // 2:
        return F, own
    h = F[p:]
    seen = np.concatenate([F[:p], coupling.basis.T @ h] + ([] if exact is None else [exact @ h]))
    first = np.linalg.qr(seen.T)[0]
    gram = h.T @ h
    # the columns that all of c and the outputs hang on come first; the others by their size, apart from these, which go below 0
    apart = gram - first @ (first.T @ gram)
    apart -= (apart @ first + np.trace(gram) * first) @ first.T
    _, vectors = np.linalg.eigh(symmetric(apart))
    turned = F @ np.hstack([first, vectors[:, ::-1][:, : max(width - first.shape[1], 0)]])
    return turned, own + np.maximum(np.einsum("ij,ij->i", h, h) - np.einsum("ij,ij->i", turned[p:], turned[p:]), 0.0)


def _directions(moved: Array, coupling: Coupling, p: int) -> Array:
    """V (N, s): the readout's directions and the widest columns of ``moved``, which come first in it; all, if there is room."""
    n = len(moved)
    if coupling.rank >= n + p:
        return np.eye(n)
    return np.hstack([coupling.basis, moved[:, p : p + max(_SKETCH - coupling.basis.shape[1], 0)]])


def _nystroem(Y: Array, V: Array, diagonal: Array) -> tuple[Array, Array]:
    """F with F Fᵀ = Y (Vᵀ Y)⁻¹ Yᵀ, and what is left of ``diagonal``; Y = Cov V."""
    F = Y @ inverse_root(V.T @ Y)
    return F, np.maximum(diagonal - np.einsum("ij,ij->i", F, F), 0.0)


def _curvature(coupling: Coupling, mean: Array, var: Array, g: Array) -> Array:
    """E[tanh″], the slope of E[tanh′] in the mean."""
    step = 1e-4 * np.sqrt(1.0 + var)
    result: Array = (coupling.gain(mean + step, var) - g) / step
    return result


def _second_order(into: Array, rest: Array, curvature: Array, count: int) -> Array:
    """Columns E with E Eᵀ = Mehler's second order, ½ curvature (into intoᵀ)² curvatureᵀ, of the ``count`` widest columns.

    No row exceeds the ``rest`` that it is a part of.
    """
    widest = np.argsort(-np.einsum("ij,ij->j", into, into), kind="stable")[:count]
    i, j = np.triu_indices(len(widest))
    wide = curvature[:, None] * into[:, widest]
    columns: Array = wide[:, i] * into[:, widest[j]] * np.where(i == j, np.sqrt(0.5), 1.0)
    size = np.einsum("ij,ij->i", columns, columns)
    columns *= np.sqrt(np.divide(rest, size, out=np.ones_like(size), where=size > rest))[:, None]
    return columns
