"""Common parts of the simulators: trajectories, arguments, the plan of the rows, time loops, checks for divergence.

>>> runs = Trajectories(np.arange(6.0)[:, None], np.zeros((6, 1)), 0.1, ("x", "u"), (4, 2), ("m", "N"))
>>> len(runs), runs[1].states.ravel()
(2, array([4., 5.]))
>>> first, second = runs.split(0.5)
>>> first.lengths, second.lengths
((4,), (2,))
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, generator, number, whole_number
from pesn._support.files import replacing
from pesn._support.types import Array, Rng

if TYPE_CHECKING:
    import pandas as pd

# ---------------------------------------------------------------- trajectories

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


# ---------------------------------------------------------------- arguments and loops

Progress: TypeAlias = Callable[[int, int], None]  # rows done, rows in all
Rates: TypeAlias = tuple[Array, ...]  # a part for each state variable
Box: TypeAlias = tuple[tuple[float, float], ...]  # ends of each side
Control: TypeAlias = Callable[[float, Array], npt.ArrayLike]  # of time and states
State = TypeVar("State")
P = TypeVar("P")
_GENERATOR = 1000  # bytes, about, of the generator that each run has
_MOST_ROWS = 1e9  # rows of a transient: more would take days


def sizes(runs: int, steps: int, columns: int, progress: Progress | None = None) -> tuple[int, int]:
    """Return ``runs`` and ``steps`` as ints, if memory has room for so many rows of ``columns`` numbers.

    >>> sizes(2, 10**18, 3)
    Traceback (most recent call last):
    MemoryError: runs = 2 of steps = 1000000000000000000 rows need 4.8e+10 GB of memory
    """
    whole_number("runs", runs, 1)
    whole_number("steps", steps, 1)
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function of two whole numbers or None, got {progress!r}")
    runs, steps = int(runs), int(steps)
    needed = runs * (8 * steps * columns + _GENERATOR)
    try:
        np.empty(needed, np.uint8)  # takes no memory yet
    except (MemoryError, ValueError):  # the latter where no address reaches so far
        gigabytes = needed / 10**9
        raise MemoryError(f"runs = {runs} of steps = {steps} rows need {gigabytes:.3g} GB of memory") from None
    return runs, steps


def generators(rng: Rng, runs: int) -> list[np.random.Generator]:
    """Return a generator for each run: the first ones do not depend on how many there are.

    >>> [child.integers(100) for child in generators(0, 3)[:2]] == [child.integers(100) for child in generators(0, 2)]
    True
    """
    return generator(rng).spawn(runs)


def chunks(runs: int, steps: int, by_row: bool, progress: Progress | None) -> Iterator[tuple[int, int]]:
    """Yield first and last row of each hundredth of the rows, or of each row; ``progress`` is called with the rows of all runs.

    >>> list(chunks(1, 250, False, None))[:2]
    [(0, 3), (3, 6)]
    """
    every = math.ceil(steps / 100)
    size = 1 if by_row else every
    for start in range(0, steps, size):
        stop = min(start + size, steps)
        yield start, stop
        if progress is not None and (stop % every == 0 or stop == steps):
            progress(stop * runs, steps * runs)


def rk4(rate: Callable[[Array], Array], x: Array, dt: float) -> Array:
    """Take one step of the classical Runge-Kutta method for ẋ = rate(x).

    >>> rk4(lambda x: -x, np.array([1.0]), 0.1)
    array([0.9048375])
    """
    first = rate(x)
    second = rate(x + 0.5 * dt * first)
    third = rate(x + 0.5 * dt * second)
    fourth = rate(x + dt * third)
    return x + dt / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)


def for_each_run(argument: str, value: npt.ArrayLike, runs: int, shape: tuple[int, ...]) -> Array:
    """Return ``value`` of ``shape``, for all runs alike, or of (runs, *shape), as a new array (runs, *shape).

    >>> for_each_run("initial_state", [1.0, 2.0], 3, (2,)).shape
    (3, 2)
    """
    array = as_real(argument, value)
    if array.shape not in (shape, (runs, *shape)):
        raise ValueError(f"{argument} must have shape {shape} or {(runs, *shape)}, got {array.shape}")
    return np.array(np.broadcast_to(array, (runs, *shape)), dtype=np.float64)


def transient_rows(transient: float | None, default: float, dt: float = 1.0, *, whole: bool = False) -> int:
    """Return the rows of a transient, ``default`` if it is None, rounded up; ``whole``: it must be a whole number.

    >>> transient_rows(0.5, 0.0, dt=0.2), transient_rows(None, 100, whole=True)
    (3, 100)
    """
    passed = default if transient is None else transient
    if whole:
        whole_number("transient", passed, 0)
    number("transient", passed, 0.0, math.inf, "[)")
    if float(passed) / dt > _MOST_ROWS:
        raise ValueError(f"transient must be {_MOST_ROWS:g} rows or fewer, got {passed!r} with rows dt = {dt!r} apart")
    return math.ceil(float(passed) / dt - 1e-9)


def as_parameters(parameters: P | None, kind: type[P], system: str) -> P:
    """Return the parameters of a system, the defaults if None."""
    if parameters is not None and not isinstance(parameters, kind):
        raise TypeError(f"parameters must be {system}.Parameters or None, got {parameters!r}")
    return kind() if parameters is None else parameters


def call_control(name: str, control: Control, t: float, states: Array, shape: tuple[int, ...]) -> Array:
    """Return what a control function gives at time t, if it has the expected shape."""
    answer = as_real(f"{name}(t, states)", control(t, states))
    if answer.shape != shape:
        raise ValueError(f"{name}(t, states) must return shape {shape}, got {answer.shape}")
    return np.asarray(answer, np.float64)


def check_path(system: str, before: Array, path: Array, names: Sequence[str], first: int, dt: float) -> None:
    """Raise a FloatingPointError where a row of a ``path`` (rows, runs, d), which follows ``before``, is no longer finite.

    >>> check_path("cart pole", np.ones((1, 2)), np.array([[[1.0, np.inf]]]), ("x", "v"), 3, 0.1)
    Traceback (most recent call last):
    FloatingPointError: cart pole, run 0: left finite numbers at t = 0.3; the state before was x = 1, v = 1
    """
    lost = ~np.isfinite(path).all(axis=2)
    if lost.any():
        k, run = map(int, np.argwhere(lost)[0])
        state = (path[k - 1] if k else before)[run]
        last = ", ".join(f"{name} = {value:.6g}" for name, value in zip(names, state, strict=True))
        time = (first + k) * dt
        raise FloatingPointError(f"{system}, run {run}: left finite numbers at t = {time:g}; the state before was {last}")


@dataclass(frozen=True)
class Plan:
    """Runs and rows of a simulation, checked: ``skipped`` rows pass before the first that is kept."""

    system: str
    runs: int
    steps: int
    dt: float = 1.0
    skipped: int = 0
    substeps: int = 1
    initial_state: npt.ArrayLike | None = None
    rng: Rng = None
    progress: Progress | None = None

    def starts(self, draw: Callable[[np.random.Generator], Array], d: int) -> Array:
        """Return initial states (runs, d): those given, or one that each run draws with its own generator."""
        sizes(self.runs, self.steps, d)
        if self.initial_state is None:
            return np.stack([draw(child) for child in generators(self.rng, self.runs)])
        return for_each_run("initial_state", self.initial_state, self.runs, (d,))

    def draw_starts(self, box: Box) -> Array:
        """Return initial states (d, runs), drawn from a box unless given."""
        low, high = np.transpose(box)
        return np.ascontiguousarray(self.starts(lambda child: child.uniform(low, high), len(box)).T)

    def march(
        self, advance: Callable[[State], State], state: State, names: Sequence[str], shown: Callable[[State], Array]
    ) -> Array:  # fmt: skip
        """Return the path of all runs, (runs, steps, d).

        ``advance`` takes a state from one row to the next, ``shown`` is what a row shows of it, (runs, d).

        >>> Plan("halving", 1, 2, skipped=1).march(lambda x: x / 2, np.ones((1, 1)), ("x",), np.transpose).ravel()
        array([0.5 , 0.25])
        """
        row = shown(state)
        path = np.empty((len(row), self.steps, row.shape[1]))
        with np.errstate(all="ignore"):
            for k in range(self.skipped + self.steps):
                if k:
                    state = advance(state)
                    before, row = row, shown(state)
                    check_path(self.system, before, row[None], names, k, self.dt)
                if k >= self.skipped:
                    path[:, k - self.skipped] = row
                    done = k - self.skipped + 1
                    if self.progress is not None and (done == self.steps or done % math.ceil(self.steps / 100) == 0):
                        self.progress(done, self.steps)
        return path

    def trajectories(self, states: Array, names: tuple[str, ...]) -> Trajectories:
        """Return trajectories of states (runs, steps, d) without inputs."""
        return stack_runs(states, np.empty((self.runs, self.steps, 0)), self.dt, names, ("",) * len(names))

    def iterate(self, step: Callable[[Array], Array | Rates], box: Box, names: tuple[str, ...]) -> Trajectories:
        """Return x[k+1] = step(x[k]), from a state drawn in a box; states are (d, runs) here."""
        return self.trajectories(self.march(_as_array(step), self.draw_starts(box), names, np.transpose), names)

    def integrate(self, rate: Callable[[Array], Array | Rates], box: Box, names: tuple[str, ...]) -> Trajectories:
        """Integrate ẋ = rate(x) by Runge and Kutta's method, a row every ``dt``, from a state drawn in a box (d, runs)."""
        change = _as_array(rate)

        def advance(state: Array) -> Array:
            for _ in range(self.substeps):
                state = rk4(change, state, self.dt / self.substeps)
            return state

        return self.iterate(advance, box, names)


