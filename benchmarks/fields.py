"""Fields by local reservoirs beside ORC's, networks that see the whole field, and simpler methods, on the same rows.

    python benchmarks/fields.py [--seeds 3] [--origins 8] [--fields NAME …] [--sides NAME …]

- Kuramoto-Sivashinsky with 64 points on a circle of 22 and Lorenz-96 with 40 columns: 4,000 rows to learn from, forecasts from
  origins in the 4,000 after them, each from 200 rows. Other data and other weights for each seed.
- valid: steps until the root mean square over columns of error ÷ deviation exceeds 0.4, in Lyapunov times; mean ± deviation over
  seeds.
- pesn: one reservoir shared by all patches and one readout. ORC: as many patches with as much overlap and as many units each, all
  else as its own defaults are, which were chosen for such systems; its quadratic readout beside it. One reservoir, pesn's and
  ReservoirPy's: as many units in all, with pesn's leak rate, radius and bias. Without units: linear and quadratic autoregressions
  of what a patch sees (NVAR). A Gaussian process: of a patch or of the whole field, from 3,900 rows, predicting differences.
- All settings but ORC's were chosen on other data: pesn's local ones by hand, the others' from the small grids here.
- inside 95 %: of pesn's own intervals, by ``Forecaster`` with a quarter of the units, not calibrated, 10 and 40 steps ahead.
"""

from __future__ import annotations

from timing import machine  # isort: skip  (before NumPy: one thread)

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

import pesn
from pages import table
from pesn._support.types import Array
from pesn.systems.chaotic import kuramoto_sivashinsky, lorenz96

TRAINING, CONTEXT, WASHOUT, OTHER = 4000, 200, 100, 1000  # rows; the seed of data that settings are chosen on
Forecasts = Callable[[list[Array], int], list[Array]]
Fitted = Callable[["Field", Array, int], Forecasts]


class Field(NamedTuple):
    """Data by a seed, the largest Lyapunov exponent times the step of a row, patches, units of each, and steps ahead."""

    rows: Callable[[int], Array]
    exponent: float
    patches: pesn.Patches
    n_units: int
    horizon: int
    options: dict[str, Any]

    def all_units(self, y: Array) -> int:
        """Of all patches."""
        return self.n_units * self.patches.count(y.shape[1])


FIELDS = {
    "Kuramoto-Sivashinsky, 64": Field(
        lambda seed: kuramoto_sivashinsky(steps=2 * TRAINING, n=64, length=22.0, dt=0.25, rng=seed).states,
        0.048 * 0.25, pesn.Patches(8, 8), 400, 900,
        {"input_scaling": 0.4, "bias_scaling": 1.6, "leak_rate": 1.0, "spectral_radius": 0.4, "density": 0.05,
         "ridge": (1.0, 1e-9)},
    ),
    "Lorenz-96, 40": Field(
        lambda seed: lorenz96(steps=2 * TRAINING, n=40, dt=0.05, rng=seed).states,
        1.69 * 0.05, pesn.Patches(2, 4), 100, 200,
        {"input_scaling": 0.4, "bias_scaling": 1.0, "leak_rate": 0.8, "spectral_radius": 0.6, "ridge": 1e-7,
         "features": pesn.Features(products=1)},
    ),
}  # fmt: skip


def pesn_forecasts(field: Field, y: Array, seed: int) -> Forecasts:
    """Free runs of a local network."""
    return _free_runs(field.n_units, y, seed, local=field.patches, **field.options)


def one_reservoir(input_scaling: float) -> Fitted:
    """Of as many units in all, which see the whole field."""

    def fitted(field: Field, y: Array, seed: int) -> Forecasts:
        units = field.all_units(y)
        return _free_runs(units, y, seed, **(field.options | {"input_scaling": input_scaling, "density": 10.0 / units}))

    return fitted


def autoregression(products: int, lags: int, ridge: float) -> Fitted:
    """Local, without units: linear, or with products of the newest row."""

    def fitted(field: Field, y: Array, seed: int) -> Forecasts:
        features = pesn.Features(lags=lags, products=products, states=False)
        return _free_runs(1, y, seed, local=field.patches, features=features, ridge=ridge)

    return fitted


def _free_runs(n_units: int, y: Array, seed: int, **options: Any) -> Forecasts:
    esn = pesn.EchoStateNetwork(n_units, washout=WASHOUT, random_state=seed, **options).fit(y[:-1], y[1:])

    def ahead(contexts: list[Array], horizon: int) -> list[Array]:
        return [np.asarray(esn.generate(horizon, state=_after(esn, context))) for context in contexts]

    return ahead


