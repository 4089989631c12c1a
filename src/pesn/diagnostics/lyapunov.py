"""How fast small changes of the state grow: conditional exponents of a driven reservoir, free ones of a closed loop.

Benettin's method: directions are moved by the derivative of each step, in closed form, and made orthonormal again (QR);
the logarithms of what that divides them by, averaged over the steps, are the exponents (Eckmann and Ruelle, Rev. Mod. Phys. 57,
1985).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pesn._support.arguments import generator, number, whole_number
from pesn._support.types import Array, Rng
from pesn.diagnostics.driven import labelled
from pesn.diagnostics.loops import Loop, loop_of
from pesn.plotting import COLOURS
from pesn.statespace import tangent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW = 10  # exponents of a driven reservoir, where none are asked for
_BLOCKS = 10  # of steps, whose averages say how far the whole average may be off


@dataclass(frozen=True, eq=False)
class LyapunovExponents:
    """Rates at which small changes grow, to base e.

    Parameters
    ----------
    exponents
        (k,), the largest first, a unit of time.
    growth
        (T, k): what each step has added, a unit of time; the exponents are its mean.
    dt
        Time of a step.
    conditional
        Whether an input drives the reservoir; else the loop runs free.
    """

    exponents: Array
    growth: Array = field(repr=False)
    dt: float
    conditional: bool

    @property
    def largest(self) -> float:
        """The first: of a driven reservoir it is below 0 where the echo state property holds, of a free loop above in chaos."""
        return float(self.exponents[0])

    @property
    def standard_errors(self) -> Array:
        """(k,): how far each may be off since the path is finite, by the averages of ten parts of it."""
        parts = np.array_split(self.growth, min(_BLOCKS, len(self.growth)))
        return np.std([part.mean(axis=0) for part in parts], axis=0) / np.sqrt(max(len(parts) - 1, 1))

    @property
    def dimension(self) -> float:
        """Kaplan and Yorke's dimension of the attractor; NaN where that takes more exponents than there are."""
        sums = np.cumsum(self.exponents)
        if self.exponents[0] < 0.0:
            return 0.0
        if (sums >= 0.0).all():
            return float("nan")
        whole = int(np.argmax(sums < 0.0))
        return float(whole + sums[whole - 1] / -self.exponents[whole])

    def plot(self, ax: Axes | None = None) -> Axes:
        """How each exponent settles: its average up to each step.

        Parameters
        ----------
        ax
            Where to draw; None: in axes of its own.

        Returns
        -------
        Axes
        """
        ax = labelled(ax, "steps" if self.dt == 1.0 else "time", ("conditional" if self.conditional else "free") + " exponent")
        steps = np.arange(1, len(self.growth) + 1)
        running = np.cumsum(self.growth, axis=0) / steps[:, None]
        shown = slice(min(20, len(steps) // 10), None)  # the first averages are of few steps
        for k, value in enumerate(self.exponents):
            label = f"{value:.3g}" if len(self.exponents) <= 6 else None
            ax.plot(steps[shown] * self.dt, running[shown, k], color=COLOURS[k % len(COLOURS)], linewidth=1.0, label=label)
        ax.axhline(0.0, color="0.5", linewidth=0.8, linestyle=":")
        if len(self.exponents) <= 6:
            ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return ax


def lyapunov_exponents(
    network: Any,
    X: Any = None,
    *,
    n_exponents: int | None = None,
    n_steps: int = 10_000,
    washout: int = 100,
    dt: float = 1.0,
    rng: Rng = None,
) -> LyapunovExponents:
    """The Lyapunov exponents of a reservoir that X drives, or of a network that runs on its own.

    Conditional exponents say how fast two states that see the same input come together: the largest is below 0 where the input
    rules the state (echo states), and −1/largest steps is how long it remembers. Free exponents are those of the learnt dynamics:
    of a network whose outputs are its next inputs, or that feeds them back, or of a forecaster's loop. Where it has learnt a
    system, the leading ones are the system's; those of the units' own memory come beside them.

    Parameters
    ----------
    network
        A network, fitted or not, a fitted forecaster, or a :class:`pesn.reservoir.weights.Reservoir`.
    X
        Inputs (T, d) that drive it, from the zero state; with feedback, the outputs of a fitted network are fed back. None: it
        runs free, from the last row that it has learnt from. Of a forecaster X is what is known ahead, (T, u).
    n_exponents
        How many, the largest first; None: as many as outputs of a free network, ten of a driven one.
    n_steps
        Steps of a free run.
    washout
        Steps before those that are averaged over.
    dt
        Time of a step: exponents are a unit of time.
    rng
        Seed of the first directions.

    Returns
    -------
    LyapunovExponents

    Examples
    --------
    >>> import numpy as np, pesn
    >>> logistic = [0.3]
    >>> for _ in range(500):
    ...     logistic.append(4.0 * logistic[-1] * (1.0 - logistic[-1]))
    >>> y = np.array(logistic)[:, None]
    >>> squares = pesn.Features(products=1, states=False)
    >>> learnt = pesn.EchoStateNetwork(features=squares, ridge=0.0).fit(y[:-1], y[1:])
    >>> bool(abs(lyapunov_exponents(learnt, n_steps=2000, rng=0).largest - np.log(2.0)) < 0.02)
    True
    """
    whole_number("n_steps", n_steps, 1)
    whole_number("washout", washout, 0)
    number("dt", dt, 0.0, np.inf, "()")
    if n_exponents is not None:
        whole_number("n_exponents", n_exponents, 1)
    loop = loop_of(network, X, int(washout) + int(n_steps))
    if len(loop.inputs) <= washout:
        raise ValueError(f"washout must be smaller than the number of rows of X, got washout={washout} and {len(loop.inputs)}")
    most = len(loop.entries)
    count = (min(_FEW, most) if loop.conditional else loop.n_outputs) if n_exponents is None else int(n_exponents)
    if count > most:
        raise ValueError(f"n_exponents must be at most the {most} numbers of the state, got {n_exponents}")
    growth = _growth(loop, count, generator(rng))[int(washout) :] / float(dt)
    means = growth.mean(axis=0)
    order = np.argsort(-means, kind="stable")
    return LyapunovExponents(means[order], growth[:, order], float(dt), loop.conditional)


def _growth(loop: Loop, count: int, rng: np.random.Generator) -> Array:
    """Logarithms (T, k) of how much longer each step makes each of k orthonormal directions."""
    x = loop.start.copy()
    directions = np.zeros((len(x), count))
    directions[loop.entries] = np.linalg.qr(rng.standard_normal((len(loop.entries), count)))[0]
    growth, least = np.empty((len(loop.inputs), count)), np.finfo(float).tiny
    for t, row in enumerate(loop.inputs):
        x[loop.rows], directions[loop.rows] = row, 0.0  # inputs are given
        for cell in loop.cells:
            directions = tangent(cell, x, directions)
            x = cell(x)
        if loop.K is not None:
            p = len(loop.K)
            x[:p], directions[:p] = loop.K @ x + loop.k, loop.K @ directions
            loop.check(x, t)
        directions, R = np.linalg.qr(directions)
        growth[t] = np.log(np.maximum(np.abs(np.diagonal(R)), least))
    return growth
