"""Networks as a list of layers: dense ones, and dense ones that carry the inputs of a later sum.

A residual sum x + g(x) is a chain, if each layer of g carries x beside its own units. So closures know nothing but a list of
layers, and the covariance between branch and skip connection is that of two parts of one layer.

>>> import numpy as np
>>> tape = Tape(2)                                                     # x + tanh(x), as an adapter reads it
>>> x = tape.input()
>>> h = tape.add_stage(x, get("tanh"))
>>> (a, b), blocks = tape.align([x, h])
>>> layers = tape.layers([AffineRows(a + b, blocks)])
>>> layers
[SkipDense(2 -> 2 + 2 carried, 'tanh'), Dense(4 -> 2, 'identity')]
>>> forward(layers, np.array([[0.5, -1.0]])).round(3)
array([[ 0.962, -1.762]])
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, check_not_negative, generator
from pesn._support.arguments import number as check_number
from pesn._support.types import AnyArray, Array, FloatArray, Rng
from pesn.activations import Activation, custom, get
from pesn.gaussian import Gaussian

Shape: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = tuple[Shape, ...]  # of one row, one for each input

LARGEST = 8192  # largest number of inputs and outputs of a layer: a covariance matrix of them has 512 MB
_LARGEST_MAP = 2**26  # entries of the matrix of an affine map: 512 MB

# A parabola has no length scale.
SQUARE = custom(np.square, derivative=lambda z: 2.0 * z, left=None, right=None, scale=1e12, name="square")


class TooLargeError(ValueError):
    """A network with more numbers in a layer than a covariance is kept of."""


@dataclass(frozen=True, eq=False)
class Dense:
    """One layer, f(W x + b): W of shape (outputs, inputs), b (outputs,), f elementwise.

    Parameters
    ----------
    W : array-like of shape (outputs, inputs)
        Weights.
    b : array-like of shape (outputs,), default=None
        Bias; None is 0.
    activation : str or Activation, default="identity"
        f, elementwise: a name (``pesn.activations.names()``) or a :class:`pesn.Activation`.
    W_var : float or array-like of shape (outputs, inputs), default=None
        Variances of the weights, which are Gaussian and independent, as in a Bayesian network; None is 0.
    b_var : float or array-like of shape (outputs,), default=None
        Variances of the bias; None is 0.

    Examples
    --------
    >>> Dense([[1.0, 2.0]], [0.5], "relu")
    Dense(2 -> 1, 'relu')
    >>> Dense([[1.0, 2.0]], W_var=0.01)
    Dense(2 -> 1, 'identity', uncertain weights)
    """

    W: FloatArray
    b: FloatArray
    activation: Activation
    W_var: FloatArray | None = None
    b_var: FloatArray | None = None
    dropout: ClassVar[float] = 0.0  # probability that an input is 0; set on a copy by fold_dropout

    def __init__(
        self,
        W: npt.ArrayLike,
        b: npt.ArrayLike | None = None,
        activation: str | Activation = "identity",
        *,
        W_var: npt.ArrayLike | None = None,
        b_var: npt.ArrayLike | None = None,
    ) -> None:
        weights = as_real("W", W)
        if weights.ndim != 2 or 0 in weights.shape:
            raise ValueError(f"W must have shape (outputs, inputs), got {weights.shape}")
        bias = as_real("b", np.zeros(len(weights), weights.dtype) if b is None else b)
        if bias.shape != weights.shape[:1]:
            raise ValueError(f"b must have shape {weights.shape[:1]}, one entry for each row of W, got {bias.shape}")
        variances = {"W_var": _as_variances("W_var", W_var, weights), "b_var": _as_variances("b_var", b_var, bias)}
        _set(self, W=_read_only_copy(weights), b=_read_only_copy(bias), activation=get(activation), **variances)

    @property
    def units(self) -> int:
        """Number of outputs that the activation acts on, the first ones."""
        return len(self.b)

    @property
    def is_random(self) -> bool:
        """Whether it has uncertain weights or dropout."""
        return self.W_var is not None or self.b_var is not None or self.dropout > 0.0

    def __repr__(self) -> str:
        known = "" if self.W_var is None and self.b_var is None else ", uncertain weights"
        known += f", dropout {self.dropout:g}" if self.dropout else ""
        return f"Dense({self.W.shape[1]} -> {self.W.shape[0]}, {self.activation.name!r}{known})"


@dataclass(frozen=True)
class Dropout:
    """Dropout that stays on at prediction (Monte Carlo dropout): inputs are 0 with probability p, the others divided by 1 − p.

    Parameters
    ----------
    p : float
        Probability that a number is 0, in [0, 1), independent of all others.

    Examples
    --------
    >>> [Dropout(0.1), Dense([[1.0, 2.0]])]
    [Dropout(p=0.1), Dense(2 -> 1, 'identity')]
    """

    p: float

    def __post_init__(self) -> None:
        check_number("p", self.p, 0.0, 1.0, "[)")


class SkipDense(Dense):
    """A layer whose last ``carried`` outputs have no activation: numbers that skip the layer on their way to a later sum.

    Parameters
    ----------
    W : array-like of shape (outputs, inputs)
        Weights of the units, and below them those of the carried numbers.
    b : array-like of shape (outputs,)
        Bias.
    activation : str or Activation
        Of the units.
    carried : int
        Number of outputs without activation, the last ones.
    """

    carried: int

    def __init__(self, W: npt.ArrayLike, b: npt.ArrayLike, activation: str | Activation, carried: int) -> None:
        super().__init__(W, b, activation)
        _set(self, carried=carried)

    @property
    def units(self) -> int:  # noqa: D102
        return len(self.b) - self.carried

    def __repr__(self) -> str:
        return f"SkipDense({self.W.shape[1]} -> {self.units} + {self.carried} carried, {self.activation.name!r})"


def weight_noise(layer: Dense, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Compute the variances (..., outputs) that uncertain weights add, of inputs with these means and variances (..., inputs)."""
    total = np.zeros((*mean.shape[:-1], len(layer.b)), np.result_type(mean, layer.W))
    if layer.W_var is not None:
        std = np.sqrt(var)
        size = np.maximum(np.abs(mean), std).max(axis=-1, keepdims=True)  # squares may overflow
        unit = np.where(size > 0.0, size, 1.0).astype(mean.dtype)
        total += (np.square(mean / unit) + np.square(std / unit)) @ layer.W_var.T * unit * unit
    return total if layer.b_var is None else total + layer.b_var


