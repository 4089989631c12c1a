"""One causal loop over rows for each exponential smoother of a grid, in the error-correction form.

A member keeps a level l, a slope b and a factor s for each phase of each season. Row y_t moves them by

    v = y_t less its season (additive) or over it (multiplicative),   e = v − (l + φ b)
    l ← l + φ b + α e,   b ← φ b + α r e,   s ← s + γ (v − l) or s · (1 + γ (v / l − 1)), with the new level

A missing row moves the level by its slope and teaches nothing. The forecast j rows ahead is l + (φ + … + φʲ) b with its season;
theta members have a share r of the least-squares slope of the rows so far in the place of b (Hyndman and Billah, 2003).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pesn._support.jit import INLINE, jit

__all__ = ["ADDITIVE", "LOG", "MULTIPLICATIVE", "PLAIN", "THETA", "TREND", "rolling_errors", "run"]

PLAIN, TREND, THETA = 0, 1, 2  # kinds of trend
ADDITIVE, MULTIPLICATIVE, LOG = 0, 1, 2  # how season and trend meet; LOG: additive on the logarithms


@jit(**INLINE)
def _season(factors: Any, positions: Any, row: Any, how: Any) -> Any:
    """Of one row: sum or product over the seasons; ``positions`` (S, rows) are those of its factors."""
    if how == 1:
        total = 1.0
        for k in range(np.uint64(len(positions))):
            total *= factors[positions[k, row]]
    else:
        total = 0.0
        for k in range(np.uint64(len(positions))):
            total += factors[positions[k, row]]
    return total


@jit(**INLINE)
def _step(y: Any, t: Any, member: Any, kind: Any, how: Any, state: Any, factors: Any, positions: Any, floor: Any) -> None:
    """Move ``state`` (level, slope, Σ1, Σt, Σv, Σt², Σtv) and ``factors`` by row t."""
    alpha, phi, gamma = member[0], member[2], member[3]
    level = state[0] + phi * state[1] if kind == 1 else state[0]
    if np.isnan(y):
        state[0] = level
        if kind == 1:
            state[1] *= phi
        return
    season = _season(factors, positions, t, how)
    v = y / season if how == 1 else y - season
    e = v - level
    level += alpha * e
    if how == 1 and level < floor:
        level = floor
    state[0] = level
    if kind == 1:
        state[1] = phi * state[1] + alpha * member[1] * e
    elif kind == 2:
        u = float(t)
        state[2] += 1.0
        state[3] += u
        state[4] += v
        state[5] += u * u
        state[6] += u * v
        spread = state[2] * state[5] - state[3] * state[3]
        state[1] = member[1] * (state[2] * state[6] - state[3] * state[4]) / spread if state[2] > 2.5 else 0.0
    if gamma > 0.0:
        share = gamma / len(positions)
        for k in range(np.uint64(len(positions))):
            at = positions[k, t]
            if how == 1:
                factors[at] = max(factors[at] * (1.0 + share * (v / level - 1.0)), 1e-3)
            else:
                factors[at] += share * (v - level)


@jit(**INLINE)
def _begin(how: Any, kind: Any, starts: Any, first: Any, state: Any, factors: Any) -> None:
    state[:] = 0.0
    state[0] = starts[how, 0]
    state[1] = starts[how, 1] if kind == 1 else 0.0
    factors[:] = first[how]


@jit(**INLINE)
def _reach(member: Any, kind: Any, steps: Any, reach: Any) -> None:
    """φ + … + φʲ of each step j; that of theta's line is j, and what its level is behind (`_behind`)."""
    phi = member[2]
    for i in range(np.uint64(len(steps))):
        j = float(steps[i])
        reach[i] = phi * (1.0 - phi**j) / (1.0 - phi) if kind == 1 and phi < 1.0 else j


@jit(**INLINE)
def _behind(member: Any, kind: Any, state: Any) -> Any:
    """Rows by which a theta member's level is behind its line."""
    return (1.0 - (1.0 - member[0]) ** state[2]) / member[0] - 1.0 if kind == 2 else 0.0


@jit(**INLINE)
def _level_to_rows(value: Any, how: Any) -> Any:
    return np.exp(min(value, 700.0)) if how == 2 else value


