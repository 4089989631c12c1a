"""Claim: the compiled smoothers are the published recursion; the forecast of an origin uses the rows up to it only."""

import numpy as np
import pytest

from pesn.series.members import smoothing
from pesn.series.members.smoothing import LOG, MULTIPLICATIVE, THETA, TREND
from pesn.series.members.weights import Trial


@pytest.fixture(scope="module")
def y():
    t = np.arange(60)
    y = (1.0 + 0.01 * t + 0.1 * np.sin(2 * np.pi * t / 6)) * np.exp(0.03 * np.random.default_rng(0).normal(size=60))
    y[[5, 6, 30]] = np.nan
    return y


@pytest.fixture(scope="module")
def rows(y):
    return smoothing.prepare(y, (6,), 12, positive=True)


def every(step):
    """Some of all members."""
    everyone = smoothing.grid(True, True)
    return everyone.select(np.arange(0, len(everyone.prior), step))


def trial(y, origins, leads):
    return Trial(np.array(origins), np.array(leads), np.zeros((0, 0)), 60).with_values(y)


def by_hand(rows, periods, phase, member, kind, how, steps):
    """Forecasts after the last row, in plain Python, with dictionaries for the factors."""
    alpha, ratio, phi, gamma = member
    y = rows.rows[how]
    factors, begin = [], 0
    for m in periods:
        factors.append({p: float(rows.first[how, begin + p]) for p in range(m)})
        begin += m
    level, slope = rows.starts[how]
    slope = slope if kind == TREND else 0.0

    def season(t):
        each = [f[(t + phase) % m] for f, m in zip(factors, periods, strict=True)]
        return float(np.prod(each)) if how == MULTIPLICATIVE else float(np.sum(each))

    seen, values = [], []
    for t, value in enumerate(y):
        expected = level + (phi * slope if kind == TREND else 0.0)
        if np.isnan(value):
            level, slope = expected, phi * slope if kind == TREND else slope
            continue
        v = value / season(t) if how == MULTIPLICATIVE else value - season(t)
        level = expected + alpha * (v - expected)
        if kind == TREND:
            slope = phi * slope + alpha * ratio * (v - expected)
        seen.append(t)
        values.append(v)
        if kind == THETA:
            slope = ratio * np.polyfit(seen, values, 1)[0] if len(seen) > 2 else 0.0
        for f, m in zip(factors, periods, strict=True):
            p = (t + phase) % m
            if how == MULTIPLICATIVE:
                f[p] *= 1.0 + gamma / len(factors) * (v / level - 1.0)
            else:
                f[p] += gamma / len(factors) * (v - level)
    out = []
    for j in steps:
        if kind == THETA:
            ahead = level + slope * (j - 1 + (1.0 - (1.0 - alpha) ** len(seen)) / alpha)
        else:
            ahead = level + slope * sum(phi**k for k in range(1, j + 1)) if kind == TREND else level
        whole = ahead * season(len(y) - 1 + j) if how == MULTIPLICATIVE else ahead + season(len(y) - 1 + j)
        out.append(np.exp(whole) if how == LOG else whole)
    return np.array(out)


@pytest.mark.parametrize("periods", [(), (6,), (3, 6)])
@pytest.mark.parametrize("phase", [0, 4])
def test_the_kernel_is_the_recursion_on_paper(y, periods, phase):
    rows = smoothing.prepare(y, periods, 9, positive=True, phase=phase)
    everyone = smoothing.grid(bool(periods), True)
    for k in range(0, len(everyone.prior), 37):
        one = everyone.select(np.array([k]))
        found = smoothing.path(rows, one, np.ones(1), horizon=9).forecast
        expected = by_hand(rows, periods, phase, one.parameters[0], *one.kinds[0], range(1, 10))
        np.testing.assert_allclose(found, np.clip(expected, *rows.bounds), rtol=1e-9, err_msg=str(one.detail(0, periods)))


def test_the_look_up_of_an_origin_is_the_forecast_of_the_truncated_series(y, rows):
    stack, found = every(29), trial(y, [8, 21, 30, 58], [1, 2, 5, 8])
    weight = np.random.default_rng(0).dirichlet(np.ones(len(stack.prior)))
    whole = smoothing.path(rows, stack, weight, found)
    for row, origin in zip(whole.ahead, found.origins, strict=True):
        cut = rows._replace(rows=rows.rows[:, : origin + 1].copy())
        np.testing.assert_allclose(row, smoothing.path(cut, stack, weight, horizon=8).forecast[found.leads - 1], rtol=1e-12)


def test_errors_are_those_of_the_paths(y, rows):
    members, found = every(101), trial(y, range(10, 59), [1, 3])
    for k, errors in enumerate(smoothing.rolling_errors(rows, members, found)):
        ahead = smoothing.path(rows, members.select(np.array([k])), np.ones(1), found).ahead
        np.testing.assert_allclose(errors, np.nanmean(np.abs(found.truth - ahead), axis=0), rtol=1e-10)


@pytest.mark.parametrize("seasonal", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_priors_add_up(seasonal, positive):
    everyone = smoothing.grid(seasonal, positive)
    assert everyone.prior.sum() == pytest.approx(1.0)
    assert set(everyone.names) == set(smoothing.TRENDS) - ({"momentum"} if seasonal else set())
    assert "φ 0.8" in everyone.detail(everyone.names.index("damped"), (12,))
