"""Reservoir classifier for sequences or single time steps, with class probabilities for uncertain inputs.

>>> from pesn.systems.digits import spoken_digits
>>> train, test = spoken_digits(300, rng=0).split(2 / 3)
>>> classifier = ReservoirClassifier(random_state=0).fit(*train)
>>> classifier.score(*test) > 0.9
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d, validate_data

from pesn._support.records import rollback_on_error
from pesn._support.threads import one_blas_thread
from pesn._support.types import AnyArray, Array, FloatArray, Lengths, NetworkCovariance, Pooling, TableLike
from pesn.esn.base import Classifier, ReservoirParameters, Stored
from pesn.esn.probabilistic import gaussian_drive, open_loop, run_sequences
from pesn.esn.training import certain_drive, draw_reservoir, drive_sequences, generator
from pesn.esn.validation import (
    FLOATS,
    UncertainRows,
    as_rows,
    check_classifier,
    check_classifier_state,
    check_same_order,
    with_variance,
)
from pesn.moments import UnitMethod
from pesn.readout.classification import LogitReadout, column_moments, fit_logits, softmax_expectation
from pesn.reservoir.drive import State, chunks, in_lockstep, run_many
from pesn.reservoir.open_loop import OpenLoop
from pesn.reservoir.sequences import (
    BLOCK,
    Rows,
    check_kind,
    check_longer_than_washout,
    check_no_gaps,
    get_mean,
    split,
    stack_sequences,
)
from pesn.reservoir.weights import Reservoir
from pesn.statespace.model import rollout
from pesn.statespace.state import GaussianState

if TYPE_CHECKING:
    from sklearn.utils import Tags

Labels: TypeAlias = AnyArray  # numbers or texts


def validate_labels(
    classifier: ReservoirClassifier, X: UncertainRows, y: TableLike, lengths: Lengths
) -> tuple[Rows, list[slice], Labels, npt.NDArray[np.intp], bool]:
    """Return rows, their sequences, the classes, the class of each sequence or row, and whether it is of each row; all checked.

    Without several sequences a label belongs to a row; with them, to a sequence if there are as many labels as sequences, to a
    row if there are as many as rows. Sequences of one row each have both.
    """
    name = type(classifier).__name__
    if y is None:
        raise ValueError(f"This {name} requires y to be passed, but the target y is None.")
    X, lengths = stack_sequences(X, lengths)
    mean = get_mean(X)
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
        check_same_order(get_mean(X), y)
    assert_all_finite(labels, input_name="y", estimator_name=name)
    return with_variance(mean, X), sequences, *_classes(labels), by_row


def _as_labels(y: TableLike) -> Labels:
    """Return y as one label per entry."""
    if isinstance(y, (list, tuple)) and len({isinstance(label, str) for label in y}) == 2:
        raise ValueError("y must hold texts alone or numbers alone, got both: NumPy would make texts of the numbers")
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(f"y must have shape (labels,), got {shape}; y.argmax(axis=1) are the labels of one-hot rows")
    return column_or_1d(y, warn=True)


def _classes(labels: Labels) -> tuple[Labels, npt.NDArray[np.intp]]:
    """Return the sorted classes and the index of each label among them."""
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes, got one class: {classes[0]!r}")
    if classes.dtype == object and all(isinstance(one, str) for one in classes):
        classes = np.asarray(classes.tolist())  # texts can be saved, objects cannot
    return classes, codes.astype(np.intp)


def select_rows(washout: int, sequences: list[slice], classes: Labels, codes: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the indices of all rows after the washout of their sequences; raise a ValueError if a class has none."""
    places = np.concatenate([np.arange(rows.start + washout, rows.stop) for rows in sequences])
    missing = np.setdiff1d(np.arange(len(classes)), codes[places])
    if len(missing):
        label = classes[missing[0]]
        raise ValueError(f"washout must leave rows of every class, got washout={washout} and no row of class {label!r} after it")
    return places


def standardize_inputs(reservoir: Reservoir, rows: Array) -> Reservoir:
    """Return a reservoir that takes rows as they are where this one takes them standardized: mean 0, std 1 in each column."""
    mean, std = column_moments(rows)
    W_in = reservoir.W_in / np.where(std > 0.0, std, 1.0)
    return reservoir._replace(W_in=W_in, bias=reservoir.bias - W_in @ mean)


