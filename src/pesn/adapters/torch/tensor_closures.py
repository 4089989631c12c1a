"""The Gaussian and the third-order closure on tensors: what ``pesn.networks`` computes on arrays, with derivatives.

The equations are those of :mod:`pesn.networks.third_order`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pesn.activations import Activation
from pesn.adapters.torch.tensor_gaussian import TensorGaussian, as_array, find_nonfinite, root
from pesn.adapters.torch.tensor_moments import clip_correlations, covariance, project, units, working_dtype
from pesn.adapters.torch.trace import TensorLayer
from pesn.networks.layers import is_linear
from pesn.networks.third_order import LEAST, ORDERS, STRAIGHT, Cumulants, Fresh, Outputs, third_order_grid


def through_layers(
    layers: Sequence[TensorLayer], x: TensorGaussian, full: bool = True, third: bool = False
) -> list[TensorGaussian]:
    """Compute the Gaussian after each layer, in the precision of the input.

    Parameters
    ----------
    layers : sequence of TensorLayer
        The network.
    x : TensorGaussian
        Its input, of mean (..., d).
    full : bool, default=True
        Whether covariances between units are kept.
    third : bool, default=False
        Whether third cumulants are propagated: the third-order closure, else the Gaussian one.
    """
    older: list[Cumulants] = []
    fresh: Fresh | None = None
    states = []
    for place, layer in enumerate(layers):
        further = third and any(not is_linear(later) for later in layers[place + 1 :])  # type: ignore[arg-type]
        x = check_finite(_affine(layer, x, full), layer.affine)
        W = layer.W.to(x._mean)
        older, fresh = [*(one.times(W) for one in older), *(() if fresh is None else fresh.times(W))], None
        if not is_linear(layer):  # type: ignore[arg-type]
            z = x._cast(working_dtype(x.device))
            if full:
                mean, cov, older, fresh = _activate(layer, z._mean, z._cov, older, further)
                out = TensorGaussian._from_parts(mean, cov=cov)
            else:
                unit = units(layer.activation, z._mean, z.var)
                out = TensorGaussian._from_parts(unit.mean, z.var * unit.ratio)
            x = out._cast(x.dtype)
        states.append(check_finite(x, layer.active))
    return states


def check_finite(x: TensorGaussian, name: str) -> TensorGaussian:
    """Return ``x``; raise where it is not finite."""
    var = x.var if x._cov is None else x._cov
    for what, part in (("mean", x._mean), ("variance", var)):
        if find_nonfinite(part) is not None:
            raise ValueError(f"the {what} overflows in {name}: it is beyond the numbers of {part.dtype}")
    return x


def _affine(layer: TensorLayer, x: TensorGaussian, full: bool) -> TensorGaussian:
    W, b = layer.W.to(x._mean), layer.b.to(x._mean)  # on its device
    if layer.dropout:
        x = _widen(x, layer.dropout / (1.0 - layer.dropout) * (x.var + x._mean.square()))
    z = x._times(W, b) if full else TensorGaussian._from_parts(x._mean @ W.mT + b, x.var @ W.square().mT)
    if layer.W_var is not None:
        z = _widen(z, (x.var + x._mean.square()) @ layer.W_var.to(W).mT)
    return z if layer.b_var is None else _widen(z, layer.b_var.to(W))


def _widen(x: TensorGaussian, var: Tensor) -> TensorGaussian:
    """Return x with variances of independent noise added."""
    if x._cov is None and x._factor is None:
        return TensorGaussian._from_parts(x._mean, x.var + var)
    return TensorGaussian._from_parts(x._mean, cov=x.cov + torch.diag_embed(var))


def _activate(
    layer: TensorLayer, mean: Tensor, cov: Tensor, older: list[Cumulants], further: bool
) -> tuple[Tensor, Tensor, list[Cumulants], Fresh | None]:
    """Apply an activation; ``further``: whether a later layer needs third cumulants."""
    f, n = layer.activation, mean.shape[-1] - layer.carried
    m, var = mean[..., :n], torch.diagonal(cov, dim1=-2, dim2=-1).clamp(min=0.0)
    v = var[..., :n]
    own, within = covariance(f, m, cov[..., :n, :n], layer.active)
    out, spread = torch.cat([own, mean[..., n:]], dim=-1), within
    if layer.carried:
        across = project(m, v, f, 2, -1)[1][..., :1] * cov[..., :n, n:]  # Stein's lemma
        spread = torch.cat([torch.cat([within, across], -1), torch.cat([across.mT, cov[..., n:, n:]], -1)], dim=-2)
    if not (further or older):
        return out, spread, [], None
    live = var > LEAST
    std = torch.where(live, var, torch.ones_like(var)).sqrt()
    bent = v > STRAIGHT * min(f.scale, 1.0) ** 2
    c = _coefficients(f, m, v, std, live, bent)
    rho = torch.diagonal_scatter(clip_correlations(cov, std), live.to(std.dtype), dim1=-2, dim2=-1)
    x, weights, cubic = (torch.as_tensor(part, device=mean.device) for part in third_order_grid())
    z = m[..., None] + torch.where(bent, std[..., :n], torch.ones_like(v))[..., None] * x
    away = _Value.apply(z, f) - own[..., None]  # type: ignore[no-untyped-call]
    outputs, shift = Outputs(c, rho, std, bent, away, (weights, cubic)), torch.zeros_like(std)
    if older:
        shift, after, correlation = outputs.correct(older, torch.diagonal(spread, dim1=-2, dim2=-1), spread, torch)
        out, spread = out + shift, _semidefinite(correlation, after)
    if not further:
        return out, spread, [], None
    return out, spread, [one.rescale(c[..., 0] / std) for one in older], outputs.cumulants(shift, torch)


def _coefficients(f: Activation, m: Tensor, v: Tensor, std: Tensor, live: Tensor, bent: Tensor) -> Tensor:
    """Compute the Hermite coefficients c_1, c_2, … (…, D, N) of a layer's outputs; carried numbers are their own."""
    n = m.shape[-1]
    e = project(m, torch.where(bent, v, torch.ones_like(v)), f, ORDERS + 3, -1)[1]
    gain = torch.cat([project(m, v, f, 2, -1)[1][..., 0], torch.ones_like(std[..., n:])], dim=-1)
    first = torch.where(live, gain * std, 0.0)
    higher = torch.where(bent[..., None], e[..., 1:] * std[..., :n, None], 0.0)
    return torch.cat([first[..., None], torch.nn.functional.pad(higher, (0, 0, 0, std.shape[-1] - n))], dim=-1)


