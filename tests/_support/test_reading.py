"""Claim: what is not a regular file is not opened, what is larger than stated is not read, and an archive unpacks to no more than
the file has, all of whose bytes belong to one member."""

import io
import os
import stat
import struct
import zipfile

import pytest

from pesn._support.files import RefusedFileError, contents, regular, stored

POSIX = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="devices, pipes and links as POSIX has them")


def test_contents(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert contents(tmp_path / "a", 5) == contents(str(tmp_path / "a"), 9, links=False) == b"12345"
    with pytest.raises(RefusedFileError, match=r"it has 5 bytes, and 4 are the most: '.*a'"):
        contents(tmp_path / "a", 4)
    assert contents(tmp_path / "a", 2**62) == b"12345"  # memory is reserved for what is there, not for the most that is allowed
    with pytest.raises(FileNotFoundError, match="nothing"):
        contents(tmp_path / "nothing", 5)
    with pytest.raises(IsADirectoryError):
        contents(tmp_path, 5)


@POSIX
def test_pipes_devices_and_links(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for path in (tmp_path / "pipe", "/dev/zero", "/dev/stdin" if not os.path.isfile("/dev/stdin") else "/dev/null"):
        with pytest.raises(RefusedFileError, match="it is not a regular file"):
            contents(path, 5)
    assert contents(tmp_path / "link", 5) == b"1"
    with pytest.raises(RefusedFileError, match="it is not a regular file"):
        contents(tmp_path / "link", 5, links=False)


@POSIX
def test_a_file_that_becomes_a_pipe_or_grows_meanwhile(tmp_path, monkeypatch):
    path, look = tmp_path / "a", os.stat

    def pipe_by_then(*arguments, **options):
        found = look(*arguments, **options)
        path.unlink()
        os.mkfifo(path)
        return found

    path.write_bytes(b"1")
    monkeypatch.setattr(os, "stat", pipe_by_then)
    with pytest.raises(RefusedFileError, match="it is not a regular file"):
        contents(path, 5)
    assert stat.S_ISFIFO(look(path).st_mode)
    monkeypatch.undo()
    path.unlink()
    path.write_bytes(b"1")
    with regular(path, 5) as file:
        path.write_bytes(b"123456789")
        assert file.read(5) == b"12345"


def archive(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for name, data in members:
            made.writestr(name, data)
    return file.getvalue()


@pytest.mark.parametrize("large", [False, True])
def test_an_archive_as_zipfile_makes_it(large, monkeypatch):
    """Also with the fields that archives beyond 2 GiB have."""
    if large:
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 50)
    data = archive([("a", b"1" * 100), ("folder/b", b""), ("c", b"23")])
    assert (b"PK\6\6" in data) == large
    with stored(io.BytesIO(data)) as found:
        assert {name: len(found.read(name)) for name in found.namelist()} == {"a": 100, "folder/b": 0, "c": 2}


TWO = archive([("a", b"1" * 50), ("b", b"2" * 50)])
DIRECTORY = TWO.index(b"PK\1\2")


def overlapping():
    """Both names for the bytes of the first, as zip bombs have it."""
    data = bytearray(TWO)
    second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)
    struct.pack_into("<I", data, second + 42, 0)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (archive([("a", b"1" * 100)], zipfile.ZIP_DEFLATED), "compressed"),
        (TWO.replace(b"b2", b"a2").replace(b"b", b"a"), "one name"),
        (archive([("é", b"1")]), "not ASCII"),
        (overlapping(), "overlap"),
        (b"#!/bin/sh\n" + TWO, "overlap|something before"),
        (TWO + b"\0" * 5, "something|not a zip"),
        (TWO[:-2] + b"\3\0abc", "something"),
        (TWO[:DIRECTORY] + b"hidden" + TWO[DIRECTORY:], "something|overlap|not a zip"),
    ],
    ids=["compressed", "twice", "name", "overlapping", "before", "after", "comment", "between"],
)
def test_archives_that_hold_more_or_less_than_they_say(data, message):
    with pytest.raises(zipfile.BadZipFile, match=message), stored(io.BytesIO(data)):
        pass


def test_a_gap_between_members():
    """Bytes that no member has, with all offsets right."""
    gap = b"hidden"
    second = TWO.index(b"PK\3\4", 4)
    data = bytearray(TWO[:second] + gap + TWO[second:])
    entry = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)
    struct.pack_into("<I", data, entry + 42, second + len(gap))
    struct.pack_into("<I", data, len(data) - 6, DIRECTORY + len(gap))
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert found.read("b") == b"2" * 50  # zipfile by itself does not mind
    with pytest.raises(zipfile.BadZipFile, match="something between"), stored(io.BytesIO(data)):
        pass
