"""The command ``pesn warmup``: compile all kernels in advance, by calls of everything that compiles."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from pesn.cli import terminal

# ---------------------------------------------------------------- calls
#
# Each is a small example of what users call. The names are those of ``benchmarks/run.py first-call``.


def _lorenz(rows: int) -> Any:
    from pesn.systems.chaotic import lorenz

    return lorenz(steps=rows, rng=0).states


def _make_chain(sizes: tuple[int, ...], activation: Any) -> Any:
    import numpy as np

    import pesn

    rng = np.random.default_rng(0)
    layers = [pesn.Dense(rng.normal(size=(m, n)) / n**0.5, np.zeros(m), activation) for n, m in itertools.pairwise(sizes[:-1])]
    return [*layers, pesn.Dense(rng.normal(size=sizes[:-3:-1]) / sizes[-2] ** 0.5, np.zeros(sizes[-1]))]


def _make_input(n: int) -> Any:
    import numpy as np

    import pesn

    return pesn.Gaussian(np.zeros(n), cov=0.25 * np.eye(n))


def run_propagate() -> None:
    """Propagate through one hidden layer."""
    import pesn

    pesn.propagate(_make_chain((10, 50, 2), "tanh"), _make_input(10))


def run_third_order() -> None:
    """Propagate through two hidden layers by the third-order closure."""
    import pesn

    pesn.propagate(_make_chain((10, 50, 30, 2), "tanh"), _make_input(10), closure="third-order")


def run_series() -> None:
    """Forecast a series."""
    import numpy as np

    import pesn

    noise = np.random.default_rng(0).normal(size=309)
    pesn.SeriesForecaster().fit(50.0 - 45.0 * np.cos(2.0 * np.pi * np.arange(309) / 11.0) + 10.0 * noise).forecast(11)


def run_automatic() -> None:
    """Fit and forecast with an automatic network."""
    import pesn

    y = _lorenz(1000)
    pesn.Forecaster().fit(y).forecast(20, y[-200:])


def run_given() -> None:
    """Fit and forecast with a given network."""
    import pesn

    y = _lorenz(1000)
    pesn.Forecaster(pesn.ProbabilisticESN(random_state=0)).fit(y).forecast(20, y[-200:])


def run_partial_fit() -> None:
    """Learn online."""
    import pesn

    y = _lorenz(500)
    pesn.ProbabilisticESN(random_state=0).partial_fit(y[:-1], y[1:])


def run_predict_std() -> None:
    """Predict from uncertain inputs."""
    import numpy as np

    import pesn

    y = _lorenz(500)
    esn = pesn.ProbabilisticESN(random_state=0).fit(y[:-1], y[1:])
    esn.predict(pesn.Gaussian(y[:100], var=np.full((100, 3), 0.01)), return_std=True)


def run_classification() -> None:
    """Classify uncertain sequences."""
    import numpy as np

    import pesn

    labels = np.arange(40) % 2
    X = np.random.default_rng(0).normal(size=(40, 30, 2)) + labels[:, None, None]
    pesn.ReservoirClassifier(random_state=0).fit(X, labels).predict_proba(pesn.Gaussian(X, var=np.full(X.shape, 0.04)))


def run_rollout() -> None:
    """Roll out sequences of controls."""
    import numpy as np

    import pesn

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
    import numpy as np

    import pesn
    from pesn.moments.covariance import covariance

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
    import numpy as np

    import pesn

    y = _lorenz(500)
    for covariance in ("diagonal", "full", "low-rank", "ensemble"):
        network = pesn.ProbabilisticESN(60, covariance=covariance, washout=50, random_state=0)
        pesn.Forecaster(network, calibrate=False).fit(y).update(y[:20]).forecast(10)
    controls = np.random.default_rng(0).normal(size=(500, 1))
    pesn.Forecaster(network.set_params(covariance="auto"), calibrate=False).fit(y, controls).rollout(np.zeros((3, 4, 1)))
    network = pesn.ProbabilisticESN(60, covariance="diagonal", random_state=0).fit(y[:-1], y[1:])
    network.predict(pesn.Gaussian(y[:50], var=np.full((50, 3), 0.01)), return_std=True)
    pesn.EchoStateNetwork(60, feedback="own", feedback_scaling=0.1, random_state=0).partial_fit(y[:-1], y[1:])


def _run_online() -> None:
    """Predict and learn row by row."""
    import pesn

    stepper = pesn.EchoStateNetwork(50, random_state=0).online(3, 3)
    for row, target in itertools.pairwise(_lorenz(100)):
        stepper.step(row, return_std=True)
        stepper.learn(target)


def _run_torch() -> None:
    """Propagate tensors, and roll out with gradients."""
    import numpy as np
    import torch

    import pesn
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
    for covariance in ("low-rank", "none"):
        planned = torch.zeros(3, 4, 1, dtype=torch.float64, requires_grad=True)
        torch.autograd.grad(rollout(forecaster, planned, covariance=covariance)[0].sum(), planned)


OTHERS: dict[str, Callable[[], None]] = {
    "activations and methods": _run_activations,
    "forms of covariance": _run_forms,
    "online learning": _run_online,
    **({"torch": _run_torch} if find_spec("torch") else {}),
}


# ---------------------------------------------------------------- command


def compile_call(name: str) -> tuple[list[str], list[str]]:
    """Make one call in this process.

    Parameters
    ----------
    name : str
        Key of ``ENTRY_POINTS`` or ``OTHERS``.

    Returns
    -------
    tuple of (list of str, list of str)
        Names of the kernels that are ready, and the folders of their compiled code.
    """
    ({**ENTRY_POINTS, **OTHERS})[name]()
    ready, folders = [], set()
    for kernel_name, kernel in iterate_kernels():
        if kernel.overloads:
            ready.append(kernel_name)
            if folder := kernel._cache.folder:  # noqa: SLF001
                folders.add(os.fspath(folder.parent))
    return ready, sorted(folders)


def _disable_notices() -> None:
    """Disable the notices of compilation in a process."""
    import logging

    logging.getLogger("pesn").setLevel(logging.ERROR)


def iterate_kernels() -> Iterator[tuple[str, Any]]:
    """Yield name and dispatcher of each imported kernel that is cached."""
    import sys

    from pesn._support.kernel_cache import KernelCache

    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] == "pesn":
            for name, value in list(vars(module).items()):
                if isinstance(getattr(value, "_cache", None), KernelCache) and value.py_func.__module__ == module_name:
                    yield f"{module_name}.{name}", value


def warmup(
    jobs: Annotated[int | None, typer.Option(help="Number of processes.", show_default="number of processors")] = None,
) -> None:
    """Compile everything that pesn compiles at first calls, in parallel, and print where the compiled code is."""
    with terminal.one_line_errors():
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor, as_completed

        from joblib import cpu_count

        from pesn._support.arguments import whole_number

        if jobs is not None:
            whole_number("--jobs", jobs, 1)
        began, ready, folders = time.monotonic(), set[str](), set[str]()
        calls = [*ENTRY_POINTS, *OTHERS]
        count = min(jobs or int(cpu_count()), len(calls))
        context = multiprocessing.get_context("spawn")
        with terminal.stages() as stage, ProcessPoolExecutor(count, context, _disable_notices) as pool:
            advance = stage("Compiling")
            for done, future in enumerate(as_completed([pool.submit(compile_call, name) for name in calls]), 1):
                kernels, places = future.result()
                ready.update(kernels)
                folders.update(places)
                advance(done, len(calls))
        if not folders:
            raise OSError("there is no folder to write compiled code to; set NUMBA_CACHE_DIR to one")
        where = Path(os.path.commonpath(folders))
        terminal.say(f"{len(ready)} kernels are compiled, {time.monotonic() - began:.0f} s: {where}")
