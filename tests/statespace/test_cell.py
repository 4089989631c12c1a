"""Claim: a cell moves its own entries of x, wherever they stand and whatever its activation; several make one model."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from pesn.activations import get
from pesn.linalg import orthonormal
from pesn.statespace import ActivationMoments, Cell, Compression, Dense, LowRank, Noise, SquareMoments, init
from pesn.statespace.cell import SparseRows

COVARIANT = ("full", "low-rank")


def readout_of(n):
    """What is carried of n entries of h."""
    return np.random.default_rng(0).normal(size=(2, n))


def compression_of(n, products=0):
    return Compression(40, orthonormal(readout_of(n).T), products)


def start(form, p, n, spread=0.6, seed=1):
    rng, readout = np.random.default_rng(seed), readout_of(n)
    root = spread * rng.normal(size=(n + 2, n)) / np.sqrt(n)
    state = init(form, p, 0.4 * rng.normal(size=n), root, compression_of(n))
    K = np.hstack([np.zeros((p, p)), rng.normal(size=(p, 2)) @ readout])
    return state.affine(slice(0, p), K, rng.normal(size=p), 0.3 * rng.normal(size=(p, p)))


def cell_of(rows, n, units, leak=0.7, seed=2, density=0.6, compression=None):
    """A cell of x (n,), of which two entries are carried."""
    rng = np.random.default_rng(seed)
    size = rows.stop - rows.start
    A = rng.normal(size=(size, n)) * (rng.random((size, n)) < density) / np.sqrt(n * density)
    return Cell(rows, sparse.csr_array(A), 0.3 * rng.normal(size=size), leak, units, compression or compression_of(n - 2))


# ---------------------------------------------------------------- products


@pytest.mark.parametrize("width", [1, 7, 8, 23, 40, 64, 90])
def test_sparse_products(kit, width):
    rng = np.random.default_rng(width)
    W = sparse.random_array((31, 53), density=0.1, rng=rng, format="csr")
    x = rng.normal(size=(53, width))
    kit.close(SparseRows(W) @ x, W @ x, 1e-14)
    kit.close(SparseRows(W.toarray()) @ np.asfortranarray(x), W @ x, 1e-14)
    cell = Cell(slice(22, 53), W, np.zeros(31), 1.0, SquareMoments())
    kit.close(cell.enter @ x, W @ x, 1e-14)
    kit.close(cell.squares @ x, W.toarray() ** 2 @ x, 1e-14)
    kit.close(cell.columns_from(3)[0] @ x[3:], W[:, 3:] @ x[3:], 1e-14)
    kit.close(cell.columns_from(3)[2] @ x[3:], W.toarray()[:, 3:] ** 2 @ x[3:], 1e-14)
    kit.close(cell.columns_from(3)[1] @ x[:31], W[:, 3:].T @ x[:31], 1e-14)
    own = rng.random(31)
    kit.close(cell.kept_and_entered(own), np.diag(W.toarray()[:, 22:] * own), 1e-14)


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (2, 3), (2, 0)])
@pytest.mark.parametrize("width", [0, 1, 9])
def test_sparse_products_of_batches(kit, shape, width):
    rng = np.random.default_rng(0)
    W = sparse.random_array((5, 7), density=0.5, rng=rng, format="csr")
    x = rng.normal(size=(*shape, 7, width))
    result = SparseRows(W) @ x
    assert result.shape == (*shape, 5, width)
    kit.close(result, W.toarray() @ x, 1e-14)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_a_cell_of_certain_states_is_a_function(shape):
    cell = cell_of(slice(2, 5), 7, ActivationMoments(get("relu")))
    x = np.random.default_rng(0).normal(size=(*shape, 7))
    moved = cell(x)
    expected = 0.3 * x[..., 2:5] + 0.7 * np.maximum(x @ cell.matrix.toarray().T + cell.bias, 0.0)
    np.testing.assert_allclose(moved[..., 2:5], expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(np.delete(moved, [2, 3, 4], axis=-1), np.delete(x, [2, 3, 4], axis=-1))


# ---------------------------------------------------------------- any activation, any rows


@pytest.mark.parametrize("name", ["relu", "gelu", "sigmoid", "sine"])
@pytest.mark.parametrize("leak", [1.0, 0.4])
def test_dense_with_any_activation(kit, name, leak):
    state = start("full", 2, 5)
    cell = cell_of(slice(2, 7), 7, ActivationMoments(get(name)), leak)
    after = state.move(cell)
    mean, cov = kit.twin(state.mean, state.cov, cell)
    kit.close(after.mean, mean, 1e-9)
    kit.close(after.cov, cov, 1e-7)
    if leak < 1.0:
        kit.agrees_with_samples(after.mean, after.cov, cell(kit.samples_of(state, 200_000)))


@pytest.mark.parametrize("name", ["relu", "gelu", "sigmoid", "square"])
@pytest.mark.parametrize("spread", [1e-6, 1e-3, 0.6])
@pytest.mark.parametrize("leak", [1.0, 0.4])
def test_low_rank_with_any_activation(kit, name, spread, leak):
    """Means, variances and covariances with c are Dense's; between units all but the rest is, and the second order of it."""
    units = SquareMoments() if name == "square" else ActivationMoments(get(name))
    dense, low = (start(form, 2, 5, spread=spread) for form in COVARIANT)
    cell = cell_of(slice(2, 7), 7, units, leak, compression=compression_of(5, 1000))
    cell.bias[0] = -(cell.matrix @ dense.mean)[0]  # at a kink
    after, other = dense.move(cell), low.move(cell)
    kit.close(other.mean, after.mean, 1e-9)
    kit.close(other.variances(), after.variances(), 1e-6)
    kit.close(kit.cov_of(other)[:2], after.cov[:2], 1e-6)
    live = after.variances() > 1e-6 * after.variances().max()  # a relu far below its kink has no variance
    std = np.sqrt(after.variances()[live])
    far = np.abs(kit.cov_of(other) - after.cov)[np.ix_(live, live)] / np.outer(std, std)
    assert far.max() < (1e-4 if name == "square" or (spread < 0.1 and name != "relu") else 0.05)


