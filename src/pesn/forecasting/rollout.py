"""The result of a roll-out: B plans, each a Gaussian over the rows that it leads to; costs and probabilities for planning.

>>> import numpy as np
>>> time = np.arange(1.0, 4.0)                                    # three steps, to the right and to the left
>>> mean = np.stack([time, -time])[..., None]
>>> rollout = Rollout(mean, np.ones((2, 3, 1)), cov=0.25 * np.ones((2, 3, 1, 1)), names=("x",))
>>> rollout
Rollout of 2 plans, 3 steps, 1 column (x)
>>> rollout.expected_cost(1.0, goal={"x": 3.0})                   # Σ (μ − g)² + σ²
array([ 5.75, 77.75])
>>> rollout.probability("x", above=2.0).round(2)                  # of each step
array([[0.02, 0.5 , 0.98],
       [0.  , 0.  , 0.  ]])
>>> best = rollout[0]                                             # one plan, or several: rollout[[1, 0]], rollout[:, -2:]
>>> best.forecast().to_frame().round(2)
        x  x_std  x_lower  x_upper
step
1     1.0    0.5     0.02     1.98
2     2.0    0.5     1.02     2.98
3     3.0    0.5     2.02     3.98

>>> square("Q", by_name("Q", {"theta": 2.0}, ("x", "theta")), 2)
array([[0., 0.],
       [0., 2.]])

>>> import numpy as np
>>> walk = np.arange(1.0, 5.0)                                    # Var(y_t) = t, Cov(y_t, y_{t+1}) = t: a random walk
>>> inside = Band(np.zeros(4), np.sqrt(walk), -np.inf, 2.0)
>>> inside.exit_probability().round(3)                            # at each of the four steps
array([0.023, 0.079, 0.124, 0.159])
>>> float(inside.path_limit().round(2)), float(inside.path_markov(walk[:-1]).round(2))
(0.38, 0.22)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.arguments import as_count, as_real, check_real, number
from pesn._support.types import Array, Rng
from pesn.forecasting.alignment import check_names, column_position, pluralize
from pesn.forecasting.forecast import Forecast
from pesn.gaussian import NormalMarginals
from pesn.linalg import factor_covariance, symmetric

Weights = npt.ArrayLike | Mapping[str, float]  # (d, d), a diagonal (d,), one number, or numbers by name


def by_name(argument: str, values: Any, names: tuple[str, ...], paths: bool = False) -> npt.ArrayLike:
    """Return the numbers of a mapping, Series or frame in the order of ``names``, 0 for those not named; other values unchanged.

    Parameters
    ----------
    argument : str
        Name of the argument in messages.
    values : array-like, mapping or pandas object
        Numbers, by name or not.
    names : tuple of str
        Names of the columns.
    paths : bool, default=False
        Whether a name may have a path (H,), and the rows of a frame are steps; else a frame has the names in both axes.

    Examples
    --------
    >>> by_name("goal", {"theta": [1.0, 2.0], "x": 3.0}, ("x", "theta"), paths=True)
    array([[3., 1.],
           [3., 2.]])
    """
    if not isinstance(values, Mapping) and not hasattr(values, "reindex"):  # nor of pandas
        return values
    _check_columns(argument, values.keys(), names)
    if getattr(values, "ndim", 1) == 2 and not paths:
        _check_columns(argument, values.index, names)
        return values.rename(index=str, columns=str).reindex(index=names, columns=names, fill_value=0.0).to_numpy()
    named = {str(name): np.asarray(value) for name, value in values.items()}
    for name, value in named.items():
        if value.ndim and not paths:
            raise ValueError(f"{argument} must be a number for each name, got shape {value.shape} for {name!r}")
    try:
        return np.stack(np.broadcast_arrays(*(named.get(name, np.zeros(())) for name in names)), axis=-1)
    except ValueError:
        shapes = ", ".join(f"{value.shape} for {name!r}" for name, value in named.items())
        raise ValueError(f"{argument} must be numbers, or paths of one length, by name, got shapes {shapes}") from None


def _check_columns(argument: str, found: Iterable[object], names: tuple[str, ...]) -> None:
    """Raise a ValueError if a name is unknown."""
    unknown = [str(name) for name in found if str(name) not in names]
    if unknown:
        raise ValueError(f"{argument} must name columns among {', '.join(names)}, got {unknown[0]!r}")


def check_levels(above: float | None, below: float | None) -> tuple[float, float]:
    """Return the lower and upper end of the band between two levels, infinite if there is none; one must be given."""
    if above is None and below is None:
        raise ValueError("above or below must be given, got neither")
    for name, level in (("above", above), ("below", below)):
        if level is not None:
            number(name, level, -np.inf, np.inf, "[]")
    high, low = np.inf if above is None else float(above), -np.inf if below is None else float(below)
    if low > high:
        raise ValueError(f"below must not lie above the level of above, got below={below!r} and above={above!r}")
    return low, high


def square(argument: str, values: npt.ArrayLike, size: int) -> Array:
    """Return symmetric weights (size, size) from a matrix, a diagonal or a number."""
    weights = np.asarray(as_real(argument, values), np.float64)
    if weights.shape in ((), (size,)):
        return np.diag(np.broadcast_to(weights, size))
    if weights.shape != (size, size):
        raise ValueError(f"{argument} must be a number, ({size},) or ({size}, {size}), got shape {weights.shape}")
    return 0.5 * (weights + weights.T)  # the antisymmetric part has no effect


def as_goal(goal: Weights, names: tuple[str, ...], steps: int) -> Array:
    """Return a goal (d,), a path (steps, d), or a number."""
    wanted = np.asarray(as_real("goal", by_name("goal", goal, names, paths=True)), np.float64)
    d = len(names)
    if wanted.shape not in ((), (d,), (steps, d)):
        raise ValueError(f"goal must have shape ({d},), a number a column, or ({steps}, {d}), a path, got {wanted.shape}")
    return wanted


_FAR = 38.0  # standard deviations beyond which the tail is 0 in double precision
_NEAREST = 1.0 - 1e-15  # largest correlation below 1


@dataclass(frozen=True)
class Band:
    """Steps of Gaussian paths, and the band [below, above] in which they should stay.

    Parameters
    ----------
    mean : array of shape (..., H)
        Mean of each step.
    std : array of shape (..., H)
        Standard deviation of each step.
    below : float
        Lower end of the band; −∞ for none.
    above : float
        Upper end of the band; ∞ for none.
    """

    mean: Array
    std: Array
    below: float
    above: float

    def exit_probability(self) -> Array:
        """Compute P(y_t < below or y_t > above) of each step, (..., H)."""
        low, high = self._ends()
        return special.ndtr(low) + special.ndtr(-high)

    def path_limit(self) -> Array:
        """Compute Boole's upper bound of the probability of leaving at any step, (...): the sum over the steps, at most 1."""
        return np.minimum(self.exit_probability().sum(axis=-1), 1.0)

    def path_markov(self, lagged: Array) -> Array:
        """Compute 1 − P(A_1) Π P(A_{t+1} | A_t), where y_t is in the band in A_t; exact for pairs of steps and Markov paths.

        Parameters
        ----------
        lagged : array of shape (..., H - 1)
            Cov(y_{t+1}, y_t).

        Returns
        -------
        array of shape (...)
            Between the largest probability of one step and Boole's bound.
        """
        low, high = self._ends()
        left = self.exit_probability()
        product = self.std[..., 1:] * self.std[..., :-1]
        correlation = np.clip(np.divide(lagged, product, out=np.zeros_like(product), where=product > 0.0), -1.0, 1.0)
        both = bivariate_cdf(high[..., :-1], high[..., 1:], correlation)
        if self.below > -np.inf:  # inclusion-exclusion over the four corners
            both -= bivariate_cdf(low[..., :-1], high[..., 1:], correlation)
            both -= bivariate_cdf(high[..., :-1], low[..., 1:], correlation)
            both += bivariate_cdf(low[..., :-1], low[..., 1:], correlation)
        now = 1.0 - left[..., :-1]
        next_given_now = np.clip(np.divide(both, now, out=np.zeros_like(now), where=now > 0.0), 0.0, 1.0)
        ever = 1.0 - (1.0 - left[..., 0]) * np.prod(next_given_now, axis=-1)
        return np.clip(ever, left.max(axis=-1), self.path_limit())  # small probabilities are not lost by cancellation

    def _ends(self) -> tuple[Array, Array]:
        """Return the ends in standard deviations from the mean, clipped; certain steps are far inside or outside."""
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = (self.below - self.mean) / self.std, (self.above - self.mean) / self.std
        low = np.where(self.std > 0.0, low, np.where(self.mean < self.below, np.inf, -np.inf))
        high = np.where(self.std > 0.0, high, np.where(self.mean > self.above, -np.inf, np.inf))
        return np.clip(low, -_FAR, _FAR), np.clip(high, -_FAR, _FAR)


