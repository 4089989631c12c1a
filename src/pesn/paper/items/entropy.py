"""Entropy of the units' values during washout, and the distance between starts, which measures synchronization.

>>> steps_until([1.0, 0.3, 0.02, 0.005], 0.01), steps_until([0.5, 0.001, 0.5, 0.001], 0.01)
(4, 4)
>>> steps_until([0.001, 0.001], 0.01), steps_until([1.0, 0.3], 0.01)
(1, None)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from pesn._support.types import Array, FloatArray
from pesn.metrics import entropy
from pesn.paper.claims import UNFAIR, Draw, Record, Result, Settings, Tasks, Verdict, over_columns, over_draws, paper_numbers
from pesn.paper.item_settings import TABLES, Item, our_parameters, read_settings
from pesn.paper.items import figures, search
from pesn.paper.items.washout import COLUMNS, LENGTHS, STATISTICS, Washout, origins, span

METHODS = ("P", "MC", "zero start")
CURVES = ("P", "MC", "zero start", "spread", "PESN's own deviation")
_AHEAD = 3  # steps: fewer are no gain
_SAME = 0.005  # bits: closer than that, entropies are the same to the two digits that the paper prints
FORGOTTEN = 0.01  # of the units' deviation in the long run: closer than that, a start is forgotten

# P and MC of the mean, of the min, of the max, in bits.
PUBLISHED: dict[int, tuple[float, ...]] = {int(length): tuple(row) for length, row in paper_numbers("entropy").items()}

SETTINGS = read_settings("robots", "cart", "draws", "search", "entropy")
CHOICES: search.Values = TABLES["choices"]["entropy"]


def run(settings: Settings, tasks: Tasks) -> Result:
    """Compute the entropy table in the paper's regime and in ours, distances over the steps of a washout, and the two claims."""
    p, seeds = settings.parameters, settings.seeds(settings.parameters["draws"])
    own = our_parameters(SETTINGS, p)
    found = tasks.map(one_draw, [(q, seed) for q in (p, own) for seed in seeds])
    frames = [as_frame(entropies, p["lengths"]) for entropies in found]
    theirs, ours = frames[: len(seeds)], frames[len(seeds) :]
    curves = [mean_curves(one) for one in tasks.map(start_distances, [(own, seed) for seed in seeds])]
    tried = search.search(settings, SETTINGS, draw_distance, CHOICES)
    best = search.parameters_of(tried, p, CHOICES)
    fresh = {
        name: tasks.map(draw_distance, [(q, seed) for seed in seeds])
        for name, q in (("as in the paper", p), ("closest candidate", best), ("ours", own))
    }
    keys = [(column, i + 1) for column in COLUMNS for i in range(len(seeds))]
    return Result(
        pd.concat(frames, keys=keys, names=["column", "draw", None]).reset_index(level=["column", "draw"]).reset_index(drop=True),
        {
            "Distance to the published table in bits, on draws that the search has not seen": search.compare(
                fresh, null_distances()
            ),
            "Shannon entropy of the units during washout, bits, as in the paper, first draw": table(theirs[0]),
            "Shannon entropy of the units during washout, bits, ours, first draw": table(ours[0]),
            "Steps until a start is forgotten, by draw": forgetting(curves),
            "The candidates closest to the published table": tried.head(8),
        },
        {"entropy": _draw(theirs[0], ours[0]), "starts": _draw_starts(curves[0])},
        [_judge_entropy(theirs, ours), _judge_echo_state(curves)],
        lead=_lead(fresh),
        values={"closest": search.settings_text(tried.iloc[0], list(CHOICES)), **_claimed(p, curves[0])},
    )