def test_low_rank_with_relu_against_samples(kit):
    state = start("low-rank", 2, 5)
    cell = cell_of(slice(2, 7), 7, ActivationMoments(get("relu")), compression=compression_of(5, 4))
    after, x = state.move(cell), cell(kit.samples_of(state, 400_000))
    assert np.all(np.abs(x.mean(axis=0) - after.mean) < 5.0 * x.std(axis=0) / np.sqrt(len(x)))
    np.testing.assert_allclose(after.variances(), x.var(axis=0), rtol=0.02)
    np.testing.assert_allclose(kit.cov_of(after)[:2], np.cov(x.T)[:2], atol=0.005 * x.var(axis=0).max())


@pytest.mark.parametrize("form", [*COVARIANT, "diagonal"])
@pytest.mark.parametrize("rows", [slice(2, 5), slice(4, 7), slice(5, 9)])
def test_rows_in_the_middle(kit, form, rows):
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
    """Covariances with the state before the move: Stein's identity."""
    A = cell.matrix.toarray()
    before = state.cross
    var = np.diag(A @ before @ A.T)  # the past is all of x
    g = cell.units.gain(A @ state.mean + cell.bias, var)
    after = before.copy()
    after[cell.rows] = (1 - cell.leak) * before[cell.rows] + cell.leak * g[:, None] * (A @ before)
    return after


def test_a_low_rank_state_refuses_a_cell_of_what_is_carried():
    state = start("low-rank", 2, 5)
    with pytest.raises(ValueError, match=r"rows of a cell must be entries of h, from 2 on, .* got slice\(1, 4, None\)"):
        state.move(cell_of(slice(1, 4), 7, ActivationMoments(get("tanh"))))


def test_a_low_rank_state_refuses_a_cell_that_does_not_say_what_to_keep():
    cell = replace(cell_of(slice(2, 7), 7, ActivationMoments(get("tanh"))), compression=None)
    with pytest.raises(ValueError, match="compression must be given to a cell that moves a low-rank state, got None"):
        start("low-rank", 2, 5).move(cell)
    start("full", 2, 5).move(cell)


