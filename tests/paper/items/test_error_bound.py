"""Claim: the bound is the paper's formula, no error exceeds it, the printed example is explained, tails free the inputs."""

import math

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.paper.items import error_bound

ITEM = "error-bound"

MESH = pesn.Mesh(-10.0, 10.0, 101)


def test_the_steepest_place():
    place, value = error_bound.steepest()
    assert (place, value) == (pytest.approx(0.42131647, abs=1e-6), pytest.approx(4.0858855030, abs=1e-9))
    assert value == pytest.approx(pesn.activations.get("tanh").fourth_bound, rel=1e-8)


@pytest.mark.parametrize(("mean", "var"), [(3.0, 0.2), (-9.0, 4.0), (9.9, 1.0), (0.0, 100.0)])
def test_the_bound_is_the_printed_formula_and_agrees_with_the_library_s(mean, var):
    value = error_bound.steepest()[1]
    low, high = (math.erf((end - mean) / math.sqrt(2.0 * var)) for end in (-10.0, 10.0))
    c1, c2, c3 = 0.2**4 * value / 32.0, abs(1.0 + math.tanh(-10.0)) / 2.0, abs(math.tanh(10.0) - 1.0) / 2.0
    written = c1 * (high - low) + c2 * (low + 1.0) + c3 * (1.0 - high)
    of_mean, of_var = error_bound.paper_bound_values(mean, var, MESH, value)
    assert of_mean == pytest.approx(written, rel=1e-9)
    assert of_mean == pytest.approx(pesn.error_bound("tanh", mean, var, MESH, constant="paper").mean, rel=1e-4)
    assert of_var > 2.0 * of_mean


def test_no_error_exceeds_a_bound(result):
    frame = result.frame
    assert len(frame) == 4 * 17 * 2
    for of in ("mean", "var"):
        for kind in ("paper", "sharp"):
            assert (frame[f"{of} error"] <= frame[f"{of} bound, {kind}"] + 1e-14).all()


def test_the_example_s_numbers(result):
    table = result.tables["The printed example"]
    # the bound by place, by value and as sharp as may be, the error, and the bound itself
    expected = [(4.21321e-5, 2e-5), (4.0859e-4, 1e-4), (8.512e-5, 1e-4), (2.3e-7, 0.03), (1.8e-5, 0.01)]
    for obtained, (number, rel) in zip(table["obtained"], expected, strict=True):
        assert obtained == pytest.approx(number, rel=rel)
    assert table["published"].dropna().tolist() == [4.21321e-5]


def test_without_tails_mass_beyond_the_mesh_counts_nothing():
    # A twin: the integral over the mesh alone.
    from scipy.integrate import quad

    for mean, var in ((9.5, 1.0), (-10.5, 4.0), (0.5, 9.0)):
        density = lambda z, m=mean, v=var: np.tanh(z) * math.exp(-0.5 * (z - m) ** 2 / v) / math.sqrt(2 * math.pi * v)  # noqa: E731
        value, _ = quad(density, -10.0, 10.0, limit=200)
        assert error_bound.without_tails(mean, var, MESH) == pytest.approx(value, abs=2e-5)


@pytest.mark.parametrize(
    ("by_place", "by_value", "verdict"), [(1.0, 4.2e-5, "holds"), (4.2e-5, 4.1e-4, "misprint"), (1.0, 4.1e-4, "does not hold")]
)
def test_printed_bound_verdict_for_every_outcome(by_place, by_value, verdict):
    judged = error_bound.judge_example(4.2e-5, [by_place, by_value, 8.5e-5, 2.3e-7], 9.9e-6)
    assert judged.verdict == verdict
    assert "9.9e-06" in judged.reason
    assert f"{by_value:.4e}" in judged.reason


@pytest.mark.parametrize(
    ("bare", "tailed", "verdict"), [(0.5, 0.4, "holds"), (0.5, 1e-5, "holds in part"), (1e-5, 1e-5, "does not hold")]
)
def test_mesh_verdict_for_every_outcome(bare, tailed, verdict):
    worst = pd.DataFrame({"error": [bare, tailed, 1.6e-3], "bound": [np.nan, 8.5e-5, np.nan]})
    judged = error_bound.judge_mesh(worst, 30.0)
    assert judged.verdict == verdict
    assert f"{tailed:.1e}" in judged.reason


def test_bound_verdict_for_both_outcomes(result):
    assert [v.verdict for v in result.verdicts] == ["holds", "misprint", "holds in part"]
    frame = result.frame.copy()
    frame.loc[3, "var error"] = 2.0 * frame.loc[3, "var bound, paper"]
    broken = error_bound.judge_bound_claim(frame)
    assert broken.verdict == "does not hold"
    assert "0 times (mean) and 1 times (variance)" in broken.reason
