"""How good a forecast is: of Gaussians, of samples, and of single values.

A NaN in ``y`` is an observation that is missing: averages leave it out, and what is given element by element is NaN there.
A NaN in a forecast is an error. ``mean`` and ``std`` must have the shape of ``y`` or broadcast to it. Scores are the lower
the better.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> truth = rng.normal(size=10_000)  # and a forecaster who knows what can be known
>>> print(f"{coverage(truth, 0.0, 1.0):.2f} {crps_gaussian(truth, 0.0, 1.0).mean():.2f} {log_score(truth, 0.0, 1.0).mean():.2f}")
0.95 0.56 1.42
"""

from __future__ import annotations

import math
from typing import overload

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from pesn._support.arguments import as_covariance, as_real, check_not_negative, flag, number, whole_number
from pesn._support.types import Array, FloatArray
from pesn.gaussian import normal_crps

__all__ = ["coverage", "crps_ensemble", "crps_gaussian", "entropy", "log_score", "nrmse", "pit", "pit_histogram", "valid_time"]

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


@overload
def coverage(y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike, level: float = 0.95, *, axis: None = None) -> float: ...
@overload
def coverage(
    y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike, level: float = 0.95, *, axis: int | tuple[int, ...]
) -> float | Array: ...


def coverage(
    y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike, level: float = 0.95, *, axis: int | tuple[int, ...] | None = None
) -> float | Array:
    """The share of ``y`` in the central interval of the Gaussian that should hold ``level`` of it, ends included.

    Parameters
    ----------
    y
        What was observed, any shape.
    mean, std
        Of the Gaussians, in the shape of ``y`` or broadcast to it.
    level
        What the interval should hold, in (0, 1).
    axis
        Axes to average over; None is all, 0 gives a share for each column.

    Returns
    -------
    float or array
        A float over all of ``y``, an array over some of its axes.

    Examples
    --------
    >>> coverage([0.0, 1.0, 3.0, np.nan], 0.0, 1.0, level=0.9)  # ±1.64
    0.666...
    """
    number("level", level, 0.0, 1.0, "()")
    y, mean, std, _ = _forecast(y, mean, std)
    width = ndtri(0.5 + 0.5 * level)
    with np.errstate(all="ignore"):
        inside = (np.abs(y - mean) <= width * std) & ~np.isnan(y)
    return _plain(inside.sum(axis=axis) / _count(y, axis))


def crps_gaussian(y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike) -> FloatArray:
    """The continuous ranked probability score of N(mean, std²), for each element of ``y``, in the units of ``y``.

    ∫ (F(x) − 1[x ≥ y])² dx = σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π) with z = (y − mean)/σ (Gneiting and Raftery 2007), and
    ``|y − mean|`` where std is 0.

    Parameters
    ----------
    y
        What was observed, any shape.
    mean, std
        Of the Gaussians, in the shape of ``y`` or broadcast to it.

    Returns
    -------
    array
        In the shape of ``y``; NaN where y is missing.

    Examples
    --------
    >>> crps_gaussian([0.0, 1.0], 0.0, [1.0, 0.0]).round(6)
    array([0.233695, 1.      ])
    """
    y, mean, std, dtype = _forecast(y, mean, std)
    return normal_crps(y, mean, std).astype(dtype)[()]


def crps_ensemble(y: npt.ArrayLike, samples: npt.ArrayLike, *, axis: int = 0, fair: bool = False) -> FloatArray:
    """The continuous ranked probability score of ``samples``, n of them along ``axis``, for each element of ``y``.

    ``mean |xᵢ − y| − ½ mean |xᵢ − xⱼ|``: the score of the samples' own step function, whose second mean is over all n² pairs.
    Sorted, so of order n log n.

    Parameters
    ----------
    y
        What was observed, any shape.
    samples
        In the shape of ``y`` with one axis more, of n.
    axis
        That axis.
    fair
        Leave out the n pairs of a sample with itself: in the mean, the score of what the samples were drawn from (Ferro 2014).
        It needs two samples.

    Returns
    -------
    array
        In the shape of ``y``; NaN where y is missing.

    Examples
    --------
    >>> samples = [[-1.0, 0.0], [1.0, 0.0]]
    >>> crps_ensemble([0.0, 2.0], samples), crps_ensemble([0.0, 2.0], samples, fair=True)
    (array([0.5, 2. ]), array([0., 2.]))
    """
    flag("fair", fair)
    values, dtype = _as_observations(y)
    x = as_real("samples", samples)
    whole_number("axis", axis, -x.ndim)
    if axis >= x.ndim or np.delete(x.shape, axis).tolist() != list(values.shape):
        raise ValueError(
            f"samples must have the shape of y and one axis more, axis {axis}, got shapes {x.shape} and {values.shape}"
        )
    dtype = np.result_type(dtype, x.dtype)
    x = np.sort(np.moveaxis(x.astype(np.float64), axis, -1), axis=-1)
    n = x.shape[-1]
    if n < 1 + bool(fair):
        raise ValueError(f"samples must be {1 + bool(fair)} or more along axis {axis}, got {n}")
    order = np.arange(n)
    with np.errstate(all="ignore"):
        # Every term of both sums is 0 or more, so that none cancels, wherever the samples lie.
        beyond = x - values[..., None]
        weight = np.where(beyond > 0.0, n - order - 0.5, -order - 0.5) / n * (2.0 / n)
        score = np.sum(weight * beyond, axis=-1)
        if fair:
            gaps = np.diff(x, axis=-1)
            score = score - np.sum(order[1:] / n * ((n - order[1:]) / n) * gaps, axis=-1) / (n - 1)
        return score.astype(dtype)[()]


