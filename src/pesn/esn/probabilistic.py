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
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np

from pesn._support.arguments import FloatArray
from pesn._support.checks import flag, number, whole_number
from pesn._support.progress import Steps
from pesn.activations import Activation, get
from pesn.esn.network import EchoStateNetwork
from pesn.gaussian import Gaussian
from pesn.learning.process_noise import form_of, process_noise, search_open_loop
from pesn.moments import named_method
from pesn.readout.ridge import PARTS, check_parts, predictive_variance
from pesn.reservoir.drive import Reservoir, State
from pesn.reservoir.initial_state import MOST_FEATURES, MOST_LAGS, Start
from pesn.reservoir.initial_state import learn as learn_start
from pesn.reservoir.open_loop import OpenLoop, predict_rows, state_of, state_shapes
from pesn.reservoir.sequences import Array, Rows, blocks, features
from pesn.reservoir.topology import Topology
from pesn.statespace import ActivationMoments

__all__ = ["ProbabilisticESN"]

_COVARIANCES = ("auto", "full", "low-rank", "diagonal")
_STARTS = ("learned", "stationary", "zero")
_ROWS = 6  # kept for each column of the start's regression
_PIECE = 64  # rows of a long series that are kept together
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
_SETTLED = 1e-12  # of the outputs' noise: below, the state passes for certain


