"""Commands on a terminal."""

import contextlib
import os
import signal
import subprocess
import time

import pytest


@pytest.fixture
def interrupt_on_terminal(interruptible):
    """A function that runs a command on a terminal, presses Ctrl-C once it is ready, and returns all that it showed."""
    pty = pytest.importorskip("pty")

    def run(command, ready, **environment):
        screen, terminal = pty.openpty()
        given = {"TERM": "xterm", "COLUMNS": "100", **environment}
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
        options = {"stdout": subprocess.PIPE, "stderr": terminal, "env": kept | given, "start_new_session": True}
        process = subprocess.Popen(command, **options)
        os.close(terminal)
        shown = b""
        try:
            while not ready(shown):
                shown += os.read(screen, 4096)
            time.sleep(0.3)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to workers too
            with contextlib.suppress(OSError):  # the other end is closed
                while more := os.read(screen, 4096):
                    shown += more
            assert process.wait(timeout=30) == 130
            assert process.stdout.read() == b""
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            os.close(screen)
        assert b"Traceback" not in shown
        assert shown.rstrip().endswith(b"pesn: interrupted")
        return shown

    return run
