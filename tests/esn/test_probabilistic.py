"""The probabilistic network.

With the full covariance its outputs match samples, unlike the paper's diagonal form; the variance grows with that of the inputs,
includes residuals and weights, does not depend on how a run is split, and follows the errors online; learned initial states are
accurate and calibrated; process noise improves free runs; other moment methods agree; memory does not grow with the series.
"""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

from pesn import EchoStateNetwork, Gaussian, Mesh, ProbabilisticESN, gain, moments
from pesn.metrics import crps_gaussian
from pesn.moments.covariance import covariance as unit_covariance
from pesn.reservoir.drive import State, run
from pesn.reservoir.initial_state import Start
from pesn.systems import chaotic


def series(n=300, d=2, m=1, seed=0):
    """Return smooth inputs, and targets that need memory."""
    rng = np.random.default_rng(seed)
    X = np.sin(np.arange(n)[:, None] * rng.uniform(0.05, 0.4, d)) + 0.1 * rng.standard_normal((n, d))
    y = np.stack([np.roll(X[:, 0], 1 + j) * X[:, -1] for j in range(m)], axis=1)
    return X, y


def lorenz(n, seed=0):
    """Return x of the Lorenz system, on the attractor."""
    return chaotic.lorenz(steps=n, rng=seed).states[:, :1] / 8.0


FORMS = pytest.mark.parametrize("covariance", ["full", "low-rank", "diagonal"])


def test_the_residual_covariance_follows_the_errors():
    X, y = series(3000)
    rng = np.random.default_rng(0)
    loud = y + np.where(np.arange(3000)[:, None] < 1500, 0.05, 0.5) * rng.standard_normal(y.shape)
    esn = ProbabilisticESN(20, forgetting=0.99, random_state=0).fit(X[:1500], loud[:1500])
    before = esn.readout_.residual_cov[0, 0] ** 0.5
    after = esn.partial_fit(X[1500:], loud[1500:]).readout_.residual_cov[0, 0] ** 0.5
    assert after > 2.0 * before
    assert 0.4 < after < 0.8
    mean, std = esn.predict(X[1500:], return_std=True)
    assert 0.9 < np.mean(np.abs(mean - loud[1500:]) < 2.0 * std) < 1.0


# ---------------------------------------------------------------- against samples


def sampled(esn, X, std, n, seed=0):
    """Return means and standard deviations (T, m) of the outputs over ``n`` samples of the inputs, in plain NumPy."""
    r, rng, W = esn.reservoir_, np.random.default_rng(seed), esn.readout_.weights
    recurrent, h, y, found = r.W.toarray().T, np.zeros((n, r.n_units)), np.zeros((n, r.n_outputs)), []
    for row in X:
        z = row + std * rng.standard_normal((n, len(row)))
        h = (1.0 - r.leak_rate) * h + r.leak_rate * np.tanh(z @ r.W_in.T + y @ r.W_fb.T + h @ recurrent + r.bias)
        y = np.hstack([np.ones((n, 1)), z, h]) @ W.T
        found.append((y.mean(axis=0), y.std(axis=0)))
    return tuple(np.array(part) for part in zip(*found, strict=True))


def propagated(esn, X, std):
    """Return the same in closed form, from the variance of the outputs in the states."""
    state, means, stds = None, [], []
    for row in X:
        mean, state = esn.predict(Gaussian(row[None], var=np.full((1, len(row)), std**2)), state=state, return_state=True)
        means.append(mean[0])
        stds.append(np.sqrt(state.output_var))
    return np.array(means), np.array(stds)


@pytest.mark.parametrize("feedback", [0.0, 0.3])
@pytest.mark.parametrize("std", [0.1, 0.3])
def test_uncertain_inputs_against_samples(std, feedback):
    X, y = series(600, m=2)
    options = {"feedback_scaling": feedback, "ridge": 1e-3, "initial_state": "zero", "process_noise": 0, "random_state": 0}
    esn = ProbabilisticESN(50, covariance="full", **options).fit(X[:500], y[:500])
    mean, spread = sampled(esn, X[500:525], std, 6_000)
    found, closed = propagated(esn, X[500:525], std)
    assert np.all(np.abs(found - mean) < 0.1 * spread)
    np.testing.assert_allclose(closed, spread, rtol=0.1)
    few = propagated(esn.set_params(covariance="low-rank", rank=25), X[500:525], std)[1]
    np.testing.assert_allclose(few, spread, rtol=0.15)
    paper = propagated(esn.set_params(covariance="diagonal"), X[500:525], std)[1]
    assert np.mean(np.abs(paper / spread - 1.0) > 0.1) > 0.5


