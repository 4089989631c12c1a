"""Claim: what summaries, notes and pages say of baselines, weights and counts is true."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.series import univariate
from pesn.series.job import Request, lines, record, run
from pesn.series.page.page import sections
from pesn.series.page.panel_page import records
from pesn.series.panel import panel_job
from pesn.series.result import SeriesBacktest, backtest_naive


def half_hours(days, rng):
    """Half-hourly rows: a profile of the day, lower at weekends, as the demand for electricity."""
    t = np.arange(48 * days)
    weekend = (t // 48) % 7 >= 5
    return 100.0 + np.where(weekend, 5.0, 30.0) * np.sin(2 * np.pi * t / 48) - 40.0 * weekend + rng.normal(size=len(t))


@pytest.fixture(scope="module")
def demand(tmp_path_factory):
    path = tmp_path_factory.mktemp("demand") / "a.csv"
    times = pd.date_range("2024-01-01", periods=48 * 28, freq="30min", name="time")
    pd.Series(half_hours(28, np.random.default_rng(0)), index=times, name="demand").to_csv(path)
    return run(Request(path, backtest=3))


def test_the_seasonal_baseline_uses_its_best_season(demand):
    back = demand.backtest
    baseline = back.baselines["seasonal-naive"]
    assert baseline.seasons == (336,)
    daily = backtest_naive(demand.fitted.y, back.origins, back.horizon, [48])
    assert baseline.crps()[0] < 0.5 * daily.crps()[0]
    place = int(back.origins[0])
    np.testing.assert_array_equal(baseline.median[0, :, 0], demand.fitted.y[place - 336 : place - 288, 0])
    assert any("seasonal-naive (336)" in line for line in lines(demand))
    assert record(demand, "", 0.0)["backtest"]["scores"]["seasonal-naive"]["season"] == {"demand": 336}
    [one] = sections(demand.fitted, demand.forecast, (0.8,), judged=back)
    assert one.scores.rows[2][0].text == "seasonal-naive (336)"


def test_the_season_is_chosen_before_the_origins():
    rng, t = np.random.default_rng(1), np.arange(28 * 8)
    y = 10.0 + np.where(t % 28 >= 20, 0.0, 5.0 * np.sin(2 * np.pi * t / 4)) + 0.1 * rng.normal(size=len(t))
    first = 28 * 6
    y[first:] = 10.0 + 5.0 * np.sin(2 * np.pi * t[first:] / 4)  # from now on all days are alike
    fitted = pesn.SeriesForecaster(horizon=4, season=(4, 28)).fit(y)
    assert fitted.backtest(origins=[first, first + 20]).baselines["seasonal-naive"].seasons == (28,)


def test_a_season_that_was_not_found_is_a_baseline_too():
    months = pd.date_range("2015-01-01", periods=90, freq="MS")
    walk = pd.Series(np.random.default_rng(2).normal(size=90).cumsum(), index=months)
    fitted = pesn.SeriesForecaster().fit(walk)
    assert fitted.fitted_.seasons == ()
    assert fitted.backtest(origins=2).baselines["seasonal-naive"].seasons == (12,)
    assert set(pesn.SeriesForecaster(season=None).fit(walk).backtest(origins=2).baselines) == {"persistence"}


def backtest_of(crps, **baselines):
    """A backtest with these scores."""

    def scored(values, **other):
        one = SeriesBacktest(np.array([9]), None, np.zeros((1, 1, len(values))), tuple("abcdef"[: len(values)]), **other)
        object.__setattr__(one, "crps", lambda: np.array(values, float))
        object.__setattr__(one, "mae", lambda: np.array(values, float))
        object.__setattr__(one, "coverage", lambda level: level)
        return one

    return scored(crps, baselines={name: scored(values) for name, values in baselines.items()})


def told(demand, back):
    names = list(back.names)
    table = SimpleNamespace(**{**vars(demand.table), "targets": names, "describe": demand.table.describe})
    fitted = SimpleNamespace(models=demand.fitted.models * len(names), seasons=demand.fitted.seasons)
    common = {"request": demand.request, "forecast": demand.forecast, "levels": [0.8], "notes": []}
    shown = SimpleNamespace(**common, table=table, fitted=fitted, backtest=back)
    return [line.strip() for line in lines(shown) if "better" in line]


@pytest.mark.parametrize(("ours", "theirs", "says"), [
    ([2.0], [0.0], ["persistence was better here: its forecasts were exact"]),
    ([2.0], [1.5], ["persistence was better here: its CRPS is 25 % lower"]),
    ([2.0], [1.999], ["persistence was better here: its CRPS is less than 1 % lower"]),
    ([2.0], [2.5], []),
    ([2.0, 1.0, np.nan], [0.0, 5.0, np.nan], ["persistence was better for 1 of 3: a"]),
])  # fmt: skip
def test_a_baseline_that_is_exact_is_not_a_hundred_percent_better(demand, ours, theirs, says):
    assert told(demand, backtest_of(ours, persistence=theirs)) == says


def test_counts_have_their_unit(demand):
    said = "\n".join(lines(demand))
    assert "minutess" not in said
    assert "seasons of 48 and 336 steps of 30 minutes" in said
    [one] = sections(demand.fitted, demand.forecast, (0.8,))
    assert one.season == "season of 48 steps of 30 minutes and 336 steps of 30 minutes"


def test_notes_say_why_components_have_their_weight():
    """Weights are drawn to a prior: where errors are a little higher with a component, it may keep half of the weight."""
    walk = 100.0 + np.random.default_rng(3).normal(size=150).cumsum()
    model = univariate.fit(walk, horizon=12)
    [note] = [one for one in model.notes if one.startswith("AR and reservoir")]
    weight = round(100.0 * (model.shares["AR"] + model.shares["reservoir"]))
    assert note.startswith(f"AR and reservoir: {weight} % beside the smoothers, a priori 60 %; rolling-origin error ")
    assert note.endswith("% higher than without")
    assert weight > 30
    short = univariate.fit(np.sin(np.arange(60.0)), horizon=4)  # below 100 rows
    assert any(one.startswith("AR: ") for one in short.notes)


def test_components_have_their_own_error():
    wave = np.sin(np.arange(150.0)) + 0.05 * np.random.default_rng(4).normal(size=150)
    model = univariate.fit(wave, horizon=6)
    errors = {member.kind: member.score for member in model.members}
    assert min(member.score for member in model.members) == 1.0
    assert errors["reservoir"] != errors["AR"]
    best = min(member.score for member in model.members if member.kind not in ("AR", "reservoir"))
    assert best > 2.0 * min(errors["AR"], errors["reservoir"])  # no smoother follows a wave of six rows


def test_inputs_that_never_change_early_are_not_called_too_few():
    rng = np.random.default_rng(5)
    u = np.where(np.arange(80) < 60, 0.0, rng.normal(size=80))
    model = univariate.fit(rng.normal(size=80), u[:, None], horizon=3)
    assert "covariates: not used, no effect was found in the first 40 rows" in model.notes


def test_what_is_said_of_panels(tmp_path):
    rng, times = np.random.default_rng(6), pd.date_range("2024-01-01", periods=60, freq="30min")
    parts = [pd.DataFrame({"unique_id": name, "ds": times[:n], "y": rng.normal(size=n)}) for name, n in (("a", 60), ("b", 21))]
    gap = pd.DataFrame({"unique_id": "b", "ds": times[21:24], "y": np.nan})
    none = pd.DataFrame({"unique_id": "c", "ds": times[:5], "y": np.nan})
    pd.concat([*parts, gap, none]).to_csv(tmp_path / "a.csv", index=False)
    outcome = panel_job.run(Request(tmp_path / "a.csv", id_col="unique_id", horizon=10, backtest=3))
    said = panel_job.sentences(outcome)
    assert said["data"] == "3 series, 81 numbers, 30 minutes apart"
    assert said["forecast"] == "10 steps of 30 minutes ahead"
    assert said["backtest"].startswith("2 to 3 forecasts of each of 2 series, each by a model of the rows before it: ")
    [note] = panel_job.record(outcome, "", 0.0)["notes"]
    assert note == "3 rows of 1 series after its last number left out: forecasts begin there"
    [_, shown, _] = records(outcome.table.frame, outcome.forecast, None, outcome.failures, "80")
    assert shown.spark.split("!")[0][-1] != " "  # the picture has no gap between the last number and the forecast
