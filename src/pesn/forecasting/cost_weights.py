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


def by_name(argument: str, values: Any, names: tuple[str, ...], paths: bool = False) -> Any:
    """What a mapping, a Series or a frame says of some columns, in the order of ``names``, 0 for the others; else ``values``.

    ``paths``: it may say a path (H,) of a column, and the rows of a frame are steps; else they are columns, too, where they have
    their names.

    >>> by_name("goal", {"theta": [1.0, 2.0], "x": 3.0}, ("x", "theta"), paths=True)
    array([[3., 1.],
           [3., 2.]])
    """
    if not isinstance(values, Mapping) and not (hasattr(values, "index") and hasattr(values, "items")):
        return values
    named = {str(name): np.asarray(value) for name, value in values.items()}  # of a frame: its columns
    _check_known(argument, list(named), names)
    frame = getattr(values, "ndim", 1) == 2
    for name, value in named.items():
        if value.ndim and not paths and not frame:
            raise ValueError(f"{argument} must be a number for each name, got shape {value.shape} for {name!r}")
    zero = np.zeros(len(values)) if frame else np.zeros(())
    try:
        table = np.stack(np.broadcast_arrays(*(named.get(name, zero) for name in names)), axis=-1)
    except ValueError:
        shapes = ", ".join(f"{value.shape} for {name!r}" for name, value in named.items())
        raise ValueError(f"{argument} must be numbers, or paths of one length, by name, got shapes {shapes}") from None
    labels = [str(label) for label in values.index] if frame and not paths else []
    if not set(labels) & set(names):
        return table
    _check_known(argument, labels, names)
    whole = np.zeros((len(names), len(names)), table.dtype)
    whole[[names.index(label) for label in labels]] = table
    return whole


def _check_known(argument: str, found: list[str], names: tuple[str, ...]) -> None:
    unknown = [name for name in found if name not in names]
    if unknown:
        raise ValueError(f"{argument} must name columns among {', '.join(names)}, got {unknown[0]!r}")


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
    wanted = np.asarray(as_real("goal", by_name("goal", goal, names, paths=True)), np.float64)
    d = len(names)
    if wanted.shape not in ((), (d,), (steps, d)):
        raise ValueError(f"goal must have shape ({d},), a number a column, or ({steps}, {d}), a path, got {wanted.shape}")
    return wanted
