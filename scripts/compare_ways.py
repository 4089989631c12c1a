"""Compare the forecasts of tables by three ways: ``pesn forecast FILE``, Python on ``pandas.read_csv``, ``pesn forecast --id``.

    python scripts/compare_ways.py FOLDER

prints a row for each .csv file of the folder. Columns, default horizon, dates and means must be the same, numbers to 1e-9 of their
scale. A way that refuses a table is shown as "refused". The exit code is 1 on a difference, or where a table is forecast by one way
of Python alone.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import pesn
from pesn.series.job import Request, run
from pesn.series.panel.job import PanelRequest
from pesn.series.panel.job import run as run_panel
from pesn.series.panel.run import Runner

TOLERANCE = 1e-9


class Forecasts(NamedTuple):
    """Means of each target by their times."""

    means: dict[str, np.ndarray]
    times: list[str]


# Options of tables that need some, for the shell and for pandas; and the ids of long ones.
DUPLICATES = {"dst_naive.csv": "mean"}
PANDAS: dict[str, dict[str, Any]] = {"excelish.csv": {"sep": ";", "skiprows": 3, "skipfooter": 1, "engine": "python"}}
IDS = {"stocks.csv": ("symbol", "date", "price"), "walmart_sales_weekly.csv": ("id", "Date", "Weekly_Sales")}


def forecast_file(file: Path, duplicates: str) -> Forecasts:
    """Forecast as ``pesn forecast FILE`` does."""
    outcome = run(Request(file, backtest=0, duplicates=duplicates))
    return _wide(outcome.forecast)


def forecast_frame(frame: pd.DataFrame, duplicates: str) -> Forecasts:
    """Forecast as a user of Python does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of columns that are left out: the columns are compared
        return _wide(pesn.SeriesForecaster(duplicates=duplicates).fit(frame).forecast())


def forecast_long(file: Path, id_col: str, target: str | None, duplicates: str) -> Forecasts:
    """Forecast as ``pesn forecast FILE --id`` does."""
    outcome = run_panel(PanelRequest(file, id_col, target, runner=Runner(1), duplicates=duplicates))
    return _long(outcome.forecast, id_col, outcome.table.columns.time)


def forecast_long_frame(frame: pd.DataFrame, columns: tuple[str, str, str], duplicates: str) -> Forecasts:
    """Forecast a long frame as a user of Python does."""
    id_col, time_col, target_col = columns
    model = pesn.SeriesForecaster(id_col=id_col, time_col=time_col, target_col=target_col, duplicates=duplicates)
    return _long(model.fit(frame, inputs=[]).forecast(), id_col, time_col)


def melt(frame: pd.DataFrame, time: list[str], targets: list[str]) -> pd.DataFrame:
    """Return the long form of a wide frame, without rows that have no number before or after the others of their series."""
    return frame.melt([*time], [*targets], "series", "y")


def difference(one: Forecasts, other: Forecasts) -> str:
    """Say what is different between two forecasts; nothing where they are the same."""
    if [*one.means] != [*other.means]:
        return f"columns {[*other.means]}"
    if one.times != other.times:
        return f"times {other.times[:1]} … ({len(other.times)})"
    far = {name: float(np.max(np.abs(mean - other.means[name])) / max(np.abs(mean).max(), 1e-300)) for name, mean in one.means.items()}
    worst = max(far, key=lambda name: far[name])
    return f"{worst} by {far[worst]:.1e}" if not far[worst] <= TOLERANCE else ""


def _wide(forecast: Any) -> Forecasts:
    means = {name: forecast.mean[:, i] for i, name in enumerate(forecast.names)}
    return Forecasts(means, [*map(_moment, forecast.index)])


def _long(frame: pd.DataFrame, id_col: str, time_col: str) -> Forecasts:
    parts = {str(name): part for name, part in frame.groupby(id_col)}
    latest = max(parts.values(), key=lambda part: part[time_col].iloc[-1])
    times = [*map(_moment, latest[time_col])]
    return Forecasts({name: part["pesn"].to_numpy() for name, part in parts.items()}, times)


def _moment(label: Any) -> str:
    if not hasattr(label, "year"):
        return f"{float(label):g}"
    return str(label.tz_convert(None) if label.tzinfo else label)


def compare(file: Path, folder: Path) -> dict[str, str]:
    """Return the outcome of each way for a file: "same", "refused", "-" or the difference."""
    duplicates = DUPLICATES.get(file.name, "error")
    options = PANDAS.get(file.name, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of pandas, on dates that it guesses
        plain = pd.read_csv(file, **options)
        indexed = pd.read_csv(file, index_col=0, parse_dates=True, **options)
    if file.name in IDS:
        columns = IDS[file.name]
        first = forecast_long(file, columns[0], columns[2], duplicates)
        return {"targets": str(len(first.means)), "horizon": str(len(first.times)), "--id": "the first"} | _outcomes(
            first, {"long frame": lambda: forecast_long_frame(plain, columns, duplicates)}
        )
    outcome = run(Request(file, backtest=0, duplicates=duplicates))
    first = _wide(outcome.forecast)
    time = outcome.table.time
    proper = outcome.table.frame[outcome.table.targets].reset_index(names="ds")
    raw = [name for name in (time or "").split(" and ") if name in plain.columns]
    melt(plain, raw, outcome.table.targets).to_csv(folder / file.name, index=False)
    shown = {"targets": str(len(first.means)), "horizon": str(len(first.times))}
    sorted_names = Forecasts({name: first.means[name] for name in sorted(first.means)}, first.times)
    ways = _outcomes(
        first,
        {
            "read_csv": lambda: forecast_frame(plain, duplicates),
            "index_col=0": lambda: forecast_frame(indexed, duplicates),
            "DatetimeIndex": lambda: forecast_frame(proper.set_index("ds"), duplicates),
        },
    )
    many = _outcomes(
        sorted_names,
        {
            "--id": lambda: forecast_long(folder / file.name, "series", None, duplicates),
            "long frame": lambda: forecast_long_frame(melt(proper, ["ds"], outcome.table.targets), ("series", "ds", "y"), duplicates),
        },
    )
    return shown | ways | many


def _outcomes(first: Forecasts, ways: dict[str, Callable[[], Forecasts]]) -> dict[str, str]:
    found = {}
    for name, way in ways.items():
        try:
            found[name] = difference(first, way()) or "same"
        except (ValueError, TypeError) as error:
            found[name] = f"refused: {error}"
    return found


def main(folder: Path) -> int:
    """Print a table of all files of a folder; return 1 where a way differs."""
    wrong = 0
    with tempfile.TemporaryDirectory() as melted:
        for file in sorted(folder.glob("*.csv")):
            found = compare(file, Path(melted))
            wrong += any(value not in ("same", "the first") and key not in ("targets", "horizon") and not value.startswith("refused")
                         for key, value in found.items())
            print(file.name.ljust(28), "  ".join(f"{key}: {value}" for key, value in found.items()), flush=True)
    print(f"{wrong} tables differ")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
