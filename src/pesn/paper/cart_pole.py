"""The cart pole's predictions: single steps and 20 steps ahead, with 2σ bands beside Monte Carlo.

>>> parameters(quick=True)["steps"]
20
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pesn.paper.result import Result, Settings, Tasks

if TYPE_CHECKING:
    from pesn.paper.prediction_study import Study

__all__ = ["ABOUT", "CLAIMS", "ERRATA", "NAME", "PUBLISHED", "TITLE", "parameters", "run"]

NAME = "cart-pole"
TITLE = "Predicting a cart pole"
ABOUT = (
    "The paper predicts a cart pole one step and 20 steps ahead from an uncertain state, with variances alone, and finds them "
    "close to samples of the same network. Here the same network is carried forward with variances alone and with all "
    "covariances, beside samples of its own loop. The paper's algorithm updates the weights inside a forecast with the very "
    "outputs that it is to forecast; the forecast that knows only the past stands beside it."
)
ERRATA = (4, 5, 11, 12)
CLAIMS = ("cross-terms-underestimate", "single-step", "multi-step-mean")
PUBLISHED: list[dict[str, Any]] = [
    {
        "quantity": "steps of the multi-step prediction",
        "published": "20",
        "where": "Figure “Cart pole state transition prediction”",
    },
    {"quantity": "steps until the mean leaves Monte Carlo", "published": "4 to 5", "where": "supplement, Discussion"},
    {"quantity": "variance beside Monte Carlo, multi-step", "published": "grows similarly", "where": "supplement, Discussion"},
    {"quantity": "mean and variance, single step", "published": "almost perfect", "where": "supplement, Discussion"},
]

NAMES, UNITS = ("x", "θ", "v", "ω"), ("m", "rad", "m/s", "rad/s")
CHANGES = ("change of v", "change of ω")
POSITIONS, VELOCITIES = (0, 1), (2, 3)


def parameters(quick: bool) -> dict[str, Any]:
    """All that decides the numbers; deviations of inputs are in units of each state's own, of units as they are."""
    return {
        "runs": 3 if quick else 5,
        "run_rows": 1200 if quick else 2500,
        "train_rows": 800,
        "test_rows": 400 if quick else 1700,
        "network": {
            "n_units": 60 if quick else 100,
            "spectral_radius": 0.9,
            "leak_rate": 0.5,
            "density": 0.1,
            "input_scaling": 0.5,
            "feedback_scaling": 0.2,
            "bias_scaling": 0.2,
            "ridge": 1e-6,
            "washout": 100,
        },
        "steps": 20,
        "segments": 4 if quick else 10,
        "input_std": 0.1,
        "unit_std": 0.1,
        "samples": 1_000 if quick else 10_000,
        "rls_deltas": [0.01, 0.1, 1.0, 10.0],
        "forgetting": 0.999,
        "origin_every": 40 if quick else 20,
        "fair_every": 4 if quick else 2,
        "context": 30,
        "process_noise": 0.0 if quick else "auto",
        "calibrate": not quick,
    }


