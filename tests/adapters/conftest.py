"""Fixtures shared by tests with torch."""

import pytest


@pytest.fixture(scope="module")
def one_torch_thread():
    """Use one thread, because the tensors are small."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
