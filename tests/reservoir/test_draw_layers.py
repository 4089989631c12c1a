"""Tests of drawing layers and groups:

1. A single layer, and the first of several layers, equal the plain reservoir bit by bit.
2. Each group has the spectral radius, density and leak rate of its Layer. The inputs of a layer are scaled by the number of
   units in the preceding layer. There are no other connections.
3. ``memory`` draws an orthogonal matrix for each group or uses the given one.
4. Invalid layers raise errors that name the parameter.
"""

import numpy as np
import pytest

from pesn import Layer
from pesn.reservoir.weights import draw, draw_layers

OWN = {"n_units": 30, "leak_rate": 0.4, "density": 0.2, "spectral_radius": 0.8}

PLAIN = draw(n_inputs=2, n_outputs=3, feedback_scaling=0.3, rng=5, **OWN)


def same(a, b):
    assert a._fields == b._fields
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------- 1. single layer


@pytest.mark.parametrize("layers", [1, np.int64(1), [Layer()], (Layer(30),), [[Layer()]]])
def test_single_layer_equals_the_plain_reservoir(layers):
    same(draw_layers(layers, 2, 3, feedback_scaling=0.3, rng=5, **OWN), PLAIN)


def test_first_of_several_layers_equals_the_plain_reservoir():
    deep = draw_layers(3, 2, 3, feedback_scaling=0.3, rng=5, **OWN)
    assert (deep.layers, deep.n_units, deep.leak_rate) == ((30, 30, 30), 90, 0.4)
    np.testing.assert_array_equal(deep.W.toarray()[:30, :30], PLAIN.W.toarray())
    for name in ("W_in", "W_fb", "bias"):
        np.testing.assert_array_equal(getattr(deep, name)[:30], getattr(PLAIN, name))
    assert not deep.W_in[30:].any()
    assert not deep.W_fb[30:].any()
    deep.check()


# ---------------------------------------------------------------- 2. groups and layers


def test_groups_have_the_requested_radius_density_and_leak_rate():
    given = [
        [Layer(20, spectral_radius=1.1), Layer(10, leak_rate=0.1, bias_scaling=0.0)],
        Layer(25, density=0.5, input_scaling=2.0),
        [Layer(12, topology="ring"), Layer(leak_rate=np.linspace(0.1, 1.0, 30))],
    ]
    deep = draw_layers(given, 2, 1, rng=0, **OWN)
    deep.check()
    assert deep.layers == (30, 25, 42)
    W, groups = deep.W.toarray(), [slice(0, 20), slice(20, 30), slice(30, 55), slice(55, 67), slice(67, 97)]
    radii = [np.abs(np.linalg.eigvals(W[rows, rows])).max() for rows in groups]
    np.testing.assert_allclose(radii, [1.1, 0.8, 0.8, 0.8, 0.8], rtol=1e-9)
    assert [np.count_nonzero(W[rows, rows]) for rows in groups] == [80, 20, 312, 12, 180]
    leaks = np.concatenate([np.full(20, 0.4), np.full(10, 0.1), np.full(37, 0.4), np.linspace(0.1, 1.0, 30)])
    np.testing.assert_array_equal(deep.leak_rate, leaks)
    assert not deep.bias[20:30].any()
    seen = np.zeros(W.shape, bool)
    for rows in groups:
        seen[rows, rows] = True
    seen[30:55, :30], seen[55:, 30:55] = True, True
    assert not W[~seen].any()
    for block, largest in ((W[30:55, :30], 2.0 / np.sqrt(30)), (W[55:, 30:55], 0.5 / np.sqrt(25))):
        assert 0.97 * largest < np.abs(block).max() <= largest


def test_leak_rates_per_unit_are_repeated_for_each_layer():
    leaks = np.linspace(0.1, 1.0, 30)
    deep = draw_layers(2, 1, 1, rng=0, **{**OWN, "leak_rate": leaks.tolist()})
    np.testing.assert_array_equal(deep.leak_rate, np.tile(leaks, 2))
    np.testing.assert_array_equal(draw_layers(1, 1, 1, rng=0, **{**OWN, "leak_rate": leaks}).leak_rate, leaks)


