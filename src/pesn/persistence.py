"""Save and load estimators. A file holds numbers and names; no code of it runs when it is read.

A file is a zip archive: ``model.json`` is a tree of models, records and numbers, arrays are stored as .npy files, and
``pesn.json`` has the version of the format and a digest of all other members. Only classes that are listed here are built, from
their stored fields and without their constructors. Then every model and record checks itself, before a kernel reads its arrays.

>>> import os, tempfile, numpy as np, pesn
>>> X = np.sin(np.arange(200.0))[:, None]
>>> esn = pesn.EchoStateNetwork(20, random_state=0).fit(X[:-1], X[1:])
>>> with tempfile.TemporaryDirectory() as folder:
...     esn.save(os.path.join(folder, "sine.pesn"))
...     again = load(os.path.join(folder, "sine.pesn"))
>>> np.array_equal(again.predict(X), esn.predict(X))
True
"""

from __future__ import annotations

import inspect
import io
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.metadata import version
from typing import IO, TYPE_CHECKING, Any, TypeAlias
from zipfile import ZipFile

import numpy as np

from pesn._support import files
from pesn._support.files import RefusedError
from pesn._support.records import annotation_types, check_annotation, check_type
from pesn._support.types import AnyArray, PathLike

if TYPE_CHECKING:
    from pesn import EchoStateNetwork, Forecaster, ProbabilisticESN, ReservoirClassifier, SeriesForecaster
    from pesn.series.model import FittedSeries

    Model: TypeAlias = EchoStateNetwork | ProbabilisticESN | ReservoirClassifier | Forecaster | SeriesForecaster

FORMAT = 11  # incremented when an older pesn cannot read the files; earlier formats were never released
LARGEST = 2**32  # bytes of a file
_DEEPEST = 50  # levels of nesting
_TREE = "model.json"
MOST = {files.MANIFEST: 2**12, _TREE: files.LARGEST_JSON}  # bytes of JSON; parsed, it takes many times as much memory

# Modules of the classes that a file may hold; they are imported when a file holds them.
_MODELS = {
    "EchoStateNetwork": "pesn.esn.network", "Forecaster": "pesn.forecasting.forecaster",
    "ProbabilisticESN": "pesn.esn.probabilistic", "ReservoirClassifier": "pesn.esn.classifier",
    "SeriesForecaster": "pesn.series.forecaster",
}  # fmt: skip
_RECORDS = {
    "forecasting.context": "Columns", "forecasting.dataset": "Scale", "forecasting.design": "Candidate Design",
    "forecasting.model": "ForecastModel", "forecasting.time_index": "TimeIndex", "moments": "Mesh",
    "readout.classification": "LogitReadout", "readout.features": "Features", "readout.groups": "Groups Patches",
    "readout.ridge": "Readout", "readout.rls": "RLSState", "reservoir.closed_loop": "ErrorModel", "reservoir.drive": "State",
    "reservoir.initial_state": "LocalStart Start", "reservoir.weights": "Layer Reservoir", "series.members.closed_loops": "Loops",
    "series.members.counts": "Counts", "series.members.decomposition": "Effects", "series.members.dynamics": "Dynamics Joint",
    "series.members.smoothing": "Grid", "series.members.weights": "Widths",
    "series.model": "FittedSeries", "series.univariate": "Member UnivariateModel",
    "statespace.ensemble": "Draws Ensemble", "statespace.low_rank": "LowRank", "statespace.state": "Dense Diagonal",
}  # fmt: skip
_CLASSES = _MODELS | {name: f"pesn.{module}" for module, names in _RECORDS.items() for name in names.split()}


def save(model: Model, path: PathLike) -> None:
    """Write an estimator to a file, as a whole or not at all.

    Whatever happens, ``path`` is the old file or the new one. The mode of an old file is kept.

    Parameters
    ----------
    model : estimator
        Estimator of pesn.
    path : path-like
        File to write.

    Raises
    ------
    TypeError
        If the estimator holds what a file cannot: functions, foreign objects.
    ValueError
        If it would not load: parameters that were set after ``fit`` and do not go with the fitted attributes.
    """
    arrays: list[AnyArray] = []
    try:
        _check_kind(model)
        tree = _encode(model, arrays)
        data = _pack(tree, arrays)
    except RefusedError as refusal:
        raise TypeError(f"this {type(model).__name__} cannot be saved: {refusal}") from None
    try:
        check_model(_decode(tree, arrays.__getitem__))
    except Exception as error:
        raise ValueError(f"this {type(model).__name__} cannot be saved: {error}; was a parameter set after fit?") from None
    with files.replacing(path) as part:
        part.write_bytes(data)


