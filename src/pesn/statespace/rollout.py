"""Time loops over a state-space model: one step at a time for any form of the state, and a compiled loop for means alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.jit import jit
from pesn._support.types import AnyArray, Array
from pesn.activations.smooth import TANH
from pesn.linalg import limit_cross_covariances
from pesn.moments.special import tanh
from pesn.statespace.cell import REACH, ActivationMoments, Cell, SineMoments, SquareMoments
from pesn.statespace.certain import Certain
from pesn.statespace.diagonal import Diagonal
from pesn.statespace.ensemble import Ensemble
from pesn.statespace.kernels import SIDE_BY_SIDE, row_times_16
from pesn.statespace.model import Bounds, Guard, StateSpaceModel
from pesn.statespace.state import FARTHEST, GaussianState

__all__ = ["CertainPath", "Path", "concatenate", "roll_means", "rollout"]


class Path(NamedTuple):
    """What T rows gave: of y the ``mean`` (…, T, d), ``cov`` (…, T, d, d), variances by part (…, T, d); the last state.

    ``left`` (…, T, d): where a mean had left the bounds and was brought back. ``joint`` (…, T, d, T, d), where it was asked for,
    holds the covariances of y between any two rows; ``probed`` what the model's probe has found; ``members`` (…, T, M, d), where
    they were asked for, y of each member of an ensemble; ``lagged`` (…, T − 1, d, d), where it was asked for, Cov(y_{k+1}, y_k).
    """

    mean: Array
    cov: Array
    parts: dict[str, Array]
    left: npt.NDArray[np.bool_]
    state: GaussianState
    joint: Array | None
    probed: dict[str, Array]
    members: Array | None = None
    lagged: Array | None = None


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

    Rows that the model's fast path serves go by a compiled loop. Which way a row goes depends on the state before it and on its
    own inputs alone: not on how a run was cut. States of a batch go the same way, and pass for certain when all of them do.

    Parameters
    ----------
    state
        Where to start; its leading axes are a batch.
    inputs, input_var
        Known inputs (…, T, m) of each step, with variances where they are uncertain.
    observations
        y (…, T, d), NaN where it is missing: each row corrects the state after it was predicted (filtering).
    observation_cov
        (…, T, d, d), the covariance of the noise that each row was measured with; None: without noise.
    clamp
        y (…, T, d) that takes the place of what was predicted, and corrects nothing (teacher forcing).
    moved
        Whether the first row's inputs are in the state already and its cells have moved, as after a start that was learnt
        with them.
    joint
        Keep the covariances between all rows, T² d² numbers.
    members
        Keep y of each member where the state is an ensemble, T M d numbers.
    along
        (…, T, r): by how much each of r directions of the readout's weights, unknown and the same at every step, moves an output
        (:attr:`StateSpaceModel.staying_root`).
    lagged
        Keep the covariances between each row and the next.
    """
    paths: list[Path] = []
    row, steps = 0, inputs.shape[-2]
    fast = None if joint or lagged or observations is not None or along is not None else model.fast
    if along is not None and model.staying_root is not None and not state.cross.shape[-1]:  # else a run goes on
        state = state.with_unknowns(model.n_unknowns(along))
    while row < steps or not paths:
        left: list[Any] = [None if a is None else a[..., row:, :] for a in (inputs, input_var, observations, clamp)]
        noise = None if observation_cov is None else observation_cov[..., row:, :, :]
        path = None if fast is None else fast.take(state, left[0], left[1], clamp=left[3], moved=moved)
        if path is None:
            path = _steps(
                model, state, left[0], left[1], observations=left[2], observation_cov=noise, clamp=left[3], moved=moved,
                joint=joint, members=members, along=None if along is None else along[..., row:, :], lagged=lagged,
                stops=fast is not None,
            )  # fmt: skip
        paths.append(path)
        row, state, moved = row + path.mean.shape[-2], path.state, False
    return concatenate(paths)


