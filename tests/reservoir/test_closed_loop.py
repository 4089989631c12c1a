"""Tests of the closed loop: apart from tanh, a step is an explicit affine map; an update is Gaussian conditioning; members of an
ensemble have the leverage of the closed form."""

from dataclasses import replace

import numpy as np
import pytest

from pesn.activations import get
from pesn.readout.ridge import PARTS, Readout
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, ErrorModel
from pesn.reservoir.initial_state import learn as learn_start
from pesn.reservoir.weights import draw
from pesn.statespace.cell import ActivationMoments, Noise

KINDS = {
    "change": {}, "level": {"change": False}, "controls": {"n_known": 2}, "feedback": {"feedback": 0.4},
    "feedback of levels": {"feedback": 0.4, "change": False, "n_known": 1},
    "kinematics": {"learned": (3, 1), "d": 4, "n_known": 1, "feedback": 0.3},
    "low-rank": {"form": "low-rank", "n_known": 1},
}  # fmt: skip


def a_loop(
    *, d=2, learned=None, n_known=0, feedback=0.0, change=True, form="full", parts=PARTS, N=14, rank=14, noise=True, seed=1
):
    rng = np.random.default_rng(seed)
    learned = np.arange(d) if learned is None else np.array(learned)
    kinematic = np.setdiff1d(np.arange(d), learned)
    m, r = len(learned), len(kinematic)
    reservoir = draw(N, d + n_known, m, density=0.4, input_scaling=0.4, feedback_scaling=feedback, rng=seed)
    weights = 0.25 * rng.normal(size=(m, 1 + d + n_known + N)) / np.sqrt(N)
    weights[:, 1 : 1 + d] -= 0.3 * np.eye(d)[learned] if change else 0.0
    S = 0.05 * rng.normal(size=(1 + d + n_known + N,) * 2)
    a = rng.normal(size=(d, d))
    cov = 0.05**2 * (a @ a.T + np.eye(d))
    rho = rng.uniform(0.2, 0.8, d)
    errors = ErrorModel(cov, rho, cov * (1.0 - np.outer(rho, rho)))
    kinematics = 0.3 * rng.normal(size=(r, d)), 0.4 * rng.normal(size=(r, m)), 0.1 * rng.normal(size=r)
    own = Noise(0.02 * rng.normal(size=(3, N)), np.full(N, 0.01**2)) if noise else None
    dynamics = Dynamics(learned, kinematic, kinematics, rng.uniform(0.5, 0.9, m), change)
    readout = Readout(weights, np.eye(m), S, 500)
    return ClosedLoop(reservoir, readout, errors, dynamics, ActivationMoments(get("tanh")), form, rank, own, parts)


def sizes(loop):
    """Return the numbers of outputs and of known inputs."""
    d = loop.dynamics.n_columns
    return d, loop.reservoir.n_inputs - d


def begun(loop, seed=2, spread=0.15):
    """Return a state whose entries are all uncertain and correlated."""
    rng = np.random.default_rng(seed)
    N, (d, n) = loop.reservoir.n_units, sizes(loop)
    mean, root = 0.3 * rng.normal(size=N), spread * rng.normal(size=(N, N)) / np.sqrt(N)
    y, u = 0.5 * rng.normal(size=d), 0.3 * rng.normal(size=n)
    state = loop.init(mean, root, y, u, y_root=0.1 * np.eye(d), u_var=np.full(n, 0.04))
    state, _ = loop.model.emit(loop.model.move(state))
    return loop.model.set_inputs(state, 0.3 * rng.normal(size=n), np.full(n, 0.01))


def covariance(state):
    if hasattr(state, "cov"):
        return state.cov
    own = np.concatenate([np.zeros(state.carried), state.own])
    return state.factor @ state.factor.T + np.diag(own)


def parts_of(loop, x):
    """Split stacked vectors into [y, e, u, o, h] along the last axis."""
    d, n = sizes(loop)
    fed = len(loop.dynamics.learned) if np.any(loop.reservoir.W_fb) else 0
    return np.split(x, np.cumsum([d, d, n, fed]), axis=-1)


def slow_emit(loop, x, eta, u_new):
    """Compute one emission by the documented formulas, for one x or a batch; ``u_new`` is the next input."""
    y, e, u, _, h = parts_of(loop, x)
    dyn = loop.dynamics
    A, B, c = dyn.kinematics
    e = loop.errors.persistence * e + eta
    b = np.concatenate([np.ones_like(y[..., :1]), y, u, h], axis=-1)
    after = b @ loop.readout.weights.T * dyn.scale + e[..., dyn.learned]
    if dyn.change:
        after = after + y[..., dyn.learned]
    new = np.empty_like(y)
    new[..., dyn.learned] = after
    new[..., dyn.kinematic] = y @ A.T + after @ B.T + c + e[..., dyn.kinematic]
    # training feeds back the target
    fed = (after - y[..., dyn.learned] if dyn.change else after) / dyn.scale
    if not np.any(loop.reservoir.W_fb):
        fed = fed[..., :0]
    return np.concatenate([new, e, u_new, fed, h], axis=-1)


