"""The search: every design's closed loop runs into rows that its readout has not seen, and the one that errs least is taken.

Two rungs. All kinds of reservoirs with all features run with few units and one held-out block; the best of them run again at
full size on two blocks, with two penalties and with noise on the training inputs. All loops of a design (each ridge, each origin)
are one batch of means, without covariances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.progress import Steps
from pesn._support.types import Array, FloatArray
from pesn.activations import get
from pesn.forecasting.dataset import Segment
from pesn.forecasting.design.candidates import KINDS, Candidate, Design, maps_for, shortlist
from pesn.forecasting.training import noisy
from pesn.learning.backtest import rolling_origins
from pesn.learning.calibration import LEADS
from pesn.readout.factor import Factor, ridge_path
from pesn.readout.ridge import Readout, penalties_of
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, ErrorModel
from pesn.reservoir.drive import run
from pesn.reservoir.weights import Reservoir
from pesn.statespace import ActivationMoments, rollout
from pesn.statespace.guard import Bounds

__all__ = ["LEAST_LEADS", "LEAST_ROWS", "Problem", "search"]

LEAST_ROWS, LEAST_LEADS = 100, 5  # fewer leave nothing to choose by
_FOLDS = 5
_FEW_UNITS, _FEW_ROWS, _FEW_ORIGINS = 100, 4_000, 16  # of the first rung
_MORE_ROWS, _MORE_ORIGINS, _HELD_OUT = 12_000, 12, (0, 3)  # of the second: rows, origins a fold, folds
_COARSE = tuple(10.0**k for k in (-14, -11, -8, -5, -2))
_RIDGES = tuple(10.0**k for k in (-15, -13, -11, -9, -7, -5, -3, -1))
_LINEAR = tuple(10.0**k for k in (-14, -10, -7, -4))
_NOISES = (1e-3, 1e-2)
_PIECE, _BEFORE = 400, 100  # rows of a piece of a long series, and rows that drive the units before it
_CONTEXT = 150  # rows that drive the units before an origin
_LARGEST = 3e3  # weights in units of a target's deviation: larger ones multiply what no covariance in closed form has right
_AWAY, _LEAVING = 0.03, 100.0  # deviations by which loops are started away, and what it costs if all of them leave
_CAPPED = 5.0  # deviations: an error beyond is as bad as any


class Piece(NamedTuple):
    """Rows ``first`` … ``last`` − 1 of a segment, of which the first ``washed`` only drive the units."""

    segment: int
    first: int
    last: int
    washed: int


class Origin(NamedTuple):
    """A row of a segment that a loop starts from."""

    segment: int
    row: int


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows to learn from and how they are cut into folds.

    Parameters
    ----------
    segments
        Rows without gaps, scaled.
    dynamics
        What a network's outputs mean.
    bounds
        Where y has been.
    seed
        Of reservoirs and noise.
    """

    segments: list[Segment]
    dynamics: Dynamics
    bounds: Bounds
    seed: int = 0

    @property
    def n_rows(self) -> int:
        """Of all segments."""
        return sum(len(s.z) for s in self.segments)

    @property
    def n_inputs(self) -> int:
        """Of the network: columns of y and known inputs."""
        return int(self.segments[0].z.shape[1])

    @cached_property
    def folds(self) -> list[npt.NDArray[np.intp]]:
        """The fold of each row: contiguous groups of whole segments where there are many, else contiguous blocks."""
        ends = np.cumsum([0] + [len(s.z) for s in self.segments])
        total = ends[-1]
        if len(self.segments) >= 2 * _FOLDS:
            middle = (ends[:-1] + ends[1:]) / 2.0
            return [np.full(len(s.z), int(_FOLDS * m / total)) for s, m in zip(self.segments, middle, strict=True)]
        return [_FOLDS * (first + np.arange(len(s.z))) // total for s, first in zip(self.segments, ends, strict=False)]

    @cached_property
    def leads(self) -> int:
        """Steps ahead: 50, or half the longest stretch of a fold."""
        longest = max(np.bincount(fold).max() for fold in self.folds)
        return int(min(LEADS, longest // 2))

    def pieces(self, most: int) -> list[Piece]:
        """About ``most`` rows, in pieces spread over all of them; whole segments where they are no more."""
        if self.n_rows <= most:
            return [Piece(i, 0, len(s.z), min(_BEFORE, len(s.z) // 4)) for i, s in enumerate(self.segments)]
        found = []
        for i, s in enumerate(self.segments):
            for k in range(0, len(s.z), _PIECE):
                washed = min(k, _BEFORE) if k else min(40, len(s.z) // 4)
                found.append(Piece(i, max(k - _BEFORE, 0), min(len(s.z), k + _PIECE), washed))
        order = np.random.default_rng(self.seed).permutation(len(found))
        rows = np.cumsum([found[i].last - found[i].first - found[i].washed for i in order])
        return [found[i] for i in sorted(order[: max(int(np.searchsorted(rows, most)) + 1, 5)])]

    def origins(self, fold: int, count: int) -> list[Origin]:
        """Rows of a fold with as many of the fold after them as loops look ahead."""
        places = [
            Origin(i, k)
            for i, folds in enumerate(self.folds)
            for k in range(min(20, len(folds) // 3), len(folds) - self.leads + 1)
            if folds[k] == fold and folds[k + self.leads - 1] == fold
        ]
        return [places[i] for i in rolling_origins(0, len(places) - 1, count)]


class Network:
    """A reservoir over the rows of a problem: its least-squares factors by fold, and its loops."""

    def __init__(self, problem: Problem, candidate: Candidate, pieces: Sequence[Piece]) -> None:
        self.problem, self.widest = problem, candidate
        self._units: dict[Origin, Array] = {}  # at origins
        self.reservoir = candidate.reservoir(problem.n_inputs, len(problem.dynamics.learned), problem.seed)
        features, n = candidate.features, self.reservoir.n_units
        self.factors = [Factor(features.size(problem.n_inputs, n), len(problem.dynamics.learned)) for _ in range(_FOLDS)]
        segments = noisy(problem.segments, problem.dynamics, candidate.input_noise, problem.seed)
        for piece in pieces:
            rows, segment = slice(piece.first, piece.last), segments[piece.segment]
            b = features(segment.z[rows], self._states(segment.z[rows]))[piece.washed :]
            targets, folds = (a[rows][piece.washed :] for a in (segment.targets, problem.folds[piece.segment]))
            for fold in np.unique(folds):
                self.factors[fold].add(b[folds == fold], targets[folds == fold])

    def without(self, fold: int) -> Factor:
        """Of all folds but one."""
        others = Factor(self.factors[0].n_features, self.factors[0].n_targets)
        for i, factor in enumerate(self.factors):
            if i != fold and factor.n_samples:
                others.merge(factor)
        return others

    def only(self, factor: Factor, candidate: Candidate) -> Factor:
        """A factor of the features of this candidate, which are among the network's own."""
        d, widest = self.problem.n_inputs, self.widest
        i, j = np.triu_indices(widest.products * d)
        linear, products = widest.features.n_linear(d), len(i)
        most = candidate.products * d
        columns = [
            np.arange(candidate.features.n_linear(d)),
            linear + np.flatnonzero((i < most) & (j < most)),
            linear + products + np.arange(self.reservoir.n_units),
        ]
        return factor.only(np.concatenate(columns))

    def _states(self, z: Array) -> Array:
        return np.asarray(run(self.reservoir, z)[0]) if self.reservoir.n_units else np.zeros((len(z), 0))

    def loops(
        self, candidate: Candidate, weights: FloatArray, origins: Sequence[Origin], away: float = 0.0
    ) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Errors (readouts, origins, leads, d) of the closed loops of readouts (readouts, m, p), and which left the range of y.

        ``away`` is the size of random steps, in deviations, by which the loops start away from what was observed.
        """
        problem, d = self.problem, self.problem.dynamics.n_columns
        starts = [self._start(candidate, origin) for origin in origins]
        y, u, earlier, units, ahead, after = (np.stack(part) for part in zip(*starts, strict=True))
        if away:
            rng = np.random.default_rng(problem.seed)
            y, earlier = (part + away * rng.standard_normal(part.shape) for part in (y, earlier))
        loop = _loop(problem, self.reservoir, candidate, np.asarray(weights[:, None], float))
        shape = len(weights), len(origins)
        mean = np.broadcast_to(np.concatenate([earlier, units], axis=-1), (*shape, earlier.shape[1] + units.shape[1]))
        state = loop.init(
            mean,
            np.zeros((0, mean.shape[-1])),
            np.broadcast_to(y, (*shape, d)),
            np.broadcast_to(u, (*shape, u.shape[1])),
            moved=True,
        )
        inputs = np.broadcast_to(ahead, (*shape, *ahead.shape[1:]))
        path = rollout(loop.model, state, inputs, moved=True)
        return after - path.mean, np.asarray(path.left.any(axis=(-2, -1)))

    def _start(self, candidate: Candidate, origin: Origin) -> tuple[Array, ...]:
        """y, u, earlier rows and units at an origin; inputs and y after it."""
        s, k, d = self.problem.segments[origin.segment], origin.row, self.problem.dynamics.n_columns
        z = s.z[max(k - _CONTEXT, 0) : k + 1]
        before = z[-2 : -2 - candidate.lags : -1] if candidate.lags else z[:0]
        before = np.vstack([before, np.repeat(z[:1], candidate.lags - len(before), axis=0)])
        if origin not in self._units:
            self._units[origin] = self._states(z)[-1]
        leads = self.problem.leads
        return s.y[k], s.z[k, d:], before.ravel(), self._units[origin], s.z[k : k + leads, d:], s.y[k + 1 : k + 1 + leads]


def _loop(problem: Problem, reservoir: Reservoir, candidate: Candidate, weights: Array) -> ClosedLoop:
    """The closed loop of readouts (readouts, 1, m, p), of means alone."""
    d, m = problem.dynamics.n_columns, weights.shape[-2]
    nothing = ErrorModel(np.zeros((d, d)), np.zeros(d), np.zeros((d, d)))
    readout = Readout(weights, np.zeros((m, m)), np.zeros((weights.shape[-1], 0)), 0)
    units = ActivationMoments(get("tanh"))
    return ClosedLoop(
        reservoir,
        readout,
        nothing,
        problem.dynamics,
        units,
        form="none",
        parts=(),
        guard=problem.bounds,
        features=candidate.features,
    )


def score(errors: Array) -> Array:
    """The mean over leads of log E min(|error|, 5), (…) of errors (…, origins, leads, d) in deviations of the columns."""
    size = np.minimum(np.abs(np.nan_to_num(errors, nan=_CAPPED)), _CAPPED).mean(axis=(-3, -1))
    return np.asarray(np.mean(np.log(size + 1e-12), axis=-1))


def search(problem: Problem, steps: Steps) -> Design:
    """The design with the best closed loops into rows that were held out.

    Parameters
    ----------
    problem
        The rows; at least :data:`LEAST_ROWS` of them.
    steps
        Where each rung, with its designs, is announced.

    Returns
    -------
    Design
        Which, and the scores of all that were tried.
    """
    n_units = int(np.clip(problem.n_rows / 8, 50, 300 if problem.n_rows <= 20_000 else 600))
    maps = maps_for(problem.n_inputs)
    tried: list[tuple[int, Candidate, float]] = []
    with steps.step("comparing designs", len(KINDS) * len(maps), "designs") as advance:
        for candidate, value in _first_rung(problem, min(_FEW_UNITS, n_units), maps):
            tried.append((1, candidate, value))
            advance(1)
    chosen = shortlist([(value, candidate) for _, candidate, value in tried], n_units)
    with steps.step("comparing the best designs", len(chosen) + len(_NOISES), "designs") as advance:
        for candidate, value in _second_rung(problem, chosen):
            tried.append((2, candidate, value))
            advance(1)
        with_units = [one for one in tried if one[0] == 2 and one[1].kind != "none"]
        for best in sorted(with_units, key=lambda one: one[2])[:1]:
            for noise in _NOISES:
                for candidate, value in _second_rung(problem, [replace(best[1], input_noise=noise)]):
                    tried.append((2, candidate, value))
                    advance(1)
    _, candidate, _ = min((one for one in tried if one[0] == 2), key=lambda one: one[2])
    return Design(candidate, problem.seed, tuple(tried))


def _first_rung(problem: Problem, n_units: int, maps: list[tuple[int, int]]) -> Iterator[tuple[Candidate, float]]:
    """Every kind of reservoir with every map, one penalty, the last fold held out."""
    pieces, last = problem.pieces(_FEW_ROWS), _FOLDS - 1
    origins = problem.origins(last, _FEW_ORIGINS)
    for kind in KINDS:
        n = 0 if kind == "none" else n_units
        network = Network(
            problem, Candidate(kind, max(lags for lags, _ in maps), max(products for _, products in maps), n), pieces
        )
        others = network.without(last)
        for lags, products in maps:
            candidate = Candidate(kind, lags, products, n)
            size = candidate.features.size(problem.n_inputs, n)
            if size <= 0.7 * others.n_samples or (kind, lags, products) == ("none", 9, 0):
                ridges = [(ridge, ridge) for ridge in _COARSE]
                value, ridge = _best(network, candidate, {last: network.only(others, candidate)}, {last: origins}, ridges)
                yield replace(candidate, ridge=ridge), value


def _second_rung(problem: Problem, candidates: list[Candidate]) -> Iterator[tuple[Candidate, float]]:
    """Several folds held out; one penalty for all, then another one for the linear features."""
    pieces = problem.pieces(_MORE_ROWS)
    origins = {fold: found for fold in _HELD_OUT if (found := problem.origins(fold, _MORE_ORIGINS))}
    for kind in dict.fromkeys(one.kind for one in candidates):
        alike = [one for one in candidates if one.kind == kind]
        widest = replace(alike[0], lags=max(one.lags for one in alike), products=max(one.products for one in alike))
        network = Network(problem, widest, pieces)
        others = {fold: network.without(fold) for fold in origins}
        for candidate in alike:
            factors = {fold: network.only(factor, candidate) for fold, factor in others.items()}
            best = _best(network, candidate, factors, origins, [(ridge, ridge) for ridge in _RIDGES], stable=True)
            if kind != "none" or candidate.products:
                others_too = [(linear, best[1][1]) for linear in _LINEAR if linear != best[1][1]]
                best = min(best, _best(network, candidate, factors, origins, others_too, stable=True))
            yield replace(candidate, ridge=best[1]), best[0]


def _best(
    network: Network,
    candidate: Candidate,
    factors: dict[int, Factor],
    origins: dict[int, list[Origin]],
    ridges: list[tuple[float, float]],
    stable: bool = False,
) -> tuple[float, tuple[float, float]]:
    """The lowest score, and which of the ridges it is of; ``stable``: loops that start a little away must not leave."""
    features, d, n = candidate.features, network.problem.n_inputs, network.reservoir.n_units
    scores, readouts = [], {}
    for fold, factor in factors.items():
        penalties = np.stack(
            [factor.n_samples * penalties_of(features.penalty(ridge, d, n), factor.n_features) for ridge in ridges]
        )
        readouts[fold] = weights = ridge_path(factor, penalties)
        value = score(network.loops(candidate, weights, origins[fold])[0])
        scores.append(np.where(np.abs(weights).max(axis=(-2, -1)) <= _LARGEST, value, np.inf))
    mean = np.mean(scores, axis=0)
    if not stable:
        return float(mean.min()), ridges[int(np.argmin(mean))]
    best, chosen = np.inf, int(np.argmin(mean))
    for k in np.argsort(mean):
        if mean[k] >= best:
            break
        left = [network.loops(candidate, readouts[fold][k : k + 1], origins[fold], _AWAY)[1].mean() for fold in factors]
        if (total := float(mean[k] + _LEAVING * np.mean(left))) < best:
            best, chosen = total, int(k)
    return best, ridges[chosen]
