"""What the paper prints and what is right, in plain words; each was checked by computing it, but for what calls itself a guess.

>>> [erratum.number for erratum in ERRATA] == list(range(1, 25))
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
        "It is 4.086e-4. How the printed number came about is a guess: with the place of the largest fourth derivative of tanh, "
        "0.42132, where its value belongs, 4.0859, the formula gives 4.21316e-5, which is the printed number to five digits, "
        "not to the six that are printed.",
    ),
    Erratum(
        10,
        "Numerical analysis, and the conclusions",
        "The analytic method over-estimates the variance.",
        "How often it does depends on the inputs. Of variances from 1e-4 to 100 it does so on 52 % of the grid of means from "
        "−5 to 5, on 18 % with means from −2 to 2, on 69 % with means from −10 to 10; on the rest it under-estimates. It turns "
        "negative on 12.0 % of the first grid.",
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
        "The signs of the exponents are reversed: (2π)^(−n/2) |Σ|^(−1/2). Where it is printed first, a stray u stands before the "
        "second.",
    ),
    Erratum(
        14,
        "Supplement, targets of the AR.Drone",
        "The targets list the velocity ẋ twice and ż not at all.",
        "They are [ẋ, ẏ, ż, φ̇, θ̇, ψ̇].",
    ),
    Erratum(
        15,
        "Table 3, the entropies",
        "Its caption speaks of absolute errors: it is the washout table's.",
        "The table holds Shannon entropies of the reservoir's values during washout.",
    ),
    Erratum(
        16,
        "The spline's mesh",
        "N nodes run from z_0 = a to z_N = b.",
        "These are N + 1 nodes: N nodes make N − 1 intervals. So the loop of Algorithm 1 ends one interval too late as well.",
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
    Erratum(
        19,
        "Algorithm 3, line 8",
        "The output weights are updated inside the loop of a multi-step prediction.",
        "The update needs the true outputs of the steps that are being forecast: it looks at the future. A forecast can use the "
        "weights as they are at its origin.",
    ),
    Erratum(
        20,
        "The variance by splines, before the algorithm, and again in the supplement",
        "The squared mean has two minus signs before it, one at the end of a line and one at the start of the next.",
        "It is subtracted once: 1 − E[1 − tanh²] − (E tanh)².",
    ),
    Erratum(
        21,
        "Algorithm 1, line 6",
        "A₂ − A₁² is formed in every interval, inside the loop.",
        "The loop adds up A₁ and A₂; the difference is formed once, after it. A sum of the differences of the pieces is not the "
        "variance: for mean 0.5 and variance 0.2 it is 0.244 instead of 0.110.",
    ),
    Erratum(
        22,
        "Error bounds, the approximation and its tails",
        "The right tail is the interval (b, −∞).",
        "It is (b, ∞).",
    ),
    Erratum(
        23,
        "The moments of the logistic variable, in the paper and the supplement",
        "Var(z | z) = π²/12 I.",
        "It is the variance of x: Var(x | z) = π²/12 I.",
    ),
    Erratum(
        24,
        "Supplement, the integral of z²",
        "The first term has 2 over “/sqrt” π in its bracket, which closes one parenthesis too few.",
        "The bracket is erf β − erf α + (2/√π) (α exp(−α²) − β exp(−β²)).",
    ),
)
