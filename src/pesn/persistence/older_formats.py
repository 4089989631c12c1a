"""Files of older formats: classes by the names that they had, and what models did not have yet."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from pesn.forecasting.time_index import TimeIndex
from pesn.learning.calibration import LEADS, by_lead
from pesn.persistence.audit import nodes, type_of

__all__ = ["complete", "rename"]

_RANGE = 3.0  # deviations of y that stand for its range, in a file that does not say it
_MOVED = {  # classes by the names that older formats have for them
    f"pesn.{old}": f"pesn.{new}"
    for old, new in (
        ("esn.EchoStateNetwork", "esn.network.EchoStateNetwork"),
        ("probabilistic_esn.ProbabilisticESN", "esn.probabilistic.ProbabilisticESN"),
        ("forecasting.Forecaster", "forecasting.forecaster.Forecaster"),
        ("beliefs.diagonal.Diagonal", "statespace.diagonal.Diagonal"),
        ("beliefs.full.Full", "statespace.dense.Dense"),
        ("beliefs.low_rank.LowRank", "statespace.low_rank.LowRank"),
        ("dating.Clock", "forecasting.time_index.TimeIndex"),
        ("drawing.Reservoir", "reservoir.weights.Reservoir"),
        ("filtering.Errors", "reservoir.closed_loop.ErrorModel"),
        ("readout.Readout", "readout.ridge.Readout"),
        ("reservoir.State", "reservoir.drive.State"),
        ("rls.RLSState", "readout.rls.RLSState"),
        ("series.Scale", "forecasting.dataset.Scale"),
        ("starting.Start", "reservoir.initial_state.Start"),
        ("time_index.TimeIndex", "forecasting.time_index.TimeIndex"),
    )
}
_RENAMED = {"usual_": "prior_scale_", "learn_": "learned_columns_", "rest_": "kinematic_columns_"}  # of a forecaster
# Parameters by the first format that has them: a file of an older one stands for the constructor's default.
_SINCE = {
    "verbose": 3, "activation": 5, "topology": 5, "features": 6, "n_members": 6, "design": 6, "measurement_noise": 7,
    "angles": 8, "unseen": 8, "layers": 9, "memory": 9, "plasticity": 9, "feedback": 9, "local": 9,
}  # fmt: skip


def rename(schema: Any) -> bool:
    """Whether a class had another name once; the schema now has the one of today."""
    old = [node for node in nodes(schema) if "__class__" in node and type_of(node) in _MOVED]
    for node in old:
        node["__module__"], _, node["__class__"] = _MOVED[type_of(node)].rpartition(".")
    return bool(old)


def complete(model: Any, found: int) -> None:
    """Give a model of format ``found`` what that format did not have.

    In format 1 networks started from zero or a Gaussian, without process noise. Up to format 2 forecasters knew neither X's names
    nor dates, and took their target from the parameter. Up to format 3 a frame's own numbering was not told from numbers that
    somebody chose; of X only the last row was kept, and of y no range. Up to format 4 a forecaster's state went by another name,
    and its columns and their long-run scale did in some files of format 5. Up to format 6 rows were measured exactly, up to
    format 7 networks saw all columns of y as they are. Up to format 8 units stayed as they were drawn.
    """
    own = model.__dict__
    for name, parameter in inspect.signature(type(model)).parameters.items():
        if found < _SINCE.get(name, 1):
            own.setdefault(name, parameter.default)
    if found == 1 and "readout_" in own:
        own["washout_"] = model.washout
        if "process_noise" in own:
            own["start_"], own["process_noise_"] = None, 0.0
    if found < 6 and "readout_" in own:
        own["ridge_"] = model.ridge
    for inside in [part for part in (own.get("esn"), own.get("esn_")) if hasattr(part, "n_units")]:
        complete(inside, found)
    if "errors_" not in own:
        return
    for old, new in _RENAMED.items():
        if old in own:
            own[new] = own.pop(old)
    if found < 3:
        own.setdefault("target_", own.get("target"))
        own.setdefault("known_names_", None)
    if found < 4:
        time = own.pop("_clock", None)
        numbered = isinstance(time, TimeIndex) and (time.kind, time.step) == ("numbers", 1)
        own["_time"] = time._replace(kind="counted") if numbered else time
        if "_last_known" in own:
            prior, recent, last = own["prior_scale_"], own["_recent"], own.pop("_last_known")
            own["_recent_known"] = np.vstack([np.full((len(recent) - 1, len(last)), np.nan), last])
            own["range_"] = prior.y_mean - _RANGE * prior.y_std, prior.y_mean + _RANGE * prior.y_std
    if found < 5 and "_belief" in own:
        own["_state"] = own.pop("_belief")
    if found < 6:
        own["design_"] = None
        own["calibration_"] = by_lead(own["calibration_"], LEADS)
    if found < 7:
        own["measurement_var_"] = np.zeros(own["n_columns_"])
    if found < 8:
        own["angle_columns_"], own["unseen_columns_"] = np.zeros(0, np.intp), np.zeros(0, np.intp)