def _semidefinite(correlation: Tensor, var: Tensor) -> Tensor:
    """Return a covariance with the diagonal ``var`` and no negative eigenvalue, which an expansion may have."""
    correlation = torch.diagonal_scatter(correlation, torch.ones_like(var), dim1=-2, dim2=-1)
    if torch.linalg.cholesky_ex(correlation.detach() + 1e-10 * _eye(var)).info.any():
        whole = _Semidefinite.apply(correlation)  # type: ignore[no-untyped-call]
        scale = torch.diagonal(whole, dim1=-2, dim2=-1).sqrt()
        negative = torch.linalg.eigvalsh(correlation.detach())[..., :1, None] <= -1e-10
        correlation = torch.where(negative, whole / scale[..., :, None] / scale[..., None, :], correlation)
    std = root(var)
    return torch.diagonal_scatter(correlation * std[..., :, None] * std[..., None, :], var, dim1=-2, dim2=-1)


def _eye(like: Tensor) -> Tensor:
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)


class _Value(torch.autograd.Function):
    """f(z) of an activation of arrays."""

    @staticmethod
    def forward(z: Tensor, f: Activation) -> Tensor:
        return torch.from_numpy(f.value(as_array(z, torch.float64))).to(z)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Activation], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.f = inputs[1]

    @staticmethod
    def backward(ctx: Any, by: Tensor) -> tuple[Tensor, None]:
        slope: Tensor = _Slope.apply(ctx.saved_tensors[0], ctx.f)  # type: ignore[no-untyped-call]
        return by * slope, None


class _Slope(torch.autograd.Function):
    """f′(z) of an activation of arrays."""

    @staticmethod
    def forward(z: Tensor, f: Activation) -> Tensor:
        assert f.derivative is not None
        return torch.from_numpy(f.derivative(as_array(z, torch.float64))).to(z)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Activation], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, None], z: Tensor, f: Activation) -> tuple[Tensor, int | None]:
        return _Slope.apply(z, f), in_dims[0]  # type: ignore[no-untyped-call]

    @staticmethod
    def backward(ctx: Any, by: Tensor) -> tuple[Tensor, None]:
        raise RuntimeError("the third-order closure has no second derivatives; use closure='gaussian' or closure='sobol'")


class _Semidefinite(torch.autograd.Function):
    """A symmetric matrix without its negative eigenvalues."""

    @staticmethod
    def forward(matrix: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(matrix)
        return (vectors * values.clamp(min=0.0)[..., None, :]) @ vectors.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, by: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(ctx.saved_tensors[0])
        # divided differences of max(λ, 0)
        size, risen = (part[..., :, None] - part[..., None, :] for part in (values, values.clamp(min=0.0)))
        apart = size.abs() > 1e-14
        slopes = torch.where(apart, risen / torch.where(apart, size, 1.0), (values > 0.0).to(size)[..., None])
        return vectors @ ((vectors.mT @ (0.5 * (by + by.mT)) @ vectors) * slopes) @ vectors.mT
