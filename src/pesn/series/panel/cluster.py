"""Long frames in Parquet on a Dask cluster: workers read, forecast and write; nothing but counts comes back.

The files must be where every worker finds them by the same name.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from pesn._support import cluster
from pesn._support.files import LOCK, locking
from pesn._support.types import PathLike
from pesn.series.forecaster import SeriesForecaster
from pesn.series.panel.buckets import common_schemas, data_columns, files_of, parquet_module, schema_of
from pesn.series.panel.frame import Columns
from pesn.series.panel.settings import columns_of
from pesn.series.panel.stream import Streamed

__all__ = ["forecast_parquet_on"]


def forecast_parquet_on(
    address: str,
    source: PathLike,
    target: PathLike,
    horizon: int | None = None,
    *,
    X: PathLike | None = None,
    level: Any = None,
    forecaster: SeriesForecaster | None = None,
) -> Streamed:
    """As :func:`pesn.series.panel.stream.forecast_parquet`, on the cluster of a Dask scheduler.

    Parameters
    ----------
    address
        Of the scheduler, such as tcp://127.0.0.1:8786.
    source, X
        Parquet files or folders.
    target
        A new folder: ``forecasts`` in it has the forecasts, ``failures`` the ids that failed and why, Parquet files each.
    horizon, level
        As in :meth:`pesn.SeriesForecaster.forecast`.
    forecaster
        Its parameters are used.

    Returns
    -------
    Streamed
        How many series there are.
    """
    forecaster = SeriesForecaster() if forecaster is None else forecaster
    columns, folder = columns_of(forecaster), Path(target)
    names = data_columns(schema_of(Path(source)), columns)
    _check_ids([Path(source), *([] if X is None else [Path(X)])], columns)
    with locking(folder), cluster.client(address) as client, client.as_current():
        if any(path.name != LOCK for path in folder.iterdir()):
            raise ValueError(f"target must be a new folder, got {folder}, which has files")
        frames: Any = import_module("dask.dataframe")
        model = forecaster.fit(frames.read_parquet(source, index=False)[names])
        ahead = None if X is None else frames.read_parquet(X, index=False)
        forecasts: Any = model.forecast(horizon, ahead, level)
        lazy = [
            forecasts.to_parquet(folder / "forecasts", write_index=False, compute=False),
            model.failures_.to_parquet(folder / "failures", write_index=False, compute=False),
        ]
        client.gather(client.compute(lazy))
    parquet = parquet_module()
    parts = files_of(folder / "forecasts")
    series = sum(len(parquet.read_table(file, columns=[columns.id]).column(0).unique()) for file in parts)
    failures = sum(int(parquet.read_metadata(file).num_rows) for file in files_of(folder / "failures"))
    return Streamed(series, failures, len(parts))


def _check_ids(paths: list[Path], columns: Columns) -> None:
    """Raise a ValueError where files have ids of other types: workers hash them as they are, and would split a series."""
    common = common_schemas(paths, columns)[0].field(columns.id).type
    for file in [file for path in paths for file in files_of(path)]:
        own = schema_of(file).field(columns.id).type
        if own != common and not ("string" in str(own) and "string" in str(common)):
            raise ValueError(
                f"column {columns.id!r} must have one type in all files for a cluster, got {own} in {file}, and {common} is what "
                f"all have in common; --stream reads such files"
            )
