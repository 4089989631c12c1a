"""Base classes of the networks: scikit-learn regressors and transformers over time steps, with checks of parameters and files.

>>> from pesn import EchoStateNetwork
>>> check_network(EchoStateNetwork(forgetting=2.0))
Traceback (most recent call last):
ValueError: forgetting must lie in (0, 1], got 2.0
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, MultiOutputMixin, RegressorMixin, TransformerMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state

from pesn._support.arguments import check_real, flag, number, whole_number
from pesn._support.progress import Steps, shown
from pesn._support.records import check_names
from pesn._support.types import (
    Feedback,
    FloatArray,
    LeakRate,
    Lengths,
    Memory,
    ProcessNoise,
    RandomState,
    Ridge,
    RidgeValue,
    Scaling,
    TableLike,
    Washout,
)
from pesn.activations import Activation
from pesn.esn.generation import run_free
from pesn.esn.online import Online, Stepper, open_stepper, resume
from pesn.esn.validation import TrainingRows
from pesn.gaussian import Gaussian
from pesn.moments import named_method
from pesn.readout.features import Features
from pesn.readout.groups import Groups, Patches
from pesn.readout.ridge import Readout
from pesn.readout.rls import RLSState
from pesn.reservoir.drive import State, chunks, in_lockstep, read, run_stacked, widened
from pesn.reservoir.initial_state import state_shapes
from pesn.reservoir.plasticity import Plasticity, SynapticPlasticity
from pesn.reservoir.pooling import POOLINGS
from pesn.reservoir.sequences import BLOCK, Array, Rows, blocks
from pesn.reservoir.topology import Connections, Topology
from pesn.reservoir.weights import Layers, Reservoir, draw_layers, repeat, without_units

if TYPE_CHECKING:
    from pesn.esn.classifier import ReservoirClassifier
    from pesn.esn.probabilistic import ProbabilisticESN

__all__ = [
    "ReservoirEstimator",
    "check_classes_learnt",
    "check_classifier",
    "check_learnt",
    "check_network",
    "check_no_plasticity",
    "check_no_share",
    "check_prediction",
    "check_probabilistic",
    "check_reservoir",
    "draw_reservoir",
    "generator",
    "groups_of",
    "in_threads",
    "read_sequences",
]


def read_sequences(
    features: Features, reservoir: Reservoir, rows: Rows, starts: list[tuple[slice, State]], weights: FloatArray,
    *, outputs: Array | None = None, states: Array | None = None,
) -> list[State]:  # fmt: skip
    """Fill ``outputs`` (n, m), ``states`` (n, N), or both, of each sequence from its state; where each has stopped, in order.

    Many sequences move together, others in parallel threads.
    """
    sequences, begun = [sequence for sequence, _ in starts], [state for _, state in starts]

    def drive(sequence: slice, state: State) -> State:
        for block in blocks(sequence):
            _, units, found, state = read(features, reservoir, rows.take(block)[0], state, readout=weights)
            if outputs is not None:
                outputs[block] = found
            if states is not None:
                states[block] = units
        return state

    if features.lags or not in_lockstep(reservoir, sequences):
        return in_threads(drive, starts)
    ends: list[State] = []
    wide = widened(features, reservoir)
    for which, block in chunks(sequences, 8 * BLOCK if states is None else BLOCK):
        own = [slice(rows.start - block.start, rows.stop - block.start) for rows in sequences[which]]
        into = np.empty((0, 0)) if states is None else states[block] if states.dtype == np.float64 else None
        seen = features.rows(rows.take(block)[0])
        units, found, after = run_stacked(wide, seen, own, begun[which], readout=weights, into=(into, None))
        if outputs is not None:
            outputs[block] = found
        if states is not None and into is None:
            states[block] = units
        ends += after
    return ends


def in_threads(
    drive: Callable[[slice, State], State], starts: Iterable[tuple[slice, State]], parallel: bool = True
) -> list[State]:
    """Drive each sequence from its state, several in parallel: the kernels hold no lock. Where each has stopped, in order."""
    starts = list(starts)
    if len(starts) == 1 or not parallel:
        return [drive(*start) for start in starts]
    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as pool:
        return list(pool.map(drive, *zip(*starts, strict=True)))


class ReservoirEstimator(
    MultiOutputMixin,  # type: ignore[misc]
    RegressorMixin,  # type: ignore[misc]
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Parameters, attributes and conventions of both networks; nothing of it is overridden.

    A network adds its constructor and ``fit_in_steps``, ``begin``, ``check_online``, ``partial_fit``, ``predict``, ``transform``
    and ``check_stored``. What the two share there are functions: :mod:`pesn.esn.base`, :mod:`pesn.esn.validation`,
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


_LARGEST = 1e100  # of a parameter that is squared and summed
_COVARIANCES = ("auto", "full", "low-rank", "diagonal", "ensemble")
_STARTS = ("learned", "stationary", "zero")


def check_reservoir(esn: ReservoirEstimator | ReservoirClassifier) -> None:
    """What says how the units are connected and tuned, and what is read of them; the numbers are checked where they are drawn."""
    if not isinstance(esn.features, Features):
        raise TypeError(f"features must be a pesn.Features, got {esn.features!r}")
    if isinstance(esn.topology, Connections):  # one that came from a file was not made by its constructor
        esn.topology.check("topology")
    if esn.plasticity is not None:
        if not isinstance(esn.plasticity, (Plasticity, SynapticPlasticity)):
            raise TypeError(f"plasticity must be None, a pesn.reservoir.Plasticity or SynapticPlasticity, got {esn.plasticity!r}")
        esn.plasticity.check("plasticity")


def check_network(esn: ReservoirEstimator) -> None:
    """What both networks have."""
    check_reservoir(esn)
    if esn.local is not None and not isinstance(esn.local, Patches):
        raise TypeError(f"local must be a pesn.Patches or None, got {esn.local!r}")
    if esn.local is not None and esn.plasticity is not None:
        raise ValueError("plasticity must be None where the network is local, whose patches have the same units, got both")
    if isinstance(esn.washout, str):
        if esn.washout != "auto":
            raise ValueError(f"washout must be a number of rows or 'auto', got {esn.washout!r}")
    else:
        whole_number("washout", esn.washout, 0)
    number("noise", esn.noise, 0.0, _LARGEST, "[]")
    _check_feedback(esn)
    _check_ridge(esn.ridge)
    number("forgetting", esn.forgetting, 0.0, 1.0, "(]")
    if esn.rls_delta is not None:
        number("rls_delta", esn.rls_delta, 1.0 / _LARGEST, _LARGEST, "[]")


def _check_feedback(esn: ReservoirEstimator) -> None:
    if not isinstance(esn.feedback, str) or esn.feedback not in ("teacher", "own"):
        raise ValueError(f"feedback must be 'teacher' or 'own', got {esn.feedback!r}")
    if esn.feedback == "own" and esn.local is not None:
        raise ValueError("feedback must be 'teacher' where the network is local, got 'own'")
    if esn.feedback == "own" and not np.any(esn.feedback_scaling):
        raise ValueError(f"feedback='own' needs a feedback_scaling above 0, got {esn.feedback_scaling!r}")
    if esn.feedback == "own" and isinstance(esn.ridge, (str, tuple)):
        raise ValueError(f"ridge must be a number with feedback='own', which learns row by row, got {esn.ridge!r}")
    if esn.feedback == "own" and esn.noise > 0.0:
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
    """What the probabilistic network has, all that both have included."""
    check_network(esn)
    whole_number("rank", esn.rank, 1)
    whole_number("n_members", esn.n_members, 2)
    named_method("moments", esn.moments)
    if not isinstance(esn.covariance, str) or esn.covariance not in _COVARIANCES:
        raise ValueError(f"covariance must be one of {', '.join(map(repr, _COVARIANCES))}, got {esn.covariance!r}")
    start = esn.initial_state
    if not isinstance(start, Gaussian) and (not isinstance(start, str) or start not in _STARTS):
        kinds = f"one of {', '.join(map(repr, _STARTS))} or a pesn.Gaussian over the units"
        raise ValueError(f"initial_state must be {kinds}, got {start!r}")
    if isinstance(esn.process_noise, str):
        if esn.process_noise != "auto":
            raise ValueError(f"process_noise must be 'auto' or a number, 0 or more, got {esn.process_noise!r}")
    else:
        number("process_noise", esn.process_noise, 0.0, 1e6, "[]")


def check_classifier(classifier: ReservoirClassifier) -> None:
    """What the classifier has."""
    if not isinstance(classifier.states, str) or classifier.states not in POOLINGS:
        raise ValueError(f"states must be one of {', '.join(map(repr, POOLINGS))}, got {classifier.states!r}")
    check_reservoir(classifier)
    if isinstance(classifier.ridge, (str, tuple, list)) and classifier.ridge != "auto":
        raise ValueError(f"ridge must be a number or 'auto', got {classifier.ridge!r}")
    _check_ridge(classifier.ridge)
    flag("scale", classifier.scale)
    whole_number("washout", classifier.washout, 0)
    whole_number("rank", classifier.rank, 1)
    named_method("moments", classifier.moments)
    forms = [form for form in _COVARIANCES if form != "ensemble"]
    if not isinstance(classifier.covariance, str) or classifier.covariance not in forms:
        raise ValueError(f"covariance must be one of {', '.join(map(repr, forms))}, got {classifier.covariance!r}")


def check_no_plasticity(plasticity: Plasticity | SynapticPlasticity | None) -> None:
    """A ValueError where units that ``fit`` has not tuned are to be tuned: rows that arrive one by one are passed once."""
    if plasticity is not None:
        raise ValueError(f"plasticity must be None for partial_fit before fit, which passes its rows for it, got {plasticity!r}")


def check_no_share(process_noise: ProcessNoise) -> None:
    """A ValueError where a network that ``fit`` has not seen is to have process noise."""
    if process_noise not in ("auto", 0):
        raise ValueError(
            f"process_noise must be 0 or 'auto' before fit, which finds out what it is a share of, got {process_noise!r}"
        )


def generator(random_state: RandomState) -> np.random.Generator:
    """What a call draws from; an integer always gives the same numbers, a RandomState is moved on."""
    try:
        whole = isinstance(random_state, Integral)
        return np.random.default_rng(random_state if whole else check_random_state(random_state).randint(2**31 - 1))
    except (TypeError, ValueError):
        expected = "None, a whole number, 0 or more, or a RandomState"
        raise ValueError(f"random_state must be {expected}, got {random_state!r}") from None


def draw_reservoir(
    esn: ReservoirEstimator | ReservoirClassifier, n_inputs: int, n_outputs: int, rng: np.random.Generator,
    local: Patches | None = None,
) -> Reservoir:  # fmt: skip
    """The reservoir that a network's parameters ask for; one of no units where the readout does not see them."""
    if local is not None:
        local.check_field(n_inputs, n_outputs)
    if not esn.features.states:
        return without_units(n_inputs, n_outputs)
    sizes = n_inputs, n_outputs
    if local is not None:  # of a patch
        sizes = int(local.windows(n_outputs, n_inputs).shape[1]), local.size
    reservoir = draw_layers(
        esn.layers,
        *sizes,
        memory=esn.memory,
        n_units=esn.n_units,
        spectral_radius=esn.spectral_radius,
        leak_rate=esn.leak_rate,
        density=esn.density,
        input_scaling=esn.input_scaling,
        feedback_scaling=esn.feedback_scaling,
        bias_scaling=esn.bias_scaling,
        topology=esn.topology,
        activation=esn.activation,
        rng=rng,
    )
    return reservoir if local is None else repeat(reservoir, local, n_inputs, n_outputs)


