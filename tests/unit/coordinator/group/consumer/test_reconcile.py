"""Each row of Kafka 4.4's CurrentAssignmentBuilderTest, by its name. `a23@10`: partitions 2, 3, had since epoch 10."""

import re
from typing import Any
from uuid import UUID

import pytest

from penstock.coordinator.group.consumer.reconcile import Said, Wanted, reconciled
from penstock.coordinator.group.consumer.values import Current
from penstock.protocol.errors import ErrorCode, KafkaError

STABLE, UNREVOKED, UNRELEASED, UNKNOWN = 0, 1, 2, 127
TOPICS = {"a": UUID(int=1), "b": UUID(int=2)}
SAME = object()
FENCED = object()


def owned(text: str) -> dict[UUID, dict[int, int]]:
    found: dict[UUID, dict[int, int]] = {}
    for topic, partitions, epoch in re.findall(r"([ab])(\d+)@(\d+)", text):
        found.setdefault(TOPICS[topic], {}).update(dict.fromkeys(map(int, partitions), int(epoch)))
    return found


def target(text: str) -> dict[UUID, tuple[int, ...]]:
    return {TOPICS[topic]: tuple(map(int, partitions)) for topic, partitions in re.findall(r"([ab])(\d+)", text)}


def said(text: str | None) -> Said | None:
    return None if text is None else target(text)


def member(epoch: int, previous: int, state: int, assigned: str, revoking: str = "") -> Current:
    return Current(epoch, previous, state, owned(assigned), owned(revoking))


REVOKING = member(10, 10, UNREVOKED, "a23@10 b56@10", "a1@10 b4@10")
WAITING = member(11, 11, UNRELEASED, "a23@11 b56@11")
READS_B = member(10, 9, STABLE, "a123@10 b456@10")

