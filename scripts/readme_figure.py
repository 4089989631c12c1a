"""Draw the figure of docs/design.md: python scripts/readme_figure.py [FILE] (default: docs/readme.png)."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import pesn
from pesn.systems import chaotic

BLUE, LIGHT, TRUTH = "#1f5fa8", "#a9c8ea", "#d1442b"
LYAPUNOV = 0.906 * 0.02  # Lyapunov times per step
TIMES, SHOWN = 24, 40  # Lyapunov times of the forecast, steps of the context that are shown
HORIZON = round(TIMES / LYAPUNOV)


def plot_forecast(path: Axes, error: Axes) -> None:
    """Plot an automatic forecast of the Lorenz system over 24 Lyapunov times, and its error with the interval below."""
    series = chaotic.lorenz(runs=1, steps=6000, rng=0)[0].states
    forecaster = pesn.Forecaster().fit(series[:3000])
    print(forecaster.design_)
    first = 4000
    ahead = forecaster.forecast(HORIZON, context=series[first - 200 : first], joint=False)
    times, truth = LYAPUNOV * np.arange(1, HORIZON + 1), series[first - SHOWN : first + HORIZON, 0]
    for level, alpha in ((0.95, 0.55), (0.5, 0.9)):
        lower, upper = ahead.interval(level)
        path.fill_between(times, lower[:, 0], upper[:, 0], color=LIGHT, alpha=alpha, lw=0)
        error.fill_between(times, 1e-14, (upper - lower)[:, 0] / 2.0, color=LIGHT, alpha=alpha, lw=0)
    path.plot(LYAPUNOV * np.arange(1 - SHOWN, HORIZON + 1), truth, color=TRUTH, lw=2.2)
    path.plot(times, ahead.mean[:, 0], color=BLUE, lw=2.2, ls=(0, (2.2, 1.1)))
    path.axvline(0.5 * LYAPUNOV, color="0.6", lw=1)
    path.set(yticks=[], title="Lorenz, learned from 3,000 rows", ylim=(-27, 22))
    error.plot(times, np.abs(ahead.mean[:, 0] - truth[SHOWN:]), color=TRUTH, lw=1.2)
    error.set(yscale="log", ylim=(1e-11, 1e3), yticks=[1e-9, 1e-6, 1e-3, 1.0], xlabel="Lyapunov times ahead")
    error.set(xlim=(-SHOWN * LYAPUNOV, TIMES), xticks=range(0, TIMES + 1, 4))
    for text, color, at in (("truth", TRUTH, 0.05), ("forecast", BLUE, 0.2), ("50 and 95 %", "#5b8fcf", 0.43)):
        path.text(at, 0.0, text, color=color, transform=path.transAxes, weight="bold", va="bottom")
    error.text(0.05, 0.95, "error", color=TRUTH, transform=error.transAxes, weight="bold", va="top")


def plot_tanh(ax: Axes, m: float = 0.6, v: float = 0.5) -> None:
    """Plot samples of tanh(z), and its mean and standard deviation in closed form."""
    mean, var = map(float, pesn.moments("tanh", m, v)[:2])
    samples = np.tanh(np.random.default_rng(0).normal(m, np.sqrt(v), 400_000))
    ax.hist(samples, np.linspace(-1, 1, 61).tolist(), density=True, color="0.82")
    ax.axvspan(mean - np.sqrt(var), mean + np.sqrt(var), color=LIGHT, alpha=0.55, lw=0)
    ax.axvline(mean, color=BLUE, lw=3)
    ax.set(xlim=(-1, 1), xticks=[-1, 0, 1], yticks=[], xlabel="tanh(z)", title=f"z ~ N({m:g}, {v:g})")
    ax.text(0.03, 0.95, f"{mean:.4f}\n± {np.sqrt(var):.4f}", color=BLUE, transform=ax.transAxes, weight="bold", va="top")


def main() -> None:
    """Draw and save the figure."""
    path = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "readme.png"
    plt.rcParams.update({"font.size": 15, "axes.titlesize": 15, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplot_mosaic(
        [["path", "tanh"], ["error", "tanh"]],
        figsize=(10, 4.6),
        width_ratios=[2.3, 1],
        height_ratios=[1.5, 1],
        layout="constrained",
    )
    axes["path"].sharex(axes["error"])
    axes["path"].tick_params(bottom=False, labelbottom=False)
    for name in ("path", "tanh"):
        axes[name].spines["left"].set_visible(False)
    axes["path"].spines["bottom"].set_visible(False)
    plot_forecast(axes["path"], axes["error"])
    plot_tanh(axes["tanh"])
    figure.savefig(path, dpi=120, metadata={"Software": None})  # the same bytes with every version
    print(f"written to {path}")


if __name__ == "__main__":
    main()
