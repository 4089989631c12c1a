"""Features of the readout: the row, earlier rows, products of their entries, and the units.

b_k = [1, z_k, z_{k−1}, …, z_{k−lags}, products, h_k]. The map is implemented twice: on rows of numbers, for the regression
(:meth:`Features.__call__`), and on a Gaussian state, for the propagation of uncertainty (:meth:`Features.moves`).

Earlier rows are a shift register in the state, which is affine and exact. Products are sums of squares, computed by a cell:
z_i z_j = ((z_i + z_j)² − z_i² − z_j²)/2, with as many squares as products; squares of jointly Gaussian entries have mean and
covariances in closed form (:class:`pesn.statespace.cell.SquareMoments`).

>>> import numpy as np
>>> rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
>>> Features(lags=1, products=1, states=False)(rows)
array([[ 1.,  1.,  2.,  1.,  2.,  1.,  2.,  4.],
       [ 1.,  3.,  4.,  1.,  2.,  9., 12., 16.],
       [ 1.,  5.,  6.,  3.,  4., 25., 30., 36.]])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pesn._support.arguments import flag, whole_number
from pesn._support.records import check_remade
from pesn._support.types import Array, RidgeValue
from pesn.statespace.cell import Cell, SquareMoments
from pesn.statespace.state import Layout

Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Features:
    """Features of a readout: [1, row, earlier rows, products, units].

    Parameters
    ----------
    lags : int, default=0
        Number of earlier rows among the features. The first ``lags`` rows of a sequence have no earlier ones and are not learned
        from.
    products : {0, 1, 2}, default=0
        Number of newest rows whose entries are multiplied, all pairs and squares: 0, no products; 1, of the row itself; 2, of the
        row and the one before it, which needs ``lags`` of 1 or more.
    states : bool, default=True
        Whether the units are among the features. Without them there is no reservoir: a linear or quadratic autoregression.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong.

    Examples
    --------
    >>> Features(lags=2, products=2).size(n_inputs=3, n_units=100)
    131
    """

    lags: int = 0
    products: int = 0
    states: bool = True

    def __post_init__(self) -> None:
        whole_number("lags", self.lags, 0)
        whole_number("products", self.products, 0)
        flag("states", self.states)
        for name, kind in (("lags", int), ("products", int), ("states", bool)):  # convert NumPy scalars, as from a grid search
            object.__setattr__(self, name, kind(getattr(self, name)))
        if self.products > 2:
            raise ValueError(f"products must be 0, 1 or 2, got {self.products!r}")
        if self.products > self.lags + 1:
            raise ValueError(
                f"products must not exceed lags + 1, the rows that are there, got products={self.products} and lags={self.lags}"
            )

    def check(self, name: str, n_units: int) -> None:
        """Raise a ValueError unless the record is intact and goes with a network of this size; for records from a file.

        Parameters
        ----------
        name : str
            Name for the message.
        n_units : int
            Number of units of the network.
        """
        check_remade(name, self)
        if self.states != (n_units > 0):
            raise ValueError(f"{name} is {self!r}, of a network of {n_units} units")

    # ---------------------------------------------------------------- how many

    def n_earlier(self, n_inputs: int) -> int:
        """Return the number of entries of the earlier rows."""
        return int(self.lags * n_inputs)

    def n_linear(self, n_inputs: int) -> int:
        """Return the number of linear features: the constant, the row and earlier rows, under the first penalty of a pair."""
        return 1 + n_inputs + self.n_earlier(n_inputs)

    def n_products(self, n_inputs: int) -> int:
        """Return the number of products."""
        n = self.products * n_inputs
        return int(n * (n + 1) // 2)

    def n_squares(self, n_inputs: int, differences: bool = False) -> int:
        """Return the number of squares that the products are computed from, as in :meth:`moves`.

        Parameters
        ----------
        n_inputs : int
            Number of entries of a row, d.
        differences : bool, default=False
            As in :meth:`moves`.

        Returns
        -------
        int
        """
        n = self.products * n_inputs
        return int(n * n if differences else n * (n + 1) // 2)

    def size(self, n_inputs: int, n_units: int) -> int:
        """Return the number of features, p.

        Parameters
        ----------
        n_inputs : int
            Number of entries of a row, d.
        n_units : int
            Number of units, N.

        Returns
        -------
        int
        """
        return 1 + n_inputs + self.n_earlier(n_inputs) + self.n_products(n_inputs) + n_units

    def penalty(self, ridge: RidgeValue, n_inputs: int, n_units: int) -> float | Array:
        """Return the penalty of a ridge on each feature.

        Parameters
        ----------
        ridge : float or pair of float
            One penalty, or a pair: on the linear features, and on all others.
        n_inputs : int
            Number of entries of a row, d.
        n_units : int
            Number of units, N.

        Returns
        -------
        float or ndarray of shape (p,)
            The penalty on all features, or for a pair that on each.
        """
        if not isinstance(ridge, tuple):
            return ridge
        result = np.full(self.size(n_inputs, n_units), ridge[1])
        result[: self.n_linear(n_inputs)] = ridge[0]
        return result

    # ---------------------------------------------------------------- rows of numbers

    def __call__(self, inputs: Array, states: Array | None = None, before: Array | None = None) -> Array:
        """Compute features (…, T, p) of rows (…, T, d) with their units (…, T, N); None: without units.

        ``before`` (…, lags, d) are the rows before the first one; None: the first one takes their place.
        """
        *batch, n, d = inputs.shape
        units = np.empty((*batch, n, 0)) if states is None else states
        result = np.empty((*batch, n, self.size(d, units.shape[-1])))
        width = result.shape[-1] - units.shape[-1]
        result[..., 0], result[..., width:] = 1.0, units
        self._fill(result[..., 1:width], inputs, before)
        return result

    def rows(self, inputs: Array, before: Array | None = None) -> Array:
        """Compute the features of rows alone: b without the constant and the units.

        Parameters
        ----------
        inputs : ndarray of shape (…, T, d)
            Rows.
        before : ndarray of shape (…, lags, d), optional
            Rows before the first one; None: the first one takes their place.

        Returns
        -------
        ndarray of shape (…, T, w)
        """
        if not self.lags and not self.products:
            return inputs
        result = np.empty((*inputs.shape[:-1], self.size(inputs.shape[-1], 0) - 1))
        self._fill(result, inputs, before)
        return result

    def row_moments(self, mean: Array, var: Array, before: Array | None, before_var: Array | None) -> tuple[Array, Array]:
        """Compute means and variances of :meth:`rows`, with independent entries, as in the diagonal form.

        The two squares that make up a product are then independent as well, which is exact for factors of the same variance:
        Var(z_i z_j) = (m_i² + m_j²)(v_i + v_j)/2 + (v_i + v_j)²/4.

        Parameters
        ----------
        mean : ndarray of shape (T, d)
            Means of the rows.
        var : ndarray of shape (T, d)
            Variances of the rows.
        before : ndarray of shape (lags, d) or None
            Means of the rows before the first one.
        before_var : ndarray of shape (lags, d) or None
            Variances of the rows before the first one.

        Returns
        -------
        tuple of ndarray of shape (T, w)
            Means and variances.
        """
        means, variances = self.rows(mean, before), np.zeros((len(mean), self.size(mean.shape[-1], 0) - 1))
        plain = Features(self.lags)
        width = plain.size(mean.shape[-1], 0) - 1
        variances[:, :width] = plain.rows(var, before_var)
        if self.products:
            i, j = _pairs(self.products * mean.shape[-1])
            m, v, same = means, variances, i == j
            both = v[:, i] + v[:, j]
            apart = 0.5 * (np.square(m[:, i]) + np.square(m[:, j])) * both + 0.25 * np.square(both)
            own = 4.0 * np.square(m[:, i]) * v[:, i] + 2.0 * np.square(v[:, i])
            variances[:, width:] = np.where(same, own, apart)
            means[:, width:] += np.where(same, v[:, i], 0.0)
        return means, variances

    def newest_rows(self, inputs: Array, before: Array | None = None) -> Array:
        """Return the ``lags`` newest rows after ``inputs``: the ``before`` of the next rows.

        Parameters
        ----------
        inputs : ndarray of shape (…, T, d)
            Rows.
        before : ndarray of shape (…, lags, d), optional
            Rows before the first one.

        Returns
        -------
        ndarray of shape (…, lags, d)
        """
        both = self._with_past(inputs, before)
        return both[..., both.shape[-2] - self.lags :, :].copy()

    def memory_features(self, b: Array, n_inputs: int) -> Array:
        """Return [earlier rows, units] of features: the memory of a sequence at its next row.

        Parameters
        ----------
        b : ndarray of shape (T, p)
            Features.
        n_inputs : int
            Number of entries of a row, d.

        Returns
        -------
        ndarray of shape (T, E + N)
        """
        first, earlier = 1 + n_inputs, self.n_earlier(n_inputs)
        units = self.size(n_inputs, 0)
        return np.hstack([b[:, first : first + earlier], b[:, units:]]) if earlier else b[:, units:]

    def set_known_rows(self, mean: Array, root: Array, rows: Array) -> tuple[Array, Array]:
        """Set the earlier rows to known values in mean and root of [earlier rows, units].

        Parameters
        ----------
        mean : ndarray of shape (…, E + N)
            Mean of [earlier rows, units].
        root : ndarray of shape (…, r, E + N)
            Root of the covariance of [earlier rows, units].
        rows : ndarray of shape (…, l, d)
            Known rows, the newest last.

        Returns
        -------
        tuple of ndarray
            Mean and root with the known rows, which have no variance.
        """
        known = min(rows.shape[-2] - 1, self.lags)
        if known < 1:
            return mean, root
        d, (mean, root) = rows.shape[-1], (mean.copy(), root.copy())
        mean[..., : known * d] = rows[..., -2 : -2 - known : -1, :].reshape(*rows.shape[:-2], known * d)
        root[..., : known * d] = 0.0
        return mean, root

    def _with_past(self, inputs: Array, before: Array | None) -> Array:
        """Return rows with those before them."""
        if before is None:
            before = np.repeat(inputs[..., :1, :], self.lags, axis=-2)
        return np.concatenate([before, inputs], axis=-2)

    def _fill(self, result: Array, inputs: Array, before: Array | None) -> None:
        """Write the features of rows into ``result``."""
        n, d = inputs.shape[-2:]
        result[..., :d] = inputs
        if self.lags:
            both = self._with_past(inputs, before)
            for lag in range(1, self.lags + 1):
                result[..., lag * d : (lag + 1) * d] = both[..., self.lags - lag : self.lags - lag + n, :]
        if self.products:
            n, at = self.products * d, d + self.lags * d
            for i in range(n):  # entry i times itself and all later ones, in the order of _pairs
                np.multiply(result[..., i : i + 1], result[..., i:n], out=result[..., at : at + n - i])
                at += n - i

    # ---------------------------------------------------------------- a Gaussian state

    def moves(self, layout: Layout, differences: bool = False, kept: Places | None = None) -> Moves:
        """Return the same map on a state x whose ``layout`` has the blocks "inputs", "earlier", "squares" and "units".

        Parameters
        ----------
        layout : Layout
            Layout of x; with a block "y", a row is [y, inputs], with a block "encoded" between them if there is one.
        differences : bool, default=False
            Whether to use squares of sums and of differences, for states without covariances, in which (z_i + z_j)² and z_i²
            would count as independent.
        kept : ndarray of int, optional
            Entries of y that a row has; None: all.

        Returns
        -------
        Moves
        """
        return Moves(self, layout, differences, kept)


@dataclass(frozen=True, eq=False)
class Moves:
    """Map from a state x (n,) to the features: see :meth:`Features.moves`."""

    features: Features
    layout: Layout
    differences: bool
    kept: Places | None = None

    @cached_property
    def row(self) -> Places:
        """Indices of the row z in x, (d,)."""
        y, encoded, inputs = (_places(self.layout, name) for name in ("y", "encoded", "inputs"))
        return np.concatenate([y if self.kept is None else y[self.kept], encoded, inputs])

    @cached_property
    def _blocks(self) -> tuple[slice, slice, slice, slice]:
        """Slices of the row, earlier rows, products and units in b without the constant."""
        d, f = len(self.row), self.features
        ends = np.cumsum([0, d, f.n_earlier(d), f.n_products(d), len(_places(self.layout, "units"))]).tolist()
        first, second, third, last = (slice(*both) for both in pairwise(ends))
        return first, second, third, last

    @cached_property
    def shift(self) -> Array:
        """Matrix K of x[earlier] ← K x: the row becomes the newest of the earlier rows, and each of them moves on by one."""
        d, earlier = len(self.row), _places(self.layout, "earlier")
        source = np.concatenate([self.row, earlier])[: len(earlier)]
        assert len(earlier) == self.features.n_earlier(d)
        K = np.zeros((len(earlier), self.layout.size))
        K[np.arange(len(earlier)), source] = 1.0
        return K

    @property
    def squared(self) -> Places:
        """Indices of the entries of x whose products are features."""
        return np.concatenate([self.row, _places(self.layout, "earlier")])[: self.features.products * len(self.row)]

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Cell that computes the squares, which are 0 before; empty without products."""
        rows = self.layout.blocks.get("squares", slice(0, 0))
        if rows.stop == rows.start:
            return ()
        entries = self.squared
        i, j = _pairs(self.features.products * len(self.row))
        sums = _pair_sums(i, j, np.where(i == j, 0.0, 1.0), entries, self.layout.size)
        if self.differences:
            apart = i != j
            less = _pair_sums(i[apart], j[apart], np.full(apart.sum(), -1.0), entries, self.layout.size)
            sums = sparse.vstack([sums, less], format="csr")
        return (Cell(rows, sums, np.zeros(rows.stop - rows.start), 1.0, SquareMoments()),)

    @cached_property
    def combination(self) -> Array:
        """Matrix M (products, squares): the products are M times the squares."""
        n = self.features.products * len(self.row)
        i, j = _pairs(n)
        count, apart = len(i), np.flatnonzero(i != j)
        M = np.zeros((count, self.features.n_squares(len(self.row), self.differences)))
        same = np.flatnonzero(i == j)  # index of the square of each entry
        M[same, same] = 1.0
        if self.differences:
            M[apart, apart], M[apart, count + np.arange(len(apart))] = 0.25, -0.25
        else:
            M[apart, apart], M[apart, same[i[apart]]], M[apart, same[j[apart]]] = 0.5, -0.5, -0.5
        return M

    def weights(self, W: Array) -> Array:
        """Convert weights (…, m, p) of the features to weights (…, m, n) of x; those of the constant, W[…, 0], are left out."""
        row, earlier, products, units = self._blocks
        result, rest = np.zeros((*W.shape[:-1], self.layout.size)), W[..., 1:]
        result[..., self.row] = rest[..., row]
        result[..., _places(self.layout, "earlier")] = rest[..., earlier]
        result[..., _places(self.layout, "units")] = rest[..., units]
        if self.features.products:
            result[..., self.layout["squares"]] = rest[..., products] @ self.combination
        return result

    def means(self, x: Array) -> Array:
        """Compute E[b] (…, p) of states with mean x (…, n)."""
        parts = [np.ones((*x.shape[:-1], 1)), x[..., self.row], x[..., _places(self.layout, "earlier")]]
        if self.features.products:
            parts.append(x[..., self.layout["squares"]] @ self.combination.T)
        return np.concatenate([*parts, x[..., self.layout["units"]]], axis=-1)


