"""The cart-pole item: samples follow the network's equations, closed forms agree with them, verdicts follow numbers."""

from __future__ import annotations

import numpy as np
import pytest

from pesn.paper.claims import CLAIMS, Settings, Tasks
from pesn.paper.items import cart_pole as item
from pesn.paper.items import prediction, prediction_item, robots
from pesn.paper.items import prediction as verdicts
from pesn.paper.items import prediction_study as studies

TINY = item.parameters(True) | {
    "n_units": 20,
    "runs": 2,
    "run_rows": 600,
    "train_rows": 400,
    "test_rows": 100,
    "segments": 2,
    "samples": 200,
    "steps": 6,
    "washout": 50,
    "origin_every": 20,
    "future_every": 2,
    "fair_every": 2,
    "draws": 2,
}


@pytest.fixture(scope="module")
def scene():
    return prediction.learn(robots.CART_POLE, TINY, 0, "level")


@pytest.fixture(scope="module")
def result():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prediction_item, "VARIED", {"noise": [0.0, 0.01]})
        return item.run(Settings(True, 0, TINY), Tasks())


# ---------------------------------------------------------------- one draw


def test_full_covariances_agree_with_the_samples_and_variances_alone_do_not(scene):
    rng = np.random.default_rng(0)
    one = prediction.multi_step(scene, scene.esn, 420, 10, 0.1, 4_000, rng)
    np.testing.assert_allclose(one.ratio("full"), 1.0, atol=0.06)
    assert np.abs(one.ratio("diagonal") - 1.0).max() > np.abs(one.ratio("full") - 1.0).max()
    assert one.off("full").max() < 0.05
    assert all(((shares > 0.9) & (shares < 0.99)).all() for shares in (one.shares["full"],))


def test_uncertain_units_alone_make_a_forecast_uncertain(scene):
    rng = np.random.default_rng(0)
    one = prediction.multi_step(scene, scene.esn, 420, 4, 0.0, 4_000, rng, unit_std=0.1)
    np.testing.assert_allclose(one.ratio("full"), 1.0, atol=0.06)
    assert (one.std[:, 2:] > 0.0).all()


def test_single_steps_are_the_network_s_outputs_for_uncertain_rows(scene):
    one = prediction.single_step(scene, 420, 30, 0.1, 4_000, np.random.default_rng(0))
    assert one.mean.shape == (30, 2)
    np.testing.assert_allclose(one.ratio("full"), 1.0, atol=0.08)
    certain = prediction.single_step(scene, 420, 30, 1e-9, 10, np.random.default_rng(0))
    outputs = scene.plain.read(scene.units[420:450], scene.z[420:450], scene.plain.readout)
    np.testing.assert_allclose(certain.mean, outputs, atol=1e-7)
    np.testing.assert_allclose(certain.closed["full"][0], outputs, atol=1e-7)


def test_weights_know_only_what_came_before(scene):
    """Rows after the origin may change at will: the network there stays."""
    y, targets = scene.y.copy(), scene.targets.copy()
    y[441:], targets[440:] = 1e3, 1e3  # targets[440] leads to row 441
    other = prediction.Scene(**{**vars(scene), "y": y, "targets": targets})
    here, there = (prediction.updated(one, [410, 440]) for one in (scene, other))
    np.testing.assert_array_equal(here[1].readout_.weights, there[1].readout_.weights)
    assert np.abs(here[1].readout_.weights - here[0].readout_.weights).max() > 0.0
    assert np.abs(here[0].readout_.weights - scene.esn.readout_.weights).max() > 0.0


def test_samples_are_in_pairs():
    drawn = prediction.pairs(np.random.default_rng(0), 7, 3)
    np.testing.assert_array_equal(drawn[:3], -drawn[4:])
    assert drawn.shape == (7, 3)


def test_a_draw_keeps_its_numbers_on_the_way(scene):
    """Arrays and back: what a file of units holds is the study."""
    found = studies.one_draw("cart-pole", TINY, 0, "level")
    study = studies.of_draw(found)
    assert study.single.mean.shape == (12, 2)
    assert set(study.multi) == {"never", "before", "units"}
    assert np.isnan(study.errors["future"]).any()
    origins = studies.fair_origins(TINY, 600)
    assert len(study.errors["never"]) == len(origins)
    path, _ = scene.plain.forecast(scene.units[origins[1] - 1], scene.y[origins[1]], scene.u[origins[1] : origins[1] + 6])
    np.testing.assert_allclose(study.errors["never"][1], np.abs(path - scene.y[origins[1] + 1 : origins[1] + 7]))


