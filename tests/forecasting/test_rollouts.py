"""Roll-outs of many control sequences agree with single ones and with forecasts, in all forms and from one or many contexts."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from pesn import Features, Forecaster, Gaussian, Layer, ProbabilisticESN
from pesn.forecasting.design import Candidate, Design
from pesn.systems import cart_pole

DT = 0.02
KINEMATICS = np.array([[1, 0, DT / 2, 0], [0, 1, 0, DT / 2]]), DT / 2 * np.eye(2), np.zeros(2)
RUNS = cart_pole.simulate(runs=3, steps=300, rng=0)
CONTEXTS = {rows: (RUNS.states[100 : 100 + rows], RUNS.inputs[100 : 99 + rows]) for rows in (1, 5, 80)}


def fitted(candidate=None, covariance="auto", **more):
    design = None if candidate is None else Design(candidate)
    network = ProbabilisticESN(25, washout="auto", random_state=0, covariance=covariance, **more) if candidate is None else "auto"
    model = Forecaster(network, design=design, learn=[2, 3], kinematics=KINEMATICS)
    return model.fit(RUNS.states, RUNS.inputs, lengths=RUNS.lengths)


MODELS = {
    "given": lambda: fitted(),
    "low-rank": lambda: fitted(covariance="low-rank", rank=10),
    "process noise": lambda: fitted(process_noise=1e-4),
    "layers": lambda: fitted(layers=[Layer(16), [Layer(12, leak_rate=1.0), Layer(12)]], memory="orthogonal", density=0.3),
    "layers, products": lambda: fitted(layers=2, features=Features(lags=1, products=1), feedback_scaling=0.2),
    "static": lambda: fitted(Candidate("static 0.5", 0, 1, 40, (1e-8, 1e-7))),
    "lags": lambda: fitted(Candidate("memory", 2, 0, 30, (1e-7, 1e-6))),
    "no units": lambda: fitted(Candidate("none", 1, 2, 0, (1e-7, 1e-6))),
}


@cache
def made(name):
    return MODELS[name]()


@cache
def with_products(form):
    return fitted(covariance=form, features=Features(products=1))


def controls(B=4, H=12, seed=0):
    return np.cumsum(np.random.default_rng(seed).normal(size=(B, H, 1)), axis=1)


@pytest.mark.parametrize("rows", [1, 5, 80])
@pytest.mark.parametrize("name", MODELS)
def test_rollout_has_the_moments_of_a_forecast(name, rows):
    model, U = made(name), controls()
    start = model.start(CONTEXTS[rows])
    for covariance in ("low-rank", "full"):
        result = model.rollout(U, start, covariance)
        np.testing.assert_allclose(result.start, np.broadcast_to(CONTEXTS[rows][0][-1], (len(U), 4)))
        for i, one in enumerate(U):
            forecast = model.forecast(len(one), CONTEXTS[rows], one)
            off = 0.01 if model.design_ is None else 0.02  # of a design a forecast may end by members
            assert np.abs((result.mean[i] - forecast.mean) / forecast.std).max() < off
            np.testing.assert_allclose(result.std[i], forecast.std, rtol=off)


@pytest.mark.parametrize("covariance", ["none", "diagonal", "low-rank", "full"])
@pytest.mark.parametrize("name", ["given", "static", "lags"])
def test_batch_agrees_with_single_rollouts(name, covariance):
    model, U = made(name), controls(B=50)
    start = model.start(CONTEXTS[80])
    many = model.rollout(U, start, covariance)
    assert many.mean.shape == (50, 12, 4)
    for i in (0, 17, 49):
        alone = model.rollout(U[i], start, covariance)
        np.testing.assert_allclose(many.mean[i], alone.mean[0], rtol=1e-8, atol=1e-10)
        if covariance != "none":
            np.testing.assert_allclose(many.cov[i], alone.cov[0], rtol=1e-6, atol=1e-12)
    if covariance == "none":
        assert many.cov is None
        assert many.lagged is None


@pytest.mark.parametrize("rows", [1, 5, 80])
def test_batch_of_contexts_agrees_with_single_contexts(rows):
    model, U = made("static"), controls(B=3)
    y = np.stack([RUNS.states[k : k + rows] for k in (20, 90, 150)])
    X = np.stack([RUNS.inputs[k : k + rows - 1] for k in (20, 90, 150)])
    many = model.rollout(U, model.start((y, X)))
    same = model.rollout(U[0], model.start((y, X)))  # one sequence for all
    for i in range(3):
        alone = model.rollout(U[i], model.start((y[i], X[i])))
        np.testing.assert_allclose(many.mean[i], alone.mean[0], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(many.std[i], alone.std[0], rtol=1e-4)
    np.testing.assert_allclose(same.mean[0], many.mean[0], rtol=1e-7, atol=1e-9)
    assert np.abs(same.mean[1] - many.mean[1]).max() > 1e-3


@pytest.mark.parametrize("rows", [1, 5, 80])
def test_filtered_context_agrees_with_its_rows(rows):
    model, X = made("given"), controls()[0]
    start = model.start(CONTEXTS[rows])
    for _ in range(2):  # as often as it is asked
        one, other = (model.forecast(12, context, X) for context in (start, CONTEXTS[rows]))
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
        np.testing.assert_allclose(one.joint, other.joint, rtol=1e-9, atol=1e-15)


def test_lagged_covariances_agree_with_the_joint_covariance():
    model, U = made("static"), controls()
    result = model.rollout(U, model.start(CONTEXTS[80]))
    joint = model.forecast(12, CONTEXTS[80], U[1], joint=True).joint.reshape(12, 4, 12, 4)
    std = result.std[1]
    for k in range(11):
        scale = np.outer(std[k + 1], std[k])
        np.testing.assert_allclose(result.lagged[1, k] / scale, joint[k + 1, :, k] / scale, atol=0.02)


@pytest.mark.parametrize("rows", [1, 5])
def test_uncertain_context_widens_the_rollout(rows):
    model, U = made("static"), controls(B=3)
    y, X = CONTEXTS[rows]
    uncertain = Gaussian(y, var=np.broadcast_to([1e-4, 1e-4, 1e-3, 1e-3], y.shape))
    result = model.rollout(U, model.start((uncertain, X)))
    certain = model.rollout(U, model.start((y, X)))
    assert (result.std[:, 0] > 1.5 * certain.std[:, 0]).all()
    forecast = model.forecast(12, (uncertain, X), U[2])
    np.testing.assert_allclose(result.std[2], forecast.std, rtol=0.01)
    assert np.abs((result.mean[2] - forecast.mean) / forecast.std).max() < 0.01


def test_missing_value_in_the_context_agrees_with_forecast():
    model, U = made("static"), controls(B=2)
    y, X = (part.copy() for part in CONTEXTS[5])
    y[2, 1], y[-1, 2] = np.nan, np.nan
    forecast = model.forecast(12, (y, X), U[1])
    result = model.rollout(U, model.start((y, X)))
    np.testing.assert_allclose(result.std[1], forecast.std, rtol=0.05)
    assert np.abs((result.mean[1] - forecast.mean) / forecast.std).max() < 0.05


@pytest.mark.parametrize("name", ["given", "static", "lags", "no units"])
def test_step_agrees_with_a_one_step_forecast(name):
    model = made(name)
    states, U = RUNS.states[50:60], RUNS.inputs[50:60]
    after = model.step(states, U)
    assert after.shape == (10, 4)
    for i in (0, 9):
        forecast = model.forecast(1, states[i : i + 1], U[i : i + 1])
        assert np.abs((after[i] - forecast.mean[0]) / forecast.std[0]).max() < 0.01
    assert np.abs(after - RUNS.states[51:61]).max() < 0.05


@pytest.mark.parametrize(("call", "message"), [
    (lambda m: m.rollout(np.zeros((3, 5, 2))), r"controls must have shape \(sequences, steps, 1\)"),
    (lambda m: m.rollout(np.full((3, 5, 1), np.nan)), "controls must be finite"),
    (lambda m: m.rollout(np.full((3, 5, 1), 1e200)), "controls must lie within"),
    (lambda m: m.rollout(controls(), covariance="dense"), "covariance must be one of .* got 'dense'"),
    (lambda m: m.rollout(controls(), rank=0), "rank must be 1 or more, got 0"),
    (lambda m: m.rollout(controls(), RUNS.states[:3]), r"start must be what start\(context\) gave, .* ndarray"),
    (lambda m: m.rollout(controls(), made("static").start()), r"start must be what start\(\) of this forecaster"),
    (lambda m: m.rollout(controls(B=2), m.start(np.zeros((3, 1, 4)))), "controls must be as many as start has"),
    (lambda m: m.forecast(5, m.start(np.zeros((3, 1, 4))), np.zeros((5, 1))), "context must be one, got a start of 3"),
    (lambda m: m.start((np.zeros((3, 4, 4)), np.zeros((3, 2, 1)))), r"X of context must have shape \(3, 3, 1\)"),
    (lambda m: m.start(np.zeros((3, 2, 4))), r"context must be \(y, X\) with X of shape \(3, 1, 1\), got y alone"),
    (lambda m: m.start((np.zeros((3, 1, 4)), None, None)), r"context must be y or \(y, X\), got a tuple of 3"),
    (lambda m: m.linearize(np.zeros(3), [0.0]), r"state must have shape \(4,\), got \(3,\)"),
    (lambda m: m.step(np.zeros(4), np.zeros(1)), r"states must have shape \(states, 4\), got \(4,\)"),
    (lambda m: m.step(np.zeros((3, 4)), np.zeros((2, 1))), r"controls must have shape \(3, 1\)"),
])  # fmt: skip
def test_invalid_rollouts_are_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(made("given"))


def test_frames_in_another_order_are_refused_by_name():
    y = pd.DataFrame(RUNS.states, columns=["x", "theta", "v", "omega"])
    X = pd.DataFrame({"force": RUNS.inputs[:, 0], "wind": np.roll(RUNS.inputs[:, 0], 5)})
    model = Forecaster(ProbabilisticESN(15, washout="auto", random_state=0)).fit(y, X, lengths=RUNS.lengths)
    state, control = y.iloc[3:5], X.iloc[3:5]
    assert model.rollout(X.iloc[:4]).names == ("x", "theta", "v", "omega")
    np.testing.assert_array_equal(model.step(state, control), model.step(state.values, control.values))
    for one, many in zip(model.linearize(state.iloc[0], control.iloc[0]), model.linearize(state, control), strict=True):
        np.testing.assert_allclose(one, many[0])
    turned, swapped = state[["theta", "x", "v", "omega"]], control[["wind", "force"]]
    for call, name in (
        (lambda: model.step(turned, control), "states"),
        (lambda: model.step(state, swapped), "controls"),
        (lambda: model.linearize(turned, control), "state"),
        (lambda: model.linearize(turned.iloc[0], control.iloc[0]), "state"),
        (lambda: model.linearize(state.iloc[0], swapped.iloc[0]), "control"),
        (lambda: model.rollout(swapped), "controls"),
    ):
        with pytest.raises(ValueError, match=f"^{name} must have the columns"):
            call()


@pytest.mark.parametrize("covariance", ["none", "diagonal", "low-rank", "full"])
@pytest.mark.parametrize("form", ["diagonal", "low-rank", "full"])
def test_products_agree_in_every_form(form, covariance):
    """The diagonal form has more squares and another layout."""
    model, U = with_products(form), controls(B=2, H=4)
    for start, context in ((None, None), (model.start(CONTEXTS[80]), CONTEXTS[80])):
        result = model.rollout(U, start, covariance)
        forecast = model.forecast(4, context, U[1])
        assert np.abs((result.mean[1] - forecast.mean) / forecast.std).max() < 0.05


def test_context_of_a_model_in_other_units_is_refused():
    """Rows in other units lead to the same weights."""
    y = np.sin(0.2 * np.arange(200.0))[:, None]
    one, twice = (Forecaster(ProbabilisticESN(15, washout=20, random_state=0)).fit(k * y) for k in (1.0, 2.0))
    np.testing.assert_array_equal(one.esn_.readout_.weights, twice.esn_.readout_.weights)
    with pytest.raises(ValueError, match=r"start must be what start\(\) of this forecaster"):
        twice.rollout(np.zeros((5, 0)), one.start())


def test_filtered_context_is_invalid_after_an_update():
    model = fitted()
    start = model.start(CONTEXTS[5])
    model.update(RUNS.states[:3], RUNS.inputs[:3])
    with pytest.raises(ValueError, match="since its last fit or update"):
        model.rollout(controls(), start)
