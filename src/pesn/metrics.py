"""Scores of forecasts: Gaussian, by samples, or of single values.

A NaN in ``y`` is a missing observation: averages leave it out, and scores of each element are NaN there. A NaN in a forecast is
an error. ``mean`` and ``std`` must have the shape of ``y`` or broadcast to it. Lower scores are better.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> truth = rng.normal(size=10_000)  # forecast by the distribution that it was drawn from
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
    """Compute the share of ``y`` inside the central prediction interval of a Gaussian, ends included.

    Parameters
    ----------
    y : array-like
        Observations, of any shape.
    mean : array-like
        Means of the Gaussians, in the shape of ``y`` or broadcast to it.
    std : array-like
        Standard deviations of the Gaussians, in the shape of ``y`` or broadcast to it.
    level : float, default=0.95
        Nominal coverage of the interval, in (0, 1).
    axis : int or tuple of int, optional
        Axes to average over; None averages over all, 0 gives a share for each column.

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
    """Compute the continuous ranked probability score of N(mean, std²) for each element of ``y``, in the units of ``y``.

    ∫ (F(x) − 1[x ≥ y])² dx = σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π) with z = (y − mean)/σ (Gneiting and Raftery 2007), and
    ``|y − mean|`` where std is 0.

    Parameters
    ----------
    y : array-like
        Observations, of any shape.
    mean : array-like
        Means of the Gaussians, in the shape of ``y`` or broadcast to it.
    std : array-like
        Standard deviations of the Gaussians, in the shape of ``y`` or broadcast to it.

    Returns
    -------
    array
        Scores in the shape of ``y``; NaN where y is missing.

    Examples
    --------
    >>> crps_gaussian([0.0, 1.0], 0.0, [1.0, 0.0]).round(6)
    array([0.233695, 1.      ])
    """
    y, mean, std, dtype = _forecast(y, mean, std)
    return normal_crps(y, mean, std).astype(dtype)[()]


