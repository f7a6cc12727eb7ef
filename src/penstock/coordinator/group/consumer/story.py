"""How groups of the consumer protocol are told of, and those that come of classic ones.

Of what a group takes over that was a classic one until then nothing is told: only who has come or gone with that.
"""

from itertools import islice
from typing import Any
from uuid import UUID

from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.records import ASSIGNMENT
from penstock.coordinator.group.consumer.state import GroupView
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.consumer.values import UNREVOKED_PARTITIONS
from penstock.coordinator.group.epoch_story import AWAITED, EpochStory, Places
from penstock.coordinator.group.group_log import GroupLog
from penstock.coordinator.group.historian import Written
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.kind import Group
from penstock.protocol.requests.own_apis import Awaited


class ConsumerStory(EpochStory):
    kind = ConsumerGroup.kind
    view = GroupView
    giving_up = UNREVOKED_PARTITIONS

    def __init__(self, image: GroupImage, topics: Topics) -> None:
        super().__init__(image)
        self._topics = topics

    def places(self, target: Any) -> Places:
        found: Places = target
        return found

    def to_give_up(self, current: Any) -> Places:
        found: Places = current.revoking
        return found

    def name_of(self, what: UUID) -> str | None:
        return self._topics.name_of(what)

    def holder(self, state: Any, what: UUID, number: int) -> str:
        found: str = state.owners.get((what, number), "")
        return found

    def wants_something_else(self, before: Any, after: Any) -> bool:
        return bool((before.topics, before.pattern) != (after.topics, after.pattern))

    def taken_over(self, log: GroupLog, written: Written) -> tuple[Written, Written]:
        if not log.were_members:
            return [], written
        end = next((index for index, (record, _) in enumerate(written) if record.key == ASSIGNMENT), -1)  # type: ignore[attr-defined]
        return written[: end + 1], written[end + 1 :]

    def awaited(self, group: Group, now_ms: int) -> list[Awaited]:
        assert isinstance(group, ConsumerGroup)
        called = [
            Awaited(
                member_id=member_id,
                what="to join or to sync",
                since_ms=wait.since_ms,
                until_ms=wait.until_ms,
            )
            for member_id, wait in islice(group.calls.items(), AWAITED)
        ]
        return super().awaited(group, now_ms) + called
