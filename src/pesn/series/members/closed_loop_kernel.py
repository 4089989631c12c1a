"""A linear readout of lags and of a small reservoir, driven by changes of a series, and closed upon itself for forecasts.

Features of row t, for the change to row t + 1: 1, the last p changes, the gap to a moving average, the change m rows before
the one to come (where there is a season), and the units of the reservoir, h_i ← (1 − l_i) h_i + l_i tanh(v_i·u + Σ_k w_ik h_k).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pesn._support.jit import INLINE, jit

__all__ = ["ahead", "drive", "moving_average"]


@jit(**INLINE)
def _move(change: Any, gap: Any, inputs: Any, columns: Any, weights: Any, leak: Any, old: Any, new: Any) -> None:
    """One step of the units: ``inputs`` (N, 3) bias, change, gap; ``columns``, ``weights`` (N, k) of the units that they hear."""
    for i in range(np.uint64(len(old))):
        drive = inputs[i, 0] + inputs[i, 1] * change + inputs[i, 2] * gap
        for k in range(np.uint64(columns.shape[1])):
            drive += weights[i, k] * old[columns[i, k]]
        new[i] = old[i] + leak[i] * (np.tanh(drive) - old[i])


@jit()
def moving_average(values: Any, pace: Any, out: Any) -> None:
    """``out`` (n,): exponential, from the first row on."""
    average = values[0]
    for t in range(np.uint64(len(values))):
        average += pace * (values[t] - average)
        out[t] = average


@jit()
def drive(changes: Any, gaps: Any, inputs: Any, columns: Any, weights: Any, leak: Any, states: Any) -> None:
    """``states`` (n, N) after each row; ``changes`` and ``gaps`` (n,) in units of their deviations."""
    old = np.zeros(states.shape[1])
    for t in range(np.uint64(len(changes))):
        _move(changes[t], gaps[t], inputs, columns, weights, leak, old, states[t])
        old[:] = states[t]


@jit()
def ahead(
    changes: Any, averages: Any, values: Any, states: Any, inputs: Any, columns: Any, weights: Any, leak: Any, origins: Any,
    block: Any, readouts: Any, lags: Any, season: Any, pace: Any, fade: Any, largest: Any, bounds: Any, gap_unit: Any, out: Any,
) -> None:  # fmt: skip
    """Closed loops from all origins: ``out`` (O, H), the series itself at each lead, in units of the changes' deviation.

    Parameters
    ----------
    changes, averages, values : (n,), clipped changes, moving average and the series. states : (n, N).
    origins : (O,). block : (O,), which of ``readouts`` (B, p + 1) holds for an origin: 1, features, and the drift that fades.
    lags, season : numbers of lags; period, 0 without. pace : of the moving average. fade : of the drift, a step.
    largest : change in a step. bounds : (2,), of the series. gap_unit : gaps are in units of it.
    """
    units = np.uint64(states.shape[1])
    horizon = out.shape[1]
    old, new = np.zeros(states.shape[1]), np.zeros(states.shape[1])
    recent = np.zeros(max(lags, season) + horizon + 1)
    keep = max(lags, season)
    for o in range(np.uint64(len(origins))):
        t = origins[o]
        readout = readouts[block[o]]
        for k in range(keep):
            recent[k] = changes[t - keep + 1 + k] if t - keep + 1 + k >= 0 else 0.0
        average, value, drift = averages[t], values[t], readout[len(readout) - 1]
        old[:] = states[t]
        for j in range(horizon):
            last = keep + j - 1  # position of the change to row t + j
            gap = (value - average) / gap_unit
            if j > 0 and units > 0:
                _move(recent[last], gap, inputs, columns, weights, leak, old, new)
                old[:] = new
            change = readout[0] + drift
            for k in range(lags):
                change += readout[1 + k] * recent[last - k]
            change += readout[1 + lags] * gap
            at = 2 + lags
            if season > 0:
                change += readout[at] * recent[last + 1 - season]
                at += 1
            for i in range(units):
                change += readout[np.uint64(at) + i] * old[i]
            change = min(max(change, -largest), largest)
            moved = min(max(value + change, bounds[0]), bounds[1])
            recent[last + 1] = moved - value
            value = moved
            average += pace * (value - average)
            drift *= fade
            out[o, j] = value
