"""Sequences with labels: what X, y and ``lengths`` mean together, without a guess."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d, validate_data

from pesn._support.types import Lengths
from pesn.esn.validation import FLOATS, UncertainRows, as_rows, check_same_order, with_variance
from pesn.reservoir.sequences import Rows, check_kind, check_longer_than_washout, check_no_gaps, mean_of, split, stack_sequences

if TYPE_CHECKING:
    from pesn.esn.classifier import ReservoirClassifier

__all__ = ["LabelledRows", "labelled_rows", "rows_after", "sequence_rows"]


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
