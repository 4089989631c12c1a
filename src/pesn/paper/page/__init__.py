"""The page that shows a folder of results to people: published and obtained side by side, claims, verdicts, errata."""

from pesn.paper.page.page import write_page

__all__ = ["write_page"]
