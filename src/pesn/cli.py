"""The command line: parsing only. Results on standard output, progress and errors on standard error.

Exit codes: 0 done, 1 it could not be done, 2 a wrong call, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from pesn import systems
from pesn.writing import refuse_unwritable

app = typer.Typer(help="Uncertainty through tanh networks and reservoirs in closed form.", no_args_is_help=True)
_PICTURED = 1000  # rows: a picture of more is a block of colour


def _version(show: bool) -> None:
    if show:
        from pesn import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("demo")) -> None:
    """The moment engine at work: a table of its methods and a picture."""
    Console(stderr=True).print("Compiling the kernels at first use takes some seconds …", style="dim")
    from pesn import demo as demonstration

    try:
        picture = demonstration.run(out, Console())
    except OSError as error:
        Console(stderr=True).print(f"cannot write to {out}: {error.strerror}", style="red")
        raise typer.Exit(1) from error
    print(f"\nThe picture is in {picture}")


@app.command()
def simulate(
    system: Annotated[str, typer.Argument(help=", ".join(systems.SYSTEMS), autocompletion=lambda: list(systems.SYSTEMS))],
    runs: Annotated[int, typer.Option(help="Runs, each with a start of its own.")] = 1,
    steps: Annotated[int | None, typer.Option(help="Rows of each run.", show_default="the system's own")] = None,
    seed: Annotated[int, typer.Option(help="Of what is random: the same seed gives the same numbers.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="File for the rows: .csv, .parquet or .npz.", show_default="SYSTEM.csv")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="File for a picture of run 0, up to 1,000 rows of it: .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Simulate a system: a file with a row for each sample, and a picture if wanted."""
    with _failing_in_one_line():
        from pesn import plotting
        from pesn.parameters import whole_number

        function = systems.get(system)
        options = {"runs": runs} if steps is None else {"runs": runs, "steps": steps}
        for name, value in options.items():
            whole_number(f"--{name}", value, 1)
        whole_number("--seed", seed, 0)
        out = Path(f"{system}.csv") if out is None else out
        _refuse_unwritable("--out", out, systems.KINDS)
        if plot is not None:
            _refuse_unwritable("--plot", plot, plotting.KINDS)
            if os.path.realpath(plot) == os.path.realpath(out):
                raise ValueError(f"--plot must be another file than --out, got '{plot}' and '{out}'")
        with _progress(f"Simulating {system}") as progress:
            trajectories = function(**options, rng=seed, progress=progress)
        with _naming(out):
            trajectories.save(out)
        if plot is not None:
            with _naming(plot):
                plotting.save(plotting.plot_run(trajectories, rows=_PICTURED), plot)
        columns, files = " ".join(("run", "t", *trajectories.names)), f"{out}" if plot is None else f"{out} and {plot}"
        counts = f"{_counted(len(trajectories.states), 'row')}, {_counted(len(trajectories), 'run')}"
        line = f"{counts}, columns {columns}: {files}"
        coding = sys.stdout.encoding or "utf-8"
        print(line.encode(coding, "backslashreplace").decode(coding))  # a file's name may be none that can be shown


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n > 1)}"


def _refuse_unwritable(option: str, path: Path, kinds: tuple[str, ...]) -> None:
    """Say so before the work is done that the file would hold."""
    suffix = path.suffix.lower()
    if suffix not in kinds:
        raise ValueError(f"{option} must end in {', '.join(kinds[:-1])} or {kinds[-1]}, got '{path}'")
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise ImportError(f"{option} needs pyarrow for a .parquet file: pip install 'pesn[parquet]'; or give a .csv file")
    with _naming(path):
        refuse_unwritable(path)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors name the file that was asked for, not the temporary one beside it."""
    try:
        yield
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextlib.contextmanager
def _failing_in_one_line() -> Iterator[None]:
    """What went wrong, on one line of standard error, and the exit code that goes with it."""
    try:
        yield
    except ValueError as error:
        _fail(2, str(error))
    except (OSError, FloatingPointError, MemoryError, ImportError) as error:
        _fail(1, str(error) or type(error).__name__)
    except KeyboardInterrupt:
        _fail(130, "interrupted")


def _fail(code: int, message: str) -> NoReturn:
    print("pesn:", " ".join(message.split()), file=sys.stderr)
    raise typer.Exit(code)


def main() -> None:
    """Entry point of the ``pesn`` command."""
    app()
