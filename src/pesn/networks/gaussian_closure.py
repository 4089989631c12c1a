"""The Gaussian closure: each layer's output taken as Gaussian, with its exact mean and covariance, layer by layer.

Of wide layers by covariances F Fᵀ + diag(own) with few columns, and no matrix over all pairs of units.

A linear map makes M = W (F Fᵀ + diag(own)) Wᵀ, known by its products with some directions Ω. Nyström's formula
M Ω (Ωᵀ M Ω)⁻¹ Ωᵀ M never exceeds M and agrees with it on Ω: the directions that the network's outputs depend on, by the gains of
a coarser pass, and the widest, by a power of M. The rest of the variances is each unit's own; it has no part in the outputs, and
is kept from the directions that lead to them in the next layer.

A unit's output is g z + rest, g = E[f′], and the rest is uncorrelated with all that is Gaussian: Mehler's series from the second
order on. The second order is treated as M is; of the others a pivoted Cholesky factorization takes the columns that hold most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pesn._support.types import Array, FloatArray, NetworkCovariance
from pesn.activations import Activation
from pesn.gaussian import Gaussian, as_vector, make_gaussian, select_rows
from pesn.linalg import factor_covariance, inverse_root, symmetric
from pesn.moments import UnitMethod, gain, moments, parse_method
from pesn.networks.layers import Dense, check_sizes, is_linear, weight_noise

_ORDERS = 24  # orders of Mehler's series
_COARSE = 8
_NEGLIGIBLE = 1e-4  # relative to the largest variance: smaller residual columns are dropped


def through_layers(layers: Sequence[Dense], x: Gaussian, method: UnitMethod, covariance: NetworkCovariance) -> list[Gaussian]:
    """Compute the Gaussian after each layer.

    Parameters
    ----------
    layers : sequence of Dense
        The network.
    x : Gaussian
        Its input, of mean (d,) or (..., d).
    method : str or tuple
        How the mean and variance of each unit are computed, as of :func:`pesn.moments`.
    covariance : {"full", "diagonal"}
        Whether covariances between units are kept.

    Returns
    -------
    list of Gaussian
        One for each layer.
    """
    parse_method("method", method)  # a network without activations never calls moments()
    x, states = as_vector(x), []
    check_sizes(layers, x)
    for layer in layers:
        x = _apply_linear(layer, x, covariance)
        if not is_linear(layer):
            x = _activate(layer, x, method, covariance)
        states.append(x)
    return states


def activation_covariance(f: Activation, units: int, mean: FloatArray, cov: FloatArray, var: FloatArray) -> FloatArray:
    """Compute the covariance of a layer's outputs from its pre-activations.

    Parameters
    ----------
    f : Activation
        Acts on the first ``units`` of them, and leaves the others as they are.
    units : int
        Number of units.
    mean : array of shape (D,), or of a batch
        Means of the pre-activations z.
    cov : array of shape (D, D), or of a batch
        Covariance of the pre-activations.
    var : array of shape (units,), or of a batch
        Variances of f(z).

    Returns
    -------
    array of shape (D, D), or of a batch
        Between units by Mehler's series; between a unit and a carried number z_j it is E[f′(z_i)] Cov(z_i, z_j) (Stein's lemma).
    """
    from pesn.moments.covariance import covariance, linearize  # here, not above: it brings numba

    if units == mean.shape[-1]:
        between: FloatArray = covariance(f, mean, cov, var=var)
        return between
    own = np.arange(units)
    std = np.sqrt(np.maximum(cov[..., own, own], 0.0))
    bound = std[..., :, None] * std[..., None, :]  # rounding may exceed it
    _, slope, rest = linearize(f, mean[..., :units], np.clip(cov[..., :units, :units], -bound, bound))
    result: Array = np.array(cov, float)
    result[..., :units, :] *= slope[..., :, None]
    result[..., :, :units] *= slope[..., None, :]
    result[..., :units, :units] += rest
    result[..., own, own] = var
    return result


def _apply_linear(layer: Dense, x: Gaussian, covariance: NetworkCovariance) -> Gaussian:
    full, W = covariance == "full", layer.W
    if full and not layer.is_random:
        return x.affine(W, layer.b)
    var, mean = np.broadcast_to(x.var, x.mean.shape), x.mean @ W.T + layer.b
    # Var(d h) = Var h + p/(1 − p) E[h²], of masks d independent of each other: covariances stay
    masked = layer.dropout / (1.0 - layer.dropout) * (var + np.square(x.mean)) if layer.dropout else np.zeros_like(var)
    noise = weight_noise(layer, x.mean, var + masked)
    if not full:
        return Gaussian(mean, var=(var + masked) @ np.square(W).T + noise)
    cov = W @ _add_to_diagonal(x.cov, masked) @ W.T
    return make_gaussian(mean, _add_to_diagonal(symmetric(cov), noise))


def _add_to_diagonal(cov: FloatArray, var: FloatArray) -> FloatArray:
    """Return a covariance with variances of independent noise added."""
    result = np.broadcast_to(cov, (*var.shape, var.shape[-1])).copy()
    np.einsum("...ii->...i", result)[...] += var
    return result


def _activate(layer: Dense, z: Gaussian, method: UnitMethod, covariance: NetworkCovariance) -> Gaussian:
    name, mesh = parse_method("method", method)
    unit = moments(layer.activation, z.mean[..., : layer.units], z.var[..., : layer.units], method=name, mesh=mesh)
    unit = unit._replace(var=np.maximum(unit.var, 0.0))  # "spline-raw" cancels
    mean = unit.mean if layer.units == z.dim else np.concatenate([unit.mean, z.mean[..., layer.units :]], axis=-1)
    if covariance == "diagonal":
        return Gaussian(mean, var=np.concatenate([unit.var, z.var[..., layer.units :]], axis=-1))
    batch, size = mean.shape[:-1], z.dim
    if len(batch) < 2:
        return make_gaussian(mean, activation_covariance(layer.activation, layer.units, z.mean, z.cov, unit.var))
    flat = math.prod(batch)  # a batch with several axes
    z_mean, z_cov = z.mean.reshape(flat, size), np.broadcast_to(z.cov, (*batch, size, size)).reshape(flat, size, size)
    cov = activation_covariance(layer.activation, layer.units, z_mean, z_cov, unit.var.reshape(flat, -1))
    return make_gaussian(mean, cov.reshape(*batch, size, size))


# ---------------------------------------------------------------- of low rank


class _State(NamedTuple):
    """Mean and variance (D,); factor F (D, k), ``own`` (D,) and ``hidden`` (D,), which is seen through I − Q Qᵀ, Q (D, m)."""

    mean: Array
    var: Array
    factor: Array
    own: Array
    hidden: Array
    Q: Array

    def gaussian(self, dtype: np.dtype[np.floating]) -> Gaussian:
        left = np.maximum(self.var - np.sum(np.square(self.factor), axis=1), 0.0)
        return Gaussian(self.mean.astype(dtype), var=left.astype(dtype), factor=self.factor.astype(dtype))


def through_layers_low_rank(layers: Sequence[Dense], x: Gaussian, rank: int) -> list[Gaussian]:
    """Compute the Gaussian after each layer, with ``factor`` and ``diagonal``; a batch goes row by row."""
    x = as_vector(x)
    rows = [_through(layers, select_rows(x, i), rank) for i in range(math.prod(x.batch_shape))]
    if not x.batch_shape:
        return rows[0]
    return [_stack(states, x.batch_shape) for states in zip(*rows, strict=True)]


def _stack(states: Sequence[Gaussian], batch: tuple[int, ...]) -> Gaussian:
    """Return Gaussians with factors as one batch."""
    factors = [y.factor for y in states if y.factor is not None]
    mean = np.stack([y.mean for y in states]).reshape(*batch, -1)
    width = max(one.shape[-1] for one in factors)
    factor = np.stack([np.pad(one, ((0, 0), (0, width - one.shape[-1]))) for one in factors])
    own = np.stack([y.diagonal for y in states if y.diagonal is not None]).reshape(mean.shape)
    return Gaussian(mean, var=own, factor=factor.reshape(*mean.shape, width))


def _through(layers: Sequence[Dense], x: Gaussian, rank: int) -> list[Gaussian]:
    none = [(np.zeros((len(layer.W), 0)), np.zeros((len(layer.W), 0))) for layer in layers]
    directions = none
    if len(layers[-1].W) <= rank // 2 and rank < max(len(layer.W) for layer in layers):
        # directions of each layer that the outputs depend on, by the gains of a coarser pass
        directions = _directions(layers, [gains for _, gains in _pass(layers, x, max(_COARSE, rank // 4), none)])
    return [state.gaussian(x.mean.dtype) for state, _ in _pass(layers, x, rank, directions)]


def _pass(layers: Sequence[Dense], x: Gaussian, rank: int, directions: list[tuple[Array, Array]]) -> list[tuple[_State, Array]]:
    """Return the state after each layer, with its gains."""
    nothing = np.zeros(x.dim)
    own = nothing if x.diagonal is None else np.asarray(x.diagonal, float)
    factor = np.zeros((x.dim, 0)) if x.factor is None else np.asarray(x.factor, float)
    if x.diagonal is None:
        factor = np.asarray(factor_covariance(np.asarray(x.cov, float)))
    state = _State(np.asarray(x.mean, float), np.asarray(x.var, float), factor, own, nothing, np.zeros((x.dim, 0)))
    states = []
    for layer, (into, out) in zip(layers, directions, strict=True):
        state, gains = _affine_low_rank(layer, state, into, rank), np.ones(len(layer.W))
        if not is_linear(layer):
            gains = np.asarray(gain(layer.activation, state.mean, state.var), float)
            state = _activate_low_rank(layer.activation, state, gains, out, rank)
        states.append((state, gains))
    return states


def _directions(layers: Sequence[Dense], gains: Sequence[Array]) -> list[tuple[Array, Array]]:
    """Return, for each layer, the directions (D, m) before and after its units that the network's m outputs depend on."""
    back, found = np.eye(len(layers[-1].W)), []
    for layer, g in zip(reversed(layers), reversed(gains), strict=True):
        found.append((g[:, None] * back, back))
        back = np.asarray(layer.W, float).T @ (g[:, None] * back)
    return found[::-1]


