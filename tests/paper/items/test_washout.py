"""The washout item runs the network it says it runs, prints the paper's numbers, and judges by the numbers it is given."""

import numpy as np
import pytest

import pesn
from pesn.paper.claims import CLAIMS
from pesn.paper.items import network as cart
from pesn.paper.items import washout, washout_tables
from pesn.paper.items.network import STATES
from pesn.paper.result import Settings, Tasks
from pesn.reservoir.drive import State, run, run_gaussian
from pesn.systems.cart_pole import simulate

SMALL = cart.parameters() | {"n_units": 30, "training_runs": 1, "run_rows": 600}
TINY = washout.parameters(quick=True) | {
    "lengths": [1, 10, 40],
    "trials": 3,
    "samples": 4,
    "most_filtered": 5,
    "chunk": 2,
    "other_networks": 1,
    "network": SMALL,
}


@pytest.fixture(scope="module")
def learned():
    return cart.learn(SMALL, seed=3)


@pytest.fixture(scope="module")
def result():
    return washout.run(Settings(True, 5, TINY), Tasks())


# ---------------------------------------------------------------- the network


def test_a_batch_is_the_library_s_own_run(learned):
    network, test = learned
    reservoir = network.forecaster.esn_.reservoir_
    z, fed = network.observed(test, [200, 300, 450], 25)
    h0 = np.random.default_rng(0).normal(size=(3, 30)) / 2
    states = network.drive(h0, z, fed)
    means, variances = network.drive_gaussian(h0, np.full((3, 30), 0.25), z, fed)
    for b in range(3):
        alone, _, _ = run(reservoir, z[:, b], State(h0[b], output=fed[0, b]), feedback=fed[1:, b])
        np.testing.assert_allclose(states[:, b], alone, atol=1e-12)
        start = State(h0[b], np.full(30, 0.25), fed[0, b])
        mean, var, _, _ = run_gaussian(reservoir, z[:, b], None, start, feedback=fed[1:, b])
        np.testing.assert_allclose(means[:, b], mean, atol=1e-7)
        np.testing.assert_allclose(variances[:, b], var, atol=1e-7)


def test_what_was_observed_is_the_run_standardised(learned):
    network, test = learned
    z, fed = network.observed(test, [50], 3)
    rows = np.hstack([test.states, test.inputs])[47:50]
    np.testing.assert_allclose(z[:, 0] * network.spread + network.center, rows, atol=1e-12)
    assert not fed[0].any()
    np.testing.assert_allclose(fed[1:, 0] * network.change, np.diff(test.states[47:51, 2:], axis=0), atol=1e-12)
    with pytest.raises(ValueError, match="3 rows before them"):
        network.observed(test, [2], 3)


def test_a_free_run_step_by_step(learned):
    """One origin, one unit of the formulas after the other, by the estimator's own readout."""
    network, test = learned
    z, fed = network.observed(test, [300], 20)
    h = network.drive(np.zeros((1, 30)), z, fed)[-1]
    controls = test.inputs[300:304]
    path = network.free_run(h, fed[-1], test.states[[300]], controls)[:, 0]
    reservoir, f = network.forecaster.esn_.reservoir_, network.forecaster
    h, y, s = h[0], fed[-1, 0], test.states[300]
    for k in range(4):
        row = np.append((s - f.scale_.y_mean) / f.scale_.y_std, (controls[k] - f.scale_.x_mean) / f.scale_.x_std)
        h = 0.5 * h + 0.5 * np.tanh(reservoir.W_in @ row + reservoir.W_fb @ y + reservoir.W @ h + reservoir.bias)
        y = f.esn_.readout_.weights @ np.concatenate([[1.0], row, h])
        v = s[2:] + y * f.output_std_ * f.scale_.y_std[2:]
        s = np.concatenate([s[:2] + 0.01 * (s[2:] + v), v])
        np.testing.assert_allclose(path[k], s, atol=1e-10)


def test_a_gaussian_without_variance_is_the_plain_network(learned):
    network, test = learned
    z, fed = network.observed(test, [300, 400], 20)
    zero = np.zeros((2, 30))
    means, variances = network.drive_gaussian(zero, zero, z, fed)
    np.testing.assert_allclose(means, network.drive(zero, z, fed), atol=1e-8)
    assert not variances.any()
    controls = test.inputs[[[300, 400], [301, 401], [302, 402]], 0]
    given = fed[-1], test.states[[300, 400]], controls
    mean, var = network.free_run_gaussian(means[-1], zero, *given)
    np.testing.assert_allclose(mean, network.free_run(means[-1], *given), atol=1e-8)
    assert not var.any()


