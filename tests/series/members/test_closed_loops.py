"""Claim: closed loops are the readout applied repeatedly, fitted to earlier rows only; they forecast nonlinear dynamics."""

import numpy as np
import pytest

from pesn.series import univariate
from pesn.series.members import closed_loops


def walk(n=200, seed=0):
    return np.cumsum(np.random.default_rng(seed).normal(size=n))


def by_hand(rows, units, readout, horizon):
    """Forecasts from the last row, in plain Python."""
    changes, values, average = list(rows.changes), list(rows.values), rows.values[0]
    h = np.zeros(len(units.leak))
    matrix = np.zeros((len(h), len(h)))
    for i in range(len(h)):
        matrix[i, units.columns[i].astype(int)] += units.weights[i]

    def move(change, gap):
        return (1.0 - units.leak) * h + units.leak * np.tanh(units.inputs @ [1.0, change, gap] + matrix @ h)

    for change, value in zip(changes, values, strict=True):
        average += closed_loops.PACE * (value - average)
        h = move(change, (value - average) / rows.gap_unit)
    out, drift = [], readout[-1]
    for _ in range(horizon):
        gap = (values[-1] - average) / rows.gap_unit
        lags = [changes[-1 - k] for k in range(closed_loops.LAGS)]
        season = [changes[-rows.season]] if rows.season else []
        features = np.concatenate([[1.0], lags, [gap], season, h])
        change = float(np.clip(readout[:-1] @ features + drift, -closed_loops.CLIP, closed_loops.CLIP))
        values.append(float(np.clip(values[-1] + change, *rows.bounds)))
        changes.append(values[-1] - values[-2])
        average += closed_loops.PACE * (values[-1] - average)
        h = move(changes[-1], (values[-1] - average) / rows.gap_unit)
        drift *= closed_loops.FADE
        out.append(values[-1] * rows.unit)
    return np.array(out)


@pytest.mark.parametrize("season", [0, 12])
@pytest.mark.parametrize("units", [closed_loops.no_units(), closed_loops.draw_units(1)], ids=["AR", "reservoir"])
def test_the_kernel_is_the_loop_on_paper(season, units):
    rows = closed_loops.prepare(walk(), season)
    readout, _ = closed_loops.fit(rows, units, np.arange(100, 199), 7)
    expected = by_hand(rows, units, readout, 7)
    np.testing.assert_allclose(closed_loops.forecast(rows, units, readout, 7), expected, rtol=1e-8)


def test_ridge_is_the_one_of_scikit_learn():
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    features, target = rng.normal(size=(80, 4)), rng.normal(size=80)
    target += features @ [1.0, 0.5, 0.0, -1.0]
    penalty = np.array([1.0, 1.0, 10.0, 10.0])
    found = closed_loops._ridge(features, target, penalty)
    rivals = [Ridge(alpha=r * 80).fit(features / np.sqrt(penalty), target) for r in closed_loops.RIDGES]
    nearest = min(np.abs(found[1:-1] - one.coef_ / np.sqrt(penalty)).max() for one in rivals)
    assert nearest < 1e-10


def test_origins_are_judged_by_earlier_rows():
    y = walk()
    other = y.copy()
    other[150:] = y[150] + np.cumsum(np.random.default_rng(5).normal(size=50))
    origins = np.arange(60, 199)
    units = closed_loops.draw_units(0)
    scale = closed_loops.prepare(y, 0)
    unit = (scale.unit, scale.gap_unit * scale.unit)
    first, second = (closed_loops.prepare(one, 0, unit) for one in (y, other))
    ahead = [closed_loops.fit(rows._replace(bounds=first.bounds), units, origins, 5)[1] for rows in (first, second)]
    early = origins < 125  # up to the last fold that begins before row 150
    np.testing.assert_array_equal(ahead[0][early], ahead[1][early])


def test_reservoirs_pay_where_the_dynamics_is_nonlinear():
    x = np.full(400, 0.3)
    for t in range(399):
        x[t + 1] = 3.8 * x[t] * (1.0 - x[t])

    def error(parts):
        off = [np.abs(univariate.fit(x[:o], horizon=2, parts=parts).forecast(2).median - x[o : o + 2]) for o in (380, 386, 392)]
        return float(np.mean(off))

    smoothers, with_reservoir = error(()), error(("AR", "reservoir"))
    assert with_reservoir < 0.7 * smoothers


def test_few_rows_are_left_to_the_smoothers():
    model = univariate.fit(100.0 + walk(40), horizon=4)
    assert model.shares == {"statistical": 1.0}
    assert "not tried with fewer than 50 observations" in model.notes[-1]
    assert set(univariate.fit(100.0 + walk(200), horizon=4).shares) == {"statistical", "AR", "reservoir"}


def test_autoregression_of_levels_follows_cycles_of_any_period():
    errors, levels = [], []
    for seed in range(6):
        rng, t = np.random.default_rng(seed), np.arange(70)
        y = np.sin(2 * np.pi * t / rng.uniform(6.0, 15.0)) + 0.1 * rng.normal(size=70)
        model = univariate.fit(y[:60], horizon=10)
        errors.append(np.abs(model.forecast(10).median - y[60:]).mean())
        levels.append(model.loops is not None and model.loops.levels)
    assert np.mean(errors) < 0.15
    assert sum(levels) >= 2


def test_readouts_of_levels_predict_as_one_row_after_the_other():
    values, horizon = np.random.default_rng(0).normal(size=40), 6
    readout, ahead = closed_loops.fit_levels(values, np.array([20, 30, 38]), horizon)
    rows = [*values]
    for _ in range(horizon):
        rows.append(readout[0] + readout[-1] + sum(w * rows[-1 - k] for k, w in enumerate(readout[1:-1])))
    found = closed_loops._run_levels(values, np.array([39]), readout[None], horizon)[0]
    np.testing.assert_allclose(found, rows[40:])
    assert ahead.shape == (3, horizon)
