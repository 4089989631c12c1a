"""The echo state network whose state is a Gaussian: uncertain inputs, starts and weights come out as a standard deviation.

>>> import numpy as np, pesn
>>> series = np.sin(0.2 * np.arange(1001.0))[:, None]
>>> esn = ProbabilisticESN(50, random_state=0).fit(series[:-1], series[1:])
>>> blurred = pesn.Gaussian(series[-200:], var=np.full((200, 1), 0.1**2))
>>> mean, std = esn.predict(blurred, return_std=True)
>>> mean.shape, std.shape, bool(np.all(std > 0.01))
((200, 1), (200, 1), True)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self, TypeAlias, final, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pesn._support.arguments import flag
from pesn._support.progress import Steps
from pesn._support.records import rollback_on_error
from pesn._support.types import CovarianceChoice, FloatArray, InitialStateName, Lengths, ProcessNoise, Rng
from pesn.activations import Activation, get
from pesn.esn.base import ReservoirEstimator
from pesn.esn.online import Online
from pesn.esn.training import Drive, RowsForStart, StreamedRows, generator, in_threads, process_noise_scale
from pesn.esn.validation import (
    States,
    TrainingRows,
    UncertainRows,
    as_given,
    as_rows,
    check_fitted,
    check_probabilistic,
    starts,
)
from pesn.evaluation.calibration import form_of, process_noise
from pesn.gaussian import Gaussian
from pesn.moments import UnitMethod, named_method
from pesn.readout.features import Features
from pesn.readout.ridge import PARTS, Readout, check_parts, predictive_variance, weights_cov
from pesn.reservoir.drive import State, chunks
from pesn.reservoir.initial_state import LocalStart, Start, learn_start, state_of
from pesn.reservoir.open_loop import OpenLoop, can_stack, predict_rows, predict_stacked
from pesn.reservoir.sequences import BLOCK, Array, Rows, blocks
from pesn.reservoir.weights import Reservoir
from pesn.statespace.cell import ActivationMoments
from pesn.statespace.ensemble import Draws

_AT_ONCE = 2**19  # features of all rows that are predicted at a time: what is freed after one block serves the next
_SETTLED = 1e-12  # of the outputs' noise: below, the state passes for certain


@dataclass(frozen=True)
class Propagation:
    """How a Gaussian state is carried through the units: parameters of :class:`pesn.ProbabilisticESN`.

    ``rng`` draws for the moments "monte-carlo" and for the members of an ensemble; the others need none.
    """

    activation: str | Activation
    moments: UnitMethod
    covariance: CovarianceChoice
    rank: int
    n_members: int
    noise: float
    features: Features = Features()
    rng: Rng = None

    @property
    def units(self) -> ActivationMoments:
        """How moments pass the units."""
        method, mesh = named_method("moments", self.moments)
        return ActivationMoments(get(self.activation), method, mesh, self.rng)

    def without_readout(self, reservoir: Reservoir) -> OpenLoop:
        """The reservoir alone, as ``fit`` drives it."""
        weights = np.zeros((reservoir.n_outputs, self.features.size(reservoir.n_inputs, reservoir.n_units)))
        form = form_of(self.covariance, reservoir.n_units, self.rank)
        noise = process_noise(None, 0.0, self.noise, reservoir.n_units)
        return OpenLoop(
            reservoir, weights, self.units, form, self.rank, noise,
            moments=self.moments, rng=self.rng, features=self.features, n_members=self.n_members,
        )  # fmt: skip

    def with_weights(self, reservoir: Reservoir, weights: Array) -> OpenLoop:
        """With outputs by ``weights`` (m, p), which are not fed back and whose errors are not looked at."""
        wide = reservoir._replace(W_fb=np.zeros((reservoir.n_units, len(weights))))
        return replace(self.without_readout(wide), weights=weights)

    def with_readout(
        self, reservoir: Reservoir, readout: Readout, start: Start | LocalStart | None, noise_scale: float
    ) -> OpenLoop:
        """With its readout, as ``predict`` runs it: ``noise_scale`` times the long run's covariance is process noise."""
        return replace(
            self.without_readout(reservoir),
            weights=np.asarray(readout.weights, float),
            readout=readout,
            process_noise=process_noise(start, noise_scale, self.noise, reservoir.n_units),
            settled=_SETTLED * float(np.diagonal(readout.residual_cov).min()),
        )


