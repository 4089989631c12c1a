"""What is done to each series of a panel: a fit to the rows before each origin, and the quantiles of the steps after it.

A forecast has one origin, the end of the rows; cross-validation has several before it. Series are shared out in chunks, among one
process or several. The numbers are the same for any number of processes and after any interruption.

With a checkpoint, finished chunks are kept in a folder, so that a run which was killed goes on where it stopped. A file is named
by a digest of all that its numbers depend on: the rows, the inputs, what was asked, pesn's version. Other data or other settings
have other names; files of theirs are left alone. Nothing is unpickled: numbers and a text of JSON are read.

>>> import pandas as pd
>>> from pesn.series.panel.frame import Columns, panel_of
>>> frame = pd.DataFrame({"unique_id": "a", "ds": np.arange(30), "y": np.arange(30.0)})
>>> panel = panel_of(frame, Columns())
>>> blocks = work(chunk(panel, range(1)), Task(steps=2, levels=(0.8,)))
>>> blocks.origin.tolist(), blocks.values.shape                 # a block an origin: the median and two bounds of two steps
([30], (1, 2, 3))
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from pesn._support.cluster import worker_processes
from pesn._support.files import replacing
from pesn._support.progress import shown
from pesn._support.threads import one_blas_thread_in_all
from pesn._support.types import Array, PathLike
from pesn.forecasting.time_index import TimeIndex
from pesn.series.model import Seasons, check_horizon, fit_columns
from pesn.series.panel.frame import Panel
from pesn.series.univariate import UnivariateModel

_SERIES, _ROWS = 50, 10_000  # of a chunk, at most: about a second of work
_FACTS = ("failures", "seasons", "shares")  # of blocks, by the number of the series


class Task(NamedTuple):
    """What is asked of every series.

    Parameters
    ----------
    steps
        Rows ahead.
    levels
        Probabilities of the intervals.
    seasons, horizon
        As :func:`pesn.series.model.fit_columns` has them.
    windows, stride
        Of cross-validation: how many origins, and rows between two of them; 0 windows: a forecast of the rows after the last.
    """

    steps: int
    levels: tuple[float, ...]
    seasons: Seasons = "auto"
    horizon: int | None = None
    windows: int = 0
    stride: int = 1

    @property
    def quantiles(self) -> Array:
        """The median, then two bounds for each level."""
        return np.array([0.5, *(0.5 + sign * 0.5 * level for level in self.levels for sign in (-1.0, 1.0))])


class Runner(NamedTuple):
    """How a task is carried out.

    Parameters
    ----------
    n_jobs : int, optional
        Processes; None: one, -1: as many as there are processors.
    checkpoint : path-like, optional
        A folder for what is done.
    verbose : bool, default=False
        Whether progress is shown, on standard error.
    """

    n_jobs: int | None = None
    checkpoint: PathLike | None = None
    verbose: bool = False


class Chunk(NamedTuple):
    """Some series: their numbers in the panel, (n,) and (n, u) of each, the inputs (steps, u) ahead of each, and their step."""

    series: tuple[int, ...]
    y: tuple[Array, ...]
    x: tuple[Array, ...]
    ahead: tuple[Array, ...] | None
    time: TimeIndex


@dataclass(frozen=True, eq=False)
class Blocks:
    """What came of some series.

    Parameters
    ----------
    series, origin
        (b,), the number of the series and the row of its first step, a block each.
    values
        (b, steps, 1 + 2 levels): quantiles.
    failures
        Reasons, by the number of the series.
    seasons, shares
        Of each series, by its number: the periods of its seasons, and each part's share in its forecast.
    """

    series: npt.NDArray[np.int64]
    origin: npt.NDArray[np.int64]
    values: Array
    failures: dict[int, str] = field(default_factory=dict)
    seasons: dict[int, tuple[int, ...]] = field(default_factory=dict)
    shares: dict[int, dict[str, float]] = field(default_factory=dict)

    def facts(self) -> Blocks:
        """Without the numbers."""
        return replace(self, series=self.series[:0], origin=self.origin[:0], values=self.values[:0])


def work(part: Chunk, task: Task) -> Blocks:
    """Fit and forecast each series; one that fails is left out, with the reason."""
    found: list[tuple[int, int, Array]] = []
    failures: dict[int, str] = {}
    seasons: dict[int, tuple[int, ...]] = {}
    shares: dict[int, dict[str, float]] = {}
    with one_blas_thread_in_all():  # sums of several threads end in other digits
        for i, number in enumerate(part.series):
            try:
                blocks, model = _series(part, i, task)
            except Exception as error:  # one bad series of a million must not end the others
                failures[number] = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
                continue
            found += [(number, origin, values) for origin, values in blocks]
            seasons[number], shares[number] = tuple(model.seasons), dict(model.shares)
    values = np.stack([one for _, _, one in found]) if found else _no_blocks(task).values
    series, origin = (np.array([one[j] for one in found], np.int64) for j in (0, 1))
    return Blocks(series, origin, values, failures, seasons, shares)


def chunks(panel: Panel) -> list[range]:
    """Series that are done together: the same whatever they are done by."""
    found, start, rows = [], 0, 0
    for i, length in enumerate(panel.lengths.tolist()):
        if i > start and (i - start >= _SERIES or rows + length > _ROWS):
            found.append(range(start, i))
            start, rows = i, 0
        rows += length
    return [*found, range(start, len(panel))] if len(panel) else []


def chunk(panel: Panel, series: Sequence[int], ahead: Array | None = None) -> Chunk:
    """These series of a panel, with inputs ``ahead`` (k, steps, u) of all of its series."""
    rows = [panel.rows(i) for i in series]
    known = None if ahead is None else tuple(ahead[i] for i in series)
    return Chunk(tuple(series), tuple(y for y, _ in rows), tuple(x for _, x in rows), known, panel.time)


def run(panel: Panel, task: Task, ahead: Array | None = None, runner: Runner = Runner()) -> Blocks:  # noqa: B008  # frozen
    """Return what came of every series; ``ahead`` (k, steps, u) are inputs of the rows to come."""
    folder = None if runner.checkpoint is None else _checkpoint_folder(runner.checkpoint)
    found: list[Blocks] = []
    what = "cross-validating" if task.windows else "forecasting"
    with shown(runner.verbose) as steps, steps.step(what, len(panel), "series") as advance:
        left = []
        for series in chunks(panel):
            part = chunk(panel, series, ahead)
            file = None if folder is None else folder / f"{_digest(part, task)}.npz"
            kept = None if file is None else _read(file, part, task)
            if kept is None:
                left.append((part, file))
            else:
                found.append(kept)
                advance(len(series))
        with closing(_each([part for part, _ in left], task, runner.n_jobs)) as done:
            for i, blocks in done:
                part, file = left[i]
                if file is not None:
                    _write(file, part, blocks)
                found.append(blocks)
                advance(len(part.series))
    return _join(found, task)


# ---------------------------------------------------------------- inside


def _series(part: Chunk, i: int, task: Task) -> tuple[list[tuple[int, Array]], UnivariateModel]:
    """Blocks of one series, and the model of the last."""
    y, x = part.y[i], part.x[i]
    n = len(y)
    check_horizon("horizon", task.steps, n)
    blocks = []
    for origin in _origins(n, task):
        later = None if part.ahead is None else part.ahead[i]
        ahead = x[origin : origin + task.steps] if task.windows else later
        fitted = fit_columns(
            y[:origin, None], x[:origin], names=("y",), time=part.time, seasons=task.seasons, horizon=task.horizon
        )
        model = fitted.models[0]
        values = model.forecast(task.steps, ahead if x.shape[1] else None).quantile(task.quantiles).T
        if not np.isfinite(values).all():
            raise ValueError(f"its forecast is not finite at step {int(np.argmin(np.isfinite(values).all(axis=1))) + 1}")
        blocks.append((origin, values))
    return blocks, model


def _origins(n: int, task: Task) -> list[int]:
    """The row of the first step of each forecast of n rows; where rows are few, fewer."""
    if not task.windows:
        return [n]
    last = n - task.steps
    found = [origin for w in reversed(range(task.windows)) if (origin := last - w * task.stride) >= 1]
    if not found:
        raise ValueError(f"it has {n} rows: too few for one before and {task.steps} after an origin")
    return found


def _join(parts: Sequence[Blocks], task: Task) -> Blocks:
    """Return all blocks, in the order of series and origins."""
    parts = [_no_blocks(task), *parts]
    series, origin, values = (np.concatenate([getattr(one, name) for one in parts]) for name in ("series", "origin", "values"))
    order = np.lexsort((origin, series))
    facts: list[dict[int, Any]] = []
    for name in _FACTS:
        every = {number: fact for one in parts for number, fact in getattr(one, name).items()}
        facts.append({number: every[number] for number in sorted(every)})
    return Blocks(series[order], origin[order], values[order], *facts)


def _no_blocks(task: Task) -> Blocks:
    return Blocks(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, task.steps, len(task.quantiles))))


def _each(parts: list[Chunk], task: Task, n_jobs: int | None) -> Generator[tuple[int, Blocks], None, None]:
    """Return the number of each chunk and what came of it, in the order in which they are done."""
    from joblib import Parallel, delayed, effective_n_jobs
    from joblib.parallel import get_active_backend

    jobs = min(int(effective_n_jobs(n_jobs)), len(parts))
    if jobs < 2:
        yield from ((i, work(part, task)) for i, part in enumerate(parts))
        return
    ours = type(get_active_backend()[0]).__name__ == "LokyBackend"  # the usual; another is what the caller has chosen
    with worker_processes(jobs) if ours else nullcontext():
        parallel = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
        yield from parallel(delayed(_numbered)(i, part, task) for i, part in enumerate(parts))


def _numbered(i: int, part: Chunk, task: Task) -> tuple[int, Blocks]:
    return i, work(part, task)


def _checkpoint_folder(checkpoint: PathLike) -> Path:
    """Return the folder, made where it is not there; a ValueError where it cannot be one."""
    folder = Path(checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"checkpoint must be a folder, got the file {str(checkpoint)!r}") from None
    return folder


def _digest(part: Chunk, task: Task) -> str:
    """Return a digest of what the numbers of a chunk depend on; the places of its series in the panel are not among it."""
    seasons = task.seasons if isinstance(task.seasons, str) else np.ravel(np.asarray(task.seasons, object)).tolist()
    asked = [version("pesn"), str(part.time.step), part.time.kind, *map(repr, task._replace(seasons=None)), repr(seasons)]
    total = hashlib.sha256("\n".join(asked).encode())
    for arrays in (part.y, part.x, part.ahead or ()):
        for array in arrays:
            total.update(f"{array.shape}".encode())
            total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def _write(file: Path, part: Chunk, blocks: Blocks) -> None:
    """Keep what came of a chunk, whole or not at all; series are counted within the chunk."""
    place = {number: i for i, number in enumerate(part.series)}
    note = {name: {place[number]: fact for number, fact in getattr(blocks, name).items()} for name in _FACTS}
    series = np.array([place[int(number)] for number in blocks.series], np.int64)
    with replacing(file) as path:
        np.savez(path, series=series, origin=blocks.origin, values=blocks.values, note=np.array(json.dumps(note)))


def _read(file: Path, part: Chunk, task: Task) -> Blocks | None:
    """Return what :func:`_write` kept; None where there is nothing, or something damaged: then it is done again."""
    try:
        with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            series, origin, values, text = (arrays[key] for key in ("series", "origin", "values", "note"))
        if values.shape != (len(series), task.steps, len(task.quantiles)) or origin.shape != series.shape:
            return None
        note = json.loads(str(text))
        failures, seasons, shares = ({part.series[int(i)]: fact for i, fact in note[name].items()} for name in _FACTS)
        seasons = {number: tuple(map(int, periods)) for number, periods in seasons.items()}
        shares = {number: dict(zip(each, map(float, each.values()), strict=True)) for number, each in shares.items()}
        return Blocks(np.array(part.series, np.int64)[series], origin, values, failures, seasons, shares)
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, BadZipFile):
        return None
