"""The command ``pesn forecast``."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from pesn._support.files import naming
from pesn.cli import terminal
from pesn.cli.terminal import option

if TYPE_CHECKING:
    from pesn.series.job import Request

_HORIZON = "a season of up to 60 rows, or a tenth of the rows, 24 at most"


def forecast(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Table, .csv or .parquet: one row per time step, oldest first.")],
    target: Annotated[list[str] | None, option("COL…", "Columns to forecast.", "all numeric")] = None,
    inputs: Annotated[list[str] | None, option("COL…", "Exogenous regressors (future values via --future).")] = None,
    time: Annotated[str | None, option("COL", "Time column.", "detected")] = None,
    freq: Annotated[str | None, option("STEP", "Frequency as a pandas alias (MS, W, 15min) or a number.", "detected")] = None,
    duplicates: Annotated[str, option("HOW", "Rows with the same time: mean or last merges them, error rejects them.")] = "error",
    horizon: Annotated[int | None, option("N", "Forecast horizon in steps.", _HORIZON)] = None,
    level: Annotated[list[float] | None, option("P…", "Levels of the prediction intervals.", "0.8 0.95")] = None,
    season: Annotated[
        list[int] | None, option("ROWS…", "Seasonal period(s) in steps; 1 disables seasonality.", "detected")
    ] = None,
    backtest: Annotated[int | None, option("K", "Number of backtest origins; 0: no backtest.", "20, with --id 0")] = None,
    future: Annotated[Path | None, option("FILE", "Table with future values of --inputs.")] = None,
    save: Annotated[Path | None, option("MODEL", "Save the fitted model to this file.")] = None,
    model: Annotated[Path | None, option("MODEL", "Saved model: forecast FILE with it, without fitting.")] = None,
    out: Annotated[Path, option("DIR", "Folder for the forecast and a report with figures.")] = Path("forecast"),
    png: Annotated[bool, typer.Option("--png", help="Also write the figure as forecast.png.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files in DIR that pesn forecast did not write.")
    ] = False,
    id_col: Annotated[
        str | None, option("COL", "Series identifier column of a long table: one row per series and time.", name="--id")
    ] = None,
    jobs: Annotated[int | None, option("N", "With --id: number of processes.", "1 per core")] = None,
    checkpoint: Annotated[
        Path | None, option("DIR", "With --id: folder for finished results; an interrupted run continues from them.")
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="With --id: read and write Parquet in chunks, for data larger than memory; resumes an interrupted run.",
        ),
    ] = False,
    scheduler: Annotated[
        str | None, option("ADDRESS", "With --id: address of a Dask scheduler, such as tcp://127.0.0.1:8786; Parquet in and out.")
    ] = None,
) -> None:
    """Forecast the columns of a table with prediction intervals; backtest against naive and seasonal-naive baselines."""
    with terminal.one_line_errors():
        begin = perf_counter()
        many = {"--jobs": jobs, "--checkpoint": checkpoint, "--stream": stream or None, "--scheduler": scheduler}
        _refuse(many if id_col is None else {}, "must come with --id, the column of the series' names")
        alone = {} if id_col is None else {"--save": save, "--model": model, "--png": png or None}
        _refuse(alone, "must not be given with --id: it is for a table of one series per column")
        from pesn.series.job import Request

        request = Request(
            file, target or (), inputs or (), time, horizon, level or (), backtest, future, model, season or (), freq,
            duplicates, id_col, -1 if jobs is None else jobs, sys.stderr.isatty(), checkpoint,
        )  # fmt: skip
        _check(request, jobs)
        if id_col is None:
            _forecast_table(request, out, save, overwrite, png, begin)
        elif stream or scheduler is not None:
            _forecast_parquet(request, out, scheduler)
        else:
            _forecast_panel(request, out, overwrite, begin)


def _refuse(options: Mapping[str, object], why: str) -> None:
    """Raise a ValueError where one of the options was given."""
    for name, given in options.items():
        if given is not None:
            raise ValueError(f"{name} {why}")


def _check(request: Request, jobs: int | None) -> None:
    """Raise a ValueError where an option is out of range."""
    from pesn._support.arguments import number, whole_number

    counts = [("--horizon", request.horizon, 1), ("--backtest", request.backtest, 0), ("--jobs", jobs, 1)]
    for name, value, least in (*counts, *(("--season", rows, 1) for rows in request.season)):
        if value is not None:
            whole_number(name, value, least)
    for one in request.levels:
        number("--level", one, 0.0, 1.0, "()")
    if request.duplicates not in ("error", "mean", "last"):
        raise ValueError(f"--duplicates must be mean, last or error, got {request.duplicates!r}")
    if request.id_col is not None and len(request.targets) > 1:
        raise ValueError(f"--target must be one column with --id, got {', '.join(request.targets)}")


def _forecast_table(request: Request, out: Path, save: Path | None, overwrite: bool, png: bool, begin: float) -> None:
    """Forecast the columns of a table."""
    if save is not None and request.model is not None:
        raise ValueError(f"--save must not be given with --model, which is saved already, got '{save}'")
    from pesn._support.files import check_writable
    from pesn._support.progress import show_progress
    from pesn.series import job, writing

    with naming(out):
        writing.refuse(out, overwrite=overwrite, files=writing.list_files(png))
    if save is not None:
        with naming(save):
            check_writable(save)
    with show_progress(sys.stderr.isatty()) as steps:
        outcome = job.run(request, steps, _warn)
        with steps.step("writing"), naming(out):
            writing.write(outcome, out, _command(), perf_counter() - begin, overwrite=overwrite, png=png)
        if save is not None:
            with naming(save):
                outcome.save(save)
    for line in writing.lines(outcome):
        terminal.say(line)
    figure = f"{writing.FIGURE}, " if png else ""
    terminal.say(f"written   {out / 'index.html'}, forecast.csv, {figure}summary.json" + (f"; {save}" if save else ""))


def _forecast_panel(request: Request, out: Path, overwrite: bool, begin: float) -> None:
    """Forecast every series of a long table that memory holds."""
    from pesn.series import writing
    from pesn.series.panel import panel_job

    with naming(out):
        writing.refuse(out, overwrite=overwrite, files=panel_job.FILES)
    outcome = panel_job.run(request)
    with naming(out):
        files = panel_job.write(outcome, out, _command(), perf_counter() - begin)
    for line in panel_job.lines(outcome):
        terminal.say(line)
    terminal.say(f"written   {out / files[0]}, {', '.join(files[1:])}")


def _forecast_parquet(request: Request, out: Path, scheduler: str | None) -> None:
    """Forecast Parquet into Parquet, some rows at a time; with a scheduler, its workers forecast the series."""
    from pesn._support.cluster import worker_cluster
    from pesn.series.forecaster import SeriesForecaster
    from pesn.series.panel.parquet import forecast_parquet
    from pesn.series.table.numerals import format_count

    if request.inputs or request.backtest or request.checkpoint:
        raise ValueError(
            "--inputs, --backtest and --checkpoint must not be given with --stream or --scheduler: all columns beside --id, "
            "--time and --target are inputs, and an interrupted run continues without a checkpoint"
        )
    forecaster = SeriesForecaster(
        request.horizon, tuple(request.season) or "auto", tuple(request.levels or (0.8, 0.95)), request.n_jobs,
        id_col=str(request.id_col), time_col=request.time or "ds", target_col=[*request.targets, "y"][0], freq=request.freq,
        duplicates=request.duplicates, verbose=request.verbose,
    )  # fmt: skip
    with naming(out), contextlib.nullcontext() if scheduler is None else worker_cluster(scheduler):
        done = forecast_parquet(request.file, out, request.horizon, X=request.future, forecaster=forecaster)
    terminal.say(f"forecast  {done.series:,} series" + (f", {done.failures:,} failed" if done.failures else ""))
    if done.merged:
        terminal.say(f"merged    {format_count(done.merged, 'row')} with the time of another row of their series")
    terminal.say(f"written   {out}, {format_count(done.files, 'Parquet file')}")


def _warn(line: str) -> None:
    """Print a warning on standard error."""
    terminal.console().print(f"pesn: {line}", markup=False, highlight=False)


def _command() -> str:
    return shlex.join(["pesn", *sys.argv[1:]])
