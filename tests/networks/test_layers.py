"""Tests of stacked stages: they compute the same function as the branches. Their Gaussian closure is exact with one nonlinear
stage and close to samples otherwise, and "auto" selects it where it is exact."""

import numpy as np
import pytest

from pesn import Dense, Gaussian, propagate
from pesn.activations import get
from pesn.networks import layers as layers_module
from pesn.networks import propagate as front_door
from pesn.networks import propagate_gaussian
from pesn.networks.gaussian_closure import through_layers
from pesn.networks.layers import SQUARE, AffineRows, SkipDense, Stage, Tape, TooLargeError, forward, stack_stages
from pesn.networks.program import Program

X = Gaussian([0.3, -0.2, 0.1, 0.4], cov=0.2 * np.eye(4) + 0.1)
TANH = get("tanh")


def residual(d=4, width=6, blocks=1, seed=0, gain=0.7):
    """Return h = tanh(A x), then h = h + tanh(M h) repeatedly, y = C h + 1, as layers and as a function."""
    rng = np.random.default_rng(seed)
    A, C = rng.normal(size=(width, d)) / np.sqrt(d), rng.normal(size=(2, width))
    maps = gain * rng.normal(size=(blocks, width, width)) / np.sqrt(width)
    none, one = np.zeros(width), np.eye(width)
    stages, h = [Stage({0: A}, none, TANH)], 1
    for M in maps:
        stages += [Stage({h: M}, none, TANH), Stage({h: one, len(stages) + 1: one}, none)]
        h = len(stages)
    layers = stack_stages([*stages, Stage({h: C}, np.ones(2))], d)

    def function(rows):
        h = np.tanh(rows @ A.T)
        for M in maps:
            h = h + np.tanh(h @ M.T)
        return h @ C.T + 1.0

    return Program(function, layers)


@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_stacked_stages_compute_the_network_function(blocks):
    program = residual(blocks=blocks)
    rows = np.random.default_rng(1).normal(size=(5, 4))
    np.testing.assert_allclose(forward(program.layers, rows), program.function(rows), rtol=1e-13)
    assert program.is_chain == (blocks == 0)


def test_layer_width_does_not_grow_with_residual_depth():
    layers = residual(blocks=12).layers
    assert max(len(layer.b) for layer in layers) == 12  # one branch and the running sum
    assert sum(isinstance(layer, SkipDense) for layer in layers) == 12


def test_unused_stages_are_dropped_and_linear_ones_folded():
    W, V = np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])
    dead = Stage({0: W}, np.zeros(1), TANH)
    linear = Stage({0: W}, np.ones(1))
    (layer,) = stack_stages([dead, linear, Stage({2: V}, np.zeros(2))], 2)
    assert (type(layer), layer.activation.name) == (Dense, "identity")
    np.testing.assert_array_equal(layer.W, V @ W)
    np.testing.assert_array_equal(layer.b, [3.0, 4.0])


ONES = np.eye(5, 1)  # rows: the offset and four inputs


def test_affine_branches_give_exact_moments():
    tape = Tape(4)
    x = tape.input()
    s = tape.add_stage(AffineRows(np.hstack([x.values[:, :2] + 2.0 * x.values[:, 2:], x.values[:, :2] - ONES]), (0,)), None)
    (a, b), blocks = tape.align([x, s])
    layers = tape.layers([AffineRows(3.0 * a[:, :2].sum(axis=1, keepdims=True) + b, blocks)])
    A = np.array([[4.0, 3.0, 2.0, 0.0], [3.0, 4.0, 0.0, 2.0], [4.0, 3.0, 0.0, 0.0], [3.0, 4.0, 0.0, 0.0]])
    y = propagate(layers, X)
    np.testing.assert_allclose(y.mean, A @ X.mean - [0.0, 0.0, 1.0, 1.0], rtol=1e-13)
    np.testing.assert_allclose(y.cov, A @ X.cov @ A.T, rtol=1e-13)


