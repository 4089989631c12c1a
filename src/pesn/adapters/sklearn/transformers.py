"""Fitted transformers that are affine, choose columns or multiply them, and the ways they are put together."""

from __future__ import annotations

from collections import UserList
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, FactorAnalysis, FastICA, IncrementalPCA, TruncatedSVD
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.neighbors import NeighborhoodComponentsAnalysis
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

from pesn._support.types import AnyArray
from pesn.adapters.sklearn.expression import Value, beside, product

__all__ = ["below", "check_fitted", "check_taken", "described", "inverted", "is_own", "transformed"]

_SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
_INVERTIBLE = (*_SCALERS, PCA, Pipeline)
_PRODUCTS = 2048  # more, with the two columns of each, no covariance is kept of


def transformed(step: Any, value: Value, place: str) -> Value:
    """What the transformer ``step`` makes of ``value``; a TypeError or ValueError that names ``place`` where it is not known."""
    kind = type(step)
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return value
    if kind is Pipeline:
        for name, part in step.steps:
            value = transformed(part, value, below(place, f"step {name!r}"))
        return value
    if kind is FunctionTransformer and step.func is None:
        return value
    read = _KNOWN.get(kind)
    if read is None and is_own(step) and isinstance(step, SelectorMixin):
        read = _selected
    if read is None:
        raise TypeError(
            f"{place} must be one of {', '.join(k.__name__ for k in (*_KNOWN, Pipeline))}, 'passthrough' or a feature selection, "
            f"got {described(step)}; propagate does not know what it does to a Gaussian"
        )
    if kind is not FeatureUnion and not getattr(step, "prefit", False):
        check_fitted(step)
    check_taken(step, value, place)
    return read(step, value, place)


def inverted(step: Any, value: Value, place: str) -> Value:
    """What its ``inverse_transform`` makes of ``value``, which is how a predicted target is scaled back."""
    kind = type(step)
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return value
    if kind is Pipeline:
        for name, part in reversed(step.steps):
            value = inverted(part, value, below(place, f"step {name!r}"))
        return value
    if kind is FunctionTransformer:
        if step.inverse_func is None:  # the identity, also what a TransformedTargetRegressor without a transformer keeps
            return value
        raise ValueError(
            f"{place} applies inverse_func={getattr(step.inverse_func, '__name__', step.inverse_func)!r}, "
            "which is not known to be affine; use an affine transformer=, such as StandardScaler(), "
            "or propagate through regressor_ and transform its Gaussian yourself"
        )
    if kind not in _INVERTIBLE:
        raise TypeError(
            f"{place} must be one of {', '.join(k.__name__ for k in _INVERTIBLE)} or 'passthrough', got {described(step)}; "
            "propagate does not know what its inverse does to a Gaussian"
        )
    check_fitted(step)
    if kind is PCA:
        components = step.components_ * np.sqrt(step.explained_variance_)[:, None] if step.whiten else step.components_
        return value.mapped(components.T, step.mean_)
    if kind is MinMaxScaler:
        return value.scaled(1.0 / step.scale_, -step.min_ / step.scale_)
    return value.scaled(*_centre_and_scale(step)[::-1])


# ---------------------------------------------------------------- one kind each


def _scaler(scaler: BaseEstimator, value: Value, place: str) -> Value:
    """gain · v + offset. Constant features have scale_ 1 already."""
    if getattr(scaler, "clip", False):
        raise ValueError(f"{place}, a {described(scaler)} with clip=True, is not affine; fit it with clip=False")
    if type(scaler) is MinMaxScaler:
        return value.scaled(scaler.scale_, scaler.min_)
    centre, scale = _centre_and_scale(scaler)
    return value.scaled(1.0 / scale, -centre / scale)


def _centre_and_scale(scaler: BaseEstimator) -> tuple[AnyArray, AnyArray]:
    kind, none, one = type(scaler), np.zeros(scaler.n_features_in_), np.ones(scaler.n_features_in_)
    if kind is StandardScaler:
        return scaler.mean_ if scaler.with_mean else none, scaler.scale_ if scaler.with_std else one
    if kind is RobustScaler:
        return scaler.center_ if scaler.with_centering else none, scaler.scale_ if scaler.with_scaling else one
    return none, scaler.scale_


def _pca(pca: BaseEstimator, value: Value, place: str) -> Value:
    # As scikit-learn does it: a scale of 0 becomes the smallest that can be divided by.
    scale = np.sqrt(pca.explained_variance_) if pca.whiten else np.ones(len(pca.components_), pca.components_.dtype)
    W = pca.components_ / np.maximum(scale, np.finfo(scale.dtype).eps)[:, None]
    return value.mapped(W, -W @ pca.mean_)


def _components(step: BaseEstimator, value: Value, place: str) -> Value:
    W = step.components_
    W = W.toarray() if sparse.issparse(W) else W
    mean = step.mean_ if type(step) is FastICA and step.whiten else None
    return value.mapped(W, 0.0 if mean is None else -W @ mean)


def _factors(step: BaseEstimator, value: Value, place: str) -> Value:
    """The posterior mean of the factors, (I + C N⁻¹ Cᵀ)⁻¹ C N⁻¹ (x − mean)."""
    weighted = step.components_ / step.noise_variance_
    W = np.linalg.solve(np.eye(len(weighted)) + weighted @ step.components_.T, weighted)
    return value.mapped(W, -W @ step.mean_)


def _selected(step: BaseEstimator, value: Value, place: str) -> Value:
    return value.picked(step.get_support())


