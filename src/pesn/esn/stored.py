"""What a network that came from a file must be: its records whole, of one size, and good for a prediction."""

from __future__ import annotations

import copy
import warnings

import numpy as np

from pesn._support.records import check_names
from pesn.esn.estimator import ReservoirEstimator
from pesn.reservoir.kept_states import state_shapes

__all__ = ["check_learnt", "check_prediction"]


def check_learnt(esn: ReservoirEstimator, flat: bool) -> None:
    """A ValueError where a record is damaged or not of this network; ``flat``: whether it says that its y was (n,)."""
    reservoir = esn.reservoir_
    reservoir.check()
    n, d, m = reservoir.n_units, reservoir.n_inputs, reservoir.n_outputs
    esn.features.check("features", n)
    p = esn.features.size(d, n)
    esn.readout_.check("readout_", p, m, least=1 if esn.rls_ is None else 0)
    if esn.rls_ is not None:
        esn.rls_.check("rls_", p, m)
    esn.state_.check("state_", state_shapes(esn.state_, n, m, esn.features.n_earlier(d)))
    if (d, m) != (esn.n_features_in_, esn.n_outputs_) or (flat and m != 1):
        raise ValueError(f"its reservoir has {d} inputs and {m} outputs, not those that it says it was fitted to")
    check_names("feature_names_in_", getattr(esn, "feature_names_in_", None), d, "an array")


def check_prediction(esn: ReservoirEstimator) -> None:
    """A first call, from its own state and from the start: what parameters and arrays do to each other."""
    trial = copy.copy(esn)
    trial.random_state = 0  # a RandomState would be moved on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows without names
        row = np.zeros((1, trial.n_features_in_))
        outputs = trial.predict(row, state=trial.state_), trial.predict(row)
    if not np.isfinite(outputs).all():
        raise ValueError("a trial prediction is not finite")
