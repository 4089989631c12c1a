"""Tests of state forms: one Gaussian over carried entries and units, with exact linear maps and exact moments of f.

Dense keeps the full covariance. LowRank keeps the variance of every unit and all covariances of carried entries and outputs;
with enough columns it equals Dense except for higher-order terms of the activation. All variances stay finite and nonnegative.
"""

from dataclasses import replace
from operator import itemgetter

import numpy as np
import pytest

from pesn.linalg import QuadraticForm
from pesn.statespace.cell import Noise
from pesn.statespace.ensemble import Draws, Ensemble
from pesn.statespace.model import CLOSED_FORMS, FORMS, init

COVARIANT = ("full", "low-rank")


# ---------------------------------------------------------------- one step


@pytest.mark.parametrize("form", COVARIANT)
def test_moments_of_one_unit_agree_with_quadrature(kit, form):
    world = kit.world(1, 1, outputs=1, leak=0.7)
    state = init(form, 1, np.array([0.4]), np.array([[0.9]]), world.compression)
    state = state.affine(slice(0, 1), np.array([[0.0, 0.5]]), np.array([-0.2]), np.array([[0.8]]))
    after = state.move(world.cell)
    x, w = np.polynomial.hermite_e.hermegauss(120)
    w /= w.sum()
    h = 0.4 + 0.9 * x[:, None]
    c = 0.5 * h - 0.2 + 0.8 * x[None, :]
    A = world.cell.matrix.toarray()[0]
    new = 0.3 * h + 0.7 * np.tanh(A[0] * c + A[1] * h + world.cell.bias[0])
    weight = w[:, None] * w[None, :]
    mean = np.sum(weight * new)
    cov = kit.cov_of(after)
    assert after.mean[1] == pytest.approx(mean, rel=1e-9)
    assert cov[0, 1] == pytest.approx(np.sum(weight * (new - mean) * (c - np.sum(weight * c))), rel=1e-9)
    assert cov[1, 1] == pytest.approx(np.sum(weight * (new - mean) ** 2), rel=1e-9)


@pytest.mark.parametrize(("rest", "products", "tolerance"), [("none", 0, 1e-10), ("second", 1000, 3e-4)])
@pytest.mark.parametrize("spread", [0.02, 0.4])
@pytest.mark.parametrize("leak", [1.0, 0.4])
def test_complete_factor_matches_the_formula_up_to_the_given_order(kit, rest, products, tolerance, spread, leak):
    world = kit.world(rank=20, products=products, leak=leak)
    state = kit.some(world, "low-rank", spread)
    mean, cov = state.mean, kit.cov_of(state)
    K = np.hstack([0.5 * np.eye(2), world.readout])
    for _ in range(4):
        small = rest == "second" and spread < 0.1  # a small remainder is not expanded
        state = state.move(world.cell)
        mean, cov = kit.twin(mean, cov, world.cell, "none" if small else rest)
        kit.close(state.mean, mean, tolerance)
        kit.close(kit.cov_of(state), cov, tolerance)
        full = np.vstack([K, np.hstack([np.zeros((8, 2)), np.eye(8)])])
        noise = np.zeros((10, 2))
        noise[:2] = 0.1 * np.eye(2)
        state = state.affine(world.carry, K, np.zeros(2), noise[:2])
        mean, cov = full @ mean, full @ cov @ full.T + noise @ noise.T
        kit.close(kit.cov_of(state), cov, tolerance)


