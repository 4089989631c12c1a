"""Tests of topologies and activations of a reservoir.

Named and callable topologies are scaled to the spectral radius, a given matrix is used unscaled, and an invalid matrix raises.
All activations propagate means and uncertainty correctly.
"""

import numpy as np
import pytest
from scipy import sparse

import pesn
from pesn.reservoir import draw, run, run_gaussian
from pesn.reservoir.weights import NAMES, connect

T = np.arange(700.0)
X = np.column_stack([np.sin(0.2 * T), np.cos(0.11 * T)])


def radius(W):
    return np.abs(np.linalg.eigvals(W.toarray())).max()


DRAWN = [name for name in NAMES if name != "none"]


def made(topology, n, spectral_radius=0.7, density=0.1, seed=0):
    return connect(topology, n, spectral_radius=spectral_radius, density=density, rng=np.random.default_rng(seed))


def chain_of_blocks(n, rng):
    """Return three blocks of 2-cycles with different radii, each connected to the next block."""
    return np.kron(np.diag([1.0, 3.0, 2.0]) + 1e3 * np.eye(3, k=-1), np.kron(np.eye(n // 6), [[0.0, 1.0], [1.0, 0.0]]))


@pytest.mark.parametrize("topology", [
    *DRAWN, lambda n, rng: rng.normal(size=(n, n)), lambda n, rng: sparse.eye_array(n),
    lambda n, rng: np.diag(np.arange(1.0, n + 1)), chain_of_blocks,
])  # fmt: skip
@pytest.mark.parametrize("n", [30, 252])  # dense and iterative eigenvalue solver
def test_named_and_callable_topologies_have_the_requested_spectral_radius(topology, n):
    assert radius(made(topology, n)) == pytest.approx(0.7, rel=1e-9)


def test_orthogonal_topology_is_haar_distributed():
    W = made("orthogonal", 50).toarray()
    np.testing.assert_allclose(W @ W.T, 0.49 * np.eye(50), atol=1e-12)
    traces = [np.trace(made("orthogonal", 20, seed=seed).toarray()) / 0.7 for seed in range(300)]
    assert abs(np.mean(traces)) < 0.2  # trace of a Haar matrix: mean 0, variance 1
    assert np.var(traces) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("topology", DRAWN)
def test_seed_determines_the_matrix_up_to_scale(topology):
    first, again, other = made(topology, 60), made(topology, 60, 1.4), made(topology, 60, seed=1)
    np.testing.assert_allclose(again.toarray(), 2.0 * first.toarray(), rtol=1e-14)
    assert (topology == "ring") == np.array_equal(first.toarray(), other.toarray())


def test_units_without_weights_between_them_forget_all_earlier_rows():
    esn = pesn.ProbabilisticESN(24, topology="none", leak_rate=1.0, washout=0, random_state=0).fit(X[:300], X[1:301])
    assert esn.reservoir_.W.nnz == 0
    assert esn.reservoir_.is_static
    long, short = (np.asarray(run(esn.reservoir_, X[first:310])[0]) for first in (300, 309))
    np.testing.assert_array_equal(long[-1], short[-1])


@pytest.mark.parametrize("topology", NAMES)
def test_every_topology_fits_and_survives_save_and_load(topology, save_and_load):
    esn = pesn.ProbabilisticESN(24, topology=topology, washout=20, random_state=0).fit(X[:300], X[1:301])
    mean, std = esn.predict(X[300:400], return_std=True, state=esn.state_)
    assert np.abs(mean - X[301:401]).max() < 0.05
    assert (std > 0.0).all()
    again = save_and_load(esn)
    assert again.topology == topology
    np.testing.assert_array_equal(again.predict(X[300:400]), esn.predict(X[300:400]))
    np.testing.assert_array_equal(again.fit(X[:300], X[1:301]).reservoir_.W.toarray(), esn.reservoir_.W.toarray())


@pytest.mark.parametrize("of_a_layer", [False, True])
def test_sparse_topology_survives_save_and_load(save_and_load, of_a_layer):
    W = sparse.csr_array(0.5 * np.eye(24, k=1) + 0.1 * np.eye(24, k=-3))
    where = {"layers": [pesn.Layer(topology=W), [pesn.Layer(10), pesn.Layer(topology=W)]]} if of_a_layer else {"topology": W}
    esn = pesn.EchoStateNetwork(24, random_state=0, **where).fit(X[:300], X[1:301])
    again = save_and_load(esn)
    assert (esn.layers[0].topology if of_a_layer else esn.topology) is W
    np.testing.assert_array_equal(again.predict(X), esn.predict(X))
    np.testing.assert_array_equal(again.fit(X[:300], X[1:301]).reservoir_.data, esn.reservoir_.data)


def test_each_matrix_is_scaled_by_its_own_spectral_radius():
    for size in (0.3, 0.9):  # the second pass uses cached eigenvalues
        for seed in range(10):
            W = draw(20, 2, 1, spectral_radius=size, rng=seed % 5).W
            assert radius(W) == pytest.approx(size, rel=1e-9)
    twice = lambda n, rng: sparse.csr_array((np.full(n, 2.0), np.arange(n), np.arange(n + 1)), shape=(n, n))  # noqa: E731
    W = connect(twice, 4, spectral_radius=0.5, density=0.1, rng=np.random.default_rng(0))
    np.testing.assert_allclose(W.toarray(), 0.5 * np.eye(4))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.coo_array, np.ndarray.tolist])
def test_given_matrix_is_used_unscaled(kind):
    W = np.random.default_rng(0).normal(size=(12, 12)) * 0.1
    reservoir = draw(12, 2, 1, topology=kind(W), spectral_radius=0.9, rng=0)
    np.testing.assert_array_equal(reservoir.W.toarray(), W)
    states, _, _ = run(reservoir, X[:20])
    h = np.zeros(12)
    for z, state in zip(X, states, strict=False):
        h = 0.5 * h + 0.5 * np.tanh(reservoir.W_in @ z + W @ h + reservoir.bias)
        np.testing.assert_allclose(state, h, atol=1e-12)


@pytest.mark.parametrize(("topology", "message"), [
    ("rings", "topology must be one of 'random', 'ring', 'orthogonal', 'none', a function or a matrix, got 'rings'"),
    (np.ndarray, "topology must be a name, a function or a matrix, got the class ndarray; call it"),
    (np.eye(5), r"topology must be a matrix of shape \(12, 12\) for 12 units, got \(5, 5\)"),
    (sparse.csr_array(1j * np.eye(12)), "topology must be real numbers, got dtype complex128"),
    (lambda n, rng: 1e-320 * np.eye(n), "spectral_radius must leave the weights finite, got 0.9 for a W whose own is 1e-320"),
    (lambda n, rng: np.triu(np.ones((n, n)), 1), "topology must give .* nilpotent: .* a matrix itself is taken as it is"),
])  # fmt: skip
def test_invalid_topology_raises(topology, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw(12, 2, 1, topology=topology, rng=0)


@pytest.mark.parametrize("activation", ["relu", "gelu", "sigmoid", "softplus"])
def test_activations_match_the_naive_recursion(activation):
    reservoir = draw(15, 2, 1, activation=activation, feedback_scaling=0.3, rng=0)
    f, readout = pesn.activations.get(activation), 0.1 * np.random.default_rng(1).normal(size=(1, 18))
    states, outputs, last = run(reservoir, X[:30], readout=readout)
    h, y = np.zeros(15), np.zeros(1)
    for k in range(30):
        h = 0.5 * h + 0.5 * f(reservoir.W_in @ X[k] + reservoir.W_fb @ y + reservoir.W @ h + reservoir.bias)
        y = readout @ np.concatenate([[1.0], X[k], h])
        np.testing.assert_allclose(states[k], h, atol=1e-12)
        np.testing.assert_allclose(outputs[k], y, atol=1e-12)
    np.testing.assert_array_equal(last.mean, states[-1])
    means, variances, _, _ = run_gaussian(reservoir, X[:30], None, readout=readout)
    np.testing.assert_allclose(means, states, atol=1e-9)
    assert not variances.any()


def samples(esn, z):
    """Return outputs (n, T, m) of n runs with inputs z (n, T, d), by the plain recursion."""
    r, f, h = esn.reservoir_, pesn.activations.get(esn.activation), np.zeros((len(z), esn.n_units))
    outputs = []
    for k in range(z.shape[1]):
        h = 0.5 * h + 0.5 * f(z[:, k] @ r.W_in.T + h @ r.W.toarray().T + r.bias)
        outputs.append(np.hstack([np.ones((len(z), 1)), z[:, k], h]) @ esn.readout_.weights.T)
    return np.stack(outputs, axis=1)


@pytest.mark.parametrize("activation", ["relu", "gelu", "sigmoid"])
@pytest.mark.parametrize("covariance", ["full", "low-rank"])
def test_uncertain_inputs_with_any_activation_agree_with_samples(activation, covariance):
    esn = pesn.ProbabilisticESN(25, activation=activation, covariance=covariance, rank=20, initial_state="zero", random_state=0)
    esn.fit(X[:500], np.roll(X[:500], -1, axis=0))
    rows, std = X[600:612], 0.2
    mean, cov = esn.predict(pesn.Gaussian(rows, var=np.full(rows.shape, std**2)), return_cov=True)
    _, certain = esn.predict(rows, return_cov=True)  # residual and weight variance, absent from samples
    rng = np.random.default_rng(0)
    draws = samples(esn, rows + std * rng.normal(size=(10_000, *rows.shape)))
    own = np.sqrt(np.diagonal(cov, axis1=1, axis2=2) - np.diagonal(certain, axis1=1, axis2=2))
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=0.1 * std)
    np.testing.assert_allclose(own, draws.std(axis=0), rtol=0.08)


def test_custom_activation_fits():
    slope = lambda x: 1.0 / (1.0 + x * x)  # noqa: E731
    own = pesn.activations.custom(np.arctan, derivative=slope, left=None, right=None, name="arctan")
    esn = pesn.EchoStateNetwork(20, activation=own, random_state=0).fit(X[:300], X[1:301])
    assert np.abs(esn.predict(X[:400])[50:] - X[51:401]).max() < 0.05
    with pytest.raises(ValueError, match="activation"):
        pesn.EchoStateNetwork(20, activation="tanhh").fit(X[:300], X[1:301])
