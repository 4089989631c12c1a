"""Compare the forecasts of tables by the command line, by Python, and by both as many series.

    python scripts/compare_ways.py FOLDER

prints a row for each .csv file of the folder: what ``pesn forecast FILE`` forecasts, and whether the other ways have the same
targets, horizon, times and medians, to 1e-9 of their scale. A series of a long table that ends earlier than others is forecast
from its own end, and compared where both ways have forecasts.

read_csv        fit(pd.read_csv(FILE))
index_col=0     fit(pd.read_csv(FILE, index_col=0, parse_dates=True))
DatetimeIndex   fit(a frame with the times as index)
--id            pesn forecast MELTED --id series
long frame      SeriesForecaster(id_col=…, time_col=…, target_col=…).fit(the melted frame)

A long table (``LONG``) has the last two ways alone. The exit code is 1 where a way differs, or refuses a table that the
command line forecasts; ``REFUSED`` has the exceptions.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import CliRunner

import pesn
from pesn import cli
from pesn.series.table.reading import Table, read

TOLERANCE = 1e-9
DUPLICATES = {"dst_naive.csv": "mean"}
PANDAS: dict[str, dict[str, Any]] = {  # tables that pandas reads by its options only
    "excelish.csv": {"sep": ";", "skiprows": 3, "skipfooter": 1, "engine": "python"},
    "decimal_comma.csv": {"sep": ";"},
}
LONG = {"stocks.csv": ("symbol", "date", "price"), "walmart_sales_weekly.csv": ("id", "Date", "Weekly_Sales")}
REFUSED = {  # by index_col=0: the index is the year alone, four times each; or its dates decrease
    "E6.csv", "macrodata.csv", "year_quarter.csv", "newest_first.csv",
}  # fmt: skip
AS_TEXT = {"mon_yy.csv"}  # dates that pandas gets wrong: it reads Jan-49 as 2049

Forecasts = dict[str, pd.Series]  # the medians of each target by their times


def forecast_file(file: Path, folder: Path, duplicates: str = "error") -> Forecasts:
    """Forecast by ``pesn forecast FILE``."""
    frame = _call(file, folder, "--backtest", "0", "--duplicates", duplicates)
    medians = {name.removesuffix("_median"): frame[name].to_numpy() for name in frame.columns if name.endswith("_median")}
    return {name: _by_time(median, frame.iloc[:, 0]) for name, median in medians.items()}


def forecast_frame(frame: pd.DataFrame, duplicates: str = "error") -> Forecasts:
    """Forecast by :class:`pesn.SeriesForecaster`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of columns that are left out: the columns are compared
        forecast = pesn.SeriesForecaster(duplicates=duplicates).fit(frame).forecast()
    return {name: _by_time(forecast.median[:, i], forecast.index) for i, name in enumerate(forecast.names)}


def forecast_long_file(file: Path, folder: Path, columns: tuple[str, str, str], duplicates: str = "error") -> Forecasts:
    """Forecast by ``pesn forecast FILE --id``; the time is found."""
    options = ["--id", columns[0], "--target", columns[2], "--jobs", "1", "--duplicates", duplicates]
    frame = _call(file, folder, *options)
    return _by_series(frame, columns[0], str(frame.columns[1]))


def forecast_long_frame(frame: pd.DataFrame, columns: tuple[str, str, str], duplicates: str = "error") -> Forecasts:
    """Forecast a long frame by :class:`pesn.SeriesForecaster`, without covariates."""
    id_col, time_col, target_col = columns
    model = pesn.SeriesForecaster(duplicates=duplicates, id_col=id_col, time_col=time_col, target_col=target_col)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of rows after the last number of a series
        found = model.fit(frame, inputs=[]).forecast()
    return _by_series(found, columns[0], columns[1])


