"""The surface: interpolate the answer once instead of the integrand every time.

A moment costs two coordinates, one cell of a table (:mod:`pesn.moments.tables`) and a polynomial in each quantity, and
is nearly exact for every mean and variance. Activations with a closed form take that instead, those that are neither
smooth nor piecewise linear the quadrature.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.threads import by_parts
from pesn._support.types import AnyArray
from pesn.activations import Activation
from pesn.moments import closed, exact, packed, tables
from pesn.moments.surface_kernel import BLOCK, fill_bounded, fill_gain_tails, fill_gains, fill_sloped, fill_tails
from pesn.moments.tables import FARTHEST, Surface

__all__ = ["gain", "moments"]


def _source(values: AnyArray, dtype: npt.DTypeLike) -> tuple[AnyArray, int]:
    """One array type for the kernels, contiguous and read-only, and its step: 0 for a block that stands for every other."""
    step = 0 if values.strides == (0,) else 1
    source = np.ascontiguousarray(values[:BLOCK] if step == 0 else values, dtype=dtype).view()
    source.flags.writeable = False
    return source, step


def _each(source: tuple[AnyArray, int], part: slice) -> tuple[AnyArray, int]:
    return (source[0][part] if source[1] else source[0]), source[1]


def _fill_all(surface: Surface, mean: AnyArray, var: AnyArray) -> tuple[AnyArray, AnyArray]:
    out_mean, out_var = np.empty((2, *mean.shape))  # one piece of memory, which the allocator keeps where it gives two back
    sources = _source(mean, np.float64), _source(var, np.float64)

    def fill(part: slice) -> None:
        given = surface, *_each(sources[0], part), *_each(sources[1], part), out_mean[part], out_var[part]
        if (fill_bounded if surface.bounded else fill_sloped)(*given):
            fill_tails(*given)

    by_parts(fill, mean.size)
    return out_mean, out_var


def _fill_packed(activation: Activation, surface: Surface, mean: AnyArray, var: AnyArray) -> tuple[AnyArray, AnyArray]:
    """From the packed table of mean's and var's precision; the surface where that ends."""
    dtype = np.result_type(mean.dtype, var.dtype)
    table = _packed(activation, surface, dtype)
    out_mean, out_var = np.empty((2, *mean.shape), dtype)
    sources = _source(mean, dtype), _source(var, dtype)

    def fill(part: slice) -> bool:
        given = *_each(sources[0], part), *_each(sources[1], part), out_mean[part], out_var[part]
        return bool(packed.fill_moments(table, *given))

    if any(by_parts(fill, mean.size)):
        beyond = np.flatnonzero(out_var < 0.0)
        out_mean[beyond], out_var[beyond] = moments(activation, mean[beyond].astype(float), var[beyond].astype(float), 2)
    return out_mean, out_var


_lock = threading.Lock()
_kept: weakref.WeakKeyDictionary[Activation, dict[str, packed.Packed]] = weakref.WeakKeyDictionary()


def _packed(activation: Activation, surface: Surface, dtype: np.dtype[Any]) -> packed.Packed:
    """Made once, shared between threads; a scaled copy of an activation has its base's table."""
    base = activation.reduction.base if activation.reduction else activation
    with _lock:
        made = _kept.setdefault(base, {})
        if dtype.char not in made:
            made[dtype.char] = packed.pack(surface, _fill_all, dtype)
    return made[dtype.char].scaled(surface.input_scale, surface.output_scale, surface.offset)


def _error(activation: Activation, surface: Surface) -> float:
    """The largest error at points between those that a surface was built from, as a multiple of what is tolerated."""
    rng = np.random.default_rng(0)
    mean, var = activation.scale * rng.uniform(-10.0, 10.0, 1000), activation.scale**2 * 10.0 ** rng.uniform(-4.0, 4.0, 1000)
    true_mean, true_var = exact.moments(activation, mean, var, 2)
    got_mean, got_var = _fill_all(surface, mean, var)
    size = np.sqrt(true_mean**2 + true_var) + np.max(np.abs(activation.value(mean)))
    errors = np.abs(got_mean - true_mean) / (1e-9 * size), np.abs(got_var - true_var) / (1e-8 * size**2)
    return float(np.max(errors))


def _surface(activation: Activation) -> Surface | None:
    if activation.kinks or activation.left is None or activation.right is None:
        return None
    return tables.load(activation, _error)


def moments(activation: Activation, mean: AnyArray, var: AnyArray, order: int, fast: bool = False) -> tuple[AnyArray, ...]:
    """The first ``order`` moments; ``mean`` and ``var`` one-dimensional, float32 or float64."""
    if order <= 2 and closed.serves(activation):
        return closed.moments(activation, mean.astype(float, copy=False), var.astype(float, copy=False), order)
    surface = _surface(activation) if order <= 2 else None
    if surface is None:
        return exact.moments(activation, mean.astype(float, copy=False), var.astype(float, copy=False), order)
    if fast or mean.dtype == var.dtype == np.float32:
        return _fill_packed(activation, surface, mean, var)[:order]
    result = _fill_all(surface, mean, var)[:order]
    beyond = _unfinished(activation, surface, mean, var)
    if beyond is not None:
        for ours, true in zip(
            result, exact.moments(activation, mean[beyond].astype(float), var[beyond].astype(float), order), strict=True
        ):
            ours[beyond] = true
    return result


def gain(activation: Activation, mean: AnyArray, var: AnyArray) -> AnyArray:
    """E[f′(z)]; ``mean`` and ``var`` one-dimensional, float32 or float64."""
    if closed.serves(activation):
        return closed.gain(activation, mean.astype(float, copy=False), var.astype(float, copy=False))
    surface = _surface(activation)
    if surface is None:
        return exact.gain(activation, mean.astype(float, copy=False), var.astype(float, copy=False))
    out = np.empty(mean.shape)
    sources = _source(mean, np.float64), _source(var, np.float64)

    def fill(part: slice) -> None:
        given = surface, *_each(sources[0], part), *_each(sources[1], part), out[part]
        if fill_gains(*given):
            fill_gain_tails(*given)

    by_parts(fill, mean.size)
    beyond = _unfinished(activation, surface, mean, var)
    if beyond is not None:
        out[beyond] = exact.gain(activation, mean[beyond].astype(float), var[beyond].astype(float))
    return out


def _unfinished(activation: Activation, surface: Surface, mean: AnyArray, var: AnyArray) -> Any:
    """Where the table ends though an activation of the user's own is not on its tail yet, or None."""
    if tables.is_shipped(activation) or activation.core <= FARTHEST * surface.root_c:
        return None
    size = np.abs(mean.astype(float, copy=False))
    beyond = (size > FARTHEST * np.sqrt(var + surface.root_c**2)) & (size < activation.core + 12.0 * np.sqrt(var))
    return np.flatnonzero(beyond) if beyond.any() else None
