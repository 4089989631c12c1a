"""Save and load, on skops: a file holds numbers and names, and no code of it runs when it is read.

A saved file is skops' zip archive with one more member, ``pesn.json``: the format's version, pesn's version and a digest of
everything else. On top of skops' own audit, every type that a file names must stand in the list below: skops by itself would
also rebuild any estimator of scikit-learn.

>>> import os, tempfile, numpy as np, pesn
>>> from pesn.esn import EchoStateNetwork
>>> X = np.sin(np.arange(200.0))[:, None]
>>> esn = EchoStateNetwork(20, random_state=0).fit(X[:-1], X[1:])
>>> with tempfile.TemporaryDirectory() as folder:
...     esn.save(os.path.join(folder, "sine.pesn"))
...     again = load(os.path.join(folder, "sine.pesn"))
>>> np.array_equal(again.predict(X), esn.predict(X))
True
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from pesn.arguments import as_covariance, refuse_negative
from pesn.drawing import Reservoir, check
from pesn.readout import Readout
from pesn.reservoir import State
from pesn.rls import RLSState
from pesn.writing import replacing

__all__ = ["load", "save"]

FORMAT = 1  # raised when an older pesn could not read what is written
_MANIFEST, _SCHEMA = "pesn.json", "schema.json"
_MODELS = ("pesn.esn.EchoStateNetwork", "pesn.probabilistic_esn.ProbabilisticESN")
_RECORDS = (
    "pesn.moments.spline.Mesh",
    "pesn.readout.Readout",
    "pesn.drawing.Reservoir",
    "pesn.reservoir.State",
    "pesn.rls.RLSState",
)
_PLAIN = {f"builtins.{name}" for name in ("bool", "dict", "float", "int", "list", "str", "tuple")} | {
    f"numpy.{name}" for name in ("bool", "float32", "float64", "int32", "int64", "ndarray", "random.mtrand.RandomState")
}
_LOADERS = {"DictNode", "JsonNode", "ListNode", "NdArrayNode", "ObjectNode", "RandomStateNode", "TupleNode", "TypeNode"}


class _RefusedError(Exception):
    """Why a file or a model is refused, in words for the user."""


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write ``model`` to ``path``, whole or not at all: whatever happens, it is the old file or the new one. Its mode stays."""
    try:
        data = _archive(model)
    except _RefusedError as refusal:
        raise TypeError(f"this {type(model).__name__} cannot be saved: {refusal}") from None
    with replacing(path) as part:
        part.write_bytes(data)


def load(path: str | os.PathLike[str]) -> Any:
    """The estimator that ``.save(path)`` wrote; it predicts the same numbers to the bit.

    A file that is cut short, foreign, changed, or from a newer pesn is a ValueError. No code from a file ever runs.
    """
    name, data = os.fspath(path), Path(path).read_bytes()
    try:
        return _read(data)
    except _RefusedError as refusal:
        raise ValueError(f"{name} {refusal}") from None
    except Exception as error:
        # Whatever a file does to zipfile, json, numpy or skops, the user needs to know one thing.
        raise ValueError(f"{name} is damaged ({type(error).__name__}); save the model again") from None


def _archive(model: Any) -> bytes:
    try:
        data = import_module("skops.io").dumps(_plain(model))  # here, not above: it imports all of scikit-learn
    except Exception as error:
        raise _RefusedError(f"skops says {error}") from None
    buffer = io.BytesIO(data)
    with ZipFile(buffer, "a") as archive:
        _audit(json.loads(archive.read(_SCHEMA)))
        manifest = {
            "format": "pesn",
            "format_version": FORMAT,
            "pesn_version": version("pesn"),
            "sha256": _digest(archive),
        }
        archive.writestr(_MANIFEST, json.dumps(manifest))
    return buffer.getvalue()


def _plain(model: Any) -> Any:
    """The model with its NumPy scalars, as searches over arrays set them, as Python's own numbers."""
    scalars = {name: value.item() for name, value in vars(model).items() if isinstance(value, np.generic)}
    if scalars:
        model = copy.copy(model)
        vars(model).update(scalars)
    return model


def _read(data: bytes) -> Any:
    try:
        archive = ZipFile(io.BytesIO(data))
    except Exception:
        raise _RefusedError("is not a file saved by pesn, or it was cut short") from None
    with archive:
        if _MANIFEST not in archive.namelist():
            raise _RefusedError("is not a file saved by pesn")
        if any(member.compress_type != ZIP_STORED for member in archive.infolist()):
            raise _RefusedError("was changed after pesn saved it: its members are compressed")  # and might unpack to terabytes
        manifest = json.loads(archive.read(_MANIFEST))
        found = manifest["format_version"]
        if manifest["format"] != "pesn" or type(found) is not int or found < 1:
            raise _RefusedError("is not a file saved by pesn")
        if found > FORMAT:
            raise _RefusedError(
                f"was saved by pesn {manifest['pesn_version']} in format {found}; this is pesn {version('pesn')}, "
                f"which reads formats up to {FORMAT}; update pesn"
            )
        if _digest(archive) != manifest["sha256"]:
            raise _RefusedError("was changed after pesn saved it: its digest does not match")
        schema = json.loads(archive.read(_SCHEMA))
    _audit(schema)
    model = import_module("skops.io").loads(data, trusted=[*_MODELS, *_RECORDS])
    try:
        _check(model)
    except Exception as error:
        raise _RefusedError(f"is damaged: {error}") from None
    return model


