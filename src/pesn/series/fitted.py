"""A fitted series: one model a column, the labels that its rows go on with, and what it says of itself.

`pesn forecast` and :class:`pesn.SeriesForecaster` are shells over this module.

>>> t = np.arange(120.0)
>>> y = (10.0 + 0.1 * t + np.sin(2 * np.pi * t / 12))[:, None]
>>> fitted = fit_columns(y, names=("sales",), seasons=(12,), horizon=6)
>>> fitted.forecast(6).mean.shape, fitted.seasons
((6, 1), (12,))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pesn._support.checks import flag, whole_number
from pesn._support.records import check_array, check_type
from pesn._support.types import Array
from pesn.forecasting.time_index import TimeIndex
from pesn.learning.backtest import observed_after
from pesn.series import joint, judging, univariate
from pesn.series.joint import Joint
from pesn.series.judging import SeriesBacktest
from pesn.series.margins import Margins
from pesn.series.members.designs import FARTHEST
from pesn.series.periods import candidates
from pesn.series.result import SeriesForecast
from pesn.series.univariate import Member, UnivariateModel

__all__ = ["FittedSeries", "Seasons", "check_horizon", "default_horizon", "fit_columns", "most_ahead"]

Seasons = Literal["auto"] | int | Sequence[int] | None  # None or 1: none
Progress = Callable[[int, int], None] | None
_SHOWN = 200  # rows before the forecast that pictures show
_MOST_AHEAD, _LEAST_AHEAD = 10, 100  # steps ahead: times the rows there are; and what is always allowed


@dataclass(frozen=True, eq=False)
class FittedSeries:
    """What was learnt from d columns.

    Parameters
    ----------
    models
        A column each.
    names, inputs
        Of the columns, and of the known inputs.
    time
        The rule of the rows' labels, at the first one; None where they have none.
    periods
        Periods of seasons that were looked for; ``tested``: whether they had to prove themselves.
    joint
        The learnt dynamics of all columns, in the place of the models' forecasts, where it was found to be better.
    """

    models: tuple[UnivariateModel, ...]
    names: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    time: TimeIndex | None = None
    periods: tuple[int, ...] = ()
    tested: bool = True
    joint: Joint | None = None

    def check_stored(self) -> None:
        """Raise a ValueError, which names the field, unless forecasts can be made of it: asked of a series from a file."""
        check_type("models", self.models, tuple, UnivariateModel)
        if not self.models:
            raise ValueError("models must have a model for each column, got none")
        first = self.models[0]
        for i, model in enumerate(self.models):
            model.check(f"models[{i}]")
            check_horizon(f"models[{i}].horizon", model.horizon, len(model.y))
            if (len(model.y), model.horizon) != (len(first.y), first.horizon) or not np.array_equal(model.x, first.x, True):
                raise ValueError(f"models[{i}] must have as many rows, the horizon and the inputs of models[0]")
        for name, names, count in (("names", self.names, len(self.models)), ("inputs", self.inputs, first.x.shape[1])):
            check_type(name, names, tuple, str)
            if len({*names}) != count or len(names) != count:
                raise ValueError(f"{name} must be {count} different names, got {names}")
        check_type("periods", self.periods, tuple, int)
        if any(m < 2 for m in self.periods):
            raise ValueError(f"periods must be 2 or more, got {self.periods}")
        flag("tested", self.tested)
        if self.time is not None:
            check_type("time", self.time, TimeIndex)
            self.time.check("time")
        if self.joint is not None:
            check_type("joint", self.joint, Joint)
            self.joint.check("joint", len(self.models))
            check_array("y, beside joint", self.y, (None, None), low=-FARTHEST, high=FARTHEST)
            if self.inputs:
                raise ValueError("joint must be None of series with inputs")
        self._check_trial()

    def _check_trial(self) -> None:
        """Raise a ValueError unless forecasts are finite; learned dynamics, which take seconds, are checked by their fit."""
        with np.errstate(all="ignore"):
            for i, model in enumerate(self.models):
                loops = None if model.loops is None else replace(model.loops, dynamics=None)
                margins = replace(model, loops=loops).forecast(self.horizon)
                if not (np.isfinite(margins.quantile([0.005, 0.5, 0.995])).all() and np.isfinite(margins.std).all()):
                    raise ValueError(f"models[{i}] must forecast finite numbers, got others in a trial")

    @property
    def horizon(self) -> int:
        """The steps ahead that members were weighed by."""
        return self.models[0].horizon

    @property
    def seasons(self) -> tuple[int, ...]:
        """Periods that were found in any column, the smallest first."""
        return tuple(sorted({period for one in self.models for period in one.seasons}))

    @property
    def y(self) -> Array:
        """The rows that it was fitted to, (n, d)."""
        return np.column_stack([one.y for one in self.models])

    @property
    def x(self) -> Array:
        """Their inputs, (n, u)."""
        return self.models[0].x

    def labels(self, horizon: int) -> Any:
        """Of the n rows and of ``horizon`` more, a pandas index; None where there are none, or pandas has no such dates."""
        try:
            return None if self.time is None else self.time.onwards(len(self.models[0].y) + horizon)
        except (ValueError, OverflowError):
            return None

    def forecast(self, horizon: int, x: Array | None = None) -> SeriesForecast:
        """The next ``horizon`` rows; x (horizon, u) are their inputs, NaN where they are not known."""
        if self.joint is None:
            margins = tuple(one.forecast(horizon, x) for one in self.models)
        else:
            margins = self.joint.forecast(self.y, horizon, [one.lower for one in self.models])
        labels = self.labels(horizon)
        ahead = None if labels is None else labels[-horizon:]
        return SeriesForecast(margins, self.names, ahead, self.y[-max(_SHOWN, 4 * horizon) :])

    def backtest(self, horizon: int, origins: Any, progress: Progress = None) -> SeriesBacktest:
        """Forecasts from ``origins``, rows of y, each by a model that was fitted to the rows before it alone; beside rivals.

        Learnt dynamics, which take seconds to find, are those of the rows before the earliest origin.
        """
        y, x, places = self.y, self.x, np.asarray(origins, np.intp)
        found = None
        if self.joint is not None:
            found = joint.past_forecasts(y, places, horizon, [one.lower for one in self.models])
        if found is None:
            columns = []
            for i, model in enumerate(self.models):
                columns.append(self._past_forecasts(model, x, places, horizon))
                if progress is not None:
                    progress(i + 1, len(self.models))
            found = list(zip(*columns, strict=True))
        rivals = {"persistence": judging.naive(y, places, horizon, 1, self.names)}
        if self.seasons:
            rivals["seasonal-naive"] = judging.naive(y, places, horizon, self.seasons[0], self.names)
        observed = observed_after(y, places, horizon)
        return SeriesBacktest(places, tuple(found), observed, self.names, self.labels(0), rivals)

    def _past_forecasts(self, model: UnivariateModel, x: Array, places: Any, horizon: int) -> list[Margins]:
        """Of one column."""
        return univariate.backtest(
            model.y, x, horizon=horizon, origins=places.tolist(), seasons=self.periods, test_seasons=self.tested,
            weighed=self.horizon, once="dynamics" in model.shares,  # which were tried: a search takes seconds
        )  # fmt: skip

    def on(self, y: Array, x: Array | None = None, time: TimeIndex | None = None, first: int = 0) -> FittedSeries:
        """The same members, weights and widths on other rows y (n, d), with inputs x (n, u): nothing is learnt anew.

        ``first`` is the place of their first row, counted from the first row of the fit: seasons go on from there.
        """
        models = tuple(one.on(y[:, i], x, first=first) for i, one in enumerate(self.models))
        return replace(self, models=models, time=time)

    def summary(self) -> str:
        """Which members each column's forecast is made of, and why."""
        return "\n\n".join(_described(name, one) for name, one in zip(self.names, self.models, strict=True))


