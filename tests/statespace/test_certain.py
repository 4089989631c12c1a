"""Means alone are the other forms where nothing is uncertain."""

import numpy as np
import pytest
from scipy import sparse

from pesn.activations import get
from pesn.statespace import ActivationMoments, Cell, Noise, StateSpaceModel, init, rollout


def _model(rng, readouts=()):
    cell = Cell(
        slice(3, 9), sparse.csr_array(0.4 * rng.normal(size=(6, 9))), rng.normal(size=6), 0.7, ActivationMoments(get("tanh"))
    )
    K, k = 0.3 * rng.normal(size=(*readouts, 3, 9)), rng.normal(size=(*readouts, 3))
    return StateSpaceModel((cell,), K, k, slice(2, 3), slice(0, 2))


def test_a_certain_state_moves_as_a_full_covariance_of_zero():
    rng = np.random.default_rng(0)
    model, units, inputs = _model(rng), rng.normal(size=(4, 6)), rng.normal(size=(4, 12, 1))
    paths = [rollout(model, init(form, 3, units, np.zeros((4, 0, 6))), inputs) for form in ("none", "full")]
    np.testing.assert_allclose(paths[0].mean, paths[1].mean, atol=1e-13)
    assert not paths[0].cov.any()


def test_a_batch_of_readouts_is_one_after_the_other():
    rng = np.random.default_rng(1)
    model, units, inputs = _model(rng, (5, 1)), rng.normal(size=(5, 4, 6)), rng.normal(size=(5, 4, 12, 1))
    path = rollout(model, init("none", 3, units, np.zeros((0, 6))), inputs)
    for i in range(5):
        alone = StateSpaceModel(model.cells, model.K[i, 0], model.k[i, 0], model.inputs, model.outputs)
        one = rollout(alone, init("none", 3, units[i], np.zeros((0, 6))), inputs[i])
        np.testing.assert_allclose(path.mean[i], one.mean, atol=1e-13)


def test_what_is_observed_replaces_what_was_predicted_and_noise_is_left_out():
    rng = np.random.default_rng(2)
    model, state = _model(rng), init("none", 3, rng.normal(size=6), np.zeros((0, 6)))
    seen = model.update(state, np.array([7.0, np.nan]))
    assert seen.mean[0] == 7.0
    np.testing.assert_array_equal(seen.mean[1:], state.mean[1:])
    noisy = state.move(model.cells[0], Noise(np.ones((1, 6)), np.ones(6)))
    np.testing.assert_array_equal(noisy.mean, state.move(model.cells[0]).mean)
    assert state.is_certain()
    assert not state.variances().any()
    np.testing.assert_array_equal(state.sample(2, rng), np.stack([state.mean, state.mean]))


def test_a_loop_that_diverges_stays_numbers():
    rng = np.random.default_rng(3)
    model = _model(rng)
    far = StateSpaceModel(model.cells, 1e60 * model.K, model.k, model.inputs, model.outputs)
    path = rollout(far, init("none", 3, rng.normal(size=6), np.zeros((0, 6))), np.zeros((20, 1)))
    assert np.isfinite(path.mean).all()


def test_forms_are_named_where_one_is_wrong():
    with pytest.raises(ValueError, match="'none'"):
        init("nothing", 3, np.zeros(6), np.zeros((0, 6)))
