"""Compare the results of two versions of pesn: moments, networks, reservoirs, forecasts, roll-outs, series and the command line.

    PYTHONPATH=OLD/src python scripts/compare_results.py --write FOLDER
    python scripts/compare_results.py --against FOLDER [--quick] [CASE …]

The first call writes the results of every case to ``FOLDER/CASE.npz``. The second computes them again and prints the largest
difference of each case, relative to the scale of each array. The exit code is 1 if one exceeds ``--tol``. ``--quick`` leaves out
the cases in ``SLOW``. Only public names are used, so that the script runs with both versions.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from typer.testing import CliRunner

import pesn
from pesn import cli
from pesn.systems import cart_pole, chaotic, get
from pesn.systems.digits import spoken_digits

TABLES = Path(__file__).parents[1] / "tests" / "data" / "tables"
SLOW = {"forecaster_automatic", "series_system", "reproduce", "systems", "diagnostics"}
ACTIVATIONS = ("tanh", "sigmoid", "relu", "gelu", "silu", "softplus", "erf", "elu", "leaky_relu", "hard_tanh", "identity")

Results = dict[str, npt.NDArray[np.generic]]
propagate: Callable[..., Any] = pesn.propagate  # of arrays and tensors alike


def propagate_gaussian(network: Any, x: pesn.Gaussian, covariance: Any) -> pesn.Gaussian:
    """Propagate by the Gaussian closure, in this version or one before it."""
    if hasattr(pesn, "networks") and hasattr(pesn.networks, "propagate_gaussian"):
        return pesn.networks.propagate_gaussian(network, x, covariance=covariance)[-1]
    return propagate(network, x, closure="gaussian", covariance=covariance)


CASES: dict[str, Callable[[], Results]] = {}


def add_case(function: Callable[[], Results]) -> Callable[[], Results]:
    """Register a case by the name of its function."""
    CASES[function.__name__] = function
    return function


def collect(**values: object) -> Results:
    """Return the values as arrays, by name."""
    return {name: np.asarray(value) for name, value in values.items()}


@add_case
def moments() -> Results:
    """Compute moments and gains of all activations by all methods."""
    mean, var = np.linspace(-6, 6, 13)[:, None], np.array([0.0, 1e-300, 1e-8, 0.01, 0.5, 4.0, 900.0])
    results: Results = {}
    for name in ACTIVATIONS:
        for method in ("surface", "exact"):
            results |= collect(**{f"{name}_{method}": pesn.moments(name, mean, var, method=method)[:2]})
        results |= collect(
            **{f"{name}_gain": pesn.gain(name, mean, var), f"{name}_order4": pesn.moments(name, mean, var, order=4)}
        )
    results |= collect(
        mixture=pesn.moments("tanh", mean, var, method="mixture")[:2],
        analytic=pesn.moments("tanh", mean, var, method="analytic")[:2],
    )
    mesh = pesn.choose_mesh("tanh", 1e-3, (-2, 2), (0.0, 1.0))
    results |= collect(
        spline=pesn.moments("tanh", mean / 3, var[:5], method="spline", mesh=mesh)[:2], mesh=(mesh.a, mesh.b, mesh.n_points)
    )
    return results | collect(bound=pesn.error_bound("tanh", 0.3, 0.5, mesh))


def make_network(seed: int, activation: str, sizes: tuple[int, ...] = (3, 20, 20, 2)) -> list[pesn.Dense]:
    """Return layers with random weights."""
    rng = np.random.default_rng(seed)
    return [
        pesn.Dense(
            rng.normal(size=(n, m)) / np.sqrt(m), 0.1 * rng.normal(size=n), activation if k < len(sizes) - 2 else "identity"
        )
        for k, (m, n) in enumerate(itertools.pairwise(sizes))
    ]


@add_case
def networks() -> Results:
    """Propagate Gaussians through networks of layers by all closures."""
    results: Results = {}
    x = pesn.Gaussian([0.3, -0.5, 1.0], cov=[[0.3, 0.1, 0.0], [0.1, 0.2, 0.05], [0.0, 0.05, 0.4]])
    for activation in ("tanh", "relu", "gelu"):
        net = make_network(1, activation)
        for closure in ("auto", "gaussian", "sobol", *(["third-order"] if activation == "tanh" else [])):
            y = propagate(net, x, closure=closure)
            results |= collect(**{f"{activation}_{closure}_mean": y.mean, f"{activation}_{closure}_cov": y.cov})
        for form in ("diagonal", "low-rank"):
            y = propagate_gaussian(net, x, form)
            results |= collect(**{f"{activation}_{form}_mean": y.mean, f"{activation}_{form}_var": y.var})
    batch = pesn.Gaussian(np.linspace(-1, 1, 12).reshape(4, 3), var=np.full((4, 3), 0.2))
    y = propagate(make_network(2, "tanh"), batch)
    return results | collect(batch_mean=y.mean, batch_var=y.var)


@add_case
def network_adapters() -> Results:
    """Propagate Gaussians through networks of scikit-learn and torch."""
    from sklearn.neural_network import MLPRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlp = MLPRegressor(hidden_layer_sizes=(16, 16), activation="tanh", max_iter=50, random_state=0).fit(X, np.sin(X).sum(1))
    x = pesn.Gaussian([0.1, 0.2, 0.3], var=[0.1, 0.2, 0.3])
    y = propagate(mlp, x)
    results = collect(mlp_mean=y.mean, mlp_var=y.var)
    if find_spec("torch"):
        import torch

        from pesn.adapters.torch import TensorGaussian, rollout

        class Residual(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.second, self.last = torch.nn.Linear(3, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                h = torch.tanh(self.first(x))
                return self.last(h + torch.tanh(self.second(h)))

        torch.manual_seed(0)
        nets = {
            "chain": torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)),
            "residual": Residual(),
            "norm": torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 2)),
        }
        for name, net in nets.items():
            for closure in ("auto", *(["gaussian"] if name != "norm" else [])):
                y = propagate(net.double().eval(), x, closure=closure)
                results |= collect(**{f"{name}_{closure}_mean": y.mean, f"{name}_{closure}_var": y.var})
        mean, var = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]))
        z = propagate(nets["chain"], TensorGaussian(mean, var=var), closure="gaussian")
        (z.mean.sum() + z.var.sum()).backward()
        results |= collect(tensor_mean=z.mean.detach(), tensor_var=z.var.detach(), by_mean=mean.grad, by_var=var.grad)
        model, runs = fit_cart_pole()
        controls = torch.linspace(-1, 1, 10, dtype=torch.float64)[:, None].requires_grad_()
        mean, cov = rollout(model, controls, model.start(runs.states[:1]))
        torch.autograd.backward(mean.sum() + cov.sum())
        results |= collect(rollout_mean=mean.detach(), rollout_cov=cov.detach(), by_controls=controls.grad)
    return results


def make_series(n: int = 700) -> npt.NDArray[np.float64]:
    """Return a smooth series (n, 1)."""
    t = np.arange(n)
    return np.asarray((np.sin(0.2 * t) * np.cos(0.031 * t))[:, None])


@add_case
def reservoirs() -> Results:
    """Fit, predict, learn online and generate with echo state networks in all forms."""
    y = make_series()
    results: Results = {}
    networks = {
        "plain": pesn.EchoStateNetwork(50, random_state=0),
        "auto_ridge": pesn.EchoStateNetwork(50, ridge="auto", washout="auto", random_state=0),
        "feedback": pesn.EchoStateNetwork(50, feedback_scaling=0.3, random_state=0),
        "layers": pesn.EchoStateNetwork(40, layers=2, random_state=0),
        "features": pesn.EchoStateNetwork(50, features=pesn.Features(lags=2, products=1), random_state=0),
        "ring": pesn.EchoStateNetwork(50, topology="ring", random_state=0),
    }
    for name, esn in networks.items():
        esn.fit(y[:400], y[1:401])
        results |= collect(**{f"{name}_predict": esn.predict(y[400:500]), f"{name}_states": esn.transform(y[400:450])})
        esn.partial_fit(y[400:450], y[401:451])
        results |= collect(**{f"{name}_online": esn.predict(y[450:500])})
    x = pesn.Gaussian(y[400:440], var=np.full((40, 1), 0.01))
    for form in ("diagonal", "full", "low-rank", "ensemble"):
        gaussian = pesn.ProbabilisticESN(50, covariance=form, random_state=0).fit(y[:400], y[1:401])
        mean, std = gaussian.predict(x, return_std=True)
        results |= collect(**{f"{form}_mean": mean, f"{form}_std": std})
    return results


@add_case
def classifier() -> Results:
    """Classify spoken digits, certain and uncertain."""
    train, test = spoken_digits(80, rng=0).split(0.7)
    model = pesn.ReservoirClassifier(50, random_state=0).fit(train.sequences, train.y)
    return collect(probabilities=model.predict_proba(test.sequences[:8]), labels=model.predict(test.sequences).astype(str))


def make_lorenz(steps: int = 900) -> npt.NDArray[np.float64]:
    """Return states (steps, 3) of the Lorenz system."""
    return np.asarray(chaotic.lorenz(runs=1, steps=steps, rng=0).states)


def describe_forecast(name: str, forecast: pesn.Forecast) -> Results:
    """Return the numbers of a forecast."""
    lower, upper = forecast.interval(0.9)
    parts = {"mean": forecast.mean, "std": forecast.std, "lower": lower, "upper": upper, "cov": forecast.cov}
    parts |= {"sample": forecast.sample(5, rng=0), "quantile": forecast.quantile(0.3)}
    return collect(**{f"{name}_{key}": value for key, value in parts.items()})


@add_case
def forecaster() -> Results:
    """Forecast the Lorenz system with a given network in all forms of covariance; update, save and load."""
    y = make_lorenz()
    results: Results = {}
    for form in ("full", "diagonal", "low-rank", "ensemble"):
        esn = pesn.ProbabilisticESN(40, covariance=form, random_state=0)
        model = pesn.Forecaster(esn).fit(y[:600])
        results |= describe_forecast(form, model.forecast(12, y[650:660]))
        results |= describe_forecast(f"{form}_short", model.forecast(6, y[650:651]))
    model = pesn.Forecaster(pesn.ProbabilisticESN(40, random_state=0, washout="auto", ridge="auto")).fit(y[:600])
    results |= describe_forecast("own", model.forecast(10)) | describe_forecast(
        "gaps", model.forecast(5, np.where(np.arange(30)[:, None] % 7 == 3, np.nan, y[600:630]))
    )
    results |= collect(calibration=model.calibration_, score=model.score(y[600:900]), noise=model.measurement_std_)
    results |= collect(backtest=model.backtest(y[600:], horizon=5, origins=4).to_frame().select_dtypes("number").to_numpy())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pesn"
        model.save(path)
        again = pesn.load(path)
        assert isinstance(again, pesn.Forecaster)
        results |= describe_forecast("loaded", again.forecast(10))
    model.update(y[600:650])
    return results | describe_forecast("updated", model.forecast(10))


def fit_cart_pole() -> tuple[pesn.Forecaster, pesn.systems.Trajectories]:
    """Return a model of a cart pole with kinematics, and its training runs."""
    runs = cart_pole.simulate(runs=3, steps=300, rng=0)
    half = runs.dt / 2
    positions = [[1, 0, half, 0], [0, 1, 0, half]], half * np.eye(2), [0, 0]
    esn = pesn.ProbabilisticESN(40, washout="auto", random_state=0)
    return pesn.Forecaster(esn, learn=[2, 3], kinematics=positions).fit(runs.states, runs.inputs, lengths=runs.lengths), runs


@add_case
def rollouts() -> Results:
    """Roll out, step and linearize a model of a cart pole."""
    model, runs = fit_cart_pole()
    start = model.start((runs.states[:10], runs.inputs[:9]))
    plans = np.random.default_rng(0).normal(size=(6, 12, 1))
    results = describe_forecast("forecast", model.forecast(8, (runs.states[:3], runs.inputs[:2]), X=np.ones((8, 1))))
    for form in ("none", "diagonal", "low-rank", "full"):
        rolled = model.rollout(plans, start, covariance=form)
        results |= collect(**{f"{form}_mean": rolled.mean})
        if form != "none":
            results |= collect(
                **{f"{form}_var": rolled.var, f"{form}_cost": rolled.expected_cost({"y0": 1.0}, {"y0": 0.2}, R=0.1)}
            )
    results |= collect(step=model.step(runs.states[:20], runs.inputs[:20]))
    linear = model.linearize(runs.states[:5], runs.inputs[:5])
    return results | {f"linear_{k}": np.asarray(part) for k, part in enumerate(linear)}


@add_case
def forecaster_automatic() -> Results:
    """Forecast with the automatic design: clean and noisy Lorenz, a field, few samples, angles."""
    y = make_lorenz()
    noisy = y + np.random.default_rng(0).normal(size=y.shape)
    field = np.asarray(chaotic.lorenz96(runs=1, steps=500, rng=0).states)
    results: Results = {}
    for name, rows in {"clean": y, "noisy": noisy[:500], "field": field, "few": y[:80]}.items():
        model = pesn.Forecaster().fit(rows)
        results |= describe_forecast(name, model.forecast(15)) | collect(**{f"{name}_design": str(model.design_)})
    return results


@add_case
def series() -> Results:
    """Forecast tables with dates, several columns, and a panel."""
    results: Results = {}
    for name in ("airline", "ds_y", "years", "bike_sharing", "year_quarter", "newest_first"):
        model = pesn.SeriesForecaster().fit(pd.read_csv(TABLES / f"{name}.csv"))
        forecast = model.forecast(8)
        frame = forecast.to_frame()
        results |= collect(
            **{
                f"{name}_frame": frame.select_dtypes("number").to_numpy(),
                f"{name}_columns": [str(c) for c in frame.columns],
                f"{name}_index": [str(i) for i in frame.index],
            }
        )
        results |= collect(**{f"{name}_quantile": np.asarray(forecast.quantile(0.2)), f"{name}_summary": str(model.summary())})
    model = pesn.SeriesForecaster(id_col="symbol", time_col="date", target_col="price").fit(pd.read_csv(TABLES / "stocks.csv"))
    frame = model.forecast(5)
    frame = frame if isinstance(frame, pd.DataFrame) else frame.to_frame()
    return results | collect(panel=frame.select_dtypes("number").to_numpy(), panel_columns=[str(c) for c in frame.columns])


@add_case
def series_system() -> Results:
    """Forecast a table of a chaotic system, which series learns as one system, and a noisy nonlinear map."""
    y = make_lorenz(500)
    model = pesn.SeriesForecaster().fit(pd.DataFrame(y, columns=list("xyz")))
    results = collect(system=model.forecast(10).to_frame().select_dtypes("number").to_numpy())
    x = np.sin(np.arange(400) ** 1.1 / 5) + 0.1 * np.random.default_rng(1).normal(size=400)
    model = pesn.SeriesForecaster().fit(pd.DataFrame({"x": x}))
    results |= collect(single=model.forecast(10).to_frame().select_dtypes("number").to_numpy())
    backtest = model.backtest()
    return results | collect(backtest=backtest.to_frame().select_dtypes("number").to_numpy())


def read_results(folder: Path) -> Results:
    """Return the numbers of all CSV and JSON files below a folder, by path."""
    results: Results = {}
    for path in sorted(folder.rglob("*.csv")):
        frame = pd.read_csv(path)
        name = str(path.relative_to(folder))
        results |= {
            f"{name}:{c}": frame[c].to_numpy(float) if frame[c].dtype.kind in "ifb" else frame[c].astype(str).to_numpy(str)
            for c in frame
        }
    return results


@add_case
def command_line() -> Results:
    """Run ``pesn forecast`` and ``pesn simulate``."""
    results: Results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("airline", "decimal_comma", "stocks"):
            out = Path(folder) / name
            options = ["--id", "symbol", "--jobs", "1"] if name == "stocks" else []
            done = CliRunner().invoke(cli.app, ["forecast", str(TABLES / f"{name}.csv"), "--out", str(out), *options])
            if done.exit_code:
                raise RuntimeError(done.output)
            results |= {f"{name}/{key}": value for key, value in read_results(out).items()}
        done = CliRunner().invoke(cli.app, ["simulate", "lorenz", "--steps", "50", "--out", str(Path(folder) / "lorenz.csv")])
        if done.exit_code:
            raise RuntimeError(done.output)
        return results | read_results(Path(folder))


@add_case
def systems() -> Results:
    """Simulate every system."""
    from pesn.systems import SYSTEMS

    results: Results = {}
    for name in SYSTEMS:
        try:
            runs = get(name)(runs=2, steps=60, rng=0)
        except TypeError:
            runs = get(name)(steps=60, rng=0)
        results |= collect(**{f"{name}_states": runs.states, f"{name}_inputs": runs.inputs, f"{name}_names": runs.names})
    digits = spoken_digits(20, rng=0)
    return results | collect(digits=np.concatenate(list(digits.sequences)))


@add_case
def diagnostics() -> Results:
    """Measure a reservoir and a closed loop."""
    y = make_series()
    esn = pesn.EchoStateNetwork(50, random_state=0).fit(y[:400], y[1:401])
    capacity = pesn.diagnostics.memory_capacity(esn, rng=0)
    return collect(total=capacity.total)


@add_case
def reproduce() -> Results:
    """Run ``pesn reproduce --quick``; takes minutes."""
    with tempfile.TemporaryDirectory() as folder:
        done = CliRunner().invoke(cli.app, ["reproduce", "--quick", "--out", folder, "--jobs", "2"])
        if done.exit_code:
            raise RuntimeError(done.output)
        return {
            name: values for name, values in read_results(Path(folder)).items() if "second" not in name and "time" not in name
        }


def difference(new: npt.NDArray[np.generic], old: npt.NDArray[np.generic]) -> float:
    """Return the largest difference of two arrays relative to the largest entry of the old; inf if they do not match."""
    if new.shape != old.shape or (new.dtype.kind in "US") != (old.dtype.kind in "US"):
        return np.inf
    if new.dtype.kind in "US":
        return 0.0 if (new == old).all() else np.inf
    a, b = new.astype(float), old.astype(float)
    if not (np.isfinite(a) == np.isfinite(b)).all():
        return np.inf
    usable = np.isfinite(b)
    scale = np.abs(b[usable]).max(initial=0.0)
    return float(np.abs(a[usable] - b[usable]).max(initial=0.0) / scale) if scale else float(np.abs(a[usable]).max(initial=0.0))


def main() -> int:
    """Write or compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=" ".join(CASES))
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    parser.add_argument("--against", type=Path, metavar="FOLDER")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tol", type=float, default=1e-9)
    chosen = parser.parse_args()
    if (chosen.write is None) == (chosen.against is None):
        parser.error("give either --write or --against")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore", UserWarning)
    failed = False
    for name in chosen.cases or [name for name in CASES if not (chosen.quick and name in SLOW)]:
        begin = time.process_time()
        try:
            results = CASES[name]()
        except Exception:
            traceback.print_exc()
            print(f"{name:22} failed", flush=True)
            failed = True
            continue
        seconds = time.process_time() - begin
        if chosen.write is not None:
            chosen.write.mkdir(parents=True, exist_ok=True)
            np.savez(chosen.write / f"{name}.npz", allow_pickle=False, **results)
            print(f"{name:22} {len(results):5} arrays  {seconds:6.1f} s", flush=True)
            continue
        with np.load(chosen.against / f"{name}.npz") as old:
            found = {key: difference(results[key], old[key]) if key in results else np.inf for key in old.files}
        worst = sorted(found, key=found.__getitem__, reverse=True)[:5]
        wrong = {key: f"{found[key]:.1e}" for key in worst if not found[key] <= chosen.tol}
        failed |= bool(wrong)
        print(
            f"{name:22} {max(found.values(), default=0.0):8.1e} {seconds:6.1f} s  {json.dumps(wrong) if wrong else 'equal'}",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
