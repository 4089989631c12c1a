"""The automatic design: what it finds, that it can be repeated, and what it refuses."""

import numpy as np
import pytest

import pesn
from pesn.forecasting.design import Candidate, Design
from pesn.forecasting.design.candidates import KINDS, MAPS, maps_for
from pesn.forecasting.training import noisy
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


def test_the_design_forecasts_better_than_a_fixed_network_and_than_an_autoregression(lorenz, forecaster):
    fixed = pesn.Forecaster(pesn.ProbabilisticESN(100, washout="auto", random_state=0)).fit(lorenz[:700])
    arx = pesn.Forecaster(design=Design(Candidate("none", 9, 0, ridge=(1e-10, 1e-10)))).fit(lorenz[:700])
    found = _error(forecaster, lorenz)
    assert found < 0.1 * min(_error(fixed, lorenz), _error(arx, lorenz))


def test_its_intervals_are_honest(lorenz, forecaster):
    backtest = forecaster.backtest(lorenz[700:], horizon=20, origins=30)
    assert backtest.coverage(0.95) > 0.8


def test_a_design_is_repeated_without_a_search(lorenz, forecaster):
    again = pesn.Forecaster(design=forecaster.design_).fit(lorenz[:700])
    one, other = (f.forecast(20, lorenz[800:840]) for f in (forecaster, again))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.std, other.std)


def test_scores_are_a_frame_and_a_picture(forecaster):
    design = forecaster.design_
    frame = design.scores
    assert set(frame["kind"]) <= set(KINDS)
    assert frame["rung"].iloc[0] == 2
    assert frame["score"].iloc[0] == frame.loc[frame["rung"] == 2, "score"].min()
    assert (frame["kind"].iloc[0], frame["lags"].iloc[0]) == (design.candidate.kind, design.candidate.lags)
    assert {("none", 9, 0)} <= set(zip(frame["kind"], frame["lags"], frame["products"], strict=True))  # ARX(10) is among them
    ax = design.plot()
    assert "error" in ax.get_xlabel()
    assert "units" in str(design)


def test_a_file_holds_the_design(tmp_path, lorenz, forecaster):
    forecaster.save(tmp_path / "f.pesn")
    loaded = pesn.load(tmp_path / "f.pesn")
    assert loaded.design_ == forecaster.design_
    np.testing.assert_array_equal(loaded.forecast(5, lorenz[800:840]).mean, forecaster.forecast(5, lorenz[800:840]).mean)


def test_few_rows_are_too_few_to_choose_by(lorenz):
    assert pesn.Forecaster().fit(lorenz[:60]).design_ is None


def test_a_linear_system_with_inputs_runs_and_levels():
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=(600, 1)), np.zeros((600, 2))
    for k in range(599):
        y[k + 1] = [0.8 * y[k, 0] + 0.1 * y[k, 1] + u[k, 0], 0.9 * y[k, 1]] + 0.1 * rng.normal(size=2)
    f = pesn.Forecaster(target="level").fit(y, u, lengths=[200, 200, 200])
    assert f.design_ is not None
    forecast = f.forecast(3, (y[:10], u[:9]), u[9:12])
    assert np.abs(forecast.mean - y[10:13]).max() < 4.0 * forecast.std.max()
    assert forecast.std[0, 0] < 0.15


def test_noise_on_inputs_leads_back_to_the_rows_without_it(forecaster, lorenz):
    dynamics = forecaster.loop().dynamics
    z = forecaster.scaled(lorenz, np.zeros((len(lorenz), 0)))[0]
    segment = pesn.forecasting.dataset.Segment(z[:-1], dynamics.targets(z), z)
    (with_noise,) = noisy([segment], dynamics, 0.01)
    assert 0.005 < np.std(with_noise.z - segment.z) < 0.02
    np.testing.assert_allclose(with_noise.z + with_noise.targets * dynamics.scale, z[1:], atol=1e-12)
    assert noisy([segment], dynamics, 0.0) == [segment]


def test_many_columns_have_fewer_products():
    assert set(maps_for(3)) == set(MAPS)
    assert max(products for _, products in maps_for(12)) == 1
    assert max(products for _, products in maps_for(30)) == 0


def test_what_is_no_design_is_named(lorenz, forecaster):
    with pytest.raises(TypeError, match="design must be"):
        pesn.Forecaster(design="fast").fit(lorenz)
    with pytest.raises(TypeError, match="esn must be"):
        pesn.Forecaster("automatic").fit(lorenz)
    with pytest.raises(ValueError, match="exclude each other"):
        pesn.Forecaster(pesn.ProbabilisticESN(), design=forecaster.design_).fit(lorenz)
