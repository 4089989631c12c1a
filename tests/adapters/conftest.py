"""What tests with torch share."""

import pytest


@pytest.fixture(scope="module")
def one_torch_thread():
    """The tensors are small: threads would only wait for each other."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