def innovation(loop, state):
    """Return the innovation covariance, inflated by the mean leverage bᵀ A⁻¹ b at the effective sample size."""
    d, n = sizes(loop)
    p = state.carried
    places = [*range(d), *range(2 * d, 2 * d + n), *range(p, p + loop.reservoir.n_units)]
    inverse = loop.readout.covariance_root @ loop.readout.covariance_root.T
    b = np.concatenate([[1.0], state.mean[places]])
    leverage = b @ inverse @ b + np.trace(inverse[1:, 1:] @ covariance(state)[np.ix_(places, places)])
    rho, learned = loop.errors.persistence, loop.dynamics.learned
    grown = np.array([np.sqrt(1 + (1 + rho[i]) / (1 - rho[i]) * leverage) if i in learned else 1.0 for i in range(d)])
    return loop.errors.innovation * np.outer(grown, grown)


# ---------------------------------------------------------------- one step


@pytest.mark.parametrize("kind", KINDS)
def test_emit_matches_the_explicit_affine_map(kind):
    loop = a_loop(**KINDS[kind])
    state = begun(loop)
    d, n = sizes(loop)
    u, u_var = np.linspace(-1.0, 1.0, n), np.linspace(0.0, 0.2, n)
    after, info = loop.model.emit(state)
    after = loop.model.set_inputs(after, u, u_var)
    # matrix of the affine function of [x, η, u], column by column
    size = len(state.mean)
    zero = slow_emit(loop, np.zeros(size), np.zeros(d), np.zeros(n))
    M = np.array([slow_emit(loop, *np.split(unit, [size, size + d])) - zero for unit in np.eye(size + d + n)]).T
    cov = np.zeros((size + d + n,) * 2)
    R = innovation(loop, state)
    # the readout does not see the diagonal part of a low-rank state
    cov[:size, :size] = state.cov if hasattr(state, "cov") else state.factor @ state.factor.T
    cov[size : size + d, size : size + d] = R
    cov[size + d :, size + d :] = np.diag(u_var)
    np.testing.assert_allclose(after.mean, slow_emit(loop, state.mean, np.zeros(d), u), rtol=0, atol=1e-12)
    carry = slice(0, state.carried)
    np.testing.assert_allclose(after.block_covariance(carry), (M @ cov @ M.T)[carry, carry], rtol=0, atol=1e-12)
    np.testing.assert_allclose(after.cross_covariance(slice(0, d)), (M @ cov @ M.T)[:, :d], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(info.mean, after.mean[:d])
    np.testing.assert_array_equal(info.cov, after.block_covariance(slice(0, d)))
    # each of the three parts is the image of its covariance under the map, in y
    J = M[:d, size : size + d]
    new, noise = np.diag(J @ R @ J.T), np.diag(J @ loop.errors.innovation @ J.T)
    noise = np.minimum(noise, new)  # weight uncertainty may cancel noise: parts stay nonnegative
    np.testing.assert_allclose(info.parts["noise"], noise, rtol=1e-9)
    np.testing.assert_allclose(info.parts["weights"], new - noise, atol=1e-14)
    np.testing.assert_allclose(info.parts["state"], np.diag(M[:, :size] @ cov[:size, :size] @ M[:, :size].T)[:d], atol=1e-12)


@pytest.mark.parametrize("change", [True, False])
def test_fed_back_output_is_certain_after_two_observations(change):
    loop = a_loop(feedback=0.4, change=change)
    state = loop.model.update(begun(loop), np.array([0.2, -0.1]))
    after = loop.model.update(loop.model.predict(state, np.zeros(0))[0], np.array([0.5, 0.1]))
    target = (np.array([0.3, 0.2]) if change else np.array([0.5, 0.1])) / loop.dynamics.scale
    *_, o, _ = parts_of(loop, after.mean)
    np.testing.assert_allclose(o, target, atol=1e-9)
    np.testing.assert_allclose(parts_of(loop, after.variances())[3], 0.0, atol=1e-12)


@pytest.mark.parametrize("kind", ["change", "level", "kinematics"])
def test_targets_plus_errors_reproduce_the_next_observation(kind):
    """The readout output plus its error gives the next observation, for learned and kinematic columns."""
    loop = a_loop(**KINDS[kind])
    dyn, rng = loop.dynamics, np.random.default_rng(3)
    y = rng.normal(size=(9, dyn.n_columns))
    output = rng.normal(size=(8, len(dyn.learned)))
    e = dyn.errors(dyn.targets(y) - output, y)
    A, B, c = dyn.kinematics
    learned = output * dyn.scale + e[:, dyn.learned] + (y[:-1, dyn.learned] if dyn.change else 0.0)
    np.testing.assert_allclose(learned, y[1:, dyn.learned], atol=1e-12)
    np.testing.assert_allclose(y[:-1] @ A.T + learned @ B.T + c + e[:, dyn.kinematic], y[1:, dyn.kinematic], atol=1e-12)


# ---------------------------------------------------------------- initial state


@pytest.mark.parametrize(("form", "rank"), [("full", 14), ("low-rank", 14), ("low-rank", 6)])
@pytest.mark.parametrize("missing", [[0], [1], [0, 1], [0, 1, 2], []])
def test_initial_state_is_conditioned_on_observed_entries_only(form, rank, missing):
    loop = a_loop(n_known=1, form=form, rank=rank)
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.normal(size=(400, 3)), axis=0) % 5.0 - 2.5
    h = np.tanh(z @ rng.normal(size=(3, 14)) + 0.3 * rng.normal(size=(400, 14)))
    given = learn_start([(z, h, 0)])
    row = np.array([0.3, -0.2, 0.5])
    row[missing] = np.nan
    u_var = np.isnan(row[2:]).astype(float)
    state = loop.init_joint(*given.joint(), row[:2], np.nan_to_num(row[2:]), u_var)
    mean, root = given.joint()
    cov = root.T @ root
    seen = np.flatnonzero(~np.isnan(row))
    gain = np.linalg.solve(cov[np.ix_(seen, seen)], cov[seen]).T
    mean, cov = mean + gain @ (row[seen] - mean[seen]), cov - gain @ cov[seen]
    keep = [0, 1, *range(3, 17)]  # y and h
    places = [0, 1, *range(state.carried, state.carried + 14)]
    np.testing.assert_allclose(state.mean[places], mean[keep], atol=1e-9)
    np.testing.assert_allclose(state.cross_covariance(slice(0, 2))[places], cov[np.ix_(keep, [0, 1])], atol=1e-9)
    np.testing.assert_allclose(state.variances()[places], np.diag(cov)[keep], atol=1e-9)
    np.testing.assert_allclose(state.variances()[loop.layout["inputs"]], u_var)


