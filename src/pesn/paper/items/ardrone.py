"""The AR.Drone's predictions: single steps and 20 steps ahead, with 2σ bands beside Monte Carlo.

>>> p = parameters(quick=False)
>>> (p["runs"] - 1) * p["run_rows"] + p["train_rows"]
80300
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pesn.paper.items import prediction_item
from pesn.paper.result import Record, Result, Settings, Tasks

if TYPE_CHECKING:
    from pesn.paper.items.prediction_study import Study

__all__ = ["ABOUT", "CLAIMS", "ERRATA", "NAME", "PLACE", "PUBLISHED", "SETTINGS", "TITLE", "parameters", "run"]

NAME = "ardrone"
TITLE = "Predicting an AR.Drone"
PLACE = "Figure 8, supplement"
ABOUT = (
    "The paper learns the six velocities of an AR.Drone simulated in Gazebo from more than 80,000 samples and predicts them one "
    "step and 20 steps ahead from an uncertain state; positions and angles follow by kinematics. Here the drone is pesn's own, "
    "which follows 100 s recorded from Gazebo 11 with tum_simulator's controllers to 2e-13 in every state, commands and all; "
    "its commands are random. The same is done with variances alone "
    "and with all covariances, beside samples of the same network. The paper's algorithm updates the weights inside a forecast "
    "with the very outputs that it is to forecast; the forecast that knows only the past stands beside it."
)
ERRATA = (4, 5, 11, 12, 14, 19)
CLAIMS = prediction_item.claims(NAME)
PUBLISHED: list[Record] = [
    {"quantity": "samples", "published": "80,000+", "where": "supplement, Model learning"},
    {"quantity": "steps over which uncertainty is propagated", "published": "20", "where": "Section “Model Learning”"},
    {"quantity": "steps until the mean leaves Monte Carlo", "published": "4 to 5", "where": "supplement, Discussion"},
    {"quantity": "variance beside Monte Carlo, multi-step", "published": "grows similarly", "where": "supplement, Discussion"},
]

NAMES = ("x", "y", "z", "vx", "vy", "vz", "roll", "pitch", "yaw", "roll rate", "pitch rate", "yaw rate")
UNITS = ("m",) * 3 + ("m/s",) * 3 + ("rad",) * 3 + ("rad/s",) * 3
POSITIONS, VELOCITIES = (0, 1, 2, 6, 7, 8), (3, 4, 5, 9, 10, 11)
CHANGES = tuple(f"change of {NAMES[i]}" for i in VELOCITIES)
_SHOWN = (3, 5, 9)  # of the velocities, where all would be too many
_NOISY = (5, 9, 10, 11)

SETTINGS = prediction_item.SETTINGS


def parameters(quick: bool) -> Record:
    """All that decides the numbers."""
    return prediction_item.parameters(
        quick,
        n_units=80 if quick else 200,
        runs=9 if quick else 81,
        run_rows=1000,
        train_rows=300,
        test_rows=260 if quick else 700,
        segments=3 if quick else 6,
        unit_std=0.0,
        origin_every=40 if quick else 10,
        fair_every=2 if quick else 3,
    )


def run(settings: Settings, tasks: Tasks) -> Result:
    """Fly, train, predict, compare."""
    from pesn.paper.items import prediction_study as studies
    from pesn.paper.items.prediction_figures import draw_noisy
    from pesn.systems import ardrone

    p = settings.parameters
    trajectories = ardrone.simulate(runs=p["runs"], steps=p["run_rows"], rng=settings.seeds(1)[0])
    found = studies.study(settings, tasks, trajectories, POSITIONS, VELOCITIES)
    obtained = _obtained(found, sum(trajectories.lengths[:-1]) + p["train_rows"], p["steps"])
    notes = ["The targets are the six velocities; the paper's list names one of them twice."]
    verdicts, dt = prediction_item.verdicts(found, VELOCITIES), trajectories.dt
    own = {
        "noisy-states": (
            draw_noisy(found.robot, found.single["before"], NAMES, UNITS, _NOISY, dt, 2 * p["steps"]),
            "Velocities that jump from row to row, in single steps, a column a method: each mean with its 2σ band beside the "
            "truth; the bar at the right of a panel is the size of the jumps: how far a row is from the average of three.",
        ),
    }
    return prediction_item.result(
        settings, found, NAMES, UNITS, CHANGES, 3, _SHOWN, dt, PUBLISHED, obtained, verdicts, own, notes
    )


def _obtained(found: Study, rows: int, steps: int) -> list[str]:
    from pesn.paper.items import prediction_study as studies
    from pesn.paper.items import prediction_verdicts as verdicts
    from pesn.paper.items.prediction import steps_until

    d, multi = found.robot.n_states, found.multi["before"]
    good = [((one.inside("diagonal") >= 0.9) & (one.inside("diagonal") <= 0.99))[:, :d].all(axis=1) for one in multi]
    wide = np.array([one.ratio("diagonal")[:, :d] for one in multi])
    kept = int(np.median([steps_until(one) for one in good]))
    return [
        f"{rows:,}",
        f"2σ bands hold 90 to 99 % of the samples for {kept} steps",
        verdicts.steps_text(studies.leaving(multi, "diagonal", d)[0], steps),
        f"{wide.min():.2f} to {wide.max():.2f} times Monte Carlo's σ",
    ]
