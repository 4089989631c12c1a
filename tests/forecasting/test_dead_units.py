"""Claim: units that are all but dead in training do no harm: forecasts are finite."""

import numpy as np
import pytest

from pesn import Forecaster, ProbabilisticESN


@pytest.mark.parametrize(("ridge", "seed"), [(0.0372, 667), (0.0, 687)])
@pytest.mark.filterwarnings("ignore:.*left the range of training")
def test_forecasts_are_finite(ridge, seed):
    t = np.arange(60.0)
    model = ProbabilisticESN(
        20, density=0.6, spectral_radius=0.474, leak_rate=0.6456, covariance="diagonal", activation="relu", ridge=ridge,
        noise=0.01, process_noise=0.01, initial_state="zero", random_state=seed,
    )  # fmt: skip
    forecast = Forecaster(model, measurement_noise="auto", calibrate=False).fit(t + np.sin(t)).forecast(5)
    assert np.abs(forecast.mean).max() < 1e4
    assert np.isfinite(forecast.std).all()
