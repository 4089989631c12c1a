"""Ridge, noise and calibration, chosen by forecasts into held-back rows: rolling origins, all in one batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from pesn._support.progress import Steps
from pesn._support.types import Array, RidgeValue
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.evaluation.backtest import MOST_ORIGINS, Backtest, Normal, evaluate, rolling_origins
from pesn.evaluation.calibration import LEADS, RIDGES, SCALES, factors, search
from pesn.evaluation.error_model import SHARES, measurement_var, of_process
from pesn.forecasting.context import FILTERED, Columns, ContextFilter
from pesn.forecasting.dataset import Held, Segment, train_validation_split
from pesn.forecasting.design import Design
from pesn.forecasting.model import close_loop
from pesn.forecasting.predict import Known, filtered_segments, forecast_all, observed, observer_of
from pesn.forecasting.training import (
    Driven,
    Segments,
    SegmentStream,
    Trained,
    drive,
    noise_aware,
    one_step_errors,
    sizes_of,
    streamed_rows,
    train,
)
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, ErrorModel
from pesn.reservoir.initial_state import LocalStart, Start
from pesn.statespace import GaussianState

LEAST_HELD_BACK = 4  # rows of a segment that forecasts are judged by, up to half as many steps ahead
_LEADS_TO_CHOOSE = 20  # steps ahead that ridges and process noise are compared by
_APPROVED = -0.01  # of the logarithm of CRPS: so much better at least, and filtered rows are learnt from
_FINALISTS, _OPTIMISM = 4, 1.25  # designs of which the best was taken, and by how much its errors may be too small for that
_EVERY, _EVERY_LONG = 3, 4  # forecast of all is compared by, over 20 steps and over 50
_LEAST_BEFORE = 10  # rows of a held-back segment that a forecast starts from


class Origin(NamedTuple):
    """A row to forecast from: the last one known, in a segment without gaps."""

    segment: Segment
    last: int


def origins_in(held: list[Held], leads: int) -> list[Origin]:
    """Rows to forecast from, spread evenly over what is held back, each with ``leads`` rows after it and some before it."""
    places = [
        Origin(s, k)
        for s, first in held
        for k in range(max(first, min(_LEAST_BEFORE, len(s.z) - leads)), len(s.z) - leads + 1)
        if k >= 0
    ]
    return [places[i] for i in rolling_origins(0, len(places) - 1, MOST_ORIGINS)]


class Setting(NamedTuple):
    """What is compared: a ridge, process noise on the units, and the share of the process in the one-step errors."""

    ridge: RidgeValue
    process_noise: float = 0.0
    share: float = 1.0
    filtered: bool = False  # whether the readout learns from rows that an observer went through


@dataclass(frozen=True)
class Task:
    """A network to fit, and the data that it is fitted to.

    Parameters
    ----------
    esn : ProbabilisticESN
        The network.
    columns : Columns
        What its inputs and outputs mean.
    segments : list of Segment or SegmentStream
        All training data, in memory or in a stream.
    sample : list of Segment
        Part of it in memory, to choose and calibrate by; all of it unless it is large.
    design : Design or None
        The design of the network, if it has one. Validation data are then spread over all data.
    measurement : array of shape (d,), "auto" or None
        Variances of the measurement noise of y; "auto" to estimate them.
    """

    esn: ProbabilisticESN
    columns: Columns
    segments: Segments
    sample: list[Segment]
    design: Design | None = None
    measurement: Array | Literal["auto"] | None = None

    @property
    def dynamics(self) -> Dynamics:
        """Meaning of the network's outputs."""
        return self.columns.dynamics

    @property
    def input_noise(self) -> float:
        """By how much y in the inputs that readouts learn from is taken for uncertain."""
        return 0.0 if self.design is None else self.design.candidate.input_noise

    def loop_of(self, trained: Trained, noise_scale: float) -> ClosedLoop:
        """Return the closed loop of a readout, with process noise of a scale."""
        return close_loop(self.esn, self.columns, trained, designed=self.design is not None, noise_scale=noise_scale)

    def context_of(self, start: Start | LocalStart) -> ContextFilter:
        """Return the filter of contexts, by what was learned about starts."""
        return ContextFilter(start, self.esn.initial_state, self.esn.washout_, self.columns.prior)

    @property
    def known_var(self) -> Array | None:
        """Variances (d,) of the noise that y is measured with, where they are known."""
        return None if isinstance(self.measurement, str) else self.measurement

    def measurement_var(self, errors: ErrorModel, share: float) -> Array:
        """The same, or what is left of the errors of one step beside the share of the process."""
        return measurement_var(errors, share) if self.known_var is None else self.known_var

    def last_state(self, learned: Found, rows: Array, known: Array) -> GaussianState:
        """Return the state of the fitted network after scaled rows y (n, d) with X (n, u)."""
        assert self.esn.start_ is not None
        S = np.diag(learned.measurement_var) if learned.measurement_var.any() else None
        loop = self.loop_of(Trained(self.esn.readout_, learned.errors, self.esn.start_, S), self.esn.process_noise_)
        return self.context_of(self.esn.start_).filtered(loop, rows, known[:-1])

    def fit_esn(self, segments: Segments, steps: Steps) -> None:
        """Fit the network to rows."""
        if isinstance(segments, SegmentStream):
            self.esn.fit_streamed(streamed_rows(segments, self.dynamics), steps)
        else:
            self.esn.fit_in_steps(self.dynamics.network_rows(np.vstack([s.z for s in segments])), *_stacked(segments), steps)

    def drive(self, segments: list[Segment]) -> Driven:
        """The reservoir of the fitted network over rows."""
        return drive(self.esn, self.dynamics, segments, self.input_noise)

    def train(self, driven: Driven, ridge: RidgeValue) -> Trained:
        """The readout that the rows which drove the reservoir teach."""
        return train(self.esn, self.dynamics, driven, ridge)


