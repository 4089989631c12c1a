"""How far a long call is, on standard error: bars on a terminal, short lines elsewhere, nothing unless it is asked for.

>>> import io
>>> page = io.StringIO()
>>> with shown(True, page) as steps:
...     with steps.step("driving the reservoir", 8192, "rows") as advance:
...         advance(4096)
...         advance(4096)
>>> page.getvalue()
'driving the reservoir: 8,192 rows, ... s\\n'
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

Advance = Callable[[int], None]
_SECONDS = 10.0  # between two lines about one step


def nothing(done: int) -> None:
    """So many more are done, and nobody is told."""


class Steps:
    """The steps of a call, one after the other, of which nothing is shown."""

    @contextmanager
    def step(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
        """What is done in the block: ``advance(n)`` says that n more of ``total`` are; without a total only the time counts."""
        yield nothing


@contextmanager
def shown(verbose: bool, stream: TextIO | None = None) -> Iterator[Steps]:
    """Steps that are seen while the block runs: bars where ``stream`` (standard error) is a terminal, lines elsewhere."""
    stream = sys.stderr if stream is None else stream
    if not verbose or stream is None:  # a program without a console has no standard error
        yield Steps()
    elif not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield _Lines(stream)
    else:
        with _bars(stream) as steps:
            yield steps


class _Lines(Steps):
    """A line when a step is done, and every ten seconds while it is not."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @contextmanager
    def step(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
        began = said = time.monotonic()
        done = 0

        def advance(more: int) -> None:
            nonlocal done, said
            done, now = done + more, time.monotonic()
            if now - said < _SECONDS:
                return
            if not total and unit:
                said = now
                self._say(f"{what}: {done:,} {unit} so far")
            elif total and 0 < done < total:
                said = now
                left = (now - began) * (total - done) / done
                self._say(f"{what}: {done:,} of {total:,} {unit}".rstrip() + f", {left:.0f} s left")

        yield advance
        amount = f"{done:,} {unit}, " if done and unit else ""
        self._say(f"{what}: {amount}{time.monotonic() - began:.1f} s")

    def _say(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


@contextmanager
def _bars(stream: TextIO) -> Iterator[Steps]:
    """A bar for the step that is under way; a line stays for each that is done."""
    from rich.console import Console
    from rich.errors import LiveError
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class HowFar(ProgressColumn):
        def render(self, task: Task) -> Text:
            if task.total is None:
                return Text(f"{task.completed:,.0f} {task.fields['unit']} so far" if task.completed else "")
            left = "" if task.time_remaining is None else f", {task.time_remaining:.0f} s left"
            return Text(f"{task.completed:,.0f} of {task.total:,.0f} {task.fields['unit']}{left}")

    console = Console(file=stream)
    columns: Any = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), HowFar()
    bar = Progress(*columns, console=console, transient=True, speed_estimate_period=3600.0)
    try:
        bar.start()
    except LiveError:  # the caller shows bars of his own, which must not be written over
        yield Steps()
        return

    class Bars(Steps):
        @contextmanager
        def step(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
            began, task = time.monotonic(), bar.add_task(what, total=total, unit=unit)
            done = 0

            def advance(more: int) -> None:
                nonlocal done
                done += more
                bar.advance(task, more)

            try:
                yield advance
            finally:
                bar.remove_task(task)
            amount = f"{done:,} {unit}, " if done and unit else ""
            console.print(f"{what}: {amount}{time.monotonic() - began:.1f} s", style="dim", markup=False, highlight=False)

    try:
        yield Bars()
    finally:
        bar.stop()
