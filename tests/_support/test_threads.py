"""BLAS is limited to one thread on request; long arrays use the available threads, with the same result."""

import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import pesn
from pesn._support import threads
from pesn._support.threads import by_parts, n_threads, one_blas_thread


def blas_threads():
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_blas_threads_are_restored_by_the_last_context():
    before, first, second = blas_threads(), one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # not the order in which they came
    assert set(blas_threads()) <= {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


@one_blas_thread()
def count_inside(error=None):
    with one_blas_thread():
        found = blas_threads()
    assert blas_threads() == found  # the outer context is still there
    if error is not None:
        raise error
    return found


def test_blas_threads_are_restored_after_an_error():
    before = blas_threads()
    with pytest.raises(ZeroDivisionError, match="inside"):
        count_inside(ZeroDivisionError("inside"))
    assert blas_threads() == before
    assert set(count_inside()) <= {1}


def test_blas_is_limited_while_any_of_several_threads_is_inside():
    before = blas_threads()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: count_inside(), range(100)))
    assert all(set(one) <= {1} for one in found)
    assert blas_threads() == before


# ---------------------------------------------------------------- how many


def count_with(**variables):
    """Return the count of a new process with eight processors and these variables."""
    code = (
        "import joblib, types; from pesn._support import threads; joblib.cpu_count = lambda: 8; "
        "threads._controller = lambda _: types.SimpleNamespace(lib_controllers=[]); print(threads.n_threads())"
    )
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    run = subprocess.run([sys.executable, "-c", code], env={**plain, **variables}, check=True, capture_output=True, text=True)
    return int(run.stdout)


@pytest.mark.parametrize("name", ["NUMBA_NUM_THREADS", "OMP_NUM_THREADS"])
def test_threads_follow_environment_variables(name):
    assert count_with(**{name: "3"}) == 3
    assert count_with(**{name: ""}) == count_with() == 8


@pytest.mark.parametrize("limit", [1, 2])
def test_threads_follow_the_limit_of_blas_but_not_that_of_matrix_products(monkeypatch, limit):
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    with threadpool_limits(limit, user_api="blas"):
        if min(blas_threads()) < limit:
            pytest.skip("a BLAS of one thread")
        assert n_threads() == limit
        with one_blas_thread():
            assert n_threads() == limit


def test_other_threads_use_one_thread(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    counted = []
    worker = threading.Thread(target=lambda: counted.append(n_threads()))
    worker.start()
    worker.join()
    assert counted == [1]


def test_worker_processes_use_one_thread():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(n_threads).result() == 1


# ---------------------------------------------------------------- parts


@pytest.fixture
def several(monkeypatch):
    def choose(n):
        monkeypatch.setattr(threads, "n_threads", lambda: n)

    return choose


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [0, 1, 524_287, 524_288, 1_000_001, 3_000_000])
def test_parts_cover_all_elements_once(several, count, size):
    several(count)
    taken = sorted((part.start, part.stop) for part in by_parts(lambda part: part, size))
    assert taken[0][0] == 0
    assert taken[-1][1] == size
    assert all(before[1] == after[0] for before, after in itertools.pairwise(taken))
    assert len(taken) <= count
    assert (len(taken) > 1) == (count > 1 and size >= 524_288)


def test_an_error_of_a_part_is_raised(several):
    several(2)

    def refuse(part):
        raise ZeroDivisionError("a part")

    with pytest.raises(ZeroDivisionError, match="a part"):
        by_parts(refuse, 2_000_000)


@pytest.mark.parametrize("name", ["tanh", "relu", "elu"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_are_the_same_to_the_bit(several, name, dtype):
    rng = np.random.default_rng(0)
    mean, var = rng.normal(0.0, 12.0, 600_003).astype(dtype), (10.0 ** rng.uniform(-6.0, 2.0, 600_003)).astype(dtype)
    found = []
    for n in (1, 3):
        several(n)
        found.append((*pesn.moments(name, mean, var)[:2], pesn.gain(name, mean, dtype(0.3))))
    for other in found[1:]:
        for ours, theirs in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_fork_after_threads_computes_too():
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork on this system")
    code = """
import multiprocessing, numpy as np, pesn
from pesn._support import threads
threads.n_threads = lambda: 2
x = np.linspace(-3.0, 3.0, 1_000_000)
def total(_=None):
    return float(pesn.moments("tanh", x, 0.3).mean.sum())
here = total()
with multiprocessing.get_context("fork").Pool(1) as pool:
    assert pool.apply_async(total).get(60) == here
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)
