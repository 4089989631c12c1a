"""What the readout sees of a row: the row itself, rows before it, products of their entries, and the units.

b_k = [1, z_k, z_{k−1}, …, z_{k−lags}, products, h_k]. The same map twice: on rows of numbers, for the regression
(:meth:`Features.__call__`), and as moves of a Gaussian state, for everything that carries uncertainty (:meth:`Features.moves`).

Earlier rows are a shift register in what is carried: affine, exact. Products are squares, which a cell moves:
z_i z_j = ((z_i + z_j)² − z_i² − z_j²)/2, as many squares as there are products; squares of jointly Gaussian entries have mean and
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
    """The features of a readout: [1, row, earlier rows, products, units].

    Parameters
    ----------
    lags
        How many earlier rows are among the features. The first ``lags`` rows of a sequence have no past, and are not learnt from.
    products
        The newest rows whose entries are multiplied, any two with each other and each with itself: 0, no products; 1, those of
        the row itself; 2, of the row and the one before it, for which ``lags`` must be 1 or more.
    states
        Whether the units are among the features. Without them there is no reservoir: a linear or quadratic autoregression.

    Raises
    ------
    TypeError, ValueError
        Where one of them is not such a number.

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
        for name, kind in (("lags", int), ("products", int), ("states", bool)):  # a search over arrays sets NumPy's
            object.__setattr__(self, name, kind(getattr(self, name)))
        if self.products > 2:
            raise ValueError(f"products must be 0, 1 or 2, got {self.products!r}")
        if self.products > self.lags + 1:
            raise ValueError(
                f"products must not exceed lags + 1, the rows that are there, got products={self.products} and lags={self.lags}"
            )

    def check(self, name: str, n_units: int) -> None:
        """A ValueError unless it is whole, and of a network of as many units: one that came from a file was not made here.

        Parameters
        ----------
        name
            What an error calls it.
        n_units
            Of the network.
        """
        check_remade(name, self)
        if self.states != (n_units > 0):
            raise ValueError(f"{name} is {self!r}, of a network of {n_units} units")

    # ---------------------------------------------------------------- how many

    def n_earlier(self, n_inputs: int) -> int:
        """Entries of the earlier rows."""
        return int(self.lags * n_inputs)

    def n_linear(self, n_inputs: int) -> int:
        """The constant, the row and earlier rows: the first features, under the first penalty of a pair."""
        return 1 + n_inputs + self.n_earlier(n_inputs)

    def n_products(self, n_inputs: int) -> int:
        """Products of entries."""
        n = self.products * n_inputs
        return int(n * (n + 1) // 2)

    def n_squares(self, n_inputs: int, differences: bool = False) -> int:
        """Squares that the products are made of, as :meth:`moves` has them.

        Parameters
        ----------
        n_inputs
            d, entries of a row.
        differences
            As in :meth:`moves`.

        Returns
        -------
        int
        """
        n = self.products * n_inputs
        return int(n * n if differences else n * (n + 1) // 2)

    def size(self, n_inputs: int, n_units: int) -> int:
        """p, the length of b.

        Parameters
        ----------
        n_inputs, n_units
            d and N.

        Returns
        -------
        int
        """
        return 1 + n_inputs + self.n_earlier(n_inputs) + self.n_products(n_inputs) + n_units

    def penalty(self, ridge: RidgeValue, n_inputs: int, n_units: int) -> float | Array:
        """What a ridge means for each of the features.

        Parameters
        ----------
        ridge
            One penalty, or a pair: on rows as they are, earlier ones too, and on all other features.
        n_inputs, n_units
            Entries of a row, and units.

        Returns
        -------
        float | Array
            The penalty on all features, or, of a pair, on each of them, (p,).
        """
        if not isinstance(ridge, tuple):
            return ridge
        result = np.full(self.size(n_inputs, n_units), ridge[1])
        result[: self.n_linear(n_inputs)] = ridge[0]
        return result

    # ---------------------------------------------------------------- rows of numbers

    def __call__(self, inputs: Array, states: Array | None = None, before: Array | None = None) -> Array:
        """The features (…, T, p) of rows (…, T, d) with their units (…, T, N), None: without.

        ``before`` (…, lags, d) are the rows before the first one, None: none are known, and the first one stands for them.
        """
        *batch, n, d = inputs.shape
        units = np.empty((*batch, n, 0)) if states is None else states
        result = np.empty((*batch, n, self.size(d, units.shape[-1])))
        width = result.shape[-1] - units.shape[-1]
        result[..., 0], result[..., width:] = 1.0, units
        self._fill(result[..., 1:width], inputs, before)
        return result

    def rows(self, inputs: Array, before: Array | None = None) -> Array:
        """The features that are made of rows alone, (…, T, w): b without the constant and the units.

        Parameters
        ----------
        inputs
            Rows (…, T, d).
        before
            The rows before the first one, (…, lags, d); None: the first one stands for them.

        Returns
        -------
        array
            (…, T, w).
        """
        if not self.lags and not self.products:
            return inputs
        result = np.empty((*inputs.shape[:-1], self.size(inputs.shape[-1], 0) - 1))
        self._fill(result, inputs, before)
        return result

    def row_moments(self, mean: Array, var: Array, before: Array | None, before_var: Array | None) -> tuple[Array, Array]:
        """Means and variances (T, w) of :meth:`rows`, the entries taken as independent of each other, as the diagonal form does.

        The two squares that make up a product are then independent as well, which is exact where its factors have the same
        variance: Var(z_i z_j) = (m_i² + m_j²)(v_i + v_j)/2 + (v_i + v_j)²/4.

        Parameters
        ----------
        mean, var
            Of the rows, (T, d).
        before, before_var
            Of the rows before the first one, (lags, d), or None.

        Returns
        -------
        means, variances
            (T, w).
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

    def after(self, inputs: Array, before: Array | None = None) -> Array:
        """The ``lags`` newest rows (…, lags, d) once ``inputs`` (…, T, d) have come: what is ``before`` the next ones.

        Parameters
        ----------
        inputs
            Rows (…, T, d).
        before
            The rows before the first one, (…, lags, d), or None.

        Returns
        -------
        array
            (…, lags, d).
        """
        both = self._with_past(inputs, before)
        return both[..., both.shape[-2] - self.lags :, :].copy()

    def remembered(self, b: Array, n_inputs: int) -> Array:
        """[earlier rows, units] (T, E + N) of features b (T, p): what a sequence leaves behind for its next row.

        Parameters
        ----------
        b
            Features (T, p).
        n_inputs
            d.

        Returns
        -------
        array
            (T, E + N).
        """
        first, earlier = 1 + n_inputs, self.n_earlier(n_inputs)
        units = self.size(n_inputs, 0)
        return np.hstack([b[:, first : first + earlier], b[:, units:]]) if earlier else b[:, units:]

    def with_known(self, mean: Array, root: Array, rows: Array) -> tuple[Array, Array]:
        """Mean (…, E + N) and root (…, r, E + N) of [earlier rows, units]; ``rows`` (…, l, d), the newest last, are known.

        Parameters
        ----------
        mean, root
            Of [earlier rows, units], (…, E + N) and (…, r, E + N).
        rows
            What is known, (…, l, d), the newest last.

        Returns
        -------
        mean, root
            With the earlier rows as they are known, without variance.
        """
        known = min(rows.shape[-2] - 1, self.lags)
        if known < 1:
            return mean, root
        d, (mean, root) = rows.shape[-1], (mean.copy(), root.copy())
        mean[..., : known * d] = rows[..., -2 : -2 - known : -1, :].reshape(*rows.shape[:-2], known * d)
        root[..., : known * d] = 0.0
        return mean, root

    def _with_past(self, inputs: Array, before: Array | None) -> Array:
        if before is None:
            before = np.repeat(inputs[..., :1, :], self.lags, axis=-2)
        return np.concatenate([before, inputs], axis=-2)

    def _fill(self, result: Array, inputs: Array, before: Array | None) -> None:
        n, d = inputs.shape[-2:]
        result[..., :d] = inputs
        if self.lags:
            both = self._with_past(inputs, before)
            for lag in range(1, self.lags + 1):
                result[..., lag * d : (lag + 1) * d] = both[..., self.lags - lag : self.lags - lag + n, :]
        if self.products:
            n, at = self.products * d, d + self.lags * d
            for i in range(n):  # entry i with itself and all after it, as _pairs has them
                np.multiply(result[..., i : i + 1], result[..., i:n], out=result[..., at : at + n - i])
                at += n - i

    # ---------------------------------------------------------------- a Gaussian state

    def moves(self, layout: Layout, differences: bool = False, kept: Places | None = None) -> Moves:
        """The same map on a state x whose ``layout`` has the blocks "inputs", "earlier", "squares" and "units".

        Parameters
        ----------
        layout
            Of x; where it has a block "y", a row is [y, inputs], with a block "encoded" between them where there is one.
        differences
            Squares of sums and of differences, more of them, for states that know no covariances, where (z_i + z_j)² and z_i²
            would pass for independent.
        kept
            The entries of y that a row has; None: all.

        Returns
        -------
        Moves
        """
        return Moves(self, layout, differences, kept)


@dataclass(frozen=True, eq=False)
class Moves:
    """How a state x (n,) comes to hold the features, and how they are read from it: see :meth:`Features.moves`."""

    features: Features
    layout: Layout
    differences: bool
    kept: Places | None = None

    @cached_property
    def row(self) -> Places:
        """Where the row z is in x, (d,)."""
        y, encoded, inputs = (_places(self.layout, name) for name in ("y", "encoded", "inputs"))
        return np.concatenate([y if self.kept is None else y[self.kept], encoded, inputs])

    @cached_property
    def _blocks(self) -> tuple[slice, slice, slice, slice]:
        """Of b without the constant: the row, earlier rows, products, units."""
        d, f = len(self.row), self.features
        ends = np.cumsum([0, d, f.n_earlier(d), f.n_products(d), len(_places(self.layout, "units"))]).tolist()
        first, second, third, last = (slice(*both) for both in pairwise(ends))
        return first, second, third, last

    @cached_property
    def shift(self) -> Array:
        """K of x[earlier] ← K x: the newest of the earlier rows becomes the row, each older one the one before it."""
        d, earlier = len(self.row), _places(self.layout, "earlier")
        source = np.concatenate([self.row, earlier])[: len(earlier)]
        assert len(earlier) == self.features.n_earlier(d)
        K = np.zeros((len(earlier), self.layout.size))
        K[np.arange(len(earlier)), source] = 1.0
        return K

    @property
    def squared(self) -> Places:
        """Where the entries are in x whose products are features."""
        return np.concatenate([self.row, _places(self.layout, "earlier")])[: self.features.products * len(self.row)]

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The cell that moves the squares, which it takes to be 0 before; none where there are no products."""
        rows = self.layout.blocks.get("squares", slice(0, 0))
        if rows.stop == rows.start:
            return ()
        entries = self.squared
        i, j = _pairs(self.features.products * len(self.row))
        sums = _rows_of(i, j, np.where(i == j, 0.0, 1.0), entries, self.layout.size)
        if self.differences:
            apart = i != j
            less = _rows_of(i[apart], j[apart], np.full(apart.sum(), -1.0), entries, self.layout.size)
            sums = sparse.vstack([sums, less], format="csr")
        return (Cell(rows, sums, np.zeros(rows.stop - rows.start), 1.0, SquareMoments()),)

    @cached_property
    def combination(self) -> Array:
        """M (products, squares): the products are M times the squares."""
        n = self.features.products * len(self.row)
        i, j = _pairs(n)
        count, apart = len(i), np.flatnonzero(i != j)
        M = np.zeros((count, self.features.n_squares(len(self.row), self.differences)))
        same = np.flatnonzero(i == j)  # where the square of each entry is
        M[same, same] = 1.0
        if self.differences:
            M[apart, apart], M[apart, count + np.arange(len(apart))] = 0.25, -0.25
        else:
            M[apart, apart], M[apart, same[i[apart]]], M[apart, same[j[apart]]] = 0.5, -0.5, -0.5
        return M

    def weights(self, W: Array) -> Array:
        """Weights (…, m, p) of the features as weights (…, m, n) of x; the constant's, W[…, 0], are apart."""
        row, earlier, products, units = self._blocks
        result, rest = np.zeros((*W.shape[:-1], self.layout.size)), W[..., 1:]
        result[..., self.row] = rest[..., row]
        result[..., _places(self.layout, "earlier")] = rest[..., earlier]
        result[..., _places(self.layout, "units")] = rest[..., units]
        if self.features.products:
            result[..., self.layout["squares"]] = rest[..., products] @ self.combination
        return result

    def means(self, x: Array) -> Array:
        """E[b] (…, p) of states of mean x (…, n)."""
        parts = [np.ones((*x.shape[:-1], 1)), x[..., self.row], x[..., _places(self.layout, "earlier")]]
        if self.features.products:
            parts.append(x[..., self.layout["squares"]] @ self.combination.T)
        return np.concatenate([*parts, x[..., self.layout["units"]]], axis=-1)


@lru_cache(maxsize=64)
def _pairs(n: int) -> tuple[Places, Places]:
    """i ≤ j of any two of n entries."""
    i, j = np.triu_indices(n)
    i.setflags(write=False)
    j.setflags(write=False)
    return i, j


def pair_places(i: Places, j: Places, n: int) -> Places:
    """Where the product of entries i and j stands among the products of any two of n entries.

    >>> pair_places(np.array([0, 1, 2]), np.array([1, 1, 1]), 3)         # of 00 01 02 11 12 22
    array([1, 3, 4])
    """
    low, high = np.minimum(i, j), np.maximum(i, j)
    return np.asarray(low * n - low * (low - 1) // 2 + high - low, np.intp)


def _places(layout: Layout, name: str) -> Places:
    block = layout.blocks.get(name, slice(0, 0))
    return np.arange(block.start, block.stop)


def _rows_of(i: Places, j: Places, sign: Array, entries: Places, size: int) -> sparse.csr_array:
    """x[entries[i]] + sign · x[entries[j]] as a sparse matrix."""
    at = np.arange(len(i))
    ones = sparse.csr_array((np.ones(len(i)), (at, entries[i])), shape=(len(i), size))
    return sparse.csr_array(ones + sparse.csr_array((sign, (at, entries[j])), shape=(len(i), size)))
