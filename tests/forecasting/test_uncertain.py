"""Gaussian contexts and inputs agree with samples drawn from them: without variance they equal known rows, with a large one
missing rows; later rows are measurements.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest

from pesn import Forecaster, Gaussian, ProbabilisticESN
from pesn.statespace.model import rollout
from pesn.systems import cart_pole

HORIZON = 20


@pytest.fixture(scope="module")
def runs():
    return cart_pole.simulate(runs=3, steps=400, rng=0)


def fitted(runs, y_scale=1.0, x_scale=1.0, **more):
    """Fit with kinematic positions, in scaled units."""
    half = 0.5 * runs.dt * np.eye(2)
    esn = ProbabilisticESN(24, **{"washout": 50, "process_noise": 0.0, "random_state": 0, **more})
    model = Forecaster(esn, learn=[2, 3], kinematics=(np.hstack([np.eye(2), half]), half, np.zeros(2)), calibrate=False)
    return model.fit(y_scale * runs.states, x_scale * runs.inputs, lengths=runs.lengths)


@pytest.fixture(scope="module")
def model(runs):
    return fitted(runs)


def blurred(rows, share, usual):
    """Return rows with noise of a share of each column's standard deviation."""
    return Gaussian(rows, var=np.broadcast_to(np.square(share * usual), rows.shape))


def close(one, other, within):
    """Compare two forecasts in units of the largest standard deviation of each column."""
    size = other.std.max(axis=0)
    np.testing.assert_allclose(one.mean / size, other.mean / size, rtol=0, atol=within)
    np.testing.assert_allclose(one.std / size, other.std / size, rtol=0, atol=within)


# ---------------------------------------------------------------- what is drawn


def drawn(model, start, controls, n, rng):
    """Simulate y (n, horizon, d) from sampled initial rows, controls and units, without linearization."""
    loop, given, scale = replace(model.loop(("state",)), form="diagonal"), model.esn_.start_, model.scale_
    y, u = scale.apply(start.sample(n, rng), controls.sample(n, rng))
    means, roots = zip(*(given.predict(np.append(row, now)[None]) for row, now in zip(y, u[:, 0], strict=True)), strict=True)
    units = means + rng.standard_normal((n, len(roots[0]))) @ roots[0]
    path = rollout(loop.model, loop.init(units, np.zeros((n, 0, 24)), y, u[:, 0]), u, moved=True)
    assert not path.cov.any()  # each of them is certain
    return scale.undo(path.mean)


@pytest.mark.parametrize("covariance", ["full", "low-rank"])
def test_moments_agree_with_sampled_contexts_and_controls(runs, covariance):
    model, usual, rng = fitted(runs, covariance=covariance, rank=16), runs.states.std(axis=0), np.random.default_rng(1)
    cov = np.square(0.1) * np.outer(usual, usual) * (0.4 * np.eye(4) + 0.6)  # correlated columns
    start = Gaussian(runs.states[150], cov=cov)
    controls = Gaussian(runs.inputs[150 : 150 + HORIZON], var=np.full((HORIZON, 1), 0.25 * runs.inputs.var()))
    ahead = model.forecast(HORIZON, start, controls, parts=("state",))
    paths = drawn(model, start, controls, 1500, rng)
    assert (np.abs(ahead.mean - paths.mean(axis=0)) < 0.1 * paths.std(axis=0)).all()
    np.testing.assert_allclose(ahead.std, paths.std(axis=0), rtol=0.1)
    certain = model.forecast(HORIZON, runs.states[150:151], controls.mean, parts=("state",))
    assert (ahead.std > 1.5 * certain.std).all()  # it is not what the network says anyway


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("kind", [{}, {"covariance": "low-rank"}, {"covariance": "diagonal"}, {"initial_state": "stationary"},
                                  {"feedback_scaling": 0.3}])  # fmt: skip