@pytest.mark.parametrize("feedback", [0.0, 0.2])
def test_low_rank_form_of_full_rank_is_the_full_form(feedback):
    X, y = series(200)
    blurred = Gaussian(X, var=np.full_like(X, 0.01))
    esn = ProbabilisticESN(20, feedback_scaling=feedback, covariance="full", random_state=0).fit(X, y)
    whole = esn.predict(blurred, return_std=True)
    for rank in (20, 50):
        np.testing.assert_array_equal(esn.set_params(covariance="low-rank", rank=rank).predict(blurred, return_std=True), whole)
    np.testing.assert_array_equal(esn.set_params(covariance="auto").predict(blurred, return_std=True), whole)


# ---------------------------------------------------------------- parts of the variance


def test_std_matches_cov_and_grows_with_the_input_variance():
    X, y = series(300, m=2)
    esn = ProbabilisticESN(40, noise=0.001, random_state=0).fit(X, y)
    mean, std = esn.predict(X, return_std=True)
    same, cov = esn.predict(X, return_cov=True)
    np.testing.assert_array_equal(mean, same)
    np.testing.assert_allclose(np.sqrt(np.diagonal(cov, axis1=1, axis2=2)), std, rtol=1e-9)
    assert np.linalg.eigvalsh(cov).min() > 0.0
    wider = esn.predict(Gaussian(X, var=np.full_like(X, 0.04)), return_std=True)[1]
    assert (wider > std).all()
    residual = np.sqrt(np.diagonal(esn.readout_.residual_cov))
    assert (std >= residual).all()


@FORMS
def test_parts_of_the_variance_match_their_formulas(covariance):
    """W Σ_b Wᵀ with Σ_b of [1, z, h] for one uncertain row after a certain state, Cov(z, h) by Stein."""
    X, y = series(200, m=2)
    options = {"feedback_scaling": 0.3, "noise": 0.02, "process_noise": 0, "initial_state": "zero", "random_state": 0}
    esn = ProbabilisticESN(20, covariance=covariance, rank=40, **options).fit(X, y)
    blurred = Gaussian(X[:60], var=np.full((60, 2), 0.3))
    whole = esn.predict(blurred, return_cov=True)[1]
    each = {name: esn.predict(blurred, return_cov=True, parts=(name,))[1] for name in ("state", "noise", "weights")}
    np.testing.assert_allclose(sum(each.values()), whole, rtol=1e-12)
    std = esn.predict(blurred, return_std=True, parts=["state"])[1]
    np.testing.assert_allclose(std**2, np.diagonal(each["state"], axis1=1, axis2=2), rtol=1e-9)
    assert (esn.predict(blurred, return_std=True, parts=())[1] == 0.0).all()

    W, R, root = esn.readout_.weights, esn.readout_.residual_cov, esn.readout_.covariance_root
    net, L = esn.reservoir_, esn.leak_rate
    a, S = net.W_in @ X[0] + net.bias, 0.3 * net.W_in @ net.W_in.T
    b, features = np.concatenate([[1.0], X[0], L * moments("tanh", a, np.diag(S)).mean]), np.zeros((23, 23))
    features[1:3, 1:3], features[1:3, 3:] = 0.3 * np.eye(2), 0.3 * L * net.W_in.T * gain("tanh", a, np.diag(S))
    features[3:, 1:3], features[3:, 3:] = features[1:3, 3:].T, L**2 * unit_covariance("tanh", a, S) + 0.02**2 * np.eye(20)
    if covariance == "diagonal":
        features = np.diag(np.diag(features))
    np.testing.assert_allclose(each["state"][0], W @ features @ W.T, rtol=1e-6)
    np.testing.assert_allclose(each["noise"], np.broadcast_to(R, whole.shape))
    leverage = np.sum(np.square(b @ root)) + np.trace(root.T @ features @ root)
    np.testing.assert_allclose(each["weights"][0], leverage * R, rtol=1e-6)


# ---------------------------------------------------------------- starts


