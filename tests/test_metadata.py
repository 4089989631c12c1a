"""Metadata of the package: tested versions, author, address, and links of the README."""

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pesn

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = CONFIGURATION["project"]
HOME = CONFIGURATION["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
PLACES = ("*.toml", "*.cff", "*.md", "*.py", "docs/**/*.md", "docs/*.py", "src/pesn/__init__.py", ".github/**/*.yml")
PICTURES = HOME.replace("https://github.com/", "https://raw.githubusercontent.com/") + "/main/"


def test_links_of_the_readme_lead_to_files_that_exist():
    text = re.sub(r"```.*?```|`[^`]*`|<!--.*?-->", "", README, flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 15
    for target in targets:
        assert target.startswith("https://arxiv.org/") or (ROOT / target).is_file(), target


def test_an_index_of_packages_shows_absolute_links():
    shown = metadata("pesn").json["description"]
    text = re.sub(r"```.*?```|`[^`]*`|<!--.*?-->", "", shown, flags=re.DOTALL)
    targets = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text)
    assert len(targets) > 15
    for picture, target in targets:
        assert target.startswith((PICTURES if picture else HOME + "/blob/main/", "https://arxiv.org/")), target


def test_version_and_address_are_stated_once():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"license: {PROJECT['license']}\n" in citation
    assert [f"  - name: {author['name']}\n" in citation for author in PROJECT["authors"]] == [True]
    links = dict(line.split(", ") for line in metadata("pesn").json["project_url"])
    assert links["Paper"] in citation
    assert links["Repository"] == HOME
    assert metadata("pesn").json["version"] == pesn.__version__
    texts = {path: path.read_text(encoding="utf-8") for name in PLACES for path in ROOT.glob(name)}
    for stated in (HOME.removeprefix("https://"), f'"{pesn.__version__}"'):
        assert sum(text.count(stated) for text in texts.values()) == 1, stated


def test_classifiers_list_the_versions_of_python_that_are_tested():
    scripts = (ROOT / "scripts" / "pythons.py").read_text(encoding="utf-8")
    tested = re.findall(r'"(3\.\d+)"', re.search(r"^VERSIONS = \((.*)\)$", scripts, flags=re.MULTILINE)[1])
    listed = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), flags=re.MULTILINE)
    assert listed == [PROJECT["requires-python"].removeprefix(">="), *tested]


def test_the_licence_is_stated_once():
    assert not [name for name in PROJECT["classifiers"] if name.startswith("License ::")]  # refused beside an SPDX expression
    assert [(ROOT / name).is_file() for name in PROJECT["license-files"]] == [True]
