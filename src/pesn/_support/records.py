"""Checks of records that come from a file, before a kernel indexes into their arrays.

>>> import numpy as np
>>> check_arrays("readout_", {"weights": (np.zeros((1, 3)), (1, 4))})
Traceback (most recent call last):
ValueError: readout_.weights is not a finite array of shape (1, 4)

>>> from types import SimpleNamespace
>>> model = SimpleNamespace(weights=1)
>>> try:
...     with rollback_on_error(model):
...         model.weights, model.state = 2, 0
...         raise ValueError
... except ValueError:
...     model
namespace(weights=1)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from types import UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np


class rollback_on_error:  # noqa: N801  # reads as what it does: with rollback_on_error(estimator)
    """Restore all attributes if an error leaves the block; attributes must be replaced, not changed in place."""

    def __init__(self, target: object) -> None:
        self.attributes = vars(target)
        self.before = dict(self.attributes)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.attributes.clear()
            self.attributes.update(self.before)


def check_arrays(record: str, parts: Mapping[str, tuple[Any, tuple[int, ...]]]) -> None:
    """Raise a ValueError unless each part of a ``record`` is a finite float64 array of its shape."""
    for name, (part, shape) in parts.items():
        if type(part) is not np.ndarray or part.dtype != np.float64 or part.shape != shape or not np.isfinite(part).all():
            raise ValueError(f"{_join_names(record, name)} is not a finite array of shape {shape}")


def check_array(
    name: str,
    value: Any,
    shape: tuple[int | None, ...],
    *,
    dtype: type = np.float64,
    low: float = -np.inf,
    high: float = np.inf,
    missing: bool = False,
) -> None:
    """Raise a ValueError unless ``value`` is an array of finite numbers within bounds.

    Parameters
    ----------
    name : str
        Name for the message.
    value : object
        Value to check.
    shape : tuple of int or None
        Expected shape; None allows any size.
    dtype : type, default=numpy.float64
        Expected type of the elements, exactly.
    low : float, default=-inf
        Smallest number allowed.
    high : float, default=inf
        Largest number allowed.
    missing : bool, default=False
        Whether NaN is allowed.

    Examples
    --------
    >>> check_array("kinds", np.array([0, 1_000_000]), (2,), dtype=np.int64, low=0, high=2)
    Traceback (most recent call last):
    ValueError: kinds must lie in [0, 2], got 1000000
    """
    expected = ", ".join("any" if size is None else str(size) for size in shape)
    expectation = f"{name} must be an array ({expected}) of {np.dtype(dtype).name}"
    if type(value) is not np.ndarray:
        raise ValueError(f"{expectation}, got {type(value).__name__}")
    sizes = value.ndim == len(shape) and all(want in (None, size) for want, size in zip(shape, value.shape, strict=True))
    if value.dtype != np.dtype(dtype) or not sizes:
        raise ValueError(f"{expectation}, got {value.shape} of {value.dtype}")
    known = value[~np.isnan(value)] if missing else value
    if not np.isfinite(known).all():
        raise ValueError(f"{name} must be finite, got {known[~np.isfinite(known)][0]}")
    outside = known[(known < low) | (known > high)]
    if len(outside):
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {outside[0]}")


def check_type(name: str, value: Any, kind: type[Any], item: type | None = None) -> None:
    """Raise a ValueError unless ``value`` is a ``kind`` and, where ``item`` is given, holds nothing but such items.

    Parameters
    ----------
    name : str
        Name for the message.
    value : object
        Value to check.
    kind : type
        Expected type, exactly.
    item : type, optional
        Expected type of each item, exactly.
    """
    if type(value) is not kind:
        raise ValueError(f"{name} must be a {kind.__name__}, got a {type(value).__name__}")
    if item is not None:
        for i, one in enumerate(value):
            if type(one) is not item:
                raise ValueError(f"{name}[{i}] must be a {item.__name__}, got a {type(one).__name__}")


def check_sum(name: str, weights: Any) -> None:
    """Raise a ValueError unless ``weights`` add up to 1."""
    total = float(np.sum(weights))
    if not abs(total - 1.0) < 1e-6:
        raise ValueError(f"{name} must add up to 1, got {total:g}")


def check_counts(record: str, counts: Mapping[str, tuple[Any, int]]) -> None:
    """Raise a ValueError unless each count is an int of at least its minimum."""
    for name, (count, least) in counts.items():
        if type(count) is not int or count < least:
            raise ValueError(f"{_join_names(record, name)} is {count!r}")


def check_covariance(name: str, cov: Any) -> None:
    """Raise a ValueError unless ``cov`` (n, n) is symmetric and positive semi-definite, up to the rounding of many steps."""
    size = float(np.max(np.abs(cov), initial=0.0))
    if size and (np.abs(cov - cov.T).max() > 1e-9 * size or np.linalg.eigvalsh(cov / size)[0] < -1e-9 * len(cov)):
        raise ValueError(f"{name} is not a covariance")


def check_names(name: str, names: Any, count: int, kind: str = "a list") -> None:
    """Raise a ValueError unless ``names`` are ``count`` texts, or None."""
    if names is not None and (np.shape(names) != (count,) or not all(type(one) is str for one in names)):
        raise ValueError(f"{name} is not {kind} of {count} names")


def check_remade(name: str, record: Any) -> None:
    """Raise a ValueError unless the constructor of a frozen dataclass accepts its fields: loading does not call it."""
    try:
        fresh = type(record)(**vars(record))
    except TypeError as error:
        raise ValueError(f"{name} is damaged: {error}") from None
    if fresh != record:
        raise ValueError(f"{name} is {record!r}")


def check_field_types(name: str, record: Any) -> None:
    """Raise a ValueError unless every field of a dataclass or NamedTuple has the type of its annotation."""
    for field, types in annotation_types(type(record)).items():
        check_annotation(_join_names(name, field), getattr(record, field), types)


def check_annotation(name: str, value: Any, types: tuple[type, ...]) -> None:
    """Raise a ValueError unless a value has one of the ``types`` (no subclasses, but for pesn's) and a number is finite, >= 0."""
    if type(value) not in types and not any(one.__module__.startswith("pesn.") and isinstance(value, one) for one in types):
        raise ValueError(f"{name} is a {type(value).__name__}")
    if type(value) in (int, float) and not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value!r}")


def annotation_types(kind: type) -> dict[str, tuple[type, ...]]:
    """Return the annotated attributes of a class of pesn and its bases, with the types of each."""
    own = {name for base in kind.__mro__ if base.__module__.startswith("pesn.") for name in inspect.get_annotations(base)}
    return {name: _types(hint) for name, hint in get_type_hints(kind).items() if name in own and get_origin(hint) is not ClassVar}


def _types(hint: Any) -> tuple[type, ...]:
    """Return the classes in a type hint."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(one for part in get_args(hint) for one in _types(part))
    if get_origin(hint) is Literal:
        return tuple({type(value) for value in get_args(hint)})
    return (get_origin(hint) or hint,)


def _join_names(record: str, name: str) -> str:
    """Return the name of a part of a record."""
    return f"{record}.{name}" if record else name
