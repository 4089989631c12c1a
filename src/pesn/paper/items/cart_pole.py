"""The cart pole's predictions: single steps and 20 steps ahead, with 2σ bands beside Monte Carlo.

>>> parameters(quick=True)["steps"]
20
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pesn.paper.items import prediction_item
from pesn.paper.result import Record, Result, Settings, Tasks

if TYPE_CHECKING:
    from pesn.paper.items.prediction_study import Study

__all__ = ["ABOUT", "CLAIMS", "ERRATA", "NAME", "PLACE", "PUBLISHED", "SETTINGS", "TITLE", "parameters", "run"]

NAME = "cart-pole"
TITLE = "Predicting a cart pole"
PLACE = "Figure 7, supplement"
ABOUT = (
    "The paper predicts a cart pole one step and 20 steps ahead from an uncertain state, with variances alone, and finds them "
    "close to samples of the same network. Here the same network is carried forward with variances alone and with all "
    "covariances, beside samples of its own loop. The paper's algorithm updates the weights inside a forecast with the very "
    "outputs that it is to forecast; the forecast that knows only the past stands beside it."
)
ERRATA = (4, 5, 11, 12, 19)
CLAIMS = prediction_item.claims(NAME)
PUBLISHED: list[Record] = [
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

SETTINGS = prediction_item.SETTINGS


def parameters(quick: bool) -> Record:
    """All that decides the numbers."""
    return prediction_item.parameters(
        quick,
        n_units=60 if quick else 100,
        runs=3 if quick else 5,
        run_rows=1200 if quick else 2500,
        train_rows=800,
        test_rows=400 if quick else 1700,
        segments=4 if quick else 10,
        unit_std=0.1,
        origin_every=40 if quick else 20,
        fair_every=4 if quick else 2,
    )


def run(settings: Settings, tasks: Tasks) -> Result:
    """Simulate, train, predict, compare."""
    from pesn.paper.items import prediction_study as studies
    from pesn.paper.items.prediction_figures import draw_around
    from pesn.systems import cart_pole

    p = settings.parameters
    steps = p["steps"]
    trajectories = cart_pole.simulate(runs=p["runs"], steps=p["run_rows"], rng=settings.seeds(1)[0])
    found, dt = studies.study(settings, tasks, trajectories, POSITIONS, VELOCITIES), trajectories.dt
    around = "2σ bands of both networks and of Monte Carlo around the mean of the samples."
    own = {
        "single-step-changes": (
            draw_around(found.robot, [found.single["never"]], CHANGES, UNITS[2:], 2, dt, steps, len(NAMES)),
            f"The network's own outputs in single steps, the changes of the velocities: {around}",
        ),
        "uncertain-units": (
            draw_around(found.robot, found.multi["units"], NAMES, UNITS, 2, dt, steps),
            f"{steps} steps from units that are not known exactly: {around}",
        ),
    }
    obtained, verdicts = _obtained(found, steps), prediction_item.verdicts(found, VELOCITIES)
    return prediction_item.result(settings, found, NAMES, UNITS, CHANGES, 2, VELOCITIES, dt, PUBLISHED, obtained, verdicts, own)


def _obtained(found: Study, steps: int) -> list[str]:
    from pesn.paper.items import prediction_study as studies
    from pesn.paper.items import prediction_verdicts as verdicts

    d, multi, single = found.robot.n_states, found.multi["before"], found.single["never"]
    wide = np.array([one.ratio("diagonal")[:, :d] for one in multi])
    ratio = single.ratio("diagonal")[:, :d]
    return [
        str(steps),
        verdicts.steps_text(studies.leaving(multi, "diagonal", d)[0], steps),
        f"{wide.min():.2f} to {wide.max():.2f} times Monte Carlo's σ",
        f"mean within {single.off('diagonal')[:, :d].max():.2g} σ; {ratio.min():.2f} to {ratio.max():.2f} times Monte Carlo's σ",
    ]
