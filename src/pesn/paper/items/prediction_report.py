"""Predictions of the cart pole and of the AR.Drone, single steps and 20 steps ahead, with 2σ bands beside Monte Carlo.

>>> p = ITEMS[1].parameters(quick=False)
>>> (p["runs"] - p["test_runs"]) * p["run_rows"] + p["train_rows"], p["steps"]
(80300, 20)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np
import pandas as pd

from pesn import Gaussian, ProbabilisticESN
from pesn._support.types import Array
from pesn.paper.claims import (
    Draw,
    Record,
    Result,
    Settings,
    Tasks,
    Verdict,
    grade,
    median_range,
    over_columns,
    over_draws,
    paper_numbers,
)  # fmt: skip
from pesn.paper.item_settings import Item, Setting, our_parameters, read_settings
from pesn.paper.items import prediction, robots
from pesn.paper.items.figures import Picture
from pesn.paper.items.prediction import FORMS, WEIGHTS, WIDE, Compared, Sampling, Scene, Study, leaving, steps_until, within
from pesn.paper.items.robots import ARDRONE, CART_POLE, Robot
from pesn.paper.items.washout import COLUMNS

# ---------------------------------------------------------------- verdicts

_FEW = 0.2  # of what is wrong: what is so rare is not the rule
MOST = 0.9  # of all cases: what holds in so many is true of them
_LEAVES = 2.0, 8.0  # steps that pass for the paper's "4 to 5": from half as many to a half more than twice as many
_ALIKE = 2.0 / 3.0, 1.5  # deviations that grow alike
_NEEDED = 0.7  # of an error: what lowers it by 30 % is needed


def steps_text(steps: Sequence[int], total: int) -> str:
    """Format the median with its range; what never leaves is "not in 20", and a median of 19.5 is 19.5.

    >>> steps_text([4, 5, 9], 20), steps_text([20, 20], 20), steps_text([19, 20], 20)
    ('after 5 (4–9) steps', 'not in 20 steps', 'after 19.5 (19–>20) steps')
    """
    if min(steps) >= total:
        return f"not in {total} steps"
    low, high = min(steps), max(steps)
    middle = float(np.median(steps))
    among = "" if low == high else f" ({low}–{'>' if high >= total else ''}{high})"
    return f"after {'>' if middle >= total else ''}{middle:g}{among} steps"


# ---------------------------------------------------------------- one draw


def grade_cross_terms(ratio: Array) -> Draw:
    """Grade standard deviations without covariances ÷ those of samples: where they differ by 10 %, how often are they below?"""
    below, above = float(np.mean(ratio < 1.0 - WIDE)), float(np.mean(ratio > 1.0 + WIDE))
    share = below / (below + above) if below + above else 0.0
    return Draw(grade(share >= MOST, share > _FEW), share)


def grade_single_step(one: Compared) -> Draw:
    """Grade single steps: within 0.1 σ and 10 % in nine of ten cases, or in more than half of them."""
    share = within(one)
    return Draw(grade(share >= MOST, share > 0.5), share)


def grade_multi_step(steps: Sequence[int], ratio: Array) -> Draw:
    """Grade two halves: the mean leaves after about 4 to 5 steps; the standard deviations grow alike, within a factor 1.5.

    One of them alone is a part.
    """
    median = float(np.median(steps))
    leaves, alike = _LEAVES[0] <= median <= _LEAVES[1], _alike(ratio) >= MOST
    return Draw(grade(leaves and alike, leaves or alike), median)


def _alike(ratio: Array) -> float:
    return float(np.mean((ratio >= _ALIKE[0]) & (ratio <= _ALIKE[1])))


def steps_within_band(shares: Sequence[Array] | Array) -> list[int]:
    """Return for each segment (segments, steps, states) the steps for which mean ± 2 σ holds 90 to 99 % of the samples.

    A Gaussian has 95 % there.
    """
    return [steps_until(((one >= 0.90) & (one <= 0.99)).all(axis=1)) for one in shares]


def grade_twenty_steps(diagonal: Array, full: Array) -> Draw:
    """Grade the shares of points in mean ± 2 σ: within range for all steps by the paper's form, or by the full covariance alone.

    The claim is one of every stretch, the part one of three in four: the value is the least steps of the paper's form.
    """
    total = diagonal.shape[1]
    kept, ours = float(min(steps_within_band(diagonal))), sorted(steps_within_band(full))[len(full) // 4]
    return Draw(grade(kept >= total, ours >= total), kept)


def grade_updating(frozen: float, before: float, future: float) -> Draw:
    """Grade mean errors with weights never updated, updated before the origin, and updated inside the forecast.

    >>> grade_updating(frozen=1.0, before=0.9, future=0.2)
    Draw(outcome='holds in part', value=0.9)
    """
    ratio = before / frozen
    return Draw(grade(ratio <= _NEEDED, future <= _NEEDED * frozen), ratio)


# ---------------------------------------------------------------- over the draws

Columns: TypeAlias = Sequence[Sequence[Study]]  # the draws as in the paper, and ours


def judge(columns: Columns) -> list[Verdict]:
    """Judge the five claims, as in the paper and in our regime."""
    return [_cross_terms(columns), _single_step(columns), _multi_step(columns), _twenty(columns), _updating(columns)]


def grade_dimensions(single: float, multi: float, full: float) -> Draw:
    """Grade the shares of single-step outputs and of multi-step standard deviations that agree with the samples.

    One of them is half of the claim, and so are the full covariance's deviations alone.
    """
    kept = [share >= MOST for share in (single, multi, full)]
    return Draw(grade(all(kept[:2]), any(kept)), multi)


def judge_dimensions(columns: Columns) -> Verdict:
    """Judge whether variances alone suffice for a system of more states; the full covariance beside."""
    single = [[within(found.single) for found in studies] for studies in columns]
    multi = {form: [[_alike(_ratios(found, form)) for found in studies] for studies in columns] for form in FORMS}
    d, m = (columns[0][0].multi["before"][0].mean.shape[1], columns[0][0].single.mean.shape[1])
    draws = [
        [grade_dimensions(*shares) for shares in zip(*parts, strict=True)]
        for parts in zip(single, multi["diagonal"], multi["full"], strict=True)
    ]
    values = {"d": d, "m": m, "single": _percents(single), **{form: _percents(some) for form, some in multi.items()}}
    return over_columns("higher-dimensions", draws, values, limits=[MOST])


def _percents(columns: Sequence[Sequence[float]]) -> str:
    """Format shares of both columns, the median over the draws."""
    theirs, ours = (f"{100 * np.median(some):.0f} %" for some in columns)
    return f"{theirs} (ours: {ours})"


def _ratios(found: Study, form: str) -> Array:
    """Return standard deviations ÷ the points', (segments, steps, states), weights updated before each segment."""
    return np.array([one.ratio(form) for one in found.multi["before"]])


