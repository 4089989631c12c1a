"""Gaussians of tensors, differentiable by autograd, from and to ``torch.distributions``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, distributions
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from pesn._support.arguments import as_covariance, as_real, check_not_negative
from pesn.gaussian import Gaussian, check_factor, check_parts, check_squares

TensorLike: TypeAlias = Tensor | npt.ArrayLike

# Of a correlation. Wider than for arrays: float32 covariances come out of training steps, and torch.autograd.gradcheck
# moves one entry at a time, by 1e-6, without its mirror image.
_TOLERANCE = 1e-4


def distribution_parts(given: distributions.Distribution) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Return mean, variance, covariance and factor of a Gaussian of ``torch.distributions``."""
    inner = given
    while isinstance(inner, distributions.Independent):
        inner = inner.base_dist
    if type(inner) is distributions.Normal:
        if given.event_shape.numel() != (given.event_shape or (1,))[-1]:
            raise ValueError(f"a Gaussian has one axis of coordinates, got event_shape {tuple(given.event_shape)}")
        return inner.loc, inner.scale.square(), None, None
    if type(inner) is distributions.MultivariateNormal:
        return inner.loc, None, inner.covariance_matrix, None
    if type(inner) is distributions.LowRankMultivariateNormal:
        return inner.loc, inner.cov_diag, None, inner.cov_factor
    known = "Normal, Independent(Normal), MultivariateNormal and LowRankMultivariateNormal"
    raise TypeError(f"mean must be numbers or a Gaussian of torch.distributions ({known}), got {type(inner).__name__}")


def root(x: Tensor) -> Tensor:
    """Return √x of x ≥ 0, with a derivative of 0 at 0."""
    positive = x > 0.0
    return torch.where(positive, torch.where(positive, x, torch.ones_like(x)).sqrt(), torch.zeros_like(x))


def find_nonfinite(x: Tensor) -> float | None:
    """Return the first entry that is infinite or NaN; None where there is none."""
    if x.is_meta or math.isfinite(x.detach().sum()):  # a finite sum implies finite entries
        return None
    wrong = x.detach()[~torch.isfinite(x)]
    return wrong[0].item() if len(wrong) else None


def check_no_vmap(name: str, value: object) -> None:
    """Raise a TypeError inside torch.func.vmap: how many terms a series needs depends on the numbers."""
    inside = getattr(torch._C._functorch, "is_batchedtensor", None)
    if inside is not None and isinstance(value, Tensor) and inside(value):
        raise TypeError(f"{name} must not come from torch.func.vmap; give all of the batch at once, as rows (n, d)")


def as_tensors(**given: TensorLike | None) -> list[Any]:
    """Return all as finite real tensors of one floating dtype, on the device of the first tensor; None stays."""
    anchor = next(value for value in given.values() if isinstance(value, Tensor))
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    for name, tensor in tensors.items():
        check_tensor(name, tensor, anchor.device)
    own = [tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()]
    dtype = reduce(torch.promote_types, own) if own else torch.get_default_dtype()
    result: list[Any] = []
    for name, value in given.items():
        if value is not None:
            array = value if isinstance(value, Tensor) else torch.as_tensor(as_real(name, value), device=anchor.device)
            value = array.to(dtype)
            if find_nonfinite(value) is not None:
                as_real(name, as_array(value))  # names the entry
        result.append(value)
    return result


def check_tensor(name: str, value: Tensor, device: torch.device) -> None:
    """Raise an error unless a tensor is real and dense, and lies on the device of the others."""
    check_no_vmap(name, value)
    if value.device != device:
        raise ValueError(f"{name} must lie on {device}, as the rest does, got {value.device}; move it with .to(...)")
    if value.is_complex():
        raise TypeError(f"{name} must be real numbers, got dtype {value.dtype}")
    if value.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got layout {value.layout}; use .to_dense()")


def unwrap_tensor(x: Tensor) -> Tensor:
    """Return the tensor within those of torch.func.grad, vjp and jacrev."""
    functorch: Any = torch._C._functorch
    while functorch.is_gradtrackingtensor(x):
        x = functorch.get_unwrapped(x)
    return x


def as_array(x: Tensor, dtype: torch.dtype | None = None) -> Any:
    """Return a tensor as an array: detached, also within torch.func.grad, on the CPU, float32 or float64 without ``dtype``."""
    with temporarily_clear_interpreter_stack():  # which would wrap each result
        x = unwrap_tensor(x)
        return x.detach().cpu().to(dtype or (x.dtype if x.dtype.itemsize >= 4 else torch.float32)).numpy()


