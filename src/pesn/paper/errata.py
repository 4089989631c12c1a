"""What the paper prints and what is right, in plain words; each was checked by computing it.

>>> [erratum.number for erratum in ERRATA] == list(range(1, 19))
True
>>> print(ERRATA[10].right)
W is scaled by r divided by the largest modulus of its eigenvalues.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ERRATA", "Erratum"]


class Erratum(NamedTuple):
    """A misprint or a mistake: its number, where it stands, what is printed there, and what is right."""

    number: int
    where: str
    printed: str
    right: str


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        1,
        "Supplement, the integral of z²",
        "The middle term is √(2σ/π) (exp(−α²) − exp(−β²)).",
        "It lacks a factor μ: √(2σ/π) μ (exp(−α²) − exp(−β²)).",
    ),
    Erratum(
        2,
        "Supplement, the integral of z³",
        "The second term is 3σμ/√π times its bracket, with no sign before it.",
        "It is + 3σμ/(2√π) times the bracket: half as much, and added.",
    ),
    Erratum(
        3,
        "Supplement, kurtosis from raw moments",
        "The third term of the numerator is 6 A₂² A₁².",
        "It is 6 A₂ A₁².",
    ),
    Erratum(
        4,
        "Covariance of a sum of correlated vectors, and of the pre-activation",
        "The cross term is 2 W₁ Σ W₂ᵀ.",
        "It is X + Xᵀ with X = W₁ Σ W₂ᵀ: twice X is not symmetric, so it is no part of a covariance.",
    ),
    Erratum(
        5,
        "Covariance of the hidden state",
        "The noise adds M_e to every variance.",
        "It adds M_e², because M_e multiplies noise of variance 1.",
    ),
    Erratum(
        6,
        "The approximation behind the analytic variance",
        "A Gaussian density stands for (1 − tanh x)², and in the equation for 1 − tanh(y²).",
        "It stands for 1 − tanh²(y), the derivative of tanh.",
    ),
    Erratum(
        7,
        "Algorithm 1, the spline's coefficients",
        "Coefficients with alternating signs are used with powers of z.",
        "The alternating signs hold only for powers of (z_j − z).",
    ),
    Erratum(
        8,
        "The spline's expectation",
        "The integral ends at a and b; what lies outside is left out.",
        "The tails belong to it, in closed form: −1 and 1 for tanh. Without them a mean of 9.5 with variance 1 on the mesh "
        "[−10, 10] comes out as 0.69 instead of 1.00.",
    ),
    Erratum(
        9,
        "The example of the error bound",
        "The bound is 4.21321e-5 for mean 3, variance 0.2 and 101 nodes on [−10, 10].",
        "It is 4.086e-4: the place of the largest fourth derivative of tanh, 0.4213, was put where its value belongs, 4.0859.",
    ),
    Erratum(
        10,
        "Numerical analysis, and the conclusions",
        "The analytic method over-estimates the variance.",
        "It does so on 52 % of the grid of means from −5 to 5 and variances from 1e-4 to 100, and under-estimates "
        "on the rest, where it even turns negative on a tenth of the grid.",
    ),
    Erratum(
        11,
        "Algorithm 2, the spectral radius",
        "W is scaled by r divided by its largest eigenvalue.",
        "W is scaled by r divided by the largest modulus of its eigenvalues.",
    ),
    Erratum(
        12,
        "Probabilistic echo state networks",
        "Ignoring cross terms underestimates the uncertainty.",
        "Not in general: it may over-estimate it as well.",
    ),
    Erratum(
        13,
        "Supplement, derivation of the analytic mean",
        "The constant of the product of two Gaussians is (2π)^(n/2) |Σ|^(1/2).",
        "The signs of the exponents are reversed: (2π)^(−n/2) |Σ|^(−1/2).",
    ),
    Erratum(
        14,
        "Supplement, targets of the AR.Drone",
        "The targets list the velocity ẋ twice and ż not at all.",
        "They are [ẋ, ẏ, ż, φ̇, θ̇, ψ̇].",
    ),
    Erratum(
        15,
        "The entropy table",
        "Its caption speaks of absolute errors: it is the washout table's.",
        "The table holds Shannon entropies of the reservoir's values during washout.",
    ),
    Erratum(
        16,
        "The spline's mesh",
        "N nodes run from z_0 = a to z_N = b.",
        "These are N + 1 nodes: N nodes make N − 1 intervals.",
    ),
    Erratum(
        17,
        "The bound of the variance's error",
        "It is ε_1 + 2 ε_μ.",
        "It is ε_1 + ε_μ (2 |mean| + ε_μ). The printed one presumes means of at most 1 in size: it does not hold for swish, "
        "softplus or GELU.",
    ),
    Erratum(
        18,
        "Algorithm 2, the washout loop",
        "Only the mean of the hidden state is computed.",
        "The mean of tanh needs the covariance too, so both must be carried through the washout.",
    ),
)
