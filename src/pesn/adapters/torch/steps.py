"""One step of a trace: as a function of what it takes, or refused by its name and place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from torch import Tensor

from pesn.adapters.torch.trace import Step, mapped
from pesn.adapters.torch.values import Builder, Value

__all__ = ["Handler", "call", "refusal"]

Handler: TypeAlias = Callable[[Builder, Step, list[Any]], Any]  # of a step's arguments: the value, or values, that it gives


def refusal(step: Step, why: str = "") -> TypeError:
    """Of a closed form, by its place and name, with the remedy."""
    return TypeError(f"{step.place}: no closed form is known for {step.name}{why}; use closure='sobol'")


def call(step: Step, args: list[Any], place: int | None = None) -> Callable[..., Tensor]:
    """The operation as a function of the values among its arguments; ``place``: of its outputs."""
    kwargs = {key: value for key, value in step.kwargs.items() if key not in ("dtype", "device", "layout", "pin_memory")}
    if step.name == "slice_scatter" and len(args) > 4 and args[4] is not None:
        args = [*args[:4], min(args[4], args[0].shape[args[2]]), *args[5:]]  # "to the end" is 2⁶³ − 1, which overflows in batches

    def function(*tensors: Tensor) -> Tensor:
        given = iter(tensors)
        full = mapped(args, lambda leaf: next(given) if isinstance(leaf, Value) else leaf)
        out = step.packet(*full, **kwargs)
        return out if place is None else out[place]

    return function
