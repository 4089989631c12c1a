"""A linear readout of classes, and the class probabilities of logits that are uncertain.

Ridge regression on indicators of the classes, whose penalty and whose scale as logits are those that fit what each tenth of the
samples is given by a regression on the others. Beside multinomial logistic regression with a penalty found by cross-validation
it was the better one on reservoir states, by accuracy and by log loss
(``python benchmarks/run.py classification readouts``).

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> labels = np.arange(300) % 3
>>> features = np.eye(3)[labels] + 0.5 * rng.standard_normal((300, 3))
>>> readout = fit_logits(features, labels, 3)
>>> float((readout.logits(features).argmax(axis=1) == labels).mean().round(1))
0.9
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from pesn._support.records import check_arrays
from pesn._support.types import Array
from pesn.gaussian import Gaussian
from pesn.linalg import symmetric
from pesn.moments import moments
from pesn.networks.points import spread_points, standard_points

_FOLDS = 10
_RIDGES = np.logspace(-6.0, 2.0, 17)  # of standardised features
_LARGEST = 1e4  # of the scale of logits: indicators differ by about 1
_MOST = 20_000  # samples by which logits are calibrated
_POINTS = 1024  # of Sobol's, for the mean of a softmax
_CHUNK = 4096  # rows of logits at a time


class LogitReadout(NamedTuple):
    """Logits = weights (K, 1 + p) · [1, features]; ``ridge``: the penalty that they were fitted with."""

    weights: Array
    ridge: float

    def logits(self, features: Array) -> Array:
        """(n, K) of features (n, p)."""
        return np.asarray(self.weights[:, 0] + features @ self.weights[:, 1:].T)

    def check(self, name: str, n_features: int, n_classes: int) -> None:
        """A ValueError unless it is whole, and of these sizes.

        Parameters
        ----------
        name
            What an error calls it.
        n_features, n_classes
            p and K.
        """
        check_arrays(name, {"weights": (self.weights, (n_classes, 1 + n_features))})
        if type(self.ridge) is not float or not 0.0 <= self.ridge < np.inf:
            raise ValueError(f"{name}.ridge is {self.ridge!r}")


def fit_logits(features: Array, labels: npt.NDArray[np.intp], n_classes: int, ridge: float | None = None) -> LogitReadout:
    """The readout of classes 0 to K − 1 from features (n, p), which are standardised on the way.

    Parameters
    ----------
    features
        (n, p).
    labels
        (n,), whole numbers below ``n_classes``, each of which is there.
    n_classes
        K, 2 or more.
    ridge
        The penalty on the squared weights of standardised features, times n. None: the one with the least log loss on samples
        left out, each tenth of a class, in the order in which they come, in turn: neighbours in time stay together.

    Returns
    -------
    LogitReadout
    """
    mean, std = means_and_deviations(features)
    scale = np.where(std > 0.0, std, np.inf)
    b, targets = (features - mean) / scale, np.eye(n_classes)[labels]
    ridges = _RIDGES if ridge is None else np.array([ridge])
    left_out = _left_out(b, targets, _folds(labels, n_classes), ridges)
    some = np.linspace(0, len(b) - 1, min(len(b), _MOST)).astype(np.intp)
    left_out, smooth = left_out[:, some], _smoothed(targets)[some]
    gains = [_best_gain(scores, smooth) for scores in left_out]
    best = int(np.argmin([entropy for entropy, _ in gains]))
    gain, offsets = _calibrated(left_out[best], smooth, gains[best][1])
    values, vectors, cross = _decomposed(b.T @ b, b.T @ (targets - targets.mean(axis=0)))
    weights = gain * (vectors @ _shrunk(cross, values, ridges[best] * len(b))).T / scale
    first = gain * targets.mean(axis=0) + offsets - weights @ mean
    return LogitReadout(np.column_stack([first, weights]), float(ridges[best]))


def means_and_deviations(rows: Array) -> tuple[Array, Array]:
    """Means and deviations (p,) of columns (n, p); of what hardly varies beside its own size, but for rounding, 0.

    >>> means_and_deviations(np.full((1000, 1), 0.1))[1]
    array([0.])
    """
    mean, std = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    return mean, np.where(std > 1e-12 * np.abs(mean), std, 0.0)


def expected_softmax(mean: Array, cov: Array) -> Array:
    """E[softmax(x)] (n, K) of Gaussian logits x with mean (n, K) and covariance (n, K, K).

    Of two classes the mean of a logistic function of their difference, in closed form; of more by 1,024 of Sobol's points over
    the K logits: within 0.0005 where they deviate by 1, 0.006 where ten of them do by 6. Without variance it is softmax(mean).

    Parameters
    ----------
    mean, cov
        (n, K) and (n, K, K).

    Returns
    -------
    array
        (n, K); rows sum to 1.

    >>> mean, cov = np.array([[2.0, 0.0, 0.0]]), np.eye(3)[None]
    >>> expected_softmax(mean, 0.0 * cov).round(2).tolist(), expected_softmax(mean, 4.0 * cov).round(2).tolist()
    ([[0.79, 0.11, 0.11]], [[0.59, 0.21, 0.21]])
    """
    result = special.softmax(mean, axis=-1)
    uncertain = np.flatnonzero(cov.any(axis=(-2, -1)))
    if mean.shape[-1] == 2:
        difference = np.array([1.0, -1.0])
        var = np.maximum(np.einsum("i,nij,j->n", difference, cov[uncertain], difference), 0.0)
        first = moments("sigmoid", mean[uncertain] @ difference, var).mean
        result[uncertain] = np.stack([first, 1.0 - first], axis=-1)
        return result
    points = standard_points(mean.shape[-1], _POINTS, np.random.default_rng(0))
    for start in range(0, len(uncertain), _CHUNK):
        rows = uncertain[start : start + _CHUNK]
        spread = spread_points(Gaussian(mean[rows], cov=symmetric(cov[rows])), points)
        result[rows] = [special.softmax(some, axis=-1).mean(axis=0) for some in spread]
    return np.asarray(result)


# ---------------------------------------------------------------- what samples left out are given


def _folds(labels: npt.NDArray[np.intp], n_classes: int) -> npt.NDArray[np.intp]:
    """The fold of each sample (n,): of each class so many neighbours a fold, as evenly as they go."""
    folds = np.empty(len(labels), np.intp)
    for k in range(n_classes):
        (places,) = np.nonzero(labels == k)
        folds[places] = (np.arange(len(places)) * _FOLDS // len(places) + k) % _FOLDS  # classes of one sample: not all in one
    return folds


def _left_out(b: Array, targets: Array, folds: npt.NDArray[np.intp], ridges: Array) -> Array:
    """Scores (r, n, K) of each sample by a regression, for each of r ridges, on the samples of the other folds."""
    result = np.empty((len(ridges), *targets.shape))
    square, cross, sums, counts = b.T @ b, b.T @ targets, b.sum(axis=0), targets.sum(axis=0)
    for fold in np.unique(folds):
        out = folds == fold
        x, y = b[out], targets[out]
        n = len(b) - len(x)
        mean, share = (sums - x.sum(axis=0)) / n, (counts - y.sum(axis=0)) / n
        # the others' sums, centred: all less those left out
        others = square - x.T @ x - n * np.outer(mean, mean), cross - x.T @ y - n * np.outer(mean, share)
        values, vectors, with_targets = _decomposed(*others)
        turned = (x - mean) @ vectors
        for k, ridge in enumerate(ridges):
            result[k, out] = share + turned @ _shrunk(with_targets, values, ridge * n)
    return result


def _decomposed(square: Array, cross: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues and eigenvectors of bᵀb, and bᵀy in their coordinates."""
    values, vectors = np.linalg.eigh(symmetric(square))
    return values, vectors, vectors.T @ cross


