"""The test systems of benchmarks/sharp.py: chaotic flows, clean or with noise, and robots, simulated or measured.

A set is chosen on (its results helped to make a rule of the library) or only tried: ``CHOSEN_ON`` names the former.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from pesn.systems import cart_pole, chaotic

Array = np.ndarray[Any, np.dtype[np.float64]]
TRAIN, CONTEXT = 3000, 200
DYSTS = [
    "Arneodo",
    "BurkeShaw",
    "Bouali",
    "ChenLee",
    "Dadras",
    "DequanLi",
    "Finance",
    "GenesioTesi",
    "Hadley",
    "LorenzStenflo",
    "LuChen",
    "NewtonLiepnik",
    "PehlivanWei",
    "QiChen",
    "RabinovichFabrikant",
    "RayleighBenard",
    "Sakarya",
    "ShimizuMorioka",
    "SprottB",
    "WangSun",
]
CHOSEN_ON = (
    "lorenz",
    "lorenz96",
    "mackey-glass",
    "roessler",
    "van-der-pol",
    "kuramoto-sivashinsky",
    "double-pendulum",
    *DYSTS[:10],
    "schunk",
    "f1tenth",
    "ardrone",
)


class Set(NamedTuple):
    """Runs (y, u) to learn from and to be judged on, in original units; ``lyapunov`` Lyapunov times a row (0: none is known)."""

    train: list[tuple[Array, Array]]
    test: list[tuple[Array, Array]]
    lyapunov: float
    options: dict[str, Any]
    robot: bool = False


def chaotic_set(name: str, seed: int, noise: float = 0.0) -> Set:
    """3,000 rows of a flow and then 12,000 more; noise in units of each column's deviation is on all of them, judged rows too."""
    series, lyapunov = _series(name, seed)
    rng = np.random.default_rng(1000 + seed)
    series = series + noise * series[:TRAIN].std(axis=0) * rng.standard_normal(series.shape)
    none = np.zeros((len(series), 0))
    return Set([(series[:TRAIN], none[:TRAIN])], [(series[TRAIN:], none[TRAIN:])], lyapunov, {})


@lru_cache(maxsize=2)  # integrating some takes longer than fitting to them
def _series(name: str, seed: int) -> tuple[Array, float]:
    return SYSTEMS[name](seed) if name in SYSTEMS else _dysts(name, seed)


def _lorenz(seed: int) -> tuple[Array, float]:
    return chaotic.lorenz(dt=0.02, runs=1, steps=TRAIN + 12_000, rng=seed)[0].states, 0.02 * 0.906


def _roessler(seed: int) -> tuple[Array, float]:
    return chaotic.roessler(dt=0.1, runs=1, steps=TRAIN + 12_000, rng=seed)[0].states, 0.1 * 0.0714


def _mackey_glass(seed: int) -> tuple[Array, float]:
    return chaotic.mackey_glass(runs=1, steps=TRAIN + 12_000, rng=seed)[0].states, 0.0058


def _lorenz96(seed: int) -> tuple[Array, float]:
    return chaotic.lorenz96(dt=0.02, runs=1, steps=TRAIN + 12_000, rng=seed)[0].states, 0.02 * 1.58


def _flow(rhs: Callable[[float, Array], Any], start: Array, dt: float, transient: int, steps: int) -> Array:
    times = dt * np.arange(transient + steps)
    found = solve_ivp(rhs, (0.0, times[-1]), start, method="DOP853", t_eval=times, rtol=1e-10, atol=1e-10)
    return np.ascontiguousarray(found.y.T[transient:])


def _van_der_pol(seed: int) -> tuple[Array, float]:
    """x″ = 8.53 (1 − x²) x′ − x + 1.2 cos(0.63 t), with the cosine and sine of the phase as columns."""
    mu, force, omega = 8.53, 1.2, 0.63
    start = np.random.default_rng(seed).uniform(-1.0, 1.0, 2)
    steps, dt, transient = TRAIN + 12_000, 0.05, 4000
    y = _flow(lambda t, x: (x[1], mu * (1 - x[0] ** 2) * x[1] - x[0] + force * np.cos(omega * t)), start, dt, transient, steps)
    phase = omega * dt * (transient + np.arange(steps))
    return np.column_stack([y, np.cos(phase), np.sin(phase)]), 0.05 * 0.24


