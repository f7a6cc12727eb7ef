"""Storage groups begin, and topics join them: a group is a partition of `__storage_group` (decision 0309).

| a new topic asks for                     | it gets |
| --- | --- |
| `replication.mode=consensus`             | of the groups with such replicas the one with the fewest partitions |
| the same, and there is none, or all are full | a group that begins |
| `storage.group` of a group that is there | that one, if it has the replicas that are asked for |
| `storage.group` of the next number       | a group that begins |

All partitions of the topic have the group's voters as replicas, in the directories in which these have the group's log.
A group that begins has no leader, and all its replicas count as in sync, until its leader says so (`group_leaders`).
"""

from collections import Counter
from collections.abc import Collection, Sequence
from heapq import heapify, heappush, heapreplace
from uuid import UUID

from penstock.controller.assignments import FIRST_EPOCH, check_replicas
from penstock.controller.decision import ControllerState
from penstock.controller.placement import place
from penstock.metadata.features import DIRECTORY_LEVEL, METADATA_VERSION
from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from penstock.metadata.replication_mode import STORAGE_GROUP
from penstock.metadata.topics import NO_LEADER
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.value import Value

Kind = int | frozenset[int] | None
"""What groups are asked for by: a number of replicas, the replicas, or nothing."""

FULL = 1_000
"""A group with so many partitions gets only topics that name it."""


class Asked(Value):
    """What is None is left to the controller."""

    partitions: int = 0
    number: int | None = None
    replication_factor: int | None = None
    replicas: tuple[int, ...] | None = None

    def check(self, number: int, group: PartitionImage) -> None:
        if self.replicas is not None and set(self.replicas) != set(group.replicas):
            message = f"storage group {number} has the replicas {list(group.replicas)}, not {list(self.replicas)}"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        if self.replication_factor not in (None, _factor(group)):
            message = f"storage group {number} has {_factor(group)} replicas, not {self.replication_factor}"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)

    @property
    def kind(self) -> "Kind":
        return self.replication_factor if self.replicas is None else frozenset(self.replicas)


class Found(Value):
    """Has the records that begin the group, if it is new."""

    number: int
    group: PartitionImage
    records: Sequence[MetadataRecord] = ()


