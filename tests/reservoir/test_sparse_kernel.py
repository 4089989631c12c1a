"""Tests of the sparse product of the compiled loops:

1. It equals W h, in groups of four rows, for all numbers of units and layers, all densities, empty rows and rows
   of different lengths, and for means and variances.
2. Without compilation (for debugging) the loops give equal results.
3. A long run equals single-step calls bit by bit.
4. Packed weights are kept as long as their reservoir; weights that are changed in place are packed again.
"""

import numpy as np
import pytest
from scipy import sparse

from pesn.reservoir import drive
from pesn.reservoir.drive import State, run, run_gaussian
from pesn.reservoir.weights import Reservoir

T = 80


def uneven(n, rng):
    W = rng.normal(size=(n, n)) * (rng.random((n, n)) < rng.choice([0.0, 0.1, 0.2], size=n)[:, None])
    W[0] = rng.normal(size=n)
    return W


KINDS = {
    "one unit": lambda rng: np.array([[0.5]]), "three units": lambda rng: rng.normal(size=(3, 3)),
    "dense": lambda rng: rng.normal(size=(13, 13)),
    "sparse": lambda rng: rng.normal(size=(34, 34)) * (rng.random((34, 34)) < 0.2),
    "rows without weights": lambda rng: rng.normal(size=(21, 21)) * (np.arange(21) % 3 > 0)[:, None],
    "no weights": lambda rng: np.zeros((9, 9)), "rows of different lengths": lambda rng: uneven(40, rng),
    "one long row": lambda rng: np.vstack([rng.normal(size=(1, 30)), np.eye(30)[1:]]),
}  # fmt: skip


def reservoir_of(W, layers=(), leak=0.3):
    rng, n = np.random.default_rng(3), len(W)
    rows = sparse.csr_array(0.9 * W / max(np.abs(np.linalg.eigvals(W)).max(), 1e-3))
    start = rows.indptr.astype(np.uint32), rows.indices.astype(np.uint32), rows.data
    made = Reservoir(*start, rng.normal(size=(n, 1)), np.zeros((n, 1)), rng.normal(size=n), leak, layers=layers)
    made.check()
    return made


@pytest.fixture(params=KINDS)
def W(request):
    return KINDS[request.param](np.random.default_rng(0))


def layers_of(n):
    return [(), (n,)] + ([(n // 2, n - n // 2)] if n > 1 else []) + ([(1, 6, n - 7)] if n > 7 else [])


def test_states_match_dense_matrix_products(W):
    inputs, n = np.random.default_rng(1).normal(size=(T, 1)), len(W)
    for layers in layers_of(n):
        r = reservoir_of(W, layers)
        states, _, _ = run(r, inputs)
        h, dense = np.zeros(n), r.W.toarray()
        for k in range(T):
            for rows in r.layer_rows:
                a = r.W_in[rows] @ inputs[k] + r.bias[rows] + dense[rows] @ h
                h[rows] = 0.7 * h[rows] + 0.3 * np.tanh(a)
            np.testing.assert_allclose(states[k], h, rtol=0, atol=1e-12)


def test_gaussian_moments_match_scipy_products(W):
    inputs, var, n = np.random.default_rng(1).normal(size=(T, 1)), np.full((T, 1), 0.02), len(W)
    for layers in layers_of(n):
        r = reservoir_of(W, layers)
        found = run_gaussian(r, inputs, var)
        slow = run_gaussian(r, inputs, var, moments="exact")  # single steps with SciPy products
        np.testing.assert_allclose(found[0], slow[0], rtol=0, atol=1e-7)
        np.testing.assert_allclose(found[1], slow[1], rtol=3e-6, atol=1e-12)


def test_a_long_run_equals_single_steps_bit_by_bit(W):
    inputs, var = np.random.default_rng(1).normal(size=(T, 1)), np.full((T, 1), 0.02)
    r = reservoir_of(W, layers_of(len(W))[-1])
    states, _, _ = run(r, inputs)
    means, variances, _, _ = run_gaussian(r, inputs, var)
    state = certain = State(np.zeros(len(W)), np.zeros(len(W)))
    for k in range(T):
        row = slice(k, k + 1)
        one, _, certain = run(r, inputs[row], certain)
        mean, variance, _, state = run_gaussian(r, inputs[row], var[row], state)
        np.testing.assert_array_equal(one[0], states[k])
        np.testing.assert_array_equal(mean[0], means[k])
        np.testing.assert_array_equal(variance[0], variances[k])


def test_weights_changed_in_place_are_used():
    r, inputs = reservoir_of(KINDS["sparse"](np.random.default_rng(0))), np.ones((T, 1))
    run(r, inputs)
    r.data[:] *= 0.5
    other = r._replace(data=r.data.copy())
    np.testing.assert_array_equal(run(r, inputs)[0], run(other, inputs)[0])
    layers = r._replace(layers=(10, 24))
    np.testing.assert_array_equal(run(layers, inputs)[0], run(other._replace(layers=(10, 24)), inputs)[0])


def test_packed_weights_are_dropped_with_their_reservoir():
    before = len(drive._packings)
    r = reservoir_of(np.eye(5))
    run(r, np.ones((2, 1)))
    assert len(drive._packings) == before + 1
    del r
    assert len(drive._packings) == before


def test_loops_without_compilation_give_equal_results(run_python):
    code = """
import numpy as np, pesn
series = np.sin(0.3 * np.arange(101.0))[:, None]
esn = pesn.ProbabilisticESN(12, covariance="diagonal", initial_state="zero", random_state=0).fit(series[:-1], series[1:])
mean, std = esn.predict(series[:90], return_std=True, lengths=[5] * 18)
print(repr(float(mean.sum())), repr(float(std.sum())))
"""
    found = [np.array(run_python(code, **more).stdout.split(), float) for more in ({}, {"NUMBA_DISABLE_JIT": "1"})]
    np.testing.assert_allclose(*found, rtol=1e-9)
