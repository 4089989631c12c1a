"""Random reservoir weights with an exact spectral radius, reproducible on every platform, in one or several layers.

>>> reservoir = draw(100, n_inputs=1, n_outputs=1, rng=0)
>>> reservoir.W.nnz
1000

>>> deep = draw_layers([Layer(40), [Layer(20, leak_rate=1.0), Layer(10, leak_rate=0.1)]], 1, 1, rng=0)
>>> deep.layers, deep.W.shape, deep.leak_rate[[0, 40, 60]].tolist()
((40, 30), (70, 70), [0.5, 1.0, 0.1])

The connections between units are of a topology with a name, of a user's function, or a given matrix.

>>> W = connect("ring", 5, spectral_radius=0.8, density=0.1, rng=np.random.default_rng(0))
>>> W.toarray().round(1)[:2]
array([[0. , 0. , 0. , 0. , 0.8],
       [0.8, 0. , 0. , 0. , 0. ]])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from pesn._support.arguments import as_real, number, whole_number
from pesn._support.records import check_remade
from pesn._support.types import AnyArray as Array
from pesn._support.types import LeakRate, Memory, Scaling
from pesn.activations import Activation, get, names
from pesn.readout.groups import Patches

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Seed = int | Sequence[int] | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None

_ORTHOGONAL = 1e-5  # tolerance of O Oᵀ = I
_NOTHING = 1e-6  # largest recurrent weight sum of static units


class Reservoir(NamedTuple):
    """Fixed weights of a reservoir.

    W (N, N) in compressed rows, W_in (N, d), W_fb (N, m), bias (N,); the activation. ``leak_rate`` L is a number, or one for each
    unit (N,). ``layers`` are the numbers of units of each layer, () for one: layers move one after the other within a step, each
    using those before it. A deep reservoir has one W, block lower triangular, and groups are blocks on its diagonal. ``rotation``
    O (N, N), orthogonal within each layer: units keep (1 − L) O h instead of (1 − L) h.
    """

    indptr: Array
    indices: Array
    data: Array
    W_in: Array
    W_fb: Array
    bias: Array
    leak_rate: float | Array
    activation: str | Activation = "tanh"
    layers: tuple[int, ...] = ()
    rotation: Array | None = None

    @property
    def n_units(self) -> int:
        """Number of units N."""
        return len(self.bias)

    @property
    def layer_rows(self) -> tuple[slice, ...]:
        """Units of each layer, in the order in which they move."""
        ends = np.cumsum(self.layers or (self.n_units,)).tolist()
        return tuple(slice(*ends) for ends in zip([0, *ends[:-1]], ends, strict=True))

    @property
    def n_inputs(self) -> int:
        """Number of inputs d."""
        return int(self.W_in.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs m that are fed back."""
        return int(self.W_fb.shape[1])

    @property
    def W(self) -> csr_array:
        """W as a SciPy sparse array."""
        return sparse_rows(self.indptr, self.indices, self.data)

    @property
    def is_static(self) -> bool:
        """Whether there are units, all of them functions of the current row only."""
        if not self.n_units or np.any(self.leak_rate != 1.0) or np.any(self.W_fb):
            return False
        return bool(abs(self.W).sum(axis=1).max() <= _NOTHING)

    @property
    def is_memoryless(self) -> bool:
        """Whether nothing of a row stays in the units, if there are any: they are static, and no weights are between them."""
        return not self.n_units or (self.is_static and not np.any(self.data))

    def check(self) -> None:
        """Raise a ValueError unless the arrays fit together: the kernels do not check bounds."""
        for name in ("indptr", "indices", "data", "bias"):
            if np.ndim(getattr(self, name)) != 1:
                raise ValueError(f"{name} must have one axis, got shape {np.shape(getattr(self, name))}")
        n = len(self.bias)
        self._check_rows(n)
        for name in ("W_in", "W_fb"):
            if np.ndim(getattr(self, name)) != 2 or len(getattr(self, name)) != n:
                raise ValueError(f"{name} must have shape ({n}, …), got {np.shape(getattr(self, name))}")
        check_leak_rate(self.leak_rate, n)
        get(self.activation)
        self._check_layers(n)
        if self.rotation is not None:
            check_rotation("rotation", self.rotation, self)

    def _check_layers(self, n: int) -> None:
        if type(self.layers) is not tuple or not all(type(size) is int and size > 0 for size in self.layers):
            raise ValueError(f"layers must be a tuple of numbers of units, each 1 or more, got {self.layers!r}")
        if self.layers and sum(self.layers) != n:
            raise ValueError(f"layers must have {n} units in all, got {self.layers}")

    def _check_rows(self, n: int) -> None:
        """Raise a ValueError unless W is n compressed rows, and all weights are finite."""
        indptr, indices, data = (np.asarray(a) for a in self[:3])
        if indptr.dtype != np.uint32 or indices.dtype != np.uint32:
            raise ValueError(f"indptr and indices must be uint32, got {indptr.dtype} and {indices.dtype}")
        steps = np.diff(indptr.astype(np.int64))
        if indptr.shape != (n + 1,) or indptr[0] != 0 or (steps < 0).any() or not len(indices) == len(data) == indptr[-1]:
            raise ValueError(
                f"indptr, indices and data must describe {n} rows, got {len(indptr)}, {len(indices)}, {len(data)} entries"
            )
        if (indices >= n).any():
            raise ValueError(f"indices must be below n_units = {n}, got {indices.max()}")
        for name in ("data", "W_in", "W_fb", "bias"):
            as_real(name, getattr(self, name))


