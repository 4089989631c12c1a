"""The paper's tables and figures, one or two items a module."""
