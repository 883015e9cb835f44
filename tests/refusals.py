"""What a mistake is answered with."""

from collections.abc import Callable

import pytest

from leastnoise.errors import LeastnoiseError


def refusal(call: Callable[[], object], kind: type[LeastnoiseError] = LeastnoiseError) -> str:
    """The one line with which a call is refused."""
    with pytest.raises(kind) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)
