"""Recursive least squares with forgetting in square-root form, its compiled kernels, and a readout that is updated online.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> features = np.column_stack([np.ones(2000), rng.normal(size=(2000, 2))])
>>> targets = features @ [[0.5], [1.0], [-2.0]]
>>> targets[1000:] += features[1000:, 1:2]  # the weights change on the way
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

from pesn._support.arguments import as_real, as_rows
from pesn._support.jit import INLINE, jit
from pesn._support.records import check_arrays, check_counts
from pesn._support.types import FloatArray
from pesn.readout.groups import Groups
from pesn.readout.ridge import Readout

Array = npt.NDArray[Any]

_LANES = 8  # to whose multiples columns are lengthened

# Sums may be taken in any order, as SIMD does. NaN and infinity keep their meaning: they are looked for at the end.
_LOOSE: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}}


@jit()
def triangle(root: Array, into: Array) -> None:
    """A copy of ``root``, of the half that is in use, and zeros."""
    for j in range(root.shape[0]):
        for q in range(j + 1):
            into[j, q] = root[j, q]
        for q in range(j + 1, root.shape[0]):
            into[j, q] = 0


@jit(**_LOOSE, **INLINE)
def _dots(s0: Array, s1: Array, s2: Array, s3: Array, v: Array) -> tuple[float, float, float, float]:
    """Four rows times a vector, which is loaded once."""
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
    """Wᵀ v."""
    total = 0.0
    for q in range(w.size):
        total += w[q] * v[q]
    return total


@jit(**_LOOSE, **INLINE)
def _turn(s: Array, t: Array, g: Array, c: float, x: float, f: float, c2: float, x2: float, f2: float) -> None:
    """Two columns: s ← c s − x g, g ← g + f s, then t. With more at once LLVM gives up on proving that they do not overlap."""
    for q in range(g.size):
        old, total = s[q], g[q]
        s[q] = c * old - x * total
        total += f * old
        old = t[q]
        t[q] = c2 * old - x2 * total
        g[q] = total + f2 * old


@jit(**_LOOSE, **INLINE)
def _turn_one(s: Array, g: Array, c: float, x: float, f: float) -> None:
    """``_turn`` of one column."""
    for q in range(g.size):
        old, total = s[q], g[q]
        s[q] = c * old - x * total
        g[q] = total + f * old


@jit(**_LOOSE, **INLINE)
def _width(last: int, p: int) -> int:
    """Entries of columns up to ``last``, and zeros that fill SIMD registers."""
    return min(last + 1 + -(last + 1) % _LANES, p)


@jit(**_LOOSE)
def absorb(root: Array, v: Array, g: Array, forgetting: float, first: int) -> float:
    """Fit v: ``root`` moves in place, ``g`` becomes P v of before, α is returned.

    The columns before ``first`` are left as they are: where v has no entry before it, and nothing is forgotten.
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
    for j in range(p - p % 4, p):  # those that are left
        f = product(root[j], v)
        a0 = alpha + f * f
        r0 = math.sqrt(a0)
        c0 = grown * before / r0
        _turn_one(root[j], g[:p], c0, c0 * f / alpha, f)
        alpha, before = a0, r0
    return alpha


@jit(**_LOOSE)
def leverage(root: Array, v: Array) -> float:
    """Vᵀ P v."""
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
    """W ← W + e gᵀ/α; whether all is finite."""
    wrong = alpha * 0.0  # an infinite α learns nothing, and would say nothing
    for o in range(weights.shape[0]):
        by, w, nothing = error[o] / alpha, weights[o], 0.0
        for q in range(w.size):
            w[q] += by * g[q]
            nothing += w[q] * 0.0  # NaN where it is not finite: no branch
        wrong += nothing
    return bool(wrong == 0.0)


