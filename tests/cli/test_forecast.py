"""Claim: ``pesn forecast`` turns a table into a forecast and a report, or says in one line why not, leaving nothing."""

import hashlib
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pesn
from pesn import cli
from pesn.cli.commands import Several
from pesn.series.job import without_formula
from pesn.series.table.reading import read

FIRST = date(2024, 1, 1)
FILES = ["forecast.csv", "index.html", "summary.json"]


def rows(n=60, start=0):
    """day, sales, temp: sales follow the week and the day's own temperature."""
    made = []
    for i in range(start, start + n):
        heat = random.Random(i).random()
        made.append([FIRST + timedelta(i), 10 + 3 * math.sin(2 * math.pi * i / 7) + 2 * heat + random.Random(-i).random(), heat])
    return made


def write(path, table, head="day,sales,temp"):
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in table)]) + "\n")


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data.csv", rows())
    return lambda *arguments: CliRunner().invoke(cli.app, ["forecast", *map(str, arguments)])


def done(result):
    assert result.exit_code == 0, result.stderr
    return result


def test_forecast_needs_only_a_file(call, tmp_path):
    result = done(call("data.csv", "--backtest", 3))
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert len(lines) <= 25
    assert lines[0] == "data      60 rows, one each day, 2024-01-01 … 2024-02-29"
    assert lines[1] == "target    sales, temp; season of 7 days in 1 of 2 targets"
    assert (sorted(os.listdir("forecast")), sorted(os.listdir())) == (FILES, ["data.csv", "forecast"])
    frame = pd.read_csv("forecast/forecast.csv")
    assert frame["day"].tolist() == [str(FIRST + timedelta(60 + i)) for i in range(7)]
    ends = ("median", "mean", "std", "lower_80", "upper_80", "lower_95", "upper_95")
    assert list(frame.columns) == ["day", *(f"{name}_{end}" for name in ("sales", "temp") for end in ends)]
    assert (frame["sales_lower_95"] < frame["sales_lower_80"]).all()
    assert (frame["sales_lower_80"] < frame["sales_median"]).all()
    assert (frame["sales_median"] < frame["sales_upper_80"]).all()
    summary = json.loads((tmp_path / "forecast" / "summary.json").read_text())
    assert (summary["season"], summary["frequency"], summary["targets"]) == ([7], "D", ["sales", "temp"])
    assert set(summary["backtest"]["scores"]) == {"pesn", "persistence", "seasonal-naive"}
    page = (tmp_path / "forecast" / "index.html").read_text()
    assert 'role="img"' in page
    assert "<script" not in page
    assert "prefers-color-scheme: dark" in page


def test_inputs_known_ahead_narrow_the_forecast(call, tmp_path):
    write(tmp_path / "future.csv", [[day, heat] for day, _, heat in rows(5, 60)], "day,temp")
    common = ("data.csv", "--target", "sales", "--inputs", "temp", "--backtest", 0)
    told = call(*common, "--future", "future.csv", "--out", "told")
    untold = call(*common, "--horizon", 5, "--out", "untold")
    assert (told.exit_code, untold.exit_code) == (0, 0), told.stderr + untold.stderr
    assert "future covariates are not known" in untold.stdout
    narrow, wide = (pd.read_csv(f"{name}/forecast.csv") for name in ("told", "untold"))
    assert len(narrow) == 5
    assert narrow["sales_std"].mean() < 0.9 * wide["sales_std"].mean()


def test_saved_model_gives_the_same_forecast_and_accepts_later_rows(call, tmp_path):
    done(call("data.csv", "--target", "sales", "--backtest", 0, "--save", "week.pesn", "--level", 0.5))
    done(call("data.csv", "--model", "week.pesn", "--out", "again"))
    first = (tmp_path / "forecast" / "forecast.csv").read_text()
    assert (tmp_path / "again" / "forecast.csv").read_text() == first
    assert "sales_upper_50" in first
    write(tmp_path / "later.csv", rows(30, 45))  # another first day: the week's phase must follow the dates
    write(tmp_path / "longer.csv", rows(75))
    for name in ("later", "longer"):
        assert call(f"{name}.csv", "--model", "week.pesn", "--out", name, "--horizon", 3).exit_code == 0
    later, longer = (pd.read_csv(f"{name}/forecast.csv") for name in ("later", "longer"))
    assert later["day"].tolist() == [str(FIRST + timedelta(75 + i)) for i in range(3)]
    np.testing.assert_allclose(later["sales_median"], longer["sales_median"], atol=1.0)  # a phase that is off is off by 3


