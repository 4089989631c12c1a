"""Claim: a saved model forecasts as it did, and so does one of an older format, which had one factor for all leads."""

import numpy as np
import pytest

from pesn import persistence
from pesn.series import saving
from pesn.series.errors import DataError
from pesn.series.model import Model, Recipe, fit, forecast
from pesn.series.season import NONE

Y = np.cumsum(np.random.default_rng(0).normal(size=(80, 1)), axis=0)
NOTHING = np.zeros((80, 0))


@pytest.fixture(scope="module")
def model():
    return fit(Recipe(difference=1, n_units=8, ridge=1.0), Y, NOTHING, NONE, calibrate=True)


def saved(model):
    return saving.Saved(model, ["y"], [], None, None, 1.0, 0.0, 5, [0.9], 80)


def test_a_model_comes_back_with_its_calibration(model, tmp_path):
    saving.save(saved(model), tmp_path / "model.pesn")
    again = saving.load(tmp_path / "model.pesn").model
    assert np.ptp(model.calibration) > 0.0
    np.testing.assert_array_equal(again.calibration, model.calibration)
    np.testing.assert_array_equal(forecast(again, Y, NOTHING, NOTHING[:5]).std, forecast(model, Y, NOTHING, NOTHING[:5]).std)


def test_the_first_format_had_one_factor(model, tmp_path):
    saving.save(saved(model), tmp_path / "model.pesn")
    _, note = persistence.load_with_note(tmp_path / "model.pesn")
    del note["calibration"]
    persistence.save(model.forecaster, tmp_path / "older.pesn", {**note, "format": 1, "width": 1.5})
    older, plain = saving.load(tmp_path / "older.pesn").model, Model(model.recipe, NONE, model.forecaster)
    ratio = forecast(older, Y, NOTHING, NOTHING[:25]).std / forecast(plain, Y, NOTHING, NOTHING[:25]).std
    np.testing.assert_allclose(ratio, 1.5)
    persistence.save(model.forecaster, tmp_path / "twenty.pesn", {**note, "calibration": [1.5] * 20})  # up to 20 steps ahead
    np.testing.assert_array_equal(saving.load(tmp_path / "twenty.pesn").model.calibration, np.full(50, 1.5))
    persistence.save(model.forecaster, tmp_path / "short.pesn", {**note, "calibration": [1.0, 2.0]})
    with pytest.raises(DataError, match="its calibration is not 50 positive numbers"):
        saving.load(tmp_path / "short.pesn")
