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

sktime counts steps from its cutoff, the last observation: steps above 0 are forecasts, the others in-sample predictions. Each of
these is a one-step forecast from the observations before it, with the components and weights fitted to all observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import clone

try:
    from sktime.datatypes import update_data
    from sktime.forecasting.base import BaseForecaster, ForecastingHorizon
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"pesn.adapters.sktime needs {error.name}: pip install 'pesn[sktime]'", name=error.name) from error

from pesn._support.types import Array
from pesn.series.arguments import align_rows
from pesn.series.forecaster import SeriesForecaster
from pesn.series.model import FittedSeries, Seasons
from pesn.series.result import Margins
from pesn.series.univariate import find_span

if TYPE_CHECKING:
    from pesn.adapters.sktime.distribution import SeriesDistribution

__all__ = ["PESNForecaster"]

Places = npt.NDArray[np.int64]


@final
class PESNForecaster(BaseForecaster):  # type: ignore[misc]
    """Automatic forecaster of series: an ensemble weighted by rolling-origin errors, with predictive distributions.

    The components are exponential smoothing, autoregression, reservoirs and learned dynamics models; see
    :class:`pesn.SeriesForecaster`. Several columns, panels and hierarchies are forecast series by series.

    Parameters
    ----------
    horizon : int or None, default=None
        Number of steps over which the components are weighted; None: the largest step of ``fh`` if given to ``fit``, else a
        season or a tenth of the observations.
    season : "auto", int, sequence of int or None, default="auto"
        Seasonal period(s) in steps; "auto": those that the frequency of the index suggests and the observations show; None: no
        seasonality.

    Attributes
    ----------
    forecaster_ : SeriesForecaster
        The fitted forecaster; ``forecaster_.summary()`` lists the chosen components and their weights.

    Examples
    --------
    >>> from sktime.datasets import load_airline
    >>> from pesn.adapters.sktime import PESNForecaster
    >>> y = load_airline()
    >>> forecaster = PESNForecaster(season=12)
    >>> forecaster.fit(y[:132], fh=range(1, 13))
    PESNForecaster(season=12)
    >>> y_pred = forecaster.predict()
    >>> bool(abs(y_pred / y[132:] - 1.0).mean() < 0.1)
    True
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["pesn-developers"],
        "maintainers": ["pesn-developers"],
        "y_inner_mtype": "pd.Series",
        "X_inner_mtype": "pd.DataFrame",
        "capability:multivariate": False,  # one model for each column
        "capability:exogenous": True,
        "capability:insample": True,
        "capability:pred_int": True,
        "capability:pred_int:insample": True,
        "capability:missing_values": True,
        "capability:categorical_in_X": False,
        "capability:update": True,
        "requires-fh-in-fit": False,
    }
    _config: ClassVar[dict[str, Any]] = {"remember_data": False}  # _cur_y keeps the observations up to the cutoff
    _y = None
    _X = None

    forecaster_: SeriesForecaster

    def __init__(self, horizon: int | None = None, season: Seasons = "auto") -> None:
        self.horizon = horizon
        self.season = season
        super().__init__()

    # ---------------------------------------------------------------- learning

    def _fit(self, y: pd.Series, X: pd.DataFrame | None, fh: ForecastingHorizon | None) -> Self:
        self._cur_y, self._cur_X = y, None if X is None else X.loc[y.index]
        farthest = 0 if fh is None else int(self._steps(fh).max())
        horizon = farthest if self.horizon is None and farthest > 0 else self.horizon
        self.forecaster_ = _fit_up_to_cutoff(SeriesForecaster(horizon, self.season), self._cur_y, self._cur_X)
        return self

    def _update(self, y: pd.Series, X: pd.DataFrame | None = None, update_params: bool = True) -> Self:
        """Refit with new observations, or with ``update_params=False`` forecast from them with the fitted model.

        Observations that come again are replaced; after an earlier cutoff than the last one, later ones are dropped.
        """
        rows = update_data(self._cur_y, y)
        rows = rows[rows.index <= self.cutoff[0]]
        inputs = self._cur_X if X is None else update_data(self._cur_X, self._select_columns(X))
        if inputs is not None:
            inputs = inputs.reindex(rows.index)  # NaN where they are not known
        if update_params:
            forecaster = _fit_up_to_cutoff(clone(self.forecaster_), rows, inputs)
        else:
            forecaster = copy(self.forecaster_)
            forecaster.fitted_ = forecaster.fitted_.with_rows(*align_rows(rows, inputs, None))
        self._cur_y, self._cur_X, self.forecaster_ = rows, inputs, forecaster
        return self

    def _select_columns(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the columns of ``fit``, in its order."""
        if self._cur_X is None:
            raise ValueError("X must not be given: fit had none")
        expected = self._cur_X.columns
        if len(expected.difference(X.columns)):
            raise ValueError(f"X must have the columns {list(expected)} of fit, got {list(X.columns)}")
        return X[expected]

    # ---------------------------------------------------------------- forecasting

    def _predict(self, fh: ForecastingHorizon, X: pd.DataFrame | None) -> pd.Series:
        return pd.Series(self._margins(fh, X).median, index=self._index(fh), name=self._cur_y.name)

    def _predict_quantiles(self, fh: ForecastingHorizon, X: pd.DataFrame | None, alpha: Sequence[float]) -> pd.DataFrame:
        return self._frame(fh, self._margins(fh, X).quantile(alpha), self._get_columns(method="predict_quantiles", alpha=alpha))

    def _predict_interval(self, fh: ForecastingHorizon, X: pd.DataFrame | None, coverage: Sequence[float]) -> pd.DataFrame:
        levels = [0.5 + sign * 0.5 * one for one in coverage for sign in (-1.0, 1.0)]
        columns = self._get_columns(method="predict_interval", coverage=coverage)
        return self._frame(fh, self._margins(fh, X).quantile(levels), columns)

    def _predict_var(self, fh: ForecastingHorizon, X: pd.DataFrame | None = None, cov: bool = False) -> pd.DataFrame:
        if cov:
            raise NotImplementedError("cov must be False: forecasts have no covariances between steps")
        return self._frame(fh, self._margins(fh, X).var[None], self._get_varnames())

    def _predict_proba(self, fh: ForecastingHorizon, X: pd.DataFrame | None, marginal: bool = True) -> SeriesDistribution:
        from pesn.adapters.sktime.distribution import make_distribution  # only distributions need skpro

        if not marginal:
            raise NotImplementedError("marginal must be True: each step has a distribution of its own, and none is joint")
        return make_distribution(self._margins(fh, X), index=self._index(fh), columns=self._get_varnames())

    def _frame(self, fh: ForecastingHorizon, values: Array, columns: pd.Index) -> pd.DataFrame:
        return pd.DataFrame(values.T, index=self._index(fh), columns=columns)

    def _steps(self, fh: ForecastingHorizon) -> Places:
        """Return the number of steps from the last observation to each of ``fh``."""
        apart, spacing = np.asarray(fh.to_relative(self.cutoff), np.int64), _spacing(self._cur_y.index)
        if (apart % spacing).any():
            raise ValueError(f"fh must be multiples of {spacing}, as rows are numbered in steps of it, got {apart.tolist()}")
        return apart // spacing

    def _margins(self, fh: ForecastingHorizon, X: pd.DataFrame | None) -> Margins:
        """Return the distributions of the steps of ``fh``."""
        steps = self._steps(fh)
        pieces = [_forecast_past(self.forecaster_.fitted_, int(step)) for step in steps[steps <= 0]]
        ahead = steps[steps > 0]
        if len(ahead):
            farthest = int(ahead.max())
            whole = self.forecaster_.forecast(farthest, self._future_inputs(X, farthest, ahead)).margins[0]
            pieces.append(whole[ahead - 1])
        return Margins.concatenate(pieces)

    def _future_inputs(self, X: pd.DataFrame | None, horizon: int, wanted: Places) -> Array | None:
        """Return the future covariates (horizon, u): those that are wanted must be there, others may be missing."""
        if X is None:
            return None
        known = self._select_columns(X)
        steps = _spacing(self._cur_y.index) * np.arange(1, horizon + 1)
        labels = self._index(ForecastingHorizon(steps, is_relative=True))
        missing = labels[wanted - 1].difference(known.index)
        if len(missing):
            raise ValueError(f"X must have a row for each step of fh, got none at {missing[0]}")
        return known.reindex(labels).to_numpy(np.float64)

    def _index(self, fh: ForecastingHorizon) -> pd.Index:
        """Return the labels of ``fh``; sktime makes none of dates without a frequency, as with missing rows, nor of durations."""
        fitted, labels = self.forecaster_.fitted_, self._cur_y.index
        unknown = labels.dtype.kind == "m" or (labels.dtype.kind == "M" and labels.freq is None)
        if not fh.is_relative or fitted.time is None or not unknown:
            return fh.to_absolute_index(self.cutoff)
        rows = len(fitted.y) - 1 + np.asarray(fh.to_pandas(), np.int64)
        return fitted.time.onwards(int(rows.max()) + 1)[rows]

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters that sktime's own checks are quick with."""
        return [{"horizon": 2, "season": None}, {"season": 4}]


