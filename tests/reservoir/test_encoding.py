"""Tests of the encoding of periodic and ignorable coordinates: numbers and Gaussian states are encoded consistently, the
moments agree with samples, and every state form follows the deterministic recursion if there is no variance."""

from dataclasses import replace

import numpy as np
import pytest

from pesn.activations import get
from pesn.linalg import factor_covariance
from pesn.readout.features import Features
from pesn.readout.ridge import Readout
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, Encoding, ErrorModel
from pesn.reservoir.weights import draw
from pesn.statespace.cell import ActivationMoments
from pesn.statespace.model import rollout

D, KNOWN, N = 4, 1, 12
ENCODING = Encoding(np.array([2, 0]), np.array([3]), np.array([0.4, -0.2]), np.array([1.3, 0.8]))


def a_loop(form="full", features=Features(), rank=8, seed=0):
    """Return a loop with a learned angle, a kinematic angle, a plain column and an ignorable column."""
    rng = np.random.default_rng(seed)
    z = ENCODING.size(D) + KNOWN
    learned, kinematic = np.array([0, 1]), np.array([2, 3])
    reservoir = draw(N, z, 2, density=0.4, input_scaling=0.8, rng=seed)
    weights = 0.15 * rng.normal(size=(2, features.size(z, N)))
    cov = 0.03**2 * np.eye(D)
    errors = ErrorModel(cov, np.full(D, 0.3), 0.91 * cov)
    kinematics = np.array([[0.0, 0.2, 1.0, 0.0], [0.1, 0.0, 0.0, 1.0]]), 0.1 * np.ones((2, 2)), np.zeros(2)
    readout = Readout(weights, np.eye(2), np.zeros((weights.shape[1], 0)), 500)
    dynamics = Dynamics(learned, kinematic, kinematics, np.array([0.5, 0.7]), True, ENCODING)
    return ClosedLoop(
        reservoir, readout, errors, dynamics, ActivationMoments(get("tanh")), form, rank, parts=("state", "noise"),
        features=features, n_members=12_000,
    )  # fmt: skip


def started(loop, spread=0.2, **options):
    rng = np.random.default_rng(1)
    E = loop.features.n_earlier(loop.reservoir.n_inputs)
    mean, root = 0.3 * rng.normal(size=E + N), 0.05 * rng.normal(size=(3, E + N))
    y_root = spread * (np.eye(D) + 0.3 * rng.normal(size=(D, D)))
    return loop.init(mean, root * (spread > 0.0), rng.normal(size=D), np.array([0.3]), y_root=y_root, **options)


def test_encoding_concatenates_columns_sines_and_cosines():
    y = np.random.default_rng(0).normal(size=(5, 3, D))
    theta = ENCODING.mean + ENCODING.std * y[..., [2, 0]]
    np.testing.assert_allclose(ENCODING(y), np.concatenate([y[..., [1]], np.sin(theta), np.cos(theta)], axis=-1), rtol=1e-15)
    assert ENCODING(y).shape[-1] == ENCODING.size(D)
    step = 1e-6 * np.random.default_rng(1).normal(size=(4, D))
    around = 0.5 * (ENCODING(y[:, :, None] + step) - ENCODING(y[:, :, None] - step))
    np.testing.assert_allclose(ENCODING.tangent(y, step), around, atol=1e-15)


