"""The deterministic echo state network of the paper in plain NumPy, many at once: what Monte Carlo is made of.

h ← (1 − L) h + L tanh(W_in z + W h + bias) + M_e w, o = W_out [1, z, h], with the weights of a fitted
:class:`pesn.Forecaster`: the network that samples go through is the one whose moments are carried. All numbers are in the
forecaster's scaled units.

>>> from pesn.paper.items import robots
>>> small = robots.parameters() | {"n_units": 20, "runs": 2, "run_rows": 400}
>>> forecaster, runs = robots.learn(robots.CART_POLE, small, seed=0)
>>> plain = PlainNetwork(forecaster)
>>> y, u = forecaster.scaled(runs[1].states, runs[1].inputs)
>>> h = plain.drive(np.zeros((5, 20)), np.hstack([y, u])[:50, None])[-1]     # five networks over the same 50 rows
>>> plain.forecast(h, y[50], u[50:60, None])[0].shape
(10, 5, 4)
"""

from __future__ import annotations

import numpy as np

from pesn import Forecaster
from pesn._support.types import Array

__all__ = ["PlainNetwork"]


class PlainNetwork:
    """A fitted forecaster's network without any uncertainty; leading axes are a batch of networks side by side."""

    def __init__(self, forecaster: Forecaster) -> None:
        esn = forecaster.esn_
        r = esn.reservoir_
        self.W, self.W_in, self.bias, self.leak = r.W.toarray(), np.asarray(r.W_in), np.asarray(r.bias), float(r.leak_rate)
        self.readout = np.array(esn.readout_.weights, float)
        self.learned, self.kinematic = forecaster.learned_columns_, forecaster.kinematic_columns_
        self.A, self.B, self.c = forecaster.kinematics_
        self.scale, self.change = np.asarray(forecaster.output_std_), forecaster.target_ == "change"

    @property
    def n_units(self) -> int:
        """N."""
        return len(self.W)

    @property
    def n_states(self) -> int:
        """d."""
        return len(self.learned) + len(self.kinematic)

    def move(self, h: Array, z: Array) -> Array:
        """Units (…, N) after an input (…, n)."""
        moved: Array = (1.0 - self.leak) * h + self.leak * np.tanh(z @ self.W_in.T + h @ self.W.T + self.bias)
        return moved

    def read(self, h: Array, z: Array, weights: Array) -> Array:
        """Outputs (…, m) of the readout's weights (m, 1 + n + N)."""
        n = z.shape[-1]
        found: Array = weights[:, 0] + z @ weights[:, 1 : n + 1].T + h @ weights[:, n + 1 :].T
        return found

    def after(self, y: Array, output: Array) -> Array:
        """States (…, d) one row after y, by what the network puts out."""
        v = output * self.scale + (y[..., self.learned] if self.change else 0.0)
        result = np.empty_like(y)
        result[..., self.learned] = v
        result[..., self.kinematic] = y @ self.A.T + v @ self.B.T + self.c
        return result

    def targets(self, y: Array) -> Array:
        """What it should put out, (T − 1, m), between the rows of y (T, d)."""
        now: Array = (y[1:, self.learned] - (y[:-1, self.learned] if self.change else 0.0)) / self.scale
        return now

    def drive(self, h: Array, z: Array, noise: float = 0.0, rng: np.random.Generator | None = None) -> Array:
        """Units (T, …, N) from h (…, N) over rows (T, …, n), which may be the same for all; noise M_e is drawn from ``rng``."""
        path = np.empty((len(z), *h.shape))
        for k, row in enumerate(z):
            h = self.move(h, row)
            if noise and rng is not None:
                h = h + noise * rng.standard_normal(h.shape)
            path[k] = h
        return path

    def forecast(
        self,
        h: Array,
        y: Array,
        u: Array,
        weights: Array | None = None,
        noise: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> tuple[Array, Array]:
        """States (T, …, d) and outputs (T, …, m) after y (…, d) under inputs (T, …, k), the network's own rows going in again.

        ``weights`` (m, p), or (T, m, p) where they change from step to step; None: those of the forecaster.
        """
        weights = self.readout if weights is None else weights
        y = np.broadcast_to(y, (*h.shape[:-1], y.shape[-1]))
        states, outputs = [], []
        for k, control in enumerate(u):
            z = np.concatenate([y, np.broadcast_to(control, (*y.shape[:-1], control.shape[-1]))], axis=-1)
            h = self.move(h, z)
            if noise and rng is not None:
                h = h + noise * rng.standard_normal(h.shape)
            out = self.read(h, z, weights if weights.ndim == 2 else weights[k])
            y = self.after(y, out)
            states.append(y)
            outputs.append(out)
        return np.array(states), np.array(outputs)
