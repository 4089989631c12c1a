"""Probabilistic forecasts of dynamical systems and series: ``pesn.Forecaster`` and ``pesn.Forecast``."""
