"""A network's parameters, checked when it learns: each is named where it is wrong.

Those of the reservoir (``spectral_radius``, ``topology``, ``activation``, ...) are checked where it is drawn,
:func:`pesn.reservoir.layers.draw_layers`.

>>> from pesn import EchoStateNetwork
>>> check_network(EchoStateNetwork(forgetting=2.0))
Traceback (most recent call last):
ValueError: forgetting must lie in (0, 1], got 2.0
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state

from pesn._support.checks import flag, number, whole_number
from pesn._support.types import ProcessNoise, RandomState, Ridge
from pesn.esn.estimator import ReservoirEstimator
from pesn.gaussian import Gaussian
from pesn.moments import named_method
from pesn.readout.features import Features
from pesn.readout.groups import Groups
from pesn.readout.patches import Patches
from pesn.reservoir.layers import draw_layers
from pesn.reservoir.local import repeat
from pesn.reservoir.plasticity import Plasticity
from pesn.reservoir.pooling import POOLINGS
from pesn.reservoir.synaptic_plasticity import SynapticPlasticity
from pesn.reservoir.topology import Connections
from pesn.reservoir.weights import Reservoir, without_units

if TYPE_CHECKING:
    from pesn.esn.classifier import ReservoirClassifier
    from pesn.esn.probabilistic import ProbabilisticESN

__all__ = [
    "check_classifier",
    "check_network",
    "check_no_plasticity",
    "check_no_share",
    "check_probabilistic",
    "check_reservoir",
    "draw_reservoir",
    "generator",
    "groups_of",
]

_LARGEST = 1e100  # of a parameter that is squared and summed
_COVARIANCES = ("auto", "full", "low-rank", "diagonal", "ensemble")
_STARTS = ("learned", "stationary", "zero")


def check_reservoir(esn: ReservoirEstimator | ReservoirClassifier) -> None:
    """What says how the units are connected and tuned, and what is read of them; the numbers are checked where they are drawn."""
    if not isinstance(esn.features, Features):
        raise TypeError(f"features must be a pesn.Features, got {esn.features!r}")
    if isinstance(esn.topology, Connections):  # one that came from a file was not made by its constructor
        esn.topology.check("topology")
    if esn.plasticity is not None:
        if not isinstance(esn.plasticity, (Plasticity, SynapticPlasticity)):
            raise TypeError(f"plasticity must be None, a pesn.reservoir.Plasticity or SynapticPlasticity, got {esn.plasticity!r}")
        esn.plasticity.check("plasticity")


def check_network(esn: ReservoirEstimator) -> None:
    """What both networks have."""
    check_reservoir(esn)
    if esn.local is not None and not isinstance(esn.local, Patches):
        raise TypeError(f"local must be a pesn.Patches or None, got {esn.local!r}")
    if esn.local is not None and esn.plasticity is not None:
        raise ValueError("plasticity must be None where the network is local, whose patches have the same units, got both")
    if isinstance(esn.washout, str):
        if esn.washout != "auto":
            raise ValueError(f"washout must be a number of rows or 'auto', got {esn.washout!r}")
    else:
        whole_number("washout", esn.washout, 0)
    number("noise", esn.noise, 0.0, _LARGEST, "[]")
    _check_feedback(esn)
    _check_ridge(esn.ridge)
    number("forgetting", esn.forgetting, 0.0, 1.0, "(]")
    if esn.rls_delta is not None:
        number("rls_delta", esn.rls_delta, 1.0 / _LARGEST, _LARGEST, "[]")


def _check_feedback(esn: ReservoirEstimator) -> None:
    if not isinstance(esn.feedback, str) or esn.feedback not in ("teacher", "own"):
        raise ValueError(f"feedback must be 'teacher' or 'own', got {esn.feedback!r}")
    if esn.feedback == "own" and esn.local is not None:
        raise ValueError("feedback must be 'teacher' where the network is local, got 'own'")
    if esn.feedback == "own" and not np.any(esn.feedback_scaling):
        raise ValueError(f"feedback='own' needs a feedback_scaling above 0, got {esn.feedback_scaling!r}")
    if esn.feedback == "own" and isinstance(esn.ridge, (str, tuple)):
        raise ValueError(f"ridge must be a number with feedback='own', which learns row by row, got {esn.ridge!r}")
    if esn.feedback == "own" and esn.noise > 0.0:
        raise ValueError(f"noise must be 0 with feedback='own', whose own errors do what noise is for, got {esn.noise!r}")


def _check_ridge(ridge: Ridge) -> None:
    if isinstance(ridge, str) and ridge == "auto":
        return
    if isinstance(ridge, (str, list)) or (isinstance(ridge, tuple) and len(ridge) != 2):
        raise ValueError(f"ridge must be a number, a pair (linear, others) or 'auto', got {ridge!r}")
    for value in ridge if isinstance(ridge, tuple) else (ridge,):
        number("ridge", value, 0.0, _LARGEST, "[]")
        if 0.0 < value < 1.0 / _LARGEST:
            raise ValueError(f"ridge must be 0 or lie in [{1.0 / _LARGEST:g}, {_LARGEST:g}], got {ridge!r}")


def check_probabilistic(esn: ProbabilisticESN) -> None:
    """What the probabilistic network has, all that both have included."""
    check_network(esn)
    whole_number("rank", esn.rank, 1)
    whole_number("n_members", esn.n_members, 2)
    named_method("moments", esn.moments)
    if not isinstance(esn.covariance, str) or esn.covariance not in _COVARIANCES:
        raise ValueError(f"covariance must be one of {', '.join(map(repr, _COVARIANCES))}, got {esn.covariance!r}")
    start = esn.initial_state
    if not isinstance(start, Gaussian) and (not isinstance(start, str) or start not in _STARTS):
        kinds = f"one of {', '.join(map(repr, _STARTS))} or a pesn.Gaussian over the units"
        raise ValueError(f"initial_state must be {kinds}, got {start!r}")
    if isinstance(esn.process_noise, str):
        if esn.process_noise != "auto":
            raise ValueError(f"process_noise must be 'auto' or a number, 0 or more, got {esn.process_noise!r}")
    else:
        number("process_noise", esn.process_noise, 0.0, 1e6, "[]")


def check_classifier(classifier: ReservoirClassifier) -> None:
    """What the classifier has."""
    if not isinstance(classifier.states, str) or classifier.states not in POOLINGS:
        raise ValueError(f"states must be one of {', '.join(map(repr, POOLINGS))}, got {classifier.states!r}")
    check_reservoir(classifier)
    if isinstance(classifier.ridge, (str, tuple, list)) and classifier.ridge != "auto":
        raise ValueError(f"ridge must be a number or 'auto', got {classifier.ridge!r}")
    _check_ridge(classifier.ridge)
    flag("scale", classifier.scale)
    whole_number("washout", classifier.washout, 0)
    whole_number("rank", classifier.rank, 1)
    named_method("moments", classifier.moments)
    forms = [form for form in _COVARIANCES if form != "ensemble"]
    if not isinstance(classifier.covariance, str) or classifier.covariance not in forms:
        raise ValueError(f"covariance must be one of {', '.join(map(repr, forms))}, got {classifier.covariance!r}")


def check_no_plasticity(plasticity: Plasticity | SynapticPlasticity | None) -> None:
    """A ValueError where units that ``fit`` has not tuned are to be tuned: rows that arrive one by one are passed once."""
    if plasticity is not None:
        raise ValueError(f"plasticity must be None for partial_fit before fit, which passes its rows for it, got {plasticity!r}")


def check_no_share(process_noise: ProcessNoise) -> None:
    """A ValueError where a network that ``fit`` has not seen is to have process noise."""
    if process_noise not in ("auto", 0):
        raise ValueError(
            f"process_noise must be 0 or 'auto' before fit, which finds out what it is a share of, got {process_noise!r}"
        )


def generator(random_state: RandomState) -> np.random.Generator:
    """What a call draws from; an integer always gives the same numbers, a RandomState is moved on."""
    try:
        whole = isinstance(random_state, Integral)
        return np.random.default_rng(random_state if whole else check_random_state(random_state).randint(2**31 - 1))
    except (TypeError, ValueError):
        expected = "None, a whole number, 0 or more, or a RandomState"
        raise ValueError(f"random_state must be {expected}, got {random_state!r}") from None


def draw_reservoir(
    esn: ReservoirEstimator | ReservoirClassifier, n_inputs: int, n_outputs: int, rng: np.random.Generator,
    local: Patches | None = None,
) -> Reservoir:  # fmt: skip
    """The reservoir that a network's parameters ask for; one of no units where the readout does not see them."""
    if local is not None:
        local.check_field(n_inputs, n_outputs)
    if not esn.features.states:
        return without_units(n_inputs, n_outputs)
    sizes = n_inputs, n_outputs
    if local is not None:  # of a patch
        sizes = int(local.windows(n_outputs, n_inputs).shape[1]), local.size
    reservoir = draw_layers(
        esn.layers,
        *sizes,
        memory=esn.memory,
        n_units=esn.n_units,
        spectral_radius=esn.spectral_radius,
        leak_rate=esn.leak_rate,
        density=esn.density,
        input_scaling=esn.input_scaling,
        feedback_scaling=esn.feedback_scaling,
        bias_scaling=esn.bias_scaling,
        topology=esn.topology,
        activation=esn.activation,
        rng=rng,
    )
    return reservoir if local is None else repeat(reservoir, local, n_inputs, n_outputs)


def groups_of(esn: ReservoirEstimator) -> Groups | None:
    """Which features each output of a network sees whose reservoir is drawn; None: all of them."""
    if esn.local is None:
        return None
    r = esn.reservoir_
    return esn.local.groups(esn.features, r.n_inputs, r.n_outputs, r.n_units)
