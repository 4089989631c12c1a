"""pesn inside sktime (``pip install 'pesn[sktime]'``): the automatic forecaster of series as one of sktime's own.

>>> import numpy as np
>>> import pandas as pd
>>> t = np.arange(60)
>>> months = pd.period_range("2020-01", periods=60, freq="M")
>>> sales = pd.Series(100.0 + t + 10.0 * np.sin(np.pi * t / 6), index=months, name="sales")
>>> forecaster = PESNForecaster().fit(sales[:48], fh=np.arange(1, 13))
>>> bool(np.abs(forecaster.predict() - sales[48:]).max() < 10.0)
True
>>> forecaster.predict_interval(coverage=0.8).columns.tolist()
[('sales', 0.8, 'lower'), ('sales', 0.8, 'upper')]
"""

from __future__ import annotations

try:
    import sktime as _  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"pesn.adapters.sktime needs {error.name}: pip install 'pesn[sktime]'", name=error.name) from error

from pesn.adapters.sktime.forecaster import PESNForecaster

__all__ = ["PESNForecaster"]
