"""A run over many series gives the same numbers in one process, in several, and on a cluster."""

import os
import signal
import threading

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config

import pesn
from pesn.series.panel import long_frame as panel_work
from pesn.series.panel.frame import build_panel
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
    panel = build_panel(frame, Columns())
    parts = panel_work.chunks(panel)
    assert [i for part in parts for i in part] == list(range(24))
    assert len(parts) == 3
    long = pd.DataFrame({"unique_id": np.repeat([*"abc"], 6000), "ds": np.tile(np.arange(6000), 3), "y": 1.0})
    assert [len(part) for part in panel_work.chunks(build_panel(long, Columns()))] == [1, 1, 1]


def test_processes_change_nothing(frame, forecasts, capsys):
    model = pesn.SeriesForecaster(n_jobs=2, verbose=True).fit(frame)
    pd.testing.assert_frame_equal(model.forecast(5), forecasts, check_exact=True)
    assert "forecasting: 24 series" in capsys.readouterr().err


def test_a_dask_worker_that_is_killed_loses_nothing(frame, forecasts):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=60) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        parallel_config("dask", client=client),
    ):
        pids = [*client.run(os.getpid).values()]
        killer = threading.Timer(0.3, os.kill, (pids[0], signal.SIGKILL))
        killer.start()
        found = pesn.SeriesForecaster(n_jobs=-1).fit(frame).forecast(5)
        killer.join()
    pd.testing.assert_frame_equal(found, forecasts, check_exact=True)


def test_an_interrupted_run_continues_from_its_checkpoint(frame, forecasts, tmp_path, monkeypatch):
    work, done = panel_work.forecast_chunk, []

    def forecast_until_killed(part, task):
        done.append(part[0].series)
        if len(done) == 2:
            raise KeyboardInterrupt
        return work(part, task)

    monkeypatch.setattr(panel_work, "forecast_chunk", forecast_until_killed)
    model = pesn.SeriesForecaster(checkpoint=tmp_path).fit(frame)
    with pytest.raises(KeyboardInterrupt):
        model.forecast(5)
    for _ in range(2):
        pd.testing.assert_frame_equal(model.forecast(5), forecasts, check_exact=True)
        assert done == [0, 10, 10, 20]  # the first of three chunks was stored, then all of them
    assert "statistical" in model.summary()
    pesn.SeriesForecaster(checkpoint=tmp_path, season=7).fit(frame).forecast(5)
    assert done[4:] == [0, 10, 20]  # other settings use other files
    changed = frame.assign(y=frame["y"].where(frame.index != 0, 7.0))
    found = pesn.SeriesForecaster(checkpoint=tmp_path).fit(changed).forecast(5)
    assert done[7:] == [0]  # one number differs: one chunk is forecast again
    pd.testing.assert_frame_equal(found, pesn.SeriesForecaster().fit(changed).forecast(5), check_exact=True)


def test_damaged_checkpoints_are_computed_again_and_failures_are_kept(frame, forecasts, tmp_path):
    model = pesn.SeriesForecaster(checkpoint=str(tmp_path)).fit(frame)
    model.forecast(5)
    for file, text in zip(sorted(tmp_path.glob("*.json")), ("[[[30], [1.0], [], {}, '']", "[1]", ""), strict=True):
        file.write_text(text)
    pd.testing.assert_frame_equal(model.forecast(5), forecasts, check_exact=True)
    short = pd.concat([frame, frame.iloc[:3].assign(unique_id="short")])
    for _ in range(2):
        with pytest.warns(UserWarning, match="the first is 'short': it has 3 rows: too few"):
            model.fit(short).cross_validation(4)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="checkpoint must be a folder, got the file"):
        pesn.SeriesForecaster(checkpoint=tmp_path / "file").fit(frame).forecast(5)


def test_an_error_in_a_fit_is_a_failure_of_its_series(frame, monkeypatch):
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
