"""The same planner judged by means, by Gaussians and by samples: on the swing-up, and beside the end of a rail."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pesn.forecasting.rollout import Rollout
from pesn.forecasting.row_labels import column_position
from pesn.planning import MPPI, ChanceConstraint

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import swing_up

SAMPLES = 50
GOAL, END = 1.05, 1.1  # m: where the cart should go, and where the rail ends
GUSTS = 2.0  # N, deviation of a force that nobody knows, new in each row
CHANCE = 0.05
DRIVEN = 4.0  # s
Array = np.ndarray[Any, Any]


class Sampled:
    """A model whose plans are judged by samples of the network in the place of its Gaussians."""

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
        away = paths - paths.mean(axis=1, keepdims=True)
        n = paths.shape[1]
        cov = np.einsum("bnhi,bnhj->bhij", away, away) / (n - 1)
        lagged = np.einsum("bnhi,bnhj->bhij", away[:, :, 1:], away[:, :, :-1]) / (n - 1)
        super().__init__(paths.mean(axis=1), controls, cov, lagged, names)
        object.__setattr__(self, "paths", paths)

    def __getitem__(self, index: Any) -> Rollout:
        return Rollout(self.mean, self.controls, self.cov, self.lagged, self.names)[index]

    def _each(self) -> Rollout:
        b, n, h, d = self.paths.shape  # type: ignore[attr-defined]
        return Rollout(self.paths.reshape(b * n, h, d), np.repeat(self.controls, n, axis=0), names=self.names)  # type: ignore[attr-defined]

    def _over_paths(self, values: Array) -> Array:
        return values.reshape(len(self), -1, *values.shape[1:]).mean(axis=1)

    def expected_cost(self, Q: Any, goal: Any = 0.0, R: Any = None) -> Array:
        return self._over_paths(self._each().expected_cost(Q, goal, R))

    def angle_cost(self, column: Any, goal: Any = 0.0) -> Array:
        return self._over_paths(self._each().angle_cost(column, goal))

    def probability(self, column: Any, *, above: float | None = None, below: float | None = None) -> Array:
        value = self._each().mean[..., column_position("column", column, self._names)]
        out = (value > (np.inf if above is None else above)) | (value < (-np.inf if below is None else below))
        return self._over_paths(out.astype(float))


def as_it_is(model: Any, seed: int) -> Any:
    return model


KINDS: dict[str, tuple[Any, Callable[[Any, int], Any]]] = {
    "mean": ("none", as_it_is),
    "Gaussian": ("low-rank", as_it_is),
    f"{SAMPLES} samples": ("low-rank", Sampled),
}


def swung_up(kind: str, seed: int, trials: int) -> dict[str, float]:
    """Whether a pole is held after ``trials``, and what it took."""
    covariance, judged = KINDS[kind]
    found = swing_up.learn_to_swing_up(
        swing_up.pesn_engine(), seed, trials=trials, covariance=covariance, say=lambda _: None,
        learner=lambda seen, own: judged(swing_up.learn(seen, own), own),
    )  # fmt: skip
    states = [states for states, _ in found["trials"]]
    test = Rollout(states[-1][None, 1:], found["trials"][-1][1][None, :-1], names=tuple(swing_up.STATES))
    return {
        "held": float(found["held"]),
        "seconds": found["seconds"],
        "cost": float(swing_up.cost(test)[0] / test.horizon),
        "off the rail": float(np.mean([np.abs(one[:, 0]).max() > swing_up.RAIL for one in states[1:]])),
    }


def beside_the_end(kind: str, seed: int, learnt: float) -> dict[str, float]:
    """A cart is driven in gusts to a goal 5 cm before the end of its rail, by a model of ``learnt`` s of random pushing."""
    covariance, judged = KINDS[kind]
    rng = np.random.default_rng(seed)
    still = swing_up.pesn_engine()

    def step(state: Array, force: float) -> Array:
        return still(state, force + GUSTS * rng.standard_normal())

    seen = [swing_up.run(step, swing_up.hanging(rng), learnt, swing_up.pushed(rng))]
    model = judged(swing_up.learn(seen, seed), seed)
    end = ChanceConstraint("x", above=END, probability=CHANCE)
    weights, goal = {"x": 1.0, "v": 0.05, "omega": 0.02}, {"x": GOAL}
    planner = MPPI(
        model, swing_up.HORIZON, (-swing_up.FORCE, swing_up.FORCE), lambda r: r.expected_cost(weights, goal, R=1e-4),
        constraints=[end], covariance=covariance, random_state=seed,
    )  # fmt: skip
    states = [swing_up.hanging(rng)]
    while len(states) <= round(DRIVEN / swing_up.DT) and states[-1][0] <= END:
        force = planner.plan(model.start(pd.DataFrame(states[-1][None], columns=swing_up.STATES)))[0, 0]
        states.append(step(states[-1], float(force)))
    x = np.array(states)[:, 0]
    arrived = x.max() <= END
    return {
        "ran into the end": float(not arrived),
        "m from the goal, last s, of the others": float(np.abs(x[-round(1.0 / swing_up.DT) :] - GOAL).mean())
        if arrived
        else np.nan,
    }


def time_of_a_plan(kind: str, seed: int) -> dict[str, float]:
    """Milliseconds of processor time, the least of 20 plans: the machine may have other things to do."""
    covariance, judged = KINDS[kind]
    rng = np.random.default_rng(seed)
    seen = [swing_up.run(swing_up.pesn_engine(), swing_up.hanging(rng), 3.0, swing_up.pushed(rng)) for _ in range(3)]
    control = swing_up.planned(judged(swing_up.learn(seen, seed), seed), seed, covariance, [], [])
    taken = []
    for _ in range(20):
        began = time.process_time()
        control(seen[0][0][-1])
        taken.append(time.process_time() - began)
    return {"ms": 1e3 * min(taken)}


def compare(quick: bool) -> None:
    """Both tasks by each kind, over seeds."""
    tasks: dict[str, tuple[int, Callable[[str, int], dict[str, float]]]] = {
        "to the end of a rail, learnt from 1.5 s": (10, lambda kind, seed: beside_the_end(kind, seed, 1.5)),
        "to the end of a rail, learnt from 3 s": (10, lambda kind, seed: beside_the_end(kind, seed, 3.0)),
        "swing-up, 1 trial with plans": (5, lambda kind, seed: swung_up(kind, seed, 1)),
        "swing-up, 3 trials with plans": (5, lambda kind, seed: swung_up(kind, seed, 3)),
        f"a plan of {swing_up.HORIZON} steps": (3, time_of_a_plan),
    }
    for task, (count, play) in tasks.items():
        seeds = range(1 if quick else count)
        print(f"\n{task}, means over {len(seeds)} seeds:\n", flush=True)
        for i, kind in enumerate(KINDS):
            found = pd.DataFrame([play(kind, seed) for seed in seeds])
            if i == 0:
                print("| judged by | " + " | ".join(found.columns) + " |\n|---|" + "---|" * len(found.columns))
            print(f"| {kind} | " + " | ".join(f"{value:.3g}" for value in found.mean()) + " |", flush=True)