def load(path: PathLike) -> Model:
    """Read an estimator that ``.save(path)`` wrote; its predictions are equal to the bit.

    No code from a file ever runs.

    Parameters
    ----------
    path : path-like
        File that ``save`` wrote.

    Returns
    -------
    EchoStateNetwork, ProbabilisticESN, ReservoirClassifier, Forecaster or SeriesForecaster
        The estimator; ``isinstance`` tells a type checker which.

    Raises
    ------
    ValueError
        If the file is truncated, foreign, damaged, changed, or in another format.
    OSError
        If it is not a regular file, or has more than 4 GiB: it is not read.
    """
    return _read_file(path)


def load_series(path: PathLike) -> tuple[FittedSeries, Any]:
    """Return the fitted series and the parameter ``level`` of a saved SeriesForecaster, without scikit-learn, slow to import.

    Errors are those of :func:`load`, and a ValueError for another estimator and one that was not fitted.
    """
    found = _read_file(path, series=True)
    return found["fitted_"], found["level"]


def _read_file(path: PathLike, *, series: bool = False) -> Any:
    """Return the model of a file; with ``series``, the fields of a SeriesForecaster."""
    name = os.fspath(path)
    with files.regular(path, LARGEST) as file:
        try:
            _check_container(file)
            with ZipFile(file) as archive:
                return _load_archive(archive, series)
        except RefusedError as refusal:
            raise ValueError(f"{name} {files.one_line(refusal)}") from None
        except MemoryError:
            raise MemoryError(f"{name} needs more memory than there is to be loaded") from None
        except Exception as error:
            # Any error of zipfile, json or numpy means a damaged file.
            raise ValueError(f"{name} is damaged ({type(error).__name__}); save the model again") from None


# ---------------------------------------------------------------- the archive


def _pack(tree: object, arrays: list[AnyArray]) -> bytes:
    """Return the bytes of an archive."""
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        archive.writestr(_TREE, json.dumps(tree, allow_nan=False))
        for i, array in enumerate(arrays):
            part = io.BytesIO()
            np.save(part, array, allow_pickle=False)
            archive.writestr(f"{i}.npy", part.getvalue())
        manifest = {"format": "pesn", "format_version": FORMAT, "pesn_version": version("pesn"), "sha256": files.digest(archive)}
        archive.writestr(files.MANIFEST, json.dumps(manifest))
        _check_sizes(archive)
    if buffer.tell() > LARGEST:
        raise RefusedError(f"its file would have {buffer.tell():,} bytes, and {LARGEST:,} are the most")
    return buffer.getvalue()


def _check_container(file: IO[bytes]) -> None:
    """Refuse a file that is not ours, or that would unpack to more than it has, before a member is read."""
    try:
        with ZipFile(file) as archive:
            is_ours = files.MANIFEST in archive.namelist()
            members_end = archive.start_dir
    except Exception:
        raise RefusedError("is not a file saved by pesn, or it was cut short") from None
    if not is_ours:
        raise RefusedError("is not a file saved by pesn")
    files.check_archive(archive, members_end)
    _check_sizes(archive)


def _check_sizes(archive: ZipFile) -> None:
    """Refuse members that are too large."""
    for member in archive.infolist():
        if member.file_size > MOST.get(member.filename, LARGEST):
            raise RefusedError(f"has {member.file_size:,} bytes of {member.filename}, and {MOST[member.filename]:,} are the most")


def _check_manifest(archive: ZipFile) -> None:
    """Refuse another format, and members that are not those that were signed."""
    manifest = json.loads(archive.read(files.MANIFEST))
    found = manifest["format_version"]
    if manifest["format"] not in ("pesn", "pesn series") or type(found) is not int or found < 1:
        raise RefusedError("is not a file saved by pesn")
    if manifest["format"] != "pesn" or found < FORMAT:
        raise RefusedError("was saved before the first release of pesn, in a format that is not read; fit and save it again")
    if found > FORMAT:
        raise RefusedError(
            f"was saved by pesn {manifest['pesn_version']} in format {found}; this is pesn {version('pesn')}, "
            f"which reads format {FORMAT}; update pesn"
        )
    if files.digest(archive) != manifest["sha256"]:
        raise RefusedError("was changed after pesn saved it: its digest does not match")


