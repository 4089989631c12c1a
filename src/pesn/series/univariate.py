"""Automatic univariate forecasting: an ensemble of smoothers, autoregression and reservoirs, weighted by backtests.

>>> import numpy as np
>>> t = np.arange(60)
>>> model = fit(100.0 + t + 10.0 * np.sin(np.pi * t / 6), horizon=12, seasons=(12,))
>>> model.seasons, model.forecast(3).median.round(0).tolist()
((12,), [160.0, 166.0, 171.0])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import NamedTuple

import numpy as np

from pesn._support.arguments import flag, number, whole_number
from pesn._support.records import check_array, check_sum, check_type
from pesn._support.types import Array
from pesn.series.members import closed_loops, counts, decomposition, dynamics, smoothing, weights
from pesn.series.result import NORMAL, Margins

FEWEST = 8  # least number of observations for rolling-origin evaluation
POSITIVE = 1e-100  # observations below this fraction of the largest one count as zero
EXPONENTIAL = 0.25  # exponential trends are used if their relative error is at most this: many are far too steep
WORSE = 0.5  # relative increase of the mean error above which closed loops are rejected
MEMORIES = (1.0, 0.7, 0.0)  # autocorrelations of errors that are tried in regressions on covariates
LEAST_REST = 0.1  # of the smallest observation, below which the rest of a positive series without covariates is not used
INPUTS_GAIN = 0.99  # covariates are used if their relative error is at most this
_DETAILS = {"AR": "5 lags, gap to a moving average", "reservoir": "3 of 50 units"}
_MOST = 1e308
_MOST_EMPTY = 1_000_000  # largest number of missing observations at either end


@dataclass(frozen=True, eq=False)
class Member:
    """Component of the ensemble, for the summary.

    Attributes
    ----------
    kind : {"SES", "theta", "damped", "Holt", "momentum", "naive", "AR", "reservoir", "dynamics", "counts"}
        Type of model.
    detail : str
        Description of its parameters.
    weight : float
        Weight in the forecast; all add up to 1.
    score : float
        Rolling-origin error relative to the best component's.
    """

    kind: str
    detail: str
    weight: float
    score: float

    def check(self, name: str) -> None:
        """Raise a ValueError if a field is invalid."""
        check_type(f"{name}.kind", self.kind, str)
        check_type(f"{name}.detail", self.detail, str)
        number(f"{name}.weight", self.weight, 0.0, np.inf, "[)")
        number(f"{name}.score", self.score, 0.0, np.inf, "[]")


class _Decomposition(NamedTuple):
    """Components ``level``, ``season`` and ``inputs`` (n + horizon,), and the forecast (horizon,), of the scaled series."""

    level: Array
    season: Array
    inputs: Array
    forecast: Array


@dataclass(frozen=True, eq=False)
class UnivariateModel:
    """Fitted ensemble for one series, with the observations that forecasts start from.

    Attributes
    ----------
    y : array of shape (n,)
        Series from the first observation to the last, NaN where missing.
    x : array of shape (n, u)
        Covariates.
    horizon : int
        Number of steps over which weights and interval widths were estimated.
    seasons : tuple of int
        Seasonal periods in time steps, in increasing order.
    members : tuple of Member
        Components, in decreasing order of their weights.
    shares : mapping of str to float
        Weight of each type of component ("statistical" for all smoothers); they add up to 1.
    notes : tuple of str
        Decisions of model selection, one sentence each.
    scale : float
        Scale of the series: the largest absolute observation of the fit.
    positive : bool
        Whether all observations are positive.
    lower : float
        Lower bound of forecasts.
    stack : Grid
        Smoothers.
    weight : array of shape (K,)
        Weights of the smoothers.
    first : array of shape (3, Σm)
        Initial seasonal components.
    loops : Loops or None
        Autoregression, reservoirs and dynamics, if used.
    effects : Effects
        Effects of covariates.
    widths : Widths
        Scale of the forecast errors by lead.
    phase : int, default=0
        Position of y[0] in the seasonal cycle.
    start : int, default=0
        Number of missing observations before y[0].
    pending : array of shape (k, u), optional
        Covariates of the k time steps after the last observation. Forecasts start after these.
    counts : Counts, optional
        Distribution of counts, used instead of the errors of the other components.
    """

    y: Array
    x: Array
    horizon: int
    seasons: tuple[int, ...]
    members: tuple[Member, ...]
    shares: Mapping[str, float]
    notes: tuple[str, ...]
    scale: float
    positive: bool
    lower: float
    stack: smoothing.Grid
    weight: Array
    first: Array
    loops: closed_loops.Loops | None
    effects: decomposition.Effects
    widths: weights.Widths
    phase: int = 0
    start: int = 0
    pending: Array | None = None
    counts: counts.Counts | None = None

    @property
    def late(self) -> int:
        """Number of time steps after the last observation."""
        return 0 if self.pending is None else len(self.pending)

    @property
    def rows(self) -> int:
        """Number of time steps, including missing observations at both ends."""
        return self.start + len(self.y) + self.late

    @property
    def column(self) -> Array:
        """Series over all time steps, NaN where missing."""
        return np.pad(self.y, (self.start, self.late), constant_values=np.nan)

    @property
    def inputs(self) -> Array:
        """Covariates of all time steps, NaN before the first observation."""
        rows = self.x if self.pending is None else np.concatenate([self.x, self.pending])
        return np.pad(rows, ((self.start, 0), (0, 0)), constant_values=np.nan)

    def check(self, name: str) -> None:
        """Raise a ValueError if fields are invalid or inconsistent; the compiled kernels do not check bounds.

        Parameters
        ----------
        name : str
            Name of the record, for the message.
        """
        check_array(f"{name}.y", self.y, (None,), missing=True)
        check_array(f"{name}.x", self.x, (len(self.y), None), missing=True)
        if np.isnan(self.y).all():
            raise ValueError(f"{name}.y must hold at least one number")
        whole_number(f"{name}.start", self.start, 0)
        if self.pending is not None:
            check_array(f"{name}.pending", self.pending, (None, self.x.shape[1]), missing=True)
        for part, count in (("start", self.start), ("pending", self.late)):
            number(f"{name}.{part}: rows", count, 0, _MOST_EMPTY, "[]")
        whole_number(f"{name}.horizon", self.horizon, 1)
        number(f"{name}.scale", self.scale, 0.0, float(np.finfo(float).max), "(]")
        if self.lower != -np.inf:
            number(f"{name}.lower", self.lower, 0.0, self.scale, "[]")
        flag(f"{name}.positive", self.positive)
        self._check_seasons(name)
        self._check_parts(name)
        self._check_description(name)

    def _check_seasons(self, name: str) -> None:
        check_type(f"{name}.seasons", self.seasons, tuple, int)
        if any(m < 2 for m in self.seasons) or [*self.seasons] != sorted({*self.seasons}):
            raise ValueError(f"{name}.seasons must be increasing numbers, 2 or more, got {self.seasons}")
        check_array(f"{name}.first", self.first, (3, sum(self.seasons)))
        if self.positive:
            check_array(f"{name}.first[1]", self.first[1], (None,), low=np.finfo(float).tiny)
        whole_number(f"{name}.phase", self.phase, 0)
        if self.phase >= lcm(*self.seasons):
            raise ValueError(f"{name}.phase must be below {lcm(*self.seasons)}, when all seasons begin again, got {self.phase}")

    def _check_parts(self, name: str) -> None:
        check_type(f"{name}.stack", self.stack, smoothing.Grid)
        self.stack.check(f"{name}.stack", self.positive)
        check_array(f"{name}.weight", self.weight, (len(self.stack.names),), low=0.0)
        check_sum(f"{name}.weight", self.weight)
        if self.loops is not None:
            check_type(f"{name}.loops", self.loops, closed_loops.Loops)
            self.loops.check(f"{name}.loops", self.seasons[0] if self.seasons else 0, self.positive)
        check_type(f"{name}.effects", self.effects, decomposition.Effects)
        self.effects.check(f"{name}.effects", self.x.shape[1])
        check_type(f"{name}.widths", self.widths, weights.Widths)
        self.widths.check(f"{name}.widths")
        if self.counts is not None:
            check_type(f"{name}.counts", self.counts, counts.Counts)
            self.counts.check(f"{name}.counts")
            check_array(f"{name}.y", self.y, (None,), low=0.0, high=counts.LARGEST if self.counts.whole else np.inf, missing=True)
        if (self.effects.log or self.widths.log) and not self.positive:
            raise ValueError(f"{name} must be positive, as its effects or widths are those of logarithms")

    def _check_description(self, name: str) -> None:
        """Check the fields that are used for the summary."""
        check_type(f"{name}.notes", self.notes, tuple, str)
        check_type(f"{name}.members", self.members, tuple, Member)
        for i, member in enumerate(self.members):
            member.check(f"{name}.members[{i}]")
        check_sum(f"{name}.members: weights", [member.weight for member in self.members])
        check_type(f"{name}.shares", self.shares, dict)
        for kind, share in self.shares.items():
            number(f"{name}.shares[{kind!r}]", share, 0.0, np.inf, "[)")
        check_sum(f"{name}.shares", [*self.shares.values()])

    def forecast(self, horizon: int, x: Array | None = None) -> Margins:
        """Forecast ``horizon`` steps after the last time step given.

        Parameters
        ----------
        horizon : int
            Number of steps.
        x : array of shape (horizon, u), optional
            Future covariates, NaN where unknown.

        Returns
        -------
        Margins
            Distribution of each step.
        """
        whole = self._forecast_with_pending(horizon, x)
        return whole[self.late :] if self.late else whole

    def _forecast_with_pending(self, horizon: int, x: Array | None) -> Margins:
        """Forecast the pending time steps and the ``horizon`` steps after them."""
        smooth = self._forecast_smooth(horizon, x)
        return smooth if self.counts is None or np.nanmin(self.y) < 0.0 else self.counts.forecast(self.y, smooth)

    def _forecast_smooth(self, horizon: int, x: Array | None) -> Margins:
        """Forecast by Student's t."""
        ahead, variance = self._future_inputs(horizon, x)
        location = self._decompose(ahead).forecast
        scale = self.widths.scale_by_step(len(ahead))
        log, lower, joint = self.widths.log, self.lower, (self.widths.common, self.widths.memory)
        if log and not location.min() > 0.0:  # possible after with_rows
            log, lower, scale = False, -np.inf, scale * float(np.nanmean(np.abs(self.y))) / self.scale
        if log:
            if not self.effects.log:
                variance = variance / location**2
            spread = np.sqrt(scale**2 + variance)
            return Margins(np.log(location) + np.log(self.scale), spread, self.widths.dof, True, 0.0, *joint)
        if self.effects.log:
            variance = variance * location**2
        with np.errstate(over="ignore"):
            location, scale = np.clip(location * self.scale, -_MOST, _MOST), np.sqrt(scale**2 + variance) * self.scale
        # extreme quantiles must be finite too
        return Margins(location, np.minimum(scale, 0.1 * (1.5 * _MOST - np.abs(location))), self.widths.dof, False, lower, *joint)

    def forecast_past(self, origins: Sequence[int], horizon: int, seasons: Sequence[int], tested: bool) -> list[Margins]:
        """Forecast from past origins, each with a model fitted only to the observations before it.

        An origin is the position of the first step to forecast. If the ensemble includes dynamics, whose fit takes seconds, the
        model is fitted once, before the earliest origin, and applied to the observations before each later origin. Forecasts of
        origins with no observation before them are NaN. ``seasons`` and ``tested`` are ``seasons`` and ``test_seasons`` of `fit`.
        """
        y, x = self.column, self.inputs

        def fit_past(origin: int) -> UnivariateModel:
            return fit(y[:origin], x[:origin], horizon=self.horizon, seasons=seasons, test_seasons=tested)

        usable = [origin for origin in origins if origin > self.start]
        early = fit_past(min(usable)) if usable and "dynamics" in self.shares else None
        found = []
        for origin in origins:
            if origin <= self.start:
                found.append(Margins(np.full(horizon, np.nan), np.full(horizon, np.nan), NORMAL))
                continue
            model = fit_past(origin) if early is None else early.with_rows(y[:origin], x[:origin])
            known = x[origin : origin + horizon]
            found.append(model.forecast(horizon, np.pad(known, ((0, horizon - len(known)), (0, 0)), constant_values=np.nan)))
        return found

    def components(self, horizon: int, x: Array | None = None) -> dict[str, Array]:
        """Return the additive components "level", "season" and "inputs", each (n + k + horizon,), in the units of y.

        Their sum is the fitted values, followed by the forecasts of the k pending time steps and of the horizon. "season" is
        absent if the series has no season, and "inputs" if no covariate is used.
        """
        found = self._decompose(self._future_inputs(horizon, x)[0])
        parts = {"level": found.level * self.scale}
        if self.seasons:
            parts["season"] = found.season * self.scale
        if self.effects.any:
            parts["inputs"] = found.inputs * self.scale
        return parts

    def predict_past(self) -> Margins:
        """Forecast each time step from those before it, with the components and weights fitted to all of them: (n,).

        NaN up to the first observation, and after the last one.
        """
        values = self.y / self.scale
        found = np.full(len(values), np.nan)
        if len(values) > 1 and not (self.positive and not np.nanmin(values) > 0.0):
            rows, base = self._prepare(values, 1)
            each = weights.Trial(np.arange(len(values) - 1), np.array([1]), np.zeros((0, 0)), len(values)).with_values(base)
            path = smoothing.path(rows, self.stack, self.weight, each)
            ahead = path.ahead[:, 0] if self.loops is None else self.loops.mix_past(path, base)
            found[1:] = self.effects.add(ahead, self.x[1:])
        log = self.widths.log
        with np.errstate(invalid="ignore", divide="ignore"):
            location = np.log(found) + np.log(self.scale) if log else found * self.scale
        scale = np.full(len(values), self.widths.scale_by_step(1)[0] * (1.0 if log else self.scale))
        location, scale = (np.pad(one, (self.start, self.late), constant_values=np.nan) for one in (location, scale))
        return Margins(location, scale, self.widths.dof, log, 0.0 if log else self.lower)

    def _prepare(self, values: Array, horizon: int) -> tuple[smoothing.Rows, Array]:
        """Return the data for the smoothers, and ``values`` (n,) without the effects of covariates and outliers."""
        base = self.effects.remove(values, self.x)
        if self.positive and not self.effects.log:  # later rows may be smaller than the effects
            base = np.maximum(base, LEAST_REST * np.nanmin(values))
        first = self.first[smoothing.LOG if self.positive else smoothing.ADDITIVE]
        season = decomposition.seasonal_component(first, self.seasons, len(values), self.phase)
        base = decomposition.remove_outliers(base, log=self.positive, season=season)
        rows = smoothing.prepare(base, self.seasons, horizon, positive=self.positive, first=self.first, phase=self.phase)
        return rows, base

    def with_rows(self, y: Array, x: Array | None = None, *, first: int = 0) -> UnivariateModel:
        """Apply the model to other data without refitting.

        ``first`` is the position of y[0] relative to the start of the data of `fit`; it determines the seasonal phase.
        """
        y, x = _check_rows(y, x)
        if x.shape[1] != self.x.shape[1]:
            raise ValueError(f"x must have {self.x.shape[1]} columns, got {x.shape[1]}")
        start, stop = find_span(y)
        phase = (self.phase + first + start - self.start) % lcm(*self.seasons)
        return replace(self, y=y[start:stop], x=x[start:stop], phase=phase, start=start, pending=_trailing_inputs(x, stop))

    def _future_inputs(self, horizon: int, x: Array | None) -> tuple[Array, Array]:
        """Impute covariates of pending and future time steps; also return the variance of their effects due to imputation."""
        if horizon < 1:
            raise ValueError(f"horizon must be at least 1, got {horizon}")
        u = self.x.shape[1]
        given = np.full((horizon, u), np.nan) if x is None else np.asarray(x, dtype=float)
        if given.shape != (horizon, u):
            raise ValueError(f"x must be ({horizon}, {u}), got {given.shape}")
        return self.effects.fill_unknown(self.x, given if self.pending is None else np.concatenate([self.pending, given]))

    def _decompose(self, ahead: Array) -> _Decomposition:
        """Decompose fitted values and forecast, given future covariates ``ahead`` (horizon, u), into level, season and inputs."""
        values, n, horizon = self.y / self.scale, len(self.y), len(ahead)
        if self.positive and not np.nanmin(values) > 0.0:  # logarithms are undefined: use the naive forecast
            rows = smoothing.prepare(values, (), horizon, positive=False)
            path = smoothing.path(rows, smoothing.NAIVE, np.ones(1), horizon=horizon)
            level = np.concatenate([path.level, path.plain])
            return _Decomposition(level, 0.0 * level, 0.0 * level, path.forecast)
        rows, base = self._prepare(values, horizon)
        path = smoothing.path(rows, self.stack, self.weight, horizon=horizon)
        whole, plain = (path.forecast, path.plain) if self.loops is None else self.loops.mix(path, base, horizon)
        level, seasonal = np.concatenate([path.level, plain]), np.concatenate([path.fitted, whole])
        total = self.effects.add(seasonal, np.concatenate([self.x, ahead]))
        return _Decomposition(level, seasonal - level, total - seasonal, total[n:])


