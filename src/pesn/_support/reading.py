"""Files read with bounds: regular ones alone, no larger than stated; archives that hold nothing but their members.

>>> import io, zipfile
>>> file = io.BytesIO()
>>> with zipfile.ZipFile(file, "w") as archive:
...     archive.writestr("a", "1")
>>> with stored(file) as archive:
...     archive.namelist()
['a']
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import stat
import struct
from collections.abc import Iterator
from typing import IO, Any, BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt

__all__ = [
    "LARGEST_JSON", "MANIFEST", "RefusedError", "RefusedFileError", "contents", "digest", "json_of", "npy_array",
    "one_line", "regular", "stored",
]  # fmt: skip

MANIFEST = "pesn.json"  # the member of a saved model that says what the others are
_LONGEST = 300  # characters of a message
LARGEST_JSON = 2**26  # bytes: read, it takes many times as many
_LOCAL, _DIRECTORY, _END, _END_64 = 30, 46, 22, 76  # bytes of a zip's headers, without names and extra fields


class RefusedError(Exception):
    """Why a saved model, or a file of one, is refused, in words for the user."""


class RefusedFileError(OSError):
    """Not a regular file, or larger than what is read here may be."""


@contextlib.contextmanager
def regular(path: str | os.PathLike[str], most: int, links: bool = True) -> Iterator[BinaryIO]:
    """The regular file, open for reading, if it has at most ``most`` bytes; a :class:`RefusedFileError` that names it if not.

    Devices and pipes may have no end, or keep a reader waiting: they are not even opened. ``links=False`` refuses links too,
    in folders where others may have put one to a file that is none of theirs.
    """
    _check_readable(path, os.stat(path, follow_symlinks=links), most)
    # by the time it is opened it may be another: a pipe must not keep us waiting, and what is open is looked at once more
    extra = getattr(os, "O_NONBLOCK", 0) | (0 if links else getattr(os, "O_NOFOLLOW", 0))
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | extra)) as file:
        _check_readable(path, os.fstat(file.fileno()), most)
        yield file


def contents(path: str | os.PathLike[str], most: int, links: bool = True) -> bytes:
    """All bytes of a file that :func:`regular` opens."""
    with regular(path, most, links) as file:
        # by its size, as Python reserves memory for all bytes that it is asked for; more, where it grows meanwhile, is left
        return file.read(os.fstat(file.fileno()).st_size)


def json_of(path: str | os.PathLike[str]) -> Any:
    """What a JSON file holds; a link is refused, as is more than 64 MiB, and what is no JSON is a ValueError."""
    try:
        return json.loads(contents(path, LARGEST_JSON, links=False))
    except RecursionError:
        raise ValueError("too many brackets inside each other") from None


def _check_readable(path: str | os.PathLike[str], found: os.stat_result, most: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", os.fspath(path))
    if not stat.S_ISREG(found.st_mode):
        raise RefusedFileError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    if found.st_size > most:
        raise RefusedFileError(errno.EFBIG, f"it has {found.st_size:,} bytes, and {most:,} are the most", os.fspath(path))


@contextlib.contextmanager
def stored(file: IO[bytes]) -> Iterator[ZipFile]:
    """The zip archive, if its members lie one after the other, uncompressed, and nothing but its directory follows them.

    It then unpacks to less than the file itself. Compressed members might unpack to terabytes, overlapping ones show other
    readers other contents, and what lies between or before them is seen by none. A BadZipFile says what is wrong.
    """
    size = file.seek(0, os.SEEK_END)
    with ZipFile(file) as archive:
        members = sorted(archive.infolist(), key=lambda member: member.header_offset)
        names = {member.filename for member in members if member.orig_filename.isascii()}
        if len(names) < len(members):
            raise BadZipFile("two of its members have one name, or one has a name that is not ASCII")
        end = 0
        for member in members:
            if member.compress_type != ZIP_STORED or member.compress_size != member.file_size or member.flag_bits & 1:
                raise BadZipFile("its members are compressed or encrypted")
            if member.header_offset != end:
                raise BadZipFile("its members overlap, or there is something between them")
            file.seek(end)
            name, extra = struct.unpack("<26x2H", file.read(_LOCAL))
            end += _LOCAL + name + extra + member.file_size
        directory = sum(_DIRECTORY + len(m.orig_filename) + len(m.extra) + len(m.comment) for m in members)
        if end != archive.start_dir or archive.comment or size - end - directory not in (_END, _END + _END_64):
            raise BadZipFile("there is something before, between or after its members and its directory")
        yield archive


def digest(archive: ZipFile) -> str:
    """SHA-256 of every member but the manifest, with its name and size."""
    total = hashlib.sha256()
    for member in archive.infolist():
        if member.filename != MANIFEST:
            total.update(f"{member.filename}\0{member.file_size}\0".encode())
            with archive.open(member) as part:
                while piece := part.read(2**20):
                    total.update(piece)
    return total.hexdigest()


def one_line(error: Exception) -> str:
    """Return the message of an error on one line, cut where it repeats more of a file than anyone would read.

    >>> len(one_line(ValueError("x" * 10_000)))
    301
    """
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def npy_array(name: str, data: bytes) -> npt.NDArray[Any]:
    """Return the array of a .npy file's bytes.

    Its header is believed only where it goes with the number of bytes: NumPy would first reserve whatever memory it names.

    Parameters
    ----------
    name : str
        Name of the file, for the message.
    data : bytes
        Contents of the file.

    Returns
    -------
    array
        Numbers, booleans or texts.

    Raises
    ------
    RefusedError
        Where it is anything else, or cut short.
    """
    file = io.BytesIO(data)
    try:
        np.lib.format.read_magic(file)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    except Exception:  # whatever a header does to NumPy and to Python's parser
        raise RefusedError(f"is damaged: {name} is not an array; save the model again") from None
    if dtype.kind not in "biufU" or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise RefusedError(f"is damaged: {name} holds other numbers than it says; save the model again")
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape, order="F" if fortran else "C").copy("K")
