"""Gaussian distributions, represented by a mean and a variance, a covariance or a low-rank factor.

>>> import pesn
>>> position = pesn.Gaussian(mean=[0.0, 1.0], var=[4.0, 1.0])
>>> position.affine([[1.0, 1.0]], [0.5])
Gaussian(mean=[1.5], std=[2.236], covariance='full')
>>> low, high = position.interval(0.95)
>>> low.round(3), high.round(3)
(array([-3.92, -0.96]), array([3.92, 2.96]))
"""

from __future__ import annotations

import math
from functools import cached_property
from importlib import import_module
from typing import Any, Generic, NoReturn, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.arguments import as_count, as_covariance, as_real, broadcast_moments, check_not_negative, number
from pesn._support.types import AnyArray, Array, FloatArray, Rng
from pesn.linalg import (
    blocks,
    condition_root,
    covariance_rounding,
    factor_covariance,
    half_log_determinant,
    multiply,
    outer,
    pad,
    solve,
    symmetric,
    transpose,
)

S = TypeVar("S", bound=np.generic)
Numbers = TypeVar("Numbers", bound=AnyArray)  # the array type of a class


def probabilities(q: npt.ArrayLike) -> Array:
    """Return q, a number inside (0, 1) or a list of such, as an array () or (k,)."""
    levels = np.asarray(q)
    if levels.ndim > 1 or levels.dtype.kind not in "fiu" or not ((levels > 0.0) & (levels < 1.0)).all():
        raise ValueError(f"q must be a number between 0 and 1, or a list of such, got {q!r}")
    return levels.astype(np.float64)


def normal_crps(y: FloatArray, mean: FloatArray, std: FloatArray) -> AnyArray:
    """Return the continuous ranked probability score of N(mean, std²) for each element of y; NaN where y is.

    ∫ (F(x) − 1[x ≥ y])² dx = σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π) with z = (y − mean)/σ (Gneiting and Raftery 2007), and
    ``|y − mean|`` where std is 0.
    """
    with np.errstate(all="ignore"):
        away = np.abs(y - mean)
        z = away / np.where(std > 0.0, std, 1.0)
        # |y − mean| is a factor, so that it keeps its digits for any σ; nothing else cancels: the sum is at least
        # (√2 − 1) σ/√π.
        score = away * special.erf(z / math.sqrt(2.0)) + std * (
            math.sqrt(2.0 / math.pi) * np.exp(-0.5 * z * z) - 1.0 / math.sqrt(math.pi)
        )
        return np.where(std > 0.0, score, away)


class NormalMarginals(Generic[Numbers]):
    """Quantiles, intervals, samples and scores of normal marginals; see :class:`pesn._support.types.Distribution`."""

    def _moments(self, what: str) -> tuple[Numbers, Numbers]:
        """Return mean and standard deviations; a subclass raises an error if ``what`` cannot be computed from them."""
        own: Any = self
        return own.mean, own.std

    @property
    def median(self) -> Numbers:
        """Median of each variable: the mean."""
        return self._moments("median")[0]

    def interval(self, level: float = 0.95) -> tuple[Numbers, Numbers]:
        """Return the central prediction interval of each variable.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the interval, inside (0, 1).

        Returns
        -------
        lower : array
            Lower ends, in the shape of the mean.
        upper : array
            Upper ends.
        """
        mean, std = self._moments("interval")
        number("level", level, 0.0, 1.0, "()")
        reach = std * mean.dtype.type(-special.ndtri(0.5 * (1.0 - float(level))))
        return cast("Numbers", mean - reach), cast("Numbers", mean + reach)

    def quantile(self, q: npt.ArrayLike) -> Numbers:
        """Return quantiles of each variable.

        Parameters
        ----------
        q : float or array-like of shape (k,)
            Probabilities inside (0, 1).

        Returns
        -------
        array
            In the shape of the mean; (k, …) for k probabilities.
        """
        mean, std = self._moments("quantile")
        return cast("Numbers", mean + np.multiply.outer(special.ndtri(probabilities(q)).astype(mean.dtype)[()], std))

    def sample(self, n: int, rng: Rng = None) -> Numbers:
        """Draw independent samples of each variable.

        Parameters
        ----------
        n : int
            Number of samples.
        rng : int, Generator or None, default=None
            Seed or Generator.

        Returns
        -------
        array of shape (n, ...)
            The samples.
        """
        mean, std = self._moments("sample")
        return cast("Numbers", mean + std * np.random.default_rng(rng).standard_normal((as_count("n", n), *mean.shape)))

    def crps(self, y: npt.ArrayLike) -> Numbers:
        """Return the continuous ranked probability score of each observation, in its units.

        Parameters
        ----------
        y : array-like
            Observations, in the shape of the mean; NaN gives NaN.

        Returns
        -------
        array
            The scores.
        """
        mean, std = self._moments("crps")
        return cast("Numbers", normal_crps(np.asarray(y, mean.dtype), mean, std)[()])


