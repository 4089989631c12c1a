"""The AR.Drone's predictions: single steps and 20 steps ahead, with 2σ bands beside Monte Carlo.

>>> p = parameters(quick=False)
>>> (p["runs"] - 1) * p["run_rows"] + p["train_rows"]
80300
"""

from __future__ import annotations

from functools import partial

from pesn.paper.claims import Record, Result, Settings, Tasks, describe, published
from pesn.paper.item_settings import amend, defaults
from pesn.paper.items import prediction_report, prediction_verdicts
from pesn.paper.items.figures import Picture
from pesn.paper.items.prediction import Scene, Study, leaving
from pesn.paper.items.prediction_figures import draw_noisy, outputs_of
from pesn.paper.items.robots import ARDRONE

NAME = "ardrone"
TITLE, PLACE, ABOUT, ERRATA = describe(NAME)
PUBLISHED: list[Record] = published(NAME)

_SHOWN = (3, 5, 9)  # of the velocities, where all would be too many
_NOISY = (2, 3, 4, 5)  # of the outputs: those that jump from row to row

SETTINGS = amend(
    prediction_report.SETTINGS,
    n_units=(200, 80),
    runs=(81, 9),
    run_rows=1000,
    train_rows=300,
    test_rows=(700, 480),
    segments=(6, 4),
    unit_std=0.0,
    future_every=6,
    fair_every=(4, 10),
)
parameters = partial(defaults, SETTINGS)


def run(settings: Settings, tasks: Tasks) -> Result:
    """Fly, train, predict, compare."""
    notes = ["The targets are the six velocities; the paper's list names one of them twice."]
    own = prediction_report.Experiment(NAME, ARDRONE, 3, _SHOWN, _obtained, _figures, notes)
    return prediction_report.run(settings, tasks, own)


def _figures(scene: Scene, levels: Study, changes: Study, p: Record) -> dict[str, Picture]:
    return {
        "noisy-states": (
            draw_noisy(outputs_of(scene, ARDRONE, 3), levels.single, _NOISY, 2 * p["steps"]),
            "Velocities that jump from row to row, in single steps, a column a method: each mean with its 2σ band beside the "
            "truth; the bar at the right of a panel is the size of the jumps: how far a row is from the average of three.",
        ),
    }


def _obtained(found: Study, p: Record) -> list[str]:
    return [
        f"{(p['runs'] - 1) * p['run_rows'] + p['train_rows']:,}",
        f"2σ bands hold 90 to 99 % of the samples for {prediction_report.kept(found):g} steps",
        prediction_verdicts.steps_text(leaving(found.multi["before"], "diagonal")[0], p["steps"]),
        prediction_report.wide(found),
    ]
