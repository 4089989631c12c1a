"""The two prediction items' common study: what is predicted, with which weights, and how far it agrees with samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.paper.items import prediction
from pesn.paper.items.prediction import FORMS, Case, Robot, Samples
from pesn.paper.items.prediction_verdicts import OFF, WIDE, steps_text
from pesn.paper.result import Record, Settings, Tasks
from pesn.systems.trajectories import Trajectories

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "WEIGHTS",
    "Compared",
    "Study",
    "study",
]


# Three ways of having weights; the last is Algorithm 3 to the letter.
WEIGHTS = {
    "never": "never updated",
    "before": "updated up to the origin (fair)",
    "future": "as in the paper: sees the future",
}
_BATCH = 2500  # samples in one unit of work


class Compared(NamedTuple):
    """One stretch: closed forms (mean, deviation) by name and the samples, (T, d + m) in scaled units, from row ``origin``."""

    origin: int
    closed: dict[str, tuple[Array, Array]]
    samples: Samples

    def off(self, form: str) -> Array:
        """|mean − samples' mean| in deviations."""
        result: Array = np.abs(self.closed[form][0] - self.samples.mean) / self.samples.std
        return result

    def ratio(self, form: str) -> Array:
        """Deviation ÷ samples' deviation."""
        result: Array = self.closed[form][1] / self.samples.std
        return result

    def inside(self, form: str) -> Array:
        """The share of the samples in mean ± 2 σ."""
        result: Array = self.samples.inside[list(FORMS).index(form)] / self.samples.n
        return result


class Study(NamedTuple):
    """All that was found: ``single`` by weights, ``multi`` too, "units" for uncertain units; errors of free runs; forecasts."""

    robot: Robot
    single: dict[str, Compared]
    multi: dict[str, list[Compared]]
    errors: dict[str, Array]  # (origins, steps, d), absolute, scaled
    fair: dict[tuple[str, str], tuple[Array, Array, Array]]  # (form, weights) → mean, std, truth in units of the robot
    delta: float  # of P = δ I, with which updating begins


def study(
    settings: Settings, tasks: Tasks, trajectories: Trajectories, positions: Sequence[int], velocities: Sequence[int]
) -> Study:
    """Train on all but the end of the last run, and predict that end in every way."""
    p = settings.parameters
    network = {**p["network"], "random_state": settings.seeds(1, stream=1)[0] % 2**31}
    robot = prediction.learn(trajectories, positions, velocities, network, p["train_rows"])
    steps, first, frozen = p["steps"], robot.first, robot.loop.readout.weights
    delta = _choose_delta(trajectories[:-1], positions, velocities, network, p)
    origins = [first + steps * i for i in range(p["segments"])]
    rows = list(range(first, first + steps * p["segments"]))
    online = prediction.updated(robot, rows, delta, p["forgetting"])
    moving = np.array([readout.weights for readout, _ in online])
    cases: dict[tuple[str, str], list[Case]] = {
        ("single", "never"): [prediction.single_step(robot, first, len(rows), p["input_std"], frozen)],
        ("single", "before"): [prediction.single_step(robot, first, len(rows), p["input_std"], moving)],
        ("multi", "never"): [prediction.multi_step(robot, k, steps, p["input_std"], frozen) for k in origins],
    }
    ahead = []
    for k in origins:
        readout, rls = online[k - first]
        ahead.append((k, readout.weights, prediction.free_run(robot, k, steps, readout, rls, p["forgetting"])[1]))
    cases["multi", "before"] = [prediction.multi_step(robot, k, steps, p["input_std"], fixed) for k, fixed, _ in ahead]
    cases["multi", "future"] = [prediction.multi_step(robot, k, steps, p["input_std"], seen) for k, _, seen in ahead]
    if p["unit_std"]:
        cases["multi", "units"] = [prediction.multi_step(robot, k, steps, 0.0, frozen, p["unit_std"]) for k in origins]
    found = _compare(settings, tasks, cases, origins)
    judged = _origins(robot, p)
    return Study(
        robot,
        {name: found["single", name][0] for name in ("never", "before")},
        {name: some for (kind, name), some in found.items() if kind == "multi"},
        _errors(robot, judged, steps, delta, p["forgetting"]),
        _fair(tasks, trajectories, positions, velocities, network, p, judged),
        delta,
    )


def _choose_delta(
    trajectories: Trajectories, positions: Sequence[int], velocities: Sequence[int], network: Record, p: Record
) -> float:
    """Of the δ tried, that with which updated weights forecast the end of a training run best, unseen by the network."""
    robot = prediction.learn(trajectories, positions, velocities, network, p["train_rows"])
    at = list(velocities)

    def wrong(delta: float) -> float:
        errors = _errors(robot, _origins(robot, p), p["steps"], delta, p["forgetting"], ("before",))
        return float(errors["before"][..., at].mean())

    return float(min(p["rls_deltas"], key=wrong))


