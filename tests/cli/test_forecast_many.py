"""Claim: ``pesn forecast --id`` forecasts every series of a long table, as Python does, or says in one line why not."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pesn
from pesn import cli


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    months = pd.date_range("2020-01-01", periods=40, freq="MS")
    shops = ["north", "south", "=west"]
    frame = pd.DataFrame({"shop": np.repeat(shops, 40), "month": np.tile(months, 3)})
    frame["sold"] = 50.0 + rng.normal(size=120).cumsum()
    frame["price"] = rng.normal(size=120).round(3)
    return frame.assign(sold=frame["sold"].where(frame["shop"] != "south"))


@pytest.fixture
def call(tmp_path, monkeypatch, frame):
    monkeypatch.chdir(tmp_path)
    frame.assign(region="east").to_csv("sales.csv", index=False, sep=";", decimal=",")
    return lambda *arguments: CliRunner().invoke(cli.app, ["forecast", *map(str, arguments)])


def done(result):
    assert result.exit_code == 0, result.stderr
    return result


def test_command_equals_the_python_api(call, frame):
    words = "sales.csv", "--id", "shop", "--target", "sold", "--jobs", 1
    result = done(call(*words, "--horizon", 5, "--level", 0.9, "--backtest", 2))
    lines = result.stdout.splitlines()
    assert lines[0] == "data      3 series, 80 numbers, a month apart"
    assert "failed    1, the first 'south': it has no number among its 40 rows" in lines
    assert sorted(os.listdir("forecast")) == ["backtest.csv", "failures.csv", "forecast.csv", "index.html", "summary.json"]
    model = pesn.SeriesForecaster(5, id_col="shop", time_col="month", target_col="sold")
    with pytest.warns(UserWarning, match="south"):
        model.fit(frame[["shop", "month", "sold"]])
    expected = model.forecast(5, level=90)
    found = pd.read_csv("forecast/forecast.csv", parse_dates=["month"])
    assert found.columns.tolist() == expected.columns.tolist()
    assert found["shop"].unique().tolist() == ["'=west", "north"]  # no formula in a spreadsheet
    np.testing.assert_allclose(found["pesn"], expected["pesn"], rtol=1e-12)
    assert found["month"].tolist() == expected["month"].tolist()
    judged = pd.read_csv("forecast/backtest.csv")
    np.testing.assert_allclose(judged["pesn"], model.cross_validation(5, 2, 5)["pesn"], rtol=1e-12)
    record = json.loads(Path("forecast/summary.json").read_text())
    assert (record["series"], record["failures"], record["horizon"]) == (3, 1, 5)
    page = Path("forecast/index.html").read_text(encoding="utf-8")
    assert "Forecasts of 3 series" in page
    assert call(*words).exit_code == 0  # over its own files


def test_inputs_that_are_known_ahead(call, frame):
    shops = ["north", "north", "=west", "=west"]
    later = pd.DataFrame({"shop": shops, "month": ["2023-05", "2023-06"] * 2, "price": [1.0, -1.0, 0.5, 0.0]})
    later.to_csv("later.csv", index=False)
    common = "sales.csv", "--id", "shop", "--target", "sold", "--horizon", 2, "--jobs", 1
    words = *common, "--inputs", "price", "--future", "later.csv"
    result = done(call(*words))
    later.iloc[:3].to_csv("later.csv", index=False)
    result = call(*words)
    assert result.exit_code == 1
    assert result.stderr == "pesn: X must have a row for each of the 2 steps ahead, got none for '=west' at 2023-06-01\n"


@pytest.mark.parametrize(("words", "code", "message"), [
    ("--id shp", 2, "--id must be a column of the file, one of 'shop', 'month', 'sold', 'price', 'region'; got 'shp'"),
    ("--id shop", 2, "--target must name the column to forecast, as there are several of numbers: sold, price"),
    ("--id shop --target region", 1, "column 'region' has 'east' in line 2, which is not a number"),
    ("--id shop --target sold --time region", 1, "column 'region' has 'east' in line 2, series 'north', which"),
    ("--id shop --target shop", 2, "--id, --time, --target and --inputs must be different columns, got 'shop' twice"),
    ("--id shop --target sold price", 2, "--target must be one column with --id, got sold, price"),
    ("--id shop --target sold --horizon 5000", 1, "horizon must be at most 400, as there are 40 rows"),
    ("--id shop --target sold --save m", 2, "--save must not be given with --id"),
    ("--jobs 2", 2, "--jobs must come with --id"),
    ("--id shop --stream", 2, "sales.csv must be a Parquet file, got another one"),
    ("--id shop --scheduler nowhere", 2, "scheduler must be an address such as tcp://127.0.0.1:8786, got 'nowhere'"),
])  # fmt: skip
def test_errors_are_one_line(call, words, code, message):
    result = call("sales.csv", *words.split())
    assert result.stderr.startswith(f"pesn: {message}"), result.stderr
    assert (result.stderr.count("\n"), result.exit_code) == (1, code)
    assert not os.path.exists("forecast")


def test_empty_names_and_odd_times(call):
    Path("odd.csv").write_text("id,t,y\na,1,5\na,2,6\n,3,7\n")
    assert "column 'id' is empty in line 4; each row needs its series' name" in call("odd.csv", "--id", "id").stderr
    Path("counted.csv").write_text("id,t,y\n" + "".join(f"{name},{t},{t % 7}\n" for name in (10, 9) for t in range(30)))
    done(call("counted.csv", "--id", "id", "--horizon", 2, "--jobs", 1))
    assert pd.read_csv("forecast/forecast.csv")["t"].tolist() == [30, 31, 30, 31]


def test_parquet_here_and_on_a_cluster(call, frame):
    pytest.importorskip("pyarrow")
    distributed = pytest.importorskip("distributed")
    frame.drop(columns="price").to_parquet("sales.parquet", index=False)
    words = "sales.parquet", "--id", "shop", "--time", "month", "--target", "sold", "--horizon", 3, "--jobs", 1
    result = done(call(*words, "--stream", "--out", "streamed"))
    assert result.stdout == "forecast  2 series, 1 failed\nwritten   streamed, 1 Parquet file\n"
    here = pd.read_parquet("streamed/part-00000.parquet")
    options = {"processes": False, "protocol": "tcp://", "dashboard_address": ":0", "silence_logs": 60}
    with distributed.LocalCluster(2, threads_per_worker=1, **options) as cluster:
        result = done(call(*words[:-2], "--scheduler", cluster.scheduler_address, "--out", "spread"))
    assert result.stdout == "forecast  2 series, 1 failed\nwritten   spread, 1 Parquet file\n"
    pd.testing.assert_frame_equal(pd.read_parquet("spread/part-00000.parquet"), here, check_exact=True)
    assert pd.read_parquet("spread/failures-00000.parquet")["shop"].tolist() == ["south"]


def test_weekly_series_of_different_weekdays_with_a_date_twice(call):
    """Ids such as 1_1 are names, and static and logical columns are no targets."""
    weeks = pd.date_range("2020-01-06", periods=40, freq="7D")
    frame = pd.DataFrame({"id": np.repeat(["1_1", "1_2", "1_3"], 40), "Store": 1, "Dept": np.repeat([1, 2, 3], 40)})
    frame["Date"] = [*weeks, *(weeks + pd.Timedelta("3D")), *(weeks + pd.Timedelta("4D"))]
    frame["Weekly_Sales"] = 50.0 + np.random.default_rng(0).normal(size=120).cumsum().round(2)
    frame["IsHoliday"] = np.where(frame["Date"].dt.month == 12, "TRUE", "FALSE")
    frame.to_csv("weekly.csv", index=False)
    result = done(call("weekly.csv", "--id", "id", "--inputs", "IsHoliday", "--horizon", 2, "--jobs", 1))
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "data      3 series, 120 numbers, a week apart",
        "          IsHoliday: TRUE is 1, FALSE is 0",
        "          left out, as they are constant in each series: Store, Dept",
    ]
    once = pd.read_csv("forecast/forecast.csv", parse_dates=["Date"])
    assert once["Date"].dt.day_of_week.tolist() == [0, 0, 3, 3, 4, 4]
    assert json.loads(Path("forecast/summary.json").read_text())["notes"][0] == "IsHoliday: TRUE is 1, FALSE is 0"
    pd.concat([frame, frame.iloc[[7]]]).to_csv("weekly.csv", index=False)
    words = "weekly.csv", "--id", "id", "--inputs", "IsHoliday", "--horizon", 2, "--jobs", 1, "--freq", "W"
    assert "'1_1': it has two rows at Date 2020-02-24: duplicates mean or last merges them" in call(*words).stdout
    result = call(*words, "--duplicates", "mean")
    assert "          1 row with the time of another row, the first at 2020-02-24: merged into their mean" in result.stdout
    pd.testing.assert_frame_equal(pd.read_csv("forecast/forecast.csv", parse_dates=["Date"]), once)


def test_year_and_quarter_of_many_series(call):
    frame = pd.DataFrame({"land": np.repeat(["A", "B"], 20), "year": [*np.repeat(range(2000, 2005), 4)] * 2})
    frame = frame.assign(quarter=[1, 2, 3, 4] * 10, gdp=np.random.default_rng(0).normal(size=40).round(3), rate=0.5)
    frame.loc[3, "rate"] = 0.25
    frame.to_csv("gdp.csv", index=False)
    later = pd.DataFrame({"land": ["A", "B"], "year": 2005, "quarter": 1, "rate": 0.5})
    later.to_csv("later.csv", index=False)
    words = "--target", "gdp", "--inputs", "rate", "--future", "later.csv", "--horizon", 1, "--jobs", 1
    done(call("gdp.csv", "--id", "land", *words))
    assert pd.read_csv("forecast/forecast.csv")["year and quarter"].tolist() == ["2005-01-01", "2005-01-01"]


def test_parquet_with_a_step_and_duplicates(call):
    pytest.importorskip("pyarrow")
    weeks = pd.date_range("2020-01-06", periods=30, freq="7D")
    dates = [*weeks, *(weeks + pd.Timedelta("3D"))]
    frame = pd.DataFrame({"unique_id": np.repeat(["a", "b"], 30), "ds": dates, "y": np.arange(60) % 7.0})
    pd.concat([frame, frame.iloc[[4, 5]]]).to_parquet("weekly.parquet", index=False)
    words = "weekly.parquet", "--id", "unique_id", "--stream", "--horizon", 2, "--jobs", 1, "--freq", "W", "--duplicates", "mean"
    result = done(call(*words, "--out", "streamed"))
    assert result.stdout.startswith("forecast  2 series\nmerged    2 rows with the time of another row of their series\n")
    expected = pesn.SeriesForecaster(2).fit(frame).forecast(2)
    pd.testing.assert_frame_equal(pd.read_parquet("streamed/part-00000.parquet"), expected)
