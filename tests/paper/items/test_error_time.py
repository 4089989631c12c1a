"""Errors are those of the methods, against an independent reference; the front and the orders are what they are called."""

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.paper.items import cost

ITEM = "error-time"


def test_reference_is_the_table_of_fifty_digits(reference):
    table = reference["tanh"]
    rows = (table.var <= 1.0) & (table.var >= 1e-6) & (np.abs(table.mean) <= 5.0)
    assert rows.sum() > 10
    mean, var = cost.reference(table.mean[rows], table.var[rows])
    assert np.allclose(mean, table.out_mean[rows], rtol=0, atol=1e-13)
    assert np.allclose(var, table.out_var[rows], rtol=1e-8, atol=1e-15)


@pytest.mark.parametrize("points", [21, 101])
def test_plain_spline_is_the_library_s_raw_spline(points):
    rng = np.random.default_rng(0)
    mean, var, mesh = rng.uniform(-5, 5, 40), rng.uniform(0.01, 1.0, 40), pesn.Mesh(-10.0, 10.0, points)
    theirs = pesn.moments("tanh", mean, var, method="spline-raw", mesh=mesh)
    ours = cost.plain_spline(mean, var, mesh, chunk=7)
    assert np.allclose(ours, [theirs.mean, theirs.var], rtol=0, atol=1e-11)


def _frame(analytic=1e-2, spline_order=-4.0, sample_error=1e-3):
    rows = [("analytic", 1, analytic, 1e-7)]
    rows += [("spline, plain NumPy", n, 1e-2 * (n / 11) ** spline_order, 1e-6 * n) for n in (11, 21, 41, 81)]
    rows += [("Monte Carlo", n, sample_error * (n / 10_000) ** -0.5, 1e-7 * n) for n in (100, 1_000, 10_000)]
    return pd.DataFrame([{"method": m, "size": n, "mean error": e, "variance error": e, "seconds": t} for m, n, e, t in rows])


def test_convergence_verdict_for_every_outcome():
    good, bad = _frame(), _frame(analytic=1e-6, spline_order=-1.0)
    assert cost.judge_convergence(good, [good] * 4).verdict == "holds"
    assert cost.judge_convergence(good, [bad] * 4).verdict == "does not hold"
    assert cost.judge_convergence(good, [good, good, bad, bad]).depends == "the draw"
    for half in (_frame(analytic=1e-6), _frame(spline_order=-1.0)):
        assert cost.converges(half).outcome == "holds in part"
    slow = _frame(sample_error=1e-9)
    assert "does not get past" in cost.judge_convergence(slow, [slow]).reason


@pytest.mark.parametrize(("rival", "verdict"), [(2e-7, "holds"), (5e-8, "does not hold")])
def test_speed_verdict_for_both_outcomes(rival, verdict):
    names = [("analytic", 1, 1e-7), ("spline, compiled", 21, rival), ("Monte Carlo", 100, 1e-5), ("surface (pesn)", 1, 1e-8)]
    frame = pd.DataFrame([{"method": m, "size": n, "seconds": t, "mean error": 1e-3} for m, n, t in names])
    judged = cost.judge_fastest(frame, {(m, n): [t, t] for m, n, t in names})
    assert (judged.verdict, judged.support) == (verdict, 2)  # pesn's own is no rival of the paper's
    assert judged.draws[0].value == pytest.approx(rival / 1e-7)
    assert "spline, compiled of size 21" in judged.reason


def test_errors_are_of_the_known_size(result):
    error = result.frame.set_index(["method", "size"])["mean error"]
    assert error["surface (pesn)", 1] < 1e-11
    assert error["exact (pesn)", 1] < 1e-13
    assert error["mixture (pesn)", 8] < 4.2e-9  # twice the largest error of the mixture's distribution function
    assert error["spline, plain NumPy", 81] < 4.0859 * 0.25**4 / 16  # the paper's bound, corrected
    assert 1e-4 < error["analytic", 1] < 4.5e-2
    assert result.frame["on the front"].any()
    assert "front" in result.figures["error-time"][1]
    sampled = error["Monte Carlo"]
    assert sampled[10_000] < sampled[1_000] < sampled[100]
