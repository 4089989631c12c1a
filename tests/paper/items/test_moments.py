"""Claim: the curves of analytic, spline and Monte Carlo moments are those of the formulas, and saturation is judged by them."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad

import pesn
from pesn.paper.items import moments

ITEM = "moments"


def test_the_analytic_formulas_are_the_paper_s_as_printed():
    mean, var = moments.answer("analytic", 0.8, 0.1)
    # The paper writes the mean as a logistic function, and the variance with its square subtracted.
    printed = 2.0 / (1.0 + np.exp(-0.8 / np.sqrt(3.0 / np.pi**2 * 0.1 + 0.25))) - 1.0
    width = 2.0 / np.pi + 0.1
    assert mean == pytest.approx(printed, rel=1e-13)
    assert var == pytest.approx(1.0 - 2.0 / np.sqrt(2.0 * np.pi * width) * np.exp(-0.64 / (2.0 * width)) - printed**2, rel=1e-12)
    assert var < 0.0


def test_the_spline_is_the_paper_s_difference_of_raw_moments():
    _, var = moments.answer("spline", [3.0], [1e-12], pesn.Mesh(-10.0, 10.0, 101))
    assert var[0] != pesn.moments("tanh", 3.0, 1e-12, method="spline").var
    assert var[0] == pesn.moments("tanh", 3.0, 1e-12, method="spline-raw").var


def test_errors_are_against_quadrature(result):
    frame = result.frame
    assert len(frame) == 2 * 5 * 23
    row = frame[(frame["method"] == "monte-carlo") & (frame["variance"] == 0.2)].iloc[11]
    assert row["mean"] == 0.0
    assert row["mean_error"] == abs(row["out_mean"])
    # Four standard errors of 4,000 draws.
    assert 0.0 < row["mean_error"] < 4.0 * np.sqrt(0.147181820 / 4_000)
    exact = frame[frame["method"] == "exact"]
    assert (exact["mean_error"] == 0.0).all()
    for _, line in exact.iloc[::7].iterrows():  # SciPy's quadrature knows nothing of pesn's
        m, s = line["mean"], np.sqrt(line["variance"])
        value, _ = quad(lambda x, m=m, s=s: np.tanh(m + s * x) * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi), -12, 12, epsabs=1e-13)
        assert line["out_mean"] == pytest.approx(value, abs=1e-12)


def test_the_order_of_the_methods(result):
    table = result.tables["Largest absolute error along the mean"]
    assert (table["surface"] < 1e-12).all()
    assert (table["spline"] < 2e-5).all()
    assert (table["analytic"] > 1e-2).all()
    assert (table["better"] == "surface").all()
    assert result.verdicts[0].verdict == "holds"


@pytest.mark.parametrize(("ends", "verdict"), [(1e-4, "holds"), (9e-3, "does not hold")])
def test_saturation_verdict_for_both_outcomes(ends, verdict):
    columns = ["method", "input variance", "of", "ends / largest", "relative at the ends"]
    rows = [("analytic", 1.0, "variance", ends / 1e-2, 321.0), ("spline", 1.0, "mean", 1e-3, 1e-8)]
    judged = moments.judge_saturation(pd.DataFrame(rows, columns=columns))
    assert judged.verdict == verdict
    assert "321" in judged.reason
    assert f"{ends / 1e-2:.1e}" in judged.reason
