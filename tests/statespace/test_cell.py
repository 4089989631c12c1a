"""Tests of cells: a cell moves its own entries of x, at any position and with any activation; several cells form a model."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import ortho_group

from pesn.activations import get
from pesn.linalg import orthonormal
from pesn.moments.covariance import covariance
from pesn.statespace.cell import ActivationMoments, Cell, Compression, Noise, SineMoments, SparseRows, SquareMoments, stack_cells
from pesn.statespace.kernels import REACH
from pesn.statespace.low_rank import FirstOrder, LowRank
from pesn.statespace.model import StateSpaceModel, init
from pesn.statespace.state import Dense

COVARIANT = ("full", "low-rank")


def readout_of(n):
    """Return a readout of n entries of h."""
    return np.random.default_rng(0).normal(size=(2, n))


def make_compression(n, products=0):
    return Compression(40, orthonormal(readout_of(n).T), products)


def start(form, p, n, spread=0.6, seed=1):
    rng, readout = np.random.default_rng(seed), readout_of(n)
    root = spread * rng.normal(size=(n + 2, n)) / np.sqrt(n)
    state = init(form, p, 0.4 * rng.normal(size=n), root, make_compression(n))
    K = np.hstack([np.zeros((p, p)), rng.normal(size=(p, 2)) @ readout])
    return state.affine(slice(0, p), K, rng.normal(size=p), 0.3 * rng.normal(size=(p, p)))


def cell_of(rows, n, units, leak=0.7, seed=2, density=0.6, compression=None):
    """Return a cell of x (n,) with two carried entries."""
    rng = np.random.default_rng(seed)
    size = rows.stop - rows.start
    A = rng.normal(size=(size, n)) * (rng.random((size, n)) < density) / np.sqrt(n * density)
    return Cell(rows, sparse.csr_array(A), 0.3 * rng.normal(size=size), leak, units, compression or make_compression(n - 2))


# ---------------------------------------------------------------- products


@pytest.mark.parametrize("width", [1, 7, 8, 23, 40, 64, 90])
def test_sparse_products_match_scipy(kit, width):
    rng = np.random.default_rng(width)
    W = sparse.random_array((31, 53), density=0.1, rng=rng, format="csr")
    x = rng.normal(size=(53, width))
    kit.close(SparseRows(W) @ x, W @ x, 1e-14)
    kit.close(SparseRows(W.toarray()) @ np.asfortranarray(x), W @ x, 1e-14)
    cell = Cell(slice(22, 53), W, np.zeros(31), 1.0, SquareMoments())
    kit.close(cell.enter @ x, W @ x, 1e-14)
    kit.close(cell.squares @ x, W.toarray() ** 2 @ x, 1e-14)
    kit.close(cell.slice_columns(3)[0] @ x[3:], W[:, 3:] @ x[3:], 1e-14)
    kit.close(cell.slice_columns(3)[2] @ x[3:], W.toarray()[:, 3:] ** 2 @ x[3:], 1e-14)
    kit.close(cell.slice_columns(3)[1] @ x[:31], W[:, 3:].T @ x[:31], 1e-14)
    own = rng.random(31)
    kit.close(cell.memory_input_covariances(own), np.diag(W.toarray()[:, 22:] * own), 1e-14)


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (2, 3), (2, 0)])
@pytest.mark.parametrize("width", [0, 1, 9])
def test_batched_sparse_products_match_dense_products(kit, shape, width):
    rng = np.random.default_rng(0)
    W = sparse.random_array((5, 7), density=0.5, rng=rng, format="csr")
    x = rng.normal(size=(*shape, 7, width))
    result = SparseRows(W) @ x
    assert result.shape == (*shape, 5, width)
    kit.close(result, W.toarray() @ x, 1e-14)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_cell_applied_to_values_matches_the_formula(shape):
    cell = cell_of(slice(2, 5), 7, ActivationMoments(get("relu")))
    x = np.random.default_rng(0).normal(size=(*shape, 7))
    moved = cell(x)
    expected = 0.3 * x[..., 2:5] + 0.7 * np.maximum(x @ cell.matrix.toarray().T + cell.bias, 0.0)
    np.testing.assert_allclose(moved[..., 2:5], expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(np.delete(moved, [2, 3, 4], axis=-1), np.delete(x, [2, 3, 4], axis=-1))


# ---------------------------------------------------------------- any activation, any rows


@pytest.mark.parametrize("name", ["relu", "gelu", "sigmoid", "sine"])
@pytest.mark.parametrize(("n", "leak"), [(5, 1.0), (5, 0.4), (40, 0.4)])
def test_dense_move_with_any_activation_matches_the_formula(kit, name, n, leak):
    state = start("full", 2, n)
    cell = cell_of(slice(2, 2 + n), 2 + n, ActivationMoments(get(name)), leak)
    after = state.move(cell)
    mean, cov = kit.twin(state.mean, state.cov, cell)
    kit.close(after.mean, mean, 1e-9)
    kit.close(after.cov, cov, 1e-7)


@pytest.mark.parametrize("name", ["relu", "gelu", "sigmoid", "square"])
@pytest.mark.parametrize("spread", [1e-6, 1e-3, 0.6])
@pytest.mark.parametrize("leak", [1.0, 0.4])
def test_low_rank_move_with_any_activation_agrees_with_dense(kit, name, spread, leak):
    """Means, variances and covariances with c equal those of Dense; those between units agree up to second order."""
    units = SquareMoments() if name == "square" else ActivationMoments(get(name))
    dense, low = (start(form, 2, 5, spread=spread) for form in COVARIANT)
    cell = cell_of(slice(2, 7), 7, units, leak, compression=make_compression(5, 1000))
    cell.bias[0] = -(cell.matrix @ dense.mean)[0]  # at a kink
    after, other = dense.move(cell), low.move(cell)
    kit.close(other.mean, after.mean, 1e-9)
    kit.close(other.variances(), after.variances(), 1e-6)
    kit.close(kit.cov_of(other)[:2], after.cov[:2], 1e-6)
    live = after.variances() > 1e-6 * after.variances().max()  # relu far below its kink has zero variance
    std = np.sqrt(after.variances()[live])
    far = np.abs(kit.cov_of(other) - after.cov)[np.ix_(live, live)] / np.outer(std, std)
    assert far.max() < (1e-4 if name == "square" or (spread < 0.1 and name != "relu") else 0.05)


@pytest.mark.parametrize("form", [*COVARIANT, "diagonal"])
@pytest.mark.parametrize("rows", [slice(2, 5), slice(4, 7), slice(5, 9)])
def test_cell_moves_only_its_own_rows(kit, form, rows):
    state = start(form, 2, 7).remember(slice(0, 9))
    cell = cell_of(rows, 9, ActivationMoments(get("tanh")))
    noise = Noise(0.1 * np.ones((1, len(cell.bias))), np.linspace(0.01, 0.02, len(cell.bias)))
    after = state.move(cell, noise)
    mean, cov = kit.twin(state.mean, kit.cov_of(state), cell, "all" if form == "full" else "none")
    cov[rows, rows] += noise.cov
    kit.close(after.mean, mean, 1e-9)
    still = np.delete(np.arange(9), np.arange(9)[rows])
    if form == "diagonal":
        A, kept = cell.matrix.toarray(), state.var.copy()
        a, v = A @ state.mean + cell.bias, A**2 @ state.var
        kept[rows] = 0.09 * state.var[rows] + 0.49 * cell.units.moments(a, v)[1] + noise.variances
        kit.close(after.var, kept, 1e-12)
        return
    kit.close(kit.cov_of(after), cov, 1e-8)
    kit.close(after.cross, _cross(state, cell), 1e-9)
    np.testing.assert_allclose(kit.cov_of(after)[np.ix_(still, still)], kit.cov_of(state)[np.ix_(still, still)], atol=1e-12)


def _cross(state, cell):
    """Return covariances with the state before the move by Stein's identity."""
    A, before = cell.matrix.toarray(), state.cross
    O = np.eye(len(A)) if cell.rotation is None else cell.rotation  # noqa: E741
    var = np.diag(A @ before @ A.T)  # the past is all of x
    g = cell.units.gain(A @ state.mean + cell.bias, var)
    after = before.copy()
    after[cell.rows] = (1 - cell.leaks)[:, None] * (O @ before[cell.rows]) + (cell.leaks * g)[:, None] * (A @ before)
    return after


