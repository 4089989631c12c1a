"""Which types a file may name: models, their records, numbers and texts. All others are refused before anything is built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pesn.esn.classifier import ReservoirClassifier
from pesn.esn.network import EchoStateNetwork
from pesn.esn.probabilistic import ProbabilisticESN
from pesn.forecasting.dataset import Scale
from pesn.forecasting.design import Candidate, Design
from pesn.forecasting.forecaster import Forecaster
from pesn.forecasting.time_index import TimeIndex
from pesn.moments.spline import Mesh
from pesn.persistence.archive import RefusedError
from pesn.readout.classification import LogitReadout
from pesn.readout.features import Features
from pesn.readout.groups import Groups
from pesn.readout.patches import Patches
from pesn.readout.ridge import Readout
from pesn.readout.rls import RLSState
from pesn.reservoir.closed_loop import ErrorModel
from pesn.reservoir.drive import State
from pesn.reservoir.generators import CycleJumps, DelayLine, ErdosRenyi, Orthogonal, Random, Ring, SmallWorld
from pesn.reservoir.initial_state import Start
from pesn.reservoir.layers import Layer
from pesn.reservoir.local import LocalStart
from pesn.reservoir.plasticity import Plasticity
from pesn.reservoir.synaptic_plasticity import SynapticPlasticity
from pesn.reservoir.weights import Reservoir
from pesn.statespace import Dense, Diagonal, Draws, Ensemble, LowRank

__all__ = ["MODELS", "RECORDS", "audit", "nodes", "path_of", "type_of"]

MODELS: tuple[type, ...] = (EchoStateNetwork, ProbabilisticESN, ReservoirClassifier, Forecaster)
RECORDS: tuple[type, ...] = (
    Candidate, CycleJumps, DelayLine, Dense, Design, Diagonal, Draws, Ensemble, ErdosRenyi, ErrorModel, Features, Groups, Layer,
    LocalStart, LogitReadout, LowRank, Mesh, Orthogonal, Patches, Plasticity, Random, Readout, Reservoir, Ring, RLSState, Scale,
    SmallWorld, Start, State, SynapticPlasticity, TimeIndex,
)  # fmt: skip
_PLAIN = {f"builtins.{name}" for name in ("bool", "dict", "float", "int", "list", "str", "tuple")} | {
    f"numpy.{name}" for name in ("bool", "float32", "float64", "int32", "int64", "ndarray", "random.mtrand.RandomState")
}
_LOADERS = {"DictNode", "JsonNode", "ListNode", "NdArrayNode", "ObjectNode", "RandomStateNode", "TupleNode", "TypeNode"}


def path_of(kind: type) -> str:
    """The name by which a file calls a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


_ALLOWED = {"model": {path_of(kind) for kind in MODELS}, "part": {path_of(kind) for kind in (*MODELS, *RECORDS)} | _PLAIN}


def audit(schema: Any) -> None:
    """Refuse every type, and every way of building one, that pesn's own models do not need."""
    if type_of(schema) not in _ALLOWED["model"]:
        raise RefusedError(f"holds {type_of(schema)}, which is not a model of pesn")
    for node in nodes(schema):
        if node["__loader__"] not in _LOADERS or type_of(node) not in _ALLOWED["part"]:
            raise RefusedError(f"holds {type_of(node)}, which is not part of a model of pesn")


def type_of(node: dict[str, Any]) -> str:
    """The class that a node of skops' schema names."""
    return f"{node['__module__']}.{node['__class__']}"


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All nodes of skops' schema that name a class or a way to build one."""
    if isinstance(tree, dict):
        if "__class__" in tree or "__loader__" in tree:
            yield tree
        for value in tree.values():
            yield from nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from nodes(value)
