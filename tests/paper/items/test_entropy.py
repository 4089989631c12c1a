"""The entropy item counts by histogram, measures forgetting by distances, and judges by the numbers it is given."""

import numpy as np
import pandas as pd
import pytest

from pesn.paper.items import entropy, robots
from pesn.paper.items.robots import PlainNetwork
from pesn.paper.items.washout import origins

ITEM = "entropy"


def test_result_has_every_length(result):
    assert list(result.frame["washout"]) == [1, 10, 40] * 2
    assert np.isfinite(result.frame).all(axis=None)
    assert all(len(v.draws) == 2 for v in result.verdicts)
    assert result.lead.startswith("Another regime")
    assert len(result.tables) == 4


def test_starts_are_forgotten(result):
    f = result.frame[result.frame["draw"] == 1]
    for name in ("spread", "distance P", "distance MC", "distance zero start", "distance learned start"):
        assert f[name].iloc[-1] < 0.1 * f[name].iloc[0], name


def test_one_draw_by_hand(p):
    """The entropies and the spread between starts at one origin, by the textbook."""
    p = p | {"trials": 1, "samples": 3, "lengths": [10], "steps": 20, "noise": 0.0}
    entropies, curves = entropy.one_draw(p, 3)
    forecaster, runs = robots.learn(robots.CART_POLE, p, 3)
    plain, run = PlainNetwork(forecaster), runs[len(runs) - 1]
    z, origin = np.hstack(forecaster.standardize(run.states, run.inputs)), origins(1, 40, 1, len(run.states))[0]
    starts = 0.5 * np.random.default_rng([3, 1]).standard_normal((1, 3, 20))[0]

    def bits(h0):
        values = np.clip(plain.drive(h0, z[origin - 10 : origin]), -1, 1)
        share = np.histogram(values, 64, (-1, 1))[0] / values.size
        return -sum(p * np.log2(p) for p in share if p > 0)

    assert entropies[0, 0, 2] == pytest.approx(bits(np.zeros(20)))
    assert entropies[0, 0, 1] == pytest.approx(np.mean([bits(h) for h in starts]))
    last = np.array([plain.drive(h, z[origin - 20 : origin])[-1] for h in starts])
    truth = plain.drive(np.zeros(20), z[origin - 40 : origin])[-1]
    scale = np.sqrt(plain.drive(np.zeros(20), z)[20:].var(axis=0).mean())
    assert curves[0, 4, 19] * scale == pytest.approx(np.sqrt(last.var(axis=0, ddof=1).mean()))
    assert curves[0, 1, 19] * scale == pytest.approx(np.mean([np.sqrt(np.square(h - truth).mean()) for h in last]))


def test_values_beyond_the_range_count_in_the_end_bins():
    assert entropy.unit_entropy(np.array([-1.3, 1.2, 0.0, 0.1]), 2) == pytest.approx(-0.25 * np.log2(0.25) - 0.75 * np.log2(0.75))


def test_published_numbers():
    assert tuple(entropy.PUBLISHED) == entropy.LENGTHS
    assert all(len(row) == 6 for row in entropy.PUBLISHED.values())
    assert entropy.PUBLISHED[1] == (5.42, 5.54, 5.42, 5.54, 5.42, 5.551)
    assert entropy.PUBLISHED[200][:2] == (4.94, 5.42)
    assert all(row[0] < row[1] for row in entropy.PUBLISHED.values())  # P is bold in every row


def made_up(P, MC):
    lengths = list(range(1, len(P) + 1))
    spread = np.linspace(1.0, 0.1, len(P))
    return pd.DataFrame({"washout": lengths, "P mean": P, "MC mean": MC, "zero start mean": P, "spread": spread})


@pytest.mark.parametrize(
    ("P", "outcome"), [([4.0, 5.0, 5.0], "holds"), ([4.0, 5.0, 5.3], "corrected"), ([4.0, 5.3, 5.3], "does not hold")]
)
def test_entropy_of_one_draw(P, outcome):
    assert entropy.grade_entropy(made_up(P, [4.5, 5.1, 5.2])).outcome == outcome


def falling(**steps):
    """Distances that fall below 1 % at the step named, and stay."""
    columns = {name.replace("_", " "): np.where(np.arange(1, 31) < k, 1.0, 1e-3) for name, k in steps.items()}
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    ("P", "MC", "zero", "outcome"),
    [
        (10, 20, 20, "holds"),
        (10, 20, 10, "corrected"),
        (10, 20, 12, "corrected"),  # two steps are no gain
        (20, 20, 25, "does not hold"),
        (25, 20, 10, "does not hold"),
    ],
)
def test_echo_state_verdict(P, MC, zero, outcome):
    found = entropy._judge_echo_state([falling(P=P, MC=MC, zero_start=zero, learned_start=5)] * 3)
    assert (found.verdict, found.support) == (outcome, 3)
    assert f"random start {MC}, PESN {P}, plain network from 0 {zero}" in found.reason