def gaussian(loop: OpenLoop) -> Drive:
    """A network of uncertain states, whose means the readout learns from; what is called noise is variance here."""

    def drive(z: Array, var: Array | None, state: State, targets: Array) -> tuple[Array, State]:
        path, state = predict_rows(loop, z, var, state, clamp=targets)
        return path.probed["features"], state

    return drive


def predict_sequences(
    loop: OpenLoop,
    readout: Readout,
    rows: Rows,
    starts: list[tuple[slice, State]],
    start: Start | LocalStart | None,
    parts: Collection[str] | None,
) -> tuple[Array, Array, list[State]]:
    """Means (n, m) of the outputs, the sum (n, m, m) of the wanted ``parts`` of their covariance, and the last states.

    The parts: of the state, W Σ_b Wᵀ; of the residuals; and of the readout's weights. None: no covariance is wanted, (0, m, m).
    """
    n, m = len(rows.mean), len(readout.weights)
    mean, cov = np.empty((n, m)), np.empty((0 if parts is None else n, m, m))

    def keep(block: slice, outputs: Array, features: Array, state_cov: Array, leverage: Array) -> None:
        mean[block] = outputs
        if parts is not None:
            found = predictive_variance(readout, features, full=True)
            found["state"] = state_cov
            found["weights"] += weights_cov(readout.residual_cov, leverage)
            cov[block] = sum((found[name] for name in PARTS if name in parts), np.zeros((1, m, m)))

    # forms other than the diagonal one are slow enough for longer blocks not to matter
    size = min(BLOCK, max(_AT_ONCE // readout.weights.shape[1], 256)) if loop.form == "diagonal" else BLOCK
    sequences, states = [sequence for sequence, _ in starts], [state for _, state in starts]
    ends = []
    if can_stack(loop, rows.var is None, sequences, states, start):
        for which, block in chunks(sequences, 4 * size):
            stack = predict_stacked(loop, *rows.take(block), sequences[which], states[which], start)
            keep(block, stack.mean, stack.features, stack.cov, stack.leverage)
            ends += stack.ends
        return mean, cov, ends
    for sequence, state in starts:
        for block in blocks(sequence, size):
            path, state = predict_rows(loop, *rows.take(block), state, start)
            keep(block, path.mean, path.probed["features"], path.probed["cov"], path.probed["leverage"])
        ends.append(state)
    return mean, cov, ends


def transform_sequences(loop: OpenLoop, rows: Rows, starts: list[tuple[slice, State]], start: Start | LocalStart | None) -> Array:
    """Mean states (n, N) in the precision of the rows."""
    states = np.empty((len(rows.mean), loop.reservoir.n_units), dtype=rows.mean.dtype)

    def drive(sequence: slice, state: State) -> State:
        for block in blocks(sequence):
            path, state = predict_rows(loop, *rows.take(block), state, start)
            states[block] = path.probed["units"]
        return state

    sequences, begun = [sequence for sequence, _ in starts], [state for _, state in starts]
    if can_stack(loop, rows.var is None, sequences, begun, start):
        for which, block in chunks(sequences, BLOCK):
            states[block] = predict_stacked(loop, *rows.take(block), sequences[which], begun[which], start).units
    else:
        in_threads(drive, starts, parallel=loop.rng is None)
    return states


_No: TypeAlias = Literal[False]
_Yes: TypeAlias = Literal[True]


@final
@dataclass(eq=False, repr=False, kw_only=True)
class ProbabilisticESN(ReservoirEstimator):
    """An echo state network that carries mean and variance of every unit through time, without sampling.

    The readout learns from the mean states. The variance of a prediction has three parts: of the state,
    W_out Σ_b W_outᵀ with Σ_b of what the readout sees, [1, z, h]; of the residuals; and of the readout's weights.

    Parameters
    ----------
    n_units, spectral_radius, leak_rate, density, input_scaling, feedback_scaling, bias_scaling, ridge, forgetting, \
rls_delta, washout, random_state, activation, topology, features, layers, memory, feedback, local, verbose
        As in :class:`pesn.EchoStateNetwork`.
    noise
        M_e. No noise is drawn: M_e² enters the variance of every unit at every step, in ``fit`` and in ``predict``.
    covariance
        ``"full"``: every covariance between inputs, units and fed-back outputs; ``"low-rank"``: the same through a factor of
        ``rank`` columns, for large reservoirs; ``"auto"``: full up to 200 units, low-rank above; ``"diagonal"``: a variance
        for each unit and none between them, as in the paper, whose intervals are far from their level; ``"ensemble"``:
        ``n_members`` networks side by side, by Monte Carlo: mean and covariance by count, observations by the ensemble Kalman
        filter. Its draws are scrambled Sobol points, as ``random_state`` says.
    rank
        Columns of the factor of ``"low-rank"``; with as many as units it is the full covariance.
    n_members
        Members of ``"ensemble"``, 2 or more.
    moments
        How mean and variance pass tanh: a method of :func:`pesn.moments`, or ``("spline", pesn.Mesh(...))``.
        ``"monte-carlo"`` draws anew, from ``random_state``, in every call: two calls on halves are not one on the whole.
    initial_state
        Where each sequence starts in ``predict``: ``"learned"``, a regression of the state on the first rows with what it leaves
        open as covariance; ``"stationary"``, as in the long run; ``"zero"``; or a :class:`pesn.Gaussian` over the units.
        In ``fit`` a sequence starts from zero, or from the Gaussian.
    process_noise
        Covariance added to the units at every step of ``predict``, as a share of their own in the long run. ``"auto"``:
        with feedback, the share with the best CRPS of forecasts over 20 steps on held-back rows; without, where no
        error is carried on, 0. The number is in ``process_noise_``.

    Attributes
    ----------
    start_
        What the training rows say about the state behind the first rows of a sequence. None after ``partial_fit`` without
        ``fit``: sequences then start from zero.
    process_noise_
        The share of process noise in use.
    """

    covariance: CovarianceChoice = "auto"
    rank: int = 40
    n_members: int = 256
    moments: UnitMethod = "surface"
    initial_state: InitialStateName | Gaussian = "learned"
    process_noise: ProcessNoise = "auto"
    verbose: bool = False
    start_: Start | LocalStart | None = field(init=False)
    process_noise_: float = field(init=False)

    takes_gaussians: ClassVar[bool] = True

    def fit_streamed(self, given: StreamedRows, steps: Steps) -> Self:
        """``fit`` of sequences that are read anew in each pass, one at a time in memory: the same numbers.

        Parameters
        ----------
        given
            The sequences, without gaps, in float64.
        steps
            Where each pass is announced.

        Returns
        -------
        Self
        """
        with rollback_on_error(self):
            self.check_parameters()
            self.check_streamable()
            self.__dict__.pop("online_predictions_", None)
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = given.n_inputs
            self._fit_readout(given, steps)
        return self

    def check_streamable(self) -> None:
        """A ValueError where the network takes all rows at once."""
        if self.feedback == "own":
            raise ValueError("feedback must be 'teacher' where runs are streamed: it takes all rows at once, got 'own'")

    def check_parameters(self) -> None:
        """A ValueError or TypeError where a parameter is wrong."""
        check_probabilistic(self)

    def drive(self, rng: np.random.Generator | None = None) -> Drive:
        """How blocks of rows drive the network in ``fit``; the readout learns from the means, and noise is variance here."""
        return gaussian(self._propagation(rng).without_readout(self.reservoir_))

    def initial(self) -> State:
        """Where sequences start in ``fit``: at a given Gaussian over the units, else at zero."""
        given, n, m = self.initial_state, self.reservoir_.n_units, self.reservoir_.n_outputs
        if not isinstance(given, Gaussian):
            return State(np.zeros(n), np.zeros(n), np.zeros(m), np.zeros(m))
        if given.mean.shape != (n,):
            raise ValueError(f"initial_state must be a Gaussian over the {n} units, got one of shape {given.mean.shape}")
        return state_of(given, m)

    def _learn_start(self, kept: RowsForStart | None, given: TrainingRows | StreamedRows, steps: Steps) -> None:
        with steps.step("learning the start"):
            self.start_ = start = learn_start(kept.pieces if kept else [], self.local, self.features, self.n_outputs_)
        loop = self._propagation().without_readout(self.reservoir_)
        self.process_noise_ = process_noise_scale(self, loop, start, given, steps)

    def begin(self, n_inputs: int, n_outputs: int, given: TrainingRows | None = None) -> Online:  # noqa: D102
        self.start_, self.process_noise_ = None, 0.0
        return super().begin(n_inputs, n_outputs, given)

    @overload  # in the order of scikit-learn's Gaussian process: return_std comes second
    def predict(
        self, X: UncertainRows, return_std: _No = False, return_cov: _No = False, lengths: Lengths = None, state: States = None,
        return_state: _No = False, *, parts: Collection[str] = PARTS,
    ) -> FloatArray: ...  # fmt: skip
    @overload
    def predict(
        self, X: UncertainRows, return_std: _Yes, return_cov: _No = False, lengths: Lengths = None, state: States = None,
        return_state: _No = False, *, parts: Collection[str] = PARTS,
    ) -> tuple[FloatArray, FloatArray]: ...  # fmt: skip
    @overload
    def predict(
        self, X: UncertainRows, return_std: _No = False, *, return_cov: _Yes, lengths: Lengths = None, state: States = None,
        return_state: _No = False, parts: Collection[str] = PARTS,
    ) -> tuple[FloatArray, FloatArray]: ...  # fmt: skip
    @overload
    def predict(
        self, X: UncertainRows, return_std: bool = False, return_cov: bool = False, lengths: Lengths = None, state: States = None,
        return_state: bool = False, *, parts: Collection[str] = PARTS,
    ) -> FloatArray | tuple[FloatArray | State | list[State], ...]: ...  # fmt: skip

    def predict(
        self, X: UncertainRows, return_std: bool = False, return_cov: bool = False, lengths: Lengths = None, state: States = None,
        return_state: bool = False, *, parts: Collection[str] = PARTS,
    ) -> FloatArray | tuple[FloatArray | State | list[State], ...]:  # fmt: skip
        """Mean of the outputs for each row of X, with its uncertainty where it is asked for.

        Parameters
        ----------
        X
            Rows (n, d), or a Gaussian a row: ``Gaussian(mean=(n, d), var=(n, d))``, of which the variances alone are used.
        return_std, return_cov
            Whether the deviations, in the shape of y, or the covariances (n, m, m) between the outputs of a row come second.
        lengths
            The rows of each sequence, where X holds several one after the other.
        state
            Where to start: what ``return_state`` gave, or ``state_``; None: as ``initial_state`` says.
        return_state
            Whether the state at the end comes last, with ``lengths`` a list of them.
        parts
            The parts of the variance that are wanted, which add up: "state", the paper's W_out Σ_b W_outᵀ with Σ_b of [1, z, h];
            "noise", R of the residuals; "weights", R (bᵀ A⁻¹ b + tr(A⁻¹ Σ_b)) of the readout's weights.

        Returns
        -------
        mean
            (n,) or (n, m), as y was.
        std or cov
            Where it is asked for.
        state
            Where it is asked for.
        """
        check_parts(parts)
        for name, value in (("return_std", return_std), ("return_cov", return_cov), ("return_state", return_state)):
            flag(name, value)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov exclude each other; the square root of cov's diagonal is std")
        check_fitted(self)
        rows = as_rows(self, X)
        begun = starts(self, lengths, state, len(rows.mean), self._beginning, gaussian=True)
        wanted = parts if return_std or return_cov else None
        mean, cov, ends = predict_sequences(self._open_loop(), self.readout_, rows, begun, self.start_, wanted)
        outputs = as_given(mean, rows, self._y_is_flat)
        result: list[FloatArray | State | list[State]] = [outputs]
        if return_std:
            result.append(as_given(np.sqrt(np.diagonal(cov, axis1=1, axis2=2)), rows, self._y_is_flat))
        if return_cov:
            result.append(cov.astype(rows.mean.dtype, copy=False))
        if return_state:
            result.append(ends if lengths is not None else ends[0])
        return tuple(result) if len(result) > 1 else outputs

    def transform(self, X: UncertainRows, lengths: Lengths = None) -> FloatArray:
        """The mean states of the reservoir, (n, n_units), as in :meth:`pesn.EchoStateNetwork.transform`.

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
        begun = starts(self, lengths, None, len(rows.mean), self._beginning)
        return transform_sequences(self._open_loop(), rows, begun, self.start_)

    def unit_moments(self, rng: Rng = None) -> ActivationMoments:
        """How moments pass the units; ``rng`` draws for "monte-carlo", None: as ``random_state`` says."""
        return self._propagation(rng).units

    def check_online(self) -> None:  # noqa: D102
        super().check_online()
        if self.noise > 0.0:
            raise ValueError(f"noise must be 0 for online(), which follows the means alone, got {self.noise!r}; use partial_fit")

    def check_stored(self) -> None:  # noqa: D102
        if self.start_ is not None:
            d, n = self.n_features_in_, self.reservoir_.n_units
            self.start_.check("start_", d, self.features.n_earlier(d) + n)
        super().check_stored()

    def _propagation(self, rng: Rng = None) -> Propagation:
        if rng is None and (self.moments == "monte-carlo" or self.covariance == "ensemble"):
            rng = generator(self.random_state)  # only draws need a seed: to ask for one moves a RandomState on
        form = self.covariance, self.rank, self.n_members
        return Propagation(self.reservoir_.activation, self.moments, *form, self.noise, self.features, rng)

    def member_draws(self) -> Draws:
        """What moves the members of an ensemble in a closed loop, as ``random_state`` says."""
        return Draws(int(generator(self.random_state).integers(2**63)) if self.covariance == "ensemble" else 0, sobol=True)

    def _open_loop(self) -> OpenLoop:
        return self._propagation().with_readout(self.reservoir_, self.readout_, self.start_, self.process_noise_)

    def _beginning(self) -> State:
        """Where sequences start in ``predict``: as in ``fit``, or by what ``start_`` has learnt, of earlier rows too."""
        zero, d = self.initial(), self.n_features_in_
        if self.start_ is None or isinstance(self.initial_state, Gaussian) or self.initial_state == "zero":
            return zero
        if self.initial_state == "stationary":
            mean, root = self.start_.stationary()
            both = Gaussian(mean, factor=root.T, var=np.zeros(len(mean)))
            return state_of(both, self.n_outputs_, self.features.n_earlier(d))
        return zero._replace(rows=np.empty((0, d)))  # the first rows say where

    def __getstate__(self) -> dict[str, object]:
        state = dict(super().__getstate__())
        start = state.get("initial_state")
        if isinstance(start, Gaussian):  # by its arrays: a file rebuilds a Gaussian through its own checks
            cov = start.cov if start.diagonal is None else None
            state["initial_state"] = {"mean": start.mean, "var": start.diagonal, "cov": cov, "factor": start.factor}
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        start = state.get("initial_state")
        if isinstance(start, dict):
            state = {**state, "initial_state": Gaussian(**start)}
        super().__setstate__(state)