def run(settings: Settings, tasks: Tasks) -> Result:
    """Simulate, train, predict, compare."""
    import pandas as pd

    from pesn.paper import prediction_figures as figures
    from pesn.paper import prediction_study as studies
    from pesn.systems import cart_pole

    p = settings.parameters
    trajectories = cart_pole.simulate(runs=p["runs"], steps=p["run_rows"], rng=settings.seeds(1)[0])
    found = studies.study(settings, tasks, trajectories, POSITIONS, VELOCITIES)
    robot, dt, zoomed = found.robot, trajectories.dt, min(20, p["steps"])
    fair = found.multi["before"]
    published = pd.DataFrame(PUBLISHED)
    published["obtained"] = _obtained(found, p["steps"])
    return Result(
        frame=studies.long_frame(found, (*NAMES, *CHANGES)),
        tables={
            "Published and obtained (the paper's diagonal network)": published[["quantity", "published", "obtained", "where"]],
            "Closed form beside Monte Carlo": studies.agreement(found),
            "σ ÷ Monte Carlo's σ by state, multi-step": studies.by_state(found, NAMES),
            "Mean error of 20 steps from an exactly known state": studies.error_table(found, NAMES, UNITS),
            "What came inside the 2σ bands": studies.coverage_table(found),
        },
        figures={
            "single-step": (
                figures.draw_states(robot, [found.single["before"]], NAMES, UNITS, 2, dt),
                "Single-step predictions of the four states over time, with 2σ bands of both networks and of Monte Carlo.",
            ),
            "single-step-zoomed": (
                figures.draw_states(robot, [found.single["before"]], NAMES, UNITS, 2, dt, zoomed),
                "The first 20 of the single-step predictions, with 2σ bands of both networks and of Monte Carlo.",
            ),
            "single-step-changes": (
                figures.draw_states(robot, [found.single["never"]], CHANGES, UNITS[2:], 2, dt, zoomed, len(NAMES), True),
                "The network's own outputs in single steps, the changes of the velocities: 2σ bands of all methods around the "
                "mean of the samples.",
            ),
            "multi-step": (
                figures.draw_states(robot, fair, NAMES, UNITS, 2, dt),
                "Stretches of 20 steps, each from the true state, weights updated before it, with 2σ bands of all methods.",
            ),
            "multi-step-zoomed": (
                figures.draw_states(robot, fair, NAMES, UNITS, 2, dt, zoomed),
                "The first stretch of 20 steps, with 2σ bands of both networks and of Monte Carlo.",
            ),
            "uncertain-units": (
                figures.draw_states(robot, found.multi["units"], NAMES, UNITS, 2, dt, zoomed, apart=True),
                "20 steps from units that are not known exactly: 2σ bands of both networks and of Monte Carlo around the mean "
                "of the samples.",
            ),
            "updating": (
                figures.draw_updating(found, VELOCITIES, NAMES, UNITS, dt),
                "Velocities over 20 steps with weights never updated, updated before the origin, and updated with the future.",
            ),
            "agreement": (
                figures.draw_agreement(found, p["steps"]),
                "By steps ahead, distance of the means from Monte Carlo in σ and ratio of the deviations, diagonal and full.",
            ),
            "fair-forecast": (
                figures.draw_fair(found, NAMES, UNITS, 2, dt),
                "A forecast of pesn.Forecaster over 20 steps with 2σ bands that count every error, and what came.",
            ),
        },
        verdicts=_verdicts(found, p["steps"]),
        notes=[
            "The panel “as in the paper: sees the future” updates the weights inside the forecast with the outputs that it is to "
            "forecast (Algorithm 3, line 8); it is no forecast. Every other panel uses only what came before its origin.",
            f"Errors of the inputs have a deviation of {p['input_std']:g} of each state's own, in samples and in closed forms "
            f"alike; {p['samples']:,} samples, in pairs of opposite errors.",
            *([] if p["calibrate"] else ["In the quick run the fair forecasts are not calibrated on held-back rows."]),
            "The paper does not print the sizes of network, noise, δ and λ; those used are in the item's settings. Of the δ "
            f"there, {found.delta:g} was best on the end of another run, which that network had not seen.",
        ],
    )


def _verdicts(found: Study, steps: int) -> list[Any]:
    from pesn.paper import prediction_study as studies
    from pesn.paper import prediction_verdicts as verdicts

    d = found.robot.loop.size
    single = found.single["never"]
    every = [one.ratio("diagonal").ravel() for some in studies.pooled(found).values() for one in some]
    off, ratio = single.off("diagonal"), single.ratio("diagonal")
    multi = found.multi["before"]
    means = {form: studies.leaving(multi, form, d)[0] for form in ("diagonal", "full")}
    return [
        verdicts.judge_cross_terms(np.concatenate(every)),
        verdicts.judge_single_step(off[:, :d], ratio[:, :d], off[:, d:], ratio[:, d:]),
        verdicts.judge_multi_step(
            means["diagonal"], means["full"], np.array([one.ratio("diagonal")[:, :d] for one in multi]), steps
        ),
    ]


def _obtained(found: Study, steps: int) -> list[str]:
    from pesn.paper import prediction_study as studies
    from pesn.paper import prediction_verdicts as verdicts

    d, multi, single = found.robot.loop.size, found.multi["before"], found.single["never"]
    wide = np.array([one.ratio("diagonal")[:, :d] for one in multi])
    ratio = single.ratio("diagonal")[:, :d]
    return [
        str(steps),
        verdicts.steps_text(studies.leaving(multi, "diagonal", d)[0], steps),
        f"{wide.min():.2f} to {wide.max():.2f} times Monte Carlo's σ",
        f"mean within {single.off('diagonal')[:, :d].max():.2g} σ; {ratio.min():.2f} to {ratio.max():.2f} times Monte Carlo's σ",
    ]
