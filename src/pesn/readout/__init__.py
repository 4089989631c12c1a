"""The linear readout: ridge regression in one pass, and recursive least squares as rows arrive."""

from pesn.readout.least_squares import Factor, Gram
from pesn.readout.ridge import Readout, least_squares, predict, predictive_variance, solve

__all__ = ["Factor", "Gram", "Readout", "least_squares", "predict", "predictive_variance", "solve"]
