"""The features of rows and the moves of a Gaussian state agree.

Without variance the moves match the features of rows in every form; with variance, mean and covariance match samples, and
products match Isserlis' formulas. Without units the model is an autoregression by least squares.
"""

from dataclasses import replace

import numpy as np
import pytest

import pesn
from pesn.activations import get
from pesn.readout.features import Features
from pesn.reservoir.drive import read
from pesn.reservoir.open_loop import OpenLoop
from pesn.reservoir.weights import draw, without_units
from pesn.statespace.cell import ActivationMoments
from pesn.statespace.ensemble import Draws, Ensemble
from pesn.statespace.model import init, rollout
from pesn.systems.chaotic import lorenz

MAPS = [
    Features(), Features(lags=1), Features(lags=3), Features(products=1), Features(1, 2), Features(3, 2),
    Features(states=False), Features(lags=2, states=False), Features(products=1, states=False), Features(2, 2, False),
]  # fmt: skip
TANH = ActivationMoments(get("tanh"))


def slow(features, rows, states):
    """Compute the definition entry by entry; the first row replaces those before it."""
    result = []
    for k in range(len(rows)):
        recent = [rows[max(k - lag, 0)] for lag in range(features.lags + 1)]
        entries = np.concatenate(recent[: features.products]) if features.products else np.empty(0)
        products = [entries[i] * entries[j] for i in range(len(entries)) for j in range(i, len(entries))]
        result.append(np.concatenate([[1.0], *recent, products, states[k] if features.states else []]))
    return np.array(result)


def a_loop(features, form="full", d=2, N=12, m=2, scale=0.1, seed=0, **options):
    reservoir = draw(N, d, m, density=max(0.5, 1.0 / N), feedback_scaling=0.3, leak_rate=0.7, rng=seed)
    reservoir = reservoir if features.states else without_units(d, m)
    weights = scale * np.random.default_rng(seed).normal(size=(m, features.size(d, reservoir.n_units)))
    return OpenLoop(reservoir, weights, TANH, form, rank=8, features=features, **options)


@pytest.mark.parametrize("features", MAPS, ids=str)
def test_features_match_their_definition(features):
    rng = np.random.default_rng(0)
    rows, states = rng.normal(size=(11, 2)), rng.normal(size=(11, 5 if features.states else 0))
    b = features(rows, states)
    np.testing.assert_array_equal(b, slow(features, rows, states))
    assert b.shape == (11, features.size(2, states.shape[1]))
    before, parts = None, []
    for block in (slice(0, 1), slice(1, 4), slice(4, 11)):
        parts.append(features(rows[block], states[block], before))
        before = features.newest_rows(rows[block], before)
    np.testing.assert_array_equal(np.vstack(parts), b)
    batch = features(np.stack([rows, 2.0 * rows]), np.stack([states, states]))
    np.testing.assert_array_equal(batch[0], b)
    np.testing.assert_array_equal(features.rows(rows), b[:, 1 : features.size(2, 0)])


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal", "ensemble"])
@pytest.mark.parametrize("features", MAPS, ids=str)
def test_moves_without_variance_match_the_features_of_rows(features, form):
    loop = a_loop(features, "full" if form == "ensemble" else form)
    z = np.random.default_rng(1).normal(size=(9, 2))
    rows, states, outputs, _ = read(features, loop.reservoir, z, readout=loop.weights)
    held = np.concatenate([np.tile(z[0], features.lags), np.zeros(loop.reservoir.n_units)])
    state = loop.init(held)
    if form == "ensemble":
        state = Ensemble(np.repeat(state.mean[None], 2, axis=0), state.carried, Draws(0))
    path = rollout(replace(loop.model, fast=None), state, z)  # step by step
    np.testing.assert_allclose(path.probed["features"], features(z, states), rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.probed["features"][:, 1 : 1 + rows.shape[1]], rows, rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.mean, outputs, rtol=0, atol=1e-12)
    assert np.abs(path.cov).max() < 1e-20
    compiled = rollout(loop.model, loop.init(held), z)
    np.testing.assert_allclose(compiled.mean, outputs, rtol=0, atol=1e-14)
    np.testing.assert_allclose(compiled.probed["features"], features(z, states), rtol=0, atol=1e-14)


