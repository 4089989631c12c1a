"""Recursive least squares is the exponentially weighted batch solution.

It predicts before it learns. Unlike the textbook's recursion it is stable over many steps and without excitation.
"""

import numpy as np
import pytest

import pesn
from pesn.readout.ridge import Gram, solve
from pesn.readout.rls import RLSState, rls_start, rls_update, rotation


def data(n, p, m=2, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    features = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1)) + 0.5 * rng.normal(size=(n, 1))])
    weights = rng.normal(size=(m, p))
    return features, features @ weights.T + noise * rng.normal(size=(n, m)), weights


def fit(features, targets, ridge):
    return solve(Gram(features.shape[1], targets.shape[1]).add(features, targets), ridge)


def same(state, other):
    for a, c in zip(state, other, strict=True):
        np.testing.assert_array_equal(a, c)


def weighted_batch(state, b, y, lam):
    """Sum precision and right-hand side, and solve at every step."""
    p = b.shape[1]
    every, rows, weight = rotation(p, lam)
    A = np.linalg.inv(state.root @ state.root.T)
    c = A @ state.weights.T
    W, predictions, row = state.weights, [], 0
    for t in range(len(b)):
        predictions.append(W @ b[t])
        A, c = lam * A + np.outer(b[t], b[t]), lam * c + np.outer(b[t], y[t])
        if every and (t + 1) % every == 0:
            for _ in range(rows):
                line = np.sqrt(weight) * state.prior_root[row]
                A, c = A + np.outer(line, line), c + np.outer(line, state.prior_weights @ line)
                row = (row + 1) % p
        W = np.linalg.solve(A, c).T
    return np.array(predictions), W, A


def textbook(b, lam, delta):
    """Run the recursion of P as printed; return the smallest eigenvalue relative to the largest, once it is negative."""
    P = np.eye(b.shape[1]) * delta
    for t in range(len(b)):
        Pb = P @ b[t]
        P = (P - np.outer(Pb / (lam + b[t] @ Pb), Pb)) / lam
        if t % 50 == 0:
            values = np.linalg.eigvalsh(P / 2 + P.T / 2)
            if values[0] < 0.0:
                return values[0] / np.abs(values).max()
    return values[0] / values[-1]


