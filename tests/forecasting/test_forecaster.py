"""A forecaster uses no future rows, takes contexts of any length with missing values, is invariant to units, updates row by
row or at once, and has calibrated intervals.
"""

import copy
import pickle
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from pesn import Features, Forecaster, ProbabilisticESN
from pesn.moments import monte_carlo
from pesn.systems import cart_pole
from pesn.systems.chaotic import lorenz

moments_module = import_module("pesn.moments")  # pesn.moments itself is the function
DT = 0.02
HALF = 0.5 * DT
# of [x, θ, ẋ, θ̇]: positions by the trapezoidal rule
KINEMATICS = (np.array([[1, 0, HALF, 0], [0, 1, 0, HALF]]), HALF * np.eye(2), np.zeros(2))


def network(n=40, **more):
    return ProbabilisticESN(n, **{"washout": "auto", "random_state": 0, "process_noise": 0.0, **more})


def quick(**more):
    esn = more.pop("esn", None) or network()
    return Forecaster(esn, **{"calibrate": False, **more})


@pytest.fixture(scope="module")
def rows():
    return lorenz(steps=1600, rng=0).states


@pytest.fixture(scope="module")
def known(rows):
    """Fit to the first 800 rows of the Lorenz system."""
    return quick().fit(rows[:800])


@pytest.fixture(scope="module")
def carts():
    return cart_pole.simulate(runs=4, steps=500, rng=0)


@pytest.fixture(scope="module")
def driven(carts):
    """Fit to three runs of the cart pole with known force and kinematic positions."""
    three = carts[:3]
    forecaster = quick(learn=[2, 3], kinematics=KINEMATICS)
    return forecaster.fit(three.states, three.inputs, three.lengths)


@pytest.fixture(scope="module")
def sine():
    t = np.arange(700.0)
    return np.column_stack([np.sin(0.2 * t), np.cos(0.33 * t)]) + 0.02 * np.random.default_rng(0).normal(size=(700, 2))


def same(a, b, atol=0.0):
    np.testing.assert_allclose(a.mean, b.mean, rtol=0, atol=atol)
    np.testing.assert_allclose(a.joint, b.joint, rtol=0, atol=atol)


def is_sound(forecast):
    assert np.isfinite(forecast.mean).all()
    assert np.isfinite(forecast.joint).all()
    std = np.maximum(forecast.std.ravel(), 1e-300)
    assert np.linalg.eigvalsh(forecast.joint / std[:, None] / std).min() > -1e-6
    np.testing.assert_allclose(sum(forecast.variance_parts.values()), forecast.var, rtol=1e-6)
    return True


# ---------------------------------------------------------------- nothing of the future


def test_future_inputs_have_no_effect_on_earlier_rows(driven, carts):
    run = carts[3]
    context, X = (run.states[100:120], run.inputs[100:119]), run.inputs[119:139].copy()
    first = driven.forecast(20, context, X)
    X[12:] = 1e3
    second = driven.forecast(20, context, X)
    # X[k] acts on row k of the forecast and on none before it
    np.testing.assert_array_equal(second.mean[:12], first.mean[:12])
    np.testing.assert_array_equal(second.joint[:48, :48], first.joint[:48, :48])
    assert np.abs(second.mean[12] - first.mean[12]).max() > 1e-3


def test_a_short_forecast_is_the_beginning_of_a_long_one(known, driven, carts, rows):
    run = carts[3]
    driving = driven, (run.states[:9], run.inputs[:8]), run.inputs[8:18]
    for model, context, X in ((known, rows[1000:1010], np.zeros((10, 0))), driving):
        long, short = model.forecast(10, context, X), model.forecast(5, context, X[:5])
        n = short.mean.size
        np.testing.assert_array_equal(short.mean, long.mean[:5])
        np.testing.assert_allclose(short.joint, long.joint[:n, :n], rtol=1e-9, atol=1e-15)


