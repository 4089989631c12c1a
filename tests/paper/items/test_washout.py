"""The washout item forecasts from the starts it says, prints the paper's numbers, and judges draw by draw."""

import numpy as np
import pandas as pd
import pytest

from pesn.paper.claims import Settings, Tasks
from pesn.paper.items import sensitivity, washout
from pesn.paper.items.washout import METHODS, STATES

ITEM = "washout"


@pytest.fixture(scope="module")
def here(p):
    return washout.Washout(p, 3, "level")


# ---------------------------------------------------------------- one draw


def test_errors_are_means_over_the_steps_in_the_units_of_the_table(here):
    path = here.y[301:311] + 0.1
    expected = 0.1 * here.forecaster.scale_.y_std[[0, 2, 1, 3]]
    np.testing.assert_allclose(here.errors(path, 300), expected)
    np.testing.assert_allclose(here.errors(np.stack([path, path], axis=1), 300), [expected, expected])


def test_a_gaussian_without_width_is_the_zero_start(p):
    quiet = washout.Washout(p | {"start_std": 0.0, "noise": 0.0}, 3, "level")
    wrong = quiet.errors(quiet.gaussian(300, 20), 300)
    np.testing.assert_allclose(wrong, quiet.plain_errors(300, 20, np.zeros((1, 20)), 0.0)[1], rtol=1e-6)


def test_only_the_papers_algorithm_sees_the_future(here, p):
    other = washout.Washout(p, 3, "level")
    other.y = here.y.copy()
    other.y[301:] += 1.0  # what comes is another thing
    np.testing.assert_array_equal(other.gaussian(300, 20), here.gaussian(300, 20))
    truth = here.forecaster.scale_.y_std[[0, 2, 1, 3]]
    for one in (other, here):
        one.rng = np.random.default_rng(0)
    _, fair = other.plain_errors(300, 20, np.zeros((1, 20)), 0.0)
    np.testing.assert_allclose(fair, truth, atol=0.3)  # it misses by what was added
    assert (other.algorithm_errors(300, 20)[[1, 3]] < 0.9 * fair[[1, 3]]).all()  # this one was told


def test_a_draw_by_its_parts(here, p):
    errors = washout.one_draw(p, 3, "level", True)
    assert errors.shape == (len(METHODS), 3, 3, 4)
    found = dict(zip(METHODS, errors, strict=True))
    assert np.isfinite(found["filtered start"]).all()
    assert np.isfinite(found["P, weights updated inside"]).any(axis=0).all()
    assert np.isnan(found["Algorithm 3 to the letter"]).any()  # in some trials alone
    assert (found["mean of forecasts"] <= found["MC without noise"] * (1 + 1e-12)).all()
    origin = washout.origins(3, 40, 10, 500)[1]
    np.testing.assert_allclose(found["P"][1, 1], here.errors(here.gaussian(origin, 10), origin), rtol=1e-9)
    # after 40 rows a start is forgotten: all but the noise agree
    np.testing.assert_allclose(found["zero start"][:, 2], found["MC without noise"][:, 2], rtol=0.02)


def test_only_monte_carlo_varies_at_a_fixed_origin(p):
    place = washout.one_place(p, 3, "level")
    assert place.shape == (3, 4, 4)
    P, MC, least, most = (place[:, i] for i in range(4))
    assert (least <= MC).all()
    assert (most >= MC).all()
    assert (most > least).all()
    again = washout.one_place(p | {"samples": 7}, 3, "level")
    np.testing.assert_allclose(again[:, 0], P)


# ---------------------------------------------------------------- the item


def test_result_has_every_cell(result):
    frame = result.frame
    assert set(frame["state"]) == set(STATES)
    assert sorted(set(frame["washout"])) == [1, 10, 40]
    assert set(frame["target"]) == {"level", "change"}
    assert set(frame["draw"]) == {1, 2}
    assert np.isfinite(frame[["mean", "min", "max"]]).all(axis=None)
    assert (frame["min"] <= frame["mean"]).all()
    assert all(len(v.draws) == 2 for v in result.verdicts)
    table = next(iter(result.tables.values()))
    for column in ("P, weights updated inside", "Algorithm 3 to the letter", "P, changes learned", "filtered start"):
        assert np.isfinite(table[column]).all()
    assert result.lead.startswith("Another regime")
    assert any("z_test(k)" in note for note in result.notes)


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


def test_search_puts_the_closest_first_and_begins_with_what_is_used():
    def far(p, seed):
        return {"one": abs(p["noise"] - 0.3), "other": 9.0}

    settings = Settings(True, 0, {"noise": 5.0, "candidates": 30})
    found = sensitivity.search(settings, Tasks(), far, {"noise": [0.1, 0.2, 0.3, 0.4]})
    assert found["noise"].iloc[0] == 0.3
    assert found.loc[found["candidate"] == 1, "noise"].iloc[0] == 5.0
    assert found["one"].is_monotonic_increasing


def test_one_setting_is_varied_at_a_time():
    seen = []

    def measure(p, seed):
        seen.append((p["noise"], p["n_units"], seed))
        return {"twice": 2.0 * p["noise"]}

    settings = Settings(True, 0, {"noise": 1.0, "n_units": 5, "varied_draws": 2})
    frame = sensitivity.study(settings, Tasks(), measure, {"noise": [0.0, 1.0], "n_units": [7]})
    varied = [(0.0, 5), (1.0, 5), (1.0, 5), (1.0, 7)]  # the units in use, 5, beside the 7 that were asked for
    assert seen == [(noise, n, seed) for noise, n in varied for seed in settings.seeds(2, stream=3)]
    figure, _ = sensitivity.draw(frame, settings.parameters, {"twice": "twice"}, "twice the noise")
    assert [ax.get_xlabel() for ax in figure.axes] == ["noise M_e", "units N"]


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


@pytest.mark.parametrize(
    ("mc", "zero", "outcome"),
    [
        (2.0, 1.2, "holds"),  # wins as printed, and fairly
        (2.0, 1.0, "corrected"),  # wins against noise alone
        (2.0, 1.02, "corrected"),  # what is so close gains nothing
        (1.0, 2.0, "does not hold"),  # not even as printed
        (0.9, 1.0, "does not hold"),
    ],
)
def test_wins_are_judged_as_printed_and_then_fairly(mc, zero, outcome):
    assert washout.grade_wins(made_up(MC=mc, zero=zero)).outcome == outcome


@pytest.mark.parametrize(
    ("mc", "outcome"),
    [
        (1.1, "holds"),  # loses nowhere
        ([1.1] * 4 + [0.99] * 4, "holds"),  # loses half, by 1 %
        ([1.1] * 7 + [0.5], "does not hold"),  # loses once, by far
        ([1.1] * 4 + [0.99] * 3 + [0.9], "holds"),  # once by 11 %, else by little
        (1.0, "holds"),  # nothing but ties
    ],
)
def test_losses_are_small_or_not(mc, outcome):
    assert washout.grade_losses(made_up(MC=mc)).outcome == outcome
