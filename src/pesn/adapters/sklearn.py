"""Fitted scikit-learn networks: MLPRegressor and MLPClassifier, also behind scalers and with a scaled target.

>>> from sklearn.datasets import load_diabetes
>>> from sklearn.neural_network import MLPRegressor
>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import StandardScaler
>>> import pesn
>>> X, y = load_diabetes(return_X_y=True, scaled=False)
>>> mlp = MLPRegressor(hidden_layer_sizes=8, activation="tanh", solver="lbfgs", alpha=10.0, max_iter=5000, random_state=0)
>>> model = make_pipeline(StandardScaler(), mlp).fit(X, y)
>>> as_layers(model)                                            # the scaler is folded into the first layer
[Dense(10 -> 8, 'tanh'), Dense(8 -> 1, 'identity')]
>>> patient = pesn.Gaussian(X[0], var=(0.1 * X.std(axis=0)) ** 2)       # each number known to a tenth of its spread
>>> pesn.propagate(model, patient).mean.shape
(1,)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from pesn._support.checks import whole_number
from pesn._support.types import FloatArray, Rng
from pesn.activations import names
from pesn.gaussian import Gaussian
from pesn.networks.dense import Dense, forward
from pesn.networks.propagation import Program, as_gaussian
from pesn.networks.sobol import spread_points, standard_points

__all__ = ["as_layers", "class_probabilities", "read"]


_MLPS = (MLPRegressor, MLPClassifier)
_SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
_KNOWN = (*_MLPS, Pipeline, TransformedTargetRegressor, *_SCALERS, PCA)


def read(network: BaseEstimator, x: Gaussian) -> Program:
    """A fitted estimator as :func:`pesn.propagate` takes it: layers of an MLP behind affine steps, else what it predicts."""
    try:
        layers = as_layers(network)
    except (TypeError, ValueError) as refusal:
        return Program(partial(_rows_of, network), None, refusal)
    return Program(lambda rows: forward(layers, rows), layers)


def _rows_of(network: BaseEstimator, rows: FloatArray) -> FloatArray:
    """What a fitted regressor or transformer makes of rows (n, d): (n, m)."""
    check_is_fitted(network)
    if is_classifier(network) or not (hasattr(network, "predict") or hasattr(network, "transform")):
        raise TypeError(
            f"network must be a regressor or a transformer, got {_name(network)}; of a classifier class_probabilities"
        )
    ask, names = getattr(network, "predict", None) or network.transform, getattr(network, "feature_names_in_", None)
    out = np.asarray(ask(rows if names is None else pd.DataFrame(rows, columns=names)))
    return out[:, None] if out.ndim == 1 else out


def as_layers(estimator: BaseEstimator) -> list[Dense]:
    """A fitted estimator as a list of :class:`pesn.Dense`.

    Parameters
    ----------
    estimator
        ``MLPRegressor`` or ``MLPClassifier``, fitted, alone or inside ``Pipeline`` and ``TransformedTargetRegressor``,
        in any nesting. The other steps must be affine: ``StandardScaler``, ``MinMaxScaler`` and ``MaxAbsScaler`` without
        ``clip``, ``RobustScaler``, ``PCA``, ``"passthrough"``.

    Returns
    -------
    list of Dense
        A layer for each of the MLP's. Affine steps are folded into the first, the target's scaling into the last, so
        that nothing is approximated there, with ``covariance="diagonal"`` either. The last layer of a classifier gives
        its **logits**, before the sigmoid or the softmax.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Where a part is not fitted.
    TypeError, ValueError
        Where a part is no affine map; the message names the part and its place.

    >>> import numpy as np
    >>> as_layers(StandardScaler().fit([[0.0], [4.0]]))[0].W
    array([[0.5]])
    """
    layers: list[Dense] = []
    before: Dense | None = None  # affine steps wait here for the first layer
    for part in _parts(estimator, "network", inverse=False):
        if isinstance(part, list):
            layers = part if before is None else [_compose(part[0], before), *part[1:]]
        elif layers:
            layers[-1] = _compose(part, layers[-1])  # the output of an MLP is affine: no activation stands between
        else:
            before = part if before is None else _compose(part, before)
    if not layers and before is None:
        raise ValueError(f"network must hold a fitted MLP, got a {_name(estimator)} whose steps do nothing")
    return layers or [before]  # type: ignore[list-item]


def class_probabilities(classifier: BaseEstimator, x: Gaussian, *, n_samples: int = 4096, rng: Rng = 0) -> FloatArray:
    """Mean class probabilities, E[predict_proba(x)], of a fitted classifier for a Gaussian input.

    The mean of ``predict_proba`` over scrambled points of Sobol's sequence, spread as the input is. The logits of a network that
    was fitted closely are far from Gaussian: what :func:`pesn.propagate` gives of them is not used. Measured against 200,000
    samples (``python benchmarks/classifiers.py``): within 0.008 on networks of 10 tanh units fitted by L-BFGS, almost without a
    penalty (1,024 points: 0.012), within 0.001 on default classifiers.

    Parameters
    ----------
    classifier
        Any fitted classifier with ``predict_proba``: ``MLPClassifier``, also multilabel, alone or at the end of a ``Pipeline``,
        whose other steps need not be affine.
    x
        The input, one Gaussian or a batch.
    n_samples
        Points for each input, a power of 2.
    rng
        Scrambles the points: a seed, which gives the same result each time, or a Generator.

    Returns
    -------
    array
        (n_classes,) or (n, n_classes), in the order of ``classes_``. Rows sum to 1, except for multilabel.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_iris(return_X_y=True)
    >>> mlp = MLPClassifier(5, activation="tanh", solver="lbfgs", alpha=1.0, max_iter=5000, random_state=0)
    >>> model = make_pipeline(StandardScaler(), mlp).fit(X, y)
    >>> model.predict_proba([[6.0, 3.0, 5.0, 1.5]]).round(1)    # as if all four numbers were certain
    array([[0. , 0.8, 0.2]])
    >>> flower = Gaussian([6.0, 3.0, 5.0, 1.5], var=0.25)        # a poor ruler
    >>> class_probabilities(model, flower).round(1)
    array([0. , 0.6, 0.4])
    """
    if not hasattr(classifier, "predict_proba"):
        raise TypeError(f"classifier must be a fitted classifier with predict_proba, got {_name(classifier)}")
    whole_number("n_samples", n_samples, 1)
    if n_samples & (n_samples - 1):
        raise ValueError(f"n_samples must be a power of 2, got {n_samples!r}")
    check_is_fitted(classifier)
    x = as_gaussian(x)
    names = getattr(classifier, "feature_names_in_", None)
    means = []
    for samples in spread_points(x, standard_points(x.dim, int(n_samples), np.random.default_rng(rng))):
        given = classifier.predict_proba(samples if names is None else pd.DataFrame(samples, columns=names))
        if not isinstance(given, np.ndarray):
            raise TypeError(
                f"classifier must give one array of probabilities, got a {type(given).__name__} from {_name(classifier)}"
            )
        means.append(given.mean(axis=0))
    result: FloatArray = np.reshape(means, (*x.batch_shape, -1)).astype(means[0].dtype, copy=False)
    return result


# ---------------------------------------------------------------- estimators, part by part


def _parts(estimator: BaseEstimator, place: str, inverse: bool) -> Iterator[Dense | list[Dense]]:
    """What x meets, in order: an affine step as one Dense, an MLP as the list of its layers.

    Types are compared exactly: a subclass may compute something else.
    """
    kind = type(estimator)
    if kind is Pipeline:
        for name, step in reversed(estimator.steps) if inverse else estimator.steps:
            if step is not None and step != "passthrough":
                yield from _parts(step, _below(place, f"step {name!r}"), inverse)
    elif kind is TransformedTargetRegressor and not inverse:
        check_is_fitted(estimator)
        yield from _parts(estimator.regressor_, _below(place, "regressor_"), inverse=False)
        yield from _parts(estimator.transformer_, _below(place, "transformer_"), inverse=True)
    elif kind is FunctionTransformer and (estimator.inverse_func if inverse else estimator.func) is None:
        return  # the identity, also what a TransformedTargetRegressor without a transformer keeps
    elif kind is FunctionTransformer and inverse:
        raise ValueError(
            f"{place} applies inverse_func={getattr(estimator.inverse_func, '__name__', estimator.inverse_func)!r}, "
            "which is not known to be affine; use an affine transformer=, such as StandardScaler(), "
            "or propagate through regressor_ and transform its Gaussian yourself"
        )
    elif kind in _MLPS and not inverse:
        check_is_fitted(estimator)
        yield _mlp(estimator, place)
    elif kind in (*_SCALERS, PCA):
        check_is_fitted(estimator)
        yield _pca(estimator, inverse) if kind is PCA else _scaler(estimator, place, inverse)
    else:
        known = (*_SCALERS, PCA, Pipeline) if inverse else _KNOWN
        raise TypeError(
            f"{place} must be one of {', '.join(k.__name__ for k in known)} or 'passthrough', got {_name(estimator)}; "
            "propagate does not know what it does to a Gaussian"
        )


def _mlp(estimator: BaseEstimator, place: str) -> list[Dense]:
    if type(estimator) is MLPRegressor and estimator.out_activation_ != "identity":
        raise ValueError(
            f"{place}, an MLPRegressor with loss={estimator.loss!r}, ends in {estimator.out_activation_!r}, which is none of "
            f"the activations {', '.join(names())}; fit it with loss='squared_error'"
        )
    last = len(estimator.coefs_) - 1
    return [
        Dense(W.T, b, "identity" if i == last else estimator.activation)
        for i, (W, b) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True))
    ]


def _scaler(scaler: BaseEstimator, place: str, inverse: bool) -> Dense:
    """y = gain · x + offset, or its inverse. Constant features have scale_ 1 already."""
    if getattr(scaler, "clip", False) and not inverse:
        raise ValueError(f"{place}, a {_name(scaler)} with clip=True, is not affine; fit it with clip=False")
    kind, none, one = type(scaler), np.zeros(scaler.n_features_in_), np.ones(scaler.n_features_in_)
    if kind is MinMaxScaler:
        gain, offset = scaler.scale_, scaler.min_
    else:
        if kind is StandardScaler:
            centre, scale = scaler.mean_ if scaler.with_mean else none, scaler.scale_ if scaler.with_std else one
        elif kind is RobustScaler:
            centre, scale = scaler.center_ if scaler.with_centering else none, scaler.scale_ if scaler.with_scaling else one
        else:
            centre, scale = none, scaler.scale_
        if inverse:
            return Dense(np.diag(scale), centre)
        gain, offset = 1.0 / scale, -centre / scale
    return Dense(np.diag(1.0 / gain), -offset / gain) if inverse else Dense(np.diag(gain), offset)


def _pca(pca: BaseEstimator, inverse: bool) -> Dense:
    components, mean = pca.components_, pca.mean_
    if not inverse:
        # As scikit-learn does it: a scale of 0 becomes the smallest that can be divided by.
        scale = np.sqrt(pca.explained_variance_) if pca.whiten else np.ones(len(components), components.dtype)
        W = components / np.maximum(scale, np.finfo(scale.dtype).eps)[:, None]
        return Dense(W, -W @ mean)
    return Dense((components * np.sqrt(pca.explained_variance_)[:, None] if pca.whiten else components).T, mean)


def _compose(outer: Dense, inner: Dense) -> Dense:
    """``outer`` after an ``inner`` without activation, as one layer."""
    if outer.W.shape[1] != inner.W.shape[0]:
        raise ValueError(f"{outer!r} takes {outer.W.shape[1]} numbers, but the step before it, {inner!r}, gives {len(inner.W)}")
    return Dense(outer.W @ inner.W, outer.W @ inner.b + outer.b, outer.activation)


def _below(place: str, name: str) -> str:
    return name if place == "network" else f"{place}, {name}"


def _name(estimator: BaseEstimator) -> str:
    kind = type(estimator)
    ours = kind.__module__.partition(".")[0] in ("sklearn", "builtins")
    return kind.__name__ if ours else f"{kind.__module__}.{kind.__qualname__}"
