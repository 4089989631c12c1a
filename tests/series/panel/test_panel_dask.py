"""A Dask frame has the forecasts of the pandas frame, whichever partitions its rows are in and whichever workers die."""

import os
import signal
import time

import numpy as np
import pandas as pd
import pytest

import pesn

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(4)
    weeks = pd.date_range("2023-01-01", periods=20, freq="W")
    names = np.repeat([f"s{i:02d}" for i in range(24)], len(weeks))
    frame = pd.DataFrame({"unique_id": names, "ds": np.tile(weeks, 24), "y": 100.0 + rng.normal(size=len(names)).cumsum()})
    return frame.sample(frac=1.0, random_state=0, ignore_index=True)


@pytest.fixture(scope="module")
def forecasts(frame):
    return pesn.SeriesForecaster().fit(frame).forecast(4)


def same(found, expected):
    found = found.sort_values(["unique_id", *(["cutoff"] if "cutoff" in found else []), "ds"], ignore_index=True)
    found["unique_id"] = found["unique_id"].astype(expected["unique_id"].dtype)
    pd.testing.assert_frame_equal(found, expected, check_exact=True)


def test_lazily_and_the_same(frame, forecasts):
    model = pesn.SeriesForecaster().fit(dd.from_pandas(frame, npartitions=5))
    lazy = model.forecast(4)
    assert isinstance(lazy, dd.DataFrame)
    assert lazy.columns.tolist() == forecasts.columns.tolist()
    found, failures = dask.compute(lazy, model.failures_, scheduler="sync")
    same(found, forecasts)
    assert len(failures) == 0
    judged = model.cross_validation(4, n_windows=2, level=80).compute(scheduler="sync")
    same(judged, pesn.SeriesForecaster().fit(frame).cross_validation(4, n_windows=2, level=80))
    with pytest.raises(TypeError, match="summary is not for Dask frames"):
        model.summary()


def test_failures_inputs_and_other_times(frame):
    rows = frame.assign(ds=frame["ds"].rank(method="dense").astype("int64"), price=1.0)
    rows["price"] = np.random.default_rng(0).normal(size=len(rows))
    rows["y"] = rows["y"].where(rows["unique_id"] != "s03")
    later = pd.DataFrame({"unique_id": np.repeat(rows["unique_id"].unique(), 2), "ds": [21, 22] * 24, "price": 0.0})
    with pytest.warns(UserWarning, match="s03"):
        expected = pesn.SeriesForecaster().fit(rows).forecast(2, X=later)
    model = pesn.SeriesForecaster().fit(dd.from_pandas(rows, npartitions=3))
    for ahead in (later, dd.from_pandas(later, npartitions=2)):
        found, failures = dask.compute(model.forecast(2, X=ahead), model.failures_, scheduler="sync")
        same(found, expected)
        assert failures.to_numpy().tolist() == [["s03", "it has no number among its 20 rows"]]


def test_mistakes_are_said_at_once_or_when_they_are_found(frame):
    model = pesn.SeriesForecaster().fit(dd.from_pandas(frame, npartitions=2))
    with pytest.raises(ValueError, match="horizon must be 1 or more, got 0"):
        model.forecast(0)
    with pytest.raises(ValueError, match="level must lie between"):
        model.forecast(2, level=[100])
    with pytest.raises(ValueError, match="got none named 'ds'"):
        model.fit(dd.from_pandas(frame.drop(columns="ds"), npartitions=2))
    odd = frame.assign(ds=pd.Timestamp("2024-01-01"))
    with pytest.raises(ValueError, match=r"column 'ds' must keep one step, .* say freq"):
        pesn.SeriesForecaster().fit(dd.from_pandas(odd, npartitions=2)).forecast(2).compute(scheduler="sync")


def test_a_worker_that_is_killed_loses_nothing(frame, forecasts):
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=60) as cluster,
        distributed.Client(cluster) as client,
    ):
        model = pesn.SeriesForecaster().fit(dd.from_pandas(frame, npartitions=6))
        future = client.compute(model.forecast(4))
        pids = client.run(os.getpid)
        time.sleep(0.3)
        os.kill(next(iter(pids.values())), signal.SIGKILL)
        same(future.result(timeout=60), forecasts)
