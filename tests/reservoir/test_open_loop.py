"""Tests of the open loop, a reservoir with its readout over uncertain inputs.

Where tanh is linear, every form with covariances equals the linear recursion for means and covariances, including feedback,
noise and leverage. Certain inputs equal the deterministic run bit by bit. The compiled loops agree with single steps. A state of
any form can start a run of any other form.
"""

from dataclasses import replace

import numpy as np
import pytest

from pesn.activations import get
from pesn.evaluation.calibration import process_noise
from pesn.gaussian import Gaussian
from pesn.readout.ridge import Readout
from pesn.reservoir.drive import State, run
from pesn.reservoir.initial_state import make_state, state_shapes
from pesn.reservoir.open_loop import OpenLoop, predict_rows
from pesn.reservoir.weights import draw
from pesn.statespace.cell import ActivationMoments, Noise
from pesn.statespace.model import rollout

RESERVOIR = draw(12, 2, 2, density=0.5, input_scaling=0.5 * np.sqrt(2.0), feedback_scaling=0.4, bias_scaling=0.0, rng=0)
WEIGHTS = 0.3 * np.random.default_rng(0).standard_normal((2, 15))
WEIGHTS[:, 0] = 0.0
TINY = 1e-4  # standard deviation for which tanh(x) = x within a relative 1e-8
FORMS = ["full", "low-rank", "diagonal"]


def a_loop(form="full", reservoir=RESERVOIR, weights=WEIGHTS, **options):
    return OpenLoop(reservoir, weights, ActivationMoments(get("tanh")), form, **options)


def of_root(root):
    """Return a readout whose weight covariance A⁻¹ has this root."""
    return Readout(np.zeros((2, 15)), np.eye(2), root, 1)


def zero(var=None):
    """Return a state with zero mean and the given variance of the units."""
    return State(np.zeros(12), None if var is None else np.full(12, var), np.zeros(2), None if var is None else np.zeros(2))


def uncertain(state):
    return any(part is not None and bool(np.any(part)) for part in (state.var, state.output_var, state.cov, state.own))


def step_by_step(loop, *args, **options):
    return rollout(replace(loop.model, fast=None), *args, **options)


def linear(z, var, noise):
    """Compute means and covariances of [y, h], and Cov [z, h] after each step, by plain matrix products."""
    r, N, m, d = RESERVOIR, 12, 2, 2
    L, W, mean, cov = r.leak_rate, r.W.toarray(), np.zeros(m + N), np.zeros((m + N, m + N))
    T, K = np.eye(d + m + N), np.zeros((m + N, d + m + N))
    T[d + m :] = np.hstack([L * r.W_in, L * r.W_fb, (1.0 - L) * np.eye(N) + L * W])
    K[:m, :d], K[:m, d + m :], K[m:, d + m :] = WEIGHTS[:, 1:3], WEIGHTS[:, 3:], np.eye(N)
    seen = np.array([0, 1, *range(4, 16)])
    outputs, covs, features = [], [], []
    for row, v in zip(z, var, strict=True):
        x, P = np.concatenate([row, mean]), np.zeros((d + m + N, d + m + N))  # moments of [z, y, h]
        P[:d, :d], P[d:, d:] = np.diag(v), cov
        x, P = T @ x, T @ P @ T.T
        P[d + m :, d + m :] += noise**2 * np.eye(N)
        features.append(P[np.ix_(seen, seen)])
        mean, cov = K @ x, K @ P @ K.T
        outputs.append(mean[:m])
        covs.append(cov[:m, :m])
    return np.array(outputs), np.array(covs), np.array(features), mean, cov