def _origins(robot: Robot, p: Record) -> list[int]:
    last = min(robot.first + p["test_rows"], len(robot.rows)) - p["steps"] - 1
    return list(range(robot.first, last, p["origin_every"]))


def _compare(
    settings: Settings, tasks: Tasks, cases: dict[tuple[str, str], list[Case]], origins: list[int]
) -> dict[tuple[str, str], list[Compared]]:
    """Closed forms of every case first, then samples of it, in batches."""
    flat = [case for some in cases.values() for case in some]
    paths = tasks.map(prediction.carried, [(case, form) for case in flat for form in FORMS])
    closed = [dict(zip(FORMS, paths[i : i + len(FORMS)], strict=True)) for i in range(0, len(paths), len(FORMS))]
    n = settings.parameters["samples"]
    sizes = [min(_BATCH, n - start) for start in range(0, n, _BATCH)]
    seeds = iter(settings.seeds(len(flat) * len(sizes), stream=2))
    bands = [np.array([[mean - 2.0 * std, mean + 2.0 * std] for mean, std in one.values()]) for one in closed]
    jobs = [(case, band, size, next(seeds)) for case, band in zip(flat, bands, strict=True) for size in sizes]
    drawn = [Samples(*one) for one in tasks.map(_sample, jobs)]
    every = len(sizes)
    samples = [prediction.merged(drawn[i : i + every]) for i in range(0, len(drawn), every)]
    done = iter(zip(closed, samples, strict=True))
    return {key: [Compared(k, *next(done)) for k, _ in zip(origins, some, strict=False)] for key, some in cases.items()}


def _sample(case: Case, bands: Array, n: int, seed: int) -> tuple[Any, ...]:
    """A unit of work: :func:`prediction.sample` as a tuple, which can be kept in a file."""
    return tuple(prediction.sample(case, bands, n, seed))


def _errors(
    robot: Robot, origins: list[int], steps: int, delta: float, forgetting: float, wanted: Sequence[str] = tuple(WEIGHTS)
) -> dict[str, Array]:
    """|prediction − truth| of free runs from exactly known rows, by the way of having weights."""
    d = robot.n_states
    errors: dict[str, list[Array]] = {name: [] for name in wanted}
    for k, (readout, rls) in zip(origins, prediction.updated(robot, origins, delta, forgetting), strict=True):
        truth = robot.rows[k + 1 : k + 1 + steps]
        ways: dict[str, tuple[Any, ...]] = {
            "never": (robot.loop.readout,),
            "before": (readout,),
            "future": (readout, rls, forgetting),
        }
        for name in wanted:
            errors[name].append(np.abs(prediction.free_run(robot, k, steps, *ways[name])[0][:, :d] - truth))
    return {name: np.array(some) for name, some in errors.items()}


def _fair(
    tasks: Tasks,
    trajectories: Trajectories,
    positions: Sequence[int],
    velocities: Sequence[int],
    network: Record,
    p: Record,
    origins: list[int],
) -> dict[tuple[str, str], tuple[Array, Array, Array]]:
    steps, last = p["steps"], trajectories[len(trajectories) - 1].states
    some = origins[:: p["fair_every"]]
    truth = np.array([last[k + 1 : k + 1 + steps] for k in some])
    own = {**network, "process_noise": p["process_noise"]}
    robot, how = (trajectories, list(positions), list(velocities)), (p["train_rows"], p["calibrate"], some, steps, p["context"])
    jobs = [(*robot, {**own, "covariance": form}, *how) for form in FORMS]
    found = zip(FORMS, tasks.map(prediction.fair_forecasts, jobs), strict=True)
    return {(form, name): (*one, truth) for form, both in found for name, one in both.items()}


# ---------------------------------------------------------------- in numbers


def leaving(some: Sequence[Compared], form: str, d: int) -> tuple[list[int], list[int]]:
    """For each stretch the steps until the mean, and until the deviation, has left the samples' in any of the d states."""
    means = [prediction.steps_until((one.off(form)[:, :d] <= OFF).all(axis=1)) for one in some]
    widths = [prediction.steps_until((np.abs(one.ratio(form)[:, :d] - 1.0) <= WIDE).all(axis=1)) for one in some]
    return means, widths


def pooled(found: Study) -> dict[str, list[Compared]]:
    """Every comparison by a name for people."""
    single = {f"single-step, weights {text}": [found.single[name]] for name, text in WEIGHTS.items() if name in found.single}
    multi = {f"multi-step, weights {text}": found.multi[name] for name, text in WEIGHTS.items()}
    units = {"multi-step, uncertain units": found.multi["units"]} if "units" in found.multi else {}
    return {**single, **multi, **units}