def row_features(classifier: ReservoirClassifier, rows: Rows, sequences: list[slice]) -> Array:
    """Return [row, earlier rows, products, units] of each row, (n, p); of uncertain rows the means."""
    result = np.empty((len(rows.mean), classifier.n_row_features))
    _drive(classifier, rows, sequences, result.__setitem__)
    return result


def pool_features(classifier: ReservoirClassifier, rows: Rows, sequences: list[slice]) -> Array:
    """Return the features of each sequence, (s, q), pooled over the rows after its washout; of uncertain rows the means."""
    washout, p = classifier.washout_, classifier.n_row_features
    total, last = np.zeros((len(sequences), p)), np.empty((len(sequences), p))
    firsts = np.array([sequence.start for sequence in sequences])

    def fill(block: slice, b: Array) -> None:
        place = int(np.searchsorted(firsts, block.start, side="right")) - 1
        total[place] += b[max(firsts[place] + washout - block.start, 0) :].sum(axis=0)
        last[place] = b[-1]

    _drive(classifier, rows, sequences, fill)
    read = np.array([sequence.stop - sequence.start - washout for sequence in sequences])
    return pool(total / read[:, None], last, classifier.states_)


def _drive(classifier: ReservoirClassifier, rows: Rows, sequences: list[slice], use: Callable[[slice, Array], None]) -> None:
    """Call ``use`` with each block of rows of one sequence and its features (n, p), without the constant.

    Where sequences are certain, and many and short enough, they are driven side by side.
    """
    reservoir, features = classifier.reservoir_, classifier.features
    certain = rows.var is None or not np.any(rows.var)
    starts = [(sequence, _zero(reservoir)) for sequence in sequences]
    short = max(sequence.stop - sequence.start for sequence in sequences) <= BLOCK
    if certain and short and not features.lags and in_lockstep(reservoir, sequences):
        for which, block in chunks(sequences, BLOCK):
            own = [slice(one.start - block.start, one.stop - block.start) for one in sequences[which]]
            z, _ = rows.take(block)
            units, _, _ = run_many(reservoir, z, own, [state for _, state in starts[which]])
            seen = features.rows(z)
            for sequence, one in zip(sequences[which], own, strict=True):
                use(sequence, np.hstack([seen[one], units[one]]))
        return
    loop = None if certain else open_loop(classifier)
    drive = certain_drive(reservoir, features) if loop is None else gaussian_drive(loop)

    def step(block: slice, state: State) -> State:
        z, var = rows.take(block)
        b, state = drive(z, var, state, np.zeros((len(z), reservoir.n_outputs)))
        use(block, b[:, 1:])
        return state

    drive_sequences(step, starts, parallel=loop is None or loop.rng is None)


def row_logits(classifier: ReservoirClassifier, rows: Rows, sequences: list[slice]) -> tuple[Array, Array]:
    """Return mean (n, K) and covariance (n, K, K) of the logits of each row."""
    loop = _loop(classifier, classifier.readout_.weights)
    n, K = len(rows.mean), len(loop.weights)
    mean, cov = np.empty((n, K)), np.empty((n, K, K))

    def keep(block: slice, outputs: Array, found: dict[str, Array]) -> None:
        mean[block], cov[block] = outputs, found["cov"]

    run_sequences(loop, rows, [(sequence, _zero(loop.reservoir)) for sequence in sequences], None, keep, parallel=False)
    return mean, cov


def sequence_logits(classifier: ReservoirClassifier, rows: Rows, sequences: list[slice]) -> tuple[Array, Array]:
    """Return mean (s, K) and covariance (s, K, K) of the logits of each sequence; certain ones are driven as certain."""
    readout = classifier.readout_
    K = len(readout.weights)
    uncertain = np.array([rows.var is not None and bool(np.any(rows.var[sequence])) for sequence in sequences])
    mean, cov = np.empty((len(sequences), K)), np.zeros((len(sequences), K, K))
    if certain := [sequence for sequence, is_uncertain in zip(sequences, uncertain, strict=True) if not is_uncertain]:
        mean[~uncertain] = readout.logits(pool_features(classifier, Rows(rows.mean), certain))
    if uncertain.any():
        loop = _loop(classifier, split_readout(readout.weights[:, 1:], classifier.states_))
        given = [rows.take(sequence) for sequence, is_uncertain in zip(sequences, uncertain, strict=True) if is_uncertain]
        mean[uncertain], cov[uncertain] = pool_outputs(loop, classifier.states_, given, classifier.washout_)  # type: ignore[arg-type]  # with variances
        mean[uncertain] += readout.weights[:, 0]
    return mean, cov