def log_score(
    y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike | None = None, *, cov: npt.ArrayLike | None = None
) -> FloatArray:
    """The negative log density at ``y``, in nats: of N(mean, std²) element by element, or of N(mean, cov) row by row.

    Parameters
    ----------
    y, mean
        Alike in shape, or mean broadcasts to it. With ``cov`` their last axis, of d, is one observation; a row with a missing
        entry scores NaN.
    std
        Where it is 0, the score is −∞ if y is the mean and +∞ if not.
    cov
        (d, d), or one for each row, (…, d, d); positive definite. Give it instead of std.

    Returns
    -------
    array
        In the shape of ``y``, with ``cov`` without its last axis; NaN where y is missing.

    Examples
    --------
    >>> log_score([0.0, 1.0], 0.0, 1.0).round(4)
    array([0.9189, 1.4189])
    >>> log_score([[0.0, 1.0]], [0.0, 0.0], cov=np.eye(2)).round(4)
    array([2.3379])
    """
    if (std is None) == (cov is None):
        raise ValueError(f"std or cov must be given, and not both, got {'neither' if std is None else 'both'}")
    if std is None:
        assert cov is not None
        return _log_score_rows(y, mean, cov)
    y, mean, std, dtype = _forecast(y, mean, std)
    with np.errstate(all="ignore"):
        away = np.abs(y - mean)
        z = _standardize(away, std)
        score = _LOG_ROOT_2PI + np.log(std) + 0.5 * z * z
        point = np.where(np.isnan(y), np.nan, np.where(away > 0.0, np.inf, -np.inf))
        return np.where(std > 0.0, score, point).astype(dtype)[()]


def pit(y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike) -> FloatArray:
    """The probability that the forecast gave to values below each ``y``: Φ((y − mean)/std), uniform if all forecasts are right.

    Where std is 0: 0 below the mean, 1 above it, ½ at it.

    Parameters
    ----------
    y
        What was observed, any shape.
    mean, std
        Of the Gaussians, in the shape of ``y`` or broadcast to it.

    Returns
    -------
    array
        In the shape of ``y``, in [0, 1]; NaN where y is missing.

    Examples
    --------
    >>> pit([0.0, 1.0, np.nan], 0.0, 1.0).round(4)
    array([0.5   , 0.8413,    nan])
    """
    y, mean, std, dtype = _forecast(y, mean, std)
    with np.errstate(all="ignore"):
        away = y - mean
        z = np.where(std > 0.0, _standardize(away, std), np.where(away == 0.0, 0.0, away * np.inf))
        return np.asarray(ndtr(z)).astype(dtype)[()]


def pit_histogram(y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike, bins: int = 10) -> tuple[Array, Array]:
    """The shares (bins,) of the observed values whose :func:`pit` lies in each of ``bins`` equal parts of [0, 1]; the edges.

    Flat at 1/bins for a calibrated forecast; ∪ where it is too sure, ∩ where it is not sure enough.

    Parameters
    ----------
    y
        What was observed, any shape.
    mean, std
        Of the Gaussians, in the shape of ``y`` or broadcast to it.
    bins
        Equal parts of [0, 1].

    Returns
    -------
    shares, edges
        (bins,), which add up to 1, and (bins + 1,).

    Examples
    --------
    >>> pit_histogram([-2.0, -0.1, 0.1, 0.2], 0.0, 1.0, bins=2)
    (array([0.5, 0.5]), array([0. , 0.5, 1. ]))
    """
    whole_number("bins", bins, 1)
    levels = np.asarray(pit(y, mean, std), np.float64)
    n = int(_count(levels, None))
    counts, edges = np.histogram(levels[~np.isnan(levels)], bins, (0.0, 1.0))
    return counts / n, edges


