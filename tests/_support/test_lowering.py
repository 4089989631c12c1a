"""Kernels compiled with the short lowering return what Python returns, at every kind of index, range and array."""

import numpy as np
import pytest
from numba import njit
from numba.core.types.functions import BaseFunction

from pesn._support.jit import SMALL, jit


def _read_and_write(a, out):
    for i in range(a.shape[0]):
        for j in range(i, a.shape[1]):
            out[i, j] = 2 * a[i, j] + a[-1, 0]
            out[i, j] += a[i, -1]
    return out[-1, -1]


def _walk(a, start, stop, step):
    total = 0
    for i in range(start, stop, step):
        total = 10 * total + a[i]
    for i in range(start, stop):
        total += i
    for i in range(np.uint64(3), np.uint64(5)):
        total += a[i]
    return total


def _leave_early(a, least):
    for i in range(len(a)):
        if a[i] > least:
            for _ in range(i, 2):
                return i
            break
    else:
        return -1
    return 100 + i


def _slice(a, mask):
    column, total = a[1:, 0], 0.0
    for i in range(column.size):
        total += column[i] if mask[i] else -1.0
    pair = (a[0], a[1])
    for row in pair:
        total += row[1]
    mask[0] = not mask[0]
    return total


@pytest.mark.parametrize("options", [{}, SMALL], ids=["usual", "small"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.uint16])
def test_entries_of_arrays(dtype, options):
    for a in (np.arange(12, dtype=dtype).reshape(3, 4), np.arange(24, dtype=dtype).reshape(3, 8)[:, ::2]):
        expected, found = np.zeros(a.shape, dtype), np.zeros(a.shape, dtype)
        assert jit(**options)(_read_and_write)(a, found) == _read_and_write(a, expected)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 6, 1), (5, 0, -2), (1, 6, 2), (4, 4, 1), (5, 2, 1)])
def test_ranges(start, stop, step):
    a = np.arange(1, 8)
    assert jit()(_walk)(a, start, stop, step) == _walk(a, start, stop, step)


@pytest.mark.parametrize("least", [-1, 0, 1, 2, 9])
def test_loops_that_end_early(least):
    a = np.arange(4)
    assert jit()(_leave_early)(a, least) == _leave_early(a, least)


def test_slices_tuples_of_arrays_and_booleans():
    a, mask = np.arange(12.0).reshape(4, 3), np.array([True, False, True])
    expected = _slice(a, mask)
    mask[0] = True
    assert jit()(_slice)(a, mask) == expected
    assert not mask[0]


def test_other_functions_of_the_process_are_compiled_by_numba_alone():
    before = BaseFunction.get_call_type

    @njit
    def plain(a):
        return a[-1]

    with pytest.raises(ZeroDivisionError):
        jit(error_model="python")(lambda x: x // 0)(1)
    assert BaseFunction.get_call_type is before
    index = -1
    assert njit(lambda a, i: a[i])(np.arange(3), index) == plain(np.arange(3)) == 2  # negative indices wrap around there
