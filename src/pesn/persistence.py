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

import contextlib
import hashlib
import io
import json
import os
import secrets
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from pesn.drawing import check

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
    """Write ``model`` to ``path``, whole or not at all: whatever happens, the file is the old one or the new one."""
    try:
        data = _archive(model)
    except _RefusedError as refusal:
        raise TypeError(f"this {type(model).__name__} cannot be saved: {refusal}") from None
    target = Path(os.path.realpath(path))  # a link stays a link, to a new file
    # In the folder of the target: a replacement is atomic only within one file system.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


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
        data = import_module("skops.io").dumps(model)  # here, not above: it imports all of scikit-learn
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
    _check_shapes(model)
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


def _check_shapes(model: Any) -> None:
    """The arrays must fit together: the kernels index without bounds checks, so a file that lies must not reach one."""
    if not hasattr(model, "readout_"):
        return
    reservoir, readout, state, rls = model.reservoir_, model.readout_, model.state_, model.rls_
    check(reservoir)
    n, d, m = reservoir.n_units, reservoir.n_inputs, reservoir.n_outputs
    p = 1 + d + n
    wanted: list[tuple[Any, tuple[int, ...]]] = [
        (readout.weights, (m, p)),
        (readout.residual_cov, (m, m)),
        (readout.covariance_root, (p, p)),
        (state.mean, (n,)),
        (state.output, (m,)),
    ]
    wanted += [(part, shape) for part, shape in ((state.var, (n,)), (state.output_var, (m,))) if part is not None]
    if rls is not None:
        wanted += [(rls.weights, (m, p)), (rls.root, (p, p)), (rls.prior_weights, (m, p)), (rls.prior_root, (p, p))]
    right = rls is None or (type(rls.row) is type(rls.waited) is int and 0 <= rls.row < p)
    right = right and all(part.shape == shape and part.dtype == np.float64 and np.isfinite(part).all() for part, shape in wanted)
    if not right or (d, m) != (model.n_features_in_, model.n_outputs_):
        raise _RefusedError("is damaged: its arrays do not fit together")
