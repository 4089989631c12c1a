"""Gaussians through networks: layers, and a Gaussian passed through them."""
