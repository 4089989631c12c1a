"""The linear readout: ridge regression in one pass, and recursive least squares as rows arrive."""

from pesn.readout.ridge import Factor, Gram, Readout, least_squares, predict, solve

__all__ = ["Factor", "Gram", "Readout", "least_squares", "predict", "solve"]
