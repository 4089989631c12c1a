"""Recursive least squares with forgetting, in Potter's square-root form: the weights follow the data row by row.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> features = np.column_stack([np.ones(2000), rng.normal(size=(2000, 2))])
>>> targets = features @ [[0.5], [1.0], [-2.0]]
>>> targets[1000:] += features[1000:, 1:2]  # the weights change on the way
>>> predictions, state = rls_update(rls_start((3, 1, 100.0)), features, targets, forgetting=0.98)
>>> state.weights.round(2)
array([[ 0.5,  2. , -2. ]])
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, as_rows
from pesn._support.jit import jit
from pesn._support.records import check_arrays, check_counts
from pesn._support.types import FloatArray
from pesn.readout.ridge import Readout

__all__ = ["RLSState", "rls_start", "rls_update", "rotation"]

# Sums may be taken in any order, as SIMD does. NaN and infinity keep their meaning: they are looked for at the end.
_LOOSE = {"fastmath": {"reassoc", "contract", "nsz"}}
_FADE = 10.0  # how far the precision may fade between two visits of a regularisation row


class RLSState(NamedTuple):
    """What the recursion carries; never changed in place: an update gives new arrays, ``root`` a read-only one.

    ``weights`` (m, p); ``root`` S (p, p) with P = S Sᵀ, the covariance of the weights but for the factor R; the prior that
    forgetting falls back to: ``prior_weights`` (m, p) and ``prior_root`` (p, p), whose rows l make its precision
    Σ l lᵀ; ``row``: the next of these rows; ``waited``: the steps since the last one.
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


