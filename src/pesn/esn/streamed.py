"""Rows to learn from that are read anew in every pass: more of them than memory holds, in parts that may be far away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from pesn._support.progress import Advance, nothing
from pesn.esn.validation import SequenceRows
from pesn.reservoir.sequences import Array

__all__ = ["Mapping", "StreamedRows"]

T = TypeVar("T")


class Mapping(Protocol):
    """What goes over all sequences in parts."""

    def __call__(self, work: Callable[[int, Iterable[SequenceRows], Advance], Any], advance: Advance) -> Iterator[Any]:
        """``work(first, sequences, advance)`` of each part, in order, ``first`` being the place of its first sequence."""


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """Sequences that come one by one; :class:`pesn.esn.validation.TrainingRows` are the same in memory.

    Parameters
    ----------
    mapping
        Goes over all of them in parts.
    reading
        Goes over all of them in order.
    sizes
        The rows of each, (k,).
    n_inputs, n_outputs
        d and m.
    """

    mapping: Mapping
    reading: Callable[[], Iterator[SequenceRows]]
    sizes: npt.NDArray[np.intp]
    n_inputs: int
    n_outputs: int
    flat: bool = False

    @property
    def n_rows(self) -> int:
        """Of all sequences."""
        return int(self.sizes.sum())

    @property
    def shortest(self) -> int:
        """Rows of the shortest of the sequences."""
        return int(self.sizes.min())

    @property
    def sequences(self) -> list[slice]:
        """Where each sequence would be if all were stacked."""
        ends = np.cumsum(self.sizes).tolist()
        return [slice(end - size, end) for end, size in zip(ends, self.sizes.tolist(), strict=True)]

    def of_longest(self, most: int | None = None) -> tuple[Array, Array]:
        """Inputs and targets of the longest of the sequences, of its first ``most`` rows: all before it are read."""
        wanted = int(np.argmax(self.sizes))
        rows, targets = next(one for i, one in enumerate(self.reading()) if i == wanted)
        part = slice(0, len(targets) if most is None else most)
        return rows.take(part)[0], targets[part]

    def map(self, work: Callable[[int, Iterable[SequenceRows], Advance], T], advance: Advance = nothing) -> Iterator[T]:
        """``work(first, sequences, advance)`` of each part, in order."""
        return self.mapping(work, advance)
