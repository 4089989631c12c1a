"""Claim: a saved series gives the same forecast to the bit, and a file that is not ours, changed or cut is refused."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn._support.reading import digest
from pesn.series import saving
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
    assert again.get_params() == {**forecaster.get_params(), "level": [0.5, 0.9]}
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
        (lambda data: data.replace(b"UnivariateModel", b"UnivariateModex"), "digest|not a file"),
        (lambda data: changed(data, "series.json", lambda text: text.replace(b"UnivariateModel", b"os.system")), "damaged"),
        (lambda data: changed(data, "series.json", lambda text: b'{"note": null, "fitted": 3}'), "holds no fitted series"),
        (lambda data: changed(data, "0.npy", lambda text: text[:40]), "damaged"),
    ],
    ids=["cut", "foreign", "changed", "another class", "no series", "an array cut short"],
)
def test_other_files_are_refused(forecaster, tmp_path, spoil, says):
    path = tmp_path / "a.pesn"
    forecaster.save(path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ValueError, match=says):
        saving.load(path)
