"""Claim: a table or a series is read as it was meant, or the difference is reported, or it is refused; nothing in silence.

``scripts/truth_test.py`` has it at full size: 10,000 tables.
"""

import pytest

from truth_indexes import REFUSED, check_index, make_indexes
from truth_tables import check_case, make_case

PARTS = 10
INDEXES = make_indexes()


@pytest.mark.parametrize("part", range(PARTS))
def test_generated_tables(part, tmp_path):
    outcomes = []
    for seed in range(part, 300, PARTS):
        case = make_case(seed)
        result = check_case(case, tmp_path)
        assert result.outcome != "fault", f"seed {seed}: {result.why}\n{case.features}\n{case.content[:600]!r}"
        outcomes.append(result.outcome)
    assert outcomes.count("refused") <= 0.2 * len(outcomes)


@pytest.mark.parametrize("name", INDEXES)
def test_every_index_of_pandas(name):
    result = check_index(name, INDEXES[name])
    assert result.outcome != "fault", result.why
    assert (result.outcome == "refused") or name not in REFUSED
