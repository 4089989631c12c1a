"""Claims about forecasters of networks with layers, leak rates by unit and an orthogonal memory:

1. A forecast of the full covariance is that of many members, and the low-rank one is near it.
2. Derivatives, updates and files work as for any other network; test_rollouts has the roll-outs.
"""

import numpy as np
import pytest

import pesn
from pesn import Forecaster, Layer, ProbabilisticESN
from pesn.systems import cart_pole

RUNS = cart_pole.simulate(runs=3, steps=200, rng=0)
KINDS = {
    "groups": {"layers": [Layer(16), [Layer(12, leak_rate=1.0), Layer(12, leak_rate=0.2)]]},
    "es2n": {"memory": "orthogonal", "leak_rate": 0.4},
    "all": {"layers": [Layer(16), Layer(14, leak_rate=np.linspace(0.2, 1.0, 14))], "memory": "orthogonal", "leak_rate": 0.5},
    "features": {"layers": 2, "features": pesn.Features(lags=1, products=1), "feedback_scaling": 0.2},
}
LAST = len(RUNS.states) - 40  # rows after it are not learned from, and go on where training ended
LENGTHS = [*RUNS.lengths[:-1], RUNS.lengths[-1] - 40]
CONTEXT, AHEAD = (RUNS.states[:30], RUNS.inputs[:29]), RUNS.inputs[29:41]


def fitted(kind, covariance="full", **options):
    esn = ProbabilisticESN(20, density=0.3, random_state=0, process_noise=1e-4, covariance=covariance, **KINDS[kind], **options)
    return Forecaster(esn, calibrate=False).fit(RUNS.states[:LAST], RUNS.inputs[:LAST], lengths=LENGTHS)


@pytest.fixture(scope="module")
def models():
    return {kind: fitted(kind) for kind in KINDS}


# ---------------------------------------------------------------- 1. forecasts


@pytest.mark.parametrize("kind", KINDS)
def test_forms_of_covariance_agree(models, kind):
    full = models[kind].forecast(12, CONTEXT, AHEAD)
    low = fitted(kind, covariance="low-rank", rank=15).forecast(12, CONTEXT, AHEAD)
    members = fitted(kind, covariance="ensemble", n_members=2048).forecast(12, CONTEXT, AHEAD)
    assert np.all(full.std > 0.0)
    width = full.std.max(axis=0)
    assert np.all(np.abs(low.mean - full.mean) < 0.1 * width)
    np.testing.assert_allclose(low.std, full.std, rtol=0.15)
    assert np.all(np.abs(members.mean - full.mean) < 0.1 * width)
    np.testing.assert_allclose(members.std, full.std, rtol=0.1)


# ---------------------------------------------------------------- 2. models to plan with


@pytest.mark.parametrize("kind", KINDS)
def test_linearize_agrees_with_differences(models, kind):
    model, y, u = models[kind], RUNS.states[40:43], RUNS.inputs[40:43]
    A, B = model.linearize(y, u)[:2]
    for j in range(4):
        e = 1e-5 * np.eye(4)[j]
        np.testing.assert_allclose(A[..., j], (model.step(y + e, u) - model.step(y - e, u)) / 2e-5, rtol=1e-4, atol=1e-6)
    e = 1e-5 * np.ones(1)
    np.testing.assert_allclose(B[..., 0], (model.step(y, u + e) - model.step(y, u - e)) / 2e-5, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("kind", "form"), [*zip(KINDS, ["full", "low-rank"] * 2, strict=True)])
def test_layers_are_updated_and_saved(save_and_load, kind, form):
    model = fitted(kind, form, rank=15)
    model.update(RUNS.states[LAST : LAST + 20], RUNS.inputs[LAST : LAST + 20])
    again = save_and_load(model)
    for rows in (slice(LAST + 20, LAST + 25), slice(LAST + 30, LAST + 35)):
        ours, theirs = (one.forecast(5, X=RUNS.inputs[rows]) for one in (model, again))
        np.testing.assert_allclose(theirs.mean, ours.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(theirs.std, ours.std, rtol=1e-9)
        assert np.abs(ours.mean - RUNS.states[rows]).max() < 1.0
        for one in (model, again):
            one.update(RUNS.states[LAST + 20 : LAST + 30], RUNS.inputs[LAST + 20 : LAST + 30])
