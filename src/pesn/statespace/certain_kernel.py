"""The compiled loop of means: sixteen states side by side go through all rows before the next sixteen."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pesn._support.jit import jit
from pesn.moments.special import tanh
from pesn.statespace.kernels import SIDE_BY_SIDE, row_times_16
from pesn.statespace.state import FARTHEST
from pesn.statespace.units import REACH

__all__ = ["roll_means"]

Array = npt.NDArray[Any]


@jit(fastmath={"contract", "nsz"})
def roll_means(
    cells: Array, leaks: Array, indptr: Array, indices: Array, data: Array, bias: Array, K_indptr: Array, K_indices: Array,
    K_data: Array, k: Array, edges: Array, inputs: Array, first_input: int, moved: bool, x: Array, mean: Array, left: Array,
) -> None:  # fmt: skip
    """States x (R, S, n) of R readouts through all rows, in place; y of each row in ``mean`` (R, S, T, d), and where it had left.

    ``cells`` (c, 3): the first row of each cell in x, how many, and what it does, 0 tanh, 1 square, 2 sine; their matrices stand
    one under another, ``leaks`` and biases too.
    ``edges`` (5, d): least and largest mean, between which one is brought back that is beyond these and the one before, and the
    largest step, beyond which it stays where it was.
    """
    _, states, n = x.shape
    steps, d = mean.shape[2:]
    p, m = k.shape[1], inputs.shape[3]
    here, new = np.empty((n, SIDE_BY_SIDE)), np.empty((max(bias.size, p), SIDE_BY_SIDE))
    for r in range(x.shape[0]):
        weights = K_data[r]
        for first in range(0, states, SIDE_BY_SIDE):
            count = min(SIDE_BY_SIDE, states - first)
            for s in range(SIDE_BY_SIDE):  # where they end, the last of them again
                one = x[r, min(first + s, states - 1)]
                for j in range(n):
                    here[j, s] = one[j]
            for t in range(steps):
                if t or not moved:
                    for j in range(m):
                        for s in range(SIDE_BY_SIDE):
                            here[first_input + j, s] = inputs[r, min(first + s, states - 1), t, j]
                    row = 0
                    for c in range(cells.shape[0]):
                        start, rows, kind = cells[c]
                        for i in range(rows):
                            row_times_16(indices, data, indptr[row + i], indptr[row + i + 1], here, 0, new, i)
                        for i in range(rows):
                            now, unit, b, leak = here[start + i], new[i], bias[row + i], leaks[row + i]
                            keep = 1.0 - leak
                            if kind == 1:
                                for s in range(SIDE_BY_SIDE):
                                    a = min(max(unit[s] + b, -REACH), REACH)
                                    now[s] = keep * now[s] + leak * (a * a)
                            elif kind == 2:
                                for s in range(SIDE_BY_SIDE):
                                    now[s] = keep * now[s] + leak * np.sin(unit[s] + b)
                            else:
                                for s in range(SIDE_BY_SIDE):
                                    now[s] = keep * now[s] + leak * tanh(unit[s] + b)
                        row += rows
                for i in range(p):
                    row_times_16(K_indices, weights, K_indptr[i], K_indptr[i + 1], here, 0, new, i)
                    for s in range(SIDE_BY_SIDE):
                        new[i, s] = min(max(new[i, s] + k[r, i], -FARTHEST), FARTHEST)
                for i in range(d):
                    for s in range(count):
                        value, before = new[i, s], here[i, s]
                        if value < min(edges[0, i], before) or value > max(edges[1, i], before):
                            new[i, s] = value = min(max(value, edges[2, i]), edges[3, i])
                            left[r, first + s, t, i] = True
                        elif abs(value - before) > edges[4, i]:
                            new[i, s] = value = before
                            left[r, first + s, t, i] = True
                        mean[r, first + s, t, i] = value
                for i in range(p):
                    for s in range(SIDE_BY_SIDE):
                        here[i, s] = new[i, s]
            for s in range(count):
                one = x[r, first + s]
                for j in range(n):
                    one[j] = here[j, s]
