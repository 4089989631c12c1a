"""The other reservoir libraries, at the work that pesn does in the same race; one that is not installed takes no part."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn.drawing import Reservoir
from pesn.reservoir import State

Array = npt.NDArray[np.float64]
Side = Callable[[], Any]

PACKAGES = {"ReservoirPy": "reservoirpy", "rclib": "rclib", "OpenReservoirComputing": "OpenReservoirComputing"}


def installed() -> dict[str, str | None]:
    """Each peer's version, None where it is not installed."""

    def found(package: str) -> str | None:
        try:
            return version(package)
        except PackageNotFoundError:
            return None

    return {name: found(package) for name, package in PACKAGES.items()}


# ---------------------------------------------------------------- ReservoirPy, which takes weights: the very same network


def reservoirpy_drive(reservoir: Reservoir, inputs: Array) -> Side:
    """All states (T, N), from 0."""
    node = _node(reservoir, reservoir.W_in)

    def run() -> Any:
        node.reset()
        return node.run(inputs)

    node.run(inputs[:1])  # before the first run there is no state to reset
    return run


def reservoirpy_fit(reservoir: Reservoir | None, inputs: Array, targets: Array, ridge: float, **drawn: Any) -> Side:
    """States and ridge on [1, z, h], as ours; ``ridge`` is a sum here. Without a reservoir, one is ``drawn`` first."""
    nodes, esn = import_module("reservoirpy.nodes"), import_module("reservoirpy").ESN

    def fit() -> Any:
        node = _node(reservoir, reservoir.W_in) if reservoir else nodes.Reservoir(**drawn, input_connectivity=1.0)
        return esn(reservoir=node, readout=nodes.Ridge(ridge), input_to_readout=True).fit(inputs, targets)

    return fit


def reservoirpy_forecast(reservoir: Reservoir, weights: npt.NDArray[Any], state: State, steps: int) -> Side:
    """Its tutorial's loop, each output the next input. (A feedback edge and run(iters=) took 1.25 times as long.)"""
    nodes = import_module("reservoirpy.nodes")
    node, start = _node(reservoir, reservoir.W_fb), {"out": state.mean.copy()}
    # y = w₀ + w₁ z + w h, and z = 0 for a network that only its own output drives
    readout = nodes.Ridge(Wout=np.ascontiguousarray(weights[:, 1 + reservoir.n_inputs :].T), bias=weights[:, 0])
    model = node >> readout
    assert state.output is not None
    first = state.output

    model.run(first[None])

    def forecast() -> Any:
        node.state = start
        outputs, y = np.empty((steps, len(first))), first
        for k in range(steps):
            y = model(y)
            outputs[k] = y
        return outputs

    return forecast


def reservoirpy_rls(features: Array, targets: Array, forgetting: float, delta: float) -> Side:
    """Recursive least squares on given features; no bias, which it would learn apart."""
    rls = import_module("reservoirpy.nodes").RLS

    def learn() -> Any:
        readout = rls(alpha=1.0 / delta, forgetting=forgetting, fit_bias=False)
        readout.partial_fit(features, targets)
        return readout.Wout.T

    return learn


def reservoirpy_online(reservoir: Reservoir, inputs: Array, targets: Array, forgetting: float, delta: float) -> Side:
    """Drive and learn, one row a call; without z among the features, which costs ReservoirPy nothing or less."""
    nodes = import_module("reservoirpy.nodes")
    model = _node(reservoir, reservoir.W_in) >> nodes.RLS(alpha=1.0 / delta, forgetting=forgetting)

    def learn() -> None:
        for k in range(len(inputs)):
            model.partial_fit(inputs[k : k + 1], targets[k : k + 1])

    return learn


def _node(reservoir: Reservoir, W_in: Array) -> Any:
    given = {"W": reservoir.W, "Win": np.ascontiguousarray(W_in), "bias": reservoir.bias, "lr": reservoir.leak_rate}
    return import_module("reservoirpy.nodes").Reservoir(**given)


# ---------------------------------------------------------------- two that draw their own weights: sizes and rates are ours


def rclib_drive(reservoir: Reservoir, density: float, inputs: Array) -> Side:
    """Outputs (T, 1), from 0: it does not give states away, so ours has to read out too.

    What it calls sparsity is the density; weights drawn twice fall together, which leaves it 5% fewer at 0.1.
    """
    rclib = import_module("rclib")
    model = rclib.ESN()
    config, ridge = import_module("rclib.reservoirs").RandomSparse, import_module("rclib.readouts").Ridge
    model.add_reservoir(config(reservoir.n_units, 0.9, density, reservoir.leak_rate, 0.5, include_bias=True, seed=1))
    model.set_readout(ridge(1e-6, include_bias=True))
    model.fit(inputs[:500], inputs[1:501])
    return lambda: model.predict(inputs)


def orc_drive(reservoir: Reservoir, density: float, inputs: Array) -> Side:
    """All states (T, N) in float64, from 0; the bias is one number for all units. Compiled in the first call."""
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    sizes = {"data_dim": 1, "res_dim": reservoir.n_units, "leak_rate": reservoir.leak_rate, "Wr_density": density}
    scales = {"Wr_spectral_radius": 0.9, "embedding_scaling": 0.5, "bias": 0.2}
    network = import_module("orc.forecaster").ESNForecaster(**sizes, **scales, seed=1)
    z, start = jax.numpy.asarray(inputs), jax.numpy.zeros((1, reservoir.n_units))
    return lambda: network.force(z, start).block_until_ready()