def _affine_low_rank(layer: Dense, x: _State, V: Array, rank: int) -> _State:
    """Apply an affine map; ``V`` are directions of its output that must be exact."""
    W, b, size = np.asarray(layer.W, float), np.asarray(layer.b, float), len(layer.W)
    none = np.zeros(size)
    moved, own, Q = W @ x.factor, x.own + x.hidden, x.Q
    turned, shared = W @ Q, Q.T @ (x.hidden[:, None] * Q)
    # diagonals of F Fᵀ, of W diag(own) Wᵀ and of the projection of the hidden part
    hiding = turned @ shared - 2.0 * (W @ (x.hidden[:, None] * Q))
    var = np.sum(np.square(moved), axis=1) + np.square(W) @ own + np.sum(hiding * turned, axis=1)
    var = np.maximum(var, 0.0)
    mean = W @ x.mean + b
    if x.factor.shape[1] + np.count_nonzero(own) <= rank and not Q.size:
        return _State(mean, var, np.hstack([moved, (W * np.sqrt(own))[:, own > 0.0]]), none, none, np.zeros((size, 0)))

    def times(T: Array) -> Array:
        """Return M T."""
        back = W.T @ T
        kept = x.hidden[:, None] * (back - Q @ (Q.T @ back))
        return np.asarray(moved @ (moved.T @ T) + W @ (x.own[:, None] * back + kept - Q @ (Q.T @ kept)))

    if rank < size:
        fresh = np.random.default_rng(0).standard_normal((size, rank - V.shape[1]))
        omega = np.hstack([_orthonormal(V), _orthonormal(times(fresh))])
    else:
        omega = np.eye(size)
    product = times(omega)
    factor = product @ inverse_root(omega.T @ product)
    left = np.maximum(var - np.sum(np.square(factor), axis=1), 0.0)
    return _State(mean, var, factor, none, left, _orthonormal(V))


