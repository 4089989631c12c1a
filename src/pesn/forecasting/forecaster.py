"""Probabilistic forecasts of dynamical systems and series: a network in closed loop, with calibrated prediction intervals.

>>> import numpy as np
>>> t = np.arange(1500.0)
>>> y = np.column_stack([np.sin(0.2 * t), np.cos(0.31 * t)])
>>> forecaster = Forecaster().fit(y[:1400])
>>> forecast = forecaster.forecast(20, y[1395:1405])   # a context of ten rows is enough
>>> forecast.mean.shape, bool(np.abs(forecast.mean - y[1405:1425]).max() < 0.1)
((20, 2), True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar, Concatenate, Generic, Literal, NoReturn, ParamSpec, Self, TypeAlias, TypeVar, final, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from pesn._support.arguments import as_real, check_not_negative, flag
from pesn._support.progress import Steps, show_progress
from pesn._support.threads import one_blas_thread
from pesn._support.types import Array, Lengths, PathLike, TableLike, Target
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.esn.validation import check_probabilistic
from pesn.forecasting.context import FILTERED, Columns
from pesn.forecasting.dataset import Scale, as_columns, as_kinematics, by_names, check_encoding
from pesn.forecasting.design import Design, build_network, choose_design
from pesn.forecasting.model import ForecastModel
from pesn.forecasting.runs import RunColumns, Runs, prepare, read_runs
from pesn.forecasting.training import Task, fit_network
from pesn.readout.groups import find_patches

_NOISIEST = 2.0  # largest measurement noise, in standard deviations of y


T = TypeVar("T")
P = ParamSpec("P")
ColumnChoice: TypeAlias = int | str | Sequence[int | str] | npt.NDArray[np.integer[Any]]


class _Learned(Generic[T]):
    """A fitted attribute that reads ``model_``.

    Parameters
    ----------
    read : callable
        Function of the model.
    """

    def __init__(self, read: Callable[[ForecastModel], T]) -> None:
        self._read = read

    @overload
    def __get__(self, forecaster: None, owner: type) -> Self: ...
    @overload
    def __get__(self, forecaster: Forecaster, owner: type) -> T: ...
    def __get__(self, forecaster: Forecaster | None, owner: type) -> Self | T:
        return self if forecaster is None else self._read(forecaster.model_)

    def __set__(self, forecaster: Forecaster, value: object) -> NoReturn:
        raise AttributeError("fitted attributes are read-only; make another record by dataclasses.replace(forecaster.model_, …)")


def _delegate(method: Callable[Concatenate[ForecastModel, P], T]) -> Callable[Concatenate[Forecaster, P], T]:
    """Return a method that calls ``method`` of the fitted model."""

    @wraps(method)
    def call(self: Forecaster, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self._fitted, *args, **kwargs)

    return call


@dataclass(eq=False, repr=False, kw_only=True)
class ForecasterParameters:
    """Parameters of a forecaster; in a class without a base that type checkers do not know, so that they check arguments."""

    esn: ProbabilisticESN | Literal["auto"] | None = field(default="auto", kw_only=False)
    target: Target = "change"
    learn: ColumnChoice | None = None
    kinematics: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike] | None = None
    scale: bool = True
    calibrate: bool = True
    design: Design | None = None
    angles: ColumnChoice = ()
    ignorable: ColumnChoice = ()
    measurement_noise: npt.ArrayLike | Literal["auto"] | None = None
    verbose: bool = False


@final
class Forecaster(ForecasterParameters, BaseEstimator):  # type: ignore[misc]
    """Forecaster of y from its own past and from known inputs X, as a Gaussian jointly over time.

    Parameters
    ----------
    esn : ProbabilisticESN, "auto" or None, default="auto"
        The network. ``"auto"``: units, features and ridges are selected by closed-loop validation error; with fewer than 60
        rows, or without a long segment between missing values, a network of 100 units whose ridge minimizes the validation
        error. A :class:`pesn.ProbabilisticESN` is cloned and not changed.
    target : {"change", "level"}, default="change"
        What the network predicts of a column: its change to the next row, or its next level.
    learn : int, str or sequence, optional
        Columns of y that the network predicts, by number, or by name if y is a frame; None: all.
    kinematics : tuple of array-like, optional
        (A, B, c) of the other columns, in their order: y[k+1][rest] = A @ y[k] + B @ y[k+1][learn] + c.
    scale : bool, default=True
        Whether to standardize every column. Without it, y and X should be of order 1.
    calibrate : bool, default=True
        Whether to scale standard deviations, by lead, to the errors on the validation set.
    design : Design, optional
        The ``design_`` of another forecaster, used without a search.
    angles : int, str or sequence, default=()
        Columns of y that are angles in radians, by number, or by name if y is a frame. The network sees their sine and cosine,
        so that it is periodic in them; forecasts continue the angle itself. Successive rows must be less than half a turn apart:
        larger jumps, as of angles between −π and π, are unwrapped.
    ignorable : int, str or sequence, default=()
        Columns of y on which the dynamics does not depend, such as a position on a track (ignorable coordinates): the network
        does not see them. They are forecast as all others, learned or kinematic. The bounds that keep other columns near their
        training range do not apply to them, nor to angles.
    measurement_noise : float, array-like of shape (d,), "auto" or None, default=None
        Standard deviation of the measurement noise of y, in its units; 0 for none. It affects every observed row, and is not
        propagated: rows of a context correct the state accordingly. ``"auto"``: estimated by minimizing the validation CRPS.
        None: ``"auto"`` with a design, else 0.
    verbose : bool, default=False
        Whether to show the progress of ``fit`` on standard error.

    Attributes
    ----------
    model_ : ForecastModel
        Everything that was learned, as one immutable record: a :class:`pesn.forecasting.model.ForecastModel`. The attributes
        below read it.
    design_ : Design or None
        Result of the search, ``design_.candidate``, with all scores, ``design_.scores`` and ``design_.plot()``; None if a
        network was given, or there were too few rows.
    esn_ : ProbabilisticESN
        The fitted network; ``esn_.process_noise_`` is the selected or given process noise.
    target_ : str
        The target that it was fitted to.
    names_ : list of str or None
        Names of the columns of y, if it was a pandas object.
    known_names_ : list of str or None
        Names of the columns of X, if it was a pandas object.
    errors_ : ErrorModel
        One-step errors: their covariance, autocorrelation and innovation.
    measurement_std_ : array of shape (d,)
        Standard deviations of the measurement noise, in the units of y, estimated or given; ``errors_`` are without it.
    calibration_ : array of shape (50,)
        Factors of the standard deviations 1 … 50 steps ahead; the last one applies beyond.
    """

    optional_attributes: ClassVar[dict[str, type]] = {}
    model_: ForecastModel

    esn_ = _Learned(lambda model: model.esn)
    design_ = _Learned(lambda model: model.design)
    errors_ = _Learned(lambda model: model.errors)
    calibration_ = _Learned(lambda model: model.calibration)
    measurement_std_ = _Learned(lambda model: np.sqrt(model.measurement_var) * model.columns.scale.y_std)
    names_ = _Learned(lambda model: model.columns.names)
    known_names_ = _Learned(lambda model: model.columns.known_names)
    n_columns_ = _Learned(lambda model: model.columns.n_columns)
    n_known_ = _Learned(lambda model: model.columns.n_known)
    learned_columns_ = _Learned(lambda model: model.columns.learned)
    kinematic_columns_ = _Learned(lambda model: model.columns.kinematic)
    kinematics_ = _Learned(lambda model: model.columns.kinematics)
    target_ = _Learned(lambda model: model.columns.target)
    output_std_ = _Learned(lambda model: model.columns.output_std)
    scale_ = _Learned(lambda model: model.columns.scale)
    prior_scale_ = _Learned(lambda model: model.columns.prior)

    # ---------------------------------------------------------------- fit

    @one_blas_thread()
    def fit(self, y: TableLike | Iterable[object], X: TableLike | None = None, lengths: Lengths = None) -> Self:
        """Fit to y (n, d), or (n,), and X (n, u), where X[k] drives y[k] → y[k+1]; or to runs, one by one.

        Rows of a pandas object are aligned by its index: dates, periods, durations or numbers with a common step. The index of
        forecasts continues it, and missing steps are missing values. Text is parsed: ISO 8601 as dates, numerals as numbers. A
        MultiIndex names runs by all levels but the last, which is the time within a run. The default index 0, 1, 2, … is no
        time. If X has an index too, it must have a row for each label of y, in any order. Labels that do not increase within a
        run, have no common step, or are no times are refused.

        Parameters
        ----------
        y : array-like of shape (n, d) or (n,), or iterable of runs
            Rows. A missing value (NaN) ends one segment and begins another. Or *runs*, of which one at a time is in memory: a
            list, an iterator or any iterable of y or (y, X), of arrays or frames; a Dask bag of such; a
            :class:`pesn.forecasting.runs.ParquetRuns`. The result is that of the same runs stacked, with ``lengths``. They are
            read about five times; iterators, such as generators, are kept in memory.
        X : array-like of shape (n, u), optional
            Known inputs, where X[k] drives y[k] → y[k+1]. The last row of a run has no effect and may be NaN.
        lengths : sequence of int, optional
            Number of rows of each run; None: the runs of a MultiIndex of y, else one run.

        Returns
        -------
        Forecaster
            self. A failed fit leaves the forecaster unchanged.

        Notes
        -----
        Scales, the readout and its errors are fitted to all rows. Up to 50,000 steps, design, noise and calibration are selected
        by all of them, too; else by a sample of 50,000 steps: whole runs, spread evenly, or 5,000 steps of long ones.
        """
        flag("verbose", self.verbose)
        with show_progress(self.verbose) as steps:
            network = _check_network(self.esn, self.design)
            flag("scale", self.scale)
            flag("calibrate", self.calibrate)
            if self.target not in ("change", "level"):
                raise ValueError(f"target must be 'change' or 'level', got {self.target!r}")
            runs, given = read_runs(y, X, lengths)
            if network is not None and runs.streamed:
                network.check_streamable()
            self.model_ = self._learn(network, runs, self._roles(given, network), steps)
        return self

    def _roles(self, given: RunColumns, network: ProbabilisticESN | None) -> Columns:
        """Return the columns with their roles, in the units of y: scales are not known yet."""
        names, d, u = given.names, given.n_columns, given.n_known
        if names is not None and len(set(names)) < len(names):
            raise ValueError(f"y must have columns of different names, got {names}")
        learned, kinematic = as_columns(self.learn, d, names)
        kinematics = as_kinematics(self.kinematics, d, len(learned))
        angles, ignorable = check_encoding(self.angles, self.ignorable, d, u, names)
        if self.target == "level" and np.isin(angles, learned).any():
            raise ValueError("target must be 'change' where angles are learned: sine and cosine do not count turns, got 'level'")
        if network is not None and network.local is not None:
            for name, columns in (("learn", kinematic), ("angles", angles), ("ignorable", ignorable)):
                if len(columns):
                    raise ValueError(
                        f"{name} must be left out where the network is local, of a field, got {getattr(self, name)!r}"
                    )
            network.local.check_field(d + u, d)
        scale, unit = Scale(np.zeros(d), np.ones(d), np.zeros(u), np.ones(u)), np.ones(len(learned))
        ends = scale.y_mean, scale.y_mean
        return Columns(
            names, given.known_names, scale, scale, ends, learned, kinematic, angles, ignorable, kinematics, unit, self.target
        )

    def _learn(self, network: ProbabilisticESN | None, runs: Runs, columns: Columns, steps: Steps) -> ForecastModel:
        """Fit the model to runs."""
        design, given = self.design, network is not None
        patches = network.local if network is not None else None if design is None else design.candidate.patches
        prepared = prepare(runs, columns, network, self.scale, steps, patches is not None and patches.shared)
        if not given and patches is None and columns.dynamics.encoding.is_plain and not len(columns.kinematic):
            patches = find_patches([s.y * prepared[0].scale.y_std for s in prepared[2]])
            if patches is not None:
                prepared = prepare(runs, columns, network, self.scale, steps, one_law=True)
        columns, segments, sample, (rows, known, time) = prepared
        if network is None:
            if design is None:
                design = choose_design(sample, columns.dynamics, columns.bounds(widen=False), steps, patches)
            network = build_network(design, columns.n_inputs, len(columns.learned))
        task = Task(network, columns, segments, sample, design, self._measurement_noise(columns, design))
        errors, var, calibration = fit_network(task, steps, choose_ridge=design is None and not given, calibrate=self.calibrate)
        state = task.last_state(errors, var, rows, known)
        recent = rows[-FILTERED:], known[-FILTERED:]
        return ForecastModel(columns, network, errors, var, calibration, design, time, state, *recent)

    def _measurement_noise(self, columns: Columns, design: Design | None) -> Array | None:
        """Return scaled variances (d,) of the measurement noise; None to estimate them."""
        given, d = self.measurement_noise, columns.n_columns
        if isinstance(given, str) and given != "auto":
            raise ValueError(f"measurement_noise must be deviations, 'auto' or None, got {given!r}")
        if given is None and design is None:
            return np.zeros(d)
        if given is None or isinstance(given, str):
            return None
        std = as_real("measurement_noise", by_names("measurement_noise", given, columns.names))
        if std.shape not in ((), (d,)):
            each = f"a deviation, or one for each of the {d} columns of y"
            raise ValueError(f"measurement_noise must be {each}, got an array of shape {std.shape}")
        check_not_negative("measurement_noise", std)
        scaled = np.broadcast_to(std, d) / columns.scale.y_std
        if (scaled > _NOISIEST * columns.prior.y_std).any():
            raise ValueError(f"measurement_noise must be at most {_NOISIEST:g} deviations of each column of y, got {given}")
        return np.square(scaled)

    @property
    def _fitted(self) -> ForecastModel:
        """The model, if there is one."""
        check_is_fitted(self, "model_")
        return self.model_

    # ---------------------------------------------------------------- forecasts, and dynamics: X are controls, y states

    forecast = _delegate(ForecastModel.forecast)
    sample_paths = _delegate(ForecastModel.sample_paths)
    backtest = _delegate(ForecastModel.backtest)
    score = _delegate(ForecastModel.score)
    start = _delegate(ForecastModel.start)
    rollout = _delegate(ForecastModel.rollout)
    step = _delegate(ForecastModel.step)
    linearize = _delegate(ForecastModel.linearize)
    loop = _delegate(ForecastModel.loop)

    def update(self, y: TableLike, X: TableLike | None = None) -> Self:
        """Update the state and the readout by new rows, by recursive least squares.

        A row with missing values corrects the state by its observations and leaves the readout unchanged. The error model is
        updated with the forgetting factor of the network; ``calibration_`` stays. Labels of forecasts continue those of y, or,
        if it has none, advance by its number of rows. Steps missing before or within y are missing values; rows that were seen
        before are refused.

        Parameters
        ----------
        y : array-like of shape (n, d)
            Rows after the last one seen.
        X : array-like of shape (n, u), optional
            Known inputs, which drive each row to the next, as in :meth:`fit`.

        Returns
        -------
        Forecaster
            self. A failed update changes nothing.
        """
        self.model_ = self._fitted.update(y, X)
        return self

    def standardize(self, rows: Array, known: Array) -> tuple[Array, Array]:
        """Standardize y and X to the units of the network.

        Parameters
        ----------
        rows : array of shape (n, d)
            Rows of y.
        known : array of shape (n, u)
            Rows of X.

        Returns
        -------
        rows : array of shape (n, d)
            Scaled y, if ``scale`` is set.
        known : array of shape (n, u)
            Scaled X, if ``scale`` is set.
        """
        return self._fitted.columns.scale.apply(rows, known)

    # ---------------------------------------------------------------- files

    def save(self, path: PathLike) -> None:
        """Write the forecaster to a file for ``pesn.load``; no code is stored, and an existing file is replaced atomically.

        Parameters
        ----------
        path : path-like
            File to write.
        """
        from pesn.persistence import save  # imported late: it imports every estimator

        save(self, path)

    def check_attributes(self) -> None:
        """Raise a ValueError if the model from a file is damaged."""
        self.model_.check("model_")


def _check_network(esn: ProbabilisticESN | str | None, design: Design | None) -> ProbabilisticESN | None:
    """Return a copy of the given network; None if a design is given or to be selected."""
    if design is not None and not isinstance(design, Design):
        raise TypeError(f"design must be the design_ of a fitted Forecaster or None, got {type(design).__name__}")
    if esn is None or (isinstance(esn, str) and esn == "auto"):
        return None
    if not isinstance(esn, ProbabilisticESN):
        raise TypeError(f"esn must be a pesn.ProbabilisticESN or 'auto', got {esn!r}")
    if design is not None:
        raise ValueError("esn and design exclude each other: a design says what the network is")
    check_probabilistic(esn)
    return clone(esn)
