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
from itertools import product

import numpy as np
import numpy.typing as npt
import pandas as pd

from pesn._support.types import Array
from pesn.paper.claims import UNFAIR, Draw, Record, Result, Settings, Tasks, Verdict, grade, over_columns, paper_numbers
from pesn.paper.item_settings import TABLES, Item, our_parameters, read_settings
from pesn.paper.items import figures, robots, search

LENGTHS = (1, 10, 20, 30, 40, 50, 100, 200)
STATES = ("position", "velocity", "angle", "angular velocity")  # in the order of the paper's table
_COLUMNS = [0, 2, 1, 3]  # where each stands in [x, θ, ẋ, ω]
METHODS = (
    "P",
    "P from a random mean",
    "MC",
    "MC without noise",
    "zero start",
    "mean of forecasts",
    "P, weights updated inside",
    "Algorithm 3 to the letter",
    "filtered start",
)
COLUMNS = ("as in the paper", "ours")


class Washout:
    """A network that has learned the cart pole, and a run that it has not seen."""

    def __init__(self, p: Record, seed: int) -> None:
        self.p, self.seed = p, seed
        runs = robots.CART_POLE.simulate(p, seed)
        self.training, self.test = runs[: len(runs) - 1], runs[len(runs) - 1]
        self.plain = robots.PlainNetwork.train(robots.CART_POLE, p, self.training, seed)
        self.y, self.u = self.plain.scale.apply(self.test.states, self.test.inputs)
        self.z = np.hstack([self.y, self.u])
        self.rng = np.random.default_rng([seed, 1])

    def origins(self, rows: int) -> npt.NDArray[np.intp]:
        """Return the origins of forecasts after ``rows`` known rows: one, where each length has its own place on the run."""
        p = self.p
        if p["window"] == "own place":
            return np.array(origins(1, rows, p.get("horizon", 1), len(self.y)))
        return np.array(origins(p["trials"], max(p["lengths"]), p.get("horizon", 1), len(self.y)))

    def errors(self, states: Array, at: npt.NDArray[np.intp]) -> Array:
        """Return |forecast − truth| (origins, …, 4), averaged over the steps of states (T, origins, …, d), in SI units."""
        truth = self.test.states[at + 1 + np.arange(len(states))[:, None]]
        wrong = np.abs(self.plain.scale.undo(states) - truth.reshape(*truth.shape[:2], *[1] * (states.ndim - 3), -1))
        found: Array = wrong.mean(axis=0)[..., _COLUMNS]
        return found

    def forecast_all(self, rows: int, starts: Array, names: Sequence[str] = METHODS[:6]) -> dict[str, Array]:
        """Forecast from the starts ``names`` after ``rows`` known rows: errors (trials, 4) by method.

        A trial is an origin, with the mean over its random ``starts`` (origins, samples, N); where there is one origin, a start.
        """
        p, plain, at = self.p, self.plain, self.origins(rows)
        starts = starts[: len(at)]
        seen, ahead = self.z[at - rows + np.arange(rows)[:, None]], self.u[at + np.arange(p["horizon"])[:, None]]
        now = self.y[at]
        zero, var = np.zeros((len(at), plain.n_units)), p["start_std"] ** 2

        def gaussian(mean: Array, z: Array, y: Array, u: Array) -> Array:
            units, widths = mean, np.broadcast_to(var, mean.shape)
            for row in z:
                units, widths = plain.move_gaussian(units, widths, row, noise=p["noise"])
            return self.errors(plain.forecast_gaussian(units, widths, y, u, noise=p["noise"])[0], at)

        def sampled(noise: float) -> Array:
            h = plain.settle(starts, seen[:, :, None], noise, self.rng)
            return plain.forecast(h, now[:, None], ahead[:, :, None], noise=noise, rng=self.rng)

        each: dict[str, Callable[[], Array]] = {
            "P": lambda: gaussian(zero, seen, now, ahead),
            "P from a random mean": lambda: gaussian(starts, seen[:, :, None], now[:, None], ahead[:, :, None]),
            "MC": lambda: self.errors(sampled(p["noise"]), at),
            "MC without noise": lambda: self.errors(sampled(0.0), at),
            "zero start": lambda: self.errors(plain.forecast(plain.settle(zero, seen), now, ahead), at),
            "mean of forecasts": lambda: self.errors(sampled(0.0).mean(axis=2), at),
        }
        trials = starts.shape[1] if len(at) == 1 else len(at)
        return {name: _by_trial(each[name](), trials) for name in names}


