"""Measurement noise is distinguished from process noise: it affects every row and is not propagated."""

import numpy as np
import pandas as pd
import pytest

from pesn import Features, Forecaster, Gaussian, ProbabilisticESN
from pesn.evaluation.calibration import process_errors, process_share
from pesn.forecasting.design import Candidate, Design
from pesn.reservoir.closed_loop import ErrorModel, variance_inflation
from pesn.systems import chaotic

NOISE = 0.02
DESIGN = Design(Candidate("none", 4, 1, 0, (1e-6, 1e-6)))


@pytest.fixture(scope="module")
def series():
    """Return a clean series and the same with measurement noise."""
    y = chaotic.lorenz(runs=1, steps=1700, rng=0)[0].states
    return y, y + NOISE * y.std(axis=0) * np.random.default_rng(1).standard_normal(y.shape)


@pytest.fixture(scope="module")
def forecaster(series):
    return Forecaster(design=DESIGN).fit(series[1][:1200])


def test_measurement_noise_is_estimated_and_small_without_noise(series, forecaster):
    clean, _ = series
    share = forecaster.measurement_std_ / clean.std(axis=0)
    assert np.all((share > 0.5 * NOISE) & (share < 2.0 * NOISE))
    # estimate is small without noise
    found = Forecaster(design=DESIGN).fit(clean[:1200])
    assert np.all(found.measurement_std_ < 1e-3 * clean.std(axis=0))


def test_autocorrelated_residuals_are_no_measurement_noise():
    """Those of a linear map of a nonlinear flow are errors of the model."""
    y = chaotic.roessler(dt=0.1, runs=1, steps=1200, rng=0)[0].states
    found = Forecaster(design=Design(Candidate("none", 0, 0))).fit(y)
    assert (found.errors_.persistence > 0.5).all()
    assert not found.measurement_std_.any()


def test_autocorrelation_bounds_weight_errors_of_given_networks_alone(series):
    """Left-out blocks decide for a design."""
    y = series[0][:1200]
    given = Forecaster(ProbabilisticESN(30, washout="auto", random_state=0)).fit(y).errors_
    assert (given.weights >= variance_inflation(given.persistence)).all()
    own = Forecaster(design=Design(Candidate("none", 0, 1, 0, (0.1, 0.1)))).fit(y).errors_
    assert (own.weights < variance_inflation(own.persistence)).any()


def test_measurement_noise_improves_forecasts(series, forecaster):
    """Without it, all noise is propagated as process noise."""
    _, y = series
    without = Forecaster(design=DESIGN, measurement_noise=0.0).fit(y[:1200])
    assert not without.measurement_std_.any()
    one, other = (f.backtest(y[1200:], horizon=40, origins=20).crps_by_step()[20:].mean() for f in (forecaster, without))
    assert one < 0.9 * other
    # noisy rows leave posterior uncertainty: An exact row leaves less.
    exact = Gaussian(y[1200:1240], cov=np.tile(1e-12 * np.eye(3), (40, 1, 1)))
    noisy = forecaster.forecast(1, y[1200:1240], parts=("state",)).std
    known = forecaster.forecast(1, exact, parts=("state",)).std
    assert np.all(known < noisy)


def test_given_measurement_noise_is_used(series):
    clean, y = series
    std = NOISE * clean.std(axis=0)
    forecaster = Forecaster(design=DESIGN, measurement_noise=std).fit(y[:1200])
    np.testing.assert_allclose(forecaster.measurement_std_, std, rtol=1e-12)
    ahead = forecaster.forecast(5, y[1200:1240])
    assert np.all(ahead.std > 0.5 * std)  # what is measured next has it too
    assert not (forecaster.forecast(5, y[1200:1240], parts=("state",)).std > ahead.std).any()


