"""Activation functions as records: value, derivative, and properties that the moment methods need.

>>> from pesn import activations
>>> activations.get("tanh").right
Tail(intercept=1.0, slope=0.0)
>>> activations.get("swish") is activations.get("silu")
True
"""

from __future__ import annotations

import difflib

from pesn.activations import kinked, smooth
from pesn.activations.kinked import elu, hard_shrink, hard_tanh, leaky_relu, piecewise_linear, soft_shrink, threshold
from pesn.activations.record import Activation, Reduction, Tail, custom
from pesn.activations.smooth import softplus, swish

__all__ = [
    "Activation",
    "Reduction",
    "Tail",
    "custom",
    "elu",
    "get",
    "hard_shrink",
    "hard_tanh",
    "leaky_relu",
    "names",
    "piecewise_linear",
    "soft_shrink",
    "softplus",
    "swish",
    "threshold",
]

_BUILT_IN = {
    "tanh": smooth.TANH,
    "sigmoid": smooth.SIGMOID,
    "logistic": smooth.SIGMOID,
    "swish": smooth.SWISH,
    "silu": smooth.SWISH,
    "relu": kinked.RELU,
    "leaky_relu": leaky_relu(),
    "elu": elu(),
    "gelu": smooth.GELU,
    "selu": kinked.SELU,
    "softplus": smooth.SOFTPLUS,
    "mish": smooth.MISH,
    "log_sigmoid": smooth.LOG_SIGMOID,
    "softsign": kinked.SOFTSIGN,
    "hard_sigmoid": kinked.HARD_SIGMOID,
    "hard_swish": kinked.HARD_SWISH,
    "abs": kinked.ABSOLUTE,
    "hard_tanh": hard_tanh(),
    "erf": smooth.ERF,
    "sine": smooth.SINE,
    "sin": smooth.SINE,
    "identity": smooth.IDENTITY,
    "linear": smooth.IDENTITY,
}


def names() -> list[str]:
    """Return the names of the built-in activations."""
    return sorted(_BUILT_IN)


def get(activation: str | Activation) -> Activation:
    """Return the activation of a name; an :class:`Activation` is returned unchanged.

    Parameters
    ----------
    activation : str or Activation
        Name, in any case, with spaces, hyphens or underscores.

    Returns
    -------
    Activation
        The record.
    """
    if isinstance(activation, Activation):
        return activation
    if not isinstance(activation, str):
        raise TypeError(
            f"activation must be a name or an Activation, got {type(activation).__name__}; "
            "wrap a callable with pesn.activations.custom"
        )
    key = activation.strip().lower().replace("-", "_").replace(" ", "_")
    for known, record in _BUILT_IN.items():
        if key.replace("_", "") == known.replace("_", ""):
            return record
    near = difflib.get_close_matches(key, _BUILT_IN, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ValueError(f"activation {activation!r} is not known; {hint}known: {', '.join(names())}")


for _name, _record in _BUILT_IN.items():  # a built-in record is pickled by name
    object.__setattr__(_record, "recipe", (get, (_name,)))