def check_rotation(name: str, rotation: Array, reservoir: Reservoir) -> None:
    """Raise a ValueError unless ``rotation`` is an orthogonal matrix of all units, 0 between layers."""
    rotation, n = as_real(name, rotation), reservoir.n_units
    if rotation.shape != (n, n):
        raise ValueError(f"{name} must have shape {(n, n)}, got {rotation.shape}")
    within = np.zeros((n, n), bool)
    for rows in reservoir.layer_rows:
        within[rows, rows] = True
    if rotation[~within].any():
        raise ValueError(f"{name} must be 0 between the layers {reservoir.layers}")
    with np.errstate(over="ignore", invalid="ignore"):
        away = float(np.abs(rotation @ rotation.T - np.eye(n)).max(initial=0.0))
    if not away <= _ORTHOGONAL:
        raise ValueError(f"{name} must be orthogonal, got O Oᵀ that is {away:.1g} from the identity")


def check_leak_rate(leak_rate: LeakRate, n_units: int | None) -> None:
    """Raise a ValueError or TypeError unless it is a number in (0, 1], or one for each unit, of any number if that is None."""
    if not np.ndim(leak_rate):
        number("leak_rate", leak_rate, 0.0, 1.0, "(]")
        return
    values = as_real("leak_rate", cast(Array, leak_rate))
    if values.ndim != 1 or n_units not in (None, len(values)):
        units = "units" if n_units is None else n_units
        raise ValueError(f"leak_rate must be a number or have shape ({units},), one for each unit, got {values.shape}")
    if (wrong := ~((values > 0.0) & (values <= 1.0))).any():
        unit = int(np.argmax(wrong))
        raise ValueError(f"leak_rate must lie in (0, 1], got {values[unit]} of unit {unit}")


