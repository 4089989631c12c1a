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
    """A field cut into patches, each with a small reservoir and a readout of its own columns.

    The columns of y are the field, in their order in space, and the first columns of X are the same field a row earlier. Further
    columns of X, known inputs, are seen by every patch.

    Parameters
    ----------
    size
        Columns that a patch owns, and predicts. The columns of the field must be a multiple of it.
    overlap
        Columns that a patch sees beside its own, on each side.
    periodic
        Whether the field closes on itself. Else a patch at a border sees zeros beyond it.
    shared
        Whether all patches have one readout: the same law holds everywhere, and each row of the field teaches it once a patch.
        Else each patch has its own. The reservoir is the same in all patches either way.

    Raises
    ------
    TypeError, ValueError
        Where one of them is not such a number.

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
        for name, kind in (("size", int), ("overlap", int), ("periodic", bool), ("shared", bool)):  # not NumPy's own
            object.__setattr__(self, name, kind(getattr(self, name)))

    def check(self, name: str) -> None:
        """A ValueError unless it is whole: one that came from a file was not made here."""
        check_remade(name, self)

    def check_field(self, n_inputs: int, n_outputs: int) -> None:
        """A ValueError unless X of so many columns and y of so many can be a field that is cut so.

        Parameters
        ----------
        n_inputs, n_outputs
            Columns of X and of y.
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
        """Patches of a field of so many columns."""
        return n_columns // self.size

    def windows(self, n_columns: int, n_inputs: int | None = None) -> Places:
        """The columns of X that each patch sees, (G, size + 2 overlap + known inputs); −1: beyond the border, where 0 stands.

        Parameters
        ----------
        n_columns
            Of the field.
        n_inputs
            Columns of X, the field first; None: the field alone.

        Returns
        -------
        array
            (G, w), the patch's own columns with ``overlap`` on each side, then the known inputs.
        """
        first = self.size * np.arange(self.count(n_columns))
        places = first[:, None] + np.arange(-self.overlap, self.size + self.overlap)
        places = places % n_columns if self.periodic else np.where((places < 0) | (places >= n_columns), -1, places)
        more = np.arange(n_columns, n_columns if n_inputs is None else n_inputs)
        return np.hstack([places, np.broadcast_to(more, (len(first), len(more)))]).astype(np.intp)

    def groups(self, features: Features, n_inputs: int, n_outputs: int, n_units: int) -> Groups:
        """What each patch's readout sees of the features of the whole field.

        Parameters
        ----------
        features
            Of the readout: of a patch they are those of its window and its units.
        n_inputs, n_outputs, n_units
            Columns of X and of y, and units of all patches together.

        Returns
        -------
        Groups
            With the features of a patch in the order that ``features`` has for its window.
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


class Part(NamedTuple):
    """What is known of some outputs' weights: ``outputs`` of y, the ``features`` of b that they see, and a root of A⁻¹ there."""

    outputs: Places | slice
    features: Places | slice
    root: Array