def find_span(y: Array) -> tuple[int, int]:
    """Return the position of the first observation of y (n,), and the position after the last one.

    >>> find_span(np.array([np.nan, 1.0, np.nan, 3.0, np.nan]))
    (1, 4)
    """
    seen = np.flatnonzero(np.isfinite(y))
    if not len(seen):
        raise ValueError(f"y must hold at least one number, got none in {len(y)} rows")
    return int(seen[0]), int(seen[-1]) + 1


def _trailing_inputs(x: Array, stop: int) -> Array | None:
    """Return the covariates from position ``stop`` on, or None if there are none."""
    return x[stop:] if stop < len(x) else None


def _check_rows(y: Array, x: Array | None) -> tuple[Array, Array]:
    """Validate y (n,) and x (n, u); return copies with infinite values replaced by NaN."""
    y = np.array(y, dtype=float)
    if y.ndim != 1:
        raise ValueError(f"y must be one column (n,), got {y.shape}")
    given = np.zeros((len(y), 0)) if x is None else np.array(x, dtype=float)
    if given.ndim != 2 or len(given) != len(y):
        raise ValueError(f"x must be ({len(y)}, u), got {given.shape}")
    for values in (y, given):
        values[~np.isfinite(values)] = np.nan
    return y, given


# ---------------------------------------------------------------- fit


