"""What the two prediction items have in common: settings, the draws, and their study as tables, figures and notes.

>>> parameters(quick=True, n_units=80)["n_units"]
80
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn.paper.claims import CLAIMS, Record, Result, Settings, Tasks
from pesn.paper.items import robots
from pesn.paper.settings import POSITIVE, Setting, flag, number, or_word, whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from pesn.paper.items.prediction import Scene
    from pesn.paper.items.prediction_study import Study

__all__ = ["SETTINGS", "claims", "kept", "parameters", "run", "wide"]


SETTINGS = {
    **robots.SETTINGS,
    "steps": Setting("Steps of a multi-step prediction; the paper's are 20.", whole(1)),
    "input_std": Setting("Deviation of the inputs' errors, in units of each state's own; the paper prints none.", POSITIVE),
    "samples": Setting("Monte Carlo samples.", whole(2)),
    "context": Setting("Rows before an origin that a forecast looks at.", whole(1)),
    "process_noise": Setting("Noise on the units of the fair forecasts, or auto.", or_word(number(0.0), "auto")),
    "calibrate": Setting("Whether fair forecasts are calibrated on held-back rows.", flag()),
    "test_rows": Setting("Rows after the training rows that are predicted.", whole(50)),
    "segments": Setting("Stretches of the multi-step prediction that are compared with samples.", whole(1)),
    "unit_std": Setting("Deviation of the units at the start of stretches from uncertain units; 0: none.", number(0.0)),
    "origin_every": Setting("Rows between the origins at which errors of forecasts are taken.", whole(1)),
    "future_every": Setting("Of those origins, each so-manieth has weights updated inside the forecast, too.", whole(1)),
    "fair_every": Setting("Of those origins, each so-manieth is one of a fair forecast.", whole(1)),
    **robots.DRAWS,
}
# What the paper does not print, varied one at a time.
VARIED: dict[str, list[float]] = {
    "noise": [0.0, 1e-4, 1e-2],
    "input_std": [0.1, 0.3, 1.0],
    "n_units": [40, 80, 160],
    "leak_rate": [0.2, 0.5, 0.9],
    "spectral_radius": [0.5, 0.9, 1.2],
    "rls_delta": [0.01, 1.0, 100.0],
    "forgetting": [0.98, 0.999, 1.0],
}
_MEASURES = {"within": "single-step\nwithin (%)", "leaves": "mean leaves\n(steps)", "updated": "error updated\n÷ frozen"}


def parameters(quick: bool, n_units: int, **own: Any) -> Record:
    """All that decides the numbers, ``own`` of the item included; deviations of inputs are in units of each state's own."""
    return {
        **robots.parameters(),
        "n_units": n_units,
        "noise": 0.0,  # here the inputs are what is uncertain
        "steps": 20,
        "input_std": 0.1,
        "samples": 500 if quick else 2_000,
        "context": 30,
        "process_noise": 0.0 if quick else "auto",
        "calibrate": not quick,
        **robots.draws(quick),
        **own,
    }


def claims(item: str) -> tuple[str, ...]:
    """The claims that an item judges.

    >>> claims("ardrone")[0]
    'cross-terms-underestimate'
    """
    return tuple(name for name, claim in CLAIMS.items() if item in claim.items)


