"""A local network matches small networks side by side, one per patch, with the same weights."""

import numpy as np
import pytest

import pesn
from pesn.readout.groups import Patches
from pesn.reservoir.initial_state import LocalStart, learn_start
from pesn.reservoir.weights import draw, repeat

P = 6
NETWORKS = [pesn.EchoStateNetwork, pesn.ProbabilisticESN]


def a_field(rows=300, seed=0, columns=P):
    """Return noisy waves on a ring, with the same law everywhere."""
    rng = np.random.default_rng(seed)
    y = np.empty((rows, columns))
    y[0] = rng.standard_normal(columns)
    for k in range(1, rows):
        y[k] = 0.6 * np.roll(y[k - 1], 1) + 0.3 * np.tanh(np.roll(y[k - 1], -1)) + 0.1 * rng.standard_normal(columns)
    return y


PATCHES = Patches(2, 1)
OWN = "feedback must be 'teacher' where the network is local"


def a_network(kind=pesn.EchoStateNetwork, patches=PATCHES, **options):
    return kind(12, local=patches, density=0.3, washout=10, random_state=0, ridge=1e-4, **options)


Y = a_field()


# ---------------------------------------------------------------- the obvious twin


def side_by_side(esn, X, y, patches):
    """Return states and outputs of one small network per patch with a pooled regression, in plain NumPy."""
    G, n, w = P // patches.size, 12, patches.size + 2 * patches.overlap + X.shape[1] - P
    windows = patches.windows(P, X.shape[1])
    r = esn.reservoir_
    middle = next(g for g in range(G) if (windows[g] >= 0).all())
    W, W_in = r.W.toarray()[middle * n :, middle * n :][:n, :n], r.W_in[middle * n : (middle + 1) * n][:, windows[middle]]
    bias, L = r.bias[:n], r.leak_rate
    h, rows = np.zeros((G, n)), []
    for x in X:
        seen = np.where(windows >= 0, x[windows], 0.0)
        h = (1.0 - L) * h + L * np.tanh(seen @ W_in.T + h @ W.T + bias)
        rows.append(np.hstack([np.ones((G, 1)), seen, h]))
    b = np.array(rows)
    assert b.shape[2] == 1 + w + n
    pooled, targets = b[10:].reshape(-1, 1 + w + n), y[10:].reshape(-1, patches.size)
    penalty = np.full(1 + w + n, 1e-4 * len(pooled))
    penalty[0] = 0.0
    weights = np.linalg.solve(pooled.T @ pooled + np.diag(penalty), pooled.T @ targets)
    return b[:, :, 1 + w :], (b @ weights).reshape(len(X), P)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("patches", [Patches(2, 1), Patches(1, 2), Patches(2, 1, periodic=False)])
@pytest.mark.parametrize("known", [0, 1])
def test_local_network_matches_small_networks(kind, patches, known):
    X = np.hstack([Y[:-1], np.sin(np.arange(len(Y) - 1.0))[:, None][:, :known]])
    esn = a_network(kind, patches, **({"initial_state": "zero"} if kind is pesn.ProbabilisticESN else {})).fit(X, Y[1:])
    states, outputs = side_by_side(esn, X, Y[1:], patches)
    np.testing.assert_allclose(esn.transform(X), states.reshape(len(X), -1), atol=1e-10)
    np.testing.assert_allclose(esn.predict(X), outputs, atol=1e-8)


def test_separate_readouts_match_separate_networks():
    """For patches that see their own columns only."""
    esn = a_network(patches=Patches(3, 0, shared=False)).fit(Y[:-1], Y[1:])
    small = esn.reservoir_
    for g in range(2):
        own = slice(3 * g, 3 * g + 3)
        alone = a_network(patches=Patches(3, 0)).fit(Y[:-1, own], Y[1:, own])
        np.testing.assert_array_equal(alone.reservoir_.bias, small.bias[12 * g : 12 * g + 12])
        np.testing.assert_allclose(esn.predict(Y[:-1])[:, own], alone.predict(Y[:-1, own]), atol=1e-9)


# ---------------------------------------------------------------- one law everywhere


@pytest.mark.parametrize(
    "features", [pesn.Features(), pesn.Features(lags=1, products=2), pesn.Features(products=1, states=False)]
)
def test_predictions_shift_with_the_field(features):
    esn = a_network(pesn.ProbabilisticESN, features=features).fit(Y[:-1], Y[1:])
    mean, std = esn.predict(Y[:50], return_std=True)
    moved, moved_std = esn.predict(np.roll(Y[:50], 2, axis=1), return_std=True)
    np.testing.assert_allclose(moved, np.roll(mean, 2, axis=1), atol=1e-9)
    np.testing.assert_allclose(moved_std, np.roll(std, 2, axis=1), rtol=1e-6)


