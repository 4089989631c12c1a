"""Networks of layers and groups, with leak rates by unit and with an orthogonal memory (ES²N).

1. Layers match a plain loop, groups match separate networks; ``transform`` returns all units.
2. Without uncertainty the probabilistic network is the deterministic one, in every covariance form.
3. Uncertain rows match samples: means within a few standard errors, standard deviations within 3 %.
4. Split runs match whole runs; online learning and feedback work with layers.
5. scikit-learn's tools and files support the parameters; wrong ones are named and change nothing.
"""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

from pesn import EchoStateNetwork, Gaussian, Layer, ProbabilisticESN

KINDS = {
    "deep": {"layers": 3, "n_units": 12},
    "groups": {"layers": [[Layer(14, leak_rate=1.0), Layer(10, leak_rate=0.2)]]},
    "leaks": {"n_units": 24, "leak_rate": np.linspace(0.1, 1.0, 24)},
    "es2n": {"n_units": 24, "memory": "orthogonal", "leak_rate": 0.3},
    "all": {"layers": [Layer(10), [Layer(8, leak_rate=np.linspace(0.1, 1.0, 8)), Layer(7)]], "memory": "orthogonal"},
}
FORMS = {
    "full": {"covariance": "full"}, "low-rank": {"covariance": "low-rank", "rank": 9}, "diagonal": {"covariance": "diagonal"},
    "ensemble": {"covariance": "ensemble", "n_members": 8},
}  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    t = np.arange(301.0)
    z = np.column_stack([np.sin(0.2 * t) + 0.4 * np.sin(0.05 * t), np.cos(0.31 * t)])
    return z[:-1], z[1:, :1]


def network(kind, of=EchoStateNetwork, **more):
    return of(**{"density": 0.4, "random_state": 0, **KINDS[kind], **more})


def simulate(r, inputs):
    """Return states (T, …, N) of layers over inputs (T, …, d) in plain NumPy; any number of samples at once."""
    W, L = r.W.toarray(), np.broadcast_to(r.leak_rate, r.n_units)
    O = np.eye(r.n_units) if r.rotation is None else r.rotation  # noqa: E741
    ends = np.cumsum([0, *(r.layers or (r.n_units,))])
    h, states = np.zeros((*inputs.shape[1:-1], r.n_units)), []
    for z in inputs:
        for first, last in pairwise(ends):
            a = z @ r.W_in[first:last].T + r.bias[first:last] + h @ W[first:last].T
            kept = h[..., first:last] @ O[first:last, first:last].T
            h = h.copy()
            h[..., first:last] = (1.0 - L[first:last]) * kept + L[first:last] * np.tanh(a)
        states.append(h)
    return np.array(states)


# ---------------------------------------------------------------- 1. what it is


@pytest.mark.parametrize("kind", KINDS)
def test_transform_matches_plain_layers(rows, kind):
    esn = network(kind).fit(*rows)
    states = esn.transform(rows[0])
    assert states.shape[1] == esn.reservoir_.n_units == len(esn.get_feature_names_out())
    np.testing.assert_allclose(states, simulate(esn.reservoir_, rows[0]), rtol=1e-11, atol=1e-12)
    assert esn.readout_.weights.shape == (1, 3 + esn.reservoir_.n_units)


def test_groups_are_networks_side_by_side(rows):
    both = network("groups").fit(*rows)
    r, states = both.reservoir_, both.transform(rows[0])
    for part in (slice(0, 14), slice(14, 24)):
        scalings = {"input_scaling": r.W_in[part], "bias_scaling": r.bias[part]}
        matrix, leak = r.W.toarray()[part, part], float(r.leak_rate[part][0])
        alone = EchoStateNetwork(part.stop - part.start, topology=matrix, leak_rate=leak, **scalings).fit(*rows)
        np.testing.assert_allclose(states[:, part], alone.transform(rows[0]), rtol=1e-11, atol=1e-12)


