"""Mutate saved models and load them: python scripts/mutate_files.py [--count 5000] [--seed 0] [--only 17] (about five minutes).

Each mutant is a saved file with one to three changes to its JSON, its arrays or its list of members, and with a new digest, as
someone who means harm would write it. It must be refused with one line, or load and give finite predictions. A crash, another
exception, a prediction that is not finite, more than a few seconds, more memory than the file is worth, or any attempt to run
code is a failure. Mutants are loaded in forked processes, so that a crash is seen.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import resource
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd

import pesn
from pesn._support.files import MANIFEST, digest
from pesn.forecasting.design import Candidate, Design
from pesn.series.forecaster import SeriesForecaster
from pesn.series.members.dynamics import Dynamics, Joint, fit_network

SECONDS = 20  # per mutant, on a busy machine
MEMORY = 2**31  # bytes that loading may take beyond what the process has
BATCH = 50  # mutants for each forked process
CODE = {
    "os.system",
    "subprocess.Popen",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "pickle.find_class",
    "pty.spawn",
    "socket.connect",
}
SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 255, 10**6, -(10**7), 2**31, 2**53 + 1, 2**63, -(2**63), 10**30, 10**400, 0.0, -0.0,
    0.5, 1.5, -1e-3, 1e-300, 5e-324, 1e6, 1e150, 1e308, -1e308, float("nan"), float("inf"), -float("inf"), "", "nan", "1", "auto",
    "none", "UnivariateModel", "Grid", "Joint", "TimeIndex", "ProbabilisticESN", "Forecaster", "os.system", "system", "os",
    "eval", "builtins", "numpy.ndarray", "Ring", "Readout", "../../etc/passwd", "\u0000",
    "\ud800", "x" * 10_000, [], {}, [1, 2], {"a": 1},
    {"array": 0}, {"array": -1}, {"array": 10**9}, {"float": "nan"}, {"float": "x"}, {"tuple": []}, {"list": []}, {"dict": {}},
    {"texts": ["a"]}, {"RandomState": {"dict": {}}}, {"class": "Ring", "fields": {}}, {"class": "os.system", "fields": {}},
)  # fmt: skip
DTYPES = ("float32", "int64", "uint64", "int8", "bool", "complex128", ">f8", "U5", "M8[D]")
NUMBERS = (0, 1, -1, 2, 3, 10**6, -(10**7), 2**31, 2**62, 0.5, -0.5, 1e-300, 1e6, 1e150, 1e308, -1e308, np.nan, np.inf, -np.inf)


class Failure(NamedTuple):
    """A mutant that was neither refused nor good."""

    number: int
    model: str
    reason: str


# ---------------------------------------------------------------- models


def make_models() -> dict[str, Any]:
    """Fit a small model of each kind."""
    rng = np.random.default_rng(0)
    t = np.arange(200.0)
    wave = np.sin(0.3 * t)[:, None] + 0.05 * rng.normal(size=(200, 1))
    days = pd.date_range("2020-01-31", periods=60, freq="ME")
    sales = pd.DataFrame({"a": 50 + t[:60] + 9 * np.sin(t[:60] * np.pi / 6), "b": rng.normal(size=60)}, index=days)
    sales.iloc[[*range(5), 20, 58, 59], 0] = np.nan  # columns begin and end at other rows
    price = pd.DataFrame({"u": rng.normal(size=60)}, index=days)
    loops = SeriesForecaster(horizon=8, season=[7, 12]).fit(20 + t[:140] / 20 + np.sin(t[:140] * np.pi / 6) + wave[:140, 0])
    two = SeriesForecaster(horizon=5).fit(np.column_stack([wave[:130, 0], np.cos(0.3 * t[:130])]))
    networks = {
        "EchoStateNetwork": pesn.EchoStateNetwork(15, random_state=np.random.RandomState(0)).fit(wave[:-1], wave[1:]),
        "ProbabilisticESN": pesn.ProbabilisticESN(15, random_state=0).fit(wave[:-1], wave[1:]),
        "ReservoirClassifier": pesn.ReservoirClassifier(15, random_state=0).fit(
            [wave[i : i + 20] * (1 + i % 2) for i in range(0, 160, 10)], [i % 2 for i in range(16)]
        ),
        "Forecaster": pesn.Forecaster(pesn.ProbabilisticESN(15, random_state=0)).fit(pd.DataFrame(wave[:60, 0], index=days)),
    }
    return {
        "SeriesForecaster": SeriesForecaster(level=(0.5, 0.9)).fit(sales, price),
        "SeriesForecaster with loops": loops,
        "SeriesForecaster with dynamics": _with_dynamics(loops),
        "SeriesForecaster of columns together": _with_joint(two),
        **networks,
    }


def _with_dynamics(forecaster: SeriesForecaster) -> SeriesForecaster:
    """Add learned dynamics without the search for them, which takes seconds."""
    changed = copy.copy(forecaster)
    model = forecaster.fitted_.models[0]
    assert model.loops is not None
    member = Dynamics(_small_network((model.y / model.scale)[:, None], "static 0.5", 1), (-5.0, 5.0), 0.3)
    changed.fitted_ = replace(forecaster.fitted_, models=(replace(model, loops=replace(model.loops, dynamics=member)),))
    return changed


def _with_joint(forecaster: SeriesForecaster) -> SeriesForecaster:
    changed = copy.copy(forecaster)
    changed.fitted_ = replace(forecaster.fitted_, joint=Joint(_small_network(forecaster.fitted_.y, "memory", 0), 0.5))
    return changed


def _small_network(rows: Any, kind: str, products: int) -> Any:
    return fit_network(rows, calibrate=False, design=Design(Candidate(kind, 1, products, 20, (1e-8, 1e-6), 0.0), 0))


def check_finite(model: Any) -> None:
    """Raise an ArithmeticError unless predictions of a loaded model are finite, and standard deviations not negative."""
    found: dict[str, Any] = {}
    rows = np.vstack([np.zeros((3, 1)), np.sin(np.arange(20.0))[:, None]])
    if isinstance(model, SeriesForecaster):
        steps = model.fitted_.horizon
        for horizon in (steps, min(3 * steps, 10 * len(model.fitted_.y))):
            ahead = model.forecast(horizon)
            found |= {"mean": ahead.mean, "quantile": ahead.quantile([1e-4, 0.025, 0.5, 0.975])}
            found |= {"interval": np.stack(ahead.interval(0.9)), "frame": ahead.to_frame().to_numpy(), "std": ahead.std}
            _check_numbers(found)
        assert model.summary()
        for one in model.fitted_.models:
            found |= {f"component {name}": part[len(one.y) :] for name, part in one.components(steps).items()}
    elif isinstance(model, pesn.Forecaster):
        forecast = model.forecast(6)
        found |= {"mean": forecast.mean, "std": forecast.std, "interval": np.stack(forecast.interval(0.9))}
    elif isinstance(model, pesn.ReservoirClassifier):
        found |= {"probabilities": model.predict_proba([rows, 2 * rows])}
    elif isinstance(model, pesn.ProbabilisticESN):
        mean, std = model.predict(rows, return_std=True)
        found |= {"mean": mean, "std": std, "certain": model.predict(rows)}
    else:
        found |= {"mean": model.predict(rows)}
        if isinstance(model.random_state, np.random.RandomState):
            found |= {"draws": model.random_state.normal(size=1000)}
    _check_numbers(found)
    assert repr(model)


def _check_numbers(found: dict[str, Any]) -> None:
    for name, values in found.items():
        if not np.isfinite(np.asarray(values, float)).all():
            raise ArithmeticError(f"{name} is not finite")
        if name == "std" and np.min(values) < 0.0:
            raise ArithmeticError("std is negative")


# ---------------------------------------------------------------- mutants


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a saved file with one to three changes, signed again."""
    with ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop(MANIFEST))
    arrays = [name for name in members if name.endswith(".npy")]
    compress = False
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        what = rng.random()
        if what < 0.5 or not arrays:
            name = str(rng.choice([one for one in members if one.endswith(".json")]))
            with _deep_recursion():
                members[name] = json.dumps(_mutate_tree(json.loads(members[name]), rng)).encode()
        elif what < 0.95:
            name = str(rng.choice(arrays))
            members[name] = _mutate_array(members[name], rng)
        elif what < 0.98:
            _mutate_members(members, rng)
            arrays = [name for name in members if name.endswith(".npy")]
        elif what < 0.99:
            manifest[str(rng.choice([*manifest]))] = _scalar(rng)
        else:
            compress = True
    buffer = io.BytesIO()
    with warnings.catch_warnings(), ZipFile(buffer, "w", ZIP_DEFLATED if compress else 0) as archive:
        warnings.simplefilter("ignore")
        for name, part in members.items():
            archive.writestr(name, part)
        if "sha256" in manifest:
            manifest["sha256"] = digest(archive)
        archive.writestr(MANIFEST, json.dumps(manifest))
    return buffer.getvalue()