def test_zero_variance_equals_known_rows(runs, kind):
    model = fitted(runs, **kind)
    for n in (1, 5, 30, 90):
        y, u, ahead = runs.states[200 : 200 + n], runs.inputs[200 : 199 + n], runs.inputs[199 + n : 205 + n]
        exact = model.forecast(6, (y, u), ahead)
        close(model.forecast(6, (Gaussian(y), Gaussian(u)), Gaussian(ahead)), exact, 0.0)
        # five rows that are certain are taken at once; ninety drive the units, where a diagonal form would filter otherwise
        if n != 5 and (n != 90 or kind != {"covariance": "diagonal"}):
            close(model.forecast(6, (Gaussian(y, var=1e-18), u), Gaussian(ahead, var=1e-18)), exact, 1e-3)


@pytest.mark.parametrize("form", ["full", "low-rank", "diagonal"])
def test_infinite_measurement_noise_equals_missing(runs, form):
    model = fitted(runs, covariance=form)
    y, u, ahead = runs.states[200:230], runs.inputs[200:229], runs.inputs[229:239]
    gone, noise = y.copy(), np.zeros((30, 4))
    gone[20:, 1], gone[11] = np.nan, np.nan
    noise[np.isnan(gone)] = 1e12
    close(model.forecast(10, (Gaussian(y, var=noise), u), ahead), model.forecast(10, (gone, u), ahead), 1e-5)


def test_input_with_training_distribution_equals_missing_input(model, runs):
    X = runs.inputs
    mean, var = np.full((8, 1), X.mean()), np.full((8, 1), X.var())
    close(model.forecast(8, X=Gaussian(mean, var=var)), model.forecast(8, X=np.full((8, 1), np.nan)), 1e-9)
    known, missing = X[100:119].copy(), X[100:119].copy()
    missing[15], known[15], noise = np.nan, X.mean(), np.zeros((19, 1))
    noise[15] = X.var()
    y, ahead = runs.states[100:120], X[119:127]
    close(model.forecast(8, (y, Gaussian(known, var=noise)), ahead), model.forecast(8, (y, missing), ahead), 1e-9)


def test_missing_and_uncertain_entries_combine(model, runs):
    """Missing entries of a first row are regressed on the others."""
    usual, u, unknown = runs.states.std(axis=0), runs.inputs[150:156], np.full((6, 1), np.nan)
    vague = model.forecast(6, blurred(runs.states[150:151], 0.1, usual), unknown)
    assert (vague.std > model.forecast(6, blurred(runs.states[150:151], 0.1, usual), u).std * 0.999).all()
    seen = runs.states[150:151].copy()
    seen[0, 2] = np.nan
    partial = model.forecast(6, seen, Gaussian(u, var=np.full((6, 1), 0.01)))
    assert np.isfinite(partial.mean).all()
    assert (partial.std[:, 2] > 2.0 * model.forecast(6, runs.states[150:151], u).std[:, 2]).all()


# ---------------------------------------------------------------- measurements


def test_several_measurements_are_more_accurate_and_calibrated(model, runs):
    usual, rng, ratios = runs.states.std(axis=0), np.random.default_rng(0), []
    for k in range(60, 380, 20):
        noise = 0.1 * usual * rng.standard_normal((21, 4))
        y = blurred(runs.states[k - 20 : k + 1] + noise, 0.1, usual)
        ahead = model.forecast(5, (y, runs.inputs[k - 20 : k]), runs.inputs[k : k + 5])
        assert (ahead.std[0] < 0.6 * 0.1 * usual).all()  # than the last row alone says
        ratios.append((ahead.mean - runs.states[k + 1 : k + 6]) / ahead.std)
    assert 0.5 < np.mean(np.square(ratios)) < 1.5
    assert np.mean(np.abs(ratios) < 1.96) > 0.9