def one_draw(p: Record, seed: int) -> Array:
    """Compute the entropies (trials, lengths, methods) of washouts: a trial is a start, or an origin where there are several."""
    here = Washout(p, seed)
    plain, var = here.plain, p["start_std"] ** 2
    starts = p["start_std"] * here.rng.standard_normal((p["trials"], p["samples"], plain.n_units))
    found = []
    for rows in p["lengths"]:
        at = here.origins(rows)
        seen, zero = here.z[at - rows + np.arange(rows)[:, None]], np.zeros((len(at), plain.n_units))
        mean, _ = plain.drive_gaussian(zero, var, seen, p["noise"])
        each = plain.drive(starts[: len(at)], seen[:, :, None], p["noise"], here.rng)
        random = np.array([[unit_entropy(each[:, b, s], p["bins"]) for s in range(each.shape[2])] for b in range(len(at))])
        quiet = plain.drive(zero, seen)
        P, none = ([unit_entropy(path[:, b], p["bins"]) for b in range(len(at))] for path in (mean, quiet))
        random = random[0] if len(at) == 1 else random.mean(axis=1)
        found.append(np.stack(np.broadcast_arrays(np.array(P), random, np.array(none)), axis=-1))
    return np.array(found).swapaxes(0, 1)


def start_distances(p: Record, seed: int) -> Array:
    """Compute distances (origins, curves, steps) over one washout of ``steps`` rows, as a share of the units' long-run deviation.

    Root mean squares over the units, of P, MC and the zero start: from the units of a network that has been driven twice as
    long. "spread": the deviation between the random starts; last the deviation that the PESN itself gives for its units. How
    starts are forgotten, without the noise that comes anew.
    """
    here, steps = Washout(p, seed), p["steps"]
    plain, z, n = here.plain, here.z, here.plain.n_units
    at = np.array(origins(p["trials"], 2 * max(*p["lengths"], steps), 1, len(z)))
    before = z[at - 2 * steps + np.arange(2 * steps)[:, None]]
    zero, seen = np.zeros((len(at), n)), before[steps:]
    truth = plain.drive(zero, before)[steps:]
    mean, var = plain.drive_gaussian(zero, p["start_std"] ** 2, seen)
    each = plain.drive(p["start_std"] * here.rng.standard_normal((len(at), p["samples"], n)), seen[:, :, None])
    curves = [
        _rms(mean - truth),
        _rms(each - truth[:, :, None]).mean(axis=2),
        _rms(plain.drive(zero, seen) - truth),
        np.sqrt(each.var(axis=2, ddof=1).mean(axis=-1)),
        np.sqrt(var.mean(axis=-1)),
    ]
    long_run_std = float(np.sqrt(plain.drive(np.zeros(n), z)[steps:].var(axis=0).mean()))
    return np.array(curves).transpose(2, 0, 1) / long_run_std


def draw_distance(p: Record, seed: int) -> float:
    """Return how far a draw's entropies are from the published ones, in bits, root mean square over P and MC."""
    small = {"trials": min(p["trials"], 2), "samples": min(p["samples"], 6), "lengths": list(LENGTHS)}
    P, MC, _ = one_draw({**p, **small}, seed).mean(axis=0).T
    printed = np.array([PUBLISHED[k][:2] for k in LENGTHS])
    return float(np.sqrt(np.mean(np.square(np.stack([P, MC], axis=1) - printed))))


def null_distances() -> dict[str, float]:
    """Return the distances of models that know nothing but a constant, in bits.

    >>> {name: round(bits, 3) for name, bits in null_distances().items()}
    {'one constant': 0.26, 'one constant each for P and MC': 0.242}
    """
    printed = np.array([PUBLISHED[k][:2] for k in LENGTHS])
    means = {"one constant": printed.mean(), "one constant each for P and MC": printed.mean(axis=0)}
    return {name: float(np.sqrt(np.mean(np.square(printed - mean)))) for name, mean in means.items()}


def unit_entropy(values: FloatArray, bins: int) -> float:
    """Return the entropy of a histogram on [−1, 1]; values beyond, of random starts and of noise, count in the end bins."""
    return entropy(np.clip(values, -1.0, 1.0), bins)


def _rms(values: Array) -> Array:
    return np.asarray(np.sqrt(np.square(values).mean(axis=-1)))


# ---------------------------------------------------------------- what it says


def as_frame(entropies: Array, lengths: Sequence[int]) -> pd.DataFrame:
    """Return a row for each washout length: entropies over the trials."""
    rows = []
    for i, length in enumerate(lengths):
        row: Record = {"washout": length}
        for m, method in enumerate(METHODS):
            row |= {f"{method} {name}": getattr(entropies[:, i, m], name)() for name in STATISTICS}
        rows.append(row)
    return pd.DataFrame(rows)


