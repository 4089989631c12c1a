"""Claim: a forecaster knows how little it has seen: after three seconds of a cart pole its intervals hold plans of forces that it
was never shown, from one row as from twenty, and are no wider than they need be."""

import numpy as np
import pytest

from pesn import Forecaster, ProbabilisticESN
from pesn.systems import cart_pole

DT, STEPS = 0.02, 40
KINEMATICS = np.array([[1, 0, DT / 2, 0], [0, 1, 0, DT / 2]]), DT / 2 * np.eye(2), np.zeros(2)


@pytest.mark.parametrize("rows", [1, 20])
def test_intervals_of_a_model_of_three_seconds_hold_forces_that_it_never_saw(rows):
    inside, ratio = [], []
    for seed in (200, 201):
        runs = cart_pole.simulate(runs=1, steps=150, rng=seed)
        esn = ProbabilisticESN(40, washout="auto", random_state=seed)
        model = Forecaster(esn, learn=[2, 3], kinematics=KINEMATICS).fit(runs.states, runs.inputs)
        others = cart_pole.simulate(runs=12, steps=100, rng=seed + 1000)
        forces = np.repeat(np.random.default_rng(seed).normal(0.0, 2.0, (12, 4)), 10, axis=1)
        for one, force in zip(others, forces, strict=True):
            truth = cart_pole.simulate(np.append(force, 0.0), steps=STEPS + 1, initial_state=one.states[-1]).states[1:]
            found = model.forecast(STEPS, (one.states[-rows:], one.inputs[-rows:-1]), force[:, None])
            low, high = found.interval(0.95)
            inside.append(np.mean((truth >= low) & (truth <= high)))
            ratio.append(
                [
                    np.mean(np.square(found.std / model.scale_.y_std)),
                    np.mean(np.square((found.mean - truth) / model.scale_.y_std)),
                ]
            )
    assert np.mean(inside) > 0.8
    spread, wrong = np.sqrt(np.mean(ratio, axis=0))
    assert spread < 5.0 * wrong
