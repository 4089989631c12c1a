"""A label is what the draws agree on, whatever their order, and a claim of several items has one."""

import pytest

from pesn.paper.claims import AGREE, Draw, Verdict, claim_labels, combine_labels, majority_label, over_draws


@pytest.mark.parametrize("n", [1, 8, 20])
def test_a_label_needs_three_quarters_of_the_draws(n):
    for other in range(n + 1):
        outcomes = ["corrected"] * other + ["holds"] * (n - other)
        share = (n - other) / n
        expected = "holds" if share >= AGREE else "corrected" if 1 - share >= AGREE else "depends"
        assert majority_label(outcomes) == majority_label(outcomes[::-1]) == expected


def test_three_outcomes_that_share_the_draws_depend():
    assert majority_label(["holds", "corrected", "does not hold"] * 3) == "depends"
    with pytest.raises(ValueError, match="at least one draw"):
        majority_label([])


def test_a_verdict_says_how_many_draws_support_it():
    draws = [Draw("holds", 1.0)] * 7 + [Draw("corrected", 2.0)]
    verdict = over_draws("washout-wins", draws, "Why.", measure="ratio", limits=[1.5])
    assert (verdict.verdict, verdict.support, len(verdict.draws)) == ("holds", 7, 8)
    split = over_draws("washout-wins", draws[:2] + [Draw("corrected")] * 3, "Why.")
    assert (split.verdict, split.support) == ("depends", 3)
    assert Verdict("printed-bound", "corrected", "Mathematics.").support == 0


def test_one_label_for_a_claim_that_two_items_judge():
    assert combine_labels(["holds", "holds"]) == "holds"
    assert combine_labels(["holds", "does not hold"]) == "depends"
    records = [{"id": "a", "verdict": "holds"}, {"id": "b", "verdict": "corrected"}, {"id": "a", "verdict": "corrected"}]
    assert claim_labels(records) == {"a": "depends", "b": "corrected"}
