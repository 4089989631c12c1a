"""Closed forms beside members at equal accuracy: error of mean and deviation 20 steps ahead, and the CPU time that it takes.

A network trained on Lorenz's system in its closed loop, from a row that is known within so many of the system's own deviations.
The truth are 100,000 members of the same loop. All methods take turns in one process; times are CPU time, the best of all turns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pages import table
from pesn import Forecaster, ProbabilisticESN
from pesn.reservoir.closed_loop import PARTS, ClosedLoop
from pesn.reservoir.drive import run
from pesn.statespace import Draws, Ensemble, rollout
from pesn.systems import chaotic

Array = np.ndarray[Any, np.dtype[np.float64]]
STEPS, STARTS, SIZES, TRUTH = 20, (0.02, 0.3), (64, 256, 1024, 4096), 100_000
FORMS = ("full", "low-rank", "diagonal")
NETWORKS = ((100, 5, 6), (300, 2, 4), (1000, 1, 3))  # units, most seeds, turns
_AT_ONCE = 4_000_000  # numbers of the members that go side by side: 32 MB, a few times
Method: TypeAlias = "Callable[[Case, int], tuple[Array, Array]]"


class Case(NamedTuple):
    """A loop, and where it starts: units h (N,), certain, beside a row y (d,) known within ``std``."""

    loop: ClosedLoop
    h: Array
    y: Array
    std: float

    def closed(self, form: str) -> tuple[Array, Array]:
        """Mean and deviation (d,) of the last row."""
        loop = replace(self.loop, form=form)
        path = rollout(loop.model, self._start(loop), np.zeros((STEPS, 0)))
        return path.mean[-1], np.sqrt(np.diagonal(path.cov[-1]))

    def members(self, count: int, sobol: bool, seed: int) -> tuple[Array, Array]:
        """The same by count, as many side by side as memory serves."""
        most = max(_AT_ONCE // self.loop.layout.size, max(SIZES))
        parts = []
        for i, size in enumerate(np.diff(np.unique([*range(0, count, most), count]))):
            loop = replace(self.loop, form="ensemble", n_members=int(size), draws=Draws(1000 * seed + i, sobol))
            path = rollout(loop.model, self._start(loop), np.zeros((STEPS, 0)))
            assert isinstance(path.state, Ensemble)
            parts.append(path.state.members[:, loop.layout["y"]].copy())
        y = np.concatenate(parts)
        return y.mean(axis=0), y.std(axis=0, ddof=1)

    def _start(self, loop: ClosedLoop) -> Any:
        d = len(self.y)
        return loop.init(self.h, np.zeros((0, len(self.h))), self.y, np.zeros(0), y_root=self.std * np.eye(d))


def cases(n_units: int, seed: int) -> tuple[list[Case], list[Case]]:
    """Without the variance of the readout's weights, by which accuracy is judged; and with it, as forecasts are made."""
    (y,) = (one.states for one in chaotic.lorenz(runs=1, steps=4000, rng=seed))
    esn = ProbabilisticESN(n_units, washout=100, random_state=seed, process_noise=0.0)
    forecaster = Forecaster(esn, calibrate=False).fit(y[:3000])
    rows, _ = forecaster.scaled(y[3000:3301], np.zeros((301, 0)))
    h = run(forecaster.esn_.reservoir_, rows[:-1])[0][-1]
    plain, whole = ([Case(forecaster.loop(parts), h, rows[-1], std) for std in STARTS] for parts in (("state", "noise"), PARTS))
    return plain, whole


def methods(sizes: tuple[int, ...]) -> dict[str, Method]:
    """By name: mean and deviation (d,) of the last row, for a case and a turn."""
    result: dict[str, Method] = {form: _closed(form) for form in FORMS}
    for sobol in (False, True):
        result |= {_name(size, sobol): _members(size, sobol) for size in sizes}
    return result


def _closed(form: str) -> Method:
    return lambda case, turn: case.closed(form)


def _members(size: int, sobol: bool) -> Method:
    return lambda case, turn: case.members(size, sobol, turn)


def _name(size: int, sobol: bool) -> str:
    return f"{size:,} {'Sobol ' if sobol else ''}members"


class Found(NamedTuple):
    """Of one network, start and method, turn by turn: squares of (mean − truth)/σ and of std/σ − 1, and seconds of CPU time.

    ``whole``: seconds with the variance of the readout's weights.
    """

    mean: list[float]
    std: list[float]
    seconds: list[float]
    whole: list[float]


def measure(n_units: int, seed: int, truth: int, turns: int, sizes: tuple[int, ...]) -> dict[tuple[float, str], Found]:
    """By start and method. The truth are Sobol members: their own error is far below that of as many plain ones."""
    found: dict[tuple[float, str], Found] = {}
    for plain, whole in zip(*cases(n_units, seed), strict=True):
        mean, std = plain.members(truth, True, 100 * seed)
        for turn in range(100 * seed + 1, 100 * seed + 1 + turns):  # draws of its own for every network, too
            for name, method in methods(sizes).items():  # in turns: a slow minute of the machine is everyone's
                into = found.setdefault((plain.std, name), Found([], [], [], []))
                begin = time.process_time()
                m, s = method(plain, turn)
                into.seconds.append(time.process_time() - begin)
                into.mean.append(float(np.mean(np.square((m - mean) / std))))
                into.std.append(float(np.mean(np.square(s / std - 1.0))))
                if turn == 100 * seed + 1:
                    begin = time.process_time()
                    method(whole, turn)
                    into.whole.append(time.process_time() - begin)
    return found


class Line(NamedTuple):
    """Errors of one method, seed by seed, and the mean of its seconds."""

    mean: list[float]
    std: list[float]
    seconds: float
    whole: float

    def as_near_as(self, other: Line) -> bool:
        return bool(np.mean(self.mean) <= np.mean(other.mean) and np.mean(self.std) <= np.mean(other.std))


def report(n_units: int, seeds: int, truth: int, turns: int, sizes: tuple[int, ...] = SIZES) -> str:
    """Means over seeds, with the least and largest in brackets; and how many members come as near as a closed form."""
    all_seeds = [measure(n_units, seed, truth, turns, sizes) for seed in range(seeds)]
    lines = {
        key: Line(
            [math.sqrt(np.mean(found[key].mean)) for found in all_seeds],
            [math.sqrt(np.mean(found[key].std)) for found in all_seeds],
            *(float(np.mean([min(getattr(found[key], part)) for found in all_seeds])) for part in ("seconds", "whole")),
        )
        for key in all_seeds[0]
    }
    rows = []
    for (start, name), line in lines.items():
        errors = _spread(line.mean), _spread(line.std)
        equal = ["", ""]
        if name in FORMS:
            for i, sobol in enumerate((False, True)):
                enough = [size for size in sizes if lines[start, _name(size, sobol)].as_near_as(line)]
                ratio = lines[start, _name(enough[0], sobol)].seconds / line.seconds if enough else 0.0
                equal[i] = f"{enough[0]:,}: {ratio:.2g}×" if enough else f"over {sizes[-1]:,}"
        rows.append([str(start), name, *errors, f"{1e3 * line.seconds:.3g}", f"{1e3 * line.whole:.3g}", *equal])
    heads = ["row known within", f"N = {n_units}", "error of mean ÷ σ", "error of std", "ms", "ms, weights too"]
    return table([*heads, "plain members as near: time", "Sobol members as near: time"], rows)


def _spread(values: list[float]) -> str:
    return f"{np.mean(values):.2g} ({min(values):.2g}–{max(values):.2g})"
