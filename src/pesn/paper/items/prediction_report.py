"""Predictions of the cart pole and of the AR.Drone, single steps and 20 steps ahead, with 2σ bands beside Monte Carlo.

>>> p = ITEMS[1].parameters(quick=False)
>>> (p["runs"] - 1) * p["run_rows"] + p["train_rows"], p["steps"]
(80300, 20)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt
import pandas as pd

from pesn._support.types import Array
from pesn.paper.claims import CLAIMS, Record, Result, Settings, Tasks, paper_numbers
from pesn.paper.item_settings import TABLES, Item, read_settings
from pesn.paper.items import prediction, sensitivity
from pesn.paper.items import prediction_figures as draw
from pesn.paper.items import prediction_verdicts as verdicts
from pesn.paper.items.figures import Picture
from pesn.paper.items.prediction import FORMS, WEIGHTS, Compared, Scene, Study, leaving
from pesn.paper.items.prediction_verdicts import steps_text
from pesn.paper.items.robots import ARDRONE, CART_POLE, Robot

VARIED: sensitivity.Values = TABLES["varied"]["prediction"]
_MEASURES = {"within": "single-step\nwithin (%)", "leaves": "mean leaves\n(steps)", "updated": "error updated\n÷ frozen"}


@dataclass(frozen=True)
class Experiment:
    """What an item has of its own.

    Figures have ``columns`` columns, that of the updates the states ``shown``. Beside what is published stands what
    ``obtained(study, parameters)`` says of the first draw; ``figures(scene, levels, changes, parameters)`` are of the first draw,
    where velocities and where changes are learned.
    """

    name: str
    robot: Robot
    columns: int
    shown: Sequence[int]
    obtained: Callable[[Study, Record], list[str]]
    figures: Callable[[Scene, Study, Study, Record], dict[str, Picture]] = lambda *_: {}


def run(settings: Settings, tasks: Tasks, own: Experiment) -> Result:
    """Judge all draws and show the first one."""
    p, robot = settings.parameters, own.robot
    seeds = settings.seeds(p["draws"])
    units = [(robot, p, seed, target) for seed in seeds for target in ("level", "change")]
    by_draw = tasks.map(prediction.one_draw, units)
    levels, changes = by_draw[::2], by_draw[1::2]
    scene = prediction.learn(robot, p, seeds[0], "level")
    fair = _fair(tasks, robot, p, seeds[0], scene)
    (letter,) = tasks.map(prediction.letter_errors, [(robot, p, seeds[0])])
    varied = sensitivity.study(settings, tasks, partial(prediction.measure, robot), VARIED)
    targets = [(target, i + 1) for i in range(p["draws"]) for target in ("level", "change")]
    judged = verdicts.judge(levels, changes, robot.velocities)
    if own.name in CLAIMS["higher-dimensions"].items:
        judged.append(verdicts.judge_dimensions(levels))
    common, after = _figures(own, scene, levels, p, seeds[0])
    after["fair-forecast"] = draw.draw_fair(draw.state_view(scene, robot, own.columns), fair), {}
    after["sensitivity"] = sensitivity.draw(varied, p, _MEASURES)
    table = pd.DataFrame(paper_numbers(own.name)).assign(obtained=own.obtained(levels[0], p))
    return Result(
        frame=long_frame(dict(zip(targets, by_draw, strict=True)), robot),
        tables={
            "Published and obtained (the paper's diagonal network)": table[["quantity", "published", "obtained", "where"]],
            "Closed form beside Monte Carlo, all draws": agreement(levels, changes),
            "σ ÷ Monte Carlo's σ by state, multi-step, all draws": by_state(levels, robot.names),
            "Mean error of all steps from an exactly known state, first draw": error_table(
                levels[0], letter, robot, scene.forecaster.scale_.y_std
            ),
            "Observations inside the 2σ bands, first draw": coverage_table(levels[0], scene, fair),
        },
        figures=common | own.figures(scene, levels[0], changes[0], p) | after,
        verdicts=judged,
        lead=_lead(levels, p["steps"]),
        notes=[] if p["calibrate"] else ["In the quick run the fair forecasts are not calibrated on held-back rows."],
    )


def _figures(
    own: Experiment, scene: Scene, levels: Sequence[Study], p: Record, seed: int
) -> tuple[dict[str, Picture], dict[str, Picture]]:
    """Draw the figures before the item's own, and those after them."""
    steps, single, multi = p["steps"], levels[0].single, levels[0].multi
    stretch = {way: multi[way][len(multi["before"]) // 2] for way in ("never", "before")}
    stretch["future"] = prediction.multi_step_with_future(scene, p, stretch["before"].origin, np.random.default_rng([seed, 3]))
    states, outputs = (view(scene, own.robot, own.columns) for view in (draw.state_view, draw.output_view))
    before: dict[str, Picture] = {}
    for name, view, some in (("single-step", outputs, [single]), ("multi-step", states, multi["before"])):
        before[name] = draw.draw_states(view, some), {}
        before[f"{name}-zoomed"] = draw.draw_states(view, some, steps), {}
    every = [one for found in levels for one in found.multi["before"]]
    after: dict[str, Picture] = {
        "updating": (draw.draw_updating(states, stretch, own.shown), {}),
        "agreement": (draw.draw_agreement(every), {}),
    }
    return before, after


def wide(found: Study) -> str:
    """Describe the diagonal standard deviations of the multi-step predictions beside Monte Carlo's."""
    ratio = np.array([one.ratio("diagonal") for one in found.multi["before"]])
    return f"{ratio.min():.2f} to {ratio.max():.2f} times Monte Carlo's σ"


def _fair(tasks: Tasks, robot: Robot, p: Record, seed: int, scene: Scene) -> draw.Fair:
    """Return means, standard deviations and truth, by form and way of updating the weights."""
    origins = prediction.fair_origins(p, len(scene.y), p["fair_every"])
    truth = np.array([scene.run.states[k + 1 : k + 1 + p["steps"]] for k in origins])
    found = tasks.map(prediction.fair_forecasts, [(robot, p, seed, form, origins) for form in FORMS])
    return {(form, name): (*one, truth) for form, both in zip(FORMS, found, strict=True) for name, one in both.items()}


# ---------------------------------------------------------------- tables


def comparisons(found: Study) -> dict[str, list[Compared]]:
    """Return every comparison by a readable name."""
    multi = {f"multi-step, weights {text}": found.multi[name] for name, text in WEIGHTS.items() if name in found.multi}
    units = {"multi-step, uncertain units": found.multi["units"]} if "units" in found.multi else {}
    return {"single-step, the network's outputs": [found.single], **multi, **units}


def agreement(levels: Sequence[Study], changes: Sequence[Study]) -> pd.DataFrame:
    """Tabulate how far closed form and samples agree, a line for each target, comparison and form, over all draws."""
    lines = []
    for learned, studies in (("velocities", levels), ("changes", changes)):
        for name in comparisons(studies[0]):
            every = [one for found in studies for one in comparisons(found)[name]]
            for form in FORMS:
                lines.append({"learned": learned, "prediction": name, "covariance": form, **_agree(every, form)})
    return pd.DataFrame(lines)


def _agree(every: Sequence[Compared], form: str) -> Record:
    ratio, inside = np.array([one.ratio(form) for one in every]), np.array([one.shares[form] for one in every])
    means, widths = (steps_text(steps, ratio.shape[1]) for steps in leaving(every, form))
    return {
        "within 0.1 σ and 10 %, %": round(100.0 * float(np.mean([one.good(form) for one in every])), 1),
        "mean off by, σ": max(float(one.mean_error(form).max()) for one in every),
        "σ ÷ Monte Carlo": f"{ratio.min():.2f} … {np.median(ratio):.2f} … {ratio.max():.2f}",
        "samples in 2σ, %": f"{100 * inside.min():.0f} … {100 * inside.max():.0f}",
        "mean leaves": means,
        "σ leaves": widths,
    }


def by_state(studies: Sequence[Study], names: Sequence[str], steps: Sequence[int] = (1, 5, 10, 20)) -> pd.DataFrame:
    """Tabulate σ ÷ Monte Carlo's of the multi-step prediction, median over draws and segments, by state and step."""
    some = [one for found in studies for one in found.multi["before"]]
    table = {"state": list(names)}
    for form, step in product(FORMS, [s for s in steps if s <= len(some[0].mean)]):
        table[f"{form}, step {step}"] = np.median([one.ratio(form)[step - 1] for one in some], axis=0).round(3).tolist()
    return pd.DataFrame(table)


def long_frame(studies: dict[tuple[str, int], Study], robot: Robot) -> pd.DataFrame:
    """Return a row for each target, draw, comparison, form, quantity and step: medians over the segments, scaled."""
    frames = []
    outputs = [robot.names[i] for i in robot.velocities]
    for (target, index), found in studies.items():
        stretches = [("single-step", "never", outputs, [found.single])]
        stretches += [("multi-step", way, list(robot.names), some) for way, some in found.multi.items()]
        for (kind, weights, names, some), form in product(stretches, FORMS):
            numbers = {
                "mean_off_sigma": [one.mean_error(form) for one in some],
                "std_ratio": [one.ratio(form) for one in some],
                "inside_2sigma": [one.shares[form] for one in some],
                "monte_carlo_std": [one.std for one in some],
            }
            step, column = np.indices(some[0].mean.shape).reshape(2, -1)
            keys = {"target": target, "draw": index, "prediction": kind, "weights": weights, "covariance": form}
            medians = {name: np.median(values, axis=0).ravel() for name, values in numbers.items()}
            frames.append(pd.DataFrame({**keys, "quantity": np.array(names)[column], "step": step + 1, **medians}))
    return pd.concat(frames, ignore_index=True)


def error_table(found: Study, letter: Array, robot: Robot, width: Array) -> pd.DataFrame:
    """Tabulate the mean absolute error over all steps, by state and way of updating the weights, in units of the robot."""
    lines = []
    for i, (name, unit) in enumerate(zip(robot.names, robot.units, strict=True)):
        line: Record = {"state": f"{name} ({unit})"}
        for way, text in WEIGHTS.items():
            line[text] = float(np.nanmean(found.errors[way][..., i]) * width[i])
        line["Algorithm 3 to the letter"] = float(letter[..., i].mean() * width[i])
        line["better"] = min((WEIGHTS["never"], WEIGHTS["before"]), key=lambda text: line[text])
        lines.append(line)
    return pd.DataFrame(lines)


def coverage_table(found: Study, scene: Scene, fair: draw.Fair, steps: Sequence[int] = (1, 5, 10, 20)) -> pd.DataFrame:
    """Tabulate the coverage of the 2σ bands: fair forecasts with every error counted, and the state's part alone."""
    lines = []
    for (form, way), (mean, std, truth) in fair.items():
        inside, off = np.abs(truth - mean) <= 2.0 * std, np.abs(truth - mean) / scene.forecaster.scale_.y_std
        lines.append(_coverage_line(f"pesn.Forecaster, weights {way}", form, inside, off, steps))
    for form in FORMS:
        for way in ("never", "before"):
            pairs = [(one, scene.y[one.origin + 1 : one.origin + 1 + len(one.mean)]) for one in found.multi[way]]
            off = np.array([np.abs(one.closed[form][0] - truth) for one, truth in pairs])
            inside = off <= 2.0 * np.array([one.closed[form][1] for one, _ in pairs])
            lines.append(_coverage_line(f"the input's error alone, weights {WEIGHTS[way]}", form, inside, off, steps))
    return pd.DataFrame(lines)


def _coverage_line(name: str, form: str, inside: npt.NDArray[np.bool_], off: Array, steps: Sequence[int]) -> Record:
    share = {f"in 2σ at step {s}, %": round(100.0 * float(inside[:, s - 1].mean()), 1) for s in steps if s <= inside.shape[1]}
    return {"forecast": name, "covariance": form, **share, "mean error, σ of the state": float(off.mean())}


# ---------------------------------------------------------------- in words


def _lead(levels: Sequence[Study], total: int) -> str | Record:
    """Describe where the mean leaves Monte Carlo at another time than the paper's 4 to 5 steps; empty where it does not."""
    steps = [step for found in levels for step in leaving(found.multi["before"], "diagonal")[0]]
    return "" if 4.0 <= float(np.median(steps)) <= 5.0 else {"leaves": steps_text(steps, total)}


# ---------------------------------------------------------------- the cart pole


def run_cart_pole(settings: Settings, tasks: Tasks) -> Result:
    """Simulate, train, predict, compare."""
    p, seeds = settings.parameters, settings.seeds(settings.parameters["draws"])
    drawn = partial(_cart_pole_figures, seeds[0])
    result = run(settings, tasks, Experiment("cart-pole", CART_POLE, 2, CART_POLE.velocities, _cart_pole_numbers, drawn))
    learned = tasks.map(verdicts.learn_weights, [(p, seed) for seed in seeds])
    result.verdicts.append(verdicts.judge_same_weights(learned, p))
    return result


def _cart_pole_figures(seed: int, scene: Scene, levels: Study, changes: Study, p: Record) -> dict[str, Picture]:
    other = prediction.learn(CART_POLE, p, seed, "change")
    view = draw.output_view(other, CART_POLE, 2)
    own: dict[str, Picture] = {"single-step-changes": (draw.draw_states(view, [changes.single]), {})}
    if "units" in levels.multi:
        own["uncertain-units"] = draw.draw_states(draw.state_view(scene, CART_POLE, 2), levels.multi["units"][:1]), {}
    return own


def _cart_pole_numbers(found: Study, p: Record) -> list[str]:
    single, ratio = found.single, found.single.ratio("diagonal")
    return [
        str(p["steps"]),
        steps_text(leaving(found.multi["before"], "diagonal")[0], p["steps"]),
        wide(found),
        f"mean within {single.mean_error('diagonal').max():.2g} σ; {ratio.min():.2f} to {ratio.max():.2f} times Monte Carlo's σ",
    ]


# ---------------------------------------------------------------- the AR.Drone


_SHOWN = (3, 5, 9)  # of the velocities, where all would be too many


def run_ardrone(settings: Settings, tasks: Tasks) -> Result:
    """Fly, train, predict, compare."""
    return run(settings, tasks, Experiment("ardrone", ARDRONE, 3, _SHOWN, _ardrone_numbers))


def _ardrone_numbers(found: Study, p: Record) -> list[str]:
    kept = verdicts.steps_within_band([one.shares["diagonal"] for one in found.multi["before"]])
    return [
        f"{(p['runs'] - 1) * p['run_rows'] + p['train_rows']:,}",
        f"2σ bands hold 90 to 99 % of the samples for {np.median(kept):g} steps",
        steps_text(leaving(found.multi["before"], "diagonal")[0], p["steps"]),
        wide(found),
    ]


_SHARED = "robots", "prediction", "draws"
ITEMS = (
    Item("cart-pole", read_settings(*_SHARED, "cart-pole"), run_cart_pole, paper_numbers("cart-pole")),
    Item("ardrone", read_settings(*_SHARED, "ardrone"), run_ardrone, paper_numbers("ardrone")),
)
