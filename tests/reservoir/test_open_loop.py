"""A reservoir with its readout over uncertain rows.

Claims: where tanh is a line, every form that keeps covariances is the linear recursion for means and covariances, feedback,
noise and the doubt about the weights included; certain rows are the deterministic run to the bit; a state of any form starts a
run of any other; the share of process noise is found block by block.
"""

import copy
import pickle

import numpy as np
import pytest

from pesn.gaussian import Gaussian
from pesn.learning.process_noise import best_share
from pesn.learning.washout import washout_of
from pesn.reservoir.drive import State, draw, run
from pesn.reservoir.initial_state import learn
from pesn.reservoir.open_loop import Begun, Drive, form_of, parts_of, process_noise, state_of, uncertain

RESERVOIR = draw(12, 2, 2, density=0.5, input_scaling=0.5 * np.sqrt(2.0), feedback_scaling=0.4, bias_scaling=0.0, rng=0)
WEIGHTS = 0.3 * np.random.default_rng(0).standard_normal((2, 15))
WEIGHTS[:, 0] = 0.0
TINY = 1e-4  # deviations for which tanh(x) = x up to 1e-8 of them


def linear(z, var, noise):
    """Means and covariances of [y, h] by matrices alone, and Cov [z, h] after each row: the obvious twin of a run."""
    r, N, m, d = RESERVOIR, 12, 2, 2
    L, W, mean, cov = r.leak_rate, r.W.toarray(), np.zeros(m + N), np.zeros((m + N, m + N))
    T, K = np.eye(d + m + N), np.zeros((m + N, d + m + N))
    T[d + m :] = np.hstack([L * r.W_in, L * r.W_fb, (1.0 - L) * np.eye(N) + L * W])
    K[:m, :d], K[:m, d + m :], K[m:, d + m :] = WEIGHTS[:, 1:3], WEIGHTS[:, 3:], np.eye(N)
    seen = np.array([0, 1, *range(4, 16)])
    outputs, covs, features = [], [], []
    for row, v in zip(z, var, strict=True):
        x, P = np.concatenate([row, mean]), np.zeros((d + m + N, d + m + N))  # of [z, y, h]
        P[:d, :d], P[d:, d:] = np.diag(v), cov
        x, P = T @ x, T @ P @ T.T
        P[d + m :, d + m :] += noise**2 * np.eye(N)
        features.append(P[np.ix_(seen, seen)])
        mean, cov = K @ x, K @ P @ K.T
        outputs.append(mean[:m])
        covs.append(cov[:m, :m])
    return np.array(outputs), np.array(covs), np.array(features), mean, cov


@pytest.mark.parametrize(("form", "rank"), [("full", 40), ("low-rank", 40), ("low-rank", 11)])
@pytest.mark.parametrize("noise", [0.0, 0.3 * TINY])
def test_where_tanh_is_a_line_it_is_the_linear_recursion(form, rank, noise):
    rng = np.random.default_rng(1)
    z, var = TINY * rng.standard_normal((15, 2)), TINY**2 * rng.uniform(0.0, 1.0, (15, 2))
    var[5:8] = 0.0
    root = rng.standard_normal((15, 15))
    drive = Drive(RESERVOIR, WEIGHTS, form, noise=noise, doubt_root=root, rank=rank)
    passed = drive.run(z, var, State(np.zeros(12), None, np.zeros(2), None), until=-1.0)
    outputs, cov, features, mean, last = linear(z, var, noise)
    np.testing.assert_allclose(passed.outputs, outputs, atol=1e-7 * TINY)
    np.testing.assert_allclose(passed.end.mean, mean[2:], atol=1e-7 * TINY)
    if rank < 14:
        np.testing.assert_allclose(passed.cov, cov, atol=0.05 * cov.max())
        return
    np.testing.assert_allclose(passed.cov, cov, atol=1e-6 * cov.max())
    np.testing.assert_allclose(passed.doubt, np.einsum("ij,tij->t", (root @ root.T)[1:, 1:], features), rtol=1e-6)
    np.testing.assert_allclose(passed.end.var, np.diagonal(last)[2:], rtol=1e-6)


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal"])
def test_certain_rows_are_the_deterministic_run_to_the_bit(form):
    z = np.random.default_rng(2).standard_normal((30, 2))
    drive, start = Drive(RESERVOIR, WEIGHTS, form), State(np.zeros(12), np.zeros(12), np.zeros(2), np.zeros(2))
    states, outputs, end = run(RESERVOIR, z, readout=WEIGHTS)
    passed = drive.run(z, np.zeros((30, 2)), start)
    np.testing.assert_array_equal(passed.means, states)
    np.testing.assert_array_equal(passed.outputs, outputs)
    np.testing.assert_array_equal(passed.end.mean, end.mean)
    assert not passed.cov.any()
    assert not uncertain(passed.end)
    taught, _, _ = run(RESERVOIR, z, feedback=np.ones((30, 2)))
    np.testing.assert_array_equal(drive.run(z, None, start, np.ones((30, 2))).means, taught)


