"""The reference table: 50-digit arithmetic, 20 digits printed, for six activations."""

import csv
import logging
import os
import shutil
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings

# No deadline: a first call compiles. In CI the examples are the same every time.
settings.register_profile("pesn", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("pesn")

logging.getLogger("pesn._support.jit").setLevel(logging.ERROR)  # whichever test compiles first says nothing of it


@pytest.fixture(scope="session")
def reference():
    """name -> namespace of arrays: mean, var (input), out_mean, out_var, skewness, kurtosis, gain."""
    with (Path(__file__).parent / "data" / "moments.csv").open() as file:
        rows = list(csv.DictReader(file))

    def column(name, key):
        return np.array([float(row[key] or "nan") for row in rows if row["activation"] == name])

    return {
        name: SimpleNamespace(
            mean=column(name, "mean"),
            var=column(name, "variance"),
            out_mean=column(name, "out_mean"),
            out_var=np.maximum(column(name, "out_variance"), 0.0),
            skewness=column(name, "out_skewness"),
            kurtosis=column(name, "out_kurtosis"),
            gain=column(name, "mean_derivative"),
        )
        for name in ("tanh", "sigmoid", "silu", "softplus", "gelu", "erf")
    }


@pytest.fixture(scope="session")
def read_to_end():
    """A function that gives all that is still written to a terminal, by the file descriptor of its screen."""

    def read(screen):
        shown = b""
        while True:
            try:
                more = os.read(screen, 4096)
            except OSError:  # the other end is closed
                return shown
            if not more:
                return shown
            shown += more

    return read


@pytest.fixture
def interruptible():
    """Processes that a test starts heed Ctrl-C, though a shell that ran the tests in the background had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