def test_products_have_the_moments_of_isserlis():
    """E[z_i z_j] = m_i m_j + S_ij; Cov(z_i z_j, z_k z_l) with all six terms."""
    features = Features(lags=1, products=2, states=False)
    loop = a_loop(features, d=2, m=10)
    n, rng = 4, np.random.default_rng(2)
    m, root = rng.normal(size=n), 0.5 * rng.normal(size=(n, n))
    S = root @ root.T
    i, j = np.triu_indices(n)
    mean = m[i] * m[j] + S[i, j]
    cov = (
        np.outer(m[i], m[i]) * S[np.ix_(j, j)] + np.outer(m[i], m[j]) * S[np.ix_(j, i)] + np.outer(m[j], m[i]) * S[np.ix_(i, j)]
        + np.outer(m[j], m[j]) * S[np.ix_(i, i)] + S[np.ix_(i, i)] * S[np.ix_(j, j)] + S[np.ix_(i, j)] * S[np.ix_(j, i)]
    )  # fmt: skip
    reads = np.eye(10, loop.weights.shape[1], k=1 + n)
    for form in ("full", "low-rank"):
        this = replace(loop, form=form, weights=reads)
        at, entries = this.layout, this.moves.squared
        K = np.zeros((this.carried, n))
        K[entries] = root
        rest = at.size - this.carried
        state = init(form, this.carried, np.zeros(rest), np.zeros((0, rest)), this.compression)
        k = np.zeros(this.carried)
        k[entries] = m
        state = state.affine(slice(0, this.carried), np.zeros((this.carried, at.size)), k, K).move(this.squares[0])
        W = this.moves.weights(reads)
        np.testing.assert_allclose(W @ state.mean, mean, rtol=1e-12)
        np.testing.assert_allclose(state.project_covariance(W), cov, rtol=0, atol=1e-12 * np.abs(cov).max())


@pytest.mark.parametrize("form", ["full", "low-rank"])
@pytest.mark.parametrize("features", [Features(2, 2), Features(2, 2, False), Features(0, 1)], ids=str)
def test_moments_against_samples(features, form):
    """Readouts of products and units, after three uncertain rows, within the sampling error."""
    loop, n = a_loop(features, form, N=30, scale=0.5), 40_000
    rng = np.random.default_rng(3)
    z, std, E = rng.normal(size=(3, 2)), 0.3, features.n_earlier(2)
    rows = z + std * rng.normal(size=(n, 3, 2))
    start = np.zeros(E + loop.reservoir.n_units)
    path = rollout(loop.model, loop.init(start), z, np.full(z.shape, std**2))
    state = loop.init(start)
    members = Ensemble(np.repeat(state.mean[None], n, axis=0), state.carried, Draws(3))
    for k in range(3):
        x = members.members.copy()
        x[:, loop.layout["inputs"]] = rows[:, k]
        members, info = loop.model.emit(loop.model.move(Ensemble(x, members.carried, members.draws)))
    error = np.sqrt(np.diag(info.cov) / n)
    assert np.all(np.abs(path.mean[-1] - info.mean) < 4.0 * error + 2e-3 * np.sqrt(np.diag(info.cov)))
    np.testing.assert_allclose(path.cov[-1], info.cov, rtol=0, atol=0.03 * np.abs(info.cov).max())


@pytest.mark.parametrize("form", ["full", "low-rank"])
def test_covariance_of_squares_and_units_has_the_quadratic_term(form):
    """Cov(z², tanh a) = 2 m c E[tanh′] + c² E[tanh″]: at m = 0 only the second term is left."""
    loop = a_loop(Features(products=1), form, d=1, N=1, m=1)
    a, bias = 0.9, 0.6
    sharp = loop.reservoir._replace(W_in=np.array([[a]]), bias=np.array([bias]), W_fb=np.zeros((1, 1)))
    weights = np.array([[0.0, 0.0, 1.0, -1.0]])
    loop = replace(loop, reservoir=sharp, weights=weights)
    path = rollout(loop.model, loop.init(np.zeros(1)), np.zeros((1, 1)), np.ones((1, 1)))
    x, w = np.polynomial.hermite_e.hermegauss(100)
    w /= w.sum()
    y = x**2 - sharp.leak_rate * np.tanh(a * x + bias)
    mean = w @ y
    assert path.mean[0, 0] == pytest.approx(mean, rel=1e-8)
    assert path.cov[0, 0, 0] == pytest.approx(w @ (y - mean) ** 2, rel=1e-3)


