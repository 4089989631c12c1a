"""Work units of items: the engines that run them, and the results of finished units on disk.

>>> decode(encode({"mean": (1.5, None), "seeds": [1, 2]}))
{'mean': (1.5, None), 'seeds': [1, 2]}

>>> from operator import pow
>>> with connected(jobs=1):
...     JoblibTasks().map(pow, [(2, 3), (3, 2)])
[8, 9]
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZipFile

import numpy as np

from pesn._support.cluster import WAIT, client, worker_processes
from pesn._support.files import LARGEST_JSON, check_archive, contents, replacing
from pesn._support.progress import Advance, nothing
from pesn._support.types import AnyArray
from pesn.paper.claims import Tasks

T = TypeVar("T")
LARGEST = 2**28  # bytes of a file


# ---------------------------------------------------------------- values as bytes
# In the JSON lists are lists, and every object has one key, which says what it stands for.


def encode(value: object) -> bytes:
    """Return the bytes of a value: numbers, text, None, NumPy's numbers and arrays, and lists, tuples and dicts of them."""
    arrays: list[AnyArray] = []
    text = json.dumps(_encode_tree(value, arrays)).encode()
    if len(text) > LARGEST_JSON:
        raise TypeError(f"a unit's result must have at most {LARGEST_JSON:,} bytes beside its arrays, got {len(text):,}")
    buffer = io.BytesIO()
    np.savez(buffer, np.frombuffer(text, np.uint8), *arrays)
    return buffer.getvalue()


def decode(record: bytes) -> Any:
    """Return the value, of the same types; a record of anything else is an error, of whatever kind."""
    with ZipFile(io.BytesIO(record)) as archive:
        check_archive(archive, len(record))
    with np.load(io.BytesIO(record), allow_pickle=False) as arrays:
        text = arrays["arr_0"].tobytes()
        if len(text) > LARGEST_JSON:
            raise ValueError("too much JSON")
        return _decode_tree(json.loads(text), arrays)


def _encode_tree(value: Any, arrays: list[AnyArray]) -> object:
    kind = type(value)  # exactly: a subclass would come back as something else
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (list, tuple):
        parts = [_encode_tree(part, arrays) for part in value]
        return parts if kind is list else {"tuple": parts}
    if kind is dict:
        return {"dict": [_encode_tree(list(item), arrays) for item in value.items()]}
    if (kind is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in "biufcmMSU":
        arrays.append(np.asarray(value))
        return {"array" if kind is np.ndarray else "scalar": len(arrays)}
    raise TypeError(
        "a unit's result must be made of numbers, text, None, NumPy's arrays, lists, tuples and dicts, "
        f"got {kind.__module__}.{kind.__qualname__}"
    )


def _decode_tree(tree: object, arrays: Mapping[str, AnyArray]) -> Any:
    if isinstance(tree, list):
        return [_decode_tree(part, arrays) for part in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind in ("tuple", "dict"):
        return {"tuple": tuple, "dict": dict}[kind](_decode_tree(content, arrays))
    array = arrays[f"arr_{int(content)}"]
    return {"array": array, "scalar": array[()]}[kind]


# ---------------------------------------------------------------- finished units


class KeepingError(OSError):
    """Results of units could not be kept: the disk is full, the folder is gone."""


class UnitFiles:
    """Results of ``count`` units, a file each in a folder, by the unit's number; kept nowhere where the folder is None.

    ``found`` has those that are there: number of the unit -> its result, and the time and the CPU time of the work until then, in
    seconds. A file that is damaged or not ours goes at the opening.
    """

    def __init__(self, folder: Path | None, count: int) -> None:
        self._folder = folder
        self.found: dict[int, tuple[Any, float, float]] = {}
        if folder is not None:
            with _keeping():
                folder.mkdir(parents=True, exist_ok=True)
                for index in range(count):
                    self._read(index, folder / f"{index}.npz")

    def _read(self, index: int, path: Path) -> None:
        try:
            result, seconds, cpu_seconds = decode(contents(path, LARGEST, links=False))
            self.found[index] = result, float(seconds), float(cpu_seconds)
        except Exception:  # whatever a file does to zipfile, NumPy and json; a pipe or a link is not opened
            path.unlink(missing_ok=True)

    def add(self, index: int, result: object, seconds: float, cpu_seconds: float) -> None:
        """Keep the result of a unit; a TypeError where it could not be read back."""
        if self._folder is not None:
            record = encode((result, seconds, cpu_seconds))
            with _keeping(), replacing(self._folder / f"{index}.npz") as part:
                part.write_bytes(record)


@contextlib.contextmanager
def _keeping() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KeepingError(error.errno, error.strerror, error.filename) from error


# ---------------------------------------------------------------- engines


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

    ``advance(n)`` is called where n more units are finished. With a ``folder`` results are kept there as they come, and units
    found there are not run again. ``seconds`` is the time since the start and ``cpu_seconds`` the CPU time of this process and of
    all units since then, earlier runs of the same units included.
    """

    def __init__(self, folder: Path | None = None, advance: Advance = nothing) -> None:
        self._folder, self._advance, self._calls = folder, advance, 0
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

    def map(self, function: Callable[..., T], arguments: Iterable[tuple[object, ...]]) -> list[T]:
        """``function(*a)`` for each a, in order; functions must be top-level, arguments picklable.

        Results must be what :func:`encode` takes: numbers, text, None, arrays, lists, tuples, dicts.
        """
        from joblib import Parallel, delayed
        from joblib import hash as content

        arguments = list(arguments)
        self._calls += 1  # the same call made twice is two calls: what is measured in it may differ
        place = None if self._folder is None else self._folder / f"{self._calls}-{content((function, arguments))}"
        files = UnitFiles(place, len(arguments))
        results: dict[int, T] = {index: result for index, (result, _, _) in files.found.items()}
        self._before = max([self._before, *(seconds for _, seconds, _ in files.found.values())])
        self._cpu_before = max([self._cpu_before, *(seconds for _, _, seconds in files.found.values())])
        self._advance(len(results))
        with contextlib.ExitStack() as stack:
            # Arguments go as one tuple: joblib would scatter large arrays to one worker of a cluster, and they would be lost
            # with it. No memory maps: in every engine a unit may write into its arguments, which are its own.
            # A worker that has grown by 300 MB is started anew: numba, SciPy and the tables of moments are as large, and no leak.
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            calls = (delayed(_run_unit)(function, i, a) for i, a in enumerate(arguments) if i not in files.found)
            finished = Parallel(return_as="generator_unordered", max_nbytes=None)(calls)
            for index, result, process, cpu_seconds in stack.enter_context(contextlib.closing(finished)):
                results[index] = result
                self._cpu_of_workers += cpu_seconds if process != os.getpid() else 0.0  # of this process, it is counted already
                files.add(index, result, self.seconds, self.cpu_seconds)
                self._advance(1)
        return [results[i] for i in range(len(arguments))]


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
