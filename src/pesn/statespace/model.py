"""State-space model: how a joint Gaussian over x = [c, h] moves from one row to the next, observations, and the time loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.activations import TANH
from pesn.linalg import limit_cross_covariances, outer, transpose
from pesn.statespace.cell import ActivationMoments, Cell, Compression, Noise, SineMoments, SquareMoments, Terms
from pesn.statespace.ensemble import Draws, Ensemble
from pesn.statespace.kernels import SINE, SQUARE, TANH_UNITS, CellRows, ReadoutRows, roll_means
from pesn.statespace.low_rank import FirstOrder, LowRank, truncate
from pesn.statespace.state import Certain, Dense, Diagonal, GaussianState, Parts

CLOSED_FORMS = ("diagonal", "full", "low-rank")
FORMS = (*CLOSED_FORMS, "ensemble")

_MOST_OUTSIDE = 0.5  # share of members outside beyond which y has left
_WIDEST = 2.0  # largest forecast standard deviation relative to training
_FARTHER = 10.0  # wider limits for members of kinematic columns, which integrate
PACE = 0.95  # required decay per step of the distance of a mean outside its limits


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on y, the first d entries of x, from its long-run distribution.

    - If the standard deviation of y exceeds twice that of training, it is cut to that, and the mean is drawn in as by an
      observation that leaves this standard deviation: by the square of the factor, and into the training range widened by it.
    - A mean farther out than the width of the range, and than 0.95 of its distance before the step, has left: it is brought back
      into the range widened by its standard deviation, which is then at least that of training if ``widen`` is True.

    Kinematics hold everywhere: the mean of a ``kinematic`` column (d,) follows them beyond the range, and its standard deviation
    may be half its distance from the training mean. So may those of all columns in a row that will be observed. A kinematic
    column that moves by more than the width of the range in one step stays where it was.

    Members of an ensemble are bounded first, one by one: one that runs away would widen all. A member a width of the range
    beyond the range, and beyond the mean before the step, is brought back to the range; a kinematic one that is ten widths away,
    to the mean before the step. y has left if most members had.

    Parameters
    ----------
    center : array of shape (d,)
        Mean in training.
    width : array of shape (d,)
        Standard deviation in training.
    low : array of shape (d,)
        Least value in training.
    high : array of shape (d,)
        Largest value in training.
    kinematic : array of bool of shape (d,)
        Columns that follow kinematics.
    widen : bool, default=True
        Whether a mean that is brought back has at least the standard deviation of training.
    free : array of bool of shape (d,), default=None
        Columns on whose position the dynamics do not depend: unbounded as kinematic ones, of any width. None: no column.
    """

    center: Array
    width: Array
    low: Array
    high: Array
    kinematic: npt.NDArray[np.bool_]
    widen: bool = True
    free: npt.NDArray[np.bool_] | None = None

    @cached_property
    def _free(self) -> npt.NDArray[np.bool_]:
        return np.zeros(len(self.center), bool) if self.free is None else self.free

    @cached_property
    def is_unbounded(self) -> npt.NDArray[np.bool_]:
        """Columns whose mean is not bounded."""
        return self.kinematic | self._free

    @cached_property
    def edges(self) -> tuple[Array, Array, Array]:
        """Least and largest mean, and largest standard deviation, within which nothing changes."""
        return self.low - self.reach, self.high + self.reach, _WIDEST * self.width

    @cached_property
    def reach(self) -> Array:
        """Largest distance of a mean from the range, and largest step of a kinematic one."""
        return np.maximum(self.high - self.low, _WIDEST * self.width)

    def widest(self) -> Array:
        """Return the largest standard deviation (d,) of y that is forecast, infinite for unbounded columns."""
        return np.where(self.is_unbounded, np.inf, _WIDEST * self.width)

    def mean_limits(self) -> tuple[Array, Array, Array, Array, Array]:
        """Return limits of y without variance: least and largest mean, range to which a mean is brought back, largest step."""
        least, most, _ = self.edges
        added = self.widen * self.width
        least, most = np.where(self.is_unbounded, -np.inf, least), np.where(self.is_unbounded, np.inf, most)
        return least, most, self.low - added, self.high + added, np.where(self.is_unbounded, self.reach, np.inf)

    def __call__(
        self, state: GaussianState, before: Array, observed: bool = False
    ) -> tuple[GaussianState, Array, npt.NDArray[np.bool_]]:
        """Return the bounded state, the factors (…, d) applied to the standard deviations of y, and the columns that had left.

        ``before`` (…, d) are the means of y before the step; ``observed``: whether a row will correct it.
        """
        d = len(self.center)
        rows = slice(0, d)
        state, gone = self._clip_members(state, rows, before) if state.has_members and not observed else (state, 0.0)
        mean, std = state.mean[..., rows], np.sqrt(np.maximum(state.block_covariance(rows).diagonal(0, -2, -1), 0.0))
        least, most, widest = self.edges
        if self.free is not None:
            least, most = np.where(self.free, before - self.reach, least), np.where(self.free, before + self.reach, most)
            widest = np.where(self.free, np.inf, widest)
        if ((std <= widest) & (mean >= least) & (mean <= most)).all():
            return state, np.ones(mean.shape), np.zeros(mean.shape, bool) | (gone > _MOST_OUTSIDE)
        jumped = self.is_unbounded & (np.abs(mean - before) > self.reach) & (not observed)
        away = np.where(jumped, before, mean) - self.center
        anywhere = self.is_unbounded | observed
        widest = np.where(anywhere, np.maximum(widest, 0.5 * np.abs(away)), widest)
        factor = np.minimum(1.0, widest / np.maximum(std, self.width))
        outside = (mean < least + PACE * np.minimum(before - least, 0.0)) | (mean > most + PACE * np.maximum(before - most, 0.0))
        left = (outside & ~anywhere) | jumped
        if np.all(factor == 1.0) and not left.any():
            return state, factor, left | (gone > _MOST_OUTSIDE)
        drawn = self.center + factor**2 * away
        std = factor * std
        added = np.where(left, np.sqrt(np.maximum(np.square(self.width) - np.square(std), 0.0)), 0.0) * self.widen
        std = np.hypot(std, added)
        inside = np.clip(drawn, self.low - std, self.high + std)
        K, root = np.zeros((*factor.shape, state.mean.shape[-1])), np.zeros((*factor.shape, d))
        K[..., np.arange(d), np.arange(d)], root[..., np.arange(d), np.arange(d)] = factor, added
        held = (left | (factor < 1.0)) & ~anywhere
        state = state.affine(rows, K, np.where(held, inside, drawn) - factor * mean, root)
        return state, factor, left | (gone > _MOST_OUTSIDE)

    def _clip_members(self, state: GaussianState, rows: slice, before: Array) -> tuple[GaussianState, Array | float]:
        """Bring ensemble members that left their limits back; return also their share."""
        reach = np.where(self.is_unbounded, _FARTHER, 1.0) * self.reach
        low, high = np.minimum(self.low, before) - reach, np.maximum(self.high, before) + reach
        low, high = np.where(self._free, before - reach, low), np.where(self._free, before + reach, high)
        back = np.where(self.is_unbounded, before, self.low), np.where(self.is_unbounded, before, self.high)
        return state.hold(rows, low, high, back, self.widen * self.width)


