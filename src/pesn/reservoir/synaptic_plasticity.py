"""Synaptic plasticity: recurrent weights that grow and shrink with what the two units that they join do.

Of a weight w from a unit whose state is x to one whose state then becomes y, row by row:

    hebbian  Δw = η y x        oja  Δw = η y (x − y w)        bcm  Δw = η y (y − θ) x

and with the other sign anti-hebbian and anti-oja. Hebb's rule strengthens what is active together; Oja's keeps the weights of a
unit bounded, and lets a linear one find the leading eigenvector of its inputs (E. Oja, J. Math. Biol. 15, 1982); anti-Oja's makes
units less alike (Š. Babinec and J. Pospíchal, ICANN 2007); that of Bienenstock, Cooper and Munro (J. Neurosci. 2, 1982) has a
threshold θ, which stays here. What they do to a reservoir: G. B. Morales et al., Neurocomputing 461, 2021.

x is what the weight is multiplied with: the last state of a unit of the same layer, the new one of a layer before. Weights that
are not there do not come to be; inputs, feedback and bias keep theirs. What comes out is an ordinary reservoir.

>>> from pesn.reservoir import draw
>>> z = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 1))
>>> drawn = draw(50, 1, 1, leak_rate=1.0, rng=0)
>>> moved = adapt_weights(drawn, SynapticPlasticity("anti-oja"), Rows(z), np.zeros((2000, 1)), [slice(0, 2000)])
>>> [round(float(abs(np.linalg.eigvals(r.W.toarray())).max()), 2) for r in (drawn, moved)]
[0.9, 0.94]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pesn._support.checks import flag, number, whole_number
from pesn._support.progress import Advance
from pesn._support.records import check_remade
from pesn._support.types import Array
from pesn.reservoir.plasticity import Parts, check_activation, pass_rows
from pesn.reservoir.sequences import Rows
from pesn.reservoir.weights import Reservoir

__all__ = ["SynapticPlasticity", "adapt_weights"]

_ACTIVATIONS = ("tanh", "sigmoid", "identity")
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
    check_activation(reservoir, _ACTIVATIONS)
    from pesn.reservoir.plasticity_kernel import move_weights  # here, not above: it brings numba

    sign, decays, is_bcm = _RULES[plasticity.rule]
    kind = _ACTIVATIONS.index(str(reservoir.activation))
    rule = kind, sign * plasticity.rate, decays, is_bcm, plasticity.threshold, plasticity.normalize
    parts = Parts.of(reservoir)

    def move(epoch: int, z: Array, teacher: Array, h: Array, y: Array) -> None:
        move_weights(*parts, z, teacher, rule, h, y)

    pass_rows(parts, plasticity.epochs, inputs, targets, sequences, move, advance)
    if not np.isfinite(parts.rows[2]).all():
        given = f"rate={plasticity.rate:g} and epochs={plasticity.epochs} with rule={plasticity.rule!r}"
        raise ValueError(f"plasticity.rate must leave weights finite, got {given}; lower it, or set normalize=True")
    return reservoir._replace(data=parts.rows[2])
