"""The washout item forecasts from the starts it says, prints the paper's numbers, and judges draw by draw."""

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.paper.claims import UNFAIR, Settings
from pesn.paper.item_settings import our_parameters
from pesn.paper.items import robots, search, washout
from pesn.paper.items.washout import METHODS, STATES

ITEM = "washout"


@pytest.fixture(scope="module", params=["as in the paper", "ours"])
def here(p, request):
    own = our_parameters(washout.SETTINGS, p) if request.param == "ours" else p
    return washout.Washout(own | {"run_rows": 400}, 3)


# ---------------------------------------------------------------- one draw


def test_errors_are_means_over_the_steps_in_the_units_of_the_table(here):
    at = np.array([101])
    path = here.y[102:112, None] + 0.1
    expected = 0.1 * here.plain.scale.y_std[[0, 2, 1, 3]]
    np.testing.assert_allclose(here.errors(path, at), [expected])
    np.testing.assert_allclose(here.errors(np.stack([path, path], axis=2), at), [[expected, expected]])


def test_the_network_in_numpy_forecasts_as_the_front_door(here):
    """The slow twin: the fitted forecaster, from the state that its network leaves after the known rows."""
    p, rows = here.p, 20
    forecaster, _ = robots.learn(robots.CART_POLE, {**p, "train_rows": 0}, here.seed)
    start = pesn.Gaussian(np.zeros(p["n_units"]), var=p["start_std"] ** 2)
    exact = robots.PlainNetwork.of(forecaster)
    here.plain, own = exact, here.plain
    at = here.origins(rows)
    found = here.forecast_all(rows, np.zeros((len(at), 1, p["n_units"])), ("P",))["P"][0]
    here.plain = own
    esn, k = forecaster.esn_.set_params(initial_state=start), int(at[0])
    state = esn.predict(here.z[k - rows : k], return_state=True)[-1]
    begun = forecaster.start(here.test.states[k : k + 1], units=state)
    mean = forecaster.forecast(10, begun, here.test.inputs[k : k + 10], parts=("state",)).mean
    wrong = np.abs(mean - here.test.states[k + 1 : k + 11]).mean(axis=0)[[0, 2, 1, 3]]
    np.testing.assert_allclose(found, wrong, rtol=1e-6)


def test_only_the_papers_algorithm_sees_the_future(p):
    one, other = (washout.Washout(p, 3) for _ in range(2))
    slow, rows = washout.Slow(one), 20
    other.y, other.z = one.y.copy(), one.z.copy()
    other.y[rows + 1 :] += 1.0  # what comes is another thing
    kept = washout.Slow.__new__(washout.Slow)
    kept.__dict__ |= vars(slow) | {"here": other}
    here, there = (each.forecast_all(rows, 2) for each in (slow, kept))
    np.testing.assert_array_equal(here["filtered start"][0], there["filtered start"][0])
    assert np.abs(here["P, weights updated inside"][0] - there["P, weights updated inside"][0]).max() > 1e-6


def test_a_draw_by_its_parts(p):
    paper, ours = (washout.one_draw(own, 3) for own in (p, our_parameters(washout.SETTINGS, p)))
    assert (paper.shape, ours.shape) == ((len(METHODS), p["samples"], 3, 4), (len(METHODS), p["trials"], 3, 4))
    for errors in (paper, ours):
        found = dict(zip(METHODS, errors, strict=True))
        assert np.isnan(found["filtered start"]).all()
        assert (found["mean of forecasts"].mean(axis=0) <= found["MC without noise"].mean(axis=0) * (1 + 1e-12)).all()
    # at its own place nothing but the starts and the noise differs, and a start is forgotten
    found = dict(zip(METHODS, paper, strict=True))
    assert np.ptp(found["P"], axis=0).max() == 0.0
    ranges = np.ptp(found["P from a random mean"], axis=0)
    assert (ranges[0] > 10.0 * ranges[2]).all()
    assert (np.ptp(found["MC"], axis=0)[2] > ranges[2]).all()


# ---------------------------------------------------------------- the item


def test_result_has_every_cell(result):
    frame = result.frame
    assert (set(frame["state"]), sorted(set(frame["washout"]))) == (set(STATES), [1, 10, 40])
    assert (set(frame["column"]), set(frame["draw"])) == (set(washout.COLUMNS), {1, 2})
    assert np.isfinite(frame[["mean", "min", "max"]]).all(axis=None)
    assert (frame["min"] <= frame["mean"] * (1 + 1e-12)).all()
    assert all(len(v.draws) == 4 for v in result.verdicts)
    distances = next(iter(result.tables.values())).set_index("what")
    assert distances["median"]["one constant for each state"] == pytest.approx(3.42, abs=0.005)
    assert {"as in the paper", "closest candidate", "ours"} < set(distances.index)
    table = result.tables["Angle, θ (rad): mean absolute error over the steps, first draw"]
    for column in ("P, weights updated inside (as in the paper)", "Algorithm 3 to the letter (as in the paper)", "P (ours)"):
        assert np.isfinite(table[column]).all()
    assert "one constant for each state" in result.lead


