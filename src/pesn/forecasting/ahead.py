"""The way of a closed loop over the next rows as a forecast's means and covariances: calibrated, bounded, in the units of y."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt

from pesn.forecasting.arguments import Columns
from pesn.forecasting.futures import Futures
from pesn.learning.calibration import by_lead
from pesn.reservoir.closed_loop import ClosedLoop
from pesn.statespace import GaussianState, rollout

__all__ = ["calibration_factors", "look_ahead"]

Array = npt.NDArray[np.float64]
_WIDEST = 3.0  # deviations of y in training: no forecast is wider, whatever its calibration
_log = logging.getLogger("pesn.forecasting")


def look_ahead(
    loop: ClosedLoop, state: GaussianState, u: Array, u_var: Array, columns: Columns, calibration: Array, joint: bool,
    own: Array | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Mean, covariances and parts, as :class:`pesn.Forecast` takes them.

    Parameters
    ----------
    state
        After the last row known, the units moved by it and by u[0].
    u, u_var
        Inputs (h, m) and their variances.
    calibration
        Factors (20,) of the deviations; none makes one larger than three of those in training.
    joint
        Whether covariances between all rows are kept; else futures are drawn by the loop itself.
    own
        Covariances (h, d, d) without the uncertainty that was given: they alone are calibrated. None: all of it is.
    """
    path = rollout(loop.model, state, u, u_var, moved=True, joint=joint)
    if path.left.any():
        step, column = np.argwhere(path.left)[0]
        name = f"y{column}" if columns.names is None else columns.names[column]
        _log.warning("the forecast of %s left the range of training at step %d of %d: held there", name, step + 1, len(u))
    std = np.sqrt(np.einsum("kii->ki", path.cov))
    share = None
    if own is not None:
        share = np.divide(np.einsum("kii->ki", own), np.square(std), out=np.ones_like(std), where=std > 0.0)
    factor = calibration_factors(std, calibration, columns.prior.y_std, share)
    mean, scale = columns.scale.undo(path.mean), columns.scale.y_std
    result: dict[str, Any] = {
        "mean": mean,
        "joint": None,
        "parts": {name: part * np.square(factor) for name, part in path.parts.items()},
        "scale": scale,
    }
    if path.joint is None:
        paths = Futures(loop, state, u, u_var, mean, std * factor * scale)
        return {**result, "cov": path.cov * factor[:, :, None] * factor[:, None], "paths": paths}
    joint_factor, over_time = factor.ravel(), path.joint.reshape(factor.size, factor.size)
    over_time *= joint_factor[:, None]  # in place: it is the largest array of all
    over_time *= joint_factor
    return {**result, "joint": over_time}


def calibration_factors(std: Array, calibration: Array, training_std: Array, share: Array | None = None) -> Array:
    """Factors of deviations (…, horizon, d), from those of 20 leads: none makes one larger than three in training (d,).

    ``share`` (…, horizon, d) of the variances is calibrated; None: all of them.
    """
    factor = by_lead(calibration, std.shape[-2])[:, None] * np.ones_like(std)
    if share is not None:
        factor = np.sqrt(1.0 + (np.square(factor) - 1.0) * np.clip(share, 0.0, 1.0))
    most = np.divide(_WIDEST * training_std, std, out=np.ones_like(std), where=std > 0.0)
    return np.minimum(factor, np.maximum(most, 1.0))
