"""Recursive least squares with forgetting, in square-root form: the weights follow the data row by row.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> features = np.column_stack([np.ones(2000), rng.normal(size=(2000, 2))])
>>> targets = features @ [[0.5], [1.0], [-2.0]]
>>> targets[1000:] += features[1000:, 1:2]  # the weights change on the way
>>> predictions, state = rls_update(rls_start((3, 1, 100.0)), features, targets, forgetting=0.98)
>>> state.weights.round(2)
array([[ 0.5,  2. , -2. ]])
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from pesn._support.arguments import as_real, as_rows
from pesn._support.jit import jit
from pesn._support.records import check_arrays, check_counts
from pesn._support.types import FloatArray
from pesn.readout.ridge import Readout
from pesn.readout.rls_kernel import learn_row, product, triangle

__all__ = ["RLSState", "Recursion", "recursion", "rls_start", "rls_update", "rotation"]

_FADE = 10.0  # how far the precision may fade between two visits of a regularisation row


class RLSState(NamedTuple):
    """What the recursion carries; never changed in place: an update gives new arrays, ``root`` a read-only one.

    ``weights`` (m, p); ``root`` S (p, p), upper triangular, with P = S Sᵀ, the covariance of the weights but for the factor R;
    the prior that forgetting falls back to: ``prior_weights`` (m, p) and ``prior_root`` (p, p), whose rows l make its
    precision Σ l lᵀ; ``row``: the next of these rows; ``waited``: the steps since the last one.
    """

    weights: FloatArray
    root: FloatArray
    prior_weights: FloatArray
    prior_root: FloatArray
    row: int = 0
    waited: int = 0

    def check(self, name: str, n_features: int, n_targets: int) -> None:
        """A ValueError unless it is a recursion of such sizes."""
        p, m = n_features, n_targets
        shapes = {"weights": (m, p), "root": (p, p), "prior_weights": (m, p), "prior_root": (p, p)}
        check_arrays(name, {part: (getattr(self, part), shape) for part, shape in shapes.items()})
        check_counts(name, {"row": (self.row, 0), "waited": (self.waited, 0)})
        if self.row >= p:
            raise ValueError(f"{name}.row is {self.row}")


def rls_start(
    start: Readout | tuple[int, int, float],
    *,
    weights: npt.ArrayLike | None = None,
    prior_samples: float = 1.0,
    dtype: npt.DTypeLike = np.float64,
) -> RLSState:
    """Where recursive least squares starts: at a batch solution with its own precision, or at P = δ I.

    Parameters
    ----------
    start
        A :class:`~pesn.readout.ridge.Readout`, or (p, m, delta) for P = delta·I.
    weights
        The weights (m, p) to start from, in place of the batch solution's or of zeros.
    prior_samples
        After a batch solution: what the rows that it learned from are worth once they have been forgotten, in rows. They draw
        weights that have changed back by a share of prior_samples·(1 − λ); all n of them would hold them for ever.
    dtype
        float64 or float32: of the state, and so of everything that follows.
    """
    if isinstance(start, Readout):
        p = start.weights.shape[1]
        if not (math.isfinite(prior_samples) and prior_samples > 0.0):
            raise ValueError(f"prior_samples must be finite and positive, got {prior_samples}")
        initial, root = start.weights, start.covariance_root
        # A = S⁻ᵀ S⁻¹: the rows of S⁻¹ make up the precision, here that of prior_samples of the n rows.
        prior_root = np.linalg.inv(root) * math.sqrt(min(prior_samples / start.n_samples, 1.0))
    else:
        p, m, delta = start
        if p < 1 or m < 1:
            raise ValueError(f"start must be (features, targets, delta) with at least one of each, got {start}")
        if not (math.isfinite(delta) and delta > 0.0):
            raise ValueError(f"delta must be finite and positive, got {delta}")
        initial = np.zeros((m, p))
        root, prior_root = np.eye(p) * math.sqrt(delta), np.eye(p) / math.sqrt(delta)
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {np.dtype(dtype)}")
    if weights is not None:
        given = as_real("weights", weights)
        if given.shape != initial.shape:
            raise ValueError(f"weights must have shape {initial.shape}, got {given.shape}")
        initial = given
    initial, root, prior_root = (np.array(a, dtype, order="C") for a in (initial, root, prior_root))
    return RLSState(initial, root, initial, prior_root)


@lru_cache(maxsize=16)  # asked for at every row
def rotation(n_features: int, forgetting: float) -> tuple[int, int, float]:
    """(every, rows, weight): every so many steps, so many of the prior's rows are seen again, each with this weight.

    Without excitation forgetting alone lets P grow as λ⁻ᵏ, without end (wind-up). The remedy is to observe again, in
    turn, the prior itself: pseudo-observations √ρ l_i → √ρ W₀ l_i, where Σ l_i l_iᵀ = Π is its precision. A row that comes
    round every c steps keeps the precision ρ λᵃ/(1 − λᶜ) l_i l_iᵀ at age a < c, on average over the cycle
    ρ/(c (1 − λ)): so ρ = c (1 − λ) lets the precision settle at Π on average, and pulls W to W₀. Both vanish as λ → 1.

    One row a step makes c = p, and for λᵖ ≪ 1 lets P grow by λ⁻ᵖ between two visits; for λᵖ ≈ 1 it is more than is
    needed. So the rows come as often as keeps λᶜ ≥ 1/10: then the precision stays between Π/4 and 2.6 Π (ρ/(1 − λᶜ)
    times λᶜ and 1), whatever p and λ > 0.1.

    >>> rotation(100, 0.999)[:2], rotation(100, 0.98)[:2], rotation(100, 0.9)[:2], rotation(100, 1.0)[:2]
    ((23, 1), (1, 1), (1, 5), (0, 0))
    """
    if forgetting == 1.0:
        return 0, 0, 0.0
    longest = math.log(_FADE) / -math.log(forgetting)  # the longest cycle allowed, in steps
    every = max(int(longest / n_features), 1)
    rows = min(math.ceil(n_features * every / longest), n_features)
    return every, rows, n_features * every / rows * (1.0 - forgetting)


def rls_update(
    state: RLSState, features: npt.ArrayLike, targets: npt.ArrayLike, forgetting: float
) -> tuple[FloatArray, RLSState]:
    """Predict each row, then learn from it: (predictions (T, m), each made *before* its row is learned; the new state).

    Minimises Σ_k λ^(T−k) |y_k − W b_k|² plus the start's and the prior's terms. ``features`` (T, p), ``targets`` (T, m);
    ``forgetting`` λ in (0, 1]. The computation is in the state's dtype; the old state is not changed.
    """
    dtype = state.root.dtype
    m, p = state.weights.shape
    if not 0.0 < forgetting <= 1.0:
        raise ValueError(f"forgetting must lie in (0, 1], got {forgetting}")
    b = np.ascontiguousarray(as_rows("features", features, p), dtype)
    y = np.ascontiguousarray(as_rows("targets", targets, m), dtype)
    if len(b) != len(y):
        raise ValueError(f"features and targets must have as many rows, got {len(b)} and {len(y)}")
    at, predictions = recursion(state, float(forgetting)), np.empty((len(b), m), dtype)
    if not _follow(*at, b, y, float(forgetting), predictions):
        raise ValueError(f"rls_update left the range of {dtype} numbers; scale features and targets to about 1")
    return predictions, at.state(state)


class Recursion(NamedTuple):
    """A state as the kernels move it, in place: all arrays are its own but the prior's.

    ``root``: :mod:`pesn.readout.rls_kernel`; ``weights`` (m, p); ``clock`` (every, rows, row, waited), see :func:`rotation`;
    ``scale``: what a row of the prior is multiplied by when it is seen again.
    """

    root: FloatArray
    weights: FloatArray
    prior_weights: FloatArray
    prior_root: FloatArray
    clock: npt.NDArray[np.int64]
    scale: float

    def state(self, begun: RLSState) -> RLSState:
        """What it has come to, from the state that it has ``begun`` with; it must not move after that."""
        self.root.flags.writeable = False
        return begun._replace(weights=self.weights, root=self.root.T, row=int(self.clock[2]), waited=int(self.clock[3]))


def recursion(state: RLSState, forgetting: float) -> Recursion:
    """``state`` laid out for the kernels, in arrays of its own."""
    dtype = state.root.dtype
    every, rows, weight = rotation(len(state.root), forgetting)
    root = np.empty(state.root.shape, dtype)
    triangle(_by_columns(state.root), root)
    clock = np.array([every, rows, state.row, state.waited], np.int64)
    prior_weights, prior_root = _frozen(state.prior_weights, dtype), _frozen(state.prior_root, dtype)
    return Recursion(root, np.array(state.weights, dtype, order="C"), prior_weights, prior_root, clock, math.sqrt(weight))


def _by_columns(root: FloatArray) -> FloatArray:
    """The columns of S, one after the other; of one that is not upper triangular, those of the one that is and has the same S Sᵀ.

    What ``rls_update`` gave is triangular, and is not looked at: that would take as long as to learn a row. Nobody can have
    written to it: it is read-only, and so is the whole that it is a part of.
    """
    whole, same = root.base, (root.shape, root.strides, root.dtype)
    if isinstance(whole, np.ndarray) and not whole.flags.writeable and (whole.shape, whole.strides[::-1], whole.dtype) == same:
        return whole
    if np.tril(root, -1).any():
        root = scipy.linalg.rq(root, mode="r")
    return _frozen(root.T, root.dtype)


def _frozen(values: FloatArray, dtype: npt.DTypeLike) -> FloatArray:
    """Contiguous and read-only: numba compiles once for each kind of array."""
    array: FloatArray = np.ascontiguousarray(values, dtype).view()
    array.flags.writeable = False
    return array


@jit()
def _follow(root, weights, W0, prior, clock, scale, B, Y, forgetting, predictions):  # type: ignore[no-untyped-def]
    """Learn all rows, in place; whether all is finite."""
    m, p = weights.shape
    v, work, error = np.empty(p, root.dtype), np.empty((2, p), root.dtype), np.empty(m, root.dtype)
    for t in range(len(B)):
        for q in range(p):
            v[q] = B[t, q]
        for o in range(m):
            predictions[t, o] = product(weights[o], v)
            error[o] = Y[t, o] - predictions[t, o]
        if not learn_row(root, weights, W0, prior, v, error, work, clock, forgetting, scale):
            return False
    return True
