"""A folder of results as a run leaves it: made-up numbers of the right kinds, real figures, every kind of table and verdict.

``python tests/paper/report/conftest.py FOLDER`` writes one with its page, to look at.
"""

import functools
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pesn.paper.claims import CLAIMS
from pesn.paper.report import write_page
from pesn.plotting import COLOURS

TITLES = {
    "moments": "Moments of tanh against Monte Carlo",
    "moments-grid": "Errors over the grid of means and variances",
    "higher-moments": "Skewness and kurtosis for three activations",
    "complexity": "Operation counts, and time against the number of units",
    "error-time": "Error against time",
    "error-bound": "The error bound and its example",
    "feedforward": "Uncertainty through two feed-forward networks",
    "washout": "Washout: error after a short start",
    "entropy": "Entropy of the reservoir's states",
    "cart-pole": "Cart pole: one step and twenty steps ahead",
    "ardrone": "AR.Drone: twenty steps ahead",
}
ERRATA = {"moments-grid": [10, 6], "error-bound": [9, 17], "entropy": [15], "cart-pole": [12, 4], "ardrone": [14]}
KINDS = ("holds", "holds", "corrected", "holds", "does not hold", "depends")


def fake_folder(folder, names=tuple(TITLES), quick=True):
    """Results for ``names`` in ``folder``, which is returned."""
    for i, name in enumerate(names):
        fake_result(folder, name, i, quick)
    return folder


def fake_result(folder, name, i=0, quick=True, **changes):
    """One item's folder: result.json (with ``changes``), figures as PNG and SVG, obtained.csv."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(i)
    figures = []
    for kind in ("curves", "maps") if name == "moments-grid" else ("curves",):
        png, svg, alt = drawn(kind)
        (place / f"{kind}.png").write_bytes(png)
        (place / f"{kind}.svg").write_bytes(svg)
        figures.append({"name": kind, "png": f"{kind}.png", "svg": f"{kind}.svg", "alt": alt})
    (place / "obtained.csv").write_text("mean,variance,error\n0,0.2,1.2e-16\n")
    claims = [(key, claim.text) for key, claim in CLAIMS.items() if name in claim.items]
    result = {
        "name": name,
        "title": TITLES[name],
        "place": "Figure 1",
        "about": "The paper compares its two methods with Monte Carlo for tanh of a Gaussian. Here both are computed again, "
        'beside `method="exact"` and the surface that pesn uses by default; 10,000 samples stand for the truth as in the paper.',
        "quick": quick,
        "seed": 0,
        "parameters": {"samples": 10_000, "variances": [0.2, 1.0], "mesh": [-10, 10, 101], "trials": 50},
        "changed": {"trials": {"value": 50, "default": 12}} if name == "washout" else {},
        "meanings": {"samples": "Monte Carlo samples.", "trials": "Forecasts, each with its own random starts."},
        "obtained": _tables(name, rng),
        "claims": [
            {
                "id": key,
                "text": text,
                "verdict": KINDS[(i + j) % len(KINDS)],
                "reason": f"Over {rng.integers(200, 900)} cells the median error is {rng.uniform(1, 9):.2f}e-5 for the spline "
                f"and {rng.uniform(1, 9):.2f}e-2 for the analytic method; it is smaller on {rng.uniform(51, 100):.1f} % of them.",
                **_drawn(KINDS[(i + j) % len(KINDS)], j, rng),
            }
            for j, (key, text) in enumerate(claims)
        ],
        "errata": ERRATA.get(name, []),
        "notes": ["The baseline alone carries noise in the paper; the fair comparison stands beside it.", "Errors are absolute."],
        "figures": figures,
        "seconds": 30.0,
        "cpu_seconds": 50.0,
        "cores": 2,
        "versions": {"pesn": "0.1.0", "python": "3.11.2", "numpy": "2.2.1", "scipy": "1.15.0", "numba": "0.61.0"},
        "command": f"pesn reproduce {name} --quick --seed 0" if quick else f"pesn reproduce {name} --seed 0",
        "digest": "3f7a" * 16,
    }
    (place / "result.json").write_text(json.dumps(result | changes))


def _drawn(kind, j, rng):
    """Draws that agree on ``kind``, but for one; none for every third claim."""
    if j % 3 == 2:
        return {"draws": [], "support": 0, "measure": "", "limits": []}
    most = "holds" if kind == "depends" else kind
    outcomes = [most] * (4 if kind == "depends" else 7) + ["corrected" if most != "corrected" else "holds"] * 4
    draws = [[outcome, float(value)] for outcome, value in zip(outcomes[:8], rng.normal(1.0, 0.3, 8), strict=True)]
    support = sum(outcome == most for outcome, _ in draws)
    return {"draws": draws, "support": support, "measure": "error ÷ the other's", "limits": [1.0]}


def _tables(name, rng):
    if name == "washout":
        columns = ["state", "washout", *(f"{who} {what}" for what in ("mean", "min", "max") for who in ("published", "obtained"))]
        rows = []
        for state in ("x", "theta", "v", "omega"):
            for length in (1, 5, 10, 25, 50, 100, 200, 500):
                numbers = [float(n) for n in rng.lognormal(-4, 1.5, 6)]
                better = "published" if numbers[0] < numbers[1] else "obtained"
                rows.append([state, length, *numbers, better])
        return {"Absolute error of the probabilistic network, published (Table 2) and obtained": {
            "columns": [*columns, "better mean"], "rows": rows}}  # fmt: skip
    if name == "complexity":
        return {
            "Operations for D units and N nodes": {
                "columns": ["operation", "published", "obtained"],
                "rows": [["additions", "4ND + 2D", "4ND + 3D"], ["products", "6ND", "7ND − 4D"], ["exp", None, "ND"]],
            }
        }
    rows = [
        [f"layer {k}", float(a), float(b), "published" if a < b else "obtained"]
        for k, (a, b) in enumerate(rng.lognormal(-8, 3, (4, 2)))
    ]
    return {
        "Mean absolute error": {
            "columns": ["place", "published", "obtained", "better"],
            "rows": [*rows, ["layer 4", None, 0.5, ""]],
        },
        "Time": {"columns": ["units", "seconds", "agrees"], "rows": [[100.0, 0.00123, True], [80_000.0, 1.5, False]]},
    }


@functools.cache
def drawn(kind):
    """A figure as PNG and SVG, and its alt text; both kinds have the same ids inside, as matplotlib's have."""
    figure, alt = _curves() if kind == "curves" else _maps()
    FigureCanvasAgg(figure)
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=100)
    figure.savefig(svg, format="svg", metadata={"Date": None})
    return png.getvalue(), svg.getvalue(), alt