@contextlib.contextmanager
def _deep_recursion() -> Iterator[None]:
    """Allow trees that are too deep for whoever reads them."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _scalar(rng: np.random.Generator) -> Any:
    return copy.deepcopy(SCALARS[rng.integers(len(SCALARS))])


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every value in a tree."""
    pairs = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    for key, value in pairs:
        yield tree, key
        yield from _places(value)


def _mutate_tree(tree: Any, rng: np.random.Generator) -> Any:
    """Change one value, key or record of a JSON tree, or exchange two."""
    places = list(_places(tree))
    if not places:
        return _scalar(rng)
    leaves = [(box, key) for box, key in places if not isinstance(box[key], (dict, list))]
    box, key = (leaves if leaves and rng.random() < 0.6 else places)[rng.integers(len(leaves if leaves else places))]
    other, place = places[rng.integers(len(places))]
    what = rng.choice(
        ["scalar", "number", "delete", "add", "exchange", "copy", "nest"], p=[0.35, 0.3, 0.1, 0.05, 0.1, 0.05, 0.05]
    )
    if what == "number" and type(box[key]) in (int, float):
        factor = float(rng.choice([-1.0, 0.0, 0.5, 2.0, 1e3, -1e6, 1e12, 1e200]))
        box[key] = type(box[key])(box[key] * factor + float(rng.choice([0.0, 1.0, -1.0])))
    elif what == "delete":
        del box[key]
    elif what == "add" and isinstance(box, dict):
        box[str(rng.choice(["extra", "fields", "__reduce__", "array", "class", "__class__"]))] = _scalar(rng)
    elif what == "exchange":
        box[key], other[place] = copy.deepcopy(other[place]), copy.deepcopy(box[key])
    elif what == "copy":
        box[key] = copy.deepcopy(other[place])
    elif what == "nest":
        for _ in range(int(rng.choice([1, 5, 400, 990]))):
            box[key] = {str(rng.choice(["tuple", "list"])): [box[key]]} if rng.random() < 0.5 else [box[key]]
    else:
        box[key] = _scalar(rng)
    return tree


