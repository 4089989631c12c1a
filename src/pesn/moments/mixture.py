"""tanh as a mixture of error functions: closed means, variances and covariances by Plackett's integral.

The logistic distribution function is within 2.1e-9 of Σ p_i Φ(s_i x) with eight terms (Monahan and Stefanski 1992, in
Handbook of the Logistic Distribution; coefficients refitted to 25 digits in ``tables/logistic_mixture.json``). With
t_i = 1/(4 s_i²)

    tanh(z) ≈ Σ p_i erf(z/√(2 t_i)),    E tanh(z) ≈ Σ p_i erf(m/√(2(v + t_i)))

and Cov(f(z₁), f(z₂)) is a double sum over bivariate normal probabilities less the products of their margins. Plackett
(1954) writes such a difference as an integral over the correlation, whose integrand is positive: nothing cancels, and a
variance cannot be negative:

    (2/π) Σ p_i p_j ∫₀^{asin r} exp(−(a² + b² − 2ab sin θ)/(2 cos² θ)) dθ,    r = k/√((v₁ + t_i)(v₂ + t_j))

The derivatives of E tanh(z) by m, and with them the coefficients of Mehler's series, have closed forms at any order:

    c_n = E[tanh(z) He_n(x)]/√(n!) ≈ 2 Σ p_i rⁿ (−1)^{n−1} He_{n−1}(a) φ(a)/√(n!),    a = m/√(v + t_i),  r = √(v/(v + t_i))
"""

from __future__ import annotations

import json
import math
from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.jit import HELPER, jit
from pesn._support.types import Array
from pesn.activations import Activation, Reduction, as_scaled_tanh
from pesn.moments import hermite

ERROR = 4.2e-9  # of tanh with eight components

LEAST = 1e-290  # a variance below which digits are lost, deep in saturation
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


@cache
def _components(count: int) -> tuple[Array, Array]:
    text = resources.files("pesn.moments").joinpath("tables", "logistic_mixture.json").read_text(encoding="utf-8")
    entry = json.loads(text)[f"cdf_K{count}"]
    return np.array([float(p) for p in entry["p"]]), np.array([0.25 / float(s) ** 2 for s in entry["s"]])


def components(n_components: int = 8) -> tuple[Array, Array]:
    """Return weights p and variances t of the mixture: tanh(z) ≈ Σ p_i erf(z/√(2 t_i)).

    >>> p, t = components(8)
    >>> abs(np.sum(p * special.erf(1.0 / np.sqrt(2.0 * t))) - np.tanh(1.0)) < 5e-9
    np.True_
    """
    if isinstance(n_components, bool) or not isinstance(n_components, (int, np.integer)) or not 1 <= n_components <= 8:
        raise ValueError(f"n_components must be an integer from 1 to 8, got {n_components!r}")
    weights, widths = _components(int(n_components))
    return weights.copy(), widths.copy()  # the cached arrays must not change


def moments(activation: Activation, mean: Array, var: Array, order: int, *, n_components: int = 8) -> tuple[Array, ...]:
    """Compute mean and variance of the mixture: eight components are within 1e-8 of tanh for every mean and variance.

    >>> from pesn import activations
    >>> moments(activations.get("tanh"), np.array([3.0]), np.array([0.2]), 2)[1].round(7)
    array([6.37e-05])
    """
    weights, widths = components(n_components)
    _, inner, outer, offset = _check_scaled_tanh("mixture", activation, order)
    m, v = inner * mean, inner * inner * var
    first = np.zeros_like(m)
    for p, t in zip(weights, widths, strict=True):
        first += p * special.erf(math.sqrt(0.5) * m / np.sqrt(v + t))
    if order == 1:
        return (offset + outer * first,)
    second = _variances(m, v, weights, widths, _NODES, _WEIGHTS)
    return offset + outer * first, outer * outer * second


def covariance(mean: Array, var: Array, correlation: Array, weights: Array, widths: Array) -> Array:
    """Compute Cov(g(z_u), g(z_w)) of g(z) = Σ p_i erf(z/√(2 t_i)), z with ``mean`` (D,), ``var`` (D,), ``correlation`` (D, D).

    With ``components()`` g is tanh to 4e-9; with p = 1, t = 1/2 it is exactly erf. Only the upper triangle is read.

    >>> R = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> covariance(np.zeros(2), np.ones(2), R, np.ones(1), np.full(1, 0.5))[0, 1] - 2/np.pi*np.arcsin(1/3) < 1e-15
    np.True_
    """
    matrix: Array = _covariances(mean, var, correlation, weights, widths, _NODES, _WEIGHTS)
    return matrix


@cache
def bumps() -> hermite.Bumps:
    """Return the normal densities whose sum is tanh′."""
    return hermite.tanh_bumps(*_components(8))


def _check_scaled_tanh(method: str, activation: Activation, order: int) -> Reduction:
    """Return the scaling of tanh; raise a ValueError that names suitable methods for other activations and orders."""
    reduction = as_scaled_tanh(activation)
    others = "use 'surface', 'exact', 'spline' or 'monte-carlo'"
    if reduction is None:
        raise ValueError(f"method {method!r} serves tanh and sigmoid, got {activation.name!r}; {others}")
    if order > 2:
        raise ValueError(f"method {method!r} gives orders 1 and 2, got order {order}; {others}")
    return reduction


# ---------------------------------------------------------------- the paper's formulas


