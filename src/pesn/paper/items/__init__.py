"""The paper's tables and figures, one item a module."""
