"""Sampled roll-outs of the benchmark agree with the Gaussian that they are drawn from."""

import numpy as np
import pytest

import planning
from pesn.forecasting.rollout import Rollout


def test_sampled_costs_agree_with_the_gaussian():
    rng = np.random.default_rng(0)
    mean, root = rng.normal(size=(2, 4, 2)), np.array([[0.3, 0.0], [0.1, 0.2]])
    controls = rng.normal(size=(2, 4, 1))
    paths = mean[:, None] + rng.standard_normal((2, 40_000, 4, 2)) @ root.T
    gaussian = Rollout(mean, controls, np.broadcast_to(root @ root.T, (2, 4, 2, 2)), names=("x", "theta"))
    sampled = planning.SampledRollout(paths, controls, ("x", "theta"))
    for judged in (
        lambda r: r.expected_cost({"x": 1.0, "theta": 0.5}, {"x": 0.3}, R=0.1),
        lambda r: r.angle_cost("theta", 0.2),
        lambda r: r.probability("x", above=0.5, below=-0.5),
        lambda r: r[1].cov,
    ):
        np.testing.assert_allclose(judged(sampled), judged(gaussian), rtol=0.02, atol=0.01)


@pytest.mark.parametrize("kind", ["mean", "Gaussian", "50 samples"])
def test_every_planner_drives_the_cart(kind, monkeypatch):
    monkeypatch.setattr(planning, "DRIVE_SECONDS", 0.1)
    found = planning.drive_to_rail_end(kind, 0, 1.5)
    assert found["hit the end"] == 0.0  # after 0.1 s it is not there
    assert 0.0 < found["m from the goal in the last s, of the others"] < planning.GOAL + 0.3