def _by_trial(errors: Array, trials: int) -> Array:
    """Return errors (trials, 4) of errors (origins, 4) or (origins, samples, 4)."""
    if errors.ndim == 3:
        errors = errors[0] if len(errors) == 1 else errors.mean(axis=1)
    return np.broadcast_to(errors, (trials, errors.shape[-1]))


class Slow:
    """Starts that take a fitted estimator: Algorithm 3, which updates the weights inside, and the filtered start."""

    def __init__(self, here: Washout) -> None:
        self.here, p = here, here.p
        self.forecaster, _ = robots.learn(robots.CART_POLE, {**p, "train_rows": 0}, here.seed)
        self.feedback = robots.train_feedback_network(here.plain, here.training, p, here.seed)
        own: Record = {"covariance": "full", "initial_state": "learned", "noise": 0.0, "process_noise": 1e-4}
        self.filter, _ = robots.learn(robots.CART_POLE, {**p, "train_rows": 0}, here.seed, **own)

    def forecast_all(self, rows: int, trials: int) -> dict[str, Array]:
        """Return errors (trials, 4) by method, NaN beyond the first few origins."""
        here, p = self.here, self.here.p
        found = {name: np.full((trials, 4), np.nan) for name in METHODS[6:]}
        for b, origin in enumerate(here.origins(rows)[: p["updated_trials"]]):
            ahead, seen = slice(origin, origin + p["horizon"]), here.z[origin - rows : origin]
            truth, esn = here.y[origin : ahead.stop + 1], self.forecaster.esn_
            state = robots.washout_state(esn, seen)
            inside, _, _ = robots.forecast_with_updates(esn, here.plain, state, truth[0], np.zeros(4), here.u[ahead], truth[1:])
            letter = robots.states_to_the_letter(self.feedback, here.plain, seen, here.z[ahead], truth)
            known = slice(origin - min(rows, p["most_filtered"]), origin + 1)
            context = here.test.states[known], here.test.inputs[known][:-1]
            filtered = self.filter.forecast(p["horizon"], context, here.test.inputs[ahead]).mean
            paths = inside, letter, here.plain.scale.apply(filtered, here.test.inputs[ahead])[0]
            for name, path in zip(METHODS[6:], paths, strict=True):
                found[name][b] = here.errors(path[:, None], np.array([origin]))[0]
        return found


def one_draw(p: Record, seed: int, slow: bool = False) -> Array:
    """Compute errors (methods, trials, lengths, 4) of one network on one set of runs; NaN where not computed.

    Nothing but the starts and the noise differs from trial to trial where each length has its own place, and the origin too
    where all lengths have the same origins. ``slow``: whether Algorithm 3 and the filtered start are computed.
    """
    here = Washout(p, seed)
    starts = p["start_std"] * here.rng.standard_normal((p["trials"], p["samples"], here.plain.n_units))
    trials = p["samples"] if p["window"] == "own place" else p["trials"]
    found, other = np.full((len(METHODS), trials, len(p["lengths"]), 4), np.nan), Slow(here) if slow else None
    for i, rows in enumerate(p["lengths"]):
        by_name = here.forecast_all(rows, starts) | (other.forecast_all(rows, trials) if other else {})
        for name, errors in by_name.items():
            found[METHODS.index(name), :, i] = errors
    return found


def origins(n: int, before: int, after: int, rows: int) -> list[int]:
    """Return n forecast origins, spread evenly over a run of ``rows``, each with enough rows before and after it.

    >>> origins(3, before=200, after=10, rows=2500)
    [200, 1344, 2489]
    """
    if before + after >= rows:
        raise ValueError(f"run_rows must be more than {before + after}, before and after an origin, got {rows}")
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

