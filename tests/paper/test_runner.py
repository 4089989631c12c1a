"""Claim: a run keeps what is finished, goes on where it was killed, shows no half results; its numbers hang on the seed alone."""

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from joblib import cpu_count
from threadpoolctl import threadpool_limits

import pesn
from pesn._support import cluster as dask_cluster
from pesn.paper import runner
from pesn.paper.claims import CLAIMS, Settings


@pytest.fixture
def fakes(fake_items, tmp_path):
    with fake_items(tmp_path / "fakes") as place:
        yield place


@pytest.fixture(scope="module")
def made(fake_items, tmp_path_factory):
    """Both items, made once."""
    place = tmp_path_factory.mktemp("made")
    with fake_items(place / "fakes"):
        reproduce(place / "out", "one", "two")
    return place / "out"


@pytest.fixture
def out(fakes, tmp_path):
    return tmp_path / "out"


@pytest.fixture
def done(made, out):
    """A folder in which both items are finished."""
    return Path(shutil.copytree(made, out))


def reproduce(out, *names, **options):
    return runner.reproduce(names or ["one"], out, **({"quick": True} | options))


def calls(place):
    return (place / "calls").read_text().split("\n")[:-1] if (place / "calls").exists() else []


def numbers(folder, name="one"):
    with (folder / name / "frame.csv").open() as file:
        return [float(row["value"]) for row in csv.DictReader(file)]


def expected(seed=0, units=6):
    """The made-up item's numbers by the plainest way."""
    import fake_one

    with threadpool_limits(1):
        return [fake_one.unit(s, 1.0, np.linspace(0.0, 1.0, 4000)) for s in Settings(True, seed, {}).seeds(units)]


def check_numbers(out, name="one"):
    np.testing.assert_array_equal(numbers(out, name), expected())


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def kill_once(process, condition):
    """Kill a process at work once a condition is met."""
    try:
        until(lambda: condition() or process.poll() is not None)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


# What is written


