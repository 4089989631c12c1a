"""The AR.Drone's predictions: single steps and 20 steps ahead, with 2σ bands beside Monte Carlo.

>>> p = parameters(quick=False)
>>> (p["runs"] - 1) * p["run_rows"] + p["train_rows"]
80300
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pesn.paper.claims import Record, Result, Settings, Tasks
from pesn.paper.items import prediction_item
from pesn.paper.items.robots import ARDRONE

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
    {"quantity": "steps over which uncertainty is propagated", "published": "20", "where": "Section 4.3"},
    {"quantity": "steps until the mean leaves Monte Carlo", "published": "4 to 5", "where": "supplement, Discussion"},
    {"quantity": "variance beside Monte Carlo, multi-step", "published": "grows similarly", "where": "supplement, Discussion"},
]

_SHOWN = (3, 5, 9)  # of the velocities, where all would be too many
_NOISY = (2, 3, 4, 5)  # of the outputs: those that jump from row to row

SETTINGS = prediction_item.SETTINGS


def parameters(quick: bool) -> Record:
    """All that decides the numbers."""
    return prediction_item.parameters(
        quick,
        n_units=80 if quick else 200,
        runs=9 if quick else 81,
        run_rows=1000,
        train_rows=300,
        test_rows=480 if quick else 700,
        segments=4 if quick else 6,
        unit_std=0.0,
        origin_every=10,
        future_every=6,
        fair_every=10 if quick else 4,
    )


def run(settings: Settings, tasks: Tasks) -> Result:
    """Fly, train, predict, compare."""
    from pesn.paper.items.prediction_figures import draw_noisy, outputs_of

    notes = ["The targets are the six velocities; the paper's list names one of them twice."]
    result, scene, levels, _ = prediction_item.run(settings, tasks, NAME, PUBLISHED, 3, _SHOWN, _obtained, measure, notes)
    own = {
        "noisy-states": (
            draw_noisy(outputs_of(scene, ARDRONE, 3), levels.single, _NOISY, 2 * settings.parameters["steps"]),
            "Velocities that jump from row to row, in single steps, a column a method: each mean with its 2σ band beside the "
            "truth; the bar at the right of a panel is the size of the jumps: how far a row is from the average of three.",
        ),
    }
    return prediction_item.with_figures(result, own)


def measure(p: Record, seed: int) -> dict[str, float]:
    """A small draw in three numbers, for the figure of sensitivities."""
    from pesn.paper.items import prediction_study as studies

    return studies.measure(NAME, p, seed)


def _obtained(found: Study, p: Record) -> list[str]:
    from pesn.paper.items import prediction as verdicts
    from pesn.paper.items import prediction_study as studies

    return [
        f"{(p['runs'] - 1) * p['run_rows'] + p['train_rows']:,}",
        f"2σ bands hold 90 to 99 % of the samples for {prediction_item.kept(found):g} steps",
        verdicts.steps_text(studies.leaving(found.multi["before"], "diagonal")[0], p["steps"]),
        prediction_item.wide(found),
    ]
