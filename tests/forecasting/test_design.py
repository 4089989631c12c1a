"""The automatic design: accuracy, reproducibility and refusals."""

import numpy as np
import pytest

import pesn
from pesn.forecasting import design as search
from pesn.forecasting.dataset import Segment, with_noise
from pesn.forecasting.design import KINDS, MAPS, Candidate, Design, Network, Piece, Place, Problem, Scored, feature_maps
from pesn.readout.groups import find_patches
from pesn.readout.ridge import Factor
from pesn.systems import chaotic


@pytest.fixture(scope="module")
def lorenz():
    return chaotic.lorenz(dt=0.02, runs=1, steps=1300, rng=4)[0].states


@pytest.fixture(scope="module")
def forecaster(lorenz):
    return pesn.Forecaster().fit(lorenz[:700])


def _error(forecaster, y, horizon=20):
    origins = range(750, 1250, 60)
    errors = [forecaster.forecast(horizon, y[k - 40 : k]).mean - y[k : k + horizon] for k in origins]
    return float(np.abs(errors / y.std(axis=0)).mean())


def test_design_beats_a_fixed_network_and_an_autoregression(lorenz, forecaster):
    fixed = pesn.Forecaster(pesn.ProbabilisticESN(100, washout="auto", random_state=0)).fit(lorenz[:700])
    arx = pesn.Forecaster(design=Design(Candidate("none", 9, 0, ridge=(1e-10, 1e-10)))).fit(lorenz[:700])
    found = _error(forecaster, lorenz)
    assert found < 0.1 * min(_error(fixed, lorenz), _error(arx, lorenz))
    # intervals have their coverage
    backtest = forecaster.backtest(lorenz[700:], horizon=20, origins=30)
    assert backtest.coverage(0.95) > 0.8


def test_loops_of_a_design_from_few_rows_do_not_diverge():
    y = chaotic.lorenz(runs=1, steps=1000, rng=3)[0].states
    few = pesn.Forecaster(calibrate=False).fit(y[:800])
    low, high = y.min(axis=0), y.max(axis=0)
    for k in (850, 900):
        ahead = few.forecast(60, y[k - 40 : k], joint=False).mean
        assert ((ahead > low - 0.2 * (high - low)) & (ahead < high + 0.2 * (high - low))).all()


def test_design_can_be_refitted_without_a_search_and_saved(lorenz, forecaster, save_and_load):
    again = pesn.Forecaster(design=forecaster.design_).fit(lorenz[:700])
    one, other = (f.forecast(20, lorenz[800:840]) for f in (forecaster, again))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.std, other.std)
    # design is saved
    loaded = save_and_load(forecaster)
    assert loaded.design_ == forecaster.design_
    np.testing.assert_array_equal(loaded.forecast(5, lorenz[800:840]).mean, forecaster.forecast(5, lorenz[800:840]).mean)


def test_scores_have_a_frame_and_a_plot(forecaster):
    design = forecaster.design_
    frame = design.scores
    assert set(frame["kind"]) <= set(KINDS)
    assert (frame["rung"].iloc[0], frame["score"].iloc[0]) == (3, frame.loc[frame["rung"] == 3, "score"].min())
    assert (frame["kind"].iloc[0], frame["lags"].iloc[0]) == (design.candidate.kind, design.candidate.lags)
    assert {("none", 9, 0)} <= set(zip(frame["kind"], frame["lags"], frame["products"], strict=True))  # ARX(10) is among them
    ax = design.plot()
    assert "error" in ax.get_xlabel()
    assert "units" in str(design)


def test_design_of_a_linear_system_with_inputs_runs_and_levels():
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=(600, 1)), np.zeros((600, 2))
    for k in range(599):
        y[k + 1] = [0.8 * y[k, 0] + 0.1 * y[k, 1] + u[k, 0], 0.9 * y[k, 1]] + 0.1 * rng.normal(size=2)
    f = pesn.Forecaster(target="level").fit(y, u, lengths=[200, 200, 200])
    assert f.design_ is not None
    forecast = f.forecast(3, (y[:10], u[:9]), u[9:12])
    assert np.abs(forecast.mean - y[10:13]).max() < 4.0 * forecast.std.max()
    assert forecast.std[0, 0] < 0.15


def _problem(forecaster, runs):
    """Return the search problem of runs with the columns of a forecaster."""
    dynamics, bounds = forecaster.loop().dynamics, forecaster.loop().guard
    scaled = [forecaster.standardize(y, np.zeros((len(y), 0)))[0] for y in runs]
    return Problem([Segment(z[:-1], dynamics.targets(z), z) for z in scaled], dynamics, bounds)