def formulas(mean: npt.ArrayLike, var: npt.ArrayLike) -> tuple[Array, Array]:
    """Compute the paper's mean and variance of tanh(z), z ~ N(mean, var), as printed: this variance can be negative.

    >>> mean, var = formulas(0.8, 0.01)
    >>> print(f"{mean:.4f} {var:.4f}")         # exactly: 0.6603 and 0.0032
    0.6613 -0.0423
    """
    mean, var = np.asarray(mean, dtype=float), np.asarray(var, dtype=float)
    # The logistic density as a Gaussian of variance π²/3 inside the mean, sech² as a Gaussian of variance 2/π.
    first = np.tanh(mean / (2.0 * np.sqrt(var * (3.0 / math.pi**2) + 0.25)))
    width = np.sqrt(2.0 / math.pi + var)
    with np.errstate(over="ignore", under="ignore"):  # |m| = 1e300: the exponential is 0
        sech2 = math.sqrt(2.0 / math.pi) / width * np.exp(-0.5 * np.square(mean / width))
    return first, 1.0 - sech2 - first * first


def analytic_moments(activation: Activation, mean: Array, var: Array, order: int) -> tuple[Array, ...]:
    """Compute mean and variance by the paper's formulas, the variance clipped at 0; one-dimensional float64 arrays.

    >>> from pesn import activations
    >>> analytic_moments(activations.get("tanh"), np.array([0.8]), np.array([0.01]), 2)[1]
    array([0.])
    """
    _, inner, outer, offset = _check_scaled_tanh("analytic", activation, order)
    first, second = formulas(inner * mean, inner * inner * var)
    return (offset + outer * first, np.maximum(outer * outer * second, 0.0))[:order]


# ---------------------------------------------------------------- kernels


@jit(**HELPER)
def _plackett(a: float, b: float, r: float, c: float, nodes: Array, weights: Array) -> float:
    """Compute ∫₀^{asin r} exp(−(a² + b² − 2ab sin θ)/(2 cos² θ)) dθ for r = sin, c = cos of the upper limit."""
    if r == 0.0 or max(abs(a), abs(b)) > 39.0:  # the exponent is at least max(a, b)²/2, here beyond the range of double precision
        return 0.0
    sign = 1.0
    if r < 0.0:
        sign, r, b = -1.0, -r, -b
    # τ = tan(θ/2) makes everything rational: cos θ = (1−τ²)/(1+τ²), 1 + sin θ = (1+τ)²/(1+τ²). With δ = a − b the exponent
    # is δ²/(2cos²θ) + ab/(1 + sin θ): no difference of large numbers. Only the first term is singular, at τ = 1.
    top = r / (1.0 + c)
    gap = (c + c * c / (1.0 + r)) / (1.0 + c)  # 1 − top, without cancellation
    delta, product = a - b, a * b
    total, far = 0.0, 1.0
    while True:
        near = gap
        # Panels shrink toward the singularity by factors of 4, until the rest is negligible.
        if gap < 0.25 * far and far * (delta / gap) ** 2 > 1e-12:
            near = 0.25 * far
        half = 0.5 * top if far == 1.0 and near == gap else 0.5 * (far - near)
        for k in range(nodes.shape[0]):
            tau = (1.0 - far) + half * (1.0 + nodes[k])
            square = 1.0 + tau * tau
            cosine = (far - half * (1.0 + nodes[k])) * (1.0 + tau) / square
            exponent = 0.5 * (delta / cosine) ** 2 + product * square / (1.0 + tau) ** 2
            total += weights[k] * half * 2.0 / square * math.exp(-exponent)
        if near == gap or delta * delta > 80.0 * near * near:  # done, or e^−40 and falling
            break
        far = near
    return sign * total


@jit(**HELPER)
def _pair(
    m1: float, v1: float, m2: float, v2: float, rho: float, same: bool, p: Array, t: Array, nodes: Array, weights: Array
) -> float:
    """Compute one covariance; ``same`` marks a variance, whose double sum is symmetric."""
    total = 0.0
    for i in range(p.shape[0]):
        w1 = v1 + t[i]
        a, share1 = m1 / math.sqrt(w1), v1 / w1
        for j in range(i if same else 0, p.shape[0]):
            w2 = v2 + t[j]
            b, share2 = m2 / math.sqrt(w2), v2 / w2
            r = rho * math.sqrt(share1) * math.sqrt(share2)
            # 1 − r², from the fractions of the added variances: exact down to v = 1e300
            c = math.sqrt((1.0 - rho) * (1.0 + rho) * share1 * share2 + t[i] / w1 + share1 * (t[j] / w2))
            twice = 2.0 if same and j > i else 1.0
            total += twice * p[i] * p[j] * _plackett(a, b, r, c, nodes, weights)
    return total * 2.0 / math.pi


@jit()
def _variances(mean: Array, var: Array, p: Array, t: Array, nodes: Array, weights: Array) -> Array:
    result = np.empty(mean.shape[0])
    for k in range(mean.shape[0]):
        result[k] = _pair(mean[k], var[k], mean[k], var[k], 1.0, True, p, t, nodes, weights)
    return result


@jit()
def _covariances(mean: Array, var: Array, correlation: Array, p: Array, t: Array, nodes: Array, weights: Array) -> Array:
    size = mean.shape[0]
    result = np.empty((size, size))
    for u in range(size):
        result[u, u] = _pair(mean[u], var[u], mean[u], var[u], 1.0, True, p, t, nodes, weights)
        for w in range(u + 1, size):
            value = _pair(mean[u], var[u], mean[w], var[w], correlation[u, w], False, p, t, nodes, weights)
            result[u, w] = value
            result[w, u] = value
    return result
