"""Online learning: ``partial_fit``, FORCE, and a compiled stepper for control loops.

>>> import numpy as np, pesn
>>> series = np.sin(0.2 * np.arange(1001.0))[:, None]
>>> esn = pesn.EchoStateNetwork(50, random_state=0).fit(series[:500], series[1:501])
>>> stepper = esn.online()
>>> for x, y in zip(series[500:-1], series[501:]):
...     predicted = stepper.step(x)  # made before y is known
...     stepper.learn(y)
>>> esn = stepper.finish()  # the network continues from here
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, final, overload

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, kernel_array, whole_number
from pesn._support.progress import Advance, ignore_progress
from pesn._support.types import Array
from pesn.esn.training import Drive, certain_drive
from pesn.esn.validation import TrainingRows
from pesn.readout import rls as rls_readout
from pesn.readout.features import Features
from pesn.readout.ridge import Readout, predict
from pesn.readout.rls import RLSState, effective_rows, recursion
from pesn.reservoir.drive import State, is_compiled, kernel_rotation, kernel_weights, run
from pesn.reservoir.sequences import blocks
from pesn.reservoir.weights import Reservoir

if TYPE_CHECKING:
    from pesn.esn.base import ReservoirEstimator


class Learner:
    """Online learning in arrays that are allocated once and updated in place; the initial recursion is not changed.

    Parameters
    ----------
    reservoir : Reservoir
        Weights of the units.
    features : Features
        Features of the readout.
    start : Online
        Recursion to start from.
    forgetting : float
        Forgetting factor λ of recursive least squares.
    own : bool
        Whether predicted outputs are fed back while learning (FORCE), not the true ones.
    """

    def __init__(self, reservoir: Reservoir, features: Features, start: Online, forgetting: float, own: bool) -> None:
        from pesn._support.intrinsics import fill_table  # lazy imports: numba is slow to import
        from pesn.reservoir import kernels as kernel

        self.kernel, self.reservoir, self.features, self.start = kernel, reservoir, features, start
        n, d, (m, p) = reservoir.n_units, reservoir.n_inputs, start.readout.weights.shape
        self.rls = recursion(start.rls, forgetting)
        self.x, self.target, self.out, self.std = np.empty(d), np.empty(m), np.empty(m), np.empty(m)
        self.b, self.y, work = np.empty(p), np.empty(m), np.empty((2, p + 4))
        self.residual_cov = np.array(start.readout.residual_cov, float)
        n_samples = start.readout.n_samples
        self.numbers = np.array([forgetting, self.rls.scale, effective_rows(n_samples, forgetting)])
        fed = kernel.OWN if own else kernel.TEACHER
        net = kernel_weights(reservoir)
        self.compiled = not n or (is_compiled(reservoir) and net[1].dtype == np.uint16)  # type of the columns in the table
        self.rotation = kernel_rotation(reservoir) if self.compiled else None
        self.largest = 1e50 if features.products else 1e100  # largest input: squares must stay in the range of floats
        counts = n_samples, 0, 0, 0, features.lags, features.products, fed, n if self.compiled else 0
        self.counts = np.array([*self.rls.clock, *counts])
        self.restart(start.state, start.to_wash)
        weights, prior = self.rls.weights, (self.rls.prior_weights, self.rls.prior_root)
        self._arrays = (  # kept, because the table holds addresses only
            self.counts, self.numbers, self.x, self.b, self.y, self.out, self.target, self.std, work,
            weights, self.rls.root, *prior, self.residual_cov, *net,
        )  # fmt: skip
        self.table = np.empty((kernel.SIZE, 3), np.int64)
        fill_table(self.table, self._arrays)

    def restart(self, state: State, to_wash: int) -> None:
        """Start a sequence at the means of ``state``, with ``to_wash`` rows of washout."""
        n, earlier = self.reservoir.n_units, self.features.n_earlier(self.reservoir.n_inputs)
        p, b = self.rls.weights.shape[1], self.b
        b[:] = 0.0
        b[0], b[p - n : p] = 1.0, state.mean
        if state.past is not None:
            b[1 : 1 + earlier] = state.past
        self.y[:] = 0.0 if state.output is None else state.output
        kernel = self.kernel
        self.counts[[kernel.TO_WASH, kernel.BEGUN, kernel.LEARNS]] = to_wash, state.past is not None or not earlier, 0

    @property
    def state(self) -> State:
        """State of the sequence."""
        n, p, kernel = self.reservoir.n_units, self.rls.weights.shape[1], self.kernel
        earlier = self.features.n_earlier(self.reservoir.n_inputs)
        past = self.b[1 : 1 + earlier].copy() if earlier and self.counts[kernel.BEGUN] else None
        return State(self.b[p - n : p].copy(), None, self.y.copy(), None, past=past)

    def move(self) -> None:
        """Move units without a compiled loop by the row in ``x``; ``step`` does the rest."""
        x, state = self.x[None], self.state
        if not np.all(np.abs(x) < self.largest):
            return  # step refuses it
        h = run(self.reservoir, x, state, feedback=self.y[None])[2].mean
        p = self.rls.weights.shape[1]
        self.b[p - len(h) : p] = h

    def follow(self, X: Array, Y: Array, features: bool = False) -> tuple[Array, Array]:
        """Predict each row of X (T, d) before its Y (T, m) is learned; return predictions (T, m) and, if wanted, the features."""
        predictions = np.empty(Y.shape)
        seen = np.empty((len(X), self.rls.weights.shape[1]) if features else (0, 0))
        if self.compiled:
            wrong = self.kernel.follow(self.table, self.rotation, kernel_array(X), kernel_array(Y), predictions, seen)
        else:
            wrong = self._row_by_row(X, Y, predictions, seen)
        if wrong:
            raise ValueError("partial_fit left the range of float64 numbers; scale X and y to about 1")
        return predictions, seen

    def _row_by_row(self, X: Array, Y: Array, predictions: Array, seen: Array) -> int:
        """Do the same for units without a compiled loop."""
        for k, (x, y) in enumerate(zip(X, Y, strict=True)):
            self.x[:] = x
            self.move()
            wrong = int(self.kernel.step(self.table, self.rotation))
            predictions[k], self.target[:] = self.out, y
            if seen.size:
                seen[k] = self.b[: seen.shape[1]]
            wrong = wrong or int(self.kernel.learn(self.table))
            if wrong:
                return wrong
        return 0

    def result(self, last: bool = False) -> Online:
        """Return the recursion, in new arrays; the ``last`` result takes those of this learner, which ends it."""
        kernel, readout, now = self.kernel, self.start.readout, self.rls
        state, to_wash = self.state, int(self.counts[kernel.TO_WASH])
        samples = int(self.counts[kernel.SAMPLES])
        if samples == readout.n_samples:
            return self.start._replace(state=state, to_wash=to_wash)
        now = now._replace(clock=self.counts[:4])
        if not last:
            now = now._replace(root=now.root.copy(), weights=now.weights.copy())
        rls = now.state(self.start.rls)
        return type(self.start)(Readout(rls.weights, self.residual_cov.copy(), rls.root, samples), rls, state, to_wash)


class Online(NamedTuple):
    """Recursion of online learning: the readout, its recursive least squares, the state, and the rows of washout left."""

    readout: Readout
    rls: RLSState
    state: State
    to_wash: int


def start_empty(esn: ReservoirEstimator) -> Online:
    """Return the recursion of an untrained network: P = ``rls_delta`` · I, or I / ``ridge``, the second of a pair."""
    ridge, reservoir = float(np.ravel(esn.ridge_)[-1]), esn.reservoir_
    n_features = esn.features.size(reservoir.n_inputs, reservoir.n_units)
    delta = esn.rls_delta or 1.0 / (ridge or 1e-6)
    readout, rls = rls_readout.start_empty(n_features, reservoir.n_outputs, delta, esn.groups, esn.rls_prior)
    return Online(readout, rls, esn.initial(), esn.washout_)


def learn(esn: ReservoirEstimator, given: TrainingRows, at: Online) -> tuple[Array, Online]:
    """Learn rows online; return the predictions (n, m) made before each, and the recursion. No noise is drawn."""
    certain = esn.feedback == "own" or (esn.noise == 0.0 and given.inputs.var is None and at.state.is_certain)
    if esn.takes_gaussians and not certain:
        return learn_online(esn.drive(), given, at, esn.forgetting)
    if esn.feedback != "own" or at.readout.groups is not None:  # units do not depend on the weights that are learned
        return learn_online(certain_drive(esn.reservoir_, esn.features), given, at, esn.forgetting)
    return learn_rows(esn, given, at)


def learn_online(drive: Drive, given: TrainingRows, at: Online, forgetting: float) -> tuple[Array, Online]:
    """Learn rows online with any drive; return the predictions (n, m) made before each, and the recursion."""
    predictions = np.empty(given.targets.shape)
    readout, rls, state, to_wash = at
    for block in blocks(slice(0, len(given.targets))):
        b, state = drive(*given.inputs.take(block), state, given.targets[block])
        outputs, y, washed = predictions[block], given.targets[block], min(to_wash, len(b))
        to_wash -= washed
        if washed:
            outputs[:washed] = predict(readout, b[:washed])
        outputs[washed:], readout, rls = rls_readout.update(readout, rls, b[washed:], y[washed:], forgetting)
    return predictions, Online(readout, rls, state, to_wash)


def learn_rows(
    esn: ReservoirEstimator,
    given: TrainingRows,
    at: Online,
    advance: Advance = ignore_progress,
    watch: Callable[[Array, int], None] | None = None,
) -> tuple[Array, Online]:
    """Learn certain rows online from certain states, in one compiled loop, with feedback of the predicted outputs.

    This is FORCE learning (Sussillo and Abbott, 2009): each output is predicted by the current weights and fed back, then the
    weights are updated. Each sequence starts from the state of ``at``; ``watch`` receives the features of each block and the
    number of its rows that belong to the washout.
    """
    learner = Learner(esn.reservoir_, esn.features, at, esn.forgetting, own=True)
    predictions = np.empty(given.targets.shape)
    for place, sequence in enumerate(given.sequences):
        if place:
            learner.restart(at.state, at.to_wash)
        for block in blocks(sequence):
            predictions[block], b = learner.follow(given.inputs.take(block)[0], given.targets[block], watch is not None)
            if watch is not None:
                watch(b, max(at.to_wash - (block.start - sequence.start), 0))
            advance(block.stop - block.start)
    return predictions, learner.result(last=True)


_DOUBLE = np.dtype(np.float64)


@final
class Stepper:
    """Network that predicts and learns one row at a time, each in one compiled call; ``online()`` of the networks returns it.

    It has its own arrays: the network does not change until :meth:`finish` stores the result in it. ``step`` and ``learn`` do
    with a row what ``partial_fit`` does. A row that is refused, for example for a NaN, changes nothing.

    Parameters
    ----------
    learner : Learner
        Arrays that are updated.
    network : ReservoirEstimator
        Network that :meth:`finish` stores the result in.
    learned : ReservoirEstimator
        Copy of it, in which an untrained network is initialized.
    """

    def __init__(self, learner: Learner, network: ReservoirEstimator, learned: ReservoirEstimator) -> None:
        self._learner, self._network, self._learned, self._last_result = learner, network, learned, _learning(network)
        self._x_shape, self._y_shape = learner.x.shape, learner.target.shape
        self._prediction, self._std = learner.out.view(), learner.std.view()
        self._prediction.flags.writeable = self._std.flags.writeable = False
        kernel = learner.kernel
        # looked up once, not at every row
        self._x, self._target, self._own = learner.x, learner.target, not learner.compiled
        self._step, self._learn, self._table, self._rotation = kernel.step, kernel.learn, learner.table, learner.rotation

    @overload
    def step(self, x: npt.ArrayLike, return_std: Literal[False] = False) -> Array: ...
    @overload
    def step(self, x: npt.ArrayLike, return_std: Literal[True]) -> tuple[Array, Array]: ...

    def step(self, x: npt.ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Drive the network by one row and predict.

        With feedback the prediction is fed back at the next row, unless ``learn`` provides the true output and the network learns
        from a teacher.

        Parameters
        ----------
        x : array-like of shape (n_inputs,)
            Row; float64 arrays are fastest.
        return_std : bool, default=False
            Whether to return standard deviations √(R (1 + bᵀ P b)), of the residuals so far and of the weights. This takes a
            third of the time of learning a row.

        Returns
        -------
        prediction : ndarray of shape (n_outputs,)
            Read-only, **overwritten by the next step**: copy what you keep.
        std : ndarray of shape (n_outputs,)
            With ``return_std``, read-only and overwritten as well.
        """
        if type(x) is not np.ndarray or x.dtype is not _DOUBLE or x.shape != self._x_shape:
            x = _vector("x", x, self._x_shape)
        self._x[:] = x
        if self._own:
            self._learner.move()
        if self._step(self._table, self._rotation):
            _refuse("x", self._x, self._learner.largest)
        if not return_std:
            return self._prediction
        self._learner.kernel.deviations(self._table)
        return self._prediction, self._std

    def learn(self, y: npt.ArrayLike) -> None:
        """Learn the true output of the last step, by recursive least squares with ``forgetting``.

        Not every row needs to be learned; during the washout nothing is. With feedback from a teacher, y is fed back next.

        Parameters
        ----------
        y : array-like of shape (n_outputs,)
            True output; a number if there is one output.
        """
        if type(y) is not np.ndarray or y.dtype is not _DOUBLE or y.shape != self._y_shape:
            y = _vector("y", y, self._y_shape)
        self._target[:] = y
        wrong = self._learn(self._table)
        if wrong:
            self._explain(wrong)

    def finish(self) -> ReservoirEstimator:
        """Store readout, recursion and state in the network: ``partial_fit``, ``predict`` and ``save`` continue from here.

        The stepper can be used further, and finished again.

        Returns
        -------
        ReservoirEstimator
            The network that ``online()`` was called on.

        Raises
        ------
        ValueError
            If the network itself has learned rows since, which would be undone.
        """
        network, learned = self._network, self._learned
        if any(one is not other for one, other in zip(self._last_result, _learning(network), strict=True)):
            raise ValueError("the network has learned other rows since online() was called; finish would undo that")
        learned.adopt(self._learner.result())
        parameters = network.get_params(deep=False)
        network.__dict__.update({name: value for name, value in vars(learned).items() if name not in parameters})
        self._last_result = _learning(network)
        return network

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # its table holds addresses, which are invalid in a copy
        raise TypeError("a stepper can be neither copied nor pickled; copy or save the network that finish() gives")

    def _explain(self, wrong: int) -> None:
        """Raise the ValueError of an error code."""
        kernel = self._learner.kernel
        if wrong == kernel.NOT_FINITE:
            _refuse("y", self._target, 1e100)
        if wrong == kernel.NOTHING_TO_LEARN:
            raise ValueError("learn must follow a step: there is no row, or the last one has been learned from")
        raise ValueError(
            "learn left the range of float64 numbers; scale x and y to about 1, and start again from the network, which is "
            "what it was, by online()"
        )


