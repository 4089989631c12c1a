"""The model: how a joint Gaussian over x = [c, h] moves from one row to the next, and what is reported and observed of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pesn._support.types import Array
from pesn.linalg import outer, times, transpose
from pesn.statespace.cell import Cell, Compression, Noise
from pesn.statespace.ensemble import Draws, Ensemble
from pesn.statespace.low_rank import FirstOrder, LowRank, truncate
from pesn.statespace.state import Certain, Dense, Diagonal, GaussianState, Parts

CLOSED_FORMS = ("diagonal", "full", "low-rank")
FORMS = (*CLOSED_FORMS, "ensemble")

_MOST_OUTSIDE = 0.5  # of the members: beyond, y has left
_WIDEST = 2.0  # deviations of y in training: nothing is forecast wider
_FARTHER = 10.0  # times as far members of kinematic columns may be from their mean: what they add up may be wide
PACE = 0.95  # of how far out a mean was before a step, which it may be after it: what was observed far away comes back


@dataclass(frozen=True, eq=False)
class Bounds:
    """y, the first d entries of x, as its long run allows: ``center`` and ``width`` (d,), mean and deviation there; its range.

    - Beyond twice the deviation of y in training, y's deviation is cut to it, and its mean drawn in as an observation that
      leaves this deviation would: by the square of the factor, and into the training range widened by this deviation.
    - A mean farther out than the range's own width, and than 0.95 of what it was out there before the step, has left: it is
      brought back into the range widened by its deviation, which is then not less than in training, where ``widen`` is True.

    Kinematics are known everywhere, and what they add up goes on beyond every range: the mean of a ``kinematic`` column (d,)
    follows them, and its deviation may be half its distance from the mean in training. So may those of every column in a row
    that will be observed: it says more than the range does. A kinematic column that moves by more than the range's own width in
    one step was moved by what has itself left, and stays where it was.

    Members of an ensemble are held first, one by one: a single one that runs away would take the deviation of all with it. One
    that is a width of the range beyond the range, and beyond the mean before the step, is brought back to the range; a kinematic
    one that is ten widths away, to the mean before the step. y has left where most of them had.

    What moves does not depend on where a ``free`` column (d,) stands: it goes on as a kinematic one does, and is as wide as it
    is. None: no column is free.
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
    def goes_on(self) -> npt.NDArray[np.bool_]:
        """Columns whose mean may go on beyond every range."""
        return self.kinematic | self._free

    @cached_property
    def edges(self) -> tuple[Array, Array, Array]:
        """The least and the largest mean, and the largest deviation, of which nothing need be said."""
        return self.low - self.reach, self.high + self.reach, _WIDEST * self.width

    @cached_property
    def reach(self) -> Array:
        """How far beyond the range a mean may be, and how far a kinematic one may move in a step."""
        return np.maximum(self.high - self.low, _WIDEST * self.width)

    def widest(self) -> Array:
        """The largest deviation (d,) of y that is forecast; infinite where it goes on: it adds up what it is given."""
        return np.where(self.goes_on, np.inf, _WIDEST * self.width)

    def edges_of_means(self) -> tuple[Array, Array, Array, Array, Array]:
        """Of y without a deviation: least and largest mean, between which one that has left is brought back, the largest step."""
        least, most, _ = self.edges
        added = self.widen * self.width
        least, most = np.where(self.goes_on, -np.inf, least), np.where(self.goes_on, np.inf, most)
        return least, most, self.low - added, self.high + added, np.where(self.goes_on, self.reach, np.inf)

    def __call__(
        self, state: GaussianState, before: Array, observed: bool = False
    ) -> tuple[GaussianState, Array, npt.NDArray[np.bool_]]:
        """The state, bounded; the factors (…, d) by which the deviations of y were made smaller; and the columns that had left.

        ``before`` (…, d) are the means of y before the step; ``observed``: whether a row will correct it.
        """
        d = len(self.center)
        rows = slice(0, d)
        state, gone = self._clip_members(state, rows, before) if state.has_members and not observed else (state, 0.0)
        mean, std = state.mean[..., rows], np.sqrt(np.maximum(state.covariance_of(rows).diagonal(0, -2, -1), 0.0))
        least, most, widest = self.edges
        if self.free is not None:
            least, most = np.where(self.free, before - self.reach, least), np.where(self.free, before + self.reach, most)
            widest = np.where(self.free, np.inf, widest)
        if ((std <= widest) & (mean >= least) & (mean <= most)).all():
            return state, np.ones(mean.shape), np.zeros(mean.shape, bool) | (gone > _MOST_OUTSIDE)
        jumped = self.goes_on & (np.abs(mean - before) > self.reach) & (not observed)
        away = np.where(jumped, before, mean) - self.center
        anywhere = self.goes_on | observed
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
        return (
            state.affine(rows, K, np.where(held, inside, drawn) - factor * mean, root),
            factor,
            left | (gone > _MOST_OUTSIDE),
        )

    def _clip_members(self, state: GaussianState, rows: slice, before: Array) -> tuple[GaussianState, Array | float]:
        reach = np.where(self.goes_on, _FARTHER, 1.0) * self.reach
        low, high = np.minimum(self.low, before) - reach, np.maximum(self.high, before) + reach
        low, high = np.where(self._free, before - reach, low), np.where(self._free, before + reach, high)
        back = np.where(self.goes_on, before, self.low), np.where(self.goes_on, before, self.high)
        return state.hold(rows, low, high, back, self.widen * self.width)


