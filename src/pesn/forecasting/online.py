"""Learning as rows arrive: each row corrects the state of a closed loop and then moves its readout."""

from __future__ import annotations

import numpy as np

from pesn._support.types import Array
from pesn.evaluation.error_model import share_of_process, update_errors
from pesn.forecasting.context import ContextFilter
from pesn.readout.rls import RLSState, start_from_batch, update
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.statespace import GaussianState

__all__ = ["OnlineLearner"]


class OnlineLearner:
    """A loop whose readout learns by recursive least squares, from the batch solution or from an earlier ``rls``."""

    def __init__(
        self, loop: ClosedLoop, context: ContextFilter, rls: RLSState | None, delta: float | None, forgetting: float
    ) -> None:
        readout, self.rls = (loop.readout, rls) if rls else start_from_batch(loop.readout, delta)
        self.loop = loop if readout is loop.readout else loop.with_readout(readout, loop.errors)
        self.context, self.forgetting = context, forgetting

    def learn(self, state: GaussianState, last: tuple[Array, Array], rows: Array, inputs: Array) -> GaussianState:
        """The state after rows (n, d) with inputs (n, u), from one that knows the ``last`` row and its input."""
        for row, u in zip(rows, inputs, strict=True):
            state = self.context.move(self.loop, state, last[1])
            loop = self._loop_after(state, last, row)
            # the row was predicted by the loop as it was; what it taught is for the next one
            state = self.loop.model.update(self.loop.model.emit(state, observed=True)[0], row)
            self.loop, last = loop, (row, u)
        return state

    def _loop_after(self, state: GaussianState, last: tuple[Array, Array], row: Array) -> ClosedLoop:
        """The loop after one more row; as it was where anything is missing."""
        loop, at = self.loop, self.loop.layout
        if np.isnan(row).any() or np.isnan(last[0]).any() or np.isnan(last[1]).any():
            return loop
        both = np.array([state.mean[at["y"]], row])  # from where the state is: the last row, unless it was measured with noise
        target = loop.dynamics.targets(both)
        b = loop.moves.means(state.mean)
        predicted, readout, self.rls = update(loop.readout, self.rls, b[None], target, self.forgetting)
        wrong = loop.dynamics.errors(target - predicted, both)[0]
        wrong *= np.sqrt(share_of_process(loop.errors, loop.measurement_cov))
        weight = max(1.0 - self.forgetting, 1.0 / (1.0 + readout.n_samples))
        return loop.with_readout(readout, update_errors(loop.errors, wrong, state.mean[at["error"]], weight))
