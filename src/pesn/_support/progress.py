"""Progress of a long call, on standard error: bars on a terminal, short lines elsewhere, nothing unless it is asked for.

>>> import io
>>> page = io.StringIO()
>>> with show_progress(True, page) as steps:
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
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TextIO

Advance = Callable[[int], None]
_SECONDS = 10.0  # between two lines about one step


def ignore_progress(done: int) -> None:
    """Progress callback that does nothing."""


class Steps:
    """Steps of a call, one after the other; this class shows nothing."""

    @contextmanager
    def step(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
        """Run one step: ``advance(n)`` reports that n more of ``total`` are done; without a total only the time is shown."""
        yield ignore_progress


@contextmanager
def show_progress(verbose: bool, stream: TextIO | None = None) -> Iterator[Steps]:
    """Show steps while the block runs: bars where ``stream`` (standard error) is a terminal, lines elsewhere."""
    stream = sys.stderr if stream is None else stream
    if not verbose or stream is None:  # a program without a console has no standard error
        yield Steps()
    elif not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield _Report(_Lines(stream))
    else:
        with _bars(stream) as steps:
            yield steps


class _Lines:
    """A line every ten seconds while a step is not done."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()

    @contextmanager
    def track(self, what: str, total: int | None, unit: str, began: float) -> Iterator[Advance]:
        last = began

        def report(done: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last < _SECONDS or not (unit if total is None else 0 < done < total):
                return
            last = now
            if total is None:
                self.say(f"{what}: {done:,} {unit} so far")
            else:
                left = (now - began) * (total - done) / done
                self.say(f"{what}: {done:,} of {total:,} {unit}".rstrip() + f", {left:.0f} s left")

        yield report


class _Report(Steps):
    """Steps that are shown: while they run by ``display.track``, and by a line when they are done."""

    def __init__(self, display: Any) -> None:
        self._display = display

    @contextmanager
    def step(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Advance]:
        began, done = time.monotonic(), 0
        tracking: AbstractContextManager[Advance] = self._display.track(what, total, unit, began)
        with tracking as report:

            def advance(more: int) -> None:
                nonlocal done
                done += more
                report(done)

            yield advance
        amount = f"{done:,} {unit}, " if done and unit else ""
        self._display.say(f"{what}: {amount}{time.monotonic() - began:.1f} s")


@contextmanager
def _bars(stream: TextIO) -> Iterator[Steps]:
    """Show a bar for the step that is under way; a line stays for each that is done."""
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

    class Bars(Progress):
        def say(self, line: str) -> None:
            self.console.print(line, style="dim", markup=False, highlight=False)

        @contextmanager
        def track(self, what: str, total: int | None, unit: str, _: float) -> Iterator[Advance]:  # type: ignore[override]
            task = self.add_task(what, total=total, unit=unit)
            try:
                yield lambda done: self.update(task, completed=done)
            finally:
                self.remove_task(task)

    columns: Any = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), HowFar()
    bars = Bars(*columns, console=Console(file=stream), transient=True, speed_estimate_period=3600.0)
    try:
        bars.start()
    except LiveError:  # the caller shows other bars, which must not be overwritten
        yield Steps()
        return
    try:
        yield _Report(bars)
    finally:
        bars.stop()
