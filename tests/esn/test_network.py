"""Both networks as estimators.

Claims: they pass scikit-learn's own checks, but for the two that shuffle rows, which are time; they learn; a run goes on where
it stopped, to the bit, with feedback too; fitting again gives the same weights to the bit; online predictions come before the
update; without variance and noise the probabilistic network is the deterministic one; memory does not grow with the series.
"""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pesn.esn.network import EchoStateNetwork
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.gaussian import Gaussian

BOTH = pytest.mark.parametrize("network", [EchoStateNetwork, ProbabilisticESN])
ROWS_ARE_TIME = {
    "check_methods_sample_order_invariance": "rows are time: an output depends on the rows before it",
    "check_methods_subset_invariance": "rows are time: a batch starts from the initial state",
}


@parametrize_with_checks([EchoStateNetwork(), ProbabilisticESN()], expected_failed_checks=lambda _: ROWS_ARE_TIME)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def narma(n, seed=0):
    """NARMA-10: y from u by ten steps of memory (Atiya and Parlos 2000)."""
    u = np.random.default_rng(seed).uniform(0.0, 0.5, n)
    y = np.zeros(n)
    for k in range(9, n - 1):
        y[k + 1] = 0.3 * y[k] + 0.05 * y[k] * y[k - 9 : k + 1].sum() + 1.5 * u[k - 9] * u[k] + 0.1
    return u[:, None], y


def mackey_glass(n, delay=17, skip=500, start=1.2):
    """Mackey-Glass by the fourth-order Runge-Kutta method, ten steps a unit of time, the delayed value held in a step."""
    history = np.full((n + skip) * 10 + delay * 10 + 1, start)
    for k in range(delay * 10, len(history) - 1):
        drive, x, h = 0.2 * history[k - delay * 10] / (1.0 + history[k - delay * 10] ** 10), history[k], 0.1
        a = drive - 0.1 * x
        b = drive - 0.1 * (x + h / 2 * a)
        c = drive - 0.1 * (x + h / 2 * b)
        d = drive - 0.1 * (x + h * c)
        history[k + 1] = x + h / 6 * (a + 2 * b + 2 * c + d)
    return history[delay * 10 + skip * 10 :: 10][:n, None]


def series(n=300, d=2, m=1, seed=0):
    """Smooth inputs, and targets that need memory."""
    rng = np.random.default_rng(seed)
    X = np.sin(np.arange(n)[:, None] * rng.uniform(0.05, 0.4, d)) + 0.1 * rng.standard_normal((n, d))
    y = np.stack([np.roll(X[:, 0], 1 + j) * X[:, -1] for j in range(m)], axis=1)
    return X, y


def nrmse(prediction, truth):
    return np.sqrt(np.mean((prediction - truth) ** 2) / np.var(truth))


# ---------------------------------------------------------------- they learn


@BOTH
def test_learns_narma(network):
    X, y = narma(3000)
    esn = network(200, leak_rate=1.0, input_scaling=0.3, washout=50, random_state=1).fit(X[:2000], y[:2000])
    error = nrmse(esn.predict(X[2000:])[100:], y[2100:])
    assert error < 0.4  # y itself, one step ago: 0.7; a line through the input: 0.9
    assert error < 0.6 * nrmse(y[2099:-1], y[2100:])


@BOTH
def test_learns_mackey_glass_one_step_ahead(network):
    x = mackey_glass(2001)
    esn = network(100, washout=100, ridge=1e-9, random_state=0).fit(x[:1500], x[1:1501])
    error = nrmse(esn.predict(x[1500:-1], state=esn.state_), x[1501:])
    assert error < 0.05 * nrmse(x[1500:-1], x[1501:])


def test_a_sine_runs_free_on_its_own_outputs():
    # no input but a constant: what keeps the oscillation alive is the feedback alone
    y, X = np.sin(0.2 * np.arange(1600.0)), np.zeros((1600, 1))
    esn = EchoStateNetwork(60, feedback_scaling=1.0, noise=1e-5, washout=100, random_state=0).fit(X[:1000], y[:1000])
    assert nrmse(esn.predict(X[1000:1300], state=esn.state_), y[1000:1300]) < 0.05
    mean, std = (
        ProbabilisticESN(60, feedback_scaling=1.0, noise=1e-5, washout=100, ridge=1e-8, random_state=0)
        .fit(X[:1000], y[:1000])
        .predict(X[1000:1020], return_std=True)
    )
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()


