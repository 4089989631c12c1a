"""Save and load, on skops: a file holds numbers and names, and no code of it runs when it is read.

A saved file is skops' zip archive with one more member, ``pesn.json``: the format's version, pesn's version and a digest of
everything else; and, where a note goes with the model, ``note.json``. On top of skops' own audit, every type that a file
names must stand in the list below: skops by itself would also rebuild any estimator of scikit-learn.

>>> import os, tempfile, numpy as np, pesn
>>> from pesn.esn.network import EchoStateNetwork
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
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from pesn._support.arguments import as_covariance, check_not_negative
from pesn._support.files import replacing
from pesn._support.reading import regular, stored
from pesn.forecasting.dataset import Scale
from pesn.forecasting.time_index import TimeIndex
from pesn.learning.calibration import LEADS
from pesn.moments.spline import Mesh
from pesn.readout.ridge import Readout
from pesn.readout.rls import RLSState
from pesn.reservoir.closed_loop import ErrorModel
from pesn.reservoir.drive import State
from pesn.reservoir.initial_state import Start
from pesn.reservoir.open_loop import state_shapes
from pesn.reservoir.weights import Reservoir, check
from pesn.statespace import Dense, Diagonal, LowRank

__all__ = ["load", "load_with_note", "save"]

_RANGE = 3.0  # deviations of y that stand for its range, in a file that does not say it
FORMAT = 5  # raised when an older pesn could not read what is written; all formats from 1 are read
LARGEST = 2**32  # bytes of a file
_MANIFEST, _SCHEMA, _NOTE = "pesn.json", "schema.json", "note.json"
_MOST = {_MANIFEST: 2**12, _SCHEMA: 2**24, _NOTE: 2**24}  # bytes of JSON: read, it takes many times as many
_MODELS = (
    "pesn.esn.network.EchoStateNetwork",
    "pesn.esn.probabilistic.ProbabilisticESN",
    "pesn.forecasting.forecaster.Forecaster",
)
_RECORDS = tuple(
    f"{record.__module__}.{record.__qualname__}"
    for record in (Dense, Diagonal, ErrorModel, LowRank, Mesh, Readout, Reservoir, RLSState, Scale, Start, State, TimeIndex)
)
_MOVED = {  # classes by the names that older formats have for them
    f"pesn.{old}": f"pesn.{new}"
    for old, new in (
        ("esn.EchoStateNetwork", "esn.network.EchoStateNetwork"),
        ("probabilistic_esn.ProbabilisticESN", "esn.probabilistic.ProbabilisticESN"),
        ("forecasting.Forecaster", "forecasting.forecaster.Forecaster"),
        ("beliefs.diagonal.Diagonal", "statespace.diagonal.Diagonal"),
        ("beliefs.full.Full", "statespace.dense.Dense"),
        ("beliefs.low_rank.LowRank", "statespace.low_rank.LowRank"),
        ("dating.Clock", "forecasting.time_index.TimeIndex"),
        ("drawing.Reservoir", "reservoir.weights.Reservoir"),
        ("filtering.Errors", "reservoir.closed_loop.ErrorModel"),
        ("readout.Readout", "readout.ridge.Readout"),
        ("reservoir.State", "reservoir.drive.State"),
        ("rls.RLSState", "readout.rls.RLSState"),
        ("series.Scale", "forecasting.dataset.Scale"),
        ("starting.Start", "reservoir.initial_state.Start"),
        ("time_index.TimeIndex", "forecasting.time_index.TimeIndex"),
    )
}
_PLAIN = {f"builtins.{name}" for name in ("bool", "dict", "float", "int", "list", "str", "tuple")} | {
    f"numpy.{name}" for name in ("bool", "float32", "float64", "int32", "int64", "ndarray", "random.mtrand.RandomState")
}
_LOADERS = {"DictNode", "JsonNode", "ListNode", "NdArrayNode", "ObjectNode", "RandomStateNode", "TupleNode", "TypeNode"}


class _RefusedError(Exception):
    """Why a file or a model is refused, in words for the user."""


def save(model: Any, path: str | os.PathLike[str], note: Any = None) -> None:
    """Write ``model`` to ``path``, whole or not at all: whatever happens, it is the old file or the new one. Its mode stays.

    ``note``: anything that JSON can hold, to go with it.
    """
    try:
        data = _archive(model, note)
    except _RefusedError as refusal:
        raise TypeError(f"this {type(model).__name__} cannot be saved: {refusal}") from None
    with replacing(path) as part:
        part.write_bytes(data)


def load(path: str | os.PathLike[str]) -> Any:
    """The estimator that ``.save(path)`` wrote; it predicts the same numbers to the bit.

    A file that is cut short, foreign, changed, or from a newer pesn is a ValueError. No code from a file ever runs. What is
    not a regular file, or has more than 4 GiB, is an OSError, and is not read.
    """
    return load_with_note(path)[0]


def load_with_note(path: str | os.PathLike[str]) -> tuple[Any, Any]:
    """The estimator, as :func:`load` gives it, and the note that was saved with it, None where there is none."""
    name = os.fspath(path)
    with regular(path, LARGEST) as file:
        try:
            _check_archive(file)  # before all of it is in memory
            file.seek(0)
            return _read(file.read(LARGEST))
        except _RefusedError as refusal:
            raise ValueError(f"{name} {refusal}") from None
        except Exception as error:
            # Whatever a file does to zipfile, json, numpy or skops, the user needs to know one thing.
            raise ValueError(f"{name} is damaged ({type(error).__name__}); save the model again") from None


def _archive(model: Any, note: Any) -> bytes:
    try:
        data = import_module("skops.io").dumps(_plain(model))  # here, not above: it imports all of scikit-learn
    except Exception as error:
        raise _RefusedError(f"skops says {error}") from None
    buffer = io.BytesIO(data)
    with ZipFile(buffer, "a") as archive:
        _audit(json.loads(archive.read(_SCHEMA)))
        if note is not None:
            archive.writestr(_NOTE, json.dumps(note))
        manifest = {
            "format": "pesn",
            "format_version": FORMAT,
            "pesn_version": version("pesn"),
            "sha256": _digest(archive),
        }
        archive.writestr(_MANIFEST, json.dumps(manifest))
        _check_size(archive)
    if buffer.tell() > LARGEST:
        raise _RefusedError(f"its file would have {buffer.tell():,} bytes, and {LARGEST:,} are the most")
    return buffer.getvalue()


def _plain(model: Any) -> Any:
    """The model, and one inside it, with NumPy scalars, as searches over arrays set them, as Python's own numbers."""
    plain = {name: value.item() for name, value in vars(model).items() if isinstance(value, np.generic)}
    plain |= {name: _plain(value) for name, value in vars(model).items() if hasattr(value, "get_params")}
    if plain:
        model = copy.copy(model)
        vars(model).update(plain)
    return model


