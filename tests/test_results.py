"""Every result is a distribution with one protocol, whose moments, quantiles, draws and scores agree."""

from itertools import product

import numpy as np
import pytest

import pesn
from pesn.evaluation.backtest import Normal
from pesn.forecasting.rollout import Rollout
from pesn.gaussian import Gaussian
from pesn.series.result import NORMAL, SeriesForecast

RNG = np.random.default_rng(0)


def covariances(*shape):
    root = RNG.normal(size=(*shape, shape[-1]))
    return root @ np.swapaxes(root, -1, -2)


def forecast():
    joint = covariances(6)
    return pesn.Forecast(RNG.normal(size=(3, 2)), joint, {"all": np.diag(joint).reshape(3, 2)})


def rollout(lagged=False):
    cov = np.repeat(covariances(2, 1, 2), 3, axis=1)  # stationary, y_{t+1} = y_t / 2 + noise
    return Rollout(RNG.normal(size=(2, 3, 2)), np.zeros((2, 3, 1)), cov, 0.5 * cov[:, 1:] if lagged else None)


RESULTS = {
    "Normal": Normal(RNG.normal(size=(3, 2)), np.exp(RNG.normal(size=(3, 2)))),
    "Gaussian": Gaussian(RNG.normal(size=3), cov=covariances(3)),
    "Gaussian, factor": Gaussian(RNG.normal(size=(2, 3)), var=0.1, factor=RNG.normal(size=(2, 3, 2))),
    "propagate": pesn.propagate([pesn.Dense(np.eye(2), np.zeros(2), "tanh")], Gaussian([0.3, -0.2], var=[0.5, 0.1])),
    "Forecast": forecast(),
    "Rollout": rollout(),
    "SeriesForecast": SeriesForecast(
        RNG.normal(size=(3, 2)), np.exp(RNG.normal(size=(3, 2))), np.array([50.0, NORMAL]), names=("a", "b")
    ),
}


@pytest.fixture(params=RESULTS)
def result(request):
    return RESULTS[request.param]


def test_moments_quantiles_and_intervals_agree(result):
    shape = np.shape(result.mean)
    np.testing.assert_allclose(result.quantile(0.5), result.median, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(result.var, np.square(result.std), rtol=1e-12)
    lower, upper = result.interval(0.9)
    np.testing.assert_allclose(np.stack([lower, upper]), result.quantile([0.05, 0.95]), rtol=1e-9, atol=1e-12)
    assert (lower < result.median).all()
    assert (result.median < upper).all()
    assert result.quantile([0.1, 0.2, 0.3]).shape == (3, *shape)
    with pytest.raises(ValueError, match="q must be"):
        result.quantile(1.5)
    for method, wrong in product((result.quantile, result.interval), (0.0, "half", None)):
        with pytest.raises((ValueError, TypeError)):
            method(wrong)


def test_draws_have_the_mean_and_the_standard_deviation(result):
    draws = result.sample(20_000, rng=0)
    assert draws.shape == (20_000, *np.shape(result.mean))
    assert (np.abs(draws.mean(axis=0) - result.mean) < 0.05 * result.std).all()
    np.testing.assert_allclose(draws.std(axis=0), result.std, rtol=0.05)
    np.testing.assert_array_equal(result.sample(3, rng=1), result.sample(3, rng=1))


def test_the_score_is_smallest_near_the_truth(result):
    """The CRPS is proper: on average over draws of the result, no shift scores better than the median."""
    center, std = result.median, result.std
    here, near, far = (result.crps(center + k * std) for k in (0.0, 1.0, 5.0))
    assert ((here > 0.0) & (here < near)).all()
    assert (near < far).all()
    missing = np.array(center)
    missing[..., 0] = np.nan
    np.testing.assert_array_equal(np.isnan(result.crps(missing)), np.isnan(missing))


def test_paths_of_a_rollout_have_the_covariances_of_successive_rows():
    found = rollout(lagged=True)
    away = found.sample(100_000, rng=0) - found.mean
    lagged = np.einsum("nbti,nbtj->btij", away[:, :, 1:], away[:, :, :-1]) / len(away)
    scale = found.std[:, 1:, :, None] * found.std[:, :-1, None, :]
    np.testing.assert_allclose(lagged / scale, found.lagged / scale, atol=0.03)


def test_tensors_say_where_their_quantiles_are():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"quantile is of arrays, got TensorGaussian; its numpy\(\) has it"):
        Gaussian(torch.zeros(2), var=torch.ones(2)).quantile(0.5)
