"""The bounds of y on tensors: what :class:`pesn.statespace.guard.Bounds` does to a mean and to columns, differentiable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from pesn._support.types import Array
from pesn.statespace.guard import PACE, Bounds

__all__ = ["TensorBounds"]

_FAR = 1e18  # as wide as nothing is, and its square a number in single precision, too


class TensorBounds:
    """Of y (…, d) in a loop.

    Parameters
    ----------
    bounds
        On arrays.
    tensor
        What makes tensors of them.
    """

    def __init__(self, bounds: Bounds, tensor: Callable[[Array], Tensor]) -> None:
        self.center, self.width, self.low, self.high = (
            tensor(part) for part in (bounds.center, bounds.width, bounds.low, bounds.high)
        )
        widest = np.where(np.isinf(bounds.widest()) & ~bounds.kinematic, _FAR, bounds.edges[2])
        self.least, self.most, self.widest = tensor(bounds.edges[0]), tensor(bounds.edges[1]), tensor(widest)
        self.limit, self.reach = tensor(np.minimum(bounds.widest(), _FAR)), tensor(bounds.reach)
        self.goes_on, self.widen = torch.tensor(bounds.goes_on, device=self.center.device), float(bounds.widen)

    def hold(self, mean: Tensor, before: Tensor, var: Tensor, staying: Tensor | float = 0.0) -> bool:
        """Whether they have nothing to say: to means (…, d) after those ``before``, their variances, and what weights add."""
        away = 0.5 * (mean - self.center).abs()
        anywhere = ((mean - before).abs() <= self.reach) & (var <= torch.maximum(self.widest, away).square())
        inside = (mean >= self.least) & (mean <= self.most) & (var <= self.widest.square())
        fine = torch.where(self.goes_on, anywhere, inside) & (var + staying <= self.limit.square())
        return bool(fine.all())

    def __call__(self, y: Tensor, before: Tensor, n_staying: int) -> Tensor:
        """Rows y (R, B, d), the mean, ``n_staying`` columns of the weights and others, with d columns more (R + d, B, d).

        ``before`` (B, d) is the mean before the step. What :meth:`hold` lets pass is not changed.
        """
        mean, staying, columns = y[0], y[1 : 1 + n_staying], y[1 + n_staying :]
        var = columns.square().sum(0)
        std = _root(var)
        jumped = self.goes_on & ((mean - before).abs() > self.reach)
        away = torch.where(jumped, before, mean) - self.center
        widest = torch.where(self.goes_on, torch.maximum(self.widest, 0.5 * away.abs()), self.widest)
        factor = (widest / torch.maximum(std, self.width)).clamp(max=1.0)
        outside = (mean < self.least + PACE * (before - self.least).clamp(max=0.0)) | (
            mean > self.most + PACE * (before - self.most).clamp(min=0.0)
        )
        left = (outside & ~self.goes_on) | jumped
        drawn, std = self.center + factor.square() * away, factor * std
        room = self.width.square() - std.square()
        added = torch.where(left & (room > 0.0), _root(room), torch.zeros_like(room)) * self.widen
        wide = _root(std.square() + added.square())
        inside = torch.minimum(torch.maximum(drawn, self.low - wide), self.high + wide)
        held = (left | (factor < 1.0)) & ~self.goes_on
        mean, columns = torch.where(held, inside, drawn), factor * columns
        own, room = staying.square().sum(0), self.limit.square() - wide.square()
        over = own > room
        shrunk = _root((room / torch.where(over, own, torch.ones_like(own))).clamp(0.0, 1.0))
        staying = torch.where(over, shrunk, torch.ones_like(own)) * staying
        more = torch.diag_embed(added).movedim(-1, 0)
        return torch.cat([mean[None], staying, columns, more])


def _root(x: Tensor) -> Tensor:
    """√x of x ≥ 0, with a derivative of 0 at 0."""
    positive = x > 0.0
    return torch.where(positive, torch.where(positive, x, torch.ones_like(x)).sqrt(), torch.zeros_like(x))
