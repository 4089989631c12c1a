"""Compilation: numba's njit, with its cache on disk wherever there is a folder to write to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

__all__ = ["jit"]


def jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``njit`` without the GIL, with NumPy's arithmetic errors, compiled at the first call and cached on disk.

    A read-only installation without a home folder has no place for a cache: there each process compiles anew.
    """
    options = {"nogil": True, "error_model": "numpy", **options}

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:
            return njit(**options)(function)

    return decorate
