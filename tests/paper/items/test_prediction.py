"""Claim: samples follow the network's equations, closed forms agree with them, forecasts are fair, verdicts follow numbers."""

import copy

import numpy as np
import pytest

from pesn import paper
from pesn.paper.claims import paper_numbers
from pesn.paper.item_settings import defaults, our_parameters
from pesn.paper.items import prediction, robots
from pesn.paper.items import prediction_report as verdicts
from pesn.paper.items.prediction import Compared, Sampling
from pesn.paper.items.robots import ARDRONE, CART_POLE
from pesn.systems import ardrone

ITEM = "cart-pole"


@pytest.fixture(scope="module")
def scene(p):
    return prediction.learn(CART_POLE, our_parameters(paper.get(ITEM).settings, p) | {"target": "level"}, 0)


def sampling(steps, samples=4_096, input_std=0.1, **own):
    return Sampling(steps, samples, 0, input_std, **own)


# ---------------------------------------------------------------- one draw


def test_full_covariances_agree_with_the_samples_and_variances_alone_do_not(scene):
    one = prediction.multi_step(scene, scene.esn, 120, sampling(10))
    np.testing.assert_allclose(one.ratio("full"), 1.0, atol=0.02)
    assert np.abs(one.ratio("diagonal") - 1.0).max() > np.abs(one.ratio("full") - 1.0).max()
    assert one.mean_error("full").max() < 0.05
    assert ((one.shares["full"] > 0.9) & (one.shares["full"] < 0.99)).all()


def test_uncertain_units_alone_make_a_forecast_uncertain(scene):
    one = prediction.multi_step(scene, scene.esn, 120, sampling(4, input_std=0.0, unit_std=0.1))
    np.testing.assert_allclose(one.ratio("full"), 1.0, atol=0.02)
    assert (one.std[:, 2:] > 0.0).all()


def test_single_steps_are_the_network_s_outputs_for_uncertain_rows(scene):
    one = prediction.single_step(scene, 120, sampling(30))
    assert one.mean.shape == (30, 2)
    np.testing.assert_allclose(one.ratio("full"), 1.0, atol=0.02)
    certain = prediction.single_step(scene, 120, sampling(30, 16, 1e-9))
    outputs = scene.plain.read(scene.units[120:150], scene.z[120:150], scene.plain.readout)
    np.testing.assert_allclose(certain.mean, outputs, atol=1e-4)  # in single precision
    np.testing.assert_allclose(certain.closed["full"][0], outputs, atol=1e-7)


def test_weights_depend_on_past_rows_only(scene):
    """Rows after the origin may change at will: the network there stays."""
    y, targets = scene.y.copy(), scene.targets.copy()
    y[141:], targets[140:] = 1e3, 1e3  # targets[140] leads to row 141
    other = prediction.Scene(**{**vars(scene), "y": y, "targets": targets})
    here, there = (prediction.online_networks(one, [110, 140]) for one in (scene, other))
    np.testing.assert_array_equal(here[1].readout_.weights, there[1].readout_.weights)
    assert np.abs(here[1].readout_.weights - here[0].readout_.weights).max() > 0.0
    assert np.abs(here[0].readout_.weights - scene.esn.readout_.weights).max() > 0.0


def test_rows_of_several_runs_are_kept_apart(p):
    """The weights learn the rows of each run before an origin, and nothing across the end of a run."""
    scene = prediction.learn(CART_POLE, p | {"test_runs": 2, "train_rows": 0, "run_rows": 60, "runs": 6}, 0)
    rows = scene.rows(p, 10, 1)
    assert rows == [20, 80]
    _, second = prediction.online_networks(scene, rows)
    esn, z = copy.copy(scene.esn), scene.z
    for start, stop in ((1, 59), (61, 80)):
        esn.partial_fit(z[start:stop], scene.targets[start:stop], state=prediction.network_state(scene, start))
    np.testing.assert_allclose(second.readout_.weights, esn.readout_.weights, rtol=1e-9, atol=1e-12)


def test_points_are_standard_normal_and_paired_with_none():
    points = prediction.normal_points(8192, 6, 3)
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=1e-3)
    np.testing.assert_allclose(np.cov(points.T), np.eye(6), atol=5e-3)


