"""Planning with a learned dynamics model: roll-outs, planners, gradients, angles, coverage.

speed     1,000 sequences of 20 controls of the cart pole at 100 units, on one thread, with each covariance form, and their
          difference from ``forecast``, one sequence at a time
compare   a planner that uses means, Gaussians or samples of the network, on a swing-up and at the end of a rail
gradient  of an expected quadratic cost over 20 controls at 100 units: roll-out on tensors, with covariances and with means only,
          and finite differences of forecasts
angles    a cart pole that turns over, learned from 8 and 12 s with raw or with periodic and ignorable coordinates
coverage  3, 8 and 24 s of one run of the cart pole as training data, then 40 steps of forces that change every 0.2 s, as none in
          training did, from 1 and 20 observations of other runs, 30 plans per seed: coverage of 95 % intervals ± standard
          deviation over seeds; median std at step 40 in units of training; std ÷ error by root mean squares
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import pesn
from harness import ROOT, make_parser, parse_parts, time_in_turns
from pesn.forecasting.alignment import column_position
from pesn.forecasting.design import Candidate, Design
from pesn.forecasting.rollout import Rollout
from pesn.planning import MPPI, ChanceConstraint
from pesn.systems import cart_pole
from uncertainty import integrate_velocities

sys.path.insert(0, str(ROOT / "examples"))
import swing_up

Array = npt.NDArray[np.float64]

# ---------------------------------------------------------------- speed, gradient and coverage


DT = 0.02
KINEMATICS = integrate_velocities(4, DT)
PLANS, STEPS = 1000, 20
FORMS = {"none": PLANS, "diagonal": PLANS, "low-rank": PLANS, "full": 20}  # sequences per call


def speed(quick: bool) -> None:
    """Time 1,000 roll-outs, and compare them with forecasts."""
    runs = cart_pole.simulate(runs=4, steps=600, rng=0)
    designs: dict[str, dict[str, Any]] = {
        "given, 100 units": {"esn": pesn.ProbabilisticESN(100, washout="auto", random_state=0)},
        "design, 100 units, products": {"design": Design(Candidate("static 0.5", 0, 1, 100, (1e-8, 1e-7)))},
    }
    controls = np.cumsum(np.random.default_rng(0).normal(size=(PLANS, STEPS, 1)), axis=1) / 2
    context = runs.states[200:300], runs.inputs[200:299]
    print("| network | covariance | ms for 1,000 × 20 | error of mean ÷ σ | error of std |\n|---|---|---|---|---|")
    for name, call in designs.items():
        model = pesn.Forecaster(**call, learn=[2, 3], kinematics=KINEMATICS).fit(runs.states, runs.inputs, lengths=runs.lengths)
        start, one_by_one = model.start(context), 5
        forecasts = [model.forecast(STEPS, start, controls[i]) for i in range(one_by_one)]
        calls: dict[str, Any] = {form: partial(model.rollout, controls[:count], start, form) for form, count in FORMS.items()}
        calls["forecast"] = partial(model.forecast, STEPS, start, controls[0])
        times = time_in_turns(calls, 2 if quick else 7)
        for form, count in FORMS.items():
            result = calls[form]()
            mean = max(np.abs((result.mean[i] - f.mean) / f.std).max() for i, f in enumerate(forecasts))
            std = (
                ""
                if result.std is None
                else f"{max(np.abs(result.std[i] / f.std - 1).max() for i, f in enumerate(forecasts)):.2%}"
            )
            print(f"| {name} | {form} | {1e3 * min(times[form]) * PLANS / count:.0f} | {mean:.4f} | {std} |")
        print(f"| {name} | forecasts one by one | {1e3 * min(times['forecast']) * PLANS:.0f} | | |")


def gradient(quick: bool) -> None:
    """Time the gradient of an expected cost."""
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

    def expected_cost() -> Any:
        mean, cov = rollout(model, controls, start)
        cost = ((mean - wanted).square() @ weights).sum() + (cov.diagonal(dim1=-2, dim2=-1) @ weights).sum()
        return torch.autograd.grad(cost, controls)[0].numpy()

    def mean_only() -> Any:
        mean, _ = rollout(model, controls, start, covariance="none")
        return torch.autograd.grad(((mean - wanted).square() @ weights).sum(), controls)[0].numpy()

    def differences(step: float = 1e-4) -> Any:
        def cost(u: Any) -> float:
            forecast = model.forecast(STEPS, start, u, joint=False)
            return float(np.sum((np.square(forecast.mean - goal) + forecast.var) @ Q))

        u = controls.detach().numpy()
        steps = step * np.eye(STEPS)[..., None]
        return np.array([[(cost(u + e) - cost(u)) / step] for e in steps])

    calls: dict[str, Any] = {"expected cost, autograd": expected_cost, "cost of the mean, autograd": mean_only}
    times = time_in_turns(calls, 20 if quick else 200)
    times |= time_in_turns({"expected cost, finite differences of forecasts": differences}, 1 if quick else 5)
    reference = expected_cost()
    print("| gradient of | ms, median | minimum | error |\n|---|---|---|---|")
    for name, call in {**calls, "expected cost, finite differences of forecasts": differences}.items():
        off = np.abs(call() - reference).max() / np.abs(reference).max()
        print(f"| {name} | {1e3 * np.median(times[name]):.2f} | {1e3 * min(times[name]):.2f} | {off:.1%} |")


def coverage(quick: bool) -> None:
    """Measure the coverage over 40 steps of random plans with little training data."""
    print("| data | network | context | coverage of 95 % | of each seed | std at 40 | std ÷ error |")
    print("|---|---|---|---|---|---|---|")
    for seconds in (3, 8, 24):
        for name in ("automatic", "given, 40 units"):
            reference: dict[int, list[list[float]]] = {1: [], 20: []}
            for seed in range(2 if quick else 6):
                runs = cart_pole.simulate(runs=1, steps=round(seconds / DT), rng=seed)
                esn = pesn.ProbabilisticESN(40, washout="auto", random_state=seed) if "given" in name else None
                model = pesn.Forecaster(esn, learn=[2, 3], kinematics=KINEMATICS).fit(runs.states, runs.inputs)
                for n_context, results in reference.items():
                    results.append(_evaluate(model, n_context, seed))
            for n_context, results in reference.items():
                covered, std, ratio = np.transpose(results)
                each = " ".join(f"{one:.2f}" for one in covered)
                print(
                    f"| {seconds} s | {name} | {n_context} | {covered.mean():.3f} ± {covered.std(ddof=1):.3f} | {each} |", end=""
                )
                print(f" {np.mean(std):.3f} | {np.exp(np.mean(np.log(ratio))):.2f} |", flush=True)


def _evaluate(model: pesn.Forecaster, n_context: int, seed: int, plans: int = 30, steps: int = 40) -> list[float]:
    """Return coverage of 95 % intervals, median std at the last step, and std ÷ RMS error, after ``rows`` observations."""
    rng = np.random.default_rng(1000 + seed)
    covered, std, residuals = [], [], []
    for one in cart_pole.simulate(runs=plans, steps=300, rng=5000 + seed):
        origin, force = int(rng.integers(60, 250)), np.repeat(rng.normal(0.0, 2.0, steps // 10), 10)
        truth = cart_pole.simulate(np.append(force, 0.0), steps=steps + 1, initial_state=one.states[origin]).states[1:]
        context = one.states[origin - n_context + 1 : origin + 1], one.inputs[origin - n_context + 1 : origin]
        forecast = model.forecast(steps, context, force[:, None])
        low, high = forecast.interval(0.95)
        covered.append(np.mean((truth >= low) & (truth <= high)))
        std.append(forecast.std / model.scale_.y_std)
        residuals.append((forecast.mean - truth) / model.scale_.y_std)
    ratio = np.sqrt(np.mean(np.square(std)) / np.mean(np.square(residuals)))
    return [float(np.mean(covered)), float(np.median([one[-1] for one in std])), float(ratio)]


# ---------------------------------------------------------------- planners


SAMPLES = 50
GOAL, END = 1.05, 1.1  # m: goal of the cart, and end of the rail
GUSTS = 2.0  # N, standard deviation of an unknown force, redrawn in each step
CHANCE = 0.05
DRIVE_SECONDS = 4.0  # s


class SampledModel:
    """Model whose plans are evaluated by samples of the network instead of Gaussians."""

    def __init__(self, model: Any, seed: int) -> None:
        self.model, self.rng = model, np.random.default_rng(seed)
        self.start = model.start

    def rollout(self, controls: Array, start: Any = None, covariance: str = "low-rank") -> Any:
        if covariance == "none":
            return self.model.rollout(controls, start, "none")
        controls = np.reshape(controls, (-1, *np.shape(controls)[-2:]))
        steps, names = controls.shape[1], self.model.names_
        inputs = [pd.DataFrame(plan, columns=self.model.known_names_) for plan in controls]
        paths = [self.model.sample_paths(SAMPLES, steps, start, X, rng=self.rng) for X in inputs]
        return SampledRollout(np.array(paths), controls, tuple(names))


class SampledRollout(Rollout):
    """Costs and probabilities of plans as means over sample paths (B, n, H, d)."""

    def __init__(self, paths: Array, controls: Array, names: tuple[str, ...]) -> None:
        centered = paths - paths.mean(axis=1, keepdims=True)
        n = paths.shape[1]
        cov = np.einsum("bnhi,bnhj->bhij", centered, centered) / (n - 1)
        lagged = np.einsum("bnhi,bnhj->bhij", centered[:, :, 1:], centered[:, :, :-1]) / (n - 1)
        super().__init__(paths.mean(axis=1), controls, cov, lagged, names)
        object.__setattr__(self, "paths", paths)

    def __getitem__(self, index: Any) -> Rollout:
        return Rollout(self.mean, self.controls, self.cov, self.lagged, self.names)[index]

    def _paths(self) -> Rollout:
        b, n, h, d = self.paths.shape  # type: ignore[attr-defined]
        return Rollout(self.paths.reshape(b * n, h, d), np.repeat(self.controls, n, axis=0), names=self.names)  # type: ignore[attr-defined]

    def _over_paths(self, values: Array) -> Array:
        return values.reshape(len(self), -1, *values.shape[1:]).mean(axis=1)

    def expected_cost(self, Q: Any, goal: Any = 0.0, R: Any = None) -> Array:
        return self._over_paths(self._paths().expected_cost(Q, goal, R))

    def angle_cost(self, column: Any, goal: Any = 0.0) -> Array:
        return self._over_paths(self._paths().angle_cost(column, goal))

    def probability(self, column: Any, *, above: float | None = None, below: float | None = None) -> Array:
        value = self._paths().mean[..., column_position("column", column, self._names)]
        out = (value > (np.inf if above is None else above)) | (value < (-np.inf if below is None else below))
        return self._over_paths(out.astype(float))


def use_model(model: Any, seed: int) -> Any:
    return model


EVALUATIONS: dict[str, tuple[Any, Callable[[Any, int], Any]]] = {
    "mean": ("none", use_model),
    "Gaussian": ("low-rank", use_model),
    f"{SAMPLES} samples": ("low-rank", SampledModel),
}


def run_swing_up(kind: str, seed: int, trials: int) -> dict[str, float]:
    """Learn the swing-up over ``trials``, and return whether the pole is held, and the costs."""
    covariance, wrap = EVALUATIONS[kind]
    found = swing_up.learn_to_swing_up(
        swing_up.pesn_engine(), seed, trials=trials, covariance=covariance, say=lambda _: None,
        learner=lambda seen, own: wrap(swing_up.learn(seen, own), own),
    )  # fmt: skip
    states = [states for states, _ in found["trials"]]
    test = Rollout(states[-1][None, 1:], found["trials"][-1][1][None, :-1], names=tuple(swing_up.STATES))
    return {
        "held": float(found["held"]),
        "seconds": found["seconds"],
        "cost": float(swing_up.cost(test)[0] / test.horizon),
        "off the rail": float(np.mean([np.abs(one[:, 0]).max() > swing_up.RAIL for one in states[1:]])),
    }


def drive_to_rail_end(kind: str, seed: int, data: float) -> dict[str, float]:
    """Drive a cart in gusts to a goal 5 cm before the end of the rail, with a model of ``data`` s of random forces."""
    covariance, wrap = EVALUATIONS[kind]
    rng = np.random.default_rng(seed)
    step_without_gusts = swing_up.pesn_engine()

    def step(state: Array, force: float) -> Array:
        return step_without_gusts(state, force + GUSTS * rng.standard_normal())

    seen = [swing_up.run(step, swing_up.hanging(rng), data, swing_up.pushed(rng))]
    model = wrap(swing_up.learn(seen, seed), seed)
    end = ChanceConstraint("x", above=END, probability=CHANCE)
    weights, goal = {"x": 1.0, "v": 0.05, "omega": 0.02}, {"x": GOAL}
    planner = MPPI(
        model, swing_up.HORIZON, (-swing_up.FORCE, swing_up.FORCE), lambda r: r.expected_cost(weights, goal, R=1e-4),
        constraints=[end], covariance=covariance, random_state=seed,
    )  # fmt: skip
    states = [swing_up.hanging(rng)]
    while len(states) <= round(DRIVE_SECONDS / swing_up.DT) and states[-1][0] <= END:
        force = planner.plan(model.start(pd.DataFrame(states[-1][None], columns=swing_up.STATES)))[0, 0]
        states.append(step(states[-1], float(force)))
    x = np.array(states)[:, 0]
    arrived = x.max() <= END
    return {
        "hit the end": float(not arrived),
        "m from the goal in the last s, of the others": float(np.abs(x[-round(1.0 / swing_up.DT) :] - GOAL).mean())
        if arrived
        else np.nan,
    }


def time_plan(kind: str, seed: int) -> dict[str, float]:
    """Return the CPU milliseconds of a plan, the minimum of 20."""
    covariance, wrap = EVALUATIONS[kind]
    rng = np.random.default_rng(seed)
    seen = [swing_up.run(swing_up.pesn_engine(), swing_up.hanging(rng), 3.0, swing_up.pushed(rng)) for _ in range(3)]
    control = swing_up.planned(wrap(swing_up.learn(seen, seed), seed), seed, covariance, [], [])
    times = []
    for _ in range(20):
        begin = time.process_time()
        control(seen[0][0][-1])
        times.append(time.process_time() - begin)
    return {"ms": 1e3 * min(times)}


def compare(quick: bool) -> None:
    """Compare planners that use means, Gaussians and samples."""
    tasks: dict[str, tuple[int, Callable[[str, int], dict[str, float]]]] = {
        "end of a rail, 1.5 s of data": (10, lambda kind, seed: drive_to_rail_end(kind, seed, 1.5)),
        "end of a rail, 3 s of data": (10, lambda kind, seed: drive_to_rail_end(kind, seed, 3.0)),
        "swing-up, 1 planned trial": (5, lambda kind, seed: run_swing_up(kind, seed, 1)),
        "swing-up, 3 planned trials": (5, lambda kind, seed: run_swing_up(kind, seed, 3)),
        f"a plan of {swing_up.HORIZON} steps": (3, time_plan),
    }
    for task, (count, run_task) in tasks.items():
        seeds = range(1 if quick else count)
        print(f"\n{task}, means over {len(seeds)} seeds:\n", flush=True)
        for i, kind in enumerate(EVALUATIONS):
            found = pd.DataFrame([run_task(kind, seed) for seed in seeds])
            if i == 0:
                print("| evaluated by | " + " | ".join(found.columns) + " |\n|---|" + "---|" * len(found.columns))
            print(f"| {kind} | " + " | ".join(f"{value:.3g}" for value in found.mean()) + " |", flush=True)


# ---------------------------------------------------------------- angles


TURN_DT, TRIAL_SECONDS, TURN_HORIZON = 0.05, 4.0, 40  # seconds per step and per trial; steps of a roll-out
TURN_FORCE, HOLD_SECONDS = 15.0, 0.5  # N and s: enough to turn the pole over
TURN_KINEMATICS: dict[str, Any] = {
    "learn": [2, 3],
    "kinematics": (np.array([[1, 0, TURN_DT / 2, 0], [0, 1, 0, TURN_DT / 2]]), TURN_DT / 2 * np.eye(2), np.zeros(2)),
}
COORDINATES: dict[str, dict[str, Any]] = {
    "raw": {},
    "angles": {"angles": [1]},
    "angles, ignorable": {"angles": [1], "ignorable": [0]},
}


def memoryless_network() -> pesn.ProbabilisticESN:
    """Return a network without memory: the units depend on the last observation only."""
    return pesn.ProbabilisticESN(
        200, spectral_radius=1e-9, leak_rate=1.0, input_scaling=0.5, bias_scaling=1.0, ridge=1e-5,
        features=pesn.Features(products=1), process_noise=0.0, random_state=0,
    )  # fmt: skip


def simulate_trials(count: int, seed: int) -> tuple[Array, Array]:
    """Simulate states (count, steps, 4) and forces (count, steps, 1) from a hanging pole."""
    steps, hold = round(TRIAL_SECONDS / TURN_DT), round(HOLD_SECONDS / TURN_DT)
    forces = np.repeat(np.random.default_rng(seed).uniform(-TURN_FORCE, TURN_FORCE, (count, steps // hold)), hold, axis=1)
    runs = cart_pole.simulate(forces, runs=count, steps=steps, dt=TURN_DT, substeps=10, rng=seed)
    return runs.states.reshape(count, steps, 4), runs.inputs.reshape(count, steps, 1)


def angle_errors(model: pesn.Forecaster) -> Array:
    """Return the mean error of the angle in rad after 1, 10 and 40 steps, and the coverage of 95 % intervals."""
    y, u = simulate_trials(8, 900)
    origins = [(i, k) for i in range(len(y)) for k in range(0, y.shape[1] - TURN_HORIZON, 4)]
    truth = np.stack([y[i, k + 1 : k + 1 + TURN_HORIZON] for i, k in origins])
    found = model.rollout(
        np.stack([u[i, k : k + TURN_HORIZON] for i, k in origins]), model.start(np.stack([y[i, [k]] for i, k in origins]))
    )
    assert found.std is not None
    residuals = np.abs(found.mean - truth)
    covered = np.mean(residuals <= 1.96 * found.std)
    return np.array([*residuals[:, [0, 9, TURN_HORIZON - 1], 1].mean(axis=0), covered])


def angles(quick: bool) -> None:
    """Compare raw angles with periodic and ignorable coordinates, by seconds of data and network."""
    logging.disable(logging.WARNING)  # raw angles leave the training range
    seeds = range(2 if quick else 5)
    print(
        "| s of data | network | coordinates | error after 1 step (rad) | 10 steps | 40 steps | coverage of 95 % |\n"
        "|---|---|---|---|---|---|---|"
    )
    for count in (2, 3):
        data = [simulate_trials(count, 100 + seed) for seed in seeds]
        for name, options in COORDINATES.items():
            for kind in ("auto", "static"):
                result = []
                for y, u in data:
                    model = pesn.Forecaster(memoryless_network() if kind == "static" else "auto", **TURN_KINEMATICS, **options)
                    lengths = [y.shape[1]] * count
                    result.append(angle_errors(model.fit(y.reshape(-1, 4), u.reshape(-1, 1), lengths=lengths)))
                one, ten, last, covered = np.mean(result, axis=0)
                print(
                    f"| {count * TRIAL_SECONDS:.0f} | {kind} | {name} | {one:.4f} | {ten:.3f} | {last:.2f} | {covered:.2f} |",
                    flush=True,
                )


def main(arguments: Sequence[str]) -> None:
    """Print the selected tables."""
    parts = {"speed": speed, "compare": compare, "gradient": gradient, "angles": angles, "coverage": coverage}
    parser = make_parser("planning", __doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and seeds")
    options = parse_parts(parser, arguments, parts)
    for name in options.parts:
        print(f"\n## {name}\n", flush=True)
        parts[name](options.quick)
