"""Read regular files of limited size, and write files and folders whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zipfile import ZIP_STORED, ZipFile

if TYPE_CHECKING:
    import numpy.typing as npt

MANIFEST = "pesn.json"  # member of a saved model with format and digest
_LONGEST = 300  # characters of a message
LARGEST_JSON = 2**26  # bytes; parsed, it takes many times as much memory


class RefusedError(Exception):
    """Reason why a saved model, or a member of it, is refused, for the user."""


class RefusedFileError(OSError):
    """Error for a path that is not a regular file, or a file that is too large."""


@contextlib.contextmanager
def regular(path: str | os.PathLike[str], most: int, links: bool = True) -> Iterator[BinaryIO]:
    """Open a regular file of at most ``most`` bytes for reading; raise a :class:`RefusedFileError` for others.

    Devices and pipes may have no end, or block a reader: they are not opened. ``links=False`` refuses links too, in folders where
    others may have created one to a file that is not theirs.
    """
    _check_readable(path, os.stat(path, follow_symlinks=links), most)
    # the path may have changed since: do not block on a pipe, and check the open file again
    extra = getattr(os, "O_NONBLOCK", 0) | (0 if links else getattr(os, "O_NOFOLLOW", 0))
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | extra)) as file:
        _check_readable(path, os.fstat(file.fileno()), most)
        yield file


def contents(path: str | os.PathLike[str], most: int, links: bool = True) -> bytes:
    """Return all bytes of a file that :func:`regular` opens."""
    with regular(path, most, links) as file:
        # by its size, as Python reserves memory for all bytes that are requested; a file that grows is cut
        return file.read(os.fstat(file.fileno()).st_size)


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file; links and more than 64 MiB are refused, invalid JSON is a ValueError."""
    try:
        return json.loads(contents(path, LARGEST_JSON, links=False))
    except RecursionError:
        raise ValueError("too many brackets inside each other") from None


def plain(value: object) -> Any:
    """Convert a value to JSON types: NaN is null, infinities are "inf" and "-inf"."""
    if hasattr(value, "tolist"):  # arrays and NumPy's numbers
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _check_readable(path: str | os.PathLike[str], found: os.stat_result, most: int) -> None:
    """Raise an OSError unless a file is regular and small enough."""
    _check_regular(path, found.st_mode)
    if found.st_size > most:
        raise RefusedFileError(errno.EFBIG, f"it has {found.st_size:,} bytes, and {most:,} are the most", os.fspath(path))


def _check_regular(path: str | os.PathLike[str], mode: int) -> None:
    """Raise an OSError unless a mode is that of a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", os.fspath(path))
    if not stat.S_ISREG(mode):
        raise RefusedFileError(errno.EINVAL, "it is not a regular file", os.fspath(path))


def check_archive(archive: ZipFile, size: int) -> None:
    """Raise a RefusedError unless the members of a zip file are uncompressed and take at most ``size`` bytes together.

    Compressed or overlapping members could unpack to terabytes, and names that occur twice show readers different contents.
    """
    members = archive.infolist()
    if any(member.compress_type != ZIP_STORED or member.flag_bits & 1 for member in members):
        raise RefusedError("was changed after pesn saved it: its members are compressed or encrypted")
    if len({member.filename for member in members}) < len(members) or sum(member.file_size for member in members) > size:
        raise RefusedError("was changed after pesn saved it: its members overlap, or two have one name")


def digest(archive: ZipFile) -> str:
    """Compute the SHA-256 of every member but the manifest, with its name and size."""
    total = hashlib.sha256()
    for member in archive.infolist():
        if member.filename != MANIFEST:
            total.update(f"{member.filename}\0{member.file_size}\0".encode())
            with archive.open(member) as part:
                while piece := part.read(2**20):
                    total.update(piece)
    return total.hexdigest()


def one_line(error: Exception) -> str:
    """Return the message of an error on one line, truncated if it repeats much of a file.

    >>> len(one_line(ValueError("x" * 10_000)))
    301
    """
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def npy_array(name: str, data: bytes) -> npt.NDArray[Any]:
    """Return the array of a .npy file's bytes.

    Its header is trusted only if it agrees with the number of bytes: NumPy would first reserve whatever memory it names.

    Parameters
    ----------
    name : str
        Name of the file, for the message.
    data : bytes
        Contents of the file.

    Returns
    -------
    ndarray
        Numbers, booleans or texts.

    Raises
    ------
    RefusedError
        If it is anything else, or truncated.
    """
    import numpy as np  # not at import, for the commands' help

    file = io.BytesIO(data)
    try:
        np.lib.format.read_magic(file)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    except Exception:  # any error of NumPy or of Python's parser
        raise RefusedError(f"is damaged: {name} is not an array; save the model again") from None
    if dtype.kind not in "biufU" or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise RefusedError(f"is damaged: {name} holds other numbers than it says; save the model again")
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape, order="F" if fortran else "C").copy("K")


LOCK = ".lock"  # file that a run locks in its folder
_ABANDONED = 3600.0  # seconds without a write after which a temporary folder is a leftover


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the path that was asked for in errors of files, not the temporary one beside it."""
    try:
        yield
    except ConnectionError:  # a broken pipe among them
        raise
    except OSError as error:
        raise OSError(f"cannot write {os.fspath(path)}: {error.strerror or error}") from error


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to, which replaces ``path`` at the end of the block; its mode is kept.

    Whatever happens inside, ``path`` is the old file or the new one, never a part of either.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    _check_replaceable(path)
    # In the folder of the target, because renaming is atomic only within one file system. The suffix stays, as writers use it;
    # the rest of the name may be as long as names can be.
    temporary = target.with_name(f".{secrets.token_hex(6)}.tmp{target.suffix}")
    try:
        try:
            with open(temporary, "xb"), contextlib.suppress(FileNotFoundError):
                temporary.chmod(target.stat().st_mode & 0o777)  # a private file stays private
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None  # name the requested file
        yield temporary
        sync(temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@contextlib.contextmanager
def filling(folder: str | os.PathLike[str], first: str) -> Iterator[Path]:
    """Yield a folder to write files to, which are moved to ``folder`` if the block ends without an error.

    They are moved one after another, the file named ``first`` before the others: it should say which files belong together. Two
    processes move their files one after the other.
    """
    place = Path(folder)
    is_new = not place.exists()
    place.mkdir(parents=True, exist_ok=True)
    remove_leftovers(place)
    try:
        with tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=place) as name:
            yield Path(name)
            written = sorted(Path(name).iterdir(), key=lambda path: path.name != first)
            sync(*written)
            with lock_folder(place):
                for path in written:
                    os.replace(path, place / path.name)
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):  # not empty
                place.rmdir()
        raise