def _load_archive(archive: ZipFile, series: bool) -> Any:
    """Return the model of an archive, checked; with ``series``, the fields of a SeriesForecaster."""
    _check_manifest(archive)
    unread = set(archive.namelist()) - {files.MANIFEST, _TREE}

    def read_array(number: object) -> AnyArray:
        name = f"{number}.npy"
        if name not in unread:  # once each: many references to one array would take many times its memory
            raise RefusedError(f"is damaged: it names the array {name[:20]} twice, or has none; save the model again")
        unread.remove(name)
        return files.npy_array(name, archive.read(name))

    tree = json.loads(archive.read(_TREE))
    if series and (tree["class"] != "SeriesForecaster" or "fitted_" not in tree["fields"]):
        raise RefusedError(f"is not a file of pesn.SeriesForecaster that was fitted: it holds a {tree['class']}")
    model = _decode({"dict": tree["fields"]} if series else tree, read_array)
    if not series:
        _check_kind(model)
    try:
        (_check_series if series else check_model)(model)
    except MemoryError:
        raise
    except Exception as error:
        raise RefusedError(f"is damaged: {error}") from None
    if unread:
        raise RefusedError(f"was changed after pesn saved it: no part of its model is in {min(unread)}")
    return model


# ---------------------------------------------------------------- the tree


def _check_kind(model: object) -> None:
    """Refuse an object that is not a model."""
    if not _is_model(type(model)):
        raise RefusedError(f"holds {_name(type(model))}, which is not a model of pesn")


def _encode(value: object, arrays: list[AnyArray]) -> object:
    """Return a value as JSON has it; arrays are appended to ``arrays``, and named by their number."""
    value = _simplify(value)
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, np.ndarray):
        return _encode_array(value, arrays)
    if isinstance(value, list | tuple) and kind in (list, tuple):  # not named tuples, which are records
        return {kind.__name__: [_encode(one, arrays) for one in value]}
    if isinstance(value, Mapping) and {type(key) for key in value} <= {str}:
        return {"dict": _encode_items(value, arrays)}
    if isinstance(value, np.random.RandomState):
        return {"RandomState": _encode(value.get_state(legacy=False), arrays)}
    return _encode_record(value, arrays)


def _encode_items(parts: Mapping[str, object], arrays: list[AnyArray]) -> dict[str, object]:
    """Encode the values of a mapping."""
    return {name: _encode(one, arrays) for name, one in parts.items()}


def _encode_record(value: object, arrays: list[AnyArray]) -> object:
    """Encode a model or record by its fields."""
    if _CLASSES.get(type(value).__name__) != type(value).__module__:
        raise RefusedError(f"holds {_name(value if callable(value) else type(value))}, which is not part of a model of pesn")
    names = _field_names(type(value))
    parts: Any = value.__getstate__() if names is None else {name: getattr(value, name) for name in names}
    return {"class": type(value).__name__, "fields": _encode_items(parts, arrays)}


def _simplify(value: Any) -> object:
    """Return sparse matrices as arrays, NumPy scalars as Python's, and paths as text."""
    if hasattr(value, "toarray"):
        return value.toarray()
    if isinstance(value, np.generic):
        return value.item()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _encode_array(value: AnyArray, arrays: list[AnyArray]) -> object:
    """Return the number of an array; text in an array of objects is stored in the tree."""
    if value.dtype == object and value.ndim == 1 and all(type(one) is str for one in value):
        return {"texts": value.tolist()}
    if value.dtype.kind not in "biufU":
        raise RefusedError(f"holds an array of {value.dtype}, which is not part of a model of pesn")
    arrays.append(value)
    return {"array": len(arrays) - 1}


