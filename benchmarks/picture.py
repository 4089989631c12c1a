"""Draw the picture of README.md: python benchmarks/picture.py [FILE], docs/readme.png unless told otherwise."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import pesn
from pesn.systems import chaotic

BLUE, LIGHT, TRUTH = "#1f5fa8", "#a9c8ea", "#d1442b"
HORIZON, SHOWN = 180, 30  # rows ahead, rows of the context in sight


def forecast(ax: Axes) -> None:
    """The Lorenz system from thirty rows that were not learnt from: the band is narrow, then chaos opens it."""
    series = chaotic.lorenz(runs=1, steps=6000, rng=0).states
    network = pesn.ProbabilisticESN(150, ridge=1e-8, washout="auto", random_state=0)
    forecaster = pesn.Forecaster(network).fit(series[:4000])
    first = 5030
    ahead = forecaster.forecast(HORIZON, context=series[first - 30 : first])
    steps = np.arange(1, HORIZON + 1)
    for level, alpha in ((0.95, 0.55), (0.5, 0.9)):
        lower, upper = ahead.interval(level)
        ax.fill_between(steps, lower[:, 0], upper[:, 0], color=LIGHT, alpha=alpha, lw=0)
    ax.plot(np.arange(1 - SHOWN, HORIZON + 1), series[first - SHOWN : first + HORIZON, 0], color=TRUTH, lw=2.6)
    ax.plot(steps, ahead.mean[:, 0], color=BLUE, lw=2.6, ls=(0, (2.2, 1.1)))
    ax.axvline(0.5, color="0.6", lw=1)
    ax.set(xlim=(1 - SHOWN, HORIZON), xlabel="steps ahead", yticks=[], title="Lorenz, from 30 rows")
    low, high = ax.get_ylim()
    ax.set_ylim(low - 0.2 * (high - low), high)  # a place for the words
    for text, colour, at in (("truth", TRUTH, 0.02), ("forecast", BLUE, 0.25), ("50 and 95 %", "#5b8fcf", 0.56)):
        ax.text(at, 0.03, text, color=colour, transform=ax.transAxes, weight="bold", va="bottom")


def through_tanh(ax: Axes, m: float = 0.6, v: float = 0.5) -> None:
    """Samples of tanh(z), and the mean and deviation that were not sampled."""
    mean, var = map(float, pesn.moments("tanh", m, v)[:2])
    samples = np.tanh(np.random.default_rng(0).normal(m, np.sqrt(v), 400_000))
    ax.hist(samples, np.linspace(-1, 1, 61).tolist(), density=True, color="0.82")
    ax.axvspan(mean - np.sqrt(var), mean + np.sqrt(var), color=LIGHT, alpha=0.55, lw=0)
    ax.axvline(mean, color=BLUE, lw=3)
    ax.set(xlim=(-1, 1), xticks=[-1, 0, 1], yticks=[], xlabel="tanh(z)", title=f"z ~ N({m:g}, {v:g})")
    ax.text(0.03, 0.95, f"{mean:.4f}\n± {np.sqrt(var):.4f}", color=BLUE, transform=ax.transAxes, weight="bold", va="top")


def main() -> None:
    path = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "readme.png"
    plt.rcParams.update({"font.size": 16, "axes.titlesize": 16, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.9), width_ratios=[1.9, 1], layout="constrained")
    for ax in axes:
        ax.spines["left"].set_visible(False)
    forecast(axes[0])
    through_tanh(axes[1])
    figure.savefig(path, dpi=120, metadata={"Software": None})  # the same bytes whichever version drew it
    print(f"written to {path}")


if __name__ == "__main__":
    main()
