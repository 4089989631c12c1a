"""What a table cannot do, as opposed to what was asked wrongly."""

__all__ = ["DataError", "quoted"]

_MOST = 60  # characters of a cell in a message


class DataError(ValueError):
    """The call was right, and the data do not allow it; the message says which, where, and the remedy.

    >>> str(DataError("column 'x' is constant"))
    "column 'x' is constant"
    """


def quoted(cell: object) -> str:
    """A cell for a message, cut where it is long.

    >>> quoted("oops"), len(quoted("z" * 1000))
    ("'oops'", 62)
    """
    text = str(cell)
    return repr(text if len(text) <= _MOST else text[: _MOST - 1] + "…")
