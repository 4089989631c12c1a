"""Read the operations of a network as layers, by evaluating them.

An adapter hands over the operations that an input goes through, as functions of batches. An operation is affine if it agrees with
its own affine reading at random inputs of all sizes. A function of each number is an activation if it has the values of a known
one. Everything else has no closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import chain

import numpy as np
from scipy import special

from pesn._support.types import Array
from pesn.activations import (
    Activation,
    custom,
    elu,
    get,
    hard_tanh,
    leaky_relu,
    names,
    piecewise_linear,
    soft_shrink,
    softplus,
    swish,
)
from pesn.networks.layers import SQUARE, AffineRows, Dense, Shapes, Tape

Function = Callable[[Array], Array]

_STEP = 2.0**40  # of a unit, by which slopes are read: so large that offsets do not cost digits
_SIZES = 10.0 ** np.tile(np.arange(-3.0, 5.0), 3)  # standard deviations of random inputs
_ROUNDING = 1e-8
_SAME = 1e-6  # relative to the largest value: functions that differ by less are the same
_GRID = np.concatenate([np.linspace(-4.1, 4.0, 73), [-30.0, -10.0, 10.0, 30.0]])
_FAR = 1e4


# ---------------------------------------------------------------- activations by their values


def _gelu_tanh(z: Array) -> Array:
    return z * special.expit(math.sqrt(8.0 / math.pi) * (z + 0.044715 * z * z * z))


def _gelu_tanh_slope(z: Array) -> Array:
    z = np.clip(z, -1e3, 1e3)  # beyond, f is a line, and z³ would overflow against a factor of 0
    c = math.sqrt(8.0 / math.pi)
    sigmoid = special.expit(c * (z + 0.044715 * z**3))
    return sigmoid + z * sigmoid * (1.0 - sigmoid) * c * (1.0 + 3.0 * 0.044715 * z * z)


@lru_cache(maxsize=1)
def _named_activations() -> list[tuple[Activation, Array]]:
    """Return activations without parameters, and their values on the grid."""
    approximate = custom(_gelu_tanh, derivative=_gelu_tanh_slope, left=0.0, right=(0.0, 1.0), name="gelu(tanh)")
    records = [*{get(name) for name in names() if get(name).slopes != (1.0,)}, approximate, SQUARE]
    return [(record, np.asarray(record(_GRID), float)) for record in sorted(records, key=lambda record: record.name)]


@lru_cache
def _make(kind: Callable[..., Activation], *parameters: float) -> Activation:
    """Return one record for a kind and its parameters."""
    return kind(*parameters)


def _ramp(low: float, high: float, slope: float, middle: float) -> Activation:
    """Return middle + slope z, within two ends."""
    kinks = [(low - middle) / slope, (high - middle) / slope]
    return piecewise_linear("ramp", kinks, [0.0, slope, 0.0], low)


def _half_ramp(end: float, left: float, right: float) -> Activation:
    """Return z above or below one end."""
    return piecewise_linear(f"clip({end:g})", [end], [left, right], end)


def _parametric_activations(function: Function) -> Iterator[Activation]:
    """Yield activations with parameters, each of which agrees with a function at a few points."""
    low, before, below, zero, above, one, high = map(float, function(np.array([-_FAR, -1.0, -0.25, 0.0, 0.25, 1.0, _FAR])))
    if 0.0 < abs(one) < _FAR and abs(before) < _FAR:
        if before != -one:
            yield _make(leaky_relu, -before / one)
        alpha = -low / one
        if 0.0 < alpha < _FAR:
            yield _make(elu, alpha)
            yield _make(elu, alpha, 1.0, 1.0 / alpha)
    if 0.0 < zero < _FAR:
        yield _make(softplus, math.log(2.0) / zero)
    if 0.5 < one < 1.0:
        yield _make(swish, float(special.logit(one)))
    if -_FAR < low < high < _FAR:
        yield _make(hard_tanh, low, high)
        if above > below and low < zero < high:
            yield _make(_ramp, low, high, 2.0 * (above - below), zero)
    if abs(low) < _FAR:
        yield _make(_half_ramp, low, 0.0, 1.0)
    if abs(high) < _FAR:
        yield _make(_half_ramp, high, 1.0, 0.0)
    width = 30.0 - float(function(np.array([30.0]))[0])
    if 0.0 < width < 30.0:
        yield _make(soft_shrink, width)


def recognize(function: Function) -> tuple[Activation, float] | None:
    """Find the activation f, and the factor a, of a function a f(z) of each number.

    Parameters
    ----------
    function : callable
        Array to array of the same shape.

    Returns
    -------
    tuple of Activation and float, or None
        None where no known activation has its values.

    Examples
    --------
    >>> recognize(lambda z: 2.0 * z / (1.0 + np.exp(-z)))
    (Activation('swish'), 2.0)
    """
    with np.errstate(all="ignore"):
        values = np.asarray(function(_GRID), float)
        if not np.isfinite(values).all() or not values.any():
            return None
        others = ((record, np.asarray(record(_GRID), float)) for record in _parametric_activations(function))
        for record, own in chain(_named_activations(), others):
            factor = float(values @ own / max(own @ own, _SAME))
            if np.abs(values - factor * own).max() <= _SAME * np.abs(values).max():
                return record, 1.0 if abs(factor - 1.0) < _ROUNDING else factor
    return None


# ---------------------------------------------------------------- operations


@dataclass(frozen=True, eq=False)
class Operation:
    """An operation on tensors that depend on the network's input.

    Parameters
    ----------
    run : callable
        Arrays (n, ...), one for each such tensor, to a list of arrays (n, ...).
    shapes : tuple of tuple of int
        Of one row of each output.
    is_pointwise : bool
        Whether it is one function of numbers at the same place.
    refusal : Exception
        Raised where the operation has no closed form and an output of the network needs it.
    """

    run: Callable[..., Sequence[Array]]
    shapes: Shapes
    is_pointwise: bool
    refusal: Exception


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor that depends on the network's input.

    Parameters
    ----------
    rows : AffineRows or None
        Its numbers, affine in the units so far; None where they have no closed form.
    base : Value, default=None
        The tensor that it is one function of each number of; itself where None.
    function : callable, default=None
        That function.
    error : Exception, default=None
        Why it has no closed form.
    """

    rows: AffineRows | None
    base: Value | None = None
    function: Function | None = None
    error: Exception | None = None

    @property
    def root(self) -> tuple[Value, Function]:
        """The tensor that it is a function of each number of, and the function."""
        return (self, np.asarray) if self.base is None or self.function is None else (self.base, self.function)


