"""Mutate lines of the core numerics and see whether the tests notice: python scripts/mutate_core.py [--count 40] [--seed 0].

Each mutant is a copy of the sources with one change: a sign, an operator or a comparison is turned, operands are swapped, a
number is off by 1 % or by one. The tests of its package must fail: those of its own module first, then the others, then tests of
packages that use it. A test that fails on the sources as they are does not count. Annotations, messages, argument checks, logs,
tolerances and numbers that only steer speed (sizes of blocks, numbers of threads) are not mutated; nor is a line that ends in
``# no mutant: why``. An hour or more on two cores, as kernels are compiled anew; the table at the end lists all mutants.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from queue import Queue
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CORE = ("moments", "statespace", "reservoir", "readout", "networks", "evaluation/calibration.py")
SKIP = ("networks/propagate.py", "networks/program.py", "reservoir/sequences.py")  # arguments and data, no numerics
COPIED = ("src", "tests", "pyproject.toml", "scripts", "benchmarks")
WIDER = {  # tests of packages above that use a package most
    "moments": ["tests/networks"],
    "statespace": ["tests/reservoir/test_open_loop.py", "tests/reservoir/test_closed_loop.py", "tests/esn/test_probabilistic.py"],
    "readout": ["tests/esn/test_network.py", "tests/esn/test_online.py", "tests/esn/test_local.py"],
    "reservoir": ["tests/esn"],
    "networks": ["tests/adapters/test_sklearn.py"],
    "evaluation": ["tests/forecasting/test_calibration.py"],
}
# Names of what steers speed or memory, or is a bound that nothing comes near.
SPEED = re.compile(
    r"BLOCK|CHUNK|BATCH|AT_ONCE|_FEW|_MANY|MOST|LARGE|SMALL|TINY|FARTHEST|PARALLEL|THREAD|CACHE|WIDE|TRIAL|eps|tiny|TOLER"
)
SETTING = re.compile(r"\b_?[A-Z][A-Z_]{2,}\b")
CHECKS = re.compile(r"^_?(check|refuse|validate|__repr__|__str__|describe|plot|_repr|explain|log)")
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of one line."""

    path: Path  # inside src/pesn
    line: int
    kind: str
    before: str
    after: str

    @property
    def name(self) -> str:
        """File and line."""
        return f"{self.path}:{self.line}"

    def apply(self, text: str) -> str:
        """Source of the file with the change."""
        lines = text.splitlines(keepends=True)
        lines[self.line - 1] = self.after
        return "".join(lines)

    @property
    def is_valid(self) -> bool:
        """Whether it is Python, and not the same program."""
        text = (ROOT / "src" / "pesn" / self.path).read_text()
        try:
            return ast.dump(ast.parse(self.apply(text))) != ast.dump(ast.parse(text))
        except SyntaxError:
            return False


@dataclass(frozen=True)
class Verdict:
    """What the tests said: "caught", "survived", or "late" where they took too long; which test, or where."""

    mutant: Mutant
    outcome: str
    test: str
    seconds: float


