"""Claim: skewness and kurtosis of the paper's form and of pesn's are told apart, and where they err is counted."""

import numpy as np
import pytest

import pesn
from pesn import paper
from pesn.paper.items import moments as higher_moments
from pesn.paper.items.moments import WrongShare

ITEM = "higher-moments"


def test_the_printed_kurtosis_is_the_formula_with_a_square_too_many():
    draws = np.random.default_rng(0).normal(0.4, 0.3, 1_000)
    a = [np.mean(draws**k) for k in range(5)]
    var = a[2] - a[1] ** 2
    right = (a[4] - 4 * a[1] * a[3] + 6 * a[2] * a[1] ** 2 - 3 * a[1] ** 4) / var**2
    printed = (a[4] - 4 * a[1] * a[3] + 6 * a[2] ** 2 * a[1] ** 2 - 3 * a[1] ** 4) / var**2
    assert right == pytest.approx(np.mean((draws - a[1]) ** 4) / var**2, rel=1e-9)
    got = higher_moments.paper_kurtosis(np.array(a[1]), np.array(var), np.array(right))
    assert got == pytest.approx(printed, rel=1e-9)


def test_the_frame_holds_each_form_s_moments(result):
    frame = result.frame
    assert len(frame) == 3 * 19 * 13
    row = frame[(frame["activation"] == "swish") & (frame["mean"] == 0.0)].iloc[4]
    got = pesn.moments("swish", 0.0, row["variance"], order=4, method="spline-raw")
    assert [row[f"spline-raw {m}"] for m in higher_moments.MOMENTS] == pytest.approx(list(got), rel=1e-6)
    # Each activation's samples stand in its own rows.
    for name, part in frame.groupby("activation"):
        error = np.abs(part["monte-carlo mean"] - part["exact mean"])
        assert (error <= 6.0 * np.sqrt(part["exact variance"] / 200) + 1e-3).all(), name
    # a variance that is not positive counts as wrong
    assert (frame["spline-raw variance"] <= 0.0).any()
    wrong = higher_moments._wrong(frame, "spline-raw")
    assert wrong[(frame["spline-raw variance"] <= 0.0).to_numpy()].all()


def test_central_moments_err_less(result):
    table = result.tables["Absolute error over the grid"].set_index(["activation", "of"])
    assert paper.get("higher-moments").parameters(False)["activations"] == ["tanh", "sigmoid", "swish"]
    for name in ("tanh", "sigmoid", "swish"):
        for of in ("skewness", "kurtosis"):
            assert table.loc[(name, of), "better"] == "pesn's spline, largest"
        assert table.loc[(name, "mean"), "better"] == ""  # the same number by either form
        assert table.loc[(name, "variance"), "surface, largest"] < 1e-10


@pytest.mark.parametrize(("spreads", "verdict"), [
    ([WrongShare(1e-6, 0.9, 0.01, 1e-6)], "holds"),
    ([WrongShare(1e-6, 0.9, 0.2, 1e-3), WrongShare(1e-5, 0.9, 0.01, 1e-5)], "holds"),
    ([WrongShare(1e-6, 0.9, 0.2, 1e-3)], "holds in part"), ([WrongShare(1e-6, 0.1, 0.0, 1e-9)], "does not hold"),
])  # fmt: skip
def test_small_variance_verdict_for_every_outcome(spreads, verdict):
    judged = higher_moments.judge_small_variance(spreads, 0.034)
    assert judged.verdict == verdict
    assert "3.4 %" in judged.reason
    assert f"{100 * spreads[0].below:.0f} %" in judged.reason


# ---------------------------------------------------------------- other functions: smooth ones are served quickly, kinked ones
# slowly, and none whose tails nobody knows

MEAN, VAR = (x.ravel() for x in np.meshgrid(np.linspace(-4.0, 4.1, 7), [0.01, 1.0, 100.0]))


@pytest.fixture(scope="module")
def errors():
    return higher_moments.measure_functions(["tanh", "gelu", "relu", "sine"], MEAN, VAR, [-10.0, 10.0], [26, 51, 101])


def test_orders(errors):
    order = errors.set_index("function")["order"]
    assert order["tanh"] < -3.5  # the fourth power, of a bound
    assert order["gelu"] < -3.5
    assert -2.5 < order["relu"] < -0.5
    assert order["sine"] == 0.0


def test_what_is_cut_off_is_the_closed_form_without_its_tails():
    # Inside six standard deviations nothing is lost: E[sin z] = e^(−v/2) sin m.
    inside = higher_moments._integrate_inside("sine", np.array([1.0]), np.array([0.5]), [-10.0, 10.0])
    assert inside[0] == pytest.approx(np.exp(-0.25) * np.sin(1.0), abs=1e-12)


def test_any_function_verdict_for_every_outcome(errors):
    judged = higher_moments.judge_any_function(errors)
    assert judged.verdict == "holds in part"
    assert "sine is bounded" in judged.reason
    assert higher_moments.judge_any_function(errors[errors["function"] != "sine"]).verdict == "holds"
    bad = errors.assign(**{"N = 101": 0.5})
    assert higher_moments.judge_any_function(bad).verdict == "does not hold"
