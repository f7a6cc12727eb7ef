"""A raw connection, and a topic of the test's own."""

from collections.abc import Iterator

import pytest
from tests.wire.raw_client import RawClient


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as client:
        yield client


@pytest.fixture
def created(client: RawClient, topic: str) -> str:
    """A topic with one partition that keeps records however old they are."""
    client.create_topic(topic, configs={"retention.ms": "-1"})
    return topic