def _loop(classifier: ReservoirClassifier, weights: Array) -> OpenLoop:
    """Return the model of a classifier with ``weights`` (m, p), whose outputs are not fed back."""
    reservoir = classifier.reservoir_
    return open_loop(classifier, weights=weights, reservoir=reservoir._replace(W_fb=np.zeros((reservoir.n_units, len(weights)))))


def _zero(reservoir: Reservoir) -> State:
    """Return the state that sequences start from."""
    return State(np.zeros(reservoir.n_units), None, np.zeros(reservoir.n_outputs), None)


class _FittedAttributes:
    """Attributes of a fitted classifier; annotations in the dataclass itself would be parameters."""

    n_features_in_: int
    classes_: Labels
    reservoir_: Reservoir
    readout_: LogitReadout
    labels_: Literal["sequence", "row"]
    states_: Pooling
    washout_: int


@final
@dataclass(eq=False, repr=False, kw_only=True)
class ReservoirClassifier(Stored, _FittedAttributes, ReservoirParameters, Classifier):
    """Reservoir with a linear readout of classes: one label per sequence, or one per row.

    The features of a sequence are the mean of [row, units] over time, the last of them, or both. A ridge regression on class
    indicators gives scores, which are scaled to logits. Penalty and scale are selected by cross-validated log loss:
    ``predict_proba`` is calibrated, and nothing needs to be tuned.

    X is an array of rows (n, d), with ``lengths`` if it holds several sequences; an array (sequences, rows, d); or a list of
    arrays (rows, d) of different lengths. Each may be a :class:`pesn.Gaussian` with variances, a measurement and its noise:
    ``predict_proba`` is then the expectation of the probabilities.

    Parameters
    ----------
    n_units : int, default=100
        As in :class:`pesn.EchoStateNetwork`.
    spectral_radius : float, default=0.9
        As in :class:`pesn.EchoStateNetwork`.
    leak_rate : float or array-like of shape (n_units,), default=0.5
        As in :class:`pesn.EchoStateNetwork`.
    density : float, default=0.1
        As in :class:`pesn.EchoStateNetwork`.
    input_scaling : float or array-like, default=0.5
        As in :class:`pesn.EchoStateNetwork`.
    bias_scaling : float or array-like, default=0.2
        As in :class:`pesn.EchoStateNetwork`.
    random_state : int, RandomState or None, default=None
        As in :class:`pesn.EchoStateNetwork`.
    activation : str or Activation, default="tanh"
        As in :class:`pesn.EchoStateNetwork`.
    topology : {"random", "ring", "orthogonal", "none"}, callable or matrix, default="random"
        As in :class:`pesn.EchoStateNetwork`.
    features : Features, default=Features()
        As in :class:`pesn.EchoStateNetwork`.
    layers : int or list, default=1
        As in :class:`pesn.EchoStateNetwork`.
    memory : {"leaky", "orthogonal"} or matrix, default="leaky"
        As in :class:`pesn.EchoStateNetwork`.
    states : {"both", "mean", "last"}, default="both"
        Features of a sequence: the mean over its rows, the last row, or both. For labels per row the features are the row itself
        and the units after it.
    scale : bool, default=True
        Whether ``input_scaling`` applies to standardized columns; W_in and the bias are adapted to the columns in ``fit``.
    ridge : float or "auto", default="auto"
        Penalty on the weights of standardized features, times the number of samples. ``"auto"``: the one with the least
        cross-validated log loss.
    washout : int, default=0
        Number of rows at the start of each sequence that drive the units and are not read out; all sequences must be longer.
    covariance : {"auto", "full", "low-rank", "diagonal"}, default="auto"
        Form of the covariance of uncertain X, as in :class:`pesn.ProbabilisticESN`. ``"diagonal"``, the paper's, ignores that
        units are correlated, and can be wrong by several times.
    rank : int, default=40
        Number of columns of the factor of ``"low-rank"``.
    moments : str or tuple, default="surface"
        Method for the moments of the units, as in :class:`pesn.ProbabilisticESN`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels; the columns of ``predict_proba`` are in this order.
    reservoir_ : Reservoir
        Weights of the reservoir.
    readout_ : LogitReadout
        ``readout_.weights`` (n_classes, 1 + n_features) gives logits, ``readout_.ridge`` is the penalty.
    labels_ : {"sequence", "row"}
        Kind of labels in ``fit``.
    """

    states: Pooling = "both"
    scale: bool = True
    ridge: float | Literal["auto"] = "auto"
    washout: int = 0
    covariance: NetworkCovariance | Literal["auto"] = "auto"
    rank: int = 40
    moments: UnitMethod = "surface"

    feedback_scaling: ClassVar[float] = 0.0  # a classifier has no outputs to feed back, no noise and no ensemble
    noise: ClassVar[float] = 0.0
    n_members: ClassVar[int] = 2
    takes_gaussians: ClassVar[bool] = True
    optional_attributes: ClassVar[dict[str, type]] = {"feature_names_in_": np.ndarray, "_sklearn_output_config": dict}

    @one_blas_thread()
    def fit(self, X: UncertainRows, y: TableLike, lengths: Lengths = None) -> Self:
        """Draw a reservoir, drive it with each sequence of X, and fit the readout of the classes in y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), (n_sequences, n_samples, n_features), list or Gaussian
            Sequences. If they are uncertain, the readout is fitted to the mean states.
        y : array-like of shape (n_sequences,) or (n_samples,)
            Labels, numbers or texts: one per sequence or one per row. For one sequence, one per row; for several, according to
            their number.
        lengths : list of int, optional
            Number of rows of each sequence, if X is one array of rows. None: one sequence, or as X has them.

        Returns
        -------
        Self
            The fitted classifier. After an error it is what it was before the call.
        """
        with rollback_on_error(self):
            check_classifier(self)
            rows, sequences, self.classes_, codes, by_row = validate_labels(self, X, y, lengths)
            self.washout_ = max(int(self.washout), self.features.lags)
            check_longer_than_washout(sequences, self.washout_, self.features.lags)
            drawn = draw_reservoir(self, rows.mean.shape[1], 1, generator(self.random_state))
            self.reservoir_ = standardize_inputs(drawn, rows.mean) if self.scale else drawn
            self.states_, self.labels_ = self.states, "row" if by_row else "sequence"
            b = self._features(rows, sequences)
            if by_row:
                learned = select_rows(self.washout_, sequences, self.classes_, codes)
                b, codes = b[learned], codes[learned]
            self.readout_ = fit_logits(b, codes, len(self.classes_), None if self.ridge == "auto" else float(self.ridge))
        return self

    @one_blas_thread()
    def predict(self, X: UncertainRows, lengths: Lengths = None) -> Labels:
        """Predict the most probable label of each sequence, or of each row after a fit to labels per row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), (n_sequences, n_samples, n_features), list or Gaussian
            Sequences, as in :meth:`fit`.
        lengths : list of int, optional
            Number of rows of each sequence, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_sequences,) or (n_samples,)
            Labels of ``classes_``.
        """
        probabilities = self.predict_proba(X, lengths)
        return self.classes_[probabilities.argmax(axis=1)]

    @one_blas_thread()
    def predict_proba(self, X: UncertainRows, lengths: Lengths = None) -> FloatArray:
        """Predict the probability of each class; for uncertain X, its expectation over Gaussian logits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), (n_sequences, n_samples, n_features), list or Gaussian
            Sequences, as in :meth:`fit`.
        lengths : list of int, optional
            Number of rows of each sequence, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_sequences, n_classes) or (n_samples, n_classes)
            Columns in the order of ``classes_``; rows sum to 1.
        """
        mean, cov = self._logits(X, lengths)
        return np.asarray(softmax(mean, axis=1)) if cov is None else softmax_expectation(mean, cov)

    @one_blas_thread()
    def decision_function(self, X: UncertainRows, lengths: Lengths = None) -> FloatArray:
        """Compute the logits of the classes; for uncertain X, their means.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), (n_sequences, n_samples, n_features), list or Gaussian
            Sequences, as in :meth:`fit`.
        lengths : list of int, optional
            Number of rows of each sequence, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_sequences, n_classes) or (n_samples, n_classes)
            For two classes one number each, the logit of the second less that of the first.
        """
        mean, _ = self._logits(X, lengths)
        return mean[:, 1] - mean[:, 0] if len(self.classes_) == 2 else mean

    @one_blas_thread()
    def transform(self, X: UncertainRows, lengths: Lengths = None) -> FloatArray:
        """Compute the features of the readout: of each sequence, or of each row after a fit to labels per row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), (n_sequences, n_samples, n_features), list or Gaussian
            Sequences, as in :meth:`fit`.
        lengths : list of int, optional
            Number of rows of each sequence, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_sequences, n_features_out) or (n_samples, n_features_out)
            d + N features of a row unless there are more; of a sequence as many, or twice as many for ``states="both"``, means
            first.
        """
        return self._features(*self._rows(X, lengths))

    def fit_transform(self, X: UncertainRows, y: TableLike | None = None, lengths: Lengths = None) -> FloatArray:
        """Fit the classifier, then return the features of the readout.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), (n_sequences, n_samples, n_features), list or Gaussian
            Sequences, as in :meth:`fit`.
        y : array-like of shape (n_sequences,) or (n_samples,)
            Labels.
        lengths : list of int, optional
            Number of rows of each sequence, as in :meth:`fit`.

        Returns
        -------
        ndarray
            As :meth:`transform` returns it.
        """
        return self.fit(X, y, lengths).transform(X, lengths)

    def score(
        self, X: UncertainRows, y: TableLike, lengths: Lengths = None, *, sample_weight: npt.ArrayLike | None = None
    ) -> float:  # fmt: skip
        """Return the accuracy of ``predict``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), (n_sequences, n_samples, n_features), list or Gaussian
            Sequences, as in :meth:`fit`.
        y : array-like of shape (n_sequences,) or (n_samples,)
            True labels.
        lengths : list of int, optional
            Number of rows of each sequence, as in :meth:`fit`.
        sample_weight : array-like, optional
            Weight of each label, as in ``sklearn.metrics.accuracy_score``.

        Returns
        -------
        float
            Proportion of labels that are right.
        """
        return float(accuracy_score(y, self.predict(X, lengths), sample_weight=sample_weight))

    def check_attributes(self) -> None:
        """Raise a ValueError if attributes that come from a file are damaged or do not fit together."""
        check_classifier(self)
        check_classifier_state(self)

    def _rows(self, X: UncertainRows, lengths: Lengths) -> tuple[Rows, list[slice]]:
        """Return rows and sequences, checked against the fit."""
        check_is_fitted(self)
        learned, seen = self.readout_.weights.shape[1] - 1, self.n_seen
        if learned != seen:
            raise ValueError(f"features must be those of fit, {learned} numbers, got {seen} by {self.features!r}; fit again")
        X, lengths = stack_sequences(X, lengths)
        rows = as_rows(self, X)
        sequences = split(lengths, len(rows.mean))
        if self.labels_ == "sequence":
            check_longer_than_washout(sequences, self.washout_, self.features.lags)
        return rows, sequences

    def _features(self, rows: Rows, sequences: list[slice]) -> Array:
        """Return the features of the readout, of each sequence or each row."""
        return (row_features if self.labels_ == "row" else pool_features)(self, rows, sequences)

    def _logits(self, X: UncertainRows, lengths: Lengths) -> tuple[Array, Array | None]:
        """Return mean (s, K) or (n, K) and covariance (…, K, K) of the logits; None if X is certain."""
        rows, sequences = self._rows(X, lengths)
        if rows.var is None or not np.any(rows.var):
            return self.readout_.logits(self._features(rows, sequences)), None
        return (row_logits if self.labels_ == "row" else sequence_logits)(self, rows, sequences)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    @property
    def n_row_features(self) -> int:
        """Number of features of a row, without the constant."""
        return self.features.size(self.reservoir_.n_inputs, self.reservoir_.n_units) - 1

    @property
    def n_seen(self) -> int:
        """Number of features of a sequence, or of a row, that the readout has."""
        return self.n_row_features * (2 if self.labels_ == "sequence" and self.states_ == "both" else 1)

    _n_features_out = n_seen