def cast_layer(layer: Dense, dtype: npt.DTypeLike) -> Dense:
    """Return a layer with numbers of another precision."""
    arrays = {name: getattr(layer, name) for name in ("W", "b", "W_var", "b_var")}
    return _set(copy.copy(layer), **{name: part.astype(dtype) for name, part in arrays.items() if part is not None})


def _set(layer: Dense, **values: object) -> Dense:
    for name, value in values.items():
        object.__setattr__(layer, name, value)
    return layer


def _as_variances(name: str, value: npt.ArrayLike | None, like: FloatArray) -> FloatArray | None:
    """Return variances in the shape and precision of the numbers that have them; None where all are 0."""
    if value is None:
        return None
    var = as_real(name, value)
    check_not_negative(name, var)
    if var.ndim and var.shape != like.shape:
        raise ValueError(f"{name} must be a number or have shape {like.shape}, as {name[0]} has, got {var.shape}")
    return _read_only_copy(np.broadcast_to(var, like.shape).astype(like.dtype)) if var.any() else None


def fold_dropout(layers: Sequence[Dense | Dropout]) -> list[Dense]:
    """Return a chain in which each dropout is a part of the layer behind it; behind the last one is an identity."""
    folded: list[Dense] = []
    keep = 1.0
    for layer in layers:
        if isinstance(layer, Dropout):
            keep *= 1.0 - layer.p
        else:
            folded.append(_set(copy.copy(layer), dropout=1.0 - keep) if keep < 1.0 else layer)
            keep = 1.0
    if keep < 1.0:
        if not folded:
            raise ValueError("network must have a pesn.Dense beside pesn.networks.Dropout, got dropout alone")
        folded.append(_set(Dense(np.eye(len(folded[-1].b), dtype=folded[-1].b.dtype)), dropout=1.0 - keep))
    return folded


