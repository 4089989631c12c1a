"""What a Gaussian of tensors is given, checked once, named when it is wrong."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributions

from pesn.arguments import as_real

__all__ = ["as_covariance", "as_tensors", "distribution_parts"]

# Of the largest entry. Wider than for arrays: float32 covariances come out of training steps, and torch.autograd.gradcheck
# moves one entry at a time, by 1e-6, without its mirror image.
_TOLERANCE = 1e-4


def distribution_parts(given: distributions.Distribution) -> tuple[Any, Any, Any, Any]:
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


def as_tensors(**given: Any) -> list[Any]:
    """All as finite real tensors of one floating dtype, on the device of the first tensor; None stays."""
    anchor = next(value for value in given.values() if isinstance(value, Tensor))
    for name, value in given.items():
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
        largest = cov.abs().amax(dim=(-2, -1), keepdim=True)
        off = (cov - cov.mT).abs()
        if (off > _TOLERANCE * largest).any():
            place = tuple(int(i) for i in torch.unravel_index(off.argmax(), off.shape))
            other = (*place[:-2], place[-1], place[-2])
            raise ValueError(f"cov must be symmetric, got {cov[place].item()} at {place} and {cov[other].item()} at {other}")
        scaled = cov / torch.where(largest > 0.0, largest, torch.ones_like(largest))
        scaled = scaled.to(torch.promote_types(cov.dtype, torch.float32))
        lifted = 0.5 * (scaled + scaled.mT) + _TOLERANCE * torch.eye(size, dtype=scaled.dtype, device=cov.device)
        if torch.linalg.cholesky_ex(lifted).info.any():
            value = (torch.linalg.eigvalsh(0.5 * (scaled + scaled.mT)) * largest[..., 0]).min().item()
            raise ValueError(f"cov must be positive semi-definite, got a smallest eigenvalue of {value:.3g}")
    return 0.5 * (cov + cov.mT)
