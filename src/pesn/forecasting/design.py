"""The automatic design: units, features and ridges, selected by closed-loop validation error.

One flat search by successive halving. All kinds of units with all features are compared with few units; the best features of
every kind with more units, more ridges, and noise on the training inputs; the best static units in still larger numbers; the
best of these from more origins and rows. All loops of a design (each ridge, each origin) are one batch of means.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pesn._support.progress import Steps
from pesn._support.types import Array, FloatArray
from pesn.activations import get
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.evaluation.backtest import rolling_origins
from pesn.evaluation.calibration import LEADS
from pesn.forecasting.dataset import Segment, with_noise
from pesn.readout.features import Features
from pesn.readout.groups import Patches
from pesn.readout.ridge import Factor, Readout, exclude_folds, feature_penalties, ridge_path
from pesn.reservoir.closed_loop import ClosedLoop, Dynamics, ErrorModel
from pesn.reservoir.drive import run
from pesn.reservoir.weights import Reservoir, draw, repeat, without_units
from pesn.statespace.cell import ActivationMoments
from pesn.statespace.model import Bounds, rollout

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


LEAST_ROWS, LEAST_LEADS = 60, 5  # least rows of y and steps ahead of a search
FOLDS = 5
_PIECE, _BEFORE = 400, 100  # rows of a piece of a long series, and rows before it that drive the units


class Piece(NamedTuple):
    """Rows ``first`` … ``last`` − 1 of a segment.

    Parameters
    ----------
    segment : int
        Number of the segment.
    first : int
        First row.
    last : int
        Row after the last.
    washed : int
        Number of rows that only drive the units.
    """

    segment: int
    first: int
    last: int
    washed: int


class Place(NamedTuple):
    """A row of a segment from which a loop starts.

    Parameters
    ----------
    segment : int
        Number of the segment.
    row : int
        Row.
    """

    segment: int
    row: int


@dataclass(frozen=True, eq=False)
class Problem:
    """Training rows and their folds.

    Parameters
    ----------
    segments : list of Segment
        Scaled rows without missing values.
    dynamics : Dynamics
        Meaning of the outputs of a network.
    bounds : Bounds
        Range of y.
    seed : int, default=0
        Seed of reservoirs and noise.
    field : Patches or None, default=None
        Patches of a field, if the columns of y are one; their overlap is selected.
    """

    segments: list[Segment]
    dynamics: Dynamics
    bounds: Bounds
    seed: int = 0
    field: Patches | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows of all segments."""
        return sum(len(s.z) for s in self.segments)

    @property
    def has_many_rows(self) -> bool:
        """Whether wide features are tried, and compared on more rows."""
        return self.n_rows >= MANY_ROWS

    @property
    def n_inputs(self) -> int:
        """Number of inputs of the network."""
        d = self.dynamics.n_columns
        return int(self.segments[0].z.shape[1]) - d + self.dynamics.encoding.size(d)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of the network."""
        return len(self.dynamics.learned)

    @cached_property
    def maps(self) -> list[tuple[int, int]]:
        """Lags and products of the features that these rows allow."""
        return feature_maps(self.n_inputs, self.n_rows)

    @cached_property
    def folds(self) -> list[npt.NDArray[np.intp]]:
        """Fold of each row: contiguous groups of whole segments if there are many, else contiguous blocks."""
        ends = np.cumsum([0] + [len(s.z) for s in self.segments])
        total = ends[-1]
        if len(self.segments) >= 2 * FOLDS:
            middle = (ends[:-1] + ends[1:]) / 2.0
            return [np.full(len(s.z), int(FOLDS * m / total)) for s, m in zip(self.segments, middle, strict=True)]
        return [FOLDS * (first + np.arange(len(s.z))) // total for s, first in zip(self.segments, ends, strict=False)]

    @cached_property
    def leads(self) -> int:
        """Number of steps ahead: 50, or half the longest segment of a fold."""
        longest = max(np.bincount(fold).max() for fold in self.folds)
        return int(min(LEADS, longest // 2))

    def pieces(self, most: int) -> list[Piece]:
        """Return about ``most`` rows in pieces spread over all of them; whole segments if there are no more."""
        if self.n_rows <= most:
            return [Piece(i, 0, len(s.z), min(_BEFORE, len(s.z) // 4)) for i, s in enumerate(self.segments)]
        found = []
        for i, s in enumerate(self.segments):
            for k in range(0, len(s.z), _PIECE):
                washed = min(k, _BEFORE) if k else min(40, len(s.z) // 4)
                found.append(Piece(i, max(k - _BEFORE, 0), min(len(s.z), k + _PIECE), washed))
        order = np.random.default_rng(self.seed).permutation(len(found))
        rows = np.cumsum([found[i].last - found[i].first - found[i].washed for i in order])
        return [found[i] for i in sorted(order[: max(int(np.searchsorted(rows, most)) + 1, 5)])]

    def origins(self, fold: int, count: int) -> list[Place]:
        """Return rows of a fold from which loops start, each with enough rows of the fold after it."""
        places = [
            Place(i, k)
            for i, folds in enumerate(self.folds)
            for k in range(min(20, len(folds) // 3), len(folds) - self.leads + 1)
            if folds[k] == fold and folds[k + self.leads - 1] == fold
        ]
        return [places[i] for i in rolling_origins(0, len(places) - 1, count)]


class Kind(NamedTuple):
    """A kind of units.

    Parameters
    ----------
    spectral_radius : float
        Spectral radius; 0: static units, without weights between them.
    leak_rate : float
        Leak rate.
    input_scaling : float
        Scaling of the input weights.
    bias_scaling : float
        Scaling of the bias.
    """

    spectral_radius: float
    leak_rate: float
    input_scaling: float
    bias_scaling: float


KINDS: dict[str, Kind | None] = {
    "none": None,
    "memory": Kind(0.9, 0.5, 0.5, 0.2),
    "biased memory": Kind(0.9, 0.5, 0.3, 1.0),
    "static 0.2": Kind(0.0, 1.0, 0.2, 1.0),
    "static 0.5": Kind(0.0, 1.0, 0.5, 1.0),
    "static 1": Kind(0.0, 1.0, 1.0, 1.0),
    "static 2": Kind(0.0, 1.0, 2.0, 2.0),
}
MAPS = ((0, 1), (1, 2), (9, 0), (9, 1))  # lags and products: (9, 0) without units is ARX(10), (1, 2) is NVAR
MANY_ROWS = 20_000  # rows from which on the widest features are compared
_LOCAL_KINDS, _LOCAL_MAPS, _OVERLAPS = ("none", "static 0.5"), ((0, 1), (1, 1), (1, 2)), (2, 3)  # of patches of fields
_WIDEST, _ROWS_FOR_EACH = (9, 2), 20  # and least rows for each of its products
FEW_INPUTS, _MOST_FOR_PRODUCTS = 8, 20  # largest numbers of inputs for products of two rows, and for any products


@dataclass(frozen=True)
class Candidate:
    """A candidate design.

    Parameters
    ----------
    kind : str
        Kind of reservoir, a key of :data:`KINDS`; "none" has no units.
    lags : int
        Lags of the readout's features (:class:`pesn.Features`).
    products : int
        Products of the readout's features.
    n_units : int, default=0
        Number of units.
    ridge : tuple of float, default=(1e-6, 1e-6)
        Penalties of the linear features and of the others.
    input_noise : float, default=0.0
        Standard deviation of the noise on y in the training inputs, in standard deviations of each column.
    patches : Patches or None, default=None
        Patches of a field, each with ``n_units`` units; None: one network of all columns.
    """

    kind: str
    lags: int
    products: int
    n_units: int = 0
    ridge: tuple[float, float] = (1e-6, 1e-6)
    input_noise: float = 0.0
    patches: Patches | None = None

    @property
    def features(self) -> Features:
        """Features of the readout."""
        return Features(self.lags, self.products, self.kind != "none")

    def windows(self, n_inputs: int, n_outputs: int) -> npt.NDArray[np.intp]:
        """Return the inputs that each patch sees, −1 beyond the border of a field; all of them without patches."""
        return np.arange(n_inputs)[None] if self.patches is None else self.patches.windows(n_outputs, n_inputs)

    def network(self, n_inputs: int, n_outputs: int) -> dict[str, Any]:
        """Return the parameters of a :class:`pesn.ProbabilisticESN` of this design."""
        parameters: dict[str, Any] = {"features": self.features, "ridge": self.ridge, "local": self.patches}
        kind, seen = KINDS[self.kind], self.windows(n_inputs, n_outputs).shape[1]
        if kind is not None:
            scaling = kind.input_scaling * math.sqrt(min(max(seen, 1), 3))  # not reduced for fewer than three inputs
            parameters |= {**kind._asdict(), "input_scaling": scaling, "n_units": self.n_units}
            if kind.spectral_radius:
                return {**parameters, "density": min(1.0, max(0.1, 10.0 / self.n_units))}  # at least ten weights for each unit
            del parameters["spectral_radius"]
            parameters["topology"] = "none"
        return parameters

    def reservoir(self, n_inputs: int, n_outputs: int, seed: int) -> Reservoir:
        """Return the reservoir that the network draws, of one patch if there are patches."""
        drawn = self.network(n_inputs, n_outputs)
        for name in ("features", "ridge", "local"):
            del drawn[name]
        windows = self.windows(n_inputs, n_outputs)
        sizes = windows.shape[1], n_outputs // len(windows)
        return draw(n_inputs=sizes[0], n_outputs=sizes[1], rng=seed, **drawn) if drawn else without_units(*sizes)

    def __str__(self) -> str:
        units = "no units" if self.kind == "none" else f"{self.n_units} units, {self.kind}"
        products = ("", ", products", ", products of two rows")[self.products]
        noise = f", input noise {self.input_noise:g}" if self.input_noise else ""
        patches = "" if self.patches is None else f", patches that see {self.patches.overlap} neighbors"
        return f"{units}, {self.lags} lags{products}, ridge {self.ridge[0]:.0e}, {self.ridge[1]:.0e}{noise}{patches}"


def feature_maps(n_inputs: int, n_rows: int) -> list[tuple[int, int]]:
    """Return the lags and products that the numbers of inputs and rows allow."""
    enough = n_rows >= max(_ROWS_FOR_EACH * Features(1, 2).n_products(n_inputs), MANY_ROWS)
    most = 0 if n_inputs > _MOST_FOR_PRODUCTS else 2 if n_inputs <= FEW_INPUTS or enough else 1
    maps = (*MAPS, _WIDEST) if enough else MAPS
    return list(dict.fromkeys((lags, min(products, most)) for lags, products in maps))


@dataclass(frozen=True)
class Design:
    """Result of a search: ``pesn.Forecaster(design=…)`` fits it again without a search.

    Parameters
    ----------
    candidate : Candidate
        The selected design.
    seed : int, default=0
        Seed of its reservoir and noise.
    tried : tuple of tuple, default=()
        (rung, candidate, score) of all: the mean over steps ahead of the logarithm of the error, in standard deviations of the
        columns. Scores of one rung are comparable; later rungs have more units and more forecasts. In the last one, the excess
        over ARX(10) at 1, 5, 20 and 50 steps ahead has been added.
    """

    candidate: Candidate
    seed: int = 0
    tried: tuple[tuple[int, Candidate, float], ...] = ()

    @property
    def scores(self) -> pd.DataFrame:
        """Frame with a row for each candidate, the best of the last rung first; lower scores are better."""
        import pandas as pd

        rows = [{"rung": rung, "score": score, **_flat(candidate)} for rung, candidate, score in self.tried]
        columns = ["rung", "score", *_flat(self.candidate)]
        return pd.DataFrame(rows, columns=columns).sort_values(["rung", "score"], ascending=[False, True], ignore_index=True)

    def check(self, name: str) -> None:
        """Raise a ValueError if a stored design is damaged.

        Parameters
        ----------
        name : str
            Name of the design in messages.
        """
        tried = [one for _, one, _ in self.tried]
        if any(not isinstance(one, Candidate) or one.kind not in KINDS for one in (self.candidate, *tried)):
            raise ValueError(f"{name} holds a candidate that is none")
        if self.candidate.patches is not None:
            self.candidate.patches.check(f"{name}.candidate.patches")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the scores of all candidates; the selected one is marked.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; None makes a new figure.

        Returns
        -------
        Axes
        """
        from pesn.plotting import plot_design

        return plot_design(self, ax)

    def __str__(self) -> str:
        return str(self.candidate)


