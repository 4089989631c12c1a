"""Fitted estimators of scikit-learn: networks and linear models with what stands before, around and beside them.

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

from functools import partial

from sklearn.base import BaseEstimator

from pesn.adapters.sklearn.estimators import read_layers
from pesn.adapters.sklearn.probabilities import check_width, class_probabilities, outputs
from pesn.gaussian import Gaussian
from pesn.networks.layers import Dense, Shapes, forward
from pesn.networks.program import Closure, Program

__all__ = ["as_layers", "class_probabilities", "read"]


def read(network: BaseEstimator, x: Gaussian, shapes: Shapes, closure: Closure) -> Program:
    """Read a fitted estimator for :func:`pesn.propagate`: as layers, or else as the function that it predicts by."""
    check_width(network, x)
    try:
        layers = read_layers(network)
    except (TypeError, ValueError) as refusal:
        return Program(partial(outputs, network), None, refusal)
    return Program(lambda rows: forward(layers, rows), layers)


def as_layers(estimator: BaseEstimator) -> list[Dense]:
    """Return a fitted estimator as a list of :class:`pesn.Dense`.

    Parameters
    ----------
    estimator : estimator
        A fitted ``MLPRegressor``, ``MLPClassifier`` or linear regressor, alone or inside ``Pipeline``, a search,
        ``TransformedTargetRegressor``, ``BaggingRegressor`` and the like, in any nesting, behind steps that are affine: scalers,
        ``ColumnTransformer`` of such, feature selection, ``SimpleImputer``, ``PCA`` and other projections, ``"passthrough"``.

    Returns
    -------
    list of Dense
        A layer for each of the MLP's that has an activation, and the last. Affine steps are folded into the first, the target's
        scaling into the last, so that nothing is approximated there, with ``covariance="diagonal"`` either; networks that are
        averaged stand side by side in one. The last layer of a classifier gives its **logits**, before sigmoid or softmax.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Where a part is not fitted.
    TypeError, ValueError
        Where a part has no closed form, or the whole is no chain of layers; the message names the part and its place.

    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> as_layers(StandardScaler().fit([[0.0], [4.0]]))[0].W
    array([[0.5]])
    """
    layers = read_layers(estimator)
    if any(layer.units < len(layer.b) for layer in layers):
        raise ValueError(
            f"network must be a chain of layers, got a {type(estimator).__name__} whose parts are of unequal depth or have "
            "different activations; propagate takes it as a sum of branches"
        )
    return layers
