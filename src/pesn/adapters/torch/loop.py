"""A closed loop on tensors: the mean of its state and columns of independent standard normal sources, step by step.

What ``FirstOrder`` of :mod:`pesn.statespace.low_rank` is on arrays, with its derivatives. x is the state of the loop without
the known inputs, which are in no column: they drive the mean. Rows are the mean, columns of the weights' errors, which stay,
and all other columns, (R, B, n) of B plans: one product of matrices moves them all. Sparse products and derivatives of moves are
compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from pesn._support.jit import jit
from pesn._support.types import Array
from pesn.activations import Activation, get
from pesn.adapters.torch.tensor_gaussian import root
from pesn.linalg import factor_covariance
from pesn.moments import MomentMethod, mehler
from pesn.moments.special import tanh
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.statespace.cell import ActivationMoments, Cell, SineMoments, SparseRows, SquareMoments, UnitMoments
from pesn.statespace.kernels import sparse_times
from pesn.statespace.low_rank import are_many, select_entries
from pesn.statespace.model import PACE, Bounds

_FAR = 1e18  # in place of infinite bounds; its square is finite in single precision


class TensorBounds:
    """Bounds of y (…, d) in a closed loop, on tensors."""

    def __init__(self, bounds: Bounds) -> None:
        self.center, self.width, self.low, self.high = (
            tensor(part) for part in (bounds.center, bounds.width, bounds.low, bounds.high)
        )
        widest = np.where(np.isinf(bounds.widest()) & ~bounds.kinematic, _FAR, bounds.edges[2])
        self.least, self.most, self.widest = tensor(bounds.edges[0]), tensor(bounds.edges[1]), tensor(widest)
        self.limit, self.reach = tensor(np.minimum(bounds.widest(), _FAR)), tensor(bounds.reach)
        self.is_unbounded, self.widen = torch.tensor(bounds.is_unbounded), float(bounds.widen)

    def hold(self, mean: Tensor, before: Tensor, var: Tensor, staying: Tensor | float = 0.0) -> bool:
        """Return whether means (…, d), after those ``before``, and variances lie within the bounds."""
        away = 0.5 * (mean - self.center).abs()
        anywhere = ((mean - before).abs() <= self.reach) & (var <= torch.maximum(self.widest, away).square())
        inside = (mean >= self.least) & (mean <= self.most) & (var <= self.widest.square())
        fine = torch.where(self.is_unbounded, anywhere, inside) & (var + staying <= self.limit.square())
        return bool(fine.all())

    def __call__(self, y: Tensor, before: Tensor, n_staying: int) -> Tensor:
        """Return rows y (R, B, d), the mean, ``n_staying`` columns of the weights and others, with d columns more.

        ``before`` (B, d) is the mean before the step. Rows within the bounds are not changed.
        """
        mean, staying, columns = y[0], y[1 : 1 + n_staying], y[1 + n_staying :]
        var = columns.square().sum(0)
        std = root(var)
        jumped = self.is_unbounded & ((mean - before).abs() > self.reach)
        away = torch.where(jumped, before, mean) - self.center
        widest = torch.where(self.is_unbounded, torch.maximum(self.widest, 0.5 * away.abs()), self.widest)
        factor = (widest / torch.maximum(std, self.width)).clamp(max=1.0)
        outside = (mean < self.least + PACE * (before - self.least).clamp(max=0.0)) | (
            mean > self.most + PACE * (before - self.most).clamp(min=0.0)
        )
        left = (outside & ~self.is_unbounded) | jumped
        drawn, std = self.center + factor.square() * away, factor * std
        room = self.width.square() - std.square()
        added = torch.where(left & (room > 0.0), root(room), torch.zeros_like(room)) * self.widen
        wide = root(std.square() + added.square())
        inside = torch.minimum(torch.maximum(drawn, self.low - wide), self.high + wide)
        held = (left | (factor < 1.0)) & ~self.is_unbounded
        mean, columns = torch.where(held, inside, drawn), factor * columns
        own, room = staying.square().sum(0), self.limit.square() - wide.square()
        over = own > room
        shrunk = root((room / torch.where(over, own, torch.ones_like(own))).clamp(0.0, 1.0))
        staying = torch.where(over, shrunk, torch.ones_like(own)) * staying
        more = torch.diag_embed(added).movedim(-1, 0)
        return torch.cat([mean[None], staying, columns, more])


# (m, v) → E of f, f′, f″ and f‴, (4, …) over the shape of m; v None: as if it were 0
Expectations: TypeAlias = Callable[[Array, Array | None], Array]

_NARROW = ((0.1, 8), (0.2, 12))  # standard deviations up to which so many Gauss-Hermite nodes are accurate to 1e-10
# of the trapezoidal rule for larger ones: its reach, its spacing, and the spacing times the standard deviation
_REACH, _SPACING, _FINER = 6.8, 0.7, 0.28
_MOST = 2048  # nodes, enough for standard deviations up to 40
_LEAST = 1e-4  # relative to the scale of f: lower bound of the standard deviation for E[f″] and E[f‴]
Indices: TypeAlias = npt.NDArray[np.uint32]
SparseArrays: TypeAlias = tuple[Indices, Indices, Array]
_LADDER = 1.25  # standard deviations are rounded up to one of its powers: there are few sets of nodes


def make_expectations(moments: UnitMoments) -> Expectations:
    """Return the expectations of the f of a cell; raise a ValueError where there are none on tensors."""
    if isinstance(moments, SquareMoments):
        return _square
    if isinstance(moments, SineMoments):
        return _sine
    if not isinstance(moments, ActivationMoments) or not moments.exact:
        raise ValueError("forecaster must have a network with moments='surface' or 'exact' to be rolled out on tensors")
    if moments.record is get("sine"):
        return _sine
    return tanh_expectations if moments.record is get("tanh") else partial(_expectations, moments.record)


def _square(mean: Array, var: Array | None) -> Array:
    first = mean * mean if var is None else mean * mean + var
    return np.stack([first, 2.0 * mean, np.full_like(mean, 2.0), np.zeros_like(mean)])


def _sine(mean: Array, var: Array | None) -> Array:
    shrunk = 1.0 if var is None else np.exp(-0.5 * var)
    sine, cosine = shrunk * np.sin(mean), shrunk * np.cos(mean)
    return np.stack([sine, cosine, -sine, -cosine])


def tanh_expectations(mean: Array, var: Array | None) -> Array:
    """Compute those of tanh on arrays (4, …), compiled: a dozen small operations of torch cost more than the arithmetic."""
    out = np.zeros((4, *mean.shape))
    if var is None:
        out[0] = np.tanh(mean)
        out[1] = 1.0 - out[0] * out[0]
    else:
        _sum_tanh(mean.reshape(-1), var.reshape(-1), *_rule(_rung(float(var.max(initial=0.0)))), out.reshape(4, -1))
    return out


@jit(fastmath={"contract", "nsz"})
def _sum_tanh(mean: Array, var: Array, x: Array, weights: Array, out: Array) -> None:
    """Sum E of tanh and three derivatives in ``out`` (4, N), which is 0 before."""
    std = np.sqrt(var)
    for k in range(x.size):
        node, weight = x[k], weights[k]
        for i in range(mean.size):
            t = tanh(mean[i] + std[i] * node)
            square = t * t
            out[0, i] += weight * t
            out[1, i] += weight * square
            out[2, i] += weight * square * t
            out[3, i] += weight * square * square
    for i in range(mean.size):
        one, two, three, four = out[0, i], out[1, i], out[2, i], out[3, i]
        out[1, i], out[2, i], out[3, i] = 1.0 - two, 2.0 * (three - one), 8.0 * two - 6.0 * four - 2.0


def _expectations(record: Activation, mean: Array, var: Array | None) -> Array:
    """Compute those of any activation, (4, …): E[f⁽ⁿ⁾] is the n-th Hermite coefficient, but for its scale."""
    m, v = mean.ravel(), np.zeros(mean.size) if var is None else var.ravel()
    method = MomentMethod(record)
    std = np.sqrt(np.maximum(v, (_LEAST * record.scale) ** 2))
    c = mehler.project(record, m, std, 3)[0] if m.size else np.empty((0, 3))
    found = method(m, v, 1)[0], method.gain(m, v), math.sqrt(2.0) * c[:, 1] / std, math.sqrt(6.0) * c[:, 2] / std**2
    return np.stack(found).reshape(4, *mean.shape)


def _rung(var: float) -> float:
    """Return the standard deviation of ``var``, rounded up to one of few."""
    least = _NARROW[0][0]
    if not var > least * least:
        return least
    if not math.isfinite(var):
        return math.inf
    return least * _LADDER ** math.ceil(0.5 * math.log(var / (least * least)) / math.log(_LADDER) - 1e-9)


@lru_cache(maxsize=64)
def _rule(std: float) -> tuple[Array, Array]:
    """Return nodes and weights of a standard normal, for standard deviations up to ``std``."""
    count = next((n for most, n in _NARROW if std <= most), 0)
    if count:
        x, weights = np.polynomial.hermite_e.hermegauss(count)
    else:
        half = min(math.ceil(_REACH / min(_SPACING, _FINER / std)), _MOST // 2) if math.isfinite(std) else _MOST // 2
        x = np.linspace(-_REACH, _REACH, 2 * half + 1)
        weights = np.exp(-0.5 * x * x)
    return x, weights / weights.sum()


class _Cell(NamedTuple):
    """x[rows] ← (1 − L) O x[rows] + L f(A x + A_u u + b), A (r, n) by compressed rows and columns, L (r,).

    ``rotation`` is O; None where each entry keeps its own.
    """

    by_rows: SparseArrays
    by_columns: SparseArrays
    rows: slice
    inputs: Tensor
    bias: Tensor
    leak: Array
    rotation: Array | None
    is_units: bool
    expectations: Expectations

    def move(self, x: Tensor, drive: Tensor, s: int, noisy: bool) -> tuple[Array, Array]:
        """Move rows x (R B, n) in place, with a ``drive`` (B, r) of the means; return pre-activations and E of f, f′, f″, f‴.

        ``s``: rows of each plan that add nothing to the variances; ``noisy``: whether there are any that do.
        """
        (B, r), rows = drive.shape, x.numpy()
        plans = rows.reshape(-1, B, rows.shape[1])
        into = np.empty((B, r, len(plans)))  # pre-activations
        sparse_times(*self.by_rows, np.ascontiguousarray(plans.transpose(1, 2, 0)), into)
        columns = into[..., s:]
        found = self.expectations(drive.numpy() + into[..., 0], np.vecdot(columns, columns) if noisy else None)
        if self.rotation is not None:
            rows[:, self.rows] = rows[:, self.rows] @ self.rotation.T
        moved = plans[..., self.rows]
        moved *= 1.0 - self.leak
        moved[0] += self.leak * found[0]
        moved[1:] += self.leak * found[1] * into.transpose(2, 0, 1)[1:]
        return into, found

    def back(self, by_x: Tensor, into: Array, found: Array, s: int) -> Tensor:
        """Replace the gradient by rows after :meth:`move` by that by rows before it; return the gradient by the drive."""
        by_drive, rows = np.empty(into.shape[:2]), by_x.numpy()
        kept = None if self.rotation is None else (1.0 - self.leak) * rows[:, self.rows]
        _back(*self.by_columns, into, found, self.rows.start, self.leak, s, rows, by_drive)
        if kept is not None:
            rows[:, self.rows] += kept @ self.rotation - kept
        return torch.from_numpy(by_drive)


@jit(fastmath={"contract", "nsz", "reassoc"})
def _back(
    indptr: Indices, indices: Indices, data: Array, into: Array, found: Array, first: int, leak: Array, s: int,
    by_x: Array, by_drive: Array,
) -> None:  # fmt: skip
    B, r, R = into.shape
    keep, n = 1.0 - leak, indptr.size - 1
    by_a, turned = np.empty((1, r, R)), np.empty((1, n, R))
    for b in range(B):
        for k in range(R):
            row = by_x[k * B + b, first : first + r]
            for i in range(r):
                by_a[0, i, k] = leak[i] * row[i]
                row[i] *= keep[i]
        for i in range(r):
            moves, columns, gain = by_a[0, i], into[b, i], found[1, b, i]
            by_f, by_gain = moves[0], 0.0
            for k in range(1, R):
                by_gain += moves[k] * columns[k]
            for k in range(R):
                moves[k] *= gain
            if R > 1:
                by_var = by_f * found[2, b, i] + by_gain * found[3, b, i]  # twice the derivative by the variance
                for k in range(s, R):
                    moves[k] += by_var * columns[k]
                moves[0] += by_gain * found[2, b, i]
            by_drive[b, i] = moves[0]
        sparse_times(indptr, indices, data, by_a, turned)
        for k in range(R):
            row = by_x[k * B + b]
            for j in range(n):
                row[j] += turned[0, j, k]


class Drive(NamedTuple):
    """What known inputs and constants add to the mean in each of H steps: before each cell (H, B, r), and to c (H, B, q)."""

    cells: tuple[Tensor, ...]
    carried: Tensor


def tensor(values: Array) -> Tensor:
    """Return an array as a tensor of float64."""
    return torch.from_numpy(np.array(values, float, order="C"))


class TensorLoop:
    """The constants of a loop.

    Parameters
    ----------
    loop : ClosedLoop
        Of first order.
    """

    def __init__(self, loop: ClosedLoop) -> None:
        self.loop = loop
        certain = loop.certain
        at, p = certain.layout, certain.carried
        inputs = at["inputs"]
        m = inputs.stop - inputs.start
        self.kept = kept = np.delete(np.arange(at.size), inputs)  # where x is in the state of the loop
        self.d, self.n, self.q = loop.dynamics.n_columns, len(kept), p - m
        self.units = slice(at["units"].start - m, at["units"].stop - m)
        self.cells = tuple(self._cell(cell, inputs) for cell in certain.cells)
        K, k, J = certain.step
        carried = kept[: self.q]
        self.K, self.K_inputs, self.k = tensor(K[carried][:, kept]), tensor(K[carried, inputs]), tensor(k[carried])
        self.K_transposed = self.K.mT
        self.fresh = tensor(np.pad(J[carried] @ factor_covariance(loop.errors.innovation), ((0, self.n - self.q), (0, 0))).T)
        noise = np.zeros((0, 0)) if loop.process_noise is None else loop.process_noise.columns.T
        self.process = tensor(np.pad(noise, ((0, 0), (self.n - noise.shape[1], 0))))
        assert loop.compression is not None
        self.compression, self.carried = loop.compression, p
        self.basis = tensor(loop.compression.basis)
        self.bounds = None if loop.guard is None else TensorBounds(loop.guard)
        self.measurement_cov = None if loop.measurement_cov is None else tensor(loop.measurement_cov)
        errors = loop.weight_errors
        S = np.vstack([errors.root[:1], certain.moves.weights(errors.root.T).T])  # as columns of [1, x]
        self.S, self.S_inputs, self.S_1 = tensor(S[1:][kept].T), tensor(S[1:][inputs].T), tensor(S[0])
        self.staying = tensor(np.pad(errors.output_root.T, ((0, 0), (0, self.q - self.d))))

    def _cell(self, cell: Cell, inputs: slice) -> _Cell:
        A, m = sparse.csr_array(cell.matrix).toarray(), inputs.stop - inputs.start
        rows = slice(cell.rows.start - m, cell.rows.stop - m)
        is_units = rows.start >= self.units.start
        own = np.delete(A, inputs, axis=1)
        if not is_units:  # they depend on earlier entries only
            own[:, rows.start :] = 0.0
        layouts = SparseRows(own).rows, SparseRows(own.T).rows
        rotation = cell.rotation if (cell.leaks < 1.0).any() else None
        expectations = make_expectations(cell.units)
        return _Cell(*layouts, rows, tensor(A[:, inputs]), tensor(cell.bias), cell.leaks, rotation, is_units, expectations)

    def drive(self, u: Tensor) -> Drive:
        """Return the drive of known inputs u (H, B, m), scaled."""
        return Drive(tuple(linear(u, cell.inputs, cell.bias) for cell in self.cells), linear(u, self.K_inputs, self.k))

    # ---------------------------------------------------------------- steps

    def move(self, x: Tensor, drive: Drive, noisy: bool) -> Tensor:
        """Return rows x (R, B, n), none of which is of the weights, after the cells have moved by the first inputs."""
        B, rows = x.shape[1], x.reshape(-1, self.n)
        for cell, part in zip(self.cells, drive.cells, strict=True):
            rows = _move_cell(rows, part[0], cell, 1, noisy)
        return (self._add_process_noise(rows, B, 1) if noisy else rows).view(-1, B, self.n)

    def roll(self, x: Tensor, drive: Drive, staying: Tensor | None = None, bounded: bool = False) -> tuple[Tensor, Tensor]:
        """Roll out rows x (R, B, n), whose units have moved, for H steps: y (H, R′, B, d), and means (H, B, n) it is read from.

        ``staying`` (H, s, B, q): by what each step moves s columns of the weights, which come after the mean; None: means alone.
        Rows that there are not at a step are 0.
        """
        B, s, noisy, add = x.shape[1], 1, staying is not None, drive.carried[:, None]
        if staying is not None:
            add, nothing = torch.cat([add, staying], dim=1), x.new_zeros(staying.shape[1], *x.shape[1:])
            x, s = torch.cat([x[:1], nothing, x[1:]]), add.shape[1]
        fresh = self.fresh[:, None].expand(-1, B, -1).reshape(-1, self.n)
        ys, means, x = [], [], x.reshape(-1, self.n)
        for t, now in enumerate(add.reshape(len(add), s * B, self.q).unbind(0)):
            for cell, part in zip(self.cells, drive.cells, strict=True):
                if t or not cell.is_units:
                    x = _move_cell(x, part[t], cell, s, noisy)
            if noisy and t:
                x = self._add_process_noise(x, B, s)
            means.append(x[:B])
            c = x @ self.K_transposed
            c = torch.cat([c[: s * B] + now, c[s * B :]])
            x = torch.cat([c, x[:, self.q :]], dim=1)
            if noisy:
                x = torch.cat([x, fresh])
            if bounded and self.bounds is not None:
                x = _apply_bounds(self.bounds, x.view(-1, B, self.n), means[t][:, : self.d], s, noisy).reshape(-1, self.n)
            ys.append(x.view(-1, B, self.n)[..., : self.d])
        return torch.nn.utils.rnn.pad_sequence(ys, batch_first=True), torch.stack(means)

    def _add_process_noise(self, x: Tensor, B: int, s: int) -> Tensor:
        """Add the noise of the units to rows x (R B, n); compress them where there are many after the first s of each plan."""
        if self.process.shape[0]:
            x = torch.cat([x, self.process[:, None].expand(-1, B, -1).reshape(-1, self.n)])
        if not are_many(x.shape[0] // B - s, self.carried, self.compression):
            return x
        after = self.compress(x[s * B :].view(-1, B, self.n).transpose(0, 1))
        return torch.cat([x[: s * B], after.transpose(0, 1).reshape(-1, self.n)])

    def holds(self, x: Tensor, alone: Tensor, rows: Tensor, n_staying: int) -> bool:
        """Return whether y of :meth:`roll` lies within the bounds: means ``alone``, and ``rows``, from a mean x (B, n)."""
        if self.bounds is None:
            return True
        with torch.no_grad():
            before, square = x[None, :, : self.d], rows[:, 1:].square()
            first, second = (torch.cat([before, part[:-1, 0]]) for part in (alone, rows))
            columns, staying = square[:, n_staying:].sum(1), square[:, :n_staying].sum(1)
            certain = self.bounds.hold(alone[:, 0], first, torch.zeros_like(columns))
            return certain and (rows is alone or self.bounds.hold(rows[:, 0], second, columns, staying))

    def weight_moves(self, means: Tensor, u: Tensor) -> Tensor:
        """Return how each step moves the columns of the weights, (H, s, B, q), by means (H, B, n) with inputs (H, B, m).

        Which steps make a new direction is a choice; places along these directions follow from the products of any two rows.
        """
        v = (linear(means, self.S) + linear(u, self.S_inputs, self.S_1)).transpose(0, 1)
        gram = v @ v.mT
        B, H, _ = gram.shape
        found = self.loop.weight_errors.places(v.detach().numpy())
        some = np.any(found, axis=1)
        r = max(int(some.sum(axis=1).max()), 1)
        first, live = (torch.tensor(part[:, :r]) for part in ((found != 0.0).argmax(axis=1), some))
        onto = gram.gather(2, first[:, None].expand(B, H, r))
        between = onto.gather(1, first[..., None].expand(B, r, r))
        unit = torch.eye(r, dtype=torch.float64)
        L = torch.linalg.cholesky(torch.where(live[:, :, None] & live[:, None], between, unit))
        places = torch.linalg.solve_triangular(L, onto.mT, upper=False).mT
        there = live[:, None] & (first[:, None] <= torch.arange(H)[:, None])
        places = torch.where(there, places, torch.zeros_like(places))
        kept, size = places.square().sum(-1), gram.diagonal(dim1=1, dim2=2)
        any_kept = kept > 0.0
        ratio = torch.where(any_kept, size, torch.zeros_like(size)) / torch.where(any_kept, kept, torch.ones_like(kept))
        places = places * torch.where(any_kept, ratio, torch.ones_like(ratio)).sqrt()[..., None]
        return (places.permute(1, 2, 0)[:, :, None, :, None] * self.staying[:, None]).reshape(H, -1, B, self.q)

    def compress(self, columns: Tensor) -> Tensor:
        """Return fewer columns than (B, C, n), which keep the covariances of c, of what is read out and of the widest entries.

        With G (C, k) the entries that are kept, G = Q R, they are Qᵀ times the columns.
        """
        c, h = columns[..., : self.q], columns[..., self.q :]
        inputs = columns.new_zeros(*columns.shape[:-1], self.carried - self.q)
        entries = torch.cat([c, inputs, h @ self.basis, h], dim=-1)
        pivots = select_entries(entries.detach().mT.numpy(), self.carried, self.compression)[1]
        counts = (pivots >= 0).sum(axis=-1)
        after = columns.new_zeros(len(columns), int(counts.max()), self.n)
        for count in np.unique(counts):
            which = torch.tensor(np.flatnonzero(counts == count))
            chosen = torch.tensor(pivots[counts == count][:, None, :count])
            Q = torch.linalg.qr(entries[which].gather(2, chosen.expand(-1, columns.shape[1], -1))).Q
            after[which, :count] = Q.mT @ columns[which]
        return after


def _move_cell(x: Tensor, drive: Tensor, cell: _Cell, s: int, noisy: bool) -> Tensor:
    result: Tensor = _Move.apply(x, drive, cell, s, noisy)  # type: ignore[no-untyped-call]
    return result


class _Move(torch.autograd.Function):
    """The move of a cell, rows x (R B, n); ``s`` of each plan, the mean and those of the weights, come first."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, drive: Tensor, cell: _Cell, s: int, noisy: bool) -> Tensor:
        x = x.clone(memory_format=torch.contiguous_format)
        ctx.kept = cell, s, *cell.move(x, drive, s, noisy)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_x: Tensor) -> Any:
        (cell, s, into, found), back = ctx.kept, by_x.clone(memory_format=torch.contiguous_format)
        by_drive = cell.back(back, into, found, s)
        return back, by_drive, None, None, None


def _apply_bounds(bounds: TensorBounds, x: Tensor, before: Tensor, s: int, noisy: bool) -> Tensor:
    """Return rows x (R, B, n) with y within its bounds, (R′, B, n)."""
    d = before.shape[1]
    with torch.no_grad():
        if bounds.hold(x[0, :, :d], before, x[s:, :, :d].square().sum(0), x[1:s, :, :d].square().sum(0)):
            return x
    y = bounds(x[..., :d], before, s - 1)[: None if noisy else 1]
    others = torch.cat([x[..., d:], x.new_zeros(len(y) - len(x), x.shape[1], x.shape[2] - d)])
    return torch.cat([y, others], dim=2)
