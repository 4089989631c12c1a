"""Save and load, on skops: a file holds numbers and names, and no code of it runs when it is read.

A saved file is skops' zip archive with one more member, ``pesn.json``: the format's version, pesn's version and a digest of
everything else; and, where a note goes with the model, ``note.json`` (:mod:`pesn.persistence.archive`). On top of skops' own
audit, every type that a file names must stand in a list (:mod:`pesn.persistence.audit`): skops by itself would also rebuild any
estimator of scikit-learn. What loads must work: models and records check themselves (:mod:`pesn.persistence.attributes`).
Files of all older formats are read (:mod:`pesn.persistence.older_formats`).

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
import os
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pesn._support.files import replacing
from pesn._support.reading import one_line, regular
from pesn._support.types import PathLike
from pesn.persistence.archive import (
    FORMAT,
    LARGEST,
    RefusedError,
    check_container,
    check_sizes_of_arrays,
    pack,
    unpack,
    with_schema,
)
from pesn.persistence.attributes import check_model
from pesn.persistence.audit import MODELS, RECORDS, audit, nodes, path_of
from pesn.persistence.older_formats import complete, rename
from pesn.reservoir.layers import Layer
from pesn.series.saving import is_series_file

if TYPE_CHECKING:
    from pesn.esn.classifier import ReservoirClassifier
    from pesn.esn.network import EchoStateNetwork
    from pesn.esn.probabilistic import ProbabilisticESN
    from pesn.forecasting.forecaster import Forecaster
    from pesn.series.forecaster import SeriesForecaster

__all__ = ["FORMAT", "LARGEST", "Model", "load", "load_with_note", "save"]


Model: TypeAlias = "EchoStateNetwork | ProbabilisticESN | ReservoirClassifier | Forecaster"
Json: TypeAlias = Any  # what JSON can hold


def save(model: Model, path: PathLike, note: Json = None) -> None:
    """Write ``model`` to ``path``, whole or not at all: whatever happens, it is the old file or the new one. Its mode stays.

    Parameters
    ----------
    model
        A fitted estimator of pesn's.
    path
        Where to.
    note
        Anything that JSON can hold, to go with it.

    Raises
    ------
    TypeError
        Where it holds what a file does not: functions, foreign objects.
    ValueError
        Where it would not load: parameters that were set after ``fit`` and do not go with what was learnt.
    """
    try:
        data = _packed(model, note)
    except RefusedError as refusal:
        raise TypeError(f"this {type(model).__name__} cannot be saved: {refusal}") from None
    try:
        check_model(_plain(model))
    except Exception as error:
        raise ValueError(f"this {type(model).__name__} cannot be saved: {error}; was a parameter set after fit?") from None
    with replacing(path) as part:
        part.write_bytes(data)


def load(path: PathLike) -> Model | SeriesForecaster:
    """The estimator that ``.save(path)`` wrote; it predicts the same numbers to the bit.

    A file that is cut short, foreign, changed, or from a newer pesn is a ValueError. No code from a file ever runs. What is
    not a regular file, or has more than 4 GiB, is an OSError, and is not read.

    Parameters
    ----------
    path
        Of a file that ``save`` wrote.

    Returns
    -------
    EchoStateNetwork, ProbabilisticESN, ReservoirClassifier, Forecaster or SeriesForecaster
        What was saved; ``isinstance`` tells a type checker which.
    """
    if is_series_file(path):
        from pesn.series.forecaster import SeriesForecaster

        return SeriesForecaster.load(path)
    return load_with_note(path)[0]


def load_with_note(path: PathLike) -> tuple[Model, Json]:
    """The estimator, as :func:`load` gives it, and the note that was saved with it, None where there is none."""
    name = os.fspath(path)
    with regular(path, LARGEST) as file:
        try:
            check_container(file)  # before all of it is in memory
            file.seek(0)
            return _loaded(file.read(os.fstat(file.fileno()).st_size))  # Python reserves memory for all that is asked for
        except RefusedError as refusal:
            raise ValueError(f"{name} {one_line(refusal)}") from None
        except MemoryError:
            raise MemoryError(f"{name} needs more memory than there is to be loaded") from None
        except Exception as error:
            # Whatever a file does to zipfile, json, numpy or skops, the user needs to know one thing.
            raise ValueError(f"{name} is damaged ({type(error).__name__}); save the model again") from None


def _packed(model: Model, note: Json) -> bytes:
    try:
        data = import_module("skops.io").dumps(_plain(model))  # here, not above: it imports all of scikit-learn
    except Exception as error:
        raise RefusedError(f"skops says {error}") from None
    return pack(data, note, audit)


def _plain(model: Any) -> Any:
    """The model, and one inside it, with Python's own numbers for NumPy's, as searches set them, and arrays for sparse ones."""
    plain = {name: value.item() for name, value in vars(model).items() if isinstance(value, np.generic)}
    plain |= {name: value.toarray() for name, value in vars(model).items() if hasattr(value, "toarray")}
    plain |= {name: _plain(value) for name, value in vars(model).items() if hasattr(value, "get_params")}
    plain |= {name: _dense(value) for name, value in vars(model).items() if name == "layers"}
    if plain:
        model = copy.copy(model)
        vars(model).update(plain)
    return model


def _dense(layers: Any) -> Any:
    """The parameter ``layers``, with arrays for sparse matrices."""
    if isinstance(layers, (list, tuple)):
        return type(layers)(_dense(one) for one in layers)
    W: Any = layers.topology if isinstance(layers, Layer) else None
    if hasattr(W, "toarray"):
        return replace(layers, topology=W.toarray())
    return layers.item() if isinstance(layers, np.generic) else layers


def _loaded(data: bytes) -> tuple[Model, Json]:
    found = unpack(data)
    if rename(found.schema):
        data = with_schema(data, found.schema)
    audit(found.schema)
    if extra := found.members - {node["file"] for node in nodes(found.schema) if "file" in node}:
        raise RefusedError(f"was changed after pesn saved it: no part of its model is in {min(extra)}")
    check_sizes_of_arrays(data)
    model = import_module("skops.io").loads(data, trusted=[path_of(kind) for kind in (*MODELS, *RECORDS)])
    complete(model, found.format)
    try:
        check_model(model)
    except MemoryError:
        raise
    except Exception as error:
        raise RefusedError(f"is damaged: {error}") from None
    return model, found.note