def nrmse(y: npt.ArrayLike, prediction: npt.ArrayLike, *, axis: int | tuple[int, ...] | None = 0) -> float | Array:
    """The root mean squared error over ``axis``, divided by the standard deviation of ``y`` over it (with 1/n, not 1/(n − 1)).

    1 is the error of the mean of ``y``, and √2 that of a shuffled ``y``.
    Others divide by the range, or by the mean square of y: the numbers do not compare.

    Parameters
    ----------
    y, prediction
        Alike in shape.
    axis
        Axes to average over: 0 gives a number for each column, None one for all with one common mean.

    Returns
    -------
    float or array
        A float where no axis is left.

    Examples
    --------
    >>> round(nrmse([0.0, 2.0, np.nan, 4.0], [0.0, 2.0, 3.0, 1.0]), 6)
    1.06066
    """
    y, prediction = _pair(y, prediction)
    _count(y, axis)
    smallest, largest = np.nanmin(y, axis=axis, keepdims=True), np.nanmax(y, axis=axis, keepdims=True)
    if (smallest == largest).any():
        raise ValueError(f"y must vary, to be what errors are measured by, got {smallest[smallest == largest][0]} everywhere")
    with np.errstate(all="ignore"):
        # Halves, as no difference of theirs overflows; and less the smallest, as the mean of what lies far from 0 is rounded.
        scaled, power = _scale_by_power(0.5 * y - 0.5 * smallest, axis)
        error, error_power = _scale_by_power(0.5 * y - 0.5 * prediction, axis)
        ratio = np.sqrt(np.nanmean(error * error, axis=axis)) / np.nanstd(scaled, axis=axis)
        return _plain(np.ldexp(ratio, np.squeeze(error_power - power, axis)))


def valid_time(y: npt.ArrayLike, prediction: npt.ArrayLike, *, dt: float = 1.0, threshold: float = 0.4) -> float:
    """The time for which a forecast holds: rows before the first whose error exceeds ``threshold``, times ``dt``.

    Parameters
    ----------
    y, prediction
        (n,) or (n, d), the rows in time. The error of a row is the Euclidean norm of y − prediction over the columns, divided
        by the root mean square over the rows of the norm of y less its mean, as in Pathak et al. 2018. In a row with missing
        entries, the mean square over the observed columns stands for that over all; a row without any is passed over.
    dt
        Time from one row to the next.
    threshold
        The error from which a forecast no longer holds.

    Returns
    -------
    float
        n · dt where the threshold is never exceeded, 0 where the first row exceeds it.

    Examples
    --------
    >>> valid_time([0.0, 1.0, 0.0, -1.0], [0.0, 1.0, 0.2, 0.0], dt=0.5)
    1.5
    """
    number("dt", dt, 0.0, math.inf, "()")
    number("threshold", threshold, 0.0, math.inf, "()")
    y, prediction = _pair(y, prediction)
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, d), got {y.shape}")
    y, prediction = y.reshape(len(y), -1), prediction.reshape(len(y), -1)
    _count(y, 0)
    if (np.nanmin(y, axis=0) == np.nanmax(y, axis=0)).all():
        raise ValueError("y must vary, to be what errors are measured by, got the same row everywhere")
    with np.errstate(all="ignore"):
        y, power = _scale_by_power(y, None)
        away = y - np.ldexp(prediction, -power)
        spread = np.mean(np.nanvar(y - np.nanmin(y, axis=0), axis=0))
        missing = np.isnan(y)
        squares = np.where(missing, 0.0, away * away).sum(axis=1) / np.maximum((~missing).sum(axis=1), 1)
        over = np.sqrt(squares / spread) > threshold
    return float(dt * (np.argmax(over) if over.any() else len(y)))


def entropy(values: npt.ArrayLike, bins: int = 64, range: tuple[float, float] = (-1.0, 1.0)) -> float:
    """The entropy in bits of a histogram of all ``values``, with ``bins`` equal bins on ``range``: 0 to log2(bins).

    Of a reservoir's values it says how much of their range they use.

    Parameters
    ----------
    values
        Any shape.
    bins, range
        Equal bins, and the interval that they cover.

    Returns
    -------
    float
        0 to log2(bins).

    Examples
    --------
    >>> entropy([-0.9, -0.4, 0.1, 0.6], bins=4)
    2.0
    """
    whole_number("bins", bins, 1)
    array = as_real("values", values)
    ends = as_real("range", range)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise ValueError(f"range must be (low, high) with low below high, got {range!r}")
    low, high = map(float, ends)
    if array.size == 0:
        raise ValueError(f"values must not be empty, got shape {array.shape}")
    if array.min() < low or array.max() > high:
        outside = array.min() if array.min() < low else array.max()
        raise ValueError(f"values must lie in range, [{low:g}, {high:g}], got {outside:g}")
    counts, _ = np.histogram(array, bins, (low, high))
    shares = counts[counts > 0] / array.size
    return float(abs(np.sum(shares * np.log2(shares))))


