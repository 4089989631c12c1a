"""Closed forms of a roll-out agree with samples; invalid arguments are refused by name."""

import mpmath
import numpy as np
import pandas as pd
import pytest

from pesn.forecasting.rollout import Band, Rollout, bivariate_cdf

B, H, D = 3, 6, 2
NAMES = ("x", "theta")
N = 200_000


def chain(rng, drift=0.1):
    """Return B Gaussian Markov chains y' = A y + b + noise: mean, cov, lagged, and a sampler of paths."""
    A = np.array([[0.95, 0.2], [-0.3, 0.9]])
    start, root = rng.normal(0, 0.3, (B, D)), np.array([[0.2, 0.0], [0.1, 0.15]])
    push = drift * rng.normal(size=(B, H, D))
    mean, cov = np.empty((B, H, D)), np.empty((B, H, D, D))
    m, c = start, np.broadcast_to(0.01 * np.eye(D), (B, D, D))
    for t in range(H):
        m, c = m @ A.T + push[:, t], A @ c @ A.T + root @ root.T
        mean[:, t], cov[:, t] = m, c
    lagged = np.stack([A @ cov[:, t] for t in range(H - 1)], axis=1)

    def draw(n):
        y = start[:, None] + 0.1 * rng.standard_normal((B, n, D))
        paths = np.empty((B, n, H, D))
        for t in range(H):
            y = y @ A.T + push[:, t][:, None] + rng.standard_normal((B, n, D)) @ root.T
            paths[:, :, t] = y
        return paths

    return mean, cov, lagged, draw


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    mean, cov, lagged, draw = chain(rng)
    return Rollout(mean, rng.normal(size=(B, H, 1)), cov, lagged, NAMES), draw(N)


def near(found, samples, axis=-1):
    """Check equality with the mean of samples within five standard errors."""
    error = samples.std(axis=axis) / np.sqrt(samples.shape[axis])
    np.testing.assert_array_less(np.abs(found - samples.mean(axis=axis)), 5 * error + 1e-12)


# ---------------------------------------------------------------- costs


def test_costs_are_means_over_samples(case):
    rollout, paths = case
    Q, R = np.array([[2.0, 0.3], [0.3, 0.5]]), np.array([[0.7]])
    goal = np.linspace(0, 1, H)[:, None] * [1.0, -0.5]
    away = paths - goal
    found = rollout.expected_cost(Q, goal, R)
    near(found - 0.7 * np.square(rollout.controls).sum((1, 2)), np.einsum("bnti,ij,bntj->bn", away, Q, away))
    # saturating cost is the mean over samples
    for Q in (np.array([[2.0, 0.9], [0.9, 0.5]]), np.diag([4.0, 0.0])):
        away = paths - [0.5, 0.2]
        samples = (1 - np.exp(-0.5 * np.einsum("bnti,ij,bntj->bnt", away, Q, away))).sum(axis=2)
        near(rollout.saturating_cost(Q, [0.5, 0.2]), samples)
    assert rollout.saturating_cost(1e12).max() <= H
    np.testing.assert_allclose(rollout.saturating_cost(0.0), 0.0)
    # angle cost is the mean over samples and periodic
    near(rollout.angle_cost("theta", 0.7), (1 - np.cos(paths[..., 1] - 0.7)).sum(axis=2))
    np.testing.assert_allclose(rollout.angle_cost(1, np.full(H, 0.7 + 2 * np.pi)), rollout.angle_cost(1, 0.7))


def test_costs_of_means_and_by_name(case):
    rollout, _ = case
    means = Rollout(rollout.mean, rollout.controls, names=NAMES)
    certain = Rollout(rollout.mean, rollout.controls, np.zeros((B, H, D, D)), names=NAMES)
    for cost in (
        lambda r: r.expected_cost([1.0, 2.0], 0.3, 0.1),
        lambda r: r.saturating_cost([1.0, 2.0], 0.3),
        lambda r: r.angle_cost("theta"),
    ):
        np.testing.assert_allclose(cost(means), cost(certain), rtol=1e-12)
    assert means.var is None
    assert means.std is None
    for question in (lambda: means.interval(), lambda: means.probability("x", above=1.0)):
        with pytest.raises(ValueError, match="means alone were rolled out"):
            question()
    # weights and goals may be given by name
    expected = rollout.expected_cost(np.diag([0.0, 2.0]), [0.0, 1.0])
    np.testing.assert_allclose(rollout.expected_cost({"theta": 2.0}, {"theta": 1.0}), expected)
    np.testing.assert_allclose(rollout.expected_cost(pd.Series({"theta": 2.0, "x": 0.0}), pd.Series({"theta": 1.0})), expected)
    for path in (pd.DataFrame({"theta": np.ones(H)}), {"theta": np.ones(H), "x": 0.0}):
        np.testing.assert_allclose(rollout.expected_cost([0.0, 2.0], path), expected)
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], index=["theta", "x"], columns=["x", "theta"])  # in any order
    np.testing.assert_array_equal(rollout.expected_cost(frame), rollout.expected_cost([[3.0, 4.0], [1.0, 2.0]]))
    np.testing.assert_allclose(rollout.expected_cost(2.0, 1.0), rollout.expected_cost(2.0 * np.eye(2), [1.0, 1.0]))


