"""A readout that learns as rows arrive: its weights and their covariance by recursive least squares, its residuals beside them.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> features = np.column_stack([np.ones(2000), rng.normal(size=2000)])
>>> targets = features @ [[1.0], [2.0]] + 0.1 * rng.normal(size=(2000, 1))
>>> predictions, readout, rls = update(*start_empty(2, 1, delta=100.0), features, targets, forgetting=0.99)
>>> readout.weights.round(1), np.sqrt(readout.residual_cov).round(1)
(array([[1., 2.]]), array([[0.1]]))
"""

from __future__ import annotations

import numpy as np

from pesn._support.types import FloatArray
from pesn.readout.groups import Groups
from pesn.readout.ridge import Readout
from pesn.readout.rls import RLSState, rls_start, rls_update

__all__ = ["effective_rows", "start_empty", "start_from_batch", "update"]


def start_empty(n_features: int, n_targets: int, delta: float, groups: Groups | None = None) -> tuple[Readout, RLSState]:
    """A readout that has learnt nothing: no weights, P = ``delta`` · I, and R = I until the first row shows an error."""
    if groups is None:
        rls = rls_start((n_features, n_targets, delta))
        return Readout(rls.weights, np.eye(n_targets), rls.root, 0), rls
    _check_shared(groups)
    rls = rls_start((groups.n_features, groups.n_outputs, delta))
    return Readout(np.zeros((n_targets, n_features)), np.eye(n_targets), rls.root, 0, groups), rls


def start_from_batch(readout: Readout, delta: float | None) -> tuple[Readout, RLSState]:
    """From a batch solution: with its own precision, or with the paper's P = ``delta`` · I."""
    _check_shared(readout.groups)
    own = readout.own[0]
    m, p = own.weights.shape
    return readout, rls_start(own) if delta is None else rls_start((p, m, delta), weights=own.weights)


def _check_shared(groups: Groups | None) -> None:
    if groups is not None and not groups.shared:
        raise ValueError("local must have shared=True to learn row by row, got shared=False")


def update(
    readout: Readout, rls: RLSState, features: FloatArray, targets: FloatArray, forgetting: float
) -> tuple[FloatArray, Readout, RLSState]:
    """Predict each row, then learn from it: predictions made *before* each update, and what was learnt.

    R becomes the mean square of these predictions' errors under the same forgetting, R ← Σ λ^(n−k) e_k e_kᵀ / Σ λ^(n−k), with
    the batch's R for the rows of the batch. The errors hold the leverage of their rows too: R errs to the large side.
    """
    if readout.groups is not None:
        return _update_groups(readout, rls, features, targets, forgetting)
    predictions, rls = rls_update(rls, features, targets, forgetting)
    R, n = _residual_cov(readout, targets - predictions, forgetting), readout.n_samples + len(features)
    return predictions, Readout(rls.weights, R, rls.root, n), rls


def _update_groups(
    readout: Readout, rls: RLSState, features: FloatArray, targets: FloatArray, forgetting: float
) -> tuple[FloatArray, Readout, RLSState]:
    """The same where groups share their weights: all of a row are predicted before any of it is learnt from.

    What a row forgets is shared out among its groups, λ^(1/G) each.
    """
    groups = readout.groups
    assert groups is not None
    predictions, each = np.empty(targets.shape), forgetting ** (1.0 / groups.n_groups)
    for k in range(len(features)):
        b, y = groups.features(features[k]), groups.targets(targets[k])
        predictions[k, groups.outputs] = b @ rls.weights.T
        _, rls = rls_update(rls, b, y, each)
    wrong = (targets - predictions)[:, groups.outputs].reshape(-1, groups.n_outputs)
    R = groups.expand_cov(_residual_cov(readout.own[0], wrong, each))
    weights, n = groups.expand(rls.weights, readout.weights.shape[1]), readout.n_samples + len(wrong)
    return predictions, Readout(weights, R, rls.root, n, groups), rls


def _residual_cov(readout: Readout, errors: FloatArray, forgetting: float) -> FloatArray:
    """R after rows of these errors (n, m)."""
    n, rows = len(errors), 1.0
    if n != 1:  # the newest row is whole
        fading = forgetting ** np.arange(n - 1, -1, -1, dtype=np.float64)
        errors, rows = errors * np.sqrt(fading)[:, None], fading.sum()
    before = forgetting**n * effective_rows(readout.n_samples, forgetting)
    total = before + rows
    return (before * readout.residual_cov + errors.T @ errors) / total if total > 0.0 else readout.residual_cov


def effective_rows(n_samples: int, forgetting: float) -> float:
    """Σ λ^k over k < n: what n rows, the newest whole and each older one faded once more, count for."""
    return float(n_samples) if forgetting == 1.0 else (1.0 - forgetting**n_samples) / (1.0 - forgetting)
