"""Members instead of moments: the Monte Carlo twin of the closed forms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn.linalg import inverse_root, transpose
from pesn.statespace.cell import Cell, Noise
from pesn.statespace.state import FARTHEST, GaussianState, observed

__all__ = ["Draws", "Ensemble"]

Array = npt.NDArray[np.float64]


class Draws:
    """Standard normal numbers for members: plain ones, or scrambled Sobol points, afresh at every call.

    >>> Draws(np.random.default_rng(0)).normal(4, 2).shape
    (4, 2)
    """

    def __init__(self, rng: np.random.Generator, sobol: bool = False) -> None:
        self.rng, self.sobol = rng, sobol

    def normal(self, members: int, size: int) -> Array:
        """(members, size)."""
        if not self.sobol or not size:
            return self.rng.standard_normal((members, size))
        from scipy.stats import qmc

        points = qmc.Sobol(size, rng=self.rng).random(1 << (members - 1).bit_length())[:members]
        # in a new order: the points of one step must not go with those of the next
        result: Array = special.ndtri(np.clip(self.rng.permutation(points), 1e-12, 1.0 - 1e-12))
        return result


@dataclass(frozen=True, eq=False, init=False)
class Ensemble(GaussianState):
    """``members`` (…, M, n) that move one by one; mean and covariance are by count, observations by the ensemble Kalman filter.

    ``past`` (…, M, s) holds what :meth:`remember` has kept of each member: whole futures, row after row.
    """

    members: Array
    past: Array
    draws: Draws

    def __init__(self, members: Array, carried: int, draws: Draws, past: Array | None = None) -> None:
        past = members[..., :0] if past is None else past
        vars(self).update(members=members, carried=carried, draws=draws, past=past)  # it is frozen

    @cached_property  # type: ignore[misc]
    def mean(self) -> Array:
        """By count, (…, n)."""
        return np.asarray(self.members.mean(axis=-2))

    @cached_property  # type: ignore[misc]
    def cross(self) -> Array:
        """With the past, by count, (…, n, s): only where it is asked for, since a past may be long."""
        return _between(self.members, self.past)

    def variances(self) -> Array:  # noqa: D102
        return np.asarray(np.var(self.members, axis=-2, ddof=1))

    def covariance_with(self, rows: slice) -> Array:  # noqa: D102
        return _between(self.members, self.members[..., rows])

    def covariance_of(self, rows: slice) -> Array:  # noqa: D102
        return _between(self.members[..., rows], self.members[..., rows])

    def covariance_after(self, K: Array) -> Array:  # noqa: D102
        new = self.members @ transpose(K)
        return _between(new, new)

    def sample(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        return np.asarray(rng.choice(self.members, n, axis=-2))

    def trace(self, A: Array) -> Array:  # noqa: D102
        away = self.members - self.mean[..., None, :]
        return np.asarray(np.einsum("...mi,...mi->...", away @ A, away) / (away.shape[-2] - 1))

    def move(self, cell: Cell, noise: Noise | None = None) -> Ensemble:  # noqa: D102
        members = cell(self.members)
        if noise is not None:
            members[..., cell.rows] += self._normal(len(noise.root)) @ noise.root
            members[..., cell.rows] += self._normal(len(noise.diagonal)) * np.sqrt(noise.diagonal)
        return self._with(members)

    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> Ensemble:  # noqa: D102
        new = self.members @ transpose(K) + np.asarray(k)[..., None, :]
        if noise_root is not None:
            new += self._normal(noise_root.shape[-1]) @ transpose(noise_root)
        return self._with_rows(rows, np.clip(new, -FARTHEST, FARTHEST))  # a loop that diverges stays numbers

    def assign(self, rows: slice, values: Array, var: Array | None = None) -> Ensemble:  # noqa: D102
        new = np.asarray(values)[..., None, :]
        if var is not None and np.any(var):
            new = new + self._normal(new.shape[-1]) * np.sqrt(var)[..., None, :]
        return self._with_rows(rows, new)

    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> Ensemble:  # noqa: D102
        told = observed(rows, values, noise_cov)
        seen, y = self.members[..., told.seen], told.values[..., None, :]
        S = told.of(_between(seen, seen))
        if told.noise is not None:  # every member sees the observation with a noise of its own
            S, y = S + told.noise, y + self._normal(len(told.seen)) @ transpose(told.noise_root())
        root = inverse_root(S)
        toward = (y - seen) @ root  # what a state misses has no part in the root
        members = self.members + toward @ transpose(_between(self.members, seen) @ root)
        past = self.past + toward @ transpose(_between(self.past, seen) @ root)
        members[..., told.seen] = np.where(told.exact[..., None, :], y, members[..., told.seen])
        return Ensemble(members, self.carried, self.draws, past)

    def remember(self, rows: slice) -> Ensemble:  # noqa: D102
        return self._with(self.members, np.concatenate([self.past, self.members[..., rows]], axis=-1))

    def covariance_with_past(self, rows: slice) -> Array:  # noqa: D102
        return _between(self.members[..., rows], self.past)

    def without_memory(self) -> Ensemble:  # noqa: D102
        return self._with(self.members, self.past[..., :0])

    def _moved(self, cell: Cell, noise: Noise | None) -> tuple[Array, Array, dict[str, Any]]:
        raise AssertionError("members move one by one")

    def _normal(self, size: int) -> Array:
        """(…, M, size)."""
        *batch, members, _ = self.members.shape
        return np.reshape([self.draws.normal(members, size) for _ in range(math.prod(batch))], (*batch, members, size))

    def _with_rows(self, rows: slice, new: Array) -> Ensemble:
        members = self.members.copy()
        members[..., rows] = new
        return self._with(members)

    def _with(self, members: Array, past: Array | None = None) -> Ensemble:
        return Ensemble(members, self.carried, self.draws, self.past if past is None else past)


def _between(a: Array, b: Array) -> Array:
    """The covariances by count, (…, i, j), of members a (…, M, i) and b (…, M, j)."""
    away = a - a.mean(axis=-2, keepdims=True)
    return transpose(away) @ (b - b.mean(axis=-2, keepdims=True)) / (a.shape[-2] - 1)
