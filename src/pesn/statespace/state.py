"""A joint Gaussian over the state x = [c, h] of a model, and the moves that every form of it shares.

c are the first ``carried`` entries, what moves by affine maps; h the entries that cells move.

>>> layout = Layout.of(y=2, inputs=1, units=50)
>>> layout["inputs"], layout.size
(slice(2, 3, None), 53)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from pesn._support.records import check_arrays
from pesn._support.types import Array
from pesn.gaussian import Gaussian
from pesn.linalg import QuadraticForm, mapped, outer, root_of, symmetric, times
from pesn.statespace.cell import Cell, Compression, Noise

__all__ = ["FARTHEST", "GaussianState", "Layout", "Observation", "flat", "observed", "stack", "with_turned_rows", "within_reach"]


@dataclass(frozen=True)
class Layout:
    """Where each block of x is; ``size`` entries in all."""

    blocks: dict[str, slice]
    size: int

    @classmethod
    def of(cls, **sizes: int) -> Layout:
        """One block after the other."""
        blocks, end = {}, 0
        for name, size in sizes.items():
            blocks[name], end = slice(end, end + size), end + size
        return cls(blocks, end)

    def __getitem__(self, name: str) -> slice:
        return self.blocks[name]


FARTHEST = 1e100  # where means and deviations of a loop that diverges stop: their squares are still numbers


@dataclass(frozen=True, eq=False)
class GaussianState(ABC):
    """A Gaussian over x (n,) with ``mean`` (…, n); leading axes are a batch of independent states.

    ``cross`` (…, n, s) holds the covariances of x with s quantities of the past that :meth:`remember` was told to keep.
    """

    has_members: ClassVar[bool] = False  # whether it is counted, not computed

    mean: Array
    carried: int
    cross: Array

    # ---------------------------------------------------------------- what a form knows

    @abstractmethod
    def variances(self) -> Array:
        """Of x, (…, n)."""

    @abstractmethod
    def covariance_with(self, rows: slice) -> Array:
        """Cov(x, x[rows]), (…, n, r)."""

    @abstractmethod
    def covariance_after(self, K: Array) -> Array:
        """Cov(K x), (…, r, r) for K (…, r, n): with all that the form knows of x, though it may keep less once x[rows] is K x."""

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """``n`` draws of x, (…, n, n_entries)."""

    @abstractmethod
    def trace(self, A: QuadraticForm) -> Array:
        """tr(A Cov(x)) (…)."""

    @abstractmethod
    def only(self, places: npt.NDArray[np.intp]) -> Self:
        """The state of these entries of x alone, in increasing order, without what was remembered."""

    @abstractmethod
    def _moved(self, cell: Cell, noise: Noise | None) -> tuple[Array, Array, dict[str, Any]]:
        """Means (…, r) of f(a), gains (…, r), and the form's own parts after the move."""

    @abstractmethod
    def add(self, noise: Noise, compression: Compression | None = None) -> Self:
        """The last entries of x, as many as the noise has, with ``noise`` added; a low-rank factor is kept small as given."""

    @abstractmethod
    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> Self:
        """x[rows] ← K x + k + noise: K (…, r, n), k (…, r), noise of covariance ``noise_root`` noise_rootᵀ, (…, r, q)."""

    @abstractmethod
    def assign(self, rows: slice, values: Array, var: Array | None = None) -> Self:
        """x[rows] ← values (…, r), independent of all the rest, with variances (…, r); None: certain."""

    @abstractmethod
    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> Self:
        """x given that x[rows] + noise = values (…, r), of which NaN is missing; ``noise_cov`` (…, r, r), None: no noise.

        Each state of a batch may miss other entries. An entry whose noise has no variance takes its value exactly.
        """

    def check(self, name: str, carried: int, n_units: int) -> None:
        """A ValueError unless it is one state over such sizes; of a form that files hold."""
        raise ValueError(f"{name} is a {type(self).__name__}, which no file holds")

    def _check_parts(self, name: str, carried: int, n_units: int, **shapes: tuple[int, ...]) -> None:
        """That it has all its parts and no others, the form's own in these ``shapes``, and remembers nothing."""
        if set(vars(self)) != {one.name for one in fields(self)} or self.carried != carried:
            raise ValueError(f"{name} is not about these columns and units")
        size = carried + n_units
        shapes = {"mean": (size,), "cross": (size, 0), **shapes}
        check_arrays(name, {part: (getattr(self, part), shape) for part, shape in shapes.items()})

    # ---------------------------------------------------------------- what they share

    def marginal(self, rows: slice) -> Gaussian:
        """The Gaussian over x[rows]."""
        return Gaussian(self.mean[..., rows], cov=_semidefinite(self.covariance_of(rows)))

    def covariance_of(self, rows: slice) -> Array:
        """Cov(x[rows]), (…, r, r)."""
        return self.covariance_with(rows)[..., rows, :]

    def move(self, cell: Cell, noise: Noise | None = None) -> Self:
        """x[rows] ← (1 − L) O x[rows] + L f(A x + b) + noise, as a cell says."""
        L, rows = cell.leak, cell.rows
        unit, gain, parts = self._moved(cell, noise)
        mean = self.mean.copy()
        mean[..., rows] = (1.0 - L) * cell.turned(mean[..., rows, None])[..., 0] + L * unit
        cross = self.cross
        if cross.shape[-1]:
            from pesn.statespace.kernels import move_columns, move_cross  # here, not above: it brings numba

            cross = np.empty(cross.shape)
            if cell.rotation is None:
                move_cross(*cell.enter.rows, flat(self.cross), flat(gain, 1), rows.start, cell.leaks, flat(cross))
            else:
                kept = with_turned_rows(self.cross, cell)
                move_columns(flat(kept), flat(cell.enter @ self.cross), flat(gain, 1), rows.start, cell.leaks, flat(cross))
        return self.with_arrays(mean=mean, cross=cross, **parts)

    def remember(self, rows: slice) -> Self:
        """Keep the covariances with what x[rows] is now."""
        return self.with_arrays(cross=np.concatenate([self.cross, self.covariance_with(rows)], axis=-1))

    def covariance_with_past(self, rows: slice) -> Array:
        """Cov(x[rows], what was remembered), (…, r, s)."""
        return self.cross[..., rows, :]

    def _only(self, places: npt.NDArray[np.intp], **parts: Any) -> Self:
        mean, carried = self.mean[..., places], int(np.count_nonzero(places < self.carried))
        return self.with_arrays(mean=mean, carried=carried, cross=np.zeros((*mean.shape, 0)), **parts)

    def without_memory(self) -> Self:
        """The state without the covariances that :meth:`remember` has kept."""
        return self.with_arrays(cross=self.cross[..., :0])

    def with_unknowns(self, count: int) -> Self:
        """With ``count`` standard normal unknowns that :meth:`add_unknowns` adds to x, in the place of what was remembered.

        ``cross`` holds Cov(x, unknowns), and Cov(x) is that of x without them: all of it adds cross crossᵀ.
        """
        return self.with_arrays(cross=np.zeros((*self.mean.shape, count)))

    def add_unknowns(self, rows: slice, B: Array) -> Self:
        """x[rows] ← x[rows] + B · unknowns, B (…, r, count)."""
        cross = self.cross.copy()
        cross[..., rows, : B.shape[-1]] += B
        return self.with_arrays(cross=cross)

    def hold(
        self, rows: slice, low: Array, high: Array, back: tuple[Array, Array], std: Array
    ) -> tuple[Self, Array | float]:  # fmt: skip
        """Members whose x[rows] left [low, high] (…, r), brought to the nearer end of ``back`` (…, r), plus noise of ``std``.

        And their share (…, r). A Gaussian has no members: it stays as it is.
        """
        return self, 0.0

    def as_certain(self) -> Self:
        """The mean, as if it were known."""
        return self.assign(slice(0, self.mean.shape[-1]), self.mean)

    def broadcast(self, batch: tuple[int, ...]) -> Self:
        """A batch of so many times the same state."""
        arrays = {name: part for name, part in vars(self).items() if isinstance(part, np.ndarray)}
        return self.with_arrays(**{name: np.broadcast_to(part, (*batch, *part.shape)) for name, part in arrays.items()})

    def part(self, which: Any) -> Self:
        """Some of a batch, by an index of its first axis."""
        return self.with_arrays(**{name: part[which] for name, part in vars(self).items() if isinstance(part, np.ndarray)})

    def is_certain(self) -> bool:
        """Whether nothing in x has a variance."""
        return not self.variances().any()

    def with_arrays(self, **parts: Any) -> Self:
        """With other arrays; dataclasses.replace checks what need not be checked at every step."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, **parts)
        return new

    def _affine_mean_and_cross(self, rows: slice, K: Array, k: Array, factor: Array) -> dict[str, Any]:
        """Mean and ``cross`` after x[rows] ← K x + k, of which ``factor`` (…, r) brings the deviations within reach.

        A loop that diverges stops at 1e100 instead of turning into infinities and NaN: means are cut, deviations scaled,
        and no covariance with the past exceeds what two such deviations allow.
        """
        mean, cross = self.mean.copy(), self.cross
        mean[..., rows] = np.minimum(np.maximum(times(K, self.mean) + k, -FARTHEST), FARTHEST)
        if cross.shape[-1]:
            moved = factor[..., None] * np.minimum(np.maximum(mapped(K, cross), -(FARTHEST**2)), FARTHEST**2)
            cross = cross.copy()
            cross[..., rows, :] = moved
        return {"mean": mean, "cross": cross}

    def _assigned_mean_and_cross(self, rows: slice, values: Array) -> dict[str, Any]:
        mean, cross = self.mean.copy(), self.cross
        mean[..., rows] = values
        if cross.shape[-1]:
            cross = cross.copy()
            cross[..., rows, :] = 0.0
        return {"mean": mean, "cross": cross}

    def _conditioned_mean_and_cross(self, told: Observation, gain: Array) -> dict[str, Any]:
        """After an observation has corrected x by ``gain`` (…, n, s), 0 for what a state misses."""
        seen = told.seen
        mean = self.mean + times(gain, np.where(told.here, told.values - self.mean[..., seen], 0.0))
        cross = self.cross - gain @ self.cross[..., seen, :]
        mean[..., seen] = np.where(told.exact, told.values, mean[..., seen])
        cross[..., seen, :] = np.where(told.exact[..., None], 0.0, cross[..., seen, :])
        return {"mean": mean, "cross": cross}


def stack(states: Sequence[GaussianState]) -> GaussianState:
    """A batch of states of one form; where factors have different numbers of columns, with columns of zeros behind them."""
    first = states[0]
    parts = {}
    for name in (name for name, part in vars(first).items() if isinstance(part, np.ndarray)):
        arrays = [vars(state)[name] for state in states]
        most = max(array.shape[-1] for array in arrays)
        parts[name] = np.stack([np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, most - a.shape[-1])]) for a in arrays])
    return first.with_arrays(**parts)


def flat(a: Array, axes: int = 2) -> Array:
    """All leading axes as one, for a kernel."""
    if a.ndim == axes:
        return np.ascontiguousarray(a)[None]
    event = a.shape[a.ndim - axes :]
    return np.ascontiguousarray(a).reshape(math.prod(a.shape[: a.ndim - axes]), *event)


def with_turned_rows(columns: Array, cell: Cell) -> Array:
    """``columns`` (…, n, s) over x with those of a cell's rows as its rotation leaves them; a copy where there is one."""
    if cell.rotation is None:
        return columns
    columns = columns.copy()
    columns[..., cell.rows, :] = cell.turned(columns[..., cell.rows, :])
    return columns


