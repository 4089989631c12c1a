"""Streamed runs give the same forecaster as stacked ones, from any source; runs that do not fit are refused by number."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.evaluation.calibration import ErrorSums, fit_error_model
from pesn.forecasting import runs as segments_module
from pesn.forecasting.dataset import compute_statistics
from pesn.forecasting.runs import MOST_SAMPLED, ArrayRuns, ParquetRuns, choose_sample, survey

NAN = np.nan


def rows_of(n, seed):
    """Simulate a driven oscillator with a cubic spring: y (n, 2), X (n, 1)."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 1)), np.empty((n, 2))
    at, speed = rng.normal(size=2)
    for k in range(n):
        y[k] = at, speed
        speed += 0.1 * (-at - 0.3 * at**3 - 0.1 * speed + X[k, 0])
        at += 0.1 * speed
    return y, X


SIZES = (150, 90, 260, 120, 180)
RUNS = [rows_of(n, seed) for seed, n in enumerate(SIZES)]
STACKED = tuple(np.vstack(part) for part in zip(*RUNS, strict=True))


def esn(**given):
    return pesn.ProbabilisticESN(20, random_state=0, **{"ridge": 1e-6, "washout": 20, "process_noise": 0.0, **given})


def assert_same(found, expected, rtol=1e-9):
    one, other = (each.forecast(8, X=RUNS[0][1][:8] if each.n_known_ else None) for each in (found, expected))
    np.testing.assert_allclose(one.mean, other.mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(one.std, other.std, rtol=rtol)
    np.testing.assert_allclose(found.calibration_, expected.calibration_, rtol=rtol)
    cov = expected.errors_.cov
    np.testing.assert_allclose(found.errors_.cov, cov, rtol=rtol, atol=1e-12 * np.abs(cov).max())
    b = np.random.default_rng(0).normal(size=(5, expected.esn_.readout_.weights.shape[1]))
    np.testing.assert_allclose(b @ found.esn_.readout_.weights.T, b @ expected.esn_.readout_.weights.T, rtol=1e-9, atol=1e-9)


def both(given, runs, y, X=None, lengths=SIZES, **parameters):
    """Fit to runs and to the same runs stacked."""
    return pesn.Forecaster(given, **parameters).fit(runs), pesn.Forecaster(given, **parameters).fit(y, X, list(lengths))


# ---------------------------------------------------------------- the same numbers


@pytest.mark.parametrize("ridge", [1e-6, 1e-12, "auto"])
def test_streamed_runs_agree_with_stacked_rows(ridge):
    assert_same(*both(esn(ridge=ridge, washout="auto"), [y for y, _ in RUNS], STACKED[0], calibrate=ridge == 1e-6))


@pytest.fixture(scope="module")
def automatic():
    return pesn.Forecaster().fit(STACKED[0], lengths=list(SIZES))


def test_streamed_automatic_design_agrees(automatic):
    found = pesn.Forecaster().fit(y for y, _ in RUNS)
    assert found.design_.candidate == automatic.design_.candidate
    assert_same(found, automatic)


def test_streamed_missing_values_noise_and_names_agree():
    rng = np.random.default_rng(1)
    noisy = STACKED[0] + 0.2 * rng.normal(size=STACKED[0].shape)
    noisy[rng.random(len(noisy)) < 0.01, 0] = NAN
    parts = np.split(noisy, np.cumsum(SIZES)[:-1])
    assert_same(*both(esn(), parts, noisy, measurement_noise="auto"))
    # streamed columns are matched by name
    frames = [pd.DataFrame(y, columns=["at", "speed"]) for y, _ in RUNS]
    frames[2] = frames[2][["speed", "at"]]
    assert_same(*both(esn(), frames, STACKED[0], calibrate=False))


def test_streamed_angles_and_kinematics_agree():
    y, X = STACKED
    wrapped = np.column_stack([np.mod(2.0 * y[:, 0] + np.pi, 2 * np.pi) - np.pi, y[:, 1]])
    runs = [(part, u) for part, (_, u) in zip(np.split(wrapped, np.cumsum(SIZES)[:-1]), RUNS, strict=True)]
    given = {"angles": [0], "learn": [1], "kinematics": ([[1.0, 0.0]], [[0.2]], [0.0]), "calibrate": False}
    assert_same(*both(esn(), runs, wrapped, X, **given))


def test_streamed_input_noise_agrees(automatic):
    chosen = automatic.design_
    noisy = replace(chosen, candidate=replace(chosen.candidate, input_noise=0.01, n_units=20))
    assert_same(*both("auto", [y for y, _ in RUNS], STACKED[0], design=noisy))


def test_sample_of_many_rows_is_the_same(monkeypatch):
    """If the sample is a part of all rows, it is the same part for both."""
    monkeypatch.setattr(segments_module, "MOST_SAMPLED", 400)
    monkeypatch.setattr(segments_module, "_PIECE", 100)
    assert_same(*both(esn(process_noise="auto"), iter(RUNS), *STACKED))


def test_streamed_labels_agree():
    """Missing days are missing values."""
    days = pd.date_range("2024-01-01", periods=sum(SIZES) + 100)
    frames, places, first = [], [], 0
    for (y, _), n in zip(RUNS, SIZES, strict=True):
        kept = np.delete(np.arange(n), [40])
        frames.append(pd.DataFrame(y[kept], columns=["at", "speed"], index=days[first : first + n][kept]))
        first += n + 3
        places.append(len(kept))
    found, expected = both(esn(), frames, pd.concat(frames), lengths=places, calibrate=False)
    assert_same(found, expected)
    assert found.forecast(3).index.equals(expected.forecast(3).index)
    assert found.names_ == ["at", "speed"]


# ---------------------------------------------------------------- sources


class Again:
    """Runs that are fewer from a pass on."""

    def __init__(self, passes):
        self.passes = passes

    def __iter__(self):
        self.passes -= 1
        return iter(RUNS if self.passes > 0 else RUNS[:3])


@pytest.fixture(scope="module")
def expected():
    return pesn.Forecaster(esn()).fit(*STACKED, list(SIZES))


def test_any_iterable_of_runs_is_accepted(expected):
    assert_same(pesn.Forecaster(esn()).fit(Again(100)), expected)


def test_parquet_runs_agree_with_stacked_rows(tmp_path, expected):
    """Runs continue across files and row groups; an empty cell is a missing value."""
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(np.hstack(STACKED), columns=["at", "speed", "push"]).assign(run=np.repeat(list("abcde"), SIZES))
    for k, part in enumerate(np.array_split(np.arange(len(frame)), 12)):
        frame.iloc[part].to_parquet(tmp_path / f"part.{k}.parquet", row_group_size=17)
    runs = ParquetRuns(tmp_path, run="run", y=["at", "speed"], X="push")
    found = pesn.Forecaster(esn()).fit(runs)
    assert_same(found, expected)
    assert (found.names_, found.known_names_) == (["at", "speed"], ["push"])
    frame.loc[0, "at"] = None
    frame.to_parquet(tmp_path / "one.parquet")
    y, X = next(iter(ParquetRuns(tmp_path / "one.parquet", y=["at"], X=["push"])))
    assert np.isnan(y[0, 0])
    assert len(y) == len(X) == SIZES[0]
    # parquet runs by folder and by file
    for k in (10, 9):
        (tmp_path / "folders" / f"run={k}").mkdir(parents=True)
        pd.DataFrame({"x": [float(k)] * k}).to_parquet(tmp_path / "folders" / f"run={k}" / "part.parquet")
    for given in ("run", None):
        assert [len(y) for y in ParquetRuns(tmp_path / "folders", y="x", run=given)] == [9, 10]


def test_dask_bag_agrees_to_the_bit(expected):
    """Partition by partition, in this process."""
    bag = pytest.importorskip("dask.bag")
    assert_same(pesn.Forecaster(esn()).fit(bag.from_sequence(RUNS, npartitions=3)), expected, rtol=1e-13)


@pytest.mark.filterwarnings("ignore")  # of clusters that come and go
def test_dask_bag_on_a_cluster_agrees(expected):
    """Workers return factors and sums, which are merged: equal up to rounding."""
    bag = pytest.importorskip("dask.bag")
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
    ):
        runs = bag.from_sequence([None, *RUNS[:2], None, *RUNS[2:], None], partition_size=1).filter(lambda run: run is not None)
        assert_same(pesn.Forecaster(esn()).fit(runs), expected)  # partitions may be empty
        assert_same(*both(esn(washout="auto", ridge="auto"), runs, *STACKED, calibrate=False))
        with pytest.raises(ValueError, match=r"run 1 of partition 0: y must have 2 columns"):
            pesn.Forecaster(esn()).fit(bag.from_sequence([RUNS[0][0], RUNS[1][1]], npartitions=1))


