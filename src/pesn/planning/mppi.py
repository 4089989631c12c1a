"""Model predictive path integral control (Williams et al. 2017) over :meth:`pesn.Forecaster.rollout`.

A plan is a sequence of controls. Many are drawn around the last one, each is rolled out, and the next is their mean, weighted by
exp(−cost / temperature). Whatever has a ``rollout`` can be planned with; here a point that a force pushes, known exactly:

>>> import numpy as np
>>> from pesn.forecasting.rollout import Rollout
>>> class Point:
...     def rollout(self, controls, start=None, covariance="none"):
...         v = start[1] + 0.1 * np.cumsum(controls[..., 0], axis=1)
...         x = start[0] + 0.1 * np.cumsum(v, axis=1)
...         return Rollout(np.stack([x, v], axis=-1), controls, names=("x", "v"))
>>> planner = MPPI(Point(), 20, limits=(-1.0, 1.0), cost=lambda r: r.expected_cost({"x": 1.0, "v": 0.3}, goal={"x": 1.0}),
...                covariance="none", random_state=0)
>>> state = np.zeros(2)
>>> for _ in range(50):
...     force = planner.plan(state)[0, 0]       # the first control of the plan; the rest is where the next plan starts
...     state = np.array([state[0] + 0.1 * (state[1] + 0.1 * force), state[1] + 0.1 * force])
>>> bool(np.abs(state - [1.0, 0.0]).max() < 0.1)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, final

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, number, whole_number
from pesn._support.types import Array, RandomState
from pesn.esn.training import generator
from pesn.forecasting.predict import COVARIANCES
from pesn.forecasting.rollout import PathMethod, Rollout, check_levels


@dataclass(frozen=True)
class ChanceConstraint:
    """P(column above ``above`` or below ``below``) ≤ ``probability``, at each step or over the whole path.

    Parameters
    ----------
    column
        Of y, by name or position.
    above, below
        Where it must not be; one of them at least.
    probability
        At most, in (0, 1).
    over
        ``"step"``: at each step on its own. ``"path"``: at any of them, which is the stricter.
    method
        How the probability of a path is found: see :meth:`pesn.forecasting.rollout.Rollout.path_probability`.

    Examples
    --------
    >>> ChanceConstraint("x", above=2.4, below=-2.4, probability=0.01, over="path", method="markov").probability
    0.01
    """

    column: int | str
    above: float | None = None
    below: float | None = None
    probability: float = 0.05
    over: Literal["step", "path"] = "step"
    method: PathMethod = "bound"

    def __post_init__(self) -> None:
        if not isinstance(self.column, (str, int, np.integer)) or isinstance(self.column, bool):
            raise TypeError(f"column must be a name or a position, got {self.column!r}")
        check_levels(self.above, self.below)
        number("probability", self.probability, 0.0, 1.0, "()")
        for name, value, choices in (("over", self.over, ("step", "path")), ("method", self.method, ("bound", "markov"))):
            if value not in choices:
                raise ValueError(f"{name} must be {choices[0]!r} or {choices[1]!r}, got {value!r}")

    def excess(self, rollout: Rollout) -> Array:
        """How far each plan's probabilities are above what is allowed, (B,), summed over the steps; 0 where it is kept.

        >>> ChanceConstraint("force", above=1.0).excess(Rollout([[[0.0]]], [[[0.0]]], [[[[1.0]]]]))
        Traceback (most recent call last):
        ValueError: column must be among y0, or positions, got 'force'
        """
        levels = {"above": self.above, "below": self.below}
        each = rollout.probability(self.column, **levels)
        # the sum tells how bad plans are whose paths all fail
        excess: Array = np.maximum(each - self.probability, 0.0).sum(axis=1)
        if self.over == "path":
            excess += np.maximum(rollout.path_probability(self.column, **levels, method=self.method) - self.probability, 0.0)
        return excess


class Model(Protocol):
    """What can be planned with: a :class:`pesn.Forecaster`, or anything else that rolls plans out."""

    def rollout(self, controls: Array, start: object = None, covariance: str = "none") -> Rollout:
        """``controls`` (B, H, m) to a :class:`pesn.forecasting.rollout.Rollout`."""


@final
class MPPI:
    """Plans of ``horizon`` controls within limits, by drawing, rolling out and averaging.

    All draws are rolled out as means, and judged as if each had the covariances of the best plan before. The best ``n_elite`` and
    the plan that they were drawn around are then rolled out with covariances of their own, and averaged. The average is the new
    plan unless the best of them does better: between a way to the left and one to the right lies nothing good.

    Parameters
    ----------
    model
        A fitted :class:`pesn.Forecaster`, or whatever has its ``rollout``. It may learn between two plans.
    horizon
        Steps of a plan.
    limits
        (low, high) of the controls: numbers, for one input, or (m,) each.
    cost
        Of plans: a function of a :class:`pesn.forecasting.rollout.Rollout` of B plans to numbers (B,), such as
        ``lambda rollout: rollout.expected_cost(Q, goal, R)``.
    constraints
        What plans must keep, with a probability. Where no plan keeps them, the one that comes nearest is taken.
    n_plans
        Drawn in each iteration.
    n_elite
        Of the best of them, which are averaged.
    iterations
        In each plan.
    spread
        Deviation of the draws, as a share of half the limits' range: a number, or (m,).
    smoothness
        Steps over which a draw's perturbations go together: they are correlated as exp(−(lag / smoothness)² / 2); 0: not at all.
    fresh
        The share of the draws that are made around the middle of the limits, three times as wide, and not around the last plan.
    temperature
        In units of the elite's mean cost above the best: 0 takes the best alone, large values their plain mean.
    covariance
        How covariances are rolled out: as in :meth:`pesn.Forecaster.rollout`. ``"none"``: only means are judged, and a
        constraint is kept where the mean keeps it.
    random_state
        A seed, or a generator.

    Examples
    --------
    >>> MPPI(None, 20, limits=(1.0, -1.0), cost=len)
    Traceback (most recent call last):
    ValueError: limits must be (low, high) with low below high, got low=1.0 and high=-1.0
    """

    def __init__(
        self,
        model: Model,
        horizon: int,
        limits: tuple[npt.ArrayLike, npt.ArrayLike],
        cost: Callable[[Rollout], npt.ArrayLike],
        *,
        constraints: Sequence[ChanceConstraint] = (),
        n_plans: int = 300,
        n_elite: int = 8,
        iterations: int = 1,
        spread: npt.ArrayLike = 0.3,
        smoothness: float = 3.0,
        fresh: float = 0.1,
        temperature: float = 0.5,
        covariance: Literal["none", "diagonal", "low-rank", "full"] = "low-rank",
        random_state: RandomState = None,
    ) -> None:
        counts = {"horizon": horizon, "n_plans": n_plans, "n_elite": n_elite, "iterations": iterations}
        for name, count in counts.items():
            whole_number(name, count, 1)
        number("smoothness", smoothness, 0.0, math.inf, "[)")
        number("fresh", fresh, 0.0, 1.0, "[]")
        number("temperature", temperature, 0.0, math.inf, "[)")
        if covariance not in COVARIANCES:
            raise ValueError(f"covariance must be one of {', '.join(COVARIANCES)}, got {covariance!r}")
        if not callable(cost):
            raise TypeError(f"cost must be a function of a roll-out, got {cost!r}")
        if not isinstance(constraints, Iterable):
            raise TypeError(f"constraints must be a sequence of ChanceConstraint, got {constraints!r}")
        constraints = tuple(constraints)
        for constraint in constraints:
            if not isinstance(constraint, ChanceConstraint):
                raise TypeError(f"constraints must be ChanceConstraint, got {constraint!r}")
        self.model = model
        self.cost = cost
        self.constraints = constraints
        self.horizon, self.n_plans, self.n_elite = int(horizon), int(n_plans), min(int(n_elite), int(n_plans))
        self.iterations, self.temperature, self.covariance = int(iterations), float(temperature), covariance
        self.low, self.high = _box(limits)
        if not callable(getattr(model, "rollout", None)):
            raise TypeError(f"model must have a rollout, as a fitted Forecaster has, got {model!r}")
        self._middle, half = 0.5 * (self.low + self.high), 0.5 * (self.high - self.low)
        self._fresh = np.arange(self.n_plans) >= self.n_plans - round(float(fresh) * self.n_plans)
        self._widths = _share("spread", spread, half) * np.where(self._fresh, 3.0, 1.0)[:, None]
        self._root = _root(self.horizon, float(smoothness))
        self._rng = generator(random_state)
        self.reset()

    def reset(self, plan: npt.ArrayLike | None = None) -> None:
        """Forget the last plan: the next one starts from ``plan`` (horizon, m), or from the middle of the limits."""
        middle = np.tile(self._middle, (self.horizon, 1))
        start = middle if plan is None else np.asarray(as_real("plan", plan), np.float64)
        if start.shape != middle.shape:
            raise ValueError(f"plan must have shape {middle.shape}, steps and inputs, got {start.shape}")
        self._next = np.clip(start, self.low, self.high)
        self._near: Rollout | None = None  # a plan like the next one, with covariances

    def plan(self, start: object = None) -> Array:
        """The controls of the next ``horizon`` steps, (horizon, m).

        The next call starts from them, a step later: ask again after each step, and carry out the first control.

        Parameters
        ----------
        start
            Where from, as :meth:`pesn.Forecaster.rollout` takes it; None: after the last row that the model has seen.

        Returns
        -------
        array
            (horizon, m).
        """
        inputs = getattr(self.model, "n_known_", len(self.low))
        if inputs != len(self.low):
            raise ValueError(f"limits must be of the model's {inputs} inputs, got {len(self.low)} of them")
        chosen, near = self._next, self._near
        for _ in range(self.iterations):
            chosen, near = self._improve(chosen, near, start)
        self._next, self._near = np.concatenate([chosen[1:], chosen[-1:]]), near  # the last control is held
        return chosen.copy()

    def _improve(self, plan: Array, near: Rollout | None, start: object) -> tuple[Array, Rollout]:
        """The best of ``plan``, of the elite drawn around it, and of their average; with a roll-out that has its covariances."""
        if near is None:
            near = self._simulate_plans(plan[None], start, self.covariance)
        drawn = self._draw(plan)
        means = self._simulate_plans(drawn, start, "none")
        elite = _best(*self._evaluate(means, near), self.n_elite)
        drawn = np.concatenate([plan[None], drawn[elite]])
        rollout = self._simulate_plans(drawn, start, self.covariance)
        cost, excess = self._evaluate(rollout, rollout)
        average = np.einsum("b,bhm->hm", _compute_weights(cost, excess, self.temperature), drawn)
        first = _best(cost, excess, 1)
        near = rollout[first]
        between = self._evaluate(self._simulate_plans(average[None], start, "none"), near)
        costs, excesses = (np.append(a, b[first]) for a, b in zip(between, (cost, excess), strict=True))
        return (average if _best(costs, excesses, 1)[0] == 0 else drawn[first[0]]), near

    def _simulate_plans(self, controls: Array, start: object, covariance: str) -> Rollout:
        """Of a copy of the controls: a cost may work on what it is given in place."""
        rollout = self.model.rollout(controls.copy(), start, covariance=covariance)
        if not isinstance(rollout, Rollout):
            raise TypeError(f"model must roll out to a pesn.forecasting.rollout.Rollout, got {type(rollout).__name__}")
        wanted, found = controls.shape[:2], rollout.mean.shape[:2]
        if found != wanted:
            raise ValueError(f"model must roll out plans and steps {wanted} from one start, got {found}; is start a batch?")
        return rollout

    def _draw(self, plan: Array) -> Array:
        """Smooth perturbations of ``plan``, and of the middle of the limits, (n_plans, horizon, m)."""
        noise = self._rng.standard_normal((self.n_plans, len(self.low), self._root.shape[1])) @ self._root.T
        centre = np.where(self._fresh[:, None, None], self._middle, plan)
        drawn: Array = np.clip(centre + np.swapaxes(noise, 1, 2) * self._widths[:, None, :], self.low, self.high)
        return drawn

    def _evaluate(self, rollout: Rollout, near: Rollout) -> tuple[Array, Array]:
        """What plans cost, (B,), and how far they exceed what the constraints allow, (B,).

        Where there are means alone, they borrow the covariances of the plan ``near``; without any, a mean that keeps them does.
        """
        rollout = rollout if rollout.cov is not None else _borrow_covariances(rollout, near)
        excess = np.sum([constraint.excess(rollout) for constraint in self.constraints], axis=0) + np.zeros(len(rollout))
        cost = np.asarray(as_real("cost", self.cost(rollout)), np.float64)
        if cost.shape != (len(rollout),):
            raise ValueError(f"cost must give a number a plan, shape ({len(rollout)},), got shape {cost.shape}")
        return cost, excess


def _borrow_covariances(rollout: Rollout, near: Rollout) -> Rollout:
    """Return a roll-out of means with the covariances of the plan ``near``."""
    b, h, d = rollout.mean.shape
    cov, lagged = (np.zeros(()) if part is None else part for part in (near.cov, near.lagged))
    each = np.broadcast_to(cov, (b, h, d, d)), np.broadcast_to(lagged, (b, h - 1, d, d))
    return Rollout(rollout.mean, rollout.controls, *each, rollout.names)


def _best(cost: Array, excess: Array, n: int) -> npt.NDArray[np.intp]:
    """The n plans that keep the constraints best and, of those that keep them alike, cost least."""
    return np.lexsort((cost, excess))[:n]


def _compute_weights(cost: Array, excess: Array, temperature: float) -> Array:
    """The weight of each plan in their average: only of those that keep the constraints, or of the one that comes nearest."""
    shares = np.zeros(len(cost))
    kept = excess <= 0.0
    if not kept.any():
        shares[_best(cost, excess, 1)] = 1.0
        return shares
    above = cost[kept] - cost[kept].min()
    scale = temperature * above.mean()
    weights = np.exp(-above / scale) if scale > 0.0 else (above <= 0.0).astype(np.float64)
    shares[kept] = weights / weights.sum()
    return shares


def _box(limits: tuple[npt.ArrayLike, npt.ArrayLike]) -> tuple[Array, Array]:
    try:
        low, high = limits
    except (TypeError, ValueError):
        raise ValueError(f"limits must be two, (low, high), got {limits!r}") from None
    lower, upper = (np.atleast_1d(np.asarray(as_real("limits", end), np.float64)) for end in (low, high))
    if lower.ndim != 1 or lower.shape != upper.shape:
        raise ValueError(f"limits must be two numbers or two arrays (inputs,), got shapes {lower.shape} and {upper.shape}")
    if not (lower < upper).all():
        raise ValueError(f"limits must be (low, high) with low below high, got low={low!r} and high={high!r}")
    return lower, upper


def _share(argument: str, share: npt.ArrayLike, whole: Array) -> Array:
    parts = as_real(argument, share)
    if parts.shape not in ((), whole.shape) or not (parts > 0.0).all():
        raise ValueError(f"{argument} must be above 0, a number or one for each of {len(whole)} inputs, got {share!r}")
    return np.asarray(parts * whole, np.float64)


def _root(horizon: int, smoothness: float) -> Array:
    """(horizon, k): what makes k independent draws a smooth sequence of variance 1 at every step."""
    if smoothness == 0.0:
        return np.eye(horizon)
    lag = np.subtract.outer(np.arange(horizon), np.arange(horizon)) / smoothness
    values, vectors = np.linalg.eigh(np.exp(-0.5 * lag * lag))
    kept = values > 1e-6 * values[-1]  # a smooth sequence has few degrees of freedom
    root = vectors[:, kept] * np.sqrt(values[kept])
    return root / np.linalg.norm(root, axis=1, keepdims=True)
