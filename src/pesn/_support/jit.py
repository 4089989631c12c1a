"""Compilation by numba, with a cache on disk if there is a folder to write to, and a notice."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from pesn._support.kernel_cache import KernelCache

# Helpers that only kernels call have no wrapper for Python. INLINE: LLVM inlines them.
HELPER: dict[str, Any] = {"no_cpython_wrapper": True}
INLINE: dict[str, Any] = {"forceinline": True, **HELPER}

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

    is_helper = bool(options.get("no_cpython_wrapper"))
    if is_helper:
        options["pipeline_class"] = _HelperCompiler

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = njit(**options)(function)
        if compiled is not function and not is_helper:  # NUMBA_DISABLE_JIT returns the function
            compiled._cache = KernelCache(function)  # noqa: SLF001 - numba's enable_caching() takes no cache
        return compiled

    return decorate


class _NoEnvironment:
    """Code generator of a helper: it has no machine code, so that no environment can be stored in it."""

    def set_env(self, name: str, environment: object) -> None:
        """Do nothing."""


class _HelperLibrary(JITCodeLibrary):  # type: ignore[misc]
    """LLVM code of a helper as numba generates it.

    numba optimizes each function and translates it to machine code, and again as a part of each kernel that calls it. For a
    helper the first of the two is skipped, which saves a fifth of the time to compile a kernel.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout  # noqa: SLF001

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> _NoEnvironment:
        return _NoEnvironment()


class _HelperCompiler(Compiler):  # type: ignore[misc]
    """Compiler of helpers: to LLVM code, but not to machine code."""

    def compile_extra(self, func: Any) -> Any:
        self.state.library = _HelperLibrary(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


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
