"""The float32 tables agree with the surface to rounding, and the surface is used outside of them."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pesn
from pesn import activations
from pesn.moments import packed
from pesn.moments import surface as surfaces

SMOOTH = ("tanh", "sigmoid", "swish", "softplus", "gelu")
OTHERS = [activations.swish(0.3), activations.softplus(4.0)]
BOUNDED = ("tanh", "sigmoid")


def by_name(activation):
    return getattr(activation, "name", activation)


def scattered(n, seed=0):
    rng = np.random.default_rng(seed)
    mean, var = rng.uniform(-12.0, 12.0, n), 10.0 ** rng.uniform(-14.0, 4.0, n)
    var[:20] = 0.0
    mean[20:40] = 0.0
    mean[40:60] *= 1e-8
    return mean, var


@pytest.mark.parametrize("activation", [*SMOOTH, *OTHERS], ids=by_name)
def test_float32_agrees_with_the_surface(activation):
    mean, var = (part.astype(np.float32) for part in scattered(20_000, 1))
    got, true = pesn.moments(activation, mean, var), pesn.moments(activation, mean.astype(float), var.astype(float))
    assert got.mean.dtype == got.var.dtype == np.float32
    width = 1.0 if activation in BOUNDED else np.sqrt(var + activations.get(activation).scale ** 2) + np.abs(mean)
    assert np.max(np.abs(got.mean - true.mean) / width) < 5e-7
    normal = true.var > 1e-37
    size = true.var if activation in BOUNDED else var
    # A logarithm near −30 has an ulp of 2e-6, which is what one ulp of such a mean changes the variance by.
    assert np.all(np.abs(got.var - true.var)[normal] <= (1e-5 if activation in BOUNDED else 6e-7) * size[normal])
    assert np.max(np.abs(got.var - true.var) / np.maximum(size, 1.0)) < 6e-7
    assert np.all(got.var >= 0.0)


def test_small_means_of_an_odd_activation_are_relatively_accurate():
    mean = np.geomspace(1e-30, 1e-6, 40).astype(np.float32)
    for var in np.float32([0.0, 1e-6, 0.5, 20.0]):
        slope = pesn.gain("tanh", 0.0, float(var))  # of E[f] at 0
        np.testing.assert_allclose(pesn.moments("tanh", mean, var).mean, slope * mean.astype(float), rtol=1e-6)


@pytest.mark.parametrize("scale", [30.0, 1e-3])
def test_scales_do_not_overflow_in_float32(scale):
    activation = activations.swish(scale)
    got = pesn.moments(activation, np.float32([0.0, 1e30, -1e38]), np.float32([3e38, 3e38, 1e38]))
    true = pesn.moments(activation, np.float64([0.0, 1e30, -1e38]), np.float64(np.float32([3e38, 3e38, 1e38])))
    np.testing.assert_allclose(got.mean, true.mean, rtol=1e-5)
    np.testing.assert_allclose(got.var, true.var, rtol=1e-5)


def test_continuous_at_the_end_of_the_table():
    for name in SMOOTH:
        record = surfaces.load(activations.get(name))
        for v in (0.0, 0.1, 1.0, 100.0):
            w = math.sqrt(v * record.input_scale**2 + record.root_c**2)
            edge = 4.0 * (1.0 + record.root_c / w) * w / record.input_scale
            for side in (-1.0, 1.0):
                means = np.float32([side * edge * k for k in (1 - 1e-6, 1 + 1e-6)])
                got = pesn.moments(name, means, np.float32(v))
                assert abs(np.diff(got.mean)[0]) <= 1e-6 * w + 4e-6 * abs(means[0])
                assert abs(np.diff(got.var)[0]) <= 1e-4 * got.var[0] + 1e-6 * v


def test_custom_activations_in_float32():
    bump = activations.custom(lambda z: np.exp(-z * z), left=0, right=0, name="bump")
    slow = activations.custom(np.arctan, left=None, right=None, name="slow")  # without tails no table: the quadrature
    m, v = np.linspace(-6, 6, 400), np.geomspace(1e-6, 100, 400)
    for activation in (bump, slow):
        full = pesn.moments(activation, m, v)
        single = pesn.moments(activation, m.astype(np.float32), v.astype(np.float32))
        np.testing.assert_allclose(single.mean, full.mean, atol=2e-6)
        np.testing.assert_allclose(single.var, full.var, atol=2e-6)


def test_threads_share_one_table(monkeypatch):
    made, pack = [], packed.pack
    monkeypatch.setattr(packed, "pack", lambda *args: made.append(args) or pack(*args))
    monkeypatch.setattr(packed, "_tables", type(packed._tables)())
    m, v = np.linspace(-2, 2, 50, dtype=np.float32), np.full(50, 0.3, np.float32)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: pesn.moments(name, m, v), ("tanh", "sigmoid", "tanh", "sigmoid")))
    assert len(made) == 1