class Emission(NamedTuple):
    """Noise added to c in one step: a ``root`` (…, p, q) of its covariance, and its share in the variances of y.

    ``noise`` (…, d) is that of the model errors, ``total`` (…, d) includes the parameter uncertainty.
    """

    root: Array
    noise: Array
    total: Array


class StepInfo(NamedTuple):
    """Report of a step: ``mean`` (…, d), ``cov`` (…, d, d) of y, its variances (…, d) by part.

    ``left`` (…, d): columns whose mean had left the bounds and was brought back. ``probed``: results of the model's probe.
    """

    mean: Array
    cov: Array
    parts: Parts
    left: npt.NDArray[np.bool_]
    probed: Parts


class Path(NamedTuple):
    """Report of T rows: of y the ``mean`` (…, T, d), ``cov`` (…, T, d, d), variances by part (…, T, d); and the last state.

    ``left`` (…, T, d): where a mean had left the bounds and was brought back. On request: ``joint`` (…, T, d, T, d),
    covariances of y between any two rows; ``members`` (…, T, M, d), y of each ensemble member; ``lagged`` (…, T − 1, d, d),
    Cov(y_{k+1}, y_k). ``probed``: results of the model's probe.
    """

    mean: Array
    cov: Array
    parts: Parts
    left: npt.NDArray[np.bool_]
    state: GaussianState
    joint: Array | None
    probed: Parts
    members: Array | None = None
    lagged: Array | None = None


class FastPath(Protocol):
    """Compiled loop over rows that need no covariance."""

    def take(
        self, state: GaussianState, inputs: Array, input_var: Array | None, clamp: Array | None, moved: bool = False
    ) -> Path | None:  # fmt: skip
        """Process as many of the first rows as possible; return None if none.

        ``moved``: the state already has the inputs of the first row, and its cells have moved.
        """


