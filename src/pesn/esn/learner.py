"""Learning row by row, compiled, in arrays that are made once: what ``partial_fit``, FORCE and :class:`Stepper` share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pesn._support.types import Array
from pesn.readout.features import Features
from pesn.readout.online import effective_rows
from pesn.readout.ridge import Readout
from pesn.readout.rls import recursion
from pesn.reservoir.drive import State, is_compiled, kernel_weights, run
from pesn.reservoir.weights import Reservoir

if TYPE_CHECKING:
    from pesn.esn.row_by_row import Online

__all__ = ["Learner"]


class Learner:
    """Learning row by row in arrays that are made once and move in place; what it began with stays as it was.

    Parameters
    ----------
    reservoir, features
        The units, and what the readout sees.
    begun
        Where learning stands.
    forgetting
        λ of recursive least squares.
    own
        Whether the network's own outputs are fed back while it learns (FORCE), not what it is taught.
    """

    def __init__(self, reservoir: Reservoir, features: Features, begun: Online, forgetting: float, own: bool) -> None:
        from pesn.reservoir import online_kernel as kernel  # here, not above: it compiles

        self.kernel, self.reservoir, self.features, self.begun = kernel, reservoir, features, begun
        n, d, (m, p) = reservoir.n_units, reservoir.n_inputs, begun.readout.weights.shape
        self.rls = recursion(begun.rls, forgetting)
        self.x, self.target, self.out, self.std = np.empty(d), np.empty(m), np.empty(m), np.empty(m)
        self.b, self.y, work = np.empty(p), np.empty(m), np.empty((2, p))
        self.residual_cov = np.array(begun.readout.residual_cov, float)
        n_samples = begun.readout.n_samples
        self.numbers = np.array([forgetting, self.rls.scale, effective_rows(n_samples, forgetting)])
        fed = kernel.OWN if own else kernel.TEACHER
        self.compiled = not n or is_compiled(reservoir)
        self.largest = 1e50 if features.products else 1e100  # of a row: squares must not leave the range
        counts = n_samples, 0, 0, 0, features.lags, features.products, fed, n if self.compiled else 0
        self.counts = np.array([*self.rls.clock, *counts])
        self.go_to(begun.state, begun.to_wash)
        weights, prior = self.rls.weights, (self.rls.prior_weights, self.rls.prior_root)
        self._arrays = (  # a table keeps no array alive
            self.counts, self.numbers, self.x, self.b, self.y, self.out, self.target, self.std, work,
            weights, self.rls.root, *prior, self.residual_cov, *kernel_weights(reservoir),
        )  # fmt: skip
        self.table = np.empty((kernel.SIZE, 3), np.int64)
        kernel.tabulate(self.table, *self._arrays)

    def go_to(self, state: State, to_wash: int) -> None:
        """Begin a sequence: at ``state``, of which the means count, with so many rows to be washed out."""
        n, earlier = self.reservoir.n_units, self.features.n_earlier(self.reservoir.n_inputs)
        p, b = self.rls.weights.shape[1], self.b
        b[:] = 0.0
        b[0], b[p - n : p] = 1.0, state.mean
        if state.past is not None:
            b[1 : 1 + earlier] = state.past
        self.y[:] = 0.0 if state.output is None else state.output
        kernel = self.kernel
        self.counts[[kernel.TO_WASH, kernel.BEGUN, kernel.LEARNS]] = to_wash, state.past is not None or not earlier, 0

    @property
    def state(self) -> State:
        """Where the sequence is."""
        n, p, kernel = self.reservoir.n_units, self.rls.weights.shape[1], self.kernel
        earlier = self.features.n_earlier(self.reservoir.n_inputs)
        past = self.b[1 : 1 + earlier].copy() if earlier and self.counts[kernel.BEGUN] else None
        return State(self.b[p - n : p].copy(), None, self.y.copy(), None, past=past)

    def move(self) -> None:
        """The units that no compiled loop knows, moved by the row in ``x``; ``step`` does the rest."""
        x, state = self.x[None], self.state
        if not np.all(np.abs(x) < self.largest):
            return  # which step refuses
        h = run(self.reservoir, x, state, feedback=self.y[None])[2].mean
        p = self.rls.weights.shape[1]
        self.b[p - len(h) : p] = h

    def step(self) -> int:
        """Predict ``out`` for the row in ``x``; 0, or what is wrong."""
        if not self.compiled:
            self.move()
        return int(self.kernel.step(self.table))

    def learn(self) -> int:
        """Learn ``target`` for the row of the last step; 0, or what is wrong."""
        return int(self.kernel.learn(self.table))

    def deviations(self) -> Array:
        """Of the last prediction."""
        self.kernel.deviations(self.table)
        return self.std

    def follow(self, X: Array, Y: Array, features: bool = False) -> tuple[Array, Array]:
        """Predictions (T, m) for rows X (T, d), each made before its Y (T, m) is learnt, and what the readout saw, if wanted."""
        predictions = np.empty(Y.shape)
        seen = np.empty((len(X), self.rls.weights.shape[1]) if features else (0, 0))
        if self.compiled:
            rows = (np.ascontiguousarray(part, np.float64).view() for part in (X, Y))
            wrong = self.kernel.follow(self.table, *map(_read_only, rows), predictions, seen)
        else:
            wrong = self._row_by_row(X, Y, predictions, seen)
        if wrong:
            raise ValueError("partial_fit left the range of float64 numbers; scale X and y to about 1")
        return predictions, seen

    def _row_by_row(self, X: Array, Y: Array, predictions: Array, seen: Array) -> int:
        for k, (x, y) in enumerate(zip(X, Y, strict=True)):
            self.x[:] = x
            wrong = self.step()
            predictions[k], self.target[:] = self.out, y
            if seen.size:
                seen[k] = self.b[: seen.shape[1]]
            wrong = wrong or self.learn()
            if wrong:
                return wrong
        return 0

    def result(self, last: bool = False) -> Online:
        """Where learning stands now, in arrays of its own; the ``last`` result takes this learner's, which then is spent."""
        kernel, readout, now = self.kernel, self.begun.readout, self.rls
        state, to_wash = self.state, int(self.counts[kernel.TO_WASH])
        samples = int(self.counts[kernel.SAMPLES])
        if samples == readout.n_samples:
            return self.begun._replace(state=state, to_wash=to_wash)
        now = now._replace(clock=self.counts[:4])
        if not last:
            now = now._replace(root=now.root.copy(), weights=now.weights.copy())
        rls = now.state(self.begun.rls)
        return type(self.begun)(Readout(rls.weights, self.residual_cov.copy(), rls.root, samples), rls, state, to_wash)


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array
