"""Before anything loads NumPy, and for the processes that tests start: one thread each for BLAS. And what an extra leaves out.

pytest's workers are as many as the cores; beside them BLAS's own threads wait for one another in loops, which triples the time.
Where sktime is missing, the page and the modules that need it are left out, as its tests are.
"""

import os
from importlib.util import find_spec

import pytest

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

_SKTIME = bool(find_spec("sktime") and find_spec("skpro"))
_PAGE = "coming-from-sktime.md"
_FOREIGN = [  # of sktime's own composites, and of its concat with pandas 3
    "ignore:The default of config ``remember_data`` will change:FutureWarning",
    "ignore:Sorting by default when concatenating all DatetimeIndex is deprecated",
]

collect_ignore = [] if _SKTIME else ["src/pesn/adapters/sktime"]  # their doctests cannot be looked for without it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The page runs sktime's pipelines, which warn of what will change in sktime; without it the page is skipped."""
    for item in items:
        if item.path.name == _PAGE:
            item.add_marker(pytest.mark.skipif(not _SKTIME, reason="sktime is an extra"))
            for warning in _FOREIGN:
                item.add_marker(pytest.mark.filterwarnings(warning))
