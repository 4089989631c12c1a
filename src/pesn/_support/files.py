"""Files and folders written whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = [
    "LOCK",
    "beside",
    "check_writable",
    "filling",
    "lock_folder",
    "locking",
    "put_folder",
    "remove_leftovers",
    "replacing",
    "sync",
]

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
def locking(folder: Path) -> Iterator[None]:
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


@contextlib.contextmanager
def lock_folder(folder: Path, *, wait: bool = True) -> Iterator[int | None]:
    """The folder, held by this process alone until it ends; an OSError where another holds it and none should be waited for."""
    try:
        import fcntl
    except ImportError:  # Windows has no such locks: nobody can tell there whether a folder is held
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