def _read_only_copy(array: FloatArray) -> FloatArray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def is_linear(layer: Dense) -> bool:
    """Return whether a layer has no activation."""
    return layer.activation.slopes == (1.0,)


def forward(layers: Sequence[Dense], rows: FloatArray, rng: Rng = None) -> FloatArray:
    """Compute the outputs (n, m) of certain inputs (n, d); uncertain weights and dropout are drawn for each row."""
    rng = generator(rng) if any(layer.is_random for layer in layers) else None
    for layer in layers:
        std = None
        if rng is not None and layer.is_random:
            if layer.dropout:
                rows = rows * (rng.random(rows.shape) >= layer.dropout) / (1.0 - layer.dropout)
            # given the inputs, independent weights make independent Gaussian sums
            std = np.sqrt(weight_noise(layer, rows, np.zeros_like(rows)))
        rows = rows @ layer.W.T
        rows = np.add(rows, layer.b, out=rows if rows.dtype >= layer.b.dtype else None)
        if rng is not None and std is not None:
            rows = rows + std * rng.standard_normal(rows.shape, np.float64).astype(rows.dtype)
        if not is_linear(layer):
            active = layer.activation(rows[:, : layer.units])
            rows = active if layer.units == len(layer.b) else np.hstack([active, rows[:, layer.units :]])
    return rows


def check_sizes(layers: Sequence[Dense], x: Gaussian) -> None:
    """Check that each layer takes what the one before gives."""
    size = x.dim
    for place, layer in enumerate(layers):
        if layer.W.shape[1] != size:
            got = f"the input has {size}" if place == 0 else f"layer {place - 1} gives {size}"
            raise ValueError(f"layer {place}, {layer!r}, takes {layer.W.shape[1]} numbers, but {got}")
        size = len(layer.W)


# ---------------------------------------------------------------- from sums of branches to layers


@dataclass(frozen=True, eq=False)
class Stage:
    """Units f(Σ_k W_k u_k + b), of the units u_k of earlier stages.

    Parameters
    ----------
    weights : mapping of int to array of shape (units, units of stage k)
        W_k, by the number k of the stage; 0 is the network's input, 1 the first stage.
    b : array of shape (units,)
        Bias.
    activation : Activation, default=None
        f; None is linear.
    """

    weights: Mapping[int, AnyArray]
    b: AnyArray
    activation: Activation | None = None


def make_layer(W: npt.ArrayLike, b: npt.ArrayLike, activation: Activation, carried: int) -> Dense:
    """Return a layer that carries its last ``carried`` outputs."""
    return SkipDense(W, b, activation, carried) if carried else Dense(W, b, activation)


def stack_stages(stages: Sequence[Stage], inputs: int, library: Any = np, make: Callable[..., Any] = make_layer) -> list[Any]:
    """Write stages, of which the last is the output, as layers that carry what later stages need.

    Parameters
    ----------
    stages : sequence of Stage
        In order: each of earlier ones.
    inputs : int
        Size of the input.
    library : module, default=numpy
        Whose arrays the weights are; torch for tensors.
    make : callable, default=make_layer
        From weights, bias, activation and number of carried outputs to a layer.

    Returns
    -------
    list of Dense, or of what ``make`` returns
        A chain of plain layers where each stage needs the one before alone. Stages that nothing needs are left out, linear
        ones that one stage needs are multiplied into it, units of one kind and depth are one layer.
    """
    kept = _merge_parallel(_fold_linear(stages), inputs, library)
    sizes = {0: inputs, **{number: len(stage.b) for number, stage in kept.items()}}
    last_use = {k: number for number, stage in kept.items() for k in stage.weights}
    layers: list[Any] = []
    state = [0]  # stages whose units are the outputs of the last layer, in order
    for number, stage in kept.items():
        carried = [k for k in state if last_use.get(k, 0) > number]
        layers.append(make(*_join_blocks(stage, state, carried, sizes, library)))
        state = [number, *carried]
    if len(layers) > 1 and library is np and _is_copy(layers[-1]):
        layers.pop()
    return layers


