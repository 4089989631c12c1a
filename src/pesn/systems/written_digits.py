"""Digits as a pen writes them, drawn here and read as sequences: a stand-in for sequential MNIST that needs no download.

A digit is a few strokes, curves through points that shake a little. It is turned, slanted, stretched and moved, drawn with a pen
of some width, and read pixel by pixel or row by row.

>>> X, y, lengths = written_digits(3, read="rows", rng=0)
>>> X.shape, y.shape, lengths
((84, 28), (3,), (28, 28, 28))
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.interpolate import CubicSpline

from pesn._support.arguments import as_real
from pesn._support.checks import number, whole_number
from pesn._support.types import Array
from pesn.systems.sequences import LabelledSequences
from pesn.systems.stepping import Seed, generators

__all__ = ["written_digits"]

Stroke = tuple[tuple[float, float], ...]  # points (x to the right, y down) in a square of side 1; corners begin a new stroke

# The ways in which each digit is written.
_WAYS: dict[int, tuple[tuple[Stroke, ...], ...]] = {
    0: (
        (
            (
                (0.55, 0.03),
                (0.25, 0.2),
                (0.18, 0.5),
                (0.28, 0.82),
                (0.5, 0.97),
                (0.75, 0.8),
                (0.82, 0.5),
                (0.74, 0.2),
                (0.5, 0.03),
            ),
        ),
        (
            (
                (0.52, 0.03),
                (0.33, 0.2),
                (0.28, 0.5),
                (0.34, 0.82),
                (0.5, 0.97),
                (0.67, 0.8),
                (0.72, 0.5),
                (0.67, 0.2),
                (0.5, 0.03),
            ),
        ),
    ),
    1: (
        (((0.55, 0.02), (0.48, 0.98)),),
        (((0.3, 0.25), (0.55, 0.02)), ((0.55, 0.02), (0.52, 0.98))),
        (((0.3, 0.25), (0.52, 0.02)), ((0.52, 0.02), (0.52, 0.97)), ((0.28, 0.97), (0.76, 0.97))),
    ),
    2: (
        (
            ((0.22, 0.25), (0.35, 0.07), (0.6, 0.04), (0.76, 0.22), (0.68, 0.45), (0.45, 0.72), (0.2, 0.95)),
            ((0.2, 0.95), (0.82, 0.93)),
        ),
        (
            (
                (0.24, 0.2),
                (0.45, 0.03),
                (0.7, 0.15),
                (0.68, 0.42),
                (0.45, 0.75),
                (0.25, 0.95),
                (0.17, 0.86),
                (0.3, 0.78),
                (0.55, 0.92),
                (0.85, 0.92),
            ),
        ),
    ),
    3: (
        (
            ((0.22, 0.12), (0.5, 0.02), (0.74, 0.17), (0.66, 0.38), (0.42, 0.47)),
            ((0.42, 0.47), (0.7, 0.55), (0.8, 0.75), (0.6, 0.95), (0.35, 0.96), (0.18, 0.85)),
        ),
        (
            ((0.2, 0.05), (0.76, 0.05)),
            ((0.76, 0.05), (0.45, 0.42)),
            ((0.45, 0.42), (0.72, 0.52), (0.78, 0.75), (0.58, 0.95), (0.34, 0.96), (0.18, 0.86)),
        ),
    ),
    4: (
        (((0.58, 0.02), (0.15, 0.64)), ((0.15, 0.64), (0.86, 0.62)), ((0.66, 0.3), (0.6, 0.98))),
        (((0.28, 0.05), (0.2, 0.3), (0.22, 0.5)), ((0.22, 0.5), (0.78, 0.47)), ((0.75, 0.05), (0.7, 0.5), (0.64, 0.98))),
        (((0.64, 0.02), (0.15, 0.62)), ((0.15, 0.62), (0.86, 0.62)), ((0.64, 0.02), (0.64, 0.98))),
    ),
    5: (
        (
            ((0.76, 0.04), (0.3, 0.05)),
            ((0.3, 0.05), (0.26, 0.44)),
            ((0.26, 0.44), (0.5, 0.36), (0.75, 0.5), (0.78, 0.72), (0.6, 0.93), (0.35, 0.97), (0.18, 0.87)),
        ),
    ),
    6: (
        (
            (
                (0.66, 0.03),
                (0.42, 0.2),
                (0.25, 0.5),
                (0.24, 0.78),
                (0.42, 0.96),
                (0.68, 0.9),
                (0.76, 0.72),
                (0.62, 0.54),
                (0.42, 0.56),
                (0.27, 0.72),
            ),
        ),
        (
            (
                (0.5, 0.02),
                (0.32, 0.25),
                (0.24, 0.55),
                (0.28, 0.85),
                (0.5, 0.97),
                (0.72, 0.85),
                (0.72, 0.65),
                (0.5, 0.55),
                (0.28, 0.68),
            ),
        ),
    ),
    7: (
        (((0.18, 0.06), (0.8, 0.05)), ((0.8, 0.05), (0.6, 0.4), (0.42, 0.98))),
        (((0.18, 0.06), (0.8, 0.05)), ((0.8, 0.05), (0.58, 0.45), (0.42, 0.98)), ((0.34, 0.5), (0.74, 0.48))),
    ),
    8: (
        (
            (
                (0.72, 0.17),
                (0.5, 0.03),
                (0.28, 0.17),
                (0.36, 0.38),
                (0.6, 0.55),
                (0.76, 0.77),
                (0.52, 0.97),
                (0.24, 0.8),
                (0.36, 0.58),
                (0.62, 0.4),
                (0.72, 0.17),
            ),
        ),
    ),
    9: (
        (
            ((0.74, 0.22), (0.55, 0.04), (0.3, 0.14), (0.26, 0.35), (0.45, 0.5), (0.66, 0.4), (0.74, 0.2)),
            ((0.74, 0.2), (0.72, 0.55), (0.64, 0.98)),
        ),
        (
            ((0.74, 0.22), (0.55, 0.04), (0.3, 0.14), (0.26, 0.35), (0.45, 0.5), (0.66, 0.4), (0.74, 0.2)),
            ((0.74, 0.2), (0.76, 0.6), (0.62, 0.92), (0.4, 0.97), (0.24, 0.88)),
        ),
    ),
}
_SHAKE = 0.025  # deviation of a point of a stroke, in sides of the square


def written_digits(
    n: int,
    *,
    digits: npt.ArrayLike | None = None,
    read: str = "pixels",
    size: int = 28,
    distortion: float = 1.0,
    noise: float = 0.05,
    rng: Seed = None,
) -> LabelledSequences:
    """Digits written by hands that differ, on ``size`` × ``size`` pixels, read as sequences.

    Parameters
    ----------
    n
        Digits written, each by a generator of its own: more of them do not change the first ones.
    digits
        (n,): which, 0 to 9; None draws them.
    read
        "pixels": a pixel a row, line after line, (size², 1) a digit; "rows": a line a row, (size, size) a digit.
    size
        Pixels of a side, 8 or more.
    distortion
        How much hands differ, 0 for not at all: turns of 10°, slants of 0.2, sizes of 10 % and moves of 5 % of a side are one
        deviation at 1.
    noise
        Deviation of the noise on each pixel, of which 0 is paper and 1 is ink; both are bounds.
    rng
        What ``np.random.default_rng`` takes.

    Returns
    -------
    LabelledSequences
        ``X`` (rows, 1 or size), ``y`` (n,) from 0 to 9, ``lengths`` (n,).

    Examples
    --------
    >>> seven = written_digits(1, digits=[7], read="rows", size=8, noise=0.0, distortion=0.0, rng=0)
    >>> print("\\n".join("".join("-+#"[int(2.99 * ink)] for ink in row) for row in seven.X))
    --------
    --##+#--
    ----++--
    ---+#+--
    ---++---
    ---+----
    ---#----
    --------
    """
    whole_number("n", n, 1)
    whole_number("size", size, 8)
    if read not in ("pixels", "rows"):
        raise ValueError(f"read must be 'pixels' or 'rows', got {read!r}")
    number("distortion", distortion, 0.0, math.inf, "[)")
    number("noise", noise, 0.0, math.inf, "[)")
    n, size = int(n), int(size)
    given = None if digits is None else _checked(digits, n)
    drawn, y = np.empty((n, size, size)), np.empty(n, np.intp)
    for i, generator in enumerate(generators(rng, n)):
        y[i] = generator.integers(10)
        if given is not None:
            y[i] = given[i]
        points = _written(int(y[i]), float(distortion), 0.5 / size, generator)  # half a pixel apart
        drawn[i] = _ink(points, size, generator.uniform(0.03, 0.06))
        drawn[i] += noise * generator.standard_normal((size, size))
    np.clip(drawn, 0.0, 1.0, out=drawn)
    width = 1 if read == "pixels" else size
    return LabelledSequences(drawn.reshape(-1, width), y, (size * size // width,) * n)


def _checked(digits: npt.ArrayLike, n: int) -> Array:
    array = np.asarray(as_real("digits", digits), np.float64)
    if array.shape != (n,) or not np.isin(array, np.arange(10)).all():
        raise ValueError(f"digits must be {n} whole numbers from 0 to 9, got {digits!r}")
    return array


def _written(digit: int, distortion: float, spacing: float, rng: np.random.Generator) -> Array:
    """(points, 2): the digit's strokes, points ``spacing`` apart, in a square of side 1 whose middle is 0."""
    ways = _WAYS[digit]
    strokes = []
    for stroke in ways[rng.integers(len(ways))]:
        points = np.array(stroke) - 0.5
        points += distortion * _SHAKE * rng.standard_normal(points.shape)
        way = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
        strokes.append(CubicSpline(way, points, bc_type="natural")(np.linspace(0.0, way[-1], 2 + int(way[-1] / spacing))))
    turn, slant, move = 0.17 * rng.standard_normal(), 0.2 * rng.standard_normal(), 0.05 * rng.standard_normal(2)
    stretch = np.exp(distortion * 0.1 * rng.standard_normal(2))
    c, s = math.cos(distortion * turn), math.sin(distortion * turn)
    affine = np.array([[c, -s], [s, c]]) @ np.array([[1.0, distortion * slant], [0.0, 1.0]]) @ np.diag([0.75, 0.75] * stretch)
    return np.asarray(np.concatenate(strokes) @ affine.T + distortion * move, np.float64)


def _ink(points: Array, size: int, half_width: float) -> Array:
    """(size, size): 1 under the pen, 0 on paper, and a pixel's width of grey between them."""
    centres = (np.arange(size) + 0.5) / size - 0.5
    across = (centres[:, None] - points[:, 0]) ** 2
    down = (centres[:, None] - points[:, 1]) ** 2
    distance = np.sqrt((down[:, None] + across[None]).min(axis=2))
    return np.asarray(np.clip(0.5 + size * (half_width - distance), 0.0, 1.0), np.float64)