def fit_columns(
    y: Array,
    x: Array | None = None,
    *,
    names: Sequence[str],
    inputs: Sequence[str] = (),
    time: TimeIndex | None = None,
    seasons: Seasons = "auto",
    horizon: int | None = None,
    progress: Progress = None,
) -> FittedSeries:
    """A model for each column of y (n, d), NaN where missing, with known inputs x (n, u), each row's own."""
    n, d = y.shape
    periods, tested = _periods(y, time, seasons)
    steps = default_horizon(n, periods) if horizon is None else horizon
    models = []
    for i in range(d):
        models.append(univariate.fit(y[:, i], x, horizon=steps, seasons=periods, test_seasons=tested))
        if progress is not None:
            progress(i + 1, d)
    together = None if x is not None and x.shape[1] else joint.find(y, models, steps)
    if together is not None:
        models = [_joined(one, together) for one in models]
    return FittedSeries(tuple(models), tuple(names), tuple(inputs), time, periods, tested, together)


def _joined(model: UnivariateModel, found: Joint) -> UnivariateModel:
    """A column's model that says whose its forecast is."""
    note = f"dynamics of all columns: CRPS of past forecasts {100.0 * (1.0 - found.ratio):.0f} % lower than the columns' own"
    return replace(model, members=(Member("dynamics", found.detail, 1.0, 1.0),), shares={"dynamics": 1.0}, notes=(note,))


