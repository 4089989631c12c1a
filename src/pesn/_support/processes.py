"""Processes that work is shared among by joblib: none outlives the one that started it, however that ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

__all__ = ["worker_processes"]

_PR_SET_PDEATHSIG = 1  # of prctl(2)


@contextlib.contextmanager
def worker_processes(jobs: int) -> Iterator[None]:
    """Inside, joblib shares work among ``jobs`` processes, with one thread each for linear algebra."""
    from joblib import parallel_config

    # Linux ends a worker when the thread ends that started it, so only the main one may ask for that.
    parent = os.getpid(), threading.current_thread() is threading.main_thread()
    options: Any = {"inner_max_num_threads": 1, "initializer": _end_with_parent, "initargs": parent}
    with contextlib.ExitStack() as stack:
        stack.enter_context(parallel_config("loky", n_jobs=jobs, **options))
        if jobs > 1:
            stack.push(_end_workers)
        yield


def _end_with_parent(parent: int, at_once: bool) -> None:
    """In a worker: ends with process ``parent``, which started it, however that ends; else its unit would go on for nobody.

    The number is given by the parent: asked for here it might be that of the process which adopts orphans.
    """
    if os.name != "posix":
        return
    if at_once and sys.platform == "linux":  # also while a unit keeps other threads from running
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    if os.getppid() != parent:  # it ended before the request above
        os._exit(1)
    threading.Thread(target=watch, daemon=True).start()


def _end_workers(kind: type[BaseException] | None, *_: object) -> None:
    """After an error or Ctrl-C the workers end at once, not after the units they are at."""
    if kind is not None:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True, kill_workers=True)
