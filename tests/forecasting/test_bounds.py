"""Forecasts stay within bounds at any horizon and in any form; a warning is logged if they would leave them."""

import copy
import logging
from dataclasses import replace

import numpy as np
import pytest

from pesn import Forecaster, ProbabilisticESN
from pesn.forecasting.design import KINDS, MAPS, Candidate, Design
from pesn.statespace.cell import Compression
from pesn.statespace.ensemble import Ensemble, MirroredDraws
from pesn.statespace.model import Bounds, init
from pesn.systems import cart_pole
from pesn.systems.chaotic import lorenz, lorenz96, roessler

HALF = 0.01
KINEMATICS = (np.array([[1, 0, HALF, 0], [0, 1, 0, HALF]]), HALF * np.eye(2), np.zeros(2))


def fitted(y, X=None, *, n=30, lengths=None, learn=None, kinematics=None, calibrate=False, **more):
    esn = ProbabilisticESN(n, **{"washout": "auto", "random_state": 0, "process_noise": 0.0, **more})
    return Forecaster(esn, calibrate=calibrate, learn=learn, kinematics=kinematics).fit(y, X, lengths)


def noisy(system, share=0.01, seed=0, **more):
    y = system(rng=seed, **more).states
    return y + share * y.std(axis=0) * np.random.default_rng(seed).normal(size=y.shape)


def stays(forecast, y, columns=slice(None)):
    """Check that means stay within the doubled range of y and standard deviations below three of y."""
    low, high, std = y.min(axis=0), y.max(axis=0), y.std(axis=0)
    width = high - low
    assert np.isfinite(forecast.cov).all()
    inside = (forecast.mean >= low - width) & (forecast.mean <= high + width)
    assert inside[:, columns].all()
    assert (forecast.std[:, columns] <= 3.0 * std[columns] * (1.0 + 1e-9)).all()
    np.testing.assert_allclose(sum(forecast.variance_parts.values()), forecast.var, rtol=1e-6)
    assert min(np.linalg.eigvalsh(cov / np.outer(std, std))[0] for cov in forecast.cov[::50]) > -1e-9
    return True


def grown(forecaster, factor):
    """Scale the readout weights so that the loop diverges."""
    esn, readout = copy.copy(forecaster.esn_), forecaster.esn_.readout_
    esn.readout_ = readout._replace(weights=readout.weights * factor)
    forecaster.model_ = replace(forecaster.model_, esn=esn)
    return forecaster


# ---------------------------------------------------------------- far ahead


@pytest.mark.parametrize(("form", "ridge"), [("full", 1e-6), ("full", 1e-12), ("low-rank", 1e-6), ("diagonal", 1e-12)])
def test_diverging_loop_stays_within_bounds(form, ridge):
    """Without bounds, means of Lorenz 96 with noise reach 1e5 standard deviations within 60 steps."""
    y = noisy(lorenz96, steps=1100, dt=0.02, transient=5.0)
    forecaster = fitted(y[:1000], n=40, ridge=ridge, covariance=form, rank=20)
    assert stays(forecaster.forecast(60, y[1050:1080]), y[:1000])


def test_leaving_the_training_range_is_logged_once(caplog):
    y = noisy(lorenz, steps=300)
    forecaster = grown(fitted(y), 6.0)
    with caplog.at_level(logging.WARNING, "pesn"):
        assert stays(forecaster.forecast(30), y)
    (record,) = caplog.records
    assert record.name == "pesn.forecasting"
    assert "left the range of training at step" in record.getMessage()


SYSTEMS = {
    "Lorenz": lambda: (noisy(lorenz, steps=500), {}),
    "Rössler": lambda: (noisy(roessler, steps=500), {"feedback_scaling": 0.3}),
    "Lorenz, low rank": lambda: (noisy(lorenz, steps=500, seed=1), {"covariance": "low-rank", "rank": 10}),
    "Lorenz, diagonal": lambda: (noisy(lorenz, steps=500, seed=2), {"covariance": "diagonal"}),
    "a walk": lambda: (np.cumsum(np.random.default_rng(0).normal(size=(500, 2)), axis=0), {}),
    "white": lambda: (np.random.default_rng(0).normal(size=(60, 2)), {"feedback_scaling": 0.3}),
}


@pytest.mark.parametrize(("ridge", "factor"), [(1e-6, 4.0), (1e-12, -2.0)])
@pytest.mark.parametrize("system", SYSTEMS)
def test_loop_with_inflated_weights_stays_within_bounds(system, ridge, factor):
    y, more = SYSTEMS[system]()
    assert stays(grown(fitted(y, n=20, density=0.2, ridge=ridge, **more), factor).forecast(60, joint=False), y)


@pytest.mark.parametrize("system", ["Lorenz, diagonal", "a walk"])
def test_a_thousand_steps_stay_within_bounds(system):
    y, more = SYSTEMS[system]()
    assert stays(fitted(y, n=10, density=0.3, ridge=1e-12, **more).forecast(1000, joint=False), y)


# ---------------------------------------------------------------- every design


