"""``pesn forecast``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from pesn._support.files import check_writable
from pesn.cli import panels, terminal

__all__ = ["forecast"]


def forecast(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A table, .csv or .parquet: a row a step, the oldest first.")],
    target: Annotated[
        list[str] | None, typer.Option(metavar="COL…", help="Columns to forecast.", show_default="all numbers")
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Option(metavar="COL…", help="Columns that drive them, each row's own; known ahead by --future.")
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="COL", help="The column of times.", show_default="found")] = None,
    freq: Annotated[
        str | None,
        typer.Option(
            metavar="STEP", help="The step of the times, as pandas names it: MS, W, 15min; or a number.", show_default="found"
        ),
    ] = None,
    duplicates: Annotated[
        str, typer.Option(metavar="HOW", help="Rows with the same time: mean or last merges them, error refuses them.")
    ] = "error",
    horizon: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Steps ahead.", show_default="a season of up to 60 rows, or a tenth of the rows, 24 at most"
        ),
    ] = None,
    level: Annotated[
        list[float] | None, typer.Option(metavar="P…", help="Probabilities of the intervals.", show_default="0.8 0.95")
    ] = None,
    season: Annotated[
        list[int] | None,
        typer.Option(metavar="ROWS…", help="Rows after which it repeats itself; 1: it does not.", show_default="found"),
    ] = None,
    backtest: Annotated[
        int | None,
        typer.Option(metavar="K", help="Past forecasts to judge the model by; 0: none.", show_default="20, with --id 0"),
    ] = None,
    future: Annotated[Path | None, typer.Option(metavar="FILE", help="A table with the inputs of the steps ahead.")] = None,
    save: Annotated[Path | None, typer.Option(metavar="MODEL", help="File for the fitted model.")] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A saved model: forecast from FILE with it, without learning.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the forecast, a picture and a page.")] = Path("forecast"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files in DIR also where no forecast was written to it before.")
    ] = False,
    id_col: Annotated[
        str | None,
        typer.Option("--id", metavar="COL", help="The column of names, where FILE has many series: a row for each and date."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="With --id: processes.", show_default="1 a core")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With --id: a folder from which a run that was killed goes on.")
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="With --id: Parquet in, Parquet out, some rows at a time, for more than memory holds."),
    ] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="With --id: a Dask cluster to run on, such as tcp://127.0.0.1:8786; Parquet in and out."
        ),
    ] = None,
) -> None:
    """Forecast the columns of a table, with intervals, judged against persistence and the last season."""
    if id_col is not None:
        panel = panels.PanelOptions(
            file, id_col, target, inputs, time, horizon, level, season, backtest or 0, future, jobs, checkpoint, out, overwrite,
            freq, duplicates,
        )  # fmt: skip
        alone = {"--save": save is not None, "--model": model is not None}
        panels.forecast_many(panel, alone, stream=stream, scheduler=scheduler)
        return
    backtest = 20 if backtest is None else backtest
    with terminal.failing_in_one_line():
        wanted = {"--jobs": jobs, "--checkpoint": checkpoint, "--stream": stream or None, "--scheduler": scheduler}
        for option, given in wanted.items():
            if given is not None:
                raise ValueError(f"{option} must come with --id, the column of the series' names")
    with terminal.failing_in_one_line():
        import shlex
        from time import perf_counter

        from pesn._support.checks import number, whole_number

        begun = perf_counter()
        if horizon is not None:
            whole_number("--horizon", horizon, 1)
        whole_number("--backtest", backtest, 0)
        panels.check_duplicates(duplicates)
        for rows in season or []:
            whole_number("--season", rows, 1)
        for one in level or []:
            number("--level", one, 0.0, 1.0, "()")
        if save is not None and model is not None:
            raise ValueError(f"--save must not be given with --model, which is saved already, got '{save}'")
        from pesn.series import job, summary
        from pesn.series import writing as folder

        with terminal.naming(out):
            folder.refuse(out, overwrite=overwrite)
        if save is not None:
            with terminal.naming(save):
                check_writable(save)
        request = job.Request(
            file, target or (), inputs or (), time, horizon, level or (), backtest, future, model, season or (), freq, duplicates
        )  # fmt: skip
        with _stages() as watch:
            outcome = job.run(request, watch)
            watch.stage("writing")
            with terminal.naming(out):
                folder.write(outcome, out, shlex.join(["pesn", *sys.argv[1:]]), perf_counter() - begun, overwrite=overwrite)
            if save is not None:
                with terminal.naming(save):
                    outcome.save(save)
        for line in summary.lines(outcome):
            terminal.say(line)
        terminal.say(f"written   {out / 'index.html'}, forecast.csv, forecast.png, summary.json" + (f"; {save}" if save else ""))


@contextlib.contextmanager
def _stages() -> Iterator[Any]:
    """Warnings on a line each; on a terminal, a bar for what is going on."""
    from pesn.series import job

    console = terminal.console()

    class Lines(job.Watch):
        def warn(self, line: str) -> None:
            console.print(f"pesn: {line}", markup=False, highlight=False)

    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bar:

        class Bars(Lines):
            def stage(self, what: str) -> Callable[[int, int], None]:
                for old in bar.task_ids:
                    bar.update(old, visible=False)
                task = bar.add_task(what, total=None)
                return lambda done, total: bar.update(task, completed=done, total=total)

        yield Bars()
