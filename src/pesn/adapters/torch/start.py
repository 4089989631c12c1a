"""Where roll-outs on tensors start: after a context that was filtered, or from rows that gradients flow into."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg import solve_triangular
from torch import Tensor

from pesn.adapters.torch.loop import TensorLoop
from pesn.forecasting.context import Begun, ContextFilter, Uncertainty
from pesn.reservoir.initial_state import Start, factors_of_features
from pesn.statespace import FirstOrder, GaussianState

__all__ = ["TensorStart"]


class _Regression(NamedTuple):
    """Of a number of rows: features as products of two entries, their weights, and the columns that all such starts have.

    ``root`` (f, f): that of the features' own sums; ``inflation`` and ``most`` of the leverage by which columns are wider.
    """

    lags: int
    first: Tensor
    second: Tensor
    weights: Tensor
    columns: Tensor
    root: Tensor
    inflation: float
    most: float


class TensorStart:
    """Rows (R, B, n) of a loop from what a context says, differentiable in its last row and in the input that acts on it.

    Parameters
    ----------
    loop
        On tensors.
    context
        What a few rows say of the units.
    """

    def __init__(self, loop: TensorLoop, context: ContextFilter) -> None:
        self.loop, self.context = loop, context
        self._regressions: dict[int, _Regression] = {}

    def after(self, begun: Begun, u: Tensor, y: Tensor | None = None) -> tuple[Tensor, bool]:
        """From a context with the first inputs u (B, m), and whether the units have moved by them; all in scaled units.

        ``y`` (B, d): in the place of the last row of a context of which only rows are known.
        """
        if begun.state is not None:
            return self._rows(begun.state).expand(-1, len(u), -1), False
        assert begun.y is not None
        assert begun.u is not None
        assert begun.uncertainty is not None
        if np.isnan(begun.y).any() or np.isnan(begun.u).any() or begun.uncertainty.exists:
            raise ValueError("start must be of rows without gaps and known exactly, where they are so few, got others")
        given = (part if part.ndim == 3 else part[None] for part in (begun.y, begun.u))
        rows, before = (self.loop.tensor(part).expand(len(u), -1, -1) for part in given)
        if y is not None:
            rows = torch.cat([rows[:, :-1], y[:, None]], dim=1)
        inputs = torch.cat([before, u[:, None]], dim=1)
        if self.context.regresses:
            return self._regressed(rows, inputs), not self.loop.loop.reservoir.is_static
        return self._unmoved(begun, rows[:, -1]), False

    def _rows(self, state: GaussianState) -> Tensor:
        """(R, B, n) of a state (…, n)."""
        assert isinstance(state, FirstOrder)
        rows = np.concatenate([state.mean[..., None, :], state.factor.mT], axis=-2)[..., self.loop.kept]
        return self.loop.tensor(np.moveaxis(rows, 0, 1) if rows.ndim == 3 else rows[:, None])

    def _unmoved(self, begun: Begun, y: Tensor) -> Tensor:
        """Units before the last row y (B, d), where ``initial_state`` says what they are."""
        assert begun.y is not None
        assert begun.u is not None
        u = np.concatenate([begun.u, np.zeros((*begun.y.shape[:-2], 1, begun.u.shape[-1]))], axis=-2)
        x = self._rows(self.context.unmoved(self.loop.loop, begun.y, u, Uncertainty.none(begun.y, u))).expand(-1, len(y), -1)
        mean = torch.cat([y, x[0, :, y.shape[1] :]], dim=1)
        return torch.cat([mean[None], x[1:]])

    # ---------------------------------------------------------------- by regression

    def _regressed(self, y: Tensor, u: Tensor) -> Tensor:
        """By the regression of [earlier rows, units] on y (B, T, d) and u (B, T, m), as that of ``Start.given`` on arrays."""
        z = torch.cat([self._encoded(y), u], dim=2)
        B, T, size = z.shape
        how, features = self._regression(T), self.loop.loop.features
        center, spread, low, high = self._ranges
        count = len(how.first)
        near = torch.minimum(torch.maximum(z[:, T - how.lags :], center - 3.0 * spread), center + 3.0 * spread)
        live = spread > 0.0
        recent = torch.where(live, (near - center) / torch.where(live, spread, torch.ones_like(spread)), torch.zeros_like(near))
        entries = torch.cat([z.new_ones(B, 1), recent.flip(1).reshape(B, how.lags * size)], dim=1)
        products = entries[:, how.first] * entries[:, how.second]
        products = torch.minimum(torch.maximum(products, low[:count]), high[:count])
        limits = low[-how.weights.shape[1] :], high[-how.weights.shape[1] :]
        states = torch.minimum(torch.maximum(products @ how.weights, limits[0]), limits[1])
        known = min(T - 1, features.lags)
        if known > 0:
            earlier = z[:, T - 1 - known : T - 1].flip(1).reshape(B, known * size)
            states = torch.cat([earlier, states[:, known * size :]], dim=1)
        mean = z.new_zeros(B, self.loop.n).index_copy(1, self._places, torch.cat([y[:, -1], states], dim=1))
        columns = how.columns.expand(-1, B, -1)
        if how.inflation:
            own = torch.linalg.solve_triangular(how.root.T, products.T, upper=False)
            wider = (1.0 + (how.inflation * own.square().sum(dim=0)).clamp(max=how.most)).sqrt()
            places = self._places[self.loop.d :]
            columns = columns * z.new_ones(B, self.loop.n).index_copy(1, places, wider[:, None].expand(-1, len(places)))
        return torch.cat([mean[None], columns])

    def _encoded(self, y: Tensor) -> Tensor:
        """y (…, d) as the network sees it."""
        encoding = self.loop.loop.dynamics.encoding
        if encoding.is_plain:
            return y
        angle = self.loop.tensor(encoding.mean) + self.loop.tensor(encoding.std) * y[..., encoding.angles]
        return torch.cat([y[..., encoding.kept(self.loop.d)], angle.sin(), angle.cos()], dim=-1)

    def _regression(self, T: int) -> _Regression:
        if T not in self._regressions:
            given, tensor, device = self._given, self.loop.tensor, self.loop.device
            m = self.loop.K_inputs.shape[1]
            lags = min(T, given.lags)
            F = given.n_features
            f = min(F, len(factors_of_features(given.n_inputs, lags, F)[0]))
            first, second = (torch.tensor(part, device=device) for part in factors_of_features(given.n_inputs, lags, f))
            weights = solve_triangular(given.root[:f, :f], given.root[:f, F:])
            y, u = np.zeros((T, self.loop.d)), np.zeros((T, m))
            begun = Begun(None, y, u[:-1], Uncertainty.none(y, u))
            plain = self.context._replace(given=given._replace(persistence=np.zeros(0)))  # without the leverage of a row
            columns = self._rows(plain.with_input(self.loop.loop, begun, u[-1]))[1:]
            root = tensor(given.root[:f, :f])
            self._regressions[T] = _Regression(lags, first, second, tensor(weights), columns, root, *given.leverage_of(lags))
        return self._regressions[T]

    @property
    def _given(self) -> Start:
        given = self.context.given
        assert isinstance(given, Start)  # rollout refuses local networks
        return given

    @cached_property
    def _ranges(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Center and spread of rows; between which features and states are held."""
        given, tensor = self._given, self.loop.tensor
        width = given.high - given.low
        return tensor(given.center), tensor(given.spread), tensor(given.low - width), tensor(given.high + width)

    @cached_property
    def _places(self) -> Tensor:
        """Where [y, earlier rows, units] are in x."""
        at, kept = self.loop.loop.layout, self.loop.kept
        blocks = [np.arange(at.size)[at[name]] for name in ("y", "earlier", "units")]
        return torch.tensor(np.searchsorted(kept, np.concatenate(blocks)), device=self.loop.device)
