"""The commands: ``pesn forecast``, ``reproduce``, ``list``, ``simulate`` and ``warmup``.

Results are on standard output, errors and progress on standard error.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn

import typer
from typer.core import TyperCommand

from pesn import datasets, paper, systems
from pesn._support.files import check_writable as check_writable_path
from pesn._support.files import naming
from pesn._support.progress import show_progress

if TYPE_CHECKING:
    from pesn.series.job import Request

# ---------------------------------------------------------------- output, errors and progress


class Several(TyperCommand):
    """A command some of whose

    Options end at the next one; of names, the last is FILE where nothing else is.
    """

    several: ClassVar = {"--level": True, "--season": True, "--target": False, "--inputs": False}  # whether words are numbers

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments after each word has its own flag."""
        return super().parse_args(ctx, self.expand(args))

    @classmethod
    def expand(cls, args: list[str]) -> list[str]:
        """Return the arguments with a flag before each word.

        >>> Several.expand(["--level", "0.8", "0.95", "a.csv"]), Several.expand(["--target", "x", "y", "a.csv"])
        (['--level', '0.8', '--level', '0.95', 'a.csv'], ['--target', 'x', '--target', 'y', 'a.csv'])
        """
        words, parts = deque(args), list[list[str]]()
        ends: list[int] = []  # of groups of names, the last of which may be FILE
        free = False  # whether FILE is elsewhere, or not needed
        while words:
            word = words.popleft()
            if word == "--":
                free |= bool(words)
                parts.append([word, *words])
                break
            if word in cls.several:
                group = cls._take(word, words)
                parts += [[word, one] for one in group] or [[word]]
                ends += [len(parts) - 1] * (len(group) > 1 and not cls.several[word])
            elif words and word.startswith("--") and "=" not in word and word != "--help":
                parts.append([word, words.popleft()])
                free |= word == "--demo"
            else:
                parts.append([word])
                free |= not word.startswith("-") or word.startswith("--demo=")
        if ends and not free:
            files = [i for i in ends if Path(parts[i][1]).suffix.lower() in (".csv", ".tsv", ".txt", ".parquet", ".pq")]
            del parts[(files or ends)[-1]][0]  # the last that looks like a file, else the last
        return [word for part in parts for word in part]

    @classmethod
    def _take(cls, option: str, words: deque[str]) -> list[str]:
        """Take the words of an option: one, and those after it up to the next option, or that are numbers where it has such."""
        group = [words.popleft()] if words else []
        while words and not words[0].startswith("--") and (not cls.several[option] or _is_number(words[0])):
            group.append(words.popleft())
        return group


def option(metavar: str | None, text: str, shown: str | None = None, *, name: str | None = None) -> Any:
    """Return an option of a command.

    Parameters
    ----------
    metavar : str or None
        Placeholder of its value in the help; None: its type.
    text : str
        Help text.
    shown : str, optional
        Description of the default; None: the default itself.
    name : str, optional
        Name, such as "--id"; None: that of the parameter.
    """
    return typer.Option(*([] if name is None else [name]), metavar=metavar, help=text, show_default=shown or True)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def say(line: str) -> None:
    """Print a line on standard output, if there is any."""
    if sys.stdout is None:
        return
    coding = sys.stdout.encoding or "utf-8"
    print(line.encode(coding, "backslashreplace").decode(coding))  # a file's name may be none that can be shown


