"""The usual benchmarks of the field: Lorenz (1963 and 1996), Rössler, Mackey-Glass with a true delay, and NARMA-10.

Each gives :class:`~pesn.systems.trajectories.Trajectories`, all runs at once, with the parameters that are standard.
``LYAPUNOV_TIME`` is the time in which a small error grows e-fold, in each system's unit of time, at those parameters.

>>> runs = lorenz(runs=2, steps=100, rng=0)
>>> runs.states.shape, runs.names, runs.lengths
((200, 3), ('x', 'y', 'z'), (100, 100))
>>> round(100 * runs.dt / LYAPUNOV_TIME["lorenz"], 1)  # Lyapunov times in each run
1.8
"""

from __future__ import annotations

from types import MappingProxyType

from pesn.systems.flows import lorenz, lorenz96, roessler
from pesn.systems.mackey_glass import mackey_glass
from pesn.systems.narma import narma10

__all__ = ["LYAPUNOV_EXPONENT", "LYAPUNOV_TIME", "lorenz", "lorenz96", "mackey_glass", "narma10", "roessler"]

# The largest exponents, to base e and per unit of time. Lorenz and Rössler: J. C. Sprott, Chaos and Time-Series Analysis
# (Oxford University Press, 2003). Mackey-Glass: measured, by the linearised equation beside 300 runs of 10,000 units each, both
# to fourth order at a step of 0.1: 0.00516 ± 0.00002. Values from 0.006 to 0.007 are quoted for it. NARMA-10 is driven and has
# none.
LYAPUNOV_EXPONENT = MappingProxyType({"lorenz": 0.9056, "roessler": 0.0714, "mackey_glass": 0.00516})
LYAPUNOV_TIME = MappingProxyType({system: 1.0 / exponent for system, exponent in LYAPUNOV_EXPONENT.items()})
