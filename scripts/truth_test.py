"""Read thousands of generated tables and every kind of pandas index, and compare with the truth: python scripts/truth_test.py.

Prints how many were exact, reported and refused, and the first faults with their files. Exits with 1 if there is a fault.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import tempfile
import time

from truth_indexes import check_index, make_indexes
from truth_tables import check_case, make_case


def main() -> int:
    """Run the cases of the seeds asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000, help="number of tables")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first table")
    parser.add_argument("--show", type=int, default=5, help="number of faults to print with their files")
    options = parser.parse_args()
    start, counts, faults = time.perf_counter(), collections.Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.n):
            case = make_case(seed)
            result = check_case(case, pathlib.Path(folder))
            counts[result.outcome] += 1
            if result.outcome == "fault":
                faults.append((case, result))
    indexes = {name: check_index(name, index) for name, index in make_indexes().items()}
    for case, result in faults[: options.show]:
        print(f"--- seed {case.seed}: {result.why}\n    {', '.join(case.features)}\n{case.content[:1500]!r}")
    for name, found in indexes.items():
        if found.outcome == "fault":
            print(f"--- index of {name}: {found.why}")
    by_index = collections.Counter(found.outcome for found in indexes.values())
    print(f"{'':9s} {'tables':>6s} {'':>7s} indexes")
    for outcome in ("exact", "reported", "refused", "fault"):
        print(f"{outcome:9s} {counts[outcome]:6d} {counts[outcome] / options.n:7.2%} {by_index[outcome]:7d}")
    print(f"{time.perf_counter() - start:.0f} s")
    return 1 if faults or by_index["fault"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
