"""A torch network as a graph of operations, read from one run of it."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from pesn.adapters.torch.elementwise import OF_ONE
from pesn.adapters.torch.operations import REARRANGED, applied
from pesn.adapters.torch.reductions import REDUCTIONS
from pesn.adapters.torch.steps import refusal
from pesn.adapters.torch.trace import Ref, Step, Trace, mapped, traced
from pesn.adapters.torch.values import Builder, Value
from pesn.networks.graph import Graph
from pesn.networks.inputs import Shapes

__all__ = ["as_graph"]

_FAR = 1e4  # in the place of −∞ that masks: as far down for e^z, and a number to calculate with


def as_graph(network: nn.Module, shapes: Shapes, only_exact: bool = False) -> Graph:
    """The operations that the numbers of its inputs, of ``shapes``, go through; a TypeError names what has no closed form.

    With ``only_exact`` also a network of more than a few operations that are not affine, before it is read to its end.

    >>> _ = torch.manual_seed(0)
    >>> class Residual(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.inner = nn.Linear(3, 3)
    ...     def forward(self, x):
    ...         return x + torch.tanh(self.inner(x))
    >>> [node.name for node in as_graph(Residual().eval(), ((3,),)).nodes]
    ['affine 0 in Residual', 'tanh 1 in Residual', 'affine 2 in output']
    """
    first = next(iter((*network.parameters(), *network.buffers())), torch.zeros(0))
    dtype = first.dtype if first.is_floating_point() else torch.get_default_dtype()
    inputs = [torch.zeros(1, *shape, dtype=dtype, device=first.device) for shape in shapes]
    return _built(traced(network, inputs, _is_curved if only_exact else None), shapes)


def _is_curved(step: Step) -> bool:
    return step.name in OF_ONE or step.name in REDUCTIONS


def _built(trace: Trace, shapes: Shapes) -> Graph:
    builder = Builder(shapes)
    known = _Known(trace, {Ref(i): value for i, value in enumerate(builder.inputs)})
    uses = _uses(trace)
    for step in trace.steps:
        if not any(uses[out[0]] for out in step.outputs if out is not None):
            continue
        builder.place = step.place
        args = [mapped(arg, lambda leaf: _argument(leaf, known)) for arg in step.args]
        made = applied(builder, step, args)
        for out, value in zip(step.outputs, made if isinstance(made, list) else [made], strict=False):
            if out is not None and isinstance(value, Value):
                known[out[0]] = _kept(builder, step, value, uses[out[0]])
    if not any(isinstance(output, Ref) for output in trace.outputs):
        raise TypeError(
            "network cannot be followed from its inputs to its outputs: it leaves torch, or gives the same for every input; "
            "use closure='sobol'"
        )
    builder.place = "output"
    outputs = [known[output] if isinstance(output, Ref) else output for output in trace.outputs]
    anything = next(output for output in outputs if isinstance(output, Value))
    return builder.graph([o if isinstance(o, Value) else _constant(builder, o, anything) for o in outputs])


class _Known(dict[Ref, Any]):
    """The values of what was traced; what has none, as the places of the largest numbers, is refused."""

    def __init__(self, trace: Trace, values: dict[Ref, Any]) -> None:
        super().__init__(values)
        self.steps = trace.steps

    def __missing__(self, ref: Ref) -> Any:
        step = next(step for step in self.steps if any(out is not None and out[0] == ref for out in step.outputs))
        raise refusal(step, " with all that it gives")


def _argument(leaf: Any, known: dict[Ref, Any]) -> Any:
    if isinstance(leaf, Ref):
        return known[leaf]
    if isinstance(leaf, Tensor):
        leaf = leaf.cpu()
        return torch.nan_to_num(leaf.double(), nan=math.nan, posinf=_FAR, neginf=-_FAR) if leaf.is_floating_point() else leaf
    if isinstance(leaf, float) and math.isinf(leaf):
        return math.copysign(_FAR, leaf)
    return leaf


def _constant(builder: Builder, tensor: Tensor, beside: Value) -> Value:
    certain = tensor.detach().cpu().double()
    return builder.affine(lambda t: certain + 0.0 * t.reshape(-1)[:1].sum(), beside, shape=certain.shape)


def _uses(trace: Trace) -> Counter[Ref]:
    """How often each tensor is used in the end: entries of it that are taken out count as it does."""
    uses: Counter[Ref] = Counter(output for output in trace.outputs if isinstance(output, Ref))
    for step in reversed(trace.steps):
        outputs = sum(uses[out[0]] for out in step.outputs if out is not None)
        for ref in step.inputs:
            uses[ref] += outputs if step.name in REARRANGED else min(outputs, 1)
    return uses


def _kept(builder: Builder, step: Step, value: Value, uses: int) -> Value:
    """As a node of its own, where several use it; not where it is larger than what it was made of, as all steps at once are."""
    made_of = sum(node.size for node in value.nodes)
    if value.node is not None or uses < 2 or step.name in REARRANGED:
        return value
    return builder.written_out(value) if value.size > 2 * made_of else builder.shared(value)
