"""The other reservoir libraries, at the work that pesn does in the same race.

A function here gives a side of a race: a call without arguments. One whose library is missing or fails takes no part, and is
reported (``enter``). ReservoirPy and PyRCN take weights: theirs is the very same network. rclib and OpenReservoirComputing draw
their own, of the same size, density and rates.
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from pesn.reservoir.drive import State, run
from pesn.reservoir.weights import Reservoir
from timing import Side, installed

Array = npt.NDArray[np.float64]

PACKAGES = {"ReservoirPy": "reservoirpy", "rclib": "rclib", "ORC": "OpenReservoirComputing", "PyRCN": "PyRCN"}
RADIUS, SCALING, BIAS = 0.9, 0.5, 0.2


def versions() -> dict[str, str | None]:
    """Each peer's version, None where it is not installed."""
    return {name: installed(package) for name, package in PACKAGES.items()}


def enter(makers: Mapping[str, Callable[[], Side]]) -> tuple[dict[str, Side], dict[str, str]]:
    """The sides that are ready, and why the others take no part, by name of the peer."""
    ready: dict[str, Side] = {}
    out: dict[str, str] = {}
    for name, make in makers.items():
        if installed(PACKAGES[name]) is None:
            out[name] = "not installed"
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # theirs
                side = make()
                side()
        except Exception as error:
            out[name] = f"failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            print(f"   {name} {out[name]}", file=sys.stderr)
        else:
            ready[name] = side
    return ready, out


def same(name: str, theirs: Any, ours: Any, within: float) -> None:
    """Refuse a race between results that are not the same."""
    gap = float(np.max(np.abs(np.asarray(theirs) - np.asarray(ours))))
    if not gap <= within:
        raise AssertionError(f"{name}: results differ by {gap:.2g}, more than {within:g}")


# ---------------------------------------------------------------- ReservoirPy, which takes weights: the very same network


def reservoirpy_drive(reservoir: Reservoir, inputs: Array) -> Side:
    """All states (T, N), from 0."""
    node = _node(reservoir, reservoir.W_in)

    def states() -> Any:
        node.reset()
        return node.run(inputs)

    node.run(inputs[:1])  # before the first run there is no state to reset
    same("ReservoirPy", states(), run(reservoir, inputs)[0], 1e-10)
    return states


def reservoirpy_batch(reservoir: Reservoir, inputs: Array, length: int) -> Side:
    """States of many sequences of one length, given as a list; it starts each one from 0."""
    node, sequences = _node(reservoir, reservoir.W_in), list(inputs.reshape(-1, length, inputs.shape[1]))
    same("ReservoirPy", node.run(sequences[:2])[1], run(reservoir, sequences[1])[0], 1e-10)
    return lambda: node.run(sequences)


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


# ---------------------------------------------------------------- PyRCN, which takes weights too; its readout sees h alone


def pyrcn_drive(reservoir: Reservoir, inputs: Array) -> Side:
    """All states (T, N), from 0."""
    esn = _pyrcn(reservoir, 1.0).fit(inputs[:500], inputs[1:501])
    same("PyRCN", esn.hidden_layer_state(inputs[:500]), run(reservoir, inputs[:500])[0], 1e-10)
    return lambda: esn.hidden_layer_state(inputs)


def pyrcn_fit(reservoir: Reservoir, inputs: Array, targets: Array, ridge: float) -> Side:
    """States and ridge on [1, h]; gives the predictions of the training rows, on demand."""
    return lambda: _pyrcn(reservoir, ridge).fit(inputs, targets).predict


def pyrcn_forecast(reservoir: Reservoir, series: Array, ridge: float, steps: int) -> Side:
    """It has no closed loop of its own: predict, a row a call, from the state returned before."""
    esn = _pyrcn(reservoir, ridge).fit(series[:-1], series[1:])
    _, start = esn.predict(series[:-1], return_state=True)

    def forecast() -> Any:
        y, state, outputs = series[-1:], start, np.empty((steps, series.shape[1]))
        for k in range(steps):
            y, state = esn.predict(y, initial_state=state, return_state=True)
            outputs[k] = y
        return outputs

    return forecast


def _pyrcn(reservoir: Reservoir, ridge: float) -> Any:
    blocks, n = import_module("pyrcn.base.blocks"), reservoir.n_units
    import_module("torch").set_num_threads(1)
    weights = {"predefined_input_weights": reservoir.W_in.T.copy(), "predefined_bias_weights": reservoir.bias[:, None].copy()}
    inputs = blocks.InputToNode(hidden_layer_size=n, **weights, input_activation="identity", bias_scaling=1.0)
    nodes = blocks.NodeToNode(
        hidden_layer_size=n, predefined_recurrent_weights=reservoir.W.T.tocsr(), leakage=reservoir.leak_rate
    )
    network = import_module("pyrcn.echo_state_network").ESNRegressor
    return network(input_to_node=inputs, node_to_node=nodes, alpha=ridge, verbose=False, requires_sequence=False)


# ---------------------------------------------------------------- rclib, which draws its own weights; its readout sees h alone


def rclib_drive(reservoir: Reservoir, density: float, inputs: Array) -> Side:
    """Outputs (T, 1), from 0: it does not give states away, so ours has to read out too.

    What it calls sparsity is the density; weights drawn twice fall together, which leaves it 5% fewer at 0.1.
    """
    rclib_obeys(float(reservoir.leak_rate), density)
    model = _rclib(reservoir, density, 1e-6)
    model.fit(inputs[:500], inputs[1:501])
    return lambda: model.predict(inputs)


