"""The echo state network as a scikit-learn estimator: it checks, calls and stores; the mathematics is in the modules below.

>>> import numpy as np
>>> series = np.sin(0.2 * np.arange(1001.0))[:, None]
>>> esn = EchoStateNetwork(50, random_state=0).fit(series[:700], series[1:701])
>>> error = esn.predict(series[700:-1], state=esn.state_) - series[701:]
>>> bool(np.abs(error).max() < 1e-3)
True
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from typing import Any, Literal, Self, overload

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from pesn._support.arguments import FloatArray
from pesn._support.checks import flag, number, whole_number
from pesn._support.progress import Steps, shown
from pesn.activations import Activation, get
from pesn.esn.validation import check_same_order
from pesn.learning.washout import find_washout
from pesn.readout.online import begin, go_on, learn
from pesn.readout.ridge import Readout, least_squares, predict, solve
from pesn.readout.rls import RLSState
from pesn.reservoir.drive import Reservoir, State, draw, run
from pesn.reservoir.sequences import Array, Rows, blocks, features, refuse_gaps, refuse_kind, refuse_short, split
from pesn.reservoir.topology import Topology
from pesn.statespace import ActivationMoments

__all__ = ["EchoStateNetwork", "all_or_nothing"]

_FLOATS = [np.float64, np.float32]
_PLAIN = np.dtype(np.float64), np.dtype(np.float32)
_TRIAL = 2000  # rows from which washout="auto" is found
_LARGEST = 1e100  # of a parameter that is squared and summed


class EchoStateNetwork(MultiOutputMixin, RegressorMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A reservoir of leaky units, tanh by default, with a linear readout, for series: rows are time.

    h_k = (1 − L) h_{k−1} + L tanh(W_in z_k + W_fb y_{k−1} + W h_{k−1} + bias) + M_e w_k,   y_k = W_out [1, z_k, h_k]

    Parameters
    ----------
    n_units
        N, the size of the reservoir.
    spectral_radius, leak_rate, density
        The largest modulus among the eigenvalues of W; L; the share of non-zero weights in W.
    input_scaling, feedback_scaling, bias_scaling
        The largest modulus of the entries of √d W_in (d inputs), W_fb and the bias. With feedback the true outputs are fed
        back in ``fit`` (teacher forcing), the network's own in ``predict``.
    noise
        M_e: standard deviation of the noise added to the states in ``fit``. It makes a network with feedback robust.
    ridge
        Penalty on the weights of the readout, times the number of rows; the intercept is free.
    forgetting, rls_delta
        For ``partial_fit``: the weight of the past falls by ``forgetting`` a row. ``rls_delta=None`` starts from the batch
        solution's own precision (without a batch: P = I / ridge), a number from the paper's P = rls_delta · I.
    washout
        Rows at the start of each sequence that drive the reservoir and are not learnt from. ``"auto"``: until the start moves
        the outputs by less than 0.1 % of their deviation, or a tenth of their residuals'; the number is in ``washout_``.
    random_state
        Seed of the weights and the noise. With an integer, fitting the same data again gives the same weights to the bit.
    activation
        f of the units: a name (``pesn.activations.names()``) or a :class:`pesn.Activation`. Any but tanh is driven row by row,
        many times slower.
    topology
        How the units are connected: ``"random"``; ``"ring"``, each unit enters the next one; a function (n, rng) that gives W,
        scaled to ``spectral_radius``; or W itself (N, N), an array or sparse, taken as it is.
    verbose
        Say on standard error how far ``fit`` is: a bar on a terminal, a line a step elsewhere.

    Attributes
    ----------
    reservoir_, readout_
        The weights: ``readout_.weights`` is W_out, of shape (outputs, 1 + inputs + units).
    state_
        The state after the last row learnt from: ``predict(X, state=esn.state_)`` goes on from there.
    washout_
        Rows that were washed out of each sequence.
    online_predictions_
        Of the last ``partial_fit``: what was predicted for each of its rows *before* that row was learnt from.
    """

    reservoir_: Reservoir
    readout_: Readout
    state_: State
    rls_: RLSState | None
    online_predictions_: FloatArray

    def __init__(
        self,
        n_units: int = 100,
        *,
        spectral_radius: float = 0.9,
        leak_rate: float = 0.5,
        density: float = 0.1,
        input_scaling: float = 0.5,
        feedback_scaling: float = 0.0,
        bias_scaling: float = 0.2,
        noise: float = 0.0,
        ridge: float = 1e-6,
        forgetting: float = 0.999,
        rls_delta: float | None = None,
        washout: Any = 0,
        random_state: Any = None,
        activation: str | Activation = "tanh",
        topology: Topology = "random",
        verbose: bool = False,
    ) -> None:
        self.n_units = n_units
        self.spectral_radius = spectral_radius
        self.leak_rate = leak_rate
        self.density = density
        self.input_scaling = input_scaling
        self.feedback_scaling = feedback_scaling
        self.bias_scaling = bias_scaling
        self.noise = noise
        self.ridge = ridge
        self.forgetting = forgetting
        self.rls_delta = rls_delta
        self.washout = washout
        self.random_state = random_state
        self.activation = activation
        self.topology = topology
        self.verbose = verbose

    # ---------------------------------------------------------------- learning

    def fit(self, X: Any, y: Any, lengths: Any = None) -> Self:
        """Draw a reservoir, drive it with X (n, d) and fit the readout to y, (n,) or (n, m), in one pass.

        Rows go by position. Where X and y are pandas objects, labels that both have must be as many rows apart throughout: none,
        or one where y is the next row of X. ``lengths`` splits the rows into separate sequences, each from the initial state.
        The states are never kept: beside X and y, memory does not grow with n. If anything fails, the estimator is what it was
        before the call: unfitted, or fitted as it was.
        """
        flag("verbose", self.verbose)
        with shown(self.verbose) as steps:
            return self.fit_in_steps(X, y, lengths, steps)

    def fit_in_steps(self, X: Any, y: Any, lengths: Any, steps: Steps) -> Self:
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
        with all_or_nothing(self):
            self._check_parameters()
            rows, targets = self._learn_from(X, y, reset=True, least=2)
            sequences = split(lengths, len(targets))
            rng = self._rng()
            reservoir = self._draw(rng, rows, targets)
            if isinstance(self.washout, str):
                with steps.step("finding the washout"):
                    self.washout_ = self._washout(reservoir, rows, targets, sequences)
            else:
                self.washout_ = self._washout(reservoir, rows, targets, sequences)
            refuse_short(sequences, self.washout_)
            start = state = self._initial_state(reservoir)
            gram = least_squares(1 + reservoir.n_inputs + reservoir.n_units, reservoir.n_outputs, self.ridge)
            with steps.step("driving the reservoir", len(targets), "rows") as advance:
                for sequence in sequences:
                    state = start
                    for block in blocks(sequence):
                        b, state = self._drive(reservoir, rows, block, state, targets, self.noise, rng)
                        washed = max(self.washout_ - (block.start - sequence.start), 0)
                        gram.add(b[washed:], targets[block][washed:])
                        self._watch(b, washed, len(targets))
                        advance(block.stop - block.start)
            with steps.step("least squares"):
                self.readout_ = solve(gram, self.ridge)
            self._conclude(reservoir, rows, targets, sequences, steps)
            self.__dict__.pop("online_predictions_", None)  # of another readout
            self.reservoir_, self.state_, self.rls_, self._to_wash = reservoir, state, None, 0
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Move the readout with each new row, by recursive least squares; the state goes on from the last row learnt from.

        Works without ``fit`` too. No noise is added here. If anything fails, readout and state are what they were.
        """
        first = not self.__sklearn_is_fitted__()
        with all_or_nothing(self):
            self._check_parameters()
            rows, targets = self._learn_from(X, y, reset=first, least=1)
            if first:
                self.reservoir_ = self._draw(self._rng(), rows, targets)
                self.washout_ = self._washout(self.reservoir_, rows, targets, [slice(0, len(targets))])
                self.state_, self._to_wash = self._initial_state(self.reservoir_), self.washout_
                self._begin_online()
                p = 1 + self.reservoir_.n_inputs + self.reservoir_.n_units
                readout, rls = begin(p, self.n_outputs_, self.rls_delta or 1.0 / (self.ridge or 1e-6))
            else:
                readout, rls = (self.readout_, self.rls_) if self.rls_ else go_on(self.readout_, self.rls_delta)
            predictions, rng = np.empty(targets.shape), self._draws()
            for block in blocks(slice(0, len(targets))):
                b, self.state_ = self._drive(self.reservoir_, rows, block, self.state_, targets, 0.0, rng)
                outputs, y, washed = predictions[block], targets[block], min(self._to_wash, len(b))
                self._to_wash -= washed
                if washed:
                    outputs[:washed] = predict(readout, b[:washed])
                outputs[washed:], readout, rls = learn(readout, rls, b[washed:], y[washed:], self.forgetting)
            self.readout_, self.rls_ = readout, rls
            self.online_predictions_ = self._as_given(predictions, rows)
        return self

    # ---------------------------------------------------------------- using

    @overload
    def predict(self, X: Any, lengths: Any = None, state: Any = None, return_state: Literal[False] = False) -> FloatArray: ...
    @overload
    def predict(
        self, X: Any, lengths: Any = None, state: Any = None, *, return_state: Literal[True]
    ) -> tuple[FloatArray, Any]: ...
    @overload
    def predict(self, X: Any, lengths: Any = None, state: Any = None, return_state: bool = False) -> Any: ...

    def predict(self, X: Any, lengths: Any = None, state: Any = None, return_state: bool = False) -> Any:
        """Outputs for each row of X, (n,) or (n, m) as y was, from the initial state or from ``state``.

        With ``return_state`` the result is (outputs, state), and ``predict(more, state=state)`` goes on as if there had been
        one call, to the bit, with feedback too. With ``lengths``, ``state`` is a list with one state for each sequence,
        and the sequences run in parallel threads.
        """
        flag("return_state", return_state)
        self._refuse_unfitted()
        rows = self._rows(X)
        outputs = np.empty((len(rows.mean), self.n_outputs_))

        def drive(sequence: slice, current: State) -> State:
            for block in blocks(sequence):
                _, outputs[block], current = run(self.reservoir_, rows.take(block)[0], current, readout=self.readout_.weights)
            return current

        ends = _in_threads(drive, self._starts(lengths, state, len(outputs)))
        result = self._as_given(outputs, rows)
        return (result, ends if lengths is not None else ends[0]) if return_state else result

    def transform(self, X: Any, lengths: Any = None) -> Any:
        """The states of the reservoir, (n, n_units), from the initial state; with feedback, of its own outputs.

        ``lengths`` splits the rows into separate sequences, as in ``predict``.
        """
        check_is_fitted(self)
        rows = self._rows(X)
        states = np.empty((len(rows.mean), self.reservoir_.n_units), dtype=rows.mean.dtype)
        rng = self._draws()

        def drive(sequence: slice, current: State) -> State:
            for block in blocks(sequence):
                states[block], current = self._states(rows, block, current, rng)
            return current

        _in_threads(drive, self._starts(lengths, None, len(states)), parallel=rng is None)
        return states

    def fit_transform(self, X: Any, y: Any = None, lengths: Any = None) -> Any:
        """``fit`` and then ``transform``, with the same ``lengths``."""
        return self.fit(X, y, lengths).transform(X, lengths)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, lengths: Any = None) -> float:
        """R² of ``predict(X, lengths=lengths)``, as for every regressor of scikit-learn."""
        return float(r2_score(y, self.predict(X, lengths=lengths), sample_weight=sample_weight))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file that ``pesn.load`` reads; no code is stored, and an old file is replaced whole."""
        from pesn.persistence import save  # here, not above: it knows every estimator

        save(self, path)

    # ---------------------------------------------------------------- what the probabilistic network does in its own way

    def _initial_state(self, reservoir: Reservoir) -> State:
        return State(np.zeros(reservoir.n_units), None, np.zeros(reservoir.n_outputs), None)

    def _beginning(self) -> Any:
        """Where ``predict`` starts without a state."""
        return self._initial_state(self.reservoir_)

    def _drive(
        self, reservoir: Reservoir, rows: Rows, block: slice, state: State, targets: Array, noise: float, rng: Any
    ) -> tuple[Array, State]:
        """Features of a block of rows, the true outputs fed back; ``rng`` draws the noise."""
        z, _ = rows.take(block)
        states, _, state = run(reservoir, z, state, feedback=targets[block], noise=noise, rng=rng)
        return features(z, states), state

    def _watch(self, b: Array, washed: int, n_rows: int) -> None:
        """Look at the features of a block while they are there."""

    def _conclude(self, reservoir: Reservoir, rows: Rows, targets: Array, sequences: list[slice], steps: Steps) -> None:
        """Learn what else is to be learnt, once there is a readout."""

    def _begin_online(self) -> None:
        """Go without what only ``fit`` learns."""

    def _draws(self) -> Any:
        """What a call other than ``fit`` draws from: nothing here."""
        return None

    def _states(self, rows: Rows, block: slice, state: State, rng: Any) -> tuple[Array, State]:
        states, _, state = run(self.reservoir_, rows.take(block)[0], state, readout=self.readout_.weights)
        return states, state

    def _rows(self, X: Any) -> Rows:
        if not self._is_plain(X):
            refuse_kind("X", X)
            X = validate_data(self, X, reset=False, dtype=_FLOATS, ensure_all_finite=False)
        refuse_gaps("X", X)
        return Rows(X)

    # ---------------------------------------------------------------- checking and keeping

    def _check_parameters(self) -> None:
        """All that a reservoir does not check itself when it is drawn."""
        if isinstance(self.washout, str):
            if self.washout != "auto":
                raise ValueError(f"washout must be a number of rows or 'auto', got {self.washout!r}")
        else:
            whole_number("washout", self.washout, 0)
        number("noise", self.noise, 0.0, _LARGEST, "[]")
        number("ridge", self.ridge, 0.0, _LARGEST, "[]")
        if 0.0 < self.ridge < 1.0 / _LARGEST:
            raise ValueError(f"ridge must be 0 or lie in [{1.0 / _LARGEST:g}, {_LARGEST:g}], got {self.ridge!r}")
        number("forgetting", self.forgetting, 0.0, 1.0, "(]")
        if self.rls_delta is not None:
            number("rls_delta", self.rls_delta, 1.0 / _LARGEST, _LARGEST, "[]")

    def _washout(self, reservoir: Reservoir, rows: Rows, targets: Array, sequences: list[slice]) -> int:
        """The number of rows; "auto" finds it on the first rows of the longest sequence, never more than half of the shortest."""
        if self.washout != "auto":
            return int(self.washout)
        longest = max(sequences, key=lambda rows: rows.stop - rows.start)
        part = slice(longest.start, min(longest.stop, longest.start + _TRIAL))
        found = find_washout(
            reservoir, ActivationMoments(get(reservoir.activation)), rows.take(part)[0], targets[part], self.ridge
        )
        return int(min(found, min(rows.stop - rows.start for rows in sequences) // 2))

    def _learn_from(self, X: Any, y: Any, reset: bool, least: int) -> tuple[Rows, Array]:
        """Rows and targets (n, m) in float64, checked; what y looked like is kept for the outputs."""
        if reset or not self._is_plain(X, y):
            refuse_kind("X", X)
            refuse_kind("y", y)
            check_same_order(X, y)
            plain = {"dtype": _FLOATS, "ensure_all_finite": False, "ensure_min_samples": least, "estimator": self}
            X, y = validate_data(self, X, y, reset=reset, validate_separately=(plain, {**plain, "ensure_2d": False}))
            check_consistent_length(X, y)
        refuse_gaps("X", X)
        refuse_gaps("y", y)
        targets = np.ascontiguousarray(y.reshape(len(y), -1), dtype=np.float64)
        if reset:
            self.n_outputs_, self._y_is_flat = targets.shape[1], y.ndim == 1
        elif targets.shape[1] != self.n_outputs_:
            raise ValueError(f"y must have {self.n_outputs_} columns, as at the first fit, got {targets.shape[1]}")
        return Rows(X), targets

    def _is_plain(self, X: Any, *targets: Any) -> bool:
        """Whether scikit-learn's checks, which take longer than to learn a row, would find nothing and change nothing.

        Arrays of NumPy alone, in rows as wide as in ``fit``, and no names of columns to compare.
        """
        if type(X) is not np.ndarray or X.dtype not in _PLAIN or X.ndim != 2 or "feature_names_in_" in vars(self):
            return False
        if len(X) == 0 or X.shape[1] != self.n_features_in_ or X.shape[1] == 0:
            return False
        for y in targets:
            if type(y) is not np.ndarray or y.dtype not in _PLAIN or y.ndim not in (1, 2) or len(y) != len(X) or y.size == 0:
                return False
        return True

    def _refuse_unfitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)  # says so, but takes longer than a row to find out

    def _as_given(self, outputs: Array, rows: Rows) -> Any:
        """Outputs in the shape of y and the precision of X."""
        return (outputs[:, 0] if self._y_is_flat else outputs).astype(rows.mean.dtype, copy=False)

    def _rng(self) -> np.random.Generator:
        seed = self.random_state
        try:
            whole = isinstance(seed, Integral)
            return np.random.default_rng(seed if whole else check_random_state(seed).randint(2**31 - 1))
        except (TypeError, ValueError):
            raise ValueError(f"random_state must be None, a whole number, 0 or more, or a RandomState, got {seed!r}") from None

    def _starts(self, lengths: Any, state: Any, n_rows: int) -> list[tuple[slice, State]]:
        """Each sequence with the state that it starts from."""
        sequences = split(lengths, n_rows)
        if state is None:
            return [(sequence, self._beginning()) for sequence in sequences]
        several = lengths is not None and isinstance(state, Sequence) and not isinstance(state, State)
        states = list(state) if several else [state]
        if several != (lengths is not None) or not all(isinstance(given, State) for given in states):
            kind = "what return_state=True gave" if lengths is None else "a list of what return_state=True gave"
            raise TypeError(f"state must be {kind}, got {type(state).__name__}")
        if len(states) != len(sequences):
            raise ValueError(f"state must hold one state for each of the {len(sequences)} sequences, got {len(states)}")
        for given in states:
            self._refuse_state(given)
        return list(zip(sequences, states, strict=True))

    def _refuse_state(self, given: State) -> None:
        found = np.shape(given.mean), () if given.output is None else np.shape(given.output)
        wanted = (self.reservoir_.n_units,), (self.n_outputs_,)
        if found != wanted:
            raise ValueError(f"state must be of this network, with shapes {wanted} of units and outputs, got {found}")

    def _draw(self, rng: np.random.Generator, rows: Rows, targets: Array) -> Reservoir:
        return draw(
            self.n_units,
            rows.mean.shape[1],
            targets.shape[1],
            spectral_radius=self.spectral_radius,
            leak_rate=self.leak_rate,
            density=self.density,
            input_scaling=self.input_scaling,
            feedback_scaling=self.feedback_scaling,
            bias_scaling=self.bias_scaling,
            topology=self.topology,
            activation=self.activation,
            rng=rng,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "readout_")  # n_features_in_ comes earlier, and would pass for a fit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.reservoir_.n_units)


def _in_threads(drive: Callable[[slice, State], State], starts: list[tuple[slice, State]], parallel: bool = True) -> list[State]:
    """Drive each sequence from its state, several in parallel: the kernels hold no lock. Where each has stopped, in order."""
    if len(starts) == 1 or not parallel:
        return [drive(*start) for start in starts]
    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as pool:
        return list(pool.map(drive, *zip(*starts, strict=True)))


class all_or_nothing:  # noqa: N801  # reads as what it does: with all_or_nothing(estimator)
    """Put every attribute back where an error leaves the block: what is stored is replaced, never changed in place."""

    def __init__(self, estimator: BaseEstimator) -> None:
        self.attributes = vars(estimator)
        self.before = dict(self.attributes)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.attributes.clear()
            self.attributes.update(self.before)
