"""Reservoir classifier for sequences or single time steps, with class probabilities for uncertain inputs.

>>> from pesn.systems.digits import spoken_digits
>>> train, test = spoken_digits(300, rng=0).split(2 / 3)
>>> classifier = ReservoirClassifier(random_state=0).fit(*train)
>>> classifier.score(*test) > 0.9
True
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d, validate_data

from pesn._support.progress import Steps
from pesn._support.records import rollback_on_error
from pesn._support.types import Array, FloatArray, LeakRate, Lengths, Memory, NetworkCovariance, RandomState, Scaling, TableLike
from pesn.activations import Activation
from pesn.esn.base import check_classes_learnt, check_classifier, draw_reservoir, generator, in_threads
from pesn.esn.probabilistic import Propagation, gaussian
from pesn.esn.training import adapted, deterministic
from pesn.esn.validation import FLOATS, TrainingRows, UncertainRows, as_rows, check_same_order, with_variance
from pesn.moments import UnitMethod
from pesn.readout.classification import LogitReadout, expected_softmax, fit_logits, means_and_deviations
from pesn.readout.features import Features
from pesn.reservoir.drive import State, chunks, in_lockstep, run_stacked
from pesn.reservoir.open_loop import predict_rows
from pesn.reservoir.plasticity import Plasticity, SynapticPlasticity
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

__all__ = [
    "LabelledRows",
    "ReservoirClassifier",
    "labelled_rows",
    "on_standardised_rows",
    "pooled_features",
    "row_features",
    "row_logits",
    "rows_after",
    "sequence_logits",
    "sequence_rows",
]


class LabelledRows(NamedTuple):
    """Rows to learn from: the sequences that they are split into, the classes, and the class of each sequence or each row."""

    inputs: Rows
    sequences: list[slice]
    classes: npt.NDArray[Any]
    codes: npt.NDArray[np.intp]
    by_row: bool


def labelled_rows(classifier: ReservoirClassifier, X: UncertainRows, y: Any, lengths: Lengths) -> LabelledRows:
    """Rows and labels of ``fit``, checked.

    Without several sequences a label belongs to a row; with them, to a sequence where there are as many labels as sequences, to a
    row where there are as many as rows. Sequences of one row each have both.
    """
    if y is None:
        raise ValueError(f"This {type(classifier).__name__} requires y to be passed, but the target y is None.")
    X, lengths = stack_sequences(X, lengths)
    mean = mean_of(X)
    check_kind("X", mean)
    check_kind("y", y)
    mean = validate_data(classifier, mean, dtype=FLOATS, ensure_all_finite=False)
    check_no_gaps("X", mean)
    sequences = split(lengths, len(mean))
    if isinstance(y, (list, tuple)) and len({isinstance(label, str) for label in y}) == 2:
        raise ValueError("y must hold texts alone or numbers alone, got both: NumPy would make texts of the numbers")
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(f"y must have shape (labels,), got {shape}; y.argmax(axis=1) are the labels of one-hot rows")
    labels = column_or_1d(y, warn=True)
    if len(labels) == len(sequences) and lengths is not None:
        by_row = False
    elif len(labels) == len(mean):
        by_row = True
        check_same_order(mean_of(X), y)
    else:
        each = f"a row, {len(mean)}" if lengths is None else f"a sequence, {len(sequences)}, or a row, {len(mean)}"
        more = "; several sequences in X need lengths" if lengths is None else ""
        raise ValueError(f"y must have one label for each of what it labels: {each}, got {len(labels)}{more}")
    assert_all_finite(labels, input_name="y", estimator_name=type(classifier).__name__)
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes, got one class: {classes[0]!r}")
    if classes.dtype == object and all(isinstance(one, str) for one in classes):
        classes = np.asarray(classes.tolist())  # texts, which a file can hold
    return LabelledRows(with_variance(mean, X), sequences, classes, codes.astype(np.intp), by_row)


def rows_after(washout: int, given: LabelledRows) -> npt.NDArray[np.intp]:
    """The places of all rows but the first ``washout`` of each sequence; a ValueError where a class has none of them."""
    places = np.concatenate([np.arange(rows.start + washout, rows.stop) for rows in given.sequences])
    missing = np.setdiff1d(np.arange(len(given.classes)), given.codes[places])
    if len(missing):
        label = given.classes[missing[0]]
        raise ValueError(f"washout must leave rows of every class, got washout={washout} and no row of class {label!r} after it")
    return places


def sequence_rows(
    classifier: ReservoirClassifier, X: UncertainRows, lengths: Lengths, n_seen: int
) -> tuple[Rows, list[slice]]:  # fmt: skip
    """Rows and sequences as a fitted classifier takes them, whose readout sees ``n_seen`` numbers by today's parameters."""
    learnt = classifier.readout_.weights.shape[1] - 1
    if learnt != n_seen:
        raise ValueError(f"features must be those of fit, {learnt} numbers, got {n_seen} by {classifier.features!r}; fit again")
    X, lengths = stack_sequences(X, lengths)
    rows = as_rows(classifier, X, uncertain=True)
    sequences = split(lengths, len(rows.mean))
    if classifier.labels_ == "sequence":
        check_longer_than_washout(sequences, classifier.washout_, classifier.features.lags)
    return rows, sequences


