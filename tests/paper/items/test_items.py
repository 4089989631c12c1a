"""Claim: every item judges its claims, describes its figures, and gives the same numbers whoever runs its units."""

import pandas as pd
import pytest

from pesn import paper
from pesn.paper.claims import CLAIMS, Tasks


class Backwards(Tasks):
    def map(self, function, arguments):
        return [function(*a) for a in reversed(list(arguments))][::-1]


@pytest.mark.parametrize("name", paper.ITEMS)
def test_claims_are_judged_and_figures_drawn(name, run_item):
    result = run_item(name)
    assert sorted(v.claim for v in result.verdicts) == sorted(key for key, claim in CLAIMS.items() if name in claim.items)
    assert len(result.tables) >= 1
    for figure, alt in result.figures.values():
        assert alt.endswith(".")
        assert figure.axes[0].get_ylabel()
        assert any(ax.get_xlabel() for ax in figure.axes)
        if name not in ("cart-pole", "ardrone"):  # which have many, and of one kind
            figure.canvas.draw()


@pytest.mark.parametrize("name", ["moments", "feedforward", "entropy"])
def test_numbers_depend_on_the_seed_only(name, run_item):
    result, again = run_item(name), run_item(name, Backwards())
    pd.testing.assert_frame_equal(again.frame, result.frame, check_exact=True)
    assert again.verdicts == result.verdicts
