"""The rules of plasticity along a sequence, compiled; apart from the records, which are known without numba."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.jit import INLINE, jit

Array = npt.NDArray[Any]
_FARTHEST = 0.5  # by which one row moves log a: of a saturated unit, whose a x may be anything


@jit(**INLINE)
def _entering(i: int, rows: Any, entering: Any, z: Array, y: Array, h: Array) -> float:
    """What enters unit i: bias, inputs, feedback and other units."""
    indptr, indices, data = rows
    W_in, W_fb, bias = entering
    x = bias[i]
    for j in range(W_in.shape[1]):
        x += W_in[i, j] * z[j]
    for j in range(W_fb.shape[1]):
        x += W_fb[i, j] * y[j]
    for place in range(indptr[i], indptr[i + 1]):
        x += data[place] * h[indices[place]]
    return x


@jit(**INLINE)
def _kept(i: int, start: int, stop: int, rotation: Array, h: Array) -> float:
    """What unit i, of the layer from ``start`` to ``stop``, would keep of the last state if it did not leak."""
    if not len(rotation):
        return h[i]
    kept = 0.0
    for j in range(start, stop):
        kept += rotation[i, j] * h[j]
    return kept


@jit()
def adapt_rows(
    rows: tuple[Array, Array, Array],
    entering: tuple[Array, Array, Array],
    leaks: Array,
    rotation: Array,
    ends: Array,
    inputs: Array,
    teacher: Array,
    rule: tuple[bool, float, float, float],
    gains: Array,
    shifts: Array,
    h: Array,
    y: Array,
) -> None:
    """Drive units over ``inputs`` (T, d), and move ``gains`` and ``shifts`` (N,) after each row; h and y too, in place.

    ``rows`` is W compressed, ``entering`` W_in (N, d), W_fb (N, m) and the bias, ``rotation`` (N, N), or (0, 0) where units keep
    their own state, ``ends`` the last unit of each layer, ``rule`` whether f is tanh, else sigmoid, and mean, std and rate.
    """
    is_tanh, mean, std, rate = rule
    new = np.empty_like(h)
    for t in range(len(inputs)):
        start = 0
        for stop in ends:
            for i in range(start, stop):
                x = _entering(i, rows, entering, inputs[t], y, h)
                kept = _kept(i, start, stop, rotation, h)
                a = gains[i] * x + shifts[i]
                # −∂/∂a of −log f' + (u − mean)²/(2 std²), or + u/mean where the target is exponential
                if is_tanh:
                    u = math.tanh(a)
                    push = -2.0 * u - (u - mean) * (1.0 - u * u) / (std * std)
                else:
                    u = 0.5 + 0.5 * math.tanh(0.5 * a)
                    push = 1.0 - 2.0 * u - u * (1.0 - u) / mean
                gains[i] *= math.exp(min(max(rate * (1.0 + push * gains[i] * x), -_FARTHEST), _FARTHEST))
                shifts[i] += rate * push
                new[i] = (1.0 - leaks[i]) * kept + leaks[i] * u
            h[start:stop] = new[start:stop]
            start = stop
        for j in range(len(y)):
            y[j] = teacher[t, j]


@jit()
def move_weights(
    rows: tuple[Array, Array, Array],
    entering: tuple[Array, Array, Array],
    leaks: Array,
    rotation: Array,
    ends: Array,
    inputs: Array,
    teacher: Array,
    rule: tuple[int, float, bool, bool, float, bool],
    h: Array,
    y: Array,
) -> None:
    """Drive units over ``inputs`` (T, d), and move the weights in ``rows`` after each row; h and y too, in place.

    As :func:`adapt_rows`; ``rule`` is f (0 tanh, 1 sigmoid, 2 identity), the signed rate, whether weights decay, whether the new
    state is measured from the threshold, the threshold, and whether weights that enter a unit are scaled to length 1.
    """
    indptr, indices, data = rows
    kind, rate, decays, is_bcm, threshold, normalize = rule
    new = np.empty_like(h)
    for t in range(len(inputs)):
        start = 0
        for stop in ends:
            for i in range(start, stop):
                u = _entering(i, rows, entering, inputs[t], y, h)
                if kind == 0:
                    u = math.tanh(u)
                elif kind == 1:
                    u = 0.5 + 0.5 * math.tanh(0.5 * u)
                post = (1.0 - leaks[i]) * _kept(i, start, stop, rotation, h) + leaks[i] * u
                new[i] = post
                # Δw = grow · x − decay · w; the weights of one unit are no other's, and h is as they were multiplied with it
                grow = rate * post * (post - threshold) if is_bcm else rate * post
                decay = rate * post * post if decays else 0.0
                squares = 0.0
                for place in range(indptr[i], indptr[i + 1]):
                    data[place] += grow * h[indices[place]] - decay * data[place]
                    squares += data[place] * data[place]
                if normalize and squares > 0.0:
                    length = math.sqrt(squares)
                    for place in range(indptr[i], indptr[i + 1]):
                        data[place] /= length
            h[start:stop] = new[start:stop]
            start = stop
        for j in range(len(y)):
            y[j] = teacher[t, j]
