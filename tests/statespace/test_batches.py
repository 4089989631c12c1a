"""Claim: a batch of states *is* its states one by one, in every form and move."""

from operator import itemgetter

import numpy as np
import pytest

from pesn.linalg import QuadraticForm
from pesn.statespace import CLOSED_FORMS, Draws, Ensemble, Noise

SHAPES = [(), (3,), (2, 3)]
FORMS_AND_MORE = (*CLOSED_FORMS, "cut", "ensemble")


def states_of(kit, form, count):
    """Different states of one form; "cut": with a factor that holds few of its columns."""
    world = kit.world(12, rank=3) if form == "cut" else kit.world()
    kind = {"cut": "low-rank", "ensemble": "full"}.get(form, form)
    states = [kit.some(world, kind, 0.1 + 0.2 * i, seed=i) for i in range(count)]
    if form == "ensemble":
        states = [kit.ensemble_of(state, 50, seed=i) for i, state in enumerate(states)]
    return world, [state.remember(slice(0, 3)) for state in states]


def moves(world, shape, form):
    """Name → a move of a state, with ``at`` to take what belongs to it from arguments of the whole batch."""
    rng = np.random.default_rng(4)
    n, total = world.n, world.n + world.p
    noise = None if form == "ensemble" else Noise(0.1 * rng.normal(size=(2, n)), 0.01 * rng.random(n))
    K = np.hstack([rng.normal(size=(2, 2)), rng.normal(size=(2, 2)) @ world.readout])
    many_K, k = K * (1.0 + rng.random((*shape, 1, 1))), rng.normal(size=(*shape, 2))
    root, R = rng.normal(size=(*shape, 2, 3)), np.array([[0.3, 0.1], [0.1, 0.2]])
    root[..., 1] = 0.0
    if shape:
        root[0, ..., 2] = 0.0  # a column that only some have
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
        "without_memory": lambda s, at: s.without_memory(),
        "a step": lambda s, at: s.assign(slice(1, 2), at(y)[..., :1]).move(world.cell, noise).affine(world.carry, K, at(k)),
    }
    if form != "ensemble":
        noises = R * (1.0 + rng.random((*shape, 1, 1)))
        result["condition with noise"] = lambda s, at: s.condition(world.carry, at(y), R)
        result["condition with noise of its own"] = lambda s, at: s.condition(world.carry, at(y), at(noises))
        result["condition with noise, each misses others"] = lambda s, at: s.condition(slice(0, 4), at(some), 0.1 * np.eye(4))
    return result, total


class SameForAll(Draws):
    """The same numbers for every state of a batch."""

    def normal(self, batch, members, size):
        numbers, after = super().normal((), members, size)
        return np.broadcast_to(numbers, (*batch, members, size)), after


@pytest.mark.parametrize("form", FORMS_AND_MORE)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_is_its_states_one_by_one(kit, form, shape):
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
                lambda s: s.covariance_with(slice(1, 4)),
                lambda s: s.covariance_of(slice(1, 4)),
                lambda s: s.covariance_after(K),
                lambda s: s.trace(QuadraticForm(A)),
                lambda s: s.marginal(slice(1, 4)).cov,
            ):
                a, b = part(together)[index], part(alone)
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11 * max(1.0, np.abs(b).max(initial=0.0)), err_msg=name)
            kit.close(together.covariance_after(many_K)[index], alone.covariance_after(many_K[index]), 1e-9)
            assert together.is_certain() <= alone.is_certain()


@pytest.mark.parametrize("form", ["full", "low-rank", "cut"])
def test_a_certain_state_beside_others(kit, form):
    """Which decides nothing for them, nor they for it: with a small variance the second order is not taken apart."""
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
def test_an_empty_batch_is_no_special_case(kit, form):
    world, states = states_of(kit, form, 2)
    batch = kit.batch_of(states, (2,))
    if form == "ensemble":
        batch = Ensemble(batch.members[:0], batch.carried, batch.draws, batch.past[:0])
    else:
        batch = type(batch)(**{k: v[:0] if isinstance(v, np.ndarray) else v for k, v in vars(batch).items()})
    after = batch.affine(world.carry, np.ones((2, len(states[0].mean))), np.zeros(2)).assign(slice(0, 1), np.zeros(1))
    assert after.condition(slice(0, 2), np.zeros((0, 2))).mean.shape == (0, world.n + 2)
