"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, which takes the place of ``path`` when the block ends; its mode stays.

    Whatever happens inside, ``path`` is the old file or the new one, never half of either.
    """
    target = Path(os.path.realpath(path))  # a link stays a link, to a new file
    # In the folder of the target: a replacement is atomic only within one file system. The suffix stays, as writers read it.
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(4)}.tmp{target.suffix}")
    try:
        with open(temporary, "xb"), contextlib.suppress(FileNotFoundError):
            temporary.chmod(target.stat().st_mode & 0o777)  # a private file stays private
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
