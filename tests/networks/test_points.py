"""Tests of Sobol points and of functions as networks: points follow the input distribution at any scale. A function of rows may
return any shape and array type; invalid functions raise errors with a remedy."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

import pesn
from pesn.networks.points import PointMoments, StandardPoints, scale_points, standard_points
from pesn.networks.program import Program

CORRELATIONS = np.array([[1.0, 0.9, 0.5, 0.3], [0.9, 1.0, 0.6, 0.2], [0.5, 0.6, 1.0, -0.4], [0.3, 0.2, -0.4, 1.0]])


def itself(rows):
    return rows


SCALES = {"alike": (1.0, 2.0, 0.5, 1.0), "1e16 apart": (1e-8, 1.0, 1e8, 1e3), "1e250 apart": (1e-150, 1e-20, 1e40, 1e100)}


@pytest.mark.parametrize("units", SCALES)
def test_points_are_accurate_for_inputs_of_very_different_scales(units):
    scale = SCALES[units]
    x = pesn.Gaussian(np.zeros(4), cov=CORRELATIONS * np.outer(scale, scale))
    found = pesn.propagate(itself, x, n_samples=4096)
    np.testing.assert_allclose(found.cov / np.outer(scale, scale), CORRELATIONS, atol=0.01)


@pytest.mark.parametrize("dim", [3, 300], ids=["Sobol", "and random coordinates"])
def test_points_do_not_depend_on_blocks(dim):
    whole = StandardPoints(dim, np.random.default_rng(0)).block(0, 16)
    points = StandardPoints(dim, np.random.default_rng(0))
    for start, stop in ((0, 4), (4, 16), (8, 16), (0, 8)):  # also backward
        np.testing.assert_array_equal(points.block(start, stop), whole[:, start:stop])
    assert len(np.unique(whole[:, :, -1])) == whole[:, :, -1].size  # other ones in each scramble


def test_error_estimates_of_many_inputs_hold_for_95_percent():
    """The error of random points falls more slowly than that of Sobol points: by half the square if they are doubled."""
    weights, inside = np.random.default_rng(3).normal(size=(300, 200)), []
    x = pesn.Gaussian(np.zeros((1, 300)), var=np.ones((1, 300)))
    for seed in range(8):
        points = PointMoments(Program(lambda rows: rows @ weights), x, seed, full=False)
        points.extend(np.array([0]), 512)
        found = points.moments()
        inside.append(np.abs(np.sqrt(found.spread) / np.linalg.norm(weights, axis=0) - 1.0) <= found.error)
    assert np.mean(inside) > 0.94


def test_certain_inputs_have_no_variance():
    cov = np.zeros((4, 4))
    cov[np.ix_([0, 2, 3], [0, 2, 3])] = CORRELATIONS[np.ix_([0, 2, 3], [0, 2, 3])]
    x = pesn.Gaussian([0.1, 3.0, 0.2, 0.3], cov=cov)
    (points,) = scale_points(x, standard_points(4, 64, np.random.default_rng(0)))
    assert (points[:, 1] == 3.0).all()  # e.g. a categorical input


def test_constant_function_has_zero_std_and_error():
    found = pesn.propagate(lambda rows: np.full(len(rows), 0.1), pesn.Gaussian([1.0], var=1.0))
    assert (found.mean.item(), found.std.item(), found.error.item()) == (0.1, 0.0, 0.0)


@pytest.mark.parametrize(
    ("function", "mean", "var"),
    [(itself, np.float32([1e6]), np.float32(1e-4)), (itself, [1.0], 1e-300), (lambda rows: rows + 1.0, [0.0], 1e-40)],
    ids=["float32", "float64", "of outputs"],
)
def test_variance_below_rounding_has_error_one(function, mean, var):
    found = pesn.propagate(function, pesn.Gaussian(mean, var=var))
    assert (found.error, len(found.samples)) == (1.0, 1024)  # more points would not help
    assert pesn.propagate(function, pesn.Gaussian(mean)).error == 0.0  # exact for certain inputs


@pytest.mark.filterwarnings("error")
def test_overflow_of_the_variance_raises():
    with pytest.raises(ValueError, match=r"network must give numbers whose variance is finite, got numbers up to \d.*e\+200"):
        pesn.propagate(lambda rows: 1e200 * rows, pesn.Gaussian([1.0], var=1.0))


@pytest.mark.parametrize("closure", ["auto", "gaussian", "third-order", "sobol"])
def test_empty_batch_raises(closure):
    layers = [pesn.Dense(np.ones((3, 2)), None, "tanh"), pesn.Dense(np.ones((1, 3)), None, "tanh")]
    for network in (layers, itself):
        with pytest.raises(ValueError, match=r"x must have a row, .*got a mean of shape \(0, 2\)"):
            pesn.propagate(network, pesn.Gaussian(np.zeros((0, 2)), var=1.0), closure=closure)


@pytest.mark.parametrize("rng", [-1, 1.5, "a", np.random.RandomState(0)], ids=["negative", "a fraction", "a word", "RandomState"])
def test_invalid_seed_raises(rng):
    with pytest.raises((TypeError, ValueError), match=r"rng must be None, a seed \(0 or more\) or a NumPy generator, got "):
        pesn.propagate(itself, pesn.Gaussian([1.0], var=1.0), rng=rng)


# ---------------------------------------------------------------- functions of rows

X = pesn.Gaussian([1.0, 2.0], cov=[[0.04, 0.01], [0.01, 0.09]])


def both(rows):
    return np.stack([rows[:, 0] * rows[:, 1], rows.sum(axis=1)], axis=1)


FORMS = {
    "frame": lambda rows: pd.DataFrame(both(rows), columns=["a", "b"]),
    "float32": lambda rows: both(rows).astype(np.float32),
    "sparse": lambda rows: sparse.csr_array(both(rows)),
    "masked, nowhere": lambda rows: np.ma.masked_invalid(both(rows)),
    "more axes": lambda rows: both(rows)[:, None, :],
    "row by row": lambda rows: [(a * b, a + b) for a, b in rows],
    "bound": type("Model", (), {"__call__": lambda self, rows: both(rows)})(),
}


@pytest.mark.parametrize("form", FORMS)
def test_functions_may_return_many_types(form):
    found, expected = pesn.propagate(FORMS[form], X), pesn.propagate(both, X)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.cov, expected.cov, rtol=1e-5)
    assert found.closure == "sobol"


def test_functions_may_return_one_number_per_row():
    for function in (lambda rows: rows[:, 0], lambda rows: pd.Series(rows[:, 0]), lambda rows: list(rows[:, 0])):
        assert pesn.propagate(function, X).std == pytest.approx([0.2], rel=0.01)
    share = pesn.propagate(lambda rows: rows[:, 0] > 1.2, X)  # probability of an event
    assert share.mean == pytest.approx([1.0 - 0.8413], abs=0.01)
    count = pesn.propagate(lambda rows: np.floor(rows[:, 0]).astype(int), X)
    assert count.mean == pytest.approx([0.5], abs=0.01)


def test_functions_may_modify_their_argument():
    def doubled(rows):
        rows *= 2.0
        return rows

    assert pesn.propagate(doubled, X).std == pytest.approx([0.4, 0.6], rel=0.02)


def test_functions_may_return_tensors():
    torch = pytest.importorskip("torch")
    weight = torch.tensor([[1.0], [2.0]], dtype=torch.float64, requires_grad=True)
    found = pesn.propagate(lambda rows: torch.as_tensor(rows) @ weight, X)
    assert found.var == pytest.approx([0.04 + 4 * 0.01 + 4 * 0.09], rel=0.03)


def test_random_function_adds_its_variance():
    noise = np.random.default_rng(0)
    found = pesn.propagate(lambda rows: rows[:, :1] + noise.normal(size=(len(rows), 1)), X)
    assert found.var == pytest.approx([1.04], rel=0.1)  # includes the noise of the simulator


WRONG = {
    "of one row": (lambda row: row[0] * row[1], ValueError, r"lambda.* gave shape \(2,\) for rows of shape \(256, 2\)"),
    "a scalar": (lambda rows: rows.sum(), ValueError, r"a function of rows, .*np.array\(\[f\(row\).*gave one number"),
    "unequal rows": (lambda rows: [[0.0] * (1 + k % 2) for k in range(len(rows))], ValueError, "gave rows of unequal length"),
    "nothing": (lambda rows: None, TypeError, "network must give real numbers, got None from .*lambda.* for rows of shape"),
    "words": (lambda rows: ["a"] * len(rows), TypeError, "network must give real numbers, got a list of <U1"),
    "scaled": (lambda rows: rows / np.linalg.norm(rows), ValueError, "gives a row other numbers among 256 rows than among 2"),
    "centred": (lambda rows: rows - rows.mean(axis=0), ValueError, "a mean or a norm over all?"),
    "masked": (lambda rows: np.ma.masked_less(rows, 2.0), ValueError, "NaN or infinity from .*lambda"),
    "a class": (Ridge, TypeError, "network must be a function or an instance, got the class Ridge"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_functions_that_are_not_rowwise_raise(fault):
    function, error, message = WRONG[fault]
    with pytest.raises(error, match=message):
        pesn.propagate(function, X)


def test_errors_of_the_function_get_a_note():
    def of_one_row(row):
        return math.sin(row[0])

    with pytest.raises(TypeError, match=r"only|convert") as raised:  # error of the function
        pesn.propagate(of_one_row, X)
    (note,) = raised.value.__notes__
    assert "of_one_row, was given rows of shape (256, 2): network must be a function of rows" in note
    assert "lambda rows: np.array([f(row) for row in rows])" in note
    fixed = pesn.propagate(lambda rows: np.array([of_one_row(row) for row in rows]), X)  # the remedy works
    assert fixed.mean == pytest.approx([math.sin(1.0) * math.exp(-0.02)], abs=1e-3)


def test_nonfinite_outputs_raise():
    message = r"NaN or infinity from .* for \d+ of \d+, such as \[.*clip"
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=message):
        pesn.propagate(lambda rows: np.sqrt(rows - 1.0), X)
    clipped = pesn.propagate(lambda rows: np.sqrt(np.maximum(rows - 1.0, 0.0)), X)
    assert np.isfinite(clipped.cov).all()


def test_closed_form_of_a_function_raises():
    message = "network must be a list of layers for a closed form, got the function .*both.*use closure='sobol'"
    with pytest.raises(TypeError, match=message):
        pesn.propagate(both, X, closure="gaussian")