# ---------------------------------------------------------------- stacked layers


def cut_state():
    """Return two layers of 15 units with mostly independent variance, and a readout of each."""
    rng = np.random.default_rng(6)
    readout = np.zeros((2, 30))
    readout[0, :15], readout[1, 15:] = rng.normal(size=(2, 15))
    compression = Compression(12, orthonormal(readout.T), 0)
    state = LowRank(rng.normal(size=32), 2, np.zeros((32, 0)), 0.2 * rng.normal(size=(32, 4)), 0.1 * rng.random(30))
    return state, readout, compression


@pytest.mark.parametrize("leak", [1.0, 0.5])
def test_truncated_factor_keeps_covariances_between_layers(kit, leak):
    """Independent variance of the first layer propagates to the second and correlates with its readout."""
    state, readout, compression = cut_state()
    tanh = ActivationMoments(get("tanh"))
    cell = cell_of(slice(17, 32), 32, tanh, leak, density=0.3, compression=compression)
    after = state.move(cell)
    mean, cov = kit.twin(state.mean, kit.cov_of(state), cell, "none")
    kit.close(after.mean, mean, 1e-12)
    kit.close(after.variances(), np.diag(cov), 1e-9)
    kit.close(after.cross_covariance(slice(0, 2)), cov[:, :2], 1e-9)
    y = np.concatenate([np.zeros(2), readout[1]])
    kit.close(after.factor @ (after.factor.T @ y), cov @ y, 1e-9)