def difference(one: Forecasts, other: Forecasts) -> str:
    """Say what is different between two forecasts; nothing where they are the same."""
    if {*one} != {*other}:
        return f"targets {[*other]}"
    if max(mean.index[-1] for mean in other.values()) != max(mean.index[-1] for mean in one.values()):
        return f"times up to {max(mean.index[-1] for mean in other.values())}"
    for name, mean in one.items():
        if len(mean) != len(other[name]):
            return f"horizon {len(other[name])}"
        common = mean.index.intersection(other[name].index)
        apart = (mean - other[name])[common].abs().max() / mean.abs().max()
        if not apart <= TOLERANCE:
            return f"{name} by {apart:.1e}"
    return ""


def compare(file: Path) -> dict[str, str]:
    """Return the number of targets and the horizon of a table, and for each way "same", a difference, or why it refuses."""
    duplicates = DUPLICATES.get(file.name, "error")
    options = PANDAS.get(file.name, {})
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as scratch:
        warnings.filterwarnings("ignore", "Could not infer format")  # of pandas
        folder = Path(scratch)
        plain = pd.read_csv(file, **options)
        if file.name in LONG:
            columns = LONG[file.name]
            first = forecast_long_file(file, folder, columns, duplicates)
            ways: dict[str, Callable[[], Forecasts]] = {"long frame": lambda: forecast_long_frame(plain, columns, duplicates)}
        else:
            indexed = pd.read_csv(file, index_col=0, parse_dates=file.name not in AS_TEXT, **options)
            first = forecast_file(file, folder, duplicates)
            table = read(file, duplicates=duplicates)
            columns = ("series", "when", "amount")
            long = _melt(table, plain, folder / "melted.csv")
            ways = {
                "read_csv": lambda: forecast_frame(plain, duplicates),
                "index_col=0": lambda: forecast_frame(indexed, duplicates),
                "DatetimeIndex": lambda: forecast_frame(table.frame, duplicates),
                "--id": lambda: forecast_long_file(folder / "melted.csv", folder, columns, duplicates),
                "long frame": lambda: forecast_long_frame(long, columns, duplicates),
            }
        found = {"targets": str(len(first)), "horizon": str(len(next(iter(first.values()))))}
        for name, way in ways.items():
            try:
                found[name] = difference(first, way()) or "same"
            except (ValueError, TypeError, RuntimeError) as error:
                found[name] = "refused, as known" if name == "index_col=0" and file.name in REFUSED else f"refused: {error}"
    return found


def main(folder: Path) -> int:
    """Print what was found for all files of a folder; return 1 where a way differs."""
    differ = 0
    for file in sorted(folder.glob("*.csv")):
        found = compare(file)
        differ += not {*found.values()} - {found["targets"], found["horizon"]} <= {"same", "refused, as known"}
        print(file.name.ljust(26), "; ".join(f"{name} {value}" for name, value in found.items()), flush=True)
    print(f"{differ} tables differ")
    return int(differ > 0)


# ---------------------------------------------------------------- inside


def _call(file: Path, folder: Path, *options: str) -> pd.DataFrame:
    """Run ``pesn forecast`` and return its table of forecasts."""
    out = Path(tempfile.mkdtemp(dir=folder)) / "forecast"
    result = CliRunner().invoke(cli.app, ["forecast", str(file), "--out", str(out), *options])
    if result.exit_code:
        raise RuntimeError(result.stderr.strip() or repr(result.exception))
    return pd.read_csv(out / "forecast.csv", float_precision="round_trip")


def _melt(table: Table, plain: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Write the long form of a file, with times as they are written there; return that of its regular table."""
    cells = [name for name in (table.time or "").split(" and ") if name in plain.columns]
    plain.melt(cells, table.targets, "series", "amount").to_csv(path, index=False)
    return table.frame.rename_axis("when").reset_index().melt("when", table.targets, "series", "amount")


def _by_series(frame: pd.DataFrame, id_col: str, time_col: str) -> Forecasts:
    """Return the forecasts of a long frame."""
    return {str(name): _by_time(part["pesn"], part[time_col]) for name, part in frame.groupby(id_col)}


def _by_time(mean: Any, times: Any) -> pd.Series:
    """Return forecasts by times that are the same in all ways."""
    moments = pd.to_datetime(pd.Series([*times]), utc=True)
    return pd.Series(np.asarray(mean), pd.DatetimeIndex(moments).tz_localize(None).as_unit("us"))


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