# ---------------------------------------------------------------- the item


def test_item_gives_what_it_promises(result):
    assert {v.claim for v in result.verdicts} == set(item.CLAIMS) == {name for name, c in CLAIMS.items() if item.NAME in c.items}
    assert all(len(v.draws) == 2 for v in result.verdicts)
    # two draws and targets: single-step outputs, three multi-step predictions, in two forms
    assert len(result.frame) == 4 * 2 * (12 * 2 + 3 * 6 * 4)
    assert np.isfinite(result.frame.select_dtypes("number").to_numpy()).all()
    errors = result.tables["Mean error of all steps from an exactly known state, first draw"]
    assert {"as in the paper: sees the future", "Algorithm 3 to the letter"} < set(errors.columns)
    assert set(result.tables["Closed form beside Monte Carlo, all draws"]["learned"]) == {"velocities", "changes"}
    for figure, alt in result.figures.values():
        assert alt.endswith(".")
        assert all(ax.get_ylabel() for ax in figure.axes[:1])
    assert {"single-step-changes", "uncertain-units", "sensitivity"} < set(result.figures)


def test_same_numbers_again(result, monkeypatch):
    monkeypatch.setattr(prediction_item, "VARIED", {"noise": [0.0, 0.01]})
    again = item.run(Settings(True, 0, TINY), Tasks())
    assert again.frame.equals(result.frame)
    assert again.verdicts == result.verdicts


def test_published_numbers():
    published = {line["quantity"]: line["published"] for line in item.PUBLISHED}
    assert published["steps until the mean leaves Monte Carlo"] == "4 to 5"
    assert published["steps of the multi-step prediction"] == "20" == str(item.parameters(False)["steps"])
    assert item.parameters(False)["draws"] == 20
    assert item.parameters(True)["draws"] >= 8


# ---------------------------------------------------------------- the verdicts, on made-up numbers


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [([0.5, 0.6, 1.0], "holds"), ([1.5, 2.0, 1.0], "does not hold"), ([0.5, 2.0], "corrected"), ([1.0, 1.01], "does not hold")],
)
def test_cross_terms(ratio, outcome):
    assert verdicts.cross_terms_of(np.array(ratio)).outcome == outcome


@pytest.mark.parametrize(("good", "outcome"), [(10, "holds"), (9, "holds"), (7, "corrected"), (4, "does not hold")])
def test_single_step(good, outcome):
    off, ratio = np.full(10, 0.01), np.ones(10)
    ratio[good:] = 1.5
    found = verdicts.single_step_of(off, ratio)
    assert found == (outcome, good / 10)
    assert verdicts.single_step_of(off + 1.0, np.ones(10)).outcome == "does not hold"


@pytest.mark.parametrize(
    ("steps", "ratio", "outcome"),
    [
        ([4, 5, 5], 1.0, "holds"),
        ([20, 20, 20], 1.0, "corrected"),  # a half of it
        ([4, 5, 5], 2.0, "corrected"),  # the other half
        ([1, 1, 2], 2.0, "does not hold"),
    ],
)
def test_multi_step(steps, ratio, outcome):
    assert verdicts.multi_step_of(steps, np.full((3, 20, 2), ratio)).outcome == outcome


def test_reasons_quote_all_draws():
    drawn = [studies.of_draw(studies.one_draw("cart-pole", TINY, seed, "level")) for seed in (0, 1)]
    by_claim = {v.claim: v for v in verdicts.judge(drawn, drawn, (2, 3))}
    ratio = np.concatenate([one.ratio("diagonal").ravel() for found in drawn for one in found.multi["before"]])
    assert f"{ratio.min():.2f} to {ratio.max():.2f} times Monte Carlo's" in by_claim["multi-step-mean"].reason
    kept = [verdicts.kept_steps([one.shares["diagonal"] for one in found.multi["before"]]) for found in drawn]
    assert f"for {np.median(kept):g} of 6 steps" in by_claim["twenty-steps"].reason


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
