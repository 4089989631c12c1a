"""Tables, figures and verdicts of the washout experiment.

>>> win_count([0.1, 0.2, 0.3], [0.2, 0.20001, 0.2])  # wins, ties, losses
(1, 1, 1)

>>> span([4, 7, 5]), span([3, 3])
('5 (4 to 7)', '3')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.paper.claims import Draw, Record, Verdict, over_draws
from pesn.paper.items import sensitivity
from pesn.paper.items.washout_study import LENGTHS, METHODS, STATES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "ERRORS_ALT",
    "GAIN",
    "LABELS",
    "OWN_PLACE_ALT",
    "PUBLISHED",
    "RATIOS_ALT",
    "SENSITIVITY_ALT",
    "SMALL",
    "TIE",
    "as_frame",
    "cells",
    "counts",
    "course",
    "distance",
    "errors",
    "judge",
    "losses_of",
    "own_place",
    "own_place_table",
    "published",
    "ratios",
    "span",
    "tables",
    "win_count",
    "wins_of",
]


LABELS = {"position": "x (m)", "velocity": "ẋ (m/s)", "angle": "θ (rad)", "angular velocity": "ω (rad/s)"}
STATISTICS = ("mean", "min", "max")
TIE = 1e-4  # errors that agree to the four digits of the paper's table are equal: beyond, the start is forgotten

# The paper's washout table: for each length P and MC of the mean, of the min, of the max.
PUBLISHED: dict[str, dict[int, tuple[float, ...]]] = {
    "position": {
        1: (0.0093, 0.0128, 0.0088, 0.0062, 0.0134, 0.0212),
        10: (0.0135, 0.0167, 0.0134, 0.0057, 0.0135, 0.0377),
        20: (0.0428, 0.0428, 0.0428, 0.0166, 0.0429, 0.0619),
        30: (0.0836, 0.0842, 0.0836, 0.0651, 0.0836, 0.1007),
        40: (0.1379, 0.1359, 0.1379, 0.1139, 0.1379, 0.1562),
        50: (0.2084, 0.2091, 0.2083, 0.1951, 0.2084, 0.2279),
        100: (0.7138, 0.7126, 0.7138, 0.6945, 0.7138, 0.7375),
        200: (0.1525, 0.1495, 0.1525, 0.1268, 0.1525, 0.1697),
    },
    "velocity": {
        1: (0.0369, 0.0401, 0.0249, 0.0210, 0.0381, 0.0650),
        10: (0.0203, 0.0222, 0.0201, 0.0061, 0.0203, 0.0462),
        20: (0.0159, 0.0191, 0.0159, 0.0121, 0.0159, 0.0305),
        30: (0.0573, 0.0585, 0.0573, 0.0405, 0.0573, 0.0793),
        40: (0.1247, 0.1240, 0.1247, 0.0994, 0.1247, 0.1402),
        50: (0.2206, 0.2223, 0.2206, 0.2078, 0.2206, 0.2407),
        100: (1.3919, 1.3936, 1.3919, 1.3775, 1.3919, 1.4133),
        200: (4.4890, 4.4887, 4.4890, 4.4707, 4.4890, 4.5095),
    },
    "angle": {
        1: (0.3206, 0.3578, 0.0653, 0.3401, 0.3473, 0.3808),
        10: (0.4380, 0.4464, 0.4352, 0.4230, 0.4397, 0.4657),
        20: (0.5478, 0.5496, 0.5470, 0.5283, 0.5485, 0.5685),
        30: (0.6739, 0.6756, 0.6734, 0.6511, 0.6742, 0.6955),
        40: (0.8240, 0.8240, 0.8238, 0.8045, 0.8243, 0.8416),
        50: (1.0001, 0.9997, 0.9999, 0.9803, 1.0002, 1.0169),
        100: (0.7372, 0.7356, 0.7371, 0.7130, 0.7373, 0.7562),
        200: (0.7244, 0.7245, 0.7243, 0.7053, 0.7245, 0.7531),
    },
    "angular velocity": {
        1: (0.7104, 0.7633, 0.3200, 0.7406, 0.7496, 0.8063),
        10: (0.6576, 0.6652, 0.6536, 0.6430, 0.6601, 0.6931),
        20: (0.5273, 0.5298, 0.5260, 0.5058, 0.5282, 0.5597),
        30: (0.3817, 0.3834, 0.3811, 0.3599, 0.3821, 0.4063),
        40: (0.2550, 0.2558, 0.2548, 0.2361, 0.2552, 0.2769),
        50: (0.2761, 0.2759, 0.2760, 0.2687, 0.2761, 0.2871),
        100: (2.8593, 2.8619, 2.8592, 2.8388, 2.8595, 2.8920),
        200: (2.6587, 2.6594, 2.6586, 2.6350, 2.6588, 2.6916),
    },
}


def as_frame(errors: Mapping[tuple[str, int], Array], lengths: Sequence[int]) -> pd.DataFrame:
    """A row for each target, draw, state, washout length and method: mean, min and max over the trials.

    ``errors``: by target and draw (methods, trials, lengths, 4); what was not computed is NaN, and left out.
    """
    import pandas as pd

    rows = []
    for (target, draw), found in errors.items():
        for s, state in enumerate(STATES):
            for i, length in enumerate(lengths):
                for m, method in enumerate(METHODS):
                    e = found[m, :, i, s]
                    e = e[~np.isnan(e)]
                    if len(e):
                        rows.append((target, draw, state, length, method, e.mean(), e.min(), e.max()))
    return pd.DataFrame(rows, columns=["target", "draw", "state", "washout", "method", *STATISTICS])


def cells(frame: pd.DataFrame, method: str, statistic: str = "mean") -> Array:
    """One number for each state and washout length of one draw, in the frame's order."""
    return np.asarray(frame.loc[frame["method"] == method, statistic], float)


