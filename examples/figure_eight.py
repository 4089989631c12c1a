"""The AR.Drone flies a figure of eight by velocity commands, with a model learned from one flight of random commands.

    python examples/figure_eight.py --out flight

The drone is :mod:`pesn.systems.ardrone`: its controllers follow the commands, which nobody tells the model, and commands arrive
with noise. The model sees rows of 0.1 s; a plan is 1.5 s of commands, made anew for every row.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pesn
from pesn.planning import MPPI
from pesn.systems import ardrone

EVERY = 10  # rows of the simulator, at 100 Hz, in one of the model
DT = 0.01 * EVERY
STATES = ["x", "y", "z", "vx", "vy", "vz", "roll", "pitch", "yaw", "roll_rate", "pitch_rate", "yaw_rate"]
LEARNED = STATES[3:]
COMMANDS = ["forward", "left", "up", "turn"]
LIMITS = np.array([1.8, 1.8, 0.5, 0.5])  # m/s and rad/s
HORIZON = 15
WEIGHTS = {"x": 1.0, "y": 1.0, "z": 1.0, "yaw": 2.0, "vx": 0.1, "vy": 0.1}


def path(t: np.ndarray[Any, Any], size: float = 3.0, period: float = 18.0) -> pd.DataFrame:
    """Return positions and velocities of the figure of eight at times t, 5 m above the ground, the nose to the east."""
    w = 2.0 * np.pi / period
    frame = pd.DataFrame({"x": size * np.sin(w * t), "y": 0.5 * size * np.sin(2.0 * w * t), "z": np.full(len(t), 5.0)})
    return frame.assign(vx=size * w * np.cos(w * t), vy=size * w * np.cos(2.0 * w * t))


def as_frame(rows: Any) -> pd.DataFrame:
    """Return rows of the simulator as a frame."""
    return pd.DataFrame(np.asarray(rows), columns=STATES)


def wander(seconds: float, seed: int) -> Any:
    """Fly random commands, each held for half a second, that lead back to the start."""
    rng = np.random.default_rng(seed)
    command = np.zeros(4)

    def pilot(t: float, states: Any) -> Any:
        nonlocal command
        row = round(t / 0.01)
        if row % (5 * EVERY) == 0:
            command = rng.uniform(-LIMITS, LIMITS)
        if row % EVERY == 0:
            x, y, z, yaw = states[0, [0, 1, 2, 8]]
            ahead, aside = np.cos(yaw) * x + np.sin(yaw) * y, np.cos(yaw) * y - np.sin(yaw) * x
            command = np.clip(command - [0.03, 0.03, 0.03, 0.2] * np.array([ahead, aside, z - 5.0, yaw]), -LIMITS, LIMITS)
        return command[None]

    return ardrone.simulate(pilot, steps=round(100 * seconds), rng=seed)


def learn(seconds: float, seed: int, units: int = 100) -> pesn.Forecaster:
    """Fit the model to rows of the first flight that are 0.1 s apart."""
    flight = wander(seconds, seed)
    y = as_frame(flight.states[::EVERY])
    X = pd.DataFrame(flight.inputs[::EVERY], columns=COMMANDS)
    A = np.eye(3, len(STATES)) + 0.5 * DT * np.eye(3, len(STATES), 3)  # a position goes on by the mean of two velocities
    B = 0.5 * DT * np.eye(3, len(LEARNED))
    network = pesn.ProbabilisticESN(
        units, leak_rate=1.0, topology=np.zeros((units, units)), features=pesn.Features(lags=1), ridge="auto", random_state=seed
    )  # units without memory, beside the row before
    model = pesn.Forecaster(network, learn=LEARNED, kinematics=(A, B, np.zeros(3)), angles=["yaw"], ignorable=["x", "y", "z"])
    return model.fit(y, X)


def fly(model: pesn.Forecaster, seconds: float, seed: int) -> tuple[Any, list[Any], list[float]]:
    """Fly with plans; return the flight, the plans with their starts, and the seconds of each."""
    plans: list[Any] = []
    taken: list[float] = []
    rows, commands = [], [np.zeros(4)]
    goal = path(np.zeros(HORIZON))

    def cost(rollout: Any) -> Any:
        return rollout.expected_cost(WEIGHTS, goal, R=0.02)

    planner = MPPI(model, HORIZON, (-LIMITS, LIMITS), cost, spread=0.2, covariance="none", random_state=seed)

    def pilot(t: float, states: Any) -> Any:
        nonlocal goal
        if round(t / 0.01) % EVERY == 0:
            began = time.perf_counter()
            rows.append(states[0])
            goal = path(t + DT * np.arange(1, HORIZON + 1))
            before = rows[-2:]  # with the command between them: how the drone answers depends on it
            start = model.start((as_frame(before), pd.DataFrame(commands[len(commands) + 1 - len(before) :], columns=COMMANDS)))
            plan = planner.plan(start)
            commands.append(plan[0])
            taken.append(time.perf_counter() - began)
            plans.append((start, plan))
        return commands[-1][None]

    return ardrone.simulate(pilot, steps=round(100 * seconds), rng=seed + 1), plans, taken


def error(flight: Any, after: float = 2.0) -> float:
    """Return the mean distance from the path in m, without the first seconds: the drone starts at rest."""
    t = flight.dt * np.arange(len(flight.states))
    away = flight.states[:, :3] - path(t)[["x", "y", "z"]].to_numpy()
    return float(np.linalg.norm(away[t >= after], axis=1).mean())


def draw(model: pesn.Forecaster, flight: Any, plans: list[Any], out: Path) -> list[Path]:
    """Draw the flight from above with the 2σ ellipses of some plans, and the tube of one plan with the flight."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Ellipse

    from pesn.plotting import COLORS, save

    t = flight.dt * np.arange(len(flight.states))
    wanted = path(t)
    figure = Figure(figsize=(7.0, 4.6), layout="constrained")
    ax = figure.subplots()
    ax.plot(wanted["x"], wanted["y"], color=COLORS[6], linewidth=1.0, label="wanted")
    ax.plot(flight.states[:, 0], flight.states[:, 1], color="black", linewidth=1.2, label="flown")
    for start, plan in plans[:: max(len(plans) // 10, 1)]:
        rollout = model.rollout(plan, start)
        ax.plot(*rollout.mean[0, :, :2].T, color=COLORS[0], linewidth=1.0)
        assert rollout.cov is not None
        for mean, cov in zip(rollout.mean[0, 2::4, :2], rollout.cov[0, 2::4, :2, :2], strict=True):
            values, vectors = np.linalg.eigh(cov)
            width, height = 4.0 * np.sqrt(np.maximum(values, 0.0))  # two deviations to each side
            angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
            ax.add_patch(Ellipse(mean, width, height, angle=angle, facecolor=COLORS[5], alpha=0.4, edgecolor="none"))
    ax.plot([], [], color=COLORS[0], label="plans, and 2σ")
    ax.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside upper center", ncols=3)
    out.mkdir(parents=True, exist_ok=True)
    save([ax], out / "figure-eight.png")

    which = len(plans) // 2
    first = which * EVERY
    came = flight.states[first + EVERY : first + (HORIZON + 1) * EVERY : EVERY]
    truth = np.full((HORIZON, len(STATES)), np.nan)
    truth[: len(came)] = came
    before = flight.states[max(first - 10 * EVERY, 0) : first + 1 : EVERY]
    start, plan = plans[which]
    forecast = model.rollout(plan, start).forecast(history=before)
    axes = forecast.plot(columns=["x", "y", "vx", "roll"], level=0.954, truth=truth)
    save(axes, out / "figure-eight-plan.png")
    return [out / "figure-eight.png", out / "figure-eight-plan.png"]


def main(arguments: list[str] | None = None) -> float:
    """Learn, fly, draw; return the mean distance from the path in m."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--learn", type=float, default=60.0, help="seconds of the first flight")
    parser.add_argument("--fly", type=float, default=20.0, help="seconds of the figure of eight")
    parser.add_argument("--out", type=Path, default=Path("figure-eight"), help="where pictures go")
    given = parser.parse_args(arguments)
    model = learn(given.learn, given.seed)
    flight, plans, taken = fly(model, given.fly, given.seed)
    away = error(flight, min(2.0, given.fly / 2))
    print(f"{given.learn:g} s learnt from, {given.fly:g} s flown: {100 * away:.0f} cm from the path on average")
    print(f"a plan takes {1e3 * np.median(taken):.1f} ms (median), {1e3 * np.quantile(taken, 0.95):.1f} ms (95 %)")
    for picture in draw(model, flight, plans, given.out):
        print(picture)
    return away


if __name__ == "__main__":
    main()