def test_moments_of_products_agree_with_samples():
    tape = Tape(4)
    x = tape.input()
    product = tape.multiply(AffineRows(x.values[:, :2], (0,)), AffineRows(x.values[:, 2:] + 0.5 * ONES, (0,)))
    (p, a), blocks = tape.align([product, x])
    y = propagate(tape.layers([AffineRows(np.hstack([p, a]), blocks)]), X)
    rows = X.sample(400_000, rng=0)
    out = np.hstack([rows[:, :2] * (rows[:, 2:] + 0.5), rows])
    np.testing.assert_allclose(y.mean, out.mean(axis=0), atol=4e-3)
    np.testing.assert_allclose(y.cov, np.cov(out.T), atol=4e-3)
    assert tape.multiply(product, x) is None  # not exact for units, which are not Gaussian


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e6])
def test_moments_of_squares_are_exact_at_any_scale(scale):
    x = Gaussian(X.mean, cov=scale**2 * X.cov)
    y = propagate([Dense(np.eye(4), None, SQUARE)], x)
    np.testing.assert_allclose(y.mean, x.mean**2 + x.var, rtol=1e-12)
    cov = 4.0 * np.outer(x.mean, x.mean) * x.cov + 2.0 * x.cov**2
    np.testing.assert_allclose(y.var, np.diagonal(cov), rtol=1e-11)
    np.testing.assert_allclose(y.cov / np.outer(y.std, y.std), cov / np.outer(y.std, y.std), atol=1e-6)


@pytest.mark.parametrize(
    ("std", "closure", "tolerance"), [(0.2, "gaussian", 0.01), (0.5, "gaussian", 0.04), (0.5, "third-order", 0.01)]
)
def test_residual_networks_agree_with_samples(std, closure, tolerance):
    program = residual(d=20, width=30, blocks=2)
    x = Gaussian(np.random.default_rng(3).normal(size=20), var=std**2)
    out = program.function(x.sample(200_000, rng=0))
    y = propagate(program.layers, x, closure=closure)
    np.testing.assert_allclose(y.std, out.std(axis=0), rtol=tolerance)
    np.testing.assert_allclose(y.mean, out.mean(axis=0), atol=0.02 * y.std.max())
    assert np.linalg.eigvalsh(y.cov).min() > 0.0


def test_skip_connection_covariances_agree_with_samples():
    """Blocks of x and of tanh(W x) equal those of separate layers; cross-covariances agree with samples."""
    W = np.random.default_rng(0).normal(size=(3, 4))
    both = SkipDense(np.vstack([W, np.eye(4)]), np.zeros(7), "tanh", 4)
    (y,) = through_layers([both], X, "surface", "full")
    np.testing.assert_allclose(y.cov[:3, :3], propagate([Dense(W, None, "tanh")], X).cov, rtol=1e-12)
    np.testing.assert_allclose(y.cov[3:, 3:], X.cov, rtol=1e-12)
    rows = X.sample(1_000_000, rng=0)
    np.testing.assert_allclose(y.cov[:3, 3:], np.cov(np.tanh(rows @ W.T).T, rows.T)[:3, 3:], atol=2e-3)


@pytest.mark.parametrize("closure", ["gaussian", "third-order"])
def test_batch_equals_single_inputs_and_keeps_float32(closure):
    layers = residual(blocks=2).layers
    means = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    y = propagate(layers, Gaussian(means, var=np.float32(0.1)), closure=closure)
    assert y.mean.shape == (3, 2)
    assert y.cov.dtype == np.float32
    for i in range(3):
        one = propagate(layers, Gaussian(means[i].astype(float), var=0.1), closure=closure)
        np.testing.assert_allclose(y.mean[i], one.mean, rtol=1e-5)
        np.testing.assert_allclose(y.cov[i], one.cov, rtol=1e-4, atol=1e-6)


def test_branches_that_cancel_give_zero():
    W = np.random.default_rng(0).normal(size=(3, 4))
    layers = stack_stages(
        [Stage({0: W}, np.ones(3)), Stage({1: np.eye(3), 0: -W}, -np.ones(3), TANH), Stage({2: np.eye(3)}, np.zeros(3))], 4
    )
    y = propagate(layers, X)
    np.testing.assert_allclose(y.mean, 0.0, atol=1e-14)
    np.testing.assert_allclose(y.cov, 0.0, atol=1e-14)


