"""Checks of the networks: parameters, rows, targets, states, and attributes that come from a file.

>>> from pesn import EchoStateNetwork
>>> check_network(EchoStateNetwork(forgetting=2.0))
Traceback (most recent call last):
ValueError: forgetting must lie in (0, 1], got 2.0
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from pesn._support.arguments import flag, number, pandas_index, whole_number
from pesn._support.progress import Advance, ignore_progress
from pesn._support.records import check_names
from pesn._support.types import FloatArray, Lengths, Ridge, TableLike
from pesn.gaussian import Gaussian
from pesn.moments import parse_method
from pesn.readout.features import Features
from pesn.readout.groups import Groups, Patches
from pesn.reservoir.drive import State
from pesn.reservoir.initial_state import state_shapes
from pesn.reservoir.pooling import POOLINGS
from pesn.reservoir.sequences import Array, Rows, check_kind, check_no_gaps, get_mean, split

if TYPE_CHECKING:
    from pesn.esn.base import ReservoirEstimator
    from pesn.esn.classifier import ReservoirClassifier
    from pesn.esn.probabilistic import ProbabilisticESN

UncertainRows: TypeAlias = "TableLike | Gaussian"  # certain rows, or one Gaussian per row
States: TypeAlias = State | Sequence[State] | None  # initial states: one, or one per sequence

SequenceRows: TypeAlias = "tuple[Rows, Array]"  # inputs and targets of one sequence
T = TypeVar("T")
M = TypeVar("M")

FLOATS = [np.float64, np.float32]
_PLAIN = np.dtype(np.float64), np.dtype(np.float32)


class Sequences:
    """Sequences of inputs and targets to learn from; subclasses hold them in memory or read them one by one."""

    sequences: list[slice]  # rows of each sequence, as if all were stacked

    def __iter__(self) -> Iterator[SequenceRows]:
        raise NotImplementedError

    def map(self, work: Callable[[int, Iterable[SequenceRows], Advance], T], advance: Advance = ignore_progress) -> Iterator[T]:
        """Yield ``work(first, sequences, advance)`` of each part, in order; ``first`` is the index of its first sequence."""
        yield work(0, self, advance)

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        """Number of rows of each sequence, (k,)."""
        return np.array([rows.stop - rows.start for rows in self.sequences], np.intp)

    @property
    def n_rows(self) -> int:
        """Number of rows of all sequences."""
        return int(self.sequences[-1].stop)

    def read_longest(self, most: int | None = None) -> tuple[Array, Array]:
        """Return inputs and targets of the first ``most`` rows of the longest sequence; all before it are read."""
        rows, targets = next(islice(self, int(np.argmax(self.sizes)), None))
        part = slice(0, most)
        return rows.take(part)[0], targets[part]


@dataclass(frozen=True, eq=False)
class TrainingRows(Sequences):
    """Rows in memory: inputs, targets (n, m) in float64, the sequences, and whether y was (n,)."""

    inputs: Rows
    targets: Array
    sequences: list[slice]
    flat: bool

    @property
    def n_inputs(self) -> int:
        """Number of inputs, d."""
        return int(self.inputs.mean.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs, m."""
        return int(self.targets.shape[1])

    def __iter__(self) -> Iterator[SequenceRows]:
        for rows in self.sequences:
            yield Rows(self.inputs.mean[rows], None if self.inputs.var is None else self.inputs.var[rows]), self.targets[rows]


def require_fit(esn: ReservoirEstimator) -> None:
    """Raise a NotFittedError before ``fit`` or ``partial_fit``, a ValueError if the features have changed since."""
    if not esn.__sklearn_is_fitted__():
        check_is_fitted(esn)  # raises the error; as a test it takes longer than a row
    learned, now = esn.readout_.weights.shape[1], esn.features.size(esn.reservoir_.n_inputs, esn.reservoir_.n_units)
    if learned != now:
        raise ValueError(f"features must be those of fit, {learned} numbers of a row, got {now} by {esn.features!r}; fit again")


def check_certain(rows: Rows) -> None:
    """Raise a ValueError if rows are uncertain."""
    if rows.var is not None:
        raise ValueError("X must be certain with feedback='own', got a pesn.Gaussian; give its mean")


def as_rows(esn: ReservoirEstimator | ReservoirClassifier, X: UncertainRows) -> Rows:
    """Return X (n, d) in the form that a fitted network takes, with variances if it has any."""
    mean = get_mean(X) if esn.takes_gaussians else X
    if not _is_plain(esn, mean):
        check_kind("X", mean)
        mean = validate_data(esn, mean, reset=False, dtype=FLOATS, ensure_all_finite=False)
    check_no_gaps("X", mean)
    return with_variance(mean, X)


