"""Finished chunks of a long run in a folder, so that a run which was killed goes on where it stopped.

A file is named by a digest of all that its numbers depend on: the rows, the inputs, what was asked, pesn's version. Other data or
other settings have other names; files of theirs are left alone. Nothing is unpickled: numbers and a text of JSON are read.
"""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from pesn._support.files import replacing
from pesn._support.types import PathLike
from pesn.series.panel.work import Blocks, Chunk, Task

__all__ = ["digest", "folder_of", "read", "write"]


def folder_of(checkpoint: PathLike) -> Path:
    """The folder, made where it is not there; a ValueError where it cannot be one."""
    folder = Path(checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"checkpoint must be a folder, got the file {str(checkpoint)!r}") from None
    return folder


def digest(part: Chunk, task: Task) -> str:
    """Of what the numbers of a chunk depend on; the places of its series in the panel are not among it."""
    seasons = task.seasons if isinstance(task.seasons, str) else np.ravel(np.asarray(task.seasons, object)).tolist()
    asked = [version("pesn"), str(part.time.step), part.time.kind, *map(repr, task._replace(seasons=None)), repr(seasons)]
    total = hashlib.sha256("\n".join(asked).encode())
    for arrays in (part.y, part.x, part.ahead or ()):
        for array in arrays:
            total.update(f"{array.shape}".encode())
            total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def write(folder: Path, name: str, part: Chunk, blocks: Blocks) -> None:
    """Keep what came of a chunk, whole or not at all."""
    place = {number: i for i, number in enumerate(part.series)}
    facts: dict[str, dict[int, Any]] = {"failures": blocks.failures, "seasons": blocks.seasons, "shares": blocks.shares}
    note = {name: {place[number]: fact for number, fact in found.items()} for name, found in facts.items()}
    series = np.array([place[int(number)] for number in blocks.series], np.int64)
    with replacing(folder / f"{name}.npz") as path:
        np.savez(path, series=series, origin=blocks.origin, values=blocks.values, note=np.array(json.dumps(note)))


def read(folder: Path, name: str, part: Chunk, task: Task) -> Blocks | None:
    """What :func:`write` kept; None where there is nothing, or something damaged: then it is done again."""
    try:
        with open(folder / f"{name}.npz", "rb") as opened, np.load(opened, allow_pickle=False) as file:
            series, origin, values, text = (file[key] for key in ("series", "origin", "values", "note"))
        note = json.loads(str(text))
        numbers = np.array(part.series, np.int64)
        if values.shape != (len(series), task.steps, len(task.quantiles)) or origin.shape != series.shape:
            return None
        failures = {part.series[int(i)]: str(reason) for i, reason in note["failures"].items()}
        seasons = {part.series[int(i)]: tuple(int(m) for m in periods) for i, periods in note["seasons"].items()}
        shares = {
            part.series[int(i)]: {str(kind): float(one) for kind, one in each.items()} for i, each in note["shares"].items()
        }
        return Blocks(numbers[series], origin, values, failures, seasons, shares)
    except (OSError, ValueError, KeyError, IndexError, TypeError, EOFError, BadZipFile):
        return None