def test_measurement_noise_is_saved_and_updated(series, forecaster, save_and_load):
    """The state is that of the rows seen."""
    _, y = series
    own = Forecaster(design=DESIGN, measurement_noise=forecaster.measurement_std_).fit(y[:1200])
    again = save_and_load(own)
    np.testing.assert_array_equal(again.measurement_std_, own.measurement_std_)
    np.testing.assert_array_equal(again.forecast(5).mean, own.forecast(5).mean)
    errors = again.errors_.cov
    again.update(y[1200:1230])
    assert np.abs(np.log(np.diagonal(again.errors_.cov) / np.diagonal(errors))).max() < 1.0  # the process's share alone follows


@pytest.mark.parametrize(("given", "message"), [
    ("much", "measurement_noise must be deviations, 'auto' or None, got 'much'"),
    ([0.1, 0.2], "measurement_noise must be a deviation, or one for each of the 3 columns of y, got an array of shape"),
    (1e200, "measurement_noise must be at most 2 deviations of each column of y"),
    (pd.Series({"a": 0.1, "b": 0.1, "c": 0.1}), "measurement_noise must have the labels of the columns of y"),
])  # fmt: skip
def test_invalid_measurement_noise_is_refused(series, given, message):
    network = ProbabilisticESN(10, washout=10, random_state=0)
    with pytest.raises(ValueError, match=message.split(",")[0]):
        Forecaster(network, measurement_noise=given).fit(series[1][:200])


def test_measurement_noise_is_matched_by_name(series):
    frame = pd.DataFrame(series[1][:200], columns=["x", "y", "z"])
    network = ProbabilisticESN(10, washout=10, random_state=0)
    found = Forecaster(network, measurement_noise=pd.Series({"z": 0.3, "x": 0.1, "y": 0.2})).fit(frame)
    np.testing.assert_allclose(found.measurement_std_, [0.1, 0.2, 0.3])
    with pytest.raises(TypeError, match="measurement_noise must be numbers, got True"):
        Forecaster(network, measurement_noise=True).fit(frame)


def test_a_constant_column_has_no_noise():
    y = np.column_stack([np.sin(0.2 * np.arange(300.0)) + 0.03 * np.random.default_rng(0).normal(size=300), np.ones(300)])
    ahead = Forecaster(design=DESIGN).fit(y).forecast(5)
    np.testing.assert_array_equal(ahead.mean[:, 1], 1.0)
    assert np.isfinite(ahead.std).all()


def test_dependent_column_does_not_widen_the_others():
    """Its residuals are rounding errors and carry no information."""
    x = np.sin(0.2 * np.arange(403.0)) + 0.05 * np.random.default_rng(1).normal(size=403)
    found = Forecaster(design=Design(Candidate("none", 4, 0, 0, (1e-12, 1e-12)))).fit(np.column_stack([x[3:], x[:-3]]))
    assert np.sqrt(found.errors_.cov[0, 0]) < 0.3


def test_process_errors_exclude_measurement_noise():
    errors = ErrorModel(np.diag([4.0, 1.0, 0.0]), np.array([0.5, 0.0, 0.0]), np.diag([3.0, 1.0, 0.0]))
    kept = process_errors(errors, np.array([3.0, 5.0, 0.0]))
    np.testing.assert_allclose(np.diagonal(kept.cov), [1.0, 0.01, 0.0])
    np.testing.assert_allclose(np.diagonal(kept.innovation), [0.75, 0.01, 0.0])
    np.testing.assert_allclose(process_share(kept, np.diag([3.0, 0.99, 0.0])), [0.25, 0.01, 1.0])
    np.testing.assert_array_equal(process_share(errors, None), 1.0)


def test_diagonal_form_with_products_has_finite_forecasts():
    y = 0.1 * np.arange(131.0)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(131, 3))
    network = ProbabilisticESN(
        18, density=0.6, covariance="diagonal", input_scaling=2.0, ridge=2e-4, noise=0.3, process_noise=0.0,
        features=Features(lags=1, products=1), random_state=0,
    )  # fmt: skip
    forecaster = Forecaster(network, measurement_noise="auto", calibrate=False).fit(y)
    assert (forecaster.measurement_std_ > 0.0).all()
    assert np.isfinite(forecaster.forecast(3).std).all()
