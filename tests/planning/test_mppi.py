"""Plans respect limits and chance constraints and approach the optimum; invalid arguments are refused by name."""

import numpy as np
import pytest
from scipy.optimize import minimize

from pesn.forecasting.rollout import Rollout
from pesn.planning import MPPI, ChanceConstraint

DT, NAMES = 0.1, ("x", "v")


class Point:
    """A point mass with process noise: x and v are exactly Gaussian."""

    def __init__(self, noise=0.0):
        self.noise, self.asked = noise, []

    def step(self, state, force):
        v = state[..., 1] + DT * force
        return np.stack([state[..., 0] + DT * v, v], axis=-1)

    def rollout(self, controls, start=None, covariance="low-rank"):
        self.asked.append((len(controls), covariance))
        plans, steps, _ = controls.shape
        A = np.array([[1.0, DT], [0.0, 1.0]])
        new = self.noise**2 * np.outer([DT, 1.0], [DT, 1.0])
        state = np.broadcast_to(np.zeros(2) if start is None else start, (plans, 2))
        mean, cov, c = np.empty((plans, steps, 2)), np.empty((steps, 2, 2)), np.zeros((2, 2))
        for t in range(steps):
            state = mean[:, t] = self.step(state, controls[:, t, 0])
            c = cov[t] = A @ c @ A.T + new
        if covariance == "none":
            return Rollout(mean, controls, names=NAMES)
        lagged = A @ cov[:-1]
        each = (np.broadcast_to(part, (plans, *part.shape)) for part in (cov, lagged))
        return Rollout(mean, controls, *each, names=NAMES)


def to(goal):
    return lambda rollout: rollout.expected_cost({"x": 1.0, "v": 0.1}, {"x": goal}, R=1e-3)


def test_plan_is_close_to_the_optimum():
    """The optimum of the quadratic cost within limits, by finite differences."""
    model, cost = Point(), to(0.3)
    plan = MPPI(model, 15, (-1.0, 1.0), cost, covariance="none", iterations=40, random_state=0).plan()
    assert plan.shape == (15, 1)
    zero = cost(model.rollout(np.zeros((1, 15, 1))))[0]
    least = minimize(lambda u: cost(model.rollout(u[None, :, None]))[0], np.zeros(15), bounds=[(-1.0, 1.0)] * 15).fun
    assert least - 1e-6 <= cost(model.rollout(plan[None]))[0] < least + 0.03 * (zero - least)


def test_every_rollout_respects_the_limits():
    seen, judge = [], to(100.0)

    def cost(rollout):
        seen.append(rollout.controls)
        return judge(rollout)

    planner = MPPI(Point(), 5, ([-1.0], [3.0]), cost, spread=2.0, covariance="none", random_state=0)
    plan = planner.plan()
    assert (min(np.min(one) for one in seen), max(np.max(one) for one in seen)) == (-1.0, 3.0)
    assert (plan > 2.5).all()  # far away: as hard as it can


def test_plans_are_reproducible_and_reset_forgets():
    states = [np.zeros(2), np.array([0.1, 0.2])]
    one, other = (MPPI(Point(), 10, (-1.0, 1.0), to(1.0), covariance="none", random_state=3) for _ in range(2))
    for state in states:
        np.testing.assert_array_equal(one.plan(state), other.plan(state))
    nothing = MPPI(Point(), 10, (-1.0, 1.0), lambda r: np.zeros(len(r)), n_plans=1, covariance="none", temperature=0)
    nothing.reset(np.arange(10)[:, None] / 10)
    nothing._rng = None
    nothing._draw = lambda plan: plan[None]  # nothing else to choose from: what is left is the warm start
    np.testing.assert_allclose(nothing.plan()[:, 0], np.arange(10) / 10)
    np.testing.assert_allclose(nothing.plan()[:, 0], [*np.arange(1, 10) / 10, 0.9])  # a step later, the last held
    nothing.reset()
    np.testing.assert_array_equal(nothing.plan(), 0.0)


