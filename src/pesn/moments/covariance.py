"""Covariances between units: z ~ N(mean, cov) in, the covariance matrix of f(z) out.

Mehler's series: with x_i = (z_i − m_i)/s_i, ρ_ij their correlations and c_n = E[f(z) He_n(x)]/√(n!)::

    Cov(f(z_i), f(z_j)) = Σ_{n≥1} ρ_ijⁿ c_n(i) c_n(j),      Var f(z_i) = Σ_{n≥1} c_n(i)²

The coefficients are projections, by quadrature or in closed form; E[f⁽ⁿ⁾] sⁿ, their other name, overflows. A truncated
series is positive semi-definite (elementwise powers of a correlation matrix are), and so is it with what it lacks of the
exact variance, var − Σ_{n≤N} c_n² ≥ 0, added on the diagonal.

The order N: what is cut off a pair is at most ``|ρ|^{N+1} √(rem_i rem_j)``, rem = var − Σ_{n≤N} c_n² (Cauchy-Schwarz).
The smallest N is taken for which ρ_max^{N+1} max(rem/var) ≤ 1e-6: every output *correlation* is then within 1e-6.
Where no N up to 80 will do (steep activation, units nearly collinear), tanh, sigmoid and erf go to the mixture with
Plackett's integral, for the **whole** matrix: a matrix put together from both need not be semi-definite. Others keep N = 80.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pesn.activations import Activation, get
from pesn.arguments import FloatArray, as_real, result_dtype
from pesn.moments import closed, exact, mehler, mixture

__all__ = ["MAX_ORDER", "TOLERANCE", "choose", "covariance", "cross"]

Array = npt.NDArray[np.float64]

TOLERANCE = 1e-6
MAX_ORDER = 80
_STAGES = (10, 24, MAX_ORDER)  # coefficients are computed up to these orders, the later ones only where they are needed


def covariance(
    activation: str | Activation,
    mean: npt.ArrayLike,
    cov: npt.ArrayLike,
    *,
    order: int | None = None,
    method: str = "auto",
    var: npt.ArrayLike | None = None,
) -> FloatArray:
    """Covariance matrix of f(z), z ~ N(mean, cov), f elementwise.

    Parameters
    ----------
    mean, cov
        (D,) and (D, D), or a batch: (n, D) and (n, D, D).
    order
        Terms of Mehler's series, 1 to 80; ``None``: as many as the bound above asks for.
    method
        ``"mehler"``, ``"plackett"`` (tanh, sigmoid, erf) or ``"auto"``.
    var
        Output variances Var f(z_i), shaped as ``mean``, where they are at hand; ``None`` computes them.

    Returns
    -------
    array
        Shaped as ``cov``; symmetric, positive semi-definite, its diagonal the exact variances.

    >>> covariance("tanh", [0.0, 0.5], [[1.0, 0.9], [0.9, 1.0]]).round(6)
    array([[0.394294, 0.320621],
           [0.320621, 0.350715]])
    """
    record = get(activation)
    _check_options(record, order, method)
    mean, cov = _check_arrays(mean, cov)
    dtype = result_dtype(mean, cov)
    given = None if var is None else as_real("var", var)
    if given is not None and (given.shape != mean.shape or np.any(given < 0.0)):
        expected = f"var must be non-negative, of mean's shape {mean.shape}"
        raise ValueError(f"{expected}, got " + (f"shape {given.shape}" if given.shape != mean.shape else str(given.min())))
    size = mean.shape[-1]
    count = math.prod(mean.shape[:-1])
    means, matrices = mean.reshape(count, size), cov.reshape(count, size, size)
    variances = [None] * count if given is None else list(given.reshape(count, size).astype(np.float64))
    result = np.empty((count, size, size))
    for k in range(count):
        result[k] = _Problem(record, means[k], matrices[k]).solve(order, method, variances[k])
    return result.reshape(cov.shape).astype(dtype, copy=False)


def choose(activation: str | Activation, mean: npt.ArrayLike, cov: npt.ArrayLike) -> tuple[str, int | None]:
    """What ``method="auto"`` does with one matrix: ("mehler", its order) or ("plackett", None).

    >>> choose("tanh", [0.0, 0.0], [[100.0, 99.0], [99.0, 100.0]])
    ('plackett', None)
    """
    record = get(activation)
    mean, cov = _check_arrays(mean, cov)
    if mean.ndim != 1:
        raise ValueError(f"mean must be one-dimensional here: the choice is made matrix by matrix; got shape {mean.shape}")
    order, _, _ = _Problem(record, mean, cov).series(None, None)
    return ("mehler", order) if order is not None else ("plackett", None)


def cross(
    activation: str | Activation,
    mean: npt.ArrayLike,
    var: npt.ArrayLike,
    cov_xz: npt.ArrayLike,
    *,
    gain: npt.ArrayLike | None = None,
) -> FloatArray:
    """Cov(x, f(z)) = Cov(x, z) · E[f′(z)], exact for any x jointly Gaussian with z (Stein).

    ``mean`` and ``var`` (D,) are z's; ``cov_xz`` is (…, D). ``gain`` is E[f′(z)] (D,) where it is at hand.

    >>> cross("relu", [0.0, 5.0], [1.0, 1.0], [[0.3, 0.2]]).round(6)
    array([[0.15, 0.2 ]])
    """
    record = get(activation)
    mean, var, cov_xz = as_real("mean", mean), as_real("var", var), as_real("cov_xz", cov_xz)
    if mean.ndim != 1 or var.shape != mean.shape or cov_xz.shape[-1:] != mean.shape:
        raise ValueError(
            f"mean, var and cov_xz must be (D,), (D,) and (..., D), got {mean.shape}, {var.shape} and {cov_xz.shape}"
        )
    if np.any(var < 0.0):
        raise ValueError(f"var must not be negative, got {var.min()}")
    if gain is None:
        source = closed if closed.serves(record) else exact
        factor: FloatArray = source.gain(record, mean.astype(np.float64), var.astype(np.float64))
    else:
        factor = as_real("gain", gain)
        if factor.shape != mean.shape:
            raise ValueError(f"gain must have mean's shape {mean.shape}, got {factor.shape}")
    dtype = np.result_type(mean.dtype, var.dtype, cov_xz.dtype)
    return np.asarray(cov_xz * factor, dtype=dtype)


# ---------------------------------------------------------------- one matrix


class _Problem:
    """One activation and one Gaussian, standardised."""

    def __init__(self, record: Activation, mean: FloatArray, cov: FloatArray) -> None:
        self.record = record
        self.mean = np.ascontiguousarray(mean, dtype=np.float64)
        matrix = np.ascontiguousarray(cov, dtype=np.float64)
        self.var = np.ascontiguousarray(np.diagonal(matrix))
        self.std = np.sqrt(self.var)
        slack = max(1e-8, 32.0 * float(np.finfo(cov.dtype).eps))
        self.correlation = np.empty_like(matrix)
        self.largest, row, column, fault = mehler.correlate(matrix, self.std, slack, self.correlation)
        if fault:
            pair = f"cov[{row}, {column}] = {matrix[row, column]:.6g}"
            if fault == 1:
                raise ValueError(f"cov must be symmetric, got {pair} and cov[{column}, {row}] = {matrix[column, row]:.6g}")
            bound = self.std[row] * self.std[column]
            raise ValueError(f"cov must be positive semi-definite, got {pair}, beyond the product of the deviations, {bound:.6g}")

    def solve(self, order: int | None, method: str, given: Array | None) -> Array:
        out: Array
        if method == "plackett":
            out = self.plackett(_variance(self.record, self.mean, self.var) if given is None else given)
            return out
        chosen, coefficients, out_var = self.series(order, given)
        if chosen is None and method == "auto":
            return self.plackett(out_var)
        out = np.empty_like(self.correlation)
        mehler.series(
            self.correlation, np.ascontiguousarray(coefficients[:, : chosen or MAX_ORDER].T), np.sqrt(out_var), out_var, out
        )
        return out

    def plackett(self, out_var: Array) -> Array:
        weights, widths, inner = _components(self.record) or (np.ones(1), np.ones(1), 1.0)
        matrix = mixture.covariance(inner * self.mean, inner * inner * self.var, self.correlation, weights, widths)
        # Only the correlations of the mixture are used. A congruence with a diagonal matrix keeps the result semi-definite
        # and makes its diagonal exact, also in saturation, where the mixture's own variance is far too small.
        own = np.diagonal(matrix)
        scale = np.sqrt(np.divide(out_var, own, out=np.zeros_like(out_var), where=own > 1e-290))  # below, digits are lost
        upper = np.triu(scale[:, None] * matrix * scale, 1)
        return upper + upper.T + np.diag(out_var)

    def series(self, order: int | None, given: Array | None) -> tuple[int | None, Array, Array]:
        """The order, the coefficients c_n/√var (D, at least N) and the output variances (D,); order None: none suffices."""
        live = self.std > 0.0
        m, s = self.mean[live], self.std[live]
        out_var = np.zeros_like(self.std) if given is None else given.copy()
        if given is None and m.size and not (mehler.is_tanh(self.record) and mehler.grid_of(self.record, m, s)):
            out_var[live] = _variance(self.record, m, self.var[live])
        for count in _STAGES:
            if order is not None and order > count:
                continue
            c = np.zeros((len(self.std), count))
            if m.size:
                c[live], grid_var = mehler.project(self.record, m, s, count)
                if given is None and grid_var is not None:
                    out_var[live] = grid_var * self.var[live]
            unit = np.divide(self.std, np.sqrt(out_var), out=np.zeros_like(self.std), where=out_var > 0.0)
            c *= unit[:, None]
            total = np.cumsum(c * c, axis=1)
            # Rounding, or a given variance off in its last digits, must not leave a negative remainder on the diagonal.
            over = total[:, -1] > 1.0
            if over.any():
                c[over] /= np.sqrt(total[over, -1:])
                total[over] /= total[over, -1:]
            if order is not None:
                return order, c, out_var
            remainder = np.max(1.0 - total[unit > 0.0], axis=0, initial=0.0)
            enough = np.flatnonzero(self.largest ** np.arange(2.0, count + 2.0) * remainder <= TOLERANCE)
            if enough.size:
                return int(enough[0]) + 1, c, out_var
        return (None if _components(self.record) else MAX_ORDER), c, out_var


def _components(record: Activation) -> tuple[Array, Array, float] | None:
    """f as Σ p_i erf(inner · z/√(2 t_i)), up to an affine map: tanh, sigmoid, erf."""
    if record is get("erf"):
        return np.ones(1), np.full(1, 0.5), 1.0
    tanh, reduction = get("tanh"), record.reduction
    if record is tanh:
        return *mixture.components(8), 1.0
    return (*mixture.components(8), reduction.input_scale) if reduction is not None and reduction.base is tanh else None


def _variance(record: Activation, mean: Array, var: Array) -> Array:
    result: Array = (closed if closed.serves(record) else exact).moments(record, mean, var, 2)[1]
    return result


# ---------------------------------------------------------------- checks


def _check_options(record: Activation, order: int | None, method: str) -> None:
    if method not in ("auto", "mehler", "plackett"):
        raise ValueError(f"method must be 'auto', 'mehler' or 'plackett', got {method!r}")
    if order is not None and (isinstance(order, bool) or not isinstance(order, (int, np.integer)) or not 1 <= order <= MAX_ORDER):
        raise ValueError(f"order must be None or an integer from 1 to {MAX_ORDER}, got {order!r}")
    if method == "plackett" and _components(record) is None:
        raise ValueError(f"method 'plackett' serves tanh, sigmoid and erf, got {record.name!r}; use 'mehler' or 'auto'")
    if method == "plackett" and order is not None:
        raise ValueError(f"order belongs to 'mehler', got order={order} with method 'plackett'; leave it out")


def _check_arrays(mean: npt.ArrayLike, cov: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    mean, cov = as_real("mean", mean), as_real("cov", cov)
    if mean.ndim not in (1, 2) or cov.shape != (*mean.shape, *mean.shape[-1:]):
        raise ValueError(f"mean and cov must be (D,) and (D, D), or (n, D) and (n, D, D), got {mean.shape} and {cov.shape}")
    diagonal = np.diagonal(cov, axis1=-2, axis2=-1)
    if np.any(diagonal < 0.0):
        raise ValueError(f"cov must not have a negative diagonal, got {diagonal.min()}")
    return mean, cov