def _mutate_array(data: bytes, rng: np.random.Generator) -> bytes:
    """Change the numbers, the shape, the type or the bytes of an array."""
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, MemoryError):  # changed before
        return data
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        array, changed = array.copy(), _ARRAYS[rng.integers(len(_ARRAYS))](array.copy(), rng)
    if isinstance(changed, bytes):
        return changed
    file = io.BytesIO()
    np.save(file, changed, allow_pickle=True)
    return file.getvalue()


def _set(array: Any, rng: np.random.Generator) -> Any:
    """Set some elements to a number."""
    if array.size and array.dtype.kind in "iufb":
        flat = array.reshape(-1)
        flat[rng.integers(array.size, size=int(rng.choice([1, 1, 5, array.size])))] = _fit_number(array, rng)
    return array


def _fit_number(array: Any, rng: np.random.Generator) -> Any:
    value = NUMBERS[rng.integers(len(NUMBERS))]
    if array.dtype.kind == "f":
        return value
    return array.dtype.type(int(value) % 2**31 * (1 if array.dtype.kind != "i" or value > 0 else -1)) if np.isfinite(value) else 1


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _change_header(array: Any, rng: np.random.Generator) -> bytes:
    """Name another shape than that of the numbers in the file."""
    shape = [(10**12,), (10**6, 10**6), (2**62,), (0,), (-1,), (array.size + 1,), (2**32, 2**32), ("a",), (1.5,)][rng.integers(9)]
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": array.dtype.str, "fortran_order": False, "shape": shape})
    return file.getvalue() + array.tobytes()


