"""Files of networks.

A saved network predicts the same numbers to the bit, also after online learning, with its parameters and names; writing is
atomic; no code of a file runs when it is read; a truncated, foreign, changed or unknown file is a ValueError, never a crash in a
kernel.
"""

import copy
import io
import json
import os
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from pesn import EchoStateNetwork, Features, Forecaster, Gaussian, Mesh, ProbabilisticESN, load, persistence
from pesn._support.files import digest

BOTH = pytest.mark.parametrize("network", [EchoStateNetwork, ProbabilisticESN])
X = np.sin(np.arange(300.0)[:, None] * [0.1, 0.23])
Y = X[:, :1] * np.roll(X[:, 1:], 1)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Return paths of a saved network, probabilistic network and forecaster."""
    network = ProbabilisticESN(16, density=0.3, covariance="low-rank", rank=8, feedback_scaling=0.1, washout=30, random_state=0)
    kinematics = np.array([[0.0, 1.0]]), np.array([[0.1]]), np.zeros(1)
    probable = ProbabilisticESN(10, density=0.5, feedback_scaling=0.1, noise=0.01, random_state=0)
    models = {
        "saved": EchoStateNetwork(15, feedback_scaling=0.1, random_state=0).fit(X, Y).partial_fit(X, Y),
        "probable": probable.fit(X[:80], Y[:80]),
        "forecaster": Forecaster(network, learn=[0], kinematics=kinematics, calibrate=False).fit(X, Y),
    }
    found = {kind: tmp_path_factory.mktemp("models") / "model.pesn" for kind in models}
    for kind, model in models.items():
        model.save(found[kind])
    return found


@pytest.fixture(scope="module")
def saved(paths):
    return paths["saved"]


def rewrite(path, target, change, resign=True):
    """Write the archive with its members changed by ``change(dict of name to bytes)``, and with a valid digest."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    manifest = members.pop("pesn.json", None)
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        if manifest is not None:
            content = json.loads(manifest)
            if resign:
                content["sha256"] = digest(archive)
            archive.writestr("pesn.json", json.dumps(content))


def attempt(path):
    """Return (model, None) or (None, ValueError)."""
    try:
        return load(path), None
    except ValueError as error:
        return None, error


# ---------------------------------------------------------------- there and back


@BOTH
@pytest.mark.parametrize("learned", ["fit", "fit and partial_fit", "partial_fit", "nothing"])
def test_round_trip_is_exact(network, learned, tmp_path):
    esn = network(15, feedback_scaling=0.1, noise=1e-3, washout=3, leak_rate=0.3, random_state=7)
    if learned.startswith("fit"):
        esn.fit(X[:200], Y[:200])
    if learned.endswith("partial_fit"):
        esn.partial_fit(X[200:250], Y[200:250])
    esn.save(tmp_path / "esn.pesn")
    again = load(str(tmp_path / "esn.pesn"))
    assert type(again) is network
    assert (again.get_params(), sorted(os.listdir(tmp_path))) == (esn.get_params(), ["esn.pesn"])
    if learned == "nothing":
        assert not again.__sklearn_is_fitted__()
        return
    for state in (None, "state_"):
        states = [state and getattr(model, state) for model in (esn, again)]
        options = {"return_std": True} if network is ProbabilisticESN else {}
        expected, found = (m.predict(X, state=s, **options) for m, s in zip((esn, again), states, strict=True))
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(again.transform(X), esn.transform(X))
    # and it learns on as the other does
    expected, found = (m.partial_fit(X[250:], Y[250:]) for m in (esn, again))
    np.testing.assert_array_equal(found.online_predictions_, expected.online_predictions_)
    np.testing.assert_array_equal(found.readout_.weights, expected.readout_.weights)


@pytest.mark.parametrize("form", [{"var": 0.1}, {"cov": 0.1 * np.eye(8)}, {"factor": np.full((8, 1), 0.3), "var": 0.1}])
def test_parameters_that_are_objects(form, save_and_load):
    objects = {"moments": ("spline", Mesh(-8, 8, 51)), "random_state": np.random.RandomState(3)}
    objects |= {"initial_state": Gaussian(np.linspace(0.0, 0.1, 8), **form)}
    esn = ProbabilisticESN(8, density=0.5, **objects).fit(X[:40], Y[:40, 0])
    again = save_and_load(esn)
    assert again.moments == esn.moments
    np.testing.assert_array_equal(again.initial_state.cov, esn.initial_state.cov)
    np.testing.assert_array_equal(again.predict(X, return_std=True), esn.predict(X, return_std=True))
    assert again.random_state.randint(1000) == esn.random_state.randint(1000)


