"""A label is what the draws agree on, whatever their order, and a claim of several items or regimes has one."""

import pytest

from pesn.paper.claims import (
    AGREE,
    CLAIMS,
    LABELS,
    PART,
    UNFAIR,
    Draw,
    Verdict,
    claim_labels,
    combine_labels,
    majority_label,
    over_columns,
    over_draws,
)  # fmt: skip


@pytest.mark.parametrize("n", [1, 8, 20])
def test_a_label_needs_three_quarters_of_the_draws(n):
    for other in range(n + 1):
        outcomes = [UNFAIR] * other + ["holds"] * (n - other)
        share = (n - other) / n
        expected = ("holds", "") if share >= AGREE else (UNFAIR, "") if 1 - share >= AGREE else (PART, "the draw")
        assert majority_label(outcomes) == majority_label(outcomes[::-1]) == expected
    with pytest.raises(ValueError, match="at least one draw"):
        majority_label([])


def test_a_verdict_says_how_many_draws_support_it_and_what_it_depends_on():
    draws = [Draw("holds", 1.0)] * 7 + [Draw(UNFAIR, 2.0)]
    verdict = over_draws("printed-bound", draws, "Why.", measure="ratio", limits=[1.5])
    assert (verdict.verdict, verdict.support, len(verdict.draws)) == ("holds", 7, 8)
    split = over_draws("printed-bound", draws[:2] + [Draw(UNFAIR)] * 3, "Why.")
    assert (split.verdict, split.depends, split.support) == (PART, "the draw", 3)
    assert Verdict("printed-bound", "misprint", "Mathematics.").support == 0
    values = {"theirs": 0.1, "ours": 0.2, "printed": 8, "largest": 0.02}
    both = over_columns("washout-small-losses", [draws, [Draw("does not hold", 3.0)] * 8], values)
    assert (both.verdict, both.depends, len(both.draws), both.support) == (PART, "the regime", 16, 8)
    assert "10.0%" in both.reason
    assert over_columns("washout-small-losses", [draws, draws], values).verdict == "holds"


def test_one_label_for_a_claim_that_two_items_judge():
    assert combine_labels([("holds", ""), ("holds", "")]) == ("holds", "")
    assert combine_labels([("holds", ""), ("does not hold", "")]) == (PART, "the robot")
    records = [{"id": "a", "verdict": "holds"}, {"id": "b", "verdict": "misprint"}, {"id": "a", "verdict": UNFAIR}]
    assert claim_labels(records) == {"a": PART, "b": "misprint"}


def test_every_claim_has_a_plain_sentence_for_its_labels():
    for claim in CLAIMS.values():
        assert len(claim.said) >= 2
        assert set(claim.said) <= set(LABELS)
        assert all(sentence.endswith(".") and len(sentence) < 130 for sentence in claim.said.values())
