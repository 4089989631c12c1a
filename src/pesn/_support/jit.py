"""Compilation by numba, with a cache on disk if there is a folder to write to, and a notice."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Flags
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import rtsys

from pesn._support.kernel_cache import KernelCache, choose_library
from pesn._support.lowering import ShortCompiler

# Helpers that only kernels call have neither a wrapper for Python nor machine code. INLINE: LLVM inlines them, and
# optimizes them only as parts of kernels; loops of other helpers are optimized by themselves, which vectorizes more of them.
HELPER: dict[str, Any] = {"no_cpython_wrapper": True}
INLINE: dict[str, Any] = {"forceinline": True, **HELPER}
# short code, whose loops are neither unrolled nor vectorized much: a third less to compile
SMALL: dict[str, Any] = {"small": True}

LEAST_SECONDS = 1.0  # of compilation that is logged
_SECONDS_PER_FUNCTION, _SECONDS_PER_BYTE = 0.05, 3e-4  # measured over all kernels

_notice = logging.getLogger("pesn._support.jit")  # a separate logger, which can be disabled alone


def jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function at its first call, by numba, and caches the compiled code on disk.

    The function runs without the GIL and with NumPy's arithmetic errors. The cache is that of :mod:`pesn._support.kernel_cache`.
    A read-only installation without a home folder has no place for a cache: each process compiles there.

    Parameters
    ----------
    **options : object
        Options of ``numba.njit``, except ``cache``, and ``SMALL``.

    Returns
    -------
    callable
        The decorator.
    """
    # no wrapper for calls from C
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, **options}

    is_helper = bool(options.get("no_cpython_wrapper"))
    is_small = options.pop("small", False)
    options["pipeline_class"] = _HelperCompiler if is_helper else _SmallCompiler if is_small else _KernelCompiler

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = njit(**options)(function)
        if compiled is not function and not is_helper:  # NUMBA_DISABLE_JIT returns the function
            compiled._cache = KernelCache(function)  # noqa: SLF001 - numba's enable_caching() takes no cache
        return compiled

    return decorate


class _CommonFlags(Flags):  # type: ignore[misc]
    """Options of all kernels and helpers, as the functions of numba that they call see them.

    numba compiles its functions (``max``, ``np.empty``) once for each set of options of a caller, and compares these sets often.
    As one object, they are compiled once and compared by identity.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return _HASH


_COMMON = _CommonFlags()
_COMMON.nrt, _COMMON.error_model = True, "numpy"
_HASH = Flags.__hash__(_COMMON)


class _OwnFlags(Flags):  # type: ignore[misc]
    """Options of one kernel or helper; numba's compiler shows a copy of them to what it compiles for it."""

    __slots__ = ()

    def copy(self) -> Flags:
        return _COMMON


class _NoEnvironment:
    """Code generator of a helper: it has no machine code, so that no environment can be stored in it."""

    def set_env(self, name: str, environment: object) -> None:
        """Do nothing."""


class _KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code of a kernel, which LLVM optimizes once, together with its helpers; numba does so in three steps."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout  # noqa: SLF001

    def _optimize_final_module(self) -> None:
        found = self._codegen._module_pass_manager()  # noqa: SLF001
        if not isinstance(found, tuple):  # of LLVM's former interface, with numba before 0.62
            super()._optimize_final_module()
            return
        passes, builder = found
        passes.run(self._final_module, builder)


class _HelperLibrary(JITCodeLibrary):  # type: ignore[misc]
    """LLVM code of a helper, without machine code.

    numba optimizes each function and translates it to machine code, and again as a part of each kernel that calls it. For a
    helper the first of the two is skipped, which saves a fifth of the time to compile a kernel.
    """

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> _NoEnvironment:
        return _NoEnvironment()