@FORMS
def test_initial_state_as_a_gaussian(covariance):
    X, y = series()
    start = Gaussian(np.full(20, 0.1), var=np.full(20, 0.25))
    esn = ProbabilisticESN(20, covariance=covariance, rank=10, initial_state=start, random_state=0).fit(X, y)
    std = esn.predict(X, return_std=True)[1]
    assert std[0] > 2.0 * std[-1]  # forgotten by the end
    plain = EchoStateNetwork(20, random_state=0).fit(X, y)
    certain = clone(esn).set_params(initial_state=Gaussian(np.full(20, 0.1))).fit(X, y)
    states, _, _ = run(plain.reservoir_, X, State(np.full(20, 0.1), None, np.zeros(1), None))
    np.testing.assert_allclose(certain.transform(X), states, atol=1e-9)
    with pytest.raises(ValueError, match="initial_state must be a Gaussian over the 30 units, got one of shape"):
        clone(esn).set_params(n_units=30).fit(X, y)


def test_gaussian_initial_state_matches_samples_in_every_form():
    X, y = series()
    rng = np.random.default_rng(0)
    factor, own = 0.3 * rng.standard_normal((20, 2)), np.full(20, 0.01)
    both = Gaussian(np.zeros(20), factor=factor, var=own)
    options = {"covariance": "full", "process_noise": 0, "ridge": 1e-3, "random_state": 0}
    esn = ProbabilisticESN(20, initial_state=both, **options).fit(X, y)
    W, r, h = esn.readout_.weights, esn.reservoir_, both.sample(20_000, rng=1)
    for row in X[:3]:
        h = (1.0 - r.leak_rate) * h + r.leak_rate * np.tanh(row @ r.W_in.T + h @ r.W.toarray().T + r.bias)
    state = esn.predict(X[:3], return_state=True)[1]
    np.testing.assert_allclose(np.sqrt(state.output_var), (h @ W[0, 3:]).std(), rtol=0.1)
    dense = clone(esn).set_params(initial_state=Gaussian(np.zeros(20), cov=factor @ factor.T + np.diag(own))).fit(X, y)
    np.testing.assert_allclose(dense.predict(X, return_std=True), esn.predict(X, return_std=True), atol=1e-8)


def first_rows(esn, X, y, n=12):
    """Return errors and standardized errors (origins, n) of runs that start within a series."""
    errors, ratios = [], []
    for k in range(0, len(X) - n, 29):
        mean, std = esn.predict(X[k : k + n], return_std=True)
        errors.append(mean[:, 0] - y[k : k + n, 0])
        ratios.append(errors[-1] / std[:, 0])
    return np.array(errors), np.array(ratios)


@pytest.mark.parametrize("leak_rate", [0.5, 0.1])
def test_learned_initial_state_is_accurate_and_calibrated(leak_rate):
    x, other = lorenz(3001), lorenz(1501, seed=1)
    errors, ratios = {}, {}
    for start in ("learned", "stationary", "zero"):
        esn = ProbabilisticESN(60, leak_rate=leak_rate, washout="auto", initial_state=start, random_state=0).fit(x[:-1], x[1:])
        errors[start], ratios[start] = first_rows(esn, other[:-1], other[1:])
    for ratio in (ratios["learned"], ratios["stationary"], ratios["learned"][:, 0], ratios["stationary"][:, 0]):
        assert 0.3 < np.mean(ratio**2) < 3.0
    size = {start: np.sqrt(np.mean(part**2, axis=0)) for start, part in errors.items()}
    assert size["learned"][0] < 0.4 * size["zero"][0]  # one row is known, and half of what x does hangs on its slope
    assert np.all(size["learned"][1:6] < 0.25 * size["zero"][1:6])
    assert np.mean(ratios["zero"] ** 2) > 3.0 * np.mean(ratios["learned"] ** 2)


