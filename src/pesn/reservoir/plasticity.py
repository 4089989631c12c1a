"""Intrinsic and synaptic plasticity: unsupervised adaptation of gains, biases and recurrent weights.

>>> from pesn.reservoir import draw, run
>>> z = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 1))
>>> saturated = draw(50, 1, 1, input_scaling=5.0, leak_rate=1.0, rng=0)
>>> adapted = adapt(saturated, Plasticity(std=0.2), Rows(z), np.zeros((2000, 1)), [slice(0, 2000)])
>>> [float(run(reservoir, z)[0].std(axis=0).mean().round(1)) for reservoir in (saturated, adapted)]
[0.7, 0.2]

>>> from pesn.reservoir import draw
>>> z = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 1))
>>> drawn = draw(50, 1, 1, leak_rate=1.0, rng=0)
>>> moved = adapt_weights(drawn, SynapticPlasticity("anti-oja"), Rows(z), np.zeros((2000, 1)), [slice(0, 2000)])
>>> [round(float(abs(np.linalg.eigvals(r.W.toarray())).max()), 2) for r in (drawn, moved)]
[0.9, 0.94]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pesn._support.arguments import flag, number, whole_number
from pesn._support.progress import Advance
from pesn._support.records import check_remade
from pesn._support.types import Array
from pesn.reservoir.drive import kernel_weights
from pesn.reservoir.sequences import Rows, blocks
from pesn.reservoir.weights import Reservoir

_ACTIVATIONS = ("tanh", "sigmoid")


@dataclass(frozen=True)
class Plasticity:
    """How a reservoir's units are to be spread, and how they get there: ``plasticity=`` of a network.

    Gains change the spectral radius: the one that was asked for is where they start from.

    Parameters
    ----------
    mean, std
        Of f(a x + b), what a unit puts out before it leaks: of the Gaussian that outputs of tanh units are to follow. Those of
        sigmoid units are to follow an exponential of this mean, above 0, and ``std`` is not used.
    rate
        η, how far a row moves gain and bias in the first pass; in pass k it is η / k, so that the noise of single rows dies
        away. A smaller ``std`` needs a smaller one: of tanh units it must not be above std².
    epochs
        How often the training rows are passed.

    Raises
    ------
    TypeError, ValueError
        Where one of them is not such a number.
    """

    mean: float = 0.0
    std: float = 0.2
    rate: float = 1e-3
    epochs: int = 10

    def __post_init__(self) -> None:
        number("mean", self.mean, -1.0, 1.0, "()")
        number("std", self.std, 0.0, math.inf, "()")
        number("rate", self.rate, 0.0, 1.0, "(]")
        whole_number("epochs", self.epochs, 1)
        for name, kind in (("mean", float), ("std", float), ("rate", float), ("epochs", int)):  # a search sets NumPy's
            object.__setattr__(self, name, kind(getattr(self, name)))

    def check(self, name: str) -> None:
        """A ValueError unless it is whole: one that came from a file was not made by its constructor."""
        check_remade(name, self)


def adapt(
    reservoir: Reservoir,
    plasticity: Plasticity,
    inputs: Rows,
    targets: Array,
    sequences: list[slice],
    advance: Advance | None = None,
) -> Reservoir:
    """The reservoir with the gains and biases that its units come to on these rows; its own arrays stay as they are.

    Parameters
    ----------
    reservoir
        Of tanh or sigmoid units.
    plasticity
        The target, the rate and the number of passes.
    inputs, targets, sequences
        Rows (n, d), of which the means are used, the outputs (n, m) that are fed back, and where sequences begin and end; each
        starts from zero.
    advance
        Told how many rows are done.

    Returns
    -------
    Reservoir

    Raises
    ------
    ValueError
        Of other units, or where the rate is above std².
    """
    r = reservoir
    check_activation(r, _ACTIVATIONS)
    if r.activation == "sigmoid" and not plasticity.mean > 0.0:
        raise ValueError(f"plasticity.mean must lie in (0, 1) for sigmoid units, got {plasticity.mean}")
    if r.activation == "tanh" and plasticity.rate > plasticity.std**2:  # beyond about twice as much biases jump to and fro
        given = f"rate={plasticity.rate:g} and std={plasticity.std:g}"
        raise ValueError(f"plasticity.rate must not be above std² = {plasticity.std**2:g}, got {given}; lower rate")
    from pesn.reservoir.kernels import Weights, adapt_rows  # here, not above: it brings numba

    net = Weights(*kernel_weights(r))
    tuned = np.stack([np.ones(r.n_units), np.zeros(r.n_units)])

    def move(epoch: int, z: Array, teacher: Array, h: Array, y: Array) -> None:
        rule = r.activation == "tanh", plasticity.mean, plasticity.std, plasticity.rate / (epoch + 1)
        adapt_rows(net, z, teacher, rule, tuned, h, y)

    pass_rows(r, plasticity.epochs, inputs, targets, sequences, move, advance)
    gains, shifts = tuned
    return r._replace(
        data=np.repeat(gains, r.indptr[1:] - r.indptr[:-1]) * r.data,
        W_in=gains[:, None] * r.W_in,
        W_fb=gains[:, None] * r.W_fb,
        bias=gains * r.bias + shifts,
    )


def check_activation(reservoir: Reservoir, known: tuple[str, ...]) -> None:
    """A ValueError where units are not of one of the ``known`` activations."""
    activation = reservoir.activation
    if activation not in known:
        name = activation if isinstance(activation, str) else activation.name
        raise ValueError(f"plasticity is for units of {', '.join(known[:-1])} and {known[-1]}, got activation={name!r}")


def pass_rows(
    reservoir: Reservoir,
    epochs: int,
    inputs: Rows,
    targets: Array,
    sequences: list[slice],
    move: Callable[[int, Array, Array, Array, Array], None],
    advance: Advance | None,
) -> None:
    """Give ``move`` the epoch and all rows, block by block; h and y start from zero in each sequence and are moved in place."""
    for epoch in range(epochs):
        for sequence in sequences:
            h, y = np.zeros(reservoir.n_units), np.zeros(reservoir.n_outputs)
            for block in blocks(sequence):
                move(epoch, inputs.take(block)[0], np.ascontiguousarray(targets[block], float), h, y)
                if advance is not None:
                    advance(block.stop - block.start)


_SYNAPTIC_ACTIVATIONS = ("tanh", "sigmoid", "identity")
_RULES = {  # the sign, whether weights decay, whether y is measured from the threshold
    "oja": (1.0, True, False),
    "anti-oja": (-1.0, True, False),
    "hebbian": (1.0, False, False),
    "anti-hebbian": (-1.0, False, False),
    "bcm": (1.0, False, True),
}


@dataclass(frozen=True)
class SynapticPlasticity:
    """By which rule recurrent weights move, and how far: ``plasticity=`` of a network.

    The spectral radius that was asked for is where weights start from; afterwards it is what the rule leaves. Hebb's rule and
    anti-Oja's let weights grow for as long as rows last; under Hebb's and Oja's units may end up saturated. There is no default:
    what a rule is good for depends on the data.

    Parameters
    ----------
    rule
        "oja", "anti-oja", "hebbian", "anti-hebbian" or "bcm".
    rate
        η, how far a row moves a weight.
    epochs
        How often the training rows are passed.
    normalize
        Whether the weights that enter a unit are scaled to a length of 1 after each row: √Σw² = 1, whatever it was when drawn.
    threshold
        θ, of "bcm" alone: a unit that is above it strengthens what enters it, between 0 and θ it weakens that.

    Raises
    ------
    TypeError, ValueError
        Where one of them is not such a value.
    """

    rule: str
    rate: float = 1e-3
    epochs: int = 1
    normalize: bool = False
    threshold: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.rule, str) or self.rule not in _RULES:
            raise ValueError(f"rule must be one of {', '.join(map(repr, _RULES))}, got {self.rule!r}")
        number("rate", self.rate, 0.0, 1.0, "(]")
        whole_number("epochs", self.epochs, 1)
        flag("normalize", self.normalize)
        number("threshold", self.threshold, -math.inf, math.inf, "()")
        kinds = (("rule", str), ("rate", float), ("epochs", int), ("normalize", bool), ("threshold", float))
        for name, kind in kinds:  # a search sets NumPy's
            object.__setattr__(self, name, kind(getattr(self, name)))

    def check(self, name: str) -> None:
        """A ValueError unless it is whole: one that came from a file was not made by its constructor."""
        check_remade(name, self)


def adapt_weights(
    reservoir: Reservoir,
    plasticity: SynapticPlasticity,
    inputs: Rows,
    targets: Array,
    sequences: list[slice],
    advance: Advance | None = None,
) -> Reservoir:
    """The reservoir with the recurrent weights that the rule comes to on these rows; its own arrays stay as they are.

    Parameters
    ----------
    reservoir
        Of tanh, sigmoid or identity units.
    plasticity
        The rule, its rate and the number of passes.
    inputs, targets, sequences, advance
        As in :func:`pesn.reservoir.plasticity.adapt`.

    Returns
    -------
    Reservoir

    Raises
    ------
    ValueError
        Of other units, or where weights grow beyond all numbers.
    """
    check_activation(reservoir, _SYNAPTIC_ACTIVATIONS)
    from pesn.reservoir.kernels import Weights, move_weights  # here, not above: it brings numba

    sign, decays, is_bcm = _RULES[plasticity.rule]
    kind = _SYNAPTIC_ACTIVATIONS.index(str(reservoir.activation))
    rule = kind, sign * plasticity.rate, decays, is_bcm, plasticity.threshold, plasticity.normalize
    weights = np.array(reservoir.data, float)
    net = Weights(*kernel_weights(reservoir))._replace(data=weights)

    def move(epoch: int, z: Array, teacher: Array, h: Array, y: Array) -> None:
        move_weights(net, z, teacher, rule, h, y)

    pass_rows(reservoir, plasticity.epochs, inputs, targets, sequences, move, advance)
    if not np.isfinite(weights).all():
        given = f"rate={plasticity.rate:g} and epochs={plasticity.epochs} with rule={plasticity.rule!r}"
        raise ValueError(f"plasticity.rate must leave weights finite, got {given}; lower it, or set normalize=True")
    return reservoir._replace(data=weights)
