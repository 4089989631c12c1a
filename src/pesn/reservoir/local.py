"""Local reservoirs of a field: one small reservoir a patch, the same in all of them, as one reservoir of all units.

W of all units is block-diagonal, one block repeated; W_in is 0 outside of each patch's window. So everything that drives a
reservoir or carries its covariance serves fields as it is.

>>> import numpy as np
>>> from pesn.readout.groups import Patches
>>> from pesn.reservoir.weights import draw
>>> small = draw(10, 4, 2, rng=0)
>>> field = repeat(small, Patches(2, overlap=1), n_inputs=6, n_outputs=6)
>>> field.n_units, bool((field.W_in[10:20, 1:5] == small.W_in).all()), int(np.count_nonzero(field.W_in[10:20]))
(30, True, 40)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from pesn._support.records import check_arrays
from pesn._support.types import Array
from pesn.linalg import root_of
from pesn.readout.features import Features
from pesn.readout.groups import Patches
from pesn.reservoir.initial_state import Start, learn
from pesn.reservoir.weights import Reservoir

__all__ = ["LocalStart", "learn_start", "repeat"]

Places = npt.NDArray[np.intp]
_COLUMNS = 512  # of a root over all units, shared out among the patches; as many as units where they are fewer


def repeat(small: Reservoir, patches: Patches, n_inputs: int, n_outputs: int) -> Reservoir:
    """The reservoir of all patches, each with the units of ``small``.

    Parameters
    ----------
    small
        Of a patch: its inputs are the window and the known inputs, its outputs the patch's own columns.
    patches
        Of the field.
    n_inputs, n_outputs
        Columns of X and of y.

    Returns
    -------
    Reservoir
        Of G times as many units, patch after patch.
    """
    if len(small.layers) > 1 or small.rotation is not None:
        raise ValueError("local goes with one layer of leaky units, got layers, or units whose memory is a rotation")
    windows, n = patches.windows(n_outputs, n_inputs), small.n_units
    G = len(windows)
    W_in, W_fb = np.zeros((G * n, n_inputs)), np.zeros((G * n, n_outputs))
    for g, window in enumerate(windows):
        units, there = slice(g * n, (g + 1) * n), window >= 0
        W_in[units, window[there]] = small.W_in[:, there]
        W_fb[units, g * patches.size : (g + 1) * patches.size] = small.W_fb
    ends = small.indptr.astype(np.int64)
    indptr = np.concatenate([ends[:1], *(ends[1:] + g * ends[-1] for g in range(G))])
    indices = np.concatenate([small.indices.astype(np.int64) + g * n for g in range(G)])
    return small._replace(
        indptr=indptr.astype(np.uint32),
        indices=indices.astype(np.uint32),
        data=np.tile(small.data, G),
        W_in=W_in,
        W_fb=W_fb,
        bias=np.tile(small.bias, G),
        leak_rate=small.leak_rate if np.ndim(small.leak_rate) == 0 else np.tile(small.leak_rate, G),
    )


class LocalStart(NamedTuple):
    """What a training run says about the units of all patches: of each, what it says about those behind one window.

    ``own``: the start of a patch, from the rows of all of them. ``windows`` (G, w): the columns of an input row that each patch
    sees, −1 for 0. ``earlier``: rows that the state holds before the units. ``mean`` (d,) and ``root`` (d, d) of an input
    row, cov = root rootᵀ. What is left open in the units of two patches passes for independent, given the row.

    It answers as :class:`Start` does. A root has at most 512 rows: of each patch its widest directions.
    """

    own: Start
    windows: Places
    earlier: int
    mean: Array
    root: Array

    def check(self, name: str, n_inputs: int, n_states: int) -> None:
        """A ValueError unless it is about the states of such a network."""
        windows, d = self.windows, n_inputs
        if not isinstance(windows, np.ndarray) or windows.dtype != np.intp or windows.ndim != 2 or not windows.size:
            raise ValueError(f"{name}.windows are not places")
        if windows.min() < -1 or windows.max() >= d or type(self.earlier) is not int or self.earlier < 0:
            raise ValueError(f"{name}.windows are beyond the {d} inputs")
        G, w = windows.shape
        each, rest = divmod(n_states - self.earlier * d, G)
        if rest or each < 0:
            raise ValueError(f"{name} does not fit to its reservoir")
        self.own.check(f"{name}.own", w, self.earlier * w + each)
        check_arrays(name, {"mean": (self.mean, (d,)), "root": (self.root, (d, d))})

    @property
    def n_inputs(self) -> int:
        """d, the length of an input row."""
        return len(self.mean)

    @property
    def n_states(self) -> int:
        """E + N, entries of earlier rows and units of all patches."""
        G, w = self.windows.shape
        return self.earlier * self.n_inputs + G * (self.own.n_states - self.earlier * w)

    @property
    def lags(self) -> int:
        """The most rows that are made use of."""
        return self.own.lags

    def given(self, z: npt.ArrayLike) -> tuple[Array, Array]:
        """Mean (…, E + N) and root (…, r, E + N) of the state that has just taken in the last row of ``z`` (…, l, d)."""
        rows = _seen(np.asarray(z, float), self.windows)  # (…, l, G, w)
        mean, root = self.own.given(np.moveaxis(rows, -2, -3))  # (…, G, n), (…, G, r, n)
        return self._laid_out(mean), self._roots(root)

    def stationary(self) -> tuple[Array, Array]:
        """Mean (E + N,) and root (r, E + N) of the state at a row picked at random."""
        return self.given(np.empty((0, self.n_inputs)))

    def joint(self) -> tuple[Array, Array]:
        """Mean (d + E + N,) and root (r, d + E + N) of an input row stacked on the state: by a line through the row's window."""
        own, d = self.own, self.n_inputs
        F, f = own.n_features, 1 + own.n_inputs
        slopes = solve_triangular(own.root[:f, :f], own.root[:f, F:])[1:]
        scale = np.divide(1.0, own.spread, out=np.zeros_like(own.spread), where=own.spread > 0.0)
        by_row = self._scattered((slopes * scale[:, None]).T)  # (E + N, d)
        mean = self._laid_out(np.broadcast_to(own.stationary()[0], (len(self.windows), own.n_states)))
        rest = own.root[f:, F:] / math.sqrt(max(own.n_samples - f, 1))
        left = self._roots(np.broadcast_to(rest, (len(self.windows), *rest.shape)))
        root = np.vstack([np.hstack([self.root.T, self.root.T @ by_row.T]), np.pad(left, ((0, 0), (d, 0)))])
        return np.concatenate([self.mean, mean]), root

    def slope(self, z: Array) -> Array:
        """The derivative (…, E + N, d) of the mean of :meth:`given` by the one row z (…, d) that it is given."""
        return self._scattered(self.own.slope(_seen(z, self.windows)))

    def given_gaussian(self, mean: Array, root: Array) -> tuple[Array, Array]:
        """Mean (E + N,) of the state after one row z ~ N(mean, root rootᵀ), ``root`` (d, q); and a root (d + E + N, r) of both.

        As :meth:`Start.given_gaussian` in each patch, all of them with the same z.
        """
        q = root.shape[1]
        shared = q + q * (q + 1) // 2  # columns that all patches have in common: of the row, and of its products
        means, by_row, rest = [], [], []
        for window, padded in zip(self.windows, _seen(root.T, self.windows).swapaxes(0, 1), strict=True):
            state, both = self.own.given_gaussian(_seen(mean, window), padded.T)
            means.append(state)
            by_row.append(both[len(window) :, :shared].T)
            rest.append(both[len(window) :, shared:].T)
        common = self._laid_out(np.moveaxis(np.stack(by_row), 0, 1))  # (shared, E + N)
        left = self._roots(np.stack(rest))
        top = np.pad(root, ((0, 0), (0, shared - q + len(left))))
        return self._laid_out(np.stack(means)), np.vstack([top, np.vstack([common, left]).T])

    # ---------------------------------------------------------------- from patches to the field

    @property
    def _owned(self) -> tuple[Places, Places, Places]:
        """For each entry of the state: the patch that says what it is, and which entry it is of that patch's own state."""
        G, w = self.windows.shape
        d, n = self.n_inputs, self.own.n_states - self.earlier * w
        first = np.abs(np.arange(w) - (w - 1) / 2)  # the middle of a window is its own
        patch, place = np.zeros(d, np.intp), np.zeros(d, np.intp)
        for k in np.argsort(-first, kind="stable"):
            there = self.windows[:, k] >= 0
            patch[self.windows[there, k]], place[self.windows[there, k]] = np.flatnonzero(there), k
        rows = np.arange(self.earlier)[:, None] * w
        patches = np.concatenate([np.tile(patch, self.earlier), np.repeat(np.arange(G), n)])
        places = np.concatenate([(rows + place).ravel(), self.earlier * w + np.tile(np.arange(n), G)])
        return patches.astype(np.intp), places.astype(np.intp), np.arange(len(patches))

    def _laid_out(self, states: Array) -> Array:
        """(…, E + N) from what each patch says, (…, G, n)."""
        patches, places, _ = self._owned
        return np.asarray(states[..., patches, places])

    def _roots(self, roots: Array) -> Array:
        """(…, r, E + N) from roots (…, G, r, n) of each patch, independent of each other: multiples of one, by their leverage."""
        patches, places, entries = self._owned
        G, (r, n) = len(self.windows), roots.shape[-2:]
        if not roots.size:  # no units, or nothing is open
            return np.zeros((*roots.shape[:-3], 0, len(entries)))
        base, size = roots.reshape(-1, r, n)[0], np.sqrt(np.sum(np.square(roots), axis=(-2, -1)))
        widths = size / (size.flat[0] or 1.0)
        if r > (most := max(_COLUMNS // G, 1)):
            _, s, vt = np.linalg.svd(base, full_matrices=False)
            base = s[:most, None] * vt[:most]
        result = np.zeros((*widths.shape, len(base), len(entries)))
        for g in range(G):
            mine = patches == g
            result[..., g, :, mine] = np.moveaxis(widths[..., g, None, None] * base[:, places[mine]], -1, 0)
        return result.reshape(*widths.shape[:-1], G * len(base), len(entries))

    def _scattered(self, slopes: Array) -> Array:
        """(…, E + N, d) from the derivatives (…, [G,] n, w) of a patch's state by its window."""
        patches, places, entries = self._owned
        slopes = np.broadcast_to(slopes, (*slopes.shape[:-3], len(self.windows), *slopes.shape[-2:]))
        own, window = slopes[..., patches, places, :], self.windows[patches]  # (…, E + N, w)
        result = np.zeros((*own.shape[:-1], self.n_inputs + 1))
        result[..., entries[:, None], window] = own  # beyond the border: the last column
        return result[..., :-1]


def learn_start(
    rows: Iterable[tuple[Array, Array, int]], patches: Patches | None, features: Features, n_outputs: int
) -> Start | LocalStart:
    """Learn from sequences where units stand after what they were given: all of them, or those of patches.

    Parameters
    ----------
    rows
        Of each piece of a sequence ``(z, h, skip)``, as :func:`pesn.reservoir.initial_state.learn` takes them, h of
        [earlier rows, units] of all patches.
    patches, features
        Of the network; None: there are no patches.
    n_outputs
        Columns of the field.

    Returns
    -------
    Start | LocalStart
        From all patches as one: n rows of a field of G patches are G n rows of its regression.
    """
    if patches is None:
        return learn(rows)
    pieces = list(rows)
    d = pieces[0][0].shape[1]
    windows = patches.windows(n_outputs, d)
    G, E = len(windows), features.n_earlier(d)
    small = []
    for z, h, skip in pieces:
        seen = _seen(z, windows)
        earlier = _seen(h[:, :E].reshape(len(h), features.lags, d), windows)  # (T, lags, G, w)
        units = h[:, E:].reshape(len(h), G, -1)
        for g in range(G):
            small.append((seen[:, g], np.hstack([earlier[:, :, g].reshape(len(h), -1), units[:, g]]), skip))
    learnt = np.vstack([z[skip:] for z, _, skip in pieces])
    mean = learnt.mean(axis=0)
    cov = (learnt - mean).T @ (learnt - mean) / max(len(learnt) - 1, 1)
    return LocalStart(learn(small), windows, features.lags, mean, root_of(cov))


def _seen(z: Array, windows: Places) -> Array:
    """What windows (…) show of rows z (…, d): 0 beyond the border."""
    found = z[..., windows]
    if (windows < 0).any():
        found[..., windows < 0] = 0.0
    return np.asarray(found)
