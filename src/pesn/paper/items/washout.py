"""Forecast errors after washouts of several lengths: the paper's table, with the baselines it lacks.

>>> len(PUBLISHED), len(LENGTHS)
(4, 8)
>>> win_count([0.1, 0.2, 0.3], [0.2, 0.20001, 0.2])  # wins, ties, losses
(1, 1, 1)
>>> span([4, 7, 5]), span([3, 3])
('5 (4 to 7)', '3')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from pesn import Gaussian, ProbabilisticESN
from pesn._support.types import Array, Target
from pesn.paper.claims import Draw, Record, Result, Settings, Tasks, Verdict, grade, over_draws, paper_numbers
from pesn.paper.item_settings import TABLES, Item, read_settings
from pesn.paper.items import figures, robots, sensitivity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LENGTHS = (1, 10, 20, 30, 40, 50, 100, 200)
STATES = ("position", "velocity", "angle", "angular velocity")  # in the order of the paper's table
_COLUMNS = [0, 2, 1, 3]  # where each stands in [x, θ, ẋ, ω]
METHODS = (
    "P",
    "MC",
    "MC without noise",
    "zero start",
    "mean of forecasts",
    "P, weights updated inside",
    "Algorithm 3 to the letter",
    "filtered start",
)


class Washout:
    """A network that has learned the cart pole, and a run that it has not seen."""

    def __init__(self, p: Record, seed: int, target: Target) -> None:
        self.p, self.seed, self.target = p, seed, target
        self.forecaster, runs = robots.learn(robots.CART_POLE, p, seed, target)
        self.training, self.test = runs[: len(runs) - 1], runs[len(runs) - 1]
        self.plain = robots.PlainNetwork(self.forecaster)
        self.y, self.u = self.forecaster.standardize(self.test.states, self.test.inputs)
        self.z = np.hstack([self.y, self.u])
        self.rng = np.random.default_rng([seed, 1])

    def errors(self, states: Array, origin: int) -> Array:
        """Return |forecast − truth| (…, 4), averaged over the steps of scaled states (T, …, d), in the units of the table."""
        truth = self.y[origin + 1 : origin + 1 + len(states)]
        wrong = np.abs(states - truth.reshape(len(truth), *[1] * (states.ndim - 2), -1)).mean(axis=0)
        found: Array = (wrong * self.forecaster.scale_.y_std)[..., _COLUMNS]
        return found

    # ---------------------------------------------------------------- the PESN, by the front door

    def gaussian(self, origin: int, rows: int) -> Array:
        """Return the PESN's mean (T, d), scaled: from N(0, σ² I) over ``rows`` known rows, then in closed loop."""
        n, p, f = self.plain.n_units, self.p, self.forecaster
        f.esn_.set_params(initial_state=Gaussian(np.zeros(n), var=np.full(n, p["start_std"] ** 2)))
        state: robots.State = f.esn_.predict(self.z[origin - rows : origin], return_state=True)[-1]
        var = np.zeros(n) if state.var is None else state.var
        f.esn_.set_params(initial_state=Gaussian(state.mean, var=var))
        context, ahead = self.test.states[origin : origin + 1], self.test.inputs[origin : origin + p["horizon"]]
        return f.standardize(f.forecast(p["horizon"], context, ahead, parts=("state",)).mean, ahead)[0]

    # ---------------------------------------------------------------- plain networks

    def plain_errors(self, origin: int, rows: int, starts: Array, noise: float) -> tuple[Array, Array]:
        """Return errors (samples, 4) of the networks from each of ``starts``, and (4,) of the mean of their forecasts."""
        h = self.plain.drive(starts, self.z[origin - rows : origin, None], noise, self.rng)[-1]
        known = self.u[origin : origin + self.p["horizon"], None]
        states = self.plain.forecast(h, self.y[origin], known, noise=noise, rng=self.rng)
        return self.errors(states, origin), self.errors(states.mean(axis=1), origin)

    # ---------------------------------------------------------------- weights updated inside the forecast

    def algorithm_errors(self, origin: int, rows: int) -> Array:
        """Return errors (4,) of Algorithm 3 in closed loop, weights updated by the outputs that it is to forecast."""
        ahead = slice(origin, origin + self.p["horizon"])
        state = robots.washout_state(self.forecaster.esn_, self.z[origin - rows : origin])
        truth = self.y[origin + 1 : ahead.stop + 1]
        states, _, _ = robots.forecast_with_updates(
            self.forecaster.esn_, self.plain, state, self.y[origin], np.zeros(4), self.u[ahead], truth
        )
        return self.errors(states, origin)

    def letter_errors(self, esn: ProbabilisticESN, origin: int, rows: int) -> Array:
        """Return errors (4,) of Algorithm 3 to the letter: the true states go in, μ_y is fed back, the weights see the future."""
        ahead = slice(origin, origin + self.p["horizon"])
        states = robots.states_to_the_letter(
            esn, self.plain, self.z[origin - rows : origin], self.z[ahead], self.y[origin : ahead.stop + 1]
        )
        return self.errors(states, origin)