@pytest.mark.parametrize("features", [Features(2, 2), Features(1, 1, False)], ids=str)
def test_compiled_diagonal_form_matches_single_steps(features):
    loop = a_loop(features, "diagonal")
    rng = np.random.default_rng(4)
    z, var = rng.normal(size=(8, 2)), rng.uniform(0.0, 0.2, size=(8, 2))
    held = np.concatenate([np.tile(z[0], features.lags), np.zeros(loop.reservoir.n_units)])
    one, other = (rollout(model, loop.init(held), z, var) for model in (loop.model, replace(loop.model, fast=None)))
    np.testing.assert_allclose(one.mean, other.mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(one.parts["state"], other.parts["state"], rtol=1e-6)
    np.testing.assert_allclose(one.probed["features"], other.probed["features"], rtol=0, atol=1e-8)
    np.testing.assert_allclose(one.state.var, other.state.var, rtol=1e-6, atol=1e-12)


# ---------------------------------------------------------------- estimators


def test_an_arx_model_is_least_squares_on_lagged_rows():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 2))
    y = X @ [0.5, -1.0] + 0.3 * np.roll(X[:, 0], 2) + 0.1 * rng.normal(size=300)
    for kind in (pesn.EchoStateNetwork, pesn.ProbabilisticESN):
        model = kind(features=Features(lags=2, states=False), ridge=0.0).fit(X, y)
        lagged = np.column_stack([np.ones(298), X[2:], X[1:-1], X[:-2]])
        weights = np.linalg.lstsq(lagged, y[2:], rcond=None)[0]
        assert model.washout_ == 2
        np.testing.assert_allclose(model.readout_.weights[0], weights, rtol=0, atol=1e-10)
        np.testing.assert_allclose(model.predict(X, state=model.state_)[2:], lagged @ weights, rtol=0, atol=1e-10)
        assert model.transform(X).shape == (300, 0)


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal"])
def test_uncertain_predictions_continue_from_the_returned_state(form):
    rng = np.random.default_rng(5)
    X, var = rng.normal(size=(200, 2)), rng.uniform(0.0, 0.1, size=(200, 2))
    model = pesn.ProbabilisticESN(20, features=Features(2, 2), covariance=form, random_state=0).fit(X, X[:, :1] * X[:, 1:])
    whole = model.predict(pesn.Gaussian(X[:7], var=var[:7]), return_cov=True)
    *first, state = model.predict(pesn.Gaussian(X[:3], var=var[:3]), return_cov=True, return_state=True)
    second = model.predict(pesn.Gaussian(X[3:7], var=var[3:7]), return_cov=True, state=state)
    for part, one, other in zip(whole, first, second, strict=True):
        np.testing.assert_allclose(np.concatenate([one, other]), part, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", [pesn.EchoStateNetwork, pesn.ProbabilisticESN])
@pytest.mark.parametrize("features", [Features(2, 2), Features(1, 1, False)], ids=str)
def test_predictions_continue_from_the_returned_state(kind, features):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(200, 2))
    y = X[:, :1] * X[:, 1:] + 0.1 * rng.normal(size=(200, 1))
    model = kind(20, feedback_scaling=0.2, features=features, random_state=0).fit(X, y)
    whole = model.predict(X[:30])
    first, state = model.predict(X[:11], return_state=True)
    second = model.predict(X[11:30], state=state)
    np.testing.assert_allclose(np.vstack([first, second]), whole, rtol=0, atol=1e-12)
    online = kind(20, features=features, random_state=0).partial_fit(X[:90], y[:90]).partial_fit(X[90:], y[90:])
    at_once = kind(20, features=features, random_state=0).partial_fit(X, y)
    np.testing.assert_allclose(online.readout_.weights, at_once.readout_.weights, rtol=0, atol=1e-9)
    assert model.predict(X.astype(np.float32)).dtype == np.float32


@pytest.fixture(scope="module")
def rows():
    return lorenz(runs=1, steps=1100, rng=0).states


@pytest.fixture(scope="module")
def quadratic(rows):
    esn = pesn.ProbabilisticESN(30, features=Features(lags=2, products=2), washout=20, random_state=0)
    return pesn.Forecaster(esn).fit(rows[:900])


def test_lags_and_products_improve_the_forecast(rows, quadratic):
    plain = pesn.Forecaster(pesn.ProbabilisticESN(30, washout=20, random_state=0)).fit(rows[:900])

    def error(model):
        return np.mean([np.abs(model.forecast(20, rows[k - 25 : k]).mean - rows[k : k + 20]) for k in (930, 980, 1050)])

    assert error(quadratic) < 0.1 * error(plain)


