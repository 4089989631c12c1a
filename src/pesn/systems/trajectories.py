"""Trajectories: runs of states and inputs, stacked, with their names and units.

>>> import numpy as np
>>> runs = Trajectories(np.arange(6.0)[:, None], np.zeros((6, 1)), 0.1, ("x", "u"), (4, 2), ("m", "N"))
>>> len(runs), runs[1].states.ravel()
(2, array([4., 5.]))
>>> first, second = runs.split(0.5)
>>> first.lengths, second.lengths
((4,), (2,))
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pesn._support.arguments import as_real, number, whole_number
from pesn._support.files import replacing
from pesn._support.types import Array

if TYPE_CHECKING:
    import pandas as pd

KINDS = (".csv", ".parquet", ".npz")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Runs of one system, one after the other, as ``fit(…, lengths=)`` takes them.

    Parameters
    ----------
    states : array-like of shape (n, d)
        States, a row for each sample.
    inputs : array-like of shape (n, u)
        ``inputs[k]`` is held from ``states[k]`` to ``states[k + 1]``; u may be 0.
    dt : float
        Seconds (or units of time) from one row to the next.
    names : sequence of str
        Names of the d states, then of the u inputs.
    lengths : sequence of int
        Number of rows of each run.
    units : sequence of str
        Units of the d states, then of the u inputs.

    """

    states: Array
    inputs: Array
    dt: float
    names: tuple[str, ...]
    lengths: tuple[int, ...]
    units: tuple[str, ...]

    def __post_init__(self) -> None:
        states, inputs = (np.asarray(as_real(name, getattr(self, name)), np.float64) for name in ("states", "inputs"))
        for name, array in (("states", states), ("inputs", inputs)):
            if array.ndim != 2 or len(array) != len(states):
                raise ValueError(f"{name} must have shape ({len(states) if states.ndim else 'n'}, columns), got {array.shape}")
        number("dt", self.dt, 0.0, math.inf, "()")
        width = states.shape[1] + inputs.shape[1]
        fields = {"states": states, "inputs": inputs, "dt": float(self.dt), "lengths": _as_lengths(self.lengths, len(states))}
        fields |= {name: _as_texts(name, getattr(self, name), width) for name in ("names", "units")}
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        if len({"run", "t", *self.names}) != width + 2:
            raise ValueError(f"names must differ from each other and from 'run' and 't', got {self.names!r}")

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.lengths)

    def __getitem__(self, run: int | slice) -> Trajectories:
        """Return one run, or several, as Trajectories of their own."""
        try:
            found = range(len(self))[run]
        except TypeError:
            raise TypeError(f"a run must be a whole number or a slice, got {run!r}") from None
        except IndexError:
            raise IndexError(f"run must lie in 0 … {len(self) - 1}, got {run}") from None
        chosen = range(found, found + 1) if isinstance(found, int) else found
        starts = np.concatenate([[0], np.cumsum(self.lengths)])
        rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in chosen]) if chosen else np.arange(0)
        return replace(self, states=self.states[rows], inputs=self.inputs[rows], lengths=tuple(self.lengths[i] for i in chosen))

    def __iter__(self) -> Iterator[Trajectories]:
        return (self[i] for i in range(len(self)))

    def split(self, fraction: float = 0.8) -> tuple[Trajectories, Trajectories]:
        """Split into the first ``fraction`` and the rest: whole runs, at least one on each side; a single run is cut in time."""
        number("fraction", fraction, 0.0, 1.0, "()")
        if len(self) > 1:
            n = min(max(round(fraction * len(self)), 1), len(self) - 1)
            return self[:n], self[n:]
        rows = self.lengths[0]
        if rows < 2:
            raise ValueError("a single run of 1 row cannot be split")
        n = min(max(round(fraction * rows), 1), rows - 1)
        parts = (slice(0, n), n), (slice(n, rows), rows - n)
        first, second = (replace(self, states=self.states[s], inputs=self.inputs[s], lengths=(k,)) for s, k in parts)
        return first, second

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with a row for each sample: run, t, the states, the inputs."""
        import pandas as pd

        run = np.repeat(np.arange(len(self)), self.lengths)
        t = np.concatenate([np.arange(length) * self.dt for length in self.lengths])
        columns = dict(zip(self.names, np.hstack([self.states, self.inputs]).T, strict=True))
        return pd.DataFrame({"run": run, "t": t, **columns})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a .csv, .parquet (needs pyarrow) or .npz file; an old file is replaced whole."""
        suffix = Path(path).suffix.lower()
        if suffix not in KINDS:
            raise ValueError(f"path must end in {', '.join(KINDS[:-1])} or {KINDS[-1]}, got {os.fspath(path)!r}")
        with replacing(path) as part:
            if suffix == ".npz":
                arrays: dict[str, Any] = {name: np.asarray(value) for name, value in vars(self).items()}
                with open(part, "wb") as file:
                    np.savez_compressed(file, **arrays)
            elif suffix == ".csv":
                self.to_frame().to_csv(part, index=False)  # floats as repr writes them: short, and to the last bit
            else:
                try:
                    self.to_frame().to_parquet(part, index=False, engine="pyarrow")
                except ImportError as error:
                    raise ImportError("a .parquet file needs pyarrow: pip install 'pesn[parquet]'; or save as .csv") from error


def stack_runs(states: Array, inputs: Array, dt: float, names: tuple[str, ...], units: tuple[str, ...]) -> Trajectories:
    """Return trajectories of equally long runs, from states (runs, steps, d) and inputs (runs, steps, u).

    >>> stack_runs(np.zeros((2, 5, 3)), np.zeros((2, 5, 0)), 1.0, ("x", "y", "z"), ("",) * 3).lengths
    (5, 5)
    """
    runs, steps, width = states.shape
    rows = states.reshape(runs * steps, width), inputs.reshape(runs * steps, inputs.shape[2])
    return Trajectories(*rows, dt, names, (steps,) * runs, units)


def _as_lengths(value: Iterable[int], n_rows: int) -> tuple[int, ...]:
    lengths = _entries("lengths", value)
    for length in lengths:
        whole_number("lengths", length, 1)
    if not lengths:
        raise ValueError("lengths must name at least one run, got none")
    if sum(lengths) != n_rows:
        raise ValueError(f"lengths must sum to the {n_rows} rows of states, got {sum(lengths)}")
    return tuple(int(length) for length in lengths)


def _as_texts(name: str, value: Iterable[str], width: int) -> tuple[str, ...]:
    texts = _entries(name, value)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} must be strings, got {value!r}")
    if len(texts) != width:
        raise ValueError(f"{name} must have {width} entries, the states' then the inputs', got {value!r}")
    return tuple(map(str, texts))


def _entries(name: str, value: Iterable[T]) -> tuple[T, ...]:
    try:
        if not isinstance(value, str):  # its letters are not meant
            return tuple(value)
    except TypeError:
        pass
    raise TypeError(f"{name} must be a sequence, got {value!r}")
