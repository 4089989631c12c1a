"""Gaussians through networks: layers, and a Gaussian passed through them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pesn.networks.layers import Dropout as Dropout
    from pesn.networks.propagate import propagate_gaussian as propagate_gaussian

__all__ = ["Dropout", "propagate_gaussian"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'pesn.networks' has no attribute {name!r}")
    from pesn.networks import propagate  # here, not above: packages that need layers alone do without the closures

    return getattr(propagate, name)