def _digest(archive: ZipFile) -> str:
    digest = hashlib.sha256()
    for member in archive.infolist():
        if member.filename != _MANIFEST:
            digest.update(f"{member.filename}\0{member.file_size}\0".encode())
            digest.update(archive.read(member))
    return digest.hexdigest()


def _audit(schema: Any) -> None:
    """Refuse every type, and every way of building one, that pesn's own models do not need."""
    if _type_of(schema) not in _MODELS:
        raise _RefusedError(f"holds {_type_of(schema)}, which is not a model of pesn")
    for node in _nodes(schema):
        if node["__loader__"] not in _LOADERS or not (_type_of(node) in _PLAIN or _type_of(node) in (*_MODELS, *_RECORDS)):
            raise _RefusedError(f"holds {_type_of(node)}, which is not part of a model of pesn")


def _type_of(node: dict[str, Any]) -> str:
    return f"{node['__module__']}.{node['__class__']}"


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if "__class__" in tree or "__loader__" in tree:
            yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


_FITTED: dict[str, tuple[type, ...]] = {
    "reservoir_": (Reservoir,),
    "readout_": (Readout,),
    "state_": (State,),
    "rls_": (RLSState, type(None)),
    "n_features_in_": (int,),
    "n_outputs_": (int,),
    "_y_is_flat": (bool,),
    "_to_wash": (int,),
}
_PERHAPS: dict[str, tuple[type, ...]] = {
    "feature_names_in_": (np.ndarray,),
    "online_predictions_": (np.ndarray,),
    "_sklearn_output_config": (dict,),
}


def _check(model: Any) -> None:
    """A ValueError where anything is missing, foreign, or does not fit: what loads must work, and must not reach a kernel else.

    The kernels index without bounds checks: every array is looked at before the trial at the end.
    """
    found = set(vars(model))
    fitted = set(_FITTED) if found & set(_FITTED) else set()
    wanted = set(type(model)._get_param_names()) | fitted
    extra, missing = found - wanted - set(_PERHAPS), wanted - found
    if extra or missing:
        raise ValueError(f"its attributes are not those of a {type(model).__name__}: {', '.join(sorted(missing or extra))}")
    for name, types in (_FITTED | _PERHAPS).items():
        if name in found and type(getattr(model, name)) not in types:
            raise ValueError(f"{name} is a {type(getattr(model, name)).__name__}")
    if fitted:
        check(model.reservoir_)
        _check_learnt(model)
        _try(model)


def _check_learnt(model: Any) -> None:
    reservoir, readout, state, rls = model.reservoir_, model.readout_, model.state_, model.rls_
    n, d, m = reservoir.n_units, reservoir.n_inputs, reservoir.n_outputs
    p = 1 + d + n
    arrays: dict[str, tuple[Any, tuple[int, ...]]] = {
        "readout_.weights": (readout.weights, (m, p)),
        "readout_.residual_cov": (readout.residual_cov, (m, m)),
        "readout_.covariance_root": (readout.covariance_root, (p, p)),
        "state_.mean": (state.mean, (n,)),
        "state_.output": (state.output, (m,)),
    }
    for name, part, size in (("var", state.var, n), ("output_var", state.output_var, m)):
        if part is not None:
            arrays[f"state_.{name}"] = part, (size,)
    counts = {"readout_.n_samples": (readout.n_samples, rls is None), "_to_wash": (model._to_wash, 0)}
    if rls is not None:
        for name, rows in (("weights", m), ("root", p), ("prior_weights", m), ("prior_root", p)):
            arrays[f"rls_.{name}"] = getattr(rls, name), (rows, p)
        counts |= {"rls_.row": (rls.row, 0), "rls_.waited": (rls.waited, 0)}
    for name, (part, shape) in arrays.items():
        if type(part) is not np.ndarray or part.dtype != np.float64 or part.shape != shape or not np.isfinite(part).all():
            raise ValueError(f"{name} is not a finite array of shape {shape}")
    for name, (count, least) in counts.items():
        if type(count) is not int or count < least:
            raise ValueError(f"{name} is {count!r}")
    if rls is not None and rls.row >= p:
        raise ValueError(f"rls_.row is {rls.row}")
    as_covariance("readout_.residual_cov", readout.residual_cov, (m,))
    for name in ("var", "output_var"):
        if getattr(state, name) is not None:
            refuse_negative(f"state_.{name}", getattr(state, name))
    if (d, m) != (model.n_features_in_, model.n_outputs_) or (model._y_is_flat and m != 1):
        raise ValueError(f"its reservoir has {d} inputs and {m} outputs, not those that it says it was fitted to")
    names = getattr(model, "feature_names_in_", None)
    if names is not None and (names.shape != (d,) or not all(type(name) is str for name in names)):
        raise ValueError(f"feature_names_in_ is not an array of {d} names")


def _try(model: Any) -> None:
    """Predict one row: what the parameters and the arrays do to each other shows here, and not at the user's first call."""
    trial = copy.copy(model)
    trial.random_state = 0  # a RandomState would be moved on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows without names
        row = np.zeros((1, trial.n_features_in_))
        outputs = trial.predict(row, state=trial.state_), trial.predict(row)
    if not np.isfinite(outputs).all():
        raise ValueError("a trial prediction is not finite")