def _flat(candidate: Candidate) -> dict[str, object]:
    """Return the fields of a candidate, with one entry for each ridge, and the overlap of its patches."""
    values = asdict(candidate)
    linear, others = values.pop("ridge")
    del values["patches"]
    overlap = 0 if candidate.patches is None else candidate.patches.overlap
    return {**values, "linear_ridge": linear, "ridge": others, "neighbors": overlap}


class Scored(NamedTuple):
    """A candidate and its score.

    Parameters
    ----------
    score : float
        Score; lower is better.
    candidate : Candidate
        The candidate.
    """

    score: float
    candidate: Candidate


def _score(one: Scored) -> float:
    """Return the score."""
    return one.score


def is_arx(candidate: Candidate) -> bool:
    """Return whether a candidate is a linear autoregression of ten rows, the baseline of all designs."""
    return (candidate.kind, candidate.lags, candidate.products, candidate.patches) == ("none", 9, 0, None)


def best_of_kinds(scored: Sequence[Scored]) -> list[Scored]:
    """Return the best candidate of every kind, of patches and of all columns, the best first."""
    best: dict[tuple[str, bool], Scored] = {}
    for one in sorted(scored, key=_score):
        best.setdefault((one.candidate.kind, one.candidate.patches is None), one)
    return list(best.values())