def mean_curves(curves: Array) -> pd.DataFrame:
    """Average the distances over the trials, step by step."""
    frame = pd.DataFrame(curves.mean(axis=0).T, columns=list(CURVES))
    frame.insert(0, "step", np.arange(1, len(frame) + 1))
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Set published and obtained numbers side by side; the lower mean is the better one, where they differ at all."""
    shown = pd.DataFrame({"washout": frame["washout"]})
    for s, statistic in enumerate(STATISTICS):
        for m, method in enumerate(METHODS[:2]):
            printed = [PUBLISHED[k][2 * s + m] if k in PUBLISHED else np.nan for k in frame["washout"]]
            shown[f"{method} {statistic} published"] = printed
            shown[f"{method} {statistic} obtained"] = frame[f"{method} {statistic}"]
    shown["zero start mean"] = frame["zero start mean"]
    for which, column in (("obtained", "better"), ("published", "better published")):
        P, MC = shown[f"P mean {which}"], shown[f"MC mean {which}"]
        lower = np.where(P < MC, f"P mean {which}", f"MC mean {which}")
        shown[column] = np.where(np.abs(P - MC) <= _SAME, "", lower)
    return shown


def steps_until(distance: npt.ArrayLike, share: float = FORGOTTEN) -> int | None:
    """Return the steps after which the distance stays below the share; None where it does not."""
    above = np.flatnonzero(np.asarray(distance, float) >= share)
    steps = 1 if len(above) == 0 else int(above[-1]) + 2
    return steps if steps <= len(np.asarray(distance)) else None


def forgetting(curves: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tabulate the steps until each start is within 1 % of a network driven for long, by draw."""
    names = {"MC": "random start", "P": "PESN from the same Gaussian", "zero start": "0"}
    steps = {
        text: [steps_until(distances[name]) or f"> {len(distances)}" for distances in curves] for name, text in names.items()
    }
    return pd.DataFrame({"draw": range(1, len(curves) + 1), **steps})


# ---------------------------------------------------------------- verdicts


def grade_entropy(frame: pd.DataFrame) -> Draw:
    """Grade one draw: the PESN's entropy is lower at every length, also than from a start at 0; or at most lengths than MC's."""
    MC, zero = ((frame[f"{name} mean"] - frame["P mean"]).to_numpy() for name in METHODS[1:])
    lower = min(MC.min(), zero.min()) > _SAME
    most = 2 * np.count_nonzero(MC > _SAME) > len(MC)
    return Draw("holds" if lower else UNFAIR if most else "does not hold", float(np.median(MC)))


def grade_forgetting(distances: pd.DataFrame) -> Draw:
    """Grade one draw: the PESN forgets before a random start and before a zero start, or only before the first.

    A step or two against a start at 0 is no gain: it is counted from three on.
    """
    P, MC, zero = (crossing(distances[name].to_numpy()) for name in ("P", "MC", "zero start"))
    return Draw("does not hold" if P >= MC else "holds" if zero - P >= _AHEAD else UNFAIR, MC - P)


def crossing(distance: npt.ArrayLike, share: float = FORGOTTEN) -> float:
    """Interpolate :func:`steps_until` along straight lines in the logarithm; one more than all steps if never.

    >>> crossing([1.0, 0.1, 0.001], 0.01), crossing([1.0, 0.3], 0.01)
    (2.5, 3.0)
    """
    values = np.asarray(distance, float)
    above = np.flatnonzero(values >= share)
    if len(above) == 0:
        return 1.0
    last = int(above[-1])
    if last + 1 == len(values):
        return len(values) + 1.0
    return float(last + 1 + np.log(values[last] / share) / np.log(values[last] / values[last + 1]))


def _judge_entropy(theirs: Sequence[pd.DataFrame], ours: Sequence[pd.DataFrame]) -> Verdict:
    draws = [[grade_entropy(frame) for frame in frames] for frames in (theirs, ours)]
    values: Record = {"lengths": len(theirs[0]), "same": _SAME}
    for name, frames in (("theirs", theirs), ("ours", ours)):
        P, MC, zero = (np.array([frame[f"{method} mean"].to_numpy() for frame in frames]) for method in METHODS)
        lower, equal = (np.median(part.sum(axis=1)) for part in (MC - P > _SAME, np.abs(zero - P) <= _SAME))
        values[name] = {"lower": lower, "equal": equal, "gap": np.median(MC - P), "fall": np.median(P[:, 0] - P[:, -1])}
    return over_columns("entropy-lower", draws, values, limits=[_SAME])


