"""The command line: parsing only. Results on standard output, progress and errors on standard error.

Exit codes: 0 done, 1 it could not be done, 2 a wrong call, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from pesn import paper, systems
from pesn.writing import refuse_unwritable

if TYPE_CHECKING:
    from pesn.reproducing import Watch

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
        _print(f"{counts}, columns {columns}: {files}")


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]…", help="Items, as pesn list has them.", autocompletion=lambda: list(paper.ITEMS), show_default="all"
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small samples: minutes, not half an hour.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for the results and the page; what is finished there is not made again.")
    ] = Path("reproduction"),
    jobs: Annotated[int | None, typer.Option(help="Processes on this machine.", show_default="one for each core")] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of a Dask cluster to run on instead, such as tcp://127.0.0.1:8786.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of what is random: the same seed gives the same numbers.")] = 0,
) -> None:
    """Make the paper's tables and figures again: a page with what was published beside what is obtained."""
    with _failing_in_one_line():
        from pesn import reproducing
        from pesn.parameters import whole_number

        names = names or list(paper.ITEMS)
        for name in names:
            if name not in paper.ITEMS:
                paper.get(name)  # says which there are
        whole_number("--seed", seed, 0)
        if jobs is not None:
            whole_number("--jobs", jobs, 1)
            if scheduler is not None:
                raise ValueError(f"--jobs must not be given with --scheduler, which has workers, got {jobs}")
        try:
            with _watch(len(dict.fromkeys(names))) as watch:
                records = reproducing.reproduce(
                    names, out, quick=quick, seed=seed, jobs=jobs or _cores(), scheduler=scheduler, watch=watch
                )
        except reproducing.ItemError as error:
            _fail(1, str(error))
        counts = Counter(claim["verdict"] for record in records for claim in record["claims"])
        said = "".join(f", {counts[verdict]} {verdict}" for verdict in ("holds", "corrected", "does not hold") if counts[verdict])
        judged = f", claims: {said[2:]}" if said else ""
        _print(f"{_counted(len(records), 'item')}{judged}: {out / 'index.html'}")


@app.command("list")
def list_items() -> None:
    """The items that pesn reproduce makes: name and title."""
    with _failing_in_one_line():
        width = max(map(len, paper.ITEMS))
        for name in paper.ITEMS:
            _print(f"{name:{width}}  {paper.get(name).TITLE}")


def _cores() -> int:
    from joblib import cpu_count

    return int(cpu_count())  # of those that this process may use


def _print(line: str) -> None:
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
def _watch(count: int) -> Iterator[Watch]:
    """Bars on a terminal, of all items and of the one that runs; elsewhere a line for each item."""
    from pesn import reproducing

    terminal = sys.stderr.isatty()

    class Lines(reproducing.Watch):
        def finished(self, record: dict[str, Any], reused: bool) -> None:
            took = "there already" if reused else f"{record['seconds']:.1f} s"
            console.print(f"{record['name']}: {took}", style="dim", markup=False, highlight=False)

    console = Console(stderr=True, soft_wrap=True, no_color=None if terminal else True)
    if not terminal:
        yield Lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True, speed_estimate_period=3600.0) as bar:
        items = bar.add_task("items", total=count)
        units = bar.add_task("", total=None)

        class Bars(Lines):
            def started(self, name: str, position: int, count: int) -> None:
                bar.reset(units, description=name, total=None)

            def units(self, done: int, total: int) -> None:
                bar.update(units, completed=done, total=total)

            def finished(self, record: dict[str, Any], reused: bool) -> None:
                super().finished(record, reused)
                bar.advance(items)

        yield Bars()


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
