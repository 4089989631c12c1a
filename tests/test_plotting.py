"""Figures show every column without overlaps and do not import pyplot."""

import os
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from pesn import plotting
from pesn.systems import Trajectories


def runs_of(states, inputs, rows=50):
    values = np.random.default_rng(0).normal(size=(2 * rows, states + inputs))
    names = tuple(f"c{i}" for i in range(states + inputs))
    return Trajectories(values[:, :states], values[:, states:], 0.5, names, (rows, rows), ("m",) * len(names))


@pytest.mark.parametrize(("states", "inputs"), [(1, 0), (4, 1), (6, 1), (12, 4)])
def test_a_panel_for_each_column(states, inputs):
    runs = runs_of(states, inputs)
    axes = plotting.plot_run(runs, run=1)
    assert len(axes) == len(axes[0].figure.axes) == states + inputs
    values = np.hstack([runs[1].states, runs[1].inputs]).T
    for i, ax in enumerate(axes):
        (line,) = ax.lines
        np.testing.assert_array_equal(line.get_xdata(), 0.5 * np.arange(50))
        np.testing.assert_array_equal(line.get_ydata(), values[i])
        assert line.get_color() == plotting.COLORS[0 if i < states else 1]
        assert line.get_drawstyle() == ("default" if i < states else "steps-post")
        assert ax.get_ylabel() == f"c{i} (m)"
    # No panel lies on another, and each column of them ends in the name of the time axis.
    axes[0].figure.canvas.draw()
    boxes = [ax.get_position() for ax in axes]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    columns = {}
    for ax, box in zip(axes, boxes, strict=True):
        columns.setdefault(round(box.x0, 3), []).append(ax.get_xlabel())
    assert all(labels == [""] * (len(labels) - 1) + ["t (s)"] for labels in columns.values())
    assert len({ax.get_xlim() for ax in axes}) == 1


def test_long_names_do_not_overlap():
    names, units = tuple(f"command_yaw_{i:04}" for i in range(16)), ("rad/s",) * 16
    axes = plotting.plot_run(Trajectories(np.zeros((3, 12)), np.zeros((3, 4)), 1.0, names, (3,), units))
    assert axes[0].get_ylabel() == "command_yaw_0000\n(rad/s)"
    canvas = axes[0].figure.canvas
    canvas.draw()
    boxes = [ax.yaxis.label.get_window_extent(canvas.get_renderer()) for ax in axes]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(box.x0 >= 0.0 for box in boxes)


def test_plot_run_on_given_axes_and_without_units():
    from matplotlib.figure import Figure

    own = Figure().subplots(1, 2)
    assert plotting.plot_run(runs_of(1, 1), axes=own) == list(own)
    one = plotting.new_axes()
    assert plotting.plot_run(runs_of(1, 0), axes=one) == [one]
    assert len(own[0].lines) == len(own[1].lines) == 1
    with pytest.raises(ValueError, match="axes must be 3, one for each column, got 2"):
        plotting.plot_run(runs_of(2, 1), axes=own)
    with pytest.raises(IndexError, match="run must lie in 0 … 1, got 2"):
        plotting.plot_run(runs_of(1, 1), run=2)
    assert len(own[0].lines) == 1
    # labels without units
    plain = Trajectories(np.zeros((3, 2)), np.zeros((3, 0)), 1.0, ("x", "y"), (3,), ("", ""))
    axes = plotting.plot_run(plain)
    assert [ax.get_ylabel() for ax in axes] == ["x", "y"]
    assert axes[-1].get_xlabel() == "t"


def test_figures_do_not_import_pyplot(run_python):
    code = (
        "import sys, pesn.plotting as p; assert 'matplotlib' not in sys.modules\n"
        "from pesn.systems import get; p.plot_run(get('cart-pole')(steps=3, rng=0))\n"
        "from pesn.forecasting.forecast import Forecast\n"
        "Forecast([[0.0], [1.0]], [[1.0, 0.0], [0.0, 1.0]], {'all': [[1.0], [1.0]]}).plot()\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    run_python(code)


def test_save_writes_figures(tmp_path):
    axes = plotting.plot_run(runs_of(1, 1))
    plotting.save(axes, tmp_path / "a.svg")
    assert ET.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    with pytest.raises(ValueError, match=r"path must end in \.png, \.svg or \.pdf, got '.*a\.jpg'"):
        plotting.save(axes, tmp_path / "a.jpg")
    assert os.listdir(tmp_path) == ["a.svg"]
    plotting.save(plotting.plot_field(runs_of(1, 0)), tmp_path / "one.svg")  # one axes, not a list of them
    assert ET.parse(tmp_path / "one.svg").getroot().tag.endswith("svg")


def test_rows_limits_the_plot():
    runs = runs_of(1, 1)
    for rows, shown in ((7, 7), (np.int64(1), 1), (1000, 50), (None, 50)):
        for ax, values in zip(plotting.plot_run(runs, rows=rows), (runs.states, runs.inputs), strict=True):
            (line,) = ax.lines
            np.testing.assert_array_equal(line.get_ydata(), values[:shown, 0])
            assert (line.get_marker() == "o") == (shown == 1)  # a point alone would not be seen
    for rows, error in ((0, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="rows must be"):
            plotting.plot_run(runs, rows=rows)


def test_a_field_is_an_image_of_columns_over_time():
    states = np.outer(np.ones(6), [1.0, -2.0, 0.5])
    field = Trajectories(states, np.zeros((6, 1)), 0.5, ("a", "b", "c", "u"), (4, 2), ("",) * 4)
    ax = plotting.plot_field(field, run=1)
    np.testing.assert_array_equal(ax.images[0].get_array(), states[4:].T)  # inputs are not drawn
    assert ax.images[0].get_clim() == (-2.0, 2.0)
    assert (ax.get_xlim(), ax.get_ylabel()) == ((0.0, 1.0), "a … c")
    own = plotting.new_axes()
    assert plotting.plot_field(field, ax=own, rows=3) is own
    assert own.images[0].get_array().shape == (3, 3)
    still = Trajectories(np.zeros((2, 3)), np.zeros((2, 0)), 1.0, ("a", "b", "c"), (2,), ("",) * 3)
    assert plotting.plot_field(still).images[0].get_clim() == (-1.0, 1.0)
    with pytest.raises(ValueError, match="rows must be 1 or more, got 0"):
        plotting.plot_field(field, rows=0)
