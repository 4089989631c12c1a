"""Forecasts of a system or a series, in closed form, with honest error bars: ``pesn.Forecaster`` and ``pesn.Forecast``."""
