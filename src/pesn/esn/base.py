"""Base class of the networks: a scikit-learn regressor and transformer over time steps that can also run freely."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.metrics import r2_score

from pesn._support.arguments import as_real, check_real, flag, whole_number
from pesn._support.progress import Steps, show_progress
from pesn._support.records import rollback_on_error
from pesn._support.threads import one_blas_thread
from pesn._support.types import (
    Array,
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
from pesn.activations import Activation, get
from pesn.esn.online import Online, Stepper, learn, learn_rows, open_stepper, start_empty
from pesn.esn.training import Drive, StartRows, StreamedRows, draw_reservoir, fit_readout, generator, ridge_value, washout_length
from pesn.esn.validation import (
    TrainingRows,
    UncertainRows,
    as_rows,
    check_certain,
    check_network_state,
    check_online_start,
    check_prediction,
    require_fit,
    shape_outputs,
    starting_states,
    training_rows,
)
from pesn.readout.features import Features
from pesn.readout.groups import Groups, Patches
from pesn.readout.ridge import Readout
from pesn.readout.rls import RLSState, start_from_batch
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, ErrorModel
from pesn.reservoir.drive import State, read, run
from pesn.reservoir.sequences import blocks, check_longer_than_washout, check_no_gaps
from pesn.reservoir.weights import Layers, Reservoir, Topology
from pesn.statespace.cell import ActivationMoments
from pesn.statespace.kernels import FARTHEST
from pesn.statespace.model import rollout
from pesn.statespace.state import Certain

if TYPE_CHECKING:
    from sklearn.utils import Tags

    class Regressor:
        """What is used of scikit-learn's classes, which have no types: with them a checker would take any parameter."""

        def __sklearn_tags__(self) -> Tags: ...
        def __getstate__(self) -> dict[str, object]: ...
        def __setstate__(self, state: dict[str, object]) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    Classifier = Regressor
