"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["beside", "refuse_unwritable", "replacing", "sync"]


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, which takes the place of ``path`` when the block ends; its mode stays.

    Whatever happens inside, ``path`` is the old file or the new one, never half of either.
    """
    target = Path(os.path.realpath(path))  # a link stays a link, to a new file
    _refuse_irreplaceable(path)
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


def beside(place: Path) -> Path:
    """A name that nothing has, for a folder to be renamed to ``place`` when it is whole; hidden, and it ends in .part."""
    return place.with_name(f".{place.name[:100]}-{secrets.token_hex(4)}.part")


def sync(*paths: Path) -> None:
    """On the disk, before the name that says that they are whole."""
    for path in paths:
        with path.open("rb+") as file:
            os.fsync(file.fileno())


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """An OSError where :func:`replacing` could not write ``path``, to be had before the work that the file would hold."""
    _refuse_irreplaceable(path)
    with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(path))):
        pass


def _refuse_irreplaceable(path: str | os.PathLike[str]) -> None:
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
