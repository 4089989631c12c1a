"""tanh and its scaled copies: what the methods that are made for tanh alone serve."""

from __future__ import annotations

from pesn.activations import Activation, Reduction
from pesn.activations.smooth import TANH

__all__ = ["as_scaled_tanh", "check_scaled_tanh"]

_TANH_ITSELF = Reduction(TANH, 1.0, 1.0, 0.0)


def as_scaled_tanh(activation: Activation) -> Reduction | None:
    """f(z) = offset + output_scale · tanh(input_scale · z), or None where f is nothing of the kind.

    >>> from pesn.activations import get
    >>> as_scaled_tanh(get("sigmoid"))[1:]
    (0.5, 0.5, 0.5)
    """
    reduction = _TANH_ITSELF if activation is TANH else activation.reduction
    return reduction if reduction is not None and reduction.base is TANH else None


def check_scaled_tanh(method: str, activation: Activation, order: int) -> Reduction:
    """The scaling of tanh, or a ValueError that names the methods which serve this activation and order."""
    reduction = as_scaled_tanh(activation)
    others = "use 'surface', 'exact', 'spline' or 'monte-carlo'"
    if reduction is None:
        raise ValueError(f"method {method!r} serves tanh and sigmoid, got {activation.name!r}; {others}")
    if order > 2:
        raise ValueError(f"method {method!r} gives orders 1 and 2, got order {order}; {others}")
    return reduction
