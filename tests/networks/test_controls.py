"""Tests of control variates: the regression agrees with least squares, the error of nearly linear networks of many inputs falls
by far, error estimates hold, and networks that they do not help have the moments of their points."""

import numpy as np
import pytest

from pesn import Gaussian, propagate
from pesn.networks.controls import Controls

S, N, D, M = 4, 50, 6, 3


@pytest.fixture
def sums():
    """Return controls of two inputs, their points along the directions, and their outputs."""
    rng = np.random.default_rng(0)
    directions = np.stack([np.linalg.qr(rng.normal(size=(D, 2)))[0] for _ in range(2)])
    points = rng.normal(size=(S * N, D))
    outputs = np.sin(points @ rng.normal(size=(2, D, M))) + points @ directions @ rng.normal(size=(2, M))[:, [0, 1, 1]]
    controls = Controls(directions, S, M)
    by_scramble = points.reshape(S, N, D)
    for part in (slice(0, 10), slice(10, N)):  # two blocks
        some = outputs.reshape(2, S, N, M)[:, :, part]
        controls.add(np.arange(2), by_scramble[:, part].reshape(-1, D), some)
    return controls, points @ directions, outputs


def regress(along, outputs):
    given = np.hstack([np.ones((len(along), 1)), along])
    coefficients = np.linalg.lstsq(given, outputs, rcond=None)[0]
    return coefficients[0], coefficients[1:], outputs - given @ coefficients


@pytest.mark.parametrize("full", [True, False])
def test_fit_equals_least_squares(sums, full):
    controls, along, outputs = sums
    square = outputs.swapaxes(1, 2) @ outputs if full else np.sum(outputs**2, axis=1)
    means, spreads = controls.fit(square, full)
    for k in range(2):
        mean, slope, rest = regress(along[k], outputs[k])
        cov = slope.T @ slope + rest.T @ rest / len(rest)
        np.testing.assert_allclose(means[k], mean, atol=1e-10)
        np.testing.assert_allclose(spreads[k], cov if full else np.diag(cov), atol=1e-10)


def test_variances_of_a_scramble_come_from_the_regression_on_the_others(sums):
    controls, along, outputs = sums
    found = controls.variances(np.arange(2), np.sum(outputs.reshape(2, S, N, M) ** 2, axis=2))
    for k in range(2):
        u, f = along[k].reshape(S, N, 2), outputs[k].reshape(S, N, M)
        slopes = [regress(np.delete(u, s, 0).reshape(-1, 2), np.delete(f, s, 0).reshape(-1, M))[1] for s in range(S)]
        mean = np.mean([f[s].mean(axis=0) - u[s].mean(axis=0) @ slopes[s] for s in range(S)], axis=0)
        for s in range(S):
            own = (f[s] - mean) ** 2 - (u[s] @ slopes[s]) ** 2
            np.testing.assert_allclose(found[k, s], own.mean(axis=0) + np.sum(slopes[s] ** 2, axis=0), atol=1e-10)


# ---------------------------------------------------------------- networks of many inputs

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from pesn.adapters.torch import read  # noqa: E402
from pesn.networks.points import PointMoments  # noqa: E402

INPUTS = 300


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(INPUTS, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 3)).double().eval()


def as_function(network):
    """Return the same network without gradients."""

    def function(rows):
        with torch.no_grad():
            return network(torch.from_numpy(rows)).numpy()

    return function


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("spread", ["var", "cov"])
def test_error_of_wide_networks_is_far_smaller(network, spread, covariance):
    rng = np.random.default_rng(0)
    root = 0.1 * np.diag(rng.uniform(0.5, 1.5, INPUTS)) + 0.01 * (spread == "cov") * rng.normal(size=(INPUTS, INPUTS))
    x = Gaussian(rng.normal(size=(2, INPUTS)), **{spread: root**2 @ np.ones(INPUTS) if spread == "var" else root @ root.T})
    truth = propagate(as_function(network), x, n_samples=2**16, rng=9)
    plain, found = (propagate(one, x, n_samples=512, covariance=covariance) for one in (as_function(network), network))
    errors = [np.abs(y.std / truth.std - 1.0).max() for y in (plain, found)]
    assert errors[1] < 0.3 * errors[0]
    assert errors[1] < 0.01
    assert np.all(found.error < 0.02)
    if covariance == "full":
        assert np.linalg.eigvalsh(found.cov).min() > 0.0
        np.testing.assert_allclose(found.cov, truth.cov, atol=0.03 * truth.var.max())