def finalists(scored: Sequence[Scored]) -> list[Candidate]:
    """Return the best ARX(10), the best candidates, and those of every kind that are not far worse."""
    arx = min((one for one in scored if is_arx(one.candidate)), key=_score)
    ranked = [*sorted(scored, key=_score)[:_FINALISTS], *best_of_kinds(scored)]
    return list(dict.fromkeys([arx.candidate, *(one.candidate for one in ranked if one.score <= ranked[0].score + _HOPELESS)]))


_CAPPED = 5.0  # standard deviations at which errors are clipped
_CONTEXT = 150  # rows that drive the units before an origin


class Network:
    """A reservoir over the rows of a problem: its least-squares factors by fold, and its loops.

    Parameters
    ----------
    problem : Problem
        Rows.
    candidate : Candidate
        Reservoir and widest features.
    pieces : sequence of Piece
        Rows to train on.
    """

    def __init__(self, problem: Problem, candidate: Candidate, pieces: Sequence[Piece]) -> None:
        self.problem, self.widest, self.n_rows = problem, candidate, 0
        self._units: dict[Place, Array] = {}  # at origins
        self._others: dict[int, Factor] = {}
        self._parts: dict[tuple[Features, int], Factor] = {}
        self._loops: dict[Features, ClosedLoop] = {}  # one for each features, whose layout is shared
        m = problem.n_outputs
        self.windows = candidate.windows(problem.n_inputs, m)
        self.own = candidate.reservoir(problem.n_inputs, m, problem.seed)  # of one patch; all learn one readout
        self.reservoir = self.own if candidate.patches is None else repeat(self.own, candidate.patches, problem.n_inputs, m)
        size = candidate.features.size(self.own.n_inputs, self.own.n_units), self.own.n_outputs
        self.factors = [Factor(*size) for _ in range(FOLDS)]
        rng = np.random.default_rng(problem.seed)
        for piece in pieces:
            rows, segment, used = slice(piece.first, piece.last), problem.segments[piece.segment], slice(piece.washed, None)
            z, targets, folds = segment.z[rows], self._by_patch(segment.targets[rows]), problem.folds[piece.segment][rows][used]
            parts = [self._features(z), targets]
            if candidate.input_noise:
                b, b_away, back = with_noise(self._features, z, problem.dynamics, candidate.input_noise, rng)
                parts = [b, targets, b_away, self._by_patch(back)]
            for fold in np.unique(folds):
                here = folds == fold
                chosen = [part[:, used][:, here].reshape(-1, part.shape[-1]) for part in parts]
                self.factors[fold].add(*chosen[:2])
                if candidate.input_noise:
                    self.factors[fold].add_covariance(*chosen[2:])
            self.n_rows += len(folds) * len(self.windows)

    def factor(self, candidate: Candidate, fold: int) -> Factor:
        """Return the factor of all folds but one for the features of a candidate, a subset of those of the network."""
        if (candidate.features, fold) in self._parts:
            return self._parts[candidate.features, fold]
        if fold not in self._others:
            self._others |= exclude_folds(self.factors, [fold])
        d, widest = self.own.n_inputs, self.widest
        i, j = np.triu_indices(widest.products * d)
        linear, products = widest.features.n_linear(d), len(i)
        most = candidate.products * d
        columns = [
            np.arange(candidate.features.n_linear(d)),
            linear + np.flatnonzero((i < most) & (j < most)),
            linear + products + np.arange(self.own.n_units),
        ]
        return self._parts.setdefault((candidate.features, fold), self._others[fold].only(np.concatenate(columns)))

    def readouts(self, candidate: Candidate, fold: int, ridges: Sequence[tuple[float, float]]) -> FloatArray:
        """Compute weights (ridges, m, p) of a candidate from all folds but one."""
        factor = self.factor(candidate, fold)
        each = [candidate.features.penalty(ridge, self.own.n_inputs, self.own.n_units) for ridge in ridges]
        weights = ridge_path(factor, factor.n_samples * np.stack([feature_penalties(one, factor.n_features) for one in each]))
        if candidate.patches is None:
            return weights
        n_inputs, n_units = self.problem.n_inputs, self.reservoir.n_units
        groups = candidate.patches.groups(candidate.features, n_inputs, self.problem.n_outputs, n_units)
        return np.stack([groups.expand(one, candidate.features.size(n_inputs, n_units)) for one in weights])

    def _by_patch(self, targets: Array) -> Array:
        """Return targets (T, m) of each patch, (patches, T, own)."""
        return targets.reshape(len(targets), len(self.windows), -1).swapaxes(0, 1)

    def _features(self, z: Array) -> Array:
        """Compute the features of rows (patches, T, p)."""
        rows = self.problem.dynamics.network_rows(z)
        seen = [np.where(window < 0, 0.0, rows[:, window]) for window in self.windows]
        return np.stack([self.widest.features(one, _drive(self.own, one)) for one in seen])

    def loops(
        self, candidate: Candidate, weights: FloatArray, origins: Sequence[Place], away: Array | float = 0.0, longer: int = 1
    ) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Compute errors (readouts, origins, leads, d) of closed loops, and at which steps they had left the range of y.

        Parameters
        ----------
        candidate : Candidate
            Features.
        weights : array of shape (readouts, m, p)
            Readouts.
        origins : sequence of Place
            Forecast origins.
        away : array of shape (d,) or float, default=0.0
            Standard deviation of random perturbations of the initial rows.
        longer : int, default=1
            Factor of the number of steps, without known inputs.
        """
        problem, d = self.problem, self.problem.dynamics.n_columns
        self._drive(origins)
        starts = [self._start(candidate, origin) for origin in origins]
        y, u, earlier, units, ahead, after = (np.stack(part) for part in zip(*starts, strict=True))
        if np.any(away):
            rng, earlier = np.random.default_rng(problem.seed), earlier.copy()
            y = y + away * rng.standard_normal(y.shape)
            earlier[..., :d] += away * rng.standard_normal(earlier[..., :d].shape)
        earlier = problem.dynamics.network_rows(earlier).reshape(len(origins), -1)
        loop = self._loop(candidate, np.asarray(weights[:, None], float))
        shape = len(weights), len(origins)
        mean = np.broadcast_to(np.concatenate([earlier, units], axis=-1), (*shape, earlier.shape[1] + units.shape[1]))
        state = loop.init(mean, np.zeros((0, mean.shape[-1])), y, u, moved=True)
        inputs = (
            np.broadcast_to(ahead, (*shape, *ahead.shape[1:]))
            if ahead.shape[-1]
            else np.zeros((*shape, longer * problem.leads, 0))
        )
        path = rollout(loop.model, state, inputs, moved=True)
        return after - path.mean[..., : problem.leads, :], np.asarray(path.left.any(axis=-1))

    def _loop(self, candidate: Candidate, weights: Array) -> ClosedLoop:
        """Return the closed loop of means of readouts (readouts, 1, m, p)."""
        problem, features = self.problem, candidate.features
        d, m = problem.dynamics.n_columns, weights.shape[-2]
        nothing = ErrorModel(np.zeros((d, d)), np.zeros(d), np.zeros((d, d)))
        readout = Readout(weights, np.zeros((m, m)), np.zeros((weights.shape[-1], 0)), 0)
        if features in self._loops:
            return self._loops[features].with_readout(readout, nothing)
        loop = ClosedLoop(
            self.reservoir, readout, nothing, problem.dynamics, ActivationMoments(get("tanh")), form="none", parts=(),
            guard=problem.bounds, features=features,
        )  # fmt: skip
        return self._loops.setdefault(features, loop)

    def _drive(self, origins: Sequence[Place]) -> None:
        """Compute the units at origins; a segment is driven whole if that takes no more rows than the contexts of its origins."""
        missing: dict[int, list[Place]] = {}
        for origin in origins:
            if origin not in self._units:
                missing.setdefault(origin.segment, []).append(origin)
        context = 0 if self.reservoir.is_static else _CONTEXT
        for i, places in missing.items():
            rows, last = self.problem.dynamics.network_rows(self.problem.segments[i].z), max(o.row for o in places) + 1
            if last <= context * len(places):
                states = _drive(self.reservoir, rows[:last])
                self._units |= {origin: states[origin.row] for origin in places}
            else:
                self._units |= {o: _drive(self.reservoir, rows[max(o.row - context, 0) : o.row + 1])[-1] for o in places}

    def _start(self, candidate: Candidate, origin: Place) -> tuple[Array, ...]:
        """Return y, u, earlier rows and units at an origin, and inputs and y after it."""
        s, k, d = self.problem.segments[origin.segment], origin.row, self.problem.dynamics.n_columns
        before = s.z[np.maximum(k - 1 - np.arange(candidate.lags), 0)]
        leads = self.problem.leads
        return s.y[k], s.z[k, d:], before, self._units[origin], s.z[k : k + leads, d:], s.y[k + 1 : k + 1 + leads]


def _drive(reservoir: Reservoir, rows: Array) -> Array:
    """Return the units (T, N) of rows."""
    return np.asarray(run(reservoir, rows)[0]) if reservoir.n_units else np.zeros((len(rows), 0))


def by_lead(errors: Array) -> Array:
    """Compute log E min(|error|, 5) of each lead, (…, leads), from errors (…, origins, leads, d) in standard deviations."""
    size = np.minimum(np.abs(np.nan_to_num(errors, nan=_CAPPED)), _CAPPED).mean(axis=(-3, -1))
    return np.asarray(np.log(size + 1e-12))


_FEW_UNITS, _MORE_UNITS = 100, 300  # units of the first rung and of the others; their rows, held-out folds and origins
_FEW_ROWS, _FIRST, _FEW_ORIGINS = 4_000, (1, 4), 16
_MORE_ROWS, _SECOND, _MORE_ORIGINS = 6_000, (0, 3), 16
_OF_MANY = 10_000  # rows of both for large data, which wide features need
_MOST_ROWS, _THIRD, _MOST_ORIGINS = 24_000, (0, 2, 3), 48
_OF_PATCHES = 3  # factor of the number of samples of patches
_WIDE, _WIDE_MAPS = 1_000, ((0, 1), (9, 0))  # most units, and features that are compared with them
_WIDE_RIDGES = (*((ridge, ridge) for ridge in (1e-19, 1e-15, 1e-11, 1e-7, 1e-5)), (1e-14, 1e-7), (1e-7, 1e-3))
_ACCURATE, _NEAR = -12.0, 0.5  # score below which more units are not tried, and beyond the best score
_WIDENED, _CLOSE, _HELPS = 3, 0.2, 0.05  # most kinds with more units, score beyond the best of them, and gain to go on
_FEW_FOR_FOLDS = 1_000  # rows up to which every fold is held out
_MANY_ORIGINS = 150  # origins of the last rung for large data
_FINALISTS, _HOPELESS = 4, 1.0  # best candidates besides the best of kinds; score beyond the best of those left out
# small ridges of linear features with larger ones of all others: ARX(10) plus a correction by units
_COARSE = (*((ridge, ridge) for ridge in (1e-19, 1e-14, 1e-10, 1e-6, 1e-2)), (1e-7, 1e-3))
_LARGE = (1e-7, 1e-1)  # for many products
_SMALLEST, _MANY_FOR_EACH = (1e-23, 1e-23), 4  # a ridge that extrapolates badly with fewer rows than these for each feature
_RIDGES = (*((ridge, ridge) for ridge in (1e-19, 1e-15, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5, 1e-3)), (1e-14, 1e-7), (1e-7, 1e-3))
_SMALLER = (0.1, 0.01)  # factors of the ridge of the best design for large data
_NOISES, _LOUDEST = (1e-3, 1e-2, 0.1), 30.0  # input noise in standard deviations, and its limit in errors of the design
_LARGEST = 3e3  # largest weights, in standard deviations of targets: larger ones amplify errors of closed-form covariances
_AWAY, _FARTHEST = 3.0, 0.03  # perturbation in one-step errors, and its limit in standard deviations
_LONGER = 4  # factor of the steps of loops that must not diverge
_LEAVING, _LEAVING_LATER = 20.0, 2.0  # penalty if all loops diverge, within the steps that are compared or later
_REFUSED = 1e3  # score of refused candidates
_ALLOWED, _JUDGED = np.log(1.03), (1, 5, 20, 50)  # allowed excess over ARX(10) at these leads


class Comparison:
    """Comparison of candidates on the same rows and origins; one network serves all features and ridges of a kind.

    Parameters
    ----------
    problem : Problem
        All rows.
    n_rows : int
        Number of rows that readouts are trained on.
    folds : tuple of int
        Folds that are held out one by one.
    count : int
        Number of origins in each fold.
    apart : bool, default=False
        Whether each candidate has its own network, because few are compared.
    """

    def __init__(self, problem: Problem, n_rows: int, folds: tuple[int, ...], count: int, apart: bool = False) -> None:
        self.problem, self.n_rows, self.pieces, self.apart = problem, n_rows, problem.pieces(n_rows), apart
        found = {fold: problem.origins(fold, count) for fold in range(FOLDS)}
        some = [fold for fold in folds if found[fold]] or range(FOLDS)  # missing values may leave no long segment of a fold
        self.origins = {fold: found[fold] for fold in some if found[fold]}
        self.networks: dict[Candidate, Network] = {}

    def network(self, candidate: Candidate) -> Network:
        """Return the network with the features of a candidate and those of others of its kind that cost little more."""
        widest, pieces = replace(candidate, ridge=(0.0, 0.0)), self.pieces
        if candidate.patches is not None:
            lags, products = zip(*_LOCAL_MAPS, strict=True)
            widest = replace(widest, lags=max(lags), products=max(products))
        elif not candidate.input_noise and not self.apart:
            most = 2 if self.problem.n_inputs <= FEW_INPUTS else max(candidate.products, 1)
            lags, products = zip(*((lags, products) for lags, products in self.problem.maps if products <= most), strict=True)
            widest = replace(widest, lags=max(lags), products=max(products))
        if widest not in self.networks:
            if candidate.patches is not None:  # each row is as many samples as there are patches
                pieces = self.problem.pieces(self.n_rows * _OF_PATCHES // candidate.patches.count(self.problem.n_outputs))
            self.networks[widest] = Network(self.problem, widest, pieces)
        return self.networks[widest]

    def best(self, candidate: Candidate, ridges: Sequence[tuple[float, float]], stable: bool = True) -> Scored:
        """Return the candidate with the best of the ridges; with ``stable``, loops from perturbed rows must not diverge."""
        readouts = {fold: self.network(candidate).readouts(candidate, fold, ridges) for fold in self.origins}
        errors, first, left = self._errors(candidate, readouts)
        largest = np.max([np.abs(weights).max(axis=(-2, -1)) for weights in readouts.values()], axis=0)
        scores = np.where(largest <= _LARGEST, errors.mean(axis=(0, -1)), _REFUSED)
        best = Scored(np.inf, candidate)
        for k in np.argsort(scores, kind="stable"):
            if scores[k] >= best.score:
                break
            value = float(scores[k])
            if stable:
                these = {fold: weights[k : k + 1] for fold, weights in readouts.items()}
                value += self._leaving(candidate, these, first[k], left[k])
            if value < best.score:
                best = Scored(value, replace(candidate, ridge=ridges[k]))
        return best

    def by_lead(self, candidate: Candidate) -> Array:
        """Compute the log error of each fold and lead (folds, leads), with the penalty of divergence."""
        readouts = {fold: self.network(candidate).readouts(candidate, fold, [candidate.ridge]) for fold in self.origins}
        errors, first, left = self._errors(candidate, readouts)
        return errors[:, 0] + self._leaving(candidate, readouts, first[0], left[0])

    def _errors(self, candidate: Candidate, readouts: dict[int, FloatArray]) -> tuple[Array, Array, Array]:
        """Compute log errors (folds, r, leads), one-step errors (r, d) and shares of diverged loops (r,) of r readouts."""
        found = [self.network(candidate).loops(candidate, readouts[fold], places) for fold, places in self.origins.items()]
        first = np.mean([np.abs(errors[:, :, 0]).mean(axis=1) for errors, _ in found], axis=0)
        left = np.mean([gone.any(axis=-1).mean(axis=1) for _, gone in found], axis=0)
        return np.stack([by_lead(errors) for errors, _ in found]), first, left

    def _leaving(self, candidate: Candidate, readouts: dict[int, FloatArray], first: Array, left: float) -> float:
        """Compute the penalty for loops that diverge when they start a few one-step errors away, at once or later."""
        away, network = np.minimum(_AWAY * first, _FARTHEST), self.network(candidate)
        gone = np.concatenate(
            [network.loops(candidate, readouts[fold], places, away, _LONGER)[1][0] for fold, places in self.origins.items()]
        )
        early = gone[:, : self.problem.leads].any(axis=-1).mean()
        return float(_LEAVING * max(0.0, early - left) + _LEAVING_LATER * gone.any(axis=-1).mean())


def search(problem: Problem, steps: Steps) -> Design:
    """Select the design with the smallest closed-loop validation error.

    Parameters
    ----------
    problem : Problem
        Rows; at least :data:`pesn.forecasting.design.LEAST_ROWS`.
    steps : Steps
        Progress of each rung.

    Returns
    -------
    Design
        The selected design, and the scores of all.
    """
    n_units, many = int(np.clip(problem.n_rows, 50, _MORE_UNITS)), problem.has_many_rows
    candidates = _list_candidates(problem, min(_FEW_UNITS, n_units))
    with steps.step("comparing designs", len(candidates), "designs") as advance:
        first = list(_first_rung(problem, candidates, advance))
    kept = best_of_kinds(first)
    more = Comparison(problem, _OF_MANY if many else _MORE_ROWS, _SECOND, _MORE_ORIGINS)
    with steps.step("comparing the best designs", len(kept), "designs") as advance:
        second = list(_second_rung(more, [one.candidate for one in kept], n_units, advance))
    folds = _THIRD if problem.n_rows > _FEW_FOR_FOLDS else tuple(range(FOLDS))
    last = Comparison(problem, _MOST_ROWS, folds, _MANY_ORIGINS if many else _MOST_ORIGINS, apart=many)
    if last.pieces == more.pieces:
        last.networks = more.networks
    chosen = finalists(second)
    with steps.step("comparing the last designs", len(chosen), "designs") as advance:
        third = _last_rung(last, chosen, advance)
    tried = ((rung, one.candidate, one.score) for rung, scored in enumerate((first, second, third), 1) for one in scored)
    return Design(min(third, key=_score).candidate, problem.seed, tuple(tried))


def _list_candidates(problem: Problem, n_units: int) -> list[Candidate]:
    """Return every kind of units with all features; for a field also patches."""
    candidates = [
        Candidate(kind, lags, products, 0 if kind == "none" else n_units)
        for kind, (lags, products) in itertools.product(KINDS, problem.maps)
        if kind == "none" or products < 2 or problem.n_inputs <= FEW_INPUTS  # as many features without units are compared
    ]
    if problem.field is not None:
        for kind, overlap, (lags, products) in itertools.product(_LOCAL_KINDS, _OVERLAPS, _LOCAL_MAPS):
            patches = replace(problem.field, overlap=overlap)
            candidates.append(Candidate(kind, lags, products, 0 if kind == "none" else n_units, patches=patches))
    return candidates


def _first_rung(problem: Problem, candidates: Sequence[Candidate], advance: Callable[[int], None]) -> Iterator[Scored]:
    """Compare all candidates with few ridges."""
    few = Comparison(problem, _OF_MANY if problem.has_many_rows else _FEW_ROWS, _FIRST, _FEW_ORIGINS)
    for candidate in candidates:
        yield few.best(candidate, (*_COARSE, _LARGE) if candidate.products else _COARSE, stable=False)
        advance(1)


def _second_rung(
    more: Comparison, candidates: Sequence[Candidate], n_units: int, advance: Callable[[int], None]
) -> Iterator[Scored]:
    """Compare candidates at full size with more ridges and increasing input noise, and ARX(10); the best with more units."""
    found = []
    for one in dict.fromkeys([*candidates, Candidate("none", 9, 0)]):
        full = replace(one, n_units=n_units if one.n_units else 0)
        found.append(more.best(full, _select_ridges(more, full)))
        if one.kind != "none" and one.patches is None and not more.problem.has_many_rows:  # noise hardly matters for large data
            found += _with_noise(more, found[-1])
        advance(1)
    yield from found
    if more.problem.n_rows > n_units and not more.problem.has_many_rows:
        yield from _with_more_units(more, found)


def _with_more_units(more: Comparison, scored: Sequence[Scored]) -> Iterator[Scored]:
    """Compare the best static units, whose states are small, in larger numbers; if these help, also other features and noise."""
    ranked, units = best_of_kinds(scored), min(more.problem.n_rows, _WIDE)
    static = [one for one in ranked if one.candidate.kind.startswith("static") and one.candidate.patches is None]
    if not _ACCURATE < static[0].score <= ranked[0].score + _NEAR:
        return
    few = [one for one in static[:_WIDENED] if one.score <= static[0].score + _CLOSE]
    many = [more.best(replace(one, n_units=units), _WIDE_RIDGES) for _, one in few]
    yield from many
    score, one = min(many, key=_score)
    if score > static[0].score - _HELPS:
        return
    maps = [both for both in dict.fromkeys([(one.lags, one.products), *_WIDE_MAPS]) if both in more.problem.maps]
    found = [more.best(replace(one, lags=lags, products=products, input_noise=0.0), _WIDE_RIDGES) for lags, products in maps]
    yield from found
    yield from _with_noise(more, min(found, key=_score), _WIDE_RIDGES)


def _select_ridges(more: Comparison, candidate: Candidate) -> tuple[tuple[float, float], ...]:
    """Return the ridges that are compared for a candidate."""
    network = more.network(candidate)
    size = candidate.features.size(network.own.n_inputs, candidate.n_units)
    smallest = (_SMALLEST,) if network.n_rows >= _MANY_FOR_EACH * size else ()
    return (*smallest, *_RIDGES, *((_LARGE,) if candidate.products else ()))


def _with_noise(more: Comparison, quiet: Scored, ridges: Sequence[tuple[float, float]] = _RIDGES) -> Iterator[Scored]:
    """Compare a design with increasing input noise while it improves; with noise smaller ridges are better."""
    before = quiet
    for noise in _NOISES:
        if noise > _LOUDEST * np.exp(quiet.score):
            return
        now = more.best(replace(quiet.candidate, input_noise=noise), list(dict.fromkeys([before.candidate.ridge, *ridges])))
        yield now
        if now.score > before.score and noise > _NOISES[0]:
            return
        before = now


def _last_rung(last: Comparison, candidates: Sequence[Candidate], advance: Callable[[int], None]) -> list[Scored]:
    """Compare candidates with ARX(10), the first of them.

    The excess over ARX(10) at each of four leads is added, by a quarter each. A design that is not better by a standard error
    over the folds ranks behind it.
    """
    at = [lead - 1 for lead in _JUDGED if lead <= last.problem.leads]
    arx = last.by_lead(candidates[0])

    def score_candidate(one: Candidate) -> Scored:
        errors = last.by_lead(one)
        apart = (errors - arx).mean(axis=1)
        value = float(errors.mean() + np.mean(np.maximum((errors - arx).mean(axis=0)[at] - _ALLOWED, 0.0)))
        error = float(np.std(apart) / np.sqrt(max(len(apart) - 1, 1)))
        if error > 0.0 and apart.mean() + error > 0.0:
            value = max(value, float(arx.mean()) + error)
        advance(1)
        return Scored(value, one)

    found = [score_candidate(one) for one in candidates]
    if last.apart:  # with more rows smaller ridges may be better
        _, best = min(found, key=_score)
        found += [score_candidate(replace(best, ridge=(best.ridge[0], factor * best.ridge[1]))) for factor in _SMALLER]
    return found


def choose_design(
    segments: list[Segment], dynamics: Dynamics, bounds: Bounds, steps: Steps, field: Patches | None = None
) -> Design | None:  # fmt: skip
    """Select the design for these rows; None if there are too few."""
    problem = Problem([s for s in segments if len(s.z) > 1], dynamics, bounds, field=field)
    if sum(len(s.y) for s in problem.segments) < LEAST_ROWS or problem.leads < LEAST_LEADS:
        return None
    return search(problem, steps) if any(problem.origins(fold, 1) for fold in range(FOLDS)) else None


def build_network(design: Design | None, n_inputs: int, n_outputs: int) -> ProbabilisticESN:
    """Return the network of a design; without one, a reservoir of 100 units."""
    if design is None:
        return ProbabilisticESN(washout="auto", random_state=0)
    parameters = design.candidate.network(n_inputs, n_outputs)
    return ProbabilisticESN(**parameters, washout="auto", process_noise=0.0, random_state=design.seed)