def test_covariances_are_rolled_out_for_the_elite_alone():
    model = Point(0.05)
    planner = MPPI(model, 8, (-1.0, 1.0), to(1.0), n_plans=50, n_elite=7, random_state=0)
    every = [(50, "none"), (8, "low-rank"), (1, "none")]
    for asked in ([(1, "low-rank"), *every], every):  # the second plan knows the covariances of the first
        planner.plan()
        assert model.asked == asked
        model.asked.clear()
    MPPI(model, 8, (-1.0, 1.0), to(1.0), n_plans=50, n_elite=7, covariance="none", random_state=0).plan()
    assert {kind for _, kind in model.asked} == {"none"}


def test_perturbations_have_the_given_smoothness_and_width():
    planner = MPPI(Point(), 30, ([-1.0, -4.0], [1.0, 4.0]), len, n_plans=20_000, spread=[0.1, 0.05], smoothness=4.0, fresh=0.0)
    noise = planner._draw(np.zeros((30, 2)))
    np.testing.assert_allclose(noise.std(axis=0), np.tile([0.1, 0.2], (30, 1)), rtol=0.05)
    for lag in (1, 4, 8):
        found = np.mean(noise[:, lag:, 0] * noise[:, :-lag, 0]) / 0.01
        assert abs(found - np.exp(-0.5 * (lag / 4.0) ** 2)) < 0.03
    white = MPPI(Point(), 30, (-1.0, 1.0), len, n_plans=20_000, spread=0.1, smoothness=0.0, fresh=0.0)._draw(np.zeros((30, 1)))
    assert abs(np.mean(white[:, 1:] * white[:, :-1])) < 1e-4


@pytest.mark.parametrize("over", ["step", "path"])
def test_chance_constraints_hold_with_their_probability(over):
    """The goal is at the constraint: by means half of the runs would violate it."""
    noise, end = 0.03, 0.5
    model = Point(noise)
    wall = ChanceConstraint("x", above=end, probability=0.1, over=over, method="markov")
    planner = MPPI(model, 12, (-2.0, 2.0), to(end), constraints=[wall], iterations=4, random_state=0)
    state = np.array([0.25, 0.3])
    plan = planner.plan(state)
    rollout = model.rollout(plan[None], state)
    assert wall.excess(rollout)[0] <= 1e-9
    assert rollout.mean[0, -1, 0] > 0.35  # and it goes as near as it may
    rng = np.random.default_rng(0)
    states = np.tile(state, (20_000, 1))
    paths = []
    for force in plan[:, 0]:
        states = model.step(states, force) + noise * rng.standard_normal((len(states), 1)) * [DT, 1.0]
        paths.append(states[:, 0])
    beyond = np.array(paths) > end
    share = beyond.any(axis=0).mean() if over == "path" else beyond.mean(axis=1).max()
    assert share < 0.11
    mean_only = MPPI(model, 12, (-2.0, 2.0), to(end), constraints=[wall], covariance="none", iterations=4, random_state=0)
    careless = model.rollout(mean_only.plan(state)[None], state)
    assert careless.path_probability("x", above=end, method="markov")[0] > 0.3


def test_infeasible_constraints_select_the_smallest_excess():
    model = Point(0.02)
    wall = ChanceConstraint("x", above=0.0, probability=0.01)
    planner = MPPI(model, 5, (-1.0, 1.0), to(1.0), constraints=[wall], random_state=0, iterations=3)
    assert planner.plan(np.array([0.05, 0.0]))[0, 0] < -0.5  # back, although the goal is ahead


