"""Claim: every closure gives the mean and standard deviations of samples within its error estimate; "auto" chooses the Gaussian
closure where it is exact and Sobol points elsewhere; large error estimates are logged."""

import logging
import pickle
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

import pesn
from pesn import Dense, Gaussian, propagate
from pesn.networks import propagate_gaussian
from pesn.networks.gaussian_closure import through_layers_low_rank
from pesn.networks.layers import forward


def network(widths, activation="tanh", seed=0, gain=1.5):
    rng = np.random.default_rng(seed)
    layers = [
        Dense(rng.normal(size=(m, n)) * gain / np.sqrt(n), 0.1 * rng.normal(size=m), activation) for n, m in pairwise(widths[:-1])
    ]
    return [*layers, Dense(rng.normal(size=(widths[-1], widths[-2])) / np.sqrt(widths[-2]))]


def truth(layers, x, n=400_000):
    """Return the mean and standard deviation of antithetic samples."""
    rng, root = np.random.default_rng(1), np.linalg.cholesky(x.cov)
    out = []
    for _ in range(n // 20_000):
        away = rng.standard_normal((10_000, x.dim)) @ root.T
        out += [forward(layers, x.mean + away), forward(layers, x.mean - away)]
    out = np.concatenate(out)
    return out.mean(axis=0), out.std(axis=0)


WIDE = [*network([100, 100, 100, 100, 100])[:-1], Dense(np.eye(100))]
SMALL = network([4, 30, 30, 2])


def test_third_order_closure_reduces_the_error_of_the_gaussian_closure():
    x = Gaussian(np.random.default_rng(5).normal(size=100), var=0.25)
    _, std = truth(WIDE, x, 60_000)
    off = {c: propagate(WIDE, x, closure=c).std / std - 1.0 for c in ("gaussian", "third-order")}
    rms = {name: np.sqrt(np.mean(np.square(error))) for name, error in off.items()}
    assert rms["third-order"] < 0.4 * rms["gaussian"]
    assert rms["third-order"] < 0.01
    assert np.abs(off["third-order"]).max() < 0.06


@pytest.mark.parametrize("closure", ["gaussian", "third-order"])
def test_closures_are_exact_for_one_layer_and_certain_inputs(closure):
    x = Gaussian([0.3, -0.2, 0.1, 0.4], var=0.3)
    one_layer = [SMALL[0], SMALL[-1]]
    found, expected = (propagate(one_layer, x, closure=c).cov for c in (closure, "gaussian"))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    certain = propagate(SMALL, Gaussian(x.mean), closure=closure)
    np.testing.assert_allclose(certain.mean, forward(SMALL, x.mean[None])[0], rtol=1e-12)
    assert not certain.cov.any()


def test_function_of_rows_gives_moments_and_samples():
    x = Gaussian(np.array([[1.0, 2.0], [0.0, 1.0]]), var=0.01)
    y = propagate(lambda rows: np.prod(rows, axis=1, keepdims=True), x, n_samples=512)
    assert (y.closure.tolist(), y.samples.shape, y.error.shape) == (["sobol"] * 2, (2, 512, 1), (2,))
    np.testing.assert_allclose(y.mean, [[2.0], [0.0]], atol=2e-3)
    np.testing.assert_allclose(y.var, [[0.0501], [0.0101]], rtol=0.03)
    np.testing.assert_allclose(y.samples.mean(axis=1), y.mean, atol=1e-12)


def test_auto_chooses_the_gaussian_closure_where_it_is_exact():
    small = Gaussian(np.zeros(4), var=0.3)
    assert propagate([SMALL[0], SMALL[-1]], small).closure == "gaussian"  # exact
    assert propagate(SMALL, small).closure == "sobol"
    assert propagate(SMALL, Gaussian(np.zeros(4))).closure == "gaussian"


def test_large_error_estimates_are_logged(caplog):
    x, deep = Gaussian([0.5, -1.0], var=0.25), network([2, 30, 30, 1], gain=2.0)
    with caplog.at_level(logging.WARNING, logger="pesn.networks"):
        y = propagate(deep, x, closure="gaussian")
    assert y.error > 0.05
    assert "may be off by" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="pesn.networks"):
        assert propagate(SMALL, Gaussian(np.zeros(4), var=1e-6), closure="gaussian").error < 1e-3
    assert not caplog.text


