"""Forecasts of a field by local reservoirs: one law everywhere, learned from few rows, with error bars that hold."""

from dataclasses import replace

import numpy as np
import pytest

import pesn
from pesn.readout.groups import Patches
from pesn.systems.chaotic import lorenz96

P = 8


def lorenz_96(rows, seed=0, columns=P):
    return lorenz96(n=columns, steps=rows, rng=seed).states


Y, LATER = lorenz_96(400), lorenz_96(300, seed=1)


def a_forecaster(patches=Patches(2, 2), n_units=30, covariance="low-rank", process_noise=1e-4, **options):  # noqa: B008
    esn = pesn.ProbabilisticESN(
        n_units, local=patches, density=0.2, washout=20, ridge=1e-5, covariance=covariance, rank=30, random_state=0,
        process_noise=process_noise,
    )  # fmt: skip
    return pesn.Forecaster(esn, **{"calibrate": False, **options})


@pytest.fixture(scope="module")
def fitted():
    return a_forecaster(calibrate=True).fit(Y)


def test_shared_local_readout_needs_few_rows():
    """Compared with a global network of as many units with the best of several ridges."""
    few, later = lorenz_96(250, columns=16), lorenz_96(300, 1, columns=16)

    def error(n_units, ridge, local=None):
        esn = pesn.ProbabilisticESN(
            n_units, local=local, density=0.1, washout=20, ridge=ridge, process_noise=0.0, random_state=0,
            features=pesn.Features(products=1), covariance="diagonal",
        )  # fmt: skip
        found = pesn.Forecaster(esn, calibrate=False).fit(few).backtest(later, horizon=6, origins=20)
        return np.square(found.errors).mean()

    assert error(20, 1e-5, Patches(1, 3)) < 0.3 * min(error(320, ridge) for ridge in (1e-5, 1e-3, 1e-1))


def test_intervals_have_their_coverage(fitted):
    found = fitted.backtest(LATER, horizon=20, origins=30)
    assert 0.88 < np.mean(found.coverage(0.95)) <= 1.0


def test_forecasts_are_equivariant_to_shifts_by_a_patch():
    """With the same error model for all columns."""
    forecaster = a_forecaster().fit(Y[:200])
    model, (low, high) = forecaster.model_, forecaster.model_.columns.range
    errors = model.errors._replace(cov=np.eye(P), innovation=np.eye(P), persistence=np.zeros(P), weights=np.ones(P))
    prior = forecaster.prior_scale_._replace(y_mean=np.zeros(P), y_std=np.ones(P))
    columns = model.columns._replace(range=(np.full(P, low.min()), np.full(P, high.max())), prior=prior)
    forecaster.model_ = replace(model, errors=errors, columns=columns)
    one, other = forecaster.forecast(5, LATER[:60]), forecaster.forecast(5, np.roll(LATER[:60], 2, axis=1))
    np.testing.assert_allclose(other.mean, np.roll(one.mean, 2, axis=1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(other.std, np.roll(one.std, 2, axis=1), rtol=0.02)


@pytest.mark.parametrize("rows", [1, 3, 60])
def test_contexts_may_be_short(fitted, rows):
    forecast = fitted.forecast(3, LATER[100 - rows : 100])
    assert (np.abs(forecast.mean - LATER[100:103]) < 6.0 * forecast.std).all()
    if rows > 1:
        assert forecast.std[0].mean() < fitted.forecast(3, LATER[99:100]).std[0].mean()


def test_closed_form_agrees_with_sample_paths(fitted):
    """Standard deviations of the low-rank form against Monte Carlo."""
    forecast = fitted.forecast(6, LATER[:100])
    paths = fitted.sample_paths(1500, 6, LATER[:100], rng=0)
    np.testing.assert_allclose(forecast.std[:4], paths.std(axis=0)[:4], rtol=0.2)
    low, full = (a_forecaster(covariance=form).fit(Y).forecast(6, LATER[:100]) for form in ("low-rank", "full"))
    np.testing.assert_allclose(low.std[:4], full.std[:4], rtol=0.1)
    np.testing.assert_allclose(low.mean[:4], full.mean[:4], atol=0.2 * full.std[:4].max())


def test_known_inputs_are_seen_by_every_patch():
    """A force acts on the whole field."""
    rng = np.random.default_rng(0)
    u, y = rng.standard_normal((300, 1)), np.zeros((300, 4))
    for k in range(299):
        y[k + 1] = 0.5 * y[k] + 0.3 * np.roll(y[k], 1) + u[k] + 0.01 * rng.standard_normal(4)
    forecaster = a_forecaster(Patches(1, 1), 10).fit(y[:250], u[:250])
    found = forecaster.backtest(y[250:], u[250:], horizon=3, origins=10)
    assert np.sqrt(np.mean(np.square(found.errors))) < 0.1
    assert np.isfinite(forecaster.forecast(2, (y[200:203], u[200:202]), np.array([[1.0], [np.nan]])).std).all()
    assert np.isfinite(forecaster.forecast(2, np.where(np.arange(4) == 1, np.nan, y[200:201]), u[:2]).std).all()
    blurred = pesn.Gaussian(y[200], var=np.full(4, 0.01))
    wide, narrow = forecaster.forecast(2, blurred, u[:2]), forecaster.forecast(2, y[200:201], u[:2])
    assert (wide.std > narrow.std).all()


def test_local_forecaster_is_updated_and_saved(fitted, save_and_load):
    again = save_and_load(fitted)
    np.testing.assert_array_equal(again.forecast(3).mean, fitted.forecast(3).mean)
    before = again.esn_.readout_.weights.copy()
    again.update(LATER[:5])
    assert np.abs(again.esn_.readout_.weights - before).max() > 0.0
    assert not again.esn_.readout_.weights[before == 0.0].any()
    np.testing.assert_allclose(save_and_load(again).forecast(3).std, again.forecast(3).std, rtol=1e-12)


@pytest.mark.parametrize("patches", [Patches(4, 2, shared=False), Patches(2, 2, periodic=False)])
def test_patches_of_all_kinds_forecast(patches):
    found = a_forecaster(patches).fit(Y).backtest(LATER, horizon=2, origins=10)
    assert np.square(found.errors).mean() < 0.1 * Y.var()


@pytest.mark.parametrize(("options", "says"), [
    ({"ignorable": 0}, "ignorable"), ({"angles": [1]}, "angles"),
    ({"learn": list(range(1, P)), "kinematics": (np.zeros((1, P)), np.zeros((1, P - 1)), np.zeros(1))}, "learn"),
    ({"patches": Patches(3, 1)}, "local .*multiple of size=3, got 8"),
])  # fmt: skip
def test_columns_that_are_no_field_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        a_forecaster(**options).fit(Y[:60])