class _Settings(NamedTuple):
    """Arguments of `fit`, whether the series is positive, and its scale."""

    horizon: int
    candidates: Sequence[int]
    tested: bool
    positive: bool
    parts: Sequence[str]
    unit: float

    def find_seasons(self, values: Array) -> tuple[int, ...]:
        """Return the seasonal periods of ``values`` (n,)."""
        return decomposition.find_seasons(values, self.candidates, log=self.positive, tested=self.tested)

    def prepare(self, values: Array, periods: Sequence[int]) -> tuple[smoothing.Rows, Array]:
        """Return the data for the smoothers and the seasonal component (n,), of the logarithm if the series is positive."""
        rows = smoothing.prepare(values, periods, self.horizon, positive=self.positive)
        first = rows.first[smoothing.LOG if self.positive else smoothing.ADDITIVE]
        return rows, decomposition.seasonal_component(first, periods, len(values))


class _Stack(NamedTuple):
    """Selected smoothers with weights and scores, the best score, and the errors (K, J) of the whole grid."""

    members: smoothing.Grid
    weight: Array
    score: Array
    best: float
    errors: Array
    grid: smoothing.Grid


def fit(
    y: Array,
    x: Array | None = None,
    *,
    horizon: int,
    seasons: Sequence[int] = (),
    test_seasons: bool = True,
    parts: Sequence[str] = ("AR", "reservoir", "dynamics"),
) -> UnivariateModel:
    """Fit the ensemble to one series: select seasons and covariates, and estimate weights and interval widths.

    Missing values at either end are not used in the fit; forecasts still start after the last time step given.

    Parameters
    ----------
    y : array of shape (n,)
        Series, NaN where missing; at least one observation.
    x : array of shape (n, u), optional
        Covariates of the same time steps, NaN where missing.
    horizon : int
        Number of steps over which weights and interval widths are estimated.
    seasons : sequence of int, default=()
        Candidate seasonal periods in time steps, such as (12,) or (24, 168).
    test_seasons : bool, default=True
        Whether seasons are tested for significance; False keeps all that can be estimated.
    parts : sequence of str, default=("AR", "reservoir", "dynamics")
        Components allowed in addition to the smoothers; each requires those before it.

    Returns
    -------
    UnivariateModel
    """
    y, x = _check_rows(y, x)
    if horizon < 1:
        raise ValueError(f"horizon must be at least 1, got {horizon}")
    start, stop = find_span(y)
    pending = _trailing_inputs(x, stop)
    y, x = y[start:stop], x[start:stop]
    scale, least = float(np.nanmax(np.abs(y))) or 1.0, float(np.nanmin(y))
    settings = _Settings(horizon, seasons, test_seasons, least > POSITIVE * scale, parts, scale)
    chosen = (_fit_scaled if np.sum(~np.isnan(y)) >= FEWEST else _fit_naive)(y / scale, x, settings)
    # lower bound: a tenth of the smallest observation if all are positive, 0 if none is negative
    lower = 0.1 * least if settings.positive else 0.0 if least >= 0.0 else -np.inf
    return replace(chosen, y=y, scale=scale, lower=lower, start=start, pending=pending)