def _check_archive(file: IO[bytes]) -> None:
    """What can be told of a file without reading its members: it is ours, and holds no more than it seems to."""
    try:
        with ZipFile(file) as archive:
            names = archive.namelist()
    except Exception:
        raise _RefusedError("is not a file saved by pesn, or it was cut short") from None
    if _MANIFEST not in names:
        raise _RefusedError("is not a file saved by pesn")
    try:
        with stored(file) as archive:
            _check_size(archive)
    except BadZipFile as error:
        raise _RefusedError(f"was changed after pesn saved it: {error}") from None


def _check_size(archive: ZipFile) -> None:
    for member in archive.infolist():
        if member.file_size > _MOST.get(member.filename, LARGEST):
            raise _RefusedError(
                f"has {member.file_size:,} bytes of {member.filename}, and {_MOST[member.filename]:,} are the most"
            )


def _read(data: bytes) -> tuple[Any, Any]:
    _check_archive(io.BytesIO(data))
    with ZipFile(io.BytesIO(data)) as archive:
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
        note = json.loads(archive.read(_NOTE)) if _NOTE in archive.namelist() else None
        members = set(archive.namelist()) - {_MANIFEST, _SCHEMA, _NOTE}
    if _renamed(schema):
        data = _with_schema(data, schema)
    _audit(schema)
    if extra := members - {node["file"] for node in _nodes(schema) if "file" in node}:
        raise _RefusedError(f"was changed after pesn saved it: no part of its model is in {min(extra)}")
    model = import_module("skops.io").loads(data, trusted=[*_MODELS, *_RECORDS])
    _complete(model, found)
    try:
        _check(model)
    except Exception as error:
        raise _RefusedError(f"is damaged: {error}") from None
    return model, note


