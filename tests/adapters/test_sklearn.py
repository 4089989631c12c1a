"""Tests of scikit-learn MLPs with scalers: certain inputs give the predictions, uncertain inputs agree with samples (see also
test_sklearn_kinds), class probabilities are sample means, and steps that are not affine raise errors that name them."""

import warnings
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from scipy import special
from sklearn import preprocessing as pre
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_iris, make_classification, make_multilabel_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline

import pesn
from pesn.adapters.sklearn import as_layers, class_probabilities

propagate = partial(pesn.propagate, closure="gaussian")

ACTIVATIONS = ["identity", "logistic", "tanh", "relu"]
SCALERS = {
    "standard": pre.StandardScaler(),
    "no mean": pre.StandardScaler(with_mean=False),
    "minmax": pre.MinMaxScaler((-1, 2)),
    "maxabs": pre.MaxAbsScaler(),
    "robust": pre.RobustScaler(),
    "pca": PCA(3),
    "pca, white": PCA(3, whiten=True),
    "chain": make_pipeline(pre.MinMaxScaler(), "passthrough", pre.StandardScaler()),
    "nothing": pre.FunctionTransformer(),
}
COV = np.array([[0.09, 0.05, 0.0, 0.01], [0.05, 0.16, -0.04, 0.0], [0.0, -0.04, 0.04, 0.0], [0.01, 0.0, 0.0, 0.01]])


