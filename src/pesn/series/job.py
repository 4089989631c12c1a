"""Job of ``pesn forecast`` for a table: read, fit, forecast, backtest, summarize, write all files or none.

>>> import pathlib, tempfile, numpy as np
>>> with tempfile.TemporaryDirectory() as folder:
...     file = pathlib.Path(folder, "waves.csv")
...     rows = np.sin(0.5 * np.arange(60)) + 0.1 * np.random.default_rng(0).normal(size=60)
...     _ = file.write_text("wave\\n" + "\\n".join(map(str, rows)))
...     outcome = run(Request(file, horizon=3))
>>> outcome.forecast.mean.shape, outcome.forecast.names, len(outcome.backtest.origins)
((3, 1), ('wave',), 13)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pesn._support.files import check_writable, filling, plain, read_json
from pesn._support.progress import Steps
from pesn._support.types import Array
from pesn.forecasting.forecast import percent
from pesn.forecasting.time_index import TimeIndex, count_steps, step_name
from pesn.series.model import FittedSeries, check_horizon, fit_columns
from pesn.series.page.page import decimals, page, sections
from pesn.series.result import SeriesBacktest, SeriesForecast, check_levels, choose_origins
from pesn.series.table.dates import index_rule, steps_between
from pesn.series.table.numerals import DataError, format_count
from pesn.series.table.reading import Table, format_time, read, read_future
from pesn.series.univariate import UnivariateModel, describe_change

_FEW = 8  # observations below which components cannot be weighted


@dataclass(frozen=True)
class Request:
    """Options of the command line; None and () are chosen automatically.

    With ``id_col``, the column of ids, the table has many series (:mod:`pesn.series.panel.panel_job`), which ``n_jobs`` processes
    forecast.
    """

    file: Path
    targets: Sequence[str] = ()
    inputs: Sequence[str] = ()
    time: str | None = None
    horizon: int | None = None
    levels: Sequence[float] = ()
    backtest: int | None = None
    future: Path | None = None
    model: Path | None = None
    season: Sequence[int] = ()
    freq: str | None = None
    duplicates: str = "error"
    id_col: str | None = None
    n_jobs: int | None = None
    verbose: bool = False
    checkpoint: Path | None = None

    @property
    def origins(self) -> int:
        """Number of forecast origins of the backtest: by default 20, or 0 with many series."""
        return (20 if self.id_col is None else 0) if self.backtest is None else self.backtest

    @property
    def sorted_levels(self) -> tuple[float, ...]:
        """Probabilities of the intervals, each once, in order."""
        return check_levels(sorted(set(self.levels)) or (0.8, 0.95))


@dataclass
class Outcome:
    """Results of a job; ``notes`` say what was done to the rows, ``ahead`` (horizon, u) are the future covariates."""

    request: Request
    table: Table
    fitted: FittedSeries
    forecast: SeriesForecast
    levels: list[float]
    ahead: Array
    backtest: SeriesBacktest | None = None
    notes: list[str] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Save the fitted model for ``--model``."""
        from pesn.series.forecaster import SeriesForecaster

        model = SeriesForecaster(self.forecast.horizon, list(self.request.season) or "auto", self.levels)
        model.fitted_, model.notes_ = self.fitted, list(self.table.notes)
        model.save(path)


def run(request: Request, steps: Steps | None = None, warn: Callable[[str], None] = lambda line: None) -> Outcome:
    """Run a job; unusable data raise a :class:`DataError`, a wrong call another ValueError.

    Parameters
    ----------
    request : Request
        Options.
    steps : Steps, optional
        Shows progress.
    warn : callable, optional
        Shows a warning, a line of text.
    """
    steps = steps or Steps()
    if request.model is not None:
        return _from_model(request, request.model, warn)
    if request.future is not None and not request.inputs:
        raise ValueError("--future must come with --inputs, the columns that are known ahead")
    table = read(
        request.file, time=request.time, targets=request.targets, inputs=request.inputs, freq=request.freq,
        duplicates=request.duplicates,
    )  # fmt: skip
    for line in table.warnings:
        warn(line)
    rows = len(table.frame)
    check_horizon("--horizon", request.horizon or 1, rows)
    if 2 * max(request.season, default=0) > rows:
        raise ValueError(f"--season must fit into the {rows} rows twice, got {max(request.season)}")
    time = index_rule(table.frame.index, table.freq).with_last(table.frame.index[0])
    ahead = _future_inputs(request, table)
    with steps.step("learning", len(table.targets), "columns") as advance:
        fitted = fit_columns(
            table.y, table.x, names=table.targets, inputs=table.inputs, time=time, seasons=tuple(request.season) or "auto",
            horizon=request.horizon if ahead is None else len(ahead), advance=advance,
        )  # fmt: skip
    outcome = _forecast(request, table, fitted, ahead)
    _backtest(outcome, steps)
    return outcome


