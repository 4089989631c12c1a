"""Claim: products of small matrices take one thread where that is asked, and as many as before after it."""

from threadpoolctl import threadpool_info

from pesn._support.threads import one_blas_thread


def blas_threads():
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_one_thread_and_then_as_many_as_before():
    before = blas_threads()
    with one_blas_thread():
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before
