"""What is known of a reservoir and of what it is coupled with: one Gaussian over x = [c, h], in three forms.

h (N,) are the units; c (p,) whatever is *carried* along with them because they are correlated with it: inputs, fed-back
outputs, the states of a closed loop. Three moves make every recursion:

- ``through_units``: h ← (1 − L) h + L tanh(C c + W h + offset). Means and variances pass tanh by :func:`pesn.moments`. With
  g = E[tanh′], Stein's identity makes Cov(tanh a, x) = g Cov(a, x) exact, so that x moves by the linear map
  T: h ← (1 − L) h + L g (C c + W h), and what is left, Cov tanh a − g Cov(a) g, is uncorrelated with all the rest;
- ``carry``: c ← K x + k + noise, an affine map, exact; h stays;
- ``observe``: some entries of c become known.

The forms: :class:`Full`, a dense covariance with Mehler's series between the units; :class:`LowRank`, F Fᵀ + diag(D) with F of
p + k columns; :class:`Diagonal`, variances alone, as in the paper.

>>> import numpy as np
>>> from pesn.reservoir.drive import draw
>>> reservoir = draw(50, n_inputs=1, n_outputs=1, rng=0)
>>> coupled = Coupling(reservoir, reservoir.W_in)
>>> belief = start("full", np.zeros(50), np.zeros((0, 50)))
>>> belief = belief.carry(np.zeros((1, 50)), np.array([0.3]), np.array([[0.1]]))  # an input 0.3 ± 0.1
>>> belief = belief.through_units(coupled)
>>> bool(np.all(belief.variances()[1:] > 0.0))
True
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pesn.linalg import outer
from pesn.statespace.cell import Coupling, Noise
from pesn.statespace.dense import Full
from pesn.statespace.diagonal import Diagonal
from pesn.statespace.low_rank import LowRank, cut
from pesn.statespace.state import Belief

__all__ = ["FORMS", "Belief", "Coupling", "Diagonal", "Full", "LowRank", "Noise", "start"]

Array = npt.NDArray[np.float64]
FORMS = ("diagonal", "full", "low-rank")


def start(form: str, mean: Array, root: Array, coupling: Coupling | None = None, exact: Array | None = None) -> Belief:
    """A belief about the units alone (p = 0): ``mean`` (N,) and Cov(h) = rootᵀ root, ``root`` (r, N).

    ``form`` is one of :data:`FORMS`; "low-rank" needs the ``coupling`` for its rank and for the outputs. Like the outputs, the
    rows of ``exact`` (s, N) keep their covariances with all units, whatever the rank.
    """
    nothing: Any = {"mean": np.array(mean, float), "carried": 0, "cross": np.zeros((len(mean), 0))}
    if form == "full":
        return Full(**nothing, cov=outer(root.T))
    if form == "diagonal":
        return Diagonal(**nothing, var=np.sum(np.square(root), axis=0))
    assert coupling is not None
    factor, own = cut(np.ascontiguousarray(root.T), np.zeros(len(mean)), 0, coupling, exact)
    return LowRank(**nothing, factor=factor, own=own)
