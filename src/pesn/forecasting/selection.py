"""Ridge, process noise and calibration, chosen by forecasts into held-back rows: rolling origins, all in one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pesn._support.progress import Steps
from pesn._support.types import Array, RidgeValue
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.forecasting.backtest import Known, forecast_all
from pesn.forecasting.context import FILTERED, ContextFilter
from pesn.forecasting.dataset import Segment, train_validation_split
from pesn.forecasting.training import Trained, drive, noisy, one_step_errors, train
from pesn.learning.backtest import MOST_ORIGINS, rolling_origins
from pesn.learning.calibration import LEADS, RIDGES, SCALES, factors, search
from pesn.metrics import crps_gaussian
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, ErrorModel
from pesn.reservoir.initial_state import Start

__all__ = ["LEAST_HELD_BACK", "Origin", "Validation", "fit_network", "origins_in"]

LEAST_HELD_BACK = 4  # rows of a segment that forecasts are judged by, up to half as many steps ahead
_LEADS_TO_CHOOSE = 20  # steps ahead that ridges and process noise are compared by
_LEAST_BEFORE = 10  # rows of a held-back segment that a forecast starts from


class Origin(NamedTuple):
    """A row to forecast from: the last one known, in a segment without gaps."""

    segment: Segment
    last: int


def origins_in(segments: list[Segment], leads: int) -> list[Origin]:
    """Rows to forecast from, spread evenly over the segments, each with ``leads`` rows after it and some before it."""
    places = [Origin(s, k) for s in segments for k in range(min(_LEAST_BEFORE, len(s.z) - leads), len(s.z) - leads + 1) if k >= 0]
    return [places[i] for i in rolling_origins(0, len(places) - 1, MOST_ORIGINS)]


class Validation:
    """Forecasts into held-back rows by models of a network's reservoir that have not seen them.

    Parameters
    ----------
    esn, dynamics
        The fitted network and what its outputs mean.
    segments
        All rows to learn from.
    loop_of
        Makes the closed loop of a model, with process noise of a scale.
    context_of
        Makes the filter of contexts from what was learnt about starts.
    input_noise
        On y in the inputs that readouts learn from.
    """

    def __init__(
        self,
        esn: ProbabilisticESN,
        dynamics: Dynamics,
        segments: list[Segment],
        loop_of: Callable[[Trained, float], ClosedLoop],
        context_of: Callable[[Start], ContextFilter],
        input_noise: float = 0.0,
    ) -> None:
        seen, held = train_validation_split(segments, LEAST_HELD_BACK)
        self.leads = min(LEADS, max((len(s.z) // 2 for s in held), default=0))
        self.origins = origins_in([s for s in held if len(s.z) > self.leads], self.leads)
        self._few, self._others = self.origins[::3], [origin for i, origin in enumerate(self.origins) if i % 3]
        self._esn, self._dynamics, self._loop_of = esn, dynamics, loop_of
        self._tried: dict[tuple[RidgeValue, float], tuple[Array, Array]] = {}
        self._trained: dict[RidgeValue, Trained] = {}  # the last of each: they are large
        self._loops: dict[tuple[RidgeValue, float], ClosedLoop] = {}
        if self.origins:
            self._driven = drive(esn, dynamics, seen, input_noise)
            self._context = context_of(self._driven.start)

    def choose_ridge(self, steps: Steps) -> float:
        """The ridge with the best CRPS, the network's own or a larger one."""
        tried = [ridge for ridge in RIDGES if ridge >= np.max(self._esn.ridge_)]
        with steps.step("choosing the ridge", len(tried) * len(self._few), "forecasts") as advance:
            return search(lambda ridge: self._score(ridge, 0.0, advance), tried)

    def choose_process_noise(self, steps: Steps) -> float:
        """The scale of process noise with the best CRPS."""
        with steps.step("choosing process noise", len(SCALES) * len(self._few), "forecasts") as advance:
            return search(lambda scale: self._score(self._esn.ridge_, scale, advance), SCALES)

    def calibrate(self, scale: float, steps: Steps) -> Array:
        """Factors (50,) of the deviations, with process noise of this scale."""
        ridge = self._esn.ridge_
        todo = len(self._others) + (0 if (ridge, scale) in self._tried else len(self._few))
        with steps.step("calibrating", todo, "forecasts") as advance:
            both = [self._errors_of_few(ridge, scale)]
            if self._others:
                both.append(self._errors(ridge, scale, self._others, self.leads))
            advance(len(self._others))
        longest = max(wrong.shape[1] for wrong, _ in both)
        return factors(*(np.concatenate([_longer(one, longest) for one in part]) for part in zip(*both, strict=True)))

    def _score(self, ridge: RidgeValue, scale: float, advance: Callable[[int], None]) -> Array:
        wrong, std = self._errors_of_few(ridge, scale)
        advance(len(self._few))
        return np.asarray(crps_gaussian(wrong, np.zeros_like(wrong), std))

    def _errors_of_few(self, ridge: RidgeValue, scale: float) -> tuple[Array, Array]:
        """Every third forecast is enough to compare by, and is not made again to calibrate by."""
        if (ridge, scale) not in self._tried:
            self._tried[ridge, scale] = self._errors(ridge, scale, self._few, min(self.leads, _LEADS_TO_CHOOSE))
        return self._tried[ridge, scale]

    def _errors(self, ridge: RidgeValue, scale: float, origins: list[Origin], leads: int) -> tuple[Array, Array]:
        """Errors and deviations (origins, leads, d)."""
        if ridge not in self._trained:
            self._trained = {ridge: train(self._esn, self._dynamics, self._driven, ridge)}
        if (ridge, scale) not in self._loops:
            self._loops = {(ridge, scale): self._loop_of(self._trained[ridge], scale)}
        d, longest = self._dynamics.n_columns, FILTERED + self._context.washout
        known = [
            Known(s.y[(first := max(k - longest, 0)) : k + 1], s.z[first : k + 1, d:], s.z[k : k + leads, d:]) for s, k in origins
        ]
        mean, std = forecast_all(self._loops[ridge, scale], self._context, known)
        return np.stack([s.y[k + 1 : k + 1 + leads] for s, k in origins]) - mean, std


