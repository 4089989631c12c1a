"""Claim: what units give comes back from disk as it went in, of the same types, or is refused when it is written; no code of a
file runs; a journal gives what stands before the first record that is damaged or not ours."""

import io
import re
import zipfile
from collections import OrderedDict, namedtuple
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import pesn
from pesn.paper.runner import store
from pesn.paper.runner.store import Journal, decoded, encoded

ARRAYS = npst.arrays(
    st.one_of(npst.floating_dtypes(endianness="="), npst.integer_dtypes(), npst.boolean_dtypes(), npst.unicode_string_dtypes()),
    npst.array_shapes(min_dims=0, min_side=0),
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    ARRAYS,
    st.floats().map(np.float64),
    st.integers(0, 9).map(np.int32),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers(), st.tuples(st.text())), inner),
    ),
    max_leaves=12,
)


def same(a, b):
    """Of one type, and equal in every part, to the bit; NaN is NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | np.generic):
        orders = [getattr(x, "flags", {"F_CONTIGUOUS": True})["F_CONTIGUOUS"] for x in (a, b)]
        return a.dtype == b.dtype and a.shape == b.shape and orders[0] == orders[1] and a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return all(same(x, y) for x, y in zip(a.items(), b.items(), strict=True))
    return repr(a) == repr(b)


@given(VALUES)
def test_there_and_back(value):
    assert same(decoded(encoded(value)), value)


def test_arrays_keep_their_order_in_memory():
    """Sums along an axis depend on it in the last digit."""
    for value in (np.ones((3, 4)), np.ones((3, 4), order="F"), np.ones((4, 3), np.float32).T):
        assert same(decoded(encoded(value)), value)


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        namedtuple("Pair", "a b")(1, 2),
        OrderedDict(a=1),
        {1, 2},
        Fraction(1, 3),
        Text("a"),
        1j,
        b"a",
        pd.DataFrame({"a": [1]}),
        np.array([None]),
        np.ma.array([1.0]),
        np.zeros(2, [("a", float)]),
        len,
        pesn.Mesh(-1, 1, 5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_not_come_back_is_refused(value, tmp_path):
    units = Journal(tmp_path / "journal", 3)
    units.add(0, 1.5, 0.1, 0.2)
    for inside in (value, [value], {"a": (1, value)}):
        with pytest.raises(TypeError, match=r"a unit's result must be made of .*, got " + re.escape(type(value).__module__)):
            units.add(1, inside, 0.2, 0.3)
    units.close()
    units = Journal(tmp_path / "journal", 3)
    assert units.found == {0: (1.5, 0.1, 0.2)}
    units.close()


def test_a_broken_record_gives_what_stands_before_it(tmp_path):
    path = tmp_path / "a" / "journal"
    units = Journal(path, 9)
    units.add(4, "x", 1.0, 1.5)
    units.add(2, [1.5], 2.0, 3.5)
    units.close()
    whole = path.read_bytes()
    first, both = {4: ("x", 1.0, 1.5)}, {4: ("x", 1.0, 1.5), 2: ([1.5], 2.0, 3.5)}
    for broken, left in [(whole[:-1], first), (whole[:-1] + b"?", first), (whole[:30], {}), (whole + b"\xff" * 40, both)]:
        path.write_bytes(broken)
        units = Journal(path, 9)
        assert units.found == left
        units.add(7, "y", 3.0, 4.5)
        units.close()
        again = Journal(path, 9)
        again.close()
        assert again.found == {**left, 7: ("y", 3.0, 4.5)}


def packed(text, compression=zipfile.ZIP_STORED):
    """The record of any JSON."""
    file, array = io.BytesIO(), io.BytesIO()
    np.save(array, np.frombuffer(text, np.uint8))
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("arr_0.npy", array.getvalue())
    return file.getvalue()


@pytest.mark.parametrize(
    "record",
    [
        b"",
        packed(b"null"),
        packed(b'[0, 1.5, "x", 0.5]'),
        packed(b"[0, 1.5, 0.5]"),  # of a version that kept no CPU time
        packed(b"[-1, 1.5, 0.5, 0.5]"),
        packed(b"[0, 1.5, 0.5, 0.5]", zipfile.ZIP_DEFLATED),
        packed(b'[0, {"array": 7}, 0.5, 0.5]'),
        packed(b'[0, {"eval": 1}, 0.5, 0.5]'),
        packed(b'[0, {"tuple": [], "dict": []}, 0.5, 0.5]'),
        packed(b"[" * 200_000),
    ],
)
def test_what_is_not_ours_is_dropped(record, tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(store._HEAD.pack(len(record), store._line_checksum(record)) + record)
    units = Journal(path, 3)
    units.close()
    assert units.found == {}
    assert path.stat().st_size == 0


def test_json_has_a_bound(monkeypatch):
    record = encoded("x" * 100)
    monkeypatch.setattr(store, "LARGEST_JSON", 50)
    with pytest.raises(TypeError, match="at most 50 bytes beside its arrays, got 102"):
        encoded("x" * 100)
    with pytest.raises(ValueError, match="too much JSON"):
        decoded(record)


def test_no_source_of_pesn_reads_a_pickle():
    for path in Path(pesn.__file__).parent.rglob("*.py"):
        found = re.findall(
            r"import pickle|pickle\.load|joblib\.load|allow_pickle=True|read_pickle|import marshal|import shelve",
            path.read_text(),
        )
        assert not found, path
