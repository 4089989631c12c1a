"""Claim: a graph's Gaussian closure is that of a chain where it is one, exact where one node is not affine, and near samples
elsewhere; "auto" takes it where it is exact."""

import numpy as np
import pytest

from pesn import Dense, Gaussian, propagate
from pesn.networks import graph as graphs
from pesn.networks import propagation
from pesn.networks.graph import Affine, Elementwise, Graph, Node, Product, through_graph
from pesn.networks.program import Program

RNG = np.random.default_rng(0)
W = [RNG.normal(size=(6, 4)) / 2.0, RNG.normal(size=(6, 6)) / 3.0, RNG.normal(size=(2, 6)) / 2.0]
B = [RNG.normal(size=6), RNG.normal(size=6), RNG.normal(size=2)]
X = Gaussian([0.3, -0.2, 0.1, 0.4], cov=0.2 * np.eye(4) + 0.1)


def linear(k):
    return Affine(lambda rows: rows @ W[k].T + B[k])


CHAIN = Graph(
    {"x": 4},
    (
        Node("a", linear(0), ("x",)),
        Node("h", Elementwise("tanh"), ("a",)),
        Node("b", linear(1), ("h",)),
        Node("g", Elementwise("gelu"), ("b",)),
        Node("y", linear(2), ("g",)),
    ),
    "y",
)


def residual(d=4, width=6, seed=0, gain=0.7):
    """h = tanh(A x), y = C (h + tanh(B h)), as a graph and as a function."""
    rng = np.random.default_rng(seed)
    A, M, C = (
        rng.normal(size=(width, d)) / np.sqrt(d),
        gain * rng.normal(size=(width, width)) / np.sqrt(width),
        rng.normal(size=(2, width)),
    )
    graph = Graph(
        {"x": d},
        (
            Node("a", Affine(lambda x: x @ A.T), ("x",)),
            Node("h", Elementwise("tanh"), ("a",)),
            Node("b", Affine(lambda h: h @ M.T), ("h",)),
            Node("g", Elementwise("tanh"), ("b",)),
            Node("y", Affine(lambda h, g: (h + g) @ C.T + 1.0), ("h", "g")),
        ),
        "y",
    )

    def function(rows):
        h = np.tanh(rows @ A.T)
        return (h + np.tanh(h @ M.T)) @ C.T + 1.0

    return Program(function, graph=graph)


def test_a_chain_is_a_graph():
    chain = [Dense(W[0], B[0], "tanh"), Dense(W[1], B[1], "gelu"), Dense(W[2], B[2])]
    one, other = through_graph(CHAIN, X), propagate(chain, X, closure="gaussian")
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-9)
    np.testing.assert_allclose(one.cov, other.cov, rtol=1e-7, atol=1e-12)


def test_affine_graphs_are_exact():
    graph = Graph(
        {"x": 2, "z": 2},
        (
            Node("s", Affine(lambda x, z: np.hstack([x + 2.0 * z, x - 1.0])), ("x", "z")),
            Node("y", Affine(lambda x, s: x.sum(axis=1, keepdims=True) * 3.0 + s), ("x", "s")),
        ),
        "y",
    )
    A = np.array([[4.0, 3.0, 2.0, 0.0], [3.0, 4.0, 0.0, 2.0], [4.0, 3.0, 0.0, 0.0], [3.0, 4.0, 0.0, 0.0]])
    y = through_graph(graph, X)
    np.testing.assert_allclose(y.mean, A @ X.mean - [0.0, 0.0, 1.0, 1.0], rtol=1e-13)
    np.testing.assert_allclose(y.cov, A @ X.cov @ A.T, rtol=1e-13)
    np.testing.assert_array_equal(y.cov, y.cov.T)


def test_small_covariances_keep_their_digits_beside_a_large_offset():
    graph = Graph({"x": 4}, (Node("y", Affine(lambda x: x @ W[0].T + 1e3), ("x",)),), "y")
    x = Gaussian(X.mean, cov=1e-20 * X.cov)
    np.testing.assert_allclose(through_graph(graph, x).cov, W[0] @ x.cov @ W[0].T, rtol=1e-10, atol=1e-32)


