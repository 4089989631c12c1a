"""A learnt model to plan with: how fast roll-outs are, and how near forecasts.

python benchmarks/planning.py speed [--quick]
python benchmarks/planning.py compare [--quick]

speed: 1,000 sequences of 20 controls of the cart pole at 100 units, on one thread, by each form of the covariance, and how far
their means and deviations are from those of ``forecast``, one sequence at a time.

compare: the same planner judged by means, by Gaussians and by samples of the network, on a swing-up and beside the end of a rail.
"""

import timing  # isort: skip  (before NumPy: one thread)

import argparse
from functools import partial
from typing import Any

import numpy as np

import pesn
from pesn.forecasting.design import Candidate, Design
from pesn.systems import cart_pole
from plans import compare

DT = 0.02
KINEMATICS = np.array([[1, 0, DT / 2, 0], [0, 1, 0, DT / 2]]), DT / 2 * np.eye(2), np.zeros(2)
PLANS, STEPS = 1000, 20
FORMS = {"none": PLANS, "diagonal": PLANS, "low-rank": PLANS, "full": 20}  # sequences at a time


def speed(quick: bool) -> None:
    """Milliseconds of 1,000 roll-outs, and how near they are to forecasts."""
    runs = cart_pole.simulate(runs=4, steps=600, rng=0)
    designs: dict[str, dict[str, Any]] = {
        "given, 100 units": {"esn": pesn.ProbabilisticESN(100, washout="auto", random_state=0)},
        "designed, 100 units, products": {"design": Design(Candidate("fast", 0, 1, 100, (1e-8, 1e-7)))},
    }
    controls = np.cumsum(np.random.default_rng(0).normal(size=(PLANS, STEPS, 1)), axis=1) / 2
    context = runs.states[200:300], runs.inputs[200:299]
    print("| network | covariance | ms for 1,000 × 20 | mean off, σ | std off |\n|---|---|---|---|---|")
    for name, how in designs.items():
        model = pesn.Forecaster(**how, learn=[2, 3], kinematics=KINEMATICS).fit(runs.states, runs.inputs, lengths=runs.lengths)
        start, one_by_one = model.start(context), 5
        forecasts = [model.forecast(STEPS, start, controls[i]) for i in range(one_by_one)]
        sides: dict[str, Any] = {form: partial(model.rollout, controls[:count], start, form) for form, count in FORMS.items()}
        sides["forecast"] = partial(model.forecast, STEPS, start, controls[0])
        times = timing.race(sides, 2 if quick else 7)
        for form, count in FORMS.items():
            result = sides[form]()
            mean = max(np.abs((result.mean[i] - f.mean) / f.std).max() for i, f in enumerate(forecasts))
            std = (
                ""
                if result.std is None
                else f"{max(np.abs(result.std[i] / f.std - 1).max() for i, f in enumerate(forecasts)):.2%}"
            )
            print(f"| {name} | {form} | {1e3 * min(times[form]) * PLANS / count:.0f} | {mean:.4f} | {std} |")
        print(f"| {name} | one forecast after the other | {1e3 * min(times['forecast']) * PLANS:.0f} | | |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "compare"])
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    {"speed": speed, "compare": compare}[given.what](given.quick)