def stays_or_returns(forecast, y, last):
    """Check the same for a context outside the range, which returns by a twentieth of the distance in each step."""
    low, high, std = y.min(axis=0), y.max(axis=0), y.std(axis=0)
    width, steps = np.maximum(high - low, 2.0 * std), np.arange(1, len(forecast.mean) + 1)[:, None]
    out = np.maximum(np.maximum(low - width - last, last - high - width), 0.0) * 0.95**steps
    assert np.isfinite(forecast.cov).all()
    assert (forecast.mean >= low - width - out - 1e-9 * std).all()
    assert (forecast.mean <= high + width + out + 1e-9 * std).all()
    assert (forecast.std <= 3.0 * std * (1.0 + 1e-9)).all()
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_no_design_diverges_with_tiny_ridges(kind, caplog):
    """From rows 30 standard deviations away, or a last row at 10,000; `benchmarks/run.py uncertainty bounds` has all features."""
    y = noisy(lorenz, share=0.05, steps=200)
    far = y[150:190] + 30.0 * y.std(axis=0)
    jump = np.vstack([y[150:189], 1e4 * y[189:190]])
    first = list(KINDS).index(kind) % 2
    for (lags, products), context in zip(MAPS[first::2], (far, jump), strict=True):
        design = Design(Candidate(kind, lags, products, 0 if kind == "none" else 12, (1e-15, 1e-15)))
        forecaster = Forecaster(design=design, calibrate=False).fit(y[:150])
        caplog.clear()
        forecast = forecaster.forecast(50, context, joint=False)
        assert stays_or_returns(forecast, y[:150], context[-1])
        if context is jump:  # nothing that was learned leads back from there
            assert "left the range of training" in caplog.text


def test_calibration_is_limited_to_three_standard_deviations():
    y = noisy(lorenz, steps=400)
    forecaster = fitted(y)
    forecaster.model_ = replace(forecaster.model_, calibration=np.full(20, 10.0))
    forecast = forecaster.forecast(60, joint=True)
    assert stays(forecast, y)
    assert np.linalg.eigvalsh(forecast.joint)[0] > -1e-9 * np.linalg.eigvalsh(forecast.joint)[-1]


def test_kinematic_columns_may_leave_the_training_range():
    """Velocities are bounded; positions integrate them beyond the range, with limited standard deviations."""
    runs = cart_pole.simulate(runs=3, steps=300, rng=0)
    y = runs.states
    forecaster = grown(fitted(y, runs.inputs, lengths=runs.lengths, learn=[2, 3], kinematics=KINEMATICS), 3.0)
    forecast = forecaster.forecast(200, X=np.zeros((200, 1)), joint=False)
    assert stays(forecast, y, [2, 3])
    away = np.abs(forecast.mean - y.mean(axis=0))
    assert (forecast.std <= np.maximum(3.0 * y.std(axis=0), 0.5 * away) * (1.0 + 1e-9)).all()
    v = y[:, 2:]
    reach = np.maximum(np.abs(v.min(axis=0)), np.abs(v.max(axis=0))) + np.ptp(v, axis=0)
    assert (np.abs(np.diff(forecast.mean[:, :2], axis=0)) <= 2 * HALF * reach + y.std(axis=0)[:2]).all()


def test_observed_rows_are_not_bounded():
    """Bounds apply to forecast rows only."""
    y = noisy(lorenz, steps=500)
    forecaster = fitted(y[:400])
    loop, nothing = forecaster.loop(), np.zeros((30, 0))
    rows, _ = forecaster.standardize(y[400:430] + 30.0 * y.std(axis=0), nothing)
    context = forecaster.model_.context_filter()
    bound, free = (context.filter_rows(each, rows, nothing[1:]) for each in (loop, replace(loop, guard=None)))
    np.testing.assert_allclose(bound.mean, free.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(bound.variances(), free.variances(), rtol=0, atol=1e-9)


def test_trend_continues_within_its_widened_range(caplog):
    t = np.arange(400.0)
    y = np.column_stack([0.05 * t, np.sin(0.2 * t)])
    forecast = fitted(y[:300]).forecast(100)
    assert (np.diff(forecast.mean[:, 0]) > 0.0).all()
    assert not caplog.records


# ---------------------------------------------------------------- rounding


@pytest.mark.parametrize("system", ["Lorenz", "Rössler"])
def test_tiny_variance_parts_are_semidefinite(system):
    """Cancellation in W Σ Wᵀ leaves rounding errors, which must not make covariances indefinite."""
    y = {"Lorenz": lorenz, "Rössler": roessler}[system](steps=700, rng=0).states
    forecaster = fitted(y[:500], n=100, ridge=1e-12)
    for k in range(520, 660, 10):
        forecast = forecaster.forecast(20, y[k - 20 : k], parts=("state",))
        assert np.isfinite(forecast.sample(3, rng=0)).all()


@pytest.mark.parametrize("form", ["full", "diagonal", "low-rank", "none"])
def test_kinematics_do_not_accumulate_bounded_velocities(form):
    """A position that would move by more than its range in one step is bounded."""
    bounds = Bounds(np.zeros(3), np.ones(3), -np.ones(3), np.ones(3), np.array([True, True, False]))
    mean, before = np.array([1e40, 5.5, 7.0]), np.array([4.5, 4.6, 0.5])
    state = init(form, 3, np.zeros(0), np.zeros((1, 0)), Compression(2, np.zeros((0, 0))), 1e20 * np.ones((1, 3)))
    state = state.affine(slice(0, 3), np.eye(3), mean)
    held, _, left = bounds(state, before)
    assert left.tolist() == [True, False, True]
    assert np.abs(held.mean[0]) <= 4.5
    assert np.abs(held.mean[1]) <= 5.5  # it goes on beyond the range, as kinematics do
    assert np.sqrt(held.block_covariance(slice(0, 3)).diagonal()).max() <= 3.0


def test_ensemble_of_kinematic_columns_stays_bounded():
    bounds = Bounds(np.zeros(2), np.ones(2), -np.ones(2), np.ones(2), np.array([True, False]))
    members = np.zeros((64, 2))
    members[:, 0] = 5.0 + np.linspace(-3.0, 3.0, 64)
    members[:4, 0] = 1e30
    held, _, _ = bounds(Ensemble(members, 2, MirroredDraws(0)), np.array([5.0, 0.0]))
    np.testing.assert_array_equal(held.members[4:], members[4:])
    assert np.abs(held.members[:4, 0] - 5.0).max() < 5.0
