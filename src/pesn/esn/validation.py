"""What a network asks of its rows, targets and states beside scikit-learn's own checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from pesn._support.arguments import pandas_index
from pesn._support.progress import Advance, nothing
from pesn._support.types import FloatArray, Lengths, TableLike
from pesn.gaussian import Gaussian
from pesn.reservoir.drive import State
from pesn.reservoir.initial_state import state_shapes
from pesn.reservoir.sequences import Array, Rows, check_kind, check_no_gaps, mean_of, split

if TYPE_CHECKING:
    from pesn.esn.base import ReservoirEstimator
    from pesn.esn.classifier import ReservoirClassifier

__all__ = [
    "FLOATS",
    "SequenceRows",
    "States",
    "TrainingRows",
    "UncertainRows",
    "as_given",
    "as_rows",
    "check_certain",
    "check_fitted",
    "check_same_order",
    "starts",
    "training_rows",
    "with_variance",
]

UncertainRows: TypeAlias = "TableLike | Gaussian"  # a Gaussian a row
States: TypeAlias = State | Sequence[State] | None  # where sequences start: one, or one for each

SequenceRows: TypeAlias = "tuple[Rows, Array]"  # inputs and targets of one sequence
T = TypeVar("T")

FLOATS = [np.float64, np.float32]
_PLAIN = np.dtype(np.float64), np.dtype(np.float32)


class TrainingRows(NamedTuple):
    """Rows to learn from: inputs, targets (n, m) in float64, the sequences that they are split into; whether y was (n,)."""

    inputs: Rows
    targets: Array
    sequences: list[slice]
    flat: bool

    @property
    def n_inputs(self) -> int:
        """d."""
        return int(self.inputs.mean.shape[1])

    @property
    def n_outputs(self) -> int:
        """m."""
        return int(self.targets.shape[1])

    @property
    def n_rows(self) -> int:
        """Of all sequences."""
        return len(self.targets)

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        """Rows of each of the sequences, (k,)."""
        return np.array([rows.stop - rows.start for rows in self.sequences], np.intp)

    @property
    def shortest(self) -> int:
        """Rows of the shortest of the sequences."""
        return min(rows.stop - rows.start for rows in self.sequences)

    def of_longest(self, most: int | None = None) -> tuple[Array, Array]:
        """Inputs and targets of the longest of the sequences, of its first ``most`` rows."""
        rows = max(self.sequences, key=lambda rows: rows.stop - rows.start)
        part = rows if most is None else slice(rows.start, min(rows.stop, rows.start + most))
        return self.inputs.take(part)[0], self.targets[part]

    def map(self, work: Callable[[int, Iterable[SequenceRows], Advance], T], advance: Advance = nothing) -> Iterator[T]:
        """``work(0, sequences, advance)``: rows in memory are one part; see :class:`pesn.esn.training.StreamedRows`."""
        yield work(
            0, ((Rows(*(_part(one, rows) for one in self.inputs)), self.targets[rows]) for rows in self.sequences), advance
        )


def _part(values: Any, rows: slice) -> Any:
    return None if values is None else values[rows]


def check_fitted(esn: ReservoirEstimator) -> None:
    """A NotFittedError of scikit-learn's before ``fit`` or ``partial_fit``; a ValueError where its features are others now."""
    if not esn.__sklearn_is_fitted__():
        check_is_fitted(esn)  # says so, but takes longer than a row to find out
    learnt, now = esn.readout_.weights.shape[1], esn.features.size(esn.reservoir_.n_inputs, esn.reservoir_.n_units)
    if learnt != now:
        raise ValueError(f"features must be those of fit, {learnt} numbers of a row, got {now} by {esn.features!r}; fit again")


def check_certain(rows: Rows) -> None:
    """A ValueError where rows are uncertain."""
    if rows.var is not None:
        raise ValueError("X must be certain with feedback='own', got a pesn.Gaussian; give its mean")


def as_rows(esn: ReservoirEstimator | ReservoirClassifier, X: UncertainRows, uncertain: bool = False) -> Rows:
    """X (n, d) as a fitted network takes it; where it may be ``uncertain``, a Gaussian a row too."""
    mean = mean_of(X) if uncertain else X
    if not _is_plain(esn, mean):
        check_kind("X", mean)
        mean = validate_data(esn, mean, reset=False, dtype=FLOATS, ensure_all_finite=False)
    check_no_gaps("X", mean)
    return with_variance(mean, X)


