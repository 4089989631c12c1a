"""Where work units run: in this process, in processes of this machine, or on a Dask cluster; all by joblib.

>>> from operator import pow
>>> with connected(jobs=1):
...     JoblibTasks().map(pow, [(2, 3), (3, 2)])
[8, 9]
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pesn._support.cluster import WAIT, client, versions
from pesn._support.processes import worker_processes
from pesn.paper.result import Tasks
from pesn.paper.runner.journal import Journal

__all__ = ["WAIT", "JoblibTasks", "connected", "versions"]


@contextlib.contextmanager
def connected(jobs: int = 1, scheduler: str | None = None) -> Iterator[int]:
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

    ``progress(done, total)`` is told of each finished unit. With a ``folder`` results are kept there as they come, and units
    found there are not run again. ``seconds`` is the time since the start and ``cpu_seconds`` the CPU time of this process and of
    all units since then, earlier runs of the same units included.
    """

    def __init__(self, folder: Path | None = None, progress: Callable[[int, int], None] | None = None) -> None:
        self._folder, self._progress = folder, progress
        self._calls = self._done = self._total = 0
        self._start, self._before = time.perf_counter(), 0.0
        self._cpu_start, self._cpu_before, self._cpu_of_workers = time.process_time(), 0.0, 0.0

    @property
    def seconds(self) -> float:
        """Seconds of work behind the results, those found in the folder included."""
        return self._before + time.perf_counter() - self._start

    @property
    def cpu_seconds(self) -> float:
        """CPU time behind the results in seconds, of all processes, those found in the folder included."""
        return self._cpu_before + self._cpu_of_workers + time.process_time() - self._cpu_start

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """``function(*a)`` for each a, in order; functions must be top-level, arguments picklable.

        Results must be what :func:`pesn.paper.runner.journal.encoded` takes: numbers, text, None, arrays, lists, tuples, dicts.
        """
        from joblib import Parallel, delayed

        arguments = list(arguments)
        with contextlib.ExitStack() as stack:
            journal = stack.enter_context(contextlib.closing(self._journal(function, arguments)))
            results = {index: result for index, (result, _, _) in journal.found.items()}
            self._before = max([self._before, *(seconds for _, seconds, _ in journal.found.values())])
            self._cpu_before = max([self._cpu_before, *(seconds for _, _, seconds in journal.found.values())])
            self._tell(len(results), len(arguments))
            missing = [i for i in range(len(arguments)) if i not in results]
            # Arguments go as one tuple: joblib would scatter large arrays to one worker of a cluster, and they would be lost
            # with it. No memory maps: in every engine a unit may write into its arguments, which are its own.
            # A worker that has grown by 300 MB is started anew: numba, SciPy and the tables of moments are as large, and no leak.
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            calls = (delayed(_unit)(function, i, arguments[i]) for i in missing)
            finished = Parallel(return_as="generator_unordered", max_nbytes=None)(calls)
            for index, result, process, cpu_seconds in stack.enter_context(contextlib.closing(finished)):
                results[index] = result
                self._cpu_of_workers += cpu_seconds if process != os.getpid() else 0.0  # of this process, it is counted already
                journal.add(index, result, self.seconds, self.cpu_seconds)
                self._tell(1, 0)
        return [results[i] for i in range(len(arguments))]

    def _tell(self, done: int, more: int) -> None:
        self._done, self._total = self._done + done, self._total + more
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _journal(self, function: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> Journal:
        from joblib import hash as content

        self._calls += 1  # the same call made twice is two calls: what is measured in it may differ
        path = None if self._folder is None else self._folder / f"{self._calls}-{content((function, arguments))}"
        return Journal(path, len(arguments))


def _unit(function: Callable[..., Any], index: int, arguments: tuple[Any, ...]) -> tuple[int, Any, int, float]:
    """Run a unit in a worker: return its index and result, and the process and the CPU time that it took.

    Threads are limited for each unit anew: libraries loaded since the last one have threads of their own. A worker of a cluster
    may have several threads, each with a unit, so the CPU time is that of the thread.
    """
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    start = time.thread_time()
    result = function(*arguments)
    return index, result, os.getpid(), time.thread_time() - start
