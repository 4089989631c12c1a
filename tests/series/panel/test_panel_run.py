"""A run over many series gives the same numbers in one process or several, and after it was killed."""

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.series.panel import work as panel_work
from pesn.series.panel.frame import panel_of
from pesn.series.table.reading import Columns


@pytest.fixture(autouse=True)
def few_series_a_chunk(monkeypatch):
    monkeypatch.setattr(panel_work, "_SERIES", 10)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(2)
    days = pd.date_range("2024-01-01", periods=30, freq="D")
    names = np.repeat([f"series {i:03d}" for i in range(24)], len(days))
    return pd.DataFrame({"unique_id": names, "ds": np.tile(days, 24), "y": 100.0 + rng.normal(size=len(names)).cumsum()})


@pytest.fixture(scope="module")
def forecasts(frame):
    return pesn.SeriesForecaster().fit(frame).forecast(5)


def test_chunks_are_all_series(frame):
    panel = panel_of(frame, Columns())
    parts = panel_work.chunks(panel)
    assert [i for part in parts for i in part] == list(range(24))
    assert len(parts) == 3
    long = pd.DataFrame({"unique_id": np.repeat([*"abc"], 6000), "ds": np.tile(np.arange(6000), 3), "y": 1.0})
    assert [len(part) for part in panel_work.chunks(panel_of(long, Columns()))] == [1, 1, 1]


def test_processes_change_nothing(frame, forecasts, capsys):
    model = pesn.SeriesForecaster(n_jobs=2, verbose=True).fit(frame)
    pd.testing.assert_frame_equal(model.forecast(5), forecasts, check_exact=True)
    assert "forecasting: 24 series" in capsys.readouterr().err


def test_a_run_goes_on_where_it_was_killed(frame, forecasts, tmp_path, monkeypatch):
    work, done = panel_work.work, []

    def killed(part, task):
        done.append(part.series)
        if len(done) == 2:
            raise KeyboardInterrupt
        return work(part, task)

    monkeypatch.setattr(panel_work, "work", killed)
    model = pesn.SeriesForecaster(checkpoint=tmp_path / "kept").fit(frame)
    with pytest.raises(KeyboardInterrupt):
        model.forecast(5)
    pd.testing.assert_frame_equal(model.forecast(5), forecasts, check_exact=True)
    assert len(done) == 4  # the first of three chunks was kept
    pd.testing.assert_frame_equal(model.forecast(5), forecasts, check_exact=True)
    assert len(done) == 4
    assert "statistical" in model.summary()

    for other in ({"season": 7}, {"horizon": 3}, {"level": 0.5}):  # other settings are other files
        before = len(done)
        pesn.SeriesForecaster(checkpoint=tmp_path / "kept", **other).fit(frame).forecast(5)
        assert len(done) == before + 3
    before = len(done)
    changed = frame.assign(y=frame["y"].where(frame.index != 0, 7.0))  # one number: one chunk is done anew
    found = pesn.SeriesForecaster(checkpoint=tmp_path / "kept").fit(changed).forecast(5)
    assert len(done) == before + 1
    pd.testing.assert_frame_equal(found, pesn.SeriesForecaster().fit(changed).forecast(5), check_exact=True)


def test_damaged_and_failed_chunks(frame, forecasts, tmp_path):
    model = pesn.SeriesForecaster(checkpoint=tmp_path).fit(frame)
    model.forecast(5)
    files = sorted(tmp_path.glob("*.npz"))
    files[0].write_bytes(files[0].read_bytes()[:100])
    pd.testing.assert_frame_equal(model.forecast(5), forecasts, check_exact=True)
    short = pd.concat([frame, frame[frame["unique_id"] == "series 000"].iloc[:3].assign(unique_id="short")])
    model.fit(short)
    for _ in range(2):  # from the files as by the work
        with pytest.warns(UserWarning, match="the first is 'short': it has 3 rows: too few"):
            model.cross_validation(4)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="checkpoint must be a folder"):
        pesn.SeriesForecaster(checkpoint=tmp_path / "file").fit(frame).forecast(5)


def test_what_goes_wrong_inside_is_a_failure(frame, monkeypatch):
    fit = panel_work.fit_columns

    def odd(y, *arguments, **more):
        if y[0, 0] == first:
            raise np.linalg.LinAlgError("did not converge")
        return fit(y, *arguments, **more)

    first = frame["y"].iloc[30]
    monkeypatch.setattr(panel_work, "fit_columns", odd)
    model = pesn.SeriesForecaster().fit(frame)
    with pytest.warns(UserWarning, match="1 of 24 series failed"):
        found = model.forecast(2)
    assert found["unique_id"].nunique() == 23
    assert model.failures_.to_numpy().tolist() == [["series 001", "did not converge"]]  # it is a ValueError, in words
