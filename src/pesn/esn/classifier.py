"""Reservoir classifier for sequences or single time steps, with class probabilities for uncertain inputs.

>>> from pesn.systems.digits import spoken_digits
>>> train, test = spoken_digits(300, rng=0).split(2 / 3)
>>> classifier = ReservoirClassifier(random_state=0).fit(*train)
>>> classifier.score(*test) > 0.9
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d, validate_data

from pesn._support.records import rollback_on_error
from pesn._support.types import (
    AnyArray,
    Array,
    FloatArray,
    LeakRate,
    Lengths,
    Memory,
    NetworkCovariance,
    RandomState,
    Scaling,
    TableLike,
)
from pesn.activations import Activation
from pesn.esn.base import Classifier, Stored
from pesn.esn.probabilistic import Propagation, gaussian
from pesn.esn.training import deterministic, draw_reservoir, generator, in_threads
from pesn.esn.validation import (
    FLOATS,
    UncertainRows,
    as_rows,
    check_classes_learnt,
    check_classifier,
    check_same_order,
    with_variance,
)
from pesn.moments import UnitMethod
from pesn.readout.classification import LogitReadout, expected_softmax, fit_logits, means_and_deviations
from pesn.readout.features import Features
from pesn.reservoir.drive import State, chunks, in_lockstep, run_stacked
from pesn.reservoir.open_loop import predict_rows
from pesn.reservoir.pooling import Pooling, n_pooled, pool, pooled_outputs, pooled_readout
from pesn.reservoir.sequences import (
    BLOCK,
    Rows,
    blocks,
    check_kind,
    check_longer_than_washout,
    check_no_gaps,
    mean_of,
    split,
    stack_sequences,
)
from pesn.reservoir.topology import Topology
from pesn.reservoir.weights import Layers, Reservoir

if TYPE_CHECKING:
    from sklearn.utils import Tags


Labels: TypeAlias = AnyArray  # numbers or texts
Use: TypeAlias = Callable[[int, int, Array], None]  # with the places of a sequence and of its row, and features from there on


class LabelledRows(NamedTuple):
    """Rows to learn from: the sequences that they are split into, the classes, and the class of each sequence or each row."""

    inputs: Rows
    sequences: list[slice]
    classes: Labels
    codes: npt.NDArray[np.intp]
    by_row: bool


def labelled_rows(classifier: ReservoirClassifier, X: UncertainRows, y: TableLike, lengths: Lengths) -> LabelledRows:
    """Rows and labels of ``fit``, checked.

    Without several sequences a label belongs to a row; with them, to a sequence where there are as many labels as sequences, to a
    row where there are as many as rows. Sequences of one row each have both.
    """
    name = type(classifier).__name__
    if y is None:
        raise ValueError(f"This {name} requires y to be passed, but the target y is None.")
    X, lengths = stack_sequences(X, lengths)
    mean = mean_of(X)
    check_kind("X", mean)
    check_kind("y", y)
    mean = validate_data(classifier, mean, dtype=FLOATS, ensure_all_finite=False)
    check_no_gaps("X", mean)
    sequences = split(lengths, len(mean))
    labels = _as_labels(y)
    by_row = lengths is None or len(labels) != len(sequences)
    if by_row and len(labels) != len(mean):
        each = f"a row, {len(mean)}" if lengths is None else f"a sequence, {len(sequences)}, or a row, {len(mean)}"
        more = "; several sequences in X need lengths" if lengths is None else ""
        raise ValueError(f"y must have one label for each of what it labels: {each}, got {len(labels)}{more}")
    if by_row:
        check_same_order(mean_of(X), y)
    assert_all_finite(labels, input_name="y", estimator_name=name)
    return LabelledRows(with_variance(mean, X), sequences, *_classes(labels), by_row)


def _as_labels(y: TableLike) -> Labels:
    if isinstance(y, (list, tuple)) and len({isinstance(label, str) for label in y}) == 2:
        raise ValueError("y must hold texts alone or numbers alone, got both: NumPy would make texts of the numbers")
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(f"y must have shape (labels,), got {shape}; y.argmax(axis=1) are the labels of one-hot rows")
    labels: Labels = column_or_1d(y, warn=True)
    return labels


def _classes(labels: Labels) -> tuple[Labels, npt.NDArray[np.intp]]:
    """The classes, sorted, and the place of each label's among them."""
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes, got one class: {classes[0]!r}")
    if classes.dtype == object and all(isinstance(one, str) for one in classes):
        classes = np.asarray(classes.tolist())  # texts, which a file can hold
    return classes, codes.astype(np.intp)


