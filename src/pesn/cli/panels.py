"""``pesn forecast --id``: many series in one file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from pesn.cli import terminal

__all__ = ["PanelOptions", "check_duplicates", "forecast_many"]


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
    from pesn._support.checks import number, whole_number

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
            from pesn.series.panel.cluster import forecast_parquet_on

            done = forecast_parquet_on(scheduler, options.file, options.out, options.horizon, **arguments)
    terminal.say(f"forecast  {done.series:,} series" + (f", {done.failures:,} failed" if done.failures else ""))
    if done.merged:
        terminal.say(f"merged    {terminal.counted(done.merged, 'row')} with the time of another row of their series")
    terminal.say(f"written   {options.out}, {terminal.counted(done.files, 'Parquet file')}")
