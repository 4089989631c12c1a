"""Claim: text becomes the numbers that people meant by it; where two meanings are possible, or none, the cell is named."""

import numpy as np
import pandas as pd
import pytest

from pesn.series.table.numerals import DataError, find_decimal, is_boolean, is_numeric, to_numbers


def numbers(*cells, **options):
    return to_numbers(pd.Series(cells, name="x"), list(range(2, len(cells) + 2)), **options).tolist()


@pytest.mark.parametrize(("cells", "meant"), [
    (("1", "-2.5", "1e3", ".5", "+4"), [1.0, -2.5, 1000.0, 0.5, 4.0]),
    (("1,234.5", "12", "1,000,000"), [1234.5, 12.0, 1e6]),
    (("1,5", "1,234"), [1.5, 1.234]),  # the first cell tells
    (("1.234,5", "12"), [1234.5, 12.0]), (("1 234", "1\u00a0234\u00a0567"), [1234.0, 1234567.0]),
    (("\u22125", " 7 "), [-5.0, 7.0]),
    (("0,125", "1,250", "2,500"), [0.125, 1.25, 2.5]),  # a leading zero is no thousands separator
    (("1,250", "00,125"), [1.25, 0.125]), (("1,250", "-0,125"), [1.25, -0.125]),
    (("TRUE", "False", "", "true"), [1.0, 0.0, np.nan, 1.0]),
])  # fmt: skip
def test_texts_become_the_numbers_meant(cells, meant):
    np.testing.assert_array_equal(numbers(*cells), meant)


@pytest.mark.parametrize("comma_separated", [False, True])
def test_a_leading_zero_shows_a_decimal_comma_anywhere(comma_separated):
    assert numbers("1,250", "0,125", comma_separated=comma_separated) == [1.25, 0.125]


@pytest.mark.parametrize(("other", "mark", "first", "says"), [
    (["2,5", "3"], ",", 1.125, "decimal comma, as '2,5' in column 'z' shows"),
    (["0,250", "3,125"], ",", 1.125, "decimal comma, as '0,250' in column 'z' shows"),
    (["2.5", "3"], ".", 1125.0, "decimal point, as '2.5' in column 'z' shows"),
    (["2,345,678", "3"], ".", 1125.0, "decimal point, as '2,345,678' in column 'z' shows"),
    (["2", "3"], None, None, None),
    (["08.30", "09.30"], None, None, None),  # a clock shows nothing
])  # fmt: skip
def test_the_file_as_a_whole_shows_the_decimal_mark(other, mark, first, says):
    frame = pd.DataFrame({"x": ["1,125", "1,250"], "z": other}, dtype=object)
    assert find_decimal(frame) == (mark, [] if says is None else [says])
    if first is None:
        with pytest.raises(DataError, match="which may be a thousand or a fraction"):
            to_numbers(frame["x"], [2, 3], decimal=mark)
    else:
        assert to_numbers(frame["x"], [2, 3], decimal=mark)[0] == first


def test_columns_of_two_decimal_marks():
    frame = pd.DataFrame({"x": ["1,125", "1,250"], "y": ["1,5", "2"], "z": ["1.5", "2"], "w": ["1.125", "2"]}, dtype=object)
    mark, notes = find_decimal(frame)
    assert notes == ["two decimal marks: '1,5' in column 'y', '1.5' in 'z'; each column is read by its own"]
    assert [to_numbers(frame[name], [2, 3], decimal=mark)[0] for name in "yz"] == [1.5, 1.5]
    for name in "xw":
        with pytest.raises(DataError, match="which may be a thousand or a fraction"):
            to_numbers(frame[name], [2, 3], decimal=mark, comma_separated=True)


def test_what_no_cell_shows_is_decided_by_a_rule_and_said():
    dotted = pd.DataFrame({"x": ["1.125", "1.250"]}, dtype=object)
    assert find_decimal(dotted) == (
        None, ["decimal point, as nothing in the file shows another: '1.125' in column 'x' is a fraction"]
    )  # fmt: skip
    assert find_decimal(dotted, comma_separated=True) == (None, [])
    thousands = pd.DataFrame({"x": ["1,125", "1,250"]}, dtype=object)
    said = ["decimal point, as commas separate the cells: '1,125' in column 'x' is a thousand"]
    assert find_decimal(thousands, comma_separated=True) == (".", said)


def test_signs_make_numbers_or_none():
    assert not is_numeric(pd.Series(["2020-01-01", "2020-01-02"]))
    with pytest.raises(DataError, match="column 'x' has '1_1' in line 3, which is not a number"):
        numbers("1", "1_1", "2", comma_separated=True)
    # signs of currency and percent
    assert numbers("$12.50", "-$3", "$ 4") == [12.5, -3.0, 4.0]
    assert numbers("12 €", "€ 4", "5") == [12.0, 4.0, 5.0]
    assert numbers("38.8%", "5 %") == [38.8, 5.0]


def test_true_false_and_missing_values_are_recognized():
    assert is_boolean(pd.Series(["TRUE", "", "FALSE"]))
    assert not any(is_boolean(pd.Series(cells)) for cells in (["yes", "no"], ["TRUE", "1"], ["", ""], [1, 0], ["T", "F"]))
    # texts of missing values are nan
    assert np.isnan(numbers("", "NA", "n/a", "null", "-", "NaN", "?")).all()


def test_which_mark_is_asked_for_not_guessed():
    with pytest.raises(DataError, match=r"'x' has '1,234' in line 2, which may be a thousand or a fraction"):
        numbers("1,234", "2,345")
    assert numbers("1,234", "2,345", comma_separated=True) == [1234.0, 2345.0]
    # which dot is asked for not guessed
    with pytest.raises(DataError, match=r"'x' has '1\.163' in line 3, which may be a thousand or a fraction"):
        numbers("950", "1.163", "1.339")
    assert numbers("950", "1.163", comma_separated=True) == [950.0, 1.163]
    assert numbers("0.163", "0.339", "1.250") == [0.163, 0.339, 1.25]
    assert numbers("950", "1.163", "2.5") == [950.0, 1.163, 2.5]


@pytest.mark.parametrize("wrong", ["oops", "1.2.3", "12,34,5", "5 % of", "inf", "1e999"])
def test_what_is_no_number_is_named_with_its_line(wrong):
    with pytest.raises(DataError, match=r"column 'x' has '.*' in line 4"):
        numbers("1.5", "2", wrong, "4")
