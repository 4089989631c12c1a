"""The rivals as one would write them, for the races in this folder."""

import math

import numpy as np
import numpy.typing as npt
from scipy.interpolate import CubicSpline
from scipy.special import ndtr

from pesn import Mesh

Array = npt.NDArray[np.float64]
_MESH = Mesh(-10.0, 10.0, 101)


def plain_spline(m: Array, v: Array, chunk: int = 500) -> tuple[Array, Array]:
    """The paper's form as one would write it: Φ and φ at both ends of all 100 intervals, for f and again for f²."""
    z, f = _MESH.points, np.tanh(_MESH.points)
    slope, h, a = 1.0 - f[[0, -1]] ** 2, _MESH.step, []
    cubics = [CubicSpline(z, f**k, bc_type=[(1, k * f[e] ** (k - 1) * slope[e]) for e in (0, -1)]).c for k in (1, 2)]
    for c, left in zip(cubics, (-1.0, 1.0), strict=True):
        total = np.empty_like(m)
        for i in range(0, m.size, chunk):
            mm, s = m[i : i + chunk, None], np.sqrt(v[i : i + chunk, None])
            low, high = (z[:-1] - mm) / s, (z[1:] - mm) / s
            cdf, end = ndtr(low), ndtr(high)
            p, q = np.exp(-0.5 * low**2) / math.sqrt(2 * math.pi), np.exp(-0.5 * high**2) / math.sqrt(2 * math.pi)
            d = mm - z[:-1]
            i0 = end - cdf
            i1 = d * i0 - s * (q - p)
            i2 = d * i1 + s * s * i0 - s * h * q
            i3 = d * i2 + 2 * s * s * i1 - s * h * h * q
            total[i : i + chunk] = (
                np.sum(c[3] * i0 + c[2] * i1 + c[1] * i2 + c[0] * i3, axis=1) + left * cdf[:, 0] + 1.0 - end[:, -1]
            )
        a.append(total)
    return a[0], a[1] - a[0] ** 2