def gaussian_process(size: int, overlap: int, length: float, noise: float, rows: int = 3900) -> Fitted:
    """The mean of one, which learns the next difference of ``size`` columns from those and ``overlap`` on each side (0: all)."""

    def fitted(field: Field, y: Array, seed: int) -> Forecasts:
        d = y.shape[1]
        own = np.arange(d).reshape(-1, size or d)
        sees = (own[:, :1] + np.arange(-overlap, (size or d) + overlap)) % d
        row, patch = np.divmod(np.random.default_rng(seed).permutation((len(y) - 1) * len(own))[:rows], len(own))
        X, change = y[row[:, None], sees[patch]], np.diff(y, axis=0)[row[:, None], own[patch]]

        def kernel(Z: Array) -> Array:
            return np.asarray(np.exp(-0.5 * cdist(Z, X, "sqeuclidean") / (length**2 * sees.shape[1])))

        weights = cho_solve(cho_factor(kernel(X) + noise * np.eye(len(X)), lower=True), change)

        def ahead(contexts: list[Array], horizon: int) -> list[Array]:
            now, found = np.array([context[-1] for context in contexts]), []
            for _ in range(horizon):
                step = kernel(now[:, sees].reshape(-1, sees.shape[1])) @ weights
                now = np.clip(now + step.reshape(now.shape), -1e3, 1e3)
                found.append(now)
            return list(np.stack(found, axis=1))

        return ahead

    return fitted


def _after(esn: Any, context: Array) -> Any:
    return esn.predict(context, return_state=True)[1]


def orc_forecasts(quadratic: bool) -> Fitted:
    """ORC's parallel reservoirs."""

    def fitted(field: Field, y: Array, seed: int) -> Forecasts:
        jax = import_module("jax")
        jax.config.update("jax_enable_x64", True)
        orc = import_module("orc.forecaster")
        network = orc.ESNForecaster(
            y.shape[1], field.n_units, seed=seed, chunks=y.shape[1] // field.patches.size, locality=field.patches.overlap,
            quadratic=quadratic,
        )  # fmt: skip
        network, _ = orc.train_ESNForecaster(network, jax.numpy.asarray(y), spinup=WASHOUT)

        def ahead(contexts: list[Array], horizon: int) -> list[Array]:
            return [np.asarray(network.forecast_from_IC(horizon, jax.numpy.asarray(context))) for context in contexts]

        return ahead

    return fitted


def reservoirpy_forecasts(input_scaling: float, ridge: float) -> Fitted:
    """One reservoir of as many units in all. Without a bias, its default, it gets nowhere: units are odd, the fields are not."""

    def fitted(field: Field, y: Array, seed: int) -> Forecasts:
        nodes, uniform = import_module("reservoirpy.nodes"), import_module("reservoirpy.mat_gen").uniform
        units, wide = field.all_units(y), field.options["bias_scaling"]
        reservoir = nodes.Reservoir(
            units, lr=field.options["leak_rate"], sr=field.options["spectral_radius"], input_scaling=input_scaling,
            bias=uniform(low=-wide, high=wide), rc_connectivity=10.0 / units, seed=seed,
        )  # fmt: skip
        network = reservoir >> nodes.Ridge(ridge=ridge)
        network.fit(y[:-1], y[1:], warmup=WASHOUT)

        def ahead(contexts: list[Array], horizon: int) -> list[Array]:
            return [np.array(list(_free(network, context, horizon))) for context in contexts]

        return ahead

    return fitted


def _free(network: Any, context: Array, horizon: int) -> Iterator[Array]:
    network.reset()
    row = network.run(context)[-1]
    for _ in range(horizon):
        yield row
        row = np.clip(network(row), -1e3, 1e3)


def valid_time(field: Field, y: Array, ahead: Forecasts, origins: int, first: int = TRAINING) -> float:
    """Mean over the origins."""
    places = np.linspace(first + CONTEXT, len(y) - field.horizon, origins).astype(int)
    std, times = y[:first].std(axis=0), []
    for place, found in zip(places, ahead([y[k - CONTEXT : k] for k in places], field.horizon), strict=True):
        with np.errstate(all="ignore"):
            error = np.sqrt(np.mean(np.square((found - y[place : place + field.horizon]) / std), axis=1))
        wrong = np.flatnonzero(~(error <= 0.4))
        times.append((wrong[0] if len(wrong) else field.horizon) * field.exponent)
    return float(np.mean(times))


