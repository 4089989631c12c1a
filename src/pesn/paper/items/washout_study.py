"""The washout table's work: one network on one set of runs, forecast from many starts after washouts of many lengths.

>>> from pesn.paper.item_settings import defaults
>>> small = {"n_units": 20, "runs": 2, "run_rows": 400, "trials": 2, "samples": 3, "lengths": [1, 20], "updated_trials": 1}
>>> errors = one_draw(defaults(SETTINGS) | small, seed=0, target="level", filtered=False)
>>> errors.shape == (len(METHODS), 2, 2, 4)
True
>>> span([4, 7, 5]), span([3, 3])
('5 (4 to 7)', '3')
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pesn import Forecaster, Gaussian, ProbabilisticESN
from pesn._support.types import Array, Target
from pesn.paper.claims import Record
from pesn.paper.item_settings import Setting, number, several, whole
from pesn.paper.items import robots
from pesn.paper.items.robots import PlainNetwork, State

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


# The paper prints the lengths, the trials, the samples and the horizon alone.
_START = "Deviation of the Gaussian that a network starts from; the paper prints none."
_TRIALS = "Forecasts, each from its own place and with its own random starts; the paper's are 50."
_UPDATED = "Of the trials, those whose weights are also updated inside the forecast."
SETTINGS = {
    "lengths": Setting("Washout lengths, in rows.", several(whole(1)), list(LENGTHS)),
    "trials": Setting(_TRIALS, whole(1), 50, quick=6),
    "samples": Setting("Random starts of the Monte Carlo ESN for each forecast; the paper's are 50.", whole(2), 50, quick=20),
    "horizon": Setting("Steps of a forecast; the paper's are 10.", whole(1), 10),
    "start_std": Setting(_START, number(0.0), 0.5),
    "most_filtered": Setting("Rows that the filtered start looks at, at most.", whole(1), 30),
    "updated_trials": Setting(_UPDATED, whole(0), 5, quick=1),
    **robots.SETTINGS,
}


class Washout:
    """A network that has learned the cart pole, and a run that it has not seen."""

    def __init__(self, p: Record, seed: int, target: Target) -> None:
        self.p, self.seed, self.target = p, seed, target
        self.forecaster, runs = robots.learn(robots.CART_POLE, p, seed, target)
        self.training, self.test = runs[: len(runs) - 1], runs[len(runs) - 1]
        self.plain = PlainNetwork(self.forecaster)
        self.y, self.u = self.forecaster.scaled(self.test.states, self.test.inputs)
        self.z = np.hstack([self.y, self.u])
        self.rng = np.random.default_rng([seed, 1])

    def errors(self, states: Array, origin: int) -> Array:
        """|forecast − truth| (…, 4), averaged over the steps of scaled states (T, …, d), in the table's order and units."""
        truth = self.y[origin + 1 : origin + 1 + len(states)]
        wrong = np.abs(states - truth.reshape(len(truth), *[1] * (states.ndim - 2), -1)).mean(axis=0)
        found: Array = (wrong * self.forecaster.scale_.y_std)[..., _COLUMNS]
        return found

    # ---------------------------------------------------------------- the PESN, by the front door

    def gaussian(self, origin: int, rows: int) -> Array:
        """The PESN's mean (T, d), scaled: from N(0, σ² I) over ``rows`` rows that are known, then ahead by itself."""
        n, p, f = self.plain.n_units, self.p, self.forecaster
        f.esn_.set_params(initial_state=Gaussian(np.zeros(n), var=np.full(n, p["start_std"] ** 2)))
        state: State = f.esn_.predict(self.z[origin - rows : origin], return_state=True)[-1]
        var = np.zeros(n) if state.var is None else state.var
        f.esn_.set_params(initial_state=Gaussian(state.mean, var=var))
        context, ahead = self.test.states[origin : origin + 1], self.test.inputs[origin : origin + p["horizon"]]
        return f.scaled(f.forecast(p["horizon"], context, ahead, parts=("state",)).mean, ahead)[0]

    # ---------------------------------------------------------------- plain networks

    def plain_errors(self, origin: int, rows: int, starts: Array, noise: float) -> tuple[Array, Array]:
        """Errors (samples, 4) of the networks from each of ``starts``, and (4,) of the mean of their forecasts."""
        h = self.plain.drive(starts, self.z[origin - rows : origin, None], noise, self.rng)[-1]
        known = self.u[origin : origin + self.p["horizon"], None]
        states, _ = self.plain.forecast(h, self.y[origin], known, noise=noise, rng=self.rng)
        return self.errors(states, origin), self.errors(states.mean(axis=1), origin)

    # ---------------------------------------------------------------- weights updated inside the forecast

    def updated(self, origin: int, rows: int) -> Array:
        """Errors (4,) of Algorithm 3 in its own loop: from z = its own states, weights updated by what it is to forecast."""
        ahead = slice(origin, origin + self.p["horizon"])
        state = robots.washed_out(self.forecaster.esn_, self.z[origin - rows : origin])
        truth = self.y[origin + 1 : ahead.stop + 1]
        states, _, _ = robots.in_its_loop(
            self.forecaster.esn_, self.plain, state, self.y[origin], np.zeros(4), self.u[ahead], truth
        )
        return self.errors(states, origin)

    def letter(self, esn: ProbabilisticESN, origin: int, rows: int) -> Array:
        """Errors (4,) of Algorithm 3 to the letter: the true states go in, μ_y is fed back, the weights see the future."""
        ahead = slice(origin, origin + self.p["horizon"])
        states = robots.states_to_the_letter(
            esn, self.plain, self.z[origin - rows : origin], self.z[ahead], self.y[origin : ahead.stop + 1]
        )
        return self.errors(states, origin)