def _fit_naive(values: Array, x: Array, settings: _Settings) -> UnivariateModel:
    """Fit the naive forecast with wide intervals, for series with few observations."""
    seen, positive = values[~np.isnan(values)], settings.positive
    changes = np.diff(seen)
    usual = float(np.mean(np.abs(seen))) or 1.0
    # prior: two pseudo-observations of changes of a fifth of the mean level
    spread = np.sqrt((np.sum(changes**2) + 2.0 * (0.2 * usual) ** 2) / (len(changes) + 2.0))
    return UnivariateModel(
        values, x, settings.horizon, (),
        members=(Member("naive", "the last number", 1.0, 1.0),), shares={"statistical": 1.0},
        notes=(f"with fewer than {FEWEST} observations, the naive forecast is used",), scale=1.0, positive=positive,
        lower=-np.inf, stack=smoothing.NAIVE, weight=np.ones(1), first=np.zeros((3, 0)), loops=None,
        effects=decomposition.no_effects(x.shape[1]),
        widths=weights.Widths(np.array([1]), np.array([spread / usual if positive else spread]), 0.5, 4.0, positive),
    )  # fmt: skip


def _fit_scaled(values: Array, x: Array, settings: _Settings) -> UnivariateModel:
    """Select and fit all components for scaled ``values`` (n,)."""
    positive = settings.positive
    periods = settings.find_seasons(values)
    trial = weights.trial(values, settings.horizon, periods)
    effects, notes = _choose_effects(values, x, periods, trial, settings)
    base = effects.remove(values, x)
    if effects.any:
        periods = settings.find_seasons(base)
    rows, season = settings.prepare(base, periods)
    clean = decomposition.remove_outliers(base, log=positive, season=season)
    if clean is not base:
        notes += (f"outliers: {int(np.sum(clean != base) - np.sum(np.isnan(base)))} replaced by the local median",)
        rows, _ = settings.prepare(clean, periods)
    trial = trial.with_values(clean)
    stack = _choose_stack(rows, trial, seasonal=bool(periods), positive=positive)
    path = smoothing.path(rows, stack.members, stack.weight, trial)
    found, why = _choose_loops(path, clean, trial, periods[0] if periods else 0, settings)
    begin, ahead = (0, path.ahead) if found is None else (found.begin, found.ahead)
    # lower bound of the standard deviation: a millionth of the mean level
    least = 1e-6 * float(np.nanmean(np.abs(clean))) or 1e-6
    used = _degrees_of_freedom(stack, periods)
    widths = weights.learn(ahead[begin:], trial.select(slice(begin, None)), used, positive=positive, least=least)
    model = UnivariateModel(
        values, x, settings.horizon, periods,
        members=_describe_members(rows, stack, found, trial, periods),
        shares={"statistical": 1.0} if found is None else found.loops.all_shares,
        notes=notes + why, scale=1.0, positive=positive, lower=-np.inf,
        stack=stack.members, weight=stack.weight, first=rows.first, loops=None if found is None else found.loops, effects=effects,
        widths=widths,
    )  # fmt: skip
    return _add_counts(model, ahead[begin:], trial.select(slice(begin, None)), settings.unit)


