"""What a forecaster has learnt: its attributes, the closed loop that they make, and what a file must hold of them."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from pesn._support.arguments import check_not_negative
from pesn._support.records import check_arrays, check_counts, check_names
from pesn._support.types import Array
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.evaluation.calibration import LEADS
from pesn.evaluation.process_noise import form_of, process_noise
from pesn.forecasting.arguments import Columns
from pesn.forecasting.context import ContextFilter
from pesn.forecasting.dataset import Scale
from pesn.forecasting.design import Design
from pesn.forecasting.time_index import TimeIndex
from pesn.forecasting.training import Trained
from pesn.readout.ridge import PARTS, penalties_of
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, ErrorModel
from pesn.reservoir.encoding import Encoding
from pesn.reservoir.initial_state import Start
from pesn.reservoir.local import LocalStart
from pesn.statespace import GaussianState
from pesn.statespace.model import Bounds

__all__ = ["FittedForecaster"]


class FittedForecaster(BaseEstimator):  # type: ignore[misc]
    """The attributes of a fitted :class:`pesn.Forecaster`, the model that follows from them, and its files."""

    esn: ProbabilisticESN | Literal["auto"] | None
    esn_: ProbabilisticESN
    design_: Design | None
    errors_: ErrorModel
    measurement_var_: Array  # of noise on y as the network sees it, (d,)
    scale_: Scale
    prior_scale_: Scale  # of y and X as the network sees them
    range_: tuple[Array, Array]  # of y as the network sees it, lowest and highest
    kinematics_: tuple[Array, Array, Array]
    names_: list[str] | None
    known_names_: list[str] | None
    target_: str
    n_columns_: int
    n_known_: int
    learned_columns_: npt.NDArray[np.intp]
    kinematic_columns_: npt.NDArray[np.intp]
    angle_columns_: npt.NDArray[np.intp]
    unseen_columns_: npt.NDArray[np.intp]
    output_std_: Array
    calibration_: Array
    _time: TimeIndex | None  # at the last row seen
    _state: GaussianState  # after the last row seen: y known, the units before it
    _recent: Array  # the last rows of y, scaled, NaN among them
    _recent_known: Array  # X of these rows

    stored_at_times: ClassVar[dict[str, type]] = {}

    # ---------------------------------------------------------------- the model that follows from it

    def loop(self, parts: Collection[str] = PARTS) -> ClosedLoop:
        """The closed loop that forecasts are made with, in scaled units (:class:`pesn.reservoir.closed_loop.ClosedLoop`)."""
        return self._loop(parts=tuple(parts))

    def _loop(self, model: Trained | None = None, noise_scale: float | None = None, parts: tuple[str, ...] = PARTS) -> ClosedLoop:
        esn = self.esn_
        model = Trained(esn.readout_, self.errors_, self._start, self._measurement) if model is None else model
        n_inputs, n_units = esn.reservoir_.n_inputs, esn.reservoir_.n_units
        penalty = esn.features.penalty(esn.ridge_ if model.ridge is None else model.ridge, n_inputs, n_units)
        return ClosedLoop(
            esn.reservoir_,
            model.readout,
            model.errors,
            self._dynamics,
            esn.unit_moments(),
            form_of(esn.covariance, n_units + esn.features.n_squares(n_inputs), esn.rank),
            esn.rank,
            process_noise(model.start, esn.process_noise_ if noise_scale is None else noise_scale, esn.noise, n_units),
            parts,
            self._bounds(widen="state" in parts),
            esn.features,
            esn.n_members,
            esn.member_draws(),
            model.measurement_cov,
            members_ahead=self.design_ is not None and esn.covariance == "auto",
            penalty=np.asarray(model.readout.n_samples * penalties_of(penalty, model.readout.weights.shape[-1]), float),
        )

    @property
    def _measurement(self) -> Array | None:
        return np.diag(self.measurement_var_) if self.measurement_var_.any() else None

    @property
    def measurement_std_(self) -> Array:
        """Deviations (d,) of the noise that the columns of y were found to be measured with, in their units; 0: none."""
        return np.sqrt(self.measurement_var_) * self.scale_.y_std

    def _bounds(self, widen: bool) -> Bounds:
        prior, kinematic = self.prior_scale_, np.isin(np.arange(self.n_columns_), self.kinematic_columns_)
        free = np.isin(np.arange(self.n_columns_), np.concatenate([self.angle_columns_, self.unseen_columns_]))
        return Bounds(prior.y_mean, prior.y_std, *self.range_, kinematic, widen, free if free.any() else None)

    @property
    def _encoding(self) -> Encoding:
        angles, scale = self.angle_columns_, self.scale_
        return Encoding(angles, self.unseen_columns_, scale.y_mean[angles], scale.y_std[angles])

    @property
    def _n_inputs(self) -> int:
        """Of the network."""
        return self._encoding.size(self.n_columns_) + self.n_known_

    @property
    def _dynamics(self) -> Dynamics:
        return Dynamics(
            self.learned_columns_, self.kinematic_columns_, self.kinematics_, self.output_std_, self.target_ == "change",
            self._encoding,
        )  # fmt: skip

    def scaled(self, rows: Array, known: Array) -> tuple[Array, Array]:
        """y and X in the units that the network works in.

        Parameters
        ----------
        rows, known
            (n, d) and (n, u).

        Returns
        -------
        rows, known
            Less their means, over their deviations, where ``scale`` is set.
        """
        return self.scale_.apply(rows, known)

    @property
    def _columns(self) -> Columns:
        return Columns(self.names_, self.known_names_, self.scale_, self.prior_scale_, self.angle_columns_)

    def _context_filter(self, start: Start | LocalStart | None = None) -> ContextFilter:
        """How contexts are filtered; ``start`` takes the place of what all training rows say about starts."""
        return ContextFilter(start or self._start, self.esn_.initial_state, self.esn_.washout_, self.prior_scale_)

    @property
    def _start(self) -> Start | LocalStart:
        given = self.esn_.start_
        assert given is not None  # it is learnt in fit
        return given

    # ---------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the forecaster to a file that ``pesn.load`` reads; no code is stored, and an old file is replaced whole."""
        from pesn.persistence import save  # here, not above: it knows every estimator

        save(self, path)

    def check_stored(self) -> None:
        """A ValueError where what was learnt is damaged or does not fit together: asked of a forecaster that came from a file."""
        d, u, m, esn = self.n_columns_, self.n_known_, self.learned_columns_.size, self.esn_
        check_counts("", {"n_columns_": (d, 1), "n_known_": (u, 0)})
        columns = self.learned_columns_, self.kinematic_columns_
        flat = all(part.dtype == np.intp and part.ndim == 1 for part in columns)
        if not flat or sum(map(len, columns)) != d or sorted(np.concatenate(columns)) != list(range(d)):
            raise ValueError(f"learned_columns_ and kinematic_columns_ are not the {d} columns")
        encoded = self.angle_columns_, self.unseen_columns_
        if any(part.dtype != np.intp or part.ndim != 1 for part in encoded):
            raise ValueError("angle_columns_ and unseen_columns_ are not columns")
        both = np.concatenate(encoded)
        if len(set(both.tolist())) < len(both) or not np.isin(both, np.arange(d)).all():
            raise ValueError(f"angle_columns_ and unseen_columns_ are not different ones of the {d} columns")
        self.scale_.check("scale_", d, u)
        of = self._n_inputs, m
        if not esn.__sklearn_is_fitted__() or esn.start_ is None or (esn.n_features_in_, esn.n_outputs_) != of:
            raise ValueError("esn_ is not a network of these columns")
        if len(self.kinematics_) != 3 or self.target_ not in ("change", "level"):
            raise ValueError(f"kinematics_ has {len(self.kinematics_)} parts and target_ is {self.target_!r}")
        (A, B, c), r = self.kinematics_, d - m
        check_arrays("kinematics_", {"A": (A, (r, d)), "B": (B, (r, m)), "c": (c, (r,))})
        self._check_range(d)
        self._check_recent(d, u)
        check_arrays("", {"output_std_": (self.output_std_, (m,)), "calibration_": (self.calibration_, (LEADS,))})
        check_arrays("", {"measurement_var_": (self.measurement_var_, (d,))})
        check_not_negative("measurement_var_", self.measurement_var_)
        for name, part in (("output_std_", self.output_std_), ("calibration_", self.calibration_)):
            if (part <= 0.0).any():
                raise ValueError(f"{name} is not positive")
        if self.design_ is not None:
            self.design_.check("design_")
        self.prior_scale_.check("prior_scale_", d, u)
        self.errors_.check("errors_", d)
        check_names("names_", self.names_, d)
        check_names("known_names_", self.known_names_, u)
        if self._time is not None:
            self._time.check("_time")
        loop = self.loop()
        self._state.check("_state", loop.carried, loop.layout.size - loop.carried)
        self._check_forecast()

    def _check_range(self, d: int) -> None:
        if len(self.range_) != 2:
            raise ValueError(f"range_ has {len(self.range_)} parts")
        low, high = self.range_
        check_arrays("range_", {"low": (low, (d,)), "high": (high, (d,))})
        if (low > high).any():
            raise ValueError("range_ is not from low to high")

    def _check_recent(self, d: int, u: int) -> None:
        if not self._recent.size:
            raise ValueError("_recent is empty")
        rows = len(np.atleast_1d(self._recent))
        parts = {"_recent": (_filled(self._recent), (rows, d)), "_recent_known": (_filled(self._recent_known), (rows, u))}
        check_arrays("", parts)

    def _check_forecast(self) -> None:
        """A first call, after the last row seen and after a context: what parameters and arrays do to each other."""
        trial: Any = copy.copy(self)
        trial.esn_ = copy.copy(self.esn_)
        trial.esn_.random_state = 0  # a RandomState would be moved on
        ahead = np.zeros((1, self.n_known_)) if self.n_known_ else None
        for context in (None, np.zeros((1, self.n_columns_))):
            forecast = trial.forecast(1, context, ahead)
            if not (np.isfinite(forecast.mean).all() and np.isfinite(forecast.std).all()):
                raise ValueError("a trial forecast is not finite")


def _filled(values: Any) -> Any:
    """Without the gaps, which may be there."""
    return np.where(np.isnan(values), 0.0, values) if values.dtype == np.float64 else values