# ---------------------------------------------------------------- its parts


def _backtest(outcome: Outcome, steps: Steps) -> None:
    """Add the backtest, or a note why there is none."""
    fitted, origins = outcome.fitted, outcome.request.origins
    places = choose_origins(fitted.rows, fitted.horizon, origins)
    if len(places):
        with steps.step("backtesting", len(fitted.models), "columns") as advance:
            outcome.backtest = fitted.backtest(fitted.horizon, places, advance)
    else:
        few = f"too few rows for a backtest of {format_count(fitted.horizon, 'step')}"
        outcome.notes.append(few if origins else "no backtest, as asked")


def _from_model(request: Request, model: Path, warn: Callable[[str], None]) -> Outcome:
    """Forecast from the rows of a file by a saved model, without fitting."""
    owned = {"--target": request.targets, "--inputs": request.inputs, "--season": request.season, "--freq": request.freq}
    option = next(filter(owned.get, owned), None)
    if option is not None:
        raise ValueError(f"{option} must not be given with --model, which has its own")
    saved, time, levels = _load_model(model)
    table = _read_for_model(request, saved, time)
    for line in table.warnings:
        warn(line)
    if tuple(table.inputs) != saved.inputs:
        raise DataError(f"the model needs the inputs {list(saved.inputs)}, and {table.warnings[-1]}")
    if table.time is None and saved.seasons:
        warn("rows are counted, and the season's phase from the first one: the file must begin where the model's did")
    place, first = _place_in_model(request, table, time)
    horizon = request.horizon or (None if request.future else saved.horizon)
    check_horizon("--horizon", horizon or 1, max(len(table.frame), saved.rows))
    request = replace(request, horizon=horizon, levels=request.levels or levels)
    return _forecast(request, table, saved.with_rows(table.y, table.x, first, place), _future_inputs(request, table))


def _place_in_model(request: Request, table: Table, time: TimeIndex) -> tuple[int, TimeIndex]:
    """Return the steps from the model's first row to the table's, and the time of that; a DataError where it is on no step."""
    index, freq = table.frame.index, time.step if time.kind == "dates" else None
    if (table.freq is None) != (freq is None):
        raise DataError(f"the model's rows have {'dates' if freq else 'no dates'}, and those of {request.file} do not match")
    step = 1.0 if freq else float(time.step)
    counts = table.time is None
    place = int(index[0]) - int(time.label()) if counts else steps_between(time.label(), index[0], freq, step)
    if place is None:
        raise DataError(f"column {table.time!r} is not on the grid of the model's times, which goes through {time.label()}")
    return place, index_rule(index, freq, step).with_last(index[0])


def _read_for_model(request: Request, saved: FittedSeries, time: TimeIndex) -> Table:
    """Read the columns of a model from a file."""
    freq = time.step if time.kind == "dates" else None
    try:
        return read(
            request.file, time=request.time, targets=saved.names, inputs=saved.inputs, freq=freq, duplicates=request.duplicates,
            learn=False,
        )  # fmt: skip
    except DataError:
        raise
    except ValueError as error:
        names = " and ".join(repr(name) for name in (*saved.names, *saved.inputs))
        raise DataError(f"the model is of the columns {names}: {error}") from None