def test_run_writes_a_folder_per_item_and_a_page(fakes, tmp_path):
    out = tmp_path / "deep" / "out"
    records = reproduce(out, "one", "two", seed=3)
    assert [record["name"] for record in records] == ["one", "two"]
    assert sorted(os.listdir(out)) == ["index.html", "one", "results.json", "two"]
    files = ["frame.csv", "result.json", "table-table-1-bound.csv", "values.png", "values.svg"]
    assert sorted(os.listdir(out / "one")) == files
    assert (out / "one" / "values.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((out / "one" / "result.json").read_text())
    assert record == records[0]
    assert json.loads((out / "results.json").read_text()) == records
    draws = [["holds in part", 0.5], ["holds", None], ["holds in part", 2.0], ["holds in part", 0.25]]
    judged = {
        "id": "printed-bound", "text": CLAIMS["printed-bound"].text, "verdict": "holds in part", "depends": "", "draws": draws,
        "support": 3,
    }  # fmt: skip
    assert record["claims"] == [judged | {"measure": "a number", "limits": [1.0], "reason": f"It is {numbers(out)[0]:.3f}."}]
    assert (record["title"], record["quick"], record["seed"]) == ("Title of one", True, 3)
    assert (record["parameters"], record["published"]) == ({"units": 6, "scale": 1.0}, [{"bound": 4.2e-5}])
    assert (record["errata"], record["notes"]) == ([9], ["A note."])
    assert record["figures"] == [{"name": "values", "png": "values.png", "svg": "values.svg", "alt": "A line."}]
    assert record["command"] == "pesn reproduce one --quick --seed 3"
    assert record["versions"]["pesn"] == pesn.__version__
    table = record["obtained"]["Table 1: bound"]
    assert table["columns"] == ["state", "published mean", "obtained mean"]
    assert table["rows"] == [["x", 1.0, numbers(out)[0]]]
    assert min(record["seconds"], record["cpu_seconds"]) > 0.0
    assert record["cores"] == 1
    assert "Title of one" in (out / "index.html").read_text()


def test_strict_json():
    value = {"a": np.float64("nan"), 1: np.array([1, np.inf]), "c": (np.int64(2), None, True)}
    assert runner.files.plain(value) == {"a": None, "1": [1.0, "inf"], "c": [2, None, True]}
    with pytest.raises(ValueError, match="JSON"):
        runner.to_json(float("nan"))


# Kept and made again


def test_finished_results_are_reused_for_equal_settings(fakes, out):
    def run(**options):
        reproduce(out, **options)
        return len(calls(fakes))

    assert run() == 6
    before = (out / "one" / "frame.csv").stat().st_mtime_ns
    assert run(jobs=2) == 6  # the engine is no part of it
    assert (out / "one" / "frame.csv").stat().st_mtime_ns == before
    assert run(seed=1) == 12
    assert run(quick=False, seed=1) == 21
    assert len(numbers(out)) == 9
    assert run(quick=False, seed=1) == 21
    (out / "one" / "values.svg").unlink()
    assert run(quick=False, seed=1) == 30  # a result is whole or none


def test_digest_depends_on_parameters_and_code(fakes):
    import fake_one
    import fake_two

    settings = Settings(True, 0, {"a": 1, "b": [0.5]})
    one, two = fake_one.ITEMS[0], fake_two.ITEMS[0]
    same = runner._digest(one, settings)
    assert runner._digest(one, Settings(True, 0, {"b": (0.5,), "a": np.int64(1)})) == same
    others = [
        runner._digest(two, settings), runner._digest(one, Settings(True, 0, {"a": 1, "b": [0.25]})),
        runner._digest(one, Settings(True, 1, settings.parameters)), runner._digest(one, Settings(False, 0, settings.parameters)),
    ]  # fmt: skip
    Path(fake_one.__file__).write_text("# changed")
    others.append(runner._digest(one, settings))
    assert len({same, *others}) == 6


def test_after_an_error_the_finished_items_are_kept(out, monkeypatch):
    reproduce(out, "two")
    kept = (out / "two" / "result.json").read_bytes()
    monkeypatch.setenv("FAKE_FAIL", "one")
    with pytest.raises(runner.ItemError, match=r"(?s)one failed: ZeroDivisionError: made to\nfail \(.*fake_one.py:\d+\)"):
        reproduce(out)
    assert (out / "two" / "result.json").read_bytes() == kept
    assert not (out / "one").exists()
    monkeypatch.delenv("FAKE_FAIL")
    reproduce(out)
    check_numbers(out)
    assert sorted(os.listdir(out)) == ["index.html", "one", "results.json", "two"]  # nothing of the broken run is left


@pytest.mark.skipif(os.name != "posix", reason="kills as POSIX has them")
def test_run_resumes_after_a_kill(fakes, out):
    (fakes / "wait").touch()
    code = (
        "from pesn import paper\nfrom pesn.paper import runner\n"
        "paper.ITEMS = {'one': 'fake_one', 'two': 'fake_two'}\n"
        f"runner.reproduce([], {str(out)!r}, quick=True)"
    )
    kill_once(subprocess.Popen([sys.executable, "-c", code]), lambda: len(calls(fakes)) == 3)
    assert not (out / "one").exists()
    (out / ".one-abc.part").mkdir()  # as if killed while it wrote
    (fakes / "wait").unlink()
    reproduce(out, "one", "two")
    check_numbers(out)
    assert sorted(os.listdir(out)) == ["index.html", "one", "results.json", "two"]


def lead_out(place):
    """A record with a file beside its folder, and a right checksum."""
    record = json.loads((place / "result.json").read_text(encoding="utf-8"))
    (place.parent / "frame.csv").write_bytes((place / "frame.csv").read_bytes())
    record["files"]["../frame.csv"] = record["files"]["frame.csv"]
    del record["checksum"]
    record["checksum"] = runner._checksum(runner.to_json(record).encode())
    (place / "result.json").write_text(runner.to_json(record), encoding="utf-8")


def other_seed(place):
    path = place / "result.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"seed": 0', '"seed": 1'), encoding="utf-8")


def put(name, make):
    """Something else in the place of a file."""

    def damage(place):
        (place / name).unlink()
        make(place / name)

    return damage


DAMAGES = {
    "empty figure": put("values.svg", Path.touch), "pipe": put("values.png", os.mkfifo),
    "cut frame": lambda place: (place / "frame.csv").write_bytes(b"cut"),
    "broken record": lambda place: (place / "result.json").write_bytes(b"{"),
    "deep record": lambda place: (place / "result.json").write_text("[" * 200_000),
    "changed record": other_seed, "file elsewhere": lead_out,
}  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="devices, pipes and links as POSIX has them")
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_results_are_computed_again(fakes, done, damage):
    page = (done / "index.html").read_bytes()
    DAMAGES[damage](done / "one")
    assert runner.read_result(done / "one") is None
    reproduce(done, "two")  # does not stop at what is not asked for
    assert [record["name"] for record in json.loads((done / "results.json").read_text(encoding="utf-8"))] == ["two"]
    reproduce(done, "one", "two")
    assert runner.read_result(done / "one") is not None
    assert len((done / "index.html").read_bytes()) == pytest.approx(len(page), abs=200)  # times differ
    check_numbers(done)


