"""Tests of ensembles: moments agree with the closed forms within sampling error, and Sobol points reduce this error."""

import numpy as np
import pytest
from scipy import stats

from pesn.linalg import QuadraticForm
from pesn.statespace.cell import Noise
from pesn.statespace.ensemble import Draws, Ensemble

COUNT = 20_000


def near(ensemble, closed, tolerance=0.03):
    """Assert that means and covariances agree, relative to the standard deviations."""
    std = np.sqrt(np.maximum(closed.variances(), 1e-12))
    assert np.all(np.abs(ensemble.mean - closed.mean) < tolerance * std)
    everything = slice(0, len(std))
    far = ensemble.cross_covariance(everything) - closed.cross_covariance(everything)
    assert np.all(np.abs(far) < 2.0 * tolerance * np.outer(std, std))


@pytest.mark.parametrize("sobol", [False, True])
def test_ensemble_moments_agree_with_the_closed_form(kit, sobol):
    world = kit.world(6)
    closed = kit.some(world, spread=0.4)
    members = kit.ensemble_of(closed, COUNT, sobol=sobol)
    near(members, closed, 1e-9)
    rng = np.random.default_rng(0)
    noise = Noise(0.1 * rng.normal(size=(2, 6)), 0.02 * rng.random(6))
    K, k, root = np.hstack([0.4 * np.eye(2), world.readout]), rng.normal(size=2), 0.2 * rng.normal(size=(2, 2))
    closed, members = (s.remember(slice(0, 3)).move(world.cell, noise) for s in (closed, members))
    near(members, closed)
    closed, members = (s.affine(world.carry, K, k, root) for s in (closed, members))
    near(members, closed)
    std = np.sqrt(closed.variances())
    assert np.all(np.abs(members.cross - closed.cross) < 0.05 * std[:, None] * np.abs(members.past).std(axis=0))
    A = rng.normal(size=(8, 8))
    assert members.trace(QuadraticForm(A @ A.T)) == pytest.approx(closed.trace(QuadraticForm(A @ A.T)), rel=0.05)
    scale = np.sqrt(np.diag(closed.project_covariance(K)))
    np.testing.assert_allclose(members.project_covariance(K), closed.project_covariance(K), atol=0.06 * np.max(scale) ** 2)
    for R in (None, np.array([[0.05, 0.02], [0.02, 0.1]])):
        y = closed.mean[:2] + 0.5 * std[:2]
        some = np.array([y[0], np.nan])
        for values in (y, some):
            after, other = closed.condition(world.carry, values, R), members.condition(world.carry, values, R)
            near(other, after, 0.05)
            assert np.all(np.abs(other.cross - after.cross) < 0.05 * std[:, None])
    closed, members = (s.assign(slice(1, 4), np.ones(3), np.array([0.0, 0.5, 1.0])) for s in (closed, members))
    near(members, closed)


