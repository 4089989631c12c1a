"""What a module does with its inputs, recorded as torch runs it: the operations that the inputs go through, in order.

Recorded is what the dispatcher is asked for, below modules, functions, hooks and scripts. So a residual sum, a loop over time, an
in-place activation or a parametrisation needs no reading of its own; a branch that depends on the numbers is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functionalize
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from pesn.activations import Activation
from pesn.networks.registry import registered

__all__ = ["OutputError", "Ref", "Step", "Trace", "activation_at", "leaves", "mapped", "tensors_of", "traced"]


@dataclass(frozen=True)
class Ref:
    """A tensor that depends on the inputs, by its number: those of the inputs come first."""

    number: int


@dataclass(frozen=True)
class Step:
    """One operation: what it was asked with, tensors that depend on the inputs as :class:`Ref`, and what it gave."""

    name: str
    packet: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[tuple[Ref, tuple[int, ...]] | None, ...]
    place: str

    @property
    def inputs(self) -> list[Ref]:
        """All that it takes."""
        return [leaf for leaf in leaves((self.args, tuple(self.kwargs.values()))) if isinstance(leaf, Ref)]


@dataclass(frozen=True)
class Trace:
    """The steps of one run, and the outputs: a :class:`Ref` each, or a tensor where it depends on nothing."""

    steps: list[Step]
    outputs: list[Ref | Tensor]


def leaves(tree: Any) -> Iterator[Any]:
    """All that is in tuples and lists."""
    if isinstance(tree, tuple | list):
        for branch in tree:
            yield from leaves(branch)
    else:
        yield tree


def mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    """The same tuples and lists, each leaf replaced."""
    if isinstance(tree, tuple | list):
        return type(tree)(mapped(branch, function) for branch in tree)
    return function(tree)


def tensors_of(output: Any) -> list[Tensor]:
    """The tensors that a network gives, in order: of a tensor, or of tuples, lists and dictionaries of them."""
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, dict):
        output = list(output.values())
    if not isinstance(output, tuple | list):
        return [] if output is None else [_no_tensor(output)]
    return [tensor for part in output for tensor in tensors_of(part)]


class OutputError(TypeError):
    """A network that gives something else than rows of numbers."""


def _no_tensor(output: object) -> Tensor:
    raise OutputError(f"network must give tensors, or tuples and dictionaries of them, got a {type(output).__name__}")


def traced(network: nn.Module, inputs: Sequence[Tensor], is_curved: Callable[[Step], bool] | None = None) -> Trace:
    """One run of a network, recorded; a TypeError where it depends on the numbers otherwise than by operations.

    It is also one, and the run ends there, after a few steps that ``is_curved`` tells: they are more than one activation.
    """
    mode = _Recorder(network, inputs, is_curved)
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(_step_by_step())
        stack.enter_context(mode.following())
        stack.enter_context(_replaced(network))
        stack.enter_context(mode)
        outputs = tensors_of(functionalize(network, remove="mutations")(*inputs))
    return Trace(mode.steps, [mode.known.get(id(tensor), tensor) for tensor in outputs])


@contextmanager
def _step_by_step() -> Iterator[None]:
    """Recurrent layers and attention as the operations that they are made of, not as one kernel."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            warnings.simplefilter("ignore")  # of a build without what the flag is for
            with torch.backends.mkldnn.flags(enabled=False):
                yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


_BY_SHAPE = frozenset(  # take nothing of a tensor but its shape and kind
    f"{new}{kind}{like}"
    for new, like in (("new_", ""), ("", "_like"))
    for kind in ("zeros", "ones", "empty", "full", "empty_strided")
) | {"zero"}
_FEW = 3  # operations that one activation may be written out in

# An activation that was registered, as an operation of its own, which the dispatcher sees.
_library: Any = torch.library.Library("pesn", "DEF")  # type: ignore[no-untyped-call]
_library.define("activation(Tensor x, int place) -> Tensor")
_activations: list[Activation] = []


