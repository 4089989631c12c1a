"""Limit BLAS to one thread before NumPy is loaded, also for processes that tests start, and skip what needs missing extras.

pytest has as many workers as cores; threads of BLAS would wait for each other, which triples the time. Without sktime, the page
and the modules that need it are skipped, as its tests are.
"""

import os
from importlib.util import find_spec

import pytest

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

_SKTIME = bool(find_spec("sktime") and find_spec("skpro"))
_PAGE = "coming-from-sktime.md"
_FOREIGN = [  # from sktime, and from its concat with pandas 3
    "ignore:The default of config ``remember_data`` will change:FutureWarning",
    "ignore:Sorting by default when concatenating all DatetimeIndex is deprecated",
]

collect_ignore = ["docs/build", "docs/conf.py", "docs/generated"]
if not _SKTIME:
    collect_ignore.append("src/pesn/adapters/sktime")  # its doctests cannot be collected without it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the page of sktime without it, and ignore its warnings about future changes."""
    for item in items:
        if item.path.name == _PAGE:
            item.add_marker(pytest.mark.skipif(not _SKTIME, reason="sktime is an extra"))
            for warning in _FOREIGN:
                item.add_marker(pytest.mark.filterwarnings(warning))