def _forecast(request: Request, table: Table, fitted: FittedSeries, ahead: Array | None) -> Outcome:
    seen = (~np.isnan(table.y)).sum(axis=0)
    few = [f"{name!r} has {format_count(int(n), 'number')}" for name, n in zip(table.targets, seen, strict=True) if n < _FEW]
    notes = [*table.notes, *(f"{one}: too few to fit, its prediction intervals are wide" for one in few), *fitted.notes()]
    horizon = request.horizon or fitted.horizon if ahead is None else len(ahead)
    known = np.full((horizon, len(table.inputs)), np.nan) if ahead is None else ahead
    if table.inputs and np.isnan(known).all():
        notes.append("future covariates are not known (no --future): as uncertain as in the past")
    return Outcome(request, table, fitted, fitted.forecast(horizon, known), list(request.sorted_levels), known, notes=notes)


def _load_model(path: Path) -> tuple[FittedSeries, TimeIndex, tuple[float, ...]]:
    """Return the fitted series of a file, the time of its first row, and the levels of its intervals."""
    from pesn.persistence import load_series

    if not path.is_file():
        what = "which is no file" if path.exists() else "nothing there"
        raise ValueError(f"--model must be a file that pesn forecast --save wrote, got '{path}', {what}")
    try:
        fitted, level = load_series(path)
    except ValueError as error:
        raise DataError(f"--model: {error}") from None
    if fitted.time is None:
        raise DataError(f"--model: {path} has no time of its rows, and was not written by pesn forecast --save")
    return fitted, fitted.time, check_levels(level)


def _future_inputs(request: Request, table: Table) -> Array | None:
    """Return future covariates (horizon, u), NaN where they are not known; None where no file has any."""
    if request.future is not None:
        return read_future(request.future, table, request.horizon)
    if table.future is None:
        return None
    given = table.future.to_numpy(np.float64)
    horizon = len(given) if request.horizon is None else request.horizon
    ahead = np.full((horizon, len(table.inputs)), np.nan)
    ahead[: len(given)] = given[:horizon]
    return ahead


# ---------------------------------------------------------------- summaries

_MOST_TARGETS = 4  # in the summary's table; the page has all
_MOST_STEPS = 3
_MOST_NOTES = 6  # the page and summary.json have all


def frame(outcome: Outcome) -> pd.DataFrame:
    """Return the forecast as a frame: time, then for each target its median, mean, std and the ends of each interval."""
    forecast = outcome.forecast
    parts = {"median": forecast.median, "mean": forecast.mean, "std": forecast.std}
    for level in outcome.levels:
        parts[f"lower_{percent(level)}"], parts[f"upper_{percent(level)}"] = forecast.interval(level)
    data = {f"{name}_{end}": values[:, i] for i, name in enumerate(forecast.names) for end, values in parts.items()}
    columns = pd.DataFrame(data)
    index, name = pd.Index(outcome.forecast.index), outcome.table.time or "row"
    while name in columns.columns:
        name += "_"
    days = isinstance(index, pd.DatetimeIndex) and index.tz is None and (index == index.normalize()).all()
    columns.insert(0, name, index.strftime("%Y-%m-%d") if days else index)
    return columns


def lines(outcome: Outcome) -> list[str]:
    """Return the summary for the terminal, at most 25 lines."""
    table, back, said = outcome.table, outcome.backtest, sentences(outcome)
    blocks = {"data": [said["data"]], "target": [_list(table.targets) + _season(outcome)]}
    if table.inputs:
        blocks["inputs"] = [_list(table.inputs)]
    notes = outcome.notes[:_MOST_NOTES]
    if len(outcome.notes) > _MOST_NOTES:
        notes = [*notes, f"… and {format_count(len(outcome.notes) - _MOST_NOTES, 'more note')} in summary.json and on the page"]
    blocks["inputs" if table.inputs else "target"] += notes
    blocks["model"] = [said["model"]]
    if back is not None:
        blocks["backtest"] = [said["backtest"], *_backtest_lines(back, table.targets, outcome.levels)]
    blocks["forecast"] = [said["forecast"], *(_steps(outcome) if len(table.targets) == 1 else [])]
    return [f"{'' if i else key:10}{text}" for key, texts in blocks.items() for i, text in enumerate(texts)]


def _backtest_lines(back: SeriesBacktest, targets: list[str], levels: Sequence[float]) -> list[str]:
    """Return lines of scores, coverage and baselines that are better."""
    coverage = ", ".join(f"{100 * back.coverage(level):.0f} % in that of {percent(level)} %" for level in levels)
    scores = _scores_of_methods(back) if len(targets) == 1 else _scores_of_targets(back, targets)
    return [*scores, f"inside pesn's prediction intervals: {coverage}", *_better_baselines(back, targets)]


