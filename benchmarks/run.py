"""Run a benchmark: python benchmarks/run.py NAME [options]

python benchmarks/run.py --list        name, what it measures, how long it takes on two idle cores (estimate)
python benchmarks/run.py NAME --help   options of one benchmark
"""

import harness  # noqa: F401  # isort: skip  (before NumPy: one thread)

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple


class Benchmark(NamedTuple):
    """Module and function of a benchmark, what it measures, how long it takes, and the extra with its packages."""

    module: str
    measures: str
    duration: str
    function: str = "main"
    extra: str = "bench"


BENCHMARKS = {
    "peers": Benchmark("peers", "speed against other reservoir libraries, coverage, cold starts", "10 min, --quick 2"),
    "speed": Benchmark("speed", "speed against another version (--against PATH_OR_REV)", "3 min", "speed"),
    "first-call": Benchmark("speed", "cost of the first call: compilation", "5 min", "first_call"),
    "threads": Benchmark("speed", "CPU time in the default environment against one thread", "10 min", "threads"),
    "moments": Benchmark("moments", "speed of activation moments by method and activation", "3 min"),
    "covariance": Benchmark("covariance", "accuracy and cost of covariances: layers, closed loops, ensembles", "1 h"),
    "networks": Benchmark("networks", "accuracy of propagate: 52 networks, saturated ones, many inputs, estimators", "15 min"),
    "network-peers": Benchmark(
        "peer_libraries", "propagate against linearization, unscented, mean field on 216 cases", "6 min", "network_peers"
    ),
    "reservoirs": Benchmark("reservoirs", "topologies, depth, FORCE, climate, fields", "hours"),
    "classification": Benchmark("classification", "sequence classification, class probabilities of uncertain inputs", "1 h"),
    "uncertainty": Benchmark("uncertainty", "cold starts, coverage and CRPS, stability, bounds of forecasts", "hours"),
    "weights": Benchmark(
        "networks", "uncertain weights and dropout: closed form against samples, regression", "5 min", "weights"
    ),
    "sharp": Benchmark("sharp", "valid times, CRPS and coverage on chaotic systems and robots, with baselines", "hours"),
    "planning": Benchmark("planning", "roll-outs, planners, gradients, angles, coverage of plans", "1 h"),
    "series": Benchmark(
        "series", "series forecasts against statsforecast: OWA, CRPS, MSIS, coverage", "10 min", extra="bench-series"
    ),
    "scale": Benchmark("scale", "cost and memory of long runs and of series", "10 min", "scale", "bench-series"),
    "panels": Benchmark("scale", "time and memory of many series, in memory and streamed", "15 min", "panels", "bench-series"),
}


def list_benchmarks() -> str:
    """Return one line per benchmark."""
    names, measures = max(map(len, BENCHMARKS)), max(len(one.measures) for one in BENCHMARKS.values())
    return "\n".join(f"{name:{names}}  {one.measures:{measures}}  {one.duration}" for name, one in BENCHMARKS.items())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark that the first argument names with the remaining arguments."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help", "--list"):
        print(list_benchmarks() if "--list" in given else f"{__doc__}\n{list_benchmarks()}")
        return
    if given[0] not in BENCHMARKS:
        raise SystemExit(f"NAME must be one of {', '.join(BENCHMARKS)}, got {given[0]}")
    benchmark = BENCHMARKS[given[0]]
    try:
        getattr(import_module(benchmark.module), benchmark.function)(given[1:])
    except ModuleNotFoundError as error:
        raise SystemExit(f"{given[0]} needs the package {error.name}: pip install 'pesn[{benchmark.extra}]'") from error


if __name__ == "__main__":
    main()
