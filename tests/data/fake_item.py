"""A made-up item of the paper, for tests, which copy this file to fake_one.py and fake_two.py."""

import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pesn.paper.claims import Draw, Result, over_draws
from pesn.paper.item_settings import Item, Setting, number, whole

NAME = __name__.removeprefix("fake_")
SETTINGS = {"units": Setting("Units of work.", whole(1), 9, quick=6), "scale": Setting("A factor.", number(), 1.0)}
if NAME == "two":
    SETTINGS["strength"] = Setting("Of nothing.", number(0.0), 0.5)


def unit(seed, scale, weights):
    """Needs linear algebra, whose last digits would tell of threads; leaves a line for each call; waits where it is told to."""
    place = Path(os.environ["FAKE_PLACE"])
    with (place / "calls").open("a") as file:
        file.write(f"{os.getpid()} {seed}\n")
    while (place / "wait").exists() and len((place / "calls").read_text().splitlines()) > 2:
        time.sleep(0.02)
    if os.environ.get("FAKE_HANG") == NAME:
        time.sleep(60.0)
    a = np.random.default_rng(seed).normal(size=(150, 150))
    weights *= 2.0  # its own
    return float(scale * (a @ a @ a @ np.linalg.inv(a)).sum() + weights.sum())


def run(settings, tasks):
    p, weights = settings.parameters, np.linspace(0.0, 1.0, 4000)
    values = tasks.map(unit, [(seed, p["scale"], weights.copy()) for seed in settings.seeds(p["units"])])
    if os.environ.get("FAKE_FAIL") == NAME:
        raise ZeroDivisionError("made to\nfail")
    figure = Figure()
    figure.subplots().plot(values)
    frame = pd.DataFrame({"value": values, "none": np.nan, "far": np.inf})
    table = pd.DataFrame({("published", "mean"): [1.0], ("obtained", "mean"): [values[0]]}, index=pd.Index(["x"], name="state"))
    draws = [Draw("holds in part", 0.5), Draw("holds"), Draw("holds in part", 2.0), Draw("holds in part", 0.25)]
    verdict = over_draws("printed-bound", draws, f"It is {values[0]:.3f}.", measure="a number", limits=[1.0])
    return Result(frame, {"Table 1: bound": table}, {"values": (figure, "A line.")}, [verdict], ["A note."])


ITEMS = (Item(NAME, SETTINGS, run, [{"bound": 4.2e-5}]),)
