"""The surface of tanh as a plain vector loop: the same arithmetic, unit strides, tanh's own constants, no flags, no tails."""

import math
from typing import Any

import numpy as np
from numba import njit

from pesn import activations
from pesn._support.types import Array
from pesn.moments import tables
from pesn._support.intrinsics import polynomial
from pesn.moments.special import exp
from pesn.moments.tables import COLUMNS, FARTHEST, FOLD, ROWS

_SURFACE = tables.load(activations.get("tanh"))
assert _SURFACE is not None
_N_T, _N_Q, _ROOT_C = _SURFACE.n_t, _SURFACE.n_q, _SURFACE.root_c
_EDGE = FARTHEST / (FARTHEST + FOLD)
_pair: Any = polynomial(ROWS, COLUMNS, 2)


@njit(fastmath={"contract", "arcp", "nsz"}, error_model="numpy", nogil=True)
def _fill(table: Array, mean: Array, var: Array, out_mean: Array, out_var: Array) -> None:
    cells, x, y = np.empty(256, np.int32), np.empty(256), np.empty(256)
    for start in range(0, mean.size, 256):
        n = min(256, mean.size - start)
        m, v, first, second = mean[start:][:n], var[start:][:n], out_mean[start:][:n], out_var[start:][:n]
        for i in range(n):
            inverse = 1.0 / math.sqrt(v[i] + _ROOT_C * _ROOT_C)
            u, r = (1.0 - FOLD / (abs(m[i]) * inverse + FOLD)) * (_N_T / _EDGE), _ROOT_C * inverse * _N_Q
            k, j = min(np.int32(u), np.int32(_N_T - 1)), min(np.int32(r), np.int32(_N_Q - 1))
            cells[i], x[i], y[i] = k * np.int32(_N_Q) + j, u - k - 0.5, r - j - 0.5
        for i in range(n):
            x[i], y[i] = _pair(table, np.int64(cells[i]) * (2 * ROWS * COLUMNS), x[i], y[i])
        for i in range(n):
            first[i], second[i] = math.copysign(x[i], m[i]), v[i] / (v[i] + _ROOT_C * _ROOT_C) * exp(y[i])


def vector_loop(mean: Array, var: Array) -> tuple[Array, Array]:
    """Mean and variance of tanh."""
    assert _SURFACE is not None
    out_mean, out_var = np.empty((2, mean.size))
    _fill(_SURFACE.moments, mean, var, out_mean, out_var)
    return out_mean, out_var
