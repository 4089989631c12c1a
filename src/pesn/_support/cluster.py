"""A Dask cluster by its address: it must answer, have a worker, and the versions that are here.

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
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

__all__ = ["WAIT", "check_certificates", "check_workers", "client", "versions"]

WAIT = 10.0  # seconds that a scheduler and its first worker are given to answer


@contextlib.contextmanager
def client(address: str) -> Iterator[Any]:
    """A client of the cluster, which has a worker and the versions that we have."""
    if not re.fullmatch(r"(tcp|tls)://[^/]+:\d{1,5}", address):
        raise ValueError(f"scheduler must be an address such as tcp://127.0.0.1:8786, got {address!r}")
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("a scheduler needs Dask: pip install 'pesn[dask]'") from None
    if address.startswith("tls:"):
        check_certificates()
    with _silenced("distributed"):  # what matters comes as an exception
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
def _silenced(name: str) -> Iterator[None]:
    """No word from a package's loggers, each of which has a level of its own."""
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
    """An error where Dask's configuration, which its scheduler and workers use too, does not name the files that TLS needs."""
    from dask import config

    for key in ("ca-file", "client.cert", "client.key"):
        name = f"distributed.comm.tls.{key}"
        file = config.get(name, None)
        if file is None and key != "client.key":  # which may stand in the file of the certificate
            raise ValueError(f"a tls:// scheduler needs certificates: {name} in Dask's configuration must be a file, got none")
        if file is not None and not os.path.isfile(file):
            raise ValueError(f"{name} in Dask's configuration must be a file, got {file!r}")


async def _check_scheduler(address: str) -> None:
    """An error where no scheduler answers; a client itself would go on waiting for one that is there and says nothing."""
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
    """An error where there is no worker, or where one has other versions: its numbers might differ."""
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
    """What the numbers depend on: package -> version.

    >>> sorted(versions())
    ['numba', 'numpy', 'pesn', 'python', 'scipy']
    """
    others = {name: version(name) for name in ("pesn", "numpy", "scipy", "numba")}
    return {**others, "python": platform.python_version()}
