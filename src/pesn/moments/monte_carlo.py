"""Moments by sampling: the baseline of every figure.

Plain central moments of the sample (divided by n, not n − 1) at every order, so that variance, skewness and kurtosis are
those of one and the same empirical distribution. Draws are taken in blocks that are merged, so memory stays bounded
whatever the number of samples; each element has draws of its own.
"""

from __future__ import annotations

import numpy as np

from pesn._support.types import Array, Rng
from pesn.activations import Activation

_BLOCK = 1 << 17  # draws held at once: 1 MB an array


def moments(
    activation: Activation, mean: Array, var: Array, order: int, *, n_samples: int = 10_000, rng: Rng = None
) -> tuple[Array, ...]:
    """The first ``order`` of mean, variance, skewness, kurtosis of ``n_samples`` draws an element.

    ``rng`` is what :func:`numpy.random.default_rng` takes (SPEC 7): a seed, a Generator, or ``None`` for fresh entropy.

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
    result = [np.array(activation.value(mean), dtype=float), np.zeros_like(std), np.zeros_like(std), np.full_like(std, 3.0)][
        :order
    ]
    rows = max(1, _BLOCK // count)
    for start in range(0, len(std), rows):
        chunk = slice(start, start + rows)
        shift, central, scale = _sample(activation, mean[chunk], std[chunk], count, generator)
        result[0][chunk] += scale * shift
        c2, c3, c4 = central / count
        alive = c2 > 0.0
        spread = np.where(alive, np.sqrt(c2), 1.0)
        if order >= 2:
            result[1][chunk] = scale * c2 * scale
        if order >= 3:
            result[2][chunk] = np.where(alive, c3 / spread**3, 0.0)
        if order >= 4:
            result[3][chunk] = np.where(alive, c4 / spread**4, 3.0)
    return tuple(result)


def _sample(activation: Activation, mean: Array, std: Array, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """The mean and the summed second to fourth central powers of (f(z) − f(m))/scale, and the scale."""
    shift, central, scale = np.zeros_like(std), np.zeros((3, len(std))), np.ones_like(std)
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        # Differences keep their digits where f is saturated or v small; the scale keeps their fourth powers in range.
        u = activation.difference(mean[:, None], std[:, None] * rng.standard_normal((len(std), size)))
        if start == 0:
            largest = np.max(np.abs(u), axis=1)
            scale = np.where(largest > 0.0, largest, 1.0)
        u = u / scale[:, None]
        block = np.mean(u, axis=1)
        u -= block[:, None]
        u2 = u * u
        shift, central = _merge(start, shift, central, size, block, np.array([u2.sum(1), (u2 * u).sum(1), (u2 * u2).sum(1)]))
    return shift, central, scale


def _merge(na: int, mean_a: Array, a: Array, nb: int, mean_b: Array, b: Array) -> tuple[Array, Array]:
    """Mean and central power sums of two samples together (Pébay 2008): no pass over raw powers, no cancellation."""
    n, d = na + nb, mean_b - mean_a
    m2 = a[0] + b[0] + d**2 * na * nb / n
    m3 = a[1] + b[1] + d**3 * na * nb * (na - nb) / n**2 + 3.0 * d * (na * b[0] - nb * a[0]) / n
    m4 = a[2] + b[2] + d**4 * na * nb * (na**2 - na * nb + nb**2) / n**3
    m4 += 6.0 * d**2 * (na**2 * b[0] + nb**2 * a[0]) / n**2 + 4.0 * d * (na * b[1] - nb * a[1]) / n
    return mean_a + d * nb / n, np.array([m2, m3, m4])
