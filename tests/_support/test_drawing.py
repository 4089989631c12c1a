"""Claim: a drawing shows the numbers that it was given, whatever they are, and its axes are marked at round ones."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pesn._support.pages import drawing
from pesn._support.pages.drawing import View, limits, plot

POINT = re.compile(r"([ML])(\S+?) (-?[\d.]+)(h0)?")


def points(path):
    """What a path goes through, in the units of the box."""
    return np.array([[float(x), float(y)] for _, x, y, _ in POINT.findall(path)])


def test_a_line_goes_through_the_data():
    rng = np.random.default_rng(0)
    x, y = np.arange(50.0), rng.normal(size=50)
    view = View((-3.0, 60.0), limits([y]))
    found = points(view.line(x, y, "seen"))
    low, high = view.y
    np.testing.assert_allclose(found[:, 0] / 1000.0 * 63.0 - 3.0, x, atol=0.004)
    np.testing.assert_allclose(high - found[:, 1] / 1000.0 * (high - low), y, atol=1e-4 * (high - low))


def test_gaps_stay_open_and_a_number_between_two_is_a_dot():
    y = np.array([1.0, 2.0, np.nan, 3.0, np.nan, 4.0, 5.0, np.inf, 6.0])
    drawn = View((0.0, 8.0), (0.0, 7.0)).line(np.arange(9.0), y, "seen")
    line, dots = ElementTree.fromstring(f"<g>{drawn}</g>")
    assert line.get("d").count("M") == 2
    assert dots.get("class") == "seen alone"
    assert dots.get("d").count("h0") == 2
    assert View((0.0, 1.0), (0.0, 1.0)).line(np.arange(2.0), np.full(2, np.nan), "seen") == ""


def test_many_points_are_thinned_to_the_same_outline():
    rng = np.random.default_rng(1)
    y = rng.normal(size=100_003)
    y[5000:5500] = np.nan
    view = View((0.0, len(y) - 1.0), limits([y]))
    found = points(view.line(np.arange(float(len(y))), y, "seen"))
    assert len(found) < 1500
    low, high = view.y
    shown = high - found[:, 1] / 1000.0 * (high - low)
    np.testing.assert_allclose([shown.min(), shown.max()], [np.nanmin(y), np.nanmax(y)], atol=1e-4 * (high - low))
    assert (np.diff(found[:, 0]) >= 0.0).all()


def test_a_band_is_closed_and_a_single_step_has_a_width():
    view = View((0.0, 2.0), (0.0, 1.0))
    wide = points(view.band(np.array([1.0]), np.array([0.2]), np.array([0.6]), "band"))
    np.testing.assert_allclose(wide, [[400, 400], [600, 400], [600, 800], [400, 800]])
    assert view.band(np.array([1.0]), np.array([np.nan]), np.array([1.0]), "band") == ""


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(allow_infinity=False), min_size=1, max_size=6), st.lists(st.floats(), max_size=3))
def test_any_numbers_have_a_place(values, wider):
    y = np.array(values)
    low, high = limits([y], [np.array(wider)])
    assert np.isfinite([low, high]).all()
    assert low < high
    view = View((0.0, max(len(y) - 1.0, 1.0)), (low, high))
    drawn = plot(view, [view.line(np.arange(float(len(y))), y, "seen")], label='<"&', marks=[(0.0, "<")])
    root = ElementTree.fromstring(drawn)
    assert root.find("svg").get("aria-label") == '<"&'
    assert "nan" not in drawn
    assert "inf" not in drawn
    known = y[np.isfinite(y)]
    if len(known):
        assert (view.height(known) >= -1e-9).all()
        assert (view.height(known) <= 1.0 + 1e-9).all()


def test_bands_do_not_squeeze_what_was_observed():
    low, high = limits([np.array([1.0, 2.0])], [np.array([-1e30, 1e30])], most=1.0)
    assert -0.2 < low < high < 3.2


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12), st.integers(1, 8))
def test_marks_are_round_inside_and_told_apart(low, span, most):
    if not (low + span) - low > 1e-9 * abs(low):
        return
    found = drawing.numbers(low, low + span, most)
    assert len(found) <= most
    assert all(low - 1e-6 * span <= value <= low + span + 1e-6 * span for value in found)
    if len(found) > 1:
        step = found[1] - found[0]
        assert round(step / 10.0 ** np.floor(np.log10(step * 1.0001)), 3) in (1.0, 2.0, 5.0)
        texts = drawing.texts(found)
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    ("first", "step", "count", "expected"),
    [
        ("1700-01", "12M", 309, ["1700", "1750", "1800", "1850", "1900", "1950", "2000"]),
        ("2020-01", "M", 14, ["2020-01", "2020-05", "2020-09", "2021-01"]),
        ("2023-12-25", "D", 20, ["2023-12-25", "2024-01-01", "2024-01-08"]),
        ("2023-12-26", "D", 20, ["2024-01-01", "2024-01-08"]),
        ("2024-01-01T00", "h", 30, ["01-01 00:00", "01-01 12:00", "01-02 00:00"]),
        ("2024-01-01T00:00", "5m", 9, ["01-01 00:00", "01-01 00:20", "01-01 00:40"]),
        ("2024-03-01T10:00:01", "7s", 3, ["10:00:05", "10:00:10", "10:00:15"]),
        ("2024-01", "M", 3, ["2024-01", "2024-02", "2024-03"]),
        ("1000", "2000Y", 5, ["2000", "4000", "6000", "8000"]),
        ("2024", "Y", 1, ["2024"]),
    ],
)
def test_dates_are_marked_where_a_span_begins(first, step, count, expected):
    unit = step[-1]
    start = np.datetime64(first, unit)
    labels = start + np.arange(count) * np.timedelta64(int(step[:-1] or 1), unit)
    found = drawing.dates(labels.astype("M8[ns]" if first > "1701" else "M8[s]"), 7 if count > 300 else 4)
    assert [text for _, text in found] == expected