def test_a_product_is_exact_and_known_to_what_it_is_made_of():
    graph = Graph(
        {"x": 4},
        (
            Node("a", Affine(lambda x: x[:, :2]), ("x",)),
            Node("b", Affine(lambda x: x[:, 2:] + 0.5), ("x",)),
            Node("p", Product(), ("a", "b")),
            Node("y", Affine(lambda p, x: np.hstack([p, x])), ("p", "x")),
        ),
        "y",
    )
    y, rows = through_graph(graph, X), X.sample(2_000_000, rng=0)
    out = np.hstack([rows[:, :2] * (rows[:, 2:] + 0.5), rows])
    np.testing.assert_allclose(y.mean, out.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(y.cov, np.cov(out.T), atol=2e-3)
    square = through_graph(Graph({"x": 4}, (Node("y", Product(), ("x", "x")),), "y"), X)
    np.testing.assert_allclose(square.mean, X.mean**2 + X.var, rtol=1e-12)
    np.testing.assert_allclose(square.cov, 4.0 * np.outer(X.mean, X.mean) * X.cov + 2.0 * X.cov**2, rtol=1e-12)


@pytest.mark.parametrize("std", [0.2, 0.5])
def test_residuals_are_near_samples(std):
    program = residual(d=20, width=30)
    x = Gaussian(np.random.default_rng(3).normal(size=20), var=std**2)
    out = program.function(x.sample(200_000, rng=0))
    y = through_graph(program.graph, x)
    np.testing.assert_allclose(y.std, out.std(axis=0), rtol=0.01 if std == 0.2 else 0.04)
    np.testing.assert_allclose(y.mean, out.mean(axis=0), atol=0.02 * y.std.max())


def test_a_batch_is_each_of_its_rows_and_float32_stays():
    means = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    y = through_graph(CHAIN, Gaussian(means, var=np.float32(0.1)))
    assert y.mean.shape == (3, 2)
    assert y.cov.dtype == np.float32
    for i in range(3):
        one = through_graph(CHAIN, Gaussian(means[i].astype(float), var=0.1))
        np.testing.assert_allclose(y.mean[i], one.mean, rtol=1e-5)
        np.testing.assert_allclose(y.cov[i], one.cov, rtol=1e-4, atol=1e-6)


def test_what_cancels_leaves_nothing():
    graph = Graph(
        {"x": 4},
        (
            Node("a", linear(0), ("x",)),
            Node("zero", Affine(lambda a, x: a - (x @ W[0].T + B[0])), ("a", "x")),
            Node("y", Elementwise("tanh"), ("zero",)),
        ),
        "y",
    )
    y = through_graph(graph, X)
    np.testing.assert_allclose(y.mean, 0.0, atol=1e-14)
    np.testing.assert_allclose(y.cov, 0.0, atol=1e-14)


def test_only_what_is_still_used_is_kept(monkeypatch):
    monkeypatch.setattr(graphs, "LARGEST", 12)  # the width of two nodes
    through_graph(CHAIN, X)
    monkeypatch.setattr(graphs, "LARGEST", 11)
    with pytest.raises(graphs.TooLargeError, match=r"node 'h' would bring 12 numbers .* closure='sobol'"):
        through_graph(CHAIN, X)


@pytest.mark.parametrize(
    ("nodes", "output", "message"),
    [
        ((Node("a", Product(), ("x", "b")),), "a", "node 'a' of the graph takes 'b', which is not before it"),
        ((Node("x", Product(), ("x", "x")),), "x", "node 'x' of the graph is there twice"),
        ((), "y", "output must be a node of the graph, got 'y'"),
    ],
)
def test_a_graph_that_is_none(nodes, output, message):
    with pytest.raises(ValueError, match=message):
        Graph({"x": 2}, nodes, output)


def test_a_wrong_size_is_told():
    with pytest.raises(ValueError, match="x must have 4 numbers, the inputs of the graph, got 3"):
        through_graph(CHAIN, Gaussian(np.zeros(3)))


# ---------------------------------------------------------------- behind propagate


@pytest.fixture
def sent(monkeypatch):
    """propagate, of a Program as an adapter would make it."""

    def send(program, x, **options):
        monkeypatch.setattr(propagation, "_read", lambda *_: program)
        return propagate(program.function, x, **options)

    return send


def test_auto_of_a_graph(sent, monkeypatch):
    narrow, wide = residual(), residual(d=30, width=40)
    one = Program(lambda rows: np.tanh(rows), graph=Graph({"x": 4}, (Node("y", Elementwise("tanh"), ("x",)),), "y"))
    x = Gaussian(np.random.default_rng(1).normal(size=30), var=0.04)
    assert sent(one, X).closure == "gaussian"
    assert sent(one, X).reliability == 0.0
    assert sent(narrow, X).closure == "sobol"
    assert sent(narrow, Gaussian(X.mean)).closure == "gaussian"
    y = sent(wide, x, closure="gaussian")
    assert 0.0 < y.reliability < 0.05
    np.testing.assert_allclose(y.cov, through_graph(wide.graph, x).cov)
    assert np.isnan(sent(wide, x, closure="gaussian", check=False).reliability)
    other = Program(lambda rows: 1.1 * wide.function(rows), graph=wide.graph)  # which the graph is not
    assert sent(other, x, closure="gaussian").reliability > 0.05
    monkeypatch.setattr(graphs, "LARGEST", 5)
    assert sent(one, X).closure == "sobol"
    with pytest.raises(graphs.TooLargeError):
        sent(wide, x, closure="gaussian")


@pytest.mark.parametrize("options", [{"closure": "third-order"}, {"method": "exact"}, {"return_layers": True}])
def test_what_goes_with_a_chain_only(sent, options):
    with pytest.raises(ValueError, match="goes with a chain of layers, but network is a graph"):
        sent(residual(), X, **options)


def test_more_numbers_than_sobols_points_have_coordinates():
    x = Gaussian(np.zeros(22_000), var=np.linspace(0.5, 1.5, 22_000))
    y = propagate(lambda rows: rows.sum(axis=1, keepdims=True) / np.sqrt(22_000.0), x, n_samples=128)
    np.testing.assert_allclose(y.std, 1.0, rtol=0.3)


# ---------------------------------------------------------------- several inputs, and their shapes


def test_several_inputs_are_independent_or_one_gaussian():
    def function(a, b):
        return np.concatenate([a.sum(axis=(1, 2))[:, None], b[:, :1] * 2.0], axis=1)

    a, b = Gaussian(np.arange(6.0), var=0.1), Gaussian([1.0, 2.0], cov=[[0.3, 0.1], [0.1, 0.2]])
    y = propagate(function, (a, b), shape=[(2, 3), None])
    np.testing.assert_allclose(y.mean, [15.0, 2.0], atol=1e-3)
    np.testing.assert_allclose(y.cov, np.diag([0.6, 1.2]), atol=0.02)
    cov = np.eye(8)
    cov[0, 6] = cov[6, 0] = 0.5
    y = propagate(function, Gaussian(np.zeros(8), cov=cov), shape=[(2, 3), (2,)])
    np.testing.assert_allclose(y.cov, [[6.0, 1.0], [1.0, 4.0]], atol=0.1)


@pytest.mark.parametrize(
    ("x", "shape", "message"),
    [
        (Gaussian(np.zeros(6)), (2, 2), r"shape must hold the 6 numbers of its input, got \(2, 2\) with 4"),
        (Gaussian(np.zeros(6)), (2, 0), "shape must be the shape of one input without its batch"),
        (Gaussian(np.zeros(6)), [(2,), (3,)], "shape must hold the 6 numbers of x"),
        ((Gaussian(np.zeros(6)), Gaussian(np.zeros(2))), [(6,)], "one shape for each of 2 inputs"),
        ((Gaussian(np.zeros(6)), Gaussian(np.zeros((3, 2)))), None, "inputs of one batch"),
        ((), None, "empty sequence"),
    ],
)
def test_shapes_that_do_not_fit(x, shape, message):
    with pytest.raises(ValueError, match=message):
        propagate(lambda *rows: rows[0], x, shape=shape)
    with pytest.raises(TypeError, match=r"x\[1\] must be a pesn.Gaussian, got ndarray"):
        propagate(lambda *rows: rows[0], (Gaussian([0.0]), np.zeros(2)))


def test_rows_of_numbers_are_what_layers_take():
    with pytest.raises(ValueError, match="shape and several inputs go with a torch module, an ONNX file or a function, got list"):
        propagate([Dense(np.eye(4))], Gaussian(np.zeros(4)), shape=(2, 2))
