"""Both networks as estimators.

They pass scikit-learn's checks, except for the two that shuffle rows, which are time steps; they learn; runs continue from a
returned state to the bit, with feedback too; fits are reproducible; without variance and noise the probabilistic network is the
deterministic one; memory does not grow with the series. Errors name the argument, row, column or range, and leave the estimator
as it was.
"""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pesn import EchoStateNetwork, Features, Gaussian, ProbabilisticESN, ReservoirClassifier
from pesn.esn import validation
from pesn.systems import chaotic

BOTH = pytest.mark.parametrize("network", [EchoStateNetwork, ProbabilisticESN])
ROWS_ARE_TIME = {
    "check_methods_sample_order_invariance": "rows are time: an output depends on the rows before it",
    "check_methods_subset_invariance": "rows are time: a batch starts from the initial state",
}


@parametrize_with_checks(
    [EchoStateNetwork(), ProbabilisticESN(), ReservoirClassifier(30)], expected_failed_checks=lambda _: ROWS_ARE_TIME
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def series(n=300, d=2, m=1, seed=0):
    """Return smooth inputs, and targets that need memory."""
    rng = np.random.default_rng(seed)
    X = np.sin(np.arange(n)[:, None] * rng.uniform(0.05, 0.4, d)) + 0.1 * rng.standard_normal((n, d))
    y = np.stack([np.roll(X[:, 0], 1 + j) * X[:, -1] for j in range(m)], axis=1)
    return X, y


def nrmse(prediction, truth):
    return np.sqrt(np.mean((prediction - truth) ** 2) / np.var(truth))


# ---------------------------------------------------------------- they learn


@BOTH
def test_learns_narma(network):
    X = np.random.default_rng(0).uniform(0.0, 0.5, (3000, 1))
    y = chaotic.narma10(X, steps=3000).states[:, 0]
    esn = network(200, leak_rate=1.0, input_scaling=0.3, washout=50, random_state=1).fit(X[:2000], y[:2000])
    error = nrmse(esn.predict(X[2000:])[100:], y[2100:])
    assert error < 0.4  # y itself, one step ago: 0.7; a line through the input: 0.9
    assert error < 0.6 * nrmse(y[2099:-1], y[2100:])


def test_sine_is_generated_by_feedback():
    # no input but a constant: what keeps the oscillation alive is the feedback alone
    y, X = np.sin(0.2 * np.arange(1600.0)), np.zeros((1600, 1))
    esn = EchoStateNetwork(60, feedback_scaling=1.0, noise=1e-5, washout=100, random_state=0).fit(X[:1000], y[:1000])
    assert nrmse(esn.predict(X[1000:1300], state=esn.state_), y[1000:1300]) < 0.05


# ---------------------------------------------------------------- identities


@BOTH
@pytest.mark.parametrize("feedback", [0.0, 0.5])
def test_runs_continue_from_the_returned_state(network, feedback):
    X, y = series(400, m=2)
    esn = network(40, feedback_scaling=feedback, random_state=0).fit(X[:200], y[:200])
    whole, end = esn.predict(X[200:], return_state=True)
    first, middle = esn.predict(X[200:300], return_state=True)
    second, last = esn.predict(X[300:], state=middle, return_state=True)
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)
    np.testing.assert_array_equal(last.mean, end.mean)
    np.testing.assert_array_equal(last.output, whole[-1])
    # one row at a time, as it would arrive
    state, rows = None, []
    for row in X[200:220]:
        output, state = esn.predict(row[None], state=state, return_state=True)
        rows.append(output)
    np.testing.assert_array_equal(np.concatenate(rows), whole[:20])


@BOTH
def test_results_do_not_depend_on_blocks(network, monkeypatch):
    X, y = series(300)
    plain = network(20, feedback_scaling=0.2, washout=25, noise=0.001, random_state=0).fit(X, y)
    monkeypatch.setattr("pesn.reservoir.sequences.blocks.__defaults__", (16,))
    monkeypatch.setattr("pesn.esn.training.drive_sequences.__defaults__", (16, True))
    cut = clone(plain).fit(X, y)
    np.testing.assert_allclose(cut.readout_.weights, plain.readout_.weights, rtol=1e-5, atol=1e-8)
    cut.readout_ = plain.readout_
    if network is ProbabilisticESN:
        cut.start_, cut.process_noise_ = plain.start_, plain.process_noise_
    np.testing.assert_array_equal(cut.predict(X), plain.predict(X))
    np.testing.assert_array_equal(cut.transform(X), plain.transform(X))


