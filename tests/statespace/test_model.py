"""Claim: with linear units the model *is* the textbook's state-space model, and a roll-out its Kalman filter."""

import numpy as np
import pytest
from scipy import sparse

from pesn.linalg import orthonormal
from pesn.statespace import Cell, Compression, Draws, Emission, Ensemble, Layout, Noise, StateSpaceModel, init, rollout
from pesn.statespace.model import Bounds

LAYOUT = Layout.of(y=2, u=1, units=5)


def system(seed=0):
    """h ← F h + B u + b + q, y = H h + a + r: stable, five hidden entries, two outputs."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(5, 5))
    F *= 0.8 / np.abs(np.linalg.eigvals(F)).max()
    q, r = 0.2 * rng.normal(size=(3, 5)), 0.3 * rng.normal(size=(2, 2))
    return {
        "F": F, "B": rng.normal(size=(5, 1)), "b": 0.3 * rng.normal(size=5), "q": q, "Q": q.T @ q + 0.01 * np.eye(5),
        "H": rng.normal(size=(2, 5)), "a": rng.normal(size=2), "r": r, "R": r @ r.T,
    }  # fmt: skip


def compression_of(s):
    return Compression(30, orthonormal(s["H"].T), 0)


def model_of(kit, s, leak=0.7, **options):
    """The same as a model: L A h + (1 − L) h = F h."""
    A = np.zeros((5, LAYOUT.size))
    A[:, LAYOUT["units"]] = (s["F"] - (1.0 - leak) * np.eye(5)) / leak
    A[:, LAYOUT["u"]] = s["B"] / leak
    K = np.zeros((3, LAYOUT.size))
    K[:2, LAYOUT["units"]], K[2, 2] = s["H"], 1.0
    root = np.vstack([s["r"], np.zeros((1, 2))])
    var = np.diag(s["R"])
    return StateSpaceModel(
        cells=(Cell(LAYOUT["units"], sparse.csr_array(A), s["b"] / leak, leak, kit.LinearUnits(), compression_of(s)),),
        K=K, k=np.append(s["a"], 0.0), inputs=LAYOUT["u"], outputs=LAYOUT["y"],
        process_noise=Noise(s["q"], np.full(5, 0.01)), emission_noise=lambda state: Emission(root, 0.8 * var, var), **options,
    )  # fmt: skip


def state_of(form, s, seed=1, spread=1.0):
    rng = np.random.default_rng(seed)
    mean, root = rng.normal(size=5), spread * rng.normal(size=(6, 5))
    return init(form, 3, mean, root, compression_of(s)), mean, root.T @ root


def kalman(s, h, P, inputs, observations):
    """The filter as textbooks write it: predictions of y with covariances, and the last h."""
    means, covs = [], []
    for u, y in zip(inputs, observations, strict=True):
        h, P = s["F"] @ h + s["B"] @ u + s["b"], s["F"] @ P @ s["F"].T + s["Q"]
        S = s["H"] @ P @ s["H"].T + s["R"]
        means.append(s["H"] @ h + s["a"])
        covs.append(S)
        seen = ~np.isnan(y)
        if seen.any():
            H = s["H"][seen]
            G = P @ H.T @ np.linalg.inv(S[np.ix_(seen, seen)])
            h, P = h + G @ (y - means[-1])[seen], P - G @ H @ P
    return np.array(means), np.array(covs), h, P


@pytest.mark.parametrize("form", ["full", "low-rank"])
@pytest.mark.parametrize("leak", [1.0, 0.7])
def test_a_rollout_with_observations_is_the_kalman_filter(kit, form, leak):
    s, rng = system(), np.random.default_rng(2)
    model = model_of(kit, s, leak)
    state, h, P = state_of(form, s)
    inputs, y = rng.normal(size=(30, 1)), 2.0 * rng.normal(size=(30, 2))
    y[rng.random(y.shape) < 0.3] = np.nan
    y[4], y[7] = np.nan, 0.5
    path = rollout(model, state, inputs, observations=y)
    mean, cov, h, P = kalman(s, h, P, inputs, y)
    kit.close(path.mean, mean, 1e-10)
    kit.close(path.cov, cov, 1e-10)
    kit.close(path.state.mean[LAYOUT["units"]], h, 1e-10)
    kit.close(path.state.covariance_of(LAYOUT["units"]), P, 1e-9)
    kit.close(path.parts["noise"], np.broadcast_to(0.8 * np.diag(s["R"]), (30, 2)), 1e-12)
    kit.close(path.parts["weights"], np.broadcast_to(0.2 * np.diag(s["R"]), (30, 2)), 1e-12)
    kit.close(sum(path.parts.values()), np.diagonal(cov, axis1=1, axis2=2), 1e-10)


@pytest.mark.parametrize("form", ["full", "low-rank"])
def test_without_observations_it_is_the_prediction(kit, form):
    s = system()
    state, h, P = state_of(form, s)
    inputs = np.random.default_rng(2).normal(size=(12, 1))
    path = rollout(model_of(kit, s), state, inputs)
    mean, cov, *_ = kalman(s, h, P, inputs, np.full((12, 2), np.nan))
    kit.close(path.mean, mean, 1e-10)
    kit.close(path.cov, cov, 1e-10)


def test_members_filter_as_the_kalman_filter(kit):
    s, rng = system(), np.random.default_rng(2)
    _, h, P = state_of("full", s)
    members = np.zeros((50_000, 8))
    members[:, 3:] = h + rng.standard_normal((50_000, 5)) @ np.linalg.cholesky(P).T
    inputs, y = rng.normal(size=(6, 1)), rng.normal(size=(6, 2))
    path = rollout(model_of(kit, s), Ensemble(members, 3, Draws(1)), inputs, observations=y)
    mean, cov, *_ = kalman(s, h, P, inputs, y)
    std = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    assert np.all(np.abs(path.mean - mean) < 0.05 * std)
    np.testing.assert_allclose(path.cov, cov, atol=0.05 * std.max() ** 2)


@pytest.mark.parametrize("form", ["full", "low-rank"])
def test_an_update_with_measurement_noise(kit, form):
    """y read without noise and measured with it: the same filter."""
    s = system()
    state, h, P = state_of(form, s)
    bare = model_of(kit, s)
    bare = StateSpaceModel(bare.cells, bare.K, bare.k, bare.inputs, bare.outputs, bare.process_noise)
    inputs, y = np.ones((5, 1)), np.random.default_rng(3).normal(size=(5, 2))
    y[2, 0] = y[3, 1] = np.nan
    y[4] = np.nan
    for u, value in zip(inputs, y, strict=True):
        state, _ = bare.predict(state, u)
        state = bare.update(state, value, s["R"])
    _, _, h, P = kalman(s, h, P, inputs, y)
    kit.close(state.mean[LAYOUT["units"]], h, 1e-10)
    kit.close(state.covariance_of(LAYOUT["units"]), P, 1e-9)


def test_uncertain_inputs_enter_as_gaussians(kit):
    s = system()
    inputs, var = np.ones((4, 1)), np.array([[0.5], [0.0], [1.0], [0.2]])
    for form in ("full", "low-rank"):
        state, _, P = state_of(form, s)
        path = rollout(model_of(kit, s), state, inputs, var)
        for k in range(4):
            P = s["F"] @ P @ s["F"].T + var[k] * s["B"] @ s["B"].T + s["Q"]
            kit.close(path.cov[k], s["H"] @ P @ s["H"].T + s["R"], 1e-10)


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal"])
def test_a_guard_bounds_what_is_reported(kit, form):
    """A loop that runs away stays within its bounds, and its parts make up what is left of the variance."""
    s = system()
    s["F"] = 1.5 * s["F"]
    state, *_ = state_of(form, s)
    guard, free = Bounds(np.zeros(2), np.ones(2), -np.ones(2), np.ones(2), np.zeros(2, bool)), model_of(kit, s)
    bound = model_of(kit, s, guard=guard)
    reported = []
    for _ in range(20):
        before, _ = free.predict(state, np.zeros(1))
        expected, factor, left = guard(before, state.mean[:2])
        state, info = bound.predict(state, np.zeros(1))
        kit.close(info.mean, expected.mean[:2], 1e-12)
        kit.close(info.cov, expected.covariance_of(LAYOUT["y"]), 1e-12)
        np.testing.assert_array_equal(info.left, left)
        kit.close(sum(info.parts.values()), np.diag(info.cov), 1e-12)
        assert all(np.all(part >= 0.0) for part in info.parts.values())
        assert np.sqrt(np.diag(info.cov)).max() <= 2.0 * (1.0 + 1e-12)
        reported.append(np.any(factor < 1.0))
    assert any(reported)


def test_a_guard_of_a_batch_is_that_of_its_states(kit):
    s, width = system(), np.array([0.1, 1.0])
    model = model_of(kit, s, guard=Bounds(np.zeros(2), width, -width, width, np.array([False, True])))
    states = [state_of("full", s, seed=i, spread=0.1 + i)[0] for i in range(3)]
    batch = rollout(model, kit.batch_of(states, (3,)), np.zeros((3, 5, 1)))
    for i, state in enumerate(states):
        alone = rollout(model, state, np.zeros((5, 1)))
        kit.close(batch.cov[i], alone.cov, 1e-11)
        np.testing.assert_array_equal(batch.left[i], alone.left)


def test_a_layout_names_blocks():
    assert LAYOUT["units"] == slice(3, 8)
    assert (LAYOUT.size, list(LAYOUT.blocks)) == (8, ["y", "u", "units"])
