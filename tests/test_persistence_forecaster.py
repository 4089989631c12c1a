"""Files of forecasters.

Claims: a forecaster that was saved, pickled or copied forecasts the same numbers to the bit and learns on as the original does;
a file in which anything is missing, foreign or does not fit is one ValueError.
"""

import copy
import dataclasses
import io
import json
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from pesn import persistence
from pesn._support.files import digest
from pesn.esn.network import EchoStateNetwork
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.forecasting.forecaster import Forecaster
from pesn.forecasting.time_index import TimeIndex
from pesn.persistence import load

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
def test_there_and_back(covariance, feedback, horizon, tmp_path):
    model = forecaster(covariance, feedback)
    model.save(tmp_path / "new")
    assert not hasattr(load(tmp_path / "new"), "esn_")
    frame = pd.DataFrame(SERIES[:250], columns=["a", "b", "c"])
    model.fit(frame, KNOWN[:250]).save(tmp_path / "a")
    again = load(tmp_path / "a")
    assert type(again) is Forecaster
    assert set(vars(again)) == set(vars(model))
    assert type(again._state) is type(model._state)
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


def test_the_plainest_forecaster(tmp_path):
    model = Forecaster().fit(SERIES[:, 0])
    model.save(tmp_path / "a")
    again = load(tmp_path / "a")
    assert again.esn == "auto"
    assert again.get_params() == model.get_params()
    expected, found = (m.forecast(10, SERIES[5:9, 0]) for m in (model, again))
    np.testing.assert_array_equal(found.cov, expected.cov)
    np.testing.assert_array_equal(again.calibration_, model.calibration_)


def test_numpy_scalars_as_parameters_of_the_network_inside(tmp_path):
    network = ProbabilisticESN(np.int64(16), density=np.float64(0.3), washout=np.int32(20), process_noise=np.float32(0.0))
    model = Forecaster(network, calibrate=False).fit(SERIES)
    model.save(tmp_path / "a")
    assert load(tmp_path / "a").esn.get_params() == network.get_params()
    assert type(network.n_units) is np.int64


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.pesn"
    forecaster("low-rank", 0.1).fit(SERIES, KNOWN).save(path)
    return path


def attempt(path):
    """The model and nothing, or nothing and the ValueError."""
    try:
        return load(path), None
    except ValueError as error:
        return None, error


def test_arrays_that_do_not_fit_together_never_reach_a_kernel(saved, tmp_path):
    """Every array of the file in turn: shorter, of another type, or with an index beyond the end."""
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    arrays = [name for name in members if name.endswith(".npy")]
    manifest = json.loads(members.pop("pesn.json"))
    refused = set()
    for name in arrays:
        original = np.load(io.BytesIO(members[name]))
        for changed in (original[:-1], original.astype(np.float16), np.full_like(original, 2**31)):
            buffer = io.BytesIO()
            np.save(buffer, changed)
            with zipfile.ZipFile(tmp_path / "odd", "w") as archive:
                for member, data in members.items():
                    archive.writestr(member, buffer.getvalue() if member == name else data)
                archive.writestr("pesn.json", json.dumps({**manifest, "sha256": digest(archive)}))
            found, refusal = attempt(tmp_path / "odd")
            if refusal is None:
                assert found.forecast(2, X=KNOWN[:2]).mean.shape == (2, 3)
            else:
                assert "odd is damaged" in str(refusal)
                refused.add(name)
    assert len(set(arrays) - refused) <= 3  # the parameter kinematics, which only fit reads


def replaced(name, **parts):
    return lambda model: setattr(model, name, getattr(model, name)._replace(**parts))


def state(**parts):
    return lambda model: setattr(model, "_state", dataclasses.replace(model._state, **parts))


def network(**parts):
    """Something in place of what the network inside has learnt."""
    return lambda model: [setattr(model.esn_, name, part) for name, part in parts.items()]


X, Y = SERIES[:, :2], SERIES[:, 2]
TAMPERED = {
    "columns": (lambda f: setattr(f, "learned_columns_", np.array([0, 0])), "are not the 3 columns"),
    "columns beyond": (lambda f: setattr(f, "kinematic_columns_", np.array([7])), "are not the 3 columns"),
    "another network": (lambda f: setattr(f, "esn_", ProbabilisticESN(15).fit(X, Y)), "esn_ is not a network of these columns"),
    "no network": (lambda f: setattr(f, "esn_", EchoStateNetwork(15).fit(X, Y)), "esn_ is a EchoStateNetwork"),
    "not fitted": (lambda f: setattr(f, "esn_", ProbabilisticESN(5)), "esn_ is not a network"),
    "network gone": (lambda f: delattr(f, "esn_"), "attributes are not those of a Forecaster: esn_"),
    "tampered inside": (network(washout_=-3), "washout_ is -3"),
    "foreign inside": (network(note_=3), "attributes are not those of a ProbabilisticESN: note_"),
    "start gone inside": (network(start_=None), "esn_ is not a network"),
    "parameter": (lambda f: setattr(f, "esn", [1]), "esn is a list"),
    "scale": (replaced("scale_", y_std=np.zeros(3)), "scale_.y_std is not positive"),
    "scale of X": (replaced("scale_", x_mean=np.zeros(3)), "scale_.x_mean is not a finite array"),
    "calibration": (lambda f: setattr(f, "calibration_", np.ones(3)), "calibration_ is not a finite array"),
    "errors": (replaced("errors_", cov=-np.eye(3)), "errors_.cov is not a covariance"),
    "persistence": (replaced("errors_", persistence=np.full(3, 2.0)), "errors_.persistence is beyond 1"),
    "kinematics": (lambda f: setattr(f, "kinematics_", f.kinematics_[:2]), "kinematics_ has 2 parts"),
    "target": (lambda f: setattr(f, "target_", "both"), "target_ is 'both'"),
    "names": (lambda f: setattr(f, "names_", ["a"]), "names_ is not a list of 3 names"),
    "names of X": (lambda f: setattr(f, "known_names_", ["a", "b"]), "known_names_ is not a list of 1 names"),
    "no time": (lambda f: setattr(f, "_time", ("dates", "2024")), "_time is a tuple"),
    "time's kind": (lambda f: setattr(f, "_time", TimeIndex("years", 1, "YS")), "_time goes on by 'YS' years"),
    "time's parts": (lambda f: setattr(f, "_time", TimeIndex("dates", 2024, "D")), "_time is not of texts and numbers"),
    "time's step": (lambda f: setattr(f, "_time", TimeIndex("numbers", 3, -1)), "_time goes on by -1 numbers"),
    "time's date": (lambda f: setattr(f, "_time", TimeIndex("dates", "soon", "D")), ""),
    "time's rule": (lambda f: setattr(f, "_time", TimeIndex("dates", "2024-01-01", "fortnight")), ""),
    "recent": (lambda f: setattr(f, "_recent", np.zeros((0, 3))), "_recent is empty"),
    "recent infinite": (lambda f: setattr(f, "_recent", np.full((2, 3), np.inf)), "_recent is not a finite array"),
    "no state": (lambda f: setattr(f, "_state", None), "_state is a NoneType"),
    "state's size": (state(carried=3), "_state is not about these columns"),
    "state's mean": (state(mean=np.zeros(3)), "_state.mean is not a finite array"),
    "state's own": (state(own=np.full(16, -1.0)), "_state.own must not be negative"),
    "state's factor": (state(factor=np.zeros(4)), "_state.factor is not a finite array"),
    "method covered": (lambda f: setattr(f, "forecast", 5), "attributes are not those of a Forecaster: forecast"),
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
