"""Claim: learned dynamics are tried where reservoirs are far better than autoregression, and evaluated on held-out rows; columns
of one system are forecast together, others separately; both are saved."""

import numpy as np
import pandas as pd
import pytest

import pesn
from pesn.series import univariate
from pesn.series.members import dynamics
from pesn.systems import chaotic


@pytest.fixture(scope="module")
def model():
    t = np.arange(320.0)
    y = 2.0 + np.sin(0.3 * t) * np.sin(0.05 * t) + 0.02 * np.random.default_rng(0).normal(size=320)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dynamics, "GAIN", np.inf)  # tried in any case
        return univariate.fit(y, horizon=8)


def test_dynamics_have_a_weight_a_note_and_a_network_of_all_rows(model):
    assert set(model.shares) == {"statistical", "AR", "reservoir", "dynamics"}
    assert sum(model.shares.values()) == pytest.approx(1.0)
    assert any(note.startswith("dynamics: tried") for note in model.notes)
    assert any(member.kind == "dynamics" for member in model.members)
    # the network that is kept is that of all rows
    np.testing.assert_array_equal(model.with_rows(model.y).forecast(8).location, model.forecast(8).location)
    kept, values = model.loops.dynamics.model, model.y / model.scale
    again = dynamics.fit_network(values[:, None], calibrate=False, design=kept.design)
    np.testing.assert_allclose(again.forecast(8, values).median, kept.forecast(8, values).median, rtol=1e-6)


def test_later_rows_are_context_only(model):
    later = model.with_rows(np.concatenate([model.y, model.y[-100:]]))
    assert np.isfinite(later.forecast(8).quantile([0.1, 0.9])).all()
    assert later.loops.dynamics is model.loops.dynamics
    # dynamics are not tried on a random walk
    found = univariate.fit(100.0 + np.cumsum(np.random.default_rng(1).normal(size=320)), horizon=8)
    assert "dynamics" not in found.shares
    assert any(note.startswith("dynamics: not tried") for note in found.notes)


# ---------------------------------------------------------------- all columns


@pytest.fixture(scope="module")
def rows():
    return chaotic.henon(runs=1, steps=420, rng=0).states


@pytest.fixture(scope="module")
def forecaster(rows):
    return pesn.SeriesForecaster(horizon=4).fit(pd.DataFrame(rows[:400], columns=["a", "b"]))


def test_a_system_is_forecast_as_one(rows, forecaster):
    assert forecaster.fitted_.joint.ratio < 0.5
    error = np.abs(forecaster.forecast(4).median - rows[400:404])
    assert (error < 0.05 * rows.std(axis=0)).all()
    assert [one.shares for one in forecaster.fitted_.models] == [{"dynamics": 1.0}] * 2
    assert "all columns together" in forecaster.summary()
    assert "forecast together, by one learned dynamics model" in forecaster.summary()


def test_past_forecasts_have_not_seen_what_came(rows, forecaster):
    back = forecaster.backtest(origins=[340, 370])
    assert (back.crps() < 0.2 * back.baselines["persistence"].crps()).all()
    changed = rows[:400].copy()
    changed[370:] += 0.1
    again = dynamics.forecast_past(changed, np.array([370, 340]), 4, np.full(2, -np.inf))  # in any order
    np.testing.assert_allclose(again.location[::-1], back.forecasts.location, rtol=1e-9, atol=1e-12)
    assert np.isfinite(forecaster.backtest(origins=[1]).crps()).all()  # too few rows for a system: each column alone


def test_joint_dynamics_are_saved(forecaster, save_and_load):
    both = save_and_load(forecaster), forecaster
    np.testing.assert_array_equal(*(one.forecast(3).quantile([0.05, 0.5, 0.95]) for one in both))


@pytest.mark.parametrize("make", [
    lambda rng: np.cumsum(rng.normal(size=(400, 3)), axis=0),
    lambda rng: np.sin(np.arange(400)[:, None] * [0.5, 0.52]) + 0.1 * rng.normal(size=(400, 2)),
    lambda rng: np.hstack([rng.normal(size=(400, 1)), np.full((400, 1), 3.0)]),
    lambda rng: np.where(rng.random((400, 2)) < 0.01, np.nan, chaotic.henon(runs=1, steps=400, rng=0).states),
], ids=["walks", "waves", "a constant", "missing values"])  # fmt: skip
def test_independent_columns_are_no_joint_system(make):
    assert not dynamics._promising(make(np.random.default_rng(0)))
