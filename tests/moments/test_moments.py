"""The methods of `moments` agree, shapes and dtypes follow NumPy, and invalid input raises an error that names it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pesn
from pesn import activations
from pesn.moments import MomentMethod

ALL = ("tanh", "sigmoid", "swish", "relu", "leaky_relu", "elu", "gelu", "softplus", "hard_tanh", "erf", "sine", "identity")
METHODS = ("surface", "exact", "spline", "spline-raw", "analytic", "mixture", "monte-carlo")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("method", "tolerance"), [("surface", 1e-9), ("spline", 2e-3)])
def test_methods_agree_with_exact(name, method, tolerance):
    m, v = np.linspace(-3, 3, 25)[:, None], np.array([0.0, 1e-6, 0.05, 1.0, 6.0])
    if method == "spline" and name in ("relu", "leaky_relu", "hard_tanh"):
        tolerance = 1e-2  # a cubic spline rounds a kink off
    if name == "sine" and method == "spline":
        v = v[:4]  # beyond the mesh a periodic function has no tail to go on
    got, truth = pesn.moments(name, m, v, method=method), pesn.moments(name, m, v, method="exact")
    np.testing.assert_allclose(got.mean, truth.mean, atol=tolerance)
    np.testing.assert_allclose(got.var, truth.var, atol=tolerance)


@pytest.mark.parametrize("method", ["surface", "exact", "spline", "mixture", "analytic"])
@given(m=st.floats(-30, 30), v=st.floats(0, 1e4))
def test_tanh_is_odd(method, m, v):
    there, back = pesn.moments("tanh", m, v, method=method), pesn.moments("tanh", -m, v, method=method)
    assert math.isclose(there.mean, -back.mean, abs_tol=1e-14)
    assert math.isclose(there.var, back.var, rel_tol=1e-9, abs_tol=1e-14)


@pytest.mark.parametrize("method", ["surface", "exact", "mixture", "analytic"])
@given(m=st.floats(-30, 30), v=st.floats(0, 1e4))
def test_sigmoid_is_tanh_at_half(method, m, v):
    sigmoid, tanh = pesn.moments("sigmoid", m, v, method=method), pesn.moments("tanh", m / 2, v / 4, method=method)
    assert math.isclose(sigmoid.mean, (1 + tanh.mean) / 2, abs_tol=1e-14)
    assert math.isclose(sigmoid.var, tanh.var / 4, rel_tol=1e-12, abs_tol=1e-300)


@pytest.mark.parametrize("method", ["surface", "exact", "spline", "mixture", "analytic"])
def test_limits(method):
    wide = pesn.moments("tanh", 0.7, 1e300, method=method)
    assert abs(wide.mean) < 1e-12
    assert math.isclose(wide.var, 1.0, rel_tol=1e-6)
    if method != "analytic":
        still = pesn.moments("tanh", 0.7, 0.0, method=method)
        assert math.isclose(still.mean, math.tanh(0.7), abs_tol=2e-5)
        assert still.var == 0.0
        assert pesn.moments("tanh", 0.7, 1e-300, method=method).var < 1e-299


@pytest.mark.parametrize("method", ["surface", "exact", "spline", "mixture", "analytic", "monte-carlo"])
@given(m=st.floats(-1e3, 1e3), v=st.floats(0, 1e6))
def test_no_variance_is_negative(method, m, v):
    options = {"n_samples": 50} if method == "monte-carlo" else {}
    assert pesn.moments("tanh", m, v, method=method, rng=0, **options).var >= 0.0


@pytest.mark.parametrize("method", METHODS)
def test_float32_in_float32_out(method):
    m, v = np.linspace(-3, 3, 7, dtype=np.float32), np.float32(0.4)
    got = pesn.moments("tanh", m, v, method=method, rng=0)
    assert got.mean.dtype == got.var.dtype == np.float32
    wide = pesn.moments("tanh", m.astype(float), float(v), method=method, rng=0)
    np.testing.assert_allclose(got.mean, wide.mean, atol=3e-7)
    np.testing.assert_allclose(got.var, wide.var, atol=3e-7)
    assert pesn.moments("tanh", m, np.float64(0.4), method=method).mean.dtype == np.float64


@pytest.mark.parametrize("name", ALL)
def test_float32_for_every_activation(name):
    got = pesn.moments(name, np.float32([0.5, -2.0]), np.float32([0.1, 3.0]), order=4)
    assert all(part.dtype == np.float32 for part in got)
    assert pesn.gain(name, np.float32(0.5), np.float32(0.1)).dtype == np.float32


def test_shapes_broadcast():
    m, v = np.zeros((3, 1, 2)), np.ones((4, 1))
    assert pesn.moments("tanh", m, v).mean.shape == (3, 4, 2)
    assert pesn.moments("tanh", [0, 1], 1).mean.shape == (2,)
    assert np.ndim(pesn.moments("tanh", 0, 1).mean) == 0
    assert pesn.moments("tanh", np.zeros((0, 3)), 1.0, order=4).kurtosis.shape == (0, 3)
    transposed = np.arange(6.0).reshape(2, 3).T
    np.testing.assert_array_equal(pesn.moments("tanh", transposed, 0.3).mean, pesn.moments("tanh", transposed.copy(), 0.3).mean)


@pytest.mark.parametrize("method", METHODS)
def test_input_is_unchanged_and_may_be_read_only(method):
    m, v = np.linspace(-1, 1, 5), np.full(5, 0.2)
    m.flags.writeable = v.flags.writeable = False
    pesn.moments("tanh", m, v, method=method, rng=0)
    np.testing.assert_array_equal(m, np.linspace(-1, 1, 5))
    got = pesn.moments("tanh", m[::2], v[::2], method=method, rng=0)
    np.testing.assert_array_equal(got.mean, pesn.moments("tanh", m[::2].copy(), v[::2].copy(), method=method, rng=0).mean)


def test_order_selects_the_moments():
    parts = [pesn.moments("tanh", 0.3, 0.2, order=order) for order in (1, 2, 3, 4)]
    assert [sum(part is not None for part in got) for got in parts] == [1, 2, 3, 4]
    for got in parts[1:]:
        assert got.var == pytest.approx(parts[1].var, rel=1e-9)


@given(st.sampled_from(ALL), st.floats(-10, 10), st.floats(1e-6, 100))
def test_gain_satisfies_steins_identity(name, m, v):
    # Cov(z, f(z)) = v E[f′], the covariance from an independent trapezoid rule
    x = np.linspace(-12, 12, 12_001)
    p = np.exp(-0.5 * x * x) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    stein = np.sum(p * x * activations.get(name).value(m + math.sqrt(v) * x)) / math.sqrt(v)
    size = np.max(np.abs(p * activations.get(name).value(m + math.sqrt(v) * x))) / math.sqrt(v)
    assert math.isclose(pesn.gain(name, m, v), stein, rel_tol=1e-7, abs_tol=2e-6 + 1e-12 * size)


BAD = [
    (("tanh", 0.0, -1.0), {}, ValueError, r"var must not be negative, got -1\.0"),
    (("tanh", math.nan, 1.0), {}, ValueError, r"mean must be finite, got nan"),
    (("tanh", 0.0, [1.0, math.inf]), {}, ValueError, r"var must be finite, got inf at index 1"),
    (("tanh", 1j, 1.0), {}, TypeError, r"mean must be real numbers, got dtype complex128"),
    (("tanh", [[1.0], [1.0, 2.0]], 1.0), {}, ValueError, r"mean must be an array of numbers"),
    (("tanh", [1.0, 2.0], [1.0, 2.0, 3.0]), {}, ValueError, r"mean and var must broadcast, got shapes \(2,\) and \(3,\)"),
    (("tanh", 0.0, 1.0), {"order": 5}, ValueError, r"order must be 1, 2, 3 or 4, got 5"),
    (("tanh", 0.0, 1.0), {"method": "surfaces"}, ValueError, r"method must be one of 'surface'.*got 'surfaces'"),
    (("tahn", 0.0, 1.0), {}, ValueError, r"activation 'tahn' is not known; did you mean 'tanh'"),
    ((np.tanh, 0.0, 1.0), {}, TypeError, r"activation must be a name or an Activation.*pesn\.activations\.custom"),
    (("relu", 0.0, 1.0), {"method": "analytic"}, ValueError, r"'analytic'.*tanh.*sigmoid.*'relu'.*'surface'"),
    (("tanh", 0.0, 1.0), {"method": "analytic", "order": 3}, ValueError, r"'analytic'.*order.*3.*'exact'"),
    (("tanh", 0.0, 1.0), {"method": "mixture", "n_components": 9}, ValueError, r"n_components.*8.*got 9"),
    (("tanh", 0.0, 1.0), {"method": "monte-carlo", "n_samples": 0}, ValueError, r"n_samples.*got 0"),
    (("tanh", 0.0, 1.0), {"mesh": pesn.Mesh(-1, 1, 9)}, ValueError, "mesh belongs to method 'spline', .* method 'surface'"),
    (("sine", 15.0, 0.1), {"method": "spline"}, ValueError, r"sine declares no tails, and mean and var reach beyond the mesh"),
    (("tanh", np.ma.masked_array([0.0], [True]), 1.0), {}, TypeError, "mean must be a plain array, got a masked one"),
]


@pytest.mark.parametrize(("args", "options", "error", "message"), BAD)
def test_invalid_input_raises(args, options, error, message):
    with pytest.raises(error, match=message):
        pesn.moments(*args, **options)


@pytest.mark.parametrize(("args", "error", "message"), [(a, e, m) for a, o, e, m in BAD if not o])
def test_invalid_input_of_gain_raises(args, error, message):
    with pytest.raises(error, match=message):
        pesn.gain(*args)


# ---------------------------------------------------------------- method
#
# A method that is resolved once returns what moments() returns.


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("surface", {}),
        ("exact", {}),
        ("spline", {"mesh": pesn.Mesh(-8.0, 8.0, 65)}),
        ("spline-raw", {"mesh": None}),
        ("analytic", {}),
        ("mixture", {"n_components": 4}),
        ("monte-carlo", {"n_samples": 100, "rng": 7}),
    ],
)
def test_moment_method_equals_moments(method, options):
    mean, var = np.linspace(-3.0, 3.0, 7), np.linspace(0.0, 2.0, 7)
    expected = pesn.moments("tanh", mean, var, method=method, **options)
    found = MomentMethod("tanh", method, **options)(mean, var)
    np.testing.assert_array_equal(found, expected[:2])
    np.testing.assert_array_equal(MomentMethod("tanh", method, **options).gain(mean, var), pesn.gain("tanh", mean, var))


def test_options_of_other_methods_are_ignored():
    mean, var = np.zeros(2), np.ones(2)
    np.testing.assert_array_equal(MomentMethod("tanh", mesh=None, rng=1)(mean, var), MomentMethod("tanh")(mean, var))