def _curves():
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    rng = np.random.default_rng(0)
    x = np.linspace(-5, 5, 200)
    for colour, spread in zip(COLOURS, (0.2, 1.0, 3.0), strict=False):
        y = np.tanh(x / np.sqrt(1 + spread))
        left.fill_between(x, y - 0.1 * spread, y + 0.1 * spread, color=colour, alpha=0.2, linewidth=0)
        left.plot(x, y, color=colour, label=f"variance {spread}")
        right.semilogy(x, 10 ** (rng.normal(-6, 0.2, 200) - spread), color=colour)
    left.set(xlabel="mean of z", ylabel="mean of tanh(z)", title="Mean ± one std")
    right.set(xlabel="mean of z", ylabel="|error|", title="Error of the mean")
    left.legend(frameon=False)
    return figure, "Mean of tanh over the input's mean: curves flatten as the variance grows; errors stay below 1e-5."


def _maps():
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    rng = np.random.default_rng(1)
    for ax, title in zip(figure.subplots(1, 3), ("analytic", "spline", "surface"), strict=True):
        image = ax.imshow(rng.normal(size=(30, 40)), cmap="cividis", aspect="auto")
        ax.set(xlabel="mean", ylabel="variance", title=title)
    figure.colorbar(image, label="log₁₀ of the absolute error")
    return figure, "Three maps of errors: the analytic method is brightest nearly everywhere."


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """A folder with all eleven items."""
    return fake_folder(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def page(results):
    """The page of all eleven items, as text."""
    return write_page(results).read_text(encoding="utf-8")


@pytest.fixture
def make_result():
    """``fake_result``, for folders of one's own."""
    return fake_result


if __name__ == "__main__":
    print(write_page(fake_folder(Path(sys.argv[1]))))