def _change_bytes(array: Any, rng: np.random.Generator) -> bytes:
    data = bytearray(_npy(array))
    for place in rng.integers(len(data), size=3):
        data[place] = rng.integers(256)
    return bytes(data[: rng.integers(len(data))] if rng.random() < 0.3 else data)


_ARRAYS: tuple[Callable[[Any, np.random.Generator], Any], ...] = (
    _set, _set, _set, _set, _set, _set,
    lambda array, rng: array * array.dtype.type(rng.choice([0, 2, 3])),
    lambda array, rng: (array * float(rng.choice([-1.0, 1e6, 1e200, 1e-200]))).astype(array.dtype),
    lambda array, rng: array.T,
    lambda array, rng: array.reshape(-1),
    lambda array, rng: array[None],
    lambda array, rng: array[..., :-1] if array.ndim else array,
    lambda array, rng: array[:-1] if array.ndim else array,
    lambda array, rng: array[:0] if array.ndim else array,
    lambda array, rng: np.concatenate([array, array]) if array.ndim else array,
    lambda array, rng: np.flip(array),
    lambda array, rng: rng.permutation(array) if array.ndim else array,
    lambda array, rng: array.astype(rng.choice(DTYPES)),
    lambda array, rng: array.astype(object),
    lambda array, rng: np.zeros((2, 2)),
    lambda array, rng: np.array(float("nan")),
    _change_header, _change_header, _change_bytes, _change_bytes,
)  # fmt: skip


def _mutate_members(members: dict[str, bytes], rng: np.random.Generator) -> None:
    """Remove, add, copy or exchange members of the archive."""
    names = list(members)
    one, other = str(rng.choice(names)), str(rng.choice(names))
    what = rng.integers(4)
    if what == 0 and len(names) > 1 and not one.endswith(".json"):
        del members[one]
    elif what == 1:
        members[f"{len(names) + 5}.npy"] = members[other]
    elif what == 2 and {one[-4:], other[-4:]} == {".npy"}:
        members[one], members[other] = members[other], members[one]
    else:
        members["../outside.npy"] = b"0"


# ---------------------------------------------------------------- trials


def run_trials(files: dict[str, bytes], numbers: Sequence[int], seed: int) -> tuple[Counter[str], list[Failure]]:
    """Load the mutants of those numbers in forked processes, and count what becomes of them.

    Parameters
    ----------
    files : dict of str to bytes
        Saved models by name; mutant i is made of the i-th, in turn.
    numbers : sequence of int
        Numbers of the mutants.
    seed : int
        Seed of all changes.

    Returns
    -------
    counts : Counter
        Numbers of mutants that were refused, that work, and that failed.
    failures : list of Failure
        Those that failed, by number.
    """
    counts: Counter[str] = Counter()
    failures: list[Failure] = []
    left = list(numbers)
    while left:
        outcomes, crash = _run_batch(files, left[:BATCH], seed)
        for number, (what, reason) in zip(left, outcomes, strict=False):
            counts[what] += 1
            if what == "failed":
                failures.append(Failure(number, _model_name(files, number), reason))
        left, rest = left[len(outcomes) :], left[: len(outcomes)]
        if crash:
            counts["failed"] += 1
            failures.append(Failure(left[0], _model_name(files, left[0]), crash))
            left = left[1:]
        elif not rest:
            raise RuntimeError("a process ended without a word")
    return counts, failures


