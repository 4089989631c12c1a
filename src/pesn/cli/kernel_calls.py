"""Small examples of what users call, which together call every kernel: ``pesn warmup`` compiles them by these.

The names are those of ``benchmarks/run.py first-call``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import pesn
from pesn.moments.covariance import covariance
from pesn.systems.chaotic import lorenz


def _lorenz(rows: int) -> Any:
    return lorenz(steps=rows, rng=0).states


def _make_chain(sizes: tuple[int, ...], activation: Any) -> Any:
    rng = np.random.default_rng(0)
    layers = [pesn.Dense(rng.normal(size=(m, n)) / n**0.5, np.zeros(m), activation) for n, m in itertools.pairwise(sizes[:-1])]
    return [*layers, pesn.Dense(rng.normal(size=sizes[:-3:-1]) / sizes[-2] ** 0.5, np.zeros(sizes[-1]))]


def _make_input(n: int) -> Any:
    return pesn.Gaussian(np.zeros(n), cov=0.25 * np.eye(n))


def run_propagate() -> None:
    """Propagate through one hidden layer."""
    pesn.propagate(_make_chain((10, 50, 2), "tanh"), _make_input(10))


def run_third_order() -> None:
    """Propagate through two hidden layers by the third-order closure."""
    pesn.propagate(_make_chain((10, 50, 30, 2), "tanh"), _make_input(10), closure="third-order")


def run_series() -> None:
    """Forecast a series."""
    noise = np.random.default_rng(0).normal(size=309)
    pesn.SeriesForecaster().fit(50.0 - 45.0 * np.cos(2.0 * np.pi * np.arange(309) / 11.0) + 10.0 * noise).forecast(11)


def run_automatic() -> None:
    """Fit and forecast with an automatic network."""
    y = _lorenz(1000)
    pesn.Forecaster().fit(y).forecast(20, y[-200:])


def run_given() -> None:
    """Fit and forecast with a given network."""
    y = _lorenz(1000)
    pesn.Forecaster(pesn.ProbabilisticESN(random_state=0)).fit(y).forecast(20, y[-200:])


def run_partial_fit() -> None:
    """Learn online."""
    y = _lorenz(500)
    pesn.ProbabilisticESN(random_state=0).partial_fit(y[:-1], y[1:])


def run_predict_std() -> None:
    """Predict from uncertain inputs."""
    y = _lorenz(500)
    esn = pesn.ProbabilisticESN(random_state=0).fit(y[:-1], y[1:])
    esn.predict(pesn.Gaussian(y[:100], var=np.full((100, 3), 0.01)), return_std=True)


def run_classification() -> None:
    """Classify uncertain sequences."""
    labels = np.arange(40) % 2
    X = np.random.default_rng(0).normal(size=(40, 30, 2)) + labels[:, None, None]
    pesn.ReservoirClassifier(random_state=0).fit(X, labels).predict_proba(pesn.Gaussian(X, var=np.full(X.shape, 0.04)))


def run_rollout() -> None:
    """Roll out sequences of controls."""
    y = _lorenz(500)
    controls = np.random.default_rng(0).normal(size=(len(y), 1))
    pesn.Forecaster(pesn.ProbabilisticESN(random_state=0)).fit(y, controls).rollout(np.zeros((4, 20, 1)))


ENTRY_POINTS: dict[str, Callable[[], None]] = {
    "propagate": run_propagate,
    "SeriesForecaster": run_series,
    "Forecaster, automatic": run_automatic,
    "Forecaster, given network": run_given,
    "partial_fit": run_partial_fit,
    "predict with standard deviations": run_predict_std,
    "classification": run_classification,
    "roll-out": run_rollout,
    "third-order closure": run_third_order,
}


def _run_activations() -> None:
    """Propagate through other activations, with independent and with collinear units, by all methods."""
    steps = pesn.activations.piecewise_linear("steps", (-1.0, 0.0, 1.0), (0.0, 1.0, 0.5, 0.0), -1.0)
    for activation in ("relu", "hard_tanh", "gelu", "elu", "erf", "sin", "sigmoid", "silu", "softplus", "hard_swish", steps):
        for n in (1, 12):
            pesn.propagate(_make_chain((n, 12, 2), activation), _make_input(n))
    for method in ("spline", "mixture", "exact"):
        pesn.networks.propagate_gaussian(_make_chain((4, 12, 2), "tanh"), _make_input(4), method=method)
    covariance("tanh", np.zeros(2), np.full((2, 2), 1e6) + np.eye(2))  # beyond the series
    far = np.array([0.0, 1e3])
    for activation in ("relu", "elu", "tanh", "silu", steps):
        pesn.moments(activation, far, far + 1e-6)
        pesn.gain(activation, far, far + 1e-6)


def _run_forms() -> None:
    """Forecast with every form of covariance, roll out, predict, and learn with feedback."""
    y = _lorenz(500)
    for form in ("diagonal", "full", "low-rank", "ensemble"):
        network = pesn.ProbabilisticESN(60, covariance=form, washout=50, random_state=0)
        pesn.Forecaster(network, calibrate=False).fit(y).update(y[:20]).forecast(10)
    controls = np.random.default_rng(0).normal(size=(500, 1))
    pesn.Forecaster(network.set_params(covariance="auto"), calibrate=False).fit(y, controls).rollout(np.zeros((3, 4, 1)))
    network = pesn.ProbabilisticESN(60, covariance="diagonal", random_state=0).fit(y[:-1], y[1:])
    network.predict(pesn.Gaussian(y[:50], var=np.full((50, 3), 0.01)), return_std=True)
    pesn.EchoStateNetwork(60, feedback="own", feedback_scaling=0.1, random_state=0).partial_fit(y[:-1], y[1:])


def _run_online() -> None:
    """Predict and learn row by row."""
    stepper = pesn.EchoStateNetwork(50, random_state=0).online(3, 3)
    for row, target in itertools.pairwise(_lorenz(100)):
        stepper.step(row, return_std=True)
        stepper.learn(target)


def _run_torch() -> None:
    """Propagate tensors, and roll out with gradients."""
    import torch

    from pesn.adapters.torch import TanhNormal, rollout

    module = torch.nn.Sequential(torch.nn.Linear(4, 12), torch.nn.Tanh(), torch.nn.Linear(12, 2)).double().eval()
    mean = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    x = pesn.Gaussian(mean, cov=0.25 * torch.eye(4, dtype=torch.float64))
    found = pesn.propagate(module, x)
    torch.autograd.grad(found.mean.sum() + found.cov.sum(), mean)
    loc = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    torch.autograd.grad(TanhNormal(loc, torch.ones(3)).variance.sum(), loc)
    y, controls = _lorenz(500), np.random.default_rng(0).normal(size=(500, 1))
    forecaster = pesn.Forecaster(pesn.ProbabilisticESN(60, random_state=0)).fit(y, controls)
    for form in ("low-rank", "none"):
        planned = torch.zeros(3, 4, 1, dtype=torch.float64, requires_grad=True)
        torch.autograd.grad(rollout(forecaster, planned, covariance=form)[0].sum(), planned)


OTHERS: dict[str, Callable[[], None]] = {
    "activations and methods": _run_activations,
    "forms of covariance": _run_forms,
    "online learning": _run_online,
    **({"torch": _run_torch} if find_spec("torch") else {}),
}
