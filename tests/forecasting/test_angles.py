"""Periodic and ignorable coordinates: forecasts do not depend on full turns of angles or on the position of ignorable columns,
in all forms and from all contexts; missing or uncertain ones agree with samples.
"""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from sklearn.base import clone

from pesn import Features, Forecaster, Gaussian, ProbabilisticESN
from pesn.forecasting.dataset import check_encoding
from pesn.statespace.ensemble import Draws, Ensemble
from pesn.statespace.model import rollout

DT, TURN = 0.1, 2.0 * np.pi
NAMES = ["place", "angle", "speed"]


def pendulum(n, seed=0):
    """Simulate a driven pendulum that sometimes rotates; its position is the integral of its speed."""
    rng = np.random.default_rng(seed)
    y, u, force = np.zeros((n, 3)), np.zeros((n, 1)), 0.0
    place, angle, speed = 0.0, 0.1, 0.0
    for k in range(n):
        force = rng.uniform(-8.0, 8.0) if k % 10 == 0 else force
        y[k], u[k] = (place, angle, speed), force
        for _ in range(10):
            speed += 0.1 * DT * (-9.81 * np.sin(angle) - 0.4 * speed + force)
            angle, place = angle + 0.1 * DT * speed, place + 0.02 * DT * speed
    return y, u


ALL, ALL_U = pendulum(400)
Y, U = ALL[:320], ALL_U[:320]
LATER, LATER_U = pendulum(220, seed=1)


def network(form="full", n_units=40, **more):
    fast = {"spectral_radius": 0.2, "leak_rate": 1.0, "input_scaling": 1.0, "bias_scaling": 1.0, "ridge": 1e-5, "washout": 5}
    about = {"random_state": 0, "process_noise": 0.0, "covariance": form, "rank": 12, "n_members": 400}
    return ProbabilisticESN(n_units, **{**fast, **about, **more})


def forecaster(form="full", angles=(1,), ignorable=(0,), calibrate=False, target="change", kinematic=False, noise=None, **more):
    """Return a forecaster of the pendulum whose angle is learned or kinematic."""
    about = {"angles": angles, "ignorable": ignorable, "calibrate": calibrate, "target": target, "measurement_noise": noise}
    if kinematic:
        half = 0.5 * DT * np.array([[0.2], [1.0]])
        about |= {"learn": [2], "kinematics": (np.hstack([np.eye(2), half]), half, np.zeros(2))}
    return Forecaster(network(form, **more), **about)


@pytest.fixture(scope="module")
def model():
    return forecaster().fit(Y, U)


@pytest.fixture(scope="module")
def remembering():
    """Fit a low-rank network with lags, products and measurement noise."""
    return forecaster("low-rank", features=Features(1, 1), kinematic=True, noise=[0.01, 0.02, 0.05]).fit(Y, U)


def errors(model):
    found = model.backtest(LATER, LATER_U, 20, 12)
    return np.abs(found.mean - found.observed)[..., 1:].mean(axis=(0, 1))


# ---------------------------------------------------------------- what it is for


def test_angles_make_a_rotating_pendulum_predictable(model):
    assert np.ptp(LATER[:, 1]) > 1.5 * TURN
    raw = forecaster(angles=(), ignorable=()).fit(Y, U)
    found = errors(model)
    assert np.all(found < 0.1 * errors(raw))
    assert found[0] < 0.2


def test_automatic_design_uses_angles_and_ignorable_columns():
    frame, X = pd.DataFrame(Y, columns=NAMES), U
    fitted = Forecaster(angles="angle", ignorable=["place"]).fit(frame, X)
    assert fitted.esn_.n_features_in_ == 4  # speed, sine, cosine and the force
    assert errors(fitted)[0] < 0.1
    found = fitted.backtest(pd.DataFrame(LATER, columns=NAMES), LATER_U, 20, 12)
    assert 0.8 < found.coverage(0.95) <= 1.0