def draw(
    n_units: int,
    n_inputs: int,
    n_outputs: int,
    *,
    spectral_radius: float = 0.9,
    leak_rate: LeakRate = 0.5,
    density: float = 0.1,
    input_scaling: Scaling = 0.5,
    feedback_scaling: Scaling = 0.0,
    bias_scaling: Scaling = 0.2,
    topology: Topology = "random",
    activation: str | Activation = "tanh",
    rng: Seed = None,
) -> Reservoir:
    """Draw a random reservoir.

    W has round(density · N²) non-zero weights, uniform on [−1, 1], evenly distributed over the rows. A random cycle through all
    units is among them, so that every unit reaches every other. W is scaled by r / max|λ| to ``spectral_radius``, within 1e-10.
    The same ``rng`` gives the same random numbers whatever the scalings, on every platform.

    Parameters
    ----------
    n_units : int
        Number of units N.
    n_inputs : int
        Number of inputs d.
    n_outputs : int
        Number of outputs m.
    spectral_radius : float, default=0.9
        max|λ| of W.
    leak_rate : float or array-like of shape (N,), default=0.5
        L, in (0, 1].
    density : float, default=0.1
        Share of non-zero weights.
    input_scaling : float or array-like, default=0.5
        W_in is uniform on ± input_scaling/√d; one for each column; or W_in itself (N, d).
    feedback_scaling : float or array-like, default=0.0
        W_fb is uniform on ± feedback_scaling; one for each column; or W_fb itself (N, m).
    bias_scaling : float or array-like, default=0.2
        The bias is uniform on ± bias_scaling; or the bias itself (N,).
    topology : str, callable or array-like, default="random"
        See :func:`pesn.reservoir.weights.connect`.
    activation : str or Activation, default="tanh"
        Activation of the units.
    rng : int or numpy.random.Generator, default=None
        Random number generator.

    Returns
    -------
    Reservoir

    Examples
    --------
    >>> W = draw(300, 1, 1, spectral_radius=0.95, density=0.05, rng=0).W
    >>> W.nnz, round(float(abs(np.linalg.eigvals(W.toarray())).max()), 10)
    (4500, 0.95)
    """
    for size, name, least in ((n_units, "n_units", 1), (n_inputs, "n_inputs", 0), (n_outputs, "n_outputs", 0)):
        whole_number(name, size, least)
    number("spectral_radius", spectral_radius, 0.0, math.inf, "()")
    check_leak_rate(leak_rate, n_units)
    number("density", density, 0.0, 1.0, "(]")
    generator = np.random.default_rng(rng)

    def uniform(*shape: int) -> Array:
        return 2.0 * generator.random(shape) - 1.0

    W_in = _scale_weights("input_scaling", input_scaling, uniform(n_units, n_inputs), "inputs", math.sqrt(max(n_inputs, 1)))
    W_fb = _scale_weights("feedback_scaling", feedback_scaling, uniform(n_units, n_outputs), "outputs")
    bias = _scale_weights("bias_scaling", bias_scaling, uniform(n_units), "units")
    W = connect(topology, int(n_units), spectral_radius=spectral_radius, density=float(density), rng=generator)
    rows = W.indptr.astype(np.uint32), W.indices.astype(np.uint32), np.asarray(W.data, np.float64)
    leaks: Any = np.asarray(leak_rate, np.float64) if np.ndim(leak_rate) else float(cast(float, leak_rate))
    return Reservoir(*rows, W_in, W_fb, bias, leaks, name_activation(activation))


def _scale_weights(name: str, scaling: Scaling, drawn: Array, of: str, divisor: float = 1.0) -> Array:
    """Scale weights ``drawn`` on ±1, (N, c) or (N,), by a number or one for each column; or return given weights."""
    if not np.ndim(scaling):
        number(name, scaling, 0.0, math.inf, "[)")
        return cast(float, scaling) / divisor * drawn
    values = as_real(name, cast(Array, scaling)).astype(np.float64)
    if values.shape == drawn.shape:
        return values
    if drawn.ndim != 2 or values.shape != drawn.shape[1:]:
        each = f"one for each of the {drawn.shape[1]} {of}, " if drawn.ndim == 2 else ""
        raise ValueError(f"{name} must be a number, {each}or the weights themselves {drawn.shape}, got shape {values.shape}")
    if (wrong := values < 0.0).any():
        raise ValueError(f"{name} must lie in [0, ∞), got {values[wrong][0]} at index {int(np.argmax(wrong))}")
    return values / divisor * drawn