class Validation:
    """Forecasts into held-back rows by models of a network's reservoir that have not seen them."""

    def __init__(self, task: Task) -> None:
        seen, held = train_validation_split(task.sample, LEAST_HELD_BACK, task.design is not None)
        self.in_blocks = any(first for _, first in held)  # of runs that are learnt from
        rows = [len(s.z) - first for s, first in held]
        self.leads = min(LEADS, max((n // 2 for n in rows), default=0))
        self.origins = origins_in([one for one, n in zip(held, rows, strict=True) if n > self.leads], self.leads)
        self._every = every = _EVERY_LONG if task.design is not None else _EVERY
        self._few, self._others = self.origins[::every], [origin for i, origin in enumerate(self.origins) if i % every]
        self._task, self._seen = task, seen
        self._tried: dict[tuple[Setting, int], Backtest] = {}
        self._trained: dict[RidgeValue, Trained] = {}  # the last of each: they are large
        self._loops: dict[Setting, ClosedLoop] = {}
        if self.origins:
            self._driven = task.drive(seen)
            self._context = task.context_of(self._driven.start)

    def choose_ridge(self, steps: Steps) -> float:
        """The ridge with the best CRPS, the network's own or a larger one."""
        tried = [ridge for ridge in RIDGES if ridge >= np.max(self._task.esn.ridge_)]
        with steps.step("choosing the ridge", len(tried) * len(self._few), "forecasts") as advance:
            return search(lambda ridge: self._score(Setting(ridge), _LEADS_TO_CHOOSE, advance), tried)

    def choose_process_noise(self, steps: Steps) -> float:
        """The scale of process noise with the best CRPS."""
        ridge = self._task.esn.ridge_
        with steps.step("choosing process noise", len(SCALES) * len(self._few), "forecasts") as advance:
            return search(lambda scale: self._score(Setting(ridge, scale), _LEADS_TO_CHOOSE, advance), SCALES)

    def choose_share(self, process_noise: float, steps: Steps) -> float:
        """The share of the process in the one-step errors with the best CRPS; the rest is noise of the measurement."""
        ridge = self._task.esn.ridge_
        with steps.step("choosing measurement noise", len(SHARES) * len(self._few), "forecasts") as advance:
            return search(lambda share: self._score(Setting(ridge, process_noise, share), LEADS, advance), SHARES)

    def wants_filtered(self, process_noise: float, share: float, steps: Steps) -> bool:
        """Whether a readout that learns from filtered rows has the better CRPS."""
        plain = Setting(self._task.esn.ridge_, process_noise, share)
        with steps.step("learning from filtered rows", len(self._few), "forecasts") as advance:
            both = [self._score(one, LEADS, advance).mean(axis=0) for one in (plain, plain._replace(filtered=True))]
        varies = both[0] > 0.0  # a constant column has no errors
        return bool(varies.any() and np.mean(np.log(both[1][varies] / both[0][varies])) < _APPROVED)

    def calibrate(self, setting: Setting, steps: Steps) -> Array:
        """Factors (50,) of the deviations."""
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
        return factors(errors, std)

    def _score(self, setting: Setting, leads: int, advance: Callable[[int], None]) -> Array:
        scores = self._evaluate_few(setting, leads).scores
        advance(len(self._few))
        return scores

    def _evaluate_few(self, setting: Setting, leads: int) -> Backtest:
        """Some forecasts are enough to compare by, and are not made again to calibrate by."""
        if (setting, leads) not in self._tried:
            self._tried[setting, leads] = self._evaluate(setting, self._few, min(self.leads, leads))
        return self._tried[setting, leads]

    def _evaluate(self, setting: Setting, origins: list[Origin], leads: int) -> Backtest:
        d, longest = self._task.dynamics.n_columns, FILTERED + self._context.washout

        def forecast_from(origins: list[Origin]) -> Normal:
            known = [
                Known(s.y[(first := max(k - longest, 0)) : k + 1], s.z[first : k + 1, d:], s.z[k : k + leads, d:])
                for s, k in origins
            ]
            return forecast_all(self._loop(setting), self._context, known)

        return evaluate(forecast_from, origins, leads, lambda origin: origin.segment.y[origin.last + 1 :])

    def _loop(self, setting: Setting) -> ClosedLoop:
        task = self._task
        if setting.ridge not in self._trained:
            self._trained = {setting.ridge: task.train(self._driven, setting.ridge)}
        if setting not in self._loops:
            trained = self._trained[setting.ridge]
            var = task.measurement_var(trained.errors, setting.share)
            loop = task.loop_of(trained.measured_with(var), setting.process_noise)
            if setting.filtered:
                driven = task.drive(filtered_segments(loop, self._context, self._seen))
                loop = loop.with_readout(task.train(driven, setting.ridge).readout, loop.errors)
            self._loops = {setting: loop}
        return self._loops[setting]


def _longer(values: Array, leads: int) -> Array:
    """(origins, leads, d), NaN where they end earlier."""
    return np.pad(values, ((0, 0), (0, leads - values.shape[1]), (0, 0)), constant_values=np.nan)


class Found(NamedTuple):
    """What a fit finds beside the network: how it errs, the variances (d,) of measurement noise, and its calibration (50,)."""

    errors: ErrorModel
    measurement_var: Array
    calibration: Array


def fit_network(task: Task, steps: Steps, *, choose_ridge: bool, calibrate: bool) -> Found:
    """Fit the network and choose what is to be chosen by forecasts into held-back rows.

    With ``choose_ridge``, the network is then what one that was given this ridge would be.
    """
    esn, estimate = task.esn, isinstance(task.measurement, str)
    task.fit_esn(task.segments, steps)
    auto, validation = esn.process_noise == "auto", None
    if choose_ridge or calibrate or auto or estimate:
        validation = Validation(task)
    if choose_ridge and validation and validation.origins and (ridge := validation.choose_ridge(steps)) != esn.ridge_:
        esn.set_params(ridge=ridge)
        task.fit_esn(task.segments, steps)
        validation = Validation(task)
    errors = _learn_errors(task, task.segments, steps)
    setting, calibration = Setting(esn.ridge_, esn.process_noise_), np.ones(LEADS)
    if validation is not None and validation.origins:
        if auto:
            esn.process_noise_ = validation.choose_process_noise(steps)
        share = validation.choose_share(esn.process_noise_, steps) if estimate else 1.0
        noisy_rows = share < 1.0 or (task.known_var is not None and bool(task.known_var.any()))
        filtered = noisy_rows and validation.wants_filtered(esn.process_noise_, share, steps)
        setting = Setting(esn.ridge_, esn.process_noise_, share, filtered)
        if calibrate:
            calibration = validation.calibrate(setting, steps)
            if validation.in_blocks and not noisy_rows:
                calibration = _optimism(sum(len(s.z) for s in task.sample), validation.leads) * calibration
    var = task.measurement_var(errors, setting.share)
    if setting.filtered:
        assert esn.start_ is not None
        model, scale = Trained(esn.readout_, errors, esn.start_).measured_with(var), esn.process_noise_
        observer = observer_of(task.loop_of(model, scale), task.context_of(esn.start_), task.sample)
        learnt = observed(observer, task.segments)
        task.fit_esn(learnt, steps)
        esn.process_noise_ = scale
        if task.input_noise:
            _learn_errors(task, learnt, steps)
    return Found(of_process(errors, var), var, calibration)


def _optimism(n_rows: int, leads: int) -> float:
    """By how much the errors of a chosen design are smaller on the rows that it was chosen by than they will be.

    Of ν forecasts that follow each other the logarithm of the mean error has a deviation of 1/√(2ν); the least of M such is
    below its own expectation by √(2 log M) deviations at most.
    """
    return float(min(np.exp(np.sqrt(np.log(_FINALISTS) * leads / max(n_rows, 1))), _OPTIMISM))


def _learn_errors(task: Task, segments: Segments, steps: Steps) -> ErrorModel:
    """How a fitted network errs in one step; where y in its inputs is uncertain, it is given the readout that takes it so."""
    esn, n_rows = task.esn, int(sizes_of(segments).sum())
    with steps.step("learning the errors", 2 * n_rows if task.input_noise else n_rows, "rows") as advance:
        readout = esn.readout_
        if task.input_noise:
            readout = noise_aware(esn, task.dynamics, segments, task.input_noise, advance)
        esn.readout_, errors = one_step_errors(esn, readout, task.dynamics, segments, advance, bool(task.input_noise))
    return errors


def _stacked(segments: list[Segment]) -> tuple[Array, list[int]]:
    """Targets and lengths of all."""
    return np.vstack([s.targets for s in segments]), [len(s.z) for s in segments]
