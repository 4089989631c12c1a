"""The linear readout: ridge regression in one pass, and recursive least squares as rows arrive."""

from pesn.readout.ridge import Gram, Readout, predict, predictive_variance, solve

__all__ = ["Gram", "Readout", "predict", "predictive_variance", "solve"]
