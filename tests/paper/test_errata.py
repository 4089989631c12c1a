"""Claim: what the errata say is right is right: every number in them is computed here again."""

from itertools import pairwise
from math import erf, exp, pi, sqrt

import numpy as np
import pytest
from scipy.integrate import quad

import pesn
from pesn import paper
from pesn.paper.claims import ERRATA
from pesn.paper.items import error_bound
from pesn.paper.items import moments as moments_grid


def says(number, *texts):
    erratum = ERRATA[number - 1]
    assert erratum.number == number
    return all(text in erratum.printed + erratum.right for text in texts)


def density(z, mean, var):
    return np.exp(-0.5 * (z - mean) ** 2 / var) / np.sqrt(2.0 * np.pi * var)


def test_errata_are_numbered():
    assert [erratum.number for erratum in ERRATA] == list(range(1, len(ERRATA) + 1))
    assert all(len(erratum.printed) > 10 and len(erratum.right) > 7 for erratum in ERRATA)


def test_integral_of_the_square_is_as_the_errata_say():
    # Errata 1 and 24, for an interval that is not symmetric about the mean.
    m, v, low, high = 0.5, 0.2, 0.3, 0.9
    a, b = ((end - m) / sqrt(2.0 * v) for end in (low, high))
    assert says(1, "√(2σ/π) μ (exp(−α²) − exp(−β²))")
    assert says(24, "(2/√π) (α exp(−α²) − β exp(−β²))")
    first = v / 2.0 * (erf(b) - erf(a) + 2.0 / sqrt(pi) * (a * exp(-a * a) - b * exp(-b * b)))
    whole = first + sqrt(2.0 * v / pi) * m * (exp(-a * a) - exp(-b * b)) + m * m / 2.0 * (erf(b) - erf(a))
    assert whole == pytest.approx(quad(lambda z: z * z * density(z, m, v), low, high)[0], rel=1e-10)


def test_mean_without_tails_is_as_the_errata_say():
    assert says(8, "a mean of 9.5 with variance 1", "0.69 instead of 1.00")
    assert f"{error_bound.without_tails(9.5, 1.0, pesn.Mesh(-10, 10, 101)):.2f}" == "0.69"


def test_the_printed_bound_is_nearly_that_of_a_place():
    place, value = error_bound.steepest()
    by_place, by_value = (float(error_bound.paper_bound_values(3.0, 0.2, pesn.Mesh(-10, 10, 101), x)[0]) for x in (place, value))
    assert says(9, "guess", f"{place:.5f}", f"{value:.4f}", "4.21316e-5", "4.21321e-5", "4.086e-4")
    assert (f"{by_place:.5e}", f"{by_value:.3e}") == ("4.21316e-05", "4.086e-04")


def test_the_analytic_variance_on_three_grids():
    p = paper.get("moments-grid").parameters(False)
    for reach, share in ((5.0, 52), (2.0, 18), (10.0, 69)):
        assert says(10, f"on {share} %")
        signs = moments_grid.signs(p | {"other_means": [reach]}).iloc[0]
        assert round(signs["% too large"]) == share
        if reach == 5.0:
            assert says(10, f"{signs['% negative']:.1f} %")


def test_a_difference_in_every_interval_is_no_variance():
    m, v, z = 0.5, 0.2, pesn.Mesh(-10, 10, 101).points
    first, second = (
        np.array([quad(lambda x, k=k: np.tanh(x) ** k * density(x, m, v), *ends)[0] for ends in pairwise(z)]) for k in (1, 2)
    )
    assert says(21, "mean 0.5 and variance 0.2", "0.244 instead of 0.110")
    assert (f"{np.sum(second - first**2):.3f}", f"{second.sum() - first.sum() ** 2:.3f}") == ("0.244", "0.110")
    assert second.sum() - first.sum() ** 2 == pytest.approx(float(pesn.moments("tanh", m, v).var), rel=1e-9)
