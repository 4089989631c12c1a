"""Rows are read or refused by name; scales, kinematics and segments equal those of a plain loop over rows; validation rows are
never trained on.
"""

import itertools

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.forecasting import dataset
from pesn.forecasting.dataset import Scale, Segment, as_matrix, compute_statistics, find_segments, train_validation_split

NAN = np.nan


def scale_of(y, X):
    return dataset.fit_scale(compute_statistics(y), compute_statistics(X))


# ---------------------------------------------------------------- what is given


@pytest.mark.parametrize("values", [
    [[1.0], [2.0], [NAN]], [1.0, 2.0, NAN], [1.0, 2.0, None], pd.Series([1, 2, None], dtype="Int64"),
    pd.DataFrame({"a": pd.array([1.0, 2.0, None], dtype="Float64")}),
], ids=repr)  # fmt: skip
def test_as_matrix_accepts_one_column_of_any_type(values):
    found = as_matrix("y", values)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [[1.0], [2.0], [NAN]])


@pytest.mark.parametrize(("values", "kind", "words"), [
    (["1", "2"], TypeError, "y must be an array of numbers"),
    (np.array(["2020-01-01"], dtype="datetime64[D]"), TypeError, "y must be real numbers, got dates or times among them"),
    ([[1.0], [1.0, 2.0]], ValueError, "y must be rows of as many numbers each, got lists of 1 and of 2 entries"),
    ([1.0 + 2.0j], ValueError, "y must be real numbers, got complex ones"),
    (np.ma.masked_array([1.0], [True]), TypeError, "y must be an array, NaN where it is missing, got a MaskedArray"),
    (pesn.Gaussian(np.zeros(3), var=np.ones(3)), TypeError, "y must be an array, NaN where it is missing, got a Gaussian"),
    (np.zeros((2, 2, 2)), ValueError, r"got an array of shape \(2, 2, 2\); .* lengths=\[2, 2\]"),
    ([np.zeros((2, 2)), np.zeros((3, 2))], ValueError, r"got a list of 2 arrays; .* lengths=\[2, 3\]"),
    (np.zeros((0, 2)), ValueError, "y must have at least one row"),
    ([[0.0, 1.0], [-np.inf, 0.0]], ValueError, "got -inf in row 1, column 0"),
    ([[0.0, 1e101]], ValueError, r"within ±1e\+100, got 1e\+101 in row 0, column 1"),
])  # fmt: skip
def test_invalid_rows_are_refused(values, kind, words):
    with pytest.raises(kind, match=words):
        as_matrix("y", values)


# ---------------------------------------------------------------- scales


def test_scales_are_mean_and_standard_deviation_without_nan():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(50, 3)) * [1.0, 1e9, 1e-160] + [0.0, 1e12, 0.0]
    y[rng.random(y.shape) < 0.2] = NAN
    X = rng.normal(size=(50, 1))
    found = scale_of(y, X)
    for i in range(3):
        there = y[~np.isnan(y[:, i]), i]
        size = np.abs(there).max()
        np.testing.assert_allclose(found.y_mean[i], there.mean(), rtol=0, atol=1e-13 * size)
        np.testing.assert_allclose(found.y_std[i], (there / size).std() * size, rtol=1e-9)
    np.testing.assert_allclose([found.x_mean[0], found.x_std[0]], [X.mean(), X.std()])


@pytest.mark.parametrize("value", [0.1, 0.0, -7e6, 1e-300])
@pytest.mark.parametrize("n", [3, 10, 999])
def test_constant_column_has_scale_one(value, n):
    """Also if rounding changes its mean."""
    found = scale_of(np.full((n, 1), value), np.zeros((n, 0)))
    assert (found.y_mean[0], found.y_std[0]) == (value, 1.0)


def test_column_without_observations_is_refused():
    with pytest.raises(ValueError, match="X must have numbers in every column, got nothing but NaN in column 1"):
        scale_of(np.zeros((3, 1)), np.array([[1.0, NAN]] * 3))


@pytest.mark.parametrize("learn", [[2, 3], [3, 1], [0]])
def test_scaled_kinematics_agree_with_unscaled_ones(learn):
    rng = np.random.default_rng(0)
    learn, rest = dataset.as_columns(learn, 4)
    A, B, c = rng.normal(size=(len(rest), 4)), rng.normal(size=(len(rest), len(learn))), rng.normal(size=len(rest))
    scale = Scale(rng.normal(size=4), rng.uniform(0.1, 9.0, 4), np.zeros(0), np.ones(0))
    before, after = rng.normal(size=(2, 4))
    after[rest] = A @ before + B @ after[learn] + c
    before, after = ((y - scale.y_mean) / scale.y_std for y in (before, after))
    A, B, c = dataset.in_scale((A, B, c), scale, learn, rest)
    np.testing.assert_allclose(after[rest], A @ before + B @ after[learn] + c, atol=1e-12)


# ---------------------------------------------------------------- segments