class Recursion(NamedTuple):
    """A state as the kernels move it, in place: all arrays are its own but the prior's.

    ``root`` S transposed, its columns one after the other; ``weights`` (m, p); ``clock`` (every, rows, next row of the prior,
    steps since the last one), see :func:`rotation`; ``scale``: what a row of the prior is multiplied by when it is seen again.
    """

    root: Array
    weights: Array
    prior_weights: Array
    prior_root: Array
    clock: npt.NDArray[np.int64]
    scale: float

    def state(self, begun: RLSState) -> RLSState:
        """What it has come to, from the state that it has ``begun`` with; it must not move after that."""
        self.root.flags.writeable = False
        return begun._replace(weights=self.weights, root=self.root.T, row=int(self.clock[2]), waited=int(self.clock[3]))


@jit(**_LOOSE)
def learn_row(at: Recursion, v: Array, error: Array, work: Array, forgetting: float) -> bool:
    """Learn the row v from the ``error`` (m,) of its prediction, and then the prior's rows whose turn it is.

    ``at`` moves in place. ``work``: two rows of working memory as long as v; ``error`` is overwritten. False where a number was
    left that is not finite.
    """
    root, weights, clock = at.root, at.weights, at.clock
    g, line, p = work[0], work[1], weights.shape[1]
    finite = _move(weights, error, g, absorb(root, v, g, forgetting, 0))
    clock[3] += 1
    if clock[0] == 0 or clock[3] < clock[0]:
        return finite
    clock[3] = 0
    for _ in range(clock[1]):
        first = p
        for q in range(p - 1, -1, -1):
            line[q] = at.prior_root[clock[2], q] * at.scale
            if line[q] != 0.0:
                first = q
        for o in range(len(weights)):
            error[o] = product(at.prior_weights[o], line) - product(weights[o], line)
        finite = _move(weights, error, g, absorb(root, line, g, 1.0, first)) and finite
        clock[2] = (clock[2] + 1) % p
    return finite


_FADE = 10.0  # how far the precision may fade between two visits of a regularisation row


class RLSState(NamedTuple):
    """What the recursion carries; never changed in place: an update gives new arrays, ``root`` a read-only one.

    ``weights`` (m, p); ``root`` S (p, p), upper triangular, with P = S Sᵀ, the covariance of the weights but for the factor R;
    the prior that forgetting falls back to: ``prior_weights`` (m, p) and ``prior_root`` (p, p), whose rows l make its
    precision Σ l lᵀ; ``row``: the next of these rows; ``waited``: the steps since the last one.
    """

    weights: FloatArray
    root: FloatArray
    prior_weights: FloatArray
    prior_root: FloatArray
    row: int = 0
    waited: int = 0

    def check(self, name: str, n_features: int, n_targets: int) -> None:
        """A ValueError unless it is a recursion of such sizes."""
        p, m = n_features, n_targets
        shapes = {"weights": (m, p), "root": (p, p), "prior_weights": (m, p), "prior_root": (p, p)}
        check_arrays(name, {part: (getattr(self, part), shape) for part, shape in shapes.items()})
        check_counts(name, {"row": (self.row, 0), "waited": (self.waited, 0)})
        if self.row >= p:
            raise ValueError(f"{name}.row is {self.row}")


def rls_start(start: Readout | tuple[int, int, float], weights: npt.ArrayLike | None = None) -> RLSState:
    """Where recursive least squares starts: at a batch solution with its own precision, or at P = δ I.

    After a batch solution, all rows that it learned from are worth one row once they have been forgotten: they draw weights that
    have changed back by a share of 1 − λ; all n of them would hold them for ever.

    Parameters
    ----------
    start : Readout or tuple
        A :class:`~pesn.readout.ridge.Readout`, or (p, m, delta) for P = delta·I.
    weights : array-like of shape (m, p), default=None
        The weights to start from, in place of the batch solution's or of zeros.
    """
    if isinstance(start, Readout):
        initial, root = start.weights, start.covariance_root
        # A = S⁻ᵀ S⁻¹: the rows of S⁻¹ make up the precision, here that of one of the n rows.
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
        given = as_real("weights", weights)
        if given.shape != initial.shape:
            raise ValueError(f"weights must have shape {initial.shape}, got {given.shape}")
        initial = given
    initial, root, prior_root = (np.array(a, np.float64, order="C") for a in (initial, root, prior_root))
    return RLSState(initial, root, initial, prior_root)


