"""The way of a closed loop over the next rows as a forecast's means and covariances: calibrated, bounded, in the units of y."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from pesn._support.types import Array
from pesn.forecasting.futures import Futures, Samples, calibration_factors
from pesn.forecasting.paths import path_ahead

__all__ = ["look_ahead"]

_log = logging.getLogger("pesn.forecasting")


def look_ahead(futures: Futures, calibration: Array, joint: bool) -> dict[str, Any]:
    """Mean, covariances and parts, as :class:`pesn.Forecast` takes them.

    Parameters
    ----------
    futures
        Where the loop stands, and what is known of the rows ahead.
    calibration
        Factors (50,) of the deviations; none makes one larger than three of those in training.
    joint
        Whether covariances between all rows are kept; else futures are drawn by the loop itself.
    """
    u, columns = futures.inputs, futures.columns
    path = path_ahead(futures.loop, futures.state, u, futures.input_var, joint=joint)
    if path.left.any():
        step, column = np.argwhere(path.left)[0]
        name = f"y{column}" if columns.names is None else columns.names[column]
        _log.warning("the forecast of %s left the range of training at step %d of %d: held there", name, step + 1, len(u))
    std = np.sqrt(np.einsum("kii->ki", path.cov))
    factor = calibration_factors(std, calibration, columns.prior.y_std, futures.own_share(std))
    mean, scale = columns.scale.undo(path.mean), columns.scale.y_std
    result: dict[str, Any] = {
        "mean": mean,
        "joint": None,
        "parts": {name: part * np.square(factor) for name, part in path.parts.items()},
        "scale": scale,
    }
    if path.joint is None:
        paths = Samples(futures, mean, std * factor * scale)
        return {**result, "cov": path.cov * factor[:, :, None] * factor[:, None], "paths": paths}
    joint_factor, over_time = factor.ravel(), path.joint.reshape(factor.size, factor.size)
    over_time *= joint_factor[:, None]  # in place: it is the largest array of all
    over_time *= joint_factor
    certain = std.ravel() == 0.0  # also by underflow, which covariances with others do not have
    over_time[certain] = 0.0
    over_time[:, certain] = 0.0
    return {**result, "joint": over_time}
