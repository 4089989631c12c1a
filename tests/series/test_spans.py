"""Claim: each column is fitted over its own rows; wide tables, Python frames and panels give the same forecasts."""

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.series import univariate
from pesn.series.job import Request, lines, run
from pesn.series.page.page import sections
from pesn.series.panel import panel_job
from pesn.series.panel.parquet import forecast_parquet
from pesn.series.table.reading import read

MONTHS = pd.date_range("2010-01-01", periods=80, freq="MS", name="month")


@pytest.fixture(scope="module")
def table():
    """Columns that have all rows, begin 30 months late, and end 3 months early."""
    rng, t = np.random.default_rng(0), np.arange(80.0)
    trend = 50.0 + t + 9.0 * np.sin(2 * np.pi * t / 12)
    frame = pd.DataFrame({name: trend + rng.normal(size=80) for name in ("whole", "late", "early")}, index=MONTHS)
    frame.iloc[:30, 1] = np.nan
    frame.iloc[-3:, 2] = np.nan
    frame.iloc[20, 0] = np.nan  # a gap inside
    return frame


@pytest.fixture(scope="module")
def file(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("spans") / "table.csv"
    table.to_csv(path)
    return path


@pytest.fixture(scope="module")
def outcome(file):
    return run(Request(file, backtest=6))


def by_date(forecast):
    return pd.DataFrame(forecast.median, index=forecast.index, columns=list(forecast.names))


def long(table):
    return table.reset_index(names="ds").melt("ds", var_name="unique_id", value_name="y")


def test_no_column_shortens_another(table, file, outcome):
    assert len(outcome.table.frame) == 80
    for name in ("whole", "late"):
        alone = run(Request(file, targets=[name], backtest=0))
        np.testing.assert_allclose(by_date(outcome.forecast)[name], alone.forecast.median[:, 0], rtol=1e-9)
    assert [len(model.y) for model in outcome.fitted.models] == [80, 50, 77]
    np.testing.assert_array_equal(outcome.fitted.y, table)
    assert outcome.notes == [
        "1 missing number left as a gap",
        "'late' starts at 2012-07, 30 months after the table",
        "'early' ends at 2016-05, 3 months before the table: it is forecast from there, and the first 3 of its steps are not "
        "shown",
    ]
    assert not outcome.table.warnings


def test_a_column_that_ends_early_is_forecast_from_its_end(table, outcome):
    model = univariate.fit(table["early"][:77].to_numpy(), horizon=12, seasons=(12,))
    ahead = model.forecast(15)
    np.testing.assert_allclose(outcome.forecast.margins[2].median, ahead.median[3:], rtol=1e-9)
    np.testing.assert_allclose(outcome.forecast.margins[2].std, ahead.std[3:], rtol=1e-9)
    assert by_date(outcome.forecast).index[0] == pd.Timestamp("2016-09-01")


@pytest.mark.parametrize("drop", [False, True])
def test_wide_and_long_forms_agree(table, outcome, tmp_path, drop):
    wide = by_date(outcome.forecast)
    python = by_date(pesn.SeriesForecaster().fit(table).forecast())
    pd.testing.assert_frame_equal(python, wide, check_freq=False, check_names=False, rtol=1e-9)
    frame = long(table).dropna() if drop else long(table)
    frame.to_csv(tmp_path / "long.csv", index=False)
    panel = panel_job.run(Request(tmp_path / "long.csv", id_col="unique_id"))
    assert panel.horizon == len(wide)
    assert bool(panel.table.notes) != drop  # rows after the last number are reported
    both = panel.forecast.pivot(index="ds", columns="unique_id", values="pesn")
    dates = both.index.intersection(wide.index)
    assert len(dates) == 12
    shared = both.loc[dates, wide.columns]
    assert shared["early"].notna().sum() == 9  # of 12 from its own end on
    np.testing.assert_allclose(shared, wide.loc[dates].where(shared.notna()), rtol=1e-9)


@pytest.mark.parametrize("rows", [20, 30, 80])
def test_one_default_horizon(table, rows, tmp_path):
    frame = table[["whole", "late"]][-rows:]
    frame.to_csv(tmp_path / "wide.csv")
    long(frame).to_parquet(tmp_path / "long.parquet")
    expected = run(Request(tmp_path / "wide.csv", backtest=0)).forecast.horizon
    assert expected == {20: 2, 30: 7, 80: 12}[rows]
    assert pesn.SeriesForecaster().fit(frame).forecast().horizon == expected
    assert len(pesn.SeriesForecaster().fit(long(frame)).forecast()) == 2 * expected
    forecast_parquet(tmp_path / "long.parquet", tmp_path / "out", bucket_rows=10)
    parts = [pd.read_parquet(path) for path in sorted((tmp_path / "out").glob("part-*.parquet"))]
    assert sum(map(len, parts)) == 2 * expected


def test_seasons_are_searched_in_each_column():
    rng, t = np.random.default_rng(1), np.arange(300.0)
    frame = pd.DataFrame({"wave": np.sin(2 * np.pi * t / 17) + 0.1 * rng.normal(size=300), "walk": rng.normal(size=300).cumsum()})
    fitted = pesn.SeriesForecaster().fit(frame).fitted_
    assert [model.seasons for model in fitted.models] == [(17,), ()]
    for name, model in zip(frame, fitted.models, strict=True):
        alone = pesn.SeriesForecaster().fit(frame[name]).fitted_.models[0]
        np.testing.assert_allclose(model.forecast(10).median, alone.forecast(10).median, rtol=1e-9)
    panel = long(frame.rename_axis("ds")).astype({"ds": np.int64})
    found = pesn.SeriesForecaster().fit(panel).forecast()
    assert len(found) == 2 * fitted.horizon
    walk = found["pesn"][found["unique_id"] == "walk"]
    np.testing.assert_allclose(walk, fitted.forecast(fitted.horizon).median[:, 1], rtol=1e-9)


# ---------------------------------------------------------------- rows after the last number


def test_rows_after_the_last_number_are_left_out(table):
    whole, X = table["whole"], pd.DataFrame({"x": np.arange(80.0) % 5}, index=MONTHS)
    cut = whole.where(MONTHS < "2016-01-01")  # 8 rows
    with pytest.warns(UserWarning, match="the last 8 rows of y have no number: the forecast begins after 2015-12$"):
        fitted = pesn.SeriesForecaster().fit(cut)
    before = pesn.SeriesForecaster().fit(whole[:72])
    pd.testing.assert_frame_equal(by_date(fitted.forecast(5)), by_date(before.forecast(5)))
    assert fitted.score(whole[72:]) == before.score(whole[72:])
    with pytest.warns(UserWarning, match="8 rows of 1 series after its last number left out"):
        panel = pesn.SeriesForecaster().fit(long(cut.to_frame()))
    np.testing.assert_array_equal(panel.forecast(5)["pesn"], before.forecast(5).median[:, 0])
    with pytest.warns(UserWarning, match="begins after 2015-12, with their X as known ahead"):
        driven = pesn.SeriesForecaster().fit(cut, X)
    assert len(driven.forecast()) == 8  # as many as inputs are known of
    np.testing.assert_array_equal(driven.forecast(8).median, driven.forecast(8, X[72:]).median)


def test_rows_that_go_by_position_follow_those_of_fit(table):
    whole = table["whole"].to_numpy()
    with pytest.warns(UserWarning, match="begins after row 70"):
        fitted = pesn.SeriesForecaster(horizon=4).fit(np.append(whole[:70], [np.nan, np.nan]))
    came = np.append([np.nan, np.nan], whole[72:76])
    assert fitted.score(whole[72:76]) == pesn.SeriesForecaster(horizon=4).fit(whole[:70]).score(came)


def test_inputs_of_later_rows_of_a_panel_are_known_ahead():
    rng, t = np.random.default_rng(2), np.arange(60.0)
    u = rng.normal(size=64)
    y = np.append(20.0 + 5.0 * u[:60] + 0.1 * rng.normal(size=60), [np.nan] * 4)
    frame = pd.DataFrame({"unique_id": "a", "ds": pd.date_range("2024-01-01", periods=64), "y": y, "u": u})
    with pytest.warns(UserWarning, match="forecasts begin there, with their inputs as known ahead"):
        found = pesn.SeriesForecaster().fit(frame).forecast()
    assert len(found) == 4 == len(t[-4:])
    given = pesn.SeriesForecaster(horizon=4).fit(frame[:60]).forecast(4, frame[60:].drop(columns="y"))
    np.testing.assert_array_equal(found["pesn"], given["pesn"])
    assert np.abs(found["pesn"] - (20.0 + 5.0 * u[60:])).max() < 2.0


def test_future_rows_of_a_file_know_inputs(tmp_path):
    rows = [f"2024-01-{day:02d},{'' if day > 28 else day % 7},{day % 3},{day % 4}" for day in range(1, 32)]
    (tmp_path / "a.csv").write_text("day,y,z,u\n" + "\n".join([*rows[:27], rows[27].replace(",0,", ",,"), *rows[28:]]))
    found = read(tmp_path / "a.csv", targets=["y"], inputs=["u"])
    assert found.future["u"].tolist() == [28 % 4, 29 % 4, 30 % 4, 31 % 4]
    assert found.warnings == [
        "the last 4 rows of the file have no number of 'y': the forecast begins after 2024-01-27, with their inputs as known "
        "ahead"
    ]
    several = read(tmp_path / "a.csv", targets=["y", "z"], inputs=["u"])
    assert len(several.frame) == 31
    assert several.future is None


# ---------------------------------------------------------------- empty rows


def test_empty_rows_without_a_time_are_gaps(tmp_path):
    values = [str(k % 4 + 1) for k in range(12)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["x", *values[:5], "", "", *values[5:], "", ""]))
    found = read(path)
    np.testing.assert_array_equal(found.y.ravel(), [*map(float, values[:5]), np.nan, np.nan, *map(float, values[5:])])
    assert found.notes == ["2 missing rows left as gaps"]
    path.write_text("\n\n".join(["x", *values]))  # double spacing, as some programs write lines
    assert read(path).y.ravel().tolist() == [*map(float, values)]
    assert read(path).notes == ["blank lines, one after every row, left out"]
    path.write_text("day,x\n2024-01-01,1\n\n2024-01-02,2\n,\n2024-01-03,4\n")  # dates say where rows are
    assert read(path).y.ravel().tolist() == [1.0, 2.0, 4.0]


