"""The cart-pole item: samples follow the network's equations, closed forms agree with them, verdicts follow numbers."""

from __future__ import annotations

import numpy as np
import pytest

from pesn import Gaussian, ProbabilisticESN
from pesn.paper.claims import CLAIMS
from pesn.paper.items import cart_pole as item
from pesn.paper.items import prediction
from pesn.paper.items import prediction_verdicts as verdicts
from pesn.paper.result import Settings, Tasks
from pesn.systems import cart_pole

NETWORK = {"n_units": 20, "feedback_scaling": 0.2, "washout": 50, "random_state": 0}


@pytest.fixture(scope="module")
def trajectories():
    return cart_pole.simulate(runs=2, steps=600, rng=0)


@pytest.fixture(scope="module")
def robot(trajectories):
    return prediction.learn(trajectories, (0, 1), (2, 3), NETWORK, 400)


def tiny() -> Settings:
    small = {"runs": 2, "run_rows": 600, "train_rows": 400, "test_rows": 100, "segments": 2, "samples": 200, "steps": 6}
    rest = {"origin_every": 40, "fair_every": 1, "network": {**item.parameters(True)["network"], "n_units": 20, "washout": 50}}
    return Settings(quick=True, seed=0, parameters={**item.parameters(True), **small, **rest})


@pytest.fixture(scope="module")
def result():
    return item.run(tiny(), Tasks())


def by_hand(robot, k, steps, weights):
    """The paper's equations, one number after the other: h, output, velocities, then positions by the trapezoid."""
    r, dynamics = robot.loop.reservoir, robot.loop.dynamics
    W, L = r.W.toarray(), r.leak_rate
    A, B, c = dynamics.kinematics
    h, y, out, path = robot.units[k - 1], robot.rows[k], robot.targets[k - 1], []
    for j in range(steps):
        z = np.concatenate([y, robot.known[k + j]])
        h = (1 - L) * h + L * np.tanh(r.W_in @ z + r.W_fb @ out + W @ h + r.bias)
        out = weights @ np.concatenate([[1.0], z, h])
        velocities = y[dynamics.learned] + dynamics.scale * out
        new = np.empty_like(y)
        new[dynamics.learned], new[dynamics.kinematic] = velocities, A @ y + B @ velocities + c
        y = new
        path.append(np.concatenate([y, out]))
    return np.array(path)


def test_samples_without_error_follow_the_equations(robot):
    weights = robot.loop.readout.weights
    drawn = prediction.sample(prediction.multi_step(robot, 420, 10, 0.0, weights), np.empty((0, 2, 10, 6)), 3, seed=0)
    np.testing.assert_allclose(drawn.mean, by_hand(robot, 420, 10, weights), atol=1e-12)
    np.testing.assert_allclose(prediction.free_run(robot, 420, 10, robot.loop.readout)[0], drawn.mean, atol=1e-12)
    for form in prediction.FORMS:
        mean, std = prediction.carried(prediction.multi_step(robot, 420, 10, 0.0, weights), form)
        np.testing.assert_allclose(mean, drawn.mean, atol=1e-10)
        assert not std.any()


def test_full_covariance_agrees_with_samples(robot):
    for case in (
        prediction.single_step(robot, 420, 8, 0.1, robot.loop.readout.weights),
        prediction.multi_step(robot, 420, 8, 0.1, robot.loop.readout.weights),
        prediction.multi_step(robot, 420, 8, 0.0, robot.loop.readout.weights, 0.1),
    ):
        mean, std = prediction.carried(case, "full")
        drawn = prediction.sample(case, np.empty((0, 2, 8, 6)), 20_000, seed=1)
        np.testing.assert_allclose(std, drawn.std, rtol=0.05)  # 20,000 samples know a deviation to 0.5 %
        assert np.all(np.abs(mean - drawn.mean) <= 0.05 * drawn.std)


def test_diagonal_is_the_diagonal_network(trajectories, robot):
    """With weights that stay, single steps are ProbabilisticESN(covariance="diagonal").predict with uncertain rows."""
    case = prediction.single_step(robot, 420, 1, 0.1, robot.loop.readout.weights)
    mean, std = prediction.carried(case, "diagonal")
    forecaster = prediction.forecaster_of(
        trajectories, (0, 1), (2, 3), {**NETWORK, "process_noise": 0.0, "covariance": "diagonal"}, 400, False
    )
    esn = forecaster.esn_
    assert isinstance(esn, ProbabilisticESN)
    np.testing.assert_allclose(esn.readout_.weights, robot.loop.readout.weights)
    z = np.hstack([robot.rows, robot.known])[420:421]
    var = np.array([[0.01, 0.01, 0.01, 0.01, 0.0]])
    state = esn.state_._replace(mean=robot.units[419], var=np.zeros(20), output=robot.targets[419], output_var=np.zeros(2))
    known, cov = esn.predict(Gaussian(z, var=var), return_cov=True, state=state)
    _, own = esn.predict(z, return_cov=True, state=state)
    np.testing.assert_allclose(mean[:, 4:], known, atol=1e-5)  # the spline's error
    # what the uncertain row adds: the state's part, and a little doubt about the weights
    np.testing.assert_allclose(np.square(std[:, 4:]), np.diagonal(cov - own, axis1=1, axis2=2), rtol=1e-2)


