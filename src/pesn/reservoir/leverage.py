"""The leverage of a state's features, bᵀ A⁻¹ b + tr(A⁻¹ Cov b): how little the training rows say about the weights there."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pesn._support.types import Array
from pesn.linalg import QuadraticForm, outer
from pesn.readout.features import Moves
from pesn.readout.groups import Part
from pesn.statespace import Ensemble, GaussianState

__all__ = ["Leverage"]


class Leverage:
    """Of each output of a readout, from states x; ``parts``: outputs, what they see, and a root of A⁻¹ there.

    Where groups of outputs see some features alone, what enters theirs is looked at alone: nothing is ever as large as x × x.

    Parameters
    ----------
    moves
        How features come into x.
    parts
        Of :meth:`pesn.readout.ridge.Readout.parts`.
    n_outputs, n_features
        m and p.
    variances_alone
        Whether states have no covariances: traces then ask for the diagonal of A⁻¹ alone.
    """

    def __init__(
        self, moves: Moves, parts: list[Part], n_outputs: int, n_features: int, variances_alone: bool = False
    ) -> None:  # fmt: skip
        self._parts = [_PartOfState(moves, part, n_features, variances_alone) for part in parts]
        self._n_outputs = n_outputs

    def trace(self, state: GaussianState) -> Array:
        """tr(A⁻¹ Cov b) (…, m)."""
        found = np.empty((*state.mean.shape[:-1], self._n_outputs))
        for part in self._parts:
            here = state if part.places is None else state.only(part.places)
            found[..., part.outputs] = here.trace(part.form)[..., None]
        return found

    def of_means(self, x: Array) -> Array:
        """bᵀ A⁻¹ b (…, m) of x (…, n)."""
        found = np.empty((*x.shape[:-1], self._n_outputs))
        for part in self._parts:
            v = part.constant + (x if part.places is None else x[..., part.places]) @ part.root
            found[..., part.outputs] = np.vecdot(v, v)[..., None]
        return found

    def __call__(self, state: GaussianState) -> Array:
        """All of it (…, m); of each member of an ensemble, its own bᵀ A⁻¹ b (…, M, m)."""
        if isinstance(state, Ensemble):
            return self.of_means(state.members)
        return self.of_means(state.mean) + self.trace(state)


class _PartOfState:
    """Some outputs: the ``places`` in x that they see, None: all; a root (n, r) of A⁻¹ there, and its row of the constant."""

    def __init__(self, moves: Moves, part: Part, n_features: int, variances_alone: bool) -> None:
        self.outputs, self._diagonal = part.outputs, variances_alone
        whole = part.root
        if not isinstance(part.features, slice):
            whole = np.zeros((n_features, part.root.shape[1]))
            whole[part.features] = part.root
        self.constant, self.root = whole[0], moves.weights(whole.T).T
        self.places = None
        if not isinstance(part.features, slice):
            self.places = np.flatnonzero(self.root.any(axis=1))
            self.root = self.root[self.places]

    @cached_property
    def form(self) -> QuadraticForm:
        """A⁻¹ over these places; the constant is certain."""
        root = self.root  # the product takes as long as thousands of rows
        return QuadraticForm(np.diag(np.vecdot(root, root)) if self._diagonal else outer(root))
