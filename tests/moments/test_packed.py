"""Claim: packed tables are the surface, within 1e-9 in float64 and to rounding in float32, and hand over to it where they end."""

import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import njit

import pesn
from pesn import activations
from pesn.moments import MomentMethod, packed
from pesn.moments import surface as surfaces
from pesn.moments.special import single_exp

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
def test_fast_is_the_surface_within_1e_9(activation):
    mean, var = scattered(60_000)
    fast, full = pesn.moments(activation, mean, var, method="surface-fast"), pesn.moments(activation, mean, var)
    width = 1.0 if activation in BOUNDED else np.sqrt(var + activations.get(activation).scale ** 2)
    assert np.max(np.abs(fast.mean - full.mean) / width) < 1e-9
    size = full.var if activation in BOUNDED else var
    assert np.all(np.abs(fast.var - full.var) <= 1e-9 * size)
    assert np.all(fast.var >= 0.0)


@pytest.mark.parametrize("activation", [*SMOOTH, *OTHERS], ids=by_name)
def test_float32_is_the_surface_to_its_own_accuracy(activation):
    mean, var = (part.astype(np.float32) for part in scattered(60_000, 1))
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_means_of_an_odd_activation_keep_their_digits(dtype):
    mean = np.geomspace(1e-30, 1e-6, 40).astype(dtype)
    for var in (0.0, 1e-6, 0.5, 20.0):
        got = pesn.moments("tanh", mean, dtype(var), method="surface-fast")
        slope = pesn.gain("tanh", 0.0, float(dtype(var)))  # of E[f] at 0
        np.testing.assert_allclose(got.mean, slope * mean.astype(float), rtol=1e-6 if dtype == np.float32 else 1e-9)


largest = float(np.finfo(np.float32).max)


@given(st.sampled_from(SMOOTH), st.floats(-largest, largest, width=32), st.floats(0, largest, width=32))
@example("tanh", largest, 1e-45)
@example("tanh", -largest, largest)
@example("swish", -1e30, largest)
@example("softplus", largest, 1e-45)
@example("sigmoid", 0.0, largest)
def test_sane_for_any_finite_float32(name, m, v):
    got = pesn.moments(name, np.float32(m), np.float32(v))
    assert math.isfinite(got.mean)
    assert math.isfinite(got.var)
    assert got.var >= 0.0
    if name in BOUNDED:
        assert abs(got.mean) <= 1.0
        assert got.var <= 1.0 + 1e-6


@given(st.sampled_from(SMOOTH), st.floats(-1.7e308, 1.7e308), st.floats(0, 1e300))
@example("tanh", 1.7e308, 0.0)
@example("swish", -1e160, 1e300)
@example("tanh", 0.7, 1e-300)
def test_fast_is_sane_for_any_finite_input(name, m, v):
    got = pesn.moments(name, m, v, method="surface-fast")
    assert math.isfinite(got.mean)
    assert math.isfinite(got.var)
    assert got.var >= 0.0


@pytest.mark.parametrize("scale", [30.0, 1e-3])
def test_scales_do_not_overflow_in_float32(scale):
    activation = activations.swish(scale)
    got = pesn.moments(activation, np.float32([0.0, 1e30, -1e38]), np.float32([3e38, 3e38, 1e38]))
    true = pesn.moments(activation, np.float64([0.0, 1e30, -1e38]), np.float64(np.float32([3e38, 3e38, 1e38])))
    np.testing.assert_allclose(got.mean, true.mean, rtol=1e-5)
    np.testing.assert_allclose(got.var, true.var, rtol=1e-5)


def test_no_seam_where_the_table_ends():
    for name in SMOOTH:
        record = surfaces.load(activations.get(name))
        for v in (0.0, 0.1, 1.0, 100.0):
            w = math.sqrt(v * record.input_scale**2 + record.root_c**2)
            edge = 4.0 * (1.0 + record.root_c / w) * w / record.input_scale
            for side in (-1.0, 1.0):
                inside, outside = (pesn.moments(name, side * edge * k, v, method="surface-fast") for k in (1 - 1e-9, 1 + 1e-9))
                assert abs(inside.mean - outside.mean) <= 1e-9 * w + 1e-8 * abs(inside.mean)
                assert abs(inside.var - outside.var) <= 1e-7 * inside.var + 1e-9 * v