def _broadcast_variance(mean: Tensor, var: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return mean and variances of one shape; None is no variance, and a negative one is refused."""
    if var is None:
        return mean, torch.zeros_like(mean)
    check_not_negative("var", var)
    try:
        shape = np.broadcast_shapes(mean.shape, var.shape)
    except ValueError as error:
        shapes = f"{tuple(var.shape)} and {tuple(mean.shape)}"
        raise ValueError(f"var must broadcast against mean, got shapes {shapes}") from error
    return TensorGaussian._keep(mean, shape, None), TensorGaussian._keep(var, shape, None)


class TensorGaussian(Gaussian):
    """A :class:`pesn.Gaussian` of tensors: differentiable, on their device, in their dtype.

    The tensors are kept, not copied.

    Parameters
    ----------
    mean : Tensor, array-like or torch.distributions.Distribution
        As for :class:`pesn.Gaussian`; or a Normal, Independent(Normal), MultivariateNormal or LowRankMultivariateNormal alone.
    var : Tensor or array-like, default=None
        As for :class:`pesn.Gaussian`. Arrays take the dtype and device of the tensors.
    cov : Tensor or array-like, default=None
        As for :class:`pesn.Gaussian`.
    factor : Tensor or array-like, default=None
        As for :class:`pesn.Gaussian`.
    std : Tensor or array-like, default=None
        As for :class:`pesn.Gaussian`.

    Examples
    --------
    >>> import pesn
    >>> x = pesn.Gaussian(torch.tensor([0.0, 1.0]), cov=torch.eye(2))
    >>> x
    TensorGaussian(mean=[0. 1.], std=[1. 1.], covariance='full', dtype=torch.float32)
    >>> x.to_torch()
    MultivariateNormal(loc: torch.Size([2]), covariance_matrix: torch.Size([2, 2]))
    >>> x.numpy()
    Gaussian(mean=[0. 1.], std=[1. 1.], covariance='full')
    """

    _mean: Any  # tensors, where an ordinary Gaussian has arrays
    _diagonal: Any
    _cov: Any
    _factor: Any

    def __init__(
        self,
        mean: TensorLike | distributions.Distribution,
        var: TensorLike | None = None,
        cov: TensorLike | None = None,
        factor: TensorLike | None = None,
        *,
        std: TensorLike | None = None,
    ) -> None:
        if isinstance(mean, distributions.Distribution):
            parts = {"var": var, "cov": cov, "factor": factor, "std": std}
            if given := " and ".join(name for name, value in parts.items() if value is not None):
                raise ValueError(f"{given} must not be given beside a distribution, which has its own")
            mean, var, cov, factor = distribution_parts(mean)
        check_parts(cov, var, factor, std)
        m, diagonal, c, f, s = as_tensors(mean=mean, var=var, cov=cov, factor=factor, std=std)
        if s is not None:
            check_not_negative("std", s)
            diagonal = s.square()
            check_squares(s.detach(), diagonal.detach())
        if c is not None and m.ndim == 0:
            if c.ndim:
                raise ValueError(f"cov must have no axes, as mean has none, got shape {tuple(c.shape)}")
            diagonal, c = c, None  # a scalar's covariance is its variance
        if c is None:
            m, diagonal = _broadcast_variance(m, diagonal)
        else:
            as_covariance("cov", as_array(c), (m.shape[-1],), max(_TOLERANCE, 4.0 * torch.finfo(c.dtype).eps))
            c = 0.5 * (c + c.mT)  # differentiably symmetric
        if f is not None:
            check_factor(f, m)
        self._store(m, diagonal, c, f)

    @classmethod
    def _from_parts(  # type: ignore[override]
        cls, mean: Tensor, diagonal: Tensor | None = None, cov: Tensor | None = None, factor: Tensor | None = None
    ) -> TensorGaussian:
        parts: Any = mean, diagonal, cov, factor
        return object.__new__(cls)._store(*parts)

    @staticmethod
    def _keep(array: Tensor, shape: Sequence[int], _: object) -> Tensor:  # type: ignore[override]
        """Return the tensor in this shape: itself, the user's own leaf, whose ``.grad`` he will read, where it has it."""
        return array if array.shape == torch.Size(shape) else array.expand(shape)

    def __repr__(self) -> str:
        place = "" if self._mean.device.type == "cpu" else f", device={str(self._mean.device)!r}"
        return f"Tensor{repr(self.numpy())[:-1]}, dtype={self.dtype}{place})"

    # ---------------------------------------------------------------- what it is

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of all of its tensors."""
        return self._mean.dtype

    @property
    def device(self) -> torch.device:
        """The device of all of its tensors."""
        return self._mean.device

    @property
    def mean(self) -> Tensor:  # type: ignore[override]
        """The mean, (d,) or (n, d)."""
        return self._mean

    # Computed at every call: a value cached under torch.no_grad() would cut the graph later.

    @property
    def var(self) -> Tensor:  # type: ignore[override]
        """The variances, in the shape of the mean."""
        if self._cov is not None:
            return torch.diagonal(self._cov, dim1=-2, dim2=-1).clamp(min=0.0)
        return self._diagonal if self._factor is None else self._diagonal + self._factor.square().sum(-1)

    @property
    def std(self) -> Tensor:  # type: ignore[override]
        """The standard deviations, in the shape of the mean; their gradient is 0 where they are."""
        return root(self.var)

    @property
    def cov(self) -> Tensor:  # type: ignore[override]
        """The covariance, (d, d) or (n, d, d)."""
        if self._cov is not None or self._mean.ndim == 0:
            return self._diagonal if self._cov is None else self._cov
        dense = torch.diag_embed(self._diagonal)
        return dense if self._factor is None else dense + self._factor @ self._factor.mT

    # ---------------------------------------------------------------- other Gaussians, from this one

    def affine(self, A: TensorLike, b: TensorLike | None = None) -> TensorGaussian:
        """Return A @ x + b, with A of shape (p, d) and b (p,); a scalar A multiplies every coordinate.

        Parameters
        ----------
        A : Tensor or array-like of shape (p, d), or number
            Matrix, or a number that multiplies every coordinate.
        b : Tensor or array-like of shape (p,), default=None
            Offset; None is 0.

        Returns
        -------
        TensorGaussian
            Over p numbers.
        """
        parts = as_tensors(mean=self._mean, A=A, b=0.0 if b is None else b)
        matrix, offset = parts[1], parts[2]
        if matrix.ndim == 0:
            matrix = matrix * torch.eye(self.dim, dtype=matrix.dtype, device=matrix.device)
        if matrix.ndim != 2 or matrix.shape[1] != self.dim:
            raise ValueError(f"A must have shape (p, {self.dim}) or be a number, got shape {tuple(matrix.shape)}")
        if offset.shape not in ((), (1,), matrix.shape[:1]):
            raise ValueError(f"b must have shape ({len(matrix)},), got {tuple(offset.shape)}")
        return self._cast(matrix.dtype)._times(matrix, offset)

    def _cast(self, dtype: torch.dtype) -> TensorGaussian:
        x: Any = self._vector()
        others = (None if part is None else part.to(dtype) for part in (x._diagonal, x._cov, x._factor))
        return TensorGaussian._from_parts(x._mean.to(dtype), *others)

    def _times(self, matrix: Tensor, offset: Tensor) -> TensorGaussian:
        """Return ``affine`` without the checks, in one dtype."""
        if self._cov is not None:
            cov = matrix @ self._cov @ matrix.mT
        else:  # no square root of a variance, which has no gradient at 0
            cov = (matrix * self._diagonal[..., None, :]) @ matrix.mT
            if self._factor is not None:
                root = matrix @ self._factor
                cov = cov + root @ root.mT
        return TensorGaussian._from_parts(self._mean @ matrix.mT + offset, cov=0.5 * (cov + cov.mT))

    def _only_arrays(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("only Gaussians of arrays have this method; use .to_torch(), or .numpy(), which leaves the graph")

    join = condition = observe = sample = logpdf = interval = _only_arrays

    def numpy(self) -> Gaussian:
        """Return a plain :class:`pesn.Gaussian`: detached, on the CPU, float32 or float64."""
        parts = (None if part is None else as_array(part) for part in (self._diagonal, self._cov, self._factor))
        return Gaussian._from_parts(as_array(self._mean), *parts)


def to_distribution(x: Gaussian) -> distributions.Distribution:
    """Return a Gaussian as Normal, Independent(Normal), MultivariateNormal or LowRankMultivariateNormal.

    Independent, so that ``log_prob`` and ``event_shape`` mean the same however the covariance is kept.

    >>> import pesn
    >>> to_distribution(pesn.Gaussian([0.0, 1.0], var=[1.0, 4.0]))
    Independent(Normal(loc: torch.Size([2]), scale: torch.Size([2])), 1)
    """
    if not isinstance(x, TensorGaussian):
        parts = (None if a is None else torch.tensor(a) for a in (x._diagonal, x._cov, x._factor))
        return to_distribution(TensorGaussian._from_parts(torch.tensor(x._mean), *parts))
    singular = "to_torch needs a positive definite covariance, got a singular one; add a variance"
    if x._cov is not None:
        if torch.linalg.cholesky_ex(x._cov).info.any():
            raise ValueError(singular)
        return distributions.MultivariateNormal(x._mean, covariance_matrix=x._cov, validate_args=False)
    if not (x._diagonal > 0.0).all():
        if x._factor is None:
            raise ValueError(singular)
        return to_distribution(TensorGaussian._from_parts(x._mean, cov=x.cov))
    if x._factor is not None:
        return distributions.LowRankMultivariateNormal(x._mean, x._factor, x._diagonal)
    normal = distributions.Normal(x._mean, x._diagonal.sqrt())
    return distributions.Independent(normal, 1) if x._mean.ndim else normal