def test_error_estimates_of_controlled_points_hold(network):
    x = Gaussian(np.zeros(INPUTS), var=0.5)
    truth = propagate(network, x, n_samples=2**15, rng=99).std
    found = [propagate(network, x, n_samples=512, rng=seed) for seed in range(40)]
    inside = [np.abs(y.std / truth - 1.0).max() <= y.error for y in found]
    assert np.mean(inside) >= 0.9


class Even(nn.Module):
    """A network that no linear function explains."""

    def forward(self, x):
        return torch.cosh(x / 10.0).sum(dim=1, keepdim=True)


def test_points_come_in_pairs_where_gradients_agree(network):
    x = Gaussian(np.zeros(INPUTS), var=0.01)
    y = propagate(network, x, n_samples=512)
    np.testing.assert_allclose(y.samples[::2] + y.samples[1::2] - 2.0 * y.mean, 0.0, atol=0.2 * y.std.min())
    even = propagate(Even().eval(), Gaussian(x.mean, var=1.0), n_samples=512).samples
    assert np.mean(even[::2] == even[1::2]) < 0.1  # the points of a pair would give the same


def test_rows_of_a_batch_have_the_points_that_they_have_alone():
    """A unit that is nearly linear at one input and even at the other."""
    layers = nn.Sequential(nn.Linear(INPUTS, 1), nn.Softplus(), nn.Linear(1, 1), nn.Tanh()).double().eval()
    network = nn.Sequential(layers, Even()).eval()
    with torch.no_grad():
        layers[0].weight.fill_(1.0 / INPUTS**0.5)
        layers[0].bias.zero_()
        layers[2].weight.fill_(1.0)
        layers[2].bias.fill_(-np.log(2.0))
    x = Gaussian(np.stack([np.zeros(INPUTS), np.full(INPUTS, 2.0 / INPUTS**0.5)]), var=0.01)
    both = propagate(network, x, n_samples=512)
    for k in range(2):
        alone = propagate(network, Gaussian(x.mean[k], var=0.01), n_samples=512)
        np.testing.assert_allclose(both.std[k], alone.std, rtol=1e-9)
        np.testing.assert_allclose(both.samples[k], alone.samples, rtol=1e-12)
    points = PointMoments(read(network, x, ((INPUTS,),)), Gaussian(x.mean, var=np.full((2, INPUTS), 0.01)), 0, full=True)
    points.extend(np.arange(2), 512)
    assert points.mirrored.tolist() == [False, True]


class Detached(nn.Module):
    """A network that autograd cannot go through."""

    def forward(self, x):
        return torch.from_numpy(np.tanh(x.detach().numpy()[:, :2]))


@pytest.mark.parametrize("kind", [Even, Detached])
def test_moments_are_those_of_the_points_without_useful_gradients(kind):
    y = propagate(kind().eval(), Gaussian(np.zeros(INPUTS), var=1.0), n_samples=512)
    np.testing.assert_allclose(y.mean, y.samples.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(y.var, y.samples.var(axis=0), rtol=1e-9)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_tensors_have_the_moments_of_arrays_and_gradients(network, covariance):
    mean = np.random.default_rng(0).normal(size=INPUTS)
    std = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    options = {"n_samples": 512, "covariance": covariance}
    y = propagate(network, Gaussian(torch.from_numpy(mean), var=std**2 * torch.ones(INPUTS, dtype=torch.float64)), **options)
    arrays = propagate(network, Gaussian(mean, var=np.full(INPUTS, 0.01)), **options)
    np.testing.assert_allclose(y.mean.detach(), arrays.mean, rtol=1e-12)
    np.testing.assert_allclose(y.std.detach(), arrays.std, rtol=1e-12)
    y.std.sum().backward()
    more, less = (propagate(network, Gaussian(mean, var=np.full(INPUTS, (0.1 + step) ** 2)), **options) for step in (1e-4, -1e-4))
    assert float(std.grad) == pytest.approx((more.std - less.std).sum() / 2e-4, rel=1e-4)  # nearly the same directions
