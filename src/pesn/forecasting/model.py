"""A fitted forecaster as a record: everything that was learned, and the predictions that follow from it.

Fit a :class:`pesn.Forecaster` and take its ``model_``: a model of raw rows, in the units of y. It is immutable, needs no
estimator to forecast, and is stored with any record that holds it (:mod:`pesn.persistence`).

>>> import numpy as np, pesn
>>> y = np.sin(0.2 * np.arange(400.0))
>>> model = pesn.Forecaster(pesn.ProbabilisticESN(30, random_state=0)).fit(y[:300]).model_
>>> bool(np.abs(model.forecast(10).mean[:, 0] - y[300:310]).max() < 0.01)
True
>>> later = model.update(y[300:320])                    # a new model; the old one is unchanged
>>> bool(np.abs(later.forecast(10).mean[:, 0] - y[320:330]).max() < 0.01)
True
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_count, as_real, flag, generator, whole_number
from pesn._support.records import check_array, check_field_types
from pesn._support.threads import one_blas_thread
from pesn._support.types import Array, RidgeValue, Rng, TableLike
from pesn.esn.probabilistic import ProbabilisticESN, open_loop
from pesn.evaluation.backtest import Backtest, Normal, Places, check_origins, evaluate
from pesn.evaluation.calibration import LEADS, calibration_factors, covariance_form, process_noise
from pesn.evaluation.error_model import process_errors, process_share, update_errors
from pesn.forecasting.context import (
    FILTERED,
    Columns,
    ContextFilter,
    FilteredContext,
    GivenContext,
    Run,
    StartingPoint,
    Uncertainty,
    as_units,
    check_size,
)
from pesn.forecasting.dataset import check_within_reach
from pesn.forecasting.design import Design
from pesn.forecasting.forecast import Forecast
from pesn.forecasting.predict import (
    COVARIANCES,
    Futures,
    Known,
    Rolled,
    convert_start,
    forecast_all,
    make_forecast,
    predict_path,
    rollout_loop,
    simulate_rollouts,
    variance_share,
)
from pesn.forecasting.rollout import Rollout
from pesn.forecasting.time_index import TimeIndex
from pesn.gaussian import Gaussian
from pesn.readout.ridge import PARTS, Readout, check_parts, feature_penalties
from pesn.readout.rls import RLSState, start_from_batch, update
from pesn.reservoir.closed_loop import ClosedLoop, ErrorModel
from pesn.reservoir.drive import State
from pesn.reservoir.initial_state import LocalStart, Start
from pesn.statespace.cell import Cell, tangent
from pesn.statespace.state import GaussianState

if TYPE_CHECKING:
    import pandas as pd

HORIZON = 20  # default horizon of a backtest
Context: TypeAlias = "GivenContext | FilteredContext"


class Trained(NamedTuple):
    """What is learned for one reservoir.

    Parameters
    ----------
    readout : Readout
        The readout.
    errors : ErrorModel
        Its one-step errors.
    start : Start or LocalStart
        What was learned about initial states.
    measurement_cov : array of shape (d, d), optional
        Covariance of the measurement noise; None: y is measured exactly.
    ridge : float or tuple of float, optional
        Ridge of the readout; None: that of the network.
    """

    readout: Readout
    errors: ErrorModel
    start: Start | LocalStart
    measurement_cov: Array | None = None
    ridge: RidgeValue | None = None

    @classmethod
    def from_network(cls, esn: ProbabilisticESN, errors: ErrorModel, var: Array) -> Trained:
        """Return what a fitted network has learned, with errors of the process and measurement noise of variances (d,)."""
        return cls(esn.readout_, errors, _get_start(esn), np.diag(var) if var.any() else None)

    def with_measurement_noise(self, var: Array) -> Trained:
        """Return the same with measurement noise of variances (d,), and the errors of the process alone."""
        return self._replace(errors=process_errors(self.errors, var), measurement_cov=np.diag(var) if var.any() else None)


def learn_row(
    loop: ClosedLoop, rls: RLSState, forgetting: float, state: GaussianState, last: tuple[Array, Array], row: Array
) -> tuple[ClosedLoop, RLSState]:
    """Return a loop and its recursive least squares after one more row; unchanged if anything is missing.

    Parameters
    ----------
    loop : ClosedLoop
        The closed loop.
    rls : RLSState
        Recursive least squares of its readout.
    forgetting : float
        Forgetting factor.
    state : GaussianState
        State that knows the last row, whose units have moved.
    last : tuple of array
        The last row and its input.
    row : array of shape (d,)
        New row.
    """
    at = loop.layout
    if np.isnan(row).any() or np.isnan(last[0]).any() or np.isnan(last[1]).any():
        return loop, rls
    both = np.array([state.mean[at["y"]], row])  # from the filtered row, which differs from the last one if it has noise
    target = loop.dynamics.targets(both)
    b = loop.moves.means(state.mean)
    predicted, readout, rls = update(loop.readout, rls, b[None], target, forgetting)
    wrong = loop.dynamics.errors(target - predicted, both)[0]
    wrong *= np.sqrt(process_share(loop.errors, loop.measurement_cov))
    weight = max(1.0 - forgetting, 1.0 / (1.0 + readout.n_samples))
    return loop.with_readout(readout, update_errors(loop.errors, wrong, state.mean[at["error"]], weight)), rls


def linear_step(loop: ClosedLoop, context: ContextFilter, y: Array, u: Array) -> tuple[Array, Array]:
    """Compute the derivatives of the next y by y and u, from single rows, scaled.

    Parameters
    ----------
    loop : ClosedLoop
        Loop without uncertainty.
    context : ContextFilter
        Filter of contexts.
    y : array of shape (K, d)
        Rows.
    u : array of shape (K, m)
        Inputs.

    Returns
    -------
    by_y : array of shape (K, d, d)
        Derivatives by y.
    by_u : array of shape (K, d, m)
        Derivatives by u.
    """
    at, (d, m) = loop.layout, (y.shape[1], u.shape[1])
    none = Uncertainty.none(y[:, None], u[:, None])
    slopes = np.zeros((len(y), at.size, d + m))  # derivatives of x by [y, u]
    slopes[:, np.r_[at["y"], at["inputs"]], np.arange(d + m)] = 1.0
    if context.regresses:
        x = context.with_input(loop, StartingPoint(None, y[:, None], u[:, None][:, :0], none), u).mean
        row, encoding = loop.dynamics.network_rows(np.concatenate([y, u], axis=1)), loop.dynamics.encoding
        by_row, seen = np.zeros((len(y), row.shape[1], d + m)), encoding.size(d)
        by_row[:, :seen, :d], by_row[:, seen:, d:] = np.swapaxes(encoding.tangent(y, np.eye(d)), -1, -2), np.eye(m)
        slopes[:, np.r_[at["earlier"], at["units"]]] = context.given.slope(row) @ by_row
        cells: tuple[Cell, ...] = loop.cells if loop.reservoir.is_static else (*loop.encoders, *loop.squares)
    else:
        x = context.initial_units(loop, y[:, None], u[:, None], none).mean
        cells = loop.cells
    for cell in cells:
        slopes = tangent(cell, x, slopes)
        x = cell(x)
    K, k, _ = loop.step
    after, result = x @ K[:d].T + k[:d], K[:d] @ slopes
    if loop.guard is not None:
        least, most, _, _, step = loop.guard.mean_limits()
        left = (after < np.minimum(least, y)) | (after > np.maximum(most, y))
        result[left] = 0.0  # clipped to the bounds
        stays = ~left & (np.abs(after - y) > step)
        result[stays] = np.eye(d, d + m)[np.nonzero(stays)[1]]
    return result[..., :d], result[..., d:]


def close_loop(
    esn: ProbabilisticESN,
    columns: Columns,
    trained: Trained,
    *,
    designed: bool,
    noise_scale: float | None = None,
    parts: tuple[str, ...] = PARTS,
) -> ClosedLoop:
    """Return the closed loop of a fitted network, in scaled units.

    Parameters
    ----------
    esn : ProbabilisticESN
        A fitted network; its readout is taken from ``trained``.
    columns : Columns
        Meaning of its inputs and outputs.
    trained : Trained
        Readout, one-step errors, initial state and measurement noise.
    designed : bool
        Whether the network has an automatic design, whose forecasts may switch to an ensemble.
    noise_scale : float, optional
        Scale of the process noise; None takes that of the network.
    parts : tuple of str
        Parts of the variance that are kept.
    """
    n_inputs, n_units = esn.reservoir_.n_inputs, esn.reservoir_.n_units
    readout = trained.readout
    penalty = esn.features.penalty(esn.ridge_ if trained.ridge is None else trained.ridge, n_inputs, n_units)
    return ClosedLoop(
        esn.reservoir_,
        readout,
        trained.errors,
        columns.dynamics,
        open_loop(esn).units,
        covariance_form(esn.covariance, n_units + esn.features.n_squares(n_inputs), esn.rank),
        esn.rank,
        process_noise(trained.start, esn.process_noise_ if noise_scale is None else noise_scale, esn.noise, n_units),
        parts,
        columns.bounds(widen="state" in parts),
        esn.features,
        esn.n_members,
        esn.member_draws(),
        trained.measurement_cov,
        switches_to_ensemble=designed and esn.covariance == "auto",
        penalty=np.asarray(readout.n_samples * feature_penalties(penalty, readout.weights.shape[-1]), float),
    )


@dataclass(frozen=True, eq=False)
class ForecastModel:
    """Everything that a :class:`pesn.Forecaster` learns; forecasts, rolls out, steps, linearizes, and updates to a new model.

    Build one from raw rows with ``Forecaster(...).fit(y, X).model_``: all methods take and return the units of y and X. For
    rows that are scaled already, use ``Forecaster(..., scale=False)``. Store it in any record that is registered in
    :mod:`pesn.persistence`, and call ``model.check(name)`` in the ``check`` of that record.

    Parameters
    ----------
    columns : Columns
        Names, scales, ranges and roles of the columns of y and X.
    esn : ProbabilisticESN
        The fitted network: reservoir, readout, initial state, process noise.
    errors : ErrorModel
        One-step errors: covariance, autocorrelation, innovation.
    measurement_var : array of shape (d,)
        Variances of the measurement noise of y, scaled.
    calibration : array of shape (50,)
        Factors of the standard deviations by lead.
    design : Design or None
        The automatic design, if there is one.
    time : TimeIndex or None
        Label of the last row, and the rule by which labels continue.
    state : GaussianState
        State after the last row: y is known, the units are those before it.
    recent : array of shape (n, d)
        The last rows of y, scaled; NaN where a value is missing.
    recent_known : array of shape (n, u)
        The last rows of X, scaled; NaN where a value is missing.
    """

    columns: Columns
    esn: ProbabilisticESN
    errors: ErrorModel
    measurement_var: Array
    calibration: Array
    design: Design | None
    time: TimeIndex | None
    state: GaussianState
    recent: Array
    recent_known: Array

    # ---------------------------------------------------------------- the closed loop

    def loop(self, parts: Collection[str] = PARTS) -> ClosedLoop:
        """Return the closed loop of forecasts, in scaled units (:class:`pesn.reservoir.closed_loop.ClosedLoop`).

        Parameters
        ----------
        parts : collection of str, default=("state", "noise", "weights")
            Parts of the variance that are kept.
        """
        esn = self.esn
        settings = esn.covariance, esn.rank, esn.moments, esn.noise, frozenset(parts)
        if settings in self._loops:
            return self._loops[settings]
        trained = Trained.from_network(esn, self.errors, self.measurement_var)
        loop = close_loop(esn, self.columns, trained, designed=self.design is not None, parts=tuple(parts))
        if esn.covariance != "ensemble" and esn.moments != "monte-carlo":  # these draw by ``random_state`` at every forecast
            self._loops[settings] = loop
        return loop

    @cached_property
    def _loops(self) -> dict[tuple[object, ...], ClosedLoop]:
        """Closed loops by the settings of the network that may be changed after ``fit``, each built once."""
        return {}

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # without the loops, which are built again

    def context_filter(self) -> ContextFilter:
        """Return the filter of contexts."""
        return ContextFilter(_get_start(self.esn), self.esn.initial_state, self.esn.washout_, self.columns.prior)

    # ---------------------------------------------------------------- forecasts

    @one_blas_thread()
    def forecast(
        self,
        horizon: int,
        context: Context = None,
        X: TableLike | Gaussian | None = None,
        *,
        parts: Collection[str] = PARTS,
        joint: bool | None = None,
    ) -> Forecast:
        """Forecast the next rows after a context, or after the last row of ``fit`` or ``update``.

        Parameters
        ----------
        horizon : int
            Number of steps to forecast.
        context : array-like of shape (n, d), Gaussian, tuple (y, X) or FilteredContext, optional
            Recent rows y, or (y, X) with X (n − 1, u) one row shorter; one row is enough. NaN is a missing value: the state is
            conditioned on the observed ones. y may be a :class:`pesn.Gaussian` over one row, mean (d,), or over each row, mean
            (n, d), with any covariances within a row: the first row is then as uncertain as given, later rows are measurements
            with noise of their covariance, and the posterior uncertainty of the last one enters the forecast. X may be one with
            variances. Or the result of :meth:`start` for one context. None: after the last row of ``fit`` or ``update``.
        X : array-like of shape (horizon, u) or Gaussian, optional
            Future inputs; the first row acts on the last row of the context. Missing values (NaN) have the distribution of
            training; a :class:`pesn.Gaussian` of mean (horizon, u) with variances is as uncertain as given, rows independent.
            Gaussians have no index: their rows go by position.
        parts : collection of str, default=("state", "noise", "weights")
            Parts of the variance. ("state",) is that of the paper, W Σ_b Wᵀ from step to step: of the initial state, the inputs
            and the units, without errors of the model. Standard deviations are calibrated only if all parts are kept.
        joint : bool, optional
            Whether to keep the covariance between all rows, of (horizon · d)² numbers; None: up to 4,000 numbers ahead. Without
            it there is the covariance of each row, memory and time are linear in the horizon, and samples are simulated by the
            network.

        Returns
        -------
        Forecast
            Gaussian forecast: each mean is also the median. Its index continues that of the context, or of the rows seen, if
            they were pandas objects.
        """
        columns = self.columns
        keep = check_size(horizon, joint, columns.n_columns)
        if parts is not PARTS:
            check_parts(parts)
        futures, rows = self._futures(int(horizon), context, X, tuple(parts))
        index = None if rows.time is None else rows.time.labels(int(horizon))
        history = columns.scale.undo(rows.y[-3 * int(horizon) :])
        # only the sum of all parts was calibrated
        calibration = self.calibration if set(parts) == set(PARTS) else np.ones(LEADS)
        return make_forecast(futures, calibration, keep, index, history)

    @one_blas_thread()
    def sample_paths(
        self, n: int, horizon: int, context: Context = None, X: TableLike | Gaussian | None = None, *,
        noise: bool = True, calibrate: bool = True, rng: Rng = None,
    ) -> Array:  # fmt: skip
        """Simulate sample paths of the next rows by Monte Carlo.

        Each path starts from a draw of the filtered state and is simulated by the closed loop with its own errors: nothing is
        assumed to be Gaussian on the way, whatever the form of covariance. Deviations from the mean of the paths are calibrated
        as in a forecast. Use them for first-passage times, maxima, or skewed and multimodal futures; :meth:`Forecast.sample`
        draws from the Gaussian of the forecast instead. For the climate of an attractor, over any number of steps, use
        ``noise=False`` or ``calibrate=False``.

        Parameters
        ----------
        n : int
            Number of paths.
        horizon : int
            Number of steps.
        context : array-like of shape (n, d), Gaussian, tuple (y, X) or FilteredContext, optional
            Recent rows y, or (y, X) with X (n − 1, u) one row shorter; one row is enough. NaN is a missing value: the state is
            conditioned on the observed ones. y may be a :class:`pesn.Gaussian` over one row, mean (d,), or over each row, mean
            (n, d), with any covariances within a row: the first row is then as uncertain as given, later rows are measurements
            with noise of their covariance, and the posterior uncertainty of the last one enters the forecast. X may be one with
            variances. Or the result of :meth:`start` for one context. None: after the last row of ``fit`` or ``update``.
        X : array-like of shape (horizon, u) or Gaussian, optional
            Future inputs; the first row acts on the last row of the context. Missing values (NaN) have the distribution of
            training; a :class:`pesn.Gaussian` of mean (horizon, u) with variances is as uncertain as given, rows independent.
            Gaussians have no index: their rows go by position.
        noise : bool, default=True
            Whether errors of the model, process noise and parameter uncertainty move the paths. Without noise they are the
            learned dynamics from draws of the initial state, in a compiled loop; unknown inputs have their mean.
        calibrate : bool, default=True
            Whether deviations are calibrated, which also changes their size in the long run. Without noise there is nothing to
            calibrate.
        rng : int or numpy.random.Generator, optional
            Seed or generator; None: different paths at every call.

        Returns
        -------
        array of shape (n, horizon, d)
            Paths in the units of y.
        """
        count = as_count("n", n)
        check_size(horizon, False, self.columns.n_columns)
        flag("noise", noise)
        flag("calibrate", calibrate)
        futures, _ = self._futures(int(horizon), context, X, PARTS)
        return futures.sample_paths(count, self.calibration if calibrate else None, generator(rng), noise)

    def _futures(
        self, horizon: int, context: Context, X: TableLike | Gaussian | None, parts: tuple[str, ...]
    ) -> tuple[Futures, Run]:
        """Return the state of the loop after the context with the inputs ahead, and the rows of the context."""
        loop, columns, context_filter = self.loop(), self.columns, self.context_filter()
        start = self.check_start(context) if isinstance(context, FilteredContext) else self.start(context)
        if start.batch:
            raise ValueError(f"context must be one, got a start of {start.batch[0]}; rollout takes as many")
        whole = set(parts) == set(PARTS)
        u, u_var = columns.read_future_inputs(X, horizon, start.rows.time)
        state, own = context_filter.with_input(loop, start.begun, u[0], u_var[0]), None
        if (start.plain is not None or u_var.any()) and whole:  # given uncertainty is not calibrated
            plain = context_filter.with_input(loop, start.plain or start.begun, u[0])
            own = predict_path(loop, plain, *context_filter.impute_inputs(u)).cov
        if "state" not in parts:
            state = loop.as_certain(state)
        elif "noise" not in parts:
            state = loop.without_errors(state)
        u, u_var = context_filter.impute_inputs(u, u_var)
        u_var *= "state" in parts
        return Futures(loop if whole else self.loop(parts), state, u, u_var, columns, own), start.rows

    @one_blas_thread()
    def backtest(
        self, y: TableLike, X: TableLike | None = None, horizon: int = HORIZON, origins: int | Sequence[int] = 20
    ) -> Backtest:
        """Forecast from rolling origins of y and compare with later observations, without refitting.

        Parameters
        ----------
        y : array-like of shape (n, d)
            Rows that the model was not fitted to; forecasts of training rows look too good.
        X : array-like of shape (n, u), optional
            Known inputs, as in ``fit``; NaN where they are not known.
        horizon : int, default=20
            Number of steps of each forecast.
        origins : int or sequence of int, default=20
            Number of forecasts, or the first row of each: the rows before it are known. A number of them is spread evenly over
            the rows that have a full context before them, at most one for each.

        Returns
        -------
        Backtest
            ``mean``, ``std`` and ``observed`` (origins, horizon, d); ``crps()``, ``mae()``, ``coverage(level)``, ``to_frame()``.
        """
        check_size(horizon, False, self.columns.n_columns)
        return self._backtest(self.columns.read_rows(y, X, self.time), horizon, origins)

    def _backtest(self, given: tuple[Run, pd.Index | None], horizon: int, origins: int | Sequence[int]) -> Backtest:
        """Forecast from rolling origins of scaled rows."""
        (rows, labels), columns, context = given, self.columns, self.context_filter()
        longest = FILTERED + context.washout + 1

        def predict_origins(places: Places) -> Normal:
            known = [
                Known(rows.y[first:place], rows.known[first:place], rows.known[place - 1 : place - 1 + horizon])
                for first, place in zip(np.maximum(places - longest, 0), places, strict=True)
            ]
            scaled = forecast_all(self.loop(), context, known)
            factor = calibration_factors(scaled.std, self.calibration, columns.prior.y_std)
            return Normal(columns.scale.undo(scaled.mean), scaled.std * factor * columns.scale.y_std)

        places = check_origins(origins, len(rows.y), horizon, longest)
        return evaluate(predict_origins, places, horizon, columns.scale.undo(rows.y), names=columns.names, labels=labels)

    def score(self, y: TableLike, X: TableLike | None = None) -> float:
        """Return minus the CRPS of a backtest, each column in units of its standard deviation in training: larger is better.

        Parameters
        ----------
        y : array-like of shape (n, d)
            Rows.
        X : array-like of shape (n, u), optional
            Known inputs, as in ``fit``.

        Returns
        -------
        float
            0 for certain and correct forecasts, else negative; the mean over columns with observations.
        """
        given = self.columns.read_rows(y, X, self.time)
        horizon = min(HORIZON, max(len(given[0].y) // 2, 1))
        crps = self._backtest(given, horizon, 20).crps() / self.columns.scale.y_std
        if np.isnan(crps).all():
            raise ValueError("y must have at least one observed value in the rows that are forecast, got none")
        return -float(np.nanmean(crps))

    # ---------------------------------------------------------------- online learning

    @one_blas_thread()
    def update(self, y: TableLike, X: TableLike | None = None) -> ForecastModel:
        """Return the model after new rows: see :meth:`pesn.Forecaster.update`. This one is unchanged.

        Parameters
        ----------
        y : array-like of shape (n, d)
            Rows after the last one seen.
        X : array-like of shape (n, u), optional
            Known inputs.

        Returns
        -------
        ForecastModel
        """
        columns, esn, context, loop = self.columns, self.esn, self.context_filter(), self.loop()
        rows, known, time = columns.read_new_rows(y, X, self.time, seen=self.recent)
        readout, rls = (loop.readout, esn.rls_) if esn.rls_ else start_from_batch(loop.readout, esn.rls_delta, esn.rls_prior)
        if readout is not loop.readout:
            loop = loop.with_readout(readout, loop.errors)
        state, last = self.state, (self.recent[-1], self.recent_known[-1])
        for row, u in zip(rows, known, strict=True):
            state = context.move(loop, state, last[1])
            learned, rls = learn_row(loop, rls, esn.forgetting, state, last, row)
            # the row corrects the loop that predicted it; the updated loop predicts the next one
            state = loop.model.update(loop.model.emit(state, observed=True)[0], row)
            loop, last = learned, (row, u)
        if not np.isfinite(loop.readout.weights).all():
            raise FloatingPointError("update left finite numbers; y or X may be of another scale than in fit")
        network = copy.copy(esn)
        network.readout_, network.rls_ = loop.readout, rls
        low, high = columns.range
        wider = np.fmin(low, np.fmin.reduce(rows)), np.fmax(high, np.fmax.reduce(rows))
        recent, recent_known = (np.vstack(both)[-FILTERED:] for both in ((self.recent, rows), (self.recent_known, known)))
        return replace(
            self, columns=columns._replace(range=wider), esn=network, errors=loop.errors, time=time, state=state,
            recent=recent, recent_known=recent_known,
        )  # fmt: skip

    # ---------------------------------------------------------------- files

    def check(self, name: str) -> None:
        """Raise a ValueError if a field of a stored model is damaged or does not fit the others.

        Parameters
        ----------
        name : str
            Name of the model in messages.
        """
        check_field_types(name, self)
        columns, esn = self.columns, self.esn
        columns.check(f"{name}.columns")
        d, u = columns.n_columns, columns.n_known
        of = columns.n_inputs, len(columns.learned)
        if not esn.__sklearn_is_fitted__() or esn.start_ is None or (esn.n_features_in_, esn.n_outputs_) != of:
            raise ValueError(f"{name}.esn is not a network of these columns")
        rows = len(np.atleast_1d(self.recent))
        if not self.recent.size:
            raise ValueError(f"{name}.recent is empty")
        check_array(f"{name}.recent", self.recent, (rows, d), missing=True)
        check_array(f"{name}.recent_known", self.recent_known, (rows, u), missing=True)
        check_array(f"{name}.calibration", self.calibration, (LEADS,), low=np.finfo(float).tiny)
        check_array(f"{name}.measurement_var", self.measurement_var, (d,), low=0.0)
        if self.design is not None:
            self.design.check(f"{name}.design")
        self.errors.check(f"{name}.errors", d)
        if self.time is not None:
            self.time.check(f"{name}.time")
        loop = self.loop()
        self.state.check(f"{name}.state", loop.carried, loop.layout.size - loop.carried)
        self._check_forecast(name)

    def _check_forecast(self, name: str) -> None:
        """Forecast after the last row seen and after a context, to check that parameters and arrays fit together."""
        esn = copy.copy(self.esn)
        esn.random_state = 0  # a RandomState would change
        trial, columns = replace(self, esn=esn), self.columns
        ahead = np.zeros((1, columns.n_known)) if columns.n_known else None
        for context in (None, np.zeros((1, columns.n_columns))):
            forecast = trial.forecast(1, context, ahead)
            if not (np.isfinite(forecast.mean).all() and np.isfinite(forecast.std).all()):
                raise ValueError(f"a trial forecast of {name} is not finite")

    # ---------------------------------------------------------------- dynamics: X are controls, y states

    @one_blas_thread()
    def start(self, context: GivenContext = None, *, units: Gaussian | State | None = None) -> FilteredContext:
        """Filter a context once, for many calls of :meth:`rollout` and ``forecast``.

        Parameters
        ----------
        context : array-like, Gaussian or tuple (y, X), optional
            As in ``forecast``: recent y (n, d), or (y, X) with X (n − 1, m); one row is enough. None: after the last row of
            ``fit`` or ``update``. Or arrays of B contexts of one length, y (B, n, d) and X (B, n − 1, m), without missing
            values.
        units : Gaussian or State, optional
            Distribution of the units before they move by the context, which must be one row, known or uncertain: the state
            that ``esn_.predict(rows, return_state=True)`` returns for known rows before it, or a :class:`pesn.Gaussian` over
            the units. It takes the place of what would be inferred from the context.

        Returns
        -------
        FilteredContext
            Valid until the next ``fit`` or ``update``.

        Examples
        --------
        >>> import pesn
        >>> from pesn.systems import cart_pole
        >>> runs = cart_pole.simulate(runs=4, steps=300, rng=0)
        >>> network = pesn.ProbabilisticESN(30, washout="auto", random_state=0)
        >>> model = pesn.Forecaster(network).fit(runs.states, runs.inputs, lengths=runs.lengths)
        >>> hanging = model.start([[0.0, 3.14, 0.0, 0.0]])
        >>> model.rollout(np.zeros((100, 20, 1)), hanging).mean.shape
        (100, 20, 4)
        """
        columns, given = self.columns, context if isinstance(context, tuple) else (context, None)
        if units is not None:
            rows, uncertainty = columns.read_context(context, self.time)
            if len(rows.y) != 1:
                raise ValueError(f"context must be one row where units are given, got {len(rows.y)}")
            begun = self.context_filter().begin_at(self.loop(), rows.y, uncertainty, as_units(units, self.esn.n_units))
            return FilteredContext(rows, begun, None, self._fingerprint)
        if context is None:
            rows = Run(self.recent, self.recent_known[:-1], self.time)
            return self._filter_context(rows, Uncertainty.none(rows.y, self.recent_known), seen=True)
        if len(given) == 2 and not isinstance(given[0], Gaussian) and _axes(given[0]) == 3:
            return self._filter_context(*self._read_batch(*given))
        return self._filter_context(*columns.read_context(context, self.time))

    def _read_batch(self, y: npt.ArrayLike, X: npt.ArrayLike | None = None) -> tuple[Run, Uncertainty]:
        """Read contexts (B, n, d) with X (B, n − 1, m)."""
        y, m = np.asarray(as_real("context", y), np.float64), self.columns.n_known
        if y.shape[2] != self.columns.n_columns or 0 in y.shape:
            raise ValueError(f"context must have shape (contexts, rows, {self.columns.n_columns}), got {y.shape}")
        if X is None and m and y.shape[1] > 1:
            raise ValueError(f"context must be (y, X) with X of shape {(len(y), y.shape[1] - 1, m)}, got y alone")
        known: Array = np.zeros((len(y), y.shape[1] - 1, m)) if X is None else as_real("X of context", X).astype(np.float64)
        if known.shape != (len(y), y.shape[1] - 1, m):
            raise ValueError(f"X of context must have shape {(len(y), y.shape[1] - 1, m)}, got {known.shape}")
        y = np.stack([self.columns.unwrap_angles(one) for one in y])
        y, known = self.columns.scale_rows("context", y, "X of context", known)
        return Run(y, known, None), Uncertainty.none(y, np.zeros((*y.shape[:-1], m)))

    def _filter_context(self, rows: Run, given: Uncertainty, seen: bool = False) -> FilteredContext:
        """Filter rows; ``seen``: they are the last rows seen, whose state is stored.

        While they are few, the regression of the initial state may take the last row and its input together with the others.
        """
        loop, context = self.loop(), self.context_filter()
        stored = seen and not context.few(len(rows.y))
        begun, plain = StartingPoint(self.state) if stored else context.begin(loop, rows.y, rows.known, given), None
        if given.exists:
            plain = context.begin(loop, rows.y, rows.known, Uncertainty.none(rows.y, given.u_var))
        return FilteredContext(rows, begun, plain, self._fingerprint)

    @property
    def _fingerprint(self) -> Array:
        """Weights and scale, which identify the model: rows in other units may lead to the same weights."""
        return np.concatenate([np.ravel(part) for part in (self.esn.readout_.weights, *self.columns.scale)])

    def check_start(self, start: FilteredContext | None) -> FilteredContext:
        """Return a filtered context, or the state after the last row for None; refuse the context of another model.

        Parameters
        ----------
        start : FilteredContext or None
            Result of :meth:`start`.
        """
        if start is None:
            return self.start()
        if not isinstance(start, FilteredContext):
            raise TypeError(f"start must be what start(context) gave, or None, got {type(start).__name__}")
        if not np.array_equal(start.fingerprint, self._fingerprint):
            raise ValueError("start must be what start() of this forecaster gave since its last fit or update, got another's")
        return start

    @one_blas_thread()
    def rollout(
        self, controls: TableLike, start: FilteredContext | None = None, covariance: str = "low-rank", *, rank: int = 20
    ) -> Rollout:
        """Roll out B sequences of controls at once, in closed form.

        It is the model of ``forecast``, but never switches to an ensemble where the loop is strongly nonlinear.

        Parameters
        ----------
        controls : array-like of shape (B, H, m) or (H, m)
            Sequences of controls, or one; the first row acts on the last row of the context.
        start : FilteredContext, optional
            Result of :meth:`start`, for one context or for B of them; None: after the last row seen.
        covariance : {"none", "diagonal", "low-rank", "full"}, default="low-rank"
            "none": only means, in a fiftieth of the time; "low-rank": all covariances to first order, with a factor of limited
            rank; "full": to second order, for a few sequences; "diagonal": entries of the state are independent, the cheapest
            form, whose standard deviations are often far from correct.
        rank : int, default=20
            Columns that "low-rank" keeps beside those of the rows and of the readout.

        Returns
        -------
        Rollout
            ``mean`` (B, H, d), ``std``, ``cov``, costs and probabilities, in the units of y.
        """
        if covariance not in tuple(COVARIANCES):
            raise ValueError(f"covariance must be one of {', '.join(map(repr, COVARIANCES))}, got {covariance!r}")
        whole_number("rank", rank, 1)
        given, u = self._controls(controls)
        begun = self.check_start(start)
        if begun.batch and len(u) not in (1, *begun.batch):
            raise ValueError(f"controls must be as many as start has contexts, {begun.batch[0]}, or one for all, got {len(u)}")
        if begun.batch and len(u) == 1:
            given, u = (np.broadcast_to(part, (*begun.batch, *part.shape[1:])) for part in (given, u))
        loop = rollout_loop(own := self.loop(), covariance, int(rank))
        rolled, plain = simulate_rollouts(loop, self.context_filter(), convert_start(begun.begun, own, loop), u), None
        if begun.plain is not None and covariance != "none":
            plain = simulate_rollouts(loop, self.context_filter(), convert_start(begun.plain, own, loop), u)
        return self._in_units(rolled, plain, given, self.columns.scale.undo(begun.rows.y[..., -1, :]))

    def _controls(self, controls: TableLike) -> tuple[Array, Array]:
        """Return controls (B, H, m) as they were given, and scaled."""
        self.columns.check_names("controls", controls, "X")
        given, m = np.asarray(as_real("controls", controls), np.float64), self.columns.n_known
        if given.ndim == 2:
            given = given[None]
        if given.ndim != 3 or given.shape[2] != m or 0 in given.shape[:2]:
            raise ValueError(f"controls must have shape (sequences, steps, {m}) or (steps, {m}), got {np.shape(controls)}")
        u = (given - self.columns.scale.x_mean) / self.columns.scale.x_std
        check_within_reach("controls", u, self.columns.prior.x_mean, self.columns.prior.x_std)
        return given, u

    def _in_units(self, rolled: Rolled, plain: Rolled | None, controls: Array, start: Array) -> Rollout:
        """Return calibrated roll-outs in the units of y; ``plain`` is without given uncertainty, which is not calibrated."""
        mean, cov, lagged = rolled
        mean, names = self.columns.scale.undo(mean), None if self.columns.names is None else tuple(self.columns.names)
        if cov is None:
            return Rollout(mean, controls, names=names, start=start)
        std, share = np.sqrt(np.maximum(np.diagonal(cov, axis1=-2, axis2=-1), 0.0)), None
        if plain is not None and plain[1] is not None:
            share = variance_share(plain[1], std)
        factor = calibration_factors(std, self.calibration, self.columns.prior.y_std, share) * self.columns.scale.y_std
        if lagged is not None:
            lagged = lagged * factor[:, 1:, :, None] * factor[:, :-1, None, :]
        return Rollout(mean, controls, cov * factor[..., :, None] * factor[..., None, :], lagged, names, start)

    @one_blas_thread()
    def step(self, states: TableLike, controls: TableLike) -> Array:
        """Return the expected next states, each from one state: for packages with their own loop.

        Each state is a context of one row. A network with memory is more accurate in a :meth:`rollout`, which carries its units
        along.

        Parameters
        ----------
        states : array-like of shape (K, d)
            States.
        controls : array-like of shape (K, m)
            Controls.

        Returns
        -------
        array of shape (K, d)
            Next states in the units of y.
        """
        rows, u = self._pairs(states, controls)
        return self.rollout(u[:, None], self.start(rows[:, None]), "none").mean[:, 0]

    @one_blas_thread()
    def linearize(self, state: TableLike, control: TableLike) -> tuple[Array, Array]:
        """Compute the derivatives of :meth:`step` by state and control, for LQR and iLQR.

        In closed form, by the chain rule: step(y + δ, u + ε) ≈ step(y, u) + A δ + B ε.

        Parameters
        ----------
        state : array-like of shape (d,) or (K, d)
            One state, or several.
        control : array-like of shape (m,) or (K, m)
            Their controls.

        Returns
        -------
        A : array of shape (d, d) or (K, d, d)
            Derivatives by the state, in the units of y.
        B : array of shape (d, m) or (K, d, m)
            Derivatives by the control, in the units of y and X.

        Examples
        --------
        >>> import pesn
        >>> from pesn.systems import cart_pole
        >>> runs = cart_pole.simulate(runs=4, steps=300, rng=0)
        >>> network = pesn.ProbabilisticESN(30, washout="auto", random_state=0)
        >>> model = pesn.Forecaster(network).fit(runs.states, runs.inputs, lengths=runs.lengths)
        >>> A, B = model.linearize([0.0, 3.14, 0.0, 0.0], [0.0])
        >>> A.shape, B.shape, A[0, 2].round(2)                            # x′ = x + 0.02 v
        ((4, 4), (4, 1), np.float64(0.02))
        """
        one = _axes(state) == 1
        if one:
            state, control = _one_row("state", state, self.columns.n_columns), _one_row("control", control, self.columns.n_known)
        rows, u = self._pairs(state, control, ("state", "control"))
        y, known = self.columns.scale_rows("state", rows, "control", u)
        by_state, by_control = linear_step(self.loop().certain, self.context_filter(), y, known)
        scale = self.columns.scale
        A = scale.y_std[:, None] * by_state / scale.y_std
        B = scale.y_std[:, None] * by_control / scale.x_std
        return (A[0], B[0]) if one else (A, B)

    def _pairs(
        self, states: TableLike, controls: TableLike, names: tuple[str, str] = ("states", "controls")
    ) -> tuple[Array, Array]:
        """Return states (K, d) and controls (K, m)."""
        self.columns.check_names(names[0], states)
        self.columns.check_names(names[1], controls, "X")
        rows = as_real(names[0], states)
        if rows.ndim != 2 or rows.shape[1] != self.columns.n_columns or not len(rows):
            raise ValueError(f"{names[0]} must have shape (states, {self.columns.n_columns}), got {rows.shape}")
        u = as_real(names[1], controls)
        if u.shape != (len(rows), self.columns.n_known):
            expected = f"{(len(rows), self.columns.n_known)}, a row for each of the states"
            raise ValueError(f"{names[1]} must have shape {expected}, got {u.shape}")
        return rows.astype(np.float64), u.astype(np.float64)


def _axes(values: Any) -> int:
    """Return the number of axes; 0 for ragged values, which are refused later."""
    try:
        return np.ndim(values)
    except ValueError:
        return 0


def _one_row(name: str, values: TableLike, size: int) -> TableLike:
    """Return numbers (size,) as a row (1, size); a pandas Series becomes a frame, whose columns are its labels."""
    if np.shape(as_real(name, values)) != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {np.shape(values)}")
    return values.to_frame().T if hasattr(values, "to_frame") else np.asarray(values)[None]


def _get_start(esn: ProbabilisticESN) -> Start | LocalStart:
    """Return what a fitted network has learned about initial states."""
    assert esn.start_ is not None  # set by fit
    return esn.start_
