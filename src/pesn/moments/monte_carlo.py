"""Moments by sampling, the baseline of every figure.

Plain central moments of the sample (divided by n, not n − 1) at every order, so that variance, skewness and kurtosis belong to
one empirical distribution. Each element has its own draws, which are held in memory at once.
"""

from __future__ import annotations

import numpy as np

from pesn._support.types import Array, Rng
from pesn.activations import Activation

_BLOCK = 1 << 17  # draws of several elements in one array: 1 MB


def moments(
    activation: Activation, mean: Array, var: Array, order: int, *, n_samples: int = 10_000, rng: Rng = None
) -> tuple[Array, ...]:
    """Compute the first ``order`` of mean, variance, skewness, kurtosis of ``n_samples`` draws per element.

    ``rng`` is an argument of :func:`numpy.random.default_rng`: a seed, a Generator, or ``None`` for fresh entropy.

    >>> from pesn import activations
    >>> mean, var = moments(activations.get("tanh"), np.array([3.0, 1.0]), np.array([0.2, 0.0]), 2, n_samples=1000, rng=1)
    >>> bool(abs(mean[0] - 0.99266) < 1e-3), float(var[1])
    (True, 0.0)
    """
    if isinstance(n_samples, bool) or not isinstance(n_samples, (int, np.integer)) or n_samples < 2:
        raise ValueError(f"n_samples must be an integer of at least 2, got {n_samples!r}")
    count = int(n_samples)
    generator = np.random.default_rng(rng)
    std = np.sqrt(var)
    result = [np.array(activation.value(mean), dtype=float), np.zeros_like(std), np.zeros_like(std), np.full_like(std, 3.0)]
    rows = max(1, _BLOCK // count)
    for start in range(0, len(std), rows):
        chunk = slice(start, start + rows)
        draws = generator.standard_normal((len(std[chunk]), count))
        # Differences keep their digits where f is saturated or v small; the scale keeps their fourth powers in range.
        u = activation.difference(mean[chunk][:, None], std[chunk][:, None] * draws)
        largest = np.max(np.abs(u), axis=1)
        scale = np.where(largest > 0.0, largest, 1.0)
        u = u / scale[:, None]
        shift = np.mean(u, axis=1)
        u -= shift[:, None]
        u2 = u * u
        c2, c3, c4 = u2.mean(1), (u2 * u).mean(1), (u2 * u2).mean(1)
        alive = c2 > 0.0
        spread = np.where(alive, np.sqrt(c2), 1.0)
        result[0][chunk] += scale * shift
        result[1][chunk] = scale * c2 * scale
        result[2][chunk] = np.where(alive, c3 / spread**3, 0.0)
        result[3][chunk] = np.where(alive, c4 / spread**4, 3.0)
    return tuple(result[:order])