# ---------------------------------------------------------------- backtests, files, pages


def test_backtests_score_what_was_forecast_and_observed(table):
    rows = table["whole"]
    frame = table[["whole"]].assign(new=rows.where(MONTHS >= "2015-11-01"), old=rows.where(MONTHS < "2012-01-01"))
    fitted = pesn.SeriesForecaster(horizon=3).fit(frame)
    back = fitted.backtest(origins=[60, 69, 71, 75])
    whole, new, old = back.median[:, 0].T
    assert np.isfinite(whole).all()
    assert np.isnan(new).tolist() == [True, True, False, False]
    assert np.isfinite(old).all()
    for name, one in back.methods.items():
        assert np.isfinite(one.crps()[: 1 if name == "seasonal-naive" else 2]).all()  # no season before the first origin
        assert np.isnan([one.crps()[2], one.mae()[2]]).all()  # nothing of it was observed
    assert np.isnan(back.coverage_by_column(0.8)[2])
    wide = pesn.SeriesForecaster(horizon=3).fit(frame[["new"]]).backtest(origins=[71, 75])
    assert wide.coverage(0.8) == back.coverage_by_column(0.8)[1]
    shown = sections(fitted.fitted_, fitted.forecast(3), (0.8,), judged=back)
    assert [one.judged for one in shown] == [
        "Shown: 4",
        "Shown: 2 of 4 that can be scored",
        "No past forecast of this column can be scored: none has a number both before and after its origin",
    ]
    for one in shown:
        for text in (one.picture, one.components, one.backtest, one.spark):
            assert "nan" not in text
    assert (shown[1].backtest.count("<svg"), [row[1].text for row in shown[2].scores.rows]) == (2, ["–"] * 3)


