"""An ensemble forecasts like the full covariance within its sampling error; sample paths have the means and standard
deviations of the forecast.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest

from pesn import Forecaster, ProbabilisticESN

MEMBERS = 1500


def series(n=260, seed=0):
    """Simulate position and velocity of a driven, damped oscillator with noise; also return the input."""
    rng = np.random.default_rng(seed)
    u, y = rng.normal(size=(n, 1)), np.zeros((n, 2))
    for k in range(n - 1):
        v = 0.95 * y[k, 1] - 0.15 * np.sin(y[k, 0]) + 0.1 * u[k, 0]
        y[k + 1] = y[k, 0] + v, v
    return y + 0.01 * rng.normal(size=y.shape), u


def fitted(form="full", options=None, **more):
    parameters = {"density": 0.3, "washout": 20, "random_state": 0, "process_noise": 1e-4, "n_members": MEMBERS, **more}
    forecaster = Forecaster(ProbabilisticESN(15, covariance=form, **parameters), **(options or {"calibrate": False}))
    return forecaster.fit(*series(1500))  # enough that a closed form is as good as members


def as_ensemble(forecaster, n_members=MEMBERS):
    """Return the same forecaster with an ensemble."""
    other = copy.deepcopy(forecaster)
    other.esn_.covariance, other.esn_.n_members = "ensemble", n_members
    return other


@pytest.fixture(scope="module")
def full():
    return fitted()


def agree(one, other, count=MEMBERS, deviations=5.0):
    """Check that means and standard deviations agree within sampling errors."""
    assert np.all(np.abs(one.mean - other.mean) < deviations * other.std / np.sqrt(count))
    np.testing.assert_allclose(one.std, other.std, rtol=deviations / np.sqrt(2.0 * count) + 0.02)


@pytest.mark.parametrize("rows", [1, 3, 60])
def test_ensemble_agrees_with_the_full_covariance(full, rows):
    y, u = series(seed=1)
    context, X = (y[100 : 100 + rows], u[100 : 99 + rows]), u[99 + rows : 105 + rows]
    one, other = (f.forecast(6, context, X, joint=True) for f in (as_ensemble(full), full))
    agree(one, other, deviations=6.0)
    std = other.std.ravel()
    far = np.abs(one.joint - other.joint) / np.outer(std, std)  # between rows too, by count
    assert far.max() < 8.0 / np.sqrt(MEMBERS)
    for name, part in one.variance_parts.items():
        np.testing.assert_allclose(part, other.variance_parts[name], atol=0.25 * other.var.max())


@pytest.mark.parametrize("parts", [("state",), ("noise",), ("noise", "weights"), ()])
def test_ensemble_agrees_for_each_part_of_the_variance(full, parts):
    y, u = series(seed=1)
    one, other = (f.forecast(6, (y[:30], u[:29]), u[29:35], parts=parts, joint=False) for f in (as_ensemble(full), full))
    if parts:
        agree(one, other)
    else:
        assert not one.var.any()
        assert np.all(np.abs(one.mean - other.mean) < 0.1 * full.forecast(6, (y[:30], u[:29]), u[29:35]).std)


def test_ensemble_agrees_with_missing_values_in_context_and_future_inputs(full):
    y, u = series(seed=1)
    y, u = y[:40].copy(), u[:39].copy()
    y[5], y[33:36, 0], y[38], u[37] = np.nan, np.nan, np.nan, np.nan
    X = np.array([[0.1], [np.nan], [0.2], [0.3]])
    agree(*(f.forecast(4, (y, u), X) for f in (as_ensemble(full), full)), deviations=7.0)


def test_ensemble_agrees_with_kinematics_and_feedback():
    """The position is the sum of velocities in every member."""
    moved = {"calibrate": False, "learn": [1], "kinematics": (np.array([[1.0, 0.0]]), np.eye(1), np.zeros(1))}
    forecaster = fitted(options=moved, feedback_scaling=0.2)
    y, u = series(seed=1)
    agree(*(f.forecast(8, (y[:40], u[:39]), u[39:47]) for f in (as_ensemble(forecaster), forecaster)), deviations=7.0)


def test_ensemble_is_reproducible_updated_and_saved(save_and_load, full):
    y, u = series(300, seed=2)
    calibrated = {"calibrate": True}
    forecaster, same = (fitted("ensemble", calibrated, n_members=32, process_noise="auto", density=0.2) for _ in range(2))
    np.testing.assert_array_equal(same.calibration_, forecaster.calibration_)
    first = forecaster.forecast(5, X=u[:5])
    again = forecaster.forecast(5, X=u[:5])  # a state gives the same forecast as often as it is asked
    np.testing.assert_array_equal(again.joint, first.joint)
    forecaster.update(y[:12], u[:12])
    after = forecaster.forecast(5, X=u[12:17])
    assert np.abs(after.mean - first.mean).max() > 0.01
    loaded = save_and_load(forecaster)
    np.testing.assert_array_equal(loaded.forecast(5, X=u[12:17]).joint, after.joint)
    loaded.update(y[12:14], u[12:14])
    # online updates agree with the full covariance
    one, other = as_ensemble(full), copy.deepcopy(full)
    model = one.model_
    state = model.context_filter().filter_rows(one.loop(), model.recent, model.recent_known[:-1])  # in members
    one.model_ = replace(model, state=state)
    for forecaster in (one, other):
        forecaster.update(y[:15], u[:15])
    agree(one.forecast(5, X=u[15:20]), other.forecast(5, X=u[15:20]), deviations=10.0)


# ---------------------------------------------------------------- sample paths


@pytest.mark.parametrize("form", ["full", "low-rank", "ensemble"])
def test_sample_paths_have_the_moments_of_the_forecast(full, form):
    forecaster = copy.deepcopy(full)
    forecaster.esn_.covariance, forecaster.esn_.rank = form, 6
    y, u = series(seed=1)
    context, X = (y[:40], u[:39]), u[39:44]
    paths = forecaster.sample_paths(2000, 5, context, X, rng=0)
    assert paths.shape == (2000, 5, 2)
    said = full.forecast(5, context, X, joint=True)
    assert np.all(np.abs(paths.mean(axis=0) - said.mean) < 0.15 * said.std)
    np.testing.assert_allclose(paths.std(axis=0), said.std, rtol=0.12)
    std = said.std.ravel()
    np.testing.assert_allclose(np.corrcoef(paths.reshape(2000, -1).T), said.joint / np.outer(std, std), atol=0.15)


def test_sample_paths_of_the_diagonal_form_have_its_first_step(full):
    """Later steps include the covariances that the diagonal form drops."""
    forecaster = copy.deepcopy(full)
    forecaster.esn_.covariance = "diagonal"
    y, u = series(seed=1)
    ahead = 1, (y[:40], u[:39]), u[39:40]
    paths, said = forecaster.sample_paths(2000, *ahead, rng=0), forecaster.forecast(*ahead)
    assert np.all(np.abs(paths.mean(axis=0) - said.mean) < 0.15 * said.std)
    np.testing.assert_allclose(paths.std(axis=0), said.std, rtol=0.12)


def test_sample_paths_are_calibrated_and_seeded(full):
    y, u = series(seed=1)
    arguments = 200, 30, (y[:40], u[:39]), u[39:69]
    one = full.sample_paths(*arguments, rng=0)
    np.testing.assert_array_equal(full.sample_paths(*arguments, rng=0), one)
    assert np.abs(full.sample_paths(*arguments, rng=1) - one).max() > 1e-6
    assert np.abs(full.sample_paths(*arguments) - full.sample_paths(*arguments)).max() > 1e-6
    with pytest.raises(ValueError, match=r"n must be \d+ or less for futures of 30 steps and \d columns, got 1000000000"):
        full.sample_paths(10**9, *arguments[1:])  # terabytes, after hours
    other = copy.deepcopy(full)
    other.model_ = replace(other.model_, calibration=np.linspace(1.0, 1.5, 20))
    wide, factor = other.sample_paths(*arguments, rng=0), np.append(other.calibration_, np.full(10, 1.5))[:, None]
    np.testing.assert_allclose(wide.mean(axis=0), one.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(wide.std(axis=0), factor * one.std(axis=0), rtol=1e-9)
    few = full.sample_paths(3, *arguments[1:], rng=0)  # of a hundred
    assert few.shape == (3, 30, 2)
    assert full.sample_paths(0, *arguments[1:], rng=0).shape == (0, 30, 2)


def test_sample_paths_continue_after_fit_and_in_batches(full, monkeypatch):
    u = series(seed=1)[1][:5]
    whole = full.sample_paths(900, 5, X=u, rng=0)
    monkeypatch.setattr("pesn.forecasting.predict._NUMBERS_AT_ONCE", 6000)
    pieces = full.sample_paths(900, 5, X=u, rng=0)  # as memory serves
    assert pieces.shape == whole.shape
    std = whole.std(axis=0)
    assert np.all(np.abs(pieces.mean(axis=0) - whole.mean(axis=0)) < 0.25 * std)
    np.testing.assert_allclose(pieces.std(axis=0), std, rtol=0.2)
