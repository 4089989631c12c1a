"""Threads: one for many small matrix products, which are slower with two; several for the parts of a long array."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array, FloatArray

_Result = TypeVar("_Result")
_lock, _inside = threading.Lock(), 0
_limit: Any = None
_threads_before: list[int] = []
_LEAST = 2**18  # elements per thread: milliseconds of work, more than its start
_ROUND = 2**12  # parts begin at blocks of the kernels, so that results are equal to the bit for any number of parts


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit matrix products to one thread, in a block or, as a decorator, in a function.

    The matrices are small: a second thread spins while it waits, and on busy processors a call would take several times its CPU
    time. The last of several threads that leaves restores the previous number.
    """
    global _inside, _limit, _threads_before
    with _lock:
        if _inside == 0:
            _threads_before = _blas_threads()
            _limit = _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()


@lru_cache(maxsize=2)
def _controller(has_scipy: bool) -> Any:
    """Return the controller of the loaded libraries; the search is slow and repeated only when SciPy has loaded its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _blas_threads() -> list[int]:
    """Return the number of threads of each library of matrix products."""
    libraries = _controller("scipy.linalg" in sys.modules).lib_controllers
    return [library.get_num_threads() for library in libraries if library.user_api == "blas"]


def n_threads() -> int:
    """Return the number of threads for a long computation: one in a thread or process that is itself one of several workers.

    Elsewhere it is the number of processors of this process, but at most ``NUMBA_NUM_THREADS``, ``OMP_NUM_THREADS`` or the
    threads of matrix products, which follow threadpoolctl and the variables of their library, before :func:`one_blas_thread`.
    """
    if threading.current_thread() is not threading.main_thread() or multiprocessing.parent_process() is not None:
        return 1
    from joblib import cpu_count  # respects affinities and quotas of containers

    limits = [os.environ.get(name, "") for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")]
    with _lock:
        blas = _threads_before if _inside else _blas_threads()
    return max(1, min([int(cpu_count()), *(int(limit) for limit in limits if limit.isdecimal()), *blas]))


def by_parts(work: Callable[[slice], _Result], size: int) -> list[_Result]:
    """Return the result of ``work`` for each part of ``size`` elements: one part, or one per thread for half a million or more.

    The threads end with the call: nothing is left for a fork to inherit.
    """
    count = min(size // _LEAST, n_threads()) if size >= 2 * _LEAST else 1
    if count < 2:
        return [work(slice(0, size))]
    step = -(-size // (count * _ROUND)) * _ROUND
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, [slice(start, min(start + step, size)) for start in range(0, size, step)]))


def source(values: FloatArray, dtype: npt.DTypeLike) -> FloatArray:
    """Return a contiguous, read-only array, so that kernels are compiled for one array type."""
    given = np.ascontiguousarray(values, dtype=dtype).view()
    given.flags.writeable = False
    return given


def fill(
    kernels: tuple[Callable[..., Any], ...], fixed: tuple[Any, ...], mean: FloatArray, var: FloatArray, n_rows: int
) -> Array:
    """Fill rows (n_rows, n) by the first kernel and, if it returns a count of unfinished elements, by the second."""
    out = np.empty((n_rows, mean.size))  # one allocation: the allocator reuses it, but returns two to the system
    arrays = source(mean, np.float64), source(var, np.float64), *out

    def fill_part(part: slice) -> None:
        given = *fixed, *(each[part] for each in arrays)
        if kernels[0](*given):
            kernels[1](*given)

    by_parts(fill_part, mean.size)
    return out
