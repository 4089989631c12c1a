"""A torch module as layers, read from one run of it: the operations that its inputs go through, as torch's dispatcher sees them.

Below modules, functions, hooks and scripts there are few kinds of operations. Those that are affine act on the values of
:class:`~pesn.networks.layers.AffineRows` as they are, row by row. Those that act on each number by itself are activations. A
network of such operations is a sum of branches of layers; everything else is refused by its name and place.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from scipy import special
from torch import Tensor, nn
from torch.func import functionalize
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from pesn._support.types import Array
from pesn.activations import (
    Activation,
    custom,
    elu,
    get,
    hard_shrink,
    hard_tanh,
    leaky_relu,
    piecewise_linear,
    soft_shrink,
    softplus,
    threshold,
)
from pesn.networks.layers import SQUARE, AffineRows, Dense, Tape
from pesn.networks.program import Shapes, registered

# ---------------------------------------------------------------- activations as records


@lru_cache
def _leaky(slope: float) -> Activation:
    """Return z above 0, ``slope`` z below."""
    return get("relu") if slope == 0.0 else leaky_relu(slope)


@lru_cache
def _clip(low: float | None, high: float | None) -> Activation:
    """Return z between two ends, of which one may be missing."""
    if low is not None and high is not None:
        return hard_tanh(low, high)
    if low is None and high is None:
        return get("identity")
    at, slopes = (low, [0.0, 1.0]) if low is not None else (high, [1.0, 0.0])
    assert at is not None
    return piecewise_linear(f"clamp({low}, {high})", [at], slopes, at)


_elu = lru_cache(elu)
_C, _CUBIC = 2.0 * math.sqrt(2.0 / math.pi), 0.044715  # z σ(_C (z + _CUBIC z³)) = ½ z (1 + tanh(½ …))


def _gelu_tanh_slope(z: Array) -> Array:
    z = np.clip(z, -1e3, 1e3)  # far out f is a line, and z³ would overflow against a factor of 0
    y = _C * (z + _CUBIC * z**3)
    return special.expit(y) + z * special.expit(y) * special.expit(-y) * _C * (1.0 + 3.0 * _CUBIC * z * z)


@lru_cache
def _gelu(approximate: str) -> Activation:
    """Return GELU by its ``approximate``: "none" or "tanh"."""
    if approximate == "none":
        return get("gelu")
    return custom(
        lambda z: z * special.expit(_C * (z + _CUBIC * z * z * z)), derivative=_gelu_tanh_slope, left=0.0, right=(0.0, 1.0),
        name="gelu(tanh)",
    )  # fmt: skip


@lru_cache
def _softplus(beta: float, limit: float) -> Activation:
    """Return log(1 + exp(β z))/β, z itself where β z is beyond ``limit``."""
    if limit < 20.0:
        raise ValueError(f"Softplus is known with a threshold of 20 and more, where it changes nothing, got {limit:g}")
    return softplus(beta)


# By the class of a module.
ACTIVATIONS: dict[type[nn.Module], Callable[[Any], Activation]] = {
    nn.Tanh: lambda module: get("tanh"),
    nn.Sigmoid: lambda module: get("sigmoid"),
    nn.ReLU: lambda module: get("relu"),
    nn.LeakyReLU: lambda module: _leaky(float(module.negative_slope)),
    nn.ELU: lambda module: _elu(float(module.alpha)),
    nn.SELU: lambda module: _elu(1.6732632423543772, 1.0507009873554805),
    nn.CELU: lambda module: _elu(float(module.alpha), 1.0, 1.0 / float(module.alpha)),
    nn.GELU: lambda module: _gelu(module.approximate),
    nn.SiLU: lambda module: get("silu"),
    nn.Mish: lambda module: get("mish"),
    nn.Softplus: lambda module: _softplus(float(module.beta), float(module.threshold)),
    nn.LogSigmoid: lambda module: get("log_sigmoid"),
    nn.Softsign: lambda module: get("softsign"),
    nn.Hardsigmoid: lambda module: get("hard_sigmoid"),
    nn.Softshrink: lambda module: soft_shrink(float(module.lambd)),
    nn.RReLU: lambda module: _leaky(0.5 * (float(module.lower) + float(module.upper))),
    nn.ReLU6: lambda module: _clip(0.0, 6.0),
    nn.Hardtanh: lambda module: _clip(float(module.min_val), float(module.max_val)),
}


class OutputError(TypeError):
    """A network that gives something else than rows of numbers."""


def tensors_of(output: object) -> list[Tensor]:
    """List the tensors that a network gives, in order: a tensor, or those of tuples, lists and dictionaries."""
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, tuple | list):
        return [tensor for part in output for tensor in tensors_of(part)]
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
        Whether a module with more than one nonlinear operation is refused as soon as that is seen.

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
    tape = Tape(sum(one.numel() for one in inputs))
    recorder = _Recorder(network, inputs, only_exact)
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # of a build without what a flag is for
        stack.enter_context(recorder.follow_modules())
        stack.enter_context(_replace_registered(network))
        stack.enter_context(recorder)
        outputs = tensors_of(functionalize(network, remove="mutations")(*inputs))
    return _Reader(tape, recorder, inputs, only_exact).read(outputs)


# ---------------------------------------------------------------- the operations of one run


_Tree = TypeVar("_Tree")


@dataclass(frozen=True)
class _Ref:
    """A tensor that depends on the inputs, by its number: those of the inputs come first."""

    number: int


@dataclass(frozen=True)
class _Step:
    """One operation: its arguments, tensors that depend on the inputs as :class:`_Ref`, and what it gave, with its shape."""

    name: str
    packet: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[tuple[_Ref, tuple[int, ...]] | None, ...]
    place: str

    def refs(self) -> list[_Ref]:
        """List all that it depends on."""
        return [leaf for leaf in _leaves((self.args, tuple(self.kwargs.values()))) if isinstance(leaf, _Ref)]

    def refuse(self, why: str = "") -> TypeError:
        """Return the error that names the operation and its place, with the remedy."""
        return TypeError(f"{self.place}: no closed form is known for {self.name}{why}; use closure='sobol'")


def _leaves(tree: object) -> Iterator[object]:
    if isinstance(tree, tuple | list):
        for branch in tree:
            yield from _leaves(branch)
    else:
        yield tree


def _map_leaves(tree: _Tree, function: Callable[[object], Any]) -> _Tree:
    if isinstance(tree, tuple | list):
        return type(tree)(_map_leaves(branch, function) for branch in tree)
    return function(tree)


_SHAPE_ONLY = frozenset(  # take nothing of a tensor but its shape and dtype
    f"{new}{kind}{like}"
    for new, like in (("new_", ""), ("", "_like"))
    for kind in ("zeros", "ones", "empty", "full", "empty_strided")
) | {"zero"}
_DATA_DEPENDENT = frozenset({"_local_scalar_dense", "equal", "is_nonzero", "nonzero", "masked_select", "unique"})
_FEW = 3  # nonlinear operations that one activation may be written out in

# A registered activation, as an operation of its own, which the dispatcher sees.
_library: Any = torch.library.Library("pesn", "DEF")  # type: ignore[no-untyped-call]
_library.define("activation(Tensor x, int place) -> Tensor")
_registered_activations: list[Activation] = []


def _run_registered(x: Tensor, place: int) -> Tensor:
    return torch.as_tensor(_registered_activations[place](x.detach().cpu().double().numpy())).to(x.device, x.dtype)


_library.impl("activation", _run_registered, "CompositeExplicitAutograd")


@contextmanager
def _replace_registered(network: nn.Module) -> Iterator[None]:
    """Put what was registered for modules of the network in their place."""
    makers = [(module, maker) for module in network.modules() if (maker := registered(module)) is not None]
    try:
        for module, maker in makers:
            made = maker(module)
            if isinstance(made, Activation):
                _registered_activations.append(made)
                made = _registered_operation(len(_registered_activations) - 1)
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


def _registered_operation(place: int) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.ops.pesn.activation(x, place)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or the compiler is imported for it, which takes seconds

    def __init__(self, network: nn.Module, inputs: Sequence[Tensor], only_exact: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.only_exact, self.nonlinear = only_exact, 0
        self.names = {id(module): name for name, module in network.named_modules()}
        self.known = {id(tensor): _Ref(i) for i, tensor in enumerate(inputs)}
        self.kept: list[Any] = list(inputs)  # alive, so that their ids stay theirs
        self.steps: list[_Step] = []
        self.stack: list[str] = []
        self.count = len(inputs)

    @contextmanager
    def follow_modules(self) -> Iterator[None]:
        """Keep track of the module that is being run, for messages."""

        def enter(module: nn.Module, _: object) -> None:
            self.stack.append(f"{self.names.get(id(module), '')} {type(module).__name__}".strip())

        def leave(_module: nn.Module, _args: object, _output: object) -> None:
            if self.stack:
                self.stack.pop()

        handles = register_module_forward_pre_hook(enter), register_module_forward_hook(leave)
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        kwargs = kwargs or {}
        given = [leaf for leaf in _leaves((args, tuple(kwargs.values()))) if isinstance(leaf, Tensor)]
        if not any(id(tensor) in self.known for tensor in given):
            return func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        name = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        if name in _SHAPE_ONLY:
            out = func(*args, **kwargs)
            self.known.pop(id(out), None)
            self.kept.append(out)
            return out
        place = self.stack[-1] if self.stack else "network"
        if name in _DATA_DEPENDENT:
            raise TypeError(f"what {place} does depends on the numbers themselves ({name}); use closure='sobol'")

        def as_ref(leaf: object) -> object:
            if not isinstance(leaf, Tensor):
                return leaf
            return self.known.get(id(leaf), leaf.detach().clone() if func._schema.is_mutable else leaf.detach())

        asked = _map_leaves(tuple(args), as_ref), {key: _map_leaves(value, as_ref) for key, value in kwargs.items()}
        out = func(*args, **kwargs)
        packet = getattr(getattr(torch.ops, func.namespace), name, func.overloadpacket)
        self.steps.append(_Step(name, packet, *asked, self._number(out), place))
        self.nonlinear += name in _ACTIVATIONS
        if self.only_exact and self.nonlinear > _FEW:
            raise TypeError("network has more than one nonlinear layer; its closed form is not exact")
        return out

    def _number(self, out: object) -> tuple[tuple[_Ref, tuple[int, ...]] | None, ...]:
        """Give the tensors of an output their numbers."""
        outputs: list[tuple[_Ref, tuple[int, ...]] | None] = []
        for leaf in _leaves(out):
            if not isinstance(leaf, Tensor):
                outputs.append(None)
                continue
            self.known[id(leaf)] = ref = _Ref(self.count)
            self.count += 1
            self.kept.append(leaf)
            outputs.append((ref, tuple(leaf.shape)))
        return tuple(outputs)


# ---------------------------------------------------------------- which operations are affine, and which are activations

# Entries of one tensor, chosen, moved or repeated; and affine maps of the first argument, whatever the others are.
_AFFINE_IN_FIRST = frozenset(
    """
    view _unsafe_view reshape flatten unflatten t transpose permute movedim squeeze unsqueeze expand select slice narrow split
    unsafe_split split_with_sizes unsafe_split_with_sizes unbind chunk unsafe_chunk tensor_split diagonal flip roll repeat tile
    repeat_interleave unfold as_strided index_select gather index view_copy pixel_shuffle pixel_unshuffle channel_shuffle swapaxes
    convolution _convolution conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d mkldnn_convolution
    avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool3d constant_pad_nd
    reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_bicubic2d
    upsample_trilinear3d _upsample_bilinear2d_aa im2col col2im tril triu trace diag diag_embed masked_fill _to_copy
    """.split()  # noqa: SIM905
)
_COPIES = frozenset({"alias", "clone", "contiguous", "detach", "lift_fresh"})
# In all tensors that they take.
_AFFINE = frozenset({"add", "sub", "rsub", "neg", "cat", "stack", "sum", "mean", "cumsum"})
_AFFINE |= {"slice_scatter", "select_scatter", "as_strided_scatter", "copy"}
_BILINEAR = {  # the places of the two factors, of which one may depend on the input
    "mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "dot": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "addmv": (1, 2),
    "mul": (0, 1), "addcmul": (1, 2), "outer": (0, 1),
}  # fmt: skip
_CERTAIN = {  # affine in all but these arguments
    "index_put": (1,), "_index_put_impl": (1,), "scatter": (1, 2), "scatter_add": (1, 2), "index_add": (1, 2),
    "index_copy": (1, 2), "masked_scatter": (1,), "where": (0,), "lerp": (2,), "div": (1,),
}  # fmt: skip
_BATCH_NORMS = frozenset({"native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm", "miopen_batch_norm"})


def _clamp(low: float | None = None, high: float | None = None, **named: float | None) -> Activation:
    ends = [named.get("min", low), named.get("max", high)]
    return _clip(*(None if end is None or end in (float("inf"), -float("inf")) else float(end) for end in ends))


# By the arguments after the first: a record of :mod:`pesn.activations`, or None, by quadrature.
_ACTIVATIONS: dict[str, Callable[..., Activation | None]] = {
    **{name: lambda name=name: get(name) for name in ("tanh", "sigmoid", "relu", "silu", "mish", "abs", "erf")},
    "sin": lambda: get("sine"),
    "hardsigmoid": lambda: get("hard_sigmoid"),
    "hardswish": lambda: get("hard_swish"),
    "log_sigmoid_forward": lambda: get("log_sigmoid"),
    "leaky_relu": lambda slope=0.01: _leaky(float(slope)),
    "gelu": lambda approximate="none": _gelu(approximate),
    "softplus": lambda beta=1, limit=20: _softplus(float(beta), float(limit)),
    "hardtanh": lambda low=-1.0, high=1.0: _clip(float(low), float(high)),
    "clamp": _clamp,
    "clamp_min": lambda low: _clamp(low, None),
    "clamp_max": lambda high: _clamp(None, high),
    "elu": lambda alpha=1.0, scale=1.0, rate=1.0: _elu(float(alpha), float(scale), float(rate)),
    "softshrink": lambda width=0.5: soft_shrink(float(width)),
    "hardshrink": lambda width=0.5: hard_shrink(float(width)),
    "threshold": lambda at, value: threshold(float(at), float(value)),
    "rrelu": lambda low=0.125, high=1 / 3, *rest: _leaky(0.5 * (float(low) + float(high))),
    "rrelu_with_noise": lambda noise, low=0.125, high=1 / 3, *rest: _leaky(0.5 * (float(low) + float(high))),
    "_prelu_kernel": lambda slope: _leaky(float(slope)),
    "activation": lambda place: _registered_activations[place],
    "square": lambda: SQUARE,
    "pow": lambda exponent: SQUARE if float(exponent) == 2.0 else None,
    **dict.fromkeys(
        ("exp", "cos", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "atan", "sinh", "cosh", "expm1", "exp2", "erfc", "asinh"),
        lambda: None,
    ),
}
_ELEMENTWISE = frozenset({"add", "sub", "rsub", "neg", "mul", "div", "addcmul"})  # of numbers at the same place


# ---------------------------------------------------------------- the operations as stages


class _Value:
    """What a traced tensor holds.

    Parameters
    ----------
    rows : AffineRows or None
        Its numbers, affine in the units so far; None where they are a function of ``base`` that is not yet a stage.
    base : _Value, default=None
        The tensor that it is one function of each number of; itself where None.
    function : callable, default=None
        That function.
    source : tuple of _Value and Activation, default=None
        The same as a known activation of an affine tensor.
    step : _Step, default=None
        The operation that made it, for messages.
    """

    def __init__(
        self,
        rows: AffineRows | None,
        base: _Value | None = None,
        function: Callable[[Tensor], Tensor] | None = None,
        source: tuple[_Value, Activation] | None = None,
        step: _Step | None = None,
    ) -> None:
        self.rows, self.source, self.step = rows, source, step
        self.base: _Value = self if base is None else base
        self.function = function or (lambda z: z)
        self.is_affine = rows is not None


class _Call(NamedTuple):
    """An operation with the values that its arguments have by now, and these values alone."""

    step: _Step
    args: list[Any]
    values: list[_Value]

    @property
    def is_activation(self) -> bool:
        """Whether it is a known function of its first argument alone."""
        return self.step.name in _ACTIVATIONS and len(self.values) == 1 and self.args[0] is self.values[0]

    @property
    def is_square(self) -> bool:
        """Whether it is a tensor times itself."""
        return self.step.name == "mul" and len(self.values) == 2 and self.values[0] is self.values[1]


class _Reader:
    """Apply the recorded operations to affine tensors."""

    def __init__(self, tape: Tape, recorder: _Recorder, inputs: Sequence[Tensor], only_exact: bool) -> None:
        self.tape, self.recorder, self.only_exact = tape, recorder, only_exact
        whole, start = tape.input().values, 0
        self.known: dict[_Ref, _Value] = {}
        for i, one in enumerate(inputs):
            part = whole[:, start : start + one.numel()].reshape(len(whole), *one.shape)
            self.known[_Ref(i)] = _Value(AffineRows(part, (0,)))
            start += one.numel()

    def read(self, outputs: Sequence[Tensor]) -> list[Dense]:
        """Return the layers that give these tensors."""
        refs = [self.recorder.known.get(id(tensor)) for tensor in outputs]
        if not any(ref is not None for ref in refs):
            raise TypeError(
                "network cannot be followed from its inputs to its outputs: it leaves torch, or gives the same for every input; "
                "use closure='sobol'"
            )
        for step in self._needed_steps([ref for ref in refs if ref is not None]):
            self._apply(step)
        found = []
        for ref, tensor in zip(refs, outputs, strict=True):
            certain = AffineRows(tensor.detach().cpu().double().numpy()[None], ())
            found.append(certain if ref is None else self._settle(self._value(ref)))
        return self.tape.layers(found)

    def _needed_steps(self, outputs: Sequence[_Ref]) -> list[_Step]:
        needed, steps = set(outputs), []
        for step in reversed(self.recorder.steps):
            if any(out is not None and out[0] in needed for out in step.outputs):
                needed.update(step.refs())
                steps.append(step)
        return steps[::-1]

    def _value(self, ref: _Ref) -> _Value:
        if ref in self.known:
            return self.known[ref]
        step = next(step for step in self.recorder.steps if any(out is not None and out[0] == ref for out in step.outputs))
        raise step.refuse(" with all that it gives")

    def _apply(self, step: _Step) -> None:
        args = [_map_leaves(arg, self._argument) for arg in step.args]
        call = _Call(step, args, [leaf for leaf in _leaves(args) if isinstance(leaf, _Value)])
        made = call.values if step.name in _COPIES else self._apply_elementwise(call)
        if made is None:
            made = self._apply_prelu(*args) if step.name == "_prelu_kernel" else self._apply_affine(call)
        for out, value in zip(step.outputs, made, strict=False):
            if out is not None:
                self.known[out[0]] = value

    def _argument(self, leaf: object) -> object:
        if isinstance(leaf, _Ref):
            return self._value(leaf)
        if isinstance(leaf, Tensor):
            return leaf.cpu().double() if leaf.is_floating_point() else leaf.cpu()
        return leaf

    # ------------------------------------------------------------ activations

    def _apply_elementwise(self, call: _Call) -> list[_Value] | None:
        """Return one function of each number of one tensor; None where the operation is none."""
        step, _, values = call
        is_activation = call.is_activation
        if not (is_activation or step.name in _ELEMENTWISE) or not _is_function_of_one(call):
            return None
        base, run = values[0].base, _as_function(call)

        def function(z: Tensor) -> Tensor:
            out: Any = run(*(value.function(z) for value in values))
            return (out if isinstance(out, Tensor) else out[0]).reshape(z.shape)

        all_affine = all(value.is_affine for value in values)
        if not is_activation and all_affine and self._is_affine(call):
            return [_Value(made.rows, base, function) for made in self._apply_affine(call)]
        self._check_quotient(call)
        record = self._record(call) if is_activation else SQUARE if call.is_square else None
        return [_Value(None, base, function, (values[0], record) if record is not None and all_affine else None, step)]

    @staticmethod
    def _record(call: _Call) -> Activation | None:
        step = call.step
        try:
            return _ACTIVATIONS[step.name](*call.args[1:], **step.kwargs)
        except ValueError as error:
            raise ValueError(f"{step.place}: {error}") from error
        except RuntimeError as error:  # of one number for each of many
            raise step.refuse(" with these arguments") from error

    @staticmethod
    def _check_quotient(call: _Call) -> None:
        """Refuse a quotient whose denominator may be 0."""
        step, args, _ = call
        denominator = args[1] if step.name == "div" else args[0]
        if step.name in ("div", "reciprocal") and isinstance(denominator, _Value):
            below = denominator.function(torch.linspace(-50.0, 50.0, 10_001, dtype=torch.float64))
            if not (bool((below > 1e-6).all()) or bool((below < -1e-6).all())):
                raise step.refuse(" by numbers that depend on the input and may be 0")

    def _apply_prelu(self, value: _Value, slope: Tensor) -> list[_Value]:
        """Apply a slope for each channel: relu(z) + slope · (z − relu(z))."""
        z = self._settle(value)
        (a, b), blocks = self.tape.align([z, self._add_stage(z, get("relu"))])
        return [_Value(AffineRows(b + slope.numpy() * (a - b), blocks))]

    def _settle(self, value: _Value) -> AffineRows:
        """Return the numbers of a value, which become units of a new stage where they are not affine."""
        if value.rows is None:
            if value.source is not None:
                value.rows = self._add_stage(self._settle(value.source[0]), value.source[1])
            else:
                value.rows = self._add_stage(self._settle(value.base), _by_quadrature(value.function, value.step))
        return value.rows

    def _add_stage(self, rows: AffineRows, activation: Activation) -> AffineRows:
        made = self.tape.add_stage(rows, activation)
        if self.only_exact and sum(stage.activation is not None for stage in self.tape.stages) > 1:
            raise TypeError("network has more than one nonlinear layer; its closed form is not exact")
        return made

    # ------------------------------------------------------------ affine operations

    @staticmethod
    def _is_affine(call: _Call) -> bool:
        """Return whether an operation is affine in the values among its arguments."""
        step, args, _ = call
        name = step.name
        uncertain = {i for i, arg in enumerate(args) if any(isinstance(leaf, _Value) for leaf in _leaves(arg))}
        if name in _BILINEAR:
            return len(uncertain & set(_BILINEAR[name])) < 2
        if name in _CERTAIN:
            return not uncertain & set(_CERTAIN[name]) and "rounding_mode" not in step.kwargs
        if name in _BATCH_NORMS:  # with the statistics of training
            legit = name == "_native_batch_norm_legit_no_training"
            return uncertain == {0} and (legit or (not args[5] and args[3] is not None))
        return name in _AFFINE or (name in _AFFINE_IN_FIRST and uncertain == {0})

    def _apply_affine(self, call: _Call) -> list[_Value]:
        step, values = call.step, call.values
        if not self._is_affine(call):
            made = self.tape.multiply(*map(self._settle, values)) if step.name == "mul" else None
            if made is None:
                raise step.refuse(" of two tensors that depend on the input" if step.name in _BILINEAR else "")
            return [_Value(made)]
        if step.name == "_to_copy" and not step.kwargs.get("dtype", torch.float64).is_floating_point:
            raise step.refuse(f" to {step.kwargs['dtype']}")
        rows = [self._settle(value) for value in values]
        self.tape.check_map(rows, sum(np.prod(out[1], dtype=int) for out in step.outputs if out is not None))
        arrays, blocks = self.tape.align(rows)
        run = _as_function(call)
        with torch.no_grad():
            out = torch.func.vmap(run)(*map(torch.from_numpy, arrays))
        results = [part.contiguous().numpy() for part in (out if isinstance(out, tuple | list) else [out])]
        several = len(results) == 1 and len(rows) > 1
        return [_Value(self.tape.add_sum(one, blocks, rows) if several else AffineRows(one, blocks)) for one in results]


def _is_function_of_one(call: _Call) -> bool:
    """Return whether all values are functions of one tensor, and what stands beside them are plain numbers."""
    step, args, values = call
    plain = all(leaf.numel() == 1 for leaf in _leaves(args) if isinstance(leaf, Tensor)) or step.name == "rrelu_with_noise"
    return plain and "rounding_mode" not in step.kwargs and all(value.base is values[0].base for value in values)


def _as_function(call: _Call) -> Callable[..., Any]:
    """Return the operation as a function of the values among its arguments."""
    step, args, _ = call
    kwargs = {key: value for key, value in step.kwargs.items() if key not in ("dtype", "device", "layout", "pin_memory")}
    if step.name == "slice_scatter" and len(args) > 4 and args[4] is not None:
        size = next(out[1] for out in step.outputs if out is not None)[args[2]]
        args = [*args[:4], min(args[4], size), *args[5:]]  # "to the end" is 2⁶³ − 1, which overflows in batches

    def function(*tensors: Tensor) -> Any:
        given = iter(tensors)
        full = _map_leaves(args, lambda leaf: next(given) if isinstance(leaf, _Value) else leaf)
        if step.name == "_to_copy":
            return full[0].clone()
        if step.name in _BATCH_NORMS:
            x, weight, bias, mean, var = full[:5]
            return functional.batch_norm(x, mean, var, weight, bias, training=False, eps=full[-1])
        if step.name == "copy":
            return torch.as_tensor(full[1]).expand(step.outputs[0][1]).clone()  # type: ignore[index]
        return step.packet(*full, **kwargs)

    return function


def _by_quadrature(function: Callable[[Tensor], Tensor], step: _Step | None) -> Activation:
    """Return the record of a function on tensors, with its slope by autograd where it has one everywhere."""
    if not bool(torch.isfinite(function(torch.linspace(-20.0, 20.0, 4001, dtype=torch.float64))).all()):
        assert step is not None
        raise step.refuse(" of numbers for which it is not finite")

    def value(z: Array) -> Array:
        with torch.no_grad():
            return function(torch.tensor(z, dtype=torch.float64)).numpy()

    def slope(z: Array) -> Array:
        with torch.enable_grad():
            at = torch.tensor(z, dtype=torch.float64, requires_grad=True)
            (gradient,) = torch.autograd.grad(function(at).sum(), at)
        return gradient.numpy()

    try:
        return custom(value, derivative=slope, left=None, right=None, name="function")
    except ValueError:  # a kink
        return custom(value, left=None, right=None, name="function")