# ---------------------------------------------------------------- units
#
# The moments of f(a) are correct for every activation, for squares and for sines of angles.


def gaussian(n=4, seed=0, spread=0.7):
    rng = np.random.default_rng(seed)
    root = spread * rng.normal(size=(n, n + 1)) / np.sqrt(n)
    return rng.normal(size=n), root @ root.T


def test_square_moments_match_isserlis_theorem(kit):
    """Compute E[a_i² a_j²] − E[a_i²] E[a_j²] from the moments of four Gaussian factors."""
    mean, cov = gaussian()
    units = SquareMoments()
    unit, var = units.moments(mean, np.diag(cov))
    same, g, rest = units.linearize(mean, cov)
    kit.close(same, unit, 1e-15)
    expected = 4.0 * np.outer(mean, mean) * cov + 2.0 * np.square(cov)
    kit.close(unit, np.square(mean) + np.diag(cov), 1e-13)
    kit.close(g[:, None] * cov * g + rest, expected, 1e-13)
    kit.close(var, np.diag(expected), 1e-13)
    kit.close(rest, 0.5 * np.square(units.slopes(mean, np.diag(cov))[1][:, None] * cov), 1e-13)


@pytest.mark.parametrize("name", ["square", "angles", "tanh", "relu", "gelu", "sine", "elu"])
def test_unit_moments_agree_with_samples(kit, name):
    mean, cov = gaussian()
    own = {"square": SquareMoments, "angles": SineMoments}
    units = own[name]() if name in own else ActivationMoments(get(name))
    x = mean + np.random.default_rng(1).standard_normal((400_000, 4)) @ np.linalg.cholesky(cov).T
    f = units.activation(x)
    unit, var = units.moments(mean, np.diag(cov))
    same, g, rest = units.linearize(mean, cov)
    kit.close(same, unit, 1e-12)
    out = g[:, None] * cov * g + rest
    kit.close(np.diag(out), var, 1e-6)
    kit.agrees_with_samples(unit, out, f)
    kit.close(units.gain(mean, np.diag(cov)), g, 1e-6)
    product = (f - f.mean(axis=0)) * (x - mean)  # Stein: Cov(a, f(a)) = v g
    assert np.all(np.abs(product.mean(axis=0) - np.diag(cov) * g) < 5.0 * product.std(axis=0) / np.sqrt(len(x)))


