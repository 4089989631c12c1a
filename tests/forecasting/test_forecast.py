"""A forecast is one Gaussian over time and columns: moments, samples, frames and rows agree; invalid arguments are refused."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pesn
from pesn.forecasting.forecast import Forecast

NAMES = ("x", "theta")


def draw(h=5, d=2, seed=0, rank=None, scale=1.0, **options):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(h * d, rank or h * d)) * np.tile(np.broadcast_to(scale, d), h)[:, None]
    joint = root @ root.T
    var = np.diag(joint).reshape(h, d)
    return Forecast(rng.normal(size=(h, d)), joint, {"model": 0.25 * var, "noise": 0.75 * var}, **options)


def certain(mean, **options):
    mean = np.asarray(mean, float)
    return Forecast(mean, np.zeros((mean.size, mean.size)), {"model": np.zeros(mean.shape)}, **options)


def with_joint(joint, mean=None, parts=None):
    """Return a forecast of one column with a joint covariance."""
    joint = np.asarray(joint, float)
    mean = np.zeros((len(joint), 1)) if mean is None else mean
    return Forecast(mean, joint, {"all": np.maximum(np.diag(joint), 0.0)[:, None]} if parts is None else parts)


# ---------------------------------------------------------------- identities


@pytest.mark.parametrize(("h", "d"), [(1, 1), (1, 3), (4, 1), (5, 2)])
def test_shapes_and_covariances_agree(h, d):
    f = draw(h, d)
    assert (len(f), f.horizon, len(f.names)) == (h, h, d)
    assert f.mean.shape == f.std.shape == f.var.shape == (h, d)
    assert (f.cov.shape, f.joint.shape) == ((h, d, d), (h * d, h * d))
    np.testing.assert_array_equal(f.var.ravel(), np.diag(f.joint))
    np.testing.assert_allclose(f.std**2, f.var, rtol=1e-15)
    for k in range(h):
        np.testing.assert_array_equal(f.cov[k], f.joint[k * d : (k + 1) * d, k * d : (k + 1) * d])
        np.testing.assert_array_equal(np.diag(f.cov[k]), f.var[k])
    np.testing.assert_array_equal(f.joint, f.joint.T)
    np.testing.assert_allclose(sum(f.variance_parts.values()), f.var, rtol=1e-12)


def test_a_row_is_a_gaussian():
    f = draw()
    rows = list(f)
    assert len(rows) == 5
    for k, row in enumerate(rows):
        assert isinstance(row, pesn.Gaussian)
        np.testing.assert_array_equal(row.mean, f.mean[k])
        np.testing.assert_allclose(row.cov, f.cov[k], rtol=1e-12)
    np.testing.assert_array_equal(f[-1].mean, f.mean[-1])
    np.testing.assert_array_equal(f[np.int64(1)].mean, f.mean[1])
    with pytest.raises(IndexError, match="step must lie in 0 … 4, got 5"):
        f[5]
    for wrong in (1.0, True, slice(2), "x"):
        with pytest.raises(TypeError, match="step must be a whole number"):
            f[wrong]
    # sampling is reproducible
    np.testing.assert_array_equal(f.sample(3, rng=7), f.sample(3, rng=np.random.default_rng(7)))
    assert f.sample(0).shape == (0, 5, 2)
    assert not np.array_equal(f.sample(3), f.sample(3))
    with pytest.raises(ValueError, match="n must not be negative, got -1"):
        f.sample(-1)
    with pytest.raises(TypeError, match=r"n must be a whole number of draws, got 1\.5"):
        f.sample(1.5)


# ---------------------------------------------------------------- samples


@pytest.mark.parametrize("rank", [None, 3])
def test_samples_have_the_joint_covariance(rank):
    f = draw(3, 2, rank=rank, scale=(1.0, 1e10))  # variances 1e20 apart
    n = 400_000
    samples = f.sample(n, rng=1)
    assert samples.shape == (n, 3, 2)
    z = ((samples - f.mean) / f.std).reshape(n, -1)
    s = f.std.ravel()
    correlation = f.joint / s[:, None] / s
    # A mean of n products of two unit normals has a deviation of √((1 + ρ²)/n) ≤ √(2/n); six of them, of 27 numbers.
    np.testing.assert_allclose(z.T @ z / n, correlation, atol=6.0 * np.sqrt(2.0 / n))
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=6.0 / np.sqrt(n))


def test_exact_relations_hold_in_every_sample():
    # y1 is in other units and twice y0, up to a sign: correlations of ±1, and a joint of rank h.
    h = 6
    walk = np.minimum.outer(np.arange(1.0, h + 1), np.arange(1.0, h + 1))
    joint = np.kron(walk, np.outer([1.0, -2e8], [1.0, -2e8]))
    f = Forecast(np.zeros((h, 2)), joint, {"all": np.diag(joint).reshape(h, 2)})
    y = f.sample(1000, rng=0)
    np.testing.assert_allclose(y[..., 1], -2e8 * y[..., 0], atol=2e8 * 1e-6 * np.sqrt(h))
    # Increments of a random walk are independent of where it stands.
    steps = np.diff(y[..., 0], axis=1)
    assert abs(np.corrcoef(steps[:, 3], y[:, 3, 0])[0, 1]) < 6.0 / np.sqrt(1000)


def test_samples_agree_with_sequential_conditional_draws():
    # One conditional draw after the other, from the textbook: the same law as one joint draw, by a test on a functional.
    f = draw(4, 1, seed=3)
    rng, n = np.random.default_rng(0), 20_000
    slow = np.zeros((n, 4))
    for k in range(4):
        gain = np.linalg.solve(f.joint[:k, :k], f.joint[:k, k])
        left = f.joint[k, k] - f.joint[:k, k] @ gain
        slow[:, k] = f.mean[k, 0] + (slow[:, :k] - f.mean[:k, 0]) @ gain + np.sqrt(left) * rng.normal(size=n)
    fast = f.sample(n, rng=1)[:, :, 0]
    assert stats.ks_2samp(fast.max(axis=1), slow.max(axis=1)).pvalue > 1e-4
    assert stats.ks_2samp(np.diff(fast).min(axis=1), np.diff(slow).min(axis=1)).pvalue > 1e-4


def test_certain_entries_are_exact_in_samples():
    joint = np.zeros((4, 4))
    joint[1, 1] = joint[3, 3] = 1.0
    joint[1, 3] = joint[3, 1] = 0.5
    f = Forecast([[0.1, 0.2], [0.3, 0.4]], joint, {"all": np.diag(joint).reshape(2, 2)})
    samples = f.sample(100, rng=0)
    assert (samples[:, :, 0] == f.mean[:, 0]).all()
    assert (samples[:, :, 1] != f.mean[:, 1]).all()
    assert (certain([[1.0], [2.0]]).sample(3, rng=0) == [[1.0], [2.0]]).all()


def test_rounding_errors_are_tolerated():
    # A variance of -1e-13 beside 1 is 0, and what is covariant with it is certain; parts keep up.
    f = with_joint([[-1e-13, 1e-9], [1e-9, 1.0]], parts={"all": np.array([[-1e-13], [1.0]])})
    np.testing.assert_array_equal(f.joint, [[0.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(f.variance_parts["all"], [[0.0], [1.0]])
    assert (f.sample(10, rng=0)[:, 0] == 0.0).all()
    # An eigenvalue of -1e-9: samples keep the variances exactly.
    f = with_joint([[1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]])
    y = f.sample(1000, rng=0)
    np.testing.assert_allclose(y[:, 0], y[:, 1], atol=1e-3)
    np.testing.assert_allclose(f[1].var, 1.0, rtol=1e-12)
    # Three correlations of -1/2 - 1e-5 leave an eigenvalue of -2e-5; it goes, and the variances stay.
    f = Forecast(np.zeros((1, 3)), 1.50001 * np.eye(3) - 0.50001, {"all": np.ones((1, 3))})
    np.testing.assert_allclose(f[0].var, 1.0, rtol=1e-12)
    np.testing.assert_allclose(f[0].cov, f.cov[0], atol=2e-5)
    # An asymmetry of one bit is averaged away.
    f = with_joint([[1.0, 0.3], [np.nextafter(0.3, 1.0), 1.0]])
    assert f.joint[0, 1] == f.joint[1, 0]


def test_variances_may_differ_by_twenty_orders_of_magnitude():
    # y_k = 1e5 y_{k-1}: the first row is 1e-10 of the last, and as exact.
    gains = 1e5 ** np.arange(5.0)
    f = with_joint(1e-20 * np.outer(gains, gains))
    y = f.sample(200, rng=0)[:, :, 0]
    np.testing.assert_allclose(y / gains, np.tile(y[:, :1], 5), rtol=1e-5, atol=1e-17)
    np.testing.assert_allclose(f.std[:, 0], 1e-10 * gains, rtol=1e-12)


# ---------------------------------------------------------------- frames, names, words


def test_to_frame_has_means_standard_deviations_and_intervals():
    f = draw(names=NAMES)
    frame = f.to_frame(level=0.9)
    assert list(frame.columns) == [
        "x", "x_std", "x_lower", "x_upper", "theta", "theta_std", "theta_lower", "theta_upper",
    ]  # fmt: skip
    lower, upper = f.interval(0.9)
    for i, name in enumerate(NAMES):
        np.testing.assert_array_equal(frame[name], f.mean[:, i])
        np.testing.assert_array_equal(frame[f"{name}_std"], f.std[:, i])
        np.testing.assert_array_equal(frame[f"{name}_lower"], lower[:, i])
        np.testing.assert_array_equal(frame[f"{name}_upper"], upper[:, i])
    assert frame.index.name == "step"
    assert list(frame.index) == [1, 2, 3, 4, 5] == list(f.index)
    dates = pd.date_range("2024-01-01", periods=5, freq="D", tz="Europe/Paris", name="day")
    pd.testing.assert_index_equal(draw(index=dates).to_frame().index, dates)
    pd.testing.assert_index_equal(draw(index=pd.Series(dates)).to_frame().index, pd.Index(dates.tolist(), name="day"))
    assert list(draw(index=list("abcde")).to_frame().index) == list("abcde")
    with pytest.raises(ValueError, match="names must differ from each other with _std, _lower, _upper added, got"):
        draw(names=("x", "x_std")).to_frame()
    # to frame of several levels
    frame = f.to_frame(level=(0.8, 0.975))
    endings = ["", "_std", "_lower_80", "_upper_80", "_lower_97.5", "_upper_97.5"]
    assert list(frame.columns) == [name + end for name in NAMES for end in endings]
    one = f.to_frame(0.975)
    for end in ("lower", "upper"):
        np.testing.assert_array_equal(frame[f"theta_{end}_97.5"], one[f"theta_{end}"])
    assert list(f.to_frame(np.array([0.8])).columns) == [name + end for name in NAMES for end in endings[:4]]
    for level, words in ((["a"], ""), ([True], ""), ((0.8, 95), ""), ((80, 95), r" lie in \(0, 1\), got 80")):
        with pytest.raises((TypeError, ValueError), match=f"level must{words}"):
            f.to_frame(level)
    with pytest.raises(ValueError, match="names must differ from each other with _std, _lower_80, _upper_80 added, got"):
        draw(names=("x", "x_lower_80")).to_frame([0.8])


def test_names_repr_and_html():
    assert draw().names == ("y0", "y1")
    named = draw(20, 4, names=("x", "theta", "v", "omega"))
    assert repr(named) == "Forecast of 20 steps, 4 columns (x, theta, v, omega), parts model, noise"
    assert repr(certain([[0.0]])) == "Forecast of 1 step, 1 column (y0), part model"
    assert repr(certain(np.zeros((2, 30)))) == "Forecast of 2 steps, 30 columns (y0, y1, y2, y3, y4, y5, …, y29), part model"
    days = pd.date_range("2024-01-01", periods=5)
    assert repr(draw(index=days)) == "Forecast of 5 steps, 2024-01-01 … 2024-01-05, 2 columns (y0, y1), parts model, noise"
    html = draw(2, names=("<b>", "a&b"), index=["<i>", "ok"])._repr_html_()
    assert "<b>" not in html
    assert "<i>" not in html
    assert "<th>&lt;b&gt;</th>" in html
    assert "<th>&lt;i&gt;</th>" in html
    near = Forecast([[123.456789]], [[1e-6]], {"all": [[1e-6]]})._repr_html_()  # as many digits as its interval needs
    assert all(f"<td>{text}</td>" in near for text in ("123.4568", "123.4548", "123.4587"))
    table = certain(np.arange(21.0)[:, None])._repr_html_()
    assert table.count("<tr") == 23  # a head, the name of the index, ten rows, dots, ten rows
    assert "<th>1</th>" in table
    assert "<th>11</th>" not in table


# ---------------------------------------------------------------- it does not change


def test_forecast_is_immutable():
    mean, joint, part, past = np.zeros((2, 1)), np.eye(2), np.ones((2, 1)), np.zeros((3, 1))
    f = Forecast(mean, joint, {"all": part}, history=past)
    for given in (mean, joint, part, past):
        given[0, 0] = 7.0
    assert f.mean[0, 0] == f.history[0, 0] == 0.0
    assert f.joint[0, 0] == f.variance_parts["all"][0, 0] == 1.0
    _ = f.sample(1, rng=0)
    for g in (f, copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        for name in ("mean", "std", "var", "cov", "joint", "history", "index"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(g, name)[0] = 7.0
        with pytest.raises(ValueError, match="read-only"):
            g.variance_parts["all"][0] = 7.0
        with pytest.raises(AttributeError, match="a Forecast does not change, mean cannot be set"):
            g.mean = 1.0
        np.testing.assert_array_equal(g.sample(3, rng=0), f.sample(3, rng=0))
    f.variance_parts["more"] = 1.0
    assert list(f.variance_parts) == ["all"]


def test_missing_values_in_history():
    f = certain([[0.0, 1.0]], history=[[np.nan, 1.0], [2.0, np.nan]])
    np.testing.assert_array_equal(f.history, [[np.nan, 1.0], [2.0, np.nan]])
    masked = np.ma.masked_equal([[1, -1], [2, 3]], -1)
    np.testing.assert_array_equal(certain([[0.0, 1.0]], history=masked).history, [[1.0, np.nan], [2.0, 3.0]])
    assert certain([[0.0]]).history is None


def test_heavy_modules_are_imported_late(run_python):
    code = (
        "import sys, pesn.forecasting.forecast as f; f.Forecast([[0.0]], [[1.0]], {'all': [[1.0]]}, index=[1]).sample(1)\n"
        "assert not {'pandas', 'matplotlib', 'numba', 'sklearn', 'torch'} & set(sys.modules)"
    )
    run_python(code)


# ---------------------------------------------------------------- what is refused

ONE = {"all": np.ones((2, 1))}
ZERO = np.zeros((2, 1))


@pytest.mark.parametrize(("arguments", "message"), [
    ((np.zeros(2), np.eye(2), ONE), r"mean must have shape \(horizon, d\), with a row and a column at least, got \(2,\)"),
    (([[np.nan], [0.0]], np.eye(2), ONE), r"mean must be finite, got nan at index \(0, 0\)"),
    ((ZERO, np.eye(3), ONE), r"joint must have shape \(2, 2\), as mean has 2 entries, got \(3, 3\)"),
    ((ZERO, [[1.0, 0.5], [0.4, 1.0]], ONE), r"joint must be symmetric, got 0\.5 at \(0, 1\) and 0\.4 at \(1, 0\)"),
    ((ZERO, [[-1e-9, 0.0], [0.0, 1.0]], ONE), "joint must have no negative variance, got -1e-09 at row 0 of 'y0'"),
    ((ZERO, [[1.0, 1.1], [1.1, 1.0]], ONE), r"joint must be positive semi-definite, got a covariance of 1\.1 at \(0, 1\)"),
    ((ZERO, np.eye(2), {}), "parts must name at least one part of the variance, got none"),
    ((ZERO, np.eye(2), {"a": [[2.0], [2.0]], "b": [[-1.0], [-1.0]]}), r"parts\['b'\] must not be negative, got -1\.0 at"),
    ((ZERO, np.eye(2), {"a": [[1.0], [1.00001]]}), r"parts must sum to the variance, 1\.0 at row 1 of 'y0', got 1\.00001"),
    ((ZERO, np.eye(2), ONE, None, [1, 2, 3]), r"index must have 2 labels, one for each row of mean, got shape \(3,\)"),
    ((ZERO, np.eye(2), ONE, None, None, [[np.inf]]), "history must be NaN or lie within ±1e\\+100, got inf in row 0, column 0"),
    ((ZERO.T, np.eye(2), {"a": [[1.0, 1.0]]}, ["x", "x"]), r"names must be 2 different strings, .* got \['x', 'x'\]"),
    ((["a", "b"], np.eye(2), ONE), "mean must be real numbers"),
    ((ZERO, np.eye(2), np.ones((2, 1))), "parts must map names to variances, got ndarray"),
    ((ZERO, np.eye(2), ONE, [3]), r"names must be a sequence of 1 string, got \[3\]"),
])  # fmt: skip
def test_invalid_forecasts_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Forecast(*arguments)


def test_tolerances_are_those_of_each_column():
    # -1e-9 would be rounding beside 1e20, but not beside the 1e-8 of the same column.
    joint = np.diag([-1e-9, 1e20, 1e-8, 1e20])
    with pytest.raises(ValueError, match="joint must have no negative variance, got -1e-09 at row 0 of 'small'"):
        Forecast(np.zeros((2, 2)), joint, {"all": np.abs(np.diag(joint)).reshape(2, 2)}, names=["small", "large"])


def test_indefinite_correlations_are_refused_when_sampling():
    # Three numbers cannot all be anticorrelated by 0.9: the smallest eigenvalue is 1 - 2·0.9.
    f = with_joint(1.9 * np.eye(3) - 0.9)
    with pytest.raises(ValueError, match=r"joint must be positive semi-definite, got an eigenvalue of -0\.8 in its correlations"):
        f.sample(1)
    assert f.interval(0.5)[0].shape == (3, 1)
