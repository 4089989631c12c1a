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

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pesn.esn import EchoStateNetwork
from pesn.gaussian import Gaussian
from pesn.parameters import flag, whole_number
from pesn.readout import predictive_variance
from pesn.reservoir import Reservoir, State, run_gaussian
from pesn.sequences import Array, Rows, blocks, features

__all__ = ["ProbabilisticESN"]

_LATER = {"covariance": ("auto", "full", "low-rank"), "initial_state": ("learned", "stationary"), "process_noise": ("auto",)}
_NOW: dict[str, Any] = {"covariance": "diagonal", "initial_state": "zero", "process_noise": 0}


class ProbabilisticESN(EchoStateNetwork):
    """An echo state network that carries mean and variance of every unit through time, without sampling.

    The readout learns from the mean states. The variance of a prediction has three parts: of the state,
    W_out Σ_b W_outᵀ with the diagonal Σ_b of [1, z, h]; of the residuals; and of the readout's weights.

    Parameters
    ----------
    n_units, spectral_radius, leak_rate, density, input_scaling, feedback_scaling, bias_scaling, ridge, forgetting, \
rls_delta, washout, random_state
        As in :class:`pesn.EchoStateNetwork`.
    noise
        M_e. No noise is drawn: M_e² enters the variance of every unit at every step, in ``fit`` and in ``predict``.
    covariance
        ``"diagonal"``: a variance for each unit and none between them, as in the paper.
    rank
        Columns of the factor of ``covariance="low-rank"``; not used by the others.
    moments
        How mean and variance pass tanh: a method of :func:`pesn.moments`, or ``("spline", pesn.Mesh(...))``.
        ``"monte-carlo"`` draws anew, from ``random_state``, in every call: two calls on halves are not one on the whole.
    initial_state
        Where each sequence starts: ``"zero"``, or a :class:`pesn.Gaussian` over the units.
    process_noise
        0: none beside ``noise``.
    """

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
        covariance: str = "diagonal",
        rank: int = 40,
        moments: Any = "surface",
        initial_state: Any = "zero",
        process_noise: Any = 0,
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
        )
        self.covariance = covariance
        self.rank = rank
        self.moments = moments
        self.initial_state = initial_state
        self.process_noise = process_noise

    def predict(  # type: ignore[override]  # the order of scikit-learn's Gaussian process: return_std comes second
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        lengths: Any = None,
        state: Any = None,
        return_state: bool = False,
    ) -> Any:
        """Mean of the outputs for each row of X, an array or a Gaussian a row: ``Gaussian(mean=(n, d), var=(n, d))``.

        Only the variances of X are used. With ``return_std`` (mean, std), each in the shape of y; with ``return_cov``
        (mean, cov), cov (n, m, m) between the outputs of a row. ``return_state`` adds the state at the end, last.
        """
        for name, value in (("return_std", return_std), ("return_cov", return_cov), ("return_state", return_state)):
            flag(name, value)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov exclude each other; the square root of cov's diagonal is std")
        check_is_fitted(self)
        rows = self._rows(X)
        n, m = len(rows.mean), self.n_outputs_
        outputs = np.empty((n, m))
        spread = np.empty((n, m, m) if return_cov else (n, m))
        ends, rng = [], self._draws()
        for sequence, current in self._starts(lengths, state, n):
            for block in blocks(sequence):
                b, b_var, outputs[block], current = self._run(rows, block, current, rng)
                if return_std or return_cov:
                    spread[block] = sum(predictive_variance(self.readout_, b, b_var, full=return_cov).values())
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

    def _run(self, rows: Rows, block: slice, state: State, rng: Any) -> tuple[Array, Array, Array, State]:
        """Features of a block with their variances, outputs, and the state after it; own outputs are fed back."""
        z, v = rows.take(block)
        means, variances, outputs, state = run_gaussian(
            self.reservoir_, z, v, state, readout=self.readout_.weights, noise=self.noise, moments=self.moments, rng=rng
        )
        assert outputs is not None  # there was a readout
        b_var = features(np.zeros_like(z) if v is None else v, variances)
        b_var[:, 0] = 0.0  # the constant is certain
        return features(z, means), b_var, outputs[0], state

    def _initial_state(self, reservoir: Reservoir) -> State:
        n, m = reservoir.n_units, reservoir.n_outputs
        if isinstance(self.initial_state, Gaussian):
            if self.initial_state.mean.shape != (n,):
                found = self.initial_state.mean.shape
                raise ValueError(f"initial_state must be a Gaussian over the {n} units, got one of shape {found}")
            mean, var = (np.array(part, dtype=np.float64) for part in (self.initial_state.mean, self.initial_state.var))
        else:
            mean, var = np.zeros(n), np.zeros(n)
        return State(mean, var, np.zeros(m), np.zeros(m))

    def _drive(
        self, reservoir: Reservoir, rows: Rows, block: slice, state: State, targets: Array, noise: float, rng: Any
    ) -> tuple[Array, State]:
        z, v = rows.take(block)
        means, _, _, state = run_gaussian(
            reservoir, z, v, state, feedback=targets[block], noise=self.noise, moments=self.moments, rng=rng
        )  # self.noise, also where none is drawn: it is part of the variance
        return features(z, means), state

    def _draws(self) -> Any:
        # only draws need a seed: to ask for one moves a RandomState on
        return self._rng() if self.moments == "monte-carlo" else None

    def _states(self, rows: Rows, block: slice, state: State, rng: Any) -> tuple[Array, State]:
        b, _, _, state = self._run(rows, block, state, rng)
        return b[:, -self.reservoir_.n_units :], state

    def _rows(self, X: Any) -> Rows:
        return _with_variance(super()._rows(_mean_of(X)), X)

    def _learn_from(self, X: Any, y: Any, reset: bool, least: int) -> tuple[Rows, Array]:
        rows, targets = super()._learn_from(_mean_of(X), y, reset, least)
        return _with_variance(rows, X), targets

    def _check_parameters(self) -> None:
        super()._check_parameters()
        whole_number("rank", self.rank, 1)
        for name, value in _NOW.items():
            given = getattr(self, name)
            if name == "initial_state" and isinstance(given, Gaussian):
                continue
            plain = isinstance(given, (str, Real)) and not isinstance(given, bool)
            if plain and (given in _LATER[name] or (name == "process_noise" and not isinstance(given, str) and given > 0)):
                raise ValueError(f"{name}={given!r} is not available in this version; use {value!r}")
            if not plain or given != value:
                choice = f"{value!r} or a pesn.Gaussian over the units" if name == "initial_state" else repr(value)
                raise ValueError(f"{name} must be {choice}, got {given!r}")

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