# ---------------------------------------------------------------- identities


@BOTH
@pytest.mark.parametrize("feedback", [0.0, 0.5])
def test_a_run_goes_on_where_it_stopped(network, feedback):
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
def test_blocks_do_not_show(network, monkeypatch):
    X, y = series(300)
    plain = network(20, feedback_scaling=0.2, washout=25, noise=0.001, random_state=0).fit(X, y)
    monkeypatch.setattr("pesn.reservoir.sequences.blocks.__defaults__", (16,))
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


def test_noise_is_in_the_states_while_fitting_and_nowhere_else():
    X, y = series()
    noisy, quiet = (EchoStateNetwork(30, noise=noise, random_state=0).fit(X, y) for noise in (0.1, 0.0))
    assert not np.allclose(noisy.readout_.weights, quiet.readout_.weights)
    np.testing.assert_array_equal(noisy.transform(X), quiet.transform(X))


@pytest.mark.parametrize("covariance", ["auto", "full", "low-rank", "diagonal"])
@pytest.mark.parametrize("feedback", [0.0, 0.3])
def test_without_variance_and_noise_it_is_the_deterministic_network(feedback, covariance):
    X, y = series(300, m=2)
    options = {"n_units": 50, "feedback_scaling": feedback, "ridge": 1e-4, "washout": 10, "random_state": 2}
    own = {"covariance": covariance, "rank": 20, "initial_state": "zero", "process_noise": 0}
    plain, probable = EchoStateNetwork(**options).fit(X, y), ProbabilisticESN(**options, **own).fit(X, y)
    np.testing.assert_array_equal(probable.readout_.weights, plain.readout_.weights)
    np.testing.assert_array_equal(probable.predict(X), plain.predict(X))
    np.testing.assert_array_equal(probable.predict(Gaussian(X, var=np.zeros_like(X))), plain.predict(X))
    np.testing.assert_array_equal(probable.transform(X), plain.transform(X))


def test_sequences_start_anew():
    X, y = series(300, m=2)
    for network in (EchoStateNetwork, ProbabilisticESN):
        esn = network(30, feedback_scaling=0.1, washout=5, random_state=0).fit(X, y, lengths=[100, 50, 150])
        together, ends = esn.predict(X, lengths=[100, 50, 150], return_state=True)
        cuts = [slice(0, 100), slice(100, 150), slice(150, 300)]
        np.testing.assert_array_equal(together, np.concatenate([esn.predict(X[cut]) for cut in cuts]))
        on = esn.predict(X, lengths=[100, 50, 150], state=ends)
        np.testing.assert_array_equal(on[100:150], esn.predict(X[100:150], state=ends[1]))
        one = clone(esn).fit(X, y, lengths=[300])
        np.testing.assert_array_equal(one.readout_.weights, clone(esn).fit(X, y).readout_.weights)
        assert not np.array_equal(one.readout_.weights, esn.readout_.weights)


@pytest.mark.parametrize("feedback", [0.0, 0.2])
@BOTH
def test_every_method_knows_lengths(network, feedback):
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


def test_washed_out_rows_are_not_learnt_from():
    X, y = series()
    spoilt = y.copy()
    spoilt[[3, 103]] = 1e6
    esn = EchoStateNetwork(30, washout=10, random_state=0)
    right = esn.fit(X, y, lengths=[100, 200]).readout_.weights.copy()
    np.testing.assert_array_equal(esn.fit(X, spoilt, lengths=[100, 200]).readout_.weights, right)
    online, spoilt_online = (clone(esn).partial_fit(X[:100], target[:100]) for target in (y, spoilt))
    np.testing.assert_array_equal(online.readout_.weights, spoilt_online.readout_.weights)


@BOTH
def test_washout_auto_is_as_long_as_the_reservoir_remembers(network):
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
def test_online_predictions_come_before_the_update(network):
    X, y = series(300)
    esn = network(30, random_state=0).fit(X[:200], y[:200])
    before = esn.predict(X[200:201], state=esn.state_)
    later = copy.deepcopy(esn).partial_fit(X[200:], y[200:])
    np.testing.assert_allclose(later.online_predictions_[:1], before, rtol=1e-10)
    # whatever the targets were, the first prediction knows nothing of them
    other = copy.deepcopy(esn).partial_fit(X[200:], y[200:] + 100.0)
    np.testing.assert_array_equal(other.online_predictions_[:1], later.online_predictions_[:1])


