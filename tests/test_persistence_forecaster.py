"""Files of forecasters.

A saved, pickled or copied forecaster forecasts the same numbers to the bit and continues to learn as the original; a file with
missing, foreign or inconsistent parts is a ValueError.
"""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from pesn import EchoStateNetwork, Forecaster, ProbabilisticESN, load, persistence
from pesn.forecasting.dataset import Scale
from pesn.forecasting.time_index import TimeIndex

T = np.arange(300.0)
SERIES = np.column_stack([np.sin(0.2 * T), np.cos(0.31 * T), np.cumsum(0.1 * np.sin(0.2 * T))])
KNOWN = np.sin(0.11 * T)[:, None]
KINEMATICS = np.array([[0.0, 0.0, 1.0]]), np.array([[0.1, 0.0]]), np.zeros(1)


def forecaster(covariance="full", feedback=0.0):
    options = {"density": 0.3, "rank": 8, "washout": 30, "random_state": 0, "process_noise": 1e-4}
    network = ProbabilisticESN(16, feedback_scaling=feedback, covariance=covariance, **options)
    return Forecaster(network, learn=[0, 1], kinematics=KINEMATICS, calibrate=False)


def same_forecast(one, other, horizon=5):
    for context in (None, (SERIES[100:110], KNOWN[100:109])):
        expected, found = (model.forecast(horizon, context, KNOWN[:horizon]) for model in (one, other))
        np.testing.assert_array_equal(found.mean, expected.mean)
        np.testing.assert_array_equal(found.cov, expected.cov)
        np.testing.assert_array_equal(found.sample(3, rng=0), expected.sample(3, rng=0))


@pytest.mark.parametrize(
    ("covariance", "feedback", "horizon"), [("full", 0.0, 5), ("full", 0.1, 5), ("low-rank", 0.1, 5), ("diagonal", 0.0, 1)]
)
def test_round_trip_is_exact(covariance, feedback, horizon, tmp_path):
    model = forecaster(covariance, feedback)
    model.save(tmp_path / "new")
    assert not hasattr(load(tmp_path / "new"), "esn_")
    frame = pd.DataFrame(SERIES[:250], columns=["a", "b", "c"])
    model.fit(frame, KNOWN[:250]).save(tmp_path / "a")
    again = load(tmp_path / "a")
    assert type(again) is Forecaster
    assert set(vars(again)) == set(vars(model))
    assert type(again.model_.state) is type(model.model_.state)
    assert again.names_ == ["a", "b", "c"]
    for found, expected in zip(again.kinematics, model.kinematics, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert again.esn.get_params() == model.esn.get_params()
    same_forecast(model, again, horizon)
    gap = SERIES[250:270].copy()
    gap[7, 0] = np.nan
    copies = [again, copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for each in (model, *copies):
        each.update(gap, KNOWN[250:270])
    for other in copies:
        same_forecast(model, other, horizon)
    again.save(tmp_path / "b")  # with an online learner inside, and a gap among the last rows
    same_forecast(model, load(tmp_path / "b"), horizon)
    fresh = clone(again)
    assert not hasattr(fresh, "esn_")
    same_forecast(fresh.fit(frame, KNOWN[:250]), load(tmp_path / "a"), horizon)


def test_minimal_forecaster_is_saved(save_and_load):
    model = Forecaster().fit(SERIES[:, 0])
    again = save_and_load(model)
    assert (again.esn, again.get_params()) == ("auto", model.get_params())
    expected, found = (m.forecast(10, SERIES[5:9, 0]) for m in (model, again))
    np.testing.assert_array_equal(found.cov, expected.cov)
    np.testing.assert_array_equal(again.calibration_, model.calibration_)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.pesn"
    forecaster("low-rank", 0.1).fit(SERIES, KNOWN).save(path)
    return path


def changed(**parts):
    """Return a function that replaces fields of the model; a callable computes a field from the old one."""

    def change(forecaster):
        model = forecaster.model_
        found = {name: part(getattr(model, name)) if callable(part) else part for name, part in parts.items()}
        forecaster.model_ = replace(model, **found)

    return change


def columns(**parts):
    return changed(columns=lambda old: old._replace(**parts))


def state(**parts):
    return changed(state=lambda old: replace(old, **parts))


def network(**parts):
    """Return a function that replaces fitted attributes of the network inside."""
    return lambda model: [setattr(model.esn_, name, part) for name, part in parts.items()]


X, Y = SERIES[:, :2], SERIES[:, 2]
ONES = Scale(np.ones(3), np.ones(3), np.ones(1), np.ones(1))
TAMPERED = {
    "columns": (columns(learned=np.array([0, 0])), "are not different ones of the 3 columns"),
    "another network": (changed(esn=ProbabilisticESN(15).fit(X, Y)), "model_.esn is not a network of these columns"),
    "no network": (changed(esn=EchoStateNetwork(15).fit(X, Y)), "model_.esn is a EchoStateNetwork"),
    "tampered inside": (network(washout_=-3), "washout_ is -3"),
    "start gone inside": (network(start_=None), "model_.esn is not a network"),
    "parameter": (lambda f: setattr(f, "esn", [1]), "esn is a list"),
    "scale": (columns(scale=ONES._replace(y_std=np.zeros(3))), "scale.y_std is not positive"),
    "calibration": (changed(calibration=np.ones(3)), "calibration must be an array"),
    "errors": (changed(errors=lambda old: old._replace(cov=-np.eye(3))), "errors.cov is not a covariance"),
    "kinematics": (columns(kinematics=KINEMATICS[:2]), "2 parts of kinematics"),
    "target": (columns(target="both"), "target 'both'"),
    "names": (columns(names=["a"]), "names is not a list of 3 names"),
    "no time": (changed(time=("dates", "2024")), "time is a tuple"),
    "time's kind": (changed(time=TimeIndex("years", 1, "YS")), "time goes on by 'YS' years"),
    "time's step": (changed(time=TimeIndex("numbers", 3, -1)), "time goes on by -1 numbers"),
    "recent": (changed(recent=np.zeros((0, 3))), "recent is empty"),
    "state's size": (state(carried=3), "state is not about these columns"),
    "state's mean": (state(mean=np.zeros(3)), "state.mean is not a finite array"),
    "state's own": (state(own=np.full(16, -1.0)), "state.own must not be negative"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_tampered_forecaster_does_not_load(what, saved, tmp_path, monkeypatch):
    change, message = TAMPERED[what]
    model = load(saved)
    change(model)
    with monkeypatch.context() as patched:  # as save does, without its look at the model
        patched.setattr(persistence, "check_model", lambda model: None)
        model.save(tmp_path / "odd")
    with pytest.raises(ValueError, match=f"odd is damaged: .*{message}"):
        load(tmp_path / "odd")