def _steps(outcome: Outcome) -> list[str]:
    """Return lines of the first and last steps of one target."""
    forecast, level = outcome.forecast, outcome.levels[-1]
    lower, upper = forecast.interval(level)
    labels, values = forecast.index, np.column_stack([forecast.median, lower, upper])

    def line(k: int) -> str:
        median, low, high = decimals(values[k], forecast.std[:, 0])
        return f"{format_time(labels[k], outcome.table.freq)}  {median}  ({percent(level)} %: {low} … {high})"

    if len(forecast) <= _MOST_STEPS + 1:
        return [line(k) for k in range(len(forecast))]
    return [line(0), line(1), "…", line(len(forecast) - 1)]


def sentences(outcome: Outcome) -> dict[str, str]:
    """Return a sentence on each of data, model, backtest and forecast."""
    table, forecast = outcome.table, outcome.forecast
    index, step = table.frame.index, step_name(table.freq)
    each = f", one {'every' if step[:1].isdigit() else 'each'} {step}" if table.time is not None and table.freq else ""
    data = f"{format_count(len(index), 'row')}{each}, {table.describe(index[0])} … {table.describe(index[-1])}"
    said = {
        "data": data,
        "model": _model(outcome),
        "forecast": f"{format_count(len(forecast), 'step')} ahead, {table.describe(forecast.index[0])} … "
        f"{table.describe(forecast.index[-1])}",
    }
    if outcome.backtest is not None:
        back = outcome.backtest
        first, last = (table.describe(index[place - 1]) for place in (back.origins[0], back.origins[-1]))
        said["backtest"] = (
            f"{format_count(len(back.origins), 'forecast')} of {format_count(back.horizon, 'step')}, from {first} … {last}, each "
            "by a model of the rows before it"
        )
    return said


def record(outcome: Outcome, command: str, seconds: float) -> dict[str, object]:
    """Return the record of summary.json."""
    from importlib.metadata import version

    table, back = outcome.table, outcome.backtest
    index, ahead = table.frame.index, outcome.forecast.index
    return {
        "pesn": version("pesn"),
        "command": command,
        "file": str(outcome.request.file),
        "rows": len(index),
        "time": table.time,
        "frequency": table.freq,
        "first": str(index[0]),
        "last": str(index[-1]),
        "targets": table.targets,
        "inputs": table.inputs,
        "season": list(outcome.fitted.seasons) or None,
        "notes": outcome.notes,
        "warnings": table.warnings,
        "horizon": outcome.forecast.horizon,
        "forecast": {"first": str(ahead[0]), "last": str(ahead[-1])},
        "levels": outcome.levels,
        "model": dict(zip(table.targets, map(_members, outcome.fitted.models), strict=True)),
        "backtest": None if back is None else {
            "origins": [str(index[place - 1]) for place in back.origins],
            "horizon": back.horizon,
            "scores": {
                name: {
                    **({} if one.seasons is None else {"season": dict(zip(table.targets, one.seasons, strict=True))}),
                    "mae": dict(zip(table.targets, one.mae().tolist(), strict=True)),
                    "crps": dict(zip(table.targets, one.crps().tolist(), strict=True)),
                    "crps_by_step": one.crps_by_step().tolist(),
                    "coverage": {f"{level:g}": one.coverage(level) for level in outcome.levels},
                }
                for name, one in back.methods.items()
            },
        },
        "seconds": round(seconds, 2),
    }  # fmt: skip


# ---------------------------------------------------------------- inside


def _scores_of_methods(back: SeriesBacktest) -> list[str]:
    """Return a table of the scores of one target."""
    titles = back.titles()
    wide = max(16, *(len(title) + 2 for title in titles.values()))
    rows = [(titles[name], _g(one.mae()[0]), _g(one.crps()[0])) for name, one in back.methods.items()]
    return [f"{title:{wide}}{mae:>10}{crps:>10}" for title, mae, crps in [("", "MAE", "CRPS"), *rows]]


