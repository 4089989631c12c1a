"""Tests of the model: with linear units it is a linear state-space model, and a rollout equals the Kalman filter."""

import numpy as np
import pytest
from scipy import sparse

from pesn.linalg import orthonormal
from pesn.statespace.cell import Cell, Compression, Noise
from pesn.statespace.ensemble import Draws, Ensemble
from pesn.statespace.model import Bounds, Emission, StateSpaceModel, init, rollout
from pesn.statespace.state import Layout

LAYOUT = Layout.from_sizes(y=2, u=1, units=5)


def system(seed=0):
    """Return a stable system h ← F h + B u + b + q, y = H h + a + r with five hidden entries and two outputs."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(5, 5))
    F *= 0.8 / np.abs(np.linalg.eigvals(F)).max()
    q, r = 0.2 * rng.normal(size=(3, 5)), 0.3 * rng.normal(size=(2, 2))
    return {
        "F": F, "B": rng.normal(size=(5, 1)), "b": 0.3 * rng.normal(size=5), "q": q, "Q": q.T @ q + 0.01 * np.eye(5),
        "H": rng.normal(size=(2, 5)), "a": rng.normal(size=2), "r": r, "R": r @ r.T,
    }  # fmt: skip


def make_compression(s):
    return Compression(30, orthonormal(s["H"].T), 0)


def model_of(kit, s, leak=0.7, **options):
    """Return the system as a model, with L A h + (1 − L) h = F h."""
    A = np.zeros((5, LAYOUT.size))
    A[:, LAYOUT["units"]] = (s["F"] - (1.0 - leak) * np.eye(5)) / leak
    A[:, LAYOUT["u"]] = s["B"] / leak
    K = np.zeros((3, LAYOUT.size))
    K[:2, LAYOUT["units"]], K[2, 2] = s["H"], 1.0
    root = np.vstack([s["r"], np.zeros((1, 2))])
    var = np.diag(s["R"])
    return StateSpaceModel(
        cells=(Cell(LAYOUT["units"], sparse.csr_array(A), s["b"] / leak, leak, kit.LinearUnits(), make_compression(s)),),
        K=K, k=np.append(s["a"], 0.0), inputs=LAYOUT["u"], outputs=LAYOUT["y"],
        process_noise=Noise(s["q"], np.full(5, 0.01)), emission_noise=lambda state: Emission(root, 0.8 * var, var), **options,
    )  # fmt: skip


def state_of(form, s, seed=1, spread=1.0):
    rng = np.random.default_rng(seed)
    mean, root = rng.normal(size=5), spread * rng.normal(size=(6, 5))
    return init(form, 3, mean, root, make_compression(s)), mean, root.T @ root


def kalman(s, h, P, inputs, observations):
    """Run the textbook Kalman filter; return predictions of y with covariances, and the last h with its covariance."""
    means, covs = [], []
    for u, y in zip(inputs, observations, strict=True):
        h, P = s["F"] @ h + s["B"] @ u + s["b"], s["F"] @ P @ s["F"].T + s["Q"]
        S = s["H"] @ P @ s["H"].T + s["R"]
        means.append(s["H"] @ h + s["a"])
        covs.append(S)
        seen = ~np.isnan(y)
        if seen.any():
            H = s["H"][seen]
            G = P @ H.T @ np.linalg.inv(S[np.ix_(seen, seen)])
            h, P = h + G @ (y - means[-1])[seen], P - G @ H @ P
    return np.array(means), np.array(covs), h, P


@pytest.mark.parametrize("form", ["full", "low-rank"])
@pytest.mark.parametrize("leak", [1.0, 0.7])
@pytest.mark.parametrize("observed", [False, True])
def test_rollout_with_linear_units_equals_the_kalman_filter(kit, form, leak, observed):
    s, rng = system(), np.random.default_rng(2)
    model = model_of(kit, s, leak)
    state, h, P = state_of(form, s)
    inputs, y = rng.normal(size=(30, 1)), 2.0 * rng.normal(size=(30, 2))
    y[rng.random(y.shape) < 0.3] = np.nan
    y[4], y[7] = np.nan, 0.5
    path = rollout(model, state, inputs, observations=y if observed else None)
    mean, cov, h, P = kalman(s, h, P, inputs, y if observed else np.nan * y)
    kit.close(path.mean, mean, 1e-10)
    kit.close(path.cov, cov, 1e-10)
    kit.close(path.state.mean[LAYOUT["units"]], h, 1e-10)
    kit.close(path.state.block_covariance(LAYOUT["units"]), P, 1e-9)
    kit.close(path.parts["noise"], np.broadcast_to(0.8 * np.diag(s["R"]), (30, 2)), 1e-12)
    kit.close(path.parts["weights"], np.broadcast_to(0.2 * np.diag(s["R"]), (30, 2)), 1e-12)
    kit.close(sum(path.parts.values()), np.diagonal(cov, axis1=1, axis2=2), 1e-10)


def test_ensemble_filter_agrees_with_the_kalman_filter(kit):
    s, rng = system(), np.random.default_rng(2)
    _, h, P = state_of("full", s)
    members = np.zeros((50_000, 8))
    members[:, 3:] = h + rng.standard_normal((50_000, 5)) @ np.linalg.cholesky(P).T
    inputs, y = rng.normal(size=(6, 1)), rng.normal(size=(6, 2))
    path = rollout(model_of(kit, s), Ensemble(members, 3, Draws(1)), inputs, observations=y)
    mean, cov, *_ = kalman(s, h, P, inputs, y)
    std = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    assert np.all(np.abs(path.mean - mean) < 0.05 * std)
    np.testing.assert_allclose(path.cov, cov, atol=0.05 * std.max() ** 2)


def test_input_variances_add_to_output_covariances(kit):
    s = system()
    inputs, var = np.ones((4, 1)), np.array([[0.5], [0.0], [1.0], [0.2]])
    for form in ("full", "low-rank"):
        state, _, P = state_of(form, s)
        path = rollout(model_of(kit, s), state, inputs, var)
        for k in range(4):
            P = s["F"] @ P @ s["F"].T + var[k] * s["B"] @ s["B"].T + s["Q"]
            kit.close(path.cov[k], s["H"] @ P @ s["H"].T + s["R"], 1e-10)


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal"])
def test_guard_limits_reported_moments_and_parts(kit, form):
    """A diverging loop stays within its bounds, and the variance parts add up to the bounded variance."""
    s = system()
    s["F"] = 1.5 * s["F"]
    state, *_ = state_of(form, s)
    guard, free = Bounds(np.zeros(2), np.ones(2), -np.ones(2), np.ones(2), np.zeros(2, bool)), model_of(kit, s)
    bound = model_of(kit, s, guard=guard)
    reported = []
    for _ in range(20):
        before, _ = free.predict(state, np.zeros(1))
        expected, factor, left = guard(before, state.mean[:2])
        state, info = bound.predict(state, np.zeros(1))
        kit.close(info.mean, expected.mean[:2], 1e-12)
        kit.close(info.cov, expected.block_covariance(LAYOUT["y"]), 1e-12)
        np.testing.assert_array_equal(info.left, left)
        kit.close(sum(info.parts.values()), np.diag(info.cov), 1e-12)
        assert all(np.all(part >= 0.0) for part in info.parts.values())
        assert np.sqrt(np.diag(info.cov)).max() <= 2.0 * (1.0 + 1e-12)
        reported.append(np.any(factor < 1.0))
    assert any(reported)


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal"])
def test_guard_limits_the_variance_of_uncertain_parameters(kit, form):
    """The covariance of y and its covariance with the parameters shrink together, so that y stays within its bounds."""
    s = system()
    guard = Bounds(np.zeros(2), np.ones(2), -np.ones(2), np.ones(2), np.zeros(2, bool))
    model = model_of(kit, s, guard=guard, parameter_root=np.eye(2))
    state = state_of(form, s, spread=0.1)[0].with_unknowns(4)
    state, info = model.emit(model.move(model.set_inputs(state, np.zeros(1))), along=np.array([30.0, 0.1]))
    G = state.covariance_with_past(LAYOUT["y"])
    alone = model_of(kit, s, guard=guard).predict(state_of(form, s, spread=0.1)[0], np.zeros(1))[1].cov
    kit.close(info.cov - alone, G @ G.T, 1e-9)
    np.testing.assert_allclose(np.diag(info.cov), guard.widest() ** 2, rtol=1e-9)


# ---------------------------------------------------------------- guard
#
# Bounds limit standard deviations, shrink means and reset means that have left; kinematic columns are not reset.


CENTER, WIDTH = np.array([0.5, -1.0]), np.array([1.0, 2.0])
LOW, HIGH = CENTER - 1.5 * WIDTH, CENTER + 1.5 * WIDTH  # so that a mean has left beyond 4.5 widths
FORMS = ("full", "low-rank", "diagonal")


def bounds(kinematic=(False, False), **options):
    return Bounds(CENTER, WIDTH, LOW, HIGH, np.array(kinematic), **options)


def guarded_state(kit, form, away, std):
    """Return a state with the mean and std of y given in widths of the training data; y is correlated with h."""
    state = kit.some(kit.world(), form)
    K = np.zeros((2, 10))
    K[:, :2] = np.diag(0.6 * np.asarray(std) * WIDTH / np.sqrt(state.variances()[:2]))
    k = CENTER + np.asarray(away) * WIDTH - K[:, :2] @ state.mean[:2]
    return state.affine(slice(0, 2), K, k, np.diag(0.8 * np.asarray(std) * WIDTH))


def of(state):
    return (state.mean[..., :2] - CENTER) / WIDTH, np.sqrt(state.variances()[..., :2]) / WIDTH


NO, YES, BOTH = (False, False), (True, True), {"kinematic": (True, True)}
# case: mean, standard deviation and the mean before, in widths; options; then mean, standard deviation, factor and what has left
GUARDED = {
    "within": ((4.4, -4.4), (0.1, 2.0), (0.0, 0.0), {}, (4.4, -4.4), (0.1, 2.0), (1.0, 1.0), NO),
    "mean reduced by the square": ((3.0, -1.0), (8.0, 1.5), (0.0, 0.0), {}, (3.0 / 16.0, -1.0), (2.0, 1.5), (0.25, 1.0), NO),
    "mean reduced to the range": ((4.4, 0.0), (2.05, 1.0), (0.0, 0.0), {}, (3.5, 0.0), (2.0, 1.0), (2.0 / 2.05, 1.0), NO),
    "left": ((7.0, -7.0), (0.6, 1.2), (0.0, 0.0), {}, (2.5, -2.7), (1.0, 1.2), (1.0, 1.0), YES),
    "left, not widened": ((7.0, -7.0), (0.6, 1.2), (0.0, 0.0), {"widen": False}, (2.1, -2.7), (0.6, 1.2), (1.0, 1.0), YES),
    "one returns": ((7.0, -7.0), (0.5, 0.5), (7.5, -6.5), {}, (7.0, -2.5), (0.5, 1.0), (1.0, 1.0), (False, True)),
    # a twentieth of the distance beyond the bounds, at 4.5 widths, is the least return of a step
    "too slow": ((10.26, -10.14), (0.5, 0.5), (10.5, -10.5), {}, (2.5, -10.14), (1.0, 0.5), (1.0, 1.0), (True, False)),
    "kinematic": ((30.0, 30.0), (14.0, 20.0), (29.0, 29.0), BOTH, (30.0, 30.0 * 0.75**2), (14.0, 15.0), (1.0, 0.75), NO),
    "kinematic, near": ((1.0, 0.0), (4.0, 1.0), (0.0, 0.0), BOTH, (0.25, 0.0), (2.0, 1.0), (0.5, 1.0), NO),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", GUARDED)
def test_bounds_limit_means_and_standard_deviations(kit, form, case):
    away, std, before, options, *expected, has_left = GUARDED[case]
    state = guarded_state(kit, form, away, std)
    bound, factor, left = bounds(**options)(state, CENTER + np.array(before) * WIDTH)
    for found, value in zip((*of(bound), factor), expected, strict=True):
        kit.close(found, np.array(value), 1e-12)
    np.testing.assert_array_equal(left, has_left)
    assert case != "within" or bound is state
    if form != "diagonal" and not left.any():  # a linear map of y, including its covariances
        kit.close(bound.cross_covariance(slice(0, 2))[2:], factor * state.cross_covariance(slice(0, 2))[2:], 1e-12)
    np.testing.assert_array_equal(bound.mean[2:], state.mean[2:])


@pytest.mark.parametrize("form", FORMS)
def test_guarded_batch_equals_single_states(kit, form):
    """Include states that are within, too wide, outside, both, and returning."""
    places = [((1.0, 0.0), (1.0, 1.0)), ((1.0, 0.0), (9.0, 1.0)), ((7.0, 0.0), (0.5, 3.0)), ((9.0, -9.0), (5.0, 1.0))]
    places.append(((6.0, 50.0), (0.1, 30.0)))
    states = [guarded_state(kit, form, *place) for place in places]
    before = CENTER + WIDTH * np.array([[0.0, 0.0]] * 4 + [[6.5, 0.0]])
    for guard in (bounds(), bounds((False, True)), bounds((True, False), widen=False)):
        batch = kit.batch_of(states, (5,))
        together, factor, left = guard(batch, before)
        for i, state in enumerate(states):
            alone, its_factor, its_left = guard(state, before[i])
            kit.close(together.mean[i], alone.mean, 1e-12)
            kit.close(kit.cov_of(together)[i], kit.cov_of(alone), 1e-12)
            kit.close(factor[i], its_factor, 1e-13)
            np.testing.assert_array_equal(left[i], its_left)


# ---------------------------------------------------------------- ensemble members


def test_diverging_members_do_not_affect_the_others(kit):
    """Only outliers are reset to the range; scaling the whole ensemble would collapse it to a point."""
    members = kit.ensemble_of(guarded_state(kit, "full", (0.0, 0.0), (0.5, 0.5)), 200)
    x = members.members.copy()
    x[7, 0], x[9, 1] = 1e6, -1e100
    for widen in (True, False):
        held, factor, left = bounds(widen=widen)(Ensemble(x, 2, Draws(0)), CENTER)
        np.testing.assert_array_equal(factor, 1.0)
        assert not left.any()
        others = np.delete(np.arange(200), [7, 9])
        np.testing.assert_array_equal(held.members[others], x[others])
        np.testing.assert_array_equal(held.members[:, 2:], x[:, 2:])
        back = np.array([held.members[7, 0] - HIGH[0], held.members[9, 1] - LOW[1]])
        assert np.all(np.abs(back) <= 4.0 * WIDTH * widen)


@pytest.mark.parametrize("away", [3.0, 20.0])
def test_members_that_return_or_are_kinematic_are_not_bounded(kit, away):
    members = kit.ensemble_of(guarded_state(kit, "full", (away, 0.0), (0.5, 0.5)), 100)
    same, _, left = bounds()(members, CENTER + np.array([away + 1.0, 0.0]) * WIDTH)  # returning
    assert same is members
    assert not left.any()
    assert bounds((True, False))(members, CENTER + np.array([away - 1.0, 0.0]) * WIDTH)[0] is members
    held, _, left = bounds()(members, CENTER)
    assert left[0] == (held is not members) == (away > 4.5)


def test_too_wide_ensemble_is_scaled_to_the_bound(kit):
    members = kit.ensemble_of(guarded_state(kit, "full", (0.0, 0.0), (2.5, 1.0)), 20_000)
    bound, factor, _ = bounds()(members, CENTER)
    assert factor[0] < 1.0
    np.testing.assert_allclose(of(bound)[1], [2.0, 1.0], rtol=0.01)


@pytest.mark.parametrize("form", [*FORMS, "ensemble"])
def test_bounds_of_a_free_column_are_translation_invariant(kit, form):
    """The bounds act equally at any position of the free column, for any width."""
    free = bounds(free=np.array([False, True]))
    away, far = np.array([0.0, 3.0]), np.array([0.0, 500.0])
    if form == "ensemble":
        members = CENTER + WIDTH * np.random.default_rng(0).normal(size=(400, 2)) * np.array([0.5, 5.0])
        near, there = (Ensemble(np.hstack([members + by, np.zeros((400, 2))]), 2, Draws(0)) for by in (away, far))
    else:
        near, there = (guarded_state(kit, form, by / WIDTH, (1.0, 9.0)) for by in (away, far))
    (one, factor, left), (other, *rest) = (free(state, CENTER + by) for state, by in ((near, away), (there, far)))
    kit.close(other.mean[..., :2] - far, one.mean[..., :2] - away, 1e-10)
    kit.close(other.variances(), one.variances(), 1e-10)
    np.testing.assert_array_equal(rest, [factor, left])
    np.testing.assert_array_equal(factor, 1.0)
    assert not left.any()
    np.testing.assert_array_equal(free.widest(), [2.0 * WIDTH[0], np.inf])


def test_free_column_that_jumps_keeps_its_previous_value(kit):
    free = bounds(free=np.array([False, True]))
    for place in (0.0, 300.0):
        state = guarded_state(kit, "full", (0.0, place), (0.5, 0.5))
        bound, _, left = free(state, CENTER + WIDTH * np.array([0.0, place - 10.0]))
        np.testing.assert_array_equal(left, [False, True])
        kit.close(of(bound)[0], np.array([0.0, place - 10.0]), 1e-9)
