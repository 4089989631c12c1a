"""Patches of a field: which of its columns each of them owns and sees.

>>> Patches(2, overlap=1).windows(6)
array([[5, 0, 1, 2],
       [1, 2, 3, 4],
       [3, 4, 5, 0]])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pesn._support.checks import flag, whole_number
from pesn.readout.features import Features, pair_places
from pesn.readout.groups import Groups

__all__ = ["Patches"]

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
        try:
            fresh = Patches(**vars(self))
        except TypeError as error:
            raise ValueError(f"{name} is damaged: {error}") from None
        if fresh != self:
            raise ValueError(f"{name} is {self!r}")

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
