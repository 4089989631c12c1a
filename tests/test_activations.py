"""Properties of activation records hold: slope, tails, core, kinks, differences; custom ones are checked; names are found."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pesn.activations import Activation, custom, elu, get, hard_tanh, leaky_relu, names, piecewise_linear, softplus, swish

ALL = [*(get(name) for name in names()), swish(2.5), softplus(0.5), leaky_relu(0.2), elu(0.7), hard_tanh(-0.5, 2.0)]
LABELS = [a.name for a in ALL]


@pytest.mark.parametrize("activation", ALL, ids=LABELS)
def test_derivative_agrees_with_finite_differences(activation):
    z, h = np.linspace(-7, 7, 1001) + 0.0003, 1e-6
    away = np.all([np.abs(z - k) > 1e-3 for k in activation.kinks], axis=0)
    slope = (activation(z + h) - activation(z - h)) / (2 * h)
    np.testing.assert_allclose(activation.derivative(z)[away], slope[away], atol=1e-8)


@pytest.mark.parametrize("activation", ALL, ids=LABELS)
def test_tails_hold_beyond_the_core(activation):
    for tail, side in ((activation.left, -1), (activation.right, 1)):
        if tail is not None:
            z = side * activation.core * np.array([1.0, 1.5, 3.0, 100.0])
            np.testing.assert_allclose(activation(z), tail.intercept + tail.slope * z, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("activation", ALL, ids=LABELS)
def test_symmetry(activation):
    z = np.linspace(0, 9, 200)
    odd = np.allclose(activation(-z), -activation(z), rtol=0, atol=1e-15)
    assert odd == (activation.symmetry == "odd")


@pytest.mark.parametrize("activation", ALL, ids=LABELS)
@given(m=st.floats(-30, 30), d=st.floats(-40, 40))
def test_difference_agrees_with_subtraction(activation, m, d):
    got = float(activation.difference(m, d))
    assert math.isclose(got, float(activation(np.float64(m) + d) - activation(np.float64(m))), rel_tol=1e-9, abs_tol=2e-14)


@pytest.mark.parametrize("activation", ALL, ids=LABELS)
@pytest.mark.parametrize("m", [-6.0, -1.1, 0.4, 5.0])
def test_small_differences_are_relatively_accurate(activation, m):
    d = np.array([1e-30, -1e-12, 1e-8])
    np.testing.assert_allclose(activation.difference(m, d), activation.derivative(np.full(3, m)) * d, rtol=1e-6)


@pytest.mark.parametrize("activation", ALL, ids=LABELS)
def test_nothing_overflows(activation):
    z = np.array([-1e300, -1e10, -800.0, 800.0, 1e10, 1e300])
    assert np.all(np.isfinite([activation(z), activation.derivative(z), activation.difference(z, -z)]))


def test_names_are_normalized():
    assert get("Leaky ReLU") is get("leaky_relu") is get("leaky-relu")
    assert get("hardtanh") is get("hard_tanh")
    assert get("logistic") is get("sigmoid")
    assert isinstance(get("gelu"), Activation)


@pytest.mark.parametrize("activation", ALL, ids=LABELS)
def test_copies_and_pickles_are_equal(activation):
    assert copy.deepcopy(activation) is activation
    again = pickle.loads(pickle.dumps(activation))
    z = np.linspace(-3, 3, 11)
    np.testing.assert_array_equal(again(z), activation(z))
    if activation in map(get, names()):
        assert again is activation


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda: get("sofplus"), ValueError, "activation 'sofplus' is not known; did you mean 'softplus'.*known: .*tanh"),
    (lambda: get("xyz123"), ValueError, "activation 'xyz123' is not known; known: "),
    (lambda: get(3), TypeError, "activation must be a name or an Activation, got int"),
    (lambda: custom(np.tanh, left=-1, right=0.9), ValueError, r"right tail \(0\.9, 0\.0\) does not fit tanh: at z = 1024 "),
    (lambda: custom(np.arctan, left=-1.5, right=1.5), ValueError, "left tail .* Declare the line .* or left=None"),
    (lambda: custom(np.tanh, left="flat", right=1), TypeError, r"left must be a number, an \(intercept, slope\) pair or"),
    (lambda: custom(np.tanh, left=-1, right=math.inf), ValueError, "right must be finite"),
    (lambda: custom("tanh", left=-1, right=1), TypeError, "function must be callable, got str"),
    (lambda: custom(lambda z: 1.0, left=1, right=1), ValueError, "function must map .* of the same shape"),
    (lambda: custom(lambda z: z > 0, left=0, right=1), ValueError, "function must map an array to finite floats"),
    (lambda: custom(np.tanh, left=-1, right=1, scale=0), ValueError, r"scale must lie in \(0, ∞\), got 0"),
    (lambda: custom(np.tanh, left=-1, right=1, kinks=[math.nan]), ValueError, "kinks must be finite"),
    (lambda: custom(np.tanh, left=-1, right=1, derivative=np.cos), ValueError, "derivative must be the slope of tanh"),
    (lambda: swish(0), ValueError, r"beta must lie in \(0, ∞\), got 0"),
    (lambda: softplus(-1.0), ValueError, "beta must lie in"), (lambda: elu(math.nan), ValueError, "alpha must lie in"),
    (lambda: hard_tanh(1, -1), ValueError, "low must be below high, got low=1, high=-1"),
    (lambda: piecewise_linear("x", [0.0], [1.0, 2.0], math.nan), ValueError, "value_at_first_kink must lie in"),
    (lambda: piecewise_linear("x", [0.0], [1.0], 0.0), ValueError, "slopes must have one entry more than kinks, got 1"),
    (lambda: piecewise_linear("x", [1.0, 0.0], [1.0] * 3, 0.0), ValueError, "kinks must be one or more finite, increasing"),
])  # fmt: skip
def test_invalid_arguments_raise(make, error, message):
    with pytest.raises(error, match=message):
        make()
