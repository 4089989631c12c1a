"""Ensemble of states instead of moments: the Monte Carlo twin of the closed forms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.records import check_arrays, check_counts
from pesn._support.types import Array
from pesn.linalg import QuadraticForm, inverse_root, multiply, multiply_rows, transpose
from pesn.statespace.cell import Cell, Compression, Noise, Terms
from pesn.statespace.kernels import FARTHEST
from pesn.statespace.state import GaussianState, observe

_BITS = 30  # of a Sobol point
_MOST_DIMENSIONS = 21_201  # limit of the direction numbers of scipy


@dataclass(frozen=True)
class Draws:
    """Standard normal numbers for ensemble members, new ones at every step: pseudo-random, or scrambled Sobol points.

    ``seed`` and the number of draws ``taken`` so far determine them: the same state always gives the same numbers. Sobol points
    get a new digital shift and a new order in every draw, so that those of two steps are independent (Latin supercube sampling).

    >>> draws = Draws(0)
    >>> first, later = draws.normal((), 4, 2)
    >>> first.shape, bool((draws.normal((), 4, 2)[0] == first).all()), bool((later.normal((), 4, 2)[0] == first).any())
    ((4, 2), True, False)
    """

    seed: int
    sobol: bool = False
    taken: int = 0

    def check(self, name: str) -> None:
        """Raise a ValueError unless it is complete, as after a file was read."""
        if set(vars(self)) != {"seed", "sobol", "taken"} or type(self.sobol) is not bool:
            raise ValueError(f"{name} is not complete")
        check_counts(name, {"seed": (self.seed, 0), "taken": (self.taken, 0)})

    def normal(self, batch: tuple[int, ...], members: int, size: int) -> tuple[Array, Draws]:
        """Return numbers (…, members, size) for a batch of this shape, and the generator of the next ones."""
        rng = np.random.default_rng([self.seed, self.taken])
        if not self.sobol or not 0 < size <= _MOST_DIMENSIONS:
            numbers = rng.standard_normal((*batch, members, size))
        else:
            order = np.argsort(rng.random((*batch, members)), axis=-1)
            digits = _sobol_digits(members, size)[order]
            digits ^= rng.integers(1 << _BITS, size=(*batch, 1, size), dtype=np.uint32)  # a digital shift
            numbers = special.ndtri((digits + 0.5) / (1 << _BITS))
        return numbers, replace(self, taken=self.taken + 1)


@dataclass(frozen=True)
class MirroredDraws(Draws):
    """Antithetic draws: the second half of the members has the negative numbers of the first."""

    def normal(self, batch: tuple[int, ...], members: int, size: int) -> tuple[Array, Draws]:  # noqa: D102
        numbers, later = super().normal(batch, members // 2, size)
        return np.concatenate([numbers, -numbers], axis=-2), later


@lru_cache(maxsize=16)
def _sobol_digits(members: int, size: int) -> npt.NDArray[np.uint32]:
    """Return the first scrambled Sobol points (members, size) as integers of 30 bits."""
    from scipy.stats import qmc

    points = qmc.Sobol(size, rng=np.random.default_rng(0), bits=_BITS).random(1 << (int(members) - 1).bit_length())[:members]
    digits = (points * (1 << _BITS)).astype(np.uint32)
    digits.flags.writeable = False
    return digits


@dataclass(frozen=True, eq=False, init=False)
class Ensemble(GaussianState):
    """Ensemble of ``members`` (…, M, n): sample mean and covariance, observations by the ensemble Kalman filter.

    ``past`` (…, M, s) holds what :meth:`remember` has kept of each member: whole trajectories, row after row.
    """

    has_members: ClassVar[bool] = True

    members: Array
    past: Array
    draws: Draws

    def __init__(self, members: Array, carried: int, draws: Draws, past: Array | None = None) -> None:
        past = members[..., :0] if past is None else past
        vars(self).update(members=members, carried=carried, draws=draws, past=past)  # it is frozen

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the cached moments."""
        return {name: vars(self)[name] for name in ("members", "carried", "draws", "past")}

    def check(self, name: str, carried: int, n_units: int) -> None:  # noqa: D102
        if (
            set(vars(self)) - {"mean", "cross"} != set(self.__getstate__())
            or self.carried != carried
            or type(self.draws) is not Draws
        ):
            raise ValueError(f"{name} is not about these columns and units")
        count = np.shape(np.atleast_1d(self.members))[0]
        check_arrays(name, {"members": (self.members, (count, carried + n_units)), "past": (self.past, (count, 0))})
        check_counts(name, {"members": (count, 2)})
        self.draws.check(f"{name}.draws")

    def with_arrays(self, **parts: Any) -> Ensemble:  # noqa: D102
        return Ensemble(parts.get("members", self.members), self.carried, self.draws, parts.get("past", self.past))

    @classmethod
    def draw(cls, mean: Array, root: Array, carried: int, members: int, draws: Draws) -> Ensemble:
        """Draw ``members`` states with this mean (…, n) and covariance rootᵀ root, root (…, r, n)."""
        z, draws = draws.normal(mean.shape[:-1], members, root.shape[-2])
        return cls(mean[..., None, :] + z @ root, carried, draws)

    @cached_property  # type: ignore[misc]
    def mean(self) -> Array:
        """Sample mean, (…, n)."""
        first = self.members[..., :1, :]  # relative to one member: exact if all are equal
        return np.asarray(first[..., 0, :] + (self.members - first).mean(axis=-2))

    @cached_property  # type: ignore[misc]
    def cross(self) -> Array:
        """Sample covariances with the past, (…, n, s), computed on demand since a past may be long."""
        return _sample_covariance(self.members, self.past)

    def is_certain(self) -> bool:  # noqa: D102
        return bool((self.members == self.members[..., :1, :]).all())

    def variances(self) -> Array:  # noqa: D102
        away = _deviations(self.members)
        return np.asarray(np.einsum("...mi,...mi->...i", away, away) / (away.shape[-2] - 1))

    def cross_covariance(self, rows: slice) -> Array:  # noqa: D102
        return _sample_covariance(self.members, self.members[..., rows])

    def block_covariance(self, rows: slice) -> Array:  # noqa: D102
        return _sample_covariance(self.members[..., rows], self.members[..., rows])

    def project_covariance(self, K: Array) -> Array:  # noqa: D102
        new = self.members @ transpose(K)
        return _sample_covariance(new, new)

    def sample(self, n: int, rng: np.random.Generator) -> Array:  # noqa: D102
        return np.asarray(rng.choice(self.members, n, axis=-2))

    def trace(self, A: QuadraticForm) -> Array:  # noqa: D102
        away = _deviations(self.members)
        return np.asarray(np.einsum("...mi,...mi->...", away @ A.matrix, away) / (away.shape[-2] - 1))

    def only(self, places: npt.NDArray[np.intp]) -> Ensemble:  # noqa: D102
        return Ensemble(self.members[..., places], int(np.count_nonzero(places < self.carried)), self.draws)

    def move(self, cell: Cell, noise: Noise | None = None) -> Ensemble:  # noqa: D102
        moved = Ensemble(cell(self.members), self.carried, self.draws, self.past)
        return moved if noise is None else moved._with_noise(noise, cell.rows)

    def add(self, noise: Noise, compression: Compression | None = None) -> Ensemble:  # noqa: D102
        return self._with_noise(noise, noise.rows(self.members.shape[-1]))

    def affine(self, rows: slice, K: Array, k: Array, noise_root: Array | None = None) -> Ensemble:
        """Return the state after x[rows] ← K x + k + noise; ``noise_root`` may be one for each member, (…, M, r, q)."""
        new, draws = transpose(multiply_rows(K, transpose(self.members))) + np.asarray(k)[..., None, :], self.draws
        if noise_root is not None and noise_root.size:
            z, draws = self._normal(draws, noise_root.shape[-1])
            new += multiply(noise_root, z) if noise_root.ndim > self.members.ndim else z @ transpose(noise_root)
        # diverging loops stay finite
        return self._with_rows(rows, np.minimum(np.maximum(new, -FARTHEST), FARTHEST), draws)

    def affine_with_terms(self, K: Array, k: Array, terms: Terms, noise_root: Array | None = None) -> Ensemble:  # noqa: D102
        moved = self.affine(slice(0, len(K)), K, k, noise_root)
        moved.members[..., : len(terms.weights)] += terms(self.members[..., terms.places])
        return moved

    def with_unknowns(self, count: int) -> Ensemble:
        """Draw the unknowns of each member."""
        unknowns, draws = self._normal(self.draws, count)
        return Ensemble(self.members, self.carried, draws, unknowns)

    def add_unknowns(self, rows: slice, B: Array) -> Ensemble:  # noqa: D102
        return self._with_rows(rows, self.members[..., rows] + self.past[..., : B.shape[-1]] @ transpose(B), self.draws)

    def assign(self, rows: slice, values: Array, var: Array | None = None) -> Ensemble:  # noqa: D102
        new, draws = np.asarray(values)[..., None, :], self.draws
        if var is not None and np.any(var):
            z, draws = self._normal(draws, new.shape[-1])
            new = new + z * np.sqrt(var)[..., None, :]
        return self._with_rows(rows, new, draws)

    def hold(  # noqa: D102
        self, rows: slice, low: Array, high: Array, back: tuple[Array, Array], std: Array
    ) -> tuple[Ensemble, Array | float]:
        values = self.members[..., rows]
        left = (values < low[..., None, :]) | (values > high[..., None, :])
        if not left.any():
            return self, 0.0
        z, draws = self._normal(self.draws, values.shape[-1])
        inside = np.clip(values, *(end[..., None, :] for end in back))
        held = self._with_rows(rows, np.where(left, inside + std * z, values), draws)
        return held, np.asarray(left.mean(axis=-2))

    def condition(self, rows: slice, values: Array, noise_cov: Array | None = None) -> Ensemble:  # noqa: D102
        told, draws = observe(rows, values, noise_cov), self.draws
        seen, y = self.members[..., told.seen], told.values[..., None, :]
        S = told.mask(_sample_covariance(seen, seen))
        if told.noise is not None:  # perturbed observations: independent noise for each member
            z, draws = self._normal(draws, len(told.seen))
            S, y = S + told.noise, y + z @ transpose(told.noise_root())
        root = inverse_root(S)
        toward = (y - seen) @ root  # missing entries have no part in the root
        members = self.members + toward @ transpose(_sample_covariance(self.members, seen) @ root)
        past = self.past + toward @ transpose(_sample_covariance(self.past, seen) @ root)
        members[..., told.seen] = np.where(told.exact[..., None, :], y, members[..., told.seen])
        return Ensemble(members, self.carried, draws, past)

    def remember(self, rows: slice) -> Ensemble:  # noqa: D102
        past = np.concatenate([self.past, self.members[..., rows]], axis=-1)
        return Ensemble(self.members, self.carried, self.draws, past)

    def covariance_with_past(self, rows: slice) -> Array:  # noqa: D102
        return _sample_covariance(self.members[..., rows], self.past)

    def _normal(self, draws: Draws, size: int) -> tuple[Array, Draws]:
        """Return numbers (…, M, size) and the generator of the next ones."""
        *batch, members, _ = self.members.shape
        return draws.normal(tuple(batch), members, size)

    def _with_noise(self, noise: Noise, rows: slice) -> Ensemble:
        new, draws = self.members[..., rows], self.draws
        if len(noise.root):
            z, draws = self._normal(draws, len(noise.root))
            new = new + z @ noise.root
        if noise.diagonal.any():
            z, draws = self._normal(draws, len(noise.diagonal))
            new = new + z * np.sqrt(noise.diagonal)
        return self._with_rows(rows, new, draws)

    def _with_rows(self, rows: slice, new: Array, draws: Draws) -> Ensemble:
        members = self.members.copy()
        members[..., rows] = new
        return Ensemble(members, self.carried, draws, self.past)


def _sample_covariance(a: Array, b: Array) -> Array:
    """Return the sample covariances (…, i, j) of members a (…, M, i) and b (…, M, j)."""
    return transpose(_deviations(a)) @ _deviations(b) / (a.shape[-2] - 1)


def _deviations(a: Array) -> Array:
    """Return the deviations from the sample mean, (…, M, i), exactly 0 if all members are equal."""
    away = a - a[..., :1, :]
    away -= away.mean(axis=-2, keepdims=True)
    return away