def _longer(values: Array, leads: int) -> Array:
    """(origins, leads, d), NaN where they end earlier."""
    return np.pad(values, ((0, 0), (0, leads - values.shape[1]), (0, 0)), constant_values=np.nan)


def fit_network(
    esn: ProbabilisticESN,
    dynamics: Dynamics,
    segments: list[Segment],
    loop_of: Callable[[Trained, float], ClosedLoop],
    context_of: Callable[[Start], ContextFilter],
    steps: Steps,
    *,
    choose_ridge: bool,
    calibrate: bool,
    input_noise: float = 0.0,
) -> tuple[ErrorModel, Array]:
    """Fit the network and choose what is to be chosen by forecasts into held-back rows; how it errs, and its calibration (50,).

    With ``choose_ridge``, the network is then what one that was given this ridge would be.
    """
    learnt = noisy(segments, dynamics, input_noise)
    rows = np.vstack([s.z for s in learnt]), np.vstack([s.targets for s in learnt]), [len(s.z) for s in learnt]
    esn.fit_in_steps(*rows, steps)
    auto = esn.process_noise == "auto"
    validation = (
        Validation(esn, dynamics, segments, loop_of, context_of, input_noise) if choose_ridge or calibrate or auto else None
    )
    if choose_ridge and validation and validation.origins and (ridge := validation.choose_ridge(steps)) != esn.ridge_:
        esn.set_params(ridge=ridge).fit_in_steps(*rows, steps)
        validation = Validation(esn, dynamics, segments, loop_of, context_of)
    with steps.step("learning the errors"):
        errors = one_step_errors(esn, esn.readout_, dynamics, segments)
    if validation is None or not validation.origins:
        return errors, np.ones(LEADS)
    if auto:
        esn.process_noise_ = validation.choose_process_noise(steps)
    return errors, validation.calibrate(esn.process_noise_, steps) if calibrate else np.ones(LEADS)
