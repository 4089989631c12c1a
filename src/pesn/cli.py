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
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn

import typer
from rich.console import Console
from typer.core import TyperCommand

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


class _Several(TyperCommand):
    """A command some of whose options take several words after one flag: ``--level 0.8 0.95`` is ``--level 0.8 --level 0.95``.

    Options end at the next one; of names, the last is FILE where nothing else is.
    """

    several: ClassVar = {"--level": True, "--target": False, "--inputs": False}  # whether words are numbers

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Click takes the words one by one."""
        return super().parse_args(ctx, self.spread(args))

    @classmethod
    def spread(cls, args: list[str]) -> list[str]:
        """The arguments with a flag before each word.

        >>> _Several.spread(["--level", "0.8", "0.95", "a.csv"]), _Several.spread(["--target", "x", "y", "a.csv"])
        (['--level', '0.8', '--level', '0.95', 'a.csv'], ['--target', 'x', '--target', 'y', 'a.csv'])
        """
        words, free, groups = list(args), [], []
        out: list[tuple[str, ...]] = []
        while words:
            word = words.pop(0)
            if word == "--":
                free += words
                out += [("--",), *((one,) for one in words)]
                break
            if word in cls.several:
                group = [words.pop(0)] if words else []
                while words and not words[0].startswith("--") and (_is_number(words[0]) if cls.several[word] else True):
                    group.append(words.pop(0))
                out += [(word, one) for one in group] or [(word,)]
                if not cls.several[word] and len(group) > 1:
                    groups.append((word, group[-1]))
            elif word.startswith("--") and "=" not in word and word != "--help" and words:
                out.append((word, words.pop(0)))
            else:
                out.append((word,))
                free += [word] * (not word.startswith("-"))
        if groups and not free:
            looks = [one for one in groups if Path(one[1]).suffix.lower() in (".csv", ".tsv", ".txt", ".parquet", ".pq")]
            chosen = (looks or groups)[-1]
            place = len(out) - 1 - out[::-1].index(chosen)
            out[place] = (chosen[1],)
        return [word for part in out for word in part]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


@app.command(cls=_Several)
def forecast(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A table, .csv or .parquet: a row a step, the oldest first.")],
    target: Annotated[
        list[str] | None, typer.Option(metavar="COL…", help="Columns to forecast.", show_default="all numbers")
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Option(metavar="COL…", help="Columns that drive them, each row's own; known ahead by --future.")
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="COL", help="The column of times.", show_default="found")] = None,
    horizon: Annotated[
        int | None, typer.Option(metavar="N", help="Steps ahead.", show_default="a season, or a tenth of the rows")
    ] = None,
    level: Annotated[
        list[float] | None, typer.Option(metavar="P…", help="Probabilities of the intervals.", show_default="0.8 0.95")
    ] = None,
    season: Annotated[
        int | None, typer.Option(metavar="ROWS", help="Rows after which it repeats itself; 1: it does not.", show_default="found")
    ] = None,
    tune: Annotated[int, typer.Option(metavar="N", help="Search for a better model with Optuna, in N trials.")] = 0,
    tune_seconds: Annotated[float, typer.Option(metavar="S", help="Time that the search may take.")] = 120.0,
    backtest: Annotated[int, typer.Option(metavar="K", help="Past forecasts to judge the model by; 0: none.")] = 20,
    future: Annotated[Path | None, typer.Option(metavar="FILE", help="A table with the inputs of the steps ahead.")] = None,
    save: Annotated[Path | None, typer.Option(metavar="MODEL", help="File for the fitted model.")] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A saved model: forecast from FILE with it, without learning.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the forecast, a picture and a page.")] = Path("forecast"),
    seed: Annotated[int, typer.Option(help="Of what is random: the same seed gives the same numbers.")] = 0,
) -> None:
    """Forecast the columns of a table, with intervals, judged against persistence and the last season."""
    with _failing_in_one_line():
        import shlex
        from time import perf_counter

        from pesn.parameters import number, whole_number

        begun = perf_counter()
        if horizon is not None:
            whole_number("--horizon", horizon, 1)
        for name, value, least in (("--tune", tune, 0), ("--backtest", backtest, 0), ("--seed", seed, 0)):
            whole_number(name, value, least)
        if season is not None:
            whole_number("--season", season, 1)
        number("--tune-seconds", tune_seconds, 0.0, float("inf"), "()")
        for one in level or []:
            number("--level", one, 0.0, 1.0, "()")
        if save is not None and model is not None:
            raise ValueError(f"--save must not be given with --model, which is saved already, got '{save}'")
        from pesn.tabular import job, saving, summary
        from pesn.tabular import writing as folder

        with _naming(out):
            folder.refuse(out)
        for path in () if save is None else (save, saving.beside(save)):
            with _naming(path):
                refuse_unwritable(path)
        request = job.Request(
            file,
            target or (),
            inputs or (),
            time,
            horizon,
            level or (),
            tune,
            tune_seconds,
            backtest,
            future,
            model,
            season,
            seed,
        )
        with _stages() as watch, _quick_skops() if model is not None else contextlib.nullcontext():
            outcome = job.run(request, watch)
            watch.stage("writing")
            with _naming(out):
                folder.write(outcome, out, shlex.join(["pesn", *sys.argv[1:]]), perf_counter() - begun)
            if save is not None:
                with _naming(save):
                    saving.save(outcome.saved(), save)
        for line in summary.lines(outcome):
            _print(line)
        _print(f"written   {out / 'index.html'}, forecast.csv, forecast.png, summary.json" + (f"; {save}" if save else ""))


@contextlib.contextmanager
def _quick_skops() -> Iterator[None]:
    """skops imports all estimators of scikit-learn, and torch with them, to know their names, which pesn does not trust anyway.

    In this process nobody else reads files with it: it is spared the search, which takes longer than the forecast.
    """
    import sklearn.utils

    search = sklearn.utils.all_estimators
    sklearn.utils.all_estimators = lambda *_, **__: []
    try:
        yield
    finally:
        sklearn.utils.all_estimators = search


@contextlib.contextmanager
def _stages() -> Iterator[Any]:
    """Warnings on a line each; on a terminal, a bar for what is going on."""
    from pesn.tabular import job

    terminal = sys.stderr.isatty()
    console = Console(stderr=True, soft_wrap=True, no_color=None if terminal else True)

    class Lines(job.Watch):
        def warn(self, line: str) -> None:
            console.print(f"pesn: {line}", markup=False, highlight=False)

    if not terminal:
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
        _fail(1 if _about_data(error) else 2, str(error))
    except (OSError, FloatingPointError, MemoryError, ImportError) as error:
        _fail(1, str(error) or type(error).__name__)
    except KeyboardInterrupt:
        _fail(130, "interrupted")


def _about_data(error: ValueError) -> bool:
    """Whether the call was right and the data would not do."""
    from pesn.tabular.errors import DataError

    return isinstance(error, DataError)


def _fail(code: int, message: str) -> NoReturn:
    print("pesn:", " ".join(message.split()), file=sys.stderr)
    raise typer.Exit(code)


def main() -> None:
    """Entry point of the ``pesn`` command."""
    app()
