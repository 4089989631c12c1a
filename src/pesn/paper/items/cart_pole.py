"""The cart pole's predictions: single steps and 20 steps ahead, with 2σ bands beside Monte Carlo.

>>> parameters(quick=True)["steps"]
20
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pesn.paper.claims import Record, Result, Settings, Tasks
from pesn.paper.items import prediction_item
from pesn.paper.items.robots import CART_POLE

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
        "where": "Figure 7",
    },
    {"quantity": "steps until the mean leaves Monte Carlo", "published": "4 to 5", "where": "supplement, Discussion"},
    {"quantity": "variance beside Monte Carlo, multi-step", "published": "grows similarly", "where": "supplement, Discussion"},
    {"quantity": "mean and variance, single step", "published": "almost perfect", "where": "supplement, Discussion"},
]

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
        origin_every=10,
        future_every=5 if quick else 10,
        fair_every=10,
    )


def run(settings: Settings, tasks: Tasks) -> Result:
    """Simulate, train, predict, compare."""
    from pesn.paper.items import prediction, same_weights
    from pesn.paper.items.prediction_figures import draw_around, outputs_of, states_of

    robot, p = CART_POLE, settings.parameters
    result, scene, levels, changes = prediction_item.run(
        settings, tasks, NAME, PUBLISHED, 2, robot.velocities, _obtained, measure, []
    )
    other = prediction.learn(robot, p, settings.seeds(p["draws"])[0], "change")
    around = "2σ bands of both networks and of Monte Carlo around the mean of the samples."
    own = {
        "single-step-outputs": (
            draw_around(outputs_of(scene, robot, 2), levels.single, p["steps"]),
            f"The network's outputs in single steps, the velocities: {around}",
        ),
        "single-step-changes": (
            draw_around(outputs_of(other, robot, 2), changes.single, p["steps"]),
            f"The outputs in single steps of a network that puts out the changes of the velocities: {around}",
        ),
    }
    if "units" in levels.multi:
        own["uncertain-units"] = (
            draw_around(states_of(scene, robot, 2), levels.multi["units"][0], p["steps"]),
            f"{p['steps']} steps from units that are not known exactly: {around}",
        )
    learned = tasks.map(same_weights.one_draw, [(p, seed) for seed in settings.seeds(p["draws"])])
    result.verdicts.append(same_weights.judge(learned, p))
    return prediction_item.with_figures(result, own)


def measure(p: Record, seed: int) -> dict[str, float]:
    """A small draw in three numbers, for the figure of sensitivities."""
    from pesn.paper.items import prediction_study as studies

    return studies.measure(NAME, p, seed)


def _obtained(found: Study, p: Record) -> list[str]:
    from pesn.paper.items import prediction as verdicts
    from pesn.paper.items import prediction_study as studies

    single, ratio = found.single, found.single.ratio("diagonal")
    return [
        str(p["steps"]),
        verdicts.steps_text(studies.leaving(found.multi["before"], "diagonal")[0], p["steps"]),
        prediction_item.wide(found),
        f"mean within {single.off('diagonal').max():.2g} σ; {ratio.min():.2f} to {ratio.max():.2f} times Monte Carlo's σ",
    ]
