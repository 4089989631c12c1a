"""Forecasts of a system or a series, in closed form, with honest error bars."""

from pesn.forecasting.forecast import Forecast
from pesn.forecasting.forecaster import Forecaster

__all__ = ["Forecast", "Forecaster"]