def test_shared_readout_needs_fewer_rows():
    few, later = Y[:60], a_field(seed=1)
    local = a_network().fit(few[:-1], few[1:])
    whole = pesn.EchoStateNetwork(36, density=0.3, washout=10, random_state=0, ridge=1e-4).fit(few[:-1], few[1:])
    errors = [np.mean(np.square(esn.predict(later[:-1]) - later[1:])[10:]) for esn in (local, whole)]
    assert errors[0] < 0.7 * errors[1]


# ---------------------------------------------------------------- uncertainty


@pytest.mark.parametrize("covariance", ["full", "low-rank", "diagonal", "ensemble"])
@pytest.mark.parametrize("shared", [True, False])
def test_certain_inputs_match_the_deterministic_network(covariance, shared):
    patches = Patches(2, 1, shared=shared)
    plain = a_network(patches=patches).fit(Y[:-1], Y[1:])
    esn = a_network(pesn.ProbabilisticESN, patches, covariance=covariance, initial_state="zero", rank=8).fit(Y[:-1], Y[1:])
    np.testing.assert_allclose(esn.readout_.weights, plain.readout_.weights, rtol=1e-9, atol=1e-12)
    known = pesn.Gaussian(Y[:40], var=np.zeros((40, P)))
    mean, std = esn.predict(known, return_std=True, parts=("state",))
    np.testing.assert_allclose(mean, plain.predict(Y[:40]), atol=1e-9)
    assert not std.any()


@pytest.mark.parametrize("covariance", ["full", "low-rank"])
def test_standard_deviations_match_samples(covariance):
    """Of the state: against noisy rows. Of the weights: against R times the leverage of each patch."""
    esn = a_network(pesn.ProbabilisticESN, covariance=covariance, rank=20, initial_state="zero").fit(Y[:-1], Y[1:])
    rng = np.random.default_rng(0)
    rows = Y[:8] + 0.2 * rng.standard_normal((4000, 8, P))
    lengths = [8] * 4000
    sampled = esn.predict(rows.reshape(-1, P), lengths=lengths).reshape(4000, 8, P)[:, -1]
    blurred = pesn.Gaussian(Y[:8], var=np.full((8, P), 0.04))
    mean, std = esn.predict(blurred, return_std=True, parts=("state",))
    np.testing.assert_allclose(std[-1], sampled.std(axis=0), rtol=0.06)
    np.testing.assert_allclose(mean[-1], sampled.mean(axis=0), atol=5.0 * std[-1].max() / np.sqrt(4000.0) + 0.005)
    _, cov = esn.predict(blurred, return_cov=True, parts=("weights",))
    states = esn.transform(rows.reshape(-1, P), lengths=lengths).reshape(4000, 8, -1)[:, -1]
    b = np.hstack([np.ones((4000, 1)), rows[:, -1], states])
    groups = esn.readout_.groups
    for columns, own in zip(groups.columns, groups.outputs, strict=True):
        leverage = np.mean(np.sum(np.square(b[:, columns] @ esn.readout_.covariance_root), axis=1))
        np.testing.assert_allclose(cov[-1][np.ix_(own, own)], leverage * esn.readout_.residual_cov[np.ix_(own, own)], rtol=0.05)
    assert not cov[-1][0, 2:].any()


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e3])
def test_tiny_and_huge_variances_stay_finite(scale):
    esn = a_network(pesn.ProbabilisticESN, covariance="low-rank", rank=8).fit(Y[:-1], Y[1:])
    _, std = esn.predict(pesn.Gaussian(Y[:30], var=np.full((30, P), scale)), return_std=True)
    assert (np.isfinite(std) & (std > 0.0)).all()


# ---------------------------------------------------------------- the start


def test_initial_state_is_learned_from_all_patches():
    esn = a_network(pesn.ProbabilisticESN).fit(Y[:-1], Y[1:])
    assert isinstance(esn.start_, LocalStart)
    assert esn.start_.n_states == len(esn.start_.stationary()[0])
    later = a_field(seed=1)
    states, places = esn.transform(later), np.arange(30, 300, 10)
    mean, root = esn.start_.predict(later[places[:, None] + np.arange(-2, 1)])
    away, std = states[places] - mean, np.sqrt(np.sum(np.square(root), axis=-2))
    assert np.square(away).mean() < 0.6 * np.square(states[places] - esn.start_.stationary()[0]).mean()
    assert 0.9 < np.mean(np.abs(away) < 2.0 * std) < 0.99
    root = root[0]
    assert not (root.T @ root)[:12, 12:].any()  # what is left open in two patches is independent
    # initial state of an uncertain row matches samples
    start, rng = esn.start_, np.random.default_rng(0)
    root = 0.1 * rng.standard_normal((P, 3))
    mean, both = start.predict_gaussian(Y[5], root)
    z = Y[5] + rng.standard_normal((20_000, 3)) @ root.T
    states = start.predict(z[:, None])[0]
    np.testing.assert_allclose(mean, states.mean(axis=0), atol=0.01)
    cov = np.cov(np.hstack([z, states]).T)
    _, left = start.predict(Y[5][None])
    cov[P:, P:] += left.T @ left
    np.testing.assert_allclose(both @ both.T, cov, atol=0.03 * np.abs(cov).max())
    slopes, step = start.slope(Y[5]), 1e-6
    for k in (0, 3):
        other = start.predict((Y[5] + step * np.eye(P)[k])[None])[0]
        np.testing.assert_allclose(slopes[:, k], (other - start.predict(Y[5][None])[0]) / step, atol=1e-4)