@pytest.mark.parametrize(("name", "first"), [("airline", "1961-01-01"), ("co2", "2002-01-01"), ("economy", "2009-10-01")])
def test_bundled_data_are_forecast_as_in_python(call, name, first):
    done(call("--demo", name, "--horizon", 2, "--backtest", 0))
    written = pd.read_csv("forecast/forecast.csv")
    assert str(written.iloc[0, 0]) == first
    frame = pd.DataFrame(getattr(pesn.datasets, f"load_{name}")())
    expected = pesn.SeriesForecaster(2).fit(frame).forecast().median
    np.testing.assert_allclose(written[[f"{column}_median" for column in frame]], expected, rtol=1e-6)
    assert (expected > 0.3 * frame.iloc[-1].to_numpy()).all()


def test_rows_out_of_order_are_sorted_and_duplicates_merged(call, tmp_path):
    table = rows()
    write(tmp_path / "mixed.csv", table[30:] + table[:30])
    result = done(call("mixed.csv", "--backtest", 0, "--horizon", 2))
    assert result.stderr == "pesn: rows were not in order of 'day' (first in line 32); they were sorted\n"
    # steps and duplicates are options
    write(tmp_path / "odd.csv", [*table[:40:2], table[38], *table[40::2]])
    assert "--duplicates mean or --duplicates last merges such rows" in call("odd.csv").stderr
    result = done(call("odd.csv", "--duplicates", "last", "--freq", "D", "--backtest", 0, "--horizon", 2))
    assert "          1 row with the time of another row, the first at 2024-02-08: merged into the last of them" in result.stdout
    assert pd.read_csv("forecast/forecast.csv")["day"].tolist() == ["2024-02-29", "2024-03-01"]
    record = json.loads((tmp_path / "forecast/summary.json").read_text())
    assert (record["frequency"], record["rows"], record["notes"][1]) == ("D", 59, "29 missing days left as gaps")


@pytest.mark.parametrize(("n", "judged"), [(8, False), (2, False), (30, True)])
def test_few_rows_are_enough(call, tmp_path, n, judged):
    write(tmp_path / "short.csv", rows(n))
    result = done(call("short.csv", "--target", "sales", "--horizon", 3))
    assert ("backtest  " in result.stdout) == judged
    assert np.isfinite(pd.read_csv("forecast/forecast.csv").drop(columns="day")).all(axis=None)


@pytest.mark.parametrize(("arguments", "spread"), [
    (["a.csv", "--level", "0.8", "0.95"], ["a.csv", "--level", "0.8", "--level", "0.95"]),
    (["--level", "0.8", "0.95", "a.csv"], ["--level", "0.8", "--level", "0.95", "a.csv"]),
    (["--level", "0.8", "--level", "0.95", "a.csv"], ["--level", "0.8", "--level", "0.95", "a.csv"]),
    (["--level=0.8", "a.csv"], ["--level=0.8", "a.csv"]),
    (["a.csv", "--target", "x", "y", "--horizon", "3"], ["a.csv", "--target", "x", "--target", "y", "--horizon", "3"]),
    (["--target", "x", "y", "a.csv"], ["--target", "x", "--target", "y", "a.csv"]),
    (["--target", "x", "a.csv", "--inputs", "u", "v"], ["--target", "x", "a.csv", "--inputs", "u", "--inputs", "v"]),
    (["--horizon", "3", "--target", "x", "--", "a.csv"], ["--horizon", "3", "--target", "x", "--", "a.csv"]),
    (["a.csv", "--season", "24", "168"], ["a.csv", "--season", "24", "--season", "168"]),
    (["--target"], ["--target"]),
    (["--demo", "economy", "--target", "x", "y"], ["--demo", "economy", "--target", "x", "--target", "y"]),
    (["--target", "x", "y", "--demo=economy"], ["--target", "x", "--target", "y", "--demo=economy"]),
])  # fmt: skip
def test_several_words_after_one_flag(arguments, spread):
    assert Several.expand(arguments) == spread