def _as_array(function: Callable[[Array], Array | Rates]) -> Callable[[Array], Array]:
    """Let a function return an array in place of parts."""

    def whole(state: Array) -> Array:
        parts = function(state)
        if not isinstance(parts, tuple):
            return parts
        result = np.empty_like(state)  # quicker than np.stack
        for i, part in enumerate(parts):
            result[i] = part
        return result

    return whole


class Simulator(Protocol):
    """A function that simulates a system; ``parameters`` are those of its equations, which its own signature lists."""

    __name__: str

    def __call__(
        self,
        *,
        runs: int = 1,
        steps: int = 5000,
        dt: float = 1.0,
        initial_state: npt.ArrayLike | None = None,
        transient: float | None = None,
        rng: Rng = None,
        substeps: int = 5,
        progress: Progress | None = None,
        **parameters: float,
    ) -> Trajectories:
        """Simulate all runs.

        Parameters
        ----------
        runs : int, default=1
            Number of runs.
        steps : int, default=5000
            Number of rows of each run.
        dt : float
            Time from one row to the next.
        initial_state : array-like of shape (d,) or (runs, d), optional
            One for all runs, or one for each. By default drawn, with a random generator for each run.
        transient : float, optional
            Time before row 0, rounded up to whole rows. By default long enough to reach the attractor from a drawn state, and 0
            from a given one.
        rng : None, int, SeedSequence, BitGenerator or Generator, optional
            Seed, as ``np.random.default_rng`` takes it.
        substeps : int
            Steps of the integrator from one row to the next.
        progress : callable, optional
            Called with (rows done, rows in all) of each run, a hundred times at most.
        """


