"""Results of finished items on disk, the journal of a run, and the backends that run items.

>>> decoded(encoded({"mean": (1.5, None), "seeds": [1, 2]}))
{'mean': (1.5, None), 'seeds': [1, 2]}

>>> from operator import pow
>>> with connected(jobs=1):
...     JoblibTasks().map(pow, [(2, 3), (3, 2)])
[8, 9]

>>> plain({"error": float("nan"), "bound": float("inf"), "means": (1, 2)})
{'error': None, 'bound': 'inf', 'means': [1, 2]}
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import re
import shlex
import stat
import struct
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np

from pesn._support.cluster import WAIT, client, versions, worker_processes
from pesn._support.files import LARGEST_JSON, RefusedFileError, check_archive, contents, json_of
from pesn._support.types import AnyArray
from pesn.paper.claims import CLAIMS, Record, Result, Settings, Tasks, Verdict
from pesn.paper.settings import changed, flat, written

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "WAIT",
    "JoblibTasks",
    "Journal",
    "KeepingError",
    "connected",
    "decoded",
    "encoded",
    "finished",
    "plain",
    "to_json",
    "versions",
    "write",
]


_HEAD = struct.Struct("<Q16s")  # of a record: its length and its checksum, which tells of damage, not of who wrote it


class KeepingError(OSError):
    """Results of units could not be kept: the disk is full, the folder is gone."""


class Journal:
    """Results of ``count`` units as they come, one record after the other in a file.

    ``found`` has those that are there: index of the unit -> its result, and the time and the CPU time of the work until then, in
    seconds. A record cut short by a kill, and all that is no record, is dropped at the opening.
    """

    def __init__(self, path: Path | None, count: int) -> None:
        self.found: dict[int, tuple[Any, float, float]] = {}
        self._count = count
        self._file: io.FileIO | None = None
        if path is None:
            return
        with _keeping():
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(path.lstat().st_mode):
                    path.unlink()  # a pipe would keep us waiting, a link would lead to a file that is none of ours
            extra = getattr(os, "O_NOFOLLOW", 0)
            self._file = io.FileIO(path, "a+", opener=lambda name, flags: os.open(name, flags | extra, 0o666))
            self._file.truncate(self._read(path.stat().st_size))

    def _read(self, size: int) -> int:
        """Fill ``found``; return where the last whole record ends."""
        assert self._file is not None
        self._file.seek(0)
        end = 0
        while len(head := self._file.read(_HEAD.size)) == _HEAD.size:
            length, checksum = _HEAD.unpack(head)
            record = self._file.read(min(length, size))
            if len(record) != length or _line_checksum(record) != checksum:
                break
            try:
                index, result, *seconds = decoded(record)
            except Exception:  # whatever a file does to zipfile, NumPy and json: it is none of ours
                break
            if type(index) is not int or not 0 <= index < self._count or [*map(type, seconds)] != [float, float]:
                break
            self.found[index] = result, seconds[0], seconds[1]
            end = self._file.tell()
        return end

    def add(self, index: int, result: object, seconds: float, cpu_seconds: float) -> None:
        """Keep the result of a unit; a TypeError where it could not be read back."""
        if self._file is None:
            return
        record = encoded((index, result, seconds, cpu_seconds))
        left = memoryview(_HEAD.pack(len(record), _line_checksum(record)) + record)
        with _keeping():
            while left:
                left = left[self._file.write(left) :]

    def close(self) -> None:
        """What was added is in the file."""
        if self._file is not None:
            self._file.close()


@contextlib.contextmanager
def _keeping() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KeepingError(error.errno, error.strerror, error.filename) from error


def _line_checksum(record: bytes) -> bytes:
    return hashlib.blake2b(record, digest_size=16).digest()


# Values as bytes. In the JSON lists are lists, and every object has one key, which says what it stands for.


def encoded(value: object) -> bytes:
    """The record of a value made of numbers, text, None, NumPy's numbers and arrays, and lists, tuples and dicts of them."""
    arrays: list[np.ndarray[Any, Any]] = []
    text = json.dumps(_tree(value, arrays)).encode()
    if len(text) > LARGEST_JSON:
        raise TypeError(f"a unit's result must have at most {LARGEST_JSON:,} bytes beside its arrays, got {len(text):,}")
    buffer = io.BytesIO()
    np.savez(buffer, np.frombuffer(text, np.uint8), *arrays)
    return buffer.getvalue()


