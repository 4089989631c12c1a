"""Choices by held-out scores: process noise by CRPS, scaling of standard deviations by lead, washout; and one-step errors.

The error model has the covariance and autocorrelation of residuals, and is updated as rows arrive.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> factors(rng.normal(size=(9000, LEADS, 1)), np.full((9000, LEADS, 1), 0.5)).round(1)[[0, -1]]   # errors twice as large as std
array([2., 2.])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import comb
from statistics import NormalDist

import numpy as np
from scipy.linalg import cho_solve
from scipy.stats import t as student

from pesn._support.types import Array
from pesn.evaluation.backtest import Normal, Places, evaluate, future_windows, rolling_origins
from pesn.linalg import symmetric
from pesn.readout.features import Features
from pesn.readout.groups import Groups
from pesn.readout.ridge import Penalty, least_squares, solve
from pesn.reservoir.closed_loop import ErrorModel
from pesn.reservoir.drive import run
from pesn.reservoir.initial_state import LocalStart, Start
from pesn.reservoir.open_loop import OpenLoop
from pesn.reservoir.sequences import blocks
from pesn.reservoir.weights import Reservoir
from pesn.statespace.cell import Noise, UnitMoments
from pesn.statespace.model import rollout

LEADS = 50  # steps ahead over which forecasts are evaluated
WIDEST = 3.0  # largest standard deviation after calibration, in standard deviations of the training data
SCALES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # candidates of process noise
RIDGES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # candidates
_KNOTS = np.array([1, 2, 3, 5, 8, 13, 20, 32, LEADS])
_PRIOR, _PRIOR_NARROW = 10.0, 40.0  # weight of the prior factor 1, in forecasts, for wider and narrower intervals
_SETTLED = 1e-3  # of the targets' standard deviation
_FARTHEST = 10.0  # standard deviations at which errors are clipped


def search(score: Callable[[float], Array], values: Sequence[float]) -> float:
    """Return the value with the best score; larger values are tried until one is worse.

    Parameters
    ----------
    score : callable
        Function of a value that returns CRPS (origins, leads, m); all leads and columns have the same weight.
    values : sequence of float
        Increasing values.
    """
    best, best_value, unit = values[0], np.inf, None
    for value in values:
        found = np.mean(score(value), axis=0)
        if unit is None:
            unit = np.where(found > 0.0, found, 1.0)
        mean = float(np.mean(found / unit))
        if mean >= best_value:
            break
        best, best_value = value, mean
    return best


def factors(wrong: Array, std: Array) -> Array:
    """Compute factors (50,) of the standard deviations 1 … 50 steps ahead from past forecasts.

    The factor is the larger of the one with which the mean square s² of error over standard deviation is 1 and the one with
    which the 95 % interval has a coverage of 95 %, pooled over columns and neighboring leads. Errors of forecasts from
    neighboring rows are correlated: n of them with lag-one correlation r count as ν = n (1 − r²)/(1 + r²). The prior that the
    standard deviations are right counts as ν₀ = 10 forecasts; as 40 if the factor is below 1, since validation rows may be
    unusually quiet. The square of the factor is (ν₀ + ν s²)/(ν₀ + ν). Errors are t-distributed with ν₀ + ν degrees of freedom:
    the factor is that of a Gaussian with the same 95 % interval. Leads beyond those of the forecasts have the last factor.

    Parameters
    ----------
    wrong : array of shape (origins, leads, d)
        Errors, from origins in their order; NaN where missing.
    std : array of shape (origins, leads, d)
        Standard deviations.

    Returns
    -------
    array of shape (50,)
    """
    if not wrong.size:
        return np.ones(LEADS)
    wrong, std = wrong[:, :LEADS], std[:, :LEADS]
    ratio = np.divide(wrong, std, out=np.full(wrong.shape, np.nan), where=std > 0.0)  # a certain column is no evidence
    ratio = np.clip(ratio, -_FARTHEST, _FARTHEST)
    leads, edge = np.arange(1, wrong.shape[1] + 1), NormalDist().inv_cdf(0.975)
    found = [0.0]
    for j in _KNOTS:
        near = ratio[:, (leads >= 0.7 * j) & (leads <= 1.4 * j)]
        size = np.abs(near[~np.isnan(near)])
        if not size.size:
            found.append(found[-1])
            continue
        square = max(np.mean(np.square(size)), (np.quantile(size, 0.95) / edge) ** 2)
        count, prior = _independent(near), _PRIOR if square > 1.0 else _PRIOR_NARROW
        scale = np.sqrt((prior + count * square) / (prior + count))
        found.append(np.log(scale * student.ppf(0.975, prior + count) / edge))
    logs = np.clip(found[1:], np.log(0.25), np.log(10.0))
    result: Array = np.exp(np.interp(np.log(np.arange(1, LEADS + 1)), np.log(_KNOTS), logs))
    return result


def by_lead(calibration: Array, horizon: int) -> Array:
    """Return factors (horizon,): those of the calibrated leads, and the last of them beyond.

    >>> by_lead(np.array([1.0, 2.0, 1.5]), 5).tolist()
    [1.0, 2.0, 1.5, 1.5, 1.5]
    """
    return calibration[np.minimum(np.arange(horizon), len(calibration) - 1)]


def calibration_factors(std: Array, calibration: Array, training_std: Array, share: Array | None = None) -> Array:
    """Compute calibration factors of standard deviations.

    A factor does not raise a standard deviation above three standard deviations of the training data.

    Parameters
    ----------
    std : array of shape (..., horizon, d)
        Standard deviations of the forecast.
    calibration : array of shape (50,)
        Factors by lead.
    training_std : array of shape (d,)
        Standard deviations of the training data.
    share : array of shape (..., horizon, d), optional
        Fraction of the variances that is calibrated; all by default.
    """
    factor = by_lead(calibration, std.shape[-2])[:, None] * np.ones_like(std)
    if share is not None:
        factor = np.sqrt(1.0 + (np.square(factor) - 1.0) * np.clip(share, 0.0, 1.0))
    most = np.divide(WIDEST * training_std, std, out=np.ones_like(std), where=std > 0.0)
    return np.minimum(factor, np.maximum(most, 1.0))


def _independent(ratio: Array) -> float:
    """Compute the effective number ν of errors over standard deviations (origins, leads, d), origins in their order."""
    known = ratio[~np.isnan(ratio).all(axis=(1, 2))]
    before, after = known[:-1], known[1:]
    both = ~(np.isnan(before) | np.isnan(after))
    size = 0.5 * (np.sum(np.square(before[both])) + np.sum(np.square(after[both])))
    r = np.clip(np.sum(before[both] * after[both]) / size, 0.0, 1.0) if size > 0.0 else 0.0
    return max(float(len(known) * (1.0 - r**2) / (1.0 + r**2)), 1.0)


LARGEST_FULL = 200  # units up to which the full covariance is as fast as the low-rank one
_MOST_ORIGINS = 24  # open-loop runs in the validation set


def covariance_form(covariance: str, n_units: int, rank: int) -> str:
    """Return the form of a ``covariance``: "auto" by size; a low rank of all units is "full"."""
    if covariance == "auto":
        covariance = "full" if n_units <= LARGEST_FULL else "low-rank"
    return "full" if covariance == "low-rank" and rank >= n_units else covariance


def process_noise(given: Start | LocalStart | None, scale: float, noise: float, n_units: int) -> Noise | None:
    """Return ``scale`` times the stationary covariance of the units plus ``noise``² for each; None if both are 0."""
    n = n_units
    if (scale == 0.0 and noise == 0.0) or not n:
        return None
    root = np.zeros((0, n)) if scale == 0.0 or given is None else np.sqrt(scale) * given.stationary()[1][:, -n:]
    if len(root) > n:
        root = np.linalg.qr(root, mode="r")
    return Noise(root, np.full(n, noise**2))


def search_open_loop(
    loop: OpenLoop, start: Start | LocalStart, noise: float, z: Array, targets: Array, ridge: Penalty, washout: int,
    groups: Groups | None = None,
) -> float:  # fmt: skip
    """Select the scale of process noise with the best CRPS of open-loop predictions over the last fifth of the rows.

    The readout is fitted to the other rows. 0 if there are too few of them.
    """
    n, first = len(z), len(z) - len(z) // 5
    if n - first < 2 * LEADS or first - washout < 2:
        return 0.0
    origins = rolling_origins(first, n - LEADS - 1, min((n - first) // LEADS, _MOST_ORIGINS))
    gram, units, state = least_squares(loop.weights.shape[1], targets.shape[1], ridge, groups), [], None
    before, lags = None, np.arange(loop.features.lags)
    for block in blocks(slice(0, n)):
        states, _, state = run(loop.reservoir, z[block], state, feedback=targets[block])
        seen = slice(max(washout - block.start, 0), max(first - block.start, 0))
        gram.add(loop.features(z[block], states, before)[seen], targets[block][seen])
        before = loop.features.newest_rows(z[block], before)
        units += [states[k - block.start].copy() for k in origins[(origins >= block.start) & (origins < block.stop)]]
    readout = solve(gram, ridge)
    residual_var = np.diagonal(readout.residual_cov)
    ahead = future_windows(z, origins + 1, LEADS)
    earlier = z[origins[:, None] - lags].reshape(len(origins), -1)
    known = np.hstack([earlier, np.array(units)])

    def score(scale: float) -> Array:
        noisy = process_noise(start, scale, noise, loop.reservoir.n_units)
        free = replace(loop, weights=np.asarray(readout.weights, float), process_noise=noisy, readout=None)

        def predict_origins(_: Places) -> Normal:
            path = rollout(free.model, free.init(known, output=targets[origins]), ahead)
            return Normal(path.mean, np.sqrt(np.diagonal(path.cov, axis1=-2, axis2=-1) + residual_var))

        return evaluate(predict_origins, origins + 1, LEADS, targets).scores

    return search(score, SCALES)


def find_washout(
    reservoir: Reservoir, units: UnitMoments, z: Array, targets: Array, ridge: Penalty,
    features: Features = Features(), groups: Groups | None = None,
) -> int:  # fmt: skip
    """Find the number of rows after which the initial state moves the outputs by less than a thousandth of their std.

    Or by less than a tenth of the residual standard deviation, below which it is not noticeable in noisy data. The units start
    with their stationary covariance, estimated in a trial run from 0; the effect on the outputs is that of a readout fitted to
    the second half of the rows. At most half of the rows.
    """
    half = len(z) // 2
    if half < 2 or not reservoir.n_units or reservoir.is_static:
        return 0
    if reservoir.is_memoryless:
        return 1
    states, _, _ = run(reservoir, z, feedback=targets)
    b = features(z, states)[half:]
    gram = least_squares(b.shape[1], targets.shape[1], ridge, groups).add(b, targets[half:])
    readout = solve(gram, ridge)
    small = np.maximum(_SETTLED * np.std(targets[half:], axis=0), 0.1 * np.sqrt(np.diagonal(readout.residual_cov)))
    weights = np.asarray(readout.weights, float) / np.where(small > 0.0, small, 1.0)[:, None]
    mean = states[half:].mean(axis=0)
    root = (states[half:] - mean) / np.sqrt(max(len(z) - half - 1, 1))
    if len(root) > root.shape[1]:
        root = np.linalg.qr(root, mode="r")
    form, held = covariance_form("auto", reservoir.n_units, OpenLoop.rank), features.n_earlier(z.shape[1])
    loop = OpenLoop(reservoir, weights, units, form, settled=1.0, features=features)
    start = loop.init(np.pad(mean, (held, 0)), np.pad(root, ((0, 0), (held, 0))))  # variances do not depend on known earlier rows
    path = rollout(loop.model, start, z[:half], clamp=targets[:half])
    settled = np.flatnonzero(np.diagonal(path.cov, axis1=1, axis2=2).max(axis=1) <= 1.0)
    return int(settled[0]) + 1 if len(settled) else half


# ---------------------------------------------------------------- one-step errors

_INFLATIONS = 10.0 ** np.arange(0.0, 4.01, 0.1)
_MOST_KNOWN = 1.0 - 1e-12
_ORDERS = 8  # largest order of differences that bound the measurement noise
SHARES = (1.0, 0.3, 0.1, 0.03, 0.01)  # candidates for the share of the process in the one-step variances


class ErrorSums:
    """Sums over one-step residuals, block by block, from which :func:`fit_error_model` estimates.

    Parameters
    ----------
    n_columns : int
        Number of columns d.
    """

    def __init__(self, n_columns: int) -> None:
        d = n_columns
        self.count, self.pairs = 0, 0
        self.total: Array = np.zeros(d)  # Σ e
        self.square: Array = np.zeros((d, d))  # Σ e eᵀ
        # over pairs of successive rows: Σ e₀ e₀ᵀ, Σ e₀ e₁ᵀ, Σ e₁ e₁ᵀ
        self.old, self.both, self.new = (np.zeros((d, d)) for _ in range(3))

    def add(self, e: Array, before: Array | None = None) -> ErrorSums:
        """Add residuals of contiguous rows; return self.

        Parameters
        ----------
        e : array of shape (n, d)
            Residuals.
        before : array of shape (d,), optional
            Residual of the row before them.
        """
        if not len(e):
            return self
        self.count += len(e)
        self.total += e.sum(axis=0)
        self.square += e.T @ e
        joined = e if before is None else np.vstack([before, e])
        old, new = joined[:-1], joined[1:]
        self.pairs += len(new)
        self.old += old.T @ old
        self.both += old.T @ new
        self.new += new.T @ new
        return self

    def merge(self, other: ErrorSums) -> ErrorSums:
        """Add the sums of ``other``; return self."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self

    @property
    def var(self) -> Array:
        """Variances (d,) of the residuals about their mean."""
        mean = self.total / self.count
        return np.maximum(np.diagonal(self.square) / self.count - np.square(mean), 0.0)


