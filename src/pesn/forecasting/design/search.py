"""The search: every design's closed loop runs into rows that its readout has not seen, and the one that errs least is taken.

Three rungs. All kinds of reservoirs with all features run with few units; the best of them run again at full size, with two
penalties and with noise on the training inputs; the best of those, and the best of each kind, run from more rows and in one more
fold. All loops of a design (each ridge, each origin) are one batch of means, without covariances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pesn._support.progress import Steps
from pesn._support.types import Array, FloatArray
from pesn.forecasting.design.candidates import (
    FEW_INPUTS,
    FOLDS,
    KINDS,
    Candidate,
    Design,
    Network,
    Problem,
    by_lead,
    finalists,
    is_arx,
    shortlist,
)

_FEW_UNITS, _MORE_UNITS = 100, 300  # of the first two rungs, and their rows, folds held out, origins in each
_FEW_ROWS, _FIRST, _FEW_ORIGINS = 4_000, (1, 4), 16
_MORE_ROWS, _SECOND, _MORE_ORIGINS = 6_000, (0, 3), 16
_OF_MANY = 10_000  # rows of both, where there are many: wide features need them
_MOST_ROWS, _THIRD, _MOST_ORIGINS = 24_000, (0, 2, 3), 48
_FEW_FOR_FOLDS = 1_000  # rows: no more, and every fold is held out
_MANY_ORIGINS = 150  # of the last rung, of many rows
# small ridges on linear features with larger ones on all others: ARX(10) with what units add to it
_COARSE = (*((ridge, ridge) for ridge in (1e-14, 1e-10, 1e-6, 1e-2)), (1e-7, 1e-3))
_LARGE = (1e-7, 1e-1)  # the same of many products
_RIDGES = (*((ridge, ridge) for ridge in (1e-15, 1e-11, 1e-7, 1e-3)), (1e-14, 1e-7), (1e-7, 1e-3))
_SMALLEST = 1e-15  # below, rounding chooses the weights: loops of few rows that look as good leave in one forecast of ten
_SMALLER = (0.1, 0.01)  # times the ridge of the best design of many rows
_LINEAR = tuple(10.0**k for k in (-14, -10, -7, -4))
_NOISES, _LOUDEST = (1e-3, 1e-2, 0.1), 30.0  # on inputs, in deviations, and in errors of the design that is tried with it
_LARGEST = 3e3  # weights in units of a target's deviation: larger ones multiply what no covariance in closed form has right
_AWAY, _FARTHEST = 3.0, 0.03  # loops start away by so many errors of their first step, and by so many deviations at most
_LEAVING = 20.0  # what it costs if all of them leave
_REFUSED = 1e3  # a score that none has
_ALLOWED, _JUDGED = np.log(1.03), (1, 5, 20, 50)  # how much worse than ARX(10) a design may be at these leads


class Scored(NamedTuple):
    """A candidate and its score: the lower the better."""

    score: float
    candidate: Candidate


def _score(one: Scored) -> float:
    return one.score


class Comparison:
    """Candidates on the same rows, from the same origins; a network of a kind is made once for all its features and ridges.

    Parameters
    ----------
    problem
        All rows.
    n_rows
        How many of them readouts learn from.
    folds, count
        Which are held out one by one, and from how many rows of each loops start.
    apart
        Whether each candidate has a network of its own, because few are compared.
    """

    def __init__(self, problem: Problem, n_rows: int, folds: tuple[int, ...], count: int, apart: bool = False) -> None:
        self.problem, self.pieces, self.apart = problem, problem.pieces(n_rows), apart
        found = {fold: problem.origins(fold, count) for fold in range(FOLDS)}
        some = [fold for fold in folds if found[fold]] or range(FOLDS)  # gaps may leave no stretch of a fold long enough
        self.origins = {fold: found[fold] for fold in some if found[fold]}
        self.networks: dict[Candidate, Network] = {}

    def network(self, candidate: Candidate) -> Network:
        """The one that has the features of this candidate, and those of others of its kind that cost little more."""
        widest = replace(candidate, ridge=(0.0, 0.0))
        if not candidate.input_noise and not self.apart:
            most = 2 if self.problem.n_inputs <= FEW_INPUTS else max(candidate.products, 1)
            lags, products = zip(*((lags, products) for lags, products in self.problem.maps if products <= most), strict=True)
            widest = replace(widest, lags=max(lags), products=max(products))
        if widest not in self.networks:
            self.networks[widest] = Network(self.problem, widest, self.pieces)
        return self.networks[widest]

    def best(self, candidate: Candidate, ridges: Sequence[tuple[float, float]], stable: bool = True) -> Scored:
        """With the best of the ridges; ``stable``: loops that start a little away must not leave."""
        readouts = {fold: self.network(candidate).readouts(candidate, fold, ridges) for fold in self.origins}
        errors, first, left = self._errors(candidate, readouts)
        largest = np.max([np.abs(weights).max(axis=(-2, -1)) for weights in readouts.values()], axis=0)
        scores = np.where(largest <= _LARGEST, errors.mean(axis=(0, -1)), _REFUSED)
        best = Scored(np.inf, candidate)
        for k in np.argsort(scores, kind="stable"):
            if scores[k] >= best.score:
                break
            value = float(scores[k])
            if stable:
                these = {fold: weights[k : k + 1] for fold, weights in readouts.items()}
                value += self._leaving(candidate, these, first[k], left[k])
            if value < best.score:
                best = Scored(value, replace(candidate, ridge=ridges[k]))
        return best

    def by_lead(self, candidate: Candidate) -> Array:
        """The logarithm of the error in each fold at each lead (folds, leads), and what leaving costs."""
        readouts = {fold: self.network(candidate).readouts(candidate, fold, [candidate.ridge]) for fold in self.origins}
        errors, first, left = self._errors(candidate, readouts)
        return errors[:, 0] + self._leaving(candidate, readouts, first[0], left[0])

    def _errors(self, candidate: Candidate, readouts: dict[int, FloatArray]) -> tuple[Array, Array, Array]:
        """Of r readouts the logarithms of errors (folds, r, leads), the error of one step (r, d), the share that left (r,)."""
        found = [self.network(candidate).loops(candidate, readouts[fold], places) for fold, places in self.origins.items()]
        first = np.mean([np.abs(errors[:, :, 0]).mean(axis=1) for errors, _ in found], axis=0)
        left = np.mean([gone.mean(axis=1) for _, gone in found], axis=0)
        return np.stack([by_lead(errors) for errors, _ in found]), first, left

    def _leaving(self, candidate: Candidate, readouts: dict[int, FloatArray], first: Array, left: float) -> float:
        """What it costs that more loops leave the range of y when they start a few errors of one step away."""
        away, network = np.minimum(_AWAY * first, _FARTHEST), self.network(candidate)
        gone = [network.loops(candidate, readouts[fold], places, away)[1].mean() for fold, places in self.origins.items()]
        return _LEAVING * max(0.0, float(np.mean(gone)) - left)


def search(problem: Problem, steps: Steps) -> Design:
    """The design with the best closed loops into rows that were held out.

    Parameters
    ----------
    problem
        The rows; at least :data:`pesn.forecasting.design.candidates.LEAST_ROWS` of them.
    steps
        Where each rung, with its designs, is announced.

    Returns
    -------
    Design
        Which, and the scores of all that were tried.
    """
    n_units, many = int(np.clip(problem.n_rows / 8, 50, _MORE_UNITS)), problem.has_many_rows
    with steps.step("comparing designs", len(KINDS) * len(problem.maps), "designs") as advance:
        first = list(_first_rung(problem, min(_FEW_UNITS, n_units), advance))
    more = Comparison(problem, _OF_MANY if many else _MORE_ROWS, _SECOND, _MORE_ORIGINS)
    with steps.step("comparing the best designs"):
        second = _second_rung(more, shortlist(first, n_units))
    folds = _THIRD if problem.n_rows > _FEW_FOR_FOLDS else tuple(range(FOLDS))
    last = Comparison(problem, _MOST_ROWS, folds, _MANY_ORIGINS if many else _MOST_ORIGINS, apart=many)
    if last.pieces == more.pieces:
        last.networks = more.networks
    more.networks = {}
    chosen = finalists(second, 4 if last.networks else 2, many)
    with steps.step("comparing the last designs", len(chosen), "designs") as advance:
        third = _third_rung(last, chosen, advance)
    tried = ((rung, one.candidate, one.score) for rung, scored in enumerate((first, second, third), 1) for one in scored)
    return Design(min(third, key=_score).candidate, problem.seed, tuple(tried))


def _first_rung(problem: Problem, n_units: int, advance: Callable[[int], None]) -> Iterator[Scored]:
    """Every kind of reservoir with every map, and few penalties."""
    few = Comparison(problem, _OF_MANY if problem.has_many_rows else _FEW_ROWS, _FIRST, _FEW_ORIGINS)
    for kind in KINDS:
        for lags, products in problem.maps:
            candidate = Candidate(kind, lags, products, 0 if kind == "none" else n_units)
            if products > 1 and problem.n_inputs > FEW_INPUTS and candidate.n_units:
                continue  # the best features are tried with all kinds later
            size = candidate.features.size(problem.n_inputs, candidate.n_units)
            if size <= 0.7 * few.network(candidate).n_rows or is_arx(candidate):
                yield few.best(candidate, (*_COARSE, _LARGE) if products else _COARSE, stable=False)
            advance(1)


def _second_rung(more: Comparison, candidates: list[Candidate]) -> list[Scored]:
    """One after the other: the kind, its features, these of other kinds, both penalties of the best two, noise on inputs."""
    found: list[Scored] = []

    def compare(candidates: Iterable[Candidate]) -> Candidate:
        seen = {(one.candidate.kind, one.candidate.lags, one.candidate.products) for one in found}
        for one in candidates:
            if (one.kind, one.lags, one.products) not in seen:
                found.append(more.best(one, (*_RIDGES, _LARGE) if one.products else _RIDGES))
        return min(found, key=_score).candidate

    best = compare(candidates)
    best = compare(replace(best, lags=lags, products=products) for lags, products in more.problem.maps)
    with_units = [one for one in candidates if one.n_units]
    some = with_units[:2] if more.problem.has_many_rows else with_units
    compare(replace(one, lags=best.lags, products=best.products) for one in some)
    for _, one in sorted(found, key=_score)[:2]:
        found.append(more.best(one, [*_near(one), *((ridge, one.ridge[1]) for ridge in _LINEAR if ridge != one.ridge[1])]))
    ranked = sorted((one for one in found if one.candidate.kind != "none"), key=_score)
    of_kinds = list({one.candidate.kind: one for one in reversed(ranked)}.values())[::-1]
    if not more.problem.has_many_rows:  # many rows leave little that noise would change
        for quiet in of_kinds[:2]:
            found += _with_noise(more, quiet)
    return found


def _with_noise(more: Comparison, quiet: Scored) -> Iterator[Scored]:
    """A design with more and more noise on its inputs, while it gets better; with noise smaller ridges than without are best."""
    before = quiet
    for noise in _NOISES:
        if noise > _LOUDEST * np.exp(quiet.score):
            return
        now = more.best(replace(quiet.candidate, input_noise=noise), [before.candidate.ridge, *_RIDGES])
        yield now
        if now.score > before.score and noise > _NOISES[0]:
            return
        before = now


def _near(one: Candidate) -> list[tuple[float, float]]:
    """Ridges between those that were tried."""
    linear, others = one.ridge
    near = [(linear * factor if linear == others else linear, others * factor) for factor in (0.01, 100.0)]
    return [(linear, others) for linear, others in near if others >= _SMALLEST]


def _third_rung(last: Comparison, candidates: list[Candidate], advance: Callable[[int], None]) -> list[Scored]:
    """From more rows, and at full size, beside ARX(10).

    What it does better at any of four leads is charged, each by a quarter. A design that is not better than it by a standard
    error over the folds falls behind it.
    """
    at = [lead - 1 for lead in _JUDGED if lead <= last.problem.leads]
    arx = last.by_lead(next(one for one in candidates if is_arx(one)))

    def scored(one: Candidate) -> Scored:
        errors = last.by_lead(one)
        apart = (errors - arx).mean(axis=1)
        value = float(errors.mean() + np.mean(np.maximum((errors - arx).mean(axis=0)[at] - _ALLOWED, 0.0)))
        doubt = float(np.std(apart) / np.sqrt(max(len(apart) - 1, 1)))
        if doubt > 0.0 and apart.mean() + doubt > 0.0:
            value = max(value, float(arx.mean()) + doubt)
        return Scored(value, one)

    found = []
    for one in candidates:
        found.append(scored(one))
        advance(1)
    if last.apart:  # of more rows than before, and then smaller ridges may be best
        _, best = min(found, key=_score)
        found += [scored(replace(best, ridge=(best.ridge[0], factor * best.ridge[1]))) for factor in _SMALLER]
    return found
