"""What is learnt for a drawn reservoir from segments of rows: its readout, how it errs in one step, where a sequence starts."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import NamedTuple

import numpy as np

from pesn._support.types import Array, RidgeValue, Washout
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.forecasting.dataset import Segment, drop_short
from pesn.learning.backtest import rolling_origins
from pesn.learning.error_model import learn_errors, of_process, weight_inflation
from pesn.linalg import symmetric
from pesn.readout.factor import Factor
from pesn.readout.groups import Groups
from pesn.readout.ridge import Penalty, Readout, Sums, least_squares, parameters_used, penalties_of, predict, solve
from pesn.reservoir.closed_loop import Dynamics, ErrorModel
from pesn.reservoir.drive import run
from pesn.reservoir.initial_state import Start
from pesn.reservoir.local import LocalStart, learn_start
from pesn.reservoir.sequences import blocks
from pesn.reservoir.weight_errors import posterior_root

__all__ = ["Driven", "Trained", "drive", "one_step_errors", "to_learn_from", "train", "with_noise"]

_LEFT_OUT, _LONGEST = 5, 400  # blocks of rows, and rows of each, by which it is seen how far weights are to be trusted
_ROUNDING = 1e-12  # of y's deviation: targets that vary by less are constant


class Trained(NamedTuple):
    """What is learnt for one reservoir: the readout, how it errs, where a sequence starts, how y is measured (None: exactly).

    ``ridge``: the readout's; None: the network's own.
    """

    readout: Readout
    errors: ErrorModel
    start: Start | LocalStart
    measurement_cov: Array | None = None
    ridge: RidgeValue | None = None

    def measured_with(self, var: Array) -> Trained:
        """With errors that are the process's own, beside noise of the measurement of variances (d,)."""
        return self._replace(errors=of_process(self.errors, var), measurement_cov=np.diag(var) if var.any() else None)