def test_fit_and_forecast_are_reproducible_to_the_bit(rows, known):
    one, two = (Forecaster(network(30, process_noise="auto")).fit(rows[:140]).forecast(8, rows[400:405]) for _ in range(2))
    same(one, two)
    # forecast does not change the model
    before = pickle.dumps(known.model_)
    known.forecast(5, rows[1000:1010])
    known.forecast(5)
    assert pickle.dumps(known.model_) == before


# ---------------------------------------------------------------- contexts


def test_longer_contexts_have_smaller_errors_and_intervals(known, rows):
    origins = np.arange(850, 1550, 60)
    wrong, std = [], []
    for length in (1, 3, 10, 60):
        forecasts = [known.forecast(5, rows[k - length : k]) for k in origins]
        assert all(map(is_sound, forecasts))
        wrong.append(np.mean([np.abs(f.mean - rows[k : k + 5]) for f, k in zip(forecasts, origins, strict=True)]))
        std.append(np.mean([f.std for f in forecasts]))
    assert std[0] > std[1] > std[2] >= std[3] * 0.999
    assert 2.0 > wrong[0] > max(wrong[2:])  # of 8: the standard deviation of each column


GAPS = {
    "one entry": (15, 1), "a column": (slice(None), 1), "rows": slice(10, 15), "the first row": 0,
    "an entry of the first row": (0, 1), "the last row": -1, "an entry of the last row": (-1, 0), "all rows": slice(None),
    "every other row": slice(0, None, 2),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(known, rows):
    """Compute standard deviations of forecasts from complete contexts."""
    return {k: known.forecast(5, rows[k - 30 : k]).std for k in range(900, 1500, 100)}


@pytest.mark.parametrize("gap", GAPS)
def test_missing_values_in_the_context_widen_the_forecast(known, rows, whole, gap):
    gappy, wrong = [], []
    for k in whole:
        context = rows[k - 30 : k].copy()
        context[GAPS[gap]] = np.nan
        forecast = known.forecast(5, context)
        assert is_sound(forecast)
        gappy.append(forecast.std)
        wrong.append((forecast.mean - rows[k : k + 5]) / forecast.std)
    assert (np.mean(gappy, axis=0) >= 0.98 * np.mean(list(whole.values()), axis=0)).all()
    assert np.sqrt(np.mean(np.square(wrong))) < 2.0  # and is as wrong as it says
    if gap == "all rows":  # the long run
        ratio = np.array(gappy)[:, -1] / rows[:800].std(axis=0)
        assert ((ratio > 0.5) & (ratio < 2.5)).all()


def test_one_column_informs_the_others(known, rows):
    """30 rows of x of the Lorenz system determine y and z far better than their stationary distribution."""
    errors, scores, deviation = [], [], rows[:800].std(axis=0)
    for k in range(850, 1550, 25):
        context = np.full((30, 3), np.nan)
        context[:, 0] = rows[k - 30 : k, 0]
        forecast = known.forecast(1, context)
        errors.append((forecast.mean[0] - rows[k]) / deviation)
        scores.append((forecast.mean[0] - rows[k]) / forecast.std[0])
    median = np.median(np.abs(errors), axis=0)  # 0.67 in the long run
    assert median[1] < 0.05
    assert median[2] < 0.5
    assert np.sqrt(np.mean(np.square(scores), axis=0)).max() < 1.5


@pytest.fixture(scope="module")
def known_std(driven, carts):
    """Compute standard deviations of forecasts with known inputs."""
    y, u = carts[3].states, carts[3].inputs
    return {k: driven.forecast(10, (y[k - 20 : k], u[k - 20 : k - 1]), u[k - 1 : k + 9]).std for k in range(40, 470, 40)}


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("places", [slice(4, 5), slice(0, 1), slice(-1, None), slice(None)])
def test_a_known_input_may_be_missing(driven, carts, known_std, ahead, places):
    run = carts[3]
    wider, wrong = [], []
    for k, std in known_std.items():
        y, u, X = run.states[k - 20 : k], run.inputs[k - 20 : k - 1].copy(), run.inputs[k - 1 : k + 9].copy()
        (X if ahead else u)[places] = np.nan
        forecast = driven.forecast(10, (y, u), X)
        assert is_sound(forecast)
        wider.append(forecast.std / std)
        wrong.append((forecast.mean - run.states[k : k + 10]) / forecast.std)
    assert np.mean(wider) > 0.99
    assert np.sqrt(np.mean(np.square(wrong))) < 3.0
    if ahead and places == slice(None):
        assert np.mean(wider, axis=0)[-1, 2] > 1.5  # the cart's velocity hangs on the force


@pytest.mark.parametrize("scale", [True, False])
def test_missing_input_has_the_distribution_of_training(scale):
    """y[k+1] = X[k]: with X missing, y has the distribution of X."""
    rng = np.random.default_rng(0)
    X = 0.4 + 0.2 * rng.normal(size=(600, 1))
    y = np.vstack([[0.4], X[:-1]])
    forecaster = quick(target="level", scale=scale).fit(y, X)
    forecast = forecaster.forecast(3, (y[300:310], X[300:309]), np.full((3, 1), np.nan))
    np.testing.assert_allclose(forecast.mean, 0.4, atol=0.05)
    np.testing.assert_allclose(forecast.std, 0.2, rtol=0.15)


# ---------------------------------------------------------------- what it learns from


def test_missing_values_in_training_split_segments(known, rows):
    gappy = rows[:800].copy()
    gappy[[300, 303, 305], [0, 1, 2]] = np.nan
    forecaster = quick().fit(gappy)
    assert forecaster.esn_.washout_ > 10  # two rows between gaps do not decide it
    for k in (900, 1100, 1300):
        a, b = forecaster.forecast(10, rows[k - 20 : k]), known.forecast(10, rows[k - 20 : k])
        assert (np.abs(a.mean - b.mean) < 4.0 * (a.std + b.std)).all()


def test_segments_shorter_than_the_washout_are_left_out(rows):
    gappy = rows[:400].copy()
    gappy[[100, 110]] = np.nan
    forecaster = quick(esn=network(washout=30)).fit(gappy)
    assert is_sound(forecaster.forecast(5, rows[500:503]))
    with pytest.raises(ValueError, match="washout of 900, got fewer"):
        quick(esn=network(washout=900)).fit(gappy)


def test_runs_are_trained_on_separately(carts, driven):
    """A step between two runs would have an error of many standard deviations."""
    careless = quick(learn=[2, 3], kinematics=KINEMATICS).fit(carts[:3].states, carts[:3].inputs)
    assert np.trace(careless.errors_.cov) > 10.0 * np.trace(driven.errors_.cov)


@pytest.mark.parametrize("n", [5, 6, 10, 100])
@pytest.mark.parametrize("d", [1, 3])
def test_very_short_series_have_finite_forecasts(n, d):
    """Errors on white noise are a few standard deviations at most."""
    rng = np.random.default_rng(n)
    wrong = []
    for _ in range(3):
        y = 5.0 + rng.normal(size=(n + 5, d))
        forecast = quick(esn=network(50)).fit(y[:n]).forecast(5)
        assert is_sound(forecast)
        wrong.append((forecast.mean - y[n:]) / forecast.std)
    if n >= 10:
        assert np.median(np.abs(wrong)) < 2.0


def test_constant_columns_stay_constant():
    t = np.arange(300.0)
    y = np.column_stack([np.full(300, 0.1), np.sin(0.2 * t), np.full(300, 7e6)])
    forecast = Forecaster(network()).fit(y).forecast(10, y[100:110])
    np.testing.assert_allclose(forecast.mean[:, 0], 0.1, rtol=1e-9)
    np.testing.assert_allclose(forecast.mean[:, 2], 7e6, rtol=1e-9)
    assert np.abs(forecast.mean[:, 1] - y[110:120, 1]).max() < 0.01
    tiny = quick().fit(np.column_stack([y[:, 1], 1e-310 * y[:, 1]])).forecast(5)  # too little to have digits
    assert is_sound(tiny)
    assert (np.abs(tiny.mean[:, 1]) < 1e-9).all()
    still = quick().fit(y[:, [0, 2]]).forecast(5)
    np.testing.assert_allclose(still.mean, np.tile([0.1, 7e6], (5, 1)), rtol=1e-9)


def test_one_column_may_be_flat(sine):
    flat, column = quick().fit(sine[:300, 0]), quick().fit(sine[:300, :1])
    same(flat.forecast(5, sine[400:404, 0]), column.forecast(5, sine[400:404, :1]))
    same(flat.update(sine[300:310, 0]).forecast(5), column.update(sine[300:310, :1]).forecast(5))


def test_frame_names_are_kept_and_checked(sine):
    frame = pd.DataFrame(sine[:300], columns=["left", "right"])
    forecaster = quick().fit(frame)
    forecast = forecaster.forecast(4, frame[-10:])
    assert forecast.names == ("left", "right")
    same(forecast, forecaster.forecast(4, sine[290:300]))
    for call in (lambda: forecaster.forecast(4, frame[["right", "left"]]), lambda: forecaster.update(frame[["right", "left"]])):
        with pytest.raises(ValueError, match=r"must have the columns \['left', 'right'\], as y had in fit"):
            call()
    with pytest.raises(ValueError, match=r"context must have the columns \['left', 'right'\], as y had in fit, got \['left'\]"):
        forecaster.forecast(4, frame[["left"]])
    with pytest.raises(ValueError, match="different names"):
        quick().fit(frame.set_axis(["a", "a"], axis=1))


@pytest.fixture(scope="module")
def plain(rows):
    """Forecast in the units of y, with and without covariances between rows."""
    fitted = quick(esn=network(20)).fit(rows[:300])
    return {joint: fitted.forecast(6, rows[500:505], joint=joint) for joint in (True, False)}


@pytest.mark.parametrize(("size", "shift"), [(1e9, 3.0), (1e-60, 3.0), (1e-163, 0.0), (1e-300, 0.0), (1e90, 0.0)])
def test_forecasts_are_invariant_to_units(rows, plain, size, shift):
    """Also if squares underflow."""
    fitted = quick(esn=network(20)).fit(size * (rows[:300] + shift))
    width, near = rows[:300].std(axis=0), 1e-5 if shift else 1e-9
    for joint, one in plain.items():
        other = fitted.forecast(6, size * (rows[500:505] + shift), joint=joint)
        np.testing.assert_allclose((other.mean / size - shift) / width, one.mean / width, rtol=0, atol=near)
        np.testing.assert_allclose(other.std / size / width, one.std / width, rtol=0, atol=near)
        for a, b in zip(other.interval(), one.interval(), strict=True):
            np.testing.assert_allclose((a / size - shift) / width, b / width, rtol=0, atol=10.0 * near)
        draws = (other.sample(200, rng=0) / size).std(axis=0)
        np.testing.assert_allclose(draws, one.sample(200, rng=0).std(axis=0), rtol=1e3 * near)
        np.testing.assert_allclose(other.to_frame()["y0_std"] / size, one.std[:, 0], rtol=1e3 * near)


def test_scale_false_uses_rows_unchanged(rows):
    y = (rows - rows[:800].mean(axis=0)) / rows[:800].std(axis=0)
    a = quick(scale=False).fit(y[:800]).forecast(10, y[900:910])
    b = quick().fit(y[:800]).forecast(10, y[900:910])
    same(a, b, atol=1e-7)


@pytest.mark.parametrize("kind", ["zero", "stationary", "learned"])
@pytest.mark.parametrize(
    "more", [{}, {"feedback_scaling": 0.3}, {"covariance": "low-rank", "rank": 12}, {"covariance": "diagonal"}]
)
def test_every_kind_of_network_forecasts(rows, kind, more):
    forecaster = quick(esn=network(30, initial_state=kind, **more)).fit(rows[:400])
    context = rows[470:500].copy()
    assert is_sound(forecaster.forecast(5, context))
    context[3:8, 1] = np.nan
    context[0] = np.nan
    forecast = forecaster.forecast(5, context)
    assert is_sound(forecast)
    assert np.abs(forecast.mean[0] - rows[500]).max() < 2.0
    assert is_sound(forecaster.update(rows[400:405]).forecast(5))


def test_monte_carlo_moments_follow_the_seed(monkeypatch):
    y = np.sin(0.3 * np.arange(60.0)) + 0.1 * np.random.default_rng(0).normal(size=60)
    draws, moments, method = [], monte_carlo.moments, moments_module._function

    def watched(*arguments, rng=None, **options):
        draws.append(copy.deepcopy(np.random.default_rng(rng)).standard_normal())
        return moments(*arguments, rng=rng, **options)

    def forecast(seed):
        forecaster = quick(esn=network(8, density=0.3, covariance="diagonal", moments="monte-carlo", washout=0)).fit(y)
        forecaster.esn_.random_state = seed  # of the draws alone: the network is the same
        draws.clear()
        return forecaster.forecast(4)

    monkeypatch.setattr(moments_module, "_function", lambda place: watched if place == "monte_carlo.moments" else method(place))
    one = forecast(3)
    assert len(set(draws)) == len(draws) >= 3  # new draws at every step
    same(one, forecast(3))
    assert np.abs(forecast(4).mean - one.mean).max() > 0.0


# ---------------------------------------------------------------- kinematics and order


def test_positions_follow_velocities_in_mean_and_covariance():
    """x[k+1] = x[k] + dt/2 (v[k] + v[k+1]) holds to rounding for the joint Gaussian."""
    v = np.column_stack([np.sin(0.2 * np.arange(500)), np.cos(0.31 * np.arange(500))])
    v += 0.05 * np.random.default_rng(0).normal(size=v.shape)
    x = np.vstack([np.zeros((1, 2)), np.cumsum(HALF * (v[1:] + v[:-1]), axis=0)])
    forecaster = quick(learn=[2, 3], kinematics=KINEMATICS).fit(np.hstack([x, v]))
    forecast = forecaster.forecast(6)
    A, B, _ = KINEMATICS
    rows = np.zeros((5, 2, 6, 4))
    for k in range(5):
        rows[k, :, k], rows[k, :, k + 1] = -A, np.eye(4)[:2] - B @ np.eye(4)[2:]
    rows = rows.reshape(10, 24)
    size = np.abs(rows) @ forecast.std.ravel()
    left = rows @ forecast.joint @ rows.T
    assert np.abs(left / size / size[:, None]).max() < 1e-12
    np.testing.assert_allclose(rows @ forecast.mean.ravel(), 0.0, atol=1e-12)


def test_learned_columns_may_be_in_any_order(carts, driven):
    """The cart pole with shuffled columns, and with learned columns in another order, is the same system."""
    order = [3, 0, 2, 1]  # now [θ̇, x, ẋ, θ]
    three = carts[:3]
    A, B, c = KINEMATICS
    shuffled = (A[:, order], B[:, ::-1], c)  # of x and θ, in the order of the columns
    two = quick(learn=[0, 2], kinematics=shuffled).fit(three.states[:, order], three.inputs, three.lengths)
    again = quick(learn=[2, 0], kinematics=(A[:, order], B, c)).fit(three.states[:, order], three.inputs, three.lengths)
    run = carts[3]
    y, u, X = run.states[100:120], run.inputs[100:119], run.inputs[119:129]
    truth = run.states[120:130]
    width = three.states.std(axis=0)
    a = driven.forecast(10, (y, u), X)
    for other in (two, again):
        b = other.forecast(10, (y[:, order], u), X)
        assert (np.abs(b.mean - truth[:, order]) < 0.05 * width[order]).all()
        assert (np.abs(a.mean - truth) < 0.05 * width).all()
        # other weights were drawn: of the same size are the deviations all the same
        np.testing.assert_allclose(np.log(b.std[5:] / a.std[5:, order]), 0.0, atol=1.5)


# ---------------------------------------------------------------- going on


def test_updates_at_once_or_in_turn_agree(rows, driven, carts):
    one, two = quick().fit(rows[:400]), quick().fit(rows[:400])
    one.update(rows[400:440])
    for part in (slice(400, 401), slice(401, 425), slice(425, 440)):
        two.update(rows[part])
    np.testing.assert_allclose(one.esn_.readout_.weights, two.esn_.readout_.weights, rtol=0, atol=1e-10)
    same(one.forecast(6), two.forecast(6), atol=1e-10)
    run = carts[3]
    a, b = copy.deepcopy(driven), copy.deepcopy(driven)
    a.update(run.states[:30], run.inputs[:30])
    b.update(run.states[:7], run.inputs[:7]).update(run.states[7:30], run.inputs[7:30])
    same(a.forecast(6, X=run.inputs[29:35]), b.forecast(6, X=run.inputs[29:35]), atol=1e-10)


def test_update_adapts_to_a_changed_system():
    """The gain of a damped, driven oscillator changes."""

    def swing(gain, n, seed):
        rng = np.random.default_rng(seed)
        u, y = rng.normal(size=(n, 1)), np.zeros((n, 2))
        for k in range(n - 1):
            v = 0.95 * y[k, 1] - 0.05 * y[k, 0] + 0.1 * gain * u[k, 0]
            y[k + 1] = y[k, 0] + v, v
        return y, u

    y, u = swing(1.0, 600, 0)
    forecaster = quick(esn=network(forgetting=0.98)).fit(y, u)
    y, u = swing(3.0, 700, 1)

    def errors(horizon, every):
        for k in range(500, 690, every):
            forecast = forecaster.forecast(horizon, (y[k - 9 : k + 1], u[k - 9 : k]), u[k : k + horizon])
            yield forecast.mean - y[k + 1 : k + 1 + horizon], forecast.std

    before = np.mean([np.abs(away) for away, _ in errors(5, 20)])
    forecaster.update(y[:400], u[:400])
    assert np.mean([np.abs(away) for away, _ in errors(5, 20)]) < 0.2 * before
    # and it knows how good it is now
    assert np.sqrt(np.mean([np.square(away / std) for away, std in errors(3, 10)])) < 3.0


# ---------------------------------------------------------------- variances


def test_parts_can_be_switched_off(known, rows):
    context = rows[1000:1010]
    whole = known.forecast(8, context)
    nothing = known.forecast(8, context, parts=())
    assert (nothing.var == 0.0).all()
    assert np.abs(nothing.mean - whole.mean).max() < whole.std.max()
    for kept in ("state", "noise", "weights"):
        part = known.forecast(8, context, parts=[kept])
        assert is_sound(part)
        assert (part.var <= whole.var * 1.05).all()
        assert (part.var[-1] > 0.0).all()
        others = {"noise", "weights"} - {kept}
        assert all((part.variance_parts[name] == 0.0).all() for name in others)
    noise = known.forecast(1, context, parts=("noise",))
    np.testing.assert_allclose(noise.var, whole.variance_parts["noise"][:1], rtol=1e-9)


# ---------------------------------------------------------------- calibration


def test_intervals_have_their_coverage_on_lorenz(rows):
    """At 1, 5, 10 and 20 steps."""
    forecaster = Forecaster(network(60, process_noise="auto")).fit(rows[:1000])
    test, inside = lorenz(steps=900, rng=1).states, []
    for k in range(40, 860, 20):
        low, high = forecaster.forecast(20, test[k - 20 : k]).interval(0.95)
        inside.append(((test[k : k + 20] > low) & (test[k : k + 20] < high))[[0, 4, 9, 19]])
    assert (np.mean(inside, axis=(0, 2)) >= 0.85).all()


@pytest.mark.parametrize("rows", [1, 20])
def test_intervals_of_a_model_of_three_seconds_cover_new_forces(rows):
    """From one row and from twenty, without being too wide."""
    inside, ratio, steps = [], [], 40
    for seed in (200, 201):
        runs = cart_pole.simulate(runs=1, steps=150, rng=seed)
        esn = network(random_state=seed, process_noise="auto")
        model = Forecaster(esn, learn=[2, 3], kinematics=KINEMATICS).fit(runs.states, runs.inputs)
        others = cart_pole.simulate(runs=12, steps=100, rng=seed + 1000)
        forces = np.repeat(np.random.default_rng(seed).normal(0.0, 2.0, (12, 4)), 10, axis=1)
        for one, force in zip(others, forces, strict=True):
            truth = cart_pole.simulate(np.append(force, 0.0), steps=steps + 1, initial_state=one.states[-1]).states[1:]
            found = model.forecast(steps, (one.states[-rows:], one.inputs[-rows:-1]), force[:, None])
            low, high = found.interval(0.95)
            inside.append(np.mean((truth >= low) & (truth <= high)))
            ratio.append([np.mean(np.square(part / model.scale_.y_std)) for part in (found.std, found.mean - truth)])
    assert np.mean(inside) > 0.8
    width, wrong = np.sqrt(np.mean(ratio, axis=0))
    assert width < 5.0 * wrong


@pytest.mark.parametrize(("ridge", "seed"), [(0.0372, 667), (0.0, 687)])
@pytest.mark.filterwarnings("ignore:.*left the range of training")
def test_nearly_constant_units_do_no_harm(ridge, seed):
    t = np.arange(60.0)
    model = ProbabilisticESN(
        20, density=0.6, spectral_radius=0.474, leak_rate=0.6456, covariance="diagonal", activation="relu", ridge=ridge,
        noise=0.01, process_noise=0.01, initial_state="zero", random_state=seed,
    )  # fmt: skip
    forecast = Forecaster(model, measurement_noise="auto", calibrate=False).fit(t + np.sin(t)).forecast(5)
    assert np.abs(forecast.mean).max() < 1e4
    assert np.isfinite(forecast.std).all()


# ---------------------------------------------------------------- bad input

Y = np.random.default_rng(0).normal(size=(60, 2))
HALVES = [[0.0, 1.0]]
BAD_FITS = {
    "esn": ({"esn": "esn"}, "esn must be a pesn.ProbabilisticESN or 'auto', got 'esn'"),
    "target": ({"target": "slope"}, "target must be 'change' or 'level', got 'slope'"),
    "scale": ({"scale": 1}, "scale must be True or False, got 1"),
    "learn twice": ({"learn": [0, 0]}, "learn must be a list of different columns"),
    "learn outside": ({"learn": [0, 2]}, "learn must name columns 0 … 1 of y"),
    "no kinematics": ({"learn": [0]}, "kinematics must be given for the 1 columns"),
    "kinematics A": ({"learn": [0], "kinematics": (np.eye(2), [[1.0]], [0.0])}, r"A of shape \(1, 2\), got \(2, 2\)"),
    "kinematics B": ({"learn": [0], "kinematics": (HALVES, [[np.inf]], [0.0])}, "B of kinematics must be finite, got inf"),
    "kinematics of no column": ({"kinematics": (HALVES, [[1.0]], [0.0])}, r"for the 0 columns of y that learn leaves out"),
    "washout long": ({"esn": network(10, washout=56)}, "after the washout of 56, got fewer"),
    "lags many": ({"esn": network(features=Features(56))}, "after the 56 lags of its features, got fewer"),
    "infinite": ({}, "y must be NaN or lie within .*, got inf in row", np.where(Y > 2, np.inf, Y)),
    "all gaps": ({}, "y must have numbers in every column", np.full((60, 2), np.nan)),
    "X longer": ({}, r"X must have shape \(60, columns\), got \(61, 1\)", Y, np.zeros((61, 1))),
    "lengths": ({}, r"lengths must add up to the 60 rows of y, got \[30, 20\], which add up to 50", Y, None, [30, 20]),
}


@pytest.fixture(scope="module")
def small():
    """Fit without and with known inputs."""
    return quick(esn=network(10)).fit(Y), quick(esn=network(10)).fit(Y, Y[:, :1])


@pytest.mark.parametrize("case", BAD_FITS)
def test_refused_fit_leaves_the_forecaster_unchanged(case, small):
    """Other rows that are refused are in test_dataset.py."""
    parameters, words, *data = BAD_FITS[case]
    forecaster = copy.copy(small[0]).set_params(**parameters)
    with pytest.raises((TypeError, ValueError), match=words):
        forecaster.fit(*(data or [Y]))
    assert forecaster.model_ is small[0].model_


FAR, AHEAD = r"must lie within 1e\+20 deviations of its mean in fit, got .* in row", np.zeros((3, 1))
BAD_CALLS = {
    "horizon 0": (lambda f: f.forecast(0, Y), "horizon must be 1 or more, got 0"),
    "horizon huge": (lambda f: f.forecast(10**400, Y), "horizon must be 2500000 or less with 2 columns of y, got 1000"),
    "context narrow": (lambda f: f.forecast(2, Y[:, :1]), r"context must have shape \(rows, 2\), got \(60, 1\)"),
    "context empty": (lambda f: f.forecast(2, Y[:0]), "context must have at least one row"),
    "context of three": (lambda f: f.forecast(2, (Y, Y, Y)), r"context must be y or \(y, X\), got a tuple of 3"),
    "X superfluous": (lambda f: f.forecast(2, Y, np.zeros((2, 1))), r"X must have shape \(2, 0\), got \(2, 1\); fit had no X"),
    "parts": (lambda f: f.forecast(2, Y, parts=["luck"]), "parts must be some of state, noise, weights"),
    "update narrow": (lambda f: f.update(Y[:, :1]), r"y must have shape \(rows, 2\)"),
    "update far away": (lambda f: f.update(1e60 * Y), f"y {FAR} 0"),
    "context far away": (lambda f: f.forecast(2, np.where(np.arange(60)[:, None] == 7, 1e60, Y)), rf"context {FAR} 7, column 0"),
}


BAD_INPUTS = {
    "X missing": (lambda f: f.forecast(3, (Y[:5], Y[:4, :1])), r"X must be given, of shape \(3, 1\)"),
    "context alone": (lambda f: f.forecast(3, Y[:5], AHEAD), r"context must be \(y, X\) with X of shape \(4, 1\)"),
    "X long": (lambda f: f.forecast(3, (Y[:5], Y[:5, :1]), AHEAD), r"X of context must have shape \(4, 1\), got \(5, 1\)"),
    "X far away": (lambda f: f.forecast(3, Y[:1], np.array([[0.0], [1e60], [0.0]])), rf"X {FAR} 1, column 0"),
    "update without X": (lambda f: f.update(Y), "X must be given, with 1 columns as in fit, got None"),
}


@pytest.mark.parametrize("case", BAD_CALLS | BAD_INPUTS)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_refused_call_leaves_the_forecaster_unchanged(case, small):
    forecaster, (call, words) = (small[0], BAD_CALLS[case]) if case in BAD_CALLS else (small[1], BAD_INPUTS[case])
    before = forecaster.model_
    with pytest.raises((TypeError, ValueError), match=words):
        call(forecaster)
    assert forecaster.model_ is before


def test_unfitted_forecaster_raises():
    for call in (lambda f: f.forecast(3, Y), lambda f: f.update(Y)):
        with pytest.raises(NotFittedError, match="not fitted"):
            call(Forecaster())