def test_benchmark_measures_costs(monkeypatch):
    """As benchmarks/run.py scale does, with few rows."""
    pytest.importorskip("resource")
    import scale

    monkeypatch.setattr(scale, "COLUMNS", 4)
    monkeypatch.setattr(scale, "RUN_STEPS", 100)
    found = scale.fit_rows(500, "10")
    assert (found["passes"], found["seconds"]) == (5, pytest.approx(found["once"] + found["rows over all passes"]))
    assert scale.Cost(10.0, 1e-3).seconds(1e6, workers=100) == 20.0


# ---------------------------------------------------------------- sums in parts


def test_merged_statistics_and_error_sums_agree_with_all_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 4)) * [1.0, 1e9, 1e-160, 0.0] + [0.0, 1e12, 0.0, 7.0]
    rows[rng.random(rows.shape) < 0.2] = NAN
    rows[:50, 0] = NAN  # a part may have nothing of a column
    found = survey(ArrayRuns(rows, rows[:, :0], [slice(0, 50), slice(50, 51), slice(51, 400)])).y
    whole = compute_statistics(rows)
    np.testing.assert_array_equal(found.n, whole.n)
    for name in ("mean", "std", "low", "high"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-12, atol=1e-15 if name == "mean" else 0)
    assert found.width()[3] == 1.0
    # merged error sums agree with all rows
    rng = np.random.default_rng(0)
    e = [np.cumsum(rng.normal(size=(n, 3)), axis=0) for n in (300, 1, 80)]
    first = ErrorSums(3).add(e[0][:120]).add(e[0][120:], e[0][119])
    once, rest = ErrorSums(3).add(e[0]), ErrorSums(3).add(e[1]).add(e[2])
    found, whole = (fit_error_model(sums.merge(rest)) for sums in (first, once))
    old, new = (np.vstack([part[rows] for part in e]) for rows in (slice(None, -1), slice(1, None)))
    fresh = new - found.persistence * old
    for one in (found, whole):
        np.testing.assert_allclose(one.cov, np.vstack(e).T @ np.vstack(e) / 381, rtol=1e-12)
        np.testing.assert_allclose(one.innovation, fresh.T @ fresh / len(fresh), rtol=1e-9)


