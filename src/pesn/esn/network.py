"""The echo state network as a scikit-learn estimator.

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
from pesn._support.threads import one_blas_thread
from pesn._support.types import FloatArray, Lengths, TableLike
from pesn.esn.base import ReservoirEstimator
from pesn.esn.training import Drive, Starts, certain_drive, drive_sequences
from pesn.esn.validation import States, as_rows, check_network, require_fit, shape_outputs, starting_states
from pesn.reservoir.drive import State, chunks, in_lockstep, read, run_many, widen_inputs
from pesn.reservoir.sequences import BLOCK, Array, Rows


@final
@dataclass(eq=False, repr=False, kw_only=True)
class EchoStateNetwork(ReservoirEstimator):
    """Echo state network: a reservoir of leaky units, tanh by default, with a linear readout. Rows are time steps.

    h_k = (1 − L) h_{k−1} + L tanh(W_in z_k + W_fb y_{k−1} + W h_{k−1} + bias) + M_e w_k,   y_k = W_out [1, z_k, h_k]

    Parameters
    ----------
    n_units : int, default=100
        Number of units of the reservoir, N.
    spectral_radius : float, default=0.9
        Largest absolute eigenvalue of W.
    leak_rate : float or array-like of shape (n_units,), default=0.5
        L, for all units or for each.
    density : float, default=0.1
        Proportion of non-zero weights in W.
    input_scaling : float or array-like, default=0.5
        Largest absolute entry of √d W_in (d inputs): a number, or one per column (d,). An array (N, d) is W_in itself.
    bias_scaling : float or array-like, default=0.2
        Largest absolute entry of the bias. An array (N,) is the bias itself.
    random_state : int, RandomState or None, default=None
        Seed of the weights and the noise. With an integer, fitting the same data again gives the same weights to the bit.
    activation : str or Activation, default="tanh"
        Activation function: a name (``pesn.activations.names()``) or a :class:`pesn.Activation`. All but tanh are driven row by
        row, many times slower.
    topology : {"random", "ring", "orthogonal", "none"}, callable or matrix, default="random"
        Connections between the units: a name; a function (n, rng) that returns W, scaled to ``spectral_radius``; or W itself
        (N, N), dense or sparse, used as it is.
    features : Features, default=Features()
        Features of the readout, by default [1, z, h]. With lags, the first ``lags`` rows of a sequence belong to the washout, and
        in ``predict`` the first row replaces those before it.
    layers : int or list, default=1
        Number of layers of N units; or a list with one entry per layer: a :class:`pesn.Layer` with the parameters that differ, or
        a list of them, which are groups without connections between each other. The first layer sees the row and the feedback,
        each later layer the new state of the layer before; the readout sees all units.
    memory : {"leaky", "orthogonal"} or matrix, default="leaky"
        Memory of the units: ``"leaky"``, (1 − L) h; ``"orthogonal"``, (1 − L) O h with a random orthogonal matrix O, the edge of
        stability network ES²N; or an orthogonal matrix O (N, N).
    feedback_scaling : float or array-like, default=0.0
        Largest absolute entry of W_fb: a number, or one per output (m,). An array (N, m) is W_fb itself. With feedback the true
        outputs are fed back in ``fit`` (teacher forcing), the predicted ones in ``predict``.
    noise : float, default=0.0
        M_e: standard deviation of the noise added to the states in ``fit``. It makes a network with feedback robust.
    ridge : float, pair of float or "auto", default=1e-6
        Penalty on the weights of the readout, times the number of rows; the intercept has none. A pair: the penalty on the rows,
        earlier ones too, and on all other features. ``"auto"``: selected by cross-validation with 5 contiguous folds; the value
        is in ``ridge_``.
    forgetting : float, default=0.999
        Forgetting factor of ``partial_fit``: the weight of the past falls by this factor per row.
    rls_delta : float or None, default=None
        Initial covariance of ``partial_fit``. None: that of the batch solution (without a batch: P = I / ridge). A number: the
        paper's P = rls_delta · I.
    rls_prior : bool, default=True
        Whether forgetting returns to that start, so that P stays bounded without new information. False: plain recursive least
        squares, where P grows as forgetting⁻ᵏ in directions that k rows do not excite.
    washout : int or "auto", default=0
        Number of rows at the start of each sequence that drive the reservoir and are not learned from. ``"auto"``: until the
        initial state changes the outputs by less than 0.1 % of their standard deviation, or a tenth of that of their residuals;
        the number is in ``washout_``.
    feedback : {"teacher", "own"}, default="teacher"
        Outputs that are fed back in training: ``"teacher"``, the true ones; ``"own"``, the predicted ones (FORCE): ``fit`` and
        ``partial_fit`` are then both recursive least squares over the rows, from P = ``rls_delta`` · I, and ``ridge`` is a
        number.
    local : Patches or None, default=None
        For fields: y is the next row of the field in the first columns of X. Each patch has a reservoir of ``n_units``, the same
        in all, which sees the patch and its neighbors and predicts the columns of the patch. None: one reservoir sees all
        columns.
    verbose : bool, default=False
        Whether to show the progress of ``fit`` on standard error: a bar on a terminal, a line per step elsewhere.

    Attributes
    ----------
    reservoir_ : Reservoir
        Weights of the reservoir.
    readout_ : Readout
        Readout: ``readout_.weights`` is W_out, (n_outputs, 1 + n_features + n_units) unless there are more features.
    state_ : State
        State after the last training row: ``predict(X, state=esn.state_)`` continues from there.
    washout_ : int
        Length of the washout.
    online_predictions_ : ndarray
        Predictions of the last ``partial_fit``, each made *before* the row was learned from.
    """

    verbose: bool = False

    def check_parameters(self) -> None:
        """Raise a ValueError or TypeError if a parameter is wrong."""
        check_network(self)

    def drive(self, rng: np.random.Generator | None = None) -> Drive:
        """Return the function that drives the network in ``fit``; ``rng`` draws the noise."""
        return certain_drive(self.reservoir_, self.features, self.noise if rng is not None else 0.0, rng)

    @overload
    def predict(
        self, X: TableLike, lengths: Lengths = None, state: States = None, return_state: Literal[False] = False
    ) -> FloatArray: ...
    @overload
    def predict(
        self, X: TableLike, lengths: Lengths = None, state: States = None, *, return_state: Literal[True]
    ) -> tuple[FloatArray, State | list[State]]: ...

    @one_blas_thread()
    def predict(
        self, X: TableLike, lengths: Lengths = None, state: States = None, return_state: bool = False
    ) -> FloatArray | tuple[FloatArray, State | list[State]]:
        """Predict the outputs for each row of X, from the initial state or from ``state``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        lengths : list of int, optional
            Number of rows of each sequence, if X holds several one after the other. Many sequences are computed together, several
            times faster than one after the other, with the same outputs to a relative accuracy of 1e-12.
        state : State or list of State, optional
            Initial state, as ``return_state`` returns it, or ``state_``; with ``lengths`` one per sequence. None: zero.
        return_state : bool, default=False
            Whether to return the final state too: ``predict(more, state=state)`` continues as if there had been one call, to the
            bit, with feedback too.

        Returns
        -------
        outputs : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            As y was.
        state : State or list of State
            With ``return_state``; a list with ``lengths``.
        """
        flag("return_state", return_state)
        require_fit(self)
        rows = as_rows(self, X)
        outputs = np.empty((len(rows.mean), self.n_outputs_))
        starts = starting_states(self, lengths, state, len(outputs), self.initial)
        ends = read_sequences(self, rows, starts, outputs)
        result = shape_outputs(outputs, rows, self._y_is_flat)
        return (result, ends if lengths is not None else ends[0]) if return_state else result

    @one_blas_thread()
    def transform(self, X: TableLike, lengths: Lengths = None) -> FloatArray:
        """Compute the states of the reservoir, from the initial state; with feedback, that of the predicted outputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        lengths : list of int, optional
            Number of rows of each sequence, as in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_units)
            States, in the precision of X.
        """
        check_is_fitted(self)
        rows = as_rows(self, X)
        states = np.empty((len(rows.mean), self.reservoir_.n_units), dtype=rows.mean.dtype)
        starts = starting_states(self, lengths, None, len(states), self.initial)
        read_sequences(self, rows, starts, states, units=True)
        return states


def read_sequences(esn: EchoStateNetwork, rows: Rows, starts: Starts, into: Array, units: bool = False) -> list[State]:
    """Fill ``into`` with the outputs (n, m) of each row, or with the states (n, N) of its units; return the final states.

    Many sequences are computed side by side, others in parallel threads.
    """
    features, reservoir, weights = esn.features, esn.reservoir_, esn.readout_.weights

    def step(block: slice, state: State) -> State:
        _, states, outputs, state = read(features, reservoir, rows.take(block)[0], state, readout=weights)
        into[block] = states if units else outputs
        return state

    sequences, initial = [sequence for sequence, _ in starts], [state for _, state in starts]
    if features.lags or not in_lockstep(reservoir, sequences):
        return drive_sequences(step, starts)
    ends: list[State] = []
    wide, in_place = widen_inputs(features, reservoir), units and into.dtype == np.float64
    for which, block in chunks(sequences, BLOCK if units else 8 * BLOCK):
        own = [slice(one.start - block.start, one.stop - block.start) for one in sequences[which]]
        kept = into[block] if in_place else None if units else np.empty((0, 0))
        seen = features.rows(rows.take(block)[0])
        states, outputs, after = run_many(wide, seen, own, initial[which], readout=weights, into=(kept, None))
        if not in_place:
            into[block] = states if units else outputs
        ends += after
    return ends