def bivariate_cdf(h: Array, k: Array, correlation: Array) -> Array:
    """Compute P(x < h, y < k) of two standard normals by Owen's T function (Owen 1956); arrays broadcast.

    Φ(h)/2 + Φ(k)/2 − T(h, a) − T(k, b) − [½ if h and k have different signs], a = (k − ρh) / (h √(1 − ρ²)), b likewise.

    Parameters
    ----------
    h : array
        Finite numbers.
    k : array
        Finite numbers.
    correlation : array
        Correlations in [−1, 1].

    Returns
    -------
    array
        Probabilities, accurate to about 1e-15.

    Examples
    --------
    >>> bivariate_cdf(np.zeros(3), np.zeros(3), np.array([-0.5, 0.0, 0.5])).round(6)  # 1/4 + arcsin(ρ)/2π
    array([0.166667, 0.25    , 0.333333])
    """
    rho = np.clip(correlation, -_NEAREST, _NEAREST)
    away = np.sqrt((1.0 - rho) * (1.0 + rho))
    h, k = (np.where(np.abs(x) < 1e-150, 1e-150, x) for x in (h, k))  # T(0, a) = arctan(a)/2π is the limit, 0/0 is not
    corner = special.owens_t(h, (k - rho * h) / (h * away)) + special.owens_t(k, (h - rho * k) / (k * away))
    cdf: Array = 0.5 * (special.ndtr(h) + special.ndtr(k)) - corner - np.where(h * k < 0.0, 0.5, 0.0)
    return np.clip(cdf, 0.0, 1.0)


