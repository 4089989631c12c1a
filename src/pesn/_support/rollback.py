"""A call that fails leaves the object as it was.

>>> from types import SimpleNamespace
>>> model = SimpleNamespace(weights=1)
>>> try:
...     with rollback_on_error(model):
...         model.weights, model.state = 2, 0
...         raise ValueError
... except ValueError:
...     model
namespace(weights=1)
"""

from __future__ import annotations

__all__ = ["rollback_on_error"]


class rollback_on_error:  # noqa: N801  # reads as what it does: with rollback_on_error(estimator)
    """Put every attribute back where an error leaves the block: what is stored is replaced, never changed in place."""

    def __init__(self, target: object) -> None:
        self.attributes = vars(target)
        self.before = dict(self.attributes)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.attributes.clear()
            self.attributes.update(self.before)
