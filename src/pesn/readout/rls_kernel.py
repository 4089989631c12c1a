"""Recursive least squares a row at a time, compiled: one pass over half a matrix, in place.

P = S Sᵀ with S upper triangular, kept by its columns: row j of ``root`` is column j of S, its first j + 1 entries. A row v to be
fitted, after P has grown by 1/λ, changes S column by column (Carlson's square-root filter). With f_j = S_jᵀ v and sums
α_j = λ + Σ_{i ≤ j} f_i², g = Σ_{i < j} f_i S_i,

    S_j ← (√(α_{j−1}/α_j) S_j − f_j/√(α_{j−1} α_j) g)/√λ,        and at the end  W ← W + e gᵀ/α  for the error e:  g = P v.

A column needs nothing but itself, v, and what the columns before it have left in α and g: so S is read once and written once, and
only its half. The diagonal is multiplied by √(α_{j−1}/(λ α_j)) > 0: S cannot lose rank, and S Sᵀ is never indefinite whatever the
rounding.

Four columns share a pass over v. Of each, zeros are taken in up to whole SIMD registers, which they remain: entries of g beyond
j are 0 as long as no column beyond j has been seen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy.typing as npt

from pesn._support.jit import INLINE, jit

__all__ = ["absorb", "learn_row", "leverage", "product", "triangle"]

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
    a0 = v.dtype.type(0)
    a1 = a2 = a3 = a0
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
    total = w.dtype.type(0)
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
    number = root.dtype.type  # scalars in the matrix's own precision: a float64 among float32 would halve the speed
    p = root.shape[0]
    for q in range(p):
        g[q] = 0
    alpha, grown, before = forgetting, 1.0 / math.sqrt(forgetting), math.sqrt(forgetting)
    for j in range(first - first % 4, p - 3, 4):
        width = _width(j + 3, p)
        s0, s1, s2, s3, sums = root[j, :width], root[j + 1, :width], root[j + 2, :width], root[j + 3, :width], g[:width]
        f0, f1, f2, f3 = _dots(s0, s1, s2, s3, v[:width])
        a0 = alpha + float(f0) * float(f0)
        a1 = a0 + float(f1) * float(f1)
        a2 = a1 + float(f2) * float(f2)
        a3 = a2 + float(f3) * float(f3)
        r0, r1, r2, r3 = math.sqrt(a0), math.sqrt(a1), math.sqrt(a2), math.sqrt(a3)
        c0, c1, c2, c3 = grown * before / r0, grown * r0 / r1, grown * r1 / r2, grown * r2 / r3
        _turn(s0, s1, sums, number(c0), number(c0 * f0 / alpha), f0, number(c1), number(c1 * f1 / a0), f1)
        _turn(s2, s3, sums, number(c2), number(c2 * f2 / a1), f2, number(c3), number(c3 * f3 / a2), f3)
        alpha, before = a3, r3
    for j in range(p - p % 4, p):  # those that are left
        f = product(root[j], v)
        a0 = alpha + float(f) * float(f)
        r0 = math.sqrt(a0)
        c0 = grown * before / r0
        _turn_one(root[j], g[:p], number(c0), number(c0 * f / alpha), f)
        alpha, before = a0, r0
    return alpha


@jit(**_LOOSE)
def leverage(root: Array, v: Array) -> float:
    """Vᵀ P v."""
    total, p = 0.0, root.shape[0]
    for j in range(0, p - 3, 4):
        width = _width(j + 3, p)
        f0, f1, f2, f3 = _dots(root[j, :width], root[j + 1, :width], root[j + 2, :width], root[j + 3, :width], v[:width])
        total += float(f0) * float(f0) + float(f1) * float(f1) + float(f2) * float(f2) + float(f3) * float(f3)
    for j in range(p - p % 4, p):
        f = product(root[j], v)
        total += float(f) * float(f)
    return total


@jit(**_LOOSE, **INLINE)
def _move(weights: Array, error: Array, g: Array, alpha: float) -> bool:
    """W ← W + e gᵀ/α; whether all is finite."""
    wrong = alpha * 0.0  # an infinite α learns nothing, and would say nothing
    for o in range(weights.shape[0]):
        by, w = weights.dtype.type(error[o] / alpha), weights[o]
        nothing = zero = weights.dtype.type(0)
        for q in range(w.size):
            w[q] += by * g[q]
            nothing += w[q] * zero  # NaN where it is not finite: no branch
        wrong += nothing
    return bool(wrong == 0.0)


@jit(**_LOOSE)
def learn_row(
    root: Array, weights: Array, prior_weights: Array, prior_root: Array, v: Array, error: Array, work: Array,
    clock: Array, forgetting: float, scale: float,
) -> bool:  # fmt: skip
    """Learn the row v from the ``error`` (m,) of its prediction, and then the prior's rows whose turn it is.

    ``root`` and ``weights`` (m, p) move in place. ``work``: two rows of working memory as long as v; ``error`` is overwritten;
    ``clock`` is (every, rows, next row of the prior, steps since the last one). False where a number was left that is not finite.
    """
    g, line, p = work[0], work[1], weights.shape[1]
    finite = _move(weights, error, g, absorb(root, v, g, forgetting, 0))
    clock[3] += 1
    if clock[0] == 0 or clock[3] < clock[0]:
        return finite
    clock[3] = 0
    for _ in range(clock[1]):
        first = p
        for q in range(p - 1, -1, -1):
            line[q] = prior_root[clock[2], q] * scale
            if line[q] != 0.0:
                first = q
        for o in range(len(weights)):
            error[o] = product(prior_weights[o], line) - product(weights[o], line)
        finite = _move(weights, error, g, absorb(root, line, g, 1.0, first)) and finite
        clock[2] = (clock[2] + 1) % p
    return finite
