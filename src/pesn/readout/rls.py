"""Recursive least squares with forgetting in square-root form, its compiled kernels, and a readout that is updated online.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> features = np.column_stack([np.ones(2000), rng.normal(size=(2000, 2))])
>>> targets = features @ [[0.5], [1.0], [-2.0]]
>>> targets[1000:] += features[1000:, 1:2]  # the weights change
>>> predictions, state = rls_update(rls_start((3, 1, 100.0)), features, targets, forgetting=0.98)
>>> state.weights.round(2)
array([[ 0.5,  2. , -2. ]])

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> features = np.column_stack([np.ones(2000), rng.normal(size=2000)])
>>> targets = features @ [[1.0], [2.0]] + 0.1 * rng.normal(size=(2000, 1))
>>> predictions, readout, rls = update(*start_empty(2, 1, delta=100.0), features, targets, forgetting=0.99)
>>> readout.weights.round(1), np.sqrt(readout.residual_cov).round(1)
(array([[1., 2.]]), array([[0.1]]))
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from pesn._support.arguments import as_rows, kernel_array
from pesn._support.jit import INLINE, jit
from pesn._support.records import check_arrays, check_counts
from pesn._support.types import FloatArray
from pesn.readout.groups import Groups
from pesn.readout.ridge import Readout

Array = npt.NDArray[Any]

_LANES = 8  # columns are padded to multiples of it

# SIMD may reorder sums. NaN and infinity keep their meaning: they are checked at the end.
_LOOSE: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}}


@jit(**_LOOSE, **INLINE)
def _dots(s0: Array, s1: Array, s2: Array, s3: Array, v: Array) -> tuple[float, float, float, float]:
    """Multiply four rows by a vector, which is loaded once."""
    a0 = a1 = a2 = a3 = 0.0
    for q in range(v.size):
        x = v[q]
        a0 += s0[q] * x
        a1 += s1[q] * x
        a2 += s2[q] * x
        a3 += s3[q] * x
    return a0, a1, a2, a3


@jit(**_LOOSE, **INLINE)
def product(w: Array, v: Array) -> float:
    """Compute wᵀ v."""
    total = 0.0
    for q in range(w.size):
        total += w[q] * v[q]
    return total


@jit(**_LOOSE, **INLINE)
def _turn(s: Array, t: Array, g: Array, c: float, x: float, f: float, c2: float, x2: float, f2: float) -> None:
    """Rotate two columns: s ← c s − x g, g ← g + f s, then t. With more at once LLVM cannot prove that they do not overlap."""
    for q in range(g.size):
        old, total = s[q], g[q]
        s[q] = c * old - x * total
        total += f * old
        old = t[q]
        t[q] = c2 * old - x2 * total
        g[q] = total + f2 * old


@jit(**_LOOSE, **INLINE)
def _turn_one(s: Array, g: Array, c: float, x: float, f: float) -> None:
    """Rotate one column."""
    for q in range(g.size):
        old, total = s[q], g[q]
        s[q] = c * old - x * total
        g[q] = total + f * old


@jit(**_LOOSE, **INLINE)
def _width(last: int, p: int) -> int:
    """Return the number of entries of columns up to ``last``, rounded up to full SIMD registers."""
    return min(last + 1 + -(last + 1) % _LANES, p)


@jit(**_LOOSE, **INLINE)
def _absorb(root: Array, v: Array, g: Array, forgetting: float, first: int) -> float:
    """Update ``root`` in place with the row v; ``g`` becomes P v of before, α is returned.

    Columns before ``first`` stay as they are: for v without an entry before it, and without forgetting.
    """
    p = root.shape[0]
    for q in range(p):
        g[q] = 0
    alpha, grown, before = forgetting, 1.0 / math.sqrt(forgetting), math.sqrt(forgetting)
    for j in range(first - first % 4, p - 3, 4):
        width = _width(j + 3, p)
        s0, s1, s2, s3, sums = root[j, :width], root[j + 1, :width], root[j + 2, :width], root[j + 3, :width], g[:width]
        f0, f1, f2, f3 = _dots(s0, s1, s2, s3, v[:width])
        a0 = alpha + f0 * f0
        a1 = a0 + f1 * f1
        a2 = a1 + f2 * f2
        a3 = a2 + f3 * f3
        r0, r1, r2, r3 = math.sqrt(a0), math.sqrt(a1), math.sqrt(a2), math.sqrt(a3)
        c0, c1, c2, c3 = grown * before / r0, grown * r0 / r1, grown * r1 / r2, grown * r2 / r3
        _turn(s0, s1, sums, c0, c0 * f0 / alpha, f0, c1, c1 * f1 / a0, f1)
        _turn(s2, s3, sums, c2, c2 * f2 / a1, f2, c3, c3 * f3 / a2, f3)
        alpha, before = a3, r3
    for j in range(p - p % 4, p):  # remaining columns
        f = product(root[j], v)
        a0 = alpha + f * f
        r0 = math.sqrt(a0)
        c0 = grown * before / r0
        _turn_one(root[j], g[:p], c0, c0 * f / alpha, f)
        alpha, before = a0, r0
    return alpha


@jit(**_LOOSE, **INLINE)
def leverage(root: Array, v: Array) -> float:
    """Compute vᵀ P v."""
    total, p = 0.0, root.shape[0]
    for j in range(0, p - 3, 4):
        width = _width(j + 3, p)
        f0, f1, f2, f3 = _dots(root[j, :width], root[j + 1, :width], root[j + 2, :width], root[j + 3, :width], v[:width])
        total += f0 * f0 + f1 * f1 + f2 * f2 + f3 * f3
    for j in range(p - p % 4, p):
        f = product(root[j], v)
        total += f * f
    return total


@jit(**_LOOSE, **INLINE)
def _move(weights: Array, error: Array, g: Array, alpha: float) -> bool:
    """Update W ← W + e gᵀ/α; return whether all is finite."""
    wrong = alpha * 0.0  # NaN for an infinite α, which would leave the weights unchanged
    for o in range(weights.shape[0]):
        by, w, nothing = error[o] / alpha, weights[o], 0.0
        for q in range(w.size):
            w[q] += by * g[q]
            nothing += w[q] * 0.0  # NaN if not finite, without a branch
        wrong += nothing
    return bool(wrong == 0.0)


class Recursion(NamedTuple):
    """State that the kernels update in place; all arrays are its own except those of the prior.

    ``root`` S transposed, column by column; ``weights`` (m, p); ``clock`` (every, rows, next row of the prior, steps since the
    last one), see :func:`rotation`; ``scale``: factor of a row of the prior when it is seen again.
    """

    root: Array
    weights: Array
    prior_weights: Array
    prior_root: Array
    clock: npt.NDArray[np.int64]
    scale: float

    def state(self, start: RLSState) -> RLSState:
        """Return the result as an RLSState, from the state ``start`` that it started with; it must not change after that."""
        self.root.flags.writeable = False
        return start._replace(weights=self.weights, root=self.root.T, row=int(self.clock[2]), waited=int(self.clock[3]))


@jit(**_LOOSE, **INLINE)
def learn_row(at: Recursion, error: Array, work: Array, forgetting: float) -> bool:
    """Learn the row ``work[1]`` from the ``error`` (m,) of its prediction, and then the rows of the prior that are due.

    ``at`` changes in place; ``error`` and ``work``, two rows of at least p numbers, are overwritten. Return False if a number is
    not finite.
    """
    root, weights, clock = at.root, at.weights, at.clock
    g, row, p = work[0], work[1], weights.shape[1]
    clock[3] += 1
    due = clock[1] if 0 < clock[0] <= clock[3] else 0
    if due:
        clock[3] = 0
    finite, first, factor = True, 0, forgetting
    for place in range(due + 1):
        if place > 0:
            first, factor = p, 1.0
            for q in range(p - 1, -1, -1):
                row[q] = at.prior_root[clock[2], q] * at.scale
                if row[q] != 0.0:
                    first = q
            for o in range(len(weights)):
                error[o] = product(at.prior_weights[o], row) - product(weights[o], row)
            clock[2] = (clock[2] + 1) % p
        finite = _move(weights, error, g, _absorb(root, row, g, factor, first)) and finite
    return finite


_FADE = 10.0  # factor by which the precision may fall between two visits of a row of the prior


class RLSState(NamedTuple):
    """State of the recursion, immutable: an update returns new arrays, ``root`` a read-only one.

    ``weights`` (m, p); ``root`` S (p, p), upper triangular, with P = S Sᵀ, the covariance of the weights up to the factor R; the
    prior that forgetting returns to: ``prior_weights`` (m, p) and ``prior_root`` (p, p), whose rows l give its precision Σ l lᵀ;
    ``row``: the next of these rows; ``waited``: the steps since the last one.
    """

    weights: FloatArray
    root: FloatArray
    prior_weights: FloatArray
    prior_root: FloatArray
    row: int = 0
    waited: int = 0

    def check(self, name: str, n_features: int, n_targets: int) -> None:
        """Raise a ValueError unless this is a recursion of these sizes."""
        p, m = n_features, n_targets
        shapes = {"weights": (m, p), "root": (p, p), "prior_weights": (m, p), "prior_root": (p, p)}
        check_arrays(name, {part: (getattr(self, part), shape) for part, shape in shapes.items()})
        check_counts(name, {"row": (self.row, 0), "waited": (self.waited, 0)})
        if self.row >= p:
            raise ValueError(f"{name}.row is {self.row}")


def rls_start(start: Readout | tuple[int, int, float], weights: FloatArray | None = None, prior: bool = True) -> RLSState:
    """Return the initial state of recursive least squares: a batch solution with its precision, or P = δ I.

    After a batch solution, all its rows count as one row once they are forgotten: they pull weights that have changed back by a
    share of 1 − λ; all n of them would hold the weights for ever.

    Parameters
    ----------
    start : Readout or tuple
        A :class:`~pesn.readout.ridge.Readout`, or (p, m, delta) for P = delta·I.
    weights : ndarray of shape (m, p), optional
        Initial weights, in place of those of the batch solution or of zeros.
    prior : bool, default=True
        Whether forgetting returns to the start; False: plain recursive least squares.

    Returns
    -------
    RLSState
    """
    if isinstance(start, Readout):
        initial, root = start.weights, start.covariance_root
        # A = S⁻ᵀ S⁻¹: the rows of S⁻¹ give the precision, here scaled to one of the n rows.
        prior_root = np.linalg.inv(root) * math.sqrt(min(1.0 / start.n_samples, 1.0))
    else:
        p, m, delta = start
        if p < 1 or m < 1:
            raise ValueError(f"start must be (features, targets, delta) with at least one of each, got {start}")
        if not (math.isfinite(delta) and delta > 0.0):
            raise ValueError(f"delta must be finite and positive, got {delta}")
        initial = np.zeros((m, p))
        root, prior_root = np.eye(p) * math.sqrt(delta), np.eye(p) / math.sqrt(delta)
    if weights is not None:
        initial = np.broadcast_to(weights, initial.shape)
    initial, root, prior_root = (np.array(a, np.float64, order="C") for a in (initial, root, prior_root))
    return RLSState(initial, root, initial, prior_root if prior else np.zeros_like(prior_root))


@lru_cache(maxsize=16)  # called at every row
def rotation(n_features: int, forgetting: float) -> tuple[int, int, float]:
    """Return (every, rows, weight): every so many steps, so many rows of the prior are observed again, each with this weight.

    Without excitation forgetting alone lets P grow as λ⁻ᵏ, without bound (wind-up). The remedy is to observe the prior again, row
    by row: pseudo-observations √ρ l_i → √ρ W₀ l_i, where Σ l_i l_iᵀ = Π is its precision. A row with a cycle of c steps has the
    precision ρ λᵃ/(1 − λᶜ) l_i l_iᵀ at age a < c, on average over the cycle ρ/(c (1 − λ)): with ρ = c (1 − λ) the precision tends
    to Π on average, and W to W₀. Both vanish as λ → 1.

    One row per step gives c = p, and for λᵖ ≪ 1 lets P grow by λ⁻ᵖ between two visits; for λᵖ ≈ 1 it is more than needed. So the
    rows are visited as often as keeps λᶜ ≥ 1/10: then the precision stays between Π/4 and 2.6 Π (ρ/(1 − λᶜ) times λᶜ and 1), for
    all p and λ > 0.1.

    >>> rotation(100, 0.999)[:2], rotation(100, 0.98)[:2], rotation(100, 0.9)[:2], rotation(100, 1.0)[:2]
    ((23, 1), (1, 1), (1, 5), (0, 0))
    """
    if forgetting == 1.0:
        return 0, 0, 0.0
    longest = math.log(_FADE) / -math.log(forgetting)  # longest cycle in steps
    every = max(int(longest / n_features), 1)
    rows = min(math.ceil(n_features * every / longest), n_features)
    return every, rows, n_features * every / rows * (1.0 - forgetting)


def rls_update(
    state: RLSState, features: npt.ArrayLike, targets: npt.ArrayLike, forgetting: float
) -> tuple[FloatArray, RLSState]:
    """Predict each row, then learn from it: minimize Σ_k λ^(T−k) |y_k − W b_k|² plus the terms of the start and the prior.

    Parameters
    ----------
    state : RLSState
        State before; it does not change.
    features : array-like of shape (T, p)
        Features.
    targets : array-like of shape (T, m)
        Targets.
    forgetting : float
        Forgetting factor λ in (0, 1].

    Returns
    -------
    tuple of (ndarray of shape (T, m), RLSState)
        Predictions, each made *before* its row is learned, and the new state.
    """
    m, p = state.weights.shape
    if not 0.0 < forgetting <= 1.0:
        raise ValueError(f"forgetting must lie in (0, 1], got {forgetting}")
    b, y = as_rows("features", features, p), as_rows("targets", targets, m)
    if len(b) != len(y):
        raise ValueError(f"features and targets must have as many rows, got {len(b)} and {len(y)}")
    at, predictions = recursion(state, forgetting), np.empty(y.shape)
    if not _follow(at, kernel_array(b), kernel_array(y), float(forgetting), predictions):
        raise ValueError("recursive least squares left the range of float64 numbers; scale features and targets to about 1")
    return predictions, at.state(state)


def recursion(state: RLSState, forgetting: float) -> Recursion:
    """Return ``state`` in the layout of the kernels, in new arrays."""
    every, rows, weight = rotation(len(state.root), forgetting)
    root, weights = _by_columns(state.root).copy(), np.array(state.weights, np.float64, order="C")
    clock = np.array([every, rows, state.row, state.waited], np.int64)
    prior_weights, prior_root = kernel_array(state.prior_weights), kernel_array(state.prior_root)
    return Recursion(root, weights, prior_weights, prior_root, clock, math.sqrt(weight))


def _by_columns(root: FloatArray) -> FloatArray:
    """Return the columns of S, contiguous; for an S that is not upper triangular, those of the triangular one with the same S Sᵀ.

    The result of ``rls_update`` is triangular and is not checked, which would take as long as to learn a row. Nobody can have
    written to it: it is read-only, and so is the array that it is a view of.
    """
    whole, same = root.base, (root.shape, root.strides, root.dtype)
    if isinstance(whole, np.ndarray) and not whole.flags.writeable and (whole.shape, whole.strides[::-1], whole.dtype) == same:
        return whole
    if np.tril(root, -1).any():
        root = scipy.linalg.rq(root, mode="r")
    return np.ascontiguousarray(root.T, np.float64)


@jit()
def _follow(at: Recursion, B: Array, Y: Array, forgetting: float, predictions: Array) -> bool:
    """Learn all rows, in place; return whether all is finite."""
    m, p = at.weights.shape
    work, error = np.empty((2, p)), np.empty(m)
    for t in range(len(B)):
        for q in range(p):
            work[1, q] = B[t, q]
        for o in range(m):
            predictions[t, o] = product(at.weights[o], work[1])
            error[o] = Y[t, o] - predictions[t, o]
        if not learn_row(at, error, work, forgetting):
            return False
    return True


def start_empty(
    n_features: int, n_targets: int, delta: float, groups: Groups | None = None, prior: bool = True
) -> tuple[Readout, RLSState]:
    """Return an untrained readout: zero weights, P = ``delta`` · I, and R = I until the first row has an error."""
    _require_sharing(groups)
    sizes = (n_features, n_targets) if groups is None else (groups.n_features, groups.n_outputs)
    rls = rls_start((*sizes, delta), prior=prior)
    return Readout(np.zeros((n_targets, n_features)), np.eye(n_targets), rls.root, 0, groups), rls


def start_from_batch(readout: Readout, delta: float | None, prior: bool = True) -> tuple[Readout, RLSState]:
    """Start from a batch solution: with its precision, or with the paper's P = ``delta`` · I."""
    _require_sharing(readout.groups)
    own = readout.own[0]
    m, p = own.weights.shape
    return readout, rls_start(own, prior=prior) if delta is None else rls_start((p, m, delta), own.weights, prior)


