"""How many threads matrix products may take: of many small ones a second thread makes each several times slower."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

__all__ = ["one_blas_thread"]


def one_blas_thread() -> AbstractContextManager[Any]:
    """Within it, products of matrices take one thread; as many as before after it."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


@lru_cache(maxsize=1)
def _controller() -> Any:
    """To look for the libraries that are loaded takes a while: once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