@lru_cache(maxsize=64)
def _pairs(n: int) -> tuple[Places, Places]:
    """Return i ≤ j of all pairs of n entries."""
    i, j = np.triu_indices(n)
    i.setflags(write=False)
    j.setflags(write=False)
    return i, j


def pair_places(i: Places, j: Places, n: int) -> Places:
    """Return the index of the product of entries i and j among the products of all pairs of n entries.

    >>> pair_places(np.array([0, 1, 2]), np.array([1, 1, 1]), 3)         # of 00 01 02 11 12 22
    array([1, 3, 4])
    """
    low, high = np.minimum(i, j), np.maximum(i, j)
    return np.asarray(low * n - low * (low - 1) // 2 + high - low, np.intp)


def _places(layout: Layout, name: str) -> Places:
    """Return the indices of a block."""
    block = layout.blocks.get(name, slice(0, 0))
    return np.arange(block.start, block.stop)


def _pair_sums(i: Places, j: Places, sign: Array, entries: Places, size: int) -> sparse.csr_array:
    """Return x[entries[i]] + sign · x[entries[j]] as a sparse matrix."""
    at = np.arange(len(i))
    ones = sparse.csr_array((np.ones(len(i)), (at, entries[i])), shape=(len(i), size))
    return sparse.csr_array(ones + sparse.csr_array((sign, (at, entries[j])), shape=(len(i), size)))
