"""The networks are the paper's, and the verdicts tell the cases apart."""

import numpy as np
import pytest

from pesn.paper.items import feedforward

ITEM = "feedforward"


def test_networks_have_the_paper_s_sizes():
    for name, width, depth in (("shallow", 5, 5), ("deep", 50, 10)):
        network = feedforward.draw_network(name, "1", 0)
        assert [layer.W.shape for layer in network] == [(width, 1024), *[(width, width)] * (depth - 1), (1, width)]
        assert [layer.activation.name for layer in network] == ["tanh"] * depth + ["identity"]
    scaled = feedforward.draw_network("deep", "1/√n", 0)
    assert np.std(scaled[0].W) == pytest.approx(1 / 32, rel=0.02)


def test_saturation_is_that_of_the_network():
    network, x = feedforward.draw_network("shallow", "1", 7), feedforward._input()
    z = x.affine(network[0].W, network[0].b)
    assert feedforward.saturation(7) == pytest.approx(float(np.min(np.abs(z.mean) / z.std)))


def test_samples_are_those_of_the_inputs():
    network, x, n = feedforward.draw_network("shallow", "1/√n", 3), feedforward._input(), 20_000
    layers, out = feedforward.sample(network, x, n, np.random.default_rng(0))
    h = np.random.default_rng(1).normal(-0.5, 0.1, size=(n, 1024))  # the slow way: every input drawn
    for (mean, var), layer in zip(layers, network, strict=True):
        h = layer.activation.value(h @ layer.W.T + layer.b)
        assert np.allclose(mean, h.mean(axis=0), rtol=0, atol=6 * np.sqrt(2 * h.var(axis=0).max() / n))
        assert np.allclose(var, h.var(axis=0), rtol=0.1)
    assert np.all(np.diff(out) >= 0)


def test_published_numbers():
    shallow, deep = (feedforward._paper_errors(network) for network in ("shallow", "deep"))
    assert len(shallow) == len(deep) == 4 * 6
    assert (shallow["spline", "mean", 1], shallow["analytic", "variance", 6]) == (2.24e-5, 1.05e-1)
    assert (deep["spline", "mean", 3], deep["analytic", "variance", 11]) == (1.01e-2, 2.95)
    # why σ is read as a variance: the analytic variance of a saturated unit is 1 − mean², twice the error of its mean
    assert shallow["analytic", "variance", 1] == pytest.approx(2 * shallow["analytic", "mean", 1], rel=0.01)
    assert feedforward.wins(deep) == (8, 12)


def _draw(samples, spline, analytic, distances=(0.01, 0.01), mean=0.0):
    gaps = {"samples": 0.0, "spline": distances[0], "analytic": distances[1], "full": 0.01}
    stds = {"samples": samples, "spline": spline, "analytic": analytic, "full": samples}
    output = {m: {"mean": mean if m == "spline" else 0.0, "std": stds[m], "distance": gaps[m]} for m in gaps}
    return {"output": output, "reach": 2.0}


def test_shallow_verdict_for_every_outcome():
    delta, wide = _draw(1e-3, 2e-3, 0.2), _draw(0.5, 1.0, 0.3)
    assert feedforward.shallow_parts(delta) == (True, True, True)
    assert feedforward.shallow_parts(_draw(1e-3, 2e-3, 1e-3)) == (True, True, False)
    assert feedforward.shallow_parts(_draw(1e-3, 2e-3, 0.2, mean=0.5)) == (True, False, True)
    assert feedforward.shallow_parts(wide) == (False, False, False)
    assert feedforward.judge_shallow([delta] * 3, [delta], 0.9).verdict == "holds"
    part = feedforward.judge_shallow([wide] * 3, [delta] * 2, 0.03)
    assert part.verdict == "holds in part"
    assert "3.0 %" in part.reason
    half = feedforward.judge_shallow([wide, delta] * 3, [delta], 0.03)
    assert (half.verdict, half.depends, half.support) == ("holds in part", "the draw", 3)
    assert feedforward.judge_shallow([wide] * 3, [wide], 0.03).verdict == "does not hold"
    assert feedforward.judge_shallow([wide] * 3, [], 0.0).verdict == "does not hold"


def test_deep_verdict_for_every_outcome():
    cells = [(m, k) for m in ("mean", "variance") for k in feedforward._SHOWN["deep"]]

    def judged(distances, spline):
        errors = {("spline", m, k): spline for m, k in cells} | {("analytic", m, k): 1.5 for m, k in cells}
        rows = [{"method": name, "moment": m, "layer": k, "error": error} for (name, m, k), error in errors.items()]
        return feedforward.judge_deep([_draw(5.0, 5.1, 5.2, distances) | {"errors": rows}] * 4, errors)

    assert judged((0.01, 0.01), 1.0).verdict == "holds"
    assert judged((0.01, 0.3), 1.0).verdict == "holds in part"
    assert judged((0.01, 0.01), 2.0).verdict == "holds in part"
    assert judged((0.01, 0.3), 2.0).verdict == "does not hold"
    assert "recovered by spline;" in judged((0.01, 0.3), 1.0).reason
    assert judged((0.01, 0.01), 1.0).support == 4


def test_saturated_draws_make_the_shallow_table(result):
    """The first layer's errors, which no closure spoils, are of the printed size in saturated draws and not in others."""
    first = result.frame.query("network == 'shallow' and layer == 1 and moment == 'mean'")
    worst = first[first["method"] == "spline"].groupby("weights")["error"].max()
    assert worst["saturated draws"] < 2e-3  # sampling noise with 2,000 samples; printed: 2e-5 with 50,000
    analytic = first[(first["method"] == "analytic") & (first["weights"] == "saturated draws")]["error"]
    assert (analytic < 5e-3).all()


def test_feedforward_runs_without_saturated_draws(run_item):
    none = run_item("feedforward", draws=1, candidates=2, saturation=50.0)
    assert not any("saturated draws:" in title for title in none.tables)
    assert none.verdicts[0].verdict in ("holds", "does not hold")
