"""Claim: the compiled smoothers are the recursion on paper; the forecast of an origin is that of the rows up to it alone."""

import numpy as np
import pytest

from pesn.series.members import smoothing
from pesn.series.members import smoothing_kernel as kernel

NONE = np.zeros(0, dtype=np.int64)


def course(n=60, gaps=True, seed=0):
    rng, t = np.random.default_rng(seed), np.arange(n)
    y = (1.0 + 0.01 * t + 0.1 * np.sin(2 * np.pi * t / 6)) * np.exp(0.03 * rng.normal(size=n))
    if gaps:
        y[[5, 6, 30]] = np.nan
    return y


def by_hand(rows, member, kind, how, steps):
    """Forecasts after the last row, in plain Python, with dictionaries for the factors."""
    alpha, ratio, phi, gamma = member
    y = rows.rows[how]
    factors, begin = [], 0
    for m in rows.periods:
        factors.append({p: float(rows.first[how, begin + p]) for p in range(m)})
        begin += m
    level, slope = rows.starts[how]
    slope = slope if kind == kernel.TREND else 0.0

    def season(t):
        each = [f[(t + rows.phase) % m] for f, m in zip(factors, rows.periods, strict=True)]
        return float(np.prod(each)) if how == kernel.MULTIPLICATIVE else float(np.sum(each))

    seen, values = [], []
    for t, value in enumerate(y):
        expected = level + (phi * slope if kind == kernel.TREND else 0.0)
        if np.isnan(value):
            level, slope = expected, phi * slope if kind == kernel.TREND else slope
            continue
        v = value / season(t) if how == kernel.MULTIPLICATIVE else value - season(t)
        level = expected + alpha * (v - expected)
        if kind == kernel.TREND:
            slope = phi * slope + alpha * ratio * (v - expected)
        seen.append(t)
        values.append(v)
        if kind == kernel.THETA:
            slope = ratio * np.polyfit(seen, values, 1)[0] if len(seen) > 2 else 0.0
        for f, m in zip(factors, rows.periods, strict=True):
            p = (t + rows.phase) % m
            if how == kernel.MULTIPLICATIVE:
                f[p] *= 1.0 + gamma / len(factors) * (v / level - 1.0)
            else:
                f[p] += gamma / len(factors) * (v - level)
    out = []
    for j in steps:
        if kind == kernel.THETA:
            ahead = level + slope * (j - 1 + (1.0 - (1.0 - alpha) ** len(seen)) / alpha)
        else:
            ahead = level + slope * sum(phi**k for k in range(1, j + 1)) if kind == kernel.TREND else level
        whole = ahead * season(len(y) - 1 + j) if how == kernel.MULTIPLICATIVE else ahead + season(len(y) - 1 + j)
        out.append(np.exp(whole) if how == kernel.LOG else whole)
    return np.array(out)


@pytest.mark.parametrize("periods", [(), (6,), (3, 6)])
@pytest.mark.parametrize("phase", [0, 4])
def test_the_kernel_is_the_recursion_on_paper(periods, phase):
    y = course()
    rows = smoothing.prepare(y, periods, positive=True, phase=phase)
    everyone = smoothing.grid(bool(periods), True)
    for k in range(0, len(everyone.prior), 37):
        one = everyone.taken(np.array([k]))
        found = smoothing.path(rows, one, np.ones(1), NONE, NONE, 9).forecast
        expected = by_hand(rows, one.parameters[0], *one.kinds[0], range(1, 10))
        np.testing.assert_allclose(found, np.clip(expected, *rows.bounds), rtol=1e-9, err_msg=str(one.detail(0, periods)))


def test_the_look_up_of_an_origin_is_the_forecast_of_the_truncated_series():
    y, leads = course(), np.array([1, 2, 5, 8])
    rows = smoothing.prepare(y, (6,), positive=True)
    everyone = smoothing.grid(True, True)
    stack = everyone.taken(np.arange(0, len(everyone.prior), 29))
    weight = np.random.default_rng(0).dirichlet(np.ones(len(stack.prior)))
    origins = np.array([8, 21, 30, 58])
    whole = smoothing.path(rows, stack, weight, origins, leads, 1)
    for row, origin in zip(whole.ahead, origins, strict=True):
        cut = smoothing.Rows(
            rows.truth[: origin + 1], rows.rows[:, : origin + 1], rows.starts, rows.first, rows.periods, 0, rows.bounds
        )
        np.testing.assert_allclose(row, smoothing.path(cut, stack, weight, NONE, NONE, 8).forecast[leads - 1], rtol=1e-12)


def test_errors_are_those_of_the_paths():
    y, leads, origins = course(), np.array([1, 3]), np.arange(10, 59)
    rows = smoothing.prepare(y, (6,), positive=True)
    everyone = smoothing.grid(True, True)
    which = np.arange(0, len(everyone.prior), 101)
    errors, counts = smoothing.rolling_errors(rows, everyone.taken(which), origins, leads)
    at = origins[:, None] + leads
    truth = np.where(at < 60, y[np.minimum(at, 59)], np.nan)
    assert counts.tolist() == np.sum(~np.isnan(truth), axis=0).tolist()
    for row, k in zip(errors, which, strict=True):
        ahead = smoothing.path(rows, everyone.taken(np.array([k])), np.ones(1), origins, leads, 1).ahead
        np.testing.assert_allclose(row, np.nanmean(np.abs(truth - ahead), axis=0), rtol=1e-10)


def test_later_rows_change_no_earlier_forecast():
    y = course()
    rows = smoothing.prepare(y, (6,), positive=True)
    changed = rows.rows.copy()
    changed[:, 40:] = changed[:, 40:][:, ::-1] + 0.5
    other = smoothing.Rows(changed[0], changed, rows.starts, rows.first, rows.periods, 0, rows.bounds)
    everyone = smoothing.grid(True, True)
    stack = everyone.taken(np.arange(0, len(everyone.prior), 53))
    weight = np.full(len(stack.prior), 1.0 / len(stack.prior))
    origins, leads = np.arange(5, 40), np.array([1, 4, 12])
    first, second = (smoothing.path(one, stack, weight, origins, leads, 1) for one in (rows, other))
    np.testing.assert_array_equal(first.ahead, second.ahead)
    np.testing.assert_array_equal(first.level[:40], second.level[:40])


def test_priors_add_up_and_names_are_told():
    for seasonal in (False, True):
        for positive in (False, True):
            everyone = smoothing.grid(seasonal, positive)
            assert everyone.prior.sum() == pytest.approx(1.0)
            assert set(everyone.names) == set(smoothing.PRIOR) - ({"momentum"} if seasonal else set())
    assert "φ 0.8" in everyone.detail(everyone.names.index("damped"), (12,))
