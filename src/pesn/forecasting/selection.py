"""Process noise and calibration, chosen by forecasts into held-back rows: rolling origins, all in one batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.progress import Steps
from pesn.forecasting.context import FILTERED, ContextFilter
from pesn.forecasting.dataset import Segment
from pesn.learning.calibration import LEADS, SCALES, factors, search
from pesn.metrics import crps_gaussian
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.statespace import rollout

__all__ = ["Origin", "choose", "forecast_errors", "rolling_origins"]

Array = npt.NDArray[np.float64]
_MOST_ORIGINS = 36  # held-back forecasts by which the spread is judged


class Origin(NamedTuple):
    """A row to forecast from: the last one known, in a segment without gaps."""

    segment: Segment
    last: int


def rolling_origins(segments: list[Segment]) -> list[Origin]:
    """Rows to forecast from, spread evenly over the segments, each with 20 rows after it and some before it."""
    places = [Origin(s, k) for s in segments for k in range(min(10, len(s.z) - LEADS), len(s.z) - LEADS + 1)]
    chosen = np.unique(np.linspace(0, len(places) - 1, min(len(places), _MOST_ORIGINS)).astype(int))
    return [places[i] for i in chosen]


def forecast_errors(loop: ClosedLoop, context: ContextFilter, origins: list[Origin]) -> tuple[Array, Array]:
    """Errors and deviations (origins, 20, d) of forecasts; those from contexts of one length go as a batch."""
    d = loop.dynamics.n_columns
    wrong, std = np.empty((len(origins), LEADS, d)), np.empty((len(origins), LEADS, d))
    groups = defaultdict(list)
    for i, origin in enumerate(origins):
        length = min(origin.last, FILTERED + context.washout) + 1
        groups[length, i if context.few(length) else None].append(i)  # few rows: two starts compete, one by one
    for (length, alone), members in groups.items():
        rows = [(origins[i].segment, origins[i].last) for i in members]
        y, u, ahead, after = (
            np.stack(part)
            for part in zip(
                *(
                    (
                        s.y[k + 1 - length : k + 1],
                        s.z[k + 1 - length : k + 1, d:],
                        s.z[k : k + LEADS, d:],
                        s.y[k + 1 : k + 1 + LEADS],
                    )
                    for s, k in rows
                ),
                strict=True,
            )
        )
        if alone is not None:
            y, u, ahead = y[0], u[0], ahead[0]
        path = rollout(loop.model, context.moved(loop, y, u), ahead, moved=True)
        wrong[members] = after - path.mean
        std[members] = np.sqrt(np.maximum(np.diagonal(path.cov, axis1=-2, axis2=-1), 0.0))
    return wrong, std


def choose(
    loop_of: Callable[[float], ClosedLoop],
    context: ContextFilter,
    segments: list[Segment],
    scale: float | None,
    calibrate: bool,
    steps: Steps,
) -> tuple[float, Array]:
    """The scale of process noise (None: to be chosen, by CRPS) and the factors (20,) of the deviations, from held-back segments.

    ``loop_of`` makes the loop of a model that has not seen them, with process noise of a scale.
    """
    origins = rolling_origins(segments)
    few, tried = origins[::3], {}

    def score(candidate: float) -> Array:
        tried[candidate] = wrong, std = forecast_errors(loop_of(candidate), context, few)
        advance(len(few))
        return np.asarray(crps_gaussian(wrong, np.zeros_like(wrong), std))

    if scale is None:
        with steps.step("choosing process noise", SCALES * len(few), "forecasts") as advance:
            scale = search(score)
    if not calibrate:
        return scale, np.ones(LEADS)
    others = [origin for i, origin in enumerate(origins) if i % 3]
    with steps.step("calibrating", len(others) + (0 if scale in tried else len(few)), "forecasts") as advance:
        both = [tried[scale] if scale in tried else forecast_errors(loop_of(scale), context, few)]
        if others:
            both.append(forecast_errors(loop_of(scale), context, others))
        advance(len(others))
    return scale, factors(*(np.concatenate(part) for part in zip(*both, strict=True)))
