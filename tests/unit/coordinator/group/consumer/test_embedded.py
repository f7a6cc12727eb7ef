"""The consumer protocol that classic members carry along, in all its versions."""

import struct
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.coordinator.group.consumer.embedded import (
    NEWEST,
    Said,
    read_assignment,
    read_subscription,
    write_assignment,
)
from penstock.protocol.codec import encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition

IDS = {"a": UUID(int=1), "b": UUID(int=2)}
NAMES = {topic_id: name for name, topic_id in IDS.items()}
TOPICS = cast("Any", SimpleNamespace(id_of=IDS.get, name_of=NAMES.get))


def subscription(version: int) -> bytes:
    owned = [TopicPartition(topic="a", partitions=[0, 2]), TopicPartition(topic="gone", partitions=[0])]
    said = ConsumerProtocolSubscription(topics=["b", "a"], owned_partitions=owned, rack_id="r")
    layout = min(version, NEWEST)
    return struct.pack(">h", version) + encode(said, layout)


@pytest.mark.parametrize("version", [*range(NEWEST + 1), 99])
def test_each_version_is_read_and_answered(version: int) -> None:
    owned = ((IDS["a"], 0), (IDS["a"], 2)) if version >= 1 else ()
    assert read_subscription(subscription(version), TOPICS) == Said(("a", "b"), owned, "r" if version >= 3 else None)
    assigned = write_assignment({IDS["b"]: [1, 0], UUID(int=9): [4]}, subscription(version), TOPICS)
    assert struct.unpack_from(">h", assigned)[0] == min(version, NEWEST)
    assert read_assignment(assigned, TOPICS) == ((IDS["b"], 0), (IDS["b"], 1))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff", b"\xff\xff" + subscription(0)[2:]])
def test_what_is_no_version_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_subscription(data, TOPICS)