class Gaussian(NormalMarginals[FloatArray]):
    """Gaussian over d variables, or a batch of them, one per row; immutable.

    ``mean``, ``var``, ``std`` and ``cov`` are available for every form; no (d, d) matrix is formed before ``cov`` is read. The
    arrays are float32 if all arguments are, else float64, and read-only.

    Parameters
    ----------
    mean : array-like of shape (d,) or (n, d), or scalar
        Mean. Without other arguments all variances are 0.
    var : array-like, default=None
        Variances; broadcast against ``mean``.
    cov : array-like of shape (d, d) or (n, d, d), default=None
        Covariance, instead of ``var`` and ``factor``; may be semi-definite.
    factor : array-like of shape (d, k) or (n, d, k), default=None
        F: the covariance is F Fᵀ, or F Fᵀ + diag(var) if ``var`` is given.
    std : array-like, default=None
        Standard deviations, instead of ``var``.

    Examples
    --------
    >>> import numpy as np, pesn
    >>> x = pesn.Gaussian([0.0, 0.0], factor=[[1.0], [2.0]], var=1.0)
    >>> x.cov
    array([[2., 2.],
           [2., 5.]])
    >>> x.condition([0], [1.0])                          # x₁ given that x₀ = 1
    Gaussian(mean=[1.], std=[1.732], covariance='low-rank')
    >>> x.sample(3, rng=0).shape
    (3, 2)
    """

    _mean: FloatArray
    _diagonal: FloatArray | None
    _cov: FloatArray | None
    _factor: FloatArray | None

    def __new__(
        cls,
        mean: npt.ArrayLike,
        var: npt.ArrayLike | None = None,
        cov: npt.ArrayLike | None = None,
        factor: npt.ArrayLike | None = None,
        *,
        std: npt.ArrayLike | None = None,
    ) -> Gaussian:
        """Return a :class:`pesn.adapters.torch.TensorGaussian` for tensors and ``torch.distributions`` Gaussians."""
        if cls is Gaussian and any(map(_is_torch, (mean, var, cov, factor, std))):
            cls = import_module("pesn.adapters.torch").TensorGaussian  # imported here because torch is optional
        return object.__new__(cls)

    def __getnewargs__(self) -> tuple[FloatArray]:
        return (self._mean,)  # for copy and pickle, which call __new__ and not __init__

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore a copy or a pickle with read-only arrays."""
        self.__dict__.update({name: _read_only(value) for name, value in state.items()})

    def __init__(
        self,
        mean: npt.ArrayLike,
        var: npt.ArrayLike | None = None,
        cov: npt.ArrayLike | None = None,
        factor: npt.ArrayLike | None = None,
        *,
        std: npt.ArrayLike | None = None,
    ) -> None:
        check_parts(cov, var, factor, std)
        m = as_real("mean", mean)
        if std is not None:
            given = as_real("std", std)
            check_not_negative("std", given)
            with np.errstate(over="ignore", under="ignore"):
                var = np.square(given)
            check_squares(given, var)
        if cov is not None and m.ndim == 0:
            var, cov = (cov, None) if np.ndim(cov) == 0 else (None, cov)  # a scalar's covariance is its variance
        m, diagonal = broadcast_moments(m, np.zeros_like(m) if var is None else var)
        if cov is not None:
            c = as_covariance("cov", cov, m.shape[-1:])
            self._store(m, cov=c, dtype=np.result_type(m, c))
        elif factor is not None:
            f = as_real("factor", factor)
            check_factor(f, m)
            with np.errstate(over="ignore"):
                self._store(m, diagonal, factor=f, dtype=np.result_type(m, diagonal, f))
                if not np.isfinite(self.var).all():
                    raise ValueError(f"factor must have finite squares, got entries up to {np.abs(f).max():.3g}")
        else:
            self._store(m, diagonal, dtype=np.result_type(m, diagonal))

    def _store(
        self,
        mean: FloatArray,
        diagonal: FloatArray | None = None,
        cov: FloatArray | None = None,
        factor: FloatArray | None = None,
        dtype: npt.DTypeLike | None = None,
    ) -> Self:
        """Store read-only copies, broadcast to one batch shape; the values are not checked."""
        dtype = dtype or mean.dtype
        batch = mean.shape[:-1]
        for name, part in (("cov", cov), ("factor", factor)):
            if part is not None:
                try:
                    batch = np.broadcast_shapes(batch, part.shape[:-2])
                except ValueError as error:
                    shapes = f"{tuple(part.shape)} and {tuple(mean.shape)}"
                    raise ValueError(f"{name} must have the batch shape of mean, got shapes {shapes}") from error
        event = min(mean.ndim, 1)
        parts = {"_mean": (mean, event), "_diagonal": (diagonal, event), "_cov": (cov, 2), "_factor": (factor, 2)}
        for name, (array, n) in parts.items():
            kept = None if array is None else self._keep(array, (*batch, *array.shape[array.ndim - n :]), dtype)
            self.__dict__[name] = kept
        return self

    @staticmethod
    def _keep(array: FloatArray, shape: tuple[int, ...], dtype: npt.DTypeLike) -> FloatArray:
        """Return a read-only copy of this shape."""
        own = np.array(array, dtype=dtype)
        own.flags.writeable = False
        return np.broadcast_to(own, shape)

    @classmethod
    def _from_parts(
        cls, mean: FloatArray, diagonal: FloatArray | None = None, cov: FloatArray | None = None, factor: FloatArray | None = None
    ) -> Gaussian:
        """Return a Gaussian without the checks of the constructor, for results of this module."""
        return object.__new__(cls)._store(mean, diagonal, cov, factor)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Gaussian does not change, {name} cannot be set; make a new one")

    def __repr__(self) -> str:
        with np.printoptions(precision=3, threshold=6, edgeitems=2):
            return f"Gaussian(mean={self.mean}, std={self.std}, covariance={self._form!r})"

    @property
    def _form(self) -> str:
        return "full" if self._cov is not None else "diagonal" if self._factor is None else "low-rank"

    def _repr_html_(self) -> str | None:
        """Return a table for notebooks, a row per entry, up to 20; None for a batch."""
        if not isinstance(self._mean, np.ndarray) or self._mean.ndim != 1:
            return None
        low, high = self.interval(0.95)
        frame = import_module("pandas").DataFrame({"mean": self.mean, "std": self.std, "2.5 %": low, "97.5 %": high})
        return str(frame.to_html(max_rows=20, float_format="{:.4g}".format))

    # ---------------------------------------------------------------- what it is

    @property
    def mean(self) -> FloatArray:
        """Mean, (d,) or (n, d)."""
        return self._mean[()]

    @cached_property
    def var(self) -> FloatArray:
        """Variances, in the shape of the mean."""
        if self._cov is not None:
            return freeze(np.maximum(np.diagonal(self._cov, axis1=-2, axis2=-1), 0.0))
        assert self._diagonal is not None
        if self._factor is None:
            return self._diagonal[()]
        return freeze(self._diagonal + np.sum(np.square(self._factor), axis=-1))

    @property
    def std(self) -> FloatArray:
        """Standard deviations, in the shape of the mean."""
        return np.sqrt(self.var)

    @cached_property
    def cov(self) -> FloatArray:
        """Covariance, (d, d) or (n, d, d)."""
        if self._cov is not None or self._mean.ndim == 0:
            return self.var if self._cov is None else self._cov
        assert self._diagonal is not None
        dense = self._diagonal[..., None] * np.eye(self.dim, dtype=self._mean.dtype)
        return freeze(dense if self._factor is None else dense + outer(self._factor))

    @property
    def factor(self) -> FloatArray | None:
        """Factor F, if the covariance is represented as F Fᵀ + diag(``diagonal``); else ``None``."""
        return self._factor

    @property
    def diagonal(self) -> FloatArray | None:
        """Diagonal beside F Fᵀ: ``var`` if there is no factor, ``None`` if the full covariance is stored."""
        return self._diagonal

    @property
    def dim(self) -> int:
        """Number of variables d; 1 for a scalar."""
        return self._mean.shape[-1] if self._mean.ndim else 1

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch: () for one Gaussian, (n,) for one per row."""
        return tuple(self._mean.shape[:-1])

    # ---------------------------------------------------------------- what one asks of it

    def _moments(self, what: str) -> tuple[FloatArray, FloatArray]:
        if not isinstance(self._mean, np.ndarray):
            raise TypeError(f"{what} is of arrays, got {type(self).__name__}; its numpy() has it")
        return self.mean, self.std

    def sample(self, n: int, rng: Rng = None) -> FloatArray:
        """Draw samples.

        Parameters
        ----------
        n : int
            Number of samples, 0 or more.
        rng : int, Generator or None, default=None
            Seed or Generator.

        Returns
        -------
        array of shape (n, d) or (n, batch, d)
            The samples.
        """
        count = as_count("n", n)
        rng, dtype = np.random.default_rng(rng), self._mean.dtype
        draw: FloatArray = rng.standard_normal((count, *self._mean.shape), dtype=dtype.type)
        if self._cov is not None:
            draw = multiply(factor_covariance(self._cov), draw)
            return self._mean + draw
        assert self._diagonal is not None
        result = self._mean + np.sqrt(self._diagonal) * draw
        if self._factor is not None:
            inner = rng.standard_normal((count, *self.batch_shape, self._factor.shape[-1]), dtype=dtype.type)
            result = result + multiply(self._factor, inner)
        return result

    def logpdf(self, x: npt.ArrayLike) -> FloatArray:
        """Compute the logarithm of the density; the covariance must be positive definite.

        Parameters
        ----------
        x : array-like of shape (..., d)
            Points, broadcast against the batch.

        Returns
        -------
        array
            The logarithms.
        """
        point = as_real("x", x)
        if self._mean.ndim and point.shape[-1:] != self._mean.shape[-1:]:
            raise ValueError(f"x must have {self.dim} entries in its last axis, got shape {point.shape}")
        r = point - self._mean
        if self._mean.ndim == 0:
            r = r[..., None]
        half_log_det: FloatArray
        diagonal = self._vector()._diagonal
        if diagonal is not None and np.all(diagonal > 0.0):
            s = np.sqrt(diagonal)
            r, half_log_det = r / s, np.sum(np.log(s), axis=-1)
            square = np.sum(r * r, axis=-1)
            if self._factor is not None:
                # Woodbury with B = F/s: the square is min_z |r − Bz|² + |z|², a sum without cancellation.
                B = self._factor / s[..., None]
                small = np.eye(B.shape[-1], dtype=B.dtype) + outer(transpose(B))
                inner = solve(small, multiply(transpose(B), r))
                square = np.sum(np.square(r - multiply(B, inner)), axis=-1) + np.sum(np.square(inner), axis=-1)
                half_log_det = half_log_det + half_log_determinant(np.linalg.cholesky(small))
        else:
            try:
                root = np.linalg.cholesky(self._vector().cov)
            except np.linalg.LinAlgError as error:
                raise ValueError("logpdf needs a positive definite covariance, got a singular one; add a variance") from error
            square, half_log_det = np.sum(np.square(solve(root, r)), axis=-1), half_log_determinant(root)
        return -0.5 * square - half_log_det - 0.5 * self.dim * math.log(2.0 * math.pi)

    def to_torch(self) -> Any:  # torch is optional, and its types are slow to check
        """Convert to a ``torch.distributions`` object: Normal for a scalar, Independent(Normal), (LowRank)MultivariateNormal."""
        return import_module("pesn.adapters.torch").to_distribution(self)

    # ---------------------------------------------------------------- other Gaussians, from this one

    def affine(self, A: npt.ArrayLike, b: npt.ArrayLike | None = None) -> Gaussian:
        """Return the distribution of A x + b.

        Parameters
        ----------
        A : array-like of shape (p, d), or scalar
            Matrix; a scalar multiplies every variable.
        b : array-like of shape (p,), default=None
            Offset; None is 0.

        Returns
        -------
        Gaussian
            Over p variables, with covariance A Σ Aᵀ; low-rank if the factor has fewer than p columns.
        """
        matrix = as_real("A", A)
        offset = as_real("b", np.zeros((), matrix.dtype) if b is None else b)
        if matrix.ndim == 0:
            scales = (self._diagonal, matrix * matrix), (self._cov, matrix * matrix), (self._factor, matrix)
            return self._from_parts(
                _plus(self._mean * matrix, offset), *(None if part is None else part * by for part, by in scales)
            )
        x = self._vector()
        if matrix.ndim != 2 or matrix.shape[1] != x.dim:
            raise ValueError(f"A must have shape (p, {x.dim}) or be a number, got shape {matrix.shape}")
        mean = _plus(x._mean @ matrix.T, offset)
        if x._cov is not None:
            return self._from_parts(mean, cov=symmetric(matrix @ x._cov @ matrix.T))
        # F Fᵀ + diag(s²) = [F, diag(s)] [F, diag(s)]ᵀ; the columns of s are omitted if all of them are 0.
        assert x._diagonal is not None
        own = matrix * np.sqrt(x._diagonal)[..., None, :]
        root = own if x._diagonal.any() else own[..., :0]
        if x._factor is not None:
            root = np.concatenate([matrix @ x._factor, root], axis=-1)
        if root.shape[-1] < root.shape[-2]:
            return self._from_parts(mean, np.zeros_like(mean), factor=root)
        return self._from_parts(mean, cov=outer(root))

    def join(self, other: Gaussian, cross: npt.ArrayLike | None = None) -> Gaussian:
        """Return the joint distribution of this Gaussian and ``other``.

        Parameters
        ----------
        other : Gaussian
            Over e variables, of the same batch shape.
        cross : array-like of shape (d, e), default=None
            Cov(self, other); None: independent.

        Returns
        -------
        Gaussian
            Over d + e variables, those of this Gaussian first.
        """
        if not isinstance(other, Gaussian):
            raise TypeError(f"other must be a Gaussian, got {type(other).__name__}")
        x, y = self._vector(), other._vector()
        try:
            batch = np.broadcast_shapes(x.batch_shape, y.batch_shape)
        except ValueError as error:
            raise ValueError(f"other must have the batch shape of this one, got {y.batch_shape} and {x.batch_shape}") from error

        def stack(a: FloatArray, b: FloatArray) -> FloatArray:
            return np.concatenate([np.broadcast_to(a, (*batch, x.dim)), np.broadcast_to(b, (*batch, y.dim))], axis=-1)

        mean = stack(x._mean, y._mean)
        if cross is None and x._diagonal is not None and y._diagonal is not None:  # neither stores a full covariance
            diagonal = stack(x._diagonal, y._diagonal)
            if x._factor is None and y._factor is None:
                return self._from_parts(mean, diagonal)
            none: FloatArray = np.empty((1, 0), mean.dtype)
            first, second = (none if g._factor is None else g._factor for g in (x, y))
            return self._from_parts(mean, diagonal, factor=blocks(batch, x.dim, y.dim, first, second))
        dense = blocks(batch, x.dim, y.dim, x.cov, y.cov)
        if cross is None:
            return self._from_parts(mean, cov=dense)
        between = as_real("cross", cross)
        if between.shape[-2:] != (x.dim, y.dim):
            raise ValueError(f"cross must have shape {(x.dim, y.dim)}, got {between.shape}")
        dense = dense.astype(np.result_type(mean, between))
        dense[..., : x.dim, x.dim :], dense[..., x.dim :, : x.dim] = between, transpose(between)
        return self._from_parts(
            mean.astype(dense.dtype), cov=as_covariance("cross, with both covariances,", dense, mean.shape[-1:])
        )

    def marginal(self, indices: npt.ArrayLike | slice) -> Gaussian:
        """Return the marginal distribution of some variables.

        Parameters
        ----------
        indices : int, array-like of int or bool, or slice
            The variables, in the order of the result.

        Returns
        -------
        Gaussian
            The marginal distribution.
        """
        x = self._vector()
        i = x._positions(indices)
        diagonal = None if x._diagonal is None else x._diagonal[..., i]
        cov = None if x._cov is None else x._cov[..., i[:, None], i]
        return self._from_parts(x._mean[..., i], diagonal, cov, None if x._factor is None else x._factor[..., i, :])

    def condition(self, indices: npt.ArrayLike | slice, values: npt.ArrayLike) -> Gaussian:
        """Return the distribution of the other variables, given the values of some.

        Parameters
        ----------
        indices : int, array-like of int or bool, or slice
            The observed variables.
        values : array-like of shape (k,) or (n, k)
            Their values.

        Returns
        -------
        Gaussian
            Over the other d − k, in their order: μ₂ + Σ₂₁ Σ₁₁⁺ (values − μ₁), Σ₂₂ − Σ₂₁ Σ₁₁⁺ Σ₁₂.
        """
        x = self._vector()
        i = x._positions(indices)
        if len(set(i.tolist())) != len(i):
            raise ValueError(f"indices must not repeat, got {indices!r}")
        rest = np.setdiff1d(np.arange(x.dim), i)
        innovation = _innovation("values", values, x._mean[..., i])
        if x._cov is not None:
            root, diagonal, zero = factor_covariance(x._cov), None, 0
            seen, other = root[..., i, :], root[..., rest, :]
            rounding = covariance_rounding(root.dtype, x.dim)
        else:
            # The diagonal variance of an observed variable is noise; that of the others does not change.
            own, diagonal = x.marginal(i), x.marginal(rest)._diagonal
            seen = own._columns()
            other = np.zeros((*x.batch_shape, len(rest), 0), seen.dtype) if x._factor is None else x._factor[..., rest, :]
            zero, rounding = seen.shape[-1] - other.shape[-1], None
        gain, left = condition_root(seen, pad(other, zero), rounding)
        mean = x._mean[..., rest] + multiply(gain, innovation)
        if diagonal is None:
            return self._from_parts(mean, cov=outer(left))
        return self._from_parts(mean, np.broadcast_to(diagonal, mean.shape), factor=None if x._factor is None else left)

    def observe(self, H: npt.ArrayLike, y: npt.ArrayLike, R: npt.ArrayLike | None = None) -> Gaussian:
        """Return the posterior of x given y = H x + noise: the update of a Kalman filter.

        Parameters
        ----------
        H : array-like of shape (p, d)
            Observation matrix.
        y : array-like of shape (p,) or (n, p)
            Observation.
        R : array-like of shape (p, p) or (p,), or scalar, default=None
            Covariance or variances of the noise; None is an exact observation.

        Returns
        -------
        Gaussian
            Over all d variables.
        """
        x, matrix = self._vector(), as_real("H", H)
        if matrix.ndim != 2 or matrix.shape[1] != x.dim:
            raise ValueError(f"H must have shape (p, {x.dim}), got {matrix.shape}")
        p = matrix.shape[0]
        noise = _noise_root(np.zeros((), matrix.dtype) if R is None else R, p)
        root = x._columns() if x._cov is None else factor_covariance(x._cov)
        seen = np.concatenate([matrix @ root, np.broadcast_to(noise, (*x.batch_shape, p, p))], axis=-1)
        exact = x._cov is not None and not noise.any()  # as in condition
        gain, left = condition_root(seen, pad(root, p), covariance_rounding(root.dtype, x.dim) if exact else None)
        mean = x._mean + multiply(gain, _innovation("y", y, x._mean @ matrix.T))
        if left.shape[-1] < x.dim and x._cov is None:
            return self._from_parts(mean, np.zeros_like(mean), factor=left)
        return self._from_parts(mean, cov=outer(left))

    # ---------------------------------------------------------------- inside

    def _vector(self) -> Gaussian:
        """Return self, a scalar as a vector of length 1."""
        return self if self._mean.ndim else self._from_parts(self._mean[None], self._diagonal[None])  # type: ignore[index]

    def _columns(self) -> FloatArray:
        """Return G with G Gᵀ = F Fᵀ + diag(diagonal), with as few columns as possible."""
        assert self._diagonal is not None
        own = np.sqrt(self._diagonal)[..., None] * np.eye(self.dim, dtype=self._mean.dtype)
        if not self._diagonal.any():
            own = own[..., :0]
        return own if self._factor is None else np.concatenate([self._factor, own], axis=-1)

    def _positions(self, indices: npt.ArrayLike | slice) -> npt.NDArray[np.intp]:
        index = indices if isinstance(indices, slice) else np.asarray(indices)
        if not isinstance(index, slice) and index.size == 0:
            index = index.astype(np.intp)
        try:
            return np.atleast_1d(np.arange(self.dim)[index]).ravel()
        except IndexError as error:
            raise ValueError(f"indices must be positions or a mask of {self.dim} coordinates, got {indices!r}") from error