def _cross_terms(columns: Columns) -> Verdict:
    def ratio(found: Study) -> Array:
        every = [found.single, *(one for some in found.multi.values() for one in some)]
        return np.concatenate([one.ratio("diagonal").ravel() for one in every])

    each = [[ratio(found) for found in studies] for studies in columns]
    both = [np.concatenate(some) for some in each]
    values: Record = {"least": min(map(np.min, both)), "most": max(map(np.max, both))}
    values["below"] = _percents([[float(np.mean(some < 1.0 - WIDE))] for some in both])
    values["above"] = _percents([[float(np.mean(some > 1.0 + WIDE))] for some in both])
    draws = [[grade_cross_terms(one) for one in some] for some in each]
    return over_columns("cross-terms-underestimate", draws, values, limits=[_FEW, MOST])


def _single_step(columns: Columns) -> Verdict:
    draws = [[grade_single_step(found.single) for found in studies] for studies in columns]
    full = [[float((np.abs(found.single.ratio("full") - 1.0) <= 0.02).mean()) for found in studies] for studies in columns]
    shares = [[within(found.single) for found in studies] for studies in columns]
    return over_columns("single-step", draws, {"within": _percents(shares), "full": _percents(full)}, limits=[0.5, MOST])


def _multi_step(columns: Columns) -> Verdict:
    def leave(studies: Sequence[Study], form: str) -> list[list[int]]:
        return [leaving(found.multi["before"], form)[0] for found in studies]

    ratios = [[_ratios(found, "diagonal") for found in studies] for studies in columns]
    total, values = ratios[0][0].shape[1], dict[str, object]()
    for name, studies, some in zip(("theirs", "ours"), columns, ratios, strict=True):
        steps = {form: [step for draw in leave(studies, form) for step in draw] for form in FORMS}
        values[name] = {form: steps_text(each, total) for form, each in steps.items()}
        values[name] |= {"alike": 100 * _alike(np.concatenate(some))}  # type: ignore[operator]
    draws = [
        [grade_multi_step(*one) for one in zip(leave(studies, "diagonal"), some, strict=True)]
        for studies, some in zip(columns, ratios, strict=True)
    ]
    return over_columns("multi-step-mean", draws, {**values, "pass": _LEAVES}, limits=_LEAVES)


