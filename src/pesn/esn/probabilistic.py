"""Echo state network with a Gaussian state: uncertain inputs, initial states and weights give the output a standard deviation.

>>> import numpy as np, pesn
>>> series = np.sin(0.2 * np.arange(1001.0))[:, None]
>>> esn = ProbabilisticESN(50, random_state=0).fit(series[:-1], series[1:])
>>> noisy = pesn.Gaussian(series[-200:], var=np.full((200, 1), 0.1**2))
>>> mean, std = esn.predict(noisy, return_std=True)
>>> mean.shape, std.shape, bool(np.all(std > 0.01))
((200, 1), (200, 1), True)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, final, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pesn._support.arguments import flag
from pesn._support.progress import Steps
from pesn._support.records import rollback_on_error
from pesn._support.threads import one_blas_thread
from pesn._support.types import CovarianceChoice, FloatArray, InitialStateName, Lengths, ProcessNoise, Rng
from pesn.activations import get
from pesn.esn.base import ReservoirEstimator
from pesn.esn.online import Online
from pesn.esn.training import Drive, StartRows, Starts, StreamedRows, drive_sequences, generator, process_noise_scale
from pesn.esn.validation import (
    States,
    TrainingRows,
    UncertainRows,
    as_rows,
    check_probabilistic,
    require_fit,
    shape_outputs,
    starting_states,
)
from pesn.evaluation.calibration import covariance_form, process_noise
from pesn.gaussian import Gaussian
from pesn.moments import UnitMethod, parse_method
from pesn.readout.ridge import PARTS, check_parts, weights_cov
from pesn.reservoir.drive import State, chunks
from pesn.reservoir.initial_state import LocalStart, Start, learn_start, make_state
from pesn.reservoir.open_loop import OpenLoop, can_predict_many, predict_many, predict_rows
from pesn.reservoir.sequences import BLOCK, Array, Rows
from pesn.statespace.cell import ActivationMoments
from pesn.statespace.ensemble import Draws

if TYPE_CHECKING:
    from pesn.esn.classifier import ReservoirClassifier

Keep: TypeAlias = Callable[[slice, Array, dict[str, Any]], None]  # receives rows, means of outputs, other arrays by name

_AT_ONCE = 2**19  # features per block of rows: memory of one block is reused by the next
_SETTLED = 1e-12  # relative to the noise of the outputs; below, the state counts as certain


def open_loop(esn: ProbabilisticESN | ReservoirClassifier, rng: Rng = None, **options: Any) -> OpenLoop:
    """Return the reservoir of a network as a state-space model whose state is Gaussian, without a readout.

    Parameters
    ----------
    esn : ProbabilisticESN or ReservoirClassifier
        Network whose reservoir is drawn.
    rng : seed or Generator, optional
        Draws for the moments "monte-carlo" and for the members of an ensemble. None: as ``random_state`` says.
    **options : object
        Fields of :class:`pesn.reservoir.open_loop.OpenLoop` that differ, such as the weights of a readout.

    Returns
    -------
    OpenLoop
    """
    if rng is None and (esn.moments == "monte-carlo" or esn.covariance == "ensemble"):
        rng = generator(esn.random_state)  # only if draws are needed: this advances a RandomState
    method, mesh = parse_method("moments", esn.moments)
    reservoir = esn.reservoir_
    fields: dict[str, Any] = {
        "reservoir": reservoir,
        "weights": np.zeros((reservoir.n_outputs, esn.features.size(reservoir.n_inputs, reservoir.n_units))),
        "units": ActivationMoments(get(reservoir.activation), method, mesh, rng),
        "form": covariance_form(esn.covariance, reservoir.n_units, esn.rank),
        "process_noise": process_noise(None, 0.0, esn.noise, reservoir.n_units),
    }
    same: Any = {name: getattr(esn, name) for name in ("rank", "moments", "features", "n_members")}
    return OpenLoop(**{**fields, **same, "rng": rng, **options})


def gaussian_drive(loop: OpenLoop) -> Drive:
    """Return a drive of Gaussian states, whose means the readout is fitted to; ``noise`` is a variance here."""

    def drive(z: Array, var: Array | None, state: State, targets: Array) -> tuple[Array, State]:
        path, state = predict_rows(loop, z, var, state, clamp=targets)
        return path.probed["features"], state

    return drive


def run_sequences(
    loop: OpenLoop, rows: Rows, starts: Starts, start: Start | LocalStart | None, keep: Keep, size: int = BLOCK, **options: bool
) -> list[State]:  # fmt: skip
    """Run each sequence from its initial state, many side by side if possible; return the final states.

    ``keep(rows, means, others)`` receives the outputs (n, m) of each block, and its features, units, covariances and leverages by
    name.
    """
    sequences, states = [sequence for sequence, _ in starts], [state for _, state in starts]
    ends: list[State] = []
    if can_predict_many(loop, rows.var is None, sequences, states, start):
        for which, block in chunks(sequences, 4 * size):
            found, after = predict_many(loop, *rows.take(block), sequences[which], states[which], start)
            keep(block, found["mean"], found)
            ends += after
        return ends

    def step(block: slice, state: State) -> State:
        path, state = predict_rows(loop, *rows.take(block), state, start)
        keep(block, path.mean, path.probed)
        return state

    return drive_sequences(step, starts, size, **options)


_No: TypeAlias = Literal[False]
_Yes: TypeAlias = Literal[True]


@final
@dataclass(eq=False, repr=False, kw_only=True)
class ProbabilisticESN(ReservoirEstimator):
    """Echo state network that propagates mean and covariance of its units through time, without sampling.

    The readout is fitted to the mean states. The variance of a prediction has three parts: of the state,
    W_out Σ_b W_outᵀ with Σ_b the covariance of the features [1, z, h]; of the residuals; and of the readout weights.

    Parameters
    ----------
    n_units : int, default=100
        As in :class:`pesn.EchoStateNetwork`.
    spectral_radius : float, default=0.9
        As in :class:`pesn.EchoStateNetwork`.
    leak_rate : float or array-like of shape (n_units,), default=0.5
        As in :class:`pesn.EchoStateNetwork`.
    density : float, default=0.1
        As in :class:`pesn.EchoStateNetwork`.
    input_scaling : float or array-like, default=0.5
        As in :class:`pesn.EchoStateNetwork`.
    bias_scaling : float or array-like, default=0.2
        As in :class:`pesn.EchoStateNetwork`.
    random_state : int, RandomState or None, default=None
        As in :class:`pesn.EchoStateNetwork`.
    activation : str or Activation, default="tanh"
        As in :class:`pesn.EchoStateNetwork`.
    topology : {"random", "ring", "orthogonal", "none"}, callable or matrix, default="random"
        As in :class:`pesn.EchoStateNetwork`.
    features : Features, default=Features()
        As in :class:`pesn.EchoStateNetwork`.
    layers : int or list, default=1
        As in :class:`pesn.EchoStateNetwork`.
    memory : {"leaky", "orthogonal"} or matrix, default="leaky"
        As in :class:`pesn.EchoStateNetwork`.
    feedback_scaling : float or array-like, default=0.0
        As in :class:`pesn.EchoStateNetwork`.
    noise : float, default=0.0
        M_e. No noise is drawn: M_e² is added to the variance of every unit at every step, in ``fit`` and in ``predict``.
    ridge : float, pair of float or "auto", default=1e-6
        As in :class:`pesn.EchoStateNetwork`.
    forgetting : float, default=0.999
        As in :class:`pesn.EchoStateNetwork`.
    rls_delta : float or None, default=None
        As in :class:`pesn.EchoStateNetwork`.
    rls_prior : bool, default=True
        As in :class:`pesn.EchoStateNetwork`.
    washout : int or "auto", default=0
        As in :class:`pesn.EchoStateNetwork`.
    feedback : {"teacher", "own"}, default="teacher"
        As in :class:`pesn.EchoStateNetwork`.
    local : Patches or None, default=None
        As in :class:`pesn.EchoStateNetwork`.
    covariance : {"auto", "full", "low-rank", "diagonal", "ensemble"}, default="auto"
        Form of the covariance. ``"full"``: between all inputs, units and fed-back outputs; ``"low-rank"``: the same by a factor
        of ``rank`` columns, for large reservoirs; ``"auto"``: full up to 200 units, low-rank above; ``"diagonal"``: variances
        only, as in the paper, whose intervals are far from their level; ``"ensemble"``: Monte Carlo with ``n_members`` networks,
        whose observations enter by the ensemble Kalman filter. Its draws are scrambled Sobol points seeded by ``random_state``.
    rank : int, default=40
        Number of columns of the factor of ``"low-rank"``; with as many as units it is the full covariance.
    n_members : int, default=256
        Number of members of ``"ensemble"``, at least 2.
    moments : str or tuple, default="surface"
        Method for the moments of the units, as in :func:`pesn.moments`, or ``("spline", pesn.Mesh(...))``. ``"monte-carlo"``
        draws anew in every call, from ``random_state``: two calls on halves are not one on the whole.
    initial_state : {"learned", "stationary", "zero"} or Gaussian, default="learned"
        Initial state of each sequence in ``predict``. ``"learned"``: a regression of the state on the first rows, with its
        posterior covariance; ``"stationary"``: the long-run distribution; ``"zero"``; or a :class:`pesn.Gaussian` over the units.
        In ``fit`` a sequence starts from zero, or from the Gaussian.
    process_noise : float or "auto", default="auto"
        Covariance added to the units at every step of ``predict``, relative to their long-run covariance. ``"auto"``: with
        feedback, the value with the best CRPS of 20-step forecasts on a validation set; without, 0, as no error is carried on.
        The value is in ``process_noise_``.
    verbose : bool, default=False
        As in :class:`pesn.EchoStateNetwork`.

    Attributes
    ----------
    start_ : Start or LocalStart or None
        Distribution of the state given the first rows of a sequence. None after ``partial_fit`` without ``fit``: sequences then
        start from zero.
    process_noise_ : float
        Process noise in use.
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

    def fit_stream(self, given: StreamedRows, steps: Steps) -> Self:
        """Fit to sequences that are read anew in each pass, one at a time in memory; the numbers are those of ``fit``.

        Parameters
        ----------
        given : StreamedRows
            Sequences without missing values, in float64.
        steps : Steps
            Progress of the passes.

        Returns
        -------
        Self
            The fitted network.
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
        """Raise a ValueError if the parameters need all rows in memory."""
        if self.feedback == "own":
            raise ValueError("feedback must be 'teacher' where runs are streamed: it takes all rows at once, got 'own'")

    def check_parameters(self) -> None:
        """Raise a ValueError or TypeError if a parameter is wrong."""
        check_probabilistic(self)

    def drive(self, rng: np.random.Generator | None = None) -> Drive:
        """Return the function that drives the network in ``fit``."""
        return gaussian_drive(open_loop(self, rng))

    def initial(self) -> State:
        """Return the state that sequences start from in ``fit``: a given Gaussian over the units, or zero."""
        given, n, m = self.initial_state, self.reservoir_.n_units, self.reservoir_.n_outputs
        if not isinstance(given, Gaussian):
            return State(np.zeros(n), np.zeros(n), np.zeros(m), np.zeros(m))
        if given.mean.shape != (n,):
            raise ValueError(f"initial_state must be a Gaussian over the {n} units, got one of shape {given.mean.shape}")
        return make_state(given, m)

    def _fit_start(self, kept: StartRows | None, given: TrainingRows | StreamedRows, steps: Steps) -> None:
        with steps.step("learning the start"):
            self.start_ = start = learn_start(kept.pieces if kept else [], self.local, self.features, self.n_outputs_)
        self.process_noise_ = process_noise_scale(self, open_loop(self), start, given, steps)

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
        self.start_, self.process_noise_ = None, 0.0
        return super().begin_online(n_inputs, n_outputs, given)

    @overload  # the order of scikit-learn's Gaussian process: return_std is second
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

    @one_blas_thread()
    def predict(
        self, X: UncertainRows, return_std: bool = False, return_cov: bool = False, lengths: Lengths = None, state: States = None,
        return_state: bool = False, *, parts: Collection[str] = PARTS,
    ) -> FloatArray | tuple[FloatArray | State | list[State], ...]:  # fmt: skip
        """Predict the mean of the outputs for each row of X, on request with its uncertainty.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or Gaussian
            Inputs. A Gaussian: ``Gaussian(mean=(n, d), var=(n, d))``, of which only variances are used.
        return_std : bool, default=False
            Whether to return standard deviations.
        return_cov : bool, default=False
            Whether to return covariances between the outputs of a row.
        lengths : list of int, optional
            Number of rows of each sequence, if X holds several one after the other.
        state : State or list of State, optional
            Initial state, as ``return_state`` returns it, or ``state_``; None: by ``initial_state``.
        return_state : bool, default=False
            Whether to return the final state.
        parts : tuple of str, default=("state", "noise", "weights")
            Parts of the variance to add up: "state", the paper's W_out Σ_b W_outᵀ with Σ_b the covariance of [1, z, h]; "noise",
            R of the residuals; "weights", R (bᵀ A⁻¹ b + tr(A⁻¹ Σ_b)) of the readout weights.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            As y was.
        std : ndarray of the shape of mean, or cov : ndarray of shape (n_samples, n_outputs, n_outputs)
            With ``return_std`` or ``return_cov``.
        state : State or list of State
            With ``return_state``; a list with ``lengths``.
        """
        check_parts(parts)
        for name, value in (("return_std", return_std), ("return_cov", return_cov), ("return_state", return_state)):
            flag(name, value)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov exclude each other; the square root of cov's diagonal is std")
        require_fit(self)
        rows = as_rows(self, X)
        starts = starting_states(self, lengths, state, len(rows.mean), self._predict_start, gaussian=True)
        mean, cov, ends = self._predict(rows, starts, parts if return_std or return_cov else None)
        outputs = shape_outputs(mean, rows, self._y_is_flat)
        result: list[FloatArray | State | list[State]] = [outputs]
        if return_std:
            result.append(shape_outputs(np.sqrt(np.diagonal(cov, axis1=1, axis2=2)), rows, self._y_is_flat))
        if return_cov:
            result.append(cov.astype(rows.mean.dtype, copy=False))
        if return_state:
            result.append(ends if lengths is not None else ends[0])
        return tuple(result) if len(result) > 1 else outputs

    @one_blas_thread()
    def transform(self, X: UncertainRows, lengths: Lengths = None) -> FloatArray:
        """Compute the mean states of the reservoir, as :meth:`pesn.EchoStateNetwork.transform`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or Gaussian
            Inputs, as in :meth:`predict`.
        lengths : list of int, optional
            Number of rows of each sequence.

        Returns
        -------
        ndarray of shape (n_samples, n_units)
            Mean states, in the precision of X.
        """
        check_is_fitted(self)
        rows = as_rows(self, X)
        starts = starting_states(self, lengths, None, len(rows.mean), self._predict_start)
        loop, states = self._open_loop(), np.empty((len(rows.mean), self.reservoir_.n_units), dtype=rows.mean.dtype)

        def keep(block: slice, _: Array, found: dict[str, Any]) -> None:
            states[block] = found["units"]

        run_sequences(loop, rows, starts, self.start_, keep, parallel=loop.rng is None)
        return states

    def _predict(self, rows: Rows, starts: Starts, parts: Collection[str] | None) -> tuple[Array, Array, list[State]]:
        """Return means (n, m), the sum of the ``parts`` of the covariance (n, m, m), empty for None, and the final states."""
        loop, readout, (n, m) = self._open_loop(), self.readout_, (len(rows.mean), self.n_outputs_)
        mean, cov = np.empty((n, m)), np.empty((0 if parts is None else n, m, m))

        def keep(block: slice, outputs: Array, found: dict[str, Any]) -> None:
            mean[block] = outputs
            if parts is not None:
                leverage = readout.leverage(found["features"]) + found["leverage"]
                each = found["cov"], readout.residual_cov, weights_cov(readout.residual_cov, leverage)
                cov[block] = sum(part for name, part in zip(PARTS, each, strict=True) if name in parts)

        # the other forms are slow enough that the size of blocks does not matter
        size = min(BLOCK, max(_AT_ONCE // readout.weights.shape[1], 256)) if loop.form == "diagonal" else BLOCK
        return mean, cov, run_sequences(loop, rows, starts, self.start_, keep, size, parallel=False)

    def check_attributes(self) -> None:  # noqa: D102
        if self.start_ is not None:
            d, n = self.n_features_in_, self.reservoir_.n_units
            self.start_.check("start_", d, self.features.n_earlier(d) + n)
        super().check_attributes()

    def member_draws(self) -> Draws | None:
        """Return the draws of an ensemble in closed loop, seeded by ``random_state``; None for other forms."""
        return Draws(int(generator(self.random_state).integers(2**63)), sobol=True) if self.covariance == "ensemble" else None

    def _open_loop(self) -> OpenLoop:
        """Return the model with its readout, as ``predict`` runs it, with process noise."""
        readout, weights = self.readout_, np.asarray(self.readout_.weights, float)
        noise = process_noise(self.start_, self.process_noise_, self.noise, self.reservoir_.n_units)
        settled = _SETTLED * float(np.diagonal(readout.residual_cov).min())
        return open_loop(self, weights=weights, readout=readout, process_noise=noise, settled=settled)

    def _predict_start(self) -> State:
        """Return the state that sequences start from in ``predict``."""
        zero, d = self.initial(), self.n_features_in_
        if self.start_ is None or isinstance(self.initial_state, Gaussian) or self.initial_state == "zero":
            return zero
        if self.initial_state == "stationary":
            mean, root = self.start_.stationary()
            both = Gaussian(mean, factor=root.T, var=np.zeros(len(mean)))
            return make_state(both, self.n_outputs_, self.features.n_earlier(d))
        return zero._replace(rows=np.empty((0, d)))  # to be filled by the first rows

    def __getstate__(self) -> dict[str, object]:
        state = dict(super().__getstate__())
        start = state.get("initial_state")
        if isinstance(start, Gaussian):  # as arrays: loading calls the constructor with its checks
            cov = start.cov if start.diagonal is None else None
            state["initial_state"] = {"mean": start.mean, "var": start.diagonal, "cov": cov, "factor": start.factor}
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        start = state.get("initial_state")
        if isinstance(start, dict):
            state = {**state, "initial_state": Gaussian(**start)}
        super().__setstate__(state)
