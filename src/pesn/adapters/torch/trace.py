"""A torch module as layers, read from one run of it: the operations that its inputs go through, as torch's dispatcher sees them.

Below modules, functions, hooks and scripts there are few kinds of operations; :mod:`pesn.networks.reader` reads them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.func import functionalize, vmap
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.module_tracker import ModuleTracker

from pesn._support.types import Array
from pesn.activations import Activation
from pesn.adapters.torch.tensor_gaussian import unwrap_tensor
from pesn.networks.layers import LARGEST, AffineRows, Dense, Shapes, Stage, TooLargeError, stack_stages
from pesn.networks.reader import Operation, Reader, Value, check_values

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
    return _read(network, shapes, only_exact).layers()


@dataclass(frozen=True)
class TensorLayer:
    """f(W x + b) on tensors, of which the last ``carried`` entries have no activation."""

    W: Tensor
    b: Tensor
    activation: Activation
    carried: int = 0
    W_var: Tensor | None = None
    b_var: Tensor | None = None
    dropout: float = 0.0  # probability that an input is 0
    affine: str = "network"  # the names of the two modules
    active: str = "network"


def trace_tensor_layers(network: nn.Module, shapes: Shapes) -> list[TensorLayer]:
    """Read the layers of a module as tensors in double precision, differentiable by its parameters.

    The units of all layers are replaced by unit vectors: one run of the recorded operations gives every affine map.
    """
    own = dict(network.named_parameters())
    with leave_transforms(network) as plain:
        trace = _read(network, shapes, only_exact=False)
    return trace.tensor_layers({id(plain[name]): parameter.double() for name, parameter in own.items()})


@contextmanager
def leave_transforms(network: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Leave torch.func.grad, vjp and jacrev, whose tensors have no numbers; the module has the plain parameters meanwhile."""
    plain = {name: unwrap_tensor(parameter) for name, parameter in network.named_parameters()}
    if all(plain[name] is parameter for name, parameter in network.named_parameters()):
        plain_network: AbstractContextManager[object] = nullcontext()
    else:
        plain_network = _reparametrize_module(network, plain)
    with plain_network, temporarily_clear_interpreter_stack():
        yield plain


@dataclass
class _Trace:
    """A module that was run and read: its operations, and the stages that some of them end."""

    recorder: _Recorder
    reader: Reader
    inputs: list[Tensor]
    outputs: list[Tensor]
    values: dict[int, Value]
    ends: dict[int, tuple[tuple[Value, ...], AffineRows]]  # by operation: whose units a stage has, and what became of them

    def layers(self) -> list[Dense]:
        """Return the layers as arrays."""
        return self.reader.layers([self.values[id(tensor)] for tensor in self.outputs])

    def tensor_layers(self, known: dict[int, Tensor]) -> list[TensorLayer]:
        """Return the layers as tensors, from those that stand for the parameters, by the identity of these."""
        self.layers()  # raises where there are none
        sizes, stages = self.reader.tape.sizes[: 1 + len(self.ends)], self.reader.tape.stages
        starts = np.cumsum([1, *sizes])
        if starts[-1] > LARGEST:
            raise TooLargeError(f"network would bring {starts[-1]} numbers into one run for gradients; use closure='sobol'")
        device, count = self.inputs[0].device, int(starts[-1])

        def affine(rows: AffineRows) -> Tensor:
            """Return a tensor that is affine in the units of stages, of which each is a unit vector in one row."""
            given = torch.as_tensor(rows.values, device=device)
            result, start = given[0].repeat(count, *[1] * (given.ndim - 1)), 1
            for k in rows.blocks:
                result[starts[k] : starts[k + 1]] += given[start : start + sizes[k]]
                start += sizes[k]
            return result

        for tensor, value in zip(self.inputs, self.reader.inputs, strict=True):
            assert value.rows is not None
            known[id(tensor)] = affine(value.rows)
        places = {id(value): key for key, value in self.values.items()}
        found: list[Stage] = []

        def add_stage(z: Tensor) -> None:
            flat, place = z.reshape(len(z), -1), len(found)
            b, blocks = flat[0], stages[place].weights
            W = {k: (flat[starts[k] : starts[k + 1]] - b).mT for k in blocks}
            found.append(Stage(W, b, stages[place].activation))  # type: ignore[arg-type]  # tensors

        for step in self.recorder.setup:
            known.update(zip(map(id, step.outputs), step.call(known), strict=True))
        for number, step in enumerate(self.recorder.steps):
            made = step.call_rows(known)
            if number in self.ends:
                sources, rows = self.ends[number]
                given = [known[places[id(value)]] for value in sources] or made
                add_stage(torch.stack([given[0] + given[1], given[0] - given[1]], dim=-1) if len(sources) == 2 else given[0])
                made = [affine(rows)]
            known.update((id(out), one.reshape(len(one), *out.shape)) for out, one in zip(step.outputs, made, strict=True))
        constant = (known.get(id(out), out.double().expand(count, *out.shape)) for out in self.outputs)
        add_stage(torch.cat([out.reshape(count, -1) for out in constant], dim=1))
        with device:
            return stack_stages(found, sizes[0], torch, TensorLayer)