def test_too_large_layers_raise(monkeypatch):
    monkeypatch.setattr(layers_module, "LARGEST", 11)
    tape = Tape(4)
    h = tape.add_stage(tape.input(), TANH)
    with pytest.raises(TooLargeError, match=r"would bring 12 numbers into one covariance, .* closure='sobol'"):
        tape.add_stage(AffineRows(np.hstack([h.values, h.values]), h.blocks), None)
    with pytest.raises(TooLargeError):
        Tape(12)


# ---------------------------------------------------------------- propagate


@pytest.fixture
def send(monkeypatch):
    """Return a function that calls propagate with a Program, as an adapter does."""

    def call(program, x, function=propagate, **options):
        monkeypatch.setattr(front_door, "_read", lambda *_: program)
        return function(program.function, x, **options)

    return call


def test_closure_and_error_estimate_of_residual_networks(send):
    narrow, wide = residual(), residual(d=30, width=40)
    one = Program(np.tanh, [Dense(np.eye(4), None, "tanh")])
    x = Gaussian(np.random.default_rng(1).normal(size=30), var=0.04)
    assert send(one, X).closure == "gaussian"
    assert send(one, X).error == 0.0
    assert send(narrow, X).closure == "sobol"
    assert send(narrow, Gaussian(X.mean)).closure == "gaussian"
    y = send(wide, x, closure="gaussian")
    assert 0.0 < y.error < 0.05
    other = Program(lambda rows: 1.1 * wide.function(rows), wide.layers)  # differs from the layers
    assert send(other, x, closure="gaussian").error > 0.05


def test_gaussians_after_each_layer_of_a_sum_of_branches_raise(send):
    with pytest.raises(ValueError, match=r"network must be a chain of layers, got a sum of branches; use pesn\.propagate"):
        send(residual(), X, function=propagate_gaussian)


# ---------------------------------------------------------------- several inputs and their shapes


def test_several_inputs_are_independent_or_jointly_gaussian():
    def function(a, b):
        return np.concatenate([a.sum(axis=(1, 2))[:, None], b[:, :1] * 2.0], axis=1)

    a, b = Gaussian(np.arange(6.0), var=0.1), Gaussian([1.0, 2.0], cov=[[0.3, 0.1], [0.1, 0.2]])
    y = propagate(function, (a, b), shape=[(2, 3), None])
    np.testing.assert_allclose(y.mean, [15.0, 2.0], atol=1e-3)
    np.testing.assert_allclose(y.cov, np.diag([0.6, 1.2]), atol=0.02)
    cov = np.eye(8)
    cov[0, 6] = cov[6, 0] = 0.5
    y = propagate(function, Gaussian(np.zeros(8), cov=cov), shape=[(2, 3), (2,)])
    np.testing.assert_allclose(y.cov, [[6.0, 1.0], [1.0, 4.0]], atol=0.1)


@pytest.mark.parametrize(
    ("x", "shape", "message"),
    [
        (Gaussian(np.zeros(6)), (2, 2), r"shape must hold the 6 numbers of its input, got \(2, 2\) with 4"),
        ((Gaussian(np.zeros(6)), Gaussian(np.zeros(2))), [(6,)], "one shape for each of 2 inputs"),
        ((Gaussian(np.zeros(6)), Gaussian(np.zeros((3, 2)))), None, "inputs of one batch"),
        ((), None, "empty sequence"),
        ((Gaussian([0.0]), np.zeros(2)), None, r"x\[1\] must be a pesn.Gaussian, got ndarray"),
    ],
)
def test_inconsistent_shapes_raise(x, shape, message):
    with pytest.raises((TypeError, ValueError), match=message):
        propagate(lambda *rows: rows[0], x, shape=shape)


def test_shape_with_a_list_of_layers_raises():
    with pytest.raises(ValueError, match="shape and several inputs go with a torch module, an ONNX file or a function, got list"):
        propagate([Dense(np.eye(4))], Gaussian(np.zeros(4)), shape=(2, 2))