@pytest.mark.parametrize("variance", [0.0, 1e-300, 1e-150, 1e-20, 1e-8, 1e-3, 0.5, 0.999, 1.001, 5.0])
def test_sine_moments_match_mehlers_series(variance):
    """Σ cⁿ/n! E f⁽ⁿ⁾ E f⁽ⁿ⁾ for sine and cosine of an angle and of one with correlation ½, to full precision for any c."""
    share = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    mean, cov = np.array([0.3, 0.3 + 0.5 * np.pi, -1.1]), variance * share
    shrunk, orders = np.exp(-0.5 * variance), np.arange(1, 40)
    slopes = shrunk * np.sin(mean[:, None] + 0.5 * np.pi * orders)
    terms = np.power(cov[..., None], orders) / np.array([np.prod(np.arange(1.0, n + 1.0)) for n in orders])
    terms = terms * slopes[:, None] * slopes
    units = SineMoments()
    _, g, rest = units.linearize(mean, cov)
    np.testing.assert_allclose(rest, terms[..., 1:].sum(axis=-1), rtol=1e-12, atol=0.0)
    np.testing.assert_allclose(g, slopes[:, 0], rtol=1e-12)
    unit, var = units.moments(mean, np.diag(cov))
    np.testing.assert_allclose(unit, shrunk * np.sin(mean), rtol=1e-14)
    np.testing.assert_allclose(var, np.diagonal(terms.sum(axis=-1)), rtol=1e-12, atol=0.0)
    np.testing.assert_allclose(units.slopes(mean, np.diag(cov))[1], slopes[:, 1], rtol=1e-12)


@pytest.mark.parametrize("variance", [40.0, 1e5, 1e300])
def test_sine_moments_of_a_wide_angle_are_uniform(variance):
    """Sine and cosine are uncorrelated with variance ½."""
    mean, units = np.array([0.3, 0.3 + 0.5 * np.pi]), SineMoments()
    unit, var = units.moments(mean, np.full(2, variance))
    _, g, rest = units.linearize(mean, np.full((2, 2), variance))
    np.testing.assert_allclose(unit, 0.0, atol=1e-8)
    np.testing.assert_allclose(g, 0.0, atol=1e-8)
    np.testing.assert_allclose(var, 0.5, rtol=1e-8)
    np.testing.assert_allclose(rest, 0.5 * np.eye(2), atol=1e-7)


@pytest.mark.parametrize("name", ["tanh", "gelu", "sigmoid", "relu", "hard_tanh", "elu"])
@pytest.mark.parametrize("variance", [1e-12, 1e-6, 1e-2, 1.0, 100.0])
def test_curvature_matches_second_order_stein_identity(name, variance):
    """E[f″(a)] = E[f(a) (z² − 1)]/v for standardized z, also at kinks, where f″ is a point mass."""
    units = ActivationMoments(get(name))
    s = np.sqrt(variance)
    for distance in (0.0, 0.7, -1.3):
        kinks = units.record.kinks or (0.4,)
        mean = kinks[0] + distance * s
        edges = np.unique(np.concatenate([np.linspace(-12, 12, 97), *[[(k - mean) / s] for k in units.record.kinks]]))
        edges = edges[np.abs(edges) <= 12.0]
        x, w = np.polynomial.legendre.leggauss(20)
        half = 0.5 * np.diff(edges)[:, None]
        z = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * x).ravel()
        weight = (half * w).ravel() * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        expected = np.sum(weight * units.record.difference(np.full_like(z, mean), s * z) * (z * z - 1.0)) / variance
        g, (given,) = units.slopes(np.array([mean]), np.array([variance]))
        assert g == pytest.approx(units.gain(np.array([mean]), np.array([variance])), rel=1e-12)
        assert given * s == pytest.approx(expected * s, rel=2e-3, abs=2e-4)
        assert np.isfinite(units.slopes(np.array([mean]), np.zeros(1))).all()


def test_moments_of_a_certain_entry_are_its_activation():
    units = ActivationMoments(get("relu"))
    mean = np.array([-1.0, 0.5])
    unit, var = units.moments(mean, np.zeros(2))
    np.testing.assert_array_equal(unit, [0.0, 0.5])
    assert not var.any()
    unit, var = units.moments(mean, np.array([0.0, 1.0]))
    assert unit[0] == var[0] == 0.0
    assert var[1] == pytest.approx(covariance("relu", [0.5], [[1.0]])[0, 0])


# ---------------------------------------------------------------- leaks and rotations
#
# Cells with leaks per row or a rotation of the previous state: 1. Each closed form equals its formula, including covariances
# with the past; without variance it equals the activation. 2. Ensemble members agree with the dense form. 3. Stacked cells keep
# their leaks and rotations; process noise is added after the last cell in every form.


N = 10
LEAKS = np.random.default_rng(8).uniform(0.1, 1.0, N)
TURN = ortho_group.rvs(N, random_state=4)
KINDS = {
    "plain": {"leak": 0.6}, "leaks": {"leak": LEAKS}, "rotation": {"leak": 0.3, "rotation": TURN},
    "both": {"leak": LEAKS, "rotation": TURN},
}  # fmt: skip


