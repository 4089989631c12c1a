"""The two prediction items' common study: one draw of a robot's runs and of a network, predicted in every way.

>>> from pesn.paper.items import robots
>>> list(WEIGHTS)
['never', 'before', 'future']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array, Target
from pesn.paper.claims import Record
from pesn.paper.items import algorithm_3, prediction, robots
from pesn.paper.items.prediction import FORMS, OFF, WIDE, Compared, Scene, steps_text
from pesn.paper.items.robots import Robot

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ROBOTS", "WEIGHTS", "Study", "fair_origins", "leaving", "of_draw", "one_draw"]

ROBOTS = {"cart-pole": robots.CART_POLE, "ardrone": robots.ARDRONE}
# Three ways of having weights; the last is that of Algorithm 3.
WEIGHTS = {
    "never": "never updated",
    "before": "updated up to the origin (fair)",
    "future": "as in the paper: sees the future",
}


@dataclass(frozen=True, eq=False)
class Study:
    """What one draw says: ``single`` of the outputs, ``multi`` of the states, by weights, "units" from uncertain units.

    ``errors`` (origins, steps, d) of free runs, absolute and scaled, by the way of having weights; NaN where weights were not
    updated inside the forecast, which is done from some of the origins alone.
    """

    single: Compared
    multi: dict[str, list[Compared]]
    errors: dict[str, Array]


def one_draw(name: str, p: Record, seed: int, target: Target) -> Record:
    """A unit of work: all that :class:`Study` holds, in arrays."""
    scene, steps = prediction.learn(ROBOTS[name], p, seed, target), p["steps"]
    rng, given = np.random.default_rng([seed, 2]), (steps, p["input_std"], p["samples"])
    at = [scene.first + steps * i for i in range(p["segments"])]
    single = prediction.single_step(scene, scene.first, steps * p["segments"], p["input_std"], p["samples"], rng)
    before = prediction.updated(scene, at)
    multi = {
        "never": [prediction.multi_step(scene, scene.esn, k, *given, rng) for k in at],
        "before": [prediction.multi_step(scene, esn, k, *given, rng) for k, esn in zip(at, before, strict=True)],
    }
    if p["unit_std"]:
        units = steps, 0.0, p["samples"]
        multi["units"] = [prediction.multi_step(scene, scene.esn, k, *units, rng, p["unit_std"]) for k in at]
    return {
        "single": tuple(single),
        "multi": {way: [tuple(one) for one in some] for way, some in multi.items()},
        "errors": _errors(scene, p),
    }


def of_draw(found: Record) -> Study:
    """The study of a draw from its arrays."""
    multi = {way: [Compared(*one) for one in some] for way, some in found["multi"].items()}
    return Study(Compared(*found["single"]), multi, found["errors"])


def _errors(scene: Scene, p: Record) -> dict[str, Array]:
    """|prediction − truth| of free runs from exactly known rows, by the way of having weights."""
    steps, plain, at = p["steps"], scene.plain, _origins(scene, p)
    found = {name: np.full((len(at), steps, plain.n_states), np.nan) for name in WEIGHTS}
    for i, (k, esn) in enumerate(zip(at, prediction.updated(scene, at), strict=True)):
        truth, u = scene.y[k + 1 : k + 1 + steps], scene.u[k : k + steps]
        h, y, weights = scene.units[k - 1], scene.y[k], np.asarray(esn.readout_.weights, float)
        found["never"][i] = plain.forecast(h, y, u)[0] - truth
        found["before"][i] = plain.forecast(h, y, u, weights)[0] - truth
        if not i % p["future_every"]:
            state, known = prediction.state_of(scene, k), np.zeros(plain.n_states)
            found["future"][i] = algorithm_3.in_its_loop(esn, plain, state, y, known, u, truth)[0] - truth
    return {name: np.abs(some) for name, some in found.items()}


def _origins(scene: Scene, p: Record) -> list[int]:
    return fair_origins(p, len(scene.y))


def fair_origins(p: Record, rows: int, every: int = 1) -> list[int]:
    """Rows that free runs begin at, in a run of so many rows; each ``every``-th of them."""
    last = min(p["train_rows"] + p["test_rows"], rows) - p["steps"] - 1
    return list(range(p["train_rows"], last, p["origin_every"]))[::every]


def letter_errors(name: str, p: Record, seed: int) -> Array:
    """The same as errors of the studies, (origins, steps, d), of Algorithm 3 to the letter, whose inputs are the true states."""
    scene = prediction.learn(ROBOTS[name], p, seed, "level")
    esn, found = robots.fed_back(scene.forecaster, scene.training, p, seed), []
    for k in _origins(scene, p)[:: p["future_every"]]:
        ahead = slice(k, k + p["steps"])
        washout = scene.z[max(k - 100, 0) : k]
        path = algorithm_3.states_to_the_letter(esn, scene.plain, washout, scene.z[ahead], scene.y[k : ahead.stop + 1])
        found.append(np.abs(path - scene.y[k + 1 : ahead.stop + 1]))
    return np.array(found)


def told_the_future(scene: Scene, p: Record, k: int, rng: np.random.Generator) -> Compared:
    """A stretch of Algorithm 3 in its own loop, variances alone, beside samples with the weights that each step had."""
    steps, std, n = p["steps"], p["input_std"], p["samples"]
    (esn,) = prediction.updated(scene, [k])
    d = scene.y.shape[1]
    esn.set_params(**FORMS["diagonal"])
    ahead = slice(k + 1, k + 1 + steps)
    mean, deviation, weights = algorithm_3.in_its_loop(
        esn, scene.plain, prediction.state_of(scene, k), scene.y[k], np.full(d, std**2), scene.u[k : k + steps], scene.y[ahead]
    )
    h = np.tile(scene.units[k - 1], (n, 1))
    y = scene.y[k] + std * prediction.pairs(rng, n, d)
    states, _ = scene.plain.forecast(h, y, scene.u[k : k + steps, None], weights)
    inside = (np.abs(states - mean[:, None]) <= 2.0 * deviation[:, None]).mean(axis=1)
    return Compared(k, {"diagonal": (mean, deviation)}, states.mean(axis=1), states.std(axis=1), {"diagonal": inside})


# ---------------------------------------------------------------- in numbers


def leaving(some: Sequence[Compared], form: str) -> tuple[list[int], list[int]]:
    """For each stretch the steps until the mean, and until the deviation, has left the samples' in any of the states."""
    means = [prediction.steps_until((one.off(form) <= OFF).all(axis=1)) for one in some]
    widths = [prediction.steps_until((np.abs(one.ratio(form) - 1.0) <= WIDE).all(axis=1)) for one in some]
    return means, widths