def resting(n, p, seed=0):
    """Return rows that are constant in the middle half, with a change of the weights in the middle."""
    b, _, weights = data(n, p, seed=seed)
    b[n // 4 : 3 * n // 4] = b[0]
    rng = np.random.default_rng(seed + 1)
    y = b @ weights.T
    y[n // 2 :] += 0.5 * b[n // 2 :] @ rng.normal(size=weights.shape).T
    return b, y + 0.1 * rng.normal(size=y.shape)


# ---------------------------------------------------------------- the same as the batch solution


@pytest.mark.parametrize("p", [1, 3, 12, 17])
@pytest.mark.parametrize("lam", [0.3, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0])
def test_recursion_matches_the_weighted_batch_solution(lam, p):
    b, y, _ = data(301, p)
    state = rls_start((p, 2, 10.0), weights=np.ones((2, p))) if p < 12 else rls_start(fit(b[:100], y[:100], 1e-3))
    predictions, after = rls_update(state, b, y, lam)
    expected, W, A = weighted_batch(state, b, y, lam)
    np.testing.assert_allclose(predictions, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(after.weights, W, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(after.root @ after.root.T, np.linalg.inv(A), rtol=1e-8, atol=1e-10)


# ---------------------------------------------------------------- holding


@pytest.mark.parametrize("lam", [0.95, 0.99, 0.999, 1.0])
@pytest.mark.parametrize("start", ["delta", "batch"])
def test_recursion_is_stable_over_100_000_steps_and_after_rest(lam, start):
    n, p = 100_000, 12
    b, y = resting(n, p)
    state = rls_start((p, 2, 100.0) if start == "delta" else fit(b[:1000], y[:1000], 1e-6))
    errors = []
    for part in range(100):
        rows = slice(part * n // 100, (part + 1) * n // 100)
        predictions, state = rls_update(state, b[rows], y[rows], lam)
        assert np.isfinite(state.root).all()
        values = np.linalg.svd(state.root, compute_uv=False)
        assert values[-1] > 1e-4 * values[0]  # P positive definite, far from its limits
        errors.append(np.abs(predictions - y[rows]).max())
    # At rest the weights cannot know of their change. Re-excited (part 75), the first errors are those of unknown weights,
    # |ΔW b|, and no larger; then, with forgetting, they are learned.
    unknown = np.abs(y[3 * n // 4 :] - b[3 * n // 4 :] @ np.linalg.lstsq(b[: n // 4], y[: n // 4], rcond=None)[0]).max()
    assert max(errors[75:]) < 3 * unknown
    if lam < 1.0:
        assert max(errors[80:]) < 1.5


@pytest.mark.parametrize("lam", [0.95, 0.99, 0.999])
def test_covariance_tends_to_the_prior_without_excitation(lam):
    b, y, _ = data(500, 12)
    readout = fit(b, y, 1e-6)
    still = np.zeros((40_000, 12))
    _, state = rls_update(rls_start(readout, weights=readout.weights + 1.0), still, np.zeros((40_000, 2)), lam)
    relative = np.linalg.eigvalsh(
        np.linalg.solve(state.prior_root.T, np.linalg.inv(state.root @ state.root.T)) @ np.linalg.inv(state.prior_root)
    )
    assert 0.25 < relative.min() <= relative.max() < 2.6
    np.testing.assert_allclose(state.weights, state.prior_weights, atol=1e-6)


@pytest.mark.parametrize("lam", [0.95, 0.99])
def test_textbook_recursion_loses_positive_definiteness(lam):
    """The reason for the root: on the same data P itself becomes indefinite, not only by rounding."""
    b, y = resting(10_000, 12)
    assert textbook(b, lam, 100.0) < -1e-6
    _, state = rls_update(rls_start((12, 2, 100.0)), b, y, lam)
    values = np.linalg.svd(state.root, compute_uv=False)
    assert values[-1] > 1e-4 * values[0]


# ---------------------------------------------------------------- identities


@pytest.mark.parametrize("lam", [0.5, 0.99, 1.0])
@pytest.mark.parametrize("p", [1, 3, 16, 17])
def test_one_row_per_call_matches_all_rows(p, lam):
    """Up to rounding; earlier states do not change, and continue to the bit from any memory layout."""
    b, y, _ = data(60, p)
    start = rls_start((p, 2, 10.0))
    predictions, whole = rls_update(start, b, y, lam)
    states, copies, seen = [start], [start], []
    for k in range(60):
        prediction, state = rls_update(states[-1], b[k : k + 1], y[k : k + 1], lam)
        copies.append(RLSState(*(np.array(part) for part in state[:4]), state.row, state.waited))
        from_copy, after_copy = rls_update(copies[-2], b[k : k + 1], y[k : k + 1], lam)
        np.testing.assert_array_equal(from_copy, prediction)
        same(after_copy, state)
        states.append(state)
        seen.append(prediction)
    for state, copied in zip(states, copies, strict=True):
        np.testing.assert_array_equal(state.root, copied.root)
        np.testing.assert_array_equal(state.weights, copied.weights)
    np.testing.assert_allclose(np.concatenate(seen), predictions, atol=1e-10)
    np.testing.assert_allclose(states[-1].weights, whole.weights, atol=1e-10)
    assert states[-1][4:] == whole[4:]


@pytest.mark.parametrize("p", [3, 8, 17])
def test_every_root_of_the_covariance_gives_the_same_recursion(p):
    """Roots of singular batch solutions are not triangular."""
    b, y, _ = data(80, p)
    _, state = rls_update(rls_start((p, 2, 10.0)), b[:40], y[:40], 0.99)
    assert not np.tril(state.root, -1).any()
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(p, p)))[0]
    predictions, after = rls_update(state._replace(root=state.root @ turn), b[40:], y[40:], 0.99)
    expected, end = rls_update(state, b[40:], y[40:], 0.99)
    np.testing.assert_allclose(predictions, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(after.root @ after.root.T, end.root @ end.root.T, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(("size", "target"), [(1e200, 1.0), (1e-3, 1.7e308)])
def test_overflow_does_not_change_the_state(size, target):
    """Of the root, and of the weights."""
    state = rls_update(rls_start((12, 2, 1e6)), np.zeros((1, 12)), np.zeros((1, 2)), 0.9)[1]
    before = RLSState(*(np.copy(part) for part in state))
    with pytest.raises(ValueError, match="left the range of float64"):
        rls_update(state, np.full((1, 12), size), np.full((1, 2), target), 0.9)
    same(state, before)


def test_no_rows_change_nothing():
    state = rls_start((3, 2, 10.0))
    predictions, after = rls_update(state, np.zeros((0, 3)), np.zeros((0, 2)), 0.9)
    assert predictions.shape == (0, 2)
    same(after, state)


# ---------------------------------------------------------------- bad input


OUTSIDE = 0.0, -0.5, 1.5, np.nan, np.inf
BAD = [
    *((lambda *given, lam=lam: rls_update(*given, lam), r"forgetting must lie in \(0, 1\], got") for lam in OUTSIDE),
    (lambda state, b, y: rls_update(state, b, np.where(y == y[7, 1], np.inf, y), 0.9),
        "targets must be finite, got inf at index"),
    (lambda state, b, y: rls_update(state, b[:, :2], y, 0.9), r"features must have shape \(rows, 3\), got \(10, 2\)"),
    (lambda state, b, y: rls_update(state, b, y[1:], 0.9), "as many rows, got 10 and 9"),
    (lambda *_: rls_start((3, 2, 0.0)), "delta must be finite and positive, got 0"),
    (lambda *_: rls_start((0, 2, 1.0)), "at least one of each"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "message"), BAD)
def test_bad_input_is_refused(wrong, message):
    b, y, _ = data(10, 3)
    with pytest.raises(ValueError, match=message):
        wrong(rls_start((3, 2, 1.0)), b, y)


def plain_recursion(W, P, b, y, lam):
    """Learn each row as Algorithm 3 of the paper prints it, by plain recursive least squares."""
    for row, target in zip(b, y, strict=True):
        gain = P @ row / (lam + row @ P @ row)
        W = W + np.outer(target - W @ row, gain)
        P = (P - np.outer(gain, row @ P)) / lam
    return W


@pytest.mark.parametrize("delta", [None, 2.0])
def test_networks_without_the_prior_learn_by_the_plain_recursion(delta):
    lam, rng = 0.95, np.random.default_rng(0)
    z = np.cumsum(rng.normal(size=(260, 2)), axis=0) / 10.0
    own = {"forgetting": lam, "rls_delta": delta, "rls_prior": False, "ridge": 1e-3, "random_state": 0}
    esn = pesn.EchoStateNetwork(12, **own).fit(z[:99], z[1:100])
    units = esn.transform(z[:259])[99:]
    start = esn.readout_
    P = start.covariance_root @ start.covariance_root.T if delta is None else delta * np.eye(15)
    expected = plain_recursion(start.weights, P, np.column_stack([np.ones(160), z[99:259], units]), z[100:260], lam)
    state = esn.predict(z[:99], return_state=True)[1]
    esn.partial_fit(z[99:259], z[100:260], state=state)
    np.testing.assert_allclose(esn.readout_.weights, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    with pytest.raises(TypeError, match="state must be what return_state=True gave, got int"):
        esn.partial_fit(z[:5], z[1:6], state=3)
    # units without memory are functions of the row: what update learns from is known exactly
    static = pesn.ProbabilisticESN(12, topology="none", leak_rate=1.0, process_noise=0.0, covariance="diagonal", **own)
    f = pesn.Forecaster(static, target="level", calibrate=False, scale=False).fit(z[:100])
    start, r = f.esn_.readout_, f.esn_.reservoir_
    rows = z[99:259]
    b = np.column_stack([np.ones(160), rows, np.tanh(rows @ np.asarray(r.W_in).T + r.bias)])
    P = start.covariance_root @ start.covariance_root.T if delta is None else delta * np.eye(15)
    expected = plain_recursion(start.weights, P, b, z[100:260] / f.output_std_, lam)
    f.update(z[100:260])
    np.testing.assert_allclose(f.esn_.readout_.weights, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