def test_result_is_a_gaussian():
    y = propagate(SMALL, Gaussian(np.zeros(4), var=0.3))
    assert isinstance(y, Gaussian)
    assert type(y.affine(2.0)) is Gaussian
    again = pickle.loads(pickle.dumps(y))
    assert again.closure == y.closure
    np.testing.assert_array_equal(again.cov, y.cov)
    assert propagate([SMALL[-1]], Gaussian(np.zeros(30), var=y.var[0])).mean.shape == (2,)
    assert propagate(SMALL, Gaussian(np.zeros(4, np.float32), var=np.float32(0.3))).mean.dtype == np.float32


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"closure": "fourth"}, ValueError, "closure must be one of .* got 'fourth'"),
        (
            {"covariance": "low-rank"},
            ValueError,
            "covariance must be 'full' or 'diagonal', got 'low-rank'; see pesn.networks.prop",
        ),
        *(({"tol": tol}, ValueError, r"tol must lie in \(0, 1\], got ") for tol in (0.0, -0.1, np.nan, 2.0)),
        ({"tol": "fine"}, TypeError, "tol must be a number"),
        ({"closure": "sobol", "n_samples": 1000}, ValueError, "n_samples must be a power of 2, got 1000"),
        ({"closure": "sobol", "n_samples": 4}, ValueError, "n_samples must be 8 or more, got 4"),
        ({"closure": "gaussian", "n_samples": 1024}, ValueError, "n_samples goes with closure='sobol'"),
    ],
)
def test_invalid_option_combinations_raise(options, error, message):
    with pytest.raises(error, match=message):
        propagate(SMALL, Gaussian(np.zeros(4), var=0.1), **options)


def test_invalid_options_of_the_gaussian_closure_raise():
    x = Gaussian(np.zeros(4), var=0.1)
    with pytest.raises(ValueError, match="rank"):
        propagate_gaussian(SMALL, x, covariance="low-rank", rank=0)
    with pytest.raises(ValueError, match="'low-rank' goes with method='surface', got method='exact'"):
        propagate_gaussian(SMALL, x, covariance="low-rank", method="exact")
    with pytest.raises(TypeError, match="network must be a list of layers for a closed form"):
        propagate_gaussian(np.tanh, x)


