"""Training data: tables and arrays as matrices, statistics of columns, scales, and segments without missing values.

>>> import numpy as np
>>> rows = np.array([[1.0, 5.0], [2.0, np.nan], [6.0, 5.0]])
>>> both = compute_statistics(rows[:1]).merge(compute_statistics(rows[1:]))
>>> both.n.tolist(), both.mean.tolist(), both.low.tolist()
([3, 2], [3.0, 5.0], [1.0, 5.0])
>>> bool(np.allclose(both.std, [np.std([1.0, 2.0, 6.0]), 0.0]))
True

>>> import numpy as np
>>> rows = as_matrix("y", [1.0, 2.0, np.nan, 4.0, 5.0, 7.0])
>>> found = find_segments(rows, np.zeros((6, 0)), np.array([0]), change=True)
>>> [segment.targets.ravel().tolist() for segment in found]     # two segments; the first has one change
[[1.0], [1.0, 2.0]]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, check_real
from pesn._support.records import check_arrays
from pesn._support.types import Array, TableLike
from pesn.gaussian import Gaussian
from pesn.reservoir.closed_loop import Dynamics
from pesn.reservoir.sequences import check_layout

_SMALLEST = 1e-305  # below, numbers lose precision


class ColumnStatistics(NamedTuple):
    """Streaming statistics of k columns, without NaN.

    Parameters
    ----------
    n : array of int
        Number of observations of each column.
    mean : array of shape (k,)
        Means.
    std : array of shape (k,)
        Standard deviations.
    low : array of shape (k,)
        Minima.
    high : array of shape (k,)
        Maxima.
    """

    n: npt.NDArray[np.intp]
    mean: Array
    std: Array
    low: Array
    high: Array

    def merge(self, other: ColumnStatistics) -> ColumnStatistics:
        """Return the statistics of the rows of both (Chan, Golub and LeVeque), without cancellation.

        Squares are in units of the range, so that none underflows.
        """
        n = self.n + other.n
        share = other.n / np.maximum(n, 1)
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        wide = np.where(high > low, high - low, 1.0)
        apart = np.where((self.n > 0) & (other.n > 0), other.mean - self.mean, 0.0)
        mean = np.where(self.n > 0, self.mean + share * apart, other.mean)
        inside = (1.0 - share) * np.square(self.std / wide) + share * np.square(other.std / wide)
        between = share * (1.0 - share) * np.square(apart / wide)
        return ColumnStatistics(n, mean, wide * np.sqrt(inside + between), low, high)

    def rescale(self, mean: Array, std: Array) -> ColumnStatistics:
        """Return the statistics of the same rows less ``mean``, divided by ``std``."""
        low, high = (self.low - mean) / std, (self.high - mean) / std
        return self._replace(mean=(self.mean - mean) / std, std=self.std / std, low=low, high=high)

    def width(self) -> Array:
        """Return the standard deviations (k,), 1 for a constant column.

        A column that varies by rounding alone is constant: in units of its standard deviation any later change would be huge.
        """
        least = np.maximum(1e-12 * np.maximum(np.abs(self.low), np.abs(self.high)), _SMALLEST)
        return np.where(self.high - self.low > least, self.std, 1.0)

    def check(self, name: str) -> None:
        """Raise a ValueError if a column has no observations."""
        if not self.n.all():
            column = int(np.argmin(self.n > 0))
            raise ValueError(f"{name} must have numbers in every column, got nothing but NaN in column {column}")


def compute_statistics(rows: Array) -> ColumnStatistics:
    """Compute the statistics of rows (n, k), NaN where a value is missing."""
    seen = ~np.isnan(rows)
    count = seen.sum(axis=0)
    low, high = np.fmin.reduce(rows, axis=0, initial=np.inf), np.fmax.reduce(rows, axis=0, initial=-np.inf)
    moves, of = high > low, np.maximum(count, 1)
    mean = np.where(moves, np.sum(np.where(seen, rows, 0.0) / of, axis=0), np.where(count > 0, low, 0.0))
    wide = np.subtract(high, low, out=np.ones_like(low), where=moves)  # in these units no square underflows
    std = wide * np.sqrt(np.sum(np.where(seen, np.square((rows - mean) / wide), 0.0) / of, axis=0))
    return ColumnStatistics(count, mean, std, low, high)


def compute_complete_statistics(rows: Array) -> ColumnStatistics:
    """Compute the statistics of rows (n, k) of order 1 without missing values."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    return ColumnStatistics(np.full(rows.shape[1], len(rows)), np.mean(rows, axis=0), np.std(rows, axis=0), low, high)


