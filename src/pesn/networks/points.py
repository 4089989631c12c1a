"""Quasi-Monte Carlo: scrambled Sobol points through any function of rows, with an error estimate by independent scrambles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.stats import qmc

from pesn._support.arguments import generator
from pesn._support.types import Array, FloatArray, Rng
from pesn.gaussian import Gaussian
from pesn.linalg import symmetric, transpose
from pesn.networks.controls import Controls, find_directions
from pesn.networks.layers import LARGEST, Shapes
from pesn.networks.program import Program, split_rows

SCRAMBLES = 8  # number of independent scrambles, whose variation estimates the error of their mean
_CONFIDENCE = 2.2  # standard errors that are the estimated error: exceeded in 5 % of the runs of the benchmark
_RATE = 2.0**-1.5  # factor by which the square of the error falls if points are doubled: between plain and ideal Sobol points
_KEPT = 2**22  # entries of points that are cached: 32 MB
_EVEN = 1e-4  # ratio of standard deviations below which eigenvalues of the covariance lose the smallest input
_STEPS = 256.0  # of correlations, per unit, in the matrix whose eigenvectors order the directions
_TINY = np.finfo(float).tiny
_AT_ONCE, _ROWS = 2**19, 2**12  # numbers and points that are evaluated at a time
_RANDOM_RATE = 0.5  # of random points
_SOBOL = 256  # coordinates of Sobol points; of more, they are no better than random ones, and slower to draw
_CONTROLLABLE = 32  # outputs up to which a wide differentiable network has control variates
_LINEAR = 0.4  # share of linear functions above which points come in pairs ±z
_PER_DIRECTION = 16  # points for each control variate
_CONTROLLED = 2**24  # entries of their directions
_ROOTS = 2**22  # entries of the roots of covariances that are kept
_SAMPLES = 2**24  # outputs that are kept

_cache: dict[tuple[int, bool, int, int, int], Array] = {}  # by dimension, pairs, seed, first and last point


class Sampled(NamedTuple):
    """Moments of the outputs of B inputs: mean (B, m), covariance (B, m, m) or variances, estimated error of std (B, m).

    The error is 1 where the points, or their outputs, differ by rounding alone: more points do not reduce it.
    """

    mean: Array
    spread: Array
    error: Array


class UsedPoints(NamedTuple):
    """The number of points of each row, 0 where it is in closed form, whether they come in pairs ±z, and its control variates.

    Those are directions (B, d, r) of the standard normal points, on which the outputs are regressed; None where there are none.
    """

    counts: npt.NDArray[np.intp]
    mirrored: npt.NDArray[np.bool_]
    directions: Array | None


class PointMoments:
    """Moments of the outputs of B inputs by scrambled Sobol points, of which more can be added.

    Parameters
    ----------
    program : Program
        The network.
    x : Gaussian
        The inputs, of mean (B, d).
    rng : int, Generator or None
        Seed or Generator of the scrambling.
    full : bool
        Whether covariances are computed; else variances.
    """

    def __init__(self, program: Program, x: Gaussian, rng: Rng, full: bool) -> None:
        self._function, self._size, self._full, self._dim = program.function, program.outputs, full, x.dim
        self._gradient = program.gradient if is_controllable(x.dim, program.outputs) else None
        self._points, self._scale = StandardPoints(x.dim, rng), Scale(x)
        std = np.broadcast_to(x.std, x.mean.shape)
        is_uncertain, eps = (std > 0.0).any(axis=-1), np.finfo(x.mean.dtype).eps
        # rows whose points differ from the mean by rounding alone, or whose outputs may
        self._rounded = is_uncertain & (std < np.spacing(np.abs(x.mean))).all(axis=-1)
        self._sharp = is_uncertain & (std < eps).all(axis=-1)
        self._rate = _RATE if x.dim <= _SOBOL else _RANDOM_RATE
        self.counts = np.zeros(len(x.mean), int)
        self.mirrored = np.zeros(len(x.mean), bool)  # rows whose points come in pairs ±z
        self._outputs: list[tuple[npt.NDArray[np.intp], int, FloatArray]] = []
        self._controls: Controls | None = None

    def extend(self, rows: npt.NDArray[np.intp], count: int) -> None:
        """Evaluate further points of some rows, which have as many each, up to ``count``, a power of 2."""
        start = int(self.counts[rows[0]]) // SCRAMBLES
        if not start and count >= _PER_DIRECTION * self._size and len(rows) * self._dim * self._size <= _CONTROLLED:
            self._controls = self._find_controls(rows)
        level = start * SCRAMBLES or max(count // 8, SCRAMBLES // 2)
        while level < count:
            level *= 2
            self._evaluate(rows, start, level // SCRAMBLES)
            start = level // SCRAMBLES
            self.counts[rows] = level
            self._update_error(rows)

    def _evaluate(self, rows: npt.NDArray[np.intp], start: int, stop: int) -> None:
        """Evaluate the points from ``start`` to ``stop`` of each scramble."""
        while start < stop:
            least = 2 if self.mirrored.any() else 1  # whole pairs
            width = max(self._dim, self._first.shape[1] if start else self._size)
            step = stop - start
            while step > least and SCRAMBLES * step > min(_ROWS, _AT_ONCE // width):
                step //= 2
            some = max(1, min(_AT_ONCE // (SCRAMBLES * step * width), _ROWS // (SCRAMBLES * step)))
            for mirrored in sorted(set(self.mirrored[rows].tolist())):
                points = self._points.block(start, start + step, mirrored).reshape(-1, self._dim)
                alike = rows[self.mirrored[rows] == mirrored]
                for k in range(0, len(alike), some):
                    self._add(alike[k : k + some], start, points)
            start += step

    def _find_controls(self, rows: npt.NDArray[np.intp]) -> Controls | None:
        """Return control variates along the mean gradients at two pairs of points, for all rows; None where there are none."""
        if self._gradient is None:
            return None
        half = np.random.default_rng(0).standard_normal((2, self._dim))
        found = []
        for row in rows:
            (some,) = self._scale(np.array([row]), np.concatenate([half, -half]))
            directions = find_directions(self._gradient, some, partial(self._scale.pull, int(row)))
            if directions is None:
                return None
            found.append(directions)
        self.mirrored = np.array([share > _LINEAR for _, share in found])
        return Controls(np.stack([directions for directions, _ in found]), SCRAMBLES, self._size)

    def _add(self, rows: npt.NDArray[np.intp], start: int, points: Array) -> None:
        """Add the outputs of standard points (SCRAMBLES · n, d), those after ``start``, to the sums of some rows."""
        given = self._scale(rows, points)
        out = np.asarray(self._function(given.reshape(-1, self._dim)))
        out = out.reshape(len(rows), SCRAMBLES, given.shape[1] // SCRAMBLES, -1)
        if not np.isfinite(out).all():
            raise ValueError("network must give finite numbers for every point, got NaN or infinity")
        if not (start or self._outputs):
            self._allocate(out.shape[-1])
        if not start:
            self._first[rows] = out[:, 0, 0]
        with np.errstate(over="ignore", invalid="ignore"):
            away = np.subtract(out, self._first[rows][:, None, None], dtype=float)  # exactly 0 for constant outputs
            if not start:
                self._shift[rows] = away.mean(axis=(1, 2))
            away -= self._shift[rows][:, None, None]
            self._sums[0][rows] += away.sum(axis=2)
            self._sums[1][rows] += np.square(away).sum(axis=2)
            if self._controls is not None:
                self._controls.add(rows, points, away)
            if self._full:
                flat = away.reshape(len(rows), -1, away.shape[-1])
                self._cross[rows] += transpose(flat) @ flat
        if not np.isfinite(self._sums[1][rows]).all():
            raise ValueError(f"network must give numbers whose variance is finite, got numbers up to {np.abs(out).max():.3g}")
        if start < self._kept or not start:
            kept = self._kept - start
            self._outputs.append((rows, start, out if out.shape[2] <= kept else out[:, :, :kept].copy()))

    def _allocate(self, size: int) -> None:
        """Make the sums for ``size`` outputs."""
        if self._full and size > LARGEST:
            raise ValueError(f"network has {size} outputs, too many for a covariance matrix; use covariance='diagonal'")
        batch = len(self.counts)
        self._first, self._shift = np.zeros((batch, size)), np.zeros((batch, size))
        self._sums = np.zeros((2, batch, SCRAMBLES, size))
        self._cross = np.zeros((batch, size, size) if self._full else (0,))
        self._square_error = np.full((batch, size), np.nan)
        self._kept = max(1, _SAMPLES // (batch * SCRAMBLES * size))

    def _variances(self, rows: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Return means less the shift (R, m), and variances of each scramble about them (R, SCRAMBLES, m)."""
        count = self.counts[rows][:, None]
        shift = self._sums[0][rows].sum(axis=1) / count
        total, square = self._sums[:, rows] * (SCRAMBLES / count[..., None])
        return shift, np.asarray(square + shift[:, None] * (shift[:, None] - 2.0 * total))

    def _update_error(self, rows: npt.NDArray[np.intp]) -> None:
        """Update the squared standard errors of std: the scrambles' own, averaged with what half of the points let expect."""
        if self._controls is None:
            _, parts = self._variances(rows)
        else:
            parts = self._controls.variances(rows, self._sums[1][rows])
        var = parts.mean(axis=1, keepdims=True)
        ratio = np.divide(parts, var, out=np.ones_like(parts), where=var > 0.0)
        found, before = 0.25 / SCRAMBLES * ratio.var(axis=1, ddof=1), self._rate * self._square_error[rows]
        self._square_error[rows] = np.where(np.isnan(before), found, 0.5 * (found + before))

    def moments(self) -> Sampled:
        """Compute the moments of all rows from the points evaluated so far."""
        count, every = self.counts[:, None], np.arange(len(self.counts))
        if self._controls is not None:
            shift, spread = self._controls.fit(self._cross if self._full else self._sums[1].sum(axis=1), self._full)
        else:
            shift, parts = self._variances(every)
            spread = np.maximum(parts.mean(axis=1), 0.0)
            if self._full:
                spread = symmetric(self._cross / count[..., None] - shift[:, :, None] * shift[:, None, :])
        error = _CONFIDENCE * np.sqrt(self._square_error)
        error[self._rounded | (self._sharp & ~spread.reshape(len(spread), -1).any(axis=1))] = 1.0
        return Sampled(self._first + self._shift + shift, spread, error)

    def used(self) -> UsedPoints:
        """Return the points of all rows."""
        return UsedPoints(self.counts, self.mirrored, None if self._controls is None else self._controls.directions)

    def samples(self) -> FloatArray:
        """Return the outputs (B, n, m) of as many points as all rows have, and as are kept."""
        count = min(int(self.counts.min()) // SCRAMBLES, self._kept)
        _, _, out = self._outputs[0]
        found = np.empty((len(self.counts), SCRAMBLES, count, out.shape[-1]), out.dtype)
        for rows, start, out in self._outputs:
            if start < count:
                found[rows, :, start : start + out.shape[2]] = out[:, :, : count - start]
        return found.reshape(len(found), -1, found.shape[-1])


# ---------------------------------------------------------------- points


def is_controllable(dim: int, outputs: int) -> bool:
    """Return whether a network of these numbers of inputs and outputs has control variates, if it can be differentiated."""
    return dim > _SOBOL and 0 < outputs <= _CONTROLLABLE


class StandardPoints:
    """Points of a standard normal distribution in independent scrambles, made on demand.

    Parameters
    ----------
    dim : int
        Number of coordinates.
    rng : int, Generator or None
        Seed or Generator. Points of a seed are cached, as drawing them takes longer than a small network.
    """

    def __init__(self, dim: int, rng: Rng) -> None:
        self._dim, self._seed = dim, rng if type(rng) is int else None
        self._rng, self._scrambles = generator(rng), list[_Scramble]()

    def block(self, start: int, stop: int, mirrored: bool = False) -> Array:
        """Return the points from ``start`` to ``stop`` of each scramble, (SCRAMBLES, stop − start, dim); or in pairs ±z."""
        key = (self._dim, mirrored, self._seed or 0, start, stop)
        if self._seed is not None and key in _cache:
            return _cache[key]
        if not self._scrambles:
            self._scrambles = [_Scramble(self._dim, self._rng) for _ in range(SCRAMBLES)]
        if mirrored:
            first, last = start // 2, (stop + 1) // 2
            half = np.stack([scramble.draw(first, last) for scramble in self._scrambles])
            points = np.stack([half, -half], axis=2).reshape(SCRAMBLES, -1, self._dim)[:, start - 2 * first : stop - 2 * first]
        else:
            points = np.stack([scramble.draw(start, stop) for scramble in self._scrambles])
        points.flags.writeable = False
        if self._seed is not None and points.size <= _KEPT // 8:
            while _cache and sum(part.size for part in list(_cache.values())) + points.size > _KEPT:
                _cache.pop(next(iter(_cache)), None)
            _cache[key] = points
        return points


def standard_points(dim: int, count: int, rng: np.random.Generator) -> Array:
    """Return points (count, dim) of a standard normal distribution, in one scramble."""
    return _Scramble(dim, rng).draw(0, count)


class _Scramble:
    """A scrambled Sobol sequence as points of a standard normal distribution; the last of many coordinates are random."""

    def __init__(self, dim: int, rng: np.random.Generator) -> None:
        self._sobol = qmc.Sobol(min(dim, _SOBOL), scramble=True, rng=rng)
        self._others = dim - self._sobol.d
        self._seed = int(rng.integers(2**63)) if self._others else 0
        self._random = np.random.default_rng(self._seed)

    def draw(self, start: int, stop: int) -> Array:
        """Return the points from ``start`` to ``stop``, (stop − start, dim)."""
        if self._sobol.num_generated > start:
            self._sobol.reset()
            self._random = np.random.default_rng(self._seed)
        skipped = start - self._sobol.num_generated
        if skipped:
            self._sobol.fast_forward(skipped)
            self._random.standard_normal((skipped, self._others))
        points = special.ndtri(self._sobol.random(stop - start) + 2.0**-31)  # half a last bit, as the quantile of 0 is infinite
        return np.hstack([points, self._random.standard_normal((stop - start, self._others))]) if self._others else points


def scale_points(x: Gaussian, points: Array) -> Iterator[FloatArray]:
    """Yield points of each row of x, from standard normal points (count, d)."""
    rows, scale = np.arange(math.prod(x.batch_shape)), Scale(x)
    step = max(1, min(_AT_ONCE // points.size, _ROWS // len(points)))
    for start in range(0, len(rows), step):
        yield from scale(rows[start : start + step], points)


class Scale:
    """Map standard normal points to the distribution of each row of x.

    The widest direction comes first: the first coordinates of Sobol points are the most uniform.
    """

    def __init__(self, x: Gaussian) -> None:
        self._mean, self._dtype = x.mean.reshape(-1, x.dim), x.mean.dtype
        self._std: Any = None
        self._root: Any = None
        if x.diagonal is not None and x.factor is None:
            var = np.broadcast_to(x.var, x.mean.shape).reshape(self._mean.shape).astype(float)
            # about by width: a small change of a variance does not exchange coordinates
            self._std, coarse = np.sqrt(var), np.round(np.log2(np.maximum(var, _TINY)))
            self._order = np.argsort(np.argsort(-coarse, axis=-1, kind="stable"), axis=-1)
            return
        self._cov = x.cov.reshape(-1, x.dim, x.dim)
        if self._cov.size <= _ROOTS:
            self._root = _root(self._cov.astype(float))

    def __call__(self, rows: npt.NDArray[np.intp], points: Array) -> FloatArray:
        """Return points (R, count, d) of some rows."""
        if self._std is not None:
            away = self._std[rows][:, None, :] * np.moveaxis(points[:, self._order[rows]], 0, 1)
        else:
            away = points @ transpose(self.root(rows))
        return (self._mean[rows][:, None, :] + away).astype(self._dtype, copy=False)

    def root(self, rows: npt.NDArray[np.intp]) -> Array:
        """Return A with A Aᵀ = cov of some rows, (R, d, d)."""
        return np.asarray(_root(self._cov[rows].astype(float)) if self._root is None else self._root[rows])

    def pull(self, row: int, slopes: Array) -> Array:
        """Return derivatives by the standard points (m, d) for those by the inputs of a row."""
        if self._std is None:
            return slopes @ self.root(np.array([row]))[0]
        result = np.empty_like(slopes)
        result[:, self._order[row]] = slopes * self._std[row]
        return result

    def order(self, row: int) -> npt.NDArray[np.intp]:
        """Return which coordinate of the points each independent input of a row has."""
        return np.asarray(self._order[row])

    def frame(self, row: int) -> tuple[Array, Array | None]:
        """Return A with A Aᵀ = cov, and V with A = V L, L the Cholesky factor of Vᵀ cov V; V is None if cov is singular."""
        cov = self._cov[row].astype(float)
        frame = _frame(cov)
        return self.root(np.array([row]))[0], None if _factor(cov, frame) is None else frame


def _root(cov: Array) -> Array:
    """Return A with A Aᵀ = cov, (R, d, d), the widest direction about first; smooth where cov is not singular."""
    return np.stack([_root_of_one(one) for one in cov])


def _root_of_one(cov: Array) -> Array:
    frame = _frame(cov)
    lower = _factor(cov, frame)
    if lower is not None:
        return np.asarray(frame @ lower)
    scale = np.sqrt(np.diagonal(cov))
    if scale.min() >= _EVEN * scale.max():
        values, vectors = np.linalg.eigh(cov)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1])
    # Eigenvalues have the absolute accuracy of the largest, in which inputs in small units are lost. So the root of the
    # correlation matrix is scaled, and rotated to put the widest direction first.
    unit = np.where(scale > 0.0, scale, 1.0)
    values, vectors = np.linalg.eigh(cov / unit[:, None] / unit)
    scaled = scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray((scaled @ np.linalg.eigh(scaled.T @ scaled)[1])[:, ::-1])


def _frame(cov: Array) -> Array:
    """Return directions that are about the eigenvectors of a covariance, and that small changes of it do not change."""
    scale = np.sqrt(np.diagonal(cov))
    unit = np.where(scale > 0.0, scale, 1.0)
    coarse = 2.0 ** (np.round(8.0 * np.log2(unit)) / 8.0)
    correlation = np.round(_STEPS * (cov / unit[:, None] / unit)) / _STEPS
    return np.asarray(np.linalg.eigh(correlation * coarse[:, None] * coarse)[1][:, ::-1])


def _factor(cov: Array, frame: Array) -> Array | None:
    """Return the Cholesky factor of a covariance in a frame; None if it is singular."""
    turned = frame.T @ cov @ frame
    try:
        lower = np.asarray(np.linalg.cholesky(turned), float)
    except np.linalg.LinAlgError:
        return None
    return lower if np.diagonal(lower).min() > _EVEN * math.sqrt(np.diagonal(turned).max()) else None


_EXPECTED = (
    "network must be a function of rows, (n, d) in, (n, m) or (n,) out; "
    "a function f of one row becomes one by lambda rows: np.array([f(row) for row in rows])"
)
_AGAIN = [0, -1]  # rows that are evaluated again alone: sums along the rows show in the last


def as_row_function(function: Callable[..., Any], shapes: Shapes) -> Callable[[FloatArray], FloatArray]:
    """Return a function of inputs (n, *shape) as a function of rows (n, d) to rows (n, m).

    Outputs may be (n,), a frame, a list or an array of another library; further axes are flattened. Rows must not depend on each
    other: the first and the last are tried alone. Random functions are not refused.
    """
    if isinstance(function, type):
        raise TypeError(f"network must be a function or an instance, got the class {function.__qualname__}")
    name = str(getattr(function, "__qualname__", None) or type(function).__name__)
    tried: list[bool] = []

    def ask(rows: FloatArray) -> FloatArray:
        rows = rows.copy()  # the function may write into it
        given = [rows] if shapes == ((rows.shape[1],),) else split_rows(rows, shapes)
        try:
            out = function(*given)
        except Exception as error:
            error.add_note(f"network, {name}, was given {_format_shapes(given)}: {_EXPECTED}")
            raise
        return _as_rows(out, len(rows), name, _format_shapes(given))

    def rows_to_rows(rows: FloatArray) -> FloatArray:
        found = ask(rows)
        if not tried:
            tried.append(True)
            if mixes_rows(ask, rows, found):
                raise ValueError(
                    f"{_EXPECTED}; {name} gives a row other numbers among {len(rows)} rows than among {len(_AGAIN)}: "
                    "a mean or a norm over all?"
                )
        bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
        if len(bad):
            raise ValueError(
                f"network must give finite numbers for every point, got NaN or infinity from {name} for {len(bad)} of "
                f"{len(rows)}, such as {rows[bad[0]]}; a Gaussian knows no bounds: where the function has some, clip its input"
            )
        return found

    return rows_to_rows


def _as_rows(out: Any, count: int, name: str, given: str) -> FloatArray:
    if hasattr(out, "toarray"):  # sparse
        out = out.toarray()
    if np.ma.isMaskedArray(out):  # masked entries are NaN
        out = np.ma.filled(out.astype(float), np.nan)
    try:
        found = np.asarray(out.detach() if hasattr(out, "detach") else out)
    except ValueError as error:
        raise ValueError(f"{_EXPECTED}; {name} gave rows of unequal length for {given}") from error
    if found.dtype.kind not in "biuf":
        what = "None" if out is None else f"a {type(out).__name__} of {found.dtype}"
        raise TypeError(f"network must give real numbers, got {what} from {name} for {given}")
    if found.ndim == 0 or len(found) != count or not found.size:
        what = "one number" if found.ndim == 0 else f"shape {found.shape}"
        raise ValueError(f"{_EXPECTED}; {name} gave {what} for {given}")
    found = found.reshape(count, math.prod(found.shape[1:]))
    return found if found.dtype.kind == "f" else found.astype(np.float64)


def mixes_rows(ask: Callable[[FloatArray], FloatArray], rows: FloatArray, found: FloatArray) -> bool:
    """Return whether the output of a row depends on the other rows; a function that is random is not meant."""
    try:
        once, again = ask(rows[_AGAIN]), ask(rows[_AGAIN])
    except Exception:  # it takes large batches only
        return False
    if once.shape[1] != found.shape[1] or not np.array_equal(once, again, equal_nan=True):
        return False
    size = np.abs(found).max(initial=0.0, where=np.isfinite(found))
    return not np.allclose(once, found[_AGAIN], rtol=1e-3, atol=1e-6 * size, equal_nan=True)


def _format_shapes(given: Sequence[FloatArray]) -> str:
    return "rows of shape " + ", ".join(str(one.shape) for one in given)
