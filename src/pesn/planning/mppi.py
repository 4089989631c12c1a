"""Model predictive path integral control (Williams et al. 2017) with :meth:`pesn.Forecaster.rollout`.

A plan is a sequence of controls. Many are sampled around the last one and rolled out; the next plan is their mean, weighted by
exp(−cost / temperature). Any object with a ``rollout`` can be planned with; here a point mass, whose dynamics is known:

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
...     force = planner.plan(state)[0, 0]       # the first control of the plan; the next plan starts from the others
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
    """Constraint P(column above ``above`` or below ``below``) ≤ ``probability``, at each step or over the whole path.

    Parameters
    ----------
    column : int or str
        Column of y, by name or position.
    above : float, optional
        Upper level.
    below : float, optional
        Lower level; at least one level must be given.
    probability : float, default=0.05
        Largest allowed probability, in (0, 1).
    over : {"step", "path"}, default="step"
        Whether the probability is that of each step, or that of any step, which is stricter.
    method : {"bound", "markov"}, default="bound"
        Computation of the probability of a path: see :meth:`pesn.forecasting.rollout.Rollout.path_probability`.

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
        """Compute how far the probabilities of each plan exceed the limit, (B,), summed over the steps; 0 for none.

        Parameters
        ----------
        rollout : Rollout
            B plans with covariances.

        Examples
        --------
        >>> ChanceConstraint("force", above=1.0).excess(Rollout([[[0.0]]], [[[0.0]]], [[[[1.0]]]]))
        Traceback (most recent call last):
        ValueError: column must be among y0, or positions, got 'force'
        """
        levels = {"above": self.above, "below": self.below}
        each = rollout.probability(self.column, **levels)
        # the sum over steps ranks plans whose paths all fail
        excess: Array = np.maximum(each - self.probability, 0.0).sum(axis=1)
        if self.over == "path":
            excess += np.maximum(rollout.path_probability(self.column, **levels, method=self.method) - self.probability, 0.0)
        return excess


class Model(Protocol):
    """Models that can be planned with: :class:`pesn.Forecaster`, or any object with its ``rollout``."""

    def rollout(self, controls: Array, start: object = None, covariance: str = "none") -> Rollout:
        """Return the :class:`pesn.forecasting.rollout.Rollout` of controls (B, H, m)."""


