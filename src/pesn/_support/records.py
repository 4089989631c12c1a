"""What a record asks of its own parts: for those that came from a file, before a kernel indexes into them unchecked.

>>> import numpy as np
>>> check_arrays("readout_", {"weights": (np.zeros((1, 3)), (1, 4))})
Traceback (most recent call last):
ValueError: readout_.weights is not a finite array of shape (1, 4)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["check_arrays", "check_counts", "check_covariance", "check_names", "check_remade"]


def check_arrays(record: str, parts: Mapping[str, tuple[Any, tuple[int, ...]]]) -> None:
    """A ValueError unless each part of a ``record`` is a finite float64 array of its shape."""
    for name, (part, shape) in parts.items():
        if type(part) is not np.ndarray or part.dtype != np.float64 or part.shape != shape or not np.isfinite(part).all():
            raise ValueError(f"{_of(record, name)} is not a finite array of shape {shape}")


def check_counts(record: str, counts: Mapping[str, tuple[Any, int]]) -> None:
    """A ValueError unless each is an int, as large as its least at least."""
    for name, (count, least) in counts.items():
        if type(count) is not int or count < least:
            raise ValueError(f"{_of(record, name)} is {count!r}")


def check_covariance(name: str, cov: Any) -> None:
    """A ValueError unless ``cov`` (n, n) is symmetric and not negative, up to the rounding of many steps."""
    size = float(np.max(np.abs(cov), initial=0.0))
    if size and (np.abs(cov - cov.T).max() > 1e-9 * size or np.linalg.eigvalsh(cov / size)[0] < -1e-9 * len(cov)):
        raise ValueError(f"{name} is not a covariance")


def check_names(name: str, names: Any, count: int, kind: str = "a list") -> None:
    """A ValueError unless there are ``count`` texts, or none at all."""
    if names is not None and (np.shape(names) != (count,) or not all(type(one) is str for one in names)):
        raise ValueError(f"{name} is not {kind} of {count} names")


def check_remade(name: str, record: Any) -> None:
    """A ValueError unless the constructor of a frozen dataclass makes the same of its fields: a file does not ask it."""
    try:
        fresh = type(record)(**vars(record))
    except TypeError as error:
        raise ValueError(f"{name} is damaged: {error}") from None
    if fresh != record:
        raise ValueError(f"{name} is {record!r}")


def _of(record: str, name: str) -> str:
    return f"{record}.{name}" if record else name