SETTINGS = read_settings("robots", "cart", "draws", "search", "washout")
CHOICES: search.Values = TABLES["choices"]["washout"]
LABELS = {"position": "x (m)", "velocity": "ẋ (m/s)", "angle": "θ (rad)", "angular velocity": "ω (rad/s)"}
STATISTICS = ("mean", "min", "max")
TIE = 1e-4  # errors that agree to the four digits of the paper's table are equal: beyond, the start is forgotten
GAIN = 0.95  # of a plain network's error: what is closer to it gains nothing
SMALL = 0.1  # losses are small up to here, on average and as a share of the other's error: the paper's largest is 2 %


def run(settings: Settings, tasks: Tasks) -> Result:
    """Compute the table in the paper's regime and in ours, its distance to the published one, and the two claims."""
    p, seeds = settings.parameters, settings.seeds(settings.parameters["draws"])
    units = [(own, seed, not i) for own in (p, our_parameters(SETTINGS, p)) for i, seed in enumerate(seeds)]
    keys = [(column, i + 1) for column in COLUMNS for i in range(len(seeds))]
    frame = as_frame(dict(zip(keys, tasks.map(one_draw, units), strict=True)), p["lengths"])
    by_draw = dict(list(frame.groupby(["column", "draw"], sort=False)))
    theirs, ours = ([by_draw[column, i + 1] for i in range(len(seeds))] for column in COLUMNS)
    tried = search.search(settings, SETTINGS, draw_distance, CHOICES)
    best = search.parameters_of(tried, p, CHOICES)
    fresh = {
        name: (10 ** np.array(tasks.map(draw_distance, [(own, seed) for seed in seeds]))).tolist()
        for name, own in (("as in the paper", p), ("closest candidate", best), ("ours", our_parameters(SETTINGS, p)))
    }
    return Result(
        frame=frame,
        tables={
            "Factor between obtained and published errors, 64 cells, on draws that the search has not seen": search.compare(
                fresh, null_factors()
            ),
            "Range over the trials, largest less smallest error: the signal of the washout": ranges(theirs[0]),
            **tables(frame),
            "The candidates closest to the published table": tried.head(8),
        },
        figures={
            "errors": _draw_errors(theirs[0], published=True),
            "ours": _draw_errors(ours[0]),
            "range": _draw_ranges(theirs),
        },
        verdicts=[_judge_wins(theirs, ours), _judge_losses(theirs, ours)],
        values={"closest": search.settings_text(tried.iloc[0], list(CHOICES)), "trend": position_trend()},
        lead=_lead(fresh, theirs),
    )


# ---------------------------------------------------------------- what is not printed


def draw_distance(p: Record, seed: int) -> float:
    """Return how far the mean errors of P and MC are from the published table."""
    here = Washout({**p, "trials": min(p["trials"], 4), "lengths": list(LENGTHS)}, seed)
    starts = p["start_std"] * here.rng.standard_normal((here.p["trials"], min(p["samples"], 16), here.plain.n_units))
    each = [here.forecast_all(rows, starts, ("P", "MC")) for rows in LENGTHS]
    return distance(*(np.array([errors[name].mean(axis=0) for errors in each]) for name in ("P", "MC")))


def null_factors() -> dict[str, float]:
    """Return the factors of models that know nothing but a constant: worse than them, a match is none.

    >>> {name: round(factor, 2) for name, factor in null_factors().items()}
    {'one constant for all cells': 4.69, 'one constant for each state': 3.42}
    """
    grid = np.log10([_grid("mean", which) for which in ("P", "MC")])
    means = {"one constant for all cells": grid.mean(), "one constant for each state": grid.mean(axis=(0, 1))}
    return {name: float(10 ** np.sqrt(np.mean(np.square(grid - mean)))) for name, mean in means.items()}


def _lead(fresh: Mapping[str, Sequence[float]], theirs: Sequence[pd.DataFrame]) -> Record:
    null = null_factors()
    medians = {name: np.median(some) for name, some in fresh.items()}
    falls = [
        [f"{width:.2g}" if width >= 1e-4 else "less than 0.0001" for width in _median_ranges(theirs, method)[[0, -1]]]
        for method in ("P from a random mean", "MC")
    ]
    values = {"factor": medians["as in the paper"], "ours": medians["ours"], "null": null["one constant for each state"]}
    verdict = "closer than" if values["factor"] < values["null"] else "no closer than"
    return {**values, "verdict": verdict, "P": falls[0], "MC": falls[1]}