def test_second_order_reduces_the_error_of_low_rank(kit):
    errors = []
    root = 0.5 * np.random.default_rng(0).normal(size=(3, 40))
    for products in (0, 4):
        world = kit.world(40, leak=1.0, rank=20, products=products, bias=1.0)
        dense, low = (init(form, 2, np.zeros(40), root, world.compression).move(world.cell) for form in COVARIANT)
        seen = world.readout @ low.factor[2:]
        errors.append(np.abs(seen @ seen.T - world.readout @ dense.cov[2:, 2:] @ world.readout.T).max())
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("form", COVARIANT)
def test_approximate_moments_give_a_valid_covariance(kit, form):
    world = kit.world(method="analytic")
    state = kit.some(world, form, 0.4)
    for _ in range(5):
        state = state.move(world.cell)
    kit.is_covariance(kit.cov_of(state))


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("form", COVARIANT)
@pytest.mark.parametrize("leak", [1.0, 0.5])
def test_moments_equal_the_kalman_prediction_where_tanh_is_linear(kit, form, leak):
    world = kit.world(10, leak=leak, bias=0.0, rank=12, method="exact")  # accurate near 0
    tiny = 1e-7
    state = kit.some(world, form, tiny)
    state = replace(state, mean=tiny * state.mean)
    mean, cov = state.mean, kit.cov_of(state)
    T = np.eye(12)
    T[2:] = leak * world.cell.matrix.toarray()
    T[2:, 2:] += (1 - leak) * np.eye(10)
    K = np.hstack([0.9 * np.eye(2), 0.2 * world.readout])
    M = np.vstack([K, np.eye(12)[2:]])
    noise = tiny * np.diag([1.0, 0.3])
    for _ in range(20):
        state = state.move(world.cell).affine(world.carry, K, tiny * np.ones(2), noise)
        mean = M @ T @ mean
        mean[:2] += tiny
        cov = M @ T @ cov @ T.T @ M.T
        cov[:2, :2] += noise @ noise.T
        kit.close(state.mean, mean, 1e-10)
        kit.close(kit.cov_of(state), cov, 1e-10)


@pytest.mark.parametrize("form", CLOSED_FORMS)
@pytest.mark.parametrize("variance", [1e-300, 1e-20, 1e20, 1e300])
@pytest.mark.parametrize("leak", [1.0, 0.01])
def test_extreme_variances_stay_finite_and_nonnegative(kit, form, variance, leak):
    world = kit.world(leak=leak)
    state = kit.some(world, form, np.sqrt(variance))
    for _ in range(3):
        state = state.move(world.cell).affine(world.carry, np.hstack([0.5 * np.eye(2), world.readout]), np.zeros(2))
        assert np.isfinite(state.mean).all()
        assert np.isfinite(kit.cov_of(state)).all()
        assert np.all(state.variances() >= 0.0)
    assert np.all(np.abs(state.mean[2:]) <= 2.0)


# ---------------------------------------------------------------- initial states and immutability


@pytest.mark.parametrize("rank", [3, 8, 50])
def test_init_keeps_variances_outputs_and_carried_entries(kit, rank):
    rng = np.random.default_rng(0)
    world = kit.world(30, rank=rank)
    root, carried = rng.normal(size=(40, 30)), rng.normal(size=(40, 2)) * [1.0, 0.0]
    cov, both = root.T @ root, np.hstack([carried, root])
    for tied in (None, carried):
        state = init("low-rank", 2, np.zeros(30), root, world.compression, tied)
        kit.close(state.variances()[2:], np.diag(cov), 1e-12)
        kit.close(state.factor[2:] @ (state.factor[2:].T @ world.readout.T), cov @ world.readout.T, 1e-11)
        dense, diagonal = (init(form, 2, np.zeros(30), root, carried_root=tied) for form in ("full", "diagonal"))
        kit.close(kit.cov_of(dense)[2:, 2:], cov, 1e-13)
        kit.close(diagonal.variances()[2:], np.diag(cov), 1e-13)
        for one in (state, dense, diagonal):
            assert not one.mean.any()
            if tied is None:
                assert not kit.cov_of(one)[:2].any()
        if tied is not None:
            for one in (state, dense):
                kit.close(kit.cov_of(one)[0], (both.T @ both)[0], 1e-11)
            kit.close(diagonal.variances()[:2], np.diag(carried.T @ carried), 1e-13)