def check_writable(option: str, path: Path, kinds: tuple[str, ...]) -> None:
    """Check a path before the work is done that the file would hold."""
    suffix = path.suffix.lower()
    if suffix not in kinds:
        raise ValueError(f"{option} must end in {', '.join(kinds[:-1])} or {kinds[-1]}, got '{path}'")
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise ImportError(f"{option} needs pyarrow for a .parquet file: pip install 'pesn[parquet]'; or give a .csv file")
    with naming(path):
        check_writable_path(path)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors into one line on standard error and an exit code."""
    try:
        yield
    except ValueError as error:
        from pesn.series.table.numerals import DataError  # the call was right, and the data would not do

        fail(1 if isinstance(error, DataError) else 2, str(error))
    except BrokenPipeError:
        raise  # nobody reads on: that is no fault
    except (OSError, FloatingPointError, MemoryError, ImportError) as error:
        fail(1, str(error) or type(error).__name__)
    except KeyboardInterrupt:
        fail(130, "interrupted")


def fail(code: int, message: str) -> NoReturn:
    """Print a line on standard error and exit."""
    print("pesn:", " ".join(message.split()), file=sys.stderr)
    raise typer.Exit(code)


# ---------------------------------------------------------------- pesn forecast

_HORIZON = "a season of up to 60 rows, or a tenth of the rows, 24 at most"


def forecast(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Table, .csv or .parquet: one row per time step, oldest first.", show_default=False),
    ] = None,
    demo: Annotated[str | None, option("NAME", f"Bundled data in place of FILE: {', '.join(datasets.NAMES)}.")] = None,
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
    with one_line_errors():
        begin = perf_counter()
        many = {"--jobs": jobs, "--checkpoint": checkpoint, "--stream": stream or None, "--scheduler": scheduler}
        _refuse(many if id_col is None else {}, "must come with --id, the column of the series' names")
        alone = {} if id_col is None else {"--save": save, "--model": model, "--png": png or None}
        _refuse(alone, "must not be given with --id: it is for a table of one series per column")
        if (file is None) == (demo is None):
            raise ValueError(f"either FILE or --demo must be given, and not both, got {'neither' if file is None else 'both'}")
        from pesn.series.job import Request

        request = Request(
            file or datasets.find_file(str(demo)), target or (), inputs or (), time, horizon, level or (), backtest, future,
            model, season or (), freq, duplicates, id_col, -1 if jobs is None else jobs, sys.stderr.isatty(), checkpoint,
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
    from pesn.series import job

    with naming(out):
        job.refuse(out, overwrite=overwrite, files=job.list_files(png))
    if save is not None:
        with naming(save):
            check_writable_path(save)
    with show_progress(sys.stderr.isatty()) as steps:
        outcome = job.run(request, steps, _warn)
        with steps.step("writing"), naming(out):
            job.write(outcome, out, _command(), perf_counter() - begin, overwrite=overwrite, png=png)
        if save is not None:
            with naming(save):
                outcome.save(save)
    for line in job.lines(outcome):
        say(line)
    figure = f"{job.FIGURE}, " if png else ""
    say(f"written   {out / 'index.html'}, forecast.csv, {figure}summary.json" + (f"; {save}" if save else ""))


def _forecast_panel(request: Request, out: Path, overwrite: bool, begin: float) -> None:
    """Forecast every series of a long table that memory holds."""
    from pesn.series import job
    from pesn.series.panel import panel_job

    with naming(out):
        job.refuse(out, overwrite=overwrite, files=panel_job.FILES)
    outcome = panel_job.run(request)
    with naming(out):
        files = panel_job.write(outcome, out, _command(), perf_counter() - begin)
    for line in panel_job.lines(outcome):
        say(line)
    say(f"written   {out / files[0]}, {', '.join(files[1:])}")


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
    say(f"forecast  {done.series:,} series" + (f", {done.failures:,} failed" if done.failures else ""))
    if done.merged:
        say(f"merged    {format_count(done.merged, 'row')} with the time of another row of their series")
    say(f"written   {out}, {format_count(done.files, 'Parquet file')}")


def _warn(line: str) -> None:
    """Print a warning on standard error."""
    print("pesn:", line, file=sys.stderr)


def _command() -> str:
    return shlex.join(["pesn", *sys.argv[1:]])


# ---------------------------------------------------------------- pesn reproduce, pesn list


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]…",
            help="Names of items, as listed by pesn list.",
            autocompletion=lambda: list(paper.ITEMS),
            show_default="all",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small samples: all items in about 1.5 minutes of CPU time, not 7.")
    ] = False,
    out: Annotated[Path, option(None, "Folder for the results and the report; finished items are reused.")] = Path(
        "reproduction"
    ),
    jobs: Annotated[int | None, option(None, "Number of processes.", "1 per core")] = None,
    scheduler: Annotated[str | None, option("ADDRESS", "Address of a Dask scheduler, such as tcp://127.0.0.1:8786.")] = None,
    seed: Annotated[int, option(None, "Random seed.")] = 0,
    settings: Annotated[
        list[str] | None, option("NAME=VALUE", "Setting of an item, as listed by pesn list ITEM; may be repeated.", name="--set")
    ] = None,
) -> None:
    """Reproduce the paper's tables and figures: a report with published and obtained values side by side."""
    with one_line_errors():
        from joblib import cpu_count

        from pesn._support.arguments import whole_number
        from pesn.paper import runner as reproducing

        whole_number("--seed", seed, 0)
        if jobs is not None:
            whole_number("--jobs", jobs, 1)
            if scheduler is not None:
                raise ValueError(f"--jobs must not be given with --scheduler, which has workers, got {jobs}")
        own = _settings(settings or [])
        try:
            records = reproducing.reproduce(
                names or (), out, quick=quick, seed=seed, jobs=jobs or int(cpu_count()), scheduler=scheduler, verbose=True,
                settings=own,
            )  # fmt: skip
        except reproducing.ItemError as error:
            fail(1, str(error))
        say(f"{_summarize(records)}: {out / 'index.html'}")


def _summarize(records: Sequence[dict[str, Any]]) -> str:
    """Count the items, and the claims by verdict."""
    from pesn.paper.claims import LABELS, claim_labels
    from pesn.series.table.numerals import format_count

    counts = Counter(claim_labels(claim for record in records for claim in record["claims"]).values())
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in LABELS if counts[verdict])
    return format_count(len(records), "item") + (f", claims: {said}" if said else "")


