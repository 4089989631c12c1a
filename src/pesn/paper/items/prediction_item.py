"""What the two prediction items have in common: parameters, and a study as tables, figures and notes.

>>> parameters(quick=True, n_units=80)["network"]["n_units"]
80
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn.paper.claims import CLAIMS
from pesn.paper.items.reservoir import RESERVOIR
from pesn.paper.result import Record, Result, Settings
from pesn.paper.settings import POSITIVE, Setting, flag, number, or_word, several, whole
from pesn.paper.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pesn.paper.items.prediction_study import Study

__all__ = ["SETTINGS", "claims", "parameters", "result", "verdicts"]


SETTINGS = {
    **RESERVOIR,
    "steps": Setting("Steps of a multi-step prediction; the paper's are 20.", whole(1)),
    "input_std": Setting("Deviation of the inputs' errors, in units of each state's own; the paper prints none.", POSITIVE),
    "samples": Setting("Monte Carlo samples.", whole(2)),
    "rls_deltas": Setting("Values of δ that are tried for P = δI; the paper prints none.", several(POSITIVE)),
    "forgetting": Setting("Forgetting factor λ; the paper prints none.", number(0.0, 1.0, above=True)),
    "context": Setting("Rows before an origin that a forecast looks at.", whole(1)),
    "process_noise": Setting("Noise on the units of the fair forecasts, or auto.", or_word(number(0.0), "auto")),
    "calibrate": Setting("Whether fair forecasts are calibrated on held-back rows.", flag()),
    "runs": Setting("Simulated runs; the last is the one that is predicted.", whole(2)),
    "run_rows": Setting("Rows of a run.", whole(200)),
    "train_rows": Setting("Rows of the last run that are learnt from, too.", whole(50)),
    "test_rows": Setting("Rows after them that are predicted.", whole(50)),
    "segments": Setting("Stretches of the multi-step prediction that are compared with samples.", whole(1)),
    "unit_std": Setting("Deviation of the units at the start of stretches from uncertain units; 0: none.", number(0.0)),
    "origin_every": Setting("Rows between the origins at which errors of forecasts are taken.", whole(1)),
    "fair_every": Setting("Of those origins, each so-manieth is one of a fair forecast.", whole(1)),
}


def parameters(quick: bool, n_units: int, **own: Any) -> Record:
    """All that decides the numbers, ``own`` of the item included; deviations of inputs are in units of each state's own."""
    return {
        "network": {
            "n_units": n_units,
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
        "input_std": 0.1,
        "samples": 1_000 if quick else 10_000,
        "rls_deltas": [0.01, 0.1, 1.0, 10.0],
        "forgetting": 0.999,
        "context": 30,
        "process_noise": 0.0 if quick else "auto",
        "calibrate": not quick,
        **own,
    }


def result(
    settings: Settings,
    found: Study,
    names: Sequence[str],
    units: Sequence[str],
    changes: Sequence[str],
    columns: int,
    chosen: Sequence[int],
    dt: float,
    published: list[Record],
    obtained: list[str],
    verdicts: list[Verdict],
    figures: dict[str, tuple[Figure, str]] | None = None,
    notes: Sequence[str] = (),
) -> Result:
    """A study of ``names`` as the result of an item; ``figures`` and ``notes`` are the item's own, beside the common ones.

    Figures have ``columns`` columns; that of the updates shows the states ``chosen``.
    """
    import pandas as pd

    from pesn.paper.items import prediction_figures as draw
    from pesn.paper.items import prediction_study as studies

    p, robot, fair = settings.parameters, found.robot, found.multi["before"]
    steps, states = p["steps"], (names, units, columns, dt)
    beside = pd.DataFrame(published)
    beside["obtained"] = obtained
    bands = "with 2σ bands of both networks and of Monte Carlo, and below each how far the networks are from Monte Carlo"
    close = "as close as the means and the truth allow, the bands going out of the picture; below each the differences"
    return Result(
        frame=studies.long_frame(found, (*names, *changes)),
        tables={
            "Published and obtained (the paper's diagonal network)": beside[["quantity", "published", "obtained", "where"]],
            "Closed form beside Monte Carlo": studies.agreement(found),
            "σ ÷ Monte Carlo's σ by state, multi-step": studies.by_state(found, names),
            "Mean error of all steps from an exactly known state": studies.error_table(found, names, units),
            "What came inside the 2σ bands": studies.coverage_table(found),
        },
        figures={
            "single-step": (
                draw.draw_states(robot, [found.single["before"]], *states),
                f"Single-step predictions of the {len(names)} states over time, {bands}.",
            ),
            "single-step-zoomed": (
                draw.draw_states(robot, [found.single["before"]], *states, steps),
                f"The first {steps} of the single-step predictions, {close}.",
            ),
            "multi-step": (
                draw.draw_states(robot, fair, *states),
                f"Stretches of {steps} steps, each from the true state, weights updated before it, {bands}.",
            ),
            "multi-step-zoomed": (draw.draw_states(robot, fair, *states, steps), f"The first stretch of {steps} steps, {close}."),
            **(figures or {}),
            "updating": (
                draw.draw_updating(found, chosen, names, units, dt),
                f"Velocities over {steps} steps with weights never updated, updated before the origin, updated with the future.",
            ),
            "agreement": (
                draw.draw_agreement(found, steps),
                "By steps ahead, distance of the means from Monte Carlo in σ and ratio of the deviations, diagonal and full.",
            ),
            "fair-forecast": (
                draw.draw_fair(found, *states),
                f"A forecast of pesn.Forecaster over {steps} steps with 2σ bands that count every error, and what came.",
            ),
        },
        verdicts=verdicts,
        notes=[
            "The panel “as in the paper: sees the future” updates the weights inside the forecast with the outputs that it is to "
            "forecast (Algorithm 3, line 8); it is no forecast. Every other panel uses only what came before its origin.",
            f"Errors of the inputs have a deviation of {p['input_std']:g} of each state's own, in samples and in closed forms "
            f"alike; {p['samples']:,} samples, in pairs of opposite errors.",
            *([] if p["calibrate"] else ["In the quick run the fair forecasts are not calibrated on held-back rows."]),
            *notes,
            "The paper does not print the sizes of network, noise, δ and λ; those used are in the item's settings. Of the δ "
            f"there, {found.delta:g} was best on the end of another run, which that network had not seen.",
        ],
    )


def claims(item: str) -> tuple[str, ...]:
    """The claims that an item judges.

    >>> claims("ardrone")[0]
    'cross-terms-underestimate'
    """
    return tuple(name for name, claim in CLAIMS.items() if item in claim.items)


def verdicts(found: Study, velocities: Sequence[int]) -> list[Verdict]:
    """What a study says about each of them."""
    from pesn.paper.items import prediction_study as studies
    from pesn.paper.items import prediction_verdicts as judge

    d, single, multi = found.robot.n_states, found.single["never"], found.multi["before"]
    every = [one.ratio("diagonal").ravel() for some in studies.pooled(found).values() for one in some]
    off, ratio = single.off("diagonal"), single.ratio("diagonal")
    means = {form: studies.leaving(multi, form, d)[0] for form in ("diagonal", "full")}
    wide = np.array([one.ratio("diagonal")[:, :d] for one in multi])
    inside = {form: np.array([one.inside(form)[:, :d] for one in multi]) for form in ("diagonal", "full")}
    # the velocities, each in its own deviation: positions hardly err in so short a time and would only thin the mean
    errors = {way: float(some[..., list(velocities)].mean()) for way, some in found.errors.items()}
    return [
        judge.judge_cross_terms(np.concatenate(every)),
        judge.judge_single_step(off[:, :d], ratio[:, :d], off[:, d:], ratio[:, d:]),
        judge.judge_multi_step(means["diagonal"], means["full"], wide, wide.shape[1]),
        judge.judge_twenty(inside["diagonal"], inside["full"]),
        judge.judge_updating(errors["never"], errors["before"], errors["future"], "σ of the velocities"),
    ]
