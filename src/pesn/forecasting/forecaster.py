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

import logging
import os
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from pesn._support.checks import flag, whole_number
from pesn._support.progress import Steps, shown
from pesn.esn.network import all_or_nothing
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.forecasting.alignment import align, rows_ahead
from pesn.forecasting.context import FILTERED, Context
from pesn.forecasting.dataset import (
    Piece,
    Scale,
    as_columns,
    as_kinematics,
    as_matrix,
    hold_back,
    in_scale,
    names_of,
    refuse_far,
    scale_of,
    stretches,
    unscaled,
    worthwhile,
)
from pesn.forecasting.forecast import Forecast
from pesn.forecasting.rollout import Paths, roll
from pesn.forecasting.time_index import TimeIndex
from pesn.learning.calibration import LEADS, SHARES, factors, search
from pesn.metrics import crps_gaussian
from pesn.readout.online import go_on, learn
from pesn.readout.ridge import Gram, Readout, predict, solve
from pesn.reservoir.closed_loop import PARTS, Errors, Loop, follow, learn_errors
from pesn.reservoir.drive import run
from pesn.reservoir.initial_state import Start
from pesn.reservoir.initial_state import learn as learn_start
from pesn.reservoir.open_loop import form_of, process_noise
from pesn.reservoir.sequences import blocks, features, split
from pesn.statespace import Belief

__all__ = ["Forecaster"]

Array = npt.NDArray[np.float64]
_MOST_ORIGINS = 36  # held-back forecasts by which the spread is judged
_JOINT = 4_000  # numbers of a forecast, over steps and columns, up to which the covariance of all of them is kept: 128 MB
_MOST_JOINT = 20_000  # where it is asked for: 3.2 GB, a few times
_MOST_NUMBERS = 10_000_000  # covariances within the rows of a forecast
_WIDEST = 3.0  # deviations of y in training: no forecast is wider, whatever its calibration
_ROUNDING = 1e-12  # of y's deviation: targets that vary by less are constant
_log = logging.getLogger("pesn.forecasting.forecaster")


class Model(NamedTuple):
    """What is learnt for one reservoir: the readout, how it errs, where a sequence starts."""

    readout: Readout
    errors: Errors
    start: Start


