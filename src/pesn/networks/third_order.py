"""The third-order closure: beside mean and covariance, the third cumulants of every layer go through the next ones.

A layer makes a Gaussian skewed, and the next layer's mean and covariance feel it. With Hermite coefficients c_n of a layer,
f(z) − μ = Σ c_n He_n(x)/√(n!), and ρ the correlations of its pre-activations, the third cumulants of its outputs are, to leading
order, those of a tree with one branching,

    κ_ijk = Σ_a (U_ia S_ja S_ka + S_ia U_ja S_ka + S_ia S_ja U_ka),    U = √2 diag(c_2),  S = diag(c_1) ρ,

and on the diagonal what each unit has beside that. They are never multiplied out: affine maps and later gains act on the columns,
U ← W U, S ← W S. In a layer whose pre-activations have such cumulants, standardised, Edgeworth's first term corrects the moments:

    Δμ_i = κ_iii c_3/√6,    ΔVar_i = κ_iii/6 · E[(f − μ)² He_3] − Δμ²,
    ΔCov_ij = (κ_iii A_ij + 3 κ_iij B_ij)/6 + the same with i and j exchanged − Δμ_i Δμ_j,
    A = Σ_{n≥1} ρⁿ √((n+1)(n+2)(n+3)) c_{n+3}(i) c_n(j),    B = Σ_{n≥0} ρⁿ √((n+1)(n+2)) c_{n+2}(i) √(n+1) c_{n+1}(j).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pesn._support.types import Array, FloatArray
from pesn.activations import Activation
from pesn.linalg import symmetric
from pesn.moments import moments
from pesn.moments.covariance import covariance
from pesn.moments.mehler import project
from pesn.networks.dense import Dense, is_linear

__all__ = ["Skewed", "third_order"]

_ORDERS = 8  # terms of the series in ρ
_MOST_SKEWED = 2.0  # of a standardised third cumulant: Edgeworth's term is an expansion about none
_LEAST_LEFT = 0.2  # of a variance, whatever the correction says
_NODES, _REACH = 49, 7.2  # of the grid on which cubes are averaged


class Branching(NamedTuple):
    """Third cumulants Σ_a (U_ia S_ja S_ka + S_ia U_ja S_ka + S_ia S_ja U_ka) of D entries: U and S (D, k)."""

    U: Array
    S: Array

    def times(self, W: Array) -> Branching:
        """Of W x."""
        return Branching(W @ self.U, W @ self.S)

    def scaled(self, factor: Array) -> Branching:
        """Of entries times ``factor`` (D,)."""
        return Branching(factor[:, None] * self.U, factor[:, None] * self.S)

    def iij(self) -> Array:
        """κ_iij (D, D)."""
        return np.hstack([2.0 * self.U * self.S, np.square(self.S)]) @ np.hstack([self.S, self.U]).T


class Own(NamedTuple):
    """Third cumulants Σ_a t_a S_ia S_ja S_ka: of entries that are skewed by themselves. S (D, k), t (k,)."""

    S: Array
    t: Array

    def times(self, W: Array) -> Own:
        """Of W x."""
        return Own(W @ self.S, self.t)

    def scaled(self, factor: Array) -> Own:
        """Of entries times ``factor`` (D,)."""
        return Own(factor[:, None] * self.S, self.t)

    def iij(self) -> Array:
        """κ_iij (D, D)."""
        return (np.square(self.S) * self.t) @ self.S.T


class Fresh(NamedTuple):
    """What a layer has just made: branchings with U = diag(u) and S (D, D), and what each unit t (D,) has to itself."""

    u: Array
    S: Array
    t: Array

    def times(self, W: Array) -> list[Branching | Own]:
        """Of W x: products with diagonal matrices are not multiplied out."""
        return [Branching(W * self.u, W @ self.S), Own(W, self.t)]


class Skewed(NamedTuple):
    """Mean (D,), covariance (D, D) and third cumulants, those of the last layer and of layers before it."""

    mean: Array
    cov: Array
    older: tuple[Branching | Own, ...] = ()
    fresh: Fresh | None = None


def third_order(layers: Sequence[Dense], mean: FloatArray, cov: FloatArray) -> list[Skewed]:
    """After each layer, of a Gaussian input of mean (d,) and covariance (d, d)."""
    state = Skewed(np.asarray(mean, float), np.asarray(cov, float))
    states = []
    for place, layer in enumerate(layers):
        further = any(not is_linear(later) for later in layers[place + 1 :])
        state = _affine(layer, state)
        if not is_linear(layer):
            state = _activate(layer.activation, state, further)
        states.append(state)
    return states


def _affine(layer: Dense, x: Skewed) -> Skewed:
    W = np.asarray(layer.W, float)
    cumulants = [*(one.times(W) for one in x.older), *(() if x.fresh is None else x.fresh.times(W))]
    return Skewed(W @ x.mean + layer.b, symmetric(W @ x.cov @ W.T), tuple(cumulants))


def _activate(f: Activation, z: Skewed, further: bool) -> Skewed:
    """``further``: whether a layer comes that asks for third cumulants."""
    var = np.maximum(np.diagonal(z.cov), 0.0)
    live = var > 0.0
    std = np.sqrt(np.where(live, var, 1.0))
    unit = moments(f, z.mean, var)
    own_var = np.asarray(unit.var, float)
    cov, mean, shift = (
        np.asarray(covariance(f, z.mean, z.cov, var=unit.var), float),
        np.asarray(unit.mean, float),
        np.zeros(len(std)),
    )
    if not (further or z.older):
        return Skewed(mean, cov)
    c = np.zeros((len(std), _ORDERS + 3))
    if live.any():
        c[live] = project(f, z.mean[live], std[live], _ORDERS + 3)[0] * std[live, None]
    rho = z.cov / (std[:, None] * std)
    np.minimum(np.maximum(rho, -1.0, out=rho), 1.0, out=rho)
    rho[np.diag_indices_from(rho)] = live
    x, weights, cubic = _grid()
    away = np.asarray(f.value(z.mean[:, None] + np.sqrt(var)[:, None] * x), float)
    away -= unit.mean[:, None]
    if z.older:
        iij = sum((one.iij() for one in z.older), np.zeros(rho.shape)) / std[:, None] / std[:, None] / std
        shift, cov = _corrected(c, rho, np.square(away) @ cubic, iij, own_var, cov)
        mean = mean + shift
    if not further:
        return Skewed(mean, cov)
    gain, own = c[:, 0] / std, math.sqrt(2.0) * c[:, 1]
    away -= shift[:, None]
    rest = np.where(live, (away * away * away) @ weights - 3.0 * own * np.square(c[:, 0]), 0.0)
    return Skewed(mean, cov, tuple(one.scaled(gain) for one in z.older), Fresh(own, c[:, :1] * rho, rest))


def _corrected(c: Array, rho: Array, skewness: Array, iij: Array, var: Array, cov: Array) -> tuple[Array, Array]:
    """Δμ (D,) and the covariance (D, D), of units with coefficients c and standardised κ_iij; ``skewness``: E[(f − μ)² He_3]."""
    iii = np.clip(np.diagonal(iij), -_MOST_SKEWED, _MOST_SKEWED)
    shift = iii * c[:, 2] / math.sqrt(6.0)
    A, B = _series(c, rho)
    half = (iii[:, None] * A + 3.0 * iij * B) / 6.0
    changed = cov + half + half.T - np.outer(shift, shift)
    new = np.maximum(var + iii / 6.0 * skewness - np.square(shift), _LEAST_LEFT * var)
    return shift, _semidefinite(changed, new)


def _series(c: Array, rho: Array) -> tuple[Array, Array]:
    """A and B, by Horner's rule in ρ."""
    A, B = np.zeros(rho.shape), np.zeros(rho.shape)
    for n in range(_ORDERS - 1, -1, -1):
        once = math.sqrt(n + 1.0) * c[:, n]
        twice = math.sqrt((n + 1.0) * (n + 2.0)) * c[:, n + 1]
        B *= rho
        B += np.outer(twice, once)
        A *= rho
        if n:
            A += np.outer(math.sqrt((n + 1.0) * (n + 2.0) * (n + 3.0)) * c[:, n + 2], c[:, n - 1])
    return A, B


def _semidefinite(cov: Array, var: Array) -> Array:
    """With the diagonal ``var``, and no negative eigenvalue: an expansion may leave some, small ones."""
    std = np.sqrt(var)
    scale = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0.0)
    correlation = symmetric(cov * scale[:, None] * scale)  # one after the other: of dead units the product overflows
    np.minimum(np.maximum(correlation, -1.0, out=correlation), 1.0, out=correlation)
    correlation[np.diag_indices_from(correlation)] = 1.0
    try:
        np.linalg.cholesky(correlation + 1e-10 * np.eye(len(std)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(correlation)
        correlation = (vectors * np.maximum(values, 0.0)) @ vectors.T
        own = np.sqrt(np.diagonal(correlation))
        correlation = symmetric(correlation / own[:, None] / own)
    result = correlation * (std[:, None] * std)
    result[np.diag_indices_from(result)] = var
    return result


@lru_cache(maxsize=1)
def _grid() -> tuple[Array, Array, Array]:
    """Points, weights of the standard normal, and these times He_3."""
    x = np.linspace(-_REACH, _REACH, _NODES)
    weights = np.exp(-0.5 * x * x)
    weights /= weights.sum()
    return x, weights, weights * (x**3 - 3.0 * x)
