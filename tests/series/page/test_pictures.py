"""Claim: figures of a forecast show its rows, steps, components and origins, well-formed, for odd series and odd names too."""

from contextlib import nullcontext
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from pesn.series.forecaster import SeriesForecaster
from pesn.series.page import page
from pesn.series.page.page import sections

ODD = "a<b> & \"c\" 'd'"


def fitted(y, horizon, index=None, X=None, name=ODD):
    return SeriesForecaster(horizon=horizon).fit(pd.Series(np.asarray(y, float), index=index, name=name), X)


def parsed(text):
    return ElementTree.fromstring(f"<div>{text}</div>")


def monthly(n=84):
    t = np.arange(float(n))
    return 50.0 + 0.3 * t + 8.0 * np.sin(2 * np.pi * t / 12) + np.random.default_rng(0).normal(size=n)


@pytest.fixture(scope="module")
def model():
    return fitted(monthly(), 12, pd.date_range("2015-01-31", periods=84, freq="ME"))


def test_the_picture_says_every_step_and_the_name(model):
    ahead = model.forecast(12)
    root = parsed(page.forecast(model.fitted_, ahead, (0.8, 0.95)))
    assert len(root.findall(".//svg")) == 1
    assert root.find(".//svg").get("aria-label").startswith(ODD)
    assert len(root.findall(".//path[@class='band']")) == 2
    said = [one.text for one in root.iter("title")]
    assert [text.split(":")[0] for text in said] == [label.strftime("%Y-%m") for label in ahead.index]
    lower, upper = ahead.interval(0.95)
    numbers = said[-1].split(": ", 1)[1].replace("(95 %:", "").replace("…", "").rstrip(")").split()
    np.testing.assert_allclose([float(one) for one in numbers], [ahead.median[-1, 0], lower[-1, 0], upper[-1, 0]], atol=0.06)


def test_each_component_has_a_drawing(model):
    parts = model.fitted_.models[0].components(12)
    root = parsed(page.components(model.fitted_, 12))
    assert len(root.findall(".//svg")) == len(parts) == 2
    assert [one.text.split(":")[0] for one in root.iter("h4")] == ["Level", "Season"]
    # without a season there is nothing to take apart
    walk = np.cumsum(np.random.default_rng(1).normal(size=60))
    assert page.components(fitted(walk, 3).fitted_, 3) == ""


@pytest.mark.parametrize(("origins", "shown"), [([60], 1), (list(range(40, 52)), 12), (list(range(40, 71)), 12)])
def test_past_forecasts_are_one_panel_an_origin_twelve_at_most(model, origins, shown):
    judged = model.backtest(4, origins[:: max(len(origins) // 14, 1)])
    root = parsed(page.backtest(model.fitted_, judged, (0.8, 0.95)))
    assert len(root.findall(".//svg")) == min(shown, len(judged.origins))
    plots = root.findall(".//div[@class='plot small']")
    assert len({tuple(one.text for one in plot.findall(".//span[@class='y']")) for plot in plots}) == 1  # the same scale in all
    missed = sum(one.get("d").count("M") for one in root.findall(".//path[@class='missed']"))
    counted = [one.text.split() for one in root.iter("small")]
    assert missed == sum(int(known) - int(inside) for inside, _, known, *_ in counted)
    if len(judged.origins) <= 12:
        lower, upper = judged.interval(0.95)
        assert missed == int(((judged.observed < lower) | (judged.observed > upper)).sum())


ROWS = {
    "eight rows": (np.arange(8.0) ** 1.5, 2), "a constant": (np.full(30, 7.0), 3), "zeros": (np.zeros(20), 3),
    "one step": (monthly(40), 1),
    "gaps": (np.where(np.arange(60) % 7 == 3, np.nan, np.arange(60.0)), 5),
    "a gap at the end": (np.append(np.arange(30.0), [np.nan] * 3), 4),
    "large": (1e99 * (1.0 + 0.1 * np.sin(np.arange(40.0))), 4), "small": (1e-300 * (1.0 + 0.1 * np.sin(np.arange(40.0))), 4),
    "a spike": (np.where(np.arange(40) == 20, 1e6, 1.0), 4),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_odd_series_have_sections(case):
    y, horizon = ROWS[case]
    with pytest.warns(UserWarning, match="no number: the forecast begins after row") if np.isnan(y[-1]) else nullcontext():
        model = fitted(y, horizon)
    places = [model.fitted_.rows - horizon] if model.fitted_.rows - horizon >= 8 else None
    judged = None if places is None else model.backtest(horizon, places)
    [one] = sections(model.fitted_, model.forecast(horizon), (0.8, 0.95), judged=judged)
    for text in (one.picture, one.members, one.components, one.backtest, one.spark):
        assert "nan" not in text.replace("naive", "")
        parsed(text)
    assert (len(one.numbers.rows), one.scores is None) == (horizon, judged is None)


@pytest.mark.parametrize(("index", "first"), [
    (None, "row 30"), (pd.RangeIndex(5, 35, name="day"), "35"), (pd.Index(0.5 * np.arange(30.0)), "15"),
    (pd.period_range("1990", periods=30, freq="Y"), "2020"),
    (pd.date_range("2024-01-01", periods=30, freq="h", tz="Europe/Berlin"), "2024-01-02 06:00"),
    (pd.date_range("2024-01-01", periods=30, freq="W"), "2024-08-04"),
])  # fmt: skip
def test_rows_are_called_by_their_labels(index, first):
    model = fitted(np.cumsum(np.ones(30)) ** 0.5, 2, index)
    ahead = model.forecast(2)
    assert model.fitted_.label(30, 2) == first
    assert parsed(page.forecast(model.fitted_, ahead, (0.8,))).find(".//title").text.startswith(first)
    parsed(page.backtest(model.fitted_, model.backtest(2, [20]), (0.8,)))


def test_bars_have_the_shares_that_the_members_have(model):
    one = model.fitted_.models[0]
    found = page.groups(one)
    shares = [kind.share for group in found for kind in group.kinds]
    assert sum(shares) == pytest.approx(1.0)
    root = parsed(page.draw_members("bars", found, one))
    widths = [float(bar.get("style").removeprefix("width:").rstrip("%")) for bar in root.findall(".//span[@class='bar']/i")]
    assert sum(widths) == pytest.approx(100.0, abs=0.1 * len(widths))
    np.testing.assert_allclose(np.array(widths) / sum(widths), shares, atol=0.001)
    assert len(root.findall(".//tbody/tr")) in (0, len(one.members))


def test_members_that_nobody_named_are_escaped_and_grouped():
    made = [
        SimpleNamespace(kind="SES", detail=ODD, weight=0.6, score=1.0),
        SimpleNamespace(kind="reservoir", detail="", weight=0.3995, score=2.0),
        SimpleNamespace(kind="Holt", detail="α 1", weight=0.0005, score=float("inf")),
    ]
    model = SimpleNamespace(members=made, shares={"statistical": 0.6005, "reservoir": 0.3995, "AR": 0.0}, notes=(ODD, "AR: few"))
    assert [group.key for group in page.groups(model)] == ["statistical", "reservoir"]
    root = parsed(page.draw_members("bars", page.groups(model), model))
    assert root.find(".//small").text == ODD
    assert [one.text for one in root.findall(".//span[@class='n']")] == ["60 %", "<0.1 %", "40 %"]
    notes = root.findall(".//ul[@class='notes']/li")
    assert notes[0].text == ODD
    assert notes[1].find("b").text == "AR"
