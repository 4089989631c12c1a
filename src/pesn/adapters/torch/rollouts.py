"""Roll-outs of a fitted forecaster on tensors: what controls lead to, with gradients back to them and to the start.

>>> import numpy as np, pesn, torch
>>> from pesn.systems import cart_pole
>>> runs = cart_pole.simulate(runs=4, steps=300, rng=0)
>>> network = pesn.ProbabilisticESN(30, washout="auto", random_state=0)
>>> model = pesn.Forecaster(network).fit(runs.states, runs.inputs, lengths=runs.lengths)
>>> controls = torch.zeros(20, 1, dtype=torch.float64, requires_grad=True)
>>> mean, cov = rollout(model, controls, torch.tensor([0.0, np.pi, 0.0, 0.0]))
>>> cost = (mean[:, 0] - 0.2).square().sum() + cov[:, 0, 0].sum()           # E Σ (x − 0.2)²
>>> cost.backward()
>>> mean.shape, cov.shape, controls.grad.shape
(torch.Size([20, 4]), torch.Size([20, 4, 4]), torch.Size([20, 1]))
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload
from weakref import WeakKeyDictionary

import numpy as np
import torch
from scipy.linalg import solve_triangular
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from pesn._support.arguments import whole_number
from pesn.adapters.torch.loop import TensorLoop, tensor
from pesn.adapters.torch.tensor_gaussian import check_tensor, find_nonfinite
from pesn.evaluation.calibration import WIDEST, by_lead
from pesn.forecasting.context import ContextFilter, FilteredContext, StartingPoint, Uncertainty
from pesn.forecasting.dataset import check_within_reach
from pesn.forecasting.predict import convert_start, rollout_loop
from pesn.reservoir.initial_state import Start, factors_of_features
from pesn.statespace.low_rank import FirstOrder
from pesn.statespace.state import GaussianState

if TYPE_CHECKING:
    from pesn.forecasting.forecaster import Forecaster


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


class TensorInitialState:
    """Initial rows (R, B, n) of a loop from a context, differentiable in its last observation and in the first input.

    Parameters
    ----------
    loop : TensorLoop
        The closed loop on tensors.
    context : ContextFilter
        How the units are estimated from a few observations.
    """

    def __init__(self, loop: TensorLoop, context: ContextFilter) -> None:
        self.loop, self.context = loop, context
        self._regressions: dict[int, _Regression] = {}

    def initial_rows(self, begun: StartingPoint, u: Tensor, y: Tensor | None = None) -> tuple[Tensor, bool]:
        """Return the rows of a context with the first inputs u (B, m), and whether the units have moved by them; all scaled.

        ``y`` (B, d): in the place of the last row of a context of which only rows are known.
        """
        if begun.state is not None:
            return self._rows(begun.state).expand(-1, len(u), -1), False
        *given, uncertainty = begun.waiting
        if any(np.isnan(part).any() for part in given) or uncertainty.exists:
            raise ValueError("start must be of rows without gaps and known exactly, where they are so few, got others")
        rows, before = (tensor(part if part.ndim == 3 else part[None]).expand(len(u), -1, -1) for part in given)
        if y is not None:
            rows = torch.cat([rows[:, :-1], y[:, None]], dim=1)
        inputs = torch.cat([before, u[:, None]], dim=1)
        if self.context.regresses:
            return self._regress(rows, inputs), not self.loop.loop.reservoir.is_static
        return self._rows_before_move(begun, rows[:, -1]), False

    def _rows(self, state: GaussianState) -> Tensor:
        """Return rows (R, B, n) of a state (…, n)."""
        assert isinstance(state, FirstOrder)
        rows = np.concatenate([state.mean[..., None, :], state.factor.mT], axis=-2)[..., self.loop.kept]
        return tensor(np.moveaxis(rows, 0, 1) if rows.ndim == 3 else rows[:, None])

    def _rows_before_move(self, begun: StartingPoint, y: Tensor) -> Tensor:
        """Return rows before the units move, with the last observation y (B, d), where ``initial_state`` is given."""
        rows, before, _ = begun.waiting
        u = np.concatenate([before, np.zeros((*rows.shape[:-2], 1, before.shape[-1]))], axis=-2)
        state = self.context.initial_units(self.loop.loop, rows, u, Uncertainty.none(rows, u))
        x = self._rows(state).expand(-1, len(y), -1)
        mean = torch.cat([y, x[0, :, y.shape[1] :]], dim=1)
        return torch.cat([mean[None], x[1:]])

    # ---------------------------------------------------------------- by regression

    def _regress(self, y: Tensor, u: Tensor) -> Tensor:
        """Return rows by the regression of [earlier rows, units] on y (B, T, d) and u (B, T, m), as ``Start.predict``."""
        z = torch.cat([self._encode(y), u], dim=2)
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

    def _encode(self, y: Tensor) -> Tensor:
        """Return y (…, d) as the network sees it."""
        encoding = self.loop.loop.dynamics.encoding
        if encoding.is_plain:
            return y
        angle = tensor(encoding.mean) + tensor(encoding.std) * y[..., encoding.angles]
        return torch.cat([y[..., encoding.plain_columns(self.loop.d)], angle.sin(), angle.cos()], dim=-1)

    def _regression(self, T: int) -> _Regression:
        if T not in self._regressions:
            given = self._given
            m = self.loop.K_inputs.shape[1]
            lags = min(T, given.lags)
            F = given.n_features
            f = min(F, len(factors_of_features(given.n_inputs, lags, F)[0]))
            first, second = (torch.tensor(part) for part in factors_of_features(given.n_inputs, lags, f))
            weights = solve_triangular(given.root[:f, :f], given.root[:f, F:])
            y, u = np.zeros((T, self.loop.d)), np.zeros((T, m))
            begun = StartingPoint(None, y, u[:-1], Uncertainty.none(y, u))
            plain = self.context._replace(given=given._replace(persistence=np.zeros(0)))  # without the leverage of a row
            columns = self._rows(plain.with_input(self.loop.loop, begun, u[-1]))[1:]
            root = tensor(given.root[:f, :f])
            self._regressions[T] = _Regression(lags, first, second, tensor(weights), columns, root, *given.leverage_limits(lags))
        return self._regressions[T]

    @property
    def _given(self) -> Start:
        given = self.context.given
        assert isinstance(given, Start)  # rollout refuses local networks
        return given

    @cached_property
    def _ranges(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Center and spread of rows; between which features and states are held."""
        given = self._given
        width = given.high - given.low
        return tensor(given.center), tensor(given.spread), tensor(given.low - width), tensor(given.high + width)

    @cached_property
    def _places(self) -> Tensor:
        """Where [y, earlier rows, units] are in x."""
        at, kept = self.loop.loop.layout, self.loop.kept
        blocks = [np.arange(at.size)[at[name]] for name in ("y", "earlier", "units")]
        return torch.tensor(np.searchsorted(kept, np.concatenate(blocks)))


