"""Flows of two scrolls, between which they jump: a circuit with diodes, and Chen's."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import number
from pesn._support.types import Array
from pesn.systems.flows import flow
from pesn.systems.stepping import Progress, Seed
from pesn.systems.trajectories import Trajectories

__all__ = ["double_scroll", "multiscroll"]


def double_scroll(
    *,
    runs: int = 1,
    steps: int = 5000,
    dt: float = 0.25,
    initial_state: npt.ArrayLike | None = None,
    transient: float | None = None,
    rng: Seed = None,
    r1: float = 1.2,
    r2: float = 3.44,
    r4: float = 0.193,
    ir: float = 2.25e-5,
    beta: float = 11.6,
    substeps: int = 5,
    progress: Progress | None = None,
) -> Trajectories:
    """A circuit that jumps between two scrolls (D. J. Gauthier et al., Nat. Commun. 12, 2021, Eqs. 9 to 11).

    V̇1 = V1/R1 − ΔV/R2 − 2 I_r sinh(β ΔV), V̇2 = ΔV/R2 + 2 I_r sinh(β ΔV) − I, İ = V2 − R4 I, with ΔV = V1 − V2: an active
    resistor, two capacitors, a coil, and a pair of diodes between them.

    Parameters
    ----------
    runs, steps, dt, initial_state, transient, rng, substeps, progress
        As in :func:`~pesn.systems.chaotic.lorenz`, with a transient of 100 after a drawn state.
    r1, r2, r4, ir, beta
        Of the equations.

    Returns
    -------
    Trajectories
        states V1, V2, I (runs · steps, 3) and inputs (runs · steps, 0).

    Examples
    --------
    >>> double_scroll(steps=3, initial_state=[0.37, 0.06, -0.08]).states.round(3)
    array([[ 0.37 ,  0.06 , -0.08 ],
           [ 0.43 ,  0.101, -0.057],
           [ 0.501,  0.136, -0.025]])
    """
    for name, value in (("r1", r1), ("r2", r2), ("beta", beta)):
        number(name, value, 0.0, math.inf, "()")
    for name, value in (("r4", r4), ("ir", ir)):
        number(name, value, 0.0, math.inf, "[)")
    r1, r2, r4, ir, beta = float(r1), float(r2), float(r4), float(ir), float(beta)

    def rate(state: Array) -> Array:
        v1, v2, i = state
        across = v1 - v2
        current = across / r2 + 2.0 * ir * np.sinh(beta * across)
        change = np.empty_like(state)
        change[0] = v1 / r1 - current
        change[1] = current - i
        change[2] = v2 - r4 * i
        return change

    box = ((-0.4, 0.4), (-0.1, 0.1), (-0.1, 0.1))
    return flow(
        "double_scroll", rate, box, runs, steps, dt, initial_state, transient, 100.0, rng, substeps, progress, ("V1", "V2", "I")
    )


def multiscroll(
    *,
    runs: int = 1,
    steps: int = 5000,
    dt: float = 0.01,
    initial_state: npt.ArrayLike | None = None,
    transient: float | None = None,
    rng: Seed = None,
    a: float = 35.0,
    b: float = 3.0,
    c: float = 28.0,
    substeps: int = 5,
    progress: Progress | None = None,
) -> Trajectories:
    """Chen's attractor (G. Chen and T. Ueta, Int. J. Bifurcat. Chaos 9, 1999).

    ẋ = a(y − x), ẏ = (c − a)x − xz + cy, ż = xy − bz: two scrolls about the states at rest (±s, ±s, 2c − a),
    s² = b(2c − a).

    Parameters
    ----------
    runs, steps, dt, initial_state, transient, rng, substeps, progress
        As in :func:`~pesn.systems.chaotic.lorenz`, with a transient of 20 after a drawn state.
    a, b, c
        Of the equations; by default those of the paper.

    Returns
    -------
    Trajectories
        states (runs · steps, 3) and inputs (runs · steps, 0).

    Examples
    --------
    >>> multiscroll(steps=3, initial_state=[-3.0, 2.0, 20.0]).states.round(3)
    array([[-3.   ,  2.   , 20.   ],
           [-1.315,  3.321, 19.354],
           [ 0.25 ,  4.563, 18.764]])
    """
    for name, value in (("a", a), ("b", b), ("c", c)):
        number(name, value, -math.inf, math.inf, "()")
    a, b, c = float(a), float(b), float(c)

    def rate(state: Array) -> Array:
        x, y, z = state
        change = np.empty_like(state)
        change[0] = a * (y - x)
        change[1] = (c - a) * x - x * z + c * y
        change[2] = x * y - b * z
        return change

    box = ((-10.0, 10.0), (-10.0, 10.0), (15.0, 30.0))
    return flow("multiscroll", rate, box, runs, steps, dt, initial_state, transient, 20.0, rng, substeps, progress)
