"""Metadata of the package: tested versions, author, address, and links of the README."""

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pesn

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOME = PROJECT["urls"]["Repository"]
PICTURES = HOME.replace("https://github.com/", "https://raw.githubusercontent.com/") + "/main/"


def test_links_of_the_readme_lead_to_files_that_exist():
    text = re.sub(r"```.*?```|`[^`]*`|<!--.*?-->", "", README, flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 15
    for target in targets:
        assert (ROOT / target).is_file(), target


def test_an_index_of_packages_shows_absolute_links():
    shown = metadata("pesn").json["description"]
    text = re.sub(r"```.*?```|`[^`]*`|<!--.*?-->", "", shown, flags=re.DOTALL)
    targets = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text)
    assert len(targets) > 15
    for picture, target in targets:
        assert target.startswith(PICTURES if picture else HOME + "/blob/main/"), target


def test_every_place_gives_one_address_version_author_and_licence():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"repository-code: {HOME}\n" in citation
    assert f"version: {PROJECT['version']}\n" in citation
    assert f"license: {PROJECT['license']}\n" in citation
    assert [f"  - name: {author['name']}\n" in citation for author in PROJECT["authors"]] == [True]
    assert PROJECT["urls"]["Paper"] in citation
    assert PROJECT["version"] == pesn.__version__


def test_classifiers_list_the_versions_of_python_that_are_tested():
    scripts = (ROOT / "scripts" / "pythons.py").read_text(encoding="utf-8")
    tested = re.findall(r'"(3\.\d+)"', re.search(r"^VERSIONS = \((.*)\)$", scripts, flags=re.MULTILINE)[1])
    listed = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), flags=re.MULTILINE)
    assert listed == [PROJECT["requires-python"].removeprefix(">="), *tested]


def test_the_licence_is_stated_once():
    assert not [name for name in PROJECT["classifiers"] if name.startswith("License ::")]  # refused beside an SPDX expression
    assert [(ROOT / name).is_file() for name in PROJECT["license-files"]] == [True]
