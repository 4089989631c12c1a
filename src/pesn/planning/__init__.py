"""Plans through a learnt model: sequences of controls that are cheap, and that keep what must be kept with a probability."""

from pesn.planning.mppi import MPPI, ChanceConstraint

__all__ = ["MPPI", "ChanceConstraint"]
