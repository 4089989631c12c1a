"""Reservoirs: their weights, and driving one over a sequence, open or in a closed loop."""

from pesn.reservoir.drive import State, run, run_gaussian
from pesn.reservoir.weights import Reservoir, draw

__all__ = ["Reservoir", "State", "draw", "run", "run_gaussian"]
