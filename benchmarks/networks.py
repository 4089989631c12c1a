"""Accuracy and runtime of `pesn.propagate`: uncertain inputs through networks and fitted estimators, against sampling.

tolerance   52 trained and random networks with two or more layers: how often the tolerance is met, points and runtime, float32
saturation  60 random networks of large gains: error estimates of the closed forms beside their errors
wide        vision transformers with 3,072 pixels: points with control variates along gradients, and random points
estimators  fitted scikit-learn estimators: chosen closure, error, and runtime relative to plain samples

The benchmark "weights" measures networks with uncertain weights and dropout:

closure     error of the Gaussian closure against samples, and its time against 2,048 passes
regression  deterministic variational inference and Monte Carlo dropout on two data sets: test log-likelihood and RMSE

--write puts the tables into docs/networks.md, docs/how-to/sklearn.md and docs/how-to/uncertain-weights.md.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, pairwise, product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy import special
from scipy.stats import qmc
from sklearn import datasets
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, HistGradientBoostingRegressor, RandomForestRegressor, VotingRegressor
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, QuantileTransformer, StandardScaler
from sklearn.svm import SVR
from torch import nn

import pesn
from harness import ROOT, Call, Ratio, installed_version, log, make_parser, parse_parts, ratio, table, time_in_turns, write_block
from pesn.adapters.torch import as_layers
from pesn.metrics import log_score
from pesn.networks import Dropout, propagate_gaussian
from pesn.networks.layers import fold_dropout, forward
from pesn.networks.propagate import third_order_gaussian

Array = npt.NDArray[np.float64]
torch.set_num_threads(1)  # waiting threads slow down other work more than they help

# ---------------------------------------------------------------- trained networks

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}


def train_layers(kind: str, depth: int, inputs: int, roughness: float, seed: int) -> list[pesn.Dense]:
    """Train a network on four random waves of standardized inputs, by 1,000 steps of Adam; return its layers."""
    rng = np.random.default_rng(seed)
    _, width = rng.integers(3, 9), int(rng.choice([16, 32, 64]))
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for k in range(depth):
        layers += [nn.Linear(inputs if k == 0 else width, width), ACTIVATIONS[kind]()]
    network = nn.Sequential(*layers, nn.Linear(width, 2)).double()
    x = torch.from_numpy(rng.normal(size=(2000, inputs)))
    waves, phases = rng.normal(size=(inputs, 4)), torch.from_numpy(rng.uniform(0, 6, 4))
    waves *= roughness / np.sqrt(np.sum(waves**2, axis=0))
    y = torch.sin(x @ torch.from_numpy(waves) + phases) @ torch.from_numpy(rng.normal(size=(4, 2)))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(1000):
        batch = torch.randint(0, len(x), (128,))
        loss = nn.functional.mse_loss(network(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return as_layers(network.eval(), inputs)


# ---------------------------------------------------------------- tolerance and error estimates on 52 networks

SOBOL_TRUTH = 2**19
SEEDS = 5


class Case(NamedTuple):
    """A network and an input: trained or random, activation, depth, and standard deviation of the input."""

    origin: str
    kind: str
    depth: int
    std: float
    layers: list[pesn.Dense]
    mean: Array

    @property
    def x(self) -> pesn.Gaussian:
        return pesn.Gaussian(self.mean, var=self.std**2)


SWEEP_KINDS, SWEEP_DEPTHS, SWEEP_INPUTS = ("tanh", "relu", "gelu"), (2, 3, 4), (2, 3, 5, 8, 12, 20, 30, 50)
SWEEP_STDS = ((0.1, 0.3, 1.0), (0.1, 0.5, 0.8), (0.1, 0.3, 1.0), (0.2, 0.5), (0.2, 0.5))


def cases() -> Iterator[Case]:
    """Yield all 52 cases."""
    for k in range(20):
        rng = np.random.default_rng(k)
        kind, depth, inputs, half = SWEEP_KINDS[k % 3], SWEEP_DEPTHS[k // 3 % 3], SWEEP_INPUTS[k % 8], k < 10
        layers = train_layers(kind, depth, inputs, 1.0 + k % 2, k) if half else random_network(kind, depth, inputs, rng)
        for std in SWEEP_STDS[k % 5]:
            yield Case("trained" if half else "random", kind, depth, std, layers, rng.normal(size=inputs))


def random_network(kind: str, depth: int, inputs: int, rng: np.random.Generator) -> list[pesn.Dense]:
    """Draw a network with two outputs whose weights neither damp nor saturate."""
    sizes = [inputs, *[int(rng.choice([30, 60, 100]))] * depth, 2]
    return [
        pesn.Dense(1.45 * rng.normal(size=(b, a)) / np.sqrt(a), 0.1 * rng.normal(size=b), kind if place < depth else "identity")
        for place, (a, b) in enumerate(pairwise(sizes))
    ]


def sobol_std(case: Case) -> Array:
    """Compute standard deviations from 2¹⁹ Sobol points, in blocks."""
    points = qmc.Sobol(len(case.mean), rng=np.random.default_rng(12345))
    total, square, block = np.zeros(2), np.zeros(2), 2**14
    for _ in range(SOBOL_TRUTH // block):
        out = forward(case.layers, case.mean + case.std * special.ndtri(points.random(block) + 2.0**-31))
        total += out.sum(axis=0)
        square += np.square(out).sum(axis=0)
    return np.asarray(np.sqrt(square / SOBOL_TRUTH - np.square(total / SOBOL_TRUTH)))


def relative_error(std: npt.NDArray[np.floating], true: Array) -> float:
    return float(np.max(np.abs(std / true - 1.0)))


TOLERANCES = (0.01, 0.003)


def tolerance(count: int = 52, seeds: int = SEEDS) -> list[str]:
    """Measure how often the error is within the tolerance in the first ``count`` cases, and the CPU time of all of them."""
    rows = []
    some = [(case, sobol_std(case)) for case in islice(cases(), count)]
    for tol in TOLERANCES:
        errors, estimates, points, closures, alike = [], [], [], list[str](), 0
        for case, true in some:
            for seed in range(seeds):
                y = pesn.propagate(case.layers, case.x, tol=tol, rng=seed)
                errors.append(relative_error(y.std, true))
                estimates.append(float(y.error))
                closures.append(y.closure)
                points.append(0 if y.samples is None else len(y.samples))
            single = pesn.propagate(case.layers, pesn.Gaussian(case.mean.astype("f4"), var=np.float32(case.std**2)), tol=tol)
            double = pesn.propagate(case.layers, case.x, tol=tol)
            alike += single.closure == double.closure and bool(np.allclose(single.std, double.std, rtol=1e-4))
        calls = {
            "tol": lambda tol=tol: [pesn.propagate(case.layers, case.x, tol=tol) for case, _ in some],  # type: ignore[misc]
            "fixed": lambda: [pesn.propagate(case.layers, case.x, n_samples=2048) for case, _ in some],
        }
        found, stated = np.array(errors), np.array(estimates)
        rows.append(
            [
                f"{tol:g}",
                *(f"{100 * np.mean(part):.1f} %" for part in (found <= tol, found <= stated, stated <= tol)),
                f"{100 * found.max():.2g} %",
                f"{np.mean(points):,.0f}",
                str(closures.count("third-order")),
                f"{ratio(time_in_turns(calls, 3), 'tol', 'fixed').median:.2g}",
                f"{alike} of {len(some)}",
            ]
        )
    head = [
        "tol",
        "error ≤ tol",
        "error ≤ estimate",
        "estimate ≤ tol",
        "largest error",
        "points, mean",
        "third-order",
        "time",
        "f4",
    ]
    return [
        f"{len(some)} networks × {seeds} seeds against {SOBOL_TRUTH:,} points. Time: of all networks, relative to 2,048 points "
        "each. f4: networks with the same closure and standard deviations for float32 input.",
        "",
        table(head, rows),
        "",
    ]


def saturated_network(seed: int) -> Case:
    """Draw a tanh network with a gain of 1 to 6 and an input standard deviation of 0.3 to 3."""
    rng = np.random.default_rng(1000 + seed)
    depth, width, inputs = int(rng.integers(2, 5)), int(rng.choice([20, 50, 100])), int(rng.choice([2, 3, 5, 10, 20]))
    gain, std = rng.uniform(1.0, 6.0), float(np.exp(rng.uniform(np.log(0.3), np.log(3.0))))
    sizes = [inputs, *[width] * depth, 2]
    layers = [
        pesn.Dense(
            (gain if place < depth else 1.0) * rng.normal(size=(b, a)) / np.sqrt(a),
            0.3 * rng.normal(size=b),
            "tanh" if place < depth else "identity",
        )
        for place, (a, b) in enumerate(pairwise(sizes))
    ]
    return Case("random", f"gain {gain:.1f}", depth, std, layers, rng.normal(size=inputs))


def saturation(count: int = 60) -> list[str]:
    """Compare the error estimates of each closure with its errors in saturated networks."""
    some = [(case, sobol_std(case)) for case in map(saturated_network, range(count))]
    rows = []
    for closure in ("gaussian", "third-order", "auto"):
        results = [pesn.propagate(case.layers, case.x, closure=closure) for case, _ in some]
        errors = np.array([relative_error(y.std, true) for y, (_, true) in zip(results, some, strict=True)])
        stated = np.array([float(y.error) for y in results])
        shares = ((stated < 0.02) & (errors > 0.05), errors > stated, errors > np.maximum(2.0 * stated, 0.02))
        rows.append([closure, f"{100 * np.median(errors):.2g} %", f"{100 * errors.max():.2g} %", *(str(s.sum()) for s in shares)])
    head = ["", "median error", "largest", "stated < 2 %, error > 5 %", "error > stated", "error > 2 × stated and > 2 %"]
    return [f"{count} random tanh networks, gains 1 to 6, input standard deviations 0.3 to 3.", "", table(head, rows), ""]


# ---------------------------------------------------------------- many inputs

PIXELS, PATCHES, TOKEN = 3072, 64, 32  # of an image of 32 × 32 and three colors, and numbers of a token
WIDE_POINTS, PLAIN_POINTS, WIDE_SEEDS, WIDE_TRUTH = 256, 512, 12, 2**14


class Block(nn.Module):
    """A block of a transformer: attention and two layers of units."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(TOKEN), nn.LayerNorm(TOKEN)])
        self.attention = nn.MultiheadAttention(TOKEN, 4, batch_first=True)
        self.units = nn.Sequential(nn.Linear(TOKEN, 4 * TOKEN), nn.GELU(), nn.Linear(4 * TOKEN, TOKEN))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        given = self.norms[0](tokens)
        tokens = tokens + self.attention(given, given, given, need_weights=False)[0]
        result: torch.Tensor = tokens + self.units(self.norms[1](tokens))
        return result


