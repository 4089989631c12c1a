"""The operations of torch, each as what a graph is made of: affine maps, activations, products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pesn.adapters.torch.elementwise import ELEMENTWISE, OF_ONE
from pesn.adapters.torch.reductions import REDUCTIONS, normalised, weighted
from pesn.adapters.torch.steps import call, refusal
from pesn.adapters.torch.trace import Step, leaves
from pesn.adapters.torch.values import Builder, Value
from pesn.networks.operations import MatrixProduct

__all__ = ["REARRANGED", "applied"]

# Entries of one tensor, chosen, moved or repeated.
REARRANGED = frozenset(
    {
        "view",
        "_unsafe_view",
        "reshape",
        "flatten",
        "unflatten",
        "alias",
        "clone",
        "contiguous",
        "detach",
        "lift_fresh",
        "t",
        "transpose",
        "permute",
        "movedim",
        "squeeze",
        "unsqueeze",
        "expand",
        "select",
        "slice",
        "narrow",
        "split",
        "unsafe_split",
        "split_with_sizes",
        "unsafe_split_with_sizes",
        "unbind",
        "chunk",
        "unsafe_chunk",
        "tensor_split",
        "diagonal",
        "flip",
        "roll",
        "repeat",
        "tile",
        "repeat_interleave",
        "unfold",
        "as_strided",
        "index_select",
        "gather",
        "index",
        "view_copy",
        "pixel_shuffle",
        "pixel_unshuffle",
        "channel_shuffle",
        "swapaxes",
    }
)
# Affine in all tensors that they take.
_AFFINE = frozenset(
    {
        "add",
        "sub",
        "rsub",
        "neg",
        "cat",
        "stack",
        "sum",
        "mean",
        "cumsum",
        "slice_scatter",
        "select_scatter",
        "as_strided_scatter",
    }
)
# Affine in the first tensor, whatever stands beside it.
_AFFINE_IN_FIRST = frozenset(
    {
        "convolution",
        "_convolution",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "mkldnn_convolution",
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "adaptive_avg_pool1d",
        "_adaptive_avg_pool2d",
        "_adaptive_avg_pool3d",
        "constant_pad_nd",
        "reflection_pad1d",
        "reflection_pad2d",
        "reflection_pad3d",
        "replication_pad1d",
        "replication_pad2d",
        "replication_pad3d",
        "upsample_nearest1d",
        "upsample_nearest2d",
        "upsample_nearest3d",
        "upsample_linear1d",
        "upsample_bilinear2d",
        "upsample_bicubic2d",
        "upsample_trilinear3d",
        "_upsample_bilinear2d_aa",
        "im2col",
        "col2im",
        "tril",
        "triu",
        "trace",
        "diag",
        "diag_embed",
        "masked_fill",
    }
)
_BILINEAR = {  # the places of the two factors
    "mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "dot": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "addmv": (1, 2),
    "mul": (0, 1), "addcmul": (1, 2), "outer": (0, 1),
}  # fmt: skip
_PUT = {  # affine in all but so many arguments after the first, which say where
    "index_put": 1, "_index_put_impl": 1, "scatter": 2, "scatter_add": 2, "index_add": 2, "index_copy": 2, "masked_scatter": 1,
}  # fmt: skip
_NORMS = frozenset({"native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm", "miopen_batch_norm"})


def applied(builder: Builder, step: Step, args: list[Any]) -> Any:
    """What ``step`` gives for ``args``, in which values stand for what depends on the inputs; a list where it gives several."""
    name, values = step.name, [leaf for leaf in leaves(args) if isinstance(leaf, Value)]
    alone = len(values) == 1 and args[0] is values[0]
    if name in REARRANGED and alone:
        return _rearranged(builder, step, args)
    if name in _AFFINE or (name in _AFFINE_IN_FIRST and alone):
        return _signed(_scalar_or_affine(builder, step, args), step, args)
    if name == "copy":
        return _copied(builder, args)
    if name in _PUT and not any(isinstance(arg, Value) for arg in leaves(args[1 : 1 + _PUT[name]])):
        return builder.affine(call(step, args), *values)
    if name in _NORMS and alone:
        return _batch_norm(builder, step, args)
    if name == "where" and not isinstance(args[0], Value):
        return builder.affine(call(step, args), *values)
    if name == "lerp" and not isinstance(args[2], Value):
        return builder.affine(call(step, args), *values)
    if name == "div" and not isinstance(args[1], Value) and "rounding_mode" not in step.kwargs:
        return _signed(_scalar_or_affine(builder, step, args), step, args)
    if name == "_trilinear":
        return _trilinear(builder, step, args)
    if name in _BILINEAR:
        return _bilinear(builder, step, args)
    handler = ELEMENTWISE.get(name) or REDUCTIONS.get(name)
    if handler is None or (name in OF_ONE and not alone):
        raise refusal(step)
    return handler(builder, step, args)


def _rearranged(builder: Builder, step: Step, args: list[Any]) -> Any:
    if not any(part in step.name for part in ("unbind", "split", "chunk")):
        return builder.rearranged(call(step, args), args[0])
    return [builder.rearranged(call(step, args, place), args[0]) for place in range(len(step.outputs))]


def _scalar_or_affine(builder: Builder, step: Step, args: list[Any]) -> Value:
    """Affine; and where only plain numbers, or functions of the same numbers, come in, a function of each number."""
    values = [leaf for leaf in leaves(args) if isinstance(leaf, Value)]
    function = call(step, args)
    same = all(v.base is values[0].base and v.shape == values[0].shape for v in values)
    others = [leaf for leaf in leaves(args) if isinstance(leaf, Tensor) and leaf.numel() != 1]
    elementwise = step.name in ("add", "sub", "rsub", "neg", "mul", "div") and same and not others
    if not elementwise:
        return builder.affine(function, *values)
    scalars = [v.scalar for v in values]

    def scalar(z: Tensor) -> Tensor:
        return function(*(one(z) for one in scalars)).reshape(z.shape)

    if any(not v.straight for v in values) and len(values) > 1:
        return builder.composed(scalar, values[0].base)
    result = builder.affine(function, *values)
    if result.shape != values[0].shape:
        return result
    return result.as_function_of(values[0].base, scalar, all(v.straight for v in values))


def _copied(builder: Builder, args: list[Any]) -> Value:
    """What is copied, in the shape of what it is copied onto."""
    onto, source = args[:2]
    shape = onto.shape
    if isinstance(source, Value):
        return builder.affine(lambda t: t.expand(shape), source, shape=shape)
    return builder.affine(lambda t: source.expand(shape) + 0.0 * t, onto, shape=shape)


def _signed(made: Value, step: Step, args: list[Any]) -> Value:
    """With the knowledge that sums and multiples of what is positive are positive."""
    if step.name in ("add", "sum", "mean", "cumsum", "mul", "div", "avg_pool1d", "avg_pool2d") and "alpha" not in step.kwargs:
        parts = leaves(args[:2] if step.name in ("add", "mul", "div") else args[:1])
        made.positive = all(
            part.positive if isinstance(part, Value) else bool((torch.as_tensor(part) >= (step.name != "add") * 1e-30).all())
            for part in parts
        )
    return made


def _batch_norm(builder: Builder, step: Step, args: list[Any]) -> list[Value | None]:
    value, weight, bias, mean, var, eps = args[0], args[1], args[2], args[3], args[4], args[-1]
    if step.name != "_native_batch_norm_legit_no_training" and (args[5] or mean is None):
        # of one row alone, as rows were found not to depend on each other: InstanceNorm
        made = normalised(builder, value, [d for d in range(len(value.shape)) if d != 1], eps)
        wide = [-1] + [1] * (len(value.shape) - 2)
        return [weighted(builder, made, *(None if t is None else t.reshape(wide) for t in (weight, bias))), None, None]

    def function(x: Tensor) -> Tensor:
        return functional.batch_norm(x, mean, var, weight, bias, training=False, eps=eps)

    return [builder.affine(function, value, shape=value.shape), None, None]


def _trilinear(builder: Builder, step: Step, args: list[Any]) -> Value:
    """Of ``nn.Bilinear``: Σ a_i W_oij b_j."""
    a, weight, b = args[:3]
    values = [part for part in (a, weight, b) if isinstance(part, Value)]
    if isinstance(weight, Value) or tuple(a.shape)[:-1] != (1,) or [*args[3:6]] != [[1, 3], [0], [1, 2]]:
        raise refusal(step)
    if len(values) == 1:
        return builder.affine(call(step, args), *values)
    matrices = builder.affine(lambda t: torch.einsum("ni,oij->noj", t, weight), a)
    made = _matrix_product(builder, "bmm", matrices, builder.rearranged(lambda t: t.reshape(1, -1, 1), b))
    return builder.rearranged(lambda t: t.reshape(1, -1), made)


def _bilinear(builder: Builder, step: Step, args: list[Any]) -> Value:
    """A product: affine where one factor is certain; else by the moments of products."""
    first, second = (args[place] for place in _BILINEAR[step.name])
    if not (isinstance(first, Value) and isinstance(second, Value)):
        return _signed(_scalar_or_affine(builder, step, args), step, args)
    if step.name == "mul":
        return builder.product(first, second)
    if step.name not in ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "addcmul"):
        raise refusal(step, " of two tensors that both depend on the input")
    if step.name == "addcmul":
        made = builder.product(first, second)
    else:
        made = _matrix_product(builder, step.name.removeprefix("add").removeprefix("badd"), first, second)
    if step.name not in ("addmm", "baddbmm", "addcmul"):
        return made
    alpha, beta = step.kwargs.get("value", step.kwargs.get("alpha", 1)), step.kwargs.get("beta", 1)
    if isinstance(args[0], Value):
        return builder.affine(lambda c, m: beta * c + alpha * m, args[0], made)
    return builder.affine(lambda m: beta * args[0] + alpha * m, made)


def _matrix_product(builder: Builder, kind: str, a: Value, b: Value) -> Value:
    def sizes(value: Value, first: bool) -> tuple[int, int, int]:
        shape = value.shape
        if kind == "bmm":
            return shape[0], shape[1], shape[2]
        if len(shape) == 1:
            return (1, 1, shape[0]) if first else (1, shape[0], 1)
        return 1, shape[0], shape[1]

    (n, p, q), (_, _, r) = sizes(a, True), sizes(b, False)
    shape = (n, p, r) if kind == "bmm" else () if kind == "dot" else (p,) if kind == "mv" else (p, r)
    return builder.operation(MatrixProduct(n, p, q, r), "matrix product", shape, a, b)