def fit_error_model(sums: ErrorSums, inflation: float = 1.0) -> ErrorModel:
    """Estimate the error model from sums over residuals.

    The innovation of an error is e₁ − ρ e₀, and Σ (e₁ − ρ e₀)(e₁ − ρ e₀)ᵀ is a combination of the sums: as |ρ| is at most 0.99,
    no more than four of sixteen digits are lost.

    Parameters
    ----------
    sums : ErrorSums
        Sums over the residuals.
    inflation : float, default=1.0
        Factor of the covariances, for the degrees of freedom of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> e = np.zeros((5000, 1))
    >>> for k in range(1, 5000): e[k] = 0.8 * e[k - 1] + rng.normal()
    >>> fit_error_model(ErrorSums(1).add(e)).persistence.round(1)
    array([0.8])
    """
    cov = symmetric(sums.square) / sums.count
    size = np.diagonal(sums.old)
    rho = np.divide(np.diagonal(sums.both), size, out=np.zeros_like(size), where=size > 0.0)
    rho = np.clip(rho, -0.95, 0.99)
    innovation = cov
    if sums.pairs:
        crossed = rho[:, None] * sums.both
        fresh = sums.new - crossed - crossed.T + (rho[:, None] * rho) * sums.old
        innovation = symmetric(fresh) / sums.pairs
    return ErrorModel(inflation * cov, rho, inflation * innovation, np.ones(len(rho)))


