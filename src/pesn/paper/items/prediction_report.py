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

from pesn import Gaussian, ProbabilisticESN
from pesn._support.types import Array
from pesn.paper.claims import Draw, Record, Result, Settings, Tasks, Verdict, grade, median_range, over_draws, paper_numbers
from pesn.paper.item_settings import TABLES, Item, read_settings
from pesn.paper.items import prediction, robots, sensitivity
from pesn.paper.items.figures import Picture
from pesn.paper.items.prediction import FORMS, WEIGHTS, WIDE, Compared, Scene, Study, leaving, steps_until, within
from pesn.paper.items.robots import ARDRONE, CART_POLE, Robot

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
    """Grade single steps: within 0.1 σ and 10 % in nine of ten cases; corrected where that is so of more than half of them."""
    share = within(one)
    return Draw(grade(share >= MOST, share > 0.5), share)


def grade_multi_step(steps: Sequence[int], ratio: Array) -> Draw:
    """Grade two halves: the mean leaves after about 4 to 5 steps; the standard deviations grow alike, within a factor 1.5.

    One of them alone is a correction.
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
    """Grade the shares of samples in mean ± 2 σ: within range for all steps by the paper's form, or by the full covariance alone.

    The claim is one of every stretch, the correction one of three in four: the value is the least steps of the paper's form.
    """
    total = diagonal.shape[1]
    kept, ours = float(min(steps_within_band(diagonal))), sorted(steps_within_band(full))[len(full) // 4]
    return Draw(grade(kept >= total, ours >= total), kept)


def grade_updating(frozen: float, before: float, future: float) -> Draw:
    """Grade mean errors with weights never updated, updated before the origin, and updated inside the forecast.

    >>> grade_updating(frozen=1.0, before=0.9, future=0.2)
    Draw(outcome='corrected', value=0.9)
    """
    ratio = before / frozen
    return Draw(grade(ratio <= _NEEDED, future <= _NEEDED * frozen), ratio)


# ---------------------------------------------------------------- over the draws


def judge(levels: Sequence[Study], changes: Sequence[Study], velocities: Sequence[int]) -> list[Verdict]:
    """Judge the five claims by networks that learn the velocities, as the paper's do; changes are mentioned beside."""
    return [
        _cross_terms(levels),
        _single_step(levels, changes),
        _multi_step(levels),
        _twenty(levels),
        _updating(levels, changes, velocities),
    ]


def grade_dimensions(single: float, multi: float, full: float) -> Draw:
    """Grade the shares of single-step outputs and of multi-step standard deviations that agree with the samples.

    One of them is half of the claim; where only the full covariance's deviations agree, it takes the covariances: corrected.
    """
    kept = [share >= MOST for share in (single, multi, full)]
    return Draw(grade(all(kept[:2]), any(kept)), multi)


def judge_dimensions(studies: Sequence[Study]) -> Verdict:
    """Judge whether variances alone suffice for a system of more states; the full covariance beside."""
    single = [within(found.single) for found in studies]
    multi = {form: [_alike(_ratios(found, form)) for found in studies] for form in FORMS}

    def percent(some: Sequence[float]) -> str:
        return f"{100 * np.median(some):.0f} % ({100 * min(some):.0f} to {100 * max(some):.0f} %)"

    d, m = (studies[0].multi["before"][0].mean.shape[1], studies[0].single.mean.shape[1])
    draws = [grade_dimensions(*shares) for shares in zip(single, multi["diagonal"], multi["full"], strict=True)]
    values = {"d": d, "m": m, "single": percent(single), **{form: percent(some) for form, some in multi.items()}}
    return over_draws("higher-dimensions", draws, values, limits=[MOST])


def _ratios(found: Study, form: str) -> Array:
    """Return standard deviations ÷ the samples', (segments, steps, states), weights updated before each segment."""
    return np.array([one.ratio(form) for one in found.multi["before"]])


def _cross_terms(studies: Sequence[Study]) -> Verdict:
    ratios = []
    for found in studies:
        every = [found.single, *(one for some in found.multi.values() for one in some)]
        ratios.append(np.concatenate([one.ratio("diagonal").ravel() for one in every]))
    ratio = np.concatenate(ratios)
    below, above = 100 * np.mean(ratio < 1.0 - WIDE), 100 * np.mean(ratio > 1.0 + WIDE)
    values = {"least": ratio.min(), "most": ratio.max(), "below": below, "above": above}
    return over_draws("cross-terms-underestimate", map(grade_cross_terms, ratios), values, limits=[_FEW, MOST])


def _single_step(levels: Sequence[Study], changes: Sequence[Study]) -> Verdict:
    draws = [grade_single_step(found.single) for found in levels]
    off, ratio = (
        np.concatenate([getattr(found.single, what)("diagonal") for found in levels]) for what in ("mean_error", "ratio")
    )
    shares, beside = ([100 * within(found.single) for found in studies] for studies in (levels, changes))
    values = {"off": off.max(), "least": ratio.min(), "most": ratio.max()}
    values |= {"low": min(shares), "high": max(shares), "low_beside": min(beside), "high_beside": max(beside)}
    return over_draws("single-step", draws, values, limits=[0.5, MOST])