def _activate_low_rank(f: Activation, z: _State, g: Array, V: Array, rank: int) -> _State:
    """Apply an activation; ``g`` is E[f′], ``V`` are directions of its output."""
    unit_mean, unit_var = (np.asarray(part, float) for part in moments(f, z.mean, z.var)[:2])
    rest = np.maximum(unit_var - g * g * z.var, 0.0)
    second, hidden, columns, own = _rest(f, z, rest, V, rank)
    factor = np.hstack([g[:, None] * z.factor, second, columns])
    return _State(unit_mean, unit_var, factor, own, g * g * z.hidden + hidden, _orthonormal(V))


def _rest(f: Activation, z: _State, rest: Array, V: Array, most: int) -> tuple[Array, Array, Array, Array]:
    """Factorize Mehler's series from the second order on, with the diagonal ``rest``: columns (D, k) and residuals (D,), twice.

    Of the second order they are Nyström's for V, from which the others are hidden; of all, or the further ones, pivots.
    """
    from pesn.moments.mehler import project  # here, not above: it brings numba

    live = (z.var > 0.0) & (rest > 0.0)
    std = np.sqrt(np.where(live, z.var, 1.0))
    c = np.zeros((len(std), _ORDERS))
    if live.any():
        c[live] = project(f, z.mean[live], std[live], _ORDERS)[0] * std[live][:, None]
    c = np.ascontiguousarray(c[:, 1:].T)
    total = np.sum(np.square(c), axis=0)
    c *= np.sqrt(np.minimum(1.0, np.divide(rest, total, out=np.zeros_like(total), where=total > 0.0)))
    scaled = z.factor / std[:, None]
    alike = np.sum(np.square(scaled), axis=1)  # the factor's part of the correlation of a unit with itself, 1
    second, hidden = V[:, :0], np.zeros(len(std))
    if V.shape[1]:
        turned = c[0, :, None] * V
        # ρ∘ρ times v is the diagonal of ρ diag(v) ρ
        product = np.stack([np.sum((scaled @ (scaled.T @ (v[:, None] * scaled))) * scaled, axis=1) for v in turned.T], axis=1)
        product = c[0, :, None] * (product + np.maximum(1.0 - alike * alike, 0.0)[:, None] * turned)
        second = product @ inverse_root(V.T @ product)
        hidden = np.maximum(np.square(c[0]) - np.sum(np.square(second), axis=1), 0.0)
        rest = np.maximum(rest - np.square(c[0]), 0.0)
        c[0] = 0.0
    left, columns, count = np.sum(np.square(c), axis=0), np.zeros((len(std), most)), 0
    least = _NEGLIGIBLE * float(np.max(rest, initial=0.0))
    while count < most:
        pivot = int(np.argmax(left))
        if left[pivot] <= least:
            break
        rho = scaled @ scaled[pivot]
        rho[pivot] += 1.0 - alike[pivot]
        column = np.zeros(len(std))
        for terms in c[::-1]:
            column *= rho
            column += terms * terms[pivot]
        column *= rho * rho
        column -= columns[:, :count] @ columns[pivot, :count]
        column /= np.sqrt(left[pivot])
        columns[:, count] = column
        count += 1
        left = np.maximum(left - np.square(column), 0.0)
        left[pivot] = 0.0
    columns = columns[:, :count]
    return second, hidden, columns, np.maximum(rest - np.sum(np.square(columns), axis=1), 0.0)


def _orthonormal(columns: Array) -> Array:
    """Return an orthonormal basis of the span of ``columns``, each first scaled to length 1."""
    length = np.sqrt(np.sum(np.square(columns), axis=0))
    live = length > 0.0
    return np.asarray(np.linalg.qr(columns[:, live] / length[live])[0])