def without_units(n_inputs: int, n_outputs: int) -> Reservoir:
    """Return a reservoir without units, for readouts of rows only.

    >>> without_units(3, 2).n_units
    0
    """
    nothing = np.empty(0, np.uint32)
    W_in, W_fb = np.empty((0, n_inputs)), np.empty((0, n_outputs))
    return Reservoir(np.zeros(1, np.uint32), nothing, np.empty(0), W_in, W_fb, np.empty(0), 1.0)


def name_activation(activation: str | Activation) -> str | Activation:
    """Return the name of a built-in activation, which a file can hold; a custom one as it is."""
    record = get(activation)
    return record.name if record.name in names() and get(record.name) is record else record


def repeat(small: Reservoir, patches: Patches, n_inputs: int, n_outputs: int) -> Reservoir:
    """Return the reservoir of all patches, each with the units of ``small``.

    Parameters
    ----------
    small : Reservoir
        Reservoir of a patch: its inputs are the window and the known inputs, its outputs the patch's columns.
    patches : Patches
        Patches of the field.
    n_inputs : int
        Columns of X.
    n_outputs : int
        Columns of y.

    Returns
    -------
    Reservoir
        G times as many units, patch after patch.
    """
    if len(small.layers) > 1 or small.rotation is not None:
        raise ValueError("local goes with one layer of leaky units, got layers, or units whose memory is a rotation")
    windows, n = patches.windows(n_outputs, n_inputs), small.n_units
    G = len(windows)
    W_in, W_fb = np.zeros((G * n, n_inputs)), np.zeros((G * n, n_outputs))
    for g, window in enumerate(windows):
        units, there = slice(g * n, (g + 1) * n), window >= 0
        W_in[units, window[there]] = small.W_in[:, there]
        W_fb[units, g * patches.size : (g + 1) * patches.size] = small.W_fb
    ends = small.indptr.astype(np.int64)
    indptr = np.concatenate([ends[:1], *(ends[1:] + g * ends[-1] for g in range(G))])
    indices = np.concatenate([small.indices.astype(np.int64) + g * n for g in range(G)])
    return small._replace(
        indptr=indptr.astype(np.uint32),
        indices=indices.astype(np.uint32),
        data=np.tile(small.data, G),
        W_in=W_in,
        W_fb=W_fb,
        bias=np.tile(small.bias, G),
        leak_rate=small.leak_rate if np.ndim(small.leak_rate) == 0 else np.tile(small.leak_rate, G),
    )


MEMORIES = ("leaky", "orthogonal")
_EXPECTED = (
    "layers must be a whole number, 1 or more, or a list with one entry a layer, a pesn.Layer or a list of them, its groups"
)


@dataclass(frozen=True)
class Layer:
    """Layer of a reservoir, or group of units in a layer; None: the parameter of the network.

    Parameters
    ----------
    n_units : int, default=None
        Number of units.
    spectral_radius : float, default=None
        max|λ| of its own block of W.
    leak_rate : float or array-like of shape (n_units,), default=None
        Leak rate.
    density : float, default=None
        Share of non-zero weights.
    input_scaling : float or array-like, default=None
        Scaling of its inputs, the row for the first layer, the units of the layer before for a later one; divided by the root of
        their number.
    bias_scaling : float or array-like, default=None
        Scaling of the bias.
    topology : str, callable or array-like, default=None
        How its units are connected.

    Examples
    --------
    >>> Layer(50, leak_rate=0.1)
    Layer(50, leak_rate=0.1)
    >>> Layer(-1)
    Traceback (most recent call last):
    ValueError: n_units must be 1 or more, got -1
    """

    n_units: int | None = None
    _: KW_ONLY
    spectral_radius: float | None = None
    leak_rate: LeakRate | None = None
    density: float | None = None
    input_scaling: Scaling | None = None
    bias_scaling: Scaling | None = None
    topology: Topology | None = None

    def __post_init__(self) -> None:
        if self.n_units is not None:
            whole_number("n_units", self.n_units, 1)
            object.__setattr__(self, "n_units", int(self.n_units))  # a search over arrays sets NumPy's
        if self.spectral_radius is not None:
            number("spectral_radius", self.spectral_radius, 0.0, math.inf, "()")
        if self.density is not None:
            number("density", self.density, 0.0, 1.0, "(]")
        if self.leak_rate is not None:
            check_leak_rate(self.leak_rate, self.n_units)

    def __repr__(self) -> str:  # only parameters that differ from the network's
        said = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self)[1:] if getattr(self, one.name) is not None]
        return f"Layer({', '.join([str(self.n_units)] * (self.n_units is not None) + said)})"