# ---------------------------------------------------------------- 3. memory


def test_memory_is_orthogonal_within_each_group():
    given = [[Layer(8), Layer(5)], Layer(7)]
    turned = draw_layers(given, 1, 1, memory="orthogonal", rng=0, **OWN)
    turned.check()
    O, leaky = turned.rotation, draw_layers(given, 1, 1, rng=0, **OWN)  # noqa: E741
    np.testing.assert_allclose(O @ O.T, np.eye(20), atol=1e-13)
    for rows in (slice(0, 8), slice(8, 13), slice(13, 20)):
        np.testing.assert_allclose(O[rows, rows] @ O[rows, rows].T, np.eye(rows.stop - rows.start), atol=1e-13)
    np.testing.assert_array_equal(turned.W.toarray(), leaky.W.toarray())
    same(draw_layers(given, 1, 1, memory=O, rng=0, **OWN), turned)
    np.testing.assert_allclose(draw_layers(given, 1, 1, memory=O.astype(np.float32), rng=0, **OWN).rotation, O, atol=1e-6)


# ---------------------------------------------------------------- 4. invalid layers

BY_INPUT = "layer 2: input_scaling by input is the first layer's; give a later one its own"
MODIFIED = Layer(5)
object.__setattr__(MODIFIED, "n_units", -5)  # after construction


@pytest.mark.parametrize(("change", "message"), [
    ({"layers": 0}, "layers must be 1 or more, got 0"),
    ({"layers": []}, r"layers must be a whole number, 1 or more, or a list with one entry a layer, .* got \[\]"),
    ({"layers": [20, 30]}, r"layers must be .* a pesn.Layer or a list of them, its groups, got \[20, 30\]"),
    ({"layers": [Layer(5, density=0.01), Layer()]}, "layer 1: density 0.01 leaves W nilpotent or disconnected"),
    ({"layers": [Layer(), Layer(bias_scaling=-1.0)]}, r"layer 2: bias_scaling must lie in \[0, ∞\), got -1.0"),
    ({"layers": 2, "input_scaling": [0.5, 0.1]}, BY_INPUT),
    ({"layers": [Layer(), MODIFIED]}, "layer 2: n_units must be 1 or more, got -5"),
    ({"layers": [Layer(20), Layer()], "leak_rate": np.full(30, 0.5)}, r"layer 1: leak_rate must .* have shape \(20,\)"),
    ({"leak_rate": np.full(29, 0.5)}, r"leak_rate must be a number or have shape \(30,\), one for each unit, got \(29,\)"),
    ({"memory": "elephant"}, "memory must be one of 'leaky', 'orthogonal' or an orthogonal matrix, got 'elephant'"),
    ({"memory": np.ones((30, 30))}, "memory must be orthogonal, got O Oᵀ that is 3e[+]01 from the identity"),
    ({"memory": np.eye(29)}, r"memory must have shape \(30, 30\), got \(29, 29\)"),
    ({"memory": np.roll(np.eye(60), 1, axis=0), "layers": 2}, r"memory must be 0 between the layers \(30, 30\)"),
])  # fmt: skip
def test_invalid_layers_raise_with_the_parameter_name(change, message):
    arguments = {"layers": 1, **OWN, **change}
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        draw_layers(arguments.pop("layers"), 2, 1, rng=0, **arguments)


@pytest.mark.parametrize(("given", "message"), [
    ({"n_units": -3}, "n_units must be 1 or more, got -3"), ({"density": 1.5}, r"density must lie in \(0, 1\], got 1.5"),
    ({"leak_rate": 1.5}, r"leak_rate must lie in \(0, 1\], got 1.5"),
    ({"n_units": 3, "leak_rate": [0.5, 0.5]}, r"leak_rate must be a number or have shape \(3,\)"),
])  # fmt: skip
def test_invalid_layer_raises_at_construction(given, message):
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        Layer(**given)


def test_repr_shows_only_the_given_parameters():
    assert repr([Layer(), Layer(5), Layer(topology="ring", leak_rate=0.1)]) == (
        "[Layer(), Layer(5), Layer(leak_rate=0.1, topology='ring')]"
    )
