"""Claim: inputs that matter are kept and go into forecasts, others are not; one that is not known is as uncertain as it was."""

import numpy as np
import pytest

from pesn.series import univariate
from pesn.series.members import inputs


def driven(n=120, slope=3.0, seed=0):
    rng = np.random.default_rng(seed)
    x = (rng.random((n, 2)) < 0.2).astype(float)
    return 40.0 + np.cumsum(0.2 * rng.normal(size=n)) + slope * x[:, 0], x


def test_slopes_are_those_of_the_series():
    y, x = driven()
    found = inputs.learn(y, x, np.zeros(120), log=False)
    np.testing.assert_allclose(found.slopes, [3.0, 0.0], atol=0.2)
    np.testing.assert_allclose(found.on(found.off(y, x), x), y)
    assert found.any
    assert not inputs.none(2).any


def test_an_input_that_matters_is_kept():
    y, x = driven()
    model = univariate.fit(y, x, horizon=6)
    assert any(note.startswith("inputs: kept") for note in model.notes)
    ahead = np.array([[0.0, 0.0], [1.0, 0.0]] * 3)
    mean = model.forecast(6, ahead).mean
    np.testing.assert_allclose(mean[1::2] - mean[::2], 3.0, atol=0.6)
    assert "inputs" in model.components(6, ahead)
    np.testing.assert_array_equal(model.on(y, x).forecast(6, ahead).location, model.forecast(6, ahead).location)


def test_one_that_does_not_is_not():
    y, x = driven(slope=0.0)
    model = univariate.fit(y, x, horizon=6)
    assert any(note.startswith("inputs: not used") for note in model.notes)
    assert "inputs" not in model.components(6, np.ones((6, 2)))
    np.testing.assert_array_equal(model.forecast(6, np.ones((6, 2))).location, model.forecast(6).location)


def test_an_unknown_input_widens_by_what_it_was():
    y, x = driven()
    model = univariate.fit(y, x, horizon=6)
    known, unknown = model.forecast(6, np.zeros((6, 2))), model.forecast(6)
    assert (unknown.std > known.std).all()
    gaps = np.zeros((6, 2))
    gaps[2] = np.nan
    assert (model.forecast(6, gaps).scale[[0, 1, 3, 4, 5]] == known.scale[[0, 1, 3, 4, 5]]).all()
    level = np.mean(y)
    spread = 3.0 * np.std(x[:, 0]) / level
    grown = np.sqrt(unknown.scale**2 - known.scale**2) / (1.0 if unknown.log else level)
    np.testing.assert_allclose(grown, spread, rtol=0.35)


def test_a_walk_goes_on_from_its_last_number():
    x = np.cumsum(np.random.default_rng(0).normal(size=(200, 1)), axis=0)
    filled, variance = inputs.Effects(np.ones(1), np.zeros(1), False).unknown(x, np.full((5, 1), np.nan))
    np.testing.assert_array_equal(filled[:, 0], x[-1, 0])
    np.testing.assert_allclose(variance, np.arange(1.0, 6.0), rtol=0.3)


def test_shapes_are_told():
    y, x = driven()
    model = univariate.fit(y, x, horizon=6)
    with pytest.raises(ValueError, match=r"x must be \(6, 2\), got \(5, 2\)"):
        model.forecast(6, np.zeros((5, 2)))
    with pytest.raises(ValueError, match="x must have 2 columns, got 0"):
        model.on(y)
