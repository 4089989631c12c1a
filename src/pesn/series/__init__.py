"""Automatic forecasting of series: reading tables, fitting, backtesting, reports."""