Layers: TypeAlias = int | Sequence[Layer | Sequence[Layer]]  # how many equal ones; or one entry a layer, a list: its groups


def draw_layers(
    layers: Layers, n_inputs: int, n_outputs: int, *, memory: Memory = "leaky", feedback_scaling: Scaling = 0.0, rng: Seed = None,
    **own: Any,
) -> Reservoir:  # fmt: skip
    """Draw a reservoir of several layers: the first sees the row and the feedback, each later one the units of the layer before.

    Parameters
    ----------
    layers : int or list
        Number of equal layers; or a list, one entry a layer: a :class:`Layer`, or a list of them, groups with the same inputs
        that are not connected to each other.
    n_inputs : int
        Number of inputs d.
    n_outputs : int
        Number of outputs m.
    memory : {"leaky", "orthogonal"} or array-like of shape (N, N), default="leaky"
        ``"leaky"``: units keep (1 − L) h. ``"orthogonal"``: (1 − L) O h, O a random orthogonal matrix for each group. Or O of all
        units, 0 between layers.
    feedback_scaling : float or array-like, default=0.0
        As in :func:`draw`.
    rng : int or numpy.random.Generator, default=None
        Random number generator.
    **own : Any
        Other parameters of :func:`draw`, the defaults of the layers.

    Returns
    -------
    Reservoir
        W is block lower triangular: the weights of each group on the diagonal, those from the layer before left of it.
    """
    plan, generator = _normalize_layers(layers), np.random.default_rng(rng)
    drawn: list[list[Reservoir]] = []
    for depth, groups in enumerate(plan):
        before = n_inputs if not depth else sum(group.n_units for group in drawn[-1])
        fed = {"feedback_scaling": feedback_scaling, "n_outputs": n_outputs} if not depth else {"n_outputs": 0}
        drawn.append([_draw_group(group, depth, len(plan), before, generator, fed | own) for group in groups])
    whole = _join_groups(drawn)
    return whole._replace(
        rotation=_draw_rotation(memory, whole, [group.n_units for groups in drawn for group in groups], generator)
    )


def _is_layer(groups: object) -> bool:
    return isinstance(groups, (list, tuple)) and len(groups) > 0 and all(isinstance(group, Layer) for group in groups)


def _normalize_layers(layers: Layers) -> Sequence[Sequence[Layer]]:
    """Return the groups of each layer."""
    if isinstance(layers, (list, tuple)):
        plan = [[entry] if isinstance(entry, Layer) else entry for entry in layers]
        if plan and all(map(_is_layer, plan)):
            return plan
        raise ValueError(f"{_EXPECTED}, got {layers!r}")
    if isinstance(layers, Layer):
        raise TypeError(f"{_EXPECTED}, got a Layer alone: layers=[{layers!r}] is a network of one")
    whole_number("layers", layers, 1)
    return [[Layer()]] * int(cast(int, layers))


