"""What the entropy of the units' values says about synchronisation, and what does say it: the distance between starts.

>>> steps_until([1.0, 0.3, 0.02, 0.005], 0.01), steps_until([1.0, 0.3], 0.01)
(4, None)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.metrics import entropy
from pesn.paper.items import network as cart
from pesn.paper.items.network import Network
from pesn.paper.result import Record, Result, Settings, Tasks
from pesn.paper.settings import Setting, number, several, whole
from pesn.paper.verdict import Verdict
from pesn.plotting import COLOURS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from pesn.systems import Trajectories

__all__ = ["ABOUT", "CLAIMS", "ERRATA", "LENGTHS", "NAME", "PLACE", "PUBLISHED", "SETTINGS", "TITLE", "parameters", "run"]


NAME = "entropy"
TITLE = "Entropy of the units, and how soon they forget their start"
PLACE = "Table 3"
ABOUT = (
    "The paper takes the Shannon entropy of the units' values during washout as a measure of synchronisation, finds it "
    "lower for the PESN than for a network started at random, and concludes that the PESN reaches the echo state property "
    "sooner. The entropies are computed here as a histogram over units and washout steps. Beside them stands what "
    "synchronisation is: how far apart the units of networks are that started differently, and how far from those of a "
    "network driven for long."
)
ERRATA = (15,)
CLAIMS = ("entropy-lower", "echo-state-sooner")
LENGTHS = (1, 10, 20, 30, 40, 50, 100, 200)
STATISTICS = ("mean", "min", "max")
METHODS = ("P", "MC", "zero start")
CURVES = ("P", "MC", "zero start", "learned start", "spread", "PESN's own deviation")
FORGOTTEN = 0.01  # of the units' deviation in the long run: closer than that, a start is forgotten

# The paper's entropy table (under the caption of the washout table): P and MC of the mean, of the min, of the max, in bits.
PUBLISHED: dict[int, tuple[float, ...]] = {
    1: (5.42, 5.54, 5.42, 5.54, 5.42, 5.551),
    10: (5.62, 5.69, 5.61, 5.69, 5.62, 5.70),
    20: (5.83, 5.86, 5.82, 5.86, 5.84, 5.87),
    30: (5.89, 5.94, 5.88, 5.93, 5.89, 5.94),
    40: (5.78, 5.93, 5.77, 5.92, 5.78, 5.93),
    50: (5.62, 5.87, 5.62, 5.86, 5.62, 5.88),
    100: (5.35, 5.71, 5.35, 5.70, 5.35, 5.72),
    200: (4.94, 5.42, 4.94, 5.41, 4.95, 5.45),
}


SETTINGS = {
    "lengths": Setting("Washout lengths, in rows.", several(whole(1))),
    "trials": Setting("Washouts, each at its own place and with its own random starts; the paper's are 50.", whole(1)),
    "samples": Setting("Random starts for each of them; the paper's are 50.", whole(2)),
    "start_std": Setting("Deviation of the Gaussian that a network starts from; the paper prints none.", number(0.0)),
    "bins": Setting("Bins of the histogram on [−1, 1]; the paper prints none.", whole(2)),
    "steps": Setting("Steps over which distances between starts are followed.", whole(2)),
    "chunk": Setting("Washouts in a unit of work.", whole(1)),
    **cart.SETTINGS,
}


def parameters(quick: bool) -> Record:
    """The paper's 50 trials of 50 samples, or few of each."""
    return {
        "lengths": list(LENGTHS),
        "trials": 10 if quick else 50,
        "samples": 20 if quick else 50,
        "start_std": 0.5,
        "bins": 64,
        "steps": 200,
        "chunk": 5,
        "network": cart.parameters(),
    }