WRONG = [  # what is wrong with the cells of a file: tests/series/table/test_reading.py
    (["nowhere.csv"], 2, "nothing there"),
    (["."], 2, "a folder"),
    ([], 2, "either FILE or --demo must be given, and not both, got neither"),
    (["data.csv", "--demo", "airline"], 2, "either FILE or --demo must be given, and not both, got both"),
    (["--demo", "nile"], 2, "the data set must be one of airline, co2, economy, got 'nile'"),
    (["data.csv", "--horizon", "0"], 2, "--horizon must be 1 or more, got 0"),
    (["data.csv", "--horizon", "601"], 2, "--horizon must be at most 600, as there are 60 rows, got 601"),
    (["data.csv", "--target", "none"], 2, "--target must be a column of the file, one of 'day', 'sales', 'temp'; got 'none'"),
    (["data.csv", "--level", "0.5", "1.5"], 2, "--level must lie in (0, 1), got 1.5"),
    (["data.csv", "--future", "data.csv"], 2, "--future must come with --inputs"),
    (["data.csv", "--model", "nowhere.pesn"], 2, "nothing there"),
    (["data.csv", "--season", "50"], 2, "--season must fit"),
    (["data.csv", "--out", "data.csv"], 1, "cannot write data.csv: it is not a folder"),
    (["data.csv", "--out", "site"], 1, "cannot write site: index.html is there, which pesn forecast did not write; give another"),
    (["data.csv", "--out", "data"], 1, "cannot write data: summary.json is there, which pesn forecast did not write"),
    (["data.csv", "--save", "no/where.pesn"], 1, "cannot write no/where.pesn"),
    (["double.csv"], 1, "column 'day' has 2024-01-30 2 times, in lines 31, 32; keep one row"),
    (["double.csv", "--duplicates", "first"], 2, "--duplicates must be mean, last or error, got 'first'"),
    (["data.csv", "--freq", "MS"], 1, "column 'day' must keep the step of a month, got 2024-01-02"),
    (["data.csv", "--model", "alien.pesn"], 1, "alien.pesn is not a file saved by pesn"),
    (["data.csv", "--model", "network.pesn"], 1, "network.pesn is not a file of pesn.SeriesForecaster"),
    (["data.csv", "--model", "alone.pesn"], 1, "alone.pesn is not a file of pesn.SeriesForecaster"),
]


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory):
    """A folder of files that will not do."""
    folder = tmp_path_factory.mktemp("spoilt")
    table = rows()
    write(folder / "data.csv", table)
    write(folder / "double.csv", table[:30] + table[29:])
    (folder / "alien.pesn").write_text("hello")
    for name, content in (("site/index.html", "<p>mine"), ("data/summary.json", '{"pesn": "mine too"}')):
        (folder / name).parent.mkdir()
        (folder / name).write_text(content)
    waves = np.sin(np.arange(60.0))[:, None]
    pesn.EchoStateNetwork(10, density=0.5, random_state=0).fit(waves[:-1], waves[1:]).save(folder / "network.pesn")
    network = pesn.ProbabilisticESN(10, density=0.5, process_noise=0.0, random_state=0)
    pesn.Forecaster(network, calibrate=False).fit(waves).save(folder / "alone.pesn")
    return folder


@pytest.mark.parametrize(("arguments", "code", "says"), WRONG, ids=[" ".join(case[0]) for case in WRONG])
def test_refused_in_one_line_with_nothing_left(spoilt, monkeypatch, arguments, code, says):
    monkeypatch.chdir(spoilt)
    before = sorted(os.listdir())
    result = CliRunner().invoke(cli.app, ["forecast", *arguments])
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("pesn: ")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr
    assert sorted(os.listdir()) == before


def test_a_saved_model_forecasts_without_scikit_learn(call, run_python):
    done(call("data.csv", "--target", "sales", "--backtest", 0, "--save", "m.pesn"))
    code = (
        "import sys; from pathlib import Path; from pesn.series.job import Request, run; "
        "run(Request(Path('data.csv'), model=Path('m.pesn'))); print('sklearn' in sys.modules)"
    )
    assert run_python(code).stdout == "False\n"


def test_a_model_of_other_columns(call, tmp_path):
    assert call("data.csv", "--target", "sales", "--backtest", 0, "--save", "m.pesn").exit_code == 0
    write(tmp_path / "other.csv", rows(), "day,cost,temp")
    hours = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=60, freq="h"), "sales": np.arange(60.0) % 7})
    hours.to_csv(tmp_path / "hours.csv", index=False)
    for file, says in (("other.csv", "the model is of the columns 'sales'"), ("hours.csv", "must keep the step of a day")):
        result = call(file, "--model", "m.pesn", "--out", "none")
        assert (result.exit_code, says in result.stderr) == (1, True), result.stderr
    (tmp_path / "m.pesn").write_bytes((tmp_path / "m.pesn").read_bytes()[:-5])
    cut = call("data.csv", "--model", "m.pesn", "--out", "none")
    assert (result.exit_code, cut.exit_code) == (1, 1)
    assert not (tmp_path / "none").exists()


