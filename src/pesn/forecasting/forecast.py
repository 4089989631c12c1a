"""The result of a forecast: a Gaussian over the next rows, jointly over time.

>>> import numpy as np
>>> walk = np.minimum.outer(np.arange(1.0, 4.0), np.arange(1.0, 4.0))  # Cov(y_k, y_l) = min(k, l): a random walk
>>> forecast = Forecast(np.zeros((3, 1)), walk, {"steps": np.diag(walk)[:, None]}, names=["position"])
>>> forecast
Forecast of 3 steps, 1 column (position), part steps
>>> forecast.to_frame(0.95).round(2)
      position  position_std  position_lower  position_upper
step
1          0.0          1.00           -1.96            1.96
2          0.0          1.41           -2.77            2.77
3          0.0          1.73           -3.39            3.39
>>> paths = forecast.sample(10_000, rng=0)                             # whole futures, (10_000, 3, 1)
>>> round(float(np.mean(paths.max(axis=1) > 3.0)), 2)                  # P(ever above 3)
0.05
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from html import escape
from numbers import Integral
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_count, as_real
from pesn._support.types import Array, Rng
from pesn.forecasting.alignment import check_history, check_index, check_names, pluralize
from pesn.gaussian import Gaussian, NormalMarginals, freeze
from pesn.linalg import factor_covariance, outer, symmetric, transpose

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_SHOWN = 8  # columns of a table; more are left out
_ROWS = 20  # rows of a table; more are left out in the middle


def as_frame(
    names: Sequence[str], mean: Array, std: Array, bounds: Mapping[str, tuple[Array, Array]], labels: object = None
) -> pd.DataFrame:
    """Return a frame with a row for each step: name, name_std and, for each key of ``bounds``, name_lower… and name_upper….

    >>> flat = np.zeros((2, 1))
    >>> as_frame(["x"], flat, flat + 1.0, {"_80": (flat - 1.3, flat + 1.3)})
            x  x_std  x_lower_80  x_upper_80
    step
    1     0.0    1.0        -1.3         1.3
    2     0.0    1.0        -1.3         1.3
    """
    import pandas as pd

    endings = {"": mean, "_std": std}
    for end, (lower, upper) in bounds.items():
        endings |= {f"_lower{end}": lower, f"_upper{end}": upper}
    data = {f"{name}{end}": values[:, i] for i, name in enumerate(names) for end, values in endings.items()}
    if len(data) != len(endings) * len(names):
        raise ValueError(f"names must differ from each other with {', '.join([*endings][1:])} added, got {tuple(names)!r}")
    return pd.DataFrame(data, index=pd.RangeIndex(1, len(mean) + 1, name="step") if labels is None else pd.Index(labels))


def percent(level: float) -> str:
    """Return a level as in names of columns.

    >>> percent(0.8), percent(0.975), percent(0.07)
    ('80', '97.5', '7')
    """
    return f"{100.0 * level:.10g}"  # 0.07 is 7.000000000000001 percent


def _format_value(value: float, std: float) -> str:
    """Return a number with one digit below the first uncertain one, at least four."""
    digits = 6 if std == 0.0 else int(np.clip(np.ceil(np.log10(max(abs(value) / std, 1.0))) + 1, 4, 15))
    return f"{value:.{digits}g}"


_ROUNDING = 1e-6  # tolerance of standard deviations for rounding; of variances its square
_ROUNDING_OF_MEAN = 1e-8  # tolerance relative to the mean
_SEMIDEFINITE = 1e-4  # largest change of correlations by removing negative eigenvalues


def _rounding(mean: Array, std: Array) -> Array:
    """Compute the tolerance of standard deviations (d,) for rounding errors, in the units of each column."""
    return np.asarray(np.maximum(_ROUNDING * std, _ROUNDING_OF_MEAN * np.abs(mean)).max(axis=0))


def room(mean: Array, std: Array) -> Array:
    """Compute the standard deviations (horizon, d) by which differences are measured, at least the tolerance."""
    return np.asarray(np.hypot(std, _rounding(mean, std)))


def _product(room: Array) -> Array:
    """Return outer products."""
    with np.errstate(over="ignore"):
        return np.asarray(room[..., :, None] * room[..., None, :])


def check_scale(scale: npt.ArrayLike | None, d: int) -> Array:
    """Return the unit of each column, (d,); None: 1."""
    if scale is None:
        return np.ones(d)
    unit = np.array(as_real("scale", scale), np.float64)
    if unit.shape != (d,) or not (unit > 0.0).all():
        raise ValueError(f"scale must be {pluralize(d, 'number')} above 0, one for each column of mean, got {scale!r}")
    return unit


def check_cov(name: str, cov: Array, mean: Array, names: tuple[str, ...]) -> tuple[Array, Array]:
    """Return covariances (s, n, n), exactly symmetric and 0 for certain entries, and their diagonals in the shape of ``mean``."""
    var = np.diagonal(cov, axis1=1, axis2=2).reshape(mean.shape)
    size = np.sqrt(np.abs(var))
    wrong = (var < 0.0) & (size > _rounding(mean, np.where(var < 0.0, 0.0, size)))
    if wrong.any():
        raise ValueError(f"{name} must have no negative variance, got {_where(wrong, names, var)}")
    var = np.maximum(var, 0.0)
    limit = _product(room(mean, np.sqrt(var)).reshape(cov.shape[:2]))
    off = np.abs(cov - transpose(cov)) > _ROUNDING * limit
    if off.any():
        s, i, j = (int(k) for k in np.argwhere(off)[0])
        row = f" of row {s}" if len(cov) > 1 else ""
        raise ValueError(f"{name} must be symmetric, got {cov[s, i, j]} at {(i, j)} and {cov[s, j, i]} at {(j, i)}{row}")
    cov = symmetric(cov)
    above = np.abs(cov) > (1.0 + _ROUNDING) * limit
    if above.any():
        s, i, j = (int(k) for k in np.argwhere(above)[0])
        a, b = np.sqrt(var.reshape(cov.shape[:2])[s, [i, j]])
        found = f"a covariance of {cov[s, i, j]} at {(i, j)} beside deviations of {a} and {b}"
        raise ValueError(f"{name} must be positive semi-definite, got {found}")
    still = var.reshape(cov.shape[:2]) == 0.0  # certain entries have no covariance and stay exact in samples
    if still.any():
        cov[still] = 0.0
        transpose(cov)[still] = 0.0
    return cov, var


def check_parts(parts: Mapping[str, npt.ArrayLike] | None, mean: Array, var: Array, names: tuple[str, ...]) -> dict[str, Array]:
    """Return parts (horizon, d) that are non-negative and sum to the variances ``var``."""
    if not isinstance(parts, Mapping) or not all(isinstance(name, str) for name in parts):
        raise TypeError(f"parts must map names to variances, got {type(parts).__name__}")
    if not parts:
        raise ValueError("parts must name at least one part of the variance, got none")
    with np.errstate(over="ignore"):
        room = np.square(_rounding(mean, np.sqrt(var)))
    checked = {}
    for name, value in parts.items():
        part = np.array(as_real(f"parts[{name!r}]", value), np.float64)
        if part.shape != mean.shape:
            raise ValueError(f"parts[{name!r}] must have the shape {mean.shape} of mean, got {part.shape}")
        if (part < -room).any():
            raise ValueError(f"parts[{name!r}] must not be negative, got {_where(part < -room, names, part)}")
        checked[name] = np.maximum(part, 0.0)
    total = np.sum([*checked.values()], axis=0)
    wrong = np.abs(total - var) > 1e-6 * var + room
    if wrong.any():
        raise ValueError(f"parts must sum to the variance, {_where(wrong, names, var)}, got {total[wrong][0]}")
    return checked


def root_of_cov(cov: Array, std: Array, room: Array) -> Array:
    """Return L with L Lᵀ = cov, up to the rounding that makes cov semi-definite; variances are exact.

    The root is that of the correlations, so that units do not matter.
    """
    still = std == 0.0
    scale = np.where(still, 1.0, std)
    with np.errstate(over="ignore"):
        correlation = np.clip(cov / scale[:, None] / scale, -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    root: Array = factor_covariance(correlation)
    root *= (std / np.linalg.norm(root, axis=1))[:, None]
    off = np.abs(outer(root) - cov) > _SEMIDEFINITE * _product(room)
    if off.any():
        smallest = np.linalg.eigvalsh(correlation)[0]
        raise ValueError(f"joint must be positive semi-definite, got an eigenvalue of {smallest:.3g} in its correlations")
    return root


def _where(wrong: npt.NDArray[np.bool_], names: tuple[str, ...], values: Array) -> str:
    """Describe the first wrong entry."""
    k, i = (int(place) for place in np.argwhere(wrong)[0])
    return f"{values[k, i]} at row {k} of {names[i]!r}"


def _read_covariance(
    joint: npt.ArrayLike | None, cov: npt.ArrayLike | None, mean: Array, names: tuple[str, ...]
) -> tuple[Array, Array]:
    """Return the covariance of all rows (1, h·d, h·d), or of each (h, d, d), and the variances (h, d)."""
    if joint is not None and cov is None:
        name, given, shape = "joint", joint, (mean.size, mean.size)
    elif cov is not None and joint is None:
        name, given, shape = "cov", cov, (*mean.shape, mean.shape[1])
    else:
        raise ValueError(f"joint or cov must be given, and not both, got {'neither' if joint is None else 'both'}")
    found = np.asarray(as_real(name, given), np.float64)
    if found.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, as mean has {mean.size} entries, got {found.shape}")
    return check_cov(name, found if found.ndim == 3 else found[None], mean, names)


Paths: TypeAlias = Callable[[int, np.random.Generator], Array]  # sample paths (n, horizon, d) of n and a generator


class Forecast(NormalMarginals[Array]):
    """A Gaussian over ``horizon`` rows of d columns, with covariances between the rows if they are kept; immutable.

    Each number is Gaussian: ``median`` equals ``mean``. Bounds on forecasts act on the mean and the variance, not on quantiles.
    Arrays are float64 and read-only. ``forecast[k]`` is row k, from 0, as a :class:`pesn.Gaussian`.

    Parameters
    ----------
    mean : array-like of shape (horizon, d)
        Means.
    joint : array-like of shape (horizon * d, horizon * d) or None
        Covariance of ``mean.ravel()``, semi-definite up to rounding; None if only ``cov`` is known.
    parts : mapping of str to array-like of shape (horizon, d)
        Parts of the variance, which sum to it.
    names : sequence of str, optional
        Names of the d columns; None: "y0", "y1", ...
    index : array-like or pandas.Index, optional
        Labels of the rows, such as dates; None: 1 ... horizon.
    history : array-like of shape (k, d), optional
        Last observed rows, for figures; NaN is a missing value.
    cov : array-like of shape (horizon, d, d), optional
        Covariance of each row, if there is no ``joint``.
    paths : callable, optional
        Sampler if there is no ``joint``: ``paths(n, generator)`` returns (n, horizon, d). Without it :meth:`sample` raises.
    scale : array-like of shape (d,), optional
        Positive units: ``joint``, ``cov`` and ``parts`` are those of y / scale. Standard deviations are then correct even if
        variances in the units of y underflow: ``var``, ``cov`` and ``joint`` are 0 below 1e-308. None: 1.

    Examples
    --------
    >>> import numpy as np
    >>> forecast = Forecast([[1.0, 0.0]], [[4.0, 1.0], [1.0, 1.0]], {"model": [[3.0, 0.5]], "noise": [[1.0, 0.5]]})
    >>> forecast[0]
    Gaussian(mean=[1. 0.], std=[2. 1.], covariance='full')
    >>> forecast.variance_parts["noise"]
    array([[1. , 0.5]])
    """

    _mean: Array
    _scale: Array
    _joint: Array | None  # of y / scale, as the next three
    _cov: Array | None
    _var: Array
    _parts: dict[str, Array]
    _paths: Paths | None
    _names: tuple[str, ...]
    _index: Any
    _history: Array | None

    def __init__(
        self,
        mean: npt.ArrayLike,
        joint: npt.ArrayLike | None,
        parts: Mapping[str, npt.ArrayLike],
        names: Sequence[str] | None = None,
        index: pd.Index | None = None,
        history: npt.ArrayLike | None = None,
        *,
        cov: npt.ArrayLike | None = None,
        paths: Paths | None = None,
        scale: npt.ArrayLike | None = None,
    ) -> None:
        m = np.array(as_real("mean", mean), np.float64)
        if m.ndim != 2 or 0 in m.shape:
            raise ValueError(f"mean must have shape (horizon, d), with a row and a column at least, got {m.shape}")
        columns = check_names(names, m.shape[1])
        unit = check_scale(scale, m.shape[1])
        stack, var = _read_covariance(joint, cov, m / unit, columns)
        state = {
            "_mean": m,
            "_scale": unit,
            "_joint": stack[0] if cov is None else None,
            "_cov": None if cov is None else stack,
            "_var": var,
            "_parts": check_parts(parts, m / unit, var, columns),
            "_names": columns,
            "_index": check_index(index, len(m)),
            "_history": check_history(history, m.shape[1]),
            "_paths": paths,
        }
        self.__setstate__(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy or a pickle, read-only again."""
        for value in (*state.values(), *state["_parts"].values()):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(state)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Forecast does not change, {name} cannot be set; make a new one")

    def __repr__(self) -> str:
        names, parts = self.names, [*self._parts]
        shown = names if len(names) <= _SHOWN else (*names[: _SHOWN - 2], "…", names[-1])
        last = "" if len(self) == 1 else f" … {self._label(-1)}"
        when = "" if self._index is None else f", {self._label(0)}{last}"
        columns, of = pluralize(len(names), "column"), f"part{'' if len(parts) == 1 else 's'} {', '.join(parts)}"
        return f"Forecast of {pluralize(len(self), 'step')}{when}, {columns} ({', '.join(shown)}), {of}"

    def _repr_html_(self) -> str:
        """Return a table of means and 95 % prediction intervals, a row for each step."""
        h, d = self.mean.shape
        shown, more = range(min(d, _SHOWN)), "<td>…</td>" if d > _SHOWN else ""
        lower, upper = self.interval(0.95)

        def row(k: int) -> str:
            cells = []
            for i in shown:
                mean, low, high = (_format_value(values[k, i], self.std[k, i]) for values in (self.mean, lower, upper))
                cells.append(f"<td>{mean}</td><td>{low} … {high}</td>")
            return f"<tr><th>{escape(self._label(k))}</th>{''.join(cells)}{more}</tr>"

        body = [row(k) for k in range(h) if h <= _ROWS or min(k, h - 1 - k) < _ROWS // 2]
        if h > _ROWS:
            body.insert(_ROWS // 2, f"<tr><th>…</th>{'<td>…</td><td></td>' * len(shown)}{more}</tr>")
        name = getattr(self._index, "name", None)
        first = "step" if self._index is None else "" if name is None else escape(str(name))
        head = "".join(f"<th>{escape(self.names[i])}</th><th>95 %</th>" for i in shown) + more.replace("td", "th")
        title = f"Forecast of {pluralize(h, 'step')}, {pluralize(d, 'column')}: mean and 95 % interval"
        head = f"<thead><tr><th>{first}</th>{head}</tr></thead>"
        return f"<table><caption>{title}</caption>{head}<tbody>{''.join(body)}</tbody></table>"

    def _label(self, k: int) -> str:
        """Return the label of row k as text; only the date if all are at midnight."""
        if getattr(self._index, "inferred_type", "") == "datetime64":
            return str(self._index.astype(str)[k])
        label = self.index[k]
        return f"{label:.12g}" if isinstance(label, float) else str(label)

    # ---------------------------------------------------------------- properties

    @property
    def mean(self) -> Array:
        """Means, (horizon, d); equal to the medians, since each number is Gaussian."""
        return self._mean

    @cached_property
    def var(self) -> Array:
        """Variances, (horizon, d)."""
        return freeze(self._var * self._scale * self._scale)

    @cached_property
    def std(self) -> Array:
        """Standard deviations, (horizon, d)."""
        return freeze(np.sqrt(self._var) * self._scale)

    @cached_property
    def cov(self) -> Array:
        """Covariance of each row, (horizon, d, d)."""
        return freeze(self._rows_cov * self._scale[:, None] * self._scale)

    @cached_property
    def joint(self) -> Array:
        """Covariance of all rows, (horizon·d, horizon·d), time first: entry (k·d + i, l·d + j) is Cov(y[k, i], y[l, j])."""
        if self._joint is None:
            raise AttributeError("this forecast keeps no covariances between its rows; ask for them by joint=True")
        scale = np.tile(self._scale, len(self))
        return self._joint if (scale == 1.0).all() else freeze(self._joint * scale[:, None] * scale)

    @property
    def _rows_cov(self) -> Array:
        """Covariance of each row of y / scale."""
        if self._cov is not None:
            return self._cov
        h, d = self.mean.shape
        assert self._joint is not None
        return np.einsum("kikj->kij", self._joint.reshape(h, d, h, d)).copy()

    @property
    def variance_parts(self) -> dict[str, Array]:
        """Parts of the variance: name -> variances (horizon, d)."""
        return {name: freeze(part * self._scale * self._scale) for name, part in self._parts.items()}

    @property
    def horizon(self) -> int:
        """Number of rows."""
        return len(self._mean)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the d columns."""
        return self._names

    @property
    def index(self) -> pd.Index | npt.NDArray[np.intp]:
        """Labels of the rows, or 1 ... horizon."""
        return freeze(np.arange(1, len(self) + 1)) if self._index is None else self._index

    @property
    def history(self) -> Array | None:
        """Last observed rows, (k, d), oldest first; None if none were given."""
        return self._history

    def __len__(self) -> int:
        return self.horizon

    def __getitem__(self, step: SupportsIndex) -> Gaussian:
        """Return the marginal distribution of row ``step``, from 0."""
        if isinstance(step, bool) or not isinstance(step, Integral):
            raise TypeError(f"step must be a whole number, got {step!r}")
        k = int(step)
        if not -len(self) <= k < len(self):
            raise IndexError(f"step must lie in 0 … {len(self) - 1}, got {k}")
        std = np.sqrt(self._var)
        root = root_of_cov(self._rows_cov[k], std[k], room(self.mean / self._scale, std)[k])
        return Gaussian(self.mean[k], cov=outer(self._scale[:, None] * root))

    # ---------------------------------------------------------------- methods

    def sample(self, n: int, rng: Rng = None) -> Array:
        """Sample futures jointly over time.

        If covariances between rows are not kept, futures are simulated by the forecasting network, then shifted and scaled to
        the means and standard deviations of the forecast.

        Parameters
        ----------
        n : int
            Number of futures, 0 or more.
        rng : int or numpy.random.Generator, optional
            Seed or generator.

        Returns
        -------
        array of shape (n, horizon, d)
        """
        count, generator = as_count("n", n), np.random.default_rng(rng)
        if self._joint is None:
            if self._paths is None:
                raise ValueError("sample needs the covariances between rows, or paths, and this forecast was given neither")
            return np.asarray(self._paths(count, generator), np.float64)
        draws = generator.standard_normal((count, self.mean.size)) @ self._joint_root.T
        return self.mean + draws.reshape(-1, *self.mean.shape) * self._scale

    def to_frame(self, level: float | Sequence[float] = 0.95) -> pd.DataFrame:
        """Return a frame with a row for each step: name, name_std and the bounds of prediction intervals.

        Parameters
        ----------
        level : float or sequence of float, default=0.95
            One level: name_lower, name_upper. Several: name_lower_80, name_upper_80, name_lower_95, name_upper_95 for (0.8,
            0.95).

        Returns
        -------
        pandas.DataFrame
            Indexed by the labels of the rows, or by 1 … horizon, named step.
        """
        if np.ndim(level) == 0:
            bounds = {"": self.interval(level)}  # type: ignore[arg-type]
        else:
            ends = [(one, self.interval(one)) for one in level]  # type: ignore[union-attr]
            bounds = {f"_{percent(one)}": both for one, both in ends}
        return as_frame(self.names, self.mean, self.std, bounds, self._index)

    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        columns: int | str | Sequence[int | str] | None = None,
        level: float | Sequence[float] = (0.5, 0.95),
        truth: npt.ArrayLike | None = None,
    ) -> list[Axes]:
        """Plot a panel for each column with prediction intervals: see :func:`pesn.plotting.plot_forecast`.

        Parameters
        ----------
        ax : Axes or sequence of Axes, optional
            One for each panel; None makes a new figure.
        columns : int, str or sequence, optional
            Names or positions; None plots all.
        level : float or sequence of float, default=(0.5, 0.95)
            Levels of the prediction intervals.
        truth : array-like of shape (horizon, d), optional
            Later observations; NaN is a missing value.

        Returns
        -------
        list of Axes
            A panel for each column.
        """
        from pesn.plotting import plot_forecast  # imported late: only figures need matplotlib

        return plot_forecast(self, ax, columns, level, truth)

    @cached_property
    def _joint_root(self) -> Array:
        """Root of the joint covariance of y / scale."""
        assert self._joint is not None
        std = np.sqrt(self._var)
        return freeze(root_of_cov(self._joint, std.ravel(), room(self.mean / self._scale, std).ravel()))