def fitted(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any weights will do
        return estimator.fit(X, y)


HAS_LOSSES = "loss" in MLPRegressor().get_params()  # since scikit-learn 1.7


def small(cls=MLPRegressor, activation="tanh", **options):
    return cls(hidden_layer_sizes=(12, 8), activation=activation, solver="lbfgs", max_iter=40, random_state=0, **options)


@pytest.fixture(scope="module")
def data():
    """Return four features of different scales and two targets far from 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) * [1.0, 2.0, 0.5, 1.0] + [0.0, 3.0, -1.0, 20.0]
    y = np.column_stack([np.sin(X[:, 0]) + 0.3 * X[:, 1], np.tanh(X[:, 2]) * X[:, 0]]) * 5.0 + 100.0
    return X, y


@cache
def classes(kind):
    if kind == "multilabel":
        X, y = make_multilabel_classification(150, 4, n_classes=3, random_state=1)
        return X / 5.0, y
    options = {"n_informative": 4, "n_redundant": 0, "n_clusters_per_class": 1, "random_state": 1}
    X, y = make_classification(300, 4, n_classes={"binary": 2, "multiclass": 4}[kind], **options)
    return X, np.array(["d", "a", "c", "b"])[y]  # names out of order: classes_ sorts them


def certain(model, X):
    return propagate(model, pesn.Gaussian(X)).mean


# ---------------------------------------------------------------- a certain input: the estimator itself


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_certain_input_gives_predict(data, activation):
    X, y = data
    model = fitted(small(activation=activation), X, y)
    np.testing.assert_allclose(certain(model, X[:5]), model.predict(X[:5]), rtol=1e-10, atol=1e-10)
    units = [] if activation == "identity" else [pesn.activations.get(activation).name] * 2  # lines are folded into one
    assert [layer.activation.name for layer in as_layers(model)] == [*units, "identity"]


@pytest.mark.parametrize("scaler", SCALERS)
def test_scalers_in_front_and_around(data, scaler):
    X, y = data
    X = np.column_stack([X, np.full(len(X), 7.0)])  # a constant feature: scikit-learn divides it by 1
    inside = make_pipeline(SCALERS[scaler], small())
    target = PCA(2) if scaler.startswith("pca") else SCALERS[scaler]
    around = TransformedTargetRegressor(make_pipeline(pre.StandardScaler(), small()), transformer=target)
    for model in (inside, around, make_pipeline(SCALERS[scaler], around)):
        fitted(model, X, y)
        np.testing.assert_allclose(certain(model, X[:5]), model.predict(X[:5]), rtol=1e-10, atol=1e-10)
        assert len(as_layers(model)) == 3  # folded, not added


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_certain_input_gives_classifier_outputs(kind, activation):
    X, y = classes(kind)
    model = fitted(make_pipeline(pre.StandardScaler(), small(MLPClassifier, activation, alpha=0.1)), X, y)
    expected = model.predict_proba(X[:6])
    np.testing.assert_allclose(class_probabilities(model, pesn.Gaussian(X[:6])), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(class_probabilities(model, pesn.Gaussian(X[0])), expected[0], rtol=0, atol=1e-12)
    logits = certain(model, X[:6])
    squash = special.softmax(logits, axis=1) if kind == "multiclass" else special.expit(logits)
    np.testing.assert_allclose(squash, expected[:, 1:] if kind == "binary" else expected, atol=1e-10)


# ---------------------------------------------------------------- an uncertain input: Monte Carlo


def test_affine_pipeline_gives_the_exact_covariance(data):
    X, y = data
    model = fitted(make_pipeline(pre.StandardScaler(), PCA(3), small(activation="identity")), X, y)
    x = pesn.Gaussian(X[0], cov=COV)
    A = (model.predict(X[0] + np.eye(4)) - model.predict(X[:1])).T
    np.testing.assert_allclose(propagate(model, x).cov, A @ COV @ A.T, rtol=1e-9)


def test_diagonal_covariance_of_a_folded_scaler_is_exact_in_the_first_layer(data):
    X, y = data
    whitened = fitted(make_pipeline(PCA(4, whiten=True), small()), X, y)
    x = pesn.Gaussian(X[0], var=0.01)
    first = pesn.networks.propagate_gaussian(whitened, x, covariance="diagonal")[0]
    A = as_layers(whitened)[0]
    z = x.affine(A.W, A.b)
    np.testing.assert_allclose(first.var, pesn.moments("tanh", z.mean, z.var).var, rtol=1e-12)


def sample_outputs(model, mean, cov, rng):
    return model.predict_proba(pesn.Gaussian(mean, cov=cov).sample(50_000, rng=rng)).mean(axis=0)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("penalty", [1.0, 1e-4])  # the second is the default: fitted closely, the logits are far from Gaussian
def test_class_probabilities_agree_with_monte_carlo(kind, penalty):
    X, y = classes(kind)
    model = fitted(make_pipeline(pre.StandardScaler(), small(MLPClassifier, alpha=penalty)), X, y)
    x = pesn.Gaussian(X[:3], cov=0.5 * COV)
    out = class_probabilities(model, x)
    assert out.shape == (3, {"binary": 2, "multiclass": 4, "multilabel": 3}[kind])
    if kind != "multilabel":
        np.testing.assert_allclose(out.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    for row in range(3):
        np.testing.assert_allclose(out[row], sample_outputs(model, X[row], 0.5 * COV, row), rtol=0, atol=0.01)
        single = class_probabilities(model, pesn.Gaussian(X[row], cov=0.5 * COV))
        np.testing.assert_allclose(single, out[row], rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [0.3, 1.0, 3.0, 10.0])
def test_class_probabilities_of_a_linear_network_equal_the_mean_softmax(size):
    """Its logits are Gaussian: a dense rule over two dimensions, of which three classes have no more, gives the integral."""
    X, y = load_iris(return_X_y=True)
    model = fitted(MLPClassifier(hidden_layer_sizes=(4,), activation="identity", solver="lbfgs", random_state=0), X, y)
    unit = propagate(model, pesn.Gaussian(X[60], var=1.0))
    x = pesn.Gaussian(X[60], var=size**2 / unit.var.max())
    logits = propagate(model, x)
    values, vectors = np.linalg.eigh(logits.cov - logits.cov.mean(axis=0) - logits.cov.mean(axis=1)[:, None] + logits.cov.mean())
    nodes = np.arange(-8.0, 8.0, 0.04)
    weights = np.exp(-0.5 * np.add.outer(nodes**2, nodes**2)).ravel()
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    spread = grid @ (vectors[:, 1:] * np.sqrt(np.maximum(values[1:], 0.0))).T
    true = weights @ special.softmax(logits.mean + spread, axis=1) / weights.sum()
    np.testing.assert_allclose(class_probabilities(model, x), true, rtol=0, atol=2e-3)


def test_class_probabilities_depend_on_seed_and_validate_n_samples():
    X, y = classes("multiclass")
    model = fitted(small(MLPClassifier), X, y)
    x = pesn.Gaussian(X[0], cov=COV)
    same = class_probabilities(model, x, n_samples=256, rng=3)
    np.testing.assert_array_equal(same, class_probabilities(model, x, n_samples=256, rng=3))
    other = class_probabilities(model, x, n_samples=256, rng=np.random.default_rng(4))
    assert 0.0 < np.abs(same - other).max() < 0.05
    for wrong, message in ((1000, "a power of 2, got 1000"), (2.0, r"a whole number, 1 or more, got 2\.0")):
        with pytest.raises((TypeError, ValueError), match=f"n_samples must be {message}"):
            class_probabilities(model, x, n_samples=wrong)


def test_class_probabilities_of_other_classifiers_agree_with_samples():
    """Include nonlinear steps, columns by name, searches and random forests."""
    X, y = classes("multiclass")
    frame, network = pd.DataFrame(X, columns=list("abcd")), make_pipeline(pre.StandardScaler(), small(MLPClassifier, alpha=1.0))
    named = ColumnTransformer([("a", pre.StandardScaler(), ["c", "a"]), ("b", pre.MinMaxScaler(), ["d"])])
    for model in (
        make_pipeline(pre.PolynomialFeatures(2), network),
        GridSearchCV(make_pipeline(named, network), {"columntransformer__sparse_threshold": [0.0]}, cv=2),
        RandomForestClassifier(20, random_state=0),
    ):
        fitted(model, frame, y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # no warning about missing feature names
            out = class_probabilities(model, pesn.Gaussian(X[0], cov=0.5 * COV))
        draws = pd.DataFrame(pesn.Gaussian(X[0], cov=0.5 * COV).sample(20_000, rng=0), columns=list("abcd"))
        np.testing.assert_allclose(out, model.predict_proba(draws).mean(axis=0), rtol=0, atol=0.01)


def test_float32_is_preserved(data):
    X, y = data
    bare = MLPRegressor(hidden_layer_sizes=8, solver="adam", max_iter=5, random_state=0)  # L-BFGS would give float64 weights
    fitted(bare, X.astype(np.float32), y.astype(np.float32))
    assert propagate(bare, pesn.Gaussian(X[0].astype(np.float32), var=np.float32(0.1))).cov.dtype == np.float32


# ---------------------------------------------------------------- unsupported models


POISSON = "network, an MLPRegressor with loss='poisson', ends in 'exp'.*squared_error"
SPLINES = make_pipeline(pre.SplineTransformer(), small())
SINH = TransformedTargetRegressor(small(), func=np.arcsinh, inverse_func=np.sinh)
POWERS = TransformedTargetRegressor(small(), transformer=pre.PolynomialFeatures(1), check_inverse=False)


class Own(MLPRegressor):
    def predict(self, X):
        return -super().predict(X)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (SPLINES, TypeError, "step 'splinetransformer' must be one of .*StandardScaler.*Spline"),
        (Own(hidden_layer_sizes=3, max_iter=5), TypeError, r"got .*\.Own"),  # its predict is its own
        (SINH, ValueError, "transformer_ applies inverse_func='sinh'.*StandardScaler.*regressor_"),
        (POWERS, TypeError, "transformer_ must be one of"),
        (make_pipeline(pre.MinMaxScaler(clip=True), small()), ValueError, "step 'minmaxscaler'.*clip=True.*clip=False"),
        (make_pipeline("passthrough"), ValueError, "whose steps do nothing"),
        *([(small(loss="poisson"), ValueError, POISSON)] if HAS_LOSSES else []),
    ],
)
def test_unsupported_models_raise_with_their_name(data, model, error, message):
    X, y = data
    fitted(model, X, y)
    with pytest.raises(error, match=message):
        propagate(model, pesn.Gaussian(X[0]))


def test_unfitted_steps_and_class_probabilities_of_a_regressor_raise(data):
    model = Pipeline([("scale", pre.StandardScaler()), ("net", fitted(small(), *data))])
    with pytest.raises(NotFittedError, match="StandardScaler instance is not fitted"):
        propagate(model, pesn.Gaussian(np.zeros(4)))
    with pytest.raises(TypeError, match="classifier must be a fitted classifier with predict_proba, got Pipeline"):
        class_probabilities(fitted(model, *data), pesn.Gaussian(np.zeros(4)))
