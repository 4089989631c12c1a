"""Planning with a learned dynamics model: model predictive path integral control with chance constraints."""

from pesn.planning.mppi import MPPI, ChanceConstraint

__all__ = ["MPPI", "ChanceConstraint"]
