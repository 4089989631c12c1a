"""Simulators of chaotic systems and benchmarks: Lorenz (1963 and 1996), Rössler, double scrolls, Rabinovich-Fabrikant, Hénon,
the logistic map, Mackey-Glass with a true delay, Kuramoto-Sivashinsky, NARMA-10, and oscillators.

Each gives :class:`~pesn.systems.stepping.Trajectories`, all runs at once, with the parameters that are standard.
``LYAPUNOV_TIME`` is the time in which a small error grows e-fold, in each system's unit of time, at those parameters.

>>> runs = lorenz(runs=2, steps=100, rng=0)
>>> runs.states.shape, runs.names, runs.lengths
((200, 3), ('x', 'y', 'z'), (100, 100))
>>> round(100 * runs.dt / LYAPUNOV_TIME["lorenz"], 1)  # Lyapunov times in each run
1.8
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, whole_number
from pesn._support.types import Array, Rng
from pesn.systems import stepping
from pesn.systems.stepping import Plan, Progress, Rates, Trajectories, simulator

Modes = npt.NDArray[np.complex128]
_MOST = 1e7  # steps in a delay of Mackey and Glass, which are all held, and in a row
_CONTOUR = 32  # points of the circle over which the coefficients of ETDRK4 are averaged

# The largest exponents, to base e and per unit of time, at the parameters that are the defaults here. Lorenz, Rössler, Hénon and
# Rabinovich-Fabrikant: J. C. Sprott, Chaos and Time-Series Analysis (Oxford University Press, 2003). Kuramoto-Sivashinsky:
# P. Cvitanović, R. L. Davidchack and E. Siminos, SIAM J. Appl. Dyn. Syst. 9, 2010. Mackey-Glass: measured, by the linearized
# equation beside 300 runs of 10,000 units each, both to fourth order at a step of 0.1: 0.00516 ± 0.00002. Values from 0.006 to
# 0.007 are quoted for it. Double scroll: measured, by 800 pairs of near runs over 500 units, 0.0918 ± 0.0002; the linearized
# equation agrees, while D. J. Gauthier et al. (2021) state a Lyapunov time of 7.8. Lorenz 1996 with 8 variables: measured by such
# pairs over 50 units, 1.60 ± 0.005. Chen's attractor, the multiscroll: measured by such pairs, 2.025 ± 0.005; from 2.02 to 2.03
# is quoted. The logistic map: ln 2, exact. NARMA-10 is driven and has none; sines have none above 0.
LYAPUNOV_EXPONENT = MappingProxyType(
    {
        "lorenz": 0.9056,
        "roessler": 0.0714,
        "mackey_glass": 0.00516,
        "lorenz96": 1.6,
        "double_scroll": 0.0918,
        "rabinovich_fabrikant": 0.1981,
        "multiscroll": 2.025,
        "henon": 0.4192,
        "logistic_map": math.log(2.0),
        "kuramoto_sivashinsky": 0.048,
    }
)
LYAPUNOV_TIME = MappingProxyType({system: 1.0 / exponent for system, exponent in LYAPUNOV_EXPONENT.items()})


# ---------------------------------------------------------------- flows


@simulator(dt=0.02, transient=20.0, box=((-15.0, 15.0), (-15.0, 15.0), (15.0, 35.0)), non_negative=("sigma", "rho", "beta"))
def lorenz(state: Array, *, sigma: float = 10.0, rho: float = 28.0, beta: float = 8.0 / 3.0) -> Rates:
    """Simulate Lorenz's convection (E. N. Lorenz, J. Atmos. Sci. 20, 1963): ẋ = σ(y − x), ẏ = x(ρ − z) − y, ż = xy − βz.

    Parameters
    ----------
    sigma : float, default=10.0
        Prandtl number σ.
    rho : float, default=28.0
        Rayleigh number ρ.
    beta : float, default=8/3
        Geometric factor β.

    Returns
    -------
    Trajectories
        states of shape (runs * steps, 3), without inputs.

    Examples
    --------
    >>> lorenz(steps=3, initial_state=[1.0, 1.0, 1.0]).states.round(3)
    array([[1.   , 1.   , 1.   ],
           [1.049, 1.524, 0.973],
           [1.187, 2.089, 0.962]])
    """
    x, y, z = state
    return sigma * (y - x), x * (rho - z) - y, x * y - beta * z


# the box: every phase of the band, which forgets its phase slowly; inside the basin of attraction
@simulator(dt=0.1, transient=100.0, box=((-8.0, 8.0), (-8.0, 8.0), (0.0, 0.1)))
def roessler(state: Array, *, a: float = 0.2, b: float = 0.2, c: float = 5.7) -> Rates:
    """Simulate Rössler's band (O. E. Rössler, Phys. Lett. A 57, 1976): ẋ = −y − z, ẏ = x + ay, ż = b + z(x − c).

    Far from the attractor trajectories diverge, which raises a FloatingPointError.

    Parameters
    ----------
    a : float, default=0.2
        Coefficient of the equations.
    b : float, default=0.2
        Coefficient of the equations.
    c : float, default=5.7
        Coefficient of the equations.

    Returns
    -------
    Trajectories
        states of shape (runs * steps, 3), without inputs.

    Examples
    --------
    >>> roessler(steps=3, initial_state=[1.0, -5.0, 0.1]).states.round(3)
    array([[ 1.   , -5.   ,  0.1  ],
           [ 1.49 , -4.975,  0.08 ],
           [ 1.977, -4.901,  0.071]])
    """
    x, y, z = state
    return -y - z, x + a * y, b + z * (x - c)


@simulator(dt=0.05, transient=20.0)
def lorenz96(plan: Plan, *, n: int = 8, forcing: float = 8.0) -> Trajectories:
    """Simulate Lorenz's weather on a circle (E. N. Lorenz, 1996): ẋ_i = (x_{i+1} − x_{i−2}) x_{i−1} − x_i + F.

    Parameters
    ----------
    n : int, default=8
        Number of variables, 4 or more.
    forcing : float, default=8.0
        Forcing F; chaotic at 8.

    Returns
    -------
    Trajectories
        states of shape (runs * steps, n), without inputs.

    Examples
    --------
    >>> lorenz96(steps=2, initial_state=[1.0, 2.0, 3.0, 4.0], n=4).states.round(3)
    array([[1.   , 2.   , 3.   , 4.   ],
           [1.116, 2.254, 3.55 , 4.025]])
    """
    whole_number("n", n, 4)
    n = int(n)
    before, two_before, after = np.arange(-1, n - 1), np.arange(-2, n - 2), np.arange(1, n + 1) % n

    def rate(state: Array) -> Array:
        return (state[after] - state[two_before]) * state[before] - state + forcing

    return plan.integrate(rate, ((-5.0, 10.0),) * n, tuple(f"x{i}" for i in range(n)))


# the box: farther away some runs diverge before they reach the attractor
@simulator(dt=0.05, transient=50.0, box=((-1.01, -0.99), (-0.01, 0.01), (0.49, 0.51)))
def rabinovich_fabrikant(state: Array, *, alpha: float = 1.1, gamma: float = 0.87) -> Rates:
    """Simulate waves in a plasma (M. I. Rabinovich and A. L. Fabrikant, Sov. Phys. JETP 50, 1979).

    ẋ = y(z − 1 + x²) + γx, ẏ = x(3z + 1 − x²) + γy, ż = −2z(α + xy). Far from the attractor trajectories diverge, which
    raises a FloatingPointError.

    Parameters
    ----------
    alpha : float, default=1.1
        Coefficient α; chaotic at the defaults.
    gamma : float, default=0.87
        Coefficient γ.

    Returns
    -------
    Trajectories
        states of shape (runs * steps, 3), without inputs.

    Examples
    --------
    >>> rabinovich_fabrikant(steps=3, initial_state=[-1.0, 0.0, 0.5]).states.round(3)
    array([[-1.   ,  0.   ,  0.5  ],
           [-1.045, -0.072,  0.446],
           [-1.095, -0.136,  0.395]])
    """
    x, y, z = state
    square = x * x
    return y * (z - 1.0 + square) + gamma * x, x * (3.0 * z + 1.0 - square) + gamma * y, -2.0 * z * (alpha + x * y)


@simulator(
    dt=0.25, transient=100.0, box=((-0.4, 0.4), (-0.1, 0.1), (-0.1, 0.1)), names=("V1", "V2", "I"), positive=("r1", "r2", "beta"),
    non_negative=("r4", "ir"),
)  # fmt: skip
def double_scroll(
    state: Array, *, r1: float = 1.2, r2: float = 3.44, r4: float = 0.193, ir: float = 2.25e-5, beta: float = 11.6
) -> Rates:
    """Simulate a circuit that switches between two scrolls (D. J. Gauthier et al., Nat. Commun. 12, 2021, Eqs. 9 to 11).

    V̇1 = V1/R1 − ΔV/R2 − 2 I_r sinh(β ΔV), V̇2 = ΔV/R2 + 2 I_r sinh(β ΔV) − I, İ = V2 − R4 I, with ΔV = V1 − V2: an active
    resistor, two capacitors, a coil, and a pair of diodes between them.

    Parameters
    ----------
    r1 : float, default=1.2
        Resistance R1.
    r2 : float, default=3.44
        Resistance R2.
    r4 : float, default=0.193
        Resistance R4.
    ir : float, default=2.25e-5
        Current I_r of the diodes.
    beta : float, default=11.6
        Slope β of the diodes.

    Returns
    -------
    Trajectories
        states V1, V2, I of shape (runs * steps, 3), without inputs.

    Examples
    --------
    >>> double_scroll(steps=3, initial_state=[0.37, 0.06, -0.08]).states.round(3)
    array([[ 0.37 ,  0.06 , -0.08 ],
           [ 0.43 ,  0.101, -0.057],
           [ 0.501,  0.136, -0.025]])
    """
    v1, v2, i = state
    across = v1 - v2
    current = across / r2 + 2.0 * ir * np.sinh(beta * across)
    return v1 / r1 - current, current - i, v2 - r4 * i


@simulator(dt=0.01, transient=20.0, box=((-10.0, 10.0), (-10.0, 10.0), (15.0, 30.0)))
def multiscroll(state: Array, *, a: float = 35.0, b: float = 3.0, c: float = 28.0) -> Rates:
    """Simulate Chen's attractor (G. Chen and T. Ueta, Int. J. Bifurcat. Chaos 9, 1999).

    ẋ = a(y − x), ẏ = (c − a)x − xz + cy, ż = xy − bz: two scrolls about the fixed points (±s, ±s, 2c − a), s² = b(2c − a).

    Parameters
    ----------
    a : float, default=35.0
        Coefficient of the equations.
    b : float, default=3.0
        Coefficient of the equations.
    c : float, default=28.0
        Coefficient of the equations.

    Returns
    -------
    Trajectories
        states of shape (runs * steps, 3), without inputs.

    Examples
    --------
    >>> multiscroll(steps=3, initial_state=[-3.0, 2.0, 20.0]).states.round(3)
    array([[-3.   ,  2.   , 20.   ],
           [-1.315,  3.321, 19.354],
           [ 0.25 ,  4.563, 18.764]])
    """
    x, y, z = state
    return a * (y - x), (c - a) * x - x * z + c * y, x * y - b * z


@simulator(dt=1.0, transient=1000.0, positive=("n", "tau"), non_negative=("beta", "gamma"))
def mackey_glass(
    plan: Plan, *, beta: float = 0.2, gamma: float = 0.1, n: float = 10.0, tau: float = 17.0
) -> Trajectories:  # fmt: skip
    """Simulate Mackey and Glass's blood cells (Science 197, 1977): ẋ(t) = β x(t − τ) / (1 + x(t − τ)ⁿ) − γ x(t).

    The internal step is the largest part τ/m that is no longer than dt/substeps, so that the kinks, which a start brings at 0,
    τ, 2τ …, fall between two steps. Runge and Kutta's method needs the past at half steps too: a cubic through the values and
    slopes at both ends gives it, and the rows where they lie between two steps. Both are of fourth order.

    Parameters
    ----------
    beta : float, default=0.2
        Production rate β.
    gamma : float, default=0.1
        Decay rate γ.
    n : float, default=10.0
        Exponent.
    tau : float, default=17.0
        Delay τ.

    Returns
    -------
    Trajectories
        states of shape (runs * steps, 1), without inputs. The initial state, 0 or more, is held for all t ≤ 0.

    Examples
    --------
    >>> mackey_glass(steps=3, initial_state=[1.2]).states.ravel().round(4)  # 1.2 e^(−t/10) + 2.4/(1 + 1.2¹⁰)·(1 − e^(−t/10))
    array([1.2   , 1.1176, 1.043 ])
    """
    parts = _parts(tau, plan.dt, plan.substeps)
    h = tau / parts
    start = plan.draw_starts(((0.5, 1.3),))[0]
    if (start < 0.0).any():
        raise ValueError(f"initial_state must be 0 or more, got {start[start < 0.0][0]}")

    def production(delayed: Array) -> Array:
        return beta * delayed / (1.0 + _power(delayed, n))

    def advance(state: tuple[int, _Step]) -> tuple[int, _Step]:
        row, at = state[0] + 1, state[1]
        place = row * (plan.dt / h)
        if abs(place - round(place)) < 1e-9 + 1e-12 * place:
            place = round(place)  # on a node but for rounding
        while at.node < place:
            x, slope = at.x, at.slope
            half, whole = production(middles[0]), production(nodes[1])
            second = half - gamma * (x + 0.5 * h * slope)
            third = half - gamma * (x + 0.5 * h * second)
            fourth = whole - gamma * (x + h * third)
            after = x + h / 6.0 * (slope + 2.0 * second + 2.0 * third + fourth)
            at = _Step(at.node + 1, after, whole - gamma * after, x, slope)
            nodes.append(after)
            middles.append(0.5 * (x + after) + h / 8.0 * (slope - at.slope))  # the same cubic at half a step
        return row, at._replace(value=at.x if place == at.node else at.cubic(h, place - at.node + 1.0))

    nodes = deque([start] * (parts + 1), maxlen=parts + 1)  # x at t − τ, t − τ + h, …, t
    middles = deque([start] * parts, maxlen=parts)  # x halfway between them
    with np.errstate(all="ignore"):
        slope = production(start) - gamma * start
    first = 0, _Step(0, start, slope, start, np.zeros_like(start), start)
    return plan.trajectories(plan.march(advance, first, ("x",), lambda state: state[1].value[:, None]), ("x",))


class _Step(NamedTuple):
    """The last step: x and its slope at its end, which is the ``node``, and before it; the value at the last row."""

    node: int
    x: Array
    slope: Array
    x_before: Array
    slope_before: Array
    value: Array = np.empty(0)

    def cubic(self, h: float, part: float) -> Array:
        """Evaluate the cubic through both ends of the step with their slopes (Hermite's), at ``part`` of it."""
        rest = 1.0 - part
        ends = rest * rest * (1.0 + 2.0 * part) * self.x_before + part * part * (1.0 + 2.0 * rest) * self.x
        return ends + h * part * rest * (rest * self.slope_before - part * self.slope)


def _parts(tau: float, dt: float, substeps: int) -> int:
    """Return the steps in a delay: at least one, none longer than ``dt / substeps``."""
    in_delay = tau * substeps / dt if substeps < _MOST else math.inf
    if in_delay > _MOST:
        raise ValueError(
            f"tau must be {_MOST:g} steps of dt / substeps or fewer, got {tau!r} with dt = {dt!r}, substeps = {substeps}"
        )
    if dt / _MOST > tau:
        raise ValueError(f"tau must be dt / {_MOST:g} or more, as no step is longer, got {tau!r} with dt = {dt!r}")
    return max(math.ceil(in_delay - 1e-9), 1)


def _power(x: Array, n: float) -> Array:
    """Compute xⁿ; a whole n by multiplication alone, which rounds alike on every machine, as the library's power does not."""
    if n != int(n) or n > 64:
        return np.asarray(np.power(x, n), np.float64)
    result, square, left = np.ones_like(x), x, int(n)
    while left:
        if left % 2:
            result = result * square
        square, left = square * square, left // 2
    return result


@simulator(dt=0.25, transient=250.0, substeps=4, positive=("length",))
def kuramoto_sivashinsky(plan: Plan, *, n: int = 64, length: float = 22.0) -> Trajectories:
    """Simulate a flame front on a circle (Kuramoto 1976, Sivashinsky 1977): u_t = −u u_x − u_xx − u_xxxx, periodic in x.

    Fourier modes in space, without dealiasing; in time ETDRK4 as A.-K. Kassam and L. N. Trefethen compute it (SIAM J. Sci.
    Comput. 26, 2005): the linear part exactly, however stiff, the product to fourth order. The mean of u never changes. Waves
    are about 9 long: points should be less than 1.5 apart.

    Parameters
    ----------
    n : int, default=64
        Number of points, 4 or more, even or odd.
    length : float, default=22.0
        Length of the circle. At 22 there are a few waves and one that grows; the longer, the more chaotic.

    Returns
    -------
    Trajectories
        states of shape (runs * steps, n), without inputs.

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
    step = _make_step(n, length, plan.dt / plan.substeps)

    def advance(field: tuple[Array, Modes]) -> tuple[Array, Modes]:
        v = field[1]
        for _ in range(plan.substeps):
            v = step(v)
        return np.fft.irfft(v, n), v

    names = tuple(f"u{i}" for i in range(n))
    return plan.trajectories(plan.march(advance, (u, np.fft.rfft(u)), names, itemgetter(0)), names)


def _make_step(n: int, length: float, h: float) -> Callable[[Modes], Modes]:
    """Return a step of h in Fourier modes: v (runs, n // 2 + 1) is where u is real; names of the coefficients as in the paper.

    Differences that cancel near 0 are averaged over a circle around each value.
    """
    k = 2.0 * np.pi / length * np.arange(n // 2 + 1)
    linear = k**2 - k**4
    E, E2 = np.exp(h * linear), np.exp(0.5 * h * linear)
    z = h * linear[:, None] + np.exp(1j * np.pi * (np.arange(_CONTOUR) + 0.5) / _CONTOUR)
    Q = h * np.mean((np.exp(z / 2.0) - 1.0) / z, axis=1).real
    f1 = h * np.mean((-4.0 - z + np.exp(z) * (4.0 - 3.0 * z + z**2)) / z**3, axis=1).real
    f2 = h * np.mean((2.0 + z + np.exp(z) * (-2.0 + z)) / z**3, axis=1).real
    f3 = h * np.mean((-4.0 - 3.0 * z - z**2 + np.exp(z) * (4.0 - z)) / z**3, axis=1).real
    if n % 2 == 0:
        k[-1] = 0.0  # the fastest mode of an even number has no first derivative on the points
    slope = np.asarray(-0.5j * k, np.complex128)  # of u² to −u u_x

    def nonlinear(v: Modes) -> Modes:
        return slope * np.fft.rfft(np.square(np.fft.irfft(v, n)))

    def step(v: Modes) -> Modes:
        Nv = nonlinear(v)
        a = E2 * v + Q * Nv
        Na = nonlinear(a)
        b = E2 * v + Q * Na
        Nb = nonlinear(b)
        Nc = nonlinear(E2 * a + Q * (2.0 * Nb - Nv))
        return np.asarray(E * v + Nv * f1 + 2.0 * (Na + Nb) * f2 + Nc * f3)

    return step


# ---------------------------------------------------------------- maps and oscillators


@simulator(transient=100, box=((-0.1, 0.1), (-0.1, 0.1)), names=("x", "y"))
def henon(state: Array, *, a: float = 1.4, b: float = 0.3) -> Rates:
    """Simulate Hénon's map (M. Hénon, Commun. Math. Phys. 50, 1976): x[k+1] = 1 − a x[k]² + y[k], y[k+1] = b x[k].

    Points far from the attractor diverge, which raises a FloatingPointError.

    Parameters
    ----------
    a : float, default=1.4
        Coefficient of the map.
    b : float, default=0.3
        Coefficient of the map.

    Returns
    -------
    Trajectories
        states of shape (runs * steps, 2), without inputs.

    Examples
    --------
    >>> henon(steps=4, initial_state=[0.0, 0.0]).states
    array([[ 0.   ,  0.   ],
           [ 1.   ,  0.   ],
           [-0.4  ,  0.3  ],
           [ 1.076, -0.12 ]])
    """
    x, y = state
    return 1.0 - a * x * x + y, b * x


@simulator(transient=100, box=((0.1, 0.9),), names=("x",))
def logistic_map(state: Array, *, r: float = 4.0) -> Array:
    """Simulate the logistic map (R. M. May, Nature 261, 1976): x[k+1] = r x[k] (1 − x[k]).

    At r = 4 its Lyapunov exponent is ln 2 and its density 1/(π √(x(1 − x))). In float64 a run at r = 4 comes to rest at 0 about
    once in 1e8 steps, from an x so near ½ that the next one rounds to 1.

    Parameters
    ----------
    r : float, default=4.0
        Growth rate. Points outside [0, 1], or r above 4, diverge, which raises a FloatingPointError.

    Returns
    -------
    Trajectories
        states of shape (runs * steps, 1), without inputs.

    Examples
    --------
    >>> logistic_map(steps=4, initial_state=[0.25]).states.ravel()
    array([0.25, 0.75, 0.75, 0.75])
    """
    return r * state * (1.0 - state)


def narma10(
    inputs: npt.ArrayLike | None = None,
    *,
    runs: int = 1,
    steps: int = 5000,
    initial_state: npt.ArrayLike | None = None,
    transient: int | None = None,
    rng: Rng = None,
    progress: Progress | None = None,
) -> Trajectories:
    """Simulate NARMA-10 (A. F. Atiya and A. G. Parlos, IEEE Trans. Neural Netw. 11, 2000).

    y[k+1] = 0.3 y[k] + 0.05 y[k] (y[k] + … + y[k−9]) + 1.5 u[k−9] u[k] + 0.1

    Parameters
    ----------
    inputs : array-like of shape (steps, 1) or (runs, steps, 1), optional
        Inputs u. By default drawn uniformly from [0, 0.5], with a random generator for each run.
    runs : int, default=1
        Number of runs.
    steps : int, default=5000
        Number of rows of each run; dt is 1.
    initial_state : array-like of shape (1,) or (runs, 1), optional
        y at the start and at the nine steps before it, 0 by default. u before the start is 0.
    transient : int, optional
        Steps before row 0: by default 100 with drawn inputs. It must be 0 with given ones.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed, as ``np.random.default_rng`` takes it.
    progress : callable, optional
        Called with (rows done, rows in all) of each run, a hundred times at most.

    Returns
    -------
    Trajectories
        states y of shape (runs * steps, 1) and inputs u of shape (runs * steps, 1).

    Raises
    ------
    FloatingPointError
        If y diverges, as it does about four times in a million steps with the standard inputs (see T. Kubota et al., Phys. Rev.
        Research 3, 2021): then take another seed. Nothing is clipped or redrawn, and no tanh is put around the recurrence.

    Examples
    --------
    >>> narma10(np.full((4, 1), 0.5), steps=4).states.ravel().round(6)
    array([0.      , 0.1     , 0.1305  , 0.140654])
    """
    runs, steps = stepping.sizes(runs, steps, 1, progress)
    skipped = stepping.transient_rows(transient, 100 if inputs is None else 0, whole=True)
    if inputs is not None and skipped:
        raise ValueError(f"transient must be 0 where inputs are given, got {transient}")
    if inputs is None:
        u = np.stack([generator.uniform(0.0, 0.5, skipped + steps) for generator in stepping.generators(rng, runs)])
    else:
        u = stepping.for_each_run("inputs", inputs, runs, (steps, 1))[:, :, 0]

    def advance(state: tuple[int, list[Array]]) -> tuple[int, list[Array]]:
        k, past = state  # y[k−9] … y[k]
        total = sum(past, np.zeros(runs))
        driven = 1.5 * u[:, k - 9] * u[:, k] if k >= 9 else 0.0
        return k + 1, [*past[1:], 0.3 * past[-1] + 0.05 * past[-1] * total + driven + 0.1]

    plan = Plan("narma10", runs, steps, skipped=skipped, progress=progress)
    first = stepping.for_each_run("initial_state", [0.0] if initial_state is None else initial_state, runs, (1,))[:, 0]
    y = plan.march(advance, (0, [first] * 10), ("y",), lambda state: state[1][-1][:, None])
    return stepping.stack_runs(y, u[:, skipped:, None], 1.0, ("y", "u"), ("", ""))


def mso(
    *,
    runs: int = 1,
    steps: int = 5000,
    frequencies: npt.ArrayLike = (0.2, 0.311),
    phases: npt.ArrayLike | None = None,
    rng: Rng = None,
    progress: Progress | None = None,
) -> Trajectories:
    """Simulate multiple superimposed oscillators (H. Jaeger, 2004): x[k] = Σ_i sin(f_i k + φ_i).

    Parameters
    ----------
    runs : int, default=1
        Number of runs.
    steps : int, default=5000
        Number of rows of each run; dt is 1.
    frequencies : array-like of shape (q,), default=(0.2, 0.311)
        Frequencies f, in radians a row. The usual tasks have the first 2 to 8 of 0.2, 0.311, 0.42, 0.51, 0.63, 0.74, 0.85, 0.97.
    phases : array-like of shape (q,) or (runs, q), optional
        Phases φ. Zeros are the task as it is printed; by default they are drawn from [0, 2π), with a random generator for each
        run.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed, as ``np.random.default_rng`` takes it.
    progress : callable, optional
        Called with (rows done, rows in all).

    Returns
    -------
    Trajectories
        states of shape (runs * steps, 1), without inputs; not scaled.

    Examples
    --------
    >>> mso(steps=4, phases=[0.0, 0.0]).states.ravel().round(3)
    array([0.   , 0.505, 0.972, 1.368])
    """
    f = as_real("frequencies", frequencies)
    if f.ndim != 1 or not f.size:
        raise ValueError(f"frequencies must have shape (q,), one for each sine, got {f.shape}")
    runs, steps = stepping.sizes(runs, steps, 1, progress)
    each = stepping.generators(rng, runs)
    if phases is None:
        shifts = np.stack([generator.uniform(0.0, 2.0 * math.pi, f.size) for generator in each])
    else:
        shifts = stepping.for_each_run("phases", phases, runs, (f.size,))
    k, x = np.arange(steps), np.zeros((runs, steps))
    for frequency, shift in zip(f, shifts.T, strict=True):
        x += np.sin(frequency * k + shift[:, None])
    if progress is not None:
        progress(steps, steps)
    return Plan("mso", runs, steps).trajectories(x[:, :, None], ("x",))
