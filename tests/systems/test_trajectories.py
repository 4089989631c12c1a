"""Claim: trajectories keep every number of every run, whole, through choosing, splitting, frames and files."""

import csv
import sys

import numpy as np
import pandas as pd
import pytest

from pesn.systems import Trajectories

LENGTHS = (5, 1, 4)
RNG = np.random.default_rng(0)
STATES, INPUTS = RNG.normal(size=(10, 2)) * [1e-7, 1e9], RNG.normal(size=(10, 1))


def make(**changes):
    parts = {"states": STATES, "inputs": INPUTS, "dt": 0.1, "lengths": LENGTHS}
    return Trajectories(**{**parts, "names": ("x", "v", "u"), "units": ("m", "m/s", "N"), **changes})


def test_runs_one_by_one():
    runs = make()
    assert len(runs) == 3
    for i, (a, b) in enumerate(((0, 5), (5, 6), (6, 10))):
        for one in (runs[i], runs[i - 3], runs[np.int64(i)], list(runs)[i]):
            np.testing.assert_array_equal(one.states, STATES[a:b])
            np.testing.assert_array_equal(one.inputs, INPUTS[a:b])
            assert (one.lengths, one.dt, one.names, one.units) == ((b - a,), 0.1, ("x", "v", "u"), ("m", "m/s", "N"))


@pytest.mark.parametrize("chosen", [slice(1, None), slice(None, None, 2), slice(None, None, -1), slice(-1, None), slice(0, 9)])
def test_several_runs(chosen):
    several = make()[chosen]
    expected = list(make())[chosen]
    assert several.lengths == tuple(one.lengths[0] for one in expected)
    np.testing.assert_array_equal(several.states, np.concatenate([one.states for one in expected]))
    np.testing.assert_array_equal(several.inputs, np.concatenate([one.inputs for one in expected]))


@pytest.mark.parametrize(("run", "error"), [(3, IndexError), (-4, IndexError), ("first", TypeError), (1.0, TypeError)])
def test_a_run_that_is_not_there(run, error):
    with pytest.raises(error, match=r"run must (lie in 0 … 2, got|be a whole number or a slice, got)"):
        make()[run]


@pytest.mark.parametrize(
    ("fraction", "lengths", "parts"),
    [
        *((f, LENGTHS, (LENGTHS[:n], LENGTHS[n:])) for f, n in ((0.01, 1), (0.3, 1), (0.5, 2), (0.67, 2), (0.99, 2))),
        *((f, (10,), ((n,), (10 - n,))) for f, n in ((0.001, 1), (0.4, 4), (0.8, 8), (0.999, 9))),
    ],
)
def test_split_keeps_runs_whole_and_cuts_a_single_run_in_time(fraction, lengths, parts):
    first, second = make(lengths=lengths).split(fraction)
    assert (first.lengths, second.lengths) == parts
    np.testing.assert_array_equal(np.concatenate([first.states, second.states]), STATES)
    np.testing.assert_array_equal(np.concatenate([first.inputs, second.inputs]), INPUTS)


def test_impossible_splits_are_rejected():
    for fraction in (0.0, 1.0, -1.0, np.nan):
        with pytest.raises(ValueError, match=r"fraction must lie in \(0, 1\)"):
            make().split(fraction)
    with pytest.raises(ValueError, match="a single run of 1 row cannot be split"):
        make()[1].split()


def test_frame():
    frame = make().to_frame()
    assert list(frame) == ["run", "t", "x", "v", "u"]
    assert frame["run"].tolist() == [0] * 5 + [1] + [2] * 4
    np.testing.assert_allclose(frame["t"], [0.0, 0.1, 0.2, 0.3, 0.4, 0.0, 0.0, 0.1, 0.2, 0.3], rtol=1e-15)
    np.testing.assert_array_equal(frame[["x", "v"]], STATES)
    np.testing.assert_array_equal(frame[["u"]], INPUTS)