def decoded(record: bytes) -> Any:
    """The value, of the same types; a record of anything else is an error, of whatever kind."""
    with ZipFile(io.BytesIO(record)) as archive:
        check_archive(archive, len(record))
    with np.load(io.BytesIO(record), allow_pickle=False) as arrays:
        text = arrays["arr_0"].tobytes()
        if len(text) > LARGEST_JSON:
            raise ValueError("too much JSON")
        return _value(json.loads(text), arrays)


def _tree(value: Any, arrays: list[AnyArray]) -> object:
    kind = type(value)  # exactly: a subclass would come back as something else
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [_tree(part, arrays) for part in value]
    if kind is tuple:
        return {"tuple": [_tree(part, arrays) for part in value]}
    if kind is dict:
        return {"dict": [[_tree(key, arrays), _tree(part, arrays)] for key, part in value.items()]}
    if (kind is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in "biufcmMSU":
        arrays.append(np.asarray(value))
        return {"array" if kind is np.ndarray else "scalar": len(arrays)}
    raise TypeError(
        "a unit's result must be made of numbers, text, None, NumPy's arrays, lists, tuples and dicts, "
        f"got {kind.__module__}.{kind.__qualname__}"
    )


def _value(tree: Any, arrays: Any) -> object:
    if isinstance(tree, list):
        return [_value(part, arrays) for part in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "tuple":
        return tuple(_value(part, arrays) for part in content)
    if kind == "dict":
        return {_value(key, arrays): _value(part, arrays) for key, part in content}
    array = arrays[f"arr_{int(content)}"]
    return {"array": array, "scalar": array[()]}[kind]


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

        Results must be what :func:`pesn.paper.runner.store.encoded` takes: numbers, text, None, arrays, lists, tuples, dicts.
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


_LARGEST = 2**28  # bytes of a figure or a frame


def write(
    item: ModuleType, settings: Settings, digest: str, result: Result, tasks: JoblibTasks, cores: int, folder: Path
) -> Record:
    """All files of an item, the record of them last; ``tasks`` know how long the work has taken, drawing included."""
    import matplotlib as mpl

    _flat(result.frame).to_csv(folder / "frame.csv", index=False)
    tables, files = {}, ["frame.csv"]
    for title, frame in result.tables.items():
        shown = _as_printed(_flat(frame), getattr(item, "PRINTED", ""))
        files.append(_unused(f"table-{_slug(title)}.csv", files))
        shown.to_csv(folder / files[-1], index=False)
        tables[title] = {"file": files[-1], "columns": list(shown.columns), "rows": shown.astype(object).to_numpy().tolist()}
    figures = []
    for name, (figure, alt) in result.figures.items():
        png = _unused(f"{_slug(name)}.png", files)
        svg = f"{png[:-4]}.svg"
        figure.savefig(folder / png, dpi=150)
        with mpl.rc_context({"svg.hashsalt": f"{item.NAME} {name}"}):  # the same figure, the same file
            figure.savefig(folder / svg, metadata={"Date": None})
        files += [png, svg]
        figures.append({"name": name, "png": png, "svg": svg, "alt": alt})
    command = ["pesn", "reproduce", item.NAME, *["--quick"] * settings.quick, "--seed", str(settings.seed)]
    own = changed(settings.parameters, item.parameters(settings.quick))
    for name, entry in own.items():
        command += ["--set", f"{name}={written(entry['value'])}"]
    record: Record = plain(
        {
            "name": item.NAME,
            "title": item.TITLE,
            "place": item.PLACE,
            "about": item.ABOUT,
            "lead": result.lead,
            "quick": settings.quick,
            "seed": settings.seed,
            "parameters": flat(settings.parameters),
            "changed": own,
            "meanings": {name: setting.meaning for name, setting in item.SETTINGS.items()},
            "published": item.PUBLISHED,
            "obtained": tables,
            "claims": [_claim(verdict) for verdict in result.verdicts],
            "errata": list(item.ERRATA),
            "notes": result.notes,
            "figures": figures,
            "files": {file: _checksum((folder / file).read_bytes()) for file in files},
            "seconds": round(tasks.seconds, 3),
            "cpu_seconds": round(tasks.cpu_seconds, 3),
            "cores": cores,
            "versions": versions(),
            "command": shlex.join(command),
            "digest": digest,
        }
    )
    record["checksum"] = _checksum(to_json(record).encode())
    (folder / "result.json").write_text(to_json(record), encoding="utf-8")
    return record


def _claim(v: Verdict) -> Record:
    """What a verdict is in the record: the draws as pairs of outcome and value."""
    draws = [list(draw) for draw in v.draws]
    return {
        "id": v.claim, "text": CLAIMS[v.claim].text, "verdict": v.verdict, "reason": v.reason,
        "draws": draws, "support": v.support, "measure": v.measure, "limits": list(v.limits),
    }  # fmt: skip


def finished(folder: Path, digest: str | None = None) -> Record | None:
    """The record of a result all of whose files are as they were written, with this digest if one is given; else None."""
    try:
        record = json_of(folder / "result.json")
        if digest not in (None, record["digest"]):
            return None
        written = {key: value for key, value in record.items() if key != "checksum"}
        whole = record["checksum"] == _checksum(to_json(written).encode()) and all(
            Path(file).name == file and _checksum(contents(folder / file, _LARGEST, links=False)) == checksum
            for file, checksum in record["files"].items()
        )
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, RefusedFileError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return record if whole else None


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


# Numbers and names as files have them


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with names of one level, and with its index as columns where that says something."""
    import pandas as pd

    kept = frame if isinstance(frame.index, pd.RangeIndex) and frame.index.name is None else frame.reset_index()
    names = [" ".join(str(part) for part in c if str(part)) if isinstance(c, tuple) else str(c) for c in kept.columns]
    return kept.set_axis(names, axis="columns")


def _as_printed(frame: pd.DataFrame, digits: str) -> pd.DataFrame:
    """What was published with the digits that it was printed with: ``digits`` is the format of most of them."""
    columns = {
        name: [_printed(value, digits) for value in frame[name]]
        for name in frame.columns
        if digits and "published" in str(name) and frame[name].dtype.kind == "f"
    }
    return frame.assign(**columns)


def _printed(value: float, digits: str) -> str | None:
    """A number as it was printed; where that takes more digits, all of them.

    >>> _printed(0.255, ".4f"), _printed(5.551, ".2f"), _printed(0.012, ".2e"), _printed(float("nan"), ".4f")
    ('0.2550', '5.551', '1.20e-02', None)
    """
    if math.isnan(value):
        return None
    text = format(value, digits)
    return text if float(text) == value else f"{value:.10g}"


def plain(value: object) -> Any:
    """The value in JSON's terms: NaN is null, infinities are "inf" and "-inf", frames are lists of rows."""
    if hasattr(value, "to_dict"):
        return plain(_flat(value).to_dict("records"))
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return plain(value.tolist())
    if isinstance(value, dict):
        return {_key(key): plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _key(key: object) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def to_json(value: object) -> str:
    """The text of a file; NaN, which JSON has not, is an error."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _slug(text: str) -> str:
    """A name for a file.

    >>> _slug("Table 3 (a): Position, P and MC")
    'table-3-a-position-p-and-mc'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80] or "x"


def _unused(name: str, used: Sequence[str]) -> str:
    stem, dot, kind = name.rpartition(".")
    return next(n for n in (name, *(f"{stem}-{i}{dot}{kind}" for i in range(2, len(used) + 3))) if n not in used)
