"""Prediction experiments: single-step and multi-step predictions of a robot by closed forms and by samples, and their figures.

>>> import numpy as np
>>> steps_until(np.array([True, True, False, True]))
2
>>> list(WEIGHTS)
['never', 'before', 'future']
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn import Forecaster, Gaussian, ProbabilisticESN
from pesn._support.types import AnyArray, Array
from pesn.paper.claims import Record
from pesn.paper.items import figures, robots
from pesn.paper.items.robots import PlainNetwork, Robot, State
from pesn.plotting import new_figure
from pesn.systems import Trajectories

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The paper's network keeps variances alone, ours all covariances.
FORMS = ("diagonal", "full")
# Three ways of having weights; the last is that of Algorithm 3.
WEIGHTS = {
    "never": "never updated",
    "before": "updated up to the origin (fair)",
    "future": "as in the paper: sees the future",
}
OFF, WIDE = 0.1, 0.1  # a mean has left by 0.1 σ, a deviation by 10 %


@dataclass(frozen=True, eq=False)
class Scene:
    """A trained network with the runs that it is evaluated on, of which it has learned the rows before ``first``.

    ``y`` (T, d), ``u`` (T, k) and ``targets`` (T − 1, m) are these runs one after the other, scaled. ``units`` (T, N): the
    network's, after it has taken in each row.
    """

    forecaster: Forecaster
    plain: PlainNetwork
    run: Trajectories
    y: Array
    u: Array
    targets: Array
    units: Array
    first: int

    @property
    def z(self) -> Array:
        """[y, u]."""
        return np.hstack([self.y, self.u])

    @property
    def esn(self) -> ProbabilisticESN:
        """The network, with the weights of the training rows."""
        return self.forecaster.esn_

    def rows(self, p: Record, every: int, most: int | None = None) -> list[int]:
        """Return rows from which predictions start, ``every`` so many rows of each run, at ``most`` so many."""
        start, end = max(self.first, p["context"]), min(self.first + p["test_rows"], self.run.lengths[0]) - p["steps"] - 1
        each = range(start, end, every)[slice(0, most)]
        return [run * self.run.lengths[0] + k for run in range(len(self.run)) for k in each]


def learn(robot: Robot, p: Record, seed: int) -> Scene:
    """Simulate, train, and drive the network over the runs that are predicted."""
    forecaster, runs = robots.learn(robot, p, seed)
    plain, tests = PlainNetwork.of(forecaster), runs[len(runs) - p["test_runs"] :]
    y, u = forecaster.standardize(tests.states, tests.inputs)
    each = np.hstack([y, u]).reshape(len(tests), tests.lengths[0], -1).swapaxes(0, 1)
    units = plain.drive(np.zeros((len(tests), plain.n_units)), each).swapaxes(0, 1).reshape(len(y), -1)
    return Scene(forecaster, plain, tests, y, u, plain.targets(y), units, p["train_rows"])


# ---------------------------------------------------------------- weights that are updated


def online_networks(scene: Scene, rows: Sequence[int]) -> list[ProbabilisticESN]:
    """Return the network *before* it learns from each of ``rows`` (ascending): all that a prediction from there may know."""
    esn, seen, z, found, length = copy.copy(scene.esn), max(scene.first, 1), scene.z, [], scene.run.lengths[0]
    for row in rows:
        while seen < row:
            end = (seen // length + 1) * length - 1  # the last row of a run has no target
            stop = min(row, end)
            if stop > seen:
                esn.partial_fit(z[seen:stop], scene.targets[seen:stop], state=network_state(scene, seen))
            seen = stop if stop == row else end + 2
        found.append(copy.copy(esn))
    return found


def network_state(scene: Scene, k: int) -> State:
    """Return the state before row k is taken in, as ``predict`` takes it: the units, known."""
    return scene.esn.state_._replace(mean=scene.units[k - 1], var=None, output_var=None, cov=None, own=None)


# ---------------------------------------------------------------- what is predicted


class Compared(NamedTuple):
    """Stretches from row ``origin``: closed forms (mean, deviation) by name, and the points' mean, deviation, and their share
    in mean ± 2 σ of each form; all (T, columns), scaled.
    """

    origin: int
    closed: dict[str, tuple[Array, Array]]
    mean: Array
    std: Array
    shares: dict[str, Array]

    def mean_error(self, form: str) -> Array:
        """Return |mean − points' mean| in standard deviations."""
        return np.asarray(np.abs(self.closed[form][0] - self.mean) / self.std)

    def ratio(self, form: str) -> Array:
        """Return the standard deviation ÷ the points'."""
        return np.asarray(self.closed[form][1] / self.std)

    def good(self, form: str) -> npt.NDArray[np.bool_]:
        """Return where the mean is within 0.1 σ, and the standard deviation within 10 %."""
        return (self.mean_error(form) <= OFF) & (np.abs(self.ratio(form) - 1.0) <= WIDE)