def _add_counts(model: UnivariateModel, ahead: Array, trial: weights.Trial, unit: float) -> UnivariateModel:
    """Add a distribution of counts to the model of a scaled series, if it has any."""
    y = model.y * unit
    y = np.where(np.abs(y - np.round(y)) < 1e-9 * unit, np.round(y), y)
    if model.effects.any or not counts.is_intermittent(y):
        return model
    widths = model.widths if model.widths.log else replace(model.widths, deviations=model.widths.deviations * unit)
    found = counts.learn(y, ahead * unit, trial.with_values(y), widths)
    s = found.smoothers
    members = [replace(one, weight=one.weight * s) for one in model.members]
    members = sorted([Member("counts", found.detail, 1.0 - s, 1.0), *members], key=lambda one: -one.weight)
    shares = {"counts": 1.0 - s, **{kind: share * s for kind, share in model.shares.items()}}
    return replace(model, counts=found, members=tuple(members), shares=shares)


def _degrees_of_freedom(stack: _Stack, periods: Sequence[int]) -> float:
    """Return the effective number of parameters of the smoothers and seasons."""
    trend = float(stack.weight @ (stack.members.kinds[:, 0] > 0))
    return 1.0 + 1.5 * trend + 0.5 * sum(min(m - 1, 8) for m in periods)


