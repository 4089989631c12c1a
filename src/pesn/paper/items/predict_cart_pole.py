"""The cart pole's predictions: single steps and 20 steps ahead, with 2σ bands beside Monte Carlo.

>>> parameters(quick=True)["steps"]
20
"""

from __future__ import annotations

from functools import partial

from pesn.paper.claims import Record, Result, Settings, Tasks, describe, published
from pesn.paper.item_settings import amend, defaults
from pesn.paper.items import prediction_report, prediction_verdicts
from pesn.paper.items.figures import Picture
from pesn.paper.items.prediction import Scene, Study, learn, leaving
from pesn.paper.items.prediction_figures import draw_around, outputs_of, states_of
from pesn.paper.items.robots import CART_POLE

NAME = "cart-pole"
TITLE, PLACE, ABOUT, ERRATA = describe(NAME)
PUBLISHED: list[Record] = published(NAME)

SETTINGS = amend(
    prediction_report.SETTINGS,
    n_units=(100, 60),
    runs=(5, 3),
    run_rows=(2500, 1200),
    train_rows=800,
    test_rows=(1700, 400),
    segments=(10, 4),
    unit_std=0.1,
    future_every=(10, 5),
)
parameters = partial(defaults, SETTINGS)


def run(settings: Settings, tasks: Tasks) -> Result:
    """Simulate, train, predict, compare."""
    p, seeds = settings.parameters, settings.seeds(settings.parameters["draws"])
    figures = partial(_figures, seeds[0])
    own = prediction_report.Experiment(NAME, CART_POLE, 2, CART_POLE.velocities, _obtained, figures)
    result = prediction_report.run(settings, tasks, own)
    learned = tasks.map(prediction_verdicts.learn_weights, [(p, seed) for seed in seeds])
    result.verdicts.append(prediction_verdicts.judge_same_weights(learned, p))
    return result


def _figures(seed: int, scene: Scene, levels: Study, changes: Study, p: Record) -> dict[str, Picture]:
    other = learn(CART_POLE, p, seed, "change")
    around = "2σ bands of both networks and of Monte Carlo around the mean of the samples."
    own = {
        "single-step-outputs": (
            draw_around(outputs_of(scene, CART_POLE, 2), levels.single, p["steps"]),
            f"The network's outputs in single steps, the velocities: {around}",
        ),
        "single-step-changes": (
            draw_around(outputs_of(other, CART_POLE, 2), changes.single, p["steps"]),
            f"The outputs in single steps of a network that puts out the changes of the velocities: {around}",
        ),
    }
    if "units" in levels.multi:
        own["uncertain-units"] = (
            draw_around(states_of(scene, CART_POLE, 2), levels.multi["units"][0], p["steps"]),
            f"{p['steps']} steps from units that are not known exactly: {around}",
        )
    return own


def _obtained(found: Study, p: Record) -> list[str]:
    single, ratio = found.single, found.single.ratio("diagonal")
    return [
        str(p["steps"]),
        prediction_verdicts.steps_text(leaving(found.multi["before"], "diagonal")[0], p["steps"]),
        prediction_report.wide(found),
        f"mean within {single.off('diagonal').max():.2g} σ; {ratio.min():.2f} to {ratio.max():.2f} times Monte Carlo's σ",
    ]