def test_noise_correlations_matter(model, runs):
    """A common error of two columns cancels in their difference."""
    usual = 0.2 * runs.states.std(axis=0)
    apart = np.diag(np.square(usual))
    together = apart.copy()
    together[2, 3] = together[3, 2] = 0.95 * usual[2] * usual[3]
    y, u, ahead = runs.states[100:106], runs.inputs[100:105], runs.inputs[105:107]
    one, other = (model.forecast(2, (Gaussian(y, cov=np.tile(cov, (6, 1, 1))), u), ahead) for cov in (apart, together))
    difference = np.array([0.0, 0.0, 1.0 / usual[2], -1.0 / usual[3]])
    assert difference @ other.cov[0] @ difference < 0.5 * (difference @ one.cov[0] @ difference)


def test_uncertain_forecasts_are_invariant_to_units(model, runs):
    usual, u = runs.states.std(axis=0), runs.inputs[150:160]
    y, other = runs.states[140:151], fitted(runs, 1e4, 1e-3)
    one = model.forecast(10, (blurred(y, 0.1, usual), u), Gaussian(u, var=np.full((10, 1), 0.2)))
    scaled = Gaussian(1e-3 * u, var=np.full((10, 1), 0.2e-6))
    same = other.forecast(10, (blurred(1e4 * y, 0.1, 1e4 * usual), 1e-3 * u), scaled)
    np.testing.assert_allclose(same.mean / 1e4, one.mean, atol=1e-6)
    np.testing.assert_allclose(same.std / 1e4, one.std, rtol=1e-5)


# ---------------------------------------------------------------- the paper's own variance


