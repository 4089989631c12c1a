"""Threads: one for matrix products that are many and small, where a second is slower; several for the parts of a long array."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, TypeVar

_Result = TypeVar("_Result")
_lock, _inside = threading.Lock(), 0
_limit: AbstractContextManager[Any] | None = None
_LEAST = 2**18  # elements for a thread: milliseconds of work, beside which its start does not count
_ROUND = 2**12  # parts begin where a kernel's blocks do, so that results are the same to the bit however many there are


def one_blas_thread() -> AbstractContextManager[Any]:
    """Within it, products of matrices take one thread; as many as before after it."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


@contextmanager
def one_blas_thread_in_all() -> Iterator[None]:
    """As :func:`one_blas_thread`, where several threads may be inside at once: the last one out puts back what was before."""
    global _inside, _limit
    with _lock:
        _inside += 1
        if _inside == 1:
            _limit = one_blas_thread()
            _limit.__enter__()
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _limit is not None:
                _limit.__exit__(None, None, None)
                _limit = None


@lru_cache(maxsize=1)
def _controller() -> Any:
    """To look for the libraries that are loaded takes a while: once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def n_threads() -> int:
    """How many threads a long computation may take: one in a thread or process that is itself one of several workers.

    Elsewhere the processors that this process may use, but no more than ``NUMBA_NUM_THREADS``, ``OMP_NUM_THREADS`` or matrix
    products, which obey threadpoolctl and their library's own variables.
    """
    if threading.current_thread() is not threading.main_thread() or multiprocessing.parent_process() is not None:
        return 1
    from joblib import cpu_count  # sees affinities and the quotas of containers

    limits = [os.environ.get(name, "") for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")]
    blas = [library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"]
    return max(1, min([int(cpu_count()), *(int(limit) for limit in limits if limit.isdecimal()), *blas]))


def by_parts(work: Callable[[slice], _Result], size: int) -> list[_Result]:
    """What ``work`` gives for each part of ``size`` elements: one part, or from half a million elements on one for each thread.

    The threads end with the call: nothing is left for a fork to inherit.
    """
    count = min(size // _LEAST, n_threads()) if size >= 2 * _LEAST else 1
    if count < 2:
        return [work(slice(0, size))]
    step = -(-size // (count * _ROUND)) * _ROUND
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, [slice(start, min(start + step, size)) for start in range(0, size, step)]))
