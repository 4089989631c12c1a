"""Weight errors persist along a forecast, and an ensemble replaces the closed form where it is not trusted."""

import numpy as np
import pytest

from pesn import Forecaster
from pesn.forecasting.design import Candidate, Design
from pesn.forecasting.predict import follow_mean, predict_path
from pesn.statespace.ensemble import Ensemble, MirroredDraws
from pesn.statespace.model import rollout
from pesn.systems import chaotic

DESIGNS = {"units": Candidate("static 0.5", 1, 0, 30, (1e-6, 1e-6)), "products": Candidate("static 0.5", 0, 1, 30, (1e-8, 1e-8))}


@pytest.fixture(scope="module", params=list(DESIGNS))
def case(request):
    y = chaotic.lorenz(runs=1, steps=600, rng=0)[0].states
    y = y + 0.01 * y.std(axis=0) * np.random.default_rng(0).standard_normal(y.shape)
    forecaster = Forecaster(design=Design(DESIGNS[request.param]), calibrate=False, measurement_noise=0.0).fit(y[:300])
    loop, rows = forecaster.loop(), forecaster.standardize(y[300:340], np.zeros((40, 0)))[0]
    return loop, forecaster.model_.context_filter().advance(loop, rows, np.zeros((40, 0))), forecaster, y


def std_of(path):
    return np.sqrt(np.diagonal(path.cov, axis1=-2, axis2=-1))


def test_directions_have_the_leverage_of_each_step(case):
    """The sum of squares is bᵀ A⁻¹ b exactly; products of two steps are bᵀ A⁻¹ b′ approximately."""
    errors = case[0].weight_errors
    rng, t = np.random.default_rng(0), np.arange(40.0)[:, None]
    S = errors.root
    b = np.sin(0.1 * t * rng.uniform(size=len(S)) + rng.uniform(0.0, 6.0, (2, 1, len(S))))  # (2, 40, p)
    along, v = errors.project(b), b @ S
    np.testing.assert_allclose(np.sum(along**2, axis=-1), np.sum(v**2, axis=-1), rtol=1e-9)
    size = np.linalg.norm(v, axis=-1)
    between = (along @ along.mT - v @ v.mT) / (size[:, :, None] * size[:, None, :])
    assert np.abs(between).max() < 0.2
    np.testing.assert_array_equal(errors.project(b[:, :10]), along[:, :10])
    assert not errors.project(np.zeros((3, len(errors.root)))).any()


def test_persistent_weight_errors_agree_with_an_ensemble(case):
    """Closed form against 4,000 members with one draw of the weights for all steps."""
    loop, state, _, _ = case
    inputs = np.zeros((12, 0))
    _, along = follow_mean(loop, state, inputs)
    closed = rollout(loop.forecast_model, state, inputs, moved=True, along=along, joint=True)
    away = state.sample(2000, np.random.default_rng(1)) - state.mean
    start = Ensemble(state.mean + np.concatenate([away, -away]), state.carried, MirroredDraws(1, sobol=True))
    members = rollout(loop.forecast_model, start, inputs, moved=True, along=along, joint=True)
    np.testing.assert_allclose(std_of(closed), std_of(members), rtol=0.1)
    assert np.all(np.abs(closed.mean - members.mean) < 0.1 * std_of(members))
    size = np.outer(std_of(members).ravel(), std_of(members).ravel())
    assert np.abs((closed.joint.reshape(size.shape) - members.joint.reshape(size.shape)) / size).max() < 0.12
    for path in (closed, members):
        assert np.all(path.parts["weights"][-1] > path.parts["weights"][0])
        total = sum(path.parts.values())
        np.testing.assert_allclose(total, np.diagonal(path.cov, axis1=-2, axis2=-1), rtol=1e-9)
    # persistent weight errors are wider than independent ones
    loop, state, _, _ = case
    inputs = np.zeros((15, 0))
    staying, fresh = predict_path(loop, state, inputs), rollout(loop.model, state, inputs, moved=True)
    assert staying.parts["weights"][-1].sum() > fresh.parts["weights"][-1].sum()


def test_ensemble_takes_over_far_ahead(case):
    """Standard deviations far ahead of a chaotic system stay near those of training."""
    _, _, forecaster, y = case
    ahead = forecaster.forecast(300, y[300:340], joint=False)
    assert np.isfinite(ahead.mean).all()
    late = ahead.std[-50:] / y.std(axis=0)
    assert late.max() < 2.01
    assert np.median(late) > 0.2
    np.testing.assert_array_equal(ahead.mean, forecaster.forecast(300, y[300:340], joint=False).mean)  # by their own seed
    # joint covariance is semidefinite
    ahead = forecaster.forecast(60, y[300:340], joint=True)
    values = np.linalg.eigvalsh(ahead.joint / np.outer(ahead.std.ravel(), ahead.std.ravel()))
    assert values[0] > -1e-8


def test_mirrored_draws_have_mean_zero():
    numbers, later = MirroredDraws(3, sobol=True).normal((2,), 64, 5)
    assert numbers.shape == (2, 64, 5)
    np.testing.assert_allclose(numbers.sum(axis=1), 0.0, atol=1e-12)
    assert isinstance(later, MirroredDraws)
    assert np.abs(later.normal((2,), 64, 5)[0] - numbers).max() > 0.1


def test_forecast_with_many_products_agrees_with_sample_paths():
    """12 columns have 300 products of two rows, which are no entries of the state."""
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.standard_normal((900, 12)), axis=0)
    y = np.sin(0.05 * y + rng.uniform(0.0, 6.0, 12)) + 0.01 * rng.standard_normal(y.shape)
    design = Design(Candidate("none", 1, 2, 0, (1e-3, 1e-1)))
    forecaster = Forecaster(design=design, calibrate=False, measurement_noise=0.0).fit(y[:800])
    assert forecaster.loop().layout.size == 36
    closed = forecaster.forecast(5, y[800:840], joint=False)
    paths = forecaster.sample_paths(1000, 5, y[800:840], rng=0)
    np.testing.assert_allclose(closed.std, paths.std(axis=0), rtol=0.15)
    assert (np.abs(closed.mean - paths.mean(axis=0)) < 0.15 * closed.std).all()
