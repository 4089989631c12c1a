"""Adapters of other reservoir libraries, and other methods for uncertain inputs of networks.

Reservoirs: the same work as pesn's, as calls without arguments that ``peers.py`` times. A library that is missing or fails is
left out and reported (``prepare_peers``). ReservoirPy and PyRCN accept weights, so they run the same network as pesn. rclib and
OpenReservoirComputing draw their own weights, of the same size, density and leak rate.

Networks: the 72 cases of Kuang and Lin (arXiv 2601.22307), drawn anew, by ``pesn.propagate`` and by linearization, unscented
transforms, mean field, their Gaussian closure and plain samples (``network_peers``).
"""

import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse
import torch
from scipy import special
from scipy.stats import qmc
from torch import Tensor, nn

import pesn
from harness import ROOT, Call, describe_machine, installed_version, log, make_parser, seconds, table, write_block
from pesn.activations import ERF, SINE, Activation, rescale_activation
from pesn.networks.gaussian_closure import through_layers
from pesn.networks.propagate import third_order_gaussian
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


# ---------------------------------------------------------------- networks: the cases of Kuang and Lin

N_INPUTS, INPUT_STDS = 3, (0.1, 1.0, 10.0)
ARCHITECTURES = {"small": (50, 2), "wide": (400, 2), "deep": (100, 8)}  # width, hidden layers
PROBIT = rescale_activation(ERF, 0.5**0.5, 0.5, name="probit")  # Φ less 1/2
UNITS: dict[str, tuple[Activation, float]] = {"sine": (SINE, 0.0), "probit": (PROBIT, 0.5)}
TRUTH, TRUTH_BLOCK = 2**19, 2**8  # points, and those evaluated at a time: in the cache
AUTO, SAMPLES = "pesn, default", "plain samples, equal time"


