"""Claim: exponentials and matrix products have the exact moments of Gaussians, powers and logarithms those of log-normals; and
their lines are what is explained of them."""

import numpy as np
import pytest

from pesn import Gaussian
from pesn.networks.graph import Affine, Graph, Node, through_graph
from pesn.networks.operations import Exp, MatrixProduct, PositiveLog, PositivePower

X = Gaussian([0.3, -0.2, 0.1, 0.4], cov=0.05 * np.eye(4) + 0.03)
N = 2_000_000


def beside(operation, inputs=("x",), before=()):
    """The operation's output beside the input, so that the covariance between them is seen."""
    nodes = (*before, Node("y", operation, inputs), Node("out", Affine(lambda y, x: np.hstack([y, x])), ("y", "x")))
    return Graph({"x": 4}, nodes, "out")


def test_exponentials_are_exact():
    y = through_graph(beside(Exp()), X)
    rows = X.sample(N, rng=0)
    out = np.hstack([np.exp(rows), rows])
    np.testing.assert_allclose(y.mean, out.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(y.cov, np.cov(out.T), atol=2e-3)


@pytest.mark.parametrize("power", [-1.0, -0.5, 0.5, 2.0])
def test_powers_of_log_normals_are_exact(power):
    """Also their covariance with what is not their own logarithm: a power of s is explained by s as far as a line goes."""
    log = Gaussian(X.mean, cov=X.cov)
    s = np.exp(log.sample(N, rng=0))
    given = Gaussian(s.mean(axis=0), cov=np.cov(s.T))
    y = through_graph(Graph({"x": 4}, (Node("y", PositivePower(power), ("x",)),), "y"), given)
    np.testing.assert_allclose(y.mean, (s**power).mean(axis=0), rtol=3e-3)
    np.testing.assert_allclose(y.cov, np.cov((s**power).T), rtol=0.02)
    joint = through_graph(beside(PositivePower(power)), given).cov
    own = [np.cov(s[:, i] ** power, s[:, i])[0, 1] for i in range(4)]
    np.testing.assert_allclose(np.diagonal(joint[:4, 4:]), own, rtol=0.02)


def test_logarithms_of_log_normals_are_exact():
    s = np.exp(X.sample(N, rng=0))
    y = through_graph(Graph({"x": 4}, (Node("y", PositiveLog(), ("x",)),), "y"), Gaussian(s.mean(axis=0), cov=np.cov(s.T)))
    np.testing.assert_allclose(y.mean, X.mean, atol=3e-3)
    np.testing.assert_allclose(y.cov, X.cov, atol=2e-3)


@pytest.mark.parametrize("operation", [PositivePower(0.5), PositiveLog()])
def test_what_is_not_positive_is_refused(operation):
    with pytest.raises(ValueError, match=r"node 'y': it needs positive numbers, got a mean of -0\.2"):
        through_graph(beside(operation), X)


def test_without_variance_they_are_the_functions():
    x = Gaussian([0.3, 0.2, 0.1, 0.4])
    for operation in (Exp(), PositivePower(-0.5), PositiveLog()):
        y = through_graph(beside(operation), x)
        np.testing.assert_allclose(y.mean[:4], operation(x.mean[None])[0], rtol=1e-12)
        assert not y.cov.any()


def test_matrix_products_are_exact():
    split = (Node("a", Affine(lambda x: x), ("x",)), Node("b", Affine(lambda x: 2.0 * x[:, ::-1] + 0.5), ("x",)))
    y = through_graph(beside(MatrixProduct(1, 2, 2, 2), ("a", "b"), split), X)
    rows = X.sample(N, rng=0)
    product = (rows.reshape(-1, 2, 2) @ (2.0 * rows[:, ::-1] + 0.5).reshape(-1, 2, 2)).reshape(-1, 4)
    out = np.hstack([product, rows])
    np.testing.assert_allclose(y.mean, out.mean(axis=0), atol=3e-3)
    np.testing.assert_allclose(y.cov, np.cov(out.T), atol=6e-3)


def test_a_batch_of_matrices_is_each_of_them():
    halves = [
        Node(f"{name}{k}", Affine(lambda x, k=k, factor=factor: factor * x[:, 2 * k : 2 * k + 2]), ("x",))
        for name, factor in (("a", 1.0), ("b", -3.0))
        for k in (0, 1)
    ]
    one = [Node(f"p{k}", MatrixProduct(1, 1, 2, 1), (f"a{k}", f"b{k}")) for k in (0, 1)]
    apart = Graph({"x": 4}, (*halves, *one, Node("y", Affine(lambda p, q: np.hstack([p, q])), ("p0", "p1"))), "y")
    whole = (Node("a", Affine(lambda x: x), ("x",)), Node("b", Affine(lambda x: -3.0 * x), ("x",)))
    together = through_graph(Graph({"x": 4}, (*whole, Node("y", MatrixProduct(2, 1, 2, 1), ("a", "b"))), "y"), X)
    each = through_graph(apart, X)
    np.testing.assert_allclose(together.mean, each.mean, rtol=1e-12)
    np.testing.assert_allclose(together.var, each.var, rtol=1e-12)