def _steps(
    model: StateSpaceModel, state: GaussianState, inputs: AnyArray, input_var: Array | None, *,
    observations: Array | None, observation_cov: Array | None, clamp: Array | None, moved: bool, joint: bool, members: bool,
    along: Array | None, lagged: bool, stops: bool,
) -> Path:  # fmt: skip
    """One after the other; ``stops``: at the first row after which the state passes for certain, for a compiled loop to go on."""
    steps, (d, y) = inputs.shape[-2], (model.outputs.stop - model.outputs.start, model.outputs)
    batch, older = state.mean.shape[:-1], state.cross.shape[-1]
    mean, cov, left = np.empty((*batch, steps, d)), np.empty((*batch, steps, d, d)), np.zeros((*batch, steps, d), bool)
    between, std = np.zeros((*batch, steps, d, steps, d)) if joint else None, np.empty((*batch, steps, d))
    after = np.empty((*batch, steps - 1, d, d)) if lagged else None
    unknown = np.empty((*batch, steps if joint and along is not None else 0, d, older))  # Cov(y, unknowns) at each step
    parts: dict[str, Array] = {}
    probed: dict[str, Array] = {}
    futures: list[Array] = []
    all_of: Any = (slice(None),) * len(batch)
    k = 0
    for k in range(steps):
        if k or not moved:
            state = model.set_inputs(state, inputs[..., k, :], None if input_var is None else input_var[..., k, :])
            state = model.move(state)
        before = state
        state, info = model.emit(state, observations is not None, None if along is None else along[..., k, :])
        if after is not None and k:
            after[..., k - 1, :, :] = _between(model, before, state, cov[..., k - 1, :, :], info.cov, older)
        mean[..., k, :], cov[..., k, :, :], left[..., k, :] = info.mean, info.cov, info.left
        if members and isinstance(state, Ensemble):
            futures.append(state.members[..., y].copy())  # a view would keep all of x
        for into, values in ((parts, info.parts), (probed, info.probed)):
            for name, value in values.items():
                if name not in into:
                    into[name] = np.empty((*batch, steps, *value.shape[len(batch) :]))
                into[name][(*all_of, k)] = value
        if between is not None:
            between[..., k, :, k, :] = info.cov
            # what has dropped its covariances in a row cannot have them right between rows
            if not isinstance(state, Diagonal):
                # where variances nearly vanish, rounding of larger numbers must not make a covariance that no deviations allow
                std[..., k, :] = np.sqrt(np.maximum(_diagonal(info.cov), 0.0))
                most = std[..., k, :, None, None] * std[..., None, :k, :]
                past = state.covariance_with_past(y)[..., older:].reshape(*batch, d, k, d)
                if along is not None and older and not state.has_members:
                    unknown[..., k, :, :] = state.covariance_with_past(y)[..., :older]
                    past = past + np.einsum("...iu,...kju->...ikj", unknown[..., k, :, :], unknown[..., :k, :, :])
                between[..., k, :, :k, :] = np.minimum(np.maximum(past, -most), most)
                state = state.remember(y)
        if observations is not None:
            noise = None if observation_cov is None else observation_cov[..., k, :, :]
            state = model.update(state, observations[..., k, :], noise)
        if clamp is not None:
            state = model.clamp(state, clamp[..., k, :])
        if model.settled is not None and _diagonal(info.cov).max(initial=0.0) <= model.settled:
            state = state.as_certain()
            if stops:
                break
    if between is not None:  # the upper triangle: what lies after a row
        flat = between.reshape(*batch, steps * d, steps * d)
        for row in range(0, steps * d, d):
            flat[..., :row, row : row + d] = flat[..., row : row + d, :row].mT
        # A low-rank form cuts columns from the covariance of a row, not from those with the past; in a loop that diverges,
        # rounding does the same to all forms. Members have a covariance by construction.
        if not isinstance(state, Diagonal) and not state.has_members:
            for place in np.ndindex(batch):
                flat[place] = limit_cross_covariances(flat[place], d)
    done = (*all_of, slice(0, k + 1 if steps else 0))
    parts, probed = ({name: value[done] for name, value in found.items()} for found in (parts, probed))
    kept = np.stack(futures, axis=len(batch)) if futures else None
    return Path(mean[done], cov[done], parts, left[done], state, between, probed, kept, after)


def _between(model: StateSpaceModel, before: GaussianState, state: GaussianState, cov: Array, new: Array, unknowns: int) -> Array:
    """Cov(next y, y) (…, d, d) of a step from ``before``; no more than covariances ``cov`` and ``new`` of the two rows allow."""
    y = model.outputs
    found = model.K[..., y, :] @ before.covariance_with(y)
    if unknowns and not state.has_members:
        found += state.cross[..., y, :unknowns] @ before.cross[..., y, :unknowns].mT
    most = np.sqrt(np.maximum(_diagonal(new), 0.0))[..., :, None] * np.sqrt(np.maximum(_diagonal(cov), 0.0))[..., None, :]
    return np.minimum(np.maximum(found, -most), most)


def _diagonal(a: Array) -> Array:
    return a.diagonal(0, -2, -1)


