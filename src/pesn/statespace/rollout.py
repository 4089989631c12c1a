"""Time loops over a state-space model: step by step for any representation of the state, and a compiled loop for means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.activations import TANH
from pesn.linalg import limit_cross_covariances
from pesn.statespace.cell import ActivationMoments, Cell, SineMoments, SquareMoments
from pesn.statespace.ensemble import Ensemble
from pesn.statespace.kernels import SINE, SQUARE, TANH_UNITS, CellRows, ReadoutRows, roll_means
from pesn.statespace.model import Path, StateSpaceModel, StepInfo
from pesn.statespace.state import Certain, Diagonal, GaussianState, Parts


def rollout(
    model: StateSpaceModel,
    state: GaussianState,
    inputs: Array,
    input_var: Array | None = None,
    *,
    observations: Array | None = None,
    observation_cov: Array | None = None,
    clamp: Array | None = None,
    moved: bool = False,
    joint: bool = False,
    members: bool = False,
    along: Array | None = None,
    lagged: bool = False,
) -> Path:
    """Predict T rows, one after the other.

    Rows that the model's fast path can process go by a compiled loop. This depends on the state before a row and on its inputs
    only, not on how a run was split. States of a batch go together, and are treated as certain when all of them can be.

    Parameters
    ----------
    model : StateSpaceModel
        The model.
    state : GaussianState
        Initial state; leading axes are a batch.
    inputs : array of shape (…, T, m)
        Known inputs of each step.
    input_var : array of shape (…, T, m), default=None
        Their variances; None: certain.
    observations : array of shape (…, T, d), default=None
        y, NaN if missing: each row corrects the state after its prediction (filtering).
    observation_cov : array of shape (…, T, d, d), default=None
        Covariance of the measurement noise of each row; None: that of the model.
    clamp : array of shape (…, T, d), default=None
        y that replaces the predictions without correcting anything (teacher forcing).
    moved : bool, default=False
        Whether the state already has the inputs of the first row and its cells have moved, as after a learned initial state.
    joint : bool, default=False
        Return the covariances between all rows, T² d² numbers.
    members : bool, default=False
        Return y of each ensemble member, T M d numbers.
    along : array of shape (…, T, r), default=None
        Effect of each of r directions of the readout's weights, unknown and the same at every step, on an output
        (:attr:`StateSpaceModel.parameter_root`).
    lagged : bool, default=False
        Return the covariances between successive rows.

    Returns
    -------
    Path
    """
    rows = _Rows(inputs, input_var, observations, clamp, along, observation_cov)
    kept = _Kept(joint, lagged, members)
    fast = None if joint or lagged or observations is not None or along is not None else model.fast
    if along is not None and model.parameter_root is not None and not state.cross.shape[-1]:  # else the run continues
        state = state.with_unknowns(model.n_unknowns(along))
    paths: list[Path] = []
    row, steps = 0, inputs.shape[-2]
    while row < steps or not paths:
        left = rows.select(slice(row, None))
        path = None if fast is None else fast.take(state, left.inputs, left.input_var, clamp=left.clamp, moved=moved)
        if path is None:
            path = _step_by_step(model, state, left, kept, moved, stops=fast is not None)
        paths.append(path)
        row, state, moved = row + path.mean.shape[-2], path.state, False
    return concatenate(paths)


# ---------------------------------------------------------------- one step after the other


class _Rows(NamedTuple):
    """Arguments of :func:`rollout` for some rows, or for one row."""

    inputs: Array
    input_var: Array | None
    observations: Array | None
    clamp: Array | None
    along: Array | None
    observation_cov: Array | None

    def select(self, k: int | slice) -> _Rows:
        """Return row ``k``, or a slice of the rows."""
        *vectors, noise = self
        matrix = None if noise is None else noise[..., k, :, :]
        return _Rows._make([*(None if one is None else one[..., k, :] for one in vectors), matrix])


class _Kept(NamedTuple):
    """Whether to report covariances with all earlier rows, with the last row, and ensemble members."""

    joint: bool
    lagged: bool
    members: bool


class _Info(NamedTuple):
    """Report of a row: ``past`` (…, d, s) covariances with the past, ``before`` (…, d, d) with the last y."""

    step: StepInfo
    past: Array | None = None
    before: Array | None = None
    members: Array | None = None


def _step_by_step(
    model: StateSpaceModel, state: GaussianState, rows: _Rows, kept: _Kept, moved: bool, stops: bool
) -> Path:  # fmt: skip
    """Predict row by row; ``stops``: end after the first row whose state is treated as certain, for a compiled loop."""
    infos: list[_Info] = []
    unknowns = state.cross.shape[-1]
    for k in range(rows.inputs.shape[-2]):
        row = rows.select(k)
        if k or not moved:
            state = model.move(model.set_inputs(state, row.inputs, row.input_var))
        state, info = _step(model, state, row, kept, unknowns)
        infos.append(info)
        if model.settled is not None and _diagonal(info.step.cov).max(initial=0.0) <= model.settled:
            state = state.as_certain()
            if stops:
                break
    path = _collect_path(infos, state, model.outputs.stop - model.outputs.start)
    return path._replace(
        joint=_joint(path, infos, unknowns, rows.along is not None) if kept.joint else None,
        lagged=_lag_covariances(path.cov, infos) if kept.lagged else None,
    )


def _step(
    model: StateSpaceModel, state: GaussianState, row: _Rows, kept: _Kept, unknowns: int
) -> tuple[GaussianState, _Info]:  # fmt: skip
    """Emit y from a state whose cells have moved, report it, and correct the state by the data of the row."""
    before, y = state, model.outputs
    state, step = model.emit(state, row.observations is not None, row.along)
    # copies: a view would keep all of x
    info = _Info(step._replace(mean=step.mean.copy(), cov=step.cov.copy()))
    if kept.lagged:
        found = model.K[..., y, :] @ before.cross_covariance(y)
        if unknowns and not state.has_members:
            found += state.cross[..., y, :unknowns] @ before.cross[..., y, :unknowns].mT
        info = info._replace(before=found)
    if kept.members and isinstance(state, Ensemble):
        info = info._replace(members=state.members[..., y].copy())
    if kept.joint and not isinstance(state, Diagonal):  # a diagonal state has no covariances between rows
        info = info._replace(past=state.covariance_with_past(y).copy())
        state = state.remember(y)
    if row.observations is not None:
        state = model.update(state, row.observations, row.observation_cov)
    if row.clamp is not None:
        state = model.clamp(state, row.clamp)
    return state, info


def _collect_path(infos: list[_Info], state: GaussianState, d: int) -> Path:
    """Stack the reports of rows in time."""
    batch = state.mean.shape[:-1]
    if not infos:
        none = np.empty((*batch, 0, d))
        return Path(none, np.empty((*batch, 0, d, d)), {}, np.empty(none.shape, bool), state, None, {})
    mean, cov, parts, left, probed = _join_in_time(np.stack, [info.step for info in infos], len(batch))
    members = [info.members for info in infos if info.members is not None]
    return Path(mean, cov, parts, left, state, None, probed, np.stack(members, axis=len(batch)) if members else None)


def _joint(path: Path, infos: list[_Info], unknowns: int, along: bool) -> Array:
    """Return Cov(y_k, y_l) (…, T, d, T, d) from the reports of rows; block-diagonal for a diagonal state."""
    *batch, steps, d = path.mean.shape
    joint, std = np.zeros((*batch, steps, d, steps, d)), np.sqrt(np.maximum(_diagonal(path.cov), 0.0))
    counted, unknown = along and unknowns and not path.state.has_members, np.empty((*batch, steps, d, unknowns))
    for k, info in enumerate(infos):
        joint[..., k, :, k, :] = path.cov[..., k, :, :]
        if info.past is None:
            continue
        past = info.past[..., unknowns:].reshape(*batch, d, k, d)
        if counted:
            unknown[..., k, :, :] = info.past[..., :unknowns]
            past = past + np.einsum("...iu,...kju->...ikj", unknown[..., k, :, :], unknown[..., :k, :, :])
        # limit covariances by standard deviations: rounding errors would exceed them where variances nearly vanish
        most = std[..., k, :, None, None] * std[..., None, :k, :]
        below = joint[..., k, :, :k, :] = np.minimum(np.maximum(past, -most), most)
        joint[..., :k, :, k, :] = np.moveaxis(below, -3, -1)
    # A low-rank form cuts columns from the covariance of a row, not from those with the past; in a loop that diverges,
    # rounding does the same to all forms. Members have a covariance by construction.
    if not isinstance(path.state, Diagonal) and not path.state.has_members:
        flat = joint.reshape(*batch, steps * d, steps * d)
        for place in np.ndindex(*batch):
            flat[place] = limit_cross_covariances(flat[place], d)
    return joint


def _lag_covariances(cov: Array, infos: list[_Info]) -> Array:
    """Return Cov(y_{k+1}, y_k) (…, T − 1, d, d), limited by the variances in ``cov`` (…, T, d, d)."""
    std = np.sqrt(np.maximum(_diagonal(cov), 0.0))
    most = std[..., 1:, :, None] * std[..., :-1, None, :]
    found = [info.before for info in infos[1:] if info.before is not None]
    return np.minimum(np.maximum(np.stack(found, axis=-3), -most), most) if found else most


def _join_in_time(
    join: Callable[..., Array], items: Sequence[StepInfo | Path], time: int
) -> tuple[Array, Array, Parts, npt.NDArray[np.bool_], Parts]:
    """Join mean, covariance, parts, ``left`` and probes of rows or paths along the axis of time by ``join``."""
    mean, cov, left = (join([getattr(one, name) for one in items], axis=time) for name in ("mean", "cov", "left"))
    parts, probed = (
        {name: join([getattr(one, kind)[name] for one in items], axis=time) for name in getattr(items[0], kind)}
        for kind in ("parts", "probed")
    )
    return mean, cov, parts, left.astype(bool, copy=False), probed


def _diagonal(a: Array) -> Array:
    """Return the diagonals (…, n) of matrices (…, n, n)."""
    return a.diagonal(0, -2, -1)


def concatenate(paths: list[Path]) -> Path:
    """Concatenate paths in time."""
    if len(paths) == 1:
        return paths[0]
    time = paths[0].mean.ndim - 2
    mean, cov, parts, left, probed = _join_in_time(np.concatenate, paths, time)
    members = [path.members for path in paths if path.members is not None]
    futures = np.concatenate(members, axis=time) if members else None
    return Path(mean, cov, parts, left, paths[-1].state, None, probed, futures)


# ---------------------------------------------------------------- means alone, compiled


@dataclass(frozen=True, eq=False)
class CertainPath:
    """Compiled loop over rows of a :class:`pesn.statespace.state.Certain` state.

    It knows cells of tanh, squares and sines without a rotation, and bounds of y, the first entries of x; other states and models
    go step by step. K (…, p, n) of the model may be one for each readout of a batch, (readouts, 1, p, n).
    """

    model: StateSpaceModel

    def take(
        self, state: GaussianState, inputs: Array, input_var: Array | None, clamp: Array | None, moved: bool = False
    ) -> Path | None:
        """Process all rows; return None if something is uncertain, clamped, or not compiled."""
        if not inputs.shape[-2] or input_var is not None or clamp is not None or not self._can_take(state):
            return None
        *batch, n = state.mean.shape
        steps, m = inputs.shape[-2:]
        shape = (math.prod(batch[:-1]), batch[-1]) if self.model.K.ndim > 2 else (1, math.prod(batch))
        d = self.model.outputs.stop
        mean, left = np.empty((*shape, steps, d)), np.zeros((*shape, steps, d), bool)
        x = np.array(state.mean.reshape(*shape, n), order="C")
        u = np.ascontiguousarray(np.broadcast_to(inputs, (*batch, steps, m)), float).reshape(*shape, steps, m)
        roll_means(self._cells, self._readouts, self._edges, u, self.model.inputs.start, moved, x, mean, left)
        after = Certain(x.reshape(state.mean.shape), state.carried, state.cross)
        cov = np.zeros((*batch, steps, d, d))
        parts = {name: np.zeros((*batch, steps, d)) for name in ("state", "noise", "weights")}
        return Path(mean.reshape(*batch, steps, d), cov, parts, left.reshape(*batch, steps, d), after, None, {})

    def _can_take(self, state: GaussianState) -> bool:
        """Whether the loop can process this state."""
        K = self.model.K
        if K.ndim > 2 and K.shape[:-2] != (*state.mean.shape[:-2], 1):
            return False
        return self._serves and isinstance(state, Certain) and not state.cross.shape[-1]

    @cached_property
    def _serves(self) -> bool:
        model = self.model
        known = all(_kind(cell) is not None for cell in model.cells)
        return known and model.k.shape == model.K.shape[:-1] and model.outputs.start == 0

    @cached_property
    def _cells(self) -> CellRows:
        given = self.model.cells
        which = np.array([(cell.rows.start, len(cell.bias), _kind(cell)) for cell in given], np.intp).reshape(-1, 3)
        indptr, indices, data = [np.zeros(1, np.uint32)], [np.zeros(0, np.uint32)], [np.zeros(0)]
        for cell in given:
            first, columns, values = cell.enter.rows
            indptr.append(first[1:] + indptr[-1][-1])
            indices.append(columns)
            data.append(values)
        bias, leaks = (np.concatenate([np.zeros(0), *(getattr(cell, name) for cell in given)]) for name in ("bias", "leaks"))
        return CellRows(
            which, leaks, bias, np.concatenate(indptr).astype(np.uint32), np.concatenate(indices), np.concatenate(data)
        )

    @cached_property
    def _readouts(self) -> ReadoutRows:
        p, n = self.model.K.shape[-2:]
        K, k = self.model.K.reshape(-1, p, n), np.ascontiguousarray(self.model.k, float).reshape(-1, p)
        places = K.any(axis=0)
        indptr, indices = np.concatenate([[0], np.cumsum(places.sum(axis=1))]), np.nonzero(places)[1]
        return ReadoutRows(indptr.astype(np.uint32), indices.astype(np.uint32), np.ascontiguousarray(K[:, places]), k)

    @cached_property
    def _edges(self) -> Array:
        """Limits of the means of y, the range to which they are brought back, and their largest step, (5, d)."""
        if self.model.guard is not None:
            return np.stack(self.model.guard.mean_limits())
        return np.repeat([[-np.inf], [np.inf], [-np.inf], [np.inf], [np.inf]], self.model.outputs.stop, axis=1)


def _kind(cell: Cell) -> int | None:
    """Return the number of a cell's kind in the compiled loop; None: unknown."""
    if cell.rotation is not None:
        return None
    if isinstance(cell.units, ActivationMoments) and cell.units.record is TANH:
        return TANH_UNITS
    return SQUARE if isinstance(cell.units, SquareMoments) else SINE if isinstance(cell.units, SineMoments) else None