def _imputed(step: BaseEstimator, value: Value, place: str) -> Value:
    """Of a row without gaps: the row, but for columns that had nothing in training, and indicators that say so."""
    if not pd.isna(step.missing_values):
        raise ValueError(
            f"{place}, a SimpleImputer with missing_values={step.missing_values!r}, replaces a number; missing_values must be NaN"
        )
    gone = np.array([isinstance(one, float) and np.isnan(one) for one in step.statistics_], bool)
    kept = value.picked(np.flatnonzero(~gone | step.keep_empty_features))
    if not step.add_indicator:
        return kept
    none = np.zeros(len(step.indicator_.features_), np.int8)
    return beside([kept, Value({}, none)])


def _polynomial(step: BaseEstimator, value: Value, place: str) -> Value:
    powers = step.powers_
    degree = powers.sum(axis=1)
    if degree.max() > 2:
        raise ValueError(f"{place}, PolynomialFeatures of degree {degree.max()}, has a closed form up to degree 2")
    pairs = np.flatnonzero(degree == 2)
    if len(pairs) > _PRODUCTS:
        raise ValueError(f"{place}, PolynomialFeatures with {len(pairs)} products, has a closed form up to {_PRODUCTS}")
    parts, places = [Value({}, np.ones((degree == 0).sum(), np.int8))], [np.flatnonzero(degree == 0)]
    parts.append(value.picked(powers[degree == 1].argmax(axis=1)))
    places.append(np.flatnonzero(degree == 1))
    if len(pairs):
        first = powers[pairs].argmax(axis=1)
        rest = powers[pairs].copy()
        rest[np.arange(len(pairs)), first] -= 1
        parts.append(product(value.picked(first), value.picked(rest.argmax(axis=1))))
        places.append(pairs)
    return beside(parts).picked(np.argsort(np.concatenate(places)))


def _columns(step: BaseEstimator, value: Value, place: str) -> Value:
    """ColumnTransformer: its parts on their columns, side by side."""
    weights = step.transformer_weights or {}
    parts = []
    for name, part, columns in step.transformers_:
        chosen = _indices(columns, len(value), getattr(step, "feature_names_in_", None))
        if len(chosen) and not (isinstance(part, str) and part == "drop"):
            made = transformed(part, value.picked(chosen), below(place, f"transformer {name!r}"))
            parts.append(made if name not in weights else made.scaled(np.full(len(made), weights[name])))
    if not parts:
        raise ValueError(f"{place}, a ColumnTransformer, drops every column")
    return beside(parts)


def _indices(columns: Any, width: int, names: AnyArray | None) -> AnyArray:
    """Columns as a ColumnTransformer knows them once it is fitted: numbers, a slice, a mask or names."""
    every = pd.Series(np.arange(width), index=names)
    columns = columns.data if isinstance(columns, UserList) else columns  # a remainder that warns of being looked at
    if isinstance(columns, slice):
        return (every.loc if isinstance(columns.start, str) or isinstance(columns.stop, str) else every.iloc)[columns].to_numpy()
    chosen = [columns] if isinstance(columns, str) else list(np.atleast_1d(columns))
    if not chosen:
        return np.zeros(0, int)
    return (every.loc if isinstance(chosen[0], str) else every.iloc)[chosen].to_numpy()


def _union(step: BaseEstimator, value: Value, place: str) -> Value:
    """FeatureUnion: all its parts on all columns, side by side."""
    weights = step.transformer_weights or {}
    parts = []
    for name, part in step.transformer_list:
        if not (isinstance(part, str) and part == "drop"):
            made = transformed(part, value, below(place, f"transformer {name!r}"))
            parts.append(made if name not in weights else made.scaled(np.full(len(made), weights[name])))
    if not parts:
        raise ValueError(f"{place}, a FeatureUnion, drops every transformer")
    return beside(parts)


_KNOWN: dict[type, Callable[[BaseEstimator, Value, str], Value]] = {
    **dict.fromkeys(_SCALERS, _scaler),
    PCA: _pca,
    IncrementalPCA: _pca,
    TruncatedSVD: _components,
    FastICA: _components,
    GaussianRandomProjection: _components,
    SparseRandomProjection: _components,
    NeighborhoodComponentsAnalysis: _components,
    FactorAnalysis: _factors,
    SimpleImputer: _imputed,
    PolynomialFeatures: _polynomial,
    ColumnTransformer: _columns,
    FeatureUnion: _union,
}


# ---------------------------------------------------------------- words


def below(place: str, name: str) -> str:
    """The place of a part, for messages."""
    return name if place == "network" else f"{place}, {name}"


def check_fitted(estimator: BaseEstimator) -> None:
    """As scikit-learn does, whose own way to the same answer takes longer than a closed form."""
    if not any(name.endswith("_") and not name.startswith("__") for name in vars(estimator)):
        check_is_fitted(estimator)


def check_taken(estimator: Any, value: Value, place: str) -> None:
    """Whether it takes as many numbers as the step before it gives."""
    taken = getattr(estimator, "n_features_in_", len(value))
    if taken != len(value):
        raise ValueError(f"{place}, a {described(estimator)}, takes {taken} numbers, but the step before it gives {len(value)}")


def is_own(estimator: object) -> bool:
    """Whether it is scikit-learn's: a subclass of a user may compute something else."""
    return type(estimator).__module__.partition(".")[0] == "sklearn"


def described(estimator: object) -> str:
    """Its class, for messages."""
    kind = type(estimator)
    ours = kind.__module__.partition(".")[0] in ("sklearn", "builtins")
    return kind.__name__ if ours else f"{kind.__module__}.{kind.__qualname__}"
