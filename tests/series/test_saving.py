"""Claim: a saved series gives the same forecast to the bit, and a file that is not ours, changed or cut is refused with one line
that names the file and the field, before a kernel reads its arrays."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn import persistence
from pesn._support.files import digest
from pesn.series.forecaster import SeriesForecaster


@pytest.fixture(scope="module")
def forecaster():
    rng = np.random.default_rng(0)
    t = np.arange(60.0)
    index = pd.date_range("2020-01-31", periods=60, freq="ME")
    y = pd.DataFrame({"a": 50 + t + 9 * np.sin(t * np.pi / 6) + rng.normal(size=60), "b": rng.normal(size=60)}, index=index)
    y.iloc[20, 0] = np.nan
    return SeriesForecaster(level=(0.5, 0.9)).fit(y, pd.DataFrame({"u": rng.normal(size=60)}, index=index))


def test_a_forecaster_comes_back(forecaster, tmp_path):
    forecaster.save(tmp_path / "a.pesn")
    again = pesn.load(tmp_path / "a.pesn")
    assert isinstance(again, SeriesForecaster)
    assert again.get_params() == forecaster.get_params()
    pd.testing.assert_frame_equal(again.forecast(7).to_frame(), forecaster.forecast(7).to_frame())
    assert again.summary() == forecaster.summary()


def changed(data, name, change):
    """The archive with one member changed, and its digest made to fit, as someone who means harm would."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for member in old.namelist():
            if member != "pesn.json":
                new.writestr(member, change(old.read(member)) if member == name else old.read(member))
        manifest = json.loads(old.read("pesn.json"))
        manifest["sha256"] = digest(new)
        new.writestr("pesn.json", json.dumps(manifest))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda data: data[:-30], "not a file saved by pesn|cut short"),
        (lambda data: b"hello", "not a file saved by pesn"),
        (lambda data: data.replace(b"UnivariateModel", b"UnivariateModex"), "damaged"),
        (
            lambda data: changed(data, "model.json", lambda text: text.replace(b"UnivariateModel", b"os.system")),
            "holds os.system, which is not part of a model",
        ),
        (lambda data: changed(data, "model.json", lambda text: b"3"), "holds builtins.int, which is not a model of pesn"),
        (lambda data: changed(data, "0.npy", lambda text: text[:40]), "damaged"),
    ],
    ids=["cut", "foreign", "changed", "another class", "no series", "an array cut short"],
)
def test_other_files_are_refused(forecaster, tmp_path, spoil, says):
    path = tmp_path / "a.pesn"
    forecaster.save(path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ValueError, match=says):
        pesn.load(path)


