"""The cart pole of the paper's experiments, and the network that has learned it, run from many starts at once.

Input [x, θ, ẋ, ω, u], standardised; output the change of the two velocities to the next row, in units of its own deviation;
the positions follow by kinematics, x[k+1] = x[k] + dt/2 (ẋ[k] + ẋ[k+1]). The output is fed back. Every function takes a batch
of B runs side by side, B being as many origins or as many random starts as are wanted.

>>> small = parameters() | {"n_units": 20, "training_runs": 1, "run_rows": 400}
>>> network, test = learn(small, seed=0)
>>> rows, fed = network.observed(test, origins=[300, 350], rows=50)
>>> h = network.drive(np.zeros((2, 20)), rows, fed)[-1]
>>> network.free_run(h, fed[-1], test.states[[300, 350]], test.inputs[[[300, 350]]][..., 0]).shape
(1, 2, 4)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from pesn._support.types import Array
from pesn.activations import get
from pesn.paper.items.reservoir import RESERVOIR
from pesn.paper.result import Record
from pesn.paper.settings import Setting, number, whole
from pesn.statespace import ActivationMoments, Cell, Diagonal, GaussianState, Path, StateSpaceModel, rollout
from pesn.statespace.layout import Layout

if TYPE_CHECKING:
    from pesn import Forecaster
    from pesn.reservoir.weights import Reservoir
    from pesn.systems import Trajectories

__all__ = ["COLUMNS", "LABELS", "SETTINGS", "STATES", "Network", "chunks", "learn", "origins", "parameters"]

STATES = ("position", "velocity", "angle", "angular velocity")  # in the order of the paper's table
LABELS = {"position": "x (m)", "velocity": "ẋ (m/s)", "angle": "θ (rad)", "angular velocity": "ω (rad/s)"}
COLUMNS = {"position": 0, "velocity": 2, "angle": 1, "angular velocity": 3}  # where each stands in [x, θ, ẋ, ω]
_SPEEDS, _PLACES = slice(2, 4), slice(0, 2)
_TANH, _IDENTITY = ActivationMoments(get("tanh")), ActivationMoments(get("identity"))


SETTINGS = {
    **RESERVOIR,
    "process_noise": Setting("Noise on the units that the filtered start reckons with.", number(0.0)),
    "training_runs": Setting("Runs of the cart pole that the network learns from.", whole(1)),
    "run_rows": Setting("Rows of a run, of 0.02 s.", whole(300)),
}


def parameters() -> Record:
    """All that decides the network, but its seed: the reservoir, the ridge, the training runs."""
    return {
        "n_units": 100,
        "leak_rate": 0.5,
        "spectral_radius": 0.9,
        "density": 0.1,
        "input_scaling": 0.5,
        "feedback_scaling": 0.2,
        "bias_scaling": 0.2,
        "ridge": 1e-6,
        "washout": 100,
        # what "auto" chooses for these runs, in half a minute
        "process_noise": 1e-4,
        "training_runs": 4,
        "run_rows": 2500,
    }


@dataclass(frozen=True, eq=False)
class Network:
    """A network of N units and the :class:`pesn.Forecaster` that has learnt it, as state-space models of the paper's form."""

    forecaster: Forecaster
    dt: float

    @property
    def reservoir(self) -> Reservoir:
        """Its weights."""
        return self.forecaster.esn_.reservoir_

    @property
    def n_units(self) -> int:
        """N."""
        return self.reservoir.n_units

    @property
    def center(self) -> Array:
        """Means of the inputs (5,)."""
        scale = self.forecaster.scale_
        return np.concatenate([scale.y_mean, scale.x_mean])

    @property
    def spread(self) -> Array:
        """Deviations of the inputs (5,)."""
        scale = self.forecaster.scale_
        return np.concatenate([scale.y_std, scale.x_std])

    @property
    def change(self) -> Array:
        """The deviation (2,) of the velocities' change from row to row."""
        return np.asarray(self.forecaster.output_std_ * self.forecaster.scale_.y_std[_SPEEDS])

    # ---------------------------------------------------------------- what was observed

    def observed(self, run: Trajectories, origins: Sequence[int], rows: int) -> tuple[Array, Array]:
        """The ``rows`` rows before each of B origins in a run: inputs (rows, B, 5), and what is fed back (rows + 1, B, 2).

        Row k + 1 of what is fed back is the change that row k has led to, the last one the change to the origin itself. Before
        the first row nothing was seen: 0 is fed back.
        """
        at = np.asarray(origins)[None, :] + np.arange(-rows, 1)[:, None]
        if rows < 0 or at.min() < 0 or at.max() >= len(run.states):
            raise ValueError(f"origins must have {rows} rows before them in a run of {len(run.states)}, got {list(origins)}")
        states = run.states[at]
        fed = np.zeros((rows + 1, at.shape[1], 2))
        fed[1:] = np.diff(states[..., _SPEEDS], axis=0) / self.change
        inputs = np.concatenate([states[:-1], run.inputs[at[:-1], 0][..., None]], axis=-1)
        return (inputs - self.center) / self.spread, fed

    # ---------------------------------------------------------------- driven

    def drive(self, h: Array, z: Array, fed: Array, noise: Array | None = None) -> Array:
        """Units (T, B, N) from ``h`` (B, N) over rows (T, B, 5); of ``fed`` the first T are used.

        ``noise`` (T, B, N) is added to the units, row by row.
        """
        return self._driven(h, np.zeros_like(h), z, fed, noise)[0]

    def drive_gaussian(self, h: Array, v: Array, z: Array, fed: Array) -> tuple[Array, Array]:
        """Means and variances, each (T, B, N), from those at the start over certain rows: :meth:`drive` of a Gaussian."""
        return self._driven(h, v, z, fed, None)

    def _driven(self, h: Array, v: Array, z: Array, fed: Array, noise: Array | None) -> tuple[Array, Array]:
        """Over x = [z, fed, noise, h]."""
        r = self.reservoir
        at = Layout.of(z=r.n_inputs, fed=2, noise=0 if noise is None else r.n_units, units=r.n_units)
        cells = self._units(at, {"z": r.W_in, "fed": r.W_fb}, r.bias)

        def probe(state: GaussianState) -> dict[str, Array]:
            return {"mean": state.mean[..., at["units"]], "var": state.variances()[..., at["units"]]}

        nothing = np.zeros((0, at.size)), np.zeros(0)  # is carried on but the units: every row brings its own
        model = StateSpaceModel(cells, *nothing, slice(0, at["units"].start), slice(0, 0), probe=probe)
        rows = np.concatenate([z, fed[: len(z)], *([] if noise is None else [noise])], axis=-1)
        path = _rolled(model, at, rows, units=(h, v))
        return _time_first(path.probed["mean"]), _time_first(path.probed["var"])

    # ---------------------------------------------------------------- in its loop

    def free_run(self, h: Array, fed: Array, state: Array, controls: Array, noise: Array | None = None) -> Array:
        """States (T, B, 4) after ``state`` (B, 4) under forces (T, B), the network's own outputs going in again.

        ``noise`` (T, B, N) is added to the units, row by row.
        """
        return self._free(h, np.zeros_like(h), fed, state, controls, noise)[0]

    def free_run_gaussian(self, h: Array, v: Array, fed: Array, state: Array, controls: Array) -> tuple[Array, Array]:
        """Means and variances of the states, each (T, B, 4): :meth:`free_run` of Gaussians, without any covariance."""
        return self._free(h, v, fed, state, controls, None)

    def _free(self, h: Array, v: Array, fed: Array, y: Array, u: Array, noise: Array | None) -> tuple[Array, Array]:
        """Over x = [y, u, noise, output, speeds, h], in the units of y and u.

        The paper takes all that it computes as independent: so its outputs, and the velocities after them, are entries of x.
        """
        r, readout = self.reservoir, np.asarray(self.forecaster.esn_.readout_.weights, float)
        at = Layout.of(y=4, u=1, noise=0 if noise is None else r.n_units, output=2, speeds=2, units=r.n_units)
        W_in, W_z, middle = r.W_in / self.spread, readout[:, 1:6] / self.spread, self.center
        cells = self._units(at, {"y": W_in[:, :4], "u": W_in[:, 4:], "output": r.W_fb}, r.bias - W_in @ middle)
        output = _matrix(at, {"y": W_z[:, :4], "u": W_z[:, 4:], "units": readout[:, 6:]})
        speeds = _matrix(at, {"y": np.eye(4)[_SPEEDS], "output": np.diag(self.change)})
        cells += (
            Cell(at["output"], output, readout[:, 0] - W_z @ middle, 1.0, _IDENTITY),
            Cell(at["speeds"], speeds, np.zeros(2), 1.0, _IDENTITY),
        )
        K, half = np.zeros((4, at.size)), 0.5 * self.dt * np.eye(2)
        K[_PLACES, _PLACES], K[_PLACES, _SPEEDS], K[_PLACES, at["speeds"]] = np.eye(2), half, half
        K[_SPEEDS, at["speeds"]] = np.eye(2)
        model = StateSpaceModel(cells, K, np.zeros(4), slice(4, at["output"].start), at["y"])
        rows = np.concatenate([u[..., None], *([] if noise is None else [noise])], axis=-1)
        path = _rolled(model, at, rows, units=(h, v), y=(y, 0.0), output=(fed, 0.0))
        return _time_first(path.mean), _time_first(np.diagonal(path.cov, axis1=-2, axis2=-1))

    def _units(self, at: Layout, into: dict[str, Array], bias: Array) -> tuple[Cell, ...]:
        """The units, which ``into`` enters beside themselves; and what is added to them, where there is noise."""
        r, mine = self.reservoir, at["units"]
        units = Cell(mine, _matrix(at, into | {"units": r.W.toarray()}), bias, float(r.leak_rate), _TANH)
        if at["noise"].start == at["noise"].stop:
            return (units,)
        both = {"noise": np.eye(r.n_units), "units": np.eye(r.n_units)}
        return units, Cell(mine, _matrix(at, both), np.zeros(r.n_units), 1.0, _IDENTITY)


