"""Tests of rollouts: a batch equals its paths, a split run the whole run, and covariances between steps agree with samples."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from pesn.linalg import limit_cross_covariances, orthonormal
from pesn.statespace.cell import Cell, Compression, Noise
from pesn.statespace.model import CLOSED_FORMS, Emission, StateSpaceModel, concatenate, init, rollout

N, TOTAL = 6, 9  # x = [y (2), u (1), units (6)]
ROOT = 0.1 * np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 0.0]])


def make_compression(K, rank=30):
    return Compression(rank, orthonormal(K[:2, 3:].T), 4)


def model_of(kit, units=None, seed=0, rank=30, **options):
    """Return a closed loop: y drives the units and is read out of them."""
    rng = np.random.default_rng(seed)
    A = 0.5 * rng.normal(size=(N, TOTAL)) * (rng.random((N, TOTAL)) < 0.6)
    K = np.zeros((3, TOTAL))
    K[:2, :2], K[:2, 3:], K[2, 2] = 0.3 * np.eye(2), 0.4 * rng.normal(size=(2, N)), 1.0
    units, compression = units or kit.world(N).cell.units, make_compression(K, rank)
    cell = Cell(slice(3, TOTAL), sparse.csr_array(A), 0.2 * rng.normal(size=N), 0.8, units, compression)
    var = np.sum(ROOT**2, axis=1)[:2]
    given = {
        "process_noise": Noise(0.05 * rng.normal(size=(2, N)), np.full(N, 1e-3)),
        "emission_noise": lambda _: Emission(ROOT, var, var),
    }
    return StateSpaceModel((cell,), K, np.array([0.1, -0.1, 0.0]), slice(2, 3), slice(0, 2), **{**given, **options})


def state_of(model, form="full", spread=0.5, seed=1):
    rng, (cell,) = np.random.default_rng(seed), model.cells
    return init(form, 3, 0.3 * rng.normal(size=N), spread * rng.normal(size=(8, N)) / np.sqrt(N), cell.compression)


def same(kit, a, b, tolerance=1e-12):
    np.testing.assert_array_equal(a.left, b.left)
    for name in ("mean", "cov", "joint"):
        one, other = getattr(a, name), getattr(b, name)
        assert (one is None) == (other is None)
        if one is not None:
            kit.close(one, other, tolerance)
    for kind in ("parts", "probed"):
        one, other = getattr(a, kind), getattr(b, kind)
        assert one.keys() == other.keys()
        for key, value in one.items():
            kit.close(value, other[key], tolerance)
    kit.close(a.state.mean, b.state.mean, tolerance)
    kit.close(kit.cov_of(a.state), kit.cov_of(b.state), tolerance)


# ---------------------------------------------------------------- covariances between steps


@pytest.mark.parametrize("form", ["full", "low-rank"])
@pytest.mark.parametrize("older", [False, True])
def test_joint_covariances_equal_the_linear_recursion(kit, form, older):
    """With linear units, y_k is a linear map of the initial state and all noise. Entries remembered earlier are kept."""
    model = model_of(kit, kit.LinearUnits())
    state = state_of(model, form)
    L, A, steps = 0.8, model.cells[0].matrix.toarray(), 5
    T, U = np.eye(TOTAL), np.eye(TOTAL)
    T[3:] = L * A
    T[3:, 3:] += (1 - L) * np.eye(N)
    U[2] = 0.0
    M = np.eye(TOTAL)
    M[:3] = model.K
    E = np.zeros((TOTAL, 3))
    E[:3, :2] = ROOT
    q = np.zeros((TOTAL, 2 + N))
    q[3:] = np.hstack([model.process_noise.root.T, np.diag(np.sqrt(model.process_noise.diagonal))])
    values, vectors = np.linalg.eigh(kit.cov_of(state))
    S, rows = vectors * np.sqrt(np.maximum(values, 0.0)), []  # root of the initial state, then of each step's noise
    for _ in range(steps):
        S = np.hstack([M @ T @ U @ S, M @ q, E])
        rows.append(S[:2])
    wide = [np.pad(row, ((0, 0), (0, S.shape[1] - row.shape[1]))) for row in rows]
    expected = np.stack([np.stack([a @ b.T for b in wide]) for a in wide])  # (T, T, 2, 2)
    start = state.remember(slice(3, 5)) if older else state
    path = rollout(model, start, np.zeros((steps, 1)), joint=True)
    kit.close(path.joint, np.swapaxes(expected, 1, 2), 1e-10)
    assert path.state.cross.shape[-1] == 2 * steps + (2 if older else 0)


@pytest.mark.parametrize("form", ["full", "low-rank"])
def test_joint_covariances_agree_with_ensemble_members(kit, form):
    model = model_of(kit)
    state, inputs = state_of(model, form, 0.3), np.linspace(-1.0, 1.0, 4)[:, None]
    path = rollout(model, kit.ensemble_of(state, 20_000, sobol=False), inputs, joint=True)
    closed = rollout(model, state, inputs, joint=True)
    np.testing.assert_allclose(path.joint, closed.joint, atol=0.05 * np.abs(closed.joint).max())
    y = path.state.past  # sample paths
    kit.close(path.joint.reshape(8, 8), np.cov(y.T), 1e-11)
    assert "cross" not in vars(path.state)
    joint = closed.joint.reshape(8, 8)
    kit.close(joint, joint.T, 1e-13)
    assert np.linalg.eigvalsh(joint)[0] > 0.0
    for k in range(4):
        kit.close(closed.joint[k, :, k], closed.cov[k], 1e-14)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_path_members_have_the_path_moments(kit, shape):
    """Mean, covariance and covariances between steps are those of the sample paths. Closed forms have no members."""
    model, inputs = model_of(kit), np.linspace(-1.0, 1.0, 4)[:, None]
    states = [kit.ensemble_of(state_of(model, seed=i), 50, seed=i, sobol=False) for i in range(int(np.prod(shape)))]
    path = rollout(model, kit.batch_of(states, shape), inputs, joint=True, members=True)
    assert path.members.shape == (*shape, 4, 50, 2)
    np.testing.assert_array_equal(path.members[..., -1, :, :], path.state.members[..., :2])
    kit.close(path.members.mean(axis=-2), path.mean, 1e-13)
    for index in np.ndindex(*shape):
        futures = np.moveaxis(path.members[index], 1, 0).reshape(50, 8)
        np.testing.assert_array_equal(futures, path.state.past[index])
        kit.close(np.cov(futures.T), path.joint[index].reshape(8, 8), 1e-11)
    assert rollout(model, state_of(model), inputs, members=True).members is None
    assert rollout(model, kit.batch_of(states, shape), inputs).members is None


# ---------------------------------------------------------------- batches and split runs


@pytest.mark.parametrize("form", CLOSED_FORMS)
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
@pytest.mark.parametrize("kind", ["forecast", "filter", "clamp"])
def test_batch_of_rollouts_equals_single_rollouts(kit, form, shape, kind):
    probe = lambda state: {"size": np.sum(state.mean**2, axis=-1), "units": state.mean[..., 3:]}  # noqa: E731
    model = model_of(kit, rank=4, probe=probe)
    count, rng = int(np.prod(shape)), np.random.default_rng(0)
    states = [state_of(model, form, 0.2 + 0.1 * i, seed=i) for i in range(count)]
    inputs, var, y = rng.normal(size=(*shape, 9, 1)), 0.1 * rng.random((*shape, 9, 1)), rng.normal(size=(*shape, 9, 2))
    y[rng.random(y.shape) < 0.3] = np.nan if kind == "filter" else 0.0
    names = {"forecast": {}, "filter": {"observations": y}, "clamp": {"clamp": y}}[kind]
    batch = rollout(model, kit.batch_of(states, shape), inputs, var, joint=kind == "forecast", **names)
    assert batch.mean.shape == (*shape, 9, 2)
    for index, state in zip(np.ndindex(*shape), states, strict=True):
        mine = {name: value[index] for name, value in names.items()}
        alone = rollout(model, state, inputs[index], var[index], joint=kind == "forecast", **mine)
        kit.close(batch.mean[index], alone.mean, 1e-9)
        kit.close(batch.cov[index], alone.cov, 1e-9)
        if kind == "forecast":
            kit.close(batch.joint[index], alone.joint, 1e-9)
        for key, value in (alone.parts | alone.probed).items():
            kit.close((batch.parts | batch.probed)[key][index], value, 1e-8)
        kit.close(batch.state.mean[index], alone.state.mean, 1e-9)


def test_shared_inputs_of_a_batch_equal_single_rollouts(kit):
    model = model_of(kit)
    states = [state_of(model, seed=i) for i in range(3)]
    inputs, y = np.ones((5, 1)), np.random.default_rng(0).normal(size=(3, 5, 2))
    batch = rollout(model, kit.batch_of(states, (3,)), inputs, observations=y)
    for i, state in enumerate(states):
        kit.close(batch.mean[i], rollout(model, state, inputs, observations=y[i]).mean, 1e-10)


@pytest.mark.parametrize("form", CLOSED_FORMS)
def test_split_rollout_equals_the_whole_rollout(kit, form):
    model, rng = model_of(kit), np.random.default_rng(0)
    state, inputs, y = state_of(model, form), rng.normal(size=(9, 1)), rng.normal(size=(9, 2))
    whole = rollout(model, state, inputs, observations=y)
    first = rollout(model, state, inputs[:4], observations=y[:4])
    second = rollout(model, first.state, inputs[4:], observations=y[4:])
    kit.close(np.concatenate([first.mean, second.mean]), whole.mean, 1e-13)
    kit.close(np.concatenate([first.cov, second.cov]), whole.cov, 1e-13)
    both = concatenate([first, second])
    same(kit, both, whole)
    assert both.state is second.state
    nothing = rollout(model, state, inputs[:0])
    assert nothing.mean.shape == (0, 2)
    assert nothing.state is state


@pytest.mark.parametrize("form", CLOSED_FORMS)
def test_rollout_from_a_moved_state_skips_the_first_move(kit, form):
    model = model_of(kit)
    state, inputs = state_of(model, form), np.random.default_rng(0).normal(size=(4, 1))
    moved = model.move(model.set_inputs(state, inputs[0]))
    same(kit, rollout(model, moved, inputs, moved=True, joint=True), rollout(model, state, inputs, joint=True))


def test_clamped_outputs_do_not_correct_the_units(kit):
    """Without variance this is teacher forcing. With variance, clamped outputs are certain and units are not updated."""
    model = model_of(kit, process_noise=None, emission_noise=None)
    rng = np.random.default_rng(0)
    inputs, y = rng.normal(size=(6, 1)), rng.normal(size=(6, 2))
    state = state_of(model, spread=0.0)
    path = rollout(model, state, inputs, clamp=y)
    x = state.mean
    for k in range(6):
        x = model.cells[0](np.concatenate([x[:2], inputs[k], x[3:]]))
        read = model.K @ x + model.k
        np.testing.assert_allclose(path.mean[k], read[:2], rtol=1e-12)
        x = np.concatenate([y[k], read[2:], x[3:]])
    assert not path.cov.any()
    noisy = model_of(kit)
    start = state_of(noisy)
    one = rollout(noisy, start, inputs[:1], clamp=y[:1])
    free = rollout(noisy, start, inputs[:1])
    np.testing.assert_array_equal(one.state.mean[:2], y[0])
    np.testing.assert_array_equal(one.state.mean[3:], free.state.mean[3:])
    np.testing.assert_array_equal(one.state.cov[3:, 3:], free.state.cov[3:, 3:])
    assert not one.state.cov[:2].any()


# ---------------------------------------------------------------- settled states


@pytest.mark.parametrize("form", CLOSED_FORMS)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_settled_states_become_certain(kit, form, shape):
    model = model_of(kit, process_noise=None, emission_noise=None, settled=1e-3)
    model = replace(model, cells=(replace(model.cells[0], matrix=0.3 * model.cells[0].matrix),))  # forgets the initial state
    states = [state_of(model, form, 0.4, seed=i) for i in range(int(np.prod(shape)))]
    state, inputs = kit.batch_of(states, shape), np.random.default_rng(0).normal(size=(12, 1))
    path = rollout(model, state, inputs)
    var = np.diagonal(path.cov, axis1=-2, axis2=-1)
    settled = np.flatnonzero(np.max(var.reshape(-1, 12, 2), axis=(0, 2)) <= 1e-3)[0]
    assert 0 < settled < 11
    assert var[..., settled, :].any()
    assert not var[..., settled + 1 :, :].any()
    assert path.state.is_certain()
    before = rollout(replace(model, settled=None), state, inputs[: settled + 1])
    kit.close(path.mean[..., : settled + 1, :], before.mean, 1e-13)
    after = rollout(replace(model, settled=None), before.state.as_certain(), inputs[settled + 1 :])
    kit.close(path.mean[..., settled + 1 :, :], after.mean, 1e-13)
    joint = rollout(model, state, inputs, joint=True)
    kit.close(joint.mean, path.mean, 1e-13)
    kit.close(joint.cov, path.cov, 1e-13)
    assert joint.joint.shape == (*shape, 12, 2, 12, 2)
    assert not joint.joint[..., settled + 1 :, :, :, :].any()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_limit_cross_covariances_keeps_blocks_and_gives_a_semidefinite_matrix(d):
    rng = np.random.default_rng(d)
    root = rng.normal(size=(6 * d, 6 * d))
    fine = root @ root.T
    assert limit_cross_covariances(fine, d) is fine
    own = np.kron(np.eye(6), np.ones((d, d)))
    wrong = np.where(own, fine, 3.0 * fine) * np.multiply.outer(units := 10.0 ** rng.uniform(-6, 6, 6 * d), units)
    limited = limit_cross_covariances(wrong, d)
    correlation = limited / np.multiply.outer(std := np.sqrt(np.diag(wrong)), std)
    assert np.linalg.eigvalsh(wrong / np.multiply.outer(std, std))[0] < -0.1
    assert np.linalg.eigvalsh(correlation)[0] == pytest.approx(0.0, abs=1e-12)  # the smallest sufficient reduction
    np.testing.assert_array_equal(limited[own.astype(bool)], wrong[own.astype(bool)])
    ratio = (limited / wrong)[~own.astype(bool)]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-8)