@FORMS
@pytest.mark.parametrize("feedback", [0.0, 0.3])
@pytest.mark.parametrize(("start", "noise", "uncertain"), [
    ("learned", 0.0, [3, 70, 71]),  # among the rows that a learned start looks at; and after all is certain again
    ("learned", 0.0, [0, 70]), ("learned", 0.0, [1, 70]), ("stationary", 0.0, [3, 70, 71]), ("zero", 0.0, [3, 70, 71]),
    ("zero", 0.01, [3, 70, 71]),
])  # fmt: skip
def test_runs_can_be_split_anywhere(start, noise, uncertain, feedback, covariance):
    X, y = series(500, m=2)
    esn = ProbabilisticESN(25, feedback_scaling=feedback, covariance=covariance, rank=10, initial_state=start, random_state=0)
    esn.set_params(process_noise=0, ridge=1e-3, noise=noise).fit(X[:400], y[:400])
    var = np.zeros((100, 2))
    var[uncertain] = 0.01
    rows = X[400:]
    whole = esn.predict(Gaussian(rows, var=var), return_cov=True)
    for cuts in ((0, 1, 2, 3, 4, 5, 30, 100), (0, 50, 71, 100), (*range(0, 100, 7), 100)):
        state, parts = None, []
        for first, stop in pairwise(cuts):
            some = Gaussian(rows[first:stop], var=var[first:stop])
            *part, state = esn.predict(some, return_cov=True, state=state, return_state=True)
            parts.append(part)
        for i in range(2):
            np.testing.assert_allclose(np.concatenate([part[i] for part in parts]), whole[i], rtol=1e-10, atol=1e-13)


def test_runs_can_be_split_where_the_state_becomes_certain():
    X, y = series(500)
    esn = ProbabilisticESN(25, ridge=1e-2, random_state=0).fit(X[:300], y[:300])
    state, known = None, []
    for row in X[300:]:
        _, state = esn.predict(row[None], state=state, return_state=True)
        known.append(state.var is None)
    place = known.index(True)
    assert 10 < place < 190  # it does happen
    assert all(known[place:])
    whole = esn.predict(X[300:], return_std=True)
    for cut in (300 + place, 301 + place, 302 + place):
        *first, state = esn.predict(X[300:cut], return_std=True, return_state=True)
        second = esn.predict(X[cut:], return_std=True, state=state)
        for i in range(2):
            np.testing.assert_allclose(np.concatenate([first[i], second[i]]), whole[i], rtol=1e-9, atol=1e-12)


def test_states_can_be_used_by_another_covariance_form():
    X, y = series(300)
    blurred = Gaussian(X, var=np.full_like(X, 0.01))
    esn = ProbabilisticESN(20, covariance="full", random_state=0).fit(X, y)
    whole = esn.predict(blurred, return_std=True)[1]
    full = esn.predict(Gaussian(X[:100], var=0.01), return_state=True)[1]
    few = esn.set_params(covariance="low-rank", rank=10).predict(Gaussian(X[:100], var=0.01), return_state=True)[1]
    for form, state in (("low-rank", full), ("full", few)):
        again = esn.set_params(covariance=form).predict(Gaussian(X[100:], var=0.01), return_std=True, state=state)[1]
        np.testing.assert_allclose(again, whole[100:], rtol=0.05)
    diagonal = esn.set_params(covariance="diagonal").predict(X[100:], return_std=True, state=full)[1]
    assert np.isfinite(diagonal).all()
    for name, part in (("var", np.zeros(3)), ("cov", np.zeros((3, 3))), ("own", np.zeros(4)), ("output_var", np.zeros(2))):
        with pytest.raises(ValueError, match="state must be of this network, with "):
            esn.predict(X, state=full._replace(**{name: part}))


def test_partial_fit_alone_has_no_learned_initial_state():
    X, y = series()
    esn = ProbabilisticESN(20, random_state=0).partial_fit(X, y)
    assert esn.start_ is None
    np.testing.assert_array_equal(esn.predict(X), clone(esn).set_params(initial_state="zero").partial_fit(X, y).predict(X))
    with pytest.raises(ValueError, match=r"process_noise must be 0 or 'auto' before fit, .* got 0.1"):
        ProbabilisticESN(20, process_noise=0.1).partial_fit(X, y)
    assert esn.fit(X, y).start_ is not None


@FORMS
def test_fit_on_uncertain_rows(covariance):
    X, y = series(300)
    X32, y32 = X.astype(np.float32), y.astype(np.float32)
    esn = ProbabilisticESN(20, covariance=covariance, rank=10, feedback_scaling=0.1, random_state=0)
    esn.fit(Gaussian(X32, var=np.full_like(X32, 0.05)), y32)
    assert esn.score(X, y) > 0.8
    assert esn.state_.var.shape == (20,)
    assert (esn.state_.var > 0.0).all()
    certain = clone(esn).fit(Gaussian(X32, var=np.zeros_like(X32)), y32)
    np.testing.assert_array_equal(certain.readout_.weights, clone(esn).fit(X32, y32).readout_.weights)
    assert not np.allclose(certain.readout_.weights, esn.readout_.weights)
    for part in esn.predict(Gaussian(X32, var=np.full_like(X32, 0.05)), return_std=True):
        assert part.dtype == np.float32
        assert np.isfinite(part).all()
    before, more = esn.readout_.weights, Gaussian(X32[:50], var=np.full_like(X32[:50], 0.05))
    assert not np.array_equal(esn.partial_fit(more, y32[:50]).readout_.weights, before)