def run(settings: Settings, tasks: Tasks) -> Result:
    """The entropy table, the distances over the steps of a washout, and the two claims."""
    p = settings.parameters
    network, test = cart.learn(p["network"], settings.seeds(1, stream=1)[0])
    # as many rows again before the start: what has been driven so long has forgotten its own
    before = max(*p["lengths"], p["steps"])
    at = cart.origins(p["trials"], 2 * before, 1, len(test.states))
    seeds = settings.seeds(p["trials"])
    given = p["lengths"], p["samples"], p["start_std"], p["bins"], p["steps"]
    units = [(network, test, at[part], seeds[part], *given) for part in cart.chunks(len(at), p["chunk"])]
    entropies, curves = (np.concatenate(each) for each in zip(*tasks.map(trials, units), strict=True))
    frame, distances = as_frame(entropies, curves, p["lengths"]), mean_curves(curves)
    tables = {"Shannon entropy of the units during washout, bits": table(frame), "Units after washout": spreads(frame)}
    tables["Steps until a start is forgotten"] = forgetting(distances)
    return Result(frame, tables, {"entropy": (_draw(frame, distances), _ALT)}, judge(frame, distances), _notes(p, distances))


# ---------------------------------------------------------------- the work


def trials(
    network: Network,
    test: Trajectories,
    origins: Sequence[int],
    seeds: Sequence[int],
    lengths: Sequence[int],
    samples: int,
    start_std: float,
    bins: int,
    steps: int,
) -> tuple[Array, Array]:
    """Entropies (origins, lengths, methods) of the washouts that end at each origin, and distances (origins, curves, steps).

    The distances follow one washout of ``steps`` rows: root mean squares over the units, as a share of the units' deviation
    in the long run. Of P, MC, the zero and the learned start: from the units of a network that has been driven twice as long;
    "spread": the deviation between the random starts; last the deviation that the PESN itself gives for its units.
    """
    B, n = len(origins), network.n_units
    drawn = np.concatenate([start_std * np.random.default_rng(seed).standard_normal((samples, n)) for seed in seeds])
    many = np.repeat(np.arange(B), samples)
    rest, wide = np.zeros((B, n)), np.full((B, n), start_std**2)
    entropies = np.empty((B, len(lengths), len(METHODS)))
    for i, rows in enumerate(lengths):
        z, fed = network.observed(test, origins, rows)
        gaussian, _ = network.drive_gaussian(rest, wide, z, fed)
        zero = network.drive(rest, z, fed)
        each = network.drive(drawn, z[:, many], fed[:, many])
        for b in range(B):
            random = [of_units(each[:, j], bins) for j in np.flatnonzero(many == b)]
            entropies[b, i] = of_units(gaussian[:, b], bins), np.mean(random), of_units(zero[:, b], bins)
    z, fed = network.observed(test, origins, 2 * steps)
    truth = network.drive(rest, z, fed)[steps:]
    z, fed = network.observed(test, origins, steps)
    mean, var = network.drive_gaussian(rest, wide, z, fed)
    each = network.drive(drawn, z[:, many], fed[:, many]).reshape(steps, B, samples, n)
    learned = np.empty_like(truth)
    given = network.forecaster.esn_.start_
    assert given is not None  # learnt in fit
    learned[0] = [given.given(row[None])[0] for row in z[0]]
    learned[1:] = network.drive(learned[0], z[1:], fed[1:])
    away = [_rms(mean - truth), _rms(each - truth[:, :, None]).mean(axis=2), _rms(network.drive(rest, z, fed) - truth)]
    spread = np.sqrt(each.var(axis=2, ddof=1).mean(axis=-1))
    curves = np.stack([*away, _rms(learned - truth), spread, np.sqrt(var.mean(axis=-1))])
    long_run_std = np.sqrt(np.square(given.stationary()[1]).sum(axis=0).mean())
    return entropies, np.moveaxis(curves / long_run_std, 2, 0)


def of_units(values: Array, bins: int) -> float:
    """The entropy of a histogram on [−1, 1]; the few random starts beyond, which the leak keeps for a step or two, in the "
    "end bins."""
    return entropy(np.clip(values, -1.0, 1.0), bins)