def _spacing(index: pd.Index) -> int:
    """Return the step of an integer index, which sktime takes for 1; 1 for dates, whose steps it knows."""
    return int(np.gcd.reduce(np.diff(index.to_numpy()))) if index.dtype.kind in "iu" and len(index) > 1 else 1


def _fit_up_to_cutoff(forecaster: SeriesForecaster, y: pd.Series, X: pd.DataFrame | None) -> SeriesForecaster:
    """Fit to y up to its last number, and count the steps of forecasts from its last row, which may have none."""
    stop = find_span(y.to_numpy(np.float64))[1]
    forecaster.fit(y.iloc[:stop], None if X is None else X.iloc[:stop])
    if stop < len(y):
        forecaster.fitted_ = forecaster.fitted_.with_rows(*align_rows(y, X, None))
    return forecaster


def _forecast_past(fitted: FittedSeries, step: int) -> Margins:
    """Forecast the observation ``step`` ≤ 0 from the last, from those before it; NaN where there are none."""
    y, x = fitted.y, fitted.x
    row = len(y) - 1 + step
    if row < 0:
        raise ValueError(f"fh must not go back beyond the first of {len(y)} rows, got {step}")
    if np.isnan(y[:row]).all():
        return Margins(np.array([np.nan]), np.array([np.nan]), np.inf)
    return fitted.models[0].with_rows(y[:row, 0], x[:row]).forecast(1, x[row : row + 1])