def list_items(
    item: Annotated[
        str | None,
        typer.Argument(help="An item, whose settings are listed.", autocompletion=lambda: list(paper.ITEMS), show_default=False),
    ] = None,
) -> None:
    """List the items of pesn reproduce with their place in the paper; or the settings of one, with defaults and meaning."""
    with one_line_errors():
        if item is None:
            width = max(map(len, paper.ITEMS))
            for name in paper.ITEMS:
                said = paper.get(name).description
                say(f"{name:{width}}  {said.title} ({said.place})")
            return
        from pesn.paper.item_settings import format_value

        chosen = paper.get(item)
        full, quick = chosen.parameters(False), chosen.parameters(True)
        say(f"Settings of {item}, for pesn reproduce {item} --set NAME=VALUE:")
        for name, setting in chosen.settings.items():
            small = f" (with --quick {format_value(quick[name])})" if quick[name] != full[name] else ""
            say(f"\n{name}={format_value(full[name])}{small}\n    {setting.meaning}\n    Takes {setting.kind.words}.")


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


# ---------------------------------------------------------------- pesn simulate

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
    with one_line_errors():
        from pesn import plotting
        from pesn._support.arguments import whole_number

        function = systems.get(system)
        options = {"runs": runs} if steps is None else {"runs": runs, "steps": steps}
        for name, value in options.items():
            whole_number(f"--{name}", value, 1)
        whole_number("--seed", seed, 0)
        out = Path(f"{system}.csv") if out is None else out
        check_writable("--out", out, systems.KINDS)
        if plot is not None:
            check_writable("--plot", plot, plotting.KINDS)
            if os.path.realpath(plot) == os.path.realpath(out):
                raise ValueError(f"--plot must be another file than --out, got '{plot}' and '{out}'")
        with show_progress(sys.stderr.isatty()) as stages, stages.step(f"Simulating {system}", 100, "%") as advance:
            trajectories = function(**options, rng=seed, progress=lambda done, total: advance(1))  # at each hundredth
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
        say(f"{counts}, columns {columns}: {files}")


# ---------------------------------------------------------------- pesn warmup


def compile_call(name: str) -> tuple[list[str], list[str]]:
    """Make one call of :mod:`pesn.cli.kernel_calls` in this process.

    Parameters
    ----------
    name : str
        Name of the call.

    Returns
    -------
    tuple of (list of str, list of str)
        Names of the kernels that are ready, and the folders of their compiled code.
    """
    from pesn.cli.kernel_calls import ENTRY_POINTS, OTHERS

    {**ENTRY_POINTS, **OTHERS}[name]()
    ready, folders = [], set()
    for kernel_name, kernel in iterate_kernels():
        if kernel.overloads:
            ready.append(kernel_name)
            if folder := kernel._cache.folder:  # noqa: SLF001
                folders.add(os.fspath(folder.parent))
    return ready, sorted(folders)


def _disable_notices() -> None:
    """Disable the notices of compilation in a process."""
    import logging

    logging.getLogger("pesn").setLevel(logging.ERROR)


def iterate_kernels() -> Iterator[tuple[str, Any]]:
    """Yield name and dispatcher of each imported kernel that is cached."""
    import sys

    from pesn._support.kernel_cache import KernelCache

    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] == "pesn":
            for name, value in list(vars(module).items()):
                if isinstance(getattr(value, "_cache", None), KernelCache) and value.py_func.__module__ == module_name:
                    yield f"{module_name}.{name}", value


def warmup(
    jobs: Annotated[int | None, typer.Option(help="Number of processes.", show_default="number of processors")] = None,
) -> None:
    """Compile everything that pesn compiles at first calls, in parallel, and print where the compiled code is."""
    with one_line_errors():
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor, as_completed

        from joblib import cpu_count

        from pesn._support.arguments import whole_number
        from pesn.cli.kernel_calls import ENTRY_POINTS, OTHERS

        if jobs is not None:
            whole_number("--jobs", jobs, 1)
        began, ready, folders = perf_counter(), set[str](), set[str]()
        calls = [*ENTRY_POINTS, *OTHERS]
        count = min(jobs or int(cpu_count()), len(calls))
        context = multiprocessing.get_context("spawn")
        pool, progress = ProcessPoolExecutor(count, context, _disable_notices), show_progress(sys.stderr.isatty())
        with progress as stages, pool, stages.step("Compiling", len(calls), "calls") as advance:
            for future in as_completed([pool.submit(compile_call, name) for name in calls]):
                kernels, places = future.result()
                ready.update(kernels)
                folders.update(places)
                advance(1)
        if not folders:
            raise OSError("there is no folder to write compiled code to; set NUMBA_CACHE_DIR to one")
        where = Path(os.path.commonpath(folders))
        say(f"{len(ready)} kernels are compiled, {perf_counter() - began:.0f} s: {where}")