# ---------------------------------------------------------------- 2. without uncertainty


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_certain_inputs_match_the_deterministic_network(rows, kind, form):
    X, y = rows[0][:120], rows[1][:120]
    plain = network(kind).fit(X, y)
    esn = network(kind, ProbabilisticESN, initial_state="zero", process_noise=0.0, **FORMS[form]).fit(X, y)
    np.testing.assert_allclose(esn.transform(X), plain.transform(X), rtol=1e-10, atol=1e-11)
    mean, std = esn.predict(X, return_std=True)
    np.testing.assert_allclose(mean, plain.predict(X), rtol=1e-8, atol=1e-8)
    # a variance so small that it is none, but not settled as certain
    tiny = esn.predict(Gaussian(X, var=np.full(X.shape, 1e-24)), return_std=True)
    np.testing.assert_allclose(tiny[0], mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tiny[1], std, rtol=1e-5, atol=1e-9)


# ---------------------------------------------------------------- 3. with it


@pytest.mark.parametrize("form", ["full", "low-rank"])
@pytest.mark.parametrize("kind", KINDS)
def test_uncertain_rows_match_samples(rows, kind, form):
    X, y = rows[0][:30], rows[1]
    options = {"initial_state": "zero", "ridge": 1e-3, "process_noise": 0.0, "covariance": form, "rank": 16}
    esn = network(kind, ProbabilisticESN, **options).fit(rows[0], y)
    spread = 0.2
    mean, std = esn.predict(Gaussian(X, var=np.full(X.shape, spread**2)), return_std=True, parts=("state",))
    rng, count = np.random.default_rng(0), 20_000
    Z = X[:, None, :] + spread * rng.standard_normal((len(X), count, 2))
    states = simulate(esn.reservoir_, Z)
    weights = esn.readout_.weights[0]
    out = weights[0] + Z @ weights[1:3] + states @ weights[3:]
    assert np.all(np.abs(out.mean(axis=1) - mean[:, 0]) < 6.0 * out.std(axis=1) / np.sqrt(count) + 0.01 * out.std(axis=1))
    np.testing.assert_allclose(std[:, 0], out.std(axis=1), rtol=0.03)


# ---------------------------------------------------------------- 4. time


@pytest.mark.parametrize("of", [EchoStateNetwork, ProbabilisticESN])
@pytest.mark.parametrize("kind", KINDS)
def test_split_runs_match_the_whole_run(rows, kind, of):
    X, y = rows
    esn = network(kind, of, feedback_scaling=0.2).fit(X, y)
    whole = esn.predict(X[:40])
    first, state = esn.predict(X[:17], return_state=True)
    np.testing.assert_allclose(np.vstack([first, esn.predict(X[17:40], state=state)]), whole, rtol=1e-8, atol=1e-9)


# ---------------------------------------------------------------- 5. conventions


@pytest.mark.parametrize("of", [EchoStateNetwork, ProbabilisticESN])
@pytest.mark.parametrize("kind", KINDS)
def test_files_and_clones(save_and_load, rows, kind, of):
    X, y = rows[0][:100], rows[1][:100]
    esn = network(kind, of).fit(X, y)
    again = save_and_load(esn)
    np.testing.assert_array_equal(again.predict(X), esn.predict(X))
    assert repr(again.get_params()) == repr(esn.get_params())
    np.testing.assert_array_equal(clone(again).fit(X, y).predict(X), esn.predict(X))


@pytest.mark.parametrize(("change", "message"), [
    ({"leak_rate": [0.5] * 7}, r"leak_rate must be a number or have shape \(12,\)"),
    ({"layers": 0}, "layers must be 1 or more, got 0"),
    ({"layers": [12, 12]}, "layers must be a whole number, 1 or more, or a list"),
    ({"layers": [Layer(), Layer(input_scaling=-1.0)]}, r"layer 2: input_scaling must lie in \[0, ∞\), got -1.0"),
    ({"memory": 2.0 * np.eye(12)}, "memory must be orthogonal"),
    ({"memory": "none"}, "memory must be one of 'leaky', 'orthogonal'"),
])  # fmt: skip
@pytest.mark.parametrize("of", [EchoStateNetwork, ProbabilisticESN])
def test_wrong_parameters_are_refused_and_the_network_stays(rows, of, change, message):
    esn = of(12, density=0.4, random_state=0).fit(*rows)
    before = esn.predict(rows[0])
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        esn.set_params(**change).fit(*rows)
    esn.set_params(leak_rate=0.5, layers=1, memory="leaky")
    np.testing.assert_array_equal(esn.predict(rows[0]), before)