@BOTH
@pytest.mark.parametrize("fitted", [True, False])
def test_row_by_row_is_all_at_once(network, fitted):
    X, y = series(120, m=2)
    esn = network(20, feedback_scaling=0.2, washout=7, random_state=0)
    if fitted:
        esn.fit(X[:60], y[:60])
    whole, single, seen = copy.deepcopy(esn).partial_fit(X[60:], y[60:]), copy.deepcopy(esn), []
    for k in range(60, 120):
        seen.append(single.partial_fit(X[k : k + 1], y[k : k + 1]).online_predictions_)
    np.testing.assert_allclose(np.concatenate(seen), whole.online_predictions_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(single.readout_.weights, whole.readout_.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(single.state_.mean, whole.state_.mean)


@BOTH
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("flat", [True, False])
def test_plain_arrays_are_what_lists_and_frames_are(network, dtype, flat):
    """Plain arrays skip scikit-learn's checks: the same numbers to the bit as what goes through them."""
    X, y = (part.astype(dtype) for part in series(120))
    y = y[:, 0] if flat else y
    esn = network(20, feedback_scaling=0.2, washout=3, random_state=0).fit(X[:60], y[:60])
    plain, checked = copy.deepcopy(esn), copy.deepcopy(esn)
    checked._is_plain = lambda *given: False
    now, then = esn.state_, esn.state_
    for k in range(60, 120):
        row = slice(k, k + 1)
        for one in (plain, checked):
            one.partial_fit(X[row], y[row])
        np.testing.assert_array_equal(plain.online_predictions_, checked.online_predictions_)
        assert plain.online_predictions_.dtype == checked.online_predictions_.dtype == dtype
        a, now = plain.predict(X[row], state=now, return_state=True)
        b, then = checked.predict(X[row], state=then, return_state=True)
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(plain.readout_.weights, checked.readout_.weights)
    np.testing.assert_array_equal(now.mean, then.mean)


def test_plain_arrays_are_refused_as_everything_else_is():
    X, y = series(120, m=2)
    esn = EchoStateNetwork(20, random_state=0).fit(X, y).partial_fit(X[:1], y[:1])
    checked = copy.deepcopy(esn)
    checked._is_plain = lambda *given: False
    nan, large = np.full_like(X[:1], np.nan), np.full_like(y[:1], -1e150)
    refused = [(X[:1, :0], y[:1]), (X[:0], y[:0]), (np.hstack([X, X])[:1], y[:1]), (X[0], y[:1]), (X[:1, None], y[:1])]
    refused += [(X[:1], y[:1, :1]), (X[:1], y[:2]), (X[:1], y[:1, :0]), (X[:1], y[:1, None]), (X[:1], None)]
    refused += [(nan, y[:1]), (X[:1], large), (X[:1], y[:1] + np.inf), (X[:1] + 0j, y[:1]), (X[:1], y[:1] + 0j)]
    for rows, targets in refused:
        before = dict(vars(esn))
        messages = []
        for one in (esn, checked):
            with pytest.raises((TypeError, ValueError)) as refusal:
                one.partial_fit(rows, targets)
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
        assert np.isfinite(std).all()
        assert (std > 0.0).all()


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
    assert list(esn.feature_names_in_) == ["voltage", "load"]
    assert esn.n_features_in_ == 2
    names = [f"{network.__name__.lower()}{i}" for i in range(12)]
    assert list(esn.get_feature_names_out()) == names
    states = clone(esn).set_output(transform="pandas").fit(frame, y[:, 0]).transform(frame)
    assert list(states.columns) == names
    assert states.index.equals(frame.index)
    np.testing.assert_array_equal(esn.predict(frame), network(12, random_state=0).fit(X, y[:, 0]).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        esn.predict(frame.rename(columns={"load": "lode"}))


# ---------------------------------------------------------------- memory


def test_a_long_series_does_not_need_the_memory_of_its_states():
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
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 20.0  # MB; the states of all rows would be 80
