"""Claim: text becomes the numbers that people meant by it; where two meanings are possible, or none, the cell is named."""

import numpy as np
import pandas as pd
import pytest

from pesn.series.table.errors import DataError
from pesn.series.table.numerals import is_numeric, to_numbers


def numbers(*cells, **options):
    return to_numbers(pd.Series(cells, name="x"), list(range(2, len(cells) + 2)), **options).tolist()


@pytest.mark.parametrize(
    ("cells", "meant"),
    [
        (("1", "-2.5", "1e3", ".5", "+4"), [1.0, -2.5, 1000.0, 0.5, 4.0]),
        (("1,234.5", "12", "1,000,000"), [1234.5, 12.0, 1e6]),
        (("1,5", "1,234"), [1.5, 1.234]),  # the first cell tells
        (("1.234,5", "12"), [1234.5, 12.0]),
        (("1 234", "1\u00a0234\u00a0567"), [1234.0, 1234567.0]),
        (("\u22125", " 7 "), [-5.0, 7.0]),
    ],
)
def test_meant(cells, meant):
    assert numbers(*cells) == meant


def test_missing():
    assert np.isnan(numbers("", "NA", "n/a", "null", "-", "NaN", "?")).all()


def test_which_comma_is_asked_for_not_guessed():
    with pytest.raises(DataError, match=r"'x' has '1,234' in line 2, which may be a thousand or a fraction"):
        numbers("1,234", "2,345")
    assert numbers("1,234", "2,345", comma_separated=True) == [1234.0, 2345.0]


def test_which_dot_is_asked_for_not_guessed():
    with pytest.raises(DataError, match=r"'x' has '1\.163' in line 3, which may be a thousand or a fraction"):
        numbers("950", "1.163", "1.339")
    assert numbers("950", "1.163", comma_separated=True) == [950.0, 1.163]
    assert numbers("0.163", "0.339", "1.250") == [0.163, 0.339, 1.25]
    assert numbers("950", "1.163", "2.5") == [950.0, 1.163, 2.5]


def test_signs_of_currency_and_percent():
    assert numbers("$12.50", "-$3", "€ 4") == [12.5, -3.0, 4.0]
    assert numbers("12 €", "38.8%", "5 %") == [12.0, 38.8, 5.0]


@pytest.mark.parametrize("wrong", ["oops", "1.2.3", "12,34,5", "5 % of", "inf", "1e999"])
def test_what_is_no_number_is_named_with_its_line(wrong):
    with pytest.raises(DataError, match=r"column 'x' has '.*' in line 4"):
        numbers("1.5", "2", wrong, "4")


def test_a_few_texts_do_not_make_a_column_of_text():
    assert is_numeric(pd.Series(["1", "2", "x"]))
    assert not is_numeric(pd.Series(["a", "b", "2"]))
    assert not is_numeric(pd.Series(["2020-01-01", "2020-01-02"]))
