"""The echo state network as a scikit-learn estimator: it checks, calls and stores; the mathematics is in the modules below.

>>> import numpy as np
>>> series = np.sin(0.2 * np.arange(1001.0))[:, None]
>>> esn = EchoStateNetwork(50, random_state=0).fit(series[:700], series[1:701])
>>> error = esn.predict(series[700:-1], state=esn.state_) - series[701:]
>>> bool(np.abs(error).max() < 1e-3)
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pesn._support.arguments import flag
from pesn._support.types import FloatArray, Lengths, TableLike
from pesn.esn.base import ReservoirEstimator
from pesn.esn.training import Drive, deterministic, in_threads
from pesn.esn.validation import States, as_given, as_rows, check_fitted, check_network, starts
from pesn.readout.features import Features
from pesn.reservoir.drive import State, chunks, in_lockstep, read, run_stacked, widened
from pesn.reservoir.sequences import BLOCK, Array, Rows, blocks
from pesn.reservoir.weights import Reservoir


@final
@dataclass(eq=False, repr=False, kw_only=True)
class EchoStateNetwork(ReservoirEstimator):
    """A reservoir of leaky units, tanh by default, with a linear readout, for series: rows are time.

    h_k = (1 − L) h_{k−1} + L tanh(W_in z_k + W_fb y_{k−1} + W h_{k−1} + bias) + M_e w_k,   y_k = W_out [1, z_k, h_k]

    Parameters
    ----------
    n_units
        N, the size of the reservoir.
    spectral_radius, leak_rate, density
        The largest modulus among the eigenvalues of W; L, a number or one for each unit (N,); the share of non-zero weights in W.
    input_scaling, feedback_scaling, bias_scaling
        The largest modulus of the entries of √d W_in (d inputs), W_fb and the bias. Of W_in and W_fb a number, or one for each
        column, (d,) and (m,). Arrays of the shape of the weights, (N, d), (N, m) and (N,), are these weights themselves. With
        feedback the true outputs are fed back in ``fit`` (teacher forcing), the network's own in ``predict``.
    noise
        M_e: standard deviation of the noise added to the states in ``fit``. It makes a network with feedback robust.
    ridge
        Penalty on the weights of the readout, times the number of rows; the intercept is free. A pair: on the rows themselves,
        earlier ones too, and on all other features. ``"auto"``: the one that predicts each fifth of the rows best from the
        others; it is in ``ridge_``.
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
        How the units are connected: ``"random"``, ``"ring"`` or ``"orthogonal"``; a function (n, rng) that gives W, scaled to
        ``spectral_radius``; or W itself (N, N), an array or sparse, taken as it is.
    features
        What the readout sees: a :class:`pesn.Features`, by default [1, z, h]. Where it looks back on earlier rows, the first
        ``lags`` rows of a sequence are washed out, and in ``predict`` the first row stands for those before it.
    layers
        How many layers of N units; or a list, one entry a layer: a :class:`pesn.Layer`, which says what is different in it, or a
        list of them, groups that all see the same and do not see each other. The first layer sees the row and the feedback, each
        later one the units of the layer before as they already are; the readout sees all.
    memory
        What units keep of their last state: ``"leaky"``, (1 − L) h; ``"orthogonal"``, (1 − L) O h with a random orthogonal O, the
        edge of stability network ES²N; or an orthogonal matrix O of all units.
    feedback
        What is fed back while the network learns: ``"teacher"``, the true outputs; ``"own"``, its own, as they are then
        (FORCE): ``fit`` and ``partial_fit`` are then both recursive least squares over the rows, from P = ``rls_delta`` · I, and
        ``ridge`` is one number.
    local
        For fields: a :class:`pesn.Patches`. y is the next row of the field in the first columns of X; each patch has a
        reservoir of ``n_units``, the same in all, which sees the patch and its neighbours, and reads its own columns out of
        that. None: one reservoir sees all columns.
    verbose
        Say on standard error how far ``fit`` is: a bar on a terminal, a line a step elsewhere.

    Attributes
    ----------
    reservoir_, readout_
        The weights: ``readout_.weights`` is W_out, of shape (outputs, 1 + inputs + units) unless there are more features.
    state_
        The state after the last row learnt from: ``predict(X, state=esn.state_)`` goes on from there.
    washout_
        Rows that were washed out of each sequence.
    online_predictions_
        Of the last ``partial_fit``: what was predicted for each of its rows *before* that row was learnt from.
    """

    verbose: bool = False

    def check_parameters(self) -> None:
        """A ValueError or TypeError where a parameter is wrong."""
        check_network(self)

    def drive(self, rng: np.random.Generator | None = None) -> Drive:
        """How blocks of rows drive the network in ``fit``; ``rng`` draws the noise."""
        return deterministic(self.reservoir_, self.features, self.noise if rng is not None else 0.0, rng)

    @overload
    def predict(
        self, X: TableLike, lengths: Lengths = None, state: States = None, return_state: Literal[False] = False
    ) -> FloatArray: ...
    @overload
    def predict(
        self, X: TableLike, lengths: Lengths = None, state: States = None, *, return_state: Literal[True]
    ) -> tuple[FloatArray, State | list[State]]: ...

    def predict(
        self, X: TableLike, lengths: Lengths = None, state: States = None, return_state: bool = False
    ) -> FloatArray | tuple[FloatArray, State | list[State]]:
        """Outputs for each row of X, (n,) or (n, m) as y was, from the initial state or from ``state``.

        Parameters
        ----------
        X
            Rows (n, d).
        lengths
            The rows of each sequence, where X holds several one after the other. Many of them move together, several times as
            fast as one after the other, with the same outputs within 1e-12 of their size.
        state
            Where to start: what ``return_state`` gave, or ``state_``; with ``lengths`` one for each sequence. None: zero.
        return_state
            Whether the state at the end comes second: ``predict(more, state=state)`` goes on as if there had been one call, to
            the bit, with feedback too.

        Returns
        -------
        outputs
            (n,) or (n, m), as y was.
        state
            With ``return_state``; with ``lengths`` a list of them.
        """
        flag("return_state", return_state)
        check_fitted(self)
        rows = as_rows(self, X)
        outputs = np.empty((len(rows.mean), self.n_outputs_))
        begun = starts(self, lengths, state, len(outputs), self.initial)
        ends = read_sequences(self.features, self.reservoir_, rows, begun, self.readout_.weights, outputs=outputs)
        result = as_given(outputs, rows, self._y_is_flat)
        return (result, ends if lengths is not None else ends[0]) if return_state else result

    def transform(self, X: TableLike, lengths: Lengths = None) -> FloatArray:
        """The states of the reservoir, (n, n_units), from the initial state; with feedback, of its own outputs.

        Parameters
        ----------
        X, lengths
            As in :meth:`predict`.

        Returns
        -------
        array
            (n, n_units), in the precision of X.
        """
        check_is_fitted(self)
        rows = as_rows(self, X)
        states = np.empty((len(rows.mean), self.reservoir_.n_units), dtype=rows.mean.dtype)
        begun = starts(self, lengths, None, len(states), self.initial)
        read_sequences(self.features, self.reservoir_, rows, begun, self.readout_.weights, states=states)
        return states


def read_sequences(
    features: Features, reservoir: Reservoir, rows: Rows, starts: list[tuple[slice, State]], weights: FloatArray,
    *, outputs: Array | None = None, states: Array | None = None,
) -> list[State]:  # fmt: skip
    """Fill ``outputs`` (n, m), ``states`` (n, N), or both, of each sequence from its state; where each has stopped, in order.

    Many sequences move together, others in parallel threads.
    """
    sequences, begun = [sequence for sequence, _ in starts], [state for _, state in starts]

    def keep(block: slice, units: Array, found: Array | None) -> None:
        if outputs is not None:
            outputs[block] = found
        if states is not None and units.base is not states:
            states[block] = units

    def drive(sequence: slice, state: State) -> State:
        for block in blocks(sequence):
            _, units, found, state = read(features, reservoir, rows.take(block)[0], state, readout=weights)
            keep(block, units, found)
        return state

    if features.lags or not in_lockstep(reservoir, sequences):
        return in_threads(drive, starts)
    ends: list[State] = []
    wide, unseen = widened(features, reservoir), np.empty((0, 0))
    for which, block in chunks(sequences, 8 * BLOCK if states is None else BLOCK):
        own = [slice(one.start - block.start, one.stop - block.start) for one in sequences[which]]
        into = unseen if states is None else states[block] if states.dtype == np.float64 else None
        seen = features.rows(rows.take(block)[0])
        units, found, after = run_stacked(wide, seen, own, begun[which], readout=weights, into=(into, None))
        keep(block, units, found)
        ends += after
    return ends