@pytest.mark.parametrize("seed", [11, 12])
def test_the_paper_s_regime_is_nearer_than_the_constants(seed):
    p = pesn.paper.get("washout").parameters()
    assert 10 ** washout.draw_distance(p, seed) < 2.5 < washout.null_factors()["one constant for each state"]


# ---------------------------------------------------------------- the paper's numbers


def test_published_numbers():
    assert set(washout.PUBLISHED) == set(STATES)
    for by_length in washout.PUBLISHED.values():
        assert tuple(by_length) == washout.LENGTHS
        assert all(len(row) == 6 for row in by_length.values())
        assert all(row[2 + m] <= row[m] <= row[4 + m] for row in by_length.values() for m in (0, 1))
    printed = washout.paper_errors
    assert printed("mean", "P")["position", 1] == 0.0093
    assert printed("max", "MC")["angular velocity", 200] == 2.6916
    assert printed("min", "P")["angle", 1] == 0.0653
    assert printed("mean", "MC")["velocity", 200] == 4.4887
    # bold in the paper: 22 of the PESN alone, 2 of both
    wins = washout.win_count(list(printed("mean", "P").values()), list(printed("mean", "MC").values()), 0.0)
    assert wins == (22, 2, 8)


def test_distance_of_the_printed_table_is_nothing():
    P, MC = ([[washout.paper_errors("mean", which)[s, k] for s in STATES] for k in washout.LENGTHS] for which in ("P", "MC"))
    assert washout.distance(np.array(P), np.array(MC)) == 0.0
    assert washout.distance(10.0 * np.array(P), 0.1 * np.array(MC)) == pytest.approx(1.0)


def test_search_starts_from_what_is_used_and_climbs():
    def far(p, seed):
        if p["noise"] > 4.0:
            raise ValueError("a network that cannot be made")
        return abs(p["noise"] - 0.3) + 0.0 * seed

    settings = Settings(True, 0, {"noise": 2.0, "candidates": 60})
    found = search.search(settings, {"noise": washout.SETTINGS["noise"]}, far, {"noise": [0.1, 1.0, 9.0]})
    assert found["distance"].iloc[0] < 0.1  # none of the choices is so close
    assert found.loc[found["candidate"] == 1, "noise"].iloc[0] == 2.0
    assert found["distance"].is_monotonic_increasing
    assert np.isinf(found["distance"].iloc[-1])
    assert search.parameters_of(found, {"noise": 2.0, "other": 1}, {"noise": []})["other"] == 1


# ---------------------------------------------------------------- the verdicts, on made-up numbers


def made_up(P=1.0, MC=1.1, zero=1.0):
    """A table of one draw; numbers, or one for each of the 8 cells."""
    by_method = {"P": P, "MC": MC, "MC without noise": MC, "zero start": zero}
    rows = []
    for method, value in by_method.items():
        cells = np.broadcast_to(value, 8)
        rows += [
            {"state": state, "washout": k, "method": method, "mean": cells[4 * (k == 10) + s]}
            for s, state in enumerate(STATES)
            for k in (1, 10)
        ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("mc", "zero", "outcome"), [
    (2.0, 1.2, "holds"),  # wins as printed, and fairly
    (2.0, 1.0, UNFAIR),  # wins against noise alone
    (2.0, 1.02, UNFAIR),  # what is so close gains nothing
    (1.0, 2.0, "does not hold"),  # not even as printed
    (0.9, 1.0, "does not hold"),
])  # fmt: skip
def test_wins_are_judged_as_printed_and_then_fairly(mc, zero, outcome):
    assert washout.grade_wins(made_up(MC=mc, zero=zero)).outcome == outcome


@pytest.mark.parametrize(("mc", "outcome"), [
    (1.1, "holds"),  # loses nowhere
    ([1.1] * 4 + [0.99] * 4, "holds"),  # loses half, by 1 %
    ([1.1] * 7 + [0.5], "does not hold"),  # loses once, by far
    ([1.1] * 4 + [0.99] * 3 + [0.9], "holds"),  # once by 11 %, else by little
    (1.0, "holds"),  # nothing but ties
])  # fmt: skip
def test_losses_are_small_or_not(mc, outcome):
    assert washout.grade_losses(made_up(MC=mc)).outcome == outcome
