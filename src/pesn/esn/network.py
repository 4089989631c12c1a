"""The echo state network as a scikit-learn estimator: it checks, calls and stores; the mathematics is in the modules below.

>>> import numpy as np
>>> series = np.sin(0.2 * np.arange(1001.0))[:, None]
>>> esn = EchoStateNetwork(50, random_state=0).fit(series[:700], series[1:701])
>>> error = esn.predict(series[700:-1], state=esn.state_) - series[701:]
>>> bool(np.abs(error).max() < 1e-3)
True
"""

from __future__ import annotations

from typing import Literal, Self, final, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pesn._support.arguments import flag
from pesn._support.progress import Steps
from pesn._support.records import rollback_on_error
from pesn._support.types import Feedback, FloatArray, LeakRate, Lengths, Memory, RandomState, Ridge, Scaling, TableLike, Washout
from pesn.activations import Activation
from pesn.esn.base import (
    ReservoirEstimator,
    check_learnt,
    check_network,
    check_no_plasticity,
    check_prediction,
    draw_reservoir,
    generator,
    groups_of,
    read_sequences,
)
from pesn.esn.online import Online, learn_compiled, learn_with_own_outputs, prepare_online, start_empty
from pesn.esn.training import adapted, deterministic, fit_readout, washout_rows
from pesn.esn.validation import States, TrainingRows, as_given, as_rows, check_fitted, starts, training_rows
from pesn.readout.features import Features
from pesn.readout.groups import Patches
from pesn.reservoir.drive import State
from pesn.reservoir.plasticity import Plasticity, SynapticPlasticity
from pesn.reservoir.topology import Topology
from pesn.reservoir.weights import Layers

__all__ = ["EchoStateNetwork"]