def scaled(y: Array) -> Array:
    """In units of one deviation for all columns."""
    return np.asarray((y - y[:TRAINING].mean()) / y[:TRAINING].std())


def best(side: str, make: Callable[..., Fitted], grid: Iterable[tuple[Any, ...]], field: Field) -> Fitted:
    """Of a small grid, on data of its own."""
    y, settings = scaled(field.rows(OTHER)), list(grid)
    scores = [valid_time(field, y, make(*one)(field, y[:TRAINING], 0), 3) for one in settings]
    print(f"   {side}: {settings[int(np.argmax(scores))]}", flush=True)
    return make(*settings[int(np.argmax(scores))])


def processes(field: Field) -> list[tuple[Any, ...]]:
    """Of the whole field, and of patches."""
    return [
        (*seen, length, noise)
        for seen in ((0, 0), (field.patches.size, field.patches.overlap))
        for length, noise in product((2.0, 4.0), (1e-10, 1e-8))
    ]


SIDES: dict[str, Callable[[Field], Fitted]] = {
    "pesn, local": lambda field: pesn_forecasts,
    "ORC": lambda field: orc_forecasts(quadratic=False),
    "ORC, quadratic": lambda field: orc_forecasts(quadratic=True),
    "pesn, one reservoir": lambda field: best("one reservoir", one_reservoir, [(0.2,), (0.4,)], field),
    "ReservoirPy": lambda field: best("ReservoirPy", reservoirpy_forecasts, product((0.2, 0.5), (1e-8, 1e-6)), field),
    "local and linear, no units": lambda field: best(
        "linear", autoregression, product((0,), (0, 1, 3), (1e-8, 1e-6, 1e-4)), field
    ),
    "local NVAR, no units": lambda field: best("NVAR", autoregression, product((1,), (0, 1), (1e-8, 1e-6, 1e-4)), field),
    "Gaussian process": lambda field: best("Gaussian process", gaussian_process, processes(field), field),
}


def inside(field: Field, y: Array, seed: int) -> tuple[float, float, float]:
    """The share of rows inside pesn's 95 % intervals 10 and 40 steps ahead, and CPU seconds of fit and backtest."""
    before = time.process_time()
    esn = pesn.ProbabilisticESN(
        max(field.n_units // 4, 1), local=field.patches, washout=WASHOUT, random_state=seed, covariance="low-rank", rank=20,
        process_noise=0.0, **field.options,
    )  # fmt: skip
    forecaster = pesn.Forecaster(esn, target="level", calibrate=False).fit(y[:TRAINING])
    found = forecaster.backtest(y[TRAINING:], horizon=40, origins=10)
    within = np.abs(found.errors) <= 1.96 * found.std
    return float(within[:, 9].mean()), float(within[:, 39].mean()), time.process_time() - before


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--origins", type=int, default=8)
    options.add_argument("--fields", nargs="*", default=list(FIELDS))
    options.add_argument("--sides", nargs="*", default=list(SIDES))
    options.add_argument("--without-intervals", action="store_true")
    given = options.parse_args()
    print(machine())
    rows = []
    for name in given.fields:
        field = FIELDS[name]
        sides = {side: SIDES[side](field) for side in given.sides}
        times: dict[str, list[float]] = {side: [] for side in sides}
        spent = dict.fromkeys(sides, 0.0)
        for seed in range(given.seeds):
            y = scaled(field.rows(seed))
            for side, fitted in sides.items():
                before = time.process_time()
                times[side].append(valid_time(field, y, fitted(field, y[:TRAINING], seed), given.origins))
                spent[side] += (time.process_time() - before) / given.seeds
                print(f"   {name}, seed {seed}: {side} {times[side][-1]:.2f}", flush=True)
        within = "" if given.without_intervals else "{:.1%} {:.1%} ({:.0f} s)".format(*inside(field, scaled(field.rows(0)), 0))
        for side, found in times.items():
            own = within if side == "pesn, local" else ""
            rows.append([name, side, f"{np.mean(found):.2f} ± {np.std(found):.2f}", f"{spent[side]:.0f}", own])
    print(table(["field", "network", "valid (Lyapunov times)", "CPU (s) a seed", "inside 95 % at 10, 40"], rows))


if __name__ == "__main__":
    main()
