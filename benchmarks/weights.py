"""Networks with uncertain weights and dropout: the closed form against samples, and regression on held-out data.

closure     error of the Gaussian closure against samples, and its time against 2,048 passes
regression  deterministic variational inference and Monte Carlo dropout on two data sets: test log-likelihood and RMSE

--write puts the tables into docs/how-to/uncertain-weights.md.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn import datasets
from torch import nn

import pesn
from harness import ROOT, Call, make_parser, parse_parts, ratio, table, time_in_turns, write_block
from pesn.adapters.torch import as_layers
from pesn.metrics import log_score
from pesn.networks import Dropout, propagate_gaussian
from pesn.networks.layers import fold_dropout, forward

Array = np.ndarray[Any, np.dtype[np.float64]]
CLOSURE_PASSES = 2048
torch.set_num_threads(1)  # waiting threads slow down other work more than they help

# ---------------------------------------------------------------- the closed form against samples

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


def compare_closure(samples: int = 400_000, rounds: int = 9) -> str:
    """Compare the Gaussian closure of uncertain weights and dropout with samples that draw all of them anew."""
    head = ["", "std", "mean", f"time of {CLOSURE_PASSES:,} passes ÷ closure", "std of propagate", "its estimate"]
    return (
        f"`propagate_gaussian` of networks with uncertain weights against {samples:,} samples, each with its own weights, "
        "masks and input: the largest error of an output's standard deviation, and of its mean in standard deviations. Beside it "
        "`pesn.propagate`, which draws them at points.\n\n"
        f"{table(head, [measure_closure(name, samples, rounds) for name in RANDOM_NETWORKS])}"
    )


# ---------------------------------------------------------------- regression

REGRESSION: dict[str, Callable[[], tuple[Array, Array]]] = {
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True, scaled=False),
    "Friedman": lambda: datasets.make_friedman1(400, 10, noise=1.0, random_state=0),
}
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
    X, y = REGRESSION[name]()
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


def compare_regression(splits: int = 6, rounds: int = 3) -> str:
    """Compare Bayesian networks and dropout on held-out tenths of two data sets."""
    rows = []
    for name in REGRESSION:
        found = [compare_split(name, seed, rounds) for seed in range(splits)]
        for method in METHODS:
            values = np.array([one[method] for one in found])
            away = values[:, 0] - [one[METHODS[0]][0] for one in found]
            cells = [f"{a.mean():.3f} ± {a.std(ddof=1) / np.sqrt(splits):.3f}" for a in (values[:, 0], away, values[:, 1])]
            rows.append([name, method, *cells, f"{np.median(values[:, 2]):.2g}"])
    head = ["", "", "test log-likelihood", "its difference from the first", "RMSE", "time of prediction"]
    return (
        f"One hidden layer of {WIDTH} ReLU units; {splits} random splits with a tenth for testing, mean ± standard error. Time "
        f"relative to the first row.\n\n{table(head, rows)}"
    )


def main(arguments: Sequence[str]) -> None:
    """Print the selected tables, and write them into the page on demand."""
    parser = make_parser("weights", __doc__)
    parser.add_argument("--quick", action="store_true", help="fewer samples and splits")
    parser.add_argument("--write", action="store_true", help="write the tables into the documentation")
    quick = "--quick" in arguments
    parts: dict[str, Callable[[], str]] = {
        "closure": (lambda: compare_closure(40_000, 3)) if quick else compare_closure,
        "regression": (lambda: compare_regression(2, 1)) if quick else compare_regression,
    }
    options = parse_parts(parser, arguments, parts)
    for name in options.parts:
        text = parts[name]()
        print(f"{text}\n", flush=True)
        if options.write:
            write_block(ROOT / "docs" / "how-to" / "uncertain-weights.md", f"weights-{name}", text)
