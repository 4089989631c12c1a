"""Uncertainty through tanh networks and reservoirs in closed form: a Gaussian goes in, a Gaussian comes out."""

from pesn import activations
from pesn.activations import Activation
from pesn.gaussian import Gaussian
from pesn.moments import Moments, gain, moments
from pesn.moments.bounds import ErrorBound, choose_mesh, error_bound
from pesn.moments.spline import Mesh
from pesn.network import Dense, propagate

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "Dense",
    "ErrorBound",
    "Gaussian",
    "Mesh",
    "Moments",
    "activations",
    "choose_mesh",
    "error_bound",
    "gain",
    "moments",
    "propagate",
]