def _double_pendulum(seed: int) -> tuple[Array, float]:
    """Equal masses and lengths, without friction, as sines, cosines and rates."""
    g, start = 9.81, np.random.default_rng(seed).uniform(1.8, 2.4, 2)

    def rhs(_: float, x: Array) -> Any:
        a, b, p, q = x
        c, s = np.cos(a - b), np.sin(a - b)
        rest = 2.0 - c * c
        return (
            p,
            q,
            (-s * (p * p * c + q * q) - 2.0 * g * np.sin(a) + g * c * np.sin(b)) / rest,
            (s * (2.0 * p * p + q * q * c) + 2.0 * g * (c * np.sin(a) - np.sin(b))) / rest,
        )

    x = _flow(rhs, np.array([*start, 0.0, 0.0]), 0.02, 500, TRAIN + 12_000)
    return np.column_stack([np.sin(x[:, :2]), np.cos(x[:, :2]), x[:, 2:]]), 0.02 * 1.52


def _kuramoto_sivashinsky(seed: int) -> tuple[Array, float]:
    """L = 22 with 64 points, every fourth of them seen."""
    return chaotic.kuramoto_sivashinsky(dt=0.25, runs=1, steps=TRAIN + 12_000, rng=seed).states[:, ::4].copy(), 0.25 * 0.048


def _dysts(name: str, seed: int) -> tuple[Array, float]:
    """A system of the package dysts (``pip install dysts``), 50 rows a period; the seed moves its start."""
    from dysts import flows  # type: ignore[import-not-found,import-untyped,unused-ignore]

    model = getattr(flows, name)()
    start = np.asarray(model.ic, float) * (1.0 + 1e-3 * np.random.default_rng(seed).standard_normal(len(model.ic)))
    run = chaotic.from_dysts(name, steps=TRAIN + 12_000, initial_state=start, transient=10.0 * model.period)
    return run.states, 0.0


SYSTEMS: dict[str, Callable[[int], tuple[Array, float]]] = {
    "lorenz": _lorenz,
    "lorenz96": _lorenz96,
    "mackey-glass": _mackey_glass,
    "roessler": _roessler,
    "van-der-pol": _van_der_pol,
    "kuramoto-sivashinsky": _kuramoto_sivashinsky,
    "double-pendulum": _double_pendulum,
}


# ---------------------------------------------------------------- robots


def _kinematics(columns: int, dt: float) -> tuple[Array, Array, Array]:
    """The first half of the columns moves by the mean of the second half's old and new values."""
    half = columns // 2
    return np.hstack([np.eye(half), 0.5 * dt * np.eye(half)]), 0.5 * dt * np.eye(half), np.zeros(half)


def _episodes(path: Path) -> list[tuple[Array, Array]]:
    with np.load(path) as file:
        X, U, episode = (np.asarray(file[name], float) for name in ("X", "U", "episode"))
    return [(X[episode == e], U[episode == e]) for e in np.unique(episode)]


def robot_set(name: str, seed: int, data: Path) -> Set:
    """Whole runs to learn from and others to be judged on; the seed draws which (for AR.Drone: where the flight is cut)."""
    rng = np.random.default_rng(seed)
    if name == "cart-pole":
        runs = [(one.states, one.inputs) for one in cart_pole.simulate(runs=12, steps=2500, rng=seed)]
        return Set(runs[:4], runs[4:], 0.0, {"learn": [2, 3], "kinematics": _kinematics(4, 0.02)}, robot=True)
    if name == "ardrone":
        with np.load(data / "ardrone_gazebo_90k.npz") as file:
            X, U = np.asarray(file["X"], float), np.asarray(file["U_applied"], float)
        return Set([(X[:60_000], U[:60_000])], [(X[60_000:], U[60_000:])], 0.0, ARDRONE, robot=True)
    runs = _episodes(data / {"schunk": "schunk_arm.npz", "f1tenth": "f1tenth.npz"}[name])
    order = rng.permutation(len(runs))
    train, test = order[: int(0.6 * len(runs))], order[int(0.6 * len(runs)) :]
    options = {"schunk": {"learn": list(range(6, 12)), "kinematics": _kinematics(12, 0.004)}, "f1tenth": {}}[name]
    return Set([runs[i] for i in sorted(train)], [runs[i] for i in sorted(test)], 0.0, options, robot=True)


_POSITIONS, _VELOCITIES = [0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]


def _ardrone_kinematics(dt: float = 0.01) -> tuple[Array, Array, Array]:
    A = np.zeros((6, 12))
    A[np.arange(6), _POSITIONS], A[np.arange(6), _VELOCITIES] = 1.0, 0.5 * dt
    return A, 0.5 * dt * np.eye(6), np.zeros(6)


ARDRONE: dict[str, Any] = {"learn": _VELOCITIES, "kinematics": _ardrone_kinematics()}
ROBOTS = ("schunk", "f1tenth", "ardrone", "cart-pole")