def _draw_group(group: Layer, depth: int, n_layers: int, before: int, rng: np.random.Generator, own: dict[str, Any]) -> Reservoir:
    """Draw one group, as a reservoir with ``before`` inputs."""
    said = {name: value for name, value in vars(group).items() if value is not None}
    try:
        check_remade("layers", group)  # one that came from a file was not made by its constructor
        if depth and "input_scaling" not in said and np.ndim(own.get("input_scaling", 0.0)):
            raise ValueError("input_scaling by input is the first layer's; give a later one its own, Layer(input_scaling=…)")
        return draw(n_inputs=before, rng=rng, **{**own, **said})
    except (TypeError, ValueError) as error:
        if n_layers == 1:
            raise
        raise type(error)(f"layer {depth + 1}: {error}") from error


def _join_weights(drawn: list[list[Reservoir]]) -> csr_array:
    """Return W of all units: the weights of each group on the diagonal, those from the layer before left of it."""
    sparse = import_module("scipy.sparse")
    blocks: list[list[csr_array | None]] = [[None] * len(drawn) for _ in drawn]
    for depth, groups in enumerate(drawn):
        blocks[depth][depth] = sparse.block_diag([group.W for group in groups])
        if depth:
            blocks[depth][depth - 1] = sparse.csr_array(np.vstack([group.W_in for group in groups]))
    W = sparse.csr_array(sparse.block_array(blocks))
    W.sort_indices()
    return W


def _join_groups(drawn: list[list[Reservoir]]) -> Reservoir:
    """Join all groups into one reservoir."""
    first, every = drawn[0][0], [group for groups in drawn for group in groups]
    if len(every) == 1:
        return first
    W = _join_weights(drawn)
    sizes = tuple(sum(group.n_units for group in groups) for groups in drawn)
    later = ((0, W.shape[0] - sizes[0]), (0, 0))
    W_in, W_fb = (np.pad(np.vstack([getattr(one, name) for one in drawn[0]]), later) for name in ("W_in", "W_fb"))
    bias = np.concatenate([group.bias for group in every])
    rows = W.indptr.astype(np.uint32), W.indices.astype(np.uint32), np.asarray(W.data, np.float64)
    return Reservoir(*rows, W_in, W_fb, bias, _join_leaks(every), first.activation, sizes if len(sizes) > 1 else ())


def _join_leaks(groups: list[Reservoir]) -> float | Array:
    """Return the leak rates of all units, or one number if they are equal."""
    leaks = np.concatenate([np.broadcast_to(group.leak_rate, group.n_units) for group in groups])
    return float(leaks[0]) if (leaks == leaks[0]).all() else leaks


def _draw_rotation(memory: Memory, reservoir: Reservoir, sizes: list[int], rng: np.random.Generator) -> Array | None:
    """Return O of all units; None: the identity."""
    if isinstance(memory, str):
        if memory not in MEMORIES:
            names = ", ".join(map(repr, MEMORIES))
            raise ValueError(f"memory must be one of {names} or an orthogonal matrix, got {memory!r}")
        return None if memory == "leaky" else import_module("scipy.linalg").block_diag(*(orthogonal(n, rng) for n in sizes))
    rotation = as_real("memory", memory).astype(np.float64)
    check_rotation("memory", rotation, reservoir)
    return rotation


# ---------------------------------------------------------------- connections between units

Topology = str | Callable[[int, np.random.Generator], Any] | Any  # a name, a function (n, rng) -> W, or W itself
NAMES = ("random", "ring", "orthogonal", "none")
_DENSE = 200  # largest size for the dense eigenvalue solver, as fast as ARPACK there
_KEPT, _KINDS = 100_000, (np.int32, np.int32, np.float64)  # largest number of weights for the cache; dtypes of compressed rows


