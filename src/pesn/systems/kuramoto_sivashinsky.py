"""Kuramoto and Sivashinsky's equation on a circle, by exponential time differencing of fourth order."""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import whole_number
from pesn._support.types import Array
from pesn.systems.stepping import Plan, simulator
from pesn.systems.trajectories import Trajectories

Modes = npt.NDArray[np.complex128]
_CONTOUR = 32  # points of the circle over which the coefficients are averaged


@simulator(dt=0.25, transient=250.0, substeps=4, positive=("length",))
def kuramoto_sivashinsky(plan: Plan, *, n: int = 64, length: float = 22.0) -> Trajectories:
    """A flame front on a circle (Kuramoto 1976, Sivashinsky 1977): u_t = −u u_x − u_xx − u_xxxx, periodic in x.

    Fourier modes in space, without dealiasing; in time ETDRK4 as A.-K. Kassam and L. N. Trefethen compute it (SIAM J. Sci.
    Comput. 26, 2005): the linear part exactly, however stiff, the product to fourth order. The mean of u never changes. Waves
    are about 9 long: points should be less than 1.5 apart.

    Parameters
    ----------
    runs, steps, dt
        Runs, rows of each, and the time from one row to the next, which is crossed in ``substeps``.
    initial_state
        (n,), or (runs, n), one for each run. By default noise of 0.1 whose mean is 0, for each run by a generator of its own.
    transient
        Time that passes before row 0, rounded up to whole rows: by default 250 from a drawn state and 0 from a given one.
    rng
        What ``np.random.default_rng`` takes.
    n
        Points, 4 or more, even or odd.
    length
        Of the circle. At 22 there are a few waves and one that grows; the longer, the more chaos.
    substeps
        Steps of ETDRK4 from one row to the next.
    progress
        Called with (rows done, rows in all) of each run, a hundred times at most.

    Returns
    -------
    Trajectories
        states (runs · steps, n) and inputs (runs · steps, 0).

    Examples
    --------
    >>> x = 22.0 * np.arange(64) / 64
    >>> wave = kuramoto_sivashinsky(steps=3, initial_state=np.cos(2 * np.pi * x / 22.0))
    >>> wave.states[:, 0].round(3)
    array([1.   , 1.016, 1.027])
    """
    whole_number("n", n, 4)
    n = int(n)
    u = plan.starts(lambda child: 0.1 * child.standard_normal(n), n)
    if plan.initial_state is None:
        u -= u.mean(axis=1, keepdims=True)
    step = _coefficients(n, length, plan.dt / plan.substeps)

    def advance(field: tuple[Array, Modes]) -> tuple[Array, Modes]:
        v = field[1]
        for _ in range(plan.substeps):
            v = step(v)
        return np.fft.irfft(v, n), v

    names = tuple(f"u{i}" for i in range(n))
    return plan.trajectories(plan.march(advance, (u, np.fft.rfft(u)), names, itemgetter(0)), names)


class _ETDRK4(NamedTuple):
    """A step in Fourier modes: v (runs, n // 2 + 1) is where u is real; names of the coefficients as in the paper."""

    n: int
    slope: Modes  # −i k / 2: of u² to −u u_x
    E: Array
    E2: Array
    Q: Array
    f1: Array
    f2: Array
    f3: Array

    def __call__(self, v: Modes) -> Modes:
        Nv = self.nonlinear(v)
        a = self.E2 * v + self.Q * Nv
        Na = self.nonlinear(a)
        b = self.E2 * v + self.Q * Na
        Nb = self.nonlinear(b)
        Nc = self.nonlinear(self.E2 * a + self.Q * (2.0 * Nb - Nv))
        return self.E * v + Nv * self.f1 + 2.0 * (Na + Nb) * self.f2 + Nc * self.f3

    def nonlinear(self, v: Modes) -> Modes:
        return self.slope * np.fft.rfft(np.square(np.fft.irfft(v, self.n)))


def _coefficients(n: int, length: float, h: float) -> _ETDRK4:
    """Of a step of h. Differences that cancel near 0 are averaged over a circle around each value, as in the paper."""
    k = 2.0 * np.pi / length * np.arange(n // 2 + 1)
    linear = k**2 - k**4
    z = h * linear[:, None] + np.exp(1j * np.pi * (np.arange(_CONTOUR) + 0.5) / _CONTOUR)
    Q = h * np.mean((np.exp(z / 2.0) - 1.0) / z, axis=1).real
    f1 = h * np.mean((-4.0 - z + np.exp(z) * (4.0 - 3.0 * z + z**2)) / z**3, axis=1).real
    f2 = h * np.mean((2.0 + z + np.exp(z) * (-2.0 + z)) / z**3, axis=1).real
    f3 = h * np.mean((-4.0 - 3.0 * z - z**2 + np.exp(z) * (4.0 - z)) / z**3, axis=1).real
    if n % 2 == 0:
        k[-1] = 0.0  # the fastest mode of an even number has no first derivative on the points
    return _ETDRK4(n, np.asarray(-0.5j * k, np.complex128), np.exp(h * linear), np.exp(0.5 * h * linear), Q, f1, f2, f3)
