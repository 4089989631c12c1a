"""Training rows without most of their measurement noise: an observer of constant gain runs through them.

A Kalman filter over a few rows gives the gain; with it means alone go through all rows, in windows side by side. Where the
readout sees earlier rows, the register that holds them is corrected as well: a row that leaves it has seen those after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pesn._support.types import Array
from pesn.forecasting.context import ContextFilter
from pesn.forecasting.dataset import Segment
from pesn.forecasting.segments import Segments, SegmentStream
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.reservoir.drive import run
from pesn.statespace import GaussianState, Layout, rollout

__all__ = ["Observer", "filtered_segments", "observed", "observer_of"]

_SETTLED = 60  # rows after which a gain is constant
_GAINS = 8  # places that it is the mean of
_WINDOW, _BEFORE = 100, 50  # rows of a window, and those before it that bring the state there
_LOST = 8.0  # deviations of the noise
_MOST_LAGS = 5  # rows that correct a row after it


@dataclass(frozen=True, eq=False)
class Observer:
    """A closed loop and the gain (n, d) by which it is corrected, of rows of :data:`_SETTLED` steps or more."""

    loop: ClosedLoop
    gain: Array

    def __call__(self, segment: Segment) -> Segment:
        """The segment as the observer has it; a short one as it is."""
        return _filtered(self.loop, self.gain, segment) if len(segment.z) > _SETTLED else segment


def observer_of(loop: ClosedLoop, context: ContextFilter, segments: list[Segment]) -> Observer | None:
    """The observer whose gain is the mean over some of these segments; None where all of them are short.

    Parameters
    ----------
    loop
        Whose ``measurement_cov`` says how noisy rows are.
    context
        How contexts are filtered.
    segments
        Rows without gaps, scaled.
    """
    long = [s for s in segments if len(s.z) > _SETTLED]
    return Observer(loop, _gain(loop, context, long)) if long else None


def observed(observer: Observer | None, segments: Segments) -> Segments:
    """The same segments with rows, and the targets between them, as the observer has them, once it has settled."""
    if observer is None:
        return segments
    if isinstance(segments, SegmentStream):
        return replace(segments, then=observer)
    return [observer(s) for s in segments]


def filtered_segments(loop: ClosedLoop, context: ContextFilter, segments: list[Segment]) -> list[Segment]:
    """Both at once, of segments in memory."""
    observer = observer_of(loop, context, segments)
    return segments if observer is None else [observer(s) for s in segments]


def _gain(loop: ClosedLoop, context: ContextFilter, segments: list[Segment]) -> Array:
    """By how much of its error a prediction of y corrects each entry of x (n, d), after many rows: the mean of several places."""
    d, places = loop.dynamics.n_columns, [(s, k) for s in segments for k in range(0, len(s.z) - _SETTLED + 1, _SETTLED)]
    some = [places[i] for i in np.unique(np.linspace(0, len(places) - 1, _GAINS).astype(int))]
    y = np.stack([s.y[k : k + _SETTLED] for s, k in some])
    u = np.stack([s.z[k : k + _SETTLED, d:] for s, k in some])
    model, rows = loop.model, loop.model.outputs
    state = model.emit(context.move(loop, context.filtered(loop, y, u[:, :-1]), u[:, -1]), observed=True)[0]
    cov = state.covariance_of(rows) + (0.0 if loop.measurement_cov is None else loop.measurement_cov)
    gains = state.covariance_with(rows) @ np.linalg.pinv(cov, hermitian=True)  # a column may be constant
    return np.asarray(gains.mean(axis=0))


def _filtered(loop: ClosedLoop, gain: Array, s: Segment) -> Segment:
    """A segment of which all rows went through the observer."""
    assert loop.measurement_cov is not None
    d, n, lag = loop.dynamics.n_columns, len(s.z), min(loop.features.lags, _MOST_LAGS)
    settled = min(_BEFORE, n // 4)  # units that start from 0 are lost before
    size = min(_BEFORE + _WINDOW + lag, n - settled)
    firsts = np.unique([*range(settled, n - size, _WINDOW), n - size])
    z = loop.dynamics.network_rows(s.z)
    states = np.asarray(run(loop.reservoir, z, feedback=s.targets)[0]) if loop.reservoir.n_units else np.zeros((n, 0))
    at, loop_of_means, kept = loop.layout, loop.certain, loop.dynamics.encoding.kept(d)  # the first entries of an earlier row
    oldest = at["earlier"].start + (lag - 1) * z.shape[1] + np.arange(len(kept))

    def rows_of(now: GaussianState) -> dict[str, Array]:
        return {"now": now.mean[..., at["y"]], "late": now.mean[..., oldest if lag else kept]}

    before = np.maximum(firsts[:, None] - 1 - np.arange(loop.features.lags), 0)
    start = np.concatenate([z[before].reshape(len(firsts), -1), states[firsts]], axis=-1)
    state = loop_of_means.init(start, np.zeros((0, start.shape[1])), s.y[firsts], s.z[firsts, d:], moved=True)
    model = replace(loop_of_means.model, fast=None, gain=_rearrange_gain(gain, at, loop_of_means.layout), probe=rows_of)
    places = firsts[:, None] + np.arange(size)
    found = rollout(model, state, s.z[places, d:], observations=s.y[places + 1], moved=True).probed
    y, far = s.y.copy(), _LOST * np.sqrt(np.diagonal(loop.measurement_cov))
    for first, now, late in zip(firsts, found["now"], found["late"], strict=True):  # of rows in two windows the later one counts
        if not (np.abs(now[_BEFORE:] - s.y[first + _BEFORE : first + size]) <= far).all():  # it has lost the series
            continue
        y[first + _BEFORE : first + size] = now[_BEFORE:]
        y[first + _BEFORE : first + size - lag, kept] = late[_BEFORE + lag :]
    targets = loop.dynamics.targets(y)
    return Segment(np.hstack([y[:-1], s.z[:, d:]]), targets, s.y)


def _rearrange_gain(gain: Array, own: Layout, other: Layout) -> Array:
    """Return a gain (n, d) over another layout; squares are computed anew, and their number depends on the form."""
    if own == other:
        return gain
    result = np.zeros((other.size, gain.shape[1]))
    for name in other.blocks:
        if name != "squares":
            result[other[name]] = gain[own[name]]
    return result