def _fold_linear(stages: Sequence[Stage]) -> dict[int, Stage]:
    """Return the stages that the last one needs, by number, without linear ones that are needed once."""
    uses: Counter[int] = Counter()
    for number in range(len(stages), 0, -1):
        if number == len(stages) or uses[number]:
            uses.update(list(stages[number - 1].weights))
    kept: dict[int, Stage] = {}
    for number, stage in enumerate(stages, 1):
        if number != len(stages) and not uses[number]:
            continue
        weights, b = dict(stage.weights), stage.b
        for k in [k for k in weights if k in kept and kept[k].activation is None and uses[k] == 1]:
            W, inner = weights.pop(k), kept.pop(k)
            b = b + W @ inner.b
            for j, V in inner.weights.items():
                uses[j] -= j in weights
                weights[j] = weights[j] + W @ V if j in weights else W @ V
        kept[number] = Stage(weights, b, stage.activation)
    return kept


def _merge_parallel(stages: Mapping[int, Stage], inputs: int, library: Any) -> dict[int, Stage]:
    """Return stages of which no two have the same activation and depth, numbered anew."""
    depth, groups = {0: 0}, dict[tuple[int, object], list[int]]()
    for number, stage in stages.items():
        depth[number] = 1 + max((depth[k] for k in stage.weights), default=0)
        groups.setdefault((depth[number], stage.activation or number), []).append(number)
    places, sizes, merged = {0: (0, slice(0, inputs))}, {0: inputs}, dict[int, Stage]()
    for new, key in enumerate(sorted(groups, key=lambda key: (key[0], groups[key][0])), 1):
        parts = [stages[number] for number in groups[key]]
        ends = np.cumsum([0, *(len(part.b) for part in parts)])
        sizes[new] = int(ends[-1])
        weights: dict[int, AnyArray] = {}
        for number, part, start, end in zip(groups[key], parts, ends[:-1], ends[1:], strict=True):
            places[number] = new, slice(start, end)
            for k, W in part.weights.items():
                source, columns = places[k]
                whole = weights.setdefault(source, library.zeros((sizes[new], sizes[source]), dtype=W.dtype))
                whole[start:end, columns] = W
        merged[new] = Stage(weights, library.concatenate([part.b for part in parts]), parts[0].activation)
    return merged


def _join_blocks(
    stage: Stage, state: Sequence[int], carried: Sequence[int], sizes: Mapping[int, int], library: Any
) -> tuple[Any, Any, Activation, int]:
    """Return weights and bias of a stage on the units of ``state``, above those of ``carried``, activation and their number."""
    count, activation, extra = len(stage.b), stage.activation or get("identity"), sum(sizes[k] for k in carried)
    small = {"dtype": library.int8}
    W = library.hstack([stage.weights.get(k, library.zeros((count, sizes[k]), **small)) for k in state])
    if not carried:
        return W, stage.b, activation, 0
    hand_on = [library.hstack([library.eye(sizes[k], sizes[j], **small) * (j == k) for j in state]) for k in carried]
    return library.vstack([W, *hand_on]), library.concatenate([stage.b, library.zeros(extra, **small)]), activation, extra


def _is_copy(layer: Dense) -> bool:
    return is_linear(layer) and not layer.b.any() and np.array_equal(layer.W, np.eye(len(layer.W)))