def test_foreign_folder_needs_overwrite(call, tmp_path):
    out = tmp_path / "site"
    out.mkdir()
    (out / "index.html").write_text("mine")
    (out / "notes.txt").write_text("mine")
    common = ("data.csv", "--target", "sales", "--backtest", 0, "--horizon", 2, "--out", "site")
    assert call(*common).exit_code == 1
    assert (out / "index.html").read_text() == "mine"
    assert call(*common, "--overwrite").exit_code == 0
    assert sorted(os.listdir(out)) == sorted([*FILES, "notes.txt"])
    assert call(*common).exit_code == 0  # its own, by now
    record = json.loads((out / "summary.json").read_text())
    assert record["sha256"] == {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in FILES[:-1]}


def test_png_is_written_on_request_and_removed_with_the_forecast_it_shows(call, tmp_path):
    common, figure = ("data.csv", "--target", "sales", "--backtest", 0, "--horizon", 2), tmp_path / "forecast" / "forecast.png"
    assert "index.html, forecast.csv, forecast.png, summary.json" in done(call(*common, "--png")).stdout
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "forecast.png" in json.loads((tmp_path / "forecast" / "summary.json").read_text())["sha256"]
    assert "forecast.png" in (tmp_path / "forecast" / "index.html").read_text()
    assert "forecast.png" not in done(call(*common)).stdout
    assert sorted(os.listdir("forecast")) == FILES
    done(call(*common, "--png"))
    figure.write_bytes(b"edited")
    done(call(*common))
    assert figure.read_bytes() == b"edited"  # not the file that pesn wrote


def test_formulas_are_texts_in_the_forecast_and_names_in_a_model(call, tmp_path):
    write(tmp_path / "data.csv", rows(), "day,=1+1,@u")
    common = ("--backtest", 0, "--horizon", 2)
    done(call("data.csv", "--target", "=1+1", "--inputs", "@u", "--save", "m.pesn", *common))
    head = (tmp_path / "forecast" / "forecast.csv").read_text().split("\n")[0]
    assert head.startswith("day,'=1+1_median,'=1+1_mean,'=1+1_std,'=1+1_lower_80")
    assert json.loads((tmp_path / "forecast" / "summary.json").read_text())["targets"] == ["=1+1"]
    done(call("data.csv", "--model", "m.pesn", "--horizon", 2, "--out", "again"))
    assert (tmp_path / "again" / "forecast.csv").read_text() == (tmp_path / "forecast" / "forecast.csv").read_text()
    assert read(tmp_path / "forecast" / "forecast.csv").targets[:2] == ["'=1+1_median", "'=1+1_mean"]


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r", "\n", "＝"])
def test_no_text_begins_as_a_formula_does(sign):
    texts = [before + quotes + sign + "x" for before in ("", "a;", "a,", "a|") for quotes in ("", "'", "''")]
    found = [without_formula(text) for text in texts]
    assert len(set(found)) == len(texts)
    for text in found:
        assert not any(cell.startswith(sign) for cell in re.split(r"[;,|]", text))
    assert without_formula("net = gross - tax") == "net = gross - tax"


HANG = "import time, pandas; pandas.DataFrame.to_csv = lambda *given, **options: time.sleep(60)\n"


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_kill_leaves_the_old_forecast_and_the_next_run_nothing_half_written(call, tmp_path):
    common = ("data.csv", "--target", "sales", "--backtest", "0", "--horizon", "2")
    assert call(*common).exit_code == 0
    old = {name: (tmp_path / "forecast" / name).read_bytes() for name in FILES}
    process = started(common)
    until_writing(process)
    process.kill()
    process.communicate()
    assert {name: (tmp_path / "forecast" / name).read_bytes() for name in FILES} == old
    [left] = (tmp_path / "forecast").glob(".*.part")
    os.utime(left, (0.0, 0.0))  # old enough to be nobody's
    assert call(*common).exit_code == 0
    assert (sorted(os.listdir()), sorted(os.listdir("forecast"))) == (["data.csv", "forecast"], FILES)


def started(arguments):
    """Start the command in a separate process, which hangs while it writes."""
    code = HANG + "from pesn import cli; cli.main()"
    words = [sys.executable, "-c", code, "forecast", *arguments]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until_writing(process):
    deadline = time.monotonic() + 60.0
    while not [*Path("forecast").glob(".*.part")] and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.5)


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_nothing(call, tmp_path):
    process = started(["data.csv", "--target", "sales", "--backtest", "0"])
    until_writing(process)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error, sorted(os.listdir())) == (130, "", "pesn: interrupted\n", ["data.csv"])
