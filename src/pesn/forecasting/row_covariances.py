"""Covariances of rows, as a forecast holds them: right up to rounding, which is measured in each column's own units."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real
from pesn._support.types import AnyArray, Array
from pesn.forecasting.row_labels import counted
from pesn.linalg import outer, root_of, symmetric, transpose

__all__ = ["check_cov", "check_parts", "check_scale", "room", "root_of_cov"]


_ROUNDING = 1e-6  # of a deviation, in its column's own units: rounding, not a mistake; a variance may be off by its square
_ROUNDING_OF_MEAN = 1e-8  # the same, where a variance was left over from squares of the mean
_SEMIDEFINITE = 1e-4  # of two deviations: what a covariance may change by when its negative eigenvalues are taken out


def _rounding(mean: Array, std: Array) -> Array:
    """What a deviation of each column may be off by, (d,): columns have units of their own, so none is judged by another."""
    rounding: Array = np.maximum(_ROUNDING * std, _ROUNDING_OF_MEAN * np.abs(mean)).max(axis=0)
    return rounding


def room(mean: Array, std: Array) -> Array:
    """The deviations that differences are measured by, (horizon, d): never below the rounding."""
    found: Array = np.hypot(std, _rounding(mean, std))
    return found


def _product(room: Array) -> Array:
    with np.errstate(over="ignore"):
        product: Array = room[..., :, None] * room[..., None, :]
    return product


def check_scale(scale: npt.ArrayLike | None, d: int) -> Array:
    """The unit of each column, (d,); None: 1."""
    if scale is None:
        return np.ones(d)
    unit = np.array(as_real("scale", scale), np.float64)
    if unit.shape != (d,) or not (unit > 0.0).all():
        raise ValueError(f"scale must be {counted(d, 'number')} above 0, one for each column of mean, got {scale!r}")
    return unit


def check_cov(name: str, cov: Array, mean: Array, names: tuple[str, ...]) -> tuple[Array, Array]:
    """Covariances (s, n, n), symmetric to the last bit and with clean zeros, and their diagonals in the shape of ``mean``."""
    var = np.diagonal(cov, axis1=1, axis2=2).reshape(mean.shape)
    size = np.sqrt(np.abs(var))
    wrong = (var < 0.0) & (size > _rounding(mean, np.where(var < 0.0, 0.0, size)))
    if wrong.any():
        raise ValueError(f"{name} must have no negative variance, got {_where(wrong, names, var)}")
    var = np.maximum(var, 0.0)
    limit = _product(room(mean, np.sqrt(var)).reshape(cov.shape[:2]))
    off = np.abs(cov - transpose(cov)) > _ROUNDING * limit
    if off.any():
        s, i, j = (int(k) for k in np.argwhere(off)[0])
        row = f" of row {s}" if len(cov) > 1 else ""
        raise ValueError(f"{name} must be symmetric, got {cov[s, i, j]} at {(i, j)} and {cov[s, j, i]} at {(j, i)}{row}")
    cov = symmetric(cov)
    above = np.abs(cov) > (1.0 + _ROUNDING) * limit
    if above.any():
        s, i, j = (int(k) for k in np.argwhere(above)[0])
        a, b = np.sqrt(var.reshape(cov.shape[:2])[s, [i, j]])
        found = f"a covariance of {cov[s, i, j]} at {(i, j)} beside deviations of {a} and {b}"
        raise ValueError(f"{name} must be positive semi-definite, got {found}")
    still = var.reshape(cov.shape[:2]) == 0.0  # what is certain has no covariance: it stays exact in every sample
    if still.any():
        cov[still] = 0.0
        transpose(cov)[still] = 0.0
    return cov, var


def check_parts(parts: Mapping[str, npt.ArrayLike] | None, mean: Array, var: Array, names: tuple[str, ...]) -> dict[str, Array]:
    """Parts (horizon, d) that sum to the variances ``var``, none of them below 0."""
    if not isinstance(parts, Mapping) or not all(isinstance(name, str) for name in parts):
        raise TypeError(f"parts must map names to variances, got {type(parts).__name__}")
    if not parts:
        raise ValueError("parts must name at least one part of the variance, got none")
    with np.errstate(over="ignore"):
        room = np.square(_rounding(mean, np.sqrt(var)))
    checked = {}
    for name, value in parts.items():
        part = np.array(as_real(f"parts[{name!r}]", value), np.float64)
        if part.shape != mean.shape:
            raise ValueError(f"parts[{name!r}] must have the shape {mean.shape} of mean, got {part.shape}")
        if (part < -room).any():
            raise ValueError(f"parts[{name!r}] must not be negative, got {_where(part < -room, names, part)}")
        checked[name] = np.maximum(part, 0.0)
    total = np.sum([*checked.values()], axis=0)
    wrong = np.abs(total - var) > 1e-6 * var + room
    if wrong.any():
        raise ValueError(f"parts must sum to the variance, {_where(wrong, names, var)}, got {total[wrong][0]}")
    return checked


def root_of_cov(cov: Array, std: Array, room: Array) -> Array:
    """L with L Lᵀ = cov, up to the rounding that makes cov semi-definite; variances are kept exactly.

    The root is taken of the correlations, so that units do not decide what is small.
    """
    still = std == 0.0
    scale = np.where(still, 1.0, std)
    with np.errstate(over="ignore"):
        correlation = np.clip(cov / scale[:, None] / scale, -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    root: Array = root_of(correlation)
    root *= (std / np.linalg.norm(root, axis=1))[:, None]
    off = np.abs(outer(root) - cov) > _SEMIDEFINITE * _product(room)
    if off.any():
        smallest = np.linalg.eigvalsh(correlation)[0]
        raise ValueError(f"joint must be positive semi-definite, got an eigenvalue of {smallest:.3g} in its correlations")
    return root


def _where(wrong: AnyArray, names: tuple[str, ...], values: Array) -> str:
    k, i = (int(place) for place in np.argwhere(wrong)[0])
    return f"{values[k, i]} at row {k} of {names[i]!r}"
