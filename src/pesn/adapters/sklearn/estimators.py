"""Fitted predictors: networks and linear models, alone, averaged, stacked or searched for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.ensemble import BaggingRegressor, StackingRegressor, VotingRegressor
from sklearn.feature_selection import RFE, RFECV
from sklearn.linear_model import GammaRegressor, PoissonRegressor, RANSACRegressor, TweedieRegressor
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline

from pesn.activations import names
from pesn.adapters.sklearn.expression import Value, beside, summed
from pesn.adapters.sklearn.rows import labelled
from pesn.adapters.sklearn.transformers import below, check_fitted, check_taken, described, inverted, transformed

__all__ = ["expression", "predicted"]

_WITH_A_LINK = (PoissonRegressor, GammaRegressor, TweedieRegressor)
_LINEAR = ("sklearn.linear_model", "sklearn.svm")
_SEARCHES = "sklearn.model_selection._search"  # by module, as the halving ones are imported by those who ask for experiments


def expression(estimator: BaseEstimator) -> Value:
    """What a fitted estimator makes of its input: predictions, logits of an MLPClassifier, features of a transformer.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Where a part is not fitted.
    TypeError, ValueError
        Where a part has no closed form; the message names the part and its place.
    """
    width = _inputs(estimator)
    if width is None and type(estimator) is not Pipeline:
        raise TypeError(f"network must know how many features it takes (n_features_in_), got {described(estimator)}")
    if width is None:
        raise ValueError(f"network must be a fitted estimator, got a {described(estimator)} whose steps do nothing")
    return predicted(estimator, Value.input(width), "network")


def _inputs(estimator: Any) -> int | None:
    """How many numbers it takes; None where nothing in it knows."""
    if type(estimator) is Pipeline:
        parts = (part for _, part in estimator.steps if part is not None and part != "passthrough")
        return next((width for width in map(_inputs, parts) if width is not None), None)
    if type(estimator).__module__.startswith(_SEARCHES):
        return _inputs(_best(estimator, "network"))
    if getattr(estimator, "prefit", False):
        return _inputs(estimator.estimator)
    check_fitted(estimator)
    width: int | None = getattr(estimator, "n_features_in_", None)
    inner = getattr(estimator, "regressor_", None)
    return width if width is not None or inner is None else _inputs(inner)


def predicted(estimator: Any, value: Value, place: str) -> Value:
    """What ``predict`` makes of ``value``, or ``transform`` where there is no prediction."""
    kind = type(estimator)
    if kind is Pipeline:
        *steps, (last, final) = estimator.steps
        for name, step in steps:
            value = transformed(step, value, below(place, f"step {name!r}"))
        return predicted(final, value, below(place, f"step {last!r}"))
    if type(estimator).__module__.startswith(_SEARCHES):
        return predicted(_best(estimator, place), value, below(place, "best_estimator_"))
    if not hasattr(estimator, "predict"):
        return transformed(estimator, value, place)
    read = _KNOWN.get(kind)
    if kind.__module__.startswith(_LINEAR) and is_regressor(estimator) and kind not in (*_KNOWN, *_WITH_A_LINK):
        check_fitted(estimator)
        read = _linear if hasattr(estimator, "coef_") else None  # of an SVR with a linear kernel, too
    if read is None:
        raise TypeError(
            f"{place} must be a linear regressor, one of {', '.join(k.__name__ for k in _KNOWN)}, a search or a Pipeline, "
            f"got {described(estimator)}; propagate does not know what it does to a Gaussian"
        )
    check_fitted(estimator)
    check_taken(estimator, value, place)
    return read(estimator, value, place)


# ---------------------------------------------------------------- one kind each


def _mlp(estimator: BaseEstimator, value: Value, place: str) -> Value:
    if type(estimator) is MLPRegressor and estimator.out_activation_ != "identity":
        raise ValueError(
            f"{place}, an MLPRegressor with loss={estimator.loss!r}, ends in {estimator.out_activation_!r}, which is none of "
            f"the activations {', '.join(names())}; fit it with loss='squared_error'"
        )
    last = len(estimator.coefs_) - 1
    for i, (W, b) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        value = value.mapped(W.T, b).activated("identity" if i == last else estimator.activation)
    return value


def _linear(estimator: BaseEstimator, value: Value, place: str) -> Value:
    W = estimator.coef_.toarray() if sparse.issparse(estimator.coef_) else estimator.coef_
    W = np.atleast_2d(W)
    return value.mapped(W, np.broadcast_to(np.asarray(estimator.intercept_, W.dtype), len(W)))


def _pls(estimator: BaseEstimator, value: Value, place: str) -> Value:
    W = np.atleast_2d(estimator.coef_)
    return value.mapped(W, estimator.predict(labelled(estimator, np.zeros((1, W.shape[1])))).ravel())


def _best(search: BaseEstimator, place: str) -> BaseEstimator:
    if not search.refit:
        raise ValueError(
            f"{place}, a {described(search)} with refit=False, keeps no fitted estimator; "
            "fit it with refit=True, or give the estimator itself, fitted with best_params_"
        )
    check_fitted(search)
    return search.best_estimator_


def _target(estimator: BaseEstimator, value: Value, place: str) -> Value:
    value = predicted(estimator.regressor_, value, below(place, "regressor_"))
    return inverted(estimator.transformer_, value, below(place, "transformer_"))


def _chosen(estimator: BaseEstimator, value: Value, place: str) -> Value:
    """RFE predicts, too: by its estimator, of the features that are left."""
    return predicted(estimator.estimator_, value.picked(estimator.get_support()), below(place, "estimator_"))


def _consensus(estimator: BaseEstimator, value: Value, place: str) -> Value:
    return predicted(estimator.estimator_, value, below(place, "estimator_"))


def _bagging(estimator: BaseEstimator, value: Value, place: str) -> Value:
    pairs = zip(estimator.estimators_, estimator.estimators_features_, strict=True)
    members = [
        predicted(one, value.picked(np.asarray(columns)), below(place, f"estimators_[{i}]"))
        for i, (one, columns) in enumerate(pairs)
    ]
    return summed(members, [1.0 / len(members)] * len(members))


def _voting(estimator: BaseEstimator, value: Value, place: str) -> Value:
    weights = np.ones(len(estimator.estimators)) if estimator.weights is None else estimator.weights
    kept = [(name, float(w)) for (name, one), w in zip(estimator.estimators, weights, strict=True) if one != "drop"]
    members = [
        predicted(one, value, below(place, f"estimator {name!r}"))
        for one, (name, _) in zip(estimator.estimators_, kept, strict=True)
    ]
    total = sum(weight for _, weight in kept)
    return summed(members, [weight / total for _, weight in kept])


def _stacking(estimator: BaseEstimator, value: Value, place: str) -> Value:
    members = [predicted(one, value, below(place, f"estimators_[{i}]")) for i, one in enumerate(estimator.estimators_)]
    meta = beside([*members, value] if estimator.passthrough else members)
    return predicted(estimator.final_estimator_, meta, below(place, "final_estimator_"))


def _each(estimator: BaseEstimator, value: Value, place: str) -> Value:
    """An estimator for each output."""
    return beside([predicted(one, value, below(place, f"estimators_[{i}]")) for i, one in enumerate(estimator.estimators_)])


def _chain(estimator: BaseEstimator, value: Value, place: str) -> Value:
    """Each output is an input of the next."""
    seen, found = value, []
    for i, one in enumerate(estimator.estimators_):
        found.append(predicted(one, seen, below(place, f"estimators_[{i}]")))
        seen = beside([seen, found[-1]])
    return beside(found).picked(np.argsort(estimator.order_))


_KNOWN: dict[type, Callable[[BaseEstimator, Value, str], Value]] = {
    MLPRegressor: _mlp,
    MLPClassifier: _mlp,
    PLSRegression: _pls,
    TransformedTargetRegressor: _target,
    BaggingRegressor: _bagging,
    VotingRegressor: _voting,
    StackingRegressor: _stacking,
    MultiOutputRegressor: _each,
    RegressorChain: _chain,
    RANSACRegressor: _consensus,
    RFE: _chosen,
    RFECV: _chosen,
}