def _twenty(columns: Columns) -> Verdict:
    def shares(found: Study, form: str) -> Array:
        return np.array([one.shares[form] for one in found.multi["before"]])

    values: Record = {"total": columns[0][0].multi["before"][0].mean.shape[0]}
    for name, studies in zip(("theirs", "ours"), columns, strict=True):
        kept = {form: [step for found in studies for step in steps_within_band(shares(found, form))] for form in FORMS}
        values[name] = {form: f"{np.median(some):g}" for form, some in kept.items()}
    draws = [[grade_twenty_steps(*(shares(found, form) for form in FORMS)) for found in studies] for studies in columns]
    return over_columns("twenty-steps", draws, values, limits=[float(values["total"])])


def _updating(columns: Columns) -> Verdict:
    def wrong(found: Study) -> tuple[float, float]:
        never, before, future = (found.errors[way].mean(axis=(1, 2)) for way in WEIGHTS)
        known = ~np.isnan(future)
        return float(before.mean() / never.mean()), float(future[known].mean() / never[known].mean())

    each = [[wrong(found) for found in studies] for studies in columns]
    values = {
        name: {way: _times([draw[i] for draw in some]) for i, way in enumerate(("before", "future"))}
        for name, some in zip(("theirs", "ours"), each, strict=True)
    }
    draws = [[grade_updating(1.0, *ratios) for ratios in some] for some in each]
    return over_columns("needs-updating", draws, values, limits=[_NEEDED])


def _times(values: Sequence[float]) -> str:
    return f"{median_range(values, '.2f')} times"


# ---------------------------------------------------------------- the weights of Monte Carlo


_START = 0.5  # deviation of the random starts
_UPDATED = 300  # rows over which the weights are updated
_SAME = 0.01  # of the outputs' deviation: nearer than that, predictions are called the same


