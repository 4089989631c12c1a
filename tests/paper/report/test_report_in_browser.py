"""A real browser draws the page: no complaint, nothing beyond the edge of a phone, dark where the reader asks for it."""

import pytest

# The browser tells the page's width, what sticks out of it, and what it complains about.
MEASURE = """<script>addEventListener("load", () => {
  const page = document.documentElement, wide = page.clientWidth
  const boxed = e => e.closest(".table, .drawing, .hero > svg")
  const out = [...document.body.querySelectorAll("*")].filter(e => !boxed(e) && e.getBoundingClientRect().right > wide + 0.5)
  const names = out.map(e => e.tagName + "." + e.className)
  parent.postMessage(JSON.stringify([location.search, {height: page.scrollHeight, scroll: page.scrollWidth, client: wide,
    out: names,
    drawn: [...document.querySelectorAll(".drawing > img")].map(e => Math.round(e.getBoundingClientRect().width)),
    scrolling: [...document.querySelectorAll(".table")].filter(e => e.scrollWidth > e.clientWidth).length,
    pairs: [...document.querySelectorAll(".table:has(.pair)")].map(box => {
      const [one, two] = box.querySelectorAll("thead tr + tr th")
      return Math.round(Math.max(...[one, two].map(e => e.getBoundingClientRect().right)) - box.getBoundingClientRect().right)
    }),
    colour: getComputedStyle(document.body).backgroundColor}]), "*")
})</script>"""


@pytest.fixture
def measure_page(measure):
    """What MEASURE says of a page, ``width`` pixels wide."""

    def run(page, width, dark=False):
        said = measure({"page": page}, MEASURE, [width], dark)[f"?page-{width}"]
        assert width - 20 <= said["client"] <= width  # a scroll bar may take some
        return said

    return run


def test_page_gives_no_warnings_in_chromium(page, tmp_path, browse):
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    shown, log = browse(tmp_path, "index.html")
    assert shown.count("<section") == page.count("<section")
    assert "CONSOLE" not in log


def test_page_blocks_scripts_and_requests(page, tmp_path, browse):
    added = "<script>document.title = 'ran'</script><img src='other.png'></body>"
    (tmp_path / "index.html").write_text(page.replace("</body>", added), encoding="utf-8")
    shown, log = browse(tmp_path, "index.html")
    assert "<title>The paper, reproduced" in shown
    assert log.count("CONSOLE") == 2  # one complaint for each


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
def test_page_fits_phone_and_desktop_screens(page, measure_page, width, dark):
    folded = measure_page(page, width, dark)
    assert (folded["scroll"], folded["out"]) == (folded["client"], [])
    assert folded["height"] < 15_000
    said = measure_page(page.replace("<details>", "<details open>"), width, dark)
    assert said["height"] > 2 * folded["height"]
    assert (said["scroll"], said["out"], len(said["drawn"])) == (said["client"], [], 12)
    assert all(width * 0.5 < drawn <= said["client"] for drawn in said["drawn"])
    assert said["scrolling"] >= 1  # the washout table, in its own box
    assert said["colour"] == ("rgb(20, 23, 29)" if dark else "rgb(247, 246, 242)")


def test_long_words_do_not_overflow(measure_page, make_page):
    long = "unbreakable" * 12
    page = make_page(
        "washout",
        title=long,
        about=f"{long} `{long}`",
        notes=[long],
        command=f"pesn reproduce {long}",
        parameters={long: long},
        versions={long: long},
        claims=[{"id": "washout-wins", "text": long, "verdict": "holds in part", "reason": f"`{long}`"}],
        tables={long: {"columns": [long, "obtained"], "rows": [[long, 1.0]]}},
    )
    said = measure_page(page.replace("<details>", "<details open>"), 390)
    assert (said["out"], said["scroll"]) == ([], said["client"])


def test_published_and_obtained_fit_side_by_side_on_a_phone(measure_page, make_page):
    columns = ["moment", "layer", "spline, published", "spline, obtained", "analytic, published", "analytic, obtained"]
    rows = [["variance", "Out", "7.43e-05", 2.0e-5, "1.05e-01", 0.1], ["mean", "1", "2.20e-05", 1.7e-5, "8.91e-04", 6e-4]]
    page = make_page("feedforward", obtained={"Errors": {"columns": columns, "rows": rows}})
    assert "2.20×10⁻⁵" in page  # its digits as they were printed
    (beyond,) = measure_page(page, 390)["pairs"]
    assert beyond <= 0
