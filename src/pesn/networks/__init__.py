"""Gaussians through feed-forward networks: layers, and a Gaussian passed through a list of them."""

from pesn.networks.dense import Dense, propagate

__all__ = ["Dense", "propagate"]