def test_a_start_in_every_form_of_state():
    rng = np.random.default_rng(3)
    factor, own = 0.1 * rng.standard_normal((12, 3)), np.full(12, 0.01)
    cov, z = factor @ factor.T + np.diag(own), 0.3 * rng.standard_normal((4, 2))
    dense = np.zeros((14, 14))
    dense[2:, 2:] = cov
    states = [
        state_of(Gaussian(np.zeros(12), factor=factor, var=own), 2),
        state_of(Gaussian(np.zeros(12), cov=cov), 2),
        State(np.zeros(12), np.diagonal(cov), np.zeros(2), np.zeros(2), dense),
    ]
    for form, tolerance in (("full", 1e-12), ("low-rank", 0.02)):
        found = [Drive(RESERVOIR, WEIGHTS, form, rank=13).run(z, None, state).cov for state in states]
        for other in found[1:]:
            np.testing.assert_allclose(other, found[0], atol=tolerance * found[0].max())
    alone = state_of(Gaussian(np.zeros(12), var=own), 2)
    assert alone.cov is None
    for state in (*states, alone):
        assert uncertain(state)
        assert all(np.shape(part) == shape for part, shape in parts_of(state, 12, 2).values())
    wrong = [name for name, (part, shape) in parts_of(states[0], 13, 2).items() if np.shape(part) != shape]
    assert wrong == ["mean", "var", "cov", "own"]


def test_independent_units_become_correlated_in_a_low_rank_too():
    big, rng = draw(60, n_inputs=1, n_outputs=1, rng=0), np.random.default_rng(0)
    z, weights = np.sin(0.3 * np.arange(20.0))[:, None], 0.1 * rng.standard_normal((1, 62))
    start = State(np.zeros(60), np.full(60, 0.04), np.zeros(1), np.zeros(1))
    full, few, paper = (Drive(big, weights, form).run(z, None, start).cov for form in ("full", "low-rank", "diagonal"))
    np.testing.assert_allclose(np.sqrt(few), np.sqrt(full), rtol=0.05)
    assert np.sqrt(paper[-1] / full[-1]) < 0.5


def test_a_state_with_its_first_rows_can_be_copied():
    begun = Begun.after(State(np.zeros(3), None, np.zeros(1)), np.ones((2, 4)))
    for again in (pickle.loads(pickle.dumps(begun)), copy.deepcopy(begun), copy.copy(begun)):
        assert type(again) is Begun
        np.testing.assert_array_equal(again.rows, begun.rows)
        np.testing.assert_array_equal(again.mean, begun.mean)


def test_forms_and_noise():
    assert [form_of("auto", n, 40) for n in (10, 200, 201)] == ["full", "full", "low-rank"]
    assert [form_of("low-rank", n, 40) for n in (40, 41)] == ["full", "low-rank"]
    assert form_of("diagonal", 10, 40) == "diagonal"
    z = np.random.default_rng(4).standard_normal((500, 2))
    start = learn([(z, run(RESERVOIR, z)[0], 50)])
    root = start.stationary()[1]
    assert process_noise(start, 0.0, 0.0) is None
    np.testing.assert_allclose(process_noise(start, 0.01, 0.1).cov(), 0.01 * root.T @ root + 0.01 * np.eye(12), atol=1e-12)
    np.testing.assert_allclose(process_noise(None, 0.0, 0.1, 5).cov(), 0.01 * np.eye(5))


def test_the_share_and_the_washout_of_short_and_long_series(monkeypatch):
    z = np.sin(0.2 * np.arange(1000.0))[:, None] * [1.0, 0.5] + 0.1 * np.random.default_rng(5).standard_normal((1000, 2))
    targets = np.roll(z, -1, axis=0)
    start = learn([(z, run(RESERVOIR, z, feedback=targets)[0], 50)])
    drive = Drive(RESERVOIR, np.zeros((2, 15)), "full", start=start)
    assert best_share(drive, z[:100], targets[:100], 1e-6, 10) == 0.0  # too few rows to hold any back
    assert best_share(drive, z, targets, 1e-6, 900) == 0.0
    share = best_share(drive, z, targets, 1e-6, 50)
    assert 0.0 <= share < 1.0
    monkeypatch.setattr("pesn.reservoir.sequences.blocks.__defaults__", (37,))
    assert best_share(drive, z, targets, 1e-6, 50) == share
    assert washout_of(RESERVOIR, z[:3], targets[:3], 1e-6) == 0
    assert 0 < washout_of(RESERVOIR, z, targets, 1e-6) <= 500
