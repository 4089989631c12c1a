"""The cache returns the code of the current sources: of a kernel, of its helpers, and of their constants."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

import pesn
from pesn._support import kernel_cache
from pesn._support.kernel_cache import KernelCache, digest_sources, kernel_sources

PACKAGE = Path(pesn.__file__).parent
# A package with kernels in three files, and a constant in a fourth, which knows nothing of compilation.
TREE = {
    "__init__.py": "",
    "_support/__init__.py": "",
    "scales.py": "SCALE = 1.0\n",
    "inner.py": (
        "from pesn._support.jit import INLINE, jit\n\nOFFSET = 10.0\n\n@jit(**INLINE)\ndef inner(x):\n    return x + OFFSET\n"
    ),
    "middle.py": (
        "from pesn._support.jit import jit\nfrom pesn.inner import inner\nfrom pesn.scales import SCALE\n\n"
        "@jit()\ndef middle(x):\n    return SCALE * inner(x)\n"
    ),
    "outer.py": (
        "from pesn._support.jit import jit\nfrom pesn.middle import middle\n\n@jit()\ndef outer(x):\n    return 2.0 * middle(x)\n"
    ),
}
CALL = "from pesn.outer import outer; print(outer(1.0), len(outer.stats.cache_hits))"


@pytest.fixture
def root(tmp_path):
    """Create a folder with a small package that is named pesn and compiles as pesn does."""
    for name, text in TREE.items():
        path = tmp_path / "pesn" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for name in ("jit.py", "lowering.py", "kernel_cache.py", "files.py"):
        shutil.copy(PACKAGE / "_support" / name, tmp_path / "pesn" / "_support")
    return tmp_path


def start(root, script, *arguments, **settings):
    environment = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    # Python's own cache does not see an edit within a second that leaves the size of a file as it was
    environment |= {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", **settings}
    command = [sys.executable, *([script] if isinstance(script, Path) else ["-c", script]), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=root)


def finish(process):
    printed, logged = process.communicate(timeout=120)
    assert process.returncode == 0, logged
    return printed.split(), logged


def run(root, script=CALL, *arguments, **settings):
    return finish(start(root, script, *arguments, **settings))


def edit(root, name, old, new):
    path = root / "pesn" / name
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def folders(root):
    return sorted(root.glob("**/pesn-*"))


# Callers run the current code


def test_an_edit_to_a_helper_or_to_a_constant_changes_every_caller(root):
    assert run(root)[0] == ["22.0", "0"]
    assert run(root) == (["22.0", "1"], "")  # from the cache, without a notice
    edit(root, "inner.py", "x + OFFSET", "x - OFFSET")  # two files away from the kernel that is called
    assert run(root)[0] == ["-18.0", "0"]
    edit(root, "inner.py", "OFFSET = 10.0", "OFFSET = 20.0")  # frozen in the compiled code
    assert run(root)[0] == ["-38.0", "0"]
    edit(root, "scales.py", "1.0", "3.0")
    assert run(root)[0] == ["-114.0", "0"]
    edit(root, "scales.py", "3.0", "1.0")
    assert run(root)[0] == ["-38.0", "1"]  # the code of a former state of the sources is still there


def test_a_kernel_that_is_loaded_while_its_caller_is_compiled_can_be_called(root):
    run(root, "from pesn.middle import middle; middle(1.0)")
    script = "from pesn.outer import outer, middle; print(outer(1.0), middle(1.0), len(middle.stats.cache_hits))"
    assert run(root, script) == (["22.0", "11.0", "1"], "")


def test_code_is_not_saved_once_the_sources_have_changed(root):
    late = "import pathlib, pesn.outer; pathlib.Path('pesn/inner.py').write_text(pathlib.Path('new').read_text()); " + CALL
    (root / "new").write_text(TREE["inner.py"].replace("10.0", "20.0"))
    assert run(root, late)[0] == ["22.0", "0"]  # what was imported
    assert run(root)[0] == ["42.0", "0"]


# The digest covers all that kernels are made of


def test_the_digest_changes_with_each_kernel_source_and_with_no_other(tmp_path):
    copy = tmp_path / "pesn"
    shutil.copytree(PACKAGE, copy, ignore=lambda folder, names: [n for n in names if n == "__pycache__" or n.endswith(".npz")])
    before = digest_sources(copy)
    assert before == digest_sources()  # of the contents, wherever they are
    sources = kernel_sources()
    assert {"pesn.moments.special", "pesn._support.intrinsics", "pesn.moments.surface", "pesn._support.jit"} <= sources.keys()
    seen = {before}
    for module in sources:
        path = copy.joinpath(*module.split(".")[1:])
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        text = path.read_bytes()
        path.write_bytes(text.replace(b"0", b"1") + b"\n")
        seen.add(digest_sources(copy))
        path.write_bytes(text)
    assert len(seen) == 1 + len(sources)
    assert digest_sources(copy) == before
    with open(copy / "cli" / "__init__.py", "a") as file:
        file.write("# no kernel\n")
    assert digest_sources(copy) == before


def _kernels():
    torch = find_spec("torch")
    for module in map(importlib.import_module, (m for m in kernel_sources() if torch or "torch" not in m)):
        for value in vars(module).values():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__:
                yield module, value


def test_each_kernel_has_the_cache_of_the_digest_and_its_globals_come_from_the_digest():
    sources, kernels = kernel_sources(), list(_kernels())
    imports = {
        name: [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)] for name, text in sources.items()
    }
    assert len(kernels) > 120
    for module, kernel in kernels:
        is_helper = "no_cpython_wrapper" in kernel.targetoptions  # part of the kernels that call it
        assert isinstance(kernel._cache, KernelCache) != is_helper, kernel
        assert kernel.py_func.__closure__ is None, kernel  # values that no source text has
        used = set(kernel.py_func.__code__.co_names)
        for node in imports[module.__name__]:
            if used & {name.asname or name.name for name in node.names}:
                assert node.level == 0
                names = {node.module, f"{node.module}.{node.names[0].name}"}
                assert not node.module.startswith("pesn") or names & sources.keys()


def test_kernels_are_compiled_by_jit_only():
    calls = [path for path in PACKAGE.rglob("*.py") if "njit" in path.read_text() and path.name != "jit.py"]
    assert calls == []


# Where and how code is kept


def test_processes_that_compile_at_once_do_not_mix_their_code(root):
    values = ("1", "1.0", "True", "1j")  # each its own signature
    scripts = [f"from pesn.outer import outer; print(outer({value}))" for value in values]
    expected = [["22.0"], ["22.0"], ["22.0"], ["(20+2j)"]]
    assert [finish(p)[0] for p in [start(root, script) for script in scripts]] == expected
    assert [finish(p)[0] for p in [start(root, script) for script in scripts]] == expected


def test_workers_that_are_forked_and_spawned_use_the_cache(root):
    (root / "work.py").write_text(
        "import multiprocessing, sys\nfrom pesn.outer import outer\n\n"
        "def work(x):\n    return outer(x), len(outer.stats.cache_hits)\n\n"
        "if __name__ == '__main__':\n    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:\n"
        "        print(*pool.map(work, [1.0]))\n"
    )
    run(root)
    for method in ("fork", "spawn"):
        assert run(root, root / "work.py", method)[0] == ["(22.0,", "1)"]


def test_the_folder_follows_numba(root):
    run(root)
    assert {folder.parent.name for folder in folders(root)} == {"__pycache__"}
    shutil.rmtree(root / "pesn" / "__pycache__")
    (root / "pesn" / "__pycache__").write_text("")  # as in an installation that is read-only
    run(root, XDG_CACHE_HOME=str(root / "home"))
    run(root, NUMBA_CACHE_DIR=str(root / "given"))
    assert {folder.relative_to(root).parts[0] for folder in folders(root)} == {"home", "given"}
    for nowhere in ({"XDG_CACHE_HOME": os.devnull}, {"HOME": os.devnull}):
        printed, logged = run(root, f"from pesn._support import jit; jit.LEAST_SECONDS = 0.0; {CALL}", **nowhere)
        assert printed == ["22.0", "0"]
        assert "in each process" in logged


def test_disk_errors_only_disable_the_cache(root):
    run(root)
    (folder,) = folders(root)
    shutil.rmtree(folder)
    folder.write_text("")  # neither to be read nor to be written to
    assert run(root)[0] == ["22.0", "0"]
    folder.unlink()
    run(root)
    for path in folder.glob("*.nbc"):  # an index without its data
        path.unlink()
    assert run(root)[0] == ["22.0", "0"]


def test_old_folders_are_removed_except_for_the_last_and_those_in_use(root):
    cache = root / "pesn" / "__pycache__"
    now = time.time()
    for age in (1, 2, 3, 4, 5, 6):
        folder = cache / f"pesn-{age}"
        folder.mkdir(parents=True)
        (folder / "code").write_text("")
        os.utime(folder, (now - 86400 * age,) * 2)
    os.utime(cache / "pesn-6")  # another process has just looked there
    run(root)
    kept = {folder.name for folder in folders(root)} - {"pesn-1", "pesn-2", "pesn-6"}
    assert len(kept) == 1  # the new one
    (new,) = kept
    os.utime(cache / new, (now - 86400 * 9,) * 2)
    run(root)
    assert (cache / new).stat().st_mtime > now - 60  # a look-up counts as use


def test_import_reads_no_source_and_writes_nothing(root):
    script = "import pesn.outer, pesn._support.kernel_cache as k; print(k._process_digest.cache_info().currsize)"
    assert run(root, script)[0] == ["0"]
    assert folders(root) == []


def test_a_package_without_source_files_is_not_cached(tmp_path):
    assert kernel_cache.stamp_sources(tmp_path / "archive.zip") == {}
