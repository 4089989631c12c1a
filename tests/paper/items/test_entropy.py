"""The entropy item counts by histogram, measures forgetting by distances, and judges by the numbers it is given."""

import numpy as np
import pandas as pd
import pytest

from pesn.paper.claims import UNFAIR
from pesn.paper.item_settings import our_parameters
from pesn.paper.items import entropy
from pesn.paper.items.washout import Washout

ITEM = "entropy"


def test_result_has_every_length(result):
    assert list(result.frame["washout"]) == [1, 10, 40] * 4
    assert np.isfinite(result.frame.select_dtypes("number")).all(axis=None)
    assert [len(v.draws) for v in result.verdicts] == [4, 2]
    distances = next(iter(result.tables.values())).set_index("what")
    assert distances["median"]["one constant each for P and MC"] == pytest.approx(0.242, abs=0.001)
    assert len(result.tables) == 5


@pytest.mark.parametrize("seed", [11, 12])
def test_the_paper_s_regime_is_nearer_than_the_constants(seed):
    from pesn import paper

    assert entropy.draw_distance(paper.get("entropy").parameters(), seed) < 0.15 < min(entropy.null_distances().values())


def test_starts_are_forgotten(p):
    curves = entropy.mean_curves(entropy.start_distances(our_parameters(entropy.SETTINGS, p), 3))
    for name in ("spread", "P", "MC", "zero start"):
        assert curves[name].iloc[-1] < 0.1 * curves[name].iloc[0], name


def test_one_draw_by_hand(p):
    """The entropies of the first 10 rows of the run, by the textbook."""
    p = p | {"samples": 3, "lengths": [10], "noise": 0.0}
    found = entropy.one_draw(p, 3)
    here = Washout(p, 3)
    plain, z = here.plain, here.z[:10]
    starts = p["start_std"] * here.rng.standard_normal((p["trials"], 3, plain.n_units))[0]

    def bits(h):
        values = []
        for row in z:
            h = (1 - plain.leak) * h + plain.leak * np.tanh(plain.W_in @ row + plain.W @ h + plain.bias)
            values.append(np.clip(h, -1, 1))
        share = np.histogram(values, p["bins"], (-1, 1))[0] / np.size(values)
        return -sum(p * np.log2(p) for p in share if p > 0)

    assert found.shape == (3, 1, 3)
    np.testing.assert_allclose(found[:, 0, 1], [bits(h) for h in starts])
    np.testing.assert_allclose(found[:, 0, 2], bits(np.zeros(plain.n_units)))


def test_values_beyond_the_range_count_in_the_end_bins():
    assert entropy.unit_entropy(np.array([-1.3, 1.2, 0.0, 0.1]), 2) == pytest.approx(-0.25 * np.log2(0.25) - 0.75 * np.log2(0.75))


def test_published_numbers():
    assert tuple(entropy.PUBLISHED) == entropy.LENGTHS
    assert all(len(row) == 6 for row in entropy.PUBLISHED.values())
    assert (entropy.PUBLISHED[1], entropy.PUBLISHED[200][:2]) == ((5.42, 5.54, 5.42, 5.54, 5.42, 5.551), (4.94, 5.42))
    assert all(row[0] < row[1] for row in entropy.PUBLISHED.values())  # P is bold in every row


@pytest.mark.parametrize(("P", "zero", "outcome"), [
    ([4.0, 5.0, 5.0], 5.1, "holds"),
    ([4.0, 5.0, 5.0], None, UNFAIR),  # without noise a start at 0 has the same
    ([4.0, 5.0, 5.3], None, UNFAIR), ([4.0, 5.3, 5.3], None, "does not hold"),
    ([4.5, 5.099, 5.199], None, "does not hold"),  # what no printed digit shows is no difference
])  # fmt: skip
def test_entropy_of_one_draw(P, zero, outcome):
    made_up = pd.DataFrame({"P mean": P, "MC mean": [4.5, 5.1, 5.2], "zero start mean": P if zero is None else zero})
    assert entropy.grade_entropy(made_up).outcome == outcome


def falling(**steps):
    """Distances that fall below 1 % at the step named, and stay."""
    columns = {name.replace("_", " "): np.where(np.arange(1, 31) < k, 1.0, 1e-3) for name, k in steps.items()}
    return pd.DataFrame(columns)


@pytest.mark.parametrize(("P", "MC", "zero", "outcome"), [
    (10, 20, 20, "holds"), (10, 20, 10, UNFAIR),
    (10, 20, 12, UNFAIR),  # two steps are no gain
    (20, 20, 25, "does not hold"), (25, 20, 10, "does not hold"),
])  # fmt: skip
def test_echo_state_verdict(P, MC, zero, outcome):
    found = entropy._judge_echo_state([falling(P=P, MC=MC, zero_start=zero)] * 3)
    assert (found.verdict, found.support) == (outcome, 3)
    assert f"random start {MC}, PESN {P}, plain network from 0 {zero}" in found.reason
