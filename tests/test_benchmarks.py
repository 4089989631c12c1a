"""Claim: the side-by-side suite runs from end to end, says of every peer how it did or why it took no part, refuses results that
differ, and puts what a rival does better into words.
"""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("torch")

import climate
import moments
import network_speed
import peers
import reservoirs
import run
import sharp
import sharp_sets
import uncertainty
from pages import table, write_block
from timing import Ratio, race, ratio

pytestmark = pytest.mark.filterwarnings("ignore")  # the peers' own

RESERVOIRPY = {"ReservoirPy": "reservoirpy", "rclib": "no-such-package", "ORC": "no-such-package", "PyRCN": "no-such-package"}


def coverage(ours, gp):
    scores = {"ours": ours, "persistence": 1.0, "ARX": 1.0, "GP": gp}
    return {"coverage": np.full(4, 0.95), "crps": {rival: np.full(4, value) for rival, value in scores.items()}}


@pytest.fixture(scope="module")
def results():
    """Everything at sizes that take seconds; coverage and cold starts, which take longer, by their form alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "PACKAGES", RESERVOIRPY)
        patch.setattr(reservoirs, "RLS_WORK", 0)
        patch.setattr(run.moments, "import_figure", lambda rounds: run.moments.Figure("a", "b", Ratio(1.0, 1.0, 1.0), None))
        patch.setattr(uncertainty, "coverages", lambda *_: {"Lorenz": [coverage(1e-2, 1e-5), coverage(1.2e-2, 1e-5)]})
        patch.setattr(
            uncertainty, "cold_starts", lambda *_: {("Lorenz", 0.5): [{"warm-up": {"plain": 20.0, "lags": 9.0, "ours": 5.0}}]}
        )
        patch.setattr(network_speed, "speeds", lambda rounds, samples, speeds=network_speed.speeds: speeds(rounds, samples, d=5))
        plan = run.QUICK._replace(rounds=1, share=1e-4, samples=1000, drive={20: 1}, units=100, steps=1200, forecast=50)
        found = run.measure(plan)
        return found, run.page(found, plan), run.summary(found)


def test_every_peer_is_in_the_table_with_a_ratio_or_a_reason(results):
    board = results[0].reservoirs
    driven = reservoirs.DRIVE, reservoirs.DRIVE_GAUSSIAN, reservoirs.FIT, reservoirs.LOOP
    for what in (*driven, reservoirs.RLS, reservoirs.ONLINE, reservoirs.ONLINE_CHECKED):
        for name in RESERVOIRPY:
            for value in board.rows[what, name].ratios.values():
                measured = name == "ReservoirPy" and peers.installed("reservoirpy")
                assert isinstance(value, Ratio) if measured else value in ("not installed", reservoirs.NO_RLS), (
                    what,
                    name,
                    value,
                )


def test_the_pages_say_what_is_missing_and_what_is_worse(results):
    _, page, summary = results
    assert "ORC was not measured (not installed)" in page
    assert "GP has 1e-05, pesn 0.011" in page  # the mean of the two seeds
    assert "| Lorenz | 95 %, 95 % | pesn 0.01, persistence 1, ARX 1, GP **1e-05** | 20 → 5 |" in summary


def test_coverage_and_cold_start_give_the_form_that_the_pages_take(monkeypatch):
    lorenz = uncertainty.chaotic.lorenz
    monkeypatch.setattr(uncertainty.chaotic, "lorenz", lambda steps, **more: lorenz(steps=400, **more))
    short = uncertainty.task("Lorenz", 0)._replace(options={"calibrate": False})
    monkeypatch.setattr(uncertainty, "task", lambda *_: short)
    monkeypatch.setattr(uncertainty, "tuned", lambda *_: uncertainty.ProbabilisticESN(30, random_state=0))
    monkeypatch.setattr(uncertainty, "_gp", partial(uncertainty._gp, rows=30))
    found = uncertainty.coverage("Lorenz", 0, None, n_origins=2)
    assert found["coverage"].shape == found["crps"]["GP"].shape == (len(uncertainty.LEADS),)
    assert "| Lorenz | pesn |" in uncertainty.coverage_tables({"Lorenz": [found]})
    cold = uncertainty.cold_start("Lorenz", 0.5, 0, n_origins=2, most=5)
    assert "| Lorenz, L = 0.5 |" in uncertainty.cold_start_table({("Lorenz", 0.5): [cold]})


def test_the_table_of_sharpness_goes_on_where_it_stopped(monkeypatch, tmp_path, capsys):
    """Every line of the file is a result; sets chosen on stand apart; a spread is as wide as errors are."""
    rows = np.cumsum(np.random.default_rng(0).normal(size=(900, 1)), axis=0)
    none = np.zeros((900, 0))
    walk = sharp_sets.Set([(rows[:500], none[:500])], [(rows[500:], none[500:])], 0.0, {}, robot=True)
    monkeypatch.setattr(sharp, "chaotic_set", lambda *_: walk)
    monkeypatch.setattr(sharp, "MODELS", {name: sharp.MODELS[name] for name in ("persistence", "ARX10")})
    path = tmp_path / "kept.jsonl"
    command = ["lorenz", "LuChen", "--noise", "0", "--seeds", "1", "--origins", "3", "--rivals", "--keep", str(path)]
    sharp.main(command)
    lines, page = path.read_text().splitlines(), capsys.readouterr().out
    assert len(lines) == 4
    assert page.index("| lorenz | ARX10 |") < page.index("only tried on") < page.index("| LuChen | persistence |")
    path.write_text("\n".join([*lines[:3], lines[3][:20]]))  # cut short
    sharp.main(command)
    assert "3 of 4 results are there" in capsys.readouterr().err
    result = sharp.judged(sharp.MODELS["persistence"](walk), walk, 300)
    assert 0.85 < result.inside[0] < 0.99
    np.testing.assert_allclose(result.constant[:2], 1.0, atol=0.1)


def test_a_side_that_fails_is_reported(monkeypatch):
    monkeypatch.setattr(peers, "PACKAGES", {"a": "numpy", "b": "numpy", "c": "no-such-package"})

    def fails():
        raise RuntimeError("no\nwonder")

    ready, out = peers.enter({"a": lambda: lambda: 1, "b": fails, "c": fails})
    assert list(ready) == ["a"]
    assert out == {"b": "failed: RuntimeError: no", "c": "not installed"}


def test_results_that_differ_are_no_race():
    board = reservoirs.Board()
    board.put("work", "peer", 5, Ratio(2.0, 1.0, 3.0))
    board.verify(("work",), "peer", 5, [1.0, 2.0], [1.0, 2.0], 1e-9)
    assert board.rows["work", "peer"].ratios[5] == Ratio(2.0, 1.0, 3.0)
    board.verify(("work",), "peer", 5, [1.0, np.nan], [1.0, 2.0], 1e-9)  # NaN is not near anything
    assert str(board.rows["work", "peer"].ratios[5]).startswith("failed")


def test_a_race_takes_every_side_in_every_round():
    calls = []
    times = race({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert [len(t) for t in times.values()] == [3, 3]
    assert ratio({"a": [2.0, 6.0, 9.0], "b": [1.0, 2.0, 1.0]}, "a", "b", 0.5) == Ratio(1.5, 1.0, 4.5)


def test_a_block_is_replaced_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- x:begin -->\nold\n<!-- x:end -->\nbelow\n")
    write_block(page, "x", table(["a", "b"], [["1", "2"]]))
    assert page.read_text() == "above\n<!-- x:begin -->\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n<!-- x:end -->\nbelow\n"
    with pytest.raises(SystemExit, match="has no block y"):
        write_block(page, "y", "")


def test_the_engine_is_timed_beside_tanh_in_every_way():
    found = moments.engine(1, 50, ("tanh", "relu"))
    assert [one.activation for one in found] == ["np.tanh", "tanh", "relu"]
    assert all(set(one.nanoseconds) == set(moments.COLUMNS) for one in found[1:])
    assert moments.engine_report(found).count("\n| ") == len(found) + 2


def test_the_passes_of_the_surface_are_vectorised():
    assert all(count > 0 for count in moments.assembly().values())


def test_the_climate_of_a_rival_and_of_the_system():
    truth = climate.lorenz(steps=20_000, rng=0).states
    assert climate.histogram_distance(truth, truth) == 0.0
    assert climate.histogram_distance(truth[:5000], truth) < 0.1 < climate.histogram_distance(1.5 * truth, truth)
    learnt = climate.MODELS["NVAR"](truth[:1500], 1500, 0)
    assert learnt.run.shape == (1500, 3)
    np.testing.assert_allclose(learnt.exponents, climate.EXPONENTS, atol=0.6)
