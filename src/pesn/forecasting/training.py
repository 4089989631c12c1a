"""Fit a network for forecasts: readout, one-step errors and initial state; ridge, noise and calibration on validation data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pesn._support.progress import Advance, Steps, ignore_progress
from pesn._support.types import Array, RidgeValue
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.evaluation.backtest import MOST_ORIGINS, Backtest, Normal, evaluate, rolling_origins
from pesn.evaluation.calibration import (
    LEADS,
    RIDGES,
    SCALES,
    SHARES,
    ErrorSums,
    bound_measurement_var,
    factors,
    fit_error_model,
    measurement_var,
    process_errors,
    search,
    weight_inflation,
)
from pesn.forecasting.context import FILTERED, Columns, ContextFilter
from pesn.forecasting.dataset import Segment, ValidationSegment, both_sides, mean_and_difference, train_validation_split
from pesn.forecasting.design import Design
from pesn.forecasting.model import Trained, close_loop, is_reduced
from pesn.forecasting.predict import Known, forecast_all
from pesn.forecasting.runs import ROUNDING, Segments, SegmentStream, Sizes, map_segments, segment_sizes, stream_rows
from pesn.linalg import symmetric
from pesn.readout.groups import Groups
from pesn.readout.ridge import Factor, Penalty, Readout, Sums, effective_parameters, feature_penalties, least_squares, solve
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, ErrorModel, posterior_root, variance_inflation
from pesn.reservoir.drive import run
from pesn.reservoir.initial_state import LocalStart, Start, learn_start
from pesn.reservoir.sequences import blocks
from pesn.statespace.state import GaussianState

_LEFT_OUT, _LONGEST = 5, 400  # number of left-out blocks, and their largest size


class Driven(NamedTuple):
    """A reservoir driven by segments.

    Parameters
    ----------
    segments : list of Segment
        The segments.
    sums : Sums
        Least-squares sums for any ridge.
    start : Start or LocalStart
        What was learned about initial states.
    """

    segments: list[Segment]
    sums: Sums
    start: Start | LocalStart


def drive(task: Task, segments: list[Segment]) -> Driven:
    """Drive the reservoir of the fitted network by segments, with input noise in the least squares if the design has it."""
    esn, dynamics, d = task.esn, task.dynamics, task.esn.reservoir_.n_inputs
    size = esn.features.size(d, esn.reservoir_.n_units), len(dynamics.learned)
    sums = least_squares(*size, task.penalty(esn.ridge_), esn.readout_.groups)
    kept: list[tuple[Array, Array, int]] = []
    for segment in segments:
        z = dynamics.network_rows(segment.z)
        b = esn.features(z, run(esn.reservoir_, z, feedback=segment.targets)[0])
        washed = max(min(esn.washout_, len(b) // 2), esn.features.lags)
        if washed < len(b) and not task.input_noise:
            sums.add(b[washed:], segment.targets[washed:])
        memory = esn.features.memory_features(b, d)
        kept.append((z, memory[:, : esn.features.n_earlier(d)] if task.reduced else memory, washed))
    if task.input_noise:
        sums = sum_noisy_rows(task, segments)
    start = learn_start(kept, esn.local, esn.features, size[1], memoryless=esn.reservoir_.is_memoryless)
    return Driven(segments, sums, start)


def train(task: Task, driven: Driven, ridge: RidgeValue) -> Trained:
    """Fit readout, error model and initial state to the rows that drove the reservoir."""
    readout, errors = one_step_errors(task, solve(driven.sums, task.penalty(ridge)), driven.segments, ridge)
    return Trained(readout, errors, driven.start, ridge=ridge)


def one_step_errors(
    task: Task, readout: Readout, segments: Segments, ridge: RidgeValue, advance: Advance = ignore_progress
) -> tuple[Readout, ErrorModel]:
    """Estimate the error model from one-step residuals of y, kinematics included, and the degrees of freedom of the fit.

    The residual covariance of a readout that was fitted with input noise becomes that of the observed rows.
    """
    esn, dynamics = task.esn, task.dynamics
    reservoir, features, washout = esn.reservoir_, esn.features, esn.washout_  # sent to workers
    weights, places = readout.weights, _choose_left_out_blocks(segment_sizes(segments), esn, readout.groups)

    def of_part(first: int, some: Iterable[Segment], advance: Advance) -> _Residuals:
        residuals = _Residuals(dynamics.n_columns, places)
        for i, segment in enumerate(some, first):
            state, before, last = None, None, None
            washed = max(min(washout, len(segment.z) - 1), features.lags)
            for block in blocks(slice(0, len(segment.z))):
                z = dynamics.network_rows(segment.z[block])
                states, _, state = run(reservoir, z, state, feedback=segment.targets[block])
                b = features(z, states, before)
                skip = max(washed - block.start, 0)
                wrong = segment.targets[block] - b @ weights.T
                e = dynamics.errors(wrong, segment.y[block.start : block.stop + 1])[skip:]
                residuals.take(i, b[skip:], e, max(block.start - washed, 0), last)
                before, last = features.newest_rows(z, before), e[-1] if len(e) else last
                advance(block.stop - block.start)
        return residuals

    residuals = _Residuals(dynamics.n_columns, places)
    for part in map_segments(segments, of_part, advance):
        residuals.merge(part)
    return residuals.learn(task, readout, ridge)


def sum_noisy_rows(task: Task, segments: Segments, advance: Advance = ignore_progress) -> Factor:
    """Return the least-squares sums of all rows with input noise, block by block."""
    esn, dynamics = task.esn, task.dynamics
    reservoir, d, rng = esn.reservoir_, esn.reservoir_.n_inputs, np.random.default_rng(0)
    sums = Factor(esn.features.size(d, reservoir.n_units), len(dynamics.learned))
    for segment in segments:  # in order, for a reproducible stream of noise
        carried: list[tuple[Any, Any]] = [(None, None), (None, None)]  # state and earlier rows of both sides
        washed = max(min(esn.washout_, len(segment.z) // 2), esn.features.lags)
        for block in blocks(slice(0, len(segment.z))):
            *sides, back = both_sides(segment.z[block], dynamics, task.input_noise, rng)
            features = []
            for side, z in enumerate(map(dynamics.network_rows, sides)):
                state, before = carried[side]
                states, _, state = run(reservoir, z, state, feedback=segment.targets[block])
                features.append(esn.features(z, states, before))
                carried[side] = state, esn.features.newest_rows(z, before)
            mean, away = mean_and_difference(*features)
            used = slice(max(washed - block.start, 0), None)
            if len(mean[used]):
                sums.add(mean[used], segment.targets[block][used]).add_covariance(away[used], back[used])
        advance(len(segment.z))
    return sums


def _choose_left_out_blocks(sizes: Sizes, esn: ProbabilisticESN, groups: Groups | None) -> list[tuple[int, slice]]:
    """Choose blocks of rows that are left out to estimate the errors of weights: five of all rows, each of at most 400.

    Each is the number of a segment and rows after its washout. ``sizes`` (k,) are those of all segments. If ``groups`` share
    their weights, a row counts once for each group. At least one block of each segment, at most ten in all.
    """
    longest = _LONGEST if groups is None or not groups.shared else max(_LONGEST // groups.n_groups, 1)
    rows = np.maximum(sizes - np.maximum(np.minimum(esn.washout_, sizes - 1), esn.features.lags), 0)
    counts = np.minimum(np.maximum(np.round(_LEFT_OUT * rows / rows.sum()).astype(np.intp), 1), rows)
    ends, found = np.cumsum(counts), []
    for k in rolling_origins(0, int(ends[-1]) - 1, 2 * _LEFT_OUT):
        i = int(np.searchsorted(ends, k, side="right"))
        part = np.array_split(np.arange(rows[i]), counts[i])[k - (ends[i] - counts[i])]
        spare = max(len(part) - longest, 0) // 2
        found.append((i, slice(int(part[0]) + spare, int(part[-1]) + 1 - spare)))
    return found


class _Residuals:
    """Sums over the residuals of all rows, and features and residuals of the left-out blocks."""

    def __init__(self, n_columns: int, places: list[tuple[int, slice]]) -> None:
        self.sums, self.places = ErrorSums(n_columns), places
        self.kept: list[list[tuple[Array, Array]]] = [[] for _ in places]

    def take(self, segment: int, features: Array, e: Array, first: int, before: Array | None = None) -> None:
        """Add features and residuals of rows of a segment from ``first`` on; ``before`` (d,) is the residual before them."""
        self.sums.add(e, before)
        for (i, rows), into in zip(self.places, self.kept, strict=True):
            part = slice(max(rows.start - first, 0), max(rows.stop - first, 0))
            if i == segment and len(e[part]):
                into.append((features[part].copy(), e[part]))

    def merge(self, other: _Residuals) -> None:
        """Add the sums of another part."""
        self.sums.merge(other.sums)
        for into, more in zip(self.kept, other.kept, strict=True):
            into += more

    def learn(self, task: Task, readout: Readout, ridge: RidgeValue) -> tuple[Readout, ErrorModel]:
        """Return the readout and its error model, with the inflation of weight errors from the left-out blocks.

        Autocorrelated residuals carry less information. The residuals of a design show this in the left-out blocks; for a
        given network, which nothing was selected for, (1 + ρ)/(1 − ρ) is a lower bound.
        """
        penalty, learned, scale, sums = task.penalty(ridge), task.dynamics.learned, task.dynamics.scale, self.sums
        if task.input_noise:  # R of the observed rows
            used = min(effective_parameters(readout, penalty), 0.9 * readout.n_samples)
            left = sums.count * (1.0 - used / readout.n_samples)
            wrong = sums.square[np.ix_(learned, learned)] / (scale[:, None] * scale)
            readout = readout._replace(residual_cov=symmetric(wrong) / left)
        inside, outside = sums.var[learned], np.diagonal(readout.residual_cov) * scale**2
        ratio = np.divide(outside, inside, out=np.ones_like(inside), where=inside > ROUNDING**2)  # rounding has no ratio
        # the lower of two: residuals of a column that is a function of others are rounding
        errors = fit_error_model(sums, float(max(np.quantile(ratio, 0.5, method="lower"), 1.0)))
        found = [
            (np.concatenate([b for b, _ in parts]), np.concatenate([e for _, e in parts])[:, learned] / scale)
            for parts in self.kept
        ]
        var = np.diagonal(errors.cov)[learned] / np.square(scale)
        whole = np.asarray(readout.n_samples * feature_penalties(penalty, readout.weights.shape[1]), float)
        least = np.ones(len(errors.cov)) if task.design is not None else variance_inflation(errors.persistence)
        weights = least.copy()
        weights[learned] = _weight_inflation(found, readout, posterior_root(readout, whole, var), var)
        return readout, errors._replace(weights=np.maximum(weights, least))


def _weight_inflation(blocks: list[tuple[Array, Array]], readout: Readout, posterior: Array, var: Array) -> Array:
    """Estimate the inflation (m,) of weight errors; for groups, in each regression separately."""
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


LEAST_HELD_BACK = 4  # least rows of a validation segment
_LEADS_TO_CHOOSE = 20  # steps ahead over which ridges and process noise are compared
_MOST_CORRELATED = 0.15  # largest autocorrelation of one-step residuals, median over columns, of measurement noise
_ROUNDING = 1e-14  # variance, in those of y, up to which errors are no measurement noise: rounding in float32
_FINALISTS, _OPTIMISM = 4, 1.25  # number of compared designs, and largest correction for the selection
_EVERY, _EVERY_LONG = 3, 4  # every third forecast is compared over 20 steps, every fourth over 50
_LEAST_BEFORE = 10  # least known rows of a validation segment


class Origin(NamedTuple):
    """A forecast origin.

    Parameters
    ----------
    segment : Segment
        A segment without missing values.
    last : int
        Last known row.
    """

    segment: Segment
    last: int


def validation_origins(held: list[ValidationSegment], leads: int) -> list[Origin]:
    """Return forecast origins, evenly spaced over the validation set, each with ``leads`` rows after it and some before it."""
    places = [
        Origin(s, k)
        for s, first in held
        for k in range(max(first, min(_LEAST_BEFORE, len(s.z) - leads)), len(s.z) - leads + 1)
        if k >= 0
    ]
    return [places[i] for i in rolling_origins(0, len(places) - 1, MOST_ORIGINS)]


class Setting(NamedTuple):
    """Candidate values that are compared by validation.

    Parameters
    ----------
    ridge : float or tuple of float
        Ridge of the readout.
    process_noise : float, default=0.0
        Process noise of the units.
    share : float, default=1.0
        Share of the process in the one-step errors.
    """

    ridge: RidgeValue
    process_noise: float = 0.0
    share: float = 1.0


@dataclass(frozen=True)
class Task:
    """A network to fit, and its training data.

    Parameters
    ----------
    esn : ProbabilisticESN
        The network.
    columns : Columns
        Meaning of its inputs and outputs.
    segments : list of Segment or SegmentStream
        All training data, in memory or in a stream.
    sample : list of Segment
        Part of it in memory, for selection and calibration; all of it unless it is large.
    design : Design or None
        The design of the network, if it has one. Validation data are then spread over all data.
    known_var : array of shape (d,) or None
        Variances of the measurement noise of y; None to estimate them.
    """

    esn: ProbabilisticESN
    columns: Columns
    segments: Segments
    sample: list[Segment]
    design: Design | None = None
    known_var: Array | None = None

    @property
    def dynamics(self) -> Dynamics:
        """Meaning of the network's outputs."""
        return self.columns.dynamics

    @property
    def input_noise(self) -> float:
        """Standard deviation of the noise on y in the training inputs."""
        return 0.0 if self.design is None else self.design.candidate.input_noise

    def penalty(self, ridge: RidgeValue) -> Penalty:
        """Return the penalties of the features for a ridge."""
        return self.esn.features.penalty(ridge, self.esn.reservoir_.n_inputs, self.esn.reservoir_.n_units)

    @property
    def reduced(self) -> bool:
        """Whether the states of loops have no units, with any process noise that may be chosen."""
        quiet = self.esn.local is None and self.esn.process_noise == 0.0 and self.esn.noise == 0.0
        return quiet and is_reduced(self.esn, self.columns)

    def build_loop(self, trained: Trained, noise_scale: float) -> ClosedLoop:
        """Return the closed loop of a readout, with process noise of a scale."""
        return close_loop(self.esn, self.columns, trained, designed=self.design is not None, noise_scale=noise_scale)

    def build_context_filter(self, start: Start | LocalStart) -> ContextFilter:
        """Return the filter of contexts."""
        return ContextFilter(start, self.esn.initial_state, self.esn.washout_, self.columns.prior)

    def measurement_var(self, errors: ErrorModel, share: float) -> Array:
        """Return the variances of the measurement noise: the known ones, or the rest of the one-step errors up to a bound."""
        if self.known_var is not None:
            return self.known_var
        return np.minimum(measurement_var(errors, share), self._most_var) if share < 1.0 else np.zeros(len(errors.cov))

    @cached_property
    def _most_var(self) -> Array:
        """Bound of the variances of measurement noise."""
        return bound_measurement_var(s.y for s in self.sample)

    def last_state(self, errors: ErrorModel, var: Array, rows: Array, known: Array) -> GaussianState:
        """Return the state of the fitted network after scaled rows y (n, d) with X (n, u)."""
        trained = Trained.from_network(self.esn, errors, var)
        loop = self.build_loop(trained, self.esn.process_noise_)
        return self.build_context_filter(trained.start).filter_rows(loop, rows, known[:-1])

    def fit_esn(self, segments: Segments, steps: Steps) -> None:
        """Fit the network to rows."""
        if isinstance(segments, SegmentStream):
            self.esn.fit_stream(stream_rows(segments, self.dynamics), steps)
        else:
            rows = self.dynamics.network_rows(np.vstack([s.z for s in segments]))
            targets, lengths = np.vstack([s.targets for s in segments]), [len(s.z) for s in segments]
            self.esn.fit_in_steps(rows, targets, lengths, steps)


