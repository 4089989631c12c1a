"""A torch module as layers, read from one run of it: the operations that its inputs go through, as torch's dispatcher sees them.

Below modules, functions, hooks and scripts there are few kinds of operations; :mod:`pesn.networks.reader` reads them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functionalize, vmap
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.module_tracker import ModuleTracker

from pesn._support.types import Array
from pesn.networks.layers import AffineRows, Dense, Shapes
from pesn.networks.reader import Operation, Reader, Value

_POINTWISE = {"hardswish", "log_sigmoid_forward", "_prelu_kernel", "rsub"}  # without torch's tag
_LINEAR = {"add", "sub", "rsub", "neg", "mul", "div", "clone"}


class OutputError(TypeError):
    """A network that gives something else than rows of numbers."""


def list_tensors(output: object) -> list[Tensor]:
    """List the tensors that a network gives, in order: a tensor, or those of tuples, lists and dictionaries."""
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, tuple | list):
        return [tensor for part in output for tensor in list_tensors(part)]
    if output is None:
        return []
    raise OutputError(f"network must give tensors, or tuples and dictionaries of them, got a {type(output).__name__}")


def trace_layers(network: nn.Module, shapes: Shapes, only_exact: bool = False) -> list[Dense]:
    """Read the layers of a module; a TypeError names what has no closed form.

    Parameters
    ----------
    network : torch.nn.Module
        In eval mode.
    shapes : tuple of tuple of int
        Of one row of each input.
    only_exact : bool, default=False
        Whether a module with several nonlinear operations is refused as soon as that is seen.

    Returns
    -------
    list of Dense
        On all inputs, flattened, side by side.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> class Residual(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.inner = nn.Linear(3, 3)
    ...     def forward(self, x):
    ...         return x + torch.tanh(self.inner(x))
    >>> trace_layers(Residual().eval(), ((3,),))
    [SkipDense(3 -> 3 + 3 carried, 'tanh'), Dense(6 -> 3, 'identity')]
    """
    first = next(iter((*network.parameters(), *network.buffers())), torch.zeros(0))
    dtype = first.dtype if first.is_floating_point() else torch.get_default_dtype()
    inputs = [torch.zeros(1, *shape, dtype=dtype, device=first.device) for shape in shapes]
    recorder, outputs = _record(network, inputs, only_exact)
    if not any(id(tensor) in recorder.known for tensor in outputs):
        raise TypeError(
            "network cannot be followed from its inputs to its outputs: it leaves torch, or gives the same for every input; "
            "use closure='sobol'"
        )
    reader = Reader(tuple((1, *shape) for shape in shapes))
    values = dict(zip(map(id, inputs), reader.inputs, strict=True))
    for step in recorder.steps:
        operation = step.operation()
        made = reader.apply(operation, [values[id(step.leaves[place])] for place in step.places])
        if only_exact and not operation.is_pointwise:
            reader.check(made)  # no need to read on
        values.update(zip(map(id, step.outputs), made, strict=True))
    for tensor in outputs:
        values.setdefault(id(tensor), Value(AffineRows(tensor.detach().cpu().double().numpy()[None], ())))
    return reader.layers([values[id(tensor)] for tensor in outputs])


def _record(network: nn.Module, inputs: Sequence[Tensor], only_exact: bool) -> tuple[_Recorder, list[Tensor]]:
    """Run a network and record its operations."""
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # about flags that a build of torch lacks
        recorder = _Recorder(inputs, stack.enter_context(ModuleTracker()), only_exact)
        stack.enter_context(recorder)
        return recorder, list_tensors(functionalize(network, remove="mutations")(*inputs))


class _Step(NamedTuple):
    """One operation: its arguments, flattened, of which those at ``places`` depend on the inputs, and its outputs."""

    name: str
    function: Any
    leaves: list[Any]
    spec: pytree.TreeSpec
    places: list[int]
    outputs: list[Tensor]
    module: str

    def operation(self) -> Operation:
        """Return the operation on arrays in double precision."""
        fixed = [_as_constant(leaf) for place, leaf in enumerate(self.leaves) if place not in self.places]
        plain = all(leaf.numel() == 1 for leaf in fixed if isinstance(leaf, Tensor))
        refusal = TypeError(f"{self.module}: no closed form is known for {self.name}; use closure='sobol'")
        return Operation(self._run, tuple(tuple(out.shape) for out in self.outputs), plain and self.is_pointwise, refusal)

    @property
    def is_pointwise(self) -> bool:
        """Whether it acts on numbers at the same place."""
        return torch.Tag.pointwise in self.function.tags or self.name in _POINTWISE

    def _run(self, *arrays: Array) -> list[Array]:
        functorch: Any = torch._C._functorch
        before = functorch._is_vmap_fallback_enabled()
        functorch._set_vmap_fallback_enabled(False)  # an operation without a batching rule is refused
        try:
            with torch.no_grad():
                out = vmap(self._call)(*map(torch.from_numpy, arrays))
        finally:
            functorch._set_vmap_fallback_enabled(before)
        return [part.contiguous().numpy() for part in out]

    def _call(self, *tensors: Tensor) -> list[Tensor]:
        leaves = [_as_constant(leaf) for leaf in self.leaves]
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        if self.name == "copy":
            return [torch.as_tensor(leaves[1]).expand(self.outputs[0].shape).clone()]
        if self.name == "_to_copy" and self.outputs[0].is_floating_point():
            return [leaves[0].clone()]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        function = getattr(torch.ops.aten, self.name, self.function)  # not its in-place form
        return [part for part in pytree.tree_leaves(function(*args, **kwargs)) if isinstance(part, Tensor)]


def _as_constant(leaf: object) -> Any:
    """Return an argument in double precision, on the CPU."""
    if isinstance(leaf, Tensor):
        return leaf.detach().cpu().double() if leaf.is_floating_point() else leaf.cpu()
    return leaf


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Record the operations that depend on the inputs."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True would import the compiler, which takes seconds

    def __init__(self, inputs: Sequence[Tensor], tracker: ModuleTracker, only_exact: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = {id(tensor): tensor for tensor in inputs}  # kept alive, so that ids stay unique
        self.depths = {id(tensor): (0, False) for tensor in inputs}  # nonlinear layers before, and whether another has begun
        self.tracker, self.only_exact = tracker, only_exact
        self.steps: list[_Step] = []

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        kwargs = kwargs or {}
        leaves, spec = pytree.tree_flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if id(leaf) in self.known]
        name = func._schema.name.partition("::")[2]
        if not places or name.startswith("new_") or name.endswith("_like"):  # these use shape and dtype alone
            return func(*args, **kwargs)
        if func._schema.is_mutable:
            name = name.removesuffix("_")
            leaves = [x.clone() if isinstance(x, Tensor) and id(x) not in self.known else x for x in leaves]
        out = func(*args, **kwargs)
        self._add_step(_Step(name, func, leaves, spec, places, [], ""), pytree.tree_leaves(out))
        return out

    def _add_step(self, step: _Step, outputs: list[Any]) -> None:
        module = max(self.tracker.parents - {"Global"}, key=len, default="network")
        if any(isinstance(part, bool | int | float) for part in outputs):
            raise TypeError(f"what {module} does depends on the numbers themselves ({step.name}); use closure='sobol'")
        tensors = [part for part in outputs if isinstance(part, Tensor)]
        self.steps.append(step._replace(outputs=tensors, module=module))
        self.known.update((id(part), part) for part in tensors)
        before = [self.depths[id(step.leaves[place])] for place in step.places]
        depth, is_open = max(one[0] for one in before), any(one[1] for one in before)
        is_unit = step.is_pointwise and step.name not in _LINEAR
        if self.only_exact and is_unit and depth:
            raise TypeError("network has more than one nonlinear layer; its closed form is not exact")
        after = (depth, is_open or is_unit) if step.is_pointwise else (depth + is_open, False)
        self.depths.update(dict.fromkeys(map(id, tensors), after))
