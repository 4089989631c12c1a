"""The third-order closure: mean, covariance and third cumulants are propagated from layer to layer.

The output of a layer is skewed, which changes mean and covariance of the next layer. With Hermite coefficients c_n of a layer,
f(z) − μ = Σ c_n He_n(x)/√(n!), and ρ the correlations of its pre-activations, the third cumulants of its outputs are, to leading
order, those of a tree with one branching,

    κ_ijk = Σ_a (U_ia S_ja S_ka + S_ia U_ja S_ka + S_ia S_ja U_ka),    U = √2 diag(c_2),  S = diag(c_1) ρ,

and on the diagonal what each unit has beside that. They are never multiplied out: affine maps and later gains act on the columns,
U ← W U, S ← W S. In a layer whose pre-activations have such cumulants, standardized, Edgeworth's first term corrects the moments:

    Δμ_i = κ_iii c_3/√6,    ΔVar_i = κ_iii/6 · E[(f − μ)² He_3] − Δμ²,
    ΔCov_ij = (κ_iii A_ij + 3 κ_iij B_ij)/6 + the same with i and j exchanged − Δμ_i Δμ_j,
    A = Σ_{n≥1} ρⁿ √((n+1)(n+2)(n+3)) c_{n+3}(i) c_n(j),    B = Σ_{n≥0} ρⁿ √((n+1)(n+2)) c_{n+2}(i) √(n+1) c_{n+1}(j).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array, FloatArray
from pesn.linalg import symmetric, transpose
from pesn.moments import moments
from pesn.moments.mehler import project
from pesn.networks.gaussian_closure import activation_covariance
from pesn.networks.layers import Dense, is_linear

Mask: TypeAlias = npt.NDArray[np.bool_]

ORDERS = 8  # terms of the series in ρ
MOST_SKEWED = 2.0  # limit of a standardized third cumulant, as Edgeworth's expansion is about 0
LEAST_LEFT = 0.2  # smallest fraction of a variance that is left after the correction
LEAST = 1e-200  # variance below which cubes of standard deviations underflow
STRAIGHT = 1e-12  # variance relative to the activation's scale below which f is linear up to rounding
_NODES, _REACH = 49, 7.2  # grid for averages of cubes


class Cumulants(NamedTuple):
    """Third cumulants of D entries, of arrays or tensors: S and U (…, D, k), t (…, k).

    Of branchings Σ_a (U_ia S_ja S_ka + S_ia U_ja S_ka + S_ia S_ja U_ka); with t in the place of U Σ_a t_a S_ia S_ja S_ka, of
    entries that are skewed by themselves.
    """

    S: Any
    U: Any = None
    t: Any = None

    def times(self, W: Any) -> Cumulants:
        """Return the third cumulants of W x."""
        return Cumulants(W @ self.S, None if self.U is None else W @ self.U, self.t)

    def rescale(self, factor: Any) -> Cumulants:
        """Return the third cumulants of entries times ``factor`` (…, D)."""
        return Cumulants(factor[..., None] * self.S, None if self.U is None else factor[..., None] * self.U, self.t)

    def iij(self) -> Any:
        """Return κ_iij (…, D, D)."""
        if self.U is None:
            return (self.S * self.S * self.t[..., None, :]) @ self.S.mT
        return (self.U * self.S) @ (2.0 * self.S).mT + (self.S * self.S) @ self.U.mT


class Fresh(NamedTuple):
    """What a layer has just made: branchings with U = diag(u) and S (…, D, D), and what each unit t (…, D) has to itself."""

    u: Any
    S: Any
    t: Any

    def times(self, W: Any) -> list[Cumulants]:
        """Return the third cumulants of W x; products with diagonal matrices are not multiplied out."""
        return [Cumulants(W @ self.S, W * self.u[..., None, :]), Cumulants(W, t=self.t)]


class Outputs(NamedTuple):
    """What the third cumulants of a layer's outputs are computed from, of arrays or tensors.

    ``c`` (…, D, N): Hermite coefficients; ``rho`` (…, D, D) and ``std`` (…, D) of the pre-activations; ``bent`` (…, n): units
    that are no lines up to rounding; ``away`` (…, n, nodes): f − μ on the grid, with its two kinds of ``weights``, for averages
    and for averages of products with He_3.
    """

    c: Any
    rho: Any
    std: Any
    bent: Any
    away: Any
    weights: tuple[Any, Any]

    def correct(self, older: Sequence[Cumulants], var: Any, cov: Any, library: Any) -> tuple[Any, Any, Any]:
        """Compute Δμ (…, D), variances (…, D) and correlations (…, D, D) of pre-activations with third cumulants.

        ``var`` and ``cov`` are those of Gaussian pre-activations. A and B are summed by Horner's rule.
        """
        c, rho, std = self.c, self.rho, self.std
        # one after the other: squares may underflow
        iij = sum(one.iij() for one in older) / std[..., :, None] / std[..., :, None] / std[..., None, :]
        iii = library.clip(library.diagonal(iij, 0, -2, -1), -MOST_SKEWED, MOST_SKEWED)
        shift = iii * c[..., 2] / math.sqrt(6.0)
        skewness = self._pad(library.where(self.bent, (self.away * self.away) @ self.weights[1], 0.0), library)
        new = library.maximum(var + iii / 6.0 * skewness - shift * shift, LEAST_LEFT * var)
        both = alone = 0.0 * rho
        for n in range(ORDERS - 1, -1, -1):
            both = both * rho + math.sqrt((n + 1) * (n + 2) * (n + 1)) * c[..., :, None, n + 1] * c[..., None, :, n]
            if n:
                alone = alone * rho + math.sqrt((n + 1) * (n + 2) * (n + 3)) * c[..., :, None, n + 2] * c[..., None, :, n - 1]
        half = (iii[..., None] * rho * alone + 3.0 * iij * both) / 6.0
        live = new > 0.0
        scale = library.where(live, 1.0 / library.sqrt(library.where(live, new, 1.0)), 0.0)
        total = cov + half + half.mT - shift[..., :, None] * shift[..., None, :]
        return shift, new, library.clip(total * scale[..., :, None] * scale[..., None, :], -1.0, 1.0)

    def cumulants(self, shift: Any, library: Any) -> Fresh:
        """Return the third cumulants of the outputs, whose means were moved by ``shift`` (…, D)."""
        first, bend, n = self.c[..., 0], math.sqrt(2.0) * self.c[..., 1], self.bent.shape[-1]
        away = self.away - shift[..., :n, None]
        rest = library.where(self.bent, (away * away * away) @ self.weights[0] - (3.0 * bend * first * first)[..., :n], 0.0)
        return Fresh(bend, self.c[..., :1] * self.rho, self._pad(rest, library))

    def _pad(self, units: Any, library: Any) -> Any:
        """Return values of units with zeros for carried numbers behind them."""
        return library.concatenate([units, 0.0 * self.std[..., units.shape[-1] :]], -1)


class Skewed(NamedTuple):
    """Mean (…, D), covariance (…, D, D) and third cumulants, those of the last layer and of layers before it."""

    mean: Array
    cov: Array
    older: tuple[Cumulants, ...] = ()
    fresh: Fresh | None = None


def third_order(layers: Sequence[Dense], mean: FloatArray, cov: FloatArray) -> list[Skewed]:
    """Compute the state after each layer, of a Gaussian input of mean (d,) and covariance (d, d), or a batch of such."""
    state = Skewed(np.asarray(mean, float), np.asarray(cov, float))
    states = []
    for place, layer in enumerate(layers):
        further = any(not is_linear(later) for later in layers[place + 1 :])
        state = _affine(layer, state)
        if not is_linear(layer):
            state = _activate(layer, state, further)
        states.append(state)
    return states


def _affine(layer: Dense, x: Skewed) -> Skewed:
    W = np.asarray(layer.W, float)
    cumulants = [*(one.times(W) for one in x.older), *(() if x.fresh is None else x.fresh.times(W))]
    return Skewed(x.mean @ W.T + layer.b, symmetric(W @ x.cov @ W.T), tuple(cumulants))


def _activate(layer: Dense, z: Skewed, further: bool) -> Skewed:
    """Apply the activation; ``further``: whether a later layer needs third cumulants. Carried numbers are units with f(z) = z."""
    f, units = layer.activation, layer.units
    var = np.maximum(np.diagonal(z.cov, axis1=-2, axis2=-1), 0.0)
    unit = moments(f, z.mean[..., :units], var[..., :units])
    mean = np.concatenate([unit.mean, z.mean[..., units:]], axis=-1)
    cov = np.asarray(activation_covariance(f, units, z.mean, z.cov, unit.var), float)
    if not (further or z.older):
        return Skewed(mean, cov)
    live = var > LEAST
    std = np.sqrt(np.where(live, var, 1.0))
    bent = (var > STRAIGHT * min(f.scale, 1.0) ** 2)[..., :units]
    c = _coefficients(layer, z.mean, std, live, bent)
    rho = z.cov / (std[..., :, None] * std[..., None, :])
    np.minimum(np.maximum(rho, -1.0, out=rho), 1.0, out=rho)
    own = np.arange(std.shape[-1])
    rho[..., own, own] = live
    x, weights, cubic = third_order_grid()
    away = np.asarray(f.value(z.mean[..., :units, None] + np.sqrt(var[..., :units])[..., None] * x), float)
    away -= unit.mean[..., None]
    outputs, shift = Outputs(c, rho, std, bent, away, (weights, cubic)), np.zeros(std.shape)
    if z.older:
        before = np.concatenate([unit.var, var[..., units:]], axis=-1)
        shift, after, correlation = outputs.correct(z.older, before, cov, np)
        correlation[..., own, own] = 1.0
        mean, cov = mean + shift, _semidefinite(correlation, after)
    if not further:
        return Skewed(mean, cov)
    return Skewed(mean, cov, tuple(one.rescale(c[..., 0] / std) for one in z.older), outputs.cumulants(shift, np))


def _coefficients(layer: Dense, mean: Array, std: Array, live: Mask, bent: Mask) -> Array:
    """Compute the Hermite coefficients c_1, c_2, … (…, D, N) of a layer's outputs."""
    units = layer.units
    c = np.zeros((*std.shape, ORDERS + 3))
    some = live[..., :units]
    if some.any():
        m, s = mean[..., :units][some], std[..., :units][some]
        c[..., :units, :][some] = project(layer.activation, m, s, ORDERS + 3)[0] * s[:, None]
    c[..., :units, 1:][~bent] = 0.0
    c[..., units:, 0] = np.where(live, std, 0.0)[..., units:]
    return c


def _semidefinite(correlation: Array, var: Array) -> Array:
    """Return a covariance with the diagonal ``var`` and no negative eigenvalue, which an expansion may have."""
    size = var.shape[-1]
    try:
        np.linalg.cholesky(correlation + 1e-10 * np.eye(size))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(correlation)
        whole = (vectors * np.maximum(values, 0.0)[..., None, :]) @ transpose(vectors)
        scale = np.sqrt(np.diagonal(whole, axis1=-2, axis2=-1))
        whole = symmetric(whole / scale[..., :, None] / scale[..., None, :])
        correlation = np.where((values[..., :1, None] <= -1e-10), whole, correlation)
    std = np.sqrt(var)
    result = correlation * (std[..., :, None] * std[..., None, :])
    own = np.arange(size)
    result[..., own, own] = var
    return result


@lru_cache(maxsize=1)
def third_order_grid() -> tuple[Array, Array, Array]:
    """Return points, weights of the standard normal, and these times He_3."""
    x = np.linspace(-_REACH, _REACH, _NODES)
    weights = np.exp(-0.5 * x * x)
    weights /= weights.sum()
    return x, weights, weights * (x**3 - 3.0 * x)
