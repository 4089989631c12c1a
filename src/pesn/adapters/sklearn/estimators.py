"""Fitted estimators as layers: scalers, projections, linear models and networks, nested in pipelines, searches and ensembles."""

from __future__ import annotations

import warnings
from collections import UserList
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, is_regressor
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, FactorAnalysis, FastICA, IncrementalPCA, TruncatedSVD
from sklearn.ensemble import BaggingRegressor, StackingRegressor, VotingRegressor
from sklearn.feature_selection import RFE, RFECV, SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.linear_model import GammaRegressor, PoissonRegressor, RANSACRegressor, TweedieRegressor
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils.validation import check_is_fitted

from pesn._support.types import AnyArray, FloatArray
from pesn.activations import get, names
from pesn.networks.layers import AffineRows, Dense, Tape


def join_features(tape: Tape, values: Sequence[AffineRows]) -> AffineRows:
    """Return all features of affine tensors (1 + units, features), in order."""
    arrays, blocks = tape.align(values)
    return AffineRows(np.concatenate(arrays, axis=1), blocks)


def add_features(tape: Tape, values: Sequence[AffineRows], weights: Sequence[float]) -> AffineRows:
    """Return Σ weights_k · values_k."""
    arrays, blocks = tape.align(values)
    return AffineRows(np.tensordot(np.asarray(weights, float), np.stack(arrays), 1), blocks)


ReadFunction: TypeAlias = Callable[[Tape, BaseEstimator, AffineRows, str], AffineRows]


def pick(value: AffineRows, columns: AnyArray) -> AffineRows:
    """Return some features, by index or mask."""
    return AffineRows(value.values[:, columns], value.blocks)


def n_features(value: AffineRows) -> int:
    """Return the number of features."""
    return value.values.shape[1]


_AFFINE = (
    StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA, IncrementalPCA, TruncatedSVD, FastICA,
    GaussianRandomProjection, SparseRandomProjection, NeighborhoodComponentsAnalysis, FactorAnalysis, SimpleImputer,
)  # fmt: skip
_INVERTIBLE = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA, Pipeline)
_PRODUCTS = 2048  # of two units each, whose covariance is kept
_STEP = 2.0**40  # of a unit, by which slopes are read: so large that offsets do not cost digits


