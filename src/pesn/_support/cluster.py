"""Worker processes, and clients of a Dask cluster that answers, has a worker, and has the same versions.

>>> with client("first:8786"):
...     pass
Traceback (most recent call last):
ValueError: scheduler must be an address such as tcp://127.0.0.1:8786, got 'first:8786'
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import re
import threading
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any


@contextlib.contextmanager
def worker_processes(jobs: int) -> Iterator[None]:
    """Let joblib use ``jobs`` processes inside the block, with one thread each for linear algebra."""
    from joblib import parallel_config

    options: Any = {"inner_max_num_threads": 1, "initializer": _end_with_parent, "initargs": (os.getpid(),)}
    with contextlib.ExitStack() as stack:
        stack.enter_context(parallel_config("loky", n_jobs=jobs, **options))
        if jobs > 1:
            stack.push(_end_workers)
        yield


def _end_with_parent(parent: int) -> None:
    """End a worker with process ``parent``, which started it; otherwise it would continue for nobody.

    The process ID is given by the parent: the worker itself might get that of the process that adopts orphans.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


def _end_workers(kind: type[BaseException] | None, *_: object) -> None:
    """End the workers after an error or Ctrl-C, without waiting for their units."""
    if kind is not None:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True, kill_workers=True)


WAIT = 10.0  # seconds for a scheduler and its first worker to answer


@contextlib.contextmanager
def client(address: str) -> Iterator[Any]:
    """Connect to a cluster; raise an error unless it has a worker and the versions of this process."""
    if not re.fullmatch(r"(tcp|tls)://[^/]+:\d{1,5}", address):
        raise ValueError(f"scheduler must be an address such as tcp://127.0.0.1:8786, got {address!r}")
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("a scheduler needs Dask: pip install 'pesn[dask]'") from None
    if address.startswith("tls:"):
        check_certificates()
    with _silence_loggers("distributed"):  # errors are raised as exceptions
        asyncio.run(_check_scheduler(address))
        with Client(address, timeout=WAIT, set_as_default=False) as found:
            check_workers(found, address)
            try:
                yield found
            except Exception as error:
                if found.status != "running":
                    raise ConnectionError(f"the Dask scheduler at {address} was lost; started again, the run goes on") from error
                raise


@contextlib.contextmanager
def worker_cluster(address: str) -> Iterator[None]:
    """Let joblib use the workers of a Dask cluster inside the block."""
    from joblib import parallel_config

    with client(address) as found, parallel_config("dask", client=found):
        yield


@contextlib.contextmanager
def _silence_loggers(name: str) -> Iterator[None]:
    """Disable the loggers of a package, each of which has its own level."""
    loggers = [logging.getLogger(known) for known in [*logging.root.manager.loggerDict] if known.split(".")[0] == name]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def check_certificates() -> None:
    """Raise an error unless Dask's configuration, which scheduler and workers use too, names the files that TLS needs."""
    from dask import config

    for key in ("ca-file", "client.cert", "client.key"):
        name = f"distributed.comm.tls.{key}"
        file = config.get(name, None)
        if file is None and key != "client.key":  # which may be in the file of the certificate
            raise ValueError(f"a tls:// scheduler needs certificates: {name} in Dask's configuration must be a file, got none")
        if file is not None and not os.path.isfile(file):
            raise ValueError(f"{name} in Dask's configuration must be a file, got {file!r}")


async def _check_scheduler(address: str) -> None:
    """Raise an error if no scheduler answers; a client would wait for one that accepts connections and says nothing."""
    from distributed import rpc
    from distributed.security import Security

    async def ask() -> None:
        async with rpc(address, timeout=WAIT, connection_args=Security().get_connection_args("client")) as scheduler:
            await scheduler.identity()

    try:
        await asyncio.wait_for(ask(), WAIT)
    except (OSError, TimeoutError):
        trusting = ", or it and this machine's certificates do not trust each other" if address.startswith("tls:") else ""
        raise ConnectionError(f"no Dask scheduler answers at {address} within {WAIT:g} s{trusting}") from None


def check_workers(client: Any, address: str) -> None:
    """Raise an error if there is no worker, or if one has other versions: its numbers might differ."""
    try:
        client.wait_for_workers(1, timeout=WAIT)
    except TimeoutError:
        raise ConnectionError(f"the Dask scheduler at {address} has no worker after {WAIT:g} s") from None
    try:
        theirs = client.run(versions)
    except (ImportError, AttributeError) as error:
        raise ConnectionError(f"a worker of {address} has no pesn, or another one than here: {error}") from None
    ours = versions()
    for worker, found in theirs.items():
        for name in ("pesn", "numpy", "scipy", "numba"):
            if found[name] != ours[name]:
                raise ConnectionError(f"worker {worker} has {name} {found[name]}, here is {ours[name]}: the numbers might differ")


def versions() -> dict[str, str]:
    """Return the versions of the packages that the numbers depend on.

    >>> sorted(versions())
    ['numba', 'numpy', 'pesn', 'python', 'scipy']
    """
    others = {name: version(name) for name in ("pesn", "numpy", "scipy", "numba")}
    return {**others, "python": platform.python_version()}