PathMethod = Literal["bound", "markov"]
_ROUNDING = 1e-9  # tolerance of negative eigenvalues, relative to the largest


@dataclass(frozen=True, eq=False, repr=False)
class Rollout(NormalMarginals[Array]):
    """B plans and the Gaussians over H rows of d columns that they lead to.

    ``len(rollout)`` is B. ``rollout[i]``, with a number, a slice, an array of numbers or a mask, holds those plans (a single one
    as B = 1); ``rollout[i, steps]``, with a slice of contiguous steps, those steps.

    Parameters
    ----------
    mean : array-like of shape (B, H, d)
        Means.
    controls : array-like of shape (B, H, m)
        Controls: ``controls[:, t]`` leads to row t.
    cov : array-like of shape (B, H, d, d), optional
        Covariance of each row; None if only means were rolled out.
    lagged : array-like of shape (B, H - 1, d, d), optional
        Cov(y_{t+1}, y_t); None if not known.
    names : tuple of str, optional
        Names of the d columns; None: "y0", "y1", …
    start : array-like of shape (d,) or (B, d), optional
        Last observed row, of all plans or of each, from which figures begin; NaN is a missing value.
    """

    mean: Array
    controls: Array
    cov: Array | None = None
    lagged: Array | None = None
    names: tuple[str, ...] | None = None
    start: Array | None = None

    def __post_init__(self) -> None:
        mean = np.asarray(as_real("mean", self.mean), np.float64)
        if mean.ndim != 3 or 0 in mean.shape[1:]:
            raise ValueError(f"mean must have shape (plans, steps, columns), with a step and a column at least, got {mean.shape}")
        b, h, d = mean.shape
        object.__setattr__(self, "mean", mean)
        shapes: dict[str, tuple[int | str, ...]] = {
            "controls": (b, h, "inputs"), "cov": (b, h, d, d), "lagged": (b, h - 1, d, d)
        }  # fmt: skip
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value is None and name != "controls":
                continue
            array = np.asarray(as_real(name, value), np.float64)
            if array.ndim != len(shape) or any(n not in (size, "inputs") for n, size in zip(shape, array.shape, strict=True)):
                expected = f"({', '.join(map(str, shape))})"
                raise ValueError(f"{name} must have shape {expected}, as mean has {mean.shape}, got {array.shape}")
            object.__setattr__(self, name, array)
        object.__setattr__(self, "names", check_names(self.names, d))
        if self.start is not None:
            check_real("start", self.start)
            start = np.asarray(self.start, np.float64)
            if start.shape not in ((d,), (b, d)):
                raise ValueError(f"start must have shape ({d},) or {(b, d)}, got {start.shape}")
            object.__setattr__(self, "start", np.broadcast_to(start, (b, d)))

    def __repr__(self) -> str:
        b, h, d = self.mean.shape
        names = self._names if d <= 8 else (*self._names[:6], "…", self._names[-1])
        means = "" if self.cov is not None else ", means alone"
        columns = f"{pluralize(d, 'column')} ({', '.join(names)})"
        return f"Rollout of {pluralize(b, 'plan')}, {pluralize(h, 'step')}, {columns}{means}"

    # ---------------------------------------------------------------- properties

    @cached_property
    def var(self) -> Array | None:
        """Variances, (B, H, d); None if only means were rolled out."""
        return None if self.cov is None else np.maximum(np.einsum("bhii->bhi", self.cov), 0.0)

    @cached_property
    def std(self) -> Array | None:
        """Standard deviations, (B, H, d); None if only means were rolled out."""
        return None if self.var is None else np.sqrt(self.var)

    @property
    def horizon(self) -> int:
        """Number of steps, H."""
        return self.mean.shape[1]

    def __len__(self) -> int:
        return len(self.mean)

    def __getitem__(self, index: Any) -> Rollout:
        plans, steps = index if isinstance(index, tuple) and len(index) == 2 else (index, slice(None))
        if not isinstance(steps, slice) or steps.step not in (None, 1):
            raise TypeError(f"steps must be a slice without gaps, such as -10:, got {steps!r}")
        first, last, _ = steps.indices(self.horizon)
        try:
            chosen = np.atleast_1d(np.arange(len(self))[plans])
        except (IndexError, TypeError) as error:
            raise type(error)(f"plans must be among the {len(self)} of the roll-out, got {plans!r}") from None
        if chosen.ndim != 1 or last <= first:
            raise IndexError(f"a roll-out of {pluralize(self.horizon, 'step')} has no part {index!r}")
        rows = plans if isinstance(plans, slice) else chosen, slice(first, last)  # slices are not copied
        cov = None if self.cov is None else self.cov[rows]
        lagged = None if self.lagged is None else self.lagged[rows[0], first : last - 1]
        start = None if self.start is None or first else self.start[rows[0]]  # later steps do not begin there
        return Rollout(self.mean[rows], self.controls[rows], cov, lagged, self.names, start)

    # ---------------------------------------------------------------- costs

    def expected_cost(self, Q: Weights, goal: Weights = 0.0, R: npt.ArrayLike | None = None) -> Array:
        """Compute Σ_t E[(y_t − g_t)ᵀ Q (y_t − g_t)] + u_tᵀ R u_t = Σ_t (μ − g)ᵀ Q (μ − g) + tr(Q Σ) + uᵀ R u, exactly.

        Without covariances it is the cost of the means.

        Parameters
        ----------
        Q : array-like or mapping
            Weights of y: (d, d), a diagonal (d,), one number for all columns, or numbers by name, 0 for those not named.
        goal : array-like or mapping, default=0.0
            g: (d,), a path (H, d), one number, or numbers by name, 0 for those not named.
        R : array-like, optional
            Weights of the controls: (m, m), a diagonal (m,) or one number; None: no cost.

        Returns
        -------
        array of shape (B,)
            Costs. For some steps: ``rollout[:, -10:].expected_cost(…)``.
        """
        weights = square("Q", by_name("Q", Q, self._names), self.mean.shape[2])
        away = self.mean - as_goal(goal, self._names, self.horizon)
        cost: Array = np.einsum("bhi,bhi->b", away @ weights, away)
        if self.cov is not None:
            cost += np.einsum("ij,bhij->b", weights, self.cov)
        if R is not None:
            cost += np.einsum("bhi,bhi->b", self.controls @ square("R", R, self.controls.shape[2]), self.controls)
        return cost

    def saturating_cost(self, Q: Weights, goal: Weights = 0.0) -> Array:
        """Compute PILCO's cost Σ_t 1 − E[exp(−½ (y_t − g_t)ᵀ Q (y_t − g_t))]: each step costs at most 1.

        E[exp(…)] = det(I + ΣQ)^(−½) exp(−½ (μ − g)ᵀ Q (I + ΣQ)^(−1) (μ − g)), exactly; Σ is 0 without covariances.

        Parameters
        ----------
        Q : array-like or mapping
            As in :meth:`expected_cost`, positive semi-definite: inverse squares of length scales.
        goal : array-like or mapping, default=0.0
            As in :meth:`expected_cost`.

        Returns
        -------
        array of shape (B,)
            Sum over the steps, in [0, H].
        """
        values, vectors = np.linalg.eigh(square("Q", by_name("Q", Q, self._names), self.mean.shape[2]))
        if values[0] < -_ROUNDING * np.abs(values).max():
            raise ValueError(f"Q must be positive semi-definite, got an eigenvalue of {values[0]:.3g}")
        kept = values > _ROUNDING * values[-1]
        root = vectors[:, kept] * np.sqrt(values[kept])  # Q = L Lᵀ: |I + ΣQ| = |I + Lᵀ Σ L|, which is symmetric
        away = (self.mean - as_goal(goal, self._names, self.horizon)) @ root
        log = np.zeros(self.mean.shape[:2])
        if self.cov is not None:
            try:
                lower = np.linalg.cholesky(np.eye(root.shape[1]) + root.T @ self.cov @ root)
            except np.linalg.LinAlgError:
                least = np.linalg.eigvalsh(self.cov).min()
                raise ValueError(f"cov must be positive semi-definite, got an eigenvalue of {least:.3g}") from None
            log = np.log(np.einsum("bhii->bhi", lower)).sum(axis=-1)
            away = np.linalg.solve(lower, away[..., None])[..., 0]
        return (1.0 - np.exp(-0.5 * np.square(away).sum(axis=-1) - log)).sum(axis=1)

    def angle_cost(self, column: int | str, goal: npt.ArrayLike = 0.0) -> Array:
        """Compute Σ_t E[1 − cos(θ_t − g_t)] = Σ_t 1 − exp(−σ²/2) cos(μ − g), exactly: periodic, and at most 2 for each step.

        Parameters
        ----------
        column : int or str
            Column of the angle in radians, by name or position.
        goal : array-like, default=0.0
            g: one angle, or a path (H,).

        Returns
        -------
        array of shape (B,)
        """
        i = column_position("column", column, self._names)
        wanted = as_real("goal", goal)
        if wanted.shape not in ((), (self.horizon,)):
            raise ValueError(f"goal must be an angle or a path of {pluralize(self.horizon, 'angle')}, got shape {wanted.shape}")
        near = np.cos(self.mean[..., i] - wanted)
        if self.var is not None:
            near *= np.exp(-0.5 * self.var[..., i])
        return (1.0 - near).sum(axis=1)

    # ---------------------------------------------------------------- probabilities

    def probability(self, column: int | str, *, above: float | None = None, below: float | None = None) -> Array:
        """Compute P(y > above), P(y < below), or with both P(y > above or y < below), of each step.

        Parameters
        ----------
        column : int or str
            Column, by name or position.
        above : float, optional
            Upper level.
        below : float, optional
            Lower level, not above ``above``; at least one level must be given.

        Returns
        -------
        array of shape (B, H)
        """
        return self._band(column, above, below).exit_probability()

    def path_probability(
        self, column: int | str, *, above: float | None = None, below: float | None = None, method: PathMethod = "bound"
    ) -> Array:
        """Compute the probability that any step of the path is above ``above`` or below ``below``.

        Parameters
        ----------
        column : int or str
            Column, by name or position.
        above : float, optional
            Upper level.
        below : float, optional
            Lower level, not above ``above``; at least one level must be given.
        method : {"bound", "markov"}, default="bound"
            ``"bound"``: the sum over the steps, at most 1, an upper bound (Boole) for any dependence between steps; it is loose
            for paths that stay near a level. ``"markov"``: the estimate 1 − P(A_1) Π P(A_{t+1} | A_t), where step t is inside in
            A_t. It uses the correlation of successive rows in ``lagged`` and neglects earlier ones, so it is slightly too high
            for rough paths such as random walks. It never exceeds the bound.

        Returns
        -------
        array of shape (B,)
        """
        band = self._band(column, above, below)
        if method == "bound":
            return band.path_limit()
        if method != "markov":
            raise ValueError(f"method must be 'bound' or 'markov', got {method!r}")
        if self.lagged is None:
            raise ValueError(
                "method 'markov' needs lagged, the covariances of successive rows; roll out with 'low-rank' or 'full'"
            )
        i = column_position("column", column, self._names)
        return band.path_markov(self.lagged[..., i, i])

    def sample(self, n: int, rng: Rng = None) -> Array:
        """Draw ``n`` paths of each plan, (n, B, H, d).

        Successive rows have the covariances ``lagged``, and no other memory; where these are not known, rows are independent.

        Parameters
        ----------
        n : int
            Number of paths, 0 or more.
        rng : int or numpy.random.Generator, optional
            Seed or generator.

        Returns
        -------
        array of shape (n, B, H, d)
        """
        self._moments("sample")
        assert self.cov is not None
        b, h, d = self.mean.shape
        draws = np.random.default_rng(rng).standard_normal((as_count("n", n), b, h, d))
        paths = np.empty_like(draws)
        for t in range(h):
            mean, left = self.mean[:, t], self.cov[:, t]
            if t and self.lagged is not None:  # y_t given y_{t−1}, as in a Markov chain
                gain = self.lagged[:, t - 1] @ np.linalg.pinv(self.cov[:, t - 1], hermitian=True)
                mean = mean + np.einsum("bij,nbj->nbi", gain, paths[:, :, t - 1] - self.mean[:, t - 1])
                left = left - gain @ np.swapaxes(self.lagged[:, t - 1], 1, 2)
            paths[:, :, t] = mean + np.einsum("bij,nbj->nbi", factor_covariance(symmetric(left)), draws[:, :, t])
        return paths

    def _moments(self, what: str) -> tuple[Array, Array]:
        """Return means and standard deviations, or raise a ValueError without covariances."""
        if self.std is None:
            raise ValueError(f"{what} needs covariances, and means alone were rolled out; take covariance='low-rank'")
        return self.mean, self.std

    # ---------------------------------------------------------------- conversion

    def forecast(self, plan: int = 0, history: npt.ArrayLike | None = None) -> Forecast:
        """Return one plan as a :class:`pesn.Forecast`, with its frames and figures.

        Parameters
        ----------
        plan : int, default=0
            Number of the plan.
        history : array-like of shape (k, d), optional
            Last observed rows, for figures; None: ``start``.

        Returns
        -------
        Forecast
            Its standard deviations are 0 if only means were rolled out.
        """
        one = self[plan]
        if len(one) != 1:
            raise ValueError(f"plan must be one plan, got {plan!r}")
        h, d = self.mean.shape[1:]
        cov = np.zeros((h, d, d)) if one.cov is None else one.cov[0]
        history = one.start if history is None else history
        return Forecast(one.mean[0], None, {"all": np.einsum("hii->hi", cov)}, one.names, history=history, cov=cov)

    # ---------------------------------------------------------------- arguments

    @property
    def _names(self) -> tuple[str, ...]:
        """Names of the columns."""
        assert self.names is not None  # set in __post_init__
        return self.names

    def _band(self, column: int | str, above: float | None, below: float | None) -> Band:
        """Return the band between two levels of a column."""
        i = column_position("column", column, self._names)
        low, high = check_levels(above, below)
        mean, std = self._moments("a probability")
        return Band(mean[..., i], std[..., i], low, high)
