"""Uncertainty through tanh networks and reservoirs in closed form: a Gaussian goes in, a Gaussian comes out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pesn import activations
from pesn.activations import Activation
from pesn.gaussian import Gaussian
from pesn.moments import Mesh, Moments, gain, moments
from pesn.moments.bounds import choose_mesh, error_bound
from pesn.networks.layers import Dense

if TYPE_CHECKING:
    from pesn import diagnostics
    from pesn.esn.classifier import ReservoirClassifier
    from pesn.esn.network import EchoStateNetwork
    from pesn.esn.probabilistic import ProbabilisticESN
    from pesn.forecasting.forecast import Forecast
    from pesn.forecasting.forecaster import Forecaster
    from pesn.networks.propagate import propagate
    from pesn.persistence import load
    from pesn.readout.features import Features
    from pesn.readout.groups import Patches
    from pesn.reservoir.weights import Layer
    from pesn.series.forecaster import SeriesForecaster

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "Dense",
    "EchoStateNetwork",
    "Features",
    "Forecast",
    "Forecaster",
    "Gaussian",
    "Layer",
    "Mesh",
    "Moments",
    "Patches",
    "ProbabilisticESN",
    "ReservoirClassifier",
    "SeriesForecaster",
    "activations",
    "choose_mesh",
    "diagnostics",
    "error_bound",
    "gain",
    "load",
    "moments",
    "propagate",
]

# What brings scikit-learn, scipy.stats or numba is imported when it is first asked for: `import pesn` stays quick.
_LATER = {
    "EchoStateNetwork": "esn.network",
    "diagnostics": "diagnostics",
    "Features": "readout.features",
    "Forecast": "forecasting.forecast",
    "Forecaster": "forecasting.forecaster",
    "Layer": "reservoir.weights",
    "Patches": "readout.groups",
    "ProbabilisticESN": "esn.probabilistic",
    "ReservoirClassifier": "esn.classifier",
    "SeriesForecaster": "series.forecaster",
    "load": "persistence",
    "propagate": "networks.propagate",
}


if not TYPE_CHECKING:  # a checker that saw it would take any name

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module 'pesn' has no attribute {name!r}")
        module = import_module(f"pesn.{_LATER[name]}")
        value = globals()[name] = module if _LATER[name] == name else getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})  # and not what this file needs itself