def _read(network: nn.Module, shapes: Shapes, only_exact: bool) -> _Trace:
    """Run a module and read its operations."""
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
    values, ends = dict(zip(map(id, inputs), reader.inputs, strict=True)), {}
    for number, step in enumerate(recorder.steps):
        operation, count = step.operation(), len(reader.tape.stages)
        made = reader.apply(operation, [values[id(step.leaves[place])] for place in step.places])
        if only_exact and not operation.is_pointwise:
            check_values(made)  # no need to read on
        if len(reader.tape.stages) > count:
            assert made[0].rows is not None
            ends[number] = reader.sources, made[0].rows
        values.update(zip(map(id, step.outputs), made, strict=True))
    for tensor in outputs:
        values.setdefault(id(tensor), Value(AffineRows(tensor.detach().cpu().double().numpy()[None], ())))
    return _Trace(recorder, reader, inputs, outputs, values, ends)


def _record(network: nn.Module, inputs: Sequence[Tensor], only_exact: bool) -> tuple[_Recorder, list[Tensor]]:
    """Run a network and record its operations."""
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # about flags that a build of torch lacks
        recorder = _Recorder(inputs, [*network.parameters()], stack.enter_context(ModuleTracker()), only_exact)
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

    def call_rows(self, known: Mapping[int, Tensor]) -> list[Tensor]:
        """Return the outputs for rows of the tensors that depend on the inputs, differentiable by the others."""
        rows = [known[id(self.leaves[place])] for place in self.places]
        return list(vmap(lambda *given: self._call(*given, known=known))(*rows))

    def call(self, known: Mapping[int, Tensor]) -> list[Tensor]:
        """Return the outputs of an operation on parameters alone, differentiable."""
        return self._call(known=known)

    def _call(self, *tensors: Tensor, known: Mapping[int, Tensor] = MappingProxyType({})) -> list[Tensor]:
        leaves = [known.get(id(leaf), _as_constant(leaf)) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
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

    def __init__(self, inputs: Sequence[Tensor], parameters: Sequence[Tensor], tracker: ModuleTracker, only_exact: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = {id(tensor): tensor for tensor in inputs}  # kept alive, so that ids stay unique
        self.depths = {id(tensor): (0, False) for tensor in inputs}  # nonlinear layers before, and whether another has begun
        self.tracker, self.only_exact = tracker, only_exact
        self.steps: list[_Step] = []
        self.setup: list[_Step] = []  # of parameters alone
        self.fixed = {id(tensor): tensor for tensor in parameters}

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        kwargs = kwargs or {}
        leaves, spec = pytree.tree_flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if id(leaf) in self.known]
        name = func._schema.name.partition("::")[2]
        if not places or name.startswith("new_") or name.endswith("_like"):  # these use shape and dtype alone
            out = func(*args, **kwargs)
            if any(id(leaf) in self.fixed for leaf in leaves):
                tensors = [part for part in pytree.tree_leaves(out) if isinstance(part, Tensor)]
                self.setup.append(_Step(name, func, leaves, spec, [], tensors, ""))
                self.fixed.update((id(part), part) for part in tensors)
            return out
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
