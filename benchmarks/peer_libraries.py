"""Adapters of other reservoir libraries: the same work as pesn's, as calls without arguments that ``peers.py`` times.

A library that is missing or fails is left out and reported (``prepare_peers``). ReservoirPy and PyRCN accept weights, so they run
the same network as pesn. rclib and OpenReservoirComputing draw their own weights, of the same size, density and leak rate.
"""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from harness import Call, installed_version, log
from pesn.reservoir.drive import State, run
from pesn.reservoir.weights import Reservoir

Array = npt.NDArray[np.float64]

PACKAGES = {"ReservoirPy": "reservoirpy", "rclib": "rclib", "ORC": "OpenReservoirComputing", "PyRCN": "PyRCN"}
RADIUS, SCALING, BIAS = 0.9, 0.5, 0.2


def versions() -> dict[str, str | None]:
    """Return the version of each peer, None if it is not installed."""
    return {name: installed_version(package) for name, package in PACKAGES.items()}


def prepare_peers(makers: Mapping[str, Callable[[], Call]]) -> tuple[dict[str, Call], dict[str, str]]:
    """Return the calls that are ready, and by name of the peer why the others are left out."""
    ready: dict[str, Call] = {}
    out: dict[str, str] = {}
    for name, make in makers.items():
        if installed_version(PACKAGES[name]) is None:
            out[name] = "not installed"
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the peers
                call = make()
                call()
        except Exception as error:
            out[name] = f"failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            log(f"   {name} {out[name]}")
        else:
            ready[name] = call
    return ready, out


def check_equal(name: str, theirs: Any, ours: Any, within: float) -> None:
    """Raise AssertionError if two results differ by more than ``within``."""
    gap = float(np.max(np.abs(np.asarray(theirs) - np.asarray(ours))))
    if not gap <= within:
        raise AssertionError(f"{name}: results differ by {gap:.2g}, more than {within:g}")


# ---------------------------------------------------------------- ReservoirPy: accepts weights


def reservoirpy_drive(reservoir: Reservoir, inputs: Array) -> Call:
    """Return all states of shape (T, N), starting from 0."""
    node = _node(reservoir, reservoir.W_in)

    def states() -> Any:
        node.reset()
        return node.run(inputs)

    node.run(inputs[:1])  # there is no state to reset before the first run
    check_equal("ReservoirPy", states(), run(reservoir, inputs)[0], 1e-10)
    return states


def reservoirpy_batch(reservoir: Reservoir, inputs: Array, length: int) -> Call:
    """Compute the states of many sequences of equal length, passed as a list; each starts from 0."""
    node, sequences = _node(reservoir, reservoir.W_in), list(inputs.reshape(-1, length, inputs.shape[1]))
    check_equal("ReservoirPy", node.run(sequences[:2])[1], run(reservoir, sequences[1])[0], 1e-10)
    return lambda: node.run(sequences)


def reservoirpy_fit(reservoir: Reservoir | None, inputs: Array, targets: Array, ridge: float, **drawn: Any) -> Call:
    """Fit ridge regression on [1, z, h], as pesn does; ``ridge`` is a sum. Without a reservoir, one is ``drawn`` first."""
    nodes, esn = import_module("reservoirpy.nodes"), import_module("reservoirpy").ESN

    def fit() -> Any:
        node = _node(reservoir, reservoir.W_in) if reservoir else nodes.Reservoir(**drawn, input_connectivity=1.0)
        return esn(reservoir=node, readout=nodes.Ridge(ridge), input_to_readout=True).fit(inputs, targets)

    return fit


def reservoirpy_forecast(reservoir: Reservoir, weights: npt.NDArray[Any], state: State, steps: int) -> Call:
    """Forecast with the loop of its tutorial: each output is the next input (run(iters=) took 1.25 times as long)."""
    nodes = import_module("reservoirpy.nodes")
    node, start = _node(reservoir, reservoir.W_fb), {"out": state.mean.copy()}
    # y = w₀ + w₁ z + w h, and z = 0 without external inputs
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


def reservoirpy_rls(features: Array, targets: Array, forgetting: float, delta: float) -> Call:
    """Run recursive least squares on given features, without the bias, which it would learn separately."""
    rls = import_module("reservoirpy.nodes").RLS

    def learn() -> Any:
        readout = rls(alpha=1.0 / delta, forgetting=forgetting, fit_bias=False)
        readout.partial_fit(features, targets)
        return readout.Wout.T

    return learn


def reservoirpy_online(reservoir: Reservoir, inputs: Array, targets: Array, forgetting: float, delta: float) -> Call:
    """Update state and readout, one time step per call; z is not among the features, which is no disadvantage in time."""
    nodes = import_module("reservoirpy.nodes")
    model = _node(reservoir, reservoir.W_in) >> nodes.RLS(alpha=1.0 / delta, forgetting=forgetting)

    def learn() -> None:
        for k in range(len(inputs)):
            model.partial_fit(inputs[k : k + 1], targets[k : k + 1])

    return learn


def _node(reservoir: Reservoir, W_in: Array) -> Any:
    given = {"W": reservoir.W, "Win": np.ascontiguousarray(W_in), "bias": reservoir.bias, "lr": reservoir.leak_rate}
    return import_module("reservoirpy.nodes").Reservoir(**given)


# ---------------------------------------------------------------- PyRCN: accepts weights; its readout uses h only


def pyrcn_drive(reservoir: Reservoir, inputs: Array) -> Call:
    """Return all states of shape (T, N), starting from 0."""
    esn = _pyrcn(reservoir, 1.0).fit(inputs[:500], inputs[1:501])
    check_equal("PyRCN", esn.hidden_layer_state(inputs[:500]), run(reservoir, inputs[:500])[0], 1e-10)
    return lambda: esn.hidden_layer_state(inputs)


