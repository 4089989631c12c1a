"""What a fitted forecaster is given, as it works with it: names checked, rows laid out by their labels, in scaled units.

>>> import numpy as np
>>> scale = Scale(np.array([10.0]), np.array([2.0]), np.zeros(0), np.ones(0))
>>> columns = Columns(["level"], None, scale, Scale(np.zeros(1), np.ones(1), np.zeros(0), np.ones(0)))
>>> columns.context([12.0, np.nan, 8.0], None)[0].y.ravel()
array([ 1., nan, -1.])
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.checks import flag, whole_number
from pesn._support.types import Array, TableLike
from pesn.forecasting.alignment import align, index_of, rows_ahead
from pesn.forecasting.context import Uncertainty
from pesn.forecasting.dataset import Scale, as_gaussian_rows, as_matrix, check_within_reach, names_of, unwrapped
from pesn.forecasting.time_index import TimeIndex
from pesn.gaussian import Gaussian

__all__ = ["Columns", "Rows", "check_size"]

_JOINT = 4_000  # numbers of a forecast, over steps and columns, up to which the covariance of all of them is kept: 128 MB
_MOST_JOINT = 20_000  # where it is asked for: 3.2 GB, a few times
_MOST_NUMBERS = 10_000_000  # covariances within the rows of a forecast


class Rows(NamedTuple):
    """Scaled y (T, d) and X, with gaps where steps are missing, and when the last row was."""

    y: Array
    known: Array
    time: TimeIndex | None


class Columns(NamedTuple):
    """The columns of y (d) and X (u) in training: their names, None where they had none, the scale that the network works in,
    where they lay in it (``prior``), and which of y are ``angles``.
    """

    names: list[str] | None
    known_names: list[str] | None
    scale: Scale
    prior: Scale
    angles: npt.NDArray[np.intp] = np.zeros(0, np.intp)

    @property
    def n_known(self) -> int:
        """u."""
        return len(self.scale.x_mean)

    def again(self, y: TableLike, X: TableLike | None, time: TimeIndex | None) -> tuple[Rows, Any]:
        """Rows with X (T, u), and their labels (T,), which keep the rule of the rows seen; None where there are none."""
        rows = self.more(y, X, None, learnt=time)
        return rows, None if rows.time is None else rows.time.at(index_of(y, "y")[0]).onwards(len(rows.y))

    def more(
        self, y: TableLike, X: TableLike | None, after: TimeIndex | None, *, learnt: TimeIndex | None = None,
        seen: Array | None = None,
    ) -> Rows:  # fmt: skip
        """Rows that go on ``after`` those seen, with X (T, u); None: anywhere. ``seen`` (n, d): the last of those, scaled."""
        self.check_names("y", y)
        self.check_names("X", X, "X")
        rows = self.unwrapped(as_matrix("y", y, None, len(self.scale.y_mean)), seen)
        if X is None and self.n_known:
            raise ValueError(f"X must be given, with {self.n_known} columns as in fit, got None")
        layout = align(y, X, [slice(0, len(rows))], after=after, learnt=learnt)
        known = np.zeros((len(rows), 0)) if X is None else as_matrix("X", X, layout.n_inputs, self.n_known)
        rows, known = self._near("y", rows, "X", known)
        return Rows(layout.place(rows), layout.place_inputs(known), layout.time)

    def context(self, context: Any, time: TimeIndex | None) -> tuple[Rows, Uncertainty]:
        """Of y or (y, X), with X (T − 1, u), either of them a Gaussian a row, by position; ``time`` is that of the rows seen."""
        given = context if isinstance(context, tuple) else (context, None)
        if len(given) != 2:
            raise ValueError(f"context must be y or (y, X), got a tuple of {len(given)}")
        self.check_names("context", given[0])
        d = len(self.scale.y_mean)
        mean, cov = as_gaussian_rows("context", given[0], None, d)
        y = self.unwrapped(as_matrix("context", mean, None, d))
        layout = align(mean, given[1], [slice(0, len(y))], learnt=time, names=("context", "X of context"), shorter=1)
        if given[1] is None:
            if self.n_known and len(y) > 1:
                raise ValueError(f"context must be (y, X) with X of shape {(len(y) - 1, self.n_known)}, got y alone")
            known, known_cov = np.zeros((len(y) - 1, self.n_known)), None
        else:
            self.check_names("X of context", given[1], "X")
            mean, known_cov = as_gaussian_rows("X of context", given[1], layout.n_inputs, self.n_known)
            known = as_matrix("X of context", mean, layout.n_inputs, self.n_known)
        y, known = self._near("context", y, "X of context", known)
        y_cov = self._uncertainty("context", cov, y, self.scale.y_std, self.prior.y_std)
        known_var = layout.place_inputs(self._variances("X of context", known_cov, known))
        y_cov = layout.place(y_cov.reshape(len(y), d * d)).reshape(-1, d, d)
        rows = Rows(layout.place(y), layout.place_inputs(known), layout.time)
        return rows, Uncertainty(np.nan_to_num(y_cov), np.nan_to_num(known_var))  # what is missing is not measured with noise

    def ahead(self, X: TableLike | Gaussian | None, horizon: int, time: TimeIndex | None) -> tuple[Array, Array]:
        """Scaled X (horizon, u), NaN where it is missing, after a row at ``time``, and its variances, 0 where it is known."""
        if X is None:
            if self.n_known:
                expected = f"of shape {(horizon, self.n_known)}, as X was in fit; NaN where it is not known"
                raise ValueError(f"X must be given, {expected}")
            return np.zeros((horizon, 0)), np.zeros((horizon, 0))
        self.check_names("X", X, "X")
        rows = rows_ahead(X, time, horizon)
        mean, cov = as_gaussian_rows("X", X, horizon, self.n_known)
        known = as_matrix("X", mean, horizon if rows is None else None, self.n_known)
        known = ((known if rows is None else known[rows]) - self.scale.x_mean) / self.scale.x_std
        check_within_reach("X", known, self.prior.x_mean, self.prior.x_std)
        return known, self._variances("X", cov, known)

    def _variances(self, name: str, cov: Array | None, known: Array) -> Array:
        """Scaled variances of X, whose columns must be independent of each other in a row."""
        scaled = self._uncertainty(name, cov, known, self.scale.x_std, self.prior.x_std)
        var = np.diagonal(scaled, axis1=-2, axis2=-1)
        if np.any(scaled != var[..., None] * np.eye(known.shape[1])):
            raise ValueError(f"{name} must be a Gaussian with variances alone, var=, got covariances between its columns")
        return var

    def _uncertainty(self, name: str, cov: Array | None, rows: Array, scale: Array, prior_std: Array) -> Array:
        """Scaled covariances of ``rows`` (n, d), None: 0; refused where no square could be taken of a deviation."""
        if cov is None:
            return np.zeros((*rows.shape, rows.shape[1]))
        scaled = cov / scale[:, None] / scale
        check_within_reach(f"std of {name}", np.sqrt(np.diagonal(scaled, axis1=-2, axis2=-1)), np.zeros(rows.shape[1]), prior_std)
        return scaled

    def unwrapped(self, rows: Array, seen: Array | None = None) -> Array:
        """Rows (n, d) whose angles go on from one to the next, and from the last that was ``seen`` (k, d), scaled."""
        if not len(self.angles):
            return rows
        last = None
        if seen is not None:
            there = len(seen) - 1 - np.argmax(~np.isnan(seen[::-1]), axis=0)  # of each column the last that is no gap
            last = self.scale.undo(seen[there, np.arange(seen.shape[1])])
        return unwrapped(rows, self.angles, last)

    def _near(self, of_y: str, y: Array, of_x: str, known: Array) -> tuple[Array, Array]:
        """Scaled; refused where they are too far from all that was learnt from: nothing could be said about them."""
        y, known = self.scale.apply(y, known)
        check_within_reach(of_y, y, self.prior.y_mean, self.prior.y_std)
        check_within_reach(of_x, known, self.prior.x_mean, self.prior.x_std)
        return y, known

    def check_names(self, argument: str, values: TableLike, of: str = "y") -> None:
        """A ValueError where ``values`` have names for their columns that are not those of y, or of X, in their order."""
        found, expected = names_of(values), self.names if of == "y" else self.known_names
        if found is not None and expected is not None and found != expected:
            raise ValueError(f"{argument} must have the columns {expected}, as {of} had in fit, got {found}")


def check_size(horizon: Any, joint: Any, d: int) -> bool:
    """Whether the covariance of all rows is kept; a TypeError or ValueError where a forecast of d columns would be too large."""
    whole_number("horizon", horizon, 1)
    if joint is not None:
        flag("joint", joint)
    most = _MOST_JOINT // d if joint else _MOST_NUMBERS // d**2
    if horizon > max(most, 1):
        kept = " and joint=True" if joint else ""
        raise ValueError(f"horizon must be {most} or less with {d} columns of y{kept}, got {horizon!r}")
    return bool(horizon * d <= _JOINT if joint is None else joint)
