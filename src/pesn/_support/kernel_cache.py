"""Cache compiled kernels on disk, in a folder named by a digest of the kernel sources.

numba inlines a kernel's helpers and freezes the constants that it uses, but keys its cache by the kernel's own file. After an
edit to a helper or a constant in another file, callers would still run the old code. Here each state of the sources has its own
folder, ``pesn-<digest>``, inside the folder that numba chooses (``NUMBA_CACHE_DIR``, ``__pycache__``, or the user's cache).
numba's own keys (its version, the Python version, the processor, the signature) apply inside that folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.runtime import rtsys

from pesn._support.files import lock_folder

_PACKAGE = Path(__file__).parents[1]
_FOLDER = "pesn-"
_KEPT = 4  # folders: the current sources and three others, for switching between branches
_RECENT = 3600.0  # seconds; a folder that was used since then may be in use by another process and is kept
_TRIALS, _PAUSE = 50, 0.02  # to get the lock of a folder; another process holds it for milliseconds
# Each begins with a line feed, which is much faster to search than ^.
_COMPILES = re.compile(rb"\n[ \t]*(?:from|import) [^#\n]*\b(?:numba|llvmlite|jit)\b")
_IMPORTS_NAMES = re.compile(rb"\nfrom ([\w.]+) import (\([^)]*\)|[^#\n]+)")
_IMPORTS_MODULE = re.compile(rb"\nimport ([\w.]+)")

Stamps = dict[str, tuple[int, int]]


def stamp_sources(package: Path = _PACKAGE) -> Stamps:
    """Return the modification time and size of each source file of a package, by path.

    This takes about one millisecond, ten times less than reading the files. It is empty for a package that is not a folder.
    """
    stamps = {}
    for folder, _, names in os.walk(package):
        for path in (os.path.join(folder, name) for name in names if name.endswith(".py")):
            try:
                status = os.stat(path)
            except OSError:
                return {}
            stamps[path] = status.st_mtime_ns, status.st_size
    return stamps


def kernel_sources(package: Path = _PACKAGE) -> dict[str, bytes]:
    """Return the sources that compiled code depends on, by module name.

    These are the modules that import numba, llvmlite or pesn's ``jit``, and all modules of the package that they import at module
    level, directly or not: helpers and constants of a kernel come from there.
    """
    texts, root = {}, len(os.fspath(package.parent)) + 1
    for path in stamp_sources(package):
        with open(path, "rb") as file:
            texts[path[root:-3].replace(os.sep, ".").removesuffix(".__init__")] = b"\n" + file.read()
    found: dict[str, bytes] = {}
    pending = [module for module, text in texts.items() if (b"numba" in text or b"jit" in text) and _COMPILES.search(text)]
    while pending:
        module = pending.pop()
        if module in texts and module not in found:
            found[module] = texts[module]
            pending += [whole.decode() for whole in _IMPORTS_MODULE.findall(texts[module])]
            for origin, names in _IMPORTS_NAMES.findall(texts[module]):
                base = origin.decode()
                inner = {f"{base}.{name.decode()}" for name in re.findall(rb"\w+", names)}
                pending += inner if inner <= texts.keys() else [base, *inner]
    return found


def digest_sources(package: Path = _PACKAGE) -> str:
    """Return a digest of :func:`kernel_sources` and of numba's version, as 16 hexadecimal digits.

    numba keeps code of one version only: two environments with one checkout would replace each other's.
    """
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for module, text in sorted(kernel_sources(package).items()):
        digest.update(b"%d %d " % (len(module), len(text)) + module.encode() + text)
    return digest.hexdigest()


# Stamps of the sources at import. The digest is computed at the first look-up, and only if they have not changed since.
_IMPORTED = stamp_sources()


def _is_current() -> bool:
    """Return whether the sources on disk are those that this process has imported."""
    return bool(_IMPORTED) and stamp_sources() == _IMPORTED


@functools.cache
def _process_digest() -> str | None:
    """Return the digest of the sources that this process has imported; None if they have changed on disk since then."""
    digest = digest_sources() if _is_current() else None
    return digest if _is_current() else None


@contextlib.contextmanager
def choose_library(codegen: Any, kind: type[JITCodeLibrary]) -> Iterator[None]:
    """Let numba's code generator create libraries of this kind, in a block."""
    before, codegen._library_class = codegen._library_class, kind  # noqa: SLF001 - numba has no other way
    try:
        yield
    finally:
        codegen._library_class = before  # noqa: SLF001