def test_state_part_is_the_readout_of_the_state_covariance(runs):
    """One step is W Σ_b Wᵀ with Σ_b of [1, y, u, h], without model errors, calibrated or not."""
    esn = ProbabilisticESN(24, washout=50, process_noise=0.0, random_state=0)
    model = Forecaster(esn, target="level").fit(runs.states, runs.inputs, lengths=runs.lengths)
    assert np.abs(model.calibration_ - 1.0).max() > 0.01
    start, controls = Gaussian(runs.states[150], var=0.01), Gaussian(runs.inputs[150:151], var=[[0.04]])
    y, u = model.scale_.apply(start.mean, controls.mean[0])
    root = np.sqrt(np.concatenate([0.01 / np.square(model.scale_.y_std), 0.04 / np.square(model.scale_.x_std)]))
    _, both = model.esn_.start_.predict_gaussian(np.concatenate([y, u]), np.diag(root))
    W = model.esn_.readout_.weights[:, 1:] * (model.output_std_ * model.scale_.y_std)[:, None]
    forecast = model.forecast(1, start, controls, parts=("state",))
    np.testing.assert_allclose(forecast.cov[0], W @ both @ both.T @ W.T, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(forecast.variance_parts["noise"], 0.0)
    np.testing.assert_array_equal(forecast.variance_parts["weights"], 0.0)


def test_given_uncertainty_is_not_calibrated(runs):
    """Factors apply to the model's own standard deviations."""
    esn = ProbabilisticESN(24, washout=50, process_noise=0.0, random_state=0)
    model = Forecaster(esn).fit(runs.states, runs.inputs, lengths=runs.lengths)
    model.model_ = replace(model.model_, calibration=np.full(20, 0.25))
    plain = copy.copy(model)
    plain.model_ = replace(model.model_, calibration=np.ones(20))
    y, u = runs.states[150:151], runs.inputs[150:160]
    wide = Gaussian(y[0], var=np.square(0.3 * runs.states.std(axis=0)))
    given, same = model.forecast(10, wide, u), plain.forecast(10, wide, u)
    own, uncalibrated = model.forecast(10, y, u), plain.forecast(10, y, u)
    np.testing.assert_allclose(own.std, 0.25 * uncalibrated.std, rtol=1e-9)
    np.testing.assert_allclose(given.var, same.var - uncalibrated.var + own.var, rtol=1e-9)
    np.testing.assert_allclose(given.std[0], same.std[0], rtol=0.02)
    np.testing.assert_allclose(sum(given.variance_parts.values()), given.var, rtol=1e-9)


def test_variance_parts_add_up(model, runs):
    ahead = model.forecast(8, Gaussian(runs.states[150], var=1e-3), Gaussian(runs.inputs[150:158], var=np.full((8, 1), 0.1)))
    np.testing.assert_allclose(sum(ahead.variance_parts.values()), ahead.var, rtol=1e-9)
    certain = model.forecast(8, Gaussian(runs.states[150], var=1e-3), runs.inputs[150:158], parts=("noise", "weights"))
    same = model.forecast(8, runs.states[150:151], runs.inputs[150:158], parts=("noise", "weights"))
    np.testing.assert_allclose(certain.std, same.std, rtol=0.01)  # nothing of the start is among them


# ---------------------------------------------------------------- labels, refusals


def test_gaussians_are_aligned_by_position(runs):
    pd = pytest.importorskip("pandas")
    days = pd.date_range("2024-01-01", periods=400, freq="D")
    y = pd.DataFrame(runs.states[:400, 2:], index=days, columns=["v", "omega"])
    X = pd.DataFrame(runs.inputs[:400], index=days, columns=["u"])
    model = Forecaster(ProbabilisticESN(10, washout=20, random_state=0), calibrate=False).fit(y[:300], X)
    ahead = Gaussian(X.to_numpy()[299:304], var=np.full((5, 1), 0.01))
    for context in (None, (y[280:300].drop(days[290]), Gaussian(X.to_numpy()[280:298]))):
        assert list(model.forecast(5, context, ahead).index) == list(days[300:305])
    measured = Gaussian(y.to_numpy()[280:300], var=np.full((20, 2), 0.01))
    assert model.forecast(5, (measured, X.to_numpy()[280:299]), ahead).index.tolist() == [1, 2, 3, 4, 5]


Y = np.zeros((5, 4))
AHEAD = np.zeros((3, 1))
COVARIANT = np.tile([[1.0, 0.5], [0.5, 1.0]], (3, 1, 1))
BAD = {
    "start narrow": (Gaussian(np.zeros(3)), AHEAD, r"context must be a Gaussian with a mean of shape \(4,\) for one row "
                     r"or \(rows, 4\), a row a step, got \(3,\)"),
    "X of context": ((Gaussian(Y), Gaussian(np.zeros((5, 1)))), AHEAD, r"X of context must be a Gaussian with a mean of shape "
                     r"\(4, 1\), a row a step, got \(5, 1\)"),
    "y alone": (Gaussian(Y), AHEAD, r"context must be \(y, X\) with X of shape \(4, 1\), got y alone"),
    "X short": (Gaussian(Y[0]), Gaussian(np.zeros((2, 1))), r"X must be a Gaussian with a mean of shape \(3, 1\)"),
    "far away": (Gaussian(Y[0] + 1e60), AHEAD, r"context must lie within 1e\+20 deviations"),
    "wide": (Gaussian(Y[0], var=1e70), AHEAD, r"std of context must lie within 1e\+20 deviations"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_invalid_gaussians_are_refused(model, case):
    context, X, words = BAD[case]
    before = copy.copy(vars(model))
    with pytest.raises(ValueError, match=words):
        model.forecast(3, context, X)
    assert all(vars(model)[name] is value for name, value in before.items())


def test_correlated_controls_and_tensors_are_refused(runs):
    two = np.hstack([runs.inputs, np.roll(runs.inputs, 1, axis=0)])[:400]
    model = Forecaster(ProbabilisticESN(10, washout=20, random_state=0), calibrate=False).fit(runs.states[:400], two)
    with pytest.raises(ValueError, match="X must be a Gaussian with variances alone, var=, got covariances between its columns"):
        model.forecast(3, runs.states[:1], Gaussian(np.zeros((3, 2)), cov=COVARIANT))
    assert model.forecast(3, runs.states[:1], Gaussian(np.zeros((3, 2)), cov=np.tile(np.eye(2), (3, 1, 1)))).mean.shape == (3, 4)
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"context must be a pesn\.Gaussian of arrays, got a TensorGaussian"):
        model.forecast(3, Gaussian(torch.zeros(4)), np.zeros((3, 2)))
