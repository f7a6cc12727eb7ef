"""No test of storage groups has to do with a fault of our own."""

from collections.abc import Iterator

import pytest

FAULTS = ("by our own fault", "could not be looked at", "could not be stopped", "Exception in callback")


@pytest.fixture(autouse=True)
def nothing_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    messages = [record.getMessage() for record in caplog.get_records("call")]
    assert [one for one in messages if any(fault in one for fault in FAULTS)] == []
