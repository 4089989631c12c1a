"""Simulators of dynamical systems by name, each returning :class:`Trajectories`.

>>> simulate = get("cart-pole")
>>> runs = simulate(runs=2, steps=100, rng=0)
>>> len(runs), runs.lengths
(2, (100, 100))
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pesn.systems.stepping import KINDS, Trajectories

__all__ = ["KINDS", "SYSTEMS", "Trajectories", "get"]

# Each system's module is imported when it is first asked for.
SYSTEMS = MappingProxyType(
    {
        "cart-pole": "pesn.systems.cart_pole:simulate",
        "ardrone": "pesn.systems.ardrone:simulate",
        "lorenz": "pesn.systems.chaotic:lorenz",
        "roessler": "pesn.systems.chaotic:roessler",
        "mackey-glass": "pesn.systems.chaotic:mackey_glass",
        "lorenz-96": "pesn.systems.chaotic:lorenz96",
        "double-scroll": "pesn.systems.chaotic:double_scroll",
        "rabinovich-fabrikant": "pesn.systems.chaotic:rabinovich_fabrikant",
        "multiscroll": "pesn.systems.chaotic:multiscroll",
        "henon": "pesn.systems.chaotic:henon",
        "logistic-map": "pesn.systems.chaotic:logistic_map",
        "kuramoto-sivashinsky": "pesn.systems.chaotic:kuramoto_sivashinsky",
        "mso": "pesn.systems.chaotic:mso",
        "narma-10": "pesn.systems.chaotic:narma10",
    }
)


def get(name: str) -> Callable[..., Trajectories]:
    """Return the function that simulates the system called ``name``; all take ``runs``, ``steps``, ``rng`` and ``progress``.

    >>> get("cartpole")
    Traceback (most recent call last):
    ValueError: system must be one of cart-pole, ..., narma-10, got 'cartpole'; did you mean 'cart-pole'?
    """
    from pesn._support.arguments import check_name

    check_name("system", name, SYSTEMS)
    module, _, function = SYSTEMS[name].partition(":")
    simulate: Callable[..., Trajectories] = getattr(import_module(module), function)
    return simulate


if not TYPE_CHECKING:  # names that need NumPy are imported when they are first used

    def __getattr__(name: str) -> Any:
        if name not in ("KINDS", "Trajectories"):
            raise AttributeError(f"module 'pesn.systems' has no attribute {name!r}")
        return getattr(import_module("pesn.systems.stepping"), name)
