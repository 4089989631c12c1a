"""The ensemble matches the full form for small variances, and samples for large ones."""

import numpy as np
import pytest

from pesn import Gaussian, ProbabilisticESN

PARTS = ("state",)


def rows(n=60, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sin(np.arange(n)[:, None] * rng.uniform(0.1, 0.5, d)) + 0.1 * rng.standard_normal((n, d))
    return X, np.stack([np.roll(X[:, 0], 1), X[:, 0] * X[:, 1]], axis=1)


def fitted(covariance="ensemble", n_members=2000, **more):
    X, y = rows()
    parameters = {"density": 0.3, "washout": 5, "random_state": 0, "process_noise": 0.0, **more}
    return ProbabilisticESN(15, covariance=covariance, n_members=n_members, **parameters).fit(X, y)


def uncertain(std, n=12):
    X, _ = rows(n, seed=1)
    return Gaussian(X, var=np.full(X.shape, std**2))


@pytest.mark.parametrize("feedback", [0.0, 0.3])
def test_ensemble_matches_the_full_form_for_small_variances(feedback):
    members, full = (fitted(form, feedback_scaling=feedback, initial_state="zero") for form in ("ensemble", "full"))
    X = uncertain(1e-3)
    mean, cov = members.predict(X, return_cov=True, parts=PARTS)
    exact, exact_cov = full.predict(X, return_cov=True, parts=PARTS)
    std = np.sqrt(np.diagonal(exact_cov, axis1=1, axis2=2))
    assert np.all(np.abs(mean - exact) < 5.0 * std / np.sqrt(2000))
    assert np.all(np.abs(cov - exact_cov) < 6.0 * std[:, :, None] * std[:, None] / np.sqrt(2000))
    np.testing.assert_array_equal(cov, np.swapaxes(cov, 1, 2))
    both = [esn.predict(X, return_std=True)[1] for esn in (members, full)]  # with residuals and weights
    np.testing.assert_allclose(*both, rtol=0.05)


def test_ensemble_matches_samples_for_large_variances():
    """With one deterministic network per sample."""
    members = fitted(initial_state="zero", feedback_scaling=0.3)
    X, rng = uncertain(0.8), np.random.default_rng(5)
    mean, cov = members.predict(X, return_cov=True, parts=PARTS)
    r, W, L = members.reservoir_, members.readout_.weights, members.leak_rate
    h, y = np.zeros((4000, 15)), np.zeros((4000, 2))
    for k, (m, v) in enumerate(zip(X.mean, X.var, strict=True)):
        z = m + np.sqrt(v) * rng.standard_normal((4000, 2))
        h = (1.0 - L) * h + L * np.tanh(z @ r.W_in.T + y @ r.W_fb.T + h @ r.W.toarray().T + r.bias)
        y = np.hstack([np.ones((4000, 1)), z, h]) @ W.T
        std = y.std(axis=0)
        assert np.all(np.abs(y.mean(axis=0) - mean[k]) < 5.0 * std * np.sqrt(1 / 4000 + 1 / 2000))
        assert np.all(np.abs(np.cov(y.T) - cov[k]) < 8.0 * np.outer(std, std) * np.sqrt(1 / 4000 + 1 / 2000))


def test_random_state_determines_the_members():
    X = uncertain(0.1)
    assert np.all(fitted(n_members=np.int64(2)).predict(X, return_std=True)[1] > 0.0)  # the fewest that have a variance
    one, same, other = (fitted(n_members=16, random_state=seed) for seed in (0, 0, 1))
    first = one.predict(X, return_std=True)
    for again in (one, same):
        np.testing.assert_array_equal(again.predict(X, return_std=True), first)
    assert np.abs(other.predict(X, return_std=True)[1] - first[1]).max() > 1e-6


def test_ensemble_runs_continue_from_the_returned_state():
    """After an uncertain initial state nothing is drawn: the members are kept, and runs can be split anywhere."""
    esn = fitted(n_members=32, initial_state=Gaussian(np.zeros(15), var=np.full(15, 0.2)))
    X, _ = rows(20, seed=2)
    whole = esn.predict(X, return_std=True)
    *first, state = esn.predict(X[:8], return_std=True, return_state=True)
    rest = esn.predict(X[8:], return_std=True, state=state)
    for a, b, c in zip(whole, first, rest, strict=True):
        np.testing.assert_allclose(np.concatenate([b, c]), a, rtol=1e-10, atol=1e-12)
    # what other forms make of it has the same covariance
    esn.covariance = "full"
    np.testing.assert_allclose(esn.predict(X[8:], return_std=True, state=state)[1][0], rest[1][0], rtol=0.05)


@pytest.mark.parametrize(
    ("n_members", "kind", "message"),
    [(1, ValueError, "n_members must .* 2 .*got 1"), (0, ValueError, "got 0"), (2.5, TypeError, "n_members .*got 2.5"),
     ("many", TypeError, "n_members .*got 'many'"), (None, TypeError, "n_members .*got None")],
)  # fmt: skip
def test_invalid_numbers_of_members_are_named(n_members, kind, message):
    with pytest.raises(kind, match=message):
        fitted(n_members=n_members)


def test_ensemble_learns_online_and_is_saved(save_and_load):
    X, y = rows()
    esn = fitted(n_members=64, noise=0.05).partial_fit(X[:10], y[:10])
    again = save_and_load(esn)
    assert again.n_members == 64
    for a, b in zip(again.predict(uncertain(0.1), return_std=True), esn.predict(uncertain(0.1), return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)