@lru_cache(maxsize=16)  # asked for at every row
def rotation(n_features: int, forgetting: float) -> tuple[int, int, float]:
    """(every, rows, weight): every so many steps, so many of the prior's rows are seen again, each with this weight.

    Without excitation forgetting alone lets P grow as λ⁻ᵏ, without end (wind-up). The remedy is to observe again, in
    turn, the prior itself: pseudo-observations √ρ l_i → √ρ W₀ l_i, where Σ l_i l_iᵀ = Π is its precision. A row that comes
    round every c steps keeps the precision ρ λᵃ/(1 − λᶜ) l_i l_iᵀ at age a < c, on average over the cycle
    ρ/(c (1 − λ)): so ρ = c (1 − λ) lets the precision settle at Π on average, and pulls W to W₀. Both vanish as λ → 1.

    One row a step makes c = p, and for λᵖ ≪ 1 lets P grow by λ⁻ᵖ between two visits; for λᵖ ≈ 1 it is more than is
    needed. So the rows come as often as keeps λᶜ ≥ 1/10: then the precision stays between Π/4 and 2.6 Π (ρ/(1 − λᶜ)
    times λᶜ and 1), whatever p and λ > 0.1.

    >>> rotation(100, 0.999)[:2], rotation(100, 0.98)[:2], rotation(100, 0.9)[:2], rotation(100, 1.0)[:2]
    ((23, 1), (1, 1), (1, 5), (0, 0))
    """
    if forgetting == 1.0:
        return 0, 0, 0.0
    longest = math.log(_FADE) / -math.log(forgetting)  # the longest cycle allowed, in steps
    every = max(int(longest / n_features), 1)
    rows = min(math.ceil(n_features * every / longest), n_features)
    return every, rows, n_features * every / rows * (1.0 - forgetting)


def rls_update(
    state: RLSState, features: npt.ArrayLike, targets: npt.ArrayLike, forgetting: float
) -> tuple[FloatArray, RLSState]:
    """Predict each row, then learn from it: (predictions (T, m), each made *before* its row is learned; the new state).

    Minimises Σ_k λ^(T−k) |y_k − W b_k|² plus the start's and the prior's terms. ``features`` (T, p), ``targets`` (T, m);
    ``forgetting`` λ in (0, 1]. The old state is not changed.
    """
    m, p = state.weights.shape
    if not 0.0 < forgetting <= 1.0:
        raise ValueError(f"forgetting must lie in (0, 1], got {forgetting}")
    b = np.ascontiguousarray(as_rows("features", features, p), np.float64)
    y = np.ascontiguousarray(as_rows("targets", targets, m), np.float64)
    if len(b) != len(y):
        raise ValueError(f"features and targets must have as many rows, got {len(b)} and {len(y)}")
    at, predictions = recursion(state, float(forgetting)), np.empty((len(b), m))
    if not _follow(at, b, y, float(forgetting), predictions):
        raise ValueError("rls_update left the range of float64 numbers; scale features and targets to about 1")
    return predictions, at.state(state)


def recursion(state: RLSState, forgetting: float) -> Recursion:
    """``state`` laid out for the kernels, in arrays of its own."""
    every, rows, weight = rotation(len(state.root), forgetting)
    root = np.empty(state.root.shape)
    triangle(_by_columns(state.root), root)
    clock = np.array([every, rows, state.row, state.waited], np.int64)
    prior_weights, prior_root = _frozen(state.prior_weights), _frozen(state.prior_root)
    return Recursion(root, np.array(state.weights, np.float64, order="C"), prior_weights, prior_root, clock, math.sqrt(weight))


def _by_columns(root: FloatArray) -> FloatArray:
    """The columns of S, one after the other; of one that is not upper triangular, those of the one that is and has the same S Sᵀ.

    What ``rls_update`` gave is triangular, and is not looked at: that would take as long as to learn a row. Nobody can have
    written to it: it is read-only, and so is the whole that it is a part of.
    """
    whole, same = root.base, (root.shape, root.strides, root.dtype)
    if isinstance(whole, np.ndarray) and not whole.flags.writeable and (whole.shape, whole.strides[::-1], whole.dtype) == same:
        return whole
    if np.tril(root, -1).any():
        root = scipy.linalg.rq(root, mode="r")
    return _frozen(root.T)