def slow_steps(y, u, lengths):
    """Group all usable steps k → k + 1 by a plain loop."""
    groups, last, first = [], None, 0
    for length in lengths:
        for k in range(first, first + length - 1):
            if np.isfinite(y[k]).all() and np.isfinite(u[k]).all() and np.isfinite(y[k + 1]).all():
                if last != k - 1 or k == first:
                    groups.append([])
                groups[-1].append(k)
                last = k
        first += length
    return groups


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("change", [True, False])
def test_segments_contain_all_steps_without_missing_values(seed, change):
    rng = np.random.default_rng(seed)
    y, u = rng.normal(size=(80, 3)), rng.normal(size=(80, 2))
    y[rng.random(y.shape) < 0.06] = NAN
    u[rng.random(u.shape) < 0.06] = NAN
    lengths, learn = [30, 1, 49], np.array([2, 0])
    runs = itertools.starmap(slice, itertools.pairwise(np.cumsum([0, *lengths])))
    found = [segment for run in runs for segment in find_segments(y[run], u[run], learn, change)]
    expected = slow_steps(y, u, lengths)
    assert len(found) == len(expected) > 3
    for segment, steps in zip(found, expected, strict=True):
        np.testing.assert_array_equal(segment.z, np.hstack([y[steps], u[steps]]))
        after = y[np.array(steps) + 1]
        np.testing.assert_array_equal(segment.targets, (after - y[steps] if change else after)[:, learn])
        np.testing.assert_array_equal(segment.y, np.vstack([y[steps[:1]], after]))


def test_last_input_of_a_run_may_be_missing():
    u = np.array([[1.0], [2.0], [NAN]])
    (segment,) = find_segments(np.arange(3.0)[:, None], u, np.array([0]), True)
    assert len(segment.z) == 2


def segments_like(*sizes):
    """Return segments with distinct numbers."""
    segments, at = [], 0.0
    for n in sizes:
        y = at + np.arange(n + 1.0)[:, None]
        segments.append(Segment(y[:-1], np.diff(y, axis=0), y))
        at += n + 1
    return segments


def steps_of(segments):
    return [value for segment in segments for value in segment.z.ravel().tolist()]


@pytest.mark.parametrize(("spread", "sizes", "held"), [
    (False, (500,), [100]),  # one run: its last fifth
    (False, (400, 100), [80]),  # two: the last fifth of each that is long enough
    (False, (300, 300, 300), [300]),  # three: the last one
    (False, (50,) * 20, [50] * 4),  # many: the last fifth of them
    (False, (900, 900, 5), [180, 180]),  # a last one too short to judge by
    (False, (100, 100, 900), [180]),  # a last one that is most of all
    (False, (30, 30), []),
    (True, (3000,), [150] * 4),  # one run: blocks of it
    (True, (500,), [100]),  # too short for two blocks
    (True, (50,) * 20, [50] * 4),  # many: every fifth
    (True, (60, 900), [180]),
])  # fmt: skip
def test_validation_set_is_long_enough_and_not_trained_on(spread, sizes, held):
    """It may be spread over all rows; then its forecasts know the rows before it."""
    seen, judged = train_validation_split(segments_like(*sizes), 22, spread=spread)
    found = [Segment(*(part[one.first :] for part in one.segment)) for one in judged]
    assert [len(s.z) for s in found] == held
    if spread:
        assert len(sizes) > 1 or all(one.first == 150 for one in judged)
        assert sum(len(s.z) for s in seen) + sum(held) >= sum(sizes) - 22
    else:
        assert not any(one.first for one in judged)
    assert not set(steps_of(seen)) & set(steps_of(found))
    for segment in (*seen, *found):
        assert len(segment.y) == len(segment.z) + 1 == len(segment.targets) + 1
        np.testing.assert_array_equal(segment.y[:-1], segment.z)


@pytest.mark.parametrize(("sizes", "kept"), [
    ((400, 2, 3, 390), (400, 390)),  # two gaps close to each other
    ((50,) * 10, (50,) * 10), ((100, 80, 60), (100, 80, 60)),
    ((5, 6, 5, 7), (5, 6, 5, 7)),  # nothing but short ones: none can be spared
    ((1, 1), ()),
])  # fmt: skip
def test_short_segments_are_dropped_if_there_are_longer_ones(sizes, kept):
    assert tuple(n for n in sizes if n >= dataset.shortest_segment(sizes, 2)) == kept


def test_rounding_errors_count_as_constant():
    ramp = np.diff(np.linspace(1.0, 2.0, 200))[:, None]  # all alike but for the last digits
    assert ramp.std() > 0.0
    scale = scale_of(np.arange(199.0)[:, None], ramp)
    assert scale.x_std[0] == 1.0
    assert scale.y_std[0] == pytest.approx(np.arange(199.0).std())
    tiny = scale_of(1e-300 * np.arange(5.0)[:, None], np.empty((5, 0)))
    assert 0.0 < tiny.y_std[0] < 1e-299