def test_a_draw_by_its_parts(scene, p):
    p = our_parameters(paper.get(ITEM).settings, p)
    study = prediction.one_draw(CART_POLE, p, 0)
    assert (study.single.mean.shape, set(study.multi)) == ((12, 2), {"before", "units"})
    assert np.isnan(study.errors["future"]).any()
    assert len(study.errors["never"]) == len(prediction.learn(CART_POLE, p, 0).rows(p, p["origin_every"]))


def test_kinematics_carry_what_the_drone_does_not_learn():
    """Given the true velocities, the positions of the simulator come out; roll and pitch would not, and are learned."""
    flight = ardrone.simulate(steps=300, rng=0).states
    wrong = {}
    for position, velocity in (*zip(ARDRONE.positions, ARDRONE.velocities, strict=True), (6, 9), (7, 10)):
        moved = flight[:-1, position] + 0.005 * (flight[:-1, velocity] + flight[1:, velocity])
        step = np.abs(np.diff(flight[:, position])).mean()
        wrong[ARDRONE.names[position]] = np.abs(moved - flight[1:, position]).mean() / step
    assert max(wrong[name] for name in ("x", "y", "z", "yaw")) < 0.2
    assert min(wrong[name] for name in ("roll", "pitch")) > 0.5
    assert {6, 7} < set(ARDRONE.learned)


def test_training_forgets_the_start_and_updating_learns_the_errors():
    small = defaults(robots.SETTINGS) | {"n_units": 20, "runs": 2, "run_rows": 500, "train_rows": 0, "input_std": 0.1}
    trained, updated = verdicts.learn_weights(small, seed=0)
    assert trained < 1e-4
    assert updated > 0.01
    _, clean = verdicts.learn_weights(small | {"input_std": 0.0}, seed=0)
    assert clean < 1e-4


# ---------------------------------------------------------------- the items


def test_the_cart_pole_s_results(result):
    assert all(len(v.draws) == (2 if v.claim == "same-weights" else 4) for v in result.verdicts)
    # two columns and draws: single-step outputs, two multi-step predictions, in two forms
    assert len(result.frame) == 4 * 2 * (12 * 2 + 2 * 6 * 4)
    assert np.isfinite(result.frame.select_dtypes("number").to_numpy()).all()
    errors = result.tables["Mean error of all steps from an exactly known state, as in the paper, first draw"]
    assert "as in the paper: sees the future" in errors.columns
    assert set(result.tables["Closed form beside Monte Carlo, all draws"]["regime"]) == {"as in the paper", "ours"}
    assert {"agreement", "uncertain-units", "updating"} < set(result.figures)


def test_the_ardrone_s_results(run_item):
    result = run_item("ardrone")
    assert set(result.frame["quantity"]) == {*ARDRONE.names}
    assert np.isfinite(result.frame.select_dtypes("number").to_numpy()).all()
    table = result.tables["Published and obtained (the paper's diagonal network)"]
    assert table["as in the paper"][0] == "460"  # one run of 300 and 160 of the next
    grid, _ = result.figures["multi-step"]
    assert [ax.get_ylabel() for ax in grid.axes][3:9] == ["Δ (% of σ)"] * 3 + ["vx (m/s)", "vy (m/s)", "vz (m/s)"]
    titles = [ax.get_title() for ax in result.figures["updating"][0].axes[:3]]
    assert titles == ["weights never updated", "weights updated up to the origin (fair)", "as in the paper: sees the future"]


def test_published_numbers():
    said = {name: {line["quantity"]: line["published"] for line in paper_numbers(name)} for name in ("cart-pole", "ardrone")}
    assert said["cart-pole"]["steps until the mean leaves Monte Carlo"] == "4 to 5"
    p = paper.get("cart-pole").parameters(False)
    assert said["cart-pole"]["steps of the multi-step prediction"] == "20" == str(p["steps"])
    assert p["samples"] >= 8_192
    assert said["ardrone"]["samples"] == "80,000+"
    assert said["ardrone"]["steps over which uncertainty is propagated"] == "20"
    p = paper.get("ardrone").parameters(False)
    assert (p["runs"] - p["test_runs"]) * p["run_rows"] + p["train_rows"] >= 80_000
    assert p["train_rows"] + p["test_rows"] <= p["run_rows"]
    assert {"vx", "vy", "vz", "roll rate", "pitch rate", "yaw rate"} < {ARDRONE.names[i] for i in ARDRONE.learned}