def join(some: Sequence[Compared]) -> Compared:
    """Return several stretches as one."""
    closed = {
        form: tuple(np.concatenate(parts) for parts in zip(*(one.closed[form] for one in some), strict=True))
        for form in some[0].closed
    }
    shares = {form: np.concatenate([one.shares[form] for one in some]) for form in some[0].shares}
    mean, std = (np.concatenate([getattr(one, name) for one in some]) for name in ("mean", "std"))
    return Compared(some[0].origin, closed, mean, std, shares)  # type: ignore[arg-type]


def within(one: Compared) -> float:
    """Return the share of all cases in which the paper's form is good."""
    return float(one.good("diagonal").mean())


@lru_cache(maxsize=8)
def normal_points(n: int, size: int, seed: int) -> Any:
    """Return n scrambled Sobol points (n, size) of independent standard normal numbers: a reference with hardly any noise.

    >>> points = normal_points(8192, 4, 0)
    >>> bool(np.abs(points.mean(axis=0)).max() < 1e-3), bool(np.abs(points.std(axis=0) - 1.0).max() < 2e-3)
    (True, True)
    """
    from scipy.special import ndtri
    from scipy.stats.qmc import Sobol

    points = Sobol(size, rng=seed).random(n)
    return ndtri(np.clip(points, 1e-9, 1.0 - 1e-9)).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Sampling:
    """How predictions are compared with points: so many steps, errors of the inputs and of the units, and points."""

    steps: int
    samples: int
    seed: int
    input_std: float = 0.0
    unit_std: float = 0.0


def single_step(scene: Scene, k: int, how: Sampling) -> Compared:
    """Predict the outputs (steps, m) for rows k, k + 1, …, each the true state with an error on it."""
    z, d, plain = scene.z[k : k + how.steps], scene.y.shape[1], scene.plain
    var = np.zeros_like(z)
    var[:, :d] = how.input_std**2
    full = copy.copy(scene.esn).set_params(covariance="full")
    mean, deviation = full.predict(Gaussian(z, var=var), return_std=True, state=network_state(scene, k), parts=("state",))
    units, widths, diagonal = scene.units[k - 1], np.zeros(plain.n_units), []
    for row, row_var in zip(z, var, strict=True):
        units, widths = plain.move_gaussian(units, widths, row, row_var, float(scene.esn.noise))
        out_var = plain.read(widths, row_var, np.square(plain.readout)) - np.square(plain.readout[:, 0])
        diagonal.append((plain.read(units, row, plain.readout), np.sqrt(out_var)))
    first, second = zip(*diagonal, strict=True)
    small = plain.as_float32()
    errors = how.input_std * normal_points(how.samples, how.steps * d, how.seed).reshape(-1, how.steps, d)
    h: Any = np.tile(scene.units[k - 1], (how.samples, 1)).astype(np.float32)
    found = []
    for i, row in enumerate(z.astype(np.float32)):
        rows: Any = np.concatenate([row[:d] + errors[:, i], np.broadcast_to(row[d:], (how.samples, len(row) - d))], axis=1)
        h = small.move(h, rows)
        found.append(small.read(h, rows, small.readout))
    return _compare(k, {"diagonal": (np.array(first), np.array(second)), "full": (mean, deviation)}, np.array(found))


def multi_step(scene: Scene, esn: ProbabilisticESN, k: int, how: Sampling, forms: Sequence[str] = FORMS) -> Compared:
    """Predict the states (steps, d) after row k, known but for the errors on it and on each unit."""
    model, units = scene.forecaster.model_, scene.units[k - 1]
    weights, u = np.asarray(esn.readout_.weights, float), scene.u[k : k + how.steps]
    mean, var = scene.plain.forecast_gaussian(units, how.unit_std**2, scene.y[k], u, how.input_std**2, weights=weights)
    closed = {"diagonal": (mean, np.sqrt(var))}
    if "full" in forms:
        model = replace(model, esn=copy.copy(esn).set_params(covariance="full"))
        context = Gaussian(scene.run.states[k], var=np.square(how.input_std * model.columns.scale.y_std))
        start = model.start(context, units=Gaussian(units, var=np.full(len(units), how.unit_std**2)))
        forecast = model.forecast(how.steps, start, scene.run.inputs[k : k + how.steps], parts=("state",))
        closed["full"] = scene.forecaster.standardize(forecast.mean, u)[0], forecast.std / model.columns.scale.y_std
    return _compare(k, closed, _sample(scene, k, how, weights))