@final
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
        How the units are connected: ``"random"``, ``"ring"``, ``"cycle-jumps"``, ``"delay-line"`` (whose weight is
        ``spectral_radius``), ``"small-world"``, ``"erdos-renyi"``, ``"orthogonal"``, or one of these with parameters of one's own
        (:mod:`pesn.reservoir.topology`); a function (n, rng) that gives W, scaled to ``spectral_radius``; or W itself (N, N), an
        array or sparse, taken as it is.
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
    plasticity
        Intrinsic: a :class:`pesn.reservoir.Plasticity` says how the outputs of units are to be spread, and gain and bias of each
        are tuned to that. Synaptic: a :class:`pesn.reservoir.SynapticPlasticity` names the rule, Hebb's, Oja's and others, by
        which recurrent weights move. ``fit`` passes its rows for it as often as the record says, before the readout is learnt.
        What comes out is in ``reservoir_``, so that nothing else is different. None: the weights stay as drawn.
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

    def __init__(
        self,
        n_units: int = 100,
        *,
        spectral_radius: float = 0.9,
        leak_rate: LeakRate = 0.5,
        density: float = 0.1,
        input_scaling: Scaling = 0.5,
        feedback_scaling: Scaling = 0.0,
        bias_scaling: Scaling = 0.2,
        noise: float = 0.0,
        ridge: Ridge = 1e-6,
        forgetting: float = 0.999,
        rls_delta: float | None = None,
        washout: Washout = 0,
        random_state: RandomState = None,
        activation: str | Activation = "tanh",
        topology: Topology = "random",
        features: Features = Features(),
        layers: Layers = 1,
        memory: Memory = "leaky",
        plasticity: Plasticity | SynapticPlasticity | None = None,
        feedback: Feedback = "teacher",
        local: Patches | None = None,
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
        self.features = features
        self.layers = layers
        self.memory = memory
        self.plasticity = plasticity
        self.feedback = feedback
        self.local = local
        self.verbose = verbose

    def fit_in_steps(self, X: TableLike, y: TableLike, lengths: Lengths, steps: Steps) -> Self:  # noqa: D102  # as it is described there
        with rollback_on_error(self):
            check_network(self)
            given = training_rows(self, X, y, lengths, first=True, least=2)
            self.__dict__.pop("online_predictions_", None)  # of another readout
            if self.feedback == "own":
                begun = self.begin(given.n_inputs, given.n_outputs, given)
                self.adopt(learn_with_own_outputs(self.reservoir_, self.features, given, begun, self.forgetting, steps))
                return self
            rng = generator(self.random_state)
            self.n_outputs_, self._y_is_flat = given.n_outputs, given.flat
            drawn = draw_reservoir(self, given.n_inputs, given.n_outputs, rng, self.local)
            self.reservoir_ = adapted(self.plasticity, drawn, given, steps)
            groups = groups_of(self)
            self.washout_ = washout_rows(self.washout, self.reservoir_, self.features, given, self.ridge, steps, groups)
            drive = deterministic(self.reservoir_, self.features, self.noise, rng)
            self.readout_, self.state_, self.ridge_ = fit_readout(
                drive,
                self.reservoir_,
                self.features,
                given,
                self._initial_state(),
                self.washout_,
                self.ridge,
                steps,
                groups=groups,
            )
            self.rls_, self._to_wash = None, 0
        return self

    def begin(self, n_inputs: int, n_outputs: int, given: TrainingRows | None = None) -> Online:  # noqa: D102
        self.n_outputs_, self._y_is_flat = n_outputs, given is not None and given.flat
        drawn = draw_reservoir(self, n_inputs, n_outputs, generator(self.random_state), self.local)
        self.reservoir_, self.washout_, self.ridge_ = prepare_online(self, drawn, given)
        start = self._initial_state()
        return start_empty(self.reservoir_, self.features, start, self.washout_, self.rls_delta, self.ridge, groups_of(self))

    def partial_fit(self, X: TableLike, y: TableLike) -> Self:
        """Move the readout with each new row, by recursive least squares; the state goes on from the last row learnt from.

        Works without ``fit`` too. No noise is added here. If anything fails, readout and state are what they were.

        Parameters
        ----------
        X, y
            New rows (n, d) and what to put out for each of them, as in :meth:`fit`.

        Returns
        -------
        Self
        """
        first = not self.__sklearn_is_fitted__()
        with rollback_on_error(self):
            check_network(self)
            given = training_rows(self, X, y, first=first, least=1)
            if first:
                check_no_plasticity(self.plasticity)
            else:
                check_fitted(self)
            begun = self.begin(given.n_inputs, given.n_outputs, given) if first else self.resumed()
            predictions, learnt = learn_compiled(
                self.reservoir_, self.features, given, begun, self.forgetting, self.feedback == "own"
            )
            self.adopt(learnt)
            self.online_predictions_ = as_given(predictions, given.inputs, self._y_is_flat)
        return self

    @overload
    def predict(
        self,
        X: TableLike,
        lengths: Lengths = None,
        state: States = None,
        return_state: Literal[False] = False,
    ) -> FloatArray: ...
    @overload
    def predict(
        self, X: TableLike, lengths: Lengths = None, state: States = None, *, return_state: Literal[True]
    ) -> tuple[FloatArray, State | list[State]]: ...
    @overload
    def predict(
        self, X: TableLike, lengths: Lengths = None, state: States = None, return_state: bool = False
    ) -> FloatArray | tuple[FloatArray, State | list[State]]: ...

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
        begun = starts(self, lengths, state, len(outputs), self._initial_state)
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

        begun = starts(self, lengths, None, len(states), self._initial_state)
        read_sequences(self.features, self.reservoir_, rows, begun, self.readout_.weights, states=states)
        return states

    def check_online(self) -> None:  # noqa: D102
        check_network(self)
        if not self.__sklearn_is_fitted__():
            check_no_plasticity(self.plasticity)

    def check_stored(self) -> None:  # noqa: D102
        check_learnt(self, self._y_is_flat)
        check_network(self)
        check_prediction(self)

    def _initial_state(self) -> State:
        """Where a sequence starts without a state: at zero."""
        return State(np.zeros(self.reservoir_.n_units), None, np.zeros(self.reservoir_.n_outputs), None)
