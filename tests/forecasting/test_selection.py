"""The default forecaster selects the ridge that its series needs, with calibrated standard deviations."""

import numpy as np
import pytest

from pesn import Forecaster, ProbabilisticESN
from pesn.forecasting.dataset import Segment, ValidationSegment
from pesn.forecasting.training import validation_origins
from pesn.systems.chaotic import lorenz


def seasonal(n, seed=0):
    """Return a season of twelve rows with autocorrelated noise, x[k] = 0.7 x[k−1] + e."""
    rng, x = np.random.default_rng(seed), np.zeros(n)
    for k in range(1, n):
        x[k] = 0.7 * x[k - 1] + rng.normal()
    return 3.0 * np.sin(2.0 * np.pi * np.arange(n) / 12.0) + x


@pytest.fixture(scope="module")
def default_forecaster():
    """Fit with too few rows for a design: only the ridge is selected."""
    return Forecaster().fit(seasonal(59, 2))


@pytest.mark.parametrize("n", [120, 400])
def test_standard_deviations_of_a_noisy_season_are_those_of_its_noise(n):
    """With the smallest ridge units overfit, and standard deviations are three times as large."""
    truth = np.sqrt((1.0 - 0.7 ** (2.0 * np.arange(1.0, 21.0))) / (1.0 - 0.49))
    ratio = Forecaster().fit(seasonal(n)).forecast(20).std[:, 0] / truth
    assert 0.7 < np.median(ratio) < 1.5
    assert ratio.max() < 1.9


def test_selected_ridge_gives_the_same_forecaster(default_forecaster):
    assert default_forecaster.design_ is None
    assert default_forecaster.esn_.ridge > 1e-6
    network = ProbabilisticESN(washout="auto", random_state=0, ridge=default_forecaster.esn_.ridge)
    given = Forecaster(network).fit(seasonal(59, 2))
    np.testing.assert_allclose(given.calibration_, default_forecaster.calibration_, rtol=1e-9)
    a, b = given.forecast(20), default_forecaster.forecast(20)
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(a.std, b.std, rtol=1e-9)


def test_noiseless_system_keeps_the_smallest_ridge():
    assert Forecaster(calibrate=False).fit(lorenz(steps=59, rng=0).states).esn_.ridge == 1e-6


def test_few_rows_are_calibrated_over_fewer_steps():
    forecaster = Forecaster(ProbabilisticESN(10, washout=5, random_state=0, process_noise=0.0)).fit(seasonal(60))
    assert (forecaster.calibration_ != 1.0).any()
    assert (forecaster.calibration_[8:] == forecaster.calibration_[-1]).all()  # twelve rows were held back: six steps ahead


def test_validation_origins_have_rows_before_and_after():
    held = [ValidationSegment(Segment(np.zeros((n, 1)), np.zeros((n, 1)), np.zeros((n + 1, 1)))) for n in (200, 30, 21)]
    found = validation_origins(held, 20)
    assert 30 < len(found) <= 36
    for segment, last in found:
        assert last + 20 <= len(segment.z)
        assert last >= 1
    assert not validation_origins(held[2:], 40)
    assert min(last for _, last in validation_origins([held[0]._replace(first=150)], 20)) == 150
