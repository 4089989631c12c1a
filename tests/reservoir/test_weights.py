"""Tests of input, feedback and bias weights: they are prepended to W, and either scaled or given explicitly."""

import numpy as np
import pytest

import pesn
from pesn.reservoir.weights import draw


def test_scaling_can_be_given_per_column():
    plain, one = draw(30, 3, 2, input_scaling=1.0, feedback_scaling=1.0, rng=0), draw(30, 3, 2, input_scaling=[0.5] * 3, rng=0)
    np.testing.assert_array_equal(one.W_in, draw(30, 3, 2, input_scaling=0.5, rng=0).W_in)  # a scalar applies to every column
    each = draw(30, 3, 2, input_scaling=np.array([0.0, 2.0, 0.1]), feedback_scaling=(3.0, 0.0), rng=0)
    np.testing.assert_allclose(each.W_in, plain.W_in * [0.0, 2.0, 0.1], rtol=1e-15)
    np.testing.assert_allclose(each.W_fb, plain.W_fb * [3.0, 0.0], rtol=1e-15)
    for name in ("data", "indices", "bias"):
        np.testing.assert_array_equal(getattr(each, name), getattr(plain, name))


def test_given_weights_are_copied_unscaled():
    rng = np.random.default_rng(0)
    W_in, W_fb, bias, W = (rng.normal(size=shape) for shape in ((4, 2), (4, 1), (4,), (4, 4)))
    own = draw(4, 2, 1, input_scaling=W_in, feedback_scaling=W_fb, bias_scaling=bias, topology=W, rng=1)
    for given, taken in ((W_in, own.W_in), (W_fb, own.W_fb), (bias, own.bias), (W, own.W.toarray())):
        np.testing.assert_array_equal(taken, given)
        assert taken is not given  # a later change to it would reach the network


@pytest.mark.parametrize("scaling", [[0.1, 1.0], np.array([0.1, 1.0], np.float32), "own"])
def test_network_with_given_weights_survives_save_and_load(scaling, save_and_load):
    X = np.sin(np.outer(np.arange(300.0), [0.2, 0.31]))
    given = np.random.default_rng(0).normal(size=(20, 2)) if isinstance(scaling, str) else scaling
    esn = pesn.ProbabilisticESN(20, input_scaling=given, bias_scaling=np.linspace(-1.0, 1.0, 20), random_state=0)
    again = save_and_load(esn.fit(X[:-1], X[1:]))
    np.testing.assert_array_equal(again.predict(X, return_std=True), esn.predict(X, return_std=True))
    np.testing.assert_array_equal(again.fit(X[:-1], X[1:]).reservoir_.W_in, esn.reservoir_.W_in)