# ---------------------------------------------------------------- numbers


def as_frame(errors: Mapping[tuple[str, int], Array], lengths: Sequence[int]) -> pd.DataFrame:
    """Return a row for each column, draw, state, washout length and method: mean, min and max over the trials.

    ``errors``: by column and draw (methods, trials, lengths, 4); what was not computed is NaN, and left out.
    """
    rows = []
    for key, found in errors.items():
        for (s, state), (i, length), (m, method) in product(enumerate(STATES), enumerate(lengths), enumerate(METHODS)):
            e = found[m, :, i, s]
            e = e[~np.isnan(e)]
            if len(e):
                rows.append((*key, state, length, method, e.mean(), e.min(), e.max()))
    return pd.DataFrame(rows, columns=["column", "draw", "state", "washout", "method", *STATISTICS])


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
    """Tabulate for each state the mean errors of the first draw: published, as in the paper, ours."""
    first, found = frame[frame["draw"] == 1], {}
    for state in STATES:
        parts = {
            column: part.pivot(index="washout", columns="method", values="mean")
            for column, part in first[first["state"] == state].groupby("column", sort=False)
        }
        table = pd.DataFrame({"washout": parts[COLUMNS[0]].index.to_numpy()})
        for method in ("P", "MC"):
            printed = paper_errors("mean", method)
            table[f"{method} published"] = [printed.get((state, int(k)), np.nan) for k in table["washout"]]
            table[f"{method} obtained"] = parts[COLUMNS[0]][method].to_numpy()
        for column, part in parts.items():
            for method in METHODS if column == "ours" else METHODS[3:]:
                if method in part and method != METHODS[1]:
                    table[f"{method} ({column})"] = part[method].to_numpy()
        for which, column, tie in (("obtained", "better", TIE), ("published", "better published", 0.0)):
            pairs = zip(table[f"P {which}"], table[f"MC {which}"], strict=True)
            table[column] = [_better(*pair, which, tie) for pair in pairs]
        found[f"{state.capitalize()}, {LABELS[state]}: mean absolute error over the steps, first draw"] = table
    return found