class PeerNetwork(nn.Module):
    """A network of Kuang and Lin: hidden layers of sine or probit units, residual or not, and one linear output."""

    def __init__(self, kind: str, residual: bool, width: int, depth: int, seed: int) -> None:
        super().__init__()
        self.kind, self.residual = kind, residual
        draws = torch.Generator().manual_seed(seed)
        sizes = [N_INPUTS, *[width] * depth]
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        self.hidden = nn.ModuleList(layers)
        self.out = nn.Linear(width, 1, bias=False)
        self.double()
        with torch.no_grad():
            for layer in layers:
                layer.weight.normal_(0.0, 1.1 * layer.in_features**-0.5, generator=draws)
                if kind == "sine":
                    layer.bias.uniform_(-np.pi, np.pi, generator=draws)
                else:
                    layer.bias.normal_(generator=draws)
            self.out.weight.normal_(0.0, width**-0.5, generator=draws)

    def forward(self, x: Tensor) -> Tensor:
        h = self._units(self.hidden[0](x))
        for layer in list(self.hidden)[1:]:
            h = h + self._units(layer(h)) if self.residual else self._units(layer(h))
        result: Tensor = self.out(h)
        return result

    def _units(self, z: Tensor) -> Tensor:
        return torch.sin(z) if self.kind == "sine" else 0.5 + 0.5 * torch.erf(0.5**0.5 * z)

    def weights(self) -> list[tuple[Array, Array]]:
        """Return weights and bias of each hidden layer."""
        return [(layer.weight.numpy(), layer.bias.numpy()) for layer in self.hidden if isinstance(layer, nn.Linear)]

    def fit(self, seed: int, points: int = 10) -> "PeerNetwork":
        """Train on random points until it interpolates them, by L-BFGS."""
        draws = torch.Generator().manual_seed(1000 + seed)
        x, y = (torch.randn(points, size, generator=draws, dtype=torch.float64) for size in (N_INPUTS, 1))
        optimizer = torch.optim.LBFGS(self.parameters(), max_iter=300, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimizer.zero_grad()
            found = nn.functional.mse_loss(self(x), y)
            found.backward()  # type: ignore[no-untyped-call]
            return found

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        return self


class Moments(NamedTuple):
    """Mean and standard deviation of the output."""

    mean: float
    std: float

    def error(self, truth: "Moments") -> float:
        return abs(self.std / truth.std - 1.0)

    def divergence(self, truth: "Moments") -> float:
        """Return the Kullback-Leibler divergence of this Gaussian from that of the truth."""
        ratio = (truth.std / self.std) ** 2
        return 0.5 * (ratio - 1.0 - float(np.log(ratio)) + ((truth.mean - self.mean) / self.std) ** 2)


def linearize(network: PeerNetwork, std: float) -> Moments:
    """Linearize the network at the mean of its input."""
    mean = torch.zeros(N_INPUTS, dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        out = network(mean)
        (slope,) = torch.autograd.grad(out, mean)
    return Moments(float(out.detach()), std * float(torch.linalg.vector_norm(slope)))


def transform_unscented(network: PeerNetwork, std: float, alpha: float, beta: float, kappa: float) -> Moments:
    """Apply the scaled unscented transform, 2n + 1 weighted points; a negative variance becomes 0."""
    scale = alpha**2 * (N_INPUTS + kappa)
    points = np.sqrt(scale) * std * np.vstack([np.zeros(N_INPUTS), np.eye(N_INPUTS), -np.eye(N_INPUTS)])
    out = network(torch.from_numpy(points)).numpy()[:, 0]
    weights = np.full(len(points), 0.5 / scale)
    weights[0] = 1.0 - N_INPUTS / scale
    mean = weights @ out
    weights[0] += 1.0 - alpha**2 + beta
    return Moments(float(mean), float(np.sqrt(np.maximum(weights @ np.square(out - mean), 0.0))))


def propagate_mean_field(network: PeerNetwork, std: float) -> Moments:
    """Propagate means and variances, without covariances between the units of a layer."""
    activation, shift = UNITS[network.kind]
    mean: Array = np.zeros(N_INPUTS)
    var: Array = np.full(N_INPUTS, std**2)
    for place, (W, b) in enumerate(network.weights()):
        z, z_var = W @ mean + b, np.square(W) @ var
        unit = pesn.moments(activation, z, z_var)
        if network.residual and place:
            cov = pesn.gain(activation, z, z_var) * np.diag(W) * var
            mean, var = mean + unit.mean + shift, np.asarray(var + unit.var + 2.0 * cov, float)
        else:
            mean, var = np.asarray(unit.mean + shift, float), np.asarray(unit.var, float)
    W = network.out.weight.numpy()[0]
    return Moments(float(W @ mean), float(np.sqrt(np.square(W) @ var)))


def sample_plain(network: PeerNetwork, std: float, count: int, seed: int) -> Moments:
    """Draw plain samples."""
    rows = torch.from_numpy(std * np.random.default_rng(seed).standard_normal((count, N_INPUTS)))
    out = torch.cat([network(part) for part in torch.split(rows, TRUTH_BLOCK)])
    return Moments(float(out.mean()), float(out.std()))


def compute_truth(network: PeerNetwork, std: float, standard: Tensor) -> tuple[Moments, float]:
    """Compute the moments, and the kurtosis, from many Sobol points in single precision."""
    single = PeerNetwork(network.kind, network.residual, network.out.in_features, len(network.hidden), 0)
    single.load_state_dict(network.state_dict())
    single.float().requires_grad_(False)
    out = torch.cat([single(std * part) for part in torch.split(standard, TRUTH_BLOCK)]).double()
    away = out - out.mean()
    var = float(away.square().mean())
    return Moments(float(out.mean()), var**0.5), float(away.pow(4).mean()) / var**2


class PeerResult(NamedTuple):
    """Error, divergence and seconds of each method for one network and input, and plain samples as accurate as the default."""

    std: float
    seed: int
    errors: dict[str, float]
    divergences: dict[str, float]
    seconds: dict[str, float]
    samples: float


def compare_methods(network: PeerNetwork, std: float, seed: int, standard: Tensor) -> PeerResult:
    """Compare all methods on one network and one input standard deviation."""
    x = pesn.Gaussian(np.zeros(N_INPUTS), var=std**2)
    batch = pesn.Gaussian(x.mean[None], var=std**2)
    layers = import_module("pesn.adapters.torch").read(network, x, ((N_INPUTS,),), "gaussian").layers
    calls: dict[str, Callable[[], Any]] = {
        AUTO: lambda: pesn.propagate(network, x, rng=seed),
        "pesn, third-order closure": lambda: third_order_gaussian(layers, batch),
        "Gaussian closure (Kuang and Lin)": lambda: through_layers(layers, x, "surface", "full")[-1],
        "mean field": partial(propagate_mean_field, network, std),
        "linearization": partial(linearize, network, std),
        "unscented, 1995": partial(transform_unscented, network, std, 1.0, 0.0, 3.0 - N_INPUTS),
        "unscented, 2002": partial(transform_unscented, network, std, 1e-3, 2.0, 0.0),
    }
    results: dict[str, Any] = {}
    taken = {name: seconds(lambda name=name, call=call: results.update({name: call()})) for name, call in calls.items()}  # type: ignore[misc]
    each = seconds(partial(sample_plain, network, std, 2**12, seed)) / 2**12
    count = max(2, int(taken[AUTO] / each))
    calls[SAMPLES] = partial(sample_plain, network, std, count, seed)
    taken[SAMPLES] = seconds(lambda: results.update({SAMPLES: calls[SAMPLES]()}))
    moments = {
        name: one if isinstance(one, Moments) else Moments(float(one.mean.item()), float(one.std.item()))
        for name, one in results.items()
    }
    truth, kurtosis = compute_truth(network, std, standard)
    errors = {name: one.error(truth) for name, one in moments.items()}
    # the median error of n samples is 0.674 standard errors, √((kurtosis − 1) / 4n)
    needed = 0.674**2 * (kurtosis - 1.0) / (4.0 * max(errors[AUTO], 1e-6) ** 2)
    divergences = {name: one.divergence(truth) if one.std > 0.0 else np.inf for name, one in moments.items()}
    return PeerResult(std, seed, errors, divergences, taken, needed * each / taken[AUTO])


def measure_peers(seeds: int, sizes: Mapping[str, tuple[int, int]], truth: int) -> list[PeerResult]:
    """Compare all methods on the networks of each seed: units × residual or not × size × trained or not × input."""
    torch.set_num_threads(1)
    found: list[PeerResult] = []
    for seed in range(seeds):
        points = special.ndtri(qmc.Sobol(N_INPUTS, rng=np.random.default_rng(seed)).random(truth) + 2.0**-31)
        standard = torch.from_numpy(points.astype(np.float32))
        for kind, residual, (name, size), trained in product(UNITS, (False, True), sizes.items(), (False, True)):
            log(f"… seed {seed}: {name}, {kind}{', residual' * residual}{', trained' * trained}")
            network = PeerNetwork(kind, residual, *size, seed)
            if trained:
                network.fit(seed)
            network.eval().requires_grad_(False)
            if not found:  # compile
                compare_methods(network, 1.0, seed, standard[:2])
            found += [compare_methods(network, std, seed, standard) for std in INPUT_STDS]
    return found


def network_report(found: Sequence[PeerResult]) -> str:
    """Format a table for each input standard deviation, and what plain samples need."""
    head = ["", "time", "error, median", "largest", "divergence, median", "closer", "closer and faster"]
    parts = []
    for std in INPUT_STDS:
        some = [one for one in found if one.std == std]
        needed = statistics.median(one.samples for one in some)
        parts += [
            f"**Input standard deviation {std:g}**, {len(some)} networks. Plain samples as accurate as the default take "
            f"{needed:.2g} times its time (median).",
            table(head, [_method_row(name, some) for name in some[0].errors]),
        ]
    return "\n\n".join(parts)


def _method_row(name: str, some: Sequence[PeerResult]) -> list[str]:
    """Return the cells of a method; bold where its median is below that of the default."""
    by_seed = {one.seed: [other.errors[name] for other in some if other.seed == one.seed] for one in some}
    medians = [100.0 * statistics.median(errors) for errors in by_seed.values()]
    time = statistics.median(one.seconds[name] / one.seconds[AUTO] for one in some)
    error, least = (100.0 * statistics.median(one.errors[method] for one in some) for method in (name, AUTO))
    divergence, reference = (statistics.median(one.divergences[method] for one in some) for method in (name, AUTO))
    closer = [one for one in some if one.errors[name] < one.errors[AUTO]]
    faster = sum(one.seconds[name] < one.seconds[AUTO] for one in closer)
    return [
        name,
        _mark(f"{time:.2g}", time < 1.0),
        f"{_mark(f'{error:.2g} %', error < least)} ({min(medians):.2g}–{max(medians):.2g})",
        f"{100.0 * max(one.errors[name] for one in some):.2g} %",
        _mark(f"{divergence:.1e}", divergence < reference),
        *(["", ""] if name == AUTO else [str(len(closer)), str(faster)]),
    ]


def _mark(text: str, is_better: bool) -> str:
    return f"**{text}**" if is_better else text


def network_peers(arguments: Sequence[str]) -> None:
    """Compare pesn.propagate with other methods on networks like those of Kuang and Lin."""
    parser = make_parser("network-peers", network_peers.__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, small networks, fewer points; printed only")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/network-peers.md")
    options = parser.parse_args(arguments)
    small = {"small": ARCHITECTURES["small"]}
    text = network_report(measure_peers(1, small, 2**15) if options.quick else measure_peers(3, ARCHITECTURES, TRUTH))
    print(text)
    if options.write and not options.quick:
        write_block(ROOT / "docs" / "network-peers.md", "network-peers", f"{text}\n\n{describe_machine()}; one thread.")