def concatenate(paths: list[Path]) -> Path:
    """One path of several, one after the other in time."""
    if len(paths) == 1:
        return paths[0]
    time = paths[0].mean.ndim - 2
    mean, cov, left = (np.concatenate([getattr(path, name) for path in paths], axis=time) for name in ("mean", "cov", "left"))
    parts, probed = (
        {name: np.concatenate([getattr(path, kind)[name] for path in paths], axis=time) for name in getattr(paths[0], kind)}
        for kind in ("parts", "probed")
    )
    members = [path.members for path in paths if path.members is not None]
    futures = np.concatenate(members, axis=time) if members else None
    return Path(mean, cov, parts, left, paths[-1].state, None, probed, futures)


@jit(fastmath={"contract", "nsz"})
def roll_means(
    cells: Array, leaks: Array, indptr: Array, indices: Array, data: Array, bias: Array, K_indptr: Array, K_indices: Array,
    K_data: Array, k: Array, edges: Array, inputs: Array, first_input: int, moved: bool, x: Array, mean: Array, left: Array,
) -> None:  # fmt: skip
    """States x (R, S, n) of R readouts through all rows, in place; y of each row in ``mean`` (R, S, T, d), and where it had left.

    ``cells`` (c, 3): the first row of each cell in x, how many, and what it does, 0 tanh, 1 square, 2 sine; their matrices stand
    one under another, ``leaks`` and biases too.
    ``edges`` (5, d): least and largest mean, between which one is brought back that is beyond these and the one before, and the
    largest step, beyond which it stays where it was.
    """
    _, states, n = x.shape
    steps, d = mean.shape[2:]
    p, m = k.shape[1], inputs.shape[3]
    here, new = np.empty((n, SIDE_BY_SIDE)), np.empty((max(bias.size, p), SIDE_BY_SIDE))
    for r in range(x.shape[0]):
        weights = K_data[r]
        for first in range(0, states, SIDE_BY_SIDE):
            count = min(SIDE_BY_SIDE, states - first)
            for s in range(SIDE_BY_SIDE):  # where they end, the last of them again
                one = x[r, min(first + s, states - 1)]
                for j in range(n):
                    here[j, s] = one[j]
            for t in range(steps):
                if t or not moved:
                    for j in range(m):
                        for s in range(SIDE_BY_SIDE):
                            here[first_input + j, s] = inputs[r, min(first + s, states - 1), t, j]
                    row = 0
                    for c in range(cells.shape[0]):
                        start, rows, kind = cells[c]
                        for i in range(rows):
                            row_times_16(indices, data, indptr[row + i], indptr[row + i + 1], here, 0, new, i)
                        for i in range(rows):
                            now, unit, b, leak = here[start + i], new[i], bias[row + i], leaks[row + i]
                            keep = 1.0 - leak
                            if kind == 1:
                                for s in range(SIDE_BY_SIDE):
                                    a = min(max(unit[s] + b, -REACH), REACH)
                                    now[s] = keep * now[s] + leak * (a * a)
                            elif kind == 2:
                                for s in range(SIDE_BY_SIDE):
                                    now[s] = keep * now[s] + leak * np.sin(unit[s] + b)
                            else:
                                for s in range(SIDE_BY_SIDE):
                                    now[s] = keep * now[s] + leak * tanh(unit[s] + b)
                        row += rows
                for i in range(p):
                    row_times_16(K_indices, weights, K_indptr[i], K_indptr[i + 1], here, 0, new, i)
                    for s in range(SIDE_BY_SIDE):
                        new[i, s] = min(max(new[i, s] + k[r, i], -FARTHEST), FARTHEST)
                for i in range(d):
                    for s in range(count):
                        value, before = new[i, s], here[i, s]
                        if value < min(edges[0, i], before) or value > max(edges[1, i], before):
                            new[i, s] = value = min(max(value, edges[2, i]), edges[3, i])
                            left[r, first + s, t, i] = True
                        elif abs(value - before) > edges[4, i]:
                            new[i, s] = value = before
                            left[r, first + s, t, i] = True
                        mean[r, first + s, t, i] = value
                for i in range(p):
                    for s in range(SIDE_BY_SIDE):
                        here[i, s] = new[i, s]
            for s in range(count):
                one = x[r, first + s]
                for j in range(n):
                    one[j] = here[j, s]