_LARGEST = 1e100  # squares and their sums are finite
_FARTHEST = 1e20  # standard deviations: fourth powers are finite


class Scale(NamedTuple):
    """Means and standard deviations by which columns are standardized.

    Parameters
    ----------
    y_mean : array of shape (d,)
        Means of y.
    y_std : array of shape (d,)
        Standard deviations of y.
    x_mean : array of shape (u,)
        Means of the known inputs.
    x_std : array of shape (u,)
        Standard deviations of the known inputs.
    """

    y_mean: Array
    y_std: Array
    x_mean: Array
    x_std: Array

    def check(self, name: str, n_columns: int, n_known: int) -> None:
        """Raise a ValueError unless it has these numbers of columns and inputs, with positive standard deviations."""
        d, u = n_columns, n_known
        shapes = {"y_mean": (d,), "y_std": (d,), "x_mean": (u,), "x_std": (u,)}
        check_arrays(name, {part: (getattr(self, part), shape) for part, shape in shapes.items()})
        for part in ("y_std", "x_std"):
            if (getattr(self, part) <= 0.0).any():
                raise ValueError(f"{name}.{part} is not positive")

    def of_field(self) -> Scale:
        """Return the scale with one mean and one standard deviation for all columns of y, of a field with one law everywhere."""
        mean = float(np.mean(self.y_mean))
        std = math.sqrt(float(np.mean(np.square(self.y_std) + np.square(self.y_mean - mean))))
        return self._replace(y_mean=np.full_like(self.y_mean, mean), y_std=np.full_like(self.y_std, std))

    def apply(self, y: Array, known: Array) -> tuple[Array, Array]:
        """Standardize y and the known inputs."""
        return (y - self.y_mean) / self.y_std, (known - self.x_mean) / self.x_std

    def undo(self, y: Array) -> Array:
        """Return y in its original units."""
        return y * self.y_std + self.y_mean


_BLOCK, _MOST_BLOCKS = 150, 10  # least rows of a validation block, and most blocks of a run
_KNOWN = 150  # rows before it that are known to its forecasts


class Segment(NamedTuple):
    """Scaled training rows without missing values.

    Parameters
    ----------
    z : array of shape (n, d + u)
        Rows [y, u].
    targets : array of shape (n, m)
        Targets of the network.
    y : array of shape (n + 1, d)
        Rows of y, including the one after the last of ``z``.
    """

    z: Array
    targets: Array
    y: Array


def read_column_names(y: object) -> list[str] | None:
    """Return the names of the columns of a pandas object; None for an array."""
    columns = getattr(y, "columns", None)
    if columns is not None:
        return [str(name) for name in columns]
    name = getattr(y, "name", None)
    return None if name is None else [str(name)]


def by_names(name: str, values: Any, names: list[str] | None) -> npt.ArrayLike:
    """Return ``values``, one for each column of y, in the order of its columns if they are labeled."""
    if np.asarray(values).dtype == bool:
        raise TypeError(f"{name} must be numbers, got {values!r}")
    labels = getattr(values, "index", None)
    if labels is None or callable(labels):
        return values
    if names is None or sorted(map(str, labels)) != sorted(names):
        raise ValueError(f"{name} must have the labels of the columns of y, {names}, got {list(labels)}")
    return [values[label] for label in sorted(labels, key=lambda label: names.index(str(label)))]


