"""Claim: errors grow in the simulated systems as fast as the published exponents say."""

import numpy as np
import pytest

from pesn.systems import chaotic
from pesn.systems.chaotic import LYAPUNOV_EXPONENT


@pytest.mark.parametrize(
    ("system", "duration", "pairs", "substeps", "relative"),
    [
        (chaotic.lorenz, 1.0, 200, 200, 0.05),
        (chaotic.roessler, 10.0, 200, 200, 0.05),
        (chaotic.lorenz96, 0.5, 200, 20, 0.05),
        (chaotic.double_scroll, 5.0, 200, 100, 0.05),
        (chaotic.rabinovich_fabrikant, 5.0, 200, 100, 0.05),
        (chaotic.kuramoto_sivashinsky, 10.0, 60, 20, 0.1),
        (chaotic.multiscroll, 0.5, 200, 100, 0.05),
        (chaotic.henon, 5, 200, None, 0.05),
        (chaotic.logistic_map, 5, 200, None, 0.05),
    ],
)
def test_lyapunov_exponent_from_two_nearby_trajectories(system, duration, pairs, substeps, relative):
    """Benettin's method: the distance grows for a while, is measured, and is made small again."""
    rng, small = np.random.default_rng(0), 1e-8
    here = system(runs=pairs, steps=1, rng=1).states
    time = {"steps": duration + 1} if substeps is None else {"steps": 2, "dt": duration, "substeps": substeps}
    away = rng.normal(size=here.shape)
    growth = []
    for _ in range(25):
        away *= small / np.linalg.norm(away, axis=1, keepdims=True)
        run = system(runs=2 * pairs, initial_state=np.vstack([here, here + away]), **time)
        ends = run.states.reshape(2 * pairs, time["steps"], -1)[:, -1]
        here, away = ends[:pairs], ends[pairs:] - ends[:pairs]
        growth.append(np.log(np.linalg.norm(away, axis=1) / small) / duration)
    exponent = np.mean(growth[5:])  # the first few turn the difference into the direction that grows
    assert exponent == pytest.approx(LYAPUNOV_EXPONENT[system.__name__], rel=relative)


def test_lyapunov_exponent_of_mackey_glass():
    """The same for a pair that is infinitely close: its difference v obeys v̇ = p′(x(t − τ)) v(t − τ) − γ v along the run.
    The trapezium rule is explicit here, for the past is known."""
    runs, h, delay, kept = 200, 0.5, 34, 6000
    x = chaotic.mackey_glass(runs=runs, steps=kept, dt=h, substeps=1, transient=2000.0, rng=0).states.reshape(runs, kept).T
    x10 = x**10
    slope = 0.2 * (1 - 9 * x10) / (1 + x10) ** 2
    v = np.ones((kept + delay, runs))
    logs = np.zeros(runs)
    start = None
    for k in range(delay, kept - 1):  # v[k] at the time of x[k]
        delayed = slope[k - delay] * v[k - delay] + slope[k + 1 - delay] * v[k + 1 - delay]
        v[k + 1] = ((1 - 0.05 * h) * v[k] + 0.5 * h * delayed) / (1 + 0.05 * h)
        if k % 500 == 0:
            size = np.sqrt(np.mean(v[k + 1 - delay : k + 2] ** 2, axis=0))
            v[k + 1 - delay : k + 2] /= size
            logs += np.log(size)
            if k == 1000:
                start = logs.copy()
            end, last = logs.copy(), k
    exponent = np.mean(end - start) / ((last - 1000) * h)
    assert exponent == pytest.approx(LYAPUNOV_EXPONENT["mackey_glass"], rel=0.05)


@pytest.mark.parametrize(
    ("system", "rate"),
    [(chaotic.henon, np.log(0.3)), (chaotic.rabinovich_fabrikant, 2 * (0.87 - 1.1)), (chaotic.multiscroll, 28.0 - 35.0 - 3.0)],
)
def test_volumes_shrink_at_the_rate_of_the_equations(system, rate):
    """ln b a step, 2 (γ − α) and c − a − b a unit of time: the same everywhere, whatever the largest exponent is."""
    start, d, small = system(steps=1, rng=1).states[0], len(system(steps=1, rng=1).names), 1e-6
    both = start + small * np.vstack([np.eye(d), -np.eye(d)])
    run = system(runs=2 * d, steps=4, initial_state=both)
    ends = run.states.reshape(2, d, 4, d)[:, :, -1]
    volume = np.log(abs(np.linalg.det((ends[0] - ends[1]) / (2 * small))))
    assert volume / (3 * run.dt) == pytest.approx(rate, rel=1e-6)