def weight_inflation(blocks: list[tuple[Array, Array]], root: Array, posterior: Array, var: Array) -> Array:
    """Estimate by how much the errors of the weights vary more (m,) than R A⁻¹, from blocks of rows that are left out one by one.

    Neighboring rows are correlated, and what a model cannot represent is not noise: both make it err more than R A⁻¹ away from
    its training rows. With A⁻¹ of the other rows, the error of a left-out row has the variance R (1 + c bᵀ A⁻¹ b). c maximizes
    the likelihood, and is at least 1. Nothing is refitted: with H = B A⁻¹ Bᵀ of the features of a block, the errors without its
    rows are (I − H)⁻¹ e, and B A⁻¹ Bᵀ becomes H (I − H)⁻¹.

    Parameters
    ----------
    blocks : list of tuple of array
        Features (n, p) and residuals (n, m) of contiguous training rows.
    root : array of shape (p, p)
        Root of A⁻¹ of the fitted weights.
    posterior : array of shape (p, p)
        Root of A⁻¹ of the covariance of the weights.
    var : array of shape (m,)
        Diagonal of R.
    """
    errors, leverages = [], []
    for b, e in blocks:
        into, known = b @ root, b @ posterior
        errors.append(_solve_semidefinite(np.eye(len(b)) - into @ into.T, e))
        values, vectors = np.linalg.eigh(known @ known.T)
        values = np.clip(values, 0.0, _MOST_KNOWN)
        leverages.append(np.square(vectors) @ (values / (1.0 - values)))
    square, leverage = np.square(np.concatenate(errors)), np.concatenate(leverages)
    found = np.ones(len(var))
    for j in np.flatnonzero(var > 0.0):
        total = var[j] * (1.0 + _INFLATIONS[:, None] * leverage)
        found[j] = _INFLATIONS[np.argmin(np.sum(np.log(total) + square[:, j] / total, axis=1))]
    return found