def _learning(network: ReservoirEstimator) -> tuple[object, object]:
    """Return the attributes that are replaced whenever a network learns."""
    return getattr(network, "readout_", None), getattr(network, "state_", None)


def open_stepper(esn: ReservoirEstimator, n_inputs: int | None, n_outputs: int | None) -> Stepper:
    """Return a stepper of a network; see ``online`` of the networks."""
    own = copy.copy(esn)  # the network itself does not change before finish
    own.check_parameters()
    if esn.takes_gaussians and esn.noise > 0.0:
        raise ValueError(f"noise must be 0 for online(), which follows the means alone, got {esn.noise!r}; use partial_fit")
    if esn.local is not None:
        raise ValueError("a stepper needs a network without local, got a local one; partial_fit learns row by row, too")
    if esn.__sklearn_is_fitted__():
        for name, given, known in (("n_inputs", n_inputs, esn.n_features_in_), ("n_outputs", n_outputs, esn.n_outputs_)):
            if given is not None and given != known:
                raise ValueError(f"{name} must be {known}, as the network has learned, or left out, got {given!r}")
        start = own.resume_online()
    else:
        if n_inputs is None or n_outputs is None:
            raise ValueError("n_inputs and n_outputs must be given for a network that has learned nothing; or call fit first")
        whole_number("n_inputs", n_inputs, 1)
        whole_number("n_outputs", n_outputs, 1)
        own.n_features_in_ = int(n_inputs)
        start = own.begin_online(int(n_inputs), int(n_outputs))
    learner = Learner(own.reservoir_, own.features, start, own.forgetting, own.feedback == "own")
    return Stepper(learner, esn, own)


def _vector(name: str, value: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    array = as_real(name, value)
    if array.shape != shape and not (array.shape == () and shape == (1,)):
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return np.asarray(array, np.float64)


def _refuse(name: str, values: Array, largest: float) -> None:
    place = int(np.argmax(~(np.abs(values) < largest)))
    raise ValueError(f"{name} must be finite and below {largest:g}, got {values[place]} at index {place}")
