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
>>> round(float(np.mean(paths.max(axis=1) > 3.0)), 2)                  # ever above 3: no interval of one row says this
0.05
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, SupportsIndex

import numpy as np
import numpy.typing as npt
from scipy import special

from pesn._support.arguments import as_count, as_real
from pesn._support.checks import number
from pesn._support.types import AnyArray, Array, Rng
from pesn.forecasting.forecast_views import as_frame, as_html, as_text, percent, probabilities
from pesn.forecasting.row_covariances import check_cov, check_parts, check_scale, room, root_of_cov
from pesn.forecasting.row_labels import check_history, check_index, check_names, counted
from pesn.gaussian import Gaussian
from pesn.linalg import outer

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Forecast"]


class Paths(Protocol):
    """What draws whole futures."""

    def draw(self, n: int, rng: np.random.Generator, /) -> Array:
        """``n`` of them, (n, horizon, d)."""


class Forecast:
    """A Gaussian over ``horizon`` rows of d columns, with covariances between the rows where they are kept; immutable.

    The arrays are float64 and read-only. ``forecast[k]`` is row k alone, from 0, as a :class:`pesn.Gaussian`.

    Parameters
    ----------
    mean
        (horizon, d).
    joint
        (horizon·d, horizon·d): the covariance of ``mean.ravel()``, semi-definite up to rounding; None: only ``cov`` is known.
    parts
        Where the variance comes from: name -> variances (horizon, d). They sum to the variance.
    names
        Of the d columns; None: "y0", "y1", ...
    index
        Labels of the rows, such as dates; None: 1 ... horizon.
    history
        (k, d), the last rows that were observed, for pictures; NaN is a missing value.
    cov
        (horizon, d, d): the covariance of each row, where there is no ``joint``.
    paths
        What draws futures where there is no ``joint``: ``paths.draw(n, generator)`` gives (n, horizon, d). Without it,
        :meth:`sample` refuses.
    scale
        (d,), above 0: ``joint``, ``cov`` and ``parts`` are those of y / scale. Deviations are then right where variances in the
        units of y are too small to be numbers: ``var``, ``cov`` and ``joint`` are 0 below 1e-308. None: 1.

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
    _joint: Array | None  # of y / scale, as the next three are
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
        if (joint is None) == (cov is None):
            raise ValueError(f"joint or cov must be given, and not both, got {'neither' if joint is None else 'both'}")
        unit = check_scale(scale, m.shape[1])
        name, shape = ("joint", (m.size, m.size)) if cov is None else ("cov", (*m.shape, m.shape[1]))
        c = np.asarray(as_real(name, joint if cov is None else cov), np.float64)  # type: ignore[arg-type]  # one of them is given
        if c.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, as mean has {m.size} entries, got {c.shape}")
        stack, var = check_cov(name, c if c.ndim == 3 else c[None], m / unit, columns)
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
        """Also from a copy or a pickle: read-only again."""
        for value in (*state.values(), *state["_parts"].values()):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(state)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Forecast does not change, {name} cannot be set; make a new one")

    def __repr__(self) -> str:
        return as_text(self, self._index, [*self._parts])

    def _repr_html_(self) -> str:
        return as_html(self, self._index)

    # ---------------------------------------------------------------- what it is

    @property
    def mean(self) -> Array:
        """The mean, (horizon, d)."""
        return self._mean

    @cached_property
    def var(self) -> Array:
        """The variances, (horizon, d)."""
        var: Array = _fixed(self._var * self._scale * self._scale)
        return var

    @cached_property
    def std(self) -> Array:
        """The standard deviations, (horizon, d)."""
        std: Array = _fixed(np.sqrt(self._var) * self._scale)
        return std

    @cached_property
    def cov(self) -> Array:
        """The covariance of each row, (horizon, d, d)."""
        cov: Array = _fixed(self._rows_cov * self._scale[:, None] * self._scale)
        return cov

    @cached_property
    def joint(self) -> Array:
        """The covariance of all rows, (horizon·d, horizon·d), time first: entry (k·d + i, l·d + j) is Cov(y[k, i], y[l, j])."""
        if self._joint is None:
            raise AttributeError(
                f"this forecast of {counted(len(self), 'step')} keeps no covariances between its rows; ask for them by joint=True"
            )
        scale = np.tile(self._scale, len(self))
        return self._joint if (scale == 1.0).all() else _fixed(self._joint * scale[:, None] * scale)

    @property
    def _rows_cov(self) -> Array:
        """The covariance of each row of y / scale."""
        if self._cov is not None:
            return self._cov
        h, d = self.mean.shape
        assert self._joint is not None
        cov: Array = np.einsum("kikj->kij", self._joint.reshape(h, d, h, d)).copy()
        return cov

    @property
    def variance_parts(self) -> dict[str, Array]:
        """Where the variance comes from: name -> variances (horizon, d)."""
        return {name: _fixed(part * self._scale * self._scale) for name, part in self._parts.items()}

    @property
    def horizon(self) -> int:
        """The number of rows."""
        return len(self._mean)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the d columns."""
        return self._names

    @property
    def index(self) -> pd.Index | npt.NDArray[np.integer[Any]]:
        """The labels of the rows: as they were given, or 1 ... horizon."""
        return _fixed(np.arange(1, len(self) + 1)) if self._index is None else self._index

    @property
    def history(self) -> Array | None:
        """The last observed rows, (k, d), oldest first; None where none were given."""
        return self._history

    def __len__(self) -> int:
        return self.horizon

    def __getitem__(self, step: SupportsIndex) -> Gaussian:
        """Row ``step``, from 0, without the others."""
        if isinstance(step, bool) or not isinstance(step, Integral):
            raise TypeError(f"step must be a whole number, got {step!r}")
        k = int(step)
        if not -len(self) <= k < len(self):
            raise IndexError(f"step must lie in 0 … {len(self) - 1}, got {k}")
        std = np.sqrt(self._var)
        root = root_of_cov(self._rows_cov[k], std[k], room(self.mean / self._scale, std)[k])
        return Gaussian(self.mean[k], cov=outer(self._scale[:, None] * root))

    # ---------------------------------------------------------------- what one asks of it

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """The central interval of each number that holds it with probability ``level``: (lower, upper), each (horizon, d)."""
        number("level", level, 0.0, 1.0, "()")
        reach = self.std * -special.ndtri(0.5 * (1.0 - float(level)))
        return self.mean - reach, self.mean + reach

    def quantile(self, q: npt.ArrayLike) -> Array:
        """Quantiles of each number at ``q``, inside (0, 1): (horizon, d) of a number, (k, horizon, d) of k numbers."""
        reach = special.ndtri(probabilities(q))
        return self.mean + np.multiply.outer(reach, self.std)

    def sample(self, n: int, rng: Rng = None) -> Array:
        """``n`` futures, (n, horizon, d), each drawn jointly over time.

        Where covariances between rows are not kept, each is a future that the forecasting network goes through by itself, moved
        and scaled to the means and the deviations of the forecast.

        Parameters
        ----------
        n
            How many, 0 or more.
        rng
            A seed or a Generator.

        Returns
        -------
        array
            (n, horizon, d).
        """
        count, generator = as_count("n", n), np.random.default_rng(rng)
        if self._joint is None:
            if self._paths is None:
                raise ValueError("sample needs the covariances between rows, or paths, and this forecast was given neither")
            return np.asarray(self._paths.draw(count, generator), np.float64)
        draws = generator.standard_normal((count, self.mean.size)) @ self._joint_root.T
        return self.mean + draws.reshape(-1, *self.mean.shape) * self._scale

    def to_frame(self, level: float | Sequence[float] = 0.95) -> pd.DataFrame:
        """A row a step; for each name the columns name, name_std, and the ends of the intervals.

        Parameters
        ----------
        level
            A number: name_lower, name_upper. Several: name_lower_80, name_upper_80, name_lower_95, name_upper_95 of (0.8, 0.95).

        Returns
        -------
        DataFrame
            Its index are the labels of the rows, or 1 … horizon, named step.
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
        """A panel a column, with a band for each level: see :func:`pesn.plotting.plot_forecast`.

        Parameters
        ----------
        ax
            As many axes as there are panels; None makes a new figure.
        columns
            Names or positions; None is all.
        level
            Probabilities of the bands.
        truth
            What was observed, (horizon, d); NaN is a missing value.

        Returns
        -------
        list of Axes
            A panel a column.
        """
        from pesn.plotting import plot_forecast  # plotting stands above: matplotlib is wanted for pictures alone

        return plot_forecast(self, ax, columns, level, truth)

    @cached_property
    def _joint_root(self) -> Array:
        assert self._joint is not None
        std = np.sqrt(self._var)
        root: Array = _fixed(root_of_cov(self._joint, std.ravel(), room(self.mean / self._scale, std).ravel()))
        return root


def _fixed(array: AnyArray) -> AnyArray:
    array.flags.writeable = False
    return array
