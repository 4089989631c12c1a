"""The AR.Drone item: positions follow the velocities by kinematics, forecasts are fair, verdicts follow the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from pesn.paper.claims import CLAIMS, Settings, Tasks
from pesn.paper.items import ardrone as item
from pesn.paper.items import prediction as verdicts
from pesn.paper.items import prediction_item, robots
from pesn.systems import ardrone

TINY = item.parameters(True) | {
    "n_units": 20,
    "runs": 2,
    "run_rows": 300,
    "train_rows": 160,
    "test_rows": 100,
    "segments": 2,
    "samples": 100,
    "steps": 5,
    "washout": 50,
    "origin_every": 40,
    "fair_every": 1,
    "draws": 1,
}
ROBOT = robots.ARDRONE


@pytest.fixture(scope="module")
def result():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prediction_item, "VARIED", {"noise": [0.0, 0.01]})
        return item.run(Settings(True, 0, TINY), Tasks())


def test_kinematics_carry_the_true_positions():
    """Given the true velocities, the positions of the simulator come out to a hundredth of what they move by in a step."""
    flight = ardrone.simulate(steps=300, rng=0).states
    A, B, c = robots.kinematics(12, ROBOT.positions, ROBOT.velocities, 0.01)
    moved = flight[:-1] @ A.T + flight[1:, list(ROBOT.velocities)] @ B.T + c
    error = moved[:, :3] - flight[1:, list(ROBOT.positions)][:, :3]
    assert np.abs(error).mean() < 0.02 * np.abs(np.diff(flight[:, :3], axis=0)).mean()
    still = flight[:-1] @ A.T + flight[:-1, list(ROBOT.velocities)] @ (0 * B)
    assert np.abs(moved - flight[1:, list(ROBOT.positions)]).mean() < np.abs(still - flight[1:, list(ROBOT.positions)]).mean()


def test_item_gives_what_it_promises(result):
    assert {v.claim for v in result.verdicts} == set(item.CLAIMS) == {name for name, c in CLAIMS.items() if item.NAME in c.items}
    assert set(result.frame["quantity"]) == {*ROBOT.names}
    assert np.isfinite(result.frame.select_dtypes("number").to_numpy()).all()
    published = result.tables["Published and obtained (the paper's diagonal network)"]
    assert published["obtained"][0] == "460"  # one run of 300 and 160 of the next
    grid, _ = result.figures["multi-step"]
    assert [ax.get_ylabel() for ax in grid.axes][3:9] == ["Δ (% of σ)"] * 3 + ["vx (m/s)", "vy (m/s)", "vz (m/s)"]
    titles = [ax.get_title() for ax in result.figures["updating"][0].axes[:3]]
    assert titles == ["weights never updated", "weights updated up to the origin (fair)", "as in the paper: sees the future"]


def test_published_numbers():
    published = {line["quantity"]: line["published"] for line in item.PUBLISHED}
    assert published["samples"] == "80,000+"
    assert published["steps over which uncertainty is propagated"] == "20"
    p = item.parameters(False)
    assert (p["runs"] - 1) * p["run_rows"] + p["train_rows"] >= 80_000
    assert p["train_rows"] + p["test_rows"] <= p["run_rows"]
    assert [ROBOT.names[i] for i in ROBOT.velocities] == ["vx", "vy", "vz", "roll rate", "pitch rate", "yaw rate"]


@pytest.mark.parametrize(
    ("diagonal", "full", "outcome"),
    [(0.95, 0.95, "holds"), (0.5, 0.95, "corrected"), (1.0, 0.95, "corrected"), (0.5, 0.5, "does not hold")],
)
def test_twenty_steps(diagonal, full, outcome):
    assert verdicts.twenty_of(np.full((3, 20, 2), diagonal), np.full((3, 20, 2), full)).outcome == outcome


def test_bands_that_fail_in_one_state_are_not_kept():
    inside = np.full((3, 20, 2), 0.95)
    inside[:, 7, 1] = 0.6
    assert verdicts.twenty_of(inside, np.full((3, 20, 2), 0.95)) == ("corrected", 7.0)
    many = np.full((20, 20, 2), 0.95)
    many[0] = 0.5  # one stretch of twenty: enough to refute a claim about all, not a correction of it
    assert verdicts.twenty_of(many, many).outcome == "corrected"
    many[:6] = 0.5
    assert verdicts.twenty_of(many, many).outcome == "does not hold"


@pytest.mark.parametrize(
    ("before", "future", "outcome"),
    [(0.5, 0.4, "holds"), (0.9, 0.4, "corrected"), (1.1, 0.9, "does not hold"), (0.69, 2.0, "holds")],
)
def test_updating(before, future, outcome):
    assert verdicts.updating_of(1.0, before, future) == (outcome, before)


def test_a_median_between_two_steps_is_printed_as_it_is():
    assert verdicts.steps_text([19, 20], 20) == "after 19.5 (19–>20) steps"
    assert verdicts.steps_text([20, 20, 20], 20) == "not in 20 steps"


@pytest.mark.parametrize(
    ("single", "multi", "full", "outcome"),
    [(1.0, 0.95, 1.0, "holds"), (1.0, 0.5, 0.5, "corrected"), (0.5, 0.5, 1.0, "corrected"), (0.5, 0.5, 0.5, "does not hold")],
)
def test_higher_dimensions(single, multi, full, outcome):
    assert verdicts.dimensions_of(single, multi, full).outcome == outcome
