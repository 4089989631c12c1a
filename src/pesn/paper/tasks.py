"""Engines that run the work units of items: this process, worker processes, or a Dask cluster.

>>> from operator import pow
>>> with engine(jobs=1):
...     JoblibTasks().map(pow, [(2, 3), (3, 2)])
[8, 9]
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from pesn._support.cluster import WAIT, client, worker_processes
from pesn._support.progress import Advance, nothing
from pesn.paper.claims import Tasks

T = TypeVar("T")


@contextlib.contextmanager
def engine(jobs: int = 1, scheduler: str | None = None) -> Iterator[int]:
    """Inside, :class:`JoblibTasks` run in ``jobs`` processes (1: in this one), or on the cluster of ``scheduler`` if given.

    Linear algebra has one thread everywhere: sums in another order would give other last digits. The value is the number of cores
    that can be busy at once; for a cluster, the number of threads of its workers.
    """
    from joblib import cpu_count, parallel_config
    from threadpoolctl import threadpool_limits

    with contextlib.ExitStack() as stack:
        if scheduler is not None:
            found = stack.enter_context(client(scheduler))
            stack.enter_context(parallel_config("dask", client=found, wait_for_workers_timeout=WAIT))
            cores = max(1, sum(found.nthreads().values()))
        else:
            stack.enter_context(worker_processes(jobs))
            cores = min(jobs, cpu_count())
        stack.enter_context(threadpool_limits(1))
        yield cores


class JoblibTasks(Tasks):
    """Work units on whatever :func:`connected` gave, in any order, their results in order.

    ``advance(n)`` is called where n more units are finished. ``seconds`` is the time since the start and ``cpu_seconds`` the CPU
    time of this process and of all units since then.
    """

    def __init__(self, advance: Advance = nothing) -> None:
        self._advance = advance
        self._start, self._cpu_start, self._cpu_of_workers = time.perf_counter(), time.process_time(), 0.0

    @property
    def seconds(self) -> float:
        """Time since the start, in seconds."""
        return time.perf_counter() - self._start

    @property
    def cpu_seconds(self) -> float:
        """CPU time since the start in seconds, of all processes."""
        return self._cpu_of_workers + time.process_time() - self._cpu_start

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[object, ...]]) -> list[T]:
        """Return ``function(*a)`` for each a, in order; functions must be top-level, arguments picklable."""
        from joblib import Parallel, delayed

        results: dict[int, T] = {}
        with contextlib.ExitStack() as stack:
            # Arguments go as one tuple: joblib would scatter large arrays to one worker of a cluster, and they would be lost
            # with it. No memory maps: in every engine a unit may write into its arguments, which are its own.
            # A worker that has grown by 300 MB is started anew: numba, SciPy and the tables of moments are as large, and no leak.
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            calls = (delayed(_run_unit)(function, i, a) for i, a in enumerate(arguments))
            finished = Parallel(return_as="generator_unordered", max_nbytes=None)(calls)
            for index, result, process, cpu_seconds in stack.enter_context(contextlib.closing(finished)):
                results[index] = result
                self._cpu_of_workers += cpu_seconds if process != os.getpid() else 0.0  # of this process, it is counted already
                self._advance(1)
        return [results[i] for i in range(len(results))]


def _run_unit(function: Callable[..., T], index: int, arguments: tuple[object, ...]) -> tuple[int, T, int, float]:
    """Run a unit in a worker: return its index and result, and the process and the CPU time that it took.

    Threads are limited for each unit anew: libraries loaded since the last one have threads of their own. A worker of a cluster
    may have several threads, each with a unit, so the CPU time is that of the thread.
    """
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    start = time.thread_time()
    result = function(*arguments)
    return index, result, os.getpid(), time.thread_time() - start