@pytest.mark.parametrize("sizes", [[10], [40_000, 3_000], [60_000], [1_000] * 300, [7, 90_000, 3, 4_000] * 5])
def test_sample_is_bounded_and_spread_evenly(sizes):
    found = choose_sample(np.array(sizes))
    rows = sum(part.stop - part.start for parts in found.values() for part in parts)
    assert rows == sum(sizes) if sum(sizes) <= MOST_SAMPLED else 0.8 * MOST_SAMPLED <= rows <= MOST_SAMPLED
    for i, parts in found.items():
        ends = [place for part in parts for place in (part.start, part.stop)]
        assert ends == sorted(ends)
        assert ends[0] >= 0
        assert ends[-1] <= sizes[i]


# ---------------------------------------------------------------- refusals


Y, X = RUNS[0]
NAMED = pd.DataFrame(Y, columns=["a", "b"])


@pytest.mark.parametrize(("runs", "kind", "words"), [
    (iter(()), ValueError, "y must hold at least one run, got none"),
    ([Y, X], ValueError, "run 1: y must have 2 columns in every run, as in run 0, got 1"),
    ([NAMED, NAMED.rename(columns={"b": "c"})], ValueError, r"run 1: y must have the columns \['a', 'b'\] of run 0, got"),
    ([RUNS[0], Y], ValueError, "run 1: X must be given in every run or in none, got none here and some in run 0"),
    ([(Y, X), (Y, X[:-1])], ValueError, "run 1: X must have a row for each of the 150 rows of y, got 149"),
    (iter([Y, Y.astype(str)]), TypeError, "run 1: y must be an array of numbers"),
    (iter([Y, (Y, X, X)]), ValueError, r"run 1: each run must be y, or \(y, X\), got a tuple of 3"),
    (Again(5), ValueError, "y must give the same runs in every pass"),
    ("runs.parquet", TypeError, r"y must be rows or runs, got the path 'runs.parquet'; .*ParquetRuns"),
])  # fmt: skip
def test_inconsistent_runs_are_refused_by_number(runs, kind, words):
    forecaster = pesn.Forecaster(esn(washout=0))
    with pytest.raises(kind, match=words):
        forecaster.fit(runs)
    assert not hasattr(forecaster, "esn_")


