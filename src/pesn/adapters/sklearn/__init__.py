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

from pesn.adapters.sklearn.estimators import expression
from pesn.adapters.sklearn.expression import as_chain, as_graph
from pesn.adapters.sklearn.probabilities import class_probabilities
from pesn.adapters.sklearn.rows import check_width, outputs
from pesn.gaussian import Gaussian
from pesn.networks.dense import Dense, forward
from pesn.networks.inputs import Shapes
from pesn.networks.propagation import Closure, Program

__all__ = ["as_layers", "class_probabilities", "read"]


def read(network: BaseEstimator, x: Gaussian, shapes: Shapes, closure: Closure) -> Program:
    """A fitted estimator as :func:`pesn.propagate` takes it: layers, a graph, or else what it predicts, whatever the closure."""
    check_width(network, x)
    try:
        value = expression(network)
    except (TypeError, ValueError) as refusal:
        return Program(partial(outputs, network), None, refusal)
    layers = as_chain(value)
    if layers is not None:
        return Program(lambda rows: forward(layers, rows), layers)
    graph = as_graph(value)
    return Program(lambda rows: graph(rows.astype(float)), graph=graph)


def as_layers(estimator: BaseEstimator) -> list[Dense]:
    """A fitted estimator as a list of :class:`pesn.Dense`.

    Parameters
    ----------
    estimator
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
    layers = as_chain(expression(estimator))
    if layers is None:
        raise ValueError(
            f"network must be a chain of layers, got a {type(estimator).__name__} whose parts are of unequal depth or multiply "
            "features; propagate takes it as a graph"
        )
    return layers
