"""Since which epoch a member has each of its partitions, as a record says it: `UtilsTest` of Kafka, by its names."""

import pytest
from tests.unit.coordinator.group.consumer.bench import GROUP, topic_id

from penstock.coordinator.group.consumer.records import (
    CODEC,
    CURRENT,
    CurrentMemberAssignmentValue,
    CurrentTopicPartitions,
)
from penstock.coordinator.group.consumer.values import STABLE, Current
from penstock.protocol.codec import encode

AWAY, MEMBERS = -2, 7
ROWS: dict[str, tuple[list[int] | None, int, list[int]]] = {
    "testAssignmentFromTopicPartitionsWithNegativeDefaultEpoch": (None, AWAY, [0, 0, 0]),
    "testAssignmentFromTopicPartitionsWithEpochsProvided": ([5, 6, 7], AWAY, [5, 6, 7]),
    "testAssignmentFromTopicPartitionsWithUnequalEpochLength": ([0], MEMBERS, [7, 7, 7]),
}


@pytest.mark.parametrize(("said", "epoch", "expected"), ROWS.values(), ids=ROWS)
def test_since_when_a_member_has_what_it_has(said: list[int] | None, epoch: int, expected: list[int]) -> None:
    has = CurrentTopicPartitions(topic_id=topic_id("a"), partitions=[0, 1, 2], assignment_epochs=said)
    value = CurrentMemberAssignmentValue(member_epoch=epoch, state=STABLE, assigned_partitions=[has])
    key, _ = CODEC.encoded(CURRENT, GROUP, "m1", Current(epoch, epoch, STABLE, {}, {}))
    group_id, name, found = CODEC.decoded(CURRENT, key, b"\0\0" + encode(value, 0))
    assert (group_id, name) == (GROUP, "m1")
    assert found.assigned == {topic_id("a"): dict(enumerate(expected))}
