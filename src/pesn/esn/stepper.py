"""A network that goes row by row at the speed of its compiled step: predict, then learn, with nothing checked or made twice.

>>> import numpy as np, pesn
>>> series = np.sin(0.2 * np.arange(1001.0))[:, None]
>>> esn = pesn.EchoStateNetwork(50, random_state=0).fit(series[:500], series[1:501])
>>> stepper = esn.online()
>>> for x, y in zip(series[500:-1], series[501:]):
...     predicted = stepper.step(x)  # made before y is known
...     stepper.learn(y)
>>> esn = stepper.finish()  # the network goes on from here
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Literal, NoReturn, final, overload

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real
from pesn._support.checks import whole_number
from pesn._support.types import Array
from pesn.esn.learner import Learner
from pesn.esn.validation import check_fitted

if TYPE_CHECKING:
    from pesn.esn.estimator import ReservoirEstimator

__all__ = ["Stepper", "open_stepper"]

_DOUBLE = np.dtype(np.float64)


@final
class Stepper:
    """A network that predicts and learns a row at a time, each in one compiled call: what ``online()`` of the networks gives.

    It has arrays of its own: the network stays what it was until :meth:`finish` writes into it what was learnt. ``step`` and
    ``learn`` are what ``partial_fit`` does with a row. A row that is refused, for a NaN for example, leaves all as it was.

    Parameters
    ----------
    learner
        The arrays that move.
    network
        What :meth:`finish` writes into.
    learnt
        A copy of it, that what is learnt passes through: a network that has learnt nothing is begun here.
    """

    def __init__(self, learner: Learner, network: ReservoirEstimator, learnt: ReservoirEstimator) -> None:
        self._learner, self._network, self._learnt, self._begun = learner, network, learnt, _learning(network)
        self._x_shape, self._y_shape = learner.x.shape, learner.target.shape
        self._prediction, self._std = learner.out.view(), learner.std.view()
        self._prediction.flags.writeable = self._std.flags.writeable = False
        kernel = learner.kernel
        # bound here, not looked up at every row
        self._x, self._target, self._own = learner.x, learner.target, not learner.compiled
        self._step, self._learn, self._table = kernel.step, kernel.learn, learner.table

    @overload
    def step(self, x: npt.ArrayLike, return_std: Literal[False] = False) -> Array: ...
    @overload
    def step(self, x: npt.ArrayLike, return_std: Literal[True]) -> tuple[Array, Array]: ...
    @overload
    def step(self, x: npt.ArrayLike, return_std: bool) -> Array | tuple[Array, Array]: ...

    def step(self, x: npt.ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Drive the network by a row and predict.

        With feedback the prediction is what the next row is fed, unless ``learn`` is told better and the network learns from a
        teacher.

        Parameters
        ----------
        x
            One row, (d,); float64 arrays are taken fastest.
        return_std
            Whether deviations (m,) come second: √(R (1 + bᵀ P b)), of the residuals so far and of the weights. It takes a third
            of the time of learning a row.

        Returns
        -------
        prediction
            (m,), read-only, **overwritten by the next step**: copy what you keep.
        std
            With ``return_std``, (m,), read-only and overwritten as well.
        """
        if type(x) is not np.ndarray or x.dtype is not _DOUBLE or x.shape != self._x_shape:
            x = _vector("x", x, self._x_shape)
        self._x[:] = x
        if self._own:
            self._learner.move()
        if self._step(self._table):
            _refuse("x", self._x, self._learner.largest)
        return (self._prediction, self._deviations()) if return_std else self._prediction

    def learn(self, y: npt.ArrayLike) -> None:
        """Learn what should have been put out for the row just stepped, by recursive least squares with ``forgetting``.

        Rows need not be learnt from; in the washout nothing is learnt. With feedback from a teacher y is what is fed back next.

        Parameters
        ----------
        y
            (m,), or a number where there is one output.
        """
        if type(y) is not np.ndarray or y.dtype is not _DOUBLE or y.shape != self._y_shape:
            y = _vector("y", y, self._y_shape)
        self._target[:] = y
        wrong = self._learn(self._table)
        if wrong:
            self._explain(wrong)

    def finish(self) -> ReservoirEstimator:
        """Write readout, recursion and state into the network, so that ``partial_fit``, ``predict`` and ``save`` go on from here.

        The stepper can be used further, and finished again.

        Returns
        -------
        network
            The network that ``online()`` was called on.

        Raises
        ------
        ValueError
            Where the network itself has learnt since, which would be undone.
        """
        network, learnt = self._network, self._learnt
        if any(one is not other for one, other in zip(self._begun, _learning(network), strict=True)):
            raise ValueError("the network has learnt other rows since online() was called; finish would undo that")
        learnt.adopt(self._learner.result())
        parameters = network.get_params(deep=False)
        network.__dict__.update({name: value for name, value in vars(learnt).items() if name not in parameters})
        self._begun = _learning(network)
        return network

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # its table holds addresses, which mean nothing in a copy
        raise TypeError("a stepper can be neither copied nor pickled; copy or save the network that finish() gives")

    def _deviations(self) -> Array:
        self._learner.deviations()
        return self._std

    def _explain(self, wrong: int) -> None:
        kernel = self._learner.kernel
        if wrong == kernel.NOT_FINITE:
            _refuse("y", self._target, 1e100)
        if wrong == kernel.NOTHING_TO_LEARN:
            raise ValueError("learn must follow a step: there is no row, or the last one has been learnt from")
        raise ValueError(
            "learn left the range of float64 numbers; scale x and y to about 1, and start again from the network, which is "
            "what it was, by online()"
        )


def _learning(network: ReservoirEstimator) -> tuple[object, object]:
    """What is replaced whenever a network learns."""
    return getattr(network, "readout_", None), getattr(network, "state_", None)


def open_stepper(esn: ReservoirEstimator, n_inputs: int | None, n_outputs: int | None) -> Stepper:
    """See ``online`` of the networks."""
    own = copy.copy(esn)  # the network itself is not changed before finish
    own.check_online()
    if esn.local is not None:
        raise ValueError("a stepper needs a network without local, got a local one; partial_fit learns row by row, too")
    if esn.__sklearn_is_fitted__():
        for name, given, known in (("n_inputs", n_inputs, esn.n_features_in_), ("n_outputs", n_outputs, esn.n_outputs_)):
            if given is not None and given != known:
                raise ValueError(f"{name} must be {known}, as the network has learnt, or left out, got {given!r}")
        check_fitted(esn)
        begun = own.resumed()
    else:
        if n_inputs is None or n_outputs is None:
            raise ValueError("n_inputs and n_outputs must be given for a network that has learnt nothing; or call fit first")
        whole_number("n_inputs", n_inputs, 1)
        whole_number("n_outputs", n_outputs, 1)
        own.n_features_in_ = int(n_inputs)
        begun = own.begin(int(n_inputs), int(n_outputs))
    learner = Learner(own.reservoir_, own.features, begun, own.forgetting, own.feedback == "own")
    return Stepper(learner, esn, own)


def _vector(name: str, value: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    array = as_real(name, value)
    if array.shape != shape and not (array.shape == () and shape == (1,)):
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return np.asarray(array, np.float64)


def _refuse(name: str, values: Array, largest: float) -> None:
    place = int(np.argmax(~(np.abs(values) < largest)))
    raise ValueError(f"{name} must be finite and below {largest:g}, got {values[place]} at index {place}")