def _renamed(schema: Any) -> bool:
    """Whether a record had another name once; the schema now has the one of today."""
    old = [node for node in _nodes(schema) if "__class__" in node and _type_of(node) in _MOVED]
    for node in old:
        node["__module__"], _, node["__class__"] = _MOVED[_type_of(node)].rpartition(".")
    return bool(old)


def _with_schema(data: bytes, schema: Any) -> bytes:
    buffer = io.BytesIO()
    with ZipFile(io.BytesIO(data)) as old, ZipFile(buffer, "w") as new:
        for member in old.infolist():
            new.writestr(member.filename, json.dumps(schema) if member.filename == _SCHEMA else old.read(member))
    return buffer.getvalue()


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


def _complete(model: Any, found: int) -> None:
    """What older formats did not have.

    In format 1 networks started from zero or a Gaussian, without process noise. Up to format 2 nothing was said on the way,
    and forecasters knew neither X's names nor dates, and took their target from the parameter. Up to format 3 a frame's own
    numbering was not told from numbers that somebody chose; of X only the last row was kept, and of y no range. Up to format 4
    a forecaster's state went by another name, and units were tanh units, connected at random.
    """
    own = vars(model)
    if found == 1 and "readout_" in own:
        model.washout_ = model.washout
        if "process_noise" in own:
            model.start_, model.process_noise_ = None, 0.0
    if found < 3:
        own.setdefault("verbose", False)
        if "errors_" in own:
            for name, value in (("target_", own.get("target")), ("known_names_", None)):
                own.setdefault(name, value)
    for inside in [part for part in (own.get("esn"), own.get("esn_")) if hasattr(part, "n_units")]:
        _complete(inside, found)
    if found < 4 and "errors_" in own:
        time = own.pop("_clock", None)
        numbered = isinstance(time, TimeIndex) and (time.kind, time.step) == ("numbers", 1)
        model._time = time._replace(kind="counted") if numbered else time
        if "_last_known" in own:
            usual, recent, last = own["usual_"], own["_recent"], own.pop("_last_known")
            model._recent_known = np.vstack([np.full((len(recent) - 1, len(last)), np.nan), last])
            model.range_ = usual.y_mean - _RANGE * usual.y_std, usual.y_mean + _RANGE * usual.y_std
    if found < 5 and "_belief" in own:
        model._state = own.pop("_belief")
    if found < 5 and "n_units" in own:
        own.setdefault("activation", "tanh")
        own.setdefault("topology", "random")


# ---------------------------------------------------------------- what loads must work