def _frozen(values: FloatArray) -> Array:
    """Contiguous and read-only: numba compiles once for each kind of array."""
    array = np.ascontiguousarray(values, np.float64).view()
    array.flags.writeable = False
    return array


@jit()
def _follow(at: Recursion, B: Array, Y: Array, forgetting: float, predictions: Array) -> bool:
    """Learn all rows, in place; whether all is finite."""
    m, p = at.weights.shape
    v, work, error = np.empty(p), np.empty((2, p)), np.empty(m)
    for t in range(len(B)):
        for q in range(p):
            v[q] = B[t, q]
        for o in range(m):
            predictions[t, o] = product(at.weights[o], v)
            error[o] = Y[t, o] - predictions[t, o]
        if not learn_row(at, v, error, work, forgetting):
            return False
    return True


def start_empty(n_features: int, n_targets: int, delta: float, groups: Groups | None = None) -> tuple[Readout, RLSState]:
    """A readout that has learnt nothing: no weights, P = ``delta`` · I, and R = I until the first row shows an error."""
    if groups is None:
        rls = rls_start((n_features, n_targets, delta))
        return Readout(rls.weights, np.eye(n_targets), rls.root, 0), rls
    _check_shared(groups)
    rls = rls_start((groups.n_features, groups.n_outputs, delta))
    return Readout(np.zeros((n_targets, n_features)), np.eye(n_targets), rls.root, 0, groups), rls


def start_from_batch(readout: Readout, delta: float | None) -> tuple[Readout, RLSState]:
    """From a batch solution: with its own precision, or with the paper's P = ``delta`` · I."""
    _check_shared(readout.groups)
    own = readout.own[0]
    m, p = own.weights.shape
    return readout, rls_start(own) if delta is None else rls_start((p, m, delta), weights=own.weights)


def _check_shared(groups: Groups | None) -> None:
    if groups is not None and not groups.shared:
        raise ValueError("local must have shared=True to learn row by row, got shared=False")


def update(
    readout: Readout, rls: RLSState, features: FloatArray, targets: FloatArray, forgetting: float
) -> tuple[FloatArray, Readout, RLSState]:
    """Predict each row, then learn from it: predictions made *before* each update, and what was learnt.

    R becomes the mean square of these predictions' errors under the same forgetting, R ← Σ λ^(n−k) e_k e_kᵀ / Σ λ^(n−k), with
    the batch's R for the rows of the batch. The errors hold the leverage of their rows too: R errs to the large side.
    """
    if readout.groups is not None:
        return _update_groups(readout, rls, features, targets, forgetting)
    predictions, rls = rls_update(rls, features, targets, forgetting)
    R, n = _residual_cov(readout, targets - predictions, forgetting), readout.n_samples + len(features)
    return predictions, Readout(rls.weights, R, rls.root, n), rls


def _update_groups(
    readout: Readout, rls: RLSState, features: FloatArray, targets: FloatArray, forgetting: float
) -> tuple[FloatArray, Readout, RLSState]:
    """The same where groups share their weights: all of a row are predicted before any of it is learnt from.

    What a row forgets is shared out among its groups, λ^(1/G) each.
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
    """R after rows of these errors (n, m)."""
    n, rows = len(errors), 1.0
    if n != 1:  # the newest row is whole
        fading = forgetting ** np.arange(n - 1, -1, -1, dtype=np.float64)
        errors, rows = errors * np.sqrt(fading)[:, None], fading.sum()
    before = forgetting**n * effective_rows(readout.n_samples, forgetting)
    total = before + rows
    return (before * readout.residual_cov + errors.T @ errors) / total if total > 0.0 else readout.residual_cov


def effective_rows(n_samples: int, forgetting: float) -> float:
    """Σ λ^k over k < n: what n rows, the newest whole and each older one faded once more, count for."""
    return float(n_samples) if forgetting == 1.0 else (1.0 - forgetting**n_samples) / (1.0 - forgetting)
