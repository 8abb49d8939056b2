"""Define a fixture for memory plans that the address sanitizer can check."""

from collections.abc import Iterator

import pytest
from red_zones import planned_apart


@pytest.fixture
def apart() -> Iterator[None]:
    """Plan memory with a gap after each buffer, which `SANITIZERS` make inaccessible."""
    with planned_apart():
        yield
