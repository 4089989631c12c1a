"""Count the modules of pesn that a call passes through: python scripts/count_modules.py [--list].

Those whose functions run in the second call of ``fit`` and ``forecast`` of a Lorenz series and of ``propagate`` through three
layers: the first call compiles and reads tables.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from types import FrameType

import numpy as np

import pesn
from pesn.systems import chaotic


def passed_modules(call: Callable[[], object]) -> set[str]:
    """Return the modules of pesn whose functions run in the second of two calls."""
    names = set()

    def record(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.partition(".")[0] == "pesn":
            names.add(name)

    call()
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names


def main() -> None:
    """Print the number of modules of each call, and with ``--list`` their names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the names too")
    options = parser.parse_args()
    y = np.asarray(chaotic.lorenz(runs=1, steps=1000, rng=0).states).reshape(-1, 3)
    model, rng = pesn.Forecaster().fit(y), np.random.default_rng(0)
    layers = [pesn.Dense(rng.normal(size=(5, 5)), rng.normal(size=5), "tanh") for _ in range(3)]
    x = pesn.Gaussian(np.zeros(5), np.eye(5))
    calls: dict[str, Callable[[], object]] = {
        "fit": lambda: pesn.Forecaster().fit(y),
        "forecast": lambda: model.forecast(20, y[-200:]),
        "propagate": lambda: pesn.propagate(layers, x),
        "propagate, Gaussian closure": lambda: pesn.propagate(layers, x, closure="gaussian"),
    }
    for name, call in calls.items():
        found = passed_modules(call)
        print(f"{name:30}{len(found):3}  {' '.join(sorted(found)) if options.list else ''}".rstrip())


if __name__ == "__main__":
    main()
