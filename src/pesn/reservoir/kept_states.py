"""States that a user keeps from one call to the next, as Gaussian states of an open loop and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.gaussian import Gaussian
from pesn.linalg import outer, root_of
from pesn.reservoir.drive import State
from pesn.statespace import Dense, Diagonal, Ensemble, GaussianState, LowRank

if TYPE_CHECKING:
    from pesn.reservoir.open_loop import OpenLoop

__all__ = ["from_state", "state_of", "state_shapes", "to_state"]


def from_state(loop: OpenLoop, state: State) -> GaussianState:
    """In the form of this loop, whatever the form that the state was left in."""
    at, N = loop.layout, loop.reservoir.n_units
    mean, var = np.zeros(at.size), np.zeros(at.size)
    for name, part, part_var in (
        ("output", state.output, state.output_var), ("earlier", state.past, state.past_var), ("units", state.mean, state.var),
    ):  # fmt: skip
        mean[at[name]] = 0.0 if part is None else part
        var[at[name]] = 0.0 if part_var is None else part_var
    whole: Any = {"mean": mean, "carried": loop.carried, "cross": np.zeros((at.size, 0))}
    known, own = _known(loop), np.zeros(at.size - loop.carried)
    if loop.form == "diagonal" or state.cov is None:
        if loop.form == "diagonal":
            return Diagonal(**whole, var=var)
        if loop.form == "full":
            return Dense(**whole, cov=np.diag(var))
        if loop.form == "ensemble":
            return _members(loop, mean, np.diag(np.sqrt(var)))
        # all columns: they are cut after a step, when it shows which last
        uncertain = known[var[known] > 0.0]
        factor = np.zeros((at.size, len(uncertain)))
        factor[uncertain, np.arange(len(uncertain))] = np.sqrt(var[uncertain])
        return LowRank(**whole, factor=factor, own=own)
    if loop.form == "full":
        cov, before = np.zeros((at.size, at.size)), len(known) - N
        cov[np.ix_(known, known)] = state.cov if state.own is None else outer(state.cov) + np.diag(np.pad(state.own, (before, 0)))
        return Dense(**whole, cov=cov)
    columns = root_of(state.cov) if state.own is None else state.cov
    factor = np.zeros((at.size, columns.shape[1]))
    factor[known] = columns
    own[len(own) - N :] = 0.0 if state.own is None else state.own
    if loop.form == "ensemble":
        each = np.diag(np.pad(np.sqrt(own), (len(mean) - len(own), 0)))
        return _members(loop, mean, factor if not own.any() else np.hstack([factor, each]))
    return LowRank(**whole, factor=factor, own=own)


def _members(loop: OpenLoop, mean: Array, columns: Array) -> Ensemble:
    """With covariance columns columnsᵀ: the members whose deviations they are, or members drawn from it."""
    count, draws = loop.n_members, loop.new_draws()
    assert draws is not None
    if columns.shape[1] == count and np.abs(columns.sum(axis=1)).max() <= 1e-9 * np.abs(columns).max():
        return Ensemble(mean + np.sqrt(count - 1.0) * columns.T, loop.carried, draws)
    return Ensemble.of(mean, columns.T[np.any(columns, axis=0)], loop.carried, count, draws)


def to_state(loop: OpenLoop, state: GaussianState) -> State:
    """What a user keeps of it: all but the inputs, which the next row replaces, and squares, which it makes anew."""
    at, var, known = loop.layout, state.variances(), _known(loop)
    cov, own = None, None
    if isinstance(state, Dense):
        cov = state.cov[np.ix_(known, known)]
    elif isinstance(state, LowRank):
        cov, own = state.factor[known], state.own[at["units"].start - loop.carried :]
    elif isinstance(state, Ensemble):
        away = state.members[:, known] - state.mean[known]
        cov, own = away.T / np.sqrt(len(away) - 1.0), np.zeros(loop.reservoir.n_units)
    certain = not var[known].any() and loop.process_noise is None
    mean, output, past = (state.mean[at[name]] for name in ("units", "output", "earlier"))
    earlier = past if loop.features.lags else None
    if certain:
        return State(mean, None, output, None, past=earlier)
    past_var = var[at["earlier"]] if loop.features.lags else None
    return State(mean, var[at["units"]], output, var[at["output"]], cov, own, past=earlier, past_var=past_var)


def _known(loop: OpenLoop) -> npt.NDArray[np.intp]:
    """Places in x of what is kept from one row to the next."""
    places = np.arange(loop.layout.size)
    return np.concatenate([places[loop.layout[name]] for name in ("output", "earlier", "units")])


def state_of(units: Gaussian, n_outputs: int, n_earlier: int = 0) -> State:
    """[earlier rows, units] (E + N,) as a state to start from, every covariance between them kept; the outputs are 0."""
    mean, var = np.array(units.mean, float), np.array(units.var, float)
    state = State(mean[n_earlier:], var[n_earlier:], np.zeros(n_outputs), np.zeros(n_outputs))
    if n_earlier:
        state = state._replace(past=mean[:n_earlier], past_var=var[:n_earlier])
    if units.diagonal is not None and units.factor is None:
        return state
    if units.factor is None or units.diagonal is None:
        root = root_of(np.asarray(units.cov, float))
    else:
        own = np.diag(np.sqrt(units.diagonal))
        root = np.hstack([units.factor, own[:, own.any(axis=0)]])
    return state._replace(cov=np.vstack([np.zeros((n_outputs, root.shape[1])), root]), own=np.zeros(len(mean) - n_earlier))


def state_shapes(state: State, n_units: int, n_outputs: int, n_earlier: int = 0) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """All that ``state`` holds, each part with the shape that it should have."""
    n, m, total = n_units, n_outputs, n_outputs + n_earlier + n_units
    width = total if state.own is None else np.shape(np.atleast_1d(np.asarray(state.cov)))[-1]
    shapes = {"mean": (n,), "output": (m,), "var": (n,), "output_var": (m,), "cov": (total, width), "own": (n,)}
    shapes |= {"past": (n_earlier,), "past_var": (n_earlier,)}
    needed = ("mean", "output") if state.own is None else ("mean", "output", "cov")
    return {
        name: (getattr(state, name), shape)
        for name, shape in shapes.items()
        if name in needed or getattr(state, name) is not None
    }