def test_one_color_for_one_method(result):
    colors = {}
    for figure, _ in result.figures.values():
        for ax in figure.axes:
            for line, name in zip(*ax.get_legend_handles_labels(), strict=True):
                style = line.get_color(), str(line.get_linestyle())
                assert colors.setdefault(name.split(":")[0], style) == style
    assert set(colors) == {"Monte Carlo", "PESN (diagonal)", "full covariance (ours)", "truth"}
    assert len(set(colors.values())) == 4


# ---------------------------------------------------------------- the verdicts, on made-up numbers


def compared(off, good):
    """A stretch of ten outputs, ``off`` from the samples' mean, of which ``good`` are as wide as the samples."""
    ones = np.ones(10)
    return Compared(0, {"diagonal": (off * ones, np.where(np.arange(10) < good, 1.0, 1.5))}, 0.0 * ones, ones, {})


def bands(*shares):
    """Shares of samples in the bands of 3 stretches, 20 steps and 2 states."""
    return [np.full((3, 20, 2), share) for share in shares]


SOME_PLACES = np.where(np.indices((3, 20, 2)).sum(axis=0) == 8, 0.6, 0.95)
ONE_OF_TWENTY, SIX_OF_TWENTY = (np.where(np.arange(20)[:, None, None] < n, 0.5, np.full((20, 20, 2), 0.95)) for n in (1, 6))


@pytest.mark.parametrize(("judge", "given", "outcome"), [
    (verdicts.grade_cross_terms, (np.array([0.5, 0.6, 1.0]),), "holds"),
    (verdicts.grade_cross_terms, (np.array([1.5, 2.0, 1.0]),), "does not hold"),
    (verdicts.grade_cross_terms, (np.array([0.5, 2.0]),), "holds in part"),
    (verdicts.grade_cross_terms, (np.array([1.0, 1.01]),), "does not hold"),
    (verdicts.grade_multi_step, ([4, 5, 5], np.full((3, 20, 2), 1.0)), "holds"),
    (verdicts.grade_multi_step, ([20, 20, 20], np.full((3, 20, 2), 1.0)), "holds in part"),  # a half of it
    (verdicts.grade_multi_step, ([4, 5, 5], np.full((3, 20, 2), 2.0)), "holds in part"),  # the other half
    (verdicts.grade_multi_step, ([1, 1, 2], np.full((3, 20, 2), 2.0)), "does not hold"),
    (verdicts.grade_twenty_steps, bands(0.95, 0.95), "holds"),
    (verdicts.grade_twenty_steps, bands(0.5, 0.95), "holds in part"),
    (verdicts.grade_twenty_steps, bands(1.0, 0.95), "holds in part"),
    (verdicts.grade_twenty_steps, bands(0.5, 0.5), "does not hold"),
    (verdicts.grade_updating, (1.0, 0.5, 0.4), "holds"), (verdicts.grade_updating, (1.0, 0.9, 0.4), "holds in part"),
    (verdicts.grade_updating, (1.0, 1.1, 0.9), "does not hold"), (verdicts.grade_updating, (1.0, 0.69, 2.0), "holds"),
    (verdicts.grade_twenty_steps, (SOME_PLACES, bands(0.95)[0]), "holds in part"),
    # one stretch of twenty refutes a claim about all, not its correction
    (verdicts.grade_twenty_steps, (ONE_OF_TWENTY, ONE_OF_TWENTY), "holds in part"),
    (verdicts.grade_twenty_steps, (SIX_OF_TWENTY, SIX_OF_TWENTY), "does not hold"),
    (verdicts.grade_single_step, (compared(1.0, 10),), "does not hold"),
    *[
        (verdicts.grade_single_step, (compared(0.01, good),), outcome)
        for good, outcome in ((10, "holds"), (9, "holds"), (7, "holds in part"), (4, "does not hold"))
    ],
    (verdicts.grade_same_weights, (1e-9, 0.1), "holds in part"), (verdicts.grade_same_weights, (1e-9, 1e-3), "holds"),
    (verdicts.grade_same_weights, (0.1, 0.1), "does not hold"), (verdicts.grade_dimensions, (1.0, 0.95, 1.0), "holds"),
    (verdicts.grade_dimensions, (1.0, 0.5, 0.5), "holds in part"), (verdicts.grade_dimensions, (0.5, 0.5, 1.0), "holds in part"),
    (verdicts.grade_dimensions, (0.5, 0.5, 0.5), "does not hold"),
])  # fmt: skip
def test_every_outcome(judge, given, outcome):
    assert judge(*given).outcome == outcome