def as_matrix(name: str, values: TableLike, n_rows: int | None = None, width: int | None = None) -> Array:
    """Return rows (n, width) in float64, NaN for missing values; a single column may be flat.

    Parameters
    ----------
    name : str
        Name of the argument in messages.
    values : array-like or pandas object
        Rows.
    n_rows : int, optional
        Required number of rows.
    width : int, optional
        Required number of columns.
    """
    if width is None:  # in fit, which takes several sequences
        check_layout(name, values)
    array = _as_floats(name, values)
    if array.ndim == 1 and width in (None, 1):
        array = array[:, None]
    if array.ndim != 2 or n_rows not in (None, len(array)) or width not in (None, array.shape[1]):
        raise ValueError(f"{name} must have shape {_describe_shape(n_rows, width)}, got {array.shape}{_no_input(width)}")
    if 0 in array.shape and n_rows != 0 and width != 0:
        raise ValueError(f"{name} must have at least one row and one column, got shape {array.shape}")
    if len(wrong := np.argwhere(np.abs(array) > _LARGEST)):  # squares of entries would overflow
        (row, column), value = wrong[0], array[tuple(wrong[0])]
        raise ValueError(f"{name} must be NaN or lie within ±{_LARGEST:g}, got {value:g} in row {row}, column {column}")
    return array


def _describe_shape(n_rows: int | None, width: int | None) -> str:
    """Return a shape as text."""
    return f"({'rows' if n_rows is None else n_rows}, {'columns' if width is None else width})"


def _no_input(width: int | None) -> str:
    """Return a hint for messages if there are no inputs."""
    return "; fit had no X" if width == 0 else ""


