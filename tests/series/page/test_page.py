"""Claim: pages are whole, say nothing to a network, run no script but their own, and show any name as it is."""

import base64
import hashlib
import re

import numpy as np
import pandas as pd
import pytest

from pesn._support.pages.drawing import limits
from pesn.series.forecaster import SeriesForecaster
from pesn.series.page import panel_page as panel_page_module
from pesn.series.page.page import OPEN_COLUMNS, page, sections
from pesn.series.page.panel_page import SeriesRecord, panel_page, records, spark_code

ODD = "<b>x</b> & \"y\" 'z' </script>"


def table_page(names, rows=48, horizon=6, origins=(30, 36), **other):
    rng = np.random.default_rng(0)
    y = pd.DataFrame({name: 10.0 * (i + 1) + np.cumsum(rng.normal(size=rows)) for i, name in enumerate(names)})
    model = SeriesForecaster(horizon=horizon).fit(y)
    judged = model.backtest(horizon, list(origins)) if origins else None
    shown = sections(model.fitted_, model.forecast(horizon), (0.8, 0.95), judged=judged)
    content = {
        "title": f"Forecast of {ODD}", "said": {"data": ODD, "model": ODD, "forecast": ODD, "backtest": ODD}, "notes": [ODD],
        "sections": shown, "levels": (0.8, 0.95), "settings": {ODD: ODD},
        "file": ODD, "command": ODD, "version": "1", "files": ["forecast.csv", "a b.csv"],
    }  # fmt: skip
    return page(content | other)


def frames(k=7, n=30, h=4):
    rng = np.random.default_rng(0)
    ids = [f"s{i}" for i in range(k - 1)] + [ODD]
    days = pd.date_range("2024-01-01", periods=n + h)
    y = 100.0 + np.cumsum(rng.normal(size=(k, n + h)), axis=1)
    history = pd.DataFrame({"unique_id": np.repeat(ids, n), "ds": np.tile(days[:n], k), "y": y[:, :n].ravel()})
    ahead = pd.DataFrame({"unique_id": np.repeat(ids, h), "ds": np.tile(days[n:], k), "pesn": y[:, n:].ravel()})
    for level, width in ((95, 3.0), (80, 2.0)):
        ahead[f"pesn-lo-{level}"], ahead[f"pesn-hi-{level}"] = ahead["pesn"] - width, ahead["pesn"] + width
    came = ahead["pesn"] + np.linspace(-4.0, 4.0, len(ahead))
    past = ahead.assign(y=came.where(np.arange(len(ahead)) % 5 > 0), cutoff=days[n - 1])
    failed = pd.DataFrame({"unique_id": ["bad"], "reason": [ODD]})
    return history.sample(frac=1.0, random_state=0), ahead, past, failed


def many(shown, **other):
    content = {
        "title": ODD, "said": {"data": ODD, "forecast": ODD}, "notes": [ODD], "records": shown, "total": len(shown), "failed": 1,
        "end": ODD, "level": "80", "file": ODD, "command": ODD, "version": "1", "files": ["forecast.csv"], "settings": {ODD: ODD},
        "shares": {"statistical": 3.0, "AR": 1.0},
    }  # fmt: skip
    return panel_page(content | other)


PAGES = {
    "a column": lambda: table_page([ODD]),
    "columns": lambda: table_page(["a", ODD]),
    "many columns": lambda: table_page([ODD, *(f"c{i}" for i in range(OPEN_COLUMNS + 2))]),
    "no backtest, one step": lambda: table_page(["a"], 8, 1, None, said={"data": "", "model": "", "forecast": ""}),
    "a panel": lambda: many(records(*frames(), "80")),
    "a panel of nothing": lambda: many([], total=0, failed=0, end="", shares={}),
    "a panel that failed": lambda: many([SeriesRecord(ODD, failed=ODD)]),
}


@pytest.mark.parametrize("case", PAGES)
def test_pages_are_whole_and_call_nobody(case, read_page):
    text = PAGES[case]()
    shown = read_page(text, optional={"td", "tr", "th", "li"})  # ends that HTML lets out
    tags = [tag for tag, _ in shown.tags]
    own = {"#content", "data:,", "forecast.csv", "a%20b.csv"}
    assert set(shown.values("src", "href", "action", "srcset", "data")) <= own
    assert not [name for _, attributes in shown.tags for name in attributes if name.startswith("on")]
    assert not re.search(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)\w+\.", re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    assert "@import" not in text
    assert "url(" not in text
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert "b" not in tags or "panel" not in case  # of the name, not of the page
    assert ODD in "".join(shown.words) or "nothing" in case or "no backtest" in case
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    if "panel" in case:
        [script] = scripts
        found = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"script-src 'sha256-{found}'" in policy
    else:
        assert "script" not in policy
        assert tags.count("script") == 0


