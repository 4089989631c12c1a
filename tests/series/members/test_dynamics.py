"""Claim: the automatic design is tried where reservoirs are far better than autoregression, judged by rows it did not see."""

import numpy as np
import pytest

from pesn.series import univariate
from pesn.series.members import dynamics


@pytest.fixture(scope="module")
def model():
    t = np.arange(320.0)
    y = 2.0 + np.sin(0.3 * t) * np.sin(0.05 * t) + 0.02 * np.random.default_rng(0).normal(size=320)
    before = dynamics.GAIN
    dynamics.GAIN = np.inf  # tried in any case
    try:
        return univariate.fit(y, horizon=8)
    finally:
        dynamics.GAIN = before


def test_it_has_a_share_and_says_why(model):
    assert set(model.shares) == {"statistical", "AR", "reservoir", "dynamics"}
    assert sum(model.shares.values()) == pytest.approx(1.0)
    assert any(note.startswith("dynamics: tried") for note in model.notes)
    assert any(member.kind == "dynamics" for member in model.members)


def test_what_is_kept_gives_the_same_numbers_again(model):
    first = model.forecast(8).location
    np.testing.assert_array_equal(model.on(model.y).forecast(8).location, first)
    values = model.y / model.scale
    refitted = dynamics.fit_network(values[:, None], calibrate=False, design=model.loops.dynamics.model.design)
    np.testing.assert_allclose(refitted.forecast(8, values).mean, model.loops.dynamics.model.forecast(8, values).mean, rtol=1e-6)


def test_later_rows_are_context_alone(model):
    longer = np.concatenate([model.y, model.y[-100:]])
    ahead = model.on(longer).forecast(8)
    assert np.isfinite(ahead.quantile([0.1, 0.9])).all()
    assert model.on(longer).loops.dynamics is model.loops.dynamics


def test_it_is_not_tried_on_a_walk():
    y = 100.0 + np.cumsum(np.random.default_rng(1).normal(size=320))
    found = univariate.fit(y, horizon=8)
    assert "dynamics" not in found.shares
    assert any(note.startswith("dynamics: not tried") for note in found.notes)
