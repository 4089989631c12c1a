"""Claim: covariances with the past are those of a state that holds it; states stay what they are for ever."""

import numpy as np
import pytest

from pesn.statespace import FORMS

COVARIANT = ("full", "low-rank")


@pytest.mark.parametrize("form", COVARIANT)
def test_covariances_with_the_past_are_those_of_a_longer_state(kit, form):
    world = kit.world(rank=30)
    state = kit.some(world, form, 1e-5)
    mean, cov = state.mean, kit.cov_of(state)
    K = np.hstack([0.7 * np.eye(2), world.readout])
    p, n, L, A = 2, 8, world.cell.leak, world.cell.matrix.toarray()
    state = state.remember(slice(0, 1))
    J = np.vstack([np.eye(10), np.eye(10)[:1]])  # the past stands at the end
    cov = J @ cov @ J.T
    for step in range(6):
        a = A @ mean + world.cell.bias
        g = 1.0 - np.tanh(a) ** 2
        T = np.eye(len(cov))
        T[p : p + n, : p + n] = L * g[:, None] * A
        T[p : p + n, p : p + n] += (1 - L) * np.eye(n)
        mean = np.concatenate([mean[:p], (1 - L) * mean[p:] + L * np.tanh(a)])
        M = np.eye(len(cov))
        M[:p, : p + n] = K
        mean[:p] = K @ mean
        cov = M @ T @ cov @ T.T @ M.T
        cov[:p, :p] += 1e-10 * np.eye(p)
        state = state.move(world.cell).affine(world.carry, K, np.zeros(2), 1e-5 * np.eye(2))
        if step == 2:
            state = state.remember(slice(0, 2))
            J = np.vstack([np.eye(11), np.eye(11)[:2]])
            cov = J @ cov @ J.T
        if step in (3, 4):  # what is learnt of now tells of the past; and so it does through noise
            value, R = state.mean[1] + 1e-5, 1e-10 * (step - 3)
            gain = cov[:, 1] / (cov[1, 1] + R)
            mean = mean + gain[:10] * (value - mean[1])
            cov = cov - np.outer(gain, cov[1])
            state = state.condition(world.carry, np.array([np.nan, value]), None if step == 3 else R * np.eye(2))
        kit.close(state.cross, cov[:10, 10:], 1e-8)
    assert state.without_memory().cross.shape == (10, 0)


def test_covariances_with_the_past_against_samples(kit):
    world = kit.world(6)
    state = kit.some(world, spread=0.5).remember(slice(0, 2))
    x, L = kit.samples_of(state, 200_000, seed=2), world.cell.leak
    past = x[:, :2] - x[:, :2].mean(axis=0)
    after = state.move(world.cell)
    x[:, 2:] = (1 - L) * x[:, 2:] + L * np.tanh(x @ world.cell.matrix.toarray().T + world.cell.bias)
    for j in range(2):
        product = (x - x.mean(axis=0)) * past[:, j : j + 1]
        assert np.all(np.abs(product.mean(axis=0) - after.cross[:, j]) < 5.0 * product.std(axis=0) / np.sqrt(len(x)))


def test_the_past_of_the_diagonal_form(kit):
    world = kit.world()
    state = kit.some(world, "diagonal")
    after = state.remember(slice(0, 1))
    np.testing.assert_array_equal(after.cross[:, 0], np.concatenate([state.var[:1], np.zeros(9)]))
    assert not after.condition(world.carry, np.array([0.0, np.nan])).cross.any()


@pytest.mark.parametrize("form", COVARIANT)
def test_many_steps(kit, form):
    n, p = 12, 2
    world = kit.world(n, p, rank=8)
    rng = np.random.default_rng(0)
    state = kit.some(world, form)
    K = np.hstack([0.9 * np.eye(p), 0.1 * world.readout])
    shifts, noise = rng.normal(size=(2_000, p)), 0.05 * np.eye(p)
    for step, shift in enumerate(shifts):
        state = state.move(world.cell).affine(world.carry, K, 0.3 * shift, noise)
        if step % 7 == 0:
            state = state.condition(world.carry, np.array([0.5 * shift[0], np.nan]), 0.01 * np.eye(2) if step % 2 else None)
        if step % 200 == 199:
            cov = kit.cov_of(state)
            kit.is_covariance(0.5 * cov + 0.5 * cov.T)
            assert np.isfinite(state.mean).all()
            assert np.all(state.variances() < 10.0)


@pytest.mark.parametrize("form", [*FORMS, "ensemble"])
@pytest.mark.parametrize("observed", [False, True])
def test_a_loop_that_diverges_stays_numbers(kit, form, observed):
    world = kit.world(4, rank=3)
    state = kit.some(world, "full" if form == "ensemble" else form)
    state = (kit.ensemble_of(state, 20) if form == "ensemble" else state).remember(slice(0, 1))
    K = np.hstack([1.5 * np.array([[np.cos(1.0), -np.sin(1.0)], [np.sin(1.0), np.cos(1.0)]]), world.readout])
    for step in range(1_000):
        state = state.move(world.cell).affine(world.carry, K, np.ones(2), np.eye(2))
        if observed and step % 700 == 699:
            state = state.condition(world.carry, np.array([1.0, np.nan]))
        if step % 100 == 99:
            for part in (state.mean, kit.cov_of(state), state.cross):
                assert np.isfinite(part).all()
            values = np.linalg.eigvalsh(kit.cov_of(state))
            assert values[0] >= -1e-12 * values[-1]
    if form != "ensemble":
        assert np.sqrt(state.variances()[:2].max()) == pytest.approx(1e100, rel=1e-6) or observed
    assert np.all(np.abs(state.mean[2:]) <= 1.0 + 1e-12)
