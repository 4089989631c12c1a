"""Claim: mean and covariance of networks with uncertain weights and dropout are those of samples with drawn weights, and exact
where the input of each activation is Gaussian; points agree with the closed form; arrays, tensors and dtypes give the same."""

import pickle
from itertools import pairwise, product

import numpy as np
import pytest

from pesn import Dense, Gaussian, propagate
from pesn.networks import Dropout, propagate_gaussian
from pesn.networks.layers import cast_layer, fold_dropout, forward, weight_noise

X = Gaussian([0.5, -1.0, 0.3], cov=[[0.2, 0.1, 0.0], [0.1, 0.3, 0.0], [0.0, 0.0, 0.1]])
CERTAIN = Gaussian(X.mean)


def network(widths=(3, 20, 20, 2), activation="tanh", std=0.15, dropout=0.1, seed=0):
    rng, layers = np.random.default_rng(seed), []
    for n, m in pairwise(widths):
        W_var = (std * rng.uniform(0.5, 1.5, size=(m, n))) ** 2 / n
        f = "identity" if m == widths[-1] else activation
        layers += [Dropout(dropout), Dense(rng.normal(size=(m, n)) / np.sqrt(n), rng.normal(size=m), f, W_var=W_var, b_var=0.01)]
    return layers


def draw_outputs(layers, x, n):
    """Run ``n`` networks, each with its own weights, masks and input."""
    rng = np.random.default_rng(1)
    rows, masks = x.sample(n, rng=rng), iter(layers)
    for layer in masks:
        if isinstance(layer, Dropout):
            rows = rows * rng.binomial(1, 1.0 - layer.p, rows.shape) / (1.0 - layer.p)
            continue
        W = layer.W + np.sqrt(layer.W_var) * rng.standard_normal((n, *layer.W.shape))
        b = layer.b + np.sqrt(layer.b_var) * rng.standard_normal((n, len(layer.b)))
        rows = layer.activation(np.einsum("nij,nj->ni", W, rows) + b)
    return rows


