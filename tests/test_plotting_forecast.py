"""The figure of a forecast shows its numbers at the right times."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.dates import date2num
from matplotlib.figure import Figure

from pesn.forecasting.forecast import Forecast
from pesn.plotting import COLORS, plot_forecast


def draw(h=6, d=2, rows=4, **options):
    rng = np.random.default_rng(0)
    root = np.tril(rng.normal(size=(h * d, h * d)))
    joint = root @ root.T
    history = rng.normal(size=(rows, d)) if rows else None
    var = np.diag(joint).reshape(h, d)
    return Forecast(rng.normal(size=(h, d)), joint, {"all": var}, **{"history": history, **options})


def lines_of(ax):
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def edges(band, x):
    """Return the lowest and highest vertex of a band at each x."""
    (path,) = band.get_paths()
    at = [path.vertices[np.isclose(path.vertices[:, 0], value), 1] for value in x]
    return np.array([[y.min(), y.max()] for y in at]).T


@pytest.mark.parametrize("d", [1, 4, 7, 12])
def test_each_column_has_a_panel_with_its_numbers(d):
    f = draw(d=d)
    truth = f.sample(1, rng=0)[0]
    axes = f.plot(truth=truth, level=(0.95, 0.5))
    assert len(axes) == len(axes[0].figure.axes) == d
    ahead = np.arange(1, 7)
    for i, ax in enumerate(axes):
        assert ax.get_ylabel() == f"y{i}"
        lines = lines_of(ax)
        assert set(lines) == {"observed", "truth", "median"}
        np.testing.assert_array_equal(lines["observed"].get_xdata(), [-3, -2, -1, 0])
        np.testing.assert_array_equal(lines["observed"].get_ydata(), f.history[:, i])
        # Truth, median and bands set out from the last observed row; the truth is below the dashed median.
        np.testing.assert_array_equal(lines["truth"].get_xdata(), [0, *ahead])
        np.testing.assert_array_equal(lines["truth"].get_ydata(), [f.history[-1, i], *truth[:, i]])
        assert lines["truth"].get_zorder() < lines["median"].get_zorder()
        assert lines["truth"].get_linewidth() > lines["median"].get_linewidth()
        assert lines["median"].is_dashed()
        np.testing.assert_array_equal(lines["median"].get_xdata(), [0, *ahead])
        np.testing.assert_array_equal(lines["median"].get_ydata(), [f.history[-1, i], *f.mean[:, i]])
        assert lines["median"].get_color() == COLORS[0]
        wide, narrow = ax.collections
        for band, level in ((wide, 0.95), (narrow, 0.5)):
            expected = [[f.history[-1, i], *edge[:, i]] for edge in f.interval(level)]
            np.testing.assert_allclose(edges(band, [0, *ahead]), expected)
        assert wide.get_facecolor().sum() > narrow.get_facecolor().sum()  # lighter
        assert wide.get_facecolor()[0, 3] == narrow.get_facecolor()[0, 3] == 1.0
        assert not any(ax.spines[side].get_visible() for side in ("top", "right"))
        assert ax.get_legend() is None
    figure = axes[0].figure
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["observed", "truth", "median", "50 %", "95 %"]
    # Nothing lies on anything else, and each column of panels ends in the name of the time axis.
    figure.canvas.draw()
    boxes = [ax.get_window_extent() for ax in axes] + [legend.get_window_extent()]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    feet = {round(ax.get_position().x0, 3): ax.get_xlabel() for ax in axes}
    assert set(feet.values()) == {"steps ahead"}


def test_columns_can_be_selected():
    f = draw(d=4, names=["x", "theta", "v", "omega"])
    assert [ax.get_ylabel() for ax in f.plot(columns=["omega", 0, -2])] == ["omega", "x", "v"]
    assert [ax.get_ylabel() for ax in f.plot(columns="v")] == ["v"]
    assert [ax.get_ylabel() for ax in f.plot(columns=np.int64(1))] == ["theta"]
    for wrong in ("speed", 4, True, 1.0):
        with pytest.raises(ValueError, match=f"columns must be among x, theta, v, omega, or positions, got {wrong!r}"):
            f.plot(columns=[wrong])
    with pytest.raises(ValueError, match="columns must name at least one column, got none"):
        f.plot(columns=[])


@pytest.mark.parametrize("level", [0.8, (0.8,), np.float32(0.8), (0.5, 0.8, 0.95, 0.8), ()])
def test_each_level_has_a_band(level):
    (ax,) = draw(d=1).plot(level=level)
    assert len(ax.collections) == len(np.unique(level))
    (legend,) = ax.figure.legends
    assert len(legend.get_texts()) == 2 + len(np.unique(level))


def test_plot_forecast_on_given_axes():
    f = draw()
    own = Figure().subplots(2, 1)
    assert f.plot(own) == list(own)
    assert [len(ax.collections) for ax in own] == [2, 2]
    assert [ax.get_legend() is None for ax in own] == [False, True]
    assert own[0].figure.legends == []
    ax = Figure().subplots()
    assert f.plot(ax, columns=[1]) == [ax]
    clean = Figure().subplots(1, 2)
    with pytest.raises(ValueError, match="axes must be 2, one for each column, got 1"):
        plot_forecast(f, clean[:1])
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got 1\.5"):
        plot_forecast(f, clean, level=(0.5, 1.5))
    with pytest.raises(ValueError, match=r"truth must have the shape \(6, 2\) of the forecast, got \(6,\)"):
        plot_forecast(f, clean, truth=np.zeros(6))
    assert not any(ax.lines or ax.collections for ax in clean)


# ---------------------------------------------------------------- time


@pytest.mark.parametrize(
    ("rule", "before"),
    [("D", ["2023-12-30", "2023-12-31"]), ("ME", ["2023-11-30", "2023-12-31"]), ("h", ["2023-12-31 22:00", "2023-12-31 23:00"])],
)
@pytest.mark.parametrize("kind", ["index", "zone", "array", "objects"])
def test_dates_are_on_the_time_axis(rule, before, kind):
    dates = pd.date_range("2024-01-01", periods=6, freq=rule)
    given = {"index": dates, "zone": dates.tz_localize("UTC"), "array": dates.to_numpy(), "objects": list(dates.to_pydatetime())}
    f = draw(rows=2, index=given[kind])
    axes = f.plot()
    lines = lines_of(axes[0])
    np.testing.assert_allclose(lines["observed"].get_xdata(), date2num(np.array(before, "datetime64[ns]")))
    np.testing.assert_allclose(lines["median"].get_xdata()[1:], date2num(dates.to_numpy()))
    axes[0].figure.canvas.draw()
    assert "2024" in " ".join([t.get_text() for t in axes[-1].get_xticklabels()] + [axes[-1].xaxis.get_offset_text().get_text()])
    assert axes[-1].get_xlabel() == ""


def test_history_of_two_dates_is_extrapolated():
    f = draw(h=2, rows=2, index=np.array(["2024-01-05", "2024-01-08"], "datetime64[D]"))
    x = lines_of(f.plot()[0])["observed"].get_xdata()
    np.testing.assert_allclose(x, date2num(np.array(["2023-12-30", "2024-01-02"], "datetime64[D]")))


@pytest.mark.parametrize(
    "index",
    [list("abcdef"), [10.0, 20.0, 30.0, 40.0, 50.0, 60.0], pd.DatetimeIndex(["2024-01-02", "2024-01-01", *["2024-01-03"] * 4])],
)
def test_labels_that_are_no_times_become_steps(index):
    np.testing.assert_array_equal(lines_of(draw(index=index).plot()[0])["median"].get_xdata(), np.arange(7))


# ---------------------------------------------------------------- edges


def test_single_step_is_a_bar():
    f = draw(h=1, d=1, rows=0)
    (ax,) = f.plot()
    for band, level in zip(ax.collections, (0.95, 0.5), strict=True):
        np.testing.assert_allclose(edges(band, [0.8, 1.2]), np.repeat(f.interval(level), 2).reshape(2, 2))
    assert lines_of(ax)["median"].get_marker() == "o"
    ax.figure.canvas.draw()
    assert ax.get_xlim()[0] <= 0.0
    assert ax.get_xlim()[1] >= 2.0


def test_isolated_values_are_visible():
    history = np.array([[1.0, np.nan], [np.nan, 1.0], [2.0, 2.0], [3.0, np.nan]])
    first, second = draw(rows=0, history=history).plot()
    line = lines_of(first)["observed"]
    assert line.get_marker() == "o"
    assert line.get_markevery() == [0]  # the last two are joined by a line
    # The last row of the second column is missing: its forecast starts at the first step.
    assert lines_of(second)["median"].get_xdata()[0] == 1
    assert lines_of(first)["median"].get_xdata()[0] == 0


def test_long_names_fit():
    names = [f"a_very_long_name_of_a_column_{i}" for i in range(11)] + ["$_$ of 100 % <b>"]
    axes = draw(d=12, names=names).plot()
    canvas = axes[0].figure.canvas
    canvas.draw()
    boxes = [ax.yaxis.label.get_window_extent(canvas.get_renderer()) for ax in axes]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert axes[0].get_ylabel().count("\n") == 1