def within_reach(std: Array) -> Array:
    """Factors, 1, or what brings a deviation back to 1e100."""
    return np.minimum(1.0, FARTHEST / np.maximum(std, 1.0))


class Observation(NamedTuple):
    """What an observation tells of a batch: entries ``seen`` (s,) of x, all that any of its states has.

    ``here`` (…, s): which of them a state has; ``values`` (…, s) and ``noise`` (…, s, s) are 0 elsewhere; ``exact`` (…, s):
    which it has without noise.
    """

    seen: npt.NDArray[np.intp]
    here: npt.NDArray[np.bool_]
    values: Array
    noise: Array | None
    exact: npt.NDArray[np.bool_]

    def of(self, cov: Array) -> Array:
        """``cov`` (…, s, s) without the rows and columns that a state misses: 0 there, they have no part in a pseudo-inverse."""
        return cov if self.here.all() else np.where(self.here[..., :, None] & self.here[..., None, :], cov, 0.0)

    def noise_root(self) -> Array:
        """L (…, s, s) with L Lᵀ = noise."""
        if self.noise is None:
            return np.zeros((*self.here.shape, 0))
        apart = np.where(self.here, 0.0, 1.0)[..., None] * np.eye(len(self.seen))  # so that Cholesky serves what is there
        return np.where(self.here[..., None], root_of(self.noise + apart), 0.0)


def observed(rows: slice, values: Array, noise_cov: Array | None) -> Observation:
    """What ``values`` (…, r) of x[rows], NaN where one is missing, tell through noise of covariance ``noise_cov`` (…, r, r)."""
    there = ~np.isnan(values)
    places = np.flatnonzero(there.reshape(-1, there.shape[-1]).any(axis=0))
    here = there[..., places]
    told = Observation(places + rows.start, here, np.where(here, values[..., places], 0.0), None, here)
    if noise_cov is None:
        return told
    noise = told.of(noise_cov[..., places[:, None], places])
    return told._replace(noise=noise, exact=here & (np.diagonal(noise, axis1=-2, axis2=-1) == 0.0))


def _semidefinite(cov: Array) -> Array:
    """``cov`` (…, r, r) without the negative eigenvalues that rounding left, on the scale of its own deviations."""
    std = np.sqrt(np.maximum(np.diagonal(cov, axis1=-2, axis2=-1), 0.0))
    scale = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0.0)
    values, vectors = np.linalg.eigh(symmetric(scale[..., :, None] * cov * scale[..., None, :]))
    return outer(std[..., :, None] * vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])
