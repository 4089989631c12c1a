"""Claim: units are connected as asked, and any activation passes a reservoir as tanh does, with its uncertainty.

Names and functions are scaled to the spectral radius, a matrix is taken as it is; what is no matrix of N units is refused.
"""

import numpy as np
import pytest
from scipy import sparse

import pesn
from pesn.reservoir import draw, run, run_gaussian
from pesn.reservoir.topology import connect

T = np.arange(700.0)
X = np.column_stack([np.sin(0.2 * T), np.cos(0.11 * T)])


def radius(W):
    return np.abs(np.linalg.eigvals(W.toarray())).max()


@pytest.mark.parametrize(
    "topology", ["random", "ring", lambda n, rng: rng.normal(size=(n, n)), lambda n, rng: sparse.eye_array(n)]
)
def test_names_and_functions_are_scaled_to_the_spectral_radius(topology):
    W = draw(30, 2, 1, topology=topology, spectral_radius=0.7, rng=0).W
    assert radius(W) == pytest.approx(0.7, rel=1e-9)


def test_each_of_many_matrices_is_scaled_by_its_own_eigenvalue():
    for size in (0.3, 0.9):  # the second time what was found the first time is known
        for seed in range(10):
            W = draw(20, 2, 1, spectral_radius=size, rng=seed % 5).W
            assert radius(W) == pytest.approx(size, rel=1e-9)
    twice = lambda n, rng: sparse.csr_array((np.full(n, 2.0), np.arange(n), np.arange(n + 1)), shape=(n, n))  # noqa: E731
    W = connect(twice, 4, spectral_radius=0.5, density=0.1, rng=np.random.default_rng(0))
    np.testing.assert_allclose(W.toarray(), 0.5 * np.eye(4))


def test_a_ring_hands_each_unit_to_the_next():
    W = connect("ring", 6, spectral_radius=0.5, density=0.1, rng=np.random.default_rng(0)).toarray()
    np.testing.assert_allclose(W, 0.5 * np.roll(np.eye(6), 1, axis=0), atol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.coo_array, np.ndarray.tolist])