def test_own_activation_has_them_too():
    bump = activations.custom(lambda z: np.exp(-z * z), left=0, right=0, name="bump")
    slow = activations.custom(np.arctan, left=None, right=None, name="slow")  # without tails no table: the quadrature
    m, v = np.linspace(-6, 6, 400), np.geomspace(1e-6, 100, 400)
    for activation in (bump, slow):
        full, fast = pesn.moments(activation, m, v), pesn.moments(activation, m, v, method="surface-fast")
        np.testing.assert_allclose(fast.mean, full.mean, atol=1e-8)
        np.testing.assert_allclose(fast.var, full.var, atol=1e-8)
        single = pesn.moments(activation, m.astype(np.float32), v.astype(np.float32))
        np.testing.assert_allclose(single.mean, full.mean, atol=2e-6)
        np.testing.assert_allclose(single.var, full.var, atol=2e-6)


def test_float32_beside_float64_is_float64():
    got = pesn.moments("tanh", np.float32([0.3, 2.0]), np.float64(0.2))
    np.testing.assert_array_equal(got.mean, pesn.moments("tanh", np.float64(np.float32([0.3, 2.0])), 0.2).mean)


def test_closed_forms_and_higher_orders_have_no_packed_table():
    m, v = np.linspace(-2, 2, 9), np.full(9, 0.3)
    for name, order in (("relu", 2), ("elu", 2), ("tanh", 4)):
        for ours, theirs in zip(
            pesn.moments(name, m, v, order=order, method="surface-fast")[:order], pesn.moments(name, m, v, order=order)[:order],
            strict=True,
        ):  # fmt: skip
            np.testing.assert_array_equal(ours, theirs)


def test_made_once_for_all_threads(monkeypatch):
    made, pack = [], packed.pack
    monkeypatch.setattr(packed, "pack", lambda *args: made.append(args) or pack(*args))
    monkeypatch.setattr(packed, "_kept", type(packed._kept)())
    m, v = np.linspace(-2, 2, 50, dtype=np.float32), np.full(50, 0.3, np.float32)
    threads = [threading.Thread(target=pesn.moments, args=(name, m, v)) for name in ("tanh", "sigmoid", "tanh", "sigmoid")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


@pytest.mark.parametrize("method", ["surface", "surface-fast"])
def test_what_is_no_number_does_not_look_outside_of_the_table(method):
    values = [np.nan, np.inf, -np.inf, 3e38, 0.3]
    for dtype in (np.float32, np.float64):
        mean, var = np.meshgrid(np.array(values, dtype), np.array([np.nan, np.inf, 3e38, 0.2], dtype))
        with np.errstate(all="ignore"):
            first, second = MomentMethod("tanh", method)(mean.ravel(), var.ravel())
        assert np.isfinite(first[-1])
        assert np.isfinite(second[-1])


def test_uncompiled_for_debuggers():
    code = (
        "import numpy as np, pesn; from pesn.moments import packed; packed._CELLS['f'] = (2, 4); m = np.float32([0.3, 60.0]); "
        "print(*pesn.moments('tanh', m, np.float32(1.0)).mean, *pesn.moments('softplus', m, np.float32(1.0)).var)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}
    )
    m = np.float32([0.3, 60.0])
    expected = *pesn.moments("tanh", m, np.float32(1.0)).mean, *pesn.moments("softplus", m, np.float32(1.0)).var
    assert [float(x) for x in out.stdout.split()] == pytest.approx([float(x) for x in expected], rel=1e-3)  # few cells


def test_exp_of_float32():
    @njit(error_model="numpy")
    def over(x, out):
        for i in range(x.size):
            out[i] = single_exp(x[i])

    x = np.concatenate([np.linspace(-87, 88, 100_001), np.linspace(-1, 1, 10_001)]).astype(np.float32)
    out = np.empty_like(x)
    over(x, out)
    true = np.exp(x.astype(float))
    assert np.max(np.abs(out - true) / np.spacing(true.astype(np.float32))) <= 2.0
    over(np.float32([-1e30, 1e30]), out[:2])
    assert np.all(np.isfinite(out[:2]))