@pytest.mark.skipif(sys.platform != "linux", reason="processes as /proc shows them")
@pytest.mark.parametrize("moment", ["second worker", "units"])
def test_workers_end_with_the_process_that_started_them(tmp_path, moment):
    """Killed while they start, or at their units."""
    code = (
        "import os, time\n"
        "from pathlib import Path\n"
        "from pesn.paper import runner\n"
        "def unit(i):\n"
        f"    (Path({str(tmp_path)!r}) / str(os.getpid())).touch()\n"
        "    time.sleep(600)\n"
        "def main():\n"
        "    with runner.engine(jobs=2):\n"
        "        runner.JoblibTasks().map(unit, [(0,), (1,)])\n"
    )
    source = tmp_path / "source"
    source.mkdir()
    (source / "script.py").write_text(code)
    paths = os.pathsep.join([str(source), str(Path(pesn.__file__).parents[1])])
    command = [sys.executable, "-c", "import script; script.main()"]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, start_new_session=True)

    def others():
        """Of the session, without the dead: its workers, and what counts joblib's semaphores."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                state, _, _, session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == process.pid != int(path.name) and state not in "ZX":
                    found[int(path.name)] = (path / "cmdline").read_text()
        return found

    def reached():
        workers = sum("LokyProcess" in command for command in others().values())
        return workers >= 1 + (moment == "second worker") if "worker" in moment else len(list(tmp_path.glob("[0-9]*"))) == 2

    kill_once(process, reached)
    try:
        until(lambda: not others(), 30.0)
    finally:
        for worker in others():
            os.kill(worker, signal.SIGKILL)


# Folders that cannot be written


IN_THE_WAY = {
    "file": (lambda out: (out / "one").write_text("mine"), "one is in the way"),
    "folder": (lambda out: ((out / "one").mkdir(), (out / "one" / "thesis.tex").write_text("mine")), "one is in the way"),
    "link": (lambda out: (out / "one").symlink_to(out.parent), "one is in the way"),
    "page": (lambda out: (out / "index.html").write_text("mine"), r"index\.html is in the way, and is no page of results"),
    "no folder": (lambda out: (out.rmdir(), out.write_text("mine")), "File exists"),
}


@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_foreign_files_are_not_overwritten(fakes, out, kind):
    make, message = IN_THE_WAY[kind]
    out.mkdir()
    make(out)
    before = sorted(out.parent.rglob("*"))
    with pytest.raises(OSError, match=rf"cannot write .*out: {message}"):
        reproduce(out, "one", "two")
    assert [path for path in sorted(out.parent.rglob("*")) if "__pycache__" not in path.parts] == before
    assert calls(fakes) == []


def test_a_full_disk(out, monkeypatch):
    import matplotlib.figure

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    reproduce(out, "two")
    with monkeypatch.context() as patch:
        patch.setattr(matplotlib.figure.Figure, "savefig", full)
        with pytest.raises(OSError, match=r"cannot write .*out: No space left on device"):
            reproduce(out, "one", "two")
    assert sorted(os.listdir(out)) == ["index.html", "results.json", "two"]
    reproduce(out, "one", "two")
    check_numbers(out)


@pytest.mark.skipif(os.name != "posix", reason="locks as POSIX has them")
def test_one_run_at_a_time(out):
    with runner._hold(out), pytest.raises(OSError, match="another run is writing to it"):
        reproduce(out)
    reproduce(out)


@pytest.mark.parametrize(("names", "options", "error", "message"), [
    (["ones"], {}, ValueError, r"item must be one of one, two, got 'ones'; did you mean 'one'\?"),
    ([3], {}, TypeError, "item must be a name, got 3"),
    (["one"], {"seed": -1}, ValueError, "seed must be 0 or more, got -1"),
    (["one"], {"jobs": 0}, ValueError, "jobs must be 1 or more, got 0"),
    *[
        (["one"], {"scheduler": address}, ValueError, "scheduler must be an address such as")
        for address in ("", "localhost", "http://127.0.0.1:80", "tcp://127.0.0.1:x")
    ],
])  # fmt: skip
def test_wrong_arguments(out, names, options, error, message):
    with pytest.raises(error, match=message):
        reproduce(out, *names, **options)
    assert not (out / "one").exists()
    with pytest.raises(ValueError, match="folder must be the path of a folder, got ''"):
        reproduce("")


# Engines: the same numbers


def test_numbers_are_equal_in_one_and_in_two_processes(fakes, tmp_path):
    truth = expected(seed=5)
    (fakes / "calls").unlink()
    for jobs in (1, 2):
        runner.reproduce(["one"], tmp_path / f"out{jobs}", quick=True, seed=5, jobs=jobs)
        np.testing.assert_array_equal(numbers(tmp_path / f"out{jobs}"), truth)
    processes = [int(line.split()[0]) for line in calls(fakes)]
    assert set(processes[:6]) == {os.getpid()}
    assert os.getpid() not in processes[6:]
    a, b = ((tmp_path / f"out{jobs}" / "one" / "values.svg").read_bytes() for jobs in (1, 2))
    assert a == b


@pytest.mark.parametrize("jobs", [1, 2])
def test_cpu_time_is_that_of_all_processes(jobs):
    busy = partial(exec, "import time\nend = time.thread_time() + 0.2\nwhile time.thread_time() < end:\n    pass")
    with runner.engine(jobs) as cores:
        assert cores == min(jobs, cpu_count())
        done = runner.JoblibTasks()
        assert done.map(busy, [({},)] * 4) == [None] * 4
        assert 0.8 <= done.cpu_seconds < 1.5  # 1.6 if a unit were counted twice


@pytest.fixture
def certificates(tmp_path, monkeypatch):
    """A function that makes an authority and its certificate, and names them in Dask's configuration, here and in children."""
    config = pytest.importorskip("dask.config")
    pytest.importorskip("distributed")  # whose defaults would come over what is set here
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates: apt-get install openssl")

    def make(name):
        place, key = tmp_path / name, "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
        place.mkdir()
        for command in (
            f"req -x509 {key} -days 1 -subj /CN=authority -keyout ca-key.pem -out ca.pem",
            f"req {key} -subj /CN=one -keyout key.pem -out request.pem",
            "x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 1 -out cert.pem",
        ):
            subprocess.run(["openssl", *command.split()], cwd=place, check=True, capture_output=True)
        files = {"ca-file": str(place / "ca.pem")}
        for role in ("scheduler", "worker", "client"):
            files |= {f"{role}.cert": str(place / "cert.pem"), f"{role}.key": str(place / "key.pem")}
        for key, file in files.items():
            monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{key.replace('.', '__').replace('-', '_').upper()}", file)
        stack.enter_context(config.set({f"distributed.comm.tls.{key}": file for key, file in files.items()}))

    with contextlib.ExitStack() as stack:
        yield make