def learn_weights(p: Record, seed: int) -> tuple[float, float]:
    """Measure how far predictions are apart with weights that were trained, and then updated, by either network.

    The PESN is trained as Algorithm 2 has it, from a Gaussian start on the means of its units; a deterministic network from a
    random start. Then the PESN's weights are updated by the rows as they are, a deterministic network's by rows with errors, as
    a sample has them.
    """
    forecaster, runs = robots.learn(robots.CART_POLE, p, seed)
    velocities, rng = forecaster.model_.columns.learned, np.random.default_rng([seed, 2])
    scaled = [forecaster.standardize(runs[k].states, runs[k].inputs) for k in range(len(runs))]
    inputs, targets = [np.hstack(pair)[:-1] for pair in scaled], [y[1:, velocities] for y, _ in scaled]
    n, lengths = p["n_units"], [len(z) for z in inputs[:-1]]

    def train(mean: Array, var: float) -> ProbabilisticESN:
        start = Gaussian(mean, var=np.full(n, var))
        esn = robots.network(p, inputs[0].shape[1], seed, initial_state=start)
        return esn.fit(np.vstack(inputs[:-1]), np.vstack(targets[:-1]), lengths=lengths).set_params(initial_state="zero")

    both = train(np.zeros(n), _START**2), train(_START * rng.standard_normal((n,)), 0.0)
    rows, after = inputs[-1], min(_UPDATED, len(inputs[-1]) // 2)

    def apart() -> float:
        one, two = (np.asarray(esn.predict(rows))[after:] for esn in both)
        return float(np.sqrt(np.mean(np.square(one - two)) / np.mean(np.square(targets[-1]))))

    before = apart()
    for esn, error in zip(both, (0.0, p["input_std"]), strict=True):
        esn.partial_fit(rows[:after] + error * rng.standard_normal((after, rows.shape[1])), targets[-1][:after])
    return before, apart()


def grade_same_weights(trained: float, updated: float) -> Draw:
    """Grade one draw: holds where both ways give the same weights, in part where only training does.

    >>> grade_same_weights(1e-9, 0.12).outcome, grade_same_weights(1e-9, 1e-3).outcome, grade_same_weights(0.2, 0.2).outcome
    ('holds in part', 'holds', 'does not hold')
    """
    return Draw(grade(max(trained, updated) <= _SAME, trained <= _SAME), updated)


def judge_same_weights(draws: Sequence[tuple[float, float]], p: Record) -> Verdict:
    """Judge what each draw's networks learned."""
    trained, updated = ([np.median(some), some.min(), some.max()] for some in np.transpose(draws))
    values = {**p, "trained": trained, "updated": updated, "rows": _UPDATED}
    return over_draws("same-weights", [grade_same_weights(*draw) for draw in draws], values, limits=(_SAME,))


@dataclass(frozen=True)
class Experiment:
    """What an item has of its own.

    Figures have ``columns`` columns, that of the updates the states ``shown``. Beside what is published stands what
    ``obtained(study, parameters)`` says of the first draw of a column.
    """

    name: str
    robot: Robot
    columns: int
    shown: Sequence[int]
    obtained: Callable[[Study, Record], list[str]]

    @property
    def settings(self) -> dict[str, Setting]:
        """Settings of the item."""
        own = ("cart",) if self.robot is CART_POLE else ()
        return read_settings("robots", *own, "draws", "prediction", self.name)


def run(settings: Settings, tasks: Tasks, own: Experiment) -> Result:
    """Judge all draws and show the first one."""
    p, robot = settings.parameters, own.robot
    seeds = settings.seeds(p["draws"])
    ours = our_parameters(own.settings, p)
    by_draw = tasks.map(prediction.one_draw, [(robot, q, seed) for q in (p, ours) for seed in seeds])
    columns = by_draw[: len(seeds)], by_draw[len(seeds) :]
    scene = prediction.learn(robot, p, seeds[0])
    judged = judge(columns)
    if robot is ARDRONE:
        judged.append(judge_dimensions(columns))
    table = pd.DataFrame(paper_numbers(own.name))
    obtained = {name: own.obtained(some[0], q) for name, some, q in zip(COLUMNS, columns, (p, ours), strict=True)}
    table = table[["quantity", "published"]].assign(**obtained).assign(where=table["where"])
    return Result(
        frame=long_frame(columns, robot),
        tables={
            "Published and obtained (the paper's diagonal network)": table,
            "Closed form beside Monte Carlo, all draws": agreement(columns),
            "Mean error of all steps from an exactly known state, as in the paper, first draw": error_table(
                columns[0][0], robot, scene.forecaster.scale_.y_std
            ),
        },
        figures=_figures(own, scene, columns, p, seeds[0]),
        verdicts=judged,
        lead=_lead(columns, p["steps"]),
    )


def _figures(own: Experiment, scene: Scene, columns: Columns, p: Record, seed: int) -> dict[str, Picture]:
    """Draw the first draw of the paper's column, and how well all draws agree."""
    found, how = columns[0][0], Sampling(p["steps"], p["samples"], seed % 2**31, p["input_std"])
    middle = found.multi["before"][len(found.multi["before"]) // 2]
    stretch = {
        "never": prediction.multi_step(scene, scene.esn, middle.origin, how),
        "before": middle,
        "future": prediction.multi_step_with_future(scene, p, middle.origin, seed),
    }
    states, outputs = prediction.state_view(scene, own.robot, own.columns), prediction.output_view(scene, own.robot)
    every = {name: [one for study in some for one in study.multi["before"]] for name, some in zip(COLUMNS, columns, strict=True)}
    drawn: dict[str, Picture] = {
        "agreement": (prediction.draw_agreement(every), {}),
        "single-step": (prediction.draw_states(outputs, found.single, p["steps"]), {}),
        "multi-step": (prediction.draw_states(states, middle, p["steps"]), {}),
        "updating": (prediction.draw_updating(states, stretch, own.shown), {}),
    }
    if "units" in found.multi:
        drawn["uncertain-units"] = prediction.draw_states(states, found.multi["units"][0], p["steps"]), {}
    return drawn


def wide(found: Study) -> str:
    """Describe the diagonal standard deviations of the multi-step predictions beside Monte Carlo's."""
    ratio = np.array([one.ratio("diagonal") for one in found.multi["before"]])
    return f"{ratio.min():.2f} to {ratio.max():.2f} times Monte Carlo's σ"


# ---------------------------------------------------------------- tables


def comparisons(found: Study) -> dict[str, list[Compared]]:
    """Return every comparison by a readable name."""
    units = {"multi-step, uncertain units": found.multi["units"]} if "units" in found.multi else {}
    return {"single-step, the network's outputs": [found.single], "multi-step": found.multi["before"], **units}


def agreement(columns: Columns) -> pd.DataFrame:
    """Tabulate how far closed form and points agree, a line for each column, comparison and form, over all draws."""
    lines = []
    for column, studies in zip(COLUMNS, columns, strict=True):
        for name in comparisons(studies[0]):
            every = [one for found in studies for one in comparisons(found)[name]]
            lines += [{"regime": column, "prediction": name, "covariance": form, **_agree(every, form)} for form in FORMS]
    return pd.DataFrame(lines)


def _agree(every: Sequence[Compared], form: str) -> Record:
    ratio, inside = np.array([one.ratio(form) for one in every]), np.array([one.shares[form] for one in every])
    means, widths = (steps_text(steps, ratio.shape[1]) for steps in leaving(every, form))
    return {
        "σ within 2 %, %": round(100.0 * float((np.abs(ratio - 1.0) <= 0.02).mean()), 1),
        "within 0.1 σ and 10 %, %": round(100.0 * float(np.mean([one.good(form) for one in every])), 1),
        "mean off by, σ": max(float(one.mean_error(form).max()) for one in every),
        "σ ÷ Monte Carlo": f"{ratio.min():.2f} … {np.median(ratio):.2f} … {ratio.max():.2f}",
        "points in 2σ, %": f"{100 * inside.min():.0f} … {100 * inside.max():.0f}",
        "mean leaves": means,
        "σ leaves": widths,
    }


def long_frame(columns: Columns, robot: Robot) -> pd.DataFrame:
    """Return a row for each column, draw, comparison, form, quantity and step: medians over the segments, scaled."""
    frames = []
    for column, studies in zip(COLUMNS, columns, strict=True):
        for (index, found), form in product(enumerate(studies, 1), FORMS):
            for kind, some in comparisons(found).items():
                numbers = {
                    "mean_off_sigma": [one.mean_error(form) for one in some],
                    "std_ratio": [one.ratio(form) for one in some],
                    "inside_2sigma": [one.shares[form] for one in some],
                    "monte_carlo_std": [one.std for one in some],
                }
                step, place = np.indices(some[0].mean.shape).reshape(2, -1)
                names = robot.names if some[0].mean.shape[1] == len(robot.names) else [robot.names[i] for i in robot.learned]
                keys = {"column": column, "draw": index, "prediction": kind, "covariance": form}
                medians = {name: np.median(values, axis=0).ravel() for name, values in numbers.items()}
                frames.append(pd.DataFrame({**keys, "quantity": np.array(names)[place], "step": step + 1, **medians}))
    return pd.concat(frames, ignore_index=True)


def error_table(found: Study, robot: Robot, width: Array) -> pd.DataFrame:
    """Tabulate the mean absolute error over all steps, by state and way of updating the weights, in units of the robot."""
    lines = []
    for i, (name, unit) in enumerate(zip(robot.names, robot.units, strict=True)):
        line: Record = {"state": f"{name} ({unit})"}
        for way, text in WEIGHTS.items():
            line[text] = float(np.nanmean(found.errors[way][..., i]) * width[i])
        line["better"] = min((WEIGHTS["never"], WEIGHTS["before"]), key=lambda text: line[text])
        lines.append(line)
    return pd.DataFrame(lines)


# ---------------------------------------------------------------- in words


def _lead(columns: Columns, total: int) -> Record:
    """Describe when the mean leaves Monte Carlo in both regimes."""
    steps = [[step for found in studies for step in leaving(found.multi["before"], "diagonal")[0]] for studies in columns]
    theirs, ours = (steps_text(some, total) for some in steps)
    return {"theirs": theirs, "ours": ours}


# ---------------------------------------------------------------- the cart pole


def run_cart_pole(settings: Settings, tasks: Tasks) -> Result:
    """Simulate, train, predict, compare."""
    ours, seeds = our_parameters(_CART.settings, settings.parameters), settings.seeds(settings.parameters["draws"])
    result = run(settings, tasks, _CART)
    learned = tasks.map(learn_weights, [(ours, seed) for seed in seeds])
    result.verdicts.append(judge_same_weights(learned, ours))
    return result


def _cart_pole_numbers(found: Study, p: Record) -> list[str]:
    single, ratio = found.single, found.single.ratio("diagonal")
    return [
        str(p["steps"]),
        steps_text(leaving(found.multi["before"], "diagonal")[0], p["steps"]),
        wide(found),
        f"mean within {single.mean_error('diagonal').max():.2g} σ; {ratio.min():.2f} to {ratio.max():.2f} times Monte Carlo's σ",
    ]


_CART = Experiment("cart-pole", CART_POLE, 2, CART_POLE.velocities, _cart_pole_numbers)


# ---------------------------------------------------------------- the AR.Drone


_SHOWN = (3, 5, 9)  # of the velocities, where all would be too many


def run_ardrone(settings: Settings, tasks: Tasks) -> Result:
    """Fly, train, predict, compare."""
    return run(settings, tasks, _DRONE)


def _ardrone_numbers(found: Study, p: Record) -> list[str]:
    kept = steps_within_band([one.shares["diagonal"] for one in found.multi["before"]])
    return [
        f"{(p['runs'] - 1) * p['run_rows'] + p['train_rows']:,}",
        f"2σ bands hold 90 to 99 % of the samples for {np.median(kept):g} steps",
        steps_text(leaving(found.multi["before"], "diagonal")[0], p["steps"]),
        wide(found),
    ]


_DRONE = Experiment("ardrone", ARDRONE, 3, _SHOWN, _ardrone_numbers)


ITEMS = (
    Item("cart-pole", _CART.settings, run_cart_pole, paper_numbers("cart-pole")),
    Item("ardrone", _DRONE.settings, run_ardrone, paper_numbers("ardrone")),
)