def test_whole_runs_are_held_out(lorenz, forecaster):
    problem = _problem(forecaster, [lorenz[k : k + 60] for k in range(0, 720, 60)])
    assert all(len(set(fold)) == 1 for fold in problem.folds)
    assert {int(fold[0]) for fold in problem.folds} == set(range(search.FOLDS))
    for fold in range(search.FOLDS):
        assert all(problem.folds[origin.segment][0] == fold for origin in problem.origins(fold, 16))


def test_readouts_and_units_equal_those_of_a_fit_of_their_own(lorenz, forecaster):
    problem = _problem(forecaster, [lorenz[:500]])
    widest, one = Candidate("static 0.5", 9, 2, 20), Candidate("static 0.5", 1, 1, 20)
    pieces = problem.pieces(10_000)
    found = Network(problem, widest, pieces).readouts(one, 2, [(1e-4, 1e-4)])
    alone = Network(problem, one, pieces).readouts(one, 2, [(1e-4, 1e-4)])
    np.testing.assert_allclose(found, alone, rtol=1e-6, atol=1e-9)
    # units at an origin equal those of the whole segment
    problem = _problem(forecaster, [lorenz[:1000]])
    one = Candidate("static 0.5", 0, 0, 20)
    few, many = (Network(problem, one, problem.pieces(500)) for _ in range(2))
    weights = few.readouts(one, 0, [(1e-4, 1e-4)])
    rows = [Place(0, k) for k in range(800, 900, 10)]
    alone, together = few.loops(one, weights, rows[-1:])[0], many.loops(one, weights, rows)[0]  # by its context, by all rows
    np.testing.assert_allclose(alone[:, 0], together[:, -1], atol=1e-8)


@pytest.mark.parametrize(
    ("kind", "patches"), [*((kind, None) for kind in KINDS if kind != "none"), ("static 0.5", pesn.Patches(1, 2))]
)
def test_compared_network_is_the_one_of_the_design(lorenz, forecaster, kind, patches):
    """The same reservoir, and on the same rows the same weights."""
    candidate = Candidate(kind, 1, 2, 5 if patches else 30, (1e-4, 1e-4), patches=patches)
    rows = np.random.default_rng(0).normal(size=(160, 8))
    dynamics = forecaster.loop().dynamics._replace(learned=np.arange(8), scale=np.ones(8), change=False)
    network = search.build_network(Design(candidate, seed=4), 8, 8)
    found = network.set_params(washout=40).fit(rows[:-1], rows[1:])
    problem = Problem([Segment(rows[:-1], rows[1:], rows)], dynamics, forecaster.loop().guard, 4)
    problem.folds[0][:] = 0  # without the last fold these are all rows
    alone = Network(problem, candidate, [Piece(0, 0, 159, 40)])
    np.testing.assert_allclose(alone.readouts(candidate, 4, [(1e-4, 1e-4)])[0], found.readout_.weights, rtol=1e-6, atol=1e-8)
    compared = alone.reservoir
    for name in ("data", "W_in", "bias", "leak_rate"):
        np.testing.assert_allclose(getattr(compared, name), getattr(network.reservoir_, name), rtol=1e-12)


def test_design_is_no_worse_than_an_autoregression_on_short_noisy_series():
    rng, errors = np.random.default_rng(0), []
    y = np.sin(2.0 * np.pi * np.arange(320) / 12.0)[:, None] + 0.3 * rng.normal(size=(320, 1))
    train, after = y[:120], y[120:]
    for design in (None, Design(Candidate("none", 9, 0, ridge=(1e-3, 1e-3)))):
        forecaster = pesn.Forecaster(design=design, calibrate=False).fit(train)
        ahead = [forecaster.forecast(10, after[k : k + 30]).mean - after[k + 30 : k + 40] for k in range(0, 150, 10)]
        errors.append(np.abs(ahead).mean())
    assert errors[0] < 1.1 * errors[1]


def test_input_noise_adds_its_covariance_to_the_normal_equations(lorenz, forecaster):
    dynamics, features = forecaster.loop().dynamics, pesn.Features(lags=2, states=False)
    z = forecaster.standardize(lorenz, np.zeros((len(lorenz), 0)))[0]
    inputs, targets, scale = z[:-1], dynamics.targets(z), 0.01
    b, b_away, targets_away = with_noise(features, inputs, dynamics, scale, np.random.default_rng(0))
    np.testing.assert_allclose(b, features(inputs), atol=1e-12)  # of features that are linear the mean is that of the rows
    cov = np.hstack([b_away, targets_away])[2:].T @ np.hstack([b_away, targets_away])[2:] / (len(b) - 2)
    expected = np.zeros_like(cov)  # of the rows: independent; of the target: what leads back from the newest row
    places = np.arange(1, 10)
    expected[places, places] = scale**2
    for i, s in enumerate(dynamics.scale):
        expected[10 + i, 10 + i] = (scale / s) ** 2
        expected[10 + i, 1 + i] = expected[1 + i, 10 + i] = -(scale**2) / s
    np.testing.assert_allclose(cov, expected, atol=0.2 * scale**2 / dynamics.scale.min() ** 2)
    plain = Factor(10, 3).add(b[2:], targets[2:])
    noisy = plain.copy().add_covariance(b_away[2:], targets_away[2:])
    assert noisy.n_samples == plain.n_samples
    R, T = (factor.triangle() for factor in (plain, noisy))
    np.testing.assert_allclose(T.T @ T - R.T @ R, cov * (len(b) - 2), atol=1e-9)