@pytest.mark.parametrize(("form", "rank"), [("full", 40), ("low-rank", 40), ("low-rank", 11)])
@pytest.mark.parametrize("noise", [0.0, 0.3 * TINY])
def test_moments_equal_the_linear_recursion_where_tanh_is_linear(form, rank, noise):
    rng = np.random.default_rng(1)
    z, var = TINY * rng.standard_normal((15, 2)), TINY**2 * rng.uniform(0.0, 1.0, (15, 2))
    var[5:8] = 0.0
    root = rng.standard_normal((15, 15))
    loop = a_loop(form, process_noise=process_noise(None, 0.0, noise, 12), readout=of_root(root), rank=rank)
    path, end = predict_rows(loop, z, var, zero())
    outputs, cov, features, mean, last = linear(z, var, noise)
    np.testing.assert_allclose(path.mean, outputs, atol=1e-7 * TINY)
    np.testing.assert_allclose(end.mean, mean[2:], atol=1e-7 * TINY)
    np.testing.assert_allclose(path.cov, path.probed["cov"], rtol=1e-9, atol=1e-9 * cov.max())
    if rank < 14:
        np.testing.assert_allclose(path.cov, cov, atol=0.05 * cov.max())
        return
    np.testing.assert_allclose(path.cov, cov, atol=1e-6 * cov.max())
    leverage = np.einsum("ij,tij->t", (root @ root.T)[1:, 1:], features)
    np.testing.assert_allclose(path.probed["leverage"], np.repeat(leverage[:, None], 2, axis=1), rtol=1e-6)
    np.testing.assert_allclose(end.var, np.diagonal(last)[2:], rtol=1e-6)


# ---------------------------------------------------------------- compiled loops


@pytest.mark.parametrize("form", FORMS)
def test_certain_inputs_equal_the_deterministic_run_bit_by_bit(form):
    z = np.random.default_rng(2).standard_normal((30, 2))
    loop, start = a_loop(form), zero(0.0)
    states, outputs, end = run(RESERVOIR, z, readout=WEIGHTS)
    path, after = predict_rows(loop, z, np.zeros((30, 2)), start)
    np.testing.assert_array_equal(path.probed["units"], states)
    np.testing.assert_array_equal(path.mean, outputs)
    np.testing.assert_array_equal(after.mean, end.mean)
    assert not path.cov.any()
    assert not path.probed["cov"].any()
    assert not uncertain(after)
    taught, _, _ = run(RESERVOIR, z, feedback=np.ones((30, 2)))
    np.testing.assert_array_equal(predict_rows(loop, z, None, start, clamp=np.ones((30, 2)))[0].probed["units"], taught)


