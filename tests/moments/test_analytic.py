"""Claim: the paper's formulas, as printed, err by 4.5e-2 and 5.4e-2, their variance turns negative; ours is clipped at 0."""

import numpy as np
import pytest

from pesn.activations import get
from pesn.moments import exact
from pesn.moments.mixture import analytic_moments, formulas

TANH, SIGMOID = get("tanh"), get("sigmoid")


@pytest.fixture(scope="module")
def grid():
    m, v = np.meshgrid(np.linspace(-5, 5, 101), np.logspace(-4, 2, 61))
    return m.ravel(), v.ravel()


def test_errors_over_the_grid_are_those_of_the_paper(grid):
    mean, var = formulas(*grid)
    true_mean, true_var = exact.moments(TANH, *grid, 2)
    assert np.max(np.abs(mean - true_mean)) == pytest.approx(4.5e-2, abs=1e-3)
    assert np.max(np.abs(var - true_var)) == pytest.approx(5.4e-2, abs=1e-3)


def test_the_printed_variance_turns_negative_and_the_returned_one_never(grid):
    _, printed = formulas(*grid)
    assert printed.min() == pytest.approx(-0.046, abs=1e-3)
    assert np.sum(printed < 0) == 742
    mean, var = analytic_moments(TANH, *grid, 2)
    assert var.min() == 0.0
    np.testing.assert_array_equal(var, np.maximum(printed, 0.0))
    np.testing.assert_array_equal(mean, formulas(*grid)[0])


def test_sigmoid_is_tanh_at_half_the_scale(grid):
    m, v = grid
    mean, var = analytic_moments(SIGMOID, m, v, 2)
    half_mean, half_var = analytic_moments(TANH, 0.5 * m, 0.25 * v, 2)
    np.testing.assert_allclose(mean, 0.5 + 0.5 * half_mean, rtol=1e-14)
    np.testing.assert_allclose(var, 0.25 * half_var, rtol=1e-14)


def test_finite_at_the_ends_of_the_range():
    m = np.array([0.0, 1e300, -1e300, 1e300, 3.0, 0.0])
    v = np.array([1e300, 1e300, 0.0, 1e-300, 0.0, 0.0])
    for activation in (TANH, SIGMOID):
        mean, var = analytic_moments(activation, m, v, 2)
        assert np.all(np.isfinite(mean))
        assert np.all((var >= 0) & (var <= 1))
    assert analytic_moments(TANH, m, v, 2)[0][4] == pytest.approx(np.tanh(3.0), abs=1e-14)


def test_what_it_cannot_do_is_said():
    one = np.ones(1)
    with pytest.raises(ValueError, match=r"method 'analytic' serves tanh and sigmoid, got 'relu'; use 'surface', 'exact'"):
        analytic_moments(get("relu"), one, one, 2)
    with pytest.raises(ValueError, match=r"gives orders 1 and 2, got order 3"):
        analytic_moments(TANH, one, one, 3)
    assert len(analytic_moments(TANH, one, one, 1)) == 1
