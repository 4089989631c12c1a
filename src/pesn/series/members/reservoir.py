"""The reservoirs of the stack: small, drawn from fixed seeds, half of their units slow."""

from __future__ import annotations

from functools import cache

import numpy as np

from pesn.series.members.autoregression import Units

__all__ = ["SEEDS", "SIZE", "drawn"]

SEEDS = (0, 1, 2)
SIZE = 50
HEARD = 5  # units that each hears
RADIUS = 1.1
LEAKS = (0.4, 1.0)


@cache
def drawn(seed: int) -> Units:
    """Reservoir number ``seed``: the same on every machine."""
    rng = np.random.default_rng([19, seed])
    columns = np.argsort(rng.random((SIZE, SIZE)), axis=1)[:, :HEARD]
    weights = rng.normal(size=(SIZE, HEARD))
    matrix = np.zeros((SIZE, SIZE))
    np.put_along_axis(matrix, columns, weights, axis=1)
    weights *= RADIUS / float(np.abs(np.linalg.eigvals(matrix)).max())
    inputs = rng.uniform(-1.0, 1.0, size=(SIZE, 3)) * np.array([0.5, 0.7, 0.7])
    return Units(inputs, columns.astype(np.uint64), weights, np.resize(LEAKS, SIZE).astype(float))