def _choose_stack(rows: smoothing.Rows, trial: weights.Trial, *, seasonal: bool, positive: bool) -> _Stack:
    """Select and weight the smoothers by their errors."""
    members = everyone = smoothing.grid(seasonal, positive)
    errors = smoothing.rolling_errors(rows, everyone, trial)
    score = weights.scores(errors, trial)
    logs = members.kinds[:, 1] == smoothing.LOG
    if logs.any() and score[logs].min() > EXPONENTIAL * score[~logs].min():
        members, score = members.select(np.flatnonzero(~logs)), score[~logs]
    kept, weight = weights.stack(score, members.prior, trial.n)
    return _Stack(members.select(kept), weight, score[kept], float(score.min()), errors, everyone)


def _choose_effects(
    values: Array, x: Array, periods: Sequence[int], trial: weights.Trial, settings: _Settings
) -> tuple[decomposition.Effects, tuple[str, ...]]:
    """Estimate the effects of covariates if they reduce the rolling-origin error; also return a note on the decision.

    For the decision, effects are estimated on the first half of the data and evaluated on the second half.
    """
    nothing = decomposition.no_effects(x.shape[1])
    if x.shape[1] == 0:
        return nothing, ()
    half = len(values) // 2
    later = trial.select(trial.origins >= half)
    logs = settings.prepare(values, periods)[1]
    plain = decomposition.seasonal_component(decomposition.factors(values, periods), periods, len(values))
    forms = {(log, memory): logs if log else plain for log in {settings.positive, False} for memory in MEMORIES}

    def fit_form(form: tuple[bool, float], rows: int) -> decomposition.Effects:
        return decomposition.learn_effects(values[:rows], x[:rows], forms[form][:rows], log=form[0], memory=form[1])

    early = {form: fit_form(form, half + 1) for form in sorted(forms, reverse=True)}
    early = {form: one for form, one in early.items() if one.any and _leaves_positive(one, values, x, settings)}
    if not early:
        return nothing, (f"covariates: not used, no effect was found in the first {half} rows",)
    if len(later.origins) < 3:
        return nothing, (f"covariates: not used, {len(later.origins)} rolling origins are too few to evaluate them",)

    def error(effects: decomposition.Effects) -> float:
        rows, _ = settings.prepare(effects.remove(values, x), periods)
        stack = _choose_stack(rows, later, seasonal=bool(periods), positive=settings.positive)
        ahead = smoothing.path(rows, stack.members, stack.weight, later).ahead
        at = np.minimum(later.origins[:, None] + later.leads, len(values) - 1)
        off = np.abs(later.truth - effects.add(ahead.ravel(), x[at.ravel()]).reshape(ahead.shape))
        return float(np.nanmean(off[:, 0]) + np.nanmean(off))

    errors = {form: error(one) for form, one in early.items()}
    best = min(errors, key=lambda form: errors[form])
    ratio = errors[best] / max(error(nothing), 1e-300)
    change = f"rolling-origin error {describe_change(ratio - 1.0)} with them"
    if ratio > INPUTS_GAIN:
        return nothing, (f"covariates: not used, {change}",)
    whole = fit_form(best, len(values))
    if not _leaves_positive(whole, values, x, settings):
        return nothing, ("covariates: not used, without their effect the series would not be positive",)
    return whole, (f"covariates: used as {'factors' if best[0] else 'terms of a sum'}, {change}",)


