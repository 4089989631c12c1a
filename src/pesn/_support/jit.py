"""Compilation by numba, with a cache on disk if there is a folder to write to, and a notice."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

from pesn._support.kernel_cache import KernelCache

# For helpers that only kernels call: LLVM inlines them, and they need no wrapper for Python.
INLINE: dict[str, Any] = {"forceinline": True, "no_cpython_wrapper": True}

_notice = logging.getLogger("pesn._support.jit")  # a separate logger, which can be disabled alone


def jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function at its first call, by numba, and caches the compiled code on disk.

    The function runs without the GIL and with NumPy's arithmetic errors. The cache is that of :mod:`pesn._support.kernel_cache`.
    A read-only installation without a home folder has no place for a cache: each process compiles there.

    Parameters
    ----------
    **options : object
        Options of ``numba.njit``, except ``cache``.

    Returns
    -------
    callable
        The decorator.
    """
    # no wrapper for calls from C
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, **options}

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = njit(**options)(function)
        if compiled is not function:  # NUMBA_DISABLE_JIT returns the function
            compiled._cache = KernelCache(function)  # noqa: SLF001 - numba's enable_caching() takes no cache
        return compiled

    return decorate


class _Notice(event.Listener):  # type: ignore[misc]
    """Log once in a process that pesn is being compiled, which takes seconds.

    numba reports compilations only, not code from the cache.
    """

    logged = False

    def on_start(self, started: Any) -> None:
        dispatcher = started.data["dispatcher"]
        module = dispatcher.py_func.__module__ or ""  # None of functions made by exec
        if self.logged or module.partition(".")[0] != "pesn":
            return
        self.logged = True
        cache = dispatcher._cache  # noqa: SLF001
        if isinstance(cache, KernelCache) and not cache.has_folder:
            _notice.warning("pesn: compiling, a few seconds in each process; once, if NUMBA_CACHE_DIR names a folder to write to")
        else:
            _notice.warning("pesn: compiling, once on this machine: a few seconds")

    def on_end(self, started: object) -> None:
        pass


event.register("numba:compile", _Notice())