def _scores_of_targets(back: SeriesBacktest, targets: list[str]) -> list[str]:
    """Return a table of the CRPS of several targets."""
    crps = {title: back.methods[name].crps() for name, title in back.titles().items()}
    width = min(24, max(4, *(len(name) for name in targets[:_MOST_TARGETS])))
    widths = [max(16, len(title) + 2) for title in crps]

    def line(name: str, cells: Iterable[str]) -> str:
        return f"{name[:width]:{width}}" + "".join(f"{cell:>{wide}}" for cell, wide in zip(cells, widths, strict=True))

    out = [line("CRPS", crps)]
    out += [line(target, (_g(one[i]) for one in crps.values())) for i, target in enumerate(targets[:_MOST_TARGETS])]
    if len(targets) > _MOST_TARGETS:
        ours = back.crps()
        judged = ~np.isnan(ours)
        best = judged & np.all([~(one < ours) for one in crps.values()], axis=0)
        scored = f"all {len(targets)}" if judged.all() else f"the {judged.sum()} that were scored"
        out.append(f"… pesn has the lowest CRPS for {best.sum()} of {scored}; the page has them")
    return out


def _better_baselines(back: SeriesBacktest, targets: list[str]) -> list[str]:
    """Say for which columns a baseline has a lower CRPS than pesn."""
    titles, ours, said = back.titles(), back.crps(), []
    for name, one in back.baselines.items():
        theirs = one.crps()
        better = np.flatnonzero(theirs < ours)
        if len(better) and len(ours) > 1:
            said.append(f"{titles[name]} was better for {len(better)} of {len(ours)}: {_list([targets[i] for i in better])}")
        elif len(better):
            gain = "its forecasts were exact" if theirs[0] == 0.0 else f"its CRPS is {describe_change(theirs[0] / ours[0] - 1.0)}"
            said.append(f"{titles[name]} was better here: {gain}")
    return said


def _model(outcome: Outcome) -> str:
    """Return the types of components with their weights, the mean over the targets."""
    models = outcome.fitted.models
    kinds: dict[str, float] = defaultdict(float)
    for member in (member for model in models for member in model.members):
        kinds[member.kind] += member.weight / len(models)
    largest = sorted(kinds.items(), key=lambda one: -one[1])[:6]
    return ", ".join(f"{100.0 * share:.0f} % {kind}" for kind, share in largest if share >= 0.005)


def _members(model: UnivariateModel) -> dict[str, object]:
    """Return the record of a column's model."""
    members = [asdict(one) for one in model.members]
    return {"seasons": list(model.seasons), "shares": dict(model.shares), "members": members, "notes": list(model.notes)}


def _season(outcome: Outcome) -> str:
    seasons = outcome.fitted.seasons
    if not seasons:
        return "; no season found" if not outcome.request.season and outcome.request.model is None else ""
    *others, last = seasons
    having = sum(bool(model.seasons) for model in outcome.fitted.models)
    where = f" in {having} of {len(outcome.fitted.models)} targets" if having < len(outcome.fitted.models) else ""
    return f"; season{'s' * bool(others)} of {''.join(f'{m} and ' for m in others)}{count_steps(last, outcome.table.freq)}{where}"


def _list(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])}, … ({len(names)})"


def _g(value: float) -> str:
    """Format four digits, without an exponent where people would write none; a dash where there is no number."""
    if np.isnan(value):
        return "–"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


# ---------------------------------------------------------------- files

SUMMARY = "summary.json"
FILES = ("forecast.csv", "index.html", SUMMARY)
FIGURE = "forecast.png"
_FORMULA = re.compile(r"(^|[;,|\t\r\n])('*)(?=[=+\-@\t\r\n＝＋－＠])")  # the wide ones too, as Excel does


def list_files(png: bool) -> tuple[str, ...]:
    """Return the names of the files of a forecast, with or without the figure."""
    return (*FILES, FIGURE) if png else FILES


