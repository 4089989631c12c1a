"""A cart pole whose pole turns over, learnt from a few seconds: by its raw angle and place, and told what they are."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt

import pesn
from pesn.systems import cart_pole

Array = npt.NDArray[np.float64]

DT, TRIAL, AHEAD = 0.05, 4.0, 40  # s of a row and of a trial; rows that are rolled out
FORCE, HELD = 15.0, 0.5  # N and s: enough to swing the pole over
POSITIONS: dict[str, Any] = {
    "learn": [2, 3],
    "kinematics": (np.array([[1, 0, DT / 2, 0], [0, 1, 0, DT / 2]]), DT / 2 * np.eye(2), np.zeros(2)),
}
TOLD: dict[str, dict[str, Any]] = {
    "raw": {},
    "angles": {"angles": [1]},
    "angles, unseen": {"angles": [1], "unseen": [0]},
}


def static() -> pesn.ProbabilisticESN:
    """A network without memory: a row says all of its units."""
    return pesn.ProbabilisticESN(
        200, spectral_radius=1e-9, leak_rate=1.0, input_scaling=0.5, bias_scaling=1.0, ridge=1e-5,
        features=pesn.Features(products=1), process_noise=0.0, random_state=0,
    )  # fmt: skip


def trials(count: int, seed: int) -> tuple[Array, Array]:
    """States (count, steps, 4) and forces (count, steps, 1), each trial from a pole that hangs."""
    steps, held = round(TRIAL / DT), round(HELD / DT)
    forces = np.repeat(np.random.default_rng(seed).uniform(-FORCE, FORCE, (count, steps // held)), held, axis=1)
    runs = cart_pole.simulate(forces, runs=count, steps=steps, dt=DT, substeps=10, rng=seed)
    return runs.states.reshape(count, steps, 4), runs.inputs.reshape(count, steps, 1)


def errors(model: pesn.Forecaster) -> Array:
    """Of the angle 1, 10 and 40 rows after a state, in rad, on average; of all rows, the share within 95 % intervals."""
    y, u = trials(8, 900)
    places = [(i, k) for i in range(len(y)) for k in range(0, y.shape[1] - AHEAD, 4)]
    after = np.stack([y[i, k + 1 : k + 1 + AHEAD] for i, k in places])
    found = model.rollout(
        np.stack([u[i, k : k + AHEAD] for i, k in places]), model.start(np.stack([y[i, [k]] for i, k in places]))
    )
    assert found.std is not None
    wrong = np.abs(found.mean - after)
    inside = np.mean(wrong <= 1.96 * found.std)
    return np.array([*wrong[:, [0, 9, AHEAD - 1], 1].mean(axis=0), inside])


def turning(quick: bool) -> None:
    """Errors from single states, by seconds of data, network and what it is told."""
    logging.disable(logging.WARNING)  # raw angles leave the range of training
    seeds = range(2 if quick else 5)
    print("| s of data | network | told | rad after 1 row | 10 rows | 40 rows | 95 % intervals |\n|---|---|---|---|---|---|---|")
    for count in (2, 3):
        data = [trials(count, 100 + seed) for seed in seeds]
        for name, told in TOLD.items():
            for network in ("auto", "static"):
                result = []
                for y, u in data:
                    model = pesn.Forecaster(static() if network == "static" else "auto", **POSITIONS, **told)
                    lengths = [y.shape[1]] * count
                    result.append(errors(model.fit(y.reshape(-1, 4), u.reshape(-1, 1), lengths=lengths)))
                one, ten, last, inside = np.mean(result, axis=0)
                print(
                    f"| {count * TRIAL:.0f} | {network} | {name} | {one:.4f} | {ten:.3f} | {last:.2f} | {inside:.2f} |",
                    flush=True,
                )