def test_weights_know_only_what_came_before(robot):
    """Rows after the origin may change at will: the readout there stays, and so does the fair forecast."""
    rows, targets = robot.rows.copy(), robot.targets.copy()
    rows[441:], targets[440:] = 1e3, 1e3  # targets[440] leads to row 441
    other = prediction.Robot(**{**vars(robot), "rows": rows, "targets": targets})
    here, there = (prediction.updated(one, [410, 440], 1.0, 0.999) for one in (robot, other))
    np.testing.assert_array_equal(here[1][0].weights, there[1][0].weights)
    assert np.abs(here[1][0].weights - here[0][0].weights).max() > 0.0
    fair = [prediction.free_run(one, 440, 5, there[1][0])[0] for one in (robot, other)]
    unfair = [prediction.free_run(one, 440, 5, *there[1], 0.999)[0] for one in (robot, other)]
    np.testing.assert_array_equal(*fair)
    assert np.abs(unfair[0] - unfair[1]).max() > 1.0


def test_batches_add_up():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2, 3))
    parts = [
        prediction.Samples(
            len(some), some.mean(axis=0), np.square(some - some.mean(axis=0)).sum(axis=0), (some > 0).sum(axis=0)[None]
        )
        for some in (x[:10], x[10:])
    ]
    whole = prediction.merged(parts)
    np.testing.assert_allclose(whole.mean, x.mean(axis=0))
    np.testing.assert_allclose(whole.std, x.std(axis=0))
    np.testing.assert_array_equal(whole.inside[0], (x > 0).sum(axis=0))


def test_item_gives_what_it_promises(result):
    assert {v.claim for v in result.verdicts} == set(item.CLAIMS) == {name for name, c in CLAIMS.items() if item.NAME in c.items}
    assert (
        len(result.frame) == (12 * 2 + 6 * 4) * 2 * 6
    )  # steps of two single-step and four multi-step predictions, forms, columns
    assert np.isfinite(result.frame.select_dtypes("number").to_numpy()).all()
    assert any("sees the future" in column for column in result.tables["Mean error of all steps from an exactly known state"])
    for figure, alt in result.figures.values():
        assert alt.endswith(".")
        assert all(ax.get_ylabel() for ax in figure.axes[:1])


def test_same_numbers_again(result):
    again = item.run(tiny(), Tasks())
    assert again.frame.equals(result.frame)
    assert again.verdicts == result.verdicts


def test_published_numbers():
    published = {line["quantity"]: line["published"] for line in item.PUBLISHED}
    assert published["steps until the mean leaves Monte Carlo"] == "4 to 5"
    assert published["steps of the multi-step prediction"] == "20" == str(item.parameters(False)["steps"])
    assert item.parameters(False)["samples"] == 10_000


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [([0.5, 0.6, 1.0], "holds"), ([1.5, 2.0, 1.0], "does not hold"), ([0.5, 2.0], "corrected"), ([1.0, 1.01], "does not hold")],
)
def test_cross_terms(ratio, verdict):
    given = verdicts.judge_cross_terms(np.array(ratio))
    assert given.verdict == verdict
    assert f"{min(ratio):.2f} to {max(ratio):.2f}" in given.reason


@pytest.mark.parametrize(
    ("state", "change", "verdict"), [(1.0, 1.0, "holds"), (1.0, 1.5, "corrected"), (0.5, 1.0, "does not hold")]
)
def test_single_step(state, change, verdict):
    off = np.full((10, 2), 0.01)
    assert verdicts.judge_single_step(off, off * 0 + state, off, off * 0 + change).verdict == verdict
    assert verdicts.judge_single_step(off + 1.0, off * 0 + 1.0, off, off * 0 + 1.0).verdict == "does not hold"


@pytest.mark.parametrize(
    ("steps", "ratio", "verdict"),
    [
        ([4, 5, 5], 1.0, "holds"),
        ([20, 20, 20], 1.0, "does not hold"),
        ([4, 5, 5], 2.0, "does not hold"),
        ([1, 2, 2], 1.0, "does not hold"),
    ],
)
def test_multi_step(steps, ratio, verdict):
    given = verdicts.judge_multi_step(steps, [20, 20, 20], np.full((3, 20, 2), ratio), 20)
    assert given.verdict == verdict
    assert verdicts.steps_text(steps, 20) in given.reason
    assert "not in 20 steps" in given.reason


def test_zoomed_panels_are_close_ups_in_both_directions(result):
    whole, close = (result.figures[name][0].axes[0] for name in ("multi-step", "multi-step-zoomed"))
    for of in ("get_xlim", "get_ylim"):
        (low, high), (a, b) = getattr(whole, of)(), getattr(close, of)()
        assert b - a < high - low


def test_one_colour_for_one_method(result):
    colours = {}
    for figure, _ in result.figures.values():
        for ax in figure.axes:
            for line, name in zip(*ax.get_legend_handles_labels(), strict=True):
                style = line.get_color(), str(line.get_linestyle())
                assert colours.setdefault(name.split(":")[0], style) == style
    assert {name: colour for name, (colour, _) in colours.items()} == {
        "Monte Carlo": "#0072b2",
        "PESN (diagonal)": "#d55e00",
        "full covariance (ours)": "#009e73",
        "truth": "#000000",
    }