@overload
def rollout(
    forecaster: Forecaster, controls: Tensor, start: FilteredContext | Tensor | None = None,
    covariance: Literal["low-rank"] = "low-rank", *, rank: int = 20,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def rollout(
    forecaster: Forecaster, controls: Tensor, start: FilteredContext | Tensor | None = None, *, covariance: Literal["none"],
    rank: int = 20,
) -> tuple[Tensor, None]: ...  # fmt: skip
def rollout(
    forecaster: Forecaster, controls: Tensor, start: FilteredContext | Tensor | None = None,
    covariance: Literal["low-rank", "none"] = "low-rank", *, rank: int = 20,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Compute means and covariances of the states that controls lead to, differentiable in the controls and in the start.

    The same numbers as those of :meth:`pesn.Forecaster.rollout`, calibrated as they are. First derivatives only. Computed in
    float64 on the CPU, returned on the device and in the precision of the controls.

    Parameters
    ----------
    forecaster : Forecaster
        A fitted :class:`pesn.Forecaster`, of units with one of the activations that the adapter knows.
    controls : Tensor of shape (H, m) or (B, H, m)
        One sequence of controls, or B at once; the first acts on the last observation of the context.
    start : FilteredContext, Tensor or None, default=None
        What ``forecaster.start`` gave, for one context or for B of them; or a single known state y (d,), or (B, d), that
        gradients flow into; None: after the last row that ``fit`` or ``update`` has seen.
    covariance : {"low-rank", "none"}, default="low-rank"
        As in :meth:`pesn.Forecaster.rollout`.
    rank : int, default=20
        As in :meth:`pesn.Forecaster.rollout`.

    Returns
    -------
    tuple
        Means (…, H, d) and covariances (…, H, d, d), in the units of y; with a leading axis where the controls or the start have
        one. With ``covariance="none"`` means alone, and None.
    """
    whole_number("rank", rank, 1)
    if covariance not in ("low-rank", "none"):
        raise ValueError(f"covariance must be 'low-rank' or 'none' on tensors, got {covariance!r}")
    u = _scale_controls(forecaster, controls)
    model = _model(forecaster, int(rank))
    if isinstance(start, Tensor):
        y = _scale_state(forecaster, start, controls.device)
        begun, plain, batch = model.one_row(forecaster), None, len(y) if start.ndim > 1 else 0
    else:
        context = model.as_context(forecaster, start)
        (begun, plain), y, batch = model.prepare_context(context), None, context.batch[0] if context.batch else 0
    if batch and len(u) not in (1, batch):
        raise ValueError(f"controls must be as many as start has states, {batch}, or one for all, got {len(u)}")
    B = max(len(u), batch)
    u = u.expand(B, -1, -1).transpose(0, 1)
    y = None if y is None else y.expand(B, -1)
    cov: Tensor | None = None
    if covariance == "none":
        mean = _means(model.tensors, begun, u, y)
        mean = mean * tensor(forecaster.scale_.y_std) + tensor(forecaster.scale_.y_mean)
    else:
        mean, cov = _in_units(forecaster, *_simulate_with_share(model.tensors, begun, plain, u, y))
    one = slice(None) if batch or controls.ndim > 2 else 0
    mean = mean.transpose(0, 1)[one].to(controls)
    return mean, None if cov is None else cov.transpose(0, 1)[one].to(controls)


def _simulate_with_share(
    start: TensorInitialState, begun: StartingPoint, plain: StartingPoint | None, u: Tensor, y: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return scaled means and covariances, and the share of the variances that is calibrated: all but that of the context."""
    mean, cov = _simulate(start, begun, u, y)
    if plain is None:
        return mean, cov, None
    own, all_of_it = (one.diagonal(dim1=-2, dim2=-1) for one in (_simulate(start, plain, u, y)[1], cov))
    return mean, cov, (own / all_of_it.clamp(min=torch.finfo(own.dtype).tiny)).clamp(0.0, 1.0)


def _simulate(start: TensorInitialState, begun: StartingPoint, u: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return scaled means (H, B, d) and covariances (H, B, d, d); steps are repeated with bounds where these are touched."""
    loop = start.loop
    drive = loop.drive(u)
    x, moved = start.initial_rows(begun, u[0], y)
    if not moved:
        x = loop.move(x, drive, noisy=True)
    for bounded in (False, True):
        alone, means = loop.roll(x[:1], drive, bounded=bounded)
        rows, _ = loop.roll(x, drive, staying := loop.weight_moves(means, u), bounded=bounded)
        if bounded or loop.holds(x[0], alone, rows, staying.shape[1]):
            break
    columns = rows[:, 1:].transpose(1, 2)
    cov = columns.mT @ columns
    if loop.measurement_cov is not None:
        cov = cov + loop.measurement_cov
    return rows[:, 0], cov


def _means(start: TensorInitialState, begun: StartingPoint, u: Tensor, y: Tensor | None) -> Tensor:
    """Return scaled means (H, B, d) of the loop without uncertainty."""
    loop = start.loop
    drive = loop.drive(u)
    x, moved = start.initial_rows(begun, u[0], y)
    x = x[:1] if moved else loop.move(x[:1], drive, noisy=False)
    rows, _ = loop.roll(x, drive)
    if not loop.holds(x[0], rows, rows, 0):
        rows, _ = loop.roll(x, drive, bounded=True)
    return rows[:, 0]


def _in_units(forecaster: Forecaster, mean: Tensor, cov: Tensor, share: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return calibrated moments in the units of y, as :func:`pesn.evaluation.calibration.calibration_factors` has it."""
    scale, training = forecaster.scale_, tensor(forecaster.prior_scale_.y_std)
    lead = tensor(by_lead(forecaster.calibration_, len(mean)))[:, None, None]
    var = cov.diagonal(dim1=-2, dim2=-1)
    factor = lead.square().expand_as(var)
    if share is not None:
        factor = 1.0 + (factor - 1.0) * share
    live = var > 0.0
    most = (WIDEST * training).square() / torch.where(live, var, torch.ones_like(var))
    factor = torch.minimum(factor, torch.where(live, most.clamp(min=1.0), torch.ones_like(var)))
    std = tensor(scale.y_std)
    factor = factor.sqrt() * std
    return mean * std + tensor(scale.y_mean), cov * factor[..., :, None] * factor[..., None, :]


# ---------------------------------------------------------------- what is given


def _scale_controls(forecaster: Forecaster, controls: Tensor) -> Tensor:
    """Return controls (B, H, m), scaled."""
    from pesn.forecasting.forecaster import Forecaster  # here, not above: torch networks do not need it

    if not isinstance(forecaster, Forecaster):
        raise TypeError(f"forecaster must be a pesn.Forecaster, got {type(forecaster).__name__}")
    check_is_fitted(forecaster, "esn_")
    if forecaster.esn_.local is not None:
        raise ValueError(f"forecaster must have a network without local to go by tensors, got local={forecaster.esn_.local!r}")
    _check("controls", controls)
    m = forecaster.n_known_
    u = controls if controls.ndim == 3 else controls[None]
    if u.ndim != 3 or u.shape[2] != m or 0 in u.shape[:2]:
        raise ValueError(f"controls must have shape (sequences, steps, {m}) or (steps, {m}), got {tuple(controls.shape)}")
    scale, prior = forecaster.scale_, forecaster.prior_scale_
    u = (u.to("cpu", torch.float64) - tensor(scale.x_mean)) / tensor(scale.x_std)
    check_within_reach("controls", u.detach().numpy(), prior.x_mean, prior.x_std)
    return u


def _scale_state(forecaster: Forecaster, start: Tensor, device: torch.device) -> Tensor:
    """Return states (B, d), scaled."""
    _check("start", start, device)
    d = forecaster.n_columns_
    if start.ndim not in (1, 2) or start.shape[-1] != d or not len(start):
        raise ValueError(f"start must have shape ({d},) or (states, {d}), got {tuple(start.shape)}")
    scale, prior = forecaster.scale_, forecaster.prior_scale_
    y = (start.to("cpu", torch.float64).reshape(-1, d) - tensor(scale.y_mean)) / tensor(scale.y_std)
    check_within_reach("start", y.detach().numpy(), prior.y_mean, prior.y_std)
    return y


def _check(name: str, value: Any, device: torch.device | None = None) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(value).__name__}")
    check_tensor(name, value, value.device if device is None else device)
    if value.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{name} must be of dtype float32 or float64, got {value.dtype}")
    if (wrong := find_nonfinite(value)) is not None:
        raise ValueError(f"{name} must be finite, got {wrong}")


# ---------------------------------------------------------------- what is kept


class _Model:
    """A forecaster's loop of first order, as it was when it was last fitted or updated."""

    def __init__(self, forecaster: Forecaster, rank: int) -> None:
        self.made_of = forecaster.model_
        self.own = forecaster.loop()
        self.loop = replace(rollout_loop(self.own, "low-rank", rank), reduced=False)
        self.filter = forecaster.model_.context_filter()
        with torch.inference_mode(False):  # cached tensors must serve autograd later
            self.tensors = TensorInitialState(TensorLoop(self.loop), self.filter)
        self._contexts: WeakKeyDictionary[FilteredContext, tuple[StartingPoint, StartingPoint | None]] = WeakKeyDictionary()
        self._last: FilteredContext | None = None

    def one_row(self, forecaster: Forecaster) -> StartingPoint:
        """Return a context of one observation."""
        y, u = np.zeros((1, forecaster.n_columns_)), np.zeros((1, forecaster.n_known_))
        return StartingPoint(None, y, u[:-1], Uncertainty.none(y, u))

    def as_context(self, forecaster: Forecaster, start: Any) -> FilteredContext:
        """Return the initial state that ``start`` gave; None: after the last observation."""
        if start is not None and not isinstance(start, FilteredContext):
            raise TypeError(f"start must be a tensor, what start(context) gave, or None, got {type(start).__name__}")
        if start is not None:
            return forecaster.model_.check_start(start)
        if self._last is None:
            self._last = forecaster.start()
        return self._last

    def prepare_context(self, context: FilteredContext) -> tuple[StartingPoint, StartingPoint | None]:
        """Return a context in the form of the loop, and as if it were certain, where it is not."""
        if context not in self._contexts:
            plain = None if context.plain is None else convert_start(context.plain, self.own, self.loop)
            self._contexts[context] = convert_start(context.begun, self.own, self.loop), plain
        return self._contexts[context]


_models: WeakKeyDictionary[Forecaster, dict[int, _Model]] = WeakKeyDictionary()


def _model(forecaster: Forecaster, rank: int) -> _Model:
    models = _models.setdefault(forecaster, {})
    kept = models.get(rank)
    if kept is None or kept.made_of is not forecaster.model_:
        kept = models[rank] = _Model(forecaster, rank)
    return kept