def one_draw(p: Record, seed: int, target: Target, filtered: bool) -> Array:
    """Compute errors (methods, trials, lengths, 4) of one network on one set of runs, the same origins for every length.

    What was not asked for is NaN: ``filtered``, whether the filtered start is; the weights are updated in some trials alone.
    """
    return fair_errors(Washout(p, seed, target), filtered)


def fair_errors(here: Washout, filtered: bool) -> Array:
    """Compute the errors of :func:`one_draw` with a trained network."""
    p = here.p
    at = origins(p["trials"], max(p["lengths"]), p["horizon"], len(here.test.states))
    starts = p["start_std"] * here.rng.standard_normal((p["trials"], p["samples"], here.plain.n_units))
    found = np.full((len(METHODS), len(at), len(p["lengths"]), 4), np.nan)
    # spread over the run, as the trials are
    chosen = {int(k) for k in np.linspace(0, len(at) - 1, p["updated_trials"])}
    esn = robots.train_feedback_network(here.forecaster, here.training, p, here.seed) if chosen else None
    own: Record = {"covariance": "full", "initial_state": "learned", "noise": 0.0, "process_noise": 1e-4}
    filter_ = robots.learn(robots.CART_POLE, p, here.seed, here.target, **own)[0] if filtered else None
    for b, origin in enumerate(at):
        zero = np.zeros((1, here.plain.n_units))
        for i, rows in enumerate(p["lengths"]):
            noisy, _ = here.plain_errors(origin, rows, starts[b], p["noise"])
            quiet, mean = here.plain_errors(origin, rows, starts[b], 0.0)
            by_name = {
                "P": here.errors(here.gaussian(origin, rows), origin),
                "MC": noisy.mean(axis=0),
                "MC without noise": quiet.mean(axis=0),
                "zero start": here.plain_errors(origin, rows, zero, 0.0)[1],
                "mean of forecasts": mean,
            }
            if esn is not None and b in chosen:
                by_name["P, weights updated inside"] = here.algorithm_errors(origin, rows)
                by_name["Algorithm 3 to the letter"] = here.letter_errors(esn, origin, rows)
            if filter_ is not None:
                seen = slice(origin - min(rows, p["most_filtered"]), origin + 1)
                context = here.test.states[seen], here.test.inputs[seen][:-1]
                ahead = here.test.inputs[origin : origin + p["horizon"]]
                mean = filter_.forecast(p["horizon"], context, ahead).mean
                by_name["filtered start"] = here.errors(filter_.standardize(mean, ahead)[0], origin)
            for name, errors in by_name.items():
                found[METHODS.index(name), b, i] = errors
    return found


def one_place(p: Record, seed: int, target: Target) -> Array:
    """Compute errors (lengths, 4, 4) where each length is forecast from its own position: the washout begins with the run.

    Of P, and of MC mean, least and largest over the samples. Nothing but the starts and the noise differs from trial to trial.
    """
    return place_errors(Washout(p, seed, target))


