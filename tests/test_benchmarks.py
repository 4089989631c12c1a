"""Test the benchmarks: all are listed, peers have a ratio or a reason, and different results are not compared."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("torch")

import moments
import networks
import peer_libraries
import peers
import reservoirs
import run
import sharp
import uncertainty
from harness import Ratio, ratio, table, time_in_turns, write_block

pytestmark = pytest.mark.filterwarnings("ignore")  # of the peers

RESERVOIRPY = {"ReservoirPy": "reservoirpy", "rclib": "no-such-package", "ORC": "no-such-package", "PyRCN": "no-such-package"}


def coverage(ours, gp):
    scores = {"ours": ours, "persistence": 1.0, "ARX": 1.0, "GP": gp}
    return {"coverage": np.full(4, 0.95), "crps": {model: np.full(4, value) for model, value in scores.items()}}


@pytest.fixture(scope="module")
def results():
    """Run all comparisons at small sizes; coverage and cold starts, which take longer, are replaced by examples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peer_libraries, "PACKAGES", RESERVOIRPY)
        patch.setattr(peers, "RLS_WORK", 0)
        patch.setattr(moments, "compare_import", lambda rounds: moments.Comparison("a", "b", Ratio(1.0, 1.0, 1.0), None))
        patch.setattr(uncertainty, "measure_coverages", lambda *_: {"Lorenz": [coverage(1e-2, 1e-5), coverage(1.2e-2, 1e-5)]})
        cold = {("Lorenz", 0.5): [{"warm-up": {"plain": 20.0, "lags": 9.0, "ours": 5.0}}]}
        patch.setattr(uncertainty, "measure_cold_starts", lambda *_: cold)
        patch.setattr(networks, "measure_speeds", partial(networks.measure_speeds, d=5))
        plan = peers.QUICK._replace(rounds=1, share=1e-4, samples=1000, drive={20: 1}, units=100, steps=1200, forecast=50)
        found = peers.measure(plan)
        return found, peers.results_page(found, plan), peers.short_tables(found)


def test_every_peer_has_a_ratio_or_a_reason(results):
    comparison = results[0].reservoirs
    driven = peers.DRIVE, peers.DRIVE_GAUSSIAN, peers.FIT, peers.LOOP
    for what in (*driven, peers.RLS, peers.ONLINE, peers.ONLINE_CHECKED):
        for name in RESERVOIRPY:
            for value in comparison.rows[what, name].ratios.values():
                measured = name == "ReservoirPy" and peer_libraries.installed_version("reservoirpy")
                assert isinstance(value, Ratio) if measured else value in ("not installed", peers.NO_RLS), (what, name, value)


def test_pages_report_missing_peers_and_shortfalls(results):
    _, page, summary = results
    assert "ORC was not measured (not installed)" in page
    assert "GP has 1e-05, pesn 0.011" in page  # the mean of the two seeds
    assert "| Lorenz | 95 %, 95 % | pesn 0.01, persistence 1, ARX 1, GP **1e-05** | 20 → 5 |" in summary


def test_coverage_and_cold_start_match_the_pages(monkeypatch):
    lorenz = uncertainty.chaotic.lorenz
    monkeypatch.setattr(uncertainty.chaotic, "lorenz", lambda steps, **more: lorenz(steps=400, **more))
    short = uncertainty.load_task("Lorenz", 0)._replace(options={"calibrate": False})
    monkeypatch.setattr(uncertainty, "load_task", lambda *_: short)
    monkeypatch.setattr(uncertainty, "select_network", lambda *_: uncertainty.ProbabilisticESN(30, random_state=0))
    monkeypatch.setattr(uncertainty, "_gp", partial(uncertainty._gp, rows=30))
    found = uncertainty.measure_coverage("Lorenz", 0, None, n_origins=2)
    assert found["coverage"].shape == found["crps"]["GP"].shape == (len(uncertainty.LEADS),)
    assert "| Lorenz | pesn |" in uncertainty.coverage_tables({"Lorenz": [found]})
    cold = uncertainty.measure_cold_start("Lorenz", 0.5, 0, n_origins=2, most=5)
    assert "| Lorenz, L = 0.5 |" in uncertainty.cold_start_table({("Lorenz", 0.5): [cold]})


def test_sharp_continues_an_interrupted_run(monkeypatch, tmp_path, capsys):
    """Results are read from the file, development sets are listed apart, and constant stds fit the errors."""
    rows = np.cumsum(np.random.default_rng(0).normal(size=(900, 1)), axis=0)
    none = np.zeros((900, 0))
    walk = sharp.Dataset([(rows[:500], none[:500])], [(rows[500:], none[500:])], 0.0, {}, robot=True)
    monkeypatch.setattr(sharp, "load_system", lambda *_: walk)
    monkeypatch.setattr(sharp, "MODELS", {name: sharp.MODELS[name] for name in ("persistence", "ARX10")})
    path = tmp_path / "kept.jsonl"
    command = ["lorenz", "LuChen", "--noise", "0", "--seeds", "1", "--origins", "3", "--baselines", "--keep", str(path)]
    sharp.main(command)
    lines, page = path.read_text().splitlines(), capsys.readouterr().out
    assert len(lines) == 4
    assert page.index("| lorenz | ARX10 |") < page.index("Test sets") < page.index("| LuChen | persistence |")
    path.write_text("\n".join([*lines[:3], lines[3][:20]]))  # truncated
    sharp.main(command)
    assert "3 of 4 results are in the file" in capsys.readouterr().err
    result = sharp.evaluate(sharp.MODELS["persistence"](walk), walk, 300)
    assert 0.85 < result.coverage[0] < 0.99
    np.testing.assert_allclose(result.constant[:2], 1.0, atol=0.1)


