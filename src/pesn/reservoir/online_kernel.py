"""A network that takes one row, predicts and learns, compiled: no checks but for NaN, and every array is made before.

All functions are given a table of arrays (:mod:`pesn._support.arguments`), whose places have names below. FEATURES holds what the
readout sees of the last row, [1, row, earlier rows, products, units]: the units live there. COUNTS are whole
numbers: the clock of the recursion (:func:`pesn.readout.rls.learn_row`), and those named below. NUMBERS: forgetting λ;
what a row of the prior is multiplied by; Σ λ^k over the rows learnt from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.array_table import matrix, put, unsigned, vector, whole
from pesn._support.jit import INLINE, jit
from pesn.readout.rls import learn_row, leverage, product
from pesn.reservoir.kernels import OWN as OWN
from pesn.reservoir.kernels import TEACHER as TEACHER
from pesn.reservoir.kernels import Weights, drive

Array = npt.NDArray[Any]

# Places in the table.
COUNTS, NUMBERS, ROW, FEATURES, FED_BACK, OUT, TARGET, STD, WORK = range(9)
WEIGHTS, ROOT, PRIOR_WEIGHTS, PRIOR_ROOT, RESIDUAL_COV = range(9, 14)
INDPTR, INDICES, DATA, W_IN, W_FB, BIAS, LEAK, ENDS, ROTATION = range(14, 23)
SIZE = 23

# Places in COUNTS, after the clock's four: rows learnt from; rows still to be washed out; whether there are rows before the next
# one; whether the last row may be learnt from (1), has been or is missing (0), or is washed out (−1); the features; what is fed
# back; the units that are moved here (0: somebody else has).
SAMPLES, TO_WASH, BEGUN, LEARNS, LAGS, PRODUCTS, FED, UNITS = 4, 5, 6, 7, 8, 9, 10, 11
FINE, NOT_FINITE, NOTHING_TO_LEARN, OUT_OF_RANGE = 0, 1, 2, 3  # what the functions return

_LARGEST = 1e100  # as rows in fit
_LARGEST_FACTOR = 1e50  # where rows are multiplied with each other


@jit()
def _enter(counts: Array, x: Array, b: Array) -> None:
    """Row x among the features: earlier rows move on, products are made anew."""
    d, earlier = x.size, counts[LAGS] * x.size
    if counts[BEGUN]:
        for q in range(d + earlier, d, -1):
            b[q] = b[q - d]
    else:  # the first row stands for those before it
        for q in range(earlier):
            b[1 + d + q] = x[q % d]
        counts[BEGUN] = 1
    for q in range(d):
        b[1 + q] = x[q]
    place, factors = 1 + d + earlier, counts[PRODUCTS] * d
    for i in range(factors):
        for j in range(i, factors):
            b[place] = b[1 + i] * b[1 + j]
            place += 1


@jit()
def tabulate(
    table: Array, counts: Array, numbers: Array,
    row: Array, features: Array, fed_back: Array, out: Array, target: Array, std: Array, work: Array,
    weights: Array, root: Array, prior_weights: Array, prior_root: Array, residual_cov: Array,
    indptr: Array, indices: Array, data: Array, W_in: Array, W_fb: Array, bias: Array, leak: Array, ends: Array, rotation: Array,
) -> None:  # fmt: skip
    """Fill the table (SIZE, 3); the last nine are ``Weights``."""
    put(table, COUNTS, counts)
    put(table, NUMBERS, numbers)
    put(table, ROW, row)
    put(table, FEATURES, features)
    put(table, FED_BACK, fed_back)
    put(table, OUT, out)
    put(table, TARGET, target)
    put(table, STD, std)
    put(table, WORK, work)
    put(table, WEIGHTS, weights)
    put(table, ROOT, root)
    put(table, PRIOR_WEIGHTS, prior_weights)
    put(table, PRIOR_ROOT, prior_root)
    put(table, RESIDUAL_COV, residual_cov)
    put(table, INDPTR, indptr)
    put(table, INDICES, indices)
    put(table, DATA, data)
    put(table, W_IN, W_in)
    put(table, W_FB, W_fb)
    put(table, BIAS, bias)
    put(table, LEAK, leak)
    put(table, ENDS, ends)
    put(table, ROTATION, rotation)


@jit(**INLINE)
def _reservoir(table: Array) -> Weights:
    indptr, indices, data = unsigned(table, INDPTR), unsigned(table, INDICES), vector(table, DATA)
    W_in, W_fb, bias = matrix(table, W_IN), matrix(table, W_FB), vector(table, BIAS)
    leak, ends, rotation = vector(table, LEAK), whole(table, ENDS), matrix(table, ROTATION)
    return Weights(indptr, indices, data, W_in, W_fb, bias, leak, ends, rotation)


@jit()
def step(table: Array) -> int:
    """ROW enters the features, the units move, OUT is predicted, and is what is fed back unless ``learn`` knows better."""
    counts, x, b = whole(table, COUNTS), vector(table, ROW), vector(table, FEATURES)
    y, weights, out = vector(table, FED_BACK), matrix(table, WEIGHTS), vector(table, OUT)
    largest = _LARGEST_FACTOR if counts[PRODUCTS] else _LARGEST
    for q in range(x.size):
        if not abs(x[q]) < largest:  # NaN neither
            return NOT_FINITE
    _enter(counts, x, b)
    n, p = counts[UNITS], weights.shape[1]
    if n:
        h, row, none = b[p - n : p], b[1 : 1 + x.size].reshape((1, x.size)), weights[:0]
        net = _reservoir(table)
        state = matrix(table, WORK)[0, :n].reshape((1, n))
        # the teacher's row is what is fed back itself, which so stays as it is
        drive(net, row, TEACHER, y.reshape((1, y.size)), none, 0.0, h, y, state, none)
    for o in range(out.size):
        out[o] = product(weights[o], b)
        y[o] = out[o]
    counts[LEARNS] = -1 if counts[TO_WASH] > 0 else 1
    counts[TO_WASH] -= counts[TO_WASH] > 0
    return FINE


@jit()
def learn(table: Array) -> int:
    """Learn TARGET for the last row, for which OUT was predicted; TARGET becomes the error of that."""
    counts, numbers, R = whole(table, COUNTS), vector(table, NUMBERS), matrix(table, RESIDUAL_COV)
    y, out, target = vector(table, FED_BACK), vector(table, OUT), vector(table, TARGET)
    m = target.size
    for o in range(m):
        if not abs(target[o]) < _LARGEST:
            return NOT_FINITE
    if counts[LEARNS] == 0:
        return NOTHING_TO_LEARN
    washed = counts[LEARNS] < 0
    counts[LEARNS] = 0
    for o in range(m):
        if counts[FED] != OWN:
            y[o] = target[o]
        target[o] -= out[o]
    if washed:
        return FINE
    # R ← Σ λ^(n−k) e_k e_kᵀ / Σ λ^(n−k), as in pesn.readout.rls
    before = numbers[0] * numbers[2]
    numbers[2] = before + 1.0
    for i in range(m):
        for j in range(m):
            R[i, j] = (before * R[i, j] + target[i] * target[j]) / numbers[2]
    counts[SAMPLES] += 1
    prior_weights, prior_root = matrix(table, PRIOR_WEIGHTS), matrix(table, PRIOR_ROOT)
    root, weights, b, work = matrix(table, ROOT), matrix(table, WEIGHTS), vector(table, FEATURES), matrix(table, WORK)
    fine = learn_row(root, weights, prior_weights, prior_root, b, target, work, counts[:4], numbers[0], numbers[1])
    return FINE if fine else OUT_OF_RANGE


@jit()
def deviations(table: Array) -> None:
    """STD of the last prediction: √(R (1 + bᵀ P b)), of the residuals and of the weights."""
    R, std = matrix(table, RESIDUAL_COV), vector(table, STD)
    spread = 1.0 + leverage(matrix(table, ROOT), vector(table, FEATURES))
    for o in range(std.size):
        std[o] = np.sqrt(R[o, o] * spread)


@jit()
def follow(table: Array, X: Array, Y: Array, predictions: Array, features: Array) -> int:
    """``step`` and ``learn`` row by row: fills ``predictions`` (T, m), and ``features`` (T, p) where it is not empty."""
    x, b, out, target = vector(table, ROW), vector(table, FEATURES), vector(table, OUT), vector(table, TARGET)
    for k in range(X.shape[0]):
        for q in range(x.size):
            x[q] = X[k, q]
        wrong = step(table)
        if wrong:
            return wrong
        for o in range(out.size):
            predictions[k, o] = out[o]
            target[o] = Y[k, o]
        for q in range(features.shape[1]):
            features[k, q] = b[q]
        wrong = learn(table)
        if wrong:
            return wrong
    return FINE
