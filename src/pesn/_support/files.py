"""Files and folders written whole or not at all.

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
import ctypes
import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import shutil
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt

__all__ = [
    "LARGEST_JSON",
    "LOCK",
    "MANIFEST",
    "RefusedError",
    "RefusedFileError",
    "beside",
    "check_writable",
    "claim_folder",
    "contents",
    "digest",
    "filling",
    "json_of",
    "lock_folder",
    "npy_array",
    "one_line",
    "put_folder",
    "regular",
    "remove_leftovers",
    "replacing",
    "stored",
    "sync",
]


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


LOCK = ".lock"  # the file in a folder that one run holds
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # Linux


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, which takes the place of ``path`` when the block ends; its mode stays.

    Whatever happens inside, ``path`` is the old file or the new one, never half of either.
    """
    target = Path(os.path.realpath(path))  # a link stays a link, to a new file
    _check_replaceable(path)
    # In the folder of the target: a replacement is atomic only within one file system. The suffix stays, as writers read it;
    # the rest of the name does not, which may be as long as a name can be.
    temporary = target.with_name(f".{secrets.token_hex(6)}.tmp{target.suffix}")
    try:
        try:
            with open(temporary, "xb"), contextlib.suppress(FileNotFoundError):
                temporary.chmod(target.stat().st_mode & 0o777)  # a private file stays private
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None  # the file that was asked for
        yield temporary
        sync(temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@contextlib.contextmanager
def filling(folder: str | os.PathLike[str], first: str) -> Iterator[Path]:
    """A folder to write files to, which take their places in ``folder`` when the block ends: all of them, or none.

    A folder that holds nothing but files of the same names is exchanged for the new one, in one step. Where this cannot be
    (other files in it, the working directory, a mount point, a system that cannot exchange folders), the files are renamed one
    after another, the one named ``first`` before the others: it should say which belong together. What a killed process left
    half-written is removed.
    """
    place = Path(os.path.realpath(folder))
    place.parent.mkdir(parents=True, exist_ok=True)
    # Beside the folder, to be exchanged for it; inside, where nothing may be written beside it or that is another file system.
    inside = place.is_dir() and (os.path.ismount(place) or not os.access(place.parent, os.W_OK))
    named = place / place.name if inside else place
    remove_leftovers(named)
    with _held_part(named) as temporary:
        yield temporary
        written = sorted(temporary.iterdir(), key=lambda path: path.name != first)
        sync(*written)
        with lock_folder(named.parent):  # two runs put their files in place one after the other
            if not place.exists():
                os.rename(temporary, place)
                return
            names = {path.name for path in written}
            alone = set(os.listdir(place)) <= names and not os.path.samefile(place, os.curdir)
            if inside or not alone or not _exchanged(temporary, place):
                for path in written:
                    os.replace(path, place / path.name)


@contextlib.contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Make a folder and hold it for one run, until the block or the process ends, however it ends.

    The system forgets the lock of a process that is gone, so that a killed run leaves none behind. Windows has no such locks:
    runs are not kept apart there.

    Parameters
    ----------
    folder : Path
        Folder that a run writes to for long.

    Raises
    ------
    BlockingIOError
        Where another run holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    path = folder / LOCK
    with contextlib.ExitStack() as stack:
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)  # for writing, as network file systems ask
            stack.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                told = "another run is writing to it: wait until it has ended, or give another folder"
                raise BlockingIOError(errno.EAGAIN, told, os.fspath(folder)) from None
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                break  # else the run before has removed it meanwhile
        stack.callback(path.unlink, missing_ok=True)
        yield


@contextlib.contextmanager
def lock_folder(folder: Path, *, wait: bool = True) -> Iterator[int | None]:
    """Lock a folder for a moment, by itself and without a file in it, until the block or the process ends.

    Parameters
    ----------
    folder : Path
        Folder that is there.
    wait : bool, default=True
        Whether to wait for another process that holds it.

    Yields
    ------
    int or None
        File descriptor of the folder; None on Windows, which has no such locks.

    Raises
    ------
    BlockingIOError
        Where another process holds it, and ``wait`` is False.
    OSError
        Where the file system has no locks; on Windows only where ``wait`` is False, as nobody can tell then.
    """
    try:
        import fcntl
    except ImportError:
        if not wait:
            raise OSError(errno.ENOTSUP, "no locks", os.fspath(folder)) from None
        yield None
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield handle
    finally:
        os.close(handle)


def put_folder(temporary: Path, place: Path) -> None:
    """Rename a folder to its place; an older one goes, in one step where the system can exchange folders."""
    if not os.path.lexists(place):
        os.rename(temporary, place)
        return
    if not _exchanged(temporary, place):
        old = beside(place)
        os.rename(place, old)
        os.rename(temporary, place)
        temporary = old
    shutil.rmtree(temporary, ignore_errors=True)


def beside(place: Path) -> Path:
    """A name that nothing has, for a folder to be renamed to ``place`` when it is whole; hidden, and it ends in .part."""
    return place.with_name(f".{place.name[:100]}-{secrets.token_hex(4)}.part")


def remove_leftovers(place: Path) -> None:
    """Remove the folders of :func:`beside` that a killed process left; those that one still writes to stay."""
    leftover = re.compile(rf"\.{re.escape(place.name[:100])}-[0-9a-f]{{8}}\.part")
    for path in place.parent.iterdir() if place.parent.is_dir() else ():
        if leftover.fullmatch(path.name):
            with contextlib.suppress(OSError), lock_folder(path, wait=False):  # held by whoever is alive, also on another machine
                shutil.rmtree(path)


def sync(*paths: Path) -> None:
    """On the disk, before the name that says that they are whole."""
    for path in paths:
        with path.open("rb+") as file:
            os.fsync(file.fileno())


def check_writable(path: str | os.PathLike[str]) -> None:
    """An OSError where :func:`replacing` could not write ``path``, to be had before the work that the file would hold."""
    _check_replaceable(path)
    with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(path))):
        pass


# ---------------------------------------------------------------- inside


@contextlib.contextmanager
def _held_part(place: Path) -> Iterator[Path]:
    """A new folder beside ``place``, locked while the block lasts, then removed, if it is still there."""
    with contextlib.ExitStack() as stack:
        while True:
            temporary = beside(place)
            temporary.mkdir()
            stack.callback(shutil.rmtree, temporary, ignore_errors=True)
            held = stack.enter_context(lock_folder(temporary))
            if temporary.exists() and (held is None or os.path.samestat(os.fstat(held), temporary.stat())):
                break  # else another run took it for a leftover, before it was locked
        if place.is_dir():
            shutil.copymode(place, temporary)
        yield temporary


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange the names of two folders, in one step; False where the system cannot."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if function is None:
        return False
    done = function(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE))
    return bool(done == 0)


def _check_replaceable(path: str | os.PathLike[str]) -> None:
    """An OSError for what is there and must stay: folders, devices, pipes, files that are read-only."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", os.fspath(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "it is read-only", os.fspath(path))
