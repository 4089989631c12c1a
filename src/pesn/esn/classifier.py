"""A reservoir that tells sequences apart, or rows, as a scikit-learn classifier; the mathematics is in the modules below.

>>> from pesn.systems.sequences import spoken_digits
>>> train, test = spoken_digits(300, rng=0).split(2 / 3)
>>> classifier = ReservoirClassifier(random_state=0).fit(*train)
>>> classifier.score(*test) > 0.9
True
"""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from pesn._support.progress import Steps
from pesn._support.rollback import rollback_on_error
from pesn._support.types import Array, FloatArray, LeakRate, Lengths, Memory, NetworkCovariance, RandomState, Scaling, TableLike
from pesn.activations import Activation
from pesn.esn.classification import on_standardised_rows, pooled_features, row_features, row_logits, sequence_logits
from pesn.esn.labels import labelled_rows, rows_after, sequence_rows
from pesn.esn.parameters import check_classifier, draw_reservoir, generator
from pesn.esn.propagation import Propagation
from pesn.esn.stored import check_classes_learnt
from pesn.esn.training import adapted
from pesn.esn.validation import TrainingRows, UncertainRows
from pesn.moments import UnitMethod
from pesn.readout.classification import LogitReadout, expected_softmax, fit_logits
from pesn.readout.features import Features
from pesn.reservoir.layers import Layers
from pesn.reservoir.plasticity import Plasticity
from pesn.reservoir.pooling import Pooling, n_pooled
from pesn.reservoir.sequences import Rows, check_longer_than_washout
from pesn.reservoir.synaptic_plasticity import SynapticPlasticity
from pesn.reservoir.topology import Topology
from pesn.reservoir.weights import Reservoir

__all__ = ["ReservoirClassifier"]


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
