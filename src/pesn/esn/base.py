"""Base class of the networks: a scikit-learn regressor and transformer over time steps, which can run on its own."""

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
from pesn._support.progress import Steps, shown
from pesn._support.records import rollback_on_error
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
from pesn.esn.online import Online, Stepper, learn, learn_rows, open_stepper, resume, start_empty
from pesn.esn.training import (
    Drive,
    RowsForStart,
    StreamedRows,
    draw_reservoir,
    fit_readout,
    generator,
    plain_ridge,
    washout_rows,
)
from pesn.esn.validation import (
    TrainingRows,
    UncertainRows,
    as_given,
    as_rows,
    check_certain,
    check_fitted,
    check_learnt,
    check_prediction,
    check_unlearnt,
    starts,
    training_rows,
)
from pesn.readout.features import Features
from pesn.readout.groups import Groups, Patches
from pesn.readout.ridge import Readout
from pesn.readout.rls import RLSState
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, ErrorModel
from pesn.reservoir.drive import State, read, run
from pesn.reservoir.sequences import blocks, check_longer_than_washout, check_no_gaps
from pesn.reservoir.topology import Topology
from pesn.reservoir.weights import Layers, Reservoir
from pesn.statespace.cell import ActivationMoments
from pesn.statespace.kernels import FARTHEST
from pesn.statespace.rollout import rollout
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
        """Conventions of scikit-learn for a regressor that transforms, too."""

    class Classifier(ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
        """Conventions of scikit-learn for a classifier that transforms, too."""


class Stored:
    """An estimator that can be written to a file."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file that ``pesn.load`` reads; no code is stored, and an old file is replaced whole."""
        from pesn.persistence import save  # here, not above: it knows every estimator

        save(self, path)  # type: ignore[arg-type]  # which is one of them

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "readout_")  # n_features_in_ comes earlier, and would pass for a fit


class _Learnt:
    """Attributes of a fitted network; here, as annotations of a dataclass would be its parameters."""

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


@dataclass(eq=False, repr=False, kw_only=True)
class ReservoirEstimator(Stored, _Learnt, Regressor):
    """Parameters and conventions of both networks, and how they learn.

    A network adds ``verbose`` and its own parameters, how rows drive it (``drive``, ``initial``), ``check_parameters``,
    ``predict`` and ``transform``.
    """

    n_units: int = field(default=100, kw_only=False)
    spectral_radius: float = 0.9
    leak_rate: LeakRate = 0.5
    density: float = 0.1
    input_scaling: Scaling = 0.5
    feedback_scaling: Scaling = 0.0
    bias_scaling: Scaling = 0.2
    noise: float = 0.0
    ridge: Ridge = 1e-6
    forgetting: float = 0.999
    rls_delta: float | None = None
    washout: Washout = 0
    random_state: RandomState = None
    activation: str | Activation = "tanh"
    topology: Topology = "random"
    features: Features = Features()
    layers: Layers = 1
    memory: Memory = "leaky"
    feedback: Feedback = "teacher"
    local: Patches | None = None

    takes_gaussians: ClassVar[bool] = False
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

    def fit_in_steps(self, X: UncertainRows, y: TableLike, lengths: Lengths, steps: Steps) -> Self:
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
        with rollback_on_error(self):
            self.check_parameters()
            given = training_rows(self, X, y, lengths, first=True, least=2)
            self.__dict__.pop("online_predictions_", None)  # of another readout
            if self.feedback == "own":
                check_certain(given.inputs)
                begun = self.begin(given.n_inputs, given.n_outputs, given)
                check_longer_than_washout(given.sequences, begun.to_wash, self.features.lags)
                kept = RowsForStart(self, given.n_rows) if self.takes_gaussians else None
                with steps.step("learning with its own outputs", given.n_rows, "rows") as advance:
                    self.adopt(learn_rows(self, given, begun, advance, kept)[1])
                self._learn_start(kept, given, steps)
            else:
                self._fit_readout(given, steps)
        return self

    def _fit_readout(self, given: TrainingRows | StreamedRows, steps: Steps) -> None:
        rng = generator(self.random_state)
        self.n_outputs_, self._y_is_flat = given.n_outputs, given.flat
        self.reservoir_ = draw_reservoir(self, given.n_inputs, given.n_outputs, rng, self.local)
        self.washout_ = washout_rows(self, given, steps)
        kept = RowsForStart(self, given.n_rows) if self.takes_gaussians else None
        self.readout_, self.state_, self.ridge_ = fit_readout(self, self.drive(rng), given, steps, kept)
        self.rls_, self._to_wash = None, 0
        self._learn_start(kept, given, steps)

    def _learn_start(self, kept: RowsForStart | None, given: TrainingRows | StreamedRows, steps: Steps) -> None:
        """Learn where sequences start, where that is uncertain."""

    def check_parameters(self) -> None:
        """A ValueError or TypeError where a parameter is wrong."""
        raise NotImplementedError

    def drive(self, rng: np.random.Generator | None = None) -> Drive:
        """How blocks of rows drive the network in ``fit``; ``rng`` draws noise."""
        raise NotImplementedError

    def initial(self) -> State:
        """Where sequences start in ``fit``: at zero."""
        return State(np.zeros(self.reservoir_.n_units), None, np.zeros(self.reservoir_.n_outputs), None)

    @property
    def groups(self) -> Groups | None:
        """Which features each output sees; None: all of them."""
        r = self.reservoir_
        return None if self.local is None else self.local.groups(self.features, r.n_inputs, r.n_outputs, r.n_units)

    def partial_fit(self, X: UncertainRows, y: TableLike) -> Self:
        """Move the readout with each new row, by recursive least squares; the state goes on from the last row learnt from.

        Works without ``fit`` too; then nothing is known of where sequences start. No noise is added here. If anything fails,
        readout and state are what they were.

        Parameters
        ----------
        X
            New rows (n, d); for :class:`pesn.ProbabilisticESN` a Gaussian a row too.
        y
            What to put out for each of them, as in :meth:`fit`.

        Returns
        -------
        Self
        """
        first = not self.__sklearn_is_fitted__()
        with rollback_on_error(self):
            self.check_parameters()
            given = training_rows(self, X, y, first=first, least=1)
            if first:
                check_unlearnt(self)
                begun = self.begin(given.n_inputs, given.n_outputs, given)
            else:
                check_fitted(self)
                begun = self.resumed()
            if self.feedback == "own":
                check_certain(given.inputs)
            predictions, learnt = learn(self, given, begun)
            self.adopt(learnt)
            self.online_predictions_ = as_given(predictions, given.inputs, self._y_is_flat)
        return self

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
        self.n_outputs_, self._y_is_flat = n_outputs, given is not None and given.flat
        self.reservoir_ = draw_reservoir(self, n_inputs, n_outputs, generator(self.random_state), self.local)
        self.washout_, self.ridge_ = washout_rows(self, given, Steps()), plain_ridge(self.ridge)
        return start_empty(self)

    def check_online(self) -> None:
        """A ValueError where a parameter is wrong, or does not let the network go row by row in compiled steps."""
        self.check_parameters()
        if not self.__sklearn_is_fitted__():
            check_unlearnt(self)

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
        check_fitted(self)
        whole_number("n", n, 1)
        [(_, start)] = starts(self, None, state, int(n), lambda: self.state_)
        outputs, end = (_fed_back if feeds_back(self) else _closed)(self, int(n), start, X)
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

    def check_stored(self) -> None:
        """A ValueError where what was learnt is damaged or does not fit together: asked of a network that came from a file."""
        check_learnt(self, self._y_is_flat)
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