def test_unknown_form_raises():
    known = "'diagonal', 'full', 'low-rank', 'ensemble', 'first-order', 'none'"
    with pytest.raises(ValueError, match=f"form must be one of {known}, got 'fulll'"):
        init("fulll", 0, np.zeros(2), np.zeros((0, 2)))


def test_methods_do_not_modify_the_state(kit):
    world = kit.world(rank=4)
    states = [kit.some(world, form).remember(slice(0, 1)) for form in CLOSED_FORMS]
    for state in (*states, kit.ensemble_of(states[1], 100).remember(slice(0, 1))):
        parts = {name: np.copy(part) for name, part in vars(state).items() if isinstance(part, np.ndarray)}
        state.move(world.cell, Noise(np.ones((1, 8)), np.ones(8)))
        state.affine(slice(0, 1), np.ones((1, 10)), np.ones(1), np.ones((1, 1)))
        state.assign(slice(1, 4), np.ones(3), np.ones(3))
        state.condition(world.carry, np.array([0.3, np.nan]))
        state.condition(slice(1, 4), np.array([0.3, np.nan, 0.1]), np.eye(3))
        state.as_certain(), state.remember(slice(0, 3))
        for name, part in parts.items():
            np.testing.assert_array_equal(getattr(state, name), part)


def test_memory_order_does_not_matter_and_the_diagonal_form_remembers_variances(kit):
    world = kit.world()
    states = [kit.some(world, seed=s) for s in range(3)]
    state = kit.batch_of(states, (3,))
    other = replace(state, cov=np.asfortranarray(state.cov))
    after, same = (s.move(world.cell).condition(world.carry, np.ones(2), np.eye(2)) for s in (state, other))
    kit.close(same.cov, after.cov, 1e-13)
    # diagonal form remembers only variances
    state = kit.some(world, "diagonal")
    after = state.remember(slice(0, 1))
    np.testing.assert_array_equal(after.cross[:, 0], np.concatenate([state.var[:1], np.zeros(9)]))
    assert not after.condition(world.carry, np.array([0.0, np.nan])).cross.any()


# ---------------------------------------------------------------- samples


@pytest.mark.parametrize("form", [*CLOSED_FORMS, "first-order", "ensemble"])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_samples_agree_with_mean_and_covariance(kit, form, shape):
    world = kit.world(5)
    states = [kit.some(world, "full" if form == "ensemble" else form, 0.2 + i, seed=i) for i in range(int(np.prod(shape)))]
    if form == "ensemble":
        states = [kit.ensemble_of(state) for state in states]
    elif form == "low-rank":  # with independent variances
        states = [replace(state, own=0.3 * np.arange(5.0)) for state in states]
    x = kit.batch_of(states, shape).sample(200_000, np.random.default_rng(4))
    assert x.shape == (*shape, 200_000, 7)
    for index, state in zip(np.ndindex(*shape), states, strict=True):
        kit.agrees_with_samples(state.mean, kit.cov_of(state), x[index])


def test_samples_of_a_certain_entry_equal_its_value(kit):
    world = kit.world(5)
    for form in CLOSED_FORMS:
        state = kit.some(world, form).assign(slice(0, 1), np.array([2.0]))
        np.testing.assert_allclose(state.sample(100, np.random.default_rng(0))[:, 0], 2.0, rtol=1e-12)


# ---------------------------------------------------------------- memory and long runs
#
# States stay valid over many steps.