def _sample(scene: Scene, k: int, how: Sampling, weights: Array) -> Array:
    """Forecast the points (steps, n, d) of a stretch, with weights that may change from step to step."""
    small, d, n = scene.plain.as_float32(), scene.y.shape[1], scene.plain.n_units
    points = normal_points(how.samples, d + (n if how.unit_std else 0), how.seed)
    units: Any = np.tile(scene.units[k - 1], (how.samples, 1)).astype(np.float32)
    y, u, w = (part.astype(np.float32) for part in (scene.y[k], scene.u[k : k + how.steps, None], weights))
    if how.unit_std:
        units += how.unit_std * points[:, d:]
    states: Any = (units, y + how.input_std * points[:, :d], u, w)
    return small.forecast(*states)


def _compare(k: int, closed: dict[str, tuple[Array, Array]], samples: Array) -> Compared:
    """Compare closed forms with points (T, n, columns)."""
    inside = {form: np.abs(samples - mean[:, None]) <= 2.0 * std[:, None] for form, (mean, std) in closed.items()}
    shares = {form: some.mean(axis=1) for form, some in inside.items()}
    return Compared(k, closed, samples.mean(axis=1, dtype=float), samples.std(axis=1, dtype=float), shares)


def steps_until(good: npt.ArrayLike) -> int:
    """Return the steps before the first that is not good; all of them if none is."""
    wrong = np.flatnonzero(~np.asarray(good, bool))
    return int(wrong[0]) if len(wrong) else np.size(good)


# ---------------------------------------------------------------- one draw


@dataclass(frozen=True, eq=False)
class Study:
    """What one draw says: ``single`` of the outputs, ``multi`` of the states, "before" and "units" from uncertain units.

    ``errors`` (origins, steps, d) of free runs, absolute and scaled, by the way of having weights; NaN where weights were not
    updated inside the forecast, which is done from some of the origins alone.
    """

    single: Compared
    multi: dict[str, list[Compared]]
    errors: dict[str, Array]


def one_draw(robot: Robot, p: Record, seed: int) -> Study:
    """Train a network on one set of runs, and compare its predictions with points."""
    scene = learn(robot, p, seed)
    how = Sampling(p["steps"], p["samples"], seed % 2**31, p["input_std"])
    at = scene.rows(p, p["steps"], p["segments"])
    single = join([single_step(scene, k, how) for k in at])
    multi = {"before": [multi_step(scene, esn, k, how) for k, esn in zip(at, online_networks(scene, at), strict=True)]}
    if p["unit_std"]:
        uncertain = replace(how, input_std=0.0, unit_std=p["unit_std"])
        multi["units"] = [multi_step(scene, scene.esn, k, uncertain) for k in at[:2]]
    return Study(single, multi, _errors(scene, p))


def _errors(scene: Scene, p: Record) -> dict[str, Array]:
    """Return |prediction − truth| in closed loop from exactly known rows, for each way of updating the weights."""
    steps, plain, at = p["steps"], scene.plain, scene.rows(p, p["origin_every"])
    found = {name: np.full((len(at), steps, plain.n_states), np.nan) for name in WEIGHTS}
    for i, (k, esn) in enumerate(zip(at, online_networks(scene, at), strict=True)):
        truth, u = scene.y[k + 1 : k + 1 + steps], scene.u[k : k + steps]
        h, y, weights = scene.units[k - 1], scene.y[k], np.asarray(esn.readout_.weights, float)
        found["never"][i] = plain.forecast(h, y, u) - truth
        found["before"][i] = plain.forecast(h, y, u, weights) - truth
        if not i % p["future_every"]:
            state, known = network_state(scene, k), np.zeros(plain.n_states)
            found["future"][i] = robots.forecast_with_updates(esn, plain, state, y, known, u, truth)[0] - truth
    return {name: np.abs(some) for name, some in found.items()}