def test_units_that_rarely_fire_do_not_affect_others():
    """A relu 38 standard deviations below its kink has a variance near the smallest float, whose inverse overflows."""
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(6, 3)), rng.normal(size=(6, 6)) / 2.0, rng.normal(size=(2, 6))]
    x = pesn.Gaussian(rng.normal(size=3), var=0.04)
    layers = [pesn.Dense(W, None, "relu" if len(W) > 2 else "identity") for W in weights]
    dead = [[*weights[0], np.array([1.0, 0.0, 0.0])], [*weights[1].T, np.zeros(6)]]
    wider = [
        pesn.Dense(np.array(dead[0]), [0.0] * 6 + [-37.6 * 0.2 - float(x.mean[0])], "relu"),
        pesn.Dense(np.vstack([np.array(dead[1]).T, np.eye(7)[6]]), None, "relu"),
        pesn.Dense(np.hstack([weights[2], np.zeros((2, 1))]), None),
    ]
    one, other = (pesn.propagate(network, x, closure="third-order") for network in (layers, wider))
    assert np.allclose(one.cov, other.cov, rtol=1e-9)
    assert np.allclose(one.mean, other.mean, rtol=1e-9)


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("closure", ["gaussian", "third-order", "sobol"])
@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu"])
def test_batch_equals_single_inputs(closure, activation, monkeypatch):
    """Evaluate the batch at once and in blocks."""
    layers, rng = network([4, 12, 12, 3], activation), np.random.default_rng(2)
    root = rng.normal(size=(5, 4, 4)) * np.array([0.0, 0.01, 0.3, 0.3, 1.0])[:, None, None]
    x = Gaussian(rng.normal(size=(5, 4)), cov=root @ root.transpose(0, 2, 1))
    found = propagate(layers, x, closure=closure)
    monkeypatch.setattr("pesn.networks.propagate._NUMBERS", 300)
    monkeypatch.setattr("pesn.networks.points._ROWS", 2048)
    blocks = propagate(layers, x, closure=closure)
    for k in range(5):
        one = propagate(layers, Gaussian(x.mean[k], cov=x.cov[k]), closure=closure)
        for whole in (found, blocks):
            np.testing.assert_allclose(whole.mean[k], one.mean, rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose(whole.cov[k], one.cov, rtol=1e-5, atol=1e-9)
            np.testing.assert_allclose(whole.error[k], one.error, rtol=1e-3, atol=1e-6)


def test_points_of_a_batch_are_evaluated_in_few_calls():
    calls = []

    def function(rows):
        calls.append(len(rows))
        return rows[:, :1] * rows[:, 1:]

    x = Gaussian(np.random.default_rng(0).normal(size=(100, 2)), var=0.1)
    y = propagate(function, x, closure="sobol", n_samples=256)
    assert sum(calls) >= 100 * 256
    assert len(calls) <= 10
    assert y.samples.shape == (100, 256, 1)
    assert max(calls) <= 2**14


@pytest.mark.parametrize("closure", ["gaussian", "third-order", "sobol"])
@pytest.mark.parametrize("spread", [{"var": 0.1}, {"cov": 0.1 * np.eye(4) + 0.05}], ids=["var", "cov"])
def test_batches_have_any_number_of_axes(closure, spread):
    mean = np.random.default_rng(0).normal(size=(6, 4))
    flat = propagate(SMALL, Gaussian(mean, **spread), closure=closure)
    folded = propagate(SMALL, Gaussian(mean.reshape(2, 3, 4), **spread), closure=closure)
    np.testing.assert_allclose(folded.cov, flat.cov.reshape(2, 3, *flat.cov.shape[1:]), rtol=1e-9)
    assert folded.error.shape == (2, 3)
    if closure == "sobol":
        assert folded.samples.shape == (2, 3, *flat.samples.shape[1:])


@pytest.mark.parametrize("var", [5e-324, 1e-300, 1e-220, 1e-120])
@pytest.mark.parametrize("mean", [0.0, 0.3])
def test_tiny_variances_are_propagated_linearly(mean, var):
    one, *others = (propagate(SMALL, Gaussian(np.full(4, mean), var=var), closure=c) for c in ("gaussian", "third-order", "auto"))
    for other in others:
        np.testing.assert_allclose(other.std, one.std, rtol=1e-6, atol=1e-160)
        assert other.error < 1e-6


# ---------------------------------------------------------------- the tolerance


@pytest.mark.parametrize("tol", [0.03, 0.01, 0.003])
def test_error_is_within_the_tolerance(tol):
    """Of 20 runs at most three may exceed what 95 % meet."""
    errors = []
    for seed, inputs in enumerate([2, 5, 10, 20]):
        layers, x = network([inputs, 30, 30, 2], seed=seed), Gaussian(np.full(inputs, 0.3), var=0.25)
        _, std = truth(layers, x, 1_000_000 if tol < 0.01 else 400_000)
        found = [propagate(layers, x, tol=tol, rng=rng) for rng in range(5)]
        assert all(y.error <= tol for y in found)
        errors += [np.abs(y.std / std - 1.0).max() for y in found]
    assert np.sum(np.array(errors) > tol + 0.002) <= 3


def test_doubling_evaluates_each_point_once():
    rows = []

    def function(points):
        rows.append(points.copy())
        return np.stack([np.tanh(points[:, 0] * points[:, 1]), points.sum(axis=1)], axis=1)

    x = Gaussian(np.zeros(8), var=1.0)
    y = propagate(function, x, tol=0.005)
    count, m = y.samples.shape
    points = np.unique(np.concatenate(rows), axis=0)
    assert (count > 1024, len(points), m) == (True, count, 2)
    assert sum(map(len, rows)) <= count + 4  # and the first and the last again alone
    np.testing.assert_allclose(np.sort(y.samples[:, 1]), np.sort(points.sum(axis=1)), rtol=1e-12)
    np.testing.assert_allclose(y.cov, np.cov(y.samples.T, bias=True), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(y.mean, y.samples.mean(axis=0), atol=1e-12)


def test_tolerance_out_of_reach_is_logged_with_the_number_reached(monkeypatch, caplog):
    monkeypatch.setattr("pesn.networks.propagate._BUDGET", 2048)
    with caplog.at_level(logging.WARNING, logger="pesn.networks"):
        y = propagate(SMALL, Gaussian(np.zeros(4), var=0.3), tol=1e-5)
    assert len(y.samples) == 2048
    assert f"may be off by {100 * y.error:.2g} %, tol is 0.001 % (sobol)" in caplog.text


def test_third_order_closure_replaces_very_many_points():
    """Nearly linear: it agrees with the Gaussian closure, where points would have to be doubled to 2¹⁵ or beyond."""
    layers, rng = network([40, 60, 60, 2], gain=1.0), np.random.default_rng(3)
    x = Gaussian(rng.normal(size=(2, 40)), var=np.array([[1e-3], [0.25]]))
    y = propagate(layers, x, tol=0.002)
    assert y.closure.tolist() == ["third-order", "sobol"]
    alone = propagate(layers, Gaussian(x.mean[0], var=1e-3), tol=0.002)
    assert alone.closure == "third-order"
    np.testing.assert_allclose(alone.cov, y.cov[0], rtol=1e-6)
    np.testing.assert_allclose(alone.std, propagate(layers, Gaussian(x.mean[0], var=1e-3), closure="third-order").std, rtol=1e-9)
    np.testing.assert_allclose(alone.samples.std(axis=0), alone.std, rtol=1e-6)  # its points are scaled to its moments
    _, std = truth(layers, Gaussian(x.mean[0], var=1e-3 * np.ones(40)))
    np.testing.assert_allclose(alone.std, std, rtol=0.004)


def test_quantiles_are_those_of_the_points():
    """The exponential of a Gaussian is skewed: its quantiles are exponentials of quantiles."""
    y = propagate(np.exp, Gaussian([0.0, 1.0], var=0.25), n_samples=2**14)
    z = pesn.Gaussian([0.0, 1.0], var=0.25)
    for found, expected in zip((y.median, *y.interval(0.9)), (z.median, *z.interval(0.9)), strict=True):
        np.testing.assert_allclose(found, np.exp(expected), rtol=0.01)
    assert y.quantile([0.1, 0.5]).shape == (2, 2)
    exact = propagate([SMALL[0]], Gaussian(np.zeros(4), var=0.3))
    assert exact.samples is None
    np.testing.assert_allclose(exact.interval(0.9), Gaussian(exact.mean, cov=exact.cov).interval(0.9))


@pytest.mark.parametrize("closure", ["auto", "gaussian"])
def test_float32_gives_the_same_result_within_its_precision(closure):
    mean, f32 = np.array([0.3, -0.2, 0.1, 0.4]), np.float32
    double = propagate(SMALL, Gaussian(mean, var=0.3), closure=closure)
    single = propagate(SMALL, Gaussian(mean.astype(f32), var=f32(0.3)), closure=closure)
    assert single.closure == double.closure
    assert (single.samples is None) == (double.samples is None)
    assert single.samples is None or single.samples.shape == double.samples.shape
    np.testing.assert_allclose(single.mean, double.mean, atol=1e-6)
    np.testing.assert_allclose(single.std, double.std, rtol=1e-5)
    assert single.error == pytest.approx(double.error, rel=1e-3)


def test_variances_alone_equal_those_of_the_covariance():
    x = Gaussian(np.zeros((3, 4)), var=0.3)
    for closure in ("auto", "gaussian", "third-order"):
        full, alone = (propagate(SMALL, x, closure=closure, covariance=c) for c in ("full", "diagonal"))
        np.testing.assert_allclose(alone.var, full.var, rtol=1e-12)
        assert alone.diagonal is not None
    many = propagate(lambda rows: rows @ np.ones((4, 9000)), Gaussian(np.zeros(4), var=0.1), covariance="diagonal", n_samples=64)
    assert many.var.shape == (9000,)
    with pytest.raises(ValueError, match="network has 9000 outputs, too many for a covariance matrix; use covariance='diagonal'"):
        propagate(lambda rows: rows @ np.ones((4, 9000)), Gaussian(np.zeros(4), var=0.1))


def test_error_estimates_of_closed_forms_hold_in_saturation():
    """Both closures miss the fourth cumulant and agree: points tell. Networks of the benchmark that were stated below 2 %."""
    stated_below = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        layers = network([3, 20, 20, 20, 2], seed=seed, gain=rng.uniform(3.0, 6.0))
        x = Gaussian(rng.normal(size=3), var=rng.uniform(0.3, 3.0) ** 2)
        _, std = truth(layers, x, 100_000)
        gaussian, third = (propagate(layers, x, closure=closure) for closure in ("gaussian", "third-order"))
        for y in (gaussian, third):
            assert y.error >= 0.02 or np.abs(y.std / std - 1.0).max() <= 0.05
            stated_below += np.abs(third.std / gaussian.std - 1.0).max() < 0.02 and np.abs(y.std / std - 1.0).max() > 0.05
    assert stated_below > 0  # what the difference of the closures alone would have stated


# ---------------------------------------------------------------- low-rank covariances
# Standard deviations of few outputs agree with the full covariance, and no covariance matrix of the units is formed.


def full(layers, x):
    return propagate_gaussian(layers, x)[-1]


def low(layers, x, **options):
    return propagate_gaussian(layers, x, covariance="low-rank", **options)[-1]


@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu"])
@pytest.mark.parametrize("inputs", [3, 40, 200])
def test_std_of_few_outputs_agrees_with_the_full_covariance(activation, inputs):
    layers = network([inputs, 200, 200, 200, 5], activation)
    x = Gaussian(np.random.default_rng(1).normal(size=inputs), var=0.25)
    found, true = low(layers, x), full(layers, x)
    np.testing.assert_allclose(found.std, true.std, rtol=0.01)
    assert np.max(np.abs(found.mean - true.mean) / true.std) < 0.05
    scale = np.outer(true.std, true.std)
    assert np.max(np.abs(found.cov - true.cov) / scale) < 0.02
    apart = propagate_gaussian(layers, x, covariance="diagonal")[-1].std / true.std - 1.0
    assert np.max(np.abs(found.std / true.std - 1.0)) < 0.2 * np.max(np.abs(apart))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_high_rank_agrees_with_the_full_covariance(activation):
    """The linear part is exact; only negligible columns of the remainder are dropped."""
    layers, x = network([4, 20, 20, 3], activation), Gaussian([0.3, -0.2, 0.1, 0.5], var=0.2)
    found, true = low(layers, x, rank=60), full(layers, x)
    np.testing.assert_allclose(found.cov, true.cov, rtol=0, atol=2e-3 * true.var.max())


def test_variances_of_one_layer_are_exact():
    layers, x = network([20, 200, 7])[:1], Gaussian(np.linspace(-1, 1, 20), factor=np.ones((20, 1)), var=0.1)
    found, true = low(layers, x, rank=30), full(layers, x)
    np.testing.assert_allclose(found.var, true.var, rtol=1e-9)
    assert found.factor.shape[0] == 200
    assert np.linalg.eigvalsh(true.cov - found.factor @ found.factor.T)[0] > -1e-5 * true.var.max()


@pytest.mark.parametrize(
    "x",
    [
        Gaussian(np.zeros(6)),
        Gaussian(np.zeros(6), cov=0.1 * np.eye(6) + 0.05),
        Gaussian(np.zeros(6), factor=np.ones((6, 1))),
        Gaussian(np.zeros(6), var=[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
        Gaussian(np.full(6, 30.0), var=1e-8),
        Gaussian(np.zeros(6), var=1e6),
    ],
    ids=["certain", "full", "factor", "one", "saturated", "wide"],
)
def test_low_rank_of_all_kinds_of_inputs_agrees_with_the_full_covariance(x):
    layers = network([6, 80, 80, 2])
    found, true = low(layers, x), full(layers, x)
    np.testing.assert_allclose(found.std, true.std, rtol=0.02, atol=0.01 * true.std.max() + 1e-12)
    assert np.all(np.isfinite(found.mean))


def test_low_rank_batch_equals_single_inputs():
    layers = network([6, 80, 80, 2])
    x = Gaussian(np.random.default_rng(0).normal(size=(2, 3, 6)), var=np.linspace(0.0, 0.3, 6))
    found = low(layers, x)
    assert found.mean.shape == (2, 3, 2)
    one = low(layers, Gaussian(x.mean[1, 2], var=x.var[1, 2]))
    np.testing.assert_allclose(found.mean[1, 2], one.mean, rtol=1e-12)
    np.testing.assert_allclose(found.cov[1, 2], one.cov, rtol=1e-9)


def test_low_rank_has_layers_and_float32():
    layers = network([6, 80, 80, 2])
    x = Gaussian(np.zeros(6, np.float32), var=np.float32(0.2))
    states = propagate_gaussian(layers, x, covariance="low-rank")
    assert [state.factor.shape[0] for state in states] == [80, 80, 2]
    assert states[-1].mean.dtype == np.float32
    np.testing.assert_allclose(states[1].std, propagate_gaussian(layers, x)[1].std, rtol=0.05)


def test_peak_memory_is_below_that_of_a_full_covariance():
    """The full covariance of 1,000 units would take 8 MB."""
    rng = np.random.default_rng(0)
    layers = [Dense(rng.normal(size=(1000, 20)) / 5, None, "tanh"), Dense(rng.normal(size=(1, 1000)) / 30)]
    x = Gaussian(np.zeros(20), var=0.1)
    through_layers_low_rank(layers, x, 20)
    tracemalloc.start()
    through_layers_low_rank(layers, x, 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6e6
