"""Tests of the compiled loop of means: it agrees with single steps."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from pesn.activations import get
from pesn.statespace.cell import ActivationMoments, Cell, Noise, SineMoments, SquareMoments
from pesn.statespace.model import Bounds, CertainPath, StateSpaceModel, init, rollout


def _model(rng, readouts=(), guard=None, size=0.3, activation="tanh"):
    """Return a model of y (2,), one input, one squared sum of them, and six units."""
    squares = Cell(slice(3, 4), sparse.csr_array([[1.0, 0.5, 0.0] + 7 * [0.0]]), np.zeros(1), 1.0, SquareMoments())
    enter = sparse.random_array((6, 10), density=0.5, rng=rng, data_sampler=rng.standard_normal)
    units = Cell(slice(4, 10), enter, rng.normal(size=6), 0.7, ActivationMoments(get(activation)))
    K, k = size * rng.normal(size=(*readouts, 4, 10)), rng.normal(size=(*readouts, 4))
    K[..., 2:4, :] = k[..., 2:4] = 0.0  # the input and the square are recomputed in each step
    return StateSpaceModel((squares, units), K, k, slice(2, 3), slice(0, 2), guard=guard)


def _compiled(model):
    return replace(model, fast=CertainPath(model))


def _bounds(kinematic=False, widen=False):
    return Bounds(np.zeros(2), np.ones(2), np.full(2, -1.5), np.full(2, 1.5), np.array([False, kinematic]), widen)


def _assert_same(model, state, inputs, moved=False, served=True):
    slow, fast = (rollout(one, state, inputs, moved=moved) for one in (model, _compiled(model)))
    assert served == (_compiled(model).fast.take(state, inputs, None, None, moved) is not None)
    np.testing.assert_allclose(fast.mean, slow.mean, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(fast.state.mean, slow.state.mean, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(fast.left, slow.left)
    assert (fast.cov.shape, fast.parts.keys()) == (slow.cov.shape, slow.parts.keys())
    return fast


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize(("readouts", "batch"), [((), ()), ((), (3,)), ((), (2, 9)), ((5, 1), (5, 12)), ((3, 1), (3, 33))])
def test_batches_agree_with_single_steps(readouts, batch, moved):
    rng = np.random.default_rng(0)
    state = init("none", 3, rng.normal(size=(*batch, 7)), np.zeros((0, 7)))
    _assert_same(_model(rng, readouts), state, rng.normal(size=(*batch, 8, 1)), moved)


@pytest.mark.parametrize("kinematic", [False, True])
@pytest.mark.parametrize("widen", [False, True])
def test_bounded_means_agree_with_single_steps(kinematic, widen):
    rng = np.random.default_rng(1)
    model = _model(rng, (4, 1), _bounds(kinematic, widen), size=1.0)
    state = init("none", 3, rng.normal(size=(4, 20, 7)), np.zeros((0, 7)))
    path = _assert_same(model, state, rng.normal(size=(4, 20, 5, 1)))
    assert path.left[..., 0].any()
    assert not path.left.all()
    assert path.left[..., 1].any()  # also a kinematic column, if it moves by more than its range


def test_other_models_agree_with_single_steps():
    rng = np.random.default_rng(2)
    state = init("none", 3, rng.normal(size=7), np.zeros((0, 7)))
    path = _assert_same(_model(rng, size=1e60), state, np.zeros((20, 1)))
    assert np.isfinite(path.mean).all()
    # sines agree with single steps
    rng = np.random.default_rng(3)
    model = _model(rng)
    sines = replace(model.cells[0], units=SineMoments(), leak=0.6)
    state = init("none", 3, rng.normal(size=7), np.zeros((0, 7)))
    _assert_same(replace(model, cells=(sines, model.cells[1])), state, rng.normal(size=(8, 1)))
    # zero steps leave the state unchanged
    rng = np.random.default_rng(4)
    state = init("none", 3, rng.normal(size=(2, 7)), np.zeros((0, 7)))
    _assert_same(_model(rng), state, np.zeros((2, 0, 1)), served=False)


def test_layers_and_leaks_are_compiled_but_other_models_fall_back():
    rng = np.random.default_rng(4)
    model, leaks, tanh = _model(rng), rng.uniform(0.1, 1.0, 6), ActivationMoments(get("tanh"))
    squares, units = model.cells
    A = sparse.csr_array(units.matrix)
    layers = [Cell(slice(4 + i, 4 + j), A[i:j], units.bias[i:j], leaks[i:j], tanh) for i, j in ((0, 2), (2, 6))]
    inputs, state = rng.normal(size=(3, 9, 1)), init("none", 3, rng.normal(size=(3, 7)), np.zeros((0, 7)))
    deep = _assert_same(replace(model, cells=(squares, *layers)), state, inputs)
    flat = _assert_same(replace(model, cells=(squares, replace(units, leak=leaks))), state, inputs)
    assert np.abs(deep.mean - flat.mean).max() > 1e-3  # the second layer uses the updated first layer
    turned = replace(layers[1], rotation=np.linalg.qr(rng.normal(size=(4, 4)))[0])
    _assert_same(replace(model, cells=(squares, layers[0], turned)), state, inputs, served=False)
    # unsupported models fall back to single steps
    rng = np.random.default_rng(3)
    inputs, state = rng.normal(size=(5, 1)), init("none", 3, rng.normal(size=7), np.zeros((0, 7)))
    _assert_same(_model(rng, activation="relu"), state, inputs, served=False)
    plain = _model(rng)
    model, y = _compiled(plain), np.array([[np.nan, np.nan], [0.1, 0.2], [np.nan, 0.3], [np.nan, np.nan], [0.4, 0.1]])
    seen, expected = (rollout(one, state, inputs, observations=y) for one in (model, plain))
    np.testing.assert_array_equal(seen.mean, expected.mean)
    assert model.fast.take(state, inputs, np.ones((5, 1)), None) is None
    assert model.fast.take(state, inputs, None, np.zeros((5, 2))) is None
    assert model.fast.take(init("full", 3, rng.normal(size=7), np.zeros((0, 7))), inputs, None, None) is None


# ---------------------------------------------------------------- certain states
#
# States without uncertainty; see also test_cell.


def test_batch_of_readouts_equals_single_readouts():
    rng = np.random.default_rng(1)
    model, units, inputs = _model(rng, (5, 1)), rng.normal(size=(5, 4, 7)), rng.normal(size=(5, 4, 12, 1))
    path = rollout(model, init("none", 3, units, np.zeros((0, 7))), inputs)
    for i in range(5):
        alone = StateSpaceModel(model.cells, model.K[i, 0], model.k[i, 0], model.inputs, model.outputs)
        one = rollout(alone, init("none", 3, units[i], np.zeros((0, 7))), inputs[i])
        np.testing.assert_allclose(path.mean[i], one.mean, atol=1e-13)


def test_observations_replace_predictions_and_noise_is_ignored():
    rng = np.random.default_rng(2)
    model, state = _model(rng), init("none", 3, rng.normal(size=7), np.zeros((0, 7)))
    seen = model.update(state, np.array([7.0, np.nan]))
    assert seen.mean[0] == 7.0
    np.testing.assert_array_equal(seen.mean[1:], state.mean[1:])
    noisy = state.move(model.cells[1], Noise(np.ones((1, 6)), np.ones(6)))
    np.testing.assert_array_equal(noisy.mean, state.move(model.cells[1]).mean)
    assert state.is_certain()
    assert not state.variances().any()
    np.testing.assert_array_equal(state.sample(2, rng), np.stack([state.mean, state.mean]))
