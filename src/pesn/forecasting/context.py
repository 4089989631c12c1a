"""What a loop knows after the rows that were observed: where it starts, and how each row corrects what came before it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn.forecasting.dataset import Scale
from pesn.gaussian import Gaussian
from pesn.linalg import as_root
from pesn.reservoir.closed_loop import Loop
from pesn.reservoir.drive import State, run
from pesn.reservoir.initial_state import Start
from pesn.reservoir.sequences import blocks
from pesn.statespace import Belief, start

__all__ = ["FILTERED", "Context"]

Array = npt.NDArray[np.float64]
FILTERED = 20  # rows at the end of a long context that are filtered; the ones before only drive the units


class Context(NamedTuple):
    """How rows are taken in: ``given`` what was learnt about starts, ``initial_state`` which of the starts is wanted,
    ``washout`` the rows that the units remember, ``usual`` where y and the known inputs lie when they are missing.
    """

    given: Start
    initial_state: Any
    washout: int
    usual: Scale

    def first(self, loop: Loop, y: Array, u: Array) -> Belief:
        """Units that have taken in the rows y (l, d) with u (l, n), as the first of a sequence."""
        u_now, u_var = self.or_usual(u[-1])
        whole = not (np.isnan(y).any() or np.isnan(u).any())
        kind = self.initial_state
        if isinstance(kind, str) and kind == "learned":
            if not whole:
                return loop.start_joint(self.given, y[-1], u_now, u_var)
            mean, root = self.given.given(np.hstack([y, u]))
            return loop.enter(start(loop.form, mean, root, loop.coupling), y[-1], None, u_now, u_var)
        n = loop.reservoir.n_units
        if isinstance(kind, Gaussian):
            mean, root = np.asarray(kind.mean, float), as_root(np.asarray(kind.cov, float))
        else:
            mean, root = self.given.stationary() if kind == "stationary" else (np.zeros(n), np.zeros((0, n)))
        missing = np.isnan(y[-1])
        belief = start(loop.form, mean, root, loop.coupling)
        usual = self.usual
        y_now, y_root = np.where(missing, usual.y_mean, y[-1]), np.diag(np.where(missing, usual.y_std, 0.0))
        belief = loop.enter(belief, y_now, y_root, u_now, u_var)
        return loop.drive(belief)

    def over(self, loop: Loop, y: Array, u: Array) -> Belief:
        """Units that have taken in the last row of y (T, d) with u (T, n), each row having corrected what came before it.

        Two starts compete while rows are few: from the first row alone, with all the others to correct it, and from as many
        rows as the regression of the start takes at once. Both say what they leave open; the smaller is taken.
        """
        T = len(y)
        if not self.few(T):
            return self.into_units(loop, self.known(loop, y, u[:-1]), u[-1])
        complete = not (np.isnan(y).any() or np.isnan(u).any())
        at_once = min(T, self.given.lags) if complete else 1
        beliefs = [
            self.corrected(loop, self.first(loop, y[:lags], u[:lags]), y[lags - 1 :], u[lags - 1 :])
            for lags in {1, max(at_once, 1)}
        ]
        return min(beliefs, key=lambda belief: _left_open(loop, belief)) if len(beliefs) > 1 else beliefs[0]

    def few(self, n_rows: int) -> bool:
        """Whether so few rows are known that the regression of the start may take them in at once, the last one too."""
        return n_rows <= max(2 * self.given.lags, 1)

    def known(self, loop: Loop, y: Array, u: Array) -> Belief:
        """The last row of y (T, d) known and the units before it, each row having corrected what came before; u (T − 1, n).

        Rows before the last 20 only drive the units, up to the last of them that has as many rows without a gap before it as
        the units remember.
        """
        nothing = np.zeros(u.shape[1])
        if len(y) == 1:  # nothing came before: y and units as they are in the long run
            units = start(loop.form, *self.given.stationary(), loop.coupling)
            belief = loop.enter(units, self.usual.y_mean, np.diag(self.usual.y_std), nothing, nothing)
            return loop.observe(belief, y[0])
        if self.few(len(y)):
            before = self.over(loop, y[:-1], u)
        else:
            whole = np.asarray(~(np.isnan(y[:-1]).any(axis=1) | np.isnan(u).any(axis=1)))
            first, last = self._remembered(whole[: max(len(y) - FILTERED, 0)])
            long_ago = last > first
            belief = self._driven(loop, y[first : last + 1], u[first : last + 1]) if long_ago else self.first(loop, y[:1], u[:1])
            before = self.corrected(loop, belief, y[last:-1], u[last:])
        return loop.observe(loop.emit(before, nothing, nothing).belief, y[-1])

    def _driven(self, loop: Loop, y: Array, u: Array) -> Belief:
        """Units that have taken in rows without a gap, more than they remember: certain, and much faster than filtered ones."""
        z, targets = np.hstack([y, u]), loop.targets(y)
        state = State(self.given.given(z[:1])[0], None, targets[0])
        fed = np.vstack([targets[1:], targets[-1:]])  # beside a row, the target that led to it; the last has no row to go with
        for block in blocks(slice(0, len(targets))):
            _, _, state = run(loop.reservoir, z[1:][block], state, feedback=fed[block])
        units = start(loop.form, state.mean, np.zeros((0, len(state.mean))), loop.coupling)
        return loop.enter(units, y[-1], None, u[-1], np.zeros(u.shape[1]))

    def _remembered(self, whole: npt.NDArray[np.bool_]) -> tuple[int, int]:
        """The last stretch of rows without a gap, first and last row, that is longer than the units remember; (0, 0): none."""
        gaps = np.flatnonzero(np.concatenate([[True], ~whole, [True]])) - 1
        lengths = np.diff(gaps) - 1
        (enough,) = np.nonzero(lengths > max(self.washout, 1))
        if not len(enough):
            return 0, 0
        return int(gaps[enough[-1]] + 1), int(gaps[enough[-1] + 1] - 1)

    def corrected(self, loop: Loop, belief: Belief, y: Array, u: Array) -> Belief:
        """Units that have taken in y[0], then each further row of y (T, d) with u (T, n), corrected by it first."""
        for k in range(1, len(y)):
            belief = loop.drive(loop.observe(loop.emit(belief, *self.or_usual(u[k])).belief, y[k]))
        return belief

    def into_units(self, loop: Loop, belief: Belief, u: Array) -> Belief:
        """Units that have taken in the row of y that ``belief`` is about, together with u (n,)."""
        p = loop.n_carried
        K, k, root = np.eye(p, len(belief.mean)), np.zeros(p), np.zeros((p, len(u)))
        K[loop.at_known] = 0.0
        k[loop.at_known], var = self.or_usual(u)
        root[loop.at_known] = np.diag(np.sqrt(var))
        return loop.drive(belief.carry(K, k, root))

    def or_usual(self, u: Array) -> tuple[Array, Array]:
        """Scaled known inputs with their variances: where one is missing, as it was in training."""
        missing = np.isnan(u)
        return np.where(missing, self.usual.x_mean, u), np.where(missing, np.square(self.usual.x_std), 0.0)


def _left_open(loop: Loop, belief: Belief) -> float:
    """The variance that the state leaves in the next y, in units of the errors that the model makes anyway."""
    nothing = np.zeros(belief.carried)[loop.at_known]
    usual = np.maximum(np.diagonal(loop.errors.cov), np.finfo(float).tiny)
    return float(np.sum(loop.emit(belief, nothing, nothing).parts["state"] / usual))
