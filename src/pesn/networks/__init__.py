"""Gaussians through networks: layers, and a Gaussian passed through them."""

from pesn.networks.dense import Dense
from pesn.networks.propagation import propagate

__all__ = ["Dense", "propagate"]