def _model_name(files: dict[str, bytes], number: int) -> str:
    return [*files][number % len(files)]


def _run_batch(files: dict[str, bytes], numbers: Sequence[int], seed: int) -> tuple[list[tuple[str, str]], str]:
    """Return what became of mutants until one crashed, and how it did."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks where there are threads: none of them holds a lock that loading needs
        child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            with os.fdopen(write, "w") as pipe, tempfile.TemporaryDirectory() as folder:
                _limit_process()
                for number in numbers:
                    signal.alarm(SECONDS)
                    outcome = _try_mutant(files, number, seed, Path(folder) / "mutant.pesn")
                    signal.alarm(0)
                    pipe.write(json.dumps(outcome) + "\n")
                    pipe.flush()
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as pipe:
        outcomes = [tuple(json.loads(line)) for line in pipe]
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return outcomes, f"more than {SECONDS} s" if number == signal.SIGALRM else f"crash: {signal.Signals(number).name}"
    return outcomes, "" if os.WEXITSTATUS(status) == 0 else "the process ended"


def _limit_process() -> None:
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        here = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (here + MEMORY, here + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.addaudithook(_refuse_code)


def _refuse_code(event: str, arguments: tuple[Any, ...]) -> None:
    if event in CODE:
        frame: Any = sys._getframe()
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith("numba."):
                return  # which reads its own caches of compiled functions as pickles
            frame = frame.f_back
        os.write(2, f"{event} {arguments!r}\n".encode())
        os.kill(os.getpid(), signal.SIGUSR1)


def make_mutant(files: dict[str, bytes], number: int, seed: int) -> bytes:
    """Return mutant ``number``."""
    return mutate(files[_model_name(files, number)], np.random.default_rng([seed, number]))


def _try_mutant(files: dict[str, bytes], number: int, seed: int, path: Path) -> tuple[str, str]:
    path.write_bytes(make_mutant(files, number, seed))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = pesn.load(path)
        except ValueError as error:
            text = str(error)
            named = text.startswith(str(path)) and "\n" not in text and len(text) < 1000
            return ("refused", text) if named else ("failed", f"refused in other words: {text[:2000]}")
        except Exception as error:
            return "failed", f"load: {type(error).__name__}: {error}"[:2000]
        try:
            check_finite(model)
        except Exception as error:
            return "failed", f"use: {type(error).__name__}: {error}"[:2000]
    return "works", ""


def save_models(models: dict[str, Any]) -> dict[str, bytes]:
    """Return the saved file of each model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pesn"
        files = {}
        for name, model in models.items():
            model.save(path)
            check_finite(pesn.load(path))  # also compiles what the mutants need, before processes are forked
            files[name] = path.read_bytes()
    return files


def main() -> int:
    """Run the trials of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=5000, help="mutants")
    parser.add_argument("--seed", type=int, default=0, help="seed of the changes")
    parser.add_argument("--only", type=int, help="load this mutant alone, in this process")
    options = parser.parse_args()
    files = save_models(make_models())
    if options.only is not None:
        path = Path(tempfile.gettempdir()) / f"mutant-{options.only}.pesn"
        path.write_bytes(make_mutant(files, options.only, options.seed))
        print(_model_name(files, options.only), path)
        check_finite(pesn.load(path))
        return 0
    counts: Counter[str] = Counter()
    failures: list[Failure] = []
    for begin in range(0, options.count, 500):
        some, failed = run_trials(files, range(begin, min(begin + 500, options.count)), options.seed)
        counts, failures = counts + some, failures + failed
        print(f"{sum(counts.values()):,} mutants:", ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items())), flush=True)
        for failure in failed:
            print(f"  {failure.number} ({failure.model}): {failure.reason}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
