"""Readouts in which each output sees some of the features only, such as the patches of a field.

>>> Patches(2, overlap=1).windows(6)
array([[5, 0, 1, 2],
       [1, 2, 3, 4],
       [3, 4, 5, 0]])

>>> import numpy as np
>>> groups = Groups(np.array([[0], [1]]), np.array([[0, 1], [0, 2]]), True)       # y_0 of b_0 and b_1, y_1 of b_0 and b_2
>>> groups.expand(np.array([[5.0, 7.0]]), 3)
array([[5., 7., 0.],
       [5., 0., 7.]])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import flag, whole_number
from pesn._support.records import check_remade
from pesn._support.types import Array, FloatArray
from pesn.readout.features import Features, pair_places

Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Patches:
    """Division of a field into patches, each with a small reservoir and a readout of its columns.

    The columns of y are the field, in spatial order, and the first columns of X are the field one row earlier. Further columns of
    X, exogenous inputs, are seen by every patch.

    Parameters
    ----------
    size : int
        Number of columns that a patch predicts. The number of columns of the field must be a multiple of it.
    overlap : int
        Number of neighboring columns that a patch sees on each side.
    periodic : bool, default=True
        Whether the field is periodic. Otherwise a patch at the border sees zeros beyond it.
    shared : bool, default=True
        Whether all patches share one readout, as for a field with the same law everywhere: each row of the field gives one sample
        per patch. Otherwise each patch has its own. The reservoir is the same in all patches.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong.

    Examples
    --------
    >>> Patches(8, 4).windows(64).shape
    (8, 16)
    """

    size: int
    overlap: int
    periodic: bool = True
    shared: bool = True

    def __post_init__(self) -> None:
        whole_number("size", self.size, 1)
        whole_number("overlap", self.overlap, 0)
        flag("periodic", self.periodic)
        flag("shared", self.shared)
        for name, kind in (("size", int), ("overlap", int), ("periodic", bool), ("shared", bool)):  # convert NumPy scalars
            object.__setattr__(self, name, kind(getattr(self, name)))

    def check(self, name: str) -> None:
        """Raise a ValueError unless the record is intact; for records from a file."""
        check_remade(name, self)

    def check_field(self, n_inputs: int, n_outputs: int) -> None:
        """Raise a ValueError unless X and y can be a field with these patches.

        Parameters
        ----------
        n_inputs : int
            Number of columns of X.
        n_outputs : int
            Number of columns of y.
        """
        if n_outputs > n_inputs:
            raise ValueError(
                f"local needs the field in the first columns of X, {n_outputs} as y has, got {n_inputs} columns of X"
            )
        if n_outputs % self.size:
            raise ValueError(f"local needs a field whose columns are a multiple of size={self.size}, got {n_outputs} columns")
        widest = self.size + (2 if self.periodic else 1) * self.overlap
        if widest > n_outputs:
            seen = "size + 2 overlap" if self.periodic else "size + overlap"
            raise ValueError(f"local needs a field of at least {seen} = {widest} columns, got {n_outputs}")

    def count(self, n_columns: int) -> int:
        """Return the number of patches of a field with ``n_columns``."""
        return n_columns // self.size

    def windows(self, n_columns: int, n_inputs: int | None = None) -> Places:
        """Return the columns of X that each patch sees; −1 is a column beyond the border, which is 0.

        Parameters
        ----------
        n_columns : int
            Number of columns of the field.
        n_inputs : int, optional
            Number of columns of X, the field first; None: the field only.

        Returns
        -------
        ndarray of int of shape (n_patches, n_seen)
            The columns of the patch with ``overlap`` on each side, then the exogenous inputs.
        """
        first = self.size * np.arange(self.count(n_columns))
        places = first[:, None] + np.arange(-self.overlap, self.size + self.overlap)
        places = places % n_columns if self.periodic else np.where((places < 0) | (places >= n_columns), -1, places)
        more = np.arange(n_columns, n_columns if n_inputs is None else n_inputs)
        return np.hstack([places, np.broadcast_to(more, (len(first), len(more)))]).astype(np.intp)

    def groups(self, features: Features, n_inputs: int, n_outputs: int, n_units: int) -> Groups:
        """Return the features of the whole field that each patch's readout sees.

        Parameters
        ----------
        features : Features
            Features of the readout: those of a patch are of its window and its units.
        n_inputs : int
            Number of columns of X.
        n_outputs : int
            Number of columns of y.
        n_units : int
            Number of units of all patches.

        Returns
        -------
        Groups
            With the features of a patch in the order of ``features`` for its window.
        """
        self.check_field(n_inputs, n_outputs)
        G, d = self.count(n_outputs), n_inputs
        window = self.windows(n_outputs, n_inputs)
        there = window >= 0
        rows = [np.where(there, lag * d + window, -1) for lag in range(features.lags + 1)]
        columns = [np.zeros((G, 1), np.intp), *(np.where(row >= 0, 1 + row, -1) for row in rows)]
        if features.products:
            newest = np.hstack(rows[: features.products])
            i, j = np.triu_indices(newest.shape[1])
            one, other = newest[:, i], newest[:, j]
            at = features.n_linear(d) + pair_places(one, other, features.products * d)
            columns.append(np.where((one >= 0) & (other >= 0), at, -1))
        units = features.size(d, 0) + np.arange(n_units).reshape(G, n_units // G)
        outputs = np.arange(n_outputs).reshape(G, self.size)
        return Groups(outputs.astype(np.intp), np.hstack([*columns, units]).astype(np.intp), self.shared)


_LEAST_COLUMNS, _UNEQUAL = 7, 2.0  # of a field, and the largest ratio of standard deviations of its columns
_ALIKE, _LOCAL, _AROUND = 0.6, 1.5, 0.25  # least share of correlations, ratio of near to far ones, and share around the ends


def find_patches(runs: Sequence[Array]) -> Patches | None:
    """Return patches of one column if the columns of y look like a field; None if not.

    In a field with one law, columns vary alike, and correlations of one-step changes depend on the distance of two columns only:
    the means over pairs of equal distance explain most of their squares. They are larger between neighbors. The field is periodic
    if the first and the last columns are neighbors.

    Parameters
    ----------
    runs : sequence of ndarray of shape (n, d)
        Rows of y, without missing values.

    Returns
    -------
    Patches or None

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> white = rng.normal(size=(2000, 12))
    >>> find_patches([white]), find_patches([white + np.roll(white, 1, axis=1)])
    (None, Patches(size=1, overlap=2, periodic=True, shared=True))
    """
    d = runs[0].shape[1]
    if d < _LEAST_COLUMNS:
        return None
    changes = np.concatenate([np.diff(y, axis=0) for y in runs])
    stds = np.stack([np.concatenate(runs).std(axis=0), changes.std(axis=0)])
    if stds.min() <= 0.0 or (stds.max(axis=1) > _UNEQUAL * stds.min(axis=1)).any():
        return None
    scaled = (changes - changes.mean(axis=0)) / stds[1]
    found, apart = scaled.T @ scaled / len(scaled), np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    mean = np.array([np.diagonal(found, k).mean() for k in range(d)])
    around = np.mean(np.square(mean[-2:])) > _AROUND * np.mean(np.square(mean[1:3]))
    distance = np.minimum(apart, d - apart) if around else apart
    square = np.square(mean[apart])
    if square[apart > 0].sum() < _ALIKE * np.square(found[apart > 0]).sum():
        return None
    is_local = square[(distance > 0) & (distance < 3)].mean() >= _LOCAL * square[distance >= 3].mean()
    return Patches(1, 2, periodic=bool(around)) if is_local else None


class Part(NamedTuple):
    """Some ``outputs`` of y, the ``features`` of b that they see, and a root of A⁻¹ for these features."""

    outputs: Places | slice
    features: Places | slice
    root: Array


class Groups(NamedTuple):
    """Features that each group of outputs sees.

    ``outputs`` (G, s): indices of each group in y. ``columns`` (G, q): indices in b of the features that it sees, in the same
    order for all groups; −1 is a feature that is 0, as beyond the border of a field. ``shared``: whether all groups have the same
    weights.
    """

    outputs: Places
    columns: Places
    shared: bool

    @property
    def n_groups(self) -> int:
        """Number of groups, G."""
        return len(self.outputs)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a group, s."""
        return int(self.outputs.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features of a group, q."""
        return int(self.columns.shape[1])

    def check(self, name: str, n_features: int, n_targets: int) -> None:
        """Raise a ValueError unless these are groups of ``n_features`` features and ``n_targets`` outputs."""
        for part, places, low, high in (("outputs", self.outputs, 0, n_targets), ("columns", self.columns, -1, n_features)):
            if not isinstance(places, np.ndarray) or places.dtype != np.intp or places.ndim != 2 or not places.size:
                raise ValueError(f"{name}.{part} is not a matrix of places")
            if places.min() < low or places.max() >= high:
                raise ValueError(f"{name}.{part} is beyond its {high} places")
        if sorted(self.outputs.ravel().tolist()) != list(range(n_targets)) or len(self.columns) != self.n_groups:
            raise ValueError(f"{name} is not a partition of {n_targets} outputs")
        if not isinstance(self.shared, bool):
            raise ValueError(f"{name}.shared is not True or False")

    # ---------------------------------------------------------------- rows

    def features(self, b: FloatArray) -> Array:
        """Return the features of each group, (…, G, q), from b (…, p)."""
        found: Array = np.asarray(b[..., self.columns], float)
        if (self.columns < 0).any():
            found[..., self.columns < 0] = 0.0
        return found

    def targets(self, y: FloatArray) -> Array:
        """Return the outputs of each group, (…, G, s), from y (…, m)."""
        return np.asarray(y[..., self.outputs], float)

    def rows(self, b: FloatArray, y: FloatArray) -> list[tuple[Array, Array]]:
        """Return rows (n, p) and (n, m) as those of one regression, or of one per group."""
        features, targets = self.features(b), self.targets(y)
        if self.shared:
            return [(features.reshape(-1, self.n_features), targets.reshape(-1, self.n_outputs))]
        return [(features[:, g], targets[:, g]) for g in range(self.n_groups)]

    # ---------------------------------------------------------------- weights

    def expand(self, weights: Sequence[FloatArray] | FloatArray, n_features: int) -> Array:
        """Expand weights of a group (s, q), or of each, (G, s, q), to those of all features (m, p)."""
        every = np.broadcast_to(weights, (self.n_groups, self.n_outputs, self.n_features))
        result = np.zeros((self.outputs.size, n_features))
        for own, columns, W in zip(self.outputs, self.columns, every, strict=True):
            there = columns >= 0
            result[own[:, None], columns[there]] = W[:, there]
        return result

    def own_weights(self, weights: FloatArray) -> Array:
        """Return the weights of a shared readout (s, q), or of each group (G, s, q), from (m, p); undo :meth:`expand`."""
        found = np.zeros((self.n_groups, self.n_outputs, self.n_features))
        for g, (own, columns) in enumerate(zip(self.outputs, self.columns, strict=True)):
            there = columns >= 0
            found[g][:, there] = weights[own[:, None], columns[there]]
        if not self.shared:
            return found
        seen = np.argmax(self.columns >= 0, axis=0)  # a group with the feature; weights without one are 0
        return np.asarray(np.moveaxis(found[seen, :, np.arange(self.n_features)], 0, 1))

    def expand_cov(self, cov: Sequence[FloatArray] | FloatArray) -> Array:
        """Expand the covariance of a group (s, s), or of each, (G, s, s), to (m, m); groups count as independent."""
        every = np.broadcast_to(cov, (self.n_groups, self.n_outputs, self.n_outputs))
        result = np.zeros((self.outputs.size, self.outputs.size))
        for own, block in zip(self.outputs, every, strict=True):
            result[np.ix_(own, own)] = block
        return result

    def own_cov(self, cov: FloatArray) -> Array:
        """Return the mean covariance of the groups of a shared readout (s, s), or that of each (G, s, s), from (m, m)."""
        blocks = np.stack([cov[np.ix_(own, own)] for own in self.outputs])
        return np.asarray(blocks.mean(axis=0) if self.shared else blocks, float)

    def own_values(self, values: FloatArray) -> Array:
        """Return values of the outputs (m,) as means over the groups of a shared readout (s,), or of each group (G, s)."""
        found = values[self.outputs]
        return np.asarray(found.mean(axis=0) if self.shared else found, float)

    def own_penalty(self, penalty: float | FloatArray) -> float | FloatArray:
        """Return the penalties (q,) on the features of a group from those of all (p,); they are the same in every group."""
        if np.ndim(penalty) == 0:
            return penalty
        found = np.where(self.columns >= 0, np.asarray(penalty)[self.columns], -np.inf).max(axis=0)
        # features that no group sees have no weight under any penalty
        return np.where(np.isfinite(found), found, np.max(penalty))

    def parts(self, root: FloatArray) -> list[Part]:
        """Return each group with a root of its A⁻¹, from (q, q) or (G, q, q)."""
        every = np.broadcast_to(np.asarray(root, float), (self.n_groups, *root.shape[-2:]))
        return [
            Part(own, columns[columns >= 0], S if (columns >= 0).all() else S[columns >= 0])
            for own, columns, S in zip(self.outputs, self.columns, every, strict=True)
        ]
