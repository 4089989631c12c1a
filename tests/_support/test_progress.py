"""Progress is shown on standard error on request only, with names, amounts and times, and does not change results."""

import io
import re

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress
from sklearn.base import clone

from pesn import EchoStateNetwork, Forecaster, ProbabilisticESN
from pesn._support import progress
from pesn._support.progress import show_progress

SERIES = np.sin(0.2 * np.arange(301.0))[:, None]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_nothing_is_logged_by_default(capfd):
    with show_progress(False) as steps, steps.step("work", 3) as advance:
        advance(3)
    ProbabilisticESN(10, random_state=0).fit(SERIES[:-1], SERIES[1:])
    Forecaster(ProbabilisticESN(10, random_state=0), calibrate=False).fit(SERIES)
    assert capfd.readouterr() == ("", "")


NETWORK = ProbabilisticESN(10, washout="auto", feedback_scaling=0.1, random_state=0)
DRIVE = "driving the reservoir: 300 rows; least squares"
START = f"{DRIVE}; learning the start"
ERRORS = "learning the errors: 300 rows; choosing process noise: 14 forecasts; calibrating: 14 forecasts"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (EchoStateNetwork(10, random_state=0), DRIVE),
        (NETWORK, f"finding the washout; {START}; choosing process noise"),
        (Forecaster(ProbabilisticESN(10, washout=20, random_state=0)), f"{START}; {ERRORS}"),
    ],
)
def test_estimators_log_their_steps(model, expected, capfd):
    arguments = (SERIES,) if isinstance(model, Forecaster) else (SERIES[:-1], SERIES[1:])
    silent = clone(model).fit(*arguments)
    assert capfd.readouterr() == ("", "")
    loud = clone(model).set_params(verbose=True).fit(*arguments)
    out, err = capfd.readouterr()
    assert not out
    assert "; ".join(re.sub(r"[,:] \d+\.\d s$", "", line) for line in err.splitlines()) == expected
    if isinstance(model, Forecaster):
        np.testing.assert_array_equal(loud.forecast(5).joint, silent.forecast(5).joint)
        assert not loud.esn.verbose
        assert not loud.esn_.verbose
    else:
        np.testing.assert_array_equal(loud.readout_.weights, silent.readout_.weights)


@pytest.mark.parametrize("estimator", [EchoStateNetwork, ProbabilisticESN, Forecaster])
def test_verbose_must_be_a_bool(estimator):
    arguments = (SERIES,) if estimator is Forecaster else (SERIES, SERIES)
    with pytest.raises(TypeError, match="verbose must be True or False, got 2"):
        estimator(verbose=2).fit(*arguments)


def test_long_steps_log_the_remaining_time(monkeypatch):
    now = iter(np.arange(0.0, 100.0, 6.0))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(now)))
    page = io.StringIO()
    with show_progress(True, page) as steps, steps.step("driving", 4000, "rows") as advance:
        for _ in range(4):
            advance(1000)  # six seconds each; a line after ten
    assert page.getvalue().splitlines() == ["driving: 2,000 of 4,000 rows, 12 s left", "driving: 4,000 rows, 30.0 s"]


def test_bars_are_removed_at_the_end(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    page = Terminal()
    with show_progress(True, page) as steps:
        with steps.step("driving [it]", 10, "rows") as advance:
            advance(10)
        with steps.step("least squares"):
            pass
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", page.getvalue())
    assert re.search(r"driving \[it\]: 10 rows, \d+\.\d s", text)
    assert re.search(r"least squares: \d+\.\d s", text)
    assert page.getvalue().rstrip().endswith(("\x1b[2K", "\x1b[?25h"))  # the line cleared, the cursor shown again
    monkeypatch.setenv("TERM", "dumb")
    page = Terminal()
    with show_progress(True, page) as steps, steps.step("work"):
        pass
    assert re.fullmatch(r"work: \d+\.\d s\n", page.getvalue())


def test_bars_coexist_with_those_of_the_caller(monkeypatch):
    """No error, whether rich can show both or not."""
    monkeypatch.setenv("TERM", "xterm-256color")
    page = Terminal()
    with Progress(console=Console(file=page)), show_progress(True, page) as steps, steps.step("work", 3) as advance:
        advance(3)
    with show_progress(True, page) as steps, steps.step("more work", 3, "rows") as advance:
        advance(3)
    assert "more work: 3 rows" in page.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_errors_are_raised_and_no_success_is_logged(stream, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    page = stream()
    with pytest.raises(KeyboardInterrupt), show_progress(True, page) as steps, steps.step("driving", 10):
        raise KeyboardInterrupt
    assert "driving: " not in page.getvalue()


def test_without_standard_error(monkeypatch):
    monkeypatch.setattr(progress.sys, "stderr", None)
    with show_progress(True) as steps, steps.step("work") as advance:
        advance(1)