def rclib_fit(reservoir: Reservoir, density: float, inputs: Array, targets: Array, ridge: float) -> Side:
    """States and ridge on [1, h]; gives the predictions, on demand."""
    model = _rclib(reservoir, density, ridge)

    def fit() -> Any:
        model.fit(inputs, targets)
        return model.predict

    return fit


def rclib_forecast(reservoir: Reservoir, density: float, series: Array, ridge: float, steps: int) -> Side:
    """Its own loop, driven by 100 rows first, which are 5 % of 2,000 more steps (ours starts from a state)."""
    model = _rclib(reservoir, density, ridge)
    model.fit(series[:-1], series[1:])

    def forecast() -> Any:
        model.reset_reservoirs()
        return model.predict_generative(series[-100:], steps)

    return forecast


def rclib_rls(features: Array, targets: Array, forgetting: float, delta: float) -> Side:
    """Recursive least squares on given features, without a bias; P starts as I / its delta."""
    native = import_module("rclib._rclib")

    def learn() -> Any:
        readout = native.RlsReadout(forgetting, 1.0 / delta, False, native.RlsReadout.Solver.RANK1_UPDATE)
        readout.partialFit(features, targets)
        return readout.predict

    return learn


def rclib_online(reservoir: Reservoir, density: float, inputs: Array, targets: Array, forgetting: float, delta: float) -> Side:
    """Drive and learn, one row a call, without z among the features."""
    rls = import_module("rclib.readouts").Rls(forgetting, 1.0 / delta, include_bias=True)
    model = _rclib(reservoir, density, readout=rls)

    def learn() -> None:
        for k in range(len(inputs)):
            model.partial_fit(inputs[k : k + 1], targets[k : k + 1])

    return learn


def rclib_obeys(leak: float, density: float, n: int = 50) -> None:
    """Its weights are hidden, but its states obey our update with weights as sparse as asked for, which are found from them."""
    kind = import_module("rclib._rclib").RandomSparseReservoir
    hidden, z = kind(n, RADIUS, density, leak, SCALING, True, 1), 3.0 * np.random.default_rng(0).normal(size=(10 * n, 1))
    h = np.array([hidden.advance(z[k : k + 1]).ravel() for k in range(len(z))])
    arguments = np.arctanh((h[1:] - (1.0 - leak) * h[:-1]) / leak)
    features = np.hstack([np.ones((len(z) - 1, 1)), z[1:], h[:-1]])
    weights = np.linalg.lstsq(features, arguments, rcond=None)[0]
    same("rclib", features @ weights, arguments, 1e-6)
    same("rclib's density", np.mean(np.abs(weights[2:]) > 1e-6), density, 0.2 * density)


def _rclib(reservoir: Reservoir, density: float, ridge: float = 0.0, readout: Any = None) -> Any:
    model = import_module("rclib").ESN()
    kind, batch = import_module("rclib.reservoirs").RandomSparse, import_module("rclib.readouts").Ridge
    model.add_reservoir(kind(reservoir.n_units, RADIUS, density, reservoir.leak_rate, SCALING, include_bias=True, seed=1))
    model.set_readout(readout or batch(ridge, include_bias=True))
    return model


# ---------------------------------------------------------------- OpenReservoirComputing: own weights; its readout sees h alone


def orc_drive(reservoir: Reservoir, density: float, inputs: Array) -> Side:
    """All states (T, N) in float64, from 0; the bias is one number for all units. Compiled in the first call."""
    network, jax = _orc(reservoir, density)
    z, start = jax.numpy.asarray(inputs), jax.numpy.zeros((1, reservoir.n_units))
    W = scipy.sparse.csr_array(np.asarray(network.driver.wr.todense())[0])
    theirs = reservoir._replace(
        indptr=W.indptr.astype(reservoir.indptr.dtype),
        indices=W.indices.astype(reservoir.indices.dtype),
        data=W.data,
        W_in=np.asarray(network.embedding.win)[0],
        bias=np.full(reservoir.n_units, BIAS),
    )
    same("ORC", network.force(z, start)[:500, 0], run(theirs, inputs[:500])[0], 1e-8)
    return lambda: network.force(z, start).block_until_ready()


def orc_fit(reservoir: Reservoir, density: float, inputs: Array, targets: Array, ridge: float) -> Side:
    """States and ridge on h; gives the predictions of the training rows, on demand."""
    network, jax = _orc(reservoir, density)
    train = import_module("orc.forecaster").train_ESNForecaster
    z, y = jax.numpy.asarray(inputs), jax.numpy.asarray(targets)

    def fit() -> Any:
        trained, states = train(network, z, y, beta=ridge)
        weights = trained.readout.wout[0].block_until_ready()
        return lambda _: np.asarray(states[: len(z), 0] @ weights.T)

    return fit


def orc_forecast(reservoir: Reservoir, density: float, series: Array, ridge: float, steps: int) -> Side:
    """Its own loop, compiled in the first call."""
    network, jax = _orc(reservoir, density)
    train = import_module("orc.forecaster").train_ESNForecaster
    network, states = train(network, jax.numpy.asarray(series[:-1]), jax.numpy.asarray(series[1:]), beta=ridge)
    return lambda: network.forecast(steps, states[len(series) - 1]).block_until_ready()


def _orc(reservoir: Reservoir, density: float) -> tuple[Any, Any]:
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    sizes = {"data_dim": 1, "res_dim": reservoir.n_units, "leak_rate": reservoir.leak_rate, "Wr_density": density}
    scales = {"Wr_spectral_radius": RADIUS, "embedding_scaling": SCALING, "bias": BIAS}
    return import_module("orc.forecaster").ESNForecaster(**sizes, **scales, seed=1), jax
