"""Only regular files of limited size are read, and archives do not unpack to more than their size."""

import io
import os
import stat
import struct
import zipfile

import pytest

from pesn._support.files import RefusedError, RefusedFileError, check_archive, contents, regular

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
def test_file_that_becomes_a_pipe_or_grows_is_refused(tmp_path, monkeypatch):
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


def write_archive(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for name, data in members:
            made.writestr(name, data)
    return file.getvalue()


TWO = write_archive([("a", b"1" * 150), ("b", b"2" * 150)])


def overlap():
    """Let both names refer to the same bytes, as zip bombs do."""
    data = bytearray(TWO)
    first = data.index(b"PK\1\2")
    second = data.index(b"PK\1\2", first + 1)
    struct.pack_into("<I", data, second + 42, 0)
    return bytes(data[: TWO.index(b"PK\3\4", 4)] + data[first:-6] + struct.pack("<IH", TWO.index(b"PK\3\4", 4), 0))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (TWO, None),
        (write_archive([("a", b"1" * 100)], zipfile.ZIP_DEFLATED), "compressed"),
        (TWO.replace(b"b2", b"a2").replace(b"b", b"a"), "one name"),
        (overlap(), "overlap"),
    ],
    ids=["good", "compressed", "twice", "overlapping"],
)
def test_archives_that_unpack_to_more_than_the_file_are_refused(data, message):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if message is None:
            check_archive(archive, archive.start_dir)
        else:
            with pytest.raises(RefusedError, match=message):
                check_archive(archive, archive.start_dir)