def on_standardised_rows(reservoir: Reservoir, rows: Array) -> Reservoir:
    """The reservoir that takes rows as they are for what this one would take standardised: mean 0, deviation 1 in each column."""
    mean, std = means_and_deviations(rows)
    W_in = reservoir.W_in / np.where(std > 0.0, std, 1.0)
    return reservoir._replace(W_in=W_in, bias=reservoir.bias - W_in @ mean)


def row_features(reservoir: Reservoir, propagation: Propagation, rows: Rows, sequences: list[slice]) -> Array:
    """[row, earlier rows, products, units] of each row, (n, p); of uncertain rows the means."""
    result = np.empty((len(rows.mean), propagation.features.size(reservoir.n_inputs, reservoir.n_units) - 1))
    if _moves_together(reservoir, propagation, rows, sequences):
        for place, b in _driven_together(reservoir, propagation.features, rows, sequences):
            result[sequences[place]] = b
        return result
    drive = _driven(reservoir, propagation, rows)

    def fill(sequence: slice, state: State) -> State:
        for block in blocks(sequence):
            result[block], state = drive(block, state)
        return state

    in_threads(fill, [(sequence, _zero(reservoir)) for sequence in sequences], parallel=propagation.rng is None)
    return result


def pooled_features(
    reservoir: Reservoir, propagation: Propagation, rows: Rows, sequences: list[slice], pooling: Pooling, washout: int
) -> Array:  # fmt: skip
    """What each sequence leaves, (s, q), of the rows after its washout; of uncertain rows the means."""
    p = propagation.features.size(reservoir.n_inputs, reservoir.n_units) - 1
    result = np.empty((len(sequences), n_pooled(p, pooling)))
    if _moves_together(reservoir, propagation, rows, sequences):
        for place, b in _driven_together(reservoir, propagation.features, rows, sequences):
            result[place] = pool(b[washout:].mean(axis=0), b[-1], pooling)
        return result
    places = {sequence.start: place for place, sequence in enumerate(sequences)}
    drive = _driven(reservoir, propagation, rows)

    def fill(sequence: slice, state: State) -> State:
        total, last = np.zeros(p), np.empty(p)
        for block in blocks(sequence):
            b, state = drive(block, state)
            read = b[max(washout - (block.start - sequence.start), 0) :]
            total += read.sum(axis=0)
            last = b[-1]
        result[places[sequence.start]] = pool(total / (sequence.stop - sequence.start - washout), last, pooling)
        return state

    in_threads(fill, [(sequence, _zero(reservoir)) for sequence in sequences], parallel=propagation.rng is None)
    return result


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
    reservoir: Reservoir,
    propagation: Propagation,
    readout: LogitReadout,
    rows: Rows,
    sequences: list[slice],
    pooling: Pooling,
    washout: int,
) -> tuple[Array, Array]:
    """Mean (s, K) and covariance (s, K, K) of the logits of each sequence; certain ones are driven as certain."""
    K = len(readout.weights)
    uncertain = [rows.var is not None and bool(np.any(rows.var[sequence])) for sequence in sequences]
    mean, cov = np.empty((len(sequences), K)), np.zeros((len(sequences), K, K))
    if certain := [sequence for sequence, blurred in zip(sequences, uncertain, strict=True) if not blurred]:
        b = pooled_features(reservoir, propagation, Rows(rows.mean), certain, pooling, washout)
        mean[np.logical_not(uncertain)] = readout.logits(b)
    if any(uncertain):
        loop = propagation.with_weights(reservoir, pooled_readout(readout.weights[:, 1:], pooling))
        given = [_double(rows, sequence) for sequence, blurred in zip(sequences, uncertain, strict=True) if blurred]
        mean[uncertain], cov[uncertain] = pooled_outputs(loop, pooling, given, washout)
        mean[uncertain] += readout.weights[:, 0]
    return mean, cov


def _moves_together(reservoir: Reservoir, propagation: Propagation, rows: Rows, sequences: list[slice]) -> bool:
    """Whether sequences are certain, and many and short enough to be driven side by side."""
    certain = rows.var is None or not np.any(rows.var)
    short = max(sequence.stop - sequence.start for sequence in sequences) <= BLOCK
    return certain and short and not propagation.features.lags and in_lockstep(reservoir, sequences)


