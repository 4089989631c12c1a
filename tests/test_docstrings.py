"""Docstrings have numpydoc sections with one typed entry per parameter, and functions are named by verbs or nouns."""

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import pesn

PAGES = Path(__file__).parents[1] / "docs" / "reference.md"
PACKAGE = Path(pesn.__file__).parent
# Packages and modules that do not follow the rules for entries and for names yet.
IRREGULAR = re.compile(
    "given|told|taken|laid|shown|said|kept|drawn|left|met|held|sent|made|found|known|seen|begun|spread|brought|bound|sought|"
    "thought|done|gone|written"
)
NO_PARTICIPLES = re.compile("embed|need|feed|seed|exceed|proceed|bleed|speed|shed|named|fixed|red|bed|unscented")
PREPOSITIONS = re.compile("of|on|off|at|by|in|as|to|ahead|before|after|beside|beyond|again|out|up|away|along|alone|for|from|with")
PARAMETERS = re.compile(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", re.M | re.S)


def named(path):
    """The object behind a dotted path: the longest part of it that is a module, then attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ImportError(path)


def callables(name, thing):
    """A function, or a class with its methods, those of pesn's own bases among them, or all that a module says it has."""
    if inspect.ismodule(thing):
        for one in getattr(thing, "__all__", ()):
            yield from callables(f"{name}.{one}", getattr(thing, one))
    elif inspect.isclass(thing) and not issubclass(thing, tuple):
        yield name, thing
        own = [base for base in reversed(thing.__mro__) if base.__module__.startswith("pesn.")]
        for key in {key: None for base in own for key in vars(base) if not key.startswith("_")}:
            method = getattr(thing, key)
            method = getattr(method, "__func__", method)
            inside = getattr(method, "__module__", "").startswith("pesn.")  # and not what scikit-learn adds
            if inside and inspect.isfunction(method) and not method.__name__.startswith("_"):
                yield f"{name}.{key}", method
    elif inspect.isfunction(thing):
        yield name, thing


def public():
    directives = re.findall(r"^   (pesn\.\S+(?<!Error))$", PAGES.read_text(encoding="utf-8"), re.M)
    found = {}
    for path in [*(f"pesn.{name}" for name in pesn.__all__), *directives]:
        if path.startswith(("pesn.adapters.torch", "pesn.adapters.mujoco", "pesn.adapters.sktime")):
            pytest.importorskip(path.split(".")[2])
        found |= {id(thing): (name, thing) for name, thing in callables(path, named(path))}
    return list(found.values())


def test_what_takes_two_arguments_or_more_says_what_they_are_and_what_it_gives():
    missing = []
    for name, thing in public():
        signature = inspect.signature(thing)
        if len(set(signature.parameters) - {"self", "cls"}) < 2:
            continue
        text = inspect.getdoc(thing) or ""
        gives = not inspect.isclass(thing) and signature.return_annotation not in ("None", "Self")
        sections = ["Parameters", *(["Returns"] if gives else [])]
        missing += [f"{name}: {section}" for section in sections if f"{section}\n{'-' * len(section)}\n" not in text]
    assert not missing


def test_sections_name_parameters_that_are_there():
    """A parameter that was renamed, or one that is new, is not forgotten in what is said of them."""
    wrong = []
    for name, thing in public():
        text = inspect.getdoc(thing) or ""
        section = PARAMETERS.search(text)
        if section is None:
            continue
        said = {
            one.strip().lstrip("*")
            for line in section[1].splitlines()
            if re.match(r"[*\w]", line)
            for one in line.partition(" : ")[0].split(",")
        }
        there = set(inspect.signature(thing).parameters) - {"self", "cls"}
        wrong += [f"{name}: {one}" for one in sorted((said - there) | (there - said))]
    assert not wrong


# ---------------------------------------------------------------- the sources, private functions included


@cache
def parse_modules():
    """Return (module, syntax tree) for all modules."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return [(".".join(path.relative_to(PACKAGE).with_suffix("").parts), ast.parse(path.read_text())) for path in paths]


def definitions(*kinds):
    """Yield (module, definition) for all definitions of these kinds."""
    for module, tree in parse_modules():
        yield from ((module, node) for node in ast.walk(tree) if isinstance(node, kinds))


def test_entries_of_parameters_have_one_name_and_a_type():
    wrong = []
    for module, node in definitions(ast.FunctionDef, ast.ClassDef):
        if section := PARAMETERS.search(ast.get_docstring(node) or ""):
            entries = [line for line in section[1].splitlines() if line and not line[0].isspace()]
            wrong += [f"{module}:{node.name}: {line}" for line in entries if " : " not in line or "," in line.split(":")[0]]
    assert not wrong


def is_participle(name):
    words = name.strip("_").split("_")
    return any(
        IRREGULAR.fullmatch(word) or (word.endswith("ed") and len(word) > 3 and not NO_PARTICIPLES.fullmatch(word))
        for word in (words[0], words[-1])
    )


def test_functions_are_named_by_verbs_or_nouns():
    """At most 2 % of the names are participles, and at most 1 % end with a preposition; properties may be adjectives."""
    named = [(m, n) for m, n in definitions(ast.FunctionDef, ast.AsyncFunctionDef) if not re.fullmatch(r"__\w+__", n.name)]
    properties = {
        id(node)
        for _, node in named
        if any(isinstance(one, ast.Name) and one.id in ("property", "cached_property") for one in node.decorator_list)
    }
    participles = [f"{m}:{n.name}" for m, n in named if is_participle(n.name) and id(n) not in properties]
    prepositions = [f"{m}:{n.name}" for m, n in named if PREPOSITIONS.fullmatch(n.name.strip("_").split("_")[-1])]
    assert len(participles) <= 0.02 * len(named), participles
    assert len(prepositions) <= 0.01 * len(named), prepositions