def training_rows(
    esn: ReservoirEstimator, X: UncertainRows, y: TableLike, lengths: Lengths = None, *, first: bool, least: int
) -> TrainingRows:  # fmt: skip
    """Return rows and targets, checked.

    Parameters
    ----------
    esn : ReservoirEstimator
        Network; on the ``first`` fit scikit-learn's checks store the number and the names of its inputs.
    X : array-like or Gaussian
        Inputs, as in ``fit``.
    y : array-like
        Targets, as in ``fit``.
    lengths : list of int, optional
        Number of rows of each sequence.
    first : bool
        Whether the network is fitted anew: otherwise X and y must have the columns of the first fit.
    least : int
        Smallest number of rows.

    Returns
    -------
    TrainingRows
    """
    mean = get_mean(X) if esn.takes_gaussians else X
    if first or not _is_plain(esn, mean, y):
        check_kind("X", mean)
        check_kind("y", y)
        check_same_order(mean, y)
        plain = {"dtype": FLOATS, "ensure_all_finite": False, "ensure_min_samples": least, "estimator": esn}
        mean, y = validate_data(esn, mean, y, reset=first, validate_separately=(plain, {**plain, "ensure_2d": False}))
        check_consistent_length(mean, y)
    check_no_gaps("X", mean)
    check_no_gaps("y", y)
    y = np.asarray(y)
    targets = np.ascontiguousarray(y.reshape(len(y), -1), dtype=np.float64)
    if not first and targets.shape[1] != esn.n_outputs_:
        raise ValueError(f"y must have {esn.n_outputs_} columns, as at the first fit, got {targets.shape[1]}")
    return TrainingRows(with_variance(mean, X), targets, split(lengths, len(targets)), y.ndim == 1)


def shape_outputs(outputs: Array, rows: Rows, flat: bool) -> FloatArray:
    """Return outputs (n, m) in the shape of y, (n,) if it was ``flat``, and the precision of X."""
    return (outputs[:, 0] if flat else outputs).astype(rows.mean.dtype, copy=False)


def starting_states(
    esn: ReservoirEstimator, lengths: Lengths, state: States, n_rows: int, beginning: Callable[[], State], gaussian: bool = False
) -> list[tuple[slice, State]]:  # fmt: skip
    """Return each sequence with its initial state: the given one, or ``beginning()``.

    ``gaussian``: whether variances and covariances of a state are used, and so must fit too.
    """
    sequences = split(lengths, n_rows)
    if state is None:
        return [(sequence, beginning()) for sequence in sequences]
    states: list[Any] = list(state) if isinstance(state, Sequence) and not isinstance(state, State) else [state]
    if isinstance(state, State) != (lengths is None) or {type(given) for given in states} - {State}:
        several = "a list of " * (lengths is not None)
        raise TypeError(f"state must be {several}what return_state=True gave, got {type(state).__name__}")
    if len(states) != len(sequences):
        raise ValueError(f"state must hold one state for each of the {len(sequences)} sequences, got {len(states)}")
    for given in states:
        _check_state(given, esn, gaussian)
    return list(zip(sequences, states, strict=True))