def win_count(ours: npt.ArrayLike, theirs: npt.ArrayLike, share: float = TIE) -> tuple[int, int, int]:
    """How often the first is smaller, equal to within a ``share``, larger."""
    margin = np.asarray(ours, float) / np.asarray(theirs, float) - 1.0
    tie = np.abs(margin) <= share
    return int(((margin < 0) & ~tie).sum()), int(tie.sum()), int(((margin > 0) & ~tie).sum())


def published(statistic: str, which: str) -> dict[tuple[str, int], float]:
    """The paper's numbers by state and washout length; ``which`` is P or MC."""
    column = 2 * STATISTICS.index(statistic) + ("P", "MC").index(which)
    return {(state, length): row[column] for state, by_length in PUBLISHED.items() for length, row in by_length.items()}


def distance(P: Array, MC: Array) -> float:
    """How far mean errors (8 lengths, 4 states) are from the published ones: root mean square of log₁₀ of their ratios.

    1 is a factor of ten.
    """
    apart = []
    for which, found in (("P", P), ("MC", MC)):
        printed = published("mean", which)
        apart.append(np.log10(found / [[printed[state, k] for state in STATES] for k in LENGTHS]))
    return float(np.sqrt(np.mean(np.square(apart))))


def course(lengths: Sequence[int] = (20, 30, 40, 50, 100)) -> tuple[float, float]:
    """The published position errors of P ÷ (k + 5.5)², least and largest by their mean: 1 where they go with the square of time.

    k + 5.5 is the middle of a forecast over the rows k + 1 … k + 10, counted from where the washout of k rows began.

    >>> print("{:.2f} to {:.2f}".format(*course()))
    0.97 to 1.02
    """
    printed = published("mean", "P")
    ratio = np.array([printed["position", k] / (k + 5.5) ** 2 for k in lengths])
    return float(ratio.min() / ratio.mean()), float(ratio.max() / ratio.mean())


# ---------------------------------------------------------------- for people