def rows_after(washout: int, given: LabelledRows) -> npt.NDArray[np.intp]:
    """The places of all rows but the first ``washout`` of each sequence; a ValueError where a class has none of them."""
    places = np.concatenate([np.arange(rows.start + washout, rows.stop) for rows in given.sequences])
    missing = np.setdiff1d(np.arange(len(given.classes)), given.codes[places])
    if len(missing):
        label = given.classes[missing[0]]
        raise ValueError(f"washout must leave rows of every class, got washout={washout} and no row of class {label!r} after it")
    return places


def on_standardised_rows(reservoir: Reservoir, rows: Array) -> Reservoir:
    """The reservoir that takes rows as they are for what this one would take standardised: mean 0, deviation 1 in each column."""
    mean, std = means_and_deviations(rows)
    W_in = reservoir.W_in / np.where(std > 0.0, std, 1.0)
    return reservoir._replace(W_in=W_in, bias=reservoir.bias - W_in @ mean)


def row_features(reservoir: Reservoir, propagation: Propagation, rows: Rows, sequences: list[slice]) -> Array:
    """[row, earlier rows, products, units] of each row, (n, p); of uncertain rows the means."""
    result = np.empty((len(rows.mean), propagation.features.size(reservoir.n_inputs, reservoir.n_units) - 1))

    def fill(place: int, first: int, b: Array) -> None:
        start = sequences[place].start + first
        result[start : start + len(b)] = b

    _drive(reservoir, propagation, rows, sequences, fill)
    return result


def pooled_features(
    reservoir: Reservoir, propagation: Propagation, rows: Rows, sequences: list[slice], pooling: Pooling, washout: int
) -> Array:  # fmt: skip
    """What each sequence leaves, (s, q), of the rows after its washout; of uncertain rows the means."""
    p = propagation.features.size(reservoir.n_inputs, reservoir.n_units) - 1
    total, last = np.zeros((len(sequences), p)), np.empty((len(sequences), p))

    def fill(place: int, first: int, b: Array) -> None:
        total[place] += b[max(washout - first, 0) :].sum(axis=0)
        last[place] = b[-1]

    _drive(reservoir, propagation, rows, sequences, fill)
    read = np.array([sequence.stop - sequence.start - washout for sequence in sequences])
    return pool(total / read[:, None], last, pooling)


def _drive(reservoir: Reservoir, propagation: Propagation, rows: Rows, sequences: list[slice], use: Use) -> None:
    """Call ``use`` with the features (n, p) of each block of rows, without the constant, and the places of its sequence and row.

    Where sequences are certain, and many and short enough, they are driven side by side.
    """
    certain, features = rows.var is None or not np.any(rows.var), propagation.features
    short = max(sequence.stop - sequence.start for sequence in sequences) <= BLOCK
    if certain and short and not features.lags and in_lockstep(reservoir, sequences):
        _drive_together(reservoir, features, rows, sequences, use)
        return
    drive = deterministic(reservoir, features) if certain else gaussian(propagation.without_readout(reservoir))
    places = {sequence.start: place for place, sequence in enumerate(sequences)}

    def follow(sequence: slice, state: State) -> State:
        for block in blocks(sequence):
            z, var = rows.take(block)
            b, state = drive(z, var, state, np.zeros((len(z), reservoir.n_outputs)))
            use(places[sequence.start], block.start - sequence.start, b[:, 1:])
        return state

    in_threads(follow, [(sequence, _zero(reservoir)) for sequence in sequences], parallel=propagation.rng is None)


def _drive_together(reservoir: Reservoir, features: Features, rows: Rows, sequences: list[slice], use: Use) -> None:
    for which, block in chunks(sequences, BLOCK):
        own = [slice(one.start - block.start, one.stop - block.start) for one in sequences[which]]
        z, _ = rows.take(block)
        units, _, _ = run_stacked(reservoir, z, own, [_zero(reservoir)] * len(own))
        seen = features.rows(z)
        for place, one in enumerate(own, which.start):
            use(place, 0, np.hstack([seen[one], units[one]]))