# ---------------------------------------------------------------- invariances


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal", "ensemble"])
def test_forecasts_are_invariant_to_turns_and_positions(form):
    model = forecaster(form).fit(Y, U)
    for rows in (1, 3, 60):
        check_invariance(model, LATER[50 : 50 + rows], LATER_U[50 : 49 + rows])


@pytest.mark.parametrize("context", [1, 4, 60, "gaps", "uncertain"])
def test_forecasts_with_lags_and_products_are_invariant_too(remembering, context):
    rows = context if isinstance(context, int) else 6
    y, u = LATER[50 : 50 + rows].copy(), LATER_U[50 : 49 + rows]
    if context == "gaps":
        y[0, 2], y[2, 1], y[3] = np.nan, np.nan, np.nan
    check_invariance(remembering, y, u, 0.01 if context == "uncertain" else None)


def check_invariance(model, y, u, var=None):
    shift, X = np.array([1000.0, 40 * TURN, 0.0]), LATER_U[:12]
    given = [part if var is None else Gaussian(part, var=np.full(part.shape, var)) for part in (y, y + shift)]
    one, other = (model.forecast(12, (part, u), X) for part in given)
    size = one.std.max(axis=0)
    np.testing.assert_allclose((other.mean - shift) / size, one.mean / size, rtol=0, atol=1e-6)
    np.testing.assert_allclose(other.std / size, one.std / size, rtol=0, atol=1e-6)


def test_wrapped_angles_give_the_same_forecasts():
    """In fit, context, update and backtest."""
    wrapped, later = Y.copy(), LATER.copy()
    for rows in (wrapped, later):
        rows[:, 1] = np.angle(np.exp(1j * rows[:, 1]))
        assert np.abs(np.diff(rows[:, 1])).max() > 3.2
    one, other = forecaster().fit(Y, U), forecaster().fit(wrapped, U)
    for context, theirs in ((None, None), ((LATER[40:90], LATER_U[40:89]), (later[40:90], LATER_U[40:89]))):
        found, expected = other.forecast(5, theirs, U[:5]), one.forecast(5, context, U[:5])
        turns = (found.mean[:, 1] - expected.mean[:, 1]) / TURN
        np.testing.assert_allclose(turns, np.round(turns[0]), atol=1e-6)
        np.testing.assert_allclose(found.std, expected.std, rtol=1e-6)
    found, expected = (each.backtest(rows, LATER_U, 8, 5) for each, rows in ((other, later), (one, LATER)))
    np.testing.assert_allclose(found.mean - found.observed, expected.mean - expected.observed, atol=1e-5)
    gap = ALL[320:].copy()
    gap[20:22] = np.nan
    seen = gap.copy()
    seen[:, 1] = np.angle(np.exp(1j * seen[:, 1]))
    for first, last in itertools.pairwise([0, 20, 21, 50, 80]):  # in pieces, one of them a gap alone
        for each, rows in ((one, gap), (other, seen)):
            each.update(rows[first:last], ALL_U[320 + first : 320 + last])
    found, expected = (each.forecast(5, X=U[:5]) for each in (other, one))
    turns = (found.mean[:, 1] - expected.mean[:, 1]) / TURN
    np.testing.assert_allclose(turns, np.round(turns[0]), atol=1e-5)
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-4)


# ---------------------------------------------------------------- uncertainty


def by_members(model, context, X, n=8000):
    """Compute means and standard deviations with an ensemble from the initial Gaussian."""
    futures, _ = model.model_._futures(len(X), context, X, ("state", "noise", "weights"))
    start = Ensemble(futures.state.sample(n, np.random.default_rng(0)), futures.state.carried, Draws(0))
    path = rollout(futures.loop.model, start, futures.inputs, moved=True)
    return model.scale_.undo(path.mean), np.sqrt(np.diagonal(path.cov, axis1=-2, axis2=-1)) * model.scale_.y_std