def test_moments_equal_sample_moments_of_the_members(kit):
    """A noise-free observation shifts each member by linear regression and leaves no variance in the observed entry."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))
    state = Ensemble(x, 2, Draws(1)).remember(slice(0, 2))
    np.testing.assert_allclose(state.cross_covariance(slice(0, 4)), np.cov(x.T), rtol=1e-12)
    np.testing.assert_allclose(state.block_covariance(slice(1, 3)), np.cov(x.T)[1:3, 1:3], rtol=1e-12)
    np.testing.assert_allclose(state.variances(), x.var(axis=0, ddof=1), rtol=1e-12)
    kit.close(state.cross, np.cov(x.T)[:, :2], 1e-12)
    after = state.condition(slice(0, 2), np.array([0.3, np.nan]))
    slope = np.cov(x.T)[:, 0] / np.cov(x.T)[0, 0]
    kit.close(after.members, x + (0.3 - x[:, :1]) * slope, 1e-12)
    kit.close(after.past, x[:, :2] + (0.3 - x[:, :1]) * slope[:2], 1e-12)
    assert np.all(after.members[:, 0] == 0.3)


@pytest.mark.parametrize("sobol", [False, True])
def test_seed_determines_all_draws(kit, sobol):
    def one(seed):
        world = kit.world(6)
        state = kit.ensemble_of(kit.some(world), 64, seed=seed, sobol=sobol)
        state = state.move(world.cell, Noise(np.ones((1, 6)), np.ones(6)))
        state = state.affine(world.carry, np.ones((2, 8)), np.zeros(2), np.eye(2)).assign(slice(0, 1), np.zeros(1), np.ones(1))
        return state.condition(world.carry, np.zeros(2), np.eye(2)).members

    np.testing.assert_array_equal(one(0), one(0))
    assert (one(0) != one(1)).any()


@pytest.mark.parametrize("members", [1, 2, 100, 128])
def test_draws_are_standard_normal(members):
    for sobol in (False, True):
        draws = Draws(0, sobol)
        assert draws.normal((2, 3), members, 3)[0].shape == (2, 3, members, 3)
        assert draws.normal((), members, 0)[0].shape == (members, 0)
        several = []
        for _ in range(400):
            z, draws = draws.normal((), members, 3)
            several.append(z)
        z = np.concatenate(several)
        assert np.abs(z.mean(axis=0)).max() < 5.0 / np.sqrt(len(z))
        np.testing.assert_allclose(np.cov(z.T), np.eye(3), atol=8.0 / np.sqrt(len(z)))
        assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3
        first, later = draws.normal((), members, 3)
        assert (first != later.normal((), members, 3)[0]).all()  # later draws are independent
        np.testing.assert_array_equal(first, draws.normal((), members, 3)[0])  # drawing does not change the generator


def test_sobol_draws_reduce_the_error_of_the_mean(kit):
    """Compare the mean after a noisy step over several seeds."""
    world = kit.world(3, 1, outputs=1)
    closed = kit.some(world, spread=0.5)
    K, root = np.hstack([[[0.5]], world.readout]), np.array([[0.4]])
    exact = closed.affine(world.carry, K, np.zeros(1), root)
    errors = []
    for sobol in (False, True):
        runs = []
        for seed in range(20):
            state = kit.ensemble_of(closed, 256, seed=0).members
            state = Ensemble(state, 1, Draws(seed, sobol)).affine(world.carry, K, np.zeros(1), root)
            runs.append(state.mean[0] - exact.mean[0])
        errors.append(np.sqrt(np.mean(np.square(runs))))
    assert errors[1] < 0.2 * errors[0]


def test_ensembles_of_a_batch_have_independent_draws(kit):
    world = kit.world(6)
    states = [kit.ensemble_of(kit.some(world), 4_000, seed=0) for _ in range(3)]
    batch = kit.batch_of(states, (3,)).move(world.cell, Noise(0.3 * np.ones((1, 6)), 0.1 * np.ones(6)))
    assert (batch.members[0] != batch.members[1]).any()
    alone = states[0].move(world.cell, Noise(0.3 * np.ones((1, 6)), 0.1 * np.ones(6)))
    for i in range(3):
        np.testing.assert_allclose(batch.cross_covariance(slice(0, 8))[i], alone.cross_covariance(slice(0, 8)), atol=0.03)


def test_check_rejects_invalid_ensembles():
    x = np.zeros((3, 4))
    Ensemble(x, 1, Draws(5, True, 2)).check("state", 1, 3)
    for state, message in (
        (Ensemble(x, 2, Draws(0)), "state is not about these columns and units"),
        (Ensemble(x[:, :3], 1, Draws(0)), r"state.members is not a finite array of shape \(3, 4\)"),
        (Ensemble(x[:1], 1, Draws(0)), "state.members is 1"),
        (Ensemble(x, 1, Draws(0)).remember(slice(0, 1)), r"state.past is not a finite array of shape \(3, 0\)"),
        (Ensemble(x, 1, Draws(-1)), "state.draws.seed is -1"),
        (Ensemble(x, 1, Draws(0, False, 0.5)), "state.draws.taken is 0.5"),
    ):
        with pytest.raises(ValueError, match=message):
            state.check("state", 1, 3)
