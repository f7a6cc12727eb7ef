"""In which version records are asked for: with a topic's id only of brokers that know ids there."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.client.blocking.fetch import IDS_SINCE, send_fetch
from penstock.client.values import IsolationLevel


@pytest.mark.parametrize(
    ("topic_id", "known", "asked"),
    [(None, IDS_SINCE, None), (UUID(int=7), IDS_SINCE - 1, None), (UUID(int=7), IDS_SINCE, IDS_SINCE)],
)
def test_the_version_that_is_asked_for(topic_id: UUID | None, known: int, asked: int | None) -> None:
    sent: list[Any] = []
    connection = SimpleNamespace(version_of=lambda *_: known, send=lambda *of: sent.append(of))
    send_fetch(
        cast("Any", connection),
        "t",
        0,
        5,
        max_wait_ms=1,
        max_bytes=1,
        isolation=IsolationLevel.READ_COMMITTED,
        topic_id=topic_id,
    )
    ((_, request, version),) = sent
    assert version == asked
    assert request.topics[0].partitions[0].fetch_offset == 5