@pytest.mark.parametrize("covariance", ["full", "low-rank", "diagonal"])
def test_fitted_attributes_are_saved(covariance, save_and_load):
    options = {"feedback_scaling": 0.1, "noise": 1e-3, "covariance": covariance, "rank": 6, "washout": "auto", "random_state": 7}
    esn = ProbabilisticESN(15, **options).fit(Gaussian(X[:200], var=np.full((200, 2), 0.01)), Y[:200])
    again = save_and_load(esn)
    assert (again.washout_, again.process_noise_) == (esn.washout_, esn.process_noise_)
    for name in ("start_", "state_"):
        assert type(getattr(again, name)) is type(getattr(esn, name))
        for found, expected in zip(getattr(again, name), getattr(esn, name), strict=True):
            assert type(found) is type(expected)
            np.testing.assert_array_equal(found, expected)
    assert (again.state_.cov is None, again.state_.own is None) == (covariance == "diagonal", covariance != "low-rank")
    rows = Gaussian(X[200:], var=np.full((100, 2), 0.01))
    for state in (None, "state_"):
        expected, found = (m.predict(rows, return_cov=True, state=state and getattr(m, state)) for m in (esn, again))
        for i in range(2):
            np.testing.assert_array_equal(found[i], expected[i])


def test_names_and_precision_are_kept(tmp_path):
    frame = pd.DataFrame(X.astype(np.float32), columns=["a", "b"])
    EchoStateNetwork(8, density=0.5, random_state=0).set_output(transform="pandas").fit(frame, Y[:, 0]).save(tmp_path / "a.pesn")
    again = load(tmp_path / "a.pesn")
    assert list(again.feature_names_in_) == ["a", "b"]
    assert again.predict(frame).dtype == np.float32
    assert list(again.transform(frame).columns)[:1] == ["echostatenetwork0"]


# ---------------------------------------------------------------- writing


def test_numpy_scalars_as_parameters(tmp_path):
    esn = EchoStateNetwork(np.int16(8), density=np.float16(0.5), washout=np.uint8(3), random_state=np.int64(0)).fit(X, Y)
    for learned in (esn, clone(esn).partial_fit(X[:2], Y[:2])):
        learned.save(tmp_path / "a")
        again = load(tmp_path / "a")
        assert again.get_params() == learned.get_params()
        np.testing.assert_array_equal(again.predict(X), learned.predict(X))
    assert type(esn.n_units) is np.int16


class Own(EchoStateNetwork):
    pass


def test_unsupported_objects_are_not_saved(tmp_path):
    with pytest.raises(TypeError, match=r"this Own cannot be saved: holds .*Own, which is not a model of pesn"):
        Own(8, density=0.5, random_state=0).fit(X, Y).save(tmp_path / "a")
    strange = EchoStateNetwork(8, density=0.5, random_state=0).fit(X, Y)
    strange.note_ = print
    with pytest.raises(TypeError, match=r"cannot be saved: holds builtins\.print"):
        strange.save(tmp_path / "a")
    assert not os.listdir(tmp_path)


# ---------------------------------------------------------------- reading what is wrong


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.pesn")
    with pytest.raises(OSError, match=str(tmp_path.name)):
        load(tmp_path)