def training_rows(
    esn: ReservoirEstimator,
    X: UncertainRows,
    y: Any,
    lengths: Lengths = None,
    *,
    first: bool,
    least: int,
    uncertain: bool = False,
) -> TrainingRows:
    """Rows and targets, checked.

    Parameters
    ----------
    esn
        The network, which scikit-learn's checks tell the number and the names of its inputs on the ``first`` fit.
    X, y, lengths
        As in ``fit``; X may be a Gaussian a row where it may be ``uncertain``.
    first
        Whether the network learns anew: else X and y must have the columns of the first fit.
    least
        The fewest rows.
    """
    mean = mean_of(X) if uncertain else X
    if first or not _is_plain(esn, mean, y):
        check_kind("X", mean)
        check_kind("y", y)
        check_same_order(mean, y)
        plain = {"dtype": FLOATS, "ensure_all_finite": False, "ensure_min_samples": least, "estimator": esn}
        mean, y = validate_data(esn, mean, y, reset=first, validate_separately=(plain, {**plain, "ensure_2d": False}))
        check_consistent_length(mean, y)
    check_no_gaps("X", mean)
    check_no_gaps("y", y)
    targets = np.ascontiguousarray(y.reshape(len(y), -1), dtype=np.float64)
    if not first and targets.shape[1] != esn.n_outputs_:
        raise ValueError(f"y must have {esn.n_outputs_} columns, as at the first fit, got {targets.shape[1]}")
    return TrainingRows(with_variance(mean, X), targets, split(lengths, len(targets)), y.ndim == 1)


def as_given(outputs: Array, rows: Rows, flat: bool) -> FloatArray:
    """Outputs (n, m) in the shape of y, (n,) where it was ``flat``, and the precision of X."""
    return (outputs[:, 0] if flat else outputs).astype(rows.mean.dtype, copy=False)


def starts(
    esn: ReservoirEstimator,
    lengths: Lengths,
    state: States,
    n_rows: int,
    beginning: Callable[[], State],
    gaussian: bool = False,
) -> list[tuple[slice, State]]:
    """Each sequence with the state that it starts from: the given one, or the ``beginning``.

    ``gaussian``: whether variances and covariances of a state are made use of, and so must fit too.
    """
    sequences = split(lengths, n_rows)
    if state is None:
        return [(sequence, beginning()) for sequence in sequences]
    several = lengths is not None and isinstance(state, Sequence) and not isinstance(state, State)
    states: list[Any] = list(state) if several else [state]
    if several != (lengths is not None) or not all(isinstance(given, State) for given in states):
        kind = "what return_state=True gave" if lengths is None else "a list of what return_state=True gave"
        raise TypeError(f"state must be {kind}, got {type(state).__name__}")
    if len(states) != len(sequences):
        raise ValueError(f"state must hold one state for each of the {len(sequences)} sequences, got {len(states)}")
    for given in states:
        _check_state(given, esn.reservoir_.n_units, esn.n_outputs_, esn.features.n_earlier(esn.n_features_in_), gaussian)
    return list(zip(sequences, states, strict=True))


def check_same_order(X: object, y: object) -> None:
    """A ValueError where X and y have the same labels, but not row by row, nor one set so many rows after the other.

    Rows of a network go by position, and to predict the next row y is X one row later: that alone may their labels differ by.
    """
    one, other = pandas_index(X), pandas_index(y)
    if one is None or other is None or one.equals(other) or not (one.is_unique and other.is_unique):
        return
    found = np.asarray(other.get_indexer(one))
    rows = np.flatnonzero(found >= 0)
    apart = found[rows] - rows
    if len(rows) and (apart != apart[0]).any():
        k = int(rows[np.argmax(apart != round(float(np.median(apart))))])
        label = str(one[k]).removesuffix(" 00:00:00")
        raise ValueError(
            f"X and y must have their rows in the same order, got {label} in row {k} of X and in row {found[k]} of y; "
            "bring them into one order first, with X.loc[y.index] for example; without an index, as to_numpy() gives them, "
            "rows go by position"
        )


def _is_plain(esn: ReservoirEstimator | ReservoirClassifier, X: object, *targets: object) -> bool:
    """Whether scikit-learn's checks, which take longer than to learn a row, would find nothing and change nothing.

    Arrays of NumPy alone, in rows as wide as in ``fit``, and no names of columns to compare.
    """
    if type(X) is not np.ndarray or X.dtype not in _PLAIN or X.ndim != 2 or "feature_names_in_" in vars(esn):
        return False
    if len(X) == 0 or X.shape[1] != esn.n_features_in_ or X.shape[1] == 0:
        return False
    for y in targets:
        if type(y) is not np.ndarray or y.dtype not in _PLAIN or y.ndim not in (1, 2) or len(y) != len(X) or y.size == 0:
            return False
    return True


def _check_state(given: State, n_units: int, n_outputs: int, n_earlier: int, gaussian: bool) -> None:
    found = np.shape(given.mean), () if given.output is None else np.shape(given.output)
    wanted = (n_units,), (n_outputs,)
    if found != wanted:
        raise ValueError(f"state must be of this network, with shapes {wanted} of units and outputs, got {found}")
    for name, (part, shape) in state_shapes(given, n_units, n_outputs, n_earlier).items():
        if (gaussian or name == "past") and np.shape(part) != shape:
            raise ValueError(f"state must be of this network, with {name} of shape {shape}, got {np.shape(part)}")


def with_variance(mean: Any, X: UncertainRows) -> Rows:
    """The means of X, checked, with its variances where it has any."""
    return Rows(mean, X.var if isinstance(X, Gaussian) else None)
