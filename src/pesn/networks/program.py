"""The networks and inputs that :func:`pesn.propagate` takes: their types, and the form in which adapters deliver a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pesn._support.types import FloatArray
from pesn.gaussian import Gaussian, as_vector
from pesn.networks.layers import Dense, Dropout, Shape, Shapes, is_linear


def as_gaussian(x: object, name: str = "x") -> Gaussian:
    """Return ``x``, with arrays in place of tensors; raise a TypeError where it is no Gaussian."""
    if isinstance(x, Gaussian) and hasattr(x, "numpy"):
        return x.numpy()
    if not isinstance(x, Gaussian):
        raise TypeError(f"{name} must be a pesn.Gaussian, got {type(x).__name__}; for a certain input use pesn.Gaussian(mean)")
    return x


def join_inputs(x: object, shape: Any) -> tuple[Gaussian, Shapes]:
    """Return all inputs as one Gaussian (d,) or (n, d), and the shape of each input.

    Several inputs, a tuple or list of Gaussians, are independent of each other. One Gaussian with several shapes is all of them
    side by side, with the covariance that it has.
    """
    if isinstance(x, tuple | list):
        if not x:
            raise ValueError("x must be a Gaussian, or one for each input of the network, got an empty sequence")
        each = [as_vector(as_gaussian(part, f"x[{i}]")) for i, part in enumerate(x)]
        shapes = _shapes(shape, [part.dim for part in each])
        return (each[0] if len(each) == 1 else _side_by_side(each)), shapes
    one = as_vector(as_gaussian(x))
    if isinstance(shape, tuple | list) and shape and all(isinstance(s, tuple | list) for s in shape):
        shapes = tuple(_one_shape(s, f"shape[{i}]") for i, s in enumerate(shape))
        if sum(map(math.prod, shapes)) != one.dim:
            raise ValueError(f"shape must hold the {one.dim} numbers of x, got {shapes} with {sum(map(math.prod, shapes))}")
        return one, shapes
    return one, _shapes(None if shape is None else [shape], [one.dim])


def split_rows(rows: FloatArray, shapes: Shapes) -> list[FloatArray]:
    """Split rows (n, d) into inputs (n, *shape)."""
    ends = np.cumsum([0, *map(math.prod, shapes)])
    return [rows[:, ends[i] : ends[i + 1]].reshape(len(rows), *shape) for i, shape in enumerate(shapes)]


def _shapes(given: Any, sizes: Sequence[int]) -> Shapes:
    if given is None:
        return tuple((size,) for size in sizes)
    if not isinstance(given, tuple | list) or len(given) != len(sizes):
        raise ValueError(f"shape must be a list with one shape for each of {len(sizes)} inputs, got {given!r}")
    result = []
    for i, (one, size) in enumerate(zip(given, sizes, strict=True)):
        name = "shape" if len(sizes) == 1 else f"shape[{i}]"
        found = (size,) if one is None else _one_shape(one, name)
        if math.prod(found) != size:
            raise ValueError(f"{name} must hold the {size} numbers of its input, got {found} with {math.prod(found)}")
        result.append(found)
    return tuple(result)


def _one_shape(given: Any, name: str) -> Shape:
    sizes = (given,) if isinstance(given, int | np.integer) else given
    if not isinstance(sizes, tuple | list) or any(
        isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1 for n in sizes
    ):
        raise ValueError(f"{name} must be the shape of one input without its batch, positive whole numbers, got {given!r}")
    return tuple(int(n) for n in sizes)


def _side_by_side(parts: Sequence[Gaussian]) -> Gaussian:
    batches = {part.batch_shape for part in parts}
    if len(batches) > 1:
        raise ValueError(f"x must have inputs of one batch, got batches {', '.join(map(str, sorted(batches)))}")
    return reduce(Gaussian.join, parts)


Closure = Literal["auto", "gaussian", "third-order", "sobol"]


class TorchDistribution(Protocol):
    """A Gaussian of ``torch.distributions``, by one of its attributes."""

    @property
    def event_shape(self) -> tuple[int, ...]: ...  # noqa: D102


class _Estimator(Protocol):
    """A fitted estimator of scikit-learn, by one of its methods."""

    def get_params(self, deep: bool = ...) -> dict[str, object]: ...


class _OnnxModel(Protocol):
    """An ``onnx.ModelProto``, by one of its methods."""

    def SerializeToString(self, **options: bool) -> bytes: ...


class _OnnxSession(Protocol):
    """An ``onnxruntime.InferenceSession``, by one of its methods."""

    def get_inputs(self) -> Sequence[object]: ...


Network: TypeAlias = (
    Dense
    | Sequence[Dense | Dropout]
    | _Estimator
    | str
    | PathLike[str]
    | _OnnxModel
    | _OnnxSession
    | Callable[..., npt.ArrayLike]
)


@dataclass(frozen=True)
class Program:
    """A network as an adapter reads it.

    Parameters
    ----------
    function : callable
        Rows (n, d) to rows (n, m).
    layers : sequence of Dense, default=None
        The same as layers; None where it is neither a chain of layers nor a sum of such branches.
    refusal : Exception, default=None
        Why it has no layers.
    outputs : int, default=0
        Number of outputs, for a function; 0 where it is known after the first rows only.
    gradient : callable, default=None
        Rows (n, d) to Jacobians (n, outputs, d); raises an error for a network that cannot be differentiated.
    """

    function: Callable[[FloatArray], FloatArray]
    layers: Sequence[Dense] | None = None
    refusal: Exception | None = None
    outputs: int = 0
    gradient: Callable[[FloatArray], FloatArray] | None = None

    @property
    def is_chain(self) -> bool:
        """Whether it is a plain chain of layers."""
        return self.layers is not None and all(layer.units == len(layer.b) for layer in self.layers)

    @property
    def is_random(self) -> bool:
        """Whether it has uncertain weights or dropout."""
        return self.layers is not None and any(layer.is_random for layer in self.layers)

    def is_exact(self, x: Gaussian) -> bool:
        """Return whether the Gaussian closure is exact: whether what each activation takes is Gaussian, or certain."""
        if self.layers is None:
            return False
        is_certain, is_gaussian = not x.var.any(), True
        for layer in self.layers:
            is_gaussian = is_certain or (is_gaussian and layer.W_var is None)
            is_gaussian = is_gaussian and not layer.dropout
            is_certain = is_certain and not layer.is_random
            if not is_linear(layer):
                if not is_gaussian:
                    return False
                is_gaussian = is_certain
        return True