class Groups(NamedTuple):
    """Which features each group of outputs sees.

    ``outputs`` (G, s): the places of each group in y. ``columns`` (G, q): the places in b of the features that it sees, in one
    order for all groups; −1 is a feature that is 0 there, as beyond the border of a field. ``shared``: whether all groups have
    the same weights.
    """

    outputs: Places
    columns: Places
    shared: bool

    @property
    def n_groups(self) -> int:
        """G."""
        return len(self.outputs)

    @property
    def n_outputs(self) -> int:
        """s, of a group."""
        return int(self.outputs.shape[1])

    @property
    def n_features(self) -> int:
        """q, of a group."""
        return int(self.columns.shape[1])

    def check(self, name: str, n_features: int, n_targets: int) -> None:
        """A ValueError unless they are groups of so many features and outputs."""
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
        """What each group sees of b (…, p): (…, G, q)."""
        found: Array = np.asarray(b[..., self.columns], float)
        if (self.columns < 0).any():
            found[..., self.columns < 0] = 0.0
        return found

    def targets(self, y: FloatArray) -> Array:
        """The outputs of each group, (…, G, s) of y (…, m)."""
        return np.asarray(y[..., self.outputs], float)

    def rows(self, b: FloatArray, y: FloatArray) -> list[tuple[Array, Array]]:
        """Rows (n, p) and (n, m) as those of one regression, or of one for each group."""
        features, targets = self.features(b), self.targets(y)
        if self.shared:
            return [(features.reshape(-1, self.n_features), targets.reshape(-1, self.n_outputs))]
        return [(features[:, g], targets[:, g]) for g in range(self.n_groups)]

    # ---------------------------------------------------------------- weights

    def expand(self, weights: Sequence[FloatArray] | FloatArray, n_features: int) -> Array:
        """Weights (m, p) of all features, from those of a group (s, q), or of each, (G, s, q)."""
        every = np.broadcast_to(weights, (self.n_groups, self.n_outputs, self.n_features))
        result = np.zeros((self.outputs.size, n_features))
        for own, columns, W in zip(self.outputs, self.columns, every, strict=True):
            there = columns >= 0
            result[own[:, None], columns[there]] = W[:, there]
        return result

    def own_weights(self, weights: FloatArray) -> Array:
        """(s, q) of a shared readout, or (G, s, q), from (m, p): what :meth:`expand` was given."""
        found = np.zeros((self.n_groups, self.n_outputs, self.n_features))
        for g, (own, columns) in enumerate(zip(self.outputs, self.columns, strict=True)):
            there = columns >= 0
            found[g][:, there] = weights[own[:, None], columns[there]]
        if not self.shared:
            return found
        seen = np.argmax(self.columns >= 0, axis=0)  # a group that has the feature; where none has, there is no weight
        return np.asarray(np.moveaxis(found[seen, :, np.arange(self.n_features)], 0, 1))

    def expand_cov(self, cov: Sequence[FloatArray] | FloatArray) -> Array:
        """(m, m) from that of a group (s, s), or of each, (G, s, s); outputs of two groups pass for independent."""
        every = np.broadcast_to(cov, (self.n_groups, self.n_outputs, self.n_outputs))
        result = np.zeros((self.outputs.size, self.outputs.size))
        for own, block in zip(self.outputs, every, strict=True):
            result[np.ix_(own, own)] = block
        return result

    def own_cov(self, cov: FloatArray) -> Array:
        """(s, s), the mean over the groups of a shared readout, or (G, s, s), from (m, m)."""
        blocks = np.stack([cov[np.ix_(own, own)] for own in self.outputs])
        return np.asarray(blocks.mean(axis=0) if self.shared else blocks, float)

    def own_values(self, values: FloatArray) -> Array:
        """(s,), the mean over the groups of a shared readout, or (G, s), of values (m,), one for each output."""
        found = values[self.outputs]
        return np.asarray(found.mean(axis=0) if self.shared else found, float)

    def own_penalty(self, penalty: float | FloatArray) -> float | FloatArray:
        """The penalties (q,) of a group's features, from those of all (p,); they are the same in every group."""
        if np.ndim(penalty) == 0:
            return penalty
        found = np.where(self.columns >= 0, np.asarray(penalty)[self.columns], -np.inf).max(axis=0)
        return np.where(np.isfinite(found), found, np.max(penalty))  # what no group sees has no weight under any penalty

    def parts(self, root: FloatArray) -> list[Part]:
        """Each group with a root of its A⁻¹, from (q, q), or (G, q, q)."""
        every = np.broadcast_to(np.asarray(root, float), (self.n_groups, *root.shape[-2:]))
        return [
            Part(own, columns[columns >= 0], S if (columns >= 0).all() else S[columns >= 0])
            for own, columns, S in zip(self.outputs, self.columns, every, strict=True)
        ]
