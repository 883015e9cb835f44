from collections.abc import Iterator

import pytest

from tests.fuzz.launcher import Launcher


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    result = Launcher()
    yield result
    result.close()