def _shrunk(cross: Array, values: Array, penalty: float) -> Array:
    """Ridge weights in the coordinates of the eigenvectors; directions that no sample has get none."""
    floor = len(values) * np.finfo(float).eps * max(float(values[-1]), 0.0)
    inverse = np.divide(1.0, values + penalty, out=np.zeros_like(values), where=values > floor)
    return np.asarray(inverse[:, None] * cross)


def _smoothed(targets: Array) -> Array:
    """Indicators as if one more sample, of no known class, had been seen: else classes that never err would be certain."""
    n, n_classes = targets.shape
    return np.asarray((n * targets + 1.0 / n_classes) / (n + 1.0))


def _cross_entropy(scores: Array, targets: Array, gain: float, offsets: Array) -> tuple[float, Array]:
    """The mean cross-entropy of softmax(gain · scores + offsets), and its slope in [gain, offsets], (1 + K,)."""
    log_p = special.log_softmax(gain * scores + offsets, axis=1)
    off = np.exp(log_p) - targets
    slope = np.concatenate([[np.vdot(off, scores)], off.sum(axis=0)])
    return -float(np.vdot(targets, log_p)) / len(scores), slope / len(scores)


def _best_gain(scores: Array, targets: Array) -> tuple[float, float]:
    """The least cross-entropy without offsets, and its gain."""
    zero, most = np.zeros(scores.shape[1]), float(np.log(_LARGEST))
    found = optimize.minimize_scalar(
        lambda t: _cross_entropy(scores, targets, float(np.exp(t)), zero)[0], bounds=(-most, most), method="bounded"
    )
    return float(found.fun), float(np.exp(found.x))


def _calibrated(scores: Array, targets: Array, gain: float) -> tuple[float, Array]:
    """Gain and offsets (K,) of the least cross-entropy, which is convex in both, from a gain to start with."""
    n_classes = scores.shape[1]
    found = optimize.minimize(
        lambda x: _cross_entropy(scores, targets, x[0], x[1:]),
        np.concatenate([[gain], np.zeros(n_classes)]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(1.0 / _LARGEST, _LARGEST), *[(-50.0, 50.0)] * n_classes],
    )
    return float(found.x[0]), np.asarray(found.x[1:] - found.x[1:].mean())