def rls_start(
    start: Readout | tuple[int, int, float],
    *,
    weights: npt.ArrayLike | None = None,
    prior_samples: float = 1.0,
    dtype: npt.DTypeLike = np.float64,
) -> RLSState:
    """Where recursive least squares starts: at a batch solution with its own precision, or at P = δ I.

    Parameters
    ----------
    start
        A :class:`~pesn.readout.ridge.Readout`, or (p, m, delta) for P = delta·I.
    weights
        The weights (m, p) to start from, in place of the batch solution's or of zeros.
    prior_samples
        After a batch solution: what the rows that it learned from are worth once they have been forgotten, in rows. They draw
        weights that have changed back by a share of prior_samples·(1 − λ); all n of them would hold them for ever.
    dtype
        float64 or float32: of the state, and so of everything that follows.
    """
    if isinstance(start, Readout):
        p = start.weights.shape[1]
        if not (math.isfinite(prior_samples) and prior_samples > 0.0):
            raise ValueError(f"prior_samples must be finite and positive, got {prior_samples}")
        initial, root = start.weights, start.covariance_root
        # A = S⁻ᵀ S⁻¹: the rows of S⁻¹ make up the precision, here that of prior_samples of the n rows.
        prior_root = np.linalg.inv(root) * math.sqrt(min(prior_samples / start.n_samples, 1.0))
    else:
        p, m, delta = start
        if p < 1 or m < 1:
            raise ValueError(f"start must be (features, targets, delta) with at least one of each, got {start}")
        if not (math.isfinite(delta) and delta > 0.0):
            raise ValueError(f"delta must be finite and positive, got {delta}")
        initial = np.zeros((m, p))
        root, prior_root = np.eye(p) * math.sqrt(delta), np.eye(p) / math.sqrt(delta)
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {np.dtype(dtype)}")
    if weights is not None:
        given = as_real("weights", weights)
        if given.shape != initial.shape:
            raise ValueError(f"weights must have shape {initial.shape}, got {given.shape}")
        initial = given
    initial, root, prior_root = (np.array(a, dtype, order="C") for a in (initial, root, prior_root))
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
    ``forgetting`` λ in (0, 1]. The computation is in the state's dtype; the old state is not changed.
    """
    dtype = state.root.dtype
    m, p = state.weights.shape
    if not 0.0 < forgetting <= 1.0:
        raise ValueError(f"forgetting must lie in (0, 1], got {forgetting}")
    b = np.ascontiguousarray(as_rows("features", features, p), dtype)
    y = np.ascontiguousarray(as_rows("targets", targets, m), dtype)
    if len(b) != len(y):
        raise ValueError(f"features and targets must have as many rows, got {len(b)} and {len(y)}")
    every, rows, weight = rotation(p, float(forgetting))
    old = _padded(state.root)
    root, weights = np.empty(old.shape, dtype), np.array(state.weights, dtype, order="C")
    predictions = np.empty((len(b), m), dtype)
    prior = state.prior_weights, state.prior_root, dtype.type(math.sqrt(weight))
    clock = every, rows, state.row, state.waited
    in_range, row, waited = _follow(old, root, weights, *prior, b, y, *clock, float(forgetting), predictions)
    root.flags.writeable = False
    if not in_range:
        raise ValueError(f"rls_update left the range of {dtype} numbers; scale features and targets to about 1")
    return predictions, RLSState(weights, root[:p, :p], state.prior_weights, state.prior_root, row, waited)


def _padded(root: FloatArray) -> FloatArray:
    """S with zeros up to whole blocks of rows and whole SIMD registers: zeros they remain, and no loop has a remainder.

    What ``rls_update`` gave is the first part of such an array, which is taken as it is: a copy costs as much as learning a row.
    Nobody can have written to it: it is read-only, padding and all.
    """
    p, whole = len(root), root.base
    shape = p + -p % 4, p + -p % 16
    if isinstance(whole, np.ndarray) and not whole.flags.writeable:
        layout = whole.shape, whole.strides, whole.dtype
        if layout == (shape, root.strides, root.dtype):
            return whole
    padded = np.zeros(shape, root.dtype)
    padded[:p, :p] = root
    padded.flags.writeable = False
    return padded


@jit()
def _follow(old, S, weights, W0, prior, scale, B, Y, every, rows, row, waited, forgetting, predictions):  # type: ignore[no-untyped-def]
    """Learn all rows: ``old`` becomes S, ``weights`` move in place. Whether all is finite, the next prior row, the wait."""
    m, p = weights.shape
    events, row, waited = _schedule(len(B), p, every, rows, row, waited)
    # entry by entry here and below: numba compiles the error message of a[:] = b too, which takes seconds
    W = np.zeros((m, len(S)), S.dtype)
    for j in range(m):
        for q in range(p):
            W[j, q] = weights[j, q]
    in_range = _absorb(old, S, W, W0, prior, scale, B, Y, events, forgetting, predictions)
    for j in range(m):
        for q in range(p):
            weights[j, q] = W[j, q]
            in_range = in_range and math.isfinite(weights[j, q])
    return in_range, row, waited


@jit()
def _schedule(steps, n_rows, every, rows, row, waited):  # type: ignore[no-untyped-def]
    """What is absorbed, in order: t ≥ 0 stands for the data's row t, −1 − i for row i of the prior."""
    events = np.empty(steps * (1 + rows), np.int64)
    n = 0
    for t in range(steps):
        events[n] = t
        n += 1
        waited += 1
        if every > 0 and waited >= every:
            waited = 0
            for _ in range(rows):
                events[n] = -1 - row
                n += 1
                row = (row + 1) % n_rows
    return events[:n], row, waited


@jit(**_LOOSE)
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for q in range(a.size):
        total += a[q] * b[q]
    return total


@jit(**_LOOSE)
def _dots(s0, s1, s2, s3, f, k):  # type: ignore[no-untyped-def]
    """Four rows times two vectors: each row is loaded once."""
    a0 = f.dtype.type(0)
    a1 = a2 = a3 = c0 = c1 = c2 = c3 = a0
    for q in range(f.size):
        x, y = f[q], k[q]
        a0 += s0[q] * x
        a1 += s1[q] * x
        a2 += s2[q] * x
        a3 += s3[q] * x
        c0 += s0[q] * y
        c1 += s1[q] * y
        c2 += s2[q] * y
        c3 += s3[q] * y
    return a0, a1, a2, a3, c0, c1, c2, c3


@jit(**_LOOSE)
def _turn(s, t, c, sf, sk, tf, tk, f, k):  # type: ignore[no-untyped-def]
    """Two rows at once: s ← c s − sf f − sk k, t ← c t − tf f − tk k."""
    for q in range(f.size):
        x, y = f[q], k[q]
        s[q] = c * s[q] - sf * x - sk * y
        t[q] = c * t[q] - tf * x - tk * y