else:

    class Regressor(MultiOutputMixin, RegressorMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
        """Conventions of scikit-learn for a regressor that is a transformer, too."""

    class Classifier(ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
        """Conventions of scikit-learn for a classifier that transforms, too."""


class Stored:
    """Estimator that can be written to a file."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file that ``pesn.load`` reads.

        No code is stored. An old file is replaced as a whole.

        Parameters
        ----------
        path : str or path-like
            File to write.
        """
        from pesn.persistence import save  # imported here, because persistence imports every estimator

        save(self, path)  # type: ignore[arg-type]  # which is one of them

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "readout_")  # n_features_in_ is set earlier and does not mean a fit


class _FittedAttributes:
    """Attributes of a fitted network; annotations in the dataclass itself would be parameters."""

    n_features_in_: int
    n_outputs_: int
    reservoir_: Reservoir
    readout_: Readout
    state_: State
    rls_: RLSState | None
    washout_: int
    ridge_: RidgeValue
    online_predictions_: FloatArray
    _y_is_flat: bool  # whether y was (n,)
    _to_wash: int  # rows of washout left for partial_fit


@dataclass(eq=False, repr=False, kw_only=True)
class ReservoirParameters:
    """Parameters of a reservoir, common to the networks and the classifier."""

    n_units: int = field(default=100, kw_only=False)
    spectral_radius: float = 0.9
    leak_rate: LeakRate = 0.5
    density: float = 0.1
    input_scaling: Scaling = 0.5
    bias_scaling: Scaling = 0.2
    random_state: RandomState = None
    activation: str | Activation = "tanh"
    topology: Topology = "random"
    features: Features = Features()
    layers: Layers = 1
    memory: Memory = "leaky"


@dataclass(eq=False, repr=False, kw_only=True)
class ReservoirEstimator(Stored, _FittedAttributes, ReservoirParameters, Regressor):
    """Parameters and conventions of both networks, and their training.

    A network adds ``verbose`` and its own parameters, how rows drive it (``drive``, ``initial``), ``check_parameters``,
    ``predict`` and ``transform``.
    """

    feedback_scaling: Scaling = 0.0
    noise: float = 0.0
    ridge: Ridge = 1e-6
    forgetting: float = 0.999
    rls_delta: float | None = None
    rls_prior: bool = True
    washout: Washout = 0
    feedback: Feedback = "teacher"
    local: Patches | None = None

    takes_gaussians: ClassVar[bool] = False
    optional_attributes: ClassVar[dict[str, type]] = {  # all others are attributes of every fitted network
        "feature_names_in_": np.ndarray,
        "online_predictions_": np.ndarray,
        "_sklearn_output_config": dict,
    }

    @one_blas_thread()
    def fit(self, X: TableLike, y: TableLike, lengths: Lengths = None) -> Self:
        """Draw a reservoir, drive it with X and fit the readout to y, in one pass.

        Rows are matched by position. If X and y are pandas objects, labels that both have must be the same number of rows apart
        throughout: none, or one if y is the next row of X. The states are not stored: beside X and y, memory does not grow with
        n.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs, one row per time step; for :class:`pesn.ProbabilisticESN` also a :class:`pesn.Gaussian` over the rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        lengths : list of int, optional
            Number of rows of each sequence, if X holds several one after the other. Each starts from the initial state.

        Returns
        -------
        Self
            The fitted network. After an error it is what it was before the call.
        """
        flag("verbose", self.verbose)
        with show_progress(self.verbose) as steps:
            return self.fit_in_steps(X, y, lengths, steps)

    def fit_in_steps(self, X: UncertainRows, y: TableLike, lengths: Lengths, steps: Steps) -> Self:
        """Fit as in :meth:`fit` as part of a longer job that shows its progress, such as the fit of :class:`pesn.Forecaster`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        lengths : list of int or None
            Number of rows of each sequence; None: one sequence.
        steps : Steps
            Progress: "finding the washout", "driving the reservoir", "least squares" and so on. ``verbose`` is ignored.

        Returns
        -------
        Self
            The fitted network. After an error it is what it was before the call.
        """
        with rollback_on_error(self):
            self.check_parameters()
            given = training_rows(self, X, y, lengths, first=True, least=2)
            self.__dict__.pop("online_predictions_", None)  # these belong to another readout
            self._fit_readout(given, steps)
        return self

    def _fit_readout(self, given: TrainingRows | StreamedRows, steps: Steps) -> None:
        """Draw the reservoir and fit the readout, in batch or row by row (FORCE)."""
        rng = self.draw(given.n_inputs, given.n_outputs, given, steps)
        kept = StartRows(self, given.n_rows) if self.takes_gaussians else None
        if self.feedback == "own" and isinstance(given, TrainingRows):
            check_certain(given.inputs)
            check_longer_than_washout(given.sequences, self.washout_, self.features.lags)
            with steps.step("learning with its own outputs", given.n_rows, "rows") as advance:
                self.adopt(learn_rows(self, given, start_empty(self), advance, kept)[1])
        else:
            self.readout_, self.state_, self.ridge_ = fit_readout(self, self.drive(rng), given, steps, kept)
            self.rls_, self._to_wash = None, 0
        self._fit_start(kept, given, steps)

    def _fit_start(self, kept: StartRows | None, given: TrainingRows | StreamedRows, steps: Steps) -> None:
        """Fit the initial state of sequences, if it is uncertain."""

    def check_parameters(self) -> None:
        """Raise a ValueError or TypeError if a parameter is wrong."""
        raise NotImplementedError

    def drive(self, rng: np.random.Generator | None = None) -> Drive:
        """Return the function that drives the network in ``fit``; ``rng`` draws noise."""
        raise NotImplementedError

    def initial(self) -> State:
        """Return the state that sequences start from in ``fit``: zero."""
        return State(np.zeros(self.reservoir_.n_units), None, np.zeros(self.reservoir_.n_outputs), None)

    @property
    def groups(self) -> Groups | None:
        """Features that each output sees; None: all of them."""
        r = self.reservoir_
        return None if self.local is None else self.local.groups(self.features, r.n_inputs, r.n_outputs, r.n_units)

    @one_blas_thread()
    def partial_fit(self, X: UncertainRows, y: TableLike, *, state: State | None = None) -> Self:
        """Update the readout online with each new row, by recursive least squares.

        The state continues from the last row of the previous call. Also works without ``fit``; then nothing is known about
        initial states. No noise is added. After an error, readout and state are what they were.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows; for :class:`pesn.ProbabilisticESN` also a :class:`pesn.Gaussian` over the rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        state : State, optional
            State before the first row, as ``predict(..., return_state=True)`` returns it; None: after the last row learned.

        Returns
        -------
        Self
            The updated network.
        """
        first = not self.__sklearn_is_fitted__()
        with rollback_on_error(self):
            self.check_parameters()
            given = training_rows(self, X, y, first=first, least=1)
            start = self.begin_online(given.n_inputs, given.n_outputs, given) if first else self.resume_online()
            if state is not None:
                ((_, state),) = starting_states(self, None, state, given.n_rows, self.initial, gaussian=self.takes_gaussians)
                start = start._replace(state=state)
            if self.feedback == "own":
                check_certain(given.inputs)
            predictions, learned = learn(self, given, start)
            self.adopt(learned)
            self.online_predictions_ = shape_outputs(predictions, given.inputs, self._y_is_flat)
        return self

    @one_blas_thread()
    def online(self, n_inputs: int | None = None, n_outputs: int | None = None) -> Stepper:
        """Return a stepper that predicts and learns one row at a time, each in one compiled call: ``step(x)``, then ``learn(y)``.

        It continues after the last training row, and treats each row as ``partial_fit`` does. The network itself does not change
        until ``stepper.finish()`` stores the result in it.

        Parameters
        ----------
        n_inputs : int, optional
            Number of inputs of a network that is not fitted; otherwise it is known.
        n_outputs : int, optional
            Number of outputs of a network that is not fitted; otherwise it is known.

        Returns
        -------
        Stepper
            For a probabilistic network it follows the means: the variance of its state is dropped, and ``noise`` must be 0.

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

    def draw(
        self, n_inputs: int, n_outputs: int, given: TrainingRows | StreamedRows | None = None, steps: Steps | None = None
    ) -> np.random.Generator:
        """Draw a reservoir and find the washout.

        Parameters
        ----------
        n_inputs : int
            Number of inputs.
        n_outputs : int
            Number of outputs.
        given : TrainingRows or StreamedRows, optional
            Rows on which ``washout="auto"`` is found.
        steps : Steps, optional
            Progress.

        Returns
        -------
        numpy.random.Generator
            Generator that the reservoir was drawn from.
        """
        rng, steps = generator(self.random_state), steps or Steps()
        self.n_outputs_, self._y_is_flat = n_outputs, given is not None and given.flat
        self.reservoir_ = draw_reservoir(self, n_inputs, n_outputs, rng, self.local)
        self.washout_, self.ridge_ = washout_length(self, given, steps), ridge_value(self.ridge)
        return rng

    def begin_online(self, n_inputs: int, n_outputs: int, given: TrainingRows | None = None) -> Online:
        """Draw a reservoir with an empty readout for online learning.

        Parameters
        ----------
        n_inputs : int
            Number of inputs.
        n_outputs : int
            Number of outputs.
        given : TrainingRows, optional
            First rows, on which ``washout="auto"`` is found.

        Returns
        -------
        Online
            Recursion to start from.
        """
        check_online_start(self)
        self.draw(n_inputs, n_outputs, given)
        return start_empty(self)

    def resume_online(self) -> Online:
        """Return the recursion after the batch solution, or after the rows that followed it."""
        require_fit(self)
        start = (self.readout_, self.rls_) if self.rls_ else start_from_batch(self.readout_, self.rls_delta, self.rls_prior)
        return Online(*start, self.state_, self._to_wash)

    def adopt(self, learned: Online) -> None:
        """Store the result of online learning in the network."""
        self.readout_, self.rls_, self.state_, self._to_wash = learned

    @overload
    def generate(
        self, n: int, state: State | None = None, X: TableLike | None = None, *, return_state: Literal[False] = False
    ) -> FloatArray: ...
    @overload
    def generate(
        self, n: int, state: State | None = None, X: TableLike | None = None, *, return_state: Literal[True]
    ) -> tuple[FloatArray, State]: ...

    @one_blas_thread()
    def generate(
        self, n: int, state: State | None = None, X: TableLike | None = None, *, return_state: bool = False
    ) -> FloatArray | tuple[FloatArray, State]:
        """Generate the next ``n`` outputs of a network that runs freely; for a probabilistic network, the means.

        Without feedback each output is the next input: y must have been the next row of X, or of its first columns. With
        ``feedback_scaling`` above 0 the outputs return through W_fb, and the inputs are X. The first input is ``state.output``:
        after ``fit`` and ``partial_fit`` the last row of y, so that the outputs continue where y ends. A loop that diverges stays
        at ±1e100: no output is infinite or NaN.

        Parameters
        ----------
        n : int
            Number of outputs.
        state : State, optional
            Initial state, as ``return_state`` returns it, here or in ``predict``. None: ``state_``, after the last training row.
        X : array-like of shape (n, n_features), optional
            Given inputs, one row per output: without feedback the columns that are not outputs, (n, d − m), which come after
            them; with feedback all columns, None: zeros.
        return_state : bool, default=False
            Whether to return the final state too: ``generate(more, state)`` continues as if there had been one call.

        Returns
        -------
        outputs : ndarray of shape (n,) or (n, n_outputs)
            As y was.
        state : State
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
        require_fit(self)
        whole_number("n", n, 1)
        [(_, start)] = starting_states(self, None, state, int(n), lambda: self.state_)
        outputs, end = (_run_with_feedback if has_feedback(self) else _run_closed_loop)(self, int(n), start, X)
        result = outputs[:, 0] if self._y_is_flat else outputs
        return (result, end) if return_state else result

    def fit_transform(self, X: TableLike, y: TableLike | None = None, lengths: Lengths = None) -> FloatArray:
        """Fit the network, then return the states of the reservoir.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs, as in :meth:`fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets, as in :meth:`fit`.
        lengths : list of int, optional
            Number of rows of each sequence, for both.

        Returns
        -------
        ndarray of shape (n_samples, n_units)
            States.
        """
        return self.fit(X, y, lengths).transform(X, lengths)

    def score(self, X: TableLike, y: TableLike, sample_weight: npt.ArrayLike | None = None, *, lengths: Lengths = None) -> float:
        """Return R² of ``predict(X, lengths=lengths)``, as for every regressor of scikit-learn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs, as in :meth:`fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            True outputs.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, as in ``sklearn.metrics.r2_score``.
        lengths : list of int, optional
            Number of rows of each sequence.

        Returns
        -------
        float
            1 − Σ (y − predicted)² / Σ (y − mean)², averaged over the outputs.
        """
        check_real("y", y)
        return float(r2_score(y, self.predict(X, lengths=lengths), sample_weight=sample_weight))

    def check_attributes(self) -> None:
        """Raise a ValueError if attributes that come from a file are damaged or do not fit together."""
        check_network_state(self, self._y_is_flat)
        self.check_parameters()
        check_prediction(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.reservoir_.n_units)


# ---------------------------------------------------------------- a network that runs on its own


def has_feedback(esn: ReservoirEstimator) -> bool:
    """Return whether outputs return through W_fb, so that all inputs are given."""
    return bool(np.any(esn.reservoir_.W_fb))


def own_inputs(esn: ReservoirEstimator, n: int, X: TableLike | None) -> Array:
    """Return the n input rows of a network with output feedback: X (n, d), or zeros."""
    if X is None:
        return np.zeros((n, esn.n_features_in_))
    rows = as_rows(esn, X).take(slice(None))[0]
    if len(rows) != n:
        raise ValueError(f"X must have a row for each of the n = {n} outputs, got {len(rows)}")
    return rows


def free_loop(esn: ReservoirEstimator) -> ClosedLoop:
    """Return the closed loop of means in which the outputs of a network are the first of its inputs, one step later."""
    m, d = esn.n_outputs_, esn.reservoir_.n_inputs
    if m > d:
        raise ValueError(
            f"outputs must be inputs for a network to run on its own, got {m} outputs and {d} inputs; "
            "fit it to the next row of X, or with feedback_scaling above 0"
        )
    none, nothing = np.zeros((0, m)), np.zeros((m, m))
    kinematics = np.zeros((0, m)), none, np.zeros(0)
    dynamics = Dynamics(np.arange(m), np.arange(0), kinematics, np.ones(m), change=False)
    errors = ErrorModel(nothing, np.zeros(m), nothing)
    units = ActivationMoments(get(esn.reservoir_.activation))
    return ClosedLoop(esn.reservoir_, esn.readout_, errors, dynamics, units, form="none", parts=(), features=esn.features)


def loop_state(loop: ClosedLoop, state: State, known: Array) -> Certain:
    """Return a state of a network as the state of its closed loop: the last output is the next row, beside ``known`` inputs."""
    at, x = loop.layout, np.zeros(loop.layout.size)
    x[at["y"]], x[at["inputs"]], x[at["units"]] = state.output, known, state.mean
    if loop.features.lags:
        # before the first row of a sequence, the next row takes the place of the earlier ones
        x[at["earlier"]] = np.tile(x[loop.moves.row], loop.features.lags) if state.past is None else state.past
    return Certain(x, loop.carried, np.zeros((len(x), 0)))


def _run_closed_loop(esn: ReservoirEstimator, n: int, state: State, X: TableLike | None) -> tuple[Array, State]:
    """Run a network whose outputs are its next inputs."""
    loop, r = free_loop(esn), esn.reservoir_
    known = _check_known_inputs(X, n, r.n_inputs - esn.n_outputs_, getattr(esn, "feature_names_in_", None))
    if r.n_units and r.activation == "tanh" and esn.features == Features() and not known.shape[1]:
        outputs, end = _run_kernel(esn, n, state)
        if np.abs(outputs).max() < FARTHEST:  # False for NaN
            return outputs, end
    path = rollout(loop.model, loop_state(loop, state, known[0]), known)
    at, x = loop.layout, path.state.mean
    past = x[at["earlier"]].copy() if loop.features.lags else None
    return path.mean, State(x[at["units"]].copy(), None, x[at["y"]].copy(), None, past=past)


def _run_kernel(esn: ReservoirEstimator, n: int, state: State) -> tuple[Array, State]:
    """Run the compiled drive, which writes each output into the row it reads next; for plain features only."""
    rows = np.zeros((n + 1, esn.n_outputs_))
    rows[0] = state.output
    for block in blocks(slice(0, n)):
        after, weights = rows[block.start + 1 : block.stop + 1], esn.readout_.weights
        _, _, state = run(esn.reservoir_, rows[block], state, readout=weights, outputs=after)
        if not np.isfinite(after).all():
            break
    return rows[1:], state


def _check_known_inputs(X: TableLike | None, n: int, size: int, names: FloatArray | None) -> Array:
    """Return the inputs (n, size) that are not outputs, the last columns of X; ``names`` are those of all columns."""
    if X is None and not size:
        return np.zeros((n, 0))
    if X is None:
        raise ValueError(f"X must hold the {size} inputs that are no outputs, of shape {(n, size)}, got None")
    rows: Array = as_real("X", X).astype(np.float64, copy=False)
    if rows.shape != (n, size):
        raise ValueError(f"X must have shape {(n, size)}, the inputs that are no outputs, got {rows.shape}")
    given = getattr(X, "columns", None)
    if names is not None and given is not None and list(given) != list(names[-size:]):
        raise ValueError(f"X must have the columns {list(names[-size:])}, which are no outputs, in this order, got {list(given)}")
    check_no_gaps("X", rows)
    return rows


def _run_with_feedback(esn: ReservoirEstimator, n: int, state: State, X: TableLike | None) -> tuple[Array, State]:
    """Run a network whose outputs return through W_fb."""
    rows, outputs = own_inputs(esn, n, X), np.empty((n, esn.n_outputs_))
    for block in blocks(slice(0, n)):
        _, _, outputs[block], state = read(esn.features, esn.reservoir_, rows[block], state, readout=esn.readout_.weights)
    return outputs, state
