"""What a network that came from a file must be: its records whole, of one size, and good for a prediction."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pesn._support.records import check_names
from pesn.esn.estimator import ReservoirEstimator
from pesn.esn.parameters import groups_of
from pesn.readout.groups import Groups
from pesn.reservoir.kept_states import state_shapes
from pesn.reservoir.pooling import POOLINGS

if TYPE_CHECKING:
    from pesn.esn.classifier import ReservoirClassifier

__all__ = ["check_classes_learnt", "check_learnt", "check_prediction"]


def check_learnt(esn: ReservoirEstimator, flat: bool) -> None:
    """A ValueError where a record is damaged or not of this network; ``flat``: whether it says that its y was (n,)."""
    reservoir = esn.reservoir_
    reservoir.check()
    n, d, m = reservoir.n_units, reservoir.n_inputs, reservoir.n_outputs
    esn.features.check("features", n)
    p = esn.features.size(d, n)
    esn.readout_.check("readout_", p, m, least=1 if esn.rls_ is None else 0)
    groups, size = esn.readout_.groups, (p, m)
    if esn.local is not None:
        esn.local.check("local")
    if groups is not None:
        size = groups.n_features, groups.n_outputs
    if (groups is None) != (esn.local is None) or (esn.local is not None and not _same(groups, groups_of(esn))):
        raise ValueError(f"readout_ is not one of local={esn.local!r}")
    if esn.rls_ is not None:
        esn.rls_.check("rls_", *size)
    esn.state_.check("state_", state_shapes(esn.state_, n, m, esn.features.n_earlier(d)))
    if (d, m) != (esn.n_features_in_, esn.n_outputs_) or (flat and m != 1):
        raise ValueError(f"its reservoir has {d} inputs and {m} outputs, not those that it says it was fitted to")
    check_names("feature_names_in_", getattr(esn, "feature_names_in_", None), d, "an array")


def _same(one: Groups | None, other: Groups | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shared == other.shared and all(np.array_equal(a, b) for a, b in zip(one[:2], other[:2], strict=True))


def check_prediction(esn: ReservoirEstimator, **options: bool) -> None:
    """A first call with ``options``, from its own state and from the start: what parameters and arrays do to each other."""
    row = np.zeros((1, esn.n_features_in_))
    _check_trial(esn, lambda trial: (trial.predict(row, state=trial.state_, **options), trial.predict(row, **options)))


def check_classes_learnt(classifier: ReservoirClassifier) -> None:
    """A ValueError where a classifier's record is damaged, not of this classifier, or no good for a prediction."""
    reservoir, classes = classifier.reservoir_, classifier.classes_
    reservoir.check()
    d = reservoir.n_inputs
    classifier.features.check("features", reservoir.n_units)
    if classifier.states_ not in POOLINGS or classifier.labels_ not in ("sequence", "row"):
        raise ValueError(f"states_ is {classifier.states_!r} and labels_ is {classifier.labels_!r}")
    if type(classes) is not np.ndarray or classes.ndim != 1 or len(classes) < 2 or len(np.unique(classes)) != len(classes):
        raise ValueError("classes_ is not an array of two labels or more, each once")
    if (d, reservoir.n_outputs) != (classifier.n_features_in_, 1):
        raise ValueError(f"its reservoir has {d} inputs, not those that it says it was fitted to")
    classifier.readout_.check("readout_", classifier.n_seen, len(classes))
    check_names("feature_names_in_", getattr(classifier, "feature_names_in_", None), d, "an array")
    _check_trial(classifier, lambda trial: trial.predict_proba(np.zeros((classifier.washout_ + 1, d))))


def _check_trial(model: Any, predict: Callable[[Any], npt.ArrayLike]) -> None:
    """A ValueError unless what it predicts is finite; ``model`` itself is left alone."""
    trial = copy.copy(model)
    trial.random_state = 0  # a RandomState would be moved on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows without names
        found = predict(trial)
    if not np.isfinite(found).all():
        raise ValueError("a trial prediction is not finite")
