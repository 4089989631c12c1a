"""Sphinx configuration."""

import pesn

project = "pesn"
author = "The pesn developers"
copyright = "the pesn developers"
release = pesn.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx-mathjax-offline"]
myst_enable_extensions = ["dollarmath", "amsmath"]
exclude_patterns = ["build"]
html_theme = "furo"
html_title = f"pesn {release}"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
