"""A reservoir with its readout over rows that may be uncertain; how long a start is felt, how far a free run can be trusted.

The deterministic and the diagonal run of :mod:`pesn.reservoir.drive` are single compiled loops; where covariances are kept, each
step is a handful of matrix products on a :class:`~pesn.statespace.Belief` over [z, y, h]: inputs, outputs fed back, units.

>>> import numpy as np
>>> from pesn.reservoir.drive import State, draw
>>> reservoir = draw(50, n_inputs=1, n_outputs=1, feedback_scaling=0.2, rng=0)
>>> drive = Drive(reservoir, np.full((1, 52), 0.1), "full")
>>> passed = drive.run(np.zeros((20, 1)), np.full((20, 1), 0.01), State(np.zeros(50)))
>>> passed.means.shape, passed.cov.shape, bool(np.all(passed.cov > 0.0))
((20, 50), (20, 1, 1), True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn.gaussian import Gaussian
from pesn.linalg import as_root, outer
from pesn.moments import named_method
from pesn.reservoir.drive import State, run, run_gaussian
from pesn.reservoir.initial_state import Start
from pesn.reservoir.sequences import features
from pesn.reservoir.weights import Reservoir
from pesn.statespace import Belief, Coupling, Diagonal, Full, LowRank, Noise
from pesn.statespace import start as start_belief

__all__ = [
    "Begun",
    "Drive",
    "Passed",
    "form_of",
    "parts_of",
    "process_noise",
    "state_of",
    "uncertain",
]

Array = npt.NDArray[np.float64]
LARGEST_FULL = 200  # units up to which the full covariance is about as quick as the low-rank one


def form_of(covariance: str, n_units: int, rank: int) -> str:
    """The form that ``covariance`` asks for; with as many columns as units there is nothing to compress."""
    if covariance == "auto":
        covariance = "full" if n_units <= LARGEST_FULL else "low-rank"
    return "full" if covariance == "low-rank" and rank >= n_units else covariance


def process_noise(given: Start | None, share: float, noise: float, n_units: int = 0) -> Noise | None:
    """``share`` of the units' covariance in the long run, and ``noise``² for each of them; None where there is neither."""
    if share == 0.0 and noise == 0.0:
        return None
    n = n_units if given is None else given.n_states
    root = np.zeros((0, n)) if share == 0.0 or given is None else np.sqrt(share) * given.stationary()[1]
    if len(root) > n:
        root = np.linalg.qr(root, mode="r")
    return Noise(root, np.full(n, noise**2))


# ---------------------------------------------------------------- where a run stands


class Begun(State):
    """A state after fewer rows of a sequence than a learned start looks back on, together with these ``rows`` (k, d)."""

    rows: Array

    @classmethod
    def after(cls, state: State, rows: Array) -> Begun:
        """``state`` with the rows that led to it."""
        begun = cls(*state)
        begun.rows = rows
        return begun


def uncertain(state: State) -> bool:
    """Whether anything in ``state`` has a variance."""
    return any(part is not None and bool(np.any(part)) for part in (state.var, state.output_var, state.cov, state.own))


def parts_of(state: State, n_units: int, n_outputs: int) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """All that ``state`` holds, each part with the shape that it should have."""
    n, m = n_units, n_outputs
    width = m + n if state.own is None else np.shape(np.atleast_1d(np.asarray(state.cov)))[-1]
    shapes = {"mean": (n,), "output": (m,), "var": (n,), "output_var": (m,), "cov": (m + n, width), "own": (n,)}
    needed = ("mean", "output") if state.own is None else ("mean", "output", "cov")
    return {
        name: (getattr(state, name), shape)
        for name, shape in shapes.items()
        if name in needed or getattr(state, name) is not None
    }


def state_of(units: Gaussian, n_outputs: int) -> State:
    """Units (N,) as a state to start from, every covariance between them kept; the outputs are 0."""
    mean, var = np.array(units.mean, float), np.array(units.var, float)
    state = State(mean, var, np.zeros(n_outputs), np.zeros(n_outputs))
    if units.diagonal is not None and units.factor is None:
        return state
    if units.factor is None:
        root = as_root(np.asarray(units.cov, float)).T
    else:
        own = np.diag(np.sqrt(units.diagonal))
        root = np.hstack([units.factor, own[:, own.any(axis=0)]])
    return state._replace(cov=np.vstack([np.zeros((n_outputs, root.shape[1])), root]), own=np.zeros(len(mean)))


class Passed(NamedTuple):
    """What T rows gave: means of the units (T, N); the outputs' (T, m), and their covariance ``cov`` (T, m, m) from the state.

    ``doubt`` (T,) is tr(A⁻¹ Cov b), for the variance of the readout's weights; ``end`` is the state after the last row.
    """

    means: Array
    outputs: Array
    cov: Array
    doubt: Array
    end: State