class _Sites(ast.NodeVisitor):
    """Places of a module that can be changed: node, kind and new text of the node."""

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.found = lines, list[tuple[ast.AST, str, str]]()

    def piece(self, node: ast.AST) -> str:
        """The text of a node on one line, "" of others."""
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", -1)
        if first != last:
            return ""
        return self.lines[first - 1].encode()[node.col_offset : node.end_col_offset].decode()  # type: ignore[attr-defined]

    def add(self, node: ast.AST, kind: str, after: str) -> None:
        if getattr(node, "lineno", 0) == getattr(node, "end_lineno", -1):
            self.found.append((node, kind, after))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if CHECKS.match(node.name) or any("overload" in ast.unparse(one) for one in node.decorator_list):
            return
        for part in (*node.args.defaults, *node.args.kw_defaults, *node.body):
            if part is not None:
                self.visit(part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [ast.unparse(one) for one in node.targets]
        if not any(SPEED.search(name) or SETTING.search(name) or name == "__all__" for name in names):
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        is_check = all(isinstance(one, (ast.Raise, ast.Assign)) for one in node.body) and isinstance(node.body[-1], ast.Raise)
        for part in (*([] if is_check else [node.test]), *node.body, *node.orelse):
            self.visit(part)

    def skip(self, node: ast.AST) -> None:
        """Messages and checks."""

    visit_Raise = visit_Assert = visit_JoinedStr = skip  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func)
        if CHECKS.match(name.split(".")[-1]) or name.split(".")[0] in ("warnings", "logging", "TypeVar", "errstate"):
            return
        if name == "range" and len(node.args) == 1:
            self.add(node, "range one shorter", f"range({self.piece(node.args[0])} - 1)")
        if name.split(".")[-1] in ("zeros", "empty", "ones", "whole_number", "number", "astype", "reshape", "lru_cache"):
            return  # sizes: an error, or no change at all
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        left, right, turned = self.piece(node.left), self.piece(node.right), OPERATORS.get(type(node.op))
        sides = (node.left, node.right)
        textual = any(isinstance(one, ast.JoinedStr) or isinstance(getattr(one, "value", None), str) for one in sides)
        if turned and not textual and not isinstance(node.left, (ast.List, ast.Tuple)):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[type(node.op)]
            self.add(node, f"{sign} to {turned}", f"({left}) {turned} ({right})")
            if sign in "-/":
                self.add(node, "operands swapped", f"({right}) {sign} ({left})")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.op, (ast.Add, ast.Sub)) and not isinstance(node.value, (ast.List, ast.Tuple, ast.Name)):
            sign = "+" if isinstance(node.op, ast.Sub) else "-"
            self.add(node, f"to {sign}=", f"{self.piece(node.target)} {sign}= {self.piece(node.value)}")
        self.visit(node.value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub) and not (isinstance(node.operand, ast.Constant) and node.operand.value == 1):
            self.add(node, "sign", f"({self.piece(node.operand)})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        turned, text = OPERATORS.get(type(node.ops[0])), self.piece(node)
        if SETTING.search(text) or re.search(r"\de-([6-9]|\d\d)", text):
            return  # which of two ways is taken, or when to stop
        shapes = re.search(r"\b(len|ndim|size|shape)\b", text)
        counts = re.search(r"(^|[<>=] )(\d+|[a-z]|n_\w+|count|first|last)($| [<>=])", text)  # of floats few are equal
        if turned and len(node.ops) == 1 and counts and not shapes:
            sides = self.piece(node.left), self.piece(node.comparators[0])
            self.add(node, f"to {turned}", f"{sides[0]} {turned} {sides[1]}")
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        if isinstance(node.slice, ast.Slice):
            for end in (node.slice.lower, node.slice.upper):
                if end is not None:
                    self.add(end, "index one more", f"{self.piece(end)} + 1")
        else:
            self.visit(node.slice)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, float) and 1e-6 < abs(value) < 1e6:
            self.add(node, "number 1 % more", repr(value * 1.01))
        elif type(value) is int and abs(value) < 1000:
            self.add(node, "number one more", str(value + 1))

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in ("axis", "ndmin", "axis1", "axis2", "stacklevel", "maxsize", "order"):
            self.visit(node.value)


def find_mutants(path: Path) -> list[Mutant]:
    """All changes of one file that are worth a test."""
    lines = (ROOT / "src" / "pesn" / path).read_text().splitlines(keepends=True)
    sites, mutants = _Sites(lines), []
    sites.visit(ast.parse("".join(lines)))
    for node, kind, after in sites.found:
        number, first, last = node.lineno, node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        line = lines[number - 1]
        code = line.split("#")[0]
        if not (
            SPEED.search(code) or "# no mutant" in line or code.lstrip().startswith(("@", "def ", "class ", "import ", "from "))
        ):
            raw = line.encode()
            mutants.append(Mutant(path, number, kind, line, (raw[:first] + after.encode() + raw[last:]).decode()))
    return mutants