@pytest.mark.parametrize("x", [X, CERTAIN], ids=["uncertain input", "certain input"])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_affine_layers_are_exact(x, dropout):
    """Cov(W d h + b) by the law of total covariance, entry by entry, of two layers."""
    layers, mean, cov = network((3, 4, 2), "identity", 0.5, dropout), x.mean, x.cov
    for mask, layer in zip(layers[::2], layers[1::2], strict=True):
        second = cov + np.outer(mean, mean)
        second[np.diag_indices(len(mean))] /= 1.0 - mask.p
        expected = np.einsum("ij,jl,kl->ik", layer.W, second, layer.W)
        for i in range(len(layer.b)):
            expected[i, i] += layer.W_var[i] @ np.diagonal(second) + layer.b_var[i]
        cov, mean = expected - np.outer(layer.W @ mean, layer.W @ mean), layer.W @ mean + layer.b
    y = propagate(layers, x)
    np.testing.assert_allclose(y.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(y.cov, cov, rtol=1e-10)
    assert (y.closure, y.error) == ("gaussian", 0.0)
    diagonal = propagate_gaussian(layers[:2], Gaussian(x.mean, var=x.var), covariance="diagonal")[-1]
    full = propagate_gaussian(layers[:2], Gaussian(x.mean, var=x.var))[-1]
    np.testing.assert_allclose(diagonal.var, full.var, rtol=1e-12)


@pytest.mark.parametrize(
    ("x", "options"),
    [(CERTAIN, {"dropout": 0.0}), (X, {}), (Gaussian(X.mean, var=0.04), {"activation": "relu", "std": 0.3})],
    ids=["weights", "all", "relu"],
)
def test_closed_form_and_points_agree_with_drawn_networks(x, options):
    layers = network(**options)
    out, some = forward(fold_dropout(layers), x.sample(400_000, rng=2), 3), draw_outputs(layers, x, 20_000)
    closed, points = propagate(layers, x, closure="gaussian"), propagate(layers, x)
    np.testing.assert_allclose(some.std(axis=0), out.std(axis=0), rtol=0.025)  # five standard errors
    np.testing.assert_allclose(closed.std, out.std(axis=0), rtol=0.01)
    np.testing.assert_allclose(closed.mean, out.mean(axis=0), atol=0.01 * closed.std.max())
    np.testing.assert_allclose(closed.cov, np.cov(out.T), atol=0.02 * closed.var.max())
    assert closed.error < 0.03
    assert points.closure == "sobol"
    assert points.error <= 0.01
    np.testing.assert_allclose(points.std, closed.std, rtol=0.02)
    assert propagate(layers, x).std.tolist() == points.std.tolist() != propagate(layers, x, rng=1).std.tolist()


def test_auto_is_exact_where_activations_take_gaussians():
    first, second, last = (Dense(np.eye(3), None, f, W_var=v) for f, v in (("tanh", 0.1), ("tanh", 0.0), ("identity", 0.1)))
    b_alone = Dense(np.eye(3), None, "tanh", b_var=0.1)
    exact = [([first, last], CERTAIN), ([b_alone, last], X), ([Dense(np.eye(3)), b_alone, Dropout(0.5)], X)]
    other = [([first, last], X), ([first, second], CERTAIN), ([Dropout(0.1), second], CERTAIN)]
    assert [propagate(layers, x).closure for layers, x in exact] == ["gaussian"] * 3
    assert [propagate(layers, x).closure for layers, x in other] == ["sobol"] * 3


def test_zero_variances_change_nothing_and_dropouts_multiply():
    plain = Dense([[1.0, 2.0, -1.0]], [0.5], "tanh")
    zero = Dense(plain.W, plain.b, "tanh", W_var=np.zeros((1, 3)), b_var=0)
    assert repr(zero) == repr(plain)
    assert propagate([Dropout(0), zero], X).var == propagate([plain], X).var
    twice, once = ([*masks, Dense(plain.W)] for masks in ([Dropout(0.5), Dropout(0.2)], [Dropout(0.6)]))
    np.testing.assert_allclose(propagate(twice, X).var, propagate(once, X).var, rtol=1e-12)
    (last,) = fold_dropout([plain, Dropout(0.25)])[1:]
    assert repr(last) == "Dense(1 -> 1, 'identity', dropout 0.25)"
    random = fold_dropout(network())[0]
    assert repr(random) == "Dense(3 -> 20, 'tanh', uncertain weights, dropout 0.1)"
    again = pickle.loads(pickle.dumps(random))
    assert (again.dropout, again.W_var.tolist()) == (random.dropout, random.W_var.tolist())


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1e20, 1e154, 1e160])
def test_no_overflow_at_any_scale(scale):
    """The variance of w h is W_var h², which overflows later than h²."""
    layer = Dense([[0.0]], W_var=1e-40)
    y = propagate_gaussian([layer], Gaussian([scale], var=0.0))[-1]
    np.testing.assert_allclose(y.var, (1e-20 * scale) ** 2, rtol=1e-12)
    assert np.isfinite(weight_noise(layer, np.zeros(1), np.array([1e300]))).all()


def test_batches_and_float32_agree_with_single_rows():
    layers, means = network(), np.random.default_rng(0).normal(size=(4, 3))
    y = propagate_gaussian(layers, Gaussian(means, var=0.1))[-1]
    small = [layer if isinstance(layer, Dropout) else cast_layer(layer, np.float32) for layer in layers]
    z = propagate_gaussian(small, Gaussian(means.astype(np.float32), var=np.float32(0.1)))[-1]
    assert z.cov.dtype == np.float32
    np.testing.assert_allclose(z.cov, y.cov, rtol=1e-3, atol=1e-5)
    for i in range(4):
        np.testing.assert_allclose(propagate_gaussian(layers, Gaussian(means[i], var=0.1))[-1].cov, y.cov[i], rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Dense([[1.0, 2.0]], W_var=-1.0), r"W_var must not be negative, got -1\.0"),
        (lambda: Dense([[1.0, 2.0]], W_var=[1.0, 2.0]), r"W_var must be a number or have shape \(1, 2\), as W has, got \(2,\)"),
        (lambda: Dense([[1.0, 2.0]], b_var=[[1.0]]), r"b_var must be a number or have shape \(1,\), as b has, got \(1, 1\)"),
        (lambda: Dense([[1.0, 2.0]], W_var=np.nan), "W_var must be finite"),
        (lambda: Dropout(1.0), r"p must lie in \[0, 1\), got 1\.0"),
        (lambda: Dropout(float("nan")), r"p must lie in \[0, 1\), got nan"),
        (lambda: propagate([Dropout(0.5)], X), "network must have a pesn.Dense beside pesn.networks.Dropout"),
        (lambda: propagate(network(), X, closure="third-order"), "closure must be 'auto', 'gaussian' or 'sobol' for uncertain"),
        (
            lambda: propagate_gaussian(network(), X, covariance="low-rank"),
            "covariance must be 'full' or 'diagonal' for uncertain",
        ),
        (lambda: propagate_gaussian(network(), X, dropout=True), "weight_var and dropout go with a torch module"),
        (lambda: propagate_gaussian(network(), X, weight_var={}), r"pesn\.Dense\(\.\.\., W_var=, b_var=\)"),
    ],
)
def test_bad_variances_and_options_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---------------------------------------------------------------- torch modules


