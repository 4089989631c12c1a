"""Tests of estimators: the closed form gives their predictions, and standard deviations of 16,384 points through
``predict``; estimators without a closed form use points, and asking for a closed form is an error that names the part."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as lm
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, FastICA
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor, StackingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE, SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import SparseRandomProjection
from sklearn.svm import SVR

import pesn
from pesn.adapters.sklearn import as_layers

NAMES = ["age", "bmi", "dose", "pulse", "temp"]
SIZES = np.array([1.0, 2.0, 0.5, 1.0, 10.0])
COV = np.diag(0.2 * SIZES) @ (0.6 * np.eye(5) + 0.4) @ np.diag(0.2 * SIZES)


def mlp(*sizes, activation="tanh", cls=MLPRegressor):
    return cls(hidden_layer_sizes=sizes or 6, activation=activation, solver="lbfgs", alpha=0.1, max_iter=60, random_state=0)


def scaled(network):
    return make_pipeline(StandardScaler(), network)


def columns(*parts, **options):
    return ColumnTransformer(list(parts), **options)


LINEAR = [lm.LinearRegression, lm.Ridge, lm.Lasso, lm.HuberRegressor, lm.QuantileRegressor, lm.RANSACRegressor]
STEPS = {
    "by name": columns(("a", StandardScaler(), ["bmi", "age"]), ("b", MinMaxScaler(), ["temp"])),
    "by index": columns(("a", StandardScaler(), [3, 0]), ("b", "passthrough", [-1])),
    "by slice": columns(("a", StandardScaler(), slice(1, 3)), ("b", RobustScaler(), slice("pulse", "temp"))),
    "by mask": columns(("a", StandardScaler(), [True, False, False, True, False]), remainder="passthrough"),
    "by selector": columns(("a", StandardScaler(), make_column_selector("^[abd]")), remainder=MinMaxScaler()),
    "dropping": columns(("a", "drop", ["age"]), ("b", StandardScaler(), ["dose", "bmi"]), ("none", PCA(), [])),
    "weights": columns(("a", StandardScaler(), [0, 1]), ("b", PCA(2), [2, 3, 4]), transformer_weights={"b": 0.3}),
    "nested": columns(("a", make_pipeline(SimpleImputer(), StandardScaler(), PCA(2)), ["age", "bmi", "temp"]), remainder="drop"),
    "SelectKBest": SelectKBest(f_regression, k=3),
    "VarianceThreshold": VarianceThreshold(0.5),
    "SimpleImputer": SimpleImputer(),
    "indicator": SimpleImputer(strategy="median", add_indicator=True),
    "FeatureUnion": FeatureUnion([("a", PCA(2)), ("b", "passthrough"), ("c", "drop")], transformer_weights={"a": 2.0}),
    "PCA": PCA(3, whiten=True),
    "FastICA": FastICA(3, random_state=0, max_iter=1000),
    "SparseRandomProjection": SparseRandomProjection(3, random_state=0),
    "products": PolynomialFeatures(2),
    "interactions": PolynomialFeatures((2, 2), interaction_only=True, include_bias=False),
}
TOGETHER = {
    "GridSearchCV": GridSearchCV(make_pipeline(StandardScaler(), mlp()), {"mlpregressor__alpha": [0.1, 1.0]}, cv=2),
    "search in a pipeline": make_pipeline(StandardScaler(), GridSearchCV(lm.Ridge(), {"alpha": [0.1, 1.0]}, cv=2)),
    "Bagging": BaggingRegressor(make_pipeline(StandardScaler(), mlp()), n_estimators=4, random_state=0),
    "Bagging, two layers": BaggingRegressor(scaled(mlp(6, 4)), n_estimators=3, max_features=3, random_state=0),
    "Voting": VotingRegressor([("a", lm.Ridge()), ("b", make_pipeline(StandardScaler(), mlp()))], weights=[1, 3]),
    "Voting, one dropped": VotingRegressor([("a", "drop"), ("b", lm.Ridge()), ("c", lm.Lasso())], weights=[5, 1, 2]),
    "Voting, two activations": VotingRegressor([(f, scaled(mlp(activation=f))) for f in ("tanh", "relu")]),
    "Stacking": StackingRegressor([("a", lm.Ridge()), ("b", make_pipeline(StandardScaler(), mlp()))], passthrough=True, cv=2),
    "scaled target": TransformedTargetRegressor(make_pipeline(StandardScaler(), mlp(6, 4)), transformer=StandardScaler()),
    "PLSRegression": PLSRegression(2),
    "linear SVR": SVR(kernel="linear"),
    "RFE that predicts": RFE(lm.Ridge(), n_features_to_select=3),
    "two layers": make_pipeline(StandardScaler(), mlp(8, 5, activation="relu")),
}
SEVERAL = {
    "MultiOutputRegressor": MultiOutputRegressor(lm.Ridge()),
    "RegressorChain": RegressorChain(lm.Ridge(), order=[1, 0]),
    "chain of networks": RegressorChain(make_pipeline(StandardScaler(), mlp())),
    "Ridge": lm.Ridge(),
    "network": make_pipeline(StandardScaler(), mlp(6, 4)),
    "PLSRegression": PLSRegression(2),
}
KINDS = {
    **{kind.__name__: kind() for kind in LINEAR},
    **{f"{name} before a network": make_pipeline(step, StandardScaler(), mlp()) for name, step in STEPS.items()},
    **TOGETHER,
    **{f"{name}, two outputs": model for name, model in SEVERAL.items()},
}
# One nonlinear stage: nothing is approximated. Two: each is taken as Gaussian. Products of features into units are two.
APPROXIMATE = {
    *(f"{name} before a network" for name in ("products", "interactions")),
    "Bagging, two layers", "Voting, two activations", "scaled target", "two layers",
    "chain of networks, two outputs", "network, two outputs",
}  # fmt: skip


@pytest.fixture(scope="module")
def data():
    """Return five named features of different scales with missing values, and two targets."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 5)) * SIZES + [0.0, 3.0, -1.0, 20.0, 40.0], columns=NAMES)
    a, b, c, *_ = X.to_numpy().T / SIZES[:, None]
    y = np.column_stack([np.sin(a) + 0.3 * b + 0.2 * c * a + 5.0, np.tanh(c) - 0.5 * a])
    return X, y


