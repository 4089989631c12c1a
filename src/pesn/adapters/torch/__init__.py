"""PyTorch: a trained ``Sequential`` with an uncertain input, tensors in, tensors out, differentiable by autograd.

>>> import pesn, torch
>>> from torch import nn
>>> _ = torch.manual_seed(0)
>>> network = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 1)).eval()
>>> x = pesn.Gaussian(torch.zeros(2), var=torch.full((2,), 0.3, requires_grad=True))
>>> y = pesn.propagate(network, x)
>>> y.var.sum().backward()                      # to the input's variance and to every weight
>>> x.var.grad.shape, network[0].weight.grad.shape
(torch.Size([2]), torch.Size([20, 2]))

A network with a NumPy Gaussian goes the NumPy way, as a list of :class:`pesn.Dense`, with every method of ``pesn.moments``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pesn.adapters.torch.modules import as_layers, read
from pesn.adapters.torch.tanh_normal import TanhNormal
from pesn.adapters.torch.tensor_gaussian import TensorGaussian, to_distribution
from pesn.adapters.torch.tensor_propagation import (
    PropagatedTensors,
    check_tensors,
    needs_gradients,
    propagate,
    propagate_gaussian,
)
from pesn.adapters.torch.trace import leave_transforms

if TYPE_CHECKING:
    from pesn.adapters.torch.rollouts import rollout

__all__ = [
    "PropagatedTensors", "TanhNormal", "TensorGaussian", "as_layers", "check_tensors", "leave_transforms", "needs_gradients",
    "propagate", "propagate_gaussian", "read", "rollout", "to_distribution",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker that saw it would accept any name

    def __getattr__(name: str) -> Any:
        """Roll-outs on first use: they bring forecasters and scikit-learn, which networks do without."""
        if name != "rollout":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from pesn.adapters.torch.rollouts import rollout

        return rollout
