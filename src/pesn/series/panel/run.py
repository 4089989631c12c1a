"""A task over all series of a panel: in chunks, by one process or several, from a checkpoint where there is one.

The numbers are the same for any number of processes and after any interruption.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pesn._support.cluster import worker_processes
from pesn._support.progress import shown
from pesn._support.types import Array, PathLike
from pesn.series.panel import checkpoint as checkpoints
from pesn.series.panel import work as panel_work
from pesn.series.panel.frame import Panel
from pesn.series.panel.work import Blocks, Chunk, Task, chunk, chunks, joined

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Runner", "failures_frame", "run"]


class Runner(NamedTuple):
    """How a task is carried out.

    Parameters
    ----------
    n_jobs
        Processes; None: one, -1: as many as there are processors.
    checkpoint
        A folder for what is done; None: none.
    verbose
        Whether progress is shown, on standard error.
    """

    n_jobs: int | None = None
    checkpoint: PathLike | None = None
    verbose: bool = False


def run(panel: Panel, task: Task, ahead: Array | None = None, runner: Runner | None = None) -> Blocks:
    """What came of every series; ``ahead`` (k, steps, u) are inputs of the rows to come."""
    runner = Runner() if runner is None else runner
    folder = None if runner.checkpoint is None else checkpoints.folder_of(runner.checkpoint)
    found: list[Blocks] = []
    what = "cross-validating" if task.windows else "forecasting"
    with shown(runner.verbose) as steps, steps.step(what, len(panel), "series") as advance:
        left: list[tuple[Chunk, str]] = []
        for series in chunks(panel):
            part = chunk(panel, series, ahead)
            name = "" if folder is None else checkpoints.digest(part, task)
            kept = None if folder is None else checkpoints.read(folder, name, part, task)
            if kept is None:
                left.append((part, name))
            else:
                found.append(kept)
                advance(len(series))
        with closing(_each([part for part, _ in left], task, runner.n_jobs)) as done:
            for i, blocks in done:
                part, name = left[i]
                if folder is not None:
                    checkpoints.write(folder, name, part, blocks)
                found.append(blocks)
                advance(len(part.series))
    return joined(found, task)


def failures_frame(panel: Panel, blocks: Blocks | None = None) -> pd.DataFrame:
    """A row for each series that failed, by its id: in the frame itself, or when it was fitted."""
    pd = import_module("pandas")
    reasons = dict(panel.failures)
    if blocks is not None:
        reasons |= {panel.ids[number]: reason for number, reason in blocks.failures.items()}
    ids = pd.Index(list(reasons), dtype=panel.ids.dtype, tupleize_cols=False)
    order = np.argsort(pd.factorize(ids, sort=True)[0])  # numbers before texts, where there are both
    return pd.DataFrame({panel.columns.id: ids[order], "reason": pd.Series([*reasons.values()], dtype=str).to_numpy()[order]})


# ---------------------------------------------------------------- inside


def _each(parts: list[Chunk], task: Task, n_jobs: int | None) -> Generator[tuple[int, Blocks], None, None]:
    """The number of each chunk and what came of it, in the order in which they are done."""
    from joblib import Parallel, delayed, effective_n_jobs
    from joblib.parallel import get_active_backend

    jobs = min(int(effective_n_jobs(n_jobs)), len(parts))
    if jobs < 2:
        yield from ((i, panel_work.work(part, task)) for i, part in enumerate(parts))
        return
    ours = type(get_active_backend()[0]).__name__ == "LokyBackend"  # the usual; another is what the caller has chosen
    with worker_processes(jobs) if ours else nullcontext():
        parallel = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
        yield from parallel(delayed(_numbered)(i, part, task) for i, part in enumerate(parts))


def _numbered(i: int, part: Chunk, task: Task) -> tuple[int, Blocks]:
    return i, panel_work.work(part, task)
