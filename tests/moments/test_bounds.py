"""The error bound is never below the true error, and choose_mesh meets its tolerance."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pesn import activations
from pesn.moments import Mesh, bounds, exact, spline
from pesn.moments.bounds import choose_mesh, error_bound

KINKED = ["relu", "leaky_relu", "elu", "hard_tanh"]
SMOOTH = ["tanh", "sigmoid", "swish", "softplus", "gelu", "erf", "sine", "identity"]
FLAT = {"left": 0, "right": 0, "fourth_bound": 12.0, "square_fourth_bound": 48.0, "name": "bump"}  # both bounds at z = 0
BUMP = activations.custom(lambda z: np.exp(-z * z), derivative=lambda z: -2.0 * z * np.exp(-z * z), **FLAT)
CASES = [*map(activations.get, SMOOTH), activations.swish(1.7), activations.softplus(3.0), BUMP]


def true_errors(activation, m, v, mesh):
    m, v = np.atleast_1d(np.asarray(m, dtype=float)), np.atleast_1d(np.asarray(v, dtype=float))
    right = exact.moments(activation, m, v, 2)
    own, raw = spline.moments(activation, m, v, 2, mesh), spline.raw_moments(activation, m, v, 2, mesh)
    return np.abs(own[0] - right[0]), np.maximum(np.abs(own[1] - right[1]), np.abs(raw[1] - right[1]))


@settings(max_examples=60, deadline=None)
@given(
    activation=st.sampled_from(CASES),
    a=st.floats(-15.0, 8.0),
    width=st.floats(0.3, 30.0),
    n=st.integers(4, 150),
    m=st.floats(-20.0, 20.0),
    log_v=st.floats(-12.0, 3.0),
    constant=st.sampled_from(["sharp", "paper"]),
)
def test_bound_is_never_below_the_true_error(activation, a, width, n, m, log_v, constant):
    mesh, v = Mesh(a, a + width, n), 10.0**log_v
    bound = error_bound(activation, m, v, mesh, constant=constant)
    of_mean, of_var = true_errors(activation, m, v, mesh)
    # Of the methods compared: the raw form solves for a spline of f², as large as the ends' squares.
    rounding = 1e-13 * (1.0 + m * m + v + max(abs(mesh.a), abs(mesh.b)) ** 2)
    assert of_mean[0] <= bound.mean + rounding
    assert of_var[0] <= bound.var + rounding


@pytest.mark.parametrize("activation", CASES, ids=lambda a: a.name)
def test_bound_holds_for_the_interpolation_error(activation):
    """A hundred means along a coarse and a fine mesh, with a tiny variance: the interpolation error."""
    for mesh in (Mesh(-6.0, 6.0, 13), Mesh(-10.0, 10.0, 101), Mesh(-1.0, 2.0, 4)):
        m = np.linspace(-8.0, 8.0, 401)
        bound = error_bound(activation, m, 1e-8, mesh)
        of_mean, of_var = true_errors(activation, m, np.full(m.size, 1e-8), mesh)
        assert np.all(of_mean <= bound.mean + 1e-13)
        assert np.all(of_var <= bound.var + 1e-12)


def test_corrected_example_of_the_paper():
    """Mean 3, variance 0.2, 101 points on [−10, 10]: printed 4.21321e-5, correct 4.0859e-4, sharp 8.512e-5, true 2.3e-7."""
    mesh = Mesh(-10, 10, 101)
    assert error_bound("tanh", 3, 0.2, mesh).mean == pytest.approx(8.512e-5, rel=1e-4)
    assert error_bound("tanh", 3, 0.2, mesh, constant="paper").mean == pytest.approx(4.0859e-4, rel=1e-5)
    assert true_errors(activations.get("tanh"), 3.0, 0.2, mesh)[0][0] == pytest.approx(2.3e-7, rel=0.05)


def test_mean_bound_equals_the_equation():
    """c1(erf B − erf A) + c2(1 + erf A) + c3(1 − erf B), with the constants written out for tanh."""
    m, v, mesh = 4.0, 3.0, Mesh(-3.0, 4.0, 20)
    low, high = ((end - m) / math.sqrt(2 * v) for end in (mesh.a, mesh.b))
    c1 = 0.5 * 5 / 384 * mesh.step**4 * 4.0858855030
    c2, c3 = 0.5 * (1 + math.tanh(-3.0)), 0.5 * (1 - math.tanh(4.0))
    expected = c1 * (math.erf(high) - math.erf(low)) + c2 * (1 + math.erf(low)) + c3 * (1 - math.erf(high))
    assert error_bound("tanh", m, v, mesh).mean == pytest.approx(expected, rel=2e-6)


def test_bound_broadcasts_and_accepts_zero_variance():
    mesh = Mesh(-10, 10, 101)
    bound = error_bound("tanh", np.linspace(-12, 12, 5)[:, None], [0.0, 1.0], mesh)
    assert bound.mean.shape == bound.var.shape == (5, 2)
    at_end = error_bound("tanh", [10.0, -10.0, 10.5], 0.0, mesh).mean
    assert at_end[0] == at_end[1] == pytest.approx(8.512e-5, rel=1e-4)
    assert at_end[2] == pytest.approx(1.0 - math.tanh(10.0), rel=1e-5)  # the sup beyond the mesh, not at the mean
    assert np.isfinite(error_bound("swish", [1e100, -1e100], [1e300, 1e-300], mesh)).all()


def test_largest_tail_error_is_not_at_the_end_of_the_mesh():
    """swish − 0 vanishes at 0 and is largest at −1.2785; its square there too."""
    least = 0.27846454276107
    mesh = Mesh(0.0, 40.0, 401)
    assert error_bound("swish", -50.0, 1e-6, mesh).mean == pytest.approx(least, rel=1e-5)
    assert bounds._remainder(activations.get("swish"), 0.0, -1.0, 2) == pytest.approx(least**2, rel=1e-5)
    z = np.linspace(3.0, 60.0, 1_000_001)
    square = np.max(np.abs(np.logaddexp(0, z) ** 2 - z**2))
    assert square <= bounds._remainder(activations.get("softplus"), 3.0, 1.0, 2) <= 1.0001 * square


FUNCTIONS = {
    "tanh": mpmath.tanh,
    "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)),
    "swish": lambda z: z / (1 + mpmath.exp(-z)),
    "softplus": lambda z: mpmath.log(1 + mpmath.exp(z)),
    "gelu": lambda z: z * mpmath.ncdf(z),
    "erf": mpmath.erf,
    "sine": mpmath.sin,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("power", [1, 2])
def test_fourth_derivative_bounds_are_suprema(name, power):
    """Recomputed from 30-digit derivatives on a grid of 0.02; a parabola through the three highest points gives the top."""
    f, record = FUNCTIONS[name], activations.get(name)
    bound = record.fourth_bound if power == 1 else record.square_fourth_bound
    with mpmath.workdps(30):
        z = [mpmath.mpf(k) / 50 for k in range(-150, 151)] + [mpmath.mpf(k) / 4 for k in [*range(-40, -12), *range(13, 41)]]
        values = [abs(mpmath.diff(lambda t: f(t) ** power, x, 4)) for x in z]
        sup = max(values)
    assert float(sup) <= bound <= 1.001 * float(sup)


@pytest.mark.parametrize("activation", CASES, ids=lambda a: a.name)
@pytest.mark.parametrize(
    ("tolerance", "means", "variances"),
    [
        (1e-2, (-5, 5), (0, 1)),
        (1e-4, (-5, 5), (1e-3, 10)),
        (1e-8, (-1, 1), (0, 0.1)),
        (1e-4, (50, 60), (0, 1)),
        (1e-3, (2, 2), (0, 0)),
    ],
)
def test_chosen_mesh_meets_its_tolerance(activation, tolerance, means, variances):
    mesh = choose_mesh(activation, tolerance, means, variances)
    rng = np.random.default_rng(1)
    m = np.append(rng.uniform(*means, 300), [means[0], means[1]] * 2)
    v = np.append(rng.uniform(*variances, 300), [variances[0]] * 2 + [variances[1]] * 2)
    bound = error_bound(activation, m, v, mesh)
    assert max(bound.mean.max(), bound.var.max()) <= tolerance
    of_mean, of_var = true_errors(activation, m, v, mesh)
    assert max(of_mean.max(), of_var.max()) <= tolerance


def test_chosen_mesh_has_few_points():
    """Tenfold tolerance, 10^(1/4) fewer points; and three in four of the points would not do."""
    fine, coarse = (choose_mesh("tanh", t, (-5, 5), (1e-3, 1)) for t in (1e-7, 1e-6))
    assert 1.6 < fine.n_points / coarse.n_points < 2.1
    fewer = error_bound("tanh", np.linspace(-5, 5, 41), 1.0, Mesh(fine.a, fine.b, int(0.75 * fine.n_points)))
    assert max(fewer.mean.max(), fewer.var.max()) > 1e-7


BARE = activations.custom(np.tanh, left=-1, right=1, name="bare")
SLOPED = activations.custom(np.tanh, left=-1, right=1, fourth_bound=4.1, square_fourth_bound=16, name="sloped")
ENDS = {"left": None, "right": None, "name": "open_ended"}
OPEN_ENDED = activations.custom(np.sin, derivative=np.cos, fourth_bound=1, square_fourth_bound=8, **ENDS)
COARSE, FINE = Mesh(-1, 1, 5), Mesh(-10, 10, 101)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        *(((f, 0.0, 1.0, COARSE), {}, ValueError, rf"got {f}.*tanh.*fourth_bound=") for f in KINKED),
        ((BARE, 0.0, 1.0, COARSE), {}, ValueError, "square_fourth_bound="),
        ((SLOPED, 0.0, 1.0, COARSE), {}, ValueError, "derivative="),
        ((OPEN_ENDED, 0.0, 1.0, COARSE), {}, ValueError, "declares no left tail"),
        (("tanh", 0.0, 1.0, (-10, 10, 101)), {}, TypeError, "mesh must be a"),
        (("tanh", 0.0, 1.0, FINE), {"constant": "loose"}, ValueError, "constant must be 'sharp' or 'paper', got 'loose'"),
    ],
)
def test_invalid_arguments_of_error_bound_raise(arguments, options, error, words):
    with pytest.raises(error, match=words):
        error_bound(*arguments, **options)


@pytest.mark.parametrize(
    ("activation", "tolerance", "means", "variances", "error", "words"),
    [
        *((f, 1e-3, (-1, 1), (0, 1), ValueError, "four times") for f in KINKED),
        ("swish", 0.0, (-1, 1), (0, 1), ValueError, r"tolerance must lie in \(0, ∞\), got 0.0"),
        ("swish", 1e-3, (1, -1), (0, 1), ValueError, r"mean_range must be finite with low <= high, got \(1, -1\)"),
        ("swish", 1e-3, (-1, 1), (-1, 1), ValueError, r"var_range must not be negative, got \(-1, 1\)"),
        ("swish", 1e-3, 5, (0, 1), TypeError, r"mean_range must be a pair \(low, high\)"),
        ("swish", 1e-17, (-1, 1), (0, 1), ValueError, "rounding of double precision"),
        ("swish", 1e-6, (-1e5, 1e5), (0, 1e6), ValueError, "cannot be met|rounding"),
        ("sine", 1e-13, (-3e3, 3e3), (0.0, 1.0), ValueError, "cannot be met for sine.*1000000 mesh points"),
    ],
)
def test_invalid_arguments_of_choose_mesh_raise(activation, tolerance, means, variances, error, words):
    with pytest.raises(error, match=words):
        choose_mesh(activation, tolerance, means, variances)
