"""``pesn reproduce`` and ``pesn list``."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pesn import paper
from pesn.cli import terminal
from pesn.paper.claims import LABELS, labels_of
from pesn.series.table.numerals import counted

if TYPE_CHECKING:
    from pesn.paper.runner import Watch


def _how_long() -> str:
    """Of all items on two cores, as it was measured."""
    small, full = (round(sum(seconds) / 60.0) for seconds in zip(*paper.SECONDS.values(), strict=True))
    return f"Small samples: all items in about {small} minutes on two cores, not {full}."


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]…", help="Items, as pesn list has them.", autocompletion=lambda: list(paper.ITEMS), show_default="all"
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help=_how_long())] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for the results and the page; what is finished there is not made again.")
    ] = Path("reproduction"),
    jobs: Annotated[int | None, typer.Option(help="Processes on this machine.", show_default="one for each core")] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of a Dask cluster to run on instead, such as tcp://127.0.0.1:8786.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of what is random: the same seed gives the same numbers.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of an item, as pesn list ITEM has them; may be repeated."),
    ] = None,
) -> None:
    """Make the paper's tables and figures again: a page with what was published beside what is obtained."""
    with terminal.failing_in_one_line():
        from pesn._support.arguments import whole_number
        from pesn.paper import runner as reproducing

        names = names or list(paper.ITEMS)
        for name in names:
            if name not in paper.ITEMS:
                paper.get(name)  # says which there are
        whole_number("--seed", seed, 0)
        if jobs is not None:
            whole_number("--jobs", jobs, 1)
            if scheduler is not None:
                raise ValueError(f"--jobs must not be given with --scheduler, which has workers, got {jobs}")
        own = _settings(settings or [])
        try:
            with _watch(list(dict.fromkeys(names)), quick) as watch:
                records = reproducing.reproduce(
                    names, out, quick=quick, seed=seed, jobs=jobs or _cores(), scheduler=scheduler, watch=watch, settings=own
                )
        except reproducing.ItemError as error:
            terminal.fail(1, str(error))
        counts = Counter(labels_of(claim for record in records for claim in record["claims"]).values())
        said = "".join(f", {counts[verdict]} {verdict}" for verdict in LABELS if counts[verdict])
        judged = f", claims: {said[2:]}" if said else ""
        terminal.say(f"{counted(len(records), 'item')}{judged}: {out / 'index.html'}")


def list_items(
    item: Annotated[
        str | None,
        typer.Argument(help="An item, whose settings are listed.", autocompletion=lambda: list(paper.ITEMS), show_default=False),
    ] = None,
) -> None:
    """The items that pesn reproduce makes, with their place in the paper; or the settings of one, with defaults and meaning."""
    with terminal.failing_in_one_line():
        if item is None:
            width = max(map(len, paper.ITEMS))
            for name in paper.ITEMS:
                terminal.say(f"{name:{width}}  {paper.get(name).TITLE} ({paper.get(name).PLACE})")
            return
        from pesn.paper.item_settings import format_value

        module = paper.get(item)
        full, quick = module.parameters(False), module.parameters(True)
        terminal.say(f"Settings of {item}, for pesn reproduce {item} --set NAME=VALUE:")
        for name, setting in module.SETTINGS.items():
            small = f" (with --quick {format_value(quick[name])})" if quick[name] != full[name] else ""
            terminal.say(f"\n{name}={format_value(full[name])}{small}\n    {setting.meaning}\n    Takes {setting.kind.words}.")


def _settings(words: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE, NAME=VALUE, … by name."""
    from pesn.paper.item_settings import parse_value

    given: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name.strip() and equals):
            raise ValueError(f"--set must be NAME=VALUE, got {word!r}")
        if name.strip() in given:
            raise ValueError(f"--set must name each setting once, got {name.strip()} twice")
        given[name.strip()] = parse_value(value.strip())
    return given


def _cores() -> int:
    from joblib import cpu_count

    return int(cpu_count())  # of those that this process may use


@contextlib.contextmanager
def _watch(names: Sequence[str], quick: bool) -> Iterator[Watch]:
    """Bars on a terminal, of all items and of the one that runs; elsewhere lines as items begin and end.

    How long all still take is reckoned from what items are known to take, relative to each other.
    """
    from pesn.paper import runner as reproducing

    console = terminal.console()

    class Lines(reproducing.Watch):
        def started(self, name: str, position: int, count: int) -> None:
            if not console.is_terminal:
                console.print(f"{name} ({position} of {count}) …", style="dim", markup=False, highlight=False)

        def finished(self, record: dict[str, Any], reused: bool) -> None:
            took = "there already" if reused else f"{record['seconds']:.1f} s"
            console.print(f"{record['name']}: {took}", style="dim", markup=False, highlight=False)

    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    cost = {name: paper.SECONDS.get(name, (10, 30))[0 if quick else 1] for name in names}
    narrow = console.width < 60
    columns = (
        TextColumn("{task.description}"),
        *([] if narrow else [BarColumn(bar_width=20)]),
        TextColumn("{task.fields[count]}"),
    )
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(compact=narrow))
    with Progress(*columns, *times, console=console, transient=True, speed_estimate_period=3600.0) as bar:
        every = bar.add_task("all", total=sum(cost.values()), count=f"0/{len(names)}")
        one = bar.add_task("", total=None, count="")

        class Bars(Lines):
            behind = 0.0  # of the cost
            name = ""

            def started(self, name: str, position: int, count: int) -> None:
                self.name = name
                bar.update(every, count=f"{position}/{count}")
                bar.reset(one, description=name, total=None, count="")

            def units(self, done: int, total: int) -> None:
                bar.update(one, completed=done, total=total, count=f"{done}/{total}")
                # units of a second call are not known yet: an item is never called done before it is
                bar.update(every, completed=self.behind + 0.9 * cost[self.name] * done / max(total, 1))

            def finished(self, record: dict[str, Any], reused: bool) -> None:
                super().finished(record, reused)
                if reused:  # no work, and no measure of how fast work goes
                    bar.update(every, total=(bar.tasks[every].total or 0.0) - cost[record["name"]])
                else:
                    self.behind += cost[record["name"]]
                    bar.update(every, completed=self.behind)

        yield Bars()