def agreement(found: Study) -> pd.DataFrame:
    """One line for each comparison and form: how far closed form and samples agree on the states and on their changes."""
    import pandas as pd

    d, lines = found.robot.n_states, []
    for name, some in pooled(found).items():
        for form in FORMS:
            ratio = np.array([one.ratio(form) for one in some])
            off, inside = (np.array([getattr(one, what)(form)[:, :d] for one in some]) for what in ("off", "inside"))
            means, widths = leaving(some, form, d)
            total = ratio.shape[1]
            line: Record = {"prediction": name, "covariance": form, "mean off by, σ": float(off.max())}
            for part, text in ((ratio[..., :d], "states"), (ratio[..., d:], "changes")):
                line[f"σ ÷ Monte Carlo, {text}"] = f"{part.min():.2f} … {np.median(part):.2f} … {part.max():.2f}"
            line["samples in 2σ, %"] = f"{100 * inside.min():.0f} … {100 * inside.max():.0f}"
            line["mean leaves"], line["σ leaves"] = steps_text(means, total), steps_text(widths, total)
            lines.append(line)
    return pd.DataFrame(lines)


def by_state(found: Study, names: Sequence[str], steps: Sequence[int] = (1, 5, 10, 20)) -> pd.DataFrame:
    """σ ÷ Monte Carlo of the multi-step prediction with fair weights, the median over the stretches, by state and step."""
    import pandas as pd

    some, total = found.multi["before"], len(found.multi["before"][0].samples.mean)
    lines = []
    for i, name in enumerate(names):
        line: Record = {"state": name}
        for form in FORMS:
            for step in [s for s in steps if s <= total]:
                line[f"{form}, step {step}"] = round(float(np.median([one.ratio(form)[step - 1, i] for one in some])), 3)
        lines.append(line)
    return pd.DataFrame(lines)


def long_frame(found: Study, names: Sequence[str]) -> pd.DataFrame:
    """A row for each comparison, form, state and step: medians over the stretches."""
    import pandas as pd

    lines = []
    for kind, every in (("single-step", {k: [v] for k, v in found.single.items()}), ("multi-step", found.multi)):
        for weights, some in every.items():
            for form in FORMS:
                parts = [np.median([getattr(one, what)(form) for one in some], axis=0) for what in ("off", "ratio", "inside")]
                spread = np.median([one.samples.std for one in some], axis=0) * found.robot.width
                for (step, i), _ in np.ndenumerate(parts[0]):
                    off, ratio, inside = (float(part[step, i]) for part in parts)
                    lines.append((kind, weights, form, names[i], step + 1, off, ratio, inside, float(spread[step, i])))
    columns = ["prediction", "weights", "covariance", "quantity", "step", "mean_off_sigma", "std_ratio", "inside_2sigma"]
    return pd.DataFrame(lines, columns=[*columns, "monte_carlo_std"])


def error_table(found: Study, names: Sequence[str], units: Sequence[str]) -> pd.DataFrame:
    """Mean absolute error over all steps of free runs, by state and way of having weights; and of the fair forecaster."""
    import pandas as pd

    d = len(names)
    lines = []
    for i, (name, unit) in enumerate(zip(names, units, strict=True)):
        line: Record = {"state": f"{name} ({unit})"}
        for way, text in WEIGHTS.items():
            line[text] = float(found.errors[way][..., i].mean() * found.robot.width[:d][i])
        line["better"] = min((WEIGHTS["never"], WEIGHTS["before"]), key=lambda text: line[text])
        lines.append(line)
    return pd.DataFrame(lines)


def coverage_table(found: Study, steps: Sequence[int] = (1, 5, 10, 20)) -> pd.DataFrame:
    """Share of what came inside the 2σ bands: fair forecasts with every error counted, and the state's part alone."""
    import pandas as pd

    d, robot, lines = found.robot.n_states, found.robot, []
    for (form, way), (mean, std, truth) in found.fair.items():
        inside, off = np.abs(truth - mean) <= 2.0 * std, np.abs(truth - mean) / robot.width[:d]
        lines.append(_covered(f"pesn.Forecaster, weights {way}", form, inside, off, steps))
    for form in FORMS:
        for way in ("never", "before"):
            pairs = [(one, robot.rows[one.origin + 1 : one.origin + 1 + len(one.samples.mean)]) for one in found.multi[way]]
            off = np.array([np.abs(one.closed[form][0][:, :d] - truth) for one, truth in pairs])
            inside = off <= 2.0 * np.array([one.closed[form][1][:, :d] for one, _ in pairs])
            lines.append(_covered(f"the input's error alone, weights {WEIGHTS[way]}", form, inside, off, steps))
    return pd.DataFrame(lines)


def _covered(name: str, form: str, inside: npt.NDArray[np.bool_], off: Array, steps: Sequence[int]) -> Record:
    share = {f"in 2σ at step {s}, %": round(100.0 * float(inside[:, s - 1].mean()), 1) for s in steps if s <= inside.shape[1]}
    return {"forecast": name, "covariance": form, **share, "mean error, σ of the state": float(off.mean())}