def tables(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """For each state the mean errors of the first draw, published and obtained, levels first and changes beside."""
    shown = {}
    first = frame[frame["draw"] == 1]
    for state in STATES:
        part = first[(first["state"] == state) & (first["target"] == "level")]
        table = _side_by_side(part, state, "mean")
        others = part.pivot(index="washout", columns="method", values="mean")
        for method in METHODS[2:]:
            if method in others:
                table[method] = others[method].to_numpy()
        changes = first[(first["state"] == state) & (first["target"] == "change") & (first["method"] == "P")]
        if len(changes):
            table["P, changes learned"] = changes["mean"].to_numpy()
        table["better"] = [_better(a, b, "obtained", TIE) for a, b in zip(others["P"], others["MC"], strict=True)]
        pairs = zip(table["P published"], table["MC published"], strict=True)
        table["better published"] = [_better(a, b, "published", 0.0) for a, b in pairs]
        shown[f"{state.capitalize()}, {LABELS[state]}: mean absolute error over the steps, first draw"] = table
    for state in STATES:
        part = first[(first["state"] == state) & (first["target"] == "level")]
        least, most = (_side_by_side(part, state, statistic) for statistic in ("min", "max"))
        names = {name: f"{name.split()[0]} {{}} {name.split()[1]}" for name in least.columns[1:]}
        both = least.rename(columns={name: new.format("min") for name, new in names.items()})
        for name, new in names.items():
            both[new.format("max")] = most[name].to_numpy()
        shown[f"{state.capitalize()}, {LABELS[state]}: smallest and largest error of a trial, first draw"] = both
    return shown


def counts(frame: pd.DataFrame) -> pd.DataFrame:
    """How often P wins, ties and loses against the others, a row for each draw, levels learned and changes."""
    import pandas as pd

    rows = []
    for (target, draw), part in frame.groupby(["target", "draw"], sort=False):
        row: dict[str, object] = {"learned": f"{target}s", "draw": draw}
        for method in ("MC", "MC without noise", "zero start", "mean of forecasts"):
            row[f"P against {method}"] = " / ".join(map(str, win_count(cells(part, "P"), cells(part, method))))
        rows.append(row)
    return pd.DataFrame(rows).sort_values(["draw", "learned"], ascending=[True, False], ignore_index=True)


def own_place_table(place: Array, fair: pd.DataFrame, lengths: Sequence[int]) -> pd.DataFrame:
    """Each length from its own place on one run (lengths, 4, 4) beside the fair table of the same draw, and what is printed."""
    import pandas as pd

    rows = []
    means = {method: fair[fair["method"] == method].set_index(["state", "washout"])["mean"] for method in ("P", "MC")}
    for s, state in enumerate(STATES):
        for i, k in enumerate(lengths):
            row: dict[str, object] = {"state": state, "washout": k}
            for m, which in enumerate(("P", "MC")):
                row[f"{which} published"] = published("mean", which).get((state, k), np.nan)
                row[f"{which} own place"] = place[i, m, s]
                row[f"{which} same origins"] = means[which][state, k]
            for m, statistic in ((2, "min"), (3, "max")):
                row[f"MC {statistic} published"] = published(statistic, "MC").get((state, k), np.nan)
                row[f"MC {statistic} own place"] = place[i, m, s]
            rows.append(row)
    return pd.DataFrame(rows)


def _better(p: float, mc: float, which: str, tie: float) -> str:
    """The column of the lower error; none where they tie."""
    wins, _, losses = win_count([p], [mc], tie)
    return f"P {which}" if wins else f"MC {which}" if losses else ""


def _side_by_side(part: pd.DataFrame, state: str, statistic: str) -> pd.DataFrame:
    import pandas as pd

    wide = part.pivot(index="washout", columns="method", values=statistic)
    table = pd.DataFrame({"washout": wide.index.to_numpy()})
    for method in ("P", "MC"):
        printed = published(statistic, method)
        table[f"{method} published"] = [printed.get((state, int(k)), np.nan) for k in wide.index]
        table[f"{method} obtained"] = wide[method].to_numpy()
    return table


# One colour for all that is Monte Carlo, one for all that is the PESN, one for what is ours.
_BLUE, _RED, _GREEN = sensitivity.MONTE_CARLO, sensitivity.SPLINE, sensitivity.OURS
_STYLE: Record = {
    "MC": {"color": _BLUE, "marker": "s", "markersize": 5, "linewidth": 1.5},
    "P": {"color": _RED, "marker": "o", "markersize": 9, "markerfacecolor": "none", "linewidth": 2.0, "linestyle": (0, (5, 2))},
    "zero start": {"color": sensitivity.TRUTH, "marker": ".", "markersize": 6, "linewidth": 1.0, "linestyle": (0, (2, 2))},
    "mean of forecasts": {"color": _BLUE, "marker": "x", "markersize": 6, "linewidth": 1.0, "linestyle": ":"},
    "MC without noise": {"color": _BLUE, "marker": "v", "markersize": 5, "linewidth": 1.0, "linestyle": "-."},
    "P, weights updated inside": {"color": _RED, "marker": "^", "markersize": 5, "linewidth": 1.0, "linestyle": "-."},
    "Algorithm 3 to the letter": {"color": _RED, "marker": "*", "markersize": 6, "linewidth": 1.0, "linestyle": ":"},
    "filtered start": {"color": _GREEN, "marker": "D", "markersize": 5, "linewidth": 1.5, "linestyle": (0, (6, 2, 1, 2))},
}
_NAMES = {
    "P": "PESN from a Gaussian",
    "MC": "Monte Carlo ESN: random starts, noise M_e",
    "zero start": "ESN from 0",
    "MC without noise": "Monte Carlo ESN: random starts alone",
    "P, weights updated inside": "PESN, weights updated inside (sees the future)",
}
ERRORS_ALT = (
    "Four panels, one a state, with the mean absolute error of a 10-step forecast against the washout length on logarithmic "
    "axes, for the PESN, the Monte Carlo ESN with and without noise, the ESN from 0, the mean of the random networks' "
    "forecasts, Algorithm 3, and the filtered start."
)
OWN_PLACE_ALT = (
    "Four panels, one a state, with the PESN's mean error against the washout length: published, from the same origins for "
    "every length, from each length's own place on one run, and that of the closest candidate of the search."
)
SENSITIVITY_ALT = (
    "Small panels, a column for each setting that the paper does not print: P's error as a share of the published one, P's "
    "error by MC's, and what updating inside the forecast makes of P's error; the value in use is shaded."
)
RATIOS_ALT = (
    "Four panels, one a state, with the PESN's error divided by that of the Monte Carlo ESN, published, obtained and with "
    "noise, and divided by that of an ESN started at 0, against the washout length; below 1 the PESN is better."
)


def _panels() -> tuple[Figure, Record]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 7.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = dict(zip(STATES, figure.subplots(2, 2, sharex=True).ravel(), strict=True))
    for state, ax in axes.items():
        ax.set_xscale("log")
        ax.set_title(state.capitalize(), fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _finish(figure: Figure, axes: Record, lengths: Sequence[int]) -> Figure:
    for ax in axes.values():
        ax.set_xticks(list(lengths), [str(k) if k not in (30, 40) else "" for k in lengths], minor=False)
        ax.set_xticks([], minor=True)
    for state in STATES[2:]:
        axes[state].set_xlabel("washout length (rows of 0.02 s)")
    handles, labels = axes[STATES[0]].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    return figure


def errors(frame: pd.DataFrame) -> Figure:
    """Mean errors of all starts against the washout length, a panel for each state; ``frame`` is the item's."""
    figure, axes = _panels()
    for state, ax in axes.items():
        for method, style in _STYLE.items():
            part = frame[(frame["state"] == state) & (frame["method"] == method)]
            if part.empty:
                continue
            ax.plot(part["washout"], part["mean"], label=_NAMES.get(method, method), **style)
        ax.set_yscale("log")
        ax.set_ylabel(f"mean |error| of {LABELS[state]}")
    return _finish(figure, axes, sorted(set(frame["washout"])))


def ratios(frame: pd.DataFrame, ours: Mapping[tuple[str, int], float], theirs: Mapping[tuple[str, int], float]) -> Figure:
    """The PESN's error by that of others; ``ours`` and ``theirs`` are published, by state and washout length."""
    figure, axes = _panels()
    lengths = sorted(set(frame["washout"]))
    printed = [k for k in lengths if (STATES[0], k) in ours]
    for state, ax in axes.items():
        by_method = frame[frame["state"] == state].pivot(index="washout", columns="method", values="mean")
        ax.axhline(1.0, color="#999999", linewidth=0.8)
        ratio = [ours[state, k] / theirs[state, k] for k in printed]
        ax.plot(
            printed, ratio, color=sensitivity.MONTE_CARLO, marker="^", linestyle="--", label="PESN / Monte Carlo ESN, published"
        )
        ratio = by_method["P"] / by_method["MC"]
        ax.plot(lengths, ratio, color=sensitivity.MONTE_CARLO, marker="o", label="PESN / Monte Carlo ESN, obtained")
        ratio = by_method["P"] / by_method["zero start"]
        ax.plot(lengths, ratio, color="black", marker=".", linestyle=":", label="PESN / ESN from 0, obtained")
        ratio = by_method["P"] / by_method["MC without noise"]
        ax.plot(
            lengths, ratio, color=sensitivity.MONTE_CARLO, marker="v", linestyle="-.", label="PESN / MC without noise, obtained"
        )
        ax.set_ylabel("ratio of mean errors")
    return _finish(figure, axes, lengths)


def own_place(place: Array, match: Array, frame: pd.DataFrame, lengths: Sequence[int]) -> Figure:
    """Published mean errors of P beside those of one draw, by both readings, and of the closest candidate."""
    figure, axes = _panels()
    printed = published("mean", "P")
    known = [k for k in lengths if (STATES[0], k) in printed]
    for s, (state, ax) in enumerate(axes.items()):
        part = frame[(frame["state"] == state) & (frame["method"] == "P")]
        values = [printed[state, k] for k in known]
        ax.plot(known, values, color=sensitivity.TRUTH, marker="^", linestyle="--", label="published")
        ax.plot(part["washout"], part["mean"], color=sensitivity.SPLINE, marker="o", label="same origins for every length")
        ax.plot(
            lengths, place[:, 0, s], color=sensitivity.SPLINE, marker="s", linestyle="-.", label="each length from its own place"
        )
        ax.plot(
            lengths, match[:, 0, s], color=sensitivity.SPLINE, marker="D", linestyle=":", label="closest candidate, own place"
        )
        ax.set_yscale("log")
        ax.set_ylabel(f"P's mean |error| of {LABELS[state]}")
    return _finish(figure, axes, lengths)


GAIN = 0.95  # of a plain network's error: what is closer to it gains nothing
SMALL = 0.1  # losses are small up to here, on average and as a share of the other's error: the paper's largest is 2 %


def wins_of(frame: pd.DataFrame) -> Draw:
    """One draw: the PESN wins most cells against random starts with noise, as printed; and then against a start at 0, fairly."""
    P, MC, zero = (cells(frame, method) for method in ("P", "MC", "zero start"))
    ratio = float(np.exp(np.mean(np.log(P / zero))))
    if 2 * win_count(P, MC)[0] <= len(P):
        return Draw("does not hold", ratio)
    return Draw("holds" if ratio < GAIN else "corrected", ratio)


def losses_of(frame: pd.DataFrame) -> Draw:
    """One draw: by how much the PESN loses, on average of the cells that it loses; 0 where it loses none."""
    margin = cells(frame, "P") / cells(frame, "MC") - 1.0
    lost = margin[margin > 0.0]
    loss = float(lost.mean()) if len(lost) else 0.0
    return Draw("holds" if loss <= SMALL else "does not hold", loss)


def judge(frames: Sequence[pd.DataFrame], changes: Sequence[pd.DataFrame] = ()) -> list[Verdict]:
    """Both claims over the draws: networks that learn the velocities, as the paper's do; ``changes`` are told beside."""
    n = len(cells(frames[0], "P"))
    printed = win_count(list(published("mean", "P").values()), list(published("mean", "MC").values()), 0.0)
    won = [win_count(cells(frame, "P"), cells(frame, "MC"))[0] for frame in frames]
    quiet = [win_count(cells(frame, "P"), cells(frame, "MC without noise"))[0] for frame in frames]
    wins = [wins_of(frame) for frame in frames]
    ratio = [draw.value for draw in wins if draw.value is not None]
    lengths = sorted(set(frames[0]["washout"]))
    reason = (
        "The Monte Carlo ESN has a random start and noise M_e at every step, as its equation is printed. The PESN errs less "
        f"than it in {span(won)} of {n} cells ({len(STATES)} states, {len(lengths)} washout lengths; paper: {printed[0]} wins, "
        f"{printed[1]} ties, {printed[2]} losses of 32), and where the start alone is random in {span(quiet)}. But only the "
        f"baseline is given noise. Against a plain network started at 0 the PESN's error is {min(ratio):.2f} to "
        f"{max(ratio):.2f} times as large (mean over the cells): {'a gain' if np.median(ratio) < GAIN else 'no gain'}."
    )
    if changes:
        others = [win_count(cells(frame, "P"), cells(frame, "MC"))[0] for frame in changes]
        reason += f" Where changes are learned in place of velocities it wins in {span(others)} cells."
    losses = [losses_of(frame) for frame in frames]
    counted = [win_count(cells(frame, "P"), cells(frame, "MC"))[2] for frame in frames]
    worst = max(float((cells(frame, "P") / cells(frame, "MC") - 1.0).max()) for frame in frames)
    average = [draw.value for draw in losses if draw.value is not None]
    ours, theirs = (np.array(list(published("mean", which).values())) for which in ("P", "MC"))
    small = f"The PESN loses in {span(counted)} of {n} cells"
    if max(counted):
        small += f", there by {min(average):.1%} to {max(average):.1%} of the other's error on average and {worst:.1%} at most"
    small += f". In the paper it loses in {printed[2]}, by at most {(ours / theirs - 1.0).max():.1%}."
    return [
        over_draws("washout-wins", wins, reason, measure="the PESN's error ÷ that of a plain network from 0", limits=[GAIN]),
        over_draws(
            "washout-small-losses", losses, small, measure="loss where it loses, mean share of the other's error", limits=[SMALL]
        ),
    ]


def span(values: Sequence[int]) -> str:
    """The median with its range, where there is one."""
    low, high = min(values), max(values)
    return f"{np.median(values):g} ({low} to {high})" if low < high else f"{low}"