def set_field(*path, to):
    """Return a change of series.json that sets a field of the first column's model."""

    def change(text):
        tree = json.loads(text)
        record = tree["fields"]["fitted_"]["fields"]["models"]["tuple"][0]
        for name in path[:-1]:
            record = record["fields"][name]
        record["fields"][path[-1]] = to
        return json.dumps(tree).encode()

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (set_field("phase", to=-(10**7)), r"models\[0\].phase must be 0 or more, got -10000000"),
        (set_field("phase", to=12), r"models\[0\].phase must be below 12, .* got 12"),
        (set_field("start", to=10**12), r"models\[0\].start: rows must lie in \[0, 1e\+06\], got 1000000000000"),
        (set_field("start", to=1), r"models\[1\] must have as many rows and inputs as models\[0\]"),
        (set_field("pending", to=3), r"models\[0\].pending must be an array \(any, 1\) of float64, got int"),
        (lambda text: text.replace(b'"steps": 12', b'"steps": -12'), "steps must be 1 or more, got -12"),
        (lambda text: text.replace(b'"later": null', b'"later": 3'), r"later must be an array \(any, 1\) of float64, got int"),
        (set_field("horizon", to=10**9), r"models\[0\].horizon must be at most 600, as there are 60 rows, got 1000000000"),
        (set_field("horizon", to=True), r"models\[0\].horizon must be a whole number"),
        (set_field("scale", to={"float": "nan"}), r"models\[0\].scale must lie in \(0"),
        (set_field("lower", to=1e9), r"models\[0\].lower must lie in \[0"),
        (set_field("seasons", to={"tuple": [13]}), r"models\[0\].first must be an array \(3, 13\) of float64, got \(3, 12\)"),
        (set_field("stack", to=None), r"models\[0\].stack must be a Grid, got a NoneType"),
        (set_field("stack", "kinds", to=7), r"models\[0\].stack.kinds must be an array \(\d+, 2\) of int64, got int"),
        (set_field("widths", "power", to="1"), r"models\[0\].widths.power must be a number"),
        (set_field("effects", "log", to=1), r"models\[0\].effects.log must be True or False"),
        (set_field("weight", to={"array": 0}), "names the array 0.npy twice"),
        (lambda text: text.replace(b'"periods": {"tuple": [12', b'"periods": {"tuple": [-3'), "periods must be 2 or more"),
        (lambda text: text.replace(b'{"tuple": ["a", "b"]}', b'{"tuple": ["a", "a"]}'), "names must be 2 different names"),
        (lambda text: text.replace(b'{"tuple": [0.5, 0.9]}', b'{"tuple": [-0.5, 0.9]}'), "level must lie between 0 and 1"),
    ],
)
def test_a_field_out_of_range_is_refused_by_name(forecaster, tmp_path, change, says):
    path = tmp_path / "a.pesn"
    forecaster.save(path)
    data = path.read_bytes()
    path.write_bytes(changed(data, "model.json", change))
    assert path.read_bytes() != data
    with pytest.raises(ValueError, match=rf"^{path} is damaged: .*{says}") as refusal:
        pesn.load(path)
    assert "\n" not in str(refusal.value)


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def names_of_arrays(data):
    """Map "stack.kinds" and the like to members of the archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        tree = json.loads(archive.read("model.json"))
    found = {}

    def walk(fields, prefix):
        for name, value in fields.items():
            if isinstance(value, dict) and "array" in value:
                found[prefix + name] = f"{value['array']}.npy"
            elif isinstance(value, dict) and "fields" in value:
                walk(value["fields"], f"{prefix}{name}.")

    walk(tree["fields"]["fitted_"]["fields"]["models"]["tuple"][0]["fields"], "")
    return found


@pytest.mark.parametrize(
    ("field", "change", "says"),
    [
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
    ],
)
def test_an_array_out_of_bounds_is_refused_by_name(forecaster, tmp_path, field, change, says):
    path = tmp_path / "a.pesn"
    forecaster.save(path)
    data = path.read_bytes()
    path.write_bytes(changed(data, names_of_arrays(data)[field], lambda part: npy(change(np.load(io.BytesIO(part))))))
    with pytest.raises(ValueError, match=rf"^{path} is damaged: models\[0\].{says}"):
        pesn.load(path)


def test_an_array_is_no_larger_than_its_bytes(forecaster, tmp_path):
    """NumPy would reserve the memory that a header names."""
    path, header = tmp_path / "a.pesn", io.BytesIO()
    forecaster.save(path)
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    path.write_bytes(changed(path.read_bytes(), "0.npy", lambda part: header.getvalue() + part[-80:]))
    with pytest.raises(ValueError, match=rf"^{path} is damaged: 0.npy holds other numbers than it says"):
        pesn.load(path)


def test_too_little_memory_is_not_damage(forecaster, tmp_path, monkeypatch):
    def no_memory(name, data):
        raise MemoryError

    forecaster.save(tmp_path / "a.pesn")
    monkeypatch.setattr(persistence, "npy_array", no_memory)
    with pytest.raises(MemoryError, match=r"a.pesn needs more memory than there is"):
        pesn.load(tmp_path / "a.pesn")