class Validation:
    """Forecasts into the validation set by models that were not fitted to it.

    Parameters
    ----------
    task : Task
        A fitted network and its data.
    """

    def __init__(self, task: Task) -> None:
        seen, held = train_validation_split(task.sample, LEAST_HELD_BACK, task.design is not None)
        self.in_blocks = any(first for _, first in held)  # blocks of training runs
        rows = [len(s.z) - first for s, first in held]
        self.leads = min(LEADS, max((n // 2 for n in rows), default=0))
        self.origins = validation_origins([one for one, n in zip(held, rows, strict=True) if n > self.leads], self.leads)
        self._every = every = _EVERY_LONG if task.design is not None else _EVERY
        self._few, self._others = self.origins[::every], [origin for i, origin in enumerate(self.origins) if i % every]
        self._task = task
        self._tried: dict[tuple[Setting, int], Backtest] = {}
        self._trained: dict[RidgeValue, Trained] = {}  # only the last: they are large
        self._loops: dict[Setting, ClosedLoop] = {}
        if self.origins:
            self._driven = drive(task, seen)
            self._context = task.build_context_filter(self._driven.start)

    def choose_ridge(self, steps: Steps) -> float:
        """Select the ridge with the best CRPS, that of the network or a larger one."""
        tried = [ridge for ridge in RIDGES if ridge >= np.max(self._task.esn.ridge_)]
        with steps.step("choosing the ridge", len(tried) * len(self._few), "forecasts") as advance:
            return search(lambda ridge: self._score(Setting(ridge), _LEADS_TO_CHOOSE, advance), tried)

    def choose_noise(self, steps: Steps) -> Setting:
        """Select the process noise, then the share of the process in the one-step errors, with the best CRPS.

        The rest of the errors is measurement noise. Clearly positive autocorrelation shows errors of the model: white measurement
        noise gives none.
        """
        task, esn = self._task, self._task.esn
        best = Setting(esn.ridge_, esn.process_noise_)
        if esn.process_noise == "auto":
            with steps.step("choosing process noise", len(SCALES) * len(self._few), "forecasts") as advance:
                scale = search(lambda scale: self._score(Setting(best.ridge, scale), _LEADS_TO_CHOOSE, advance), SCALES)
            best = best._replace(process_noise=scale)
        if task.known_var is None and np.median(self._fit(best.ridge).errors.persistence) <= _MOST_CORRELATED:
            with steps.step("choosing measurement noise", len(SHARES) * len(self._few), "forecasts") as advance:
                share = search(lambda share: self._score(best._replace(share=share), LEADS, advance), SHARES)
            var = task.measurement_var(self._fit(best.ridge).errors, share)
            best = best._replace(share=share if var.max(initial=0.0) > _ROUNDING else 1.0)
        return best

    def _is_noisy(self, setting: Setting) -> bool:
        """Return whether y has measurement noise."""
        known = self._task.known_var
        return setting.share < 1.0 or (known is not None and bool(known.any()))

    def calibrate(self, setting: Setting, steps: Steps) -> Array:
        """Compute factors (50,) of the standard deviations."""
        done = [leads for one, leads in self._tried if one == setting]
        todo = len(self._others) + (0 if done else len(self._few))
        with steps.step("calibrating", todo, "forecasts") as advance:
            both = [self._evaluate_few(setting, max(done, default=_LEADS_TO_CHOOSE))]
            if self._others:
                both.append(self._evaluate(setting, self._others, self.leads))
            advance(len(self._others))
        longest = max(one.horizon for one in both)
        few = np.arange(len(self.origins)) % self._every == 0
        order = np.argsort(np.concatenate([np.flatnonzero(few), np.flatnonzero(~few)]))
        errors = np.concatenate([_longer(one.errors, longest) for one in both])[order]
        std = np.concatenate([_longer(one.std, longest) for one in both])[order]
        found = factors(errors, std)
        if self.in_blocks and not self._is_noisy(setting):
            found = _optimism(sum(len(s.z) for s in self._task.sample), self.leads) * found
        return found

    def _score(self, setting: Setting, leads: int, advance: Callable[[int], None]) -> Array:
        """Compute CRPS over some origins."""
        scores = self._evaluate_few(setting, leads).scores
        advance(len(self._few))
        return scores

    def _evaluate_few(self, setting: Setting, leads: int) -> Backtest:
        """Evaluate forecasts from some origins, which are cached for the calibration."""
        if (setting, leads) not in self._tried:
            self._tried[setting, leads] = self._evaluate(setting, self._few, min(self.leads, leads))
        return self._tried[setting, leads]

    def _evaluate(self, setting: Setting, origins: list[Origin], leads: int) -> Backtest:
        """Evaluate forecasts from origins."""
        d, longest = self._task.dynamics.n_columns, FILTERED + self._context.washout

        def predict_origins(origins: list[Origin]) -> Normal:
            known = [
                Known(s.y[(first := max(k - longest, 0)) : k + 1], s.z[first : k + 1, d:], s.z[k : k + leads, d:])
                for s, k in origins
            ]
            return forecast_all(self._loop(setting), self._context, known)

        return evaluate(predict_origins, origins, leads, lambda origin: origin.segment.y[origin.last + 1 :])

    def _fit(self, ridge: RidgeValue) -> Trained:
        """Return what is learned from the training set."""
        if ridge not in self._trained:
            self._trained = {ridge: train(self._task, self._driven, ridge)}
        return self._trained[ridge]

    def _loop(self, setting: Setting) -> ClosedLoop:
        """Return the closed loop of a setting."""
        task = self._task
        if setting not in self._loops:
            trained = self._fit(setting.ridge)
            var = task.measurement_var(trained.errors, setting.share)
            loop = task.build_loop(trained.with_measurement_noise(var), setting.process_noise)
            self._loops = {setting: loop}
        return self._loops[setting]


def _longer(values: Array, leads: int) -> Array:
    """Pad (origins, leads, d) with NaN."""
    return np.pad(values, ((0, 0), (0, leads - values.shape[1]), (0, 0)), constant_values=np.nan)


def fit_network(task: Task, steps: Steps, *, choose_ridge: bool, calibrate: bool) -> tuple[ErrorModel, Array, Array]:
    """Fit the network and select its settings by validation.

    Parameters
    ----------
    task : Task
        Network and data.
    steps : Steps
        Progress.
    choose_ridge : bool
        Whether to select the ridge; the network is then the one that this ridge gives.
    calibrate : bool
        Whether to calibrate standard deviations.

    Returns
    -------
    errors : ErrorModel
        One-step errors of the process.
    measurement_var : array of shape (d,)
        Variances of the measurement noise.
    calibration : array of shape (50,)
        Factors of the standard deviations.
    """
    esn = task.esn
    task.fit_esn(task.segments, steps)
    validation = None
    if any((choose_ridge, calibrate, esn.process_noise == "auto", task.known_var is None)):
        validation = Validation(task)
        if choose_ridge and validation.origins and (ridge := validation.choose_ridge(steps)) != esn.ridge_:
            esn.set_params(ridge=ridge)
            task.fit_esn(task.segments, steps)
            validation = Validation(task)
    errors = _learn_errors(task, task.segments, steps)
    setting, calibration = Setting(esn.ridge_, esn.process_noise_), np.ones(LEADS)
    if validation is not None and validation.origins:
        setting = validation.choose_noise(steps)
        esn.process_noise_ = setting.process_noise
        if calibrate:
            calibration = validation.calibrate(setting, steps)
    var = task.measurement_var(errors, setting.share)
    return process_errors(errors, var), var, calibration


def _optimism(n_rows: int, leads: int) -> float:
    """Compute by how much the errors of a selected design are too small on the rows that it was selected by.

    The logarithm of the mean error of ν correlated forecasts has a standard deviation of 1/√(2ν); the least of M such is below
    its expectation by at most √(2 log M) standard deviations.
    """
    return float(min(np.exp(np.sqrt(np.log(_FINALISTS) * leads / max(n_rows, 1))), _OPTIMISM))


def _learn_errors(task: Task, segments: Segments, steps: Steps) -> ErrorModel:
    """Fit the error model of a fitted network; with input noise, also its readout."""
    esn, n_rows = task.esn, int(segment_sizes(segments).sum())
    with steps.step("learning the errors", 2 * n_rows if task.input_noise else n_rows, "rows") as advance:
        readout = esn.readout_
        if task.input_noise:
            readout = solve(sum_noisy_rows(task, segments, advance), task.penalty(esn.ridge_))
        esn.readout_, errors = one_step_errors(task, readout, segments, esn.ridge_, advance)
    return errors