def test_truncated_files_are_refused(saved, tmp_path):
    data = saved.read_bytes()
    for size in [0, 1, 10, 100, *range(200, len(data), len(data) // 40), len(data) - 1]:
        (tmp_path / "cut").write_bytes(data[:size])
        with pytest.raises(ValueError, match="cut is not a file saved by pesn, or it was cut short"):
            load(tmp_path / "cut")


def test_flipped_bits_are_detected_or_harmless(saved, tmp_path):
    data, expected = saved.read_bytes(), load(saved).predict(X)
    noticed = 0
    places = np.random.default_rng(0).integers(0, len(data), 80)
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << int(place) % 8
        (tmp_path / "flipped").write_bytes(changed)
        found, refusal = attempt(tmp_path / "flipped")
        if refusal is None:  # the time of day in the archive's directory, say
            np.testing.assert_array_equal(found.predict(X), expected)
        else:
            assert "flipped" in str(refusal)
            assert refusal.__cause__ is None
            noticed += 1
    assert noticed > 0.8 * len(places)


def test_foreign_files(tmp_path):
    path = tmp_path / "foreign"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    pickled, other = pickle.dumps(EchoStateNetwork()), path.read_bytes()
    for content in (b"a text", pickled, b"PK\x03\x04 not a zip", np.zeros(9).tobytes(), other):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="foreign is not a file saved by pesn"):
            load(path)


def relabel(model=None, **manifest):
    """Return a function that changes the manifest of an archive, and its model if one is given."""

    def change(members):
        members["pesn.json"] = json.dumps({**json.loads(members["pesn.json"]), **manifest})
        members["model.json"] = model or members["model.json"]

    return change


def heavier(members):
    name = max((n for n in members if n.endswith(".npy")), key=lambda n: len(members[n]))
    members[name] = members[name][:-8] + np.float64(3.0).tobytes()


NEW = persistence.FORMAT + 1
NEWER = rf"was saved by pesn 9\.9 in format {NEW}; .* reads format {persistence.FORMAT}; update pesn"
MORE = r"was changed after pesn saved it: no part of its model is in more\.npy"
UNRELEASED = "was saved before the first release of pesn, in a format that is not read"


@pytest.mark.parametrize(("change", "message"), [
    (relabel(b"something that this version does not understand", format_version=NEW, pesn_version="9.9"), NEWER),
    (relabel(format_version=9), UNRELEASED), (relabel(format="pesn series", format_version=1), UNRELEASED),
    (heavier, "was changed after pesn saved it"),
    (lambda members: members.update({"more.npy": b"anything"}), MORE),
], ids=["newer", "unreleased", "series", "number", "member"])  # fmt: skip
def test_other_formats_and_changed_members_are_refused(saved, tmp_path, change, message):
    rewrite(saved, tmp_path / "odd", change, resign=change is not heavier)
    with pytest.raises(ValueError, match=f"odd {message}"):
        load(tmp_path / "odd")


def test_too_large_files_are_not_read(tmp_path):
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", persistence.LARGEST + 1)
    with pytest.raises(OSError, match=r"it has 4,294,967,297 bytes, and 4,294,967,296 are the most: '.*sparse'"):
        load(tmp_path / "sparse")
    os.truncate(tmp_path / "sparse", persistence.LARGEST)  # and here the end tells that it is none of ours
    with pytest.raises(ValueError, match="sparse is not a file saved by pesn"):
        load(tmp_path / "sparse")


def test_large_json_is_neither_read_nor_written(saved, tmp_path, monkeypatch):
    model = load(saved)
    monkeypatch.setitem(persistence.MOST, "model.json", 100)
    with pytest.raises(TypeError, match=r"cannot be saved: has [\d,]+ bytes of model\.json, and 100 are the most"):
        model.save(tmp_path / "new")
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match=r"model\.pesn has [\d,]+ bytes of model\.json, and 100 are the most"):
        load(saved)


CALLED = []


class Trap:
    def __setstate__(self, state):
        CALLED.append("__setstate__")


def deep(levels):
    tree = 1
    for _ in range(levels):
        tree = {"tuple": [tree]}
    return tree