def test_gaussian_free_run_step_by_step(learned):
    """The paper's formulas, a step after the other, nothing covarying: W∘W for every matrix, the variance fed back as well."""
    network, test = learned
    f = network.forecaster
    r, w = f.esn_.reservoir_, f.esn_.readout_.weights
    z, fed = network.observed(test, [300], 20)
    h, v = network.drive(np.zeros((1, 30)), z, fed)[-1], np.full((1, 30), 0.04)
    means, variances = network.free_run_gaussian(h, v, fed[-1], test.states[[300]], test.inputs[300:303])
    h, v, y, y_var, s, s_var = h[0], v[0], fed[-1, 0], np.zeros(2), test.states[300], np.zeros(4)
    for k in range(3):
        row = np.append((s - f.scale_.y_mean) / f.scale_.y_std, (test.inputs[300 + k] - f.scale_.x_mean) / f.scale_.x_std)
        row_var = np.append(s_var / f.scale_.y_std**2, 0.0)
        a = r.W_in @ row + r.W_fb @ y + r.W @ h + r.bias
        unit = pesn.moments("tanh", a, r.W_in**2 @ row_var + r.W_fb**2 @ y_var + r.W.toarray() ** 2 @ v, method="exact")
        h, v = 0.5 * h + 0.5 * unit.mean, 0.25 * v + 0.25 * unit.var
        y, y_var = w @ np.concatenate([[1.0], row, h]), w**2 @ np.concatenate([[0.0], row_var, v])
        change = f.output_std_ * f.scale_.y_std[2:]
        speed, speed_var = s[2:] + change * y, s_var[2:] + change**2 * y_var
        s = np.concatenate([s[:2] + 0.01 * (s[2:] + speed), speed])
        s_var = np.concatenate([s_var[:2] + 1e-4 * (s_var[2:] + speed_var), speed_var])
        np.testing.assert_allclose(means[k, 0], s, atol=1e-7)
        np.testing.assert_allclose(variances[k, 0], s_var, rtol=1e-6)
    assert (variances > 0.0).all()


def test_training_is_what_is_said_and_the_test_run_is_another(learned):
    network, test = learned
    runs = simulate(runs=2, steps=600, rng=[3, 0])
    np.testing.assert_array_equal(test.states, runs[1].states)
    assert network.forecaster.scale_.y_mean == pytest.approx(runs[0].states.mean(axis=0))
    reservoir = network.forecaster.esn_.reservoir_
    assert abs(reservoir.W_in).max() <= 0.5
    assert 0.15 < abs(reservoir.W_fb).max() <= 0.2
    assert reservoir.W.nnz == 90
    assert reservoir.leak_rate == 0.5
    assert isinstance(network.forecaster, pesn.Forecaster)


# ---------------------------------------------------------------- the item


def test_result_has_every_cell_and_every_claim(result):
    assert set(result.frame["state"]) == set(STATES)
    assert sorted(set(result.frame["washout"])) == [1, 10, 40]
    assert len(result.frame) == 4 * 3 * len(washout_tables.METHODS)
    assert np.isfinite(result.frame[["mean", "min", "max"]]).all(axis=None)
    assert (result.frame["min"] <= result.frame["mean"]).all()
    assert (result.frame["mean"] <= result.frame["max"]).all()
    assert tuple(v.claim for v in result.verdicts) == washout.CLAIMS
    assert all(washout.NAME in CLAIMS[claim].items for claim in washout.CLAIMS)
    assert len(result.tables) == 9
    assert all(alt.endswith(".") for _, alt in result.figures.values())
    assert "network" in list(result.tables.values())[-1]
    assert len(list(result.tables.values())[-1]) == 2


def test_the_mean_of_errors_is_never_below_the_error_of_the_mean(result):
    f = result.frame
    ensemble, each = (washout_tables.cells(f, name) for name in ("mean of forecasts", "MC"))
    assert np.all(ensemble <= each * (1 + 1e-12))


def test_one_trial_by_hand(learned):
    """The zero start and one random start at one origin, by the library's own run and a loop."""
    network, test = learned
    found = washout.trials(network, test, [300], [11], [10], 2, 5, 0.5, 0.0, 5)
    starts = 0.5 * np.random.default_rng(11).standard_normal((2, 30))
    z, fed = network.observed(test, [300], 10)
    errors = []
    for h0 in (np.zeros(30), *starts):
        h = network.drive(h0[None], z, fed)[-1]
        path = network.free_run(h, fed[-1], test.states[[300]], test.inputs[300:305])[:, 0]
        errors.append(np.abs(path - test.states[301:306]).mean(axis=0)[[0, 2, 1, 3]])
    by_name = dict(zip(washout_tables.METHODS, found[:, 0, 0], strict=False))
    np.testing.assert_allclose(by_name["zero start"], errors[0], rtol=1e-9)
    np.testing.assert_allclose(by_name["MC"], np.mean(errors[1:], axis=0), rtol=1e-9)
    np.testing.assert_allclose(by_name["MC with noise"], by_name["MC"], rtol=1e-9)  # its noise is 0 here
    np.testing.assert_allclose(found[-1, 0, 0], np.max(errors[1:], axis=0), rtol=1e-9)
    context = test.states[295:301], test.inputs[295:300]
    forecast = network.forecaster.forecast(5, context, test.inputs[300:305]).mean
    wrong = np.abs(forecast - test.states[301:306]).mean(axis=0)[[0, 2, 1, 3]]
    np.testing.assert_allclose(by_name["filtered start"], wrong, rtol=1e-9)