def place_errors(here: Washout) -> Array:
    """Compute the errors of :func:`one_place` with a trained network."""
    p = here.p
    starts = p["start_std"] * here.rng.standard_normal((p["samples"], here.plain.n_units))
    found = []
    for rows in p["lengths"]:
        each, _ = here.plain_errors(rows, rows, starts, p["noise"])
        own = here.errors(here.gaussian(rows, rows), rows)
        found.append((own, each.mean(axis=0), each.min(axis=0), each.max(axis=0)))
    return np.array(found)


def origins(n: int, before: int, after: int, rows: int) -> list[int]:
    """Return n forecast origins, spread evenly over a run of ``rows``, each with enough rows before and after it.

    >>> origins(3, before=200, after=10, rows=2500)
    [200, 1344, 2489]
    """
    if before + after >= rows:
        raise ValueError(f"rows must be more than {before + after}, before and after an origin, got {rows}")
    return [int(k) for k in np.linspace(before, rows - after - 1, n)]


def span(values: Sequence[int]) -> str:
    """Format the median with its range, where there is one."""
    low, high = min(values), max(values)
    return f"{np.median(values):g} ({low} to {high})" if low < high else f"{low}"


# ---------------------------------------------------------------- the item


# For each state and length P and MC of the mean, of the min, of the max.
PUBLISHED: dict[str, dict[int, list[float]]] = {
    state: {int(length): row for length, row in rows.items()} for state, rows in paper_numbers("washout").items()
}

VARIED: sensitivity.Values = TABLES["varied"]["washout"]
CHOICES: sensitivity.Values = TABLES["choices"]["washout"]
LABELS = {"position": "x (m)", "velocity": "ẋ (m/s)", "angle": "θ (rad)", "angular velocity": "ω (rad/s)"}
STATISTICS = ("mean", "min", "max")
TIE = 1e-4  # errors that agree to the four digits of the paper's table are equal: beyond, the start is forgotten
GAIN = 0.95  # of a plain network's error: what is closer to it gains nothing
SMALL = 0.1  # losses are small up to here, on average and as a share of the other's error: the paper's largest is 2 %
_MEASURES = {
    "ratio": "P's error ÷\npublished",
    "against": "P's error ÷\nMC's",
    "updated": "P updated inside\n÷ P",
}


def run(settings: Settings, tasks: Tasks) -> Result:
    """Compute the table, its published counterpart and the verdicts on the two claims."""
    p = settings.parameters
    seeds = settings.seeds(p["draws"])
    beside = {**p, "updated_trials": 0}  # what is shown of changes are the starts alone
    draws = [(target, i) for i in range(1, p["draws"] + 1) for target in ("level", "change")]
    units = [(p if t == "level" else beside, seeds[i - 1], t, i == 1 and t == "level") for t, i in draws]
    frame = as_frame(dict(zip(draws, tasks.map(one_draw, units), strict=True)), p["lengths"])
    by_draw = dict(list(frame.groupby(["target", "draw"], sort=False)))
    levels, changes = ([by_draw[target, i + 1] for i in range(p["draws"])] for target in ("level", "change"))
    (place,) = tasks.map(one_place, [(p, seeds[0], "level")])
    varied = sensitivity.study(settings, tasks, measure, VARIED)
    tried = sensitivity.search(replace(settings, parameters={**p, "target": "level"}), tasks, distances, CHOICES)
    best = {name: value.item() if isinstance(value, np.generic) else value for name, value in tried.iloc[0].items()}
    chosen = {**p, **{name: best[name] for name in CHOICES}}
    (match,) = tasks.map(one_place, [(chosen, best["seed"], best["target"])])
    spread = place[:, 3] - place[:, 2]
    return Result(
        frame=frame,
        tables={
            **tables(frame),
            "Each length from its own place on one run, beside the same origins for every length": own_place_table(
                place, levels[0], p["lengths"]
            ),
            "Cells in which the PESN wins, ties and loses, by draw": counts(frame),
            "The candidates closest to the published table": tried.head(8),
        },
        figures={
            "errors": _draw_errors(levels[0]),
            "own-place": _draw_own_place(place, match, levels[0], p["lengths"]),
            "sensitivity": sensitivity.draw(varied, p, _MEASURES, logarithmic=True),
        },
        verdicts=[_judge_wins(levels, changes), _judge_losses(levels)],
        notes=[f"This run has {p['trials']} trials a draw, not the paper's 50."] if p["trials"] < 50 else [],
        values={
            "closest": sensitivity.settings_text(tried.iloc[0], list(CHOICES)),
            "best": tried.iloc[0],
            "trend": position_trend(),
            "least": spread.min(),
            "most": spread.max(),
        },
        lead=_lead(levels, tried),
    )


