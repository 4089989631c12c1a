"""The command line: parsing only. Results on standard output, progress and errors on standard error.

Exit codes: 0 done, 1 it could not be done, 2 a wrong call, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Annotated, Any

import typer

from pesn.cli.commands import Several, forecast, list_items, reproduce, simulate, warmup

__all__ = ["app", "main"]

# click's own, which typer keeps to itself: an option misspelt, a word too many
_WrongCall: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(help="Uncertainty through tanh networks and reservoirs in closed form.", no_args_is_help=True)
app.command(cls=Several)(forecast)
app.command()(reproduce)
app.command("list")(list_items)
app.command()(simulate)
app.command()(warmup)


def _version(show: bool) -> None:
    if show:
        from pesn import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Entry point of the ``pesn`` command."""
    signal.signal(signal.SIGTERM, _stop)  # as an exception, so that what was begun is cleaned up
    try:
        sys.exit(app(standalone_mode=False))
    except _WrongCall as error:
        message = " ".join(error.format_message().split())
        if message:  # none where help was printed instead
            print("pesn:", message, file=sys.stderr)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        print("pesn: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # as in "pesn list | head -1"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
