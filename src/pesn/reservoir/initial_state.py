"""Initial states of a reservoir: learned from the first inputs, stationary, zero, or kept by the user from an earlier call.

>>> import numpy as np
>>> from pesn.reservoir.drive import run
>>> from pesn.reservoir.weights import draw
>>> inputs = np.sin(0.3 * np.arange(2000))[:, None] + 0.1 * np.random.default_rng(0).normal(size=(2000, 1))
>>> states, _, _ = run(draw(20, n_inputs=1, n_outputs=1, rng=0), inputs)
>>> start = learn([(inputs[:1500], states[:1500], 100)])
>>> errors = [np.abs(states[1800] - start.predict(inputs[1801 - rows : 1801])[0]).max() for rows in (0, 1, 3)]
>>> bool(errors[0] > errors[1] > errors[2])
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from pesn._support.arguments import as_real
from pesn._support.records import check_arrays, check_counts
from pesn._support.types import AnyArray, Array, FloatArray
from pesn.gaussian import Gaussian
from pesn.linalg import factor_covariance, outer
from pesn.readout.features import Features
from pesn.readout.groups import Patches
from pesn.reservoir.drive import State
from pesn.statespace.ensemble import Ensemble
from pesn.statespace.low_rank import LowRank
from pesn.statespace.state import Dense, Diagonal, GaussianState

if TYPE_CHECKING:
    from pesn.reservoir.open_loop import OpenLoop

_RIDGE = 1e-6  # relative to each feature's sum of squares
MOST_LAGS, MOST_FEATURES = 7, 600
_ROWS_PER_COLUMN = 6  # samples of the regression; more hardly change it
_SHARE = 4  # samples for each feature, at least
_BLOCK = 4  # samples for each column in one QR factorization
_PAIRS, _MOST_PERSISTENT = 300, 0.99  # pairs of rows for the autocorrelation of residuals, and its largest value
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


class Start(NamedTuple):
    """Distribution of the state h (N) given the last inputs z (d), learned by :func:`learn`.

    ``root`` (F + N, F + N) is the triangular factor R of [Φ H], F features beside N states in each of ``n_samples`` samples,
    with a ridge row under each feature but the constant. Features are made of (z − ``center``)/``spread``, so that |·| ≤ 1 in
    training; a constant input has a spread of 0 and is ignored. ``low`` and ``high`` (F + N,) are the range of each feature and
    state in training. ``lags`` is the largest number of rows used. ``persistence`` (lags,): for 1, 2, … rows, the lag-1
    correlation of the residuals times that of the features.

    The ridge is 1e-6 of each feature's sum of squares. It adds that share to the variances of z in :meth:`joint`, nothing to
    :meth:`stationary`, and its penalty to the covariance of :meth:`given`, which is never below that of the residuals.
    """

    root: Array
    center: Array
    spread: Array
    low: Array
    high: Array
    n_states: int
    lags: int
    n_samples: int
    persistence: Array = np.zeros(0)

    def check(self, name: str, n_inputs: int, n_states: int) -> None:
        """Raise a ValueError unless it is about the states of such a network."""
        d, n = n_inputs, n_states
        check_counts(name, {"lags": (self.lags, 0), "n_states": (self.n_states, n), "n_samples": (self.n_samples, 1)})
        F = np.size(self.low) - n  # features: with their products, or of one row without them
        if self.n_states != n or F not in (_n_features(d, self.lags), 1 + d) or 1 + d > F:
            raise ValueError(f"{name} does not fit to its reservoir")
        shapes = {"root": (F + n, F + n), "center": (d,), "spread": (d,), "low": (F + n,), "high": (F + n,)}
        check_arrays(name, {part: (getattr(self, part), shape) for part, shape in shapes.items()})
        if not (np.isfinite(2.0 * (self.high - self.low)) & (self.low <= self.high)).all():
            raise ValueError(f"{name}.low and {name}.high are not a range")
        if len(self.persistence):
            check_arrays(name, {"persistence": (self.persistence, (self.lags,))})
            if not ((self.persistence >= 0.0) & (self.persistence < 1.0)).all():
                raise ValueError(f"{name}.persistence is not between 0 and 1")
        if np.tril(self.root, -1).any() or not np.diagonal(self.root)[:F].all():
            raise ValueError(f"{name}.root is not a triangular factor")

    @property
    def n_inputs(self) -> int:
        """Length d of an input row."""
        return len(self.center)

    @property
    def n_features(self) -> int:
        """Number of features F, at least 1 + d."""
        return len(self.low) - self.n_states

    def _limits(self) -> tuple[Array, Array]:
        """Return the least and largest value of each feature and state: one width of its training range beyond that range."""
        width = self.high - self.low
        return self.low - width, self.high + width

    def _standardize(self, z: FloatArray) -> Array:
        """Standardize rows z (…, d), clipped at 3 (the training maximum is 1), so that no product overflows."""
        near = np.clip(z, self.center - 3.0 * self.spread, self.center + 3.0 * self.spread)
        return _standard(near, self.center, self.spread)

    def predict(self, z: npt.ArrayLike) -> tuple[Array, Array]:
        """Return mean (…, N) and root (…, r, N) of the state after the last row of ``z`` (…, l, d): cov = rootᵀ root.

        The last ``lags`` rows are used, or all if there are fewer; with none this is :meth:`stationary`. Each feature, and then
        each state's mean, is clipped one width of its training range beyond that range, since squares explode outside. The
        covariance is that of the training residuals times 1 + leverage. Features and residuals are autocorrelated: with ρ the
        product of their correlations, n samples count as n (1 − ρ)/(1 + ρ), and the leverage is larger by as much. The total
        variance is limited by the training ranges.

        >>> z = np.array([[-1.0], [0.0], [1.0], [2.0]] * 10)
        >>> mean, root = learn([(z, z * z, 0)], max_lags=1).predict([[2.0]])
        >>> mean.round(3), bool(root.T @ root < 1e-4)
        (array([4.]), True)
        """
        mean, weights, lags = self._regress(z)
        return mean, self._rest(weights.shape[-1], weights, lags)

    def predict_variances(self, z: npt.ArrayLike) -> tuple[Array, Array]:
        """Return mean and variances (…, N) of :meth:`given`, for many at once, without covariances.

        >>> z = np.array([[-1.0], [0.0], [1.0], [2.0]] * 10)
        >>> start = learn([(z, np.hstack([z, z**3]), 0)], max_lags=1)
        >>> bool(np.allclose(start.predict_variances([[2.0]])[1], np.square(start.predict([[2.0]])[1]).sum(axis=0)))
        True
        """
        mean, weights, lags = self._regress(z)
        f = weights.shape[-1]
        own = np.sum(np.square(self.root[f:, self.n_features :]), axis=0) / max(self.n_samples - f, 1)
        return mean, (1.0 + self._leverage(weights, lags))[..., None] * own

    def _leverage(self, weights: Array, lags: int) -> Array:
        """Return the leverage (…) of whitened features (…, f), 0 if it is not known."""
        inflation, most = self.leverage_limits(lags)
        return np.minimum(inflation * np.vecdot(weights, weights), most)

    def _regress(self, z: npt.ArrayLike) -> tuple[Array, Array, int]:
        """Return the mean (…, N) of :meth:`given`, its whitened features (…, f), and the number of rows used."""
        rows = as_real("z", z)
        if rows.ndim < 2 or rows.shape[-1] != self.n_inputs:
            raise ValueError(f"z must have shape (l, {self.n_inputs}), got {rows.shape}")
        *batch, count, _ = rows.shape
        lags = min(count, self.lags)
        F, f = self.n_features, min(self.n_features, _n_features(self.n_inputs, lags))
        recent = self._standardize(rows[..., count - lags :, :])[..., ::-1, :]
        features = _features(recent.reshape(math.prod(batch), lags * self.n_inputs), self.n_inputs, lags, f)
        low, high = self._limits()
        features = np.clip(features, low[:f], high[:f])
        weights = solve_triangular(self.root[:f, :f], features.T, trans="T").T
        mean = np.clip(weights @ self.root[:f, F:], low[F:], high[F:]).reshape(*batch, self.n_states)
        return mean, weights.reshape(*batch, f), lags

    def leverage_limits(self, lags: int) -> tuple[float, float]:
        """Return the inflation of the leverage of ``lags`` rows, and its upper limit; 0 if not known."""
        if not lags or not len(self.persistence):
            return 0.0, 0.0
        F, rho = self.n_features, float(self.persistence[lags - 1])
        f = min(F, _n_features(self.n_inputs, lags))
        width, own = (self.high - self.low)[F:], float(np.sum(np.square(self.root[f:, F:]))) / max(self.n_samples - f, 1)
        return (1.0 + rho) / (1.0 - rho), max(float(width @ width) / own - 1.0, 0.0) if own > 0.0 else 0.0

    def _rest(self, f: int, weights: Array, lags: int) -> Array:
        """Return a root (…, r, N) of the residual covariance of f features; ``weights`` (…, f): whitened features."""
        rest = self.root[f:, self.n_features :] / math.sqrt(max(self.n_samples - f, 1))
        if not self.leverage_limits(lags)[0]:
            return np.broadcast_to(rest, (*weights.shape[:-1], *rest.shape))
        if weights.ndim > 1 and len(rest) > self.n_states:  # many states: reduce the number of rows
            rest = np.asarray(np.linalg.qr(rest, mode="r"))
        return np.asarray(np.sqrt(1.0 + self._leverage(weights, lags))[..., None, None] * rest)

    def slope(self, z: Array) -> Array:
        """Return the derivative (…, N, d) of the mean of :meth:`given` by its one row z (…, d), 0 where it is clipped.

        >>> z = np.array([[-1.0], [0.0], [1.0], [2.0]] * 10)
        >>> learn([(z, z * z, 0)], max_lags=1).slope(np.array([2.0])).round(3)
        array([[4.]])
        """
        d, F = self.n_inputs, self.n_features
        lags = min(self.lags, 1)
        f = min(F, _n_features(d, lags))
        i, j = factors_of_features(d, lags, f)
        rows = z.reshape(math.prod(z.shape[:-1]), d)
        live = (np.abs(rows - self.center) <= 3.0 * self.spread) & (self.spread > 0.0)
        recent = self._standardize(rows)[:, : lags * d]
        both, slopes = np.concatenate([np.ones((len(rows), 1)), recent], axis=1), np.zeros((len(rows), f, d))
        for one, other in ((i, j), (j, i)):  # of a product of two entries
            (of,) = np.nonzero(one)
            slopes[:, of, one[of] - 1] += both[:, other[of]]
        slopes *= (live / np.where(self.spread > 0.0, self.spread, 1.0))[:, None]
        low, high = self._limits()
        features = _features(recent, d, lags, f)
        slopes *= ((features >= low[:f]) & (features <= high[:f]))[..., None]
        weights = solve_triangular(self.root[:f, :f], self.root[:f, F:])
        states = np.clip(features, low[:f], high[:f]) @ weights
        result = (weights.T @ slopes) * ((states >= low[F:]) & (states <= high[F:]))[..., None]
        return result.reshape(*z.shape[:-1], self.n_states, d)

    def predict_gaussian(self, mean: Array, root: Array) -> tuple[Array, Array]:
        """Return the mean (N,) of the state h after a row z ~ N(mean, root rootᵀ), root (d, q), and a root (d + N, r) of [z, h].

        Features are products of at most two entries, whose means and covariances are known (Isserlis), and the regression is
        linear in them. Clipped features have no part in the covariance, and the standard deviation of a state due to z is
        limited by its training range.

        >>> z = np.array([[-1.0], [0.0], [1.0], [2.0]] * 10)
        >>> mean, root = learn([(z, z * z, 0)], max_lags=1).predict_gaussian(np.array([1.0]), np.array([[0.5]]))
        >>> mean.round(3), (root @ root.T).round(3)                   # E z² = 1.25, Cov(z, z²) = 0.5, Var z² = 1.125
        (array([1.25]), array([[0.25 , 0.5  ],
               [0.5  , 1.125]]))
        """
        d, F, q = self.n_inputs, self.n_features, root.shape[1]
        lags = min(self.lags, 1)
        f = min(F, _n_features(d, lags))
        m, S = self._standardize(mean), _standard(root, np.zeros((d, 1)), self.spread[:, None])
        features = _features(m[None], d, lags, f)[0]
        pairs = q * (q + 1) // 2
        moves = np.zeros((f, q + pairs))  # with w and with the products of any two of w, z = mean + root w
        moves[1 : 1 + d, :q] = S[: f - 1]
        if f > 1 + d:
            (i, j), (a, b) = np.tril_indices(d), np.triu_indices(q)
            features[1 + d :] += np.sum(S[i] * S[j], axis=1)
            moves[1 + d :, :q] = m[i, None] * S[j] + m[j, None] * S[i]
            moves[1 + d :, q:] = (S[i][:, a] * S[j][:, b] + S[i][:, b] * S[j][:, a]) * np.where(a == b, math.sqrt(0.5), 1.0)
        low, high = self._limits()
        moves[(features < low[:f]) | (features > high[:f])] = 0.0
        features = np.clip(features, low[:f], high[:f])
        own = solve_triangular(self.root[:f, :f], features, trans="T")
        weights = solve_triangular(self.root[:f, :f], self.root[:f, F:])
        state, by_z = np.clip(features @ weights, low[F:], high[F:]), weights.T @ moves
        std = np.sqrt(np.sum(np.square(by_z), axis=1))
        by_z *= np.minimum(1.0, np.divide((self.high - self.low)[F:], std, out=np.ones_like(std), where=std > 0.0))[:, None]
        rest = self._rest(f, own, lags).T
        both = np.zeros((d + self.n_states, q + pairs + rest.shape[1]))
        both[:d, :q], both[d:, : q + pairs], both[d:, q + pairs :] = root, by_z, rest
        return state, both

    def leading(self, n_states: int) -> Start:
        """Return the same for the first entries of the state alone."""
        size = self.n_features + n_states
        return self._replace(root=self.root[:size, :size], low=self.low[:size], high=self.high[:size], n_states=n_states)

    def stationary(self) -> tuple[Array, Array]:
        """Return mean (N,) and root (r, N) of the stationary distribution of the state: cov = rootᵀ root.

        >>> mean, root = learn([(np.zeros((3, 1)), np.array([[1.0], [2.0], [6.0]]), 0)]).stationary()
        >>> mean, root.T @ root
        (array([3.]), array([[7.]]))
        """
        return self.predict(np.empty((0, self.n_inputs)))

    def joint(self) -> tuple[Array, Array]:
        """Return mean (d + N,) and root (r, d + N) of an input row and the state after it: cov = rootᵀ root.

        >>> mean, root = learn([(np.array([[0.0], [2.0]]), np.array([[5.0], [3.0]]), 0)]).joint()
        >>> mean, (root.T @ root).round(3)
        (array([1., 4.]), array([[ 2., -2.],
               [-2.,  2.]]))
        """
        d, F = self.n_inputs, self.n_features
        both = np.concatenate([self.root[:, 1 : 1 + d] * self.spread, self.root[:, F:]], axis=1)
        mean = both[0] / self.root[0, 0]
        mean[:d] += self.center
        return mean, both[1:] / math.sqrt(max(self.n_samples - 1, 1))


def learn(
    rows: Iterable[tuple[FloatArray, FloatArray, int]], max_lags: int = MOST_LAGS, most_features: int = MOST_FEATURES
) -> Start:
    """Learn the distribution of a reservoir's state given its last inputs.

    At most 6 (F + N) samples are used, spread evenly over all; memory is O((F + N)²) beside the arguments.

    Parameters
    ----------
    rows : iterable of (z, h, skip)
        Segments of sequences: inputs z (T, d), states h (T, N) with h[t] the state after z[t], and the number of leading rows
        that serve only as the rows before later ones.
    max_lags : int, default=7
        Largest number of rows that a state may depend on.
    most_features : int, default=600
        Largest number of features. As many lags are used as this allows and as there are four samples for each feature; if not
        even one lag fits with its products, one without them; if not even that, none (``lags`` is 0).

    Returns
    -------
    Start

    Raises
    ------
    ValueError
        If there is no row to learn from.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(400, 2))
    >>> h = np.vstack([z[:1], z[1:] + 0.5 * z[:-1] ** 2])      # a state that depends on two rows
    >>> start = learn([(z, h, 1)], max_lags=2)
    >>> mean, root = start.predict([[2.0, 0.0], [0.0, 1.0]])
    >>> start.lags, mean.round(3)
    (2, array([2., 1.]))
    """
    pieces = list(rows)
    if not pieces:
        raise ValueError("rows must hold at least one sequence, got none")
    d, n_states = pieces[0][0].shape[1], pieces[0][1].shape[1]
    lags, F = _size(pieces, d, max_lags, most_features)
    firsts = np.array([max(skip, lags - 1) for _, _, skip in pieces])
    ends = np.cumsum([max(len(z) - first, 0) for (z, _, _), first in zip(pieces, firsts, strict=True)])
    if ends[-1] == 0:
        raise ValueError(f"rows must hold at least one row to learn from, got {len(pieces)} sequences that skip all of theirs")
    picked = _sample_evenly(int(ends[-1]), _ROWS_PER_COLUMN * (F + n_states))
    center, spread = _scale([z for z, _, _ in pieces])

    root = np.zeros((F + n_states, F + n_states))
    squares, low, high = np.zeros(F), np.full(len(root), np.inf), np.full(len(root), -np.inf)
    blocks = np.array_split(picked, -(-len(picked) // (_BLOCK * (F + n_states))))

    def make_columns(rows: npt.NDArray[np.intp]) -> Array:
        owners = np.searchsorted(ends, rows, side="right")
        columns = np.empty((len(rows), F + n_states))
        for i in np.unique(owners):
            (z, h, _), mine = pieces[i], owners == i
            t = rows[mine] - ends[i] + len(z)  # the last rows of a piece are those to learn from
            recent = z[t[:, None] - np.arange(max(lags, 1))]  # lag 0 even if it is no feature: joint() needs it
            recent = _standard(recent, center, spread).reshape(len(t), -1)
            columns[mine, :F], columns[mine, F:] = _features(recent, d, max(lags, 1), F), h[t]
        return columns

    for block in blocks:
        columns = make_columns(block)
        squares += np.sum(np.square(columns[:, :F]), axis=0)
        low, high = np.minimum(low, columns.min(axis=0)), np.maximum(high, columns.max(axis=0))
        stacked = [root, columns]
        if block is blocks[-1]:
            # Ridge rows for all features but the constant: R is regular, and means stay exact.
            ridge = np.sqrt(_RIDGE * np.where(squares > 0.0, squares, 1.0))
            stacked.append(np.eye(F, F + n_states)[1:] * np.pad(ridge, (0, n_states)))
        root = np.asarray(np.linalg.qr(np.concatenate(stacked), mode="r"))
    start = Start(root, center, spread, low, high, n_states, lags, len(picked))
    pairs = _sample_evenly(int(ends[-1]), _PAIRS)
    pairs = pairs[~np.isin(pairs + 1, ends)]  # the next row is of the same piece
    one_row = _persistence(start, make_columns(pairs), make_columns(pairs + 1))
    return start._replace(persistence=one_row ** (ends[-1] / len(picked)))  # distance of the selected samples


def _persistence(start: Start, now: Array, after: Array) -> Array:
    """Return, for 1, 2, … rows, the lag-1 correlation of residuals (averaged over states) times that of features."""
    F, found = start.n_features, []
    for lags in range(1, start.lags + 1):
        f = min(F, _n_features(start.n_inputs, lags))
        weights = solve_triangular(start.root[:f, :f], start.root[:f, F:])
        one, other = (columns[:, F:] - columns[:, :f] @ weights for columns in (now, after))
        size = np.sqrt(np.sum(np.square(one), axis=0) * np.sum(np.square(other), axis=0))
        rho = np.divide(np.sum(one * other, axis=0), size, out=np.zeros_like(size), where=size > 0.0)
        alike = [solve_triangular(start.root[:f, :f], columns[:, :f].T, trans="T") for columns in (now, after)]
        size = np.sqrt(np.sum(np.square(alike[0])) * np.sum(np.square(alike[1])))
        both = np.mean(rho) * np.sum(alike[0] * alike[1]) / size if rho.size and size > 0.0 else 0.0
        found.append(float(np.clip(both, 0.0, _MOST_PERSISTENT)))
    return np.array(found)


# ---------------------------------------------------------------- features


def _n_features(d: int, lags: int) -> int:
    """Return the number of features of ``lags`` rows of d entries: the constant, the entries, and products of any two."""
    return 1 + lags * d + lags * d * (lags * d + 1) // 2


def _features(recent: Array, d: int, lags: int, count: int) -> Array:
    """Return the first ``count`` features (n, count) of rows ``recent`` (n, lags·d), the most recent row first.

    1, and for each lag: its d entries, then each of them times all entries before it and itself.
    """
    i, j = factors_of_features(d, lags, count)
    both = np.concatenate([np.ones((len(recent), 1)), recent], axis=1)
    result: Array = both[:, i]
    result *= both[:, j]
    return result


@lru_cache(maxsize=64)
def factors_of_features(d: int, lags: int, count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the two factors of each of the first ``count`` features among [1, recent rows], (count,) and (count,)."""
    pairs = [(0, 0)]
    for j in range(lags):
        mine = range(1 + j * d, 1 + (j + 1) * d)
        pairs += [(a, 0) for a in mine]
        if len(pairs) < count:
            pairs += [(a, b) for a in mine for b in range(1, a + 1)]
    i, j = np.array(pairs[:count]).T
    i.setflags(write=False)
    j.setflags(write=False)
    return i, j


