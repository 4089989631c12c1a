"""What is learnt for a drawn reservoir from segments of rows: its readout, how it errs in one step, where a sequence starts."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np

from pesn._support.types import Array, RidgeValue, Washout
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.forecasting.dataset import Segment, drop_short
from pesn.learning.error_model import learn_errors, of_process
from pesn.readout.factor import Factor
from pesn.readout.gram import Gram
from pesn.readout.ridge import Readout, least_squares, predict, solve
from pesn.reservoir.closed_loop import Dynamics, ErrorModel
from pesn.reservoir.drive import run
from pesn.reservoir.initial_state import Start
from pesn.reservoir.initial_state import learn as learn_start
from pesn.reservoir.sequences import blocks

__all__ = ["Driven", "Trained", "drive", "noisy", "one_step_errors", "to_learn_from", "train"]

_ROUNDING = 1e-12  # of y's deviation: targets that vary by less are constant


class Trained(NamedTuple):
    """What is learnt for one reservoir: the readout, how it errs, where a sequence starts, how y is measured (None: exactly)."""

    readout: Readout
    errors: ErrorModel
    start: Start
    measurement_cov: Array | None = None

    def measured_with(self, var: Array) -> Trained:
        """With errors that are the process's own, beside noise of the measurement of variances (d,)."""
        return self._replace(errors=of_process(self.errors, var), measurement_cov=np.diag(var) if var.any() else None)


def to_learn_from(segments: list[Segment], washout: Washout, width: Array, lags: int = 0) -> tuple[list[Segment], Array]:
    """Those long enough for the ``washout`` and ``lags`` rows before, with targets in units of their deviation; and this, (m,).

    ``width`` (m,) is the deviation of the columns of y that the targets are of.
    """
    counted = isinstance(washout, Integral)
    washed = max(int(washout) if counted else 0, lags)
    kept = drop_short(segments, washed + 1 if counted else washed + 2)
    if sum(len(s.z) - washed for s in kept) < 4:  # fewer leave no errors to learn from
        before = f"the {lags} lags of its features" if lags and washed == lags else f"the washout of {washout!r}"
        raise ValueError(
            f"y must have at least 5 rows in a row without gaps (with those of X) to learn from, after {before}, got fewer"
        )
    std = np.std(np.vstack([s.targets for s in kept]), axis=0)
    # changes of a straight line differ by rounding alone, and in units of that no weights would be finite for long
    std = np.where(std > _ROUNDING * width, std, 1.0)
    return [s._replace(targets=s.targets / std) for s in kept], std


def noisy(segments: list[Segment], dynamics: Dynamics, noise: float, seed: int = 0) -> list[Segment]:
    """With noise on the columns of y in the inputs, in deviations, and targets that lead back to the rows without it."""
    if not noise:
        return segments
    rng, d, found = np.random.default_rng(seed), dynamics.n_columns, []
    for s in segments:
        away = noise * rng.standard_normal((len(s.z), d))
        targets = s.targets - away[:, dynamics.learned] / dynamics.scale if dynamics.change else s.targets
        found.append(s._replace(z=np.hstack([s.z[:, :d] + away, s.z[:, d:]]), targets=targets))
    return found


class Driven(NamedTuple):
    """A reservoir driven by segments of rows: least squares ready for any ridge, features, and what is known of starts."""

    segments: list[Segment]
    features: list[Array]
    sums: Gram | Factor
    start: Start


def drive(esn: ProbabilisticESN, dynamics: Dynamics, segments: list[Segment], input_noise: float = 0.0) -> Driven:
    """A fitted network's reservoir, driven by these rows alone; the readout learns from them with noise on y in the inputs."""
    reservoir, d = esn.reservoir_, esn.reservoir_.n_inputs
    penalty = esn.features.penalty(esn.ridge_, d, reservoir.n_units)
    sums = least_squares(esn.features.size(d, reservoir.n_units), len(dynamics.learned), penalty)
    kept: list[tuple[Array, Array, int]] = []
    rows = []
    for segment, learnt in zip(segments, noisy(segments, dynamics, input_noise), strict=True):
        states, _, _ = run(reservoir, segment.z, feedback=segment.targets)
        b, washed = esn.features(segment.z, states), max(min(esn.washout_, len(states) // 2), esn.features.lags)
        learnt_b = b
        if input_noise:
            learnt_b = esn.features(learnt.z, run(reservoir, learnt.z, feedback=learnt.targets)[0])
        if washed < len(b):
            sums.add(learnt_b[washed:], learnt.targets[washed:])
        kept.append((segment.z, esn.features.remembered(b, d), washed))
        rows.append(b)
    return Driven(segments, rows, sums, learn_start(kept))


def train(esn: ProbabilisticESN, dynamics: Dynamics, driven: Driven, ridge: RidgeValue) -> Trained:
    """Readout, errors and start of a fitted network's reservoir, from the rows that drove it alone."""
    readout = solve(driven.sums, esn.features.penalty(ridge, esn.reservoir_.n_inputs, esn.reservoir_.n_units))
    residuals = [
        _errors(readout, dynamics, segment, b, slice(0, len(b)))
        for segment, b in zip(driven.segments, driven.features, strict=True)
    ]
    return Trained(readout, _learn(esn, readout, dynamics, residuals), driven.start)


def one_step_errors(esn: ProbabilisticESN, readout: Readout, dynamics: Dynamics, segments: list[Segment]) -> ErrorModel:
    """From one-step residuals of y, kinematics included; a fit leaves smaller ones than it will meet."""
    residuals = []
    for segment in segments:
        state, before, parts = None, None, []
        for block in blocks(slice(0, len(segment.z))):
            z = segment.z[block]
            states, _, state = run(esn.reservoir_, z, state, feedback=segment.targets[block])
            parts.append(_errors(readout, dynamics, segment, esn.features(z, states, before), block))
            before = esn.features.after(z, before)
        residuals.append(np.concatenate(parts))
    return _learn(esn, readout, dynamics, residuals)


def _errors(readout: Readout, dynamics: Dynamics, segment: Segment, b: Array, block: slice) -> Array:
    """Errors of one step (n, d) in a block of a segment's rows, from the features (n, p) there."""
    wrong = segment.targets[block] - predict(readout, b)
    return dynamics.errors(wrong, segment.y[block.start : block.stop + 1])


def _learn(esn: ProbabilisticESN, readout: Readout, dynamics: Dynamics, residuals: list[Array]) -> ErrorModel:
    """From residuals (n, d) of segments, their washout left out."""
    residuals = [e[max(min(esn.washout_, len(e) - 1), esn.features.lags) :] for e in residuals]
    inside = np.diagonal(np.cov(np.vstack(residuals).T, bias=True).reshape(dynamics.n_columns, -1))[dynamics.learned]
    outside = np.diagonal(readout.residual_cov) * dynamics.scale**2
    ratio = np.divide(outside, inside, out=np.ones_like(inside), where=inside > _ROUNDING**2)  # rounding has no ratio
    # of two columns the lower: one that is an exact function of others has residuals of rounding, and their ratio says nothing
    return learn_errors(residuals, float(max(np.quantile(ratio, 0.5, method="lower"), 1.0)))