def crps_ensemble(y: npt.ArrayLike, samples: npt.ArrayLike, *, axis: int = 0, fair: bool = False) -> FloatArray:
    """Compute the continuous ranked probability score of samples for each element of ``y``.

    ``mean |xᵢ − y| − ½ mean |xᵢ − xⱼ|``, the score of the empirical distribution function; the second mean is over all n² pairs.
    Samples are sorted: the cost is of order n log n.

    Parameters
    ----------
    y : array-like
        Observations, of any shape.
    samples : array-like
        Samples, in the shape of ``y`` with one more axis of size n.
    axis : int, default=0
        The axis of the samples.
    fair : bool, default=False
        Leave out the n pairs of a sample with itself: the score is then unbiased for the distribution that the samples were
        drawn from (Ferro 2014). Needs two samples.

    Returns
    -------
    array
        Scores in the shape of ``y``; NaN where y is missing.

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
        # All terms of both sums are non-negative: nothing cancels, wherever the samples lie.
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
    """Compute the negative log density at ``y``, in nats: of N(mean, std²) for each element, or of N(mean, cov) for each row.

    Parameters
    ----------
    y : array-like
        Observations. With ``cov``, the last axis, of d, is one observation; a row with a missing entry scores NaN.
    mean : array-like
        Means, in the shape of ``y`` or broadcast to it.
    std : array-like, optional
        Standard deviations. Where one is 0, the score is −∞ if y is the mean and +∞ if not.
    cov : array-like of shape (d, d) or (..., d, d), optional
        Positive definite covariance, for all rows or for each of them; given instead of ``std``.

    Returns
    -------
    array
        Scores in the shape of ``y``, with ``cov`` without its last axis; NaN where y is missing.

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
    """Compute the probability integral transform Φ((y − mean)/std), which is uniform for a calibrated forecast.

    Where std is 0: 0 below the mean, 1 above it, ½ at it.

    Parameters
    ----------
    y : array-like
        Observations, of any shape.
    mean : array-like
        Means of the Gaussians, in the shape of ``y`` or broadcast to it.
    std : array-like
        Standard deviations of the Gaussians, in the shape of ``y`` or broadcast to it.

    Returns
    -------
    array
        Probabilities in the shape of ``y``, in [0, 1]; NaN where y is missing.

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
    """Compute a histogram of the :func:`pit` of the observations.

    It is flat at 1/bins for a calibrated forecast, ∪-shaped for an overconfident one and ∩-shaped for an underconfident one.

    Parameters
    ----------
    y : array-like
        Observations, of any shape.
    mean : array-like
        Means of the Gaussians, in the shape of ``y`` or broadcast to it.
    std : array-like
        Standard deviations of the Gaussians, in the shape of ``y`` or broadcast to it.
    bins : int, default=10
        Number of equal bins of [0, 1].

    Returns
    -------
    shares : array of shape (bins,)
        Shares of the observations in each bin; they sum to 1.
    edges : array of shape (bins + 1,)
        Edges of the bins.

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
    """Compute the root mean squared error divided by the standard deviation of ``y`` (with 1/n, not 1/(n − 1)).

    The mean of ``y`` as a prediction has the error 1, a shuffled ``y`` √2. Other definitions divide by the range or by the mean
    square of y: their values do not compare.

    Parameters
    ----------
    y : array-like
        Observations.
    prediction : array-like
        Predictions, in the shape of ``y``.
    axis : int or tuple of int, default=0
        Axes to average over: 0 gives a number for each column, None one number with one common mean.

    Returns
    -------
    float or array
        A float if no axis remains.

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
        # Halves, since their differences do not overflow; less the smallest, since the mean of large numbers is rounded.
        scaled, power = _scale_by_power(0.5 * y - 0.5 * smallest, axis)
        error, error_power = _scale_by_power(0.5 * y - 0.5 * prediction, axis)
        ratio = np.sqrt(np.nanmean(error * error, axis=axis)) / np.nanstd(scaled, axis=axis)
        return _plain(np.ldexp(ratio, np.squeeze(error_power - power, axis)))


def valid_time(y: npt.ArrayLike, prediction: npt.ArrayLike, *, dt: float = 1.0, threshold: float = 0.4) -> float:
    """Compute the valid prediction time: the time before the first row whose error exceeds a threshold.

    The error of a row is the Euclidean norm of y − prediction over the columns, divided by the root mean square over the rows of
    the norm of y less its mean (Pathak et al. 2018). In a row with missing entries, the mean square over the observed columns
    replaces that over all; a row without observations is passed over.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, d)
        Observations, row by row in time.
    prediction : array-like of shape (n,) or (n, d)
        Predictions.
    dt : float, default=1.0
        Time between two rows.
    threshold : float, default=0.4
        Largest error of a valid prediction.

    Returns
    -------
    float
        n · dt if the threshold is never exceeded, 0 if the first row exceeds it.

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
    """Compute the entropy in bits of a histogram of all values: how much of its range a reservoir uses.

    Parameters
    ----------
    values : array-like
        Values, of any shape.
    bins : int, default=64
        Number of equal bins.
    range : tuple of float, default=(-1.0, 1.0)
        Interval that the bins cover.

    Returns
    -------
    float
        Entropy from 0 to log2(bins).

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
    """Compute −log N(y; mean, cov) by the Cholesky factor of the correlations, exact for variances of any ratio."""
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
        if root.ndim == 2:  # one for all rows: factorized once
            white = np.linalg.solve(root, known.reshape(-1, len(root)).T).T
        else:
            white = np.linalg.solve(root, known[..., None])[..., 0]
        log_det = np.sum(np.log(std) + np.log(np.diagonal(root, axis1=-2, axis2=-1)), axis=-1)
        score = values.shape[-1] * _LOG_ROOT_2PI + log_det + 0.5 * np.sum(white * white, axis=-1).reshape(values.shape[:-1])
        return np.where(missing.any(axis=-1), np.nan, score).astype(dtype)[()]


def _as_observations(y: npt.ArrayLike) -> tuple[Array, np.dtype[np.floating]]:
    """Return ``y`` in float64, NaN where it is missing, and its own precision; refuse infinity and other types."""
    try:
        missing = np.isnan(np.asarray(y)) if not isinstance(y, np.ma.MaskedArray) else None
    except (TypeError, ValueError):
        missing = None  # not numbers: as_real raises
    array = as_real("y", y if missing is None or not missing.any() else np.where(missing, 0.0, y).astype(np.asarray(y).dtype))
    values = array.astype(np.float64)
    if missing is not None and missing.any():
        values[missing] = np.nan
    return values, array.dtype


def _forecast(y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike) -> tuple[Array, Array, Array, np.dtype[np.floating]]:
    """Return y, mean and std in float64 and in the shape of ``y``, and the dtype of results: float32 only if all are."""
    values, dtype = _as_observations(y)
    mean, std = as_real("mean", mean), as_real("std", std)
    check_not_negative("std", std)
    # Python numbers do not decide the precision
    dtype = np.result_type(dtype, *(part.dtype for part in (mean, std) if part.ndim))
    mean, std = (_like(name, part, values.shape).astype(np.float64) for name, part in (("mean", mean), ("std", std)))
    return values, mean, std, dtype


def _pair(y: npt.ArrayLike, prediction: npt.ArrayLike) -> tuple[Array, Array]:
    """Return observations and predictions of one shape in float64."""
    values, _ = _as_observations(y)
    prediction = as_real("prediction", prediction)
    if prediction.shape != values.shape:
        raise ValueError(f"prediction must have the shape of y, {values.shape}, got {prediction.shape}")
    return values, prediction.astype(np.float64)


def _like(argument: str, array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Broadcast an array to a shape, or raise a ValueError that names it."""
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{argument} must have shape {shape} or broadcast to it, got {array.shape}") from None


def _standardize(away: Array, std: Array) -> Array:
    """Divide by the standard deviation where it is positive."""
    return np.asarray(away / np.where(std > 0.0, std, 1.0))


def _count(y: Array, axis: int | tuple[int, ...] | None) -> FloatArray:
    """Count the observations along ``axis``; raise a ValueError if there are none."""
    count = np.sum(~np.isnan(y), axis=axis)
    if np.size(count) == 0 or not np.all(count):
        along = "" if axis is None else f" along axis {axis}"
        raise ValueError(f"y must have at least one observed value{along}, got none")
    return count


def _scale_by_power(x: Array, axis: int | tuple[int, ...] | None) -> tuple[Array, FloatArray]:
    """Divide by the power of 2 above the largest value, so that no square overflows; also return the power."""
    power = np.frexp(np.nanmax(np.abs(x), axis=axis, keepdims=True))[1]
    return np.ldexp(x, -power), power


def _plain(value: Array) -> float | Array:
    """Return a scalar array as a float."""
    return float(value) if np.ndim(value) == 0 else value
