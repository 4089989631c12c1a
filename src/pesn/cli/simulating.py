"""The command ``pesn simulate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pesn import systems
from pesn._support.files import naming
from pesn.cli import terminal

_PICTURED = 1000  # rows: a figure of more is a block of color
_PANELS = 16  # columns: more are a field, drawn as one image


def simulate(
    system: Annotated[str, typer.Argument(help=", ".join(systems.SYSTEMS), autocompletion=lambda: list(systems.SYSTEMS))],
    runs: Annotated[int, typer.Option(help="Number of runs, each from its own initial state.")] = 1,
    steps: Annotated[int | None, typer.Option(help="Number of rows of each run.", show_default="depends on the system")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Output file: .csv, .parquet or .npz.", show_default="SYSTEM.csv")] = None,
    plot: Annotated[Path | None, typer.Option(help="Figure of run 0, up to 1,000 rows: .png, .svg or .pdf.")] = None,
) -> None:
    """Simulate a system: a file with a row for each sample, and a figure with --plot."""
    with terminal.one_line_errors():
        from pesn import plotting
        from pesn._support.arguments import whole_number

        function = systems.get(system)
        options = {"runs": runs} if steps is None else {"runs": runs, "steps": steps}
        for name, value in options.items():
            whole_number(f"--{name}", value, 1)
        whole_number("--seed", seed, 0)
        out = Path(f"{system}.csv") if out is None else out
        terminal.check_writable("--out", out, systems.KINDS)
        if plot is not None:
            terminal.check_writable("--plot", plot, plotting.KINDS)
            if os.path.realpath(plot) == os.path.realpath(out):
                raise ValueError(f"--plot must be another file than --out, got '{plot}' and '{out}'")
        with terminal.stages() as stage:
            trajectories = function(**options, rng=seed, progress=stage(f"Simulating {system}"))
        with naming(out):
            trajectories.save(out)
        if plot is not None:
            with naming(plot):
                field = len(trajectories.names) > _PANELS
                run = trajectories[0]
                plotting.save((plotting.plot_field if field else plotting.plot_run)(run, rows=_PICTURED), plot)
        names = trajectories.names
        shown = names if len(names) <= _PANELS else (*names[:2], "…", names[-1])
        columns, files = " ".join(("run", "t", *shown)), f"{out}" if plot is None else f"{out} and {plot}"
        from pesn.series.table.numerals import format_count

        counts = f"{format_count(len(trajectories.states), 'row')}, {format_count(len(trajectories), 'run')}"
        terminal.say(f"{counts}, columns {columns}: {files}")