def choose_mutants(count: int, seed: int, only: str | None) -> list[Mutant]:
    """``count`` random lines of the core, and one random change of each."""
    package = ROOT / "src" / "pesn"
    files = sorted(
        path for part in CORE for path in ([package / part] if part.endswith(".py") else (package / part).rglob("*.py"))
    )
    by_line: dict[str, list[Mutant]] = {}
    for path in (file.relative_to(package) for file in files):
        if path.as_posix() not in SKIP and (only is None or only in path.as_posix()):
            for mutant in find_mutants(path):
                by_line.setdefault(mutant.name, []).append(mutant)
    draw, names = random.Random(seed), sorted(by_line)
    draw.shuffle(names)
    chosen = (draw.choice(by_line[name]) for name in names)
    return list(islice((mutant for mutant in chosen if mutant.is_valid), count))


class Tree:
    """A copy of the sources and tests, whose compiled kernels serve the next mutant too, as far as they can."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            source = ROOT / name
            ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
            (shutil.copytree(source, folder / name, ignore=ignored) if source.is_dir() else shutil.copy2(source, folder / name))
        for path in ROOT.iterdir():  # what tests read
            if path.name not in COPIED and not path.name.startswith("."):
                (folder / path.name).symlink_to(path)

    def run(self, tests: list[str], seconds: float) -> tuple[bool | None, str]:
        """Whether tests pass, None where they took too long; and the first that failed."""
        options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "mutate_core"]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        python_path = f"{self.folder / 'src'}{os.pathsep}{self.folder / 'scripts'}"
        settings = {"PYTHONPATH": python_path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment = {**os.environ, **settings, "PYTHONDONTWRITEBYTECODE": ""}  # bytecode saves most of the start
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=max(seconds, 1.0))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, "took too long"
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.M)
        return process.returncode in (0, 5), failed[1] if failed else output.strip().splitlines()[-1] if output else "crashed"

    def judge(self, mutant: Mutant, seconds: float) -> Verdict:
        """Whether a test fails by the mutant that passes without it."""
        file, begun = self.folder / "src" / "pesn" / mutant.path, time.monotonic()
        original = file.read_text()
        test = ""
        for tests in stages(mutant, self.folder):
            file.write_text(mutant.apply(original))
            try:
                passed, test = self.run(tests, seconds - (time.monotonic() - begun))
            finally:
                file.write_text(original)
            if passed is None:
                return Verdict(mutant, "late", test, time.monotonic() - begun)
            if not passed and ("::" not in test or self.run([test.split(" ")[0]], seconds)[0]):
                return Verdict(mutant, "caught", test, time.monotonic() - begun)
        return Verdict(mutant, "survived", "", time.monotonic() - begun)


def enclosing_names(mutant: Mutant, folder: Path) -> set[str]:
    """Names of the functions and classes that the line is in."""
    tree = ast.parse((folder / "src" / "pesn" / mutant.path).read_text())
    scopes = (one for one in ast.walk(tree) if isinstance(one, (ast.FunctionDef, ast.ClassDef)))
    return {one.name for one in scopes if one.lineno <= mutant.line <= (one.end_lineno or 0)}


def stages(mutant: Mutant, folder: Path) -> Iterator[list[str]]:
    """Tests to run one after the other: of the module, of the package, of packages above; those that name the function first."""
    path, own = mutant.path, folder / "tests" / mutant.path.parts[0]
    words = set(path.stem.replace("kernels", "kernel").split("_"))
    imports = re.compile(rf"from pesn\.{'.'.join(path.parent.parts)}(\.{path.stem} import|.* import .*\b{path.stem}\b)")
    uses = re.compile(rf"\b({'|'.join(enclosing_names(mutant, folder)) or '-'})\b")
    near, rest = dict[str, int](), list[str]()
    for one in sorted(own.glob("test_*.py")):
        text, name = one.read_text(), str(one.relative_to(folder))
        score = 2 * bool(uses.search(text)) + bool(words & set(one.stem.split("_")[1:])) + bool(imports.search(text))
        if score:
            near[name] = score
        else:
            rest.append(name)
    wider = [folder / one for one in WIDER.get(path.parts[0], []) if (folder / one).exists()]
    files = [file for one in wider for file in (sorted(one.glob("test_*.py")) if one.is_dir() else [one])]
    near |= {str(one.relative_to(folder)): 1 for one in files if uses.search(one.read_text())}
    yield [f"src/pesn/{path}", *sorted(near, key=near.__getitem__, reverse=True)]
    if rest:
        yield rest
    if last := [name for name in (str(one.relative_to(folder)) for one in files) if name not in near]:
        yield last


def pytest_configure() -> None:
    """Compile a kernel anew only if its module, or one that it imports, has changed: this module is a plugin of the tests."""
    from pesn._support import kernel_cache

    sources = {name: text.decode() for name, text in kernel_cache.kernel_sources().items()}

    @cache
    def digest(module: str) -> str:
        found, pending = set[str](), [module]
        while pending:
            one = pending.pop()
            if one in sources and one not in found:
                found.add(one)
                pending += re.findall(r"^import ([\w.]+)", sources[one], re.M)
                for base, names in re.findall(r"^from ([\w.]+) import (\([^)]*\)|[^#\n]+)", sources[one], re.M):
                    pending += [base, *(f"{base}.{name}" for name in re.findall(r"\w+", names))]
        text = "".join(name + sources[name] for name in sorted(found))
        return blake2b(text.encode(), digest_size=8).hexdigest()

    def find_folder(locator: Any) -> str:
        parts = Path(locator._locator._py_file).resolve().with_suffix("").parts
        name = ".".join(parts[parts.index("src") + 1 :]).removesuffix(".__init__")
        return str(Path(locator._locator.get_cache_path()) / f"pesn-{digest(name)}")

    kernel_cache._Locator.get_cache_path = find_folder  # type: ignore[assignment, method-assign]
    kernel_cache._Locator.get_source_stamp = lambda _: "by folder"  # type: ignore[assignment, method-assign]


def judge_all(mutants: list[Mutant], jobs: int, seconds: float) -> list[Verdict]:
    """Verdicts in the order of the mutants; progress on standard error."""
    with tempfile.TemporaryDirectory(prefix="pesn-mutants-") as name:
        trees: Queue[Tree] = Queue()
        for k in range(jobs):
            folder = Path(name) / str(k)
            folder.mkdir()
            trees.put(Tree(folder))
        done, lock = 0, threading.Lock()

        def judge(mutant: Mutant) -> Verdict:
            nonlocal done
            tree = trees.get()
            try:
                verdict = tree.judge(mutant, seconds)
            finally:
                trees.put(tree)
            with lock:
                done += 1
                print(
                    f"{done}/{len(mutants)} {verdict.outcome:9s}{verdict.seconds:5.0f} s  {mutant.name}  {mutant.kind}",
                    file=sys.stderr,
                )
                print(
                    f"      {mutant.before.strip()}\n   -> {mutant.after.strip()}\n      {verdict.test}",
                    file=sys.stderr,
                    flush=True,
                )
            return verdict

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(judge, mutants))


def main() -> int:
    """Mutate, test, and print a table; 1 where more than a tenth was not caught."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=40, help="lines to mutate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--seconds", type=float, default=900.0, help="time limit of a mutant")
    parser.add_argument("--only", help="mutate files whose path has this text")
    parser.add_argument("--lines", nargs="*", metavar="FILE:LINE", help="those of the chosen lines to mutate, all by default")
    parser.add_argument("--list", action="store_true", help="print the mutants and test nothing")
    options = parser.parse_args()
    mutants = choose_mutants(options.count, options.seed, options.only)
    mutants = [mutant for mutant in mutants if not options.lines or mutant.name in options.lines]
    if options.list:
        for mutant in mutants:
            print(f"{mutant.name}  {mutant.kind}\n      {mutant.before.strip()}\n   -> {mutant.after.strip()}")
        return 0
    verdicts = judge_all(mutants, options.jobs, options.seconds)
    print("\n| line | change | outcome | test |\n|---|---|---|---|")
    for verdict in verdicts:
        mutant = verdict.mutant
        change = f"{mutant.kind}: `{mutant.before.strip()}` -> `{mutant.after.strip()}`"
        print(f"| {mutant.name} | {change} | {verdict.outcome} | {verdict.test} |")
    caught = sum(verdict.outcome == "caught" for verdict in verdicts)
    print(f"\n{caught} of {len(verdicts)} caught")
    return int(caught < 0.9 * len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
