"""A folder of results as a run leaves it: made-up numbers of the right kinds, real figures, every kind of table and verdict."""

import functools
import io

import numpy as np
import pytest

from pesn.paper import ITEMS
from pesn.paper.claims import CLAIMS, describe
from pesn.paper.items import figures
from pesn.paper.runner import write_page

ERRATA = {"moments-grid": [6, 10], "error-bound": [9, 17], "entropy": [15], "cart-pole": [4, 12], "ardrone": [14]}
KINDS = ("holds", "holds", "misprint", "holds only against an unfair baseline", "does not hold", "holds in part")
PAIRS = [f"{who} {what}" for what in ("mean", "min", "max") for who in ("published", "obtained")]
LONG = "Absolute error of the probabilistic network, published (Table 2) and obtained"
TABLES = {
    "washout": {
        LONG: {
            "columns": ["state", "washout", *PAIRS, "better mean"],
            "rows": [["omega", k, *[0.0123456] * 6, "published"] for k in (1, 10, 100, 500)],
        }
    },
    "complexity": {
        "Operations": {
            "columns": ["operation", "published", "obtained"],
            "rows": [["additions", "4ND + 2D", "4ND + 3D"], ["exp", None, "ND"]],
        }
    },
}
OTHERS = {
    "Mean absolute error": {
        "columns": ["place", "published", "obtained", "better"],
        "rows": [["layer 1", 2.5e-5, 0.5, "published"], ["layer 4", None, 0.5, ""]],
    },
    "Time": {"columns": ["units", "seconds", "agrees"], "rows": [[100.0, 0.00123, True], [80_000.0, 1.5, False]]},
}


def fake_result(folder, name, i=0, **changes):
    """One item's folder, figures as PNG and SVG and obtained.csv, and its record, with ``changes``."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    shown = []
    for kind in ("curves", "maps") if name == "moments-grid" else ("curves",):
        png, svg, alt = drawn(kind)
        (place / f"{kind}.png").write_bytes(png)
        (place / f"{kind}.svg").write_bytes(svg)
        shown.append({"name": kind, "png": f"{kind}.png", "svg": f"{kind}.svg", "alt": alt})
    (place / "obtained.csv").write_text("mean,variance,error\n0,0.2,1.2e-16\n")
    own = [key for key, claim in CLAIMS.items() if name in claim.items]
    record = {
        "name": name, "title": describe(name).title, "place": "Figure 1",
        "about": 'The paper compares its two methods. Here both are computed again, beside `method="exact"` and 10,000 samples.',
        "quick": True, "seed": 0,
        "parameters": {"samples": 10_000, "variances": [0.2, 1.0], "mesh": [-10, 10, 101], "trials": 50},
        "changed": {"trials": {"value": 50, "default": 12}} if name == "washout" else {},
        "meanings": {"samples": "Monte Carlo samples.", "trials": "Forecasts, each with its own random starts."},
        "obtained": TABLES.get(name, OTHERS),
        "claims": [fake_claim(key, KINDS[(i + j) % len(KINDS)], j) for j, key in enumerate(own)],
        "errata": ERRATA.get(name, []),
        "notes": ["The baseline alone carries noise in the paper; the fair comparison stands beside it.", "Errors are absolute."],
        "figures": shown, "seconds": 30.0, "cpu_seconds": 50.0, "cores": 2,
        "versions": {"pesn": "0.1.0", "python": "3.11.2", "numpy": "2.2.1"},
        "command": f"pesn reproduce {name} --quick --seed 0", "digest": "3f7a" * 16,
    }  # fmt: skip
    (place / "result.json").touch()
    return record | changes


def fake_claim(key, verdict, j):
    """A claim with draws that agree on the verdict, but for one or half of them; none for every third claim."""
    depends = "the draw" if verdict == "holds in part" else ""
    most = "holds" if depends or verdict == "misprint" else verdict
    outcomes = [most] * (4 if depends else 7) + ["does not hold" if most == "holds" else "holds"] * 4
    draws = [[outcome, 0.7 + 0.1 * k] for k, outcome in enumerate(outcomes[:8])] if j % 3 < 2 else []
    claim = {"id": key, "text": CLAIMS[key].text, "verdict": verdict, "depends": depends, "draws": draws}
    claim["reason"] = f"Over {200 + j} cells the median error is 1.23e-5 for the spline and 4.56e-2 for the analytic method."
    support = sum(outcome == most for outcome, _ in draws)
    return claim | {"support": support, "measure": "error ÷ the other's", "limits": [1.0]}


@functools.cache
def drawn(kind):
    """A figure as PNG and SVG, and its alt text; both kinds have the same ids inside, as matplotlib's have."""
    figure, axes = figures.panels(1, 2, 4.0)
    left, right = axes[0]
    x = np.linspace(-5, 5, 200)
    left.fill_between(x, np.tanh(x) - 0.1, np.tanh(x) + 0.1, alpha=0.2, linewidth=0)
    left.plot(x, np.tanh(x), label="variance 0.2")
    left.set(xlabel="mean of z", ylabel="mean of tanh(z)", title="Mean ± one std")
    left.legend(frameon=False)
    if kind == "maps":
        right.imshow(np.random.default_rng(1).normal(size=(30, 40)), cmap="cividis", aspect="auto")
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=100)
    figure.savefig(svg, format="svg", metadata={"Date": None})
    alt = "Mean of tanh over the input's mean: curves flatten as the variance grows; errors stay below 1e-5."
    return png.getvalue(), svg.getvalue(), alt


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="session")
def results(folder):
    """Records of all eleven items."""
    return [fake_result(folder, name, i) for i, name in enumerate(ITEMS)]


@pytest.fixture(scope="session")
def page(folder, results):
    """The page of all eleven items, as text."""
    return write_page(folder, results).read_text(encoding="utf-8")


@pytest.fixture
def make_page(tmp_path):
    """The page of a folder with one more result, ``name`` with ``changes``, as text."""
    records = {}

    def make(name, **changes):
        records[name] = fake_result(tmp_path, name, **changes)
        return write_page(tmp_path, list(records.values())).read_text(encoding="utf-8")

    return make
