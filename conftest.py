"""Before anything loads NumPy, and for the processes that tests start: one thread each for BLAS.

pytest's workers are as many as the cores; beside them BLAS's own threads wait for one another in loops, which triples the time.
"""

import os

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
