"""Tests of reservoirs with several layers, leak rates per unit, and a rotation (ES²N):

1. A chain of naive loops, one for each layer, gives the same states and outputs, with teacher forcing and with output feedback.
2. Invalid records raise errors that name the parameter.

For certain inputs, split runs, batches and saved models see tests/esn/test_layers.py.
"""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import ortho_group

from pesn.reservoir.drive import run, run_gaussian
from pesn.reservoir.weights import Reservoir, draw

T, D, M = 60, 2, 3
SIZES = (12, 7, 9)
N = sum(SIZES)
ROWS = [slice(0, 12), slice(12, 19), slice(19, 28)]


def reservoir_of(W, like, **parts):
    W = sparse.csr_array(W)
    rows = W.indptr.astype(np.uint32), W.indices.astype(np.uint32), W.data
    return like._replace(indptr=rows[0], indices=rows[1], data=rows[2], **parts)


@pytest.fixture(scope="module")
def plain():
    return draw(N, D, M, feedback_scaling=0.3, leak_rate=0.4, density=0.4, rng=3)


def lower(W):
    """Remove connections from later to earlier layers."""
    W = W.toarray()
    for rows in ROWS:
        W[rows, rows.stop :] = 0.0
    return W


def turned(seed=0):
    O = np.zeros((N, N))  # noqa: E741
    for i, rows in enumerate(ROWS):
        O[rows, rows] = ortho_group.rvs(rows.stop - rows.start, random_state=seed + i)
    return O


LEAKS = np.random.default_rng(5).uniform(0.05, 1.0, N)
KINDS = {
    "layers": lambda r: reservoir_of(lower(r.W), r, layers=SIZES),
    "leaks": lambda r: r._replace(leak_rate=LEAKS),
    "rotation": lambda r: r._replace(rotation=ortho_group.rvs(N, random_state=1)),
    "all": lambda r: reservoir_of(lower(r.W), r, layers=SIZES, leak_rate=LEAKS, rotation=turned()),
    "relu": lambda r: reservoir_of(lower(r.W), r, layers=SIZES, leak_rate=LEAKS, rotation=turned(), activation="relu"),
}


@pytest.fixture(scope="module", params=KINDS)
def reservoir(request, plain):
    made = KINDS[request.param](plain)
    made.check()
    return made


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    inputs, teacher = rng.normal(size=(T, D)), rng.normal(size=(T, M))
    return {"inputs": inputs, "teacher": teacher, "readout": rng.normal(size=(M, 1 + D + N)) / 10.0}


def chain(r, inputs, teacher=None, readout=None):
    """Run one loop per layer, driven by the states of the preceding layers at the same step."""
    f = np.tanh if r.activation == "tanh" else lambda a: np.maximum(a, 0.0)
    W, L = r.W.toarray(), np.broadcast_to(r.leak_rate, N)
    O = np.eye(N) if r.rotation is None else r.rotation  # noqa: E741
    rows = ROWS if r.layers else [slice(0, N)]
    h, y, states, outputs = [np.zeros(s.stop - s.start) for s in rows], np.zeros(M), [], []
    for k in range(len(inputs)):
        new = []
        for i, s in enumerate(rows):
            a = r.W_in[s] @ inputs[k] + r.bias[s] + r.W_fb[s] @ y + W[s, s] @ h[i]
            for before, state in zip(rows[:i], new, strict=True):
                a = a + W[s, before] @ state
            new.append((1.0 - L[s]) * (O[s, s] @ h[i]) + L[s] * f(a))
        h = new
        states.append(np.concatenate(h))
        if readout is not None:
            y = readout @ np.concatenate([[1.0], inputs[k], states[-1]])
            outputs.append(y)
        if teacher is not None:
            y = teacher[k]
    return np.array(states), np.array(outputs)


# ---------------------------------------------------------------- 1. naive loops


@pytest.mark.parametrize(("teacher", "own"), [(False, False), (True, False), (False, True), (True, True)])
def test_run_matches_a_chain_of_single_layer_loops(reservoir, data, teacher, own):
    feedback, readout = data["teacher"] if teacher else None, data["readout"] if own else None
    states, outputs, last = run(reservoir, data["inputs"], feedback=feedback, readout=readout)
    expected, expected_outputs = chain(reservoir, data["inputs"], feedback, readout)
    np.testing.assert_allclose(states, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(last.mean, states[-1])
    if own:
        np.testing.assert_allclose(outputs, expected_outputs, rtol=1e-12, atol=1e-13)


def test_noise_is_added_after_all_layers_are_updated(reservoir, data):
    inputs, draws = data["inputs"], np.random.default_rng(0)
    noisy, _, _ = run(reservoir, inputs[:2], noise=0.1, rng=0)
    first, _, after = run(reservoir, inputs[:1])
    np.testing.assert_allclose(noisy[0], first[0] + 0.1 * draws.standard_normal(N), rtol=1e-12)
    second, _, _ = run(reservoir, inputs[1:2], after._replace(mean=noisy[0]))
    np.testing.assert_allclose(noisy[1], second[0] + 0.1 * draws.standard_normal(N), rtol=1e-12)
    _, variances, _, _ = run_gaussian(reservoir, inputs[:1], None, noise=0.1)
    np.testing.assert_allclose(variances[0], 0.01, rtol=1e-12)


# ---------------------------------------------------------------- 2. invalid records


@pytest.mark.parametrize(("parts", "message"), [
    ({"leak_rate": np.full(N - 1, 0.5)}, r"leak_rate must be a number or have shape \(28,\)"),
    ({"leak_rate": np.where(np.arange(N) == 4, 0.0, 0.5)}, r"leak_rate must lie in \(0, 1\], got 0.0 of unit 4"),
    ({"layers": (20, 9)}, r"layers must have 28 units in all, got \(20, 9\)"),
    ({"layers": (28, 0)}, "layers must be a tuple of numbers of units, each 1 or more"),
    ({"rotation": 1.1 * np.eye(N)}, "rotation must be orthogonal, got O Oᵀ that is 0.2 from the identity"),
    ({"rotation": ortho_group.rvs(N, random_state=0), "layers": SIZES}, "rotation must be 0 between the layers"),
])  # fmt: skip
def test_check_rejects_invalid_layers_and_rotations(plain, parts, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Reservoir(**{**plain._asdict(), **parts}).check()
