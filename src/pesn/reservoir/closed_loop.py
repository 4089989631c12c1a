"""A reservoir in a closed loop: what it predicts is its next input, what is observed corrects all that it does not know.

The loop carries c = [y, e, u, o] beside the units h, as one Gaussian (:mod:`pesn.statespace`):

- y (d,), the states of the system, of which z = [y, u] enters the network;
- e (d,), the model's error of the last step. Errors of a learnt model are not white: e_k = ρ e_{k−1} + η_k with ρ and
  Cov η from the training residuals. An error just seen goes on for a while, and the forecast knows it;
- u, the known inputs, uncertain where they are missing;
- o, the network's last output, where it is fed back.

One step: h_k by the units; then, with o_k = W_out [1, y_k, u_k, h_k],

    y_{k+1}[learn] = (y_k[learn] +) s o_k + e_k[learn],      y_{k+1}[rest] = A y_k + B y_{k+1}[learn] + c + e_k[rest]

All of it but tanh is affine, and passes exactly.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn.linalg import as_root, explain, orthonormal, symmetric
from pesn.readout.ridge import Readout
from pesn.reservoir.initial_state import Start
from pesn.reservoir.weights import Reservoir
from pesn.statespace import Belief, Coupling, Noise, start

__all__ = ["PARTS", "Errors", "Loop", "Step", "follow", "learn_errors"]

Array = npt.NDArray[np.float64]
PARTS = ("state", "noise", "weights")
_WIDEST = 2.0  # deviations of y in training: nothing is forecast wider


class Errors(NamedTuple):
    """How a model errs in one step: stationary covariance ``cov`` (d, d), ``persistence`` ρ (d,), ``innovation`` Cov η (d, d)."""

    cov: Array
    persistence: Array
    innovation: Array


def learn_errors(residuals: list[Array], worth: float = 1.0) -> Errors:
    """From one-step residuals (n, d) of contiguous sequences; ``worth`` scales for what the fit itself has used up.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> e = np.zeros((5000, 1))
    >>> for k in range(1, 5000): e[k] = 0.8 * e[k - 1] + rng.normal()
    >>> learn_errors([e]).persistence.round(1)
    array([0.8])
    """
    stacked = np.vstack(residuals)
    cov = symmetric(stacked.T @ stacked) / len(stacked)
    before = [e[:-1] for e in residuals if len(e) > 1] or [stacked[:0]]
    after = [e[1:] for e in residuals if len(e) > 1] or [stacked[:0]]
    old, new = np.vstack(before), np.vstack(after)
    size = np.sum(old * old, axis=0)
    rho = np.divide(np.sum(old * new, axis=0), size, out=np.zeros_like(size), where=size > 0.0)
    rho = np.clip(rho, -0.95, 0.99)
    fresh = new - rho * old
    innovation = symmetric(fresh.T @ fresh) / len(fresh) if len(fresh) else cov
    return Errors(worth * cov, rho, worth * innovation)


def follow(errors: Errors, e: Array, before: Array, share: float) -> Errors:
    """After one more error e (d,), the one before it being ``before``: it has a share in the covariances; ρ stays.

    >>> import numpy as np
    >>> errors = Errors(np.eye(1), np.array([0.5]), np.array([[0.75]]))
    >>> follow(errors, np.array([3.0]), np.array([2.0]), 0.1).cov      # 0.9 · 1 + 0.1 · 3²
    array([[1.8]])
    """
    fresh = e - errors.persistence * before
    cov, innovation = (
        (1.0 - share) * old + share * np.outer(new, new) for old, new in ((errors.cov, e), (errors.innovation, fresh))
    )
    return Errors(cov, errors.persistence, innovation)


class Step(NamedTuple):
    """One step of a loop: the belief after it, and the variance (d,) that each of :data:`PARTS` has in y.

    ``grown`` (d,) are the factors by which the deviations of new errors are larger for what the weights leave open; ``left``
    (d,) the columns whose mean has left the training range and was brought back.
    """

    belief: Belief
    parts: dict[str, Array]
    grown: Array
    left: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Loop:
    """A trained network in its loop, in scaled units.

    ``learn`` and ``rest`` are the columns of y that the network predicts and those of the kinematics ``A`` (r, d), ``B`` (r, m),
    ``c`` (r,). ``scale`` (m,): outputs are in units of it. ``change``: they are added to y. ``noise`` is the process noise
    of the units. ``include``: the parts of the variance that are kept. ``options`` are of the :class:`~pesn.statespace.Coupling`.
    ``center`` and ``width`` (d,): mean and deviation of y in the long run; ``low`` and ``high`` (d,): its range.
    """

    reservoir: Reservoir
    readout: Readout
    errors: Errors
    learn: npt.NDArray[np.intp]
    rest: npt.NDArray[np.intp]
    kinematics: tuple[Array, Array, Array]
    scale: Array
    change: bool
    form: str = "full"
    noise: Noise | None = None
    include: tuple[str, ...] = PARTS
    options: dict[str, Any] = field(default_factory=dict)
    center: Array | float = 0.0
    width: Array | float = 1.0
    low: Array | float = -np.inf
    high: Array | float = np.inf

    def moved(self, readout: Readout, errors: Errors) -> Loop:
        """The same loop after its readout has learnt: what the units are coupled with is not laid out again."""
        loop, coupling = replace(self, readout=readout, errors=errors), copy.copy(self.coupling)
        coupling.outputs = self._outputs(readout)
        coupling.basis = orthonormal(coupling.outputs.T)
        loop.__dict__["coupling"] = coupling  # where cached_property keeps it
        return loop

    # ---------------------------------------------------------------- where it starts

    def enter(self, belief: Belief, y: Array, y_root: Array | None, u: Array, u_var: Array) -> Belief:
        """Units alone, as :func:`pesn.statespace.start` gives them, coupled with y (d,), u and what the errors are on average."""
        d, p = self.size, self.n_carried
        K, k = np.zeros((p, len(belief.mean))), np.zeros(p)
        k[:d], k[self.at_known] = y, u
        root = np.zeros((p, p))
        root[:d, : 0 if y_root is None else y_root.shape[1]] = 0.0 if y_root is None else y_root
        root[self.at_error, self.at_error] = as_root(self.errors.cov).T * self._noisy
        root[self.at_known, self.at_known] = np.diag(np.sqrt(u_var))
        return belief.carry(K, k, root)

    def start_joint(self, given: Start, y: Array, u: Array, u_var: Array) -> Belief:
        """From a first row of which entries are missing: y and h as they are in the long run, given what is there."""
        mean, root = given.joint()
        d, n = self.size, self.reservoir.n_inputs
        z = np.concatenate([y, np.where(u_var > 0.0, np.nan, u)])
        (seen,) = np.nonzero(~np.isnan(z))
        columns = root.T
        gain, left = explain(columns[seen], columns)
        mean = mean + gain @ (z[seen] - mean[seen])
        mean[seen] = z[seen]
        left = np.ascontiguousarray(left)
        left[seen] = 0.0
        # y's missing entries keep their regression on h: y = y' + G (h − mean) + rest
        G, rest = explain(left[n:], left[:d])
        belief = start(self.form, mean[n:], left[n:].T, self.coupling, exact=G[np.isnan(y)])
        belief = self.enter(belief, mean[:d], None, u, u_var)
        if not np.isnan(y).any():
            return belief
        p = self.n_carried
        K = np.hstack([np.eye(p), np.zeros((p, self.reservoir.n_units))])
        K[:d, p:] = G
        k = np.zeros(p)
        k[:d] = -G @ mean[n:]
        noise = np.zeros((p, rest.shape[1]))
        noise[:d] = rest
        return belief.carry(K, k, noise)

    def certain(self, belief: Belief) -> Belief:
        """The mean of a belief, as if it were known."""
        N, p = self.reservoir.n_units, self.n_carried
        units = start(self.form, belief.mean[belief.units], np.zeros((0, N)), self.coupling)
        return units.carry(np.zeros((p, N)), belief.mean[:p])

    def targets(self, y: Array) -> Array:
        """What the network should have put out, (T − 1, m), between the rows of y (T, d)."""
        after = y[1:, self.learn]
        return (after - y[:-1, self.learn] if self.change else after) / self.scale

    # ---------------------------------------------------------------- a step

    def drive(self, belief: Belief) -> Belief:
        """The units take y and u in."""
        return belief.through_units(self.coupling, 0.0, self.noise)

    def emit(self, belief: Belief, u: Array, u_var: Array, free: bool = False) -> Step:
        """The next y, from the units as they are now; ``u`` (with variances) is what will act on it.

        ``free``: no row will be observed that corrects it, so that its mean is kept from running away too.
        """
        d, p = self.size, self.n_carried
        K, k0, J = self.step_map
        k = k0.copy()
        k[self.at_known] = u
        R, weights, grown = self.errors.innovation * self._noisy, np.zeros((d, d)), np.ones(d)
        if "weights" in self.include:
            grown[self.learn] = np.sqrt(1.0 + self._inflation * self._doubt(belief))
            weights = self.errors.innovation * (grown[:, None] * grown - 1.0)
        root = np.zeros((p, d + len(u)))
        root[:, :d] = J @ as_root(symmetric(R + weights)).T
        root[self.at_known, d:] = np.diag(np.sqrt(u_var))
        after, held, left = self._hold(belief.carry(K, k, root), belief.mean[:d], free)
        total = np.diagonal(after.cov_carried())[:d]
        new, noise = (held**2 * np.einsum("ij,jk,ik->i", J[:d], part, J[:d]) for part in (R + weights, R))
        new = np.minimum(new, total)
        noise = np.minimum(noise, new)  # errors of two columns may cancel in a third
        return Step(after, {"state": total - new, "noise": noise, "weights": new - noise}, grown, left)

    def _hold(self, belief: Belief, before: Array, free: bool) -> tuple[Belief, Array, npt.NDArray[np.bool_]]:
        """y as its long run allows, the factors (d,) by which its deviations were made smaller, and the columns that had left.

        Outside the training range nothing was learnt, and a loop may run away, however bounded the system is.

        - Beyond twice the deviation of y in training, y's deviation is cut to it, and its mean drawn in as an observation that
          leaves this deviation would: by the square of the factor, and into the training range widened by this deviation.
        - A mean farther out than the range's own width, and than it was ``before`` (d,), has left: it is brought back into
          the range widened by its deviation, which is then not less than in training.

        Kinematics are known everywhere, and what they add up goes on beyond every range: the mean of such a column follows them,
        and its deviation may be half its distance from the mean in training. So may that of every column that is not ``free``:
        a row that will be observed there says more than the range does.
        """
        d, p = self.size, self.n_carried
        mean, std = belief.mean[:d], np.sqrt(np.maximum(np.diagonal(belief.cov_carried())[:d], 0.0))
        away, widest = mean - self.center, _WIDEST * self.width + np.zeros(d)
        bound = np.zeros(d, bool)
        bound[self.learn] = free
        widest = np.where(bound, widest, np.maximum(widest, 0.5 * np.abs(away)))
        held = np.minimum(1.0, widest / np.maximum(std, self.width))
        farthest = np.maximum(self.high - self.low, _WIDEST * self.width)
        left = (mean < np.minimum(self.low - farthest, before)) | (mean > np.maximum(self.high + farthest, before))
        left &= bound
        if np.all(held == 1.0) and not left.any():
            return belief, held, left
        drawn = self.center + held**2 * away
        std = held * std
        added = np.where(left, np.sqrt(np.maximum(np.square(self.width) - np.square(std), 0.0)), 0.0) * ("state" in self.include)
        std = np.hypot(std, added)
        inside = np.clip(drawn, self.low - std, self.high + std)
        moved = bound & (left | (held < 1.0))
        K, k, root = np.eye(p, len(belief.mean)), np.zeros(p), np.zeros((p, d))
        K[np.arange(d), np.arange(d)] = held
        k[:d] = np.where(moved, inside, drawn) - held * mean
        root[:d] = np.diag(added)
        return belief.carry(K, k, root), held, left

    def observe(self, belief: Belief, y: Array) -> Belief:
        """Given y (d,), of which NaN is missing; a fed-back output is then known too."""
        if np.isnan(y).all():
            return belief
        return belief.observe(np.concatenate([y, np.full(self.n_carried - self.size, np.nan)]))

    # ---------------------------------------------------------------- layout

    @property
    def size(self) -> int:
        """d."""
        return len(self.learn) + len(self.rest)

    @cached_property
    def n_carried(self) -> int:
        """p."""
        return 2 * self.size + self._n_known + (len(self.learn) if self._fed_back else 0)

    @cached_property
    def coupling(self) -> Coupling:
        """How c enters the units."""
        d, r = self.size, self.reservoir
        C = np.zeros((r.n_units, self.n_carried))
        C[:, :d], C[:, self.at_known] = r.W_in[:, :d], r.W_in[:, d:]
        if self._fed_back:
            C[:, self.at_output] = r.W_fb
        return Coupling(r, C, self._outputs(self.readout), **self.options)

    def _outputs(self, readout: Readout) -> Array:
        """How the readout sees the units, (m, N)."""
        return np.asarray(readout.weights[:, 1 + self.reservoir.n_inputs :], np.float64)

    @cached_property
    def step_map(self) -> tuple[Array, Array, Array]:
        """K, k and J of c ← K x + k + J η."""
        d, p, N = self.size, self.n_carried, self.reservoir.n_units
        A, B, c = self.kinematics
        W, learn, rest = self.readout.weights * self.scale[:, None], self.learn, self.rest
        K, k, J = np.zeros((p, p + N)), np.zeros(p), np.zeros((p, d))
        K[self.at_error, self.at_error] = np.diag(self.errors.persistence)
        J[self.at_error] = np.eye(d)
        output = np.zeros((len(learn), p + N))
        output[:, :d], output[:, self.at_known], output[:, p:] = (
            W[:, 1 : 1 + d],
            W[:, 1 + d : 1 + self.reservoir.n_inputs],
            W[:, -N:],
        )
        output += K[self.at_error][learn]
        if self._fed_back:
            K[self.at_output], k[self.at_output] = output / self.scale[:, None], W[:, 0] / self.scale
            J[self.at_output, learn] = np.diag(1.0 / self.scale)
        K[learn], k[learn] = output, W[:, 0]
        if self.change:
            K[learn, learn] += 1.0
        J[learn, learn] = 1.0
        K[rest] = B @ K[learn] + K[self.at_error][rest]
        K[rest, :d] += A
        k[rest] = B @ k[learn] + c
        J[rest] = B @ J[learn]
        J[rest, rest] += 1.0
        return K, k, J

    @cached_property
    def _doubts(self) -> tuple[Array, Array]:
        """The root of A⁻¹ and A⁻¹ itself, laid out over [1, x] and x."""
        d, p, r = self.size, self.n_carried, self.reservoir
        places = np.concatenate([np.arange(d), np.arange(p)[self.at_known], np.arange(p, p + r.n_units)])
        root = np.zeros((1 + p + r.n_units, len(self.readout.covariance_root)))
        root[np.concatenate([[0], 1 + places])] = self.readout.covariance_root
        return root, symmetric(root[1:] @ root[1:].T)

    def _doubt(self, belief: Belief) -> float:
        """bᵀ A⁻¹ b + tr(A⁻¹ Cov b): how little the training rows say about these features."""
        root, inverse = self._doubts
        b = root[0] + belief.mean @ root[1:]
        return float(b @ b) + belief.trace(inverse)

    @cached_property
    def _inflation(self) -> Array:
        """Rows whose errors go on teach less: n of them count as n (1 − ρ)/(1 + ρ)."""
        rho = np.maximum(self.errors.persistence[self.learn], 0.0)
        result: Array = (1.0 + rho) / (1.0 - rho)
        return result

    @property
    def _noisy(self) -> float:
        return float("noise" in self.include)

    @property
    def _n_known(self) -> int:
        return int(self.reservoir.n_inputs) - self.size

    @cached_property
    def _fed_back(self) -> bool:
        return bool(np.any(self.reservoir.W_fb))

    @property
    def at_error(self) -> slice:
        """Where e is in c."""
        return slice(self.size, 2 * self.size)

    @property
    def at_known(self) -> slice:
        """Where u is in c."""
        return slice(2 * self.size, 2 * self.size + self._n_known)

    @property
    def at_output(self) -> slice:
        """Where o is in c: nowhere, without feedback."""
        return slice(2 * self.size + self._n_known, self.n_carried)