# ---------------------------------------------------------------- what is not printed


def measure(p: Record, seed: int) -> dict[str, float]:
    """Reduce a small draw to three numbers: geometric means over all cells."""
    small = {"trials": 3, "samples": min(p["samples"], 10), "updated_trials": 1, "lengths": [1, 20, 50, 200]}
    errors = one_draw({**p, **small}, seed, "level", False)
    P, MC, updated = (np.nanmean(errors[METHODS.index(name)], axis=0) for name in ("P", "MC", "P, weights updated inside"))
    printed = _grid("mean", "P", small["lengths"])
    return {name: _geometric(ratio) for name, ratio in zip(_MEASURES, (P / printed, P / MC, updated / P), strict=True)}


def distances(p: Record, seed: int) -> dict[str, float]:
    """Return how far a candidate is from the published table: from the same origins, and each length from its own position."""
    small = {**p, "trials": 4, "samples": min(p["samples"], 8), "updated_trials": 0, "lengths": list(LENGTHS)}
    try:
        here = Washout(small, seed, p["target"])
        errors, place = fair_errors(here, filtered=False).mean(axis=1), place_errors(here)
    except (FloatingPointError, np.linalg.LinAlgError):  # a network that leaves finite numbers is no match
        return {"same origins": 99.0, "own place": 99.0}
    same = distance(errors[METHODS.index("P")], errors[METHODS.index("MC")])
    own = distance(place[:, 0], place[:, 1])
    return {"same origins": same, "own place": own}


def _geometric(ratio: Array) -> float:
    return float(np.exp(np.nanmean(np.log(np.maximum(ratio, 1e-300)))))


# ---------------------------------------------------------------- in words


def _lead(levels: Sequence[pd.DataFrame], tried: pd.DataFrame) -> Record:
    printed = paper_errors("mean", "P")
    P = pd.concat([frame[frame["method"] == "P"].set_index(["state", "washout"])["mean"] for frame in levels])
    ratio = [printed[key] / error for key, error in P.items() if key in printed] or [np.nan]
    best, reading = sensitivity.closest(tried)
    words = {"own place": "each length forecast from its own place on one run"}
    own = 10 ** tried.loc[tried["candidate"] == 1, ["same origins", "own place"]].iloc[0]
    values = {"least": min(ratio), "most": max(ratio), "tried": len(tried), "factor": 10 ** best[reading], "own": own}
    return {**values, "reading": words.get(reading, "the same origins for each length")}


# ---------------------------------------------------------------- numbers


def as_frame(errors: Mapping[tuple[str, int], Array], lengths: Sequence[int]) -> pd.DataFrame:
    """Return a row for each target, draw, state, washout length and method: mean, min and max over the trials.

    ``errors``: by target and draw (methods, trials, lengths, 4); what was not computed is NaN, and left out.
    """
    rows = []
    for key, found in errors.items():
        for (s, state), (i, length), (m, method) in product(enumerate(STATES), enumerate(lengths), enumerate(METHODS)):
            e = found[m, :, i, s]
            e = e[~np.isnan(e)]
            if len(e):
                rows.append((*key, state, length, method, e.mean(), e.min(), e.max()))
    return pd.DataFrame(rows, columns=["target", "draw", "state", "washout", "method", *STATISTICS])


def cells(frame: pd.DataFrame, method: str, statistic: str = "mean") -> Array:
    """Return one number for each state and washout length of one draw, in the frame's order."""
    return np.asarray(frame.loc[frame["method"] == method, statistic], float)


