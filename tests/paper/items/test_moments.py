"""Claim: the curves of analytic, spline and Monte Carlo moments are those of the formulas, and saturation is judged by them."""

import json

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.paper import claims
from pesn.paper.claims import Settings, Tasks
from pesn.paper.items import moments

TINY = {"variances": [0.2, 1.0], "mean_range": [-5.0, 5.0], "points": 23, "samples": 4_000, "mesh": [-10.0, 10.0, 101]}


@pytest.fixture(scope="module")
def result():
    return moments.run(Settings(True, 0, TINY), Tasks())


def test_parameters_can_be_written_down_and_follow_the_paper():
    for quick in (True, False):
        p = moments.parameters(quick)
        assert json.loads(json.dumps(p)) == p
        assert p["variances"] == [0.2, 1.0]
        assert p["mean_range"] == [-5.0, 5.0]
    assert moments.parameters(True)["samples"] < moments.parameters(False)["samples"]


def test_the_analytic_formulas_are_the_paper_s_as_printed():
    mean, var = moments.answer("analytic", 0.8, 0.1, None)
    # The paper writes the mean as a logistic function, and the variance with its square subtracted.
    printed = 2.0 / (1.0 + np.exp(-0.8 / np.sqrt(3.0 / np.pi**2 * 0.1 + 0.25))) - 1.0
    width = 2.0 / np.pi + 0.1
    assert mean == pytest.approx(printed, rel=1e-13)
    assert var == pytest.approx(1.0 - 2.0 / np.sqrt(2.0 * np.pi * width) * np.exp(-0.64 / (2.0 * width)) - printed**2, rel=1e-12)
    assert var < 0.0


def test_the_spline_is_the_paper_s_difference_of_raw_moments():
    _, var = moments.answer("spline", [3.0], [1e-12], [-10.0, 10.0, 101])
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
    # Scipy's quadrature knows nothing of pesn's.
    from scipy.integrate import quad

    for _, line in exact.iloc[::7].iterrows():
        m, s = line["mean"], np.sqrt(line["variance"])
        value, _ = quad(lambda x, m=m, s=s: np.tanh(m + s * x) * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi), -12, 12, epsabs=1e-13)
        assert line["out_mean"] == pytest.approx(value, abs=1e-12)


def test_the_order_of_the_methods(result):
    table = result.tables["Largest absolute error along the mean"]
    assert (table["surface"] < 1e-12).all()
    assert (table["spline"] < 2e-5).all()
    assert (table["analytic"] > 1e-2).all()
    assert (table["better"] == "surface").all()


def test_every_claim_of_the_item_is_judged(result):
    assert [v.claim for v in result.verdicts] == list(moments.CLAIMS)
    assert all(moments.NAME in claims.CLAIMS[c].items for c in moments.CLAIMS)
    assert result.verdicts[0].verdict == "holds"


@pytest.mark.parametrize(("ends", "verdict"), [(1e-4, "holds"), (9e-3, "does not hold")])
def test_saturation_both_ways(ends, verdict):
    rows = [
        {"method": "analytic", "input variance": 1.0, "of": "variance", "largest": 1e-2, "at the ends": ends},
        {"method": "spline", "input variance": 1.0, "of": "mean", "largest": 1e-5, "at the ends": 1e-8},
    ]
    drops = pd.DataFrame(rows)
    drops["ends / largest"] = drops["at the ends"] / drops["largest"]
    drops["relative at the ends"] = [321.0, 1e-8]
    judged = moments.judge_saturation(drops)
    assert judged.verdict == verdict
    assert "321" in judged.reason
    assert f"{ends / 1e-2:.1e}" in judged.reason


def test_the_engine_does_not_matter(result):
    class Backwards(Tasks):
        def map(self, function, arguments):
            return [function(*a) for a in reversed(arguments)][::-1]

    pd.testing.assert_frame_equal(moments.run(Settings(True, 0, TINY), Backwards()).frame, result.frame)
    other = moments.run(Settings(True, 1, TINY), Tasks()).frame
    sampled = result.frame["method"] == "monte-carlo"
    assert (other["out_mean"] != result.frame["out_mean"])[sampled].all()
    pd.testing.assert_series_equal(other["out_mean"][~sampled], result.frame["out_mean"][~sampled])


def test_pictures_have_axes_and_words(result):
    assert set(result.figures) == {"values", "errors"}
    for figure, alt in result.figures.values():
        assert len(figure.axes) in (4, 8)
        assert all(ax.get_ylabel() for ax in figure.axes[::2])
        assert all(ax.get_xlabel() for ax in figure.axes[-2:])
        assert alt.endswith(".")
        figure.canvas.draw()