@pytest.mark.parametrize("form", ["full", "low-rank"])
@pytest.mark.parametrize("features", [Features(), Features(1, 1)], ids=["plain", "lags and products"])
def test_closed_form_agrees_with_an_ensemble(form, features):
    model = forecaster(form, features=features).fit(Y, U)
    context = Gaussian(LATER[30], var=[0.01, 0.1**2, 0.1**2])
    found = model.forecast(8, context, LATER_U[30:38])
    mean, std = by_members(model, context, LATER_U[30:38])
    np.testing.assert_allclose(found.std, std, rtol=0.05)
    np.testing.assert_allclose((found.mean - mean) / std, 0.0, atol=0.1)


@pytest.mark.parametrize("missing", [False, True], ids=["uncertain", "missing"])
@pytest.mark.parametrize("start", ["learned", "stationary"])
def test_uncertain_angle_agrees_with_forecasts_from_its_samples(missing, start):
    """A missing angle is drawn from its training distribution."""
    model = forecaster(spectral_radius=1e-9, washout=1, initial_state=start, n_units=25).fit(Y, U)
    row, X = LATER[30].copy(), LATER_U[30:31]
    mean, std = (row[1], 0.6) if not missing else (Y[:, 1].mean(), Y[:, 1].std())
    if missing:
        row[1] = np.nan
        found = model.forecast(1, row[None], X)
    else:
        found = model.forecast(1, Gaussian(row, var=[0.0, std**2, 0.0]), X)
    draws = mean + std * ndtri((np.arange(100) + 0.5) / 100.0)
    ones = [model.forecast(1, np.array([[row[0], one, row[2]]]), X, joint=False) for one in draws]
    means = np.array([one.mean[0] for one in ones])
    expected = np.sqrt(means.var(axis=0) + np.mean([one.var[0] for one in ones], axis=0))
    np.testing.assert_allclose(found.std[0], expected, rtol=0.12)
    np.testing.assert_allclose((found.mean[0] - means.mean(axis=0)) / expected, 0.0, atol=0.15)


def test_missing_columns_do_not_affect_the_others(model):
    row = LATER[30:31].copy()
    row[0, 0] = np.nan
    one, other = (model.forecast(6, context, LATER_U[30:36]) for context in (row, LATER[30:31]))
    np.testing.assert_allclose(one.mean[:, 1:], other.mean[:, 1:], rtol=1e-9)
    np.testing.assert_allclose(one.std[:, 1:], other.std[:, 1:], rtol=1e-6)
    assert np.all(one.std[:, 0] >= 0.9 * Y[:, 0].std())
    # missing speed is uncertain and the angle stays known
    row = LATER[30:31].copy()
    row[0, 2] = np.nan
    one, other = (model.forecast(1, context, LATER_U[30:31]) for context in (row, LATER[30:31]))
    assert one.std[0, 2] > 0.5 * Y[:, 2].std()
    assert np.abs(one.mean[0, 1] - LATER[30, 1]) < 2.0 * DT * np.abs(Y[:, 2]).max()
    assert other.std[0, 2] < 0.1 * one.std[0, 2]


# ---------------------------------------------------------------- roll-outs