class _InlineLibrary(_HelperLibrary):
    """LLVM code of a helper as numba generates it, not optimized."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout  # noqa: SLF001

    def _optimize_final_module(self) -> None:
        pass


class _KernelCompiler(ShortCompiler):
    """Compiler of kernels and helpers, which shows :class:`_CommonFlags` to what they call.

    It compiles what they call of numba's functions as helpers.
    """

    def compile_extra(self, func: Any) -> Any:
        self.state.library = self._choose_library()(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)

    def _choose_library(self) -> type[JITCodeLibrary]:
        return _KernelLibrary

    def _compile_core(self) -> Any:
        self.state.flags = _OwnFlags(self.state.flags)
        rtsys.initialize(self.state.targetctx)  # its library needs machine code
        with choose_library(self.state.targetctx.codegen(), _InlineLibrary):
            return super()._compile_core()


class _SmallCompiler(_KernelCompiler):
    """Compiler of kernels to short code."""

    is_small = True


class _HelperCompiler(_KernelCompiler):
    """Compiler of helpers: to LLVM code, but not to machine code."""

    def _choose_library(self) -> type[JITCodeLibrary]:
        return _InlineLibrary if self.state.flags.forceinline else _HelperLibrary


class _Notice(event.Listener):  # type: ignore[misc]
    """Log what is compiled and for how long, for each kernel that takes a second and after each second of shorter ones.

    numba reports compilations only, not code from the cache, and also those of helpers within that of a kernel.
    """

    def __init__(self) -> None:
        self.depth, self.began, self.short, self.total, self.logged = 0, 0.0, 0.0, 0.0, False

    def on_start(self, started: Any) -> None:
        self.depth += 1
        if self.depth > 1 or not _is_ours(started):
            return
        dispatcher = started.data["dispatcher"]
        cache = self._cache(dispatcher)
        expected = (None if cache is None else cache.load_seconds()) or estimate_seconds(dispatcher)
        self.began, self.short = time.monotonic(), self.short + expected
        if expected >= LEAST_SECONDS:
            self._log(dispatcher, f", about {expected:.0f} s")
        elif self.short >= LEAST_SECONDS:
            self._log(dispatcher, f" and others, {self.total:.0f} s so far")

    def on_end(self, ended: Any) -> None:
        self.depth -= 1
        if self.depth or not _is_ours(ended):
            return
        seconds = time.monotonic() - self.began
        self.total += seconds
        if cache := self._cache(ended.data["dispatcher"]):
            cache.save_seconds(seconds)

    @staticmethod
    def _cache(dispatcher: Any) -> KernelCache | None:
        cache = dispatcher._cache  # noqa: SLF001
        return cache if isinstance(cache, KernelCache) and cache.has_folder else None

    def _log(self, dispatcher: Any, duration: str) -> None:
        function = dispatcher.py_func
        what = f"pesn: compiling {function.__module__.removeprefix('pesn.')}.{function.__name__}{duration}"
        if self._cache(dispatcher) is None:
            what += " in each process; once, if NUMBA_CACHE_DIR names a folder to write to"
        elif not self.logged:
            what += ", once on this machine; `pesn warmup` compiles everything in advance"
        _notice.warning("%s", what)
        self.short, self.logged = 0.0, True


def _is_ours(happened: Any) -> bool:
    """Return whether an event is about a function of pesn."""
    module = happened.data["dispatcher"].py_func.__module__ or ""  # None of functions made by exec
    return bool(module.partition(".")[0] == "pesn")


def estimate_seconds(dispatcher: Any) -> float:
    """Return an estimate of the seconds that a kernel takes to compile, by the size of its code and of its helpers.

    Parameters
    ----------
    dispatcher : numba Dispatcher
        Kernel.

    Returns
    -------
    float
        Seconds on a processor of 2023.
    """
    seen, pending, size = set[str](), [dispatcher], 0
    while pending:
        function = pending.pop().py_func
        if (name := f"{function.__module__}.{function.__qualname__}") not in seen:
            seen.add(name)
            size += len(function.__code__.co_code)
            found = (function.__globals__.get(word) for word in function.__code__.co_names)
            pending += [one for one in found if isinstance(one, Dispatcher)]
    return _SECONDS_PER_FUNCTION * len(seen) + _SECONDS_PER_BYTE * size


event.register("numba:compile", _Notice())