def _judge_echo_state(curves: Sequence[pd.DataFrame]) -> Verdict:
    draws = [grade_forgetting(distances) for distances in curves]
    never = len(curves[0]) + 1
    said = {}
    for name in ("MC", "P", "zero start"):
        steps = [steps_until(one[name]) or never for one in curves]
        said[name] = span(steps).replace(str(never), f"more than {never - 1}")
    return over_draws("echo-state-sooner", draws, {**said, "near": FORGOTTEN, "ahead": _AHEAD}, limits=[0.0])


def _lead(fresh: Mapping[str, Sequence[float]]) -> Record:
    medians, null = {name: float(np.median(some)) for name, some in fresh.items()}, min(null_distances().values())
    verdict = "closer than" if medians["as in the paper"] < null else "no closer than"
    return {"distance": medians["as in the paper"], "ours": medians["ours"], "null": null, "verdict": verdict}


def _claimed(p: Record, distances: pd.DataFrame) -> Record:
    """Return what the PESN claims of its units after 20 steps, and what random starts show."""
    after = max(k for k in p["lengths"] if k <= min(20, len(distances)))
    values = distances.iloc[after - 1]
    return {"after": after, "claimed": values["PESN's own deviation"], "real": values["spread"]}


# ---------------------------------------------------------------- figures


def _draw(theirs: pd.DataFrame, ours: pd.DataFrame) -> figures.Picture:
    figure, axes = figures.panels(1, 2, 4.2, sharey=True)
    for ax, frame, title in zip(axes[0], (theirs, ours), COLUMNS, strict=True):
        printed = [k for k in frame["washout"] if k in PUBLISHED]
        for m, (method, name, color) in enumerate((("P", "PESN", _RED), ("MC", "Monte Carlo ESN", _BLUE))):
            ax.plot(
                printed, [PUBLISHED[k][m] for k in printed], color=color, linestyle="--", marker="^", label=f"{name}, published"
            )
            ax.plot(frame["washout"], frame[f"{method} mean"], color=color, marker="o", label=f"{name}, obtained")
        ax.plot(
            frame["washout"], frame["zero start mean"], color="black", linestyle=":", marker=".", label="ESN from 0, obtained"
        )
        figures.label_lengths(ax, frame["washout"])
        ax.set_title(title, fontsize=10)
    figures.label_outside(axes, "washout length (rows)", "entropy of the units (bits)")
    figures.legend(figure, axes[0, 0], 3, "lower")
    return figure, {}


def _draw_starts(distances: pd.DataFrame) -> figures.Picture:
    figure, axes = figures.panels(1, 1, 3.8)
    (ax,) = axes.ravel()
    for name, style in _STYLES.items():
        ax.semilogy(distances["step"], distances[name], **style)
    ax.axhline(FORGOTTEN, color="#666666", linewidth=0.8, linestyle=":")
    ax.text(len(distances), FORGOTTEN * 1.2, f"forgotten: {FORGOTTEN:.0%}", ha="right", fontsize=8)
    ax.set(xlabel="steps since the start", ylabel="distance, of the units' deviation", ylim=(1e-8, 3.0))
    ax.legend(frameon=False, fontsize=8)
    return figure, {}


_RED, _BLUE = figures.SPLINE, figures.MONTE_CARLO
_STYLES: dict[str, Record] = {
    "MC": {"label": "random start (mean)", "color": _BLUE, "linestyle": "-", "linewidth": 1.8},
    "P": {"label": "PESN's mean", **figures.line(_RED), "linewidth": 2.2},
    "zero start": {"label": "ESN from 0", "color": figures.TRUTH, "linestyle": (0, (2, 2)), "linewidth": 1.2},
    "spread": {"label": "spread across random starts", "color": _BLUE, "linestyle": ":", "linewidth": 1.4},
    "PESN's own deviation": {"label": "deviation that the PESN claims", "color": _RED, "linestyle": ":", "linewidth": 1.4},
}


ITEMS = (Item("entropy", SETTINGS, run, PUBLISHED, digits=".2f"),)