def _log_score_rows(y: npt.ArrayLike, mean: npt.ArrayLike, cov: npt.ArrayLike) -> FloatArray:
    """−log N(y; mean, cov), by Cholesky of the correlations: large and small variances side by side lose nothing."""
    values, dtype = _as_observations(y)
    if values.ndim == 0:
        raise ValueError("y must have at least one axis where cov is given, got a single number")
    mean = _like("mean", as_real("mean", mean), values.shape)
    c = as_covariance("cov", cov, values.shape[-1:])
    dtype = np.result_type(dtype, mean.dtype, c.dtype)
    c = _like("cov", c, (*values.shape, values.shape[-1])).astype(np.float64) if c.ndim > 2 else c.astype(np.float64)
    std = np.sqrt(np.diagonal(c, axis1=-2, axis2=-1))
    if not (std > 0.0).all():
        raise ValueError("cov must be positive definite, got a variance of 0")
    try:
        root = np.linalg.cholesky(c / std[..., :, None] / std[..., None, :])
    except np.linalg.LinAlgError:
        raise ValueError("cov must be positive definite, got a singular one") from None
    with np.errstate(all="ignore"):
        z = (values - mean) / std
        missing = np.isnan(z)
        known = np.where(missing, 0.0, z)
        if root.ndim == 2:  # one for all rows: factorised once
            white = np.linalg.solve(root, known.reshape(-1, len(root)).T).T
        else:
            white = np.linalg.solve(root, known[..., None])[..., 0]
        log_det = np.sum(np.log(std) + np.log(np.diagonal(root, axis1=-2, axis2=-1)), axis=-1)
        score = values.shape[-1] * _LOG_ROOT_2PI + log_det + 0.5 * np.sum(white * white, axis=-1).reshape(values.shape[:-1])
        return np.where(missing.any(axis=-1), np.nan, score).astype(dtype)[()]


def _as_observations(y: npt.ArrayLike) -> tuple[Array, np.dtype[np.floating]]:
    """``y`` in float64, NaN where it is missing, and the precision it came in; infinity and the like are refused."""
    try:
        missing = np.isnan(np.asarray(y)) if not isinstance(y, np.ma.MaskedArray) else None
    except (TypeError, ValueError):
        missing = None  # no numbers: as_real says so
    array = as_real("y", y if missing is None or not missing.any() else np.where(missing, 0.0, y).astype(np.asarray(y).dtype))
    values = array.astype(np.float64)
    if missing is not None and missing.any():
        values[missing] = np.nan
    return values, array.dtype


def _forecast(y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike) -> tuple[Array, Array, Array, np.dtype[np.floating]]:
    """All three in float64 and in the shape of ``y``; float32 as the last only where all came so."""
    values, dtype = _as_observations(y)
    mean, std = as_real("mean", mean), as_real("std", std)
    check_not_negative("std", std)
    dtype = np.result_type(
        dtype, *(part.dtype for part in (mean, std) if part.ndim)
    )  # a Python number does not decide the precision
    mean, std = (_like(name, part, values.shape).astype(np.float64) for name, part in (("mean", mean), ("std", std)))
    return values, mean, std, dtype


def _pair(y: npt.ArrayLike, prediction: npt.ArrayLike) -> tuple[Array, Array]:
    values, _ = _as_observations(y)
    prediction = as_real("prediction", prediction)
    if prediction.shape != values.shape:
        raise ValueError(f"prediction must have the shape of y, {values.shape}, got {prediction.shape}")
    return values, prediction.astype(np.float64)


def _like(argument: str, array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{argument} must have shape {shape} or broadcast to it, got {array.shape}") from None


def _standardize(away: Array, std: Array) -> Array:
    return np.asarray(away / np.where(std > 0.0, std, 1.0))


def _count(y: Array, axis: int | tuple[int, ...] | None) -> FloatArray:
    """How many values were observed along ``axis``; none is an error."""
    count = np.sum(~np.isnan(y), axis=axis)
    if np.size(count) == 0 or not np.all(count):
        along = "" if axis is None else f" along axis {axis}"
        raise ValueError(f"y must have at least one observed value{along}, got none")
    return count


def _scale_by_power(x: Array, axis: int | tuple[int, ...] | None) -> tuple[Array, FloatArray]:
    """``x`` over the power of 2 above its largest, so that no square overflows and no digit is lost; and the power."""
    power = np.frexp(np.nanmax(np.abs(x), axis=axis, keepdims=True))[1]
    return np.ldexp(x, -power), power


def _plain(value: Array) -> float | Array:
    return float(value) if np.ndim(value) == 0 else value