class ProbabilisticESN(EchoStateNetwork):
    """An echo state network that carries mean and variance of every unit through time, without sampling.

    The readout learns from the mean states. The variance of a prediction has three parts: of the state,
    W_out Σ_b W_outᵀ with Σ_b of [1, z, h]; of the residuals; and of the readout's weights.

    Parameters
    ----------
    n_units, spectral_radius, leak_rate, density, input_scaling, feedback_scaling, bias_scaling, ridge, forgetting, \
rls_delta, washout, random_state, activation, topology, verbose
        As in :class:`pesn.EchoStateNetwork`.
    noise
        M_e. No noise is drawn: M_e² enters the variance of every unit at every step, in ``fit`` and in ``predict``.
    covariance
        ``"full"``: every covariance between inputs, units and fed-back outputs; ``"low-rank"``: the same through a factor of
        ``rank`` columns, for large reservoirs; ``"auto"``: full up to 200 units, low-rank above; ``"diagonal"``: a variance
        for each unit and none between them, as in the paper, whose intervals are far from their level.
    rank
        Columns of the factor of ``"low-rank"``; with as many as units it is the full covariance.
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

    start_: Start | None

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
        covariance: str = "auto",
        rank: int = 40,
        moments: Any = "surface",
        initial_state: Any = "learned",
        process_noise: Any = "auto",
        verbose: bool = False,
    ) -> None:
        super().__init__(
            n_units,
            spectral_radius=spectral_radius,
            leak_rate=leak_rate,
            density=density,
            input_scaling=input_scaling,
            feedback_scaling=feedback_scaling,
            bias_scaling=bias_scaling,
            noise=noise,
            ridge=ridge,
            forgetting=forgetting,
            rls_delta=rls_delta,
            washout=washout,
            random_state=random_state,
            activation=activation,
            topology=topology,
            verbose=verbose,
        )
        self.covariance = covariance
        self.rank = rank
        self.moments = moments
        self.initial_state = initial_state
        self.process_noise = process_noise

    @overload  # type: ignore[override]  # the order of scikit-learn's Gaussian process: return_std comes second
    def predict(
        self,
        X: Any,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        lengths: Any = None,
        state: Any = None,
        return_state: Literal[False] = False,
        *,
        parts: Collection[str] = PARTS,
    ) -> FloatArray: ...
    @overload
    def predict(
        self,
        X: Any,
        return_std: Literal[True],
        return_cov: Literal[False] = False,
        lengths: Any = None,
        state: Any = None,
        return_state: Literal[False] = False,
        *,
        parts: Collection[str] = PARTS,
    ) -> tuple[FloatArray, FloatArray]: ...
    @overload
    def predict(
        self,
        X: Any,
        return_std: Literal[False] = False,
        *,
        return_cov: Literal[True],
        lengths: Any = None,
        state: Any = None,
        return_state: Literal[False] = False,
        parts: Collection[str] = PARTS,
    ) -> tuple[FloatArray, FloatArray]: ...
    @overload
    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        lengths: Any = None,
        state: Any = None,
        return_state: bool = False,
        *,
        parts: Collection[str] = PARTS,
    ) -> Any: ...

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        lengths: Any = None,
        state: Any = None,
        return_state: bool = False,
        *,
        parts: Collection[str] = PARTS,
    ) -> Any:
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
        """
        check_parts(parts)
        for name, value in (("return_std", return_std), ("return_cov", return_cov), ("return_state", return_state)):
            flag(name, value)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov exclude each other; the square root of cov's diagonal is std")
        self._refuse_unfitted()
        rows = self._rows(X)
        n, m = len(rows.mean), self.n_outputs_
        outputs = np.empty((n, m))
        spread = np.empty((n, m, m) if return_cov else (n, m))
        ends, loop = [], self._open_loop(self._draws())
        for sequence, current in self._starts(lengths, state, n):
            for block in blocks(sequence):
                z, v = rows.take(block)
                path, current = predict_rows(loop, z, v, current, self.start_)
                outputs[block] = path.mean
                if return_std or return_cov:
                    found = predictive_variance(self.readout_, features(z, path.probed["units"]), full=True)
                    found["state"] = path.probed["cov"]
                    found["weights"] += path.probed["leverage"][:, None, None] * self.readout_.residual_cov
                    cov = sum((found[name] for name in PARTS if name in parts), np.zeros((1, m, m)))
                    spread[block] = cov if return_cov else np.diagonal(cov, axis1=1, axis2=2)
            ends.append(current)
        result = [self._as_given(outputs, rows)]
        if return_std:
            result.append(self._as_given(np.sqrt(spread), rows))
        if return_cov:
            result.append(spread.astype(rows.mean.dtype, copy=False))
        if return_state:
            result.append(ends if lengths is not None else ends[0])
        return tuple(result) if len(result) > 1 else result[0]

    # ---------------------------------------------------------------- in its own way

    def _open_loop(self, rng: Any) -> OpenLoop:
        """The reservoir with its readout, as ``predict`` runs it."""
        readout = self.readout_
        noise = process_noise(self.start_, self.process_noise_, self.noise, self.reservoir_.n_units)
        return replace(
            self._without_readout(self.reservoir_, rng),
            weights=np.asarray(readout.weights, float),
            weights_root=np.asarray(readout.covariance_root, float),
            process_noise=noise,
            settled=_SETTLED * float(np.diagonal(readout.residual_cov).min()),
        )

    def _without_readout(self, reservoir: Reservoir, rng: Any) -> OpenLoop:
        """The reservoir without a readout, as ``fit`` drives it."""
        weights = np.zeros((reservoir.n_outputs, 1 + reservoir.n_inputs + reservoir.n_units))
        form = form_of(self.covariance, reservoir.n_units, self.rank)
        noise = process_noise(None, 0.0, self.noise, reservoir.n_units)
        return OpenLoop(reservoir, weights, self.unit_moments(rng), form, self.rank, noise, moments=self.moments, rng=rng)

    def unit_moments(self, rng: Any = None) -> ActivationMoments:
        """How moments pass the units; ``rng`` draws for "monte-carlo", None: as ``random_state`` says."""
        method, mesh = named_method("moments", self.moments)
        return ActivationMoments(get(self.activation), method, mesh, self._draws() if rng is None else rng)

    def _beginning(self) -> State:
        start = self._initial_state(self.reservoir_)
        if self.start_ is None or isinstance(self.initial_state, Gaussian) or self.initial_state == "zero":
            return start
        if self.initial_state == "stationary":
            mean, root = self.start_.stationary()
            return state_of(Gaussian(mean, factor=root.T, var=np.zeros(len(mean))), self.n_outputs_)
        return start._replace(rows=np.empty((0, self.n_features_in_)))  # the first rows say where

    def _initial_state(self, reservoir: Reservoir) -> State:
        n, m = reservoir.n_units, reservoir.n_outputs
        if not isinstance(self.initial_state, Gaussian):
            return State(np.zeros(n), np.zeros(n), np.zeros(m), np.zeros(m))
        if self.initial_state.mean.shape != (n,):
            found = self.initial_state.mean.shape
            raise ValueError(f"initial_state must be a Gaussian over the {n} units, got one of shape {found}")
        return state_of(self.initial_state, m)

    def _drive(
        self, reservoir: Reservoir, rows: Rows, block: slice, state: State, targets: Array, noise: float, rng: Any
    ) -> tuple[Array, State]:
        # self.noise, also where none is drawn: here it is variance
        z, v = rows.take(block)
        path, state = predict_rows(self._without_readout(reservoir, rng), z, v, state, clamp=targets[block])
        return features(z, path.probed["units"]), state

    def _draws(self) -> Any:
        # only draws need a seed: to ask for one moves a RandomState on
        return self._rng() if self.moments == "monte-carlo" else None

    def _states(self, rows: Rows, block: slice, state: State, rng: Any) -> tuple[Array, State]:
        path, state = predict_rows(self._open_loop(rng), *rows.take(block), state, self.start_)
        return path.probed["units"], state

    # ---------------------------------------------------------------- learning where to start and how far to trust

    def _watch(self, b: Array, washed: int, n_rows: int) -> None:
        """Keep rows for the start's regression: all, or pieces spread over a long series, as many as it needs in all."""
        n, (kept, count) = self.n_units, self.__dict__.setdefault("_kept", ([], 0))
        share = _ROWS * (MOST_FEATURES + n) / n_rows
        for piece in blocks(slice(washed, len(b)), len(b) if share >= 1.0 else _PIECE):
            if count * _GOLDEN % 1.0 < share:  # a fixed stride would see a period, or short sequences, at one place only
                first = max(piece.start - MOST_LAGS + 1, 0)  # what the rows may look back on
                z, h = b[first : piece.stop, 1:-n], b[first : piece.stop, -n:]
                kept.append((z.copy(), h.copy(), piece.start - first))
            count += 1
        self._kept = kept, count

    def _conclude(self, reservoir: Reservoir, rows: Rows, targets: Array, sequences: list[slice], steps: Steps) -> None:
        with steps.step("learning the start"):
            self.start_ = learn_start(self.__dict__.pop("_kept")[0])
        self.process_noise_ = 0.0 if self.process_noise == "auto" else float(self.process_noise)
        if self.process_noise == "auto" and np.any(reservoir.W_fb):
            longest = max(sequences, key=lambda rows: rows.stop - rows.start)
            loop = self._without_readout(reservoir, self._draws())
            with steps.step("choosing process noise"):
                self.process_noise_ = search_open_loop(
                    loop, self.start_, self.noise, rows.take(longest)[0], targets[longest], self.ridge, self.washout_
                )

    def _begin_online(self) -> None:
        if self.process_noise not in ("auto", 0):
            raise ValueError(
                f"process_noise must be 0 or 'auto' before fit, which finds out what it is a share of, got {self.process_noise!r}"
            )
        self.start_, self.process_noise_ = None, 0.0

    def _refuse_state(self, given: State) -> None:
        super()._refuse_state(given)
        for name, (part, shape) in state_shapes(given, self.reservoir_.n_units, self.n_outputs_).items():
            if np.shape(part) != shape:
                raise ValueError(f"state must be of this network, with {name} of shape {shape}, got {np.shape(part)}")

    def _rows(self, X: Any) -> Rows:
        return _with_variance(super()._rows(_mean_of(X)), X)

    def _learn_from(self, X: Any, y: Any, reset: bool, least: int) -> tuple[Rows, Array]:
        rows, targets = super()._learn_from(_mean_of(X), y, reset, least)
        return _with_variance(rows, X), targets

    def _check_parameters(self) -> None:
        super()._check_parameters()
        whole_number("rank", self.rank, 1)
        named_method("moments", self.moments)
        if not isinstance(self.covariance, str) or self.covariance not in _COVARIANCES:
            raise ValueError(f"covariance must be one of {', '.join(map(repr, _COVARIANCES))}, got {self.covariance!r}")
        if not isinstance(self.initial_state, Gaussian) and (
            not isinstance(self.initial_state, str) or self.initial_state not in _STARTS
        ):
            kinds = f"one of {', '.join(map(repr, _STARTS))} or a pesn.Gaussian over the units"
            raise ValueError(f"initial_state must be {kinds}, got {self.initial_state!r}")
        if isinstance(self.process_noise, str):
            if self.process_noise != "auto":
                raise ValueError(f"process_noise must be 'auto' or a number, 0 or more, got {self.process_noise!r}")
        else:
            number("process_noise", self.process_noise, 0.0, 1e6, "[]")

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        start = state.get("initial_state")
        if isinstance(start, Gaussian):  # by its arrays: a file rebuilds a Gaussian through its own checks
            cov = start.cov if start.diagonal is None else None
            state["initial_state"] = {"mean": start.mean, "var": start.diagonal, "cov": cov, "factor": start.factor}
        return state

    def __setstate__(self, state: Any) -> None:
        start = state.get("initial_state")
        if isinstance(start, dict):
            state = {**state, "initial_state": Gaussian(**start)}
        super().__setstate__(state)


def _mean_of(X: Any) -> Any:
    return X.mean if isinstance(X, Gaussian) else X


def _with_variance(rows: Rows, X: Any) -> Rows:
    return Rows(rows.mean, X.var) if isinstance(X, Gaussian) else rows