# ---------------------------------------------------------------- for what computes with them


def make_gaussian(mean: FloatArray, cov: FloatArray | None = None, var: FloatArray | None = None) -> Gaussian:
    """Return a Gaussian of computed moments, without the checks of the constructor."""
    return Gaussian._from_parts(mean, var, cov)


def as_vector(x: Gaussian) -> Gaussian:
    """Return a scalar as a vector of length 1, any other Gaussian unchanged."""
    return x._vector()


def select_rows(x: Gaussian, rows: int | slice | npt.NDArray[np.intp] = slice(None)) -> Gaussian:
    """Return rows of a batch of any number of axes, of arrays or tensors, or one row; a single Gaussian is a batch of one."""
    one = x._vector()
    parts = (one._mean, 1), (one._diagonal, 1), (one._cov, 2), (one._factor, 2)
    every = (None if part is None else part.reshape(-1, *part.shape[part.ndim - n :])[rows] for part, n in parts)
    return x._from_parts(*every)  # type: ignore[arg-type]  # there is a mean


# ---------------------------------------------------------------- what was given, what is handed out


def check_parts(cov: object, var: object, factor: object, std: object) -> None:
    """Raise a ValueError if a covariance is given together with other parts, or variances with standard deviations."""
    others = {"var": var, "factor": factor, "std": std}
    if var is not None and std is not None:
        raise ValueError("var and std must not both be given; drop one")
    if cov is not None and (also := " and ".join(name for name, given in others.items() if given is not None)):
        raise ValueError(
            f"cov must be given alone, got {also} too; drop one, or give var and factor for factor·factorᵀ + diag(var)"
        )