ROWS: dict[str, list[tuple[Any, ...]]] = {
    # member, target's epoch, target, taken by others, said, topics read, subscription changed, what it becomes
    "testStableToStable": [
        (
            member(10, 10, 0, "a123@5 b456@5"),
            11,
            "a123 b456",
            "ab",
            None,
            "ab",
            False,
            member(11, 10, 0, "a123@5 b456@5"),
        )
    ],
    "testStableToStableWithNewPartitions": [
        (
            member(10, 10, STABLE, "a123@10 b456@10"),
            *(11, "a1234 b4567", "", None, "ab", False),
            member(11, 10, STABLE, "a123@10 a4@11 b456@10 b7@11"),
        )
    ],
    "testStableToUnrevokedPartitions": [
        (
            member(10, 10, STABLE, "a123@10 b456@10"),
            *(11, "a234 b567", "", None, "ab", False),
            member(10, 10, UNREVOKED, "a23@10 b56@10", "a1@10 b4@10"),
        )
    ],
    "testStableToUnreleasedPartitions": [
        (
            member(10, 10, STABLE, "a123@10 b456@10"),
            *(11, "a1234 b4567", "ab", None, "ab", False),
            member(11, 10, UNRELEASED, "a123@10 b456@10"),
        )
    ],
    "testStableToUnreleasedPartitionsWithOwnedPartitionsNotHavingRevokedPartitions": [
        (
            member(10, 10, STABLE, "a123@10 b456@10"),
            *(11, "a123 b457", "b", "", "ab", False),
            member(11, 10, UNRELEASED, "a123@10 b45@10"),
        )
    ],
    "testUnrevokedPartitionsToStable": [
        (REVOKING, 11, "a23 b56", "", "a23 b56", "ab", False, member(11, 10, STABLE, "a23@10 b56@10"))
    ],
    "testRemainsInUnrevokedPartitions": [
        (REVOKING, 12, "a3 b6", "", None, "ab", False, SAME),
        (REVOKING, 12, "a3 b6", "", "a123 b56", "ab", False, SAME),
        (REVOKING, 12, "a3 b6", "", "a23 b456", "ab", False, SAME),
    ],
    "testUnrevokedPartitionsToUnrevokedPartitions": [
        (REVOKING, 12, "a3 b6", "", "a23 b56", "ab", False, member(10, 10, UNREVOKED, "a3@10 b6@10", "a2@10 b5@10"))
    ],
    "testUnrevokedPartitionsToUnreleasedPartitions": [
        (
            member(11, 10, UNREVOKED, "a23@11 b56@11"),
            *(11, "a234 b567", "ab", "a23 b56", "ab", False),
            member(11, 11, UNRELEASED, "a23@11 b56@11"),
        )
    ],
    "testUnrevokedPartitionsToStableWithReturnedPartitionsPendingRevocation": [
        (
            member(10, 10, UNREVOKED, "a23@10 b56@10", "a4@10"),
            *(12, "a234 b567", "a", "a23 b56", "ab", False),
            member(12, 10, STABLE, "a23@10 a4@12 b56@10 b7@12"),
        )
    ],
    "testUnreleasedPartitionsToStable": [
        (WAITING, 12, "a23 b56", "ab", None, "ab", False, member(12, 11, STABLE, "a23@11 b56@11"))
    ],
    "testUnreleasedPartitionsToStableWithNewPartitions": [
        (WAITING, 11, "a234 b567", "", None, "ab", False, member(11, 11, STABLE, "a234@11 b567@11"))
    ],
    "testUnreleasedPartitionsToUnreleasedPartitions": [(WAITING, 11, "a234 b567", "ab", None, "ab", False, SAME)],
    "testUnreleasedPartitionsToUnrevokedPartitions": [
        (WAITING, 12, "a3 b6", "ab", None, "ab", False, member(11, 11, UNREVOKED, "a3@11 b6@11", "a2@11 b5@11"))
    ],
    "testUnknownState": [
        (member(11, 11, UNKNOWN, "a3@11 b6@11", "a2@11 b5@11"), 12, "a3 b6", "ab", None, "ab", False, FENCED),
        (member(11, 11, UNKNOWN, "a3@11 b6@11", "a2@11 b5@11"), 12, "a3 b6", "ab", "a2", "ab", False, FENCED),
        (
            member(11, 11, UNKNOWN, "a3@11 b6@11", "a2@11 b5@11"),
            *(12, "a3 b6", "ab", "", "ab", False),
            member(12, 11, STABLE, "a3@11 b6@11"),
        ),
    ],
    "testStableToStableWithAssignmentTopicsNoLongerInSubscription": [
        (READS_B, 11, "a123 b456", "", "b456", "b", False, member(11, 10, STABLE, "b456@10")),
        (READS_B, 11, "a123 b456", "", "b456", "b", True, member(11, 10, STABLE, "b456@10")),
        (READS_B, 10, "a123 b456", "", "b456", "b", True, member(10, 10, STABLE, "b456@10")),
    ],
    "testStableToUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription": [
        (READS_B, 11, "a123 b456", "", "a123 b456", "b", False, member(10, 10, UNREVOKED, "b456@10", "a123@10")),
        (READS_B, 11, "a123 b456", "", "a123 b456", "b", True, member(10, 10, UNREVOKED, "b456@10", "a123@10")),
        (READS_B, 10, "a123 b456", "", "a123 b456", "b", True, member(10, 10, UNREVOKED, "b456@10", "a123@10")),
    ],
    "testRemainsInUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription": [
        (
            REVOKING,
            *(12, "a134 b67", "", "a123 b456", "b", True),
            member(10, 10, UNREVOKED, "b56@10", "a123@10 b4@10"),
        )
    ],
    "testSubscribedTopicNameAndUnresolvedRegularExpression": [
        (
            member(10, 10, STABLE, "a123@10 b456@10"),
            *(10, "a123 b456", "", "a123 b456", "a", True),
            member(10, 10, UNREVOKED, "a123@10", "b456@10"),
        )
    ],
    "testUnresolvedRegularExpression": [
        (
            member(10, 10, STABLE, "a123@10 b456@10"),
            *(10, "a123 b456", "", "a123 b456", "", True),
            member(10, 10, UNREVOKED, "", "a123@10 b456@10"),
        )
    ],
    "testSubscribedTopicNameAndResolvedRegularExpression": [
        (member(10, 10, STABLE, "a123@10 b456@10"), 10, "a123 b456", "", "a123 b456", "ab", True, SAME)
    ],
}
EACH = [pytest.param(*row, id=case) for case, rows in ROWS.items() for row in rows]


@pytest.mark.parametrize(("before", "epoch", "goal", "taken", "says", "reads", "changed", "after"), EACH)
def test_what_a_member_becomes(
    before: Current, epoch: int, goal: str, taken: str, says: str | None, reads: str, changed: bool, after: object
) -> None:
    read, busy = {TOPICS[topic] for topic in reads}, {TOPICS[topic] for topic in taken}
    wanted = Wanted(epoch, target(goal), read.__contains__, lambda topic, _: topic in busy)
    if after is FENCED:
        with pytest.raises(KafkaError) as refusal:
            reconciled(before, wanted, said(says), subscription_changed=changed)
        assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH
        return
    found = reconciled(before, wanted, said(says), subscription_changed=changed)
    assert found == (before if after is SAME else after)
