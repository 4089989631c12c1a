"""What the two networks are to scikit-learn: regressors of rows that are time, and transformers to states."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.metrics import r2_score

from pesn._support.checks import flag
from pesn._support.progress import Steps, shown
from pesn._support.types import FloatArray, Lengths, RandomState, Ridge, RidgeValue, TableLike, Washout
from pesn.activations import Activation
from pesn.readout.features import Features
from pesn.readout.ridge import Readout
from pesn.readout.rls import RLSState
from pesn.reservoir.drive import Reservoir, State
from pesn.reservoir.topology import Topology

__all__ = ["ReservoirEstimator"]


class ReservoirEstimator(
    MultiOutputMixin,  # type: ignore[misc]
    RegressorMixin,  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Parameters, attributes and conventions of both networks; nothing of it is overridden.

    A network adds its constructor and ``fit_in_steps``, ``partial_fit``, ``predict``, ``transform`` and ``check_stored``. What
    the two share there are functions: :mod:`pesn.esn.parameters`, :mod:`pesn.esn.validation`, :mod:`pesn.esn.training`.
    """

    n_units: int
    spectral_radius: float
    leak_rate: float
    density: float
    input_scaling: float
    feedback_scaling: float
    bias_scaling: float
    noise: float
    ridge: Ridge
    forgetting: float
    rls_delta: float | None
    washout: Washout
    random_state: RandomState
    activation: str | Activation
    topology: Topology
    features: Features
    verbose: bool

    n_features_in_: int
    n_outputs_: int
    reservoir_: Reservoir
    readout_: Readout
    state_: State
    rls_: RLSState | None
    washout_: int
    ridge_: RidgeValue
    online_predictions_: FloatArray
    _y_is_flat: bool  # outputs have the shape of y
    _to_wash: int  # rows of the washout that partial_fit has not seen yet

    stored_at_times: ClassVar[dict[str, type]] = {  # the others, every fitted network has
        "feature_names_in_": np.ndarray,
        "online_predictions_": np.ndarray,
        "_sklearn_output_config": dict,
    }

    def fit(self, X: TableLike, y: TableLike, lengths: Lengths = None) -> Self:
        """Draw a reservoir, drive it with X (n, d) and fit the readout to y, (n,) or (n, m), in one pass.

        Rows go by position. Where X and y are pandas objects, labels that both have must be as many rows apart throughout: none,
        or one where y is the next row of X. The states are never kept: beside X and y, memory does not grow with n.

        Parameters
        ----------
        X
            Rows (n, d), in time; for :class:`pesn.ProbabilisticESN` a Gaussian a row too.
        y
            What to put out for each of them, (n,) or (n, m).
        lengths
            Rows of each of the sequences, one after the other, each from the initial state; None: all are one.

        Returns
        -------
        Self
            The network, fitted; where anything fails it is what it was before the call: unfitted, or fitted as it was.
        """
        flag("verbose", self.verbose)
        with shown(self.verbose) as steps:
            return self.fit_in_steps(X, y, lengths, steps)

    def fit_in_steps(self, X: TableLike, y: TableLike, lengths: Lengths, steps: Steps) -> Self:
        """:meth:`fit` as a part of something longer, which shows how far it is: :class:`pesn.Forecaster` fits its network so.

        Parameters
        ----------
        X, y
            Rows (n, d) and what to put out for each of them, (n,) or (n, m).
        lengths
            Rows of each of the sequences, one after the other; None: all are one.
        steps
            Where each step, with its rows, is announced: "finding the washout", where there is one to find, "driving the
            reservoir", "least squares" and what a kind of network learns beside. ``verbose`` is not looked at.

        Returns
        -------
        Self
            The network, fitted; where anything fails it is what it was before.
        """
        raise NotImplementedError

    def fit_transform(self, X: TableLike, y: TableLike | None = None, lengths: Lengths = None) -> FloatArray:
        """``fit`` and then ``transform``, with the same ``lengths``.

        Parameters
        ----------
        X, y, lengths
            As in :meth:`fit`.

        Returns
        -------
        array
            The states (n, n_units).
        """
        return self.fit(X, y, lengths).transform(X, lengths)

    def score(self, X: TableLike, y: TableLike, sample_weight: npt.ArrayLike | None = None, *, lengths: Lengths = None) -> float:
        """R² of ``predict(X, lengths=lengths)``, as for every regressor of scikit-learn.

        Parameters
        ----------
        X, y, lengths
            As in :meth:`fit`.
        sample_weight
            (n,), as in ``sklearn.metrics.r2_score``.

        Returns
        -------
        float
            1 − Σ (y − predicted)² / Σ (y − mean)², averaged over the outputs.
        """
        return float(r2_score(y, self.predict(X, lengths=lengths), sample_weight=sample_weight))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file that ``pesn.load`` reads; no code is stored, and an old file is replaced whole."""
        from pesn.persistence import save  # here, not above: it knows every estimator

        save(self, path)

    def check_stored(self) -> None:
        """A ValueError where what was learnt is damaged or does not fit together: asked of a network that came from a file."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "readout_")  # n_features_in_ comes earlier, and would pass for a fit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.reservoir_.n_units)
