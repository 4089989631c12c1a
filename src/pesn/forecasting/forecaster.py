"""Forecasts of a system or a series, in closed form: a network that predicts its own next input, with honest error bars.

>>> import numpy as np
>>> t = np.arange(1500.0)
>>> y = np.column_stack([np.sin(0.2 * t), np.cos(0.31 * t)])
>>> forecaster = Forecaster().fit(y[:1400])
>>> forecast = forecaster.forecast(20, y[1395:1405])   # ten rows are enough to start from
>>> forecast.mean.shape, bool(np.abs(forecast.mean - y[1405:1425]).max() < 0.1)
((20, 2), True)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from typing import Any, Literal, Self, final

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from pesn._support.arguments import as_count, as_real, check_not_negative, flag, generator
from pesn._support.progress import Steps, shown
from pesn._support.records import rollback_on_error
from pesn._support.types import Array, Lengths, TableLike, Target
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.esn.validation import check_probabilistic
from pesn.evaluation.backtest import Backtest
from pesn.evaluation.calibration import LEADS
from pesn.forecasting.alignment import align, run_slices
from pesn.forecasting.backtest import backtest
from pesn.forecasting.context import FILTERED, FilteredContext, Rows, check_size
from pesn.forecasting.dataset import (
    as_columns,
    as_encoded,
    as_kinematics,
    as_matrix,
    by_names,
    in_scale,
    names_of,
    scale_from,
    unscaled,
)
from pesn.forecasting.design import Design, choose_design, designed
from pesn.forecasting.forecast import Forecast
from pesn.forecasting.model import DynamicsModel, OnlineLearner
from pesn.forecasting.predict import Futures, look_ahead, path_ahead
from pesn.forecasting.runs import ArrayRuns, RunColumns, Runs, source_of, stream, survey
from pesn.forecasting.selection import Task, fit_network
from pesn.forecasting.training import Cut, in_units_of, least_steps, output_scale, sizes_of, target_spread
from pesn.gaussian import Gaussian
from pesn.readout.groups import Patches
from pesn.readout.ridge import PARTS, check_parts
from pesn.reservoir.sequences import split

__all__ = ["Forecaster"]

_HORIZON = 20  # steps ahead of a backtest
_NOISIEST = 2.0  # deviations of y: rows that are noisier say nothing


@final
class Forecaster(DynamicsModel):
    """Forecasts y from its own past and from known inputs X, as a Gaussian jointly over time.

    Parameters
    ----------
    esn
        The network. ``"auto"``: reservoir, features and ridges are chosen by closed loops into rows that were held out; below
        126 rows, or where gaps leave no stretch long enough, one of 100 units and the ridge that forecasts into held-back rows
        are best by. Or a
        :class:`pesn.ProbabilisticESN`, which is cloned and not changed.
    target
        What the network learns of a column: its ``"change"`` to the next row, or its ``"level"`` there.
    learn
        The columns of y that the network predicts, by number, or by name where y is a frame; None: all of them.
    kinematics
        (A, B, c) for the other columns, in their order: y[k+1][rest] = A @ y[k] + B @ y[k+1][learn] + c.
    scale
        Standardise every column inside. Without, y and X should be of order 1.
    calibrate
        Compare forecasts with held-back rows, step by step ahead, and widen or narrow their deviations to match.
    design
        The ``design_`` of another forecaster, taken as it is, without a search.
    angles
        Columns of y that are angles in radians, by number, or by name where y is a frame. The network sees their sine and
        cosine, so that whole turns make no difference to it; y itself goes on with the angle. Rows are taken to be less than half
        a turn apart: where an angle jumps by more, as one between −π and π does, it is unwrapped.
    unseen
        Columns of y that the dynamics does not depend on, as a position on a track: the network does not see them. They are
        forecast as all others, learnt or kinematic. Bounds that keep other columns near their training range do not hold for
        these, nor for angles.
    measurement_noise
        Deviation of the noise that y is measured with, in its units, or one for each column (d,); 0: none. Such noise is in every
        row that is observed, and does not go on: rows of a context correct the state by as much as they are worth. ``"auto"``:
        as much of the one-step errors as forecasts into held-back rows are best by. None: ``"auto"`` with a design, else 0.
    verbose
        Say on standard error how far ``fit`` is.

    Attributes
    ----------
    design_
        What the search has chosen, ``design_.candidate``, and how the others did, ``design_.scores`` and ``design_.plot()``;
        None where a network was given, or rows or stretches of them are too few to choose by.
    esn_
        The fitted network; ``esn_.process_noise_`` is the share of process noise chosen or given.
    target_
        The target that it was fitted to.
    names_, known_names_
        The names of the columns of y and X, where they were pandas objects; else None.
    errors_
        The model's one-step errors: their covariance, how long they go on, and what is new in each.
    measurement_std_
        The deviations (d,) of the noise that y is measured with, in its units, estimated or given; ``errors_`` are without it.
    calibration_
        Factors (50,) of the deviations 1 … 50 steps ahead; the last one holds for all beyond.
    """

    def __init__(
        self,
        esn: ProbabilisticESN | Literal["auto"] | None = "auto",
        *,
        target: Target = "change",
        learn: int | str | Sequence[int | str] | npt.NDArray[np.integer[Any]] | None = None,
        kinematics: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike] | None = None,
        scale: bool = True,
        calibrate: bool = True,
        design: Design | None = None,
        angles: int | str | Sequence[int | str] | npt.NDArray[np.integer[Any]] = (),
        unseen: int | str | Sequence[int | str] | npt.NDArray[np.integer[Any]] = (),
        measurement_noise: npt.ArrayLike | Literal["auto"] | None = None,
        verbose: bool = False,
    ) -> None:
        self.esn = esn
        self.target = target
        self.learn = learn
        self.kinematics = kinematics
        self.scale = scale
        self.calibrate = calibrate
        self.design = design
        self.angles = angles
        self.unseen = unseen
        self.measurement_noise = measurement_noise
        self.verbose = verbose

    # ---------------------------------------------------------------- learning

    def fit(self, y: TableLike | Iterable[Any], X: TableLike | None = None, lengths: Lengths = None) -> Self:
        """Learn from y (n, d), or (n,), and X (n, u), where X[k] drives y[k] → y[k+1]; or from runs, one by one.

        Rows of a pandas object are taken by its index: dates, periods, durations or numbers of one step. The index of
        forecasts continues it, and missing steps are gaps. Text is parsed: ISO 8601 as dates, numerals as numbers. A MultiIndex
        names runs by all levels but the last, which is the time within a run. The default index 0, 1, 2, … is no time. If X
        has an index too, it must have a row for each label of y, in any order. Labels that do not increase within a run, that
        have no common step, or that are not times (names) are refused.

        Parameters
        ----------
        y
            (n, d), or (n,). A row with a gap (NaN) ends one segment and begins another. Or *runs*, of which one at a time is in
            memory: a list, an iterator or anything that can be iterated of y or (y, X), of arrays or frames; a Dask bag of
            such; a :class:`pesn.forecasting.runs.ParquetRuns`. The numbers are those of the same runs stacked, with
            ``lengths``. They are gone through about five times: what can be iterated once only is written to a temporary file
            on the way, 8 bytes a number.
        X
            (n, u), where X[k] drives y[k] → y[k+1]. The last row of a run acts on nothing that is known and may be NaN.
        lengths
            Rows of each of the runs, one after the other; None: those that a MultiIndex of y names, else all rows are one run.

        Notes
        -----
        Scales, the readout and its errors are learnt from all rows. Up to 50,000 steps the design, noise and calibration are
        chosen by all of them, too; of more by a sample of so many, whole runs spread evenly, or 5,000 steps of long ones.

        Returns
        -------
        Self
            A failed fit leaves the forecaster as it was.
        """
        flag("verbose", self.verbose)
        with rollback_on_error(self), shown(self.verbose) as steps:
            self._fit(y, X, lengths, steps)
        return self

    def _fit(self, y: TableLike | Iterable[Any], X: TableLike | None, lengths: Lengths, steps: Steps) -> None:
        network = _given(self.esn, self.design)
        flag("scale", self.scale)
        flag("calibrate", self.calibrate)
        if self.target not in ("change", "level"):
            raise ValueError(f"target must be 'change' or 'level', got {self.target!r}")
        if network is not None:
            check_probabilistic(network)
        runs, columns = _runs(y, X, lengths)
        with closing(runs):
            self._learn(network, runs, columns, steps)

    def _learn(self, network: ProbabilisticESN | None, runs: Runs, columns: RunColumns, steps: Steps) -> None:
        self.names_, self.known_names_ = columns.names, columns.known_names
        if self.names_ is not None and len(set(self.names_)) < len(self.names_):
            raise ValueError(f"y must have columns of different names, got {self.names_}")
        self.n_columns_, self.n_known_ = columns.n_columns, columns.n_known
        self.target_ = self.target
        self.learned_columns_, self.kinematic_columns_ = as_columns(self.learn, self.n_columns_, self.names_)
        kinematics = as_kinematics(self.kinematics, self.n_columns_, len(self.learned_columns_))
        self.angle_columns_, self.unseen_columns_ = as_encoded(
            self.angles, self.unseen, self.n_columns_, self.n_known_, self.names_
        )
        if self.target == "level" and np.isin(self.angle_columns_, self.learned_columns_).any():
            raise ValueError("target must be 'change' where angles are learnt: sine and cosine do not tell the turn, got 'level'")
        if network is not None and network.local is not None:
            self._check_field(network.local)
        if network is not None and runs.streamed:
            network.check_streamable()
        told = steps if runs.streamed else Steps()  # rows in memory are gone through in no time
        with told.step("reading the runs", unit="rows") as advance:
            found = survey(runs, self.angle_columns_, advance)
        one_law = network is not None and network.local is not None and network.local.shared  # in units of one scale
        self.scale_ = scale_from(found.y, found.known)
        if not self.scale:
            self.scale_ = unscaled(self.n_columns_, self.n_known_)
        elif one_law:
            self.scale_ = self.scale_.of_field()
        self.kinematics_ = in_scale(kinematics, self.scale_, self.learned_columns_, self.kinematic_columns_)
        in_units = found.y.scaled(self.scale_.y_mean, self.scale_.y_std)
        self.prior_scale_ = scale_from(in_units, found.known.scaled(self.scale_.x_mean, self.scale_.x_std))
        self.range_ = in_units.low, in_units.high
        washout, lags = (0, 0) if network is None else (network.washout, network.features.lags)
        shortest = least_steps(np.concatenate(found.sizes), washout, lags)
        cut = Cut(
            self.angle_columns_, self.scale_, self.learned_columns_, self.target_ == "change", shortest,
            np.ones(len(self.learned_columns_)),
        )  # fmt: skip
        segments = cut.all_of(runs, found.sizes)
        with told.step("looking at the targets", int(sizes_of(segments).sum()), "rows") as advance:
            targets, sample = target_spread(segments, advance)
        self.output_std_ = output_scale(targets, self.prior_scale_.y_std[self.learned_columns_], one_law)
        segments, sample = in_units_of(self.output_std_, segments, sample)
        self.design_ = self.design
        if network is None:
            if self.design_ is None:
                self.design_ = choose_design(sample, self._dynamics, self._bounds(widen=False), steps)
            network = designed(self.design_, self._n_inputs)
        self.esn_ = network
        noise = 0.0 if self.design_ is None else self.design_.candidate.input_noise
        task = Task(
            network, self._dynamics, segments, sample, self._loop, self._context_filter, noise, self._measurement_noise(),
            spread=self.design_ is not None,
        )  # fmt: skip
        given = isinstance(self.esn, ProbabilisticESN)
        self.errors_, self.measurement_var_, self.calibration_ = fit_network(
            task, steps, choose_ridge=self.design_ is None and not given, calibrate=self.calibrate
        )
        rows, known, self._time = cut.scaled(found.last)  # the last run, which forecasts go on from
        self._recent, self._recent_known = rows[-FILTERED:], known[-FILTERED:]
        self._state = self._context_filter().filtered(self.loop(), rows, known[:-1])

    def _check_field(self, patches: Patches) -> None:
        """A ValueError where the columns of y are not a field that patches may be of."""
        given = {"learn": self.kinematic_columns_, "angles": self.angle_columns_, "unseen": self.unseen_columns_}
        for name, columns in given.items():
            if len(columns):
                raise ValueError(f"{name} must be left out where the network is local, of a field, got {getattr(self, name)!r}")
        patches.check_field(self.n_columns_ + self.n_known_, self.n_columns_)

    def _measurement_noise(self) -> Array | Literal["auto"] | None:
        """Scaled variances (d,) of the noise on y, "auto" where it is to be estimated, None where there is none."""
        given = self.measurement_noise
        if given is None:
            return None if self.design_ is None else "auto"
        if isinstance(given, str):
            if given != "auto":
                raise ValueError(f"measurement_noise must be deviations, 'auto' or None, got {given!r}")
            return "auto"
        std = as_real("measurement_noise", by_names("measurement_noise", given, self.names_))
        if std.shape not in ((), (self.n_columns_,)):
            each = f"a deviation, or one for each of the {self.n_columns_} columns of y"
            raise ValueError(f"measurement_noise must be {each}, got an array of shape {std.shape}")
        check_not_negative("measurement_noise", std)
        scaled = np.broadcast_to(std, self.n_columns_) / self.scale_.y_std
        if (scaled > _NOISIEST * self.prior_scale_.y_std).any():
            raise ValueError(f"measurement_noise must be at most {_NOISIEST:g} deviations of each column of y, got {given}")
        return np.square(scaled)

    # ---------------------------------------------------------------- forecasting

    def forecast(
        self,
        horizon: int,
        context: TableLike | Gaussian | tuple[TableLike | Gaussian, TableLike | Gaussian] | FilteredContext | None = None,
        X: TableLike | Gaussian | None = None,
        *,
        parts: Collection[str] = PARTS,
        joint: bool | None = None,
    ) -> Forecast:
        """The next ``horizon`` rows after ``context``, or after the last row that ``fit`` or ``update`` has seen.

        Parameters
        ----------
        horizon
            How many rows.
        context
            Recent y (n, d), or (y, X) with X (n − 1, u) one row shorter; one row is enough. NaN is missing: it is conditioned on
            what is there. y may be a :class:`pesn.Gaussian`, over one row, mean (d,), or a row a step, mean (n, d), with any
            covariances within a row: the first row is then as uncertain as it says, those after it were measured with noise of
            their covariance, and what the last one leaves open goes on into the forecast. X may be one with variances. Or what
            :meth:`start` gave for one context, which is not filtered again.
        X
            What is known ahead, (horizon, u), its first row acting on the last row of the context. NaN is as uncertain as X was
            in training; a :class:`pesn.Gaussian` of mean (horizon, u), with variances, as uncertain as it says, each row on its
            own. Gaussians have no index: their rows go by position.
        parts
            The parts of the variance that are wanted, of "state", "noise", "weights". ("state",) is the paper's own, W Σ_b Wᵀ
            from step to step: of the start, the inputs and the units, without the model's errors. Where some are left out,
            deviations are not calibrated.
        joint
            Whether the covariance between all rows is kept, of (horizon · d)² numbers; None: up to 4,000 numbers ahead. Without
            it there is the covariance of each row, memory and time grow with the horizon and no faster, and samples are futures
            that the network goes through by itself.

        Returns
        -------
        Forecast
            Its index goes on from that of y in the context, or of the rows seen, where this was a pandas object's.
        """
        check_is_fitted(self, "esn_")
        keep = check_size(horizon, joint, self.n_columns_)
        check_parts(parts)
        futures, rows = self._futures(int(horizon), context, X, tuple(parts))
        index = None if rows.time is None else rows.time.labels(int(horizon))
        history = self.scale_.undo(rows.y[-3 * int(horizon) :])
        # of some parts alone nothing was compared with rows that were held back
        calibration = self.calibration_ if set(parts) == set(PARTS) else np.ones(LEADS)
        result = look_ahead(futures, calibration, keep)
        return Forecast(**result, names=self.names_, index=index, history=history)

    def sample_paths(
        self, n: int, horizon: int, context: Any = None, X: Any = None, *,
        noise: bool = True, calibrate: bool = True, rng: Any = None,
    ) -> Array:  # fmt: skip
        """Whole futures, simulated: ``n`` sample paths of the next ``horizon`` rows, by Monte Carlo.

        Each path starts from a draw of the state that the context leaves, and goes through the network's own loop with errors of
        its own: nothing is taken for Gaussian on the way, whatever form of covariance the network has. Deviations from the mean
        of the paths are calibrated as those of a forecast. For what no mean and deviation of a row says: when a level is
        crossed first, the largest value, skewed or two-peaked futures far ahead. :meth:`Forecast.sample` draws from the Gaussian
        of the forecast instead. For the climate of an attractor, over as many steps as wanted: ``noise=False``, or
        ``calibrate=False``.

        Parameters
        ----------
        n
            Number of paths.
        horizon, context, X
            As in :meth:`forecast`.
        noise
            Whether errors of the model, process noise and what the weights leave open move the paths. Without, they are the
            dynamics that were learnt, from different draws of the start, in a compiled loop; inputs that are not known are as
            they are on average.
        calibrate
            Whether deviations are calibrated, which changes their size in the long run too. Without noise there is nothing to
            calibrate.
        rng
            A seed or a Generator; None: other paths at every call.

        Returns
        -------
        array
            (n, horizon, d), in the units of y.
        """
        check_is_fitted(self, "esn_")
        count = as_count("n", n)
        check_size(horizon, False, self.n_columns_)
        flag("noise", noise)
        flag("calibrate", calibrate)
        futures, _ = self._futures(int(horizon), context, X, PARTS)
        calibration = self.calibration_ if calibrate else None
        return futures.sample_paths(count, calibration, generator(rng), noise)

    def _futures(self, horizon: int, context: Any, X: Any, parts: tuple[str, ...]) -> tuple[Futures, Rows]:
        """Where the loop stands after the context, with what is known ahead; and the rows of the context."""
        loop, columns, context_filter = self.loop(), self._columns, self._context_filter()
        start = self._started(context) if isinstance(context, FilteredContext) else self.start(context)
        if start.batch:
            raise ValueError(f"context must be one, got a start of {start.batch[0]}; rollout takes as many")
        u, u_var = columns.ahead(X, horizon, start.rows.time)
        state, own = context_filter.with_input(loop, start.begun, u[0], u_var[0]), None
        if (start.plain is not None or u_var.any()) and set(parts) == set(
            PARTS
        ):  # calibration is of what the model says by itself
            plain = context_filter.with_input(loop, start.plain or start.begun, u[0])
            own = path_ahead(loop, plain, *context_filter.impute_inputs(u)).cov
        if "state" not in parts:
            state = loop.as_certain(state)
        elif "noise" not in parts:
            state = loop.without_errors(state)
        u, u_var = context_filter.impute_inputs(u, u_var)
        u_var *= "state" in parts
        if set(parts) != set(PARTS):
            loop = self.loop(parts)
        return Futures(loop, state, u, u_var, columns, own), start.rows

    def backtest(
        self, y: TableLike, X: TableLike | None = None, horizon: int = _HORIZON, origins: int | Sequence[int] = 20
    ) -> Backtest:
        """Forecasts from rows of y (n, d) with X (n, u), as in ``fit``, beside what was observed: by this forecaster as it is.

        Parameters
        ----------
        y, X
            Rows that it was not fitted to; those it was flatter it. X is known ahead, NaN where it is not.
        horizon
            Rows that each forecast looks ahead.
        origins
            How many forecasts, or a list with the first row of each: the rows before it are known. A number of them is spread
            evenly over the rows that have a full context before them, at most one for each.

        Returns
        -------
        Backtest
            ``mean``, ``std`` and ``observed`` (origins, horizon, d); ``crps()``, ``mae()``, ``coverage(level)``, ``to_frame()``.
        """
        check_is_fitted(self, "esn_")
        check_size(horizon, False, self.n_columns_)
        return self._backtest(self._columns.again(y, X, self._time), horizon, origins)

    def _backtest(self, given: tuple[Rows, Any], horizon: int, origins: int | Sequence[int]) -> Backtest:
        return backtest(self.loop(), self._context_filter(), self._columns, self.calibration_, given, horizon, origins)

    def score(self, y: TableLike, X: TableLike | None = None) -> float:
        """Minus the CRPS of a backtest, each column in units of its deviation in training: the larger the better.

        Parameters
        ----------
        y, X
            Rows (n, d) and (n, u), as in :meth:`fit`.

        Returns
        -------
        float
            0 for forecasts that are certain and right, else negative; the mean over columns of which something was observed.
        """
        check_is_fitted(self, "esn_")
        given = self._columns.again(y, X, self._time)
        horizon = min(_HORIZON, max(len(given[0].y) // 2, 1))
        crps = self._backtest(given, horizon, 20).crps() / self.scale_.y_std
        if np.isnan(crps).all():
            raise ValueError("y must have at least one observed value in the rows that are forecast, got none")
        return -float(np.nanmean(crps))

    # ---------------------------------------------------------------- going on

    def update(self, y: TableLike, X: TableLike | None = None) -> Self:
        """New rows, seen once: each corrects the state and then moves the readout, by recursive least squares.

        A row with a gap corrects the state by what is there, and the readout is left as it is. How large errors are follows
        them, with the network's forgetting; ``calibration_`` stays. The labels of forecasts go on from those of y, or, where it
        has none, by as many steps as it has rows. Steps missing between the last row seen and y, or in y, are gaps; rows that
        were seen before are refused.

        Parameters
        ----------
        y
            (n, d), from the row after the last one seen.
        X
            (n, u), which drives each row to the next, as in :meth:`fit`.

        Returns
        -------
        Self
            A failed update changes nothing.
        """
        check_is_fitted(self, "esn_")
        rows, known, time = self._columns.more(y, X, self._time, seen=self._recent)
        esn = self.esn_
        learner = OnlineLearner(self.loop(), self._context_filter(), esn.rls_, esn.rls_delta, esn.forgetting)
        state = learner.learn(self._state, (self._recent[-1], self._recent_known[-1]), rows, known)
        readout, errors = learner.loop.readout, learner.loop.errors
        if not np.isfinite(readout.weights).all():
            raise FloatingPointError("update left finite numbers; y or X may be of another scale than in fit")
        esn.readout_, esn.rls_, self.errors_ = readout, learner.rls, errors
        low, high = self.range_
        self.range_ = np.fmin(low, np.fmin.reduce(rows)), np.fmax(high, np.fmax.reduce(rows))
        self._state, self._time = state, time
        self._recent, self._recent_known = (
            np.vstack(both)[-FILTERED:] for both in ((self._recent, rows), (self._recent_known, known))
        )
        return self


def _runs(y: Any, X: TableLike | None, lengths: Lengths) -> tuple[Runs, RunColumns]:
    """The runs, in memory or in a stream, and the columns of all of them."""
    source = source_of(y)
    if source is not None:
        for name, value in (("X", X), ("lengths", lengths)):
            if value is not None:
                raise ValueError(f"{name} must be None where y holds runs, each of them y or (y, X), got {type(value).__name__}")
        try:
            return stream(source)
        except BaseException:
            source.close()
            raise
    rows = as_matrix("y", y)
    runs, named = split(lengths, len(rows), "y"), run_slices(y, "y")
    if named is not None:
        if lengths is not None and [*named.values()] != runs:
            sizes = [run.stop - run.start for run in named.values()]
            raise ValueError(f"lengths must be None, or those of the runs in the index of y, {sizes}, got {lengths}")
        runs = [*named.values()]
    layout = align(y, X, runs, named=True)
    known = as_matrix("X", X, layout.n_inputs) if X is not None else np.zeros((len(rows), 0))
    rows, known = (np.ascontiguousarray(part) for part in (layout.place(rows), layout.place_inputs(known)))
    columns = RunColumns(rows.shape[1], known.shape[1], names_of(y), names_of(X))
    return ArrayRuns(rows, known, layout.runs, layout.time), columns


def _given(esn: ProbabilisticESN | str | None, design: Design | None) -> ProbabilisticESN | None:
    """A copy of the network that was given; None where a design is, or is to be chosen."""
    if design is not None and not isinstance(design, Design):
        raise TypeError(f"design must be the design_ of a fitted Forecaster or None, got {type(design).__name__}")
    if esn is None or (isinstance(esn, str) and esn == "auto"):
        return None
    if not isinstance(esn, ProbabilisticESN):
        raise TypeError(f"esn must be a pesn.ProbabilisticESN or 'auto', got {esn!r}")
    if design is not None:
        raise ValueError("esn and design exclude each other: a design says what the network is")
    network: ProbabilisticESN = clone(esn)
    return network
