"""Claim: what units give comes back from disk as it went in, of the same types, or is refused when it is written; no code of a
file runs; what is damaged or not ours goes."""

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
from pesn.paper import tasks
from pesn.paper.tasks import UnitFiles, decode, encode

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
    assert same(decode(encode(value)), value)


def test_arrays_keep_their_order_in_memory():
    """Sums along an axis depend on it in the last digit."""
    for value in (np.ones((3, 4)), np.ones((3, 4), order="F"), np.ones((4, 3), np.float32).T):
        assert same(decode(encode(value)), value)


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
    units = UnitFiles(tmp_path, 3)
    units.add(0, 1.5, 0.1, 0.2)
    for inside in (value, [value], {"a": (1, value)}):
        with pytest.raises(TypeError, match=r"a unit's result must be made of .*, got " + re.escape(type(value).__module__)):
            units.add(1, inside, 0.2, 0.3)
    assert UnitFiles(tmp_path, 3).found == {0: (1.5, 0.1, 0.2)}


def test_a_broken_file_goes_and_the_others_stay(tmp_path):
    units = UnitFiles(tmp_path / "a", 9)
    units.add(4, "x", 1.0, 1.5)
    units.add(2, [1.5], 2.0, 3.5)
    path = tmp_path / "a" / "2.npz"
    whole = path.read_bytes()
    for broken in (whole[:-1], whole[:30], b"", whole.replace(b"[", b"{", 1)):
        path.write_bytes(broken)
        assert UnitFiles(tmp_path / "a", 9).found == {4: ("x", 1.0, 1.5)}
        assert not path.exists()
    UnitFiles(tmp_path / "a", 9).add(2, "y", 3.0, 4.5)
    assert UnitFiles(tmp_path / "a", 9).found == {4: ("x", 1.0, 1.5), 2: ("y", 3.0, 4.5)}
    assert UnitFiles(tmp_path / "a", 3).found == {2: ("y", 3.0, 4.5)}  # of fewer units


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
        packed(b'[1.5, "x", 0.5]'),
        packed(b"[1.5, 0.5]"),
        packed(b"[1.5, 0.5, 0.5]", zipfile.ZIP_DEFLATED),
        packed(b'[{"array": 7}, 0.5, 0.5]'),
        packed(b'[{"eval": 1}, 0.5, 0.5]'),
        packed(b'[{"tuple": [], "dict": []}, 0.5, 0.5]'),
        packed(b"[" * 200_000),
    ],
)
def test_what_is_not_ours_goes(record, tmp_path):
    (tmp_path / "0.npz").write_bytes(packed(b"[1.5, 0.5, 0.5]"))
    assert UnitFiles(tmp_path, 3).found == {0: (1.5, 0.5, 0.5)}
    (tmp_path / "0.npz").write_bytes(record)
    assert UnitFiles(tmp_path, 3).found == {}
    assert list(tmp_path.iterdir()) == []


def test_json_has_a_bound(monkeypatch):
    record = encode("x" * 100)
    monkeypatch.setattr(tasks, "LARGEST_JSON", 50)
    with pytest.raises(TypeError, match="at most 50 bytes beside its arrays, got 102"):
        encode("x" * 100)
    with pytest.raises(ValueError, match="too much JSON"):
        decode(record)


def test_no_source_of_pesn_reads_a_pickle():
    for path in Path(pesn.__file__).parent.rglob("*.py"):
        found = re.findall(
            r"import pickle|pickle\.load|joblib\.load|allow_pickle=True|read_pickle|import marshal|import shelve",
            path.read_text(),
        )
        assert not found, path
