"""Every kind of pandas index with two steps missing: where a series with it must be placed, or that it must be refused."""

from __future__ import annotations

import datetime
import decimal
import warnings
from importlib.util import find_spec

import numpy as np
import pandas as pd

from pesn.series.arguments import align_rows
from truth_tables import Result

__all__ = ["REFUSED", "check_index", "make_indexes"]

N, GONE = 14, (4, 9)  # steps, and those that have no row
KEPT = [k for k in range(N) if k not in GONE]
REFUSED = (
    "text", "mixed objects", "bool", "complex", "intervals", "intervals of dates", "pairs", "missing label", "twice", "shuffled",
    "categories of text", "bytes", "uneven numbers",
)  # fmt: skip
READ_OR_REFUSED = ("decimals", "text of days of a zone", "text of quarters")


def make_indexes() -> dict[str, pd.Index]:
    """Return an index of each kind by name, of N steps without those of GONE."""
    days = pd.date_range("2020-01-30", periods=N, freq="D")
    hours = pd.date_range("2021-03-27 20:00", periods=N, freq="h", tz="Europe/Berlin")  # over the hour that is missing
    numbers, steps = np.arange(N), pd.to_timedelta(15 * np.arange(N), unit="min")
    labels: dict[str, pd.Index] = {
        "numbers from 3": pd.Index(numbers + 3),
        "every fifth number": pd.RangeIndex(0, 5 * N, 5),
        **{kind: pd.Index(numbers, dtype=kind) for kind in ("int32", "uint8", "float64", "float32", "Int64", "Float64")},
        "tenths": pd.Index(0.1 * numbers),
        "decimals": pd.Index([decimal.Decimal(int(k)) / 10 for k in numbers]),
        "dates": days,
        **{f"dates in {unit}": days.as_unit(unit) for unit in ("s", "ms", "us", "ns")},
        "dates of a zone": days.tz_localize("Europe/Berlin"),
        "hours of a zone": hours,
        "hours of an offset": hours.tz_convert("+05:30"),
        "UTC": hours.tz_convert("UTC"),
        **{f"every {freq}": pd.date_range("2020", periods=N, freq=freq) for freq in ("W-SUN", "MS", "ME", "QS", "YE", "15min")},
        "days of Python": pd.Index(days.date),
        "times of Python": pd.Index(hours.tz_convert("UTC").to_pydatetime(), dtype=object),
        "timestamps as objects": pd.Index(list(days), dtype=object),
        "hours of a zone as objects": pd.Index(list(hours), dtype=object),
        **{f"periods {freq}": pd.period_range("2020", periods=N, freq=freq) for freq in ("D", "W", "M", "Q", "Y", "h", "15min")},
        "periods as objects": pd.Index(list(pd.period_range("2020-01", periods=N, freq="M")), dtype=object),
        "timedeltas": pd.TimedeltaIndex(steps),
        "timedeltas of Python": pd.Index([datetime.timedelta(minutes=15 * int(k)) for k in numbers], dtype=object),
        "text of days": pd.Index(days.strftime("%Y-%m-%d"), dtype=object),
        "str of days": pd.Index(days.strftime("%Y-%m-%d"), dtype="str"),
        "text of days of a zone": pd.Index([label.isoformat() for label in hours]),
        "text of months": pd.Index(pd.period_range("2020-01", periods=N, freq="M").astype(str)),
        "text of quarters": pd.Index(pd.period_range("2020Q1", periods=N, freq="Q").astype(str)),
        "text of numbers": pd.Index([str(k) for k in numbers]),
        "categories of days": pd.CategoricalIndex(days.strftime("%Y-%m-%d")),
        "categories of dates": pd.CategoricalIndex(days),
        "text": pd.Index([f"row {chr(97 + k)}" for k in numbers]),
        "bytes": pd.Index([bytes([97 + k]) for k in numbers], dtype=object),
        "mixed objects": pd.Index([days[0], "b", 3.0, *days[3:]], dtype=object),
        "bool": pd.Index(numbers % 2 == 0),
        "complex": pd.Index(numbers * 1j),
        "categories of text": pd.CategoricalIndex(list("abcdefghijklmn")),
        "intervals": pd.interval_range(0, N),
        "intervals of dates": pd.interval_range(days[0], periods=N),
        "pairs": pd.MultiIndex.from_product([["a", "b"], days[: N // 2]]),
        "uneven numbers": pd.Index(numbers**1.5),
    }  # fmt: skip
    if find_spec("pyarrow") is not None:
        labels |= {
            **{kind: pd.Index(numbers, dtype=kind) for kind in ("int64[pyarrow]", "double[pyarrow]")},
            "date32[pyarrow]": pd.Index(days.date).astype("date32[pyarrow]"),
            "timestamp[us][pyarrow]": days.astype("timestamp[us][pyarrow]"),
            "duration[pyarrow]": steps.astype("duration[us][pyarrow]"),
            "string[pyarrow] of hours": pd.Index(hours.tz_convert("UTC").strftime("%Y-%m-%d %H:%M"), dtype="string[pyarrow]"),
        }  # fmt: skip
    found = {name: index[KEPT] for name, index in labels.items()}
    found["missing label"] = found["dates"].insert(3, pd.NaT)[:-1]
    found["twice"] = found["dates"].insert(3, days[3])[:-1]
    found["shuffled"] = found["dates"][np.random.default_rng(0).permutation(len(KEPT))]
    return found


def check_index(name: str, index: pd.Index) -> Result:
    """Compare where a series with ``index`` is placed with where its rows belong."""
    truth = np.full(N, np.nan)
    truth[KEPT] = values = np.sin(np.arange(len(KEPT)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            rows, _, time = align_rows(pd.Series(values, index=index, name="x"), None, None)
        except (ValueError, TypeError) as error:
            text = str(error)
            plain = text.startswith("y must") and "\n" not in text
            return (
                Result("refused", text) if plain and name in (*REFUSED, *READ_OR_REFUSED) else Result("fault", f"refused: {text}")
            )
        except Exception as error:
            return Result("fault", f"{type(error).__name__}: {error}")
    if name in REFUSED:
        return Result("fault", f"read as {len(rows)} rows")
    if rows.shape != (N, 1) or not np.array_equal(rows[:, 0], truth, equal_nan=True):
        return Result("fault", f"{len(rows)} rows, missing at {np.flatnonzero(np.isnan(rows[:, 0])).tolist()}")
    labels = None if time is None else time.onwards(N)
    if isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex, pd.TimedeltaIndex)) and not (
        labels is not None and index.isin(labels).all()
    ):
        return Result("fault", f"labels are {None if labels is None else labels[:3].tolist()}")
    return Result("exact")