def _leaves_positive(effects: decomposition.Effects, values: Array, x: Array, settings: _Settings) -> bool:
    """Return whether a positive series is positive without the effects too."""
    return not settings.positive or bool(np.nanmin(effects.remove(values, x)) > LEAST_REST * np.nanmin(values))


def _choose_loops(
    path: smoothing.Path, values: Array, trial: weights.Trial, season: int, settings: _Settings
) -> tuple[closed_loops.Learned | None, tuple[str, ...]]:
    """Fit autoregression, reservoirs and dynamics; return None if they are not used, and notes on the decisions."""
    parts, n = settings.parts, trial.n
    if "AR" not in parts:
        return None, ()
    if n < closed_loops.FEWER:
        return None, (f"AR and reservoir: not tried with fewer than {closed_loops.FEWER} observations",)
    many = n >= closed_loops.ROWS
    found = closed_loops.learn(
        path, values, trial, season, log=settings.positive, reservoirs=many and "reservoir" in parts
    )  # fmt: skip
    later = slice(found.begin, None)
    change, name = _relative_change(found.ahead[later], path.ahead[later], trial.select(later)), " and ".join(found.alone)
    error = f"rolling-origin error {describe_change(change)}"
    if not many and not found.loops.levels and change > closed_loops.FAR_BETTER - 1.0:
        least = f"{100.0 * (1.0 - closed_loops.FAR_BETTER):.0f} %"
        bar = f"with fewer than {closed_loops.ROWS} observations it has to be {least} lower"
        return None, (f"AR: not used, {error} with it; {bar}",)
    nonlinear = n >= dynamics.ROWS and found.gain <= dynamics.GAIN
    if "dynamics" in parts and not nonlinear and change > WORSE:
        return None, (f"{name}: not used, {error} with it",)
    notes = (f"{name}: {_describe_weight(found.loops, name)}; {error} than without",)
    if "dynamics" not in parts:
        return found, notes
    if not nonlinear:
        few = f" with fewer than {dynamics.ROWS} observations"
        reason = few if n < dynamics.ROWS else ", reservoirs are not far better than AR"
        return found, (*notes, f"dynamics: not tried{reason}")
    whole = closed_loops.learn_dynamics(found, path, values, trial)
    if whole is None:
        return found, (*notes, "dynamics: tried, but no network was found")
    change = _relative_change(whole.ahead[whole.begin :], found.ahead[whole.begin :], trial.select(slice(whole.begin, None)))
    why = f"dynamics: tried, as reservoirs are far better than AR; rolling-origin error {describe_change(change)} with it"
    return whole, (*notes, why)


