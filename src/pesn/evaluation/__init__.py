"""Evaluation of forecasts: backtests, calibration, process noise and one-step errors."""