def run(
    settings: Settings,
    tasks: Tasks,
    item: str,
    published: list[Record],
    columns: int,
    shown: Sequence[int],
    obtained: Callable[[Study, Record], list[str]],
    measure: Callable[[Record, int], dict[str, float]],
    notes: Sequence[str],
) -> tuple[Result, Scene, Study, Study]:
    """All draws judged and the first one shown; with its scene, and its study where velocities and where changes are learned.

    Beside ``published`` stands what ``obtained(study, settings)`` says of the first draw; ``measure`` is the item's own
    :func:`prediction_study.measure`. Figures have ``columns`` columns, that of the updates the states ``shown``.
    """
    from pesn.paper.items import prediction, sensitivity
    from pesn.paper.items import prediction as verdicts
    from pesn.paper.items import prediction_figures as draw
    from pesn.paper.items import prediction_study as studies

    p, robot = settings.parameters, studies.ROBOTS[item]
    seeds = settings.seeds(p["draws"])
    units = [(item, p, seed, target) for seed in seeds for target in ("level", "change")]
    by_draw = [studies.of_draw(found) for found in tasks.map(studies.one_draw, units)]
    levels, changes = by_draw[::2], by_draw[1::2]
    scene = prediction.learn(robot, p, seeds[0], "level")
    some = studies.fair_origins(p, len(scene.y), p["fair_every"])
    fair = _fair(tasks, robot, p, seeds[0], scene, some)
    letter = tasks.map(studies.letter_errors, [(item, p, seeds[0])])[0]
    varied = sensitivity.study(tasks, measure, p, VARIED, settings.seeds(p["varied_draws"], stream=3))
    multi = levels[0].multi
    middle = len(multi["before"]) // 2
    stretch = {way: multi[way][middle] for way in ("never", "before")}
    stretch["future"] = studies.told_the_future(scene, p, stretch["before"].origin, np.random.default_rng([seeds[0], 3]))
    states, outputs = draw.states_of(scene, robot, columns), draw.outputs_of(scene, robot, columns)
    bands = "with 2σ bands of both networks and of Monte Carlo, and below each how far the networks are from Monte Carlo"
    close = "as close as the means and the truth allow, the bands going out of the picture; below each the differences"
    steps = p["steps"]
    every = [one for found in levels for one in found.multi["before"]]
    frame = studies.long_frame(
        {(target, i // 2 + 1): found for i, ((*_, target), found) in enumerate(zip(units, by_draw, strict=True))}, robot
    )
    judged = verdicts.judge(levels, changes, robot.velocities)
    if "higher-dimensions" in claims(item):
        judged.append(verdicts.judge_dimensions(levels))
    result = Result(
        frame=frame,
        tables={
            "Published and obtained (the paper's diagonal network)": _beside(published, obtained(levels[0], p)),
            "Closed form beside Monte Carlo, all draws": studies.agreement(levels, changes),
            "σ ÷ Monte Carlo's σ by state, multi-step, all draws": studies.by_state(levels, robot.names),
            "Mean error of all steps from an exactly known state, first draw": studies.error_table(
                levels[0], letter, robot, scene.forecaster.scale_.y_std
            ),
            "What came inside the 2σ bands, first draw": studies.coverage_table(levels[0], scene, fair),
        },
        figures={
            "single-step": (
                draw.draw_states(outputs, [levels[0].single]),
                f"Single-step predictions of the velocities, the network's outputs, over time, {bands}.",
            ),
            "single-step-zoomed": (
                draw.draw_states(outputs, [levels[0].single], steps),
                f"The first {steps} of the single-step predictions, {close}.",
            ),
            "multi-step": (
                draw.draw_states(states, multi["before"]),
                f"Stretches of {steps} steps, each from the true state, weights updated before it, {bands}.",
            ),
            "multi-step-zoomed": (
                draw.draw_states(states, multi["before"], steps),
                f"The first stretch of {steps} steps, {close}.",
            ),
            "updating": (
                draw.draw_updating(states, stretch, shown),
                f"Velocities over {steps} steps with weights never updated, updated before the origin, updated with the future.",
            ),
            "agreement": (
                draw.draw_agreement(every),
                "By steps ahead, distance of the means from Monte Carlo in σ and ratio of the deviations, diagonal and full, "
                "all draws.",
            ),
            "fair-forecast": (
                draw.draw_fair(states, fair),
                f"A forecast of pesn.Forecaster over {steps} steps with 2σ bands that count every error, and what came.",
            ),
            "sensitivity": (
                sensitivity.draw(varied, p, _MEASURES),
                "Small panels, a column for each setting that the paper does not print: the share of single-step outputs "
                "within 0.1 σ and 10 % of Monte Carlo, the steps until the diagonal mean leaves it, and the error with weights "
                "updated up to the origin by that without; the value in use is shaded.",
            ),
        },
        verdicts=judged,
        lead=_lead(levels, steps),
        notes=[*_notes(p), *notes],
    )
    return result, scene, levels[0], changes[0]


def with_figures(result: Result, figures: dict[str, tuple[Figure, str]]) -> Result:
    """The item's own figures before those of the updates."""
    common = list(result.figures)
    after = common.index("updating")
    parts = common[:after], common[after:]
    result.figures.update(figures)
    ordered = {name: result.figures[name] for name in (*parts[0], *figures, *parts[1])}
    result.figures.clear()
    result.figures.update(ordered)
    return result


def wide(found: Study) -> str:
    """How large the diagonal deviations of the multi-step predictions are beside Monte Carlo's."""
    ratio = np.array([one.ratio("diagonal") for one in found.multi["before"]])
    return f"{ratio.min():.2f} to {ratio.max():.2f} times Monte Carlo's σ"


def kept(found: Study) -> float:
    """Steps for which the diagonal bands hold 90 to 99 % of the samples, median of the stretches."""
    from pesn.paper.items.prediction import kept_steps

    return float(np.median(kept_steps([one.shares["diagonal"] for one in found.multi["before"]])))


def _beside(published: list[Record], obtained: list[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(published).assign(obtained=obtained)[["quantity", "published", "obtained", "where"]]


def _fair(tasks: Tasks, robot: robots.Robot, p: Record, seed: int, scene: Scene, some: list[int]) -> Any:
    from pesn.paper.items import prediction

    steps = p["steps"]
    truth = np.array([scene.run.states[k + 1 : k + 1 + steps] for k in some])
    forms = list(prediction.FORMS)
    found = tasks.map(prediction.fair_forecasts, [(robot, p, seed, form, some) for form in forms])
    return {(form, name): (*one, truth) for form, both in zip(forms, found, strict=True) for name, one in both.items()}


def _lead(levels: Sequence[Study], total: int) -> str:
    """Where the mean leaves Monte Carlo at another time than the paper's 4 to 5 steps; nothing where it does not."""
    from pesn.paper.items.prediction import steps_text
    from pesn.paper.items.prediction_study import leaving

    steps = [step for found in levels for step in leaving(found.multi["before"], "diagonal")[0]]
    if 4.0 <= float(np.median(steps)) <= 5.0:
        return ""
    return (
        "Another regime than the paper's: there the PESN's mean leaves Monte Carlo after 4 to 5 steps, here "
        f"{steps_text(steps, total)}. What the settings that the paper does not print do to it is in the figure of sensitivities."
    )


def _notes(p: Record) -> list[str]:
    return [
        "The outputs are the velocities, as the paper has them; the tables and verdicts say beside what comes of networks that "
        "put out their changes. Single steps are judged by the network's outputs, multi-step predictions by all states.",
        "Algorithm 3, and where we depart from it. To the letter, z_test(k), the true state, goes in at every step of a "
        "multi-step prediction too, and of the network's own only μ_y is fed back, by W_fb; the washout carries means alone; "
        "and W_out is updated inside the forecast by the outputs that it is to forecast (line 8). The column of that name does "
        "so. In the panel “as in the paper: sees the future” the network's own states go in, else it is the same; neither is a "
        "forecast. Every other panel goes on from its own states with the weights that were known at its origin, and W_in + "
        "W_fb is one matrix there, as what is fed back is a part of the input. In single steps the weights stay as trained.",
        f"Errors of the inputs have a deviation of {p['input_std']:g} of each state's own, in samples and in closed forms "
        f"alike; {p['samples']:,} samples, in pairs of opposite errors.",
        *([] if p["calibrate"] else ["In the quick run the fair forecasts are not calibrated on held-back rows."]),
        "Not printed in the paper, and so chosen here: the sizes of network, errors and noise, δ and λ. The figure of "
        "sensitivities varies them one at a time.",
    ]
