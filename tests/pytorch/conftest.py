"""What the PyTorch tests share: the environment's python, and a harness that runs scripts with it."""

import pytest

from torch_harness import TorchHarness, make_python


@pytest.fixture(scope="session")
def torch_python():
    return make_python()


@pytest.fixture
def torch(tmp_path, torch_python):
    return TorchHarness(tmp_path, torch_python)