def _as_floats(name: str, values: TableLike) -> Array:
    """Return a copy as float64, NaN where pandas has a missing value."""
    if isinstance(values, (Gaussian, np.ma.MaskedArray)):
        raise TypeError(f"{name} must be an array, NaN where it is missing, got a {type(values).__name__}")
    check_real(name, values)
    try:
        if hasattr(values, "to_numpy"):  # pandas has missing values that numpy does not know
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"dtype {array.dtype}")  # numpy would convert text and dates
        return np.array(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers, got {type(values).__name__}: {error}") from error


def as_gaussian_rows(name: str, values: TableLike | Gaussian, n_rows: int | None, width: int) -> tuple[TableLike, Array | None]:
    """Return the mean (n, width) and the covariances (n, width, width) of a Gaussian for each row; other values without any.

    >>> mean, cov = as_gaussian_rows("context", Gaussian([1.0, 2.0], var=[0.1, 0.2]), None, 2)
    >>> mean.shape, cov.shape
    ((1, 2), (1, 2, 2))
    """
    if not isinstance(values, Gaussian):
        return values, None
    if hasattr(values, "numpy"):  # a Gaussian of tensors
        raise TypeError(f"{name} must be a pesn.Gaussian of arrays, got a {type(values).__name__}")
    shape, may_be_one = np.shape(values.mean), n_rows in (None, 1)
    is_one = may_be_one and shape in ([(width,), ()] if width == 1 else [(width,)])
    if not is_one and (shape[1:] != (width,) or n_rows not in (None, shape[0])):
        expected = f"{f'({width},) for one row or ' if may_be_one else ''}{_describe_shape(n_rows, width)}, a row a step"
        raise ValueError(f"{name} must be a Gaussian with a mean of shape {expected}, got {shape}{_no_input(width)}")
    mean = np.asarray(values.mean, dtype=np.float64).reshape(-1 if width else shape[0], width)
    return mean, np.asarray(values.cov, dtype=np.float64).reshape(*mean.shape, width)


def as_columns(learn: object, d: int, names: list[str] | None = None) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the columns to learn and the others, by number or by name.

    >>> as_columns(["v", 0], 3, ["x", "v", "w"])
    (array([1, 0]), array([2]))
    """
    if learn is None:
        return np.arange(d), np.arange(0)
    columns = _resolve_columns("learn", learn, d, names)
    return columns, np.setdiff1d(np.arange(d), columns)


def check_encoding(
    angles: object, ignorable: object, d: int, n_known: int, names: list[str] | None = None
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the angles and the ignorable columns of y.

    >>> check_encoding("angle", (), 2, 0, ["angle", "speed"])
    (array([0]), array([], dtype=int64))
    """
    found = [
        _resolve_columns(name, given, d, names) if _as_list(given) else np.zeros(0, np.intp)
        for name, given in (("angles", angles), ("ignorable", ignorable))
    ]
    if both := sorted(set(found[0].tolist()) & set(found[1].tolist())):
        which = ", ".join(str(k) if names is None else repr(names[k]) for k in both)
        raise ValueError(f"angles and ignorable must not have a column in common, got {which} in both")
    if len(found[1]) == d and not n_known:
        raise ValueError(f"ignorable must leave a column of y for the network to see, where there is no X, got all {d} of them")
    return found[0], found[1]


def _resolve_columns(argument: str, wanted: object, d: int, names: list[str] | None) -> npt.NDArray[np.intp]:
    """Return the numbers of at least one of d columns of y."""
    numbers = _as_list(wanted)
    if names is not None:
        if unknown := [repr(name) for name in numbers if isinstance(name, str) and name not in names]:
            raise ValueError(f"{argument} must name columns of y, which are {', '.join(names)}, got {', '.join(unknown)}")
        numbers = [names.index(name) if isinstance(name, str) else name for name in numbers]
    whole = all(isinstance(k, Integral) and not isinstance(k, bool) for k in numbers)
    if not whole or not numbers or len(set(numbers)) < len(numbers):
        how = "by number, as y has no names" if names is None else "by number or name"
        raise ValueError(f"{argument} must be a list of different columns of y, {how}, got {wanted!r}")
    found = np.array(numbers, np.intp)
    if found.min() < 0 or found.max() >= d:
        raise ValueError(f"{argument} must name columns 0 … {d - 1} of y, got {wanted!r}")
    return found


def _as_list(given: object) -> list[object]:
    """Return an argument as a list; a single name or number becomes a list of one."""
    if isinstance(given, str) or not isinstance(given, Collection) or getattr(given, "shape", None) == ():
        return [] if given is None else [given]
    return list(given)


def unwrap_angles(rows: Array, angles: npt.NDArray[np.intp], before: Array | None = None) -> Array:
    """Unwrap angles: each is within half a turn of the row before; NaN is skipped.

    Parameters
    ----------
    rows : array of shape (n, d)
        Rows.
    angles : array of int
        Columns that are angles.
    before : array of shape (d,), optional
        The row before the first.

    Examples
    --------
    >>> unwrap_angles(np.array([[3.0], [np.nan], [-3.0]]), np.array([0])).round(4).ravel()
    array([3.    ,    nan, 3.2832])
    """
    result = rows.copy()
    for column in angles:
        seen = ~np.isnan(rows[:, column])
        known = [] if before is None or np.isnan(before[column]) else [before[column]]
        result[seen, column] = np.unwrap(np.concatenate([known, rows[seen, column]]))[len(known) :]
    return result


def as_kinematics(kinematics: Any, d: int, m: int) -> tuple[Array, Array, Array]:
    """Return A (r, d), B (r, m) and c (r,) of the r = d − m columns that are not learned."""
    r = d - m
    if kinematics is None:
        if r:
            raise ValueError(f"kinematics must be given for the {r} columns of y that learn leaves out, got None")
        return np.zeros((0, d)), np.zeros((0, m)), np.zeros(0)
    try:
        A, B, c = kinematics
    except (TypeError, ValueError) as error:
        raise ValueError(f"kinematics must be (A, B, c), got {kinematics!r}") from error
    parts = []
    for name, part, shape in zip("ABc", (A, B, c), ((r, d), (r, m), (r,)), strict=True):
        check_real("kinematics", part)
        parts.append(as_real(f"{name} of kinematics", part).astype(np.float64))
        if parts[-1].shape != shape:
            found = f"of shape {shape}, got {parts[-1].shape}, for the {r} columns of y that learn leaves out"
            raise ValueError(f"kinematics must have {name} {found}")
    return parts[0], parts[1], parts[2]


def fit_scale(y: ColumnStatistics, known: ColumnStatistics) -> Scale:
    """Return means and standard deviations, 1 for a constant column; raise a ValueError if a column has no observations."""
    y.check("y")
    known.check("X")
    return Scale(y.mean, y.width(), known.mean, known.width())


def check_within_reach(name: str, rows: Array, mean: Array, std: Array) -> None:
    """Raise a ValueError if rows are so many ``std`` from ``mean`` that their squares overflow."""
    far = (np.abs(rows - mean) / std).reshape(math.prod(rows.shape[:-1]), len(mean))  # all rows of a batch
    if (far > _FARTHEST).any():
        row, column = np.argwhere(far > _FARTHEST)[0]
        where = f"{far[row, column]:g} in row {row}, column {column}"
        raise ValueError(f"{name} must lie within {_FARTHEST:g} deviations of its mean in fit, got {where}")


def in_scale(
    kinematics: tuple[Array, Array, Array], scale: Scale, learned: npt.NDArray[np.intp], kinematic: npt.NDArray[np.intp]
) -> tuple[Array, Array, Array]:
    """Return kinematics between scaled columns."""
    A, B, c = kinematics
    own, mean = scale.y_std[kinematic][:, None], scale.y_mean
    return A * scale.y_std / own, B * scale.y_std[learned] / own, (c + A @ mean + B @ mean[learned] - mean[kinematic]) / own[:, 0]


class ValidationSegment(NamedTuple):
    """A validation segment.

    Parameters
    ----------
    segment : Segment
        Rows.
    first : int
        First row of the validation set; the rows before it were trained on and are known.
    """

    segment: Segment
    first: int = 0


def train_validation_split(
    segments: list[Segment], least: int, spread: bool = False
) -> tuple[list[Segment], list[ValidationSegment]]:
    """Split segments into a training and a validation set of a fifth of the runs, at least one.

    Rows of a training run are easier to forecast than those of another run. Only if there are fewer than three runs, or the
    validation runs have less than a tenth or more than half of the rows, a fifth of each run is held out.

    Parameters
    ----------
    segments : list of Segment
        All segments.
    least : int
        Least number of rows of a validation segment.
    spread : bool, default=False
        Whether every fifth run, or blocks of each run, are held out instead of the last fifth: rare behavior may all be at the
        end.
    """
    count = max(len(segments) // 5, 1)
    places = np.arange(4, len(segments), 5) if spread and len(segments) >= 5 else np.arange(len(segments))[-count:]
    held = [ValidationSegment(segments[i]) for i in places if len(segments[i].z) >= least]
    share = sum(len(one.segment.z) for one in held) / max(sum(len(p.z) for p in segments), 1)
    if len(segments) >= 3 and 0.1 <= share <= 0.5:
        return [p for i, p in enumerate(segments) if i not in places], held
    parts = [part for p in segments for part in _hold_back(p, spread)]
    seen = [p for p, _ in parts if len(p.z)]
    return seen, [one for _, one in parts if len(one.segment.z) - one.first >= least]


def _hold_back(p: Segment, spread: bool) -> Iterator[tuple[Segment, ValidationSegment]]:
    """Split a segment into blocks and hold out the last fifth of each: one block, or as many as ``spread`` allows."""
    n = len(p.z)
    blocks = int(np.clip(n // 5 // _BLOCK, 1, _MOST_BLOCKS)) if spread else 1
    size, ends = n // 5 // blocks, np.arange(1, blocks + 1) * n // blocks
    for after, end in pairwise([0, *ends.tolist()]):
        before = min(_KNOWN, end - size) if spread else 0
        yield slice_segment(p, after, end - size), ValidationSegment(slice_segment(p, end - size - before, end), before)


def slice_segment(p: Segment, first: int, last: int) -> Segment:
    """Return rows ``first`` … ``last`` − 1 of a segment."""
    return Segment(p.z[first:last], p.targets[first:last], p.y[first : last + 1])


def find_segments(y: Array, u: Array, learn: npt.NDArray[np.intp], change: bool) -> list[Segment]:
    """Return the segments without missing values of a run y (n, d) with inputs u (n, m), of at least one step, in order."""
    segments = []
    for first, last in segment_edges(y, u):
        after = y[first + 1 : last + 1, learn]
        targets = after - y[first:last, learn] if change else after
        segments.append(Segment(np.hstack([y[first:last], u[first:last]]), targets, y[first : last + 1]))
    return segments


def segment_edges(y: Array, u: Array) -> npt.NDArray[np.intp]:
    """Return the first and last row (k, 2) of each segment of a run y (n, d) with u (n, u).

    >>> segment_edges(np.array([[1.0], [2.0], [np.nan], [4.0], [5.0], [7.0]]), np.zeros((6, 0))).tolist()
    [[0, 1], [3, 5]]
    """
    whole = np.asarray(~(np.isnan(y).any(axis=1) | np.isnan(u).any(axis=1)))
    usable = whole[:-1] & ~np.asarray(np.isnan(y[1:]).any(axis=1))  # steps k → k + 1
    return np.flatnonzero(np.diff(np.concatenate([[0], usable.astype(int), [0]]))).reshape(-1, 2)


def shortest_segment(sizes: Sequence[int] | npt.NDArray[np.intp], least: int) -> int:
    """Return the least number of steps of a segment to train on.

    It is at least ``least``, and long enough to leave out the shortest segments, which hold a twentieth of all steps: a washout
    is at most half of the shortest segment, which two missing values close to each other must not decide. Segments half as long
    as the longest are kept.

    >>> shortest_segment([3, 100, 100], 2), shortest_segment([60, 100], 2)
    (50, 50)
    """
    given = np.asarray(sizes, np.intp)
    long = np.sort(given[given >= least])
    if not len(long):
        return least
    few = long[np.cumsum(long) > 0.05 * long.sum()][0]
    return max(math.ceil(min(few, 0.5 * long[-1])), least)


def with_noise(
    compute_features: Callable[[Array], Array], z: Array, dynamics: Dynamics, noise: float, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Return features and targets of rows whose columns of y are uncertain, while the targets lead to the rows observed.

    The readout then has E[b bᵀ] = b̄ b̄ᵀ + Cov b, and relies less on features that small errors change. Mean and covariance are
    (b₊ ± b₋)/2 of one draw of the noise and its mirror image, which leaves no cross terms between mean and noise; over all rows
    one pair is as good as many.

    Parameters
    ----------
    compute_features : callable
        Features of rows.
    z : array of shape (n, d + u)
        Rows.
    dynamics : Dynamics
        Meaning of the targets.
    noise : float
        Standard deviation of the noise.
    rng : numpy.random.Generator
        Generator of the noise.

    Returns
    -------
    features : array of shape (n, p)
        Means of the features.
    features_away : array of shape (n, p)
        Rows δ of the features with Σ δ δᵀ = Σ Cov [b, y].
    targets_away : array of shape (n, m)
        The same rows of the targets.
    """
    above, below, back = both_sides(z, dynamics, noise, rng)
    return *mean_and_difference(compute_features(above), compute_features(below)), back


def both_sides(z: Array, dynamics: Dynamics, noise: float, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return rows shifted by a draw of the noise and by its mirror image, and the shift of the targets."""
    d = dynamics.n_columns
    away = noise * rng.standard_normal((len(z), d))
    above, below = (np.hstack([z[:, :d] + side * away, z[:, d:]]) for side in (1.0, -1.0))
    back = -away[:, dynamics.learned] / dynamics.scale
    return above, below, back if dynamics.change else np.zeros_like(back)


def mean_and_difference(above: Array, below: Array) -> tuple[Array, Array]:
    """Return the mean of features on both sides, and half of their difference."""
    return 0.5 * (above + below), 0.5 * (above - below)
