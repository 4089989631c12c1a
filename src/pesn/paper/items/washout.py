"""How long a network must be driven before it forecasts well: the paper's washout table, with the baselines it lacks.

>>> parameters(quick=False)["trials"], len(PUBLISHED), len(LENGTHS)
(50, 4, 8)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn._support.types import Array
from pesn.paper.items import network as cart
from pesn.paper.items.network import COLUMNS, STATES, Network
from pesn.paper.items.washout_tables import METHODS, PUBLISHED, as_frame, counts, judge, notes, published, tables
from pesn.paper.result import Record, Result, Settings, Tasks
from pesn.paper.settings import Setting, number, several, whole

if TYPE_CHECKING:
    from pesn.systems import Trajectories

__all__ = ["ABOUT", "CLAIMS", "ERRATA", "LENGTHS", "NAME", "PLACE", "PUBLISHED", "SETTINGS", "TITLE", "parameters", "run"]


NAME = "washout"
TITLE = "Forecast error after a short washout"
PLACE = "Table 2"
ABOUT = (
    "The paper drives a network that has learned the cart pole over 1 to 200 known rows, lets it forecast 10 steps, and "
    "finds that a PESN, which starts from a Gaussian N(0, 0.5² I), errs less than a network started at random, averaged "
    "over 50 random starts. The same is done here, on the same 50 forecasts for every washout length. Beside it stand "
    "three starts that the paper leaves out: a plain network started at 0, the mean of the 50 random networks' forecasts, "
    "and the filtered start of pesn.Forecaster, which guesses the units from the first row and corrects them by each row "
    "that follows."
)
ERRATA = (18,)
CLAIMS = ("washout-wins", "washout-small-losses")
LENGTHS = (1, 10, 20, 30, 40, 50, 100, 200)


SETTINGS = {
    "lengths": Setting("Washout lengths, in rows.", several(whole(1))),
    "trials": Setting("Forecasts, each from its own place and with its own random starts; the paper's are 50.", whole(1)),
    "samples": Setting("Random starts of the Monte Carlo ESN for each forecast; the paper's are 50.", whole(2)),
    "horizon": Setting("Steps of a forecast; the paper's are 10.", whole(1)),
    "start_std": Setting("Deviation of the Gaussian that a network starts from; the paper prints none.", number(0.0)),
    "noise": Setting("M_e, the noise on the units at every step of one of the rivals; the paper prints none.", number(0.0)),
    "most_filtered": Setting("Rows that the filtered start looks at, at most.", whole(1)),
    "chunk": Setting("Forecasts in a unit of work.", whole(1)),
    **cart.SETTINGS,
    "other_networks": Setting("More networks, drawn and trained anew.", whole(0)),
}


def parameters(quick: bool) -> Record:
    """The paper's 50 trials of 50 samples, or few of each."""
    return {
        "lengths": list(LENGTHS),
        "trials": 12 if quick else 50,
        "samples": 20 if quick else 50,
        "horizon": 10,
        "start_std": 0.5,
        # M_e, for a Monte Carlo ESN with noise at every step; the paper prints no value
        "noise": 0.01,
        # rows that the filtered start looks at, at most: what is older no longer changes its forecast
        "most_filtered": 30 if quick else 200,
        "chunk": 3 if quick else 5,
        "network": cart.parameters(),
        # drawn and trained again with other seeds, for the count of wins alone
        "other_networks": 0 if quick else 4,
    }