def _matrix(at: Layout, parts: dict[str, Array]) -> Any:
    """How the blocks of x enter, side by side."""
    result = np.zeros((len(next(iter(parts.values()))), at.size))
    for name, part in parts.items():
        result[:, at[name]] = part
    return sparse.csr_array(result)


def _rolled(model: StateSpaceModel, at: Layout, rows: Array, **start: tuple[Array, Array | float]) -> Path:
    """B runs side by side over ``rows`` (T, B, m), from the means and variances (B, …) of some blocks of x; the others are 0."""
    batch = rows.shape[1]
    mean, var = np.zeros((2, batch, at.size))
    for name, (values, variances) in start.items():
        mean[:, at[name]], var[:, at[name]] = values, variances
    state = Diagonal(mean, len(model.k), np.zeros((batch, at.size, 0)), var)
    return rollout(model, state, np.swapaxes(rows, 0, 1))


def _time_first(a: Array) -> Array:
    return np.swapaxes(a, 0, 1)


def learn(settings: Record, seed: int, test_runs: int = 1) -> tuple[Network, Trajectories]:
    """The network, trained on the first ``training_runs`` runs, and ``test_runs`` more that it has not seen.

    ``settings`` are those of :func:`parameters`. All that is random comes from ``seed``.
    """
    from pesn import Forecaster, ProbabilisticESN
    from pesn.systems.cart_pole import simulate

    n, m = settings["training_runs"], 2
    runs = simulate(runs=n + test_runs, steps=settings["run_rows"], rng=[seed, 0])
    own = {name: value for name, value in settings.items() if name not in ("training_runs", "run_rows")}
    own["input_scaling"] *= 5**0.5  # the paper's weights do not shrink with the number of inputs, here five
    esn = ProbabilisticESN(**own, initial_state="learned", random_state=seed % 2**31)
    half = 0.5 * runs.dt * np.eye(m)
    kinematics = np.hstack([np.eye(m), half]), half, np.zeros(m)
    training = runs[:n]
    forecaster = Forecaster(esn, learn=[2, 3], kinematics=kinematics, calibrate=False)
    forecaster.fit(training.states, training.inputs, lengths=training.lengths)
    return Network(forecaster, runs.dt), runs[n:]


def origins(n: int, before: int, after: int, rows: int) -> list[int]:
    """n rows to forecast from, spread evenly over a run of ``rows``, each with so many rows before and after it.

    >>> origins(3, before=200, after=10, rows=2500)
    [200, 1344, 2489]
    """
    if before + after >= rows:
        raise ValueError(f"rows must be more than {before + after}, before and after an origin, got {rows}")
    return [int(k) for k in np.linspace(before, rows - after - 1, n)]


def chunks(n: int, size: int) -> Iterator[slice]:
    """0 … n in slices of at most ``size``.

    >>> list(chunks(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    return (slice(i, min(i + size, n)) for i in range(0, n, size))