# ---------------------------------------------------------------- probabilities


def test_probabilities_of_steps_and_paths_are_shares_of_samples(case):
    rollout, paths = case
    x = np.swapaxes(paths[..., 0], 1, 2)
    near(rollout.probability("x", above=0.3), x > 0.3)
    near(rollout.probability(0, below=-0.2), x < -0.2)
    near(rollout.probability("x", above=0.3, below=-0.2), (x > 0.3) | (x < -0.2))
    # path probability is bounded and estimated
    # The column is Markov only together with the other one: the estimate is close, and below the bound.
    for levels in ({"above": 0.4}, {"above": 0.5, "below": -0.5}):
        out = (paths[..., 0] > levels["above"]) | (paths[..., 0] < levels.get("below", -np.inf))
        truth = out.any(axis=2).mean(axis=1)
        bound, markov = (rollout.path_probability("x", **levels, method=method) for method in ("bound", "markov"))
        assert (bound >= truth - 0.005).all()
        assert ((markov <= bound) & (markov >= rollout.probability("x", **levels).max(axis=1))).all()
        assert np.abs(markov - truth).max() < 0.05
        assert np.abs(markov - truth).max() < 0.5 * np.abs(bound - truth).max()


def test_markov_estimate_is_exact_for_two_steps_and_conservative_for_rough_paths():
    rng = np.random.default_rng(1)
    t = np.arange(1.0, 21.0)
    walk = np.cumsum(rng.standard_normal((N, 20)), axis=1)
    two = Band(np.zeros(2), np.sqrt(t[:2]), -1.5, 2.0)
    near(two.path_markov(t[:1]), ((walk[:, :2] > 2.0) | (walk[:, :2] < -1.5)).any(axis=1))
    rough = Band(np.zeros(20), np.sqrt(t), -np.inf, 8.0)
    truth = (walk > 8.0).any(axis=1).mean()
    assert truth < float(rough.path_markov(t[:-1])) < 1.4 * truth < 0.4 * float(rough.path_limit())
    position = np.cumsum(walk, axis=1)  # of a velocity that walks: smooth, as positions are
    cov = np.cov(position.T)
    smooth = Band(np.zeros(20), np.sqrt(np.diag(cov)), -np.inf, 60.0)
    truth = (position > 60.0).any(axis=1).mean()
    assert abs(float(smooth.path_markov(np.diag(cov, 1))) / truth - 1.0) < 0.05 < float(smooth.path_limit()) / truth - 1.0


def test_bivariate_cdf_agrees_with_quadrature():
    places = [(0.3, -1.2), (0.0, 0.0), (0.0, 1.0), (2.5, 2.4), (-1.0, 1.0), (6.0, -7.0)]
    for (h, k), rho in zip(places, [0.5, -0.7, 0.9, 0.999, -0.99, 0.2], strict=True):
        away = mpmath.sqrt(1 - mpmath.mpf(rho) ** 2)
        inner = lambda x, k=k, rho=rho, away=away: mpmath.npdf(x) * mpmath.ncdf((k - rho * x) / away)  # noqa: E731
        points = sorted({-mpmath.inf, *(p for p in (k / rho - 0.2, k / rho, k / rho + 0.2, -8.0) if p < h), h})
        expected = float(mpmath.quad(inner, points))
        assert abs(float(bivariate_cdf(h, k, rho)) - expected) < 1e-12, (h, k, rho)
    h = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(bivariate_cdf(h, h, 1.0), bivariate_cdf(h, np.full(7, 38.0), 0.3), atol=1e-7)  # min of one number


def test_certain_steps_are_inside_or_outside():
    rollout = Rollout(np.array([[[1.0], [3.0], [1.0]]]), np.zeros((1, 3, 1)), np.zeros((1, 3, 1, 1)), np.zeros((1, 2, 1, 1)))
    np.testing.assert_array_equal(rollout.probability(0, above=2.0), [[0.0, 1.0, 0.0]])
    np.testing.assert_array_equal(rollout.probability(0, above=3.0), [[0.0, 0.0, 0.0]])  # at the level is not above it
    for method in ("bound", "markov"):
        assert rollout.path_probability(0, above=2.0, method=method) == 1.0
        assert rollout.path_probability(0, above=3.0, method=method) == 0.0


# ---------------------------------------------------------------- parts of it, and pictures