def _decode(tree: Any, read_array: Callable[[Any], AnyArray], depth: int = 0) -> Any:
    """Return the value that :func:`_encode` was given."""
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    if type(tree) is not dict or depth > _DEEPEST:
        raise RefusedError(f"is damaged: it holds a {type(tree).__name__} where a value should be; save the model again")

    def decode_list(body: Any) -> list[Any]:
        return [_decode(one, read_array, depth + 1) for one in body]

    def decode_items(body: Any) -> dict[str, Any]:
        return dict(zip(body, decode_list(body.values()), strict=True))

    if "class" in tree:
        name = str(tree["class"])
        if name not in _CLASSES:
            raise RefusedError(f"holds {name}, which is not part of a model of pesn")
        return _build(getattr(import_module(_CLASSES[name]), name), decode_items(tree["fields"]))
    [(kind, body)] = tree.items()
    builders: dict[str, Callable[[Any], Any]] = {
        "array": read_array,
        "list": decode_list,
        "tuple": lambda body: tuple(decode_list(body)),
        "dict": decode_items,
        "texts": lambda body: np.array(list(map(str, body)), object),
        "RandomState": lambda body: _build_random_state(_decode(body, read_array, depth + 1)),
        "float": float,
    }
    if kind not in builders:
        raise RefusedError(f"holds {kind}, which is not part of a model of pesn")
    return builders[kind](body)


def _field_names(kind: type) -> tuple[str, ...] | None:
    """Return the names of all fields of a record; None for a model, and for a record with its own ``__getstate__``."""
    if issubclass(kind, tuple):
        return tuple(kind._fields)  # type: ignore[attr-defined]
    if is_dataclass(kind) and kind.__getstate__ is object.__getstate__:
        return tuple(field.name for field in fields(kind))
    return None


def _build(kind: Any, parts: dict[str, Any]) -> Any:
    """Build a model or record from its fields, without its constructor."""
    names = _field_names(kind)
    if names is not None and set(names) != set(parts):
        wrong = sorted(set(names) ^ set(parts))[0]
        raise RefusedError(f"is damaged: {kind.__name__} has no {wrong}, or must not have it; save the model again")
    if issubclass(kind, tuple):
        return kind(**parts)
    made = object.__new__(kind)
    getattr(made, "__setstate__", vars(made).update)(parts)
    return made


def _build_random_state(parts: dict[str, Any]) -> np.random.RandomState:
    """Return a generator; NumPy itself would read beyond the end of its key, and never end on a key of zeros."""
    key, place = parts["state"]["key"], parts["state"]["pos"]
    is_key = np.shape(key) == (624,) and key.dtype == np.uint32 and key[1:].any()
    if not is_key or type(place) is not int or not 0 <= place <= 624:
        raise RefusedError("is damaged: it holds a RandomState that is none; save the model again")
    made = np.random.RandomState()
    made.set_state(parts)
    return made


def _is_model(kind: type) -> bool:
    """Return whether a class is an estimator that files may hold."""
    return _MODELS.get(kind.__name__) == kind.__module__


def _name(kind: Any) -> str:
    """Return the full name of a class or function."""
    return f"{kind.__module__}.{kind.__qualname__}"


# ---------------------------------------------------------------- what loads must work


def check_model(model: Any) -> None:
    """Raise a ValueError where an attribute is missing, foreign, of another type, or does not fit the others.

    A class says by its annotations which attributes it has, and by its ``check_attributes`` what must be true of them.
    """
    kind, found = type(model), vars(model)
    parameters = set(inspect.signature(kind).parameters)
    annotated = annotation_types(kind)
    learned = set(annotated) - parameters - set(kind.optional_attributes)
    fitted = learned if learned & set(found) else set()
    missing = (parameters | fitted) - set(found)
    extra = set(found) - parameters - fitted - set(kind.optional_attributes)
    if extra or missing:
        raise ValueError(f"its attributes are not those of a {kind.__name__}: {', '.join(sorted(missing or extra))}")
    for name, types in {**annotated, **{name: (one,) for name, one in kind.optional_attributes.items()}}.items():
        # numbers among the parameters are checked with their ranges by check_stored
        if name in found and (name not in parameters or any(map(_is_model, types))):
            check_annotation(name, found[name], types)
    for inside in _find_models(found):
        check_model(inside)
    if fitted:
        model.check_attributes()


def _check_series(found: Mapping[str, Any]) -> None:
    """Raise an error where the fields of a SeriesForecaster that forecasts depend on are damaged."""
    from pesn.series.model import FittedSeries
    from pesn.series.result import check_levels

    check_levels(found["level"])
    check_type("fitted_", found["fitted_"], FittedSeries)
    found["fitted_"].check_attributes()


def _find_models(value: Any) -> Iterator[Any]:
    """Return the models inside a value, but not those inside of them."""
    if _is_model(type(value)):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _find_models(one)
    elif is_dataclass(value):
        yield from _find_models(vars(value))
