"""tanh of a Normal as a torch distribution, with the moments that torch's own lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Normal, TransformedDistribution, constraints
from torch.distributions.transforms import TanhTransform

from pesn._support.types import Array
from pesn.activations import get
from pesn.adapters.torch.tensor_gaussian import TensorLike
from pesn.adapters.torch.tensor_moments import Units, find_slopes, units, working_dtype


class TanhNormal(TransformedDistribution):
    """tanh(z), z ~ N(loc, scale²): the policy of soft actor-critic, with mean, variance and mode.

    ``mean``, ``variance`` and ``stddev`` are quadratures to rounding, for every scale, and differentiable; so is ``mode``.
    A value of exactly ±1 in ``log_prob`` is a rounded one, and is read as the nearest number inside.

    Parameters
    ----------
    loc : Tensor or float
        Mean of z.
    scale : Tensor or float
        Standard deviation of z; broadcast against ``loc``.
    validate_args : bool, default=None
        Whether torch checks arguments; None: as it does by default.

    Examples
    --------
    >>> policy = TanhNormal(torch.tensor([0.5, 2.0]), torch.tensor([1.0, 0.5]))
    >>> policy.mean, policy.stddev
    (tensor([0.2955, 0.9438]), tensor([0.5922, 0.0638]))
    >>> policy.mode
    tensor([0.9858, 0.9864])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    base_dist: Normal
    _slopes: tuple[object, Array | None] = (None, None)  # by the versions of the parameters

    def __init__(self, loc: TensorLike, scale: TensorLike, validate_args: bool | None = None) -> None:
        loc, scale = (_floating(value) for value in (loc, scale))
        super().__init__(Normal(loc, scale, validate_args=validate_args), [_Tanh(cache_size=1)], validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of z."""
        loc: Tensor = self.base_dist.loc
        return loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of z."""
        scale: Tensor = self.base_dist.scale
        return scale

    def expand(self, batch_shape: Sequence[int], _instance: TanhNormal | None = None) -> TanhNormal:
        """Return this distribution with a larger batch shape.

        Parameters
        ----------
        batch_shape : sequence of int
            The larger shape.
        _instance : TanhNormal, default=None
            For subclasses, as in torch.

        Returns
        -------
        TanhNormal
            A view: nothing is copied.
        """
        new: Any = self._get_checked_instance(TanhNormal, _instance)  # type: ignore[no-untyped-call]
        result: TanhNormal = super().expand(batch_shape, _instance=new)  # type: ignore[no-untyped-call]
        return result

    @property
    def mean(self) -> Tensor:
        """E[tanh z]."""
        return self._units()[0].mean.to(self.loc.dtype)

    @property
    def variance(self) -> Tensor:
        """Var(tanh z)."""
        unit, scale = self._units()
        return (scale.square() * unit.ratio).to(self.loc.dtype)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation of tanh z; not the root of ``variance``, which underflows first."""
        unit, scale = self._units()
        return (scale * unit.ratio.sqrt()).to(self.loc.dtype)

    @property
    def mode(self) -> Tensor:
        """Where the density is largest, tanh z with z = loc + 2 scale² tanh z; of two equal ones (loc = 0) the positive."""
        dtype = working_dtype(self.loc.device)
        loc, v = self.loc.to(dtype), self.scale.to(dtype).square()
        side = torch.where(loc < 0.0, -torch.ones_like(loc), torch.ones_like(loc))
        m = side * loc
        with torch.no_grad():
            # For z > 0, g(z) = z − m − 2v tanh z is convex with one zero (besides 0): Newton's method converges from above.
            z = m + 2.0 * v
            for _ in range(100):  # 2v = 1, m = 0 is a triple zero: each step takes a third of the distance
                step = (z - m - 2.0 * v * torch.tanh(z)) / _slope(z, v)
                z = (z - step).clamp(min=0.0)
                if bool((step.abs() <= 1e-15 * z + 1e-300).all()):
                    break
        # One step more, from the zero, for the gradient: dz = (dm + 2 tanh z dv)/g′.
        z = z - (z - m - 2.0 * v * torch.tanh(z)) / _slope(z, v).detach()
        return (side * torch.tanh(z)).to(self.loc.dtype).clamp(-_inside(self.loc.dtype), _inside(self.loc.dtype))

    def _units(self) -> tuple[Units, Tensor]:
        dtype = working_dtype(self.loc.device)
        loc, scale = self.loc.to(dtype), self.scale.to(dtype)  # Normal has broadcast one against the other
        var = scale.square()
        if not torch.is_grad_enabled() or loc.is_inference() or scale.is_inference():
            return units(get("tanh"), loc, var), scale
        versions = self.loc._version, self.scale._version
        if versions != self._slopes[0]:  # of the mean and of the variance alike
            self._slopes = versions, find_slopes(get("tanh"), loc, var)
        return units(get("tanh"), loc, var, slopes=self._slopes[1]), scale


class _Tanh(TanhTransform):
    """Whose inverse is finite at ±1, where samples round to."""

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.atanh(y.clamp(-_inside(y.dtype), _inside(y.dtype)))

    def with_cache(self, cache_size: int = 1) -> _Tanh:
        return self if self._cache_size == cache_size else _Tanh(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tanh)

    __hash__ = TanhTransform.__hash__


def _slope(z: Tensor, v: Tensor) -> Tensor:
    """Return g′(z), bounded below by the rounding."""
    slope = 4.0 * torch.sigmoid(2.0 * z) * torch.sigmoid(-2.0 * z)  # derivative of tanh
    return (1.0 - 2.0 * v * slope).clamp(min=torch.finfo(z.dtype).eps)


def _floating(value: Any) -> Tensor:
    """Return integers as floating point numbers."""
    whole = isinstance(value, Tensor) and not value.is_floating_point() and not value.is_complex()
    return value.to(torch.get_default_dtype()) if whole else value


def _inside(dtype: torch.dtype) -> float:
    """Return the largest number below 1."""
    return 1.0 - 0.5 * torch.finfo(dtype).eps if dtype.is_floating_point else math.nan
