"""What the records of a share group add up to, and which topics its members read."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from penstock.coordinator.effects import KeyValue
from penstock.coordinator.group.consumer.assignors.spec import Target
from penstock.coordinator.group.consumer.values import GroupEpoch
from penstock.coordinator.group.epochs import EMPTY, STABLE, EpochView
from penstock.coordinator.group.parts import ONE, DecidedParts, PartRecord
from penstock.coordinator.group.share import records
from penstock.coordinator.group.share.records import ASSIGNMENT, CURRENT, GROUP, MEMBER, PARTITIONS, TARGET
from penstock.coordinator.group.share.values import NEWCOMER, Current, StatePartitions, Subscription

_NO_PARTITIONS: Final = StatePartitions()


class ShareGroupRecord(PartRecord):
    """`name` is the id of a member."""

    kind = "share"
    keys = records.KEYS
    decoded = staticmethod(records.CODEC.decoded)

    def encode(self) -> KeyValue:
        return records.CODEC.encoded(self.key, self.group_id, self.name, self.value)

    @staticmethod
    def new_state() -> "ShareGroupState":
        return ShareGroupState()


class ShareGroupView(EpochView[GroupEpoch, Subscription, Target, Current]):
    """What the records say, and no more."""

    __slots__ = ()

    keys = records.KEYS
    group_key, assignment_key, member_key, target_key, current_key = GROUP, ASSIGNMENT, MEMBER, TARGET, CURRENT
    first_epoch = GroupEpoch(1, 0)
    newcomer = NEWCOMER
    no_target: ClassVar[Target] = {}

    @property
    def partitions(self) -> StatePartitions:
        found: StatePartitions = self._parts[PARTITIONS].get(ONE, _NO_PARTITIONS)
        return found

    @property
    def state(self) -> str:
        return STABLE if self.members else EMPTY


class ShareGroupState(ShareGroupView, DecidedParts):
    """A group as it was decided."""

    __slots__ = ("_readers",)

    committed: ShareGroupView
    static_ids: ClassVar[Mapping[str, str]] = {}
    """There are no static members."""

    def __init__(self) -> None:
        DecidedParts.__init__(self, ShareGroupView())
        self._readers: Counter[str] = Counter()
        """Topic to the number of members that read it."""

    def put(self, key: int, name: str, value: Any) -> Any:
        before = super().put(key, name, value)
        if key == MEMBER:
            self._readers.update(() if value is None else value.topics)
            for topic in () if before is None else before.topics:
                self._readers[topic] -= 1
                if not self._readers[topic]:
                    del self._readers[topic]
        return before

    @property
    def topics(self) -> list[str]:
        """Those that members read, in ascending order."""
        return sorted(self._readers)

    def reads(self, topic: str) -> bool:
        return topic in self._readers
