"""The result of a roll-out: B plans, each a Gaussian over the rows that it leads to, and what planning asks of them.

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
>>> best.to_frame().round(2)
        x  x_std  x_lower  x_upper
step
1     1.0    0.5     0.02     1.98
2     2.0    0.5     1.02     2.98
3     3.0    0.5     2.02     3.98
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.arguments import as_real
from pesn._support.checks import number
from pesn._support.types import Array
from pesn.forecasting.cost_weights import Weights, as_goal, by_name, square
from pesn.forecasting.crossing import Band
from pesn.forecasting.forecast import Forecast
from pesn.forecasting.row_labels import check_names, column_position, counted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["PathMethod", "Rollout"]

PathMethod = Literal["bound", "markov"]
_TWO_DEVIATIONS = 0.9544997361036416  # the probability within 2σ
_ROUNDING = 1e-9  # of the largest eigenvalue: what a semi-definite matrix may fall below 0 by


@dataclass(frozen=True, eq=False, repr=False)
class Rollout:
    """B plans and where they lead: Gaussians over H rows of d columns.

    ``len(rollout)`` is B. ``rollout[i]``, with a number, a slice, an array of numbers or a mask, holds those plans alone, one
    as B = 1; ``rollout[i, steps]``, with a slice of steps without gaps, those steps alone.

    Parameters
    ----------
    mean
        (B, H, d).
    controls
        (B, H, m): ``controls[:, t]`` leads to row t.
    cov
        (B, H, d, d), the covariance of each row; None: means alone were rolled out.
    lagged
        (B, H − 1, d, d), Cov(y_{t+1}, y_t); None: not known.
    names
        Of the d columns; None: "y0", "y1", …
    """

    mean: Array
    controls: Array
    cov: Array | None = None
    lagged: Array | None = None
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        arrays = {name: getattr(self, name) for name in ("mean", "controls", "cov", "lagged")}
        arrays = {
            name: np.asarray(as_real(name, value), np.float64)
            for name, value in arrays.items()
            if value is not None or name in ("mean", "controls")
        }
        mean = arrays["mean"]
        if mean.ndim != 3 or 0 in mean.shape[1:]:
            raise ValueError(f"mean must have shape (plans, steps, columns), with a step and a column at least, got {mean.shape}")
        b, h, d = mean.shape
        shapes: dict[str, tuple[int, ...]] = {"controls": (b, h), "cov": (b, h, d, d), "lagged": (b, h - 1, d, d)}
        for name, shape in shapes.items():
            if name in arrays and (arrays[name].shape[:2] if name == "controls" else arrays[name].shape) != shape:
                wanted = f"({b}, {h}, inputs)" if name == "controls" else f"{shape}"
                raise ValueError(f"{name} must have shape {wanted}, as mean has {mean.shape}, got {arrays[name].shape}")
        if "controls" in arrays and arrays["controls"].ndim != 3:
            raise ValueError(f"controls must have shape ({b}, {h}, inputs), got {arrays['controls'].shape}")
        for name, array in arrays.items():
            object.__setattr__(self, name, array)
        object.__setattr__(self, "names", check_names(self.names, d))

    def __repr__(self) -> str:
        b, h, d = self.mean.shape
        names = self._names if d <= 8 else (*self._names[:6], "…", self._names[-1])
        means = "" if self.cov is not None else ", means alone"
        columns = f"{counted(d, 'column')} ({', '.join(names)})"
        return f"Rollout of {counted(b, 'plan')}, {counted(h, 'step')}, {columns}{means}"

    # ---------------------------------------------------------------- what it is

    @cached_property
    def var(self) -> Array | None:
        """The variances, (B, H, d); None where means alone were rolled out."""
        return None if self.cov is None else np.maximum(np.einsum("bhii->bhi", self.cov), 0.0)

    @cached_property
    def std(self) -> Array | None:
        """The standard deviations, (B, H, d); None where means alone were rolled out."""
        return None if self.var is None else np.sqrt(self.var)

    @property
    def horizon(self) -> int:
        """The number of steps, H."""
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
            raise IndexError(f"a roll-out of {counted(self.horizon, 'step')} has no part {index!r}")
        rows, pairs = slice(first, last), slice(first, last - 1)
        whole = isinstance(plans, slice)  # then without a copy
        arrays = {
            "mean": (self.mean, rows), "controls": (self.controls, rows), "cov": (self.cov, rows), "lagged": (self.lagged, pairs)
        }  # fmt: skip
        parts = {
            name: None if array is None else array[plans, part] if whole else array[chosen, part]
            for name, (array, part) in arrays.items()
        }
        return Rollout(**parts, names=self.names)  # type: ignore[arg-type]

    # ---------------------------------------------------------------- what it costs

    def expected_cost(self, Q: Weights, goal: Weights = 0.0, R: npt.ArrayLike | None = None) -> Array:
        """Σ_t E[(y_t − g_t)ᵀ Q (y_t − g_t)] + u_tᵀ R u_t = Σ_t (μ − g)ᵀ Q (μ − g) + tr(Q Σ) + uᵀ R u, exactly.

        Where means alone were rolled out, Σ counts as 0: the cost of the mean.

        Parameters
        ----------
        Q
            Weights of y: (d, d), a diagonal (d,), one number for all columns, or numbers by name, 0 for those not named.
        goal
            g: (d,), a path (H, d), one number, or numbers by name, 0 for those not named.
        R
            Weights of the controls: (m, m), a diagonal (m,) or one number; None: controls cost nothing.

        Returns
        -------
        array
            (B,). Costs of some steps alone are those of a part: ``rollout[:, -10:].expected_cost(…)``.
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
        """Σ_t 1 − E[exp(−½ (y_t − g_t)ᵀ Q (y_t − g_t))], PILCO's cost: each step costs at most 1, however far away.

        E[exp(…)] = det(I + ΣQ)^(−½) exp(−½ (μ − g)ᵀ Q (I + ΣQ)^(−1) (μ − g)), exactly; Σ counts as 0 where there are means alone.

        Parameters
        ----------
        Q
            As in :meth:`expected_cost`, positive semi-definite: the inverse squares of the distances that matter.
        goal
            As in :meth:`expected_cost`.

        Returns
        -------
        array
            (B,), the sum over the steps, in [0, H].
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
        cost: Array = (1.0 - np.exp(-0.5 * np.square(away).sum(axis=-1) - log)).sum(axis=1)
        return cost

    def angle_cost(self, column: int | str, goal: npt.ArrayLike = 0.0) -> Array:
        """Σ_t E[1 − cos(θ_t − g_t)] = Σ_t 1 − exp(−σ²/2) cos(μ − g), exactly: smooth, the same for all turns, 2 at the far side.

        Parameters
        ----------
        column
            Of the angle in radians, by name or position.
        goal
            g: one angle, or a path (H,).

        Returns
        -------
        array
            (B,).
        """
        i = column_position("column", column, self._names)
        wanted = as_real("goal", goal)
        if wanted.shape not in ((), (self.horizon,)):
            raise ValueError(f"goal must be an angle or a path of {counted(self.horizon, 'angle')}, got shape {wanted.shape}")
        near = np.cos(self.mean[..., i] - wanted)
        if self.var is not None:
            near *= np.exp(-0.5 * self.var[..., i])
        cost: Array = (1.0 - near).sum(axis=1)
        return cost

    # ---------------------------------------------------------------- how probable, how wide

    def probability(self, column: int | str, *, above: float | None = None, below: float | None = None) -> Array:
        """P(y > above), P(y < below), or with both P(y > above or y < below): outside the band; of each step.

        Parameters
        ----------
        column
            By name or position.
        above, below
            Levels, one at least, ``below`` not above ``above``.

        Returns
        -------
        array
            (B, H).
        """
        return self._band(column, above, below).left()

    def path_probability(
        self, column: int | str, *, above: float | None = None, below: float | None = None, method: PathMethod = "bound"
    ) -> Array:
        """The probability that any step of the path is above ``above`` or below ``below``.

        Parameters
        ----------
        column
            By name or position.
        above, below
            As in :meth:`probability`.
        method
            ``"bound"``: the sum over the steps, at most 1. An upper bound (Boole's), whatever goes on between the steps; a path
            that stays long near a level is counted again and again. ``"markov"``: an estimate,
            1 − P(A_1) Π P(A_{t+1} | A_t), A_t: step t is within. The correlation of successive rows is taken from ``lagged``, so
            each factor is exact; that a path was within before step t, too, is left out, which makes the estimate a little too
            high where paths are rough, as random walks are. Never above the bound.

        Returns
        -------
        array
            (B,).
        """
        band = self._band(column, above, below)
        if method == "bound":
            return band.ever_left_bound()
        if method != "markov":
            raise ValueError(f"method must be 'bound' or 'markov', got {method!r}")
        if self.lagged is None:
            raise ValueError(
                "method 'markov' needs lagged, the covariances of successive rows; roll out with 'low-rank' or 'full'"
            )
        i = column_position("column", column, self._names)
        return band.ever_left_markov(self.lagged[..., i, i])

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """The central interval of each number that holds it with probability ``level``: (lower, upper), each (B, H, d)."""
        number("level", level, 0.0, 1.0, "()")
        if self.std is None:
            raise ValueError(_NO_COVARIANCE.format("interval"))
        reach = self.std * -special.ndtri(0.5 * (1.0 - float(level)))
        return self.mean - reach, self.mean + reach

    # ---------------------------------------------------------------- to be looked at

    def forecast(self, plan: int = 0, history: npt.ArrayLike | None = None) -> Forecast:
        """One plan as a :class:`pesn.Forecast`, which has tables, pictures and row by row a :class:`pesn.Gaussian`.

        Parameters
        ----------
        plan
            Which of the B.
        history
            (k, d), the last rows that were observed, for pictures.

        Returns
        -------
        Forecast
            Its deviations are 0 where means alone were rolled out.
        """
        one = self[plan]
        if len(one) != 1:
            raise ValueError(f"plan must be one plan, got {plan!r}")
        h, d = self.mean.shape[1:]
        cov = np.zeros((h, d, d)) if one.cov is None else one.cov[0]
        return Forecast(one.mean[0], None, {"all": np.einsum("hii->hi", cov)}, one.names, history=history, cov=cov)

    def to_frame(self, plan: int = 0, level: float | Sequence[float] = 0.95) -> pd.DataFrame:
        """A row a step of one plan: see :meth:`pesn.Forecast.to_frame`.

        Parameters
        ----------
        plan
            Which of the B.
        level
            Of the intervals, one or several.

        Returns
        -------
        DataFrame
            For each name the columns name, name_std, name_lower, name_upper.
        """
        return self.forecast(plan).to_frame(level)

    def plot(
        self,
        plan: int = 0,
        ax: Axes | Sequence[Axes] | None = None,
        columns: int | str | Sequence[int | str] | None = None,
        level: float | Sequence[float] = _TWO_DEVIATIONS,
        truth: npt.ArrayLike | None = None,
        history: npt.ArrayLike | None = None,
    ) -> list[Axes]:
        """The tube of one plan, a panel a column: see :func:`pesn.plotting.plot_forecast`.

        Parameters
        ----------
        plan
            Which of the B.
        ax
            As many axes as there are panels; None makes a new figure.
        columns
            Names or positions; None is all.
        level
            Probabilities of the bands; two deviations unless told.
        truth
            What came, (H, d); NaN is a missing value.
        history
            (k, d), the last rows that were observed.

        Returns
        -------
        list of Axes
            A panel a column.
        """
        return self.forecast(plan, history).plot(ax, columns, level, truth)

    # ---------------------------------------------------------------- what is given, by name

    @property
    def _names(self) -> tuple[str, ...]:
        assert self.names is not None  # filled in above
        return self.names

    def _band(self, column: int | str, above: float | None, below: float | None) -> Band:
        i = column_position("column", column, self._names)
        if above is None and below is None:
            raise ValueError("above or below must be given, got neither")
        for name, level in (("above", above), ("below", below)):
            if level is not None:
                number(name, level, -np.inf, np.inf, "[]")
        high, low = np.inf if above is None else float(above), -np.inf if below is None else float(below)
        if low > high:
            raise ValueError(f"below must not lie above the level of above, got below={below!r} and above={above!r}")
        if self.std is None:
            raise ValueError(_NO_COVARIANCE.format("a probability"))
        return Band(self.mean[..., i], self.std[..., i], low, high)


_NO_COVARIANCE = "{} needs covariances, and means alone were rolled out; take covariance='low-rank'"