def to_learn_from(
    segments: list[Segment], washout: Washout, width: Array, lags: int = 0, one_scale: bool = False
) -> tuple[list[Segment], Array]:  # fmt: skip
    """Those long enough for the ``washout`` and ``lags`` rows before, with targets in units of their deviation; and this, (m,).

    ``width`` (m,) is the deviation of the columns of y that the targets are of; ``one_scale``: all targets have one deviation.
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
    if one_scale:
        std = np.full_like(std, np.sqrt(np.mean(np.square(std))))
    return [s._replace(targets=s.targets / std) for s in kept], std


class UncertainRows(NamedTuple):
    """What noise on inputs does to features and targets: means (n, p) of the features, and rows δ with Σ δ δᵀ = Σ Cov [b, y]."""

    features: Array
    features_away: Array
    targets_away: Array


def with_noise(
    features_of: Callable[[Array], Array], z: Array, dynamics: Dynamics, noise: float, rng: np.random.Generator
) -> UncertainRows:
    """Rows z (n, d + u) whose columns of y are uncertain by ``noise`` deviations, while targets lead to the rows that are there.

    A readout that knows this does not trust what small errors of its own would change: E[b bᵀ] = b̄ b̄ᵀ + Cov b. Both are of one
    draw of the noise and its mirror image, (b₊ ± b₋)/2: nothing is left between the mean and the noise, which is most of what
    one draw alone would add, and over all rows one pair is as good as many.
    """
    d = dynamics.n_columns
    away = noise * rng.standard_normal((len(z), d))
    above, below = (features_of(np.hstack([z[:, :d] + side * away, z[:, d:]])) for side in (1.0, -1.0))
    back = -away[:, dynamics.learned] / dynamics.scale
    return UncertainRows(0.5 * (above + below), 0.5 * (above - below), back if dynamics.change else np.zeros_like(back))


class Driven(NamedTuple):
    """A reservoir driven by segments of rows: least squares ready for any ridge, features, and what is known of starts."""

    segments: list[Segment]
    features: list[Array]
    sums: Sums
    start: Start | LocalStart
    input_noise: float


def drive(esn: ProbabilisticESN, dynamics: Dynamics, segments: list[Segment], input_noise: float = 0.0) -> Driven:
    """A fitted network's reservoir, driven by these rows alone; its readout takes y in the inputs for uncertain by the noise."""
    reservoir, d, rng = esn.reservoir_, esn.reservoir_.n_inputs, np.random.default_rng(0)
    size = esn.features.size(d, reservoir.n_units), len(dynamics.learned)
    penalty = esn.features.penalty(esn.ridge_, d, reservoir.n_units)
    sums = Factor(*size) if input_noise else least_squares(*size, penalty, esn.readout_.groups)
    kept: list[tuple[Array, Array, int]] = []
    rows = []
    for segment in segments:

        def features_of(z: Array, targets: Array = segment.targets) -> Array:
            z = dynamics.network_rows(z)
            return esn.features(z, run(reservoir, z, feedback=targets)[0])

        b = features_of(segment.z)
        washed = max(min(esn.washout_, len(b) // 2), esn.features.lags)
        learnt = slice(washed, None)
        if washed < len(b) and isinstance(sums, Factor) and input_noise:
            mean, *away = with_noise(features_of, segment.z, dynamics, input_noise, rng)
            sums.add(mean[learnt], segment.targets[learnt]).add_covariance(*(part[learnt] for part in away))
        elif washed < len(b):
            sums.add(b[learnt], segment.targets[learnt])
        kept.append((dynamics.network_rows(segment.z), esn.features.remembered(b, d), washed))
        rows.append(b)
    start = learn_start(kept, esn.local, esn.features, size[1])
    return Driven(segments, rows, sums, start, input_noise)


def train(esn: ProbabilisticESN, dynamics: Dynamics, driven: Driven, ridge: RidgeValue) -> Trained:
    """Readout, errors and start of a fitted network's reservoir, from the rows that drove it alone."""
    penalty = esn.features.penalty(ridge, esn.reservoir_.n_inputs, esn.reservoir_.n_units)
    readout = solve(driven.sums, penalty)
    residuals = [
        _without_washout(esn, _errors(readout, dynamics, segment, b, slice(0, len(b))))
        for segment, b in zip(driven.segments, driven.features, strict=True)
    ]
    held = _LeftOut(residuals, readout.groups)
    for i, b in enumerate(driven.features):
        held.take(i, b[len(b) - len(residuals[i]) :], 0)
    if driven.input_noise:  # R is of the rows as they are
        wrong = np.vstack(residuals)[:, dynamics.learned] / dynamics.scale
        used = min(parameters_used(readout, penalty), 0.9 * readout.n_samples)
        left = len(wrong) * (1.0 - used / readout.n_samples)
        readout = readout._replace(residual_cov=symmetric(wrong.T @ wrong) / left)
    errors = _learn(readout, dynamics, residuals)
    return Trained(readout, held.inflated(errors, readout, penalty, dynamics), driven.start, ridge=ridge)


def one_step_errors(esn: ProbabilisticESN, readout: Readout, dynamics: Dynamics, segments: list[Segment]) -> ErrorModel:
    """From one-step residuals of y, kinematics included; a fit leaves smaller ones than it will meet."""
    residuals, held = [], _LeftOut([_without_washout(esn, s.targets) for s in segments], readout.groups)
    for i, segment in enumerate(segments):
        state, before, parts = None, None, []
        washed = len(segment.z) - len(_without_washout(esn, segment.targets))
        for block in blocks(slice(0, len(segment.z))):
            z = dynamics.network_rows(segment.z[block])
            states, _, state = run(esn.reservoir_, z, state, feedback=segment.targets[block])
            b = esn.features(z, states, before)
            parts.append(_errors(readout, dynamics, segment, b, block))
            held.take(i, b, block.start - washed)
            before = esn.features.after(z, before)
        residuals.append(_without_washout(esn, np.concatenate(parts)))
        held.residuals[i] = residuals[i]
    penalty = esn.features.penalty(esn.ridge_, esn.reservoir_.n_inputs, esn.reservoir_.n_units)
    return held.inflated(_learn(readout, dynamics, residuals), readout, penalty, dynamics)


class _LeftOut:
    """Blocks of rows that are left out to see what weights do without them: five of all rows, each of 400 at most.

    ``residuals`` (n, d) of each segment, whose rows ``take`` brings the features of. Of ``groups`` that share their weights a row
    is as many as there are groups.
    """

    def __init__(self, residuals: list[Array], groups: Groups | None) -> None:
        longest = _LONGEST if groups is None or not groups.shared else max(_LONGEST // groups.n_groups, 1)
        self.residuals, total = residuals, sum(map(len, residuals))
        self._places: list[tuple[int, slice]] = []
        for i, rows in enumerate(residuals):
            for part in np.array_split(np.arange(len(rows)), max(round(_LEFT_OUT * len(rows) / total), 1)):
                spare = max(len(part) - longest, 0) // 2
                self._places += [(i, slice(int(part[0]) + spare, int(part[-1]) + 1 - spare))] if len(part) else []
        self._places = [self._places[k] for k in rolling_origins(0, len(self._places) - 1, 2 * _LEFT_OUT)]
        self._features: list[list[Array]] = [[] for _ in self._places]

    def take(self, segment: int, features: Array, first: int) -> None:
        """The features of rows of a segment from ``first`` on."""
        for (i, rows), into in zip(self._places, self._features, strict=True):
            if i == segment and (part := features[max(rows.start - first, 0) : max(rows.stop - first, 0)]).size:
                into.append(part)

    def inflated(self, errors: ErrorModel, readout: Readout, penalty: Penalty, dynamics: Dynamics) -> ErrorModel:
        """With what the left-out rows say about the weights."""
        learned, scale = dynamics.learned, dynamics.scale
        found = [
            (np.concatenate(b), self.residuals[i][rows][:, learned] / scale)
            for (i, rows), b in zip(self._places, self._features, strict=True)
        ]
        var = np.diagonal(errors.cov)[learned] / np.square(scale)
        whole = np.asarray(readout.n_samples * penalties_of(penalty, readout.weights.shape[1]), float)
        posterior = posterior_root(readout, whole, var)
        weights = np.ones(len(errors.cov))
        weights[learned] = _weight_inflation(found, readout, posterior, var)
        return errors._replace(weights=weights)


def _weight_inflation(blocks: list[tuple[Array, Array]], readout: Readout, posterior: Array, var: Array) -> Array:
    """By how much more errors of the weights vary (m,) than R A⁻¹ says; of groups, in each regression by itself."""
    groups, S = readout.groups, np.asarray(readout.covariance_root, float)
    if groups is None:
        return weight_inflation(blocks, S, posterior, var)
    found, count = np.ones(len(var)), 1 if groups.shared else groups.n_groups
    rows = [groups.rows(*block) for block in blocks]
    roots, posteriors = (root.reshape(count, *root.shape[-2:]) for root in (S, posterior))
    each = groups.own_values(var).reshape(count, -1)
    for g in range(count):
        own = weight_inflation([one[g] for one in rows], roots[g], posteriors[g], each[g])
        found[groups.outputs if groups.shared else groups.outputs[g]] = own
    return found


def _errors(readout: Readout, dynamics: Dynamics, segment: Segment, b: Array, block: slice) -> Array:
    """Errors of one step (n, d) in a block of a segment's rows, from the features (n, p) there."""
    wrong = segment.targets[block] - predict(readout, b)
    return dynamics.errors(wrong, segment.y[block.start : block.stop + 1])


def _learn(readout: Readout, dynamics: Dynamics, residuals: list[Array]) -> ErrorModel:
    """From residuals (n, d) of segments, without their washout."""
    inside = np.diagonal(np.cov(np.vstack(residuals).T, bias=True).reshape(dynamics.n_columns, -1))[dynamics.learned]
    outside = np.diagonal(readout.residual_cov) * dynamics.scale**2
    ratio = np.divide(outside, inside, out=np.ones_like(inside), where=inside > _ROUNDING**2)  # rounding has no ratio
    # of two columns the lower: one that is an exact function of others has residuals of rounding, and their ratio says nothing
    return learn_errors(residuals, float(max(np.quantile(ratio, 0.5, method="lower"), 1.0)))


def _without_washout(esn: ProbabilisticESN, e: Array) -> Array:
    """Errors (n, d) of a segment without those before its units have settled."""
    return e[max(min(esn.washout_, len(e) - 1), esn.features.lags) :]