# ---------------------------------------------------------------- features over time

_AT_ONCE = 2**21  # numbers in the covariances of a batch: 16 MB


def pool(mean: Array, last: Array, pooling: Pooling) -> Array:
    """Return the mean of the features over time (..., p), the last of them (..., p), or both (..., 2 p)."""
    return np.concatenate([mean, last], axis=-1) if pooling == "both" else mean if pooling == "mean" else last


def split_readout(weights: Array, pooling: Pooling) -> Array:
    """Convert weights (K, q) of pooled features to weights (m, 1 + p) of features of a row, without constant: mean, then last."""
    parts = np.split(weights, 2, axis=1) if pooling == "both" else [weights]
    return np.vstack([np.column_stack([np.zeros(len(part)), part]) for part in parts])


def pool_outputs(loop: OpenLoop, pooling: Pooling, sequences: list[tuple[Array, Array]], washout: int) -> tuple[Array, Array]:
    """Return mean (s, K) and covariance (s, K, K) of the outputs of sequences, of pooled features.

    Parameters
    ----------
    loop : OpenLoop
        Reservoir without feedback, with :func:`split_readout` as weights.
    pooling : {"mean", "last", "both"}
        Kind of pooling.
    sequences : list of (mean, var)
        Means and variances (T, d) of the rows of each. Sequences of any length form one batch.
    washout : int
        Leading rows of each that move the units but are not pooled, fewer than a sequence has.

    Returns
    -------
    mean : array of shape (s, K)
    cov : array of shape (s, K, K)
    """
    m = len(loop.weights)
    K = m // 2 if pooling == "both" else m
    mean, cov = np.empty((len(sequences), K)), np.empty((len(sequences), K, K))
    order = np.argsort([-len(z) for z, _ in sequences], kind="stable")
    size = max(1, _AT_ONCE // loop.layout.size**2)
    for start in range(0, len(order), size):
        places = order[start : start + size]
        for place, length, one, its_cov in _ends(loop, pooling, [sequences[i] for i in places], washout):
            read = np.zeros((K, m))  # sums over time become means
            if pooling != "last":
                read[:, :K] = np.eye(K) / (length - washout)
            if pooling != "mean":
                read[:, -K:] = np.eye(K)
            mean[places[place]], cov[places[place]] = read @ one, read @ its_cov @ read.T
    return mean, cov


def _ends(
    loop: OpenLoop, pooling: Pooling, sequences: list[tuple[Array, Array]], washout: int
) -> Iterator[tuple[int, int, Array, Array]]:
    """Yield of each sequence, longest first: position, length, mean (m,) and covariance (m, m) of the outputs at its end."""
    lengths = np.array([len(z) for z, _ in sequences], dtype=np.intp)
    z, var = (np.zeros((len(sequences), lengths[0], loop.reservoir.n_inputs)) for _ in range(2))
    for i, (rows, spread) in enumerate(sequences):
        z[i, : len(rows)], var[i, : len(rows)] = rows, spread
    m, K = len(loop.weights), loop.model.K.copy()
    added = loop.layout["output"].start + np.arange({"mean": m, "both": m // 2, "last": 0}[pooling])  # outputs added up over rows
    K[added, added] += 1.0
    model = replace(loop.model, K=K, probe=None, fast=None, settled=None)
    state, left = _initial_state(loop, z[:, 0], var[:, 0]), np.arange(len(sequences))
    if washout:
        state = rollout(model, state, z[:, :washout], var[:, :washout]).state
        state = state.assign(loop.layout["output"], np.zeros((len(left), m)))
    stops = [washout, *map(int, np.unique(lengths))]
    for row, stop in pairwise(stops):
        path = rollout(model, state, z[left, row:stop], var[left, row:stop])
        for i in np.flatnonzero(lengths[left] == stop).tolist():
            yield int(left[i]), stop, path.mean[i, -1], path.cov[i, -1]
        longer = lengths[left] > stop
        state, left = path.state.part(longer), left[longer]


def _initial_state(loop: OpenLoop, z: Array, var: Array) -> GaussianState:
    """Return units at zero before a first row (s, d), which is repeated as the rows before it, with independent variances."""
    lags, N = loop.features.lags, loop.reservoir.n_units
    earlier, spread = np.tile(z, lags), np.tile(np.sqrt(var), lags)
    E = earlier.shape[-1]
    root = np.zeros((len(z), E, E + N))
    root[:, np.arange(E), np.arange(E)] = spread
    return loop.init(np.concatenate([earlier, np.zeros((len(z), N))], axis=-1), root)
