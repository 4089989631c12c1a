"""The paper's claims, in its own order; each is judged by an item, what it says of both robots by two."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CLAIMS", "Claim"]


class Claim(NamedTuple):
    """A claim in plain words, and the items that judge it."""

    text: str
    items: tuple[str, ...]


_ROBOTS = ("cart-pole", "ardrone")

CLAIMS: dict[str, Claim] = {
    "spline-beats-analytic": Claim("The spline method is more accurate than the analytic one.", ("moments-grid",)),
    "error-drops-in-saturation": Claim("The error drops as the input saturates.", ("moments",)),
    "analytic-overestimates": Claim("The analytic method over-estimates the variance.", ("moments-grid",)),
    "any-function": Claim(
        "The spline method serves any continuous f whose tails are bounded, or polynomial outside of a compact set.",
        ("higher-moments",),
    ),
    "linear-in-d": Claim("All three methods are linear in the number of units D.", ("complexity",)),
    "linear-in-n": Claim("The spline method takes O(N D) for N points of the mesh: it is linear in N.", ("complexity",)),
    "analytic-fastest": Claim("The analytic method is the fastest.", ("error-time",)),
    "analytic-constant-spline-converges": Claim(
        "The analytic method is constant in time with a high error; the spline converges quickly.", ("error-time",)
    ),
    "bound-is-a-bound": Claim(
        "The error of the spline's mean and variance is at most the bound that the mesh and the input give.", ("error-bound",)
    ),
    "printed-bound": Claim("The printed error bound of the example is 4.213e-5.", ("error-bound",)),
    "higher-moments-small-variance": Claim(
        "Skewness and kurtosis err where the variance is below 10e-6, as printed.", ("higher-moments",)
    ),
    "shallow-delta": Claim(
        "Shallow network: the output is close to a delta; the spline recovers it, the analytic method over-estimates.",
        ("feedforward",),
    ),
    "deep-recovered": Claim("Deep network: both methods recover the output; the spline errs less.", ("feedforward",)),
    "washout-wins": Claim("The PESN beats the Monte Carlo ESN in mean error for most washout lengths.", ("washout",)),
    "washout-small-losses": Claim("Where the PESN loses to the Monte Carlo ESN, the margin is small.", ("washout",)),
    "entropy-lower": Claim("The entropy of the PESN's states is lower at every washout length.", ("entropy",)),
    "echo-state-sooner": Claim("The PESN reduces the time to reach the echo state property.", ("entropy",)),
    "cross-terms-underestimate": Claim("Ignoring cross terms underestimates the uncertainty.", _ROBOTS),
    "single-step": Claim("Single-step prediction captures mean and variance almost perfectly.", _ROBOTS),
    "multi-step-mean": Claim(
        "The multi-step mean leaves Monte Carlo after 4 to 5 steps, while the variance grows alike.", _ROBOTS
    ),
    "twenty-steps": Claim("Uncertainty is propagated for up to 20 steps.", _ROBOTS),
    "needs-updating": Claim("Multi-step prediction depends heavily on updating the weights.", _ROBOTS),
    "same-weights": Claim(
        "Monte Carlo and the PESN share the same weights, and so the PESN propagates uncertainty as Monte Carlo does.",
        ("cart-pole",),
    ),
    "higher-dimensions": Claim(
        "The method scales to systems of higher dimension, the AR.Drone, and still propagates uncertainty effectively.",
        ("ardrone",),
    ),
    "scale-to-mesh": Claim("Inputs must be scaled to fit the mesh [a, b].", ("error-bound",)),
}
