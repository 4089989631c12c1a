"""The command line: parsing only. Results on standard output, progress on standard error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(help="Uncertainty through tanh networks and reservoirs in closed form.", no_args_is_help=True)


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


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("demo")) -> None:
    """The moment engine at work: a table of its methods and a picture."""
    Console(stderr=True).print("Compiling the kernels at first use takes some seconds …", style="dim")
    from pesn import demo as demonstration

    try:
        picture = demonstration.run(out, Console())
    except OSError as error:
        Console(stderr=True).print(f"cannot write to {out}: {error.strerror}", style="red")
        raise typer.Exit(1) from error
    print(f"\nThe picture is in {picture}")


def main() -> None:
    """Entry point of the ``pesn`` command."""
    app()