def ranges(part: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the range over the trials by state and length, published and obtained in one draw."""
    table = pd.DataFrame(list(product(STATES, sorted(set(part["washout"])))), columns=["state", "washout"])
    for name, method in (("P", "P from a random mean"), ("MC", "MC")):
        low, high = paper_errors("min", name), paper_errors("max", name)
        keys = list(zip(table["state"], table["washout"], strict=True))
        table[f"{name} range published"] = [high[key] - low[key] if key in low else np.nan for key in keys]
        own = part[part["method"] == method].set_index(["state", "washout"])
        table[f"{name} range obtained"] = (own["max"] - own["min"])[keys].to_numpy()
    return table


def _median_ranges(draws: Sequence[pd.DataFrame], method: str) -> Array:
    """Return the range over the trials by length: the median over states and draws."""
    some = pd.concat([part[part["method"] == method] for part in draws])
    return np.asarray((some["max"] - some["min"]).groupby(some["washout"]).median(), float)


def _better(p: float, mc: float, which: str, tie: float) -> str:
    """Return the column of the lower error; none where they tie."""
    wins, _, losses = win_count([p], [mc], tie)
    return f"P {which}" if wins else f"MC {which}" if losses else ""


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


def _draw_errors(frame: pd.DataFrame, published: bool = False) -> figures.Picture:
    """Draw mean errors of all starts against the washout length, a panel for each state."""
    figure, axes = figures.panels(2, 2, 7.0, sharex=True)
    lengths, printed = sorted(set(frame["washout"])), paper_errors("mean", "P")
    for state, ax in zip(STATES, axes.ravel(), strict=True):
        for method, style in _STYLES.items():
            part = frame[(frame["state"] == state) & (frame["method"] == method)]
            if len(part):
                ax.plot(part["washout"], part["mean"], label=_NAMES.get(method, method), **style)
        known = [k for k in lengths if published and k in LENGTHS]
        if known:
            style = {"color": figures.TRUTH, "marker": "P", "linewidth": 2.2, "linestyle": "--"}
            ax.plot(known, [printed[state, k] for k in known], label="published, P", **style)
        figures.label_lengths(ax, lengths)
        ax.set_title(state.capitalize(), fontsize=10)
        ax.set(ylabel=f"mean |error| of {LABELS[state]}", yscale="log")
    figures.label_outside(axes, "washout length (rows)")
    figures.legend(figure, axes[0, 0], 2)
    return figure, {}


def _draw_ranges(theirs: Sequence[pd.DataFrame]) -> figures.Picture:
    """Draw the range over the trials against the washout length, published and obtained, the median over the states."""
    figure, axes = figures.panels(1, 1, 3.8)
    (ax,), lengths = axes.ravel(), sorted(set(theirs[0]["washout"]))
    known = [k for k in lengths if k in LENGTHS]
    for name, method, color in (("P", "P from a random mean", _RED), ("MC", "MC", _BLUE)):
        low, high = paper_errors("min", name), paper_errors("max", name)
        printed = [np.median([high[state, k] - low[state, k] for state in STATES]) for k in known]
        ax.plot(known, printed, color=color, marker="^", linestyle="--", label=f"{name}, published")
        ax.plot(lengths, _median_ranges(theirs, method), color=color, marker="o", label=f"{name}, obtained")
    figures.label_lengths(ax, lengths)
    ax.set(xlabel="washout length (rows)", ylabel="largest less smallest error", yscale="log", ylim=(1e-6, 1.0))
    ax.legend(frameon=False, fontsize=9)
    return figure, {}


# ---------------------------------------------------------------- verdicts


def grade_wins(frame: pd.DataFrame) -> Draw:
    """Grade one draw: the PESN wins most cells against random starts with noise, as printed; and then against a zero start."""
    P, MC, zero = (cells(frame, method) for method in ("P", "MC", "zero start"))
    ratio = float(np.exp(np.mean(np.log(P / zero))))
    won = 2 * win_count(P, MC)[0] > len(P)
    return Draw("holds" if won and ratio < GAIN else UNFAIR if won else "does not hold", ratio)


def grade_losses(frame: pd.DataFrame) -> Draw:
    """Grade one draw by how much the PESN loses, on average of the cells that it loses; 0 where it loses none."""
    margin = cells(frame, "P") / cells(frame, "MC") - 1.0
    lost = margin[margin > 0.0]
    loss = float(lost.mean()) if len(lost) else 0.0
    return Draw(grade(loss <= SMALL), loss)


PRINTED = win_count(_grid("mean", "P"), _grid("mean", "MC"), 0.0)


def _wins(frames: Sequence[pd.DataFrame], other: str = "MC") -> str:
    """Count the cells in which P wins against another start, over the draws."""
    return span([win_count(cells(frame, "P"), cells(frame, other))[0] for frame in frames])


def _judge_wins(theirs: Sequence[pd.DataFrame], ours: Sequence[pd.DataFrame]) -> Verdict:
    draws = [[grade_wins(frame) for frame in frames] for frames in (theirs, ours)]
    ratio = [draw.value for some in draws for draw in some if draw.value is not None]
    values = {"cells": len(cells(theirs[0], "P")), "printed": PRINTED, "least": min(ratio), "most": max(ratio)}
    values |= {"won": _wins(theirs), "quiet": _wins(theirs, "MC without noise"), "ours": _wins(ours)}
    return over_columns("washout-wins", draws, values, limits=[GAIN])


def _judge_losses(theirs: Sequence[pd.DataFrame], ours: Sequence[pd.DataFrame]) -> Verdict:
    draws = [[grade_losses(frame) for frame in frames] for frames in (theirs, ours)]
    average = [[draw.value for draw in some if draw.value is not None] for some in draws]
    largest = (_grid("mean", "P") / _grid("mean", "MC") - 1.0).max()
    values = {"theirs": max(average[0]), "ours": max(average[1]), "printed": PRINTED[2], "largest": largest}
    return over_columns("washout-small-losses", draws, values, limits=[SMALL])


ITEMS = (Item("washout", SETTINGS, run, PUBLISHED, digits=".4f"),)