@jit()
def _copy(s, t, old_s, old_t):  # type: ignore[no-untyped-def]
    """Two rows; with more at once, LLVM gives up on proving that they do not overlap, and does not vectorise."""
    for q in range(s.size):
        s[q], t[q] = old_s[q], old_t[q]


@jit(**_LOOSE)
def _dots_of_one(s0, s1, s2, s3, f):  # type: ignore[no-untyped-def]
    """``_dots`` for a single event."""
    a0 = f.dtype.type(0)
    a1 = a2 = a3 = a0
    for q in range(f.size):
        x = f[q]
        a0 += s0[q] * x
        a1 += s1[q] * x
        a2 += s2[q] * x
        a3 += s3[q] * x
    return a0, a1, a2, a3


@jit(**_LOOSE)
def _turn_by_one(s, t, old_s, old_t, c, sf, tf, f):  # type: ignore[no-untyped-def]
    """``_turn`` for a single event, k = 0, from two rows into two others."""
    for q in range(f.size):
        x = f[q]
        s[q] = c * old_s[q] - sf * x
        t[q] = c * old_t[q] - tf * x


@jit(**_LOOSE)
def _gather(out, v, r, s0, s1, s2, s3):  # type: ignore[no-untyped-def]
    """Four rows' share in Sᵀ v."""
    v0, v1, v2, v3 = v[r], v[r + 1], v[r + 2], v[r + 3]
    for q in range(out.size):
        out[q] += v0 * s0[q] + v1 * s1[q] + v2 * s2[q] + v3 * s3[q]


@jit()
def _look_up(events, e, B, prior, scale, v):  # type: ignore[no-untyped-def]
    """Event e's row into v, zeros beyond the last event (which then changes nothing)."""
    p = B.shape[1]
    if e >= events.size:
        v[:] = 0
    elif events[e] >= 0:
        for q in range(p):
            v[q] = B[events[e], q]
    else:
        for q in range(p):
            v[q] = prior[-1 - events[e], q] * scale


@jit(**_LOOSE)
def _errors(event, W, W0, v, Y, known, predictions, error):  # type: ignore[no-untyped-def]
    """Target less prediction; ``known`` is what the event before has just added to the prediction."""
    p = W0.shape[1]
    for j in range(W.shape[0]):
        value = _dot(W[j], v) + known[j]
        if event >= 0:
            predictions[event, j] = value
            error[j] = Y[event, j] - value
        else:
            error[j] = _dot(W0[j], v[:p]) - value