def feeds_back(esn: ReservoirEstimator) -> bool:
    """Whether outputs come back through W_fb, so that inputs are given by others."""
    return bool(np.any(esn.reservoir_.W_fb))


def own_inputs(esn: ReservoirEstimator, n: int, X: TableLike | None) -> Array:
    """The n rows that a network with output feedback is driven by: X (n, d), or zeros."""
    if X is None:
        return np.zeros((n, esn.n_features_in_))
    rows = as_rows(esn, X).take(slice(None))[0]
    if len(rows) != n:
        raise ValueError(f"X must have a row for each of the n = {n} outputs, got {len(rows)}")
    return rows


def free_loop(esn: ReservoirEstimator) -> ClosedLoop:
    """The loop of means in which the outputs of a network are the first of its inputs, one step later."""
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
    """What a user keeps as the state of a loop that goes on from it: the last output is the next row, beside ``known``."""
    at, x = loop.layout, np.zeros(loop.layout.size)
    x[at["y"]], x[at["inputs"]], x[at["units"]] = state.output, known, state.mean
    if loop.features.lags:
        # without a past, as of a sequence that has not begun, the next row stands for it
        x[at["earlier"]] = np.tile(x[loop.moves.row], loop.features.lags) if state.past is None else state.past
    return Certain(x, loop.carried, np.zeros((len(x), 0)))


def _closed(esn: ReservoirEstimator, n: int, state: State, X: TableLike | None) -> tuple[Array, State]:
    loop, r = free_loop(esn), esn.reservoir_
    known = _known(X, n, r.n_inputs - esn.n_outputs_, getattr(esn, "feature_names_in_", None))
    if r.n_units and r.activation == "tanh" and esn.features == Features() and not known.shape[1]:
        outputs, end = _driven_by_itself(esn, n, state)
        if np.abs(outputs).max() < FARTHEST:  # and no NaN
            return outputs, end
    path = rollout(loop.model, loop_state(loop, state, known[0]), known)
    at, x = loop.layout, path.state.mean
    past = x[at["earlier"]].copy() if loop.features.lags else None
    return path.mean, State(x[at["units"]].copy(), None, x[at["y"]].copy(), None, past=past)


def _driven_by_itself(esn: ReservoirEstimator, n: int, state: State) -> tuple[Array, State]:
    """Where the readout sees the row and the units: the compiled drive, which writes each output into the row it reads next."""
    rows = np.zeros((n + 1, esn.n_outputs_))
    rows[0] = state.output
    for block in blocks(slice(0, n)):
        after, weights = rows[block.start + 1 : block.stop + 1], esn.readout_.weights
        _, _, state = run(esn.reservoir_, rows[block], state, readout=weights, outputs=after)
        if not np.isfinite(after).all():
            break
    return rows[1:], state


def _known(X: TableLike | None, n: int, size: int, names: FloatArray | None) -> Array:
    """The inputs (n, size) that are not the network's own outputs, the last of its columns; ``names``: those of all."""
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


def _fed_back(esn: ReservoirEstimator, n: int, state: State, X: TableLike | None) -> tuple[Array, State]:
    rows, outputs = own_inputs(esn, n, X), np.empty((n, esn.n_outputs_))
    for block in blocks(slice(0, n)):
        _, _, outputs[block], state = read(esn.features, esn.reservoir_, rows[block], state, readout=esn.readout_.weights)
    return outputs, state
