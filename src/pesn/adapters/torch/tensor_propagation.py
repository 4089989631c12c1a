"""Results of :func:`pesn.propagate` for tensors: the closure and the points of the arrays, differentiable by autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pesn._support.types import Array, NetworkCovariance, Rng
from pesn.adapters.torch.modules import as_double, call_rows, is_chain, is_sharp, read_chain, unwrap, unwrap_sequences
from pesn.adapters.torch.tensor_closures import check_finite, through_layers
from pesn.adapters.torch.tensor_gaussian import TensorGaussian, check_no_vmap
from pesn.adapters.torch.trace import trace_tensor_layers
from pesn.gaussian import Gaussian, probabilities, select_rows
from pesn.moments import UnitMethod
from pesn.networks.layers import Shapes
from pesn.networks.points import SCRAMBLES, Scale, StandardPoints, UsedPoints
from pesn.networks.propagate import Propagated

_AT_ONCE = 2**19  # numbers of the points of a row up to which all that a network computes from them is kept for its gradients


class PropagatedTensors(Propagated, TensorGaussian):  # type: ignore[misc]  # tensors, where Gaussian has arrays
    """The result of :func:`pesn.propagate` for tensors: a :class:`TensorGaussian` with the attributes of ``Propagated``."""

    @classmethod
    def _from_parts(cls, *parts: Any, **named: Any) -> Any:
        return TensorGaussian._from_parts(*parts, **named)

    def quantile(self, q: npt.ArrayLike) -> Any:
        """Return quantiles of each output, (...) or (k, ...) for k probabilities."""
        levels = torch.as_tensor(probabilities(q)).to(self._mean)
        if self.samples is None:
            reach = torch.special.ndtri(levels).reshape(*levels.shape, *[1] * self._mean.ndim)
            return self._mean + reach * self.std
        return torch.quantile(self.samples.to(self._mean), levels, dim=-2)  # type: ignore[attr-defined]

    def numpy(self) -> Propagated:
        """Return the same as arrays: detached, on the CPU."""
        samples: Any = self.samples
        arrays = None if samples is None else samples.detach().cpu().numpy()
        found: Propagated = Propagated.from_gaussian(super().numpy(), self.closure, self.error, arrays)
        return found


def check_tensors(network: nn.Module, x: TensorGaussian) -> None:
    """Raise an error unless a module and its input lie on one device, outside of torch.func.vmap."""
    for name, value in unwrap(network).named_parameters():
        place, _, leaf = name.rpartition(".")
        check_no_vmap(f"{leaf} of layer {place}", value)
        if value.device != x.device:
            raise ValueError(f"network lies on {value.device} and x on {x.device}; move one of them with .to(...)")


def needs_gradients(network: nn.Module, x: TensorGaussian) -> bool:
    """Return whether autograd is to find derivatives by the input or by the network's parameters."""
    given = (x._mean, x._diagonal, x._cov, x._factor, *unwrap(network).parameters())
    return torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in given)


def propagate(
    network: nn.Module,
    x: TensorGaussian,
    shapes: Shapes,
    found: Propagated,
    used: UsedPoints | None,
    full: bool,
    rng: Rng,
) -> PropagatedTensors:
    """Return the result for tensors.

    Parameters
    ----------
    network : torch.nn.Module
        In eval mode.
    x : TensorGaussian
        The input.
    shapes : tuple of tuple of int
        Of one row of each input of the network.
    found : Propagated
        The result for arrays.
    used : UsedPoints, default=None
        The points of each row; None if no gradients are needed.
    full : bool
        Whether the result has covariances.
    rng : int, Generator or None
        Seed or Generator of the points.
    """
    network, shapes = unwrap_sequences(unwrap(network), shapes)
    dtype = _result_dtype(network, x)

    def tensor(part: Any) -> Any:
        return None if part is None else torch.tensor(np.array(part), dtype=dtype, device=x.device)

    names, samples = np.ravel(found.closure), tensor(found.samples)
    if used is None:
        state = TensorGaussian._from_parts(*map(tensor, (found.mean, found.diagonal, found.cov if full else None)))
        return _attach(state, full, found.closure, found.error, samples)
    counts = used.counts
    if not counts.any() and len(set(names)) == 1:
        return _attach(_propagate_closed(network, x, shapes, names[0]), full, found.closure, found.error, samples)
    mean, spread = [x._mean] * len(counts), [x._mean] * len(counts)
    for name in set(names[counts == 0]):
        rows = np.flatnonzero((counts == 0) & (names == name))
        part = _propagate_closed(network, select_rows(x, rows), shapes, name)  # type: ignore[arg-type]  # of tensors
        for k, row in enumerate(rows.tolist()):
            mean[row], spread[row] = part._mean[k], part.cov[k] if full else part.var[k]
    points, outputs = _Points(x, rng), samples.reshape(len(counts), *found.samples.shape[-2:])  # type: ignore[union-attr]
    kept, outputs = outputs.shape[1] // SCRAMBLES, list(outputs)
    for row in np.flatnonzero(counts).tolist():
        out, along = points.evaluate(network, row, used, shapes)
        mean[row], spread[row] = _compute_moments(out, full) if along is None else _regress(out.double(), along.double(), full)
        outputs[row] = out.reshape(SCRAMBLES, -1, out.shape[1])[:, :kept].flatten(0, 1)
    stacked = (torch.stack([one.to(dtype) for one in part]) for part in (mean, spread, outputs))
    means, spreads, samples = (part.reshape(*x.batch_shape, *part.shape[1:]) for part in stacked)
    state = TensorGaussian._from_parts(means, None if full else spreads, spreads if full else None)
    return _attach(state, full, found.closure, found.error, samples)


