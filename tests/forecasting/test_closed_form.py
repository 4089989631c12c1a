"""Claim: whatever the design, a forecast's means and deviations are those of members that go through the same loop.

`benchmarks/run.py covariance closed-loop` has it at full size: 300 units, 10,000 members.
"""

import pytest

import covariance


@pytest.mark.parametrize("name", covariance.DESIGNS)
def test_twenty_steps_in_closed_form_are_those_of_members(name):
    """From rows with noise of 5 %: forecasts are up to a deviation wide. Counting alone leaves 0.06 and 4 % at 60 places."""
    found = covariance.compare_with_ensemble(name, 0.05, units=25, n_train=300, members=2500)
    assert 0.05 < found.width < 2.0
    assert found.mean < 0.1
    assert found.std < 0.1


def test_a_sharp_design_keeps_its_digits():
    """Ridge 1e-13 and rows without noise: less than a thousandth of a deviation wide."""
    found = covariance.compare_with_ensemble("fast, products of two rows", 0.0, units=30, n_train=600, members=2500)
    assert found.width < 1e-3
    assert found.mean < 0.1
    assert found.std < 0.1
