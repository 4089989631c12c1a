"""What users say of their own types: what a network, or a module in one, is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["register", "registered", "snapshot"]

_MAKERS: dict[type, Callable[[Any], Any]] = {}
_Maker = TypeVar("_Maker", bound=Callable[[Any], Any])


def register(kind: type) -> Callable[[_Maker], _Maker]:
    """Say how objects of a type act: a decorator, known as ``propagate.register``.

    Parameters
    ----------
    kind
        A type of networks, or of modules inside a torch network; its subclasses go with it.

    Returns
    -------
    decorator
        Of a function that takes such an object and gives what acts as it does: for a network anything that
        :func:`pesn.propagate` takes, for a torch module another module, a function of tensors, or, where it acts on each
        number by itself, a :class:`pesn.Activation`. The last function registered for a type holds.

    Examples
    --------
    >>> import numpy as np, pesn
    >>> class Scale:
    ...     def __init__(self, factors):
    ...         self.factors = factors
    >>> @pesn.propagate.register(Scale)
    ... def layers(scale):
    ...     return [pesn.Dense(np.diag(scale.factors), activation="tanh")]
    >>> pesn.propagate(Scale([1.0, 2.0]), pesn.Gaussian([0.5, 0.0], var=0.1))
    Gaussian(mean=[0.43 0.  ], std=[0.243 0.488], covariance='full')
    """
    if not isinstance(kind, type):
        raise TypeError(f"kind must be a type, got {kind!r}; register(type) is a decorator")

    def decorator(maker: _Maker) -> _Maker:
        if not callable(maker):
            raise TypeError(f"what is registered for {kind.__name__} must be a function of such an object, got {maker!r}")
        _MAKERS[kind] = maker
        return maker

    return decorator


def registered(network: object) -> Callable[[Any], Any] | None:
    """What was registered for the nearest type of an object, or None."""
    return next((_MAKERS[kind] for kind in type(network).__mro__ if kind in _MAKERS), None) if _MAKERS else None


def snapshot() -> dict[type, Callable[[Any], Any]]:
    """All that is registered, for a comparison with what was before."""
    return dict(_MAKERS)
