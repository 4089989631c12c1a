"""A cart pole learns to swing its pole up from scratch: one trial of random pushing, then trials with plans.

    python examples/swing_up.py --out swing-up                    # pesn's own cart pole
    python examples/swing_up.py --engine mujoco --out swing-up    # MuJoCo's: pip install 'pesn[mujoco]'

Nothing is known of the cart pole but that positions follow from velocities, that the angle is one, and that the place on the rail
does not matter to the rest. The pole hangs at first. After 12 s of interaction in all, the test: swing up, and hold.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pesn
from pesn.planning import MPPI, ChanceConstraint
from pesn.systems import cart_pole

DT = 0.05  # s, from one row to the next
FORCE = 10.0  # N, the largest
RAIL = 2.4  # m, to each side
STATES = ["x", "theta", "v", "omega"]  # theta = 0 is upright
HORIZON = 20
FIRST, TRIAL, TEST = 3.0, 3.0, 6.0  # s
Array = np.ndarray[Any, Any]
Step = Callable[[Array, float], Array]


def pesn_engine() -> Step:
    """Return the next state (4,) after a force that is held for one row."""

    def step(state: Array, force: float) -> Array:
        run = cart_pole.simulate(np.array([force, 0.0]), steps=2, dt=DT, substeps=5, initial_state=state)
        return run.states[1]

    return step


def mujoco_engine() -> Step:
    """Return the same by MuJoCo, from masses, joints and a motor."""
    import mujoco

    from pesn.adapters.mujoco import cart_pole_mjcf

    substeps = 5
    model = mujoco.MjModel.from_xml_string(cart_pole_mjcf(step=DT / substeps))
    data = mujoco.MjData(model)

    def step(state: Array, force: float) -> Array:
        data.qpos[:], data.qvel[:] = state[:2], state[2:]
        data.ctrl[:] = force
        mujoco.mj_step(model, data, substeps)
        return np.concatenate([data.qpos, data.qvel])

    return step


def learn(trials: list[tuple[Array, Array]], seed: int, units: int = 100) -> pesn.Forecaster:
    """Fit the model to ``trials`` of states (n, 4) and forces (n, 1)."""
    y = pd.DataFrame(np.concatenate([states for states, _ in trials]), columns=STATES)
    X = pd.DataFrame(np.concatenate([forces for _, forces in trials]), columns=["force"])
    A = np.array([[1.0, 0.0, DT / 2, 0.0], [0.0, 1.0, 0.0, DT / 2]])  # a position goes on by the mean of two velocities
    network = pesn.ProbabilisticESN(
        units, leak_rate=1.0, topology=np.zeros((units, units)), ridge="auto", random_state=seed
    )  # units that do not see each other: the state is observed whole, and nothing need be remembered
    model = pesn.Forecaster(
        network, learn=["v", "omega"], kinematics=(A, DT / 2 * np.eye(2), np.zeros(2)), angles=["theta"], ignorable=["x"]
    )
    return model.fit(y, X, lengths=[len(states) for states, _ in trials])


def cost(rollout: Any) -> Any:
    """Return the expected cost of plans: upright, in the middle, at rest, with little force."""
    return rollout.angle_cost("theta") + rollout.expected_cost({"x": 0.2, "v": 0.01, "omega": 0.01}, R=1e-4)


def run(step: Step, state: Array, seconds: float, control: Callable[[Array], float]) -> tuple[Array, Array]:
    """Return states (n, 4) from ``state`` and the forces (n, 1); stop at the end of the rail."""
    states, forces = [state], []
    for _ in range(round(seconds / DT)):
        if abs(states[-1][0]) > RAIL:
            break
        forces.append(float(np.clip(control(states[-1]), -FORCE, FORCE)))
        states.append(step(states[-1], forces[-1]))
    return np.array(states), np.array([*forces, 0.0])[:, None]


def planned(model: Any, seed: int, covariance: Any, taken: list[float], plans: list[Any]) -> Callable[[Array], float]:
    """Return a control by plans that records their durations and roll-outs."""
    rail = ChanceConstraint("x", above=RAIL, below=-RAIL, probability=0.05)
    planner = MPPI(model, HORIZON, (-FORCE, FORCE), cost, constraints=[rail], covariance=covariance, random_state=seed)

    def control(state: Array) -> float:
        began = time.perf_counter()
        start = model.start(pd.DataFrame(state[None], columns=STATES))
        plan = planner.plan(start)
        taken.append(time.perf_counter() - began)
        plans.append((start, plan))
        return float(plan[0, 0])

    return control


def pushed(seed: Any) -> Callable[[Array], float]:
    """Return random pushes with a pull to the middle of the rail."""
    force = iter(cart_pole.wandering_force(round(FIRST / DT), DT, strength=4.0, rng=seed))
    return lambda state: float(next(force) - 2.0 * state[0] - 2.0 * state[2])


def upright(states: Array) -> Array:
    """Return the distance from upright in rad."""
    return np.abs((states[:, 1] + np.pi) % (2.0 * np.pi) - np.pi)


def held(states: Array, seconds: float = 2.0) -> bool:
    """Return whether a test was completed with the pole within 0.3 rad of upright in the last ``seconds``."""
    last = states[-round(seconds / DT) :]
    return bool(len(states) > round(TEST / DT) and upright(last).max() < 0.3)


def hanging(rng: np.random.Generator) -> Array:
    """Return the state at the start of a trial."""
    return np.array([0.0, np.pi, 0.0, 0.0]) + 0.05 * rng.standard_normal(4)


def learn_to_swing_up(
    step: Step,
    seed: int,
    *,
    trials: int = 3,
    covariance: Any = "none",
    learner: Callable[..., Any] = learn,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Run a random trial, ``trials`` planned ones with a new fit after each, and the test."""
    rng = np.random.default_rng(seed)
    seen = [run(step, hanging(rng), FIRST, pushed(rng))]
    taken: list[float] = []
    plans: list[Any] = []
    for k in range(trials + 1):
        model = learner(seen, seed)
        test = k == trials
        plans.clear()
        seen.append(run(step, hanging(rng), TEST if test else TRIAL, planned(model, seed + k, covariance, taken, plans)))
        angle = upright(seen[-1][0])
        spent = DT * sum(len(states) - 1 for states, _ in seen[:-1])
        what = f"test after {spent:.1f} s" if test else f"trial {k + 1}"
        say(f"{what}: {angle.min():.2f} rad from upright at best, {angle[-10:].max():.2f} in the last 0.5 s")
    return {"seconds": spent, "trials": seen, "model": model, "plans": plans, "taken": np.array(taken), "held": held(seen[-1][0])}