@BOTH
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_fitting_again_gives_the_same_weights_to_the_bit(network, noise):
    X, y = series()
    esn = network(50, noise=noise, feedback_scaling=0.1, random_state=3).fit(X, y)
    first = esn.readout_.weights.copy()
    np.testing.assert_array_equal(esn.fit(X, y).readout_.weights, first)
    np.testing.assert_array_equal(clone(esn).fit(X, y).readout_.weights, first)
    assert not np.array_equal(clone(esn).set_params(random_state=4).fit(X, y).readout_.weights, first)


def test_noise_is_added_and_washout_left_out_in_fit_only():
    X, y = series()
    noisy, quiet = (EchoStateNetwork(30, noise=noise, random_state=0).fit(X, y) for noise in (0.1, 0.0))
    assert not np.allclose(noisy.readout_.weights, quiet.readout_.weights)
    np.testing.assert_array_equal(noisy.transform(X), quiet.transform(X))
    # washout is not learned from
    spoiled = y.copy()
    spoiled[[3, 103]] = 1e6
    esn = EchoStateNetwork(30, washout=10, random_state=0)
    right = esn.fit(X, y, lengths=[100, 200]).readout_.weights.copy()
    np.testing.assert_array_equal(esn.fit(X, spoiled, lengths=[100, 200]).readout_.weights, right)
    online, spoiled_online = (clone(esn).partial_fit(X[:100], target[:100]) for target in (y, spoiled))
    np.testing.assert_array_equal(online.readout_.weights, spoiled_online.readout_.weights)