def _solve_semidefinite(A: Array, e: Array) -> Array:
    """Solve A x = e for symmetric A ≥ 0, by least squares if A is singular: several times slower."""
    try:
        root = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        root = np.zeros((1, 1))
    if np.square(root.diagonal()).min(initial=1.0) > 1e-9:
        return np.asarray(cho_solve((root, True), e))
    return np.asarray(np.linalg.lstsq(A, e, rcond=1e-12)[0])


def measurement_var(errors: ErrorModel, share: float) -> Array:
    """Compute the variances (d,) of the measurement noise if the process has this share of the one-step variances."""
    return (1.0 - share) * np.diagonal(errors.cov)


def bound_measurement_var(runs: Iterable[Array]) -> Array:
    """Bound the variances (d,) of white measurement noise of variance σ² by those of differences of the rows.

    The k-th difference of white noise has the variance C(2k, k) σ², and that of the noiseless rows adds to it.

    Parameters
    ----------
    runs : iterable of array of shape (n, d)
        Runs of contiguous rows.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.sin(0.1 * np.arange(3000.0)) + 0.01 * np.random.default_rng(0).normal(size=3000)
    >>> np.sqrt(bound_measurement_var([y[:, None]])).round(3)
    array([0.01])
    """
    squares, counts = [0.0] * _ORDERS, [0] * _ORDERS
    for y in runs:
        for k in range(_ORDERS):
            y = np.diff(y, axis=0)
            squares[k], counts[k] = squares[k] + np.sum(np.square(y), axis=0), counts[k] + len(y)
    found = [square / (max(n, 1) * comb(2 * k, k)) for k, (square, n) in enumerate(zip(squares, counts, strict=True), 1) if n]
    return np.asarray(np.min(found, axis=0))