@pytest.fixture
def cluster(fakes, tmp_path):
    """A function that starts a scheduler and two worker processes on loopback: its address and the processes of its workers."""
    pytest.importorskip("distributed")
    processes = []

    def start(*arguments):
        environment = {**os.environ, "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False"}
        command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
        with (tmp_path / f"log{len(processes)}").open("w") as log:
            processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=tmp_path))

    def started(protocol):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        host, address = f"{protocol}://127.0.0.1", f"{protocol}://127.0.0.1:{port}"
        start("scheduler", "--host", host, "--port", port)
        for _ in range(2):
            start("worker", address, "--nthreads", "1", "--no-nanny", "--host", host, "--local-directory", str(tmp_path))
        until(lambda: all("Starting established connection" in (tmp_path / f"log{i}").read_text() for i in (1, 2)))
        return address, processes[1:]

    try:
        yield started
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_on_a_cluster_by_tls_with_certificates(cluster, certificates, fakes, out, monkeypatch):
    certificates("ours")
    address, workers = cluster("tls")
    reproduce(out, scheduler=address)
    assert {int(line.split()[0]) for line in calls(fakes)} <= {worker.pid for worker in workers}
    check_numbers(out)
    monkeypatch.setattr(dask_cluster, "WAIT", 1.0)
    certificates("another authority's")
    for wrong, reason in ((address, "within 1 s, or it and this machine's"), (address.replace("tls", "tcp"), "within 1 s$")):
        with pytest.raises(ConnectionError, match=f"no Dask scheduler answers at {wrong} {reason}"):
            reproduce(out, "two", scheduler=wrong)