def test_no_forecast_sees_what_it_forecasts(learned):
    network, test = learned
    given = [300], [11], [10], 2, 5, 0.5, 0.01, 5
    future = test.states.copy()
    future[301:] = np.random.default_rng(0).normal(size=future[301:].shape)
    changed = type(test)(future, test.inputs, test.dt, test.names, test.lengths, test.units)
    z, fed = network.observed(changed, [300], 10)
    np.testing.assert_array_equal(z, network.observed(test, [300], 10)[0])
    np.testing.assert_array_equal(fed, network.observed(test, [300], 10)[1])
    truth, other = test.states[301:306], changed.states[301:306]
    one = washout.filtered_start(network, test, 300, 10, 5)
    np.testing.assert_array_equal(one, washout.filtered_start(network, changed, 300, 10, 5))
    assert not np.allclose(washout.trials(network, test, *given), washout.trials(network, changed, *given))
    assert not np.allclose(truth, other)


def test_numbers_do_not_depend_on_who_runs_the_units(result):
    class Backwards(Tasks):
        def map(self, function, arguments):
            return [function(*a) for a in reversed(list(arguments))][::-1]

    again = washout.run(Settings(True, 5, TINY), Backwards())
    assert again.frame.equals(result.frame)


# ---------------------------------------------------------------- the paper's numbers


def test_published_numbers():
    assert set(washout.PUBLISHED) == set(STATES)
    for by_length in washout.PUBLISHED.values():
        assert tuple(by_length) == washout.LENGTHS
        assert all(len(row) == 6 for row in by_length.values())
        assert all(row[2 + m] <= row[m] <= row[4 + m] for row in by_length.values() for m in (0, 1))
    printed = washout_tables.published
    assert printed("mean", "P")["position", 1] == 0.0093
    assert printed("max", "MC")["angular velocity", 200] == 2.6916
    assert printed("min", "P")["angle", 1] == 0.0653
    assert printed("mean", "MC")["velocity", 200] == 4.4887
    # bold in the paper: 22 of the PESN alone, 2 of both
    wins = washout_tables.win_count(list(printed("mean", "P").values()), list(printed("mean", "MC").values()), 0.0)
    assert wins == (22, 2, 8)


# ---------------------------------------------------------------- the verdicts, on made-up numbers


def made_up(mc, lengths=(1, 10), noisy=2.0, zero=1.0):
    """P errs by 1 everywhere, MC by ``mc`` (lengths, states), the others as they are given."""
    errors = np.ones((8, 2, len(lengths), 4))
    errors[1] = np.asarray(mc, float)
    errors[2], errors[5] = zero, noisy
    return washout_tables.as_frame(errors, lengths)


@pytest.mark.parametrize(
    ("noisy", "zero", "verdict"),
    [
        (2.0, 1.1, "holds"),  # wins as printed, and fairly
        (2.0, 1.0, "corrected"),  # wins against noise alone
        (2.0, 0.9, "corrected"),
        (1.0, 2.0, "does not hold"),  # not even as printed
        (0.9, 1.0, "does not hold"),
    ],
)
def test_wins_are_judged_as_printed_and_then_fairly(noisy, zero, verdict):
    first, _ = washout_tables.judge(made_up(np.full((2, 4), 1.1), noisy=noisy, zero=zero))
    assert first.verdict == verdict


@pytest.mark.parametrize(
    ("mc", "verdict"),
    [
        (np.full((2, 4), 1.1), "holds"),  # loses nowhere
        ([[1.1] * 4, [0.99] * 4], "holds"),  # loses half, by 1 %
        ([[1.1] * 4, [1.1, 1.1, 1.1, 0.5]], "does not hold"),  # loses once, by far
        (np.ones((2, 4)), "holds"),  # nothing but ties
    ],
)
def test_losses_are_small_or_not(mc, verdict):
    _, second = washout_tables.judge(made_up(mc))
    assert second.verdict == verdict


def test_reasons_quote_the_run():
    first, second = washout_tables.judge(made_up([[1.1] * 4, [0.99] * 4]), [made_up(np.full((2, 4), 1.1))])
    assert "less in 8 of 8 cells" in first.reason
    assert "22 wins, 2 ties and 8 losses of 32" in first.reason
    assert "wins in 4, ties, to four digits, in 0, and loses in 4" in first.reason
    assert "1 other networks it then wins in 8" in first.reason
    assert "not of the PESN" in first.reason
    assert "by at most 1.01%" in second.reason
    ahead, _ = washout_tables.judge(made_up(np.full((2, 4), 1.1), zero=2.0))  # a PESN that did beat the zero start
    assert "not of the PESN" not in ahead.reason
    assert "wins in 8, ties in 0" in ahead.reason