def groups_of(esn: ReservoirEstimator) -> Groups | None:
    """Which features each output of a network sees whose reservoir is drawn; None: all of them."""
    if esn.local is None:
        return None
    r = esn.reservoir_
    return esn.local.groups(esn.features, r.n_inputs, r.n_outputs, r.n_units)


def check_learnt(esn: ReservoirEstimator, flat: bool) -> None:
    """A ValueError where a record is damaged or not of this network; ``flat``: whether it says that its y was (n,)."""
    reservoir = esn.reservoir_
    reservoir.check()
    n, d, m = reservoir.n_units, reservoir.n_inputs, reservoir.n_outputs
    esn.features.check("features", n)
    p = esn.features.size(d, n)
    esn.readout_.check("readout_", p, m, least=1 if esn.rls_ is None else 0)
    groups, size = esn.readout_.groups, (p, m)
    if esn.local is not None:
        esn.local.check("local")
    if groups is not None:
        size = groups.n_features, groups.n_outputs
    if (groups is None) != (esn.local is None) or (esn.local is not None and not _same(groups, groups_of(esn))):
        raise ValueError(f"readout_ is not one of local={esn.local!r}")
    if esn.rls_ is not None:
        esn.rls_.check("rls_", *size)
    esn.state_.check("state_", state_shapes(esn.state_, n, m, esn.features.n_earlier(d)))
    if (d, m) != (esn.n_features_in_, esn.n_outputs_) or (flat and m != 1):
        raise ValueError(f"its reservoir has {d} inputs and {m} outputs, not those that it says it was fitted to")
    check_names("feature_names_in_", getattr(esn, "feature_names_in_", None), d, "an array")


def _same(one: Groups | None, other: Groups | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shared == other.shared and all(np.array_equal(a, b) for a, b in zip(one[:2], other[:2], strict=True))


def check_prediction(esn: ReservoirEstimator, **options: bool) -> None:
    """A first call with ``options``, from its own state and from the start: what parameters and arrays do to each other."""
    row = np.zeros((1, esn.n_features_in_))
    _check_trial(esn, lambda trial: (trial.predict(row, state=trial.state_, **options), trial.predict(row, **options)))


def check_classes_learnt(classifier: ReservoirClassifier) -> None:
    """A ValueError where a classifier's record is damaged, not of this classifier, or no good for a prediction."""
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


def _check_trial(model: Any, predict: Callable[[Any], npt.ArrayLike]) -> None:
    """A ValueError unless what it predicts is finite; ``model`` itself is left alone."""
    trial = copy.copy(model)
    trial.random_state = 0  # a RandomState would be moved on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows without names
        found = predict(trial)
    if not np.isfinite(found).all():
        raise ValueError("a trial prediction is not finite")
