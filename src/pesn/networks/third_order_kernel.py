"""What third cumulants make of the correlations of a layer's outputs, compiled: Edgeworth's two series in ρ, pair by pair."""

from __future__ import annotations

import math

import numpy as np

from pesn._support.jit import jit
from pesn._support.types import Array

__all__ = ["correlations"]


@jit(fastmath={"contract", "nsz"})
def correlations(c: Array, rho: Array, iij: Array, iii: Array, shift: Array, var: Array, cov: Array, out: Array) -> None:
    """(cov + half + halfᵀ − Δμ Δμᵀ)/√(var varᵀ) within ±1, half = (κ_iii A + 3 κ_iij B)/6, of a batch; c is (n, N, D).

    A = Σ_{n≥1} ρⁿ √((n+1)(n+2)(n+3)) c_{n+3}(i) c_n(j) and B = Σ_{n≥0} ρⁿ √((n+1)(n+2)) c_{n+2}(i) √(n+1) c_{n+1}(j) by Horner.
    """
    batch, orders, size = c.shape[0], c.shape[1] - 3, c.shape[2]
    scale, both, alone = np.empty(size), np.empty(size), np.empty(size)
    for b in range(batch):
        for i in range(size):
            scale[i] = 1.0 / math.sqrt(var[b, i]) if var[b, i] > 0.0 else 0.0
        for i in range(size):
            at, mixed = rho[b, i], iij[b, i]
            both[:], alone[:] = 0.0, 0.0
            for n in range(orders - 1, -1, -1):
                factor, others = math.sqrt((n + 1.0) * (n + 2.0) * (n + 1.0)) * c[b, n + 1, i], c[b, n]
                for j in range(size):
                    both[j] = both[j] * at[j] + factor * others[j]
                if n > 0:
                    factor, others = math.sqrt((n + 1.0) * (n + 2.0) * (n + 3.0)) * c[b, n + 2, i], c[b, n - 1]
                    for j in range(size):
                        alone[j] = alone[j] * at[j] + factor * others[j]
            for j in range(size):
                out[b, i, j] = (iii[b, i] * at[j] * alone[j] + 3.0 * mixed[j] * both[j]) / 6.0
        for i in range(size):
            for j in range(i + 1, size):
                value = cov[b, i, j] + out[b, i, j] + out[b, j, i] - shift[b, i] * shift[b, j]
                value = min(
                    max(value * scale[i] * scale[j], -1.0), 1.0
                )  # one after the other: of dead units the product overflows
                out[b, i, j] = value
                out[b, j, i] = value
            out[b, i, i] = 1.0
