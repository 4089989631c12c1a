"""The page shows all that the results hold, escaped, with every claim's verdict; it needs nothing from elsewhere."""

import base64
import re
from html import unescape
from itertools import pairwise

import pytest

from pesn._support.pages.drawing import powers
from pesn.paper.claims import CLAIMS, ERRATA, UNFAIR
from pesn.paper.runner import strip, write_page


@pytest.fixture(scope="module")
def read(page, read_page):
    return read_page(page)


def entry_of(page, claim):
    entry = page[page.index(f'id="claim-{claim}"') :]
    return entry[: entry.index("</li>")]


def test_every_claim_is_listed_once_with_verdicts_reasons_and_links(results, page, read, read_page):
    said = {name: [] for name in CLAIMS}
    for result in results:
        for claim in result["claims"]:
            said[claim["id"]].append((claim, result["name"]))
    labels = {}
    for name, parts in said.items():
        entry = entry_of(page, name)
        shown = read_page("<li " + entry + "</li>").text
        for claim, item in parts:
            assert powers(claim["text"]) in shown
            assert powers(claim["reason"]) in shown
            assert claim["verdict"] in shown
            assert f'href="#item-{item}"' in entry
        labels[name] = parts[0][0]["verdict"] if len({claim["verdict"] for claim, _ in parts}) == 1 else "holds in part"
    for verdict, symbol in {"holds": "✓", "holds in part": "◐", "misprint": "✎", UNFAIR: "⚠", "does not hold": "✗"}.items():
        assert f"{list(labels.values()).count(verdict)} {symbol}" in re.sub(r"(\d)(\D)", r"\1 \2", read.text)


def test_draws_are_shown_as_a_dot_plot_and_in_words(results, page):
    for result in results:
        for claim in result["claims"]:
            entry = entry_of(page, claim["id"])
            if claim["draws"]:
                assert f"{claim['support']} of {len(claim['draws'])} draws" in entry
                values = [value for _, value in claim["draws"]]
                assert f"error ÷ the other&#39;s: {min(values):.3g} to {max(values):.3g}" in entry
            else:
                assert "nothing here is random" in entry


def test_claims_of_items_that_were_not_run_are_not_judged(make_page, read_page):
    page = make_page("entropy")
    elsewhere = [name for name, claim in CLAIMS.items() if "entropy" not in claim.items]
    text = read_page(page).text
    assert text.count("○ not judged in this run") == len(elsewhere) + 1  # and in the summary
    assert f"{len(elsewhere)}○ not judged in this run" in text
    assert "Judged by pesn reproduce washout." in text
    assert "#item-washout" not in page


def test_verdict_comes_from_the_item_that_the_claim_names(make_page):
    make_page("washout", claims=[{"id": "entropy-lower", "text": "x", "verdict": "does not hold", "reason": "from elsewhere"}])
    page = make_page("entropy", claims=[{"id": "entropy-lower", "text": "y", "verdict": "holds", "reason": "from its own item"}])
    assert "from its own item" in entry_of(page, "entropy-lower")


def test_items_show_figures_tables_notes_errata_time_and_command(results, page, read, read_page):
    for result in results:
        start = page.index(f'<section class="part item" aria-labelledby="item-{result["name"]}"')
        section = page[start : page.index("\n</section>", start)]
        text = read_page(section + "\n</section>").text
        for part in (result["title"], result["command"], *result["notes"], *result["obtained"]):
            assert part in text
        assert 'beside method="exact" and' in text  # code in backquotes
        assert section.count('<img src="data:image/') == len(result["figures"])
        for figure in result["figures"]:
            assert powers(figure["alt"]) in text
            assert f'href="{result["name"]}/{figure["svg"]}"' in section
        for number in result["errata"]:
            assert powers(ERRATA[number - 1].right) in text
        assert "Took 30 s on 2 cores (50 s of CPU time)" in text
        assert "obtained.csv" in text
    assert all(powers(erratum.printed) in read.text for erratum in ERRATA)
    assert "Gandhi" in read.text
    assert "numpy 2.2.1" in read.text


def test_the_page_says_clock_time_cpu_time_and_cores(make_page, read_page):
    make_page("moments")
    assert "computed in 1 min 00 s on 1 or 2 cores (1 min 40 s of CPU time)" in read_page(make_page("entropy", cores=1)).text


def test_better_cell_is_marked_by_text_and_symbol(make_page):
    rows = [["a", 0.2, 0.1, "obtained"], ["b", 4.213e-5, 3.0, "published"], ["c", None, "inf", ""]]
    page = make_page("moments", obtained={"T": {"columns": ["place", "published", "obtained", "better"], "rows": rows}})
    lines = re.search(r"<tbody>(.*?)</tbody>", page, re.DOTALL)[1].split("</tr>")[:3]
    cells = [[unescape(re.sub("<[^>]+>", "", cell)) for cell in re.findall(r"<t[hd].*?</t[hd]>", line)] for line in lines]
    assert cells == [["a", "0.2", "★better: 0.100"], ["b", "★better: 4.213×10⁻⁵", "3.00"], ["c", "–", "∞"]]
    assert '<th scope="col">better' not in page