def win_count(ours: npt.ArrayLike, theirs: npt.ArrayLike, share: float = TIE) -> tuple[int, int, int]:
    """Count how often the first is smaller, equal to within a ``share``, larger."""
    margin = np.asarray(ours, float) / np.asarray(theirs, float) - 1.0
    tie = np.abs(margin) <= share
    return int(((margin < 0) & ~tie).sum()), int(tie.sum()), int(((margin > 0) & ~tie).sum())


def paper_errors(statistic: str, which: str) -> dict[tuple[str, int], float]:
    """Return the paper's numbers by state and washout length; ``which`` is P or MC."""
    column = 2 * STATISTICS.index(statistic) + ("P", "MC").index(which)
    return {(state, length): row[column] for state, by_length in PUBLISHED.items() for length, row in by_length.items()}


def _grid(statistic: str, which: str, lengths: Sequence[int] = LENGTHS) -> Array:
    """Return the paper's numbers (lengths, states)."""
    printed = paper_errors(statistic, which)
    return np.array([[printed[state, k] for state in STATES] for k in lengths])


def distance(P: Array, MC: Array) -> float:
    """Return how far mean errors (8 lengths, 4 states) are from the published ones: root mean square of log₁₀ of their ratios.

    1 is a factor of ten.
    """
    apart = [np.log10(found / _grid("mean", which)) for which, found in (("P", P), ("MC", MC))]
    return float(np.sqrt(np.mean(np.square(apart))))


def position_trend(lengths: Sequence[int] = (20, 30, 40, 50, 100)) -> tuple[float, float]:
    """Return the published position errors of P ÷ (k + 5.5)², least and largest by their mean: 1 where quadratic in time.

    k + 5.5 is the middle of a forecast over the rows k + 1 … k + 10, counted from where the washout of k rows began.

    >>> print("{:.2f} to {:.2f}".format(*position_trend()))
    0.97 to 1.02
    """
    printed = paper_errors("mean", "P")
    ratio = np.array([printed["position", k] / (k + 5.5) ** 2 for k in lengths])
    return float(ratio.min() / ratio.mean()), float(ratio.max() / ratio.mean())


# ---------------------------------------------------------------- for people


