"""The usual benchmarks of the field: Lorenz (1963 and 1996), Rössler, double scrolls, Rabinovich-Fabrikant, Hénon,
the logistic map, Mackey-Glass with a true delay, Kuramoto-Sivashinsky, NARMA-10, oscillators, and the flows of dysts.

Each gives :class:`~pesn.systems.trajectories.Trajectories`, all runs at once, with the parameters that are standard.
``LYAPUNOV_TIME`` is the time in which a small error grows e-fold, in each system's unit of time, at those parameters.

>>> runs = lorenz(runs=2, steps=100, rng=0)
>>> runs.states.shape, runs.names, runs.lengths
((200, 3), ('x', 'y', 'z'), (100, 100))
>>> round(100 * runs.dt / LYAPUNOV_TIME["lorenz"], 1)  # Lyapunov times in each run
1.8
"""

from __future__ import annotations

import math
from types import MappingProxyType

from pesn.systems.flows import (
    double_scroll,
    from_dysts,
    lorenz,
    lorenz96,
    mso,
    multiscroll,
    rabinovich_fabrikant,
    roessler,
)  # fmt: skip
from pesn.systems.kuramoto_sivashinsky import kuramoto_sivashinsky
from pesn.systems.mackey_glass import mackey_glass
from pesn.systems.maps import henon, logistic_map, narma10

__all__ = [
    "LYAPUNOV_EXPONENT",
    "LYAPUNOV_TIME",
    "double_scroll",
    "from_dysts",
    "henon",
    "kuramoto_sivashinsky",
    "logistic_map",
    "lorenz",
    "lorenz96",
    "mackey_glass",
    "mso",
    "multiscroll",
    "narma10",
    "rabinovich_fabrikant",
    "roessler",
]

# The largest exponents, to base e and per unit of time, at the parameters that are the defaults here. Lorenz, Rössler, Hénon and
# Rabinovich-Fabrikant: J. C. Sprott, Chaos and Time-Series Analysis (Oxford University Press, 2003). Kuramoto-Sivashinsky:
# P. Cvitanović, R. L. Davidchack and E. Siminos, SIAM J. Appl. Dyn. Syst. 9, 2010. Mackey-Glass: measured, by the linearised
# equation beside 300 runs of 10,000 units each, both to fourth order at a step of 0.1: 0.00516 ± 0.00002. Values from 0.006 to
# 0.007 are quoted for it. Double scroll: measured, by 800 pairs of near runs over 500 units, 0.0918 ± 0.0002; the linearised
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