@dataclass(frozen=True, eq=False)
class StateSpaceModel:
    """One step: x[inputs] ← u; h by the cells, with process noise; then c ← K x + k + emission noise, bounded.

    Parameters
    ----------
    cells : tuple of Cell
        Moves of h, in their order; each uses the results of those before it.
    K : array of shape (…, p, n)
        Matrix of c ← K x + k; leading axes broadcast with a batch of states.
    k : array of shape (…, p)
        Offset.
    inputs : slice
        Entries of c that hold the known inputs.
    outputs : slice
        Entries of c that are reported and observed, y.
    process_noise : Noise, default=None
        Added to the last entries of x after all cells have moved.
    emission_noise : callable, default=None
        Returns the :class:`Emission` of a state before c moves.
    guard : Bounds, default=None
        Bounds on y.
    probe : callable, default=None
        Returns arrays by name to record of the state that outputs are read from.
    measurement_cov : array of shape (d, d), default=None
        Covariance of the measurement noise of y: reported, not fed back.
    parameter_root : array of shape (d, m), default=None
        Effect of errors of the m readout outputs on y, for parameter errors that are the same at every step.
    parameter_groups : array of int of shape (d,), default=None
        Group of each entry of y, if each of G groups has directions of its own: ``along`` is then (…, G r).
    fast : FastPath, default=None
        Compiled loop for rows that it can process.
    settled : float, default=None
        Variance of y below which a state is treated as certain.
    terms : Terms, default=None
        Added to the first entries of c ← K x + k; c is then all of x.
    """

    cells: tuple[Cell, ...]
    K: Array
    k: Array
    inputs: slice
    outputs: slice
    process_noise: Noise | None = None
    emission_noise: Callable[[GaussianState], Emission] | None = None
    guard: Bounds | None = None
    probe: Callable[[GaussianState], Parts] | None = None
    measurement_cov: Array | None = None
    parameter_root: Array | None = None
    parameter_groups: npt.NDArray[np.intp] | None = None
    fast: FastPath | None = None
    settled: float | None = None
    terms: Terms | None = None
    carry: slice = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "carry", slice(0, self.k.shape[-1]))

    def set_inputs(self, state: GaussianState, u: Array, u_var: Array | None = None) -> GaussianState:
        """Set x[inputs] to u (…, m), with variances if they are uncertain."""
        return state.assign(self.inputs, u, u_var) if u.shape[-1] else state

    def move(self, state: GaussianState) -> GaussianState:
        """Move the cells, in their order, then add process noise."""
        noise, n = self.process_noise, state.mean.shape[-1]
        for cell in self.cells[:-1]:
            state = state.move(cell)
        if not self.cells:
            return state
        last = self.cells[-1]
        if noise is None or noise.rows(n).start < last.rows.start:
            state = state.move(last)
            return state if noise is None else state.add(noise, last.compression)
        return state.move(last, self._last_noise)  # in one step, if the noise is of the entries of the last cell

    @cached_property
    def _last_noise(self) -> Noise:
        """Process noise of the entries that the last cell moves; those before the noise have none."""
        assert self.process_noise is not None
        return self.process_noise.pad(len(self.cells[-1].bias) - len(self.process_noise.diagonal))

    def emit(
        self, state: GaussianState, observed: bool = False, along: Array | None = None
    ) -> tuple[GaussianState, StepInfo]:  # fmt: skip
        """Compute the next c and report y; ``observed``: whether a row of y will correct the state.

        ``along`` (…, r): effect of each of r directions of the weights, unknown and the same at every step, on an output.
        """
        emission = None if self.emission_noise is None else self.emission_noise(state)
        probed = {} if self.probe is None else self.probe(state)
        before, along = state.mean[..., self.outputs], None if self.parameter_root is None else along
        root = None if emission is None else emission.root
        if self.terms is None:
            state = state.affine(self.carry, self.K, self.k, root)
        else:
            state = state.affine_with_terms(self.K, self.k, self.terms, root)
        if along is not None:
            state = state.add_unknowns(self.outputs, self._parameter_columns(along))
        if self.guard is not None:
            state, factor, left = self.guard(state, before, observed)
        else:
            factor, left = np.ones(before.shape), np.zeros(before.shape, bool)
        cov = state.block_covariance(self.outputs)
        parts = _split_variances(cov.diagonal(0, -2, -1), emission, factor)
        if along is not None:
            state, cov, parts = self._add_parameter_uncertainty(state, cov, parts, self.n_unknowns(along))
        if self.measurement_cov is not None:
            cov = cov + self.measurement_cov
            parts["noise"] = parts["noise"] + self.measurement_cov.diagonal()
        return state, StepInfo(state.mean[..., self.outputs], cov, parts, left, probed)

    def n_unknowns(self, along: Array) -> int:
        """Return the number of unknown parameters along a run."""
        assert self.parameter_root is not None
        groups = 1 if self.parameter_groups is None else int(self.parameter_groups.max()) + 1
        return int(along.shape[-1] // groups * self.parameter_root.shape[-1])

    def _parameter_columns(self, along: Array) -> Array:
        """Return (…, d, r m): columns of the root (d, m) times each of ``along`` (…, r), or of an entry's own group."""
        assert self.parameter_root is not None
        if self.parameter_groups is None:
            each = along[..., None, :]
        else:
            each = along.reshape(*along.shape[:-1], int(self.parameter_groups.max()) + 1, -1)[..., self.parameter_groups, :]
        every = self.parameter_root[:, None, :] * each[..., None]
        return np.asarray(every.reshape(*every.shape[:-2], -1))

    def _add_parameter_uncertainty(
        self, state: GaussianState, cov: Array, parts: Parts, unknowns: int
    ) -> tuple[GaussianState, Array, Parts]:  # fmt: skip
        """Add the share of unknown weights in y to state, covariance (…, d, d) and parts, within the bounds of y."""
        G = state.covariance_with_past(self.outputs)[..., :unknowns]
        if self.guard is not None and not state.has_members:
            own, room = np.vecdot(G, G), np.square(self.guard.widest()) - cov.diagonal(0, -2, -1)
            if (own > room).any():
                factor = np.sqrt(np.clip(np.divide(room, own, out=np.ones_like(own), where=own > 0.0), 0.0, 1.0))
                state = state.add_unknowns(self.outputs, (factor[..., None] - 1.0) * G)
                G = factor[..., None] * G
        staying = outer(G)
        var = staying.diagonal(0, -2, -1)
        if state.has_members:  # members already include it
            var = np.minimum(var, parts["state"])
            parts = {**parts, "state": parts["state"] - var}
        else:
            cov = cov + staying
        return state, cov, {**parts, "weights": parts["weights"] + var}

    def predict(self, state: GaussianState, u: Array, u_var: Array | None = None) -> tuple[GaussianState, StepInfo]:
        """Predict one step from a state that includes the last y."""
        return self.emit(self.move(self.set_inputs(state, u, u_var)))

    def update(self, state: GaussianState, y: Array, noise_cov: Array | None = None) -> GaussianState:
        """Condition on y (…, d), NaN if missing, with measurement noise of covariance (d, d), None: the model's own."""
        noise_cov = self.measurement_cov if noise_cov is None else noise_cov
        return state if np.isnan(y).all() else state.condition(self.outputs, y, noise_cov)

    def clamp(self, state: GaussianState, y: Array) -> GaussianState:
        """Replace the outputs by y without any correction (teacher forcing)."""
        return state.assign(self.outputs, y)


def _split_variances(total: Array, emission: Emission | None, factor: Array) -> Parts:
    """Split the variances ``total`` (…, d) of y by source; ``factor`` (…, d): reduction of the standard deviations."""
    fresh = noise = np.zeros(total.shape)
    if emission is not None:  # errors of two columns may cancel in a third
        scale = factor * factor
        fresh = np.minimum(scale * emission.total, total)
        noise = np.minimum(scale * emission.noise, fresh)
    return {"state": total - fresh, "noise": noise, "weights": fresh - noise}


def init(
    form: str, carried: int, mean: Array, root: Array, compression: Compression | None = None, carried_root: Array | None = None,
    *, members: int = 256, draws: Draws | None = None,
) -> GaussianState:  # fmt: skip
    """Return a state with mean 0 of its first ``carried`` entries.

    Parameters
    ----------
    form : {"diagonal", "full", "low-rank", "ensemble", "first-order", "none"}
        Representation of the covariance; "none": means only.
    carried : int
        Number of entries of c.
    mean : array of shape (…, N)
        Mean of h.
    root : array of shape (…, r, N)
        Cov(h) = rootᵀ root.
    compression : Compression, default=None
        Required by "low-rank".
    carried_root : array of shape (…, r, carried), default=None
        Share of c in the rows of the root; None: c is certain.
    members : int, default=256
        Number of members of an ensemble.
    draws : Draws, default=None
        Random numbers of an ensemble; None: those of seed 0.

    Returns
    -------
    GaussianState
    """
    if form not in (known := (*FORMS, "first-order", "none")):
        raise ValueError(f"form must be one of {', '.join(map(repr, known))}, got {form!r}")
    *batch, n = mean.shape
    total = carried + n
    whole = np.zeros((*batch, total))
    whole[..., carried:] = mean
    shared = whole, carried, np.zeros((*batch, total, 0))
    if form == "none":
        return Certain(*shared)
    columns = np.zeros((*batch, total, root.shape[-2]))
    columns[..., carried:, :] = transpose(root)
    if carried_root is not None:
        columns[..., :carried, :] = transpose(carried_root)
    if form == "ensemble":
        return Ensemble.draw(whole, transpose(columns), carried, members, Draws(0) if draws is None else draws)
    if form == "full":
        return Dense(*shared, outer(columns))
    if form == "diagonal":
        return Diagonal(*shared, np.sum(np.square(columns), axis=-1))
    if form == "first-order":
        return FirstOrder(*shared, columns)
    assert compression is not None
    (tied,) = np.nonzero(columns[..., :carried, :].any(axis=(*range(len(batch)), -1)))  # entries of c that lose nothing
    rows = np.concatenate([tied, np.arange(carried, total)])
    factor, own = truncate(columns[..., rows, :], np.zeros((*batch, n)), len(tied), compression)
    padded = np.zeros((*batch, total, factor.shape[-1]))
    padded[..., rows, :] = factor
    return LowRank(*shared, padded, own)


# ---------------------------------------------------------------- the loop over rows


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
    y, count = model.outputs, state.cross.shape[-1]
    before = state
    if kept.lagged:
        state = state.remember(y)
    state, step = model.emit(state, row.observations is not None, row.along)
    # copies: a view would keep all of x
    info = _Info(step._replace(mean=step.mean.copy(), cov=step.cov.copy()))
    if kept.lagged:
        found = state.cross[..., y, count:]
        if unknowns and not state.has_members:
            found = found + state.cross[..., y, :unknowns] @ before.cross[..., y, :unknowns].mT
        info = info._replace(before=found)
        state = state.with_arrays(cross=state.cross[..., :count])
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
    flat, std = np.zeros((*batch, steps * d, steps * d)), np.sqrt(np.maximum(_diagonal(path.cov), 0.0)).reshape(*batch, -1)
    pasts = [info.past for info in infos if info.past is not None]
    if along and unknowns and pasts and not path.state.has_members:
        unknown = np.concatenate([past[..., :unknowns] for past in pasts], axis=-2)
        flat += unknown @ unknown.mT
    for k, past in enumerate(pasts):
        flat[..., k * d : (k + 1) * d, : k * d] += past[..., unknowns:]
    # limit covariances by standard deviations: rounding errors would exceed them where variances nearly vanish
    most, row = std[..., :, None] * std[..., None, :], np.arange(steps * d) // d
    flat = np.where(row[:, None] > row, np.minimum(np.maximum(flat, -most), most), 0.0)
    flat += flat.mT
    joint, each = flat.reshape(*batch, steps, d, steps, d), np.arange(steps)
    joint[..., each, :, each, :] = np.moveaxis(path.cov, -3, 0)
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
        if not inputs.shape[-2] or input_var is not None or clamp is not None:
            return None
        K = self.model.K
        if K.ndim > 2 and K.shape[:-2] != (*state.mean.shape[:-2], 1):
            return None
        if not self._serves or not isinstance(state, Certain) or state.cross.shape[-1]:
            return None
        *batch, n = state.mean.shape
        steps, m = inputs.shape[-2:]
        shape = (math.prod(batch[:-1]), batch[-1]) if K.ndim > 2 else (1, math.prod(batch))
        d = self.model.outputs.stop
        mean, left = np.empty((*shape, steps, d)), np.zeros((*shape, steps, d), bool)
        x = np.array(state.mean.reshape(*shape, n), order="C")
        u = np.ascontiguousarray(np.broadcast_to(inputs, (*batch, steps, m)), float).reshape(*shape, steps, m)
        roll_means(self._cells, self._readouts, self._edges, u, self.model.inputs.start, moved, x, mean, left)
        after = Certain(x.reshape(state.mean.shape), state.carried, state.cross)
        cov = np.zeros((*batch, steps, d, d))
        parts = {name: np.zeros((*batch, steps, d)) for name in ("state", "noise", "weights")}
        return Path(mean.reshape(*batch, steps, d), cov, parts, left.reshape(*batch, steps, d), after, None, {})

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
        rows = np.concatenate(indptr).astype(np.uint32), np.concatenate(indices), np.concatenate(data)
        return CellRows(which, leaks, bias, *rows)

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
