"""Entropy of the units' values during washout, and the distance between starts, which measures synchronization.

>>> steps_until([1.0, 0.3, 0.02, 0.005], 0.01), steps_until([0.5, 0.001, 0.5, 0.001], 0.01)
(4, 4)
>>> steps_until([0.001, 0.001], 0.01), steps_until([1.0, 0.3], 0.01)
(1, None)
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from pesn import Gaussian
from pesn._support.types import Array, FloatArray
from pesn.metrics import entropy
from pesn.paper.claims import Draw, Record, Result, Settings, Tasks, Verdict, grade, over_draws, paper_numbers
from pesn.paper.item_settings import TABLES, Item, read_settings
from pesn.paper.items import figures, sensitivity
from pesn.paper.items.washout import LENGTHS, STATISTICS, Washout, origins, span

METHODS = ("P", "MC", "zero start")
CURVES = ("P", "MC", "zero start", "learned start", "spread", "PESN's own deviation")
_AHEAD = 3  # steps: fewer are no gain
_SAME = 0.005  # bits: closer than that, entropies are the same to the two digits that the paper prints
FORGOTTEN = 0.01  # of the units' deviation in the long run: closer than that, a start is forgotten

# P and MC of the mean, of the min, of the max, in bits.
PUBLISHED: dict[int, tuple[float, ...]] = {int(length): tuple(row) for length, row in paper_numbers("entropy").items()}

VARIED: sensitivity.Values = TABLES["varied"]["entropy"]
CHOICES: sensitivity.Values = TABLES["choices"]["entropy"]
_MEASURES = {"lower": "MC − P (bits)", "rise": "rise of P (bits)", "sooner": "P sooner (steps)"}


def run(settings: Settings, tasks: Tasks) -> Result:
    """Compute the entropy table, the distances over the steps of a washout, and the two claims."""
    p = settings.parameters
    found = tasks.map(one_draw, [(p, seed) for seed in settings.seeds(p["draws"])])
    frames = [as_frame(entropies, curves, p["lengths"]) for entropies, curves in found]
    curves = [mean_curves(curves) for _, curves in found]
    varied = sensitivity.study(settings, tasks, measure, VARIED)
    tried = sensitivity.search(settings, tasks, distances_to_print, CHOICES)
    return Result(
        pd.concat(frames, keys=range(1, len(frames) + 1), names=["draw", None]).reset_index(level="draw").reset_index(drop=True),
        {
            "Shannon entropy of the units during washout, bits, first draw": table(frames[0]),
            "Units after washout, first draw": spreads(frames[0]),
            "Steps until a start is forgotten, by draw": forgetting(curves),
            "The candidates closest to the published table": tried.head(8),
        },
        {"entropy": _draw(frames[0], curves[0]), "sensitivity": sensitivity.draw(varied, p, _MEASURES)},
        [_judge_entropy(frames), _judge_echo_state(curves)],
        lead=_lead(frames, tried),
        values=_values(p, curves[0], tried),
    )


def one_draw(p: Record, seed: int) -> tuple[Array, Array]:
    """Compute entropies (origins, lengths, methods) of the washouts before each origin, and distances (origins, curves, steps).

    One network on one set of runs. The distances follow one washout of ``steps`` rows: root mean squares over the units, as a
    share of the units' deviation in the long run. Of P, MC, the zero and the learned start: from the units of a network that
    has been driven twice as long; "spread": the deviation between the random starts; last the deviation that the PESN itself
    gives for its units, at the washout lengths alone.
    """
    here = Washout(p, seed, "level")
    esn, plain, z, rng = here.forecaster.esn_, here.plain, here.z, here.rng
    # as many rows again before the start: what has been driven so long has forgotten its own
    at = origins(p["trials"], 2 * max(*p["lengths"], p["steps"]), 1, len(z))
    n, steps = plain.n_units, p["steps"]
    drawn = p["start_std"] * rng.standard_normal((len(at), p["samples"], n))
    wide = Gaussian(np.zeros(n), var=np.full(n, p["start_std"] ** 2))
    entropies, curves = np.empty((len(at), len(p["lengths"]), len(METHODS))), np.full((len(at), len(CURVES), steps), np.nan)
    for b, origin in enumerate(at):
        for i, rows in enumerate(p["lengths"]):
            seen = z[origin - rows : origin]
            mean = esn.set_params(initial_state=wide).transform(seen)
            each = plain.drive(drawn[b], seen[:, None], p["noise"], rng)
            zero = plain.drive(np.zeros(n), seen)
            random = [unit_entropy(each[:, j], p["bins"]) for j in range(p["samples"])]
            entropies[b, i] = unit_entropy(mean, p["bins"]), np.mean(random), unit_entropy(zero, p["bins"])
        # how starts are forgotten, without the noise that comes anew
        seen, quiet = z[origin - steps : origin], copy.copy(esn).set_params(initial_state=wide, noise=0.0)
        truth = plain.drive(np.zeros(n), z[origin - 2 * steps : origin])[steps:]
        each = plain.drive(drawn[b], seen[:, None])
        curves[b, 0] = _rms(quiet.transform(seen) - truth)
        curves[b, 1] = _rms(each - truth[:, None]).mean(axis=1)
        curves[b, 2] = _rms(plain.drive(np.zeros(n), seen) - truth)
        curves[b, 4] = np.sqrt(each.var(axis=1, ddof=1).mean(axis=-1))
        for rows in (k for k in p["lengths"] if k <= steps):
            state = quiet.predict(seen[:rows], return_state=True)[-1]
            curves[b, 5, rows - 1] = 0.0 if state.var is None else np.sqrt(state.var.mean())
        curves[b, 3] = _rms(quiet.set_params(initial_state="learned").transform(seen) - truth)
    long_run_std = float(np.sqrt(plain.drive(np.zeros(n), z)[steps:].var(axis=0).mean()))
    return entropies, curves / long_run_std


def measure(p: Record, seed: int) -> dict[str, float]:
    """Reduce a small draw to three numbers."""
    entropies, curves = one_draw({**p, "trials": 2, "samples": min(p["samples"], 8)}, seed)
    P, MC, _ = entropies.mean(axis=0).T
    steps = {name: steps_until(curves[:, CURVES.index(name)].mean(axis=0)) or p["steps"] for name in ("P", "MC")}
    return {"lower": float((MC - P).mean()), "rise": float(P[-1] - P[0]), "sooner": float(steps["MC"] - steps["P"])}


def distances_to_print(p: Record, seed: int) -> dict[str, float]:
    """Return how far a candidate's entropies are from the published ones, in bits, root mean square over P and MC.

    From the same origins, and where each washout begins where the run does.
    """
    small = {**p, "trials": 2, "samples": min(p["samples"], 4), "lengths": list(LENGTHS), "steps": 2}
    entropies, _ = one_draw(small, seed)
    printed = np.array([PUBLISHED[k][:2] for k in LENGTHS])
    same = entropies[:, :, :2].mean(axis=0) - printed
    return {
        "same origins": float(np.sqrt(np.mean(np.square(same)))),
        "own place": float(np.sqrt(np.mean(np.square(entropies_from_run_start(small, seed) - printed)))),
    }


def entropies_from_run_start(p: Record, seed: int) -> Array:
    """Return the entropies (lengths, 2) of P and MC where each washout begins with the run."""
    here, rng = Washout(p, seed, "level"), np.random.default_rng([seed, 2])
    plain, z, n = here.plain, here.z, here.plain.n_units
    starts = p["start_std"] * rng.standard_normal((p["samples"], n))
    start, found = Gaussian(np.zeros(n), var=np.full(n, p["start_std"] ** 2)), []
    esn = here.forecaster.esn_.set_params(initial_state=start)
    for rows in p["lengths"]:
        each = plain.drive(starts, z[:rows, None], p["noise"], rng)
        random = np.mean([unit_entropy(each[:, j], p["bins"]) for j in range(len(starts))])
        found.append((unit_entropy(esn.transform(z[:rows]), p["bins"]), random))
    return np.array(found)


def unit_entropy(values: FloatArray, bins: int) -> float:
    """Return the entropy of a histogram on [−1, 1]; values beyond, of random starts and of noise, count in the end bins."""
    return entropy(np.clip(values, -1.0, 1.0), bins)


def _rms(values: Array) -> Array:
    return np.asarray(np.sqrt(np.square(values).mean(axis=-1)))


# ---------------------------------------------------------------- what it says


def as_frame(entropies: Array, curves: Array, lengths: Sequence[int]) -> pd.DataFrame:
    """Return a row for each washout length: entropies over the trials, and the distances after as many steps."""
    rows = []
    for i, length in enumerate(lengths):
        row: Record = {"washout": length}
        for m, method in enumerate(METHODS):
            found = entropies[:, i, m]
            row |= {f"{method} {name}": getattr(found, name)() for name in STATISTICS}
        after = min(length, curves.shape[2]) - 1
        row |= {f"distance {name}" if c < 4 else name: curves[:, c, after].mean() for c, name in enumerate(CURVES)}
        rows.append(row)
    return pd.DataFrame(rows)


def mean_curves(curves: Array) -> pd.DataFrame:
    """Average the distances over the trials, step by step."""
    frame = pd.DataFrame(curves.mean(axis=0).T, columns=list(CURVES))
    frame.insert(0, "step", np.arange(1, len(frame) + 1))
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Set published and obtained numbers side by side; the lower mean is the better one."""
    shown = pd.DataFrame({"washout": frame["washout"]})
    for s, statistic in enumerate(STATISTICS):
        for m, method in enumerate(METHODS[:2]):
            printed = [PUBLISHED[k][2 * s + m] if k in PUBLISHED else np.nan for k in frame["washout"]]
            shown[f"{method} {statistic} published"] = printed
            shown[f"{method} {statistic} obtained"] = frame[f"{method} {statistic}"]
    shown["zero start mean"] = frame["zero start mean"]
    for which, column in (("obtained", "better"), ("published", "better published")):
        lower = shown[f"P mean {which}"] < shown[f"MC mean {which}"]
        shown[column] = np.where(lower, f"P mean {which}", f"MC mean {which}")
    return shown