@final
class MPPI:
    """Model predictive path integral control: plan by sampling, rolling out and averaging controls within limits.

    All sampled plans are rolled out as means and evaluated with the covariances of the previous best plan. The best ``n_elite``
    and the plan that they were sampled around are then rolled out with their own covariances and averaged. The average becomes
    the plan unless the best of them costs less: between a path to the left and one to the right of an obstacle the average is
    useless.

    Parameters
    ----------
    model : Forecaster
        A fitted :class:`pesn.Forecaster`, or any object with its ``rollout``. It may be updated between two plans.
    horizon : int
        Number of steps of a plan.
    limits : tuple of array-like
        (low, high) of the controls: numbers for one input, or (m,) each.
    cost : callable
        Cost of plans: a function of a :class:`pesn.forecasting.rollout.Rollout` of B plans that returns (B,), such as
        ``lambda rollout: rollout.expected_cost(Q, goal, R)``.
    constraints : sequence of ChanceConstraint, default=()
        Chance constraints. If no plan satisfies them, the one with the smallest excess is chosen.
    n_plans : int, default=300
        Number of plans sampled in each iteration.
    n_elite : int, default=8
        Number of the best plans that are averaged.
    iterations : int, default=1
        Number of iterations for each plan.
    spread : float or array-like of shape (m,), default=0.3
        Standard deviation of the samples, relative to half the range of the limits.
    smoothness : float, default=3.0
        Correlation length of the perturbations in steps: correlations are exp(−(lag / smoothness)² / 2); 0 for none.
    fresh : float, default=0.1
        Share of the samples that are drawn around the middle of the limits, three times as wide, instead of around the last
        plan.
    temperature : float, default=0.5
        Temperature in units of the mean cost of the elite above the best: 0 selects the best, large values the plain mean.
    covariance : {"none", "diagonal", "low-rank", "full"}, default="low-rank"
        Form of the covariances: as in :meth:`pesn.Forecaster.rollout`. With ``"none"`` only means are evaluated, and a
        constraint holds if the mean satisfies it.
    random_state : int or numpy.random.Generator, optional
        Seed or generator.

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
        """Forget the last plan.

        Parameters
        ----------
        plan : array-like of shape (horizon, m), optional
            Plan from which the next one starts; None: the middle of the limits.
        """
        middle = np.tile(self._middle, (self.horizon, 1))
        start = middle if plan is None else np.asarray(as_real("plan", plan), np.float64)
        if start.shape != middle.shape:
            raise ValueError(f"plan must have shape {middle.shape}, steps and inputs, got {start.shape}")
        self._next = np.clip(start, self.low, self.high)
        self._near: Rollout | None = None  # a plan like the next one, with covariances

    def plan(self, start: object = None) -> Array:
        """Plan the controls of the next ``horizon`` steps.

        The next call starts from them, one step later: plan again after each step, and apply the first control.

        Parameters
        ----------
        start : FilteredContext, optional
            Initial state as in :meth:`pesn.Forecaster.rollout`; None: after the last row that the model has seen.

        Returns
        -------
        array of shape (horizon, m)
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
        """Return the best of the plan, the elite sampled around it and their average, and a roll-out with its covariances."""
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
        """Roll out a copy of the controls, since a cost may change its arguments in place."""
        rollout = self.model.rollout(controls.copy(), start, covariance=covariance)
        if not isinstance(rollout, Rollout):
            raise TypeError(f"model must roll out to a pesn.forecasting.rollout.Rollout, got {type(rollout).__name__}")
        wanted, found = controls.shape[:2], rollout.mean.shape[:2]
        if found != wanted:
            raise ValueError(f"model must roll out plans and steps {wanted} from one start, got {found}; is start a batch?")
        return rollout

    def _draw(self, plan: Array) -> Array:
        """Sample smooth perturbations of the plan and of the middle of the limits, (n_plans, horizon, m)."""
        noise = self._rng.standard_normal((self.n_plans, len(self.low), self._root.shape[1])) @ self._root.T
        center = np.where(self._fresh[:, None, None], self._middle, plan)
        return np.clip(center + np.swapaxes(noise, 1, 2) * self._widths[:, None, :], self.low, self.high)

    def _evaluate(self, rollout: Rollout, near: Rollout) -> tuple[Array, Array]:
        """Compute the costs of plans (B,) and how far they exceed the constraints (B,).

        Means without covariances take those of the plan ``near``; if it has none, the constraints apply to the means.
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
    return Rollout(rollout.mean, rollout.controls, *each, rollout.names, rollout.start)


def _best(cost: Array, excess: Array, n: int) -> npt.NDArray[np.intp]:
    """Return the n best plans: first by the constraints, then by cost."""
    return np.lexsort((cost, excess))[:n]


def _compute_weights(cost: Array, excess: Array, temperature: float) -> Array:
    """Compute the weights of plans in their average: those that satisfy the constraints, or the one with the smallest excess."""
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
    """Return the limits as arrays, or raise a ValueError."""
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
    """Return a positive share of ``whole``, or raise a ValueError."""
    parts = as_real(argument, share)
    if parts.shape not in ((), whole.shape) or not (parts > 0.0).all():
        raise ValueError(f"{argument} must be above 0, a number or one for each of {len(whole)} inputs, got {share!r}")
    return np.asarray(parts * whole, np.float64)


def _root(horizon: int, smoothness: float) -> Array:
    """Return a root (horizon, k) that turns k independent draws into a smooth sequence of variance 1 at every step."""
    if smoothness == 0.0:
        return np.eye(horizon)
    lag = np.subtract.outer(np.arange(horizon), np.arange(horizon)) / smoothness
    values, vectors = np.linalg.eigh(np.exp(-0.5 * lag * lag))
    kept = values > 1e-6 * values[-1]  # a smooth sequence has few degrees of freedom
    root = vectors[:, kept] * np.sqrt(values[kept])
    return root / np.linalg.norm(root, axis=1, keepdims=True)
