"""Reproduction of the paper's tables and figures, with the published numbers.

>>> list(ITEMS)[:3]
['moments', 'moments-grid', 'higher-moments']
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pesn.paper.claims import Result
    from pesn.paper.item_settings import Item

__all__ = ["ITEMS", "get", "run"]

# In the paper's order: the module of each item, imported when it is first asked for.
_MODULES = {
    "moments": "moments",
    "moments-grid": "moments",
    "higher-moments": "moments",
    "complexity": "cost",
    "error-time": "cost",
    "error-bound": "error_bound",
    "feedforward": "feedforward",
    "washout": "washout",
    "entropy": "entropy",
    "cart-pole": "prediction_report",
    "ardrone": "prediction_report",
}
ITEMS = MappingProxyType({name: f"pesn.paper.items.{module}" for name, module in _MODULES.items()})


def get(name: str) -> Item:
    """Return the item called ``name``: its ``settings``, their defaults by ``parameters(quick)``, and ``run(settings, tasks)``.

    >>> get("bound")
    Traceback (most recent call last):
    ValueError: item must be one of moments, moments-grid, ..., ardrone, got 'bound'; did you mean 'error-bound'?
    """
    from pesn._support.arguments import check_name

    check_name("item", name, ITEMS)
    items: tuple[Item, ...] = import_module(ITEMS[name]).ITEMS
    return next(item for item in items if item.name == name)


def run(name: str, *, quick: bool = False, seed: int = 0, jobs: int = 1, **settings: Any) -> Result:
    """Reproduce one item, with settings of your choice; nothing is written.

    Parameters
    ----------
    name : str
        Name of the item, as ``ITEMS`` has it.
    quick : bool, default=False
        Take small samples.
    seed : int, default=0
        Seed of everything that is drawn.
    jobs : int, default=1
        Processes that the work runs in; the numbers are the same.
    **settings : object
        Settings of the item, by name: ``get(name).settings`` says what they are, as does ``pesn list NAME``.

    Returns
    -------
    Result
        ``frame``, ``tables``, ``figures``, ``verdicts`` and ``notes``.

    Examples
    --------
    >>> run("error-bound", quick=True, points=[11, 21]).tables["Bound and error by number of mesh points"]["points"].tolist()
    [11, 21]
    """
    from pesn._support.arguments import flag, whole_number
    from pesn.paper.claims import Settings
    from pesn.paper.item_settings import choose
    from pesn.paper.runner import JoblibTasks, engine

    flag("quick", quick)
    whole_number("seed", seed, 0)
    whole_number("jobs", jobs, 1)
    item = get(name)
    parameters = choose(item.name, item.settings, item.parameters(quick), settings)
    with engine(jobs):
        return item.run(Settings(quick, seed, parameters), JoblibTasks())
