"""Claim: a saved series gives the same forecast to the bit, and a file whose fields are out of range is refused with one line
that names the file and the field, before a kernel reads its arrays."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn._support import files
from pesn._support.files import digest
from pesn.series.forecaster import SeriesForecaster


@pytest.fixture(scope="module")
def forecaster():
    rng, t = np.random.default_rng(0), np.arange(60.0)
    index = pd.date_range("2020-01-31", periods=60, freq="ME")
    y = pd.DataFrame({"a": 50 + t + 9 * np.sin(t * np.pi / 6) + rng.normal(size=60), "b": rng.normal(size=60)}, index=index)
    y.iloc[20, 0] = np.nan
    return SeriesForecaster(level=(0.5, 0.9)).fit(y, pd.DataFrame({"u": rng.normal(size=60)}, index=index))


@pytest.fixture(scope="module")
def saved(forecaster, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "a.pesn"
    forecaster.save(path)
    return path.read_bytes()


def test_a_forecaster_comes_back(forecaster, saved, tmp_path):
    (tmp_path / "a.pesn").write_bytes(saved)
    again = pesn.load(tmp_path / "a.pesn")
    assert isinstance(again, SeriesForecaster)
    assert again.get_params() == forecaster.get_params()
    pd.testing.assert_frame_equal(again.forecast(7).to_frame(), forecaster.forecast(7).to_frame())
    assert again.summary() == forecaster.summary()


def sign(data, name, change):
    """Return the archive with one member changed, and its digest made to fit, as someone who means harm would."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for member in old.namelist():
            if member != "pesn.json":
                new.writestr(member, change(old.read(member)) if member == name else old.read(member))
        manifest = json.loads(old.read("pesn.json"))
        manifest["sha256"] = digest(new)
        new.writestr("pesn.json", json.dumps(manifest))
    return buffer.getvalue()


def test_a_large_array_reserves_no_memory(saved, tmp_path):
    """Other damaged files are in tests/test_persistence.py."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    (tmp_path / "a.pesn").write_bytes(sign(saved, "0.npy", lambda part: header.getvalue() + part[-80:]))
    with pytest.raises(ValueError, match=r"is damaged: 0\.npy holds other numbers than it says"):
        pesn.load(tmp_path / "a.pesn")


def set_field(data, path, to):
    """Set a field of the first column's model, "stack.kinds", or of the table, "/steps"; of an array, ``to`` is a function."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        tree = json.loads(archive.read("model.json"))
    fields = tree["fields"] if path.startswith("//") else tree["fields"]["fitted_"]["fields"]
    if not path.startswith("/"):
        fields = fields["models"]["tuple"][0]["fields"]
    *records, name = path.lstrip("/").split(".")
    for record in records:
        fields = fields[record]["fields"]

    def change_array(part):
        file = io.BytesIO()
        np.save(file, to(np.load(io.BytesIO(part))))
        return file.getvalue()

    if callable(to):
        return sign(data, f"{fields[name]['array']}.npy", change_array)
    fields[name] = to
    return sign(data, "model.json", lambda text: json.dumps(tree).encode())


@pytest.mark.parametrize(("field", "to", "says"), [
    ("phase", -(10**7), "phase must be 0 or more, got -10000000"), ("phase", 12, "phase must be below 12, .* got 12"),
    ("start", 10**12, r"start: rows must lie in \[0, 1e\+06\], got 1000000000000"),
    ("start", 1, r"models\[1\] must have as many rows and inputs as models\[0\]"),
    ("pending", 3, r"pending must be an array \(any, 1\) of float64, got int"),
    ("/steps", -12, "steps must be 1 or more, got -12"),
    ("/later", 3, r"later must be an array \(any, 1\) of float64, got int"),
    ("horizon", 10**9, "horizon must be at most 600, as there are 60 rows, got 1000000000"),
    ("horizon", True, "horizon must be a whole number"), ("scale", {"float": "nan"}, r"scale must lie in \(0"),
    ("lower", 1e9, r"lower must lie in \[0"),
    ("seasons", {"tuple": [13]}, r"first must be an array \(3, 13\) of float64, got \(3, 12\)"),
    ("stack", None, "stack must be a Grid, got a NoneType"),
    ("stack.kinds", 7, r"stack.kinds must be an array \(\d+, 2\) of int64, got int"),
    ("widths.power", "1", "widths.power must be a number"), ("effects.log", 1, "effects.log must be True or False"),
    ("weight", {"array": 0}, "names the array 0.npy twice"), ("/periods", {"tuple": [-3]}, "periods must be 2 or more"),
    ("/names", {"tuple": ["a", "a"]}, "names must be 2 different names"),
    ("//level", {"tuple": [-0.5, 0.9]}, "level must lie between 0 and 1"),
    ("stack.kinds", lambda a: np.where(a == a, 10**6, a), r"stack.kinds must lie in \[0, 2\], got 1000000"),
    ("stack.kinds", lambda a: a.astype(np.int32), r"stack.kinds must be an array \(\d+, 2\) of int64, got .* of int32"),
    ("stack.parameters", lambda a: a[:, :3], r"stack.parameters must be an array \(\d+, 4\) of float64, got \(\d+, 3\)"),
    ("stack.parameters", lambda a: -a, r"stack.parameters must lie in \[0, 1\]"),
    ("weight", lambda a: np.nan * a, "weight must be finite, got nan"),
    ("weight", lambda a: 2.0 * a, "weight must add up to 1, got 2"),
    ("first", lambda a: a[:, :5], r"first must be an array \(3, 12\) of float64, got \(3, 5\)"),
    ("y", lambda a: np.nan * a, "y must hold at least one number"),
    ("y", lambda a: np.where(a > 100, np.inf, a), "y must be finite, got inf"),
    ("x", lambda a: a[1:], r"x must be an array \(60, any\)"),
    ("effects.slopes", lambda a: np.zeros(3), r"effects.slopes must be an array \(1\)"),
    ("widths.steps", lambda a: a[::-1], "widths.steps must be one or more increasing numbers"),
    ("widths.deviations", lambda a: 0.0 * a, "widths.deviations must lie in"),
])  # fmt: skip
def test_a_field_out_of_range_is_refused_by_name(saved, tmp_path, field, to, says):
    path = tmp_path / "a.pesn"
    path.write_bytes(set_field(saved, field, to))
    where = "" if says.startswith(("models", "names the")) or field.startswith("/") else r"models\[0\]."
    with pytest.raises(ValueError, match=rf"^{path} is damaged: .*{where}{says}") as refusal:
        pesn.load(path)
    assert "\n" not in str(refusal.value)


def test_too_little_memory_is_not_damage(saved, tmp_path, monkeypatch):
    def no_memory(name, data):
        raise MemoryError

    (tmp_path / "a.pesn").write_bytes(saved)
    monkeypatch.setattr(files, "npy_array", no_memory)
    with pytest.raises(MemoryError, match=r"a.pesn needs more memory than there is"):
        pesn.load(tmp_path / "a.pesn")
