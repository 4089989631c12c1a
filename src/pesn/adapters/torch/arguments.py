"""What a Gaussian of tensors is given, checked once, named when it is wrong."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy.typing as npt
import torch
from torch import Tensor, distributions

from pesn._support.arguments import as_real

__all__ = ["TensorLike", "as_covariance", "as_tensors", "check_no_vmap", "distribution_parts"]

TensorLike: TypeAlias = Tensor | npt.ArrayLike

# Of a correlation. Wider than for arrays: float32 covariances come out of training steps, and torch.autograd.gradcheck
# moves one entry at a time, by 1e-6, without its mirror image.
_TOLERANCE = 1e-4
_ROUNDING = 32.0  # units of rounding, beside a variance of 0


def distribution_parts(given: distributions.Distribution) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Mean, variance, covariance and factor of a distribution that is a Gaussian."""
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


def check_no_vmap(name: str, value: object) -> None:
    """A TypeError inside torch.func.vmap: how many terms a series needs depends on the numbers."""
    inside = getattr(torch._C._functorch, "is_batchedtensor", None)
    if inside is not None and isinstance(value, Tensor) and inside(value):
        raise TypeError(f"{name} must not come from torch.func.vmap; give all of the batch at once, as rows (n, d)")


def as_tensors(**given: TensorLike | None) -> list[Any]:
    """All as finite real tensors of one floating dtype, on the device of the first tensor; None stays."""
    anchor = next(value for value in given.values() if isinstance(value, Tensor))
    for name, value in given.items():
        check_no_vmap(name, value)
        if isinstance(value, Tensor) and value.device != anchor.device:
            raise ValueError(f"{name} must lie on {anchor.device}, as the rest does, got {value.device}; move it with .to(...)")
        if isinstance(value, Tensor) and value.is_complex():
            raise TypeError(f"{name} must be real numbers, got dtype {value.dtype}")
        if isinstance(value, Tensor) and value.layout != torch.strided:
            raise TypeError(f"{name} must be a dense tensor, got layout {value.layout}; use .to_dense()")
    own = [value.dtype for value in given.values() if isinstance(value, Tensor) and value.is_floating_point()]
    dtype = own[0] if own else torch.get_default_dtype()
    for other in own:
        dtype = torch.promote_types(dtype, other)
    result = []
    for name, value in given.items():
        if value is not None:
            array = value if isinstance(value, Tensor) else torch.as_tensor(as_real(name, value), device=anchor.device)
            value = array.to(dtype)
            finite = torch.isfinite(value)
            if not finite.all():
                place = tuple((~finite).nonzero()[0].tolist())
                where = f" at index {place if len(place) != 1 else place[0]}" if place else ""
                raise ValueError(f"{name} must be finite, got {value[place].item()}{where}")
        result.append(value)
    return result


def as_covariance(cov: Tensor, size: int) -> Tensor:
    """``cov`` made symmetric, differentiably; refused where it is not symmetric or not semi-definite beyond the tolerance."""
    if cov.shape[-2:] != (size, size):
        raise ValueError(f"cov must have shape {(size, size)}, got shape {tuple(cov.shape)}")
    if not cov.numel():
        return cov
    with torch.no_grad():
        c = cov.to(torch.float64 if cov.device.type != "mps" else torch.float32)
        eps = torch.finfo(cov.dtype).eps
        variances = torch.diagonal(c, dim1=-2, dim2=-1)
        if (variances < -_ROUNDING * eps * c.abs().amax(dim=(-2, -1))[..., None]).any():
            value = variances.min().item()
            raise ValueError(f"cov must be positive semi-definite, got a variance of {value:.6g} on its diagonal")
        # Everything is judged on the scale of its own two deviations: one large variance must not hide a fault among small ones.
        std = variances.clamp(min=0.0).sqrt()
        live = std > 0.0
        scale = torch.where(live, std, torch.ones_like(std))
        tolerance = max(_TOLERANCE, 4.0 * eps)
        larger = torch.maximum(std[..., :, None], std[..., None, :])
        room = tolerance * std[..., :, None] * std[..., None, :] + _ROUNDING * eps * larger.square()
        beyond = (c - c.mT).abs() - room
        if (beyond > 0.0).any():
            place = tuple(int(i) for i in torch.unravel_index(beyond.argmax(), beyond.shape))
            other = (*place[:-2], place[-1], place[-2])
            raise ValueError(f"cov must be symmetric, got {cov[place].item()} at {place} and {cov[other].item()} at {other}")
        both = live[..., :, None] & live[..., None, :]
        if (torch.where(both, torch.zeros_like(c), c.abs() - room) > 0.0).any():
            raise ValueError("cov must be positive semi-definite, got a covariance beside a variance of 0")
        correlation = torch.where(both, 0.5 * (c + c.mT) / scale[..., :, None] / scale[..., None, :], torch.zeros_like(c))
        unit = torch.eye(size, dtype=c.dtype, device=c.device)
        if torch.linalg.cholesky_ex(correlation + torch.where(live, tolerance, 1.0)[..., None] * unit).info.any():
            value = torch.linalg.eigvalsh(correlation).min().item()
            raise ValueError(f"cov must be positive semi-definite, got a smallest eigenvalue of {value:.3g} in its correlations")
    return 0.5 * (cov + cov.mT)