def _require_sharing(groups: Groups | None) -> None:
    """Raise a ValueError if groups have their own weights."""
    if groups is not None and not groups.shared:
        raise ValueError("local must have shared=True to learn row by row, got shared=False")


def update(
    readout: Readout, rls: RLSState, features: FloatArray, targets: FloatArray, forgetting: float
) -> tuple[FloatArray, Readout, RLSState]:
    """Predict each row, then learn from it; return predictions made *before* each update, the readout and the recursion.

    R becomes the mean square of the prediction errors under the same forgetting, R ← Σ λ^(n−k) e_k e_kᵀ / Σ λ^(n−k), with the R
    of the batch for its rows. The errors include the leverage of their rows: R is conservative.
    """
    if readout.groups is not None:
        return _update_groups(readout, rls, features, targets, forgetting)
    predictions, rls = rls_update(rls, features, targets, forgetting)
    R, n = _residual_cov(readout, targets - predictions, forgetting), readout.n_samples + len(features)
    return predictions, Readout(rls.weights, R, rls.root, n), rls


def _update_groups(
    readout: Readout, rls: RLSState, features: FloatArray, targets: FloatArray, forgetting: float
) -> tuple[FloatArray, Readout, RLSState]:
    """Do the same for groups that share their weights: all groups of a row are predicted before any of it is learned.

    The forgetting of a row is split among its groups, λ^(1/G) each.
    """
    groups = readout.groups
    assert groups is not None
    predictions, each = np.empty(targets.shape), forgetting ** (1.0 / groups.n_groups)
    for k in range(len(features)):
        b, y = groups.features(features[k]), groups.targets(targets[k])
        predictions[k, groups.outputs] = b @ rls.weights.T
        _, rls = rls_update(rls, b, y, each)
    wrong = (targets - predictions)[:, groups.outputs].reshape(-1, groups.n_outputs)
    R = groups.expand_cov(_residual_cov(readout.own[0], wrong, each))
    weights, n = groups.expand(rls.weights, readout.weights.shape[1]), readout.n_samples + len(wrong)
    return predictions, Readout(weights, R, rls.root, n, groups), rls


def _residual_cov(readout: Readout, errors: FloatArray, forgetting: float) -> FloatArray:
    """Compute R after rows with these errors (n, m)."""
    n, rows = len(errors), 1.0
    if n != 1:  # one row has weight 1
        fading = forgetting ** np.arange(n - 1, -1, -1, dtype=np.float64)
        errors, rows = errors * np.sqrt(fading)[:, None], fading.sum()
    before = forgetting**n * effective_rows(readout.n_samples, forgetting)
    total = before + rows
    return (before * readout.residual_cov + errors.T @ errors) / total if total > 0.0 else readout.residual_cov


def effective_rows(n_samples: int, forgetting: float) -> float:
    """Compute the effective number of rows Σ λ^k over k < n: the newest row counts fully, each older one λ times as much."""
    return float(n_samples) if forgetting == 1.0 else (1.0 - forgetting**n_samples) / (1.0 - forgetting)