@pytest.mark.parametrize("form", COVARIANT)
def test_covariances_stay_valid_over_many_steps(kit, form):
    n, p = 12, 2
    world = kit.world(n, p, rank=8)
    rng = np.random.default_rng(0)
    state = kit.some(world, form)
    K = np.hstack([0.9 * np.eye(p), 0.1 * world.readout])
    shifts, noise = rng.normal(size=(600, p)), 0.05 * np.eye(p)
    for step, shift in enumerate(shifts):
        state = state.move(world.cell).affine(world.carry, K, 0.3 * shift, noise)
        if step % 7 == 0:
            state = state.condition(world.carry, np.array([0.5 * shift[0], np.nan]), 0.01 * np.eye(2) if step % 2 else None)
        if step % 200 == 199:
            cov = kit.cov_of(state)
            kit.is_covariance(0.5 * cov + 0.5 * cov.T)
            assert np.isfinite(state.mean).all()
            assert np.all(state.variances() < 10.0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("observed", [False, True])
def test_diverging_loop_stays_finite(kit, form, observed):
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


# ---------------------------------------------------------------- batches
#
# A batch of states equals its states one by one, for every form and method.


SHAPES = [(), (3,), (2, 3)]
FORMS_AND_MORE = (*CLOSED_FORMS, "cut", "first-order", "ensemble")


def states_of(kit, form, count):
    """Return different states of one form; "cut" is low-rank with a truncated factor."""
    world = kit.world(12, rank=3) if form == "cut" else kit.world()
    kind = {"cut": "low-rank", "ensemble": "full"}.get(form, form)
    states = [kit.some(world, kind, 0.1 + 0.2 * i, seed=i) for i in range(count)]
    if form == "ensemble":
        states = [kit.ensemble_of(state, 50, seed=i) for i, state in enumerate(states)]
    return world, [state.remember(slice(0, 3)) for state in states]


def moves(world, shape, form):
    """Return named functions of a state, where ``at`` selects its entry from arguments of the whole batch."""
    rng = np.random.default_rng(4)
    n, total = world.n, world.n + world.p
    noise = None if form == "ensemble" else Noise(0.1 * rng.normal(size=(2, n)), 0.01 * rng.random(n))
    K = np.hstack([rng.normal(size=(2, 2)), rng.normal(size=(2, 2)) @ world.readout])
    many_K, k = K * (1.0 + rng.random((*shape, 1, 1))), rng.normal(size=(*shape, 2))
    root, R = rng.normal(size=(*shape, 2, 3)), np.array([[0.3, 0.1], [0.1, 0.2]])
    root[..., 1] = 0.0
    if shape:
        root[0, ..., 2] = 0.0  # a column that is nonzero only for some states
    y, some = rng.normal(size=(*shape, 2)), rng.normal(size=(*shape, 4))
    some[rng.random(some.shape) < 0.4] = np.nan
    result = {
        "move": lambda s, at: s.move(world.cell, noise),
        "two moves": lambda s, at: s.move(world.cell, noise).move(world.cell),
        "affine": lambda s, at: s.affine(world.carry, K, at(k)),
        "affine, a map each": lambda s, at: s.affine(world.carry, at(many_K), at(k)),
        "affine, the same noise": lambda s, at: s.affine(world.carry, K, k[(0,) * len(shape)], root[(0,) * len(shape)]),
        "affine with noise": lambda s, at: s.affine(world.carry, at(many_K), at(k), at(root)),
        "assign": lambda s, at: s.assign(slice(1, 3), at(y)),
        "assign one for all": lambda s, at: s.assign(slice(1, 3), np.array([0.5, 1.0])),
        "assign with variances": lambda s, at: s.assign(slice(1, 3), at(y), at(y) ** 2),
        "condition": lambda s, at: s.condition(world.carry, at(y)),
        "condition, one for all": lambda s, at: s.condition(world.carry, np.array([0.5, np.nan])),
        "condition, each misses others": lambda s, at: s.condition(slice(0, 4), at(some)),
        "as_certain": lambda s, at: s.as_certain(),
        "remember": lambda s, at: s.remember(slice(2, 4)),
        "a step": lambda s, at: s.assign(slice(1, 2), at(y)[..., :1]).move(world.cell, noise).affine(world.carry, K, at(k)),
    }
    if form != "ensemble":
        noises = R * (1.0 + rng.random((*shape, 1, 1)))
        result["condition with noise"] = lambda s, at: s.condition(world.carry, at(y), R)
        result["condition, each with other noise"] = lambda s, at: s.condition(world.carry, at(y), at(noises))
        result["condition with noise, each misses others"] = lambda s, at: s.condition(slice(0, 4), at(some), 0.1 * np.eye(4))
    return result, total


class SameForAll(Draws):
    """Use the same random numbers for every state of a batch."""

    def normal(self, batch, members, size):
        numbers, after = super().normal((), members, size)
        return np.broadcast_to(numbers, (*batch, members, size)), after


@pytest.mark.parametrize("form", FORMS_AND_MORE)
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_equals_single_states(kit, form, shape):
    world, states = states_of(kit, form, int(np.prod(shape)))
    if form == "ensemble":
        states = [Ensemble(state.members, state.carried, SameForAll(9), state.past) for state in states]
    batch = kit.batch_of(states, shape)
    several, n = moves(world, shape, form)
    rng = np.random.default_rng(5)
    K, A = rng.normal(size=(2, n)), rng.normal(size=(n, n))
    A = A @ A.T
    many_K = rng.normal(size=(*shape, 2, n))
    for name, move in several.items():
        together = move(batch, lambda a: a)
        assert together.mean.shape == (*shape, n)
        for index, state in zip(np.ndindex(*shape), states, strict=True):
            alone = move(state, itemgetter(index))
            for part in (
                lambda s: s.mean,
                lambda s: s.cross,
                kit.cov_of,
                lambda s: s.variances(),
                lambda s: s.cross_covariance(slice(1, 4)),
                lambda s: s.block_covariance(slice(1, 4)),
                lambda s: s.project_covariance(K),
                lambda s: s.trace(QuadraticForm(A)),
            ):
                a, b = part(together)[index], part(alone)
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11 * max(1.0, np.abs(b).max(initial=0.0)), err_msg=name)
            kit.close(together.project_covariance(many_K)[index], alone.project_covariance(many_K[index]), 1e-9)
            assert together.is_certain() <= alone.is_certain()