def test_a_matrix_is_taken_as_it_is(kind):
    W = np.random.default_rng(0).normal(size=(12, 12)) * 0.1
    reservoir = draw(12, 2, 1, topology=kind(W), spectral_radius=0.9, rng=0)
    np.testing.assert_array_equal(reservoir.W.toarray(), W)
    states, _, _ = run(reservoir, X[:20])
    h = np.zeros(12)
    for z, state in zip(X, states, strict=False):
        h = 0.5 * h + 0.5 * np.tanh(reservoir.W_in @ z + W @ h + reservoir.bias)
        np.testing.assert_allclose(state, h, atol=1e-12)


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ("rings", "topology must be one of 'random', 'ring', a function or a matrix, got 'rings'"),
        (np.eye(5), r"topology must be a matrix of shape \(12, 12\) for 12 units, got \(5, 5\)"),
        (lambda n, rng: np.eye(3), r"topology must give a matrix of shape \(12, 12\) for 12 units, got \(3, 3\)"),
        (np.full((12, 12), np.nan), "topology"),
        (lambda n, rng: np.triu(np.ones((n, n)), 1), "topology must give .* nilpotent: .* a matrix itself is taken as it is"),
    ],
)
def test_what_is_no_topology_is_refused(topology, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw(12, 2, 1, topology=topology, rng=0)


@pytest.mark.parametrize("activation", ["relu", "gelu", "sigmoid", "softplus"])
def test_any_activation_is_the_recursion(activation):
    reservoir = draw(15, 2, 1, activation=activation, feedback_scaling=0.3, rng=0)
    f, readout = pesn.activations.get(activation), 0.1 * np.random.default_rng(1).normal(size=(1, 18))
    states, outputs, last = run(reservoir, X[:30], readout=readout)
    h, y = np.zeros(15), np.zeros(1)
    for k in range(30):
        h = 0.5 * h + 0.5 * f(reservoir.W_in @ X[k] + reservoir.W_fb @ y + reservoir.W @ h + reservoir.bias)
        y = readout @ np.concatenate([[1.0], X[k], h])
        np.testing.assert_allclose(states[k], h, atol=1e-12)
        np.testing.assert_allclose(outputs[k], y, atol=1e-12)
    first, _, middle = run(reservoir, X[:11], readout=readout)
    second, _, _ = run(reservoir, X[11:30], middle, readout=readout)
    np.testing.assert_allclose(np.vstack([first, second]), states, atol=1e-12)
    np.testing.assert_array_equal(last.mean, states[-1])
    means, variances, _, _ = run_gaussian(reservoir, X[:30], None, readout=readout)
    np.testing.assert_allclose(means, states, atol=1e-9)
    assert not variances.any()


def samples(esn, z):
    """Outputs (n, T, m) of n runs z (n, T, d) side by side, by the formulas as they stand."""
    r, f, h = esn.reservoir_, pesn.activations.get(esn.activation), np.zeros((len(z), esn.n_units))
    outputs = []
    for k in range(z.shape[1]):
        h = 0.5 * h + 0.5 * f(z[:, k] @ r.W_in.T + h @ r.W.toarray().T + r.bias)
        outputs.append(np.hstack([np.ones((len(z), 1)), z[:, k], h]) @ esn.readout_.weights.T)
    return np.stack(outputs, axis=1)


@pytest.mark.parametrize("activation", ["relu", "gelu", "sigmoid"])
@pytest.mark.parametrize("covariance", ["full", "low-rank"])
def test_uncertain_inputs_pass_any_activation_as_samples_do(activation, covariance):
    esn = pesn.ProbabilisticESN(25, activation=activation, covariance=covariance, rank=20, initial_state="zero", random_state=0)
    esn.fit(X[:500], np.roll(X[:500], -1, axis=0))
    rows, std = X[600:612], 0.2
    mean, cov = esn.predict(pesn.Gaussian(rows, var=np.full(rows.shape, std**2)), return_cov=True)
    _, certain = esn.predict(rows, return_cov=True)  # residuals and weights, which samples of the state do not have
    rng = np.random.default_rng(0)
    draws = samples(esn, rows + std * rng.normal(size=(20_000, *rows.shape)))
    own = np.sqrt(np.diagonal(cov, axis1=1, axis2=2) - np.diagonal(certain, axis1=1, axis2=2))
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=0.1 * std)
    np.testing.assert_allclose(own, draws.std(axis=0), rtol=0.08)


def test_forecasts_of_a_network_with_another_activation_and_topology_are_saved(tmp_path):
    esn = pesn.ProbabilisticESN(30, activation="gelu", topology="ring", random_state=0, washout=20, process_noise=0.0)
    forecaster = pesn.Forecaster(esn, calibrate=False).fit(X[:500])
    forecast = forecaster.forecast(10, X[500:530])
    assert np.abs(forecast.mean - X[530:540]).max() < 0.2
    forecaster.save(tmp_path / "model")
    again = pesn.load(tmp_path / "model").forecast(10, X[500:530])
    np.testing.assert_array_equal(again.mean, forecast.mean)


def test_an_activation_of_ones_own():
    slope = lambda x: 1.0 / (1.0 + x * x)  # noqa: E731
    own = pesn.activations.custom(np.arctan, derivative=slope, left=None, right=None, name="arctan")
    esn = pesn.EchoStateNetwork(20, activation=own, random_state=0).fit(X[:300], X[1:301])
    assert np.abs(esn.predict(X[:400])[50:] - X[51:401]).max() < 0.05
    with pytest.raises(ValueError, match="activation"):
        pesn.EchoStateNetwork(20, activation="tanhh").fit(X[:300], X[1:301])