def test_forecast_from_one_row_has_a_larger_std(rows, quadratic):
    one, more = quadratic.forecast(5, rows[950:951]), quadratic.forecast(5, rows[900:951])
    assert np.isfinite(one.mean).all()
    assert np.all(one.std[0] > 1.5 * more.std[0])
    assert np.abs((one.mean - rows[951:956]) / one.std).max() < 6.0


def test_missing_values_and_updates(rows, quadratic):
    context = rows[900:950].copy()
    context[-3, 1] = np.nan
    forecast, whole = quadratic.forecast(5, context), quadratic.forecast(5, rows[900:950])
    assert np.abs(forecast.mean - whole.mean).max() < 1.0
    assert np.all(forecast.std >= 0.5 * whole.std)
    esn = pesn.ProbabilisticESN(features=Features(1, 1, False))
    online = pesn.Forecaster(esn, calibrate=False).fit(rows[:200]).update(rows[200:260])
    assert np.abs(online.forecast(5).mean - rows[260:265]).max() < 5.0


def test_small_ridge_keeps_accurate_variances(rows):
    """A tiny ridge gives large weights, and W Σ Wᵀ loses ε |W|² Σ: both forms still match samples."""
    esn = pesn.ProbabilisticESN(40, features=Features(1, 2), ridge=1e-12, washout=20, process_noise=0.0, random_state=0)
    model = pesn.Forecaster(esn, calibrate=False).fit(rows[:900])
    context, y = model.model_.context_filter(), model.standardize(rows[900:930], np.zeros((30, 0)))[0]
    found = []
    for form in ("full", "low-rank", "ensemble"):
        loop = replace(model.loop(("state",)), form="full" if form == "ensemble" else form, rank=30)
        p, n = loop.carried, loop.layout.size
        state = context.filter_rows(loop, y, np.zeros((29, 0))).as_certain()
        if form == "ensemble":
            draws = 1e-3 * np.random.default_rng(0).standard_normal((2000, 3))
            members = np.repeat(state.mean[None], 4000, axis=0)
            members[:, :3] += np.vstack([draws, -draws])
            state = Ensemble(members, p, Draws(1))
        else:
            state = state.affine(slice(0, p), np.eye(p, n), np.zeros(p), 1e-3 * np.eye(p, 3))
        path = rollout(loop.model, state, np.zeros((10, 0)))
        found.append(np.sqrt(path.parts["state"]))
    np.testing.assert_allclose(found[0], found[2], rtol=0.06)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal"])
def test_diverging_loop_stays_finite(form):
    loop = a_loop(Features(1, 2), form, scale=100.0)
    state = loop.init(np.zeros(14), np.eye(14))
    for _ in range(8):  # what is read out comes back as the next row
        state, info = loop.model.predict(state, 1e30 * np.ones(2), 1e60 * np.ones(2))
    assert np.isfinite(info.mean).all()
    assert np.isfinite(info.cov).all()


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"lags": -1}, ValueError, "lags must be 0 or more, got -1"),
    ({"lags": 1.5}, TypeError, "lags must be a whole number, 0 or more, got 1.5"),
    ({"products": 3, "lags": 5}, ValueError, "products must be 0, 1 or 2, got 3"),
    ({"products": 2}, ValueError, r"products must not exceed lags \+ 1.*got products=2 and lags=0"),
    ({"states": 1}, TypeError, "states must be True or False, got 1"),
])  # fmt: skip
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        Features(**arguments)


def test_invalid_features_and_too_few_rows_are_named():
    X, y = np.zeros((5, 1)), np.zeros(5)
    many = "features.lags must be smaller than the number of rows, got lags=7 and 5 rows in X"
    for features, message in (("lags", "features must be a pesn.Features, got 'lags'"), (Features(7), many)):
        for kind in (pesn.EchoStateNetwork, pesn.ProbabilisticESN):
            with pytest.raises((TypeError, ValueError), match=message):
                kind(10, features=features).fit(X, y)
    one, other = (pesn.EchoStateNetwork(10, features=f, random_state=0).fit(X, y) for f in (Features(1), Features(2)))
    with pytest.raises(ValueError, match="state must be of this network, with past of shape"):
        one.predict(X, state=other.state_)
