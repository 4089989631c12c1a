"""What a table cannot do, as opposed to what was asked wrongly."""

__all__ = ["DataError"]


class DataError(ValueError):
    """The call was right, and the data do not allow it; the message says which, where, and the remedy.

    >>> str(DataError("column 'x' is constant"))
    "column 'x' is constant"
    """
