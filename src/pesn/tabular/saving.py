"""A fitted model with the names of its columns, in files that hold no code.

The network goes to a file of :mod:`pesn.persistence`; what belongs to the table, and how the series was prepared, to a JSON file
beside it, with the digest of the first: the two belong together.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pesn.persistence
from pesn.forecasting import Forecaster
from pesn.tabular.errors import DataError
from pesn.tabular.model import Model, Recipe
from pesn.tabular.season import Season
from pesn.writing import replacing

__all__ = ["Saved", "beside", "load", "save"]

_FORMAT = 1
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


def beside(path: Path) -> Path:
    """The file that goes with a model's: MODEL.json."""
    return path.with_name(path.name + ".json")


def save(saved: Saved, path: Path) -> None:
    """Write both files, each whole or not at all."""
    saved.model.forecaster.save(path)
    record = {
        "format": "pesn forecast",
        "format_version": _FORMAT,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        **{name: getattr(saved, name) for name in ("targets", "inputs", "time", "freq", "step", "horizon", "levels", "rows")},
        "origin": saved.origin.isoformat() if saved.freq else float(saved.origin),
        "season": list(saved.model.season),
        "recipe": asdict(saved.model.recipe),
        "width": saved.model.width,
    }
    with replacing(beside(path)) as temporary:
        temporary.write_text(json.dumps(record, indent=2), encoding="utf-8")


def load(path: Path) -> Saved:
    """What :func:`save` wrote; a file from elsewhere, changed or cut short is a :class:`DataError`."""
    if not path.is_file():
        raise ValueError(f"--model must be a file that pesn forecast --save wrote, got '{path}', nothing there")
    try:
        forecaster = pesn.persistence.load(path)
    except ValueError as error:
        raise DataError(f"--model: {error}") from None
    if not isinstance(forecaster, Forecaster) or not hasattr(forecaster, "esn_"):
        raise DataError(f"--model: {path} holds no fitted forecaster, but a {type(forecaster).__name__}")
    other = beside(path)
    try:
        record = json.loads(other.read_text(encoding="utf-8"))
        if record["format"] != "pesn forecast":
            raise KeyError("format")
        if record["format_version"] > _FORMAT:
            raise DataError(f"--model: {other} was written by a newer pesn; update pesn")
        digest = record["sha256"]
    except FileNotFoundError:
        raise DataError(f"--model: {other} is missing; pesn forecast --save writes it beside the model") from None
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"--model: {other} is not a file of pesn forecast --save") from None
    if digest != hashlib.sha256(path.read_bytes()).hexdigest():
        raise DataError(f"--model: {path} and {other.name} do not belong together; save the model again")
    try:
        return _checked(record, forecaster)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"--model: {other} is damaged ({error}); save the model again") from None


def _checked(record: dict[str, Any], forecaster: Forecaster) -> Saved:
    import pandas as pd

    recipe = Recipe(**record["recipe"])
    season = Season(int(record["season"][0]), float(record["season"][1]))
    kinds: dict[str, Any] = {
        "difference": int, "harmonics": int, "log": bool, "target": str, "n_units": int, "ridge": float, "leak_rate": float,
        "spectral_radius": float, "input_scaling": float,
    }  # fmt: skip
    for name, kind in kinds.items():
        if not isinstance(getattr(recipe, name), (kind, int) if kind is float else kind):
            raise ValueError(f"{name} is {getattr(recipe, name)!r}")
    names = {name: [str(one) for one in record[name]] for name in ("targets", "inputs")}
    known = len(names["inputs"]) + 2 * recipe.harmonics
    if (forecaster.n_columns_, forecaster.n_known_) != (len(names["targets"]), known):
        raise ValueError("its columns are not the model's")
    freq = record["freq"]
    width, step = float(record["width"]), float(record["step"])
    counts = [int(record[name]) for name in _NUMBERS]
    levels = [float(level) for level in record["levels"]]
    right = 0 <= recipe.difference < 1e6 and 0 <= recipe.harmonics < 1e3 and season.rows >= 1 and season.period > 0.0
    if not (right and 0.0 < width < np.inf and step > 0.0 and min(counts) >= 1 and all(0.0 < one < 1.0 for one in levels)):
        raise ValueError("a number is out of range")
    if freq is not None:
        pd.tseries.frequencies.to_offset(freq)
    origin = pd.Timestamp(record["origin"]) if freq else float(record["origin"])
    model = Model(recipe, season, forecaster, width)
    time = record["time"] if record["time"] is None else str(record["time"])
    return Saved(model, names["targets"], names["inputs"], time, freq, step, origin, counts[0], levels, counts[1])