def spreads(frame: pd.DataFrame) -> pd.DataFrame:
    """Return distances between starts, as shares of the units' long-run standard deviation."""
    names = {
        "spread": "spread across random starts",
        "distance MC": "random start to washed out",
        "distance P": "PESN mean to washed out",
        "distance zero start": "zero start to washed out",
        "distance learned start": "learned start to washed out",
        "PESN's own deviation": "deviation that the PESN claims",
    }
    return frame[["washout", *names]].rename(columns=names)


def steps_until(distance: npt.ArrayLike, share: float = FORGOTTEN) -> int | None:
    """Return the steps after which the distance stays below the share; None where it does not."""
    above = np.flatnonzero(np.asarray(distance, float) >= share)
    steps = 1 if len(above) == 0 else int(above[-1]) + 2
    return steps if steps <= len(np.asarray(distance)) else None


def forgetting(curves: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tabulate the steps until each start is within 1 % of a network driven for long, by draw."""
    names = {"MC": "random start", "P": "PESN from the same Gaussian", "zero start": "0", "learned start": "learned"}
    steps = {
        text: [steps_until(distances[name]) or f"> {len(distances)}" for distances in curves] for name, text in names.items()
    }
    return pd.DataFrame({"draw": range(1, len(curves) + 1), **steps})


# ---------------------------------------------------------------- verdicts


def grade_entropy(frame: pd.DataFrame) -> Draw:
    """Grade one draw: the PESN's entropy is lower at every length, or the same to the paper's digits; corrected: at most."""
    margin = (frame["MC mean"] - frame["P mean"]).to_numpy()
    share = float((margin > -_SAME).mean())
    return Draw(grade(share == 1.0, share > 0.5), float(margin.min()))


def grade_forgetting(distances: pd.DataFrame) -> Draw:
    """Grade one draw: the PESN forgets before a random start and before a zero start; corrected where only before the first.

    A step or two against a start at 0 is no gain: it is counted from three on.
    """
    P, MC, zero = (crossing(distances[name].to_numpy()) for name in ("P", "MC", "zero start"))
    return Draw(grade(P < MC and zero - P >= _AHEAD, P < MC), MC - P)


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


def _judge_entropy(frames: Sequence[pd.DataFrame]) -> Verdict:
    draws = [grade_entropy(frame) for frame in frames]
    P, MC, zero, spread = (
        np.array([frame[name].to_numpy() for frame in frames]) for name in ("P mean", "MC mean", "zero start mean", "spread")
    )
    lengths, k = frames[0]["washout"].to_numpy(), P.shape[1]
    lower = (P < MC).sum(axis=1)
    apart, rise = MC - P, P[:, -1] - P[:, 0]
    values = {"lower": span(lower.tolist()), "lengths": k, "least": apart.min(), "most": apart.max(), "low": P.min()}
    values |= {"high": P.max(), "same": _SAME, "near": np.abs(P - zero).max(), "share": 100 * float((zero < MC).mean())}
    values |= {"first": lengths[0], "last": lengths[-1], "rise": rise.min(), "spread": spread[:, -1].max()}
    rises = (rise > 0.0).all() and (spread[:, -1] < spread[:, 0]).all()
    return over_draws("entropy-lower", draws, values, {"rises": rises}, limits=[0.0])


def _judge_echo_state(curves: Sequence[pd.DataFrame]) -> Verdict:
    draws = [grade_forgetting(distances) for distances in curves]
    never = len(curves[0]) + 1
    said = {}
    for name in ("MC", "P", "zero start", "learned start"):
        steps = [steps_until(one[name]) or never for one in curves]
        said[name] = span(steps).replace(str(never), f"more than {never - 1}")
    return over_draws("echo-state-sooner", draws, {**said, "near": FORGOTTEN, "ahead": _AHEAD}, limits=[0.0])


def _lead(frames: Sequence[pd.DataFrame], tried: pd.DataFrame) -> Record:
    P = np.array([frame["P mean"].to_numpy() for frame in frames])
    best, reading = sensitivity.closest(tried)
    start = {"own place": "each washout beginning where the run does", "same origins": "from the same origins"}[reading]
    values: Record = {"course": "rises" if (P[:, -1] > P[:, 0]).all() else "does not fall in every draw", "start": start}
    values |= {"first": np.median(P[:, 0]), "last": np.median(P[:, -1]), "tried": len(tried), "distance": best[reading]}
    return {**values, "own": tried.loc[tried["candidate"] == 1, "same origins"].iloc[0]}


def _values(p: Record, distances: pd.DataFrame, tried: pd.DataFrame) -> Record:
    """Return the values that the notes name."""
    after = max(k for k in p["lengths"] if k <= min(20, len(distances)))
    values = distances.iloc[after - 1]
    found = {"after": after, "claimed": values["PESN's own deviation"], "real": values["spread"], "best": tried.iloc[0]}
    return {**found, "closest": sensitivity.settings_text(tried.iloc[0], list(CHOICES))}


# ---------------------------------------------------------------- figure


def _draw(frame: pd.DataFrame, distances: pd.DataFrame) -> figures.Picture:
    figure, axes = figures.panels(2, 2, 5.6, height_ratios=(2, 1))
    (left, right), (spare, below) = axes
    left.set_subplotspec(left.get_gridspec()[:, 0])
    spare.remove()
    below.sharex(right)
    printed = [k for k in frame["washout"] if k in PUBLISHED]
    for m, (method, name, color) in enumerate((("P", "PESN", _RED), ("MC", "Monte Carlo ESN", _BLUE))):
        values = [PUBLISHED[k][m] for k in printed]
        left.plot(printed, values, color=color, linestyle="--", marker="^", label=f"{name}, published")
        left.plot(frame["washout"], frame[f"{method} mean"], color=color, marker="o", label=f"{name}, obtained")
    left.plot(frame["washout"], frame["zero start mean"], color="black", linestyle=":", marker=".", label="ESN from 0, obtained")
    figures.label_lengths(left, frame["washout"])
    left.set(xlabel="washout length (rows of 0.02 s)", ylabel="entropy of the units (bits)")
    known = distances["zero start"] > 1e-8
    for name, style in _STYLES.items():
        shown = distances[distances[name].notna()]
        right.semilogy(shown["step"], shown[name], marker="." if len(shown) < len(distances) else "", **style)
        if name in METHODS:  # these lie on each other above
            ratio = (distances[name] / distances["zero start"])[known & distances[name].notna()]
            below.plot(distances["step"][ratio.index], ratio, **style)
    below.set(xlabel="steps since the start (0.02 s)", ylabel="÷ ESN from 0's")
    right.axhline(FORGOTTEN, color="#666666", linewidth=0.8, linestyle=":")
    right.text(len(distances), FORGOTTEN * 1.2, f"forgotten: {FORGOTTEN:.0%}", ha="right", fontsize=8)
    right.set(ylabel="distance, of the units' deviation", ylim=(1e-8, 3.0))
    for ax in (left, right):
        ax.legend(frameon=False, fontsize=8)
    return figure, {}


_RED, _BLUE = figures.SPLINE, figures.MONTE_CARLO
_STYLES: dict[str, Record] = {
    "MC": {"label": "random start (mean)", "color": _BLUE, "linestyle": "-", "linewidth": 1.8},
    "P": {"label": "PESN's mean", **figures.line(_RED), "linewidth": 2.2},
    "zero start": {"label": "ESN from 0", "color": figures.TRUTH, "linestyle": (0, (2, 2)), "linewidth": 1.2},
    "learned start": {"label": "learned start", **figures.line(figures.OURS), "linewidth": 1.5},
    "spread": {"label": "spread across random starts", "color": _BLUE, "linestyle": ":", "linewidth": 1.4},
    "PESN's own deviation": {"label": "deviation that the PESN claims", "color": _RED, "linestyle": ":", "linewidth": 1.4},
}


ITEMS = (Item("entropy", read_settings("entropy", "draws", "search", "robots"), run, PUBLISHED, digits=".2f"),)