def map_affinely(estimator: BaseEstimator, method: str, value: AffineRows) -> AffineRows:
    """Apply a method of an estimator that is affine, at the offset and one step along each column."""
    rows = np.vstack([value.values[:1], value.values[:1] + _STEP * value.values[1:]])
    named = rows if method == "inverse_transform" else add_feature_names(estimator, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about columns without values in training
        out = getattr(estimator, method)(named)
    found = np.asarray(out.toarray() if sparse.issparse(out) else out, float).reshape(len(rows), -1)
    return AffineRows(np.vstack([found[:1], (found[1:] - found[:1]) / _STEP]), value.blocks)


def apply_transform(tape: Tape, step: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    """Return what a transformer makes of affine features; an error names its place where it is not known."""
    kind = type(step)
    if is_passthrough(step) or (kind is FunctionTransformer and step.func is None):
        return value
    if kind is Pipeline:
        for name, part in step.steps:
            value = apply_transform(tape, part, value, join_place(place, f"step {name!r}"))
        return value
    check_transformer(step, place)
    check_feature_count(step, value, place)
    if kind in _TRANSFORMERS:
        return _TRANSFORMERS[kind](tape, step, value, place)
    return map_affinely(step, "transform", value) if kind in _AFFINE else pick(value, step.get_support())


def check_transformer(step: BaseEstimator, place: str) -> None:
    """Refuse a transformer that is not known, not fitted or not affine."""
    kind = type(step)
    if kind not in (*_AFFINE, *_TRANSFORMERS) and not (is_own(step) and isinstance(step, SelectorMixin)):
        known = ", ".join(k.__name__ for k in (*_AFFINE, *_TRANSFORMERS, Pipeline))
        raise TypeError(
            f"{place} must be one of {known}, 'passthrough' or a feature selection, got {describe(step)}; propagate does not "
            "know what it does to a Gaussian"
        )
    if kind is not FeatureUnion and not getattr(step, "prefit", False):
        require_fit(step)
    if getattr(step, "clip", False):
        raise ValueError(f"{place}, a {describe(step)} with clip=True, is not affine; fit it with clip=False")
    if kind is SimpleImputer and not pd.isna(step.missing_values):
        raise ValueError(
            f"{place}, a SimpleImputer with missing_values={step.missing_values!r}, replaces a number; missing_values must be NaN"
        )


def apply_inverse(step: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    """Return what ``inverse_transform`` makes of ``value``, which is how a predicted target is scaled back."""
    kind = type(step)
    # Without inverse_func it is the identity; a TransformedTargetRegressor without a transformer has such a one.
    if is_passthrough(step) or (kind is FunctionTransformer and step.inverse_func is None):
        return value
    if kind is Pipeline:
        for name, part in reversed(step.steps):
            value = apply_inverse(part, value, join_place(place, f"step {name!r}"))
        return value
    if kind is FunctionTransformer:
        raise ValueError(
            f"{place} applies inverse_func={getattr(step.inverse_func, '__name__', step.inverse_func)!r}, "
            "which is not known to be affine; use an affine transformer=, such as StandardScaler(), "
            "or propagate through regressor_ and transform its Gaussian yourself"
        )
    if kind not in _INVERTIBLE:
        raise TypeError(
            f"{place} must be one of {', '.join(k.__name__ for k in _INVERTIBLE)} or 'passthrough', got {describe(step)}; "
            "propagate does not know what its inverse does to a Gaussian"
        )
    require_fit(step)
    return map_affinely(step, "inverse_transform", value)


# ---------------------------------------------------------------- transformers that are not affine, one kind each


def _polynomial(tape: Tape, step: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    powers = step.powers_
    degree = powers.sum(axis=1)
    if degree.max() > 2:
        raise ValueError(f"{place}, PolynomialFeatures of degree {degree.max()}, has a closed form up to degree 2")
    pairs = np.flatnonzero(degree == 2)
    if len(pairs) > _PRODUCTS:
        raise ValueError(f"{place}, PolynomialFeatures with {len(pairs)} products, has a closed form up to {_PRODUCTS}")
    parts, places = [AffineRows(np.ones((1, (degree == 0).sum())), ())], [np.flatnonzero(degree == 0)]
    parts.append(pick(value, powers[degree == 1].argmax(axis=1)))
    places.append(np.flatnonzero(degree == 1))
    if len(pairs):
        first = powers[pairs].argmax(axis=1)
        rest = powers[pairs].copy()
        rest[np.arange(len(pairs)), first] -= 1
        second = rest.argmax(axis=1)
        product = tape.multiply(pick(value, first), pick(value, second))
        if product is None:
            raise ValueError(f"{place}, PolynomialFeatures behind units, has no closed form")
        parts.append(product)
        places.append(pairs)
    return pick(join_features(tape, parts), np.argsort(np.concatenate(places)))


def _columns(tape: Tape, step: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    """Apply the parts of a ColumnTransformer to their columns, side by side."""
    labels = getattr(step, "feature_names_in_", None)
    parts = [(name, part, _indices(columns, n_features(value), labels)) for name, part, columns in step.transformers_]
    return _side_by_side(tape, step, [(name, part, pick(value, chosen)) for name, part, chosen in parts if len(chosen)], place)


def _union(tape: Tape, step: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    """Apply all parts of a FeatureUnion to all columns, side by side."""
    return _side_by_side(tape, step, [(name, part, value) for name, part in step.transformer_list], place)


def _side_by_side(
    tape: Tape, step: BaseEstimator, parts: Sequence[tuple[str, BaseEstimator, AffineRows]], place: str
) -> AffineRows:
    weights = step.transformer_weights or {}
    made = [
        (name, apply_transform(tape, part, value, join_place(place, f"transformer {name!r}")))
        for name, part, value in parts
        if not (isinstance(part, str) and part == "drop")
    ]
    if not made:
        raise ValueError(f"{place}, a {describe(step)}, drops everything")
    return join_features(tape, [AffineRows(weights.get(name, 1) * one.values, one.blocks) for name, one in made])


def _indices(columns: Any, width: int, names: AnyArray | None) -> AnyArray:
    """Return the indices of the columns of a fitted ColumnTransformer: numbers, a slice, a mask or names."""
    every = pd.Series(np.arange(width), index=names)
    columns = columns.data if isinstance(columns, UserList) else columns  # a remainder, which warns when it is read
    if isinstance(columns, slice):
        return (every.loc if isinstance(columns.start, str) or isinstance(columns.stop, str) else every.iloc)[columns].to_numpy()
    chosen = [columns] if isinstance(columns, str) else list(np.atleast_1d(columns))
    if not chosen:
        return np.zeros(0, int)
    return (every.loc if isinstance(chosen[0], str) else every.iloc)[chosen].to_numpy()


_TRANSFORMERS: dict[type, ReadFunction] = {
    PolynomialFeatures: _polynomial,
    ColumnTransformer: _columns,
    FeatureUnion: _union,
}


# ---------------------------------------------------------------- names and checks


def join_place(place: str, name: str) -> str:
    """Return the place of a part, for messages."""
    return name if place == "network" else f"{place}, {name}"


def is_passthrough(step: object) -> bool:
    """Return whether a step of a pipeline leaves the rows as they are."""
    return step is None or (isinstance(step, str) and step == "passthrough")


def require_fit(estimator: BaseEstimator) -> None:
    """Raise scikit-learn's NotFittedError; its own check is slow, and asked only where no attribute ends in an underscore."""
    if not any(name.endswith("_") and not name.startswith("__") for name in vars(estimator)):
        check_is_fitted(estimator)


def check_feature_count(estimator: BaseEstimator, value: AffineRows, place: str) -> None:
    """Check that an estimator takes as many features as the step before it gives."""
    taken = getattr(estimator, "n_features_in_", n_features(value))
    if taken != n_features(value):
        raise ValueError(
            f"{place}, a {describe(estimator)}, takes {taken} numbers, but the step before it gives {n_features(value)}"
        )


def add_feature_names(estimator: BaseEstimator, rows: FloatArray) -> FloatArray | pd.DataFrame:
    """Return rows (n, d) with the feature names that the estimator was fitted with."""
    names = getattr(estimator, "feature_names_in_", None)
    return rows if names is None or len(names) != rows.shape[1] else pd.DataFrame(rows, columns=names)


def is_own(estimator: object) -> bool:
    """Return whether a class is scikit-learn's: a subclass of a user may compute something else."""
    return type(estimator).__module__.partition(".")[0] == "sklearn"


def describe(estimator: object) -> str:
    """Return the class of an estimator, for messages."""
    kind = type(estimator)
    ours = kind.__module__.partition(".")[0] in ("sklearn", "builtins")
    return kind.__name__ if ours else f"{kind.__module__}.{kind.__qualname__}"


_WITH_A_LINK = (PoissonRegressor, GammaRegressor, TweedieRegressor)
_LINEAR = ("sklearn.linear_model", "sklearn.svm")
_SEARCHES = "sklearn.model_selection._search"  # by module, as the halving searches are experimental imports


def read_layers(estimator: BaseEstimator) -> list[Dense]:
    """Return a fitted estimator as layers: predictions, logits of an MLPClassifier, features of a transformer.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Where a part is not fitted.
    TypeError, ValueError
        Where a part has no closed form; the message names the part and its place.
    """
    width = input_width(estimator)
    if width is None and type(estimator) is not Pipeline:
        raise TypeError(f"network must know how many features it takes (n_features_in_), got {describe(estimator)}")
    if width is None:
        raise ValueError(f"network must be a fitted estimator, got a {describe(estimator)} whose steps do nothing")
    tape = Tape(width)
    return tape.layers([apply_predict(tape, estimator, tape.input(), "network")])


def input_width(estimator: BaseEstimator) -> int | None:
    """Return how many numbers an estimator takes; None where nothing in it knows."""
    if type(estimator) is Pipeline:
        parts = (part for _, part in estimator.steps if part is not None and part != "passthrough")
        return next((width for width in map(input_width, parts) if width is not None), None)
    if type(estimator).__module__.startswith(_SEARCHES):
        return input_width(_best(estimator, "network"))
    if getattr(estimator, "prefit", False):
        return input_width(estimator.estimator)
    require_fit(estimator)
    width: int | None = getattr(estimator, "n_features_in_", None)
    inner = getattr(estimator, "regressor_", None)
    return width if width is not None or inner is None else input_width(inner)


def apply_predict(tape: Tape, estimator: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    """Return what ``predict`` makes of ``value``, or ``transform`` where there is no ``predict``."""
    kind = type(estimator)
    if kind is Pipeline:
        *steps, (last, final) = estimator.steps
        for name, step in steps:
            value = apply_transform(tape, step, value, join_place(place, f"step {name!r}"))
        return apply_predict(tape, final, value, join_place(place, f"step {last!r}"))
    if type(estimator).__module__.startswith(_SEARCHES):
        return apply_predict(tape, _best(estimator, place), value, join_place(place, "best_estimator_"))
    if not hasattr(estimator, "predict"):
        return apply_transform(tape, estimator, value, place)
    read = _find_predictor(estimator)
    if read is None:
        raise TypeError(
            f"{place} must be a linear regressor, one of {', '.join(k.__name__ for k in _PREDICTORS)}, a search or a Pipeline, "
            f"got {describe(estimator)}; propagate does not know what it does to a Gaussian"
        )
    require_fit(estimator)
    check_feature_count(estimator, value, place)
    return read(tape, estimator, value, place)


def _find_predictor(estimator: BaseEstimator) -> ReadFunction | None:
    """Return the function that reads a kind of regressor; None where it is not known."""
    kind = type(estimator)
    is_linear = kind.__module__.startswith(_LINEAR) and is_regressor(estimator) and kind not in _WITH_A_LINK
    if not is_linear or kind in _PREDICTORS:
        return _PREDICTORS.get(kind)
    require_fit(estimator)
    return _affine if hasattr(estimator, "coef_") else None  # an SVR with a linear kernel has one, too


# ---------------------------------------------------------------- predictors, one kind each


def _mlp(tape: Tape, estimator: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    if type(estimator) is MLPRegressor and estimator.out_activation_ != "identity":
        raise ValueError(
            f"{place}, an MLPRegressor with loss={estimator.loss!r}, ends in {estimator.out_activation_!r}, which is none of "
            f"the activations {', '.join(names())}; fit it with loss='squared_error'"
        )
    last = len(estimator.coefs_) - 1
    for i, (W, b) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        values = value.values @ W
        values[0] += b
        value = AffineRows(values, value.blocks)
        if i < last and estimator.activation != "identity":
            value = tape.add_stage(value, get(estimator.activation))
    return value


def _affine(tape: Tape, estimator: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    return map_affinely(estimator, "predict", value)


def _best(search: BaseEstimator, place: str) -> BaseEstimator:
    if not search.refit:
        raise ValueError(
            f"{place}, a {describe(search)} with refit=False, keeps no fitted estimator; "
            "fit it with refit=True, or give the estimator itself, fitted with best_params_"
        )
    require_fit(search)
    return search.best_estimator_


def _target(tape: Tape, estimator: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    value = apply_predict(tape, estimator.regressor_, value, join_place(place, "regressor_"))
    return apply_inverse(estimator.transformer_, value, join_place(place, "transformer_"))


def _inner_estimator(tape: Tape, estimator: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    """Predict by the inner estimator: of RFE from the features that are left, of RANSAC from all."""
    chosen = pick(value, estimator.get_support()) if isinstance(estimator, SelectorMixin) else value
    return apply_predict(tape, estimator.estimator_, chosen, join_place(place, "estimator_"))


def _predict_members(
    tape: Tape, estimator: BaseEstimator, values: Sequence[AffineRows] | AffineRows, place: str
) -> list[AffineRows]:
    """Return what each of its estimators predicts, of one value or of one each."""
    each = values if isinstance(values, Sequence) else [values] * len(estimator.estimators_)
    found = enumerate(zip(estimator.estimators_, each, strict=True))
    return [apply_predict(tape, one, value, join_place(place, f"estimators_[{i}]")) for i, (one, value) in found]


def _bagging(tape: Tape, estimator: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    each = [pick(value, np.asarray(columns)) for columns in estimator.estimators_features_]
    members = _predict_members(tape, estimator, each, place)
    return add_features(tape, members, [1.0 / len(members)] * len(members))


def _voting(tape: Tape, estimator: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    weights = np.ones(len(estimator.estimators)) if estimator.weights is None else estimator.weights
    kept = [(name, float(w)) for (name, one), w in zip(estimator.estimators, weights, strict=True) if one != "drop"]
    members = [
        apply_predict(tape, one, value, join_place(place, f"estimator {name!r}"))
        for one, (name, _) in zip(estimator.estimators_, kept, strict=True)
    ]
    total = sum(weight for _, weight in kept)
    return add_features(tape, members, [weight / total for _, weight in kept])


def _stacking(tape: Tape, estimator: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    members = _predict_members(tape, estimator, value, place)
    meta = join_features(tape, [*members, value] if estimator.passthrough else members)
    return apply_predict(tape, estimator.final_estimator_, meta, join_place(place, "final_estimator_"))


def _each(tape: Tape, estimator: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    """Predict each output by an estimator of its own."""
    return join_features(tape, _predict_members(tape, estimator, value, place))


def _chain(tape: Tape, estimator: BaseEstimator, value: AffineRows, place: str) -> AffineRows:
    """Predict each output with the outputs before it as further features."""
    seen, found = value, []
    for i, one in enumerate(estimator.estimators_):
        found.append(apply_predict(tape, one, seen, join_place(place, f"estimators_[{i}]")))
        seen = join_features(tape, [seen, found[-1]])
    return pick(join_features(tape, found), np.argsort(estimator.order_))


_PREDICTORS: dict[type, ReadFunction] = {
    MLPRegressor: _mlp,
    MLPClassifier: _mlp,
    PLSRegression: _affine,
    TransformedTargetRegressor: _target,
    BaggingRegressor: _bagging,
    VotingRegressor: _voting,
    StackingRegressor: _stacking,
    MultiOutputRegressor: _each,
    RegressorChain: _chain,
    RANSACRegressor: _inner_estimator,
    RFE: _inner_estimator,
    RFECV: _inner_estimator,
}