def multi_step_with_future(scene: Scene, p: Record, k: int, seed: int) -> Compared:
    """Run a stretch of Algorithm 3 in closed loop, variances alone, beside points with the weights that each step had."""
    steps, std, d = p["steps"], p["input_std"], scene.y.shape[1]
    (esn,) = online_networks(scene, [k])
    known, truth = scene.u[k : k + steps], scene.y[k + 1 : k + 1 + steps]
    state, var = network_state(scene, k), np.full(d, std**2)
    mean, deviation, weights = robots.forecast_with_updates(esn, scene.plain, state, scene.y[k], var, known, truth)
    how = Sampling(steps, p["samples"], seed % 2**31, std)
    return _compare(k, {"diagonal": (mean, deviation)}, _sample(scene, k, how, weights))


def leaving(some: Sequence[Compared], form: str) -> tuple[list[int], list[int]]:
    """Return for each segment the steps until the mean, and until the standard deviation, leaves the points' in any state."""
    means = [steps_until((one.mean_error(form) <= OFF).all(axis=1)) for one in some]
    widths = [steps_until((np.abs(one.ratio(form) - 1.0) <= WIDE).all(axis=1)) for one in some]
    return means, widths


# ---------------------------------------------------------------- figures: states over time with 2σ bands, and agreement

_COLOR = {"diagonal": figures.SPLINE, "full": figures.OURS}
_LINE = {form: figures.line(color) for form, color in _COLOR.items()}
_SHORT = {"diagonal": "PESN (diagonal)", "full": "full covariance (ours)"}
_LABEL = {form: f"{name}: mean, ±2σ" for form, name in _SHORT.items()}
_TRUTH: dict[str, Any] = {"color": figures.TRUTH, "linewidth": 0.8, "marker": ".", "label": "truth"}
_SIZE = 8.5  # pt
_WIDTH = 9.0  # inches


@dataclass(frozen=True, eq=False)
class View:
    """What stands in the columns of a comparison: ``truth`` (T, c) by row of the run, scaled, and how to undo the scale.

    ``columns`` of panels; time is counted from row ``first``.
    """

    truth: Array
    mean: Array
    width: Array
    names: Sequence[str]
    units: Sequence[str]
    columns: int
    first: int
    dt: float

    def unscale(self, values: Array, i: int, shift: float = 1.0) -> Array:
        """Return column i in its units; ``shift`` 0: of standard deviations."""
        return np.asarray(values[:, i] * self.width[i] + shift * self.mean[i])

    def time(self, one: Compared) -> AnyArray:
        """Return the times of the rows that a segment predicts."""
        return np.asarray((one.origin - self.first + 1 + np.arange(len(one.mean))) * self.dt)

    def label(self, i: int) -> str:
        """Return name and unit of column i."""
        return f"{self.names[i]} ({self.units[i]})"


def state_view(scene: Scene, robot: Robot, columns: int) -> View:
    """Return a view of the states, which multi-step predictions are of."""
    scale = scene.forecaster.scale_
    return View(scene.y, scale.y_mean, scale.y_std, robot.names, robot.units, columns, scene.first, scene.run.dt)


