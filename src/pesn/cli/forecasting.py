"""``pesn forecast``."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import typer

from pesn._support.files import check_writable
from pesn.cli import terminal

__all__ = ["PanelOptions", "check_duplicates", "forecast", "forecast_many"]


class PanelOptions(NamedTuple):
    """As they were given."""

    file: Path
    id_col: str
    target: list[str] | None
    inputs: list[str] | None
    time: str | None
    horizon: int | None
    level: list[float] | None
    season: list[int] | None
    backtest: int
    future: Path | None
    jobs: int | None
    checkpoint: Path | None
    out: Path
    overwrite: bool
    freq: str | None = None
    duplicates: str = "error"


def check_duplicates(how: str) -> None:
    """Raise a ValueError unless it is a way to treat rows with the same time."""
    if how not in ("error", "mean", "last"):
        raise ValueError(f"--duplicates must be mean, last or error, got {how!r}")


def forecast_many(options: PanelOptions, alone: Mapping[str, bool], *, stream: bool, scheduler: str | None) -> None:
    """Forecast every series of a long table; ``alone`` are options that one series has, and whether they were given."""
    with terminal.failing_in_one_line():
        _check(options, alone)
        if stream or scheduler is not None:
            _parquet(options, scheduler)
        else:
            _in_memory(options)


def _check(options: PanelOptions, alone: Mapping[str, bool]) -> None:
    from pesn._support.arguments import number, whole_number

    for option, given in alone.items():
        if given:
            raise ValueError(f"{option} must not be given with --id: the rows and options are all there is to many series")
    for name, value, least in (
        ("--horizon", options.horizon, 1),
        ("--backtest", options.backtest, 0),
        ("--jobs", options.jobs, 1),
    ):
        if value is not None:
            whole_number(name, value, least)
    for rows in options.season or []:
        whole_number("--season", rows, 1)
    for one in options.level or []:
        number("--level", one, 0.0, 1.0, "()")
    check_duplicates(options.duplicates)
    if len(options.target or []) > 1:
        raise ValueError(f"--target must be one column with --id, got {', '.join(options.target or [])}")


def _in_memory(options: PanelOptions) -> None:
    """A table that memory holds: files for people."""
    from pesn.series import writing
    from pesn.series.panel import job as panel_job
    from pesn.series.panel import writing as panel_writing
    from pesn.series.panel.run import Runner

    begun = perf_counter()
    with terminal.naming(options.out):
        writing.refuse(options.out, overwrite=options.overwrite, files=panel_writing.FILES)
    jobs = -1 if options.jobs is None else options.jobs
    target = options.target[0] if options.target else None
    request = panel_job.PanelRequest(
        options.file, options.id_col, target, tuple(options.inputs or ()), options.time, options.horizon,
        tuple(options.level or ()), options.backtest, options.future, tuple(options.season or ()),
        Runner(jobs, options.checkpoint, sys.stderr.isatty()), options.freq, options.duplicates,
    )  # fmt: skip
    outcome = panel_job.run(request)
    command = shlex.join(["pesn", *sys.argv[1:]])
    with terminal.naming(options.out):
        files = panel_writing.write(outcome, options.out, command, perf_counter() - begun)
    for line in panel_job.lines(outcome):
        terminal.say(line)
    terminal.say(f"written   {options.out / files[0]}, {', '.join(files[1:])}")


def _parquet(options: PanelOptions, scheduler: str | None) -> None:
    """Parquet in, Parquet out: here, some rows at a time, or on a cluster."""
    from pesn.series.forecaster import SeriesForecaster

    if options.inputs or options.backtest or options.checkpoint:
        raise ValueError(
            "--inputs, --backtest and --checkpoint must not be given with --stream or --scheduler: all columns beside --id, "
            "--time and --target are inputs, and what is written is gone on from"
        )
    forecaster = SeriesForecaster(
        options.horizon, tuple(options.season or ()) or "auto", tuple(options.level or (0.8, 0.95)),
        -1 if options.jobs is None else options.jobs, id_col=options.id_col, time_col=options.time or "ds",
        target_col=(options.target or ["y"])[0], freq=options.freq, duplicates=options.duplicates, verbose=sys.stderr.isatty(),
    )  # fmt: skip
    arguments: dict[str, Any] = {"X": options.future, "forecaster": forecaster}
    with terminal.naming(options.out):
        if scheduler is None:
            from pesn.series.panel.stream import forecast_parquet

            done = forecast_parquet(options.file, options.out, options.horizon, **arguments)
        else:
            from pesn.series.panel.stream import forecast_parquet_on

            done = forecast_parquet_on(scheduler, options.file, options.out, options.horizon, **arguments)
    terminal.say(f"forecast  {done.series:,} series" + (f", {done.failures:,} failed" if done.failures else ""))
    if done.merged:
        terminal.say(f"merged    {terminal.counted(done.merged, 'row')} with the time of another row of their series")
    terminal.say(f"written   {options.out}, {terminal.counted(done.files, 'Parquet file')}")


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
        panel = PanelOptions(
            file, id_col, target, inputs, time, horizon, level, season, backtest or 0, future, jobs, checkpoint, out, overwrite,
            freq, duplicates,
        )  # fmt: skip
        alone = {"--save": save is not None, "--model": model is not None}
        forecast_many(panel, alone, stream=stream, scheduler=scheduler)
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

        from pesn._support.arguments import number, whole_number

        begun = perf_counter()
        if horizon is not None:
            whole_number("--horizon", horizon, 1)
        whole_number("--backtest", backtest, 0)
        check_duplicates(duplicates)
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