def check_same_order(X: object, y: object) -> None:
    """Raise a ValueError if X and y have the same labels in a different order.

    Rows are matched by position. Labels may differ by a constant shift only: to predict the next row, y is X one row later.
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
    """Return whether scikit-learn's checks, which take longer than to learn a row, would find and change nothing.

    This holds for NumPy arrays with as many columns as in ``fit``, without names of columns to compare.
    """
    if not _is_float_array(X) or "feature_names_in_" in vars(esn):
        return False
    if X.ndim != 2 or len(X) == 0 or X.shape[1] != esn.n_features_in_:
        return False
    return all(_is_float_array(y) and y.ndim in (1, 2) and len(y) == len(X) and y.size > 0 for y in targets)


def _is_float_array(values: object) -> TypeGuard[FloatArray]:
    return type(values) is np.ndarray and values.dtype in _PLAIN


def _check_state(given: State, esn: ReservoirEstimator, gaussian: bool) -> None:
    """Raise a ValueError if a state does not have the sizes of a network."""
    n, m = esn.reservoir_.n_units, esn.n_outputs_
    found = np.shape(given.mean), () if given.output is None else np.shape(given.output)
    if found != ((n,), (m,)):
        raise ValueError(f"state must be of this network, with shapes {((n,), (m,))} of units and outputs, got {found}")
    for name, (part, shape) in state_shapes(given, n, m, esn.features.n_earlier(esn.n_features_in_)).items():
        if (gaussian or name == "past") and np.shape(part) != shape:
            raise ValueError(f"state must be of this network, with {name} of shape {shape}, got {np.shape(part)}")


def with_variance(mean: object, X: UncertainRows) -> Rows:
    """Return checked means with the variances of X, if it has any."""
    return Rows(mean, X.var if isinstance(X, Gaussian) else None)


# ---------------------------------------------------------------- parameters

_LARGEST = 1e100  # largest parameter: squares are summed
_COVARIANCES = ("auto", "full", "low-rank", "diagonal", "ensemble")
_STARTS = ("learned", "stationary", "zero")


def _check_choice(name: str, value: object, choices: Collection[str], others: str = "") -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}{others}, got {value!r}")


def _is_auto(name: str, value: object, expected: str) -> bool:
    """Return whether a value is "auto"; raise a ValueError for another text."""
    if isinstance(value, str) and value != "auto":
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return isinstance(value, str)


def _check_reservoir(esn: ReservoirEstimator | ReservoirClassifier) -> None:
    """Check the parameters of the reservoir that are no numbers; numbers are checked when weights are drawn."""
    if not isinstance(esn.features, Features):
        raise TypeError(f"features must be a pesn.Features, got {esn.features!r}")


def check_network(esn: ReservoirEstimator) -> None:
    """Check the parameters that both networks have."""
    _check_reservoir(esn)
    if esn.local is not None and not isinstance(esn.local, Patches):
        raise TypeError(f"local must be a pesn.Patches or None, got {esn.local!r}")
    if not _is_auto("washout", esn.washout, "a number of rows or 'auto'"):
        whole_number("washout", esn.washout, 0)
    number("noise", esn.noise, 0.0, _LARGEST, "[]")
    if not isinstance(esn.feedback, str) or esn.feedback not in ("teacher", "own"):
        raise ValueError(f"feedback must be 'teacher' or 'own', got {esn.feedback!r}")
    if esn.feedback == "own":
        _check_own_feedback(esn)
    _check_ridge(esn.ridge)
    number("forgetting", esn.forgetting, 0.0, 1.0, "(]")
    if esn.rls_delta is not None:
        number("rls_delta", esn.rls_delta, 1.0 / _LARGEST, _LARGEST, "[]")
    flag("rls_prior", esn.rls_prior)


def _check_own_feedback(esn: ReservoirEstimator) -> None:
    if esn.local is not None:
        raise ValueError("feedback must be 'teacher' where the network is local, got 'own'")
    if not np.any(esn.feedback_scaling):
        raise ValueError(f"feedback='own' needs a feedback_scaling above 0, got {esn.feedback_scaling!r}")
    if isinstance(esn.ridge, (str, tuple)):
        raise ValueError(f"ridge must be a number with feedback='own', which learns row by row, got {esn.ridge!r}")
    if esn.noise > 0.0:
        raise ValueError(f"noise must be 0 with feedback='own', whose own errors do what noise is for, got {esn.noise!r}")


def _check_ridge(ridge: Ridge) -> None:
    if isinstance(ridge, str) and ridge == "auto":
        return
    if isinstance(ridge, (str, list)) or (isinstance(ridge, tuple) and len(ridge) != 2):
        raise ValueError(f"ridge must be a number, a pair (linear, others) or 'auto', got {ridge!r}")
    for value in ridge if isinstance(ridge, tuple) else (ridge,):
        number("ridge", value, 0.0, _LARGEST, "[]")
        if 0.0 < value < 1.0 / _LARGEST:
            raise ValueError(f"ridge must be 0 or lie in [{1.0 / _LARGEST:g}, {_LARGEST:g}], got {ridge!r}")


def check_probabilistic(esn: ProbabilisticESN) -> None:
    """Check the parameters of the probabilistic network."""
    check_network(esn)
    whole_number("rank", esn.rank, 1)
    whole_number("n_members", esn.n_members, 2)
    parse_method("moments", esn.moments)
    _check_choice("covariance", esn.covariance, _COVARIANCES)
    if not isinstance(esn.initial_state, Gaussian):
        _check_choice("initial_state", esn.initial_state, _STARTS, " or a pesn.Gaussian over the units")
    if not _is_auto("process_noise", esn.process_noise, "'auto' or a number, 0 or more"):
        number("process_noise", esn.process_noise, 0.0, 1e6, "[]")


def check_classifier(classifier: ReservoirClassifier) -> None:
    """Check the parameters of the classifier."""
    _check_choice("states", classifier.states, POOLINGS)
    _check_reservoir(classifier)
    if isinstance(classifier.ridge, (str, tuple, list)) and classifier.ridge != "auto":
        raise ValueError(f"ridge must be a number or 'auto', got {classifier.ridge!r}")
    _check_ridge(classifier.ridge)
    flag("scale", classifier.scale)
    whole_number("washout", classifier.washout, 0)
    whole_number("rank", classifier.rank, 1)
    parse_method("moments", classifier.moments)
    _check_choice("covariance", classifier.covariance, _COVARIANCES[:-1])


def check_online_start(esn: ReservoirEstimator) -> None:
    """Raise a ValueError if online learning without ``fit`` does not go with the parameters."""
    share = getattr(esn, "process_noise", "auto")
    if share not in ("auto", 0):
        raise ValueError(f"process_noise must be 0 or 'auto' before fit, which finds out what it is a share of, got {share!r}")


# ---------------------------------------------------------------- what comes from a file


def check_network_state(esn: ReservoirEstimator, flat: bool) -> None:
    """Raise a ValueError if a fitted attribute is damaged or of another network; ``flat``: whether y was (n,)."""
    reservoir = esn.reservoir_
    reservoir.check()
    n, d, m = reservoir.n_units, reservoir.n_inputs, reservoir.n_outputs
    esn.features.check("features", n)
    p = esn.features.size(d, n)
    esn.readout_.check("readout_", p, m, least=1 if esn.rls_ is None else 0)
    groups = esn.readout_.groups
    _check_groups(esn, groups)
    if esn.rls_ is not None:
        esn.rls_.check("rls_", *((p, m) if groups is None else (groups.n_features, groups.n_outputs)))
    esn.state_.check("state_", state_shapes(esn.state_, n, m, esn.features.n_earlier(d)))
    if (d, m) != (esn.n_features_in_, esn.n_outputs_) or (flat and m != 1):
        raise ValueError(f"its reservoir has {d} inputs and {m} outputs, not those that it says it was fitted to")
    check_names("feature_names_in_", getattr(esn, "feature_names_in_", None), d, "an array")


def _check_groups(esn: ReservoirEstimator, groups: Groups | None) -> None:
    if esn.local is not None:
        esn.local.check("local")
    wanted = esn.groups
    same = groups is wanted
    if groups is not None and wanted is not None:
        same = groups.shared == wanted.shared and all(map(np.array_equal, groups[:2], wanted[:2]))
    if not same:
        raise ValueError(f"readout_ is not one of local={esn.local!r}")


def check_prediction(esn: ReservoirEstimator) -> None:
    """Check a first prediction, from the stored state and from the initial state."""
    row, options = np.zeros((1, esn.n_features_in_)), {"return_std": True} if esn.takes_gaussians else {}
    _check_trial(esn, lambda trial: [trial.predict(row, state=state, **options) for state in (trial.state_, None)])


def check_classifier_state(classifier: ReservoirClassifier) -> None:
    """Raise a ValueError if a fitted attribute of a classifier is damaged, or if it does not predict."""
    reservoir, classes = classifier.reservoir_, classifier.classes_
    reservoir.check()
    d = reservoir.n_inputs
    classifier.features.check("features", reservoir.n_units)
    if classifier.states_ not in POOLINGS or classifier.labels_ not in ("sequence", "row"):
        raise ValueError(f"states_ is {classifier.states_!r} and labels_ is {classifier.labels_!r}")
    if type(classes) is not np.ndarray or classes.ndim != 1 or len(classes) < 2 or len(np.unique(classes)) != len(classes):
        raise ValueError("classes_ is not an array of two labels or more, each once")
    if (d, reservoir.n_outputs) != (classifier.n_features_in_, 1):
        raise ValueError(f"its reservoir has {d} inputs, not those that it says it was fitted to")
    classifier.readout_.check("readout_", classifier.n_seen, len(classes))
    check_names("feature_names_in_", getattr(classifier, "feature_names_in_", None), d, "an array")
    _check_trial(classifier, lambda trial: trial.predict_proba(np.zeros((classifier.washout_ + 1, d))))


def _check_trial(model: M, predict: Callable[[M], npt.ArrayLike]) -> None:
    """Raise a ValueError unless a prediction is finite; ``model`` itself does not change."""
    trial = copy.copy(model)
    vars(trial)["random_state"] = 0  # a RandomState would advance
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about missing feature names
        found = predict(trial)
    if not np.isfinite(found).all():
        raise ValueError("a trial prediction is not finite")
