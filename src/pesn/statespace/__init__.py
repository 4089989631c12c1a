"""State-space models over joint Gaussians: a state in four forms, the moves that change it, one model, one loop over time.

x = [c, h] is one Gaussian: c what is *carried* by affine maps (inputs, outputs fed back, the states of a closed loop), h what
cells move. Four moves make every recursion:

- ``move``: h ← (1 − L) h + L f(A x + b). Means and variances pass f by :func:`pesn.moments`. With g = E[f′], Stein's identity
  makes Cov(f(a), x) = g Cov(a, x) exact, so that x moves by the linear map T: h ← (1 − L) h + L g A x, and what is left,
  Cov f(a) − g Cov(a) g, is uncorrelated with all the rest;
- ``affine``: x[rows] ← K x + k + noise, exact; ``assign``: x[rows] ← values;
- ``condition``: some entries of x are observed, with or without noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pesn._support.types import Array
from pesn.linalg import outer
from pesn.statespace.cell import (
    ActivationMoments,
    Cell,
    Compression,
    Noise,
    SineMoments,
    SquareMoments,
    StackedMoments,
    UnitMoments,
    stacked,
    tangent,
)
from pesn.statespace.certain import Certain
from pesn.statespace.dense import Dense
from pesn.statespace.diagonal import Diagonal
from pesn.statespace.ensemble import Draws, Ensemble, MirroredDraws
from pesn.statespace.low_rank import FirstOrder, LowRank, are_many, fewer, kept_entries, truncate
from pesn.statespace.model import Emission, StateSpaceModel, StepInfo
from pesn.statespace.rollout import CertainPath, Path, concatenate, rollout
from pesn.statespace.state import GaussianState, Layout, stack

__all__ = [
    "CLOSED_FORMS",
    "FORMS",
    "ActivationMoments",
    "Cell",
    "Certain",
    "CertainPath",
    "Compression",
    "Dense",
    "Diagonal",
    "Draws",
    "Emission",
    "Ensemble",
    "FirstOrder",
    "GaussianState",
    "Layout",
    "LowRank",
    "MirroredDraws",
    "Noise",
    "Path",
    "SineMoments",
    "SquareMoments",
    "StackedMoments",
    "StateSpaceModel",
    "StepInfo",
    "UnitMoments",
    "are_many",
    "concatenate",
    "fewer",
    "init",
    "kept_entries",
    "rollout",
    "stack",
    "stacked",
    "tangent",
]

CLOSED_FORMS = ("diagonal", "full", "low-rank")
FORMS = (*CLOSED_FORMS, "ensemble")


def init(
    form: str, carried: int, mean: Array, root: Array, compression: Compression | None = None, carried_root: Array | None = None,
    *, members: int = 256, draws: Draws | None = None,
) -> GaussianState:  # fmt: skip
    """A state whose first ``carried`` entries have mean 0, the others ``mean`` (…, N), and Cov(h) = rootᵀ root, root (…, r, N).

    ``form`` is one of :data:`FORMS`, "first-order", or "none", means alone; "low-rank" needs ``compression``,
    "ensemble" takes so many ``members``, drawn by ``draws``; None: by those of seed 0. ``carried_root`` (…, r, carried) is the
    share of c in the columns of the root; None: c is certain.
    """
    if form not in (known := (*FORMS, "first-order", "none")):
        raise ValueError(f"form must be one of {', '.join(map(repr, known))}, got {form!r}")
    *batch, n = mean.shape
    total = carried + n
    whole = np.zeros((*batch, total))
    whole[..., carried:] = mean
    shared: Any = {"mean": whole, "carried": carried, "cross": np.zeros((*batch, total, 0))}
    if form == "none":
        return Certain(**shared)
    columns = np.zeros((*batch, total, root.shape[-2]))
    columns[..., carried:, :] = np.swapaxes(root, -1, -2)
    if carried_root is not None:
        columns[..., :carried, :] = np.swapaxes(carried_root, -1, -2)
    if form == "ensemble":
        return Ensemble.of(whole, np.swapaxes(columns, -1, -2), carried, members, Draws(0) if draws is None else draws)
    if form == "full":
        return Dense(**shared, cov=outer(columns))
    if form == "diagonal":
        return Diagonal(**shared, var=np.sum(np.square(columns), axis=-1))
    if form == "first-order":
        return FirstOrder(**shared, factor=columns)
    assert compression is not None
    (tied,) = np.nonzero(columns[..., :carried, :].any(axis=(*range(len(batch)), -1)))  # entries of c that lose nothing
    rows = np.concatenate([tied, np.arange(carried, total)])
    factor, own = truncate(columns[..., rows, :], np.zeros((*batch, n)), len(tied), compression)
    padded = np.zeros((*batch, total, factor.shape[-1]))
    padded[..., rows, :] = factor
    return LowRank(**shared, factor=padded, own=own)