def test_a_past_forecast_of_a_column_is_that_of_its_rows_before(table, outcome):
    back = outcome.backtest
    place = int(back.origins[-1])
    then = univariate.fit(table["late"][30:place].to_numpy(), horizon=12, seasons=(12,))
    np.testing.assert_allclose(back.forecasts[-1, :, 1].median, then.forecast(back.horizon).median, rtol=1e-9)
    np.testing.assert_array_equal(back.observed[-1], table[place : place + back.horizon])


def test_spans_are_saved(table, save_and_load):
    fitted = pesn.SeriesForecaster().fit(table)
    again = save_and_load(fitted)
    pd.testing.assert_frame_equal(again.forecast().to_frame(), fitted.forecast().to_frame())
    assert again.summary() == fitted.summary()
    assert "'late' starts at 2012-07, 30 months after the table" in fitted.summary()
    np.testing.assert_array_equal(again.backtest(origins=2).median, fitted.backtest(origins=2).median)
    later = fitted.fitted_.with_rows(table.to_numpy()[40:], time=fitted.fitted_.time.shift(40), first=40)
    assert [model.start for model in later.models] == [0, 0, 0]
    assert abs(later.forecast(12).median / fitted.forecast(12).median - 1.0).max() < 0.02  # the season's phase is kept


def test_jobs_forecast_by_a_saved_model(file, outcome, tmp_path):
    outcome.save(tmp_path / "a.pesn")
    again = run(Request(file, model=tmp_path / "a.pesn"))
    pd.testing.assert_frame_equal(again.forecast.to_frame(), outcome.forecast.to_frame())
    assert again.forecast.to_frame()["early"].notna().all()
    assert any("'late' starts at 2012-07" in line for line in lines(again))
    assert outcome.backtest.baselines["seasonal-naive"].seasons == (12, 12, 12)


def test_rows_that_are_counted_keep_the_phase_of_their_seasons(tmp_path):
    values = 10.0 + 5.0 * np.sin(2 * np.pi * np.arange(70) / 7) + 0.01 * np.arange(70)
    pd.DataFrame({"x": values}).to_csv(tmp_path / "all.csv", index=False)
    run(Request(tmp_path / "all.csv", backtest=0, season=(7,))).save(tmp_path / "a.pesn")
    (tmp_path / "later.csv").write_text("\n".join(["x,y", *[",1"] * 3, *(f"{value},2" for value in values[3:])]))
    found = run(Request(tmp_path / "later.csv", model=tmp_path / "a.pesn"))
    np.testing.assert_allclose(found.forecast.median[:7, 0], values[-7:], atol=0.5)


def test_summaries_of_columns_without_scores(table, tmp_path):
    table[["whole"]].assign(old=table["whole"].where(MONTHS < "2012-01-01")).to_csv(tmp_path / "a.csv")
    told = lines(run(Request(tmp_path / "a.csv", backtest=3, horizon=4)))
    assert any(line.split()[:2] == ["old", "–"] for line in told)
    assert not any("nan" in line.replace("naive", "") for line in told)