def _attach(state: Gaussian, full: bool, closure: object, error: object, samples: Tensor | None) -> PropagatedTensors:
    if not full and state.diagonal is None:
        state = TensorGaussian._from_parts(state.mean, state.var)  # type: ignore[arg-type]
    result: PropagatedTensors = PropagatedTensors.from_gaussian(state, closure, error, samples)
    return result


def _result_dtype(network: nn.Module, x: TensorGaussian) -> torch.dtype:
    return reduce(torch.promote_types, [p.dtype for p in network.parameters() if p.is_floating_point()], x.dtype)


def propagate_gaussian(
    network: nn.Module,
    x: TensorGaussian,
    method: UnitMethod = "surface",
    covariance: NetworkCovariance = "full",
    weight_var: Mapping[str, Any] | None = None,
    dropout: bool = False,
) -> list[TensorGaussian]:
    """Return the Gaussian of tensors after each layer of a chain, by the Gaussian closure.

    Moments are nearly exact: ``method`` is "surface" or "exact", which are the same.
    """
    if method not in ("surface", "exact"):
        raise ValueError(f"method must be 'surface' or 'exact' for tensors, got {method!r}; for the others give x.numpy()")
    layers = read_chain(unwrap(network), x.dim, weight_var, dropout)
    dtype = reduce(torch.promote_types, [layer.W.dtype for layer in layers], x.dtype)
    work = dtype if dtype.itemsize >= 4 else torch.float32  # a covariance in 16 bits does not stay semi-definite
    states = through_layers(layers, x._cast(work), covariance == "full")
    pairs = zip(states, layers, strict=True)
    return [check_finite(state._cast(dtype), layer.active) for state, layer in pairs] or [x]


def _propagate_closed(network: nn.Module, x: TensorGaussian, shapes: Shapes, closure: str) -> TensorGaussian:
    """Compute the Gaussian of the output by a closed form: of a chain, or of layers read from a run."""
    third, chain = closure == "third-order", shapes == ((x.dim,),) and is_chain(network, x.dim)
    if chain and not third:
        return propagate_gaussian(network, x)[-1]
    layers = read_chain(network, x.dim) if chain else trace_tensor_layers(network, shapes)
    wide = x._cast(torch.float64)
    state = (through_layers(layers, wide, third=third) or [wide])[-1]
    return check_finite(state._cast(_result_dtype(network, x)), "network")


class _Points:
    """The points of the rows of x that arrays have, differentiable."""

    def __init__(self, x: TensorGaussian, rng: Rng) -> None:
        self._mean = x._mean.reshape(-1, x.dim)
        self._alone = x._diagonal is not None and x._factor is None
        self._spread = x.std.reshape(-1, x.dim) if self._alone else x.cov.reshape(-1, x.dim, x.dim)
        self._x = x.numpy()
        self._points, self._scale = StandardPoints(x.dim, rng), Scale(self._x)

    def evaluate(self, network: nn.Module, row: int, used: UsedPoints, shapes: Shapes) -> tuple[Tensor, Tensor | None]:
        """Return the outputs (count, m) of the points of a row, differentiable by input and parameters, and control variates."""
        count, mirrored = int(used.counts[row]), bool(used.mirrored[row])
        mean, spread = self._mean[row], self._spread[row].double()
        standard = torch.tensor(self._points.block(0, count // SCRAMBLES, mirrored)).reshape(count, -1).to(spread)
        along = None if used.directions is None else standard @ torch.tensor(used.directions[row]).to(standard)
        if self._alone:
            away = standard[:, self._scale.order(row)] * spread
        else:
            away = standard @ _root(spread, *self._scale.frame(row)).mT
        rows = (mean + away).to(mean.dtype)
        double = as_double(network, rows[:1], shapes) if is_sharp(network, self._x) else None
        run: Callable[..., object] = network if double is None else double
        rows = rows if double is None else rows.double()
        step = max(1, _AT_ONCE // mean.numel())
        if count <= step or torch._C._functorch.is_functorch_wrapped_tensor(rows):
            return call_rows(run, rows, shapes), along
        # The intermediate numbers of many points are not kept but computed again.
        parts = [checkpoint(call_rows, run, part, shapes, use_reentrant=False) for part in rows.split(step)]
        return torch.cat(parts), along


def _compute_moments(out: Tensor, full: bool) -> tuple[Tensor, Tensor]:
    """Return mean and covariance, or variances, of outputs (n, m)."""
    mean = out.mean(dim=0)
    away = out - mean
    return mean, away.mT @ away / len(out) if full else away.square().mean(dim=0)


def _regress(out: Tensor, along: Tensor, full: bool) -> tuple[Tensor, Tensor]:
    """Return the same by the regression on control variates (n, r), as :class:`pesn.networks.controls.Controls` does."""
    given = torch.cat([along.new_ones(len(along), 1), along], dim=1)
    coefficients = torch.linalg.solve(given.mT @ given, given.mT @ out)
    _, rest = _compute_moments(out - given @ coefficients, full)
    slope = coefficients[1:]
    return coefficients[0], rest + (slope.mT @ slope if full else slope.square().sum(dim=0))


def _root(cov: Tensor, root: Array, frame: Array | None) -> Tensor:
    """Return the root of a covariance that arrays have, differentiable."""
    if frame is not None:
        turn = torch.tensor(frame.copy()).to(cov)
        return turn @ torch.linalg.cholesky(turn.mT @ cov @ turn)
    # Singular: A + (C − C₀) A⁺ᵀ/2 is a root of C to first order.
    fixed = torch.tensor(root.copy()).to(cov)
    return fixed + 0.5 * (cov - cov.detach()) @ torch.linalg.pinv(fixed).mT