def _multi_step(studies: Sequence[Study]) -> Verdict:
    steps = {form: [leaving(found.multi["before"], form)[0] for found in studies] for form in FORMS}
    ratios = [_ratios(found, "diagonal") for found in studies]
    ratio = np.concatenate(ratios)
    total = ratio.shape[1]
    leave = {form: steps_text([step for draw in some for step in draw], total) for form, some in steps.items()}
    values = {**leave, "least": ratio.min(), "most": ratio.max(), "alike": 100 * _alike(ratio), "pass": _LEAVES}
    draws = [grade_multi_step(left, wide) for left, wide in zip(steps["diagonal"], ratios, strict=True)]
    return over_draws("multi-step-mean", draws, values, limits=_LEAVES)


def _twenty(studies: Sequence[Study]) -> Verdict:
    shares = {form: [np.array([one.shares[form] for one in found.multi["before"]]) for found in studies] for form in FORMS}
    total, values = shares["full"][0].shape[1], dict[str, object]()
    for form, some in shares.items():
        kept, inside = [step for draw in some for step in steps_within_band(draw)], 100 * np.concatenate(some)
        values[form] = [np.median(kept), min(kept), max(kept), inside.min(), inside.max()]
    draws = [grade_twenty_steps(diagonal, full) for diagonal, full in zip(shares["diagonal"], shares["full"], strict=True)]
    return over_draws("twenty-steps", draws, {**values, "total": total}, limits=[float(total)])


def _updating(levels: Sequence[Study], changes: Sequence[Study], velocities: Sequence[int]) -> Verdict:
    # the velocities, each in its own deviation: positions hardly err in so short a time and would only thin the mean
    def wrong(found: Study) -> tuple[float, float, float]:
        never, before, future = (
            found.errors[way][..., list(velocities)].mean(axis=(1, 2)) for way in ("never", "before", "future")
        )
        known = ~np.isnan(future)
        return float(never.mean()), float(before.mean() / never.mean()), float(future[known].mean() / never[known].mean())

    frozen, before, future = (list(part) for part in zip(*map(wrong, levels), strict=True))
    beside = [ratio for _, ratio, _ in map(wrong, changes)]
    times = {"before": _times(before), "future": _times(future), "beside": _times(beside)}
    draws = [grade_updating(1.0, *ratios) for ratios in zip(before, future, strict=True)]
    return over_draws("needs-updating", draws, {"least": min(frozen), "most": max(frozen), **times}, limits=[_NEEDED])


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
    velocities, rng = list(robots.CART_POLE.velocities), np.random.default_rng([seed, 2])
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
    """Grade one draw: holds where both ways give the same weights, corrected where only training does.

    >>> grade_same_weights(1e-9, 0.12).outcome, grade_same_weights(1e-9, 1e-3).outcome, grade_same_weights(0.2, 0.2).outcome
    ('corrected', 'holds', 'does not hold')
    """
    return Draw(grade(max(trained, updated) <= _SAME, trained <= _SAME), updated)


def judge_same_weights(draws: Sequence[tuple[float, float]], p: Record) -> Verdict:
    """Judge what each draw's networks learned."""
    trained, updated = ([np.median(some), some.min(), some.max()] for some in np.transpose(draws))
    values = {**p, "trained": trained, "updated": updated, "rows": _UPDATED}
    return over_draws("same-weights", [grade_same_weights(*draw) for draw in draws], values, limits=(_SAME,))


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
    judged = judge(levels, changes, robot.velocities)
    if robot is ARDRONE:
        judged.append(judge_dimensions(levels))
    common, after = _figures(own, scene, levels, p, seeds[0])
    after["fair-forecast"] = prediction.draw_fair(prediction.state_view(scene, robot, own.columns), fair), {}
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
    states, outputs = (view(scene, own.robot, own.columns) for view in (prediction.state_view, prediction.output_view))
    before: dict[str, Picture] = {}
    for name, view, some in (("single-step", outputs, [single]), ("multi-step", states, multi["before"])):
        before[name] = prediction.draw_states(view, some), {}
        before[f"{name}-zoomed"] = prediction.draw_states(view, some, steps), {}
    every = [one for found in levels for one in found.multi["before"]]
    after: dict[str, Picture] = {
        "updating": (prediction.draw_updating(states, stretch, own.shown), {}),
        "agreement": (prediction.draw_agreement(every), {}),
    }
    return before, after


def wide(found: Study) -> str:
    """Describe the diagonal standard deviations of the multi-step predictions beside Monte Carlo's."""
    ratio = np.array([one.ratio("diagonal") for one in found.multi["before"]])
    return f"{ratio.min():.2f} to {ratio.max():.2f} times Monte Carlo's σ"


def _fair(tasks: Tasks, robot: Robot, p: Record, seed: int, scene: Scene) -> prediction.Fair:
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


def coverage_table(found: Study, scene: Scene, fair: prediction.Fair, steps: Sequence[int] = (1, 5, 10, 20)) -> pd.DataFrame:
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
    learned = tasks.map(learn_weights, [(p, seed) for seed in seeds])
    result.verdicts.append(judge_same_weights(learned, p))
    return result


def _cart_pole_figures(seed: int, scene: Scene, levels: Study, changes: Study, p: Record) -> dict[str, Picture]:
    other = prediction.learn(CART_POLE, p, seed, "change")
    view = prediction.output_view(other, CART_POLE, 2)
    own: dict[str, Picture] = {"single-step-changes": (prediction.draw_states(view, [changes.single]), {})}
    if "units" in levels.multi:
        own["uncertain-units"] = prediction.draw_states(prediction.state_view(scene, CART_POLE, 2), levels.multi["units"][:1]), {}
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
    kept = steps_within_band([one.shares["diagonal"] for one in found.multi["before"]])
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