class Changed(Point):
    """A point mass with wrong roll-outs."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def rollout(self, controls, start=None, covariance="low-rank"):
        return self.change(super().rollout(controls, start, covariance))


def test_cost_may_change_its_arguments():
    def in_place(rollout):
        rollout.mean[..., 0] -= 1.0
        rollout.controls[:] *= 7.0
        return np.square(rollout.mean[..., 0]).sum(axis=1)

    def beside(rollout):
        return np.square(rollout.mean[..., 0] - 1.0).sum(axis=1)

    wall = [ChanceConstraint("x", above=0.1)]
    plans = [MPPI(Point(0.01), 8, (-1.0, 1.0), cost, constraints=wall, random_state=0).plan() for cost in (in_place, beside)]
    np.testing.assert_array_equal(*plans)


GOOD = {"model": Point(), "horizon": 5, "limits": (-1.0, 1.0), "cost": to(1.0)}


@pytest.mark.parametrize(("change", "message"), [
    ({"horizon": 0}, "horizon must be 1 or more, got 0"), ({"horizon": 2.5}, "horizon must be a whole number"),
    ({"limits": (1.0, -1.0)}, "limits must be .* low below high"), ({"limits": (1.0, np.nan)}, "limits must be finite"),
    ({"limits": ([0.0, 0.0], [1.0])}, "limits must be two numbers or two arrays"),
    ({"limits": 3.0}, "limits must be two"), ({"cost": 1.0}, "cost must be a function"),
    *(({name: 0}, f"{name} must be 1 or more") for name in ("n_plans", "n_elite", "iterations")),
    ({"spread": 0.0}, "spread must be above 0"),
    ({"spread": [0.1, 0.1]}, "spread must be above 0, a number or one for each of 1 inputs"),
    *(({name: bad}, f"{name} must lie in") for name, bad in (("smoothness", -1), ("fresh", 1.5), ("temperature", np.nan))),
    ({"covariance": "some"}, "covariance must be one of none, diagonal, low-rank, full"),
    ({"constraints": ["x < 1"]}, "constraints must be ChanceConstraint"),
    ({"constraints": None}, "constraints must be a sequence of ChanceConstraint, got None"),
    ({"constraints": ChanceConstraint("x", above=1.0)}, "constraints must be a sequence of ChanceConstraint"),
    ({"model": None}, "model must have a rollout, .* got None"), ({"random_state": "x"}, "random_state must be"),
])  # fmt: skip
def test_invalid_arguments_are_refused(change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        MPPI(**{**GOOD, **change})


@pytest.mark.parametrize(("change", "message"), [
    ({"cost": lambda r: r.mean}, r"cost must give a number a plan, shape \(300,\), got shape \(300, 5, 2\)"),
    ({"cost": lambda r: np.full(len(r), np.nan)}, "cost must be finite, got nan"),
    ({"cost": lambda r: ["dear"] * len(r)}, "cost must be real numbers"),
    ({"cost": lambda r: np.full(len(r), 1j)}, "cost must be real numbers, got dtype complex"),
    ({"cost": lambda r: [[1.0], [2.0, 3.0]]}, "cost must be an array of numbers, got a ragged"),
    ({"model": Changed(lambda r: r[:1])}, r"model must roll out plans and steps \(300, 5\) from one start, got \(1, 5\)"),
    ({"model": Changed(lambda r: r[:, :2])}, r"model must roll out plans and steps \(1, 5\) .* got \(1, 2\)"),
    ({"model": Changed(lambda r: r.mean)}, "model must roll out to a .*Rollout, got ndarray"),
    ({"constraints": [ChanceConstraint("height", above=1.0)]}, "column must be among x, v, or positions, got 'height'"),
])  # fmt: skip
def test_errors_in_a_plan_keep_the_last_plan(change, message):
    planner = MPPI(**{**GOOD, **change})
    before = planner._next.copy()
    with pytest.raises((ValueError, TypeError), match=message):
        planner.plan()
    np.testing.assert_array_equal(planner._next, before)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"column": "x"}, "above or below must be given"),
    ({"column": 1.5, "above": 1.0}, "column must be a name or a position"),
    ({"column": "x", "above": np.nan}, "above must lie in"),
    ({"column": "x", "above": 0.0, "below": 1.0}, "below must not lie above"),
    ({"column": "x", "above": 1.0, "probability": 1.0}, "probability must lie in"),
    ({"column": "x", "above": 1.0, "probability": 0.0}, "probability must lie in"),
    ({"column": "x", "above": 1.0, "over": "all"}, "over must be 'step' or 'path'"),
    ({"column": "x", "above": 1.0, "method": "exact"}, "method must be 'bound' or 'markov'"),
])  # fmt: skip
def test_invalid_constraints_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ChanceConstraint(**arguments)


def test_warm_start_of_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"plan must have shape \(5, 1\), steps and inputs, got \(4, 1\)"):
        MPPI(**GOOD).reset(np.zeros((4, 1)))