@pytest.mark.parametrize("lengths", [None, [10] * 3000])
def test_sample_for_the_initial_state_has_a_fixed_size(lengths, monkeypatch):
    sizes = []

    def learn(pieces, *_, **__):
        sizes.append((sum(len(z) for z, _, _ in pieces), sum(len(z) - skip for z, _, skip in pieces)))
        return Start(np.eye(12), *(np.zeros(k) for k in (1, 1, 12, 12)), 10, 0, 1)

    monkeypatch.setattr("pesn.esn.probabilistic.learn_start", learn)
    X = np.sin(0.1 * np.arange(30_000.0))[:, None]
    ProbabilisticESN(10, density=0.5, washout=2, random_state=0).fit(X, X, lengths=lengths)
    kept, learned = sizes[0]
    need = 6 * (600 + 10)
    assert 0.6 * need < learned <= 1.05 * need
    assert kept < 1.4 * need


# ---------------------------------------------------------------- process noise


@FORMS
def test_process_noise_increases_the_std(covariance):
    X, y = series(300)
    stds = [
        ProbabilisticESN(20, covariance=covariance, rank=10, process_noise=share, random_state=0).fit(X, y).predict(X, True)[1]
        for share in (0, 1e-3, 1e-2)
    ]
    assert (stds[0][50:] < stds[1][50:]).all()
    assert (stds[1][50:] < stds[2][50:]).all()


def test_process_noise_is_selected_with_feedback():
    x = lorenz(2600)
    X, rows = np.zeros((2600, 1)), slice(2000, 2600)
    scores, ratios = {}, {}
    for noise in ("auto", 0):
        esn = ProbabilisticESN(60, feedback_scaling=0.5, washout=100, process_noise=noise, random_state=0).fit(X[:2000], x[:2000])
        states, _, _ = run(esn.reservoir_, X, feedback=x)
        scores[noise], ratios[noise] = [], []
        for k in range(rows.start, rows.stop - 21, 29):
            ahead = slice(k + 1, k + 21)
            mean, std = esn.predict(X[ahead], return_std=True, state=State(states[k], None, x[k], None))
            scores[noise].append(crps_gaussian(x[ahead], mean, std))
            ratios[noise].append(((mean - x[ahead]) / std) ** 2)
        if noise == "auto":
            assert 0.0 < esn.process_noise_ < 1.0
    assert np.mean(scores["auto"]) < 0.95 * np.mean(scores[0])
    assert np.median(ratios["auto"]) < np.median(ratios[0])
    assert ProbabilisticESN(20, random_state=0).fit(x[:-1], x[1:]).process_noise_ == 0.0  # nothing is fed back


# ---------------------------------------------------------------- moments


@pytest.mark.parametrize("method", ["exact", "mixture", "spline", ("spline", Mesh(-10, 10, 401))])
def test_other_moment_methods_agree(method):
    X, y = series(60)
    uncertain = Gaussian(X, var=np.full_like(X, 0.1))
    esn = ProbabilisticESN(15, noise=0.1, random_state=0).fit(X, y)
    states = esn.transform(uncertain)
    np.testing.assert_allclose(esn.set_params(moments=method).transform(uncertain), states, atol=1e-4)