def test_feature_maps_depend_on_columns_and_rows():
    assert set(feature_maps(3, 3_000)) == set(MAPS)
    assert max(products for _, products in feature_maps(12, 3_000)) == 1
    assert max(products for _, products in feature_maps(30, 100_000)) == 0
    assert set(feature_maps(3, 30_000)) == {*MAPS, (9, 2)}
    assert (9, 2) in feature_maps(16, 60_000)
    assert max(products for _, products in feature_maps(20, 15_000)) == 1


def test_best_of_every_kind_goes_on():
    scored = [Scored(-8.0, Candidate("static 1", 0, 1, 100)), Scored(-7.9, Candidate("static 1", 9, 0, 100))]
    scored += [Scored(-1.0, Candidate("memory", 1, 0, 100)), Scored(-6.0, Candidate("biased memory", 0, 1, 100))]
    scored += [Scored(-2.0, Candidate("memory", 0, 1, 100)), Scored(-1.0, Candidate("none", 9, 0))]
    kept = [(one.candidate.kind, one.candidate.lags) for one in search.best_of_kinds(scored)]
    assert kept == [("static 1", 0), ("biased memory", 0), ("memory", 0), ("none", 9)]


@pytest.fixture(scope="module")
def field():
    """A ring of coupled quadratic maps: the next value of a site is a quadratic function of three sites."""
    x = np.random.default_rng(3).uniform(-0.5, 0.5, 12)
    rows = [x]
    for _ in range(400):
        f = 1.0 - 1.95 * np.square(rows[-1])
        rows.append(0.6 * f + 0.2 * (np.roll(f, 1) + np.roll(f, -1)))
    return np.array(rows[100:])


def test_patches_of_a_field_are_selected(save_and_load, field):
    fitted = pesn.Forecaster(calibrate=False).fit(field[:90])
    assert fitted.design_.candidate.patches == pesn.Patches(1, fitted.design_.scores["neighbors"].iloc[0])
    ahead = fitted.forecast(3, field[:250]).mean
    assert np.abs(ahead - field[250:253]).max() < 1e-3 * field.std()
    loaded, again = save_and_load(fitted), pesn.Forecaster(design=fitted.design_, calibrate=False).fit(field[:90])
    for other in (loaded, again):
        np.testing.assert_array_equal(other.forecast(3, field[:250]).mean, ahead)


@pytest.mark.parametrize("change", ["shuffled", "unequal", "few columns", "open"])
def test_patches_need_columns_like_a_field(field, change):
    y = {
        "shuffled": field[:, np.random.default_rng(1).permutation(12)],
        "unequal": field * np.geomspace(1.0, 3.0, 12),
        "few columns": field[:, :6],
        "open": field[:, :9],
    }[change]
    found = find_patches([y])
    assert found == (pesn.Patches(1, 2, periodic=False) if change == "open" else None)
    assert find_patches([field]) == pesn.Patches(1, 2)


def test_few_rows_are_searched():
    """From 60 rows on; the fixed network of fewer rows has larger errors."""
    y = chaotic.lorenz(dt=0.05, runs=1, steps=400, rng=4)[0].states
    few, fixed = pesn.Forecaster(calibrate=False).fit(y[:60]), pesn.Forecaster(calibrate=False).fit(y[:59])
    assert fixed.design_ is None
    assert few.design_ is not None
    errors = [
        np.abs([one.forecast(5, y[k - 10 : k]).mean - y[k : k + 5] for k in range(100, 390, 20)]).mean() for one in (few, fixed)
    ]
    assert errors[0] < 0.7 * errors[1]


def test_invalid_designs_are_refused(lorenz, forecaster):
    with pytest.raises(TypeError, match="design must be"):
        pesn.Forecaster(design="fast").fit(lorenz)
    with pytest.raises(ValueError, match="exclude each other"):
        pesn.Forecaster(pesn.ProbabilisticESN(), design=forecaster.design_).fit(lorenz)


def test_missing_values_in_some_folds_leave_others():
    y = np.sin(0.2 * np.arange(400.0)) + 0.03 * np.random.default_rng(0).normal(size=400)
    y[[50, 120, 280, 350]] = np.nan
    assert np.isfinite(pesn.Forecaster(calibrate=False).fit(y).forecast(5).std).all()