# ---------------------------------------------------------------- updated readout


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal"])
@pytest.mark.parametrize("kind", ["controls", "feedback", "kinematics"])
def test_with_readout_equals_a_newly_built_loop(kind, form):
    loop, other = (a_loop(**{**KINDS[kind], "form": form, "rank": 6, "seed": seed}) for seed in (1, 3))
    begun(loop)  # fills all caches
    learned = loop.with_readout(other.readout, other.errors)
    anew = replace(loop, readout=other.readout, errors=other.errors)
    known = np.zeros(sizes(loop)[1])
    for _ in range(2):  # the original loop is unchanged
        found, expected = (one.model.predict(begun(one), known, known) for one in (learned, anew))
        np.testing.assert_array_equal(found[0].mean, expected[0].mean)
        np.testing.assert_array_equal(found[0].variances(), expected[0].variances())
        for part in PARTS:
            np.testing.assert_array_equal(found[1].parts[part], expected[1].parts[part])
        learned, anew = learned.with_readout(loop.readout, loop.errors), loop


# ---------------------------------------------------------------- ensemble members


@pytest.mark.parametrize("parts", [PARTS, ("state", "weights"), ("state", "noise")])
def test_ensemble_leverage_agrees_with_closed_form(parts):
    """The mean leverage over the members and the covariance of the added noise equal those of the closed form."""
    loop = a_loop(parts=parts, n_known=1)
    members = replace(loop, form="ensemble", n_members=20_000)
    closed, state = begun(loop), begun(members)
    noise, own = (one.model.emission_noise for one in (loop, members))
    assert own.leverage(state).shape == (20_000, 2)
    np.testing.assert_allclose(own.leverage(state).mean(axis=0), noise.leverage(closed), rtol=0.03)
    np.testing.assert_allclose(own(state).total, noise(closed).total, rtol=0.03)
    np.testing.assert_allclose(own(state).noise, noise(closed).noise, rtol=1e-12)
    (_, one), (_, other) = (x.model.emit(s) for x, s in ((members, state), (loop, closed)))
    std = np.sqrt(np.diagonal(other.cov))
    assert np.all(np.abs(one.cov - other.cov) < 0.05 * np.outer(std, std))
    assert np.all(np.abs(one.mean - other.mean) < 0.05 * std)