@pytest.fixture
def module():
    torch = pytest.importorskip("torch", reason="torch is an extra")
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 2), nn.Dropout(0.3)
    ).double()
    net[1].running_var[:] = torch.linspace(0.5, 2.0, 8)
    return net.eval(), {"0.weight": 0.02, "0.bias": torch.full((8,), 0.01).double(), "5.weight": np.full((2, 8), 0.03)}


def test_modules_agree_with_their_layers_on_arrays_and_tensors(module):
    from pesn.adapters.torch import as_layers

    net, variances = module
    factor = 1.0 / np.sqrt(net[1].running_var.numpy() + net[1].eps)
    W, b, V, c = (net[place].get_parameter(name).detach().numpy() for place in (0, 5) for name in ("weight", "bias"))
    layers = [
        Dense(factor[:, None] * W, factor * b, W_var=0.02 * np.outer(factor**2, np.ones(3)), b_var=0.01 * factor**2),
        Dropout(0.2), Dense(np.eye(8), None, "tanh"), Dropout(0.1), Dense(V, c, W_var=0.03), Dropout(0.3),
    ]  # fmt: skip
    for x, covariance in product((X, X.to_torch()), ("full", "diagonal")):
        states = propagate_gaussian(net, x, weight_var=variances, dropout=True, covariance=covariance)
        for one, expected in zip(states, propagate_gaussian(layers, X, covariance=covariance), strict=True):
            np.testing.assert_allclose(one.mean.tolist(), expected.mean, rtol=1e-6)
            np.testing.assert_allclose(one.var.tolist(), expected.var, rtol=1e-5)
    chain = as_layers(net, 3, variances, dropout=True)
    np.testing.assert_allclose(propagate(chain, X).std, propagate_gaussian(layers, X)[-1].std, rtol=0.03)


def test_gradients_by_weight_variances_are_those_of_finite_differences(module):
    import torch

    net, _ = module
    var = {name: torch.full_like(p, 0.05).requires_grad_() for name, p in net.named_parameters() if name.startswith(("0", "5"))}
    x = Gaussian(torch.tensor(X.mean), var=torch.full((3,), 0.1, dtype=torch.float64))

    def output(*given):
        y = propagate_gaussian(net, x, weight_var=dict(zip(var, given, strict=True)), dropout=True)[-1]
        return y.mean.sum(), y.var

    assert torch.autograd.gradcheck(output, tuple(var.values()), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("weight_var", "message"),
    [
        ({"0.wight": 0.1}, r"weight_var must have names of parameters of Linear layers, .* got '0\.wight'"),
        ({"1.weight": 0.1}, r"got '1\.weight'"),
        ({"0.weight": -0.1}, r"weight_var\['0\.weight'\] must be finite and not negative, got -0\.1"),
        ({"0.bias": float("nan")}, r"weight_var\['0\.bias'\] must be finite and not negative, got nan"),
        ({"0.weight": np.ones(3)}, r"weight_var\['0\.weight'\] must be a number or have shape \(8, 3\), got \(3,\)"),
    ],
)
def test_bad_variances_of_modules_raise(module, weight_var, message):
    for x in (X, X.to_torch()):
        with pytest.raises(ValueError, match=message):
            propagate_gaussian(module[0], x, weight_var=weight_var)


def test_modules_without_a_closed_form_raise(module):
    from torch import nn

    linear = nn.Linear(3, 3).double()
    with pytest.raises(ValueError, match="network uses a parameter twice"):
        propagate_gaussian(nn.Sequential(linear, nn.Tanh(), linear).eval(), X, weight_var={"0.weight": 0.1})
    for layer in (nn.AlphaDropout(0.1), nn.Dropout(1.0)):
        with pytest.raises(ValueError, match=r"must be a Dropout with p below 1 for dropout=True, got"):
            propagate_gaussian(nn.Sequential(linear, layer).eval(), X, dropout=True)