def tables(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Tabulate for each state the mean errors of the first draw, published and obtained, levels first and changes beside."""
    first = frame[frame["draw"] == 1]
    by_state = dict(list(first.groupby(["state", "target"], sort=False)))
    means, extremes = {}, {}
    for state in STATES:
        name, part = f"{state.capitalize()}, {LABELS[state]}", by_state[state, "level"]
        table = _side_by_side(part, state, "mean", "")
        others = part.pivot(index="washout", columns="method", values="mean")
        for method in METHODS[2:]:
            if method in others:
                table[method] = others[method].to_numpy()
        if (state, "change") in by_state:
            table["P, changes learned"] = cells(by_state[state, "change"], "P")
        for which, column, tie in (("obtained", "better", TIE), ("published", "better published", 0.0)):
            pairs = zip(table[f"P {which}"], table[f"MC {which}"], strict=True)
            table[column] = [_better(*pair, which, tie) for pair in pairs]
        means[f"{name}: mean absolute error over the steps, first draw"] = table
        most = _side_by_side(part, state, "max", "max ").drop(columns="washout")
        both = pd.concat([_side_by_side(part, state, "min", "min "), most], axis=1)
        extremes[f"{name}: smallest and largest error of a trial, first draw"] = both
    return means | extremes


def counts(frame: pd.DataFrame) -> pd.DataFrame:
    """Tabulate how often P wins, ties and loses against the others, a row for each draw, levels learned and changes."""
    rows = []
    for (target, draw), part in frame.groupby(["target", "draw"], sort=False):
        row: dict[str, object] = {"learned": f"{target}s", "draw": draw}
        for method in ("MC", "MC without noise", "zero start", "mean of forecasts"):
            row[f"P against {method}"] = " / ".join(map(str, win_count(cells(part, "P"), cells(part, method))))
        rows.append(row)
    return pd.DataFrame(rows).sort_values(["draw", "learned"], ascending=[True, False], ignore_index=True)


def own_place_table(place: Array, fair: pd.DataFrame, lengths: Sequence[int]) -> pd.DataFrame:
    """Tabulate each length from its own position (lengths, 4, 4) beside the fair table of the same draw and the paper."""
    rows = []
    means = {method: fair[fair["method"] == method].set_index(["state", "washout"])["mean"] for method in ("P", "MC")}
    for s, state in enumerate(STATES):
        for i, k in enumerate(lengths):
            row: dict[str, object] = {"state": state, "washout": k}
            for m, which in enumerate(("P", "MC")):
                row[f"{which} published"] = paper_errors("mean", which).get((state, k), np.nan)
                row[f"{which} own place"] = place[i, m, s]
                row[f"{which} same origins"] = means[which][state, k]
            for m, statistic in ((2, "min"), (3, "max")):
                row[f"MC {statistic} published"] = paper_errors(statistic, "MC").get((state, k), np.nan)
                row[f"MC {statistic} own place"] = place[i, m, s]
            rows.append(row)
    return pd.DataFrame(rows)


def _better(p: float, mc: float, which: str, tie: float) -> str:
    """Return the column of the lower error; none where they tie."""
    wins, _, losses = win_count([p], [mc], tie)
    return f"P {which}" if wins else f"MC {which}" if losses else ""


def _side_by_side(part: pd.DataFrame, state: str, statistic: str, called: str) -> pd.DataFrame:
    """Set published and obtained of P and MC side by side, a row for each length; ``called`` goes into the columns' names."""
    wide = part.pivot(index="washout", columns="method", values=statistic)
    table = pd.DataFrame({"washout": wide.index.to_numpy()})
    for method in ("P", "MC"):
        printed = paper_errors(statistic, method)
        table[f"{method} {called}published"] = [printed.get((state, int(k)), np.nan) for k in wide.index]
        table[f"{method} {called}obtained"] = wide[method].to_numpy()
    return table


# One color for all that is Monte Carlo, one for all that is the PESN, one for what is ours.
_BLUE, _RED, _GREEN = figures.MONTE_CARLO, figures.SPLINE, figures.OURS
_STYLES: dict[str, Record] = {
    "MC": {"color": _BLUE, "marker": "s", "markersize": 5, "linewidth": 1.5},
    "P": {"color": _RED, "marker": "o", "markersize": 9, "markerfacecolor": "none", "linewidth": 2.0, "linestyle": (0, (5, 2))},
    "zero start": {"color": figures.TRUTH, "marker": ".", "markersize": 6, "linewidth": 1.0, "linestyle": (0, (2, 2))},
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


def _draw(title: str, draw: Callable[[Axes, str], None], lengths: Sequence[int]) -> figures.Picture:
    """Draw a panel for each state, over the washout lengths; ``draw`` fills one, ``title`` is that of its y axis."""
    figure, axes = figures.panels(2, 2, 7.0, sharex=True)
    for state, ax in zip(STATES, axes.ravel(), strict=True):
        draw(ax, state)
        figures.label_lengths(ax, lengths)
        ax.set_title(state.capitalize(), fontsize=10)
        ax.set(ylabel=title.format(LABELS[state]), yscale="log")
    figures.label_outside(axes, "washout length (rows of 0.02 s)")
    figures.legend(figure, axes[0, 0], 2)
    return figure, {}


def _draw_errors(frame: pd.DataFrame) -> figures.Picture:
    """Draw mean errors of all starts against the washout length."""

    def draw(ax: Axes, state: str) -> None:
        for method, style in _STYLES.items():
            part = frame[(frame["state"] == state) & (frame["method"] == method)]
            if len(part):
                ax.plot(part["washout"], part["mean"], label=_NAMES.get(method, method), **style)

    return _draw("mean |error| of {}", draw, sorted(set(frame["washout"])))


def _draw_own_place(place: Array, match: Array, frame: pd.DataFrame, lengths: Sequence[int]) -> figures.Picture:
    """Draw published mean errors of P beside those of one draw, by both readings, and of the closest candidate."""
    printed = paper_errors("mean", "P")
    known = [k for k in lengths if k in LENGTHS]

    def draw(ax: Axes, state: str) -> None:
        part, s = frame[(frame["state"] == state) & (frame["method"] == "P")], STATES.index(state)
        values = [printed[state, k] for k in known]
        ax.plot(known, values, color=figures.TRUTH, marker="^", linestyle="--", label="published")
        ax.plot(part["washout"], part["mean"], color=_RED, marker="o", label="same origins for every length")
        ax.plot(lengths, place[:, 0, s], color=_RED, marker="s", linestyle="-.", label="each length from its own place")
        ax.plot(lengths, match[:, 0, s], color=_RED, marker="D", linestyle=":", label="closest candidate, own place")

    return _draw("P's mean |error| of {}", draw, lengths)


# ---------------------------------------------------------------- verdicts


def grade_wins(frame: pd.DataFrame) -> Draw:
    """Grade one draw: the PESN wins most cells against random starts with noise, as printed; and then against a zero start."""
    P, MC, zero = (cells(frame, method) for method in ("P", "MC", "zero start"))
    ratio = float(np.exp(np.mean(np.log(P / zero))))
    won = 2 * win_count(P, MC)[0] > len(P)
    return Draw(grade(won and ratio < GAIN, won), ratio)


def grade_losses(frame: pd.DataFrame) -> Draw:
    """Grade one draw by how much the PESN loses, on average of the cells that it loses; 0 where it loses none."""
    margin = cells(frame, "P") / cells(frame, "MC") - 1.0
    lost = margin[margin > 0.0]
    loss = float(lost.mean()) if len(lost) else 0.0
    return Draw(grade(loss <= SMALL), loss)


PRINTED = win_count(_grid("mean", "P"), _grid("mean", "MC"), 0.0)


def _win_counts(frames: Sequence[pd.DataFrame], other: str = "MC") -> list[tuple[int, int, int]]:
    """Count wins, ties and losses of P against another start, for each draw."""
    return [win_count(cells(frame, "P"), cells(frame, other)) for frame in frames]


def _judge_wins(frames: Sequence[pd.DataFrame], changes: Sequence[pd.DataFrame]) -> Verdict:
    """Judge networks that learn the velocities, as the paper's do; ``changes`` are mentioned beside."""
    won, quiet = ([wins for wins, _, _ in _win_counts(frames, other)] for other in ("MC", "MC without noise"))
    draws = [grade_wins(frame) for frame in frames]
    ratio = [draw.value for draw in draws if draw.value is not None]
    values = {"cells": len(cells(frames[0], "P")), "states": len(STATES), "lengths": frames[0]["washout"].nunique()}
    values |= {"won": span(won), "quiet": span(quiet), "printed": PRINTED, "least": min(ratio), "most": max(ratio)}
    values["gain"] = "a gain" if np.median(ratio) < GAIN else "no gain"
    values["others"] = span([wins for wins, _, _ in _win_counts(changes)])
    return over_draws("washout-wins", draws, values, limits=[GAIN])


def _judge_losses(frames: Sequence[pd.DataFrame]) -> Verdict:
    draws = [grade_losses(frame) for frame in frames]
    average = [draw.value for draw in draws if draw.value is not None]
    lost = [losses for _, _, losses in _win_counts(frames)]
    worst = max(float((cells(frame, "P") / cells(frame, "MC") - 1.0).max()) for frame in frames)
    largest = (_grid("mean", "P") / _grid("mean", "MC") - 1.0).max()
    values = {"lost": span(lost), "cells": len(cells(frames[0], "P")), "least": min(average), "most": max(average)}
    values |= {"worst": worst, "printed": PRINTED[2], "largest": largest}
    return over_draws("washout-small-losses", draws, values, {"some": max(lost), "paper": True}, limits=[SMALL])


ITEMS = (Item("washout", read_settings("washout", "robots", "draws", "search"), run, PUBLISHED, digits=".4f"),)
