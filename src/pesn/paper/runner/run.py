"""The paper's items run, kept and gathered: a folder for each, and a page over all.

A result is known by its digest: of the item's name, parameters, seed and the code that makes it. What is there with the same
digest is not made again. A folder is written under another name and renamed when it is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pesn import paper
from pesn._support.arguments import flag, whole_number
from pesn._support.files import beside, json_of, put_folder, replacing, sync
from pesn.paper.claims import Record, Result, Settings
from pesn.paper.runner.store import JoblibTasks, KeepingError, connected, finished, plain, to_json, versions, write
from pesn.paper.settings import chosen, unknown

__all__ = ["ItemError", "Watch", "reproduce"]

_SHOWN = ("__main__.py", "cli/", "paper/runner/", "paper/page/", "_support/pages/")  # runs and shows: no number depends on it


class ItemError(RuntimeError):
    """An item or the page could not be made: which one, what went wrong, where."""


class Watch:
    """Told how a run goes on; this one keeps it to itself."""

    def started(self, name: str, position: int, count: int) -> None:
        """Item ``name``, the ``position``-th of ``count``, begins; not told where its result is there.

        Parameters
        ----------
        name
            Of the item.
        position, count
            The position-th of so many, counted from 1.
        """

    def units(self, done: int, total: int) -> None:
        """So many work units of the item are done, of those known so far.

        Parameters
        ----------
        done, total
            Units of work; ``total`` grows as more become known.
        """

    def finished(self, record: Record, reused: bool) -> None:
        """The item's result is in its folder; ``reused`` where it was there before.

        Parameters
        ----------
        record
            What results.json has for the item.
        reused
            Whether it was there before.
        """


def reproduce(
    names: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    quick: bool = False,
    seed: int = 0,
    jobs: int = 1,
    scheduler: str | None = None,
    watch: Watch | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[Record]:
    """Make the items called ``names`` (none: all), in ``folder/NAME``, and the page ``folder/index.html``; return their records.

    What was finished before an error is kept.

    Parameters
    ----------
    names
        Of items; none: all.
    folder
        Results go to ``folder/NAME``, the page to ``folder/index.html``.
    quick
        Take small samples.
    seed
        Of everything that is drawn.
    jobs, scheduler
        Processes that units of work run in, or the address of a Dask scheduler, such as "tcp://127.0.0.1:8786"; the numbers are
        the same.
    watch
        Is told what begins, how far it is, and what is finished.
    settings
        Of the items, by name, in place of the default ones; of several items each takes those that it has.

    Returns
    -------
    list of dict
        A record for each item, in their order.
    """
    flag("quick", quick)
    whole_number("seed", seed, 0)
    whole_number("jobs", jobs, 1)
    items = [paper.get(name) for name in dict.fromkeys(names or paper.ITEMS)]
    if not os.fspath(folder):
        raise ValueError("folder must be the path of a folder, got ''")
    folder, watch = Path(folder), watch or Watch()
    parameters = _parameters(items, quick, settings or {})
    with _naming(folder), _held(folder):
        if (folder / "index.html").exists() and not (folder / "results.json").exists():
            raise OSError("index.html is in the way, and is no page of results: move it away, or give another folder")
        for item in items:
            _check_replaceable(folder / item.NAME)
        taken = [Settings(quick, seed, own) for own in parameters]
        digests = [_digest(item, own) for item, own in zip(items, taken, strict=True)]
        records = [finished(folder / item.NAME, digest) for item, digest in zip(items, digests, strict=True)]
        all_there = None not in records
        with contextlib.ExitStack() as stack:
            cores = stack.enter_context(connected(jobs, scheduler)) if not all_there else 0
            for i, (item, own, digest) in enumerate(zip(items, taken, digests, strict=True)):
                record = records[i]
                reused = record is not None
                if record is None:
                    watch.started(item.NAME, i + 1, len(items))
                    record = records[i] = _make(item, own, digest, folder, cores, watch)
                    _gather(folder)
                watch.finished(record, reused)
        if all_there:
            _gather(folder)
        with contextlib.suppress(OSError):  # not empty: an item that was broken off, with other settings
            (folder / ".cache").rmdir()
    return [record for record in records if record is not None]


def _parameters(items: Sequence[ModuleType], quick: bool, given: Mapping[str, Any]) -> list[Record]:
    """Of each item; a setting must be one of them at least."""
    known = {name: item.NAME for item in items for name in item.SETTINGS}
    for name in given:
        if name not in known:
            raise unknown(name, items[0].NAME if len(items) == 1 else "these items", known)
    return [
        chosen(
            item.NAME,
            item.SETTINGS,
            item.parameters(quick),
            {name: value for name, value in given.items() if name in item.SETTINGS},
        )
        for item in items
    ]


def _make(item: ModuleType, settings: Settings, digest: str, folder: Path, cores: int, watch: Watch) -> Record:
    """Run an item, write its folder, put it in its place."""
    cache = folder / ".cache" / item.NAME
    tasks = JoblibTasks(cache / digest, watch.units)
    try:
        result: Result = item.run(settings, tasks)
    except (KeepingError, ConnectionError, MemoryError):
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = next((frame for frame in reversed(frames) if frame.filename == item.__file__), frames[-1])
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ItemError(f"{item.NAME} failed: {what} ({place.filename}:{place.lineno})") from error
    temporary = beside(folder / item.NAME)
    try:
        temporary.mkdir()
        record = write(item, settings, digest, result, tasks, cores, temporary)
        sync(*temporary.iterdir())
        put_folder(temporary, folder / item.NAME)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    shutil.rmtree(cache, ignore_errors=True)
    return record


def _digest(item: ModuleType, settings: Settings) -> str:
    """What the result is known by; the code is that of pesn, without the other items and without what runs and shows them."""
    others = {f"{module.replace('.', '/')}.py" for module in paper.ITEMS.values() if module != item.__name__}
    root = Path(paper.__file__).parents[1]
    code = hashlib.blake2b(Path(item.__file__ or "").read_bytes())
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root).as_posix()
        if not place.startswith(_SHOWN) and f"pesn/{place}" not in others:
            code.update(f"{place}\0".encode() + path.read_bytes())
    settled = plain([item.NAME, settings.quick, settings.seed, settings.parameters, versions()["pesn"], code.hexdigest()])
    return hashlib.blake2b(json.dumps(settled, sort_keys=True).encode(), digest_size=16).hexdigest()


# The folder of all


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The folder, there and writable, held by this run alone and without what a killed one left half-written."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError):  # no locks on Windows
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OSError("another run is writing to it") from None
        with tempfile.TemporaryFile(dir=folder):
            pass
        for left in folder.glob(".*.part"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _check_replaceable(place: Path) -> None:
    """An OSError where a result would take the place of what is none."""
    if not os.path.lexists(place) or (not place.is_symlink() and (place / "result.json").is_file()):
        return
    # a result that has lost its record: every file is one that results.json has for it
    if place.is_symlink() or not place.is_dir() or not {path.name for path in place.iterdir()} <= _known_files(place):
        raise OSError(f"{place.name} is in the way, and is no result: move it away, or give another folder")


def _known_files(place: Path) -> set[str]:
    try:
        return {
            file for record in json_of(place.parent / "results.json") if record["name"] == place.name for file in record["files"]
        }
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _gather(folder: Path) -> None:
    """``results.json`` and the page, of all results in the folder."""
    from pesn.paper.page import write_page

    found = [record for name in paper.ITEMS if (record := finished(folder / name)) is not None]
    with replacing(folder / "results.json") as temporary:
        temporary.write_text(to_json(found), encoding="utf-8")
    try:
        write_page(folder, [record["name"] for record in found])
    except ValueError as error:  # a result.json of someone else's
        raise ItemError(f"the page cannot be made: {error}") from error


@contextlib.contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Errors of files name the folder that was asked for."""
    try:
        yield
    except ConnectionError:
        raise
    except OSError as error:
        raise OSError(f"cannot write to {folder}: {error.strerror or error}") from error
