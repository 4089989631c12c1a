"""Weights and goals of a cost, as arrays or by the names of the columns.

>>> square("Q", by_name("Q", {"theta": 2.0}, ("x", "theta")), 2)
array([[0., 0.],
       [0., 2.]])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real
from pesn._support.types import Array

__all__ = ["Weights", "as_goal", "by_name", "square"]

Weights = npt.ArrayLike | Mapping[str, float]  # (d, d), a diagonal (d,), one number, or numbers by name


def by_name(argument: str, values: Any, names: tuple[str, ...]) -> Any:
    """What a mapping, a Series or a frame says of some columns, in the order of ``names``, 0 for the others; else ``values``."""
    if not isinstance(values, Mapping) and not (hasattr(values, "index") and hasattr(values, "items")):
        return values
    named = {str(name): np.asarray(value) for name, value in values.items()}  # of a frame: a path (H,) a column
    unknown = [name for name in named if name not in names]
    if unknown:
        raise ValueError(f"{argument} must name columns among {', '.join(names)}, got {unknown[0]!r}")
    zero = np.zeros(len(values)) if getattr(values, "ndim", 1) == 2 else np.zeros(())
    return np.stack([named.get(name, zero) for name in names], axis=-1)


def square(argument: str, values: npt.ArrayLike, size: int) -> Array:
    """Weights (size, size), symmetric, from those, from a diagonal or from one number."""
    weights = np.asarray(as_real(argument, values), np.float64)
    if weights.shape in ((), (size,)):
        return np.diag(np.broadcast_to(weights, size))
    if weights.shape != (size, size):
        raise ValueError(f"{argument} must be a number, ({size},) or ({size}, {size}), got shape {weights.shape}")
    return 0.5 * (weights + weights.T)  # all that a square sees


def as_goal(goal: Weights, names: tuple[str, ...], steps: int) -> Array:
    """(d,), a path (steps, d), or a number for all."""
    wanted = np.asarray(as_real("goal", by_name("goal", goal, names)), np.float64)
    d = len(names)
    if wanted.shape not in ((), (d,), (steps, d)):
        raise ValueError(f"goal must have shape ({d},), a number a column, or ({steps}, {d}), a path, got {wanted.shape}")
    return wanted
