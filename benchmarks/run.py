"""The side-by-side suite: moments, networks, reservoirs against their peers, coverage, cold starts.

python benchmarks/run.py [--quick] [--write FILE]

Everything runs in one process tree, the sides of a race in turn, on one thread each; figures are ratios inside one run. The whole
takes about ten minutes on two quiet cores and writes benchmarks/RESULTS.md and the table in README.md; ``--quick`` takes two, and
prints. ``--write``: to another file, and nothing into README.md.
"""

from timing import Ratio, machine  # isort: skip  (before NumPy: one thread)

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import moments
import network_speed
import peers
import pesn
import reservoirs
import uncertainty
from pages import table, write_block

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "RESULTS.md"


class Plan(NamedTuple):
    """How much of everything."""

    rounds: int
    share: float  # of the elements in the race of moments
    samples: int  # that judge a network
    drive: dict[int, int]  # units: rounds
    units: int  # of fit, forecast and RLS
    steps: int
    forecast: int
    systems: Sequence[str]
    cold: Sequence[tuple[str, float]]
    seeds: int
    origins: int
    most: int  # rows of context in cold starts


DRIVEN = {100: 9, 500: 5, 1000: 5, 2000: 3}
FULL = Plan(7, 1.0, 400_000, DRIVEN, 500, 10_000, 2000, uncertainty.SYSTEMS, uncertainty.COLD[:4], 2, 40, 300)
QUICK = Plan(3, 0.05, 50_000, {100: 3, 500: 3}, 200, 3000, 500, ("Lorenz",), uncertainty.COLD[:1], 1, 10, 56)


class Results(NamedTuple):
    """What was found."""

    moments: list[moments.Figure]
    networks: list[network_speed.Speed]
    reservoirs: reservoirs.Board
    coverage: dict[str, list[dict[str, Any]]]
    cold: dict[tuple[str, float], list[dict[str, Any]]]


def measure(plan: Plan) -> Results:
    begin = time.perf_counter()

    def said(what: str) -> None:
        print(f"[{time.perf_counter() - begin:4.0f} s] {what}", file=sys.stderr, flush=True)

    said("moments")
    found = [*moments.figures(plan.rounds, plan.share), moments.import_figure(min(plan.rounds, 5))]
    said("networks")
    speeds = network_speed.speeds(plan.rounds, plan.samples)
    said("reservoirs")
    board = reservoirs.everything(plan.drive, plan.rounds, plan.units, plan.steps, plan.forecast)
    said("coverage")
    inside = uncertainty.coverages(plan.systems, plan.seeds, plan.origins)
    said("cold starts")
    cold = uncertainty.cold_starts(plan.cold, plan.seeds, plan.origins, plan.most)
    said("done")
    return Results(found, speeds, board, inside, cold)


# ---------------------------------------------------------------- pages


def page(results: Results, plan: Plan) -> str:
    """RESULTS.md."""
    parts = {
        "Where pesn is slower or worse": worse(results),
        "Moments of tanh": moments.report(results.moments),
        "Networks": "\n".join(network_speed.speed_report(results.networks, plan.samples)),
        "Reservoirs": f"{reservoirs.report(results.reservoirs)}\n\nDrives and fits: {plan.steps:,} steps; forecasts: "
        f"{plan.forecast:,}.",
        "Coverage": "How often the truth lies inside the 95 % interval, and CRPS beside simple rivals on the same rows (ARX: "
        "linear in five rows; GP: a Gaussian process from the last row to the change; their deviations are those of their errors "
        f"on training rows). {plan.origins} forecasts a run from 30 rows; means over seeds ({plan.seeds}), least–largest. No "
        f"peer gives an interval.\n\n{uncertainty.coverage_tables(results.coverage)}",
        "Cold start": "Rows that must be seen beyond the first until the error over ten steps is at most twice that of the plain "
        "network after its washout. Plain network: from a state of 0, as all the peers start; lags alone: a state guessed by "
        f"regression on the first rows. Means over seeds ({plan.seeds}), least–largest.\n\n"
        + uncertainty.cold_start_table(results.cold),
    }
    sections = "\n\n".join(f"## {title}\n\n{text.strip()}" for title, text in parts.items())
    return f"# Measured side by side\n\nMade by `python benchmarks/run.py`. pesn {pesn.__version__}; {machine()}.\n\n{sections}\n"