def test_a_peer_that_fails_is_reported(monkeypatch):
    monkeypatch.setattr(peer_libraries, "PACKAGES", {"a": "numpy", "b": "numpy", "c": "no-such-package"})

    def fails():
        raise RuntimeError("no\nwonder")

    ready, out = peer_libraries.prepare_peers({"a": lambda: lambda: 1, "b": fails, "c": fails})
    assert (list(ready), out) == (["a"], {"b": "failed: RuntimeError: no", "c": "not installed"})


def test_different_results_are_reported_in_place_of_the_time():
    comparison = peers.Comparison()
    comparison.put("work", "peer", 5, Ratio(2.0, 1.0, 3.0))
    comparison.verify(("work",), "peer", 5, [1.0, 2.0], [1.0, 2.0], 1e-9)
    assert comparison.rows["work", "peer"].ratios[5] == Ratio(2.0, 1.0, 3.0)
    comparison.verify(("work",), "peer", 5, [1.0, np.nan], [1.0, 2.0], 1e-9)  # NaN is not near anything
    assert str(comparison.rows["work", "peer"].ratios[5]).startswith("failed")


def test_every_call_is_timed_in_every_round():
    calls = []
    times = time_in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert [len(t) for t in times.values()] == [3, 3]
    assert ratio({"a": [2.0, 6.0, 9.0], "b": [1.0, 2.0, 1.0]}, "a", "b", 0.5) == Ratio(1.5, 1.0, 4.5)


def test_a_block_is_replaced_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- x:begin -->\nold\n<!-- x:end -->\nbelow\n")
    write_block(page, "x", table(["a", "b"], [["1", "2"]]))
    assert page.read_text() == "above\n<!-- x:begin -->\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n<!-- x:end -->\nbelow\n"
    with pytest.raises(SystemExit, match="has no block y"):
        write_block(page, "y", "")


@pytest.mark.parametrize(("kind", "residual"), [("sine", False), ("probit", True)])
def test_methods_for_uncertain_inputs_agree_where_they_are_exact(kind, residual):
    """All agree at a small input variance; mean field, which drops covariances, where each layer has one unit."""
    standard = peer_libraries.torch.from_numpy(np.random.default_rng(0).standard_normal((2**14, 3)).astype(np.float32))
    network = peer_libraries.PeerNetwork(kind, residual, 8, 3, 0).fit(0).eval().requires_grad_(False)
    found = peer_libraries.compare_methods(network, 0.01, 0, standard)
    assert len(found.errors) == 8
    assert all(error < 0.03 for name, error in found.errors.items() if name not in ("mean field", peer_libraries.SAMPLES)), found
    network = peer_libraries.PeerNetwork(kind, residual, 1, 3, 0).eval().requires_grad_(False)
    found = peer_libraries.compare_methods(network, 1.0, 0, standard)
    assert found.errors["mean field"] == pytest.approx(found.errors["Gaussian closure (Kuang and Lin)"], rel=1e-6)


def test_network_report_marks_what_is_better_than_the_default():
    methods = {peer_libraries.AUTO: (0.02, 1.0), "a": (0.01, 0.5), "b": (0.04, 2.0)}
    errors, times = ({name: values[k] for name, values in methods.items()} for k in (0, 1))
    found = [peer_libraries.PeerResult(std, 0, errors, errors, times, 3.0) for std in peer_libraries.INPUT_STDS]
    report = peer_libraries.network_report(found)
    assert "take 3 times its time" in report
    assert "| a | **0.5** | **1 %** (1–1) | 1 % | **1.0e-02** | 1 | 1 |" in report
    assert "| b | 2 | 4 % (4–4) | 4 % | 4.0e-02 | 0 | 0 |" in report


def test_activations_are_timed_with_every_method():
    found = moments.time_activations(1, 50, ("tanh", "relu"))
    assert [one.activation for one in found] == ["np.tanh", "tanh", "relu"]
    assert all(set(one.nanoseconds) == set(moments.COLUMNS) for one in found[1:])
    assert moments.activation_table(found).count("\n| ") == len(found) + 2


def test_surface_kernel_is_vectorized():
    assert all(count > 0 for count in moments.count_packed_instructions().values())


def test_climate_of_nvar_and_of_the_true_system():
    truth = reservoirs.chaotic.lorenz(steps=20_000, rng=0).states
    assert reservoirs.histogram_distance(truth, truth) == 0.0
    assert reservoirs.histogram_distance(truth[:5000], truth) < 0.1 < reservoirs.histogram_distance(1.5 * truth, truth)
    learned = reservoirs.CLIMATE_MODELS["NVAR"](truth[:1500], 1500, 0)
    assert learned.run.shape == (1500, 3)
    np.testing.assert_allclose(learned.exponents, reservoirs.EXPONENTS, atol=0.6)


@pytest.mark.parametrize("name", run.BENCHMARKS)
def test_every_benchmark_has_a_line_and_options(name, capsys):
    run.main(["--list"])
    assert sum(line.split()[0] == name for line in capsys.readouterr().out.splitlines()) == 1
    with pytest.raises(SystemExit) as ended:
        run.main([name, "--help"])
    assert ended.value.code == 0
    assert f"benchmarks/run.py {name}" in capsys.readouterr().out


def test_missing_packages_and_unknown_names_are_one_line(monkeypatch):
    monkeypatch.setattr(run, "BENCHMARKS", {"absent": run.Benchmark("no_such_module", "nothing", "1 s")})
    with pytest.raises(SystemExit, match=r"^absent needs the package no_such_module: pip install 'pesn\[bench\]'$"):
        run.main(["absent"])
    with pytest.raises(SystemExit, match=r"^NAME must be one of absent, got other$"):
        run.main(["other"])
