"""The reference table: 50-digit arithmetic, 20 digits printed, for six activations."""

import contextlib
import csv
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tracemalloc
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# No deadline: a first call compiles. In CI the examples are the same every time.
settings.register_profile("pesn", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("pesn")

logging.getLogger("pesn._support.jit").setLevel(logging.ERROR)  # whichever test compiles first says nothing of it


@pytest.fixture(scope="session")
def reference():
    """name -> namespace of arrays: mean, var (input), out_mean, out_var, skewness, kurtosis, gain."""
    with (Path(__file__).parent / "data" / "moments.csv").open() as file:
        rows = list(csv.DictReader(file))

    keys = {"var": "variance", "out_var": "out_variance", "skewness": "out_skewness", "kurtosis": "out_kurtosis"}
    keys |= {"mean": "mean", "out_mean": "out_mean", "gain": "mean_derivative"}
    tables = {}
    for name in ("tanh", "sigmoid", "silu", "softplus", "gelu", "erf"):
        own = [row for row in rows if row["activation"] == name]
        table = SimpleNamespace(**{ours: np.array([float(row[key] or "nan") for row in own]) for ours, key in keys.items()})
        table.out_var = np.maximum(table.out_var, 0.0)
        tables[name] = table
    return tables


@pytest.fixture
def peak_memory():
    """A function that returns the largest number of bytes that Python had allocated since the test began."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.fixture
def save_and_load(tmp_path):
    """A function that returns the model of a file to which a model was saved."""
    from pesn import load

    def run(model):
        model.save(tmp_path / "saved.pesn")
        return load(tmp_path / "saved.pesn")

    return run


@pytest.fixture(scope="session")
def run_python():
    """A function that runs code in a new process, with more environment variables, and returns the finished process."""

    def run(code, cwd=None, **variables):
        command, environment = [sys.executable, "-c", code], os.environ | variables
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture
def interruptible():
    """Processes that a test starts heed Ctrl-C, though a shell that ran the tests in the background had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Page(HTMLParser):
    """Elements and text of a page; refuses elements that are not closed in order, but for those whose end is optional."""

    def __init__(self, text, optional=()):
        super().__init__(convert_charrefs=True)
        self.tags, self.words, self.open, self.optional = [], [], [], optional
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br", "hr", "img", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while (last := self.open.pop()) != tag:
            assert last in self.optional, (tag, last)

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    def values(self, *names):
        """Values of attributes."""
        return [value for _, attributes in self.tags for name, value in attributes.items() if name in names]

    @property
    def text(self):
        return " ".join("".join(self.words).split())


@pytest.fixture(scope="session")
def read_page():
    """``Page``."""
    return Page


@pytest.fixture(scope="session")
def browse():
    """A function that opens a file in Chromium: the document after its scripts ran, and its log."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium: install it (as root on Debian: apt-get install chromium), then run make test again")
    flags = (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--virtual-time-budget=5000", "--enable-logging=stderr", "--v=0",
        "--window-size=1600,900", "--dump-dom",
    )  # fmt: skip

    def run(folder, name, dark=False):
        own = (f"--user-data-dir={folder / 'profile'}", f"--blink-settings=preferredColorScheme={0 if dark else 1}")
        command = [browser, *flags, *own, (folder / name).as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
        return done.stdout, done.stderr

    return run


FRAMES = """<!DOCTYPE html><title>frames</title>{}<p id="said"></p><script>
const all = {{}}
onmessage = e => {{
  const [key, said] = JSON.parse(e.data)
  all[key] = said
  document.getElementById("said").textContent = JSON.stringify(all)
}}
</script>"""


@pytest.fixture
def measure(browse, tmp_path):
    """A function that adds a script to pages and returns what it posts: [location.search, what it says], by "?page-width"."""

    def run(pages, script, widths, dark=False):
        frames = []
        for name, text in pages.items():
            allowed = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", text)  # so that the script may run
            assert allowed != text
            (tmp_path / f"{name}.html").write_text(allowed.replace("</body>", script + "</body>"), encoding="utf-8")
            frames += [f'<iframe src="{name}.html?{name}-{w}" width="{w}" height="800" frameborder="0"></iframe>' for w in widths]
        (tmp_path / "frames.html").write_text(FRAMES.format("".join(frames)), encoding="utf-8")
        shown, _ = browse(tmp_path, "frames.html", dark)
        return json.loads(unescape(re.search(r'<p id="said">(.*?)</p>', shown, re.DOTALL)[1]))

    return run


@pytest.fixture(scope="session")
def fake_items():
    """A context manager: two made-up items in place of the paper's, in a folder that workers can import from."""
    from pesn import paper
    from pesn.paper import claims, item_settings

    @contextlib.contextmanager
    def install(place):
        place.mkdir()
        for name in ("one", "two"):
            shutil.copy(Path(__file__).parent / "data" / "fake_item.py", place / f"fake_{name}.py")
        with pytest.MonkeyPatch.context() as patch, threadpool_limits(2):
            patch.syspath_prepend(place)
            patch.setenv("FAKE_PLACE", str(place))
            patch.setenv("PYTHONPATH", os.pathsep.join([str(place), str(Path(paper.__file__).parents[2])]))
            patch.setattr(paper, "ITEMS", MappingProxyType({"one": "fake_one", "two": "fake_two"}))
            patch.setattr(
                item_settings, "describe", lambda name: claims.Description(f"Title of {name}", "Table 9", "About.", (9,))
            )
            for library in ("OMP", "OPENBLAS", "MKL"):  # default numbers of threads, here and in child processes
                patch.delenv(f"{library}_NUM_THREADS", raising=False)
            yield place
        for name in ("fake_one", "fake_two"):
            sys.modules.pop(name, None)

    return install