class Emission(NamedTuple):
    """Noise added to c in one step: a ``root`` (…, p, q) of its covariance, and what it adds to the variances of y.

    ``noise`` (…, d) is the model's own error, ``total`` (…, d) that and the error of its weights.
    """

    root: Array
    noise: Array
    total: Array


class StepInfo(NamedTuple):
    """What a step says of y beside the state that it leaves: ``mean`` (…, d), ``cov`` (…, d, d), variances (…, d) by part.

    ``left`` (…, d): columns whose mean had left the bounds and was brought back. ``probed``: what the model's probe has found in
    the state that y was read from.
    """

    mean: Array
    cov: Array
    parts: Parts
    left: npt.NDArray[np.bool_]
    probed: Parts


class Path(NamedTuple):
    """What T rows gave: of y the ``mean`` (…, T, d), ``cov`` (…, T, d, d), variances by part (…, T, d); the last state.

    ``left`` (…, T, d): where a mean had left the bounds and was brought back. ``joint`` (…, T, d, T, d), where it was asked for,
    holds the covariances of y between any two rows; ``probed`` what the model's probe has found; ``members`` (…, T, M, d), where
    they were asked for, y of each member of an ensemble; ``lagged`` (…, T − 1, d, d), where it was asked for, Cov(y_{k+1}, y_k).
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
    """A compiled loop over rows that need no covariance."""

    def take(
        self, state: GaussianState, inputs: Array, input_var: Array | None, clamp: Array | None, moved: bool = False
    ) -> Path | None:  # fmt: skip
        """As many of the first rows as it serves; None where it serves none.

        ``moved``: the first row's inputs are in the state already, and its cells have moved.
        """


@dataclass(frozen=True, eq=False)
class StateSpaceModel:
    """One step: x[inputs] ← u; h by the cells, with process noise; then c ← K x + k + emission noise, guarded.

    Parameters
    ----------
    cells
        The moves of h, in their order: each sees what those before it have moved.
    K, k
        (…, p, n) and (…, p): what is carried, from all of x; leading axes go with those of a batch.
    inputs, outputs
        The entries of c that hold the known inputs, and those that are reported and observed, y.
    process_noise
        Added to the last entries of x, as many as it has, once all cells have moved; None: none.
    emission_noise, guard
        None where there is none.
    probe
        What to record of the state that outputs are read from, by name.
    measurement_cov
        S (d, d), of the noise that y is measured with: in what is reported, not in what goes on; None: none.
    parameter_root
        (d, m): how errors of the readout's m outputs move y, where those of its weights are the same at every step.
    parameter_groups
        (d,): which of G groups each entry of y is of, where each takes directions of its own: ``along`` is then (…, G r).
    gain
        (n, d): an observer. Where it is given, a row of y corrects the mean by gain · (y − prediction), and that is all it does.
    fast, settled
        A compiled loop for rows that it can serve; and the variance of y below which a state passes for certain.
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
    gain: Array | None = None
    fast: FastPath | None = None
    settled: float | None = None
    carry: slice = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "carry", slice(0, self.k.shape[-1]))

    def set_inputs(self, state: GaussianState, u: Array, u_var: Array | None = None) -> GaussianState:
        """x[inputs] ← u (…, m), with variances where they are uncertain."""
        return state.assign(self.inputs, u, u_var) if u.shape[-1] else state

    def move(self, state: GaussianState) -> GaussianState:
        """The cells, in their order, then process noise."""
        noise, n = self.process_noise, state.mean.shape[-1]
        for cell in self.cells[:-1]:
            state = state.move(cell)
        if not self.cells:
            return state
        last = self.cells[-1]
        if noise is None or noise.rows(n).start < last.rows.start:
            state = state.move(last)
            return state if noise is None else state.add(noise, last.compression)
        return state.move(last, self._last_noise)  # in one go, where it is noise of what the last cell moves

    @cached_property
    def _last_noise(self) -> Noise:
        """Process noise of the entries that the last cell moves; those before the noise's own have none."""
        assert self.process_noise is not None
        return self.process_noise.pad(len(self.cells[-1].bias) - len(self.process_noise.diagonal))

    def emit(
        self, state: GaussianState, observed: bool = False, along: Array | None = None
    ) -> tuple[GaussianState, StepInfo]:  # fmt: skip
        """The next y and all that is carried with it; ``observed``: whether a row of it will correct the state.

        ``along`` (…, r): by how much each of r directions of the weights, unknown and the same at every step, moves an output.
        """
        emission = None if self.emission_noise is None else self.emission_noise(state)
        probed = {} if self.probe is None else self.probe(state)
        before, along = state.mean[..., self.outputs], None if self.parameter_root is None else along
        state = state.affine(self.carry, self.K, self.k, None if emission is None else emission.root)
        if along is not None:
            state = state.add_unknowns(self.outputs, self._parameter_columns(along))
        factor, left = np.ones(before.shape), np.zeros(before.shape, bool)
        if self.guard is not None:
            state, factor, left = self.guard(state, before, observed)
        cov = state.covariance_of(self.outputs)
        parts = _split_variances(cov.diagonal(0, -2, -1), emission, factor)
        if along is not None:
            state, cov, parts = self._add_parameter_uncertainty(state, cov, parts, self.n_unknowns(along))
        if self.measurement_cov is not None:
            cov = cov + self.measurement_cov
            parts["noise"] = parts["noise"] + self.measurement_cov.diagonal()
        return state, StepInfo(state.mean[..., self.outputs], cov, parts, left, probed)

    def n_unknowns(self, along: Array) -> int:
        """How many unknowns the weights have that stay along a run."""
        assert self.parameter_root is not None
        groups = 1 if self.parameter_groups is None else int(self.parameter_groups.max()) + 1
        return int(along.shape[-1] // groups * self.parameter_root.shape[-1])

    def _parameter_columns(self, along: Array) -> Array:
        """(…, d, r m): the columns of the root (d, m) times each of ``along`` (…, r), or of those of an entry's own group."""
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
        """State, covariance (…, d, d) and parts with the share of the weights' unknowns in y, within the bounds of y."""
        G = state.covariance_with_past(self.outputs)[..., :unknowns]
        if self.guard is not None and not state.has_members:
            own, room = np.vecdot(G, G), np.square(self.guard.widest()) - cov.diagonal(0, -2, -1)
            if (own > room).any():
                factor = np.sqrt(np.clip(np.divide(room, own, out=np.ones_like(own), where=own > 0.0), 0.0, 1.0))
                state = state.add_unknowns(self.outputs, (factor[..., None] - 1.0) * G)
                G = factor[..., None] * G
        staying = outer(G)
        var = staying.diagonal(0, -2, -1)
        if state.has_members:  # they have moved by it
            var = np.minimum(var, parts["state"])
            parts = {**parts, "state": parts["state"] - var}
        else:
            cov = cov + staying
        return state, cov, {**parts, "weights": parts["weights"] + var}

    def predict(self, state: GaussianState, u: Array, u_var: Array | None = None) -> tuple[GaussianState, StepInfo]:
        """One step from a state that has seen y and nothing after it."""
        return self.emit(self.move(self.set_inputs(state, u, u_var)))

    def update(self, state: GaussianState, y: Array, noise_cov: Array | None = None) -> GaussianState:
        """Given y (…, d), of which NaN is missing; measured with noise of covariance (d, d), None: with the model's own."""
        if self.gain is not None:
            corrected = state.mean + times(self.gain, y - state.mean[..., self.outputs])
            return state.assign(slice(0, state.mean.shape[-1]), corrected)
        noise_cov = self.measurement_cov if noise_cov is None else noise_cov
        return state if np.isnan(y).all() else state.condition(self.outputs, y, noise_cov)

    def clamp(self, state: GaussianState, y: Array) -> GaussianState:
        """Teacher forcing: y takes the place of the outputs, and nothing is learnt from it."""
        return state.assign(self.outputs, y)


def _split_variances(total: Array, emission: Emission | None, factor: Array) -> Parts:
    """The variances ``total`` (…, d) of y by their source; ``factor`` (…, d): by which the deviations were made smaller."""
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
    """A state whose first ``carried`` entries have mean 0, the others ``mean`` (…, N), and Cov(h) = rootᵀ root, root (…, r, N).

    ``form`` is one of :data:`FORMS`, "first-order", or "none", means alone; "low-rank" needs ``compression``,
    "ensemble" takes so many ``members``, drawn by ``draws``; None: by those of seed 0. ``carried_root`` (…, r, carried) is the
    share of c in the columns of the root; None: c is certain.
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
