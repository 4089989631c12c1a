"""What the two networks are to scikit-learn: regressors of rows that are time, and transformers to states."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal, Self, overload

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

from pesn._support.checks import check_real, flag
from pesn._support.progress import Steps, shown
from pesn._support.types import (
    Feedback,
    FloatArray,
    LeakRate,
    Lengths,
    Memory,
    RandomState,
    Ridge,
    RidgeValue,
    Scaling,
    TableLike,
    Washout,
)
from pesn.activations import Activation
from pesn.esn.generation import run_free
from pesn.esn.row_by_row import Online, resume
from pesn.esn.stepper import Stepper, open_stepper
from pesn.esn.validation import TrainingRows
from pesn.readout.features import Features
from pesn.readout.patches import Patches
from pesn.readout.ridge import Readout
from pesn.readout.rls import RLSState
from pesn.reservoir.drive import Reservoir, State
from pesn.reservoir.layers import Layers
from pesn.reservoir.plasticity import Plasticity
from pesn.reservoir.synaptic_plasticity import SynapticPlasticity
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

    A network adds its constructor and ``fit_in_steps``, ``begin``, ``check_online``, ``partial_fit``, ``predict``, ``transform``
    and ``check_stored``. What the two share there are functions: :mod:`pesn.esn.parameters`, :mod:`pesn.esn.validation`,
    :mod:`pesn.esn.training`.
    """

    n_units: int
    spectral_radius: float
    leak_rate: LeakRate
    density: float
    input_scaling: Scaling
    feedback_scaling: Scaling
    bias_scaling: Scaling
    noise: float
    ridge: Ridge
    forgetting: float
    rls_delta: float | None
    washout: Washout
    random_state: RandomState
    activation: str | Activation
    topology: Topology
    features: Features
    layers: Layers
    memory: Memory
    plasticity: Plasticity | SynapticPlasticity | None
    feedback: Feedback
    local: Patches | None
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

    def online(self, n_inputs: int | None = None, n_outputs: int | None = None) -> Stepper:
        """A stepper, which predicts and learns a row at a time, each in one compiled call: ``step(x)``, then ``learn(y)``.

        It goes on after the last row learnt from, and does with each row what ``partial_fit`` does. The network itself stays what
        it is until ``stepper.finish()`` writes into it what was learnt.

        Parameters
        ----------
        n_inputs, n_outputs
            d and m, for a network that has learnt nothing yet; else they are known.

        Returns
        -------
        Stepper
            Of a probabilistic network it follows the means: what its state left uncertain is dropped, and ``noise`` must be 0.

        Examples
        --------
        >>> import numpy as np, pesn
        >>> wave = np.sin(0.2 * np.arange(1001.0))
        >>> stepper = pesn.EchoStateNetwork(50, random_state=0).online(n_inputs=1, n_outputs=1)
        >>> for x, y in zip(wave[:-1], wave[1:]):
        ...     predicted = stepper.step([x])
        ...     stepper.learn(y)
        >>> bool(abs(predicted[0] - wave[-1]) < 0.01)
        True
        """
        return open_stepper(self, n_inputs, n_outputs)

    def begin(self, n_inputs: int, n_outputs: int, given: TrainingRows | None = None) -> Online:
        """Draw a reservoir whose readout knows nothing yet, to be learnt row by row.

        Parameters
        ----------
        n_inputs, n_outputs
            d and m.
        given
            The first rows, by which ``washout="auto"`` is found.

        Returns
        -------
        Online
            Where learning stands.
        """
        raise NotImplementedError

    def check_online(self) -> None:
        """A ValueError where a parameter is wrong, or does not let the network go row by row in compiled steps."""
        raise NotImplementedError

    def resumed(self) -> Online:
        """Where learning row by row stands: after the batch solution, or after the rows that followed it."""
        return resume(self.readout_, self.rls_, self.state_, self._to_wash, self.rls_delta)

    def adopt(self, learnt: Online) -> None:
        """Make what was ``learnt`` row by row the network's own."""
        self.readout_, self.rls_, self.state_, self._to_wash = learnt

    @overload
    def generate(
        self, n: int, state: State | None = None, X: TableLike | None = None, *, return_state: Literal[False] = False
    ) -> FloatArray: ...
    @overload
    def generate(
        self, n: int, state: State | None = None, X: TableLike | None = None, *, return_state: Literal[True]
    ) -> tuple[FloatArray, State]: ...
    @overload
    def generate(
        self, n: int, state: State | None = None, X: TableLike | None = None, *, return_state: bool = False
    ) -> FloatArray | tuple[FloatArray, State]: ...

    def generate(
        self, n: int, state: State | None = None, X: TableLike | None = None, *, return_state: bool = False
    ) -> FloatArray | tuple[FloatArray, State]:
        """The next ``n`` outputs of a network that runs on its own, in one compiled call; of a probabilistic one, the means.

        Without feedback each output is the next input: y must have been the next row of X, or of its first columns. With
        ``feedback_scaling`` above 0 the outputs come back through W_fb, and the inputs are X. The first input is
        ``state.output``: after ``fit`` and ``partial_fit`` the last row of y, so that what is generated goes on where y ends.
        A loop that diverges stays at ±1e100: no output is infinite or NaN.

        Parameters
        ----------
        n
            How many outputs.
        state
            Where to start: what ``return_state`` gave, here or in ``predict``; None: ``state_``, after the last row learnt from.
        X
            Inputs that are given, a row for each output: without feedback the columns that are no outputs, (n, d − m), which
            come after them; with feedback all of them, (n, d), None: zeros.
        return_state
            Whether the state at the end comes second: ``generate(more, state)`` goes on as if there had been one call.

        Returns
        -------
        outputs
            (n,) or (n, m), as y was.
        state
            With ``return_state``.

        Examples
        --------
        >>> import numpy as np, pesn
        >>> wave = np.sin(0.2 * np.arange(1101.0))
        >>> esn = pesn.EchoStateNetwork(50, random_state=0).fit(wave[:1000, None], wave[1:1001])
        >>> bool(np.abs(esn.generate(100) - wave[1001:]).max() < 0.01)
        True
        """
        flag("return_state", return_state)
        outputs, end = run_free(self, n, state, X)
        result = outputs[:, 0] if self._y_is_flat else outputs
        return (result, end) if return_state else result

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
        check_real("y", y)
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