def _rms(values: Array) -> Array:
    return np.asarray(np.sqrt(np.square(values).mean(axis=-1)))


# ---------------------------------------------------------------- what it says


def as_frame(entropies: Array, curves: Array, lengths: Sequence[int]) -> pd.DataFrame:
    """A row for each washout length: entropies over the trials, and the distances after as many steps of a washout."""
    import pandas as pd

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
    """Distances over the steps, averaged over the trials."""
    import pandas as pd

    frame = pd.DataFrame(curves.mean(axis=0).T, columns=list(CURVES))
    frame.insert(0, "step", np.arange(1, len(frame) + 1))
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Published and obtained side by side; the lower mean is the better one."""
    import pandas as pd

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
    """What the entropy is meant to tell, as shares of the units' deviation in the long run."""
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
    """Steps after which the distance is below the share and stays there; None where it is not."""
    above = np.flatnonzero(np.asarray(distance, float) >= share)
    steps = 1 if len(above) == 0 else int(above[-1]) + 2
    return steps if steps <= len(np.asarray(distance)) else None


def forgetting(distances: pd.DataFrame) -> pd.DataFrame:
    """For each start the steps until its units are within 1 % of those of a network driven for long."""
    import pandas as pd

    names = {
        "MC": "random start, N(0, 0.5² I)",
        "P": "PESN from the same Gaussian",
        "zero start": "0",
        "learned start": "learned",
    }
    steps = [steps_until(distances[name]) for name in names]
    return pd.DataFrame({"start": list(names.values()), "steps": [k if k is not None else f"> {len(distances)}" for k in steps]})


def judge(frame: pd.DataFrame, distances: pd.DataFrame) -> list[Verdict]:
    """Both claims, by the entropies and the distances of this run."""
    return [_judge_entropy(frame), _judge_echo_state(distances)]


def _judge_entropy(frame: pd.DataFrame) -> Verdict:
    P, MC, zero, spread = (frame[name].to_numpy() for name in ("P mean", "MC mean", "zero start mean", "spread"))
    lower, n = int((P < MC).sum()), len(P)
    lengths = frame["washout"].to_numpy()
    rises = P[-1] > P[0] and spread[-1] < spread[0]
    reason = (
        f"The PESN's entropy is lower at {lower} of {n} washout lengths, by {(MC - P).max():.2f} bits at most and "
        f"{(MC - P).min():.3f} at least ({P.min():.2f} to {P.max():.2f} bits; the paper prints 4.94 to 5.89). A network "
        f"started at 0 has the PESN's entropy to {np.abs(P - zero).max():.2f} bits, and a lower one than random starts at "
        f"{int((zero < MC).sum())} of {n} lengths: only the baseline was given noise."
    )
    if rises:
        reason += (
            f" Nor does entropy measure synchronisation: from washout {lengths[0]} to {lengths[-1]} it rises from "
            f"{P[0]:.2f} to {P[-1]:.2f} bits, while the spread between random starts falls from {spread[0]:.2g} to "
            f"{spread[-1]:.1g} of the units' deviation."
        )
    return Verdict("entropy-lower", "holds" if lower == n else "does not hold", reason)


def _judge_echo_state(distances: pd.DataFrame) -> Verdict:
    never = len(distances) + 1
    found = {name: steps_until(distances[name]) for name in ("P", "MC", "zero start", "learned start")}
    P, MC, zero, learned = (never if steps is None else steps for steps in found.values())
    said = {name: f"more than {len(distances)}" if steps is None else str(steps) for name, steps in found.items()}
    reason = (
        f"Steps until the units are within {FORGOTTEN:.0%} of those of a network driven for long: random start "
        f"{said['MC']}, PESN {said['P']}, plain network from 0 {said['zero start']}, learned start {said['learned start']}."
    )
    if P < MC and zero > P:
        return Verdict("echo-state-sooner", "holds", f"{reason} The PESN is there first.")
    if P < MC:
        return Verdict(
            "echo-state-sooner",
            "corrected",
            f"{reason} The PESN is {MC - P} ahead of a random start, which begins further away, and not ahead of a start at "
            "0: it gains by leaving out the noise. How fast a start is forgotten belongs to the weights and inputs, which "
            f"all share{'; a start learned from the first row gains more' if learned < P else ''}.",
        )
    return Verdict("echo-state-sooner", "does not hold", f"{reason} The PESN is no sooner than a random start.")


