"""Tests of reading operations by their values: affine operations give their exact map, activations their name and parameters.
Functions that resemble them only on part of their domain are not recognized."""

import numpy as np
import pytest
from scipy import special

from pesn.activations import get, hard_tanh, leaky_relu, names
from pesn.networks.reader import read_affine, recognize

NONLINEAR = sorted({get(name).name for name in names() if get(name).slopes != (1.0,)})


@pytest.mark.parametrize("name", NONLINEAR)
def test_named_activations_are_recognized_with_their_factor(name):
    record, factor = recognize(lambda z: -2.5 * get(name)(z))
    assert (record, factor) == (get(name), pytest.approx(-2.5))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (leaky_relu(0.2), "leaky_relu(slope=0.2)"),
        (hard_tanh(-0.5, 2.0), "hard_tanh(low=-0.5, high=2)"),
        (lambda z: np.maximum(z, 0.1), "clip(0.1)"),
        (lambda z: np.minimum(z, -0.3), "clip(-0.3)"),
        (lambda z: np.clip(0.2 * z + 0.5, 0.0, 1.0), "ramp"),
        (lambda z: np.where(z > 0.0, z, 0.7 * np.expm1(np.minimum(z, 0.0))), "elu(alpha=0.7)"),
        (lambda z: np.where(z > 0.0, z, 0.6 * np.expm1(np.minimum(z, 0.0) / 0.6)), "elu(alpha=0.6, rate=1.66667)"),
        (lambda z: np.logaddexp(0.0, 3.0 * z) / 3.0, "softplus(beta=3)"),
        (lambda z: z * special.expit(1.702 * z), "swish(beta=1.702)"),
        (lambda z: np.sign(z) * np.maximum(np.abs(z) - 0.3, 0.0), "soft_shrink(0.3)"),
        (lambda z: 0.5 * z * (1.0 + np.tanh(0.79788456 * (z + 0.044715 * z**3))), "gelu(tanh)"),
        (np.square, "square"),
    ],
)
def test_parameters_of_activations_are_recognized(function, name):
    record, factor = recognize(function)
    assert record.name == name
    assert factor == pytest.approx(1.0)
    z = np.linspace(-5.0, 5.0, 101)
    np.testing.assert_allclose(record(z), function(z), atol=1e-6)


@pytest.mark.parametrize(
    "function", [np.exp, np.arctan, lambda z: z**3, np.cos, np.sqrt, np.sign, lambda z: 0.0 * z, lambda z: z]
)
def test_other_functions_are_not_recognized(function):
    assert recognize(function) is None


def test_affine_map_is_read_exactly_with_a_large_offset():
    A, b = np.array([[1e-9, 2.0], [0.0, -3.0]]), np.array([1e9, -1.0])
    (found,) = read_affine(lambda x: [x @ A.T + b], [np.eye(3, 2, -1)])
    np.testing.assert_allclose(found, np.vstack([b, A.T]), rtol=1e-9)


@pytest.mark.parametrize(
    "function",
    [
        np.abs,
        np.tanh,
        np.round,
        lambda x: np.clip(x, -1e4, None),
        lambda x: np.where(np.abs(x) > 1e-3, x, 0.0),
        lambda x: np.sort(x, axis=1),
        lambda x: np.median(x, axis=1),
        lambda x: x / np.linalg.norm(x, axis=1, keepdims=True),
        lambda x: x[:, :1] * x[:, 1:],
        lambda x: np.where(x == 0.0, 5.0, x),
        lambda x: x.astype(np.float16),
    ],
)
def test_nonlinear_operations_are_not_read_as_affine(function):
    assert read_affine(lambda x: [function(x)], [np.eye(4, 3, -1)]) is None
