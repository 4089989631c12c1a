"""What the probabilistic network adds.

Claims: its variance is that of samples where the diagonal covariance is exact, grows with the input's, holds residuals and
weights, goes on where a run stopped and follows the errors online; an uncertain start fades; rival moments agree; what comes in
a later version is refused by name.
"""

import numpy as np
import pytest
from sklearn.base import clone

from pesn.esn import EchoStateNetwork
from pesn.gaussian import Gaussian
from pesn.moments.spline import Mesh
from pesn.probabilistic_esn import ProbabilisticESN
from pesn.reservoir import State, run


def series(n=300, d=2, m=1, seed=0):
    """Smooth inputs, and targets that need memory."""
    rng = np.random.default_rng(seed)
    X = np.sin(np.arange(n)[:, None] * rng.uniform(0.05, 0.4, d)) + 0.1 * rng.standard_normal((n, d))
    y = np.stack([np.roll(X[:, 0], 1 + j) * X[:, -1] for j in range(m)], axis=1)
    return X, y


def test_the_variance_goes_on_too():
    X, y = series(400)
    esn = ProbabilisticESN(40, feedback_scaling=0.3, noise=0.01, random_state=0).fit(X[:200], y[:200])
    uncertain = Gaussian(X[200:], var=np.full((200, 2), 0.01))
    _, whole = esn.predict(uncertain, return_std=True)
    _, first, state = esn.predict(Gaussian(X[200:300], var=0.01), return_std=True, return_state=True)
    _, second = esn.predict(Gaussian(X[300:], var=0.01), return_std=True, state=state)
    np.testing.assert_allclose(np.concatenate([first, second]), whole, rtol=1e-12)


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


def test_variance_of_the_output_is_that_of_samples():
    # Units do not see each other here (one unit, no recurrence to speak of): the diagonal covariance is then exact but for
    # what passes the leak, so samples of the input must spread as predicted.
    X, y = series(200, d=1)
    esn = ProbabilisticESN(1, leak_rate=1.0, spectral_radius=1e-8, density=1.0, random_state=0).fit(X, y)
    rng, var = np.random.default_rng(0), 0.04
    samples = np.stack([esn.transform(X[:5] + np.sqrt(var) * rng.standard_normal((5, 1)))[:, 0] for _ in range(4000)])
    state = esn.predict(Gaussian(X[:5], var=var), return_state=True)[1]
    np.testing.assert_allclose(state.var[0], samples[:, -1].var(), rtol=0.1)
    np.testing.assert_allclose(state.mean[0], samples[:, -1].mean(), atol=5 * samples[:, -1].std() / 4000**0.5)


def test_std_is_the_root_of_the_diagonal_of_cov_and_grows_with_the_input():
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


def test_initial_state_as_a_gaussian():
    X, y = series()
    start = Gaussian(np.full(20, 0.1), var=np.full(20, 0.25))
    esn = ProbabilisticESN(20, initial_state=start, random_state=0).fit(X, y)
    std = esn.predict(X, return_std=True)[1]
    assert std[0] > 2.0 * std[-1]  # forgotten by the end
    plain = EchoStateNetwork(20, random_state=0).fit(X, y)
    certain = ProbabilisticESN(20, initial_state=Gaussian(np.full(20, 0.1)), random_state=0).fit(X, y)
    states, _, _ = run(plain.reservoir_, X, State(np.full(20, 0.1), None, np.zeros(1), None))
    np.testing.assert_allclose(certain.transform(X), states, atol=1e-9)
    with pytest.raises(ValueError, match="initial_state must be a Gaussian over the 30 units, got one of shape"):
        clone(esn).set_params(n_units=30).fit(X, y)


@pytest.mark.parametrize("method", ["exact", "mixture", "spline", ("spline", Mesh(-10, 10, 401))])
def test_rival_moments_agree(method):
    X, y = series(60)
    uncertain = Gaussian(X, var=np.full_like(X, 0.1))
    esn = ProbabilisticESN(15, noise=0.1, random_state=0).fit(X, y)
    states = esn.transform(uncertain)
    np.testing.assert_allclose(esn.set_params(moments=method).transform(uncertain), states, atol=1e-4)


def test_monte_carlo_moments_are_reproducible():
    X, y = series(40)
    uncertain = Gaussian(X, var=np.full_like(X, 0.1))
    esn = ProbabilisticESN(15, moments="monte-carlo", random_state=0).fit(uncertain, y)
    np.testing.assert_array_equal(esn.predict(uncertain), clone(esn).fit(uncertain, y).predict(uncertain))


def test_monte_carlo_does_not_draw_the_same_numbers_in_every_block(monkeypatch):
    X, y = np.ones((40, 1)), np.sin(np.arange(40.0))
    esn = ProbabilisticESN(15, leak_rate=1.0, moments="monte-carlo", random_state=0).fit(X, y)
    monkeypatch.setattr("pesn.sequences.blocks.__defaults__", (5,))
    states = esn.transform(Gaussian(X, var=np.full_like(X, 0.1)))
    assert not np.allclose(states[25:30], states[30:35], rtol=0.0, atol=1e-6)


def test_without_evidence_there_is_no_certainty():
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


def test_a_cut_before_the_first_uncertain_row_does_not_show():
    X, y = series(400)
    esn = ProbabilisticESN(40, feedback_scaling=0.3, random_state=0).fit(X[:200], y[:200])
    var = np.zeros((200, 2))
    var[120:150] = 0.01
    whole = esn.predict(Gaussian(X[200:], var=var), return_std=True)
    *first, state = esn.predict(X[200:300], return_std=True, return_state=True)
    second = esn.predict(Gaussian(X[300:], var=var[100:]), return_std=True, state=state)
    for i in range(2):
        np.testing.assert_array_equal(np.concatenate([first[i], second[i]]), whole[i])


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("covariance", "full", "use 'diagonal'"),
        ("covariance", "low-rank", "use 'diagonal'"),
        ("covariance", "auto", "use 'diagonal'"),
        ("initial_state", "learned", "use 'zero'"),
        ("initial_state", "stationary", "use 'zero'"),
        ("process_noise", "auto", "use 0"),
        ("process_noise", 0.1, "use 0"),
        ("washout", "auto", "use a number of rows"),
    ],
)
def test_what_comes_later_is_refused(name, value, remedy):
    with pytest.raises(ValueError, match=f"{name}={value!r} is not available in this version; {remedy}"):
        ProbabilisticESN(10, **{name: value}).fit(*series(50))


def test_uncertain_inputs_need_the_probabilistic_network():
    X, y = series(50)
    for call in (EchoStateNetwork(10).fit(X, y).predict, lambda x: EchoStateNetwork(10).fit(x, y)):
        with pytest.raises(TypeError, match=r"got a pesn\.Gaussian; use pesn\.ProbabilisticESN"):
            call(Gaussian(X, var=0.1))


def test_probabilistic_arguments():
    X, y = series(50)
    esn = ProbabilisticESN(10, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="exclude each other"):
        esn.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="X has 1 features"):
        esn.predict(Gaussian(X[:, :1], var=0.1))
    with pytest.raises(ValueError, match="Expected 2D array"):
        esn.predict(Gaussian(X[0], var=0.1))
    for name, value in (
        ("covariance", "dense"),
        ("initial_state", "ones"),
        ("process_noise", -1),
        ("process_noise", np.zeros(3)),
        ("moments", "sureface"),
    ):
        with pytest.raises(ValueError, match=name):
            clone(esn).set_params(**{name: value}).fit(X, y)
