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
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
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


@pytest.mark.parametrize(
    "partitions", [{}, {"b": []}, {"gone": []}, {"gone": [1]}, {"b": [1, 0], "a": [], "gone": [2]}]
)
def test_topics_without_name_or_partitions_are_not_assigned(partitions: dict[str, list[int]]) -> None:
    ids = {**IDS, "gone": UUID(int=9)}
    data = write_assignment({ids[name]: indexes for name, indexes in partitions.items()}, subscription(3), TOPICS)
    message, _ = decode(ConsumerProtocolAssignment, 3, data, 2)
    told = [(row.topic, row.partitions) for row in message.assigned_partitions]
    assert told == ([("b", [0, 1])] if "a" in partitions else [])


@pytest.mark.parametrize(("length", "says"), [(1, "ends before its version"), (2, "version 3: unpack_from")])
def test_what_ends_too_early_is_told(length: int, says: str) -> None:
    for read in (read_subscription, read_assignment):
        with pytest.raises(DecodeError, match=says):
            read(subscription(3)[:length], TOPICS)
