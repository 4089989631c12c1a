"""The Gaussian closure: each layer's output taken as Gaussian, with its exact mean and covariance, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pesn._support.types import Array, FloatArray, NetworkCovariance
from pesn.activations import Activation
from pesn.gaussian import Gaussian, as_vector, unchecked
from pesn.moments import UnitMethod, moments, named_method
from pesn.networks.layers import Dense, check_sizes, is_linear

__all__ = ["activation_covariance", "through_layers"]


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
    named_method("method", method)  # here, as a network without activations never asks moments()
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
    mean, cov : array of shape (D,) and (D, D), or of a batch
        Of the pre-activations z.
    var : array of shape (units,), or of a batch
        Variances of f(z).

    Returns
    -------
    array of shape (D, D), or of a batch
        Between units by Mehler's series; between a unit and a carried number z_j it is E[f′(z_i)] Cov(z_i, z_j) (Stein's lemma).
    """
    from pesn.moments.covariance import covariance, linear_and_rest  # here, not above: it brings numba

    if units == mean.shape[-1]:
        between: FloatArray = covariance(f, mean, cov, var=var)
        return between
    own = np.arange(units)
    std = np.sqrt(np.maximum(cov[..., own, own], 0.0))
    bound = std[..., :, None] * std[..., None, :]  # which rounding may exceed
    slope, rest = linear_and_rest(f, mean[..., :units], np.clip(cov[..., :units, :units], -bound, bound))
    result: Array = np.array(cov, float)
    result[..., :units, :] *= slope[..., :, None]
    result[..., :, :units] *= slope[..., None, :]
    result[..., :units, :units] += rest
    result[..., own, own] = var
    return result


def _apply_linear(layer: Dense, x: Gaussian, covariance: NetworkCovariance) -> Gaussian:
    if covariance == "full":
        return x.affine(layer.W, layer.b)
    return Gaussian(x.mean @ layer.W.T + layer.b, var=x.var @ np.square(layer.W).T)


def _activate(layer: Dense, z: Gaussian, method: UnitMethod, covariance: NetworkCovariance) -> Gaussian:
    name, mesh = named_method("method", method)
    unit = moments(layer.activation, z.mean[..., : layer.units], z.var[..., : layer.units], method=name, mesh=mesh)
    mean = unit.mean if layer.units == z.dim else np.concatenate([unit.mean, z.mean[..., layer.units :]], axis=-1)
    if covariance == "diagonal":
        return Gaussian(mean, var=np.concatenate([unit.var, z.var[..., layer.units :]], axis=-1))
    batch, size = mean.shape[:-1], z.dim
    if len(batch) < 2:
        return unchecked(mean, activation_covariance(layer.activation, layer.units, z.mean, z.cov, unit.var))
    flat = math.prod(batch)  # a batch with several axes
    z_mean, z_cov = z.mean.reshape(flat, size), np.broadcast_to(z.cov, (*batch, size, size)).reshape(flat, size, size)
    cov = activation_covariance(layer.activation, layer.units, z_mean, z_cov, unit.var.reshape(flat, -1))
    return unchecked(mean, cov.reshape(*batch, size, size))
