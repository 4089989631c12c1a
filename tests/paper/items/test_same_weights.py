"""Claim: networks trained from different starts learn the same weights, and updated on rows with errors other ones."""

import pytest

from pesn.paper.items import robots, same_weights

SMALL = robots.parameters() | {"n_units": 20, "runs": 2, "run_rows": 500, "input_std": 0.1}


def test_training_forgets_the_start_and_updating_learns_the_errors():
    trained, updated = same_weights.one_draw(SMALL, seed=0)
    assert trained < 1e-4
    assert updated > 0.01
    _, clean = same_weights.one_draw(SMALL | {"input_std": 0.0}, seed=0)
    assert clean < 1e-4


@pytest.mark.parametrize(
    ("draws", "verdict"),
    [([(1e-9, 0.1)] * 4, "corrected"), ([(1e-9, 1e-3)] * 4, "holds"), ([(0.1, 0.1)] * 4, "does not hold")],
)
def test_judged_every_way(draws, verdict):
    judged = same_weights.judge(draws, SMALL)
    assert judged.verdict == verdict
    assert judged.support == len(judged.draws) == 4
