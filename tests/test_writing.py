"""Claim: a file that is being replaced is the old one or the new one, whatever happens; its mode and its links stay."""

import os

import pytest

from pesn.writing import refuse_unwritable, replacing

posix = pytest.mark.skipif(os.name != "posix", reason="links and permissions as POSIX has them")


def test_the_new_file_takes_the_place_of_the_old_one_at_the_end(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("old")
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
        assert part.parent == tmp_path  # on the same file system
        assert part.suffix == ".csv"  # writers choose by it
        assert part.name.startswith(".")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_file_that_is_new(tmp_path):
    with replacing(str(tmp_path / "a")) as part:
        part.write_bytes(b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with replacing("a.txt") as part:
        part.write_text("new")
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("old", [None, "old"])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, error, old):
    path = tmp_path / "a.csv"
    if old is not None:
        path.write_text(old)

    def write():
        with replacing(path) as part:
            part.write_text("half")
            raise error

    with pytest.raises(error):
        write()
    assert os.listdir(tmp_path) == ([] if old is None else ["a.csv"])
    assert old is None or path.read_text() == old


def test_a_replacement_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("old")

    def fail(*_):
        raise OSError(5, "Input/output error")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, fail)
            with pytest.raises(OSError, match="Input/output error"), replacing(path) as part:
                part.write_text("new")
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["a.csv"]


def test_no_folder_no_file(tmp_path):
    (tmp_path / "file").write_text("a file")
    for path in (tmp_path / "missing" / "a.csv", tmp_path / "file" / "a.csv"):
        with pytest.raises((FileNotFoundError, NotADirectoryError), match=r"[/\\]a\.csv'"), replacing(path):
            pytest.fail("the block must not begin")
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            refuse_unwritable(path)
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(IsADirectoryError, match=r"it is a folder: '.*a\.csv'"), replacing(tmp_path / "a.csv"):
        pytest.fail("the block must not begin")
    with pytest.raises(IsADirectoryError):
        refuse_unwritable(tmp_path / "a.csv")
    assert os.listdir(tmp_path) == ["a.csv"]
    assert (tmp_path / "a.csv").is_dir()


def test_a_name_as_long_as_names_may_be(tmp_path):
    name = "a" * 251 + ".csv"
    refuse_unwritable(tmp_path / name)
    with replacing(tmp_path / name) as part:
        part.write_text("new")
    assert os.listdir(tmp_path) == [name]
    with pytest.raises(OSError, match="too long"):
        refuse_unwritable(tmp_path / f"a{name}")


def test_what_can_be_written_is_not_touched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("old")
    for path in ("a.csv", "b.csv", tmp_path / "a.csv"):
        refuse_unwritable(path)
    assert os.listdir(tmp_path) == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "old"


@posix
def test_devices_and_pipes_stay(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "null.csv").symlink_to(os.devnull)
    for name in ("pipe.csv", "null.csv"):
        with pytest.raises(OSError, match=f"it is not a regular file: '.*{name}'"), replacing(tmp_path / name):
            pytest.fail("the block must not begin")
        with pytest.raises(OSError, match="it is not a regular file"):
            refuse_unwritable(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["null.csv", "pipe.csv"]


def test_a_read_only_file_stays(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for a user who is not root
    with pytest.raises(PermissionError, match=r"it is read-only: '.*a\.csv'"), replacing(tmp_path / "a.csv"):
        pytest.fail("the block must not begin")
    assert (tmp_path / "a.csv").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_two_at_once_do_not_meet(tmp_path):
    path = tmp_path / "a.csv"
    with replacing(path) as first, replacing(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the last to end
    assert os.listdir(tmp_path) == ["a.csv"]


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_the_mode_is_kept(tmp_path, mode):
    path = tmp_path / "a.csv"
    path.write_text("old")
    path.chmod(mode)
    with replacing(path) as part:
        assert part.stat().st_mode & 0o777 == mode  # from the first byte
        part.write_text("new")
    assert path.stat().st_mode & 0o777 == mode


@posix
def test_a_new_file_has_the_mode_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    with replacing(tmp_path / "a.csv") as part:
        part.write_text("new")
    assert (tmp_path / "a.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


@posix
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_a_link(tmp_path, exists):
    folder = tmp_path / "folder"
    folder.mkdir()
    if exists:
        (folder / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(folder / "real.csv")
    with replacing(tmp_path / "link.csv") as part:
        assert part.parent == folder
        part.write_text("new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (folder / "real.csv").read_text() == "new"
    assert os.listdir(folder) == ["real.csv"]


@posix
@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_permission(tmp_path):
    (tmp_path / "a.csv").write_text("old")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError), replacing(tmp_path / "a.csv"):
            pytest.fail("the block must not begin")
    finally:
        tmp_path.chmod(0o700)
    assert (tmp_path / "a.csv").read_text() == "old"