def test_joint_distribution_of_row_and_units_matches_the_long_run():
    patches, rng = Patches(2, 1, periodic=False), np.random.default_rng(0)
    mixed = rng.standard_normal((P, P)) / np.sqrt(P)
    z = rng.standard_normal((5000, P)) @ mixed.T
    padded = np.pad(z, ((0, 0), (1, 1)))
    units = np.hstack([padded[:, 2 * g : 2 * g + 4] @ np.arange(8.0).reshape(4, 2) for g in range(3)])  # a line of the window
    start = learn_start([(z, units, 0)], patches, pesn.Features(), P)
    mean, root = start.joint()
    cov = np.cov(np.hstack([z, units]).T)
    np.testing.assert_allclose(root.T @ root, cov, atol=0.02 * np.abs(cov).max())
    np.testing.assert_allclose(mean, np.hstack([z, units]).mean(axis=0), atol=0.2)


# ---------------------------------------------------------------- going on, files, what is refused


@pytest.mark.parametrize("kind", NETWORKS)
def test_local_network_learns_online(kind):
    later = a_field(seed=2)
    batch = a_network(kind).fit(Y[:-1], Y[1:])
    before = batch.readout_.weights.copy()
    batch.partial_fit(later[:-1], later[1:])
    assert np.abs(batch.readout_.weights - before).max() > 0.0
    assert not batch.readout_.weights[before == 0.0].any()
    online = a_network(kind).partial_fit(later[:-1], later[1:])
    errors = np.square(online.online_predictions_ - later[1:])
    assert errors[-100:].mean() < 1.2 * 0.1**2  # of the noise, of which nobody knows


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("patches", [Patches(2, 1), Patches(3, 1, periodic=False, shared=False)])
def test_local_networks_are_saved_and_loaded(kind, patches, tmp_path, save_and_load):
    esn = a_network(kind, patches).fit(Y[:-1], Y[1:])
    again = save_and_load(esn)
    assert again.local == patches
    np.testing.assert_array_equal(again.predict(Y), esn.predict(Y))
    if patches.shared:
        np.testing.assert_array_equal(save_and_load(again.partial_fit(Y[:5], Y[1:6])).predict(Y), again.predict(Y))
    esn.local = Patches(2, 0)
    with pytest.raises(ValueError, match="local"):
        esn.save(tmp_path / "field.pesn")


def test_ridge_and_washout_are_selected_for_all_patches():
    esn = a_network(pesn.ProbabilisticESN).set_params(ridge="auto", washout="auto").fit(Y[:-1], Y[1:])
    assert 1e-9 < esn.ridge_ <= 1.0
    assert 0 < esn.washout_ < 100


@pytest.mark.parametrize(("call", "message"), [
    (lambda kind: a_network(kind, Patches(4, 1)).fit(Y[:-1], Y[1:]), "local .*multiple of size=4, got 6"),
    (lambda kind: a_network(kind, Patches(2, 3)).fit(Y[:-1], Y[1:]), "local .*got 6"),
    (lambda kind: a_network(kind, (2, 1)).fit(Y[:-1], Y[1:]), "local .*pesn.Patches"),
    (lambda kind: a_network(kind).fit(Y[:-1, :4], Y[1:]), "first columns of X"),
    (lambda kind: a_network(kind, Patches(2, 1, shared=False)).partial_fit(Y[:-1], Y[1:]), "shared=True"),
    (lambda kind: a_network(kind, feedback="own", feedback_scaling=0.1).fit(Y[:-1], Y[1:]), OWN),
    (lambda kind: a_network(kind).online(P, P), "a stepper needs a network without local"),
])  # fmt: skip
@pytest.mark.parametrize("kind", NETWORKS)
def test_invalid_uses_of_local_are_named(kind, call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(kind)


def test_layers_and_rotations_are_refused():
    small = draw(6, 4, 2, rng=0, density=0.5)
    for odd in (small._replace(layers=(3, 3)), small._replace(rotation=np.eye(6))):
        with pytest.raises(ValueError, match="local goes with one layer"):
            repeat(odd, Patches(2, 1), P, P)