def one_draw(p: Record, seed: int, target: Target, filtered: bool) -> Array:
    """Errors (methods, trials, lengths, 4) of one network on one set of runs, the same origins for every length.

    What was not asked for is NaN: ``filtered``, whether the filtered start is; the weights are updated in some trials alone.
    """
    return fair_errors(Washout(p, seed, target), filtered)


def fair_errors(here: Washout, filtered: bool) -> Array:
    """The errors of :func:`one_draw`, of a network that is there."""
    p = here.p
    at = origins(p["trials"], max(p["lengths"]), p["horizon"], len(here.test.states))
    starts = p["start_std"] * here.rng.standard_normal((p["trials"], p["samples"], here.plain.n_units))
    found = np.full((len(METHODS), len(at), len(p["lengths"]), 4), np.nan)
    # spread over the run, as the trials are
    chosen = {int(k) for k in np.linspace(0, len(at) - 1, p["updated_trials"])}
    esn = robots.fed_back(here.forecaster, here.training, p, here.seed) if chosen else None
    filter_ = _filtering(p, here.seed, here.target) if filtered else None
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
                by_name["P, weights updated inside"] = here.updated(origin, rows)
                by_name["Algorithm 3 to the letter"] = here.letter(esn, origin, rows)
            if filter_ is not None:
                seen = slice(origin - min(rows, p["most_filtered"]), origin + 1)
                context = here.test.states[seen], here.test.inputs[seen][:-1]
                ahead = here.test.inputs[origin : origin + p["horizon"]]
                mean = filter_.forecast(p["horizon"], context, ahead).mean
                by_name["filtered start"] = here.errors(filter_.scaled(mean, ahead)[0], origin)
            for name, errors in by_name.items():
                found[METHODS.index(name), b, i] = errors
    return found


def one_place(p: Record, seed: int, target: Target) -> Array:
    """Errors (lengths, 4, 4) where each length is forecast from its own place: the washout begins where the run does.

    Of P, and of MC mean, least and largest over the samples. Nothing but the starts and the noise differs from trial to trial.
    """
    return place_errors(Washout(p, seed, target))


def place_errors(here: Washout) -> Array:
    """The errors of :func:`one_place`, of a network that is there."""
    p = here.p
    starts = p["start_std"] * here.rng.standard_normal((p["samples"], here.plain.n_units))
    found = []
    for rows in p["lengths"]:
        each, _ = here.plain_errors(rows, rows, starts, p["noise"])
        own = here.errors(here.gaussian(rows, rows), rows)
        found.append((own, each.mean(axis=0), each.min(axis=0), each.max(axis=0)))
    return np.array(found)


def origins(n: int, before: int, after: int, rows: int) -> list[int]:
    """n rows to forecast from, spread evenly over a run of ``rows``, each with so many rows before and after it.

    >>> origins(3, before=200, after=10, rows=2500)
    [200, 1344, 2489]
    """
    if before + after >= rows:
        raise ValueError(f"rows must be more than {before + after}, before and after an origin, got {rows}")
    return [int(k) for k in np.linspace(before, rows - after - 1, n)]


def _filtering(p: Record, seed: int, target: Target) -> Forecaster:
    """The same network as :class:`pesn.Forecaster` starts it: from the first row, corrected by each that follows."""
    own: Record = {"covariance": "full", "initial_state": "learned", "noise": 0.0, "process_noise": 1e-4}
    return robots.learn(robots.CART_POLE, p, seed, target, **own)[0]


def span(values: Sequence[int]) -> str:
    """The median with its range, where there is one."""
    low, high = min(values), max(values)
    return f"{np.median(values):g} ({low} to {high})" if low < high else f"{low}"