def test_indexing_selects_plans_and_steps(case):
    rollout, _ = case
    costs = rollout.expected_cost(1.0, 0.2)
    for i in range(B):
        np.testing.assert_allclose(rollout[i].expected_cost(1.0, 0.2), costs[[i]])
    np.testing.assert_allclose(rollout[[2, 0]].expected_cost(1.0, 0.2), costs[[2, 0]])
    np.testing.assert_allclose(rollout[costs < np.median(costs)].expected_cost(1.0, 0.2), costs[costs < np.median(costs)])
    early, late = rollout[:, :2], rollout[:, 2:]
    np.testing.assert_allclose(early.expected_cost(1.0, 0.2) + late.expected_cost(1.0, 0.2), costs)
    np.testing.assert_array_equal(late.lagged, rollout.lagged[:, 2:])
    assert (early.lagged.shape, len(rollout), rollout[-1].horizon) == ((B, 1, D, D), B, H)
    for wrong in (7, [0, 5]):
        with pytest.raises(IndexError, match="plans must be among the 3"):
            rollout[wrong]
    with pytest.raises(TypeError, match="slice without gaps"):
        rollout[:, ::2]
    with pytest.raises(IndexError, match="no part"):
        rollout[:, 9:]


def test_plan_as_a_forecast(case):
    rollout, paths = case
    forecast = rollout.forecast(1, history=paths[1, 1])
    np.testing.assert_array_equal(forecast.mean, rollout.mean[1])
    np.testing.assert_allclose(forecast.to_frame(level=0.9)["theta_upper"], rollout.interval(0.9)[1][1, :, 1])
    assert len(forecast.plot(truth=paths[1, 0])) == D
    assert Rollout(rollout.mean, rollout.controls).forecast().std.max() == 0.0
    each = np.arange(rollout.mean[:, 0].size, dtype=float).reshape(len(rollout), -1)
    for start in (each, each[0]):  # figures begin there, but not those of later steps
        begun = Rollout(rollout.mean, rollout.controls, names=rollout.names, start=start)
        np.testing.assert_array_equal(begun[1:].forecast(1).history, np.broadcast_to(start, each.shape)[2:3])
        assert begun.forecast(0).plot()._repr_png_().startswith(b"\x89PNG")
        assert begun[:, 1:].start is None


# ---------------------------------------------------------------- refusals

PLAIN = Rollout(np.zeros((2, 3, 2)), np.zeros((2, 3, 1)), np.broadcast_to(np.eye(2), (2, 3, 2, 2)), names=NAMES)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: Rollout(np.zeros((2, 3, 2)), np.zeros((2, 4, 1))), "controls must have shape"),
    (lambda: Rollout(np.zeros((2, 3, 2)), np.zeros((2, 3, 1)), np.zeros((2, 3, 2))), "cov must have shape"),
    (lambda: Rollout(np.zeros((2, 3, 2)), np.zeros((2, 3, 1)), names=("x",)), "names must be 2 different strings"),
    (lambda: Rollout(np.zeros((2, 3, 2)), np.zeros((2, 3, 1)), start=[0.0]), r"start must have shape \(2,\) or \(2, 2\)"),
    (lambda: PLAIN.expected_cost(np.eye(3)), r"Q must be a number, \(2,\) or \(2, 2\), got shape \(3, 3\)"),
    (lambda: PLAIN.expected_cost({"y": 1.0}), "Q must name columns among x, theta, got 'y'"),
    (lambda: PLAIN.expected_cost(1.0, R=np.ones(2)), "R must be a number"),
    (lambda: PLAIN.saturating_cost(-1e-10), "Q must be positive semi-definite, got an eigenvalue of -1e-10"),
    (lambda: PLAIN.expected_cost({"x": [1.0, 2.0]}), r"Q must be a number for each name, got shape \(2,\) for 'x'"),
    (lambda: PLAIN.expected_cost(1.0, {"x": np.zeros(3), "theta": np.zeros(2)}), r"goal must be numbers, or paths of one"),
    (lambda: Rollout(PLAIN.mean, PLAIN.controls, -PLAIN.cov).saturating_cost(9.0), "cov must be positive semi-definite"),
    (lambda: PLAIN.angle_cost("phi"), "column must be among x, theta"),
    (lambda: PLAIN.angle_cost("theta", [0.0, 1.0]), "goal must be an angle or a path of 3 angles"),
    (lambda: PLAIN.probability("x"), "above or below must be given"),
    (lambda: PLAIN.probability("x", above=-1.0, below=1.0), "below must not lie above"),
    (lambda: PLAIN.path_probability("x", above=1.0, method="exact"), "method must be 'bound' or 'markov'"),
    (lambda: PLAIN.path_probability("x", above=1.0, method="markov"), "needs lagged"),
    (lambda: PLAIN.forecast(slice(None)), "plan must be one plan"),
])  # fmt: skip
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