def row_logits(
    reservoir: Reservoir, propagation: Propagation, readout: LogitReadout, rows: Rows, sequences: list[slice]
) -> tuple[Array, Array]:
    """Mean (n, K) and covariance (n, K, K) of the logits of each row."""
    loop = propagation.with_weights(reservoir, readout.weights)
    K = len(readout.weights)
    mean, cov = np.empty((len(rows.mean), K)), np.empty((len(rows.mean), K, K))
    for sequence in sequences:
        state = _zero(loop.reservoir)
        for block in blocks(sequence):
            path, state = predict_rows(loop, *rows.take(block), state)
            mean[block], cov[block] = path.mean, path.probed["cov"]
    return mean, cov


def sequence_logits(
    reservoir: Reservoir, propagation: Propagation, readout: LogitReadout, rows: Rows, sequences: list[slice], pooling: Pooling,
    washout: int,
) -> tuple[Array, Array]:  # fmt: skip
    """Mean (s, K) and covariance (s, K, K) of the logits of each sequence; certain ones are driven as certain."""
    K = len(readout.weights)
    uncertain = [rows.var is not None and bool(np.any(rows.var[sequence])) for sequence in sequences]
    mean, cov = np.empty((len(sequences), K)), np.zeros((len(sequences), K, K))
    if certain := [sequence for sequence, blurred in zip(sequences, uncertain, strict=True) if not blurred]:
        b = pooled_features(reservoir, propagation, Rows(rows.mean), certain, pooling, washout)
        mean[np.logical_not(uncertain)] = readout.logits(b)
    if any(uncertain):
        loop = propagation.with_weights(reservoir, pooled_readout(readout.weights[:, 1:], pooling))
        given = [rows.take(sequence) for sequence, blurred in zip(sequences, uncertain, strict=True) if blurred]
        mean[uncertain], cov[uncertain] = pooled_outputs(loop, pooling, given, washout)  # type: ignore[arg-type]  # with variances
        mean[uncertain] += readout.weights[:, 0]
    return mean, cov


def _zero(reservoir: Reservoir) -> State:
    """Where sequences start."""
    return State(np.zeros(reservoir.n_units), None, np.zeros(reservoir.n_outputs), None)


class _Learnt:
    """Attributes of a fitted classifier; here, as annotations of a dataclass would be its parameters."""

    n_features_in_: int
    classes_: Labels
    reservoir_: Reservoir
    readout_: LogitReadout
    labels_: Literal["sequence", "row"]
    states_: Pooling
    washout_: int


