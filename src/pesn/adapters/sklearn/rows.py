"""Rows as a fitted estimator takes them, and what it gives for them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier, is_clusterer
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from pesn._support.types import FloatArray
from pesn.adapters.sklearn.transformers import described
from pesn.gaussian import Gaussian

__all__ = ["check_width", "labelled", "outputs"]


def check_width(estimator: BaseEstimator, x: Gaussian) -> None:
    """Refuse an input of other features than the estimator was fitted with, where it knows how many."""
    width = getattr(estimator, "n_features_in_", x.dim)
    if width != x.dim:
        raise ValueError(f"x must have {width} numbers, the features that {described(estimator)} was fitted with, got {x.dim}")


def labelled(estimator: BaseEstimator, rows: FloatArray) -> FloatArray | pd.DataFrame:
    """Rows (n, d), with the names of columns that the estimator was fitted with."""
    names = getattr(estimator, "feature_names_in_", None)
    return rows if names is None or len(names) != rows.shape[1] else pd.DataFrame(rows, columns=names)


def outputs(estimator: BaseEstimator, rows: FloatArray) -> FloatArray:
    """What a fitted regressor or transformer makes of rows (n, d): (n, m)."""
    check_is_fitted(estimator)
    if is_clusterer(estimator) or get_tags(estimator).estimator_type == "density_estimator":
        other = next((name for name in ("transform", "predict_proba") if hasattr(estimator, name)), None)
        raise TypeError(
            f"network must give numbers, got {described(estimator)}, which gives labels"
            + (f"; propagate its {other}, a function of rows" if other else "")
        )
    if is_classifier(estimator) or not (hasattr(estimator, "predict") or hasattr(estimator, "transform")):
        raise TypeError(
            f"network must be a regressor or a transformer, got {described(estimator)}; the probabilities of a classifier are "
            "pesn.adapters.sklearn.class_probabilities(network, x)"
        )
    ask = getattr(estimator, "predict", None) or estimator.transform
    found = ask(labelled(estimator, rows))
    found = np.asarray(found.toarray() if sparse.issparse(found) else found)
    return found[:, None] if found.ndim == 1 else found
