"""Every item of the paper, run once with tiny settings."""

import functools

import pytest

from pesn import paper
from pesn.paper.claims import Settings, Tasks

GRID = {"mean_range": [-5.0, 5.0], "var_exponents": [-4.0, 2.0], "samples": 200}
NETWORK = {"n_units": 20, "draws": 2}
START = {**NETWORK, "lengths": [1, 10, 40], "trials": 3, "candidates": 3}
ROBOT = {**NETWORK, "segments": 2, "test_rows": 100, "run_rows": 300, "samples": 512, "steps": 6, "washout": 50}
SIZES = {"monte_carlo_units": [10, 20], "plain_units": [10, 1000, 1100], "compiled_units": [1000, 2000], "meshed_units": 5}
OUTSIDE = {"outside_range": [0.0, 20.0], "outside_means": 21, "outside_variances": [0.2, 1.0]}
TINY = {
    "moments": {"points": 23, "samples": 4_000},
    "moments-grid": {**GRID, "shape": [27, 13], "other_means": [2.0]},
    "higher-moments": {**GRID, "shape": [19, 13], "functions": ["tanh", "relu", "sine"], "mesh_points": [101, 401]},
    "complexity": {**SIZES, "rounds": 2, "fast_units": [10_000, 11_000], "fit_to": 12_000, "points": [11, 21]},
    "error-time": {"units": 60, "sampled_units": 60, "groups": 3, "rounds": 2, "points": [11, 21, 41, 81], "components": [1, 8]},
    "error-bound": {**OUTSIDE, "means": 17, "variances": [0.2, 1.0], "points": [11, 41, 101, 161]},
    "feedforward": {"draws": 2, "samples": 2_000, "candidates": 120, "saturation": 3.0},
    "washout": {**START, "run_rows": 260, "runs": 3, "samples": 4, "updated_trials": 1, "most_filtered": 5},
    "entropy": {**START, "run_rows": 320, "samples": 5, "steps": 60},
    "cart-pole": {**ROBOT, "runs": 4, "train_rows": 100, "test_runs": 1, "origin_every": 20, "future_every": 2},
    "ardrone": {**ROBOT, "runs": 2, "draws": 1, "train_rows": 160, "steps": 5, "origin_every": 40},
}


def tiny(name):
    """All parameters of an item, few of each."""
    return paper.get(name).parameters(True) | TINY[name]


def run(name, tasks=None, seed=0, **changes):
    """The result of an item by tiny settings, with ``changes``."""
    return paper.get(name).run(Settings(True, seed, tiny(name) | changes), tasks or Tasks())


@pytest.fixture(scope="session")
def run_item():
    """``run``, which does not run the same thing twice."""
    return functools.cache(run)


@pytest.fixture(scope="module")
def p(request):
    """All parameters of the item of a module."""
    return tiny(request.module.ITEM)


@pytest.fixture(scope="module")
def result(request, run_item):
    """The result of the item of a module."""
    return run_item(request.module.ITEM)
