"""The surface is nearly exact everywhere, keeps relative accuracy in saturation, and is valid outside its table."""

import logging
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pesn
from pesn import activations
from pesn.moments import MomentMethod, exact
from pesn.moments import surface as surfaces

SMOOTH = ("tanh", "sigmoid", "swish", "softplus", "gelu")
# mean (absolute), variance (relative), variance (absolute): either of the two will do
SATURATING, OTHERS = (1e-11, 1e-9, 0.0), (1e-9, 1e-8, 1e-13)


def check(name, got, mean, var):
    mean_bound, relative, absolute = SATURATING if name in ("tanh", "sigmoid") else OTHERS
    np.testing.assert_allclose(got.mean, mean, rtol=0, atol=mean_bound)
    assert np.all(np.abs(got.var - var) <= np.maximum(relative * var, absolute))


@pytest.mark.parametrize("name", SMOOTH)
def test_agrees_with_the_reference_table(reference, name):
    r = reference["silu" if name == "swish" else name]
    got = pesn.moments(name, r.mean, r.var)
    check(name, got, r.out_mean, r.out_var)
    np.testing.assert_allclose(pesn.gain(name, r.mean, r.var), r.gain, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", SMOOTH)
def test_agrees_with_exact_everywhere(name):
    rng = np.random.default_rng(1)
    m, v = rng.uniform(-8, 8, 2000), 10.0 ** rng.uniform(-14, 3, 2000)
    v[:20] = 0.0
    truth = pesn.moments(name, m, v, method="exact")
    check(name, pesn.moments(name, m, v), truth.mean, truth.var)
    np.testing.assert_allclose(pesn.gain(name, m, v), exact.gain(activations.get(name), m, v), rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_agree_with_quadrature(name):
    f = activations.get(name)
    mean, std = (part.ravel() for part in np.meshgrid(np.linspace(-6.0, 6.0, 25), np.geomspace(0.1, 10.0, 9)))
    found = surfaces.slopes(surfaces.load(f), mean, std**2)
    x = np.linspace(-9.0, 9.0, 4001)
    p = np.exp(-0.5 * x * x) / np.exp(-0.5 * x * x).sum()
    z = mean[:, None] + std[:, None] * x
    value, slope = f.value(z), f.derivative(z)
    away = value - (value @ p)[:, None]
    var, var_m, var_s = (away**2) @ p, 2.0 * (away * slope) @ p, 2.0 * (away * slope * x) @ p
    expected = value @ p, var / std**2, slope @ p, slope @ (x * p) / (2.0 * std), var_m / std**2
    for one, other in zip(found, (*expected, (var_s / (2.0 * std) - expected[1]) / std**2), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("m", [0.0, 1.0, -3.0, 16.0, 30.0, 300.0, 1e308])
def test_slopes_without_variance_are_derivatives_of_the_activation(m):
    slope, sign = 1.0 / np.cosh(m) ** 2 if abs(m) <= 300.0 else 0.0, -2.0 * np.tanh(m)
    for v in (0.0, 1e-300):
        found = surfaces.slopes(surfaces.load(activations.get("tanh")), np.array([m]), np.array([v]))[:, 0]
        expected = np.tanh(m), slope**2, slope, 0.5 * sign * slope, 2.0 * sign * slope**2  # the last are f″/2 and 2 f′ f″
        np.testing.assert_allclose(found[:5], expected, rtol=1e-8 if abs(m) < 20.0 else 5e-6, atol=1e-10 * slope)
        assert np.isfinite(found).all()


@pytest.mark.parametrize("name", ["swish", "softplus"])
@pytest.mark.parametrize("beta", [0.3, 4.0])
def test_scaled_activations_agree_with_exact(name, beta):
    own = getattr(activations, name)(beta)
    rng = np.random.default_rng(2)
    m, v = rng.uniform(-5, 5, 500), 10.0 ** rng.uniform(-6, 2, 500)
    got, truth = pesn.moments(own, m, v), pesn.moments(own, m, v, method="exact")
    np.testing.assert_allclose(got.mean, truth.mean, atol=1e-9)
    np.testing.assert_allclose(got.var, truth.var, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(pesn.gain(own, m, v), exact.gain(own, m, v), atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(st.sampled_from(SMOOTH), st.floats(-1.7e308, 1.7e308) | st.floats(-1e3, 1e3), st.floats(0, 1e300) | st.floats(0, 1e3))
@example("tanh", 1.7e308, 0.0)
@example("tanh", -1.7e308, 1e300)
@example("tanh", 1.7e308, 1e-45)
@example("swish", -1e30, 1e300)
@example("swish", -1e160, 1e300)
@example("softplus", 1.7e308, 5e-324)
def test_results_are_in_range_for_any_finite_input(dtype, name, m, v):
    most, slack = float(np.finfo(dtype).max), 1e-9 if dtype == np.float64 else 1e-6
    m, v = dtype(np.clip(m, -most, most)), dtype(min(v, most))
    got, gain = pesn.moments(name, m, v), pesn.gain(name, m, v)
    assert math.isfinite(got.mean)
    assert math.isfinite(got.var)
    assert got.var >= 0.0
    assert -0.2 <= gain <= 1.2
    if name in ("tanh", "sigmoid"):
        assert (-1.0 if name == "tanh" else 0.0) <= got.mean <= 1.0
        assert got.var <= (1.0 if name == "tanh" else 0.25) * (1.0 + slack)
    else:  # Var f(z) ≤ max f′² Var z, and the slope of GELU reaches 1.129
        assert float(got.var) <= 1.13**2 * float(v) * (1.0 + slack) + (1e-300 if dtype == np.float64 else 1e-44)


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "softplus"])
@pytest.mark.parametrize("v", [0.0, 1e-12, 1e-3, 1.0, 1e3, 1e12, 1e300])
def test_mean_is_monotone_and_variance_falls_in_saturation(name, v):
    w = math.sqrt(v + 1.0)
    m = w * np.concatenate([np.linspace(0, 30, 3001), np.geomspace(30, 1e100, 200)])
    up, down = pesn.moments(name, m, v), pesn.moments(name, -m, v)
    slack = 1e-11 * max(1.0, w if name == "softplus" else 1.0)
    assert np.all(np.diff(up.mean) >= -slack)
    assert np.all(np.diff(down.mean) <= slack)
    if name != "softplus":
        assert np.all(np.diff(up.var) <= 1e-9 * up.var[:-1])
    assert np.all(np.diff(down.var) <= 1e-9 * down.var[:-1] + (0 if v == 0 else 1e-9 * v * (name == "softplus")))
    assert down.var[-1] == 0.0


def test_continuous_at_the_end_of_the_table():
    # |a| = FARTHEST: the last table value and the first extrapolated one are neighbors.
    for name in SMOOTH:
        surface = surfaces.load(activations.get(name))
        for v in (0.0, 0.1, 1.0, 100.0):
            edge = surfaces.FARTHEST * math.sqrt(v * surface.input_scale**2 + surface.root_c**2) / surface.input_scale
            for side in (-1.0, 1.0):
                inside, outside = (pesn.moments(name, side * edge * k, v) for k in (1 - 1e-9, 1 + 1e-9))
                assert abs(inside.mean - outside.mean) <= 1e-12 + 1e-8 * abs(inside.mean)
                assert abs(inside.var - outside.var) <= 1e-6 * inside.var + 1e-12 * v


def test_saturated_tanh_outside_the_table():
    # Beyond the table the variance goes on as sech⁴: at v → 0 that is what it is.
    m = np.array([20.0, 50.0, 100.0])
    np.testing.assert_allclose(np.log(pesn.moments("tanh", m, 1e-6).var), np.log(16e-6) - 4 * m, rtol=1e-3)


def test_shipped_tables_have_the_size_of_the_script():
    for name, cells in surfaces.SHIPPED.items():
        shipped = surfaces.load(activations.get(name))
        assert (shipped.n_t, shipped.n_q) == cells
        assert shipped.moments.size == 2 * shipped.gains.size == 2 * cells[0] * cells[1] * surfaces.ROWS * surfaces.COLUMNS


def test_shipped_tables_agree_with_the_script(monkeypatch):
    # Coefficients differ from processor to processor; the values that they give hold the accuracy promised.
    rng = np.random.default_rng(3)
    m, v = rng.uniform(-40, 40, 20_000), 10.0 ** rng.uniform(-14, 3, 20_000)
    shipped, shipped_gain = pesn.moments("tanh", m, v), pesn.gain("tanh", m, v)
    built = surfaces.build(activations.get("tanh"), *surfaces.SHIPPED["tanh"])
    monkeypatch.setattr(surfaces, "load", lambda *_: built)
    check("tanh", pesn.moments("tanh", m, v), shipped.mean, shipped.var)
    np.testing.assert_allclose(pesn.gain("tanh", m, v), shipped_gain, rtol=0, atol=1e-11)


def test_custom_activation_is_tabulated_once_for_all_threads(caplog):
    own = activations.custom(lambda z: z * np.tanh(np.logaddexp(0.0, z)), left=0.0, right=(0.0, 1.0), name="mish", scale=1.0)
    m, v = np.linspace(-4, 4, 50), np.geomspace(1e-3, 100, 50)
    with caplog.at_level(logging.WARNING, "pesn"), ThreadPoolExecutor(4) as pool:
        got, *others = pool.map(lambda _: pesn.moments(own, m, v), range(4))
        pesn.gain(own, m, v)
    for other in others:
        np.testing.assert_array_equal(other.mean, got.mean)
        np.testing.assert_array_equal(other.var, got.var)
    assert [r.message for r in caplog.records] == ["building the surface of mish: once, a few seconds"]
    truth = pesn.moments(own, m, v, method="exact")
    np.testing.assert_allclose(got.mean, truth.mean, atol=1e-8)
    np.testing.assert_allclose(got.var, truth.var, rtol=1e-7, atol=1e-9)


def test_too_sharp_activation_falls_back_to_quadrature(caplog):
    own = activations.custom(lambda z: np.tanh(40 * z), derivative=lambda z: 40 / np.cosh(np.clip(40 * z, -300, 300)) ** 2,
                             left=-1, right=1, scale=1.0, name="sharp")  # fmt: skip
    # Declared scale 1 where it is 1/40: neither table nor panels resolve it; the notice says so.
    with caplog.at_level(logging.WARNING, "pesn"):
        pesn.moments(own, 0.1, 1.0)
    assert "is its scale right?" in caplog.records[-1].message


def test_custom_activation_between_table_and_tail():
    # A small declared scale ends the table early; between its end and the tail the quadrature serves.
    own = activations.custom(lambda z: np.logaddexp(0.0, z), left=0, right=(0, 1), scale=0.3, name="slow softplus")
    m = np.array([-30.0, -4.902, -4.85, 4.85, 4.902, 60.0])
    for v in (1e-4, 0.5):
        truth = pesn.moments(own, m, v, method="exact")
        got = pesn.moments(own, m, v)
        np.testing.assert_allclose(got.mean, truth.mean, atol=1e-9)
        np.testing.assert_allclose(got.var, truth.var, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(pesn.gain(own, m, v), exact.gain(own, m, np.full(6, v)), atol=1e-9)


def test_saturated_callable_without_derivative_is_finite():
    own = activations.custom(lambda z: 1 / (1 + np.exp(-np.clip(100 * z, -700, 700))), left=0, right=1, scale=0.01, name="steep")
    rng = np.random.default_rng(0)
    got = pesn.moments(own, rng.uniform(-0.8, 0.8, 20_000), 10.0 ** rng.uniform(-6, -1, 20_000))
    assert np.all(np.isfinite(got.mean))
    assert np.all(got.var >= 0.0)


def test_works_without_compilation(run_python):
    code = (
        "import numpy as np, pesn; from pesn.moments import packed; packed._CELLS = 2, 4; m = np.array([0.3, 60.0]); "
        "print(*pesn.moments('tanh', m, 1.0).mean, *pesn.moments('softplus', np.float32(m), np.float32(1.0)).var)"
    )
    double, single = np.split(np.array(run_python(code, NUMBA_DISABLE_JIT="1").stdout.split(), float), 2)
    np.testing.assert_allclose(double, pesn.moments("tanh", [0.3, 60.0], 1.0).mean, rtol=1e-11)
    np.testing.assert_allclose(single, pesn.moments("softplus", [0.3, 60.0], 1.0).var, rtol=1e-3)  # few cells


def test_import_compiles_nothing_and_loads_no_table(run_python):
    heavy = {"numba", "matplotlib", "pesn.moments.surface", "scipy.stats"}
    run_python(f"import pesn, sys; assert not {heavy} & set(sys.modules)")


@pytest.mark.parametrize("name", ["tanh", "softplus"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_and_infinity_do_not_read_outside_the_table(name, dtype):
    """Loops call the resolved method without checks: a diverged state must give NaN or a limit, not a crash."""
    most = np.finfo(dtype).max
    mean, var = np.meshgrid(np.array([np.nan, np.inf, -np.inf, most, 0.3], dtype), np.array([np.nan, np.inf, most, 0.2], dtype))
    with np.errstate(all="ignore"):
        first, second = MomentMethod(name)(mean.ravel(), var.ravel())
        MomentMethod(name).gain(mean.ravel(), var.ravel())
    assert np.isfinite(first[-1])
    assert np.isfinite(second[-1])


@pytest.mark.parametrize("name", ["hard_swish", "softsign"])
def test_compiled_panels_agree_with_quadrature(name):
    """Activations with kinks and no closed form; softsign also at variances where quadrature would need too many panels."""
    rng, f = np.random.default_rng(0), activations.get(name)
    mean, var = rng.normal(size=400) * 10.0 ** rng.uniform(-2, 1, 400), 10.0 ** rng.uniform(-8, 3.5, 400)
    first, second, slope = exact.moments_and_gain(f, mean, var)
    near = np.abs(mean) < 9.0 * np.sqrt(var) + 3.0  # further in the tail, quadrature loses digits
    found = pesn.moments(f, mean, var)
    np.testing.assert_allclose(found.mean, first, rtol=1e-12, atol=1e-14 * (1.0 + np.sqrt(var).max()))
    np.testing.assert_allclose(found.var[near], second[near], rtol=1e-11)
    np.testing.assert_allclose(pesn.gain(f, mean, var), slope, rtol=1e-11, atol=1e-14)
    with np.errstate(under="ignore"):
        tiny, point = pesn.moments(f, [0.5, -1.0], 1e-300), np.array([0.5, -1.0])
        np.testing.assert_allclose(tiny.var, 1e-300 * np.square(f.derivative(point)), rtol=1e-9)
    wide = pesn.moments(f, 0.0, 1e300)
    expected = 1.0 if name == "softsign" else 1e300 * (0.5 - 0.5 / np.pi)  # a sign, a relu
    assert wide.var == pytest.approx(expected, rel=1e-9)
    assert pesn.moments(f, 0.3, 0.0)[:2] == pytest.approx((float(f.value(0.3)), 0.0))