def check_horizon(name: str, horizon: object, n: int) -> None:
    """Refuse what is no number of steps ahead, or more than ten times the n rows there are."""
    whole_number(name, horizon, 1)
    if int(horizon) > most_ahead(n):  # type: ignore[call-overload]
        raise ValueError(f"{name} must be at most {most_ahead(n):,}, as there are {n:,} rows, got {horizon}")


def most_ahead(n: int) -> int:
    """Steps beyond which no forecast from n rows makes sense."""
    return max(_MOST_AHEAD * n, _LEAST_AHEAD)


def default_horizon(n: int, periods: Sequence[int]) -> int:
    """Steps ahead where nobody says how many: a season of up to 60 rows, or a tenth of n rows, 24 at most."""
    season = next((m for m in periods if 2 <= m <= 60 and 2 * m <= n), None)
    steps = min(24, max(1, n // 10)) if season is None else season
    return min(steps, max(1, n // 4))


def _periods(y: Array, time: TimeIndex | None, seasons: Seasons) -> tuple[tuple[int, ...], bool]:
    """Periods that a season may have, and whether rows have to show it."""
    if seasons is None:
        return (), True
    if isinstance(seasons, str):
        freq = time.step if time is not None and time.kind in ("dates", "periods") else None
        return tuple(sorted({m for column in y.T for m in candidates(column, freq)})), True
    given = [int(m) for m in np.ravel(np.asarray(seasons))]
    return tuple(sorted({m for m in given if m > 1})), False


def _described(name: str, model: UnivariateModel) -> str:
    seasons = ", ".join(f"{m} rows" for m in model.seasons) or "none"
    lines = [f"{name}: {int((~np.isnan(model.y)).sum()):,} rows, season {seasons}, weighed over {model.horizon} steps"]
    lines += [f"  {100.0 * share:3.0f} %  {kind}" for kind, share in model.shares.items()]
    lines += [f"  {100.0 * one.weight:5.1f} %  {one.kind} {one.detail}".rstrip() for one in model.members[:6]]
    if len(model.members) > 6:
        rest = sum(one.weight for one in model.members[6:])
        lines.append(f"  {100.0 * rest:5.1f} %  {len(model.members) - 6} others")
    return "\n".join([*lines, *(f"  {note}" for note in model.notes)])