def same(one, other, tolerance):
    """Assert that all arrays of two paths agree."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in ("mean", "cov", "left")]
    pairs += [(one.state.mean, other.state.mean), (one.state.variances(), other.state.variances())]
    for found, expected in ((one.parts, other.parts), (one.probed, other.probed)):
        assert found.keys() == expected.keys()
        pairs += [(found[name], expected[name]) for name in found]
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max(initial=0.0))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("clamped", [False, True])
@pytest.mark.parametrize("leverage", [False, True])
def test_compiled_deterministic_loop_agrees_with_single_steps(form, clamped, leverage):
    rng = np.random.default_rng(2)
    z, clamp = rng.standard_normal((30, 2)), rng.standard_normal((30, 2)) if clamped else None
    loop = a_loop(form, weights=rng.standard_normal((2, 15)), readout=of_root(np.eye(15)) if leverage else None)
    state = loop.init(0.1 * rng.standard_normal(12), output=rng.standard_normal(2))
    assert loop.take(state, z, None, clamp).mean.shape == (30, 2)
    same(rollout(loop.model, state, z, clamp=clamp), step_by_step(loop, state, z, clamp=clamp), 1e-12)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("clamped", [False, True])
@pytest.mark.parametrize("certain", [False, True])
def test_compiled_diagonal_loop_agrees_with_single_steps(noise, clamped, certain):
    """The tolerance is set by the compiled moments, which are accurate to 1e-8."""
    rng = np.random.default_rng(2)
    z, clamp = rng.standard_normal((30, 2)), rng.standard_normal((30, 2)) if clamped else None
    var = None if certain else rng.uniform(0.0, 0.2, (30, 2))
    weights, readout = rng.standard_normal((2, 15)), of_root(rng.standard_normal((15, 15)))
    loop = a_loop("diagonal", weights=weights, process_noise=process_noise(None, 0.0, noise, 12), readout=readout)
    state = loop.init(0.1 * rng.standard_normal(12), 0.3 * np.eye(12), rng.standard_normal(2))
    assert loop.take(state, z, var, clamp).mean.shape == (30, 2)
    same(rollout(loop.model, state, z, var, clamp=clamp), step_by_step(loop, state, z, var, clamp=clamp), 1e-7)


def test_noise_that_differs_between_units_is_not_compiled():
    own = np.linspace(0.0, 0.1, 12)
    loop = a_loop("diagonal", process_noise=Noise(np.zeros((0, 12)), own))
    state, z = loop.init(np.zeros(12)), np.random.default_rng(2).standard_normal((5, 2))
    assert loop.take(state, z, None, None) is None
    path = rollout(loop.model, state, z[:1])
    np.testing.assert_allclose(path.state.var[4:], own)


@pytest.mark.parametrize("form", FORMS)
def test_uncertain_inputs_between_certain_ones_agree_with_single_steps(form):
    """The run switches from the compiled loop to single steps and back, and agrees with single steps throughout."""
    rng = np.random.default_rng(5)
    z, var = rng.standard_normal((200, 2)), np.zeros((200, 2))
    var[20:25] = 0.1
    loop = a_loop(form, weights=np.where(np.arange(15) < 3, WEIGHTS, 0.05 * WEIGHTS), settled=1e-9)
    start = loop.init(np.zeros(12))
    path, steps = rollout(loop.model, start, z, var), step_by_step(loop, start, z, var)
    same(path, steps, 1e-7 if form == "diagonal" else 1e-9)
    assert path.cov[20:25].any()
    assert path.state.is_certain() == (form != "diagonal")


# ---------------------------------------------------------------- user-provided states


def test_initial_states_of_every_form_give_equal_covariances():
    rng = np.random.default_rng(3)
    factor, own = 0.1 * rng.standard_normal((12, 3)), np.full(12, 0.01)
    cov, z = factor @ factor.T + np.diag(own), 0.3 * rng.standard_normal((4, 2))
    dense = np.zeros((14, 14))
    dense[2:, 2:] = cov
    states = [
        make_state(Gaussian(np.zeros(12), factor=factor, var=own), 2),
        make_state(Gaussian(np.zeros(12), cov=cov), 2),
        State(np.zeros(12), np.diagonal(cov), np.zeros(2), np.zeros(2), dense),
    ]
    for form, tolerance in (("full", 1e-12), ("low-rank", 0.02)):
        found = [predict_rows(a_loop(form, rank=13), z, None, state)[0].cov for state in states]
        for other in found[1:]:
            np.testing.assert_allclose(other, found[0], atol=tolerance * found[0].max())
    alone = make_state(Gaussian(np.zeros(12), var=own), 2)
    assert alone.cov is None
    for state in (*states, alone):
        assert uncertain(state)
        assert all(np.shape(part) == shape for part, shape in state_shapes(state, 12, 2).values())
    wrong = [name for name, (part, shape) in state_shapes(states[0], 13, 2).items() if np.shape(part) != shape]
    assert wrong == ["mean", "var", "cov", "own"]


def test_low_rank_covariance_agrees_with_full_for_independent_units():
    big, rng = draw(60, n_inputs=1, n_outputs=1, rng=0), np.random.default_rng(0)
    z, weights = np.sin(0.3 * np.arange(20.0))[:, None], 0.1 * rng.standard_normal((1, 62))
    start = State(np.zeros(60), np.full(60, 0.04), np.zeros(1), np.zeros(1))
    full, few, paper = (predict_rows(a_loop(form, big, weights), z, None, start)[0].cov for form in FORMS)
    np.testing.assert_allclose(np.sqrt(few), np.sqrt(full), rtol=0.05)
    assert np.sqrt(paper[-1] / full[-1]) < 0.5
