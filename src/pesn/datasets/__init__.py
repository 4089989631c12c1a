"""Small real data sets for examples: series in the public domain, as pandas objects.

``pesn forecast --demo NAME`` forecasts them from the command line.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NAMES", "find_file", "load_airline", "load_co2", "load_economy"]

NAMES = ("airline", "co2", "economy")


def find_file(name: str) -> Path:
    """Return the path of the CSV file of a data set.

    Parameters
    ----------
    name : str
        One of ``NAMES``.

    Returns
    -------
    pathlib.Path
        The file: a column of dates, then a column for each series.

    Examples
    --------
    >>> find_file("airline").name
    'airline.csv'
    """
    if name not in NAMES:
        raise ValueError(f"the data set must be one of {', '.join(NAMES)}, got {name!r}")
    return Path(__file__).with_name(f"{name}.csv")


def load_airline() -> pd.Series:
    """Load the monthly totals of international airline passengers, in thousands, 1949 to 1960.

    Trend, and a season that grows with the level. Source: series G of Box and Jenkins, Time Series Analysis: Forecasting and
    Control (1970). License: published facts, in the public domain.

    Returns
    -------
    pandas.Series
        144 months, named "passengers".

    Examples
    --------
    >>> load_airline().tail(2)
    month
    1960-11-01    390.0
    1960-12-01    432.0
    Freq: MS, Name: passengers, dtype: float64
    """
    return _read("airline", "MS")["passengers"]


def load_co2() -> pd.Series:
    """Load the monthly means of atmospheric carbon dioxide at Mauna Loa, Hawaii, in ppm, March 1958 to December 2001.

    Trend, a stable season and five missing months (NaN): the means of weekly flask samples. Source: Keeling and Whorf, Scripps
    Institution of Oceanography, published by the Carbon Dioxide Information Analysis Center, U.S. Department of Energy. License:
    public domain.

    Returns
    -------
    pandas.Series
        526 months, named "co2".

    Examples
    --------
    >>> co2 = load_co2()
    >>> len(co2), int(co2.isna().sum())
    (526, 5)
    """
    return _read("co2", "MS")["co2"]


def load_economy() -> pd.DataFrame:
    """Load six quarterly series of the economy of the United States, 1959 to the third quarter of 2009.

    Source: Federal Reserve Economic Data (FRED) of the Federal Reserve Bank of St. Louis, from the U.S. Bureaus of Economic
    Analysis and of Labor Statistics and the Federal Reserve Board. License: works of the U.S. government, in the public domain.

    Returns
    -------
    pandas.DataFrame
        203 quarters: real gross domestic product "gdp", "consumption" and "investment" in billions of 2005 dollars, consumer
        "prices" (1982–84 is 100), "interest" of three-month Treasury bills in per cent, "unemployment" in per cent.

    Examples
    --------
    >>> load_economy().iloc[-1]
    gdp             12990.341
    consumption      9256.000
    investment       1486.398
    prices            216.385
    interest            0.120
    unemployment        9.600
    Name: 2009-07-01 00:00:00, dtype: float64
    """
    return _read("economy", "QS")


def _read(name: str, freq: str) -> pd.DataFrame:
    """Return a data set with its dates as the index."""
    import pandas as pd

    frame = pd.read_csv(find_file(name), index_col=0).astype(float)
    frame.index = pd.PeriodIndex(frame.index, freq=freq[0]).to_timestamp().rename(frame.index.name)
    return frame.asfreq(freq)