def process_errors(errors: ErrorModel, measurement_var: Array) -> ErrorModel:
    """Return the error model of the process alone, without measurement noise.

    A one-step error is the sum of the process noise and of the measurement noise of the next row. If all of it were process
    noise, forecasts would be too wide. The process has at least a hundredth of it.

    Parameters
    ----------
    errors : ErrorModel
        One-step errors.
    measurement_var : array of shape (d,)
        Variances of the measurement noise.

    Examples
    --------
    >>> import numpy as np
    >>> errors = ErrorModel(np.diag([4.0, 1.0]), np.zeros(2), np.diag([4.0, 1.0]))
    >>> np.diagonal(process_errors(errors, np.array([3.0, 2.0])).cov)
    array([1.  , 0.01])
    """
    total = np.diagonal(errors.cov)
    share = np.divide(total - measurement_var, total, out=np.ones_like(total), where=total > 0.0)
    root = np.sqrt(np.maximum(share, SHARES[-1]))
    both = root[:, None] * root
    return errors._replace(cov=both * errors.cov, innovation=both * errors.innovation)


def process_share(errors: ErrorModel, measurement_cov: Array | None) -> Array:
    """Compute the share (d,) of the process in the variances of one-step errors."""
    own = np.diagonal(errors.cov)
    if measurement_cov is None:
        return np.ones(len(own))
    total = own + np.diagonal(measurement_cov)
    return np.divide(own, total, out=np.ones_like(own), where=total > 0.0)


def update_errors(errors: ErrorModel, e: Array, before: Array, weight: float) -> ErrorModel:
    """Update the error model by one error; the autocorrelation stays.

    Parameters
    ----------
    errors : ErrorModel
        The model before.
    e : array of shape (d,)
        The new error.
    before : array of shape (d,)
        The error before it.
    weight : float
        Weight of the new error in the covariances.

    Examples
    --------
    >>> import numpy as np
    >>> errors = ErrorModel(np.eye(1), np.array([0.5]), np.array([[0.75]]))
    >>> update_errors(errors, np.array([3.0]), np.array([2.0]), 0.1).cov      # 0.9 · 1 + 0.1 · 3²
    array([[1.8]])
    """
    fresh = e - errors.persistence * before
    cov, innovation = (
        (1.0 - weight) * old + weight * np.outer(new, new) for old, new in ((errors.cov, e), (errors.innovation, fresh))
    )
    return errors._replace(cov=cov, innovation=innovation)