def draw_random(n: int, density: float, rng: np.random.Generator) -> csr_array:
    """Draw W (n, n) with ``density`` · n² weights, uniform on [−1, 1], as many in each row, a cycle through all units among them.

    Raises
    ------
    ValueError
        If there are too few weights for the cycle.
    """
    n_weights = round(density * n * n)
    if n_weights < n:
        raise ValueError(
            f"density {density} leaves W nilpotent or disconnected: a cycle through its {n} units needs {n} weights, it has "
            f"{n_weights}; raise density to {math.ceil(1e6 / n) / 1e6:g}"
            + (f" or n_units to {math.ceil(1.0 / density)}" if density > 1e-6 else "")
        )
    # sorting what rng.random gives makes the permutations and the subsets
    cycle = np.argsort(rng.random(n))
    after = np.empty(n, np.int64)
    after[cycle] = np.roll(cycle, 1)
    counts = np.full(n, n_weights // n)
    counts[np.argsort(rng.random(n))[: n_weights % n]] += 1
    columns = []
    for unit, count in enumerate(counts):
        keys = rng.random(n)
        keys[after[unit]] = -1.0
        columns.append(np.sort(np.argpartition(keys, count - 1)[:count]))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return sparse_rows(indptr, np.concatenate(columns), 2.0 * rng.random(n_weights) - 1.0)


def orthogonal(n: int, rng: np.random.Generator) -> Array:
    """Draw an orthogonal matrix (n, n) from the Haar distribution: Q of normal numbers, signs from the diagonal of R.

    >>> Q = orthogonal(4, np.random.default_rng(0))
    >>> bool(np.allclose(Q @ Q.T, np.eye(4)))
    True
    """
    normal = import_module("scipy.special").ndtri(1.0 - rng.random((n, n)))  # in (0, 1]: 1 − u is never 0
    normal[np.isinf(normal)] = 0.0  # u = 1 has probability 2⁻⁵³
    Q, R = np.linalg.qr(normal)
    return np.asarray(Q * np.where(np.diagonal(R) < 0.0, -1.0, 1.0))


def sparse_rows(indptr: Array, indices: Array, data: Array) -> csr_array:
    """Return a square SciPy array from its compressed rows."""
    n = len(indptr) - 1
    return import_module("scipy.sparse").csr_array((data, indices.astype(np.int32), indptr.astype(np.int32)), shape=(n, n))


def connect(topology: Topology, n: int, *, spectral_radius: float, density: float, rng: np.random.Generator) -> csr_array:
    """Return W (n, n), a SciPy array in compressed rows.

    Parameters
    ----------
    topology : {"random", "ring", "orthogonal", "none"}, callable or array-like of shape (n, n)
        ``"random"``: see :func:`draw_random`. ``"ring"``: each unit enters the next one, all with one weight (simple cycle
        reservoir, Rodan and Tiňo 2011). ``"orthogonal"``: a random orthogonal matrix. A function (n, rng) gives a matrix, dense
        or sparse. All of these are scaled to ``spectral_radius``; a matrix is taken as it is. ``"none"``: no weights, so that
        units without a leak are functions of the current row (random features).
    n : int
        Number of units.
    spectral_radius : float
        max|λ|.
    density : float
        Share of non-zero weights of ``"random"``.
    rng : numpy.random.Generator
        Random number generator.

    Returns
    -------
    scipy.sparse.csr_array
    """
    if not isinstance(topology, str) and not callable(topology):
        return _check_matrix(topology, n, "topology must be")
    if isinstance(topology, str) and topology == "none":
        return sparse_rows(np.zeros(n + 1), np.zeros(0), np.zeros(0))
    W, radius = _draw(topology, n, density, rng)
    if not radius > 1e-12 * np.abs(W.data).max(initial=0.0):
        remedy = "topology must give a matrix with a cycle, to be scaled to spectral_radius, got one that is nilpotent"
        raise ValueError(f"{remedy}: all its eigenvalues are 0; a matrix itself is taken as it is")  # as of a chain
    with np.errstate(over="ignore"):
        W.data = W.data * (spectral_radius / radius)
    if not np.isfinite(W.data).all():
        raise ValueError(
            f"spectral_radius must leave the weights finite, got {spectral_radius!r} for a W whose own is {radius:.3g}"
        )
    return W


def _draw(topology: Topology, n: int, density: float, rng: np.random.Generator) -> tuple[csr_array, float]:
    """Draw W before it is scaled, and return its spectral radius."""
    if isinstance(topology, type):
        raise TypeError(f"topology must be a name, a function or a matrix, got the class {topology.__name__}; call it")
    if callable(topology):
        W = _check_matrix(topology(n, rng), n, "topology must give")
        return W, _largest_eigenvalue(W)
    if topology == "random":
        W = draw_random(n, density, rng)
        return W, _largest_eigenvalue(W)
    if topology == "ring":
        return sparse_rows(np.arange(n + 1), np.roll(np.arange(n), 1), np.ones(n)), 1.0
    if topology == "orthogonal":
        return import_module("scipy.sparse").csr_array(orthogonal(n, rng)), 1.0
    raise ValueError(f"topology must be one of {', '.join(map(repr, NAMES))}, a function or a matrix, got {topology!r}")


def _check_matrix(matrix: npt.ArrayLike | csr_array, n: int, must: str) -> csr_array:
    """Convert a user's matrix to compressed rows with sorted columns; raise a ValueError if its shape is wrong."""
    sparse = import_module("scipy.sparse")
    if sparse.issparse(matrix):
        W = sparse.csr_array(matrix, copy=True)
        W.data = as_real("topology", W.data).astype(np.float64)
        W.sum_duplicates()
    else:
        values = as_real("topology", matrix)
        W = sparse.csr_array(values.astype(np.float64)) if values.ndim == 2 else values
    if W.shape != (n, n):
        raise ValueError(f"{must} a matrix of shape {(n, n)} for {n} units, got {W.shape}")
    return W


def _largest_eigenvalue(W: csr_array) -> float:
    """Return max|λ|, cached: reservoirs of one seed and size often differ in their scalings only."""
    rows = (np.asarray(part, kind).tobytes() for part, kind in zip((W.indptr, W.indices, W.data), _KINDS, strict=True))
    return float((_spectral_radius if W.nnz <= _KEPT else _spectral_radius.__wrapped__)(W.shape[0], *rows))


@lru_cache(maxsize=8)
def _spectral_radius(n: int, *rows: bytes) -> float:
    """Return max|λ| block by block: ordered by its strongly connected components W is block triangular.

    Weights between the blocks do not change eigenvalues, but would cost a solver its digits: the zeros of a chain become 1e-2.
    """
    indptr, indices, data = (np.frombuffer(part, kind) for part, kind in zip(rows, _KINDS, strict=True))
    W = sparse_rows(indptr, indices, data)
    count, label = import_module("scipy.sparse.csgraph").connected_components(W, connection="strong")
    if count == 1:
        return _block_radius(W)
    sizes = np.bincount(label)
    alone = np.abs(W.diagonal()[sizes[label] == 1]).max(initial=0.0)
    blocks = [np.flatnonzero(label == one) for one in np.flatnonzero(sizes > 1)]
    return float(max([alone, *(_block_radius(W[units][:, units]) for units in blocks)]))


def _block_radius(W: csr_array) -> float:
    """Return max|λ| of a connected block by ARPACK from a fixed start, verified; by a dense solver if small or not converged."""
    n = W.shape[0]
    if W.nnz == n:  # a single cycle: closed form, since its eigenvalues are ill-conditioned
        return float(np.exp(np.mean(np.log(np.abs(W.data)))))
    if n > _DENSE:
        linalg = import_module("scipy.sparse.linalg")
        start = np.random.default_rng(0).random(n) - 0.5
        try:
            # several at a time: the largest eigenvalues often have nearly equal modulus
            values, vectors = linalg.eigs(W, k=6, which="LM", v0=start, ncv=60, maxiter=150, tol=0)
        except linalg.ArpackError:
            pass
        else:
            top = np.argmax(np.abs(values))
            value, vector = values[top], vectors[:, top]
            if np.linalg.norm(W @ vector - value * vector) <= 1e-12 * abs(value):
                return float(abs(value))
    return float(np.abs(np.linalg.eigvals(W.toarray())).max())