@dataclass(frozen=True, eq=False)
class Drive:
    """A reservoir with its readout ``weights`` (m, 1 + d + N), in one form of belief.

    ``start`` is what is known of the units behind the first rows; ``share`` of their covariance in the long run and ``noise``²
    are added to the units at each step. ``doubt_root`` (1 + d + N, …) is a root of A⁻¹ of the readout's weights, for ``doubt``.
    ``rank``, ``moments`` and ``rng`` are as in :class:`pesn.statespace.Coupling`.
    """

    reservoir: Reservoir
    weights: Array
    form: str
    start: Start | None = None
    share: float = 0.0
    noise: float = 0.0
    doubt_root: Array | None = None
    rank: int = 40
    moments: Any = "surface"
    rng: Any = None

    def run(self, z: Array, var: Array | None, state: State, feedback: Array | None = None, until: float = 0.0) -> Passed:
        """Rows z (T, d) with variances (T, d), None for certain ones; ``feedback`` (T, m) takes the place of the own outputs.

        Rows that nothing makes uncertain are one compiled loop, to the bit that of the deterministic network. The state passes
        for certain once no output's variance from it exceeds ``until`` and nothing more is added to it. Which way a row goes
        depends on the state before it and on its own variance alone: not on how a run was cut.
        """
        parts: list[Passed] = []
        row = 0
        while row < len(z):
            var_left, fed_left = (None if part is None else part[row:] for part in (var, feedback))
            parts.append(self._some(z[row:], var_left, fed_left, state, until if self._quiet else -1.0))
            row, state = row + len(parts[-1].outputs), parts[-1].end
        if len(parts) == 1:
            return parts[0]
        means, outputs, cov, doubt = (np.concatenate(part) for part in list(zip(*parts, strict=True))[:-1])
        return Passed(means, outputs, cov, doubt, state)

    def _some(self, z: Array, var: Array | None, feedback: Array | None, state: State, until: float) -> Passed:
        """As many of the rows as go one way, and at least one."""
        certain = len(z) if var is None or not var.any() else int(np.argmax(var.any(axis=1)))
        if isinstance(state, Begun) and (certain or not len(state.rows)):
            return self._first(z, var, state, certain, until)
        if self._quiet and certain and not uncertain(state):
            return self._certain(z[:certain], None if feedback is None else feedback[:certain], state)
        if self.form == "diagonal" and self.share == 0.0:
            return self._diagonal(z, var, feedback, state)
        return self._steps(z, var, feedback, self._belief(state), until)

    # ---------------------------------------------------------------- the ways

    def _certain(self, z: Array, feedback: Array | None, state: State) -> Passed:
        states, outputs, end = run(self.reservoir, z, state, feedback=feedback, readout=self.weights)
        assert outputs is not None  # there was a readout
        m = len(self.weights)
        return Passed(states, outputs, np.zeros((len(z), m, m)), np.zeros(len(z)), end)

    def _diagonal(self, z: Array, var: Array | None, feedback: Array | None, state: State) -> Passed:
        options = {"feedback": feedback, "readout": self.weights, "noise": self.noise, "moments": self.moments, "rng": self.rng}
        means, unit_var, outputs, end = run_gaussian(self.reservoir, z, var, state, **options)
        assert outputs is not None
        b_var = features(np.zeros_like(z) if var is None else var, unit_var)
        b_var[:, 0] = 0.0  # the constant is certain
        cov = np.einsum("ip,np,jp->nij", self.weights, b_var, self.weights, optimize=True)
        doubt = 0.0 if self.doubt_root is None else b_var @ np.sum(np.square(self.doubt_root), axis=1)
        return Passed(means, outputs[0], cov, doubt + np.zeros(len(z)), end)

    def _first(self, z: Array, var: Array | None, state: Begun, certain: int, until: float) -> Passed:
        """The first rows of a sequence, the units behind them as the start knows them; the last rows of all are enough."""
        assert self.start is not None
        lags, seen = max(self.start.lags, 1), state.rows
        if certain:
            rows = np.vstack([seen, z[: min(certain, lags - len(seen))]])
            known = [self.start.given(rows[: k + 1]) for k in range(len(seen), len(rows))]
        else:
            known = [_units_behind(self.start, z[0], np.zeros_like(z[0]) if var is None else var[0])]
        n = len(known)
        passed = self._steps(z[:n], None if var is None else var[:n], None, self._belief(state), until, known)
        rows = np.vstack([seen, z[: len(passed.outputs)]])
        if certain and len(rows) < lags and passed.end.var is not None:
            return passed._replace(end=Begun.after(passed.end, rows))
        return passed

    def _steps(
        self,
        z: Array,
        var: Array | None,
        feedback: Array | None,
        belief: Belief,
        until: float,
        known: Sequence[tuple[Array, Array]] = (),
    ) -> Passed:
        """Step by step, up to the first row where no output's variance from the state exceeds ``until``.

        ``known`` are means (N,) and roots (r, N) of the units after the first rows, from elsewhere than the row before.
        """
        T, d, m = len(z), z.shape[1], len(self.weights)
        enter, leave, hold = self._maps
        means, outputs, cov, doubt = np.empty((T, self.reservoir.n_units)), np.empty((T, m)), np.empty((T, m, m)), np.zeros(T)
        for k in range(T):
            root = None
            if var is not None and var[k].any():
                root = np.zeros((d + m, d))
                root[:d] = np.diag(np.sqrt(var[k]))
            if k < len(known):
                belief = start_belief(self.form, *known[k], self.coupling).carry(hold[:, m:], np.zeros(m))
            belief = belief.carry(enter, np.concatenate([z[k], np.zeros(m)]), root)
            if k >= len(known):
                belief = belief.through_units(self.coupling, 0.0, self._noise)
            means[k] = belief.mean[belief.units]
            if self._inverse is not None:
                doubt[k] = belief.trace(self._inverse)
            cov[k] = belief.cov_of(leave)
            belief = belief.carry(leave, self.weights[:, 0])
            outputs[k] = belief.mean[:m]
            if feedback is not None:
                belief = belief.carry(hold, feedback[k])
            if np.diagonal(cov[k]).max(initial=0.0) <= until:
                end = State(belief.mean[m:], None, belief.mean[:m], None)
                return Passed(means[: k + 1], outputs[: k + 1], cov[: k + 1], doubt[: k + 1], end)
        return Passed(means, outputs, cov, doubt, self._state(belief))

    # ---------------------------------------------------------------- states and beliefs over [y, h]

    def _belief(self, state: State) -> Belief:
        """In the form of this drive, whatever the form that the state was left in."""
        m, N = len(self.weights), self.reservoir.n_units
        output = np.zeros(m) if state.output is None else state.output
        whole: Any = {"mean": np.concatenate([output, state.mean]), "carried": m, "cross": np.zeros((m + N, 0))}
        if self.form == "diagonal" or state.cov is None:
            var = np.concatenate([np.zeros(n) if v is None else v for n, v in ((m, state.output_var), (N, state.var))])
            if self.form == "diagonal":
                return Diagonal(**whole, var=var)
            if self.form == "full":
                return Full(**whole, cov=np.diag(var))
            # all columns: they are cut after a step, when it shows which last
            return LowRank(**whole, factor=np.diag(np.sqrt(var)), own=np.zeros(N))
        if self.form == "full":
            return Full(**whole, cov=state.cov if state.own is None else outer(state.cov) + np.diag(np.pad(state.own, (m, 0))))
        if state.own is None:
            return LowRank(**whole, factor=as_root(state.cov).T, own=np.zeros(N))
        return LowRank(**whole, factor=state.cov, own=state.own)

    def _state(self, belief: Belief) -> State:
        m, mean, var = len(self.weights), belief.mean, belief.variances()
        cov, own = None, None
        if isinstance(belief, Full):
            cov = belief.cov
        elif isinstance(belief, LowRank):
            cov, own = belief.factor, belief.own
        return State(mean[m:], var[m:], mean[:m], var[:m], cov, own)

    # ---------------------------------------------------------------- made when they are needed: certain rows need none of them

    @property
    def _quiet(self) -> bool:
        return self.share == 0.0 and self.noise == 0.0

    @cached_property
    def coupling(self) -> Coupling:
        """How z and the outputs enter the units."""
        r, (method, mesh) = self.reservoir, named_method("moments", self.moments)
        C, seen = np.hstack([r.W_in, r.W_fb]), self.weights[:, 1 + r.n_inputs :]
        return Coupling(r, C, seen, rank=self.rank, method=method, mesh=mesh, rng=self.rng)

    @cached_property
    def _noise(self) -> Noise | None:
        return process_noise(self.start, self.share, self.noise, self.reservoir.n_units)

    @cached_property
    def _maps(self) -> tuple[Array, Array, Array]:
        """[y, h] → [z, y], z to be added; [z, y, h] → the output, without its constant; [y, h] → nothing."""
        d, m, N = self.reservoir.n_inputs, len(self.weights), self.reservoir.n_units
        enter = np.vstack([np.zeros((d, m + N)), np.eye(m, m + N)])
        leave = np.hstack([self.weights[:, 1 : 1 + d], np.zeros((m, m)), self.weights[:, 1 + d :]])
        return enter, leave, np.zeros((m, m + N))

    @cached_property
    def _inverse(self) -> Array | None:
        """A⁻¹ over [z, y, h], of which y is no feature; the constant is certain."""
        if self.doubt_root is None:
            return None
        d, m, N = self.reservoir.n_inputs, len(self.weights), self.reservoir.n_units
        places = np.concatenate([np.arange(d), np.arange(d + m, d + m + N)])
        result = np.zeros((d + m + N, d + m + N))
        result[np.ix_(places, places)] = outer(self.doubt_root[1:])
        return result


def _units_behind(given: Start, z: Array, var: Array) -> tuple[Array, Array]:
    """Mean (N,) and root of the units behind an uncertain row, by linear regression."""
    mean, root = given.joint()
    d = len(z)
    both = Gaussian(mean, factor=root.T, var=np.zeros(len(mean)))
    seen = both.observe(np.eye(d, len(mean)), z, var).marginal(np.arange(d, len(mean)))
    return np.asarray(seen.mean, float), as_root(np.asarray(seen.cov, float))