def check_squares(std: Any, var: Any) -> None:
    """Raise a ValueError where the square of a standard deviation overflows or underflows."""
    wrong = (var == math.inf) | ((std > 0.0) & (var == 0.0))
    if wrong.any():
        raise ValueError(
            f"std must have squares that are neither 0 nor infinite in {std.dtype}, got {std[wrong].flatten()[0]:.3g}"
        )


def _is_torch(value: object) -> bool:
    return any(kind.__module__.partition(".")[0] == "torch" for kind in type(value).__mro__)


def _read_only(value: object) -> object:
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value.flags.writeable = False
    return value


def freeze(array: npt.NDArray[S]) -> npt.NDArray[S]:
    """Make an array read-only; a number is an array without axes."""
    array.flags.writeable = False
    return array[()]


def _plus(value: FloatArray, offset: FloatArray) -> FloatArray:
    if offset.shape[-1:] not in ((), (1,), value.shape[-1:]):
        raise ValueError(f"b must have shape {value.shape[-1:]}, got {offset.shape}")
    return value + offset


def check_factor(factor: Any, mean: Any) -> None:
    """Raise a ValueError unless a factor has a row for each entry of the mean."""
    shape = tuple(factor.shape)
    if mean.ndim == 0:
        raise ValueError(f"factor must have a mean of at least one dimension, got shape {shape}")
    if len(shape) < 2 or shape[-2] != mean.shape[-1]:
        raise ValueError(f"factor must have shape ({mean.shape[-1]}, k), a row for each entry of mean, got shape {shape}")


def _noise_root(R: npt.ArrayLike, p: int) -> FloatArray:
    """Return a root (p, p) of a covariance (p, p) or of variances."""
    if np.ndim(R) == 2:
        return factor_covariance(as_covariance("R", R, (p,)))
    variances = as_real("R", R)
    check_not_negative("R", variances)
    if variances.shape not in ((), (1,), (p,)):
        raise ValueError(f"R must have shape ({p}, {p}), ({p},) or be a number, got shape {variances.shape}")
    return np.sqrt(variances) * np.eye(p, dtype=variances.dtype)


def _innovation(name: str, values: npt.ArrayLike, expected: FloatArray) -> FloatArray:
    given = as_real(name, values)
    if given.shape[-1:] != expected.shape[-1:] and not (given.ndim == 0 and expected.shape[-1] == 1):
        raise ValueError(f"{name} must have {expected.shape[-1]} entries in the last axis, got shape {given.shape}")
    return given - expected
