"""Claims about cells whose rows have leaks of their own, or keep a rotation of what they were:

1. Each closed form is the formula as it stands, covariances with the past included; without variance it is the function.
2. Members agree with the dense form, and equal leaks and the identity are the plain cell.
3. Two cells as one move keep what each of them keeps; noise of all units joins after several cells in every form.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import ortho_group

from pesn.activations import get
from pesn.linalg import orthonormal
from pesn.statespace import (
    ActivationMoments,
    Cell,
    Compression,
    Dense,
    FirstOrder,
    Noise,
    SquareMoments,
    StateSpaceModel,
    init,
    stacked,
)

N = 10
LEAKS = np.random.default_rng(8).uniform(0.1, 1.0, N)
TURN = ortho_group.rvs(N, random_state=4)
KINDS = {
    "leaks": {"leak": LEAKS},
    "rotation": {"leak": 0.3, "rotation": TURN},
    "both": {"leak": LEAKS, "rotation": TURN},
}


@pytest.fixture(params=KINDS)
def world(request, kit):
    return kit.world(N, **KINDS[request.param])


# ---------------------------------------------------------------- 1. forms


def test_dense_is_the_formula(kit, world):
    state = kit.some(world)
    after = state.move(world.cell)
    mean, cov = kit.twin(state.mean, state.cov, world.cell)
    kit.close(after.mean, mean, 1e-9)
    kit.close(after.cov, cov, 1e-7)
    kit.is_covariance(after.cov)


def test_low_rank_is_the_formula_without_the_rest(kit, world):
    state = kit.some(world, "low-rank")
    cell = replace(world.cell, compression=replace(world.compression, products=0))
    after = state.move(cell).move(cell)  # the second with entries that have something to themselves
    mean, cov = kit.twin(*kit.twin(state.mean, kit.cov_of(state), cell, "none"), cell, "none")
    kit.close(after.mean, mean, 1e-9)
    kit.close(kit.cov_of(after), cov, 1e-7)


def test_low_rank_in_a_cut_factor_keeps_variances_and_what_is_read_out(kit, world):
    """Of a state whose units have something to themselves, with fewer columns than units."""
    rng = np.random.default_rng(2)
    state = kit.some(world, "low-rank")
    state = state.with_arrays(factor=state.factor[..., :4], own=0.05 * rng.random(N))
    cell = replace(world.cell, compression=Compression(6, world.compression.basis, 0))
    after = state.move(cell)
    mean, cov = kit.twin(state.mean, kit.cov_of(state), cell, "none")
    kit.close(after.mean, mean, 1e-12)
    kit.close(after.variances(), np.diag(cov), 1e-9)
    kit.close(after.covariance_with(world.carry), cov[:, : world.p], 1e-9)
    y = np.hstack([np.zeros((len(world.readout), world.p)), world.readout])
    kit.close(after.factor @ (after.factor.T @ y.T), cov @ y.T, 1e-9)


def test_diagonal_is_the_formula(kit, world):
    state, cell = kit.some(world, "diagonal"), world.cell
    after, A = state.move(cell), cell.matrix.toarray()
    unit, unit_var = cell.units.moments(A @ state.mean + cell.bias, A**2 @ state.var)
    O = np.eye(N) if cell.rotation is None else cell.rotation  # noqa: E741
    kit.close(after.mean[world.units], (1 - cell.leaks) * (O @ state.mean[world.units]) + cell.leaks * unit, 1e-12)
    kit.close(after.var[world.units], (1 - cell.leaks) ** 2 * (O**2 @ state.var[world.units]) + cell.leaks**2 * unit_var, 1e-12)


def test_first_order_is_the_formula_to_first_order(kit, world):
    dense = kit.some(world, spread=1e-4)
    state = FirstOrder.of(dense, world.compression)
    after, other = state.move(world.cell), dense.move(world.cell)
    kit.close(after.mean, other.mean, 1e-9)
    kit.close(after.covariance_with(slice(0, N + world.p)), other.cov, 1e-6)


@pytest.mark.parametrize("form", ["full", "low-rank"])
def test_covariances_with_the_past(kit, world, form):
    state = kit.some(world, form).remember(slice(0, N + world.p))
    cell, A, before = world.cell, world.cell.matrix.toarray(), state.cross
    g = cell.units.gain(A @ state.mean + cell.bias, np.diag(A @ before @ A.T))
    O = np.eye(N) if cell.rotation is None else cell.rotation  # noqa: E741
    expected = before.copy()
    expected[world.units] = (1 - cell.leaks)[:, None] * (O @ before[world.units]) + (cell.leaks * g)[:, None] * (A @ before)
    kit.close(state.move(cell).cross, expected, 1e-9)


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal", "first-order", "none", "ensemble"])
def test_without_variance_it_is_the_function(world, form):
    h = np.random.default_rng(1).normal(size=N)
    state = init(form, world.p, h, np.zeros((0, N)), world.compression).assign(world.carry, np.array([0.3, -0.2]))
    cell, x = world.cell, np.concatenate([[0.3, -0.2], h])
    O = np.eye(N) if cell.rotation is None else cell.rotation  # noqa: E741
    expected = (1 - cell.leaks) * (O @ h) + cell.leaks * np.tanh(cell.matrix @ x + cell.bias)
    after = state.move(cell)
    np.testing.assert_allclose(after.mean[world.units], expected, rtol=1e-12)
    assert after.variances().max() <= 1e-25


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal"])
def test_a_batch_is_a_loop(kit, world, form, shape):
    states = [kit.some(world, form, seed=i) for i in range(int(np.prod(shape)))]
    batch = kit.batch_of(states, shape).move(world.cell)
    for place, state in zip(np.ndindex(*shape), states, strict=True):
        after = state.move(world.cell)
        kit.close(batch.mean[place], after.mean, 1e-12)
        kit.close(kit.cov_of(batch)[place], kit.cov_of(after), 1e-9)


# ---------------------------------------------------------------- 2. rivals


def test_members_agree_with_the_dense_form(kit, world):
    state = kit.some(world)
    after, members = state.move(world.cell), kit.ensemble_of(state, 200_000, sobol=False).move(world.cell)
    kit.agrees_with_samples(after.mean, after.cov, members.members)


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal"])
def test_equal_leaks_and_the_identity_are_the_plain_cell(kit, form):
    plain = kit.world(N, leak=0.3)
    state = kit.some(plain, form)
    expected = state.move(plain.cell)
    for parts in ({"leak": np.full(N, 0.3)}, {"rotation": np.eye(N)}):
        after = state.move(replace(plain.cell, **parts))
        kit.close(after.mean, expected.mean, 1e-13)
        kit.close(kit.cov_of(after), kit.cov_of(expected), 1e-12)


# ---------------------------------------------------------------- 3. several cells


def test_two_cells_as_one_move(kit, world):
    """x = [c, c², h]: squares without a leak, and units that keep what they keep."""
    p, cell = world.p, world.cell
    A = cell.matrix.toarray()
    rows, n = slice(2 * p, 2 * p + N), 2 * p + N
    units = replace(cell, rows=rows, matrix=sparse.csr_array(np.hstack([A[:, :p], np.zeros((N, p)), A[:, p:]])))
    squares = Cell(slice(p, 2 * p), sparse.csr_array(np.eye(p, n)), np.zeros(p), 1.0, SquareMoments())
    rng = np.random.default_rng(0)
    root = 0.2 * rng.normal(size=(n, n)) / np.sqrt(n)
    state = Dense(0.4 * rng.normal(size=n), p, np.zeros((n, 0)), root @ root.T)
    after, x = state.move(stacked(squares, units)), kit.samples_of(state, 200_000)
    kit.agrees_with_samples(after.mean, after.cov, squares(units(x)))
    apart = state.move(units)
    kit.close(after.cov[rows, rows], apart.cov[rows, rows], 1e-12)


def layers_of(compression):
    """Two cells of four and six of the units, the second seeing the first."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(N, 2 + N)) / 3.0
    A[:4, 6:] = 0.0
    tanh, turn = ActivationMoments(get("tanh")), ortho_group.rvs(6, random_state=2)
    return (
        Cell(slice(2, 6), sparse.csr_array(A[:4]), np.zeros(4), LEAKS[:4], tanh, compression),
        Cell(slice(6, 12), sparse.csr_array(A[4:]), np.zeros(6), 0.4, tanh, compression, rotation=turn),
    )


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal", "first-order", "ensemble"])
def test_noise_of_all_units_joins_after_the_last_cell(kit, form):
    rng = np.random.default_rng(0)
    readout = np.zeros((2, N))
    readout[0, :4], readout[1, 4:] = rng.normal(size=4), rng.normal(size=6)
    compression = Compression(30, orthonormal(readout.T))
    noise = Noise(0.1 * rng.normal(size=(3, N)), 0.01 * rng.random(N))
    cells = layers_of(compression)
    model = StateSpaceModel(cells, np.zeros((2, 12)), np.zeros(2), slice(0, 1), slice(1, 2), noise)
    state = init(form, 2, 0.3 * rng.normal(size=N), 0.1 * rng.normal(size=(4, N)), compression, members=50_000)
    quiet, noisy = state.move(cells[0]).move(cells[1]), model.move(state)
    units = slice(2, 12)
    expected = quiet.covariance_of(units) + (np.diag(noise.variances) if form == "diagonal" else noise.cov)
    np.testing.assert_allclose(noisy.mean, quiet.mean, atol=0.005 if form == "ensemble" else 1e-13)
    found = noisy.covariance_of(units)
    np.testing.assert_allclose(found, expected, atol=0.02 * expected.max() if form == "ensemble" else 1e-12)


def test_noise_in_a_cut_factor_reaches_all_that_is_read_out(kit):
    rng = np.random.default_rng(0)
    readout = np.zeros((2, N))
    readout[0, :4], readout[1, 4:] = rng.normal(size=4), rng.normal(size=6)
    compression, noise = Compression(5, orthonormal(readout.T)), Noise(0.1 * rng.normal(size=(9, N)), 0.01 * rng.random(N))
    state = init("low-rank", 2, np.zeros(N), 0.1 * rng.normal(size=(2, N)), compression)
    after = state.add(noise, compression)
    h = slice(2, 12)
    kit.close(after.variances()[h], state.variances()[h] + noise.variances, 1e-12)
    gained = after.factor[h] @ (after.factor[h].T @ readout.T) - state.factor[h] @ (state.factor[h].T @ readout.T)
    kit.close(gained, noise.cov @ readout.T, 1e-9)


def test_noise_of_a_low_rank_state_needs_a_compression(kit):
    with pytest.raises(ValueError, match="compression must be given where noise is added"):
        kit.some(kit.world(N), "low-rank").add(Noise(np.zeros((0, N)), np.ones(N)))
