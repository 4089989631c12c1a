"""Claim: any function of rows is a network; whatever shape and type it gives its numbers in, and if it is none, the
error says what it was given, what it gave and what to do."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

import pesn

X = pesn.Gaussian([1.0, 2.0], cov=[[0.04, 0.01], [0.01, 0.09]])


def both(rows):
    return np.stack([rows[:, 0] * rows[:, 1], rows.sum(axis=1)], axis=1)


FORMS = {
    "lists": lambda rows: both(rows).tolist(),
    "frame": lambda rows: pd.DataFrame(both(rows), columns=["a", "b"]),
    "float32": lambda rows: both(rows).astype(np.float32),
    "sparse": lambda rows: sparse.csr_array(both(rows)),
    "masked, nowhere": lambda rows: np.ma.masked_invalid(both(rows)),
    "more axes": lambda rows: both(rows)[:, None, :],
    "tuple of rows": lambda rows: tuple(both(rows)),
    "row by row": lambda rows: [(a * b, a + b) for a, b in rows],
    "vectorised": lambda rows: np.apply_along_axis(lambda row: [row[0] * row[1], row.sum()], 1, rows),
    "bound": type("Model", (), {"__call__": lambda self, rows: both(rows)})(),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_it_gives_may_take_many_forms(form):
    found, expected = pesn.propagate(FORMS[form], X), pesn.propagate(both, X)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.cov, expected.cov, rtol=1e-5)
    assert found.closure == "sobol"


def test_one_number_a_row():
    for function in (lambda rows: rows[:, 0], lambda rows: pd.Series(rows[:, 0]), lambda rows: list(rows[:, 0])):
        assert pesn.propagate(function, X).std == pytest.approx([0.2], rel=0.01)
    share = pesn.propagate(lambda rows: rows[:, 0] > 1.2, X)  # an event: its probability
    assert share.mean == pytest.approx([1.0 - 0.8413], abs=0.01)
    count = pesn.propagate(lambda rows: np.floor(rows[:, 0]).astype(int), X)
    assert count.mean == pytest.approx([0.5], abs=0.01)


def test_it_may_write_into_its_rows():
    def doubled(rows):
        rows *= 2.0
        return rows

    assert pesn.propagate(doubled, X).std == pytest.approx([0.4, 0.6], rel=0.02)


def test_tensors():
    torch = pytest.importorskip("torch")
    weight = torch.tensor([[1.0], [2.0]], dtype=torch.float64, requires_grad=True)
    found = pesn.propagate(lambda rows: torch.as_tensor(rows) @ weight, X)
    assert found.var == pytest.approx([0.04 + 4 * 0.01 + 4 * 0.09], rel=0.03)


def test_several_inputs_and_shapes():
    images = pesn.Gaussian(np.zeros(12), var=0.1)
    found = pesn.propagate(lambda a, b: a.sum(axis=(1, 2)) + b[:, 0], (images, X), shape=[(3, 4), (2,)])
    assert found.var == pytest.approx([12 * 0.1 + 0.04], rel=0.02)


def test_a_random_function_gives_what_it_gives():
    noise = np.random.default_rng(0)
    found = pesn.propagate(lambda rows: rows[:, :1] + noise.normal(size=(len(rows), 1)), X)
    assert found.var == pytest.approx([1.04], rel=0.1)  # the simulator's own noise is in it


WRONG = {
    "of one row, a number": (
        lambda row: row[0] * row[1],
        ValueError,
        r"lambda.* gave shape \(2,\) for rows of shape \(2048, 2\)",
    ),
    "of one row, a list": (lambda row: [row[0] + row[1]], ValueError, r"gave shape \(1, 2\) for rows of shape \(2048, 2\)"),
    "a scalar": (lambda rows: rows.sum(), ValueError, r"a function of rows, .*np.array\(\[f\(row\).*gave one number"),
    "unequal rows": (lambda rows: [[0.0] * (1 + k % 2) for k in range(len(rows))], ValueError, "gave rows of unequal length"),
    "no columns": (lambda rows: rows[:, :0], ValueError, r"gave shape \(2048, 0\)"),
    "nothing": (lambda rows: None, TypeError, "network must give real numbers, got None from .*lambda.* for rows of shape"),
    "words": (lambda rows: ["a"] * len(rows), TypeError, "network must give real numbers, got a list of <U1"),
    "complex": (lambda rows: rows + 1j, TypeError, "got a ndarray of complex128"),
    "over all rows": (
        lambda rows: rows / np.linalg.norm(rows),
        ValueError,
        "gives a row other numbers among 2048 rows than among 2",
    ),
    "centred": (lambda rows: rows - rows.mean(axis=0), ValueError, "a mean or a norm over all?"),
    "along the rows": (lambda rows: np.cumsum(rows, axis=0), ValueError, "gives a row other numbers"),
    "masked": (lambda rows: np.ma.masked_less(rows, 2.0), ValueError, "NaN or infinity from .*lambda"),
    "a class": (Ridge, TypeError, "network must be a function or an instance, got the class Ridge"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_what_is_no_function_of_rows_is_said(fault):
    function, error, message = WRONG[fault]
    with pytest.raises(error, match=message):
        pesn.propagate(function, X)


def test_what_it_raises_is_raised_with_a_note():
    def of_one_row(row):
        return math.sin(row[0])

    with pytest.raises(TypeError, match=r"only|convert") as raised:  # its own error
        pesn.propagate(of_one_row, X)
    (note,) = raised.value.__notes__
    assert "of_one_row, was given rows of shape (2048, 2): network must be a function of rows" in note
    assert "lambda rows: np.array([f(row) for row in rows])" in note
    fixed = pesn.propagate(lambda rows: np.array([of_one_row(row) for row in rows]), X)  # the remedy works
    assert fixed.mean == pytest.approx([math.sin(1.0) * math.exp(-0.02)], abs=1e-3)


def test_numbers_that_are_not_finite():
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ValueError, match=r"NaN or infinity from .* for \d+ of 2048, such as \[.*clip"),
    ):
        pesn.propagate(lambda rows: np.sqrt(rows - 1.0), X)
    clipped = pesn.propagate(lambda rows: np.sqrt(np.maximum(rows - 1.0, 0.0)), X)
    assert np.isfinite(clipped.cov).all()


def test_a_closed_form_of_a_function_is_refused():
    with pytest.raises(
        TypeError, match=r"network must be a list of layers for a closed form, got the function .*both.*use closure='sobol'"
    ):
        pesn.propagate(both, X, closure="gaussian")