class Forecaster(BaseEstimator):  # type: ignore[misc]
    """Forecasts y from its own past and from known inputs X, as a Gaussian jointly over time.

    Parameters
    ----------
    esn
        The network: a :class:`pesn.ProbabilisticESN`, which is cloned and not changed. None: one of 100 units, washout "auto".
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
    verbose
        Say on standard error how far ``fit`` is.

    Attributes
    ----------
    esn_
        The fitted network; ``esn_.process_noise_`` is the share of process noise chosen or given.
    target_
        The target that it was fitted to.
    names_, known_names_
        The names of the columns of y and X, where they were pandas objects; else None.
    errors_
        The model's one-step errors: their covariance, how long they go on, and what is new in each.
    calibration_
        Factors (20,) of the deviations 1 … 20 steps ahead; the last one holds for all beyond.
    """

    esn_: ProbabilisticESN
    scale_: Scale
    kinematics_: tuple[Array, Array, Array]
    usual_: Scale  # of y and X as the network sees them
    range_: tuple[Array, Array]  # of y as the network sees it, lowest and highest
    _time: TimeIndex | None  # at the last row seen
    _belief: Belief  # after the last row seen: y known, the units before it
    _recent: Array  # the last rows of y, scaled, NaN among them
    _recent_known: Array  # X of these rows

    def __init__(
        self,
        esn: ProbabilisticESN | None = None,
        *,
        target: str = "change",
        learn: Any = None,
        kinematics: Any = None,
        scale: bool = True,
        calibrate: bool = True,
        verbose: bool = False,
    ) -> None:
        self.esn = esn
        self.target = target
        self.learn = learn
        self.kinematics = kinematics
        self.scale = scale
        self.calibrate = calibrate
        self.verbose = verbose

    # ---------------------------------------------------------------- learning

    def fit(self, y: Any, X: Any = None, lengths: Any = None) -> Self:
        """Learn from y (n, d), or (n,), and X (n, u), where X[k] drives y[k] → y[k+1]; ``lengths`` splits the rows into runs.

        Rows with a gap (NaN) end one stretch and begin another. The last row of X in a run acts on nothing that is known and may
        be NaN. Where y is a pandas object whose index is dates, periods or evenly spaced numbers, so is that of forecasts, and
        steps that are missing in it are gaps. Where X has an index too, its rows are taken by it: it must have a row for each of
        y's labels, in any order. Labels that do not increase within a run, or keep no step, are refused.
        A failed fit leaves the forecaster as it was.
        """
        flag("verbose", self.verbose)
        with all_or_nothing(self), shown(self.verbose) as steps:
            self._fit(y, X, lengths, steps)
        return self

    def _fit(self, y: Any, X: Any, lengths: Any, steps: Steps) -> None:
        network = self._network()
        flag("scale", self.scale)
        flag("calibrate", self.calibrate)
        if self.target not in ("change", "level"):
            raise ValueError(f"target must be 'change' or 'level', got {self.target!r}")
        rows = as_matrix("y", y)
        self.names_ = names_of(y)
        if self.names_ is not None and len(set(self.names_)) < len(self.names_):
            raise ValueError(f"y must have columns of different names, got {self.names_}")
        layout = align(y, X, split(lengths, len(rows), "y"))
        known = as_matrix("X", X, layout.n_inputs) if X is not None else np.zeros((len(rows), 0))
        rows, known = layout.place(rows), layout.place_inputs(known)
        self.known_names_ = names_of(X)
        self.n_columns_, self.n_known_ = rows.shape[1], known.shape[1]
        self.target_ = self.target
        self.learn_, self.rest_ = as_columns(self.learn, self.n_columns_, self.names_)
        kinematics = as_kinematics(self.kinematics, self.n_columns_, len(self.learn_))
        self.scale_ = scale_of(rows, known) if self.scale else unscaled(self.n_columns_, self.n_known_)
        self.kinematics_ = in_scale(kinematics, self.scale_, self.learn_, self.rest_)
        rows, known = self.scaled(rows, known)
        self.usual_ = scale_of(rows, known)
        self.range_ = np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
        runs, self._time = layout.runs, layout.time
        pieces, self.output_std_ = self._pieces(rows, known, runs, network.washout)
        z, targets = np.vstack([p.z for p in pieces]), np.vstack([p.targets for p in pieces])
        self.esn_ = network._fit(z, targets, [len(p.z) for p in pieces], steps)
        with steps.step("learning the errors"):
            self.errors_ = self._learn_errors(pieces, self.esn_.readout_, self.esn_.washout_)
        self.calibration_ = np.ones(LEADS)
        self._choose(pieces, steps)
        self._end(rows[runs[-1]], known[runs[-1]])

    def _network(self) -> ProbabilisticESN:
        if self.esn is None:
            return ProbabilisticESN(washout="auto", random_state=0)
        if not isinstance(self.esn, ProbabilisticESN):
            raise TypeError(f"esn must be a pesn.ProbabilisticESN or None, got {type(self.esn).__name__}")
        network: ProbabilisticESN = clone(self.esn)
        return network

    def _pieces(self, rows: Array, known: Array, runs: list[slice], washout: Any) -> tuple[list[Piece], Array]:
        """The stretches to learn from, and the deviation of the targets, in units of which the network learns them."""
        pieces = stretches(rows, known, runs, self.learn_, self.target_ == "change")
        counted = isinstance(washout, Integral)
        long = worthwhile(pieces, int(washout) + 1 if counted else 2)
        if sum(len(p.z) - (max(int(washout), 0) if counted else 0) for p in long) < 4:  # fewer leave no errors to learn from
            raise ValueError(
                "y must have at least 5 rows in a row without gaps (with those of X) to learn from, after the washout of "
                f"{washout!r}, got fewer"
            )
        width = np.std(np.vstack([p.targets for p in long]), axis=0)
        # changes of a straight line differ by rounding alone, and in units of that no weights would be finite for long
        width = np.where(width > _ROUNDING * self.usual_.y_std[self.learn_], width, 1.0)
        return [p._replace(targets=p.targets / width) for p in long], width

    def _learn_errors(self, pieces: list[Piece], readout: Readout, washout: int) -> Errors:
        """From one-step residuals of y, kinematics included; a fit leaves smaller ones than it will meet."""
        residuals = []
        for piece in pieces:
            e = self._residuals(piece, readout)
            residuals.append(e[min(washout, len(e) - 1) :])
        inside = np.diagonal(np.cov(np.vstack(residuals).T, bias=True).reshape(self.n_columns_, -1))[self.learn_]
        outside = np.diagonal(readout.residual_cov) * self.output_std_**2
        least = np.square(_ROUNDING * self.usual_.y_std[self.learn_])
        ratio = np.divide(outside, inside, out=np.ones_like(inside), where=inside > least)
        return learn_errors(residuals, float(max(np.median(ratio), 1.0)))

    def _residuals(self, piece: Piece, readout: Readout) -> Array:
        e = np.empty((len(piece.z), self.n_columns_))
        state = None
        for block in blocks(slice(0, len(piece.z))):
            states, _, state = run(self.esn_.reservoir_, piece.z[block], state, feedback=piece.targets[block])
            wrong = piece.targets[block] - predict(readout, features(piece.z[block], states))
            e[block] = self._wrong(wrong, piece.y[block.start : block.stop + 1])
        return e

    def _wrong(self, targets: Array, y: Array) -> Array:
        """Errors (n, d) of one step: the network's, from those in its targets (n, m), and the kinematics', from y (n + 1, d)."""
        A, B, c = self.kinematics_
        e, after = np.empty((len(targets), self.n_columns_)), y[1:]
        e[:, self.learn_] = targets * self.output_std_
        e[:, self.rest_] = after[:, self.rest_] - (y[:-1] @ A.T + after[:, self.learn_] @ B.T + c)
        return e

    def _choose(self, pieces: list[Piece], steps: Steps) -> None:
        """Process noise and calibration, by forecasts into held-back rows of a model that has not seen them."""
        chosen = self.esn_.process_noise == "auto"
        seen, held = hold_back(pieces, LEADS + 2)
        if not (held and (chosen or self.calibrate)):
            return
        model = self._model(seen)
        origins = _origins(held)

        def ahead(share: float, some: list[tuple[Piece, int]]) -> tuple[Array, Array]:
            loop = self._loop(PARTS, model, share)
            missed = []
            for origin in some:
                missed.append(self._miss(loop, model.start, *origin))
                advance(1)
            wrong, std = zip(*missed, strict=True)
            return np.array(wrong), np.array(std)

        few, tried = origins[::3], {}

        def score(share: float) -> Array:
            tried[share] = wrong, std = ahead(share, few)
            return np.asarray(crps_gaussian(wrong, np.zeros_like(wrong), std))

        if chosen:
            with steps.step("choosing process noise", SHARES * len(few), "forecasts") as advance:
                self.esn_.process_noise_ = search(score)
        if self.calibrate:
            share = self.esn_.process_noise_
            others = [origin for i, origin in enumerate(origins) if i % 3]
            with steps.step("calibrating", len(others) + (0 if share in tried else len(few)), "forecasts") as advance:
                first = tried[share] if share in tried else ahead(share, few)
                both = [first, ahead(share, others)] if others else [first]
            self.calibration_ = factors(*(np.concatenate(part) for part in zip(*both, strict=True)))

    def _miss(self, loop: Loop, given: Start, piece: Piece, last: int) -> tuple[Array, Array]:
        """Errors and deviations (20, d) of a forecast from row ``last`` of a stretch."""
        d = self.n_columns_
        y, u = piece.y, piece.z[:, d:]
        first = max(0, last - FILTERED - self.esn_.washout_)
        belief = self._taking_in(given).over(loop, y[first : last + 1], u[first : last + 1])
        wrong, std = np.empty((LEADS, d)), np.empty((LEADS, d))
        for j in range(LEADS):
            k = last + j
            belief = loop.drive(belief) if j else belief
            belief = loop.emit(belief, u[min(k + 1, len(u) - 1)], np.zeros(u.shape[1]), free=True).belief
            wrong[j], std[j] = y[k + 1] - belief.mean[:d], np.sqrt(np.maximum(np.diagonal(belief.cov_carried())[:d], 0.0))
        return wrong, std

    def _model(self, pieces: list[Piece]) -> Model:
        """Readout, errors and start of the drawn reservoir, from these rows alone."""
        esn, d = self.esn_, self.esn_.reservoir_.n_inputs
        gram = Gram(1 + d + esn.reservoir_.n_units, len(self.learn_))
        kept = []
        for piece in pieces:
            states, _, _ = run(esn.reservoir_, piece.z, feedback=piece.targets)
            washed = min(esn.washout_, len(states) // 2)
            gram.add(features(piece.z[washed:], states[washed:]), piece.targets[washed:])
            kept.append((piece.z, states, washed))
        readout = solve(gram, esn.ridge)
        return Model(readout, self._learn_errors(pieces, readout, esn.washout_), learn_start(kept))

    # ---------------------------------------------------------------- forecasting

    def forecast(
        self, horizon: int, context: Any = None, X: Any = None, *, parts: Sequence[str] = PARTS, joint: bool | None = None
    ) -> Forecast:
        """The next ``horizon`` rows after ``context``: recent y, or (y, X) with X one row shorter; one row is enough.

        Without a context, after the last row seen by ``fit`` or ``update``. ``X`` (horizon, u) is what is known ahead, its first
        row acting on the last row of the context. NaN is missing: in the context it is conditioned on what is there, in X it is
        as uncertain as X was in training. ``parts``: the parts of the variance that are wanted, of "state", "noise", "weights".
        ``joint``: whether the covariance between all rows is kept, of (horizon · d)² numbers; None: up to 4,000 numbers ahead.
        Without it there is the covariance of each row, memory and time grow with the horizon and no faster, and samples are
        futures that the network goes through by itself.
        The result's index goes on from that of y in the context, or of the rows seen, where this was a pandas object's.
        """
        check_is_fitted(self, "esn_")
        whole_number("horizon", horizon, 1)
        if joint is not None:
            flag("joint", joint)
        most = _MOST_JOINT // self.n_columns_ if joint else _MOST_NUMBERS // self.n_columns_**2
        if horizon > max(most, 1):
            kept = " and joint=True" if joint else ""
            raise ValueError(f"horizon must be {most} or less with {self.n_columns_} columns of y{kept}, got {horizon!r}")
        if not isinstance(parts, (tuple, list, set, frozenset)) or not all(isinstance(p, str) and p in PARTS for p in parts):
            raise ValueError(f"parts must be some of {', '.join(PARTS)}, in a tuple or list, got {parts!r}")
        loop = self.loop()
        if context is None:
            y, time = self._recent, self._time
            ahead = self._known_ahead(X, horizon, time)
            belief = self._going_on(loop, ahead[0])
        else:
            y, u, time = self._context(context)
            ahead = self._known_ahead(X, horizon, time)
            belief = self._taking_in().over(loop, y, np.vstack([u, ahead[:1]]))
        if "state" not in parts:
            belief = loop.certain(belief)
        u_mean, u_var = self._taking_in().or_usual(ahead)
        index = None if time is None else time.labels(int(horizon))
        history = y[-3 * int(horizon) :] * self.scale_.y_std + self.scale_.y_mean
        keep = horizon * self.n_columns_ <= _JOINT if joint is None else bool(joint)
        result = self._ahead(self.loop(parts), belief, u_mean, u_var * ("state" in parts), keep)
        return Forecast(**result, names=self.names_, index=index, history=history)

    def _ahead(self, loop: Loop, belief: Belief, u: Array, u_var: Array, joint: bool) -> dict[str, Any]:
        """Mean, covariances and parts of a forecast, calibrated, as :class:`pesn.Forecast` takes them.

        No calibration makes a deviation larger than three of those in training.
        """
        path = roll(loop, belief, u, u_var, joint)
        if path.left is not None:
            step, column = path.left
            name = f"y{column}" if self.names_ is None else self.names_[column]
            _log.warning("the forecast of %s left the range of training at step %d of %d: held there", name, step + 1, len(u))
        std = np.sqrt(np.einsum("kii->ki", path.cov))
        factor = self.calibration_[np.minimum(np.arange(len(u)), LEADS - 1)][:, None] * np.ones_like(std)
        most = np.divide(_WIDEST * self.usual_.y_std, std, out=np.ones_like(std), where=std > 0.0)
        factor = np.minimum(factor, np.maximum(most, 1.0))
        mean, scale = path.mean * self.scale_.y_std + self.scale_.y_mean, self.scale_.y_std
        result: dict[str, Any] = {
            "mean": mean,
            "joint": None,
            "parts": {name: part * np.square(factor) for name, part in path.parts.items()},
            "scale": scale,
        }
        if path.joint is None:
            paths = Paths(loop, belief, u, u_var, path.grown, mean, std * factor * scale)
            return {**result, "cov": path.cov * factor[:, :, None] * factor[:, None], "paths": paths}
        joint_factor, over_time = factor.ravel(), path.joint
        over_time *= joint_factor[:, None]  # in place: it is the largest array of all
        over_time *= joint_factor
        return {**result, "joint": over_time}

    def loop(self, parts: Sequence[str] = PARTS) -> Loop:
        """The closed loop that forecasts are made with, in scaled units (:class:`pesn.reservoir.closed_loop.Loop`)."""
        return self._loop(tuple(parts))

    def _loop(self, include: tuple[str, ...], model: Model | None = None, share: float | None = None) -> Loop:
        esn = self.esn_
        model = Model(esn.readout_, self.errors_, self._start) if model is None else model
        share = esn.process_noise_ if share is None else share
        return Loop(
            esn.reservoir_,
            model.readout,
            model.errors,
            self.learn_,
            self.rest_,
            self.kinematics_,
            self.output_std_,
            self.target_ == "change",
            form_of(esn.covariance, esn.reservoir_.n_units, esn.rank),
            process_noise(model.start, share, esn.noise) if "state" in include else None,
            include,
            esn._passing(esn._draws()),
            self.usual_.y_mean,
            self.usual_.y_std,
            *self.range_,
        )

    # ---------------------------------------------------------------- going on

    def update(self, y: Any, X: Any = None) -> Self:
        """New rows, seen once: each corrects the state and then moves the readout, by recursive least squares.

        y (n, d) goes on from the last row seen; X (n, u) drives each row to the next, as in ``fit``. A row with a gap corrects
        the state by what is there, and the readout is left as it is. How large errors are follows them, with the network's
        forgetting; ``calibration_`` stays. The labels of forecasts go on from those of y, or, where it has none, by as many
        steps as it has rows. Steps missing between the last row seen and y, or in y, are gaps; rows that were seen before are
        refused. A failed update changes nothing.
        """
        check_is_fitted(self, "esn_")
        self._refuse_other_names("y", y)
        self._refuse_other_names("X", X, "X")
        rows = as_matrix("y", y, None, self.n_columns_)
        if X is None and self.n_known_:
            raise ValueError(f"X must be given, with {self.n_known_} columns as in fit, got None")
        layout = align(y, X, [slice(0, len(rows))], after=self._time)
        known = np.zeros((len(rows), 0)) if X is None else as_matrix("X", X, layout.n_inputs, self.n_known_)
        rows, known = self.scaled(rows, known)
        self._refuse_far("y", rows, "X", known)
        rows, known = layout.place(rows), layout.place_inputs(known)
        esn, d = self.esn_, self.n_columns_
        readout, rls = (esn.readout_, esn.rls_) if esn.rls_ else go_on(esn.readout_, esn.rls_delta)
        belief, last, last_u, errors = self._belief, self._recent[-1], self._recent_known[-1], self.errors_
        loop = self._loop(PARTS, Model(readout, errors, self._start))
        for row, u in zip(rows, known, strict=True):
            belief = self._taking_in().into_units(loop, belief, last_u)
            b = np.concatenate([[1.0], belief.mean[:d], np.where(np.isnan(last_u), 0.0, last_u), belief.mean[belief.units]])
            if not (np.isnan(row).any() or np.isnan(last).any() or np.isnan(last_u).any()):
                (target,) = loop.targets(np.array([last, row]))
                (predicted,), readout, rls = learn(readout, rls, b[None], target[None], esn.forgetting)
                wrong = self._wrong((target - predicted)[None], np.array([last, row]))[0]
                share = max(1.0 - esn.forgetting, 1.0 / (1.0 + readout.n_samples))
                errors = follow(errors, wrong, belief.mean[loop.at_error], share)
            # the row was predicted by the loop as it was; what it taught is for the next one
            belief = loop.observe(loop.emit(belief, np.zeros(self.n_known_), np.zeros(self.n_known_)).belief, row)
            loop = loop if readout is loop.readout else loop.moved(readout, errors)
            last, last_u = row, u
        if not np.isfinite(readout.weights).all():
            raise FloatingPointError("update left finite numbers; y or X may be of another scale than in fit")
        esn.readout_, esn.rls_, self.errors_ = readout, rls, errors
        low, high = self.range_
        self.range_ = np.fmin(low, np.fmin.reduce(rows)), np.fmax(high, np.fmax.reduce(rows))
        self._belief, self._time = belief, layout.time
        self._recent, self._recent_known = (
            np.vstack(both)[-FILTERED:] for both in ((self._recent, rows), (self._recent_known, known))
        )
        return self

    def _end(self, y: Array, u: Array) -> None:
        """Where training stopped, in the last run: ready for the control of its last row."""
        self._recent, self._recent_known = y[-FILTERED:], u[-FILTERED:]
        self._belief = self._taking_in().known(self.loop(), y, u[:-1])

    def _going_on(self, loop: Loop, u: Array) -> Belief:
        """Units that have taken in the last row seen, together with u: as with all rows of its run as a context."""
        taking_in = self._taking_in()
        if taking_in.few(len(self._recent)):  # the regression of the start may want the last row, and u, with the others
            return taking_in.over(loop, self._recent, np.vstack([self._recent_known[:-1], u]))
        return taking_in.into_units(loop, self._belief, u)

    # ---------------------------------------------------------------- what is given

    def scaled(self, rows: Array, known: Array) -> tuple[Array, Array]:
        """y and X in the units that the network works in."""
        s = self.scale_
        return (rows - s.y_mean) / s.y_std, (known - s.x_mean) / s.x_std

    def _context(self, context: Any) -> tuple[Array, Array, TimeIndex | None]:
        """Scaled y (T, d) and X (T − 1, u), with gaps where steps are missing, and when the last row was."""
        given = context if isinstance(context, tuple) else (context, None)
        if len(given) != 2:
            raise ValueError(f"context must be y or (y, X), got a tuple of {len(given)}")
        self._refuse_other_names("context", given[0])
        y = as_matrix("context", given[0], None, self.n_columns_)
        layout = align(*given, [slice(0, len(y))], learnt=self._time, names=("context", "X of context"), shorter=1)
        if given[1] is None:
            if self.n_known_ and len(y) > 1:
                raise ValueError(f"context must be (y, X) with X of shape {(len(y) - 1, self.n_known_)}, got y alone")
            known = np.zeros((len(y) - 1, self.n_known_))
        else:
            self._refuse_other_names("X of context", given[1], "X")
            known = as_matrix("X of context", given[1], layout.n_inputs, self.n_known_)
        y, known = self.scaled(y, known)
        self._refuse_far("context", y, "X of context", known)
        return layout.place(y), layout.place_inputs(known), layout.time

    def _known_ahead(self, X: Any, horizon: int, time: TimeIndex | None) -> Array:
        """Scaled X (horizon, u), NaN where it is missing, after a last row at ``time``."""
        if X is None:
            if self.n_known_:
                raise ValueError(
                    f"X must be given, of shape {(horizon, self.n_known_)}, as X was in fit; NaN where it is not known"
                )
            return np.zeros((horizon, 0))
        self._refuse_other_names("X", X, "X")
        rows = rows_ahead(X, time, horizon)
        known = as_matrix("X", X, horizon if rows is None else None, self.n_known_)
        known = (known if rows is None else known[rows]) - self.scale_.x_mean
        known /= self.scale_.x_std
        refuse_far("X", known, self.usual_.x_mean, self.usual_.x_std)
        return known

    def _refuse_far(self, of_y: str, rows: Array, of_x: str, known: Array) -> None:
        """Scaled y and X that are too far from all that was learnt from: nothing could be said about them."""
        refuse_far(of_y, rows, self.usual_.y_mean, self.usual_.y_std)
        refuse_far(of_x, known, self.usual_.x_mean, self.usual_.x_std)

    def _taking_in(self, given: Start | None = None) -> Context:
        """How rows are taken in; ``given`` takes the place of what all training rows say about starts."""
        return Context(given or self._start, self.esn_.initial_state, self.esn_.washout_, self.usual_)

    @property
    def _start(self) -> Start:
        given = self.esn_.start_
        assert given is not None  # it is learnt in fit
        return given

    def _refuse_other_names(self, argument: str, values: Any, of: str = "y") -> None:
        names, known = names_of(values), self.names_ if of == "y" else self.known_names_
        if names is not None and known is not None and names != known:
            raise ValueError(f"{argument} must have the columns {known}, as {of} had in fit, got {names}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the forecaster to a file that ``pesn.load`` reads; no code is stored, and an old file is replaced whole."""
        from pesn.persistence import save  # here, not above: it knows every estimator

        save(self, path)


def _origins(pieces: list[Piece]) -> list[tuple[Piece, int]]:
    """Rows to forecast from, spread evenly over the stretches, each with 20 rows after it and some before it."""
    places = [(piece, k) for piece in pieces for k in range(min(10, len(piece.z) - LEADS), len(piece.z) - LEADS + 1)]
    chosen = np.unique(np.linspace(0, len(places) - 1, min(len(places), _MOST_ORIGINS)).astype(int))
    return [places[i] for i in chosen]
