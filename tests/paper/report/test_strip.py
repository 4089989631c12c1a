"""A strip shows every draw where its number lies, and hides none behind another."""

import re

from pesn.paper.report import strip


def places(svg):
    found = re.findall(r'c?x="([\d.]+)" c?y="([\d.]+)"', str(svg))
    return [(float(x), float(y)) for x, y in found]


def test_marks_lie_by_their_values_and_apart():
    marks = places(strip([["holds", value] for value in (0.0, 0.5, 0.501, 0.502, 1.0)], "a number"))
    assert [x for x, _ in marks] == sorted(x for x, _ in marks)
    assert len(set(marks)) == 5
    assert len({y for _, y in marks[1:4]}) == 3  # one above the other
    assert marks[0][1] == marks[-1][1]  # on the line


def test_each_outcome_has_a_shape_of_its_own_and_limits_are_drawn():
    svg = str(strip([["holds", 1.0], ["corrected", 2.0], ["does not hold", 3.0]], "a number", [2.5]))
    assert svg.count("<circle") == 2
    assert 'fill="none"' in svg
    assert 'class="limit"' in svg
    assert "3 draws: 1 holds, 1 corrected, 1 does not hold; a number: 1 to 3" in svg


def test_draws_without_numbers_stand_in_a_row():
    svg = str(strip([["holds", None], ["corrected", None], ["holds", None]]))
    assert 'class="limit"' not in svg
    assert "3 draws: 2 holds, 1 corrected" in svg
    assert "nan" not in svg
