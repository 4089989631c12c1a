"""Claim: in a browser nothing sticks out of the pages, on a desk or a phone; a panel's table is searched, sorted and paged."""

import numpy as np
import pandas as pd
import pytest

from pesn.series.forecaster import SeriesForecaster
from pesn.series.page.page import page, sections
from pesn.series.page.panel_page import SeriesRecord, panel_page

LONG = "unbreakable" * 8

MEASURE = """<script>addEventListener("load", () => {
  const page = document.documentElement, wide = page.clientWidth, said = {}
  const boxed = e => e.closest(".table, svg, .skip, .unseen")
  said.out = [...document.body.querySelectorAll("*")].filter(e => !boxed(e) && e.getBoundingClientRect().right > wide + 0.5)
    .map(e => e.tagName + "." + e.className)
  said.scroll = page.scrollWidth - wide
  said.small = [...document.querySelectorAll(".plot span")].filter(e => parseFloat(getComputedStyle(e).fontSize) < 11).length
  said.colour = getComputedStyle(document.body).backgroundColor
  const table = document.getElementById("series")
  if (table) {
    const rows = () => [...table.tBodies[0].rows].map(row => row.cells[0].textContent.trim())
    const search = document.getElementById("search"), heads = table.tHead.querySelectorAll("button")
    const find = text => { search.value = text; search.dispatchEvent(new Event("input")); return rows() }
    const status = () => document.getElementById("status").textContent
    said.start = [rows().length, status(), table.querySelectorAll("tbody svg").length]
    said.found = find("ITEM 7 red")
    said.none = [find("no such thing").length, status()]
    find("")
    document.querySelector("[aria-label='Next page']").click()
    said.second = rows()[0]
    const last = [...heads].find(e => e.textContent === "last")
    last.click(); said.largest = rows()[0]; last.click(); said.smallest = rows()[0]
    said.sorted = last.parentNode.getAttribute("aria-sort")
    document.querySelector("[aria-label='Last page']").click()
    said.failed = rows().at(-1)
  }
  parent.postMessage(JSON.stringify([location.search, said]), "*")
})</script>"""


@pytest.fixture(scope="module")
def pages():
    t = np.arange(72.0)
    rng = np.random.default_rng(0)
    y = {LONG: 1e6 * np.exp(0.02 * t + 0.3 * np.sin(2 * np.pi * t / 12)), "b": np.cumsum(rng.normal(size=72))}
    model = SeriesForecaster(horizon=12).fit(pd.DataFrame(y, index=pd.date_range("2018-01-31", periods=72, freq="ME")))
    shown = sections(model.fitted_, model.forecast(12), (0.8, 0.95), judged=model.backtest(12, [48, 60]))
    common = dict.fromkeys(("title", "file", "command", "version"), LONG)
    common |= {"notes": [LONG], "settings": {LONG: LONG}, "files": [LONG]}
    said = {"data": LONG, "model": LONG, "forecast": LONG}
    wave = "?A_ }!AB!?@!CD"
    rows = [
        SeriesRecord(f"item {i} {'red' if i % 2 else 'blue'}", 12, (-1.0) ** i * 10.0 ** (i % 9), 2.0, 1.0, 3.0, wave)
        for i in range(120)
    ]
    rows.append(SeriesRecord(LONG, 1, 0.5, 2.0, 1.0, 3.0, wave, "12", {"statistical": 0.6, "AR": 0.4}))
    rows.append(SeriesRecord("bad", failed=LONG))
    panel = {"records": rows, "total": 200, "failed": 1, "end": "2024-12", "level": "80", "shares": {"statistical": 1.0}}
    return {
        "table": page({**common, "said": said, "sections": shown, "levels": (0.8, 0.95), "tables": []}),
        "folded": page({**common, "said": said, "sections": [*shown, *shown], "levels": (0.8, 0.95), "tables": []}),
        "panel": panel_page({**common, "said": said, **panel}),
    }


def test_nothing_sticks_out_and_the_table_is_searched(pages, measure):
    shown = {name: text.replace("<details", "<details open" if name != "folded" else "<details") for name, text in pages.items()}
    found = measure(shown, MEASURE, (390, 1280), dark=True)
    assert len(found) == 6
    for key, said in found.items():
        assert said["out"] == [], key
        assert said["scroll"] <= 0, key
        assert said["small"] == 0, key
        assert said["colour"] == "rgb(20, 23, 29)"
    said = found["?panel-390"]
    assert said["start"] == [50, "1–50 of 122", 50]
    assert said["found"] == [f"item {i} red" for i in range(1, 120, 2) if "7" in str(i)]  # and no row with a 7 elsewhere
    assert (said["none"], said["second"]) == ([0, "none found, of 122"], "item 50 blue")
    assert (said["largest"], said["smallest"], said["sorted"]) == ("item 8 blue", "item 17 red", "ascending")
    assert said["failed"] == "bad"  # what has no number comes last


def test_only_the_page_s_own_script_runs(pages, tmp_path, browse):
    added = "<script>document.title = 'ran'</script><img src='other.png'></body>"
    (tmp_path / "panel.html").write_text(pages["panel"].replace("</body>", added), encoding="utf-8")
    shown, log = browse(tmp_path, "panel.html")
    assert "<title>unbreakable" in shown
    assert log.count("CONSOLE") == 2  # one complaint for each of those added
    assert shown.count('<tr data-s="') == 50
    assert 'class="plot spark"' in shown