@pytest.mark.parametrize("name", ["a.csv", "a.CSV"])
def test_csv_keeps_every_bit(tmp_path, name):
    make().save(tmp_path / name)
    with (tmp_path / name).open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["run", "t", "x", "v", "u"]
    np.testing.assert_array_equal([[float(cell) for cell in row] for row in rows], make().to_frame())
    assert {row[0] for row in rows} == {"0", "1", "2"}
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_parquet_keeps_every_bit(tmp_path):
    make().save(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "a.parquet"), make().to_frame(), check_exact=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_npz_holds_everything(tmp_path):
    make().save(str(tmp_path / "a.npz"))
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        parts = dict(file)
    lists = {name: parts[name].tolist() for name in ("dt", "names", "lengths", "units")}
    again = Trajectories(parts["states"], parts["inputs"], **lists)
    np.testing.assert_array_equal(again.states, STATES)
    np.testing.assert_array_equal(again.inputs, INPUTS)
    assert (again.dt, again.names, again.lengths, again.units) == (0.1, ("x", "v", "u"), LENGTHS, ("m", "m/s", "N"))


def test_without_inputs(tmp_path):
    runs = make(inputs=np.empty((10, 0)), names=("x", "v"), units=("", ""))
    assert list(runs.to_frame()) == ["run", "t", "x", "v"]
    for name in ("a.csv", "a.parquet", "a.npz"):
        runs.save(tmp_path / name)
    assert runs[0].inputs.shape == (5, 0)


@pytest.mark.parametrize("name", ["a.txt", "a", "a.csv.gz", ".csv"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=rf"path must end in \.csv, \.parquet or \.npz, got '.*{name}'"):
        make().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    for name in ("a.csv", "a.parquet", "a.npz"):
        (tmp_path / name).write_text("old")

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    monkeypatch.setattr(pd.DataFrame, "to_parquet", fail)
    monkeypatch.setattr(np, "savez_compressed", fail)
    for name in ("a.csv", "a.parquet", "a.npz"):
        with pytest.raises(OSError, match="No space left"):
            make().save(tmp_path / name)
        assert (tmp_path / name).read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 3


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'pesn\[parquet\]'"):
        make().save(tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"states": STATES[:, 0]}, ValueError, r"states must have shape \(10, columns\), got \(10,\)"),
        ({"inputs": INPUTS[:9]}, ValueError, r"inputs must have shape \(10, columns\), got \(9, 1\)"),
        ({"states": STATES * np.nan}, ValueError, "states must be finite"),
        ({"dt": 0.0}, ValueError, "dt must lie in"),
        ({"lengths": (5, 4)}, ValueError, "lengths must sum to the 10 rows of states, got 9"),
        ({"lengths": (10, 0)}, ValueError, "lengths must be 1 or more"),
        ({"lengths": (5.0, 5.0)}, TypeError, "lengths must be a whole number"),
        ({"names": ("x", "u")}, ValueError, "names must have 3 entries"),
        ({"names": "xvu"}, TypeError, "names must be a sequence, got 'xvu'"),
        ({"names": ("x", "v", "t")}, ValueError, "names must differ from each other and from 'run' and 't'"),
        ({"lengths": np.array([])}, ValueError, "lengths must name at least one run, got none"),
    ],
)
def test_bad_parts_are_refused_by_name(changes, error, message):
    with pytest.raises(error, match=message):
        make(**changes)


def test_parts_become_arrays_and_tuples():
    lists = {"names": ["x", "v", "u"], "lengths": list(LENGTHS), "units": ["m"] * 3}
    runs = make(states=STATES.astype(np.float32), inputs=INPUTS.tolist(), **lists)
    assert runs.states.dtype == runs.inputs.dtype == np.float64
    assert (runs.names, runs.units, runs.lengths) == (("x", "v", "u"), ("m",) * 3, LENGTHS)
