"""What every page is made of: tables, drawings put into the text, one style."""

from importlib import resources

__all__ = ["style"]


def style() -> str:
    """The style that all pages share: one look, in one place."""
    return (resources.files(__name__) / "style.css").read_text(encoding="utf-8")
