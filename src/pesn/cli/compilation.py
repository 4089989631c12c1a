"""The command ``pesn warmup``: compile all kernels in advance, by calls of everything that compiles."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from pesn.cli import terminal

# ---------------------------------------------------------------- command


def compile_call(name: str) -> tuple[list[str], list[str]]:
    """Make one call of :mod:`pesn.cli.kernel_calls` in this process.

    Parameters
    ----------
    name : str
        Name of the call.

    Returns
    -------
    tuple of (list of str, list of str)
        Names of the kernels that are ready, and the folders of their compiled code.
    """
    from pesn.cli.kernel_calls import ENTRY_POINTS, OTHERS

    {**ENTRY_POINTS, **OTHERS}[name]()
    ready, folders = [], set()
    for kernel_name, kernel in iterate_kernels():
        if kernel.overloads:
            ready.append(kernel_name)
            if folder := kernel._cache.folder:  # noqa: SLF001
                folders.add(os.fspath(folder.parent))
    return ready, sorted(folders)


def _disable_notices() -> None:
    """Disable the notices of compilation in a process."""
    import logging

    logging.getLogger("pesn").setLevel(logging.ERROR)


def iterate_kernels() -> Iterator[tuple[str, Any]]:
    """Yield name and dispatcher of each imported kernel that is cached."""
    import sys

    from pesn._support.kernel_cache import KernelCache

    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] == "pesn":
            for name, value in list(vars(module).items()):
                if isinstance(getattr(value, "_cache", None), KernelCache) and value.py_func.__module__ == module_name:
                    yield f"{module_name}.{name}", value


def warmup(
    jobs: Annotated[int | None, typer.Option(help="Number of processes.", show_default="number of processors")] = None,
) -> None:
    """Compile everything that pesn compiles at first calls, in parallel, and print where the compiled code is."""
    with terminal.one_line_errors():
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor, as_completed

        from joblib import cpu_count

        from pesn._support.arguments import whole_number
        from pesn.cli.kernel_calls import ENTRY_POINTS, OTHERS

        if jobs is not None:
            whole_number("--jobs", jobs, 1)
        began, ready, folders = time.monotonic(), set[str](), set[str]()
        calls = [*ENTRY_POINTS, *OTHERS]
        count = min(jobs or int(cpu_count()), len(calls))
        context = multiprocessing.get_context("spawn")
        with terminal.stages() as stage, ProcessPoolExecutor(count, context, _disable_notices) as pool:
            advance = stage("Compiling")
            for done, future in enumerate(as_completed([pool.submit(compile_call, name) for name in calls]), 1):
                kernels, places = future.result()
                ready.update(kernels)
                folders.update(places)
                advance(done, len(calls))
        if not folders:
            raise OSError("there is no folder to write compiled code to; set NUMBA_CACHE_DIR to one")
        where = Path(os.path.commonpath(folders))
        terminal.say(f"{len(ready)} kernels are compiled, {time.monotonic() - began:.0f} s: {where}")