def fitted(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged: any weights will do
        return clone(model).fit(X, y)


def target(kind, y):
    return y if kind.endswith("two outputs") else y[:, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_closed_form_agrees_with_the_estimator(data, kind):
    X, y = data
    gaps = X.copy()
    gaps.iloc[::7, 1] = np.nan
    incomplete = kind.startswith(("SimpleImputer", "indicator"))
    model = fitted(KINDS[kind], gaps if incomplete else X, target(kind, y))
    rows = X.iloc[1:4]
    expected = model.predict(rows).reshape(3, -1)
    certain = pesn.propagate(model, pesn.Gaussian(rows.to_numpy()), closure="gaussian")
    np.testing.assert_allclose(certain.mean, expected, rtol=1e-9, atol=1e-9)
    assert not certain.var.any()
    x = pesn.Gaussian(rows.to_numpy()[0], cov=COV)
    found = pesn.propagate(model, x, closure="gaussian")
    assert found.closure == "gaussian"
    points = pesn.propagate(
        lambda given: model.predict(pd.DataFrame(given, columns=NAMES)).reshape(len(given), -1), x, n_samples=2**14
    )
    np.testing.assert_allclose(found.std, points.std, rtol=0.05 if kind in APPROXIMATE else 2e-3, atol=1e-12)
    assert np.all(np.abs(found.mean - points.mean) <= (0.03 if kind in APPROXIMATE else 2e-3) * points.std + 1e-12)
    scale = np.outer(points.std, points.std) + 1e-12
    np.testing.assert_allclose(found.cov / scale, points.cov / scale, atol=0.1 if kind in APPROXIMATE else 5e-3)
    assert (found.error == 0.0) == (kind not in APPROXIMATE)


def test_bagged_networks_are_stacked_into_one_chain(data):
    X, y = data
    model = fitted(TOGETHER["Bagging"], X, y[:, 0])
    assert [layer.W.shape for layer in as_layers(model)] == [(24, 5), (1, 24)]
    two = fitted(TOGETHER["Bagging, two layers"], X, y[:, 0])
    assert [layer.W.shape for layer in as_layers(two)] == [(18, 5), (12, 18), (1, 12)]
    assert np.count_nonzero(as_layers(two)[1].W) == 3 * 6 * 4  # block diagonal
    mixed = fitted(TOGETHER["Voting"], X, y[:, 0])
    message = "network must be a chain of layers, got a VotingRegressor whose parts are of unequal depth"
    with pytest.raises(ValueError, match=message):
        as_layers(mixed)
    assert pesn.propagate(mixed, pesn.Gaussian(X.to_numpy()[0], cov=COV)).closure == "gaussian"  # exact, as a graph


def test_moments_of_products_are_exact(data):
    """E[y] and Var[y] of a quadratic form, by the textbook: y = c + g·d + dᵀ Q d, d ~ N(0, Σ)."""
    X, y = data
    model = fitted(make_pipeline(PolynomialFeatures(2), lm.Ridge(0.1)), X.to_numpy(), y[:, 0])
    middle = X.to_numpy()[5]
    f = lambda d: model.predict(middle + d)  # noqa: E731
    unit = np.eye(5)
    g = 0.5 * (f(unit) - f(-unit))
    Q = np.array([[0.5 * (f((i + j)[None]) - f(i[None]) - f(j[None]) + f(0.0 * i[None]))[0] for i in unit] for j in unit])
    found = pesn.propagate(model, pesn.Gaussian(middle, cov=COV))
    assert found.closure == "gaussian"
    np.testing.assert_allclose(found.mean, f(np.zeros((1, 5))) + np.trace(Q @ COV), rtol=1e-9)
    np.testing.assert_allclose(found.var, g @ COV @ g + 2.0 * np.trace(Q @ COV @ Q @ COV), rtol=1e-8)


@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
def test_empty_column_is_handled_like_the_imputer(data):
    X, y = data
    empty = X.copy()
    empty["dose"] = np.nan
    for keep in (False, True):
        model = fitted(make_pipeline(SimpleImputer(keep_empty_features=keep), lm.Ridge()), empty, y[:, 0])
        assert pesn.propagate(model, pesn.Gaussian(X.to_numpy()[0], cov=COV)).closure == "gaussian"
        found = pesn.propagate(model, pesn.Gaussian(X.to_numpy()[0])).mean
        np.testing.assert_allclose(found, model.predict(X.iloc[:1]), rtol=1e-10)


# ---------------------------------------------------------------- by points

SAMPLED = {
    "forest": RandomForestRegressor(5, random_state=0),
    "SVR": SVR(),
    "Poisson": lm.PoissonRegressor(),
    "QuantileTransformer": make_pipeline(QuantileTransformer(n_quantiles=20), lm.Ridge()),
    "degree 3": make_pipeline(PolynomialFeatures(3), lm.Ridge()),
    "function": make_pipeline(FunctionTransformer(np.tanh), lm.Ridge()),
    "voting with a forest": VotingRegressor([("a", lm.Ridge()), ("b", RandomForestRegressor(3, random_state=0))]),
    "a column of them": make_pipeline(columns(("q", PowerTransformer(), ["age"]), remainder="passthrough"), lm.Ridge()),
    "imputing 0": make_pipeline(SimpleImputer(missing_values=0.0), lm.Ridge()),
    "transformer": QuantileTransformer(n_quantiles=20),
}
REFUSED = {
    "forest": "network must be a linear regressor, one of MLPRegressor.*got RandomForestRegressor",
    "SVR": "got SVR",
    "Poisson": "got PoissonRegressor",
    "QuantileTransformer": "step 'quantiletransformer' must be one of .*StandardScaler.*got QuantileTransformer",
    "degree 3": "step 'polynomialfeatures', PolynomialFeatures of degree 3, has a closed form up to degree 2",
    "voting with a forest": "estimator 'b' must be .*got RandomForestRegressor",
    "a column of them": "step 'columntransformer', transformer 'q' must be one of .*got PowerTransformer",
    "imputing 0": r"step 'simpleimputer', a SimpleImputer with missing_values=0\.0.*must be NaN",
    "transformer": "network must be one of .*got QuantileTransformer",
}


@pytest.mark.parametrize("kind", SAMPLED)
def test_estimators_without_a_closed_form_use_sobol_points(data, kind):
    X, y = data
    model = fitted(SAMPLED[kind], X, y[:, 0])
    x = pesn.Gaussian(X.to_numpy()[3], cov=COV)
    found = pesn.propagate(model, x)
    assert found.closure == "sobol"
    ask = model.predict if hasattr(model, "predict") else model.transform
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a transformer gives an array or a frame, as it likes
        drawn = np.asarray(ask(pd.DataFrame(x.sample(20_000, rng=1), columns=NAMES))).reshape(20_000, -1)
    np.testing.assert_allclose(found.std, drawn.std(axis=0), rtol=0.05)
    with pytest.raises((TypeError, ValueError), match=REFUSED.get(kind, " must be | has a closed form")):
        pesn.propagate(model, x, closure="gaussian")


def test_estimators_that_return_labels_raise(data):
    X, y = data
    x = pesn.Gaussian(X.to_numpy()[0], cov=COV)
    rows = X.to_numpy()
    with pytest.raises(TypeError, match="network must give numbers, got KMeans, which gives labels; propagate its transform, a"):
        pesn.propagate(KMeans(2, n_init=1, random_state=0).fit(rows), x)
    mixture = GaussianMixture(2, random_state=0).fit(rows)
    with pytest.raises(TypeError, match="got GaussianMixture, which gives labels; propagate its predict_proba"):
        pesn.propagate(mixture, x)
    assert pesn.propagate(mixture.predict_proba, x).mean.sum() == pytest.approx(1.0)
    with pytest.raises(TypeError, match=r"got LogisticRegression; the probabilities .*class_probabilities"):
        pesn.propagate(lm.LogisticRegression(max_iter=1000).fit(rows, y[:, 0] > 5.0), x)


@pytest.mark.parametrize("kind", [lm.Ridge, RandomForestRegressor])
def test_wrong_number_of_features_raises(data, kind):
    X, y = data
    with pytest.raises(ValueError, match=f"x must have 5 numbers, the features that {kind.__name__} was fitted with, got 4"):
        pesn.propagate(kind().fit(X.to_numpy(), y[:, 0]), pesn.Gaussian(np.zeros(4), var=1.0))


def test_estimator_without_n_features_in_has_no_closed_form():
    grid = np.linspace(0.0, 1.0, 20)
    model = IsotonicRegression(out_of_bounds="clip").fit(grid, grid**2)
    assert pesn.propagate(model, pesn.Gaussian([0.5], var=0.01)).mean == pytest.approx([0.26], abs=0.003)
    with pytest.raises(TypeError, match=r"network must know .* \(n_features_in_\), got IsotonicRegression"):
        pesn.propagate(model, pesn.Gaussian([0.5], var=0.01), closure="gaussian")
    with pytest.raises(ValueError, match="Isotonic regression input X should be a 1d array or 2d array with 1 feature"):
        pesn.propagate(model, pesn.Gaussian([0.5, 0.5], var=0.01))


def test_search_without_refit_raises(data):
    X, y = data
    search = fitted(GridSearchCV(lm.Ridge(), {"alpha": [0.1, 1.0]}, cv=2, refit=False), X, y[:, 0])
    message = "network, a GridSearchCV with refit=False, keeps no fitted estimator; .*refit=True"
    for closure in ("auto", "gaussian"):
        with pytest.raises(ValueError, match=message):
            pesn.propagate(search, pesn.Gaussian(np.zeros(5), var=1.0), closure=closure)


@pytest.mark.parametrize("kind", ["Bagging", "Voting", "GridSearchCV", "Stacking", "scaled target", "two layers", "MLP"])
def test_unfitted_estimators_raise(kind):
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        pesn.propagate(TOGETHER.get(kind, mlp(cls=MLPClassifier)), pesn.Gaussian(np.zeros(5), var=1.0))


def test_inconsistent_feature_numbers_raise(data):
    X, y = data
    wrong = Pipeline([("pca", PCA(2).fit(X)), ("ridge", lm.Ridge().fit(X.to_numpy(), y))])
    with pytest.raises(ValueError, match="step 'ridge', a Ridge, takes 5 numbers, but the step before it gives 2"):
        pesn.propagate(wrong, pesn.Gaussian(np.zeros(5)), closure="gaussian")