class VisionTransformer(nn.Module):
    """A small vision transformer of images as rows of pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, TOKEN, 4, 4), nn.Parameter(0.02 * torch.randn(PATCHES, TOKEN))
        self.blocks, self.norm, self.head = nn.Sequential(Block(), Block()), nn.LayerNorm(TOKEN), nn.Linear(TOKEN, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(rows.reshape(-1, 3, 32, 32)).flatten(2).mT + self.places
        result: torch.Tensor = self.head(self.norm(self.blocks(tokens)).mean(dim=1))
        return result


def train_transformer(steps: int, seed: int = 0) -> tuple[VisionTransformer, Array]:
    """Train a vision transformer on enlarged digits; return it, and an image that it has not seen."""
    torch.manual_seed(seed)
    network, (X, y) = VisionTransformer(), datasets.load_digits(return_X_y=True)
    small = torch.from_numpy(X / 16.0).float().reshape(-1, 1, 8, 8)
    images = nn.functional.interpolate(small, (32, 32), mode="bilinear").expand(-1, 3, -1, -1).reshape(-1, PIXELS)
    optimizer, labels = torch.optim.Adam(network.parameters(), lr=1e-3), torch.from_numpy(y)
    for _ in range(steps):
        batch = torch.randint(0, 1500, (64,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return network.eval().requires_grad_(False), images[1600].double().numpy()


def wide_rows(name: str, steps: int, std: float, seeds: int, truth: int) -> list[str]:
    """Measure one transformer at one standard deviation of its pixels."""
    network, image = train_transformer(steps)
    x = pesn.Gaussian(image, var=std**2)

    def without_gradients(rows: Array) -> Array:
        with torch.no_grad():
            return np.asarray(network(torch.from_numpy(rows).float()).numpy(), float)

    true = pesn.propagate(network, x, n_samples=truth, rng=10**6, covariance="diagonal").std
    calls = {
        "gradients": lambda seed=0: pesn.propagate(network, x, n_samples=WIDE_POINTS, rng=seed),
        "plain": lambda seed=0: pesn.propagate(without_gradients, x, n_samples=PLAIN_POINTS, rng=seed),
    }
    cells = []
    for call in calls.values():
        found = [call(seed) for seed in range(seeds)]  # type: ignore[no-untyped-call]
        errors = np.array([y.std / true - 1.0 for y in found])
        inside = np.mean([np.abs(off).max() <= y.error for off, y in zip(errors, found, strict=True)])
        cells += [f"{100 * np.sqrt(np.mean(errors**2)):.2g} %", f"{100 * np.abs(errors).max():.2g} %", f"{100 * inside:.0f} %"]
    cost = ratio(time_in_turns(calls, 3), "gradients", "plain").median
    return [f"{name}, {std:g}", *cells, f"{cost:.2g}"]


def wide(seeds: int = WIDE_SEEDS, truth: int = WIDE_TRUTH, steps: int = 200) -> list[str]:
    """Measure points with control variates in vision transformers."""
    kinds = (("random", 0), ("trained", steps))
    rows = [wide_rows(name, count, std, seeds, truth) for (name, count), std in product(kinds, (0.02, 0.1, 0.3))]
    head = ["weights, pixel standard deviation"]
    for points in (f"{WIDE_POINTS} points, gradients", f"{PLAIN_POINTS} points"):
        head += [f"{points}: error", "largest", "error ≤ estimate"]
    text = (
        f"Vision transformers with {PIXELS:,} pixels and ten outputs, {seeds} seeds, against {truth:,} points. Error: of "
        "standard deviations, root mean square over outputs and seeds. error ≤ estimate: seeds with every output within it. "
        f"Time: CPU time with {WIDE_POINTS} points and gradients, relative to {PLAIN_POINTS} points."
    )
    return [text, "", table([*head, "time"], rows)]


# ---------------------------------------------------------------- speed


class Speed(NamedTuple):
    """Relative time, and errors against sampling: of means (in standard deviations), standard deviations, correlations."""

    name: str
    ratio: Ratio
    mean_error: float
    std_error: float
    std_rms: float
    correlation_error: float


OURS, GAUSSIAN, AUTO, TENSORS = (
    "third-order closure",
    "Gaussian closure",
    '"auto", tol=0.01',
    "Gaussian closure, torch tensors",
)
PEER = f"distprop {installed_version('distprop') or '(not installed_version)'}, linearized"
SAMPLES = "plain samples"
SPEED_SAMPLERS = {SAMPLES: False, "Sobol points": True}
MOST_SAMPLES = 2**17


class Moments(NamedTuple):
    """Mean, standard deviations and correlations of many samples."""

    mean: Array
    std: Array
    correlation: Array

    @classmethod
    def from_covariance(cls, mean: Array, cov: Array) -> "Moments":
        std = np.sqrt(np.diag(cov))
        return cls(mean, std, cov / np.outer(std, std))

    def errors(self, other: "Moments") -> tuple[float, float, float, float]:
        """Return the errors of mean, standard deviations (largest, root mean square) and correlations."""
        relative = other.std / self.std - 1.0
        of_mean, of_correlation = np.abs(other.mean - self.mean) / self.std, np.abs(other.correlation - self.correlation)
        return (
            float(of_mean.max()),
            float(np.abs(relative).max()),
            float(np.sqrt(np.mean(relative**2))),
            float(of_correlation.max()),
        )


def measure_speeds(rounds: int = 15, samples: int = 400_000, d: int = 100) -> list[Speed]:
    """Time three tanh layers of d units, samples of the same accuracy, and distprop if installed (it needs isotropic input)."""
    rng = np.random.default_rng(0)
    dense = [pesn.Dense(1.5 * d**-0.5 * rng.normal(size=(d, d)), 0.1 * rng.normal(size=d), "tanh") for _ in range(3)]
    network = nn.Sequential(*(module for _ in dense for module in (nn.Linear(d, d), nn.Tanh()))).double().eval()
    with torch.no_grad():
        for layer, linear in zip(dense, (m for m in network if isinstance(m, nn.Linear)), strict=True):
            linear.weight.copy_(torch.tensor(layer.W))
            linear.bias.copy_(torch.tensor(layer.b))
    mean, std = rng.normal(size=d), 0.5
    x, tensor = pesn.Gaussian(mean, cov=std**2 * np.eye(d)), torch.from_numpy(mean)
    tensor_x = pesn.Gaussian(tensor, cov=std**2 * torch.eye(d, dtype=torch.float64))

    def sampled(n: int, use_sobol: bool, seed: int = 1) -> tuple[Array, Array]:
        drawn = np.random.default_rng(seed)
        points = special.ndtri(qmc.Sobol(d, rng=drawn).random(n) + 2.0**-31) if use_sobol else drawn.standard_normal((n, d))
        h = mean + std * points
        for layer in dense:
            h = np.tanh(h @ layer.W.T + layer.b)
        return h.mean(axis=0), np.cov(h.T)

    runs: dict[str, Call] = {
        OURS: lambda: third_order_gaussian(dense, pesn.Gaussian(mean[None], cov=x.cov)),
        GAUSSIAN: lambda: propagate_gaussian(dense, x)[-1],
        AUTO: lambda: pesn.propagate(dense, x),
        TENSORS: lambda: propagate_gaussian(network, tensor_x)[-1],
    }
    if installed_version("distprop"):
        from distprop import SDP

        peer = SDP(network, std=std, num_outputs=d, create_graph=False)
        runs[PEER] = lambda: peer(tensor[None].clone())
    blocks = [sampled(samples // 20, False, 100 + k) for k in range(20)]
    true_mean = np.mean([m for m, _ in blocks], axis=0)
    truth = Moments.from_covariance(true_mean, np.mean([c + np.outer(m - true_mean, m - true_mean) for m, c in blocks], axis=0))
    _, largest, rms, _ = truth.errors(_moments(runs[OURS]()))
    for name, use_sobol in SPEED_SAMPLERS.items():
        for what, place, limit in (("largest", 1, largest), ("mean square", 2, rms)):
            n = 64
            while (
                n < MOST_SAMPLES
                and np.median([truth.errors(Moments.from_covariance(*sampled(n, use_sobol, k)))[place] for k in range(5)]) > limit
            ):
                n *= 2
            runs[f"{n:,} {name}: equal {what} error"] = partial(sampled, n, use_sobol)
    times = time_in_turns(runs, rounds)
    return [Speed(name, ratio(times, name, OURS), *truth.errors(_moments(run()))) for name, run in runs.items()]


def is_baseline(one: Speed) -> bool:
    """Tell whether a row is a baseline: samples or a peer."""
    return one.name == PEER or any(name in one.name for name in SPEED_SAMPLERS)


def _moments(result: Any) -> Moments:
    """Convert a Gaussian or (mean, covariance), arrays or tensors."""
    parts = (result.mean, result.cov) if isinstance(result, pesn.Gaussian) else result
    mean, cov = (np.asarray(part.detach() if isinstance(part, torch.Tensor) else part).squeeze() for part in parts)
    return Moments.from_covariance(mean, cov)


def speed_report(found: list[Speed], samples: int) -> list[str]:
    rows = [
        [
            one.name,
            "1" if one.name == OURS else str(one.ratio),
            f"{one.mean_error:.3f}",
            f"{100 * one.std_error:.2g} %",
            f"{100 * one.std_rms:.2g} %",
            f"{one.correlation_error:.3f}",
        ]
        for one in found
    ]
    head = ["", "time", "largest error: mean", "std", "std, root mean square", "correlation"]
    return [
        "Three tanh layers of 100, input standard deviation 0.5, full covariance; time relative to the third-order closure on "
        f"NumPy arrays (medians of the ratios, minimum–maximum), errors against {samples:,} samples, of means in units of the "
        "output standard deviation. Equal error: the smallest power of 2 whose error, the median of five draws, is no larger.",
        "",
        table(head, rows),
        "" if installed_version("distprop") else "\ndistprop is not installed: pip install 'pesn[bench]'.\n",
    ]


# ---------------------------------------------------------------- fitted estimators

INPUT_STD = 0.2  # of every input, relative to its standard deviation in the data
PLAIN_SAMPLES = 2048


def mlp(*sizes: int) -> Any:
    mlp = MLPRegressor(hidden_layer_sizes=sizes, activation="tanh", alpha=0.1, solver="lbfgs", max_iter=1000, random_state=0)
    return TransformedTargetRegressor(make_pipeline(StandardScaler(), mlp), transformer=StandardScaler())


def column_scalers() -> Any:
    half = make_pipeline(SimpleImputer(), StandardScaler())
    return ColumnTransformer([("first", half, slice(0, 5))], remainder=StandardScaler())


ESTIMATORS: dict[str, Any] = {
    "Ridge behind a ColumnTransformer": make_pipeline(column_scalers(), Ridge()),
    "quadratic Ridge": make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge(10.0)),
    "network of 30 units, grid search": GridSearchCV(mlp(30), {"regressor__mlpregressor__alpha": [0.1, 1.0]}, cv=2),
    "network behind SelectKBest": make_pipeline(SelectKBest(f_regression, k=5), mlp(30)),
    "10 bagged networks": BaggingRegressor(mlp(20), n_estimators=10, max_features=0.7, random_state=0),
    "Ridge and network, voting": VotingRegressor([("line", Ridge()), ("network", mlp(30))]),
    "network of 50 and 50": mlp(50, 50),
    "quantiles and Ridge": make_pipeline(QuantileTransformer(n_quantiles=100), Ridge()),
    "SVR": make_pipeline(StandardScaler(), SVR(C=10.0)),
    "Gaussian process": make_pipeline(StandardScaler(), GaussianProcessRegressor(alpha=0.1, normalize_y=True)),
    "boosting": HistGradientBoostingRegressor(max_iter=50, random_state=0),
    "forest of 50": RandomForestRegressor(50, random_state=0),
}
DATA: dict[str, Callable[[], tuple[Array, Array]]] = {
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True, scaled=False),
    "Friedman": lambda: datasets.make_friedman1(400, 10, noise=0.5, random_state=0),
}


def uncertain_inputs(estimator: Any, rows: int) -> Iterator[tuple[Any, pesn.Gaussian]]:
    """Yield fitted estimators with samples of the training data made uncertain."""
    for load in DATA.values():
        X, y = load()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged: any weights do
            model = clone(estimator).fit(X, y)
        for row in np.random.default_rng(0).choice(len(X), rows, replace=False):
            yield model, pesn.Gaussian(X[row], var=(INPUT_STD * X.std(axis=0)) ** 2)


def estimator_row(name: str, rows: int, truth: int, rounds: int) -> list[str]:
    closures, errors, estimates, plain_errors = set(), [], [], []
    for k, (model, x) in enumerate(uncertain_inputs(ESTIMATORS[name], rows)):
        predict = model.predict
        true_std = pesn.propagate(lambda rows, predict=predict: predict(rows), x, n_samples=truth, rng=1).std
        found = pesn.propagate(model, x)
        closures.add(found.closure)
        errors.append(float(np.abs(found.std / true_std - 1.0).max()))
        estimates.append(float(found.error))
        plain_errors.append(float(np.abs(predict(x.sample(PLAIN_SAMPLES, rng=k)).std() / true_std - 1.0).max()))
    model, x = next(uncertain_inputs(ESTIMATORS[name], 1))
    draws = np.random.default_rng(0)
    calls = {"pesn": lambda: pesn.propagate(model, x), "plain": lambda: model.predict(x.sample(PLAIN_SAMPLES, rng=draws)).std()}
    relative_time = ratio(time_in_turns(calls, rounds), "pesn", "plain").median
    return [
        name,
        " ".join(sorted(closures)),
        *(f"{100 * max(one):.2g} %" for one in (errors, estimates, plain_errors)),
        f"{relative_time:.2g}",
    ]


def estimators(rows: int = 6, truth: int = 2**17, rounds: int = 7) -> list[str]:
    lines = []
    for name in ESTIMATORS:
        log(f"… {name}")
        lines.append(estimator_row(name, rows, truth, rounds))
    head = [
        "estimator",
        "closure",
        "largest error",
        "largest error estimate",
        f"error of {PLAIN_SAMPLES:,} samples",
        "relative time",
    ]
    text = (
        f"Fitted to {' and '.join(DATA)}, {rows} samples of each; standard deviations of all 10 inputs: {INPUT_STD:g} of those "
        f"in the data. Errors of output standard deviations against {truth:,} points through `predict`. Relative time: CPU time "
        f"of `propagate`, including reading the estimator, ÷ that of {PLAIN_SAMPLES:,} plain samples through `predict`."
    )
    return [text, "", table(head, lines)]


# ---------------------------------------------------------------- uncertain weights and dropout: the closed form against samples

CLOSURE_PASSES = 2048

# widths, activation, std of weights relative to their scale, dropout of hidden units, std of the input
RANDOM_NETWORKS = {
    "8 → 2 × 64 → 2 tanh, weights": ((8, 64, 64, 2), "tanh", 0.15, 0.0, 0.0),
    "the same, input std 0.2": ((8, 64, 64, 2), "tanh", 0.15, 0.0, 0.2),
    "10 → 3 × 50 → 1 relu, weights, dropout 0.1, input std 0.1": ((10, 50, 50, 50, 1), "relu", 0.1, 0.1, 0.1),
    "20 → 2 × 100 → 3 silu, weights, dropout 0.05, input std 0.2": ((20, 100, 100, 3), "silu", 0.15, 0.05, 0.2),
}


def make_random_network(widths: Sequence[int], activation: str, std: float, dropout: float) -> list[pesn.Dense | Dropout]:
    rng, layers = np.random.default_rng(0), list[pesn.Dense | Dropout]()
    for place, (n, m) in enumerate(pairwise(widths)):
        scale = 1.3 / np.sqrt(n)
        f = activation if place < len(widths) - 2 else "identity"
        W, b = scale * rng.normal(size=(m, n)), 0.1 * rng.normal(size=m)
        layers += [Dropout(dropout if place else 0.0), pesn.Dense(W, b, f, W_var=(std * scale) ** 2, b_var=1e-4)]
    return layers


def measure_closure(name: str, samples: int, rounds: int) -> list[str]:
    widths, activation, weights_std, dropout, input_std = RANDOM_NETWORKS[name]
    layers, rng = make_random_network(widths, activation, weights_std, dropout), np.random.default_rng(1)
    chain, x = fold_dropout(layers), pesn.Gaussian(rng.normal(size=widths[0]), var=input_std**2)

    def run_passes(n: int = CLOSURE_PASSES) -> Array:
        return np.asarray(forward(chain, x.sample(n, rng=rng), rng), float)

    out = np.concatenate([run_passes(20_000) for _ in range(samples // 20_000)])
    y, at_points, std = propagate_gaussian(layers, x)[-1], pesn.propagate(layers, x), out.std(axis=0)
    calls: dict[str, Call] = {"closure": lambda: propagate_gaussian(layers, x), "passes": run_passes}
    speed = ratio(time_in_turns(calls, rounds), "passes", "closure")
    errors = [np.abs(y.std / std - 1.0), np.abs(at_points.std / std - 1.0), at_points.error]
    off, at_off, stated = (f"{100 * np.max(error):.2g} %" for error in errors)
    return [name, off, f"{np.max(np.abs(y.mean - out.mean(axis=0)) / std):.4f}", str(speed), at_off, stated]


def compare_closure(samples: int = 400_000, rounds: int = 9) -> list[str]:
    """Compare the Gaussian closure of uncertain weights and dropout with samples that draw all of them anew."""
    head = ["", "std", "mean", f"time of {CLOSURE_PASSES:,} passes ÷ closure", "std of propagate", "its estimate"]
    text = (
        f"`propagate_gaussian` of networks with uncertain weights against {samples:,} samples, each with its own weights, "
        "masks and input: the largest error of an output's standard deviation, and of its mean in standard deviations. Beside it "
        "`pesn.propagate`, which draws them at points."
    )
    return [text, "", table(head, [measure_closure(name, samples, rounds) for name in RANDOM_NETWORKS])]


# ---------------------------------------------------------------- uncertain weights and dropout: regression

REGRESSION: dict[str, Callable[[int], tuple[Array, Array]]] = {  # data of a split, by its seed
    "diabetes": lambda _: datasets.load_diabetes(return_X_y=True, scaled=False),
    "Friedman": lambda seed: datasets.make_friedman1(400, 10, noise=1.0, random_state=seed),
}
REPORTED_SPLIT = 100  # seed of the first one; training was tuned on the splits from 0 on, which --quick runs
WIDTH, PASSES = 50, 1000  # hidden ReLU units, passes of a network with drawn weights
VARIATIONAL_STEPS, DROPOUT_STEPS = 1500, 500  # of Adam
DROPOUTS, DECAYS = (0.05, 0.2), (0.01, 0.1, 1.0)  # a validation set selects from
METHODS = (
    "variational, closed form",
    f"variational, {PASSES:,} passes",
    "dropout, closed form",
    f"dropout, {PASSES:,} passes",
    "certain weights",
)


class Split(NamedTuple):
    """Standardized training and test data of one split, and the standard deviation of the targets."""

    X: torch.Tensor
    y: torch.Tensor
    test_inputs: torch.Tensor
    test_targets: torch.Tensor
    scale: float


def split_data(name: str, seed: int) -> Split:
    """Draw nine tenths of the data for training."""
    X, y = REGRESSION[name](seed)
    train, test = np.split(np.random.default_rng(seed).permutation(len(y)), [int(0.9 * len(y))])
    X, target = (X - X[train].mean(axis=0)) / X[train].std(axis=0), (y - y[train].mean()) / y[train].std()
    a, b, c, d = (torch.from_numpy(part) for part in (X[train], target[train], X[test], target[test]))
    return Split(a, b, c, d, float(y[train].std()))


def make_network(inputs: int, dropout: float, seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Dropout(dropout), nn.Linear(WIDTH, 1)).double()


def minimize(loss: Callable[[float], torch.Tensor], parameters: Sequence[torch.Tensor], steps: int) -> None:
    """Minimize a function of the fraction of steps that are done."""
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
    for step in range(steps):
        optimizer.zero_grad()
        loss(step / steps).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()


def train_variational(data: Split, seed: int) -> tuple[nn.Sequential, dict[str, torch.Tensor], float]:
    """Maximize the expected log-likelihood less the divergence from the prior, both in closed form; no weight is drawn.

    The variances of the prior, one for each parameter tensor, are those of maximum evidence. The weight of the
    divergence rises to 1 in the first half of the steps.
    """
    network = make_network(data.X.shape[1], 0.0, seed).eval()
    logs = {name: nn.Parameter(torch.full_like(p, -6.0)) for name, p in network.named_parameters()}
    noise = nn.Parameter(torch.zeros((), dtype=torch.float64))
    weights = dict(network.named_parameters())

    def loss(done: float) -> torch.Tensor:
        var = {name: log.exp() for name, log in logs.items()}
        m, v = network[0](data.X), data.X.square() @ var["0.weight"].T + var["0.bias"]
        s = v.sqrt()
        cdf, pdf = torch.special.ndtr(m / s), torch.exp(-0.5 * (m / s).square()) / np.sqrt(2.0 * np.pi)
        mean, second = m * cdf + s * pdf, (m.square() + v) * cdf + m * s * pdf  # of ReLU
        f = network[3](mean)[:, 0]
        W = weights["3.weight"][0]
        f_var = (second - mean.square()) @ W.square() + second @ var["3.weight"][0] + var["3.bias"]
        fit = 0.5 * (noise + ((data.y - f).square() + f_var) / noise.exp()).sum()
        moments = {name: var[name].sum() + p.square().sum() for name, p in weights.items()}
        prior = sum(0.5 * (p.numel() * (moments[name] / p.numel()).log() - logs[name].sum()) for name, p in weights.items())
        return (fit + min(1.0, 2.0 * done) * prior) / len(data.y)

    minimize(loss, [*weights.values(), *logs.values(), noise], VARIATIONAL_STEPS)
    return network, {name: log.detach().exp() for name, log in logs.items()}, float(noise.detach().exp())


def train_dropout(data: Split, dropout: float, decay: float, seed: int) -> nn.Sequential:
    network = make_network(data.X.shape[1], dropout, seed)
    weights = [p for name, p in network.named_parameters() if name.endswith("weight")]

    def loss(_: float) -> torch.Tensor:
        return (network(data.X)[:, 0] - data.y).square().mean() + decay / WIDTH * torch.stack(
            [W.square().sum() for W in weights]
        ).sum()

    minimize(loss, list(network.parameters()), DROPOUT_STEPS)
    return network


def draw_passes(network: nn.Sequential, X: torch.Tensor) -> torch.Tensor:
    """Return the outputs (PASSES, n) with dropout on."""
    with torch.no_grad():
        out: torch.Tensor = network.train()(X.expand(PASSES, *X.shape))[..., 0]
    network.eval()
    return out


def mixture_score(out: torch.Tensor, noise: float, data: Split) -> tuple[float, float]:
    """Return log-likelihood and root mean square error of a mixture of equal Gaussians, with means (passes, n)."""
    logs = -0.5 * ((data.test_targets - out).square() / noise + np.log(2.0 * np.pi * noise))
    log_score = float((torch.logsumexp(logs, dim=0) - np.log(len(out))).mean()) - np.log(data.scale)
    return log_score, data.scale * float((data.test_targets - out.mean(dim=0)).square().mean().sqrt())


def gaussian_score(y: pesn.Gaussian, noise: float, data: Split) -> tuple[float, float]:
    """Return log-likelihood and root mean square error of one Gaussian, with mean and variance (n, 1)."""
    mean, std, target = data.scale * y.mean, data.scale * np.sqrt(y.var + noise), data.scale * data.test_targets.numpy()[:, None]
    return -float(np.mean(log_score(target, mean, std))), float(np.sqrt(np.mean(np.square(mean - target))))


def select_dropout(data: Split, dropouts: Sequence[float], seed: int) -> tuple[nn.Sequential, float]:
    """Select dropout, decay and noise by the last fifth of the training data; train on all, and return network and noise."""
    n, scores = int(0.8 * len(data.y)), []
    part = Split(data.X[:n], data.y[:n], data.X[n:], data.y[n:], data.scale)
    for dropout, decay in product(dropouts, DECAYS):
        out = draw_passes(train_dropout(part, dropout, decay, seed), part.test_inputs)
        scores += [(mixture_score(out, noise, part)[0], noise, dropout, decay) for noise in np.geomspace(0.02, 2.0, 30)]
    _, noise, dropout, decay = max(scores)
    return train_dropout(data, dropout, decay, seed).eval(), float(noise)


def compare_split(name: str, seed: int, rounds: int) -> dict[str, tuple[float, float, float]]:
    """Return log-likelihood, root mean square error and time of each method on one split."""
    data = split_data(name, seed)
    X = pesn.Gaussian(data.test_inputs.numpy())
    through = partial(propagate_gaussian, covariance="diagonal")  # exact for one hidden layer of a certain input
    bayes, var, noise = train_variational(data, seed)
    chain = as_layers(bayes, X.dim, var)
    plain, plain_noise = select_dropout(data, (0.0,), seed)
    masked, masked_noise = select_dropout(data, DROPOUTS, seed)

    def draw_weights() -> torch.Tensor:
        rows = np.tile(X.mean, (PASSES, 1))
        return torch.from_numpy(forward(chain, rows, np.random.default_rng(seed)).reshape(PASSES, -1))

    calls: list[Call] = [
        lambda: through(bayes, X, weight_var=var)[-1],
        draw_weights,
        lambda: through(masked, X, dropout=True)[-1],
        partial(draw_passes, masked, data.test_inputs),
        lambda: through(plain, X)[-1],
    ]
    times = time_in_turns(dict(zip(METHODS, calls, strict=True)), rounds)
    found = {}
    for method, call, one in zip(METHODS, calls, (noise, noise, masked_noise, masked_noise, plain_noise), strict=True):
        y = call()
        score = gaussian_score(y, one, data) if isinstance(y, pesn.Gaussian) else mixture_score(y, one, data)
        found[method] = (*score, ratio(times, method, METHODS[0]).median)
    return found


def compare_regression(splits: int = 6, rounds: int = 3, first: int = REPORTED_SPLIT) -> list[str]:
    """Compare Bayesian networks and dropout on held-out tenths of two data sets."""
    rows = []
    for name in REGRESSION:
        found = [compare_split(name, seed, rounds) for seed in range(first, first + splits)]
        for method in METHODS:
            values = np.array([one[method] for one in found])
            away = values[:, 0] - [one[METHODS[0]][0] for one in found]
            cells = [f"{a.mean():.3f} ± {a.std(ddof=1) / np.sqrt(splits):.3f}" for a in (values[:, 0], away, values[:, 1])]
            rows.append([name, method, *cells, f"{np.median(values[:, 2]):.2g}"])
    head = ["", "", "test log-likelihood", "its difference from the first", "RMSE", "time of prediction"]
    text = (
        f"One hidden layer of {WIDTH} ReLU units; {splits} random splits with a tenth for testing, mean ± standard error. Time "
        "relative to the first row."
    )
    return [text, "", table(head, rows)]


# ---------------------------------------------------------------- command


class Part(NamedTuple):
    """Function that measures and returns lines, its arguments with --quick, the page for its table and the block in it."""

    measure: Callable[..., list[str]]
    quick: tuple[int, ...]
    page: str
    block: str


PARTS = {
    "tolerance": Part(tolerance, (8, 2), "networks.md", "tolerance"),
    "saturation": Part(saturation, (12,), "networks.md", "saturation"),
    "wide": Part(wide, (2, 2**11, 20), "networks.md", "wide"),
    "estimators": Part(estimators, (2, 2**13, 3), "how-to/sklearn.md", "estimators"),
}
WEIGHTS_PARTS = {
    "closure": Part(compare_closure, (40_000, 3), "how-to/uncertain-weights.md", "weights-closure"),
    "regression": Part(compare_regression, (2, 1, 0), "how-to/uncertain-weights.md", "weights-regression"),
}


def main(arguments: Sequence[str], name: str = "networks", parts: Mapping[str, Part] = PARTS) -> None:
    """Print the selected tables, and write them into the pages on demand."""
    logging.getLogger("pesn.networks").setLevel(logging.ERROR)  # of closures that are off on purpose
    parser = make_parser(name, __doc__)
    parser.add_argument("--quick", action="store_true", help="fewer networks, samples, splits and rounds")
    parser.add_argument("--write", action="store_true", help="write the tables into the documentation")
    options = parse_parts(parser, arguments, parts)
    for part in (parts[chosen] for chosen in options.parts):
        text = "\n".join(part.measure(*(part.quick if options.quick else ())))
        print(f"{text}\n", flush=True)
        if options.write:
            write_block(ROOT / "docs" / part.page, part.block, text)


weights = partial(main, name="weights", parts=WEIGHTS_PARTS)