@pytest.mark.parametrize("covariance", ["auto", "full", "low-rank", "diagonal"])
@pytest.mark.parametrize("feedback", [0.0, 0.3])
def test_zero_variance_matches_the_deterministic_network(feedback, covariance):
    X, y = series(300, m=2)
    options = {"n_units": 50, "feedback_scaling": feedback, "ridge": 1e-4, "washout": 10, "random_state": 2}
    own = {"covariance": covariance, "rank": 20, "initial_state": "zero", "process_noise": 0}
    plain, probable = EchoStateNetwork(**options).fit(X, y), ProbabilisticESN(**options, **own).fit(X, y)
    np.testing.assert_array_equal(probable.readout_.weights, plain.readout_.weights)
    np.testing.assert_array_equal(probable.predict(X), plain.predict(X))
    np.testing.assert_array_equal(probable.predict(Gaussian(X, var=np.zeros_like(X))), plain.predict(X))
    np.testing.assert_array_equal(probable.transform(X), plain.transform(X))
    for network in (plain, probable):
        network.partial_fit(X[:50], y[:50])
    np.testing.assert_allclose(probable.online_predictions_, plain.online_predictions_, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("feedback", [0.0, 0.2])
@BOTH
def test_every_method_accepts_lengths(network, feedback):
    X, y = series(300, m=2)
    lengths, cuts = [100, 50, 150], [slice(0, 100), slice(100, 150), slice(150, 300)]
    esn = network(30, feedback_scaling=feedback, random_state=0)
    states = esn.fit_transform(X, y, lengths=lengths)
    assert_array_equal = np.testing.assert_array_equal
    assert_array_equal(esn.readout_.weights, clone(esn).fit(X, y, lengths=lengths).readout_.weights)
    assert_array_equal(states, np.concatenate([esn.transform(X[cut]) for cut in cuts]))
    assert_array_equal(states, esn.transform(X, lengths=lengths))
    assert esn.score(X, y, lengths=lengths) == r2_score(y, esn.predict(X, lengths=lengths))
    assert esn.score(X, y) == r2_score(y, esn.predict(X)) != esn.score(X, y, lengths=lengths)
    with pytest.raises(ValueError, match="add up to 200"):
        esn.transform(X, lengths=[100, 100])
    together, ends = esn.predict(X, lengths=lengths, return_state=True)
    assert_array_equal(together, np.concatenate([esn.predict(X[cut]) for cut in cuts]))
    on = esn.predict(X, lengths=lengths, state=ends)
    assert_array_equal(on[100:150], esn.predict(X[100:150], state=ends[1]))
    one = clone(esn).fit(X, y, lengths=[300])
    assert_array_equal(one.readout_.weights, clone(esn).fit(X, y).readout_.weights)
    assert not np.array_equal(one.readout_.weights, esn.readout_.weights)


@BOTH
def test_washout_auto_matches_the_memory_of_the_reservoir(network):
    X, y = series(1500)
    quick, slow = (network(50, leak_rate=leak, washout="auto", random_state=0).fit(X, y) for leak in (0.5, 0.05))
    assert 0 < quick.washout_ < slow.washout_ <= 750
    # started from wherever a state may be, runs come as close to each other as is promised, and not much sooner
    for esn in (quick, slow):
        states = esn.transform(X)[750:]
        starts = [states.mean(axis=0), *states[10::15]]
        first, *runs = (esn.predict(X, state=esn.state_._replace(mean=h)) for h in starts)
        apart = np.sqrt(np.mean(np.square(runs - first), axis=0))[:, 0]
        promised = max(1e-3 * y.std(), 0.1 * esn.readout_.residual_cov[0, 0] ** 0.5)
        assert apart[esn.washout_ :].max() < 3.0 * promised
        assert apart[: esn.washout_ // 2].min() > promised
    short = clone(slow).fit(X, y, lengths=[1460, 40])
    assert short.washout_ == 20  # never more than half of a sequence
    assert clone(slow).fit(X[:2], y[:2]).washout_ <= 1
    fixed = clone(slow).set_params(washout=slow.washout_).fit(X, y)
    np.testing.assert_array_equal(fixed.readout_.weights, slow.readout_.weights)
    assert fixed.washout_ == slow.washout_


@BOTH
def test_float32_in_float32_out(network):
    X, y = (array.astype(np.float32) for array in series(m=2))
    esn = network(30, random_state=0).fit(X, y)
    assert esn.predict(X).dtype == esn.transform(X).dtype == np.float32
    assert esn.partial_fit(X, y).online_predictions_.dtype == np.float32
    assert esn.predict(X.astype(float)).dtype == np.float64
    if network is ProbabilisticESN:
        for option in ("return_std", "return_cov"):
            assert {part.dtype for part in esn.predict(Gaussian(X, var=np.float32(0.1)), **{option: True})} == {X.dtype}


@BOTH
def test_outputs_have_the_shape_of_y(network):
    X, y = series(m=2)
    for target in (y, y[:, :1], y[:, 0]):
        esn = network(20, random_state=0).fit(X, target)
        assert esn.predict(X).shape == esn.partial_fit(X, target).online_predictions_.shape == target.shape
    if network is ProbabilisticESN:
        assert esn.predict(X, return_std=True)[1].shape == (300,)
        assert esn.predict(X, return_cov=True)[1].shape == (300, 1, 1)


# ---------------------------------------------------------------- online learning


@BOTH
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("flat", [True, False])
def test_plain_arrays_give_the_same_results(network, dtype, flat, monkeypatch):
    """Plain arrays skip scikit-learn's checks, with the same numbers to the bit."""
    X, y = (part.astype(dtype) for part in series(120))
    y = y[:, 0] if flat else y
    esn = network(20, feedback_scaling=0.2, washout=3, random_state=0).fit(X[:60], y[:60])
    found = []
    for is_plain in (validation._is_plain, lambda *given: False):
        monkeypatch.setattr(validation, "_is_plain", is_plain)
        one, now, seen = copy.deepcopy(esn), esn.state_, []
        for row in (slice(k, k + 1) for k in range(60, 120)):
            predictions, now = one.partial_fit(X[row], y[row]).predict(X[row], state=now, return_state=True)
            seen += [one.online_predictions_, predictions]
        assert {part.dtype for part in seen} == {np.dtype(dtype)}
        found.append([*np.ravel(seen), *np.ravel(one.readout_.weights), *now.mean])
    np.testing.assert_array_equal(*found)


def test_plain_arrays_have_the_same_errors(monkeypatch):
    X, y = series(120, m=2)
    esn = EchoStateNetwork(20, random_state=0).fit(X, y).partial_fit(X[:1], y[:1])
    nan, large = np.full_like(X[:1], np.nan), np.full_like(y[:1], -1e150)
    refused = [(X[:1, :0], y[:1]), (X[:0], y[:0]), (np.hstack([X, X])[:1], y[:1]), (X[0], y[:1]), (X[:1, None], y[:1])]
    refused += [(X[:1], y[:1, :1]), (X[:1], y[:2]), (X[:1], y[:1, :0]), (X[:1], y[:1, None]), (X[:1], None)]
    refused += [(nan, y[:1]), (X[:1], large), (X[:1], y[:1] + np.inf), (X[:1] + 0j, y[:1]), (X[:1], y[:1] + 0j)]
    ways = validation._is_plain, lambda *given: False
    for rows, targets in refused:
        before = dict(vars(esn))
        messages = []
        for is_plain in ways:
            monkeypatch.setattr(validation, "_is_plain", is_plain)
            with pytest.raises((TypeError, ValueError)) as refusal:
                esn.partial_fit(rows, targets)
            messages.append(str(refusal.value))
        assert messages[0] == messages[1]
        assert vars(esn).keys() == before.keys()
        assert all(vars(esn)[name] is value for name, value in before.items())


@BOTH
@pytest.mark.parametrize("delta", [None, 100.0])
def test_learns_online_from_nothing_and_follows_a_change(network, delta):
    X, y = series(1500)
    y = np.where(np.arange(1500)[:, None] < 750, y, -y)
    esn = network(40, forgetting=0.99, rls_delta=delta, random_state=0).partial_fit(X, y)
    error = np.abs(esn.online_predictions_ - y)
    assert error[500:750].mean() < 0.45 * np.abs(y).mean()
    assert error[1250:].mean() < 0.45 * np.abs(y).mean()
    assert network(40, random_state=0).fit(X[:750], y[:750]).score(X[750:], y[750:]) < 0.0  # a fixed readout does not follow
    if network is ProbabilisticESN:
        std = esn.predict(X[:50], return_std=True)[1]
        assert (np.isfinite(std) & (std > 0.0)).all()


@pytest.mark.parametrize("feedback", [0.0, 0.2])
def test_online_learning_without_forgetting_is_the_batch_over_all_rows(feedback):
    X, y = series(600, m=2)
    esn = EchoStateNetwork(20, ridge=1e-3, forgetting=1.0, feedback_scaling=feedback, random_state=0).fit(X[:300], y[:300])
    whole = clone(esn).set_params(ridge=1e-3 / 2).fit(X, y)  # ridge is per row: the same penalty for twice the rows
    esn.partial_fit(X[300:], y[300:])
    np.testing.assert_allclose(esn.readout_.weights, whole.readout_.weights, atol=1e-9)
    np.testing.assert_array_equal(esn.state_.mean, whole.state_.mean)
    np.testing.assert_allclose(esn.predict(X), whole.predict(X), atol=1e-9)


# ---------------------------------------------------------------- scikit-learn


@BOTH
def test_clone_pickle_pipeline_and_search(network):
    X, y = series(200)
    esn = network(20, random_state=0, ridge=1e-4).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(esn)).predict(X), esn.predict(X))
    assert clone(esn).get_params() == esn.get_params()
    pipeline = make_pipeline(StandardScaler(), clone(esn)).fit(X, y)
    assert pipeline.score(X, y) > 0.5
    search = GridSearchCV(pipeline, {f"{network.__name__.lower()}__ridge": [1e-6, 1e-2]}, cv=TimeSeriesSplit(3)).fit(X, y)
    assert np.isfinite(search.best_score_)
    assert len(cross_val_score(pipeline, X, y, cv=TimeSeriesSplit(3))) == 3
    stacked = make_pipeline(clone(esn), network(10, random_state=1)).fit(X, y)  # states of one drive another
    assert stacked.predict(X).shape == y.shape


