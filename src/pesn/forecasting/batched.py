"""Many sequences of known inputs at once: roll-outs of one closed loop, a few dozen side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pesn._support.types import Array
from pesn.forecasting.context import Begun, ContextFilter
from pesn.forecasting.paths import along_the_mean
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.statespace import Certain, Dense, Diagonal, FirstOrder, GaussianState, rollout

__all__ = ["COVARIANCES", "Rolled", "in_form", "loop_for", "roll_out"]

COVARIANCES = {"none": "none", "diagonal": "diagonal", "low-rank": "first-order", "full": "full"}
_SIDE_BY_SIDE = 2**18  # numbers of the covariances of all that go side by side: what the processor keeps at hand


class Rolled(NamedTuple):
    """Scaled ``mean`` (B, T, d), ``cov`` (B, T, d, d) and ``lagged`` (B, T − 1, d, d), Cov(y_{k+1}, y_k), or None."""

    mean: Array
    cov: Array | None
    lagged: Array | None


def loop_for(loop: ClosedLoop, covariance: str, rank: int) -> ClosedLoop:
    """The loop that roll-outs with such a covariance go by: errors of the weights stay from step to step."""
    form = COVARIANCES[covariance]
    if form == "none":
        return loop.certain
    return replace(loop, form=form, rank=rank)


def roll_out(loop: ClosedLoop, context: ContextFilter, begun: Begun, inputs: Array) -> Rolled:
    """Roll-outs of inputs (B, T, m) from one context, or from B of them, in the form of ``loop``.

    Parameters
    ----------
    loop
        Made by :func:`loop_for`.
    context
        How a context goes on with an input.
    begun
        Where it goes on from; one, or a batch of B.
    inputs
        Scaled, without gaps.
    """
    if loop.form == "none":
        state, moved = _means(loop, context, begun, inputs)
        return Rolled(rollout(loop.model, state, inputs, moved=moved).mean, None, None)
    size = max(_SIDE_BY_SIDE // _numbers(loop), 1)
    parts = [_some(loop, context, _rows_of(begun, slice(i, i + size)), inputs[i : i + size]) for i in range(0, len(inputs), size)]
    mean, cov, lagged = (None if part[0] is None else np.concatenate(part) for part in zip(*parts, strict=True))
    assert mean is not None
    return Rolled(mean, cov, lagged)


def _numbers(loop: ClosedLoop) -> int:
    """Of one state."""
    n = loop.layout.size
    return n if loop.form == "diagonal" else n * n if loop.form == "full" else n * min(2 * (loop.carried + loop.rank), n)


def _means(loop: ClosedLoop, context: ContextFilter, begun: Begun, inputs: Array) -> tuple[GaussianState, bool]:
    """Where means start from, and whether the first inputs have moved them."""
    if begun.state is None:
        return context.with_input(loop, begun, inputs[:, 0]), True
    mean = np.broadcast_to(begun.state.mean, (len(inputs), loop.layout.size))
    return Certain(mean, loop.carried, np.zeros((*mean.shape, 0))), False


def _some(loop: ClosedLoop, context: ContextFilter, begun: Begun, inputs: Array) -> Rolled:
    state = context.with_input(loop, begun, inputs[:, 0])
    along = along_the_mean(loop, state, inputs)[1] if loop.form != "diagonal" else None
    path = rollout(loop.ahead, state, inputs, moved=True, along=along, lagged=loop.form != "diagonal")
    return Rolled(path.mean, path.cov, path.lagged)


def in_form(begun: Begun, loop: ClosedLoop, other: ClosedLoop) -> Begun:
    """What a context says to ``loop``, in the form of ``other``, a loop of the same network."""
    state = begun.state
    if state is None or other.form == loop.form:
        return begun
    alike = other.layout.size == loop.layout.size
    if other.form == "none" and alike:
        return begun
    if other.form == "first-order" and alike:
        assert other.compression is not None
        return begun._replace(state=FirstOrder.of(state, other.compression))
    mean, whole = np.zeros((*state.mean.shape[:-1], other.layout.size)), slice(0, loop.layout.size)
    names = [name for name in loop.layout.blocks if name != "squares"]  # made anew in every move, of more where it is diagonal
    here, there = (np.concatenate([np.arange(x.layout.size)[x.layout[name]] for name in names]) for x in (loop, other))
    mean[..., there] = state.mean[..., here]
    shared: Any = {"mean": mean, "carried": other.carried, "cross": np.zeros((*mean.shape, 0))}
    if other.form == "diagonal":
        var = np.zeros(mean.shape)
        var[..., there] = state.variances()[..., here]
        return begun._replace(state=Diagonal(**shared, var=var))
    if other.form == "none":
        return begun._replace(state=Certain(**shared))
    cov = np.zeros((*mean.shape, other.layout.size))
    cov[..., there[:, None], there] = state.covariance_with(whole)[..., here[:, None], here]
    dense = Dense(**shared, cov=cov)
    if other.form == "first-order":
        assert other.compression is not None
        return begun._replace(state=FirstOrder.of(dense, other.compression))
    return begun._replace(state=dense)


def _rows_of(begun: Begun, which: slice) -> Begun:
    """Some of a batch; one state is the same for all."""

    def some(part: Any, axes: int) -> Any:
        return part if part is None or part.ndim == axes else part[which]

    state = begun.state
    if state is not None and state.mean.ndim > 1:
        state = state.part(which)
    return begun._replace(state=state, y=some(begun.y, 2), u=some(begun.u, 2))