class StorageGroups:
    """Knows present groups, and groups that begin in one decision; it looks at all of them once, whatever is asked."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state
        self._known = state.image.storage_groups
        self._begun: dict[int, PartitionImage] = {}
        self._counts: dict[int, int] = {}
        """Partitions of groups that were asked about."""
        self._emptiest_of: dict[Kind, list[tuple[int, int]]] = {}
        """Heaps of partitions and number, as last looked at: partitions only become more. Empty until asked."""
        self._taken: Counter[tuple[int, UUID]] = Counter()
        """Groups in directories of brokers; empty until asked."""
        known = state.image.topics.get(STORAGE_GROUPS)
        self._topic_id: UUID | None = None if known is None else known.topic_id

    def find(self, asked: Asked) -> Found:
        """The group counts when it is taken. Raises KafkaError."""
        if asked.number is not None and asked.number < self._count:
            group = self._group(asked.number)
            asked.check(asked.number, group)
            return Found(asked.number, group)
        if asked.number is None:
            emptiest = self._emptiest(asked)
            if emptiest is not None:
                return Found(emptiest, self._group(emptiest))
        elif asked.number != self._count:
            message = f"{STORAGE_GROUP}: the next storage group has the number {self._count}, not {asked.number}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        return self.begin(asked)

    def begin(self, asked: Asked) -> Found:
        """Raises KafkaError."""
        image, number = self._state.image, self._count
        if image.metadata_version < DIRECTORY_LEVEL:
            message = f"storage groups need level {DIRECTORY_LEVEL} of {METADATA_VERSION}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
        replicas = self._replicas(asked)
        record = PartitionRecord(
            partition_id=number,
            topic_id=self._topic_id or self._state.new_topic_id(),
            replicas=list(replicas),
            isr=list(replicas),
            leader=NO_LEADER,
            leader_epoch=FIRST_EPOCH,
            partition_epoch=FIRST_EPOCH,
            directories=[self.directory(broker) for broker in replicas],
        )
        group = PartitionImage(
            NO_LEADER, FIRST_EPOCH, FIRST_EPOCH, tuple(replicas), tuple(replicas), tuple(record.directories)
        )
        is_first = self._topic_id is None
        topic = [TopicRecord(name=STORAGE_GROUPS, topic_id=record.topic_id)] if is_first else []
        return Found(number, group, [*topic, record])

    def take(self, found: Found, partitions: int) -> None:
        """Its records are part of the decision, and so many partitions join it."""
        self._counts[found.number] = self._partitions(found.number) + partitions
        if found.records:
            self._begun[found.number] = found.group
            if self._emptiest_of:
                for kind in _kinds(found.group):
                    heappush(self._emptiest_of.setdefault(kind, []), (partitions, found.number))
            if self._taken:
                self._taken.update(_places(found.group))
        for record in found.records:
            if isinstance(record, TopicRecord):
                self._topic_id = record.topic_id

    @property
    def _count(self) -> int:
        return len(self._known) + len(self._begun)

    def _group(self, number: int) -> PartitionImage:
        return self._begun[number] if number in self._begun else self._known[number]

    def _partitions(self, number: int) -> int:
        if number not in self._counts:
            topics = self._state.image.topics_of_storage_group(number)
            self._counts[number] = sum(len(topic.partitions) for topic in topics)
        return self._counts[number]

    def _emptiest(self, asked: Asked) -> int | None:
        """Only groups that fit and have room count."""
        if not self._emptiest_of:
            for number in range(self._count):
                for kind in _kinds(self._group(number)):
                    self._emptiest_of.setdefault(kind, []).append((self._partitions(number), number))
            for each in self._emptiest_of.values():
                heapify(each)
        heap = self._emptiest_of.get(asked.kind)
        if not heap:
            return None
        while (now := self._partitions(heap[0][1])) != heap[0][0]:
            heapreplace(heap, (now, heap[0][1]))
        count, number = heap[0]
        return number if count + asked.partitions <= FULL or not count else None

    def _replicas(self, asked: Asked) -> Sequence[int]:
        image = self._state.image
        if asked.replicas is not None:
            check_replicas(image, asked.replicas, None)
            replicas: Sequence[int] = asked.replicas
            refusal = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        else:
            factor = asked.replication_factor or self._state.settings.default_replication_factor
            (replicas,) = place(image.brokers.values(), 1, factor, self._state.chance)
            refusal = ErrorCode.INVALID_REPLICATION_FACTOR
        active = sum(image.brokers[broker].active for broker in replicas)
        if active * 2 <= len(replicas):
            message = (
                f"nobody could lead a storage group on {list(replicas)}: only {active} of these brokers are active"
            )
            raise KafkaError(refusal, message)
        return replicas

    def directory(self, broker_id: int) -> UUID:
        """Has the fewest groups, and wants new replicas if any directory does."""
        broker = self._state.image.brokers[broker_id]
        cordoned = broker.cordoned_directories or ()
        choices = [it for it in broker.directories if it not in cordoned] or list(broker.directories)
        if not choices:
            message = f"broker {broker_id} has not said in which directories it keeps logs"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        if not self._taken:
            for group in (*self._known.values(), *self._begun.values()):
                self._taken.update(_places(group))
        return min(choices, key=lambda choice: self._taken[broker_id, choice])


def _factor(group: PartitionImage) -> int:
    """Counts the replicas after a move, where one is under way."""
    return len(group.replicas) - len(group.removing_replicas)


def _kinds(group: PartitionImage) -> tuple[Kind, ...]:
    """By which it can be asked for."""
    return None, _factor(group), frozenset(group.replicas)


def _places(group: PartitionImage) -> list[tuple[int, UUID]]:
    return [(broker, group.directory_of(broker)) for broker in group.replicas]


def check_voters(number: int, group: PartitionImage, replicas: Collection[int]) -> None:
    Asked(replicas=tuple(replicas)).check(number, group)


def partition_in_group(
    image: ClusterImage, topic_id: UUID, index: int, replicas: Sequence[int], group: PartitionImage
) -> PartitionRecord:
    """Lies where the group's log lies. The group's own partition may lag where a broker with very many was fenced."""

    def is_there(broker_id: int) -> bool:
        broker = image.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    isr = [replica for replica in replicas if replica in group.isr]
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=[replica for replica in isr if is_there(replica)] or isr,
        leader=group.leader if is_there(group.leader) else NO_LEADER,
        leader_epoch=FIRST_EPOCH,
        partition_epoch=FIRST_EPOCH,
        directories=[group.directory_of(broker) for broker in replicas],
    )
