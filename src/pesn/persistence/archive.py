"""The container of a saved model: a zip archive with a manifest and a digest, and how much of it is read."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from importlib.metadata import version
from typing import IO, Any, NamedTuple
from zipfile import BadZipFile, ZipFile

from pesn._support.reading import MANIFEST, RefusedError, digest, npy_array, stored

__all__ = [
    "FORMAT",
    "LARGEST",
    "MOST",
    "Contents",
    "RefusedError",
    "check_container",
    "check_sizes_of_arrays",
    "digest",
    "pack",
    "unpack",
    "with_schema",
]

FORMAT = 9  # raised when an older pesn could not read what is written; all formats from 1 are read
LARGEST = 2**32  # bytes of a file
_SCHEMA, _NOTE = "schema.json", "note.json"
MOST = {MANIFEST: 2**12, _SCHEMA: 2**24, _NOTE: 2**24}  # bytes of JSON: read, it takes many times as many


class Contents(NamedTuple):
    """What stands in an archive beside its arrays: its format, skops' schema, the note, the names of the other members."""

    format: int
    schema: Any
    note: Any
    members: set[str]


def pack(data: bytes, note: Any, audit: Callable[[Any], None]) -> bytes:
    """skops' archive with a manifest and a ``note``, None for none; ``audit`` refuses a schema that could not be read back."""
    buffer = io.BytesIO(data)
    with ZipFile(buffer, "a") as archive:
        audit(json.loads(archive.read(_SCHEMA)))
        if note is not None:
            archive.writestr(_NOTE, json.dumps(note))
        manifest = {
            "format": "pesn",
            "format_version": FORMAT,
            "pesn_version": version("pesn"),
            "sha256": digest(archive),
        }
        archive.writestr(MANIFEST, json.dumps(manifest))
        _check_sizes(archive)
    if buffer.tell() > LARGEST:
        raise RefusedError(f"its file would have {buffer.tell():,} bytes, and {LARGEST:,} are the most")
    return buffer.getvalue()


def unpack(data: bytes) -> Contents:
    """What an archive says of itself; a foreign or a changed one, or one of a newer format, is refused."""
    check_container(io.BytesIO(data))
    with ZipFile(io.BytesIO(data)) as archive:
        manifest = json.loads(archive.read(MANIFEST))
        found = manifest["format_version"]
        if manifest["format"] != "pesn" or type(found) is not int or found < 1:
            raise RefusedError("is not a file saved by pesn")
        if found > FORMAT:
            raise RefusedError(
                f"was saved by pesn {manifest['pesn_version']} in format {found}; this is pesn {version('pesn')}, "
                f"which reads formats up to {FORMAT}; update pesn"
            )
        if digest(archive) != manifest["sha256"]:
            raise RefusedError("was changed after pesn saved it: its digest does not match")
        schema = json.loads(archive.read(_SCHEMA))
        note = json.loads(archive.read(_NOTE)) if _NOTE in archive.namelist() else None
        return Contents(found, schema, note, set(archive.namelist()) - {MANIFEST, _SCHEMA, _NOTE})


def check_sizes_of_arrays(data: bytes) -> None:
    """Refuse an archive with an array that says that it is larger than it is: NumPy would reserve the memory."""
    with ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                npy_array(name, archive.read(name))


def check_container(file: IO[bytes]) -> None:
    """What can be told of a file without reading its members: it is ours, and holds no more than it seems to."""
    try:
        with ZipFile(file) as archive:
            names = archive.namelist()
    except Exception:
        raise RefusedError("is not a file saved by pesn, or it was cut short") from None
    if MANIFEST not in names:
        raise RefusedError("is not a file saved by pesn")
    try:
        with stored(file) as archive:
            _check_sizes(archive)
    except BadZipFile as error:
        raise RefusedError(f"was changed after pesn saved it: {error}") from None


def with_schema(data: bytes, schema: Any) -> bytes:
    """The archive with another schema in the place of its own."""
    buffer = io.BytesIO()
    with ZipFile(io.BytesIO(data)) as old, ZipFile(buffer, "w") as new:
        for member in old.infolist():
            new.writestr(member.filename, json.dumps(schema) if member.filename == _SCHEMA else old.read(member))
    return buffer.getvalue()


def _check_sizes(archive: ZipFile) -> None:
    for member in archive.infolist():
        if member.file_size > MOST.get(member.filename, LARGEST):
            raise RefusedError(f"has {member.file_size:,} bytes of {member.filename}, and {MOST[member.filename]:,} are the most")