@pytest.fixture(params=KINDS)
def world(request, kit):
    return kit.world(N, **KINDS[request.param])


# ---------------------------------------------------------------- 1. forms


@pytest.mark.parametrize("spread", [1e-3, 0.3, 2.0])
def test_dense_move_matches_the_formula(kit, world, spread):
    state = kit.some(world, spread=spread)
    after = state.move(world.cell)
    mean, cov = kit.twin(state.mean, state.cov, world.cell)
    kit.close(after.mean, mean, 1e-9)
    kit.close(after.cov, cov, 1e-7)
    kit.is_covariance(after.cov)


def test_low_rank_move_matches_the_formula_without_remainder(kit, world):
    state = kit.some(world, "low-rank")
    cell = replace(world.cell, compression=replace(world.compression, products=0))
    after = state.move(cell).move(cell)  # the second move starts with independent variances
    mean, cov = kit.twin(*kit.twin(state.mean, kit.cov_of(state), cell, "none"), cell, "none")
    kit.close(after.mean, mean, 1e-9)
    kit.close(kit.cov_of(after), cov, 1e-7)


@pytest.mark.parametrize("rank", [1, 6, 12])
def test_truncated_low_rank_keeps_variances_and_readout_covariances(kit, world, rank):
    """Use a state with independent variances and fewer factor columns than units."""
    rng = np.random.default_rng(2)
    state = kit.some(world, "low-rank")
    state = state.with_arrays(factor=state.factor[..., :4], own=0.05 * rng.random(N))
    cell = replace(world.cell, compression=Compression(rank, world.compression.basis, 0))
    after = state.move(cell)
    mean, cov = kit.twin(state.mean, kit.cov_of(state), cell, "none")
    kit.close(after.mean, mean, 1e-12)
    kit.close(after.variances(), np.diag(cov), 1e-9)
    kit.close(after.cross_covariance(world.carry), cov[:, : world.p], 1e-9)
    y = np.hstack([np.zeros((len(world.readout), world.p)), world.readout])
    kit.close(after.factor @ (after.factor.T @ y.T), cov @ y.T, 1e-9)


def test_diagonal_move_matches_the_formula(kit, world):
    state, cell = kit.some(world, "diagonal"), world.cell
    after, A = state.move(cell), cell.matrix.toarray()
    unit, unit_var = cell.units.moments(A @ state.mean + cell.bias, A**2 @ state.var)
    O = np.eye(N) if cell.rotation is None else cell.rotation  # noqa: E741
    kit.close(after.mean[world.units], (1 - cell.leaks) * (O @ state.mean[world.units]) + cell.leaks * unit, 1e-12)
    kit.close(after.var[world.units], (1 - cell.leaks) ** 2 * (O**2 @ state.var[world.units]) + cell.leaks**2 * unit_var, 1e-12)


def test_first_order_move_agrees_with_dense_for_small_variance(kit, world):
    dense = kit.some(world, spread=1e-4)
    state = FirstOrder.from_state(dense, world.compression)
    after, other = state.move(world.cell), dense.move(world.cell)
    kit.close(after.mean, other.mean, 1e-9)
    kit.close(after.cross_covariance(slice(0, N + world.p)), other.cov, 1e-6)


@pytest.mark.parametrize("form", ["full", "low-rank"])
def test_covariances_with_the_past_match_steins_identity(kit, world, form):
    state = kit.some(world, form).remember(slice(0, N + world.p))
    kit.close(state.move(world.cell).cross, _cross(state, world.cell), 1e-9)


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal", "first-order", "none", "ensemble"])
def test_move_without_variance_equals_the_activation(world, form):
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
def test_batch_equals_single_states(kit, world, form, shape):
    states = [kit.some(world, form, seed=i) for i in range(int(np.prod(shape)))]
    batch = kit.batch_of(states, shape).move(world.cell)
    for place, state in zip(np.ndindex(*shape), states, strict=True):
        after = state.move(world.cell)
        kit.close(batch.mean[place], after.mean, 1e-12)
        kit.close(kit.cov_of(batch)[place], kit.cov_of(after), 1e-9)


# ---------------------------------------------------------------- 2. independent methods