@dataclass(frozen=True, eq=False)
class CertainPath:
    """Rows of a :class:`pesn.statespace.Certain` state, by the same cells, K, k and bounds as those of a model.

    Serves cells of tanh, squares and sines without a rotation, and bounds of y, the first entries of x; other states and models
    go step by step.
    K (…, p, n) may be one for each readout of a batch (readouts, 1, p, n): the states of one readout stand side by side.
    """

    cells: tuple[Cell, ...]
    K: Array
    k: Array
    inputs: slice
    outputs: slice
    guard: Guard | None = None

    def take(
        self, state: GaussianState, inputs: Array, input_var: Array | None, clamp: Array | None, moved: bool = False
    ) -> Path | None:
        """All rows; None where something is uncertain, clamped, or not among what is compiled."""

        *batch, n = state.mean.shape
        many = self.K.ndim > 2
        if many and self.K.shape[:-2] != (*batch[:-1], 1):
            return None
        steps, m = inputs.shape[-2:]
        served = self._serves and isinstance(state, Certain) and not state.cross.shape[-1]
        if not served or not steps or input_var is not None or clamp is not None:
            return None
        shape = (math.prod(batch[:-1]), batch[-1]) if many else (1, math.prod(batch))
        d = self.outputs.stop
        mean, left = np.empty((*shape, steps, d)), np.zeros((*shape, steps, d), bool)
        x = np.array(state.mean.reshape(*shape, n), order="C")
        u = np.ascontiguousarray(np.broadcast_to(inputs, (*batch, steps, m)), float).reshape(*shape, steps, m)
        roll_means(*self._cells, *self._readouts, self._edges, u, self.inputs.start, moved, x, mean, left)
        after = Certain(x.reshape(state.mean.shape), state.carried, state.cross)
        cov = np.zeros((*batch, steps, d, d))
        parts = {name: np.zeros((*batch, steps, d)) for name in ("state", "noise", "weights")}
        return Path(mean.reshape(*batch, steps, d), cov, parts, left.reshape(*batch, steps, d), after, None, {})

    @cached_property
    def _serves(self) -> bool:
        known = all(_kind(cell) is not None for cell in self.cells)
        known = known and self.k.shape == self.K.shape[:-1]
        return known and self.outputs.start == 0 and (self.guard is None or isinstance(self.guard, Bounds))

    @cached_property
    def _cells(self) -> tuple[AnyArray, ...]:
        """Of each cell its first row in x, its number of rows and what it does; of all rows the leaks, A and the biases."""
        which = [(cell.rows.start, len(cell.bias), _kind(cell)) for cell in self.cells]
        indptr, indices, data = [np.zeros(1, np.uint32)], [np.zeros(0, np.uint32)], [np.zeros(0)]
        for cell in self.cells:
            first, columns, values = cell.enter.rows
            indptr.append(first[1:] + indptr[-1][-1])
            indices.append(columns)
            data.append(values)
        bias, leaks = (np.concatenate([np.zeros(0), *(getattr(cell, name) for cell in self.cells)]) for name in ("bias", "leaks"))
        rows = np.concatenate(indptr).astype(np.uint32), np.concatenate(indices), np.concatenate(data)
        return np.reshape(np.array(which, np.intp), (-1, 3)), leaks, *rows, bias

    @cached_property
    def _readouts(self) -> tuple[AnyArray, ...]:
        """K in compressed rows, with the data of each readout, and k (readouts, p)."""
        p, n = self.K.shape[-2:]
        K, k = self.K.reshape(-1, p, n), np.ascontiguousarray(self.k, float).reshape(-1, p)
        places = K.any(axis=0)
        indptr = np.concatenate([[0], np.cumsum(places.sum(axis=1))])
        indices = np.nonzero(places)[1]
        return indptr.astype(np.uint32), indices.astype(np.uint32), np.ascontiguousarray(K[:, places]), k

    @cached_property
    def _edges(self) -> Array:
        """Beyond which a mean of y has left, and between which it is then brought back, and its largest step: (5, d)."""
        if isinstance(self.guard, Bounds):
            return np.stack(self.guard.edges_of_means())
        return np.repeat([[-np.inf], [np.inf], [-np.inf], [np.inf], [np.inf]], self.outputs.stop, axis=1)


def _kind(cell: Cell) -> int | None:
    """As the compiled loop numbers what cells do; None: it does not know this one."""
    if cell.rotation is not None:
        return None
    if isinstance(cell.units, ActivationMoments) and cell.units.record is TANH:
        return 0
    return 1 if isinstance(cell.units, SquareMoments) else 2 if isinstance(cell.units, SineMoments) else None