@pytest.mark.parametrize("form", ["full", "low-rank", "cut"])
def test_certain_state_in_a_batch_equals_single_state(kit, form):
    """States do not affect each other, although the second order is not expanded for small variances."""
    world, states = states_of(kit, form, 2)
    kind = "full" if form == "full" else "low-rank"
    states += [states[0].as_certain(), kit.some(world, kind, 1e-4).remember(slice(0, 3))]
    if kind == "low-rank":
        width = max(state.factor.shape[-1] for state in states)
        for i, state in enumerate(states):
            padded = np.concatenate([state.factor, np.zeros((world.n + 2, width - state.factor.shape[-1]))], axis=-1)
            states[i] = type(state)(**{**vars(state), "factor": padded})
    batch = kit.batch_of(states, (4,)).move(world.cell)
    for i, state in enumerate(states):
        alone = state.move(world.cell)
        kit.close(batch.mean[i], alone.mean, 1e-12)
        cov = kit.cov_of(alone)
        np.testing.assert_allclose(kit.cov_of(batch)[i], cov, rtol=1e-9, atol=1e-12 * np.abs(cov).max())


@pytest.mark.parametrize("form", FORMS_AND_MORE)
def test_empty_batch_keeps_its_shape(kit, form):
    world, states = states_of(kit, form, 2)
    batch = kit.batch_of(states, (2,))
    if form == "ensemble":
        batch = Ensemble(batch.members[:0], batch.carried, batch.draws, batch.past[:0])
    else:
        batch = type(batch)(**{k: v[:0] if isinstance(v, np.ndarray) else v for k, v in vars(batch).items()})
    after = batch.affine(world.carry, np.ones((2, len(states[0].mean))), np.zeros(2)).assign(slice(0, 1), np.zeros(1))
    assert after.condition(slice(0, 2), np.zeros((0, 2))).mean.shape == (0, world.n + 2)