def worse(results: Results) -> str:
    """Every figure in which another was faster or better, in plain words."""
    lines = []
    for row in results.reservoirs.rows.values():
        for n, value in row.ratios.items():
            if isinstance(value, Ratio) and value.median < 1.0:
                lines.append(f"{row.what}, N = {n}: {row.rival} is {1.0 / value.median:.3g} times as fast.")
            elif isinstance(value, str) and value != reservoirs.NO_RLS:
                lines.append(f"{row.what}, N = {n}: {row.rival} was not measured ({value}).")
    for one in results.networks:
        if network_speed.is_rival(one) and one.ratio.median < 1.0:
            lines.append(f"Networks: {one.name} takes {one.ratio.median:.2g} of the third-order closure's time.")
    for name, some in results.coverage.items():
        for j, lead in enumerate(uncertainty.LEADS):
            scores = {rival: np.mean([one["crps"][rival][j] for one in some]) for rival in some[0]["crps"]}
            better = ", ".join(f"{rival} has {value:.2g}" for rival, value in scores.items() if value < scores["ours"])
            if better:
                lines.append(f"{name}, CRPS {lead} ahead: {better}, pesn {scores['ours']:.2g} (systems without noise).")
    return "\n".join(f"- {line}" for line in lines) or "In none of the figures below."


SHOWN = (
    (reservoirs.DRIVE, (100, 1000)),
    (reservoirs.DRIVE_GAUSSIAN, (100, 1000)),
    (reservoirs.FIT, (500,)),
    (reservoirs.LOOP, (500,)),
    (reservoirs.LOOP_GAUSSIAN, (500,)),
    (reservoirs.RLS, (500,)),
    (reservoirs.ONLINE, (100, 200, 500)),
    (reservoirs.ONLINE_CHECKED, (500,)),
)


def summary(results: Results) -> str:
    """The block of README.md: the peers, then what no peer has."""
    versions = peers.versions()
    rows = [
        [f"{what}, N = {n}", *(_cell(results.reservoirs, what, name, n) for name in versions)]
        for what, sizes in SHOWN
        for n in sizes
    ]
    head = ["how many times faster pesn is", *(f"{name} {number or ''}".strip() for name, number in versions.items())]
    systems = [
        "",
        "inside the 95 % band, 1 and 20 steps ahead",
        "CRPS ÷ deviation, 20 steps ahead",
        "rows until warm: plain → pesn",
    ]
    parts = [table(head, rows), table(["beside", "time, pesn's as unit"], _others(results)), table(systems, _systems(results))]
    return "\n\n".join([*parts, f"{machine()}; one thread."])


def _cell(board: reservoirs.Board, what: str, name: str, n: int) -> str:
    row = board.rows.get((what, name))
    value = row.ratios.get(n, "–") if row else "–"
    if isinstance(value, str):
        return value.split(":")[0]
    return f"**{value.median:.2g}**" if value.median < 1.0 else f"{value.median:.2g}"


def _others(results: Results) -> list[list[str]]:
    figures = {(one.slow, one.fast): one.ratio.median for one in results.moments}
    rows = [
        ["mean and variance of tanh: `np.tanh` alone", f"**{1.0 / figures['surface', 'np.tanh']:.2g}**"],
        ["mean and variance of tanh: 10,000 samples", f"{figures['10,000 samples', 'surface']:,.0f}"],
    ]
    for one in filter(network_speed.is_rival, results.networks):
        factor = f"**{one.ratio.median:.2g}**" if one.ratio.median < 1.0 else f"{one.ratio.median:.2g}"
        off = f" (deviations off by up to {one.std_error:.0%})" if one.name == network_speed.PEER else ""
        rows.append([f"three tanh layers of 100, third-order: {one.name}", factor + off])
    return rows


def _systems(results: Results) -> list[list[str]]:
    """Coverage, CRPS and warm-up, a row a system."""
    rows: dict[str, list[str]] = {}
    for system, some in results.coverage.items():
        shares = np.mean([one["coverage"] for one in some], axis=0)
        scores = {rival: np.mean([one["crps"][rival][-1] for one in some]) for rival in some[0]["crps"]}
        names = {rival: "pesn" if rival == "ours" else rival for rival in scores}
        marks = {rival: "**" if value < scores["ours"] else "" for rival, value in scores.items()}
        compared = ", ".join(f"{names[rival]} {marks[rival]}{value:.1g}{marks[rival]}" for rival, value in scores.items())
        rows[system] = [f"{100 * shares[0]:.0f} %, {100 * shares[-1]:.0f} %", compared, ""]
    for (system, _), some in results.cold.items():
        plain, ours = (np.mean([one["warm-up"][method] for one in some]) for method in ("plain", "ours"))
        rows.setdefault(system, ["", "", ""])[2] = f"{plain:.0f} → {ours:.0f}"
    return [[system, *cells] for system, cells in rows.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args()
    plan = QUICK if options.quick else FULL
    results = measure(plan)
    text = page(results, plan)
    print(text)
    target = options.write or (None if options.quick else PAGE)
    if target:
        target.write_text(text)
        print(f"written to {target}", file=sys.stderr)
    if target == PAGE:
        write_block(ROOT / "README.md", "bench", summary(results))


if __name__ == "__main__":
    main()