@jit(**_LOOSE)
def _absorb(old, S, W, W0, prior, scale, B, Y, events, forgetting, predictions):  # type: ignore[no-untyped-def]
    """Absorb all events into W, in place, and into ``old``, which becomes S, two in one pass; False where S is not finite.

    An event is a row v to be fitted, after P has grown by 1/λ (λ < 1 for data, λ = 1 for the prior's rows). Potter:
        f = Sᵀv,  α = λ + fᵀf,  W ← W + e (S f)ᵀ/α,  S ← (S − γ (S f) fᵀ)/√λ,  γ = 1/(α + √(λα)):
    (I − γ f fᵀ)² = I − f fᵀ/α makes S Sᵀ the P of the textbook; I − γ f fᵀ has the eigenvalues 1 and √(λ/α) > 0, so S cannot
    lose rank, and S Sᵀ is never indefinite whatever the rounding.

    One pass: both events' products u = Sᵀv were gathered on the pass before, from rows just written. The second
    event's own, after the first has turned S, is k = (u₂ − γ₁ (f·u₂) f)/√λ₁, without S. A row s then changes to
        c₁c₂ s − c₁c₂γ₁ g f − c₂γ₂ h k,   g = s·f,  h = c₁ (s·k − γ₁ g (f·k)),   cᵢ = 1/√λᵢ.
    """
    number = S.dtype.type  # scalars in the matrix's own precision: a float64 among float32 would halve the speed
    rows, width = S.shape
    V, U, NEXT = np.zeros((2, rows), S.dtype), np.zeros((2, width), S.dtype), np.zeros((2, width), S.dtype)
    k, (g, h) = np.empty(width, S.dtype), np.zeros((2, rows), S.dtype)
    known, error, error2 = np.zeros((3, W.shape[0]), S.dtype)
    for j in range(2):
        _look_up(events, j, B, prior, scale, V[j])
    for r in range(0, rows, 4):
        for j in range(min(events.size, 2)):
            _gather(U[j], V[j], r, old[r], old[r + 1], old[r + 2], old[r + 3])
    if events.size == 0:
        for r in range(0, rows, 4):
            _copy(S[r], S[r + 1], old[r], old[r + 1])
            _copy(S[r + 2], S[r + 3], old[r + 2], old[r + 3])
    for e in range(0, events.size, 2):
        last = e + 1 == events.size
        f, u = U[0], U[1]
        lam = forgetting if events[e] >= 0 else 1.0
        alpha = lam + _dot(f, f)
        gamma, c = 1.0 / (alpha + math.sqrt(lam * alpha)), 1.0 / math.sqrt(lam)
        fu = _dot(f, u)
        shift, grown = number(gamma * fu), number(c)
        for q in range(width):
            k[q] = grown * (u[q] - shift * f[q])
        lam2 = forgetting if not last and events[e + 1] >= 0 else 1.0
        alpha2 = lam2 + _dot(k, k)
        gamma2, c2 = 1.0 / (alpha2 + math.sqrt(lam2 * alpha2)), 1.0 / math.sqrt(lam2)
        if not (alpha < math.inf and alpha2 < math.inf):
            return False  # an infinite α learns nothing, and would say nothing
        known[:] = 0
        _errors(events[e], W, W0, V[0], Y, known, predictions, error)
        error2[:] = 0
        if not last:
            for j in range(W.shape[0]):  # the first event moves W by e (S f)ᵀ/α, and (S f)·v₂ = f·u₂
                known[j] = error[j] * fu / alpha
            _errors(events[e + 1], W, W0, V[1], Y, known, predictions, error2)
        for j in range(2):
            _look_up(events, e + 2 + j, B, prior, scale, V[j])
        NEXT[:] = 0
        a, x, both = number(gamma * _dot(f, k)), number(c), number(c * c2)
        on_f, on_k = number(c * c2 * gamma), number(c2 * gamma2)
        # After the last event V[0] is 0, and what is gathered too, unless S is not finite: 0 · ∞ is NaN.
        two_ahead = e + 3 < events.size
        for r in range(0, rows, 4):
            s0, s1, s2, s3 = S[r], S[r + 1], S[r + 2], S[r + 3]
            if e == 0:
                o0, o1, o2, o3 = old[r], old[r + 1], old[r + 2], old[r + 3]
                if last:  # a row a call: half of the work, as k = 0
                    g0, g1, g2, g3 = _dots_of_one(o0, o1, o2, o3, f)
                    g[r], g[r + 1], g[r + 2], g[r + 3] = g0, g1, g2, g3
                    _turn_by_one(s0, s1, o0, o1, both, on_f * g0, on_f * g1, f)
                    _turn_by_one(s2, s3, o2, o3, both, on_f * g2, on_f * g3, f)
                    _gather(NEXT[0], V[0], r, s0, s1, s2, s3)
                    continue
                _copy(s0, s1, o0, o1)
                _copy(s2, s3, o2, o3)
            g0, g1, g2, g3, d0, d1, d2, d3 = _dots(s0, s1, s2, s3, f, k)
            h0, h1, h2, h3 = x * (d0 - a * g0), x * (d1 - a * g1), x * (d2 - a * g2), x * (d3 - a * g3)
            g[r], g[r + 1], g[r + 2], g[r + 3] = g0, g1, g2, g3
            h[r], h[r + 1], h[r + 2], h[r + 3] = h0, h1, h2, h3
            _turn(s0, s1, both, on_f * g0, on_k * h0, on_f * g1, on_k * h1, f, k)
            _turn(s2, s3, both, on_f * g2, on_k * h2, on_f * g3, on_k * h3, f, k)
            _gather(NEXT[0], V[0], r, s0, s1, s2, s3)
            if two_ahead:
                _gather(NEXT[1], V[1], r, s0, s1, s2, s3)
        for j in range(W.shape[0]):
            w, by_g, by_h = W[j], number(error[j] / alpha), number(error2[j] / alpha2)
            for r in range(rows):
                w[r] += by_g * g[r] + by_h * h[r]
        U, NEXT = NEXT, U
    for q in range(width):  # noqa: SIM110  (numba compiles no generator)
        if not math.isfinite(U[0, q]):
            return False
    return True
