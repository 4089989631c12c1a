"""The paper's spline for other functions: how its error falls with the points of the mesh, and what bounded tails lack.

>>> kind("relu"), kind("gelu"), kind("sine")
('kinked', 'smooth', 'no tails')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import pesn
from pesn import activations
from pesn._support.types import Array
from pesn.paper.claims import Record, Verdict
from pesn.paper.items.error_time import order

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FUNCTIONS", "judge", "kind", "table"]

FUNCTIONS = ("tanh", "sigmoid", "swish", "erf", "gelu", "softplus", "relu", "leaky_relu", "hard_tanh", "elu", "sine")
_SMALL = 0.02  # the largest error of a mean that still counts as served


def kind(name: str) -> str:
    """ "smooth", "kinked", or "no tails": neither constant nor polynomial outside of an interval."""
    f = activations.get(name)
    return "no tails" if f.left is None or f.right is None else "kinked" if len(f.kinks) else "smooth"


def table(names: list[str], mean: Array, var: Array, ends: list[float], points: list[int]) -> pd.DataFrame:
    """The largest error of the mean over the inputs by function and points of the mesh, and its order in N.

    A function without tails is cut off at the ends: its errors are those of the integral from a to b, which is what the spline
    approaches.
    """
    import pandas as pd

    rows = []
    for name in names:
        exact = pesn.moments(name, mean, var, method="exact").mean
        row: Record = {"function": name, "kind": kind(name)}
        if row["kind"] == "no tails":
            errors = [float(np.max(np.abs(_cut_off(name, mean, var, ends) - exact)))] * len(points)
        else:
            meshes = [pesn.Mesh(ends[0], ends[1], n) for n in points]
            errors = [
                float(np.max(np.abs(pesn.moments(name, mean, var, method="spline-raw", mesh=mesh).mean - exact)))
                for mesh in meshes
            ]
        row |= {f"N = {n}": error for n, error in zip(points, errors, strict=True)}
        row["order"] = order(points, errors) if row["kind"] != "no tails" else 0.0
        rows.append(row)
    return pd.DataFrame(rows)


def _cut_off(name: str, mean: Array, var: Array, ends: list[float]) -> Array:
    """∫ f(z) N(z; mean, var) dz from one end to the other, by Gauss and Legendre on pieces of a length of 0.05."""
    x, w = np.polynomial.legendre.leggauss(8)
    edges = np.linspace(ends[0], ends[1], round((ends[1] - ends[0]) / 0.05) + 1)
    half = 0.5 * np.diff(edges)[:, None]
    z = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * x).ravel()
    f = (half * w).ravel() * activations.get(name).value(z)
    std = np.sqrt(var)[:, None]
    return np.asarray(np.exp(-0.5 * ((z - mean[:, None]) / std) ** 2) @ f / (std[:, 0] * np.sqrt(2.0 * np.pi)))


def judge(errors: pd.DataFrame) -> Verdict:
    """Holds if every function is served: the error at the finest mesh at most 0.02, less than at the coarsest.

    Corrected if only those with tails are.
    """
    points = [column for column in errors.columns if column.startswith("N = ")]
    served = (errors[points[-1]] <= _SMALL) & ((errors[points[-1]] < errors[points[0]]) | (errors[points[-1]] < 1e-5))
    tailed = errors["kind"] != "no tails"
    parts = []
    for which in ("smooth", "kinked"):
        some = errors[errors["kind"] == which]
        if len(some):
            parts.append(
                f"{which} ones ({', '.join(some['function'])}) err by at most {some[points[0]].max():.0e} with {points[0][4:]} "
                f"points and {some[points[-1]].max():.0e} with {points[-1][4:]}"
            )
    reason = f"Largest error of the mean: {'; '.join(parts)}. "
    for _, row in errors[~tailed].iterrows():
        reason += (
            f"Bounded tails are not enough: {row['function']} is bounded, but no constant or polynomial stands for it outside of "
            f"the mesh, and what is cut off there is an error of up to {row[points[-1]]:.2g}, whatever the mesh. "
        )
    if served.all():
        verdict = "holds"
    elif served[tailed].all():
        verdict = "corrected"
        reason += "The tails must be known in closed form. "
    else:
        verdict = "does not hold"
    if (errors["kind"] == "kinked").any():
        reason += "A kink, and no fourth derivative, costs the fast convergence: the bound does not apply."
    return Verdict("any-function", verdict, reason.strip())  # type: ignore[arg-type]
