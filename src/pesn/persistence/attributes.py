"""What loads must work: a model has all its attributes and no others, each of its type, and finds itself whole.

Which attributes these are, a class says by its annotations; what must be true of them, by its ``check_stored``, which asks its
records. The kernels index without bounds checks: every array is looked at before the first call.
"""

from __future__ import annotations

import inspect
import math
from types import UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from pesn.persistence.audit import MODELS

__all__ = ["check_model"]


def check_model(model: Any) -> None:
    """A ValueError where anything is missing, foreign, or does not fit."""
    kind, found = type(model), vars(model)
    parameters = set(inspect.signature(kind).parameters)
    annotated = _annotated(kind)
    learnt = set(annotated) - parameters - set(kind.stored_at_times)
    fitted = learnt if learnt & set(found) else set()
    missing = (parameters | fitted) - set(found)
    extra = set(found) - parameters - fitted - set(kind.stored_at_times)
    if extra or missing:
        raise ValueError(f"its attributes are not those of a {kind.__name__}: {', '.join(sorted(missing or extra))}")
    for name, types in {**annotated, **{name: (one,) for name, one in kind.stored_at_times.items()}}.items():
        # numbers among the parameters have checks of their own, which know their ranges
        if name in found and (name not in parameters or set(types) & set(MODELS)):
            _check_type(name, found[name], types)
    for value in found.values():
        if type(value) in MODELS:
            check_model(value)
    if fitted:
        model.check_stored()


def _check_type(name: str, value: Any, types: tuple[type, ...]) -> None:
    """Of Python's and NumPy's own types exactly, for True is an int; of pesn's, a kind of it. Numbers are finite, 0 or more."""
    if type(value) not in types and not any(one.__module__.startswith("pesn.") and isinstance(value, one) for one in types):
        raise ValueError(f"{name} is a {type(value).__name__}")
    if type(value) in (int, float) and not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value!r}")


def _annotated(kind: type) -> dict[str, tuple[type, ...]]:
    """The attributes that a class of pesn and its bases of pesn are annotated with, and the types of each."""
    own = {name for base in kind.__mro__ if base.__module__.startswith("pesn.") for name in inspect.get_annotations(base)}
    return {name: _types(hint) for name, hint in get_type_hints(kind).items() if name in own and get_origin(hint) is not ClassVar}


def _types(hint: Any) -> tuple[type, ...]:
    if get_origin(hint) in (Union, UnionType):
        return tuple(one for part in get_args(hint) for one in _types(part))
    if get_origin(hint) is Literal:
        return tuple({type(value) for value in get_args(hint)})
    return (get_origin(hint) or hint,)
