"""Replacement of files and folders is atomic; modes and links are kept."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import pesn
from pesn._support import files
from pesn._support.files import LOCK, check_writable, claim_folder, filling, put_folder, replacing, temporary_folder

posix = pytest.mark.skipif(os.name != "posix", reason="links and permissions as POSIX has them")


def test_old_file_is_replaced_at_the_end(tmp_path):
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


REFUSED = {
    "missing/a.csv": (FileNotFoundError, r"[/\\]a\.csv'"),
    "file/a.csv": ((FileNotFoundError, NotADirectoryError), r"[/\\]a\.csv'"),
    "folder.csv": (IsADirectoryError, r"it is a folder: '.*folder\.csv'"),
    "pipe.csv": (OSError, "it is not a regular file: '.*pipe.csv'"),
    "null.csv": (OSError, "it is not a regular file: '.*null.csv'"),
}


@posix
@pytest.mark.parametrize("name", REFUSED)
def test_only_regular_files_in_folders_are_replaced(tmp_path, name):
    (tmp_path / "file").write_text("a file")
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "null.csv").symlink_to(os.devnull)
    error, message = REFUSED[name]
    with pytest.raises(error, match=message), replacing(tmp_path / name):
        pytest.fail("the block must not begin")
    with pytest.raises(error, match=message if "it is" in message else None):
        check_writable(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.csv", "null.csv", "pipe.csv"]


def test_longest_file_names_work(tmp_path):
    name = "a" * 251 + ".csv"
    check_writable(tmp_path / name)
    with replacing(tmp_path / name) as part:
        part.write_text("new")
    assert os.listdir(tmp_path) == [name]
    with pytest.raises(OSError, match="too long"):
        check_writable(tmp_path / f"a{name}")


def test_check_writable_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with replacing("new.csv") as part:  # without a folder
        part.write_text("new")
    os.remove("new.csv")
    (tmp_path / "a.csv").write_text("old")
    for path in ("a.csv", "b.csv", tmp_path / "a.csv"):
        check_writable(path)
    assert os.listdir(tmp_path) == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "old"


def test_read_only_files_are_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for a user who is not root
    with pytest.raises(PermissionError, match=r"it is read-only: '.*a\.csv'"), replacing(tmp_path / "a.csv"):
        pytest.fail("the block must not begin")
    assert (tmp_path / "a.csv").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_concurrent_replacements_are_independent(tmp_path):
    path = tmp_path / "a.csv"
    with replacing(path) as first, replacing(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the last to end
    assert os.listdir(tmp_path) == ["a.csv"]


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_file_mode_is_kept(tmp_path, mode):
    path = tmp_path / "a.csv"
    path.write_text("old")
    path.chmod(mode)
    with replacing(path) as part:
        assert part.stat().st_mode & 0o777 == mode  # from the first byte
        part.write_text("new")
    assert path.stat().st_mode & 0o777 == mode


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


# ---------------------------------------------------------------- folders

NAMES = ["a.csv", "b.html", "c.json"]


def fill(folder, version):
    with filling(folder, "c.json") as part:
        for name in NAMES:
            (part / name).write_text(version)


def versions(folder):
    return {name: (folder / name).read_text() for name in sorted(os.listdir(folder))}


def test_folder_is_filled_at_the_end_without_leftovers(tmp_path):
    out = tmp_path / "deep" / "out"
    for version in ("old", "new"):
        with filling(out, "c.json") as part:
            for name in NAMES:
                (part / name).write_text(version)
            assert all((out / name).read_text() == "old" for name in NAMES if version == "new")
        assert versions(out) == dict.fromkeys(NAMES, version)
        assert os.listdir(out.parent) == ["out"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_old_folder(tmp_path, error):
    def half(folder):
        with filling(folder, "c.json") as part:
            (part / "a.csv").write_text("half")
            raise error

    with pytest.raises(error):
        half(tmp_path / "out")
    assert os.listdir(tmp_path) == []  # a folder that was made for it is removed
    fill(tmp_path / "out", "old")
    with pytest.raises(error):
        half(tmp_path / "out")
    assert versions(tmp_path / "out") == dict.fromkeys(NAMES, "old")
    assert os.listdir(tmp_path) == ["out"]


def test_other_files_in_a_folder_stay(tmp_path, monkeypatch):
    out = tmp_path / "out"
    fill(out, "old")
    (out / "mine.txt").write_text("mine")
    fill(out, "new")
    assert versions(out) == {**dict.fromkeys(NAMES, "new"), "mine.txt": "mine"}
    monkeypatch.chdir(out)
    fill(".", "last")
    assert versions(out) == {**dict.fromkeys(NAMES, "last"), "mine.txt": "mine"}


def test_a_folder_replaces_an_older_one(tmp_path):
    for version in ("old", "new"):
        made = temporary_folder(tmp_path / "put")
        made.mkdir()
        (made / "a").write_text(version)
        put_folder(made, tmp_path / "put")
        assert versions(tmp_path / "put") == {"a": version}
    assert os.listdir(tmp_path) == ["put"]


def test_old_leftovers_are_removed_but_recent_ones_stay(tmp_path):
    old, recent = tmp_path / ".old.part", tmp_path / ".recent.part"
    for folder in (old, recent):
        folder.mkdir()
        (folder / "half").touch()
    os.utime(old, (0, 0))
    fill(tmp_path, "new")
    assert not old.exists()
    assert recent.exists()


@posix
def test_concurrent_runs_move_their_files_one_after_the_other(tmp_path, monkeypatch):
    """Also if the other run starts to move its files after the first file of this run."""
    replace, others = os.replace, []

    def replace_late(*paths):
        if not others:
            others.append(threading.Thread(target=fill, args=(tmp_path / "out", "other")))
            others[0].start()
            others[0].join(0.5)  # it ends here, unless it has to wait
        replace(*paths)

    monkeypatch.setattr(files.os, "replace", replace_late)
    fill(tmp_path / "out", "one")
    others[0].join()
    assert versions(tmp_path / "out") == dict.fromkeys(NAMES, "other")


@posix
def test_folder_is_locked_by_one_run(tmp_path):
    out = tmp_path / "out"
    with claim_folder(out):
        assert os.listdir(out) == [LOCK]
        with pytest.raises(BlockingIOError, match=r"another run is writing to it: wait .*: '.*out'"), claim_folder(out):
            pass
        with claim_folder(tmp_path / "other"):
            pass
    assert os.listdir(out) == []
    with claim_folder(out):
        pass


@posix
def test_killed_runs_release_their_folder(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from pesn._support.files import claim_folder\n"
        "with claim_folder(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(pesn.__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError, match="another run"), claim_folder(tmp_path):
            pass
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert os.listdir(tmp_path) == [LOCK]
    with claim_folder(tmp_path):
        pass
    assert os.listdir(tmp_path) == []