class _Locator:
    """Folder of the current digest inside the folder of one of numba's locators."""

    def __init__(self, locator: Any) -> None:
        self._locator = locator

    def get_cache_path(self) -> str:
        return os.path.join(self._locator.get_cache_path(), f"{_FOLDER}{_process_digest()}")

    def get_source_stamp(self) -> str | None:
        return _process_digest()

    def get_disambiguator(self) -> str:
        return str(self._locator.get_disambiguator())

    def ensure_cache_path(self) -> None:
        folder = Path(self.get_cache_path())
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            _remove_old_folders(folder)


class _Implementation(CompileResultCacheImpl):  # type: ignore[misc]
    """numba's way to store compiled code, in another folder."""

    @property
    def locator(self) -> _Locator:
        return _Locator(self._locator)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Cache of the compiled code of one function, which touches the disk at the first look-up and not at import.

    It is optional: where there is no folder to write to, and after an error on disk, functions are compiled in each process.

    Parameters
    ----------
    function : callable
        Python function of a kernel.
    """

    _impl_class = _Implementation

    def __init__(self, function: Any) -> None:
        self._py_func, self._name = function, repr(function)
        self._cache_path: Any = None  # until the first look-up
        self.enable()

    @functools.cached_property
    def has_folder(self) -> bool:
        """Whether compiled code can be cached on disk."""
        if _process_digest() is None:
            return False
        try:
            super().__init__(self._py_func)
        except RuntimeError:  # numba found no folder to write to
            return False
        with contextlib.suppress(OSError):
            os.utime(self._cache_path)  # in use
        return True

    @property
    def folder(self) -> Path | None:
        """Folder of the compiled code, or None if it cannot be cached on disk."""
        return Path(self._cache_path) if self.has_folder else None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for a signature, or None."""
        with contextlib.suppress(OSError):  # such as another user's folder
            if self.has_folder:
                rtsys.initialize(target_context)  # numba's way also loads all that it compiles with, which takes half a second
                # with machine code, also while a caller is compiled
                with choose_library(target_context.codegen(), JITCodeLibrary), self._guard_against_spurious_io_errors():
                    return self._load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the compiled code for a signature, unless the sources on disk are no longer those that it was compiled from."""
        if not (self.has_folder and _is_current()):
            return
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            self._impl.locator.ensure_cache_path()
            # numba numbers its files: two processes that save for different signatures at once would take the same number
            for _ in range(_TRIALS):
                try:
                    stack.enter_context(lock_folder(Path(self._cache_path), wait=False))
                    break
                except BlockingIOError:
                    time.sleep(_PAUSE)
                except OSError:
                    break  # some file systems have no locks
            else:
                return  # not saved: a later process compiles it again
            super().save_overload(sig, data)

    @property
    def _seconds_file(self) -> Path:
        """File with the seconds that functions took to compile, beside the folders of digests."""
        return Path(self._cache_path).with_name("seconds-to-compile.json")

    def load_seconds(self) -> float | None:
        """Return the seconds that this function took to compile when it was last compiled, or None."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            seconds = json.loads(self._seconds_file.read_text()).get(self._py_func.__qualname__)
            return float(seconds) if isinstance(seconds, (int, float)) else None
        return None

    def save_seconds(self, seconds: float) -> None:
        """Store the seconds that this function took to compile."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            file, known = self._seconds_file, {}
            with contextlib.suppress(FileNotFoundError, ValueError):
                known = dict(json.loads(file.read_text()))
            temporary = file.with_name(f"{file.name}.{os.getpid()}")
            temporary.write_text(json.dumps({**known, self._py_func.__qualname__: round(seconds, 2)}))
            temporary.replace(file)

    def flush(self) -> None:
        """Remove the compiled code of this function."""
        if self.has_folder:
            super().flush()


def _remove_old_folders(current: Path) -> None:
    """Remove the folders of other digests that have not been used for a while, except for the last few.

    A process that looks for compiled code in a removed folder compiles it again.
    """
    others = []
    for folder in current.parent.glob(f"{_FOLDER}*/"):
        with contextlib.suppress(OSError):  # removed by another process
            others.append((folder.stat().st_mtime, folder))
    for used, folder in sorted(others, reverse=True)[_KEPT:]:
        if folder != current and used < time.time() - _RECENT:
            shutil.rmtree(folder, ignore_errors=True)
