"""Without covariances between rows a forecast is the same, its memory is linear in the horizon, and its samples are simulated
by the network.
"""

import pickle

import numpy as np
import pytest

from pesn import Forecaster, ProbabilisticESN
from pesn.systems.chaotic import lorenz


def fitted(y, *, n=30, calibrate=False, **more):
    esn = ProbabilisticESN(n, **{"washout": "auto", "random_state": 0, "process_noise": 0.0, **more})
    return Forecaster(esn, calibrate=calibrate).fit(y)


def noisy(share=0.01, **more):
    """Return the Lorenz system with noise."""
    y = lorenz(rng=0, **more).states
    return y + share * y.std(axis=0) * np.random.default_rng(0).normal(size=y.shape)


FORMS = {"full": {}, "low-rank": {"covariance": "low-rank", "rank": 12}, "diagonal": {"covariance": "diagonal"}}


@pytest.mark.parametrize("form", FORMS)
def test_forecast_is_the_same_without_joint_covariance(form):
    y = noisy(steps=400)
    forecaster = fitted(y, calibrate=form == "full", **FORMS[form])
    one, other = forecaster.forecast(15, joint=True), forecaster.forecast(15, joint=False)
    for name in ("mean", "std", "var", "cov"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for a, b in zip(one.interval(0.9), other.interval(0.9), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.to_frame(), other.to_frame())
    np.testing.assert_array_equal(one[3].cov, other[3].cov)
    for name, part in one.variance_parts.items():
        np.testing.assert_array_equal(part, other.variance_parts[name])
    with pytest.raises(AttributeError, match="keeps no covariances between its rows; ask for them by joint=True"):
        _ = other.joint


def test_simulated_futures_have_the_joint_correlations():
    """Over as few steps as the Gaussian holds."""
    y = noisy(0.02, steps=600)
    forecaster = fitted(y, calibrate=True)
    one, other = forecaster.forecast(8, joint=True), forecaster.forecast(8, joint=False)
    paths = other.sample(4000, rng=0)
    assert paths.shape == (4000, 8, 3)
    np.testing.assert_allclose(paths.mean(axis=0), one.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(paths.std(axis=0), one.std, rtol=1e-9)
    std = one.std.ravel()
    np.testing.assert_allclose(np.corrcoef(paths.reshape(4000, -1).T), one.joint / np.outer(std, std), atol=0.12)


def test_simulated_futures_are_smooth():
    """Independent draws of rows would jump."""
    y = noisy(0.0, steps=600)
    forecast = fitted(y).forecast(100, joint=False)
    paths = forecast.sample(20, rng=0)
    step = np.abs(np.diff(paths, axis=1)).mean(axis=(0, 1))
    assert (step < 0.3 * forecast.std.mean(axis=0)).all()
    np.testing.assert_array_equal(forecast.sample(20, rng=0), paths)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(forecast)).sample(20, rng=0), paths)
    assert np.abs(forecast.sample(20, rng=1) - paths).max() > 0.1


def test_joint_covariance_is_kept_up_to_4000_numbers():
    forecaster = fitted(noisy(steps=100), n=10, density=0.3)
    assert forecaster.forecast(20)._joint.shape == (60, 60)
    assert forecaster.forecast(1334, parts=())._joint is None
    with pytest.raises(ValueError, match="horizon must be 6666 or less with 3 columns of y and joint=True, got 7000"):
        forecaster.forecast(7000, joint=True)
    with pytest.raises(TypeError, match="joint must be True or False, got 1"):
        forecaster.forecast(7, joint=1)


MEMORY = """
import resource, sys
import numpy as np
from pesn import Forecaster, ProbabilisticESN
y = np.sin(0.1 * np.arange(400.0)[:, None] * (1.0 + np.arange(5) / 7)) + 0.1 * np.random.default_rng(0).normal(size=(400, 5))
esn = ProbabilisticESN(10, density=0.3, washout="auto", random_state=0, process_noise=0.0, covariance="diagonal")
forecaster = Forecaster(esn, calibrate=False).fit(y)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
forecast = forecaster.forecast(900)
assert np.isfinite(forecast.std).all()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_memory_is_linear_in_the_horizon(run_python):
    """The joint covariance would take 162 MB."""
    assert int(run_python(MEMORY).stdout) < 60  # MB