@pytest.mark.parametrize("covariance", ["diagonal", "full", "low-rank"])
@pytest.mark.parametrize("feedback", [0.0, 0.2])
def test_tiny_process_noise_does_not_change_the_covariance(covariance, feedback):
    """Without it the diagonal form is a compiled loop, with it single steps: both agree, between outputs too."""
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.normal(size=(300, 1)), axis=0) % 3.0 - 1.5
    Y = np.column_stack([np.roll(X[:, 0], 1), np.roll(X[:, 0], 2) ** 2])
    uncertain = Gaussian(X[:40], var=np.full((40, 1), 0.3**2))
    found = []
    for share in (0.0, 1e-14):
        options = {"covariance": covariance, "rank": 10, "feedback_scaling": feedback, "initial_state": "zero"}
        esn = ProbabilisticESN(20, process_noise=share, random_state=0, **options)
        found.append(esn.fit(X, Y).predict(uncertain, return_cov=True)[1])
    std = np.sqrt(np.diagonal(found[0], axis1=1, axis2=2)).max(axis=0)
    within = 1e-4 if covariance == "low-rank" else 1e-7  # which columns are cut hangs on the noise
    np.testing.assert_allclose(found[1] / np.outer(std, std), found[0] / np.outer(std, std), rtol=0, atol=within)
    assert np.abs(found[0][:, 0, 1] / np.prod(std)).max() > 0.01  # outputs of the same units are not independent


def test_few_rows_give_a_large_std():
    X, y = series(400)
    nothing = ProbabilisticESN(50, washout=50, random_state=0).partial_fit(X[:20], y[:20])
    assert np.all(nothing.predict(X, return_std=True)[1] >= 1.0)
    assert np.all(ProbabilisticESN(50, washout=1).fit(X[:2], np.zeros(2)).predict(X[5:], return_std=True)[1] > 0.1)
    wave = np.sin(0.2 * np.arange(5.0, 406.0))[:, None]  # not from 0: one row knows of no other target than its own
    X, y = wave[:-1], wave[1:]
    for rows in (1, 2, 3, 5, 10, 20):
        esn = ProbabilisticESN(50, washout=1, random_state=0).fit(X[: rows + 1], y[: rows + 1])
        mean, std = esn.predict(X[rows:], return_std=True)
        error = np.sqrt(np.mean((mean - y[rows:]) ** 2))
        assert 0.3 * error < np.sqrt(np.mean(std**2)) < 30.0 * error


def test_monte_carlo_moments_are_reproducible_and_new_in_every_block(monkeypatch):
    X, y = np.ones((40, 1)), np.sin(np.arange(40.0))
    uncertain = Gaussian(X, var=np.full_like(X, 0.1))
    esn = ProbabilisticESN(15, leak_rate=1.0, moments="monte-carlo", random_state=0).fit(uncertain, y)
    np.testing.assert_array_equal(esn.predict(uncertain), clone(esn).fit(uncertain, y).predict(uncertain))
    monkeypatch.setattr("pesn.esn.probabilistic.run_sequences.__defaults__", (5,))
    states = esn.transform(uncertain)
    assert not np.allclose(states[25:30], states[30:35], rtol=0.0, atol=1e-6)


@pytest.mark.parametrize(("call", "message"), [
    *((lambda esn, X, parts=parts: esn.predict(X, parts=parts), "parts must be some of state, noise, weights, in a tuple or")
      for parts in ("state", ("luck",), None, 3)),
    (lambda esn, X: esn.predict(X, return_std=True, return_cov=True), "exclude each other"),
    (lambda esn, X: esn.predict(X, [25, 25]), r"return_std must be True or False, got \[25, 25\]"),
    (lambda esn, X: esn.predict(X, return_cov=1), "return_cov must be True or False, got 1"),
    (lambda esn, X: esn.predict(Gaussian(X[:, :1], var=0.1)), "X has 1 features"),
    (lambda esn, X: esn.predict(Gaussian(X[0], var=0.1)), "Expected 2D array"),
    (lambda esn, X: EchoStateNetwork(10).fit(X, X).predict(Gaussian(X, var=0.1)), r"got a pesn\.Gaussian; use pesn\.Prob"),
    (lambda esn, X: EchoStateNetwork(10).fit(Gaussian(X, var=0.1), X), r"got a pesn\.Gaussian; use pesn\.ProbabilisticESN"),
    *((lambda esn, X, name=name, value=value: esn.set_params(**{name: value}).fit(X, X), name) for name, value in (
        ("covariance", "dense"), ("initial_state", "ones"), ("process_noise", -1), ("process_noise", np.zeros(3)),
        ("process_noise", "much"), ("moments", "sureface"), ("rank", 0), ("washout", "long"))),
])  # fmt: skip
def test_wrong_arguments_are_named(call, message):
    X, y = series(50)
    with pytest.raises((TypeError, ValueError), match=message):
        call(ProbabilisticESN(10, random_state=0).fit(X, y), X)