FORGED = {
    "a function": {"class": "os.system", "fields": {"command": "true"}},
    "its full name": {"class": f"{__name__}.Trap", "fields": {}}, "an estimator": {"class": "LinearRegression", "fields": {}},
    "a base class": {"class": "ReservoirEstimator", "fields": {}}, "no fields": {"class": "EchoStateNetwork"},
    "fields in a list": {"class": "Ring", "fields": []},
    "a foreign field": {"class": "Ring", "fields": {"__class__": "Trap"}},
    "a record without fields": {"class": "Readout", "fields": {}}, "an unknown kind": {"call": ["os.system", "true"]},
    "nothing": {}, "a list as JSON has it": [1, 2], "a number that is none": {"float": "one"},
    "an array that is not there": {"array": 10**6}, "an array again": {"tuple": [{"array": 0}, {"array": 0}]},
    "a generator without a state": {"RandomState": {"dict": {}}}, "a tower": deep(5000),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
@pytest.mark.parametrize("place", ["root", "attribute"])
def test_forged_types_are_refused_and_nothing_runs(what, place, saved, tmp_path):
    """With a valid digest, which anybody can compute."""

    def forge(members):
        tree = json.loads(members["model.json"])
        tree["fields"]["ridge"] = "FORGED"
        text = json.dumps(tree if place == "attribute" else "FORGED")
        members["model.json"] = text.replace('"FORGED"', dumped(FORGED[what]))

    rewrite(saved, tmp_path / "forged", forge)
    with pytest.raises(ValueError, match=r"forged (holds|is damaged)") as caught:
        load(tmp_path / "forged")
    assert caught.value.__cause__ is None
    assert not CALLED


def dumped(tree):
    """Return JSON, also beyond the recursion limit of Python's writer."""
    return '{"tuple": [' * 5000 + "1" + "]}" * 5000 if tree is FORGED["a tower"] else json.dumps(tree)


@pytest.mark.parametrize("place", [-1, 625, 10**9, 2**40])
def test_invalid_random_states_are_refused(place, tmp_path):
    esn = EchoStateNetwork(8, density=0.5, random_state=np.random.RandomState(0)).fit(X, Y)
    esn.save(tmp_path / "fine")

    def forge(members):
        tree = json.loads(members["model.json"])
        tree["fields"]["random_state"]["RandomState"]["dict"]["state"]["dict"]["pos"] = place
        members["model.json"] = json.dumps(tree)

    rewrite(tmp_path / "fine", tmp_path / "odd", forge)
    with pytest.raises(ValueError, match="odd is damaged: it holds a RandomState that is none"):
        load(tmp_path / "odd")


@pytest.mark.parametrize("kind", ["saved", "probable", "forecaster"])
def test_arrays_that_do_not_fit_together_never_reach_a_kernel(kind, paths, tmp_path):
    """Each array in turn: shorter, of another type, or with an index beyond the end."""
    path = paths[kind]
    with zipfile.ZipFile(path) as archive:
        arrays = [name for name in archive.namelist() if name.endswith(".npy")]
    refused = []
    for name in arrays:
        for change in (lambda a: a[:-1], lambda a: a.astype(np.float16), lambda a: np.full_like(a, 2**31)):

            def swap(members, name=name, change=change):
                buffer = io.BytesIO()
                np.save(buffer, change(np.load(io.BytesIO(members[name]))))
                members[name] = buffer.getvalue()

            rewrite(path, tmp_path / "odd", swap)
            found, refusal = attempt(tmp_path / "odd")
            if refusal is None:  # other numbers, in the right places
                predicted = found.forecast(9, X=Y[:9]).mean[:, :1] if kind == "forecaster" else found.predict(X[:9])
                assert predicted.shape == Y[:9].shape
                assert kind != "saved" or found.partial_fit(X[:20], Y[:20]).predict(X).shape == Y.shape
            else:
                assert "odd is damaged" in str(refusal)
                refused.append(name)
    # online_predictions_, which nothing reads; the parameter kinematics, which only fit reads
    assert len(set(arrays) - set(refused)) <= (3 if kind == "forecaster" else 1)


def write_unchecked(model, path, monkeypatch):
    """Save a model without its check, as somebody who changes a file does."""
    with monkeypatch.context() as patched:
        patched.setattr(persistence, "check_model", lambda model: None)
        model.save(path)


def replaced(name, **parts):
    return lambda esn: setattr(esn, name, getattr(esn, name)._replace(**parts))


TAMPERED = {
    "flat bias": (lambda e: replaced("reservoir_", bias=e.reservoir_.bias[:, None])(e), "bias must have one axis"),
    "leak": (replaced("reservoir_", leak_rate=7.0), r"leak_rate must lie in \(0, 1\], got 7.0"),
    "samples": (replaced("readout_", n_samples="many"), "readout_.n_samples is 'many'"),
    "indefinite": (replaced("readout_", residual_cov=np.array([[-1.0]])), "must be positive semi-definite"),
    "weights": (replaced("readout_", weights=np.zeros((1, 3))), r"readout_.weights is not a finite array of shape \(1, 18\)"),
    "row": (replaced("rls_", row=18), "rls_.row is 18"),
    "waited": (replaced("rls_", waited=-1), "rls_.waited is -1"),
    "no rls": (lambda e: setattr(e, "rls_", [1, 2]), "rls_ is a list"),
    "to wash": (lambda e: setattr(e, "_to_wash", -1), "_to_wash is -1"),
    "private gone": (lambda e: delattr(e, "_y_is_flat"), "attributes are not those of a EchoStateNetwork: _y_is_flat"),
    "method covered": (lambda e: setattr(e, "transform", 5), "attributes are not those of a EchoStateNetwork: transform"),
    "another number of inputs": (lambda e: setattr(e, "n_features_in_", 3), "not those that it says it was fitted to"),
    "state": (replaced("state_", mean=np.full(15, np.nan)), "state_.mean is not a finite array"),
    "state's variance": (replaced("state_", var=np.full(15, -1.0)), "state_.var must not be negative"),
    "names": (lambda e: setattr(e, "feature_names_in_", np.array(["a"], object)), "feature_names_in_ is not an array of 2 names"),
}


TAMPERED_PROBABLE = {
    "start's units": (replaced("start_", n_states=3), "start_.n_states is 3"),
    "start's lags": (replaced("start_", lags=40), "start_ does not fit"),
    "singular start": (lambda e: replaced("start_", root=np.zeros_like(e.start_.root))(e), "start_.root is not a triangular"),
    "noise share": (lambda e: setattr(e, "process_noise_", -1.0), "process_noise_ is -1.0"),
    "washout": (lambda e: setattr(e, "washout_", -1), "washout_ is -1"),
    "state's covariance": (replaced("state_", cov=-np.eye(11)), "state_.cov is not a covariance"),
    "state's factor": (replaced("state_", own=np.zeros(10), cov=None), "state_.cov is not a finite array"),
    "state's own": (replaced("state_", own=np.full(10, -1.0)), "state_.own must not be negative"),
}


@pytest.mark.parametrize(("kind", "change", "message"), [
    *(pytest.param("saved", *case, id=name) for name, case in TAMPERED.items()),
    *(pytest.param("probable", *case, id=name) for name, case in TAMPERED_PROBABLE.items()),
])  # fmt: skip
def test_a_tampered_model_is_not_saved_and_does_not_load(kind, change, message, paths, tmp_path, monkeypatch):
    esn = load(paths[kind])
    change(esn)
    with pytest.raises((TypeError, ValueError), match="cannot be saved: "):
        esn.save(tmp_path / "odd")
    write_unchecked(esn, tmp_path / "odd", monkeypatch)
    with pytest.raises(ValueError, match=f"odd is damaged: .*{message}"):
        load(tmp_path / "odd")


IMPOSSIBLE = {
    "moments": "sureface", "noise": "loud", "initial_state": Gaussian(np.zeros(3), var=1.0), "rank": -3,
    "features": Features(lags=2),
}  # fmt: skip


def test_model_with_invalid_parameters_is_neither_saved_nor_loaded(tmp_path, monkeypatch):
    esn = ProbabilisticESN(8, density=0.5, random_state=0).fit(X, Y)
    esn.save(tmp_path / "kept")
    before = (tmp_path / "kept").read_bytes()
    for name, value in IMPOSSIBLE.items():
        odd = copy.copy(esn).set_params(**{name: value})
        with pytest.raises(ValueError, match=r"this ProbabilisticESN cannot be saved: .*; was a parameter set after fit\?"):
            odd.save(tmp_path / "kept")
        write_unchecked(odd, tmp_path / "odd", monkeypatch)
        with pytest.raises(ValueError, match="odd is damaged: "):
            load(tmp_path / "odd")
    assert (tmp_path / "kept").read_bytes() == before
    esn.set_params(moments="monte-carlo", random_state=np.random.RandomState(1)).save(tmp_path / "fine")
    assert load(tmp_path / "fine").random_state.randint(1000) == np.random.RandomState(1).randint(1000)