def find_error(values: Sequence[Value]) -> Exception | None:
    """Return why the first of some tensors has no closed form; None where all have one."""
    return next((value.error for value in values if value.error is not None), None)


def check_values(values: Sequence[Value]) -> None:
    """Raise the error of the first tensor without a closed form."""
    if (error := find_error(values)) is not None:
        raise error


class Reader:
    """Apply the operations of a network to affine tensors, and collect its layers.

    Parameters
    ----------
    shapes : tuple of tuple of int
        Of one row of each input.
    """

    def __init__(self, shapes: Shapes) -> None:
        self.tape = Tape(sum(map(math.prod, shapes)))
        whole, start = self.tape.input().values, 0
        self.inputs: list[Value] = []
        self.sources: tuple[Value, ...] = ()  # whose units the last stage has; of two their product, of none the outputs'
        for shape in shapes:
            part = whole[:, start : start + math.prod(shape)].reshape(len(whole), *shape)
            self.inputs.append(Value(AffineRows(part, (0,))))
            start += math.prod(shape)

    def layers(self, outputs: Sequence[Value]) -> list[Dense]:
        """Return the layers that give these tensors, flattened, side by side; raise where one has no closed form."""
        check_values(outputs)
        return self.tape.layers([value.rows for value in outputs if value.rows is not None])

    def apply(self, operation: Operation, values: Sequence[Value]) -> list[Value]:
        """Return the outputs of an operation; without a closed form they hold an error."""
        rows = [value.rows for value in values if value.rows is not None]
        root, function = _common_function(operation, values)
        with np.errstate(all="ignore"):
            made = self._apply_affine(operation, rows) if len(rows) == len(values) else None
            if made is None:
                made = self._apply_activation(operation, values, root, function)
            if made is None and len(rows) == len(values) == 2:
                made, self.sources = self._apply_product(operation, rows), tuple(values)
        if made is None:
            error = find_error(values) or operation.refusal
            return [Value(None, root, function, error)] * len(operation.shapes)
        outputs = zip(made, operation.shapes, strict=True)
        found = [AffineRows(one.values.reshape(len(one.values), *shape), one.blocks) for one, shape in outputs]
        return [Value(one, root, function) for one in found]

    def _apply_affine(self, operation: Operation, rows: Sequence[AffineRows]) -> list[AffineRows] | None:
        """Return the outputs of an affine operation; None where it is not affine."""
        if operation.is_pointwise:
            scalars = read_affine(operation.run, np.split(np.eye(1 + len(rows), len(rows), -1), len(rows), axis=1))
            if scalars is None:
                return None
            offset, *slopes = scalars[0].ravel()
            arrays, blocks = self.tape.align(_with_equal_axes(rows))
            total = reduce(np.add, (slope * array for slope, array in zip(slopes, arrays, strict=True)))
            found = [np.concatenate([total[:1] + offset, total[1:]])]
        else:
            self.tape.check_map(rows, sum(map(math.prod, operation.shapes)))
            arrays, blocks = self.tape.align(rows)
            results = read_affine(operation.run, arrays)
            if results is None:
                return None
            found = results
        made = [AffineRows(one, blocks) for one in found]
        if len(made) == 1 and len(rows) > 1:
            self.sources = ()
            if any(one.blocks != blocks for one in rows):  # so a deep residual network carries the sum of its branches alone
                return [self.tape.add_stage(made[0], None)]
        return made

    def _apply_product(self, operation: Operation, rows: Sequence[AffineRows]) -> list[AffineRows] | None:
        """Return the product of two tensors; None where the operation is none, or where they are not affine in the input."""
        a, b = 1.5 + np.arange(4.0), 2.0 - np.arange(4.0)
        is_product = operation.is_pointwise and np.allclose(np.ravel(operation.run(a, b)[0]), a * b, rtol=1e-12)
        product = self.tape.multiply(*_with_equal_axes(rows)) if is_product else None
        return None if product is None else [product]

    def _apply_activation(
        self, operation: Operation, values: Sequence[Value], root: Value | None, function: Function | None
    ) -> list[AffineRows] | None:
        """Return the units of an activation, of the common root or of the only argument; None where it is none."""
        if not operation.is_pointwise:
            return None
        tries = [] if root is None or function is None else [(root, function)]
        if len(values) == 1:
            tries.append((values[0], lambda z: np.reshape(operation.run(z)[0], z.shape)))
        for value, f in tries:
            found = None if value.rows is None else recognize(f)
            if found is not None and value.rows is not None:
                units, self.sources = self.tape.add_stage(value.rows, found[0]), (value,)
                return [AffineRows(found[1] * units.values, units.blocks)]
        return None