@contextlib.contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Create a folder and lock it for one run, until the block or the process ends.

    The system releases the lock of a process that is gone, so that a killed run leaves none behind. Windows has no such locks:
    runs are not kept apart there.

    Parameters
    ----------
    folder : Path
        Folder that a long run writes to.

    Raises
    ------
    BlockingIOError
        If another run holds it.
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
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)  # for writing, as network file systems require
            stack.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                message = "another run is writing to it: wait until it has ended, or give another folder"
                raise BlockingIOError(errno.EAGAIN, message, os.fspath(folder)) from None
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                break  # otherwise the previous run has just removed it
        stack.callback(path.unlink, missing_ok=True)
        yield


@contextlib.contextmanager
def lock_folder(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Lock a folder, without a file in it, until the block or the process ends; Windows has no such locks.

    Parameters
    ----------
    folder : Path
        Existing folder.
    wait : bool, default=True
        Whether to wait for another process that holds it.

    Raises
    ------
    BlockingIOError
        If another process holds it and ``wait`` is False.
    OSError
        If the file system has no locks; on Windows only if ``wait`` is False.
    """
    try:
        import fcntl
    except ImportError:
        if not wait:
            raise OSError(errno.ENOTSUP, "no locks", os.fspath(folder)) from None
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(handle)


def put_folder(temporary: Path, place: Path) -> None:
    """Rename a folder to its final name; an older one is removed."""
    old = temporary_folder(place)
    with contextlib.suppress(FileNotFoundError):
        os.rename(place, old)
    os.rename(temporary, place)
    shutil.rmtree(old, ignore_errors=True)


def temporary_folder(place: Path) -> Path:
    """Return an unused name for a folder that is renamed to ``place`` when it is complete; it is hidden and ends in .part."""
    return place.with_name(f".{place.name[:100]}-{secrets.token_hex(4)}.part")


def remove_leftovers(folder: Path) -> None:
    """Remove temporary folders that a killed process left in ``folder``: those unchanged for an hour."""
    for path in folder.glob(".*.part"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED:
                shutil.rmtree(path)


def sync(*paths: Path) -> None:
    """Write files to the disk, before the name that marks them as complete."""
    for path in paths:
        with path.open("rb+") as file:
            os.fsync(file.fileno())


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an OSError if :func:`replacing` could not write ``path``, before the work whose result it would hold."""
    _check_replaceable(path)
    with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(path))):
        pass


# ---------------------------------------------------------------- inside


def _check_replaceable(path: str | os.PathLike[str]) -> None:
    """Raise an OSError for paths that must stay: folders, devices, pipes, read-only files."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    _check_regular(path, mode)
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "it is read-only", os.fspath(path))