_NETWORK: dict[str, tuple[type, ...]] = {
    "reservoir_": (Reservoir,),
    "readout_": (Readout,),
    "state_": (State,),
    "rls_": (RLSState, type(None)),
    "washout_": (int,),
    "n_features_in_": (int,),
    "n_outputs_": (int,),
    "_y_is_flat": (bool,),
    "_to_wash": (int,),
}
_FITTED: dict[str, dict[str, tuple[type, ...]]] = {
    "EchoStateNetwork": _NETWORK,
    "ProbabilisticESN": {**_NETWORK, "start_": (Start, type(None)), "process_noise_": (float,)},
    "Forecaster": {
        "errors_": (ErrorModel,),
        "scale_": (Scale,),
        "usual_": (Scale,),
        "kinematics_": (tuple,),
        "range_": (tuple,),
        "names_": (list, type(None)),
        "known_names_": (list, type(None)),
        "target_": (str,),
        "_time": (TimeIndex, type(None)),
        "n_columns_": (int,),
        "n_known_": (int,),
        "_state": (Dense, Diagonal, LowRank),
        **dict.fromkeys(("learn_", "rest_", "output_std_", "calibration_", "_recent", "_recent_known"), (np.ndarray,)),
    },
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
    kind, found = type(model).__name__, vars(model)
    types = _FITTED[kind]
    forecasts = kind == "Forecaster"
    learnt = set(types) | ({"esn_"} if forecasts else set())
    fitted = learnt if learnt & set(found) else set()
    wanted, perhaps = set(type(model)._get_param_names()) | fitted, {} if forecasts else _PERHAPS
    extra, missing = set(found) - wanted - set(perhaps), wanted - set(found)
    if extra or missing:
        raise ValueError(f"its attributes are not those of a {kind}: {', '.join(sorted(missing or extra))}")
    for name, allowed in (types | perhaps).items():
        if name in found and type(found[name]) not in allowed:
            raise ValueError(f"{name} is a {type(found[name]).__name__}")
    for name in ("esn", "esn_"):
        if name in found and not (name == "esn" and found[name] is None):
            if type(found[name]).__name__ != "ProbabilisticESN":
                raise ValueError(f"{name} is a {type(found[name]).__name__}")
            _check(found[name])
    if fitted:
        (_check_forecaster if forecasts else _check_network)(model)


def _arrays(arrays: dict[str, tuple[Any, tuple[int, ...]]]) -> None:
    for name, (part, shape) in arrays.items():
        if type(part) is not np.ndarray or part.dtype != np.float64 or part.shape != shape or not np.isfinite(part).all():
            raise ValueError(f"{name} is not a finite array of shape {shape}")


def _counts(counts: dict[str, tuple[Any, int]]) -> None:
    for name, (count, least) in counts.items():
        if type(count) is not int or count < least:
            raise ValueError(f"{name} is {count!r}")


def _covariance(name: str, cov: Any) -> None:
    """Symmetric and not negative, up to the rounding of many steps."""
    size = float(np.max(np.abs(cov), initial=0.0))
    if size and (np.abs(cov - cov.T).max() > 1e-9 * size or np.linalg.eigvalsh(cov / size)[0] < -1e-9 * len(cov)):
        raise ValueError(f"{name} is not a covariance")


def _check_network(model: Any) -> None:
    check(model.reservoir_)
    reservoir, readout, state, rls = model.reservoir_, model.readout_, model.state_, model.rls_
    n, d, m = reservoir.n_units, reservoir.n_inputs, reservoir.n_outputs
    p = 1 + d + n
    arrays: dict[str, tuple[Any, tuple[int, ...]]] = {
        "readout_.weights": (readout.weights, (m, p)),
        "readout_.residual_cov": (readout.residual_cov, (m, m)),
        "readout_.covariance_root": (readout.covariance_root, (p, p)),
        **{f"state_.{name}": part for name, part in state_shapes(state, n, m).items()},
    }
    counts = {"readout_.n_samples": (readout.n_samples, rls is None), "_to_wash": (model._to_wash, 0)}
    counts["washout_"] = model.washout_, 0
    if rls is not None:
        for name, rows in (("weights", m), ("root", p), ("prior_weights", m), ("prior_root", p)):
            arrays[f"rls_.{name}"] = getattr(rls, name), (rows, p)
        counts |= {"rls_.row": (rls.row, 0), "rls_.waited": (rls.waited, 0)}
    _arrays(arrays)
    _counts(counts)
    if rls is not None and rls.row >= p:
        raise ValueError(f"rls_.row is {rls.row}")
    as_covariance("readout_.residual_cov", readout.residual_cov, (m,))
    for name in ("var", "output_var", "own"):
        if getattr(state, name) is not None:
            check_not_negative(f"state_.{name}", getattr(state, name))
    if state.cov is not None and state.own is None:
        _covariance("state_.cov", state.cov)
    if (d, m) != (model.n_features_in_, model.n_outputs_) or (model._y_is_flat and m != 1):
        raise ValueError(f"its reservoir has {d} inputs and {m} outputs, not those that it says it was fitted to")
    names = getattr(model, "feature_names_in_", None)
    if names is not None and (names.shape != (d,) or not all(type(name) is str for name in names)):
        raise ValueError(f"feature_names_in_ is not an array of {d} names")
    if getattr(model, "start_", None) is not None:
        _check_start(model.start_, d, n)
    if not 0.0 <= getattr(model, "process_noise_", 0.0) < np.inf:
        raise ValueError(f"process_noise_ is {model.process_noise_!r}")
    _try_network(model)


def _check_start(start: Start, d: int, n: int) -> None:
    _counts({f"start_.{name}": (getattr(start, name), least) for name, least in (("lags", 0), ("n_states", n), ("n_samples", 1))})
    entries = start.lags * d
    F = np.size(start.low) - n  # features: with their products, or of one row without them
    if start.n_states != n or F not in (1 + entries + entries * (entries + 1) // 2, 1 + d) or 1 + d > F:
        raise ValueError("start_ does not fit to its reservoir")
    shapes = {"root": (F + n, F + n), "center": (d,), "spread": (d,), "low": (F + n,), "high": (F + n,)}
    _arrays({f"start_.{name}": (getattr(start, name), shape) for name, shape in shapes.items()})
    if np.tril(start.root, -1).any() or not np.diagonal(start.root)[:F].all():
        raise ValueError("start_.root is not a triangular factor")


def _check_forecaster(model: Any) -> None:
    d, u, m, esn = model.n_columns_, model.n_known_, model.learn_.size, model.esn_
    r = d - m
    _counts({"n_columns_": (d, 1), "n_known_": (u, 0)})
    columns = model.learn_, model.rest_
    if any(part.dtype != np.intp or part.ndim != 1 for part in columns) or sorted(np.concatenate(columns)) != list(range(d)):
        raise ValueError(f"learn_ and rest_ are not the {d} columns")
    if "readout_" not in vars(esn) or esn.start_ is None or (esn.n_features_in_, esn.n_outputs_) != (d + u, m):
        raise ValueError("esn_ is not a network of these columns")
    if len(model.kinematics_) != 3 or model.target_ not in ("change", "level"):
        raise ValueError(f"kinematics_ has {len(model.kinematics_)} parts and target_ is {model.target_!r}")
    if not model._recent.size:
        raise ValueError("_recent is empty")
    if len(model.range_) != 2:
        raise ValueError(f"range_ has {len(model.range_)} parts")
    errors, (A, B, c) = model.errors_, model.kinematics_
    positive: dict[str, tuple[Any, tuple[int, ...]]] = {
        "output_std_": (model.output_std_, (m,)),
        "calibration_": (model.calibration_, (LEADS,)),
    }
    others: dict[str, tuple[Any, tuple[int, ...]]] = {
        "kinematics_.A": (A, (r, d)),
        "kinematics_.B": (B, (r, m)),
        "kinematics_.c": (c, (r,)),
        "errors_.cov": (errors.cov, (d, d)),
        "errors_.persistence": (errors.persistence, (d,)),
        "errors_.innovation": (errors.innovation, (d, d)),
        "range_.low": (model.range_[0], (d,)),
        "range_.high": (model.range_[1], (d,)),
        "_recent": (_filled(model._recent), (len(np.atleast_1d(model._recent)), d)),
        "_recent_known": (_filled(model._recent_known), (len(np.atleast_1d(model._recent)), u)),
    }
    for name, scale in (("scale_", model.scale_), ("usual_", model.usual_)):
        positive |= {f"{name}.y_std": (scale.y_std, (d,)), f"{name}.x_std": (scale.x_std, (u,))}
        others |= {f"{name}.y_mean": (scale.y_mean, (d,)), f"{name}.x_mean": (scale.x_mean, (u,))}
    _arrays(positive | others)
    for name, (part, _) in positive.items():
        if (part <= 0.0).any():
            raise ValueError(f"{name} is not positive")
    if (model.range_[0] > model.range_[1]).any():
        raise ValueError("range_ is not from low to high")
    for name in ("cov", "innovation"):
        _covariance(f"errors_.{name}", getattr(errors, name))
    if np.abs(errors.persistence).max() > 1.0:
        raise ValueError("errors_.persistence is beyond 1")
    for name, names, size in (("names_", model.names_, d), ("known_names_", model.known_names_, u)):
        if names is not None and (len(names) != size or not all(type(one) is str for one in names)):
            raise ValueError(f"{name} is not a list of {size} names")
    if model._time is not None:
        _check_time(model._time)
    _check_state(model._state, 2 * d + u + (m if np.any(esn.reservoir_.W_fb) else 0), esn.reservoir_.n_units)
    _try_forecaster(model)


def _check_time(time: TimeIndex) -> None:
    """The labels that it makes: pandas reads its texts and refuses what it does not know."""
    texts: Any = str, str, (str, type(None)), (str, type(None)), str
    found = time.kind, time.last if time.kind == "dates" else "", time.name, time.zone, time.unit
    numbers = time.kind in ("numbers", "counted")
    steps: Any = (int, float) if numbers else str
    if not (all(map(isinstance, found, texts)) and isinstance(time.step, steps)):
        raise ValueError("_time is not of texts and numbers")
    if time.kind not in ("dates", "periods", "numbers", "counted") or (numbers and not 0 < time.step < np.inf):
        raise ValueError(f"_time goes on by {time.step!r} {time.kind}")
    time.ahead(1)


def _check_state(state: Any, p: int, n: int) -> None:
    size = p + n
    shapes = {"mean": (size,), "cross": (size, 0), "cov": (size, size), "var": (size,), "own": (n,)}
    fields = set(type(state).__dataclass_fields__)
    if set(vars(state)) != fields or state.carried != p:
        raise ValueError("_state is not about these columns and units")
    if "factor" in fields:
        shapes["factor"] = size, np.shape(np.atleast_1d(state.factor))[-1]
    _arrays({f"_state.{name}": (getattr(state, name), shape) for name, shape in shapes.items() if name in fields})
    if "cov" in fields:
        _covariance("_state.cov", state.cov)
    for name in fields & {"var", "own"}:
        check_not_negative(f"_state.{name}", getattr(state, name))


def _filled(values: Any) -> Any:
    """Without the gaps, which may be there."""
    return np.where(np.isnan(values), 0.0, values) if values.dtype == np.float64 else values


# ---------------------------------------------------------------- a first call: what parameters and arrays do to each other


def _try_network(model: Any) -> None:
    from pesn.esn.parameters import check_network, check_probabilistic

    (check_probabilistic if type(model).__name__ == "ProbabilisticESN" else check_network)(model)
    trial = copy.copy(model)
    trial.random_state = 0  # a RandomState would be moved on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows without names
        row = np.zeros((1, trial.n_features_in_))
        outputs = trial.predict(row, state=trial.state_), trial.predict(row)
    if not np.isfinite(outputs).all():
        raise ValueError("a trial prediction is not finite")


def _try_forecaster(model: Any) -> None:
    trial = copy.copy(model)
    trial.esn_ = copy.copy(model.esn_)
    trial.esn_.random_state = 0  # a RandomState would be moved on
    ahead = np.zeros((1, model.n_known_)) if model.n_known_ else None
    for context in (None, np.zeros((1, model.n_columns_))):
        forecast = trial.forecast(1, context, ahead)
        if not (np.isfinite(forecast.mean).all() and np.isfinite(forecast.std).all()):
            raise ValueError("a trial forecast is not finite")