def test_a_page_has_a_section_for_each_column():
    few, many_columns = table_page(["a", "b"]), table_page([f"c{i}" for i in range(OPEN_COLUMNS + 1)])
    assert few.count("<section") == 2
    assert 'class="column"' not in few
    assert (many_columns.count('<details class="column">'), few.count(">Ensemble<")) == (OPEN_COLUMNS + 1, 2)
    assert few.count(">Backtest<") == 2


def test_records_are_what_pandas_groups():
    history, ahead, past, failed = frames()
    found = records(history, ahead, past, failed, "80")
    assert [one.id for one in found] == [*ahead["unique_id"].unique(), "bad"]
    assert found[-1].failed == ODD
    for one in found[:-1]:
        y = history[history["unique_id"] == one.id].sort_values("ds")["y"]
        last = ahead[ahead["unique_id"] == one.id].iloc[-1]
        assert (one.rows, one.last) == (len(y), y.iloc[-1])
        assert (one.end, one.lower, one.upper) == tuple(last[["pesn", "pesn-lo-80", "pesn-hi-80"]])
        own = past[past["unique_id"] == one.id].dropna()
        assert one.error == pytest.approx((own["y"] - own["pesn"]).abs().mean() / y.diff().abs().mean())
        assert one.inside == pytest.approx(own["y"].between(own["pesn-lo-80"], own["pesn-hi-80"]).mean())


def test_records_keep_their_limit_with_some_that_failed_and_take_other_names(monkeypatch):
    history, ahead, _, failed = frames(k=30)
    monkeypatch.setattr(panel_page_module, "MOST_SERIES", 20)
    found = records(history, ahead, None, pd.concat([failed] * 9), "80")
    assert (len(found), [bool(one.failed) for one in found]) == (20, [False] * 18 + [True] * 2)
    names = {"unique_id": "shop", "ds": "day", "y": "sales"}
    renamed = [frame.rename(columns=names) for frame in (history, ahead, failed)]
    again = records(*renamed[:2], None, renamed[2], "80", ("shop", "day", "sales"))
    shuffled = ahead.sort_values("ds", kind="stable")  # by day, ids in the same order
    for one in (ahead, shuffled):
        assert repr(records(history, one, None, failed, "80")) == repr(again)  # NaN among them


def test_letters_hold_the_picture():
    rng = np.random.default_rng(0)
    seen, mean = rng.normal(size=30), rng.normal(size=8)
    seen[4] = np.nan
    code = spark_code(seen, mean, mean - 0.5, mean + 0.5)
    parts = [np.array([np.nan if c == " " else ord(c) - 63.0 for c in part]) for part in code.split("!")]
    assert [len(part) for part in parts] == [24, 8, 8, 8]
    assert np.nanmin(np.concatenate(parts)) >= 0.0
    assert np.nanmax(np.concatenate(parts)) <= 63.0
    heights, values = np.concatenate(parts[:2]), np.concatenate([seen[-24:], mean])
    np.testing.assert_array_equal(np.isnan(heights), np.isnan(values))
    low, high = limits([values], [mean - 0.5, mean + 0.5])
    assert np.nanmax(np.abs(63.0 * (values - low) / (high - low) - heights)) <= 0.5 + 1e-9  # rounded to whole heights
    assert len(spark_code(np.zeros(5000), *(np.zeros(2000),) * 3)) < 200


def test_a_page_of_thousands_says_what_it_leaves_out_and_stays_small():
    letters = "?" * 36 + "!" + "!".join(["A" * 12] * 3)
    shown = [SeriesRecord(f"series {i}", 84, 1.5, 2.25, 1.0, 3.0, letters, "12") for i in range(3000)]
    text = many(shown, total=25_000)
    assert "The first 3,000 of 25,000 series" in text
    assert len(text) < 40_000 + 300 * len(shown)
    assert text.count("<svg") == 0
    assert all(f">series {i}<" in text for i in (0, 1234, 2999))  # whole, also without the script