def pooled(found: Study) -> dict[str, list[Compared]]:
    """Every comparison by a name for people."""
    multi = {f"multi-step, weights {text}": found.multi[name] for name, text in WEIGHTS.items() if name in found.multi}
    units = {"multi-step, uncertain units": found.multi["units"]} if "units" in found.multi else {}
    return {"single-step, the network's outputs": [found.single], **multi, **units}


def agreement(levels: Sequence[Study], changes: Sequence[Study]) -> pd.DataFrame:
    """One line for each target, comparison and form, over all draws: how far closed form and samples agree."""
    import pandas as pd

    lines = []
    for learned, studies in (("velocities", levels), ("changes", changes)):
        for name in pooled(studies[0]):
            every = [one for found in studies for one in pooled(found)[name]]
            for form in FORMS:
                off, ratio = (np.array([getattr(one, what)(form) for one in every]) for what in ("off", "ratio"))
                inside = np.array([one.shares[form] for one in every])
                good = (off <= OFF) & (np.abs(ratio - 1.0) <= WIDE)
                means, widths = leaving(every, form)
                line: Record = {"learned": learned, "prediction": name, "covariance": form}
                line["within 0.1 σ and 10 %, %"] = round(100.0 * float(good.mean()), 1)
                line["mean off by, σ"] = float(off.max())
                line["σ ÷ Monte Carlo"] = f"{ratio.min():.2f} … {np.median(ratio):.2f} … {ratio.max():.2f}"
                line["samples in 2σ, %"] = f"{100 * inside.min():.0f} … {100 * inside.max():.0f}"
                total = ratio.shape[1]
                line["mean leaves"], line["σ leaves"] = steps_text(means, total), steps_text(widths, total)
                lines.append(line)
    return pd.DataFrame(lines)


def by_state(studies: Sequence[Study], names: Sequence[str], steps: Sequence[int] = (1, 5, 10, 20)) -> pd.DataFrame:
    """σ ÷ Monte Carlo of the multi-step prediction with fair weights, the median over draws and stretches, by state and step."""
    import pandas as pd

    some = [one for found in studies for one in found.multi["before"]]
    lines = []
    for i, name in enumerate(names):
        line: Record = {"state": name}
        for form in FORMS:
            for step in [s for s in steps if s <= len(some[0].mean)]:
                line[f"{form}, step {step}"] = round(float(np.median([one.ratio(form)[step - 1, i] for one in some])), 3)
        lines.append(line)
    return pd.DataFrame(lines)


