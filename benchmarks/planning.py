"""A learnt model to plan with: how fast roll-outs are, and how near forecasts.

python benchmarks/planning.py speed [--quick]
python benchmarks/planning.py compare [--quick]
python benchmarks/planning.py gradient [--quick]
python benchmarks/planning.py angles [--quick]
python benchmarks/planning.py coverage [--quick]

speed: 1,000 sequences of 20 controls of the cart pole at 100 units, on one thread, by each form of the covariance, and how far
their means and deviations are from those of ``forecast``, one sequence at a time.

compare: the same planner judged by means, by Gaussians and by samples of the network, on a swing-up and beside the end of a rail.

angles: a cart pole that turns over, learnt from 8 and 12 s by its raw angle and place, or told what they are, from states.

gradient: of an expected quadratic cost over 20 controls at 100 units, on one thread: by the roll-out on tensors, with covariances
and by means alone, and by finite differences of forecasts; and how far these are from the gradient.

coverage: 3, 8 and 24 s of one run of the cart pole to learn from, then 40 steps of forces that are drawn anew every 0.2 s, as no
row had them, from one row and from 20 of other runs, 30 plans a seed: the share inside 95 % intervals, ± its deviation over
seeds; the median deviation at step 40 in units of each column's in training; deviation ÷ error, by root mean squares.
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
from turning import turning

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


def gradient(quick: bool) -> None:
    """Milliseconds of a gradient of an expected cost, median and least."""
    import torch

    from pesn.adapters.torch import rollout

    torch.set_num_threads(1)
    runs = cart_pole.simulate(runs=4, steps=600, rng=0)
    esn = pesn.ProbabilisticESN(100, washout="auto", random_state=0)
    model = pesn.Forecaster(esn, learn=[2, 3], kinematics=KINEMATICS).fit(runs.states, runs.inputs, lengths=runs.lengths)
    start = model.start((runs.states[200:300], runs.inputs[200:299]))
    controls = torch.tensor(np.cumsum(np.random.default_rng(0).normal(size=(STEPS, 1)), axis=0) / 2, requires_grad=True)
    Q, goal = np.array([1.0, 1.0, 0.1, 0.1]), np.array([0.3, np.pi, 0.0, 0.0])
    weights, wanted = torch.tensor(Q), torch.tensor(goal)

    def expected() -> Any:
        mean, cov = rollout(model, controls, start)
        cost = ((mean - wanted).square() @ weights).sum() + (cov.diagonal(dim1=-2, dim2=-1) @ weights).sum()
        return torch.autograd.grad(cost, controls)[0].numpy()

    def certain() -> Any:
        mean, _ = rollout(model, controls, start, "none")
        return torch.autograd.grad(((mean - wanted).square() @ weights).sum(), controls)[0].numpy()

    def differences(step: float = 1e-4) -> Any:
        def cost(u: Any) -> float:
            forecast = model.forecast(STEPS, start, u, joint=False)
            return float(np.sum((np.square(forecast.mean - goal) + forecast.var) @ Q))

        u = controls.detach().numpy()
        steps = step * np.eye(STEPS)[..., None]
        return np.array([[(cost(u + e) - cost(u)) / step] for e in steps])

    sides: dict[str, Any] = {"expected cost, autograd": expected, "cost of the means, autograd": certain}
    times = timing.race(sides, 20 if quick else 200)
    times |= timing.race({"expected cost, finite differences of forecasts": differences}, 1 if quick else 5)
    found = expected()
    print("| gradient of | ms, median | least | off |\n|---|---|---|---|")
    for name, how in {**sides, "expected cost, finite differences of forecasts": differences}.items():
        off = np.abs(how() - found).max() / np.abs(found).max()
        print(f"| {name} | {1e3 * np.median(times[name]):.2f} | {1e3 * min(times[name]):.2f} | {off:.1%} |")


def coverage(quick: bool) -> None:
    """How many of 40 steps of random plans are inside the intervals of a model that has seen little."""
    print("| data | network | context | inside 95 % | of each seed | deviation at 40 | deviation ÷ error |")
    print("|---|---|---|---|---|---|---|")
    for seconds in (3, 8, 24):
        for name in ("automatic", "given, 40 units"):
            found: dict[int, list[list[float]]] = {1: [], 20: []}
            for seed in range(2 if quick else 6):
                runs = cart_pole.simulate(runs=1, steps=round(seconds / DT), rng=seed)
                esn = pesn.ProbabilisticESN(40, washout="auto", random_state=seed) if "given" in name else None
                model = pesn.Forecaster(esn, learn=[2, 3], kinematics=KINEMATICS).fit(runs.states, runs.inputs)
                for rows, judged in found.items():
                    judged.append(_judged(model, rows, seed))
            for rows, judged in found.items():
                inside, std, ratio = np.transpose(judged)
                each = " ".join(f"{one:.2f}" for one in inside)
                print(f"| {seconds} s | {name} | {rows} | {inside.mean():.3f} ± {inside.std(ddof=1):.3f} | {each} |", end="")
                print(f" {np.mean(std):.3f} | {np.exp(np.mean(np.log(ratio))):.2f} |", flush=True)


def _judged(model: pesn.Forecaster, rows: int, seed: int, plans: int = 30, steps: int = 40) -> list[float]:
    """The share inside 95 % intervals, the median last deviation, and deviation ÷ error, of plans after so many rows."""
    rng = np.random.default_rng(1000 + seed)
    inside, std, wrong = [], [], []
    for one in cart_pole.simulate(runs=plans, steps=300, rng=5000 + seed):
        now, force = int(rng.integers(60, 250)), np.repeat(rng.normal(0.0, 2.0, steps // 10), 10)
        truth = cart_pole.simulate(np.append(force, 0.0), steps=steps + 1, initial_state=one.states[now]).states[1:]
        context = one.states[now - rows + 1 : now + 1], one.inputs[now - rows + 1 : now]
        forecast = model.forecast(steps, context, force[:, None])
        low, high = forecast.interval(0.95)
        inside.append(np.mean((truth >= low) & (truth <= high)))
        std.append(forecast.std / model.scale_.y_std)
        wrong.append((forecast.mean - truth) / model.scale_.y_std)
    ratio = np.sqrt(np.mean(np.square(std)) / np.mean(np.square(wrong)))
    return [float(np.mean(inside)), float(np.median([one[-1] for one in std])), float(ratio)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "compare", "gradient", "angles", "coverage"])
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    every = {"speed": speed, "compare": compare, "gradient": gradient, "angles": turning, "coverage": coverage}
    every[given.what](given.quick)