def simulator(
    *,
    transient: float,
    dt: float | None = None,
    substeps: int = 5,
    box: Box | None = None,
    names: tuple[str, ...] = ("x", "y", "z"),
    positive: Collection[str] = (),
    non_negative: Collection[str] = (),
) -> Callable[[Callable[..., Any]], Simulator]:
    """Make a simulator of the right-hand side of a system, or of a function of a :class:`Plan`.

    The simulator takes the arguments of :class:`Simulator` beside the parameters of the equations, a map without ``dt`` and
    ``substeps``; its signature and its docstring have both.

    Parameters
    ----------
    transient : float
        Time before row 0 after a drawn state, by default.
    dt : float, optional
        Time from one row to the next, by default; None for a map.
    substeps : int, default=5
        Steps of the integrator from one row to the next, by default.
    box : tuple of pairs, optional
        Ends of the intervals that initial states are drawn from. The function is then the right-hand side of a flow, or a map:
        a function of the state, (d, runs). None: a function of the plan, which returns the trajectories.
    names : tuple of str, default=("x", "y", "z")
        Names of the state variables.
    positive : collection of str, default=()
        Parameters that must be above 0.
    non_negative : collection of str, default=()
        Parameters that must not be below 0. The others that are floats must be finite.

    Returns
    -------
    callable
        The decorator.
    """
    ranges = dict.fromkeys(positive, (0.0, math.inf, "()")) | dict.fromkeys(non_negative, (0.0, math.inf, "[)"))

    def as_number(name: str, value: float) -> float:
        number(name, value, *ranges.get(name, (-math.inf, math.inf, "()")))
        return float(value)

    def decorate(function: Callable[..., Any]) -> Simulator:
        signature = _signature(function, dt, substeps)
        defaults = {name: parameter.default for name, parameter in signature.parameters.items()}
        own = [name for name in inspect.signature(function).parameters if name in defaults]

        @wraps(function)
        def simulate(**given: object) -> Trajectories:
            if unknown := sorted(given.keys() - defaults.keys()):
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown[0]!r}")
            options = {**defaults, **given}
            parameters = {name: options.pop(name) for name in own}
            parameters |= {name: as_number(name, parameters[name]) for name in own if isinstance(defaults[name], float)}
            plan = _plan(function.__name__, options, transient)
            if box is None:
                result: Trajectories = function(plan, **parameters)
                return result
            return (plan.iterate if dt is None else plan.integrate)(partial(function, **parameters), box, names)

        simulate.__signature__ = signature  # type: ignore[attr-defined]
        simulate.__doc__ = _document(function, [name for name in defaults if name not in own])
        return simulate

    return decorate