def test_ids_are_unique_links_resolve_and_headings_are_nested(folder, read):
    ids, headings = read.values("id"), [int(tag[1]) for tag, _ in read.tags if re.fullmatch("h[1-6]", tag)]
    assert (len(ids), headings[0], headings.count(1)) == (len(set(ids)), 1, 1)
    assert all(below <= above + 1 for above, below in pairwise(headings) if above > 1)
    for link in read.values("href", "src"):
        if link.startswith("#"):
            assert link[1:] in ids
        elif not link.startswith("data:"):
            assert (folder / link).is_file()
    for tag, attributes in read.tags:
        for key in ("aria-labelledby", "clip-path"):
            if key in attributes:
                assert attributes[key].removeprefix("url(#").removesuffix(")") in ids, tag


def test_page_needs_no_external_resources(page, read):
    assert {tag for tag, _ in read.tags}.isdisjoint({"script", "iframe", "object", "embed"})
    assert not re.search(r"https?:|@import|url\((?!#)", page)
    assert ("html", {"lang": "en"}) in read.tags
    assert any(attributes.get("name") == "viewport" for _, attributes in read.tags)


def test_text_of_results_is_escaped(make_page, read_page):
    evil = '</style><script>alert("1")</script><img src=x onerror=alert(1)>\'"&'
    page = make_page(
        "moments",
        title=evil,
        about=evil + "`" + evil + "`",
        parameters={evil: evil},
        tables={evil: {"columns": [evil, "obtained"], "rows": [[evil, evil]]}},
        claims=[{"id": "error-drops-in-saturation", "text": evil, "verdict": "holds", "reason": evil}],
        notes=[evil],
        versions={evil: evil},
        command=evil,
        digest=evil,
        figures=[{"name": evil, "png": "curves.png", "svg": "curves.svg", "alt": evil}],
    )
    read = read_page(page)
    assert "script" not in {tag for tag, _ in read.tags}
    assert all(attributes["src"].startswith("data:") for tag, attributes in read.tags if tag == "img")
    assert read.text.count(evil) >= 12


def test_a_drawing_is_an_image_in_which_nothing_runs(tmp_path, make_page):
    evil = '<svg xmlns="http://www.w3.org/2000/svg" onload="a()"><style>*{fill: red}</style><script>a()</script></svg>'
    (tmp_path / "moments").mkdir()
    (tmp_path / "moments" / "evil.svg").write_text(evil)
    (tmp_path / "moments" / "evil.png").write_bytes(bytes(1000))
    page = make_page("moments", figures=[{"name": "evil", "png": "evil.png", "svg": "evil.svg", "alt": "A."}])
    assert f'<img src="data:image/svg+xml;base64,{base64.b64encode(evil.encode()).decode()}" alt="A.">' in page
    assert "onload" not in page


def test_figure_must_be_a_regular_file_of_its_result(tmp_path, make_page):
    """A link could lead to any file of this machine; the old page stays."""
    before = make_page("entropy")
    (tmp_path / "secret.svg").write_text("<svg/>")
    (tmp_path / "moments").mkdir()
    (tmp_path / "moments" / "own.svg").symlink_to("../secret.svg")
    (tmp_path / "moments" / "own.png").write_bytes(b"x")
    with pytest.raises(OSError, match="not a regular file"):
        make_page("moments", figures=[{"name": "a", "png": "own.png", "svg": "own.svg", "alt": "A."}])
    assert (tmp_path / "index.html").read_text(encoding="utf-8") == before


def test_items_keep_their_order_and_the_page_is_deterministic(folder, results, page):
    order = [results[i] for i in (10, 0, 7)]
    text = write_page(folder, order).read_text(encoding="utf-8")
    assert re.findall(r'<h2 id="item-([^"]+)"', text) == [result["name"] for result in order]
    assert write_page(folder, results).read_text(encoding="utf-8") == page


# ---------------------------------------------------------------- the strip of draws


def places(svg):
    found = re.findall(r'c?x="([\d.]+)" c?y="([\d.]+)"', str(svg))
    return [(float(x), float(y)) for x, y in found]


def test_marks_are_placed_by_value_without_overlap():
    marks = places(strip([["holds", value] for value in (0.0, 0.5, 0.501, 0.502, 1.0)], "a number"))
    assert ([x for x, _ in marks], len(set(marks))) == (sorted(x for x, _ in marks), 5)
    assert len({y for _, y in marks[1:4]}) == 3  # one above the other
    assert marks[0][1] == marks[-1][1]  # on the line
    # each outcome has its own mark and limits are drawn
    svg = str(strip([["holds", 1.0], ["holds in part", 2.0], ["does not hold", 3.0]], "a number", [2.5]))
    assert svg.count("<circle") == 2
    assert 'fill="none"' in svg
    assert 'class="limit"' in svg
    assert "3 draws: 1 holds, 1 holds in part, 1 does not hold; a number: 1 to 3" in svg
    # draws without values are evenly spaced
    svg = str(strip([["holds", None], ["holds in part", None], ["holds", None]]))
    assert 'class="limit"' not in svg
    assert "3 draws: 2 holds, 1 holds in part" in svg
    assert "nan" not in svg