@final
@dataclass(eq=False, repr=False, kw_only=True)
class ReservoirClassifier(Stored, _Learnt, Classifier):
    """A reservoir with a linear readout of classes: one label for a sequence, or one for each row.

    A sequence moves the units row by row. What it leaves, the mean of [row, units] over time, the last of them, or both, is read
    out by a ridge regression on indicators of the classes, whose outputs, scaled, are logits. Penalty and scale are those that
    suit samples left out: ``predict_proba`` is calibrated, and nothing needs to be tuned.

    X is an array of rows (n, d), with ``lengths`` where they are of several sequences; an array (sequences, rows, d); or a list
    of arrays (rows, d) of different lengths. In each case it may be a :class:`pesn.Gaussian` with variances, a measurement and
    its noise: ``predict_proba`` is then the mean of the probabilities over all that the input may have been.

    Parameters
    ----------
    n_units
        N, the size of the reservoir.
    states
        What a sequence leaves to be read out: the ``"mean"`` over its rows, the ``"last"`` one, or ``"both"``. A label a row is
        read from the row itself and the units after it.
    spectral_radius, leak_rate, density, input_scaling, bias_scaling, activation, topology, features, layers, memory
        As in :class:`pesn.EchoStateNetwork`.
    scale
        Whether ``input_scaling`` is of columns of deviation 1 and mean 0, found in ``fit``: W_in and the bias are adapted to it.
    ridge
        Penalty on the weights of standardised features, times the number of samples. ``"auto"``: the one with the least log loss
        on samples left out.
    washout
        Rows at the start of each sequence that move the units and are not read out; all sequences must be longer.
    random_state
        Seed of the weights. With an integer, fitting the same data again gives the same weights to the bit.
    covariance, rank, moments
        How variances of X go through the units, as in :class:`pesn.ProbabilisticESN`. ``"diagonal"``, the paper's, forgets that
        units err together, and is several times off where a readout sets them against each other.

    Attributes
    ----------
    classes_
        The labels, sorted; columns of ``predict_proba`` are in this order.
    reservoir_, readout_
        The weights: ``readout_.weights`` (K, 1 + features) gives logits, ``readout_.ridge`` is the penalty.
    labels_
        What ``y`` was in ``fit``: a label for each ``"sequence"`` or each ``"row"``.
    """

    n_units: int = field(default=100, kw_only=False)
    states: Pooling = "both"
    spectral_radius: float = 0.9
    leak_rate: LeakRate = 0.5
    density: float = 0.1
    input_scaling: Scaling = 0.5
    bias_scaling: Scaling = 0.2
    scale: bool = True
    ridge: float | Literal["auto"] = "auto"
    washout: int = 0
    random_state: RandomState = None
    activation: str | Activation = "tanh"
    topology: Topology = "random"
    features: Features = Features()
    layers: Layers = 1
    memory: Memory = "leaky"
    covariance: NetworkCovariance | Literal["auto"] = "auto"
    rank: int = 40
    moments: UnitMethod = "surface"

    feedback_scaling: ClassVar[float] = 0.0  # of a network that has outputs to feed back
    takes_gaussians: ClassVar[bool] = True
    stored_at_times: ClassVar[dict[str, type]] = {"feature_names_in_": np.ndarray, "_sklearn_output_config": dict}

    def fit(self, X: UncertainRows, y: TableLike, lengths: Lengths = None) -> Self:
        """Draw a reservoir, drive it with each sequence of X, and fit the readout of the classes in y.

        Parameters
        ----------
        X
            Rows (n, d) in time, sequences (s, T, d), or a list of sequences (T_i, d). Of uncertain rows, the mean states are what
            is learnt from.
        y
            Labels, numbers or texts: one for each sequence (s,), or one for each row (n,). Rows of one sequence have a label
            each; of several, whichever there are as many of.
        lengths
            Rows of each of the sequences, one after the other in X; None: all are one, or X says it itself.

        Returns
        -------
        Self
            The classifier, fitted; where anything fails it is what it was before the call.
        """
        with rollback_on_error(self):
            check_classifier(self)
            given = labelled_rows(self, X, y, lengths)
            self.washout_ = max(int(self.washout), self.features.lags)
            check_longer_than_washout(given.sequences, self.washout_, self.features.lags)
            drawn = draw_reservoir(self, given.inputs.mean.shape[1], 1, generator(self.random_state))
            self.reservoir_ = on_standardised_rows(drawn, given.inputs.mean) if self.scale else drawn
            self.classes_, self.states_, self.labels_ = given.classes, self.states, "row" if given.by_row else "sequence"
            b, codes = self._features(given.inputs, given.sequences), given.codes
            if given.by_row:
                learnt = rows_after(self.washout_, given)
                b, codes = b[learnt], codes[learnt]
            self.readout_ = fit_logits(b, codes, len(self.classes_), None if self.ridge == "auto" else float(self.ridge))
        return self

    def predict(self, X: UncertainRows, lengths: Lengths = None) -> Labels:
        """The most probable label of each sequence, or of each row where ``fit`` was given a label a row.

        Parameters
        ----------
        X, lengths
            As in :meth:`fit`.

        Returns
        -------
        array
            (s,) or (n,), of ``classes_``.
        """
        probabilities = self.predict_proba(X, lengths)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: UncertainRows, lengths: Lengths = None) -> FloatArray:
        """The probability of each class; where X is uncertain, its mean over the Gaussian logits that X leads to.

        Parameters
        ----------
        X, lengths
            As in :meth:`fit`.

        Returns
        -------
        array
            (s, K) or (n, K), columns in the order of ``classes_``; rows sum to 1.
        """
        mean, cov = self._logits(X, lengths)
        return np.asarray(softmax(mean, axis=1)) if cov is None else expected_softmax(mean, cov)

    def decision_function(self, X: UncertainRows, lengths: Lengths = None) -> FloatArray:
        """The logits of the classes, of uncertain rows their means.

        Parameters
        ----------
        X, lengths
            As in :meth:`fit`.

        Returns
        -------
        array
            (s, K) or (n, K); of two classes (s,) or (n,), the logit of the second less that of the first.
        """
        mean, _ = self._logits(X, lengths)
        return mean[:, 1] - mean[:, 0] if len(self.classes_) == 2 else mean

    def transform(self, X: UncertainRows, lengths: Lengths = None) -> FloatArray:
        """What the readout sees, for a classifier of one's own: of each sequence, or of each row after a fit to a label a row.

        Parameters
        ----------
        X, lengths
            As in :meth:`fit`.

        Returns
        -------
        array
            (s, q) or (n, p): p = d + N for a row, unless there are more features; q = p, or 2 p for ``states="both"``, the means
            first.
        """
        return self._features(*self._rows(X, lengths))

    def fit_transform(self, X: UncertainRows, y: TableLike | None = None, lengths: Lengths = None) -> FloatArray:
        """``fit`` and then ``transform``, with the same ``lengths``.

        Parameters
        ----------
        X, y, lengths
            As in :meth:`fit`.

        Returns
        -------
        array
            As :meth:`transform` gives it.
        """
        return self.fit(X, y, lengths).transform(X, lengths)

    def score(
        self, X: UncertainRows, y: TableLike, lengths: Lengths = None, *, sample_weight: npt.ArrayLike | None = None
    ) -> float:  # fmt: skip
        """The share of labels that ``predict`` gets right.

        Parameters
        ----------
        X, y, lengths
            As in :meth:`fit`.
        sample_weight
            Of each label, as in ``sklearn.metrics.accuracy_score``.

        Returns
        -------
        float
        """
        return float(accuracy_score(y, self.predict(X, lengths), sample_weight=sample_weight))

    def check_stored(self) -> None:
        """A ValueError where what was learnt is damaged or does not fit together: asked of a classifier that came from a file."""
        check_classifier(self)
        check_classes_learnt(self)

    def _rows(self, X: UncertainRows, lengths: Lengths) -> tuple[Rows, list[slice]]:
        """Rows and sequences, checked against what was learnt."""
        check_is_fitted(self)
        learnt, seen = self.readout_.weights.shape[1] - 1, self.n_seen
        if learnt != seen:
            raise ValueError(f"features must be those of fit, {learnt} numbers, got {seen} by {self.features!r}; fit again")
        X, lengths = stack_sequences(X, lengths)
        rows = as_rows(self, X)
        sequences = split(lengths, len(rows.mean))
        if self.labels_ == "sequence":
            check_longer_than_washout(sequences, self.washout_, self.features.lags)
        return rows, sequences

    def _features(self, rows: Rows, sequences: list[slice]) -> Array:
        if self.labels_ == "row":
            return row_features(self.reservoir_, self._propagation(), rows, sequences)
        return pooled_features(self.reservoir_, self._propagation(), rows, sequences, self.states_, self.washout_)

    def _logits(self, X: UncertainRows, lengths: Lengths) -> tuple[Array, Array | None]:
        """Mean (s, K) or (n, K), and covariance (…, K, K), None where X is certain."""
        rows, sequences = self._rows(X, lengths)
        if rows.var is None or not np.any(rows.var):
            return self.readout_.logits(self._features(rows, sequences)), None
        model = self.reservoir_, self._propagation(), self.readout_
        if self.labels_ == "row":
            return row_logits(*model, rows, sequences)
        return sequence_logits(*model, rows, sequences, self.states_, self.washout_)

    def _propagation(self) -> Propagation:
        rng = generator(self.random_state) if self.moments == "monte-carlo" else None
        return Propagation(self.reservoir_.activation, self.moments, self.covariance, self.rank, 2, 0.0, self.features, rng)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    @property
    def n_seen(self) -> int:
        """Numbers that the readout sees of a sequence, or of a row."""
        p = self.features.size(self.reservoir_.n_inputs, self.reservoir_.n_units) - 1
        return p if self.labels_ == "row" else n_pooled(p, self.states_)

    @property
    def _n_features_out(self) -> int:
        return self.n_seen
