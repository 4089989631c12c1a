"""Files of fitted series: numbers and names in a zip archive, read without running any code of it.

``series.json`` is the tree of records, arrays stand beside it as .npy files; ``pesn.json`` has the format's version and a digest
of all else. Only the records that are named here are built, each from its own fields.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from pesn._support.files import replacing
from pesn._support.reading import LARGEST_JSON, MANIFEST, RefusedError, digest, npy_array, one_line, regular, stored
from pesn._support.types import PathLike
from pesn.forecasting.time_index import TimeIndex
from pesn.series.fitted import FittedSeries
from pesn.series.joint import Joint
from pesn.series.members.closed_loops import Loops
from pesn.series.members.dynamics import Dynamics
from pesn.series.members.inputs import Effects
from pesn.series.members.smoothing import Grid
from pesn.series.members.widths import Widths
from pesn.series.univariate import Member, UnivariateModel

__all__ = ["is_series_file", "load", "save"]

_FORMAT = 1
_TREE = "series.json"
_LARGEST = 2**32  # bytes of a file
_RECORDS: dict[str, Any] = {
    one.__name__: one for one in (Dynamics, Effects, FittedSeries, Grid, Joint, Loops, Member, TimeIndex, UnivariateModel, Widths)
}


def save(fitted: FittedSeries, path: PathLike, note: Any = None) -> None:
    """Write it, whole or not at all, with a ``note`` that JSON can hold."""
    arrays: list[Any] = []
    tree = {"note": note, "fitted": _plain(fitted, arrays)}
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        archive.writestr(_TREE, json.dumps(tree, allow_nan=False))
        for i, array in enumerate(arrays):
            part = io.BytesIO()
            np.save(part, array, allow_pickle=False)
            archive.writestr(f"{i}.npy", part.getvalue())
        manifest = {
            "format": "pesn series",
            "format_version": _FORMAT,
            "pesn_version": version("pesn"),
            "sha256": digest(archive),
        }
        archive.writestr(MANIFEST, json.dumps(manifest))
    with replacing(path) as part_file:
        part_file.write_bytes(buffer.getvalue())


def is_series_file(path: PathLike) -> bool:
    """Whether a file is one that :func:`save` wrote, as far as its list of contents tells."""
    try:
        with regular(path, _LARGEST) as file, ZipFile(file) as archive:  # regular: a device may have no end
            return _TREE in archive.namelist()
    except (OSError, BadZipFile, ValueError):
        return False


def load(path: PathLike) -> tuple[FittedSeries, Any]:
    """What :func:`save` wrote, and its note; a file from elsewhere, changed or cut short is a ValueError."""
    with regular(path, _LARGEST) as file:
        try:
            with stored(file) as archive:
                tree = _tree(archive)
                unread = set(archive.namelist()) - {MANIFEST, _TREE}

                def array(number: Any) -> Any:
                    name = f"{number}.npy"
                    if name not in unread:
                        raise RefusedError(f"is damaged: it names the array {name} twice, or has none; save the model again")
                    unread.remove(name)
                    return npy_array(name, archive.read(name))

                fitted, note = _built(tree["fitted"], array), tree["note"]
                if type(fitted) is not FittedSeries:
                    raise RefusedError("is damaged: it holds no fitted series; save the model again")
        except BadZipFile:
            raise ValueError(f"{Path(path)} is not a file saved by pesn, or it was cut short") from None
        except RefusedError as error:
            raise ValueError(f"{Path(path)} {one_line(error)}") from None
        except MemoryError:
            raise MemoryError(f"{Path(path)} needs more memory than there is to be loaded") from None
        except Exception as error:
            raise ValueError(f"{Path(path)} is damaged ({type(error).__name__}); save the model again") from None
    try:
        fitted.check_stored()
        if unread:
            raise ValueError(f"no part of its model is in {min(unread)}")
        if note is not None and not (type(note) is dict and type(note.get("parameters", {})) is dict):
            raise ValueError("its note must have parameters by name")
    except MemoryError:
        raise MemoryError(f"{Path(path)} needs more memory than there is to be loaded") from None
    except Exception as error:
        raise ValueError(f"{Path(path)} is damaged: {one_line(error)}; save the model again") from None
    return fitted, note


def _tree(archive: ZipFile) -> Any:
    """The tree of an archive that says what it is, and is as it was written."""
    if MANIFEST not in archive.namelist() or archive.getinfo(MANIFEST).file_size > LARGEST_JSON:
        raise RefusedError("is not a file saved by pesn")
    manifest = json.loads(archive.read(MANIFEST))
    if manifest.get("format") != "pesn series" or _TREE not in archive.namelist():
        raise RefusedError("is not a file of pesn.SeriesForecaster")
    found = manifest["format_version"]
    if type(found) is not int or found < 1:
        raise RefusedError("is not a file saved by pesn")
    if found > _FORMAT:
        raise RefusedError(f"was saved by pesn {manifest['pesn_version']} in a newer format; update pesn")
    if manifest["sha256"] != digest(archive):
        raise RefusedError("was changed after pesn saved it: its digest does not match")
    if archive.getinfo(_TREE).file_size > LARGEST_JSON:
        raise RefusedError(f"has more than {LARGEST_JSON:,} bytes of {_TREE}")
    return json.loads(archive.read(_TREE))


def _plain(value: Any, arrays: list[Any]) -> Any:
    """A tree for JSON: records by their names and fields, arrays by their number, what JSON has no word for by its kind."""
    if is_dataclass(value) or hasattr(value, "_fields"):
        name = type(value).__name__
        if _RECORDS.get(name) is not type(value):
            raise TypeError(f"a {name} cannot be saved")
        names = [field.name for field in fields(value)] if is_dataclass(value) else value._fields
        return {"record": name, "fields": {field: _plain(getattr(value, field), arrays) for field in names}}
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        return _plain(value.item(), arrays)
    if isinstance(value, (tuple, list)):
        return {"tuple": [_plain(one, arrays) for one in value]}
    if isinstance(value, Mapping):
        return {"dict": {str(key): _plain(one, arrays) for key, one in value.items()}}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be saved")


def _built(tree: Any, array: Callable[[int], Any]) -> Any:
    """What :func:`_plain` was given."""
    if not isinstance(tree, dict):
        return tree
    [kind] = set(tree) - {"fields"}
    body = tree[kind]
    if kind == "record":
        if body not in _RECORDS:
            raise RefusedError(f"is damaged: it holds {body!r}, which is not part of a series; save the model again")
        return _RECORDS[body](**{name: _built(one, array) for name, one in tree["fields"].items()})
    if kind == "array":
        return array(body)
    if kind == "tuple":
        return tuple(_built(one, array) for one in body)
    if kind == "dict":
        return {name: _built(one, array) for name, one in body.items()}
    return float(body)
