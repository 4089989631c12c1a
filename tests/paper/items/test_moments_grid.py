"""Claim: the error maps show what each method does on the grid, negative variances included, and the verdicts follow."""

import numpy as np
import pytest

from pesn import paper
from pesn.paper import claims
from pesn.paper.claims import Settings, Tasks
from pesn.paper.items import moments as moments_grid
from pesn.paper.items.moments import Comparison

ITEM = "moments-grid"


@pytest.mark.parametrize("quick", [True, False])
def test_the_means_are_everywhere_between_the_nodes(quick):
    # On a node of the mesh the spline is exact, and a grid of nodes would flatter it.
    means, _ = moments_grid.grid_axes(paper.get("moments-grid").parameters(quick))
    place = means / 0.2 - np.floor(means / 0.2 + 1e-9)
    assert np.sum(np.minimum(place, 1.0 - place) < 1e-6) == 1  # 0, where every method is right by symmetry
    assert np.allclose(np.diff(np.sort(place)), 1.0 / len(means))


def test_samples_stand_where_their_inputs_do(result):
    frame = result.frame
    # With 200 draws and five standard errors no value could stand in another's place unseen.
    error = np.abs(frame["monte-carlo mean"] - frame["exact mean"])
    assert (error <= 6.0 * np.sqrt(frame["exact var"] / 200) + 1e-3).all()
    certain = frame["variance"] < 1e-3
    assert (error[certain] < 0.02).all()
    # the analytic variance is negative where it is
    table = result.tables["Where the variance comes out negative"].set_index("method")
    row = table.loc["analytic (paper)"]
    assert row["points"] == (frame["analytic var"] < 0).sum() > 0
    there = frame[frame["analytic var"] < 0]
    assert there["variance"].max() < 0.2
    assert there["mean"].abs().between(0.1, 1.5).all()
    assert table.loc["surface (pesn)", "points"] == 0
    assert table.loc["surface (pesn)", "least variance"] > 0.0


def test_the_whole_grid_has_the_known_numbers():
    # On 101 × 61 points: 12.0 % negative, −0.046 the least, above the truth on 52 %; on 18 and 69 % with other means.
    p = paper.get("moments-grid").parameters(False) | {"samples": 2}
    result = moments_grid.run_grid(Settings(False, 0, p), Tasks())
    assert (result.frame["analytic var"] < 0).mean() == pytest.approx(0.120, abs=5e-4)
    assert result.frame["analytic var"].min() == pytest.approx(-0.046, abs=5e-4)
    assert -1e-5 < result.frame["spline var"].min() < -1e-6
    over = (result.frame["analytic var"] > result.frame["exact var"]).mean()
    assert over == pytest.approx(0.52, abs=0.005)
    table = result.tables["Absolute error over the grid"].set_index(["of", "error"])
    assert table.loc[("mean", "largest"), "analytic"] == pytest.approx(4.5e-2, rel=0.02)
    assert table.loc[("variance", "largest"), "analytic"] == pytest.approx(5.4e-2, rel=0.02)
    assert table.loc[("variance", "largest"), "spline"] == pytest.approx(7.2e-5, rel=0.02)
    assert [v.verdict for v in result.verdicts] == ["holds", "does not hold"]
    assert "above the true variance on 52 % of the grid and below it on 48 %" in result.verdicts[1].reason
    assert "18 % with means from −2 to 2, 69 % with means from −10 to 10" in result.verdicts[1].reason
    assert "of 6,161 points (12.0 %)" in result.verdicts[1].reason


@pytest.mark.parametrize("changed", [{}, {"share": 0.5}, {"spline_largest": 0.2}, {"spline_median": 0.2}])
def test_spline_verdict_for_both_outcomes(changed):
    good = Comparison(0.99, 1e-5, 1e-2, 1e-7, 1e-3, 2e-4)
    judged = moments_grid.judge_spline({"mean": good, "variance": good._replace(**changed)})
    assert judged.verdict == ("does not hold" if changed else "holds")
    assert "up to 2.0e-04" in judged.reason
    assert judged.claim in claims.CLAIMS


@pytest.mark.parametrize(
    ("share", "negative", "verdict"), [(0.95, 0, "holds"), (0.95, 3, "does not hold"), (0.6, 0, "does not hold")]
)
def test_overestimation_verdict_for_both_outcomes(share, negative, verdict):
    judged = moments_grid.judge_overestimates(share, np.repeat([-0.02, 0.5], [negative, 100 - negative]), {"−2 to 2": 0.18})
    assert judged.verdict == verdict
    assert f"{100 * share:.0f} %" in judged.reason
    assert "18 % with means from −2 to 2" in judged.reason
    assert ("-0.02" in judged.reason) == bool(negative)


def test_a_tie_at_mean_zero_is_no_loss():
    errors = {"spline": np.array([1e-17, 1e-6]), "analytic": np.array([0.0, 1e-2])}
    assert moments_grid._compare(errors, np.array([1.0, 2.0])).share == 1.0
    errors["spline"][1] = 0.1
    lost = moments_grid._compare(errors, np.array([1.0, 2.0]))
    assert (lost.share, lost.loses_below) == (0.5, 2.0)
