"""Claim: the spline serves smooth functions quickly, kinked ones slowly, and none whose tails nobody knows."""

import numpy as np
import pytest

from pesn.paper.items import any_function

MEAN, VAR = (x.ravel() for x in np.meshgrid(np.linspace(-4.0, 4.1, 7), [0.01, 1.0, 100.0]))


@pytest.fixture(scope="module")
def errors():
    return any_function.table(["tanh", "gelu", "relu", "sine"], MEAN, VAR, [-10.0, 10.0], [26, 51, 101])


def test_orders(errors):
    order = errors.set_index("function")["order"]
    assert order["tanh"] < -3.5  # the fourth power, of a bound
    assert order["gelu"] < -3.5
    assert -2.5 < order["relu"] < -0.5
    assert order["sine"] == 0.0


def test_what_is_cut_off_is_the_closed_form_without_its_tails():
    # Inside six standard deviations nothing is lost: E[sin z] = e^(−v/2) sin m.
    inside = any_function._cut_off("sine", np.array([1.0]), np.array([0.5]), [-10.0, 10.0])
    assert inside[0] == pytest.approx(np.exp(-0.25) * np.sin(1.0), abs=1e-12)


def test_judged_every_way(errors):
    judged = any_function.judge(errors)
    assert judged.verdict == "corrected"
    assert "sine is bounded" in judged.reason
    assert any_function.judge(errors[errors["function"] != "sine"]).verdict == "holds"
    bad = errors.assign(**{"N = 101": 0.5})
    assert any_function.judge(bad).verdict == "does not hold"