@jit()
def rolling_errors(
    rows: Any, members: Any, kinds: Any, starts: Any, first: Any, positions: Any, origins: Any, steps: Any, bounds: Any,
    truth: Any, errors: Any,
) -> None:  # fmt: skip
    """Add up the absolute errors of each member at each step over all origins: ``errors`` (K, J).

    Parameters
    ----------
    rows : (3, n), rows on the scale of each way to meet (levels, levels, logarithms), NaN where missing.
    members : (K, 4), α, β/α, φ, γ. kinds : (K, 2), trend and way to meet.
    starts : (3, 2), level and slope before row 0 for each way. first : (3, Σm), starting factors.
    positions : (S, at least n + the largest step), unsigned, where the factors of a row stand.
    origins : (O,), ascending, rows after which a forecast is made. steps : (J,). bounds : (2,), forecasts are cut to them.
    truth : (n,), rows on the scale of levels, what forecasts are judged by.
    """
    n = np.uint64(rows.shape[1])
    state, factors, reach = np.zeros(7), np.zeros(first.shape[1]), np.zeros(len(steps))
    for k in range(np.uint64(len(members))):
        member, kind, how = members[k], kinds[k, 0], kinds[k, 1]
        _begin(how, kind, starts, first, state, factors)
        _reach(member, kind, steps, reach)
        o = np.uint64(0)
        for t in range(n):
            _step(rows[how, t], t, member, kind, how, state, factors, positions, bounds[0])
            if o < len(origins) and t == np.uint64(origins[o]):
                o += np.uint64(1)
                behind = _behind(member, kind, state)
                for i in range(np.uint64(len(steps))):
                    at = t + np.uint64(steps[i])
                    if at < n and not np.isnan(truth[at]):
                        value = state[0] + (reach[i] + behind) * state[1]
                        season = _season(factors, positions, at, how)
                        value = _level_to_rows(value * season if how == 1 else value + season, how)
                        errors[k, i] += abs(min(max(value, bounds[0]), bounds[1]) - truth[at])


@jit()
def run(
    rows: Any, members: Any, kinds: Any, starts: Any, first: Any, positions: Any, origins: Any, steps: Any, bounds: Any,
    weights: Any, level: Any, fitted: Any, ahead: Any, final: Any,
) -> None:  # fmt: skip
    """The weighted mean of members: ``level`` (n,) after each row, ``fitted`` with the season that was known before it.

    ``ahead`` (2, O, J) holds the forecasts of each origin, and what they are without season; ``final`` (2, H) those of steps
    1 … H from the last row.
    All arrays are added to. See `rolling_errors`.
    """
    n = np.uint64(rows.shape[1])
    state, factors, reach = np.zeros(7), np.zeros(first.shape[1]), np.zeros(len(steps))
    every, far = np.arange(1, final.shape[1] + 1), np.zeros(final.shape[1])
    for k in range(np.uint64(len(members))):
        member, kind, how, weight = members[k], kinds[k, 0], kinds[k, 1], weights[k]
        _begin(how, kind, starts, first, state, factors)
        _reach(member, kind, steps, reach)
        o = np.uint64(0)
        for t in range(n):
            season = _season(factors, positions, t, how)
            _step(rows[how, t], t, member, kind, how, state, factors, positions, bounds[0])
            level[t] += weight * _level_to_rows(state[0], how)
            fitted[t] += weight * _level_to_rows(state[0] * season if how == 1 else state[0] + season, how)
            if o < len(origins) and t == np.uint64(origins[o]):
                behind = _behind(member, kind, state)
                for i in range(np.uint64(len(steps))):
                    plain = state[0] + (reach[i] + behind) * state[1]
                    season = _season(factors, positions, t + np.uint64(steps[i]), how)
                    value = _level_to_rows(plain * season if how == 1 else plain + season, how)
                    ahead[0, o, i] += weight * min(max(value, bounds[0]), bounds[1])
                    ahead[1, o, i] += weight * min(max(_level_to_rows(plain, how), bounds[0]), bounds[1])
                o += np.uint64(1)
        _reach(member, kind, every, far)
        behind = _behind(member, kind, state)
        for j in range(np.uint64(len(every))):
            plain = state[0] + (far[j] + behind) * state[1]
            season = _season(factors, positions, n + j, how)
            value = _level_to_rows(plain * season if how == 1 else plain + season, how)
            final[0, j] += weight * min(max(value, bounds[0]), bounds[1])
            final[1, j] += weight * min(max(_level_to_rows(plain, how), bounds[0]), bounds[1])
