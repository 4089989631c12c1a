"""Tests of low-rank and first-order states: truncation depends on the factor and not on rounding errors."""

from dataclasses import replace

import numpy as np
import pytest

from pesn.linalg import QuadraticForm
from pesn.moments import gain, moments
from pesn.statespace.cell import Compression
from pesn.statespace.low_rank import FirstOrder, LowRank, fewer, truncate
from pesn.statespace.state import stack

P, N, K = 4, 30, 40


def _factor(seed, dependent):
    """Return F with linearly dependent, repeated or zero rows of c, as in kinematics, feedback and known inputs."""
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
def test_truncation_keeps_covariances_and_the_largest_remaining_directions(dependent):
    F, own = _factor(0, dependent), np.full(N, 0.1)
    cut, left = truncate(F, own, P, COMPRESSION)
    noise = 1e-13 * np.random.default_rng(1).normal(size=F.shape)
    np.testing.assert_allclose(_cov(cut, left), _cov(*truncate(F * (1.0 + noise), own, P, COMPRESSION)), rtol=0, atol=1e-9)
    # covariances of c and of the readout, and all variances, are kept
    assert cut.shape[1] <= max(COMPRESSION.rank, P + COMPRESSION.rank // 2)
    np.testing.assert_allclose(cut @ cut[:P].T, F @ F[:P].T, atol=1e-12)
    np.testing.assert_allclose(cut @ (cut[P:].T @ COMPRESSION.basis), F @ (F[P:].T @ COMPRESSION.basis), atol=1e-12)
    np.testing.assert_allclose(np.diag(_cov(cut, left)), np.diag(_cov(F, own)), atol=1e-12)
    # then the largest singular directions of the rest
    seen = np.vstack([F[:P], COMPRESSION.basis.T @ F[P:]])
    directions, size, _ = np.linalg.svd(seen.T, full_matrices=False)
    first = directions[:, size > 1e-9 * size[0]]
    apart = F[P:] - F[P:] @ first @ first.T
    U, size, _ = np.linalg.svd(apart)
    room = COMPRESSION.rank - first.shape[1]
    expected = F[P:] @ first @ first.T @ F[P:].T + (U[:, :room] * size[:room] ** 2) @ U[:, :room].T
    np.testing.assert_allclose(cut[P:] @ cut[P:].T, expected, atol=1e-10)


@pytest.mark.parametrize("rank", [8, 12])
def test_truncation_waits_for_half_the_rank_more_columns_than_it_keeps(rank):
    width, compression = max(rank, P + rank // 2), replace(COMPRESSION, rank=rank)
    for more, kept in ((rank // 2, width + rank // 2), (rank // 2 + 1, width)):
        assert truncate(_factor(0, {})[:, : width + more], np.full(N, 0.1), P, compression)[0].shape[1] == kept


def test_truncated_batch_equals_single_states_with_dependent_rows():
    F, own = np.stack([_factor(i, dependent) for i, dependent in enumerate(DEPENDENT)]), np.full((len(DEPENDENT), N), 0.1)
    factors, left = truncate(F, own, P, COMPRESSION)
    width = max(COMPRESSION.rank, P + COMPRESSION.rank // 2)
    for i in range(len(DEPENDENT)):
        alone = truncate(F[i], own[i], P, COMPRESSION)
        np.testing.assert_allclose(_cov(factors[i], left[i]), _cov(*alone), atol=1e-12)
    assert factors.shape[-1] <= width


def test_trace_equals_the_trace_of_the_product():
    rng = np.random.default_rng(4)
    n = 600  # several blocks
    A = rng.normal(size=(n, n))
    A = A @ A.T
    F, own = rng.normal(size=(3, n, 5)), rng.uniform(size=(3, n - P))
    state = LowRank(np.zeros((3, n)), P, np.zeros((3, n, 0)), F, own)
    expected = [np.trace(A @ _cov(f, o)) for f, o in zip(F, own, strict=True)]
    np.testing.assert_allclose(state.trace(QuadraticForm(A)), expected, rtol=1e-12)


def test_trace_by_few_eigenvalues_equals_the_trace_of_the_product():
    rng = np.random.default_rng(5)
    n, k = 60, 40
    b = rng.normal(size=(500, 8)) @ rng.normal(size=(8, n)) * np.geomspace(1.0, 1e-3, n)
    A = np.linalg.inv(b.T @ b + 1e-3 * np.eye(n))
    form = QuadraticForm(0.5 * (A + A.T))
    w, apart, V = form.near_identity
    assert len(apart) <= 8
    np.testing.assert_allclose(w * np.eye(n) + V.T * apart @ V, A, atol=1e-6 * w)
    F, own = rng.normal(size=(3, n, k)), rng.uniform(size=(3, n - P))
    F[0] = b[:k].T  # directions of the features, where A is smallest
    states = [LowRank(np.zeros((i, n)), P, np.zeros((i, n, 0)), F[:i], 0.0 * own[:i]) for i in (1, 3)]
    expected = [np.trace(A @ f @ f.T) for f in F]
    np.testing.assert_allclose(states[1].trace(form), expected, rtol=2e-6)
    np.testing.assert_allclose(states[0].trace(form), expected[:1], rtol=1e-9)
    assert QuadraticForm(np.diag(np.arange(1.0, 10.0))).near_identity is None
    assert QuadraticForm(np.zeros((4, 4))).near_identity is None


# ---------------------------------------------------------------- first order
#
# Factor columns move by E[f] and E[f′]. They agree with a small dense covariance, keep carried and readout covariances when
# truncated, and are conditioned on observations like every other form.


SMALL, LARGE = 1e-3, 0.5


def first_order(kit, world, spread, seed=1):
    """Return a dense state as a first-order state."""
    return FirstOrder.from_state(kit.some(world, spread=spread, seed=seed), world.compression)


@pytest.mark.parametrize("spread", [SMALL, LARGE])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_first_order_move_matches_the_formula(kit, spread, activation):
    world = kit.world(activation=activation)
    state, cell = first_order(kit, world, spread), world.cell
    A, L, F = cell.matrix.toarray(), cell.leak, state.factor
    a, v = A @ state.mean + cell.bias, np.sum((A @ F) ** 2, axis=1)
    mean, new = state.mean.copy(), F.copy()
    mean[cell.rows] = (1 - L) * mean[cell.rows] + L * moments(activation, a, v).mean
    new[cell.rows] = (1 - L) * F[cell.rows] + L * gain(activation, a, v)[:, None] * (A @ F)
    moved = state.move(cell)
    kit.close(moved.mean, mean, 1e-12)
    kit.close(kit.cov_of(moved), new @ new.T, 1e-12)


@pytest.mark.parametrize("spread", [SMALL, LARGE])
def test_affine_assign_and_condition_agree_with_the_dense_form(kit, spread):
    world = kit.world()
    dense = kit.some(world, spread=spread)
    columns = FirstOrder.from_state(dense, world.compression)
    rng = np.random.default_rng(3)
    K, k, root = rng.normal(size=(2, world.n + 2)), rng.normal(size=2), rng.normal(size=(2, 2))
    noise = np.diag([0.0, 0.3])
    for change in (
        lambda state: state.affine(world.carry, K, k, root),
        lambda state: state.assign(world.carry, np.ones(2), np.array([0.0, 0.5])),
        lambda state: state.condition(world.carry, np.array([0.3, -0.2])),
        lambda state: state.condition(world.carry, np.array([0.3, np.nan])),
        lambda state: state.condition(world.carry, np.array([0.3, -0.2]), noise),
    ):
        one, other = change(columns), change(dense)
        kit.close(one.mean, other.mean, 1e-9)
        kit.close(kit.cov_of(one), other.cov, 1e-9)
        kit.close(one.variances(), np.diag(kit.cov_of(one)), 1e-12)
        A = np.diag(np.arange(1.0, 1 + world.n + 2))
        np.testing.assert_allclose(one.trace(QuadraticForm(A)), np.trace(A @ other.cov), rtol=1e-8)


def test_conversion_of_a_low_rank_state_keeps_its_covariance(kit):
    world = kit.world(n=40, rank=6)
    state = kit.some(world, "low-rank")
    assert isinstance(state, LowRank)
    assert state.own.any()
    roomy = Compression(60, world.compression.basis)
    kit.close(kit.cov_of(FirstOrder.from_state(state, roomy)), kit.cov_of(state), 1e-12)


@pytest.mark.parametrize("k", [10, 60, 200])
def test_fewer_columns_keep_carried_and_readout_covariances(k):
    rng = np.random.default_rng(0)
    p, n = 4, 80
    F = rng.normal(size=(3, p + n, k)) * np.geomspace(1.0, 1e-6, k)
    F[:, 2] = 2.0 * F[:, 1]  # linearly dependent, as in kinematics
    F[:, 3] = 0.0
    basis = np.linalg.qr(rng.normal(size=(n, 2)))[0]
    kept = fewer(F, p, Compression(20, basis))
    assert kept.shape[-1] <= max(p + 2 + 20, k if k <= p + 2 + 20 + 32 else 0)
    whole, cut = F @ F.mT, kept @ kept.mT
    np.testing.assert_allclose(cut[:, :p], whole[:, :p], atol=1e-9)
    np.testing.assert_allclose(basis.T @ cut[:, p:], basis.T @ whole[:, p:], atol=1e-9)
    lost = np.linalg.eigvalsh(whole - cut)
    assert lost.min() > -1e-9  # truncation only removes variance
    assert lost.max() < 0.1 * np.linalg.eigvalsh(whole).max()


def test_states_of_different_rank_are_stacked_with_columns_of_zeros(kit):
    world = kit.world()
    few, many = (kit.some(world, "low-rank", seed=seed) for seed in (1, 2))
    few = replace(few, factor=few.factor[..., :3])
    both = stack([few, many])
    assert both.factor.shape[-1] == many.factor.shape[-1] > 3
    for k, one in enumerate((few, many)):
        np.testing.assert_array_equal(both.mean[k], one.mean)
        np.testing.assert_allclose(kit.cov_of(both)[k], kit.cov_of(one), rtol=1e-12, atol=1e-15)