def test_ensemble_members_agree_with_the_dense_form(kit, world):
    state = kit.some(world)
    after, members = state.move(world.cell), kit.ensemble_of(state, 200_000, sobol=False).move(world.cell)
    kit.agrees_with_samples(after.mean, after.cov, members.members)


# ---------------------------------------------------------------- 3. several cells


def test_stacked_cells_agree_with_samples(kit, world):
    """x = [c, c², h]: squares without leak, and units with leak or rotation."""
    p, cell = world.p, world.cell
    A = cell.matrix.toarray()
    rows, n = slice(2 * p, 2 * p + N), 2 * p + N
    units = replace(cell, rows=rows, matrix=sparse.csr_array(np.hstack([A[:, :p], np.zeros((N, p)), A[:, p:]])))
    squares = Cell(slice(p, 2 * p), sparse.csr_array(np.eye(p, n)), np.zeros(p), 1.0, SquareMoments())
    rng = np.random.default_rng(0)
    root = 0.2 * rng.normal(size=(n, n)) / np.sqrt(n)
    state = Dense(0.4 * rng.normal(size=n), p, np.zeros((n, 0)), root @ root.T)
    after, x = state.move(stack_cells(squares, units)), kit.samples_of(state, 200_000)
    kit.agrees_with_samples(after.mean, after.cov, squares(units(x)))
    apart = state.move(units)
    kit.close(after.cov[rows, rows], apart.cov[rows, rows], 1e-12)


def layer_readouts():
    """Return a readout of the first four units and one of the others."""
    return np.random.default_rng(1).normal(size=(2, N)) * (np.array([[True], [False]]) == (np.arange(N) < 4))


def layers_of(compression):
    """Return two cells of four and six units; the first drives the second."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(N, 2 + N)) / 3.0
    A[:4, 6:] = 0.0
    tanh, turn = ActivationMoments(get("tanh")), ortho_group.rvs(6, random_state=2)
    return (
        Cell(slice(2, 6), sparse.csr_array(A[:4]), np.zeros(4), LEAKS[:4], tanh, compression),
        Cell(slice(6, 12), sparse.csr_array(A[4:]), np.zeros(6), 0.4, tanh, compression, rotation=turn),
    )


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal", "first-order", "ensemble"])
def test_process_noise_is_added_after_the_last_cell(kit, form):
    rng, readout = np.random.default_rng(0), layer_readouts()
    compression = Compression(30, orthonormal(readout.T))
    noise = Noise(0.1 * rng.normal(size=(3, N)), 0.01 * rng.random(N))
    cells = layers_of(compression)
    model = StateSpaceModel(cells, np.zeros((2, 12)), np.zeros(2), slice(0, 1), slice(1, 2), noise)
    state = init(form, 2, 0.3 * rng.normal(size=N), 0.1 * rng.normal(size=(4, N)), compression, members=50_000)
    quiet, noisy = state.move(cells[0]).move(cells[1]), model.move(state)
    units = slice(2, 12)
    expected = quiet.block_covariance(units) + (np.diag(noise.variances) if form == "diagonal" else noise.cov)
    np.testing.assert_allclose(noisy.mean, quiet.mean, atol=0.005 if form == "ensemble" else 1e-13)
    found = noisy.block_covariance(units)
    np.testing.assert_allclose(found, expected, atol=0.02 * expected.max() if form == "ensemble" else 1e-12)


def test_noise_in_a_truncated_factor_keeps_readout_covariances(kit):
    rng, readout = np.random.default_rng(0), layer_readouts()
    compression, noise = Compression(5, orthonormal(readout.T)), Noise(0.1 * rng.normal(size=(9, N)), 0.01 * rng.random(N))
    state = init("low-rank", 2, np.zeros(N), 0.1 * rng.normal(size=(2, N)), compression)
    after = state.add(noise, compression)
    h = slice(2, 12)
    kit.close(after.variances()[h], state.variances()[h] + noise.variances, 1e-12)
    gained = after.factor[h] @ (after.factor[h].T @ readout.T) - state.factor[h] @ (state.factor[h].T @ readout.T)
    kit.close(gained, noise.cov @ readout.T, 1e-9)


def test_squares_of_a_diverging_loop_are_bounded():
    mean, var = SquareMoments().moments(np.array([1e200]), np.array([1e300]))
    np.testing.assert_allclose([mean, var], [[2.0 * REACH**2], [6.0 * REACH**4]], rtol=1e-12)
