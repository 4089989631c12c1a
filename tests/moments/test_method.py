"""A method resolved once gives what the front door gives, and loops over steps do not go through the front door."""

import sys
from collections import Counter

import numpy as np
import pytest

import pesn
from pesn import activations
from pesn.moments import MomentMethod

DOORS = {door.__code__: name for name, door in {"moments": pesn.moments, "gain": pesn.gain, "get": activations.get}.items()}


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
def test_it_is_what_moments_gives(method, options):
    mean, var = np.linspace(-3.0, 3.0, 7), np.linspace(0.0, 2.0, 7)
    expected = pesn.moments("tanh", mean, var, method=method, **options)
    found = MomentMethod("tanh", method, **options)(mean, var)
    np.testing.assert_array_equal(found, expected[:2])
    np.testing.assert_array_equal(MomentMethod("tanh", method, **options).gain(mean, var), pesn.gain("tanh", mean, var))


def test_options_of_other_methods_are_left_out():
    mean, var = np.zeros(2), np.ones(2)
    np.testing.assert_array_equal(MomentMethod("tanh", mesh=None, rng=1)(mean, var), MomentMethod("tanh")(mean, var))


def _entered(function):
    """How often each front door was entered."""
    counts = Counter()

    def count(frame, event, _):
        if event == "call" and frame.f_code in DOORS:
            counts[DOORS[frame.f_code]] += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return counts


def test_the_count_sees_the_front_doors():
    pesn.moments("tanh", 0.0, 1.0)  # the table is loaded once
    assert _entered(lambda: pesn.moments("tanh", 0.0, 1.0)) == {"moments": 1, "get": 1}


@pytest.mark.parametrize("covariance", ["full", "low-rank", "diagonal"])
def test_a_forecaster_enters_them_a_few_times_whatever_the_rows(covariance):
    def run(rows):
        y = np.sin(0.3 * np.arange(rows))[:, None]
        network = pesn.ProbabilisticESN(n_units=20, covariance=covariance, random_state=0)
        return _entered(lambda: pesn.Forecaster(network).fit(y).forecast(rows // 10))

    for rows in (150, 300):
        counts = run(rows)
        assert counts["moments"] == counts["gain"] == 0
        assert counts["get"] <= 20  # a few for each model that is tried
