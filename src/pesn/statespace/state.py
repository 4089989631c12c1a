"""Joint Gaussian over the state x = [c, h] of a model: operations that all representations share, and three of them.

:class:`Certain` has means alone, :class:`Diagonal` variances too, :class:`Dense` all covariances. c are the first ``carried``
entries, which move by affine maps; h the entries that cells move.

>>> layout = Layout.from_sizes(y=2, inputs=1, units=50)
>>> layout["inputs"], layout.size
(slice(2, 3, None), 53)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import check_not_negative
from pesn._support.records import check_arrays, check_covariance
from pesn._support.types import Array
from pesn.linalg import QuadraticForm, factor_covariance, inverse_root, multiply, multiply_rows, transpose
from pesn.statespace import kernels
from pesn.statespace.cell import Cell, Compression, Noise
from pesn.statespace.kernels import FARTHEST

Parts: TypeAlias = dict[str, Array]  # arrays of a state by name


@dataclass(frozen=True)
class Layout:
    """Positions of the blocks of x; ``size`` entries in all."""

    blocks: dict[str, slice]
    size: int

    @classmethod
    def from_sizes(cls, **sizes: int) -> Layout:
        """Return the layout of blocks of these sizes, one after the other."""
        blocks, end = {}, 0
        for name, size in sizes.items():
            blocks[name], end = slice(end, end + size), end + size
        return cls(blocks, end)

    def __getitem__(self, name: str) -> slice:
        return self.blocks[name]


@dataclass(frozen=True, eq=False)
class GaussianState(ABC):
    """Gaussian over x (n,) with ``mean`` (…, n); leading axes are a batch of independent states.

    ``cross`` (…, n, s) holds the covariances of x with s quantities of the past, see :meth:`remember`.
    """

    has_members: ClassVar[bool] = False  # whether moments are sample moments

    mean: Array
    carried: int
    cross: Array

    # ---------------------------------------------------------------- representation

    @abstractmethod
    def variances(self) -> Array:
        """Return the variances of x, (…, n)."""

    @abstractmethod
    def cross_covariance(self, rows: slice) -> Array:
        """Return Cov(x, x[rows]), (…, n, r)."""

    @abstractmethod
    def project_covariance(self, K: Array) -> Array:
        """Return Cov(K x), (…, r, r) for K (…, r, n).

        It uses all that the representation knows of x, though less may be kept once x[rows] is K x.
        """

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draw ``n`` samples of x, (…, n, n_entries)."""

    @abstractmethod
    def trace(self, A: QuadraticForm) -> Array:
        """Return tr(A Cov(x)), (…)."""

    @abstractmethod
    def only(self, places: npt.NDArray[np.intp]) -> Self:
        """Return the state of these entries of x, in increasing order, without covariances with the past."""

    def _move_parts(self, cell: Cell, noise: Noise | None) -> tuple[Array, Array, Parts]:
        """Return means (…, r) of f(a), gains (…, r), and the arrays of this representation after the move."""
        raise NotImplementedError

    @abstractmethod
    def add(self, noise: Noise, compression: Compression | None = None) -> Self:
        """Add ``noise`` to the last entries of x, as many as it has; ``compression`` limits the rank of a low-rank factor."""

    @abstractmethod
    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> Self:
        """Return the state after x[rows] ← K x + k + noise.

        Parameters
        ----------
        rows : slice
            The r entries of x that change.
        K : array of shape (…, r, n)
            Matrix of the map.
        k : array of shape (…, r)
            Offset.
        noise_root : array of shape (…, r, q), default=None
            Root of the covariance of independent noise; None: no noise.
        """

    @abstractmethod
    def assign(self, rows: slice, values: Array, var: Array | None = None) -> Self:
        """Set x[rows] to values (…, r), independent of all other entries, with variances (…, r); None: certain."""

    @abstractmethod
    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> Self:
        """Condition x on x[rows] + noise = values.

        Parameters
        ----------
        rows : slice
            The r entries that are observed.
        values : array of shape (…, r)
            Observations, NaN if missing; each state of a batch may miss other entries.
        noise_cov : array of shape (…, r, r), default=None
            Covariance of the measurement noise; None: no noise. An entry without noise takes its value exactly.
        """

    def check(self, name: str, carried: int, n_units: int) -> None:
        """Raise a ValueError unless it is one state of these sizes, of a representation that files hold."""
        raise ValueError(f"{name} is a {type(self).__name__}, which no file holds")

    def _check_parts(self, name: str, carried: int, n_units: int, **shapes: tuple[int, ...]) -> None:
        """Raise a ValueError unless it has all its arrays, in these ``shapes``, and no covariances with the past."""
        if set(vars(self)) != {one.name for one in fields(self)} or self.carried != carried:
            raise ValueError(f"{name} is not about these columns and units")
        size = carried + n_units
        shapes = {"mean": (size,), "cross": (size, 0), **shapes}
        check_arrays(name, {part: (getattr(self, part), shape) for part, shape in shapes.items()})

    # ---------------------------------------------------------------- shared operations

    def block_covariance(self, rows: slice) -> Array:
        """Return Cov(x[rows]), (…, r, r)."""
        return self.cross_covariance(rows)[..., rows, :]

    def move(self, cell: Cell, noise: Noise | None = None) -> Self:
        """Return the state after x[rows] ← (1 − L) O x[rows] + L f(A x + b) + noise of a cell."""
        L, rows = cell.leak, cell.rows
        unit, gain, parts = self._move_parts(cell, noise)
        mean = self.mean.copy()
        mean[..., rows] = (1.0 - L) * cell.rotate(mean[..., rows, None])[..., 0] + L * unit
        cross = self.cross
        if cross.shape[-1]:
            kept, entered, cross = rotate_rows(cross, cell), cell.enter @ cross, np.empty(cross.shape)
            kernels.move_columns(flat(kept), flat(entered), flat(gain, 1), rows.start, cell.leaks, flat(cross))
        return self.with_arrays(mean=mean, cross=cross, **parts)

    def remember(self, rows: slice) -> Self:
        """Keep the covariances with the present value of x[rows]."""
        return self.with_arrays(cross=np.concatenate([self.cross, self.cross_covariance(rows)], axis=-1))

    def covariance_with_past(self, rows: slice) -> Array:
        """Return the covariances of x[rows] with the quantities of the past, (…, r, s)."""
        return self.cross[..., rows, :]

    def _only(self, places: npt.NDArray[np.intp], **parts: Array) -> Self:
        mean, carried = self.mean[..., places], int(np.count_nonzero(places < self.carried))
        return self.with_arrays(mean=mean, carried=carried, cross=np.zeros((*mean.shape, 0)), **parts)

    def with_unknowns(self, count: int) -> Self:
        """Replace the quantities of the past by ``count`` standard normal unknowns, which :meth:`add_unknowns` adds to x.

        ``cross`` holds Cov(x, unknowns), and Cov(x) is that without them: in total it is Cov(x) + cross crossᵀ.
        """
        return self.with_arrays(cross=np.zeros((*self.mean.shape, count)))

    def add_unknowns(self, rows: slice, B: Array) -> Self:
        """Return the state after x[rows] ← x[rows] + B · unknowns, B (…, r, count)."""
        cross = self.cross.copy()
        cross[..., rows, : B.shape[-1]] += B
        return self.with_arrays(cross=cross)

    def hold(
        self, rows: slice, low: Array, high: Array, back: tuple[Array, Array], std: Array
    ) -> tuple[Self, Array | float]:  # fmt: skip
        """Move ensemble members whose x[rows] left [low, high] (…, r) to the nearer end of ``back`` (…, r), plus noise of std.

        Returns the state and the share of such members (…, r). Without an ensemble the state is returned as it is.
        """
        return self, 0.0

    def as_certain(self) -> Self:
        """Return the mean as a state without variance."""
        return self.assign(slice(0, self.mean.shape[-1]), self.mean)

    def broadcast(self, batch: tuple[int, ...]) -> Self:
        """Return a batch of copies of the state."""
        return self.with_arrays(**{name: np.broadcast_to(part, (*batch, *part.shape)) for name, part in self._arrays().items()})

    def part(self, which: int | slice | npt.NDArray[np.generic]) -> Self:
        """Select states of a batch by an index of its first axis."""
        return self.with_arrays(**{name: part[which] for name, part in self._arrays().items()})

    def _arrays(self) -> Parts:
        return {name: part for name, part in vars(self).items() if isinstance(part, np.ndarray)}

    def is_certain(self) -> bool:
        """Whether nothing in x has a variance."""
        return not self.variances().any()

    def with_arrays(self, **parts: Array | int) -> Self:
        """Return the state with other arrays; dataclasses.replace would validate at every step."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, **parts)
        return new

    def _affine_mean_and_cross(self, rows: slice, K: Array, k: Array, factor: Array) -> Parts:
        """Return mean and ``cross`` after x[rows] ← K x + k; ``factor`` (…, r) scales the standard deviations to their limit.

        A loop that diverges stops at 1e100 instead of producing infinities and NaN: means are clipped, deviations scaled,
        and no covariance with the past exceeds the product of two such standard deviations.
        """
        mean, cross = self.mean.copy(), self.cross
        mean[..., rows] = np.minimum(np.maximum(multiply(K, self.mean) + k, -FARTHEST), FARTHEST)
        if cross.shape[-1]:
            moved = factor[..., None] * np.minimum(np.maximum(multiply_rows(K, cross), -(FARTHEST**2)), FARTHEST**2)
            cross = cross.copy()
            cross[..., rows, :] = moved
        return {"mean": mean, "cross": cross}

    def _assign_mean_and_cross(self, rows: slice, values: Array) -> Parts:
        """Return mean and ``cross`` after x[rows] ← values."""
        mean, cross = self.mean.copy(), self.cross
        mean[..., rows] = values
        if cross.shape[-1]:
            cross = cross.copy()
            cross[..., rows, :] = 0.0
        return {"mean": mean, "cross": cross}

    def _condition_mean_and_cross(self, told: Observation, gain: Array) -> Parts:
        """Return mean and ``cross`` after an observation with gain (…, n, s), which is 0 for missing entries."""
        seen = told.seen
        mean = self.mean + multiply(gain, np.where(told.here, told.values - self.mean[..., seen], 0.0))
        cross = self.cross - gain @ self.cross[..., seen, :]
        mean[..., seen] = np.where(told.exact, told.values, mean[..., seen])
        cross[..., seen, :] = np.where(told.exact[..., None], 0.0, cross[..., seen, :])
        return {"mean": mean, "cross": cross}


def stack(states: Sequence[GaussianState]) -> GaussianState:
    """Stack states of one representation into a batch; shorter factors are padded with columns of zeros."""
    first = states[0]
    parts = {}
    for name in first._arrays():  # noqa: SLF001
        arrays = [vars(state)[name] for state in states]
        most = max(array.shape[-1] for array in arrays)
        parts[name] = np.stack([np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, most - a.shape[-1])]) for a in arrays])
    return first.with_arrays(**parts)


def flat(a: Array, axes: int = 2) -> Array:
    """Reshape all leading axes to one, for a kernel."""
    if a.ndim == axes:
        return np.ascontiguousarray(a)[None]
    event = a.shape[a.ndim - axes :]
    return np.ascontiguousarray(a).reshape(math.prod(a.shape[: a.ndim - axes]), *event)


def rotate_rows(columns: Array, cell: Cell) -> Array:
    """Apply the rotation of a cell to its rows of ``columns`` (…, n, s); without one, return ``columns`` itself."""
    if cell.rotation is None:
        return columns
    columns = columns.copy()
    columns[..., cell.rows, :] = cell.rotate(columns[..., cell.rows, :])
    return columns


class Observation(NamedTuple):
    """Observation of a batch of states: entries ``seen`` (s,) of x, all that any state of the batch has.

    ``here`` (…, s): which of them a state has; ``values`` (…, s) and ``noise`` (…, s, s) are 0 elsewhere; ``exact`` (…, s):
    which are observed without noise.
    """

    seen: npt.NDArray[np.intp]
    here: npt.NDArray[np.bool_]
    values: Array
    noise: Array | None
    exact: npt.NDArray[np.bool_]

    def mask(self, cov: Array) -> Array:
        """Set rows and columns of missing entries of ``cov`` (…, s, s) to 0, so that a pseudo-inverse ignores them."""
        return cov if self.here.all() else np.where(self.here[..., :, None] & self.here[..., None, :], cov, 0.0)

    def noise_root(self) -> Array:
        """Return L (…, s, s) with L Lᵀ = noise."""
        if self.noise is None:
            return np.zeros((*self.here.shape, 0))
        apart = np.where(self.here, 0.0, 1.0)[..., None] * np.eye(
            len(self.seen)
        )  # identity for missing entries keeps the Cholesky factor defined
        return np.where(self.here[..., None], factor_covariance(self.noise + apart), 0.0)


def observe(rows: slice, values: Array, noise_cov: Array | None) -> Observation:
    """Return the observation of x[rows] by values (…, r), NaN if missing, with noise of covariance (…, r, r), None: no noise."""
    there = ~np.isnan(values)
    places = np.flatnonzero(there.reshape(-1, there.shape[-1]).any(axis=0))
    here = there[..., places]
    told = Observation(places + rows.start, here, np.where(here, values[..., places], 0.0), None, here)
    if noise_cov is None:
        return told
    noise = told.mask(noise_cov[..., places[:, None], places])
    return told._replace(noise=noise, exact=here & (np.diagonal(noise, axis1=-2, axis2=-1) == 0.0))


# ---------------------------------------------------------------- forms


@dataclass(frozen=True, eq=False)
class Certain(GaussianState):
    """State without variances: noise is ignored, and an observation replaces the prediction of its own entries only."""

    def variances(self) -> Array:  # noqa: D102
        return np.zeros(self.mean.shape)

    def cross_covariance(self, rows: slice) -> Array:  # noqa: D102
        return np.zeros((*self.mean.shape, rows.stop - rows.start))

    def block_covariance(self, rows: slice) -> Array:  # noqa: D102
        size = rows.stop - rows.start
        return np.broadcast_to(0.0, (*self.mean.shape[:-1], size, size))

    def project_covariance(self, K: Array) -> Array:  # noqa: D102
        return np.zeros((*self.mean.shape[:-1], K.shape[-2], K.shape[-2]))

    def sample(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        return np.repeat(self.mean[..., None, :], n, axis=-2)

    def trace(self, A: QuadraticForm) -> Array:  # noqa: D102
        return np.zeros(self.mean.shape[:-1])

    def only(self, places: npt.NDArray[np.intp]) -> Certain:  # noqa: D102
        return self._only(places)

    def is_certain(self) -> bool:  # noqa: D102
        return True

    def move(self, cell: Cell, noise: Noise | None = None) -> Certain:  # noqa: D102
        return self.with_arrays(mean=cell(self.mean))

    def add(self, noise: Noise, compression: Compression | None = None) -> Certain:  # noqa: D102
        return self

    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> Certain:  # noqa: D102
        # one map for all states of the last axis of a batch is a matrix product
        if K.ndim > 2 and K.shape[-3] == 1:  # no mutant: only faster
            new = self.mean @ np.swapaxes(K[..., 0, :, :], -1, -2)
        else:
            new = (K @ self.mean[..., None])[..., 0] if K.ndim > 2 else self.mean @ K.T
        return self._with_rows(rows, np.minimum(np.maximum(new + k, -FARTHEST), FARTHEST))

    def assign(self, rows: slice, values: Array, var: Array | None = None) -> Certain:  # noqa: D102
        return self._with_rows(rows, values)

    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> Certain:  # noqa: D102
        told = observe(rows, values, None)
        mean = self.mean.copy()
        mean[..., told.seen] = np.where(told.here, told.values, mean[..., told.seen])
        return self.with_arrays(mean=mean)

    def _with_rows(self, rows: slice, new: Array) -> Certain:
        mean = self.mean.copy()
        mean[..., rows] = new
        return self.with_arrays(mean=mean)


@dataclass(frozen=True, eq=False)
class Diagonal(GaussianState):
    """Gaussian state with variances ``var`` (…, n) only; an observation changes only the entries observed."""

    var: Array

    def check(self, name: str, carried: int, n_units: int) -> None:  # noqa: D102
        self._check_parts(name, carried, n_units, var=(carried + n_units,))
        check_not_negative(f"{name}.var", self.var)

    def variances(self) -> Array:  # noqa: D102
        return self.var

    def cross_covariance(self, rows: slice) -> Array:  # noqa: D102
        places = np.arange(rows.start, rows.stop)
        result = np.zeros((*self.var.shape, len(places)))
        result[..., places, places - rows.start] = self.var[..., rows]
        return result

    def block_covariance(self, rows: slice) -> Array:  # noqa: D102
        return self.var[..., rows, None] * np.eye(rows.stop - rows.start)

    def project_covariance(self, K: Array) -> Array:  # noqa: D102
        return (K * self.var[..., None, :]) @ transpose(K)

    def sample(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        draws = rng.standard_normal((*self.mean.shape[:-1], n, self.mean.shape[-1]))
        return self.mean[..., None, :] + draws * np.sqrt(self.var)[..., None, :]

    def trace(self, A: QuadraticForm) -> Array:  # noqa: D102
        return np.asarray(self.var @ A.diagonal)

    def only(self, places: npt.NDArray[np.intp]) -> Diagonal:  # noqa: D102
        return self._only(places, var=self.var[..., places])

    def _move_parts(self, cell: Cell, noise: Noise | None) -> tuple[Array, Array, Parts]:
        rows, L = cell.rows, cell.leak
        mean = (cell.enter @ self.mean[..., None])[..., 0] + cell.bias
        var = (cell.squares @ self.var[..., None])[..., 0] if self.var.any() else np.zeros_like(mean)
        unit, unit_var = cell.units.moments(mean, var)
        own = (1.0 - L) ** 2 * cell.memory_variances(self.var[..., rows]) + L * L * np.maximum(unit_var, 0.0)
        own += 0.0 if noise is None else noise.variances
        new = self.var.copy()
        new[..., rows] = own
        gain = cell.units.gain(mean, var) if self.cross.shape[-1] else unit  # needed only for covariances with the past
        return unit, gain, {"var": new}

    def add(self, noise: Noise, compression: Compression | None = None) -> Diagonal:  # noqa: D102
        var = self.var.copy()
        var[..., noise.rows(self.mean.shape[-1])] += noise.variances
        return self.with_arrays(var=var)

    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> Diagonal:  # noqa: D102
        own = multiply(np.square(K), self.var)
        if noise_root is not None:
            own = own + np.sum(np.square(noise_root), axis=-1)
        factor = np.minimum(1.0, FARTHEST / np.maximum(np.sqrt(own), 1.0))  # limits standard deviations to 1e100
        var = self.var.copy()
        var[..., rows] = own * np.square(factor)
        return self.with_arrays(var=var, **self._affine_mean_and_cross(rows, K, k, factor))

    def assign(self, rows: slice, values: Array, var: Array | None = None) -> Diagonal:  # noqa: D102
        new = self.var.copy()
        new[..., rows] = 0.0 if var is None else var
        return self.with_arrays(var=new, **self._assign_mean_and_cross(rows, values))

    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> Diagonal:  # noqa: D102
        told = observe(rows, values, noise_cov)
        noise = 0.0 if told.noise is None else np.diagonal(told.noise, axis1=-2, axis2=-1)
        var = self.var[..., told.seen]
        total = var + noise
        share = np.where(told.here, np.divide(var, total, out=np.ones_like(total), where=total > 0.0), 0.0)
        gain = np.zeros((*self.mean.shape, len(told.seen)))
        gain[..., told.seen, np.arange(len(told.seen))] = share
        new = self.var.copy()
        new[..., told.seen] = np.where(told.here, share * noise, var)
        return self.with_arrays(var=new, **self._condition_mean_and_cross(told, gain))


@dataclass(frozen=True, eq=False)
class Dense(GaussianState):
    """Gaussian state with a dense covariance matrix ``cov`` (…, n, n)."""

    cov: Array

    def check(self, name: str, carried: int, n_units: int) -> None:  # noqa: D102
        self._check_parts(name, carried, n_units, cov=(carried + n_units,) * 2)
        check_covariance(f"{name}.cov", self.cov)

    def variances(self) -> Array:  # noqa: D102
        return np.maximum(np.diagonal(self.cov, axis1=-2, axis2=-1), 0.0)

    def cross_covariance(self, rows: slice) -> Array:  # noqa: D102
        return self.cov[..., rows]

    def project_covariance(self, K: Array) -> Array:  # noqa: D102
        return _repair(K @ self.cov @ transpose(K))

    def sample(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        draws = rng.standard_normal((*self.mean.shape[:-1], n, self.mean.shape[-1]))
        return self.mean[..., None, :] + draws @ transpose(factor_covariance(self.cov))

    def trace(self, A: QuadraticForm) -> Array:  # noqa: D102
        n = self.cov.shape[-1]
        return np.maximum(self.cov.reshape(*self.cov.shape[:-2], n * n) @ A.matrix.ravel(), 0.0)

    def only(self, places: npt.NDArray[np.intp]) -> Dense:  # noqa: D102
        return self._only(places, cov=self.cov[..., places[:, None], places])

    def _move_parts(self, cell: Cell, noise: Noise | None) -> tuple[Array, Array, Parts]:
        units, x_mean, cov = cell.units, flat(self.mean, 1), flat(self.cov)
        batch, n, r = self.mean.shape[:-1], cov.shape[-1], len(cell.bias)
        # of a = A x + b: its mean, Cov(a, x), Cov(x, a), Cov(a) and variances
        mean, into, out_of, pre, var = (np.empty((len(cov), *shape)) for shape in ((r,), (r, n), (n, r), (r, r), (r,)))
        kernels.enter_dense(cell.enter.rows, cell.bias, x_mean, cov, mean, into, out_of, pre, var)
        unit, gain, rest = units.linearize(mean, pre)
        if not units.exact:
            unit, unit_var = units.moments(mean, var)
            rest = _with_diagonal(rest, unit_var - gain * gain * var)
        if cell.rotation is not None:  # of the rotated x: Cov(a, x) and Cov(x) on both sides
            out_of = rotate_rows(out_of, cell)
            into = np.ascontiguousarray(transpose(out_of))
            cov = np.ascontiguousarray(transpose(rotate_rows(transpose(rotate_rows(cov, cell)), cell)))
        new = np.empty(cov.shape)
        kernels.move_dense(cov, into, out_of, pre, rest, gain, cell.rows.start, cell.leaks, new)
        new, unit, gain = new.reshape(self.cov.shape), unit.reshape(*batch, r), gain.reshape(*batch, r)
        if noise is not None:
            new[..., cell.rows, cell.rows] += noise.cov
        return unit, gain, {"cov": new}

    def add(self, noise: Noise, compression: Compression | None = None) -> Dense:  # noqa: D102
        cov, last = self.cov.copy(), noise.rows(self.mean.shape[-1])
        cov[..., last, last] += noise.cov
        return self.with_arrays(cov=cov)

    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> Dense:  # noqa: D102
        moved, crossed, values = multiply_rows(K, self.cov), multiply_rows(K, self.cross), multiply(K, self.mean) + k
        own = multiply_rows(K, moved.mT)  # it is symmetric
        if noise_root is not None:
            own = own + noise_root @ noise_root.mT
        mean, new, cross = self.mean.copy(), self.cov.copy(), self.cross.copy()
        kernels.affine_dense(flat(moved), flat(own), flat(crossed), rows.start, flat(values, 1), flat(new), flat(cross))
        mean[..., rows] = values
        return self.with_arrays(mean=mean, cov=new, cross=cross)

    def assign(self, rows: slice, values: Array, var: Array | None = None) -> Dense:  # noqa: D102
        new = self.cov.copy()
        new[..., rows, :], new[..., :, rows] = 0.0, 0.0
        if var is not None:
            places = np.arange(rows.start, rows.stop)
            new[..., places, places] = var
        return self.with_arrays(cov=new, **self._assign_mean_and_cross(rows, values))

    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> Dense:  # noqa: D102
        told = observe(rows, values, noise_cov)
        between = self.cov[..., told.seen, :]
        S = told.mask(between[..., told.seen])
        if told.noise is not None:
            S = S + told.noise
        root = inverse_root(S)
        correction = root @ (transpose(root) @ between)
        gain = transpose(correction)
        # Joseph's form: (I − G H) Cov (I − G H)ᵀ + G R Gᵀ, multiplied out: Cov − G (H Cov − S Gᵀ) − Cov Hᵀ Gᵀ, in one product
        explained = np.concatenate([gain, transpose(between)], axis=-1) @ np.concatenate(
            [between - S @ correction, correction], axis=-2
        )
        cov = _repair(np.subtract(self.cov, explained, out=explained))
        known = told.exact[..., None]
        cov[..., told.seen, :] = np.where(known, 0.0, cov[..., told.seen, :])
        cov[..., :, told.seen] = np.where(known.mT, 0.0, cov[..., :, told.seen])
        return self.with_arrays(cov=cov, **self._condition_mean_and_cross(told, gain))


def _repair(cov: Array) -> Array:
    """Make ``cov`` a covariance again after rounding, in place if possible."""
    cov = np.ascontiguousarray(cov)
    kernels.symmetrize_psd(flat(cov))
    return cov


def _with_diagonal(rest: Array, own: Array) -> Array:
    """Set the diagonal of ``rest`` to max(own, 0) by a congruence, so that it stays positive semi-definite."""
    own = np.maximum(own, 0.0)
    before = np.diagonal(rest, axis1=-2, axis2=-1)
    ratio = np.sqrt(np.divide(own, before, out=np.zeros_like(own), where=before > 0.0))
    result: Array = rest * ratio[..., :, None] * ratio[..., None, :]
    places = np.arange(own.shape[-1])
    result[..., places, places] = own
    return result