def _plan(system: str, options: dict[str, Any], transient: float) -> Plan:
    """Return the plan of checked options; those of a map have no ``dt``."""
    options["runs"], options["steps"] = sizes(options["runs"], options["steps"], 1, options["progress"])
    if "dt" in options:
        number("dt", options["dt"], 0.0, math.inf, "()")
        whole_number("substeps", options["substeps"], 1)
        options["dt"] = float(options["dt"])
    settling = transient if options["initial_state"] is None else 0
    skipped = transient_rows(options.pop("transient"), settling, options.get("dt", 1.0), whole="dt" not in options)
    return Plan(system, **options, skipped=skipped)


def _signature(function: Callable[..., Any], dt: float | None, substeps: int) -> inspect.Signature:
    """Return the signature of :class:`Simulator` with the parameters of a system in the place of "parameters"."""
    common = dict(inspect.signature(Simulator.__call__).parameters)
    own = list(inspect.signature(function).parameters.values())[1:]
    del common["self"], common["parameters"]
    if dt is None:
        del common["dt"], common["substeps"]
        common["transient"] = common["transient"].replace(annotation="int | None")
    else:
        common["dt"], common["substeps"] = common["dt"].replace(default=dt), common["substeps"].replace(default=substeps)
    last = [common.pop(name) for name in ("substeps", "progress") if name in common]
    return inspect.Signature([*common.values(), *own, *last], return_annotation="Trajectories")


def _document(function: Callable[..., Any], common: Sequence[str]) -> str:
    """Return the docstring of a function with the ``common`` parameters, as :class:`Simulator` describes them."""
    _, *entries = re.split(r"^(?=\w+ : )", inspect.getdoc(Simulator.__call__) or "", flags=re.M)
    shared = "".join(f"{entry.rstrip()}\n" for entry in entries if entry.split(" :")[0] in common)
    before, heading, own = (inspect.getdoc(function) or "").partition("Parameters\n----------\n")
    return f"{before}{heading}{shared}{own}"