def _standard(z: FloatArray, center: Array, spread: Array) -> Array:
    """Return (z − center)/spread, 0 if the spread is 0."""
    live = spread > 0.0
    return np.where(live, (z - center) / np.where(live, spread, 1.0), 0.0)


def _scale(inputs: list[FloatArray]) -> tuple[Array, Array]:
    """Return the mean of each input over all rows, and the largest distance from it, exactly 0 for a constant."""
    inputs = [z for z in inputs if len(z)]
    n = sum(len(z) for z in inputs)
    center = np.sum([z.mean(axis=0, dtype=np.float64) * (len(z) / n) for z in inputs], axis=0)
    low, high = np.min([z.min(axis=0) for z in inputs], axis=0), np.max([z.max(axis=0) for z in inputs], axis=0)
    center = np.where(high > low, center, low)
    return center, np.maximum(high - center, center - low)


# ---------------------------------------------------------------- rows


def _size(pieces: list[tuple[FloatArray, FloatArray, int]], d: int, max_lags: int, most_features: int) -> tuple[int, int]:
    """Return the number of lags and of features for which there are enough samples."""
    for lags in range(max_lags, -1, -1):
        n = sum(max(len(z) - max(skip, lags - 1), 0) for z, _, skip in pieces)
        room = min(most_features, n // _SHARE)
        if lags and _n_features(d, lags) <= room:
            return lags, _n_features(d, lags)
        if lags == 1 and 1 + d <= room:
            return 1, 1 + d
    return 0, 1 + d


def _sample_evenly(total: int, most: int) -> npt.NDArray[np.intp]:
    """Return at most ``most`` of ``total`` positions, one from each of as many segments of equal length.

    The position within a segment follows the golden section: a fixed stride would see a periodic input at one phase only.
    """
    n = min(total, most)
    edges = np.arange(n + 1) * total // n
    return np.asarray(edges[:-1] + (np.arange(n) * _GOLDEN % 1.0 * np.diff(edges)).astype(np.intp), dtype=np.intp)


def from_state(loop: OpenLoop, state: State) -> GaussianState:
    """Convert a user's state, of any representation, to that of this loop."""
    at, N = loop.layout, loop.reservoir.n_units
    mean, var = np.zeros(at.size), np.zeros(at.size)
    for name, part, part_var in (
        ("output", state.output, state.output_var), ("earlier", state.past, state.past_var), ("units", state.mean, state.var),
    ):  # fmt: skip
        mean[at[name]] = 0.0 if part is None else part
        var[at[name]] = 0.0 if part_var is None else part_var
    if loop.form == "diagonal":
        return Diagonal(mean, loop.carried, np.zeros((at.size, 0)), var=var)
    known, own = _persistent_entries(loop), np.zeros(at.size - loop.carried)
    if state.cov is None:
        # all columns: they are truncated after a step
        uncertain = known[var[known] > 0.0]
        factor = np.zeros((at.size, len(uncertain)))
        factor[uncertain, np.arange(len(uncertain))] = np.sqrt(var[uncertain])
    elif loop.form == "full" and state.own is None:
        cov = np.zeros((at.size, at.size))
        cov[np.ix_(known, known)] = state.cov
        return Dense(mean, loop.carried, np.zeros((at.size, 0)), cov=cov)
    else:
        factor = np.zeros((at.size, np.shape(state.cov)[1]))
        factor[known] = factor_covariance(state.cov) if state.own is None else state.cov
        own[len(own) - N :] = 0.0 if state.own is None else state.own
    # of covariance factor factorᵀ + diag(0, own)
    if loop.form == "low-rank":
        return LowRank(mean, loop.carried, np.zeros((len(mean), 0)), factor=factor, own=own)
    each = np.pad(own, (len(mean) - len(own), 0))
    if loop.form == "full":
        return Dense(mean, loop.carried, np.zeros((len(mean), 0)), cov=outer(factor) + np.diag(each))
    columns = np.hstack([factor, np.diag(np.sqrt(each))]) if own.any() else factor
    count, draws = loop.n_members, loop.new_draws()
    assert draws is not None
    # these deviations if they are members, else drawn
    if columns.shape[1] == count and np.abs(columns.sum(axis=1)).max() <= 1e-9 * np.abs(columns).max():
        return Ensemble(mean + np.sqrt(count - 1.0) * columns.T, loop.carried, draws)
    return Ensemble.draw(mean, columns.T[np.any(columns, axis=0)], loop.carried, count, draws)


def to_state(loop: OpenLoop, state: GaussianState) -> State:
    """Convert to a user's state: all but the inputs, which the next row replaces, and squares, which are computed from it."""
    at, var, known = loop.layout, state.variances(), _persistent_entries(loop)
    cov, own = None, None
    if isinstance(state, Dense):
        cov = state.cov[np.ix_(known, known)]
    elif isinstance(state, LowRank):
        cov, own = state.factor[known], state.own[at["units"].start - loop.carried :]
    elif isinstance(state, Ensemble):
        away = state.members[:, known] - state.mean[known]
        cov, own = away.T / np.sqrt(len(away) - 1.0), np.zeros(loop.reservoir.n_units)
    certain = not var[known].any() and loop.process_noise is None
    mean, output, past = (state.mean[at[name]] for name in ("units", "output", "earlier"))
    earlier = past if loop.features.lags else None
    if certain:
        return State(mean, None, output, None, past=earlier)
    past_var = var[at["earlier"]] if loop.features.lags else None
    return State(mean, var[at["units"]], output, var[at["output"]], cov, own, past=earlier, past_var=past_var)


def _persistent_entries(loop: OpenLoop) -> npt.NDArray[np.intp]:
    """Return the positions in x of what is kept from one row to the next."""
    places = np.arange(loop.layout.size)
    return np.concatenate([places[loop.layout[name]] for name in ("output", "earlier", "units")])


def make_state(units: Gaussian, n_outputs: int, n_earlier: int = 0) -> State:
    """Return an initial state from the distribution of [earlier rows, units] (E + N,), with all covariances; outputs are 0."""
    mean, var = np.array(units.mean, float), np.array(units.var, float)
    state = State(mean[n_earlier:], var[n_earlier:], np.zeros(n_outputs), np.zeros(n_outputs))
    if n_earlier:
        state = state._replace(past=mean[:n_earlier], past_var=var[:n_earlier])
    if units.diagonal is not None and units.factor is None:
        return state
    if units.factor is None or units.diagonal is None:
        root = factor_covariance(np.asarray(units.cov, float))
    else:
        own = np.diag(np.sqrt(units.diagonal))
        root = np.hstack([units.factor, own[:, own.any(axis=0)]])
    return state._replace(cov=np.vstack([np.zeros((n_outputs, root.shape[1])), root]), own=np.zeros(len(mean) - n_earlier))


def state_shapes(state: State, n_units: int, n_outputs: int, n_earlier: int = 0) -> dict[str, tuple[AnyArray, tuple[int, ...]]]:
    """Return all arrays of ``state`` by name, each with its expected shape."""
    n, m, total = n_units, n_outputs, n_outputs + n_earlier + n_units
    width = total if state.own is None else np.shape(np.atleast_1d(np.asarray(state.cov)))[-1]
    shapes = {"mean": (n,), "output": (m,), "var": (n,), "output_var": (m,), "cov": (total, width), "own": (n,)}
    shapes |= {"past": (n_earlier,), "past_var": (n_earlier,)}
    needed = ("mean", "output") if state.own is None else ("mean", "output", "cov")
    return {
        name: (getattr(state, name), shape)
        for name, shape in shapes.items()
        if name in needed or getattr(state, name) is not None
    }


Places = npt.NDArray[np.intp]
_COLUMNS = 512  # rows of a root over all units, divided among the patches


class LocalStart(NamedTuple):
    """Distribution of the units of all patches of a field given the last inputs: that of :class:`Start` for each patch.

    ``own``: the start of a patch, learned from all of them. ``windows`` (G, w): columns of an input row that each patch sees, −1
    for 0. ``earlier``: number of rows that the state holds before the units. ``mean`` (d,) and ``root`` (d, d) of an input row,
    cov = root rootᵀ. Given the row, units of two patches are treated as independent. A root has at most 512 rows: the widest
    directions of each patch.
    """

    own: Start
    windows: Places
    earlier: int
    mean: Array
    root: Array

    def check(self, name: str, n_inputs: int, n_states: int) -> None:
        """Raise a ValueError unless it is about the states of such a network."""
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
        """Length d of an input row."""
        return len(self.mean)

    @property
    def n_states(self) -> int:
        """Number E + N of entries of earlier rows and units of all patches."""
        G, w = self.windows.shape
        return self.earlier * self.n_inputs + G * (self.own.n_states - self.earlier * w)

    @property
    def lags(self) -> int:
        """Largest number of rows used."""
        return self.own.lags

    def predict(self, z: npt.ArrayLike) -> tuple[Array, Array]:
        """Return mean (…, E + N) and root (…, r, E + N) of the state after the last row of ``z`` (…, l, d)."""
        rows = _select_windows(np.asarray(z, float), self.windows)  # (…, l, G, w)
        mean, root = self.own.predict(np.moveaxis(rows, -2, -3))  # (…, G, n), (…, G, r, n)
        return self._assemble(mean), self._roots(root)

    def stationary(self) -> tuple[Array, Array]:
        """Return mean (E + N,) and root (r, E + N) of the stationary distribution of the state."""
        return self.predict(np.empty((0, self.n_inputs)))

    def joint(self) -> tuple[Array, Array]:
        """Return mean (d + E + N,) and root (r, d + E + N) of an input row and the state, by linear regression on its window."""
        own, d = self.own, self.n_inputs
        F, f = own.n_features, 1 + own.n_inputs
        slopes = solve_triangular(own.root[:f, :f], own.root[:f, F:])[1:]
        scale = np.divide(1.0, own.spread, out=np.zeros_like(own.spread), where=own.spread > 0.0)
        by_row = self._scatter_slopes((slopes * scale[:, None]).T)  # (E + N, d)
        mean = self._assemble(np.broadcast_to(own.stationary()[0], (len(self.windows), own.n_states)))
        rest = own.root[f:, F:] / math.sqrt(max(own.n_samples - f, 1))
        left = self._roots(np.broadcast_to(rest, (len(self.windows), *rest.shape)))
        root = np.vstack([np.hstack([self.root.T, self.root.T @ by_row.T]), np.pad(left, ((0, 0), (d, 0)))])
        return np.concatenate([self.mean, mean]), root

    def slope(self, z: Array) -> Array:
        """Return the derivative (…, E + N, d) of the mean of :meth:`given` with respect to its one row z (…, d)."""
        return self._scatter_slopes(self.own.slope(_select_windows(z, self.windows)))

    def predict_gaussian(self, mean: Array, root: Array) -> tuple[Array, Array]:
        """Return the mean (E + N,) of the state after one row z ~ N(mean, root rootᵀ), and a root (d + E + N, r) of both.

        As :meth:`Start.predict_gaussian` in each patch, with one z for all.
        """
        q = root.shape[1]
        shared = q + q * (q + 1) // 2  # columns that all patches have in common: of the row, and of its products
        means, by_row, rest = [], [], []
        for window, padded in zip(self.windows, _select_windows(root.T, self.windows).swapaxes(0, 1), strict=True):
            state, both = self.own.predict_gaussian(_select_windows(mean, window), padded.T)
            means.append(state)
            by_row.append(both[len(window) :, :shared].T)
            rest.append(both[len(window) :, shared:].T)
        common = self._assemble(np.moveaxis(np.stack(by_row), 0, 1))  # (shared, E + N)
        left = self._roots(np.stack(rest))
        top = np.pad(root, ((0, 0), (0, shared - q + len(left))))
        return self._assemble(np.stack(means)), np.vstack([top, np.vstack([common, left]).T])

    # ---------------------------------------------------------------- from patches to the field

    @property
    def _owned(self) -> tuple[Places, Places, Places]:
        """Patch of each entry of the state, and position in the state of that patch."""
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

    def _assemble(self, states: Array) -> Array:
        """Return (…, E + N) from the states of patches (…, G, n)."""
        patches, places, _ = self._owned
        return np.asarray(states[..., patches, places])

    def _roots(self, roots: Array) -> Array:
        """Return a root (…, r, E + N) from roots (…, G, r, n) of independent patches, multiples of one by their leverage."""
        patches, places, entries = self._owned
        G, (r, n) = len(self.windows), roots.shape[-2:]
        if not roots.size:  # no units, or no variance
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

    def _scatter_slopes(self, slopes: Array) -> Array:
        """Return (…, E + N, d) from the derivatives (…, [G,] n, w) of a patch's state with respect to its window."""
        patches, places, entries = self._owned
        slopes = np.broadcast_to(slopes, (*slopes.shape[:-3], len(self.windows), *slopes.shape[-2:]))
        own, window = slopes[..., patches, places, :], self.windows[patches]  # (…, E + N, w)
        result = np.zeros((*own.shape[:-1], self.n_inputs + 1))
        result[..., entries[:, None], window] = own  # beyond the border: the last column
        return result[..., :-1]


def learn_start(
    rows: Iterable[tuple[Array, Array, int]], patches: Patches | None, features: Features, n_outputs: int, *,
    memoryless: bool = False,
) -> Start | LocalStart:  # fmt: skip
    """Learn the distribution of units given the last inputs: of all of them, or patch by patch.

    Parameters
    ----------
    rows : iterable of (z, h, skip)
        Segments of sequences as in :func:`learn`, with h of [earlier rows, units] of all patches.
    patches : Patches or None
        Patches of the network.
    features : Features
        Features of the network.
    n_outputs : int
        Columns of the field.
    memoryless : bool, default=False
        Whether units are functions of the current row: they are regressed on no more earlier rows than the readout uses.

    Returns
    -------
    Start or LocalStart
        Learned from all patches together: n rows of a field of G patches are G n samples of its regression.
    """
    max_lags = min(MOST_LAGS, features.lags + 1) if memoryless else MOST_LAGS
    if patches is None:
        return learn(rows, max_lags)
    pieces = list(rows)
    d = pieces[0][0].shape[1]
    windows = patches.windows(n_outputs, d)
    G, E = len(windows), features.n_earlier(d)
    small = []
    for z, h, skip in pieces:
        seen = _select_windows(z, windows)
        earlier = _select_windows(h[:, :E].reshape(len(h), features.lags, d), windows)  # (T, lags, G, w)
        units = h[:, E:].reshape(len(h), G, -1)
        for g in range(G):
            small.append((seen[:, g], np.hstack([earlier[:, :, g].reshape(len(h), -1), units[:, g]]), skip))
    samples = np.vstack([z[skip:] for z, _, skip in pieces])
    mean = samples.mean(axis=0)
    cov = (samples - mean).T @ (samples - mean) / max(len(samples) - 1, 1)
    return LocalStart(learn(small, max_lags), windows, features.lags, mean, factor_covariance(cov))


def _select_windows(z: Array, windows: Places) -> Array:
    """Return what windows (…) show of rows z (…, d), 0 beyond the border."""
    found = z[..., windows]
    if (windows < 0).any():
        found[..., windows < 0] = 0.0
    return np.asarray(found)
