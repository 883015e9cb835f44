import numpy as np
import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.laws")

# The same examples on every run, and no time limit per example: a busy machine is not a bug.
settings.register_profile("leastnoise", deadline=None, derandomize=True)
settings.load_profile("leastnoise")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
