"""Uncertainty through tanh networks and reservoirs in closed form: a Gaussian goes in, a Gaussian comes out."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pesn import activations as activations
    from pesn import datasets as datasets
    from pesn import diagnostics as diagnostics
    from pesn import metrics as metrics
    from pesn import networks as networks
    from pesn import planning as planning
    from pesn import plotting as plotting
    from pesn import systems as systems
    from pesn.activations import Activation
    from pesn.esn.classifier import ReservoirClassifier
    from pesn.esn.network import EchoStateNetwork
    from pesn.esn.probabilistic import ProbabilisticESN
    from pesn.forecasting.forecast import Forecast
    from pesn.forecasting.forecaster import Forecaster
    from pesn.gaussian import Gaussian
    from pesn.moments import Mesh, Moments, gain, moments
    from pesn.moments.bounds import choose_mesh, error_bound
    from pesn.networks.layers import Dense
    from pesn.networks.propagate import propagate
    from pesn.persistence import load
    from pesn.readout.features import Features
    from pesn.readout.groups import Patches
    from pesn.reservoir.weights import Layer
    from pesn.series.forecaster import SeriesForecaster

__version__ = "0.1.0"  # the only place of the version: pyproject.toml reads it

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
    "datasets",
    "diagnostics",
    "error_bound",
    "gain",
    "load",
    "moments",
    "propagate",
]

# Names are imported when they are first used: `import pesn` and `pesn --help` stay quick.
_MODULES = {
    "Activation": "activations",
    "Dense": "networks.layers",
    "EchoStateNetwork": "esn.network",
    "Features": "readout.features",
    "Forecast": "forecasting.forecast",
    "Forecaster": "forecasting.forecaster",
    "Gaussian": "gaussian",
    "Layer": "reservoir.weights",
    "Mesh": "moments",
    "Moments": "moments",
    "Patches": "readout.groups",
    "ProbabilisticESN": "esn.probabilistic",
    "ReservoirClassifier": "esn.classifier",
    "SeriesForecaster": "series.forecaster",
    "choose_mesh": "moments.bounds",
    "error_bound": "moments.bounds",
    "gain": "moments",
    "load": "persistence",
    "propagate": "networks.propagate",
    **{
        name: name
        for name in ("activations", "datasets", "diagnostics", "metrics", "networks", "planning", "plotting", "systems")
    },
}


if not TYPE_CHECKING:  # a checker would accept any name

    class _Package(ModuleType):
        """This package. Its name ``moments`` is the function, which the import system would replace by the subpackage."""

        @property
        def moments(self) -> Any:
            return import_module("pesn.moments").moments

        @moments.setter
        def moments(self, package: ModuleType) -> None:
            pass

    sys.modules[__name__].__class__ = _Package

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'pesn' has no attribute {name!r}")
        module = import_module(f"pesn.{_MODULES[name]}")
        value = globals()[name] = module if _MODULES[name] == name else getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