def _activation(x: Tensor, place: int) -> Tensor:
    return torch.as_tensor(_activations[place](x.detach().cpu().double().numpy())).to(x.device, x.dtype)


_library.impl("activation", _activation, "CompositeExplicitAutograd")


def activation_at(place: int) -> Activation:
    """The record that an operation "activation" stands for."""
    return _activations[place]


@contextmanager
def _replaced(network: nn.Module) -> Iterator[None]:
    """With what was registered for modules of the network in their place."""
    makers = [(module, maker) for module in network.modules() if (maker := registered(module)) is not None]
    try:
        for module, maker in makers:
            made = maker(module)
            if isinstance(made, Activation):
                _activations.append(made)
                made = _by_place(len(_activations) - 1)
            if not callable(made):
                kind = type(module).__name__
                raise TypeError(
                    f"what is registered for {kind} must give a module, a function of tensors or an Activation, got {made!r}"
                )
            vars(module)["forward"] = made
        yield
    finally:
        for module, _ in makers:
            vars(module).pop("forward", None)


def _by_place(place: int) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.ops.pesn.activation(x, place)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or the compiler is imported for it, which takes a second

    def __init__(self, network: nn.Module, inputs: Sequence[Tensor], is_curved: Callable[[Step], bool] | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.is_curved, self.curved = is_curved, 0
        self.names = {id(module): name for name, module in network.named_modules()}
        self.known = {id(tensor): Ref(i) for i, tensor in enumerate(inputs)}
        self.kept: list[Any] = list(inputs)  # alive, so that their ids stay theirs
        self.steps: list[Step] = []
        self.stack: list[str] = []
        self.count = len(inputs)

    @contextmanager
    def following(self) -> Iterator[None]:
        """With the module that is run at the moment, for messages."""

        def enter(module: nn.Module, _: Any) -> None:
            self.stack.append(f"{self.names.get(id(module), '')} {type(module).__name__}".strip())

        def leave(_module: nn.Module, _args: Any, _output: Any) -> None:
            if self.stack:
                self.stack.pop()

        handles = register_module_forward_pre_hook(enter), register_module_forward_hook(leave)
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        name = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        place = self.stack[-1] if self.stack else "network"
        random = torch.Tag.nondeterministic_seeded in func.tags
        given = [leaf for leaf in leaves((args, tuple(kwargs.values()))) if isinstance(leaf, Tensor)]
        depends = any(id(tensor) in self.known for tensor in given)
        if random:
            raise TypeError(f"{place} is random itself ({name})")
        if not depends:
            return func(*args, **kwargs)
        if name in _BY_SHAPE:
            made = func(*args, **kwargs)
            self.known.pop(id(made), None)
            self.kept.append(made)
            return made
        if name in ("_local_scalar_dense", "equal", "is_nonzero", "nonzero", "masked_select", "unique"):
            raise TypeError(f"what {place} does depends on the numbers themselves ({name}); use closure='sobol'")

        def as_ref(leaf: Any) -> Any:
            if isinstance(leaf, Tensor):
                return self.known.get(id(leaf), leaf.detach().clone() if func._schema.is_mutable else leaf.detach())
            return leaf

        asked = mapped(tuple(args), as_ref), {key: mapped(value, as_ref) for key, value in kwargs.items()}
        out = func(*args, **kwargs)
        outputs: list[tuple[Ref, tuple[int, ...]] | None] = []
        for leaf in leaves(out):
            if not isinstance(leaf, Tensor):
                outputs.append(None)
                continue
            self.known[id(leaf)] = ref = Ref(self.count)
            self.count += 1
            self.kept.append(leaf)
            outputs.append((ref, tuple(leaf.shape)))
        packet = getattr(getattr(torch.ops, func.namespace), name, func.overloadpacket)
        self.steps.append(Step(name, packet, *asked, tuple(outputs), place))
        self.curved += self.is_curved is not None and self.is_curved(self.steps[-1])
        if self.curved > _FEW:
            raise TypeError("network has many operations that are not affine; its closed form is not exact")
        return out
