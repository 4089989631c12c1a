"""Each intrinsic gives the numbers of its plain twin, compiled by numba."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from pesn._support import intrinsics


def compiled(function, count):
    """Return a compiled function of so many arguments that calls an intrinsic or a twin."""
    names = ", ".join(f"a{i}" for i in range(count))
    scope = {"__name__": __name__, "function": function if type(function).__name__ != "function" else njit(function)}
    exec(f"def caller({names}):\n    return function({names})", scope)
    return njit(scope["caller"])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def sparse_row(rng, n_units, count):
    columns = rng.permutation(n_units)[:count]
    return columns, rng.normal(size=count)


def both(factory, *settings, count):
    """Return the compiled intrinsic and its compiled twin."""
    return compiled(factory(*settings), count), compiled(factory(*settings, plain=True), count)


@pytest.mark.parametrize("count", [2, 9])
def test_power_series(rng, count):
    intrinsic, twin = both(intrinsics.power_series, *rng.normal(size=count), count=1)
    for x in (-1.7, 0.0, 0.3, 1e-300):
        assert intrinsic(x) == pytest.approx(twin(x), rel=1e-12)


@pytest.mark.parametrize("slopes", [False, True])
@pytest.mark.parametrize(("rows", "columns", "quantities", "single"), [(5, 8, 2, False), (7, 4, 1, False), (5, 8, 2, True)])
def test_polynomial_of_a_cell(rng, rows, columns, quantities, single, slopes):
    real = np.float32 if single else np.float64
    table = rng.normal(size=3 * rows * columns * quantities).astype(real)
    intrinsic, twin = both(intrinsics.polynomial, rows, columns, quantities, single, slopes, count=4)
    for x, y in ((0.4, -0.9), (0.0, 1.0), (-1.0, 0.0)):
        arguments = table, rows * columns * quantities, real(x), real(y)
        np.testing.assert_allclose(intrinsic(*arguments), twin(*arguments), rtol=1e-4 if single else 1e-12)


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("n", [1, 16])
def test_one_row_of_a_sparse_product(rng, n, adds):
    functions = both(intrinsics.sparse_row, n, adds, count=8)
    x = rng.normal(size=(9, n + 3))
    for count in (0, 1, 2, 5):
        columns, weights = sparse_row(rng, 9, count + 2)
        outs = np.full((2, 2, n + 3), 7.0)
        for function, out in zip(functions, outs, strict=True):
            function(columns.astype(np.uint32), weights, np.uint32(1), np.uint32(1 + count), x, 2, out, 1)
        np.testing.assert_allclose(*outs, rtol=1e-12, atol=1e-14)
        assert (outs[:, 0] == 7.0).all()  # no other row is touched
        if not count:
            assert (outs[:, 1, 2 : 2 + n] == (7.0 if adds else 0.0)).all()


@pytest.mark.parametrize("columns_dtype", [np.uint16, np.uint32])
@pytest.mark.parametrize("n_values", [1, 2])
def test_four_packed_rows(rng, n_values, columns_dtype):
    functions = both(intrinsics.add_packed_rows, n_values, count=7)
    h = rng.normal(size=(30, 2) if n_values == 2 else 30)
    for slots in (0, 1, 2, 5):
        weights, columns = rng.normal(size=4 * (slots + 1)), rng.integers(0, 30, 4 * (slots + 1)).astype(columns_dtype)
        start = rng.normal(size=(n_values, 9))
        outs = np.stack([start, start])
        for function, out in zip(functions, outs, strict=True):
            function(weights, columns, 4, 4 + 4 * slots, h, out, 3)
        np.testing.assert_allclose(*outs, rtol=1e-12, atol=1e-14)
