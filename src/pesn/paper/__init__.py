"""The paper's tables and figures, each with its published numbers and a way to make them again.

>>> list(ITEMS)[:3]
['moments', 'moments-grid', 'higher-moments']
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pesn.paper.claims import Result

__all__ = ["ITEMS", "SECONDS", "get", "run"]

# In the paper's order: the module of each item, imported when it is first asked for, and about how long it takes on two cores,
# quick and in full, to say how long all take, and how long a run still does.
_ITEMS = {
    "moments": ("moments", (5, 7)),
    "moments-grid": ("moments_grid", (4, 6)),
    "higher-moments": ("higher_moments", (5, 15)),
    "complexity": ("complexity", (7, 62)),
    "error-time": ("error_time", (4, 115)),
    "error-bound": ("error_bound", (3, 4)),
    "feedforward": ("feedforward", (7, 25)),
    "washout": ("washout", (25, 300)),
    "entropy": ("entropy", (12, 190)),
    "cart-pole": ("predict_cart_pole", (18, 110)),
    "ardrone": ("predict_ardrone", (28, 170)),
}
ITEMS = MappingProxyType({name: f"pesn.paper.items.{module}" for name, (module, _) in _ITEMS.items()})
SECONDS = MappingProxyType({name: seconds for name, (_, seconds) in _ITEMS.items()})


def get(name: str) -> ModuleType:
    """The module of the item called ``name``: its ``parameters(quick)``, their ``SETTINGS`` and ``run(settings, tasks)``.

    >>> get("bound")
    Traceback (most recent call last):
    ValueError: item must be one of moments, moments-grid, ..., ardrone, got 'bound'; did you mean 'error-bound'?
    """
    if not isinstance(name, str):
        raise TypeError(f"item must be a name, got {name!r}")
    if name not in ITEMS:
        near = get_close_matches(name.lower().replace("_", "-"), ITEMS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"item must be one of {', '.join(ITEMS)}, got {name!r}{hint}")
    return import_module(ITEMS[name])


def run(name: str, *, quick: bool = False, seed: int = 0, jobs: int = 1, **settings: Any) -> Result:
    """Make one item again, with settings of your own; nothing is written.

    Parameters
    ----------
    name : str
        Name of the item, as ``ITEMS`` has it.
    quick : bool, default=False
        Take small samples.
    seed : int, default=0
        Of everything that is drawn.
    jobs : int, default=1
        Processes that the work runs in; the numbers are the same.
    **settings
        Of the item, by name: ``get(name).SETTINGS`` says what they are, as does ``pesn list NAME``.

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
    from pesn.paper.tasks import JoblibTasks, connected

    flag("quick", quick)
    whole_number("seed", seed, 0)
    whole_number("jobs", jobs, 1)
    item = get(name)
    parameters = choose(item.NAME, item.SETTINGS, item.parameters(quick), settings)
    with connected(jobs):
        result: Result = item.run(Settings(quick, seed, parameters), JoblibTasks())
    return result