@pytest.mark.parametrize("features", [Features(), Features(1, 1)], ids=["plain", "lags and products"])
def test_rollouts_of_angles_agree_with_forecasts(features):
    """From one row and from many, with wrapped angles and full turns."""
    model = forecaster(features=features).fit(Y, U)
    controls = np.stack([LATER_U[30:40], LATER_U[60:70], 0.0 * LATER_U[:10]])
    for y, u in ((LATER[30:31], None), (LATER[:31], LATER_U[:30])):
        alone = [model.forecast(10, (y, u) if u is not None else y, X) for X in controls]
        start = model.start((y, u) if u is not None else y)
        turned = np.stack([y + np.array([place, turn * TURN, 0.0]) for place, turn in ((0.0, 0), (7.0, 3), (-5.0, -40))])
        wrapped = turned[:1].copy()
        wrapped[..., 1] = np.angle(np.exp(1j * wrapped[..., 1]))
        batch = np.concatenate([wrapped, turned[1:]])
        many = model.start(batch if u is None else (batch, np.stack([u, u, u])))
        whole = model.rollout(controls, start, "full")
        for covariance in ("none", "low-rank", "full"):
            one, other = model.rollout(controls, start, covariance), model.rollout(controls, many, covariance)
            shift = other.mean[:, :1] - one.mean[:, :1]
            np.testing.assert_allclose(shift[..., 2], 0.0, atol=1e-6)
            np.testing.assert_allclose(shift[..., 1] / TURN, np.round(shift[..., 1] / TURN), atol=1e-6)
            size = np.stack([ahead.std for ahead in alone])
            np.testing.assert_allclose((other.mean - shift - one.mean) / size, 0.0, atol=1e-4)
            expected = np.stack([ahead.mean for ahead in alone])
            np.testing.assert_allclose((one.mean - expected) / size, 0.0, atol=0.05)
            if covariance != "none":
                np.testing.assert_allclose(other.std, one.std, rtol=1e-5)
                np.testing.assert_allclose(one.std, whole.std, rtol=0.03)


# ---------------------------------------------------------------- the rest of a forecaster


def test_angles_are_saved_loaded_and_updated(remembering, tmp_path, save_and_load):
    model = copy.deepcopy(remembering)
    again = save_and_load(model)
    assert again.get_params()["angles"] == (1,)
    np.testing.assert_array_equal(again.model_.columns.ignorable, [0])
    for each in (model, again):
        each.update(LATER[:30], LATER_U[:30])
    one, other = (each.forecast(5, X=U[:5]) for each in (model, again))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.cov, other.cov)
    fresh = clone(again)
    assert (fresh.angles, fresh.ignorable) == ((1,), (0,))
    assert not hasattr(fresh, "model_")
    again.model_ = replace(again.model_, columns=again.model_.columns._replace(angles=np.array([0])))
    with pytest.raises(ValueError, match="angles and ignorable are not different"):
        again.save(tmp_path / "b")


def test_columns_may_be_given_by_name_or_number():
    for given in ((["angle"], ["place"]), ("angle", "place"), (1, 0), (np.array([1]), (np.int64(0),)), ([1], ["place"])):
        np.testing.assert_array_equal(check_encoding(*given, 3, 1, NAMES), [[1], [0]])
    for nothing in ((), [], None, np.zeros(0, int)):
        assert np.size(check_encoding(nothing, nothing, 3, 1, NAMES)) == 0


@pytest.mark.parametrize(("angles", "ignorable", "words"), [
    (["angel"], (), "angles must name columns of y, which are place, angle, speed, got 'angel'"),
    ([3], (), r"angles must name columns 0 … 2 of y, got \[3\]"), ((), [0, 0], "ignorable must be a list of different columns"),
    ({"angle": 1}, [1], "angles and ignorable must not have a column in common, got 'angle' in both"),
], ids=repr)  # fmt: skip
def test_invalid_columns_are_refused_by_name(angles, ignorable, words):
    model = forecaster(angles=angles, ignorable=ignorable)
    with pytest.raises(ValueError, match=words):
        model.fit(pd.DataFrame(Y, columns=NAMES), U)
    assert not hasattr(model, "model_")


def test_a_network_without_input_and_the_level_of_an_angle_are_refused():
    with pytest.raises(ValueError, match=r"ignorable must leave a column of y .* no X, got all 3"):
        forecaster(angles=(), ignorable=[0, 1, 2]).fit(Y)
    driven = forecaster(angles=(), ignorable=[0, 1, 2], n_units=10).fit(Y, U)
    assert driven.esn_.n_features_in_ == 1
    assert np.isfinite(driven.forecast(5, X=U[:5]).std).all()
    # level of an angle cannot be learned
    with pytest.raises(ValueError, match="target must be 'change' where angles are learned"):
        forecaster(target="level").fit(Y, U)
    kinematic = forecaster(target="level", kinematic=True).fit(Y, U)
    assert errors(kinematic)[0] < 0.3