def output_view(scene: Scene, robot: Robot) -> View:
    """Return a view of the network's outputs, which single-step predictions are of: velocities, or their changes."""
    scale, at, change = scene.forecaster.scale_, scene.plain.learned.tolist(), scene.plain.change
    truth = np.vstack([scene.targets[:1], scene.targets])  # the output at row k leads to row k + 1
    names = [f"change of {robot.names[i]}" if change else robot.names[i] for i in at]
    mean = np.zeros(len(at)) if change else scale.y_mean[at]
    width, units = scene.plain.output_std * scale.y_std[at], [robot.units[i] for i in at]
    return View(truth, mean, width, names, units, max(2, len(at) // 2), scene.first, scene.run.dt)


def _figure(
    rows: int, columns: int, height: float, *, titled: bool = False, ratios: Sequence[float] | None = None
) -> tuple[Figure, figures.Grid]:
    # margins by hand, in inches: a layout engine would take longer than all the rest of a quick run
    figure = new_figure(_WIDTH, height, layout=None)
    top = 0.35 + 0.25 * titled
    gap_x, gap_y = 0.85, 0.18
    width, tall = (_WIDTH - 0.95 - gap_x * (columns - 1)) / columns, (height - top - 0.5 - gap_y * (rows - 1)) / rows
    edges = {"left": 0.85 / _WIDTH, "right": 1.0 - 0.1 / _WIDTH, "top": 1.0 - top / height, "bottom": 0.5 / height}
    grid = {**edges, "wspace": gap_x / width, "hspace": gap_y / tall, "height_ratios": ratios}
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False, gridspec_kw=grid)
    for ax in axes.ravel():
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(x=0.01)
    return figure, axes


def _pair_panels(view: View) -> tuple[Figure, figures.Grid, Iterator[tuple[int, Axes, Axes]]]:
    """Make a figure with two panels for each column, one below the other; and (column, panel, panel below)."""
    rows = len(view.names) // view.columns
    figure, axes = _figure(2 * rows, view.columns, 3.1 * rows + 0.9, ratios=[1.5, 1.0] * rows)
    return figure, axes, zip(range(len(view.names)), axes[::2].ravel(), axes[1::2].ravel(), strict=True)


def _finish(figure: Figure, axes: figures.Grid, x: str = "time (s)", columns: int = 4) -> Figure:
    """Label the time, and put the legend of the first panel on top, each name once."""
    for ax in axes[-1]:
        ax.set_xlabel(x, fontsize=_SIZE)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure.legend(once.values(), once.keys(), loc="upper center", ncols=columns, frameon=False, fontsize=_SIZE)
    return figure


def _band(ax: Axes, t: AnyArray, mean: Array, std: Array, form: str) -> None:
    """Draw a closed form as lines: the mean, and thinner two standard deviations away."""
    ax.plot(t, mean, linewidth=1.4, label=_LABEL[form], **_LINE[form])
    for sign in (-2.0, 2.0):
        ax.plot(t, mean + sign * std, linewidth=1.0, **_LINE[form])


def _bands(ax: Axes, view: View, one: Compared, i: int) -> None:
    """Draw samples as a band, closed forms as lines."""
    t, mean, std = view.time(one), view.unscale(one.mean, i), view.unscale(one.std, i, 0.0)
    ax.fill_between(t, mean - 2.0 * std, mean + 2.0 * std, color=figures.MONTE_CARLO, alpha=0.18, linewidth=0)
    ax.plot(t, mean, color=figures.MONTE_CARLO, linewidth=2.6, alpha=0.6, label="Monte Carlo: mean, ±2σ")
    for form, closed in one.closed.items():
        _band(ax, t, view.unscale(closed[0], i), view.unscale(closed[1], i, 0.0), form)


def _truth(ax: Axes, view: View, rows: npt.NDArray[np.intp], i: int) -> None:
    size = 3.0 if len(rows) < 40 else 0.0
    ax.plot((rows - view.first) * view.dt, view.unscale(view.truth[rows], i), markersize=size, **_TRUTH)


def draw_states(view: View, one: Compared, steps: int) -> Figure:
    """Draw a panel for each column, and below it the difference between closed forms and points, over the first ``steps``.

    The range is that of the means and of the truth, the bands going out of the picture.
    """
    one = _cut(one, steps)
    figure, axes, places = _pair_panels(view)
    for i, ax, below in places:
        _bands(ax, view, one, i)
        _differences(below, view, one, i)
        _truth(ax, view, np.arange(one.origin, one.origin + len(one.mean) + 1), i)
        _zoom(ax)
        ax.set_ylabel(view.label(i), fontsize=_SIZE)
        below.set_ylabel("Δ (% of σ)", fontsize=_SIZE)
    figure.text(0.01, 0.04 / figure.get_figheight(), "Δ: less Monte Carlo's, the mean; thin: the deviation", fontsize=_SIZE)
    return _finish(figure, axes)


def _cut(one: Compared, steps: int) -> Compared:
    """Return the first steps of a segment."""
    closed = {form: (mean[:steps], std[:steps]) for form, (mean, std) in one.closed.items()}
    return one._replace(closed=closed, mean=one.mean[:steps], std=one.std[:steps])


def _differences(ax: Axes, view: View, one: Compared, i: int) -> None:
    """Draw closed forms minus samples, in percent of the samples' standard deviation: means, and thinner standard deviations."""
    ax.axhline(0.0, color=figures.MONTE_CARLO, linewidth=1.6, alpha=0.6)
    t, unit = view.time(one), 0.01 * one.std[:, i]
    for form, (mean, std) in one.closed.items():
        ax.plot(t, (mean - one.mean)[:, i] / unit, linewidth=1.6, **_LINE[form])
        ax.plot(t, (std - one.std)[:, i] / unit, linewidth=0.9, **_LINE[form])
    ax.set_yscale("symlog", linthresh=1.0)
    most = max(map(abs, ax.get_ylim()))
    ax.set_ylim(-most, most)
    ax.set_yticks([-100, -1, 0, 1, 100] if most > 100 else [-10, -1, 0, 1, 10] if most > 10 else [-1, 0, 1])
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()


def _zoom(ax: Axes) -> None:
    """Limit the y axis to the means and the truth, the labeled lines, and a fifth more."""
    lines = [np.asarray(line.get_ydata()) for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    low, high = min(map(np.min, lines)), max(map(np.max, lines))
    room = 0.1 * max(high - low, 1e-9)
    ax.set_ylim(low - room, high + room)


def _alike(axes: Sequence[Axes], sure: int) -> None:
    """Give panels side by side one range: that of the first ``sure``, and half as much again for the others, not more."""
    ends = np.array([ax.get_ylim() for ax in axes])
    low, high = float(ends[:sure, 0].min()), float(ends[:sure, 1].max())
    room = 0.5 * (high - low)
    low, high = max(low - room, float(ends[:, 0].min())), min(high + room, float(ends[:, 1].max()))
    for ax in axes:
        ax.set_ylim(low, high)


def draw_updating(view: View, by_way: Mapping[str, Compared], chosen: Sequence[int]) -> Figure:
    """Draw one segment for each way of updating the weights, a row for each state chosen: the paper's beside what is fair."""
    figure, axes = _figure(len(chosen), len(WEIGHTS), 1.9 * len(chosen) + 1.0, titled=True)
    for column, (way, title) in zip(axes.T, WEIGHTS.items(), strict=True):
        one = by_way[way]
        for ax, i in zip(column, chosen, strict=True):
            _bands(ax, view, one, i)
            _truth(ax, view, np.arange(one.origin, one.origin + len(one.mean) + 1), i)
        column[0].set_title(f"weights {title}" if way != "future" else title, fontsize=_SIZE)
    for row, i in zip(axes, chosen, strict=True):
        row[0].set_ylabel(view.label(i), fontsize=_SIZE)
        _alike(row, len(WEIGHTS) - 1)
    return _finish(figure, axes)


def draw_agreement(columns: Mapping[str, Sequence[Compared]]) -> Figure:
    """Draw by step how far the means are from Monte Carlo's, and the ratio of deviations, a row for each column."""
    figure, axes = _figure(len(columns), 2, 3.0 * len(columns) + 0.6)
    for row, (name, some) in zip(axes, columns.items(), strict=True):
        _draw_agreement(row, some)
        row[0].set_ylabel(f"{name}:\n|mean − Monte Carlo's| (σ)", fontsize=_SIZE)
    return _finish(figure, axes, "steps ahead", 2)


def _draw_agreement(axes: Sequence[Axes], some: Sequence[Compared]) -> None:
    left, right = axes
    steps = len(some[0].mean)
    t = np.arange(1, steps + 1)
    for form in FORMS:
        for ax, values in ((left, [one.mean_error(form) for one in some]), (right, [one.ratio(form) for one in some])):
            by_step = np.array(values).transpose(1, 0, 2).reshape(steps, -1)
            ax.fill_between(t, by_step.min(axis=1), by_step.max(axis=1), color=_COLOR[form], alpha=0.2, linewidth=0)
            ax.plot(t, np.median(by_step, axis=1), label=f"{_SHORT[form]}: median, and all states", **_LINE[form])
    for ax, limit in ((left, 0.1), (right, 1.0)):
        ax.axhline(limit, color="0.4", linewidth=0.8, linestyle=":")
        ax.set_xticks([s for s in (1, 5, 10, 15, 20) if s <= steps])
    left.text(1, 0.1, "0.1 σ: the mean has left", fontsize=8, va="bottom")
    left.set_yscale("log")
    low, high = right.get_ylim()
    if low <= 0.0 or high / low > 3.0:
        right.set_yscale("log")
        right.yaxis.set_major_formatter("{x:g}")
        right.yaxis.set_minor_formatter("{x:g}")
        right.tick_params(which="both", labelsize=7)
    right.set_ylabel("σ ÷ Monte Carlo's σ", fontsize=_SIZE)
