"""Claim: a season that is there is found, under trend, noise and gaps; in noise and random walks none is."""

import numpy as np
import pytest

from pesn.series.season import NONE, Season, filled, find, phase_inputs, suggested


@pytest.mark.parametrize(
    ("freq", "rows"), [("MS", 12), ("QE-DEC", 4), ("D", 7), ("h", 24), ("W-SAT", 52), ("30min", 48), ("B", 5)]
)
def test_the_one_that_the_step_suggests(freq, rows):
    rng, n = np.random.default_rng(0), 12 * rows
    t = np.arange(n)
    shape = rng.normal(size=rows)
    y = shape[t % rows] + 0.2 * rng.normal(size=n) + 3.0 * (t / n) ** 2
    y[5:8] = np.nan
    assert find(y[:, None], freq).rows == rows


def test_one_that_nobody_suggests():
    t = np.arange(200.0)
    y = np.sin(2 * np.pi * t / 17) + 0.3 * np.random.default_rng(0).normal(size=200)
    assert find(y[:, None], None) == Season(17, 17.0)
    assert find(y[:, None], "YS-JAN") == Season(17, 17.0)


def test_a_cycle_between_two_lengths_is_the_one_that_it_keeps():
    """A cycle of 10.8 rows: 10 and 11 look alike after one of them, not after three."""
    t, rng = np.arange(300.0), np.random.default_rng(0)
    found = [find((np.sin(2 * np.pi * t / 10.8 + phase) + 0.4 * rng.normal(size=300))[:, None], None).rows for phase in range(6)]
    assert found == [11] * 6


@pytest.mark.parametrize("seed", range(5))
def test_none_in_noise_or_a_random_walk(seed):
    noise = np.random.default_rng(seed).normal(size=(150, 1))
    assert find(noise, None) == find(noise, "MS") == NONE
    assert find(np.cumsum(noise, axis=0), "MS") == NONE


def test_weeks_of_a_year_are_not_quite_52():
    assert suggested("W-SAT") == [(52, pytest.approx(365.2425 / 7))]


def test_filled_is_pandas_interpolation():
    import pandas as pd

    y = np.random.default_rng(0).normal(size=(30, 2))
    y[[3, 4, 10], 0] = np.nan
    y[-2:, 1] = np.nan
    np.testing.assert_allclose(filled(y), pd.DataFrame(y).interpolate(limit_direction="both").to_numpy())


def test_phase_goes_on():
    season = Season(12, 12.0)
    np.testing.assert_allclose(phase_inputs(season, 5, 20, 3)[4:], phase_inputs(season, 9, 16, 3))
    assert phase_inputs(season, 0, 4, 0).shape == (4, 0)