def test_lengths_pass_through_a_pipeline():
    X, y = series(200)
    pipeline = make_pipeline(StandardScaler(), EchoStateNetwork(20, random_state=0))
    pipeline.fit(X, y, echostatenetwork__lengths=[80, 120])
    alone = EchoStateNetwork(20, random_state=0).fit(StandardScaler().fit_transform(X), y, lengths=[80, 120])
    np.testing.assert_array_equal(pipeline[-1].readout_.weights, alone.readout_.weights)
    with config_context(enable_metadata_routing=True):
        routed = make_pipeline(StandardScaler(), EchoStateNetwork(20, random_state=0).set_fit_request(lengths=True))
        routed.fit(X, y, lengths=[80, 120])
    np.testing.assert_array_equal(routed[-1].readout_.weights, alone.readout_.weights)


@BOTH
def test_frames_keep_their_names(network):
    X, y = series(100)
    frame = pd.DataFrame(X, columns=["voltage", "load"], index=pd.date_range("2026-01-01", periods=100, freq="h"))
    esn = network(12, random_state=0).fit(frame, pd.Series(y[:, 0], index=frame.index))
    assert (list(esn.feature_names_in_), esn.n_features_in_) == (["voltage", "load"], 2)
    names = [f"{network.__name__.lower()}{i}" for i in range(12)]
    assert list(esn.get_feature_names_out()) == names
    states = clone(esn).set_output(transform="pandas").fit(frame, y[:, 0]).transform(frame)
    assert list(states.columns) == names
    assert states.index.equals(frame.index)
    np.testing.assert_array_equal(esn.predict(frame), network(12, random_state=0).fit(X, y[:, 0]).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        esn.predict(frame.rename(columns={"load": "lode"}))


# ---------------------------------------------------------------- memory


def test_memory_does_not_grow_with_the_series(run_python):
    pytest.importorskip("resource")
    script = """
import resource, sys, numpy as np
from pesn.esn.network import EchoStateNetwork
X = np.sin(0.1 * np.arange(50_000.0))[:, None]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1 / 1024)
esn = EchoStateNetwork(200, random_state=0)
esn.fit(X[:10_000], X[:10_000]).predict(X[:10_000])
before = peak()
esn.fit(X, X).predict(X)
print((peak() - before) / 2**20)
"""
    assert float(run_python(script).stdout) < 20.0  # MB; the states of all rows would be 80


# ---------------------------------------------------------------- what is refused


def gap(array, row, value, column=None):
    array = array.copy()
    array[row if column is None else (row, column)] = value
    return array


BAD = {
    "NaN in X": (lambda X, y: (gap(X, 7, np.nan, 1), y), "Input X contains NaN at row 7, column 1"),
    "infinity in X": (lambda X, y: (gap(X, 5, -np.inf, 0), y), "Input X contains infinity at row 5, column 0"),
    "NaN in y": (lambda X, y: (X, gap(y, 9, np.nan, 0)), "Input y contains NaN at row 9, column 0"),
    "too large": (lambda X, y: (gap(X, 3, 1e200, 1), y), r"Input X contains 1e\+200 at row 3, column 1, beyond 1e\+100; scale"),
    "empty": (lambda X, y: (X[:0], y[:0]), "0 sample"),
    "lengths differ": (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
    "no y": (lambda X, y: (X, None), "requires y to be passed"),
    "words": (lambda X, y: ([*X.astype(str).tolist()[:-1], ["a", "b"]], y), "could not convert"),
    "one dimension": (lambda X, y: (X[:, 0], y), "Expected 2D array"),
    "a list of arrays": (lambda X, y: ([X[:20], X[20:]], [y[:20], y[20:]]),
        r"X must be rows .* got a list of 2 arrays; np.concatenate\(X\) stacks them, and lengths=\[20, 30\] says where each end"),
    "lists in y alone": (lambda X, y: (X, [y[:20], y[20:]]), r"y must be rows .* np.concatenate\(y\).* lengths=\[20, 30\]"),
    "three axes": (lambda X, y: (X.reshape(10, 5, 2), y), r"an array of shape \(10, 5, 2\); .* lengths=\[5, 5, 5, 5, 5, …\]"),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("case", BAD)
def test_bad_input_leaves_the_estimator_as_it_was(network, method, case):
    change, message = BAD[case]
    X, y = series(50)
    new = network(10, random_state=0)
    for esn in (new, clone(new).fit(X, y)):
        before = dict(vars(esn))
        with pytest.raises(ValueError, match=message):
            getattr(esn, method)(*change(X, y))
        assert vars(esn).keys() == before.keys()
        assert all(vars(esn)[name] is before[name] for name in before)
    with pytest.raises(NotFittedError, match=f"This {network.__name__} instance is not fitted yet"):
        new.predict(X)


NO_STATES = "state must be a list of what return_state=True gave, got"
REFUSED = {
    "one row": (lambda esn, X, y: esn.fit(X[:1], y[:1]), r"1 sample.* minimum of 2 is required"),
    "short sequence": (lambda esn, X, y: esn.set_params(washout=20).fit(X, y, lengths=[35, 15]),
        "got washout=20 and 15 rows in sequence 1"),
    "no rows": (lambda esn, X, y: esn.predict(X[:0]), "0 sample"),
    "fewer columns": (lambda esn, X, y: esn.predict(X[:, :1]), "X has 1 features, but .* is expecting 2 features"),
    "more outputs": (lambda esn, X, y: esn.partial_fit(X, np.hstack([y, y])), "y must have 1 columns, as at the first fit, got"),
    "another's state": (lambda esn, X, y: esn.predict(X, state=clone(esn).set_params(n_units=20).fit(X, y).state_),
        "state must be of this network"),
    "an array as state": (lambda esn, X, y: esn.predict(X, state=np.zeros(10)), "what return_state=True gave, got ndarray"),
    "too few states": (lambda esn, X, y: esn.predict(X, lengths=[25, 25], state=[esn.state_]),
        "one state for each of the 2 sequences, got 1"),
    "a flag": (lambda esn, X, y: esn.predict(X, return_state="yes"), "return_state must be True or False, got 'yes'"),
    "one state": (lambda esn, X, y: esn.predict(X, lengths=[25, 25], state=esn.state_), NO_STATES),
    "a number as states": (lambda esn, X, y: esn.predict(X, lengths=[25, 25], state=5), NO_STATES),
    "numbers as states": (lambda esn, X, y: esn.predict(X, lengths=[25, 25], state=[5, 5]), NO_STATES),
    "text as states": (lambda esn, X, y: esn.predict(X, lengths=[25, 25], state="ab"), NO_STATES),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("case", REFUSED)
def test_wrong_calls_are_named(network, case):
    X, y = series(50)
    call, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        call(network(10, random_state=0).fit(X, y), X, y)


def test_an_interrupt_in_the_middle_changes_nothing(monkeypatch):
    X, y = series(100)
    esn = EchoStateNetwork(10, random_state=0).fit(X, y)
    before = dict(vars(esn))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pesn.readout.rls.rls_update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        esn.partial_fit(X, y)
    assert all(vars(esn)[name] is before[name] for name in before)


@BOTH
@pytest.mark.parametrize(("lengths", "error", "message"), [
    ([20, 20], ValueError, r"lengths must add up to the 50 rows of X, got \[20, 20\], which add up to 40"),
    ([60, -10], ValueError, "lengths must be 1 or more each, got -10 for sequence 1"),
    ([], ValueError, "add up to 0"),
    ([25.0, 25.0], TypeError, "lengths must be a list of whole numbers"),
    (50, TypeError, "lengths must be a list of whole numbers"),
    ([True, 49], TypeError, "lengths must be a list of whole numbers"),
])  # fmt: skip
def test_lengths_that_do_not_add_up(network, lengths, error, message):
    X, y = series(50)
    esn = network(10, random_state=0)
    with pytest.raises(error, match=message):
        esn.fit(X, y, lengths=lengths)
    assert not hasattr(esn, "n_features_in_")
    with pytest.raises(error, match=message):
        esn.fit(X, y).predict(X, lengths=lengths)


@BOTH
@pytest.mark.parametrize(("name", "value", "message"), [
    *(("leak_rate", value, rf"leak_rate must lie in \(0, 1\], got {value}") for value in (0.0, 1.5)),
    *(("spectral_radius", value, rf"spectral_radius must lie in \(0, ∞\), got {value}") for value in (np.nan, 0.0, -0.9, np.inf)),
    *(("density", value, rf"density must lie in \(0, 1\], got {value}") for value in (0.0, 1.1)),
    ("density", None, "density must"), ("feedback_scaling", np.inf, "feedback_scaling must"),
    ("bias_scaling", np.nan, "bias_scaling must"),
    ("input_scaling", [1.0, -2.0], r"input_scaling must lie in \[0, ∞\), got -2.0 at index 1"),
    (
        "input_scaling",
        [1.0, 2.0, 3.0],
        r"input_scaling must be a number, one for each of the 2 inputs, or the weights .*, 2\), got shape \(3,\)",
    ),
    ("input_scaling", [1.0, np.nan], "input_scaling must be finite, got nan at index 1"),
    ("feedback_scaling", [1.0, 1.0], r"feedback_scaling must be .* each of the 1 outputs, or .* got shape \(2,\)"),
    ("bias_scaling", [1.0, 1.0], r"bias_scaling must be a number, or the weights themselves \(.*,\), got shape \(2,\)"),
    ("bias_scaling", "large", r"bias_scaling must be a number in \[0, ∞\), got 'large'"),
    ("noise", -0.1, r"noise must lie in \[0, 1e\+100\], got -0.1"),
    ("ridge", -1e-6, r"ridge must lie in \[0, 1e\+100\], got -1e-06"),
    ("forgetting", 1.01, r"forgetting must lie in \(0, 1\], got 1.01"),
    ("rls_delta", 0.0, r"rls_delta must lie in \[1e-100, 1e\+100\], got 0.0"),
    ("n_units", 0, "n_units must be 1 or more, got 0"),
    *(("n_units", value, f"n_units must be a whole number, 1 or more, got {value}") for value in (10.0, True)),
    ("washout", -1, "washout must be 0 or more, got -1"),
    ("random_state", -1, "random_state must be None, a whole number, 0 or more"),
    ("ridge", 5e-324, "ridge must be 0 or lie in"),
    ("density", 1e-320, "nilpotent or disconnected: .* it has 0; raise density to 0.01$"),
    ("random_state", "seed", "random_state must be None, a whole number, 0 or more, or a RandomState"),
])  # fmt: skip
def test_parameters_out_of_range(network, name, value, message):
    for method in ("fit", "partial_fit"):
        esn = network(random_state=0).set_params(**{name: value})
        with pytest.raises((ValueError, TypeError), match=message):
            getattr(esn, method)(*series(50))
        assert not esn.__sklearn_is_fitted__()


@BOTH
def test_masked_and_uncertain_targets_are_refused(network):
    X, y = series(50)
    esn = network(10, random_state=0)
    for inputs, targets, message in (
        (np.ma.masked_array(X, X > 0.5), y, "X must be a plain array, got a masked one"),
        (X, np.ma.masked_array(y, y > 0.5), "y must be a plain array, got a masked one"),
        (X, Gaussian(y, var=0.1), r"y must be an array of certain numbers, got a pesn\.Gaussian; give its mean"),
    ):
        for learn in (esn.fit, esn.partial_fit):
            with pytest.raises(TypeError, match=message):
                learn(inputs, targets)
    with pytest.raises(TypeError, match="X must be a plain array"):
        esn.fit(X, y).predict(np.ma.masked_array(X, X > 0.5))


@BOTH
@pytest.mark.parametrize(("name", "value"), [("noise", 1e100), ("ridge", 1e100), ("ridge", 1e-100), ("rls_delta", 1e-100)])
def test_limits_of_parameter_ranges_work(network, name, value):
    X, y = series(50)
    esn = network(10, random_state=0, **{name: value})
    assert np.isfinite(esn.fit(X, y).partial_fit(X, y).predict(X)).all()
    assert np.isfinite(network(10, random_state=0, **{name: value}).partial_fit(X, y).predict(X)).all()


@BOTH
def test_parameters_set_after_fit_apply_to_the_next_fit(network):
    X = np.sin(0.3 * np.arange(200.0))[:, None]
    esn = network(20, washout=10, random_state=0).fit(X[:-1], X[1:])
    before = esn.predict(X)
    np.testing.assert_array_equal(esn.set_params(activation="relu", n_units=7, topology="ring").predict(X), before)
    esn.set_params(features=Features(lags=2))  # what is read out of rows is no longer what was learned
    words = r"features must be those of fit, 22 numbers .* got 24 by Features\(lags=2, .*fit again"
    for call in (lambda: esn.predict(X), lambda: esn.partial_fit(X[:-1], X[1:])):
        with pytest.raises(ValueError, match=words):
            call()
    assert esn.fit(X[:-1], X[1:]).predict(X).shape == X.shape
