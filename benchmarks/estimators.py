"""Fitted estimators with uncertain inputs: which way is taken, how far deviations are off, and the time beside plain samples.

python benchmarks/estimators.py [--quick] [--write]                     --write puts the table into docs/how-to/sklearn.md
"""

from timing import race, ratio  # isort: skip  (before NumPy: one thread)

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import datasets
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, HistGradientBoostingRegressor, RandomForestRegressor, VotingRegressor
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, QuantileTransformer, StandardScaler
from sklearn.svm import SVR

import pesn
from pages import table, write_block

Array = npt.NDArray[np.float64]
SIZE = 0.2  # standard deviation of every input, in units of its own
PLAIN = 2048


def network(*sizes: int) -> Any:
    mlp = MLPRegressor(hidden_layer_sizes=sizes, activation="tanh", alpha=0.1, solver="lbfgs", max_iter=1000, random_state=0)
    return TransformedTargetRegressor(make_pipeline(StandardScaler(), mlp), transformer=StandardScaler())


def columns() -> Any:
    half = make_pipeline(SimpleImputer(), StandardScaler())
    return ColumnTransformer([("first", half, slice(0, 5))], remainder=StandardScaler())


ESTIMATORS: dict[str, Any] = {
    "Ridge behind a ColumnTransformer": make_pipeline(columns(), Ridge()),
    "quadratic Ridge": make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge(10.0)),
    "network of 30 units, grid search": GridSearchCV(network(30), {"regressor__mlpregressor__alpha": [0.1, 1.0]}, cv=2),
    "network behind SelectKBest": make_pipeline(SelectKBest(f_regression, k=5), network(30)),
    "10 bagged networks": BaggingRegressor(network(20), n_estimators=10, max_features=0.7, random_state=0),
    "Ridge and network, voting": VotingRegressor([("line", Ridge()), ("network", network(30))]),
    "network of 50 and 50": network(50, 50),
    "quantiles and Ridge": make_pipeline(QuantileTransformer(n_quantiles=100), Ridge()),
    "SVR": make_pipeline(StandardScaler(), SVR(C=10.0)),
    "Gaussian process": make_pipeline(StandardScaler(), GaussianProcessRegressor(alpha=0.1, normalize_y=True)),
    "boosting": HistGradientBoostingRegressor(max_iter=50, random_state=0),
    "forest of 50": RandomForestRegressor(50, random_state=0),
}
DATA: dict[str, Callable[[], tuple[Array, Array]]] = {
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True, scaled=False),
    "Friedman": lambda: datasets.make_friedman1(400, 10, noise=0.5, random_state=0),
}


def inputs(estimator: Any, rows: int) -> Iterator[tuple[Any, pesn.Gaussian]]:
    """Fitted, with some of its own rows made uncertain."""
    for load in DATA.values():
        X, y = load()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged: any weights will do
            model = clone(estimator).fit(X, y)
        for row in np.random.default_rng(0).choice(len(X), rows, replace=False):
            yield model, pesn.Gaussian(X[row], var=(SIZE * X.std(axis=0)) ** 2)


def line(name: str, rows: int, truth: int, rounds: int) -> list[str]:
    ways, errors, said, plain = set(), [], [], []
    for k, (model, x) in enumerate(inputs(ESTIMATORS[name], rows)):
        ask = model.predict
        true = pesn.propagate(lambda rows, ask=ask: ask(rows), x, n_samples=truth, rng=1).std
        found = pesn.propagate(model, x)
        ways.add(found.closure)
        errors.append(float(np.abs(found.std / true - 1.0).max()))
        said.append(float(found.reliability))
        plain.append(float(np.abs(ask(x.sample(PLAIN, rng=k)).std() / true - 1.0).max()))
    model, x = next(inputs(ESTIMATORS[name], 1))
    draws = np.random.default_rng(0)
    sides = {"pesn": lambda: pesn.propagate(model, x), "plain": lambda: model.predict(x.sample(PLAIN, rng=draws)).std()}
    cost = ratio(race(sides, rounds), "pesn", "plain").median
    return [name, " ".join(sorted(ways)), *(f"{100 * max(one):.2g} %" for one in (errors, said, plain)), f"{cost:.2g}"]


def report(rows: int = 6, truth: int = 2**17, rounds: int = 7) -> str:
    lines = []
    for name in ESTIMATORS:
        print(f"… {name}", file=sys.stderr)
        lines.append(line(name, rows, truth, rounds))
    head = ["estimator", "closure", "largest error", "largest reliability", f"{PLAIN:,} samples' error", "time ÷ theirs"]
    text = (
        f"Fitted to {' and '.join(DATA)}, {rows} rows of each, deviations of all 10 inputs {SIZE:g} of their own; errors "
        f"of the output's against {truth:,} points through `predict`. Time: processor time of `propagate`, reading "
        f"the estimator included, ÷ that of {PLAIN:,} plain samples through `predict`."
    )
    return f"{text}\n\n{table(head, lines)}"


def main() -> None:
    text = report(2, 2**13, 3) if "--quick" in sys.argv[1:] else report()
    print(text)
    if "--write" in sys.argv[1:]:
        write_block(Path(__file__).parents[1] / "docs" / "how-to" / "sklearn.md", "estimators", text)


if __name__ == "__main__":
    main()