def test_tls_without_certificates(certificates, tmp_path):
    from dask import config

    for key, file, message in [
        ("ca-file", None, r"a tls:// scheduler needs certificates: distributed\.comm\.tls\.ca-file .* must be a file, got none"),
        ("client.cert", None, r"a tls:// scheduler needs certificates: distributed\.comm\.tls\.client\.cert .* got none"),
        ("client.key", "/no/key", r"distributed\.comm\.tls\.client\.key in Dask's configuration must be a file, got '/no/key'"),
    ]:
        certificates(key)
        with config.set({f"distributed.comm.tls.{key}": file}), pytest.raises(ValueError, match=message):
            dask_cluster.check_certificates()


@pytest.mark.skipif(os.name != "posix", reason="kills as POSIX has them")
def test_on_a_cluster_with_a_worker_killed(cluster, fakes, out):
    address, workers = cluster("tcp")
    (fakes / "wait").touch()

    def kill_one_at_work():
        until(lambda: len(calls(fakes)) >= 3)
        at_work = int(calls(fakes)[-1].split()[0])
        os.kill(at_work, signal.SIGKILL)
        (fakes / "wait").unlink()

    killer = threading.Thread(target=kill_one_at_work)
    killer.start()
    reproduce(out, scheduler=address)
    killer.join()
    assert sorted(worker.poll() is None for worker in workers) == [False, True]
    assert len(calls(fakes)) > 6  # the unit that was at work was done again
    check_numbers(out)


@pytest.mark.parametrize("kind", ["dead", "mute"])
def test_a_scheduler_that_does_not_answer(fakes, out, monkeypatch, kind):
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask_cluster, "WAIT", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        if kind == "dead":
            server.close()
        start = time.monotonic()
        with pytest.raises(ConnectionError, match=f"no Dask scheduler answers at {address} within 1 s"):
            reproduce(out, scheduler=address)
    assert time.monotonic() - start < 8.0
    assert calls(fakes) == []


def test_workers_with_other_versions_are_refused(monkeypatch):
    class Client:
        def wait_for_workers(self, *_, **__):
            pass

        def run(self, function):
            return {"tcp://a:1": {**function(), "numpy": "1.0"}}

    with pytest.raises(ConnectionError, match=r"worker tcp://a:1 has numpy 1\.0, here is"):
        dask_cluster.check_workers(Client(), "tcp://b:2")


def test_no_source_of_pesn_reads_a_pickle():
    pattern = r"import pickle|pickle\.load|joblib\.load|allow_pickle=True|read_pickle|import marshal|import shelve"
    for path in Path(pesn.__file__).parent.rglob("*.py"):
        assert not re.findall(pattern, path.read_text()), path