def _describe_weight(loops: closed_loops.Loops, name: str) -> str:
    """Describe the weight of components, a posterior mean, and its prior mean, which dominates if errors differ little."""
    first = weights.prior_mean(closed_loops.AR_PRIOR)
    second = weights.prior_mean(closed_loops.RESERVOIR_PRIOR) if "reservoir" in name else 0.0
    prior = 1.0 - (1.0 - first) * (1.0 - second)
    return f"{100.0 * sum(loops.shares):.0f} % beside the smoothers, a priori {100.0 * prior:.0f} %"


def _relative_change(ahead: Array, before: Array, trial: weights.Trial) -> float:
    """Return the relative change of the mean absolute error of ``ahead`` from ``before``."""
    return weights.mean_error(ahead, trial) / max(weights.mean_error(before, trial), 1e-300) - 1.0


def describe_change(change: float) -> str:
    """Describe a relative change of an error in words.

    >>> [describe_change(change) for change in (0.03, -0.25, -0.9999, 0.001, 0.0)]
    ['3 % higher', '25 % lower', 'more than 99 % lower', 'less than 1 % higher', 'no higher']
    """
    if change == 0.0:
        return "no higher"
    size = 100.0 * abs(change)
    text = "less than 1" if size < 0.5 else "more than 99" if change < -0.99 else f"{size:.0f}"
    return f"{text} % {'higher' if change > 0.0 else 'lower'}"


def _score_loops(rows: smoothing.Rows, stack: _Stack, found: closed_loops.Learned, trial: weights.Trial) -> dict[str, float]:
    """Score each component alone, as the smoothers are scored; dynamics only at the origins used to evaluate it."""
    scored = {}
    for kind, ahead in found.alone.items():
        begin, errors, part = 0 if found.loops.dynamics is not None and kind != "dynamics" else found.begin, stack.errors, trial
        if begin:
            part = trial.select(slice(begin, None))
            errors = smoothing.rolling_errors(rows, stack.grid, part)
        own = np.nansum(np.abs(part.truth - ahead[begin:]), axis=0) / np.maximum(part.counts, 1)
        scored[kind] = float(weights.scores(own[None], part, errors)[0])
    return scored


def _describe_members(
    rows: smoothing.Rows, stack: _Stack, found: closed_loops.Learned | None, trial: weights.Trial, periods: Sequence[int]
) -> tuple[Member, ...]:
    """Return the components for the summary, in decreasing order of their weights."""
    own = {} if found is None else _score_loops(rows, stack, found, trial)
    shares = {"statistical": 1.0} if found is None else found.loops.all_shares
    best = max(min([stack.best, *(own[kind] for kind in own if shares[kind] > 0.0)]), 1e-300)
    weight, score = stack.weight * shares["statistical"], stack.score / best
    smoothers = [
        Member(name, stack.members.detail(k, periods), float(weight[k]), float(score[k]))
        for k, name in enumerate(stack.members.names)
    ]
    details = {**_DETAILS}
    if found is not None and found.loops.levels:
        details["AR"] = f"{closed_loops.LEVEL_LAGS} lags of the level"
    if found is not None and found.loops.dynamics is not None:
        details["dynamics"] = found.loops.dynamics.detail
    loops = [Member(kind, details[kind], shares[kind], own[kind] / best) for kind in own if shares[kind] > 0.0]
    return tuple(sorted([*smoothers, *loops], key=lambda member: -member.weight))