@pytest.mark.parametrize("spread", [1e-9, 0.3, 2.0])
def test_encoded_gaussian_moments_agree_with_samples(spread):
    rng = np.random.default_rng(0)
    mean, root = rng.normal(size=D), spread * rng.normal(size=(D, D))
    found, cov = ENCODING.encode_gaussian(mean, root @ root.T)
    y = mean + np.random.default_rng(1).standard_normal((200_000, D)) @ root.T
    theta = ENCODING.mean + ENCODING.std * y[:, [2, 0]]
    x = np.concatenate([y, np.sin(theta), np.cos(theta)], axis=1)
    size = np.sqrt(np.diag(cov))
    assert np.all(np.abs(x.mean(axis=0) - found) < 5.0 * size / np.sqrt(len(x)) + 1e-15)
    np.testing.assert_allclose(np.cov(x.T) / np.outer(size, size), cov / np.outer(size, size), atol=0.02)
    assert np.linalg.eigvalsh(cov / np.outer(size, size))[0] > -1e-9


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal", "ensemble", "none"])
@pytest.mark.parametrize("features", [Features(), Features(2, 2)], ids=["plain", "lags and products"])
def test_rollout_without_variance_matches_the_deterministic_recursion(form, features):
    """The mean of every state form equals that of a plain NumPy loop."""
    loop = replace(a_loop(form, features), parts=("state",), n_members=3)
    state, u = started(loop, 0.0), np.random.default_rng(2).normal(size=(6, 1))
    path = rollout(loop.model, state, u)
    E, z = features.n_earlier(loop.reservoir.n_inputs), loop.reservoir.n_inputs
    at, r, dyn = loop.layout, loop.reservoir, loop.dynamics
    y, h = state.mean[at["y"]].copy(), state.mean[at["units"]].copy()
    before = state.mean[at["earlier"]].reshape(features.lags, z)[::-1]
    assert before.size == E
    A, B, _ = dyn.kinematics
    for k in range(6):
        row = dyn.network_rows(np.concatenate([y, u[k]]))
        h = (1.0 - r.leak_rate) * h + r.leak_rate * np.tanh(r.W_in @ row + r.W @ h + r.bias)
        b = features(row[None], h[None], before)[0]
        before = features.newest_rows(row[None], before)
        after = y[:2] + dyn.scale * (loop.readout.weights @ b)
        y = np.concatenate([after, A @ y + B @ after])
        np.testing.assert_allclose(path.mean[k], y, rtol=1e-10)
    if form == "none":  # the compiled loop agrees with single steps
        slow = rollout(replace(loop.model, fast=None), state, u)
        np.testing.assert_allclose(path.mean, slow.mean, rtol=1e-12)
        assert loop.model.fast.take(state, u, None, None) is not None


def test_low_rank_covariances_of_encoded_entries_equal_full_covariances():
    """Use fewer factor columns than entries and a wide angle: encoded and carried covariances are not truncated."""
    features = Features(1)
    full, low = (replace(a_loop(form, features, 6), dynamics=a_loop().dynamics) for form in ("full", "low-rank"))
    states = [loop.model.move(started(loop, 1.0)) for loop in (full, low)]
    rows = full.layout["encoded"]
    found, expected = (state.cross_covariance(rows)[: rows.stop] for state in (states[1], states[0]))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    first, second = (loop.model.emit(state)[0] for loop, state in zip((full, low), states, strict=True))
    carried = slice(0, full.carried)
    np.testing.assert_allclose(second.block_covariance(carried), first.block_covariance(carried), atol=0.02)


def test_initial_state_with_missing_entries_uses_observed_angles():
    loop = a_loop()
    z, rng = loop.reservoir.n_inputs, np.random.default_rng(3)
    root = rng.normal(size=(z + N, z + N))
    y = np.array([0.2, np.nan, 5.0, -7.0])
    state = loop.init_joint(np.zeros(z + N), root, y, np.zeros(KNOWN), np.zeros(KNOWN))
    seen = loop.dynamics.network_rows(np.concatenate([np.where(np.isnan(y), 0.0, y), np.zeros(KNOWN)]))
    np.testing.assert_allclose(state.mean[loop.layout["encoded"]], seen[1:5], rtol=1e-12)
    np.testing.assert_array_equal(state.mean[[0, 2, 3]], y[[0, 2, 3]])
    cov = root.T @ root
    gain = cov[:1, 1:z] @ np.linalg.inv(cov[1:z, 1:z])
    np.testing.assert_allclose(state.mean[1], (gain @ seen[1:])[0], rtol=1e-8)
    np.testing.assert_allclose(state.variances()[:D], [0.0, (cov[:1, :1] - gain @ cov[1:z, :1])[0, 0], 0.0, 0.0], rtol=1e-6)


def test_as_certain_encodes_the_mean():
    loop = a_loop(features=Features(0, 1))
    state = loop.as_certain(loop.model.move(started(loop, 1.0)))
    row = loop.dynamics.network_rows(np.concatenate([state.mean[:D], state.mean[loop.layout["inputs"]]]))
    np.testing.assert_allclose(state.mean[loop.moves.row], row, rtol=1e-12)
    np.testing.assert_allclose(loop.moves.means(state.mean), loop.features(row[None], state.mean[None, loop.layout["units"]])[0])
    assert not factor_covariance(state.block_covariance(slice(0, loop.layout.size))).any()
