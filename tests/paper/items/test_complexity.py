"""The operations are counted from methods that give the right numbers, and linear growth is told from other growth."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn import paper
from pesn.paper.claims import Settings, Tasks
from pesn.paper.items import cost

MEAN, VAR = [0.5, -1.2, 3.0], [0.2, 0.6, 0.05]


def test_what_is_counted_is_the_spline():
    got, _ = cost.count_spline(101, MEAN, VAR)
    truth = pesn.moments("tanh", MEAN, VAR, method="spline-raw")
    # the error function of Abramowitz and Stegun errs by 1.5e-7 at each of the nodes
    assert np.allclose(np.transpose(got), [truth.mean, truth.var], rtol=0, atol=2e-5)


def test_what_is_counted_is_the_analytic_method():
    got, _ = cost.count_analytic(MEAN, VAR)
    truth = pesn.moments("tanh", MEAN, VAR, method="analytic")
    assert np.allclose(np.transpose(got), [truth.mean, truth.var], rtol=0, atol=1e-13)


def test_counts_by_terms_and_by_hand():
    terms = cost.recount()
    _, lines = cost.count_spline(23, MEAN, VAR)
    for line, tally in lines.items():
        for kind in cost.KINDS:
            t = terms["spline, as written"][line][kind]
            assert tally[kind] == 69 * t["ND"] + 23 * t["N"] + 3 * t["D"] + t["1"], (line, kind)
    # counts by hand
    written = terms["spline, as written"]
    assert (written["1"]["*/÷"]["N"], written["1"]["+/−"]["N"]) == (2, 3)
    # α and β: a product, a root, a difference, a quotient
    assert [written["4"][k]["ND"] for k in cost.KINDS] == [4, 2, 0, 2]
    # 2 + 2 + 4 + 4 error functions and 0 + 2 + 4 + 6 exponentials are printed in the four integrals
    assert (written["5"]["exp"]["ND"], written["5"]["sqrt"]["ND"]) == (12 + 12, 0 + 1 + 2 + 4)
    assert written["6"]["*/÷"]["D"] - written["5"]["*/÷"]["D"] == 1  # A₁²
    assert [terms["analytic"]["mean"][k]["D"] for k in cost.KINDS] == [6, 3, 1, 1]


def test_published_numbers():
    rows = pd.DataFrame(
        {"method": method, "line": line, "operation": kind, **dict.fromkeys(("ND", "N", "D", "1"), 0), **terms}
        for method, lines in cost.PUBLISHED.items()
        for line, row in lines.items()
        for kind, terms in zip(cost.KINDS, row, strict=True)
    )
    assert len(rows) == 6 * 4 + 3 * 4
    spline = rows[(rows["method"] == "spline, as written") & (rows["line"] == "all")].set_index("operation")
    assert spline.loc["*/÷", ["ND", "N", "D", "1"]].tolist() == [228, 30, 0, 2]
    assert spline["ND"].tolist() == [228, 122, 36, 14]
    sums = rows[rows["line"] != "all"].groupby(["method", "operation"])[["ND", "N", "D", "1"]].sum()
    totals = rows[rows["line"] == "all"].set_index(["method", "operation"])[["ND", "N", "D", "1"]]
    pd.testing.assert_frame_equal(sums.sort_index(), totals.sort_index())  # the printed totals are the sums of their lines


def _times(power):
    sizes = [100, 1000, 10_000]
    frame = pd.DataFrame(product(power, sizes, range(3)), columns=["method", "units", "round"])
    seconds = (1 + 0.1 * frame["round"]) * frame["units"] ** frame["method"].map(power)
    return frame.assign(seconds=seconds), dict.fromkeys(power, sizes)


def test_exponents_are_recovered_and_judged():
    linear = dict.fromkeys(cost.JUDGED, 1.0)
    frame, sizes = _times(linear)
    fits = cost.slopes(frame, "units", sizes)
    assert all(np.allclose(some, 1.0) for some in fits.values())
    judged = cost.judge_units(fits, sizes)
    assert (judged.verdict, judged.support, len(judged.draws)) == ("holds", 3, 3)
    for method in linear:
        frame, sizes = _times({**linear, method: 1.5})
        verdict = cost.judge_units(cost.slopes(frame, "units", sizes), sizes)
        assert verdict.verdict == "does not hold"
        assert "1.50" in verdict.reason


@pytest.mark.parametrize(("power", "verdict"), [(1.1, "holds"), (2.0, "does not hold")])
def test_growth_with_the_mesh_verdict_for_both_outcomes(power, verdict):
    frame, sizes = _times({cost.PLAIN: power, cost.SPLINE: 0.5})
    fits = cost.slopes(frame, "units", sizes)
    judged = cost.judge_points(fits, sizes[cost.PLAIN], "348ND")
    assert judged.verdict == verdict
    assert all(words in judged.reason for words in ("348ND", f"{power:.2f} ({power:.2f} to {power:.2f})", "0.50"))


@pytest.mark.parametrize("quick", [True, False])
def test_parameters_leave_points_to_fit(quick):
    given = paper.get("complexity").parameters(quick)
    for setting, start in cost._SIZES.values():
        assert sum(start <= d <= given["fit_to"] for d in given[setting]) >= 3


def test_too_few_sizes_to_fit_are_refused():
    given = paper.get("complexity").parameters(True) | {"plain_units": [10, 20, 5_000]}
    words = r"plain_units must have two numbers or more from 1,000 to 100,000, got \[10, 20, 5000\]"
    with pytest.raises(ValueError, match=words):
        cost.run_complexity(Settings(True, 0, given), Tasks())
