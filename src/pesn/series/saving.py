"""A fitted model, the names of its columns and how the series was prepared: a file of :mod:`pesn.persistence` with a note."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pesn import persistence
from pesn.forecasting.calendar_steps import CalendarStep
from pesn.forecasting.forecaster import Forecaster
from pesn.learning.calibration import LEADS, by_lead
from pesn.series.errors import DataError
from pesn.series.model import Model, Recipe
from pesn.series.season import Season

__all__ = ["Saved", "load", "save"]

_FORMAT = 2
_NUMBERS = ("horizon", "rows")


@dataclass(frozen=True)
class Saved:
    """A model, the names of its columns, the step and the first time of the rows it was trained on, and what it was asked for."""

    model: Model
    targets: list[str]
    inputs: list[str]
    time: str | None
    freq: str | None
    step: float
    origin: Any
    horizon: int
    levels: list[float]
    rows: int


def save(saved: Saved, path: Path) -> None:
    """Write the file, whole or not at all."""
    note = {
        "format": _FORMAT,
        **{name: getattr(saved, name) for name in ("targets", "inputs", "time", "freq", "step", "horizon", "levels", "rows")},
        "origin": saved.origin.isoformat() if saved.freq else float(saved.origin),
        "season": list(saved.model.season),
        "recipe": asdict(saved.model.recipe),
        "calibration": saved.model.calibration.tolist(),
    }
    persistence.save(saved.model.forecaster, path, note)


def load(path: Path) -> Saved:
    """What :func:`save` wrote; a file from elsewhere, changed or cut short is a :class:`DataError`."""
    if not path.is_file():
        what = "which is no file" if path.exists() else "nothing there"
        raise ValueError(f"--model must be a file that pesn forecast --save wrote, got '{path}', {what}")
    try:
        forecaster, note = persistence.load_with_note(path)
    except ValueError as error:
        raise DataError(f"--model: {error}") from None
    if not isinstance(note, dict) or not isinstance(note.get("format"), int) or not hasattr(forecaster, "esn_"):
        raise DataError(f"--model: {path} was not written by pesn forecast --save")
    if note["format"] > _FORMAT:
        raise DataError(f"--model: {path} was written by a newer pesn; update pesn")
    try:
        return _checked(note, forecaster)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"--model: {path} is damaged ({error}); save the model again") from None


def _checked(record: dict[str, Any], forecaster: Forecaster) -> Saved:
    import pandas as pd

    recipe = Recipe(**record["recipe"])
    season = Season(int(record["season"][0]), float(record["season"][1]))
    kinds: dict[str, Any] = {
        "difference": int, "harmonics": int, "log": bool, "naive": float, "target": str, "n_units": int, "ridge": float,
        "leak_rate": float, "spectral_radius": float, "input_scaling": float,
    }  # fmt: skip
    for name, kind in kinds.items():
        if not isinstance(getattr(recipe, name), (kind, int) if kind is float else kind):
            raise ValueError(f"{name} is {getattr(recipe, name)!r}")
    names = {name: [str(one) for one in record[name]] for name in ("targets", "inputs")}
    known = len(names["inputs"]) + 2 * recipe.harmonics
    if (forecaster.n_columns_, forecaster.n_known_) != (len(names["targets"]), known):
        raise ValueError("its columns are not the model's")
    freq = record["freq"]
    # format 1 had one factor for all leads
    calibration = np.full(LEADS, float(record["width"])) if record["format"] == 1 else np.array(record["calibration"], float)
    step = float(record["step"])
    counts = [int(record[name]) for name in _NUMBERS]
    levels = [float(level) for level in record["levels"]]
    right = 0 <= recipe.difference < 1e6 and 0 <= recipe.harmonics < 1e3 and season.rows >= 1 and season.period > 0.0
    if not (right and step > 0.0 and min(counts) >= 1 and all(0.0 < one < 1.0 for one in levels)):
        raise ValueError("a number is out of range")
    if calibration.shape == (20,):  # as many as there were when it was written
        calibration = by_lead(calibration, LEADS)
    if calibration.shape != (LEADS,) or not ((calibration > 0.0) & (calibration < np.inf)).all():
        raise ValueError(f"its calibration is not {LEADS} positive numbers")
    if freq is not None:
        CalendarStep(freq)
    origin = pd.Timestamp(record["origin"]) if freq else float(record["origin"])
    model = Model(recipe, season, forecaster, calibration)
    time = record["time"] if record["time"] is None else str(record["time"])
    return Saved(model, names["targets"], names["inputs"], time, freq, step, origin, counts[0], levels, counts[1])