def _driven_together(
    reservoir: Reservoir, features: Features, rows: Rows, sequences: list[slice]
) -> Iterator[tuple[int, Array]]:  # fmt: skip
    """The place of each sequence, and the features (T, p) of its rows, without the constant."""
    for which, block in chunks(sequences, BLOCK):
        own = [slice(one.start - block.start, one.stop - block.start) for one in sequences[which]]
        z, _ = rows.take(block)
        units, _, _ = run_stacked(reservoir, z, own, [_zero(reservoir)] * len(own))
        seen = features.rows(z)
        for place, one in enumerate(own, which.start):
            yield place, np.hstack([seen[one], units[one]])


def _driven(reservoir: Reservoir, propagation: Propagation, rows: Rows) -> Callable[[slice, State], tuple[Array, State]]:
    """The features (n, p) of a block of rows, without the constant, and the state after it."""
    certain = rows.var is None or not np.any(rows.var)
    drive = deterministic(reservoir, propagation.features) if certain else gaussian(propagation.without_readout(reservoir))

    def driven(block: slice, state: State) -> tuple[Array, State]:
        z, var = rows.take(block)
        b, state = drive(z, var, state, np.zeros((len(z), reservoir.n_outputs)))
        return b[:, 1:], state

    return driven


def _zero(reservoir: Reservoir) -> State:
    """Where sequences start."""
    return State(np.zeros(reservoir.n_units), None, np.zeros(reservoir.n_outputs), None)


def _double(rows: Rows, sequence: slice) -> tuple[Array, Array]:
    z, var = rows.take(sequence)
    return z, np.zeros_like(z) if var is None else var


@final
class ReservoirClassifier(
    ClassifierMixin,  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
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
    spectral_radius, leak_rate, density, input_scaling, bias_scaling, activation, topology, features, layers, memory, \
plasticity
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

    feedback_scaling: ClassVar[float] = 0.0  # of a network that has outputs to feed back
    n_features_in_: int
    classes_: npt.NDArray[Any]
    reservoir_: Reservoir
    readout_: LogitReadout
    labels_: Literal["sequence", "row"]
    states_: Pooling
    washout_: int

    stored_at_times: ClassVar[dict[str, type]] = {"feature_names_in_": np.ndarray, "_sklearn_output_config": dict}

    def __init__(
        self,
        n_units: int = 100,
        *,
        states: Pooling = "both",
        spectral_radius: float = 0.9,
        leak_rate: LeakRate = 0.5,
        density: float = 0.1,
        input_scaling: Scaling = 0.5,
        bias_scaling: Scaling = 0.2,
        scale: bool = True,
        ridge: float | Literal["auto"] = "auto",
        washout: int = 0,
        random_state: RandomState = None,
        activation: str | Activation = "tanh",
        topology: Topology = "random",
        features: Features = Features(),
        layers: Layers = 1,
        memory: Memory = "leaky",
        plasticity: Plasticity | SynapticPlasticity | None = None,
        covariance: NetworkCovariance | Literal["auto"] = "auto",
        rank: int = 40,
        moments: UnitMethod = "surface",
    ) -> None:
        self.n_units = n_units
        self.states = states
        self.spectral_radius = spectral_radius
        self.leak_rate = leak_rate
        self.density = density
        self.input_scaling = input_scaling
        self.bias_scaling = bias_scaling
        self.scale = scale
        self.ridge = ridge
        self.washout = washout
        self.random_state = random_state
        self.activation = activation
        self.topology = topology
        self.features = features
        self.layers = layers
        self.memory = memory
        self.plasticity = plasticity
        self.covariance = covariance
        self.rank = rank
        self.moments = moments

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
            scaled = on_standardised_rows(drawn, given.inputs.mean) if self.scale else drawn
            nothing = np.zeros((len(given.inputs.mean), 1))  # that is fed back
            unlabelled = TrainingRows(given.inputs, nothing, given.sequences, flat=False)
            self.reservoir_ = adapted(self.plasticity, scaled, unlabelled, Steps())
            self.classes_, self.states_, self.labels_ = given.classes, self.states, "row" if given.by_row else "sequence"
            b, codes = self._features(given.inputs, given.sequences), given.codes
            if given.by_row:
                learnt = rows_after(self.washout_, given)
                b, codes = b[learnt], codes[learnt]
            self.readout_ = fit_logits(b, codes, len(self.classes_), None if self.ridge == "auto" else float(self.ridge))
        return self

    def predict(self, X: UncertainRows, lengths: Lengths = None) -> npt.NDArray[Any]:
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the classifier to a file that ``pesn.load`` reads; no code is stored, and an old file is replaced whole."""
        from pesn.persistence import save  # here, not above: it knows every estimator

        save(self, path)

    def check_stored(self) -> None:
        """A ValueError where what was learnt is damaged or does not fit together: asked of a classifier that came from a file."""
        check_classifier(self)
        check_classes_learnt(self)

    def _rows(self, X: UncertainRows, lengths: Lengths) -> tuple[Rows, list[slice]]:
        check_is_fitted(self)
        return sequence_rows(self, X, lengths, self.n_seen)

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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "readout_")  # n_features_in_ comes earlier, and would pass for a fit

    def __sklearn_tags__(self) -> Any:
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