def _common_function(operation: Operation, values: Sequence[Value]) -> tuple[Value | None, Function | None]:
    """Return the tensor, and the function of each number of it, that an operation gives; None where there is none."""
    root = values[0].root[0]
    if not operation.is_pointwise or root.rows is None or any(value.root[0] is not root for value in values):
        return None, None
    functions = [value.root[1] for value in values]
    return root, lambda z: np.reshape(operation.run(*(f(z) for f in functions))[0], z.shape)


def _with_equal_axes(rows: Sequence[AffineRows]) -> list[AffineRows]:
    """Return tensors with as many axes each, as broadcasting adds them."""
    rank = max(one.values.ndim for one in rows)
    return [
        AffineRows(one.values.reshape(len(one.values), *(1,) * (rank - one.values.ndim), *one.values.shape[1:]), one.blocks)
        for one in rows
    ]


def read_affine(run: Callable[..., Sequence[Array]], arrays: Sequence[Array]) -> list[Array] | None:
    """Read an affine operation, from its values at the offsets and one step along each column.

    Parameters
    ----------
    run : callable
        Arrays (n, ...) to a list of arrays (n, ...).
    arrays : sequence of array of shape (1 + units, ...)
        Offset and columns of each argument.

    Returns
    -------
    list of array of shape (1 + units, ...), or None
        Offset and columns of each output; None where the operation fails or differs from that at random inputs.
    """
    count = len(arrays[0])
    draws = _SIZES[:, None] * np.random.default_rng(0).standard_normal((len(_SIZES), count - 1))
    draws[1::3] = -1.7 * draws[::3]
    try:
        outputs = run(*(np.concatenate([a[:1], a[:1] + _STEP * a[1:], a[:1] + np.tensordot(draws, a[1:], 1)]) for a in arrays))
    except Exception:  # any error of the operation
        return None
    found = []
    for out in (np.asarray(one, float) for one in outputs):
        columns = (out[1:count] - out[:1]) / _STEP
        expected = out[:1] + np.tensordot(draws, columns, 1)
        room = _ROUNDING * (np.abs(out[:1]) + np.tensordot(np.abs(draws), np.abs(columns), 1))
        if not np.all(np.abs(out[count:] - expected) <= room):
            return None
        found.append(np.concatenate([out[:1], columns]))
    return found
