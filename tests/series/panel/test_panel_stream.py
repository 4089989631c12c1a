"""Parquet in, Parquet out: the numbers of one frame in memory, whatever the order of rows, and after a run was killed."""

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.series.panel import parquet as panel_stream
from pesn.series.panel.parquet import forecast_parquet

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    days = pd.date_range("2024-01-01", periods=12, freq="D")
    names = np.repeat([f"s{i:02d}" for i in range(30)], len(days))
    frame = pd.DataFrame({"unique_id": names, "ds": np.tile(days, 30), "y": 10.0 + rng.normal(size=len(names)), "price": 1.0})
    frame["price"] = rng.normal(size=len(names))
    return frame.assign(y=frame["y"].where(frame["unique_id"] != "s07"))  # one without a number


@pytest.fixture(scope="module")
def later(frame):
    days = pd.date_range("2024-01-13", periods=3, freq="D")
    names = np.repeat(frame["unique_id"].unique(), 3)
    return pd.DataFrame({"unique_id": names, "ds": np.tile(days, 30), "price": 0.5})


@pytest.fixture(scope="module")
def source(frame, later, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parquet")
    (folder / "rows").mkdir()
    mixed = frame.sample(frac=1.0, random_state=0)
    mixed.iloc[:200].to_parquet(folder / "rows" / "1.parquet")
    mixed.iloc[200:].to_parquet(folder / "rows" / "2.parquet", row_group_size=50)
    later.to_parquet(folder / "later.parquet")
    return folder


def read(folder, kind="part"):
    parts = [pd.read_parquet(path) for path in sorted(folder.glob(f"{kind}-*.parquet"))]
    return pd.concat(parts).sort_values(["unique_id", "ds"] if kind == "part" else "unique_id", ignore_index=True)


@pytest.fixture(scope="module")
def expected(frame, later):
    with pytest.warns(UserWarning, match="s07"):
        model = pesn.SeriesForecaster().fit(frame)
    return model.forecast(3, X=later, level=80)


def test_streamed_as_in_memory(source, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(panel_stream, "_BATCH", 64)
    arguments = source / "rows", tmp_path / "out", 3
    done = forecast_parquet(*arguments, X=source / "later.parquet", level=80, bucket_rows=60)
    assert (done.series, done.failures) == (29, 1)
    assert done.files > 1
    pd.testing.assert_frame_equal(read(tmp_path / "out"), expected, check_exact=True)
    assert read(tmp_path / "out", "failures").to_numpy().tolist() == [["s07", "it has no number among its 12 rows"]]
    assert not (tmp_path / "out" / "_rows").exists()
    assert forecast_parquet(*arguments, X=source / "later.parquet", level=80, bucket_rows=60) == done
    with pytest.raises(ValueError, match=r"target must be a new folder, or that of the same job, .* other rows or settings"):
        forecast_parquet(*arguments, level=90)


def test_a_killed_stream_continues(source, expected, tmp_path, monkeypatch):
    work, done = panel_stream.run, []

    def killed(*arguments, **options):
        done.append(arguments)
        if len(done) == 3:
            raise KeyboardInterrupt
        return work(*arguments, **options)

    monkeypatch.setattr(panel_stream, "run", killed)
    arguments = {"X": source / "later.parquet", "level": 80, "bucket_rows": 60}
    with pytest.raises(KeyboardInterrupt):
        forecast_parquet(source / "rows", tmp_path, 3, **arguments)
    monkeypatch.setattr(panel_stream, "partition", None)  # the rows are shared out already
    found = forecast_parquet(source / "rows", tmp_path, 3, **arguments)
    assert len(done) == found.files + 1
    pd.testing.assert_frame_equal(read(tmp_path), expected, check_exact=True)


def test_unusable_parquet_is_refused(source, frame, tmp_path):
    with pytest.raises(FileNotFoundError, match="must be a Parquet file or a folder with some"):
        forecast_parquet(tmp_path / "nothing.parquet", tmp_path / "out", 3)
    frame.drop(columns="ds").to_parquet(tmp_path / "wrong.parquet")
    with pytest.raises(ValueError, match=r"wrong.parquet must have columns 'unique_id', 'ds', 'y', got none named 'ds' among"):
        forecast_parquet(tmp_path / "wrong.parquet", tmp_path / "out", 3)
    frame.assign(unique_id=frame["unique_id"].where(frame.index != 5)).to_parquet(tmp_path / "unnamed.parquet")
    with pytest.raises(ValueError, match="column 'unique_id' must be known in every row, got none beside ds 2024-01-06"):
        forecast_parquet(tmp_path / "unnamed.parquet", tmp_path / "other", 3)
    (tmp_path / "mine").mkdir()
    frame.to_parquet(tmp_path / "mine" / "data.parquet")
    with pytest.raises(ValueError, match="which has other Parquet files"):
        forecast_parquet(source / "rows", tmp_path / "mine", 3)


def write_two(folder, frame, first, second, name="unique_id"):
    """Write each series half to one file, half to another, with other types of ids."""
    folder.mkdir()
    even = np.arange(len(frame)) % 2 == 0
    for number, (part, kind) in enumerate([(frame[even], first), (frame[~even], second)]):
        part.assign(**{name: part[name].astype(kind)}).to_parquet(folder / f"{number}.parquet", index=False)
    return folder


@pytest.fixture(scope="module")
def numbered(frame):
    """Series of numbers, negative ones and zero among them."""
    return frame.assign(unique_id=frame["unique_id"].str[1:].astype(np.int64) - 5, y=frame["y"].fillna(1.0))


@pytest.mark.parametrize(("first", "second"), [("int64", "float64"), ("int8", "uint16")])
def test_ids_are_one_type_over_all_files(numbered, later, tmp_path, first, second):
    if second == "uint16":
        numbered = numbered.assign(unique_id=numbered["unique_id"] + 5)
    source = write_two(tmp_path / "rows", numbered, first, second)
    ahead = later.assign(unique_id=np.repeat(numbered["unique_id"].unique(), 3).astype(second))
    ahead.to_parquet(tmp_path / "later.parquet")
    numbered.to_parquet(tmp_path / "one.parquet")
    arguments = {"X": tmp_path / "later.parquet", "level": 80, "bucket_rows": 60}
    done = forecast_parquet(source, tmp_path / "two", 3, **arguments)
    assert done == forecast_parquet(tmp_path / "one.parquet", tmp_path / "one", 3, **arguments)
    assert (done.series, done.failures) == (30, 0)
    pd.testing.assert_frame_equal(read(tmp_path / "two"), read(tmp_path / "one"), check_dtype=False)


def test_numbers_of_other_types_over_files(frame, expected, later, tmp_path):
    """Whole numbers of y and texts in another form, in one of the files."""
    source = write_two(tmp_path / "rows", frame.assign(price=frame["price"].round()), "category", "str")
    first = pd.read_parquet(source / "0.parquet")
    first.assign(price=first["price"].astype(int)).to_parquet(source / "0.parquet", index=False)
    done = forecast_parquet(source, tmp_path / "out", 3, level=80, bucket_rows=60)
    assert (done.series, done.failures) == (29, 1)


@pytest.mark.parametrize(("first", "second", "shift", "says"), [
    ("int64", "str", 0, r"values of one kind in all files, got .*0.parquet and .*1.parquet: .*unique_id.* int64 vs .*string"),
    ("int64", "float64", 2**53, r"0.parquet must hold values of the types .*double.* that all files have: Integer value"),
    ("bool", "int64", 0, "values of one kind in all files, got .*: .*unique_id.* bool vs int64"),
])  # fmt: skip
def test_ids_that_have_no_type_in_common(numbered, tmp_path, first, second, shift, says):
    source = write_two(tmp_path / "rows", numbered.assign(unique_id=numbered["unique_id"] + shift), first, second)
    with pytest.raises(ValueError, match=says) as error:
        forecast_parquet(source, tmp_path / "out", 3, bucket_rows=60)
    assert "\n" not in str(error.value)


def test_two_runs_into_one_folder(source, expected, tmp_path, monkeypatch):
    """The second is refused while the first is at work, and may go on when it was killed."""
    arguments = {"X": source / "later.parquet", "level": 80, "bucket_rows": 60}
    work = panel_stream.run

    def meanwhile(*given, **options):
        with pytest.raises(BlockingIOError, match=r"another run is writing to it: wait .*: '.*out'"):
            forecast_parquet(source / "rows", tmp_path / "out", 3, **arguments)
        return work(*given, **options)

    monkeypatch.setattr(panel_stream, "run", meanwhile)
    forecast_parquet(source / "rows", tmp_path / "out", 3, **arguments)
    pd.testing.assert_frame_equal(read(tmp_path / "out"), expected, check_exact=True)
    assert not (tmp_path / "out" / ".lock").exists()