def _notes(p: Record, distances: pd.DataFrame) -> list[str]:
    after = min(20, len(distances)) - 1
    claimed, real = distances["PESN's own deviation"].iloc[after], distances["spread"].iloc[after]
    return [
        f"The PESN of independent units forgets in its variance far sooner than networks do: after {after + 1} steps it claims a "
        f"deviation of {claimed:.1g} of the units' own, where random starts are still {real:.1g} apart. It drops the covariances "
        "between the units, which carry what is left of a start. This is no echo state reached sooner.",
        f"Entropy: the histogram of all units at all washout steps of one run, {p['bins']} bins on [−1, 1], in bits; of the "
        f"PESN the means; of MC the mean over {p['samples']} random starts. The paper does not print its bins.",
        "With few washout steps there are few values (100 after one step) and the entropy is low for that reason alone; "
        "more bins are filled as the inputs move on.",
        "The comparison is unfair in the way of the washout table: only the baseline is given the noise of a random start. "
        "The zero start, which the paper lacks, is shown beside it.",
        "The paper prints this table under the caption of the washout table.",
    ]


# ---------------------------------------------------------------- picture

_ALT = (
    "Left, entropy in bits against the washout length, published and obtained, for the PESN, the Monte Carlo ESN and an "
    "ESN started at 0; right, on a logarithmic axis, the distance of the units from those of a network driven for long "
    "against the steps since the start, for the same starts and a learned one, falling in parallel."
)


def _draw(frame: pd.DataFrame, distances: pd.DataFrame) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    blue, orange, green = COLOURS[:3]
    printed = [k for k in frame["washout"] if k in PUBLISHED]
    for m, (method, colour) in enumerate((("P", blue), ("MC", orange))):
        name = {"P": "PESN", "MC": "Monte Carlo ESN"}[method]
        left.plot(
            printed, [PUBLISHED[k][m] for k in printed], color=colour, linestyle="--", marker="^", label=f"{name}, published"
        )
        left.plot(frame["washout"], frame[f"{method} mean"], color=colour, marker="o", label=f"{name}, obtained")
    left.plot(frame["washout"], frame["zero start mean"], color="black", linestyle=":", marker=".", label="ESN from 0, obtained")
    left.set_xscale("log")
    left.set_xticks(list(frame["washout"]), [str(k) if k not in (30, 40) else "" for k in frame["washout"]])
    left.set_xticks([], minor=True)
    left.set(xlabel="washout length (rows of 0.02 s)", ylabel="entropy of the units (bits)")
    lines = {
        "MC": ("random start (mean)", orange, "-", 1.5),
        "P": ("PESN's mean", blue, "-", 2.5),
        "zero start": ("ESN from 0", "black", "--", 1.0),
        "learned start": ("learned start", green, "-", 1.5),
        "spread": ("spread across random starts", COLOURS[6], "-", 1.0),
        "PESN's own deviation": ("deviation that the PESN claims", COLOURS[5], "-.", 1.2),
    }
    for name, (label, colour, style, width) in lines.items():
        right.semilogy(distances["step"], distances[name], color=colour, linestyle=style, linewidth=width, label=label)
    right.axhline(FORGOTTEN, color="#666666", linewidth=0.8, linestyle=":")
    right.text(len(distances), FORGOTTEN * 1.2, f"forgotten: {FORGOTTEN:.0%}", ha="right", fontsize=8)
    right.set(xlabel="steps since the start (0.02 s)", ylabel="distance, of the units' deviation", ylim=(1e-8, 3.0))
    for ax in (left, right):
        ax.legend(frameon=False, fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    return figure