def long_frame(studies: dict[tuple[str, int], Study], robot: Robot) -> pd.DataFrame:
    """A row for each target, draw, comparison, form, quantity and step: medians over the stretches, deviations scaled."""
    import pandas as pd

    lines = []
    outputs = [robot.names[i] for i in robot.velocities]
    for (target, draw), found in studies.items():
        single = [("single-step", "never", [found.single])]
        for kind, weights, some in (*single, *(("multi-step", way, some) for way, some in found.multi.items())):
            names = outputs if kind == "single-step" else robot.names
            for form in FORMS:
                off, ratio = (np.median([getattr(one, what)(form) for one in some], axis=0) for what in ("off", "ratio"))
                inside = np.median([one.shares[form] for one in some], axis=0)
                spread = np.median([one.std for one in some], axis=0)
                for (step, i), _ in np.ndenumerate(off):
                    numbers = (float(part[step, i]) for part in (off, ratio, inside, spread))
                    lines.append((target, draw, kind, weights, form, names[i], step + 1, *numbers))
    columns = ["target", "draw", "prediction", "weights", "covariance", "quantity", "step"]
    return pd.DataFrame(lines, columns=[*columns, "mean_off_sigma", "std_ratio", "inside_2sigma", "monte_carlo_std"])


def error_table(found: Study, letter: Array, robot: Robot, width: Array) -> pd.DataFrame:
    """Mean absolute error over all steps of free runs, by state and way of having weights, in units of the robot."""
    import pandas as pd

    lines = []
    for i, (name, unit) in enumerate(zip(robot.names, robot.units, strict=True)):
        line: Record = {"state": f"{name} ({unit})"}
        for way, text in WEIGHTS.items():
            line[text] = float(np.nanmean(found.errors[way][..., i]) * width[i])
        line["Algorithm 3 to the letter"] = float(letter[..., i].mean() * width[i])
        line["better"] = min((WEIGHTS["never"], WEIGHTS["before"]), key=lambda text: line[text])
        lines.append(line)
    return pd.DataFrame(lines)


def coverage_table(
    found: Study, scene: Scene, fair: dict[tuple[str, str], tuple[Array, Array, Array]], steps: Sequence[int] = (1, 5, 10, 20)
) -> pd.DataFrame:
    """Share of what came inside the 2σ bands: fair forecasts with every error counted, and the state's part alone."""
    import pandas as pd

    lines = []
    for (form, way), (mean, std, truth) in fair.items():
        inside, off = np.abs(truth - mean) <= 2.0 * std, np.abs(truth - mean) / scene.forecaster.scale_.y_std
        lines.append(_covered(f"pesn.Forecaster, weights {way}", form, inside, off, steps))
    for form in FORMS:
        for way in ("never", "before"):
            pairs = [(one, scene.y[one.origin + 1 : one.origin + 1 + len(one.mean)]) for one in found.multi[way]]
            off = np.array([np.abs(one.closed[form][0] - truth) for one, truth in pairs])
            inside = off <= 2.0 * np.array([one.closed[form][1] for one, _ in pairs])
            lines.append(_covered(f"the input's error alone, weights {WEIGHTS[way]}", form, inside, off, steps))
    return pd.DataFrame(lines)


def _covered(name: str, form: str, inside: npt.NDArray[np.bool_], off: Array, steps: Sequence[int]) -> Record:
    share = {f"in 2σ at step {s}, %": round(100.0 * float(inside[:, s - 1].mean()), 1) for s in steps if s <= inside.shape[1]}
    return {"forecast": name, "covariance": form, **share, "mean error, σ of the state": float(off.mean())}


def small(p: Record) -> Record:
    """Settings of a draw small enough to be made many times."""
    fewer = {"runs": min(p["runs"], 4), "segments": 2, "samples": min(p["samples"], 400)}
    return {**p, **fewer, "unit_std": 0.0, "future_every": 1000}


def measure(name: str, p: Record, seed: int) -> dict[str, float]:
    """A small draw in three numbers."""
    found = of_draw(one_draw(name, small(p), seed, "level"))
    single, at = found.single, list(ROBOTS[name].velocities)
    good = (single.off("diagonal") <= OFF) & (np.abs(single.ratio("diagonal") - 1.0) <= WIDE)
    wrong = {way: float(found.errors[way][..., at].mean()) for way in ("never", "before")}
    return {
        "within": 100.0 * float(good.mean()),
        "leaves": float(np.median(leaving(found.multi["before"], "diagonal")[0])),
        "updated": wrong["before"] / wrong["never"],
    }