def main(arguments: list[str] | None = None) -> bool:
    """Learn, test, draw; return whether the pole was held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["pesn", "mujoco"], default="pesn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=3, help="of 3 s each, after the first one")
    parser.add_argument("--covariance", choices=["none", "low-rank"], default="none", help="what plans are judged by")
    parser.add_argument("--out", type=Path, default=Path("swing-up"), help="where pictures go")
    parser.add_argument("--no-animation", action="store_true", help="a strip of pictures and the plan alone")
    given = parser.parse_args(arguments)
    step = mujoco_engine() if given.engine == "mujoco" else pesn_engine()
    found = learn_to_swing_up(step, given.seed, trials=given.trials, covariance=given.covariance)
    taken = 1e3 * found["taken"]
    print(f"held for the last 2 s: {found['held']}; a plan takes {np.median(taken):.1f} ms (median)")

    from drawing import animation, strip, tube

    states = found["trials"][-1][0]
    pictures = [strip(states, DT, RAIL, given.out / "swing-up.png")]
    row = min(round(0.8 / DT), len(found["plans"]) - 1)  # while it swings
    start, plan = found["plans"][row]
    forces = iter(plan[:, 0])
    came, _ = run(step, states[row], DT * HORIZON, lambda _: float(next(forces)))
    rollout = found["model"].rollout(plan, start)
    pictures.append(tube(rollout, came[1:], states[: row + 1], given.out / "swing-up-plan.png"))
    if not given.no_animation:
        pictures.append(animation(states, DT, RAIL, given.out / "swing-up.gif"))
    for picture in pictures:
        print(picture)
    return bool(found["held"])


if __name__ == "__main__":
    main()
