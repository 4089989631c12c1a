"""One reservoir over the rows of a problem: the readouts of every fold and ridge, and their closed loops of means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array, FloatArray
from pesn.activations import get
from pesn.forecasting.design.candidates import Candidate
from pesn.forecasting.design.problem import FOLDS, Piece, Place, Problem
from pesn.forecasting.training import with_noise
from pesn.readout.features import Features
from pesn.readout.least_squares import Factor, leave_out, ridge_path
from pesn.readout.ridge import Readout, penalties_of
from pesn.reservoir.closed_loop import ClosedLoop, ErrorModel
from pesn.reservoir.drive import run
from pesn.statespace import ActivationMoments, rollout

__all__ = ["Network", "by_lead"]

_CAPPED = 5.0  # deviations: an error beyond is as bad as any
_CONTEXT = 150  # rows that drive the units before an origin


class Network:
    """A reservoir over the rows of a problem: its least-squares factors by fold, and its loops."""

    def __init__(self, problem: Problem, candidate: Candidate, pieces: Sequence[Piece]) -> None:
        self.problem, self.widest, self.n_rows = problem, candidate, 0
        self._units: dict[Place, Array] = {}  # at origins
        self._others: dict[int, Factor] = {}
        self._parts: dict[tuple[Features, int], Factor] = {}
        self._loops: dict[Features, ClosedLoop] = {}  # one of each features: how cells are entered is laid out once
        self.reservoir = candidate.reservoir(problem.n_inputs, len(problem.dynamics.learned), problem.seed)
        features, n = candidate.features, self.reservoir.n_units
        self.factors = [Factor(features.size(problem.n_inputs, n), len(problem.dynamics.learned)) for _ in range(FOLDS)]
        rng = np.random.default_rng(problem.seed)
        for piece in pieces:
            rows, segment, learnt = slice(piece.first, piece.last), problem.segments[piece.segment], slice(piece.washed, None)
            z, targets, folds = segment.z[rows], segment.targets[rows][learnt], problem.folds[piece.segment][rows][learnt]
            away: list[Array] = []
            if candidate.input_noise:
                b, *away = with_noise(self._features, z, problem.dynamics, candidate.input_noise, rng)
            else:
                b = self._features(z)
            b, away = b[learnt], [part[learnt] for part in away]
            for fold in np.unique(folds):
                here = folds == fold
                self.factors[fold].add(b[here], targets[here])
                if away:
                    self.factors[fold].add_covariance(*(part[here] for part in away))
            self.n_rows += len(b)

    def factor_of(self, candidate: Candidate, fold: int) -> Factor:
        """Of all folds but one, with the features of this candidate, which are among the network's own."""
        if (candidate.features, fold) in self._parts:
            return self._parts[candidate.features, fold]
        if fold not in self._others:
            self._others |= leave_out(self.factors, [fold])
        d, widest = self.problem.n_inputs, self.widest
        i, j = np.triu_indices(widest.products * d)
        linear, products = widest.features.n_linear(d), len(i)
        most = candidate.products * d
        columns = [
            np.arange(candidate.features.n_linear(d)),
            linear + np.flatnonzero((i < most) & (j < most)),
            linear + products + np.arange(self.reservoir.n_units),
        ]
        return self._parts.setdefault((candidate.features, fold), self._others[fold].only(np.concatenate(columns)))

    def readouts(self, candidate: Candidate, fold: int, ridges: Sequence[tuple[float, float]]) -> FloatArray:
        """Weights (ridges, m, p) of a candidate from all folds but one."""
        factor = self.factor_of(candidate, fold)
        penalties = [candidate.features.penalty(ridge, self.problem.n_inputs, self.reservoir.n_units) for ridge in ridges]
        return ridge_path(factor, factor.n_samples * np.stack([penalties_of(one, factor.n_features) for one in penalties]))

    def _features(self, z: Array) -> Array:
        return self.widest.features(self.problem.dynamics.network_rows(z), self._states(z))

    def _states(self, z: Array) -> Array:
        rows = self.problem.dynamics.network_rows(z)
        return np.asarray(run(self.reservoir, rows)[0]) if self.reservoir.n_units else np.zeros((len(z), 0))

    def loops(
        self, candidate: Candidate, weights: FloatArray, origins: Sequence[Place], away: Array | float = 0.0
    ) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Errors (readouts, origins, leads, d) of the closed loops of readouts (readouts, m, p), and which left the range of y.

        ``away`` (d,): the size of random steps by which the rows that loops start from are away from those observed.
        """
        problem, d = self.problem, self.problem.dynamics.n_columns
        self._drive(origins)
        starts = [self._start(candidate, origin) for origin in origins]
        y, u, earlier, units, ahead, after = (np.stack(part) for part in zip(*starts, strict=True))
        if np.any(away):
            rng, earlier = np.random.default_rng(problem.seed), earlier.copy()
            y = y + away * rng.standard_normal(y.shape)
            earlier[..., :d] += away * rng.standard_normal(earlier[..., :d].shape)
        earlier = problem.dynamics.network_rows(earlier).reshape(len(origins), -1)
        loop = self._loop(candidate, np.asarray(weights[:, None], float))
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

    def _loop(self, candidate: Candidate, weights: Array) -> ClosedLoop:
        """The closed loop of readouts (readouts, 1, m, p), of means alone."""
        problem, features = self.problem, candidate.features
        d, m = problem.dynamics.n_columns, weights.shape[-2]
        nothing = ErrorModel(np.zeros((d, d)), np.zeros(d), np.zeros((d, d)))
        readout = Readout(weights, np.zeros((m, m)), np.zeros((weights.shape[-1], 0)), 0)
        if features in self._loops:
            return self._loops[features].with_readout(readout, nothing)
        loop = ClosedLoop(
            self.reservoir, readout, nothing, problem.dynamics, ActivationMoments(get("tanh")), form="none", parts=(),
            guard=problem.bounds, features=features,
        )  # fmt: skip
        return self._loops.setdefault(features, loop)

    def _drive(self, origins: Sequence[Place]) -> None:
        """Units at origins: a segment is driven whole where this takes no more rows than the contexts of its origins."""
        missing: dict[int, list[Place]] = {}
        for origin in origins:
            if origin not in self._units:
                missing.setdefault(origin.segment, []).append(origin)
        for i, places in missing.items():
            z, last = self.problem.segments[i].z, max(origin.row for origin in places) + 1
            if last <= _CONTEXT * len(places):
                states = self._states(z[:last])
                self._units |= {origin: states[origin.row] for origin in places}
            else:
                self._units |= {o: self._states(z[max(o.row - _CONTEXT, 0) : o.row + 1])[-1] for o in places}

    def _start(self, candidate: Candidate, origin: Place) -> tuple[Array, ...]:
        """y, u, earlier rows and units at an origin; inputs and y after it."""
        s, k, d = self.problem.segments[origin.segment], origin.row, self.problem.dynamics.n_columns
        before = s.z[np.maximum(k - 1 - np.arange(candidate.lags), 0)]
        leads = self.problem.leads
        return s.y[k], s.z[k, d:], before, self._units[origin], s.z[k : k + leads, d:], s.y[k + 1 : k + 1 + leads]


def by_lead(errors: Array) -> Array:
    """log E min(|error|, 5) of each lead, (…, leads) of errors (…, origins, leads, d) in deviations of the columns."""
    size = np.minimum(np.abs(np.nan_to_num(errors, nan=_CAPPED)), _CAPPED).mean(axis=(-3, -1))
    return np.asarray(np.log(size + 1e-12))