def pyrcn_fit(reservoir: Reservoir, inputs: Array, targets: Array, ridge: float) -> Call:
    """Fit ridge regression on [1, h]; the result predicts the training data."""
    return lambda: _pyrcn(reservoir, ridge).fit(inputs, targets).predict


def pyrcn_forecast(reservoir: Reservoir, series: Array, ridge: float, steps: int) -> Call:
    """Forecast by one ``predict`` per time step from the last returned state: it has no closed loop."""
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


# ---------------------------------------------------------------- rclib: draws its own weights; its readout uses h only


def rclib_drive(reservoir: Reservoir, density: float, inputs: Array) -> Call:
    """Return outputs of shape (T, 1), starting from 0; states are not accessible, so pesn computes outputs too.

    Its sparsity is the density; weights that are drawn twice coincide, which leaves 5 % fewer at 0.1.
    """
    check_rclib_update(float(reservoir.leak_rate), density)
    model = _rclib(reservoir, density, 1e-6)
    model.fit(inputs[:500], inputs[1:501])
    return lambda: model.predict(inputs)


def rclib_fit(reservoir: Reservoir, density: float, inputs: Array, targets: Array, ridge: float) -> Call:
    """Fit ridge regression on [1, h]; the result predicts."""
    model = _rclib(reservoir, density, ridge)

    def fit() -> Any:
        model.fit(inputs, targets)
        return model.predict

    return fit


def rclib_forecast(reservoir: Reservoir, density: float, series: Array, ridge: float, steps: int) -> Call:
    """Forecast with its closed loop after 100 warm-up steps, 5 % more than 2,000 steps (pesn starts from a state)."""
    model = _rclib(reservoir, density, ridge)
    model.fit(series[:-1], series[1:])

    def forecast() -> Any:
        model.reset_reservoirs()
        return model.predict_generative(series[-100:], steps)

    return forecast


def rclib_rls(features: Array, targets: Array, forgetting: float, delta: float) -> Call:
    """Run recursive least squares on given features without a bias; P starts as I / delta."""
    native = import_module("rclib._rclib")

    def learn() -> Any:
        readout = native.RlsReadout(forgetting, 1.0 / delta, False, native.RlsReadout.Solver.RANK1_UPDATE)
        readout.partialFit(features, targets)
        return readout.predict

    return learn


def rclib_online(reservoir: Reservoir, density: float, inputs: Array, targets: Array, forgetting: float, delta: float) -> Call:
    """Update state and readout, one time step per call; z is not among the features."""
    rls = import_module("rclib.readouts").Rls(forgetting, 1.0 / delta, include_bias=True)
    model = _rclib(reservoir, density, readout=rls)

    def learn() -> None:
        for k in range(len(inputs)):
            model.partial_fit(inputs[k : k + 1], targets[k : k + 1])

    return learn


def check_rclib_update(leak: float, density: float, n: int = 50) -> None:
    """Check that its states follow the same update: fit its hidden weights to the states, and compare their density."""
    kind = import_module("rclib._rclib").RandomSparseReservoir
    hidden, z = kind(n, RADIUS, density, leak, SCALING, True, 1), 3.0 * np.random.default_rng(0).normal(size=(10 * n, 1))
    h = np.array([hidden.advance(z[k : k + 1]).ravel() for k in range(len(z))])
    arguments = np.arctanh((h[1:] - (1.0 - leak) * h[:-1]) / leak)
    features = np.hstack([np.ones((len(z) - 1, 1)), z[1:], h[:-1]])
    weights = np.linalg.lstsq(features, arguments, rcond=None)[0]
    check_equal("rclib", features @ weights, arguments, 1e-6)
    check_equal("rclib's density", np.mean(np.abs(weights[2:]) > 1e-6), density, 0.2 * density)


def _rclib(reservoir: Reservoir, density: float, ridge: float = 0.0, readout: Any = None) -> Any:
    model = import_module("rclib").ESN()
    kind, batch = import_module("rclib.reservoirs").RandomSparse, import_module("rclib.readouts").Ridge
    model.add_reservoir(kind(reservoir.n_units, RADIUS, density, reservoir.leak_rate, SCALING, include_bias=True, seed=1))
    model.set_readout(readout or batch(ridge, include_bias=True))
    return model


# ---------------------------------------------------------------- OpenReservoirComputing: own weights; its readout uses h only


def orc_drive(reservoir: Reservoir, density: float, inputs: Array) -> Call:
    """Return all states of shape (T, N) in float64, starting from 0; one bias for all units. Compiled in the first call."""
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
    check_equal("ORC", network.force(z, start)[:500, 0], run(theirs, inputs[:500])[0], 1e-8)
    return lambda: network.force(z, start).block_until_ready()


def orc_fit(reservoir: Reservoir, density: float, inputs: Array, targets: Array, ridge: float) -> Call:
    """Fit ridge regression on h; the result predicts the training data."""
    network, jax = _orc(reservoir, density)
    train = import_module("orc.forecaster").train_ESNForecaster
    z, y = jax.numpy.asarray(inputs), jax.numpy.asarray(targets)

    def fit() -> Any:
        trained, states = train(network, z, y, beta=ridge)
        weights = trained.readout.wout[0].block_until_ready()
        return lambda _: np.asarray(states[: len(z), 0] @ weights.T)

    return fit


def orc_forecast(reservoir: Reservoir, density: float, series: Array, ridge: float, steps: int) -> Call:
    """Forecast with its closed loop, compiled in the first call."""
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
