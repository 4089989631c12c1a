"""Claim: what a factor is cut to follows from the factor, not from how its last digits were rounded."""

import numpy as np
import pytest

from pesn.linalg import QuadraticForm
from pesn.statespace.cell import Compression
from pesn.statespace.low_rank import LowRank, _turned, truncate

P, N, K = 4, 30, 40


def _factor(seed, dependent):
    """F whose rows of c are a combination of others, twice the same, or 0, as kinematics, feedback and known inputs make them."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(P + N, K)) * np.geomspace(1.0, 1e-3, K)
    for row, of in dependent.items():
        F[row] = sum((weight * F[other] for other, weight in of.items()), np.zeros(K))
    return F


DEPENDENT = ({1: {0: 2.0}}, {2: {}}, {1: {}, 3: {0: 0.3, 2: -1.0}}, {})
COMPRESSION = Compression(12, np.linalg.qr(np.random.default_rng(9).normal(size=(N, 2)))[0])


def _cov(F, own):
    return F @ F.T + np.diag(np.concatenate([np.zeros(P), own]))


@pytest.mark.parametrize("dependent", DEPENDENT, ids=str)
def test_rounding_does_not_choose_what_is_kept(dependent):
    F, own = _factor(0, dependent), np.full(N, 0.1)
    noise = 1e-13 * np.random.default_rng(1).normal(size=F.shape)
    here, beside = (_cov(*truncate(f, own, P, COMPRESSION)) for f in (F, F * (1.0 + noise)))
    np.testing.assert_allclose(here, beside, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dependent", DEPENDENT, ids=str)
def test_what_is_carried_and_read_out_loses_nothing(dependent):
    F, own = _factor(0, dependent), np.full(N, 0.1)
    cut, left = truncate(F, own, P, COMPRESSION)
    assert cut.shape[1] <= max(COMPRESSION.rank, P + COMPRESSION.rank // 2)
    np.testing.assert_allclose(cut @ cut[:P].T, F @ F[:P].T, atol=1e-12)
    np.testing.assert_allclose(cut @ (cut[P:].T @ COMPRESSION.basis), F @ (F[P:].T @ COMPRESSION.basis), atol=1e-12)
    np.testing.assert_allclose(np.diag(_cov(cut, left)), np.diag(_cov(F, own)), atol=1e-12)


@pytest.mark.parametrize("dependent", DEPENDENT, ids=str)
def test_of_the_rest_the_widest_directions_are_kept(dependent):
    F, own = _factor(0, dependent), np.full(N, 0.1)
    seen = np.vstack([F[:P], COMPRESSION.basis.T @ F[P:]])
    directions, size, _ = np.linalg.svd(seen.T, full_matrices=False)
    first = directions[:, size > 1e-9 * size[0]]
    apart = F[P:] - F[P:] @ first @ first.T
    U, size, _ = np.linalg.svd(apart)
    room = COMPRESSION.rank - first.shape[1]
    expected = F[P:] @ first @ first.T @ F[P:].T + (U[:, :room] * size[:room] ** 2) @ U[:, :room].T
    cut, _ = truncate(F, own, P, COMPRESSION)
    np.testing.assert_allclose(cut[P:] @ cut[P:].T, expected, atol=1e-10)


def test_a_batch_is_its_states_whichever_rows_are_dependent():
    F, own = np.stack([_factor(i, dependent) for i, dependent in enumerate(DEPENDENT)]), np.full((len(DEPENDENT), N), 0.1)
    factors, left = truncate(F, own, P, COMPRESSION)
    width = max(COMPRESSION.rank, P + COMPRESSION.rank // 2)
    for i in range(len(DEPENDENT)):
        alone = truncate(F[i], own[i], P, COMPRESSION)
        np.testing.assert_allclose(_cov(factors[i], left[i]), _cov(*alone), atol=1e-12)
    assert factors.shape[-1] <= width


def test_a_trace_is_that_of_the_product():
    rng = np.random.default_rng(4)
    n = 600  # several blocks of rows
    A = rng.normal(size=(n, n))
    A = A @ A.T
    F, own = rng.normal(size=(3, n, 5)), rng.uniform(size=(3, n - P))
    state = LowRank(np.zeros((3, n)), P, np.zeros((3, n, 0)), F, own)
    expected = [np.trace(A @ _cov(f, o)) for f, o in zip(F, own, strict=True)]
    np.testing.assert_allclose(state.trace(QuadraticForm(A)), expected, rtol=1e-12)


def test_a_trace_by_the_few_eigenvalues_that_differ_is_that_of_the_product():
    rng = np.random.default_rng(5)
    n, k = 60, 40
    b = rng.normal(size=(500, 8)) @ rng.normal(size=(8, n)) * np.geomspace(1.0, 1e-3, n)
    A = np.linalg.inv(b.T @ b + 1e-3 * np.eye(n))
    form = QuadraticForm(0.5 * (A + A.T))
    w, apart, V = form.near_identity
    assert len(apart) <= 8
    np.testing.assert_allclose(w * np.eye(n) + V.T * apart @ V, A, atol=1e-6 * w)
    F, own = rng.normal(size=(3, n, k)), rng.uniform(size=(3, n - P))
    F[0] = b[:k].T  # as features vary: where A is smallest
    states = [LowRank(np.zeros((i, n)), P, np.zeros((i, n, 0)), F[:i], 0.0 * own[:i]) for i in (1, 3)]
    expected = [np.trace(A @ f @ f.T) for f in F]
    np.testing.assert_allclose(states[1].trace(form), expected, rtol=2e-6)
    np.testing.assert_allclose(states[0].trace(form), expected[:1], rtol=1e-9)
    assert QuadraticForm(np.diag(np.arange(1.0, 10.0))).near_identity is None
    assert QuadraticForm(np.zeros((4, 4))).near_identity is None


def test_columns_that_rows_do_not_hang_on_are_the_widest_of_what_is_left():
    rng = np.random.default_rng(6)
    into, first = rng.normal(size=(4, 30, 9)) * np.geomspace(1.0, 1e-2, 9), rng.normal(size=(4, 2, 9))
    for turned, columns, rows in zip(_turned(into, first, 3), into, first, strict=True):
        turn = np.linalg.qr(rows.T)[0]
        left = columns - columns @ turn @ turn.T
        widest = np.argsort(-np.sum(left**2, axis=0))[:3]
        np.testing.assert_allclose(turned, np.hstack([columns @ turn, left[:, widest]]), atol=1e-12)