@dataclass(frozen=True, eq=False)
class AffineRows:
    """A tensor that is affine in the units of some stages.

    Parameters
    ----------
    values : array of shape (1 + units, ...)
        The tensor where all units are 0, and below it its derivative by each of them.
    blocks : tuple of int
        The stages, ascending; 0 is the input.
    """

    values: Array
    blocks: tuple[int, ...]


class Tape:
    """Record the stages of a network: an activation of an affine tensor adds one, and gives a new tensor of units.

    Parameters
    ----------
    inputs : int
        Size of the network's input, flattened.
    """

    def __init__(self, inputs: int) -> None:
        self.sizes = [inputs]
        self.stages: list[Stage] = []
        self._check_layer(inputs)

    def input(self) -> AffineRows:
        """Return the input as an affine tensor of itself."""
        return self._units(0)

    def align(self, tensors: Sequence[AffineRows]) -> tuple[list[Array], tuple[int, ...]]:
        """Return the values of several tensors with respect to the same stages, and these."""
        blocks = tuple(sorted({block for tensor in tensors for block in tensor.blocks}))
        return [self._align_one(tensor, blocks) for tensor in tensors], blocks

    def check_map(self, tensors: Sequence[AffineRows], size: int) -> None:
        """Raise a TooLargeError where an affine map of tensors to ``size`` numbers is too large a matrix."""
        count = sum(self.sizes[block] for block in {block for tensor in tensors for block in tensor.blocks})
        if (1 + count) * size > _LARGEST_MAP:
            self._check_layer(count + size)

    def add_stage(self, tensor: AffineRows, activation: Activation | None) -> AffineRows:
        """Apply an activation to each number of a tensor; None makes its numbers linear units."""
        flat = tensor.values.reshape(len(tensor.values), -1)
        before, size = len(flat) - 1, flat.shape[1]
        self._check_layer(before + size if activation is None else max(before, size) + size)
        weights, start = {}, 1
        for block in tensor.blocks:
            weights[block] = flat[start : start + self.sizes[block]].T
            start += self.sizes[block]
        self.stages.append(Stage({k: W for k, W in weights.items() if W.any()}, flat[0], activation))
        self.sizes.append(size)
        return self._units(len(self.stages), tensor.values.shape[1:])

    def multiply(self, a: AffineRows, b: AffineRows) -> AffineRows | None:
        """Multiply two tensors number by number, ((a + b)² − (a − b)²)/4; None unless both are affine in the input alone."""
        if {*a.blocks, *b.blocks} != {0}:
            return None
        (one, other), _ = self.align([a, b])
        squares = self.add_stage(AffineRows(np.stack([one + other, one - other], axis=-1), (0,)), SQUARE)
        return AffineRows(0.25 * (squares.values[..., 0] - squares.values[..., 1]), squares.blocks)

    def layers(self, outputs: Sequence[AffineRows]) -> list[Dense]:
        """Return the layers that give these tensors, flattened, side by side."""
        values, blocks = self.align(outputs)
        self.add_stage(AffineRows(np.concatenate([part.reshape(len(part), -1) for part in values], axis=1), blocks), None)
        return stack_stages(self.stages, self.sizes[0])

    def _units(self, block: int, shape: tuple[int, ...] | None = None) -> AffineRows:
        size = self.sizes[block]
        return AffineRows(np.eye(1 + size, size, -1).reshape(1 + size, *((size,) if shape is None else shape)), (block,))

    def _align_one(self, tensor: AffineRows, blocks: tuple[int, ...]) -> Array:
        if tensor.blocks == blocks:
            return tensor.values
        parts, start = [tensor.values[:1]], 1
        for block in blocks:
            size = self.sizes[block]
            if block in tensor.blocks:
                parts.append(tensor.values[start : start + size])
                start += size
            else:
                parts.append(np.zeros((size, *tensor.values.shape[1:])))
        return np.concatenate(parts)

    @staticmethod
    def _check_layer(count: int) -> None:
        if count > LARGEST:
            raise TooLargeError(
                f"network would bring {count} numbers into one covariance, which is kept of {LARGEST}; use closure='sobol'"
            )
