"""Results of work units kept on disk as they come, so that a run that was killed goes on; no code of a file runs when it is read.

A record is an .npz archive: JSON first, which says how the value is made, then its arrays. Only what is written here is ever
read back, so what would not come back as it was is refused when it is written.

>>> decoded(encoded({"mean": (1.5, None), "seeds": [1, 2]}))
{'mean': (1.5, None), 'seeds': [1, 2]}
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pesn._support.reading import LARGEST_JSON, stored
from pesn._support.types import AnyArray

__all__ = ["Journal", "KeepingError", "decoded", "encoded"]

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
            if len(record) != length or _checksum(record) != checksum:
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
        left = memoryview(_HEAD.pack(len(record), _checksum(record)) + record)
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


def _checksum(record: bytes) -> bytes:
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
    with stored(io.BytesIO(record)), np.load(io.BytesIO(record), allow_pickle=False) as arrays:
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