def run(settings: Settings, tasks: Tasks) -> Result:
    """The table, its published counterpart and what it says about the two claims."""
    from pesn.paper.items import washout_figures

    p = settings.parameters
    network_seeds = settings.seeds(1 + p["other_networks"], stream=1)
    seeds = settings.seeds(p["trials"])
    given = p["lengths"], p["samples"], p["horizon"], p["start_std"], p["noise"]
    units: list[tuple[Any, ...]] = []
    for i, seed in enumerate(network_seeds):
        network, test = cart.learn(p["network"], seed)
        at = cart.origins(p["trials"], max(p["lengths"]), p["horizon"], len(test.states))
        filtered = 0 if i else p["most_filtered"]
        units += [(network, test, at[part], seeds[part], *given, filtered) for part in cart.chunks(len(at), p["chunk"])]
    found = tasks.map(trials, units)
    n = len(found) // len(network_seeds)
    frame, *others = (as_frame(np.concatenate(found[i : i + n], axis=1), p["lengths"]) for i in range(0, len(found), n))
    printed = published("mean", "P"), published("mean", "MC")
    return Result(
        frame=frame,
        tables=tables(frame) | {"Cells in which the PESN wins, ties and loses, by network": counts([frame, *others])},
        figures={
            "errors": (washout_figures.errors(frame), washout_figures.ERRORS_ALT),
            "ratios": (washout_figures.ratios(frame, *printed), washout_figures.RATIOS_ALT),
        },
        verdicts=judge(frame, others),
        notes=notes(frame, p),
    )


# ---------------------------------------------------------------- the work


def trials(
    network: Network,
    test: Trajectories,
    origins: Sequence[int],
    seeds: Sequence[int],
    lengths: Sequence[int],
    samples: int,
    horizon: int,
    start_std: float,
    noise: float,
    most_filtered: int,
) -> Array:
    """|forecast − truth|, averaged over the steps: (methods + 2, origins, lengths, 4), states in the order of ``STATES``.

    The last two are the smallest and the largest error of the random starts. These are the same for each washout length.
    ``most_filtered`` is the most rows that the filtered start looks at; with 0 it is left out (NaN).
    """
    n, B = network.n_units, len(origins)
    generators = [np.random.default_rng(seed) for seed in seeds]

    def draw(steps: int) -> Array:  # (steps, B · samples, N), an origin's together, each by its own generator
        return np.concatenate([rng.standard_normal((steps, samples, n)) for rng in generators], axis=1)

    starts = start_std * draw(1)[0]
    at = np.asarray(origins)[None, :] + np.arange(horizon)[:, None]
    controls, truth, now = test.inputs[at, 0], test.states[at + 1], test.states[list(origins)]
    many = np.repeat(np.arange(B), samples)
    found = np.empty((len(METHODS) + 2, B, len(lengths), 4))
    for i, rows in enumerate(lengths):
        z, fed = network.observed(test, origins, rows)
        mean, var = network.drive_gaussian(np.zeros((B, n)), np.full((B, n), start_std**2), z, fed)
        gaussian, _ = network.free_run_gaussian(mean[-1], var[-1], fed[-1], now, controls)
        h = network.drive(np.zeros((B, n)), z, fed)[-1]
        zero = network.free_run(h, fed[-1], now, controls)
        h = network.drive(starts, z[:, many], fed[:, many])[-1]
        noisy = network.drive(starts, z[:, many], fed[:, many], noise * draw(rows))[-1]
        ahead = fed[-1, many], now[many], controls[:, many]
        each = network.free_run(h, *ahead).reshape(horizon, B, samples, 4)
        disturbed = network.free_run(noisy, *ahead, noise * draw(horizon)).reshape(horizon, B, samples, 4)
        filtered = np.full_like(zero, np.nan)
        for b, origin in enumerate(origins if most_filtered else ()):
            filtered[:, b] = filtered_start(network, test, origin, min(rows, most_filtered), horizon)
        wrong, worse = (np.abs(paths - truth[:, :, None]).mean(axis=0) for paths in (each, disturbed))
        means = [np.abs(path - truth).mean(axis=0) for path in (gaussian, zero, each.mean(axis=2), filtered)]
        found[:, :, i] = (means[0], wrong.mean(axis=1), *means[1:], worse.mean(axis=1), wrong.min(axis=1), wrong.max(axis=1))
    return found[..., [COLUMNS[state] for state in STATES]]


def filtered_start(network: Network, test: Trajectories, origin: int, rows: int, horizon: int) -> Array:
    """The mean (horizon, 4) of the forecaster that has seen ``rows`` rows and the one at the origin."""
    seen = slice(origin - rows, origin + 1)
    context = test.states[seen], test.inputs[seen][:-1]
    return network.forecaster.forecast(horizon, context, test.inputs[origin : origin + horizon]).mean
