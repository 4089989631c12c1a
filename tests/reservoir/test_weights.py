"""Claim: what enters the units from beside them stands before W, row by row."""

import numpy as np
from scipy import sparse

from pesn.reservoir.weights import draw


def test_a_matrix_beside_w_is_scipys_own():
    reservoir = draw(30, 2, 2, density=0.2, feedback_scaling=0.1, rng=0)
    C = np.hstack([reservoir.W_in, np.zeros((30, 2)), reservoir.W_fb])
    ours, theirs = reservoir.beside(C), sparse.hstack([sparse.csr_array(C), reservoir.W], format="csr")
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