@pytest.mark.parametrize(("options", "more", "words"), [
    ({}, {"X": X}, "X must be None where y holds runs"),
    ({}, {"lengths": [150]}, "lengths must be None where y holds runs"),
    ({"feedback": "own", "feedback_scaling": 0.1}, {}, "feedback must be 'teacher' where runs are streamed"),
])  # fmt: skip
def test_arguments_of_stacked_rows_are_refused(options, more, words):
    with pytest.raises(ValueError, match=words):
        pesn.Forecaster(esn(**options)).fit([Y], **more)


def test_short_runs_are_skipped():
    runs = [*RUNS, (RUNS[1][0][:3], RUNS[1][1][:3])]
    stacked = tuple(np.vstack(part) for part in zip(*runs, strict=True))
    assert_same(*both(esn(), iter(runs), *stacked, lengths=[*SIZES, 3], calibrate=False))


def test_invalid_parquet_files_are_refused(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"run": ["a", "b", "a"], "x": [1.0, 2.0, 3.0], "text": ["u", "v", "w"]})
    frame.to_parquet(tmp_path / "one.parquet")
    (tmp_path / "two.parquet").write_text("nothing of the kind")
    (tmp_path / "empty").mkdir()
    for given, kind, words in [
        ((tmp_path / "one.parquet", "z"), ValueError, "path must have the columns z, run, got no z in .*one.parquet"),
        ((tmp_path / "one.parquet", "text"), TypeError, "numbers in the columns of y and X, got .*string in 'text'"),
        ((tmp_path / "one.parquet", "x"), ValueError, "rows of a run together, got run 'a' again in .*; sort by run"),
        ((tmp_path / "two.parquet", "x"), ValueError, "path must be a Parquet file or a folder of them, got .*two.parquet"),
        ((tmp_path / "empty", "x"), ValueError, "where no file ends in .parquet"),
        ((tmp_path / "no", "x"), FileNotFoundError, "there is no .*no"),
        ((tmp_path, "run"), ValueError, "y, X and run must be different columns, got 'run' twice"),
        ((tmp_path, []), ValueError, "y must name at least one column"),
        ((tmp_path, 3), TypeError, "y must be a list of names of columns, got 3"),
    ]:
        with pytest.raises(kind, match=words):
            list(ParquetRuns(*given))
