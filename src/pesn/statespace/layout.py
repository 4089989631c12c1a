"""Named blocks of a state vector.

>>> layout = Layout.of(y=2, inputs=1, units=50)
>>> layout["inputs"], layout.size
(slice(2, 3, None), 53)
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    """Where each block of x is; ``size`` entries in all."""

    blocks: dict[str, slice]
    size: int

    @classmethod
    def of(cls, **sizes: int) -> Layout:
        """One block after the other."""
        blocks, end = {}, 0
        for name, size in sizes.items():
            blocks[name], end = slice(end, end + size), end + size
        return cls(blocks, end)

    def __getitem__(self, name: str) -> slice:
        return self.blocks[name]