def refuse(folder: Path, *, overwrite: bool = False, files: Sequence[str] = FILES) -> None:
    """Raise an OSError where :func:`write` could not or should not write, before the work is done; nothing is made.

    Files that no forecast has written are not replaced, unless ``overwrite`` says so: a folder that one was written to is known
    by its summary.json.
    """
    place = Path(os.path.realpath(folder))
    if place.exists() and not place.is_dir():
        raise NotADirectoryError(20, "it is not a folder", str(folder))
    if place.is_dir():
        for name in files:
            check_writable(place / name)
        there = [name for name in files if os.path.lexists(place / name)]
        if there and not overwrite and not _read_summary(place):
            raise FileExistsError(
                17, f"{there[0]} is there, which pesn forecast did not write; give another --out, or --overwrite", str(folder)
            )
        return
    while not place.exists():
        place = place.parent
    with tempfile.TemporaryDirectory(dir=place):
        pass


def write(outcome: Outcome, folder: Path, command: str, seconds: float, *, overwrite: bool = False, png: bool = False) -> None:
    """Write the forecast of a table: forecast.csv, a page, summary.json and, with ``png``, forecast.png.

    Without ``png``, the figure of an earlier forecast is removed from the folder.
    """
    files = list_files(png)
    refuse(folder, overwrite=overwrite, files=files)
    old_figure = None if png else _digests(folder).get(FIGURE)
    said = record(outcome, command, seconds)
    table = frame(outcome).rename(columns=without_formula)
    writers: dict[str, Callable[[Path], object]] = {"forecast.csv": partial(table.to_csv, index=False)}
    if png:
        from pesn import plotting  # matplotlib takes half a second to import

        writers[FIGURE] = partial(plotting.save, plotting.plot_forecast(outcome.forecast, level=outcome.levels))
    write_files(folder, writers, page(_content(outcome, said, files)), said)
    figure = folder / FIGURE
    if old_figure is not None and figure.is_file() and _digest(figure) == old_figure:
        figure.unlink()


def write_files(folder: Path, writers: Mapping[str, Callable[[Path], object]], text: str, record: dict[str, object]) -> None:
    """Write the files beside the folder first, then put them in their places; summary.json has the digests of the others.

    Parameters
    ----------
    folder : Path
        Where they are to be.
    writers : mapping of str to callable
        For each file but the page and the summary: its name, and a function that writes it.
    text : str
        The page.
    record : dict
        The summary.
    """
    with filling(folder, SUMMARY) as temporary:
        for name, writer in writers.items():
            writer(temporary / name)
        (temporary / "index.html").write_text(text, encoding="utf-8")
        record["sha256"] = {path.name: _digest(path) for path in sorted(temporary.iterdir())}
        (temporary / SUMMARY).write_text(json.dumps(plain(record), indent=2, ensure_ascii=False), encoding="utf-8")


def without_formula(name: str) -> str:
    """Escape a text that a spreadsheet would take for a formula by an apostrophe, also after a separator.

    Different texts stay different, and without the apostrophe they are what they were.

    >>> without_formula("sales"), without_formula("=1+1"), without_formula("a;@b"), without_formula("'=1+1")
    ('sales', "'=1+1", "a;'@b", "''=1+1")
    """
    return _FORMULA.sub(r"\1'\2", name)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_summary(place: Path) -> dict[str, object]:
    """Return the contents of the summary.json of a forecast; empty where there is none."""
    try:
        record = read_json(place / SUMMARY)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and {"pesn", "command", "forecast"} <= set(record) else {}


def _digests(place: Path) -> dict[str, object]:
    """Return the digests of the files of an earlier forecast, by name."""
    digests = _read_summary(place).get("sha256")
    return digests if isinstance(digests, dict) else {}


def _content(outcome: Outcome, record: dict[str, object], files: Sequence[str]) -> dict[str, object]:
    """Return the content of the report."""
    targets = ", ".join(outcome.table.targets)
    return {
        "title": f"Forecast of {targets}" if len(targets) < 80 else f"Forecast of {len(outcome.table.targets)} columns",
        "said": sentences(outcome),
        "notes": [*outcome.table.warnings, *outcome.notes],
        "sections": sections(outcome.fitted, outcome.forecast, outcome.levels, judged=outcome.backtest, x=outcome.ahead),
        "levels": outcome.levels,
        "settings": {"season": record["season"], "horizon": record["horizon"], "levels": record["levels"]},
        "file": outcome.request.file.name,
        "command": record["command"],
        "version": record["pesn"],
        "files": [name for name in files if name != "index.html"],
    }