# ---------------------------------------------------------------- a layer on another


@pytest.mark.parametrize("form", COVARIANT)
def test_a_layer_on_another(kit, form):
    state = start(form, 2, 9, spread=0.3)
    first = cell_of(slice(2, 6), 11, ActivationMoments(get("tanh")), leak=0.5)
    second = cell_of(slice(6, 11), 11, ActivationMoments(get("gelu")), leak=0.8, seed=3)
    after = state.move(first).move(second)
    mean, cov = state.mean, kit.cov_of(state)
    for cell in (first, second):
        mean, cov = kit.twin(mean, cov, cell, "all" if form == "full" else "none")
    kit.close(after.mean, mean, 1e-8)
    kit.close(kit.cov_of(after), cov, 1e-6)
    x = second(first(kit.samples_of(state, 200_000)))
    np.testing.assert_allclose(after.mean, x.mean(axis=0), atol=0.01 * x.std())  # the second meets what is not Gaussian any more
    np.testing.assert_allclose(np.sqrt(after.variances()), x.std(axis=0), rtol=0.05)


def cut_state(rank=12):
    """Two layers of 15, most of whose variance is each unit's own; what is read out of each of them."""
    rng = np.random.default_rng(6)
    readout = np.zeros((2, 30))
    readout[0, :15], readout[1, 15:] = rng.normal(size=(2, 15))
    compression = Compression(rank, orthonormal(readout.T), 0)
    state = LowRank(rng.normal(size=32), 2, np.zeros((32, 0)), 0.2 * rng.normal(size=(32, 4)), 0.1 * rng.random(30))
    return state, readout, compression


@pytest.mark.parametrize("leak", [1.0, 0.5])
def test_a_layer_on_another_in_a_cut_factor(kit, leak):
    """What the units of one have to themselves reaches the other, and what is read out of it is correlated with them."""
    state, readout, compression = cut_state()
    tanh = ActivationMoments(get("tanh"))
    cell = cell_of(slice(17, 32), 32, tanh, leak, density=0.3, compression=compression)
    after = state.move(cell)
    mean, cov = kit.twin(state.mean, kit.cov_of(state), cell, "none")
    kit.close(after.mean, mean, 1e-12)
    kit.close(after.variances(), np.diag(cov), 1e-9)
    kit.close(after.covariance_with(slice(0, 2)), cov[:, :2], 1e-9)
    y = np.concatenate([np.zeros(2), readout[1]])
    kit.close(after.factor @ (after.factor.T @ y), cov @ y, 1e-9)


def test_many_steps_of_two_layers_in_a_cut_factor(kit):
    state, readout, compression = cut_state(16)
    dense = Dense(state.mean, 2, state.cross, kit.cov_of(state))
    tanh = ActivationMoments(get("tanh"))
    layers = ((slice(2, 17), 0.5, 2), (slice(17, 32), 0.8, 3))
    cells = [cell_of(rows, 32, tanh, leak, seed, 0.3, compression) for rows, leak, seed in layers]
    K = np.hstack([0.3 * np.eye(2), readout / 4.0])
    for _ in range(6):
        for cell in cells:
            dense, state = dense.move(cell), state.move(cell)
        dense, state = (s.affine(slice(0, 2), K, np.zeros(2), 0.1 * np.eye(2)) for s in (dense, state))
    kit.close(state.mean, dense.mean, 0.02)
    np.testing.assert_allclose(state.variances()[:2], dense.variances()[:2], rtol=0.1)


def test_squares_as_features(kit):
    """x = [c, c², h]: a feature of what is carried, moved by a cell without leak."""
    state = start("full", 2, 4)
    A = sparse.csr_array(np.hstack([np.eye(2), np.zeros((2, 4))]))
    after = state.move(Cell(slice(2, 4), A, np.zeros(2), 1.0, SquareMoments()))
    x = kit.samples_of(state, 400_000)
    x[:, 2:4] = x[:, :2] ** 2
    kit.agrees_with_samples(after.mean, after.cov, x)
