"""The commands ``pesn reproduce`` and ``pesn list``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pesn import paper
from pesn.cli import terminal
from pesn.cli.terminal import option


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]…",
            help="Names of items, as listed by pesn list.",
            autocompletion=lambda: list(paper.ITEMS),
            show_default="all",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small samples: all items in about 2 minutes on two cores, not 17.")
    ] = False,
    out: Annotated[Path, option(None, "Folder for the results and the report; finished items are reused.")] = Path(
        "reproduction"
    ),
    jobs: Annotated[int | None, option(None, "Number of processes.", "1 per core")] = None,
    scheduler: Annotated[str | None, option("ADDRESS", "Address of a Dask scheduler, such as tcp://127.0.0.1:8786.")] = None,
    seed: Annotated[int, option(None, "Random seed.")] = 0,
    settings: Annotated[
        list[str] | None,
        option("NAME=VALUE", "Setting of an item, as listed by pesn list ITEM; may be repeated.", name="--set"),
    ] = None,
) -> None:
    """Reproduce the paper's tables and figures: a report with published and obtained values side by side."""
    with terminal.one_line_errors():
        from joblib import cpu_count

        from pesn._support.arguments import whole_number
        from pesn.paper import runner as reproducing

        whole_number("--seed", seed, 0)
        if jobs is not None:
            whole_number("--jobs", jobs, 1)
            if scheduler is not None:
                raise ValueError(f"--jobs must not be given with --scheduler, which has workers, got {jobs}")
        own = _settings(settings or [])
        try:
            records = reproducing.reproduce(
                names or (), out, quick=quick, seed=seed, jobs=jobs or int(cpu_count()), scheduler=scheduler, verbose=True,
                settings=own,
            )  # fmt: skip
        except reproducing.ItemError as error:
            terminal.fail(1, str(error))
        terminal.say(f"{_summarize(records)}: {out / 'index.html'}")


def _summarize(records: Sequence[dict[str, Any]]) -> str:
    """Count the items, and the claims by verdict."""
    from pesn.paper.claims import LABELS, claim_labels
    from pesn.series.table.numerals import format_count

    counts = Counter(claim_labels(claim for record in records for claim in record["claims"]).values())
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in LABELS if counts[verdict])
    return format_count(len(records), "item") + (f", claims: {said}" if said else "")


def list_items(
    item: Annotated[
        str | None,
        typer.Argument(help="An item, whose settings are listed.", autocompletion=lambda: list(paper.ITEMS), show_default=False),
    ] = None,
) -> None:
    """List the items of pesn reproduce with their place in the paper; or the settings of one, with defaults and meaning."""
    with terminal.one_line_errors():
        if item is None:
            width = max(map(len, paper.ITEMS))
            for name in paper.ITEMS:
                said = paper.get(name).description
                terminal.say(f"{name:{width}}  {said.title} ({said.place})")
            return
        from pesn.paper.item_settings import format_value

        chosen = paper.get(item)
        full, quick = chosen.parameters(False), chosen.parameters(True)
        terminal.say(f"Settings of {item}, for pesn reproduce {item} --set NAME=VALUE:")
        for name, setting in chosen.settings.items():
            small = f" (with --quick {format_value(quick[name])})" if quick[name] != full[name] else ""
            terminal.say(f"\n{name}={format_value(full[name])}{small}\n    {setting.meaning}\n    Takes {setting.kind.words}.")


def _settings(words: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE, NAME=VALUE, … by name."""
    from pesn.paper.item_settings import parse_value

    given: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name.strip() and equals):
            raise ValueError(f"--set must be NAME=VALUE, got {word!r}")
        if name.strip() in given:
            raise ValueError(f"--set must name each setting once, got {name.strip()} twice")
        given[name.strip()] = parse_value(value.strip())
    return given
